//! Goal: procedures end transactions as in PostgreSQL, and what they have committed is not repeated by a wait. Method: a
//! module that is linked into the test, several sessions, cancels and timeouts at any moment.

#![allow(missing_docs, clippy::unwrap_used, reason = "a test")]

#[path = "support/mod.rs"]
mod support;

use engine::{Engine, EngineConfig};
use procs::native::{NativeCall, NativeModule, NativeRuntime};
use procs::{EngineCalls, NoticeLevel, Runtimes, StatementHandle, TableHandle, TransactionEnd};
use settings::Connect;
use sql::session::{Database, Session, Step};
use statement::holdings::{MemoryUse, of_sessions};
use statement::{SqlError, SqlResult, SqlState};
use std::ops::ControlFlow;
use std::sync::atomic::{AtomicBool, AtomicU8, AtomicU64, Ordering::SeqCst};
use std::sync::{Arc, mpsc};
use std::thread;
use std::time::{Duration, Instant};
use types::Datum;

const ACCOUNTS: TableHandle = TableHandle(0);

const MANIFEST: &str = "overtake 1
    table accounts accounts (id, balance)
    statement now SELECT now()::text, current_setting('transaction_isolation'), count(*) FROM accounts
    statement take SELECT pg_try_advisory_lock(7), nextval('numbers')
    statement free SELECT pg_advisory_unlock(7)
    statement mark SELECT coalesce(current_setting('demo.mark', true), ''), set_config('demo.mark', 'set', false)
    entry alternate
    entry transfer
    entry fails
    entry cursors
    entry endless
    entry tells
    entry times
    entry pauses
    entry chats
    entry takes
    entry frees
    entry counts
    entry holds
    statement long SELECT count(*) FROM generate_series(1, 1000000000)
    entry executes
    entry prattles";

/// 1 once `pauses` waits, 2 when it may go on.
static PAUSE: AtomicU8 = AtomicU8::new(0);
/// Number of times that `counts` has begun.
static BEGUN: AtomicU64 = AtomicU64::new(0);
/// Number of calls that `chats` has made.
static CHATS: AtomicU64 = AtomicU64::new(0);

/// Process ID of the session that calls `holds`.
const HOLDER: u32 = 77;

/// Returns the bytes of cursors of that session.
fn held() -> i64 {
    let own = of_sessions().into_iter().find(|session| session.pid() == HOLDER).unwrap();
    own.bytes()[MemoryUse::Cursors as usize] as i64
}

struct Steps;

fn put(engine: &mut dyn EngineCalls, id: i32, balance: i64) -> SqlResult<()> {
    engine.put(ACCOUNTS, &[Datum::Int4(id), Datum::Int8(balance)], false)
}

/// Adds to a balance, after the row is locked.
fn add(engine: &mut dyn EngineCalls, id: i32, by: i64) -> SqlResult<()> {
    let mut balance = 0;
    engine.get(ACCOUNTS, &[Datum::Int4(id)], true, &mut |row| {
        if let [_, Datum::Int8(found)] = row {
            balance = *found;
        }
        Ok(ControlFlow::Break(()))
    })?;
    put(engine, id, balance + by)
}

