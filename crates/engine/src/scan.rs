//! Scans for analytics: a registered snapshot, and its rows as Arrow batches.
//!
//! **Invariant:** a scan never waits and never keeps anybody waiting. Frozen blocks go out as slices of themselves; hot
//! rows are gathered into fresh arrays, with a safepoint each [`GATHER_ROWS`] rows, in code that tells the scheduler so
//! ([`preempt::Dense`]).

use crate::block::Block;
use crate::engine::Inner;
use crate::gather;
use crate::raw::chain::View;
use crate::raw::rows::CHUNK_ROWS;
use crate::raw::slots::{Pin, ReadHold};
use crate::raw::version::Version;
use crate::table::Table;
use arrow_array::{ArrayRef, BooleanArray, RecordBatch, RecordBatchOptions};
use arrow_buffer::BooleanBufferBuilder;
use arrow_schema::SchemaRef;
use arrow_select::concat::concat;
use arrow_select::filter::filter;
use preempt::{Dense, safepoint};
use std::collections::VecDeque;
use std::sync::Arc;

/// Hot rows, or newer versions of one, between two safepoints. The design allows 1,024; a row that is not in the cache costs up to 0.1 µs.
pub(crate) const GATHER_ROWS: usize = 256;

/// A registered snapshot: what was committed when it was taken, until it is dropped.
pub struct Snapshot {
    inner: Arc<Inner>,
    hold: ReadHold,
}

impl Snapshot {
    pub(crate) fn new(inner: &Arc<Inner>) -> Option<Snapshot> {
        let hold = ReadHold::new(&inner.registry)?;
        Some(Snapshot { inner: inner.clone(), hold })
    }

    /// Its number: it sees the commits up to this timestamp.
    pub fn number(&self) -> u64 {
        self.hold.snapshot()
    }

    fn view(&self) -> View {
        View { snapshot: self.hold.snapshot(), owner: 0, command: 0 }
    }

    /// A scan of the columns at these positions, in batches of at most `batch_rows` rows.
    ///
    /// # Panics
    /// When the table belongs to another engine, a position is out of range, or `batch_rows` is 0.
    pub fn scan(self: &Arc<Self>, table: &Arc<Table>, projection: &[usize], batch_rows: usize) -> Scan {
        self.inner.assert_own(table);
        assert!(0 < batch_rows, "a batch has at least one row");
        let schema = table.schema().project(projection).expect("the projection names columns of the table");
        let shared = Shared {
            snapshot: self.clone(),
            table: table.clone(),
            projection: projection.to_vec(),
            schema: Arc::new(schema),
            batch_rows,
        };
        Scan { units: units(table, self.hold.pin()), shared: Arc::new(shared) }
    }
}

impl std::fmt::Debug for Snapshot {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Snapshot").field("number", &self.number()).finish_non_exhaustive()
    }
}

/// What the parts of a scan share.
struct Shared {
    snapshot: Arc<Snapshot>,
    table: Arc<Table>,
    projection: Vec<usize>,
    schema: SchemaRef,
    batch_rows: usize,
}

/// A scan, to be split into parts.
pub struct Scan {
    shared: Arc<Shared>,
    units: Vec<Unit>,
}

/// Rows with consecutive ids: those of chunks that have anything in them.
#[derive(Clone)]
struct Unit {
    from: u64,
    to: u64,
}

impl Unit {
    fn rows(&self) -> u64 {
        self.to - self.from
    }

    /// Splits off the first `rows` rows.
    fn split_first(&mut self, rows: u64) -> Unit {
        let first = Unit { from: self.from, to: self.from + rows };
        self.from = first.to;
        first
    }
}

/// All rows that a snapshot taken before now may see.
fn units(table: &Table, pin: &Pin) -> Vec<Unit> {
    let mut units: Vec<Unit> = Vec::new();
    let end = table.rows.end();
    for from in (0..end).step_by(CHUNK_ROWS as usize) {
        let to = match table.rows.chunk(from / CHUNK_ROWS).map(|chunk| (chunk.cells(pin), chunk.block(pin))) {
            None | Some((None, None)) => continue,
            Some((Some(_), _)) => from + CHUNK_ROWS,
            Some((None, Some(block))) => block.end().min(from + CHUNK_ROWS),
        };
        match units.last_mut() {
            Some(before) if before.to == from => before.to = to.min(end),
            _ => units.push(Unit { from, to: to.min(end) }),
        }
    }
    units
}

impl Scan {
    /// The schema of its batches.
    pub fn schema(&self) -> &SchemaRef {
        &self.shared.schema
    }

    /// A bound on the number of its rows.
    pub fn rows_bound(&self) -> u64 {
        self.units.iter().map(Unit::rows).sum()
    }

