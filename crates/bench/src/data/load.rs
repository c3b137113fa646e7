//! Loading, step by step, with progress.

use super::Data;
use super::clock::LockClock;
use super::urgent::Transactions;
use anyhow::Context;
use engine::Engine;
use host::stop::{Stop, Stopped};
use locked::Locked;
use olap::Database;
use std::sync::{Arc, Mutex};
use std::time::Duration;
use workloads::tpcc::{self, Scale};
use workloads::{ch, tpch};

/// Amount of data to load.
#[derive(Clone, Copy, Debug)]
pub struct DataConfig {
    /// TPC-H's scale factor; 0 leaves its tables out.
    pub scale_factor: f64,
    /// Scale of TPC-C.
    pub scale: Scale,
    /// Seed of TPC-C's population.
    pub seed: u64,
    /// Source of TPC-H's comments.
    pub comments: tpch::Comments,
}

impl DataConfig {
    /// Returns the memory that the process will need with these data and the heaviest query (Q18 peaked at 4.5 GB at
    /// scale factor 1, a warehouse takes 110 MB): measured, with a margin. New orders come on top.
    pub fn memory_bytes(&self) -> u64 {
        const MIB: f64 = 1_048_576.0;
        let mib = 500.0 + 4_200.0 * self.scale_factor + 150.0 * f64::from(self.scale.warehouses);
        (mib * MIB) as u64
    }
}

/// Step of a load.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LoadStep {
    /// Name for messages.
    pub name: &'static str,
    /// Number of rows loaded.
    pub rows_count: u64,
    /// Number of rows to load.
    pub rows_expected: u64,
}

/// Progress of a load, for any thread to read.
#[derive(Default)]
pub struct LoadSteps(Mutex<Vec<LoadStep>>);

impl LoadSteps {
    /// Returns the steps in their present state, those to come included.
    pub fn read(&self) -> Vec<LoadStep> {
        self.0.locked().clone()
    }

    fn set(&self, at: usize, rows_count: u64) {
        self.0.locked()[at].rows_count = rows_count;
    }

    fn plan(&self, steps: Vec<LoadStep>) {
        *self.0.locked() = steps;
    }
}

pub(super) fn load(engine: Engine, config: &DataConfig, stop: &Stop, steps: &LoadSteps) -> anyhow::Result<Arc<Data>> {
    let scale = config.scale;
    let tpch_rows = tpch::TpchTable::ALL.iter().map(|table| table.rows_expected(config.scale_factor)).sum();
    steps.plan(vec![
        LoadStep { name: "TPC-C", rows_count: 0, rows_expected: scale.rows_expected() },
        LoadStep { name: "TPC-H", rows_count: 0, rows_expected: tpch_rows },
    ]);
    let mut rows_count = 0;
    let tables = tpcc::load(&engine, scale, config.seed, &mut |progress| {
        rows_count = progress.rows_count;
        steps.set(0, progress.rows_count);
    })?;
    ch::load(&engine, config.seed)?;
    rows_count += ch::ROWS_COUNT;
    stop.wait(Duration::ZERO)?;
    if 0.0 < config.scale_factor {
        let threads = preempt::os::cpus().len();
        let load = tpch::LoadConfig { scale_factor: config.scale_factor, comments: config.comments, threads };
        rows_count += tpch::load(&engine, &load, &mut |progress| steps.set(1, progress.rows_count))?.rows_count;
    }
    stop.wait(Duration::ZERO)?;
    let catalog = sql::session::Database::new(engine.clone());
    catalog.adopt(&engine.tables()).context("the catalog of the tables")?;
    let database = Database::of_catalog(catalog.clone());
    let tpcc = Arc::new(tables);
    let transactions = Arc::new(Transactions::new(engine.clone(), Arc::clone(&tpcc)));
    let clock = LockClock::start(engine.clone())?;
    Ok(Arc::new(Data { engine, catalog, database, tpcc, scale, transactions, rows_count, _clock: clock }))
}

/// Interval at which the bar is drawn.
const DRAW: Duration = Duration::from_millis(100);

pub(super) fn load_with_progress_bar(engine: Engine, config: &DataConfig, stop: &Stop) -> anyhow::Result<Arc<Data>> {
    let steps = LoadSteps::default();
    let bar = crate::progress::bar(1);
    let data = std::thread::scope(|scope| {
        let loader = scope.spawn(|| load(engine, config, stop, &steps));
        while !loader.is_finished() {
            let now = steps.read();
            if let Some(step) = now.iter().find(|step| step.rows_count < step.rows_expected) {
                bar.set_message(format!("loading {}", step.name));
            }
            bar.set_length(now.iter().map(|step| step.rows_expected).sum::<u64>().max(1));
            bar.set_position(now.iter().map(|step| step.rows_count).sum());
            // A stop ends the load at its next step; the bar goes on until then.
            if stop.wait(DRAW) == Err(Stopped) {
                std::thread::park_timeout(DRAW);
            }
        }
        loader.join().expect("the load does not panic")
    });
    bar.finish_and_clear();
    let data = data?;
    tracing::info!(
        rows = data.rows_count(),
        memory = host::memory::in_words(data.bytes()),
        seconds = bar.elapsed().as_secs_f64(),
        "loaded"
    );
    Ok(data)
}
