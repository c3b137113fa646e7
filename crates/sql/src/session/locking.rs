//! Statements that only wait for locks: `LOCK`; `VACUUM`, `ANALYZE`, `REINDEX`, `CLUSTER` and `CHECKPOINT`; and `SET
//! CONSTRAINTS`, as no constraint is deferrable. The objects that they name must exist. They wait for transactions
//! that hold a lock on these in conflict with the mode that PostgreSQL takes.

use super::action::Action;
use catalog::acl::Privileges;
use catalog::rights::{DATABASE_ITSELF, Rights, not_owner};
use catalog::{Relation, TableInfo};
use engine::{TableLock, Wait};
use query::bind::Binder;
use query::plan::Hold;
use settings::roles::CHECKPOINT;
use statement::error::{SqlError, SqlResult, SqlState};
use std::sync::Arc;
use syntax::ast::{
    CommandOption, ConstraintsCommand, LockCommand, MaintenanceCommand, MaintenanceKind, ObjectName, OptionValue,
    TableItem, TableLockMode,
};

/// Options of `VACUUM` and `ANALYZE`.
const VACUUM_OPTIONS: &[&str] = &[
    "full",
    "freeze",
    "verbose",
    "analyze",
    "analyse",
    "disable_page_skipping",
    "skip_locked",
    "index_cleanup",
    "process_toast",
    "truncate",
    "parallel",
];

/// Binds a `LOCK`.
///
/// # Errors
/// Errors for missing tables.
pub(super) fn lock(binder: &Binder<'_>, command: &LockCommand) -> SqlResult<Action> {
    let LockCommand { tables, mode, no_wait } = command;
    let any = privileges_to_lock(*mode);
    let (mode, wait) = (mode_of(*mode), if *no_wait { Wait::NoWait } else { Wait::Block });
    // A table has no children, so ONLY changes nothing; the grammar allows neither aliases nor samples here.
    for TableItem { name, is_only: _, alias: _, is_sampled: _, span: _ } in tables {
        if let Some(table) = table(binder, name)? {
            let need = binder.need(table.oid, Privileges::NONE);
            binder.extend_need(need, |need| need.any = any);
            binder.will_hold(&table, Hold::Lock(mode, wait));
        }
    }
    Ok(Action::LockTable)
}

/// Returns the privileges of which one allows to lock a table in a mode.
fn privileges_to_lock(mode: TableLockMode) -> Privileges {
    let to_change = Privileges::UPDATE | Privileges::DELETE | Privileges::TRUNCATE;
    match mode {
        TableLockMode::AccessShare => Privileges::SELECT,
        TableLockMode::RowExclusive => to_change | Privileges::INSERT,
        TableLockMode::RowShare
        | TableLockMode::ShareUpdateExclusive
        | TableLockMode::Share
        | TableLockMode::ShareRowExclusive
        | TableLockMode::Exclusive
        | TableLockMode::AccessExclusive => to_change,
    }
}

/// Returns the table of a name; `None` for a virtual table, which needs no lock.
fn table(binder: &Binder<'_>, name: &ObjectName) -> SqlResult<Option<Arc<TableInfo>>> {
    match binder.system_table(&binder.qualified(name)?) {
        Some(_) => Ok(None),
        None => binder.table(name).map(Some),
    }
}

fn mode_of(mode: TableLockMode) -> TableLock {
    match mode {
        TableLockMode::AccessShare => TableLock::AccessShare,
        TableLockMode::RowShare => TableLock::RowShare,
        TableLockMode::RowExclusive => TableLock::RowExclusive,
        TableLockMode::ShareUpdateExclusive => TableLock::ShareUpdateExclusive,
        TableLockMode::Share => TableLock::Share,
        TableLockMode::ShareRowExclusive => TableLock::ShareRowExclusive,
        TableLockMode::Exclusive => TableLock::Exclusive,
        TableLockMode::AccessExclusive => TableLock::AccessExclusive,
    }
}

