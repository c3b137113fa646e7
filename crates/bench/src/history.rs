//! `overtake bench history`: random histories at each isolation level, searched for the anomalies that the level
//! forbids.

use crate::arguments::PhaseDuration;
use crate::report::{Machine, Report, TextTable, number};
use clap::Args;
use engine::Isolation;
use host::stop::Stop;
use serde::Serialize;
use std::path::PathBuf;
use std::time::{Duration, Instant};
use workloads::history::{Anomaly, KEYS_MAX, RoundConfig, RoundOutcome, round};

/// Arguments of `bench history`.
#[derive(Args, Debug, Serialize)]
pub struct HistoryArguments {
    /// Length of the measurement of each level; the levels take turns, round by round.
    #[command(flatten)]
    #[serde(flatten)]
    duration: PhaseDuration,
    /// Seed of the transactions. Which transactions meet depends on the machine, too.
    #[arg(long, value_name = "NUMBER", default_value_t = 42)]
    seed: u64,
    /// Number of sessions of a round, on a third as many threads; the sessions that interrupt these come on top.
    #[arg(long, value_name = "COUNT", default_value_t = 12, value_parser = clap::value_parser!(u32).range(3..=300))]
    sessions: u32,
    /// File for a history with a forbidden anomaly or a fault.
    #[arg(long, value_name = "FILE", default_value = "overtake-history.txt")]
    evidence: PathBuf,
}

const LEVELS: [(&str, &str, Isolation); 3] = [
    ("READ COMMITTED", "read_committed", Isolation::ReadCommitted),
    ("REPEATABLE READ", "repeatable_read", Isolation::RepeatableRead),
    ("SERIALIZABLE", "serializable", Isolation::Serializable),
];
/// Number of sessions that share a thread.
const SESSIONS_PER_THREAD: usize = 3;
/// Number of transactions of a round: enough that its beginning and end, where few transactions are concurrent, do not
/// matter.
const TRANSACTIONS: u64 = 20_000;
/// Numbers of keys of a round, in turns: from everybody at one row to hardly anybody meeting.
const KEYS: [usize; 6] = [2, 4, 8, 16, 32, KEYS_MAX];

/// Runs and judges histories.
///
/// # Errors
/// If an anomaly is found that the level forbids, or one is not found that it allows; if the run is stopped.
pub fn run(arguments: &HistoryArguments, stop: &Stop) -> anyhow::Result<Report> {
    let mut all = LEVELS.map(|_| RoundOutcome::default());
    let mut taken = [Duration::ZERO; LEVELS.len()];
    let mut rounds = 0;
    while taken.iter().any(|taken| *taken < arguments.duration.get()) {
        for (at, (name, _, isolation)) in LEVELS.into_iter().enumerate() {
            stop.wait(Duration::ZERO)?;
            let began = Instant::now();
            let outcome = round(&RoundConfig {
                isolation,
                threads: (arguments.sessions as usize).div_ceil(SESSIONS_PER_THREAD),
                sessions: SESSIONS_PER_THREAD,
                transactions: TRANSACTIONS,
                keys: KEYS[rounds % KEYS.len()],
                seed: arguments.seed.wrapping_add(rounds as u64),
            });
            taken[at] += began.elapsed();
            all[at].add(outcome);
            // A forbidden anomaly ends the run at once; missing ones are judged at the end, because one round may be
            // too short.
            tracing::debug!(level = name, rounds, "judged");
            refuse_what_is_forbidden(arguments, name, isolation, &all[at])?;
        }
        rounds += 1;
    }
    let mut report = Report::new("history", arguments, Machine::read())?;
    let header: Vec<&str> =
        ["", "committed", "urgent", "aborted"].into_iter().chain(Anomaly::ALL.map(Anomaly::name)).collect();
    let mut table = TextTable::new(format!("Random histories, {rounds} rounds a level"), &header);
    for ((name, figure, _), outcome) in LEVELS.into_iter().zip(&all) {
        let aborted: u64 = outcome.aborted.values().sum();
        let counts = Anomaly::ALL.map(|anomaly| outcome.findings.count(anomaly));
        let cells = [outcome.committed, outcome.urgent, aborted].into_iter().chain(counts);
        table.row(std::iter::once(name.to_owned()).chain(cells.map(|count| number(count as f64))));
        report.figure(format!("history.{figure}.committed"), outcome.committed as f64);
        report.figure(format!("history.{figure}.aborted"), aborted as f64);
        for (anomaly, count) in Anomaly::ALL.into_iter().zip(counts) {
            let anomaly = anomaly.name().to_lowercase().replace(['-', ' '], "_");
            report.figure(format!("history.{figure}.{anomaly}"), count as f64);
        }
        let reasons: Vec<String> = outcome.aborted.iter().map(|(why, count)| format!("{why} {count}")).collect();
        report.note(format!("{name}: aborted because of: {}.", reasons.join(", ")));
    }
    report.table(table);
    for ((name, _, isolation), outcome) in LEVELS.into_iter().zip(&all) {
        for anomaly in workloads::history::expected(isolation) {
            if let Some(example) = outcome.findings.examples.get(anomaly) {
                let words = example.words.trim_end().replace('\n', "; ");
                report.note(format!("{name} lets {} happen: {words}.", anomaly.name()));
            }
        }
    }
    for ((name, _, isolation), outcome) in LEVELS.into_iter().zip(&all) {
        let missing: Vec<&str> = outcome.missing(isolation).into_iter().map(Anomaly::name).collect();
        anyhow::ensure!(
            missing.is_empty(),
            "{report}\n{name} lets {} happen, but none was found: the checker is blind, or the run too short",
            missing.join(", ")
        );
    }
    Ok(report)
}

fn refuse_what_is_forbidden(
    arguments: &HistoryArguments,
    name: &str,
    isolation: Isolation,
    outcome: &RoundOutcome,
) -> anyhow::Result<()> {
    let Some(evidence) = &outcome.evidence else { return Ok(()) };
    std::fs::write(&arguments.evidence, evidence)?;
    let mut words = String::new();
    for anomaly in outcome.forbidden(isolation) {
        words.push_str(&format!("\n{}:\n{}", anomaly.name(), outcome.findings.examples[&anomaly].words));
    }
    outcome.faults.iter().take(10).for_each(|fault| words.push_str(&format!("\n{fault}")));
    anyhow::bail!("{name} let happen what it must not; the history is in {}{words}", arguments.evidence.display())
}
