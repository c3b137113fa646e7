//! The extended protocol, byte by byte.

use crate::real::{Real, rows};
use std::net::TcpStream;
use wirekit::raw::{Raw, bind, execute, message, named, parse, query, sync};

const TABLE: &str = "create table t (n int)";
/// Statement that fails when it runs.
const FAILS: &str = "select 1 / count(*) from generate_series(1, 0)";

fn ask(client: &mut Raw<TcpStream>, messages: &[Vec<u8>]) -> String {
    client.ask(&[messages.concat(), sync()].concat())
}

pub fn statements_and_portals() {
    let real = Real::new();
    let mut client = real.raw_client_after(TABLE);
    let unnamed = [parse("", &rows(2), &[]), bind("", "", &[], &[], &[]), named(b'D', b'P', ""), execute("", 0)];
    assert_eq!(ask(&mut client, &unnamed), "1 2 T(n:23:0,t:25:0) D(1,row 1) D(2,row 2) C(SELECT 2) Z(I)");
    assert_eq!(ask(&mut client, &[parse("s", "select $1 as v, $2 as v", &[23])]), "1 Z(I)");
    assert_eq!(ask(&mut client, &[named(b'D', b'S', "s")]), "t(23,25) T(v:23:0,v:25:0) Z(I)");
    let insert = parse("i", "insert into t values (1)", &[]);
    assert_eq!(ask(&mut client, &[insert, named(b'D', b'S', "i")]), "1 t n Z(I)");
    // Formats of values: none, one, each.
    let echo = |formats: &[i16], first: &[u8], results: &[i16]| {
        [bind("p", "s", formats, &[Some(first), None], results), named(b'D', b'P', "p"), execute("p", 0)]
    };
    assert_eq!(ask(&mut client, &echo(&[], b"7", &[])), "2 T(v:23:0,v:25:0) D(7,NULL) C(SELECT 1) Z(I)");
    assert_eq!(
        ask(&mut client, &echo(&[1], b"\0\0\0\x07", &[1])),
        "2 T(v:23:1,v:25:1) D([0, 0, 0, 7],NULL) C(SELECT 1) Z(I)"
    );
    assert_eq!(
        ask(&mut client, &echo(&[0, 1], b"7", &[1, 0])),
        "2 T(v:23:1,v:25:0) D([0, 0, 0, 7],NULL) C(SELECT 1) Z(I)"
    );
    // Close of an existing name, and of a name that does not exist.
    assert_eq!(
        ask(&mut client, &[named(b'C', b'S', "s"), named(b'C', b'S', "s"), named(b'C', b'P', "")]),
        "3 3 3 Z(I)"
    );
    let gone = "E(ERROR|26000|prepared statement \"s\" does not exist) Z(I)";
    assert_eq!(ask(&mut client, &[bind("", "s", &[], &[], &[])]), gone);
    assert_eq!(ask(&mut client, &[parse("", "", &[]), bind("", "", &[], &[], &[]), execute("", 0)]), "1 2 I Z(I)");
}

pub fn row_limits() {
    let real = Real::new();
    let mut client = real.raw_client_after(TABLE);
    // Rows of an unnamed portal are kept here, those of a named one where `FETCH` finds them, too.
    for name in ["", "p"] {
        let (bind, execute) = (bind(name, "", &[], &[], &[]), |limit| execute(name, limit));
        let limited = [parse("", &rows(3), &[]), bind.clone(), execute(2), execute(2), execute(0)];
        let rest = "D(3,row 3) C(SELECT 1) C(SELECT 0) Z(I)";
        assert_eq!(ask(&mut client, &limited), format!("1 2 D(1,row 1) D(2,row 2) s {rest}"));
        // Exactly as many as there are: the server has not looked whether there are more.
        let exact = [bind.clone(), execute(3), execute(3)];
        assert_eq!(ask(&mut client, &exact), "2 D(1,row 1) D(2,row 2) D(3,row 3) s C(SELECT 0) Z(I)");
        // A statement without rows runs once.
        let twice = [parse("", "insert into t values (1)", &[]), bind, execute(0), execute(0)];
        let again = format!("E(ERROR|55000|portal \"{name}\" cannot be run)");
        assert_eq!(ask(&mut client, &twice), format!("1 2 C(INSERT 0 1) {again} Z(I)"));
    }
}

