//! Load of a set-up: loaded tables, then phases through each front.

use super::super::super::pgbench::{self, PgbenchScript, Protocol};
use super::super::super::postgres::Programs;
use super::super::super::servers::MeasuredServer;
use super::super::super::tpcc;
use super::setups::{self, Files, Setup, SetupWork};
use host::stop::Stop;
use std::time::Duration;
use workloads::tpcc::Scale;

/// Number of clients, as many as the paper has.
pub const CLIENTS: u32 = 100;

/// Load of a set-up.
pub struct SetupLoad<'a> {
    programs: &'a Programs,
    work: SetupWork,
    files: Option<Files>,
    seed: u64,
    stop: &'a Stop,
}

/// Results of a phase.
#[derive(Clone, Copy, Debug)]
pub struct PhaseFigures {
    /// Transactions per second.
    pub per_s: f64,
    /// Mean response time of the transactions.
    pub mean_ms: f64,
}

impl<'a> SetupLoad<'a> {
    /// Creates a load without any tables yet.
    ///
    /// # Errors
    /// Errors of the file system.
    pub fn new(setup: &Setup, programs: &'a Programs, stop: &'a Stop) -> anyhow::Result<SetupLoad<'a>> {
        let files = match setup.work {
            SetupWork::Scripts { scripts, .. } => Some(setups::write(scripts)?),
            SetupWork::Tpcc(_) | SetupWork::Tpcb(_) => None,
        };
        Ok(SetupLoad { programs, work: setup.work, files, seed: 0, stop })
    }

    /// Makes the tables in a server.
    ///
    /// # Errors
    /// Errors of the server; a stop.
    pub fn fill(&self, target: &MeasuredServer) -> anyhow::Result<()> {
        match self.work {
            SetupWork::Tpcc(warehouses) => {
                tpcc::load(std::slice::from_ref(target), Scale::small(warehouses), 42, self.stop).map(drop)
            }
            SetupWork::Tpcb(scale) => pgbench::initialise(self.programs, target, scale, self.stop),
            SetupWork::Scripts { tables, .. } => setups::fill(target, tables),
        }
    }

    /// Runs all clients for this long.
    ///
    /// # Errors
    /// A stop; a transaction that fails.
    pub fn phase(&mut self, target: &MeasuredServer, length: Duration) -> anyhow::Result<PhaseFigures> {
        let script = match (&self.work, &self.files) {
            (SetupWork::Tpcc(warehouses), _) => {
                self.seed += 1;
                let driven = tpcc::drive(target, Scale::small(*warehouses), CLIENTS, self.seed, length, self.stop)?;
                return Ok(PhaseFigures {
                    per_s: driven.committed_per_s(),
                    mean_ms: driven.latency_of_all().mean_us() / 1e3,
                });
            }
            (_, Some(files)) => PgbenchScript::Files(&files.all),
            (_, None) => PgbenchScript::BuiltIn("tpcb-like"),
        };
        let run = pgbench::run(self.programs, target, script, Protocol::Extended, CLIENTS, length, self.stop)?;
        Ok(PhaseFigures { per_s: run.per_s, mean_ms: run.latency.mean_us() / 1e3 })
    }
}
