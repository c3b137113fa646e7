//! Row images: each row one run of bytes, as the engine's hot versions are.
//!
//! ```text
//! byte 0         48                      136
//!      | 6 x i64 | 11 x (end of text u64) | texts ... |
//! ```

use super::stock::{Copied, INTEGERS, ORDER_COUNT, QUANTITY, Stock, TEXTS, YTD};
use super::{CHUNK_ROWS, Store};

const WORD: usize = size_of::<u64>();
const ENDS: usize = INTEGERS * WORD;
const FIXED: usize = ENDS + TEXTS * WORD;
/// Number of bytes that a chunk allocates at once: more than the widest row each.
const CHUNK_BYTES: usize = CHUNK_ROWS * (FIXED + 10 * 24 + 50);

const _: () = assert!(FIXED == 136);

struct RowChunk {
    starts: Vec<u32>,
    bytes: Vec<u8>,
}

/// Store of rows as images.
pub(super) struct RowStore {
    chunks: Vec<RowChunk>,
}

/// Image of one row.
#[derive(Clone, Copy)]
struct Image<'a>(&'a [u8]);

impl<'a> Image<'a> {
    #[inline]
    fn word(self, at: usize) -> u64 {
        u64::from_le_bytes(self.0[at..at + WORD].try_into().expect("eight bytes"))
    }

    #[inline]
    fn integer(self, column: usize) -> i64 {
        self.word(column * WORD) as i64
    }

    /// Returns the offset at which text `column` begins; the offset after the last text is the end of the row.
    #[inline]
    fn start(self, column: usize) -> usize {
        if column == 0 { FIXED } else { self.word(ENDS + (column - 1) * WORD) as usize }
    }

    #[inline]
    fn text(self, column: usize) -> &'a [u8] {
        &self.0[self.start(column)..self.start(column + 1)]
    }
}

impl RowStore {
    #[inline]
    fn image(&self, at: usize) -> Image<'_> {
        let chunk = &self.chunks[at / CHUNK_ROWS];
        Image(&chunk.bytes[chunk.starts[at % CHUNK_ROWS] as usize..])
    }
}

impl Store for RowStore {
    fn new() -> RowStore {
        RowStore { chunks: Vec::new() }
    }

    #[inline]
    fn append(&mut self, row: &Stock) {
        if self.chunks.last().is_none_or(|chunk| chunk.starts.len() == CHUNK_ROWS) {
            self.chunks
                .push(RowChunk { starts: Vec::with_capacity(CHUNK_ROWS), bytes: Vec::with_capacity(CHUNK_BYTES) });
        }
        let chunk = self.chunks.last_mut().expect("there is one now");
        chunk.starts.push(chunk.bytes.len() as u32);
        // The fixed part is put together on the stack, so that the image gets it in one piece.
        let mut fixed = [0; FIXED];
        for (place, value) in fixed.chunks_exact_mut(WORD).zip(row.integers) {
            place.copy_from_slice(&value.to_le_bytes());
        }
        let mut end = FIXED as u64;
        for (place, text) in fixed[ENDS..].chunks_exact_mut(WORD).zip(&row.texts) {
            end += text.len() as u64;
            place.copy_from_slice(&end.to_le_bytes());
        }
        chunk.bytes.extend_from_slice(&fixed);
        for text in &row.texts {
            chunk.bytes.extend_from_slice(text.as_bytes());
        }
    }

    #[inline]
    fn read_row(&self, at: usize, into: &mut Copied) {
        let image = self.image(at);
        into.integers = std::array::from_fn(|column| image.integer(column));
        into.text.clear();
        // The texts lie side by side: one copy for all, which is the purpose of the layout.
        into.text.extend_from_slice(&image.0[FIXED..image.start(TEXTS)]);
    }

    #[inline]
    fn read_4(&self, at: usize, district: usize, into: &mut Copied) {
        let image = self.image(at);
        for column in [QUANTITY, YTD, ORDER_COUNT] {
            into.integers[column] = image.integer(column);
        }
        into.text.clear();
        into.text.extend_from_slice(image.text(district));
    }

    fn scan_1(&self) -> i64 {
        let quantity = |chunk: &RowChunk, start: &u32| Image(&chunk.bytes[*start as usize..]).integer(QUANTITY);
        self.chunks.iter().flat_map(|chunk| chunk.starts.iter().map(move |start| quantity(chunk, start))).sum()
    }
}
