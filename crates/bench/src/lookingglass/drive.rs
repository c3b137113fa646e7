//! A closed loop of clients on one thread, and what a server did for them.
//!
//! **Invariant:** the counters are read while no transaction runs, before the first and after the last one of a round,
//! so that processor time and stages are of exactly the transactions that are counted.

use super::key_value::{KeyValueCaller, PointCaller};
use super::new_order::NewOrderCaller;
use super::rungs::{Rung, Way};
use super::sides::Sides;
use super::usage::{Reading, Used};
use crate::wire::client::{Control, runtime};
use crate::wire::servers::MeasuredServer;
use crate::wire::tpcc::{Failure, TpccOutcome, retrying};
use anyhow::Context;
use futures::stream::{FuturesUnordered, TryStreamExt};
use host::stop::Stop;
use stage::Histogram;
use std::sync::Barrier;
use std::sync::atomic::{AtomicBool, Ordering::SeqCst};
use std::time::{Duration, Instant};
use tokio_postgres::Client;
use workloads::tpcc::Scale;

/// Work of a transaction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Work {
    /// TPC-C's New-Order.
    NewOrder,
    /// Some calls of the key-value mix.
    KeyValue(usize),
    /// Reads by key outside of blocks. Each counts as a transaction.
    Points,
}

/// Conditions of a round.
#[derive(Clone, Copy)]
pub struct Round {
    /// Scale of TPC-C's tables.
    pub scale: Scale,
    /// Number of clients.
    pub clients: u32,
    /// Seed of the inputs.
    pub seed: u64,
    /// Length.
    pub duration: Duration,
}

/// Transactions of one or several rounds.
#[derive(Clone, Default)]
pub struct Driven {
    /// Latencies of committed transactions, retries included; of a whole batch for points.
    pub latency: Histogram,
    /// Number of committed transactions.
    pub committed: u64,
    /// Number of transactions rolled back as the standard demands.
    pub rolled_back: u64,
    /// Number of attempts that ended with a serialisation failure or a deadlock.
    pub retries: u64,
    /// Consumption of both sides.
    pub used: Used,
}

impl Driven {
    /// Adds the counts of another round.
    pub fn add(&mut self, other: &Driven) {
        self.latency.add(&other.latency);
        self.committed += other.committed;
        self.rolled_back += other.rolled_back;
        self.retries += other.retries;
        self.used.add(&other.used);
    }

    /// Returns the committed transactions per second.
    pub fn per_s(&self) -> f64 {
        self.committed as f64 / self.used.wall_s
    }

    /// Returns microseconds for each committed transaction of a number of seconds in all.
    pub fn us_each(&self, seconds: f64) -> f64 {
        seconds * 1e6 / self.committed.max(1) as f64
    }
}

/// Length of the warm-up, in which plans are made and caches filled; that of the round if the round is shorter.
const WARM_UP: Duration = Duration::from_millis(400);

/// Drives one rung for a round, without control groups.
///
/// # Errors
/// A stop, or an error that no repetition mends.
pub fn drive(target: &MeasuredServer, what: (&Rung, Work), round: Round, stop: &Stop) -> anyhow::Result<Driven> {
    drive_within(&Sides::default(), target, what, round, stop)
}

/// Drives one rung for a round. The groups of both sides know their processor time.
///
/// # Errors
/// A stop, or an error that no repetition mends.
pub fn drive_within(
    sides: &Sides,
    target: &MeasuredServer,
    (rung, work): (&Rung, Work),
    round: Round,
    stop: &Stop,
) -> anyhow::Result<Driven> {
    let control = Control::connect(target)?;
    let (is_over, ready) = (AtomicBool::new(false), Barrier::new(2));
    std::thread::scope(|scope| {
        let worker = scope.spawn(|| clients(target, rung, work, round, (&is_over, &ready)));
        // The clients have warmed up and wait.
        ready.wait();
        let before = Reading::take(&control, target, sides);
        let began = Instant::now();
        ready.wait();
        let waited = stop.wait(round.duration);
        is_over.store(true, SeqCst);
        let driven = worker.join().map_err(|_| anyhow::anyhow!("a client panicked"))?;
        let wall_s = began.elapsed().as_secs_f64();
        // A client's error comes before a stop: it is the reason of the failure.
        let mut driven = driven.with_context(|| format!("{}, {}", target.title, rung.title))?;
        waited?;
        driven.used = Reading::take(&control, target, sides)?.since(&before?, wall_s);
        Ok(driven)
    })
}

