//! Memory of an engine, by its holders.
//!
//! **Invariant:** measuring holds up no transaction: every figure is counted anyway, or is a product of counts.

use crate::engine::{Engine, Inner};
use crate::memory;
use crate::raw::garbage::Dead;
use crate::schema::table::Table;
use crate::txn::scratch::Write;

/// Memory that an engine holds.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Holdings {
    /// Memory by table, including dropped ones that are not freed.
    pub tables: Vec<TableHoldings>,
    /// Bytes of the write sets of open transactions.
    pub write_sets: u64,
    /// Bytes of the queues of dead versions, without the versions.
    pub garbage_queues: u64,
}

/// Memory that a table holds, in bytes.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct TableHoldings {
    /// Name of the table in the engine.
    pub name: String,
    /// True if the table was dropped.
    pub is_dropped: bool,
    /// Live versions, blocks of frozen rows, and the map of rows.
    pub rows: u64,
    /// Dead versions that are not freed yet.
    pub garbage: u64,
    /// Nodes and long keys.
    pub indexes: u64,
}

fn of(table: &Table, is_dropped: bool) -> TableHoldings {
    let (versions, dead) = (table.version_bytes.all(), table.version_bytes.dead());
    TableHoldings {
        name: table.name().to_owned(),
        is_dropped,
        rows: versions.saturating_sub(dead) + table.blocks.bytes.get() + table.rows.bytes(),
        garbage: dead,
        indexes: table.index_bytes(),
    }
}

impl Inner {
    /// Reports the engine's memory, for the messages to those that are refused.
    pub(crate) fn tell_memory(&self) {
        memory::TABLES.set(self.memory_bytes());
        memory::CHANGES.set(self.write_set_bytes());
    }

    fn write_set_bytes(&self) -> u64 {
        let writes: u64 = self.counters[..self.registry.slots_used()].iter().map(|slot| slot.writes.get()).sum();
        writes * size_of::<Write>() as u64
    }
}

impl Engine {
    /// Returns the present holders of the engine's memory.
    pub fn holdings(&self) -> Holdings {
        let (live, dropped) = self.inner.tables.all().into_parts();
        let tables = live.iter().map(|table| of(table, false)).chain(dropped.iter().map(|table| of(table, true)));
        let counters = &self.inner.counters[..self.inner.registry.slots_used()];
        let dead = counters
            .iter()
            .fold(0_u64, |dead, slot| dead.wrapping_add(slot.died.get()).wrapping_sub(slot.versions_freed.get()));
        Holdings {
            tables: tables.collect(),
            write_sets: self.inner.write_set_bytes(),
            garbage_queues: dead * size_of::<Dead>() as u64,
        }
    }
}
