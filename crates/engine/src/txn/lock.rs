//! Transactions and the lock table: locks on request, and the obstacles to a write.
//!
//! **Invariant:** a call here either has its lock, or tells its caller what to do about it. It never waits: in a
//! session it leaves a place in a queue and returns [`Error::MustWait`].

use crate::engine::{Engine, Inner};
use crate::error::{Error, Result};
use crate::locks::{
    Answer, Ask, Asker, Holders, Key, LockConfig, LockStats, LockView, Mode, Obstacles, RowLock, TABLE_BITS, TableLock,
    Tally, Unknown, Wait, Waiter,
};
use crate::raw::activity::{Activity, Pressed, Yields};
use crate::raw::live::Role;
use crate::raw::rows::NewestState;
use crate::raw::shared::SharedTables;
use crate::raw::slots::{HeldSlot, owner_of};
use crate::raw::version::Version;
use crate::row::key;
use crate::row::writer::Touched;
use crate::row::{Row, RowId};
use crate::schema::table::Table;
use crate::txn::Txn;
use crate::txn::scratch::Scratch;
use preempt::os;
use stage::Class;
use std::sync::Arc;

/// Time for which a transaction that runs is waited for in place: as long as it takes to undo a short procedure and run
/// it again.
const OUTLAST_NS: u64 = 30_000;

/// Tables that a transaction has locked in mode ROW SHARE or a stronger one, the last first: a hint, as short as a search
/// of it is worth it.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct RowShared([Option<u32>; 4]);

/// Locks that are not in the lock table, as seen by a thread that walks. A table that is not found is dropped, and none
/// of the transactions that might have its rows is left.
struct Elsewhere<'a> {
    inner: &'a Inner,
    held: &'a HeldSlot<'a>,
    /// Announcement of the asking transaction itself, which does not count: it announces before it looks whether it
    /// may.
    without_own: Own,
}

/// Kind of announcement of tables by a transaction.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Own {
    Nothing,
    Writes,
    Reads,
}

impl Holders for Elsewhere<'_> {
    fn each(&self, key: Key, each: &mut dyn FnMut(u64, Mode)) {
        let Elsewhere { inner, held, without_own } = self;
        match key {
            Key::Row { table, row } => {
                if let Some(table) = inner.tables.get(table, held.pin())
                    && let NewestState::Hot(newest) = table.rows.newest(row, held.pin())
                    && let Some((owner, strong)) = inner.registry.holder(newest, held.pin())
                {
                    each(owner, Mode::of_write(strong));
                }
            }
            Key::Table(table) => {
                let bit = 1 << (table % TABLE_BITS);
                inner.registry.writers_of(bit, |owner| {
                    if *without_own != Own::Writes || owner != held.owner() {
                        each(owner, Mode::ROW_EXCLUSIVE);
                    }
                });
                inner.registry.sharers_of(table, |owner| {
                    if *without_own != Own::Reads || owner != held.owner() {
                        each(owner, Mode::ACCESS_SHARE);
                    }
                });
            }
            Key::Transaction(_) | Key::Advisory(_) => {}
        }
    }
}

