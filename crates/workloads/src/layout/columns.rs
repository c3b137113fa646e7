//! Columns: integers in arrays, texts as ends and bytes, as Arrow has them.

use super::stock::{Copied, INTEGERS, ORDER_COUNT, QUANTITY, Stock, TEXTS, YTD};
use super::{CHUNK_ROWS, Store};

/// Number of bytes that a chunk allocates at once for each district's information.
const DISTRICT_BYTES: usize = CHUNK_ROWS * 24;
/// Number of bytes that a chunk allocates at once for the data, at its longest.
const DATA_BYTES: usize = CHUNK_ROWS * 50;

struct Texts {
    ends: Vec<u32>,
    bytes: Vec<u8>,
}

impl Texts {
    #[inline]
    fn text(&self, at: usize) -> &[u8] {
        let start = if at == 0 { 0 } else { self.ends[at - 1] };
        &self.bytes[start as usize..self.ends[at] as usize]
    }
}

struct ColumnChunk {
    integers: [Vec<i64>; INTEGERS],
    texts: [Texts; TEXTS],
}

/// Store of rows as columns.
pub(super) struct ColumnStore {
    chunks: Vec<ColumnChunk>,
}

impl Store for ColumnStore {
    fn new() -> ColumnStore {
        ColumnStore { chunks: Vec::new() }
    }

    #[inline]
    fn append(&mut self, row: &Stock) {
        if self.chunks.last().is_none_or(|chunk| chunk.integers[0].len() == CHUNK_ROWS) {
            let texts = |column: usize| Texts {
                ends: Vec::with_capacity(CHUNK_ROWS),
                bytes: Vec::with_capacity(if column + 1 == TEXTS { DATA_BYTES } else { DISTRICT_BYTES }),
            };
            self.chunks.push(ColumnChunk {
                integers: std::array::from_fn(|_| Vec::with_capacity(CHUNK_ROWS)),
                texts: std::array::from_fn(texts),
            });
        }
        let chunk = self.chunks.last_mut().expect("there is one now");
        for (column, value) in chunk.integers.iter_mut().zip(row.integers) {
            column.push(value);
        }
        for (column, text) in chunk.texts.iter_mut().zip(&row.texts) {
            column.bytes.extend_from_slice(text.as_bytes());
            column.ends.push(column.bytes.len() as u32);
        }
    }

    #[inline]
    fn read_row(&self, at: usize, into: &mut Copied) {
        let (chunk, at) = (&self.chunks[at / CHUNK_ROWS], at % CHUNK_ROWS);
        into.integers = std::array::from_fn(|column| chunk.integers[column][at]);
        into.text.clear();
        for column in &chunk.texts {
            into.text.extend_from_slice(column.text(at));
        }
    }

    #[inline]
    fn read_4(&self, at: usize, district: usize, into: &mut Copied) {
        let (chunk, at) = (&self.chunks[at / CHUNK_ROWS], at % CHUNK_ROWS);
        for column in [QUANTITY, YTD, ORDER_COUNT] {
            into.integers[column] = chunk.integers[column][at];
        }
        into.text.clear();
        into.text.extend_from_slice(chunk.texts[district].text(at));
    }

    fn scan_1(&self) -> i64 {
        self.chunks.iter().map(|chunk| chunk.integers[QUANTITY].iter().sum::<i64>()).sum()
    }
}
