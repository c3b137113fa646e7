//! SERIALIZABLE: what a transaction read is checked at its commit, as predicates, against what others have written.
//!
//! **Invariant: the order of commit timestamps is a serial order.** Every SERIALIZABLE transaction that commits would have
//! read the same, and so done the same, had it run alone at its commit timestamp.
//!
//! *Reads.* A SERIALIZABLE transaction that may write keeps a log of what it has read ([`crate::reads`]): rows found, keys
//! not found, ranges as far as they were consumed, the conditions of scans. (Precision locking; Jordan, Banerjee and Batman
//! 1981; and at commit, as in Neumann, Mühlbauer and Kemper 2015.)
//!
//! *Writes.* While such a transaction lives, every commit of any isolation level goes the *serial way*: under one latch
//! it leaves *active*, takes its timestamp, is decided, and adds its writes to [`Recent`], each with the version before
//! and after it. [`crate::raw::publish`] says how this begins, and why nobody slips through; it costs others nothing while
//! there is no SERIALIZABLE transaction.
//!
//! *The check.* Before its own commit, under the same hold of the latch, the transaction has compared all recent writes
//! above its snapshot with its log. Most of them it has compared before, in rounds, outside the latch; only the last few
//! are left. One that meets a read: 40001.
//!
//! # Why this is right
//!
//! Let T read with snapshot `s` and commit at `c`.
//! 1. *Snapshots are prefixes of the commit order.* T sees exactly the commits up to `s`: a timestamp is taken after its
//!    status left *active*, by the owner or by a helper, and whoever meets a committing status decides it before it
//!    answers. So a transaction that T found active has a timestamp above `s` for ever.
//! 2. *`recent` has every commit between `s` and `c`, in order.* All of them went the serial way (`publish`). A helper may
//!    take the timestamp for them, but only between the status leaving *active* and the decision, both of which lie
//!    in one hold of the latch; so the order of holds is the order of timestamps, and what is pushed in a hold is there for
//!    the next. A commit pushes nothing only if it found, *after* its decision, no SERIALIZABLE transaction live but itself;
//!    one that begins later takes its snapshot later, not below that timestamp.
//! 3. *What the check finds clean is unchanged.* Each thing that T has read depends on the rows that satisfy a predicate: a
//!    row id, a key, a stretch of an index, conditions on a table. If no write between `s` and `c` has a version before or
//!    after it that satisfies the predicate, the rows that satisfy it at `c` are those at `s`, with the same contents. T's
//!    own rows are locked by it, or unknown to others, until it has committed. A row found by a unique key needs no
//!    predicate but its id: no second row can have the key while it has. (Writes that refuse: a row changed after the
//!    snapshot is a conflict, and a key that exists, but not for the snapshot, is one too.)
//!
//! So T's reads at `c` equal its reads at `s`, and its writes appear at `c`. By induction over timestamps the execution is
//! that of the serial order. ∎
//!
//! *Read-only transactions*, declared so or having written nothing, are never checked and keep no log. T1 with snapshot `s`
//! stands between the commits up to `s` and those above. For the same reason there is nothing for DEFERRABLE to wait for:
//! PostgreSQL's anomaly of a read-only transaction (Fekete, O'Neil and O'Neil 2004) needs a commit order that is no serial
//! order, and here it always is one. Of the three, the transaction that read the old state and commits last is refused.
//!
//! *Versions* that the check looks at stay: [`Recent`] says why. *Memory*: writes up to the least live SERIALIZABLE
//! snapshot are forgotten; past [`Serial::limit`] writes, the oldest such transactions are aborted (40001).

use crate::engine::Inner;
use crate::raw::publish::SerialSeen;
use crate::raw::recent::{Recent, RecentWrite};
use crate::raw::slots::{Held, NotCommitted, Registry};
use crate::reads::Against;
use crate::scratch::{Scratch, Write};
use crate::sync::Latch;
use preempt::Region;