impl Inner {
    fn elsewhere<'a>(&'a self, held: &'a HeldSlot<'a>) -> Elsewhere<'a> {
        Elsewhere { inner: self, held, without_own: Own::Nothing }
    }

    /// Wakes waiters after a change of the row was undone.
    #[cold]
    pub(crate) fn row_released(&self, held: &HeldSlot<'_>, table: u32, row: u64) {
        self.locks.released(&self.registry, &self.elsewhere(held), Key::Row { table, row });
    }

    /// Wakes those that wait for the locks of a transaction or for its end: it is decided, and its locks are free.
    #[cold]
    pub(crate) fn locks_released(&self, held: &HeldSlot<'_>, scratch: &mut Scratch) {
        let elsewhere = self.elsewhere(held);
        let mut tables = 0;
        for write in &scratch.writes {
            tables |= 1 << (write.table % TABLE_BITS);
            let key = Key::Row { table: write.table, row: write.row };
            self.locks.released(&self.registry, &elsewhere, key);
        }
        for (key, mode) in scratch.locks.drain(..) {
            self.locks.release(&self.registry, &elsewhere, held.owner(), key, mode);
        }
        // A transaction that wrote nothing in the end is not decided by a word.
        self.locks.wake_all(Key::Transaction(held.owner()));
        self.tables_released(held, held.tables_written() | held.shared().bits() | tables);
    }

    /// Wakes waiters of tables with these bits, which are written to no more.
    fn tables_released(&self, held: &HeldSlot<'_>, bits: u64) {
        let is_wanted = |bit: &u32| bits & (1 << bit) != 0 && !self.locks.admits_writers(*bit);
        if (0..TABLE_BITS).any(|bit| is_wanted(&bit)) {
            let tables = self.tables.all();
            for table in tables.iter().filter(|table| is_wanted(&(table.id % TABLE_BITS))) {
                self.locks.released(&self.registry, &self.elsewhere(held), Key::Table(table.id));
            }
        }
    }

    /// Announces that a load writes to the table from now on, unless another has locked the table against it.
    ///
    /// # Errors
    /// [`Error::WriteConflict`]: it has no session, so it cannot wait. [`Error::SerializationFailure`] if a commit has
    /// taken the table's rows away.
    pub(crate) fn announce_load(&self, held: &HeldSlot<'_>, table: &Table) -> Result<()> {
        let number = table.id % TABLE_BITS;
        held.set_tables_written(1 << number);
        if !self.locks.admits_writers(number) {
            let elsewhere = Elsewhere { inner: self, held, without_own: Own::Writes };
            let (owner, importance) = (held.owner(), held.importance());
            let asker = Asker { owner, importance, takes: true, waiter: None, for_session: false };
            let lock = (Key::Table(table.id), Mode::ROW_EXCLUSIVE);
            match self.locks.ask(&self.registry, &elsewhere, asker, lock, Ask::Check)? {
                Answer::Blocked(_) => {
                    return Err(Error::WriteConflict { table: table.name().to_owned(), is_deleted: false });
                }
                Answer::Free | Answer::Granted { .. } => {}
            }
        }
        table.check_in_use()
    }

    /// Wakes those that wait for the table or the keys of a load that is decided.
    pub(crate) fn load_released(&self, held: &HeldSlot<'_>) {
        if !self.locks.is_quiet() {
            self.locks.wake_all(Key::Transaction(held.owner()));
            self.tables_released(held, held.tables_written());
        }
    }

    /// Gives up the session's place in any queue.
    #[cold]
    pub(crate) fn leave_queue(&self, waiter: &Arc<Waiter>) {
        self.locks.leave(&self.registry, &Unknown, waiter, None);
    }
}

