//! The simple protocol, byte by byte.

use crate::real::{Real, rows};
use crate::threads::{Spy, Watch};
use std::net::TcpStream;
use wirekit::raw::{Raw, bind, execute, message, parse, query, sync};

const TABLE: &str = "create table t (n int primary key, t text)";
const COUNT: &str = "select count(*) from t";

pub fn statements_are_answered() {
    let real = Real::new();
    let mut client = real.raw_client_after(TABLE);
    assert_eq!(client.ask(&query(&rows(2))), "T(n:23:0,t:25:0) D(1,row 1) D(2,row 2) C(SELECT 2) Z(I)");
    assert_eq!(client.ask(&query(&rows(0))), "T(n:23:0,t:25:0) C(SELECT 0) Z(I)");
    let returning = "insert into t values (1, 'row 1') returning n, t";
    assert_eq!(client.ask(&query(returning)), "T(n:23:0,t:25:0) D(1,row 1) C(INSERT 0 1) Z(I)");
    assert_eq!(client.ask(&query("show statement_timeout")), "T(statement_timeout:25:0) D(0) C(SHOW) Z(I)");
    assert_eq!(client.ask(&query("insert into t select generate_series(2, 4)")), "C(INSERT 0 3) Z(I)");
    assert_eq!(client.ask(&query("")), "I Z(I)");
    assert_eq!(client.ask(&query(" ; ")), "I Z(I)");
    let notice = "N(NOTICE|00000|table \"u\" does not exist, skipping)";
    assert_eq!(client.ask(&query("drop table if exists u")), format!("{notice} C(DROP TABLE) Z(I)"));
    assert_eq!(client.ask(&query("set application_name = 'me'")), "C(SET) S(application_name=me) Z(I)");
    assert_eq!(client.ask(&query("select $1")), "E(ERROR|42P02|there is no parameter $1|P8) Z(I)");
    client.send(&message(b'X', b""));
    assert_eq!(client.answer(), "end");
    real.wait_until("the session ends", |real| real.sessions() == 0);
}

pub fn several_statements_are_one_transaction() {
    let real = Real::new();
    let mut client = real.raw_client_after("create table t (n int primary key, at timestamptz default now())");
    let insert = |n: i32| format!("insert into t values ({n})");
    assert_eq!(client.ask(&query(&[insert(1), insert(2)].join("; "))), "C(INSERT 0 1) C(INSERT 0 1) Z(I)");
    let is_one = "select count(*), count(distinct at) from t";
    assert_eq!(client.ask(&query(is_one)), "T(count:20:0,count:20:0) D(2,1) C(SELECT 1) Z(I)");
    // An error skips the rest, and rolls back what came before.
    let error = "E(ERROR|22012|division by zero) Z(I)";
    let fails = [&insert(3), "select 1 / 0", &insert(4)].join("; ");
    assert_eq!(client.ask(&query(&fails)), format!("C(INSERT 0 1) {error}"));
    let left = "T(count:20:0) D(2) C(SELECT 1) Z(I)";
    assert_eq!(client.ask(&query(COUNT)), left);
    // All statements are parsed before any is run.
    let error = "E(ERROR|42601|syntax error at or near \"!\"|P28) Z(I)";
    assert_eq!(client.ask(&query(&[&insert(3), "  !"].join(";"))), error);
    // Positions count in the whole text, and in characters.
    let error = "E(ERROR|42703|column \"x\" does not exist|P11) Z(I)";
    let notice = "N(NOTICE|00000|table \"ü\" does not exist, skipping) C(DROP TABLE)";
    let moved = error.replace("P11", "P32");
    assert_eq!(client.ask(&query("drop table if exists ü; select x")), format!("{notice} {moved}"));
    assert_eq!(client.ask(&query("; ;select x")), error);
    assert_eq!(client.ask(&query(COUNT)), left);
}

