//! A transaction: its beginning and its two ends.
//!
//! **Invariant:** everything that it did is named by its write set, so either end visits each change once: a commit to
//! replace its word by the timestamp, an abort to undo it, latest first. The slot goes back when no word names it.

pub(crate) mod begin;
pub(crate) mod call;
pub(crate) mod insert_many;
pub(crate) mod lock;
pub(crate) mod nested;
pub(crate) mod newest;
pub(crate) mod open;
pub(crate) mod orphans;
pub(crate) mod read;
pub(crate) mod read_many;
pub(crate) mod reads;
pub(crate) mod row_scan;
pub(crate) mod scratch;
pub(crate) mod serial;
pub(crate) mod settle;
pub(crate) mod write;

use crate::counters::{BytesByTable, Counters};
use crate::engine::Inner;
use crate::error::{Error, Result};
use crate::locks::Waiter;
use crate::log::LogPosition;
use crate::raw::activity::SuspendedHold;
use crate::raw::chain::View;
use crate::raw::garbage::{Dead, DeadVersionKind};
use crate::raw::reader::ReadHold;
use crate::raw::shared::SharedTables;
use crate::raw::slots::{HeldSlot, LATEST, slot_of};
use crate::redo;
use crate::schema::table::Table;
use crate::txn::begin::{Begin, Isolation};
use crate::txn::call::Calls;
use crate::txn::lock::RowShared;
use crate::txn::scratch::{Kind, Scratch};
use crate::txn::serial::CommitRefusal;
use core::cell::{BorrowMutError, Cell, RefCell, RefMut};
use preempt::Worker;
use stage::split::{self, Entered, RunPart};
use std::sync::Arc;

/// A transaction. It reads the snapshot of its beginning and its own earlier commands; dropping it aborts it.
///
/// Every method borrows it shared, so that rows it has read stay borrowed while it writes. After an error that [is
/// retryable](Error::is_retryable) nothing but dropping it makes sense.
pub struct Txn<'e> {
    pub(crate) inner: &'e Inner,
    /// Hold on the slot, given up by commit and abort alone, which consume the transaction.
    held: Option<HeldSlot<'e>>,
    scratch: RefCell<Option<Box<Scratch>>>,
    begin: Begin,
    /// Number of the command that runs.
    command: Cell<u32>,
    /// Highest number of a nested command that has written, 0 without one; see [`Txn::nested`].
    command_max: Cell<u32>,
    /// Snapshots of commands around nested ones that read by a newer one.
    outer_snapshots: RefCell<Vec<ReadHold>>,
    /// True if this command has written: the next read then begins a new one, which sees it.
    wrote: Cell<bool>,
    /// True if reads do not see the writes of this command, however many there are; see [`Txn::hold_command`].
    pub(crate) command_held: Cell<bool>,
    /// True if reads see the newest committed rows; see [`Txn::each_newest`].
    pub(crate) sees_newest: Cell<bool>,
    /// Bits of the tables that it has written to.
    pub(crate) tables: Cell<u64>,
    /// Tables that it has announced to read.
    pub(crate) shared: Cell<SharedTables>,
    /// Tables that it has locked in mode ROW SHARE or a stronger one, the last ones.
    pub(crate) row_shared: Cell<RowShared>,
    /// Session of the transaction, if it has one: then it can wait.
    pub(crate) waiter: Option<&'e Arc<Waiter>>,
    /// True if this statement has been told to wait: it is undone, whatever it made of that.
    pub(crate) must_wait: Cell<bool>,
    /// True after [`Txn::take_back`].
    pub(crate) is_taken_back: Cell<bool>,
    /// True after [`Txn::give_back_when_waiting`].
    pub(crate) gives_back: Cell<bool>,
    /// True after [`Txn::has_read_nothing`].
    pub(crate) is_unread: Cell<bool>,
    /// True while the closure of a change runs, which may read but not write.
    pub(crate) is_changing: Cell<bool>,
    /// True during [`Txn::taking_nothing`].
    pub(crate) takes_nothing: Cell<bool>,
    pub(crate) calls: Calls,
    /// True if the parts of its run are stamped.
    is_split: bool,
}