impl Txn<'_> {
    fn ask(&self, key: Key, mode: Mode, ask: Ask) -> Result<Answer> {
        let Inner { locks, registry, .. } = self.inner;
        locks.ask(registry, &self.inner.elsewhere(self.held()), self.asker(), (key, mode), ask)
    }

    fn asker(&self) -> Asker<'_> {
        let held = self.held();
        let (owner, importance, takes) = (held.owner(), held.importance(), !self.takes_nothing.get());
        Asker { owner, importance, takes, waiter: self.waiter, for_session: false }
    }

    /// Aborts those in the way that must give way. Returns true if anything has changed.
    fn press(&self, obstacles: &Obstacles) -> bool {
        let Inner { locks, registry, .. } = self.inner;
        let held = self.held();
        let yields = if self.takes_nothing.get() { Yields::Never } else { locks.yields() };
        let mut changed = false;
        for owner in &obstacles.owners {
            let elsewhere = self.inner.elsewhere(held);
            let pressed = locks.press(registry, &elsewhere, *owner, held.importance(), yields);
            changed |= matches!(pressed, Pressed::Taken { .. } | Pressed::Settled);
        }
        changed
    }

    /// Gives up a place in another queue than this.
    fn leave_others(&self, key: Option<Key>) {
        if let Some(waiter) = self.waiter.filter(|waiter| waiter.has_place()) {
            self.inner.locks.leave(&self.inner.registry, &self.inner.elsewhere(self.held()), waiter, key);
        }
    }

    /// Returns true if our place is in the queue of `key`.
    #[inline]
    fn place_is_for(&self, key: Key) -> bool {
        let has_place = self.waiter.filter(|waiter| waiter.has_place());
        has_place.is_some_and(|waiter| waiter.with(|state| state.place.is_some_and(|(place, _)| place == key)))
    }

    /// Notes that the key is ours: a place in a queue for another transaction's end is of no use any more.
    #[cold]
    pub(crate) fn key_is_ours(&self) {
        self.leave_others(None);
    }

    /// Queues behind an obstacle to a write: the transaction of `word`, if it is known. Returns when the obstacle may
    /// be looked at again.
    ///
    /// # Errors
    /// [`Error::MustWait`], with a place in the queue, in a session; else [`Error::WriteConflict`].
    #[cold]
    pub(crate) fn stand_in_line(&self, table: &Table, key: Key, mode: Mode, word: Option<u64>) -> Result<()> {
        self.check_active()?;
        if word.is_some_and(|word| self.outlasts(word)) {
            return Ok(());
        }
        self.leave_others(Some(key));
        let ask = if self.waiter.is_some() { Ask::Queue } else { Ask::Check };
        // Without a session there may be no entry to look at; `Queue` makes one.
        let answer = match (ask, word) {
            (Ask::Check, Some(word)) => {
                Answer::Blocked(Obstacles { owners: vec![owner_of(word)], ..Obstacles::default() })
            }
            _ => self.ask(key, mode, ask)?,
        };
        let Answer::Blocked(obstacles) = answer else { return Ok(()) };
        let is_end = matches!(key, Key::Transaction(_));
        // A transaction that undid the key that we want before we stood in the queue has not woken us.
        if self.press(&obstacles) || is_end && obstacles.fresh {
            return Ok(());
        }
        Err(if self.waiter.is_some() { self.told_to_wait() } else { self.conflict(table, false) })
    }

    /// Returns true if the transaction of `word` ends while we look at it. To wait for a while in place, for as long as
    /// it runs, costs less than to undo the statement and submit it again, and keeps queues from forming behind
    /// transactions that are about to end: competitive spinning (Karlin, Li, Manasse and Owicki, SOSP 1991).
    fn outlasts(&self, word: u64) -> bool {
        let registry = &self.inner.registry;
        let until_ns = os::now_ns() + OUTLAST_NS;
        while registry.is_running(word) {
            if until_ns <= os::now_ns() {
                return false;
            }
            core::hint::spin_loop();
        }
        !registry.is_active(word)
    }

    fn told_to_wait(&self) -> Error {
        self.must_wait.set(true);
        Error::MustWait
    }

    /// Waits for the transaction of this word, on which a unique key depends.
    ///
    /// # Errors
    /// Those of [`Txn::stand_in_line`].
    #[cold]
    pub(crate) fn await_end(&self, table: &Table, word: u64) -> Result<()> {
        self.stand_in_line(table, Key::Transaction(owner_of(word)), Mode::END, Some(word))
    }

    /// Checks, before the claim of a row, that the table has nothing against it.
    #[cold]
    pub(crate) fn pass(&self, table: &Table, row: RowId, strong: bool) -> Result<()> {
        let key = Key::Row { table: table.id, row: row.0 };
        while !self.inner.locks.is_unmarked(key) {
            match self.ask(key, Mode::of_write(strong), Ask::Check)? {
                Answer::Blocked(obstacles) => {
                    self.stand_in_line(table, key, Mode::of_write(strong), obstacles.only_owner())?;
                }
                Answer::Free | Answer::Granted { .. } => break,
            }
        }
        Ok(())
    }

    /// Returns true if, after the claim of a row, no other transaction had locked it before.
    #[cold]
    pub(crate) fn keeps_claim(&self, table: &Table, row: RowId, mode: Mode) -> bool {
        let key = Key::Row { table: table.id, row: row.0 };
        let Inner { locks, registry, .. } = self.inner;
        let keeps = locks.is_unmarked(key) || locks.against_claim(registry, self.held().owner(), key, mode).is_none();
        if keeps && self.place_is_for(key) {
            self.leave_others(None);
        }
        keeps
    }

    /// Strengthens the claim for an update of these columns: if that changes a key of a unique index, the claim becomes
    /// FOR UPDATE. Returns true if it does.
    #[cold]
    pub(crate) fn strengthen(
        &self,
        table: &Table,
        row: RowId,
        touched: Touched,
        base: &Version,
        scratch: &mut Scratch,
    ) -> Result<bool> {
        let Scratch { image, key, other_key, .. } = scratch;
        let changes =
            table.indexes.iter().filter(|index| index.def.unique && touched.meets(index.key_columns)).any(|index| {
                key::of_image(index, table.image(base), other_key);
                key::of_image(index, crate::row::layout::Image { layout: &table.layout, bytes: image }, key);
                key != other_key
            });
        if !changes {
            return Ok(false);
        }
        self.held().strengthen(base).map_err(|_| Error::Taken)?;
        let locks = &self.inner.locks;
        let key = Key::Row { table: table.id, row: row.0 };
        while !locks.is_quiet() && !self.keeps_claim(table, row, Mode::UPDATE) {
            self.stand_in_line(table, key, Mode::UPDATE, None)?;
        }
        Ok(true)
    }

    /// Announces the first write to a table, unless another has locked the table against it.
    #[inline]
    pub(crate) fn announce_write(&self, table: &Table) -> Result<()> {
        let number = table.id % TABLE_BITS;
        let is_announced = self.tables.get() & (1 << number) != 0;
        // The announced table may be another one with the same bit.
        if is_announced && (self.inner.locks.is_quiet() || self.inner.locks.admits_writers(number)) {
            return Ok(());
        }
        self.announce_first_write(table, !is_announced)
    }

    /// Announces each change of a row, as [`Txn::announce_write`] does, and checks that the table is still in use.
    ///
    /// # Errors
    /// [`Error::SerializationFailure`] if a commit has taken its rows away, and those of the announcement.
    #[inline]
    pub(crate) fn announce_change(&self, table: &Table) -> Result<()> {
        self.announce_write(table)?;
        table.check_in_use()
    }

    fn announce_first_write(&self, table: &Table, is_first: bool) -> Result<()> {
        let number = table.id % TABLE_BITS;
        let (before, key) = (self.tables.get(), Key::Table(table.id));
        loop {
            // First the announcement, then the look: a transaction that locks the table counts itself, then looks for
            // announcements.
            self.held().set_tables_written(before | 1 << number);
            if self.inner.locks.admits_writers(number) {
                break;
            }
            let Inner { locks, registry, .. } = self.inner;
            // A transaction that announced itself before is in the way of those that wait for the table: it does not
            // wait for them.
            let without_own = if is_first { Own::Writes } else { Own::Nothing };
            let elsewhere = Elsewhere { inner: self.inner, held: self.held(), without_own };
            let answer = locks.ask(registry, &elsewhere, self.asker(), (key, Mode::ROW_EXCLUSIVE), Ask::Check)?;
            if matches!(answer, Answer::Blocked(_)) {
                if is_first {
                    self.held().set_tables_written(before);
                    self.inner.tables_released(self.held(), 1 << number);
                }
                self.stand_in_line(table, key, Mode::ROW_EXCLUSIVE, None)?;
                continue;
            }
            break;
        }
        // It may have stood in the queue for a moment.
        if self.place_is_for(key) {
            self.leave_others(None);
        }
        self.tables.set(before | 1 << number);
        Ok(())
    }

    /// Announces that it reads the table, until its end or until it goes back to before this: no other has it in mode
    /// ACCESS EXCLUSIVE meanwhile. A statement does this for each of its tables. It is as good as a lock in mode ACCESS
    /// SHARE, but is not in the lock table: while no one wants such a lock it costs a store the first time, and then a
    /// look.
    ///
    /// # Errors
    /// [`Error::MustWait`] in a session, [`Error::WriteConflict`] without, if another has or wants the table in that
    /// mode; [`Error::Taken`].
    #[inline]
    pub fn share_table(&self, table: &Table) -> Result<()> {
        self.inner.assert_own(table);
        let has = self.shared.get().has(table.id);
        // The table that is found may be another one.
        if has && self.inner.locks.admits_readers(table.id % TABLE_BITS) {
            return Ok(());
        }
        self.share_first(table, !has)
    }

    fn share_first(&self, table: &Table, is_first: bool) -> Result<()> {
        let _call = self.call();
        let (number, key) = (table.id % TABLE_BITS, Key::Table(table.id));
        let before = self.shared.get();
        let now = if is_first { before.with(table.id) } else { before };
        loop {
            // As for writes: first the announcement, then the look.
            self.held().set_shared(&before, &now);
            if self.inner.locks.admits_readers(number) {
                break;
            }
            let Inner { locks, registry, .. } = self.inner;
            let without_own = if is_first { Own::Reads } else { Own::Nothing };
            let elsewhere = Elsewhere { inner: self.inner, held: self.held(), without_own };
            let answer = locks.ask(registry, &elsewhere, self.asker(), (key, Mode::ACCESS_SHARE), Ask::Check)?;
            if matches!(answer, Answer::Blocked(_)) {
                self.held().set_shared(&now, &before);
                self.inner.tables_released(self.held(), 1 << number);
                self.stand_in_line(table, key, Mode::ACCESS_SHARE, None)?;
                continue;
            }
            break;
        }
        if self.place_is_for(key) {
            self.leave_others(None);
        }
        self.shared.set(now);
        Ok(())
    }

    /// Announces as [`Txn::share_table`] does, but waits for no one: returns false if another has or wants the table in
    /// mode ACCESS EXCLUSIVE. Then nothing is announced. A transaction may keep many tables so: those that cannot be
    /// told apart in its announcement are locked in mode ACCESS SHARE.
    ///
    /// # Errors
    /// [`Error::Taken`], [`Error::Cancelled`]; [`Error::Limit`] for too many locks.
    #[inline]
    pub fn try_share_table(&self, table: &Table) -> Result<bool> {
        self.inner.assert_own(table);
        Ok(self.shared.get().has(table.id) || self.share_if_free(table)?)
    }

    fn share_if_free(&self, table: &Table) -> Result<bool> {
        let _call = self.call();
        self.check_active()?;
        let (number, key) = (table.id % TABLE_BITS, Key::Table(table.id));
        let before = self.shared.get();
        let Inner { locks, registry, .. } = self.inner;
        if before.is_full() {
            // Tables announced from here on may be taken for others, as long as the transaction lasts.
            let elsewhere = self.inner.elsewhere(self.held());
            return match locks.ask(registry, &elsewhere, self.asker(), (key, Mode::ACCESS_SHARE), Ask::Grant)? {
                Answer::Blocked(_) => Ok(false),
                answer @ (Answer::Free | Answer::Granted { .. }) => Ok(self.got(key, Mode::ACCESS_SHARE, &answer)),
            };
        }
        let now = before.with(table.id);
        // As for writes: first the announcement, then the look.
        self.held().set_shared(&before, &now);
        if !locks.admits_readers(number) {
            let elsewhere = Elsewhere { inner: self.inner, held: self.held(), without_own: Own::Reads };
            let answer = locks.ask(registry, &elsewhere, self.asker(), (key, Mode::ACCESS_SHARE), Ask::Check);
            if !matches!(answer, Ok(Answer::Free | Answer::Granted { .. })) {
                self.held().set_shared(&now, &before);
                self.inner.tables_released(self.held(), 1 << number);
                return answer.map(|_| false);
            }
        }
        self.shared.set(now);
        Ok(true)
    }

    /// Goes back to the tables that it read before.
    pub(crate) fn share_again(&self, before: SharedTables) {
        let now = self.shared.replace(before);
        if now != before {
            self.held().set_shared(&now, &before);
            self.inner.tables_released(self.held(), now.bits());
        }
    }

    fn acquire(&self, table: &Table, key: Key, mode: Mode, wait: Wait) -> Result<bool> {
        self.acquire_as(false, table.name(), key, mode, wait)
    }

    /// Takes a lock in the table, for its session if that is to have it, or returns the obstacle. False: it is locked,
    /// and that is no error.
    pub(crate) fn acquire_as(&self, for_session: bool, what: &str, key: Key, mode: Mode, wait: Wait) -> Result<bool> {
        self.check_active()?;
        let Inner { locks, registry, .. } = self.inner;
        let asker = Asker { for_session, ..self.asker() };
        let ask = |ask| locks.ask(registry, &self.inner.elsewhere(self.held()), asker, (key, mode), ask);
        let got = |answer: &Answer| for_session || self.got(key, mode, answer);
        loop {
            let obstacles = match ask(Ask::Grant)? {
                Answer::Blocked(obstacles) => obstacles,
                answer @ (Answer::Free | Answer::Granted { .. }) => return Ok(got(&answer)),
            };
            // A transaction that would not wait takes nothing from others: NOWAIT and SKIP LOCKED mean "do not
            // disturb".
            if wait == Wait::Block && self.press(&obstacles) {
                continue;
            }
            match wait {
                Wait::Block if self.waiter.is_some() => {}
                Wait::Block => {
                    self.counters().conflicts.add(1);
                    return Err(Error::WriteConflict { table: what.to_owned(), is_deleted: false });
                }
                Wait::NoWait => return Err(Error::LockNotAvailable(key.wanted(mode))),
                Wait::SkipLocked => return Ok(false),
            }
            self.leave_others(Some(key));
            match ask(Ask::GrantOrQueue)? {
                Answer::Blocked(obstacles) if self.press(&obstacles) => {}
                Answer::Blocked(_) => return Err(self.told_to_wait()),
                answer @ (Answer::Free | Answer::Granted { .. }) => return Ok(got(&answer)),
            }
        }
    }

    fn got(&self, key: Key, mode: Mode, answer: &Answer) -> bool {
        if matches!(answer, Answer::Granted { new: true }) {
            self.scratch().locks.push((key, mode));
        }
        true
    }

    /// Locks a row and returns it: at READ COMMITTED its newest committed version, whatever this transaction has read
    /// before. Returns none if it has gone, or is locked and [`Wait::SkipLocked`].
    ///
    /// [`RowLock::KeyShare`] is for the row's keys alone, as in PostgreSQL: a row is returned as the snapshot has it,
    /// and is no conflict, whatever was changed since by others that did not exclude this mode. A change of a key
    /// excludes it, and so does any change by a transaction that had locked the row FOR UPDATE before.
    ///
    /// # Errors
    /// [`Error::WriteConflict`] above READ COMMITTED if the row was changed after the snapshot, and without a session
    /// if it is locked; [`Error::MustWait`] with one; [`Error::SerializationFailure`] if a commit has taken the table's
    /// rows away; [`Error::LockNotAvailable`]; [`Error::ReadOnly`]; [`Error::Limit`]; [`Error::Taken`].
    pub fn lock_row<'t>(&'t self, table: &'t Table, row: RowId, mode: RowLock, wait: Wait) -> Result<Option<Row<'t>>> {
        Ok(self.lock_newer(table, row, mode, wait)?.map(|(row, _)| row))
    }

    /// Locks a row as [`Txn::lock_row`] does. Returns, too, whether the row is not the one that the transaction reads:
    /// at READ COMMITTED it may have been changed since.
    ///
    /// # Errors
    /// Those of [`Txn::lock_row`].
    pub fn lock_newer<'t>(
        &'t self,
        table: &'t Table,
        row: RowId,
        mode: RowLock,
        wait: Wait,
    ) -> Result<Option<(Row<'t>, bool)>> {
        let _call = self.call();
        let Some(before) = self.lock_place(table, row, mode, wait)? else { return Ok(None) };
        let view = self.view()?;
        self.goes_beyond();
        if self.held().logs_reads() {
            self.scratch().reads.row(table.id, row.0);
        }
        let (now, seen) = self.now_and_seen(table, row.0, view);
        if now.is_none() && self.reads_latest() {
            // There is nothing to lock.
            self.locks_undone(&mut self.scratch(), before, self.tables.get());
            return Ok(None);
        }
        let is_same = match (&now, &seen) {
            (Some(_), Some(_)) if mode == RowLock::KeyShare => !self.misses_sole_change(table, row),
            (Some(now), Some(seen)) => now.is_same_version(seen),
            (None, None) => true,
            (Some(_), None) | (None, Some(_)) => false,
        };
        match is_same {
            true => Ok(seen.map(|row| (row, false))),
            false if self.reads_latest() => Ok(now.map(|row| (row, true))),
            false => Err(self.row_conflict(table, row, false)),
        }
    }

    /// Returns true if the snapshot misses a change of the row that excluded [`RowLock::KeyShare`].
    fn misses_sole_change(&self, table: &Table, row: RowId) -> bool {
        match table.rows.newest(row.0, self.held().pin()) {
            NewestState::Hot(newest) => self.held().misses_sole_change(newest),
            // A frozen row is as all snapshots see it.
            NewestState::Frozen(..) | NewestState::Nowhere => false,
        }
    }

    /// Returns true if the transaction has locked the row FOR UPDATE.
    #[cold]
    pub(crate) fn has_locked(&self, table: &Table, row: RowId) -> bool {
        let key = Key::Row { table: table.id, row: row.0 };
        self.inner.locks.has(self.held().owner(), key, Mode::UPDATE)
    }

    /// Takes the lock of a row, whatever is there. Returns the number of locks before it; none if it is locked and
    /// [`Wait::SkipLocked`].
    pub(crate) fn lock_place(&self, table: &Table, row: RowId, mode: RowLock, wait: Wait) -> Result<Option<usize>> {
        self.inner.assert_own(table);
        self.check_writable()?;
        if !self.row_share(table, wait)? {
            return Ok(None);
        }
        table.check_in_use()?;
        let before = self.scratch().locks.len();
        let is_locked = self.acquire(table, Key::Row { table: table.id, row: row.0 }, Mode::row(mode), wait)?;
        Ok(is_locked.then_some(before))
    }

    /// Waits until no other transaction is about to delete the row or to change one of its keys: a caller that relies
    /// on an existing key must know that it stays. Locks nothing; a row that is only locked is not waited for. Returns
    /// true if it had to wait, so that the row may have gone.
    ///
    /// # Errors
    /// [`Error::MustWait`] in a session, [`Error::WriteConflict`] without; [`Error::Taken`].
    pub fn await_key(&self, table: &Table, row: RowId) -> Result<bool> {
        self.inner.assert_own(table);
        let _call = self.call();
        let key = Key::Row { table: table.id, row: row.0 };
        let mut has_waited = false;
        loop {
            let held = self.held();
            let holder = match table.rows.newest(row.0, held.pin()) {
                NewestState::Hot(newest) => self.inner.registry.holder(newest, held.pin()),
                NewestState::Frozen(..) | NewestState::Nowhere => None,
            };
            match holder {
                Some((owner, true)) if owner != held.owner() => {
                    self.stand_in_line(table, key, Mode::row(RowLock::KeyShare), Some(owner))?;
                    has_waited = true;
                }
                Some(_) | None => break,
            }
        }
        if self.place_is_for(key) {
            self.leave_others(None);
        }
        Ok(has_waited)
    }

    /// Locks the table in mode ROW SHARE. A transaction that locks many rows asks once for most of them.
    fn row_share(&self, table: &Table, wait: Wait) -> Result<bool> {
        let RowShared(known) = self.row_shared.get();
        if known.contains(&Some(table.id)) {
            self.check_active()?;
            return Ok(true);
        }
        let is_locked = self.acquire(table, Key::Table(table.id), Mode::ROW_SHARE, wait)?;
        if is_locked {
            let [first, second, third, _] = known;
            self.row_shared.set(RowShared([Some(table.id), first, second, third]));
        }
        Ok(is_locked)
    }

    /// Locks a table. As in PostgreSQL, a read-only transaction may take any lock: it changes nothing by that.
    ///
    /// # Errors
    /// As [`Txn::lock_row`].
    pub fn lock_table(&self, table: &Table, mode: TableLock, wait: Wait) -> Result<()> {
        self.inner.assert_own(table);
        let _call = self.call();
        let (key, mode) = (Key::Table(table.id), Mode::table(mode));
        let is_locked = match mode {
            Mode::ROW_SHARE => self.row_share(table, wait)?,
            mode => self.acquire(table, key, mode, wait)?,
        };
        if is_locked { Ok(()) } else { Err(Error::LockNotAvailable(key.wanted(mode))) }
    }

    /// Returns the newest committed state of the row, or our own.
    pub(crate) fn newest_row<'t>(&'t self, table: &'t Table, row: u64) -> Option<Row<'t>> {
        let view = self.latest_view().ok()?;
        self.goes_beyond();
        self.visible_row(table, row, view)
    }

    /// Wakes those that wait for a key of writes that were undone: they may have it now.
    pub(crate) fn keys_released(&self) {
        self.inner.locks.wake_all(Key::Transaction(self.held().owner()));
    }

    /// Releases the locks from this one on, and the announcements beside these tables.
    pub(crate) fn locks_undone(&self, scratch: &mut Scratch, from: usize, tables: u64) {
        let held = self.held();
        let Inner { locks, registry, .. } = self.inner;
        let elsewhere = self.inner.elsewhere(held);
        self.row_shared.take();
        for (key, mode) in scratch.locks.drain(from..).rev() {
            locks.release(registry, &elsewhere, held.owner(), key, mode);
        }
        let before = self.tables.replace(tables);
        if before != tables {
            held.set_tables_written(tables);
            self.inner.tables_released(held, before & !tables);
        }
    }

    /// Releases a lock that is not in its list any more.
    pub(crate) fn release(&self, key: Key, mode: Mode) {
        let Inner { locks, registry, .. } = self.inner;
        locks.release(registry, &self.inner.elsewhere(self.held()), self.held().owner(), key, mode);
    }

    /// Parks the session, and breaks the deadlocks that this closes. With `stays`, its transaction stays open.
    pub(crate) fn park(&self, waiter: &Arc<Waiter>, stays: bool) {
        let _call = self.call();
        let held = self.held();
        if stays {
            self.inner.locks.set_parked(held.index(), Some(waiter));
        }
        let Inner { locks, registry, .. } = self.inner;
        locks.park(registry, &self.inner.elsewhere(held), waiter);
        // A canceller publishes the cancel and then looks whether the session waits; the session publishes its wait,
        // and then looks here.
        if waiter.is_cancelled() && locks.fail(registry, &self.inner.elsewhere(held), waiter, None, Error::Cancelled) {
            Tally::one(&locks.tally.cancelled);
        }
    }

    /// Publishes the activity of the transaction from now on. Another may have waited for exactly that. Returns true if
    /// it is still active.
    pub(crate) fn rest(&self, activity: Activity) -> bool {
        let held = self.held();
        let Inner { locks, .. } = self.inner;
        if let Some((taker, Pressed::Taken { importance, why })) = held.rest(activity, locks.yields()) {
            locks.tally.took(taker, importance, why);
        }
        held.is_active()
    }
}

