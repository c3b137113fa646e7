//! Views that use a column of a table, and the consequences for dropping it or changing its type.

use super::Ddl;
use super::drop::DroppedObjects;
use catalog::{Relation, ViewInfo};
use query::bind::NameTarget;
use statement::error::{SqlError, SqlResult, SqlState};
use std::sync::Arc;
use syntax::grammar;

impl Ddl<'_> {
    /// Returns the views whose queries name a column, or join by it.
    fn views_of_column(&self, table: u32, number: i16) -> SqlResult<Vec<Arc<ViewInfo>>> {
        let mut views = Vec::new();
        for view in self.state.views().filter(|view| view.uses.contains(&table)) {
            let binder = self.binder_of_view(view, &view.text).noting();
            binder.query(&grammar::query(&view.text)?, None)?;
            if binder.take_notes().iter().any(|note| note.of == NameTarget::Column(table, number)) {
                views.push(Arc::clone(view));
            }
        }
        views.sort_by_key(|view| view.oid);
        Ok(views)
    }

    /// Adds the views that use a column to the objects that are dropped with it.
    pub(super) fn doom_views(
        &self,
        doomed: &mut DroppedObjects,
        table: u32,
        number: i16,
        column: &str,
    ) -> SqlResult<()> {
        for view in self.views_of_column(table, number)? {
            let view = Relation::View(view);
            let name = format!("view {}", self.shown(&view));
            doomed.depends(name, column);
            doomed.add(view);
        }
        self.follow(doomed)
    }

    /// Refuses to change the type of a column that a view uses.
    ///
    /// # Errors
    /// `0A000`: a view's columns have types of their own.
    pub(super) fn refuse_used_by_views(&self, table: u32, number: i16, column: &str) -> SqlResult<()> {
        let views = self.views_of_column(table, number)?;
        let Some(view) = views.first() else { return Ok(()) };
        let view = self.shown(&Relation::View(Arc::clone(view)));
        let message = "cannot alter type of a column used by a view or rule";
        Err(SqlError::new(SqlState::FEATURE_NOT_SUPPORTED, message)
            .detail(format!("rule _RETURN on view {view} depends on column \"{column}\"")))
    }
}
