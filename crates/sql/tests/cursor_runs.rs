//! Goal: the rows of a cursor whose query runs by rows come while it moves forward: they are PostgreSQL's, as are the errors,
//! and nothing of the query is left when the cursor has gone. Method: queries that have no end, or one that is known, in
//! sessions of a database without analytics.
#![allow(missing_docs, clippy::unwrap_used, reason = "a test fails by panicking")]

mod support;

use engine::memory::held_bytes;
use engine::{Engine, EngineConfig};
use sql::session::{Database, Session, Step};
use statement::{SqlResult, SqlState};
use std::thread;
use std::time::{Duration, Instant};
use support::{connect, run};
use types::Datum;

/// Counting allocator, as in the program.
#[global_allocator]
static HEAP: preempt::Heap = preempt::Heap::HEAP;

/// Time after which a test fails.
const DEADLINE: Duration = Duration::from_secs(60);
/// Query without an end.
const ENDLESS: &str = "select g from generate_series(1, 1000000000000) g";
/// Query without an end that returns no row.
const SILENT: &str = "select g from generate_series(1, 1000000000000) g where g < 0";

fn database() -> Database {
    Database::new(Engine::new(EngineConfig::in_memory()))
}

fn numbers(session: &mut Session, text: &str) -> Vec<i64> {
    let number = |row: Box<[Datum]>| match &row[..] {
        [Datum::Int8(number)] => *number,
        [Datum::Int4(number)] => i64::from(*number),
        other => panic!("{other:?}"),
    };
    run(session, text).unwrap().into_iter().map(number).collect()
}

fn state_of(result: SqlResult<Vec<Box<[Datum]>>>) -> SqlState {
    result.unwrap_err().state()
}

/// Waits until this many threads run queries of cursors.
fn threads_become(database: &Database, count: usize) {
    let begun = Instant::now();
    while database.cursor_threads() != count {
        assert!(begun.elapsed() < DEADLINE, "{} threads", database.cursor_threads());
        thread::sleep(Duration::from_millis(1));
    }
}

fn with_table(database: &Database, rows: usize) -> Session {
    let mut session = connect(database);
    run(&mut session, "create table t (id bigint primary key, n bigint)").unwrap();
    run(&mut session, &format!("insert into t select g, g from generate_series(1, {rows}) g")).unwrap();
    session
}

/// Goal: an endless query answers at once, in each direction that goes forward. Method: a series and a recursive query.
#[test]
fn endless_queries_answer() {
    let database = database();
    let mut session = connect(&database);
    run(&mut session, &format!("begin; declare c cursor for {ENDLESS}")).unwrap();
    assert_eq!(numbers(&mut session, "fetch 10 from c"), (1..=10).collect::<Vec<_>>());
    run(&mut session, "move forward 100000 in c").unwrap();
    assert_eq!(numbers(&mut session, "fetch 2 from c"), [100_011, 100_012]);
    assert_eq!(numbers(&mut session, "fetch absolute 200000 from c"), [200_000]);
    assert_eq!(numbers(&mut session, "fetch relative 3 from c"), [200_003]);
    let shown = run(&mut session, "select name, is_scrollable from pg_cursors").unwrap();
    assert_eq!(*shown[0], [Datum::text("c"), Datum::Bool(false)]);
    assert_eq!(database.cursor_threads(), 1);
    let sessions = database.engine().transactions().into_iter().map(|open| open.session.unwrap());
    assert_eq!(sessions.filter(|name| name.starts_with("postgres")).count(), 2, "its own, and the session's");
    let back = run(&mut session, "fetch prior from c").unwrap_err();
    assert_eq!((back.state(), back.message()), (SqlState("55000"), "cursor can only scan forward"));
    run(&mut session, "rollback").unwrap();
    threads_become(&database, 0);
    let recursive = "with recursive r(n) as (values (1::bigint) union all select n + 1 from r) select n from r";
    run(&mut session, &format!("begin; declare c cursor for {recursive}")).unwrap();
    assert_eq!(numbers(&mut session, "fetch 10 from c"), (1..=10).collect::<Vec<_>>());
    run(&mut session, "commit").unwrap();
    threads_become(&database, 0);
}