    /// Splits it into at most `parts` parts of about equal size, together in the order of row ids.
    pub fn split(&self, parts: usize) -> Vec<ScanPart> {
        let mut left = self.rows_bound();
        let mut units: VecDeque<Unit> = self.units.iter().cloned().collect();
        let mut split = Vec::new();
        for part in 0..parts {
            let batch_rows = self.shared.batch_rows as u64;
            let fair = left.div_ceil((parts - part) as u64).next_multiple_of(batch_rows);
            let mut mine = VecDeque::new();
            let mut wanted = fair.min(left);
            left -= wanted;
            while 0 < wanted {
                let first = units.front_mut().expect("the units have as many rows as are left");
                if first.rows() <= wanted {
                    wanted -= first.rows();
                    mine.extend(units.pop_front());
                } else {
                    mine.push_back(first.split_first(wanted));
                    wanted = 0;
                }
            }
            if !mine.is_empty() {
                split.push(ScanPart { shared: self.shared.clone(), units: mine });
            }
        }
        split
    }
}

/// A part of a scan: an iterator of batches that are not empty.
pub struct ScanPart {
    shared: Arc<Shared>,
    units: VecDeque<Unit>,
}

impl Iterator for ScanPart {
    type Item = RecordBatch;

    fn next(&mut self) -> Option<RecordBatch> {
        loop {
            let unit = self.units.front_mut()?;
            if unit.from == unit.to {
                self.units.pop_front();
            } else if let Some(batch) = self.shared.next_batch(unit) {
                return Some(batch);
            }
        }
    }
}

impl Shared {
    /// The first rows of the unit, which it takes off. They may be none.
    fn next_batch(&self, unit: &mut Unit) -> Option<RecordBatch> {
        let pin = self.snapshot.hold.pin();
        let chunk = self.table.rows.chunk(unit.from / CHUNK_ROWS);
        match chunk.and_then(|chunk| chunk.share_block(pin)) {
            Some(block) => self.slice(&block, unit),
            None => self.gather(unit),
        }
    }

    /// Rows that have a place in the block, and those of them that are hot now.
    fn slice(&self, block: &Block, unit: &mut Unit) -> Option<RecordBatch> {
        let (hold, view) = (&self.snapshot.hold, self.snapshot.view());
        let first = unit.from;
        let Some(end) = self.extent(block, unit) else {
            return None; // The block was replaced meanwhile. The next call sees the new one.
        };
        let (from, to) = ((first - block.first_row) as usize, (end - block.first_row) as usize);
        let to = to.min(block.rows_count).max(from);
        let mut masked = Mask::new(to - from);
        let mut hot: Vec<&Version> = Vec::new();
        {
            let _dense = Dense::enter();
            self.each_newest(first, end, |row, newest| {
                masked.add((row - first) as usize);
                hot.extend(hold.registry().visible_after(newest, hold.pin(), view, passing()));
            });
        }
        // After the cells: whoever finds one empty because its row is gone finds that too.
        masked.add_gone(block, from, to);
        let chunks = first / CHUNK_ROWS..end.div_ceil(CHUNK_ROWS);
        if !chunks.into_iter().all(|chunk| self.chunk_has(chunk, Some(block))) {
            return None; // Rows may have moved to another block before we read their cells. Once more.
        }
        unit.from = end;
        let seen = hold.registry().sees_block(&block.since, view);
        let frozen = (seen && masked.count < to - from).then(|| {
            let slices = self.projection.iter().map(|column| block.columns[*column].slice(from, to - from));
            masked.apply(slices.collect())
        });
        safepoint();
        let frozen_count = if frozen.is_some() { to - from - masked.count } else { 0 };
        match (frozen, self.gathered(&hot)) {
            (Some(columns), None) => Some(self.batch(columns, frozen_count)),
            (None, Some(columns)) => Some(self.batch(columns, hot.len())),
            (Some(frozen), Some(gathered)) => {
                let both = frozen
                    .iter()
                    .zip(&gathered)
                    .map(|(frozen, hot)| concat(&[&**frozen, &**hot]).expect("both are columns of one type"));
                Some(self.batch(both.collect(), frozen_count + hot.len()))
            }
            (None, None) => None,
        }
    }

    /// How far a batch from the unit's beginning goes in this block, which its first chunk had a moment ago.
    fn extent(&self, block: &Block, unit: &Unit) -> Option<u64> {
        let limit = unit.to.min(unit.from + self.batch_rows as u64);
        let mut end = unit.from;
        while end < limit && self.chunk_has(end / CHUNK_ROWS, Some(block)) {
            end = (end - end % CHUNK_ROWS + CHUNK_ROWS).min(limit);
        }
        (unit.from < end).then_some(end)
    }

    fn chunk_has(&self, chunk: u64, block: Option<&Block>) -> bool {
        self.table.rows.chunk(chunk).is_some_and(|chunk| chunk.has_block(block))
    }

