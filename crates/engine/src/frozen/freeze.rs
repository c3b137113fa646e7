//! The freezer: turns rows that were not written for a while into sealed columns, and rebuilds worn blocks.
//!
//! **Invariant:** the freezer never stands in another's way. A row moves by one compare-and-swap of its end word, which
//! fails if a writer was faster; the block that has the row is published before, and until its cell is empty the hot
//! version is the truth. There is one freezer at a time, so no other thread replaces blocks. It may be paused anywhere:
//! a thread that meets a row that is halfway finishes it. A registered snapshot keeps every row that the freezer has
//! looked at from being deleted for good meanwhile.

use crate::counters::Counters;
use crate::engine::{Engine, Inner};
use crate::frozen::arrow;
use crate::frozen::block::Block;
use crate::frozen::gather::{GATHER_ROWS, Gather};
use crate::frozen::present::Present;
use crate::raw::attic::{Attic, RetiredPart};
use crate::raw::garbage::{Dead, DeadVersionKind};
use crate::raw::live::Role;
use crate::raw::rows::{CHUNK_ROWS, RowMap};
use crate::raw::slots::{HeldSlot, NEVER, SnapshotPin};
use crate::raw::version::{RowCell, Version, VersionPtr};
use crate::schema::table::Table;
use crate::sync::Acquire;
use crate::txn::scratch::Scratch;
use arrow_array::ArrayRef;
use arrow_select::interleave::interleave;
use core::ops::Range;
use preempt::safepoint;
use stage::Class;
use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;

/// Chunks that become one block.
const RUN_CHUNKS: u64 = 16;
/// Divisor of a chunk's ids: with fewer rows than that share, a chunk is not worth a block.
const SPARSE: usize = 8;
/// Divisor of a block's rows: the block is rebuilt when that share is hot or gone, and every hot row may be frozen.
const WORN_AT_REST: usize = 64;
/// Divisor of a block's rows: the block is rebuilt when that share is hot or gone, whatever the hot rows do; they are
/// left out then.
const WORN: usize = 2;

/// Rows for each dead version that freezing may leave, and a base number, under a snapshot that stays open: each frozen
/// row leaves its hot version behind for as long as the snapshot may stand on it.
const ROWS_PER_DEAD: u64 = 8;
const DEAD_MAX: u64 = 4 * CHUNK_ROWS;

/// Passes that must have ended since a row was changed: at first and at least, and at most.
const REST_MIN: usize = 2;
const REST_MAX: usize = 64;
/// Passes after which an event counts about a third.
const MEMORY: u64 = 8;

/// Result of a call of [`Engine::freeze`].
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Frozen {
    /// Row ids that the call looked at.
    pub looked: u64,
    /// Rows that moved from the row store to a block.
    pub rows: u64,
    /// Blocks made.
    pub blocks: u64,
    /// True if the call came to the end of all tables. The next call begins with the first again.
    pub ended: bool,
}

/// Position of the freezer, kept from one call to the next.
#[derive(Default)]
pub(crate) struct Freezer {
    /// First table that is left in this pass.
    table: u64,
    chunk: u64,
    /// Horizons at the ends of the last passes, latest first.
    passes: VecDeque<u64>,
    /// Habits by table.
    habits: BTreeMap<u32, Habit>,
    pub(crate) attic: Attic,
}

/// History of a table, as the freezer has learned it.
struct Habit {
    /// Passes that must have ended since a row was changed.
    rest: usize,
    /// Rows moved in this pass.
    moved: u64,
    /// Rows moved, and rows that thawed, in the last passes; older ones count less and less.
    frozen: u64,
    thawed: u64,
    /// Rows that had thawed at the end of the last pass.
    thawed_before: u64,
}

impl Habit {
    fn new() -> Habit {
        Habit { rest: REST_MIN, moved: 0, frozen: 0, thawed: 0, thawed_before: 0 }
    }

