//! Statements that change rows, as the binder makes them and the executor runs them.
//!
//! **Invariant:** an input's row has the columns of the table that is changed side by side from `first` on, its row id behind
//! them. Expressions are over that whole row, so that it can be judged anew with the table's columns replaced.

pub use crate::constraints::ConstraintRules;
use crate::plan::{Expr, Plan};
use catalog::TableInfo;
use std::sync::Arc;

/// A statement that changes rows.
#[derive(Clone, Debug)]
#[allow(missing_docs, reason = "the names say it")]
pub enum Change {
    /// Rows of all columns, in order.
    Insert {
        table: Arc<TableInfo>,
        input: Plan,
        conflict: Option<Box<OnConflict>>,
        rules: Option<Arc<ConstraintRules>>,
    },
    Update {
        target: ChangeTarget,
        assignments: Assignments,
        rules: Option<Arc<ConstraintRules>>,
    },
    Delete {
        target: ChangeTarget,
        rules: Option<Arc<ConstraintRules>>,
    },
}

impl Change {
    /// The table that is changed.
    pub fn table(&self) -> &Arc<TableInfo> {
        match self {
            Change::Insert { table, .. } => table,
            Change::Update { target, .. } | Change::Delete { target, .. } => &target.table,
        }
    }

    /// Whether the condition or a new value has a query in it.
    pub fn has_query(&self) -> bool {
        let in_values = |assignments: &Assignments| {
            assignments.values.iter().any(|value| match value {
                NewValue::One(value) => value.has_query(),
                NewValue::Row { .. } => true,
            })
        };
        match self {
            Change::Insert { conflict, .. } => {
                let update = conflict.as_ref().and_then(|conflict| conflict.update.as_ref());
                update.is_some_and(|update| {
                    update.condition.as_ref().is_some_and(Expr::has_query) || in_values(&update.assignments)
                })
            }
            Change::Update { target, assignments, .. } => {
                target.condition.as_ref().is_some_and(Expr::has_query) || in_values(assignments)
            }
            Change::Delete { target, .. } => target.condition.as_ref().is_some_and(Expr::has_query),
        }
    }

    /// Its command tag.
    pub fn tag(&self) -> &'static str {
        match self {
            Change::Insert { .. } => "INSERT 0",
            Change::Update { .. } => "UPDATE",
            Change::Delete { .. } => "DELETE",
        }
    }
}

/// A change, and what it returns of each row. An insert's expressions are over the table's columns; the others' are over the
/// input's row, with the table's columns as they are after an update, or were before a delete.
#[derive(Clone, Debug)]
#[allow(missing_docs, reason = "the names say it")]
pub struct Modify {
    pub change: Change,
    pub returning: Option<Vec<Expr>>,
    /// Statements of its `WITH` that change rows.
    pub with: Vec<Arc<Modify>>,
}

/// What becomes of a row whose key exists.
#[derive(Clone, Debug)]
#[allow(missing_docs, reason = "the names say it")]
pub struct OnConflict {
    /// The indexes that count, by position.
    pub arbiters: Vec<usize>,
    /// Nothing: the row is left out.
    pub update: Option<ConflictUpdate>,
}

/// `DO UPDATE`, over the row that is there, its id, and the row that was to be inserted.
#[derive(Clone, Debug)]
#[allow(missing_docs, reason = "the names say it")]
pub struct ConflictUpdate {
    pub assignments: Assignments,
    pub condition: Option<Expr>,
}

/// `SET`: each column that it names, once, and the values in the same order.
#[derive(Clone, Debug)]
#[allow(missing_docs, reason = "the names say it")]
pub struct Assignments {
    pub columns: Vec<usize>,
    pub values: Vec<NewValue>,
}

#[derive(Clone, Debug)]
#[allow(missing_docs, reason = "the names say it")]
/// The value of one column, or of several.
pub enum NewValue {
    One(Expr),
    /// The one row of a query, of so many columns; nulls if it has none.
    Row {
        plan: Box<Plan>,
        width: usize,
    },
}

/// Which rows.
#[derive(Clone, Debug)]
#[allow(missing_docs, reason = "the names say it")]
pub struct ChangeTarget {
    pub table: Arc<TableInfo>,
    pub input: Plan,
    /// Where the table's columns begin.
    pub first: usize,
    /// To be looked at again when the row has changed meanwhile; over the input's row.
    pub condition: Option<Expr>,
    /// Whether the input may have a row of the table more than once.
    pub is_joined: bool,
    /// The columns that anybody looks at, if that is known and not all: the others may be left out.
    pub needed: Option<Vec<usize>>,
}

impl ChangeTarget {
    /// The column with the row's id.
    pub fn row_id(&self) -> usize {
        self.first + self.table.columns.len()
    }
}