impl NativeModule for Steps {
    fn name(&self) -> &'static str {
        "steps"
    }

    fn manifest(&self) -> &'static str {
        MANIFEST
    }

    fn call(&self, call: NativeCall<'_>, engine: &mut dyn EngineCalls) -> SqlResult<Vec<Datum>> {
        use TransactionEnd::{Commit, Rollback};
        match (call.entry, call.arguments) {
            // alternate(n) inserts numbers, and commits the even ones.
            (0, [Datum::Int4(count)]) => {
                for id in 0..*count {
                    put(engine, 100 + id, 0)?;
                    engine.end_transaction(if id % 2 == 0 { Commit } else { Rollback })?;
                }
                Ok(Vec::new())
            }
            // transfer(from, to) commits in between.
            (1, [Datum::Int4(from), Datum::Int4(to)]) => {
                add(engine, *from, -10)?;
                engine.end_transaction(Commit)?;
                add(engine, *to, 10)?;
                Ok(vec![Datum::Int4(*to)])
            }
            (2, []) => {
                put(engine, 200, 1)?;
                engine.end_transaction(Commit)?;
                put(engine, 201, 1)?;
                Err(SqlError::new(SqlState::RAISE_EXCEPTION, "after the commit"))
            }
            (3, []) => {
                let cursor = engine.scan(ACCOUNTS, &[], false)?;
                engine.end_transaction(Rollback)?;
                engine.next(cursor, 1, &mut |_| Ok(ControlFlow::Continue(()))).map(|_| Vec::new())
            }
            (4, []) => {
                put(engine, 300, 1)?;
                engine.end_transaction(Commit)?;
                put(engine, 301, 1)?;
                loop {
                    engine.look()?;
                    thread::yield_now();
                }
            }
            (5, []) => {
                engine.notice(NoticeLevel::Notice, "before")?;
                engine.end_transaction(Commit)?;
                engine.notice(NoticeLevel::Warning, "after")?;
                Ok(Vec::new())
            }
            // times() returns the time and the isolation of two transactions.
            (6, []) => {
                let mut shown = Vec::new();
                for _ in 0..2 {
                    let executed = engine.execute(StatementHandle(0), &[])?;
                    engine.next(executed.cursor.unwrap(), 10, &mut |row| {
                        shown.extend_from_slice(&row[..2]);
                        Ok(ControlFlow::Continue(()))
                    })?;
                    engine.end_transaction(Commit)?;
                }
                Ok(shown)
            }
            (7, []) => {
                put(engine, 400, 1)?;
                engine.end_transaction(Commit)?;
                PAUSE.store(1, SeqCst);
                while PAUSE.load(SeqCst) != 2 {
                    engine.look()?;
                    thread::yield_now();
                }
                put(engine, 401, 1)?;
                Ok(Vec::new())
            }
            (8, []) => {
                engine.end_transaction(Commit)?;
                loop {
                    engine.get(ACCOUNTS, &[Datum::Int4(1)], false, &mut |_| Ok(ControlFlow::Break(())))?;
                    CHATS.fetch_add(1, SeqCst);
                }
            }
            // takes() returns a setting as it was before, and what it has done.
            (9, []) => {
                let mut seen = Vec::new();
                for statement in [3, 1] {
                    let executed = engine.execute(StatementHandle(statement), &[])?;
                    engine.next(executed.cursor.unwrap(), 10, &mut |row| {
                        seen.extend(row.iter().map(|value| format!("{value:?}")));
                        Ok(ControlFlow::Continue(()))
                    })?;
                }
                engine.end_transaction(Commit)?;
                engine.execute(StatementHandle(2), &[])?;
                Ok(vec![Datum::text(seen.join(" "))])
            }
            (10, []) => {
                engine.execute(StatementHandle(2), &[])?;
                engine.end_transaction(Commit)?;
                Ok(Vec::new())
            }
            (11, []) => {
                BEGUN.fetch_add(1, SeqCst);
                engine.end_transaction(Commit)?;
                Ok(Vec::new())
            }
            // holds() returns the bytes of cursors before, while and after one is open.
            (12, []) => {
                engine.end_transaction(Commit)?;
                let mut bytes = vec![held()];
                let cursor = engine.scan(ACCOUNTS, &[], false)?;
                engine.get(ACCOUNTS, &[Datum::Int4(1)], false, &mut |_| Ok(ControlFlow::Break(())))?;
                bytes.push(held());
                engine.close(cursor)?;
                bytes.push(held());
                Ok(bytes.into_iter().map(Datum::Int8).collect())
            }
            // executes(apart) executes a statement that takes minutes, apart from the calling statement if it says so.
            (13, [Datum::Bool(apart)]) => {
                if *apart {
                    engine.end_transaction(Commit)?;
                }
                engine.execute(StatementHandle(4), &[])?;
                Ok(Vec::new())
            }
            // prattles() sends empty notices without end.
            (14, []) => {
                engine.end_transaction(Commit)?;
                for _ in 0..1_000_000 {
                    engine.notice(NoticeLevel::Notice, "")?;
                }
                Ok(Vec::new())
            }
            _ => Err(SqlError::new(SqlState::INTERNAL_ERROR, "arguments of another type")),
        }
    }
}

