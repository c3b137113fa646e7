//! Memory of `overtake serve`: its limits, and the thread that gives free memory back to the system.
//!
//! **Invariant:** nobody who runs statements gives memory back: that thread does, outside of the allocator's guard, by calls of
//! the kernel of at most 4 MB each. It samples the resident size, so that the limit holds for what the kernel counts, too.
//!
//! Free memory that will be wanted again costs a page fault for each page: with huge pages 0.2 ms of zeroing at once, and 5 ms where
//! a hypervisor has to find the memory first, in whichever thread is the first to touch it. So some of it stays ([`Purger::slack`]),
//! and the rest goes when nobody has used it for seconds ([`Unused`]); freed big blocks stay while blocks of their kind find other
//! owners. Past half of the limit free memory goes at once, and the threads are asked for what is free in their heaps ([`Heaps`]).

use anyhow::Context;
use host::memory;
use locked::Locked;
use preempt::memory::{Purge, held_bytes, kept_blocks_reused, kept_bytes, purge};
use preempt::os;
use std::sync::atomic::{AtomicBool, Ordering::SeqCst};
use std::sync::{Arc, Mutex};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};
use tokio::runtime::Handle;

/// Resident bytes that are no blocks: stacks, the allocator's own, what the program has changed of itself.
const BESIDE_BLOCKS: usize = 64 << 20;
/// A machine or control group of less is small.
const SMALL: usize = 4 << 30;

/// What the process may hold.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MemoryLimits {
    /// Blocks that the allocator has given out, as statements may fill them. The rest, an eighth of the setting, is a reserve for
    /// what takes memory back, and for small statements.
    pub held: usize,
    /// Resident bytes.
    pub resident: usize,
}

impl MemoryLimits {
    /// Of a setting, of which 0 is half of what the machine or the control group has; a third of a small one, where what is no block,
    /// and what sessions take until they are stopped, is a larger part.
    pub fn of(setting: usize, available: usize) -> MemoryLimits {
        let most = match setting {
            0 if SMALL <= available => available / 2,
            0 => (available / 3).min(available.saturating_sub(BESIDE_BLOCKS) * 5 / 9),
            setting => setting,
        };
        MemoryLimits { held: most - most / 8, resident: (most + most / 8).saturating_add(BESIDE_BLOCKS) }
    }

    /// Sets the limits of this process. Where they are small, huge pages would waste a good part of them.
    pub fn set(self) {
        preempt::memory::set_limit_bytes(self.held);
        preempt::memory::set_resident_limit_bytes(self.resident);
        if self.resident < SMALL
            && let Err(error) = os::disable_huge_pages()
        {
            tracing::warn!(%error, "huge pages stay: less memory than allowed may be used");
        }
    }
}

/// How often it is looked while there is room, and while there is little.
const PAUSE: Duration = Duration::from_millis(100);
const PAUSE_WHEN_TIGHT: Duration = Duration::from_millis(10);
/// Freed big blocks that nobody has taken for so long are given back.
const KEPT_FOR: Duration = Duration::from_secs(5);
/// Free memory is unused when it has been free for one to two of these.
const PERIOD: Duration = Duration::from_secs(3);

/// Least free memory in the current period and in the one before: the part that nobody has wanted meanwhile.
#[derive(Debug)]
struct Unused {
    began: Instant,
    before: usize,
    current: usize,
}

impl Unused {
    fn new(now: Instant) -> Unused {
        Unused { began: now, before: 0, current: usize::MAX }
    }

    /// Takes a sample of what is free, and tells how much of it is unused.
    fn sample(&mut self, free: usize, now: Instant) -> usize {
        if PERIOD <= now.duration_since(self.began) {
            self.before = self.current;
            self.current = usize::MAX;
            self.began = now;
        }
        self.current = self.current.min(free);
        self.before.min(self.current)
    }
}

/// Decides when free memory is given back. Knows no clock.
#[derive(Debug)]
struct Purger {
    limits: MemoryLimits,
    unused: Unused,
    /// Resident bytes beside blocks that the last purge has left, as it could not give them back, and until when it is not tried again.
    floor: (usize, Instant),
    /// Purges that have given little back, one after another.
    vain: u32,
    /// When blocks found other owners last, and how many had.
    reused: (Instant, usize),
}

/// What the process holds at a moment.
#[derive(Clone, Copy, Debug)]
struct MemoryUse {
    /// By the allocator.
    held: usize,
    /// Of them, freed big blocks.
    kept: usize,
    /// By the kernel.
    resident: usize,
    /// Freed big blocks that have found another owner so far.
    reused: usize,
}

impl Purger {
    fn new(limits: MemoryLimits, now: Instant) -> Purger {
        Purger { limits, unused: Unused::new(now), floor: (0, now), vain: 0, reused: (now, 0) }
    }

    /// Bytes of free memory that stay: a sixteenth of what is used, within bounds.
    fn slack(&self, used: usize) -> usize {
        const LEAST: usize = 32 << 20;
        let most = self.limits.resident / 8;
        (used / 16).max(LEAST).min(most)
    }

