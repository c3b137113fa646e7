//! Typed plans and the expressions in them.
//!
//! The binder builds a *logical* plan. There each FROM clause is a [`JoinTree`] ([`Plan::From`]), which specifies how
//! inputs are joined but not how they are read. Analytics lowers that plan. For the row executor the
//! [planner](crate::planner) replaces each join tree by [`Joins`] ([`Plan::Joins`]): a join order and an access path
//! for each input. All other operators have one algorithm in the row executor, so both kinds of plan share them.
//!
//! **Invariant:** types are resolved: each call has arguments of the declared types, including casts. A row of FROM has
//! a slot for every column of every input, in the order of the statement, whatever the join order is. Each table has
//! one more slot behind its columns, which no query can name: the row id.

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
pub use calls::{AggregateCall, RoutineCall, SetCall, SetFunction, SortKey};
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
/// Function of a cast; it receives the target type.
pub use types::ops::casts::CastEval;
use types::{Kind, SqlType};
pub use walk::{Child, children_of_expr, children_of_plan, is_volatile_plan, rewrite, substitute, visit};
pub(crate) use walk::{
    ChildMut, children_of_expr_mut, children_of_group, children_of_plan_mut, children_of_steps, has_working,
    move_inward, rewrite_plan, visit_plan,
};
pub use window::{Exclude, Frame, FrameBound, FrameUnit, RangeSteps, WindowCall, WindowFunction};
/// Column of a result.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ColumnInfo {
    /// Name of the column.
    pub name: String,
    /// Type of the values.
    pub kind: SqlType,
    /// OID of the table; 0 if the column does not belong to one.
    pub table: u32,
    /// Number of the column in the table, from 1; 0 without a table.
    pub number: i16,
}

/// Returns the columns of a system table as those of a result.
pub(crate) fn columns_of_system(table: &SystemTable) -> Vec<ColumnInfo> {
    let column = |(at, column): (usize, &SystemColumn)| ColumnInfo {
        name: column.name.clone(),
        kind: SqlType::from(column.kind),
        table: table.oid,
        number: at as i16 + 1,
    };
    table.columns.iter().enumerate().map(column).collect()
}

/// Operator of a plan, with its inputs.
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
    /// Grouping: the groups' values, then those of the aggregates and, with grouping sets, the number of the set as
    /// `int4`.
    Aggregate {
        input: Box<Plan>,
        groups: Vec<(Expr, Kind)>,
        /// Grouping sets, each with the indexes of its groups; other groups are null in its rows.
        sets: Option<Vec<Vec<usize>>>,
        calls: Vec<AggregateCall>,
    },
    /// Input rows with the values of window functions appended.
    Windows {
        input: Box<Plan>,
        calls: Vec<WindowCall>,
    },
    /// Input rows with the values of set-returning functions appended: one row for each value, shorter sets padded with
    /// nulls.
    Sets {
        input: Box<Plan>,
        calls: Vec<SetCall>,
    },
    Sort {
        input: Box<Plan>,
        keys: Vec<SortKey>,
    },
    /// Rows that differ in their first columns, which have these types.
    Distinct {
        input: Box<Plan>,
        kinds: Vec<Kind>,
    },
    /// First row of each run of rows with equal values.
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
    /// Row locks. A row whose table row has changed in the meantime is rechecked: first the outer joins, each after
    /// those that it depends on, then the condition.
    Lock {
        input: Box<Plan>,
        locks: Vec<TableRowLock>,
        joins: Vec<OuterJoin>,
        condition: Option<Expr>,
    },
    /// System table, whose rows are computed when they are read.
    System(Arc<SystemTable>),
    /// Rows of an [`Expr::Routine`]: one, unless the function returns a set. It is an expression so that every walk finds
    /// the call among the others.
    Routine(Box<Expr>),
    /// Result of an uncorrelated query, of `WITH` or in an expression. It is computed once in a statement, and found by
    /// this id.
    Shared {
        id: u64,
        plan: Arc<Plan>,
    },
    /// `WITH RECURSIVE`
    Recursive(Arc<Recursive>),
    /// Working table of the recursive query with this id: the rows of its last iteration.
    Working(u64),
    /// Rows that a data-modifying statement of `WITH` returns. The statement runs once, when its rows are first read.
    Modified(Arc<Modify>),
    /// Query with data-modifying statements in its `WITH`. Those whose rows were not read run at its end.
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
    /// `UNION ALL`; otherwise duplicates are removed.
    pub all: bool,
    pub kinds: Vec<Kind>,
    /// Non-recursive term.
    pub first: Plan,
    /// Recursive term, over the rows of the last iteration; an iteration without rows is the last.
    pub step: Plan,
    /// Number of references in the statement. Rows need not be kept for a single one.
    pub references: AtomicUsize,
    /// True if it depends on the row of an enclosing query, so that it is computed for each of them.
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

/// Returns an id for state that is kept while a statement runs. It is unique in the process.
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

/// Row locks on one table, whose columns start at a slot of the row.
#[derive(Clone, Debug)]
#[allow(missing_docs, reason = "the names say it")]
pub struct TableRowLock {
    pub table: Arc<TableInfo>,
    pub first: usize,
    pub mode: RowLock,
    pub wait: Wait,
}

impl TableRowLock {
    /// Returns the slot of the row id.
    pub fn row_id(&self) -> usize {
        self.first + self.table.columns.len()
    }
}

/// Outer join for rechecking a row: the condition, and the slots of the nullable side.
#[derive(Clone, Debug)]
#[allow(missing_docs, reason = "the names say it")]
pub struct OuterJoin {
    pub on: Option<Expr>,
    pub first: usize,
    pub width: usize,
}