fn database() -> Database {
    let native = NativeRuntime::new(vec![Arc::new(Steps)]);
    let database = Database::new(Engine::new(EngineConfig::in_memory()));
    let database = database.with_runtimes(Arc::new(Runtimes::new(vec![Arc::new(native)])));
    let session = &mut support::connect(&database);
    support::run(
        session,
        &format!(
            "create table accounts (id int primary key, balance bigint not null);
        insert into accounts values (1, 100), (2, 100);
        create module steps manifest $${MANIFEST}$$ artifact native 'steps';
        create procedure alternate(int) language native as 'steps';
        create procedure transfer(int, int, out int) language native as 'steps';
        create procedure fails() language native as 'steps';
        create procedure cursors() language native as 'steps';
        create procedure endless() language native as 'steps';
        create procedure limited() language native as 'steps', 'endless';
        alter procedure limited() set (time_limit = '50ms');
        create procedure executes(bool) language native set (time_limit = '50ms') as 'steps';
        create procedure prattles() language native as 'steps';
        create procedure tells() language native as 'steps';
        create procedure times(out a text, out b text, out c text, out d text) language native as 'steps';
        create procedure owned(int) language native security definer as 'steps', 'alternate';
        create procedure settled(int) language native set work_mem = '1MB' as 'steps', 'alternate';
        create function of_query(int) returns int language native as 'steps', 'alternate';
        create table other (id int primary key, balance bigint not null);
        create sequence numbers;
        create procedure pauses() language native as 'steps';
        create procedure chats() language native as 'steps';
        create procedure takes(out text) language native as 'steps';
        create procedure frees() language native as 'steps';
        create procedure counts() language native as 'steps';
        create procedure holds(out bigint, out bigint, out bigint) language native as 'steps'"
        ),
    )
    .unwrap();
    database
}

fn text(session: &mut Session, statement: &str) -> String {
    match support::run(session, statement) {
        Ok(rows) => {
            let cell = |datum: &Datum| match datum {
                Datum::Int4(value) => value.to_string(),
                Datum::Int8(value) => value.to_string(),
                Datum::Text(value) => value.to_string(),
                other => format!("{other:?}"),
            };
            let row = |row: &[Datum]| row.iter().map(cell).collect::<Vec<_>>().join(",");
            rows.iter().map(|one| row(one)).collect::<Vec<_>>().join(" ")
        }
        Err(error) => format!("{} {}", error.state(), error.message()),
    }
}

#[test]
fn commits_and_rollbacks_end_parts() {
    let database = database();
    let session = &mut support::connect(&database);
    // The first call finds out that the procedure ends transactions, later ones know it.
    for _ in 0..3 {
        assert_eq!(text(session, "call alternate(6)"), "");
        assert_eq!(text(session, "select id from accounts where 100 <= id and id < 200 order by id"), "100 102 104");
        assert_eq!(text(session, "delete from accounts where id = 102"), "");
    }
    assert_eq!(text(session, "call transfer(1, 2, null)"), "2");
    assert_eq!(text(session, "select balance from accounts where id < 3 order by id"), "90 110");
    for _ in 0..2 {
        assert_eq!(text(session, "call fails()"), "P0001 after the commit");
        assert_eq!(text(session, "select id from accounts where 200 <= id"), "200");
    }
    let message = "39000 the routine broke the protocol: 1 is the number of no open cursor";
    assert_eq!(text(session, "call cursors()"), message);
    session.take_notices();
    for _ in 0..2 {
        assert_eq!(text(session, "call tells()"), "");
        let notices: Vec<_> =
            session.take_notices().into_iter().map(|(of, one)| (of, one.message().to_owned())).collect();
        assert_eq!(notices, [("NOTICE", "before".to_owned()), ("WARNING", "after".to_owned())]);
    }
    text(session, "set default_transaction_isolation = 'repeatable read'");
    let times = text(session, "call times(null, null, null, null)");
    let parts: Vec<&str> = times.split(',').collect();
    assert_eq!((parts[1], parts[3]), ("repeatable read", "repeatable read"), "{times}");
    assert!(parts[0] < parts[2], "now() is that of the transaction: {times}");
}