/// A transaction between two statements. Its holder must end it: [`Txn::resume`], then either end.
pub(crate) struct Suspended {
    pub(crate) hold: SuspendedHold,
    scratch: Box<Scratch>,
    begin: Begin,
    command: u32,
    wrote: bool,
    /// Registration of its snapshot, if nested commands had another.
    outer_snapshots: Vec<ReadHold>,
    tables: u64,
    shared: SharedTables,
    /// True if its snapshot is not registered: it must refresh it.
    hidden: bool,
}

/// A point in a transaction to which it can go back.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Mark {
    writes: usize,
    locks: usize,
    shared: SharedTables,
    /// Tables that it has announced to write to, those of its writes among them.
    tables: u64,
}

impl Mark {
    pub(crate) const START: Mark = Mark { writes: 0, locks: 0, shared: SharedTables::NONE, tables: 0 };
}

/// A table whose rows go all at once: dropped, emptied or copied.
#[derive(Debug, Clone)]
pub struct ReplacedTable {
    /// Table that loses its rows.
    pub old: Arc<Table>,
    /// Table that is in its place from now on, which no one else knows yet.
    pub new: Option<Arc<Table>>,
}

/// Hook around the decision of a commit: the transaction's effects elsewhere become visible together with its rows.
///
/// The transaction still holds its locks when `after` is called, so a transaction that waits for one of them finds that
/// done.
pub trait AtDecision {
    /// True if there is anything to be done. The commit then fails if another took the transaction's locks, even if it
    /// has written no row.
    const IS_NEEDED: bool;
    /// Returns the tables whose rows the transaction takes away all at once, each with the one that has them from now
    /// on, if any. It has locked them against writers. When it has committed, they can be read, but no row of them can
    /// be changed or locked.
    #[inline]
    fn replaced(&self) -> &[ReplacedTable] {
        &[]
    }
    /// Called when others may see the transaction's rows from here on. Returning false refuses the commit, with
    /// [`Error::SerializationFailure`].
    fn before(&mut self) -> bool;
    /// Called when the transaction is committed, or is not.
    fn after(&mut self, is_committed: bool);
}

/// Reports a decision, while the transaction still has its locks.
#[inline]
pub(crate) fn tell<D: AtDecision>(decision: &mut D, is_committed: bool) {
    if is_committed {
        decision.replaced().iter().for_each(|replaced| replaced.old.retire());
    }
    decision.after(is_committed);
}

impl AtDecision for () {
    const IS_NEEDED: bool = false;
    #[inline]
    fn before(&mut self) -> bool {
        true
    }
    #[inline]
    fn after(&mut self, _: bool) {}
}

impl Suspended {
    /// See [`crate::Session::set_writable`].
    pub(crate) fn set_writable(&mut self, is_writable: bool) {
        self.begin.refuses_writes = !is_writable;
    }

    pub(crate) fn slot(&self) -> usize {
        slot_of(self.hold.owner())
    }

    /// Returns the number of changes, locks, and reads that a commit compares.
    #[inline]
    pub(crate) fn weight(&self) -> usize {
        let Scratch { writes, locks, reads, .. } = &*self.scratch;
        writes.len() + locks.len() + reads.weight()
    }

    pub(crate) fn mark(&self) -> Mark {
        Mark {
            writes: self.scratch.writes.len(),
            locks: self.scratch.locks.len(),
            shared: self.shared,
            tables: self.tables,
        }
    }
}