/// As in PostgreSQL, commands for transaction blocks work in a message with several statements, but for savepoints, and
/// those that cannot be part of a block are refused.
pub fn several_statements_are_a_transaction_block() {
    let real = Real::new();
    let mut client = real.raw_client_after("create table t (n int primary key)");
    let one = |name: &str, value: &str| format!("T({name}:25:0) D({value}) C(SHOW)");
    let level = "set transaction isolation level serializable; insert into t values (1); show transaction_isolation";
    let shown = one("transaction_isolation", "serializable");
    assert_eq!(client.ask(&query(level)), format!("C(SET) C(INSERT 0 1) {shown} Z(I)"));
    let usual = one("transaction_isolation", "read committed");
    assert_eq!(client.ask(&query("show transaction_isolation")), format!("{usual} Z(I)"));
    let local = "set local lock_timeout = '123ms'; show lock_timeout";
    assert_eq!(client.ask(&query(local)), format!("C(SET) {} Z(I)", one("lock_timeout", "123ms")));
    assert_eq!(client.ask(&query("show lock_timeout")), format!("{} Z(I)", one("lock_timeout", "0")));
    let warning = "N(WARNING|25P01|SET LOCAL can only be used in transaction blocks)";
    assert_eq!(client.ask(&query("set local lock_timeout = '123ms'")), format!("{warning} C(SET) Z(I)"));
    let lock = "lock table t in exclusive mode; update t set n = 2";
    assert_eq!(client.ask(&query(lock)), "C(LOCK TABLE) C(UPDATE 1) Z(I)");
    let cursor = "declare c cursor for select n from t; fetch c";
    assert_eq!(client.ask(&query(cursor)), "C(DECLARE CURSOR) T(n:23:0) D(2) C(FETCH 1) Z(I)");
    let late = "E(ERROR|25001|SET TRANSACTION ISOLATION LEVEL must be called before any query) Z(I)";
    let answer = client.ask(&query("table t; set transaction isolation level serializable; table t"));
    assert_eq!(answer, format!("T(n:23:0) D(2) C(SELECT 1) {late}"));
    for refused in ["VACUUM", "DISCARD ALL"] {
        let error = format!("E(ERROR|25001|{refused} cannot run inside a transaction block) Z(I)");
        assert_eq!(client.ask(&query(&format!("table t; {refused}"))), format!("T(n:23:0) D(2) C(SELECT 1) {error}"));
    }
    let error = "E(ERROR|25P01|SAVEPOINT can only be used in transaction blocks) Z(I)";
    assert_eq!(client.ask(&query("delete from t; savepoint a")), format!("C(DELETE 1) {error}"));
    // A message with one statement is none.
    let error = "E(ERROR|25P01|LOCK TABLE can only be used in transaction blocks) Z(I)";
    assert_eq!(client.ask(&query("lock table t")), error);
    assert_eq!(client.ask(&query("table t")), "T(n:23:0) D(2) C(SELECT 1) Z(I)");
}

/// A transaction that has begun may give up writing, but not change its isolation level. A `BEGIN` that fails for that
/// leaves no block open.
pub fn a_block_that_cannot_begin_is_over() {
    let real = Real::new();
    let mut client = real.raw_client_after("create table t (n int)");
    let late = "E(ERROR|25001|SET TRANSACTION ISOLATION LEVEL must be called before any query) Z(I)";
    let answer = client.ask(&query("insert into t values (1); begin isolation level serializable"));
    assert_eq!(answer, format!("C(INSERT 0 1) {late}"));
    let kept = client.ask(&query("insert into t values (2); begin read only; table t; commit"));
    assert_eq!(kept, "C(INSERT 0 1) C(BEGIN) T(n:23:0) D(2) C(SELECT 1) C(COMMIT) Z(I)");
    let read_only = "begin; insert into t values (3); set transaction read only; insert into t values (4)";
    let error = "E(ERROR|25006|cannot execute INSERT in a read-only transaction) Z(E)";
    assert_eq!(client.ask(&query(read_only)), format!("C(BEGIN) C(INSERT 0 1) C(SET) {error}"));
    assert_eq!(client.ask(&query("rollback")), "C(ROLLBACK) Z(I)");
    let back =
        "begin; table t; savepoint a; set transaction read only; rollback to a; insert into t values (5); commit";
    let answer = "C(BEGIN) T(n:23:0) D(2) C(SELECT 1) C(SAVEPOINT) C(SET) C(ROLLBACK) C(INSERT 0 1) C(COMMIT) Z(I)";
    assert_eq!(client.ask(&query(back)), answer);
}

