//! SERIALIZABLE: a commit is refused if it would complete a dangerous structure, and for no other reason.
//!
//! **Invariant:** the SERIALIZABLE transactions that have committed are serializable: some order of them, one after the
//! other, reads what they have read and leaves what they have left. Transactions of other levels do not count: neither
//! their reads nor their writes are recorded (PostgreSQL has it so).
//!
//! This is serializable snapshot isolation (Cahill, Röhm and Fekete 2008; in PostgreSQL: Ports and Grittner 2012),
//! decided at the commit. Nothing is marked while a transaction reads or writes, so readers hold nothing and no
//! transaction waits.
//!
//! # What depends on what
//!
//! Let each transaction T have a snapshot `s(T)` and, if it wrote, a commit timestamp `c(T)`. It *wrote* if it leaves something
//! that others can see; a row that it made and deleted again is nothing, and neither is what it took back to a savepoint. The
//! *place* of T is `c(T)`, or `s(T)` if it wrote nothing; a reader comes after a writer of the same place. These are the ways
//! in which A must come before B in a serial order:
//! - *wr, ww*: B saw, or replaced, what A had written. Snapshots are prefixes of the commit order (a timestamp is taken after
//!   the status left *active*, by the owner or by a helper, and a transaction that meets a committing status decides it
//!   before it answers), and a row changed after the snapshot refuses a change. So `c(A) <= s(B)`.
//! - *rw*: A has read the state before a write of B: `s(A) < c(B)`. It is known from A's reads, as predicates
//!   ([`crate::reads`]; precision locking, Jordan, Banerjee and Batman 1981), and from the versions before and after each
//!   write of B. A write that comes later in the same row counts as well, so the write need not be the next one.
//! - *key*: A gave up a unique key that B leaves taken, though B's snapshot still has A's row, or the key changed hands in
//!   between. A's log has the key, so this is found as *rw* is, and counts as *rw* below. (The other way round, B is refused at
//!   once: the key is there.)
//! - *beyond*: B has learned from the newest rows something that A had written after `s(B)`, and what B wrote does not show it.
//!   If A committed before B last learned something so, B may have seen A, and may not: B is refused as if both were so, by the
//!   rule below for A -> B -> A. So whatever those who have committed learned from the newest rows, their snapshots say as
//!   well, and it is found as *rw* is.
//!
//! *Beyond* is: that a key was free which B did not keep (in its place the key must be free, whether or not it wrote anything);
//! that no row refers to one that B deletes; and why a write was refused, if B went on, from a savepoint or inside of the
//! statement. To one that wrote nothing, and has learned nothing else so, the last is an error and no more: it does not count
//! ([`ReadLog::binds`]). That a key is free which B keeps is *key*, and that a row is as the snapshot has it, when it is
//! changed or locked, is *ww* or a read of the snapshot. What NOWAIT and SKIP LOCKED say of locks is no state of rows.
//!
//! # Theorem
//!
//! If the graph of committed transactions has a cycle, it has three (T1 and T3 may be the same) with T1 -rw-> T2 -rw-> T3,
//! where T3 is the first of the cycle by place, T2 writes, and `c(T3) <= place(T1)`: a *dangerous structure*.
//!
//! Proof. Let T3 have the least place in the cycle. It is a writer: what comes before a reader R is a *wr* from some A with
//! `c(A) <= s(R)` (*beyond* is refused), so A has a lesser place. Let T2 be before T3 in the cycle, and T1 before T2. T2 is
//! no reader: a reader goes on by *rw* only, hence `s(T2) < c(T3)`, and would be the lesser of the two. So `c(T3) < c(T2)`.
//! T2 -> T3 is neither *wr* nor *ww* (`c(T2) <= s(T3) < c(T3)`) nor *key* nor *beyond* (T2 would have committed before T3
//! took the key or met the row, hence before T3's commit). So it is *rw*, and `s(T2) < c(T3)`. T1 -> T2 is neither *wr* nor
//! *ww*: `c(T1) <= s(T2) < c(T3)` contradicts the choice of T3. So it is *rw* or *key* (or *beyond*, which is refused), and
//! `place(T1) >= c(T3)` by the choice of T3. ∎ (Fekete and others 2005, theorem 2.1; the part about readers is theorem 3 of
//! Ports and Grittner.)
//!
//! # The rule
//!
//! The last of the three that commits finds the other two among the committed transactions, and is refused. T3 is never the
//! last. A committed transaction is remembered, as a [`Record`] of what it read, what it wrote, and `out`: the least `c(X)`
//! of the X with T -rw-> X that committed before it. A commit of T compares with the records of transactions that
//! committed after `s(T)`; all others are before T in every way. It is refused if
//! - *T is T1:* T -rw-> T2, and T2 has an `out`; of a T that wrote nothing, one that is at most `s(T)`;
//! - *T is T2:* T has an `out`, and there is T1 -rw-> T with `out <= place(T1)`;
//! - *T went beyond its snapshot:* what it learned from the newest rows meets a write of one that committed after `s(T)`
//!   and before it learned the last of that.
//!
//! A table that is dropped, emptied or copied by a definition is a write of all of its rows. Reads of it stay under its own
//! number, so a writer to the table in its place writes to all rows of the old one, too. ([`Inner::replace_tables`];
//! this holds whatever the level of the transaction that defines: its own writes do not count, but those of others do.)
//!
//! Comparisons and commit happen under one latch, except those that were made before in rounds outside it; records do not
//! change. So of two SERIALIZABLE transactions that overlap the second to hold the latch finds the first. Commits of other
//! levels do not come here. A transaction pushes no record only if it found, *after* its decision, no other live that may
//! write: one that begins later has a snapshot that is not below its place.
//!
//! *A retry makes progress.* T3, and the other of the three, have committed when T is refused. Begun again, T sees both:
//! it is never refused because of the same ones again. Each one not refused has committed, so one always makes
//! progress.
//!
//! # Before the commit
//!
//! A statement of a session looks, too, once it is done ([`Inner::check_so_far`]): by the same rule, with the reads and
//! writes of its transaction so far. If that is refused, the commit would be: reads and writes become more, the least
//! `out` becomes less, records become coarser, and a transaction that wrote nothing has the lesser place. So the
//! statement fails instead, and no client works on for nothing. (If a rollback to a savepoint, or the transaction
//! itself, takes the writes back, it goes on and may commit.) It is no part of the proof: a look that would take long
//! is left out, and the commit compares everything.
//!
//! # READ ONLY
//!
//! A transaction that is declared so is never refused and never waits. It can only be T1, so T2 is refused instead. If no
//! SERIALIZABLE transaction that may write is live when it takes its snapshot `s`, it is in no dangerous structure: T2 is
//! none that begins later (`s <= s(T2) < c(T3) <= s`). Otherwise it is a [`Role::Reader`], which takes its snapshot under
//! the latch and stays in [`Ledger::readers`] while it is open. Its future reads are unknown; so it counts as T1 of
//! every transaction that wrote something and has an `out` of at most `s`. When it has ended, its log has its reads.
//!
//! That is the price: of those that may write and were open when it began, such a reader can get those refused that had
//! read what a third has changed and committed before it began; and none of them twice, since who begins later is not
//! concerned. ([`CommitRefusal::ByReader`] counts them; `overtake bench wire reports` measures it.) DEFERRABLE has
//! nothing to wait for.
//!
//! # Memory
//!
//! Records go when no live transaction that may write has a snapshot below their place. Past [`Serial::limit`] entries the
//! oldest become one *summary*: tables by bits, and the least `out`. That is never wrong, but may refuse more. *Versions*
//! that a check looks at stay: [`crate::raw::recent`] says why.

