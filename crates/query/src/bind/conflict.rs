//! `ON CONFLICT`: inference of the arbiter indexes, and the action for a conflicting row.
//!
//! **Invariant:** arbiters are unique indexes of exactly the columns that the statement names.

use super::special::{is_collation, no_collation};
use super::write::table_relation;
use super::{Binder, Clause, FromRelation, NameScope};
use crate::change::{ConflictUpdate, OnConflict};
use catalog::TableInfo;
use statement::error::{SqlError, SqlResult, SqlState};
use statement::refuse;
use std::sync::Arc;
use syntax::ast::{self, Arbiter, ExprKind, NullsOrder, OnConflictAction, SortOrder};
use syntax::lex::Span;

impl Binder<'_> {
    /// Binds `ON CONFLICT`. `own` is the target table under the statement's name for it.
    pub(super) fn on_conflict(
        &self,
        on: &ast::OnConflict,
        table: &Arc<TableInfo>,
        own: &FromRelation,
    ) -> SqlResult<OnConflict> {
        let ast::OnConflict { arbiter, action, span } = on;
        let arbiters = match arbiter {
            Arbiter::Any => unique(table).collect(),
            Arbiter::Index { keys, predicate, span } => {
                refuse!(predicate.is_some() => "WHERE behind the columns of ON CONFLICT");
                self.inferred(keys, *span, table)?
            }
            Arbiter::Constraint(name) => {
                let found = unique(table).find(|at| *table.table.indexes()[*at].name == **name);
                vec![found.ok_or_else(|| {
                    let message = format!("constraint \"{name}\" for table \"{}\" does not exist", table.name);
                    SqlError::new(SqlState::UNDEFINED_OBJECT, message)
                })?]
            }
        };
        // Columns of an arbiter are read, by whatever name it is found.
        if let (Some(need), false) = (own.need, matches!(arbiter, Arbiter::Any)) {
            for at in &arbiters {
                if let Some(index) = table.table.indexes().get(*at) {
                    self.note_columns_read(need, table, &index.columns);
                }
            }
        }
        let update = match action {
            OnConflictAction::Nothing => None,
            OnConflictAction::Update(..) if matches!(arbiter, Arbiter::Any) => {
                let message = "ON CONFLICT DO UPDATE requires inference specification or constraint name";
                let error =
                    SqlError::new(SqlState::SYNTAX_ERROR, message).hint("For example, ON CONFLICT (column_name).");
                return Err(self.at_place(error, *span));
            }
            OnConflictAction::Update(assignments, condition) => {
                // The scope has the existing row, with its row id behind the columns, then the row proposed for
                // insertion.
                let mut scope = NameScope::default();
                let width = table.columns.len();
                scope.add(own.clone(), width + 1)?;
                // Reading the proposed row needs the same right as reading the existing one.
                let proposed = table_relation(table, "excluded".to_owned(), width + 1);
                scope.add(FromRelation { need: own.need, ..proposed }, width)?;
                scope.clause.set(Clause::Update);
                let assignments = self.assignments(assignments, table, &scope)?;
                self.need_update(&scope, table, &assignments);
                let condition = match condition {
                    Some(condition) => Some(self.condition(self.expr(condition, &scope)?, "WHERE")?),
                    None => None,
                };
                Some(ConflictUpdate { assignments, condition })
            }
        };
        Ok(OnConflict { arbiters, update })
    }

    /// Infers the unique indexes of exactly these columns. Errors point to the whole list, as in PostgreSQL.
    fn inferred(&self, keys: &[ast::IndexKey], list: Span, table: &TableInfo) -> SqlResult<Vec<usize>> {
        let key = |key: &ast::IndexKey| self.inferred_column(key, table).map_err(|error| self.at_place(error, list));
        let mut wanted = keys.iter().map(key).collect::<SqlResult<Vec<usize>>>()?;
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

    /// Returns the position of the column that a key of `ON CONFLICT` names.
    fn inferred_column(&self, key: &ast::IndexKey, table: &TableInfo) -> SqlResult<usize> {
        let ast::IndexKey { value, collation, class, has_class_options: _, order, nulls, span: _ } = key;
        let not_allowed = |what: &str| {
            let message = format!("{what} is not allowed in ON CONFLICT clause");
            Err(SqlError::new(SqlState::INVALID_COLUMN_REFERENCE, message))
        };
        match order {
            SortOrder::Default => {}
            SortOrder::Ascending | SortOrder::Descending | SortOrder::Using(_) => return not_allowed("ASC/DESC"),
        }
        if *nulls != NullsOrder::Default {
            return not_allowed("NULLS FIRST/LAST");
        }
        let name = match &value.kind {
            ExprKind::Column(name) => match &name.parts[..] {
                [name] => name,
                _ => return Err(SqlError::unsupported("an expression in ON CONFLICT").nowhere()),
            },
            _ => return Err(SqlError::unsupported("an expression in ON CONFLICT").nowhere()),
        };
        if class.is_some() {
            return Err(SqlError::unsupported("an operator class in ON CONFLICT").nowhere());
        }
        let at = table
            .column(name)
            .ok_or_else(|| SqlError::new(SqlState::UNDEFINED_COLUMN, format!("column \"{name}\" does not exist")))?;
        // Any collation is accepted: all of them order as the index does.
        if let Some(collation) = collation
            && !is_collation(collation)
        {
            return Err(no_collation(&collation.to_string()).nowhere());
        }
        Ok(at)
    }
}

/// Positions of the table's unique indexes.
fn unique(table: &TableInfo) -> impl Iterator<Item = usize> + '_ {
    table.table.indexes().iter().enumerate().filter(|(_, def)| def.unique).map(|(at, _)| at)
}
