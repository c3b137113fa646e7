//! The row map: from row id to the newest hot version, or to the row of a frozen block.
//!
//! **Invariant:** a row id names one row as long as that row lives. A chunk has cells, a share in a block, or both. A
//! cell that is not empty is the truth about its row; behind an empty one the block is, if it has the row and does not
//! call it gone. So a thread that empties a cell has published the block that has the row before, or has called it
//! gone.
//!
//! ```text
//! row id = chunk (52 bits) | index in chunk (12 bits)
//! directory: bucket k holds 64 << k chunks, made when the first of them is      (never moved, so readers need no latch)
//! chunk:     4,096 cells or null | a share in a frozen block of up to 16 consecutive chunks, or null
//! ```

use super::attic::RetiredPart;
use super::ids::{Pool, WORD};
use super::once::OnceBox;
use super::slots::{NEVER, SnapshotPin};
use super::version::{NewVersion, RowCell, Version};
use crate::frozen::block::Block;
use crate::sync::{AcqRel, Acquire, AtomicPtr, Latch, Release, SeqCst};
use core::sync::atomic::{AtomicU64, Ordering};
use preempt::no_preempt;
use std::ptr::null_mut;
use std::sync::Arc;

/// Rows of one chunk.
pub(crate) const CHUNK_ROWS: u64 = 1 << CHUNK_BITS;
const CHUNK_BITS: u32 = if cfg!(feature = "shuttle") { 1 } else { 12 };
const FIRST_BUCKET: u64 = if cfg!(feature = "shuttle") { 1 } else { 64 };
const BUCKETS: usize = 26;

/// Cells of one chunk.
pub(crate) type Cells = [RowCell; CHUNK_ROWS as usize];

fn new_cells() -> Box<Cells> {
    let cells: Box<[RowCell]> = (0..CHUNK_ROWS).map(|_| RowCell::new()).collect();
    cells.try_into().unwrap_or_else(|_| unreachable!("it has as many cells as a chunk has rows"))
}

/// Rows with neighbouring ids.
pub(crate) struct Chunk {
    cells: AtomicPtr<Cells>,
    /// Share in the block, from `Arc::into_raw`.
    block: AtomicPtr<Block>,
}

/// Location of a row's newest state.
#[derive(Clone, Copy)]
pub(crate) enum NewestState<'a> {
    /// Newest hot version of the row, committed or not.
    Hot(&'a Version),
    /// Place of the row in a block.
    Frozen(&'a Block, usize),
    /// The row does not exist.
    Nowhere,
}

impl Chunk {
    fn new() -> Chunk {
        Chunk { cells: AtomicPtr::new(null_mut()), block: AtomicPtr::new(null_mut()) }
    }

    /// Returns the cells of the chunk. None if no row of it is hot.
    #[inline]
    pub(crate) fn cells<'a>(&'a self, _pin: &'a SnapshotPin) -> Option<&'a Cells> {
        // SAFETY: null or from `Box::into_raw`; freed by the table's end, or retired and then not before `_pin` is gone.
        unsafe { self.cells.load(Acquire).as_ref() }
    }

    /// Gives the chunk cells, if it has none. Returns true if it had none.
    fn set_cells(&self, cells: Box<Cells>) -> bool {
        let cells = Box::into_raw(cells);
        let had_none = self.cells.compare_exchange(null_mut(), cells, AcqRel, Acquire).is_ok();
        if !had_none {
            // SAFETY: from the line above, and no other thread got it.
            drop(unsafe { Box::from_raw(cells) });
        }
        had_none
    }

    /// Returns the block of the chunk.
    #[inline]
    pub(crate) fn block<'a>(&'a self, _pin: &'a SnapshotPin) -> Option<&'a Block> {
        // SAFETY: null or from `Arc::into_raw`; a block that is replaced is retired, and not freed before `_pin` is gone.
        unsafe { self.block.load(Acquire).as_ref() }
    }

    /// Returns the cells and the block of one moment: without cells all rows of the chunk are in the block, or there
    /// are none. (Between two loads rows may thaw, and the block be replaced by one without them, or by none.)
    pub(crate) fn parts<'a>(&'a self, pin: &'a SnapshotPin) -> (Option<&'a Cells>, Option<&'a Block>) {
        loop {
            let block = self.block(pin);
            let cells = self.cells(pin);
            if self.has_block(block) {
                return (cells, block);
            }
        }
    }

    /// Returns a share in the block.
    pub(crate) fn share_block(&self, _pin: &SnapshotPin) -> Option<Arc<Block>> {
        let block = self.block.load(Acquire);
        if block.is_null() {
            return None;
        }
        // SAFETY: as in `block`: the chunk's own share, or the retired one, keeps the count above zero meanwhile.
        unsafe {
            Arc::increment_strong_count(block);
            Some(Arc::from_raw(block))
        }
    }

    /// Returns true if `block` is the one that the chunk has now.
    #[inline]
    pub(crate) fn has_block(&self, block: Option<&Block>) -> bool {
        std::ptr::eq(self.block.load(Acquire), block.map_or(null_mut(), |block| std::ptr::from_ref(block).cast_mut()))
    }

    #[inline]
    fn newest<'a>(&'a self, row: u64, pin: &'a SnapshotPin) -> NewestState<'a> {
        let within = (row & (CHUNK_ROWS - 1)) as usize;
        if let Some(version) = self.cells(pin).and_then(|cells| cells[within].load(pin)) {
            return NewestState::Hot(version);
        }
        self.settled(row, within, pin)
    }

    /// Returns the row behind an empty cell.
    ///
    /// A block that has the row is right whenever it is read: while our snapshot lives, the row cannot change in a way
    /// that we must not see and be frozen again, and the block's content for a row that is hot meanwhile is its former
    /// state. "Not here" is believed only if neither the cell nor the block has changed meanwhile: the row may have
    /// been thawed, left out of a new block for that, and frozen again.
    fn settled<'a>(&'a self, row: u64, within: usize, pin: &'a SnapshotPin) -> NewestState<'a> {
        loop {
            let block = self.block(pin);
            if let Some((block, at)) = block.and_then(|block| Some((block, block.position(row)?))) {
                return NewestState::Frozen(block, at);
            }
            if let Some(version) = self.cells(pin).and_then(|cells| cells[within].load(pin)) {
                return NewestState::Hot(version);
            }
            if self.has_block(block) {
                return NewestState::Nowhere;
            }
        }
    }
}