/// The last statement of a message is answered when the message is committed. Two serializable transactions read what
/// the other changes, and the second to commit fails.
pub fn a_failed_commit_takes_the_tag_away() {
    let real = Real::new();
    let mut other = real.raw_client_after(
        "create table a (n int); create table b (n int); create table t (n int primary key); insert into t values (1)",
    );
    let mut holder = real.raw_client_after("begin; update t set n = 2");
    let mut client = real.raw_client_after("set default_transaction_isolation = serializable");
    // Its last statement waits.
    client.send(&query("insert into a select count(*) from b; update t set n = 3"));
    real.wait_until("it waits", |real| real.waits() == 1);
    let changes = "begin isolation level serializable; insert into b select count(*) from a; commit";
    assert_eq!(other.ask(&query(changes)), "C(BEGIN) C(INSERT 0 1) C(COMMIT) Z(I)");
    assert_eq!(holder.ask(&query("rollback")), "C(ROLLBACK) Z(I)");
    let answer = client.answer();
    assert!(answer.starts_with("C(INSERT 0 1) E(ERROR|40001|could not serialize access"), "{answer}");
    assert!(!answer.contains("C(UPDATE"), "{answer}");
    let state = "select (select count(*) from a), (select n from t)";
    assert!(other.ask(&query(state)).ends_with(" D(0,1) C(SELECT 1) Z(I)"));
}

/// A transaction that loses its row to a more important one after its statement has been answered fails at its end.
pub fn what_was_answered_is_not_run_again() {
    let real = Real::new();
    let setup = "create table t (n int primary key, v int); insert into t values (1, 0)";
    let mut urgent = real.raw_client_after(&format!("{setup}; set overtake.priority = high"));
    let mut client = real.raw_client();
    let update = "update t set v = v + 1 where n = 1";
    let alone = [parse("", update, &[]), bind("", "", &[], &[], &[]), execute("", 0)].concat();
    client.send(&[alone.clone(), message(b'H', b"")].concat());
    assert_eq!([client.next(), client.next(), client.next()].map(Option::unwrap), ["1", "2", "C(UPDATE 1)"]);
    assert_eq!(urgent.ask(&query(update)), "C(UPDATE 1) Z(I)");
    let error = "E(ERROR|40001|could not serialize access due to concurrent update";
    let answer = client.ask(&sync());
    assert!(answer.starts_with(error) && answer.ends_with(" Z(I)"), "{answer}");
    // With `Sync` behind it, it is committed before it is answered.
    assert_eq!(client.ask(&[alone, sync()].concat()), "1 2 C(UPDATE 1) Z(I)");
    assert_eq!(urgent.ask(&query("select v from t")), "T(v:23:0) D(2) C(SELECT 1) Z(I)");
}

pub fn blocks_and_failed_blocks() {
    let real = Real::new();
    let mut client = real.raw_client_after(TABLE);
    assert_eq!(client.ask(&query("begin")), "C(BEGIN) Z(T)");
    assert!(client.ask(&query("select 1 / 0")).ends_with(" Z(E)"));
    let aborted = "current transaction is aborted, commands ignored until end of transaction block";
    assert_eq!(client.ask(&query(&rows(1))), format!("E(ERROR|25P02|{aborted}) Z(E)"));
    assert_eq!(client.ask(&query("commit")), "C(ROLLBACK) Z(I)");
    let block = "begin; insert into t values (1); commit";
    assert_eq!(client.ask(&query(block)), "C(BEGIN) C(INSERT 0 1) C(COMMIT) Z(I)");
    // A client that disconnects leaves nothing behind.
    assert_eq!(client.ask(&query("begin; insert into t values (2)")), "C(BEGIN) C(INSERT 0 1) Z(T)");
    drop(client);
    real.wait_until("its end rolls back", |real| real.engine.transactions().is_empty());
    assert_eq!(real.raw_client().ask(&query(COUNT)), "T(count:20:0) D(1) C(SELECT 1) Z(I)");
}

