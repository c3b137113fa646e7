//! The isolation scripts of `tests/scripts`, by the engine's API.
//!
//! Goal: every interleaving of every script gives what the file says, at each level. Method: sessions that never block,
//! all on one thread, so that each run is the same. With `OVERTAKE_BLESS=1` the files get what came out as their
//! expectations, beside PostgreSQL's where that differs.

use engine::{
    Begin, Column, Comparison, Condition, Direction, Engine, EngineConfig, Error, IndexDef, Isolation, LockConfig,
    LockPriority, Result, Row, RowId, Savepoint, Session, SessionOptions, Step, Table, TableDef, TableLock, Txn, Type,
    Value,
};
use stage::Class;
use std::ops::Bound;
use std::path::PathBuf;
use std::sync::Arc;
use testkit::script::{self, Executor, Keys, Level, Reply, Script, ScriptStatement, Which, Who};

type Values = Vec<Option<i64>>;

/// A session of a script.
struct Running {
    session: Session,
    waits_with: Option<ScriptStatement>,
    /// Outcome that it has already, before the others have heard of the cause that let it go on.
    reply: Option<Reply>,
    savepoints: Vec<(String, Savepoint)>,
}

/// Runs steps by the engine's API.
#[derive(Default)]
struct Api {
    engine: Option<Engine>,
    tables: Vec<Arc<Table>>,
    sessions: Vec<Running>,
}

impl Executor for Api {
    fn set_up(&mut self, script: &Script, _: Level) {
        let engine = Engine::new(EngineConfig::in_memory());
        // Nobody takes a row from anybody: PostgreSQL knows no such thing.
        engine.set_lock_config(LockConfig { priority: LockPriority::None, ..engine.lock_config() });
        self.tables = script.tables.iter().map(|table| create(&engine, table)).collect();
        let session = |session: &script::ScriptSession| Running {
            session: engine.session(SessionOptions::new(class(session.begin.class))),
            waits_with: None,
            reply: None,
            savepoints: Vec::new(),
        };
        self.sessions = script.sessions.iter().map(session).collect();
        self.engine = Some(engine);
    }

    fn submit(&mut self, session: usize, statement: &ScriptStatement) -> Option<Reply> {
        let running = &mut self.sessions[session];
        let reply = match statement {
            ScriptStatement::Begin(how) => {
                running.savepoints.clear();
                running.session.begin(begin(how)).map(|()| Reply::Done)
            }
            ScriptStatement::Commit => match running.session.commit() {
                Err(Error::InFailedTransaction) => Ok(Reply::RolledBack),
                result => result.map(|_| Reply::Done),
            },
            ScriptStatement::Rollback => {
                running.session.rollback();
                Ok(Reply::Done)
            }
            ScriptStatement::Savepoint(name) => running.session.savepoint().map(|savepoint| {
                running.savepoints.push((name.clone(), savepoint));
                Reply::Done
            }),
            ScriptStatement::RollbackTo(name) => running.find(name).and_then(|at| {
                running.session.rollback_to(&running.savepoints[at].1)?;
                running.savepoints.truncate(at + 1);
                Ok(Reply::Done)
            }),
            ScriptStatement::Release(name) => running.find(name).and_then(|at| {
                let savepoint = running.savepoints.drain(at..).next().expect("it was found").1;
                running.session.release(&savepoint).map(|()| Reply::Done)
            }),
            statement => {
                let tables = &self.tables;
                match running.session.try_execute(|txn| execute(txn, tables, statement)) {
                    Ok(Step::Done(reply)) => Ok(reply),
                    Ok(Step::Parked(ticket)) => {
                        running.waits_with = Some(statement.clone());
                        if !ticket.is_ready() {
                            return None;
                        }
                        // A deadlock, broken at once. Only its victim says so now.
                        match self.resume(session) {
                            Some(Reply::Failed(state)) if state == "40P01" => {
                                return Some(Reply::Failed(state));
                            }
                            reply => {
                                self.sessions[session].reply = reply;
                                return None;
                            }
                        }
                    }
                    Err(error) => Err(error),
                }
            }
        };
        Some(reply.unwrap_or_else(|error| Reply::Failed(code(&error).to_owned())))
    }

