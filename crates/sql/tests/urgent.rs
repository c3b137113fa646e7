//! Goal: a call of an urgent procedure by a session of class high runs on a busy worker, in an urgent context, with the
//! result, the rights and the errors of any other call; what cannot run there is refused, or made by the executor.
//! Method: a worker that is busy with SQL of its own, and is interrupted by each call; a module that is linked into the
//! test and tells where it ran.

#![allow(missing_docs, clippy::unwrap_used, reason = "a test")]

use engine::{Engine, EngineConfig};
use preempt::{Arrival, BoundedQueue, Delivery, Serve, Signal, Worker};
use procs::Runtimes;
use procs::native::{NativeModule, NativeRuntime};
use settings::Connect;
use sql::session::{Database, GaveUp, Outcome, Portal, Session, Step, UrgentScheduler, UrgentWork};
use statement::SqlResult;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::SeqCst};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};
use types::Datum;

#[global_allocator]
static HEAP: preempt::Heap = preempt::Heap::HEAP;

#[path = "urgent/bank.rs"]
mod bank;

use bank::{Bank, Slow, URGENT};

/// Queue of calls, and the worker that is interrupted for each.
struct Queue {
    calls: BoundedQueue<Arc<dyn UrgentWork>>,
    worker: std::sync::OnceLock<&'static Worker>,
    can_interrupt: AtomicBool,
    /// True while calls stay in the queue.
    holds: AtomicBool,
    /// Calls that were made.
    made: AtomicU64,
}

impl Serve for Queue {
    fn serve(&self, _worker: &'static Worker, _arrival: Arrival) {
        while let Some(call) = self.calls.pop() {
            call.run();
            self.made.fetch_add(1, SeqCst);
        }
    }
}

impl UrgentScheduler for Queue {
    fn can_interrupt(&self) -> bool {
        self.can_interrupt.load(SeqCst)
    }

    fn submit(&self, work: Arc<dyn UrgentWork>) -> bool {
        if self.calls.push(work).is_err() {
            return false;
        }
        if !self.holds.load(SeqCst) {
            Signal.send(self.worker.get().unwrap());
        }
        true
    }
}

/// Database with its busy worker.
struct Setup {
    database: Database,
    queue: Arc<Queue>,
    is_over: Arc<AtomicBool>,
    worker: Option<JoinHandle<u64>>,
}

impl Drop for Setup {
    fn drop(&mut self) {
        self.is_over.store(true, SeqCst);
        let worked = self.worker.take().unwrap().join();
        if !thread::panicking() {
            assert!(0 < worked.unwrap(), "the worker's own queries have run");
        }
    }
}

const TABLES: &str = "create table accounts (id int primary key, balance bigint not null);
    create table names (kind char(3), name varchar(5), note text, primary key (kind, name));
    insert into accounts select n, 100 from generate_series(1, 10) n;
    create table busy (n int primary key, t text);
    insert into busy select n, 'row ' || n from generate_series(1, 3000) n;
    create module bank manifest 'MANIFEST' artifact native 'bank';
    create procedure transfer(a int, b int, amount bigint, out left_over bigint) language native as 'bank', 'transfer';
    create procedure total(out sum bigint) language native as 'bank', 'sum';
    create procedure fails() language native as 'bank', 'raise';
    create procedure panics() language native as 'bank', 'panic';
    create procedure spins() language native as 'bank', 'spin';
    create procedure adds(id int, balance bigint) language native as 'bank', 'insert';
    create procedure named(kind text, name text, out found text) language native as 'bank', 'name';
    create procedure ends(id int) language native as 'bank', 'ends';
    create procedure by_statement(id int, out balance bigint) language native as 'bank', 'by_statement';
    create procedure is_urgent(out yes boolean) language native as 'bank', 'where';
    create procedure tells(count int) language native set (urgent = true) as 'bank';
    alter procedure transfer set (urgent = true);
    alter procedure total set (urgent = on);
    alter procedure fails set (urgent = true);
    alter procedure panics set (urgent = true);
    alter procedure spins set (urgent = true, time_limit = '2ms');
    alter procedure adds set (urgent = true);
    alter procedure named set (urgent = true);
    alter procedure ends set (urgent = true);
    alter procedure by_statement set (urgent = true);
    alter procedure is_urgent set (urgent = true)";