use crate::engine::Inner;
use crate::error::Error;
use crate::error::Limit;

use crate::raw::live::Role;
use crate::raw::recent::RecentWrite;
use crate::raw::slots::{HeldSlot, Registry, SnapshotPin};
use crate::schema::tables::Tables;
use crate::sync::Latch;
use crate::txn::ReplacedTable;
use crate::txn::begin::{Begin, Isolation};
use crate::txn::reads::{ReadLog, bit};
use crate::txn::scratch::{Scratch, Write};
use core::mem;
use preempt::{Region, Worker};
use stage::Class;
use std::collections::VecDeque;
use std::sync::Arc;

/// Records that are compared in one round outside the latch.
const ROUND: usize = 128;
/// Comparisons of a write with a log that are left to make under the latch.
const FEW: usize = 128;
/// Number of rounds without progress towards the end after which a check goes on under the latch.
const ROUNDS_LOST_MAX: u32 = 64;
/// Records between two searches for those that are not needed any more.
const FORGET_EVERY: usize = 64;
/// Records forgotten, or summed up, under one hold of the latch.
const FORGOTTEN_MAX: usize = 1024;
/// Records kept for the next commits.
const SPARE_MAX: usize = 64;
/// Largest number of entries of a spare record.
const SPARE_WEIGHT_MAX: usize = 4096;
/// Number of writes above which a commit leaves only its tables: the latch is not for that long.
const EXACT_MAX: usize = 4096;
/// Largest number of comparisons of a look before the commit, and of entries of its transaction's log. Beyond, there is
/// no look.
const LOOK_MAX: usize = 256;
/// Timestamp that stands for none.
const NEVER: u64 = u64::MAX;