/// Contents of a row map when it was cleared.
#[derive(Debug, Default, Clone, Copy)]
pub(crate) struct Cleared {
    /// Number of newest versions, and of those among them that were not ended.
    pub(crate) versions: usize,
    pub(crate) versions_live: usize,
    pub(crate) bytes: usize,
    /// Number of rows that exist, hot and frozen.
    pub(crate) rows: u64,
}

impl Chunk {
    /// Frees the newest versions of the chunk, and its share in its block. `number` is the chunk's.
    fn free_all(&mut self, number: u64, cleared: &mut Cleared) {
        let block = core::mem::replace(&mut self.block, AtomicPtr::new(null_mut())).load(Acquire);
        // SAFETY: null or from `Arc::into_raw`, and `&mut self` proves that no thread reads it from here any more.
        let block = (!block.is_null()).then(|| unsafe { Arc::from_raw(block) });
        let block = block.filter(|block| block.since.load(Acquire) != NEVER);
        if let Some(block) = &block {
            let (from, to) = (number * CHUNK_ROWS, ((number + 1) * CHUNK_ROWS).min(block.end()));
            let (first, end) = (block.position_from(from), block.position_from(to));
            cleared.rows += (end - first - block.gone_count(first, end)) as u64;
        }
        let cells = core::mem::replace(&mut self.cells, AtomicPtr::new(null_mut())).load(Acquire);
        if cells.is_null() {
            return;
        }
        // SAFETY: from `Box::into_raw`; else as above.
        let mut cells = unsafe { Box::from_raw(cells) };
        for (cell, row) in cells.iter_mut().zip(number * CHUNK_ROWS..) {
            let Some((bytes, is_live)) = cell.free_newest() else { continue };
            cleared.versions += 1;
            cleared.bytes += bytes;
            cleared.versions_live += usize::from(is_live);
            // The row was counted with the block, if that has it, and now counts as its newest version says.
            let in_block = block.as_ref().is_some_and(|block| block.position(row).is_some());
            cleared.rows = cleared.rows + u64::from(is_live) - u64::from(in_block);
        }
    }
}

impl Drop for Chunk {
    fn drop(&mut self) {
        let (cells, block) = (self.cells.load(Acquire), self.block.load(Acquire));
        // SAFETY: the pointers came from `Box::into_raw` and `Arc::into_raw`, and `&mut self` proves that no thread
        // reads them any more.
        unsafe {
            if !cells.is_null() {
                for cell in Box::from_raw(cells).iter_mut() {
                    cell.free_newest();
                }
            }
            if !block.is_null() {
                drop(Arc::from_raw(block));
            }
        }
    }
}

pub(crate) struct RowMap {
    buckets: [OnceBox<Box<[Chunk]>>; BUCKETS],
    /// One past the highest id that was ever given out.
    next_row: AtomicU64,
    /// Frozen rows that were made hot.
    thawed: AtomicU64,
    /// Number of chunks that have cells. Counted, because a limit of memory is looked at in passing, however many
    /// chunks there are.
    celled: AtomicU64,
    /// Ids that were given back.
    pool: Latch<Pool>,
    /// Latch held while a frozen row becomes hot, which may need new cells.
    thawing: Latch<()>,
}