/// Runs the statements of one message.
fn together(session: &mut Session, message: &str) -> SqlResult<()> {
    let mut all = || {
        for mut one in session.split(message)? {
            let statement = session.prepare_part(&mut one)?;
            let mut portal = session.bind(&statement, Vec::new())?;
            while let Step::Parked(parked) = session.execute(&mut portal)? {
                parked.wait();
            }
        }
        Ok(())
    };
    let done = all();
    session.sync()?;
    done
}

#[test]
fn elsewhere_no_transaction_ends() {
    let database = database();
    let session = &mut support::connect(&database);
    let refused = "2D000 invalid transaction termination";
    for _ in 0..2 {
        for statement in
            ["begin; call alternate(2)", "rollback; call owned(2)", "call settled(2)", "select of_query(2)"]
        {
            assert_eq!(text(session, statement), refused, "{statement}");
            assert_eq!(
                text(session, "select count(*) from accounts where 100 <= id"),
                if statement.starts_with("begin") {
                    "25P02 current transaction is aborted, commands ignored until end of transaction block"
                } else {
                    "0"
                }
            );
        }
        // Statements of one message are one transaction.
        for message in ["select 1; call alternate(2)", "call alternate(2); select 1"] {
            assert_eq!(together(session, message).unwrap_err().state().0, "2D000", "{message}");
            assert_eq!(text(session, "select count(*) from accounts where 100 <= id"), "0");
        }
        // The procedure is known to end transactions from now on.
        assert_eq!(text(session, "call alternate(1)"), "");
        text(session, "delete from accounts where 100 <= id");
    }
}

/// Goal: a wait repeats one call, not what was committed before it.
#[test]
fn a_wait_for_a_lock_repeats_nothing_that_is_committed() {
    let database = database();
    let (mut holder, mut session) = (support::connect(&database), support::connect(&database));
    for round in 1..=3 {
        support::run(&mut holder, "begin; update accounts set balance = balance + 1 where id = 2").unwrap();
        let waiting = thread::spawn(move || {
            let called = text(&mut session, "call transfer(1, 2, null)");
            (session, called)
        });
        // The first part is committed, although the procedure waits.
        let other = &mut support::connect(&database);
        let wanted = (100 - 10 * round).to_string();
        while text(other, "select balance from accounts where id = 1") != wanted {
            thread::sleep(Duration::from_millis(1));
        }
        thread::sleep(Duration::from_millis(20));
        assert!(!waiting.is_finished());
        support::run(&mut holder, "commit").unwrap();
        let called;
        (session, called) = waiting.join().unwrap();
        assert_eq!(called, "2");
        let both = format!("{wanted} {}", 100 + 11 * round);
        assert_eq!(text(other, "select balance from accounts where id < 3 order by id"), both);
    }
}

