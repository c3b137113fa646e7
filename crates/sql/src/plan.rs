//! What the binder makes and the executor runs: typed expressions, and plans that pass rows on one at a time.
//!
//! **Invariant:** types are settled: each call has arguments of the kinds it was declared with, casts included. A row of a plan
//! is all columns of all sources so far, side by side; each table has, behind its columns, one more that no query can name:
//! the row's id.
//!
//! Public for the analytics path, which lowers plans to operators of its own.

pub use crate::catalog::{ColumnDef, TableInfo};
pub use crate::change::{Assignments, Change, ConflictUpdate, Modify, NewValue, OnConflict, Target};
use crate::datum::Datum;
pub use crate::ops::Eval;
/// What computes a cast; it is given the type to cast to.
pub use crate::ops::casts::Convert as CastEval;
use crate::ops::{Aggregate, Function, Operator};
use crate::types::{Kind, SqlType};
use engine::{RowLock, Wait};
use std::sync::Arc;

/// An expression.
#[derive(Clone, Debug)]
#[allow(missing_docs, reason = "the names say it")]
pub enum Expr {
    Constant(Datum),
    /// From 0.
    Parameter(usize),
    /// Of the row.
    Column(usize),
    /// Of the row of an enclosing query, so many levels out, from 1.
    Outer {
        level: usize,
        column: usize,
    },
    /// Strict: null if any argument is.
    Call {
        eval: Eval,
        strict: bool,
        operator: Option<&'static Operator>,
        /// Its line in the table of functions, if it is one's call.
        function: Option<&'static Function>,
        arguments: Vec<Expr>,
    },
    Cast {
        eval: CastEval,
        to: SqlType,
        argument: Box<Expr>,
    },
    And(Vec<Expr>),
    Or(Vec<Expr>),
    Not(Box<Expr>),
    IsNull(Box<Expr>),
    /// Whether it is just this; null is neither.
    IsBool(Box<Expr>, bool),
    /// `IS NOT DISTINCT FROM`.
    IsSame {
        kind: Kind,
        arguments: Box<[Expr; 2]>,
    },
    Case {
        whens: Vec<(Expr, Expr)>,
        otherwise: Box<Expr>,
    },
    Coalesce(Vec<Expr>),
    /// `GREATEST` or `LEAST`; nulls do not count.
    Extreme {
        greatest: bool,
        kind: Kind,
        arguments: Vec<Expr>,
    },
    /// The one value of a query, null if it has no row.
    Scalar(Box<Plan>),
    Exists(Box<Plan>),
    /// Whether any row of the query, or any of the list, is equal.
    InQuery {
        kind: Kind,
        argument: Box<Expr>,
        query: Box<Plan>,
    },
    InList {
        kind: Kind,
        argument: Box<Expr>,
        list: Vec<Expr>,
    },
    /// When the transaction began.
    Now {
        to: SqlType,
    },
    /// A function of a sequence, which is the first argument: by its number, or by its name as text.
    Sequence {
        call: SequenceCall,
        arguments: Vec<Expr>,
    },
}

/// What is asked of a sequence.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SequenceCall {
    /// `nextval`
    Next,
    /// `currval`
    Current,
    /// `setval`, with two arguments or three.
    Set,
    /// `lastval`, without arguments.
    Last,
}

impl Expr {
    /// Whether there is a query in it.
    pub fn has_query(&self) -> bool {
        match self {
            Expr::Scalar(_) | Expr::Exists(_) | Expr::InQuery { .. } => true,
            other => other.parts().into_iter().any(Expr::has_query),
        }
    }

    /// Whether it looks at the row of an enclosing query, queries inside not counted.
    pub fn looks_out(&self) -> bool {
        matches!(self, Expr::Outer { .. }) || self.parts().into_iter().any(Expr::looks_out)
    }

    /// Whether it looks at the row.
    pub fn looks_at_row(&self) -> bool {
        matches!(self, Expr::Column(_)) || self.parts().into_iter().any(Expr::looks_at_row)
    }

    /// What it is made of.
    pub fn parts(&self) -> Vec<&Expr> {
        match self {
            Expr::Constant(_)
            | Expr::Parameter(_)
            | Expr::Column(_)
            | Expr::Outer { .. }
            | Expr::Now { .. }
            | Expr::Scalar(_)
            | Expr::Exists(_) => Vec::new(),
            Expr::Call { arguments, .. }
            | Expr::Sequence { arguments, .. }
            | Expr::And(arguments)
            | Expr::Or(arguments)
            | Expr::Coalesce(arguments)
            | Expr::Extreme { arguments, .. } => arguments.iter().collect(),
            Expr::IsSame { arguments, .. } => arguments.iter().collect(),
            Expr::Cast { argument, .. }
            | Expr::Not(argument)
            | Expr::IsNull(argument)
            | Expr::IsBool(argument, _)
            | Expr::InQuery { argument, .. } => vec![argument],
            Expr::InList { argument, list, .. } => std::iter::once(&**argument).chain(list).collect(),
            Expr::Case { whens, otherwise } => {
                whens.iter().flat_map(|(when, then)| [when, then]).chain([&**otherwise]).collect()
            }
        }
    }
}

