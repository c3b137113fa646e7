//! Hash table of rows for groups, joins, set operations and `IN`.
//!
//! **Invariant:** rows are numbered from 0 in the order of their first insertion. Rows are equal if their values
//! compare as equal by their types; nulls are equal.

use engine::memory::SMALL_BYTES;
use statement::bulk::Bulk;
use statement::error::SqlResult;
use statement::pulse;
use std::hash::Hasher;
use types::Kind;
use types::datum::Datum;
use types::ops::compare::hash;
use types::ops::is_same;

/// Units of work of a lookup.
const WORK: usize = 16;
/// Marks an empty place.
const NONE: u32 = u32::MAX;

/// Multiply-and-rotate hash, word by word. Keys are few and short, and only the user's own rows decide about
/// collisions.
#[derive(Default)]
struct KeyHasher(u64);

impl KeyHasher {
    #[inline]
    fn mix(&mut self, word: u64) {
        self.0 = (self.0.rotate_left(5) ^ word).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    }
}

impl Hasher for KeyHasher {
    fn write(&mut self, bytes: &[u8]) {
        let mut words = bytes.chunks_exact(8);
        for word in &mut words {
            self.mix(u64::from_le_bytes(word.try_into().unwrap_or_default()));
        }
        let mut last = [0; 8];
        let rest = words.remainder();
        last[..rest.len()].copy_from_slice(rest);
        self.mix(u64::from_le_bytes(last) ^ ((bytes.len() as u64) << 56));
    }

    fn write_u8(&mut self, value: u8) {
        self.mix(u64::from(value));
    }

    fn write_u32(&mut self, value: u32) {
        self.mix(u64::from(value));
    }

    fn write_u64(&mut self, value: u64) {
        self.mix(value);
    }

    fn write_i64(&mut self, value: i64) {
        self.mix(value as u64);
    }

    fn write_usize(&mut self, value: usize) {
        self.mix(value as u64);
    }

    fn finish(&self) -> u64 {
        self.0 ^ (self.0 >> 32)
    }
}

/// Hash table of rows.
pub(super) struct RowTable {
    kinds: Vec<Kind>,
    /// Values, row after row.
    values: Bulk<Datum>,
    hashes: Vec<u64>,
    /// Row numbers, at the place of their hash or behind it. The length is a power of two, and at most half of the
    /// places are used.
    places: Vec<u32>,
}

impl RowTable {
    pub(super) fn new(kinds: Vec<Kind>) -> RowTable {
        RowTable { kinds, values: Bulk::new(), hashes: Vec::new(), places: Vec::new() }
    }

    pub(super) fn len(&self) -> usize {
        self.hashes.len()
    }

    /// Returns the values of a row.
    pub(super) fn row(&self, number: usize) -> &[Datum] {
        let width = self.kinds.len();
        &self.values[number * width..(number + 1) * width]
    }

    fn hash(&self, row: &[Datum]) -> u64 {
        let mut state = KeyHasher::default();
        row.iter().zip(&self.kinds).for_each(|(value, kind)| hash(value, *kind, &mut state));
        state.finish()
    }

    fn place(&self, row: &[Datum], hash: u64) -> (usize, Option<usize>) {
        let mask = self.places.len() - 1;
        let mut place = hash as usize & mask;
        loop {
            let number = self.places[place];
            if number == NONE {
                return (place, None);
            }
            let number = number as usize;
            if self.hashes[number] == hash {
                let other = self.row(number);
                let is_it = row.iter().zip(other).zip(&self.kinds).all(|((a, b), kind)| is_same(a, b, *kind));
                if is_it {
                    return (place, Some(number));
                }
            }
            place = (place + 1) & mask;
        }
    }

    /// Returns the number of a row, if it is in the table.
    pub(super) fn find(&self, row: &[Datum]) -> Option<usize> {
        if self.places.is_empty() {
            return None;
        }
        self.place(row, self.hash(row)).1
    }

    /// Returns the number of a row, and true if it was inserted by this call.
    ///
    /// # Errors
    /// `57014`, `53200`
    pub(super) fn put(&mut self, row: &[Datum]) -> SqlResult<(usize, bool)> {
        pulse::tick(WORK)?;
        if self.places.len() <= 2 * self.hashes.len() {
            self.grow()?;
        }
        let hash = self.hash(row);
        let (place, found) = self.place(row, hash);
        if let Some(number) = found {
            return Ok((number, false));
        }
        let number = self.hashes.len();
        self.places[place] = number as u32;
        self.hashes.push(hash);
        self.values.extend_from_slice(&row[..self.kinds.len()]);
        Ok((number, true))
    }

    /// Doubles the number of places. A statement that is stopped here drops the table.
    fn grow(&mut self) -> SqlResult<()> {
        let size = (2 * self.places.len()).max(16);
        if SMALL_BYTES < size * size_of::<u32>() {
            pulse::check_room(size * size_of::<u32>())?;
        }
        self.places = vec![NONE; size];
        for (number, hash) in self.hashes.iter().enumerate() {
            pulse::tick(WORK)?;
            let mut place = *hash as usize & (size - 1);
            while self.places[place] != NONE {
                place = (place + 1) & (size - 1);
            }
            self.places[place] = number as u32;
        }
        Ok(())
    }
}