    fn is_tight(&self, sample: MemoryUse) -> bool {
        let near = |limit: usize| limit - limit / 4;
        near(self.limits.resident) < sample.resident || near(self.limits.held) < sample.held
    }

    /// What to give back now.
    fn decide(&mut self, sample: MemoryUse, now: Instant) -> Purge {
        let MemoryUse { held, kept, resident, reused } = sample;
        if self.reused.1 != reused {
            self.reused = (now, reused);
        }
        let used = held.saturating_sub(kept);
        let free = resident.saturating_sub(held);
        self.floor.0 = if self.floor.1 <= now { 0 } else { self.floor.0.min(free) };
        let unused = self.unused.sample(free, now);
        // Statements are refused by what is resident, free memory included.
        let is_plenty = resident <= self.limits.resident / 2;
        if self.floor.0 + self.slack(used) < if is_plenty { unused } else { free } {
            return Purge::HugePages;
        }
        let is_unwanted = KEPT_FOR <= now.duration_since(self.reused.0);
        let is_wanted_elsewhere = self.limits.resident - self.limits.resident / 8 < resident;
        if 0 < kept && (is_unwanted || is_wanted_elsewhere) { Purge::Kept } else { Purge::Freed }
    }

    /// The same after a purge of huge pages: most of the memory may be free in smaller pieces.
    fn decide_again(&self, sample: MemoryUse) -> Option<Purge> {
        let free = sample.resident.saturating_sub(sample.held);
        if self.floor.0 + self.slack(sample.held.saturating_sub(sample.kept)) < free {
            return Some(Purge::All);
        }
        None
    }

    /// After a purge. One that gave little back is not repeated soon: what is free stands between blocks that are used, or in the heaps
    /// of threads. While statements may be refused for it the latter is tried for, and then this says so.
    fn has_purged(&mut self, before: MemoryUse, after: MemoryUse, now: Instant) -> bool {
        const LITTLE: usize = 16 << 20;
        /// Vain purges after which it is given up.
        const TRIES: u32 = 20;
        let is_little = before.resident.saturating_sub(after.resident) < LITTLE;
        self.vain = if is_little { self.vain.saturating_add(1) } else { 0 };
        let is_tried = self.limits.resident / 2 < after.resident && self.vain <= TRIES;
        let pause = match (is_tried, is_little) {
            (true, _) => Duration::from_millis(100),
            (false, true) => Duration::from_secs(10),
            (false, false) => Duration::from_secs(1),
        };
        self.floor = (after.resident.saturating_sub(after.held), now + pause);
        is_tried
    }
}

/// Tells the allocator what is resident, and whoever decides, everything.
fn sample() -> Option<MemoryUse> {
    let resident = memory::anonymous_bytes()?;
    preempt::memory::set_resident_bytes(resident);
    Some(MemoryUse { held: held_bytes(), kept: kept_bytes(), resident, reused: kept_blocks_reused() })
}

/// Threads that run statements, each with a heap of its own.
#[derive(Clone, Debug, Default)]
pub struct Heaps(Arc<Mutex<Vec<Handle>>>);

impl Heaps {
    /// Adds this thread, which is in its runtime. Others are of no account: they end when they have nothing to do.
    pub fn add_this(&self) {
        if let Ok(runtime) = Handle::try_current() {
            self.0.locked().push(runtime);
        }
    }

    /// Asks each thread to give what is free in its heap back to the allocator, when it has done what it is at.
    fn collect(&self) {
        for runtime in &*self.0.locked() {
            drop(runtime.spawn(async { preempt::memory::collect() }));
        }
    }
}

