//! The loaded database: one engine with TPC-C's, CH-benCHmark's and TPC-H's tables, and the transactions and queries over
//! it.
//!
//! **Invariant:** all instances of a process share one [`Data`]; nothing here belongs to a policy.

mod clock;
mod load;
mod urgent;

pub use load::{DataConfig, LoadStep, LoadSteps};
pub use urgent::{ATTEMPTS_MAX, OutcomeCounts, TICKET, TransactionOutcome};

use crate::mixed::{LowQuery, MakeRequest};
use anyhow::Context;
use engine::{Engine, EngineConfig};
use host::stop::Stop;
use olap::{Answer, Database};
use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::Arc;
use urgent::Transactions;
use workloads::tpcc::{self, Input, Inputs, Mix, Scale, TpccTables};
use workloads::{ch, tpch};

/// Loaded database.
pub struct Data {
    engine: Engine,
    catalog: sql::session::Database,
    database: Database,
    tpcc: Arc<TpccTables>,
    scale: Scale,
    transactions: Arc<Transactions>,
    rows_count: u64,
    /// Clock of lock waits; ends with the data.
    _clock: clock::LockClock,
}

impl Data {
    /// Loads the database; `steps` receives the progress.
    ///
    /// # Errors
    /// A stop, or errors of the engine and the generators.
    pub fn load(config: &DataConfig, stop: &Stop, steps: &LoadSteps) -> anyhow::Result<Arc<Data>> {
        load::load(Engine::new(EngineConfig::in_memory()), config, stop, steps)
    }

    /// Loads the database with a progress bar on standard error.
    ///
    /// # Errors
    /// Errors of [`Data::load`].
    pub fn load_with_progress_bar(config: &DataConfig, stop: &Stop) -> anyhow::Result<Arc<Data>> {
        Data::load_into_with_progress_bar(Engine::new(EngineConfig::in_memory()), config, stop)
    }

    /// Loads the database into this engine, which has no tables yet, with a progress bar on standard error.
    ///
    /// # Errors
    /// Errors of [`Data::load`].
    pub fn load_into_with_progress_bar(engine: Engine, config: &DataConfig, stop: &Stop) -> anyhow::Result<Arc<Data>> {
        load::load_with_progress_bar(engine, config, stop)
    }

    /// Returns the engine.
    pub fn engine(&self) -> &Engine {
        &self.engine
    }

    /// Returns the catalog of all tables, which sessions over them need.
    pub fn catalog(&self) -> &sql::session::Database {
        &self.catalog
    }

    /// Returns the catalog of all tables, as queries of this program see it.
    pub(crate) fn database(&self) -> &Database {
        &self.database
    }

    /// Returns the number of rows loaded into all tables.
    pub fn rows_count(&self) -> u64 {
        self.rows_count
    }

    /// Returns TPC-C's scale.
    pub fn scale(&self) -> Scale {
        self.scale
    }

    /// Returns the memory that the tables take, in bytes.
    pub fn bytes(&self) -> u64 {
        let stats = self.engine.stats();
        stats.version_bytes + stats.block_bytes
    }

    /// Returns TPC-H's query `number`, ready to run.
    ///
    /// # Errors
    /// If the query does not prepare, which would be a bug.
    pub fn tpch_query(&self, number: usize) -> anyhow::Result<LowQuery> {
        let prepared = self.database.prepare(tpch::query(number)).with_context(|| format!("TPC-H's Q{number}"))?;
        Ok(LowQuery::Sql { name: format!("q{number}"), prepared })
    }

    /// Returns CH-benCHmark's query `number`, ready to run.
    ///
    /// # Errors
    /// If the query does not prepare, which would be a bug.
    pub fn ch_query(&self, number: usize) -> anyhow::Result<LowQuery> {
        let prepared = self.database.prepare(ch::query(number)).with_context(|| format!("CH's Q{number}"))?;
        Ok(LowQuery::Sql { name: format!("ch{number}"), prepared })
    }

