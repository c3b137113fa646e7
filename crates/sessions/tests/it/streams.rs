//! Goal: rows are sent while others are made, in order and whole; a client that does not read costs little. Method: results far
//! larger than the memory that the process may take for them, by both paths and protocols.

use crate::real::{Real, resident, rows};
use std::net::TcpStream;
use std::time::Instant;
use tokio_postgres::error::SqlState;
use wirekit::raw::{PATIENCE, Raw, bind, execute, named, parse, query, sync};

/// Reads a message, and returns its kind and length.
fn message(raw: &mut Raw<TcpStream>) -> (u8, usize) {
    let head = raw.exactly(5);
    let length = u32::from_be_bytes(head[1..].try_into().unwrap()) as usize - 4;
    raw.exactly(length);
    (head[0], length)
}

/// Rows without an end of about a kilobyte each.
const ENDLESS: &str = "select g, repeat('x', 1000) from generate_series(1, 1000000000000) g";

pub fn an_endless_result_begins_at_once_and_takes_no_memory() {
    let real = Real::new();
    for is_simple in [true, false] {
        let mut client = real.raw_client();
        let before = resident();
        match is_simple {
            true => client.send(&query(ENDLESS)),
            false => {
                client.send(&[parse("", ENDLESS, &[]), bind("", "", &[], &[], &[]), execute("", 0), sync()].concat())
            }
        }
        let (mut bytes, mut rows) = (0, 0);
        while bytes < 300 << 20 {
            let (kind, length) = message(&mut client);
            assert!(matches!(kind, b'T' | b'D' | b'1' | b'2'), "{}", char::from(kind));
            rows += usize::from(kind == b'D');
            bytes += length;
        }
        assert!(200_000 < rows, "{rows}");
        let grown = resident().saturating_sub(before);
        assert!(grown < 60, "300 MiB were sent, and the process has grown by {grown} MiB");
        drop(client);
        real.runtime.block_on(real.until("the query ends with its client", |engine| engine.transactions().is_empty()));
    }
}

/// Ten clients that ask for a gigabyte each and read nothing.
pub fn clients_that_do_not_read_cost_little_and_end_at_once() {
    let real = Real::new();
    let text = "select g, repeat('x', 1000) from generate_series(1, 1000000) g";
    let before = resident();
    let clients: Vec<_> = (0..10)
        .map(|_| {
            let mut client = real.raw_client();
            client.send(&query(text));
            client
        })
        .collect();
    let have_begun = |engine: &engine::Engine| engine.transactions().len() == 10;
    real.runtime.block_on(real.until("all have begun", have_begun));
    // As long as another client takes to read 300 MiB, the ten are served, too.
    let mut reader = real.raw_client();
    reader.send(&query(ENDLESS));
    let mut bytes = 0;
    while bytes < 300 << 20 {
        bytes += message(&mut reader).1;
    }
    drop(reader);
    let grown = resident().saturating_sub(before);
    assert!(grown < 100, "{grown} MiB");
    // A cancel ends a statement though its client reads nothing.
    real.runtime.block_on(async {
        let admin = real.client().await;
        let ended = admin
            .query("select pg_cancel_backend(pid) from pg_stat_activity where query like '%1000000) g'", &[])
            .await
            .unwrap();
        assert_eq!(ended.len(), 10);
        real.until("all are cancelled", |engine| engine.transactions().is_empty()).await;
    });
    drop(clients);
}

pub fn streamed_rows_are_whole_and_in_order() {
    let real = Real::new();
    real.runtime.block_on(async {
        let client = real.client().await;
        client
            .batch_execute("create table t (id int primary key, s text); insert into t select g, 's' || g from generate_series(1, 200000) g")
            .await
            .unwrap();
        for path in ["row", "auto"] {
            client.batch_execute(&format!("set overtake.path = {path}")).await.unwrap();
            for text in ["select id, s from t order by id", "select id, s from t where id > 0 order by id"] {
                let rows = client.query(text, &[]).await.unwrap();
                assert_eq!(rows.len(), 200_000, "{path}");
                for (at, row) in rows.iter().enumerate() {
                    let (id, s): (i32, &str) = (row.get(0), row.get(1));
                    assert_eq!((id, s), (at as i32 + 1, &*format!("s{}", at + 1)), "{path}");
                }
                let rows = client.simple_query(text).await.unwrap();
                // The description of the columns, the rows and the tag.
                assert_eq!(rows.len(), 200_002, "{path}");
            }
            assert_eq!(client.query("select id from t where id < 0", &[]).await.unwrap().len(), 0);
            // An open transaction streams what it has written itself.
            client.batch_execute("begin; update t set s = 'new' where id % 2 = 0").await.unwrap();
            let rows = client.query("select s from t where id > 0 and s = 'new' order by id", &[]).await.unwrap();
            assert_eq!(rows.len(), 100_000, "{path}");
            client.batch_execute("rollback").await.unwrap();
        }
    });
}