/// Reason why a commit did not happen.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum CommitRefusal {
    /// Another aborted the transaction.
    Aborted,
    /// The commit would complete a dangerous structure.
    Conflict,
    /// The commit would complete one with a declared READ ONLY transaction that is open.
    ByReader,
}

/// Record of a transaction that has committed, or is about to, as far as others need it.
#[derive(Debug, Default)]
pub(crate) struct Record {
    reads: ReadLog,
    writes: Vec<RecentWrite>,
    /// Tables that it read, and wrote, by bits.
    tables_read: u64,
    tables_written: u64,
    /// Commit timestamp, the least of a summary; [`NEVER`] if the transaction wrote nothing.
    committed: u64,
    /// Place in the serial order, the greatest of a summary.
    place: u64,
    /// Least `c(X)` of the transactions X with T -rw-> X; [`NEVER`] without one.
    out: u64,
    /// The clock when it was pushed, never below its place: records are in this order.
    pushed: u64,
    /// True if only the bits of its tables count.
    is_summary: bool,
}

impl Record {
    /// Fills `record`, which is not shared, with these reads and writes. The reads' log gets empty buffers instead.
    pub(crate) fn fill(record: &mut Arc<Record>, reads: &mut ReadLog, writes: impl Iterator<Item = RecentWrite>) {
        if Arc::get_mut(record).is_none() {
            // A round of another's check still has it.
            *record = Arc::default();
        }
        let record = Arc::get_mut(record).expect("it is ours, or new");
        record.reads.reset();
        record.writes.clear();
        mem::swap(&mut record.reads, reads);
        record.writes.extend(writes);
        record.make_ready();
    }

    fn make_ready(&mut self) {
        self.reads.sort();
        self.tables_read = self.reads.tables();
        self.tables_written = self.writes.iter().fold(0, |bits, write| bits | bit(write.table));
        (self.committed, self.out, self.is_summary) = (NEVER, NEVER, false);
    }

    fn wrote(&self) -> bool {
        self.tables_written != 0
    }

    fn weight(&self) -> usize {
        1 + 3 * self.writes.len() + self.reads.weight()
    }
}

/// State of the check of one commit.
struct Check<'a> {
    tables: &'a Tables,
    pin: &'a SnapshotPin,
    key: &'a mut Vec<u8>,
    snapshot: u64,
    /// Least timestamp of a transaction that wrote what this one has read.
    out: u64,
}

