//! Split of the run of a sampled transaction into parts. One transaction in [`EVERY`] is sampled.
//!
//! **Invariant:** the state belongs to its thread; it is constant-initialised, and its words are relaxed atomics that
//! only this thread and urgent contexts on it touch. Entering a part neither allocates nor blocks, so it is allowed in
//! an urgent context.

use crate::ticks::TickSource;
use std::sync::atomic::{AtomicBool, AtomicU8, AtomicU32, AtomicU64, Ordering::Relaxed};

/// Number of transactions of which one is sampled.
pub const EVERY: u64 = 64;
/// Number of stamps after which a sample ends, so that a long scan is not slowed down.
const STAMPS_MAX: u32 = 4096;

/// Part of a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum RunPart {
    /// Searching and changing indexes.
    Index = 0,
    /// Finding the versions of rows that a snapshot sees, and making new ones.
    Versions,
    /// Waiting for latches.
    Latching,
    /// Committing.
    Commit,
    /// Anything else: evaluating expressions, joining, sorting.
    Other,
}

impl RunPart {
    /// Number of parts.
    pub const COUNT: usize = 5;

    /// Every part.
    pub const ALL: [RunPart; RunPart::COUNT] =
        [RunPart::Index, RunPart::Versions, RunPart::Latching, RunPart::Commit, RunPart::Other];

    /// Returns the name in views and documentation.
    pub fn name(self) -> &'static str {
        match self {
            RunPart::Index => "index",
            RunPart::Versions => "versions",
            RunPart::Latching => "latching",
            RunPart::Commit => "commit",
            RunPart::Other => "other",
        }
    }
}

struct Split {
    is_on: AtomicBool,
    part: AtomicU8,
    /// Tick of the last stamp.
    since: AtomicU64,
    /// Nanoseconds that this thread had waited for latches at the last stamp.
    latched_ns: AtomicU64,
    /// Stamps that are left.
    left: AtomicU32,
    ticks: [AtomicU64; RunPart::COUNT],
}

thread_local! {
    static SPLIT: Split = const {
        Split {
            is_on: AtomicBool::new(false),
            part: AtomicU8::new(RunPart::Other as u8),
            since: AtomicU64::new(0),
            latched_ns: AtomicU64::new(0),
            left: AtomicU32::new(0),
            ticks: [const { AtomicU64::new(0) }; RunPart::COUNT],
        }
    };
}

impl Split {
    fn add(&self, part: u8, ticks: u64) {
        if let Some(word) = self.ticks.get(usize::from(part)) {
            word.store(word.load(Relaxed) + ticks, Relaxed);
        }
    }

    /// Ends the present part, and enters this one. Returns the one before.
    fn go(&self, next: u8) -> u8 {
        let before = self.part.swap(next, Relaxed);
        let source = TickSource::system();
        let now = source.now();
        let passed = now.saturating_sub(self.since.swap(now, Relaxed));
        let latched_ns = preempt::latched_ns();
        let latched = latched_ns.saturating_sub(self.latched_ns.swap(latched_ns, Relaxed));
        let latched = if latched == 0 { 0 } else { source.ticks(latched).min(passed) };
        self.add(RunPart::Latching as u8, latched);
        self.add(before, passed - latched);
        let left = self.left.load(Relaxed).saturating_sub(1);
        self.left.store(left, Relaxed);
        if left == 0 {
            self.is_on.store(false, Relaxed);
        }
        before
    }
}

/// Returns true while a sampled run is under way on this thread.
#[inline]
pub fn is_on() -> bool {
    SPLIT.with(|split| split.is_on.load(Relaxed))
}

/// Begins to split the run of this thread, unless that is under way.
pub fn begin() {
    SPLIT.with(|split| {
        if split.is_on.load(Relaxed) {
            return;
        }
        split.ticks.iter().for_each(|word| word.store(0, Relaxed));
        split.part.store(RunPart::Other as u8, Relaxed);
        split.latched_ns.store(preempt::latched_ns(), Relaxed);
        split.left.store(STAMPS_MAX, Relaxed);
        split.since.store(TickSource::system().now(), Relaxed);
        split.is_on.store(true, Relaxed);
    });
}

/// Ends the split, and returns the ticks of each part.
pub fn end() -> [u64; RunPart::COUNT] {
    SPLIT.with(|split| {
        if split.is_on.load(Relaxed) {
            split.go(RunPart::Other as u8);
            split.is_on.store(false, Relaxed);
        }
        split.ticks.each_ref().map(|word| word.swap(0, Relaxed))
    })
}

/// Part that was entered; the one before goes on when this is dropped.
#[must_use]
#[derive(Debug)]
pub struct Entered(u8);

/// Mark of a part that was not entered, because nothing is split.
const NOTHING: u8 = u8::MAX;

impl Entered {
    /// Part of a run that is not split.
    pub const NOTHING: Entered = Entered(NOTHING);
}

impl Drop for Entered {
    #[inline]
    fn drop(&mut self) {
        if self.0 != NOTHING {
            leave(self.0);
        }
    }
}

#[cold]
fn leave(before: u8) {
    SPLIT.with(|split| {
        if split.is_on.load(Relaxed) {
            split.go(before);
        }
    });
}

/// Enters a part of the run of this thread, if it is split.
#[cold]
pub fn enter(part: RunPart) -> Entered {
    SPLIT.with(|split| match split.is_on.load(Relaxed) {
        true => Entered(split.go(part as u8)),
        false => Entered::NOTHING,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::{Duration, Instant};

    fn spin(time: Duration) {
        let begun = Instant::now();
        while begun.elapsed() < time {
            std::hint::spin_loop();
        }
    }

    #[test]
    fn parts_nest_and_are_the_whole() {
        let source = TickSource::system();
        let begun = source.now();
        begin();
        {
            let _index = enter(RunPart::Index);
            spin(Duration::from_millis(2));
            let _versions = enter(RunPart::Versions);
            spin(Duration::from_millis(3));
        }
        spin(Duration::from_millis(1));
        let parts = end();
        let whole = source.now() - begun;
        let ms = |part: RunPart| source.ns(parts[part as usize]) as f64 / 1e6;
        assert!(2.0 <= ms(RunPart::Index) + 0.01 && 3.0 <= ms(RunPart::Versions) + 0.01, "{parts:?}");
        assert!(1.0 <= ms(RunPart::Other) + 0.01 && parts.iter().sum::<u64>() <= whole, "{parts:?}");
        assert_eq!(end(), [0; RunPart::COUNT]);
    }

    #[test]
    fn nothing_is_split_unless_it_has_begun() {
        let _index = enter(RunPart::Index);
        assert!(!is_on());
        assert_eq!(end(), [0; RunPart::COUNT]);
    }

    #[test]
    fn a_sample_has_an_end() {
        begin();
        for _ in 0..STAMPS_MAX {
            let _index = enter(RunPart::Index);
        }
        assert!(!is_on());
    }
}
