//! TPC-C's transactions as requests of the scheduler.
//!
//! **Invariant:** what runs here may run in an urgent context: no lock, no log; counts are relaxed atomics.

use crate::mixed::UNDER_WAY_MAX;
use engine::Begin;
use sched::{Outcome, Request, RunCx, Work};
use stage::Class;
use std::sync::Arc;
use std::sync::atomic::{AtomicU8, AtomicU64, Ordering::Relaxed};
use workloads::tpcc::{self, Input, Tables};

/// What all transactions share.
pub struct Transactions {
    engine: engine::Engine,
    tables: Arc<Tables>,
    committed: AtomicU64,
    rolled_back: AtomicU64,
    aborts: AtomicU64,
    failed: AtomicU64,
    /// How each of the last ones ended: those of arrivals, then those of tickets.
    endings: Box<[AtomicU8]>,
}

/// This bit marks the ids of transactions that somebody issued by hand, so that they differ from those of arrivals.
pub const TICKET: u64 = 1 << 63;

/// How one transaction ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ending {
    /// It committed.
    Committed = 0,
    /// It rolled back as the specification wants.
    RolledBack = 1,
    /// It was refused.
    Failed = 2,
}

/// How transactions have ended.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Outcomes {
    /// Committed.
    pub committed: u64,
    /// Rolled back as the specification wants: one New-Order in a hundred.
    pub rolled_back: u64,
    /// Attempts aborted by a conflict or by a more important transaction; they are repeated.
    pub aborts: u64,
    /// Refused for a reason that no repetition mends.
    pub failed: u64,
}

impl Outcomes {
    /// What happened since `before`.
    pub fn since(&self, before: &Outcomes) -> Outcomes {
        Outcomes {
            committed: self.committed - before.committed,
            rolled_back: self.rolled_back - before.rolled_back,
            aborts: self.aborts - before.aborts,
            failed: self.failed - before.failed,
        }
    }
}

struct Transaction {
    of: Arc<Transactions>,
    input: Input,
}

impl Transactions {
    /// Transactions over these tables.
    pub fn new(engine: engine::Engine, tables: Arc<Tables>) -> Transactions {
        let [committed, rolled_back, aborts, failed] = [const { AtomicU64::new(0) }; 4];
        let endings = (0..2 * UNDER_WAY_MAX).map(|_| AtomicU8::new(0)).collect();
        Transactions { engine, tables, committed, rolled_back, aborts, failed, endings }
    }

    fn ending_of(&self, id: u64) -> &AtomicU8 {
        let ring = if id & TICKET == 0 { 0 } else { UNDER_WAY_MAX };
        &self.endings[(ring + id % UNDER_WAY_MAX) as usize]
    }

    /// How request `id` ended.
    pub fn ending(&self, id: u64) -> Ending {
        match self.ending_of(id).load(Relaxed) {
            0 => Ending::Committed,
            1 => Ending::RolledBack,
            _ => Ending::Failed,
        }
    }

    /// An urgent request that enters `input`.
    pub fn request(self: &Arc<Self>, id: u64, input: Input) -> Arc<Request> {
        Arc::new(Request::new(id, Class::High, Box::new(Transaction { of: Arc::clone(self), input })))
    }

    /// How they have ended so far.
    pub fn outcomes(&self) -> Outcomes {
        Outcomes {
            committed: self.committed.load(Relaxed),
            rolled_back: self.rolled_back.load(Relaxed),
            aborts: self.aborts.load(Relaxed),
            failed: self.failed.load(Relaxed),
        }
    }
}

/// Attempts before a transaction counts as failed. A conflict lasts as long as the other transaction, whose thread may be off its
/// processor for milliseconds; giving up early would fail transactions for the machine's load.
pub const ATTEMPTS_MAX: u32 = 100_000;

/// Spins before a repeated attempt, longer each time up to a bound: whoever holds the row needs the time more. No sleeping,
/// because this may be an urgent context.
fn back_off(attempt: u32) {
    const SPIN_NS_MAX: u64 = 50_000;
    if 1 < attempt {
        let until_ns = preempt::os::now_ns() + (1_000 << attempt.min(16)).min(SPIN_NS_MAX);
        while preempt::os::now_ns() < until_ns {
            core::hint::spin_loop();
        }
    }
}

impl Work for Transaction {
    fn run(&self, cx: &RunCx<'_>) -> Outcome {
        let of = &*self.of;
        back_off(cx.attempt);
        let begin = Begin::new(cx.request.class());
        let (counter, ending) = match tpcc::attempt(&of.engine, begin, &of.tables, &self.input) {
            Ok(tpcc::Outcome::Committed) => (&of.committed, Ending::Committed),
            Ok(tpcc::Outcome::RolledBack) => (&of.rolled_back, Ending::RolledBack),
            Err(error) if error.is_retryable() => {
                of.aborts.fetch_add(1, Relaxed);
                return Outcome::Again;
            }
            Err(_) => (&of.failed, Ending::Failed),
        };
        counter.fetch_add(1, Relaxed);
        of.ending_of(cx.request.id()).store(ending as u8, Relaxed);
        Outcome::Done
    }
}
