//! What statements that change rows cost in the executor, without a wire: `cargo run --release -p sql --example writes`.
#![allow(clippy::unwrap_used, clippy::print_stdout, reason = "an example")]

use engine::{Engine, EngineConfig};
use settings::Connect;
use sql::session::{CopyPart, Database, Session, Step};
use std::fmt::Write;
use std::time::Instant;
use types::Datum;

fn run(session: &mut Session, text: &str) {
    let statement = session.prepare(text, &[]).unwrap();
    let mut portal = session.bind(&statement, Vec::new()).unwrap();
    assert!(matches!(session.execute(&mut portal).unwrap(), Step::Done(_)));
    session.sync().unwrap();
}

/// Nanoseconds for each of so many runs of a prepared statement, each a transaction of its own.
fn each(session: &mut Session, text: &str, runs: usize, values: impl Fn(i32) -> Vec<Datum>) -> f64 {
    let statement = session.prepare(text, &[]).unwrap();
    let begin = Instant::now();
    for at in 0..runs as i32 {
        let mut portal = session.bind(&statement, values(at)).unwrap();
        assert!(matches!(session.execute(&mut portal).unwrap(), Step::Done(_)));
        session.sync().unwrap();
    }
    begin.elapsed().as_nanos() as f64 / runs as f64
}

fn main() {
    let database = Database::new(Engine::new(EngineConfig::in_memory()));
    let wishes = Connect { user: "postgres".into(), database: "postgres".into(), ..Connect::default() };
    let mut session = database.connect(wishes).unwrap();
    run(&mut session, "create table accounts (aid int primary key, bid int, abalance int, filler char(84))");
    let rows = 1_000_000;
    let mut data = String::new();
    for aid in 1..=rows {
        writeln!(data, "{aid}\t{}\t0\t{:84}", (aid - 1) / 100_000 + 1, "").unwrap();
    }
    let statement = session.prepare("copy accounts from stdin", &[]).unwrap();
    let mut portal = session.bind(&statement, Vec::new()).unwrap();
    let begin = Instant::now();
    assert!(matches!(session.execute(&mut portal).unwrap(), Step::CopyIn(_)));
    for piece in data.as_bytes().chunks(1 << 16) {
        assert!(session.copy_data(piece).unwrap().is_none());
    }
    assert!(matches!(session.copy_done().unwrap(), CopyPart::Last(_)));
    session.sync().unwrap();
    println!("COPY of {rows} rows, {} MB: {:.3} s", data.len() >> 20, begin.elapsed().as_secs_f64());
    run(&mut session, "create table history (tid int, bid int, aid int, delta int, mtime timestamp, filler char(22))");
    let runs = 300_000;
    let int = |at: i32| Datum::Int4(at);
    let select = "select abalance from accounts where aid = $1";
    let update = "update accounts set abalance = abalance + $1 where aid = $2";
    let insert = "insert into history (tid, bid, aid, delta, mtime) values ($1, $2, $3, $4, current_timestamp)";
    let upsert = "insert into accounts values ($1, 1, 0, '') on conflict (aid) do update set abalance = excluded.bid";
    for _ in 0..2 {
        println!("select {:.0} ns", each(&mut session, select, runs, |at| vec![int(at + 1)]));
        println!("update {:.0} ns", each(&mut session, update, runs, |at| vec![int(1), int(at + 1)]));
        println!("insert {:.0} ns", each(&mut session, insert, runs, |at| vec![int(1), int(1), int(at), int(5)]));
        println!("upsert {:.0} ns", each(&mut session, upsert, runs, |at| vec![int(at + 1)]));
    }
}