impl Setup {
    fn new() -> Setup {
        let queue = Arc::new(Queue {
            calls: BoundedQueue::new(64),
            worker: std::sync::OnceLock::new(),
            can_interrupt: AtomicBool::new(true),
            holds: AtomicBool::new(false),
            made: AtomicU64::new(0),
        });
        let native = NativeRuntime::new(vec![Arc::new(Bank), Arc::new(Slow)]);
        let database = Database::new(Engine::new(EngineConfig::in_memory()))
            .with_runtimes(Arc::new(Runtimes::new(vec![Arc::new(native)])))
            .with_urgent(Arc::clone(&queue) as Arc<dyn UrgentScheduler>);
        let mut session = connect(&database, "");
        for statement in TABLES.replace("MANIFEST", Bank.manifest()).split(";\n") {
            run(&mut session, statement).unwrap();
        }
        let is_over = Arc::new(AtomicBool::new(false));
        let (of_worker, over, busy) = (Arc::clone(&queue), Arc::clone(&is_over), database.clone());
        let (ready, started) = std::sync::mpsc::channel();
        let worker = thread::spawn(move || {
            let registration = preempt::register("busy", Arc::clone(&of_worker) as Arc<dyn Serve>).unwrap();
            of_worker.worker.set(registration.worker()).ok().unwrap();
            ready.send(()).unwrap();
            let mut session = connect(&busy, "");
            let mut worked = 0;
            // A test may be over before the first query is.
            loop {
                let query = "select count(*), min(t), max(t) from busy where n % 7 <> 3 and length(t) < 8";
                assert_eq!(shown(&mut session, query), "856,row 1,row 999", "the interrupted query");
                worked += 1;
                if over.load(SeqCst) {
                    break worked;
                }
            }
        });
        started.recv().unwrap();
        Setup { database, queue, is_over, worker: Some(worker) }
    }

    /// Opens a session of class high.
    fn high(&self) -> Session {
        let mut session = connect(&self.database, "");
        run(&mut session, "set overtake.priority = high").unwrap();
        session
    }

    fn committed(&self) -> u64 {
        self.database.urgent_counts().committed
    }

    fn gave_up(&self, why: GaveUp) -> u64 {
        let at = GaveUp::ALL.iter().position(|one| *one == why).unwrap();
        self.database.urgent_counts().gave_up[at]
    }
}

fn connect(database: &Database, user: &str) -> Session {
    let user = if user.is_empty() { "postgres" } else { user };
    database.connect(Connect { user: user.to_owned(), database: "postgres".to_owned(), ..Connect::default() }).unwrap()
}

/// Runs one statement as a transaction of its own, as a server does.
fn run(session: &mut Session, text: &str) -> SqlResult<Outcome> {
    let ran = begin(session, text).and_then(|mut portal| finish(session, &mut portal));
    let ended = session.sync();
    let outcome = ran?;
    ended?;
    Ok(outcome)
}

fn begin(session: &mut Session, text: &str) -> SqlResult<Portal> {
    let statement = session.prepare(text, &[])?;
    session.ends_with_statement(true);
    session.bind(&statement, Vec::new())
}

fn finish(session: &mut Session, portal: &mut Portal) -> SqlResult<Outcome> {
    loop {
        match session.execute(portal)? {
            Step::Done(outcome) => return Ok(outcome),
            Step::Parked(parked) => parked.wait(),
            step => panic!("{step:?}"),
        }
    }
}

/// Returns the rows as text, or the error's code and message.
fn shown(session: &mut Session, text: &str) -> String {
    let cell = |value: &Datum| match value {
        Datum::Null => "NULL".to_owned(),
        Datum::Int4(value) => value.to_string(),
        Datum::Int8(value) => value.to_string(),
        Datum::Bool(value) => value.to_string(),
        Datum::Text(value) => value.to_string(),
        other => format!("{other:?}"),
    };
    match run(session, text) {
        Ok(Outcome::Rows(rows, _)) => {
            let row = |row: &[Datum]| row.iter().map(cell).collect::<Vec<_>>().join(",");
            rows.iter().map(|one| row(one)).collect::<Vec<_>>().join(" ")
        }
        Ok(_) => "done".to_owned(),
        Err(error) => format!("{} {}", error.state(), error.message()),
    }
}