/// Writes that are checked in one round outside the latch.
const ROUND: usize = 256;
/// Writes that may be left to check under the latch.
const FEW: u64 = 32;
/// A check that so many rounds did not bring nearer to its end gives up.
const ROUNDS_LOST_MAX: u32 = 64;
/// Writes between two looks for those that nobody needs.
const FORGET_EVERY: usize = 1024;
/// Segments freed under one hold of the latch.
const FORGOTTEN_MAX: usize = 16;
/// The least live snapshot of SERIALIZABLE transactions must be above one in so many writes when there are too many.
const ABORTED_PART: usize = 4;
/// A commit of more writes publishes only which tables they are in: the latch is not for that long.
const EXACT_MAX: usize = 4096;
/// How long serial mode stays on without a SERIALIZABLE transaction.
const REST_NS: u64 = 1_000_000_000;

/// Why a serial commit did not happen.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Refused {
    /// Somebody aborted the transaction.
    Aborted,
    /// Somebody wrote what it has read.
    Conflict,
}

/// What a SERIALIZABLE transaction has read, as far as the commit asks.
pub(crate) trait Check {
    /// Whether one of these writes meets what was read.
    fn conflicts(&mut self, writes: &[RecentWrite]) -> bool;
    /// A buffer for a round's writes.
    fn buffer(&mut self) -> &mut Vec<RecentWrite>;
    /// Whether one of the writes in the buffer meets what was read.
    fn buffered_conflict(&mut self) -> bool;
}

/// The serial way to commit.
pub(crate) struct Serial {
    latch: Latch<Latched>,
    /// The most writes that are kept.
    limit: usize,
    rest: Latch<Rest>,
}

#[derive(Default)]
struct Latched {
    recent: Recent,
    /// How many writes there were after the last look for those that nobody needs.
    kept: usize,
}

/// When serial mode was last seen at work.
struct Rest {
    seen: Option<SerialSeen>,
    since_ns: u64,
}

impl Serial {
    pub(crate) fn new(limit: usize) -> Serial {
        let latched = Latched { recent: Recent::default(), kept: 0 };
        Serial { latch: Latch::new(latched), limit, rest: Latch::new(Rest { seen: None, since_ns: 0 }) }
    }

    /// How many writes are kept.
    pub(crate) fn kept(&self) -> usize {
        self.latch.lock(&Region::enter()).recent.len()
    }

    /// Commits and returns the timestamp. `publish` hands over the writes; it is called after the decision, if at all.
    pub(crate) fn commit<C: Check>(
        &self,
        registry: &Registry,
        held: &Held<'_>,
        mut check: Option<&mut C>,
        publish: impl FnOnce(&mut dyn FnMut(RecentWrite)),
    ) -> Result<u64, Refused> {
        let mut checked = None;
        let mut least_left = u64::MAX;
        let mut rounds_lost = 0;
        loop {
            let region = Region::enter();
            let mut latched = self.latch.lock(&region);
            let Some(check) = check.as_deref_mut() else { return latched.decide(self, registry, held, publish) };
            let from = checked.unwrap_or_else(|| latched.recent.number_after(held.snapshot()));
            let left = latched.recent.end() - from;
            if left <= FEW {
                return if latched.conflicts(from, check) {
                    Err(Refused::Conflict)
                } else {
                    latched.decide(self, registry, held, publish)
                };
            }
            let copied = latched.copy(from, check.buffer());
            drop(latched);
            drop(region);
            // From here on an interrupt is welcome, and others commit.
            if check.buffered_conflict() {
                return Err(Refused::Conflict);
            }
            checked = Some(from + copied);
            rounds_lost = if left < least_left { 0 } else { rounds_lost + 1 };
            least_left = least_left.min(left);
            if rounds_lost == ROUNDS_LOST_MAX {
                return Err(Refused::Conflict);
            }
        }
    }

    /// Turns serial mode off after a second without SERIALIZABLE transactions. To be called now and then.
    pub(crate) fn housekeep(&self, registry: &Registry, now_ns: u64) {
        let region = Region::enter();
        let mut rest = self.rest.lock(&region);
        let now = registry.look_at_serial();
        if rest.seen != Some(now) {
            *rest = Rest { seen: Some(now), since_ns: now_ns };
        } else if rest.since_ns + REST_NS <= now_ns {
            registry.rest_serial(now);
        }
        drop(rest);
        self.latch.lock(&region).recent.forget(registry.serial_floor_of_active(), FORGOTTEN_MAX);
    }
}