    /// Ends a pass over the table. If many of the rows that were frozen thaw again, rows rest longer from now on; if
    /// few do, shorter.
    fn learn(&mut self, thawed: u64) {
        let thaws = thawed - self.thawed_before;
        self.thawed_before = thawed;
        self.frozen = self.frozen * MEMORY / (MEMORY + 1) + core::mem::take(&mut self.moved);
        self.thawed = self.thawed * MEMORY / (MEMORY + 1) + thaws;
        if self.frozen < CHUNK_ROWS {
            return;
        }
        if self.frozen < 4 * self.thawed {
            self.rest = (2 * self.rest).min(REST_MAX);
            (self.frozen, self.thawed) = (0, 0);
        } else if 16 * self.thawed < self.frozen {
            self.rest = (self.rest - 1).max(REST_MIN);
        }
    }
}

impl Engine {
    /// Moves rows that have rested into frozen blocks, and rebuilds worn blocks; looks at about `limit` row ids, those
    /// of a block at least, and goes on where it stopped. Does nothing while another call is under way.
    ///
    /// A pass over all tables ends with [`Frozen::ended`]. Passes are a clock: a row has rested when two have ended since
    /// it was changed, or up to 64 in tables where frozen rows used to thaw soon. Call it so that a pass takes about a
    /// second. While much is dead and cannot go, because of a snapshot that stays open, nothing more is frozen. Not for urgent contexts: a block takes milliseconds.
    pub fn freeze(&self, limit: u64) -> Frozen {
        let Some(mut freezer) = self.inner.freezer.take() else { return Frozen::default() };
        let mut frozen = Frozen::default();
        freezer.attic.free_due(self.inner.registry.horizon());
        while frozen.looked < limit && !frozen.ended {
            self.inner.freeze_step(&mut freezer, &mut frozen);
        }
        self.inner.freezer.put(freezer);
        frozen
    }
}

/// Work to do on some chunks of a table.
struct ChunkRun {
    chunks: Range<u64>,
    /// Block that the chunks have now.
    block: Option<Arc<Block>>,
    what: FreezeAction,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum FreezeAction {
    Leave,
    /// Give back cells that are empty.
    Close,
    Freeze,
}

/// Location of a row, as the freezer found it.
#[derive(Clone, Copy)]
pub(crate) enum FreezeSource<'a> {
    Hot(&'a RowCell, &'a Version),
    Frozen(usize),
    /// The row does not exist, or it stays hot.
    Left,
}

impl Inner {
    /// Returns true if a snapshot has stayed open since the pass before the last, and would keep too much if this many
    /// rows more were frozen.
    fn would_keep_too_much(&self, freezer: &Freezer, more: u64) -> bool {
        let horizon = self.registry.horizon();
        let stays = self.registry.now() != horizon && freezer.passes.iter().take(2).all(|pass| *pass == horizon);
        if !stays {
            return false;
        }
        let (mut dead, mut rows) = (0_u64, 0_u64);
        for slot in &self.counters[..self.registry.slots_used()] {
            dead = dead.wrapping_add(slot.died.get()).wrapping_sub(slot.versions_freed.get());
            rows = rows.wrapping_add(slot.rows_made.get()).wrapping_sub(slot.rows_deleted.get());
        }
        DEAD_MAX + rows / ROWS_PER_DEAD < dead + more
    }