pub fn copy_to_the_client_is_sent_while_it_is_made() {
    let real = Real::new();
    let mut client = real.raw_client();
    let before = resident();
    client.send(&query(&format!("copy ({ENDLESS}) to stdout")));
    let mut bytes = 0;
    while bytes < 300 << 20 {
        let (kind, length) = message(&mut client);
        assert!(matches!(kind, b'H' | b'd'), "{}", char::from(kind));
        bytes += length;
    }
    let grown = resident().saturating_sub(before);
    assert!(grown < 60, "300 MiB were sent, and the process has grown by {grown} MiB");
    drop(client);
    real.runtime.block_on(real.until("the query ends with its client", |engine| engine.transactions().is_empty()));
    let mut client = real.raw_client();
    let text = "copy (select g from generate_series(1, 300000) g) to stdout";
    client.send(&query(text));
    let (mut rows, mut others) = (0, Vec::new());
    loop {
        match message(&mut client).0 {
            b'd' => rows += 1,
            b'Z' => break,
            other => others.push(char::from(other)),
        }
    }
    // The head, the end and the tag.
    assert_eq!((rows, others), (300_000, vec!['H', 'c', 'C']));
    let nothing = "copy (select g from generate_series(1, 300000) g where g < 0) to stdout";
    assert_eq!(client.ask(&query(nothing)), "H(0,1) c C(COPY 0) Z(I)");
    let failing = client.ask(&query("copy (select 1 / (2000 - g) from generate_series(1, 3000) g) to stdout"));
    assert!(failing.contains("22012") && failing.ends_with("Z(I)"), "{failing}");
    assert!(client.ask(&query("select 1")).contains("C(SELECT 1)"));
}

/// An error behind rows that were sent ends the statement, and nothing else.
pub fn an_error_behind_sent_rows_is_the_last_word() {
    let real = Real::new();
    real.runtime.block_on(async {
        let client = real.client().await;
        let text = "select 1 / (500000 - g) from generate_series(1, 1000000) g";
        let error = client.query(text, &[]).await.unwrap_err();
        assert_eq!(error.code(), Some(&SqlState::DIVISION_BY_ZERO));
        assert_eq!(client.query_one("select 1", &[]).await.unwrap().get::<_, i32>(0), 1);
    });
    // The rows before the error have come.
    let mut client = real.raw_client();
    client.send(&query("select 1 / (500000 - g) from generate_series(1, 1000000) g"));
    let (mut rows, begun) = (0, Instant::now());
    loop {
        assert!(begun.elapsed() < PATIENCE);
        match message(&mut client).0 {
            b'D' => rows += 1,
            b'Z' => break,
            _ => {}
        }
    }
    assert!((1..500_000).contains(&rows), "{rows}");
}

/// Statements that sleep or change something run once, and no row of theirs is sent twice.
pub fn what_cannot_begin_again_is_not_streamed() {
    let real = Real::new();
    real.runtime.block_on(async {
        let client = real.client().await;
        client.batch_execute("create sequence s").await.unwrap();
        let rows = client.query("select nextval('s') from generate_series(1, 50000)", &[]).await.unwrap();
        assert_eq!(rows.last().unwrap().get::<_, i64>(0), 50_000);
        let text = "select g from generate_series(1, 60000) g where g % 20000 <> 0 or pg_sleep(0.01) is not null";
        let rows = client.query(text, &[]).await.unwrap();
        assert!(rows.iter().enumerate().all(|(at, row)| row.get::<_, i32>(0) == at as i32 + 1));
        assert_eq!(rows.len(), 60_000);
    });
}