    fn resume(&mut self, session: usize) -> Option<Reply> {
        if let Some(reply) = self.sessions[session].reply.take() {
            return Some(reply);
        }
        let statement = self.sessions[session].waits_with.take().expect("it waits");
        self.submit(session, &statement)
    }

    fn end(&mut self) -> Vec<Vec<Values>> {
        self.sessions.clear();
        let txn = self.engine.as_ref().unwrap().begin(Begin::new(Class::Normal));
        let rows = |table: &Arc<Table>| {
            let mut rows = Vec::new();
            txn.scan(table, &[], |row| rows.push(values(table, &row))).unwrap();
            rows.sort();
            rows
        };
        self.tables.iter().map(rows).collect()
    }
}

impl Running {
    /// The last savepoint of this name. Without one the statement fails, and the transaction with it.
    fn find(&mut self, name: &str) -> Result<usize> {
        match self.savepoints.iter().rposition(|(other, _)| other == name) {
            Some(at) => Ok(at),
            None => Err(self.session.execute(|_| Err::<(), _>(Error::NoSuchSavepoint)).unwrap_err()),
        }
    }
}

fn create(engine: &Engine, table: &script::ScriptTable) -> Arc<Table> {
    let column = |(at, name): (usize, &String)| match at {
        0 => Column::required(name, Type::Int64),
        _ => Column::nullable(name, Type::Int64),
    };
    let index = |(column, unique): &(usize, bool)| {
        let name = format!("{}_{}", table.name, table.columns[*column]);
        if *unique { IndexDef::unique(&name, &[*column]) } else { IndexDef::plain(&name, &[*column]) }
    };
    let mut indexes = vec![IndexDef::unique(&format!("{}_pkey", table.name), &[0])];
    indexes.extend(table.indexes.iter().map(index));
    let columns = table.columns.iter().enumerate().map(column).collect();
    let created = engine.create_table(TableDef { name: table.name.clone(), columns, indexes }).unwrap();
    let txn = engine.begin(Begin::new(Class::Normal));
    for row in &table.rows {
        txn.insert(&created, &row.iter().map(|value| number(*value)).collect::<Vec<_>>()).unwrap();
    }
    txn.commit().unwrap();
    created
}

fn class(class: script::ScriptClass) -> Class {
    match class {
        script::ScriptClass::High => Class::High,
        script::ScriptClass::Normal => Class::Normal,
        script::ScriptClass::Low => Class::Low,
    }
}

fn begin(how: &script::Begin) -> Begin {
    let isolation = match how.level.expect("whoever explores says the level") {
        Level::ReadCommitted => Isolation::ReadCommitted,
        Level::RepeatableRead => Isolation::RepeatableRead,
        Level::Serializable => Isolation::Serializable,
    };
    let begin = Begin::new(class(how.class)).isolation(isolation);
    let begin = if how.read_only { begin.read_only() } else { begin };
    if how.deferrable { begin.deferrable() } else { begin }
}

fn number(value: Option<i64>) -> Value<'static> {
    value.map_or(Value::Null, Value::Int64)
}

fn from_value(value: Value<'_>) -> Option<i64> {
    match value {
        Value::Null => None,
        Value::Int64(number) => Some(number),
        other => panic!("a script's columns are integers: {other:?}"),
    }
}

fn values(table: &Table, row: &Row<'_>) -> Values {
    (0..table.columns().len()).map(|column| from_value(row.get(column))).collect()
}

/// Returns true if a row is one of these.
fn holds(which: &Which, row: &[Option<i64>]) -> bool {
    let between = |column: usize, low, high| row[column].is_some_and(|value| (low..=high).contains(&value));
    let key = match which.keys {
        Keys::All => true,
        Keys::One(key) => row[0] == Some(key),
        Keys::Between(low, high) => between(0, low, high),
        Keys::By(column, low, high) => between(column, low, high),
    };
    key && which.condition.is_none_or(|condition| condition.holds(row[condition.column]))
}

