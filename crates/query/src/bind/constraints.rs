//! Constraints that a data-modifying statement must satisfy.
//!
//! **Invariant:** they include the constraints of every table that a referential action changes, at any distance.

use super::write::table_relation;
use super::{Binder, NameScope};
use crate::constraints::{ConstraintRules, IncomingReference, OutgoingReference, TableRules, compared};
use catalog::{ForeignAction, ForeignKey, TableInfo};
use statement::error::{SqlError, SqlResult, SqlState};
use std::sync::Arc;

impl Binder<'_> {
    /// Returns the constraints for changes of a table; `None` if there are none. `removes` means that keys may
    /// disappear, so that incoming references count.
    pub(super) fn rules(&self, table: &Arc<TableInfo>, removes: bool) -> SqlResult<Option<Arc<ConstraintRules>>> {
        let mut rules = ConstraintRules::default();
        let mut left = vec![(Arc::clone(table), removes)];
        while let Some((table, removes)) = left.pop() {
            let is_known = rules.tables.get(&table.oid).is_some_and(|known| !removes || !known.referenced.is_empty());
            if is_known {
                continue;
            }
            let own = self.table_rules(&table, removes)?;
            for referenced in &own.referenced {
                let acts = [referenced.on_delete, referenced.on_update]
                    .iter()
                    .any(|action| !matches!(action, ForeignAction::NoAction | ForeignAction::Restrict));
                if acts && referenced.child.oid != table.oid {
                    left.push((Arc::clone(&referenced.child), true));
                }
            }
            rules.tables.insert(table.oid, own);
        }
        let is_empty = rules.tables.values().all(TableRules::is_empty);
        Ok((!is_empty).then(|| Arc::new(rules)))
    }

    fn table_rules(&self, table: &Arc<TableInfo>, removes: bool) -> SqlResult<TableRules> {
        let mut scope = NameScope::default();
        let relation = super::FromRelation { own: Some(table.oid), ..table_relation(table, table.name.clone(), 0) };
        scope.add(relation, table.columns.len())?;
        let mut checks = Vec::new();
        for (constraint, check) in table.checks() {
            // Positions in its errors would point into the constraint's text instead of the statement's, so they are
            // dropped.
            let condition = syntax::grammar::expression(&check.text)
                .and_then(|tree| self.expr(&tree, &scope))
                .and_then(|value| self.condition(value, "CHECK"))
                .map_err(SqlError::nowhere)?;
            checks.push((constraint.name.clone(), condition));
        }
        checks.sort_by(|(one, _), (other, _)| one.cmp(other));
        let mut references = Vec::new();
        for (constraint, key) in table.foreign_keys() {
            let parent = self.catalog.table_numbered(key.parent).cloned().ok_or_else(lost)?;
            let (parent_columns, parent_index) = parent_key(&parent, key)?;
            references.push((
                constraint.oid,
                OutgoingReference {
                    name: constraint.name.clone(),
                    columns: key.columns.clone(),
                    parent,
                    parent_columns,
                    parent_index,
                    match_full: key.match_full,
                },
            ));
        }
        let mut referenced = Vec::new();
        for child in self.catalog.referencing(table.oid).filter(|_| removes) {
            for (constraint, key) in child.foreign_keys().filter(|(_, key)| key.parent == table.oid) {
                let (columns, index) = parent_key(table, key)?;
                let needs_defaults = [key.on_delete, key.on_update].contains(&ForeignAction::SetDefault);
                let of_defaults = key.columns.iter().filter(|_| needs_defaults);
                let defaults = of_defaults.map(|at| self.default(child, *at)).collect::<SqlResult<_>>()?;
                let begins = |of: &[usize]| {
                    of.len() >= key.columns.len() && of[..key.columns.len()].iter().all(|at| key.columns.contains(at))
                };
                let kinds = |(at, own): (&usize, &usize)| {
                    let (child, parent) = (child.columns[*at].kind.kind, table.columns[*own].kind.kind);
                    (child, compared(child, parent))
                };
                let kinds: Vec<_> = key.columns.iter().zip(&columns).map(kinds).collect();
                // A lookup in the child's index compares values of the index's own types, so it needs these to be the
                // compared types.
                let is_ordered = kinds.iter().all(|(own, compared)| own == compared);
                let child_index = child.table.indexes().iter().position(|def| begins(&def.columns));
                referenced.push((
                    constraint.oid,
                    IncomingReference {
                        name: constraint.name.clone(),
                        columns,
                        index,
                        child: Arc::clone(child),
                        child_columns: key.columns.clone(),
                        compared: kinds.into_iter().map(|(_, compared)| compared).collect(),
                        child_index: child_index.filter(|_| is_ordered),
                        on_delete: key.on_delete,
                        on_update: key.on_update,
                        defaults,
                    },
                ));
            }
        }
        references.sort_by_key(|(oid, _)| *oid);
        referenced.sort_by_key(|(oid, _)| *oid);
        Ok(TableRules {
            table: Arc::clone(table),
            checks,
            references: references.into_iter().map(|(_, reference)| reference).collect(),
            referenced: referenced.into_iter().map(|(_, referenced)| referenced).collect(),
        })
    }
}

/// Returns the positions of the referenced columns, and their unique index.
fn parent_key(parent: &TableInfo, key: &ForeignKey) -> SqlResult<(Vec<usize>, usize)> {
    let columns = key.parent_columns.iter().map(|number| parent.column_numbered(*number).ok_or_else(lost));
    let columns = columns.collect::<SqlResult<Vec<usize>>>()?;
    let is_it = |of: &[usize]| of.len() == columns.len() && of.iter().all(|at| columns.contains(at));
    let index = parent.table.indexes().iter().position(|def| def.unique && is_it(&def.columns)).ok_or_else(lost)?;
    Ok((columns, index))
}

fn lost() -> SqlError {
    SqlError::new(SqlState::INTERNAL_ERROR, "a foreign key has lost what it refers to")
}
