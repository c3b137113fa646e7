//! The contents of memory at one moment.

use crate::data::Data;
use host::memory;
use std::time::Duration;

/// Bytes of memory by their use.
#[derive(Clone, Copy, Debug, Default)]
pub struct Bytes {
    /// Bytes of hot versions that a new snapshot sees.
    pub live: u64,
    /// Bytes of dead hot versions.
    pub dead: u64,
    /// Bytes of frozen blocks.
    pub blocks: u64,
    /// Bytes of index nodes, those that wait to be freed included.
    pub index: u64,
    /// Bytes of the maps from row IDs to rows.
    pub row_map: u64,
}

/// State of memory at one moment.
#[derive(Clone, Copy, Debug)]
pub struct MemorySample {
    /// Time since the beginning.
    pub at: Duration,
    /// Number of rows that a new snapshot sees, of all tables, counted.
    pub live_rows: u64,
    /// Bytes by their use.
    pub bytes: Bytes,
    /// Number of hot versions.
    pub versions: u64,
    /// Number of dead hot versions.
    pub versions_dead: u64,
    /// Number of index nodes.
    pub index_nodes: u64,
    /// Memory of the process, in bytes, as the kernel sees it.
    pub rss_bytes: u64,
}

/// Size of an index node: 2 to 2.5 KiB.
const NODE_BYTES: u64 = 2_304;
const BATCH_ROWS: usize = 8_192;

impl MemorySample {
    /// Takes a sample.
    ///
    /// # Errors
    /// If no snapshot is free.
    pub fn take(data: &Data, at: Duration) -> anyhow::Result<MemorySample> {
        let engine = data.engine();
        let stats = engine.stats();
        let snapshot = engine.try_snapshot()?;
        let mut live_rows = 0;
        for table in engine.tables() {
            let batches = snapshot.scan(&table, &[], BATCH_ROWS).split(1).into_iter().flatten();
            live_rows += batches.map(|batch| batch.num_rows() as u64).sum::<u64>();
        }
        let dead = (stats.version_bytes as f64 * stats.versions_dead as f64 / stats.versions.max(1) as f64) as u64;
        let bytes = Bytes {
            live: stats.version_bytes.saturating_sub(dead),
            dead,
            blocks: stats.block_bytes,
            index: (stats.index_nodes + stats.index_waiting) * NODE_BYTES,
            row_map: stats.row_map_bytes,
        };
        Ok(MemorySample {
            at,
            live_rows,
            bytes,
            versions: stats.versions,
            versions_dead: stats.versions_dead,
            index_nodes: stats.index_nodes,
            rss_bytes: memory::own_bytes().unwrap_or(0),
        })
    }

    /// Returns all bytes over all rows.
    pub fn bytes_per_live_row(&self) -> f64 {
        let Bytes { live, dead, blocks, index, row_map } = self.bytes;
        (live + dead + blocks + index + row_map) as f64 / self.live_rows.max(1) as f64
    }

    /// Returns dead versions over live data.
    pub fn garbage_share(&self) -> f64 {
        self.bytes.dead as f64 / (self.bytes.live + self.bytes.blocks).max(1) as f64
    }
}
