//! Inserts, updates and deletes.
//!
//! **Invariant:** a change enters the write set before others can meet it, and its version is in the row map before its
//! keys are in an index. A call that fails leaves no trace of itself, except when the whole transaction was aborted by
//! another; then dropping it undoes what is left.

use crate::error::{Error, Result};
use crate::locks::{Key, Mode};
use crate::raw::chain::{Change, Claim, Taken};
use crate::raw::rows::NewestState;
use crate::raw::version::{NewVersion, RowCell, Version};
use crate::row::key;
use crate::row::value::Value;
use crate::row::writer::{RowWriter, Touched};
use crate::row::{Row, RowId, RowPlace};
use crate::schema::entries::{self, Added, NewKey};
use crate::schema::table::Table;
use crate::txn::Txn;
use crate::txn::reads::ReadLog;
use crate::txn::scratch::{Kind, Scratch, Write};
use core::sync::atomic::Ordering;
use stage::split::RunPart;

/// Guard that undoes a claim when the caller's closure panics: a claim without a version must never meet a commit,
/// which would treat the version that it was made on as superseded.
struct Unclaim<'t, 'e> {
    txn: &'t Txn<'e>,
    /// Number of writes before the claim.
    writes: usize,
}

impl Drop for Unclaim<'_, '_> {
    #[cold]
    fn drop(&mut self) {
        let Unclaim { txn, writes } = *self;
        txn.is_changing.set(false);
        let mut scratch = txn.scratch();
        while writes < scratch.writes.len() {
            txn.inner.undo_last(txn.held(), &mut scratch, txn.counters());
        }
    }
}

/// Records that a unique key is given up. The transaction's own version leaves no trace in its record of writes when it
/// commits, so that it found the key free is a read beyond the snapshot: a transaction that gave the key up since then
/// comes before it.
fn note_key(table: &Table, position: usize, key: &[u8], reads: &mut ReadLog, own_at: Option<u64>) {
    match own_at {
        Some(now) => reads.key_was_free(table.id, position, key, now),
        None => reads.key(table.id, position, key),
    }
}

