//! Data-modifying statements, as the binder builds them and the executor runs them.
//!
//! **Invariant:** a row of the input has the columns of the target table adjacent from `first` on, followed by the row
//! id. Expressions refer to that whole row, so that they can be rechecked with a newer version of the target's columns.

pub use crate::constraints::ConstraintRules;
use crate::plan::{Expr, Plan};
use catalog::TableInfo;
use std::sync::Arc;

/// Data-modifying statement.
#[derive(Clone, Debug)]
#[allow(missing_docs, reason = "the names say it")]
pub enum Change {
    /// INSERT. The input's rows have all columns, in the table's order.
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
    /// Returns the target table.
    pub fn table(&self) -> &Arc<TableInfo> {
        match self {
            Change::Insert { table, .. } => table,
            Change::Update { target, .. } | Change::Delete { target, .. } => &target.table,
        }
    }

    /// True if the condition or a new value contains a subquery.
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

    /// Returns the statement's verb.
    pub fn verb(&self) -> &'static str {
        match self {
            Change::Insert { .. } => "INSERT",
            Change::Update { .. } => "UPDATE",
            Change::Delete { .. } => "DELETE",
        }
    }

    /// Returns the command tag.
    pub fn tag(&self) -> &'static str {
        match self {
            Change::Insert { .. } => "INSERT 0",
            Change::Update { .. } => "UPDATE",
            Change::Delete { .. } => "DELETE",
        }
    }
}

/// Data-modifying statement with `RETURNING`. For INSERT, its expressions refer to the table's columns; for the others
/// to the input's row, with the table's columns as they are after an UPDATE or were before a DELETE.
#[derive(Clone, Debug)]
#[allow(missing_docs, reason = "the names say it")]
pub struct Modify {
    pub change: Change,
    pub returning: Option<Vec<Expr>>,
    /// Data-modifying statements of its `WITH`.
    pub with: Vec<Arc<Modify>>,
}

/// Bound `ON CONFLICT` clause: the action for a row whose key exists.
#[derive(Clone, Debug)]
#[allow(missing_docs, reason = "the names say it")]
pub struct OnConflict {
    /// Arbiter indexes, by position.
    pub arbiters: Vec<usize>,
    /// Update of the existing row; with `None`, the proposed row is skipped.
    pub update: Option<ConflictUpdate>,
}

/// `DO UPDATE`. Its row has the existing row, the row id, and the row proposed for insertion.
#[derive(Clone, Debug)]
#[allow(missing_docs, reason = "the names say it")]
pub struct ConflictUpdate {
    pub assignments: Assignments,
    pub condition: Option<Expr>,
}

/// `SET` clause: the target columns, each once, and their values in the same order.
#[derive(Clone, Debug)]
#[allow(missing_docs, reason = "the names say it")]
pub struct Assignments {
    pub columns: Vec<usize>,
    pub values: Vec<NewValue>,
}

#[derive(Clone, Debug)]
#[allow(missing_docs, reason = "the names say it")]
/// New value of one column, or of several.
pub enum NewValue {
    One(Expr),
    /// The single row of a subquery with `width` columns; nulls if it returns none.
    Row {
        plan: Box<Plan>,
        width: usize,
    },
}

/// Rows to update or delete.
#[derive(Clone, Debug)]
#[allow(missing_docs, reason = "the names say it")]
pub struct ChangeTarget {
    pub table: Arc<TableInfo>,
    pub input: Plan,
    /// Slot of the table's first column.
    pub first: usize,
    /// Qual over the input's row, which is rechecked if the row has changed in the meantime.
    pub condition: Option<Expr>,
    /// True if the input may have a row of the table more than once.
    pub is_joined: bool,
    /// Columns that are read, if they are known and not all; the others may be left out.
    pub needed: Option<Vec<usize>>,
}

impl ChangeTarget {
    /// Returns the slot of the row id.
    pub fn row_id(&self) -> usize {
        self.first + self.table.columns.len()
    }
}