fn execute(txn: &Txn<'_>, tables: &[Arc<Table>], statement: &ScriptStatement) -> Result<Reply> {
    match statement {
        ScriptStatement::Read { table, rows, backward, limit, lock } => {
            let table = &tables[*table];
            let limit = limit.unwrap_or(usize::MAX);
            let mut found = Vec::new();
            let unlocked = lock.is_none();
            for (id, row) in find(txn, table, rows, *backward, if unlocked { limit } else { usize::MAX })? {
                let row = match lock {
                    None => Some(row),
                    // At READ COMMITTED the newest version may differ from the one that was found.
                    Some((mode, wait)) => {
                        txn.lock_row(table, id, row_lock(*mode), wait_of(*wait))?.map(|row| values(table, &row))
                    }
                };
                found.extend(row.filter(|row| holds(rows, row)));
                if found.len() == limit {
                    break;
                }
            }
            Ok(Reply::Rows(found))
        }
        ScriptStatement::Insert { table, values } => {
            txn.insert(&tables[*table], &values.iter().map(|value| number(*value)).collect::<Vec<_>>())?;
            Ok(Reply::Count(1))
        }
        ScriptStatement::Update { table, rows, set } => {
            let mut count = 0;
            for (id, row) in find(txn, &tables[*table], rows, false, usize::MAX)? {
                count += u64::from(txn.update_if(&tables[*table], id, |writer| {
                    let newest: Values = (0..row.len()).map(|column| from_value(writer.get(column))).collect();
                    if !holds(rows, &newest) {
                        return false;
                    }
                    for (column, set) in set {
                        writer.set(*column, number(set.value(&newest)));
                    }
                    true
                })?);
            }
            Ok(Reply::Count(count))
        }
        ScriptStatement::Delete { table, rows } => {
            let mut count = 0;
            let table = &tables[*table];
            for (id, _) in find(txn, table, rows, false, usize::MAX)? {
                count += u64::from(txn.delete_if(table, id, |row| holds(rows, &values(table, row)))?);
            }
            Ok(Reply::Count(count))
        }
        ScriptStatement::LockTable { table, mode, wait } => {
            txn.lock_table(&tables[*table], TableLock::ALL[*mode], wait_of(*wait))?;
            Ok(Reply::Done)
        }
        other => unreachable!("{other:?} is the session's, not a statement's"),
    }
}

fn row_lock(mode: script::RowLock) -> engine::RowLock {
    match mode {
        script::RowLock::KeyShare => engine::RowLock::KeyShare,
        script::RowLock::Share => engine::RowLock::Share,
        script::RowLock::NoKeyUpdate => engine::RowLock::NoKeyUpdate,
        script::RowLock::Update => engine::RowLock::Update,
    }
}

fn wait_of(wait: script::Wait) -> engine::Wait {
    match wait {
        script::Wait::Block => engine::Wait::Block,
        script::Wait::NoWait => engine::Wait::NoWait,
        script::Wait::SkipLocked => engine::Wait::SkipLocked,
    }
}

/// The rows that the statement's snapshot has, in order, no more than `limit`; a range is read no further than that.
fn find(txn: &Txn<'_>, table: &Table, which: &Which, backward: bool, limit: usize) -> Result<Vec<(RowId, Values)>> {
    let (index, low, high) = match which.keys {
        Keys::All => return scan(txn, table, which, backward, limit),
        Keys::One(key) => {
            let row = txn.get(table, 0, &[Value::Int64(key)])?;
            return Ok(row
                .map(|row| (row.row_id(), values(table, &row)))
                .filter(|(_, row)| holds(which, row))
                .into_iter()
                .collect());
        }
        Keys::Between(low, high) => (0, low, high),
        Keys::By(column, low, high) => {
            let index = table.indexes().iter().position(|index| index.columns == [column]);
            (index.expect("`by` names an indexed column"), low, high)
        }
    };
    let direction = if backward { Direction::Backward } else { Direction::Forward };
    let (low, high) = ([Value::Int64(low)], [Value::Int64(high)]);
    let rows = txn.range_between(table, index, Bound::Included(&low), Bound::Included(&high), direction)?;
    let rows = rows.map(|row| (row.row_id(), values(table, &row))).filter(|(_, row)| holds(which, row));
    Ok(rows.take(limit).collect())
}