    /// Returns this query, ready to run.
    ///
    /// # Errors
    /// If the query does not prepare.
    pub fn query(&self, name: &str, sql: &str) -> anyhow::Result<LowQuery> {
        let prepared = self.database.prepare(sql).with_context(|| name.to_owned())?;
        Ok(LowQuery::Sql { name: name.to_owned(), prepared })
    }

    /// Returns the scan with dense safepoints.
    pub fn dense_scan(&self) -> LowQuery {
        let lineitem = self.engine.table(tpch::TpchTable::LineItem.name());
        LowQuery::Dense(lineitem.expect("the load has created TPC-H's tables"))
    }

    /// Returns a generator of urgent New-Order requests, from `seed`; each is entered at a random warehouse.
    pub fn new_orders(&self, seed: u64) -> MakeRequest {
        self.requests(seed, |inputs, warehouse| Input::NewOrder(inputs.new_order(warehouse)))
    }

    /// Returns a generator of urgent requests of all five kinds, in the shares of the specification, from `seed`.
    pub fn full_mix(&self, seed: u64) -> MakeRequest {
        self.requests(seed, |inputs, warehouse| inputs.next(Mix::Standard, warehouse))
    }

    /// Returns a generator as [`Data::full_mix`] does, in shares that deliver orders as fast as they are entered.
    pub fn steady_mix(&self, seed: u64) -> MakeRequest {
        self.requests(seed, |inputs, warehouse| inputs.next(Mix::Steady, warehouse))
    }

    fn requests(&self, seed: u64, mut next: impl FnMut(&mut Inputs, i32) -> Input + Send + 'static) -> MakeRequest {
        let mut inputs = Inputs::new(self.scale, seed, seed);
        let transactions = Arc::clone(&self.transactions);
        Box::new(move |id| {
            let warehouse = inputs.warehouse();
            transactions.request(id, next(&mut inputs, warehouse))
        })
    }

    /// Returns TPC-C's tables.
    pub fn tpcc(&self) -> &Arc<TpccTables> {
        &self.tpcc
    }

    /// Returns the numbers of transactions that have ended so far, by outcome.
    pub fn outcomes(&self) -> OutcomeCounts {
        self.transactions.outcomes()
    }

    /// Returns the end of request `id`, if it was one of the last 65,536 of its kind.
    pub fn ending(&self, id: u64) -> TransactionOutcome {
        self.transactions.ending(id)
    }

    /// Checks TPC-C's consistency conditions on a new snapshot, and names the conditions checked.
    ///
    /// # Errors
    /// The violated conditions, and the places of the violations.
    pub fn check(&self) -> anyhow::Result<&'static str> {
        match tpcc::check(&self.engine.snapshot(), &self.tpcc) {
            Ok(()) => Ok("1 to 10, 12 and our 4"),
            Err(violations) => {
                let lines: Vec<String> = violations.iter().map(ToString::to_string).collect();
                anyhow::bail!("{}", lines.join("\n"))
            }
        }
    }

    /// Returns a digest of all rows of TPC-C's tables, on a new snapshot.
    pub fn digest(&self) -> u64 {
        tpcc::digest(&self.engine.snapshot(), &self.tpcc)
    }
}

/// Returns a digest of an answer: columns, rows and their order.
pub fn answer_digest(answer: &Answer) -> u64 {
    digest_of(&answer.texts())
}

/// Returns the number of rows of an answer, and a digest of them that does not depend on their order.
pub fn rows_digest(answer: &Answer) -> (u64, u64) {
    let rows = answer.texts();
    (rows.len() as u64, rows.iter().map(digest_of).fold(0, u64::wrapping_add))
}

fn digest_of(value: &impl Hash) -> u64 {
    let mut digest = DefaultHasher::new();
    value.hash(&mut digest);
    digest.finish()
}
