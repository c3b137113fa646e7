//! Reachability: the horizon, the live snapshots, and the walks.
//!
//! **Invariant (horizon):** it never goes back, and no snapshot below it is live or will be. It is computed under one latch,
//! in which a [`Pass`] also pins itself: while a pass is pinned at `H`, the horizon stays at or below `H`.
//!
//! **Invariant (walks):** a reader that follows pointers from version to version *walks*. A version that is not linked
//! any more was linked when every walk that can meet it began. So an object unlinked before a tick of the clock is out
//! of every walk's reach when all that walk now began after the tick; `walks` is a bound on when they began, and never
//! goes back.
//!
//! # Snapshots
//! A live snapshot is published as *tentative* with an old reading of the clock, then read from the clock, then
//! published as it is. Of a tentative one only a lower bound is known. A pass reads the clock first and all snapshots
//! after it: `until` is the least of that reading and the tentative ones. A snapshot that the pass did not meet, or met
//! tentative, is at or above `until`. So of a version's life `[begin, end)` with `end <= until`, the pass knows whether
//! any live or future snapshot lies in it: only those in its list of live ones can.
//!
//! # Walks
//! A transaction is [`WALKING`] from its beginning, and its walk counts as begun when its snapshot was published. A
//! transaction that rests between two calls is [`IDLE`] meanwhile; its next walk ([`HeldSlot::walk`]) counts as begun
//! with its snapshot again, however long ago that was: that is a lower bound, and the walk is short. A registered
//! snapshot is read by several threads, so each announces its walks ([`Registry::walk`]) in a place of its own.
//!
//! Why no walk is missed. A thread unlinks, then counts on [`Horizons::unlinks`], then ticks the clock: `t`. A look
//! that reads the clock at `t` or later (only such a one lets `walks` reach `t`) looks at the walks after that. All
//! these are sequentially consistent, and so are the store by which a walk is announced and a load of one of the two
//! counters after it. If the look missed the store, then that load comes after both counts and reads from them or
//! later: the unlinking happens before the walk's loads. They cannot meet the unlinked object, except through one that
//! was unlinked later and still leads there, and then their walk began before that later tick too: by induction over
//! the steps of a walk, a walk that meets a version began before the version's unlinking. If the look found that a walk
//! had ended, it acquired that from its end.

use super::slots::{HeldSlot, Registry, SnapshotPin};
use crate::sync::{AcqRel, Acquire, AtomicU64, Latch, Relaxed, Release, SeqCst};
use preempt::Region;

/// A snapshot number that holds nothing back.
pub(super) const NO_SNAPSHOT: u64 = u64::MAX;
/// Flag in a published snapshot: the number will not be below this.
pub(super) const TENTATIVE: u64 = 1 << 63;
pub(super) const WALKING: u64 = 0;
pub(super) const IDLE: u64 = 1;
pub(super) const NO_FLOOR: u64 = u64::MAX;
/// Walks at a time of the readers of registered snapshots: threads, and contexts nested in them.
pub(super) const WALKERS_MAX: usize = 1024;

/// Results of the looks. On a line of its own: it is read all the time and written seldom.
#[repr(align(128))]
pub(super) struct Horizons {
    horizon: AtomicU64,
    walks: AtomicU64,
    /// Number of ticks for unlinked objects, counted before each.
    unlinks: AtomicU64,
    /// A clock that stands still between two turns of the housekeeping.
    coarse_ns: AtomicU64,
    latch: Latch<()>,
}

impl Horizons {
    pub(super) fn new() -> Horizons {
        Horizons {
            horizon: AtomicU64::new(0),
            walks: AtomicU64::new(0),
            unlinks: AtomicU64::new(0),
            coarse_ns: AtomicU64::new(0),
            latch: Latch::new(()),
        }
    }

    #[inline]
    pub(super) fn coarse_ns(&self) -> u64 {
        self.coarse_ns.load(Relaxed)
    }
}

/// Result of a look at all slots and readers.
struct Look {
    now: u64,
    horizon: u64,
}

impl Registry {
    /// Moves the coarse clock on.
    pub(crate) fn set_coarse_ns(&self, now_ns: u64) {
        self.horizons.coarse_ns.fetch_max(now_ns, Relaxed);
    }

    /// Returns a number that no live snapshot is below. If another thread is computing one, the last that was found.
    pub(crate) fn horizon(&self) -> u64 {
        let region = Region::enter();
        match self.horizons.latch.try_lock(&region) {
            Some(_latch) => self.look(usize::MAX, |_| ()).horizon,
            None => self.known_horizon(),
        }
    }

    /// Returns the last horizon that was found.
    #[inline]
    pub(crate) fn known_horizon(&self) -> u64 {
        self.horizons.horizon.load(Acquire)
    }

    /// Returns the last bound that was found: all walks that are under way began at or after it.
    #[inline]
    pub(crate) fn known_walks(&self) -> u64 {
        self.horizons.walks.load(Acquire)
    }

    /// Looks at all slots and readers, with the latch held. `each` gets every published snapshot, without that of slot
    /// `but`.
    fn look(&self, but: usize, mut each: impl FnMut(u64)) -> Look {
        let now = self.now();
        let (mut horizon, mut walks) = (now, now);
        for (index, slot) in self.used().iter().enumerate() {
            let published = slot.snapshot.load(SeqCst);
            if published != NO_SNAPSHOT {
                let snapshot = published & !TENTATIVE;
                horizon = horizon.min(snapshot);
                if slot.walk.load(SeqCst) == WALKING {
                    walks = walks.min(snapshot);
                }
                if index != but {
                    each(published);
                }
            }
            // Set under the latch that we hold.
            horizon = horizon.min(slot.floor.load(Acquire));
        }
        for reader in &self.readers[..self.readers_free.high_water()] {
            let published = reader.snapshot.load(SeqCst);
            if published != NO_SNAPSHOT {
                horizon = horizon.min(published & !TENTATIVE);
                each(published);
            }
        }
        for walker in &self.walkers[..self.walkers_free.high_water()] {
            walks = walks.min(walker.0.load(SeqCst));
        }
        // Release, and acquire in `known_*`: a thread that frees by another's findings is ordered after the readers
        // that the other saw end.
        self.horizons.walks.fetch_max(walks, AcqRel);
        Look { now, horizon: self.horizons.horizon.fetch_max(horizon, AcqRel).max(horizon) }
    }