impl Check<'_> {
    /// Returns true if `reader` has read what `writer` wrote.
    fn meet(&mut self, reader: &Record, writer: &Record) -> bool {
        if reader.tables_read & writer.tables_written == 0 {
            return false;
        }
        let Check { tables, pin, key, .. } = self;
        let is_coarse = reader.is_summary || writer.is_summary;
        is_coarse || writer.writes.iter().any(|write| reader.reads.meets(tables, pin, write, key))
    }

    /// Compares the reads of our transaction with the writes of another. Returns false if ours is T1 of a dangerous
    /// structure.
    fn pass_reads(&mut self, own: &Record, other: &Record) -> bool {
        if other.committed == NEVER || other.place <= self.snapshot || !self.meet(own, other) {
            return true;
        }
        let Check { tables, pin, key, snapshot, .. } = self;
        let is_beyond = own.reads.tables_beyond() & other.tables_written != 0
            && own.reads.is_beyond(other.committed)
            && (other.is_summary || other.writes.iter().any(|write| own.reads.meets_beyond(tables, pin, write, key)));
        // A refusal of one that leaves nothing is only an error; that it had a key is not.
        let is_bound = own.wrote() || own.reads.binds() && !preempt::plants::is_planted("passing_key_unchecked");
        if is_bound && is_beyond {
            return false;
        }
        self.out = self.out.min(other.committed.max(*snapshot + 1));
        // A writer comes after T3, which has committed, in any case.
        let is_before = if own.wrote() { other.out == NEVER } else { *snapshot < other.out };
        is_before || preempt::plants::is_planted("pivot_committed_unchecked")
    }

    /// Compares the writes of our transaction with the reads of another. Returns false if ours is T2 of a dangerous
    /// structure.
    fn pass_writes(&mut self, own: &Record, other: &Record) -> bool {
        other.place < self.out || !self.meet(other, own)
    }
}

/// State of SERIALIZABLE commits.
pub(crate) struct Serial {
    ledger: Latch<Ledger>,
    /// Largest number of entries that are kept.
    limit: usize,
}

/// Committed transactions that a live one may have to be compared with.
#[derive(Default)]
struct Ledger {
    records: VecDeque<Arc<Record>>,
    /// Number of the first record that is here. Records keep their numbers.
    first: u64,
    /// Weight of all records.
    kept: usize,
    /// Records since the last search for those that are not needed any more.
    since: usize,
    spare: Vec<Arc<Record>>,
    /// Records to be freed outside of the latch.
    garbage: Vec<Arc<Record>>,
    /// Declared READ ONLY transactions that are open and began beside writers: owner and snapshot.
    readers: Vec<(u64, u64)>,
    refused_by_readers: u64,
}

/// Parameters of a commit.
pub(crate) struct Commit<'a> {
    pub(crate) tables: &'a Tables,
    pub(crate) registry: &'a Registry,
    pub(crate) held: &'a HeldSlot<'a>,
    /// Reads and writes of the transaction. If the record stays in the ledger, a spare one takes its place.
    pub(crate) record: &'a mut Arc<Record>,
    /// Buffer for keys.
    pub(crate) key: &'a mut Vec<u8>,
    /// True if any word names the transaction, so that it needs a timestamp.
    pub(crate) has_changes: bool,
}

/// Progress of a commit through the ledger: the records up to which it has compared its reads, and its writes.
struct Progress {
    reads: u64,
    writes: u64,
}

impl Serial {
    pub(crate) fn new(limit: usize) -> Serial {
        Serial { ledger: Latch::new(Ledger::default()), limit }
    }

    /// Returns the number of entries that are kept.
    pub(crate) fn kept(&self) -> usize {
        self.ledger.lock(&Region::enter()).kept
    }

    /// Returns the number of commits refused for the sake of open READ ONLY transactions.
    pub(crate) fn refused_by_readers(&self) -> u64 {
        self.ledger.lock(&Region::enter()).refused_by_readers
    }