/// Runs all clients: a warm-up, then until it is over.
fn clients(
    target: &MeasuredServer,
    rung: &Rung,
    work: Work,
    round: Round,
    (is_over, ready): (&AtomicBool, &Barrier),
) -> anyhow::Result<Driven> {
    let prepared = runtime().and_then(|runtime| {
        let link = target.prepare_clients(&runtime)?;
        let clients = runtime.block_on(async {
            let mut clients = Vec::new();
            for number in 0..round.clients {
                let client = target.client().await?;
                let caller = Caller::prepare(&client, rung, work, round, number).await?;
                clients.push((client, caller));
            }
            let warm = Instant::now();
            let warm_up = WARM_UP.min(round.duration);
            run(&mut clients, &|| warm_up < warm.elapsed()).await?;
            anyhow::Ok(clients)
        })?;
        Ok((link, runtime, clients))
    });
    // The other thread waits twice, and so does this one, or it would wait for ever.
    ready.wait();
    ready.wait();
    // The link ends last.
    let (_link, runtime, mut clients) = prepared?;
    runtime.block_on(run(&mut clients, &|| is_over.load(SeqCst)))
}

async fn run(clients: &mut [(Client, Caller)], is_over: &dyn Fn() -> bool) -> anyhow::Result<Driven> {
    let loops: FuturesUnordered<_> = clients
        .iter_mut()
        .map(|(client, caller)| async move {
            let mut driven = Driven::default();
            while !is_over() {
                caller.transaction(client, &mut driven).await?;
            }
            anyhow::Ok(driven)
        })
        .collect();
    let add = |mut sum: Driven, driven: Driven| async move {
        sum.add(&driven);
        Ok(sum)
    };
    loops.try_fold(Driven::default(), add).await
}

/// Client with its statements.
enum Caller {
    NewOrder(NewOrderCaller),
    KeyValue(KeyValueCaller),
    Points(PointCaller, usize),
}

impl Caller {
    async fn prepare(client: &Client, rung: &Rung, work: Work, round: Round, number: u32) -> Result<Caller, Failure> {
        let seed = round.seed.wrapping_mul(1_000_003).wrapping_add(u64::from(number));
        Ok(match work {
            Work::NewOrder => {
                Caller::NewOrder(NewOrderCaller::prepare(client, rung, round.scale, (round.seed, number)).await?)
            }
            Work::KeyValue(calls) => Caller::KeyValue(KeyValueCaller::prepare(client, rung, calls, seed).await?),
            Work::Points => {
                let depth = match rung.way {
                    Way::Deep(depth) => depth,
                    Way::Statements | Way::Pipelined | Way::Call => 1,
                };
                Caller::Points(PointCaller::prepare(client, depth, seed).await?, depth)
            }
        })
    }

    /// Runs the next transaction to its end, and counts it.
    async fn transaction(&mut self, client: &Client, driven: &mut Driven) -> Result<(), Failure> {
        let (outcome, retries, began, count) = match self {
            Caller::NewOrder(caller) => {
                let input = caller.draw();
                let began = Instant::now();
                let (outcome, retries) = retrying(client, async || caller.attempt(client, &input).await).await?;
                (outcome, retries, began, 1)
            }
            Caller::KeyValue(caller) => {
                let drawn = caller.draw();
                let began = Instant::now();
                let (outcome, retries) = retrying(client, async || caller.attempt(client, &drawn).await).await?;
                (outcome, retries, began, 1)
            }
            Caller::Points(caller, depth) => {
                let began = Instant::now();
                caller.round(client).await?;
                (TpccOutcome::Committed, 0, began, *depth as u64)
            }
        };
        driven.retries += u64::from(retries);
        match outcome {
            TpccOutcome::Committed => {
                driven.committed += count;
                driven.latency.record_ns(began.elapsed().as_nanos() as u64);
            }
            TpccOutcome::RolledBack => driven.rolled_back += 1,
        }
        Ok(())
    }
}
