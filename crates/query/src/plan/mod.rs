//! Typed plans and the expressions in them.
//!
//! The binder makes a *logical* plan: in it each FROM clause is a [`JoinTree`] ([`Plan::From`]), which says how sources are
//! joined and nothing about how they are read. Analytics lowers that plan. For the row executor the [planner](crate::planner)
//! replaces each join tree by [`Joins`] ([`Plan::Joins`]): an order of sources and a way to the rows of each. All other
//! operators have one algorithm in the row executor, so both kinds of plan share them.
//!
//! **Invariant:** types are settled: each call has arguments of the kinds it was declared with, casts included. A row of FROM
//! has a place for every column of every source, in the order in which the statement names them, whatever the order in which
//! they are joined. Each table has one more place behind its columns, which no query can name: the row's id.

mod calls;
mod expr;
mod from;
mod hold;
mod joins;
mod same;
mod slots;
mod walk;
mod window;

pub use crate::change::{Assignments, Change, ChangeTarget, ConflictUpdate, Modify, NewValue, OnConflict};
pub use calls::{AggregateCall, SetCall, SetFunction, SortKey};
pub use catalog::{ColumnDef, TableInfo};
use catalog::{SystemColumn, SystemTable};
use engine::{RowLock, Wait};
pub use expr::{AdvisoryCall, Expr, ListId, Over, SequenceCall, Typed};
pub use from::{InputKind, JoinGroup, JoinInput, JoinTree, OuterCondition, all_of, split};
pub use hold::{Hold, TableUse};
pub use joins::{
    Access, FullJoin, FullJoinSide, JoinHashTable, JoinKey, JoinStep, Joins, KeyBound, KeyList, KeyValue, RowSource,
};
pub use same::is_same_constant;
pub(crate) use same::{QueryCopies, is_same, is_same_set};
pub(crate) use slots::{PLACEHOLDERS, add_child, slots_of_plan};
pub use slots::{Slots, slots_of};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
pub use types::ops::Eval;
/// Function of a cast; it is given the type to cast to.
pub use types::ops::casts::CastEval;
use types::{Kind, SqlType};
pub use walk::{Child, children_of_expr, children_of_plan, rewrite, substitute, visit};
pub(crate) use walk::{
    ChildMut, children_of_expr_mut, children_of_group, children_of_plan_mut, children_of_steps, has_working,
    is_volatile_plan, move_inward, rewrite_plan, visit_plan,
};
pub use window::{Exclude, Frame, FrameBound, FrameUnit, RangeSteps, WindowCall, WindowFunction};
/// Column of a result.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ColumnInfo {
    /// Name of the column.
    pub name: String,
    /// Type of the values.
    pub kind: SqlType,
    /// OID of the table, 0 if it is no table's column.
    pub table: u32,
    /// Number of the column in the table, from 1; 0 likewise.
    pub number: i16,
}

/// Returns the columns of a result that has those of a system table.
pub(crate) fn columns_of_system(table: &SystemTable) -> Vec<ColumnInfo> {
    let column = |(at, column): (usize, &SystemColumn)| ColumnInfo {
        name: column.name.clone(),
        kind: SqlType::from(column.kind),
        table: table.oid,
        number: at as i16 + 1,
    };
    table.columns.iter().enumerate().map(column).collect()
}

