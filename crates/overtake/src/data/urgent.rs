//! New-Order as a request of the scheduler.
//!
//! **Invariant:** what runs here may run in an urgent context: no lock, no log, no clock; counts are relaxed atomics.

use sched::{Outcome, Request, RunCx, Work};
use stage::Class;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use workloads::tpcc::{self, NewOrderInput, Tables};

/// What all New-Orders share.
pub struct NewOrders {
    engine: engine::Engine,
    tables: Arc<Tables>,
    committed: AtomicU64,
    rolled_back: AtomicU64,
    aborts: AtomicU64,
    failed: AtomicU64,
}

/// How New-Orders have ended.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Outcomes {
    /// Committed.
    pub committed: u64,
    /// Rolled back as the specification wants: one in a hundred.
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

struct NewOrder {
    of: Arc<NewOrders>,
    input: NewOrderInput,
}

impl NewOrders {
    /// New-Orders over these tables.
    pub fn new(engine: engine::Engine, tables: Arc<Tables>) -> NewOrders {
        let [committed, rolled_back, aborts, failed] = [const { AtomicU64::new(0) }; 4];
        NewOrders { engine, tables, committed, rolled_back, aborts, failed }
    }

    /// An urgent request that enters `input`.
    pub fn request(self: &Arc<Self>, id: u64, input: NewOrderInput) -> Arc<Request> {
        Arc::new(Request::new(id, Class::High, Box::new(NewOrder { of: Arc::clone(self), input })))
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

impl Work for NewOrder {
    fn run(&self, cx: &RunCx<'_>) -> Outcome {
        let of = &*self.of;
        let (counter, outcome) = match tpcc::attempt_new_order(&of.engine, cx.request.class(), &of.tables, &self.input)
        {
            Ok(tpcc::Outcome::Committed) => (&of.committed, Outcome::Done),
            Ok(tpcc::Outcome::RolledBack) => (&of.rolled_back, Outcome::Done),
            Err(error) if error.is_retryable() => (&of.aborts, Outcome::Again),
            Err(_) => (&of.failed, Outcome::Done),
        };
        counter.fetch_add(1, Relaxed);
        outcome
    }
}
