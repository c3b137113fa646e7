//! Reads of a SERIALIZABLE transaction, as predicates.
//!
//! **Invariant:** if no write of others satisfies a predicate here, by its version before or by the one after it, then
//! a repetition of every read would return the same. Each read leaves its predicate before its result is used; a range
//! leaves the whole of itself at first, and takes back the part that was not consumed when it is dropped. The unique
//! keys that the transaction itself has given up are here, too: another that takes such a key comes after it.
//!
//! Two transactions on different rows do not meet here, unless one looked for a row that the other made. The exception
//! is a log that has grown too long: it is replaced by whole tables.
//!
//! *Beyond the snapshot.* Some reads meet the newest rows, whatever the snapshot sees: that a key is free for a row
//! which does not keep it, the cause of a refused write, and the rows that refer to one that goes. They are in a log of
//! their own besides ([`ReadLog::beyond`]), because a write that meets them may have come before or after. Those that
//! let a statement succeed bind the transaction even if it leaves nothing that others could see ([`ReadLog::binds`]);
//! those that only refused one do not.

use crate::raw::recent::RecentWrite;
use crate::raw::slots::SnapshotPin;
use crate::raw::version::Version;
use crate::row::condition::Condition;
use crate::row::key;
use crate::row::layout::Image;
use crate::schema::table::Table;
use crate::schema::tables::Tables;
use crate::txn::scratch::{Kind, Write};
use core::cmp::Ordering;

/// Scans of a log with conditions.
const SCANS_MAX: usize = 256;
/// Rows, ranges or bytes of keys that are kept before whole tables take their place.
const ROWS_MAX: usize = 1 << 20;
const RANGES_MAX: usize = 1 << 18;
const BYTES_MAX: usize = 16 << 20;
/// Entries and bytes that the buffers may keep between transactions.
const KEPT_MAX: usize = 4096;
const KEPT_BYTES_MAX: usize = 1 << 16;

/// A place in an index: before the entry of this key and row. The key's bytes are in [`ReadLog::bytes`].
#[derive(Debug, Clone, Copy)]
struct IndexPlace {
    start: u32,
    bytes: u32,
    row: u64,
}

/// A stretch of an index: from `low`, included, to `high`, excluded. Without `high`, to the end.
#[derive(Debug, Clone, Copy)]
struct Stretch {
    table: u32,
    index: u32,
    low: IndexPlace,
    high: Option<IndexPlace>,
}

#[derive(Debug, Clone)]
struct Scanned {
    table: u32,
    conditions: Vec<Condition>,
}

/// Log of reads. Its buffers stay with the slot, as all of [`crate::scratch`].
#[derive(Debug, Default, Clone)]
pub(crate) struct ReadLog {
    /// Rows read, by table and row id.
    rows: Vec<(u32, u64)>,
    stretches: Vec<Stretch>,
    bytes: Vec<u8>,
    scans: Vec<Scanned>,
    /// Tables by bits: table modulo 64.
    tables: u64,
    /// Number of times that the stretches were replaced.
    epoch: u32,
    /// True if sorted for the check.
    is_sorted: bool,
    key: Vec<u8>,
    /// Log of the reads beyond the snapshot.
    beyond: Option<Box<ReadLog>>,
    /// Clock after the last of them: they have not met later commits.
    beyond_until: u64,
    /// True if one of them let a statement succeed.
    binds: bool,
}

/// A range that is being consumed.
#[derive(Debug, Clone, Copy)]
pub(crate) struct OpenRange {
    at: usize,
    epoch: u32,
}

/// Extent of the log at some time.
#[derive(Debug, Clone, Copy)]
pub(crate) struct ReadMark {
    rows: usize,
    stretches: usize,
    bytes: usize,
    scans: usize,
    epoch: u32,
    binds: bool,
}