    fn freeze_step(&self, freezer: &mut Freezer, frozen: &mut Frozen) {
        // Dropped tables are not in the list any more. A table found here stays for as long as the list is held.
        let tables = self.tables.live();
        let at = tables.partition_point(|table| u64::from(table.id) < freezer.table);
        let Some(table) = tables.get(at) else {
            freezer.habits.retain(|id, _| tables.binary_search_by_key(id, |table| table.id).is_ok());
            (freezer.table, freezer.chunk) = (0, 0);
            freezer.passes.truncate(REST_MAX - 1);
            freezer.passes.push_front(self.registry.horizon());
            frozen.ended = true;
            return;
        };
        if u64::from(table.id) != freezer.table {
            (freezer.table, freezer.chunk) = (table.id.into(), 0);
        }
        let habit = freezer.habits.entry(table.id).or_insert_with(Habit::new);
        let rest = habit.rest;
        if table.rows.end() <= freezer.chunk * CHUNK_ROWS {
            habit.learn(table.rows.thawed());
            (freezer.table, freezer.chunk) = (u64::from(table.id) + 1, 0);
            return;
        }
        let Some(held) = self.registry.begin(Class::Low, None, Role::None) else {
            frozen.ended = true; // All slots are taken: this is no time for it.
            return;
        };
        let mut scratch = self.scratch[held.index()].take().unwrap_or_default();
        let rested = freezer.passes.get(rest - 1).map_or(0, |pass| self.registry.horizon().min(*pass));
        let run = plan(table, freezer.chunk, rested, held.pin());
        frozen.looked += (run.chunks.end - run.chunks.start) * CHUNK_ROWS;
        freezer.chunk = run.chunks.end;
        let more = (run.chunks.end - run.chunks.start) * CHUNK_ROWS;
        let is_postponed = run.what == FreezeAction::Freeze && self.would_keep_too_much(freezer, more);
        let mut work = FreezeWork { inner: self, table, held: &held, rested, attic: &mut freezer.attic };
        let rows_before = frozen.rows;
        match run.what {
            FreezeAction::Leave => {}
            FreezeAction::Freeze if is_postponed => {}
            FreezeAction::Close => work.close(run.chunks),
            FreezeAction::Freeze => work.freeze(run, &mut scratch, frozen),
        }
        if let Some(habit) = freezer.habits.get_mut(&table.id) {
            habit.moved += frozen.rows - rows_before;
        }
        held.abort();
        self.hand_back(held, scratch);
        safepoint();
    }
}

/// Returns the work to do from this chunk on.
fn plan(table: &Table, chunk: u64, rested: u64, pin: &SnapshotPin) -> ChunkRun {
    let block = table.rows.chunk(chunk).and_then(|chunk| chunk.share_block(pin));
    let Some(block) = block else {
        let limit = chunk + RUN_CHUNKS;
        let end = (chunk..limit).find(|chunk| !is_ripe(table, *chunk, rested, pin)).unwrap_or(limit);
        let what = if chunk < end { FreezeAction::Freeze } else { FreezeAction::Leave };
        return ChunkRun { chunks: chunk..end.max(chunk + 1), block: None, what };
    };
    let same = |chunk: &u64| table.rows.chunk(*chunk).is_some_and(|chunk| chunk.has_block(Some(&block)));
    let end = block.chunks().end;
    let chunks = chunk..(chunk..end).find(|chunk| !same(chunk)).unwrap_or(end).max(chunk + 1);
    let what = what_of_block(table, &block, chunks.clone(), rested, pin);
    ChunkRun { chunks, block: Some(block), what }
}

/// Returns true if a chunk without a block may become one: all its ids were given out, and all its rows have rested.
fn is_ripe(table: &Table, chunk: u64, rested: u64, pin: &SnapshotPin) -> bool {
    let Some(place) = table.rows.chunk(chunk).filter(|place| place.has_block(None)) else { return false };
    let Some(cells) = place.cells(pin).filter(|_| (chunk + 1) * CHUNK_ROWS <= table.rows.end()) else { return false };
    let mut rows_count = 0;
    for cell in cells {
        match cell.load(pin) {
            Some(newest) if newest.settled_by(rested).is_none() => return false,
            Some(_) => rows_count += 1,
            None => {}
        }
    }
    cells.len() <= SPARSE * rows_count
}