pub fn bad_messages_end_the_query_or_the_session() {
    let real = Real::with("", |config| config.message_max = 20_000);
    let mut client = real.raw_client();
    assert_eq!(client.ask(&message(b'Q', b"select 1")), "E(ERROR|08P01|invalid string in message) Z(I)");
    assert_eq!(client.ask(&message(b'Q', b"select 1\0x\0")), "E(ERROR|08P01|invalid message format) Z(I)");
    let utf8 = "E(ERROR|22021|invalid byte sequence for encoding \"UTF8\": 0xff) Z(I)";
    assert_eq!(client.ask(&message(b'Q', b"\xff\0")), utf8);
    assert_eq!(client.ask(&message(b'F', b"")), "E(ERROR|0A000|a function call message is not supported) Z(I)");
    // COPY messages are ignored outside of a COPY.
    client.send(&[message(b'd', b"1"), message(b'c', b""), message(b'f', b"why\0")].concat());
    let (select, answer) = (query("select 1 as n"), "T(n:23:0) D(1) C(SELECT 1) Z(I)");
    assert_eq!(client.ask(&select), answer);
    // Many messages at once, in one write and byte by byte.
    client.send(&select.repeat(100));
    (0..100).for_each(|_| assert_eq!(client.answer(), answer));
    select.chunks(1).for_each(|byte| client.send(byte));
    assert_eq!(client.answer(), answer);
    let ends = |bytes: &[u8]| real.raw_client().ask(bytes);
    assert_eq!(ends(b"!"), "E(FATAL|08P01|invalid frontend message type 33) end");
    assert_eq!(ends(b"Q\0\0\0\x03"), "E(FATAL|08P01|invalid message length) end");
    let long = "E(FATAL|54000|a message of 20001 bytes is longer than this server accepts) end";
    assert_eq!(ends(&[&b"Q"[..], &20_005_i32.to_be_bytes()].concat()), long);
    assert_eq!(ends(&message(b'p', b"")), "E(FATAL|08P01|invalid frontend message type 112) end");
}

/// Returns the thread that the only row of the answer names.
fn thread(client: &mut Raw<TcpStream>, text: &str) -> String {
    let answer = client.ask(&query(text));
    let row = answer.split(" D(").nth(1).unwrap_or_else(|| panic!("{answer}"));
    row.split(')').next().unwrap().to_owned()
}

pub fn large_results_pass() {
    let real = Real::new();
    let mut client = real.raw_client();
    let answer = client.ask(&query(&rows(100_000)));
    assert!(answer.ends_with("D(100000,row 100000) C(SELECT 100000) Z(I)"));
}

/// A new statement runs beside the threads of the network, a known short one on them, and a large one below them,
/// unless other sessions may come to wait for it.
pub fn statements_run_where_they_delay_nobody() {
    let real = Spy::default().serve();
    let mut client = real.raw_client_after("create table t (name text); insert into t values ('?')");
    let small = "select name from overtake.thread";
    assert_eq!(thread(&mut client, small), "tokio-rt-worker");
    // A statement that a busy machine made long is forgiven when it was short often enough.
    assert!((0..500).any(|_| thread(&mut client, small) == "network"));
    client.ask(&query("set overtake.path = analytics"));
    assert_eq!(thread(&mut client, "select name from t"), "below");
    let block = "begin; insert into t values ('in'); select name as in_a_block from t; commit";
    assert_eq!(thread(&mut client, block), "tokio-rt-worker");
    let implicit = "insert into t values ('behind'); select name as behind_a_change from t";
    assert_eq!(thread(&mut client, implicit), "tokio-rt-worker");
}

