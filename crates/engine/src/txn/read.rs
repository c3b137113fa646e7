//! Reads: by row id, by key, and in key order.
//!
//! **Invariant:** a reader holds nothing and waits for no one. It returns the state of the snapshot and of the commands
//! before its own, whatever is changed meanwhile. An index entry is only a hint: the version decides.

use crate::error::{Error, Result};
use crate::raw::btree::{Cursor, ScanDirection};
use crate::raw::chain::{NowLook, NowLooks, View};
use crate::raw::rows::NewestState;
use crate::raw::slots::{COMMANDS_MAX, LATEST};
use crate::raw::version::RowCell;
use crate::row::key;
use crate::row::value::Value;
use crate::row::{Row, RowId, RowPlace};
use crate::schema::table::{Index, Table};
use crate::txn::Txn;
use crate::txn::reads::{Consumed, OpenRange, ReadLog};
use crate::txn::scratch::Scratch;
use core::ops::Bound;
use stage::split::RunPart;

/// Direction of a range, by the end that comes first.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Direction {
    /// Smallest key first.
    Forward,
    /// Greatest key first.
    Backward,
}

impl Direction {
    fn order(self) -> ScanDirection {
        match self {
            Direction::Forward => ScanDirection::Ascending,
            Direction::Backward => ScanDirection::Descending,
        }
    }
}

