//! Scans for analytics: a registered snapshot, and its rows as Arrow batches.
//!
//! **Invariant:** a scan never waits and never keeps others waiting. Frozen blocks are returned as slices of
//! themselves; hot rows are gathered into fresh arrays, with a safepoint every [`GATHER_ROWS`] rows, in code that tells
//! the scheduler so ([`preempt::Dense`]).

use crate::engine::{Engine, Inner};
use crate::error::Limit;
use crate::error::{Error, Result};
use crate::frozen::block::Block;
use crate::frozen::gather::{GATHER_ROWS, Gather};
use crate::raw::chain::View;
use crate::raw::reader::ReadHold;
use crate::raw::rows::{CHUNK_ROWS, NewestState};
use crate::raw::slots::SnapshotPin;
use crate::raw::version::Version;
use crate::row::condition::Condition;
use crate::row::{Row, RowId, RowPlace};
use crate::schema::table::Table;
use crate::sync::Relaxed;
use crate::txn::Txn;
use crate::txn::begin::{Begin, Isolation};
use arrow_array::{ArrayRef, BooleanArray, RecordBatch, RecordBatchOptions};
use arrow_buffer::BooleanBufferBuilder;
use arrow_schema::SchemaRef;
use arrow_select::concat::concat_batches;
use arrow_select::filter::filter;
use preempt::{Dense, safepoint};
use stage::Class;
use std::collections::VecDeque;
use std::sync::Arc;

/// Largest number of rows of a batch, so that it can be added to any row id.
const BATCH_ROWS_MAX: usize = 1 << 31;

/// A registered snapshot: the state that was committed when it was taken, until it is dropped; or the state that an
/// open transaction saw then ([`Txn::snapshot`]).
pub struct Snapshot {
    inner: Arc<Inner>,
    hold: ReadHold,
    view: View,
}

impl Snapshot {
    pub(crate) fn new(inner: &Arc<Inner>) -> Option<Snapshot> {
        let hold = ReadHold::new(&inner.registry)?;
        let view = View { snapshot: hold.snapshot(), owner: 0, command: 0 };
        Some(Snapshot { inner: inner.clone(), hold, view })
    }

    /// Returns the number of the snapshot: it sees the commits up to this timestamp.
    pub fn number(&self) -> u64 {
        self.hold.snapshot()
    }

    /// Returns true if the transaction that the snapshot was taken in is still open; always, if it was taken in none.
    /// If it is, all reads through this snapshot so far returned the transaction's own view, as long as it has not gone
    /// back to a savepoint. If not, the reads have no meaning: changes of the transaction are there in part.
    pub fn is_intact(&self) -> bool {
        self.view.owner == 0 || self.hold.registry().is_active(self.view.owner)
    }

    fn view(&self) -> View {
        self.view
    }

