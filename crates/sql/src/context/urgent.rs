//! Urgent calls of stored code, prepared: what an urgent context needs of the catalog, the rights and the code.
//!
//! **Invariant:** it depends on the state of the catalog, the search path, the settings and the role that it was made by,
//! as the planned calls of a module do, beside which it is kept.

use super::code::{InstanceKey, InstancePlace, ModuleCode, PlannedTable, SessionCode, isolation_of};
use catalog::{Routine, TableInfo};
use procs::{Channel, Instance, Level, StatementHandle, TableHandle, Tenant};
use query::code::{CallScope, CodeTable, PlannedCall, TableCall};
use query::plan::TableUse;
use statement::error::{SqlError, SqlResult, SqlState};
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use types::SqlType;

/// Table of a module, for urgent calls.
#[derive(Debug)]
pub(crate) struct UrgentTable {
    pub(crate) table: Arc<TableInfo>,
    /// Index of the primary key.
    pub(crate) index: usize,
    /// Positions of the key's columns.
    pub(crate) key: Box<[usize]>,
    /// Positions of the listed columns.
    pub(crate) columns: Box<[usize]>,
    pub(crate) key_types: Arc<[SqlType]>,
    pub(crate) column_types: Arc<[SqlType]>,
    /// Places of the key's columns in the list; `None` if a row cannot be written without defaults.
    pub(crate) key_in_columns: Option<Box<[usize]>>,
    /// Planned calls of the executor that the role has the rights for: get, get and lock, put, insert, delete.
    pub(crate) calls: [Option<Arc<PlannedCall>>; 5],
}

/// Tables and statements of a module, for urgent calls of one role.
#[derive(Debug)]
pub(crate) struct UrgentCode {
    pub(crate) tables: Vec<UrgentTable>,
    pub(crate) statements: Vec<Option<Arc<PlannedCall>>>,
    /// The engine's tables, and the locks of their writers, if the role may write all of them.
    pub(crate) direct: Option<Vec<TableUse>>,
    pub(crate) engine: Vec<Arc<engine::Table>>,
}

impl UrgentTable {
    fn new(planned: &PlannedTable, scope: CallScope<'_>) -> UrgentTable {
        let CodeTable { table, index, key_positions: key, column_positions: columns, .. } = &planned.table;
        let needs_default = table.columns.iter().enumerate().any(|(at, column)| {
            let is_listed = columns.contains(&at);
            column.identity.is_some() || !is_listed && (column.not_null || column.default.is_some())
        });
        let place = |column: &usize| columns.iter().position(|listed| listed == column);
        let key_in_columns = if needs_default { None } else { key.iter().map(place).collect() };
        let calls = [
            TableCall::Get { locks: false },
            TableCall::Get { locks: true },
            TableCall::Put { is_new: false },
            TableCall::Put { is_new: true },
            TableCall::Delete,
        ];
        // A call without the rights for it is refused by the executor.
        let calls = calls.map(|call| planned.call(call, scope).ok());
        UrgentTable {
            table: Arc::clone(table),
            index: *index,
            key: key.clone(),
            columns: columns.clone(),
            key_types: Arc::clone(&planned.table.key),
            column_types: Arc::clone(&planned.table.columns),
            key_in_columns,
            calls,
        }
    }
}

impl UrgentCode {
    /// Prepares the calls of a module for the current role.
    ///
    /// # Errors
    /// Those of the module's tables and statements.
    pub(crate) fn new(code: &ModuleCode, scope: CallScope<'_>) -> SqlResult<UrgentCode> {
        let manifest = &code.module().manifest;
        let mut tables = Vec::with_capacity(manifest.tables.len());
        for number in 0..manifest.tables.len() {
            let planned = code.table(TableHandle(number as u16), scope)?;
            refuse_urgent_table(&planned.table.table, scope)?;
            tables.push(UrgentTable::new(planned, scope));
        }
        let statement = |number| code.statement(StatementHandle(number as u16), scope).ok();
        let statements = (0..manifest.statements.len()).map(statement);
        let statements = statements.map(|call| call.filter(|call| call.keyed_read().is_some())).collect();
        let of_writers = |table: &UrgentTable| match &table.calls {
            [Some(_), _, Some(put), _, Some(_)] => Some(put.statement.uses.clone()),
            _ => None,
        };
        let direct = tables.iter().map(of_writers).collect::<Option<Vec<_>>>().map(|uses| uses.concat());
        let engine = tables.iter().map(|table| Arc::clone(&table.table.table)).collect();
        Ok(UrgentCode { tables, statements, direct, engine })
    }
}

