//! Processor time of both sides, and the stages of the server.
//!
//! **Invariant:** a reading is of the server's processes and of this one without them; the stages are sums over all
//! classes and transports, and stages that wait count nothing.

use super::sides::Sides;
use crate::wire::client::Control;
use crate::wire::links;
use crate::wire::processes::ProcessorTime;
use crate::wire::servers::MeasuredServer;
use anyhow::Context;
use std::collections::BTreeMap;

/// Share of a processor from which on its side is saturated.
pub const SATURATED: f64 = 0.95;

/// Unit of processor time in `/proc`.
const TICK_S: f64 = 0.01;

/// Counters so far.
pub struct Reading {
    server: ProcessorTime,
    /// Time of the server's process without what it has started.
    own: ProcessorTime,
    /// Seconds of the threads of a server that is one process.
    threads_s: Option<f64>,
    client: ProcessorTime,
    client_calls_s: f64,
    /// Seconds of each stage that is work; empty if the server has no stage clock.
    stages: BTreeMap<String, f64>,
    frames: FrameUse,
}

/// Work of a server that handles TCP itself with frames.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct FrameUse {
    /// Seconds in calls of the kernel.
    pub kernel_s: f64,
    /// Number of these calls.
    pub calls: f64,
    /// Number of looks that found no frame.
    pub empty_looks: f64,
    /// Segments that were sent again because no answer had come for long.
    pub probes: f64,
}

impl FrameUse {
    fn combine(self, other: FrameUse, with: impl Fn(f64, f64) -> f64) -> FrameUse {
        FrameUse {
            kernel_s: with(self.kernel_s, other.kernel_s),
            calls: with(self.calls, other.calls),
            empty_looks: with(self.empty_looks, other.empty_looks),
            probes: with(self.probes, other.probes),
        }
    }
}

/// Consumption between two readings.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Used {
    /// Seconds of the clock.
    pub wall_s: f64,
    /// Processor time of the server and of what it has started, to hundredths of a second without control groups.
    pub server: ProcessorTime,
    /// Part of it in other processes than the server's own: code at the levels `process` and above.
    pub workers: ProcessorTime,
    /// The same to nanoseconds, for a server that is one process.
    pub threads_s: Option<f64>,
    /// Processor time of the clients.
    pub client: ProcessorTime,
    /// Seconds that the clients spent in calls of the kernel that read and write, over links that time them.
    pub client_calls_s: f64,
    /// Seconds of each stage that is work.
    pub stages: BTreeMap<String, f64>,
    /// Work with frames.
    pub frames: FrameUse,
}

impl Reading {
    /// Reads the counters.
    ///
    /// # Errors
    /// If the server does not answer, or was started by another program.
    pub fn take(control: &Control, target: &MeasuredServer, sides: &Sides) -> anyhow::Result<Reading> {
        let (stages, frames) = match target.is_overtake() {
            true => (stages(control)?, frames(control)?),
            false => (BTreeMap::new(), FrameUse::default()),
        };
        let processes = target.processes().context("the server is not a process of this machine")?;
        let threads_ns = target.is_overtake().then(|| processes.threads_ns()).transpose()?;
        let server = match sides.of_server(target)? {
            Some(time) => time,
            None => processes.processor_time()?,
        };
        let client = match sides.of_clients()? {
            Some(time) => time,
            None => ProcessorTime::of_one(std::process::id())?,
        };
        // PostgreSQL's processes are the server.
        let own = if target.is_overtake() { ProcessorTime::of_one(processes.parent())? } else { server };
        let threads_s = threads_ns.map(|ns| ns as f64 / 1e9);
        Ok(Reading { server, own, threads_s, client, client_calls_s: links::calls_s(), stages, frames })
    }

    /// Returns the consumption since an earlier reading, in so many seconds.
    pub fn since(&self, before: &Reading, wall_s: f64) -> Used {
        let stage = |(stage, total): (&String, &f64)| {
            (stage.clone(), (total - before.stages.get(stage).copied().unwrap_or(0.0)).max(0.0))
        };
        let (server, own) = (self.server.since(before.server), self.own.since(before.own));
        let threads_s = self.threads_s.zip(before.threads_s).map(|(after, before)| after - before);
        // Threads that have ended are in hundredths of a second only.
        let own_s = threads_s.map_or(own.all_s, |threads_s| threads_s.max(own.all_s - TICK_S));
        // The two are not read at the same moment.
        let workers = ProcessorTime {
            all_s: (server.all_s - own_s).max(0.0),
            kernel_s: (server.kernel_s - own.kernel_s).max(0.0),
        };
        Used {
            wall_s,
            server,
            workers,
            threads_s,
            client: self.client.since(before.client),
            client_calls_s: self.client_calls_s - before.client_calls_s,
            stages: self.stages.iter().map(stage).collect(),
            frames: self.frames.combine(before.frames, |after, before| after - before),
        }
    }
}

fn stages(control: &Control) -> anyhow::Result<BTreeMap<String, f64>> {
    let rows = control.rows("select stage, sum(total_ms) from overtake.stages where not is_waiting group by stage")?;
    let of = |row: Vec<Option<String>>| {
        let mut cells = row.into_iter().flatten();
        let (stage, total_ms) = (cells.next().context("a stage")?, cells.next().context("a stage's time")?);
        Ok((stage, total_ms.parse::<f64>().context("a stage's time")? / 1e3))
    };
    rows.into_iter().map(of).collect()
}