fn what_of_block(table: &Table, block: &Block, chunks: Range<u64>, rested: u64, pin: &SnapshotPin) -> FreezeAction {
    let since = block.since.load(Acquire);
    if since == NEVER {
        return FreezeAction::Freeze; // A load that failed. Nothing of it will be left.
    }
    if rested < since {
        return FreezeAction::Leave;
    }
    let (from, to) = (chunks.start * CHUNK_ROWS, (chunks.end * CHUNK_ROWS).min(block.end()));
    let (first, end) = (block.position_from(from), block.position_from(to));
    let (mut hot, mut resting, mut thawed) = (0, 0, 0);
    let mut has_cells = false;
    for chunk in chunks {
        let Some(cells) = table.rows.chunk(chunk).and_then(|chunk| chunk.cells(pin)) else { continue };
        has_cells = true;
        for (cell, row) in cells.iter().zip(chunk * CHUNK_ROWS..) {
            let Some(newest) = cell.load(pin) else { continue };
            hot += 1;
            resting += usize::from(newest.settled_by(rested).is_some());
            thawed += usize::from(block.position(row).is_some());
        }
        safepoint();
    }
    let gone = block.gone_count(first, end);
    let rows_count = end - first;
    if hot + gone == 0 {
        return if has_cells { FreezeAction::Close } else { FreezeAction::Leave };
    }
    let at_rest = hot == resting && rows_count <= WORN_AT_REST * (hot + gone);
    if at_rest || rows_count <= WORN * (thawed + gone) { FreezeAction::Freeze } else { FreezeAction::Leave }
}

struct FreezeWork<'a> {
    inner: &'a Inner,
    table: &'a Table,
    held: &'a HeldSlot<'a>,
    /// Begin above which versions are left hot.
    rested: u64,
    attic: &'a mut Attic,
}

/// Returns the location of each row of these chunks now, as far as it is to be in their next block: versions that began
/// by `rested`, and rows of the block that they have now.
pub(crate) fn sources<'a>(
    rows: &'a RowMap,
    chunks: Range<u64>,
    block: Option<&Block>,
    rested: u64,
    pin: &'a SnapshotPin,
) -> Vec<FreezeSource<'a>> {
    let mut sources = Vec::with_capacity(((chunks.end - chunks.start) * CHUNK_ROWS) as usize);
    for chunk in chunks {
        let cells = rows.chunk(chunk).and_then(|chunk| chunk.cells(pin));
        for within in 0..CHUNK_ROWS {
            if (within as usize).is_multiple_of(GATHER_ROWS) {
                safepoint();
            }
            let cell = cells.map(|cells| &cells[within as usize]);
            sources.push(match cell.and_then(|cell| Some((cell, cell.load(pin)?))) {
                Some((cell, newest)) if newest.settled_by(rested).is_some() => FreezeSource::Hot(cell, newest),
                Some(_) => FreezeSource::Left,
                // After the cell: a reader that finds it empty because its row is gone finds that too.
                None => match block.and_then(|block| block.position(chunk * CHUNK_ROWS + within)) {
                    Some(at) => FreezeSource::Frozen(at),
                    None => FreezeSource::Left,
                },
            });
        }
    }
    sources
}

/// Objects that no reader that begins from now on can reach.
pub(crate) struct Unlinked {
    pub(crate) versions: Vec<VersionPtr>,
    pub(crate) replaced: Vec<RetiredPart>,
}

