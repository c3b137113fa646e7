//! TPC-C's transactions as requests of the scheduler.
//!
//! **Invariant:** the code of this module may run in an urgent context: no lock, no log; counts are relaxed atomics. A
//! transaction that meets a lock parks its request: the worker goes on, and the grant submits the request again.

use crate::mixed::UNDER_WAY_MAX;
use engine::{Begin, Error, Session, SessionOptions, Step, Wake};
use preempt::{Latch, no_preempt};
use sched::{Request, Resubmit, RunCx, RunOutcome, Work};
use stage::Class;
use std::sync::Arc;
use std::sync::atomic::{AtomicU8, AtomicU64, Ordering::Relaxed};
use workloads::tpcc::{self, Input, TpccTables};

/// State shared by all transactions.
pub struct Transactions {
    engine: engine::Engine,
    tables: Arc<TpccTables>,
    committed: AtomicU64,
    rolled_back: AtomicU64,
    aborts: AtomicU64,
    failed: AtomicU64,
    /// End of each of the last transactions: those of arrivals, then those of tickets.
    endings: Box<[AtomicU8]>,
}

/// Bit that marks the IDs of transactions issued by hand, so that they differ from those of arrivals.
pub const TICKET: u64 = 1 << 63;

/// End of one transaction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TransactionOutcome {
    /// The transaction committed.
    Committed = 0,
    /// The transaction rolled back as the specification demands.
    RolledBack = 1,
    /// The transaction was refused.
    Failed = 2,
}

/// Numbers of transactions by outcome.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct OutcomeCounts {
    /// Committed transactions.
    pub committed: u64,
    /// Transactions rolled back as the specification demands: one New-Order in a hundred.
    pub rolled_back: u64,
    /// Attempts aborted by a conflict or by a more important transaction; they are repeated.
    pub aborts: u64,
    /// Transactions refused for a reason that no repetition mends.
    pub failed: u64,
}

impl OutcomeCounts {
    /// Returns the sums of these numbers and others.
    pub fn plus(&self, other: &OutcomeCounts) -> OutcomeCounts {
        OutcomeCounts {
            committed: self.committed + other.committed,
            rolled_back: self.rolled_back + other.rolled_back,
            aborts: self.aborts + other.aborts,
            failed: self.failed + other.failed,
        }
    }

    /// Returns the numbers since `before`.
    pub fn since(&self, before: &OutcomeCounts) -> OutcomeCounts {
        OutcomeCounts {
            committed: self.committed - before.committed,
            rolled_back: self.rolled_back - before.rolled_back,
            aborts: self.aborts - before.aborts,
            failed: self.failed - before.failed,
        }
    }
}

struct UrgentTransaction {
    of: Arc<Transactions>,
    input: Input,
    /// Session of the transaction, while the transaction does not run.
    home: Latch<Option<Session>>,
}

/// Callback by which the engine wakes a parked transaction.
struct TransactionWaker(Resubmit);

impl Wake for TransactionWaker {
    fn wake(&self) {
        self.0.resubmit();
    }
}

impl Transactions {
    /// Creates the state of transactions over these tables.
    pub fn new(engine: engine::Engine, tables: Arc<TpccTables>) -> Transactions {
        let [committed, rolled_back, aborts, failed] = [const { AtomicU64::new(0) }; 4];
        let endings = (0..2 * UNDER_WAY_MAX).map(|_| AtomicU8::new(0)).collect();
        Transactions { engine, tables, committed, rolled_back, aborts, failed, endings }
    }

    fn ending_of(&self, id: u64) -> &AtomicU8 {
        let ring = if id & TICKET == 0 { 0 } else { UNDER_WAY_MAX };
        &self.endings[(ring + id % UNDER_WAY_MAX) as usize]
    }

    /// Returns the end of request `id`.
    pub fn ending(&self, id: u64) -> TransactionOutcome {
        match self.ending_of(id).load(Relaxed) {
            0 => TransactionOutcome::Committed,
            1 => TransactionOutcome::RolledBack,
            _ => TransactionOutcome::Failed,
        }
    }

    /// Returns an urgent request that enters `input`.
    pub fn request(self: &Arc<Self>, id: u64, input: Input) -> Arc<Request> {
        let session = self.engine.session(SessionOptions::new(Class::High));
        let home = Latch::new(Some(session));
        Arc::new(Request::new(id, Class::High, Box::new(UrgentTransaction { of: Arc::clone(self), input, home })))
    }

    /// Returns the outcomes so far.
    pub fn outcomes(&self) -> OutcomeCounts {
        OutcomeCounts {
            committed: self.committed.load(Relaxed),
            rolled_back: self.rolled_back.load(Relaxed),
            aborts: self.aborts.load(Relaxed),
            failed: self.failed.load(Relaxed),
        }
    }
}

/// Maximum number of attempts before a transaction counts as failed. Waiting for a lock is not an attempt; being
/// aborted by a deadlock, or by a change that the isolation level does not allow, is.
pub const ATTEMPTS_MAX: u32 = 100_000;

impl Work for UrgentTransaction {
    fn run(&self, cx: &RunCx<'_>) -> RunOutcome {
        let of = &*self.of;
        let mut session = no_preempt(|no_preempt| self.home.lock(no_preempt).take()).expect("it runs once at a time");
        let begin = Begin::new(cx.request.class());
        let step = session.try_run(begin, |txn| tpcc::execute(txn, &of.tables, &self.input));
        no_preempt(|no_preempt| *self.home.lock(no_preempt) = Some(session));
        let (counter, ending) = match step {
            Ok(Step::Parked(ticket)) => {
                ticket.on_ready(Arc::new(TransactionWaker(cx.resubmitter())));
                return RunOutcome::Parked;
            }
            Ok(Step::Done(())) => (&of.committed, TransactionOutcome::Committed),
            Err(Error::RolledBack) => (&of.rolled_back, TransactionOutcome::RolledBack),
            Err(error) if error.is_retryable() => {
                of.aborts.fetch_add(1, Relaxed);
                return RunOutcome::Again;
            }
            Err(_) => (&of.failed, TransactionOutcome::Failed),
        };
        counter.fetch_add(1, Relaxed);
        of.ending_of(cx.request.id()).store(ending as u8, Relaxed);
        RunOutcome::Done
    }
}
