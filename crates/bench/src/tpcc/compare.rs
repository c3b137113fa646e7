//! Comparisons: two sides that take turns.

use super::part::{self, TpccConfig, TpccEngine};
use crate::report::{Report, TextTable, median, number};
use engine::Isolation;
use stage::Histogram;
use std::collections::BTreeMap;
use std::time::Duration;
use workloads::tpcc::{DriveReport, Mix};

/// Number of turns of each side.
const PAIRS: u32 = 5;
/// Time before the first turn, so that neither side begins with cold tables.
const WARM_UP: Duration = Duration::from_millis(100);
/// Number of warehouses and workers of the larger side of [`scaling`], and of both sides of [`isolation`].
const TWO: u32 = 2;
/// Number of warehouses that both comparisons load.
pub const WAREHOUSES: u64 = 5;

/// Returns the maximum processor time of both comparisons, for the memory that they need.
pub fn processor_seconds(slice: Duration) -> f64 {
    let two = f64::from(TWO);
    let turns = f64::from(PAIRS) * ((1.0 + two) + (two + two));
    turns * slice.as_secs_f64() + (1.0 + 3.0 * two) * WARM_UP.as_secs_f64()
}

/// Compares two warehouses on two workers with one on one, in the full mix, by wall time.
///
/// # Errors
/// Errors of [`TpccEngine::drive`] and [`TpccEngine::check`].
pub fn scaling(report: &mut Report, bench: &TpccConfig<'_>, slice: Duration) -> anyhow::Result<()> {
    let one = TpccEngine::load(bench, 1)?;
    let two = TpccEngine::load(bench, TWO)?;
    one.drive(bench, Mix::Standard, 1, WARM_UP)?;
    two.drive(bench, Mix::Standard, TWO, WARM_UP)?;
    let header = ["", "one/s", "two/s", "times", "one/CPU s", "two/CPU s", "aborts of two"];
    let mut table = TextTable::new("Full mix: two warehouses on two workers against one on one, in turn", &header);
    let (mut times, mut aborts) = (Vec::new(), 0);
    for pair in 1..=PAIRS {
        let of_one = one.drive(bench, Mix::Standard, 1, slice)?;
        let of_two = two.drive(bench, Mix::Standard, TWO, slice)?;
        times.push(of_two.committed_per_s() / of_one.committed_per_s());
        aborts += of_two.retries();
        table.row([
            format!("pair {pair}"),
            number(of_one.committed_per_s()),
            number(of_two.committed_per_s()),
            number(of_two.committed_per_s() / of_one.committed_per_s()),
            number(of_one.committed_per_cpu_s()),
            number(of_two.committed_per_cpu_s()),
            number(of_two.retries() as f64),
        ]);
    }
    report.table(table);
    one.check(bench)?;
    two.check(bench)?;
    report.figure("tpcc.scaling_2", median(&times));
    report.figure("tpcc.scaling_2_aborts", aborts as f64);
    Ok(())
}

/// Sum over all turns of one side.
#[derive(Default)]
struct Sum {
    committed: u64,
    cpu_s: f64,
    wall_s: f64,
    time: Histogram,
    aborts: BTreeMap<&'static str, u64>,
}

impl Sum {
    fn add(&mut self, driven: &DriveReport) {
        self.committed += driven.committed();
        self.cpu_s += driven.cpu_ns as f64 / 1e9;
        self.wall_s += driven.wall_ns as f64 / 1e9;
        self.time.add(&driven.time());
        for (state, count) in part::aborts(driven) {
            *self.aborts.entry(state).or_default() += count;
        }
    }
}

/// Compares SERIALIZABLE with READ COMMITTED: the full mix over two warehouses on two workers, by wall time.
///
/// # Errors
/// Errors of [`TpccEngine::drive`] and [`TpccEngine::check`].
pub fn isolation(report: &mut Report, bench: &TpccConfig<'_>, slice: Duration) -> anyhow::Result<()> {
    const LEVELS: [(Isolation, &str); 2] =
        [(Isolation::ReadCommitted, "read_committed"), (Isolation::Serializable, "serializable")];
    let tables = TpccEngine::load(bench, TWO)?;
    let drive = |isolation, duration| tables.drive(&TpccConfig { isolation, ..*bench }, Mix::Standard, TWO, duration);
    // Both levels share the tables: the plain turn comes first in each pair, and the ratio is of neighbouring turns.
    drive(Isolation::ReadCommitted, WARM_UP)?;
    let mut sums: [Sum; 2] = Default::default();
    let mut times = Vec::new();
    for _ in 0..PAIRS {
        let plain = drive(LEVELS[0].0, slice)?;
        let serializable = drive(LEVELS[1].0, slice)?;
        times.push(serializable.committed_per_s() / plain.committed_per_s());
        sums[0].add(&plain);
        sums[1].add(&serializable);
    }
    tables.check(bench)?;
    let header = ["", "all/s", "all/CPU s", "p50 µs", "p99 µs", "max µs", "aborts in 1,000"];
    let title = format!("Full mix on two warehouses and workers by isolation, {PAIRS} turns each");
    let mut table = TextTable::new(title, &header);
    for ((_, name), sum) in LEVELS.iter().zip(&sums) {
        let time = sum.time.quantiles_us();
        let aborts: u64 = sum.aborts.values().sum();
        let in_words = name.replace('_', " ").to_uppercase();
        report.note(format!("Aborted attempts under {in_words}: {}.", part::aborts_in_words(&sum.aborts)));
        table.row([
            in_words,
            number(sum.committed as f64 / sum.wall_s),
            number(sum.committed as f64 / sum.cpu_s),
            number(time.p50),
            number(time.p99),
            number(time.max),
            number(1e3 * aborts as f64 / sum.committed.max(1) as f64),
        ]);
        report.figure(format!("tpcc.{name}_per_s"), sum.committed as f64 / sum.wall_s);
        report.figure(format!("tpcc.{name}_aborts"), aborts as f64);
    }
    report.table(table);
    report.figure("tpcc.serializable_times", median(&times));
    Ok(())
}