/// End of the part of a range that was consumed, if it was not consumed to its end.
pub(crate) enum Consumed<'a> {
    Nothing,
    /// Upwards to this key and row, included.
    Up(&'a [u8], u64),
    /// Downwards to this key and row, included.
    Down(&'a [u8], u64),
}

#[inline]
pub(crate) fn bit(table: u32) -> u64 {
    1 << (table % u64::BITS)
}

impl ReadLog {
    /// Prepares the log for the next transaction.
    #[inline]
    pub(crate) fn reset(&mut self) {
        self.is_sorted = false;
        if self.tables == 0 {
            return;
        }
        self.rows.clear();
        self.stretches.clear();
        self.bytes.clear();
        self.scans.clear();
        self.tables = 0;
        self.epoch = 0;
        (self.beyond, self.beyond_until, self.binds) = (None, 0, false);
        if KEPT_MAX < self.rows.capacity().max(self.stretches.capacity()) || KEPT_BYTES_MAX < self.bytes.capacity() {
            *self = ReadLog::default();
        }
    }

    #[inline]
    pub(crate) fn mark(&self) -> ReadMark {
        let ReadLog { rows, stretches, bytes, scans, epoch, binds, .. } = self;
        let (rows, stretches, bytes, scans) = (rows.len(), stretches.len(), bytes.len(), scans.len());
        ReadMark { rows, stretches, bytes, scans, epoch: *epoch, binds: *binds }
    }

    /// Forgets the reads since the mark: no one has been told of them, and a repetition reads again.
    pub(crate) fn unread(&mut self, mark: &ReadMark) {
        if self.epoch == mark.epoch {
            self.rows.truncate(mark.rows);
            self.stretches.truncate(mark.stretches);
            self.bytes.truncate(mark.bytes);
            self.scans.truncate(mark.scans);
        }
        self.unbind(mark);
    }

    /// Forgets that reads since the mark bind: the work since then has failed as a whole, and the transaction has only
    /// an error of it.
    pub(crate) fn unbind(&mut self, mark: &ReadMark) {
        self.binds = mark.binds;
    }

    /// Returns true if a read beyond the snapshot has let something succeed that the transaction knows of.
    pub(crate) fn binds(&self) -> bool {
        self.binds
    }

    /// Returns a copy without the reads beyond the snapshot.
    pub(crate) fn without_beyond(&self) -> ReadLog {
        ReadLog { beyond: None, ..self.clone() }
    }

    /// Returns the tables that were read, by bits: table modulo 64.
    #[inline]
    pub(crate) fn tables(&self) -> u64 {
        self.tables
    }

    /// Returns the size, in entries of 16 bytes or a little more.
    pub(crate) fn weight(&self) -> usize {
        self.rows.len() + 4 * self.stretches.len() + self.bytes.len() / 16 + 8 * self.scans.len()
    }

    /// Records that a key was found free beyond the snapshot, at `now` or before, and is not kept.
    pub(crate) fn key_was_free(&mut self, table: u32, index: usize, key: &[u8], now: u64) {
        self.key_refused(table, index, key, now);
        self.binds = true;
    }

    /// Records that a key was refused, beyond the snapshot.
    pub(crate) fn key_refused(&mut self, table: u32, index: usize, key: &[u8], now: u64) {
        self.key(table, index, key);
        self.beyond(table).key(table, index, key);
        self.beyond_until(now);
    }

    /// Records that a write of the row was refused, beyond the snapshot.
    pub(crate) fn row_refused(&mut self, table: u32, row: u64, now: u64) {
        self.row(table, row);
        self.beyond(table).row(table, row);
        self.beyond_until(now);
    }

    /// Records that the newest state of a row was read.
    pub(crate) fn newest_row(&mut self, table: u32, row: u64, now: u64) {
        self.row_refused(table, row, now);
        self.binds = true;
    }

    /// Records that the newest rows of a table are about to be read, all of them. As long as the statement does not
    /// fail, the rows found let it succeed. [`ReadLog::beyond_until`] is to be called after that.
    pub(crate) fn newest_rows(&mut self, table: u32) {
        self.binds = true;
        self.beyond(table).scan(table, &[]);
    }

    /// Records that the newest rows from `low` to below `high` in an index are about to be read.
    pub(crate) fn newest_range(&mut self, table: u32, index: usize, low: &[u8], high: Option<&[u8]>) {
        self.binds = true;
        self.beyond(table).open(table, index, low, high);
    }

    /// Records that the newest rows were read up to `now`.
    pub(crate) fn beyond_until(&mut self, now: u64) {
        self.beyond_until = self.beyond_until.max(now);
    }

    /// Returns true if a read went beyond the snapshot after the timestamp.
    pub(crate) fn is_beyond(&self, committed: u64) -> bool {
        committed <= self.beyond_until
    }

    /// Returns the log of the reads of this table beyond the snapshot. Reads noted there are noted here as well.
    #[cold]
    fn beyond(&mut self, table: u32) -> &mut ReadLog {
        self.tables |= bit(table);
        self.beyond.get_or_insert_default()
    }

    /// Records that a row was read by its id, or by a unique key; or that there is none with the id.
    #[inline]
    pub(crate) fn row(&mut self, table: u32, row: u64) {
        if self.rows.last() == Some(&(table, row)) {
            return;
        }
        self.tables |= bit(table);
        self.rows.push((table, row));
        if self.rows.len() == ROWS_MAX {
            self.shorten();
        }
    }

    /// Records that all rows with this key were looked for.
    pub(crate) fn key(&mut self, table: u32, index: usize, key: &[u8]) {
        self.key_up_to(table, index, key, u64::MAX - 1);
    }

    /// Records that the rows with this key were looked for, up to this one.
    pub(crate) fn key_up_to(&mut self, table: u32, index: usize, key: &[u8], row: u64) {
        let start = self.add_bytes(key);
        let place = |row| IndexPlace { start, bytes: key.len() as u32, row };
        self.add(Stretch { table, index: index as u32, low: place(0), high: Some(place(row + 1)) });
    }

    /// Records, when a change is undone and the transaction goes on, that it has read the row's former state, and that
    /// keys were free.
    #[cold]
    pub(crate) fn undone(&mut self, table: &Table, write: &Write, new: Option<&Version>, now: u64) {
        let keys = match write.kind {
            Kind::Insert => table.all_indexes(),
            Kind::Update | Kind::Delete => {
                self.row(write.table, write.row);
                write.keys_left
            }
        };
        let Some(new) = new else { return };
        let mut key = core::mem::take(&mut self.key);
        for (position, index) in table.indexes.iter().enumerate().filter(|(_, index)| index.def.unique) {
            let has_null = keys & (1 << position) == 0 || key::of_image(index, table.image(new), &mut key);
            if !has_null {
                self.key_was_free(write.table, position, &key, now);
            }
        }
        self.key = key;
    }

    /// Begins a range, of the keys from `low` to below `high`.
    pub(crate) fn open(&mut self, table: u32, index: usize, low: &[u8], high: Option<&[u8]>) -> OpenRange {
        let low = IndexPlace { start: self.add_bytes(low), bytes: low.len() as u32, row: 0 };
        let high = high.map(|high| IndexPlace { start: self.add_bytes(high), bytes: high.len() as u32, row: 0 });
        let epoch = self.epoch;
        self.add(Stretch { table, index: index as u32, low, high });
        OpenRange { at: self.stretches.len().wrapping_sub(1), epoch }
    }

    /// Ends a range that was not consumed to its end.
    pub(crate) fn close(&mut self, open: OpenRange, consumed: &Consumed<'_>) {
        if open.epoch != self.epoch {
            return; // A whole table stands for it.
        }
        match *consumed {
            Consumed::Nothing => self.stretches[open.at].high = Some(self.stretches[open.at].low),
            Consumed::Up(key, row) => {
                let place = IndexPlace { start: self.add_bytes(key), bytes: key.len() as u32, row: row + 1 };
                self.stretches[open.at].high = Some(place);
            }
            Consumed::Down(key, row) => {
                let place = IndexPlace { start: self.add_bytes(key), bytes: key.len() as u32, row };
                self.stretches[open.at].low = place;
            }
        }
    }

    /// Records a scan of a table for rows that satisfy all the conditions.
    pub(crate) fn scan(&mut self, table: u32, conditions: &[Condition]) {
        let is_covered =
            |scan: &Scanned| scan.table == table && (scan.conditions.is_empty() || scan.conditions == conditions);
        if self.tables & bit(table) != 0 && self.scans.iter().any(is_covered) {
            return;
        }
        self.tables |= bit(table);
        // Beyond this many, the conditions of a table's scans are no more told apart.
        let conditions = if SCANS_MAX <= self.scans.len() { &[] } else { conditions };
        self.scans.push(Scanned { table, conditions: conditions.to_vec() });
    }

    fn add_bytes(&mut self, key: &[u8]) -> u32 {
        let start = self.bytes.len() as u32;
        self.bytes.extend_from_slice(key);
        start
    }

    fn add(&mut self, stretch: Stretch) {
        self.tables |= bit(stretch.table);
        self.stretches.push(stretch);
        if RANGES_MAX <= self.stretches.len() || BYTES_MAX <= self.bytes.len() {
            self.shorten();
        }
    }

    /// Shortens a log that is too long: whole tables take the place of rows and stretches.
    #[cold]
    fn shorten(&mut self) {
        let mut tables: Vec<u32> = self.rows.iter().map(|(table, _)| *table).collect();
        tables.extend(self.stretches.iter().map(|stretch| stretch.table));
        tables.sort_unstable();
        tables.dedup();
        for table in tables {
            let is_whole = |scan: &Scanned| scan.table == table && scan.conditions.is_empty();
            if !self.scans.iter().any(is_whole) {
                self.scans.push(Scanned { table, conditions: Vec::new() });
            }
        }
        self.rows.clear();
        self.stretches.clear();
        self.bytes.clear();
        self.epoch += 1;
    }

    /// Sorts rows and stretches, so that a write need not be compared with each.
    pub(crate) fn sort(&mut self) {
        if core::mem::replace(&mut self.is_sorted, true) {
            return;
        }
        if let Some(beyond) = &mut self.beyond {
            beyond.sort();
        }
        self.rows.sort_unstable();
        self.rows.dedup();
        let ReadLog { stretches, bytes, .. } = self;
        stretches.retain(|stretch| stretch.high.is_none_or(|high| compare(bytes, &stretch.low, &high).is_lt()));
        stretches.sort_unstable_by(|a, b| {
            (a.table, a.index).cmp(&(b.table, b.index)).then_with(|| compare(bytes, &a.low, &b.low))
        });
        // Stretches that overlap become one, so that at most one can hold a key.
        stretches.dedup_by(|next, kept| {
            let meets = (next.table, next.index) == (kept.table, kept.index)
                && kept.high.is_none_or(|high| compare(bytes, &next.low, &high).is_le());
            if meets && let Some(high) = kept.high {
                let is_longer = next.high.is_none_or(|next| compare(bytes, &high, &next).is_lt());
                kept.high = if is_longer { next.high } else { Some(high) };
            }
            meets
        });
    }

    /// Returns true if the write meets a read. The log is sorted; the pin belongs to a transaction that may look at the
    /// write's versions; `key` is a buffer.
    pub(crate) fn meets(&self, tables: &Tables, pin: &SnapshotPin, write: &RecentWrite, key: &mut Vec<u8>) -> bool {
        debug_assert!(self.is_sorted || self.tables == 0, "a log is sorted before it is compared");
        if self.tables & bit(write.table) == 0 {
            return false;
        }
        if write.is_any {
            return self.meets_any(write.table);
        }
        if self.rows.binary_search(&(write.table, write.row)).is_ok() {
            return true;
        }
        let from = self.stretches.partition_point(|stretch| stretch.table < write.table);
        let is_read = self.stretches.get(from).is_some_and(|stretch| stretch.table == write.table)
            || self.scans.iter().any(|scan| scan.table == write.table);
        if !is_read {
            return false;
        }
        let table = tables.get(write.table, pin).expect("a table stays while a transaction that used it is open");
        let images = [write.before(pin), write.after(pin)];
        images.into_iter().flatten().any(|version| self.meets_image(table, from, write, table.image(version), key))
    }

    /// Returns the tables that were read beyond the snapshot, by bits.
    #[inline]
    pub(crate) fn tables_beyond(&self) -> u64 {
        self.beyond.as_ref().map_or(0, |beyond| beyond.tables)
    }

    /// Returns true if the write meets a read beyond the snapshot, otherwise as [`ReadLog::meets`].
    pub(crate) fn meets_beyond(
        &self,
        tables: &Tables,
        pin: &SnapshotPin,
        write: &RecentWrite,
        key: &mut Vec<u8>,
    ) -> bool {
        self.beyond.as_ref().is_some_and(|beyond| beyond.meets(tables, pin, write, key))
    }

    /// Returns true if rows whose contents are not looked at may meet a read.
    fn meets_any(&self, table: u32) -> bool {
        let row = self.rows.partition_point(|row| row.0 < table);
        self.rows.get(row).is_some_and(|row| row.0 == table)
            || self.stretches.iter().any(|stretch| stretch.table == table)
            || self.scans.iter().any(|scan| scan.table == table)
    }

    /// Returns true if a row image meets a stretch, of which the table's begin at `from`, or a scan.
    fn meets_image(
        &self,
        table: &Table,
        mut from: usize,
        write: &RecentWrite,
        image: Image<'_>,
        key: &mut Vec<u8>,
    ) -> bool {
        let ReadLog { stretches, bytes, scans, .. } = self;
        while let Some(first) = stretches.get(from).filter(|stretch| stretch.table == write.table) {
            let index = first.index;
            let of_index = |stretch: &Stretch| (stretch.table, stretch.index) == (write.table, index);
            let end = from + stretches[from..].partition_point(of_index);
            key::of_image(&table.indexes[index as usize], image, key);
            let not_above = |stretch: &Stretch| compare_key(bytes, &stretch.low, key, write.row).is_le();
            let above = from + stretches[from..end].partition_point(not_above);
            let holds =
                |stretch: &Stretch| stretch.high.is_none_or(|high| compare_key(bytes, &high, key, write.row).is_gt());
            if from < above && holds(&stretches[above - 1]) {
                return true;
            }
            from = end;
        }
        let satisfies = |condition: &Condition| condition.holds(image.value(condition.column));
        scans.iter().any(|scan| scan.table == write.table && scan.conditions.iter().all(satisfies))
    }
}

fn key_of<'a>(bytes: &'a [u8], place: &IndexPlace) -> &'a [u8] {
    &bytes[place.start as usize..][..place.bytes as usize]
}

fn compare(bytes: &[u8], left: &IndexPlace, right: &IndexPlace) -> Ordering {
    compare_key(bytes, left, key_of(bytes, right), right.row)
}

fn compare_key(bytes: &[u8], place: &IndexPlace, key: &[u8], row: u64) -> Ordering {
    key_of(bytes, place).cmp(key).then(place.row.cmp(&row))
}
