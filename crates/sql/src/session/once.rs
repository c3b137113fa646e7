//! Columns of a statement that may change while it waits for its tables.
//!
//! **Invariant:** columns that a client was told stay as they are. Those of a statement that is run once are told with its rows.

use super::{Action, Bound, ColumnInfo, Session, Statement};
use crate::error::SqlResult;
use std::sync::Arc;

impl Statement {
    /// Tells whether the columns with which it was bound last have the types of those that were told.
    pub(super) fn keeps_columns(&self, columns: Option<&[ColumnInfo]>) -> bool {
        let types = |columns: Option<&[ColumnInfo]>| {
            columns.map(|columns| columns.iter().map(|column| column.kind).collect::<Vec<_>>())
        };
        types(columns) == types(self.columns.as_deref())
    }

    /// The same with the columns with which it was run.
    pub(super) fn as_run(self: &Arc<Statement>) -> Arc<Statement> {
        let bound = self.bound();
        if bound.columns.as_deref() == self.columns() {
            return Arc::clone(self);
        }
        let columns = bound.columns.as_deref().map(<[_]>::to_vec);
        let fixed = Bound::fixed(Action::Empty);
        Arc::new(Statement { columns, ..Statement::of(&self.text, fixed) })
    }

    /// It was run: from now on its columns are those of its rows.
    pub(super) fn settle(&self) {
        let bound = self.bound();
        if self.is_once
            && bound.columns.as_deref() != self.columns.as_deref()
            && let Some(columns) = &bound.columns
        {
            let _ = self.later.set(Arc::clone(columns));
        }
    }
}

impl Session {
    /// Analyses one statement that is run once, and whose columns nobody asks for before: if its tables change while it waits
    /// for them, its rows have the new columns.
    ///
    /// # Errors
    /// Those of [`Session::prepare`].
    pub fn prepare_once(&mut self, text: &str) -> SqlResult<Arc<Statement>> {
        let statement = self.prepare(text, &[])?;
        Ok(match Arc::try_unwrap(statement) {
            Ok(statement) => Arc::new(Statement { is_once: true, ..statement }),
            Err(statement) => statement,
        })
    }
}