    /// Announces a walk of a reader of a registered snapshot.
    pub(crate) fn walk(&self) -> Walk<'_> {
        let place = loop {
            match self.walkers_free.acquire() {
                Some(place) => break place,
                // More threads than this are inside a batch, most of them descheduled.
                None => std::thread::yield_now(),
            }
        };
        self.walkers[place].0.store(self.now(), SeqCst);
        self.horizons.unlinks.load(SeqCst);
        Walk { registry: self, place }
    }
}

/// A walk that is under way.
pub(crate) struct Walk<'r> {
    registry: &'r Registry,
    place: usize,
}

impl Drop for Walk<'_> {
    fn drop(&mut self) {
        self.registry.walkers[self.place].0.store(u64::MAX, Release);
        self.registry.walkers_free.release(self.place);
    }
}

impl HeldSlot<'_> {
    /// Walks again, after [`HeldSlot::end_walk`].
    #[inline]
    pub(crate) fn walk(&self) {
        self.slot().walk.store(WALKING, SeqCst);
        self.registry.horizons.unlinks.load(SeqCst);
    }

    /// Ends the walk: it stands on no version but those that its snapshot keeps for it: those that it sees, has
    /// claimed, or has made.
    #[inline]
    pub(crate) fn end_walk(&self) {
        self.slot().walk.store(IDLE, Release);
    }

    /// Returns the tick for objects that were unlinked before this call.
    pub(crate) fn unlinked_at(&self) -> u64 {
        self.registry.horizons.unlinks.fetch_add(1, SeqCst);
        self.registry.tick()
    }

    /// Begins a pass, which must walk. `live` is its buffer. Returns none if another begins one at this moment.
    pub(crate) fn begin_pass(&self, mut live: Vec<u64>) -> Option<Pass<'_>> {
        live.clear();
        let mut until = u64::MAX;
        let Look { now, horizon } = {
            let region = Region::enter();
            let _latch = self.registry.horizons.latch.try_lock(&region)?;
            // Without its own snapshot, which reads nothing any more.
            let look = self.registry.look(self.index(), |published| {
                if published & TENTATIVE == 0 {
                    live.push(published);
                } else {
                    until = until.min(published & !TENTATIVE);
                }
            });
            self.slot().floor.store(look.horizon, Release);
            look
        };
        live.sort_unstable();
        live.dedup();
        // After the reading of the clock, before anything is unlinked: see there.
        let serial_floor = self.registry.serial_floor();
        Some(Pass { held: self, live, horizon, until: until.min(now), serial_floor })
    }
}

/// A search for versions that can be freed, pinned at the horizon: a version that ended after it stays allocated while
/// the pass lives.
pub(crate) struct Pass<'h> {
    pub(super) held: &'h HeldSlot<'h>,
    live: Vec<u64>,
    pub(crate) horizon: u64,
    until: u64,
    serial_floor: u64,
}

/// Answer to the question whether a version can be unlinked.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Needed {
    /// No reader can see the version.
    No,
    /// The version ended just now: look at it again soon.
    Soon,
    /// The version stays as long as there is this snapshot.
    By(u64),
}

impl Pass<'_> {
    /// Returns the holder of the slot.
    pub(crate) fn held(&self) -> &HeldSlot<'_> {
        self.held
    }

    pub(crate) fn pin(&self) -> &SnapshotPin {
        self.held.pin()
    }

    /// Ends the pass, and returns the buffer.
    pub(crate) fn end(mut self) -> Vec<u64> {
        core::mem::take(&mut self.live)
    }

    /// Returns whether a version that lived from `begin` to `end` can be seen by any snapshot, or is needed for another
    /// reason.
    pub(crate) fn needs(&self, begin: u64, end: u64) -> Needed {
        if self.until < end {
            return Needed::Soon;
        }
        let below_end = &self.live[..self.live.partition_point(|snapshot| *snapshot < end)];
        match below_end.last() {
            _ if preempt::plants::is_planted("pruned_early") => Needed::No,
            // The greatest: of the snapshots that need it, the last to go as a rule.
            Some(last) if begin <= *last => Needed::By(*last),
            _ if self.serial_floor < begin => Needed::By(self.serial_floor),
            // A pass, or a snapshot that is still tentative, holds back the horizon. The version before this one may be
            // gone by the rule of the horizon, so nothing may be linked to it.
            _ if begin <= self.horizon => Needed::By(self.horizon),
            _ => Needed::No,
        }
    }

    /// Returns the live snapshot that needs the last version before `begin`.
    pub(crate) fn last_before(&self, begin: u64) -> u64 {
        self.live[..self.live.partition_point(|snapshot| *snapshot < begin)].last().map_or(self.horizon, |last| *last)
    }

    /// Returns true if this snapshot is still live.
    pub(crate) fn is_live(&self, snapshot: u64) -> bool {
        self.live.binary_search(&snapshot).is_ok()
    }
}

impl Drop for Pass<'_> {
    fn drop(&mut self) {
        self.held.slot().floor.store(NO_FLOOR, Release);
    }
}
