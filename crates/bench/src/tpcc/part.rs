//! One part: tables, a phase over them, and its results.

use crate::report::{Report, TextTable, number};
use engine::{Begin, Engine, EngineConfig, Isolation};
use host::stop::{Stop, Stopped};
use stage::Class;
use std::collections::BTreeMap;
use std::time::Duration;
use workloads::tpcc::{self, DriveConfig, DriveReport, Mix, PurgeConfig, Scale, TransactionKind};

/// Parameters that all parts share.
pub struct TpccConfig<'a> {
    /// Isolation level of the transactions.
    pub isolation: Isolation,
    /// True if delivered orders are deleted.
    pub purge: bool,
    /// Seed of population and inputs.
    pub seed: u64,
    /// Stop of the run.
    pub stop: &'a Stop,
}

/// Engine with TPC-C's tables.
pub struct TpccEngine {
    engine: Engine,
    tables: tpcc::TpccTables,
    scale: Scale,
}

impl TpccEngine {
    /// Loads the tables.
    ///
    /// # Errors
    /// A stop, or errors of the engine.
    pub fn load(bench: &TpccConfig<'_>, warehouses: u32) -> anyhow::Result<TpccEngine> {
        bench.stop.wait(Duration::ZERO)?;
        let scale = Scale::spec(warehouses as i32);
        tracing::info!(warehouses, "loading");
        let engine = Engine::new(EngineConfig::in_memory());
        let tables = tpcc::load(&engine, scale, bench.seed, &mut |_| {})?;
        Ok(TpccEngine { engine, tables, scale })
    }

    /// Drives a mix over the tables.
    ///
    /// # Errors
    /// A stop, or an error of the engine that no repetition mends.
    pub fn drive(
        &self,
        bench: &TpccConfig<'_>,
        mix: Mix,
        workers: u32,
        duration: Duration,
    ) -> anyhow::Result<DriveReport> {
        bench.stop.wait(Duration::ZERO)?;
        let seconds = duration.as_secs_f64();
        tracing::info!(mix = name(mix), isolation = ?bench.isolation, workers, seconds, "measuring");
        let workers = workers as usize;
        let config = DriveConfig {
            scale: self.scale,
            workers,
            mix,
            duration,
            seed: bench.seed,
            begin: Begin::new(Class::Normal).isolation(bench.isolation),
            purge: bench.purge.then(PurgeConfig::default),
        };
        Ok(tpcc::drive(&self.engine, &self.tables, &config)?)
    }

    /// Checks the consistency conditions.
    ///
    /// # Errors
    /// A stop; or the violated conditions, and the places of the violations.
    pub fn check(&self, bench: &TpccConfig<'_>) -> anyhow::Result<()> {
        let go_on = &mut || bench.stop.wait(Duration::ZERO).is_ok();
        let violations = match tpcc::check_while(&self.engine.snapshot(), &self.tables, go_on) {
            Some(result) => result.err().unwrap_or_default(),
            None => return Err(Stopped.into()),
        };
        anyhow::ensure!(
            violations.is_empty(),
            "{}",
            violations.iter().map(ToString::to_string).collect::<Vec<_>>().join("\n")
        );
        Ok(())
    }
}

/// Returns the mix's name for people.
fn name(mix: Mix) -> &'static str {
    match mix {
        Mix::NewOrder => "New-Order",
        Mix::NewOrderPayment => "New-Order and Payment",
        Mix::Standard => "full mix",
        Mix::Steady => "steady mix",
    }
}

/// Formats aborted attempts by SQLSTATE, for people: `12 (40001)`.
pub fn aborts_in_words(aborts: &BTreeMap<&'static str, u64>) -> String {
    let words: Vec<String> =
        aborts.iter().map(|(state, count)| format!("{} ({state})", number(*count as f64))).collect();
    if words.is_empty() { "none".to_owned() } else { words.join(", ") }
}

/// Returns all kinds' aborted attempts by SQLSTATE.
pub fn aborts(driven: &DriveReport) -> BTreeMap<&'static str, u64> {
    let mut sum = BTreeMap::new();
    for (state, count) in driven.kinds.iter().flat_map(|kind| &kind.aborts) {
        *sum.entry(*state).or_default() += count;
    }
    sum
}

/// Creates the table of the mixes that are measured on their own.
pub fn table() -> TextTable {
    let header = ["", "New-Order/CPU s", "all/CPU s", "all/s", "p50 µs", "p99 µs", "p99.9 µs", "max µs", "aborts"];
    TextTable::new("TPC-C in process, one closed loop a worker", &header)
}

/// Returns the rows of that table: the mix, and each kind in it if there are several.
pub fn rows(mix: Mix, driven: &DriveReport) -> Vec<[String; 9]> {
    let row = |name: &str, new_orders: u64, committed: u64, time: &stage::Histogram, aborts: u64| {
        let [cpu_s, wall_s] = [driven.cpu_ns, driven.wall_ns].map(|ns| ns as f64 / 1e9);
        let new_orders = if 0 < new_orders { number(new_orders as f64 / cpu_s) } else { String::new() };
        let time = time.quantiles_us();
        [
            name.to_owned(),
            new_orders,
            number(committed as f64 / cpu_s),
            number(committed as f64 / wall_s),
            number(time.p50),
            number(time.p99),
            number(time.p999),
            number(time.max),
            number(aborts as f64),
        ]
    };
    let new_orders = driven.of(TransactionKind::NewOrder).committed;
    let mut rows = vec![row(name(mix), new_orders, driven.committed(), &driven.time(), driven.retries())];
    if mix != Mix::NewOrder {
        rows.extend(TransactionKind::ALL.into_iter().filter(|kind| 0 < mix.percent(*kind)).map(|kind| {
            let of = driven.of(kind);
            row(&format!("  {}", kind.name()), 0, of.committed, &of.time, of.aborts.values().sum())
        }));
    }
    rows
}

/// Adds the figures of a mix.
pub fn figures(report: &mut Report, mix: Mix, driven: &DriveReport) {
    let (prefix, per_cpu_s) = match mix {
        Mix::NewOrder => ("tpcc.new_order", driven.new_order_per_cpu_s()),
        Mix::NewOrderPayment => ("tpcc.new_order_payment", driven.committed_per_cpu_s()),
        Mix::Standard => ("tpcc.mix", driven.committed_per_cpu_s()),
        Mix::Steady => ("tpcc.steady", driven.committed_per_cpu_s()),
    };
    report.figure(format!("{prefix}_per_cpu_s"), per_cpu_s);
    report.figure(format!("{prefix}_per_s"), driven.committed_per_s());
    report.quantiles(&format!("{prefix}_us"), &driven.time().quantiles_us());
    report.figure(format!("{prefix}_aborts"), driven.retries() as f64);
    report.figure(format!("{prefix}_rolled_back"), driven.rolled_back() as f64);
    if 0 < driven.purged.orders {
        report.figure(format!("{prefix}_purged_orders"), driven.purged.orders as f64);
        report.note(format!(
            "The purge beside the {} deleted {} orders and {} payments; {} of its transactions were repeated.",
            name(mix),
            number(driven.purged.orders as f64),
            number(driven.purged.payments as f64),
            number(driven.purge_aborts as f64)
        ));
    }
    if 0 < driven.retries() {
        report.note(format!("Aborted attempts of the {}: {}.", name(mix), aborts_in_words(&aborts(driven))));
    }
}
