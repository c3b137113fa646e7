//! A closed loop of terminals without think time, on threads of its own, with a purge beside them if asked for.
//!
//! **Invariant:** an aborted transaction is repeated with the same input until it ends, and its time counts from its
//! first attempt. Rows that others hold are waited for by parking, not by trying again.

use super::transaction::{begin_of, ended, execute};
use super::{Inputs, Mix, ProcedureOutcome, Purge, PurgeConfig, Purged, Scale, TpccTables, TransactionKind};
use core::sync::atomic::{AtomicUsize, Ordering};
use engine::{Begin, Engine, Error, Isolation, Result, Session, SessionOptions, Txn};
use preempt::os;
use stage::Histogram;
use statement::error::state_of;
use std::collections::BTreeMap;
use std::sync::Barrier;
use std::time::Duration;

/// Parameters of a drive.
#[derive(Clone, Copy, Debug)]
pub struct DriveConfig {
    /// Scale of the loaded population.
    pub scale: Scale,
    /// Number of threads. Worker n belongs to warehouse n modulo the number of warehouses.
    pub workers: usize,
    /// Mix of transactions.
    pub mix: Mix,
    /// Duration of the drive.
    pub duration: Duration,
    /// Seed of the inputs.
    pub seed: u64,
    /// Class and isolation of the transactions.
    pub begin: Begin,
    /// Configuration of a purge that runs on one more thread; none without a purge.
    pub purge: Option<PurgeConfig>,
}

/// Figures of one kind of transaction.
#[derive(Clone, Default)]
pub struct KindReport {
    /// Number of committed transactions.
    pub committed: u64,
    /// Number of transactions rolled back by specification.
    pub rolled_back: u64,
    /// Number of attempts that were aborted and repeated, by SQLSTATE.
    pub aborts: BTreeMap<&'static str, u64>,
    /// Number of attempts that met a row held by another transaction, were undone and waited for it.
    pub waits: u64,
    /// Time from the first attempt's beginning to the end, of every seventh transaction.
    pub time: Histogram,
}

impl KindReport {
    fn add(&mut self, other: &KindReport) {
        self.committed += other.committed;
        self.rolled_back += other.rolled_back;
        self.waits += other.waits;
        for (reason, count) in &other.aborts {
            *self.aborts.entry(reason).or_default() += count;
        }
        self.time.add(&other.time);
    }
}

/// Figures of a drive.
#[derive(Clone, Default)]
pub struct DriveReport {
    /// Figures of each kind, in the order of [`TransactionKind::ALL`].
    pub kinds: [KindReport; TransactionKind::ALL.len()],
    /// Rows that the purge deleted.
    pub purged: Purged,
    /// Number of transactions of the purge that were aborted and repeated.
    pub purge_aborts: u64,
    /// Processor time of the whole process, input generation, garbage collection and purge included.
    pub cpu_ns: u64,
    /// Wall time.
    pub wall_ns: u64,
}

impl DriveReport {
    /// Returns the figures of one kind.
    pub fn of(&self, kind: TransactionKind) -> &KindReport {
        &self.kinds[kind as usize]
    }

    /// Returns the number of committed transactions of all kinds.
    pub fn committed(&self) -> u64 {
        self.kinds.iter().map(|kind| kind.committed).sum()
    }

    /// Returns the number of New-Orders rolled back by specification.
    pub fn rolled_back(&self) -> u64 {
        self.kinds.iter().map(|kind| kind.rolled_back).sum()
    }

    /// Returns the number of attempts that were aborted and repeated, of all kinds.
    pub fn retries(&self) -> u64 {
        self.kinds.iter().flat_map(|kind| kind.aborts.values()).sum()
    }

    /// Returns the number of waits for rows, of all kinds.
    pub fn waits(&self) -> u64 {
        self.kinds.iter().map(|kind| kind.waits).sum()
    }

