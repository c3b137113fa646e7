//! Goal: generated SELECTs mean here what they mean on PostgreSQL 15. Method: `answers.tsv` has PostgreSQL's answers: a
//! statement, the types' OIDs and the rows or an SQLSTATE per line; here the statements run over the same tables. With
//! `OVERTAKE_GENERATED_URL` set to the address of a database of PostgreSQL whose locale is C, as here (`host=/tmp/pg15
//! port=55432 user=postgres dbname=c`), the file is recorded anew there, from `OVERTAKE_GENERATED_SEED` (1) and
//! `OVERTAKE_GENERATED_COUNT` (2500) if they are set.

mod answer;
mod statements;

use super::{Client, Peer};
use answer::{Answer, Line};
use statements::Statements;
use std::collections::BTreeSet;
use std::fmt::Write as _;

const SCHEMA: &str = include_str!("schema.sql");
const FILE: &str = "tests/generated/answers.tsv";

const LINES: &str = include_str!("answers.tsv");

/// Returns the statements that create the tables.
pub fn schema() -> impl Iterator<Item = &'static str> {
    SCHEMA.split_inclusive(";\n")
}

/// Returns the recorded statements.
pub fn statements() -> impl Iterator<Item = &'static str> {
    LINES.lines().map(|line| Line::read(line).statement)
}

/// Returns PostgreSQL's answer.
fn recorded(peer: &Peer, statement: &str) -> Answer {
    use tokio_postgres::SimpleQueryMessage::Row;
    let asked = peer.runtime.block_on(async {
        let prepared = peer.client.prepare(statement).await?;
        Ok((prepared, peer.client.simple_query(statement).await?))
    });
    let failed = |error: tokio_postgres::Error| Answer::failed(error.code().unwrap().code());
    asked.map_or_else(failed, |(prepared, messages)| {
        let oids = prepared.columns().iter().map(|column| column.type_().oid());
        let rows = messages.iter().filter_map(|message| if let Row(row) = message { Some(row) } else { None });
        let cells = rows.map(|row| (0..row.len()).map(|at| row.get(at).map(str::to_owned)).collect());
        Answer::rows(statement, oids, cells.collect())
    })
}

fn record(url: &str) {
    let number = |name: &str, otherwise| std::env::var(name).map_or(otherwise, |text| text.parse().unwrap());
    let peer = Peer::connect(url, &format!("generated_{}", std::process::id()));
    peer.runtime.block_on(peer.client.batch_execute(SCHEMA)).unwrap();
    // Without statistics, PostgreSQL's cost estimates make it compile plans for seconds.
    peer.runtime.block_on(peer.client.batch_execute("analyze; set jit = off")).unwrap();
    let statements = Statements::new(number("OVERTAKE_GENERATED_SEED", 1));
    let count = number("OVERTAKE_GENERATED_COUNT", 2500);
    let mut known = BTreeSet::new();
    let mut file = String::new();
    for statement in statements.filter(|statement| known.insert(statement.clone())).take(count as usize) {
        writeln!(file, "{statement}\t{}", recorded(&peer, &statement)).unwrap();
    }
    std::fs::write(FILE, file).unwrap();
}

#[test]
fn generated_statements_answer_as_postgresql_did() {
    if let Ok(url) = std::env::var("OVERTAKE_GENERATED_URL") {
        record(&url);
    }
    let mut client = Client::new();
    for statement in schema() {
        client.give(statement).unwrap();
        client.0.sync().unwrap();
    }
    let file = std::fs::read_to_string(FILE).unwrap();
    let mut different = Vec::new();
    for line in file.lines() {
        let Line { statement, answer } = Line::read(line);
        let found = match client.give(statement) {
            Ok(given) => {
                let oids = given.kinds.iter().flatten().map(|kind| kind.oid());
                Answer::rows(statement, oids, given.rows)
            }
            Err(error) => {
                client.0.fail();
                Answer::failed(error.state().0)
            }
        };
        client.0.sync().unwrap();
        let found = found.to_string();
        if found != answer {
            different.push(format!("{statement}\n  expected {answer}\n  came     {found}"));
        }
    }
    assert!(1000 < file.lines().count());
    assert!(different.is_empty(), "{} differ:\n{}", different.len(), different.join("\n"));
}