pub fn portals_end_with_their_transaction() {
    let real = Real::new();
    let mut client = real.raw_client();
    let gone = "E(ERROR|34000|portal \"p\" does not exist) Z(I)";
    let open = [parse("r", &rows(3), &[]), bind("p", "r", &[], &[], &[]), execute("p", 1)];
    assert_eq!(ask(&mut client, &open), "1 2 D(1,row 1) s Z(I)");
    assert_eq!(ask(&mut client, &[execute("p", 1)]), gone);
    // In a transaction block, portals last.
    assert_eq!(client.ask(&query("begin")), "C(BEGIN) Z(T)");
    assert_eq!(ask(&mut client, &open[1..]), "2 D(1,row 1) s Z(T)");
    assert_eq!(ask(&mut client, &[execute("p", 1)]), "D(2,row 2) s Z(T)");
    // A COMMIT in the middle of a pipeline ends them too.
    let commit = [parse("c", "commit", &[]), bind("", "c", &[], &[], &[]), execute("", 0), execute("p", 1)];
    assert_eq!(ask(&mut client, &commit), format!("1 2 C(COMMIT) {gone}"));
    // So does a COMMIT followed by `BEGIN`.
    assert_eq!(client.ask(&query("begin")), "C(BEGIN) Z(T)");
    assert_eq!(ask(&mut client, &open[1..]), "2 D(1,row 1) s Z(T)");
    assert_eq!(client.ask(&query("commit; begin")), "C(COMMIT) C(BEGIN) Z(T)");
    assert_eq!(ask(&mut client, &[execute("p", 1)]), gone.replace("(I)", "(E)"));
    assert_eq!(client.ask(&query("rollback")), "C(ROLLBACK) Z(I)");
    // After a failure, open portals cannot be run.
    assert_eq!(client.ask(&query("begin")), "C(BEGIN) Z(T)");
    assert_eq!(ask(&mut client, &[parse("f", FAILS, &[]), bind("p", "f", &[], &[], &[])]), "1 2 Z(T)");
    assert!(ask(&mut client, &[execute("p", 0)]).ends_with(" Z(E)"));
    let aborted = "current transaction is aborted, commands ignored until end of transaction block";
    assert_eq!(ask(&mut client, &[execute("p", 0)]), format!("E(ERROR|25P02|{aborted}) Z(E)"));
    assert_eq!(client.ask(&query("rollback")), "C(ROLLBACK) Z(I)");
    assert_eq!(ask(&mut client, &[execute("p", 1)]), gone);
}

/// A failed transaction refuses a portal that is open, and leaves it as it was.
pub fn a_portal_refused_in_a_failed_transaction_goes_on_later() {
    let real = Real::new();
    let mut client = real.raw_client();
    assert_eq!(client.ask(&query("begin")), "C(BEGIN) Z(T)");
    let open = [parse("r", &rows(4), &[]), bind("p", "r", &[], &[], &[]), bind("", "r", &[], &[], &[])];
    assert_eq!(ask(&mut client, &open), "1 2 2 Z(T)");
    assert_eq!(ask(&mut client, &[execute("p", 2)]), "D(1,row 1) D(2,row 2) s Z(T)");
    assert_eq!(ask(&mut client, &[bind("q", "r", &[], &[], &[])]), "2 Z(T)");
    assert_eq!(client.ask(&query("savepoint b")), "C(SAVEPOINT) Z(T)");
    let error = "E(ERROR|22012|division by zero) Z(E)";
    assert_eq!(
        ask(&mut client, &[parse("f", FAILS, &[]), bind("", "f", &[], &[], &[]), execute("", 0)]),
        format!("1 2 {error}")
    );
    let aborted = "current transaction is aborted, commands ignored until end of transaction block";
    for portal in ["p", "q"] {
        assert_eq!(ask(&mut client, &[execute(portal, 2)]), format!("E(ERROR|25P02|{aborted}) Z(E)"));
    }
    assert_eq!(client.ask(&query("rollback to b")), "C(ROLLBACK) Z(T)");
    assert_eq!(ask(&mut client, &[execute("p", 0)]), "D(3,row 3) D(4,row 4) C(SELECT 2) Z(T)");
    assert_eq!(ask(&mut client, &[execute("q", 1)]), "D(1,row 1) s Z(T)");
}

