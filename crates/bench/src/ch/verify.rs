//! Verification of every answer, at rest, from a replay of the redo records up to its snapshot.

use super::watch::QueryRun;
use crate::data::{Data, rows_digest};
use engine::{Engine, EngineConfig};
use host::stop::Stop;
use olap::{Database, PreparedQuery, RunConfig, Runtime, RuntimeConfig};
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;
use workloads::replay::{Records, Replay};
use workloads::tpcc::TpccTables;
use workloads::{ch, tpcc};

/// Engine that catches up with the measured one.
pub struct Verifier<'a> {
    data: &'a Data,
    replay: Replay,
    tables: TpccTables,
    queries: Vec<Arc<PreparedQuery>>,
    runtime: Runtime,
    workers: usize,
}

/// Numbers of compared answers and records.
pub struct Verified {
    /// Number of answers.
    pub answers: u64,
    /// Number of distinct answers: of another query or another snapshot.
    pub distinct: u64,
    /// Number of redo records replayed.
    pub records: u64,
}

/// Maximum number of wrong answers that are listed one by one.
const TOLD_MAX: usize = 5;

impl<'a> Verifier<'a> {
    /// Takes over all records; nobody writes any more.
    ///
    /// # Errors
    /// An error for bytes that are no record; errors of the engine.
    pub fn new(records: &Records, data: &'a Data, workers: usize) -> anyhow::Result<Verifier<'a>> {
        let engine = Engine::new(EngineConfig::in_memory());
        // Tables are created in the order in which the data have them.
        let tables = TpccTables::create(&engine)?;
        ch::ChTables::create(&engine)?;
        let database = Database::new(engine.clone());
        let queries = (1..=ch::QUERIES_COUNT).map(|number| database.prepare(ch::query(number)));
        let queries = queries.collect::<olap::Result<_>>()?;
        let mut replay = Replay::new(engine);
        replay.add(records.take())?;
        Ok(Verifier { data, replay, tables, queries, runtime: Runtime::new(RuntimeConfig::new(workers))?, workers })
    }

    /// Compares all runs' answers.
    ///
    /// # Errors
    /// An error for a wrong answer, or a replay that ends with other rows than the measured engine has; a stop.
    pub fn verify<'r>(&mut self, runs: impl Iterator<Item = &'r QueryRun>, stop: &Stop) -> anyhow::Result<Verified> {
        let mut expected: BTreeMap<(u64, usize), Vec<&QueryRun>> = BTreeMap::new();
        for run in runs {
            expected.entry((run.snapshot, run.query)).or_default().push(run);
        }
        let mut verified = Verified { answers: 0, distinct: expected.len() as u64, records: 0 };
        tracing::info!(answers = verified.distinct, "computing every answer once more, from a replay");
        let bar = crate::progress::bar(verified.distinct).with_message("recomputing");
        let mut wrong = Vec::new();
        // The map is in the order of snapshots, because a replay only goes forward.
        for ((snapshot, query), runs) in &expected {
            stop.wait(Duration::ZERO)?;
            self.replay.apply_up_to(*snapshot)?;
            let config = RunConfig::new(self.workers);
            let answer = self.runtime.answer(&self.queries[*query - 1], self.replay.engine().snapshot(), config)?;
            let answer = rows_digest(&answer);
            bar.inc(1);
            verified.answers += runs.len() as u64;
            for run in runs.iter().filter(|run| run.answer != answer) {
                wrong.push(format!(
                    "query {query} at snapshot {snapshot} found {} rows (digest {:x}) instead of {} ({:x})",
                    run.answer.0, run.answer.1, answer.0, answer.1
                ));
            }
        }
        bar.finish_and_clear();
        // The remaining records, too: the final rows must agree with the measured engine's.
        self.replay.apply_up_to(u64::MAX)?;
        verified.records = self.replay.applied();
        anyhow::ensure!(
            wrong.is_empty(),
            "{} of {} answers were wrong: {}",
            wrong.len(),
            verified.answers,
            wrong[..wrong.len().min(TOLD_MAX)].join("; ")
        );
        let replayed = tpcc::digest(&self.replay.engine().snapshot(), &self.tables);
        anyhow::ensure!(
            replayed == self.data.digest(),
            "the replay of all records gave other rows than the engine has"
        );
        Ok(verified)
    }
}