    /// Begins a declared READ ONLY transaction. Returns none if all slots are in use.
    pub(crate) fn begin_reader<'e>(
        &self,
        registry: &'e Registry,
        class: Class,
        worker: Option<&'static Worker>,
    ) -> Option<HeldSlot<'e>> {
        let before = registry.look_at_serial();
        if before.live() == 0 {
            let held = registry.begin(class, worker, Role::None)?;
            if registry.look_at_serial() == before {
                return Some(held); // No writer was live when it took its snapshot.
            }
            held.abort();
            held.release();
        }
        let region = Region::enter();
        let mut ledger = self.ledger.lock(&region);
        let held = registry.begin(class, worker, Role::Reader)?;
        ledger.readers.push((held.owner(), held.snapshot()));
        Some(held)
    }

    /// Ends a declared READ ONLY transaction. With `record` it has committed, and its reads count from now on.
    pub(crate) fn end_reader(&self, registry: &Registry, held: &HeldSlot<'_>, record: Option<&mut Arc<Record>>) {
        let region = Region::enter();
        let mut ledger = self.ledger.lock(&region);
        let Some(at) = ledger.readers.iter().position(|(owner, _)| *owner == held.owner()) else { return };
        ledger.readers.swap_remove(at);
        // Writers that began later are not concerned.
        if let Some(record) = record
            && registry.serial_floor_of_active() < held.snapshot()
        {
            ledger.push(record, held.snapshot(), registry.now());
        }
    }

    /// Returns the records of transactions that committed after the timestamp; none if there are many, or if they wrote
    /// much.
    fn few_since(&self, timestamp: u64) -> Vec<Arc<Record>> {
        let region = Region::enter();
        let ledger = self.ledger.lock(&region);
        let from = ledger.number_above(timestamp);
        if are_many(ledger.from(from).map(|other| 1 + other.writes.len()), LOOK_MAX) {
            return Vec::new();
        }
        ledger.from(from).cloned().collect()
    }

    /// Commits a SERIALIZABLE transaction that may write. Returns the timestamp, if it needs one.
    pub(crate) fn commit(&self, commit: Commit<'_>) -> Result<Option<u64>, CommitRefusal> {
        let Commit { tables, registry, held, record, key, has_changes } = commit;
        let mut check = Check { tables, pin: held.pin(), key, snapshot: held.snapshot(), out: NEVER };
        let mut progress = None;
        let (mut least_left, mut rounds_lost) = (u64::MAX, 0);
        let mut round: Vec<Arc<Record>> = Vec::new();
        loop {
            let region = Region::enter();
            let mut ledger = self.ledger.lock(&region);
            let progress = progress.get_or_insert_with(|| {
                let start = ledger.number_above(held.snapshot());
                Progress { reads: start, writes: start }
            });
            let few = if rounds_lost == ROUNDS_LOST_MAX { usize::MAX } else { FEW };
            if ledger.finish(progress, &mut check, record, few)? {
                let result = ledger.decide(self.limit, registry, held, record, check.out, has_changes);
                let garbage = mem::take(&mut ledger.garbage);
                drop(ledger);
                drop(region);
                drop(garbage);
                return result;
            }
            let left = 2 * ledger.end() - progress.reads - progress.writes;
            let is_reads = progress.reads < ledger.end();
            let from = if is_reads { progress.reads } else { progress.writes };
            round.clear();
            round.extend(ledger.from(from).take(ROUND).cloned());
            drop(ledger);
            drop(region);
            // Here an interrupt is welcome, and others commit.
            let passes = round.iter().all(|other| match is_reads {
                true => check.pass_reads(record, other),
                false => check.pass_writes(record, other),
            });
            if !passes {
                return Err(CommitRefusal::Conflict);
            }
            let to = from + round.len() as u64;
            if is_reads {
                progress.reads = to
            } else {
                progress.writes = to
            }
            rounds_lost = if left < least_left { 0 } else { rounds_lost + 1 };
            least_left = least_left.min(left);
        }
    }

    /// Forgets records that are not needed any more. To be called now and then.
    pub(crate) fn housekeep(&self, registry: &Registry) {
        let region = Region::enter();
        let mut ledger = self.ledger.lock(&region);
        ledger.forget(registry.serial_floor_of_active());
        let garbage = mem::take(&mut ledger.garbage);
        drop(ledger);
        drop(region);
        drop(garbage);
    }
}