/// Goal: within 100 ms of a cancel, a timeout or the end of its session the code has ended; what it has committed stays.
#[test]
fn cancels_timeouts_and_limits_end_the_code() {
    let database = database();
    let session = &mut support::connect(&database);
    for round in 0..20 {
        let (canceller, is_over) = (session.canceller(), Arc::new(AtomicBool::new(false)));
        let (over, mut other) = (Arc::clone(&is_over), support::connect(&database));
        let cancelling = thread::spawn(move || {
            // A cancel before the first commit would leave nothing.
            while text(&mut other, "select count(*) from accounts where id = 300") != "1" {}
            thread::sleep(Duration::from_micros(300 * (round + 20)));
            // The first may come before the statement begins.
            while !over.load(SeqCst) {
                canceller.cancel();
                thread::sleep(Duration::from_millis(20));
            }
        });
        let error = text(session, "call endless()");
        is_over.store(true, SeqCst);
        cancelling.join().unwrap();
        assert_eq!(error, "57014 canceling statement due to user request");
        assert_eq!(text(session, "select id from accounts where 300 <= id"), "300");
    }
    let late = "57014 canceling statement due to statement timeout";
    assert_eq!(text(session, "set statement_timeout = '50ms'; reset lock_timeout"), "");
    assert_eq!(text(session, "call endless()"), late);
    text(session, "reset statement_timeout");
    assert!(text(session, "call limited()").starts_with("57014 canceling statement due to time limit of routine"));
    // A session that goes leaves no thread behind.
    let mut gone = support::connect(&database);
    let statement = gone.prepare("call endless()", &[]).unwrap();
    let mut portal = gone.bind(&statement, Vec::new()).unwrap();
    while text(session, "select count(*) from accounts where id = 300") != "1" {}
    text(session, "delete from accounts where id = 300");
    loop {
        match gone.execute(&mut portal).unwrap() {
            Step::Parked(parked) => {
                if text(session, "select count(*) from accounts where id = 300") == "1" {
                    break;
                }
                parked.wait();
            }
            other => panic!("{other:?}"),
        }
    }
    drop(gone);
    let begun = Instant::now();
    while database.procedure_threads() != 0 {
        assert!(begun.elapsed() < Duration::from_secs(5), "threads are left");
        thread::sleep(Duration::from_millis(1));
    }
}

/// Goal: the limit of a routine ends a statement that its code executes, too.
#[test]
fn a_time_limit_ends_a_statement_of_the_code() {
    let database = database();
    let session = &mut support::connect(&database);
    for apart in [false, true] {
        let begun = Instant::now();
        let told = text(session, &format!("call executes({apart})"));
        assert!(told.starts_with("57014 canceling statement due to time limit of routine"), "{told}");
        assert!(begun.elapsed() < Duration::from_secs(20), "the statement takes minutes");
    }
}

/// Goal: notices count towards their limit in every transaction, and those without text, too.
#[test]
fn notices_have_a_limit_over_all_transactions() {
    let database = database();
    let session = &mut support::connect(&database);
    assert_eq!(text(session, "call prattles()"), "54000 the notices of a statement exceed 1024 kB");
}

/// Goal: handles of the code that runs are never read by the manifest of another.
#[test]
fn a_module_that_is_replaced_ends_the_code() {
    let database = database();
    let (session, mut called) = (&mut support::connect(&database), support::connect(&database));
    let calling = thread::spawn(move || text(&mut called, "call pauses()"));
    while PAUSE.load(SeqCst) != 1 {
        thread::sleep(Duration::from_millis(1));
    }
    let manifest = MANIFEST.replace("accounts accounts", "accounts other");
    let replaced = format!("create or replace module steps manifest $${manifest}$$ artifact native 'steps'");
    assert_eq!(text(session, &replaced), "");
    PAUSE.store(2, SeqCst);
    assert_eq!(calling.join().unwrap(), "55000 module \"steps\" has changed");
    assert_eq!(text(session, "select id from accounts where 400 <= id"), "400");
    assert_eq!(text(session, "select count(*) from other"), "0");
}

