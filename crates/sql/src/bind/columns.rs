//! Names of columns.

use super::{Binder, Scope};
use crate::error::{SqlError, SqlResult, SqlState};
use crate::parse::folded;
use crate::plan::{Expr, Typed};
use crate::types::SqlType;
use sqlparser::ast::{self, Ident};

/// A column as a name has found it.
pub(super) struct Found {
    pub(super) column: usize,
    pub(super) kind: SqlType,
    /// `table.column`, for messages.
    pub(super) full_name: String,
}

impl Binder<'_> {
    /// A column by its name: here, or in an enclosing query.
    pub(crate) fn column(&self, parts: &[Ident], scope: &Scope<'_>) -> SqlResult<Typed> {
        parts.iter().try_for_each(|part| crate::parse::check_name(self.text, part))?;
        let mut level = 0;
        let mut at = Some(scope);
        while let Some(scope) = at {
            if let Some(found) = self.column_here(parts, scope)? {
                let (column, kind) = self.grouped(found, scope, &parts[0])?;
                let expr = if level == 0 { Expr::Column(column) } else { Expr::Outer { level, column } };
                return Ok(Typed { expr, kind });
            }
            // A table's name hides those further out, whatever columns it has.
            if let [.., table, _] = parts
                && scope.relations.iter().any(|relation| relation.alias == folded(table))
            {
                break;
            }
            at = scope.parent;
            level += 1;
        }
        Err(self.at(self.no_column(parts, scope), &parts[0]))
    }

    fn no_column(&self, parts: &[Ident], scope: &Scope<'_>) -> SqlError {
        match parts {
            [name] => SqlError::new(SqlState::UNDEFINED_COLUMN, format!("column \"{}\" does not exist", folded(name))),
            [table, name] if self.has_relation(&folded(table), scope) => {
                let message = format!("column {}.{} does not exist", folded(table), folded(name));
                SqlError::new(SqlState::UNDEFINED_COLUMN, message)
            }
            _ => {
                let table = folded(&parts[parts.len().saturating_sub(2)]);
                let message = format!("missing FROM-clause entry for table \"{table}\"");
                SqlError::new(SqlState::UNDEFINED_TABLE, message)
            }
        }
    }

    fn has_relation(&self, alias: &str, scope: &Scope<'_>) -> bool {
        let mut at = Some(scope);
        while let Some(scope) = at {
            if scope.relations.iter().any(|relation| relation.alias == alias) {
                return true;
            }
            at = scope.parent;
        }
        false
    }

    fn column_here(&self, parts: &[Ident], scope: &Scope<'_>) -> SqlResult<Option<Found>> {
        let (table, name) = match parts {
            [name] => (None, folded(name)),
            [table, name] => (Some(folded(table)), folded(name)),
            [schema, table, name] if self.catalog.relation_in(&folded(schema), &folded(table)).is_some() => {
                (Some(folded(table)), folded(name))
            }
            _ => return Ok(None),
        };
        let mut found: Option<Found> = None;
        for relation in &scope.relations {
            if table.as_ref().is_some_and(|table| *table != relation.alias) {
                continue;
            }
            for (at, column) in relation.columns.iter().enumerate() {
                if column.name != name || (table.is_none() && relation.hidden.contains(&at)) {
                    continue;
                }
                if found.is_some() {
                    let message = format!("column reference \"{name}\" is ambiguous");
                    return Err(self.at(SqlError::new(SqlState::AMBIGUOUS_COLUMN, message), &parts[0]));
                }
                let full_name = format!("{}.{name}", relation.alias);
                found = Some(Found { column: relation.first + at, kind: column.kind, full_name });
            }
        }
        Ok(found)
    }

    /// After grouping only the groups' columns are there.
    pub(super) fn grouped(&self, found: Found, scope: &Scope<'_>, ident: &Ident) -> SqlResult<(usize, SqlType)> {
        let Found { column, kind, full_name } = found;
        let Some(grouping) = &scope.grouping else { return Ok((column, kind)) };
        let is_it = |(_, group): &(ast::Expr, Typed)| matches!(group.expr, Expr::Column(at) if at == column);
        match grouping.borrow().groups.iter().position(is_it) {
            Some(at) => Ok((at, kind)),
            None => {
                let message = format!(
                    "column \"{full_name}\" must appear in the GROUP BY clause or be used in an aggregate function"
                );
                Err(self.at(SqlError::new(SqlState::GROUPING_ERROR, message), ident))
            }
        }
    }
}
