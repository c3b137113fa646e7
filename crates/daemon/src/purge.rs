//! Memory of `overtake serve`: its limits, and the thread that returns free memory to the system.
//!
//! **Invariant:** threads that run statements never return memory. The purging thread does, outside of the allocator's
//! guard, in system calls of at most 4 MB each. It also samples the resident size, so that the limit applies to the
//! kernel's count, too.
//!
//! Memory that is returned and needed again costs a page fault for each page: with huge pages 0.2 ms of zeroing, and 5
//! ms if a hypervisor has to find the memory first, in the thread that touches it first. Therefore some of it stays
//! ([`Purger::slack`]), and the rest is returned after seconds without use ([`Unused`]). Big freed blocks stay as long
//! as blocks of their kind are reused. Above half of the limit, free memory is returned at once, and threads are asked
//! for the free parts of their heaps ([`Heaps`]).

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

/// Resident bytes outside of blocks: stacks, the allocator's own data, modified pages of the program.
const BESIDE_BLOCKS: usize = 64 << 20;
/// Size below which a machine or control group counts as small.
const SMALL: usize = 4 << 30;

/// Memory limits of the process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MemoryLimits {
    /// Bytes of allocated blocks that statements may reach. The rest of the setting, an eighth, is a reserve for small
    /// statements and for work that frees memory.
    pub held: usize,
    /// Resident bytes.
    pub resident: usize,
}

impl MemoryLimits {
    /// Derives the limits from a setting. 0 means half of the memory of the machine or control group, or a third if
    /// that is small: there, memory outside of blocks and the overshoot of sessions until they are stopped are a larger
    /// part.
    pub fn of(setting: usize, available: usize) -> MemoryLimits {
        let most = match setting {
            0 if SMALL <= available => available / 2,
            0 => (available / 3).min(available.saturating_sub(BESIDE_BLOCKS) * 5 / 9),
            setting => setting,
        };
        MemoryLimits { held: most - most / 8, resident: (most + most / 8).saturating_add(BESIDE_BLOCKS) }
    }

    /// Sets the limits of this process, and disables huge pages if they are small, since these would waste a good part
    /// of them.
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

/// Intervals between samples: with plenty of memory and, below, close to a limit.
const PAUSE: Duration = Duration::from_millis(100);
const PAUSE_WHEN_TIGHT: Duration = Duration::from_millis(10);
/// Time after which freed big blocks that are not reused are returned.
const KEPT_FOR: Duration = Duration::from_secs(5);
/// Period of [`Unused`]: memory is unused if it has been free for one to two of these.
const PERIOD: Duration = Duration::from_secs(3);

/// Minimum of free memory in the current period and in the one before, which is the part that was not needed in the
/// meantime.
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

    /// Adds a sample of free memory, and returns the unused part.
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

/// Policy that decides when free memory is returned. Callers pass the time in.
#[derive(Debug)]
struct Purger {
    limits: MemoryLimits,
    unused: Unused,
    /// Resident bytes outside of blocks that the last purge could not return, and the time before which it is not
    /// repeated.
    floor: (usize, Instant),
    /// Number of consecutive purges that returned little.
    vain: u32,
    /// Time of the last reuse of blocks, and the number of reused blocks.
    reused: (Instant, usize),
}

/// Memory of the process at a moment.
#[derive(Clone, Copy, Debug)]
struct MemoryUse {
    /// Bytes in blocks, as the allocator counts them.
    held: usize,
    /// Bytes of them in freed big blocks.
    kept: usize,
    /// Resident bytes, as the kernel counts them.
    resident: usize,
    /// Number of freed big blocks that have been reused so far.
    reused: usize,
}

impl Purger {
    fn new(limits: MemoryLimits, now: Instant) -> Purger {
        Purger { limits, unused: Unused::new(now), floor: (0, now), vain: 0, reused: (now, 0) }
    }

    /// Returns the bytes of free memory that stay: a sixteenth of the used memory, within bounds.
    fn slack(&self, used: usize) -> usize {
        const LEAST: usize = 32 << 20;
        let most = self.limits.resident / 8;
        (used / 16).max(LEAST).min(most)
    }

    fn is_tight(&self, sample: MemoryUse) -> bool {
        let near = |limit: usize| limit - limit / 4;
        near(self.limits.resident) < sample.resident || near(self.limits.held) < sample.held
    }

