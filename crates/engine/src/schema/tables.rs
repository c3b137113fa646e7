//! Tables of an engine: by id, by name, and in order.
//!
//! **Invariant:** each table is in one of two lists, *live* or *dropped*, which own it, until [`crate::drops`] frees
//! it; and in the directory from its creation until its id cannot be named any more. Ids are given out once. A list is
//! looked at under the latch; a thread that goes through the live ones has a share of the list of that moment instead.

use crate::error::{Error, InvalidDefinition, Limit, Result};
use crate::raw::directory::Directory;
use crate::raw::garbage::Dead;
use crate::raw::slots::SnapshotPin;
use crate::schema::table::{Table, TableDef};
use crate::sync::{AtomicU64, Latch, Relaxed, SeqCst};
use preempt::no_preempt;
use std::sync::Arc;

/// Counter of engines, which tells them apart.
static ENGINES: core::sync::atomic::AtomicU64 = core::sync::atomic::AtomicU64::new(1);

/// Tables of one engine.
pub(crate) struct Tables {
    /// Number of the engine, which its tables have too.
    engine: u64,
    directory: Directory,
    lists: Latch<Lists>,
    /// Number of tables that were dropped and are not freed.
    dropped_count: AtomicU64,
}

struct Lists {
    /// Next id.
    next: u64,
    /// Live tables, the oldest first, so their ids grow.
    live: Arc<Vec<Arc<Table>>>,
    dropped: Vec<Dropped>,
}

/// A table that was dropped.
pub(crate) struct Dropped {
    pub(crate) table: Arc<Table>,
    pub(crate) stage: Stage,
    /// Garbage of the table, of slots that have seen that it goes.
    pub(crate) dead: Vec<Vec<Dead>>,
}

/// Stage of a dropped table.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Stage {
    /// The table may still have users.
    Shared,
    /// The table has no user. Slots may still name it, but none that has seen this turn.
    Going(u64),
    /// No slot names the table, and the directory does not have it any more since this tick.
    Out(u64),
}

/// Tables of an engine at some moment, including dropped ones that are not freed.
pub(crate) struct AllTables {
    live: Arc<Vec<Arc<Table>>>,
    dropped: Vec<Arc<Table>>,
}

impl AllTables {
    /// Returns the live ones, and the dropped ones.
    pub(crate) fn into_parts(self) -> (Arc<Vec<Arc<Table>>>, Vec<Arc<Table>>) {
        (self.live, self.dropped)
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = &Arc<Table>> {
        self.live.iter().chain(&self.dropped)
    }
}

impl Tables {
    pub(crate) fn new() -> Tables {
        Tables {
            engine: ENGINES.fetch_add(1, Relaxed),
            directory: Directory::new(),
            lists: Latch::new(Lists { next: 0, live: Arc::default(), dropped: Vec::new() }),
            dropped_count: AtomicU64::new(0),
        }
    }

    fn with<R>(&self, f: impl FnOnce(&mut Lists) -> R) -> R {
        no_preempt(|no_preempt| f(&mut self.lists.lock(no_preempt)))
    }

    pub(crate) fn create(&self, def: TableDef) -> Result<Arc<Table>> {
        self.with(|lists| {
            if lists.live.iter().any(|table| table.name() == def.name) {
                return Err(Error::InvalidDefinition { name: def.name, why: InvalidDefinition::TableExists });
            }
            let id = u32::try_from(lists.next).map_err(|_| Error::Limit(Limit::Tables))?;
            let table = Arc::new(Table::new(self.engine, id, def)?);
            self.directory.put(id, &table);
            Arc::make_mut(&mut lists.live).push(table.clone());
            lists.next += 1;
            Ok(table)
        })
    }

    /// Puts a table among the dropped ones, if it is live.
    pub(crate) fn drop_one(&self, table: &Table) {
        // The replaced list is freed after the latch, should it have no other user.
        let mut before = Arc::default();
        self.with(|lists| {
            let Some(at) = lists.position(table.id).filter(|_| self.is_own(table)) else { return };
            let mut live: Vec<_> = Vec::with_capacity(lists.live.len() - 1);
            live.extend(lists.live[..at].iter().chain(&lists.live[at + 1..]).cloned());
            let table = lists.live[at].clone();
            lists.dropped.push(Dropped { table, stage: Stage::Shared, dead: Vec::new() });
            before = core::mem::replace(&mut lists.live, Arc::new(live));
            self.dropped_count.fetch_add(1, SeqCst);
        });
        drop(before);
    }

    /// Returns true if the table is of this engine, and does not go.
    #[inline]
    pub(crate) fn is_own(&self, table: &Table) -> bool {
        table.engine.load(SeqCst) == self.engine
    }

    /// Returns the table with this id, which the caller walks to or names: see [`Directory::get`].
    #[inline]
    pub(crate) fn get<'a>(&'a self, id: u32, pin: &'a SnapshotPin) -> Option<&'a Table> {
        self.directory.get(id, pin)
    }

    /// Returns the live tables, oldest first.
    pub(crate) fn live(&self) -> Arc<Vec<Arc<Table>>> {
        self.with(|lists| lists.live.clone())
    }

    /// Returns the live and the dropped tables.
    pub(crate) fn all(&self) -> AllTables {
        self.with(|lists| AllTables {
            live: lists.live.clone(),
            dropped: lists.dropped.iter().map(|dropped| dropped.table.clone()).collect(),
        })
    }

    /// Returns the live table with this id.
    pub(crate) fn find(&self, id: u32) -> Option<Arc<Table>> {
        self.with(|lists| lists.position(id).map(|at| lists.live[at].clone()))
    }

    /// Returns true if any was dropped and is not freed.
    pub(crate) fn any_dropped(&self) -> bool {
        self.dropped_count.load(SeqCst) != 0
    }

    /// Runs `f` on the dropped tables. A caller that takes one out owns it.
    pub(crate) fn with_dropped<R>(&self, f: impl FnOnce(&mut Vec<Dropped>) -> R) -> R {
        self.with(|lists| {
            let result = f(&mut lists.dropped);
            self.dropped_count.store(lists.dropped.len() as u64, SeqCst);
            result
        })
    }

    /// Returns the dropped tables, for a caller that has all of the engine.
    pub(crate) fn dropped_mut(&mut self) -> &mut Vec<Dropped> {
        &mut self.lists.get_mut().dropped
    }

    /// Takes a table out of the directory: from now on it is not found by its id, see [`Directory::take_out`].
    pub(crate) fn take_out(&self, id: u32) {
        self.directory.take_out(id);
    }
}

impl Lists {
    fn position(&self, id: u32) -> Option<usize> {
        self.live.binary_search_by_key(&id, |table| table.id).ok()
    }
}