#[track_caller]
fn check(session: &mut Session, all: &[(&str, &str)]) {
    for (statement, wanted) in all {
        assert_eq!(shown(session, statement), *wanted, "{statement}");
    }
}

#[test]
fn calls_run_on_the_busy_worker() {
    let setup = Setup::new();
    let session = &mut setup.high();
    check(
        session,
        &[
            ("call is_urgent(null)", "true"),
            ("call transfer(1, 2, 30, null)", "70"),
            ("call total(null)", "1000"),
            ("call by_statement(2, null)", "130"),
            ("call by_statement(77, null)", "NULL"),
            ("call adds(11, 5)", "done"),
            ("call named('ab', 'Ann', null)", "Ann"),
            ("select * from accounts where id in (1, 2, 11) order by id", "1,70 2,130 11,5"),
            ("select count(*) from names", "0"),
            ("call transfer(1, 55, 1, null)", "02000 no such account"),
        ],
    );
    assert_eq!(setup.committed(), 7);
    assert_eq!(setup.database.urgent_counts().failed, 1);
    assert_eq!(setup.database.urgent_counts().gave_up, [0; GaveUp::ALL.len()]);
}

/// Goal: a call is urgent only if the scheduler has busy workers, the class is high, and the call is a transaction of its
/// own at READ COMMITTED.
#[test]
fn other_calls_run_as_before() {
    let setup = Setup::new();
    let session = &mut setup.high();
    let is_urgent = "call is_urgent(null)";
    check(session, &[("begin", "done"), (is_urgent, "false"), ("commit", "done"), (is_urgent, "true")]);
    check(session, &[("set overtake.priority = normal", "done"), (is_urgent, "false")]);
    check(session, &[("/*+ priority=high */ call is_urgent(null)", "true")]);
    check(session, &[("set overtake.priority = high", "done"), (is_urgent, "true")]);
    for setting in ["default_transaction_isolation = 'repeatable read'", "default_transaction_read_only = on"] {
        let name = setting.split(' ').next().unwrap();
        let (set, reset) = (format!("set {setting}"), format!("reset {name}"));
        check(session, &[(&set, "done"), (is_urgent, "false"), (&reset, "done"), (is_urgent, "true")]);
    }
    // An argument that is computed.
    check(session, &[("call transfer(1, 2, (10 + 0 * random())::bigint, null)", "90")]);
    let before = setup.committed();
    setup.queue.can_interrupt.store(false, SeqCst);
    check(session, &[(is_urgent, "false")]);
    setup.queue.can_interrupt.store(true, SeqCst);
    // Another statement may follow in the same transaction.
    let statement = session.prepare(is_urgent, &[]).unwrap();
    let mut portal = session.bind(&statement, Vec::new()).unwrap();
    session.ends_with_statement(false);
    let Outcome::Rows(found, _) = finish(session, &mut portal).unwrap() else { panic!("rows") };
    assert_eq!(*found[0], [Datum::Bool(false)]);
    session.sync().unwrap();
    assert_eq!(setup.committed(), before);
    check(session, &[("alter procedure is_urgent set (urgent = false)", "done"), (is_urgent, "false")]);
    check(session, &[("alter procedure is_urgent reset (urgent)", "done"), (is_urgent, "false")]);
}

