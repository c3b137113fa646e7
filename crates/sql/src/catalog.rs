//! Schemas, tables, columns: what names stand for.
//!
//! **Invariant:** a table's columns stand in the engine's table in the same order, stored as [`crate::storage`] says.

use crate::error::{SqlError, SqlResult, SqlState};
use crate::types::SqlType;
use engine::Table;
use sqlparser::ast;
use std::collections::BTreeMap;
use std::sync::{Arc, PoisonError, RwLock};

/// The one database.
pub(crate) const DATABASE: &str = "postgres";
/// The one schema.
pub(crate) const PUBLIC: &str = "public";
/// Numbers below are PostgreSQL's own.
const FIRST_OID: u32 = 16_384;

/// A table as SQL sees it.
pub struct TableInfo {
    /// `pg_class.oid`.
    pub oid: u32,
    /// Its name.
    pub name: String,
    /// Its columns, in the order of the engine's table.
    pub columns: Vec<ColumnDef>,
    /// Where its rows are.
    pub table: Arc<Table>,
}

impl std::fmt::Debug for TableInfo {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.name)
    }
}

/// A column of a table.
#[derive(Clone, Debug)]
pub struct ColumnDef {
    /// Its name.
    pub name: String,
    /// Its type.
    pub kind: SqlType,
    /// Whether null is refused.
    pub not_null: bool,
    pub(crate) default: Option<ast::Expr>,
}

impl TableInfo {
    pub(crate) fn column(&self, name: &str) -> Option<usize> {
        self.columns.iter().position(|column| column.name == name)
    }
}

#[derive(Default)]
pub(crate) struct Catalog {
    tables: RwLock<Tables>,
}

#[derive(Default)]
struct Tables {
    by_name: BTreeMap<String, Arc<TableInfo>>,
    made: u32,
}

impl Catalog {
    /// The table of this name.
    pub(crate) fn table(&self, name: &str) -> Option<Arc<TableInfo>> {
        self.tables.read().unwrap_or_else(PoisonError::into_inner).by_name.get(name).cloned()
    }

    /// Adds a table that `make` makes in the engine.
    pub(crate) fn create(
        &self,
        name: &str,
        columns: Vec<ColumnDef>,
        make: impl FnOnce() -> SqlResult<Arc<Table>>,
    ) -> SqlResult<()> {
        let mut tables = self.tables.write().unwrap_or_else(PoisonError::into_inner);
        if tables.by_name.contains_key(name) {
            return Err(SqlError::new(SqlState::DUPLICATE_TABLE, format!("relation \"{name}\" already exists")));
        }
        let table = make()?;
        let oid = FIRST_OID + tables.made;
        tables.made += 1;
        let info = TableInfo { oid, name: name.to_owned(), columns, table };
        tables.by_name.insert(name.to_owned(), Arc::new(info));
        Ok(())
    }
}
