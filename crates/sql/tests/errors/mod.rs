//! Goal: errors are reported as PostgreSQL 15 reports them, with the position under which `psql` puts its `^`. Method:
//! `answers.tsv` has PostgreSQL's answers to many wrong statements: SQLSTATE, position, message, detail and hint, one
//! statement per line; here they run over the same tables. With `OVERTAKE_ERRORS_URL` set to the address of a database
//! of PostgreSQL (`host=/tmp/pg15 port=55432 user=postgres`) the file is recorded anew there, in a database `errors`
//! that is created for it: a line with only a statement gets its answer. Statements that PostgreSQL accepts are left
//! out.

use super::{Client, Peer};
use std::fmt::Write as _;

const SCHEMA: &str = include_str!("schema.sql");
const FILE: &str = "tests/errors/answers.tsv";

/// Statements with a different answer here, and the reasons.
const KNOWN: &str = include_str!("known.tsv");

fn escaped(text: &str) -> String {
    text.replace('\\', "\\\\").replace('\t', "\\t").replace('\n', "\\n")
}

fn answer(code: &str, position: Option<usize>, message: &str, detail: Option<&str>, hint: Option<&str>) -> String {
    let position = position.map_or("-".to_owned(), |position| position.to_string());
    [code, &position, &escaped(message), &escaped(detail.unwrap_or("")), &escaped(hint.unwrap_or(""))].join("\t")
}

/// Returns PostgreSQL's answer, if it is an error.
fn recorded(peer: &Peer, statement: &str) -> Option<String> {
    use tokio_postgres::error::ErrorPosition::{Internal, Original};
    let failed = peer.runtime.block_on(peer.client.simple_query(statement)).err();
    peer.runtime.block_on(peer.client.batch_execute("rollback")).unwrap();
    let error = failed?;
    let of = error.as_db_error()?;
    let position = match of.position() {
        Some(Original(position)) => Some(*position as usize),
        Some(Internal { .. }) | None => None,
    };
    Some(answer(of.code().code(), position, of.message(), of.detail(), of.hint()))
}

fn record(url: &str) {
    // Messages contain names of the database, so it is one of its own.
    let owner = Peer::connect(url, "public");
    for statement in ["drop database if exists errors", "create database errors template template0 locale 'C'"] {
        owner.runtime.block_on(owner.client.batch_execute(statement)).unwrap();
    }
    let peer = Peer::connect(&format!("{url} dbname=errors"), "public");
    peer.runtime.block_on(peer.client.batch_execute(SCHEMA)).unwrap();
    let before = std::fs::read_to_string(FILE).unwrap();
    let mut file = String::new();
    for line in before.lines() {
        let statement = line.split('\t').next().unwrap();
        match recorded(&peer, &statement.replace("\\n", "\n")) {
            Some(answer) => writeln!(file, "{statement}\t{answer}").unwrap(),
            None => println!("no error: {statement}"),
        }
    }
    std::fs::write(FILE, file).unwrap();
}

/// Returns this server's answer.
fn found(client: &mut Client, statement: &str) -> Option<String> {
    let mut before = 0;
    let result = client.0.split(statement).and_then(|all| {
        all.iter().try_for_each(|one| {
            before = one.before;
            let one = &one.text;
            // The simple protocol has no parameter values.
            match client.0.prepare(one, &[])?.parameters() {
                [] => client.give(one).map(drop),
                _ => Err(sql::session::no_parameter(one)),
            }
        })
    });
    if result.is_err() {
        client.0.fail();
    }
    client.0.sync().unwrap();
    let error = result.err()?;
    Some(answer(
        error.state().0,
        error.position().map(|at| at + before),
        error.message(),
        error.detail_text(),
        error.hint_text(),
    ))
}

#[test]
fn errors_are_told_as_postgresql_does() {
    if let Ok(url) = std::env::var("OVERTAKE_ERRORS_URL") {
        record(&url);
    }
    let mut client = Client::new();
    for part in client.0.split(SCHEMA).unwrap() {
        client.give(&part.text).unwrap();
        client.0.sync().unwrap();
    }
    let file = std::fs::read_to_string(FILE).unwrap();
    let known: Vec<&str> = KNOWN.lines().filter(|line| !line.starts_with("--") && !line.is_empty()).collect();
    let (mut different, mut agree) = (Vec::new(), 0);
    for line in file.lines() {
        let (statement, answer) = line.split_once('\t').unwrap();
        let ours = found(&mut client, &statement.replace("\\n", "\n")).unwrap_or_else(|| "no error".to_owned());
        let expected = known.iter().find_map(|line| line.strip_prefix(statement)?.strip_prefix('\t')).unwrap_or(answer);
        if ours == expected {
            agree += usize::from(expected == answer);
        } else {
            different.push(format!("{statement}\n  expected {expected}\n  came     {ours}"));
        }
    }
    println!("{agree} of {} as PostgreSQL", file.lines().count());
    assert!(500 < file.lines().count());
    assert!(different.is_empty(), "{} differ:\n{}", different.len(), different.join("\n"));
}