#[inline]
fn bucket_of(chunk: u64) -> (usize, usize) {
    let position = chunk + FIRST_BUCKET;
    let bucket = position.ilog2() - FIRST_BUCKET.ilog2();
    (bucket as usize, (position - (FIRST_BUCKET << bucket)) as usize)
}

impl RowMap {
    pub(crate) fn new() -> RowMap {
        RowMap {
            buckets: std::array::from_fn(|_| OnceBox::new()),
            next_row: AtomicU64::new(0),
            thawed: AtomicU64::new(0),
            celled: AtomicU64::new(0),
            pool: Latch::new(Pool::default()),
            thawing: Latch::new(()),
        }
    }

    /// Returns one past the highest row id given out.
    pub(crate) fn end(&self) -> u64 {
        self.next_row.load(Ordering::Acquire)
    }

    /// Gives out up to 64 row ids: the first that they are counted from, and a bit for each.
    #[cold]
    pub(super) fn allocate_word(&self) -> (u64, u64) {
        let freed = no_preempt(|no_preempt| self.pool.lock(no_preempt).take());
        freed.unwrap_or_else(|| (self.next_row.fetch_add(WORD, Ordering::AcqRel), u64::MAX))
    }

    /// Takes back row ids whose rows no reader can reach any more.
    #[cold]
    pub(super) fn free(&self, freed: &mut Vec<u64>) {
        no_preempt(|no_preempt| self.pool.lock(no_preempt).extend(freed));
    }

    /// Returns the number of row ids that can be given out again.
    pub(crate) fn free_count(&self) -> u64 {
        no_preempt(|no_preempt| self.pool.lock(no_preempt).len())
    }

    /// Returns the bytes that the map holds, without the versions and the blocks.
    pub(crate) fn bytes(&self) -> u64 {
        let chunks: usize = self.buckets.iter().filter_map(OnceBox::get).map(|chunks| chunks.len()).sum();
        (chunks * size_of::<Chunk>()) as u64 + self.celled.load(Ordering::Relaxed) * size_of::<Cells>() as u64
    }

    /// Gives out `rows_count` ids that share no chunk with others.
    pub(crate) fn allocate_chunks(&self, rows_count: usize) -> u64 {
        let ids_count = (rows_count as u64).next_multiple_of(CHUNK_ROWS);
        let mut end = self.next_row.load(Ordering::Acquire);
        loop {
            let first = end.next_multiple_of(CHUNK_ROWS);
            match self.next_row.compare_exchange(end, first + ids_count, Ordering::AcqRel, Ordering::Acquire) {
                Ok(_) => return first,
                Err(now) => end = now,
            }
        }
    }

    #[inline]
    pub(crate) fn chunk(&self, chunk: u64) -> Option<&Chunk> {
        let (bucket, index) = bucket_of(chunk);
        Some(&self.buckets.get(bucket)?.get()?[index])
    }

    fn place(&self, chunk: u64) -> &Chunk {
        let (bucket, index) = bucket_of(chunk);
        let chunks = (FIRST_BUCKET << bucket) as usize;
        &self.buckets[bucket].get_or_make(|| (0..chunks).map(|_| Chunk::new()).collect())[index]
    }

    /// Returns the location of the row's newest state.
    #[inline]
    pub(crate) fn newest<'a>(&'a self, row: u64, pin: &'a SnapshotPin) -> NewestState<'a> {
        match self.chunk(row >> CHUNK_BITS) {
            Some(chunk) => chunk.newest(row, pin),
            None => NewestState::Nowhere,
        }
    }

    /// Returns the row's cell, if its chunk has cells. It may be empty.
    #[inline]
    pub(crate) fn hot_cell<'a>(&'a self, row: u64, pin: &'a SnapshotPin) -> Option<&'a RowCell> {
        Some(&self.chunk(row >> CHUNK_BITS)?.cells(pin)?[(row & (CHUNK_ROWS - 1)) as usize])
    }

    /// Returns the cell of a row that is hot, or whose id was just given out.
    #[inline]
    pub(crate) fn cell<'a>(&'a self, row: u64, pin: &'a SnapshotPin) -> &'a RowCell {
        match self.hot_cell(row, pin) {
            Some(cell) => cell,
            None => self.make_cell(row, pin),
        }
    }

    #[cold]
    fn make_cell<'a>(&'a self, row: u64, pin: &'a SnapshotPin) -> &'a RowCell {
        let chunk = self.place(row >> CHUNK_BITS);
        self.count_celled(chunk.set_cells(new_cells()));
        self.hot_cell(row, pin).expect("the cells of a chunk with ids that may be given out stay")
    }

