//! `CREATE TABLE`.

use super::{Binder, Scope, refuse};
use crate::catalog::{ColumnDef, PUBLIC};
use crate::error::{SqlError, SqlResult, SqlState};
use crate::ops::Context;
use crate::parse::folded;
use crate::storage::column_type;
use crate::types::Kind;
use engine::{Column, IndexDef, TableDef};
use sqlparser::ast::{self, ColumnOption, TableConstraint};

/// A table to be created.
#[derive(Debug, Clone)]
pub(crate) struct CreateTable {
    pub(crate) name: String,
    pub(crate) if_not_exists: bool,
    pub(crate) columns: Vec<ColumnDef>,
    pub(crate) def: TableDef,
}

/// A key as the statement has it: its name, if any, its columns, whether it is the primary one.
struct Key {
    name: Option<String>,
    columns: Vec<usize>,
    is_primary: bool,
}

impl Binder<'_> {
    pub(crate) fn create_table(&self, create: &ast::CreateTable) -> SqlResult<CreateTable> {
        let parts = self.name_parts(&create.name)?;
        let name = match &parts[..] {
            [name] => name.clone(),
            [schema, name] if schema == PUBLIC => name.clone(),
            [schema, _] => {
                let message = format!("schema \"{schema}\" does not exist");
                return Err(SqlError::new(SqlState::INVALID_SCHEMA_NAME, message));
            }
            _ => return Err(SqlError::unsupported("a name of more than two parts")),
        };
        refuse_others(create)?;
        let mut columns = Vec::with_capacity(create.columns.len());
        let mut keys = Vec::new();
        for column in &create.columns {
            columns.push(self.column_def(column, columns.len(), &mut keys)?);
        }
        for (at, column) in columns.iter().enumerate() {
            if columns[..at].iter().any(|other: &ColumnDef| other.name == column.name) {
                let message = format!("column \"{}\" specified more than once", column.name);
                return Err(SqlError::new(SqlState::DUPLICATE_COLUMN, message));
            }
        }
        for constraint in &create.constraints {
            keys.push(self.key(constraint, &columns)?);
        }
        if 1 < keys.iter().filter(|key| key.is_primary).count() {
            let message = format!("multiple primary keys for table \"{name}\" are not allowed");
            return Err(SqlError::new(SqlState::INVALID_TABLE_DEFINITION, message));
        }
        keys.sort_by_key(|key| !key.is_primary);
        let mut indexes = Vec::new();
        for Key { name: own, columns: of, is_primary } in keys {
            for at in &of {
                let column = &mut columns[*at];
                column.not_null |= is_primary;
                let is_free = column.kind.kind == Kind::Numeric && column_type(column.kind)? == engine::Type::Bytes;
                refuse!(is_free => "a key on numeric of more than 38 digits, or without a precision");
            }
            let suffix = if is_primary {
                "pkey".to_owned()
            } else {
                let names: Vec<&str> = of.iter().map(|at| &*columns[*at].name).collect();
                format!("{}_key", names.join("_"))
            };
            indexes.push(IndexDef::unique(&own.unwrap_or_else(|| format!("{name}_{suffix}")), &of));
        }
        let of_engine = columns.iter().map(|column| {
            let kind = column_type(column.kind)?;
            Ok(Column { name: column.name.clone(), kind, nullable: !column.not_null })
        });
        let def = TableDef { name: name.clone(), columns: of_engine.collect::<SqlResult<_>>()?, indexes };
        Ok(CreateTable { name, if_not_exists: create.if_not_exists, columns, def })
    }

    fn column_def(&self, column: &ast::ColumnDef, at: usize, keys: &mut Vec<Key>) -> SqlResult<ColumnDef> {
        let ast::ColumnDef { name, data_type, options } = column;
        crate::parse::check_name(self.text, name)?;
        let kind = self.type_of(data_type)?;
        let mut def = ColumnDef { name: folded(name), kind, not_null: false, default: None };
        for ast::ColumnOptionDef { name: constraint, option } in options {
            let own = constraint.as_ref().map(folded);
            match option {
                ColumnOption::Null => {}
                ColumnOption::NotNull => def.not_null = true,
                ColumnOption::Default(value) => {
                    // What does not fit is refused now.
                    let bound = self.expr(value, &Scope::default())?;
                    self.coerce(bound, kind, Context::Assignment)?;
                    self.without_parameters()?;
                    def.default = Some(value.clone());
                }
                ColumnOption::PrimaryKey(key) => {
                    refuse!(key.characteristics.is_some() => "a deferrable key");
                    keys.push(Key { name: own, columns: vec![at], is_primary: true });
                }
                ColumnOption::Unique(key) => {
                    refuse!(key.characteristics.is_some() => "a deferrable key",
                        key.nulls_distinct != ast::NullsDistinctOption::None => "NULLS DISTINCT");
                    keys.push(Key { name: own, columns: vec![at], is_primary: false });
                }
                ColumnOption::ForeignKey(_) => return Err(SqlError::unsupported("REFERENCES")),
                ColumnOption::Check(_) => return Err(SqlError::unsupported("CHECK")),
                other => return Err(SqlError::unsupported(format_args!("the column option {other}"))),
            }
        }
        Ok(def)
    }

    fn key(&self, constraint: &TableConstraint, columns: &[ColumnDef]) -> SqlResult<Key> {
        let (name, of, is_primary) = match constraint {
            TableConstraint::PrimaryKey(key) => {
                refuse!(
                    key.characteristics.is_some() => "a deferrable key", !key.index_options.is_empty() => "INCLUDE",
                    key.index_type.is_some() || key.index_name.is_some() => "an index of a key",
                );
                (&key.name, &key.columns, true)
            }
            TableConstraint::Unique(key) => {
                refuse!(
                    key.characteristics.is_some() => "a deferrable key", !key.index_options.is_empty() => "INCLUDE",
                    key.index_type.is_some() || key.index_name.is_some() => "an index of a key",
                    key.nulls_distinct != ast::NullsDistinctOption::None => "NULLS DISTINCT",
                );
                (&key.name, &key.columns, false)
            }
            TableConstraint::ForeignKey(_) => return Err(SqlError::unsupported("FOREIGN KEY")),
            TableConstraint::Check(_) => return Err(SqlError::unsupported("CHECK")),
            other => return Err(SqlError::unsupported(format_args!("{other}"))),
        };
        let mut positions: Vec<usize> = Vec::new();
        for column in of {
            let ast::Expr::Identifier(ident) = &column.column.expr else {
                return Err(SqlError::unsupported("an expression in a key"));
            };
            let wanted = folded(ident);
            let at = columns.iter().position(|column| column.name == wanted).ok_or_else(|| {
                let message = format!("column \"{wanted}\" named in key does not exist");
                SqlError::new(SqlState::UNDEFINED_COLUMN, message)
            })?;
            if positions.contains(&at) {
                let what = if is_primary { "primary key" } else { "unique" };
                let message = format!("column \"{wanted}\" appears twice in {what} constraint");
                return Err(SqlError::new(SqlState::DUPLICATE_COLUMN, message));
            }
            positions.push(at);
        }
        Ok(Key { name: name.as_ref().map(folded), columns: positions, is_primary })
    }
}

/// Whatever else the statement says, compared with one that says nothing else.
fn refuse_others(create: &ast::CreateTable) -> SqlResult<()> {
    let plain = crate::parse::parse("create table t (a int)")?;
    let [crate::parse::Parsed { tree: ast::Statement::CreateTable(plain), .. }] = &plain[..] else {
        return Err(SqlError::new(SqlState::INTERNAL_ERROR, "CREATE TABLE does not parse"));
    };
    refuse!(
        create.temporary => "TEMPORARY", create.unlogged => "UNLOGGED", create.query.is_some() => "CREATE TABLE AS",
        create.like.is_some() => "LIKE", create.inherits.is_some() => "INHERITS",
        create.partition_by.is_some() || create.partition_of.is_some() => "PARTITION",
    );
    let same = ast::CreateTable {
        name: plain.name.clone(),
        columns: plain.columns.clone(),
        constraints: plain.constraints.clone(),
        if_not_exists: plain.if_not_exists,
        ..create.clone()
    };
    refuse!(same != *plain => "an option of CREATE TABLE");
    Ok(())
}