    /// Passes one row, as the snapshot sees it, to `read`; returns none if it sees none with this id. The row's memory
    /// is valid only while `read` runs, which should not be long: nothing that dies meanwhile is freed.
    ///
    /// # Panics
    /// If the table belongs to another engine.
    pub fn with_row<R>(&self, table: &Table, row: RowId, read: impl FnOnce(&Row<'_>) -> R) -> Option<R> {
        self.inner.assert_own(table);
        let registry = self.hold.registry();
        let _walk = registry.walk();
        let place = match table.rows.newest(row.0, self.hold.pin()) {
            NewestState::Hot(newest) => {
                RowPlace::Hot(registry.visible_after(newest, self.hold.pin(), self.view, || ())?.image())
            }
            NewestState::Frozen(block, at) if registry.sees_block(&block.since, self.view) => {
                RowPlace::Frozen(block, at)
            }
            NewestState::Frozen(..) | NewestState::Nowhere => return None,
        };
        Some(read(&Row { id: row, table, place }))
    }

    /// Runs `read` with a READ ONLY transaction that sees this snapshot, without the changes of the transaction that the
    /// snapshot was taken in. The transaction cannot wait for locks, and holds nothing but the snapshot: `read` may take
    /// any time. Views show it as one of the session with this number ([`crate::Session::number`]).
    ///
    /// # Errors
    /// [`Error::Limit`] if too many transactions are open.
    pub fn read<R>(&self, class: Class, session: u64, read: impl FnOnce(&Txn<'_>) -> R) -> Result<R> {
        let begin = Begin::new(class).isolation(Isolation::RepeatableRead).read_only();
        let held = self.inner.hold(begin, None)?;
        held.read_by(&self.hold);
        held.set_session(session);
        let txn = Txn::new(&self.inner, held, begin);
        txn.rest_between_calls();
        let made = read(&txn);
        txn.give_up();
        Ok(made)
    }

    /// Returns a scan of the columns at these positions, in batches of at most `batch_rows` rows.
    ///
    /// # Panics
    /// If the table belongs to another engine, a position is out of range, or `batch_rows` is 0.
    pub fn scan(self: &Arc<Self>, table: &Arc<Table>, projection: &[usize], batch_rows: usize) -> Scan {
        self.scan_where(table, projection, &[], batch_rows).expect("there is no condition")
    }

    /// Returns a scan as [`Snapshot::scan`] does, without blocks that have no row which satisfies all the conditions.
    /// Other rows that do not satisfy them may be among the batches: the caller filters again.
    ///
    /// # Errors
    /// [`Error::InvalidValue`](crate::Error::InvalidValue) if a condition does not fit the table.
    ///
    /// # Panics
    /// As [`Snapshot::scan`].
    pub fn scan_where(
        self: &Arc<Self>,
        table: &Arc<Table>,
        projection: &[usize],
        conditions: &[Condition],
        batch_rows: usize,
    ) -> Result<Scan> {
        self.inner.assert_own(table);
        assert!(0 < batch_rows, "a batch has at least one row");
        conditions.iter().try_for_each(|condition| condition.check(table))?;
        let schema = table.schema().project(projection).expect("the projection names columns of the table");
        let shared = ScanState {
            snapshot: self.clone(),
            table: table.clone(),
            projection: projection.to_vec(),
            conditions: conditions.to_vec(),
            schema: Arc::new(schema),
            batch_rows: batch_rows.min(BATCH_ROWS_MAX),
        };
        Ok(Scan { units: units(table, self.hold.pin()), shared: Arc::new(shared) })
    }
}

impl Txn<'_> {
    /// Returns a registered snapshot with the view of this statement: the state committed at [`Txn::snapshot_number`],
    /// and the transaction's own changes so far, not those to come. For scans by other threads, as an analytical query
    /// makes.
    ///
    /// The snapshot is right as long as the transaction neither ends nor goes back to a savepoint, which nothing
    /// prevents; see [`Snapshot::is_intact`]. Reads of a SERIALIZABLE transaction through it must be noted:
    /// [`Txn::note_scan`].
    ///
    /// # Errors
    /// [`Error::Limit`] if too many are registered; [`Error::Taken`].
    pub fn snapshot(&self) -> Result<Arc<Snapshot>> {
        let view = self.view()?;
        let inner = self.inner.itself.upgrade().expect("whoever runs a transaction has the engine");
        let hold = ReadHold::of(&inner.registry, self.held()).ok_or(Error::Limit(Limit::Snapshots))?;
        Ok(Arc::new(Snapshot { inner, hold, view }))
    }

    /// Returns a snapshot as [`Txn::snapshot`] does, but of the state that is committed now, whatever the transaction's
    /// snapshot is: for a caller that has locked a table against writers and must have all its rows.
    ///
    /// # Errors
    /// Those of [`Txn::snapshot`].
    pub fn newest_snapshot(&self) -> Result<Arc<Snapshot>> {
        let inner = self.inner.itself.upgrade().expect("whoever runs a transaction has the engine");
        let hold = ReadHold::new(&inner.registry).ok_or(Error::Limit(Limit::Snapshots))?;
        let view = View { snapshot: hold.snapshot(), ..self.view()? };
        Ok(Arc::new(Snapshot { inner, hold, view }))
    }
}

impl Engine {
    /// Returns the largest number of newer versions of one row that a scan has had to pass over, to the one that its
    /// snapshot sees, since the last call: the length of version chains while old snapshots live.
    pub fn take_chain_max(&self) -> u64 {
        self.inner.passed_max.swap(0, Relaxed)
    }
}

impl std::fmt::Debug for Snapshot {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Snapshot").field("number", &self.number()).finish_non_exhaustive()
    }
}