impl Engine {
    /// Ends the waits whose time is over: patience, lock and statement timeouts. Returns the time to call again, or
    /// none while no session waits. A caller of [`crate::Ticket::wait`] does this by itself.
    pub fn expire_waits(&self, now_ns: u64) -> Option<u64> {
        let Inner { locks, registry, .. } = &*self.inner;
        locks.expire(registry, now_ns, |end| match registry.begin(Class::Low, None, Role::None) {
            Some(held) => {
                end(&self.inner.elsewhere(&held));
                held.abort();
                held.release();
            }
            None => end(&Unknown),
        })
    }

    /// Changes the settings of locks, from now on.
    pub fn set_lock_config(&self, config: LockConfig) {
        self.inner.locks.settings.set(config);
    }

    /// Returns the settings of locks.
    pub fn lock_config(&self) -> LockConfig {
        self.inner.locks.settings.get()
    }

    /// Returns true if no transaction has or wants this table in mode ACCESS EXCLUSIVE. May return false for a table
    /// that shares its number with another.
    pub fn admits_readers(&self, table: &Table) -> bool {
        self.inner.assert_own(table);
        self.inner.locks.admits_readers(table.id % TABLE_BITS)
    }

    /// Returns the costs of locks so far.
    pub fn lock_stats(&self) -> LockStats {
        self.inner.locks.stats()
    }

    /// Returns the locks in the lock table, with the waiters of each and the transactions that they wait for.
    pub fn locks(&self) -> Vec<LockView> {
        let inner = &*self.inner;
        let view_by = |holders: &dyn Holders| {
            inner.locks.view(&inner.tables, &inner.registry, |session| inner.sessions.name(session), holders)
        };
        match inner.registry.begin(Class::Low, None, Role::None) {
            Some(held) => {
                let view = view_by(&inner.elsewhere(&held));
                held.abort();
                held.release();
                view
            }
            None => view_by(&Unknown),
        }
    }
}