impl<'e> Txn<'e> {
    /// Returns the row with this key in a unique index, all columns given. In an index that is not unique: the first
    /// such row.
    ///
    /// # Errors
    /// [`crate::Error::InvalidValue`] if the key does not fit the index, [`crate::Error::Taken`].
    ///
    /// # Panics
    /// If the table has no such index, as in all methods that name one. If `table` belongs to another engine, as in all
    /// methods.
    #[inline]
    pub fn get<'t>(&'t self, table: &'t Table, index: usize, key: &[Value<'_>]) -> Result<Option<Row<'t>>> {
        self.inner.assert_own(table);
        let view = self.view()?;
        let position = index;
        let index = &table.indexes[position];
        let mut scratch = self.scratch();
        let scratch = &mut *scratch;
        key::of_all_values(table, index, key, &mut scratch.key)?;
        let first = {
            let _part = self.part(RunPart::Index);
            index.tree.first(&scratch.key)
        };
        let found = match first {
            Some(first) => self.first_visible(table, index, first, &scratch.key, &mut scratch.other_key, view),
            None => None,
        };
        if self.held().logs_reads() {
            note_key(&mut scratch.reads, table, position, key, &scratch.key, found);
        }
        Ok(found)
    }

    /// Returns the visible row with this key; `first` is the first that the index names.
    #[inline]
    pub(crate) fn first_visible<'t>(
        &'t self,
        table: &'t Table,
        index: &Index,
        first: u64,
        key: &[u8],
        buffer: &mut Vec<u8>,
        view: View,
    ) -> Option<Row<'t>> {
        if let Some(row) = self.row_with_key(table, index, first, key, buffer, view) {
            return Some(row);
        }
        let _part = self.part(RunPart::Index);
        // The first entry was of a dead row, or of one that another transaction is inserting.
        let mut found = None;
        index.tree.for_each(key, &mut |row| {
            found = self.row_with_key(table, index, row, key, buffer, view);
            found.is_none()
        });
        found
    }

    /// Returns the row with this id.
    ///
    /// # Errors
    /// [`crate::Error::Taken`].
    #[inline]
    pub fn get_row<'t>(&'t self, table: &'t Table, row: RowId) -> Result<Option<Row<'t>>> {
        self.inner.assert_own(table);
        let view = self.view()?;
        if self.held().logs_reads() {
            self.scratch().reads.row(table.id, row.0);
        }
        Ok(self.visible_row(table, row.0, view))
    }

    /// Returns the rows whose key begins with these values, in key order. They are those that existed when this was
    /// called: rows that the transaction writes while it goes through them do not appear among them.
    ///
    /// # Errors
    /// [`crate::Error::InvalidValue`] if the prefix does not fit the index, [`crate::Error::Taken`].
    pub fn range<'t>(
        &'t self,
        table: &'t Table,
        index: usize,
        prefix: &[Value<'_>],
        direction: Direction,
    ) -> Result<Range<'t>>
    where
        'e: 't,
    {
        self.inner.assert_own(table);
        let view = self.view()?;
        let position = index;
        let index = &table.indexes[position];
        let mut scratch = self.scratch();
        let Scratch { key, other_key, reads, .. } = &mut *scratch;
        key::of_values(table, index, prefix, key)?;
        let cursor = index.tree.prefix(key, direction.order());
        let read = self.held().logs_reads().then(|| {
            other_key.clone_from(key);
            let high = key::pass_prefix(other_key).then_some(&other_key[..]);
            reads.open(table.id, position, key, high)
        });
        Ok(Range { txn: self, table, index, cursor, view, key: Vec::new(), is_ahead: false, direction, read })
    }

    /// Returns the rows between two bounds, otherwise as [`Txn::range`]. Each bound may give fewer values than the
    /// index has columns; it then stands for all keys that begin with them, to be included or excluded together.
    ///
    /// # Errors
    /// As [`Txn::range`].
    pub fn range_between<'t>(
        &'t self,
        table: &'t Table,
        index: usize,
        lower: Bound<&[Value<'_>]>,
        upper: Bound<&[Value<'_>]>,
        direction: Direction,
    ) -> Result<Range<'t>>
    where
        'e: 't,
    {
        self.inner.assert_own(table);
        let view = self.view()?;
        let position = index;
        let index = &table.indexes[position];
        let key = |values: &[Value<'_>]| {
            let mut key = Vec::new();
            key::of_values(table, index, values, &mut key).map(|()| key)
        };
        // Both bounds as the smallest key on their upper side; no key is above a prefix that cannot be passed.
        let above = |values: &[Value<'_>]| {
            let mut key = key(values)?;
            Ok::<_, Error>(key::pass_prefix(&mut key).then_some(key))
        };
        let lower = match lower {
            Bound::Unbounded => Some(Vec::new()),
            Bound::Included(values) => Some(key(values)?),
            Bound::Excluded(values) => above(values)?,
        };
        let upper = match upper {
            Bound::Unbounded => None,
            Bound::Included(values) => above(values)?,
            Bound::Excluded(values) => Some(key(values)?),
        };
        let read = match &lower {
            Some(lower) if self.held().logs_reads() => {
                Some(self.scratch().reads.open(table.id, position, lower, upper.as_deref()))
            }
            _ => None,
        };
        let upper = match (&lower, &upper) {
            (None, _) => Bound::Excluded(&[][..]),
            (_, Some(upper)) => Bound::Excluded(&upper[..]),
            (_, None) => Bound::Unbounded,
        };
        let lower = lower.as_ref().map_or(Bound::Unbounded, |lower| Bound::Included(&lower[..]));
        let cursor = index.tree.range(lower, upper, direction.order());
        Ok(Range { txn: self, table, index, cursor, view, key: Vec::new(), is_ahead: false, direction, read })
    }

    /// Notes a row whose state refused a write. A SERIALIZABLE transaction that goes on after that, from a savepoint,
    /// has read it; if it was changed after the snapshot, the commit is refused.
    #[cold]
    pub(crate) fn note_row(&self, table: &Table, row: RowId) {
        if self.held().logs_reads() {
            self.scratch().reads.row_refused(table.id, row.0, self.inner.registry.now());
        }
    }

    /// Notes the refusal of a key, while the row that wants it is among the writes. A SERIALIZABLE transaction has read
    /// that the key is there. A transaction that took it after the snapshot may have read that it was free, as this one
    /// has: then the two depend on each other, and it is no violation but a failure to serialize, as in PostgreSQL.
    #[cold]
    pub(crate) fn note_refusal(
        &self,
        error: Error,
        table: &Table,
        position: usize,
        key: &[u8],
        scratch: &mut Scratch,
    ) -> Error {
        if !self.held().logs_reads() || !matches!(error, Error::UniqueViolation { .. }) {
            return error;
        }
        // By its earlier reads; an attempt that waited for the key has met it beyond the snapshot.
        let depends = self.held().is_serial() && self.inner.check_snapshot_so_far(self.held(), scratch).is_err();
        scratch.reads.key_refused(table.id, position, key, self.inner.registry.now());
        let index = &table.indexes[position];
        let held = self.held();
        // With all of its own changes, those of this command too.
        let view = View { snapshot: held.snapshot(), owner: held.word(0), command: COMMANDS_MAX + 1 };
        let first = index.tree.first(key);
        match first.and_then(|first| self.first_visible(table, index, first, key, &mut Vec::new(), view)) {
            None if depends => Error::SerializationFailure,
            None | Some(_) => error,
        }
    }

    #[inline]
    pub(crate) fn visible_row<'t>(&'t self, table: &'t Table, row: u64, view: View) -> Option<Row<'t>> {
        let _part = self.part(RunPart::Versions);
        let _call = self.call();
        if view.snapshot == LATEST {
            return self.row_now(table, row, view).1;
        }
        self.visible_at(table, row, table.rows.newest(row, self.held().pin()), view)
    }

    /// Returns the row as it is now, for a `view` of the latest commits, and the place where the look found it.
    fn row_now<'t>(&'t self, table: &'t Table, row: u64, view: View) -> (NewestState<'t>, Option<Row<'t>>) {
        let (registry, pin) = (&self.inner.registry, self.held().pin());
        let mut looks = NowLooks::default();
        loop {
            let newest = table.rows.newest(row, pin);
            let NewestState::Hot(version) = newest else {
                return (newest, self.visible_at(table, row, newest, view));
            };
            match registry.look_now(version, pin, view) {
                NowLook::Exists(version) => {
                    return (newest, Some(Row { id: RowId(row), table, place: RowPlace::Hot(version.image()) }));
                }
                NowLook::Absent => return (newest, None),
                NowLook::Ended(version) if looks.confirm(version) => return (newest, None),
                NowLook::Ended(_) => {}
            }
        }
    }

    /// Returns the row as it is now, and as `view` sees it; the first counts as much of our own work as `view`. Both
    /// come from one look at the place of the row: between two looks it may be frozen or thaw, and one version then has
    /// two places.
    pub(crate) fn now_and_seen<'t>(
        &'t self,
        table: &'t Table,
        row: u64,
        view: View,
    ) -> (Option<Row<'t>>, Option<Row<'t>>) {
        let _part = self.part(RunPart::Versions);
        let _call = self.call();
        let (place, now) = self.row_now(table, row, View { snapshot: LATEST, ..view });
        (now, self.visible_at(table, row, place, view))
    }

    #[inline]
    fn visible_at<'t>(&'t self, table: &'t Table, row: u64, newest: NewestState<'t>, view: View) -> Option<Row<'t>> {
        let (registry, pin) = (&self.inner.registry, self.held().pin());
        let place = match newest {
            NewestState::Hot(newest) => RowPlace::Hot(registry.visible_after(newest, pin, view, || ())?.image()),
            NewestState::Frozen(block, at) if registry.sees_block(&block.since, view) => RowPlace::Frozen(block, at),
            NewestState::Frozen(..) | NewestState::Nowhere => return None,
        };
        Some(Row { id: RowId(row), table, place })
    }

    /// Returns the row, if the version seen has this key.
    #[inline]
    fn row_with_key<'t>(
        &'t self,
        table: &'t Table,
        index: &Index,
        row: u64,
        key: &[u8],
        buffer: &mut Vec<u8>,
        view: View,
    ) -> Option<Row<'t>> {
        let row = self.visible_row(table, row, view)?;
        let trusts_entry = preempt::plants::is_planted("recheck_skipped");
        if trusts_entry || !index.needs_recheck() || row.has_key(index, key, buffer) { Some(row) } else { None }
    }
}