pub fn errors_by_name_and_number() {
    let real = Real::new();
    let mut client = real.raw_client();
    assert_eq!(ask(&mut client, &[parse("s", &rows(1), &[]), parse("e", "select $1, $2", &[23, 25])]), "1 1 Z(I)");
    let mut fails = |messages: &[Vec<u8>], error: &str| {
        assert_eq!(ask(&mut client, messages), format!("E(ERROR|{error}) Z(I)"));
    };
    let empty = |portal, statement| bind(portal, statement, &[], &[], &[]);
    fails(&[parse("s", &rows(1), &[])], "42P05|prepared statement \"s\" already exists");
    fails(&[empty("", "")], "26000|unnamed prepared statement does not exist");
    fails(&[named(b'D', b'S', "x")], "26000|prepared statement \"x\" does not exist");
    fails(&[named(b'D', b'P', "x")], "34000|portal \"x\" does not exist");
    fails(&[execute("", 0)], "34000|portal \"\" does not exist");
    fails(&[named(b'D', b'X', "")], "08P01|invalid DESCRIBE message subtype 88");
    fails(&[named(b'C', b'X', "")], "08P01|invalid CLOSE message subtype 88");
    fails(&[empty("", "e")], "08P01|bind message supplies 0 parameters, but prepared statement \"e\" requires 2");
    let values: [Option<&[u8]>; 2] = [Some(b"1"), Some(b"x")];
    let with = |formats: &[i16], results: &[i16]| bind("", "e", formats, &values, results);
    fails(&[with(&[0, 0, 0], &[])], "08P01|bind message has 3 parameter formats but 2 parameters");
    fails(&[with(&[], &[0, 0, 0])], "08P01|bind message has 3 result formats but query has 2 columns");
    fails(&[with(&[2], &[])], "22023|unsupported format code: 2");
    fails(&[with(&[1], &[])], "08P01|insufficient data left in message");
    fails(&[message(b'P', b"")], "08P01|invalid string in message");
    fails(&[message(b'P', b"\0\0")], "08P01|insufficient data left in message");
    fails(&[message(b'E', b"\0\0\0\0\0\0")], "08P01|invalid message format");
    let hint = "HNo function matches the given name and argument types. You might need to add explicit type casts.";
    let unknown = format!("42883|function f(integer) does not exist|{hint}|P8");
    fails(&[parse("", "select f(1)", &[])], &unknown);
    let cursor = "2 E(ERROR|42P03|cursor \"p\" already exists) Z(I)";
    assert_eq!(ask(&mut client, &[empty("p", "s"), empty("p", "s")]), cursor);
}

pub fn an_error_skips_to_sync() {
    let real = Real::new();
    let mut client = real.raw_client_after(TABLE);
    let portal = |text: &str| [parse("", text, &[]), bind("", "", &[], &[], &[]), execute("", 0)].concat();
    let (insert, fail) = (portal("insert into t values (1)"), portal(FAILS));
    let error = "E(ERROR|22012|division by zero)";
    // Earlier changes are rolled back, and even a simple query is skipped.
    let simple = query("insert into t values (2)");
    let all = [insert.clone(), fail.clone(), insert.clone(), simple, sync(), insert.clone(), sync()].concat();
    assert_eq!(client.ask(&all), format!("1 2 C(INSERT 0 1) 1 2 {error} Z(I)"));
    assert_eq!(client.answer(), "1 2 C(INSERT 0 1) Z(I)");
    let all = "select count(*), max(n) from t";
    assert_eq!(client.ask(&query(all)), "T(count:20:0,max:23:0) D(1,1) C(SELECT 1) Z(I)");
    // Without `Sync`, `Flush` brings the answers, and an error is sent at once.
    client.send(&[insert, message(b'H', b"")].concat());
    assert_eq!((client.next(), client.next()), (Some("1".into()), Some("2".into())));
    assert_eq!(client.next().unwrap(), "C(INSERT 0 1)");
    client.send(&fail);
    assert_eq!((client.next(), client.next()), (Some("1".into()), Some("2".into())));
    assert_eq!(client.next().unwrap(), error);
    assert_eq!(client.ask(&sync()), "Z(I)");
    // Two `Sync` get two answers. The error of a failed commit comes in between.
    client.ask(&query("create table a (n int); create table b (n int)"));
    client.ask(&query("set default_transaction_isolation = serializable"));
    client.send(&[portal("insert into a select count(*) from b"), message(b'H', b"")].concat());
    assert_eq!([client.next(), client.next(), client.next()].map(Option::unwrap), ["1", "2", "C(INSERT 0 1)"]);
    let changes = "begin isolation level serializable; insert into b select count(*) from a; commit";
    real.raw_client_after(changes);
    client.send(&[sync(), sync()].concat());
    let answer = client.answer();
    assert!(answer.starts_with("E(ERROR|40001|could not serialize access") && answer.ends_with(" Z(I)"), "{answer}");
    assert_eq!(client.answer(), "Z(I)");
    assert_eq!(client.ask(&[sync(), sync()].concat()), "Z(I)");
    assert_eq!(client.answer(), "Z(I)");
}