/// State that the parts of a scan share.
struct ScanState {
    snapshot: Arc<Snapshot>,
    table: Arc<Table>,
    projection: Vec<usize>,
    conditions: Vec<Condition>,
    schema: SchemaRef,
    batch_rows: usize,
}

/// A scan, to be split into parts.
pub struct Scan {
    shared: Arc<ScanState>,
    units: Vec<Unit>,
}

/// Rows with consecutive ids: those of chunks that contain anything.
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

/// Returns units of all rows that a snapshot taken before now may see.
fn units(table: &Table, pin: &SnapshotPin) -> Vec<Unit> {
    let mut units: Vec<Unit> = Vec::new();
    let end = table.rows.end();
    for from in (0..end).step_by(CHUNK_ROWS as usize) {
        let to = match table.rows.chunk(from / CHUNK_ROWS).map(|chunk| chunk.parts(pin)) {
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
    /// Returns the schema of the batches.
    pub fn schema(&self) -> &SchemaRef {
        &self.shared.schema
    }

    /// Returns a bound on the number of rows.
    pub fn rows_bound(&self) -> u64 {
        self.units.iter().map(Unit::rows).sum()
    }

    /// Splits the scan into at most `parts` parts of about equal size. The row ids of one are below those of the next.
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
                let shared = self.shared.clone();
                split.push(ScanPart { shared, units: mine, hot: None, is_hot: false, counted: None });
            }
        }
        split
    }

    /// Samples rows from all over the table, for estimates: those of at most `ids_max` row ids, evenly spread, or of
    /// all.
    ///
    /// # Panics
    /// If `ids_max` is 0.
    pub fn sample(&self, ids_max: u64) -> Sample {
        assert!(0 < ids_max, "a sample has rows");
        let bound = self.rows_bound();
        let ids = ids_max.min(bound);
        let mut units = VecDeque::with_capacity(ids as usize);
        if ids == bound {
            units.extend(self.units.iter().cloned());
        } else {
            // End of the last unit, counted over the rows of all units side by side.
            let mut passed = 0;
            let mut wanted =
                (0..ids).map(|at| (u128::from(at) * u128::from(bound) / u128::from(ids)) as u64).peekable();
            for unit in &self.units {
                while let Some(at) = wanted.next_if(|at| at - passed < unit.rows()) {
                    let from = unit.from + (at - passed);
                    units.push_back(Unit { from, to: from + 1 });
                }
                passed += unit.rows();
            }
        }
        let part = ScanPart { shared: self.shared.clone(), units, hot: None, is_hot: false, counted: None };
        let batches: Vec<RecordBatch> = part.collect();
        let rows = concat_batches(&self.shared.schema, &batches).expect("all have the scan's schema");
        Sample { rows, ids, bound }
    }
}

/// Result of [`Scan::sample`].
#[derive(Debug, Clone)]
pub struct Sample {
    /// Rows that the snapshot sees.
    pub rows: RecordBatch,
    /// Number of row ids that were looked at.
    pub ids: u64,
    bound: u64,
}

impl Sample {
    /// Estimates the number of rows of the whole scan. Where the sample has none there may yet be some.
    pub fn rows_of_all(&self) -> f64 {
        if self.ids == 0 {
            return 0.0;
        }
        self.bound as f64 * (self.rows.num_rows() as f64).max(0.5) / self.ids as f64
    }
}

/// A part of a scan: an iterator of batches that are not empty.
pub struct ScanPart {
    shared: Arc<ScanState>,
    units: VecDeque<Unit>,
    /// Hot rows from among those of the last batch.
    hot: Option<RecordBatch>,
    /// True if the last batch was of hot rows.
    is_hot: bool,
    /// First row of the block that was counted last.
    counted: Option<u64>,
}