/// Records the result of a look-up by a whole key.
#[inline]
pub(crate) fn note_key(
    reads: &mut ReadLog,
    table: &Table,
    position: usize,
    values: &[Value<'_>],
    key: &[u8],
    found: Option<Row<'_>>,
) {
    let is_single = table.indexes[position].def.unique && !values.contains(&Value::Null);
    match found {
        Some(row) if is_single => reads.row(table.id, row.id.0),
        Some(row) => reads.key_up_to(table.id, position, key, row.id.0),
        None if preempt::plants::is_planted("absent_key_unchecked") => {}
        None => reads.key(table.id, position, key),
    }
}

impl Row<'_> {
    fn has_key(&self, index: &Index, key: &[u8], buffer: &mut Vec<u8>) -> bool {
        match self.place {
            RowPlace::Hot(bytes) => {
                key::of_image(index, crate::row::layout::Image { layout: &self.table.layout, bytes }, buffer);
                buffer == key
            }
            RowPlace::Frozen(block, at) => {
                key::of_block(self.table, index, block, at, buffer);
                buffer == key
            }
        }
    }
}

/// Rows in key order; see [`Txn::range`].
pub struct Range<'t> {
    txn: &'t Txn<'t>,
    table: &'t Table,
    index: &'t Index,
    cursor: Cursor<'t>,
    view: View,
    key: Vec<u8>,
    direction: Direction,
    is_ahead: bool,
    /// Entry in the log of a SERIALIZABLE transaction, until the range has come to its end.
    read: Option<OpenRange>,
}

