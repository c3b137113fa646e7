//! The row map: from row id to the newest hot version, or to a frozen block.
//!
//! **Invariant:** a row id, once given out, names the same row for ever. A chunk, once made, stays hot or stays frozen.
//!
//! ```text
//! row id = chunk (52 bits) | index in chunk (12 bits)
//! directory: bucket k holds 64 << k chunks, made when the first of them is      (never moved, so readers need no latch)
//! chunk:     4,096 cells, or a share in a frozen block of up to 16 consecutive chunks
//! ```

use super::once::OnceBox;
use super::version::RowCell;
use crate::block::Block;
use core::sync::atomic::{AtomicU64, Ordering};
use std::sync::Arc;

/// Rows of one chunk.
pub(crate) const CHUNK_ROWS: u64 = 1 << CHUNK_BITS;
const CHUNK_BITS: u32 = 12;
const FIRST_BUCKET: u64 = 64;
const BUCKETS: usize = 26;

/// Rows with neighbouring ids.
pub(crate) enum Chunk {
    Hot(Box<[RowCell]>),
    Frozen(Arc<Block>),
}

/// Where a row lives.
pub(crate) enum Home<'a> {
    Hot(&'a RowCell),
    Frozen(&'a Arc<Block>, usize),
}

pub(crate) struct RowMap {
    buckets: [OnceBox<Box<[OnceBox<Chunk>]>>; BUCKETS],
    next_row: AtomicU64,
}

#[inline]
fn bucket_of(chunk: u64) -> (usize, usize) {
    let position = chunk + FIRST_BUCKET;
    let bucket = position.ilog2() - FIRST_BUCKET.ilog2();
    (bucket as usize, (position - (FIRST_BUCKET << bucket)) as usize)
}

impl RowMap {
    pub(crate) fn new() -> RowMap {
        RowMap { buckets: std::array::from_fn(|_| OnceBox::new()), next_row: AtomicU64::new(0) }
    }

    /// One past the highest row id given out.
    pub(crate) fn end(&self) -> u64 {
        self.next_row.load(Ordering::Acquire)
    }

    /// Gives out a row id.
    #[inline]
    pub(crate) fn allocate(&self) -> u64 {
        self.next_row.fetch_add(1, Ordering::AcqRel)
    }

    /// Gives out `rows_count` ids that share no chunk with others.
    pub(crate) fn allocate_chunks(&self, rows_count: usize) -> u64 {
        let bytes = (rows_count as u64).next_multiple_of(CHUNK_ROWS);
        let mut end = self.next_row.load(Ordering::Acquire);
        loop {
            let first = end.next_multiple_of(CHUNK_ROWS);
            match self.next_row.compare_exchange(end, first + bytes, Ordering::AcqRel, Ordering::Acquire) {
                Ok(_) => return first,
                Err(now) => end = now,
            }
        }
    }

    #[inline]
    pub(crate) fn chunk(&self, chunk: u64) -> Option<&Chunk> {
        let (bucket, index) = bucket_of(chunk);
        self.buckets.get(bucket)?.get()?[index].get()
    }

    /// Where the row lives, if it was ever made.
    #[inline]
    pub(crate) fn home(&self, row: u64) -> Option<Home<'_>> {
        match self.chunk(row >> CHUNK_BITS)? {
            Chunk::Hot(cells) => Some(Home::Hot(&cells[(row & (CHUNK_ROWS - 1)) as usize])),
            Chunk::Frozen(block) => {
                let index = (row - block.first_row) as usize;
                (index < block.rows_count).then_some(Home::Frozen(block, index))
            }
        }
    }

    fn place(&self, chunk: u64) -> &OnceBox<Chunk> {
        let (bucket, index) = bucket_of(chunk);
        let chunks = (FIRST_BUCKET << bucket) as usize;
        &self.buckets[bucket].get_or_make(|| (0..chunks).map(|_| OnceBox::new()).collect())[index]
    }

    /// The cell of a hot row that was just given out.
    #[inline]
    pub(crate) fn cell(&self, row: u64) -> &RowCell {
        if let Some(Home::Hot(cell)) = self.home(row) {
            return cell;
        }
        self.place(row >> CHUNK_BITS).get_or_make(|| Chunk::Hot((0..CHUNK_ROWS).map(|_| RowCell::new()).collect()));
        match self.home(row) {
            Some(Home::Hot(cell)) => cell,
            _ => unreachable!("ids of blocks share no chunk with others"),
        }
    }

    /// Puts a block where its ids were given out.
    pub(crate) fn install(&self, block: &Arc<Block>) {
        let first = block.first_row / CHUNK_ROWS;
        for chunk in first..first + (block.rows_count as u64).div_ceil(CHUNK_ROWS) {
            let placed = self.place(chunk).set(Box::new(Chunk::Frozen(block.clone())));
            assert!(placed.is_ok(), "ids of blocks share no chunk with others");
        }
    }
}

impl Drop for RowMap {
    fn drop(&mut self) {
        let buckets = self.buckets.iter_mut().filter_map(OnceBox::get_mut);
        for chunk in buckets.flat_map(|bucket| bucket.iter_mut()).filter_map(OnceBox::get_mut) {
            if let Chunk::Hot(cells) = chunk {
                cells.iter_mut().for_each(RowCell::free_newest);
            }
        }
    }
}
