//! Action of a statement after its names and types are resolved.

use crate::ddl::role;
use crate::session::cursors::{Declare, Fetch};
use crate::session::explain::Explain;
use crate::session::prepared::Execute;
use catalog::{Relation, TableInfo};
use engine::{TableLock, Wait};
use query::bind::{Binder, Bound, CopyFrom, CopyTo, Written, column_info};
use query::change::Modify;
use query::plan::ColumnInfo;
use query::plan::{Hold, Plan};
use settings::roles::change::RoleChange;
use sqlparser::ast::{self, Set, Statement, TransactionAccessMode, TransactionIsolationLevel, TransactionMode};
use statement::error::{SqlError, SqlResult, SqlState};
use statement::refuse;
use std::sync::Arc;
use syntax::parse::copy_options::Written as CopyOption;
use syntax::parse::folded;
use syntax::parse::maintenance::{self, Target};
use types::Kind;

/// Bound statement, ready to run.
#[derive(Debug)]
pub(crate) enum Action {
    Empty,
    Query(Box<Plan>),
    Change(Box<Modify>),
    CopyFrom(Box<CopyFrom>),
    CopyTo(Box<CopyTo>),
    /// Is bound when it runs.
    Define(Box<Statement>),
    Prepare {
        name: String,
        types: Vec<ast::DataType>,
        statement: Box<Statement>,
    },
    Execute(Execute),
    Explain(Box<Explain>),
    Declare(Box<Declare>),
    Fetch(Fetch),
    /// The next rows of the portal of this name; its value is how many.
    Advance(String),
    /// Nothing: all.
    Close(Option<String>),
    /// Nothing: all.
    Deallocate(Option<String>),
    /// The statement's locks are all that it does.
    LockTable,
    /// What changes no answer: `ANALYZE`, `VACUUM`; `UNLISTEN`, as nobody listens.
    Nothing(&'static str),
    /// Waits for who has locked what it names, and does nothing.
    Maintain(&'static str),
    Begin {
        modes: Modes,
        is_start: bool,
    },
    /// `COMMIT`, `ROLLBACK`
    End {
        commits: bool,
        /// True if another transaction like it follows.
        chain: bool,
    },
    Savepoint(String),
    RollbackTo(String),
    Release(String),
    SetTransaction(Modes),
    /// Of the transactions that begin from now on.
    SetCharacteristics(Modes),
    /// Nothing: back to the default.
    Set {
        name: String,
        value: Option<String>,
        is_local: bool,
    },
    ResetAll,
    Show(String),
    ShowAll,
    Discard(ast::DiscardObject),
    Role(RoleChange),
}

/// `ISOLATION LEVEL`, `READ ONLY`: names and values of settings.
pub(crate) type Modes = Vec<(&'static str, &'static str)>;

impl Action {
    /// Whether it depends on what names stand for.
    pub(crate) fn uses_catalog(&self) -> bool {
        matches!(
            self,
            Action::Query(_)
                | Action::Change(_)
                | Action::CopyFrom(_)
                | Action::CopyTo(_)
                | Action::LockTable
                | Action::Maintain(_)
        )
    }

    /// Whether it is done even in a transaction that has failed.
    pub(crate) fn ends_or_goes_back(&self) -> bool {
        matches!(self, Action::End { .. } | Action::RollbackTo(_) | Action::Empty)
    }
}

/// Binds a statement; also the columns of its rows, if it has rows.
pub(crate) fn of_statement(binder: &Binder<'_>, statement: &Statement) -> SqlResult<(Action, Option<Vec<ColumnInfo>>)> {
    Ok(match statement {
        Statement::Query(query) if query::bind::is_change(query) => written(binder, binder.modifying(query)?),
        Statement::Query(query) => {
            let Bound { mut plan, mut columns, simple: _, names: _ } = binder.query(query, None)?;
            columns.iter_mut().for_each(|column| column.kind = query::bind::settled(column.kind));
            refuse!(columns.iter().any(|column| column.name.contains('\0')) => "a composite value in a result");
            let modifies = binder.take_modifies();
            if !modifies.is_empty() {
                plan = Plan::Modifying { modifies, input: Box::new(plan) };
            }
            (Action::Query(Box::new(plan)), Some(columns))
        }
        Statement::Insert(insert) => written(binder, binder.insert(insert)?),
        Statement::Update(update) => written(binder, binder.update(update)?),
        Statement::Delete(delete) => written(binder, binder.delete(delete)?),
        Statement::CreateRole(create) => (Action::Role(role::create(create)?), None),
        Statement::AlterRole { name, operation } => (Action::Role(role::alter(name, operation)?), None),
        Statement::Drop {
            object_type: ast::ObjectType::Role,
            if_exists,
            names,
            cascade: false,
            restrict: false,
            purge: false,
            temporary: false,
            table: None,
        } => (Action::Role(role::drop(names, *if_exists)?), None),
        definition if crate::ddl::is_definition(definition) => (Action::Define(Box::new(definition.clone())), None),
        Statement::Prepare { name, data_types, statement } => {
            let (name, types) = (folded(name), data_types.clone());
            (Action::Prepare { name, types, statement: statement.clone() }, None)
        }
        Statement::Deallocate { name, prepare: _ } => {
            let is_all = name.quote_style.is_none() && name.value.eq_ignore_ascii_case("all");
            (Action::Deallocate((!is_all).then(|| folded(name))), None)
        }
        Statement::Lock(lock) => (lock_table(binder, lock)?, None),
        Statement::Analyze(_) => (Action::Nothing("ANALYZE"), None),
        Statement::Vacuum(_) => (Action::Nothing("VACUUM"), None),
        Statement::UNLISTEN { channel: _ } => (Action::Nothing("UNLISTEN"), None),
        Statement::StartTransaction {
            modes,
            begin,
            transaction: _,
            modifier: None,
            statements,
            exception: None,
            has_end_keyword: false,
        } if statements.is_empty() => (Action::Begin { modes: modes_of(modes)?, is_start: !*begin }, None),
        Statement::Commit { chain, end: _, modifier: None } => (Action::End { commits: true, chain: *chain }, None),
        Statement::Rollback { chain, savepoint: None } => (Action::End { commits: false, chain: *chain }, None),
        Statement::Rollback { chain: false, savepoint: Some(name) } => (Action::RollbackTo(folded(name)), None),
        Statement::Commit { .. } | Statement::Rollback { .. } => {
            return Err(SqlError::unsupported("this statement"));
        }
        Statement::Savepoint { name } => (Action::Savepoint(folded(name)), None),
        Statement::ReleaseSavepoint { name } => (Action::Release(folded(name)), None),
        Statement::Set(assignment) => (set(binder, assignment)?, None),
        Statement::Reset(ast::ResetStatement { reset }) => match reset {
            ast::Reset::ALL => (Action::ResetAll, None),
            ast::Reset::ConfigurationParameter(name) => {
                let name = binder.name_parts(name)?.join(".");
                (Action::Set { name, value: None, is_local: false }, None)
            }
            ast::Reset::SessionAuthorization => {
                return Err(SqlError::unsupported("RESET SESSION AUTHORIZATION"));
            }
        },
        Statement::ShowVariable { variable } => show(&variable.iter().map(folded).collect::<Vec<_>>().join(".")),
        Statement::Close { cursor: ast::CloseCursor::All } => (Action::Close(None), None),
        Statement::Close { cursor: ast::CloseCursor::Specific { name } } => (Action::Close(Some(folded(name))), None),
        Statement::Discard { object_type } => (Action::Discard(*object_type), None),
        other => {
            let text = other.to_string();
            let words: Vec<&str> = text.split_whitespace().take(2).collect();
            return Err(match other {
                Statement::Copy { .. } => SqlError::unsupported("COPY with a file or program of the server"),
                _ => SqlError::unsupported(format_args!("the statement {}", words.join(" "))),
            });
        }
    })
}

/// The same for a COPY from or to the client; `options` stand behind that.
pub(crate) fn of_copy(
    binder: &Binder<'_>,
    statement: &Statement,
    options: &[CopyOption],
) -> SqlResult<(Action, Option<Vec<ColumnInfo>>)> {
    Ok(match binder.copy_from(statement, options)? {
        Some(from) => (Action::CopyFrom(Box::new(from)), None),
        None => (Action::CopyTo(Box::new(binder.copy_to(statement, options)?)), None),
    })
}

fn written(binder: &Binder<'_>, written: Written) -> (Action, Option<Vec<ColumnInfo>>) {
    let Written { mut modify, columns } = written;
    modify.with = binder.take_modifies();
    (Action::Change(Box::new(modify)), columns)
}

fn lock_table(binder: &Binder<'_>, lock: &ast::Lock) -> SqlResult<Action> {
    let ast::Lock { tables, lock_mode, nowait } = lock;
    let (mode, wait) = (lock_mode_of(lock_mode.as_ref()), if *nowait { Wait::NoWait } else { Wait::Block });
    let mut action = Action::LockTable;
    let hold = |table: &Arc<TableInfo>, action: &Action| {
        let only_looks = matches!(action, Action::Maintain(_)) && mode == TableLock::AccessShare;
        if !only_looks {
            binder.will_hold(table, Hold::Lock(mode, wait));
        }
    };
    for ast::LockTableTarget { name, only: _, has_asterisk: _ } in tables {
        match maintenance::target(name) {
            Target::Tag(tag) => action = Action::Maintain(tag),
            // What is made when it is read needs no care, and no lock.
            Target::Table(name) if binder.system_table(&binder.qualified(&name)?).is_some() => {}
            Target::Table(name) => hold(&binder.table(&name)?, &action),
            Target::Index(name) => match binder.relation_named(&name)? {
                Relation::Index { table, .. } => hold(table, &action),
                other => {
                    let message = format!("\"{}\" is not an index", other.name());
                    return Err(SqlError::new(SqlState::WRONG_OBJECT_TYPE, message));
                }
            },
            Target::Schema(name) => {
                let name = binder.name_parts(&name)?.pop().unwrap_or_default();
                let schema = binder.catalog.schema(&name).ok_or_else(|| {
                    let message = format!("schema \"{name}\" does not exist");
                    SqlError::new(SqlState::INVALID_SCHEMA_NAME, message)
                })?;
                let mut own: Vec<_> =
                    binder.catalog.tables().filter(|table| table.schema == schema.oid && !table.is_adopted).collect();
                own.sort_by_key(|table| table.oid);
                own.into_iter().for_each(|table| hold(table, &action));
            }
            Target::Database(name) => {
                if binder.name_parts(&name)?.pop().as_deref() != Some(catalog::DATABASE) {
                    let message = "can only reindex the currently open database";
                    return Err(SqlError::new(SqlState::FEATURE_NOT_SUPPORTED, message));
                }
                let mut all: Vec<_> = binder.catalog.tables().filter(|table| !table.is_adopted).collect();
                all.sort_by_key(|table| table.oid);
                all.into_iter().for_each(|table| hold(table, &action));
            }
            Target::Constraint { name, defers } => check_constraint(binder, &name, defers)?,
        }
    }
    Ok(action)
}

/// A constraint must be there, and none can be deferred.
fn check_constraint(binder: &Binder<'_>, name: &ast::ObjectName, defers: bool) -> SqlResult<()> {
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

fn set(binder: &Binder<'_>, set: &Set) -> SqlResult<Action> {
    match set {
        Set::SingleAssignment { scope, hivevar: false, variable, values } => {
            refuse!(*scope == Some(ast::ContextModifier::Global) => "SET GLOBAL");
            let is_local = *scope == Some(ast::ContextModifier::Local);
            let name = binder.name_parts(variable)?.join(".");
            let [value] = &values[..] else {
                let message = format!("SET {name} takes only one argument");
                return Err(SqlError::new(SqlState::INVALID_PARAMETER_VALUE, message));
            };
            let is_default = matches!(value, ast::Expr::Identifier(ident)
                if ident.quote_style.is_none() && ident.value.eq_ignore_ascii_case("default"));
            let value = if is_default { None } else { Some(syntax::parse::set_value(value)?) };
            Ok(Action::Set { name, value, is_local })
        }
        Set::SetTimeZone { local, value } => {
            let value = match value {
                ast::Expr::Interval(interval) => binder.zone_interval(interval)?,
                value => syntax::parse::set_value(value)?,
            };
            Ok(Action::Set { name: "timezone".to_owned(), value: Some(value), is_local: *local })
        }
        Set::SetNames { charset_name, collation_name: None } => Ok(Action::Set {
            name: "client_encoding".to_owned(),
            value: Some(charset_name.value.clone()),
            is_local: false,
        }),
        Set::SetTransaction { modes, snapshot: None, session } => {
            let modes = modes_of(modes)?;
            Ok(if *session { Action::SetCharacteristics(modes) } else { Action::SetTransaction(modes) })
        }
        other => Err(SqlError::unsupported(format_args!("{other}"))),
    }
}

fn lock_mode_of(mode: Option<&ast::LockTableMode>) -> TableLock {
    use ast::LockTableMode as Mode;
    match mode {
        Some(Mode::AccessShare) => TableLock::AccessShare,
        Some(Mode::RowShare) => TableLock::RowShare,
        Some(Mode::RowExclusive) => TableLock::RowExclusive,
        Some(Mode::ShareUpdateExclusive) => TableLock::ShareUpdateExclusive,
        Some(Mode::Share) => TableLock::Share,
        Some(Mode::ShareRowExclusive) => TableLock::ShareRowExclusive,
        Some(Mode::Exclusive) => TableLock::Exclusive,
        Some(Mode::AccessExclusive) | None => TableLock::AccessExclusive,
    }
}

fn show(name: &str) -> (Action, Option<Vec<ColumnInfo>>) {
    let text = |name: &str| column_info(name, Kind::Text.into());
    match name {
        "all" => (Action::ShowAll, Some(vec![text("name"), text("setting"), text("description")])),
        "transaction.isolation.level" => {
            (Action::Show("transaction_isolation".to_owned()), Some(vec![text("transaction_isolation")]))
        }
        "time.zone" => (Action::Show("timezone".to_owned()), Some(vec![text("TimeZone")])),
        name => {
            let title = settings::title(name).unwrap_or(name);
            (Action::Show(name.to_owned()), Some(vec![text(title)]))
        }
    }
}

fn modes_of(modes: &[TransactionMode]) -> SqlResult<Modes> {
    modes
        .iter()
        .map(|mode| match mode {
            TransactionMode::AccessMode(TransactionAccessMode::ReadOnly) => Ok(("transaction_read_only", "on")),
            TransactionMode::AccessMode(TransactionAccessMode::ReadWrite) => Ok(("transaction_read_only", "off")),
            TransactionMode::IsolationLevel(level) => {
                let level = match level {
                    TransactionIsolationLevel::ReadUncommitted => "read uncommitted",
                    TransactionIsolationLevel::ReadCommitted => "read committed",
                    TransactionIsolationLevel::RepeatableRead => "repeatable read",
                    TransactionIsolationLevel::Serializable => "serializable",
                    // What stands for DEFERRABLE.
                    TransactionIsolationLevel::Snapshot => return Ok(("transaction_deferrable", "on")),
                };
                Ok(("transaction_isolation", level))
            }
        })
        .collect()
}
