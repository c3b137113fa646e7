//! Goal: a call by key does what its statement does: rows, errors, and the table afterwards. Method: random sequences of
//! calls of linked code over one table, and of the same statements over a table like it.

#![allow(missing_docs, clippy::unwrap_used, reason = "a test")]

#[path = "support/mod.rs"]
mod support;

use engine::{Engine, EngineConfig};
use procs::native::{NativeCall, NativeModule, NativeRuntime};
use procs::{EngineCalls, Runtimes, StatementHandle, TableHandle};
use sql::session::{Database, Session};
use statement::{SqlError, SqlResult, SqlState};
use std::fmt::Write;
use std::ops::ControlFlow;
use std::sync::Arc;
use types::Datum;

/// Module whose entries run a list of calls with one row: `by_key` by calls, `by_statement` by statements.
struct Steps;

const TABLE: TableHandle = TableHandle(0);

const MANIFEST: &str = "overtake 1
    table kept by_key.kept (id, part, amount, note, big)
    statement get SELECT id, part, amount, note, big FROM by_statement.kept WHERE id = $1 AND part = $2
    statement lock SELECT id, part, amount, note, big FROM by_statement.kept WHERE id = $1 AND part = $2 FOR UPDATE
    statement put INSERT INTO by_statement.kept (id, part, amount, note, big) VALUES ($1, $2, $3, $4, $5) ON CONFLICT \
                        (id, part) DO UPDATE SET amount = EXCLUDED.amount, note = EXCLUDED.note, big = EXCLUDED.big
    statement insert INSERT INTO by_statement.kept (id, part, amount, note, big) VALUES ($1, $2, $3, $4, $5)
    statement delete DELETE FROM by_statement.kept WHERE id = $1 AND part = $2
    entry by_key
    entry by_statement";

fn row_by_statement(engine: &mut dyn EngineCalls, statement: u16, key: &[Datum]) -> SqlResult<String> {
    let executed = engine.execute(StatementHandle(statement), key)?;
    let mut shown = "none".to_owned();
    engine.next(executed.cursor.unwrap(), 10, &mut |row| {
        shown = format!("{row:?}");
        Ok(ControlFlow::Continue(()))
    })?;
    Ok(shown)
}

fn row_by_key(engine: &mut dyn EngineCalls, key: &[Datum], locks: bool) -> SqlResult<String> {
    let mut shown = "none".to_owned();
    engine.get(TABLE, key, locks, &mut |row| {
        shown = format!("{row:?}");
        Ok(ControlFlow::Break(()))
    })?;
    Ok(shown)
}

impl NativeModule for Steps {
    fn name(&self) -> &'static str {
        "steps"
    }

    fn manifest(&self) -> &'static str {
        MANIFEST
    }

    fn call(&self, call: NativeCall<'_>, engine: &mut dyn EngineCalls) -> SqlResult<Vec<Datum>> {
        let NativeCall { entry, arguments } = call;
        let [Datum::Text(steps), row @ ..] = arguments else {
            return Err(SqlError::new(SqlState::INTERNAL_ERROR, "arguments of another type"));
        };
        let key = &row[..2];
        let mut all = String::new();
        for step in steps.chars() {
            let shown = match (entry, step) {
                (0, 'g') => row_by_key(engine, key, false)?,
                (0, 'l') => row_by_key(engine, key, true)?,
                (0, 'p') => engine.put(TABLE, row, false).map(|()| String::new())?,
                (0, 'i') => engine.put(TABLE, row, true).map(|()| String::new())?,
                (0, 'd') => engine.delete(TABLE, key)?.to_string(),
                (_, 'g') => row_by_statement(engine, 0, key)?,
                (_, 'l') => row_by_statement(engine, 1, key)?,
                (_, 'p') => engine.execute(StatementHandle(2), row).map(|_| String::new())?,
                (_, 'i') => engine.execute(StatementHandle(3), row).map(|_| String::new())?,
                (_, 'd') => (0 < engine.execute(StatementHandle(4), key)?.rows).to_string(),
                (_, step) => panic!("{step} is no step"),
            };
            write!(all, "{step} {shown};").unwrap();
        }
        Ok(vec![Datum::text(all)])
    }
}

/// Result of a statement as text, or all that its error says.
fn outcome(session: &mut Session, statement: &str) -> String {
    match support::run(session, statement) {
        Ok(rows) => format!("{rows:?}"),
        Err(error) => format!("{} {} ({:?})", error.state(), error.message(), error.detail_text()),
    }
}

