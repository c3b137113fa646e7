//! Messages of clients and servers pass unchanged.

use crate::support::{Front, value};
use std::io::Write;
use tokio_postgres::SimpleQueryMessage;
use wirekit::raw::{bind, execute, message, named, parse, query, sync};

/// Queries, blocks, errors, several statements, empty ones: the answers are the server's.
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
    // A Sync and a Flush without requests, data without a COPY.
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
    // An error in the middle: the rest is skipped, even a query, and the next batch is not.
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

/// A client whose batch has ended leaves its connection, however it has ended and whatever is flushed behind that.
pub fn a_batch_that_has_ended_keeps_no_connection() {
    let Some(front) = Front::new(1) else { return };
    let mut raw = front.raw();
    let run = [parse("", "select 1", &[]), bind("", "", &[], &[], &[]), execute("", 0)].concat();
    let flush = message(b'H', b"");
    for (asked, said) in [
        ([run.clone(), sync(), flush.clone()], "1 2 D(1) C(SELECT 1) Z(I)"),
        ([query("select 1 as a"), flush.clone(), flush.clone()], "T(a:23:0) D(1) C(SELECT 1) Z(I)"),
        ([run.clone(), query("select 2 as a"), vec![]], "1 2 D(1) C(SELECT 1) T(a:23:0) D(2) C(SELECT 1) Z(I)"),
        ([run.clone(), flush.clone(), query("select 2 as a")], "1 2 D(1) C(SELECT 1) T(a:23:0) D(2) C(SELECT 1) Z(I)"),
    ] {
        assert_eq!(raw.ask(&asked.concat()), said);
        assert_eq!(front.all_idle(), 1);
    }
    // A query behind a failed message is skipped, and so is everything up to a Sync.
    raw.send(&[bind("", "none", &[], &[], &[]), query("select 2")].concat());
    assert!(raw.next().is_some_and(|said| said.starts_with("E(ERROR|26000")));
    assert_eq!(raw.ask(&[run, sync()].concat()), "Z(I)");
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
    // A duplicate key; the client sends on meanwhile.
    raw.send(&query("copy t from stdin"));
    raw.next();
    let said = raw.ask(&[data("1\n"), done()].concat());
    assert!(said.starts_with("E(ERROR|23505") && said.ends_with("Z(I)"), "{said}");
    // As libpq does it: Sync before the data, and after.
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
    // A long COPY, in pieces that do not match messages.
    raw.send(&query("copy t from stdin"));
    raw.next();
    let rows: Vec<u8> = (10..60_000).flat_map(|n| data(&format!("{n}\n"))).collect();
    for piece in rows.chunks(7_001) {
        raw.stream.write_all(piece).unwrap();
    }
    assert_eq!(raw.ask(&done()), "C(COPY 59990) Z(I)");
    assert_eq!(front.all_idle(), 1);
}

/// A COPY whose text contains words of commands that remove statements, or that follows such a command, waits for its
/// data and for nothing else.
pub fn copies_beside_deallocate_pass() {
    let Some(front) = Front::new(1) else { return };
    front.cluster.ask("create table discard (a text); create table t (deallocate text)");
    let data = |text: &str| message(b'd', text.as_bytes());
    let (done, flush) = (message(b'c', b""), message(b'H', b""));
    let mut raw = front.raw();
    assert_eq!(raw.ask(&[parse("s", "select 7", &[]), sync()].concat()), "1 Z(I)");
    for text in [
        "copy discard from stdin",
        "copy t (deallocate) from stdin",
        "deallocate all; copy t from stdin",
        "copy t from stdin with (null 'discard')",
    ] {
        raw.send(&query(text));
        while !raw.next().expect("it goes on").starts_with("G(") {}
        assert_eq!(raw.ask(&[data("5\n"), done.clone()].concat()), "C(COPY 1) Z(I)", "{text}");
        // Everything in one write, and with another message in place of its end.
        assert!(raw.ask(&[query(text), data("5\n"), done.clone()].concat()).ends_with("C(COPY 1) Z(I)"), "{text}");
    }
    let copy = [parse("", "copy discard from stdin (null 'deallocate')", &[]), bind("", "", &[], &[], &[])].concat();
    for rest in [vec![sync(), data("6\n"), done.clone(), sync()], vec![flush, data("6\n"), done.clone(), sync()]] {
        assert_eq!(raw.ask(&[copy.clone(), execute("", 0), rest.concat()].concat()), "1 2 G(0,1) C(COPY 1) Z(I)");
    }
    raw.send(&query("copy discard from stdin (null 'deallocate')"));
    assert_eq!(raw.next().as_deref(), Some("G(0,1)"));
    let said = raw.ask(&[bind("", "s", &[], &[], &[]), sync()].concat());
    assert!(said.contains("08P01"), "{said}");
    let mut raw = front.raw();
    assert_eq!(raw.ask(&query("select count(*)::int as n from discard")), "T(n:23:0) D(4) C(SELECT 1) Z(I)");
}