/// Operator of a query, with its inputs.
#[derive(Clone, Debug)]
#[allow(missing_docs, reason = "the names say it")]
pub enum Plan {
    /// One row without columns.
    Unit,
    Values(Vec<Vec<Expr>>),
    /// FROM clause of a logical plan.
    From(Box<JoinTree>),
    /// FROM clause of a plan for the row executor.
    Joins(Joins),
    Filter {
        input: Box<Plan>,
        condition: Expr,
    },
    Project {
        input: Box<Plan>,
        columns: Vec<Expr>,
    },
    /// Groups: their values, then those of the aggregates; with grouping sets, then the number of the set, an `int4`.
    Aggregate {
        input: Box<Plan>,
        groups: Vec<(Expr, Kind)>,
        /// Grouping sets, each by the numbers of the groups that are in it; the others are null in its rows.
        sets: Option<Vec<Vec<usize>>>,
        calls: Vec<AggregateCall>,
    },
    /// Rows with the values of window functions behind them.
    Windows {
        input: Box<Plan>,
        calls: Vec<WindowCall>,
    },
    /// Rows with the values of sets behind them, side by side, a shorter set filled up with nulls: one row for each value.
    Sets {
        input: Box<Plan>,
        calls: Vec<SetCall>,
    },
    Sort {
        input: Box<Plan>,
        keys: Vec<SortKey>,
    },
    /// Rows that differ in their first columns, which have these kinds.
    Distinct {
        input: Box<Plan>,
        kinds: Vec<Kind>,
    },
    /// The first row of each run of rows with the same values.
    DistinctOn {
        input: Box<Plan>,
        values: Vec<(Expr, Kind)>,
    },
    Limit {
        input: Box<Plan>,
        limit: Option<Expr>,
        offset: Option<Expr>,
    },
    /// `FETCH FIRST ... WITH TIES` of rows in this order.
    Ties {
        input: Box<Plan>,
        keys: Vec<SortKey>,
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
    /// Rows whose table rows are locked. One with a table row that has changed meanwhile is judged anew: its outer joins, each
    /// behind those that it depends on, then the condition.
    Lock {
        input: Box<Plan>,
        locks: Vec<TableRowLock>,
        joins: Vec<OuterJoin>,
        condition: Option<Expr>,
    },
    /// Rows of a table that are made when they are asked for.
    System(Arc<SystemTable>),
    /// Rows of a query that does not depend on where it stands: one of `WITH`, or a subquery. They are made once in a run of
    /// the statement, which knows them by this number.
    Shared {
        id: u64,
        plan: Arc<Plan>,
    },
    /// `WITH RECURSIVE`
    Recursive(Arc<Recursive>),
    /// The rows of the last round of the recursive query of this number.
    Working(u64),
    /// Rows that a statement of `WITH` returns which changes rows; it runs once, when they are first asked for.
    Modified(Arc<Modify>),
    /// Query with statements in its `WITH` that change rows: those whose rows nothing asked for run at its end.
    Modifying {
        modifies: Vec<Arc<Modify>>,
        input: Box<Plan>,
    },
}

/// Recursive query of `WITH`.
#[derive(Debug)]
#[allow(missing_docs, reason = "the names say it")]
pub struct Recursive {
    pub id: u64,
    /// `UNION ALL`; otherwise each row comes once.
    pub all: bool,
    pub kinds: Vec<Kind>,
    /// The first round.
    pub first: Plan,
    /// Next round, over the rows of the one before; the one without rows is the last.
    pub step: Plan,
    /// Number of times that the statement names it. Rows of one that is named once need not be kept.
    pub references: AtomicUsize,
    /// True if it depends on the row of an enclosing query, so that its rows are made again for each.
    pub looks_out: bool,
}

impl Clone for Recursive {
    fn clone(&self) -> Recursive {
        let Recursive { id, all, kinds, first, step, references, looks_out } = self;
        Recursive {
            id: *id,
            all: *all,
            kinds: kinds.clone(),
            first: first.clone(),
            step: step.clone(),
            references: AtomicUsize::new(references.load(Ordering::Relaxed)),
            looks_out: *looks_out,
        }
    }
}

/// Returns a number for what is kept while a statement runs. No two plans of the process have the same one.
pub fn new_id() -> u64 {
    static NEXT: AtomicU64 = AtomicU64::new(0);
    NEXT.fetch_add(1, Ordering::Relaxed)
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs, reason = "the names say it")]
pub enum SetOperation {
    Union,
    Intersect,
    Except,
}

/// Lock of rows of one table, whose columns begin at a place of the row.
#[derive(Clone, Debug)]
#[allow(missing_docs, reason = "the names say it")]
pub struct TableRowLock {
    pub table: Arc<TableInfo>,
    pub first: usize,
    pub mode: RowLock,
    pub wait: Wait,
}

impl TableRowLock {
    /// Returns the place of the table row's id.
    pub fn row_id(&self) -> usize {
        self.first + self.table.columns.len()
    }
}

/// Outer join, as a row is judged anew: its condition, and the places of its nullable side.
#[derive(Clone, Debug)]
#[allow(missing_docs, reason = "the names say it")]
pub struct OuterJoin {
    pub on: Option<Expr>,
    pub first: usize,
    pub width: usize,
}