/// The thread, until it is dropped.
pub struct Purging {
    is_over: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl Purging {
    /// Starts it.
    ///
    /// # Errors
    /// When there is no thread.
    pub fn start(limits: MemoryLimits, heaps: Heaps) -> anyhow::Result<Purging> {
        let is_over = Arc::new(AtomicBool::new(false));
        let there = Arc::clone(&is_over);
        let body = move || run(limits, &heaps, &there);
        let thread = thread::Builder::new().name("memory".to_owned()).spawn(body).context("the thread of memory")?;
        Ok(Purging { is_over, thread: Some(thread) })
    }
}

impl Drop for Purging {
    fn drop(&mut self) {
        self.is_over.store(true, SeqCst);
        if let Some(thread) = self.thread.take() {
            thread.thread().unpark();
            // It ends with the process at the latest.
            let _ = thread.join();
        }
    }
}

fn run(limits: MemoryLimits, heaps: &Heaps, is_over: &AtomicBool) {
    let mut purger = Purger::new(limits, Instant::now());
    while !is_over.load(SeqCst) {
        let Some(before) = sample() else {
            return tracing::warn!("the resident size is unknown: only the allocator's blocks are limited");
        };
        let what = purger.decide(before, Instant::now());
        purge(what);
        if what != Purge::Freed
            && let Some(mut after) = sample()
        {
            if what == Purge::HugePages {
                if let Some(more) = purger.decide_again(after) {
                    purge(more);
                    after = sample().unwrap_or(after);
                }
                if purger.has_purged(before, after, Instant::now()) {
                    heaps.collect();
                }
            }
            tracing::debug!(?what, ?before, ?after, "free memory was given back to the system");
        }
        thread::park_timeout(if purger.is_tight(before) { PAUSE_WHEN_TIGHT } else { PAUSE });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MB: usize = 1 << 20;

    fn of(held: usize, kept: usize, resident: usize, reused: usize) -> MemoryUse {
        MemoryUse { held: held * MB, kept: kept * MB, resident: resident * MB, reused }
    }

    #[test]
    fn limits_fit_into_what_there_is() {
        let limits = MemoryLimits::of(800 * MB, 0);
        assert_eq!(limits, MemoryLimits { held: 700 * MB, resident: 964 * MB });
        for available in [100, 128, 256, 512, 700, 1024, 24_000] {
            let limits = MemoryLimits::of(0, available * MB);
            assert!(0 < limits.held && limits.held < limits.resident, "{available}");
            assert!(limits.resident <= available * MB - available * MB / 8, "{available}: {limits:?}");
        }
    }

    #[test]
    fn free_memory_goes_when_there_is_much_of_it() {
        let now = Instant::now();
        let mut purger = Purger::new(MemoryLimits::of(800 * MB, 0), now);
        assert_eq!(purger.decide(of(400, 0, 420, 0), now), Purge::Freed);
        // A table was dropped.
        assert_eq!(purger.decide(of(100, 0, 420, 0), now), Purge::Freed);
        assert_eq!(purger.decide(of(100, 0, 420, 0), now + PERIOD), Purge::Freed);
        let now = now + PERIOD * 2;
        assert_eq!(purger.decide(of(100, 0, 420, 0), now), Purge::HugePages);
        assert_eq!(purger.decide_again(of(100, 0, 120, 0)), None);
        assert_eq!(purger.decide_again(of(100, 0, 200, 0)), Some(Purge::All));
        // What could not be given back is tried for again when there is more of it, or later.
        purger.has_purged(of(100, 0, 190, 0), of(100, 0, 180, 0), now);
        assert_eq!(purger.decide(of(100, 0, 200, 0), now), Purge::Freed);
        assert_eq!(purger.decide(of(100, 0, 215, 0), now + PERIOD), Purge::Freed);
        assert_eq!(purger.decide(of(100, 0, 215, 0), now + PERIOD * 2), Purge::HugePages);
        assert_eq!(purger.decide(of(100, 0, 180, 0), now + Duration::from_secs(9)), Purge::Freed);
        assert_eq!(purger.decide(of(100, 0, 180, 0), now + Duration::from_secs(10)), Purge::HugePages);
        // Past half of the limit it is tried for again at once, when the threads have looked into their heaps; but not for ever.
        let stuck = of(100, 0, 900, 0);
        let mut tries = 0;
        while purger.has_purged(stuck, stuck, now) {
            assert_eq!(purger.decide(stuck, now), Purge::Freed);
            assert_eq!(purger.decide(stuck, now + Duration::from_millis(100)), Purge::HugePages);
            tries += 1;
        }
        assert!((10..30).contains(&tries), "{tries}");
        assert_eq!(purger.decide(stuck, now + Duration::from_secs(9)), Purge::Freed);
    }

    #[test]
    fn free_memory_stays_while_it_is_used_again() {
        let mut now = Instant::now();
        let mut purger = Purger::new(MemoryLimits::of(8000 * MB, 0), now);
        // A query every two seconds takes what the one before has given back.
        for _ in 0..20 {
            for held in [100, 900] {
                now += Duration::from_secs(1);
                assert_eq!(purger.decide(of(held, 0, 910, 0), now), Purge::Freed);
            }
        }
        // Nobody else has room beside it.
        let mut purger = Purger::new(MemoryLimits::of(800 * MB, 0), now);
        assert_eq!(purger.decide(of(100, 0, 910, 0), now), Purge::HugePages);
    }

    #[test]
    fn big_blocks_go_when_nobody_takes_them() {
        let now = Instant::now();
        let mut purger = Purger::new(MemoryLimits::of(800 * MB, 0), now);
        assert_eq!(purger.decide(of(400, 100, 420, 7), now), Purge::Freed);
        assert_eq!(purger.decide(of(400, 100, 420, 7), now + KEPT_FOR / 2), Purge::Freed);
        assert_eq!(purger.decide(of(400, 100, 420, 7), now + KEPT_FOR), Purge::Kept);
        assert_eq!(purger.decide(of(400, 100, 420, 8), now + KEPT_FOR), Purge::Freed);
        // Unless others need the room.
        assert_eq!(purger.decide(of(900, 100, 910, 9), now + KEPT_FOR), Purge::Kept);
    }

    #[test]
    fn it_looks_more_often_when_there_is_little_room() {
        let purger = Purger::new(MemoryLimits::of(800 * MB, 0), Instant::now());
        assert!(!purger.is_tight(of(400, 0, 420, 0)));
        assert!(purger.is_tight(of(600, 0, 620, 0)));
        assert!(purger.is_tight(of(400, 0, 800, 0)));
    }
}