/// Goal: an error leaves no trace, and the session goes on.
#[test]
fn errors_undo_the_call() {
    let setup = Setup::new();
    let session = &mut setup.high();
    check(session, &[("call fails()", "P0001 on purpose")]);
    let notices: Vec<String> = session.take_notices().iter().map(|(_, notice)| notice.message().to_owned()).collect();
    assert_eq!(notices, ["about to fail"]);
    check(
        session,
        &[
            ("call panics()", "38000 the routine crashed: it panicked"),
            ("call spins()", "57014 canceling statement due to time limit of routine"),
            ("select balance from accounts where id = 1", "100"),
            ("call is_urgent(null)", "true"),
            // What violates a constraint is worded by the executor.
            ("call adds(1, 5)", "23505 duplicate key value violates unique constraint \"accounts_pkey\""),
            (
                "call adds(20, null)",
                "23502 null value in column \"balance\" of relation \"accounts\" violates not-null constraint",
            ),
            ("call ends(30)", "done"),
            ("select balance from accounts where id = 30", "7"),
        ],
    );
    assert_eq!(setup.database.urgent_counts().failed, 3);
    assert_eq!(setup.gave_up(GaveUp::Conflict), 1);
    assert_eq!(setup.gave_up(GaveUp::Executor), 2);
    // From now on it is known to end transactions.
    check(session, &[("call ends(31)", "done")]);
    assert_eq!(setup.gave_up(GaveUp::Executor), 2);
}

/// Goal: a call that exceeds its budget is made by the executor, with the time that the statement has.
#[test]
fn a_long_call_gives_up() {
    let setup = Setup::new();
    let session = &mut setup.high();
    check(session, &[("alter procedure spins set (time_limit = '50ms')", "done")]);
    let begun = Instant::now();
    check(session, &[("call spins()", "57014 canceling statement due to time limit of routine")]);
    assert!(Duration::from_millis(50) <= begun.elapsed());
    assert_eq!(setup.gave_up(GaveUp::Budget), 1);
    run(session, "insert into accounts select n, 1 from generate_series(100, 2000) n").unwrap();
    check(session, &[("call total(null)", "2901")]);
    assert_eq!(setup.gave_up(GaveUp::Budget), 2);
}

/// Goal: a call that has committed is not answered with an error. Method: notices, each of them short, that only together
/// are too many for a statement.
#[test]
fn too_many_notices_are_found_before_the_commit() {
    let setup = Setup::new();
    let session = &mut setup.high();
    check(session, &[("call tells(400)", "done"), ("select balance from accounts where id = 9", "400")]);
    assert_eq!(setup.gave_up(GaveUp::Budget), 0);
    check(
        session,
        &[
            ("call tells(9000)", "54000 the notices of a statement exceed 1024 kB"),
            ("select balance from accounts where id = 9", "400"),
        ],
    );
    assert_eq!(setup.gave_up(GaveUp::Budget), 1);
}

/// Goal: a lock that another transaction has is waited for outside of the urgent context.
#[test]
fn a_locked_row_is_waited_for_by_the_session() {
    let setup = Setup::new();
    let mut holder = setup.high();
    check(&mut holder, &[("begin", "done"), ("update accounts set balance = balance + 5 where id = 1", "done")]);
    let mut session = setup.high();
    let mut portal = begin(&mut session, "call transfer(1, 2, 10, null)").unwrap();
    let waiter = thread::spawn(move || {
        let outcome = finish(&mut session, &mut portal);
        session.sync().unwrap();
        outcome
    });
    while setup.gave_up(GaveUp::Lock) == 0 {
        thread::yield_now();
    }
    thread::sleep(Duration::from_millis(20));
    assert!(!waiter.is_finished(), "the row is locked");
    check(&mut holder, &[("commit", "done")]);
    let Outcome::Rows(found, _) = waiter.join().unwrap().unwrap() else { panic!("rows") };
    assert_eq!(*found[0], [Datum::Int8(95)]);
}

/// Goal: a cancel ends a call, before and while it runs, and the answer says whether it has committed.
#[test]
fn a_cancel_ends_the_call() {
    let setup = Setup::new();
    let mut session = setup.high();
    let canceller = session.canceller();
    check(&mut session, &[("alter procedure spins reset (time_limit)", "done")]);
    for ms in [0, 1, 3, 30] {
        let mut portal = begin(&mut session, "call spins()").unwrap();
        let ends = canceller.clone();
        let cancels = thread::spawn(move || {
            thread::sleep(Duration::from_millis(ms));
            // It may have found no statement yet.
            for _ in 0..100 {
                ends.cancel();
                thread::sleep(Duration::from_millis(1));
            }
        });
        let error = finish(&mut session, &mut portal).unwrap_err();
        assert_eq!(error.state().0, "57014", "{error:?}");
        cancels.join().unwrap();
        session.sync().unwrap();
    }
    // The last cancels may meet a later statement.
    let _ = run(&mut session, "select 1");
    check(&mut session, &[("call total(null)", "1000")]);
}

