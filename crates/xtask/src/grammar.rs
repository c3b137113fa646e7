//! The grammar compared with PostgreSQL's: random texts are parsed by both, and the errors have to be the same, word
//! and place.
//!
//! Texts are statements that the tests have, with tokens left out, repeated, swapped or taken from other statements.
//! PostgreSQL is asked in a transaction that has failed: it parses a text as a whole, and executes nothing of it.

use crate::differential::Rng;
use crate::server;
use crate::tidy;
use crate::wire::{QueryAnswer, WireClient};
use anyhow::{Context, anyhow, ensure};
use clap::Args;
use std::fmt::Write as _;
use std::time::{Duration, Instant};
use syntax::grammar::Parsed;
use syntax::lex::{Lexeme, Lexer};

/// Files of statements, a statement to a line, before a tab or `--!`.
const FILES: &[&str] =
    &["sql/tests/generated/answers.tsv", "sql/tests/errors/answers.tsv", "sql/tests/syntax/statements.sql"];
/// Verbs of statements whose grammar Overtake has.
const VERBS: &[&str] = &[
    "select",
    "insert",
    "update",
    "delete",
    "with",
    "values",
    "table",
    "(",
    "set",
    "show",
    "reset",
    "discard",
    "prepare",
    "execute",
    "deallocate",
    "declare",
    "fetch",
    "move",
    "close",
    "copy",
    "explain",
    "lock",
    "vacuum",
    "analyze",
    "cluster",
    "reindex",
    "checkpoint",
    "unlisten",
    "create",
    "alter",
    "drop",
    "truncate",
    "comment",
    "call",
];
/// Words of statements and clauses that are refused by their first words, so that the rest is not parsed.
const LENIENT: &[&str] = &[";", "xml", "merge", "grant", "transaction"];
/// SQLSTATE of every statement that PostgreSQL parses and does not run.
const NOT_RUN: &str = "25P02";

/// Options of `cargo xtask grammar`.
#[derive(Args)]
pub struct Grammar {
    /// Seed of the texts
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// Number of texts
    #[arg(long, default_value_t = 20_000)]
    texts: u64,
    /// Differences after which the run stops
    #[arg(long, default_value_t = 20)]
    failures: usize,
    /// Differences up to which the run succeeds: some are known, in clauses that are refused here
    #[arg(long, default_value_t = 0)]
    allowed: usize,
    /// Record what PostgreSQL says to the texts of `crates/syntax/tests/errors.tsv`, and nothing else
    #[arg(long)]
    record: bool,
    /// Print how long three texts take, and nothing else; meant for a release build
    #[arg(long)]
    time: bool,
}

/// Outcome of parsing a text: nothing, or position and message.
type ParseOutcome = Option<(usize, String)>;

/// Parses random texts on both sides.
///
/// # Errors
/// A difference; no PostgreSQL 15.
pub fn run(options: &Grammar) -> anyhow::Result<()> {
    if options.time {
        return time();
    }
    ensure!(server::has_postgres(), "PostgreSQL 15 is not installed");
    let statements = statements()?;
    let postgres = server::postgres()?;
    let mut client = WireClient::connect(&postgres.address)?;
    client.run("begin")?;
    client.send("select 1/0")?;
    client.receive()?;
    if options.record {
        return record(&mut client);
    }
    let (mut failures, mut refused) = (0, 0_u64);
    for index in 0..options.texts {
        let text = mutated(&statements, &mut Rng::new(options.seed, index));
        // Another verb may end the transaction.
        if !VERBS.iter().any(|verb| text.to_lowercase().starts_with(verb))
            || LENIENT.iter().any(|word| text.to_lowercase().contains(word))
        {
            continue;
        }
        let (ours, theirs) = (ours(&text), theirs(&mut client, &text)?);
        // The rest of a statement without a meaning here, after its first words, is not parsed.
        if ours.is_lenient {
            continue;
        }
        let ours = ours.outcome;
        refused += u64::from(theirs.is_some());
        if ours == theirs {
            continue;
        }
        failures += 1;
        let shown = |outcome: &ParseOutcome| match outcome {
            None => "parsed".to_owned(),
            Some((position, message)) => format!("{position}: {message}"),
        };
        println!("text {index}: {text}\n  PostgreSQL: {}\n  Overtake:   {}\n", shown(&theirs), shown(&ours));
        if options.failures <= failures {
            break;
        }
    }
    println!("{} texts, {refused} of them refused by PostgreSQL, {failures} different", options.texts);
    ensure!(failures <= options.allowed, "the grammars differ");
    Ok(())
}

