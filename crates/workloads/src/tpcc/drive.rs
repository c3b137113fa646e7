//! A closed loop of terminals without think time, on threads of its own.

use super::{Inputs, Outcome, Scale, Tables, attempt_new_order, attempt_payment};
use engine::{Engine, Error};
use preempt::os;
use stage::{Class, Histogram};
use std::sync::Barrier;
use std::time::Duration;

/// Which transactions.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mix {
    /// New-Order alone.
    NewOrder,
    /// New-Order and Payment, half and half.
    NewOrderPayment,
}

/// How to drive.
#[derive(Clone, Copy, Debug)]
pub struct DriveConfig {
    /// Of the loaded population.
    pub scale: Scale,
    /// Threads. Worker n belongs to warehouse n modulo their number.
    pub workers: usize,
    /// Which transactions.
    pub mix: Mix,
    /// How long.
    pub duration: Duration,
    /// Makes the inputs.
    pub seed: u64,
}

/// What was driven.
#[derive(Clone, Default)]
pub struct DriveReport {
    /// New-Orders committed.
    pub new_orders: u64,
    /// Payments committed.
    pub payments: u64,
    /// New-Orders rolled back by specification.
    pub rolled_back: u64,
    /// Attempts that were aborted and repeated.
    pub retries: u64,
    /// Processor time of the whole process: input generation and garbage collection are inside.
    pub cpu_ns: u64,
    /// Wall time.
    pub wall_ns: u64,
    /// From the first attempt's beginning to the end, of every seventh transaction.
    pub time: Histogram,
}

impl DriveReport {
    /// Committed New-Orders per second of processor time.
    pub fn new_order_per_cpu_s(&self) -> f64 {
        self.new_orders as f64 / (self.cpu_ns as f64 / 1e9)
    }

    /// Committed transactions per second of processor time.
    pub fn committed_per_cpu_s(&self) -> f64 {
        (self.new_orders + self.payments) as f64 / (self.cpu_ns as f64 / 1e9)
    }

    /// Committed transactions per second of wall time.
    pub fn committed_per_s(&self) -> f64 {
        (self.new_orders + self.payments) as f64 / (self.wall_ns as f64 / 1e9)
    }

    fn add(&mut self, other: &DriveReport) {
        self.new_orders += other.new_orders;
        self.payments += other.payments;
        self.rolled_back += other.rolled_back;
        self.retries += other.retries;
        self.time.add(&other.time);
    }
}

/// Transactions between two looks at the clock.
const BETWEEN_LOOKS: u32 = 64;
/// One transaction in so many is timed, so that the clock does not become part of the load. Odd: of a mix by turns, both
/// kinds are timed.
const TIMED: u32 = 7;

/// Runs transactions for `config.duration` on `config.workers` threads. Aborted ones are repeated until they commit.
///
/// # Errors
/// An error of the engine that no repetition mends.
pub fn drive(engine: &Engine, tables: &Tables, config: &DriveConfig) -> Result<DriveReport, Error> {
    let barrier = Barrier::new(config.workers);
    let (cpu_ns, wall_ns) = (os::process_cpu_ns(), os::now_ns());
    let reports: Vec<Result<DriveReport, Error>> = std::thread::scope(|scope| {
        let threads: Vec<_> = (0..config.workers)
            .map(|worker| {
                let barrier = &barrier;
                scope.spawn(move || terminal(engine, tables, config, worker, barrier))
            })
            .collect();
        threads.into_iter().map(|thread| thread.join().expect("a terminal does not panic")).collect()
    });
    let mut sum = DriveReport {
        cpu_ns: os::process_cpu_ns() - cpu_ns,
        wall_ns: os::now_ns() - wall_ns,
        ..DriveReport::default()
    };
    for report in reports {
        sum.add(&report?);
    }
    Ok(sum)
}

fn terminal(
    engine: &Engine,
    tables: &Tables,
    config: &DriveConfig,
    worker: usize,
    barrier: &Barrier,
) -> Result<DriveReport, Error> {
    let cpus = os::cpus();
    // On a machine with fewer processors than terminals they share; a refusal only makes the figure noisier.
    let _ = os::pin_to_cpu(cpus[worker % cpus.len()]);
    let mut inputs = Inputs::new(config.scale, config.seed, worker as u64);
    let warehouse = worker as i32 % config.scale.warehouses + 1;
    let mut report = DriveReport::default();
    barrier.wait();
    let until_ns = os::now_ns() + config.duration.as_nanos() as u64;
    while os::now_ns() < until_ns {
        for turn in 0..BETWEEN_LOOKS {
            let began_ns = (turn % TIMED == 0).then(os::now_ns);
            // The first look into the mix is by turn, so that each makes half of the transactions.
            if config.mix == Mix::NewOrder || turn % 2 == 0 {
                let input = inputs.new_order(warehouse);
                match until_ended(&mut report.retries, || attempt_new_order(engine, Class::Normal, tables, &input))? {
                    Outcome::Committed => report.new_orders += 1,
                    Outcome::RolledBack => report.rolled_back += 1,
                }
            } else {
                let input = inputs.payment(warehouse);
                until_ended(&mut report.retries, || attempt_payment(engine, Class::Normal, tables, &input))?;
                report.payments += 1;
            }
            if let Some(began_ns) = began_ns {
                report.time.record_ns(os::now_ns() - began_ns);
            }
        }
    }
    Ok(report)
}

fn until_ended(retries: &mut u64, mut attempt: impl FnMut() -> Result<Outcome, Error>) -> Result<Outcome, Error> {
    loop {
        match attempt() {
            Err(error) if error.is_retryable() => *retries += 1,
            ended => return ended,
        }
        std::thread::yield_now();
    }
}