/// A transaction that has changed much ends where that delays no other session, whatever ends it: a commit, an error of
/// a statement or of a message, the end of its session. A COPY in it, which may fail, runs there, too.
pub fn transactions_end_where_they_delay_nobody() {
    let spy = Spy::default();
    let real = spy.serve();
    let mut setup =
        real.raw_client_after("create table t (n int); create table c (n int, b bool default pg_cancel_backend(1))");
    // Known to be short from here on.
    let copy = "copy (select pg_cancel_backend(g) from generate_series(1, 10) g) to stdout";
    for _ in 0..500 {
        setup.ask(&query("begin; rollback; begin; commit; select 1 / 1"));
        setup.ask(&query(copy));
    }
    let much = "select pg_advisory_xact_lock(7); insert into t select generate_series(1, 2000)";
    let rest = "tokio-rt-worker";
    let ends = |what: &str, begins: &[&str], end: &[u8]| {
        let thread = Watch::told(|| {
            let mut client = real.raw_client();
            begins.iter().for_each(|text| drop(client.ask(&query(text))));
            if begins.is_empty() {
                let portal = |text: &str| [parse("", text, &[]), bind("", "", &[], &[], &[]), execute("", 0)].concat();
                let (lock, much) = much.split_once("; ").unwrap();
                client.send(&[portal(lock), portal(much), message(b'H', b"")].concat());
                while !client.next().unwrap().starts_with("C(INSERT") {}
            }
            let watch = Watch::new(&real);
            match end {
                [] => drop(client),
                end => drop(client.ask(end)),
            }
            watch.ended_on(&real, what)
        });
        assert_eq!(thread, rest, "{what}");
    };
    let block = &["begin", much][..];
    ends("COMMIT", block, &query("commit"));
    ends("ROLLBACK", block, &query("rollback"));
    ends("an error of a statement", block, &query("select 1 / 0"));
    ends("an error of a name", block, &query("select nonsense"));
    ends("an error of grammar", block, &query("!"));
    ends("Sync", &[], &sync());
    ends("an error of Parse", &[], &[parse("", "select nonsense", &[]), sync()].concat());
    ends("the end of the session", block, &[]);
    let mut client = real.raw_client();
    let thread = Watch::told(|| {
        // Another session holds the message up until the watch is there.
        let mut holder = real.raw_client_after("begin; select pg_advisory_xact_lock(8)");
        client.send(&query(&format!("{much}; select pg_advisory_xact_lock(8)")));
        real.wait_until("it waits", |real| real.waits() == 1);
        let watch = Watch::new(&real);
        holder.ask(&query("rollback"));
        assert!(client.answer().ends_with(" Z(I)"));
        watch.ended_on(&real, "the end of a message")
    });
    assert_eq!(thread, rest);
    let thread = Watch::told(|| {
        block.iter().for_each(|text| drop(client.ask(&query(text))));
        spy.take();
        client.ask(&query(copy));
        assert_eq!(spy.take(), [format!("called on {rest}")]);
        client.send(&query("copy c (n) from stdin"));
        assert_eq!(client.next().unwrap(), "G(0,1)");
        let watch = Watch::new(&real);
        client.ask(&[message(b'd', b"1\n2\nx\n"), message(b'c', b"")].concat());
        assert_eq!(spy.take(), [format!("called on {rest}")]);
        client.ask(&query("rollback"));
        watch.ended_on(&real, "an error of a COPY")
    });
    assert_eq!(thread, rest);
}

/// A long text is prepared below the threads of the network, too, unless other sessions may
/// come to wait for the session.
pub fn long_texts_are_prepared_where_they_delay_nobody() {
    let spy = Spy::default();
    let real = spy.serve();
    let mut client = real.raw_client();
    let mut prepared = |messages: &[u8]| {
        spy.take();
        client.ask(messages);
        spy.take().first().cloned()
    };
    let short = "select name from overtake.thread";
    let long = format!("{short} --{}", "x".repeat(5_000));
    let on = |thread: &str| Some(format!("looked up on {thread}"));
    assert_eq!(prepared(&query(short)), on("network"));
    assert_eq!(prepared(&query(&long)), on("below"));
    assert_eq!(prepared(&[parse("", short, &[]), sync()].concat()), on("network"));
    assert_eq!(prepared(&[parse("", &long, &[]), sync()].concat()), on("below"));
    prepared(&query("begin"));
    assert_eq!(prepared(&query(&long)), on("tokio-rt-worker"));
}