    /// Returns the times of all kinds.
    pub fn time(&self) -> Histogram {
        self.kinds.iter().fold(Histogram::new(), |mut time, kind| {
            time.add(&kind.time);
            time
        })
    }

    /// Returns the committed New-Orders per second of processor time.
    pub fn new_order_per_cpu_s(&self) -> f64 {
        self.of(TransactionKind::NewOrder).committed as f64 / (self.cpu_ns as f64 / 1e9)
    }

    /// Returns the committed transactions per second of processor time.
    pub fn committed_per_cpu_s(&self) -> f64 {
        self.committed() as f64 / (self.cpu_ns as f64 / 1e9)
    }

    /// Returns the committed transactions per second of wall time.
    pub fn committed_per_s(&self) -> f64 {
        self.committed() as f64 / (self.wall_ns as f64 / 1e9)
    }
}

/// Number of transactions between two looks at the clock.
const BETWEEN_LOOKS: u32 = 64;
/// Interval of timed transactions: one in this many, so that the clock does not become part of the load. Odd, so that
/// every place of the deck is met.
const TIMED: u32 = 7;
/// Sleep of the purge after a round that found nothing in any district.
const PURGE_PAUSE: Duration = Duration::from_millis(1);

/// Runs transactions for `config.duration` on `config.workers` threads. Aborted ones are repeated until they end.
///
/// # Errors
/// An error of the engine that no repetition mends.
pub fn drive(engine: &Engine, tables: &TpccTables, config: &DriveConfig) -> Result<DriveReport> {
    drive_while(engine, tables, config, &|| true)
}

/// Runs transactions as [`drive`] does, but ends early when `go_on`, called every few dozen transactions, returns
/// false.
///
/// # Errors
/// Errors of [`drive`].
pub fn drive_while(
    engine: &Engine,
    tables: &TpccTables,
    config: &DriveConfig,
    go_on: &(dyn Fn() -> bool + Sync),
) -> Result<DriveReport> {
    let purge = config.purge.map(|purge| Purge::new(engine, tables, config.scale, purge)).transpose()?;
    let run =
        DriveRun { engine, tables, config, go_on, barrier: Barrier::new(config.workers), left: config.workers.into() };
    let (cpu_ns, wall_ns) = (os::process_cpu_ns(), os::now_ns());
    let mut sum = DriveReport::default();
    std::thread::scope(|scope| {
        let run = &run;
        let terminals: Vec<_> = (0..config.workers).map(|worker| scope.spawn(move || run.terminal(worker))).collect();
        let purging = purge.map(|purge| scope.spawn(move || run.purge(purge)));
        let mut failed = None;
        for terminal in terminals {
            match terminal.join().expect("a terminal does not panic") {
                Ok(kinds) => sum.kinds.iter_mut().zip(&kinds).for_each(|(sum, kind)| sum.add(kind)),
                Err(error) => failed = Some(error),
            }
        }
        if let Some(purging) = purging {
            match purging.join().expect("a purge does not panic") {
                Ok((purged, aborts)) => (sum.purged, sum.purge_aborts) = (purged, aborts),
                Err(error) => failed = Some(error),
            }
        }
        failed.map_or(Ok(()), Err)
    })?;
    sum.cpu_ns = os::process_cpu_ns() - cpu_ns;
    sum.wall_ns = os::now_ns() - wall_ns;
    Ok(sum)
}

struct DriveRun<'a> {
    engine: &'a Engine,
    tables: &'a TpccTables,
    config: &'a DriveConfig,
    go_on: &'a (dyn Fn() -> bool + Sync),
    barrier: Barrier,
    /// Number of terminals that have not ended.
    left: AtomicUsize,
}

/// Guard that counts a terminal as ended when dropped, whatever the reason of its end.
struct TerminalGuard<'a>(&'a AtomicUsize);

impl Drop for TerminalGuard<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

