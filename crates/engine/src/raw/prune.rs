//! Pruning: removal of versions from the middle of a row's chain.
//!
//! **Invariant:** a version is taken out only if no snapshot, live or to come, lies in its life, and then it is marked
//! [`UNLINKED`]. The next older one, if there is one, is marked [`GAP`]: it does not end where the one above it begins.
//!
//! A walk that stands on the version goes on from it as before; one that comes later passes it by. Both read the same:
//! a walk past it has a snapshot below its beginning, one with a snapshot at or above its end stops before it.
//!
//! *Why a pass may follow `prev`* of any version that began after the horizon `H` at which it is pinned. Without a gap
//! the older one ends where this one begins, above `H`, so it was not freed. Below a gap the older one may have ended
//! at or before `H`, because the horizon need not be a snapshot. That is why a version below a gap is never freed by
//! the rule of the horizon alone: it is unlinked first, here, and then waits for all walks.
//!
//! *Index entries.* A version whose successor had another key in some index is marked [`DUTY`]: the thread that clears
//! it away checks whether an older or newer version needs the entry. If the version before it has an equal key, it has
//! no duty of its own; so the duty is passed on to it. The thread that passes it on and the one that clears away meet
//! in the row's latch, or the latter comes after the pass's end by the rule of the horizon.

use super::chain::Said;
use super::horizon::{Needed, Pass};
use super::slots::{MOVED, UNCOMMITTED};
use super::version::{DUTY, GAP, SOLE, UNLINKED, Version};
use crate::sync::{Acquire, Latch};
use preempt::no_preempt;

/// Latches of rows, by their hashes.
const STRIPES: usize = 64;

/// The latches under which chains are changed in their middle.
pub(crate) struct Stripes(Box<[Latch<()>]>);

impl Stripes {
    pub(crate) fn new() -> Stripes {
        Stripes((0..STRIPES).map(|_| Latch::new(())).collect())
    }

    fn of(&self, newest: &Version) -> &Latch<()> {
        &self.0[newest.row() as usize % STRIPES]
    }
}

impl Pass<'_> {
    /// Returns the begin of a version that was ended.
    pub(crate) fn began(&self, version: &Version) -> u64 {
        match self.held.registry.said(&version.begin, 0) {
            Said::Committed(timestamp) => timestamp,
            // The version is queued by the transaction that ended it, and only an existing one can be ended.
            Said::Never | Said::Moved | Said::Mine | Said::Active(_) | Said::Aborted(_) => 0,
        }
    }

    /// Returns the life of a version that was ended, if the end is stamped.
    fn lived(&self, version: &Version) -> Option<(u64, u64)> {
        let end = version.end.load(Acquire);
        (end & UNCOMMITTED == 0 && end < MOVED).then(|| (self.began(version), end))
    }

    /// Returns true if a version that stands in a chain, ended, can be taken out.
    fn can_go(&self, version: &Version, begin: u64, end: u64) -> bool {
        if end <= self.horizon { version.flags() & GAP != 0 } else { self.needs(begin, end) == Needed::No }
    }

    /// Takes every version out of a row's chain that can go. Returns false if another thread is at work in it, and some
    /// may be left.
    pub(crate) fn prune(&self, newest: &Version, stripes: &Stripes) -> bool {
        let pin = self.held.pin();
        let mut above = newest;
        loop {
            let began = match self.held.registry.said(&above.begin, 0) {
                Said::Committed(timestamp) if timestamp <= self.horizon => return true,
                Said::Committed(timestamp) => timestamp,
                // Not in the chain, or not for long; what it stands on is not ended.
                Said::Never | Said::Moved | Said::Mine | Said::Active(_) | Said::Aborted(_) => 0,
            };
            let Some(below) = above.prev(pin) else { return true };
            match self.lived(below) {
                Some((begin, end)) if end <= began && self.can_go(below, begin, end) => {
                    if !self.unlink(above, below, begin, stripes) {
                        return false;
                    }
                }
                _ => above = below,
            }
        }
    }

    /// Takes `below` out. Fails if `above` is not the version above it any more.
    fn unlink(&self, above: &Version, below: &Version, begin: u64, stripes: &Stripes) -> bool {
        no_preempt(|no_preempt| {
            let _latch = stripes.of(above).lock(no_preempt);
            if (above.flags() | below.flags()) & UNLINKED != 0 || !above.comes_after(below) {
                return false;
            }
            // Versions older than one that began up to the horizon are not needed, and may be gone.
            let next = if self.horizon < begin { below.prev(self.held.pin()) } else { None };
            if let Some(next) = next {
                next.set_flag(GAP | (below.flags() & DUTY));
            }
            // Before it becomes unreachable: a walk going down looks at the link first, then at the flags.
            if below.flags() & SOLE != 0 {
                above.set_flag(SOLE);
            }
            above.set_prev(next);
            below.set_flag(UNLINKED);
            true
        })
    }

    /// Returns true if the version was taken out of its row's chain.
    pub(crate) fn is_unlinked(&self, version: &Version) -> bool {
        version.flags() & UNLINKED != 0
    }

    /// Returns true if the version stands below a gap, so that it must be unlinked before it is freed.
    pub(crate) fn is_below_gap(&self, version: &Version) -> bool {
        version.flags() & GAP != 0
    }

    /// Returns true if index entries may be there only for this version, whatever its queue says.
    pub(crate) fn has_duty(&self, version: &Version) -> bool {
        version.flags() & DUTY != 0
    }

    /// Returns true if there is no older version of its row in the chain.
    pub(crate) fn is_first(&self, version: &Version) -> bool {
        version.is_first()
    }
}
