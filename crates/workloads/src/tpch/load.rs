//! Generation of the eight tables, and their load as frozen blocks.
//!
//! Invariant: a table becomes visible as a whole, and its rows are in generation order, so threads change nothing but
//! the time. Generating costs far more than loading; the calling thread loads while the others generate.

use super::generate::{Comments, generate_part, parts_count};
use super::tables::TpchTable;
use arrow_array::RecordBatch;
use engine::Engine;
use std::sync::mpsc::{Receiver, sync_channel};

/// Parameters of a load.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct LoadConfig {
    /// TPC-H's scale factor; 1 means about 6 million line items.
    pub scale_factor: f64,
    /// Source of the comments.
    pub comments: Comments,
    /// Number of threads that generate rows, at least 1.
    pub threads: usize,
}

/// Progress of the load.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TpchLoadProgress {
    /// Table being loaded.
    pub table: TpchTable,
    /// Number of rows loaded so far, of all tables.
    pub rows_count: u64,
    /// Number of rows expected at the end, of all tables. Line items are random, so this may be off by a per mille.
    pub rows_expected: u64,
}

/// Result of a load.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Loaded {
    /// Number of rows of all tables.
    pub rows_count: u64,
}

/// Maximum number of batches that a generating thread may be ahead of the load.
const PARTS_AHEAD_MAX: usize = 2;

/// Creates and fills the eight tables, calling `progress` after each block.
///
/// # Errors
/// Errors of [`Engine::create_table`] and [`Engine::bulk_load`], for instance if a table exists already.
pub fn load(
    engine: &Engine,
    config: &LoadConfig,
    progress: &mut dyn FnMut(TpchLoadProgress),
) -> engine::Result<Loaded> {
    assert!(config.scale_factor.is_finite() && 0.0 < config.scale_factor, "the scale factor must be positive");
    assert!(1 <= config.threads, "somebody must generate the rows");
    let rows_expected = TpchTable::ALL.iter().map(|table| table.rows_expected(config.scale_factor)).sum();
    let mut rows_count = 0;
    for table in TpchTable::ALL {
        let created = engine.create_table(table.definition())?;
        std::thread::scope(|scope| {
            let lanes: Vec<Receiver<Vec<RecordBatch>>> = (0..config.threads)
                .map(|lane| {
                    let (sender, receiver) = sync_channel(PARTS_AHEAD_MAX);
                    scope.spawn(move || {
                        for part in (1..=parts_count(table, config.scale_factor)).skip(lane).step_by(config.threads) {
                            let batches = generate_part(table, config.scale_factor, config.comments, part).collect();
                            if sender.send(batches).is_err() {
                                return; // The load failed, and its error is on its way to the caller.
                            }
                        }
                    });
                    receiver
                })
                .collect();
            // Part n comes from lane n modulo the number of lanes, so taking turns restores the order. The first lane
            // that has ended was the last one's successor: no part is left.
            let parts = (0..).map_while(|turn: usize| lanes[turn % lanes.len()].recv().ok());
            let batches = parts.flatten().inspect(|batch| {
                rows_count += batch.num_rows() as u64;
                progress(TpchLoadProgress { table, rows_count, rows_expected });
            });
            engine.bulk_load(&created, batches).map(|_| ())
        })?;
    }
    Ok(Loaded { rows_count })
}