    /// Calls `each` with the newest version of every row that is hot, with a safepoint each [`GATHER_ROWS`] rows.
    fn each_newest<'s>(&'s self, from: u64, to: u64, mut each: impl FnMut(u64, &'s Version)) {
        let pin = self.snapshot.hold.pin();
        let mut row = from;
        while row < to {
            let within = (row % CHUNK_ROWS) as usize;
            let Some(cells) = self.table.rows.chunk(row / CHUNK_ROWS).and_then(|chunk| chunk.cells(pin)) else {
                row = row - within as u64 + CHUNK_ROWS;
                continue;
            };
            let rows_count = GATHER_ROWS.min(CHUNK_ROWS as usize - within).min((to - row) as usize);
            for (cell, row) in cells[within..within + rows_count].iter().zip(row..) {
                if let Some(newest) = cell.load(pin) {
                    each(row, newest);
                }
            }
            row += rows_count as u64;
            safepoint();
        }
    }

    /// The next rows of chunks that have no block.
    fn gather(&self, unit: &mut Unit) -> Option<RecordBatch> {
        let _dense = Dense::enter();
        let (hold, view) = (&self.snapshot.hold, self.snapshot.view());
        let mut seen: Vec<&Version> = Vec::with_capacity(self.batch_rows.min(unit.rows() as usize));
        while unit.from < unit.to && seen.len() < self.batch_rows {
            let chunk = unit.from / CHUNK_ROWS;
            if !self.chunk_has(chunk, None) {
                break;
            }
            let within = unit.from % CHUNK_ROWS;
            let rows_count = (GATHER_ROWS as u64)
                .min((self.batch_rows - seen.len()) as u64)
                .min(CHUNK_ROWS - within)
                .min(unit.rows());
            let seen_before = seen.len();
            self.each_newest(unit.from, unit.from + rows_count, |_, newest| {
                seen.extend(hold.registry().visible_after(newest, hold.pin(), view, passing()));
            });
            if !self.chunk_has(chunk, None) {
                // Rows may have moved to a block before we read their cells.
                seen.truncate(seen_before);
                break;
            }
            unit.from += rows_count;
        }
        self.gathered(&seen).map(|columns| self.batch(columns, seen.len()))
    }

    /// The projected columns of these versions. Nothing if there are none.
    fn gathered(&self, versions: &[&Version]) -> Option<Vec<ArrayRef>> {
        if versions.is_empty() {
            return None;
        }
        let _dense = Dense::enter();
        let layout = &self.table.layout;
        Some(self.projection.iter().map(|column| gather::column(layout, *column, versions)).collect())
    }

    fn batch(&self, columns: Vec<ArrayRef>, rows_count: usize) -> RecordBatch {
        let options = RecordBatchOptions::new().with_row_count(Some(rows_count));
        RecordBatch::try_new_with_options(self.schema.clone(), columns, &options)
            .expect("columns have the table's types and one length")
    }
}

/// A safepoint each [`GATHER_ROWS`] newer versions: a row that is written all the time has very many.
fn passing() -> impl FnMut() {
    let mut passed_count = 0;
    move || {
        passed_count += 1;
        if passed_count % GATHER_ROWS == 0 {
            safepoint();
        }
    }
}

/// Which rows of a slice do not count.
struct Mask {
    rows_count: usize,
    kept: Option<BooleanBufferBuilder>,
    /// How many do not count.
    count: usize,
}

impl Mask {
    fn new(rows_count: usize) -> Mask {
        Mask { rows_count, kept: None, count: 0 }
    }

    /// Takes out the row at this position, if the slice has it.
    fn add(&mut self, at: usize) {
        if self.rows_count <= at {
            return;
        }
        let kept = self.kept.get_or_insert_with(|| {
            let mut kept = BooleanBufferBuilder::new(self.rows_count);
            kept.append_n(self.rows_count, true);
            kept
        });
        if kept.get_bit(at) {
            kept.set_bit(at, false);
            self.count += 1;
        }
    }

    /// Takes out the rows of the block from `from` to `to` that are gone.
    fn add_gone(&mut self, block: &Block, from: usize, to: usize) {
        if block.has_gone() {
            (from..to).filter(|at| block.is_gone(*at)).for_each(|at| self.add(at - from));
        }
    }

    /// The columns without the rows that do not count. Nothing is copied if all do.
    fn apply(&mut self, columns: Vec<ArrayRef>) -> Vec<ArrayRef> {
        match &mut self.kept {
            None => columns,
            Some(kept) => {
                let kept = BooleanArray::new(kept.finish(), None);
                columns.iter().map(|column| filter(column, &kept).expect("of one length")).collect()
            }
        }
    }
}