fn scan(txn: &Txn<'_>, table: &Table, which: &Which, backward: bool, limit: usize) -> Result<Vec<(RowId, Values)>> {
    let comparison = |comparison| match comparison {
        script::CompareOp::Equal => Comparison::Equal,
        script::CompareOp::NotEqual => Comparison::NotEqual,
        script::CompareOp::Less => Comparison::Less,
        script::CompareOp::Greater => Comparison::Greater,
    };
    let conditions: Vec<Condition> = (which.condition.iter())
        .map(|c| Condition::compare(c.column, comparison(c.comparison), Value::Int64(c.value)))
        .collect();
    let mut rows = Vec::new();
    txn.scan(table, &conditions, |row| rows.push((row.row_id(), values(table, &row))))?;
    rows.sort_by_key(|(_, row)| row[0]);
    if backward {
        rows.reverse();
    }
    rows.truncate(limit);
    Ok(rows)
}

fn folder() -> PathBuf {
    PathBuf::from("tests/scripts")
}

/// Prefixes of scripts' names by the test that runs them; the rest is about anomalies.
const GROUPS: [&[&str]; 4] =
    [&["lock-", "nowait-", "skip-", "foreign-"], &["unique-", "recheck-"], &["deadlock", "savepoint-"], &["table-"]];

fn group(name: &str) -> usize {
    GROUPS.iter().position(|group| group.iter().any(|start| name.starts_with(start))).unwrap_or(GROUPS.len())
}

/// Runs the scripts of one group, and tells all that is not as it should be.
fn check(wanted: usize) {
    let bless = std::env::var_os("OVERTAKE_BLESS").is_some();
    let mut words = String::new();
    let (mut scripts, mut runs) = (0, 0);
    for script in script::read_folder(&folder()).unwrap().into_iter().filter(|script| group(&script.name) == wanted) {
        let mut all = Vec::new();
        scripts += 1;
        for level in Level::ALL {
            let outcomes = script::explore(&script, level, &mut Api::default());
            runs += outcomes.len();
            if level == Level::Serializable {
                words.push_str(&script::check_serial(&script, &outcomes, &mut Api::default()));
            }
            let found = script::transcripts(&outcomes);
            if bless {
                let theirs = script.expected(Who::PostgreSql, level).into_iter().map(str::to_owned).collect();
                all.extend([(Who::Overtake, level, found), (Who::PostgreSql, level, theirs)]);
            } else {
                words.push_str(&script.compare(Who::Overtake, level, &found));
            }
        }
        if bless {
            std::fs::write(folder().join(format!("{}.spec", script.name)), script.with_expectations(&all)).unwrap();
        }
    }
    println!("{scripts} scripts, {runs} interleavings");
    assert!(0 < scripts);
    assert!(words.is_empty(), "\n{words}");
}

/// Row locks, pair by pair, with NOWAIT and SKIP LOCKED, and against writers.
pub fn row_locks() {
    check(0);
}

/// Races for unique keys, and what READ COMMITTED looks at again.
pub fn unique_races_and_rechecks() {
    check(1);
}

/// Deadlocks and their victims; savepoints and what they give up.
pub fn deadlocks_and_savepoints() {
    check(2);
}

/// Table locks, mode by mode, and against writers and readers.
pub fn table_locks() {
    check(3);
}

/// The anomalies: each stands where its level allows it, and nowhere else.
pub fn anomalies() {
    check(GROUPS.len());
}

/// Code by which the scripts name an error: its SQLSTATE, as the same scripts run as SQL.
fn code(error: &Error) -> &'static str {
    match error {
        Error::WriteConflict { .. } | Error::SerializationFailure | Error::Taken => "40001",
        Error::Deadlock(_) => "40P01",
        Error::LockNotAvailable(_) => "55P03",
        Error::InFailedTransaction => "25P02",
        Error::UniqueViolation { .. } => "23505",
        Error::ReadOnly => "25006",
        Error::NoSuchSavepoint => "3B001",
        other => panic!("the scripts do not know of {other}"),
    }
}