/// Puts `block`, which was made of the sources, in the place of the chunks' block, and ends the hot life of its rows.
pub(crate) fn settle_in(
    rows: &RowMap,
    chunks: Range<u64>,
    block: Option<&Arc<Block>>,
    sources: &[FreezeSource<'_>],
    held: &HeldSlot<'_>,
) -> Unlinked {
    let mut unlinked = Unlinked { versions: Vec::new(), replaced: Vec::new() };
    for chunk in chunks.clone() {
        unlinked.replaced.extend(rows.replace_block(chunk, block));
    }
    // From here on a cell may be empty because its row is in the new block.
    for sources in sources.chunks(GATHER_ROWS) {
        for source in sources {
            if let FreezeSource::Hot(cell, version) = source {
                unlinked.versions.extend(held.move_to_block(cell, version));
            }
        }
        safepoint();
    }
    unlinked.replaced.extend(chunks.filter_map(|chunk| rows.close_cells(chunk, held.pin())));
    unlinked
}

impl FreezeWork<'_> {
    fn freeze(&mut self, run: ChunkRun, scratch: &mut Scratch, frozen: &mut Frozen) {
        let pin = self.held.pin();
        let old = run.block.as_ref().filter(|block| block.since.load(Acquire) != NEVER);
        let sources = sources(&self.table.rows, run.chunks.clone(), old.map(|block| &**block), self.rested, pin);
        let block = self.build(&run, &sources);
        let unlinked = settle_in(&self.table.rows, run.chunks, block.as_ref(), &sources, self.held);
        let unlinked_at = self.held.unlinked_at();
        let counters: &Counters = &self.inner.counters[self.held.index()];
        let moved = unlinked.versions.len() as u64;
        frozen.rows += moved;
        frozen.blocks += u64::from(block.is_some());
        counters.frozen.add(moved);
        counters.died.add(moved);
        for version in unlinked.versions {
            let dead = Dead::new(unlinked_at, version, self.table.id, DeadVersionKind::Moved, 0);
            self.table.version_bytes.died(self.held.index(), dead.version(pin).bytes());
            scratch.graveyard.push(dead);
        }
        unlinked.replaced.into_iter().for_each(|replaced| self.attic.push(unlinked_at, replaced));
    }

    /// Builds the new block. Returns none if no row goes there.
    fn build(&self, run: &ChunkRun, sources: &[FreezeSource<'_>]) -> Option<Arc<Block>> {
        let hot: Vec<&Version> = sources
            .iter()
            .filter_map(|source| match source {
                FreezeSource::Hot(_, version) => Some(*version),
                FreezeSource::Frozen(_) | FreezeSource::Left => None,
            })
            .collect();
        let rows_count = sources.iter().filter(|source| !matches!(source, FreezeSource::Left)).count();
        if rows_count == 0 {
            return None;
        }
        let old = run.block.as_ref().filter(|_| hot.len() < rows_count);
        // For each row, its place in one of the two: the old block and the hot rows.
        let mut places = Vec::new();
        if old.is_some() {
            let mut hot_before = 0;
            places.extend(sources.iter().filter_map(|source| match source {
                FreezeSource::Hot(..) => {
                    hot_before += 1;
                    Some((1, hot_before - 1))
                }
                FreezeSource::Frozen(at) => Some((0, *at)),
                FreezeSource::Left => None,
            }));
        }
        let kinds: Vec<_> = self.table.columns().iter().map(|column| column.kind).collect();
        let mut gather = Gather::new(&self.table.layout, 0..kinds.len(), hot.len());
        gather.add(&hot);
        let column = |(column, gathered): (usize, ArrayRef)| -> ArrayRef {
            let both = match old {
                None => gathered,
                Some(block) => interleave(&[&*block.columns[column], &*gathered], &places).expect("of one type"),
            };
            safepoint();
            arrow::sealed(both, safepoint)
        };
        let columns = gather.finish().into_iter().enumerate().map(column).collect();
        let present = (rows_count < sources.len())
            .then(|| Present::new(sources.iter().map(|source| !matches!(source, FreezeSource::Left))));
        let first_row = run.chunks.start * CHUNK_ROWS;
        let totals = [&self.inner.blocks, &self.table.blocks];
        // All rows began by `rested`, and no snapshot is older.
        Some(Arc::new(Block::new(first_row, sources.len(), present, self.rested, kinds, columns, totals)))
    }

    /// Gives back the cells of chunks that are frozen whole.
    fn close(&mut self, chunks: Range<u64>) {
        let closed: Vec<_> = chunks.filter_map(|chunk| self.table.rows.close_cells(chunk, self.held.pin())).collect();
        if !closed.is_empty() {
            let unlinked_at = self.held.unlinked_at();
            closed.into_iter().for_each(|cells| self.attic.push(unlinked_at, cells));
        }
    }
}
