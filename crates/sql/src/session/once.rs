//! Columns of a statement that may change while it waits for its tables.
//!
//! **Invariant:** columns that a client was told stay as they are. Those that it was not told yet are told with the rows.

use super::{Action, BoundStatement, Session, Statement};
use query::plan::ColumnInfo;
use statement::error::SqlResult;
use std::sync::Arc;
use std::sync::atomic::Ordering;

impl Statement {
    /// Tells whether the columns with which it was bound last have the types of those that were told.
    pub(super) fn keeps_columns(&self, columns: Option<&[ColumnInfo]>) -> bool {
        let types = |columns: Option<&[ColumnInfo]>| {
            columns.map(|columns| columns.iter().map(|column| column.kind).collect::<Vec<_>>())
        };
        types(columns) == types(self.columns())
    }

    /// The same with the columns with which it was run.
    pub(super) fn as_run(self: &Arc<Statement>) -> Arc<Statement> {
        let bound = self.bound();
        if bound.columns.as_deref() == self.columns() {
            return Arc::clone(self);
        }
        let columns = bound.columns.as_deref().map(<[_]>::to_vec);
        let fixed = BoundStatement::fixed(Action::Empty);
        Arc::new(Statement { columns, ..Statement::of(&self.text, fixed) })
    }

    /// Keeps its columns as they are, since somebody knows them now.
    pub fn fix_columns(&self) {
        self.has_fixed_columns.store(true, Ordering::Relaxed);
    }

    /// Lets its columns change while it waits, since nobody knows them yet.
    pub(super) fn unfix_columns(&self) {
        self.has_fixed_columns.store(false, Ordering::Relaxed);
    }

    pub(super) fn has_columns_fixed(&self) -> bool {
        // Once it has run, they are those of its rows.
        self.has_fixed_columns.load(Ordering::Relaxed) || self.later.get().is_some()
    }

    /// It was run: from now on its columns are those of its rows.
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
    /// Analyses one statement whose columns nobody knows yet: if its tables change while it waits for them, its rows have the
    /// new columns, until [`Statement::fix_columns`].
    ///
    /// # Errors
    /// Those of [`Session::prepare`].
    pub fn prepare_once(&mut self, text: &str, types: &[u32]) -> SqlResult<Arc<Statement>> {
        let statement = self.prepare(text, types)?;
        statement.unfix_columns();
        Ok(statement)
    }
}