/// With its type.
#[derive(Clone, Debug)]
#[allow(missing_docs, reason = "the names say it")]
pub struct Typed {
    pub expr: Expr,
    pub kind: SqlType,
}

/// A source of rows.
#[derive(Clone, Debug)]
#[allow(missing_docs, reason = "the names say it")]
pub enum Plan {
    /// One row without columns.
    Unit,
    Values(Vec<Vec<Expr>>),
    /// For each row of the input each row of the source, side by side, if the condition holds.
    Join {
        input: Box<Plan>,
        source: Source,
        is_outer: bool,
        condition: Option<Expr>,
        width: usize,
    },
    Filter {
        input: Box<Plan>,
        condition: Expr,
    },
    Project {
        input: Box<Plan>,
        columns: Vec<Expr>,
    },
    /// The groups' values, then the aggregates'.
    Aggregate {
        input: Box<Plan>,
        groups: Vec<(Expr, Kind)>,
        calls: Vec<AggregateCall>,
    },
    Sort {
        input: Box<Plan>,
        keys: Vec<SortKey>,
    },
    /// Each row once, by its first columns, of these kinds.
    Distinct {
        input: Box<Plan>,
        kinds: Vec<Kind>,
    },
    Limit {
        input: Box<Plan>,
        limit: Option<Expr>,
        offset: Option<Expr>,
    },
    Set {
        operation: SetOperation,
        all: bool,
        kinds: Vec<Kind>,
        left: Box<Plan>,
        right: Box<Plan>,
    },
    /// Locks rows of the tables; those that have changed meanwhile are judged anew by the condition.
    Lock {
        input: Box<Plan>,
        locks: Vec<Lock>,
        condition: Option<Expr>,
    },
    /// Rows of a table that are made when they are asked for.
    System(Arc<crate::system::SystemTable>),
    /// Rows of an earlier part of the statement: `WITH`.
    Shared(Arc<Plan>),
    /// What a statement of `WITH` that changes rows returns; it is run once, when somebody first asks.
    Modified(Arc<Modify>),
    /// A query with statements in its `WITH` that change rows: those that nobody has asked for are run at its end.
    Modifying {
        modifies: Vec<Arc<Modify>>,
        input: Box<Plan>,
    },
}

/// `UNION`, `INTERSECT`, `EXCEPT`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs, reason = "the names say it")]
pub enum SetOperation {
    Union,
    Intersect,
    Except,
}

/// What a join adds.
#[derive(Clone, Debug)]
#[allow(missing_docs, reason = "the names say it")]
pub enum Source {
    Table {
        table: Arc<TableInfo>,
        access: Access,
    },
    /// A query; one that depends on the input's rows is run for each of them.
    Query {
        plan: Box<Plan>,
        is_lateral: bool,
    },
    /// `generate_series(from, to, step)` of int8.
    Series {
        from: Expr,
        to: Expr,
        step: Option<Expr>,
        kind: SqlType,
    },
}

/// How rows of a table are found. The expressions are over the input's row.
#[derive(Clone, Debug)]
#[allow(missing_docs, reason = "the names say it")]
pub enum Access {
    All,
    /// The leading columns of an index are equal to these; the next one is between the bounds.
    Index {
        index: usize,
        prefix: Vec<Expr>,
        lower: Option<Limit>,
        upper: Option<Limit>,
    },
}

/// One end of a range.
#[derive(Clone, Debug)]
#[allow(missing_docs, reason = "the names say it")]
pub struct Limit {
    pub value: Expr,
    pub inclusive: bool,
}

/// A call of an aggregate over the rows of a group.
#[derive(Clone, Debug)]
#[allow(missing_docs, reason = "the names say it")]
pub struct AggregateCall {
    pub aggregate: &'static Aggregate,
    pub arguments: Vec<Expr>,
    pub argument_kinds: Vec<Kind>,
    pub is_distinct: bool,
    pub filter: Option<Expr>,
}

/// One key of an order.
#[derive(Clone, Debug)]
#[allow(missing_docs, reason = "the names say it")]
pub struct SortKey {
    pub value: Expr,
    pub kind: Kind,
    pub descending: bool,
    pub nulls_first: bool,
}

/// Rows of one table, by the column that has their ids, and where its other columns begin.
#[derive(Clone, Debug)]
#[allow(missing_docs, reason = "the names say it")]
pub struct Lock {
    pub table: Arc<TableInfo>,
    pub first: usize,
    pub mode: RowLock,
    pub wait: Wait,
}

impl Lock {
    /// The column that has the row's id.
    pub fn row_id(&self) -> usize {
        self.first + self.table.columns.len()
    }
}