impl DriveRun<'_> {
    fn terminal(&self, worker: usize) -> Result<[KindReport; TransactionKind::ALL.len()]> {
        let DriveRun { config, .. } = *self;
        let _ended = TerminalGuard(&self.left);
        let cpus = os::cpus();
        // On a machine with fewer processors than terminals, terminals share processors; a refusal only makes the
        // figure noisier.
        let _ = os::pin_to_cpu(cpus[worker % cpus.len()]);
        let mut inputs = Inputs::new(config.scale, config.seed, worker as u64);
        let warehouse = worker as i32 % config.scale.warehouses + 1;
        let mut session = self.session(format!("terminal {worker}"));
        let mut kinds: [KindReport; TransactionKind::ALL.len()] = Default::default();
        self.barrier.wait();
        let until_ns = os::now_ns() + config.duration.as_nanos() as u64;
        while os::now_ns() < until_ns && (self.go_on)() {
            for turn in 0..BETWEEN_LOOKS {
                let input = inputs.next(config.mix, warehouse);
                let began_ns = (turn % TIMED == 0).then(os::now_ns);
                let kind = &mut kinds[input.kind() as usize];
                let begin = begin_of(config.begin, input.kind());
                let result = until_ended(&mut session, begin, kind, |txn| execute(txn, self.tables, &input));
                match ended(result)? {
                    ProcedureOutcome::Committed => kind.committed += 1,
                    ProcedureOutcome::RolledBack => kind.rolled_back += 1,
                }
                if let Some(began_ns) = began_ns {
                    kind.time.record_ns(os::now_ns() - began_ns);
                }
            }
        }
        Ok(kinds)
    }

    fn session(&self, name: String) -> Session {
        self.engine.session(SessionOptions { name, ..SessionOptions::new(self.config.begin.class()) })
    }

    /// Purges until the terminals have ended. Each of its transactions is READ COMMITTED: they delete only rows that no
    /// other transaction looks at.
    fn purge(&self, mut purge: Purge) -> Result<(Purged, u64)> {
        let mut session = self.session("purge".to_owned());
        let begin = self.config.begin.isolation(Isolation::ReadCommitted);
        let mut purged = Purged::default();
        let mut tried = KindReport::default();
        while 0 < self.left.load(Ordering::Relaxed) {
            let before = purged;
            for _ in 0..purge.steps_per_round() {
                let step = until_ended(&mut session, begin, &mut tried, |txn| purge.step(txn, self.tables))?;
                purged.add(purge.advance(step));
            }
            if purged == before {
                std::thread::sleep(PURGE_PAUSE);
            }
        }
        Ok((purged, tried.aborts.into_values().sum()))
    }
}

/// Runs `body` as a transaction until it has ended, and counts its attempts in `kind`.
fn until_ended<R>(
    session: &mut Session,
    begin: Begin,
    kind: &mut KindReport,
    mut body: impl FnMut(&Txn<'_>) -> Result<R>,
) -> Result<R> {
    loop {
        let (mut attempts, mut counted) = (0, 0);
        let result = session.run(begin, |txn| {
            attempts += 1;
            let result = body(txn);
            match &result {
                Ok(_) => {}
                Err(Error::MustWait) => (kind.waits, counted) = (kind.waits + 1, counted + 1),
                Err(error) if error.is_retryable() => {
                    counted += 1;
                    *kind.aborts.entry(state_of(error).0).or_default() += 1;
                }
                Err(_) => {}
            }
            result
        });
        let is_over = !matches!(&result, Err(error) if error.is_retryable());
        // The attempts whose commit was refused: the session does not tell the reason, and the reasons share one
        // SQLSTATE.
        let refused = u64::saturating_sub(attempts, counted + u64::from(is_over));
        if 0 < refused {
            *kind.aborts.entry(state_of(&Error::SerializationFailure).0).or_default() += refused;
        }
        if is_over {
            return result;
        }
    }
}