/// Goal: a cursor shows the rows of its DECLARE, whoever changes them later. Method: changes, committed and not, by the same
/// transaction and by others at the isolation levels, while the rows are far from read; garbage is collected.
#[test]
fn later_changes_are_invisible() {
    for level in ["read committed", "repeatable read"] {
        for order in ["", " order by id"] {
            let database = database();
            let mut session = with_table(&database, 60_000);
            let mut other = connect(&database);
            run(&mut session, &format!("begin isolation level {level}")).unwrap();
            run(&mut session, &format!("declare c cursor for select n from t where 0 < id{order}")).unwrap();
            assert_eq!(numbers(&mut session, "fetch 1 from c"), [1]);
            assert_eq!(database.cursor_threads(), 1, "it waits for room");
            run(&mut other, "update t set n = -n where id % 2 = 0; delete from t where id % 5 = 1").unwrap();
            run(&mut other, "insert into t select g, g from generate_series(100001, 100100) g").unwrap();
            database.engine().collect_garbage(usize::MAX);
            run(&mut session, "savepoint s; insert into t values (-1, -1), (200000, 1)").unwrap();
            assert_eq!(numbers(&mut session, "fetch 1 from c"), [2]);
            run(&mut session, "rollback to s; insert into t values (200001, 1)").unwrap();
            database.engine().collect_garbage(usize::MAX);
            assert_eq!(numbers(&mut session, "fetch all from c"), (3..=60_000).collect::<Vec<_>>(), "{level}");
            assert_eq!(numbers(&mut session, "fetch all from c"), [0; 0]);
            run(&mut session, "commit").unwrap();
            threads_become(&database, 0);
        }
    }
}

/// Goal: an error comes with the FETCH that reaches it, and fails the transaction. Method: a division by zero at a row among
/// the first, and at one that a thread makes.
#[test]
fn errors_come_with_their_rows() {
    let database = database();
    let mut session = connect(&database);
    for zero in [1, 1_000, 100_000] {
        let query = format!("select 1 / ({zero} - g) from generate_series(1, 1000000) g");
        run(&mut session, &format!("begin; declare c cursor for {query}")).unwrap();
        assert_eq!(numbers(&mut session, &format!("fetch {} from c", zero - 1)).len(), zero - 1);
        assert_eq!(state_of(run(&mut session, "fetch 1 from c")), SqlState("22012"));
        assert_eq!(state_of(run(&mut session, "fetch 1 from c")), SqlState("25P02"));
        run(&mut session, "rollback").unwrap();
        threads_become(&database, 0);
    }
}

/// Goal: small cursors have no thread, and can still scroll. Method: few rows, and an error that SCROLL meets at once.
#[test]
fn small_and_scrollable_cursors_are_made_whole() {
    let database = database();
    let mut session = with_table(&database, 1_000);
    run(&mut session, "begin; declare c cursor for select n from t order by n").unwrap();
    assert_eq!(database.cursor_threads(), 0);
    assert_eq!(numbers(&mut session, "fetch last from c"), [1_000]);
    assert_eq!(numbers(&mut session, "fetch prior from c"), [999]);
    let failing = "select 1 / (10 - g) from generate_series(1, 100000) g";
    let declared = run(&mut session, &format!("declare d scroll cursor for {failing}"));
    assert_eq!(state_of(declared), SqlState("22012"));
    run(&mut session, "rollback").unwrap();
    // One WITH HOLD, and those whose rows depend on what the transaction does.
    let large = "select g::bigint from generate_series(1, 50000) g";
    for declared in [
        format!("begin; declare c cursor with hold for {large}"),
        format!("begin; declare c scroll cursor for {large}"),
        format!("begin isolation level serializable; declare c cursor for {large}"),
        format!("begin; update t set n = 0 where id = 1; declare c cursor for {large}"),
        format!("begin; declare c cursor for {large} where random() < 2"),
    ] {
        run(&mut session, &declared).unwrap();
        assert_eq!(database.cursor_threads(), 0, "{declared}");
        assert_eq!(numbers(&mut session, "fetch all from c").len(), 50_000, "{declared}");
        run(&mut session, "rollback").unwrap();
    }
}

/// Goal: the query ends with its cursor, however that ends. Method: queries that wait for room, and such that make no row.
#[test]
fn a_query_ends_with_its_cursor() {
    let database = database();
    let mut session = connect(&database);
    for query in [ENDLESS, SILENT] {
        for end in ["close c", "close all", "commit", "rollback", "rollback to s", "select 1 / 0"] {
            run(&mut session, &format!("begin; savepoint s; declare c cursor for {query}")).unwrap();
            assert_eq!(database.cursor_threads(), 1);
            let ended = run(&mut session, end);
            assert_eq!(ended.is_err(), end == "select 1 / 0", "{end}");
            threads_become(&database, 0);
            run(&mut session, "rollback").unwrap();
        }
        // A cursor that a rollback to a savepoint leaves goes on.
        run(&mut session, &format!("begin; declare c cursor for {query}; savepoint s")).unwrap();
        assert!(run(&mut session, "select 1 / 0").is_err());
        run(&mut session, "rollback to s").unwrap();
        assert_eq!(database.cursor_threads(), 1);
        if query == ENDLESS {
            assert_eq!(numbers(&mut session, "fetch 1 from c"), [1]);
        }
        run(&mut session, "rollback").unwrap();
        threads_become(&database, 0);
        let mut other = connect(&database);
        run(&mut other, &format!("begin; declare c cursor for {query}")).unwrap();
        assert_eq!(database.cursor_threads(), 1);
        drop(other);
        threads_become(&database, 0);
    }
}