impl ScanPart {
    /// Returns true if the last batch was gathered from hot rows, and not read where a block has it.
    pub fn was_hot(&self) -> bool {
        self.is_hot
    }
}

impl Iterator for ScanPart {
    type Item = RecordBatch;

    fn next(&mut self) -> Option<RecordBatch> {
        loop {
            if self.hot.is_some() {
                self.is_hot = true;
                return self.hot.take();
            }
            let unit = self.units.front_mut()?;
            if unit.from == unit.to {
                self.units.pop_front();
                continue;
            }
            let chunk = self.shared.table.rows.chunk(unit.from / CHUNK_ROWS);
            let block = chunk.and_then(|chunk| chunk.share_block(self.shared.pin()));
            self.is_hot = block.is_none();
            let batch = match block {
                None => self.shared.gather(unit),
                Some(block) => {
                    let wanted = block.may_hold(&self.shared.conditions);
                    if self.counted.replace(block.first_row) != Some(block.first_row) {
                        let blocks = &self.shared.snapshot.inner.blocks;
                        if wanted { blocks.scanned.add(1) } else { blocks.skipped.add(1) }
                    }
                    let (frozen, hot) = self.shared.slice(&block, wanted, unit);
                    self.hot = hot;
                    frozen
                }
            };
            if batch.is_some() {
                return batch;
            }
        }
    }
}

impl ScanState {
    fn pin(&self) -> &SnapshotPin {
        self.snapshot.hold.pin()
    }

    /// Returns the first rows of the unit that have a place in the block, if those are wanted, and those of them that
    /// are hot now. It takes them off the unit, or none if the block was replaced meanwhile.
    fn slice(&self, block: &Block, wanted: bool, unit: &mut Unit) -> (Option<RecordBatch>, Option<RecordBatch>) {
        let (hold, view) = (&self.snapshot.hold, self.snapshot.view());
        let _walk = hold.registry().walk();
        let wanted = wanted && hold.registry().sees_block(&block.since, view);
        let first = unit.from;
        let end = self.extent(block, wanted, unit);
        let (from, to) = (block.position_from(first), block.position_from(end));
        let mut masked = Mask::new(to - from);
        let mut hot: Vec<&Version> = Vec::new();
        {
            let _dense = Dense::enter();
            self.each_newest(first, end, |row, newest| {
                if let Some(at) = block.place(row) {
                    masked.add(at - from);
                }
                hot.extend(self.visible(newest));
            });
        }
        // After the cells: a reader that finds one empty because its row is gone finds that too.
        masked.add_gone(block, from, to);
        let mut chunks = first / CHUNK_ROWS..end.div_ceil(CHUNK_ROWS);
        if !chunks.all(|chunk| self.chunk_has(chunk, Some(block))) {
            return (None, None); // Rows may have moved to another block before we read their cells. Once more.
        }
        unit.from = end;
        safepoint();
        let rows_count = to - from - masked.count;
        let frozen = (wanted && 0 < rows_count).then(|| {
            let slices = self.projection.iter().map(|column| block.columns[*column].slice(from, to - from));
            self.batch(masked.apply(slices.collect()), rows_count)
        });
        if hot.is_empty() {
            return (frozen, None);
        }
        let _dense = Dense::enter();
        let mut gather = self.gatherer(hot.len());
        gather.add(&hot);
        (frozen, self.gathered(gather))
    }

    /// Returns the version of a row that the snapshot sees, with a safepoint every [`GATHER_ROWS`] newer ones: a row
    /// that is written all the time may have many.
    fn visible<'s>(&'s self, newest: &'s Version) -> Option<&'s Version> {
        let Snapshot { inner, hold, view } = &*self.snapshot;
        let mut passed_count = 0_usize;
        let seen = hold.registry().visible_after(newest, hold.pin(), *view, || {
            passed_count += 1;
            if passed_count.is_multiple_of(GATHER_ROWS) {
                safepoint();
            }
        });
        if inner.passed_max.load(Relaxed) < passed_count as u64 {
            inner.passed_max.fetch_max(passed_count as u64, Relaxed);
        }
        seen
    }