impl<'e> Txn<'e> {
    #[inline]
    pub(crate) fn new(inner: &'e Inner, held: HeldSlot<'e>, begin: Begin) -> Txn<'e> {
        let scratch = inner.scratch[held.index()].take().unwrap_or_default();
        Txn {
            inner,
            held: Some(held),
            scratch: RefCell::new(Some(scratch)),
            begin,
            command: Cell::new(0),
            command_max: Cell::new(0),
            outer_snapshots: RefCell::default(),
            wrote: Cell::new(false),
            command_held: Cell::new(false),
            sees_newest: Cell::new(false),
            tables: Cell::new(0),
            shared: Cell::new(SharedTables::NONE),
            row_shared: Cell::default(),
            waiter: None,
            must_wait: Cell::new(false),
            is_taken_back: Cell::new(false),
            gives_back: Cell::new(false),
            is_unread: Cell::new(false),
            is_changing: Cell::new(false),
            takes_nothing: Cell::new(false),
            calls: Calls::new(),
            is_split: split::is_on(),
        }
    }

    /// Returns the transaction as one of a session.
    #[inline]
    pub(crate) fn in_session(mut self, waiter: &'e Arc<Waiter>) -> Txn<'e> {
        self.held().set_session(waiter.id);
        self.waiter = Some(waiter);
        self
    }

    /// Suspends it between two statements. A READ COMMITTED transaction that has changed and locked nothing then holds
    /// nothing back.
    #[inline]
    pub(crate) fn suspend(mut self, may_hide: bool) -> Suspended {
        self.end_calls();
        let held = self.held.take().expect("only the two ends give it up");
        let scratch = self.scratch.take().expect("only the two ends give it up");
        let mut outer_snapshots = self.outer_snapshots.take();
        outer_snapshots.retain(|hold| hold.snapshot() == held.snapshot());
        // The next command sees what nested ones have written.
        let last = self.command.get().max(self.command_max.get());
        let hidden = may_hide && self.reads_latest() && scratch.writes.is_empty() && scratch.locks.is_empty();
        Suspended {
            hold: held.suspend(hidden),
            scratch,
            begin: self.begin,
            command: last,
            wrote: self.wrote.get() || self.command.get() < last,
            outer_snapshots,
            tables: self.tables.get(),
            shared: self.shared.get(),
            hidden,
        }
    }

    /// Resumes it. With `refresh` it sees the state that is committed now.
    #[inline]
    pub(crate) fn resume(
        inner: &'e Inner,
        suspended: Suspended,
        waiter: &'e Arc<Waiter>,
        worker: Option<&'static Worker>,
        refresh: bool,
    ) -> Txn<'e> {
        let Suspended { hold, scratch, begin, command, wrote, mut outer_snapshots, tables, shared, hidden } = suspended;
        let held = inner.registry.resume(hold, worker);
        held.walk();
        if hidden || refresh {
            // An abort by another meanwhile is found by the next call.
            held.refresh(hidden);
            outer_snapshots.clear();
        }
        Txn {
            inner,
            held: Some(held),
            scratch: RefCell::new(Some(scratch)),
            begin,
            command: Cell::new(command),
            command_max: Cell::new(0),
            outer_snapshots: RefCell::new(outer_snapshots),
            wrote: Cell::new(wrote),
            command_held: Cell::new(false),
            sees_newest: Cell::new(false),
            tables: Cell::new(tables),
            shared: Cell::new(shared),
            row_shared: Cell::default(),
            waiter: Some(waiter),
            must_wait: Cell::new(false),
            is_taken_back: Cell::new(false),
            gives_back: Cell::new(false),
            is_unread: Cell::new(false),
            is_changing: Cell::new(false),
            takes_nothing: Cell::new(false),
            calls: Calls::new(),
            is_split: split::is_on(),
        }
    }

    /// Ends a transaction that has changed nothing, or has undone all it did and is to be run again when a wait is over.
    /// It counts neither as committed nor as aborted.
    pub(crate) fn give_up(mut self) {
        self.walk_to_the_end();
        if let (Some(held), Some(scratch)) = (self.held.take(), self.scratch.take()) {
            debug_assert!(scratch.writes.is_empty(), "it was undone");
            note_loss(&held, self.waiter);
            held.abort();
            let counters = &self.inner.counters[held.index()];
            self.inner.end(held, scratch, counters);
        }
    }

    /// Enters a part of its run, if these are stamped.
    #[inline]
    pub(crate) fn part(&self, part: RunPart) -> Entered {
        if self.is_split { split::enter(part) } else { Entered::NOTHING }
    }

    /// Returns its present point.
    #[inline]
    pub(crate) fn mark(&self) -> Mark {
        let scratch = self.scratch();
        Mark {
            writes: scratch.writes.len(),
            locks: scratch.locks.len(),
            shared: self.shared.get(),
            tables: self.tables.get(),
        }
    }

    /// Takes a new snapshot, for a transaction that has read nothing by the one before. An abort by another meanwhile
    /// is found by the next call.
    #[inline]
    pub(crate) fn renew_snapshot(&self) {
        self.held().refresh(false);
    }

    /// Undoes its work since the mark, and releases the locks taken since.
    pub(crate) fn undo_to(&self, mark: Mark) {
        if self.undo_quietly_to(mark) {
            self.keys_released();
        }
    }

    /// Undoes as [`Txn::undo_to`] does, without waking those that wait for a unique key. Returns true if that is still
    /// to be done.
    pub(crate) fn undo_quietly_to(&self, mark: Mark) -> bool {
        let _call = self.call();
        let mut scratch = self.scratch();
        let undone = mark.writes < scratch.writes.len();
        while mark.writes < scratch.writes.len() {
            self.inner.undo_last(self.held(), &mut scratch, self.counters());
        }
        self.locks_undone(&mut scratch, mark.locks, mark.tables);
        drop(scratch);
        self.share_again(mark.shared);
        undone
    }

    /// Returns true if its writes meet the newest committed version, whatever its snapshot sees.
    #[inline]
    pub fn reads_latest(&self) -> bool {
        self.begin.isolation == Isolation::ReadCommitted
    }

    /// Returns true if no other transaction has aborted it.
    pub(crate) fn check_alive(&self) -> bool {
        self.held().is_active()
    }

    /// Returns its number, as views show it.
    pub fn id(&self) -> u64 {
        self.held().owner()
    }

    #[inline]
    pub(crate) fn held(&self) -> &HeldSlot<'e> {
        self.held.as_ref().expect("only the two ends give it up")
    }

    #[inline]
    pub(crate) fn scratch(&self) -> RefMut<'_, Scratch> {
        RefMut::map(self.scratch.borrow_mut(), |scratch| &mut **scratch.as_mut().expect("only the two ends give it up"))
    }

    /// Returns the scratch, if it is not in use.
    pub(crate) fn try_scratch(&self) -> Result<RefMut<'_, Scratch>, BorrowMutError> {
        let scratch = self.scratch.try_borrow_mut()?;
        Ok(RefMut::map(scratch, |scratch| &mut **scratch.as_mut().expect("only the two ends give it up")))
    }

    #[inline]
    pub(crate) fn counters(&self) -> &'e Counters {
        &self.inner.counters[self.held().index()]
    }

    /// Returns the number of the snapshot that it reads.
    pub fn snapshot_number(&self) -> u64 {
        self.held().snapshot()
    }

    /// Checks that it may go on. Every call begins with this; a statement that computes for long between two calls asks
    /// now and then.
    ///
    /// # Errors
    /// [`Error::Taken`] and the like if another has aborted it, [`Error::Cancelled`] if its statement was cancelled or
    /// has taken longer than it may.
    #[inline]
    pub fn check_active(&self) -> Result<()> {
        if !self.held().is_active() {
            return Err(self.lost());
        }
        match self.waiter {
            Some(waiter) if waiter.is_stopped() => Err(Error::Cancelled),
            _ => Ok(()),
        }
    }

    /// Returns the view of a read that begins now.
    #[inline]
    pub(crate) fn view(&self) -> Result<View> {
        self.check_active()?;
        if self.wrote.get() && !self.command_held.get() {
            self.command.set(self.next_command()?);
            self.wrote.set(false);
        }
        let held = self.held();
        let snapshot = if self.sees_newest.get() { LATEST } else { held.snapshot() };
        Ok(View { snapshot, owner: held.word(0), command: self.command.get() })
    }

    /// Returns the number of a write that begins now.
    #[inline]
    pub(crate) fn write_command(&self) -> Result<u32> {
        self.check_active()?;
        self.check_writable()?;
        if self.is_changing.get() {
            return Err(Error::WithinChange);
        }
        self.wrote.set(true);
        Ok(self.command.get())
    }

    /// Returns the reason why another has aborted it.
    #[cold]
    pub(crate) fn lost(&self) -> Error {
        lost(self.held())
    }

    /// Fails if the transaction is declared READ ONLY, or may write no more.
    ///
    /// # Errors
    /// [`Error::ReadOnly`]
    pub fn check_writable(&self) -> Result<()> {
        if self.begin.read_only || self.begin.refuses_writes { Err(Error::ReadOnly) } else { Ok(()) }
    }

    /// Returns the view of a read of the newest committed versions, and of our own commands before this one.
    pub(crate) fn latest_view(&self) -> Result<View> {
        Ok(View { snapshot: LATEST, ..self.view()? })
    }

    /// Commits. Replies may leave when the log has reached the position returned.
    ///
    /// # Errors
    /// [`Error::Taken`] if a more important transaction aborted it before; [`Error::SerializationFailure`] if it is
    /// SERIALIZABLE and would complete a dangerous structure (see the module `serial`).
    #[inline]
    pub fn commit(self) -> Result<LogPosition> {
        self.commit_with(&mut ())
    }

    /// Commits as [`Txn::commit`] does, with a hook at the decision.
    ///
    /// # Errors
    /// Those of [`Txn::commit`].
    #[inline]
    pub fn commit_with<D: AtDecision>(mut self, decision: &mut D) -> Result<LogPosition> {
        let _part = self.part(RunPart::Commit);
        let log = &self.inner.config.log;
        self.walk_to_the_end();
        let held = self.held.take().expect("only the two ends give it up");
        let mut scratch = self.scratch.take().expect("only the two ends give it up");
        let counters = &self.inner.counters[held.index()];
        self.inner.replace_tables(&held, &mut scratch, decision.replaced());
        if scratch.writes.is_empty() && scratch.replaced.is_empty() {
            if !decision.before() {
                tell(decision, false);
                return Err(self.refuse(held, scratch, CommitRefusal::Conflict));
            }
            // Its locks may have guarded something outside of the database: the owner of a lost lock is told.
            if held.taken_by().is_some() {
                tell(decision, false);
                return Err(self.refuse(held, scratch, CommitRefusal::Aborted));
            }
            if held.logs_reads()
                && let Err(refused) = self.inner.commit_reads(&held, &mut scratch)
            {
                tell(decision, false);
                return Err(self.refuse(held, scratch, refused));
            }
            if D::IS_NEEDED || held.tables_written() != 0 || held.shared() != SharedTables::NONE {
                // Nothing carries its word, so no reader sees a difference; but a transaction that waits for the tables
                // that it has announced must not find it active.
                let was_taken = held.abort();
                if D::IS_NEEDED && was_taken {
                    tell(decision, false);
                    return Err(self.refuse(held, scratch, CommitRefusal::Aborted));
                }
            }
            tell(decision, true);
            counters.commits.add(1);
            self.inner.end(held, scratch, counters);
            return Ok(log.end());
        }
        let keeps_records = log.keeps_records();
        if keeps_records {
            redo::encode(self.inner, held.pin(), &mut scratch);
        }
        let decided = match decision.before() {
            true => self.inner.decide(&held, &mut scratch),
            false => Err(CommitRefusal::Conflict),
        };
        tell(decision, decided.is_ok());
        let timestamp = match decided {
            Ok(timestamp) => timestamp,
            Err(refused) => return Err(self.refuse(held, scratch, refused)),
        };
        let position = if keeps_records {
            redo::seal(&mut scratch.redo, timestamp);
            log.append(&scratch.redo)
        } else {
            log.end()
        };
        counters.commits.add(1);
        // From the decision on the changes exist for all; this only spares readers the way to the status word. It may be
        // interrupted anywhere, whatever the length of the write set.
        let Scratch { writes, graveyard, .. } = &mut *scratch;
        let (slot, pin) = (held.index(), held.pin());
        let mut died = BytesByTable::new(|id, bytes| self.inner.table(id, pin).version_bytes.died(slot, bytes));
        for write in writes.iter() {
            if write.keys_left != 0 {
                write.change.leave_duty(held.pin());
            }
            write.change.stamp(held.pin(), timestamp);
            if let Some(version) = write.change.dead_by_commit() {
                let rest =
                    if write.kind == Kind::Delete { DeadVersionKind::Deleted } else { DeadVersionKind::Superseded };
                let dead = Dead::new(timestamp, version, write.table, rest, write.keys_left);
                died.add(write.table, dead.version(pin).bytes());
                graveyard.push(dead);
                counters.died.add(1);
            }
            match write.kind {
                Kind::Insert => counters.rows_made.add(1),
                Kind::Delete => counters.rows_deleted.add(1),
                Kind::Update => {}
            }
        }
        died.flush();
        self.inner.limits.note_dead(self.inner, scratch.writes.len());
        self.inner.end(held, scratch, counters);
        Ok(position)
    }

    /// Checks that the commit of a SERIALIZABLE transaction is not sure to be refused by its reads and writes so far:
    /// it would complete a dangerous structure (see the module `serial`). A session's statements ask so at their ends.
    /// Success says nothing about the commit.
    ///
    /// # Errors
    /// [`Error::SerializationFailure`]
    pub fn check_serializable(&self) -> Result<()> {
        let held = self.held();
        if !held.is_serial() || self.inner.check_so_far(held, &mut self.scratch()).is_ok() {
            return Ok(());
        }
        self.inner.counters[held.index()].serialization_failures.add(1);
        Err(Error::SerializationFailure)
    }

    /// Rolls back, since the commit was refused.
    #[cold]
    fn refuse(&self, held: HeldSlot<'e>, scratch: Box<Scratch>, refused: CommitRefusal) -> Error {
        let counters = &self.inner.counters[held.index()];
        note_loss(&held, self.waiter);
        let error = match refused {
            CommitRefusal::Aborted => lost(&held),
            CommitRefusal::Conflict | CommitRefusal::ByReader => {
                counters.serialization_failures.add(1);
                Error::SerializationFailure
            }
        };
        self.inner.roll_back(held, scratch, counters);
        error
    }

    /// Returns the bytes of versions that this slot's transactions have made: only the difference between two moments
    /// of one transaction says anything.
    pub fn bytes_made(&self) -> u64 {
        self.counters().bytes_made.get()
    }

    /// Requests that the changes of this statement of the session are undone when it returns, while its result stands:
    /// it will be run again. Locks that it took are released, except those that it took before it began
    /// ([`crate::Session::try_execute_after`]).
    pub fn take_back(&self) {
        self.is_taken_back.set(true);
    }

    /// Requests, in the part of a statement that takes its locks (see [`crate::Session::try_execute_after`]), that
    /// these locks too are released if the statement must wait later. When the wait is over it takes them again, and a
    /// new snapshot.
    pub fn give_back_when_waiting(&self) {
        self.gives_back.set(true);
    }

    /// Declares that the statement has read nothing. If it is the first of its transaction, the next one takes a new
    /// snapshot at any isolation level.
    pub fn has_read_nothing(&self) {
        self.is_unread.set(true);
    }

    /// Runs `f`, during which less important transactions do not give way: it waits for them as for others, however
    /// long.
    pub fn taking_nothing<R>(&self, f: impl FnOnce() -> R) -> R {
        let before = self.takes_nothing.replace(true);
        let result = f();
        self.takes_nothing.set(before);
        result
    }

    /// Aborts: nothing of it ever happened.
    pub fn abort(self) {
        drop(self);
    }
}

impl Drop for Txn<'_> {
    #[inline]
    fn drop(&mut self) {
        if self.held.is_none() {
            return;
        }
        self.walk_to_the_end();
        if let (Some(held), Some(scratch)) = (self.held.take(), self.scratch.take()) {
            let counters = &self.inner.counters[held.index()];
            note_loss(&held, self.waiter);
            self.inner.roll_back(held, scratch, counters);
        }
    }
}

/// Returns the error of a transaction that a more important one has aborted to take a row.
#[cold]
fn lost(held: &HeldSlot<'_>) -> Error {
    if held.taken_by().is_some() { Error::Taken } else { Error::SerializationFailure }
}

/// Tells the session that a more important transaction took this one, if one did.
#[cold]
fn note_loss(held: &HeldSlot<'_>, waiter: Option<&Arc<Waiter>>) {
    if let (Some(by), Some(waiter)) = (held.taken_by(), waiter) {
        waiter.lost_to(by.importance);
    }
}
