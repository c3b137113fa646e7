//! Tables that the program has made in the engine, without a statement: the catalog learns of them.
//!
//! **Invariant:** an adopted table stands in the engine as `CREATE TABLE` would have made it ([`catalog::storage::sql_type`]), so
//! statements read and write it as any other. Whoever made it holds that very table of the engine; so no statement puts another in its
//! place, and none makes promises that those who know nothing of SQL would break (`Ddl::lock` refuses).

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
    /// Puts tables of the engine into the catalog; those that it has already stay as they are. `tpcc.orders` is `orders` of the
    /// schema `tpcc`, which is made if need be; a name without a point is in `public`. The first index is the primary key if
    /// it is unique and of columns that are never null. Waits for who defines something; for ordinary threads, never for
    /// workers.
    ///
    /// # Errors
    /// `0A000` for a column whose SQL type the engine does not know, `42P07` for a name that is taken, by an index too; none of
    /// them is adopted then. What the engine refuses.
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
        // Under the lock: nobody else changes it from here on.
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
                state.add_schema(Schema { oid, name: schema.to_owned(), owner: OWNER.to_owned() })?;
                oid
            }
        };
        let oid = self.catalog.oid()?;
        let columns = table.columns().iter().enumerate().map(|(at, column)| {
            // Statements read and write a column by its SQL type, so it must be stored as that type is.
            let kind = sql_type(column.kind)?;
            if column_type(kind)? != column.kind {
                let message = format!("column \"{}\" of \"{}\" stands otherwise than its type", column.name, name);
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
            owner: OWNER.to_owned(),
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

/// The schema that a table's name in the engine says, and the rest.
fn parts(name: &str) -> (&str, &str) {
    name.split_once('.').unwrap_or((PUBLIC, name))
}
