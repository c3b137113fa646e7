//! Calls of stored code, bound and planned: each is an SQL statement with parameters.
//!
//! Reading and writing by key are statements too, so they check rights, constraints and foreign keys, and maintain
//! indexes, as any other does.
//!
//! **Invariant:** a planned call depends on the state of the catalog, the search path and the settings that it was bound
//! by.

use crate::bind::{Binder, settled};
use crate::keyed::{Keyed, KeyedRead};
use crate::plan::ColumnInfo;
use crate::routine::{BodyStatement, alone};
use catalog::{CatalogState, ConstraintKind, Relation, SessionContext, TableInfo};
use procs::manifest::ManifestTable;
use statement::error::{SqlError, SqlResult, SqlState};
use std::fmt::Write;
use std::sync::Arc;
use syntax::names::quoted_name;
use types::SqlType;

/// State by which calls are bound.
#[derive(Clone, Copy)]
pub struct CallScope<'a> {
    /// Catalog.
    pub catalog: &'a CatalogState,
    /// Search path.
    pub path: &'a [String],
    /// Session.
    pub env: &'a dyn SessionContext,
}

/// Planned statement of stored code.
#[derive(Debug)]
pub struct PlannedCall {
    /// Statement.
    pub statement: BodyStatement,
    /// Types of the parameters.
    pub parameters: Arc<[SqlType]>,
    /// Types of the result's columns; `None` for a statement without a result.
    pub columns: Option<Arc<[SqlType]>>,
}

impl PlannedCall {
    /// Returns the way to the result without the executor, if the call reads one row by its key.
    pub fn keyed_read(&self) -> Option<&KeyedRead> {
        match self.statement.keyed.as_ref()? {
            Keyed::Read(read) => Some(read),
            Keyed::Insert | Keyed::Update(_) | Keyed::Delete(_) => None,
        }
    }

    /// Binds and plans one statement. Types of parameters that are not given follow from their use.
    ///
    /// # Errors
    /// Errors of syntax, names and types; `42601` unless the text is one statement; `0A000` for a statement that is no
    /// query and changes no rows.
    pub fn new(text: &str, parameters: &[Option<SqlType>], scope: CallScope<'_>) -> SqlResult<PlannedCall> {
        let parsed = syntax::grammar::parse(text)?;
        let [parsed] = &parsed[..] else {
            let message = format!("expected one statement, not {}", parsed.len());
            return Err(SqlError::new(SqlState::SYNTAX_ERROR, message));
        };
        let text = parsed.extent.of(text);
        let binder = Binder::new(scope.catalog, scope.path, text, scope.env, parameters.to_vec());
        let (statement, columns) = alone(&binder, &parsed.statement)?;
        let kinds = |columns: Vec<ColumnInfo>| columns.iter().map(|column| settled(column.kind)).collect();
        let parameters = binder.parameter_types()?.into();
        Ok(PlannedCall { statement, parameters, columns: columns.map(kinds) })
    }
}

/// Table that code reaches by its primary key.
#[derive(Debug)]
pub struct CodeTable {
    /// Description of the table.
    pub table: Arc<TableInfo>,
    /// Index of the primary key.
    pub index: usize,
    /// Positions of the key's columns, in the key's order.
    pub key_positions: Box<[usize]>,
    /// Positions of the columns that rows consist of.
    pub column_positions: Box<[usize]>,
    /// Types of the key's columns, in the key's order.
    pub key: Arc<[SqlType]>,
    /// Types of the columns that rows consist of.
    pub columns: Arc<[SqlType]>,
    /// Name of the table in SQL.
    relation: String,
    /// Names of the key's columns in SQL.
    key_names: Vec<String>,
    /// Names of the columns in SQL.
    column_names: Vec<String>,
}

/// Way in which code reaches a table.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum TableCall {
    /// Row of a key.
    Get {
        /// True to lock the row.
        locks: bool,
    },
    /// Insert, or update of the row with the key.
    Put {
        /// True to insert only.
        is_new: bool,
    },
    /// Delete of the row of a key.
    Delete,
    /// Rows whose key begins with so many values.
    Scan {
        /// Number of values.
        prefix: usize,
        /// True for the descending order of the key.
        is_descending: bool,
    },
}

