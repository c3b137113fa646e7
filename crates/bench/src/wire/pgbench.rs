//! PostgreSQL's own load generator, `pgbench`: its runs, and the results that it prints and logs.
//!
//! **Invariant:** each transaction of a run is in the histogram, from pgbench's log of single transactions; a run with an
//! aborted client or a failed transaction is an error.

use super::postgres::{Folder, Programs};
use super::servers::MeasuredServer;
use crate::report::median;
use anyhow::{Context, bail, ensure};
use host::stop::Stop;
use preempt::os;
use stage::Histogram;
use std::fs;
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::time::Duration;

/// Script that pgbench runs.
#[derive(Clone, Copy, Debug)]
pub enum PgbenchScript<'a> {
    /// Built-in script of pgbench.
    BuiltIn(&'a str),
    /// Script files, each run as often as its weight says.
    Files(&'a [(PathBuf, u32)]),
}

/// Results of a run.
pub struct PgbenchRun {
    /// Number of transactions done.
    pub transactions: u64,
    /// Transactions per second, without the time that connecting took.
    pub per_s: f64,
    /// Time from sending a transaction's first statement to the answer to its last.
    pub latency: Histogram,
    /// Latencies of each script file.
    pub by_script: Vec<Histogram>,
    /// Seconds of processor time of the server; none if another program started it.
    pub processor_s: Option<f64>,
}

/// Runs of one server, in turn with those of others.
#[derive(Default)]
pub struct PgbenchRounds {
    per_s: Vec<f64>,
    /// Number of transactions of all runs.
    pub transactions: u64,
    /// Latencies of all runs.
    pub latency: Histogram,
    /// Processor time of the server over all runs, if it is known.
    processor_s: Option<f64>,
}

impl PgbenchRounds {
    /// Adds a run.
    pub fn add(&mut self, run: &PgbenchRun) {
        self.per_s.push(run.per_s);
        self.transactions += run.transactions;
        self.latency.add(&run.latency);
        self.processor_s = run.processor_s.map(|seconds| seconds + self.processor_s.unwrap_or(0.0));
    }

    /// Returns the microseconds of the server's processor time per transaction, if it is known.
    pub fn processor_us(&self) -> Option<f64> {
        Some(self.processor_s? * 1e6 / self.transactions.max(1) as f64)
    }

    /// Returns the median of the runs' transactions per second.
    pub fn per_s(&self) -> f64 {
        median(&self.per_s)
    }
}

/// Makes and fills pgbench's tables by its own standard steps.
///
/// # Errors
/// Errors of pgbench.
pub fn initialise(programs: &Programs, target: &MeasuredServer, scale: u32, stop: &Stop) -> anyhow::Result<()> {
    let mut command = Command::new(programs.path("pgbench"));
    command.args(["-i", "-q", "-s", &scale.to_string()]);
    if target.is_unlogged {
        command.arg("--unlogged-tables");
    }
    command.arg(&target.url);
    finish(command, stop).map(drop)
}

/// Protocol by which pgbench sends statements.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Protocol {
    /// Extended protocol, statements prepared once.
    Prepared,
    /// Extended protocol, statements prepared each time.
    Extended,
}

/// Runs scripts for this long.
///
/// # Errors
/// A stop; errors of pgbench; a failed transaction.
pub fn run(
    programs: &Programs,
    target: &MeasuredServer,
    script: PgbenchScript<'_>,
    protocol: Protocol,
    clients: u32,
    duration: Duration,
    stop: &Stop,
) -> anyhow::Result<PgbenchRun> {
    let folder = Folder::new("overtake-pgbench")?;
    let threads = clients.min(u32::try_from(os::cpus().len()).unwrap_or(1));
    let mut command = Command::new(programs.path("pgbench"));
    let mode = match protocol {
        Protocol::Prepared => "prepared",
        Protocol::Extended => "extended",
    };
    command.args(["-n", "-M", mode, "-l", "--log-prefix"]).arg(folder.path().join("log"));
    let files = match script {
        PgbenchScript::BuiltIn(name) => {
            command.args(["-b", name]);
            1
        }
        PgbenchScript::Files(files) => {
            for (file, weight) in files {
                command.arg("-f").arg(format!("{}@{weight}", file.display()));
            }
            files.len()
        }
    };
    command.args(["-c", &clients.to_string(), "-j", &threads.to_string()]);
    // pgbench takes whole seconds.
    command.args(["-T", &duration.as_secs_f64().ceil().to_string()]).arg(&target.url);
    let before = target.processor_s()?;
    let printed = finish(command, stop)?;
    let after = target.processor_s()?;
    let (transactions, per_s) = parse(&printed).with_context(|| format!("pgbench printed:\n{printed}"))?;
    let mut by_script = vec![Histogram::new(); files];
    for entry in fs::read_dir(folder.path()).context("pgbench's log")? {
        let text = fs::read_to_string(entry.context("pgbench's log")?.path()).context("pgbench's log")?;
        for line in text.lines() {
            let (us, file) = logged(line)?;
            by_script.get_mut(file).with_context(|| format!("pgbench logged \"{line}\""))?.record_ns(us * 1_000);
        }
    }
    let mut latency = Histogram::new();
    by_script.iter().for_each(|of_script| latency.add(of_script));
    ensure!(latency.count() == transactions, "pgbench logged {} of {transactions} transactions", latency.count());
    let processor_s = before.zip(after).map(|(before, after)| after - before);
    Ok(PgbenchRun { transactions, per_s, latency, by_script, processor_s })
}

