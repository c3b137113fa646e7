//! Tables that the embedding program has created in the engine without SQL, and their adoption into the catalog.
//!
//! **Invariant:** an adopted table is stored in the engine as `CREATE TABLE` would have made it
//! ([`catalog::storage::sql_type`]), so statements read and write it like any other. The program goes on using that
//! very table of the engine. So no statement replaces it, and none adds constraints that the program, which knows no
//! SQL, would violate (`Ddl::lock` refuses both).

use super::Database;
use catalog::storage::{column_type, sql_type};
use catalog::{
    CatalogState, ColumnDef, Constraint, ConstraintKind, IndexInfo, IndexMethod, ORDER, OWNER, PUBLIC, Relation,
    Schema, TableInfo,
};
use engine::{AdvisoryScope, Begin, SessionOptions, Table, Wait};
use stage::Class;
use statement::error::{SqlError, SqlResult, SqlState};
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use types::PG_CATALOG;

impl Database {
    /// Adds tables of the engine to the catalog; tables that it has already stay as they are. `tpcc.orders` becomes
    /// `orders` in the schema `tpcc`, which is created if needed; a name without a period goes to `public`. The first
    /// index becomes the primary key if it is unique and on columns that are not nullable. Waits for other
    /// definitions, so it is for ordinary threads only, never for workers.
    ///
    /// # Errors
    /// `0A000` for a column type without SQL type, `42P07` for a name that is in use, even by an index; then no table
    /// is adopted. Errors of the engine.
    pub fn adopt(&self, tables: &[Arc<Table>]) -> SqlResult<()> {
        let unknown = |state: &CatalogState| -> Vec<Arc<Table>> {
            let is_known = |table: &Arc<Table>| state.tables().any(|known| Arc::ptr_eq(&known.table, table));
            tables.iter().filter(|table| parts(table.name()).0 != PG_CATALOG && !is_known(table)).cloned().collect()
        };
        if unknown(&self.catalog.current()).is_empty() {
            return Ok(());
        }
        let mut session = self.engine.session(SessionOptions::new(Class::Normal));
        session.begin(Begin::new(Class::Normal))?;
        session.execute(|txn| txn.lock_advisory(ORDER, false, AdvisoryScope::Transaction, Wait::Block))?;
        // No other session changes the catalog while this one has the lock.
        let base = self.catalog.current();
        let mut state = base.next(self.catalog.version());
        for table in unknown(&base) {
            let table = self.described(&mut state, table)?;
            state.add(Relation::Table(Arc::new(table)))?;
        }
        let publication =
            &mut self.catalog.publication(&base, Arc::new(state), Vec::new(), Vec::new(), Default::default());
        session.commit_with(publication)?;
        Ok(())
    }

    fn described(&self, state: &mut CatalogState, table: Arc<Table>) -> SqlResult<TableInfo> {
        let (schema, name) = parts(table.name());
        let schema = match state.schema(schema) {
            Some(schema) => schema.oid,
            None => {
                let oid = self.catalog.oid()?;
                state.add_schema(Schema { oid, name: schema.to_owned(), owner: OWNER })?;
                oid
            }
        };
        let oid = self.catalog.oid()?;
        let columns = table.columns().iter().enumerate().map(|(at, column)| {
            // Statements read and write a column by its SQL type, so it must be stored as that type is.
            let kind = sql_type(column.kind)?;
            if column_type(kind)? != column.kind {
                let message =
                    format!("column \"{}\" of table \"{name}\" is not stored as its SQL type requires", column.name);
                return Err(SqlError::new(SqlState::INTERNAL_ERROR, message));
            }
            let number = at as i16 + 1;
            Ok(ColumnDef {
                name: column.name.clone(),
                number,
                kind,
                not_null: !column.nullable,
                default: None,
                identity: None,
                collation: None,
            })
        });
        let columns = columns.collect::<SqlResult<Vec<_>>>()?;
        let mut indexes = Vec::with_capacity(table.indexes().len());
        let mut constraints = Vec::new();
        for (at, index) in table.indexes().iter().enumerate() {
            // The engine knows no primary keys: the first index is one if it could be.
            let is_primary = at == 0 && index.unique && index.columns.iter().all(|column| columns[*column].not_null);
            indexes.push(IndexInfo {
                oid: self.catalog.oid()?,
                name: index.name.clone(),
                columns: index.columns.clone(),
                method: IndexMethod::BTree,
                include: Vec::new(),
                order: Vec::new(),
                is_unique: index.unique,
                is_primary,
            });
            if is_primary {
                let what = ConstraintKind::PrimaryKey { index: at };
                constraints.push(Constraint::new(self.catalog.oid()?, index.name.clone(), what));
            }
        }
        Ok(TableInfo {
            oid,
            schema,
            name: name.to_owned(),
            owner: OWNER,
            next_column: columns.len() as i16 + 1,
            columns,
            indexes,
            constraints,
            table,
            is_adopted: true,
            counted: Arc::default(),
            retired: AtomicBool::new(false),
        })
    }
}

/// Splits the engine's name of a table into the schema and the name.
fn parts(name: &str) -> (&str, &str) {
    name.split_once('.').unwrap_or((PUBLIC, name))
}
