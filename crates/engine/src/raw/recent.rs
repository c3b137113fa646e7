//! Writes that were committed lately, in the order of their timestamps, for SERIALIZABLE transactions to check.
//!
//! **Invariant:** who asks for the versions of a write holds the pin of a live SERIALIZABLE transaction whose snapshot is
//! below the write's timestamp. Then neither version was freed: the older one ended, and the newer one began, after that
//! snapshot, which holds back the horizon, and [`super::slots::Registry::serial_floor`] keeps pruning away from what began
//! after it. Writes that nobody can ask for any more may name versions that are gone.

use super::chain::Change;
use super::slots::{Held, Pin};
use super::version::{Version, VersionPtr};
use std::collections::VecDeque;

/// Writes that are allocated together.
const SEGMENT: usize = 256;
/// Segments kept for the next writes.
const SPARE_MAX: usize = 4;

/// One write of a commit.
#[derive(Debug, Clone, Copy)]
pub(crate) struct RecentWrite {
    timestamp: u64,
    /// If `is_any`, the first of the rows.
    pub(crate) row: u64,
    pub(crate) table: u32,
    /// Whether it stands for rows whose images nobody compares.
    pub(crate) is_any: bool,
    before: Option<VersionPtr>,
    after: Option<VersionPtr>,
}

impl RecentWrite {
    /// The change of a row, as others see it: versions that the transaction itself replaced are left out. Nothing if no
    /// other is left.
    pub(crate) fn new(held: &Held<'_>, table: u32, row: u64, change: &Change) -> Option<RecentWrite> {
        let (before, after) = change.seen_by_others(held);
        let (before, after) = (before.map(Version::pointer), after.map(Version::pointer));
        let write = RecentWrite { timestamp: 0, row, table, is_any: false, before, after };
        (before.is_some() || after.is_some()).then_some(write)
    }

    /// Any rows from the first one on: a bulk load, or very many writes.
    pub(crate) fn any(table: u32, first_row: u64) -> RecentWrite {
        RecentWrite { timestamp: 0, row: first_row, table, is_any: true, before: None, after: None }
    }

    /// The version that it ended.
    pub(crate) fn before<'p>(&self, pin: &'p Pin) -> Option<&'p Version> {
        self.before.map(|version| version.get(pin))
    }

    /// The version that it made.
    pub(crate) fn after<'p>(&self, pin: &'p Pin) -> Option<&'p Version> {
        self.after.map(|version| version.get(pin))
    }
}

/// The queue. Writes have numbers, from 0 on, that they keep.
#[derive(Debug, Default)]
pub(crate) struct Recent {
    /// All but the last are full.
    segments: VecDeque<Vec<RecentWrite>>,
    spare: Vec<Vec<RecentWrite>>,
    /// The number of the first write that is here.
    first: u64,
}

impl Recent {
    /// How many are here.
    pub(crate) fn len(&self) -> usize {
        self.segments.back().map_or(0, |last| (self.segments.len() - 1) * SEGMENT + last.len())
    }

    /// The number of the next one.
    pub(crate) fn end(&self) -> u64 {
        self.first + self.len() as u64
    }

    /// Adds a write of the commit at `timestamp`, which is not below those before.
    pub(crate) fn push(&mut self, timestamp: u64, write: RecentWrite) {
        debug_assert!(self.timestamp_of_last() <= timestamp, "commits come in the order of their timestamps");
        if self.segments.back().is_none_or(|last| last.len() == SEGMENT) {
            let segment = self.spare.pop().unwrap_or_else(|| Vec::with_capacity(SEGMENT));
            self.segments.push_back(segment);
        }
        let last = self.segments.back_mut().expect("there is one with room");
        last.push(RecentWrite { timestamp, ..write });
    }

    fn timestamp_of_last(&self) -> u64 {
        self.segments.back().and_then(|segment| segment.last()).map_or(0, |last| last.timestamp)
    }

    /// The timestamp of the write at this position among those that are here.
    pub(crate) fn timestamp_at(&self, position: usize) -> u64 {
        self.segments[position / SEGMENT][position % SEGMENT].timestamp
    }

    /// The number of the first write above the timestamp.
    pub(crate) fn number_after(&self, timestamp: u64) -> u64 {
        if self.timestamp_of_last() <= timestamp {
            return self.end();
        }
        let is_older = |segment: &Vec<RecentWrite>| segment.last().is_some_and(|last| last.timestamp <= timestamp);
        let segments = self.segments.partition_point(is_older);
        let within = self.segments[segments].partition_point(|write| write.timestamp <= timestamp);
        self.first + (segments * SEGMENT + within) as u64
    }

    /// The writes from this number on, up to a segment's end; empty at the end. What was forgotten is passed over: whoever
    /// needed it was aborted.
    pub(crate) fn from(&self, number: u64) -> &[RecentWrite] {
        let position = number.saturating_sub(self.first) as usize;
        self.segments.get(position / SEGMENT).map_or(&[], |segment| &segment[position % SEGMENT..])
    }

    /// Forgets writes up to `floor`, in whole segments, at most `segments_max` of them.
    pub(crate) fn forget(&mut self, floor: u64, segments_max: usize) {
        for _ in 0..segments_max {
            let Some(first) = self.segments.front() else { return };
            if first.last().is_none_or(|last| floor < last.timestamp) {
                return;
            }
            let Some(mut first) = self.segments.pop_front() else { return };
            self.first += first.len() as u64;
            first.clear();
            if self.spare.len() < SPARE_MAX {
                self.spare.push(first);
            }
        }
    }
}

#[cfg(all(test, not(feature = "shuttle")))]
mod tests {
    use super::*;

    fn timestamps(recent: &Recent, mut number: u64) -> Vec<u64> {
        let mut all = Vec::new();
        while number < recent.end() {
            let some = recent.from(number);
            all.extend(some.iter().map(|write| write.timestamp));
            number += some.len() as u64;
        }
        all
    }

    #[test]
    fn writes_keep_their_numbers_when_older_ones_are_forgotten() {
        let mut recent = Recent::default();
        assert_eq!((recent.len(), recent.end(), recent.number_after(0)), (0, 0, 0));
        // Three writes for each timestamp.
        for number in 0..3_000 {
            recent.push(number / 3, RecentWrite::any(0, 0));
        }
        assert_eq!(recent.number_after(0), 3);
        assert_eq!(recent.number_after(499), 1_500);
        assert_eq!(recent.number_after(999), 3_000);
        assert_eq!(timestamps(&recent, 1_500), (1_500..3_000).map(|number| number / 3).collect::<Vec<u64>>());
        recent.forget(499, usize::MAX);
        assert!(recent.len() < 3_000 - 1_500 + SEGMENT);
        assert_eq!(recent.end(), 3_000);
        assert_eq!(recent.number_after(499), 1_500);
        assert_eq!(timestamps(&recent, 1_500), (1_500..3_000).map(|number| number / 3).collect::<Vec<u64>>());
        recent.forget(u64::MAX, usize::MAX);
        assert_eq!((recent.len(), recent.end(), recent.number_after(7)), (0, 3_000, 3_000));
        recent.push(1_000, RecentWrite::any(0, 0));
        assert_eq!(timestamps(&recent, recent.number_after(999)), [1_000]);
    }
}