impl Ledger {
    /// Returns the number of the next record.
    fn end(&self) -> u64 {
        self.first + self.records.len() as u64
    }

    /// Returns the number of the first record that was pushed above the timestamp.
    fn number_above(&self, timestamp: u64) -> u64 {
        self.first + self.records.partition_point(|record| record.pushed <= timestamp) as u64
    }

    /// Returns the records from this number on.
    fn from(&self, number: u64) -> impl Iterator<Item = &Arc<Record>> {
        self.records.range(number.saturating_sub(self.first) as usize..)
    }

    /// Compares with all the records that are left, if that takes few comparisons. Returns true if it did.
    fn finish(
        &self,
        progress: &mut Progress,
        check: &mut Check<'_>,
        own: &Record,
        few: usize,
    ) -> Result<bool, CommitRefusal> {
        if are_many(self.from(progress.reads).map(|other| 1 + other.writes.len()), few) {
            return Ok(false);
        }
        let passes = self.from(progress.reads).all(|other| check.pass_reads(own, other));
        progress.reads = self.end();
        if !passes {
            return Err(CommitRefusal::Conflict);
        }
        // Only a transaction that comes before another can come between two. From here on its `out` is known: records
        // come in the order of their timestamps, so one that is found later is not less.
        if check.out == NEVER || !own.wrote() {
            return Ok(true);
        }
        if are_many(self.from(progress.writes).map(|_| 1 + own.writes.len()), few) {
            return Ok(false);
        }
        let passes = self.from(progress.writes).all(|other| check.pass_writes(own, other));
        if passes { Ok(true) } else { Err(CommitRefusal::Conflict) }
    }

    /// Decides the commit itself.
    fn decide(
        &mut self,
        limit: usize,
        registry: &Registry,
        held: &HeldSlot<'_>,
        record: &mut Arc<Record>,
        out: u64,
        has_changes: bool,
    ) -> Result<Option<u64>, CommitRefusal> {
        if record.wrote() && self.readers.iter().any(|(_, snapshot)| out <= *snapshot) {
            self.refused_by_readers += 1;
            return Err(CommitRefusal::ByReader);
        }
        let timestamp = if has_changes { Some(held.commit().ok_or(CommitRefusal::Aborted)?) } else { None };
        // After the decision: a transaction that begins later has a snapshot that is not below it.
        if registry.look_at_serial().live() <= 1 {
            self.forget(NEVER);
            return Ok(timestamp);
        }
        let own = Arc::get_mut(record).expect("nobody else has it yet");
        own.out = out;
        match timestamp.filter(|_| own.wrote()) {
            Some(timestamp) => {
                own.committed = timestamp;
                self.push(record, timestamp, timestamp);
            }
            None => self.push(record, held.snapshot(), registry.now()),
        }
        if FORGET_EVERY <= self.since || limit < self.kept {
            self.forget(registry.serial_floor_of_active());
            if limit < self.kept {
                self.sum_up(limit - limit / 4);
            }
        }
        Ok(timestamp)
    }

    /// Adds a record, which is not shared, and leaves a spare one in its place.
    fn push(&mut self, record: &mut Arc<Record>, place: u64, pushed: u64) {
        let own = Arc::get_mut(record).expect("nobody else has it yet");
        (own.place, own.pushed) = (place, pushed);
        debug_assert!(self.records.back().is_none_or(|last| last.pushed <= pushed), "records come in this order");
        self.kept += own.weight();
        self.since += 1;
        let spare = self.spare.pop().unwrap_or_default();
        self.records.push_back(mem::replace(record, spare));
    }