/// Goal: a session that ends meanwhile leaves nothing behind.
#[test]
fn a_session_may_end_before_its_call() {
    let setup = Setup::new();
    for _ in 0..20 {
        let mut session = setup.high();
        let mut portal = begin(&mut session, "call transfer(1, 2, 1, null)").unwrap();
        let step = session.execute(&mut portal).unwrap();
        assert!(matches!(step, Step::Parked(_)), "{step:?}");
        drop(step);
        drop(session);
    }
    check(&mut setup.high(), &[("call total(null)", "1000"), ("call is_urgent(null)", "true")]);
}

/// Goal: a cancel that comes after the call has given up, and before the session learns of it, ends the statement. Method:
/// the executor would wait for the row, which stays locked.
#[test]
fn a_cancel_ends_a_call_that_gave_up() {
    let setup = Setup::new();
    let mut holder = setup.high();
    check(&mut holder, &[("begin", "done"), ("update accounts set balance = balance + 5 where id = 1", "done")]);
    let mut session = setup.high();
    let mut portal = begin(&mut session, "call transfer(1, 2, 10, null)").unwrap();
    let Step::Parked(parked) = session.execute(&mut portal).unwrap() else { panic!("an urgent call") };
    parked.wait();
    session.canceller().cancel();
    let error = session.execute(&mut portal).unwrap_err();
    assert_eq!((error.state().0, error.message()), ("57014", "canceling statement due to user request"));
    assert_eq!(setup.gave_up(GaveUp::Lock), 1);
    session.sync().unwrap();
    check(&mut holder, &[("rollback", "done")]);
    check(&mut session, &[("call transfer(1, 2, 10, null)", "90")]);
}

/// Goal: a call whose session has ended leaves the queue of a lock, although no session does anything about it. Method: the
/// call is made after its session's end, and meets a locked row.
#[test]
fn a_call_without_its_session_waits_for_nothing() {
    let setup = Setup::new();
    let mut holder = setup.high();
    check(&mut holder, &[("begin", "done"), ("update accounts set balance = balance + 5 where id = 1", "done")]);
    let mut observer = connect(&setup.database, "");
    let mut session = setup.high();
    setup.queue.holds.store(true, SeqCst);
    let mut portal = begin(&mut session, "call transfer(1, 2, 10, null)").unwrap();
    let step = session.execute(&mut portal).unwrap();
    assert!(matches!(step, Step::Parked(_)), "{step:?}");
    drop((step, portal, session));
    assert_eq!(setup.queue.made.load(SeqCst), 0);
    setup.queue.holds.store(false, SeqCst);
    Signal.send(setup.queue.worker.get().unwrap());
    while setup.queue.made.load(SeqCst) == 0 {
        thread::yield_now();
    }
    let begun = Instant::now();
    while shown(&mut observer, "select count(*) from pg_locks where not granted") != "0" {
        assert!(begun.elapsed() < Duration::from_secs(20), "the call stays in the queue");
        thread::sleep(Duration::from_millis(1));
    }
}

/// Goal: a scan gives up that passes many entries whose rows it does not see. Method: rows that are not committed.
#[test]
fn a_scan_past_unseen_rows_gives_up() {
    let setup = Setup::new();
    let mut writer = connect(&setup.database, "");
    let insert = "insert into accounts select n, 1 from generate_series(100, 20000) n";
    check(&mut writer, &[("begin", "done"), (insert, "done")]);
    let session = &mut setup.high();
    check(session, &[("call total(null)", "1000")]);
    assert_eq!(setup.gave_up(GaveUp::Budget), 1);
    check(&mut writer, &[("rollback", "done")]);
}