/// Binds a maintenance command.
///
/// # Errors
/// `42601` for an unknown option, and those of missing objects.
pub(super) fn maintenance(binder: &Binder<'_>, command: &MaintenanceCommand) -> SqlResult<Action> {
    let MaintenanceCommand { kind, options: _, targets, index } = command;
    let tag = tag(*kind);
    let mode = maintenance_mode(binder, command, tag)?;
    let rights = Rights::of_session(binder.catalog, binder.env);
    let owns = |owner: u32| rights.as_ref().is_none_or(|rights| rights.owns(owner));
    let mut skipped = Vec::new();
    let is_vacuum = matches!(kind, MaintenanceKind::Vacuum | MaintenanceKind::Analyze);
    let mut hold = |table: Arc<TableInfo>| {
        // These leave out the tables of others; the other commands refuse them.
        if is_vacuum && !owns(table.owner) && !owns(DATABASE_ITSELF.owner) {
            skipped.push(table.name.clone());
            return;
        }
        let need = binder.need(table.oid, Privileges::NONE);
        binder.extend_need(need, |need| need.is_owner = !owns(DATABASE_ITSELF.owner));
        if let Some(mode) = mode {
            binder.will_hold(&table, Hold::Lock(mode, Wait::Block));
        }
    };
    check_maintenance(binder, command, &owns)?;
    // Columns only select statistics, and there are none.
    for (name, _columns) in targets {
        match kind {
            MaintenanceKind::ReindexIndex => hold(owned_index(binder, name, &owns)?),
            MaintenanceKind::ReindexSchema => tables_of_schema(binder, name)?.into_iter().for_each(&mut hold),
            MaintenanceKind::ReindexDatabase => tables_of_database(binder, name)?.into_iter().for_each(&mut hold),
            // The catalog has no indexes.
            MaintenanceKind::ReindexSystem => {}
            MaintenanceKind::Vacuum
            | MaintenanceKind::Analyze
            | MaintenanceKind::Cluster
            | MaintenanceKind::Checkpoint
            | MaintenanceKind::ReindexTable => table(binder, name)?.into_iter().for_each(&mut hold),
        }
        if let Some(index) = index {
            // An index is in the schema of its table.
            let mut own = name.clone();
            own.parts.pop();
            own.parts.push(index.clone());
            hold(table_of_index(binder, &own)?);
        }
    }
    Ok(Action::Maintain { words: tag, skipped })
}

/// Checks the rights of a command that names no table.
///
/// # Errors
/// `42501`
fn check_maintenance(binder: &Binder<'_>, command: &MaintenanceCommand, owns: &dyn Fn(u32) -> bool) -> SqlResult<()> {
    match command.kind {
        MaintenanceKind::ReindexSchema => {
            for (name, _) in &command.targets {
                let schema = binder.catalog.schema(last(name));
                if let Some(schema) = schema.filter(|schema| !owns(schema.owner)) {
                    return Err(not_owner("schema", &schema.name));
                }
            }
            Ok(())
        }
        MaintenanceKind::ReindexDatabase | MaintenanceKind::ReindexSystem if !owns(DATABASE_ITSELF.owner) => {
            Err(not_owner("database", catalog::DATABASE))
        }
        MaintenanceKind::Checkpoint if !owns(CHECKPOINT) => {
            let message = "must be superuser or have privileges of pg_checkpoint to do CHECKPOINT";
            Err(SqlError::new(SqlState::INSUFFICIENT_PRIVILEGE, message))
        }
        MaintenanceKind::Vacuum
        | MaintenanceKind::Analyze
        | MaintenanceKind::Cluster
        | MaintenanceKind::Checkpoint
        | MaintenanceKind::ReindexTable
        | MaintenanceKind::ReindexIndex
        | MaintenanceKind::ReindexDatabase
        | MaintenanceKind::ReindexSystem => Ok(()),
    }
}

fn tag(kind: MaintenanceKind) -> &'static str {
    match kind {
        MaintenanceKind::Vacuum => "VACUUM",
        MaintenanceKind::Analyze => "ANALYZE",
        MaintenanceKind::Cluster => "CLUSTER",
        MaintenanceKind::Checkpoint => "CHECKPOINT",
        MaintenanceKind::ReindexTable
        | MaintenanceKind::ReindexIndex
        | MaintenanceKind::ReindexSchema
        | MaintenanceKind::ReindexDatabase
        | MaintenanceKind::ReindexSystem => "REINDEX",
    }
}

/// Returns the lock mode of a command; `None` for one that only checks that the object exists.
fn maintenance_mode(binder: &Binder<'_>, command: &MaintenanceCommand, tag: &str) -> SqlResult<Option<TableLock>> {
    let MaintenanceCommand { kind, options, targets: _, index: _ } = command;
    let known: &[&str] = match kind {
        MaintenanceKind::Vacuum | MaintenanceKind::Analyze => VACUUM_OPTIONS,
        MaintenanceKind::Cluster => &["verbose"],
        MaintenanceKind::Checkpoint => &[],
        MaintenanceKind::ReindexTable
        | MaintenanceKind::ReindexIndex
        | MaintenanceKind::ReindexSchema
        | MaintenanceKind::ReindexDatabase
        | MaintenanceKind::ReindexSystem => &["verbose", "concurrently", "tablespace"],
    };
    if let Some(other) = options.iter().find(|option| !known.contains(&&*option.name)) {
        let message = format!("unrecognized {tag} option \"{}\"", other.name);
        return Err(binder.at_place(SqlError::new(SqlState::SYNTAX_ERROR, message), other.name.span));
    }
    let is_on = |name: &str| options.iter().any(|option| &*option.name == name && is_on(option));
    Ok(match kind {
        MaintenanceKind::Vacuum | MaintenanceKind::Analyze if is_on("skip_locked") => None,
        MaintenanceKind::Vacuum | MaintenanceKind::Analyze if is_on("full") => Some(TableLock::AccessExclusive),
        MaintenanceKind::Vacuum | MaintenanceKind::Analyze => Some(TableLock::ShareUpdateExclusive),
        MaintenanceKind::Cluster => Some(TableLock::AccessExclusive),
        MaintenanceKind::Checkpoint => None,
        MaintenanceKind::ReindexTable
        | MaintenanceKind::ReindexIndex
        | MaintenanceKind::ReindexSchema
        | MaintenanceKind::ReindexDatabase
        | MaintenanceKind::ReindexSystem => match is_on("concurrently") {
            true => Some(TableLock::ShareUpdateExclusive),
            false => Some(TableLock::Share),
        },
    })
}