/// Runs pgbench to its end, unless a stop comes before.
fn finish(mut command: Command, stop: &Stop) -> anyhow::Result<String> {
    const LOOK: Duration = Duration::from_millis(20);
    // Little is printed, so no pipe fills up before it is read.
    let spawned = command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn();
    let mut child = spawned.context("pgbench")?;
    while child.try_wait().context("pgbench")?.is_none() {
        if let Err(stopped) = stop.wait(LOOK) {
            let _ = child.kill();
            let _ = child.wait();
            return Err(stopped.into());
        }
    }
    let output = child.wait_with_output().context("pgbench")?;
    let errors = String::from_utf8_lossy(&output.stderr);
    ensure!(output.status.success(), "pgbench: {}", errors.trim());
    Ok(String::from_utf8_lossy(&output.stdout).into_owned())
}

/// Parses the number of transactions, and their rate per second, from the final output of pgbench.
fn parse(printed: &str) -> anyhow::Result<(u64, f64)> {
    let field = |name: &str| {
        let line = printed.lines().find_map(|line| line.strip_prefix(name));
        line.and_then(|rest| rest.split_ascii_whitespace().next()).with_context(|| format!("there is no \"{name}\""))
    };
    let transactions = field("number of transactions actually processed: ")?.parse().context("transactions")?;
    let failed: u64 = field("number of failed transactions: ")?.parse().context("failed transactions")?;
    ensure!(failed == 0, "{failed} transactions failed");
    if transactions == 0 {
        // pgbench then prints no rate. This may happen in a warm-up on a loaded machine.
        return Ok((0, 0.0));
    }
    Ok((transactions, field("tps = ")?.parse().context("tps")?))
}

/// Parses the third and the fourth field of a line of pgbench's log: microseconds, and the number of the script.
fn logged(line: &str) -> anyhow::Result<(u64, usize)> {
    let mut fields = line.split(' ').skip(2);
    match (fields.next().map(str::parse), fields.next().map(str::parse)) {
        (Some(Ok(us)), Some(Ok(script))) => Ok((us, script)),
        _ => bail!("pgbench logged \"{line}\""),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const PRINTED: &str = "pgbench (15.18)\ntransaction type: <builtin: TPC-B (sort of)>\nscaling factor: 10\n\
        query mode: prepared\nnumber of clients: 8\nnumber of threads: 2\nmaximum number of tries: 1\nduration: 5 s\n\
        number of transactions actually processed: 12345\nnumber of failed transactions: 0 (0.000%)\n\
        latency average = 3.2 ms\ninitial connection time = 10.2 ms\n\
        tps = 2469.125 (without initial connection time)\n";

    #[test]
    fn what_it_prints_is_understood() {
        assert_eq!(parse(PRINTED).expect("it is all there"), (12_345, 2_469.125));
    }

    #[test]
    fn a_failed_transaction_is_an_error() {
        let error = parse(&PRINTED.replace("failed transactions: 0", "failed transactions: 3")).expect_err("3 failed");
        assert_eq!(error.to_string(), "3 transactions failed");
        assert!(parse("pgbench: error\n").is_err());
        let none = "number of transactions actually processed: 0\nnumber of failed transactions: 0 (NaN%)\n";
        assert_eq!(parse(none).expect("it is all there"), (0, 0.0));
    }

    #[test]
    fn a_logged_transaction_has_its_time_third_and_its_script_fourth() {
        assert_eq!(logged("0 199 2241 1 1175850568 995598").expect("it is one"), (2_241, 1));
        assert!(logged("0 199 skipped 0 1175850568 995598").is_err());
        assert!(logged("").is_err());
    }
}