/// Goal: the code's own check of its tables precedes each urgent call. Method: a session with an instance that was made
/// for other tables.
#[test]
fn tables_are_checked_although_the_instance_is_kept() {
    let setup = Setup::new();
    let session = &mut setup.high();
    let is_urgent = "call is_urgent(null)";
    let wrong = "(kind char(3), name varchar(5), note text, more int, primary key (kind, name))";
    let right = "(kind char(3), name varchar(5), note text, primary key (kind, name))";
    check(
        session,
        &[
            (is_urgent, "true"),
            ("drop table names", "done"),
            (&format!("create table names {wrong}"), "done"),
            (is_urgent, "false"),
            ("drop table names", "done"),
            (&format!("create table names {right}"), "done"),
            (is_urgent, "true"),
            ("create schema other", "done"),
            (&format!("create table other.names {wrong}"), "done"),
            (is_urgent, "true"),
            ("set search_path = other, public", "done"),
            (is_urgent, "false"),
            ("set search_path = public", "done"),
            (is_urgent, "true"),
        ],
    );
}

/// Goal: an urgent call has the rights of its caller, as they are when it runs.
#[test]
fn calls_have_the_rights_of_the_caller() {
    let setup = Setup::new();
    let mut owner = setup.high();
    check(
        &mut owner,
        &[
            ("create role clerk login", "done"),
            ("alter role clerk set overtake.priority_max = high", "done"),
            ("grant select on accounts to clerk", "done"),
            ("revoke execute on procedure total from public", "done"),
        ],
    );
    let mut clerk = connect(&setup.database, "clerk");
    check(
        &mut clerk,
        &[
            ("set overtake.priority = high", "done"),
            ("call by_statement(1, null)", "100"),
            ("call transfer(1, 2, 1, null)", "42501 permission denied for table accounts"),
            ("call total(null)", "42501 permission denied for procedure total"),
            ("call named('a', 'b', null)", "42501 permission denied for table names"),
            ("alter procedure transfer set (urgent = false)", "42501 must be owner of procedure transfer"),
        ],
    );
    check(&mut owner, &[("grant update, insert on accounts to clerk", "done")]);
    check(&mut clerk, &[("call transfer(1, 2, 1, null)", "99")]);
    check(&mut owner, &[("revoke select on accounts from clerk", "done")]);
    check(&mut clerk, &[("call by_statement(1, null)", "42501 permission denied for table accounts")]);
}