    /// Makes `new`, whose content equals the block's, the newest version of a frozen row. Returns it if the row is hot.
    pub(crate) fn thaw<'a>(
        &'a self,
        row: u64,
        new: NewVersion,
        pin: &'a SnapshotPin,
    ) -> Result<&'a Version, NewVersion> {
        let chunk = self.place(row >> CHUNK_BITS);
        // What is large is allocated before the latch.
        let spare = if chunk.cells(pin).is_none() { Some(new_cells()) } else { None };
        let thawed = no_preempt(|no_preempt| {
            let _latch = self.thawing.lock(no_preempt);
            if let Some(spare) = spare {
                self.count_celled(chunk.set_cells(spare));
            }
            match chunk.cells(pin) {
                Some(cells) => cells[(row & (CHUNK_ROWS - 1)) as usize].publish(None, new, pin),
                None => Err(new), // They were given back meanwhile. The caller looks again.
            }
        })?;
        self.thawed.fetch_add(1, Ordering::Relaxed);
        Ok(thawed)
    }

    fn count_celled(&self, is_new: bool) {
        self.celled.fetch_add(u64::from(is_new), Ordering::Relaxed);
    }

    /// Returns the number of frozen rows that were made hot.
    pub(crate) fn thawed(&self) -> u64 {
        self.thawed.load(Ordering::Relaxed)
    }

    /// Removes a row that was deleted before every snapshot.
    pub(crate) fn clear(&self, row: u64, pin: &SnapshotPin) {
        let Some(chunk) = self.chunk(row >> CHUNK_BITS) else { return };
        // First: a reader that finds the cell empty must find this too.
        if let Some(block) = chunk.block(pin) {
            block.set_gone(row);
        }
        if let Some(cells) = chunk.cells(pin) {
            cells[(row & (CHUNK_ROWS - 1)) as usize].clear();
        }
    }

    /// Puts `block` in the place of the chunk's block.
    pub(crate) fn replace_block(&self, chunk: u64, block: Option<&Arc<Block>>) -> Option<RetiredPart> {
        let share = block.map_or(null_mut(), |block| Arc::into_raw(block.clone()).cast_mut());
        let before = self.place(chunk).block.swap(share, SeqCst);
        // SAFETY: from `Arc::into_raw`; the swap made its share ours, and `RetiredPart` keeps it for who still reads
        // it.
        (!before.is_null()).then(|| RetiredPart::block(unsafe { Arc::from_raw(before) }))
    }

    /// Takes the cells of a chunk whose rows all are in the block, if no row is hot.
    ///
    /// Ids that were never given out, or are given out again, need their cells at any time. Here there are none: the
    /// block has all ids, and one that it calls gone keeps the cells. So only a thaw could come between, and waits.
    pub(crate) fn close_cells(&self, chunk: u64, pin: &SnapshotPin) -> Option<RetiredPart> {
        let first = chunk * CHUNK_ROWS;
        let chunk = self.place(chunk);
        // Before the latch, which urgent writers wait for: only the freezer replaces a block, and rows only ever go from it.
        if !chunk.block(pin)?.is_full(first, first + CHUNK_ROWS) {
            return None;
        }
        no_preempt(|no_preempt| {
            let _latch = self.thawing.lock(no_preempt);
            let is_empty = chunk.cells(pin)?.iter().all(|cell| cell.load(pin).is_none());
            if !is_empty || !chunk.block(pin)?.is_full(first, first + CHUNK_ROWS) {
                return None;
            }
            let cells = chunk.cells.swap(null_mut(), SeqCst);
            self.celled.fetch_sub(1, Ordering::Relaxed);
            // SAFETY: from `Box::into_raw`; the swap made them ours, and `RetiredPart` keeps them for who still reads
            // them.
            Some(RetiredPart::cells(unsafe { Box::from_raw(cells) }))
        })
    }

    /// Frees everything as the table goes, and returns its contents. `pause` is called now and then.
    pub(crate) fn free_all(&mut self, pause: impl Fn()) -> Cleared {
        let mut cleared = Cleared::default();
        let mut number = 0;
        for (bucket, chunks) in self.buckets.iter_mut().enumerate() {
            let Some(chunks) = chunks.get_mut() else {
                number += FIRST_BUCKET << bucket;
                continue;
            };
            for chunk in chunks.iter_mut() {
                chunk.free_all(number, &mut cleared);
                number += 1;
                pause();
            }
        }
        cleared
    }

    /// Puts a block where its ids were given out.
    pub(crate) fn install(&self, block: &Arc<Block>) {
        for chunk in block.chunks() {
            let share = Arc::into_raw(block.clone()).cast_mut();
            let placed = self.place(chunk).block.compare_exchange(null_mut(), share, Release, Acquire);
            assert!(placed.is_ok(), "ids of a load share no chunk with others");
        }
    }
}