/// Returns true unless the value of an option turns it off.
fn is_on(option: &CommandOption) -> bool {
    match &option.value {
        Some(OptionValue::Text(value) | OptionValue::Number(value)) => {
            !["false", "off", "0"].iter().any(|off| value.eq_ignore_ascii_case(off))
        }
        None | Some(OptionValue::Star | OptionValue::List(_)) => true,
    }
}

/// Returns the table of an index that the current role owns.
fn owned_index(binder: &Binder<'_>, name: &ObjectName, owns: &dyn Fn(u32) -> bool) -> SqlResult<Arc<TableInfo>> {
    let table = table_of_index(binder, name)?;
    if owns(table.owner) { Ok(table) } else { Err(not_owner("index", last(name))) }
}

fn table_of_index(binder: &Binder<'_>, name: &ObjectName) -> SqlResult<Arc<TableInfo>> {
    match binder.relation_named(name)? {
        Relation::Index { table, .. } => Ok(Arc::clone(table)),
        other => {
            let message = format!("\"{}\" is not an index", other.name());
            Err(SqlError::new(SqlState::WRONG_OBJECT_TYPE, message))
        }
    }
}

/// Returns the tables of a schema, in the order of their OIDs, in which all sessions lock several tables.
fn tables_of_schema(binder: &Binder<'_>, name: &ObjectName) -> SqlResult<Vec<Arc<TableInfo>>> {
    let name = last(name);
    let schema = binder.catalog.schema(name).ok_or_else(|| {
        let message = format!("schema \"{name}\" does not exist");
        SqlError::new(SqlState::INVALID_SCHEMA_NAME, message)
    })?;
    Ok(tables(binder, |table| table.schema == schema.oid))
}

/// Returns all tables, if the name is that of this database.
fn tables_of_database(binder: &Binder<'_>, name: &ObjectName) -> SqlResult<Vec<Arc<TableInfo>>> {
    if last(name) != catalog::DATABASE {
        let message = "can only reindex the currently open database";
        return Err(SqlError::new(SqlState::FEATURE_NOT_SUPPORTED, message));
    }
    Ok(tables(binder, |_| true))
}

fn tables(binder: &Binder<'_>, wanted: impl Fn(&TableInfo) -> bool) -> Vec<Arc<TableInfo>> {
    let own = binder.catalog.tables().filter(|table| !table.is_adopted && wanted(table));
    let mut own: Vec<_> = own.cloned().collect();
    own.sort_by_key(|table| table.oid);
    own
}

fn last(name: &ObjectName) -> &str {
    name.parts.last().map_or("", |last| last)
}

/// Binds a `SET CONSTRAINTS`.
///
/// # Errors
/// `42704`, `42809`
pub(super) fn constraints(binder: &Binder<'_>, command: &ConstraintsCommand) -> SqlResult<Action> {
    let ConstraintsCommand { names, is_deferred } = command;
    names.iter().try_for_each(|name| check_constraint(binder, name, *is_deferred))?;
    Ok(Action::Maintain { words: "SET CONSTRAINTS", skipped: Vec::new() })
}

/// Checks that a constraint exists, and refuses to defer it.
fn check_constraint(binder: &Binder<'_>, name: &ObjectName, defers: bool) -> SqlResult<()> {
    let wanted = binder.qualified(name)?;
    let schemas: Vec<u32> = match &wanted.schema {
        Some(schema) => binder.catalog.schema(schema).into_iter().map(|schema| schema.oid).collect(),
        None => {
            binder.path.iter().filter_map(|schema| binder.catalog.schema(schema)).map(|schema| schema.oid).collect()
        }
    };
    let is_there = binder
        .catalog
        .tables()
        .filter(|table| schemas.contains(&table.schema))
        .any(|table| table.constraints.iter().any(|constraint| constraint.name == wanted.name));
    if !is_there {
        let message = format!("constraint \"{}\" does not exist", wanted.name);
        return Err(SqlError::new(SqlState::UNDEFINED_OBJECT, message));
    }
    if defers {
        let message = format!("constraint \"{}\" is not deferrable", wanted.name);
        return Err(SqlError::new(SqlState::WRONG_OBJECT_TYPE, message));
    }
    Ok(())
}
