//! Columns of a statement that may change while it waits for its tables.
//!
//! **Invariant:** columns that were sent to the client stay as they are. Otherwise they are sent with the rows.

use super::{Action, BoundStatement, Session, Statement};
use query::plan::ColumnInfo;
use statement::error::SqlResult;
use std::sync::Arc;
use std::sync::atomic::Ordering;

impl Statement {
    /// Returns true if the columns of the latest binding have the types of those that were sent.
    pub(super) fn keeps_columns(&self, columns: Option<&[ColumnInfo]>) -> bool {
        let types = |columns: Option<&[ColumnInfo]>| {
            columns.map(|columns| columns.iter().map(|column| column.kind).collect::<Vec<_>>())
        };
        types(columns) == types(self.columns())
    }

    /// Returns the statement with the columns of its run.
    pub(super) fn as_run(self: &Arc<Statement>) -> Arc<Statement> {
        let bound = self.bound();
        if bound.columns.as_deref() == self.columns() {
            return Arc::clone(self);
        }
        let columns = bound.columns.as_deref().map(<[_]>::to_vec);
        let fixed = BoundStatement::fixed(Action::Empty);
        Arc::new(Statement { columns, ..Statement::of(&self.text, fixed) })
    }

    /// Fixes the columns, since the client knows them now.
    pub fn fix_columns(&self) {
        self.has_fixed_columns.store(true, Ordering::Relaxed);
    }

    /// Lets the columns change while the statement waits, since the client does not know them yet.
    pub(super) fn unfix_columns(&self) {
        self.has_fixed_columns.store(false, Ordering::Relaxed);
    }

    pub(super) fn has_columns_fixed(&self) -> bool {
        // After the run, the columns are those of its rows.
        self.has_fixed_columns.load(Ordering::Relaxed) || self.later.get().is_some()
    }

    /// Notes the run: from now on the columns are those of its rows.
    pub(super) fn settle(&self) {
        let bound = self.bound();
        if !self.has_columns_fixed()
            && bound.columns.as_deref() != self.columns.as_deref()
            && let Some(columns) = &bound.columns
        {
            let _ = self.later.set(Arc::clone(columns));
        }
    }
}

impl Session {
    /// Analyses a statement whose columns the client does not know yet. If its tables change while it waits for them,
    /// its rows have the new columns, until [`Statement::fix_columns`].
    ///
    /// # Errors
    /// Errors of [`Session::prepare`].
    pub fn prepare_once(&mut self, text: &str, types: &[u32]) -> SqlResult<Arc<Statement>> {
        let statement = self.prepare(text, types)?;
        statement.unfix_columns();
        Ok(statement)
    }
}