    /// Forgets records up to `floor`, a bounded number of them.
    fn forget(&mut self, floor: u64) {
        self.since = 0;
        for _ in 0..FORGOTTEN_MAX {
            let Some(record) = self.records.pop_front_if(|record| record.pushed <= floor) else { return };
            self.first += 1;
            self.let_go(record);
        }
    }

    fn let_go(&mut self, record: Arc<Record>) {
        let weight = record.weight();
        self.kept -= weight;
        let is_spare = self.spare.len() < SPARE_MAX && weight <= SPARE_WEIGHT_MAX;
        if is_spare { self.spare.push(record) } else { self.garbage.push(record) }
    }

    /// Merges the oldest records, a bounded number of them, into one, until no more than `wanted` entries are kept.
    #[cold]
    fn sum_up(&mut self, wanted: usize) {
        let mut sum = Record { is_summary: true, committed: NEVER, out: NEVER, ..Record::default() };
        for _ in 0..FORGOTTEN_MAX {
            if self.kept <= wanted {
                break;
            }
            let Some(record) = self.records.pop_front() else { break };
            self.first += 1;
            sum.tables_read |= record.tables_read;
            sum.tables_written |= record.tables_written;
            sum.committed = sum.committed.min(record.committed);
            sum.place = sum.place.max(record.place);
            sum.out = sum.out.min(record.out);
            sum.pushed = sum.pushed.max(record.pushed);
            self.let_go(record);
        }
        // The summary has the number of the last record that it stands for.
        self.first -= 1;
        self.kept += sum.weight();
        self.records.push_front(Arc::new(sum));
    }
}

/// Returns true if the sum is more than `few`. It looks no further than it must.
fn are_many(mut counts: impl Iterator<Item = usize>, few: usize) -> bool {
    let mut left = few;
    counts.any(|count| match left.checked_sub(count) {
        Some(less) => {
            left = less;
            false
        }
        None => true,
    })
}

