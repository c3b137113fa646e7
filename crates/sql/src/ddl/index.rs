//! `CREATE INDEX` and `DROP INDEX`.
//!
//! **Invariant:** an index has the same position in the description and in the engine's table, so a table that gains or
//! loses an index is copied.

use super::columns::{TableDraft, collation_of};
use super::rewrite::ColumnSource;
use super::{Ddl, DdlResult};
use crate::system::classes;
use catalog::{ConstraintKind, IndexMethod, IndexOrder, Relation, TableInfo};
use statement::error::{SqlError, SqlResult, SqlState};
use statement::refuse;
use std::sync::Arc;
use syntax::ast::{CreateIndex, ExprKind, IndexKey, NullsOrder, ObjectName, SortOrder};
use types::Kind;

impl Ddl<'_> {
    pub(super) fn create_index(&mut self, create: &CreateIndex) -> SqlResult<DdlResult> {
        let CreateIndex {
            name,
            table,
            is_unique,
            is_concurrent,
            if_not_exists,
            method: _,
            keys,
            included,
            nulls_not_distinct,
            parameters,
            tablespace,
            predicate,
        } = create;
        refuse!(
            *nulls_not_distinct => "NULLS NOT DISTINCT", predicate.is_some() => "a partial index",
            tablespace.is_some() => "TABLESPACE of an index",
            keys.iter().chain(included).any(|key| key.has_class_options) => "parameters of an operator class",
        );
        let method = method_of(create)?;
        if *is_concurrent {
            self.notice(
                SqlState::WARNING,
                "CONCURRENTLY is ignored: others that write to the table or lock it wait".to_owned(),
            );
        }
        if !parameters.is_empty() {
            self.notice(SqlState::WARNING, "storage parameters are ignored".to_owned());
        }
        let table = self.indexed_table(table)?;
        let indexed = Relation::Table(Arc::clone(&table));
        self.check_owner(&indexed)?;
        self.check_create_beside(&indexed)?;
        let (mut positions, mut order) = (Vec::new(), Vec::new());
        for key in keys {
            let (position, own) = self.index_key(&table, key, method)?;
            positions.push(position);
            order.push(own);
        }
        let include = included.iter().map(|key| included_column(&table, key)).collect::<SqlResult<Vec<_>>>()?;
        let name = match name {
            Some(name) => name.to_string(),
            None => {
                let mut parts = vec![&*table.name];
                parts.extend(positions.iter().chain(&include).map(|at| &*table.columns[*at].name));
                self.free_name(&parts, "idx", |name| self.is_taken(table.schema, name))
            }
        };
        if self.is_taken(table.schema, &name) {
            let message = format!("relation \"{name}\" already exists");
            if !if_not_exists {
                return Err(SqlError::new(SqlState::DUPLICATE_TABLE, message));
            }
            self.notice(SqlState::DUPLICATE_TABLE, format!("{message}, skipping"));
            return Ok("CREATE INDEX".into());
        }
        // The engine's index has neither a method nor an order: only the description keeps them.
        let mut draft = TableDraft::of(&table);
        let at = self.add_index(&mut draft, name, [positions, include], [*is_unique, false])?;
        draft.indexes[at].method = method;
        if order.iter().any(|one| *one != IndexOrder::default()) {
            draft.indexes[at].order = order;
        }
        self.rebuild(&table, draft, &same_columns(&table))?;
        Ok("CREATE INDEX".into())
    }

    fn indexed_table(&self, name: &ObjectName) -> SqlResult<Arc<TableInfo>> {
        self.binder().table(name).map_err(|error| match self.binder().relation_named(name) {
            Ok(Relation::View(view)) => {
                let message = format!("cannot create index on relation \"{}\"", view.name);
                SqlError::new(SqlState::WRONG_OBJECT_TYPE, message).detail("This operation is not supported for views.")
            }
            _ => error,
        })
    }

    /// Returns the column of an index's key, and its order.
    fn index_key(&mut self, table: &TableInfo, key: &IndexKey, method: IndexMethod) -> SqlResult<(usize, IndexOrder)> {
        let IndexKey { value: _, collation, class, has_class_options: _, order, nulls, span: _ } = key;
        let descends = match order {
            SortOrder::Default | SortOrder::Ascending => false,
            SortOrder::Descending => true,
            SortOrder::Using(_) => return Err(SqlError::unsupported("USING in an index")),
        };
        let nulls_first = match nulls {
            NullsOrder::Default => descends,
            NullsOrder::First => true,
            NullsOrder::Last => false,
        };
        if descends || nulls_first {
            let word = if descends { "DESC" } else { "NULLS FIRST" };
            let message =
                format!("{word} has no effect in an index here: its columns ascend, and it is read in both directions");
            self.notice(SqlState::SUCCESSFUL_COMPLETION, message);
        }
        let Some(name) = column_of(key) else {
            return Err(SqlError::unsupported("an expression in an index"));
        };
        let position = table.column(name).ok_or_else(|| no_column(name))?;
        let kind = table.columns[position].kind.kind;
        if let Some(collation) = collation {
            // All collations sort alike, so only the name is checked.
            collation_of(collation, kind)?;
        }
        let class = class.as_ref().map(|class| self.operator_class(class, kind, method)).transpose()?;
        Ok((position, IndexOrder { descends, nulls_first, class: class.flatten() }))
    }

    /// Returns the operator class of an index's column, or `None` if it is the default of the type.
    fn operator_class(&self, name: &ObjectName, kind: Kind, method: IndexMethod) -> SqlResult<Option<u32>> {
        match &name.parts[..] {
            [class] => classes::named(class, kind, method),
            [schema, class] if &**schema == types::PG_CATALOG => classes::named(class, kind, method),
            [schema, ..] if self.state.schema(schema).is_none() => {
                let message = format!("schema \"{schema}\" does not exist");
                Err(SqlError::new(SqlState::INVALID_SCHEMA_NAME, message))
            }
            _ => classes::named(&name.to_string(), kind, method),
        }
    }

    /// Removes an index from its table.
    pub(super) fn drop_index(&mut self, table: u32, index: u32) -> SqlResult<()> {
        let Some(table) = self.state.table_numbered(table).cloned() else { return Ok(()) };
        let mut draft = TableDraft::of(&table);
        let Some(position) = draft.indexes.iter().position(|one| one.oid == index) else { return Ok(()) };
        remove_index(&mut draft, position);
        self.rebuild(&table, draft, &same_columns(&table))?;
        Ok(())
    }
}