/// Goal: a cancel and the time limit end a FETCH that waits, and the query with it; the time between two FETCHes does not
/// count. Method: a query that makes no row.
#[test]
fn a_fetch_that_waits_can_be_ended() {
    let database = database();
    let mut session = connect(&database);
    run(&mut session, &format!("begin; declare c cursor for {SILENT}")).unwrap();
    let statement = session.prepare("fetch 1 from c", &[]).unwrap();
    let mut portal = session.bind(&statement, Vec::new()).unwrap();
    let Step::Parked(parked) = session.execute(&mut portal).unwrap() else { panic!("no row comes") };
    session.canceller().cancel();
    parked.wait();
    assert_eq!(session.execute(&mut portal).unwrap_err().state(), SqlState::QUERY_CANCELED);
    session.fail();
    threads_become(&database, 0);
    run(&mut session, "rollback").unwrap();
    run(&mut session, &format!("begin; declare c cursor for {ENDLESS}")).unwrap();
    run(&mut session, "set local statement_timeout = 100").unwrap();
    for row in 1..=3 {
        thread::sleep(Duration::from_millis(150));
        assert_eq!(numbers(&mut session, "fetch 1 from c"), [row]);
    }
    assert_eq!(state_of(run(&mut session, "move all in c")), SqlState::QUERY_CANCELED);
    threads_become(&database, 0);
    run(&mut session, "rollback").unwrap();
}

/// Goal: threads are bounded; a cursor beyond the bound is made whole. Method: as many cursors as there may be threads.
#[test]
fn threads_are_bounded() {
    const THREADS_MAX: usize = 128;
    let database = database();
    let mut sessions: Vec<Session> = (0..4).map(|_| connect(&database)).collect();
    let query = "select g::bigint from generate_series(1, 1000000) g";
    for session in &mut sessions {
        run(session, "begin").unwrap();
        for at in 0..THREADS_MAX / 4 {
            run(session, &format!("declare c{at} cursor for {query}")).unwrap();
        }
    }
    let mut session = sessions.remove(0);
    assert_eq!(database.cursor_threads(), THREADS_MAX);
    run(&mut session, "declare whole cursor for select g::bigint from generate_series(1, 50000) g").unwrap();
    assert_eq!(database.cursor_threads(), THREADS_MAX);
    assert_eq!(numbers(&mut session, "fetch last from whole"), [50_000]);
    run(&mut session, "close c7").unwrap();
    threads_become(&database, THREADS_MAX - 1);
    assert_eq!(numbers(&mut session, "fetch 1 from c8"), [1]);
    drop((session, sessions));
    threads_become(&database, 0);
}

/// Goal: a cursor takes no more memory than its queue, whatever its rows, and counts for the session's limit. Method: 400 MB of
/// rows that are passed over; cursors up to the limit of 64 MB.
#[test]
fn memory_stays_bounded() {
    let database = database();
    let mut session = connect(&database);
    let query = "select repeat('x', 10000) from generate_series(1, 1000000000) g";
    run(&mut session, &format!("begin; declare c cursor for {query}")).unwrap();
    assert_eq!(database.cursor_threads(), 1);
    let (before, mut most) = (held_bytes(), 0);
    for _ in 0..20 {
        run(&mut session, "move 2000 in c").unwrap();
        most = most.max(held_bytes().saturating_sub(before));
    }
    // The other tests of this process hold some memory, too.
    assert!(most < 128 << 20, "{most} bytes");
    assert_eq!(session.kept_bytes(), 1 << 20);
    for at in 1..64 {
        run(&mut session, &format!("declare c{at} cursor for {query}")).unwrap();
    }
    assert_eq!(database.cursor_threads(), 64);
    assert_eq!(state_of(run(&mut session, &format!("declare d cursor for {query}"))), SqlState::OUT_OF_MEMORY);
    threads_become(&database, 0);
    run(&mut session, "rollback").unwrap();
}