/// A COPY by the extended protocol whose `Sync` came before the data, as libpq's pipelines send it, and that the server
/// refuses at any point: the answers equal the server's, and the same connection goes on. A COPY that is left in its
/// middle does not delay others either.
pub fn refused_copies_end() {
    let Some(front) = Front::with(3, 1, |_| {}) else { return };
    front.cluster.ask("create table t (a int check (a < 100))");
    let data = |text: &str| message(b'd', text.as_bytes());
    let (done, fail) = (message(b'c', b""), message(b'f', b"no\0"));
    let run = [bind("", "", &[], &[], &[]), execute("", 0)].concat();
    let copy = [parse("", "copy t from stdin", &[]), run.clone(), sync()].concat();
    let late = [parse("", "copy t from stdin", &[]), run.clone(), message(b'H', b"")].concat();
    let simple = query("copy t from stdin");
    let select = [parse("", "select 1", &[]), run, sync()].concat();
    let rests: Vec<Vec<Vec<u8>>> = vec![
        vec![data("x\n"), [done.clone(), sync()].concat()],
        vec![[data("x\n"), done.clone(), sync()].concat()],
        vec![data("200\n"), data("3\n"), [done.clone(), sync()].concat()],
        vec![data("1\t2\n"), sync(), select.clone()],
        vec![sync(), data("x\n"), sync(), sync(), done.clone()],
        vec![data("x\n"), [fail.clone(), sync()].concat(), select.clone()],
        vec![[data("1\n"), data("1\n"), done.clone(), sync(), select.clone()].concat()],
        vec![[data("x\n"), done.clone(), sync(), select.clone(), select.clone()].concat()],
        vec![[data("5\n"), done.clone()].concat(), [sync(), select.clone()].concat()],
        vec![[fail, sync()].concat(), [data("5\n"), done, sync(), query("select 2")].concat()],
        vec![data("x\n"), [select.clone(), query("select 3")].concat()],
    ];
    let tell = |address: std::net::SocketAddr, begin: &[u8], rest: &[Vec<u8>], pauses: bool| {
        let mut raw = wirekit::raw::Raw::connect(address);
        raw.start(&[("user", "postgres")]);
        raw.send(begin);
        let mut said = vec![];
        while !said.last().is_some_and(|last: &String| last.starts_with("G(")) {
            said.extend(raw.next());
        }
        for part in rest {
            raw.send(part);
            // The answer of another connection tells that the server has read what came before.
            if pauses {
                front.cluster.ask("select 1");
            }
        }
        // The last request is answered last, and by this connection.
        raw.send(&[sync(), query("select 'the end'")].concat());
        while !said.last().is_some_and(|last: &String| last.contains("the end")) {
            let Some(next) = raw.next() else { break };
            said.push(next.split("|F").next().unwrap().to_owned());
        }
        raw.answer();
        said
    };
    let server = ([127, 0, 0, 1], front.cluster.port).into();
    for begin in [&copy, &late, &simple] {
        for rest in &rests {
            for pauses in [false, true] {
                let wanted = tell(server, begin, rest, pauses);
                let found = tell(front.address, begin, rest, pauses);
                assert_eq!(wanted, found, "{begin:?} {rest:?}");
            }
        }
    }
    // There is one slot, and its holder is in the middle of a COPY.
    let mut stuck = front.raw();
    stuck.send(&copy);
    while stuck.next().is_some_and(|said| !said.starts_with("G(")) {}
    stuck.send(&data("7\n")[..5]);
    let mut other = front.raw();
    assert_eq!(other.ask(&query("select 1 as a")), "T(a:23:0) D(1) C(SELECT 1) Z(I)");
    drop(stuck);
    front.all_idle();
}

/// A large result passes. A client that does not read it delays nobody except its own connection, and memory is
/// bounded.
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
    // A client that does not read.
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
