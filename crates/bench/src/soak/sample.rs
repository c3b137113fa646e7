//! What memory holds at one moment.

use crate::data::Data;
use host::memory;
use std::time::Duration;

/// Where bytes are.
#[derive(Clone, Copy, Debug, Default)]
pub struct Bytes {
    /// Hot versions that a new snapshot sees.
    pub live: u64,
    /// Hot versions that are dead.
    pub dead: u64,
    /// Frozen blocks.
    pub blocks: u64,
    /// Index nodes, those that wait to be freed included.
    pub index: u64,
    /// From row ids to rows.
    pub row_map: u64,
}

/// One moment.
#[derive(Clone, Copy, Debug)]
pub struct Sample {
    /// Since the beginning.
    pub at: Duration,
    /// Rows that a new snapshot sees, of all tables, counted.
    pub live_rows: u64,
    /// Where bytes are.
    pub bytes: Bytes,
    /// Hot versions.
    pub versions: u64,
    /// Those of them that are dead.
    pub versions_dead: u64,
    /// Index nodes.
    pub index_nodes: u64,
    /// The process's memory, as the kernel sees it.
    pub rss_bytes: u64,
}

/// An index node takes 2 to 2.5 KiB.
const NODE_BYTES: u64 = 2_304;
const BATCH_ROWS: usize = 8_192;

impl Sample {
    /// Takes one.
    ///
    /// # Errors
    /// When no snapshot is free.
    pub fn take(data: &Data, at: Duration) -> anyhow::Result<Sample> {
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
        Ok(Sample {
            at,
            live_rows,
            bytes,
            versions: stats.versions,
            versions_dead: stats.versions_dead,
            index_nodes: stats.index_nodes,
            rss_bytes: memory::own_bytes().unwrap_or(0),
        })
    }

    /// All bytes over all rows.
    pub fn bytes_per_live_row(&self) -> f64 {
        let Bytes { live, dead, blocks, index, row_map } = self.bytes;
        (live + dead + blocks + index + row_map) as f64 / self.live_rows.max(1) as f64
    }

    /// Dead versions over live data.
    pub fn garbage_share(&self) -> f64 {
        self.bytes.dead as f64 / (self.bytes.live + self.bytes.blocks).max(1) as f64
    }
}
