//! A closed loop of clients, each with a connection, on a few threads of this process.
//!
//! **Invariant:** a transaction counts if it ended inside the measured window, at whose ends the server's processor time is
//! read; the first error of any client ends the run.

use super::super::client::{connect, explain, runtime};
use super::super::servers::MeasuredServer;
use super::{Statements, TpccOutcome, retried};
use anyhow::Context;
use host::stop::Stop;
use preempt::os;
use stage::Histogram;
use std::collections::BTreeMap;
use std::sync::Barrier;
use std::sync::atomic::{AtomicU8, Ordering::SeqCst};
use std::time::{Duration, Instant};
use workloads::tpcc::{Inputs, Mix, Scale, TransactionKind};

/// Transactions done in the measured window.
#[derive(Default)]
pub struct Driven {
    /// Latencies of committed transactions by kind, from the first statement to the end, retries included.
    latencies: BTreeMap<TransactionKind, Histogram>,
    /// Number of transactions rolled back as the standard demands.
    pub rolled_back: u64,
    /// Number of attempts that ended with a serialisation failure or a deadlock.
    pub retries: u64,
    /// Seconds of the window.
    pub wall_s: f64,
    /// Seconds of the server's processor time, if it is known.
    pub processor_s: Option<f64>,
}

impl Driven {
    /// Returns the number of committed transactions of all kinds.
    pub fn committed(&self) -> u64 {
        self.latencies.values().map(Histogram::count).sum()
    }

    /// Returns the committed transactions per second.
    pub fn committed_per_s(&self) -> f64 {
        self.committed() as f64 / self.wall_s
    }

    /// Returns the latencies of one kind.
    pub fn latency(&self, kind: TransactionKind) -> Histogram {
        self.latencies.get(&kind).cloned().unwrap_or_default()
    }

    /// Returns the latencies of all kinds.
    pub fn latency_of_all(&self) -> Histogram {
        let mut all = Histogram::new();
        self.latencies.values().for_each(|latency| all.add(latency));
        all
    }

    /// Adds the counts of another drive.
    pub fn add(&mut self, other: &Driven) {
        for (kind, latency) in &other.latencies {
            self.latencies.entry(*kind).or_default().add(latency);
        }
        self.rolled_back += other.rolled_back;
        self.retries += other.retries;
        self.wall_s += other.wall_s;
        self.processor_s = other.processor_s.map(|seconds| seconds + self.processor_s.unwrap_or(0.0));
    }
}

/// Length of the warm-up; that of the measurement if that is shorter.
const WARM_UP: Duration = Duration::from_millis(500);
const WARMING: u8 = 0;
const MEASURING: u8 = 1;
const OVER: u8 = 2;

/// Drives the standard's mix for this long.
///
/// # Errors
/// A stop, or an error that no repetition mends.
pub fn drive(
    target: &MeasuredServer,
    scale: Scale,
    clients: u32,
    seed: u64,
    duration: Duration,
    stop: &Stop,
) -> anyhow::Result<Driven> {
    let threads = clients.min(u32::try_from(os::cpus().len()).unwrap_or(1));
    let phase = AtomicU8::new(WARMING);
    let ready = Barrier::new(threads as usize + 1);
    std::thread::scope(|scope| {
        let workers: Vec<_> = (0..threads)
            .map(|thread| {
                let mine: Vec<u32> = (thread..clients).step_by(threads as usize).collect();
                let (phase, ready, url) = (&phase, &ready, &target.url);
                scope.spawn(move || of_thread(url, scale, &mine, seed, phase, ready))
            })
            .collect();
        ready.wait();
        let window = || {
            stop.wait(WARM_UP.min(duration))?;
            let before = target.processor_s()?;
            phase.store(MEASURING, SeqCst);
            let began = Instant::now();
            stop.wait(duration)?;
            phase.store(OVER, SeqCst);
            let wall_s = began.elapsed().as_secs_f64();
            let processor_s = before.zip(target.processor_s()?).map(|(before, after)| after - before);
            anyhow::Ok((wall_s, processor_s))
        };
        // A stop ends the window early; the clients must be told then, too.
        let window = window();
        phase.store(OVER, SeqCst);
        let mut sum = Driven::default();
        for worker in workers {
            let driven = worker.join().map_err(|_| anyhow::anyhow!("a client panicked"))?;
            sum.add(&driven.context(target.title)?);
        }
        // A client's error comes before a stop: it is the reason of the failure.
        (sum.wall_s, sum.processor_s) = window?;
        Ok(sum)
    })
}

/// Runs the clients of one thread.
fn of_thread(
    url: &str,
    scale: Scale,
    clients: &[u32],
    seed: u64,
    phase: &AtomicU8,
    ready: &Barrier,
) -> anyhow::Result<Driven> {
    let prepared = runtime().and_then(|runtime| {
        let connected = runtime.block_on(async {
            let mut connected = Vec::new();
            for id in clients {
                let client = connect(url).await?;
                let statements = Statements::prepare(&client, scale.districts).await;
                connected.push((*id, client, statements.map_err(|error| explain(&error))?));
            }
            anyhow::Ok(connected)
        })?;
        Ok((runtime, connected))
    });
    // Every thread comes here, or the others would wait for ever.
    ready.wait();
    let (runtime, connected) = prepared?;
    let loops = connected.into_iter().map(|(id, client, statements)| async move {
        let warehouse = id as i32 % scale.warehouses + 1;
        let mut inputs = Inputs::new(scale, seed, seed.wrapping_mul(1_000_003).wrapping_add(u64::from(id)));
        let mut driven = Driven::default();
        while phase.load(SeqCst) != OVER {
            let input = inputs.next(Mix::Standard, warehouse);
            let began = Instant::now();
            let ended = retried(&client, &statements, &input).await;
            if ended.is_err() {
                phase.store(OVER, SeqCst);
            }
            let (ending, retries) = ended?;
            if phase.load(SeqCst) == MEASURING {
                driven.retries += u64::from(retries);
                match ending {
                    TpccOutcome::Committed => {
                        let latency = driven.latencies.entry(input.kind()).or_default();
                        latency.record_ns(began.elapsed().as_nanos() as u64);
                    }
                    TpccOutcome::RolledBack => driven.rolled_back += 1,
                }
            }
        }
        anyhow::Ok(driven)
    });
    let all = runtime.block_on(futures::future::join_all(loops));
    all.into_iter().try_fold(Driven::default(), |mut sum, driven| {
        sum.add(&driven?);
        Ok(sum)
    })
}
