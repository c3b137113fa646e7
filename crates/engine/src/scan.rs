//! Scans for analytics: a registered snapshot, and its rows as Arrow batches.
//!
//! **Invariant:** a scan never waits and never keeps anybody waiting. Frozen blocks go out as slices of themselves; hot
//! rows are gathered into fresh arrays, with a safepoint each [`GATHER_ROWS`] rows, in code that tells the scheduler so
//! ([`preempt::Dense`]).

use crate::block::Block;
use crate::engine::Inner;
use crate::gather;
use crate::raw::chain::View;
use crate::raw::rows::{CHUNK_ROWS, Chunk};
use crate::raw::slots::ReadHold;
use crate::raw::version::Version;
use crate::table::Table;
use arrow_array::{RecordBatch, RecordBatchOptions};
use arrow_schema::SchemaRef;
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
        Scan { units: units(table), shared: Arc::new(shared) }
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

/// Rows of one kind with consecutive ids.
#[derive(Clone)]
enum Unit {
    Frozen { block: Arc<Block>, from: usize, to: usize },
    Hot { from: u64, to: u64 },
}

impl Unit {
    fn rows(&self) -> u64 {
        match self {
            Unit::Frozen { from, to, .. } => (to - from) as u64,
            Unit::Hot { from, to } => to - from,
        }
    }

    /// Splits off the first `rows` rows.
    fn split_first(&mut self, rows: u64) -> Unit {
        let mut first = self.clone();
        match (self, &mut first) {
            (Unit::Frozen { from, .. }, Unit::Frozen { to, .. }) => {
                *from += rows as usize;
                *to = *from;
            }
            (Unit::Hot { from, .. }, Unit::Hot { to, .. }) => {
                *from += rows;
                *to = *from;
            }
            _ => unreachable!("a clone is of the same kind"),
        }
        first
    }
}

/// All rows that a snapshot taken before now may see.
fn units(table: &Table) -> Vec<Unit> {
    let mut units = Vec::new();
    let end = table.rows.end();
    let mut row = 0;
    while row < end {
        let next = match table.rows.chunk(row / CHUNK_ROWS) {
            Some(Chunk::Frozen(block)) => {
                units.push(Unit::Frozen { block: block.clone(), from: 0, to: block.rows_count });
                row + (block.rows_count as u64).next_multiple_of(CHUNK_ROWS)
            }
            Some(Chunk::Hot(_)) => {
                let to = (row + CHUNK_ROWS).min(end);
                match units.last_mut() {
                    Some(Unit::Hot { to: before, .. }) if *before == row => *before = to,
                    _ => units.push(Unit::Hot { from: row, to }),
                }
                row + CHUNK_ROWS
            }
            None => row + CHUNK_ROWS,
        };
        row = next;
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
        let shared = self.shared.clone();
        loop {
            let batch = match self.units.front_mut()? {
                Unit::Frozen { from, to, .. } if from == to => None,
                Unit::Hot { from, to } if from == to => None,
                Unit::Frozen { block, from, to } => {
                    let hold = &shared.snapshot.hold;
                    if !hold.registry().sees_block(&block.since, shared.snapshot.view()) {
                        *from = *to;
                        continue;
                    }
                    safepoint();
                    let rows_count = shared.batch_rows.min(*to - *from);
                    let columns = shared
                        .projection
                        .iter()
                        .map(|column| block.columns[*column].slice(*from, rows_count))
                        .collect();
                    *from += rows_count;
                    return Some(shared.batch(columns, rows_count));
                }
                Unit::Hot { from, to } => shared.gather(from, *to),
            };
            match batch {
                Some(batch) => return Some(batch),
                None => {
                    self.units.pop_front();
                }
            }
        }
    }
}

impl Shared {
    /// The next visible rows from `next` on, before `end`; nothing if none is left.
    fn gather(&self, next: &mut u64, end: u64) -> Option<RecordBatch> {
        let _dense = Dense::enter();
        let hold = &self.snapshot.hold;
        let view = self.snapshot.view();
        let mut seen: Vec<&Version> = Vec::with_capacity(self.batch_rows.min((end - *next) as usize));
        // A row that is written all the time has very many versions newer than an old snapshot.
        let mut passed_count = 0;
        let mut passed = || {
            passed_count += 1;
            if passed_count % GATHER_ROWS == 0 {
                safepoint();
            }
        };
        while *next < end && seen.len() < self.batch_rows {
            let within = (*next % CHUNK_ROWS) as usize;
            let Some(Chunk::Hot(cells)) = self.table.rows.chunk(*next / CHUNK_ROWS) else {
                *next = (*next - within as u64 + CHUNK_ROWS).min(end);
                continue;
            };
            let rows_count = GATHER_ROWS
                .min(self.batch_rows - seen.len())
                .min(CHUNK_ROWS as usize - within)
                .min((end - *next) as usize);
            let cells = &cells[within..within + rows_count];
            let visible = |cell| hold.registry().visible_after(cell, hold.pin(), view, &mut passed);
            seen.extend(cells.iter().filter_map(visible));
            *next += rows_count as u64;
            safepoint();
        }
        if seen.is_empty() {
            return None;
        }
        let layout = &self.table.layout;
        let columns = self.projection.iter().map(|column| gather::column(layout, *column, &seen)).collect();
        Some(self.batch(columns, seen.len()))
    }

    fn batch(&self, columns: Vec<arrow_array::ArrayRef>, rows_count: usize) -> RecordBatch {
        let options = RecordBatchOptions::new().with_row_count(Some(rows_count));
        RecordBatch::try_new_with_options(self.schema.clone(), columns, &options)
            .expect("columns have the table's types and one length")
    }
}