/// Goal: a client that reads an endless result piece by piece gets each piece at once, and the query takes no memory and ends
/// with its portal. Method: portals of the protocol, with and without a name; each way for one to go.
pub fn a_portal_with_a_row_limit_goes_on_between_its_pieces() {
    let mut real = Real::new();
    let threads = |real: &Real, count: usize| {
        real.wait_until("the queries of portals go on or end", |real| real.database.cursor_threads() == count);
    };
    let begun = |client: &mut Raw<TcpStream>, name: &str| {
        let portal = [parse("", ENDLESS, &[]), bind(name, "", &[], &[], &[]), execute(name, 2), sync()].concat();
        let answer = client.ask(&portal);
        assert!(answer.starts_with("1 2 D(1,xxx") && answer.ends_with(" s Z(T)"), "{answer:.100}");
        assert_eq!(answer.matches("D(").count(), 2);
    };
    for name in ["", "p"] {
        let mut client = real.raw_client_after("begin");
        begun(&mut client, name);
        threads(&real, 1);
        let before = resident();
        for piece in 0..50 {
            let answer = client.ask(&[execute(name, 1000), sync()].concat());
            assert!(answer.starts_with(&format!("D({},xxx", 3 + 1000 * piece)), "{answer:.100}");
            assert_eq!(answer.matches("D(").count(), 1000);
            assert!(answer.ends_with(" s Z(T)"));
        }
        let grown = resident().saturating_sub(before);
        assert!(grown < 60, "50 MB were read, and the process has grown by {grown} MiB");
        // A portal without a name is no cursor for SQL.
        let shown = [parse("c", "select name from pg_cursors", &[]), bind("c", "c", &[], &[], &[]), execute("c", 0)];
        let others = client.ask(&[shown.concat(), sync()].concat());
        assert_eq!(others.contains("D(p)"), !name.is_empty(), "{others}");
        assert!(!others.contains("D()"), "{others}");
        client.ask(&[named(b'C', b'P', name), sync()].concat());
        threads(&real, 0);
    }
    let mut client = real.raw_client();
    let ends: [&[u8]; 6] = [
        &[parse("", "select 1", &[]), bind("", "", &[], &[], &[]), sync()].concat(),
        &query("select 1"),
        &query("commit"),
        &query("select 1 / 0"),
        &query("rollback to s"),
        &[parse("", "close all", &[]), bind("q", "", &[], &[], &[]), execute("q", 0), sync()].concat(),
    ];
    for end in ends {
        client.ask(&query("begin; savepoint s"));
        begun(&mut client, "");
        threads(&real, 1);
        client.ask(end);
        threads(&real, 0);
        let later = client.ask(&[execute("", 1), sync()].concat());
        assert!(!later.contains("D(3"), "{later:.100}");
        client.ask(&query("rollback"));
    }
    // Outside a transaction block it lives until Sync.
    let batch = [parse("", ENDLESS, &[]), bind("", "", &[], &[], &[]), execute("", 1), execute("", 2), sync()].concat();
    let answer = client.ask(&batch);
    assert!(answer.contains(" s D(2,xxx") && answer.ends_with(" s Z(I)"), "{answer:.100}");
    threads(&real, 0);
    let answer = client.ask(&[execute("", 1), sync()].concat());
    assert!(answer.starts_with("E(ERROR|34000"), "{answer}");
    // An error comes behind the rows before it.
    let failing = "select 1 / (70000 - g) from generate_series(1, 80000) g";
    client.ask(&query("begin"));
    let first = [parse("", failing, &[]), bind("", "", &[], &[], &[]), execute("", 69_999), sync()].concat();
    let answer = client.ask(&first);
    assert!(answer.matches("D(").count() == 69_999 && answer.ends_with(" s Z(T)"));
    let answer = client.ask(&[execute("", 1), sync()].concat());
    assert!(answer.starts_with("E(ERROR|22012|division by zero"), "{answer}");
    client.ask(&query("rollback"));
    // All rows after the first pieces, and their number.
    let all =
        [parse("", &rows(30_000), &[]), bind("", "", &[], &[], &[]), execute("", 1), execute("", 0), sync()].concat();
    let answer = client.ask(&all);
    assert!(answer.ends_with("D(30000,row 30000) C(SELECT 29999) Z(I)"), "{}", &answer[answer.len() - 100..]);
    // Clients that go, and a server that stops.
    client.ask(&query("begin"));
    begun(&mut client, "");
    threads(&real, 1);
    drop(client);
    threads(&real, 0);
    let mut client = real.raw_client_after("begin");
    begun(&mut client, "");
    client.ask(&query(&format!("declare c cursor for {ENDLESS}")));
    threads(&real, 1);
    real.shut_down();
    threads(&real, 0);
}