impl Drop for Range<'_> {
    #[inline]
    fn drop(&mut self) {
        if let Some(read) = self.read.take() {
            self.close(read);
        }
    }
}

impl<'t> Range<'t> {
    /// Prepares for a range that will be read to its end: its rows share their waiting for memory, as those of
    /// [`Txn::get_many`] do.
    #[must_use]
    #[inline]
    pub fn read_ahead(mut self) -> Range<'t> {
        self.is_ahead = true;
        self
    }

    /// Asks the processor for the rows that come next, if it has not been asked for them.
    #[inline]
    fn prefetch(&mut self) {
        let Range { txn, table, cursor, .. } = self;
        let rows = cursor.rows_ahead();
        let cells = rows.filter_map(|row| table.rows.hot_cell(row, txn.held().pin()));
        cells.clone().for_each(RowCell::prefetch);
        let image_bytes = table.image_bytes();
        cells.for_each(|cell| cell.prefetch_newest(image_bytes));
    }

    /// Records the end of the range: rows that were not consumed were not read.
    fn close(&self, read: OpenRange) {
        // The holder of the scratch panics at this moment: the log keeps the whole range.
        let Ok(mut scratch) = self.txn.try_scratch() else { return };
        let consumed = match (self.cursor.last(), self.direction) {
            (None, _) => Consumed::Nothing,
            (Some((key, row)), Direction::Forward) => Consumed::Up(key, row),
            (Some((key, row)), Direction::Backward) => Consumed::Down(key, row),
        };
        scratch.reads.close(read, &consumed);
    }
}

impl<'t> Range<'t> {
    /// Passes one entry of the index. Returns its row, if the transaction sees one with this key; `None` at the end. For
    /// callers that must look for their own end even where many entries have no row to be seen.
    #[inline]
    pub fn pass(&mut self) -> Option<Option<Row<'t>>> {
        if self.is_ahead {
            self.prefetch();
        }
        let part = self.txn.part(RunPart::Index);
        let next = self.cursor.next();
        drop(part);
        let Some((key, row)) = next else {
            self.read = None;
            return None;
        };
        Some(self.txn.row_with_key(self.table, self.index, row, key, &mut self.key, self.view))
    }
}

impl<'t> Iterator for Range<'t> {
    type Item = Row<'t>;

    #[inline]
    fn next(&mut self) -> Option<Row<'t>> {
        loop {
            match self.pass() {
                Some(None) => {}
                Some(row) => return row,
                None => return None,
            }
        }
    }
}