impl Inner {
    /// Takes a slot for a transaction.
    #[inline]
    pub(crate) fn hold(&self, begin: Begin, worker: Option<&'static Worker>) -> Result<HeldSlot<'_>, Error> {
        let held = match (begin.isolation, begin.read_only) {
            (Isolation::Serializable, true) => self.serial.begin_reader(&self.registry, begin.class, worker),
            (Isolation::Serializable, false) => self.registry.begin(begin.class, worker, Role::Writer),
            (Isolation::ReadCommitted | Isolation::RepeatableRead, _) => {
                self.registry.begin(begin.class, worker, Role::None)
            }
        };
        held.ok_or(Error::Limit(Limit::Transactions))
    }

    /// Commits a transaction that has changes, whichever way it must, and returns the timestamp.
    #[inline]
    pub(crate) fn decide(&self, held: &HeldSlot<'_>, scratch: &mut Scratch) -> Result<u64, CommitRefusal> {
        if held.is_serial() {
            return self.commit_serially(held, scratch).map(|timestamp| timestamp.expect("it has changes"));
        }
        held.commit().ok_or(CommitRefusal::Aborted)
    }

    /// Ends a transaction without changes that records its reads.
    #[cold]
    pub(crate) fn commit_reads(&self, held: &HeldSlot<'_>, scratch: &mut Scratch) -> Result<(), CommitRefusal> {
        if held.is_serial() {
            return self.commit_serially(held, scratch).map(drop);
        }
        let record = scratch.record.get_or_insert_default();
        Record::fill(record, &mut scratch.reads, core::iter::empty());
        self.serial.end_reader(&self.registry, held, Some(record));
        Ok(())
    }

    /// Refuses a transaction whose commit would be refused by its reads and writes so far, if that is quickly found.
    pub(crate) fn check_so_far(&self, held: &HeldSlot<'_>, scratch: &mut Scratch) -> Result<(), CommitRefusal> {
        self.check_early(held, scratch, ReadLog::clone)
    }

    /// Checks as [`Inner::check_so_far`] does, without the reads beyond the snapshot.
    pub(crate) fn check_snapshot_so_far(
        &self,
        held: &HeldSlot<'_>,
        scratch: &mut Scratch,
    ) -> Result<(), CommitRefusal> {
        self.check_early(held, scratch, ReadLog::without_beyond)
    }

    fn check_early(
        &self,
        held: &HeldSlot<'_>,
        scratch: &mut Scratch,
        copy: impl Fn(&ReadLog) -> ReadLog,
    ) -> Result<(), CommitRefusal> {
        let Scratch { reads, writes, key, .. } = scratch;
        if LOOK_MAX < reads.weight() + writes.len() {
            return Ok(());
        }
        let others = self.serial.few_since(held.snapshot());
        if others.is_empty() || LOOK_MAX < others.len() * writes.len() {
            return Ok(());
        }
        let exact = |write: &Write| RecentWrite::new(held, write.table, write.row, &write.change);
        let writes = writes.iter().filter_map(exact).collect();
        let mut own = Record { reads: copy(reads), writes, ..Record::default() };
        own.make_ready();
        let mut check = Check { tables: &self.tables, pin: held.pin(), key, snapshot: held.snapshot(), out: NEVER };
        let passes = others.iter().all(|other| check.pass_reads(&own, other))
            && (check.out == NEVER || !own.wrote() || others.iter().all(|other| check.pass_writes(&own, other)));
        if passes { Ok(()) } else { Err(CommitRefusal::Conflict) }
    }

    /// Records, before the decision of a transaction, that it takes away all rows of these tables. For a reader of one
    /// it is a write of the whole table; and so are writes of others to the table in its place, as their rows are not
    /// compared.
    pub(crate) fn replace_tables(&self, held: &HeldSlot<'_>, scratch: &mut Scratch, replaced: &[ReplacedTable]) {
        for ReplacedTable { old, new } in replaced {
            if held.is_serial() {
                scratch.replaced.extend(old.elders().iter().copied().chain([old.id]));
            }
            if let Some(new) = new {
                // Tables before the old one were read only by transactions that began before it was there. If they have
                // ended, they have done so before a transaction begins that writes to the new one.
                let are_read = self.registry.look_at_serial().live() != 0;
                let elders = if are_read { old.elders() } else { &[] };
                new.set_elders(elders.iter().copied().chain([old.id]).collect());
            }
        }
    }

    /// Adds the tables that were replaced by those that were written.
    fn add_elders(&self, held: &HeldSlot<'_>, writes: &[Write], elders: &mut Vec<u32>) {
        let mut last = None;
        for write in writes {
            if last.replace(write.table) == Some(write.table) {
                continue;
            }
            for elder in self.table(write.table, held.pin()).elders() {
                if !elders.contains(elder) {
                    elders.push(*elder);
                }
            }
        }
    }

    fn commit_serially(&self, held: &HeldSlot<'_>, scratch: &mut Scratch) -> Result<Option<u64>, CommitRefusal> {
        let Scratch { reads, writes, replaced, record, key, .. } = scratch;
        let record = record.get_or_insert_default();
        self.add_elders(held, writes, replaced);
        let has_changes = !writes.is_empty() || !replaced.is_empty();
        let whole = replaced.drain(..).map(RecentWrite::any);
        if EXACT_MAX < writes.len() {
            Record::fill(record, reads, tables_of(writes).map(RecentWrite::any).chain(whole));
        } else {
            let exact = |write: &Write| RecentWrite::new(held, write.table, write.row, &write.change);
            Record::fill(record, reads, writes.iter().filter_map(exact).chain(whole));
        }
        let (tables, registry) = (&self.tables, &*self.registry);
        self.serial.commit(Commit { tables, registry, held, record, key, has_changes })
    }
}

fn tables_of(writes: &[Write]) -> impl Iterator<Item = u32> {
    let mut tables: Vec<u32> = writes.iter().map(|write| write.table).collect();
    tables.sort_unstable();
    tables.dedup();
    tables.into_iter()
}
