//! Free row ids: of one table, and of one slot.
//!
//! **Invariant:** an id is in one place: in use, free in the table's pool, or free in one slot's hands. It comes here
//! when its row has left the map and the indexes, and no walk is under way that may have met it there.
//!
//! Ids are handed to slots by the 64, so that concurrent inserters do not fight for one counter, and so that one who
//! inserts many rows gets neighbouring ids. Freed ones are used before fresh ones, lowest first.

use crate::raw::rows::RowMap;
use std::collections::BTreeMap;

/// Ids handed out together: those of a word.
pub(super) const WORD: u64 = u64::BITS as u64;
/// Freed ids that a slot may keep before it gives them to the table.
const FREED_MAX: usize = 64;

/// Free ids of a table: for each 64 ids of which any is free, a bit each.
#[derive(Debug, Default)]
pub(crate) struct Pool {
    words: BTreeMap<u64, u64>,
    count: u64,
}

impl Pool {
    fn add(&mut self, row: u64) {
        *self.words.entry(row / WORD).or_insert(0) |= 1 << (row % WORD);
        self.count += 1;
    }

    /// Takes out the lowest word.
    pub(super) fn take(&mut self) -> Option<(u64, u64)> {
        let (word, bits) = self.words.pop_first()?;
        self.count -= u64::from(bits.count_ones());
        Some((word * WORD, bits))
    }

    /// Returns the number of free ids.
    pub(crate) fn len(&self) -> u64 {
        self.count
    }

    /// Adds the freed ones.
    pub(super) fn extend(&mut self, freed: &mut Vec<u64>) {
        freed.drain(..).for_each(|row| self.add(row));
    }
}

/// Ids of one table that a slot has in its hands.
#[derive(Debug, Default)]
struct Ids {
    /// Ids to be used: those of the bits, from this id on.
    first: u64,
    bits: u64,
    freed: Vec<u64>,
}

/// Number of buckets. Tables whose ids have equal remainders are kept together.
const BUCKETS: usize = 64;

/// Ids that a slot has in its hands, by table: in each bucket those of the table that was asked for last are the first.
#[derive(Debug, Default)]
pub(crate) struct SlotIds(Vec<Vec<(u32, Ids)>>);

impl SlotIds {
    #[inline]
    fn of(&mut self, table: u32) -> &mut Ids {
        if self.0.is_empty() {
            self.0.resize_with(BUCKETS, Vec::new);
        }
        let bucket = &mut self.0[table as usize % BUCKETS];
        if bucket.first().is_none_or(|(first, _)| *first != table) {
            SlotIds::bring_forward(bucket, table);
        }
        &mut bucket[0].1
    }

    #[cold]
    fn bring_forward(bucket: &mut Vec<(u32, Ids)>, table: u32) {
        let at = bucket.iter().position(|(other, _)| *other == table).unwrap_or_else(|| {
            bucket.push((table, Ids::default()));
            bucket.len() - 1
        });
        bucket.swap(0, at);
    }

    /// Forgets the ids of these tables, which are sorted: the tables go.
    pub(crate) fn forget(&mut self, tables: &[u32]) {
        for bucket in &mut self.0 {
            bucket.retain(|(table, _)| tables.binary_search(table).is_err());
        }
    }

    /// Returns an id for a new row.
    #[inline]
    pub(crate) fn allocate(&mut self, rows: &RowMap, table: u32) -> u64 {
        let ids = self.of(table);
        if ids.bits == 0 {
            (ids.first, ids.bits) = rows.allocate_word();
        }
        let row = ids.first + u64::from(ids.bits.trailing_zeros());
        ids.bits &= ids.bits - 1;
        row
    }

    /// Takes back the id of a row that no reader can reach any more.
    pub(crate) fn release(&mut self, rows: &RowMap, table: u32, row: u64) {
        let freed = &mut self.of(table).freed;
        freed.push(row);
        if FREED_MAX <= freed.len() {
            rows.free(freed);
        }
    }

    /// Gives freed ids to their tables.
    pub(crate) fn give_back<'t>(&mut self, rows: impl Fn(u32) -> &'t RowMap) {
        for (table, ids) in self.0.iter_mut().flatten().filter(|(_, ids)| !ids.freed.is_empty()) {
            rows(*table).free(&mut ids.freed);
        }
    }
}

#[cfg(all(test, not(feature = "shuttle")))]
mod tests {
    use super::*;

    #[test]
    fn tables_of_one_bucket_keep_their_ids_apart() {
        let rows: Vec<RowMap> = (0..4).map(|_| RowMap::new()).collect();
        let mut ids = SlotIds::default();
        for round in 0..100 {
            for (at, rows) in rows.iter().enumerate() {
                assert_eq!(ids.allocate(rows, (at * BUCKETS) as u32), round);
            }
        }
        ids.forget(&[0, BUCKETS as u32]);
        let next: Vec<u64> = (0..4).map(|at| ids.allocate(&rows[at], (at * BUCKETS) as u32)).collect();
        assert_eq!(next, [128, 128, 100, 100]);
    }

    #[test]
    fn ids_are_given_out_once_in_order_and_come_back() {
        let rows = RowMap::new();
        let (mut one, mut other) = (SlotIds::default(), SlotIds::default());
        let first: Vec<u64> = (0..100).map(|_| one.allocate(&rows, 3)).collect();
        assert_eq!(first, (0..100).collect::<Vec<_>>());
        assert_eq!(other.allocate(&rows, 3), 128);
        (0..100).for_each(|row| other.release(&rows, 3, row));
        assert_eq!(rows.free_count(), 64);
        other.give_back(|_| &rows);
        assert_eq!(rows.free_count(), 100);
        let rest: Vec<u64> = (0..28 + 64).map(|_| one.allocate(&rows, 3)).collect();
        assert_eq!(rest, (100..128).chain(0..64).collect::<Vec<_>>());
        assert_eq!((rows.free_count(), rows.end()), (36, 192));
    }
}
