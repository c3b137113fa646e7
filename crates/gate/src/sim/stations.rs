//! Stations: processors that are shared, disks with a queue each, rows with a lock each.
//!
//! **Invariant:** each station tells itself when its next service ends; nothing else of it is in any list of events.

use super::Job;
use crate::time::Time;
use std::cmp::Reverse;
use std::collections::{BinaryHeap, VecDeque};

/// Returns the time after a number of seconds, as a time of the clock.
pub(super) fn after(now: Time, seconds: f64) -> Time {
    Time::from_ns(now.ns().saturating_add((seconds * 1e9).round() as u64))
}

/// Processors that all jobs share evenly, each job one at most.
///
/// A job is done when the service that every job has got since its arrival adds up to its work; so jobs end in the
/// order of a sum that never changes, and nothing is touched of those that go on.
#[derive(Debug)]
pub(super) struct Processors {
    count: f64,
    /// Service that a job present all the time has got, in seconds.
    got: f64,
    at: Time,
    jobs: BinaryHeap<Reverse<(OrderedFloat, u64, Job)>>,
    number: u64,
    /// Share of its speed that the host leaves each processor.
    host: f64,
    pub(super) busy_seconds: f64,
}

/// A float that is no NaN, in its order.
#[derive(Clone, Copy, Debug, PartialEq)]
struct OrderedFloat(f64);

impl Eq for OrderedFloat {}

impl Ord for OrderedFloat {
    fn cmp(&self, other: &OrderedFloat) -> std::cmp::Ordering {
        self.0.total_cmp(&other.0)
    }
}

impl PartialOrd for OrderedFloat {
    fn partial_cmp(&self, other: &OrderedFloat) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}

impl Processors {
    pub(super) fn new(count: u32) -> Processors {
        Processors {
            count: count.into(),
            got: 0.0,
            at: Time::ZERO,
            jobs: BinaryHeap::new(),
            number: 0,
            host: 1.0,
            busy_seconds: 0.0,
        }
    }

    /// Sets the share of their speed that the host leaves the processors from now on.
    pub(super) fn slow_down(&mut self, now: Time, host: f64) {
        self.pass(now);
        self.host = host;
    }

    pub(super) fn count(&self) -> f64 {
        self.count
    }

    fn speed(&self) -> f64 {
        (self.count / self.jobs.len() as f64).min(1.0) * self.host
    }

    fn pass(&mut self, now: Time) {
        if !self.jobs.is_empty() {
            let seconds = now.since(self.at).as_secs_f64();
            self.got += seconds * self.speed();
            self.busy_seconds += seconds * self.count.min(self.jobs.len() as f64);
        }
        self.at = now;
    }

    pub(super) fn begin(&mut self, now: Time, job: Job, seconds: f64) {
        self.pass(now);
        self.number += 1;
        self.jobs.push(Reverse((OrderedFloat(self.got + seconds), self.number, job)));
    }

    pub(super) fn next(&self) -> Option<Time> {
        let Reverse((OrderedFloat(end), ..)) = self.jobs.peek()?;
        Some(after(self.at, ((end - self.got) / self.speed()).max(0.0)))
    }

    /// Takes the job whose work is done now.
    pub(super) fn end(&mut self, now: Time) -> Option<Job> {
        self.pass(now);
        let Reverse((OrderedFloat(end), _, job)) = self.jobs.pop()?;
        // Time is in nanoseconds; what that rounds off is not carried on.
        self.got = self.got.max(end);
        Some(job)
    }
}

/// A disk that serves first come, first served.
#[derive(Debug, Default)]
pub(super) struct Disk {
    waiting: VecDeque<(Job, f64)>,
    ends: Option<Time>,
    pub(super) busy_seconds: f64,
}

impl Disk {
    pub(super) fn begin(&mut self, now: Time, job: Job, seconds: f64) {
        self.waiting.push_back((job, seconds));
        self.busy_seconds += seconds;
        if self.ends.is_none() {
            self.ends = Some(after(now, seconds));
        }
    }

    pub(super) fn next(&self) -> Option<Time> {
        self.ends
    }

    pub(super) fn end(&mut self, now: Time) -> Option<Job> {
        let (job, _) = self.waiting.pop_front()?;
        self.ends = self.waiting.front().map(|(_, seconds)| after(now, *seconds));
        Some(job)
    }
}

/// Rows that one job at a time holds.
#[derive(Debug)]
pub(super) struct RowLocks {
    rows: Vec<LockedRow>,
    /// Jobs that wait.
    pub(super) waiting: usize,
}

#[derive(Clone, Debug, Default)]
struct LockedRow {
    is_taken: bool,
    waiting: VecDeque<Job>,
}

impl RowLocks {
    pub(super) fn new(count: u32) -> RowLocks {
        RowLocks { rows: vec![LockedRow::default(); count as usize], waiting: 0 }
    }

    /// Creates rows until there are at least `count`.
    pub(super) fn make(&mut self, count: u32) {
        self.rows.resize(self.rows.len().max(count as usize), LockedRow::default());
    }

    /// Takes a row, or waits for it. Returns true if the job has it.
    pub(super) fn take(&mut self, row: u32, job: Job) -> bool {
        let row = &mut self.rows[row as usize];
        if std::mem::replace(&mut row.is_taken, true) {
            row.waiting.push_back(job);
            self.waiting += 1;
            return false;
        }
        true
    }

    /// Gives a row up. Returns the job that has it now.
    pub(super) fn give_up(&mut self, row: u32) -> Option<Job> {
        let row = &mut self.rows[row as usize];
        let next = row.waiting.pop_front();
        row.is_taken = next.is_some();
        self.waiting -= usize::from(next.is_some());
        next
    }
}