/// Returns the access method of a new index.
///
/// # Errors
/// `0A000`: the method does not exist, or does not support the statement's options.
fn method_of(create: &CreateIndex) -> SqlResult<IndexMethod> {
    let method = match create.method.as_deref() {
        None | Some("btree") => return Ok(IndexMethod::BTree),
        Some("hash") => IndexMethod::Hash,
        Some(other) => {
            return Err(SqlError::unsupported(format_args!("an index of the kind {}", other.to_uppercase())));
        }
    };
    let keys = &create.keys;
    for (is_said, what) in [
        (create.is_unique, "unique indexes"),
        (!create.included.is_empty(), "included columns"),
        (1 < keys.len(), "multicolumn indexes"),
        (keys.iter().any(|key| key.order != SortOrder::Default), "ASC/DESC options"),
        (keys.iter().any(|key| key.nulls != NullsOrder::Default), "NULLS FIRST/LAST options"),
    ] {
        if is_said {
            let message = format!("access method \"{}\" does not support {what}", method.name());
            return Err(SqlError::new(SqlState::FEATURE_NOT_SUPPORTED, message));
        }
    }
    Ok(method)
}

/// Returns the name of the column that a key is, if it is one.
fn column_of(key: &IndexKey) -> Option<&str> {
    match &key.value.kind {
        ExprKind::Column(name) => match &name.parts[..] {
            [name] => Some(name),
            _ => None,
        },
        _ => None,
    }
}

/// Returns the position of an included column of an index.
fn included_column(table: &TableInfo, key: &IndexKey) -> SqlResult<usize> {
    let IndexKey { value: _, collation, class, has_class_options: _, order, nulls, span: _ } = key;
    let Some(name) = column_of(key) else {
        let message = "expressions are not supported in included columns";
        return Err(SqlError::new(SqlState::FEATURE_NOT_SUPPORTED, message));
    };
    let position = table.column(name).ok_or_else(|| no_column(name))?;
    for (is_said, what) in [
        (collation.is_some(), "a collation"),
        (class.is_some(), "an operator class"),
        (*order != SortOrder::Default, "ASC/DESC options"),
        (*nulls != NullsOrder::Default, "NULLS FIRST/LAST options"),
    ] {
        if is_said {
            let message = format!("including column does not support {what}");
            return Err(SqlError::new(SqlState::INVALID_OBJECT_DEFINITION, message));
        }
    }
    Ok(position)
}

fn no_column(name: &str) -> SqlError {
    SqlError::new(SqlState::UNDEFINED_COLUMN, format!("column \"{name}\" does not exist"))
}

/// Returns the sources of a copy that keeps the columns of the old table.
pub(super) fn same_columns(table: &TableInfo) -> Vec<ColumnSource> {
    (0..table.columns.len()).map(ColumnSource::Column).collect()
}

/// Fits the operator classes of a column's indexes to the column's new type.
pub(super) fn settle_classes(draft: &mut TableDraft, column: usize, kind: Kind) -> SqlResult<()> {
    for index in &mut draft.indexes {
        let own = index.columns.iter().zip(&mut index.order).filter(|(position, _)| **position == column);
        for (_, order) in own {
            if let Some(class) = order.class {
                order.class = classes::named(classes::name_of(class), kind, index.method)?;
            }
        }
    }
    Ok(())
}

/// Removes an index from a draft, and adjusts the positions that constraints refer to.
pub(super) fn remove_index(draft: &mut TableDraft, position: usize) {
    draft.indexes.remove(position);
    for constraint in &mut draft.constraints {
        if let ConstraintKind::PrimaryKey { index } | ConstraintKind::Unique { index } = &mut constraint.what
            && position < *index
        {
            *index -= 1;
        }
    }
}