pub fn memory_is_bounded() {
    let real = Real::with("", |config| config.session_memory_max = 200_000);
    let mut client = real.raw_client();
    let mut count = 0;
    let refused = loop {
        let answer = client.ask(&[parse(&format!("s{count}"), "select 1", &[]), sync()].concat());
        if answer != "1 Z(I)" {
            break answer;
        }
        count += 1;
    };
    assert!((50..100).contains(&count), "{count}");
    assert!(
        refused.starts_with("E(ERROR|53200|out of memory|DPrepared statements and portals of one session"),
        "{refused}"
    );
    // The unnamed statement does not count among those that are kept, however long it is, and a
    // simple query needs no room.
    let long = format!("select 1 --{}", "x".repeat(20_000));
    assert_eq!(client.ask(&[parse("", &long, &[]), sync()].concat()), "1 Z(I)");
    // A named portal keeps it.
    assert!(client.ask(&[bind("kept", "", &[], &[], &[]), sync()].concat()).starts_with("E(ERROR|53200"));
    assert_eq!(client.ask(&query("select 1 as n")), "T(n:23:0) D(1) C(SELECT 1) Z(I)");
    let close: Vec<u8> = (0..count).flat_map(|at| named(b'C', b'S', &format!("s{at}"))).collect();
    client.ask(&[close, sync()].concat());
    // Rows that a suspended portal keeps count, too.
    let ask =
        |count: usize| [parse("", &rows(count), &[]), bind("", "", &[], &[], &[]), execute("", 1), sync()].concat();
    assert_eq!(client.ask(&ask(100)), "1 2 D(1,row 1) s Z(I)");
    assert!(client.ask(&ask(10_000)).contains("E(ERROR|53200|out of memory"));
    assert_eq!(client.ask(&ask(100)), "1 2 D(1,row 1) s Z(I)");
    // Their texts count before the first row is sent, and only those that are left.
    let wide = |rows: usize| format!("select n, repeat('x', 50000) from generate_series(1, {rows}) n");
    let ask = |rows: usize, limit: i32| {
        [parse("", &wide(rows), &[]), bind("", "", &[], &[], &[]), execute("", limit), sync()].concat()
    };
    let refused = client.ask(&ask(6, 1));
    assert!(refused.starts_with("1 2 E(ERROR|53200|out of memory"), "{refused:.200}");
    assert!(client.ask(&ask(6, 4)).ends_with(" s Z(I)"));
    assert_eq!(client.ask(&query("begin")), "C(BEGIN) Z(T)");
    // Rows that were sent are not kept, so there is room for others.
    let first = [parse("", &wide(4), &[]), bind("", "", &[], &[], &[]), execute("", 1), execute("", 2)].concat();
    assert!(client.ask(&[first, sync()].concat()).ends_with(" s Z(T)"));
    let other = [parse("s", &wide(3), &[]), bind("p", "s", &[], &[], &[]), execute("p", 1), sync()].concat();
    assert!(client.ask(&other).ends_with(" s Z(T)"));
}
