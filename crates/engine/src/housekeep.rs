//! Housekeeping: work that must be done now and then, beside the work that transactions do in passing.

use crate::engine::Engine;
use crate::frozen::freeze::Frozen;
use core::sync::atomic::Ordering::Relaxed;
use preempt::{no_preempt, os};

/// Number of tables up to which each turn walks through all of them.
const FEW_TABLES: usize = 256;
/// Divisor of time: with more tables, walks take that share of it.
const WALK_SHARE: u64 = 20;

/// Result of a turn of the housekeeping.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Housekept {
    /// Dead versions that it freed.
    pub freed: usize,
    /// Result of the freezer.
    pub frozen: Frozen,
    /// Time at which the next wait is over, by [`preempt::os::now_ns`]: no later than that the next turn should come.
    pub deadline_ns: Option<u64>,
}

impl Engine {
    /// Runs a turn of the housekeeping: frees the garbage that idle transaction slots have left, prunes between
    /// snapshots, freezes rows at rest, ends waits whose time is over, forgets committed SERIALIZABLE transactions that
    /// are not needed any more. It frees at most `budget` dead versions, looks at most at as many others, and at about
    /// as many rows. With hundreds of tables it walks through them all at some turns only, so that an idle engine stays
    /// idle however many it has.
    ///
    /// To be called by an ordinary thread, some ten times a second. Several may call it at once.
    pub fn housekeep(&self, budget: usize) -> Housekept {
        let now_ns = os::now_ns();
        self.inner.registry.set_coarse_ns(now_ns);
        let deadline_ns = self.expire_waits(now_ns);
        self.inner.serial.housekeep(&self.inner.registry);
        let (freed, frozen) = if self.inner.walk_due_ns.load(Relaxed) <= now_ns {
            let did = (self.collect_garbage(budget), self.freeze(budget as u64));
            self.inner.tell_memory();
            if FEW_TABLES < self.inner.tables.live().len() {
                let end_ns = os::now_ns();
                self.inner.walk_due_ns.store(end_ns + WALK_SHARE * end_ns.saturating_sub(now_ns), Relaxed);
            }
            did
        } else {
            (self.inner.collect_garbage(budget), Frozen::default())
        };
        self.inner.limits.sum_up(&self.inner);
        Housekept { freed, frozen, deadline_ns }
    }

    /// Frees garbage that is out of reach: at most `limit` versions, and it checks at most as many others for whether
    /// they can be freed. Returns the number freed. Frees dropped tables too, whatever they hold. It is a part of
    /// [`Engine::housekeep`].
    ///
    /// Transactions do this in passing, each for the slot it uses; a caller is needed only to free the garbage that the
    /// last of them left on slots that are used no more. The garbage of a running transaction's slot is left to that
    /// one.
    pub fn collect_garbage(&self, limit: usize) -> usize {
        let tables = self.inner.tables.all();
        for index in tables.iter().flat_map(|table| &table.indexes) {
            let mut looked = 0;
            while looked < limit && no_preempt(|no_preempt| index.tree.collect(no_preempt)) {
                looked += 1;
            }
        }
        drop(tables);
        let freed = self.inner.collect_garbage(limit);
        self.inner.free_dropped();
        freed
    }
}