impl CodeTable {
    /// Looks up the table that a manifest names.
    ///
    /// # Errors
    /// `42P01`, `42703`; `42809` for another relation than a table; `42P16` for a table without a primary key.
    pub fn new(named: &ManifestTable, scope: CallScope<'_>) -> SqlResult<CodeTable> {
        let found = scope.catalog.relation_written(scope.path, &named.relation)?;
        let Relation::Table(table) = found else {
            let message = format!("\"{}\" is not a table", named.relation);
            return Err(SqlError::new(SqlState::WRONG_OBJECT_TYPE, message));
        };
        let primary = table.constraints.iter().find_map(|constraint| match constraint.what {
            ConstraintKind::PrimaryKey { index } => Some((index, table.indexes.get(index)?)),
            ConstraintKind::Unique { .. } | ConstraintKind::ForeignKey(_) | ConstraintKind::Check(_) => None,
        });
        let (index, primary) = primary.ok_or_else(|| {
            let message = format!("table \"{}\" has no primary key", table.name);
            SqlError::new(SqlState::INVALID_TABLE_DEFINITION, message)
        })?;
        let position = |name: &String| {
            let wanted = syntax::names::name_parts(name).and_then(|parts| <[String; 1]>::try_from(parts).ok());
            wanted.and_then(|[wanted]| table.column(&wanted)).ok_or_else(|| {
                let message = format!("column \"{name}\" of relation \"{}\" does not exist", table.name);
                SqlError::new(SqlState::UNDEFINED_COLUMN, message)
            })
        };
        let column_positions = named.columns.iter().map(position).collect::<SqlResult<Box<[usize]>>>()?;
        let key_positions: Box<[usize]> = primary.columns.iter().copied().collect();
        let kinds = |positions: &[usize]| positions.iter().map(|at| table.columns[*at].kind).collect();
        let names = |positions: &[usize]| positions.iter().map(|at| quoted_name(&table.columns[*at].name)).collect();
        let schema = scope.catalog.schema_numbered(table.schema).map_or("", |schema| &schema.name);
        Ok(CodeTable {
            index,
            key: kinds(&key_positions),
            key_names: names(&key_positions),
            columns: kinds(&column_positions),
            column_names: names(&column_positions),
            relation: format!("{}.{}", quoted_name(schema), quoted_name(&table.name)),
            table: Arc::clone(table),
            key_positions,
            column_positions,
        })
    }

    /// Binds and plans a call.
    ///
    /// # Errors
    /// Those of [`PlannedCall::new`].
    pub fn plan(&self, call: TableCall, scope: CallScope<'_>) -> SqlResult<PlannedCall> {
        let (text, kinds) = match call {
            TableCall::Get { locks } => {
                let lock = if locks { " FOR UPDATE" } else { "" };
                (format!("{}{lock}", self.select(self.key.len())), &*self.key)
            }
            TableCall::Put { is_new } => (self.insert(is_new), &*self.columns),
            TableCall::Delete => {
                let text = format!("DELETE FROM {} WHERE {}", self.relation, self.key_condition(self.key.len()));
                (text, &*self.key)
            }
            TableCall::Scan { prefix, is_descending } => {
                let order = if is_descending { " DESC" } else { "" };
                let keys: Vec<String> = self.key_names.iter().map(|name| format!("{name}{order}")).collect();
                let text = format!("{} ORDER BY {}", self.select(prefix), keys.join(", "));
                (text, self.key.get(..prefix).unwrap_or(&self.key))
            }
        };
        // Parameters have no modifiers, so that a value is cut or rounded to its column like any other.
        let kinds: Vec<Option<SqlType>> = kinds.iter().map(|column| Some(column.kind.into())).collect();
        PlannedCall::new(&text, &kinds, scope)
    }

    fn select(&self, prefix: usize) -> String {
        let mut text = format!("SELECT {} FROM {}", self.column_names.join(", "), self.relation);
        if 0 < prefix {
            let _ = write!(text, " WHERE {}", self.key_condition(prefix));
        }
        text
    }

    fn key_condition(&self, prefix: usize) -> String {
        let names = self.key_names.iter().take(prefix).enumerate();
        names.map(|(at, name)| format!("{name} = ${}", at + 1)).collect::<Vec<_>>().join(" AND ")
    }

    fn insert(&self, is_new: bool) -> String {
        let values: Vec<String> = (1..=self.columns.len()).map(|number| format!("${number}")).collect();
        let mut text =
            format!("INSERT INTO {} ({}) VALUES ({})", self.relation, self.column_names.join(", "), values.join(", "));
        if is_new {
            return text;
        }
        let others = self.column_names.iter().filter(|name| !self.key_names.contains(name));
        let updates: Vec<String> = others.map(|name| format!("{name} = EXCLUDED.{name}")).collect();
        let keys = self.key_names.join(", ");
        let _ = match &updates[..] {
            [] => write!(text, " ON CONFLICT ({keys}) DO NOTHING"),
            updates => write!(text, " ON CONFLICT ({keys}) DO UPDATE SET {}", updates.join(", ")),
        };
        text
    }
}