impl Txn<'_> {
    /// Inserts a row.
    ///
    /// # Errors
    /// [`Error::InvalidValue`], also for a row of more than 16 MiB; [`Error::UniqueViolation`] if a key exists; if that
    /// depends on a transaction that is undecided, [`Error::MustWait`] in a session and [`Error::WriteConflict`]
    /// without; [`Error::SerializationFailure`] if a commit has taken the table's rows away
    /// ([`crate::AtDecision::replaced`]); [`Error::Taken`].
    ///
    /// # Panics
    /// If `table` belongs to another engine, as in all methods.
    #[inline]
    pub fn insert(&self, table: &Table, values: &[Value<'_>]) -> Result<RowId> {
        self.inner.assert_own(table);
        let _call = self.call();
        self.inner.check_room(self.counters().writes.get())?;
        let command = self.write_command()?;
        self.announce_change(table)?;
        let mut scratch = self.scratch();
        let scratch = &mut *scratch;
        let (row, version) = self.make_row(table, values, command, scratch)?;
        self.counters().writes.set(scratch.writes.len() as u64);
        for position in 0..table.indexes.len() {
            let has_null = key::of_image(&table.indexes[position], table.image(version), &mut scratch.key);
            self.add_key(table, position, has_null, row, scratch)?;
        }
        Ok(RowId(row))
    }

    /// Puts a new row into the write set and the row map. It has no index entry yet.
    #[inline]
    pub(crate) fn make_row<'t>(
        &'t self,
        table: &'t Table,
        values: &[Value<'_>],
        command: u32,
        scratch: &mut Scratch,
    ) -> Result<(u64, &'t Version)> {
        table.layout.encode(values, &mut scratch.image).map_err(|unfit| unfit.at(table.name(), table.columns()))?;
        table.expect_image_bytes(scratch.image.len());
        let _part = self.part(RunPart::Versions);
        let row = scratch.ids.allocate(&table.rows, table.id);
        let cell = table.rows.cell(row, self.held().pin());
        let new = NewVersion::with(&mut scratch.spares, self.held().word(command), row, None, &scratch.image);
        let version = self.held().publish_first(cell, new);
        let mut change = Change::claim(None);
        change.made(version);
        self.count_made(table, version);
        scratch.writes.push(Write {
            change,
            row,
            touched: Touched::default(),
            keys_added: 0,
            keys_left: 0,
            table: table.id,
            kind: Kind::Insert,
        });
        Ok((row, version))
    }

    /// Changes a row: `patch` gets a copy of it. It may read through the transaction; a write fails with
    /// [`Error::WithinChange`].
    ///
    /// At READ COMMITTED that copy is of the newest committed version, whatever the transaction has read; see
    /// [`Txn::update_if`]. At the other levels a row that was changed after the snapshot is a conflict.
    ///
    /// # Errors
    /// [`Error::NoSuchRow`]; [`Error::WriteConflict`] if another transaction changed the row after the snapshot (at
    /// READ COMMITTED: deleted it), or is changing it and there is no session; [`Error::MustWait`] if there is one; the
    /// errors of [`Txn::insert`] for new keys and values.
    #[inline]
    pub fn update(&self, table: &Table, row: RowId, patch: impl FnOnce(&mut RowWriter<'_>)) -> Result<()> {
        self.change(table, row, |writer| {
            patch(writer);
            true
        })
        .map(|_| ())
    }

    /// Changes a row as [`Txn::update`] does, if `patch` returns true. It looks at the row once more: at READ COMMITTED
    /// the row may differ from the one that the caller chose. Returns true if the row was changed. At READ COMMITTED it
    /// is not, and no error, if the row was deleted after the snapshot.
    ///
    /// # Errors
    /// Those of [`Txn::update`].
    #[inline]
    pub fn update_if(&self, table: &Table, row: RowId, patch: impl FnOnce(&mut RowWriter<'_>) -> bool) -> Result<bool> {
        match self.change(table, row, patch) {
            Err(Error::WriteConflict { .. }) if self.is_gone(table, row) => Ok(false),
            result => result,
        }
    }

    #[inline]
    fn change(&self, table: &Table, row: RowId, patch: impl FnOnce(&mut RowWriter<'_>) -> bool) -> Result<bool> {
        let _call = self.call();
        self.inner.check_room(self.counters().writes.get())?;
        let command = self.write_command()?;
        let (cell, base) = self.claim(table, row, command, Kind::Update)?;
        // The image leaves the scratch, so that `patch` may read through the transaction, which borrows the scratch.
        let (mut image, writes_count) = {
            let mut scratch = self.scratch();
            (core::mem::take(&mut scratch.image), scratch.writes.len())
        };
        image.clear();
        image.extend_from_slice(base.image());
        let is_newer = self.reads_latest() && self.held().is_before(base);
        let mut writer = RowWriter::new(&table.layout, &mut image, is_newer);
        let unclaim = Unclaim { txn: self, writes: writes_count - 1 };
        self.is_changing.set(true);
        let wanted = patch(&mut writer);
        self.is_changing.set(false);
        let patched = writer.finish();
        let mut scratch = self.scratch();
        let scratch = &mut *scratch;
        assert_eq!(scratch.writes.len(), writes_count, "an update's closure must not write");
        core::mem::forget(unclaim);
        scratch.image = image;
        let touched = match patched {
            Ok(touched) if wanted => touched,
            refused => {
                self.inner.undo_last(self.held(), scratch, self.counters());
                return refused.map(|_| false).map_err(|unfit| unfit.at(table.name(), table.columns()));
            }
        };
        let changes_keys = touched.meets(table.key_columns);
        let mut is_sole = !scratch.locks.is_empty() && self.has_locked(table, row);
        // Before the version is published: a reader that finds it must compare keys, and a lock of the key must be
        // held.
        if changes_keys {
            announce_key_change(table, touched);
            match self.strengthen(table, row, touched, base, scratch) {
                Ok(is_strong) => is_sole |= is_strong,
                Err(error) => {
                    self.inner.undo_last(self.held(), scratch, self.counters());
                    return Err(error);
                }
            }
        }
        let word = self.held().word(command);
        let new = NewVersion::with(&mut scratch.spares, word, row.0, Some(base), &scratch.image);
        let part = self.part(RunPart::Versions);
        let published = self.held().publish(cell, base, new);
        drop(part);
        let version = match published {
            Ok(version) => version,
            Err(Taken) => {
                self.inner.undo_last(self.held(), scratch, self.counters());
                return Err(Error::Taken);
            }
        };
        self.count_made(table, version);
        if is_sole {
            self.held().had_alone(version);
        }
        let write = scratch.writes.last_mut().expect("the claim is in the write set");
        write.change.made(version);
        write.touched = touched;
        if changes_keys {
            self.change_keys(table, touched, base, version, scratch)?;
        }
        Ok(true)
    }

    /// Deletes a row.
    ///
    /// # Errors
    /// [`Error::NoSuchRow`], [`Error::WriteConflict`], [`Error::MustWait`], [`Error::Taken`], as [`Txn::update`].
    pub fn delete(&self, table: &Table, row: RowId) -> Result<()> {
        let _call = self.call();
        self.inner.check_limits()?;
        let command = self.write_command()?;
        let (_, base) = self.claim(table, row, command, Kind::Delete)?;
        if self.held().is_serial() {
            self.note_keys(table, base);
        }
        Ok(())
    }

    /// Records that a SERIALIZABLE transaction gives up the unique keys of a row: another that takes one of them comes
    /// after it, though it may not see that the row is gone.
    #[cold]
    fn note_keys(&self, table: &Table, base: &Version) {
        let own_at = self.own_at(base);
        let mut scratch = self.scratch();
        let Scratch { key, reads, .. } = &mut *scratch;
        for (position, index) in table.indexes.iter().enumerate().filter(|(_, index)| index.def.unique) {
            if !key::of_image(index, table.image(base), key) {
                note_key(table, position, key, reads, own_at);
            }
        }
    }

    /// Returns the clock, if the version is the transaction's own.
    fn own_at(&self, version: &Version) -> Option<u64> {
        self.held().is_own(version).then(|| self.inner.registry.now())
    }

    /// Deletes a row as [`Txn::delete`] does, if `condition` holds for the version that would go; see
    /// [`Txn::update_if`].
    ///
    /// # Errors
    /// Those of [`Txn::delete`].
    pub fn delete_if(&self, table: &Table, row: RowId, condition: impl FnOnce(&Row<'_>) -> bool) -> Result<bool> {
        let _call = self.call();
        self.inner.check_limits()?;
        let command = self.write_command()?;
        let base = match self.claim(table, row, command, Kind::Delete) {
            Ok((_, base)) => base,
            Err(Error::WriteConflict { .. }) if self.is_gone(table, row) => return Ok(false),
            Err(error) => return Err(error),
        };
        let unclaim = Unclaim { txn: self, writes: self.scratch().writes.len() - 1 };
        self.is_changing.set(true);
        let wanted = condition(&Row { id: row, table, place: RowPlace::Hot(base.image()) });
        self.is_changing.set(false);
        assert_eq!(self.scratch().writes.len(), unclaim.writes + 1, "a delete's condition must not write");
        core::mem::forget(unclaim);
        if wanted {
            if self.held().is_serial() {
                self.note_keys(table, base);
            }
            return Ok(true);
        }
        self.inner.undo_last(self.held(), &mut self.scratch(), self.counters());
        Ok(false)
    }

    /// Returns true if, at READ COMMITTED, the row has been deleted for good.
    #[cold]
    fn is_gone(&self, table: &Table, row: RowId) -> bool {
        self.reads_latest() && self.newest_row(table, row.0).is_none()
    }

    /// Claims the row for us and puts the change into the write set.
    #[inline]
    fn claim<'t>(
        &'t self,
        table: &'t Table,
        row: RowId,
        command: u32,
        kind: Kind,
    ) -> Result<(&'t RowCell, &'t Version)> {
        self.inner.assert_own(table);
        self.announce_change(table)?;
        let _part = self.part(RunPart::Versions);
        let locks = &self.inner.locks;
        let strong = kind == Kind::Delete;
        loop {
            if !locks.is_quiet() {
                self.pass(table, row, strong)?;
            }
            let cell = match table.rows.hot_cell(row.0, self.held().pin()) {
                Some(cell) if !cell.is_empty() => cell,
                _ => self.thaw(table, row)?,
            };
            match self.held().claim(cell, command, strong, self.reads_latest()) {
                Claim::Claimed(base) => {
                    self.claims(base);
                    let mut scratch = self.scratch();
                    self.counters().writes.set(scratch.writes.len() as u64 + 1);
                    scratch.writes.push(Write {
                        change: Change::claim(Some(base)),
                        row: row.0,
                        touched: Touched::default(),
                        keys_added: 0,
                        keys_left: 0,
                        table: table.id,
                        kind,
                    });
                    drop(scratch);
                    // The second look: a transaction that locked the row before this claim is seen now, and one that
                    // comes later sees the claim.
                    if locks.is_quiet() || self.keeps_claim(table, row, Mode::of_write(strong)) {
                        return Ok((cell, base));
                    }
                    self.inner.undo_last(self.held(), &mut self.scratch(), self.counters());
                }
                Claim::Held(word) => {
                    let key = Key::Row { table: table.id, row: row.0 };
                    self.stand_in_line(table, key, Mode::of_write(strong), Some(word))?;
                }
                Claim::Moved => {}
                Claim::NotFound => {
                    self.check_active()?;
                    self.note_row(table, row);
                    return Err(Error::NoSuchRow { table: table.name().to_owned(), row: row.0 });
                }
                Claim::ChangedWithin => {
                    return Err(Error::ChangedWithin { table: table.name().to_owned(), deletes: strong });
                }
                Claim::Changed => {
                    return Err(self.row_conflict(table, row, self.newest_row(table, row.0).is_none()));
                }
            }
        }
    }

    /// Makes a frozen row hot: its first version has the block's content, since the block's begin. Nothing of this is
    /// undone if the transaction aborts; the row is equal, hot or frozen.
    #[cold]
    fn thaw<'t>(&'t self, table: &'t Table, row: RowId) -> Result<&'t RowCell> {
        let pin = self.held().pin();
        loop {
            if let NewestState::Frozen(block, at) = table.rows.newest(row.0, pin)
                && let Some(since) = self.held().block_since(&block.since)
            {
                let values: Vec<Value<'_>> = (0..table.columns().len()).map(|column| block.value(column, at)).collect();
                let mut image = Vec::new();
                table.layout.encode(&values, &mut image).map_err(|unfit| unfit.at(table.name(), table.columns()))?;
                let new = NewVersion::new(since, row.0, None, &image);
                if let Ok(version) = table.rows.thaw(row.0, new, pin) {
                    self.count_made(table, version);
                    self.counters().thawed.add(1);
                }
            }
            match (table.rows.newest(row.0, pin), table.rows.hot_cell(row.0, pin)) {
                (NewestState::Hot(_), Some(cell)) => return Ok(cell),
                // Another thawed the row and it was frozen again.
                (NewestState::Frozen(block, _), _) if self.held().block_since(&block.since).is_some() => {}
                _ => return Err(Error::NoSuchRow { table: table.name().to_owned(), row: row.0 }),
            }
        }
    }

    /// Adds the entries of the keys that an update changed.
    #[cold]
    fn change_keys(
        &self,
        table: &Table,
        touched: Touched,
        base: &Version,
        version: &Version,
        scratch: &mut Scratch,
    ) -> Result<()> {
        for (position, index) in table.indexes.iter().enumerate() {
            if !touched.meets(index.key_columns) {
                continue;
            }
            key::of_image(index, table.image(base), &mut scratch.other_key);
            let has_null = key::of_image(index, table.image(version), &mut scratch.key);
            if scratch.key == scratch.other_key {
                continue;
            }
            if index.def.unique && self.held().is_serial() {
                let Scratch { other_key, reads, .. } = &mut *scratch;
                note_key(table, position, other_key, reads, self.own_at(base));
            }
            let write = scratch.writes.last_mut().expect("the change is in the write set");
            write.keys_left |= 1 << position;
            self.add_key(table, position, has_null, version.row(), scratch)?;
        }
        Ok(())
    }

    /// Adds the entry of `scratch.key` for the last change. On failure that change is undone.
    fn add_key(&self, table: &Table, position: usize, has_null: bool, row: u64, scratch: &mut Scratch) -> Result<()> {
        let Scratch { writes, key, other_key, .. } = &mut *scratch;
        let added = self.add_entry(&NewKey { table, position, key, has_null, row }, other_key);
        match added {
            Ok(is_new) => {
                let write = writes.last_mut().expect("the change is in the write set");
                write.keys_added |= u64::from(is_new) << position;
                Ok(())
            }
            Err(error) => {
                let key = core::mem::take(&mut scratch.key);
                // While the change is among the writes.
                let error = self.note_refusal(error, table, position, &key, scratch);
                scratch.key = key;
                let before = scratch.reads.mark();
                self.inner.undo_last(self.held(), scratch, self.counters());
                scratch.reads.unbind(&before);
                Err(error)
            }
        }
    }

    /// Adds an entry; a transaction that decides whether its key is free is waited for. Returns true if the entry is
    /// new.
    #[inline]
    pub(crate) fn add_entry(&self, new: &NewKey<'_>, buffer: &mut Vec<u8>) -> Result<bool> {
        let _part = self.part(RunPart::Index);
        let mut waited = false;
        loop {
            match entries::add(new, self.held(), buffer) {
                Added::Present => return Ok(false),
                Added::New => {
                    if waited {
                        self.key_is_ours();
                    }
                    return Ok(true);
                }
                Added::Taken => return Err(self.unique_violation(new.table, new.position)),
                Added::Undecided(word) => {
                    self.await_end(new.table, word)?;
                    waited = true;
                }
            }
        }
    }

    #[cold]
    pub(crate) fn unique_violation(&self, table: &Table, position: usize) -> Error {
        self.counters().unique_violations.add(1);
        Error::UniqueViolation { table: table.name().to_owned(), index: table.indexes[position].def.name.clone() }
    }

    #[cold]
    pub(crate) fn conflict(&self, table: &Table, is_deleted: bool) -> Error {
        self.counters().conflicts.add(1);
        Error::WriteConflict { table: table.name().to_owned(), is_deleted }
    }

    /// Returns the error for a row that was changed after the snapshot, and notes that the transaction has read that.
    #[cold]
    pub(crate) fn row_conflict(&self, table: &Table, row: RowId, is_deleted: bool) -> Error {
        self.note_row(table, row);
        self.conflict(table, is_deleted)
    }

    #[inline]
    pub(crate) fn count_made(&self, table: &Table, version: &Version) {
        let counters = self.counters();
        counters.versions_made.add(1);
        let (before, bytes) = (counters.bytes_made.get(), version.bytes());
        counters.bytes_made.add(bytes as u64);
        table.version_bytes.made(self.held().index(), bytes);
        self.inner.limits.note_bytes(self.inner, before, counters.bytes_made.get());
    }
}

/// Makes readers of these indexes compare keys from now on. Before the version is published: a reader that finds it
/// finds this too.
#[cold]
fn announce_key_change(table: &Table, touched: Touched) {
    for index in table.indexes.iter().filter(|index| touched.meets(index.key_columns)) {
        index.keys_changed.store(true, Ordering::Release);
    }
}
