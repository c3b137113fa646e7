//! Which phases there are, and in which order.

use super::super::servers::Target;
use super::Arguments;
use super::analytics::{Analytics, Remedy};
use super::host::{HostSeen, Watch};
use super::urgent::{self, Kind, Seen, UrgentConfig};
use host::stop::Stop;
use std::time::{Duration, Instant};

/// How the phases are run.
pub struct Phases<'a> {
    /// Of the command.
    pub arguments: &'a Arguments,
    /// Whether a client in the real-time class is possible.
    pub realtime_allowed: bool,
    /// Ends the run.
    pub stop: &'a Stop,
}

/// Runs of one phase.
pub struct Measured {
    /// The server's, or `postgres_remedies`.
    pub key: &'static str,
    /// For people.
    pub title: String,
    /// Which transaction.
    pub kind: Kind,
    /// Sessions beside.
    pub analytics: u32,
    /// Whether the client ran in the real-time class.
    pub is_realtime: bool,
    /// Each time.
    pub runs: Vec<Run>,
}

/// A phase in one run.
pub struct Run {
    /// What the client saw.
    pub seen: Seen,
    /// What the host did meanwhile.
    pub host: HostSeen,
    /// Queries that ended beside, a minute.
    pub queries_per_min: f64,
}

/// Before anything is measured beside new sessions.
const SETTLE: Duration = Duration::from_secs(1);
/// An idle server is one that uses less of a processor for so long; what loading has left for it to do is waited for.
const IDLE_SHARE: f64 = 0.05;
const IDLE_FOR: Duration = Duration::from_secs(2);
const IDLE_WITHIN: Duration = Duration::from_secs(60);

impl Phases<'_> {
    /// All phases of all servers, run by run: idle, then beside each number of sessions, and again with its users' remedies. Servers
    /// take turns in each, so that what the machine does beside meets all.
    ///
    /// # Errors
    /// A stop; what a server says.
    pub fn measure(&self, targets: &[Target]) -> anyhow::Result<Vec<Measured>> {
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

    /// Beside so many sessions of a server.
    fn beside(&self, target: &Target, count: u32, remedy: Remedy, measured: &mut Vec<Measured>) -> anyhow::Result<()> {
        let (key, title) = match remedy {
            Remedy::None => (target.key, target.title.to_owned()),
            Remedy::Nice => ("postgres_remedies", format!("{}, nice +19, not parallel", target.title)),
        };
        let Arguments { dropped_rows, .. } = *self.arguments;
        let analytics = Analytics::start(target, count, &self.arguments.queries(), dropped_rows, remedy)?;
        self.stop.wait(SETTLE)?;
        self.kinds(target, key, &title, Some((count, &analytics)), measured)?;
        analytics.stop()
    }

    /// Returns when the server has nothing to do, or does not come to an end.
    fn rest(&self, target: &Target) -> anyhow::Result<()> {
        let began = Instant::now();
        while began.elapsed() < IDLE_WITHIN {
            let before = target.processor_s()?;
            self.stop.wait(IDLE_FOR)?;
            let spent = before.zip(target.processor_s()?).map_or(0.0, |(before, after)| after - before);
            if spent < IDLE_SHARE * IDLE_FOR.as_secs_f64() {
                return Ok(());
            }
        }
        tracing::warn!(
            server = target.title,
            "the server is busy by itself; its idle figures are not of an idle server"
        );
        Ok(())
    }

    /// Each kind of transaction, by each kind of client.
    fn kinds(
        &self,
        target: &Target,
        key: &'static str,
        title: &str,
        beside: Option<(u32, &Analytics)>,
        measured: &mut Vec<Measured>,
    ) -> anyhow::Result<()> {
        let analytics = beside.map_or(0, |(count, _)| count);
        let clients: &[bool] = if self.realtime_allowed { &[true, false] } else { &[false] };
        for &is_realtime in clients {
            for &kind in &self.arguments.kinds {
                let Arguments { duration, rate, clients, seed, .. } = self.arguments;
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
                let watch = Watch::start(target)?;
                let seen = urgent::run(target, &config, self.stop)?;
                let host = watch.stop()?;
                let queries_per_min = (done() - before) as f64 * 60.0 / began.elapsed().as_secs_f64();
                let p99_us = seen.latency.quantile_us(0.99);
                tracing::info!(server = title, kind = kind.name(), analytics, is_realtime, p99_us, "measured");
                let run = Run { seen, host, queries_per_min };
                let is_it = |of: &&mut Measured| {
                    (of.key, of.kind, of.analytics, of.is_realtime) == (key, kind, analytics, is_realtime)
                };
                match measured.iter_mut().find(is_it) {
                    Some(measured) => measured.runs.push(run),
                    None => {
                        let (title, runs) = (title.to_owned(), vec![run]);
                        measured.push(Measured { key, title, kind, analytics, is_realtime, runs });
                    }
                }
            }
        }
        Ok(())
    }
}