fn set_up(session: &mut Session) {
    let table = "(id int, part text, amount numeric(6, 2), note char(4), big bigint not null unique, \
                 primary key (id, part))";
    let function = "(text, int, text, numeric, text, bigint) returns text language native as";
    support::run(
        session,
        &format!(
            "create schema by_key; create schema by_statement;
             create table by_key.kept {table}; create table by_statement.kept {table};
             create module steps manifest $${MANIFEST}$$ artifact native 'steps';
             create function by_key{function} 'steps', 'by_key';
             create function by_statement{function} 'steps', 'by_statement';"
        ),
    )
    .unwrap();
}

/// Numbers that look random.
struct Numbers(u64);

impl Numbers {
    fn below(&mut self, bound: u64) -> u64 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) % bound
    }

    fn one_of<'t>(&mut self, all: &[&'t str]) -> &'t str {
        all[self.below(all.len() as u64) as usize]
    }
}

#[test]
fn calls_by_key_do_what_their_statements_do() {
    let native = NativeRuntime::new(vec![Arc::new(Steps)]);
    let database = Database::new(Engine::new(EngineConfig::in_memory()));
    let database = database.with_runtimes(Arc::new(Runtimes::new(vec![Arc::new(native)])));
    let session = &mut support::connect(&database);
    set_up(session);
    let mut numbers = Numbers(42);
    let (mut errors, mut found) = (0, 0);
    for isolation in ["read committed", "repeatable read", "serializable"] {
        support::run(session, &format!("set default_transaction_isolation = '{isolation}'")).unwrap();
        for _ in 0..400 {
            let steps: String = (0..=numbers.below(4)).map(|_| numbers.one_of(&["g", "l", "p", "i", "d"])).collect();
            let id = numbers.one_of(&["1", "2", "3", "-2147483648", "null"]);
            let part = numbers.one_of(&["''", "'a'", "'a '", "null"]);
            let amount = numbers.one_of(&["null", "0.00", "1234.50", "-0.01", "'NaN'"]);
            let note = numbers.one_of(&["null", "'ab  '", "'abcd'"]);
            let big = numbers.one_of(&["null", "1", "2", "3", "4", "5", "6", "7", "8"]);
            let call = |way: &str| format!("select {way}('{steps}', {id}, {part}, {amount}, {note}, {big})");
            let by_key = outcome(session, &call("by_key"));
            assert_eq!(by_key, outcome(session, &call("by_statement")), "{}", call("..."));
            errors += usize::from(by_key.starts_with("23"));
            found += usize::from(by_key.contains("Numeric"));
        }
        let all = |way: &str| format!("select * from {way}.kept order by id, part");
        assert_eq!(outcome(session, &all("by_key")), outcome(session, &all("by_statement")));
    }
    assert!(20 < errors && 20 < found, "{errors} errors and {found} rows are too few");
}

#[test]
fn a_call_that_waits_finds_the_row_as_it_is_then() {
    let native = NativeRuntime::new(vec![Arc::new(Steps)]);
    let database = Database::new(Engine::new(EngineConfig::in_memory()));
    let database = database.with_runtimes(Arc::new(Runtimes::new(vec![Arc::new(native)])));
    let session = &mut support::connect(&database);
    set_up(session);
    for way in ["by_key", "by_statement"] {
        let call = |steps: &str| format!("select {way}('{steps}', 1, 'a', 1, 'x', 5)");
        for (change, wanted) in [
            (format!("update {way}.kept set big = 7"), "Int8(7)"),
            (format!("update {way}.kept set id = 2, big = 8"), "l none"),
            (format!("delete from {way}.kept"), "l none"),
        ] {
            support::run(session, &call("p")).unwrap();
            let other = &mut support::connect(&database);
            support::run(other, &format!("begin; {change}")).unwrap();
            let shown = std::thread::scope(|scope| {
                let waiting = scope.spawn(|| outcome(&mut support::connect(&database), &call("l")));
                std::thread::sleep(std::time::Duration::from_millis(100));
                assert!(!waiting.is_finished(), "{change}");
                support::run(other, "commit").unwrap();
                waiting.join().unwrap()
            });
            assert!(shown.contains(wanted), "{change}: {shown}");
        }
    }
}
