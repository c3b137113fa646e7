//! `ON CONFLICT`: which keys count, and what becomes of a row whose key is there.
//!
//! **Invariant:** the indexes that count are unique ones of exactly the columns that the statement names.

use super::write::table_relation;
use super::{Binder, Clause, Relation, Scope};
use crate::change::{ConflictUpdate, OnConflict};
use crate::plan::Place;
use catalog::TableInfo;
use sqlparser::ast::{self, Spanned};
use statement::error::{SqlError, SqlResult, SqlState};
use std::sync::Arc;
use syntax::parse::folded;

impl Binder<'_> {
    /// `own`: the table as the statement names it.
    pub(super) fn on_conflict(
        &self,
        on: &ast::OnInsert,
        table: &Arc<TableInfo>,
        own: &Relation,
    ) -> SqlResult<OnConflict> {
        let ast::OnInsert::OnConflict(ast::OnConflict { conflict_target, action }) = on else {
            return Err(SqlError::unsupported("ON DUPLICATE KEY"));
        };
        let arbiters = match conflict_target {
            None => unique(table).collect(),
            Some(ast::ConflictTarget::Columns(columns)) => self.inferred(columns, table)?,
            Some(ast::ConflictTarget::OnConstraint(name)) => {
                let parts = self.name_parts(name)?;
                let [constraint] = &parts[..] else {
                    return Err(SqlError::new(SqlState::SYNTAX_ERROR, "syntax error: a constraint has one name"));
                };
                let found = unique(table).find(|at| table.table.indexes()[*at].name == *constraint);
                vec![found.ok_or_else(|| {
                    let message = format!("constraint \"{constraint}\" for table \"{}\" does not exist", table.name);
                    SqlError::new(SqlState::UNDEFINED_OBJECT, message)
                })?]
            }
        };
        let update = match action {
            ast::OnConflictAction::DoNothing => None,
            ast::OnConflictAction::DoUpdate(update) if conflict_target.is_none() => {
                let message = "ON CONFLICT DO UPDATE requires inference specification or constraint name";
                let error =
                    SqlError::new(SqlState::SYNTAX_ERROR, message).hint("For example, ON CONFLICT (column_name).");
                let place = update.assignments.first().map_or(Place::NOWHERE, |one| one.target.span().into());
                return Err(self.at_place(error, self.source.word_before(place, &["ON"])));
            }
            ast::OnConflictAction::DoUpdate(ast::DoUpdate { assignments, selection }) => {
                let mut scope = Scope::default();
                let width = table.columns.len();
                scope.add(own.clone(), width + 1)?;
                scope.add(table_relation(table, "excluded".to_owned(), width + 1), width)?;
                scope.clause.set(Clause::Update);
                let assignments = self.assignments(assignments, table, &scope)?;
                let condition = match selection {
                    Some(selection) => Some(self.condition(self.expr(selection, &scope)?, "WHERE")?),
                    None => None,
                };
                Some(ConflictUpdate { assignments, condition })
            }
        };
        Ok(OnConflict { arbiters, update })
    }

    /// The unique indexes of just these columns.
    fn inferred(&self, columns: &[ast::Ident], table: &TableInfo) -> SqlResult<Vec<usize>> {
        let mut wanted = columns
            .iter()
            .map(|column| {
                table.column(&folded(column)).ok_or_else(|| {
                    let message = format!("column \"{}\" does not exist", folded(column));
                    // The place is that of the whole list.
                    let first = columns.first().map_or(Place::NOWHERE, |first| first.span.into());
                    self.at_place(SqlError::new(SqlState::UNDEFINED_COLUMN, message), self.source.parenthesis(first))
                })
            })
            .collect::<SqlResult<Vec<usize>>>()?;
        wanted.sort_unstable();
        wanted.dedup();
        let is_it = |at: &usize| {
            let mut of = table.table.indexes()[*at].columns.clone();
            of.sort_unstable();
            of.dedup();
            of == wanted
        };
        let found: Vec<usize> = unique(table).filter(is_it).collect();
        if found.is_empty() {
            let message = "there is no unique or exclusion constraint matching the ON CONFLICT specification";
            return Err(SqlError::new(SqlState::INVALID_COLUMN_REFERENCE, message));
        }
        Ok(found)
    }
}

/// The unique indexes, by position.
fn unique(table: &TableInfo) -> impl Iterator<Item = usize> + '_ {
    table.table.indexes().iter().enumerate().filter(|(_, def)| def.unique).map(|(at, _)| at)
}