/// Refuses a table whose rows must hold more than its columns and keys say: an urgent call would not check it.
///
/// # Errors
/// `0A000`
pub(crate) fn refuse_urgent_table(table: &TableInfo, scope: CallScope<'_>) -> SqlResult<()> {
    if table.checks().next().is_none()
        && table.foreign_keys().next().is_none()
        && scope.catalog.referencing(table.oid).next().is_none()
    {
        return Ok(());
    }
    let what = format_args!("table \"{}\" in an urgent procedure", table.name);
    Err(SqlError::unsupported(what).detail("The table has checks, or foreign keys from it or to it."))
}

/// Urgent call that is ready but for its arguments.
pub(crate) struct PreparedUrgent {
    pub(crate) code: Arc<UrgentCode>,
    /// Number of the entry.
    pub(crate) entry: u16,
    pub(crate) instance: Box<dyn Instance>,
    /// Place to which the instance returns afterwards.
    pub(crate) place: InstancePlace,
    /// Version of the catalog.
    pub(crate) version: u64,
}

impl SessionCode {
    /// Prepares an urgent call of a procedure. Returns `None` if only the executor can make it.
    ///
    /// # Errors
    /// `42704`: the module does not exist. Those of loading the code and of opening an instance.
    pub(crate) fn prepare_urgent(
        &self,
        routine: &Routine,
        tenant: Tenant,
        (scope, env): (CallScope<'_>, &super::Env),
    ) -> SqlResult<Option<PreparedUrgent>> {
        let (Some((module, entry)), Some((level, channel))) = (routine.module(), routine.level()) else {
            return Ok(None);
        };
        let module = self.module(module, scope.catalog, scope.path, env)?;
        let Some(entry) = module.module().manifest.entry(entry) else { return Ok(None) };
        let Some(artifact) = module.module().artifact(level.artifact()) else { return Ok(None) };
        if !matches!(level, Level::Native | Level::Wasm) || channel != Channel::Direct {
            return Ok(None);
        }
        let code = match module.urgent.get() {
            Some(code) => code,
            None => match UrgentCode::new(&module, scope) {
                Ok(code) => module.urgent.get_or_init(|| Arc::new(code)),
                // Its tables have changed since the procedure was made urgent. The executor knows what to say.
                Err(_) => return Ok(None),
            },
        };
        let limits = routine.isolation.limits;
        let key =
            InstanceKey { digest: artifact.digest(), level, channel, tenant, memory: limits.memory, is_urgent: true };
        self.become_known();
        let program = self.runtimes().program(level, artifact, tenant)?;
        // A kept instance may have served other tables. Of wrong ones, the executor knows what to say.
        if program.prepare_urgent(&code.engine).is_err() {
            return Ok(None);
        }
        let (kept, place) = self.take_instance(key);
        let instance = match kept {
            Some(kept) => kept,
            None => match program.open_urgent(&self.runtimes().tenant(tenant), &limits) {
                // The executor makes room.
                Err(error) if error.state() == SqlState::INSUFFICIENT_RESOURCES => return Ok(None),
                opened => opened?,
            },
        };
        self.level.fetch_max(isolation_of(level) as u8, Relaxed);
        Ok(Some(PreparedUrgent { code: Arc::clone(code), entry, instance, place, version: scope.catalog.version() }))
    }
}
