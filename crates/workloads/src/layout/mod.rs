//! Row images compared with columns: the cost of appending, reading and scanning TPC-C's stock table in each.
//!
//! **Invariant:** both stores hold the same rows in chunks of the same number of rows, get their memory in the same
//! way, and are asked the same questions in the same order; a test compares their answers. Both are safe Rust.
//!
//! Neither has versions, row maps or indexes: the figures compare layouts, not engines.

mod columns;
mod rows;
mod stock;

#[cfg(test)]
mod tests;

use columns::ColumnStore;
use preempt::os::thread_cpu_ns;
use rows::RowStore;
use std::hint::black_box;
use stock::{Copied, Stock};

/// Number of rows of a chunk.
const CHUNK_ROWS: usize = 4_096;
/// Number of different rows that are appended in turn.
const SAMPLES: usize = 1_024;
/// Number of reads between two looks at the clock.
const READS: u64 = 16_384;

/// Cost of one operation in each layout.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Figure {
    /// Name of the operation: `append`, `read_row` (all 17 columns), `read_4` (four of them) or `scan_1` (one column of
    /// all rows).
    pub name: &'static str,
    /// Nanoseconds of processor time per row, as row images.
    pub row_ns: f64,
    /// Nanoseconds of processor time per row, as columns.
    pub column_ns: f64,
}

/// Storage of rows in one layout.
trait Store {
    /// Creates an empty store.
    fn new() -> Self;
    /// Appends a row.
    fn append(&mut self, row: &Stock);
    /// Copies all columns of a row.
    fn read_row(&self, at: usize, into: &mut Copied);
    /// Copies the columns that New-Order reads: quantity, year to date, order count and the information of one
    /// district.
    fn read_4(&self, at: usize, district: usize, into: &mut Copied);
    /// Returns the sum of all quantities.
    fn scan_1(&self) -> i64;
}

/// Measures both layouts with `rows` rows, for about `seconds_each` seconds per figure and layout. Each store takes
/// about 330 bytes per row, and both are in memory at once.
///
/// # Panics
/// If `rows` is 0.
pub fn run(rows: usize, seconds_each: f64) -> Vec<Figure> {
    assert!(0 < rows, "there is something to read");
    let samples = stock::samples(SAMPLES);
    let limit_ns = (seconds_each * 1e9) as u64;
    let (as_rows, row) = measure::<RowStore>(rows, &samples, limit_ns);
    let (as_columns, column) = measure::<ColumnStore>(rows, &samples, limit_ns);
    assert_eq!(as_rows.scan_1(), as_columns.scan_1(), "both stores hold the same rows");
    let names = ["append", "read_row", "read_4", "scan_1"];
    let figure = |at: usize| Figure { name: names[at], row_ns: row[at], column_ns: column[at] };
    (0..names.len()).map(figure).collect()
}

/// Fills a store and returns it with the nanoseconds per row of the four operations.
fn measure<S: Store>(rows: usize, samples: &[Stock], limit_ns: u64) -> (S, [f64; 4]) {
    let mut kept = fill::<S>(rows, samples);
    // The previous store is dropped before the clock starts: giving back memory is not part of appending.
    let append = repeat(limit_ns, || {
        kept = S::new();
        let started_ns = thread_cpu_ns();
        append_all(&mut kept, rows, samples);
        (rows as u64, thread_cpu_ns() - started_ns)
    });
    let mut copied = Copied::default();
    let mut places = Places::new(rows);
    let read_row = repeat_timed(limit_ns, READS, || {
        for _ in 0..READS {
            kept.read_row(places.next().0, &mut copied);
            black_box(&mut copied);
        }
    });
    let mut places = Places::new(rows);
    let read_4 = repeat_timed(limit_ns, READS, || {
        for _ in 0..READS {
            let (at, district) = places.next();
            kept.read_4(at, district, &mut copied);
            black_box(&mut copied);
        }
    });
    let scan_1 = repeat_timed(limit_ns, rows as u64, || {
        black_box(black_box(&kept).scan_1());
    });
    (kept, [append, read_row, read_4, scan_1])
}

fn fill<S: Store>(rows: usize, samples: &[Stock]) -> S {
    let mut store = S::new();
    append_all(&mut store, rows, samples);
    store
}

fn append_all<S: Store>(store: &mut S, rows: usize, samples: &[Stock]) {
    for row in samples.iter().cycle().take(rows) {
        store.append(row);
    }
}

fn repeat_timed(limit_ns: u64, operations: u64, mut body: impl FnMut()) -> f64 {
    repeat(limit_ns, || {
        let started_ns = thread_cpu_ns();
        body();
        (operations, thread_cpu_ns() - started_ns)
    })
}

/// Calls `body`, which returns the number of operations and their time, at least once and until the limit is reached.
fn repeat(limit_ns: u64, mut body: impl FnMut() -> (u64, u64)) -> f64 {
    let (mut operations, mut spent_ns) = (0, 0);
    loop {
        let (more, ns) = body();
        operations += more;
        spent_ns += ns;
        if limit_ns <= spent_ns {
            return spent_ns as f64 / operations as f64;
        }
    }
}

/// Generator of random rows and districts, the same for each store (xorshift64; Marsaglia, 2003).
struct Places {
    rows: u64,
    state: u64,
}

impl Places {
    fn new(rows: usize) -> Places {
        Places { rows: rows as u64, state: 0x9e37_79b9_7f4a_7c15 }
    }

    #[inline]
    fn next(&mut self) -> (usize, usize) {
        self.state ^= self.state << 13;
        self.state ^= self.state >> 7;
        self.state ^= self.state << 17;
        let at = (u128::from(self.state) * u128::from(self.rows)) >> 64;
        (at as usize, (self.state % 10) as usize)
    }
}