    /// Returns the purge to run now.
    fn decide(&mut self, sample: MemoryUse, now: Instant) -> Purge {
        let MemoryUse { held, kept, resident, reused } = sample;
        if self.reused.1 != reused {
            self.reused = (now, reused);
        }
        let used = held.saturating_sub(kept);
        let free = resident.saturating_sub(held);
        self.floor.0 = if self.floor.1 <= now { 0 } else { self.floor.0.min(free) };
        let unused = self.unused.sample(free, now);
        // Statements are refused by the resident size, which includes free memory.
        let is_plenty = resident <= self.limits.resident / 2;
        if self.floor.0 + self.slack(used) < if is_plenty { unused } else { free } {
            return Purge::HugePages;
        }
        let is_unwanted = KEPT_FOR <= now.duration_since(self.reused.0);
        let is_wanted_elsewhere = self.limits.resident - self.limits.resident / 8 < resident;
        if 0 < kept && (is_unwanted || is_wanted_elsewhere) { Purge::Kept } else { Purge::Freed }
    }

    /// Returns another purge after one of huge pages, since most of the memory may be free in smaller pieces.
    fn decide_again(&self, sample: MemoryUse) -> Option<Purge> {
        let free = sample.resident.saturating_sub(sample.held);
        if self.floor.0 + self.slack(sample.held.saturating_sub(sample.kept)) < free {
            return Some(Purge::All);
        }
        None
    }

    /// Records a purge. One that returned little is not repeated soon: the free memory is between blocks in use, or in
    /// the heaps of threads. If statements may be refused because of it, the purge is repeated soon and the result is
    /// true: the threads should then be asked for the latter.
    fn has_purged(&mut self, before: MemoryUse, after: MemoryUse, now: Instant) -> bool {
        const LITTLE: usize = 16 << 20;
        /// Maximal number of vain purges in a row.
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

/// Samples the memory, and sets the allocator's resident size.
fn sample() -> Option<MemoryUse> {
    let resident = memory::anonymous_bytes()?;
    preempt::memory::set_resident_bytes(resident);
    Some(MemoryUse { held: held_bytes(), kept: kept_bytes(), resident, reused: kept_blocks_reused() })
}

/// Threads that run statements, each with its own heap.
#[derive(Clone, Debug, Default)]
pub struct Heaps(Arc<Mutex<Vec<Handle>>>);

impl Heaps {
    /// Adds the current thread with its runtime. Other threads need not be added: they end when they are idle.
    pub fn add_this(&self) {
        if let Ok(runtime) = Handle::try_current() {
            self.0.locked().push(runtime);
        }
    }

    /// Asks each thread to return the free parts of its heap to the allocator after its current task.
    fn collect(&self) {
        for runtime in &*self.0.locked() {
            drop(runtime.spawn(async { preempt::memory::collect() }));
        }
    }
}

/// Purging thread, which is stopped when this is dropped.
pub struct Purging {
    is_over: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl Purging {
    /// Starts the thread.
    ///
    /// # Errors
    /// Fails if the thread cannot be created.
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
            // The thread checks the flag as soon as it is unparked.
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
        // This corresponds to a dropped table.
        assert_eq!(purger.decide(of(100, 0, 420, 0), now), Purge::Freed);
        assert_eq!(purger.decide(of(100, 0, 420, 0), now + PERIOD), Purge::Freed);
        let now = now + PERIOD * 2;
        assert_eq!(purger.decide(of(100, 0, 420, 0), now), Purge::HugePages);
        assert_eq!(purger.decide_again(of(100, 0, 120, 0)), None);
        assert_eq!(purger.decide_again(of(100, 0, 200, 0)), Some(Purge::All));
        // A purge that returned little is repeated when there is more free memory, or later.
        purger.has_purged(of(100, 0, 190, 0), of(100, 0, 180, 0), now);
        assert_eq!(purger.decide(of(100, 0, 200, 0), now), Purge::Freed);
        assert_eq!(purger.decide(of(100, 0, 215, 0), now + PERIOD), Purge::Freed);
        assert_eq!(purger.decide(of(100, 0, 215, 0), now + PERIOD * 2), Purge::HugePages);
        assert_eq!(purger.decide(of(100, 0, 180, 0), now + Duration::from_secs(9)), Purge::Freed);
        assert_eq!(purger.decide(of(100, 0, 180, 0), now + Duration::from_secs(10)), Purge::HugePages);
        // Above half of the limit it is repeated at once, after the threads have collected their heaps, but a limited
        // number of times.
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
        // Every two seconds a query allocates the memory that the one before has freed.
        for _ in 0..20 {
            for held in [100, 900] {
                now += Duration::from_secs(1);
                assert_eq!(purger.decide(of(held, 0, 910, 0), now), Purge::Freed);
            }
        }
        // With a lower limit there would be no room for other statements.
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
        // Blocks are returned earlier if the room is needed.
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
