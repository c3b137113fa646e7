//! `LIKE` among the columns of a table that is made: those of another relation, and what `INCLUDING` says of it.

use super::Ddl;
use super::columns::Draft;
use super::sequence::Numbers;
use catalog::{ColumnDef, ConstraintKind, Identity, IndexMethod, Relation, TableInfo};
use sqlparser::ast::{self, Statement, TableConstraint};
use statement::error::{SqlError, SqlResult, SqlState};
use std::sync::Arc;

/// An index that is made when the table has its columns.
pub(super) struct LikeIndex {
    method: IndexMethod,
    columns: Vec<String>,
    include: Vec<String>,
    order: Vec<catalog::IndexOrder>,
    is_unique: bool,
}

/// What is taken over beside names and types.
struct Including<'o>(Vec<(&'o str, &'o str)>);

impl Including<'_> {
    /// The last word on it counts.
    fn has(&self, what: &str) -> bool {
        let said = self.0.iter().rev().find(|(_, of)| *of == what || *of == "all");
        said.is_some_and(|(word, _)| *word == "including")
    }
}

impl Ddl<'_> {
    pub(super) fn add_like(
        &mut self,
        draft: &mut Draft,
        name: &ast::ObjectName,
        options: Vec<(&str, &str)>,
        pending: &mut Vec<TableConstraint>,
        indexes: &mut Vec<LikeIndex>,
    ) -> SqlResult<()> {
        let including = Including(options);
        let relation = self.binder().relation_named(name)?.clone();
        match &relation {
            Relation::Table(table) => {
                for column in &table.columns {
                    self.add_like_column(draft, table, column, &including)?;
                }
                if including.has("constraints") {
                    for constraint in &table.constraints {
                        if let ConstraintKind::Check(check) = &constraint.what {
                            let constraint = TableConstraint::Check(ast::CheckConstraint {
                                name: Some(ast::Ident::with_quote('"', &constraint.name)),
                                expr: Box::new(check.tree.clone()),
                                no_inherit: false,
                                enforced: None,
                            });
                            pending.push(constraint);
                        }
                    }
                }
                if including.has("indexes") {
                    like_indexes(table, pending, indexes)?;
                }
            }
            Relation::View(view) => {
                for (name, kind) in &view.columns {
                    let number = self.like_number(draft, name)?;
                    draft.columns.push(ColumnDef {
                        name: name.clone(),
                        number,
                        kind: *kind,
                        not_null: false,
                        default: None,
                        identity: None,
                        collation: None,
                    });
                }
            }
            other => {
                let message = format!("relation \"{}\" is invalid in LIKE clause", other.name());
                return Err(SqlError::new(SqlState::WRONG_OBJECT_TYPE, message));
            }
        }
        Ok(())
    }

    /// The number of a new column of this name.
    fn like_number(&self, draft: &mut Draft, name: &str) -> SqlResult<i16> {
        if draft.column(name).is_some() {
            let message = format!("column \"{name}\" specified more than once");
            return Err(SqlError::new(SqlState::DUPLICATE_COLUMN, message));
        }
        draft.next_column += 1;
        Ok(draft.next_column - 1)
    }

    fn add_like_column(
        &mut self,
        draft: &mut Draft,
        table: &TableInfo,
        column: &ColumnDef,
        including: &Including<'_>,
    ) -> SqlResult<()> {
        let number = self.like_number(draft, &column.name)?;
        let default = column.default.clone().filter(|_| including.has("defaults"));
        let mut own = ColumnDef { number, default, identity: None, ..column.clone() };
        if let Some(Identity { always, sequence }) = column.identity
            && including.has("identity")
            && let Some(Relation::Sequence(sequence)) = self.state.relation_numbered(sequence)
        {
            let mut numbers = Numbers::of_sequence(sequence, sequence.kind);
            // A sequence of its own, which begins at the beginning.
            numbers.value = None;
            self.number(draft, &mut own, Some(always), numbers)?;
        }
        if including.has("comments") {
            let comment = self.state.comment(table.oid, column.number).map(str::to_owned);
            self.state.set_comment(draft.oid, number, comment.as_deref());
        }
        draft.columns.push(own);
        Ok(())
    }

    /// Makes the indexes that stand for no constraint, with names of their own.
    pub(super) fn add_like_indexes(&mut self, draft: &mut Draft, indexes: Vec<LikeIndex>) -> SqlResult<()> {
        for LikeIndex { method, columns, include, order, is_unique } in indexes {
            let positions = columns.iter().map(|name| draft.need_column(name)).collect::<SqlResult<Vec<_>>>()?;
            let include = include.iter().map(|name| draft.need_column(name)).collect::<SqlResult<Vec<_>>>()?;
            let mut parts = vec![&*draft.name];
            parts.extend(positions.iter().chain(&include).map(|at| &*draft.columns[*at].name));
            let name = self.free_name(&parts, "idx", |name| self.is_taken_beside(draft, name));
            let at = self.add_index(draft, name, [positions, include], [is_unique, false])?;
            (draft.indexes[at].order, draft.indexes[at].method) = (order, method);
        }
        Ok(())
    }
}

/// Keys stand among the constraints, and get names as if they had been written there.
fn like_indexes(
    table: &Arc<TableInfo>,
    pending: &mut Vec<TableConstraint>,
    indexes: &mut Vec<LikeIndex>,
) -> SqlResult<()> {
    for (position, index) in table.indexes.iter().enumerate() {
        let names = |of: &[usize]| of.iter().map(|at| &*table.columns[*at].name).collect::<Vec<&str>>();
        let (columns, include) = (names(&index.columns), names(&index.include));
        let key = table.constraints.iter().find_map(|constraint| match constraint.what {
            ConstraintKind::PrimaryKey { index } if index == position => Some("PRIMARY KEY"),
            ConstraintKind::Unique { index } if index == position => Some("UNIQUE"),
            _ => None,
        });
        let Some(key) = key else {
            let owned = |names: Vec<&str>| names.into_iter().map(str::to_owned).collect();
            let (columns, include) = (owned(columns), owned(include));
            let (method, order, is_unique) = (index.method, index.order.clone(), index.is_unique);
            indexes.push(LikeIndex { method, columns, include, order, is_unique });
            continue;
        };
        let quoted = |names: &[&str]| {
            let names: Vec<String> = names.iter().map(|name| ast::Ident::with_quote('"', *name).to_string()).collect();
            names.join(", ")
        };
        let beside = if include.is_empty() { String::new() } else { format!(" INCLUDE ({})", quoted(&include)) };
        let text = format!("CREATE TABLE t (a int, {key} ({}){beside})", quoted(&columns));
        let tree = syntax::parse::parse(&text)?.pop().map(|one| one.tree);
        let Some(Statement::CreateTable(mut made)) = tree else {
            return Err(SqlError::new(SqlState::INTERNAL_ERROR, "a key of ours does not parse"));
        };
        pending.extend(made.constraints.pop());
    }
    Ok(())
}