fn frames(control: &Control) -> anyhow::Result<FrameUse> {
    let rows = control.rows("select kernel_ns, kernel_calls, empty_looks, probes from overtake.af_xdp")?;
    let numbers: Vec<f64> = rows.into_iter().flatten().flatten().filter_map(|text| text.parse().ok()).collect();
    let [kernel_ns, calls, empty_looks, probes] = numbers[..] else { anyhow::bail!("four counters are needed") };
    Ok(FrameUse { kernel_s: kernel_ns / 1e9, calls, empty_looks, probes })
}

impl Used {
    /// Adds the consumption of another round.
    pub fn add(&mut self, other: &Used) {
        self.wall_s += other.wall_s;
        self.server = self.server.plus(other.server);
        self.workers = self.workers.plus(other.workers);
        self.threads_s = other.threads_s.map(|seconds| seconds + self.threads_s.unwrap_or(0.0));
        self.client = self.client.plus(other.client);
        self.client_calls_s += other.client_calls_s;
        self.frames = self.frames.combine(other.frames, |one, other| one + other);
        for (stage, seconds) in &other.stages {
            *self.stages.entry(stage.clone()).or_default() += seconds;
        }
    }

    /// Returns the share of its processor that the server used.
    pub fn server_busy(&self) -> f64 {
        self.server.all_s / self.wall_s
    }

    /// Returns the share of its processor that the clients used.
    pub fn client_busy(&self) -> f64 {
        self.client.all_s / self.wall_s
    }

    /// Returns true if the server had work all the time, and the clients had time left.
    pub fn is_saturated(&self) -> bool {
        self.verdict().is_empty()
    }

    /// Returns the mark of a row whose rate says nothing about the server; nothing for one that is saturated.
    pub fn verdict(&self) -> &'static str {
        match (SATURATED <= self.server_busy(), self.client_busy() < SATURATED) {
            (true, true) => "",
            (_, false) => "client-bound",
            (false, true) => "server-idle",
        }
    }

    /// Returns the seconds of the server's processor time that neither a stage nor a worker has. Below 0 if the stages
    /// have more: each of them is measured by the clock, and shorter pauses of a thread are in them.
    pub fn outside_s(&self) -> f64 {
        self.server.all_s - self.workers.all_s - self.stages.values().sum::<f64>()
    }

    /// Returns the seconds that the server spent in calls of the kernel for reading and writing, timed around them: those
    /// for frames, and the stages that read and write. Waiting for either is not part of that.
    pub fn calls_s(&self) -> f64 {
        self.frames.kernel_s + self.stage_s("network_read") + self.stage_s("network_write")
    }

    /// Returns the seconds of a stage.
    pub fn stage_s(&self, stage: &str) -> f64 {
        self.stages.get(stage).copied().unwrap_or(0.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn used(server_s: f64, client_s: f64) -> Used {
        let time = |all_s| ProcessorTime { all_s, kernel_s: all_s / 2.0 };
        let stages = BTreeMap::from([("run".to_owned(), 1.0), ("decode".to_owned(), 0.25)]);
        let workers = time(0.125);
        Used {
            wall_s: 2.0,
            server: time(server_s),
            workers,
            threads_s: None,
            client: time(client_s),
            client_calls_s: client_s / 4.0,
            stages,
            frames: FrameUse::default(),
        }
    }

    #[test]
    fn a_server_is_saturated_if_it_alone_had_no_time() {
        assert!(used(1.95, 1.0).is_saturated());
        assert_eq!(used(1.8, 1.0).verdict(), "server-idle");
        assert_eq!(used(2.0, 1.95).verdict(), "client-bound");
        assert_eq!(used(1.8, 1.95).verdict(), "client-bound");
    }

    #[test]
    fn time_outside_of_the_stages_is_what_is_left() {
        let mut sum = used(1.5, 1.0);
        assert_eq!(sum.outside_s(), 0.125);
        sum.add(&used(1.0, 1.0));
        assert_eq!((sum.wall_s, sum.outside_s(), sum.stage_s("run"), sum.stage_s("gate")), (4.0, -0.25, 2.0, 0.0));
        assert_eq!((sum.server_busy(), sum.client_busy(), sum.client_calls_s), (0.625, 0.5, 0.5));
    }

    #[test]
    fn readings_make_differences() {
        let of = |seconds: f64| Reading {
            server: ProcessorTime { all_s: seconds, kernel_s: seconds / 4.0 },
            own: ProcessorTime { all_s: seconds / 2.0, kernel_s: seconds / 2.0 },
            threads_s: Some(seconds / 2.0),
            client: ProcessorTime::default(),
            client_calls_s: seconds / 8.0,
            stages: BTreeMap::from([("run".to_owned(), seconds / 2.0)]),
            frames: FrameUse { kernel_s: seconds / 7.0, ..FrameUse::default() },
        };
        let used = of(7.0).since(&of(3.0), 5.0);
        assert_eq!((used.server.all_s, used.server.kernel_s, used.stage_s("run")), (4.0, 1.0, 2.0));
        assert_eq!((used.threads_s, used.client_calls_s), (Some(2.0), 0.5));
        assert_eq!(used.workers, ProcessorTime { all_s: 2.0, kernel_s: 0.0 });
    }
}