    /// Returns the end of a batch from the unit's beginning in this block.
    fn extent(&self, block: &Block, wanted: bool, unit: &Unit) -> u64 {
        let mut end = unit.from;
        let mut has_cells = false;
        while end < unit.to
            && let Some(chunk) = self.table.rows.chunk(end / CHUNK_ROWS)
            && chunk.has_block(Some(block))
        {
            has_cells |= chunk.cells(self.pin()).is_some();
            end = (end - end % CHUNK_ROWS + CHUNK_ROWS).min(unit.to);
        }
        let rows_max = if wanted { self.batch_rows } else { block.rows_count };
        if has_cells { end.min(unit.from + self.batch_rows as u64) } else { block.end_of(unit.from, rows_max, end) }
    }

    fn chunk_has(&self, chunk: u64, block: Option<&Block>) -> bool {
        self.table.rows.chunk(chunk).is_some_and(|chunk| chunk.has_block(block))
    }

    /// Calls `each` with the newest version of every row that is hot, with a safepoint every [`GATHER_ROWS`] rows.
    fn each_newest<'s>(&'s self, from: u64, to: u64, mut each: impl FnMut(u64, &'s Version)) {
        let pin = self.pin();
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

    /// Returns the next rows of chunks that have no block.
    fn gather(&self, unit: &mut Unit) -> Option<RecordBatch> {
        let _dense = Dense::enter();
        let _walk = self.snapshot.hold.registry().walk();
        let mut gather = self.gatherer(self.batch_rows.min(unit.rows() as usize));
        let mut seen: Vec<&Version> = Vec::with_capacity(GATHER_ROWS);
        while unit.from < unit.to && gather.rows_count < self.batch_rows {
            let chunk = unit.from / CHUNK_ROWS;
            if !self.chunk_has(chunk, None) {
                break;
            }
            let within = unit.from % CHUNK_ROWS;
            let rows_count = (GATHER_ROWS as u64)
                .min((self.batch_rows - gather.rows_count) as u64)
                .min(CHUNK_ROWS - within)
                .min(unit.rows());
            seen.clear();
            self.each_newest(unit.from, unit.from + rows_count, |_, newest| {
                seen.extend(self.visible(newest));
            });
            if !self.chunk_has(chunk, None) {
                break; // Rows may have moved to a block before we read their cells.
            }
            gather.add(&seen);
            unit.from += rows_count;
        }
        self.gathered(gather)
    }

    fn gatherer(&self, capacity: usize) -> Gather<'_> {
        Gather::new(&self.table.layout, self.projection.iter().copied(), capacity)
    }

    /// Returns a batch of the gathered rows. None if there are none.
    fn gathered(&self, gather: Gather<'_>) -> Option<RecordBatch> {
        let rows_count = gather.rows_count;
        (0 < rows_count).then(|| self.batch(gather.finish(), rows_count))
    }

    fn batch(&self, columns: Vec<ArrayRef>, rows_count: usize) -> RecordBatch {
        let options = RecordBatchOptions::new().with_row_count(Some(rows_count));
        RecordBatch::try_new_with_options(self.schema.clone(), columns, &options)
            .expect("columns have the table's types and one length")
    }
}

/// Rows of a slice that do not count.
struct Mask {
    rows_count: usize,
    kept: Option<BooleanBufferBuilder>,
    /// Number of rows that do not count.
    count: usize,
}

impl Mask {
    fn new(rows_count: usize) -> Mask {
        Mask { rows_count, kept: None, count: 0 }
    }

    /// Masks the row at this position, if the slice has it.
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

    /// Masks the rows of the block from `from` to `to` that are gone.
    fn add_gone(&mut self, block: &Block, from: usize, to: usize) {
        if block.has_gone() {
            (from..to).filter(|at| block.is_gone(*at)).for_each(|at| self.add(at - from));
        }
    }

    /// Returns the columns without the rows that do not count. Nothing is copied if all do.
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
