//! The phases, and their order.

use super::super::servers::MeasuredServer;
use super::MixedArguments;
use super::analytics::{Analytics, Remedy};
use super::host::{HostSample, HostWatch};
use super::urgent::{self, ClientResults, UrgentConfig, UrgentKind};
use host::stop::Stop;
use std::time::{Duration, Instant};

/// Parameters of the phases.
pub struct Phases<'a> {
    /// Arguments of the command.
    pub arguments: &'a MixedArguments,
    /// True if a client in the real-time class is possible.
    pub realtime_allowed: bool,
    /// Stop of the run.
    pub stop: &'a Stop,
}

/// Runs of one phase.
pub struct PhaseRuns {
    /// Key of the server, or `postgres_remedies`.
    pub key: &'static str,
    /// Title for people.
    pub title: String,
    /// Kind of transaction.
    pub kind: UrgentKind,
    /// Number of analytics sessions beside.
    pub analytics: u32,
    /// True if the client ran in the real-time class.
    pub is_realtime: bool,
    /// Results of each run.
    pub runs: Vec<PhaseRun>,
}

/// Results of a phase in one run.
pub struct PhaseRun {
    /// Latencies of the client.
    pub seen: ClientResults,
    /// Observations of the host meanwhile.
    pub host: HostSample,
    /// Queries per minute that ended beside.
    pub queries_per_min: f64,
}

/// Time after the start of new sessions before anything is measured beside them; the length of the measurement if that
/// is shorter.
const SETTLE: Duration = Duration::from_secs(1);
/// Share of a processor below which a server counts as idle, for as long as [`IDLE_FOR`], or as the measurement if that is
/// shorter; work left over from loading is waited for.
const IDLE_SHARE: f64 = 0.05;
const IDLE_FOR: Duration = Duration::from_secs(2);
/// Number of these times after which the server is measured although it is busy.
const IDLE_TIMES_MAX: u32 = 30;

impl Phases<'_> {
    /// Runs all phases of all servers, run by run: idle, then beside each number of sessions, and again with their
    /// users' remedies. Servers take turns in each, so that other work of the machine meets all.
    ///
    /// # Errors
    /// A stop; errors of a server.
    pub fn measure(&self, targets: &[MeasuredServer]) -> anyhow::Result<Vec<PhaseRuns>> {
        let mut measured = Vec::new();
        targets.iter().try_for_each(|target| self.rest(target))?;
        for run in 1..=self.arguments.runs {
            tracing::info!(run, of = self.arguments.runs, "measures");
            for target in targets {
                self.kinds(target, target.key, target.title, None, &mut measured)?;
            }
            for &count in &self.arguments.analytics {
                for target in targets {
                    self.beside(target, count, Remedy::None, &mut measured)?;
                    if target.is_postgres() {
                        self.beside(target, count, Remedy::Nice, &mut measured)?;
                    }
                }
            }
        }
        Ok(measured)
    }

    /// Measures beside this many sessions of a server.
    fn beside(
        &self,
        target: &MeasuredServer,
        count: u32,
        remedy: Remedy,
        measured: &mut Vec<PhaseRuns>,
    ) -> anyhow::Result<()> {
        let (key, title) = match remedy {
            Remedy::None => (target.key, target.title.to_owned()),
            Remedy::Nice => ("postgres_remedies", format!("{}, nice +19, not parallel", target.title)),
        };
        let MixedArguments { dropped_rows, .. } = *self.arguments;
        let analytics = Analytics::start(target, count, &self.arguments.queries(), dropped_rows, remedy)?;
        self.stop.wait(SETTLE.min(self.arguments.duration.get()))?;
        self.kinds(target, key, &title, Some((count, &analytics)), measured)?;
        analytics.stop()
    }

    /// Waits until the server is idle, up to a maximum time.
    fn rest(&self, target: &MeasuredServer) -> anyhow::Result<()> {
        let idle_for = IDLE_FOR.min(self.arguments.duration.get());
        for _ in 0..IDLE_TIMES_MAX {
            let before = target.processor_s()?;
            self.stop.wait(idle_for)?;
            let spent = before.zip(target.processor_s()?).map_or(0.0, |(before, after)| after - before);
            if spent < IDLE_SHARE * idle_for.as_secs_f64() {
                return Ok(());
            }
        }
        tracing::warn!(
            server = target.title,
            "the server is busy by itself; its idle figures are not of an idle server"
        );
        Ok(())
    }

    /// Measures each kind of transaction, by each kind of client.
    fn kinds(
        &self,
        target: &MeasuredServer,
        key: &'static str,
        title: &str,
        beside: Option<(u32, &Analytics)>,
        measured: &mut Vec<PhaseRuns>,
    ) -> anyhow::Result<()> {
        let analytics = beside.map_or(0, |(count, _)| count);
        let clients: &[bool] = if self.realtime_allowed { &[true, false] } else { &[false] };
        for &is_realtime in clients {
            for &kind in &self.arguments.kinds {
                let MixedArguments { duration, rate, clients, seed, .. } = self.arguments;
                let config = UrgentConfig {
                    kind,
                    rate: *rate,
                    clients: *clients,
                    duration: duration.get(),
                    is_realtime,
                    scale: self.arguments.scale(),
                    seed: *seed,
                };
                let done = || beside.map_or(0, |(_, analytics)| analytics.done());
                let (began, before) = (Instant::now(), done());
                let watch = HostWatch::start(target)?;
                let seen = urgent::run(target, &config, self.stop)?;
                let host = watch.stop()?;
                let queries_per_min = (done() - before) as f64 * 60.0 / began.elapsed().as_secs_f64();
                let p99_us = seen.latency.quantile_us(0.99);
                tracing::info!(server = title, kind = kind.name(), analytics, is_realtime, p99_us, "measured");
                let run = PhaseRun { seen, host, queries_per_min };
                // Runs of the same phase are collected in one entry, whose place is that of the first run.
                let is_it = |of: &&mut PhaseRuns| {
                    (of.key, of.kind, of.analytics, of.is_realtime) == (key, kind, analytics, is_realtime)
                };
                match measured.iter_mut().find(is_it) {
                    Some(measured) => measured.runs.push(run),
                    None => {
                        let (title, runs) = (title.to_owned(), vec![run]);
                        measured.push(PhaseRuns { key, title, kind, analytics, is_realtime, runs });
                    }
                }
            }
        }
        Ok(())
    }
}
