//! What clients say and hear passes as it is.

use super::{Front, value};
use crate::support::{bind, execute, message, named, parse, query, sync};
use std::io::Write;
use tokio_postgres::SimpleQueryMessage;

/// Queries, blocks, errors, several statements, empty ones: what comes back is what the server says.
pub fn queries_are_answered() {
    let Some(front) = Front::new(2) else { return };
    let mut raw = front.raw();
    assert_eq!(raw.ask(&query("select 1 as a")), "T(a:23:0) D(1) C(SELECT 1) Z(I)");
    assert_eq!(raw.ask(&query("")), "I Z(I)");
    assert_eq!(raw.ask(&query("begin; select 2 as b")), "C(BEGIN) T(b:23:0) D(2) C(SELECT 1) Z(T)");
    let said = raw.ask(&query("select 1/0"));
    assert!(said.starts_with("E(ERROR|22012|division by zero") && said.ends_with("Z(E)"), "{said}");
    assert!(raw.ask(&query("select 1")).contains("25P02"));
    assert_eq!(raw.ask(&query("commit")), "C(ROLLBACK) Z(I)");
    // Two queries at once.
    raw.send(&[query("select 1 as a"), query("select 2 as a")].concat());
    assert_eq!(raw.answer(), "T(a:23:0) D(1) C(SELECT 1) Z(I)");
    assert_eq!(raw.answer(), "T(a:23:0) D(2) C(SELECT 1) Z(I)");
    // A Sync for nothing, a Flush for nothing, data for no COPY.
    assert_eq!(raw.ask(&[message(b'H', b""), message(b'd', b"x"), sync()].concat()), "Z(I)");
    let notice = raw.ask(&query("do $$ begin raise notice 'hear'; end $$"));
    assert!(notice.contains("N(NOTICE|00000|hear") && notice.ends_with("C(DO) Z(I)"), "{notice}");
    assert_eq!(front.all_idle(), 1);
}

/// The extended protocol: pipelines, row limits, errors that skip to `Sync`, functions.
pub fn pipelines_are_answered() {
    let Some(front) = Front::new(2) else { return };
    let mut raw = front.raw();
    let prepared = [
        parse("", "select $1::int + 1 as n", &[23]),
        named(b'D', b'S', ""),
        bind("", "", &[], &[Some(b"41")], &[]),
        named(b'D', b'P', ""),
        execute("", 0),
        sync(),
    ];
    assert_eq!(raw.ask(&prepared.concat()), "1 t(23) T(n:23:0) 2 T(n:23:0) D(42) C(SELECT 1) Z(I)");
    // A portal with a row limit, in a transaction.
    assert_eq!(raw.ask(&query("begin")), "C(BEGIN) Z(T)");
    let portal =
        [parse("", "select generate_series(1, 3)", &[]), bind("p", "", &[], &[], &[]), execute("p", 2), sync()];
    assert_eq!(raw.ask(&portal.concat()), "1 2 D(1) D(2) s Z(T)");
    assert_eq!(raw.ask(&[execute("p", 2), sync()].concat()), "D(3) C(SELECT 1) Z(T)");
    assert_eq!(raw.ask(&query("commit")), "C(COMMIT) Z(I)");
    // An error in the middle: what follows is skipped, a query too, and the next batch is not.
    let broken = [
        parse("", "select 1/$1::int", &[]),
        bind("", "", &[], &[Some(b"0")], &[]),
        execute("", 0),
        execute("", 0),
        query("select 7"),
        sync(),
        parse("", "select 8 as e", &[]),
        bind("", "", &[], &[], &[]),
        execute("", 0),
        sync(),
    ];
    raw.send(&broken.concat());
    let said = raw.answer();
    assert!(said.starts_with("1 E(ERROR|22012") && said.ends_with("Z(I)") && !said.contains("D("), "{said}");
    assert_eq!(raw.answer(), "1 2 D(8) C(SELECT 1) Z(I)");
    // Flush: answers come before the Sync.
    raw.send(&[parse("", "select 9 as f", &[]), message(b'H', b"")].concat());
    assert_eq!(raw.next().as_deref(), Some("1"));
    assert_eq!(raw.ask(&[bind("", "", &[], &[], &[]), execute("", 0), sync()].concat()), "2 D(9) C(SELECT 1) Z(I)");
    // FunctionCall: int4pl(20, 22), text in and out.
    let mut call = 177_u32.to_be_bytes().to_vec();
    call.extend([0, 0, 0, 2, 0, 0, 0, 2, b'2', b'0', 0, 0, 0, 2, b'2', b'2', 0, 0]);
    assert_eq!(raw.ask(&message(b'F', &call)), "V Z(I)");
    assert_eq!(front.all_idle(), 1);
}