impl Latched {
    fn conflicts(&self, mut from: u64, check: &mut impl Check) -> bool {
        while from < self.recent.end() {
            let writes = self.recent.from(from);
            if check.conflicts(writes) {
                return true;
            }
            from += writes.len() as u64;
        }
        false
    }

    /// Copies writes from the number on to the buffer. Returns how many.
    fn copy(&self, from: u64, buffer: &mut Vec<RecentWrite>) -> u64 {
        buffer.clear();
        while buffer.len() < ROUND {
            let more = self.recent.from(from + buffer.len() as u64);
            if more.is_empty() {
                break;
            }
            buffer.extend_from_slice(&more[..more.len().min(ROUND - buffer.len())]);
        }
        buffer.len() as u64
    }

    /// The commit itself.
    fn decide(
        &mut self,
        serial: &Serial,
        registry: &Registry,
        held: &Held<'_>,
        publish: impl FnOnce(&mut dyn FnMut(RecentWrite)),
    ) -> Result<u64, Refused> {
        let timestamp = held.commit_published().ok_or(Refused::Aborted)?;
        // After the decision: who begins later has a snapshot that is not below it.
        if registry.serial_live() <= u64::from(held.is_serial()) {
            self.recent.forget(timestamp, FORGOTTEN_MAX);
            self.kept = self.recent.len();
            return Ok(timestamp);
        }
        publish(&mut |write| self.recent.push(timestamp, write));
        if self.kept + FORGET_EVERY <= self.recent.len() {
            self.forget(serial.limit, registry);
        }
        Ok(timestamp)
    }

    /// Forgets what nobody needs. If that leaves too many, the oldest transactions that need them are aborted.
    #[cold]
    fn forget(&mut self, limit: usize, registry: &Registry) {
        self.recent.forget(registry.serial_floor_of_active(), FORGOTTEN_MAX);
        if limit < self.recent.len() {
            let bound = self.recent.timestamp_at(self.recent.len() / ABORTED_PART);
            registry.abort_serial_below(bound);
            self.recent.forget(registry.serial_floor_of_active(), usize::MAX);
        }
        self.kept = self.recent.len();
    }
}

impl Inner {
    /// Commits, whichever way it must, and returns the timestamp.
    #[inline]
    pub(crate) fn decide(&self, held: &Held<'_>, scratch: &mut Scratch) -> Result<u64, Refused> {
        match held.commit() {
            Ok(timestamp) => Ok(timestamp),
            Err(NotCommitted::Publish) => self.commit_serially(held, scratch),
            Err(NotCommitted::Aborted) => Err(Refused::Aborted),
        }
    }

    /// Commits a load of new rows, of which `first_row` is the first.
    pub(crate) fn decide_load(&self, held: &Held<'_>, table: u32, first_row: u64) -> Result<u64, Refused> {
        match held.commit() {
            Ok(timestamp) => Ok(timestamp),
            Err(NotCommitted::Publish) => self.serial.commit(&self.registry, held, None::<&mut Against<'_>>, |push| {
                push(RecentWrite::any(table, first_row));
            }),
            Err(NotCommitted::Aborted) => Err(Refused::Aborted),
        }
    }

    /// Commits the serial way, under the check of what was read if the transaction is SERIALIZABLE.
    #[cold]
    pub(crate) fn commit_serially(&self, held: &Held<'_>, scratch: &mut Scratch) -> Result<u64, Refused> {
        let Scratch { reads, writes, .. } = scratch;
        let mut check = held.is_serial().then(|| reads.against(self, held.pin()));
        let many = if EXACT_MAX < writes.len() { tables_of(writes) } else { Vec::new() };
        self.serial.commit(&self.registry, held, check.as_mut(), |push| {
            if EXACT_MAX < writes.len() {
                return many.iter().for_each(|table| push(RecentWrite::any(*table, 0)));
            }
            for write in writes.iter() {
                RecentWrite::new(held, write.table, write.row, &write.change).into_iter().for_each(&mut *push);
            }
        })
    }
}

fn tables_of(writes: &[Write]) -> Vec<u32> {
    let mut tables: Vec<u32> = writes.iter().map(|write| write.table).collect();
    tables.sort_unstable();
    tables.dedup();
    tables
}