/// Goal: one cancel ends a procedure, wherever it meets it. Method: cancels at many moments of code that calls without
/// a pause.
#[test]
fn one_cancel_is_enough() {
    let database = database();
    let mut session = support::connect(&database);
    let (tell, told) = mpsc::channel();
    for round in 0..100 {
        let (canceller, before, tell) = (session.canceller(), CHATS.load(SeqCst), tell.clone());
        let calling = thread::spawn(move || {
            let error = text(&mut session, "call chats()");
            tell.send(error).unwrap();
            session
        });
        while CHATS.load(SeqCst) < before + 3 {
            thread::yield_now();
        }
        thread::sleep(Duration::from_micros(37 * round));
        canceller.cancel();
        let error = told.recv_timeout(Duration::from_secs(5));
        if error.is_err() {
            while !calling.is_finished() {
                canceller.cancel();
            }
        }
        assert_eq!(error.as_deref(), Ok("57014 canceling statement due to user request"), "round {round}");
        session = calling.join().unwrap();
    }
}

/// Goal: the run that finds out that a procedure ends transactions leaves nothing behind.
#[test]
fn nothing_is_done_twice() {
    let database = database();
    let other = &mut support::connect(&database);
    let mut is_free = || text(other, "select pg_try_advisory_lock(7), pg_advisory_unlock(7)").starts_with("Bool(true)");
    for round in 1..=2 {
        let session = &mut support::connect(&database);
        let done = format!("Text(\"\") Text(\"set\") Bool(true) Int8({round})");
        assert_eq!(text(session, "call takes(null)"), done);
        assert!(is_free());
        assert_eq!(text(session, "select current_setting('demo.mark')"), "set");
        session.take_notices();
        // Of two locks one is given back.
        text(session, "select pg_advisory_lock(7), pg_advisory_lock(7)");
        assert_eq!(text(session, "call frees()"), "");
        assert!(!is_free());
        assert_eq!(text(session, "select pg_advisory_unlock(7)"), "Bool(true)");
        assert!(is_free());
        assert!(session.take_notices().is_empty());
        // Calls of later statements are calls of their own.
        for _ in 0..2 {
            assert_eq!(text(session, "select pg_try_advisory_lock(7)"), "Bool(true)");
        }
        assert_eq!(text(session, "select pg_advisory_unlock(7)"), "Bool(true)");
        assert!(!is_free());
        assert_eq!(text(session, "select pg_advisory_unlock(7)"), "Bool(true)");
        assert!(is_free());
        assert!(session.take_notices().is_empty());
    }
}

/// Goal: the first run of a procedure that ends transactions is undone once, not in each session.
#[test]
fn procedures_that_end_transactions_are_known_to_all_sessions() {
    let database = database();
    for begun in [2, 3, 4] {
        assert_eq!(text(&mut support::connect(&database), "call counts()"), "");
        assert_eq!(BEGUN.load(SeqCst), begun);
    }
    // Another version may not end any.
    let session = &mut support::connect(&database);
    assert_eq!(text(session, "create or replace procedure counts() language native as 'steps'"), "");
    assert_eq!(text(session, "call counts()"), "");
    assert_eq!(BEGUN.load(SeqCst), 6);
}

/// Goal: rows of open cursors are part of the memory of the session, from one call of the code to the next.
#[test]
fn rows_of_open_cursors_are_counted() {
    let database = database();
    let (user, name) = ("postgres".to_owned(), "postgres".to_owned());
    let connect = Connect { user, database: name, backend_pid: HOLDER, ..Connect::default() };
    let session = &mut database.connect(connect).unwrap();
    support::run(session, "insert into accounts select g, 0 from generate_series(1000, 1999) g").unwrap();
    for _ in 0..2 {
        let bytes = text(session, "call holds(null, null, null)");
        let bytes: Vec<i64> = bytes.split(',').map(|bytes| bytes.parse().unwrap()).collect();
        assert_eq!((bytes[0], bytes[2]), (0, 0));
        assert!((32_000..320_000).contains(&bytes[1]), "{bytes:?}");
        assert_eq!(held(), 0);
    }
}