/// COPY in and out, by both protocols, with errors, given up, and with the early `Sync` of libpq.
pub fn copies_pass() {
    let Some(front) = Front::new(2) else { return };
    let mut raw = front.raw();
    raw.ask(&query("create table t (a int primary key)"));
    let data = |text: &str| message(b'd', text.as_bytes());
    let done = || message(b'c', b"");
    raw.send(&query("copy t from stdin"));
    assert_eq!(raw.next().as_deref(), Some("G(0,1)"));
    assert_eq!(raw.ask(&[data("1\n"), data("2\n"), done()].concat()), "C(COPY 2) Z(I)");
    assert_eq!(raw.ask(&query("copy t to stdout")), "H(0,1) d(1) d(2) c C(COPY 2) Z(I)");
    raw.send(&query("copy t from stdin"));
    raw.next();
    let said = raw.ask(&[data("3\n"), message(b'f', b"no\0")].concat());
    assert!(said.starts_with("E(ERROR|57014|COPY from stdin failed: no"), "{said}");
    // A duplicate; the client sends on meanwhile.
    raw.send(&query("copy t from stdin"));
    raw.next();
    let said = raw.ask(&[data("1\n"), done()].concat());
    assert!(said.starts_with("E(ERROR|23505") && said.ends_with("Z(I)"), "{said}");
    // As libpq: Sync before the data, and after.
    let copy = [parse("", "copy t from stdin", &[]), bind("", "", &[], &[], &[]), execute("", 0), sync()].concat();
    raw.send(&copy);
    for wanted in ["1", "2", "G(0,1)"] {
        assert_eq!(raw.next().as_deref(), Some(wanted));
    }
    assert_eq!(raw.ask(&[data("5\n"), done(), sync()].concat()), "C(COPY 1) Z(I)");
    raw.send(&copy);
    for wanted in ["1", "2", "G(0,1)"] {
        assert_eq!(raw.next().as_deref(), Some(wanted));
    }
    let said = raw.ask(&[data("1\n"), done(), sync()].concat());
    assert!(said.starts_with("E(ERROR|23505") && said.ends_with("Z(I)"), "{said}");
    assert_eq!(raw.ask(&query("select count(*) as n from t")), "T(n:20:0) D(3) C(SELECT 1) Z(I)");
    // A long one, in pieces that do not keep to messages.
    raw.send(&query("copy t from stdin"));
    raw.next();
    let rows: Vec<u8> = (10..60_000).flat_map(|n| data(&format!("{n}\n"))).collect();
    for piece in rows.chunks(7_001) {
        raw.stream.write_all(piece).unwrap();
    }
    assert_eq!(raw.ask(&done()), "C(COPY 59990) Z(I)");
    assert_eq!(front.all_idle(), 1);
}

/// A large result passes; a client that does not read it holds nobody up but its connection; memory stays.
pub fn large_results_pass() {
    let Some(front) = Front::new(2) else { return };
    front.runtime.block_on(async {
        let client = front.client().await;
        let rows = client.simple_query("select repeat('x', 1000) from generate_series(1, 100000)").await.unwrap();
        assert_eq!(rows.iter().filter(|row| matches!(row, SimpleQueryMessage::Row(_))).count(), 100_000);
        assert_eq!(value(&client, "select length(repeat('y', 50000000))").await, "50000000");
        assert_eq!(value(&client, "select repeat('y', 5000000)").await.len(), 5_000_000);
        let long = format!("select length('{}')", "z".repeat(3_000_000));
        assert_eq!(value(&client, &long).await, "3000000");
    });
    // One who does not read.
    let mut slow = front.raw();
    slow.send(&query("select repeat('x', 1000) from generate_series(1, 1000000)"));
    slow.next();
    front.runtime.block_on(async {
        let client = front.client().await;
        for _ in 0..100 {
            assert_eq!(value(&client, "select 1").await, "1");
        }
    });
    drop(slow);
    assert!(front.all_idle() <= 2);
}