/// Goal: definitions that an urgent call cannot obey are refused with their reasons, when a procedure becomes urgent.
#[test]
fn what_cannot_be_urgent_is_refused() {
    let setup = Setup::new();
    let session = &mut setup.high();
    let urgent = |what: &str| format!("0A000 {what} in an urgent procedure is not supported");
    check(
        session,
        &[
            ("create table parent (id int primary key)", "done"),
            ("create table checked (id int primary key, v int check (0 < v))", "done"),
            ("create table child (id int primary key, parent int references parent)", "done"),
            ("create table bare (id int)", "done"),
        ],
    );
    let module = |lines: &str| {
        format!(
            "create or replace module m manifest 'overtake 1\n{lines}\nentry transfer\nentry e' artifact native 'bank'"
        )
    };
    let detail = |session: &mut Session, statement: &str| {
        run(session, statement).unwrap_err().detail_text().unwrap_or_default().to_owned()
    };
    for (lines, refused, because) in [
        ("table t checked (id, v)", urgent("table \"checked\""), "checks, or foreign keys"),
        ("table t child (id, parent)", urgent("table \"child\""), "checks, or foreign keys"),
        ("table t parent (id)", urgent("table \"parent\""), "checks, or foreign keys"),
        (
            "statement all SELECT sum(balance) FROM accounts",
            urgent("statement \"all\" of module \"m\""),
            "not a read of one row by its key",
        ),
        (
            "statement add UPDATE accounts SET balance = 0 WHERE id = $1",
            urgent("statement \"add\" of module \"m\""),
            "not a read of one row by its key",
        ),
        ("table t bare (id)", "42P16 table \"bare\" has no primary key".to_owned(), ""),
        ("table t nothing (id)", "42P01 relation \"nothing\" does not exist".to_owned(), ""),
    ] {
        run(session, &module(lines)).unwrap();
        let create = "create procedure p() language native as 'm', 'e'";
        run(session, create).unwrap();
        let alter = "alter procedure p set (urgent = true)";
        assert_eq!(shown(session, alter), refused);
        assert!(detail(session, alter).contains(because), "{lines}");
        let at_once = "create or replace procedure p() language native set (urgent = true) as 'm', 'e'";
        assert_eq!(shown(session, at_once), refused);
        run(session, "drop procedure p()").unwrap();
    }
    run(session, &module("table t accounts (id, balance)")).unwrap();
    check(session, &[("create procedure p() language native set (urgent = true) as 'm', 'e'", "done")]);
    // A new module must suit the urgent procedures that use it.
    assert_eq!(shown(session, &module("table t child (id, parent)")), urgent("table \"child\""));
    check(
        session,
        &[
            ("alter procedure p security definer", &urgent("SECURITY DEFINER")),
            ("alter procedure p set work_mem = '1MB'", &urgent("SET work_mem")),
            ("alter procedure p set (urgent = maybe)", "22023 invalid value for boolean option \"urgent\": maybe"),
            ("create function f() returns int language native as 'm', 'e'", "done"),
            ("alter function f set (urgent = true)", "42P13 only procedures can be urgent"),
            ("create module s manifest 'overtake 1\nentry nothing' artifact native 'slow'", "done"),
            ("create procedure slow() language native as 's', 'nothing'", "done"),
            ("alter procedure slow set (urgent = true)", &urgent("isolation level \"native\"")),
            ("create procedure plain() language sql as 'select 1'", "done"),
            ("alter procedure plain set (urgent = true)", "42809 procedure \"plain\" is written in SQL"),
        ],
    );
    assert_eq!(detail(session, "alter procedure slow set (urgent = true)"), "The native module is not made for it.");
    let text = shown(session, "select pg_get_functiondef('p'::regproc)");
    assert!(text.contains("urgent = "), "{text}");
}

/// Goal: definitions that change after the call was prepared are those of the call. Method: tables that change between
/// calls, and beside them.
#[test]
fn definitions_may_change() {
    let setup = Setup::new();
    let session = &mut setup.high();
    check(
        session,
        &[
            ("call adds(40, 1)", "done"),
            ("alter table accounts add column note text default 'new'", "done"),
            ("call adds(41, 1)", "done"),
            ("select note from accounts where id = 41", "new"),
            ("alter table accounts add check (0 <= balance)", "done"),
            (
                "call transfer(1, 2, 500, null)",
                "23514 new row for relation \"accounts\" violates check constraint \"accounts_balance_check\"",
            ),
            ("call transfer(1, 2, 50, null)", "50"),
        ],
    );
    assert_eq!(setup.committed(), 1, "a table with a default and with a check is the executor's");
}

/// Goal: calls that interrupt each other's sessions' transactions keep the sum. Method: four sessions transfer among ten
/// accounts, half of them by the executor.
#[test]
fn transfers_keep_the_sum() {
    const CALLS: i32 = 300;
    let setup = Setup::new();
    thread::scope(|scope| {
        for number in 0..4 {
            let setup = &setup;
            scope.spawn(move || {
                let mut session = if number % 2 == 0 { setup.high() } else { connect(&setup.database, "") };
                for at in 0..CALLS {
                    let (from, to) = ((at * 7 + number) % 10 + 1, (at * 3 + 2 * number + 5) % 10 + 1);
                    if from == to {
                        continue;
                    }
                    // Always in one order, so that no deadlock comes.
                    let (low, high, sign) = if from < to { (from, to, 1) } else { (to, from, -1) };
                    let call = format!("call transfer({low}, {high}, {}, null)", sign * (at % 5));
                    loop {
                        match run(&mut session, &call) {
                            Ok(_) => break,
                            Err(error) if error.state().0 == "40001" => {}
                            Err(error) => panic!("{error:?}"),
                        }
                    }
                }
            });
        }
    });
    check(&mut setup.high(), &[("select sum(balance)::bigint from accounts", "1000")]);
    assert!(0 < setup.committed());
    assert!(0 < URGENT.load(SeqCst));
}