/// Prints the median time of parsing a look-up by key, a report and a large INSERT.
fn time() -> anyhow::Result<()> {
    let rows: Vec<String> = (0..20_000).map(|row| format!("({row}, 'x{row}', {row}.5)")).collect();
    let report =
        "select l_returnflag, l_linestatus, sum(l_quantity) as sum_qty, sum(l_extendedprice) as sum_base_price,
        sum(l_extendedprice * (1 - l_discount)) as sum_disc_price,
        sum(l_extendedprice * (1 - l_discount) * (1 + l_tax)) as sum_charge, avg(l_quantity) as avg_qty,
        avg(l_extendedprice) as avg_price, avg(l_discount) as avg_disc, count(*) as count_order from lineitem
        where l_shipdate <= date '1998-12-01' - interval '90' day group by l_returnflag, l_linestatus
        order by l_returnflag, l_linestatus";
    for (name, text, rounds) in [
        ("look-up by key", "SELECT abalance FROM pgbench_accounts WHERE aid = $1".to_owned(), 50_000),
        ("TPC-H's query 1", report.to_owned(), 5_000),
        ("INSERT of 20,000 rows", format!("insert into t (a, b, c) values {}", rows.join(", ")), 21),
    ] {
        let mut times: Vec<Duration> = Vec::new();
        for _ in 0..rounds {
            let begun = Instant::now();
            let parsed = syntax::grammar::parse(&text).map_err(|error| anyhow!("{error}"))?;
            times.push(begun.elapsed());
            ensure!(parsed.len() == 1, "one statement");
        }
        times.sort_unstable();
        println!("{name}: {:.2} us", times[times.len() / 2].as_secs_f64() * 1e6);
    }
    Ok(())
}

/// Records PostgreSQL's messages for the texts of the tests.
fn record(client: &mut WireClient) -> anyhow::Result<()> {
    let path = tidy::root().join("crates/syntax/tests/errors.tsv");
    let mut recorded = String::new();
    for line in std::fs::read_to_string(&path)?.lines() {
        let text = line.split('\t').next().unwrap_or(line);
        let answer = match theirs(client, &text.replace("\\n", "\n"))? {
            None => "-\t".to_owned(),
            Some((position, message)) => {
                format!("{position}\t{}", message.replace('\\', "\\\\").replace('\n', "\\n"))
            }
        };
        writeln!(recorded, "{text}\t{answer}")?;
    }
    Ok(std::fs::write(&path, recorded)?)
}

/// Returns the statements of the tests, as tokens.
fn statements() -> anyhow::Result<Vec<Vec<String>>> {
    let mut all = Vec::new();
    for file in FILES {
        let path = tidy::root().join("crates").join(file);
        let text = std::fs::read_to_string(&path).with_context(|| path.display().to_string())?;
        for line in text.lines().filter(|line| !line.starts_with('#')) {
            let statement = line.split('\t').next().unwrap_or(line).split(" --! ").next().unwrap_or(line);
            let statement = statement.replace("\\n", "\n");
            let tokens = tokens(&statement);
            let is_ours = tokens.first().is_some_and(|first| VERBS.contains(&first.to_lowercase().as_str()));
            if is_ours {
                all.push(tokens);
            }
        }
    }
    ensure!(!all.is_empty(), "there are no statements");
    Ok(all)
}

fn tokens(text: &str) -> Vec<String> {
    let mut lexer = Lexer::new(text);
    let mut all = Vec::new();
    while let Ok(token) = lexer.next_token() {
        match token.lexeme {
            Lexeme::End | Lexeme::Broken => break,
            _ => all.push(token.span.of(text).to_owned()),
        }
    }
    all
}

/// Returns a statement with a few of its tokens changed.
fn mutated(statements: &[Vec<String>], rng: &mut Rng) -> String {
    let mut tokens = rng.pick(statements).clone();
    for _ in 0..rng.below(4) {
        if tokens.is_empty() {
            break;
        }
        let at = rng.below(tokens.len());
        match rng.below(5) {
            0 => drop(tokens.remove(at)),
            1 => tokens.insert(at, tokens[at].clone()),
            2 => {
                let other = rng.below(tokens.len());
                tokens.swap(at, other);
            }
            3 => {
                let token = rng.pick(rng_pick(statements, at)).clone();
                tokens[at] = token;
            }
            _ => {
                let token = rng.pick(rng_pick(statements, at + 7)).clone();
                tokens.insert(at, token);
            }
        }
    }
    tokens.join(" ")
}

/// Returns the tokens of some statement.
fn rng_pick(statements: &[Vec<String>], at: usize) -> &[String] {
    &statements[at.wrapping_mul(7_919) % statements.len()]
}

/// Outcome of the parser here, and whether it did not look at a part.
struct Ours {
    outcome: ParseOutcome,
    is_lenient: bool,
}

fn ours(text: &str) -> Ours {
    // The rest of a feature that is not supported, after its first words, is not parsed.
    const MARKS: [&str; 4] = ["Unsupported", "unsupported: [(", "Exclude", "has_elements: true"];
    let is_lenient = |parsed: &Parsed| {
        let shown = format!("{:?}", parsed.statement);
        MARKS.iter().any(|mark| shown.contains(mark))
    };
    match statement::stack::bounded(|| syntax::grammar::parse(text)) {
        Ok((statements, _)) => Ours { outcome: None, is_lenient: statements.iter().any(is_lenient) },
        Err(error) => {
            let outcome = Some((error.position().unwrap_or(0), error.message().to_owned()));
            Ours { outcome, is_lenient: false }
        }
    }
}

fn theirs(client: &mut WireClient, text: &str) -> anyhow::Result<ParseOutcome> {
    client.send(text)?;
    Ok(match client.receive()? {
        QueryAnswer::Error { state, message } if state != NOT_RUN => Some((client.position().unwrap_or(0), message)),
        QueryAnswer::Error { .. } | QueryAnswer::Rows { .. } => None,
    })
}
