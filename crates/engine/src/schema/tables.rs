//! The tables of an engine: by id, by name, and in order.
//!
//! **Invariant:** each table is in one of two lists, *live* or *dropped*, which own it, until [`crate::drops`] frees it; and
//! in the directory from its creation until nobody can name its id any more. Ids are given out once. A list is looked at
//! under the latch; whoever goes through the live ones has a share of the list of that moment instead.

use crate::error::{Error, InvalidDefinition, Limit, Result};
use crate::raw::directory::Directory;
use crate::raw::garbage::Dead;
use crate::raw::slots::Pin;
use crate::schema::table::{Table, TableDef};
use crate::sync::{AtomicU64, Latch, Relaxed, SeqCst};
use preempt::no_preempt;
use std::sync::Arc;

/// Tells engines apart.
static ENGINES: core::sync::atomic::AtomicU64 = core::sync::atomic::AtomicU64::new(1);

/// The tables of one engine.
pub(crate) struct Tables {
    /// The number of the engine, which its tables have too.
    engine: u64,
    directory: Directory,
    lists: Latch<Lists>,
    /// How many were dropped and are not freed.
    dropped_count: AtomicU64,
}

struct Lists {
    /// The next id.
    next: u64,
    /// Oldest first, so their ids grow.
    live: Arc<Vec<Arc<Table>>>,
    dropped: Vec<Dropped>,
}

/// A table that was dropped.
pub(crate) struct Dropped {
    pub(crate) table: Arc<Table>,
    pub(crate) stage: Stage,
    /// Its dead, of slots that have seen that it goes.
    pub(crate) dead: Vec<Vec<Dead>>,
}

/// How far a dropped table has come.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Stage {
    /// Somebody may have it and use it.
    Shared,
    /// Nobody has it. Slots may still name it, but none that has seen this turn.
    Going(u64),
    /// No slot names it, and the directory does not have it any more since this tick.
    Out(u64),
}

/// All tables at some moment, dropped ones included that are not freed.
pub(crate) struct AllTables {
    live: Arc<Vec<Arc<Table>>>,
    dropped: Vec<Arc<Table>>,
}

impl AllTables {
    /// Live ones, and dropped ones.
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
        // What it replaces goes after the latch, should nobody else have it.
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

    /// Whether the table is of this engine, and does not go.
    #[inline]
    pub(crate) fn is_own(&self, table: &Table) -> bool {
        table.engine.load(SeqCst) == self.engine
    }

    /// The table with this id, which the caller walks to or names: see [`Directory::get`].
    #[inline]
    pub(crate) fn get<'a>(&'a self, id: u32, pin: &'a Pin) -> Option<&'a Table> {
        self.directory.get(id, pin)
    }

    /// The live tables, oldest first.
    pub(crate) fn live(&self) -> Arc<Vec<Arc<Table>>> {
        self.with(|lists| lists.live.clone())
    }

    /// All tables.
    pub(crate) fn all(&self) -> AllTables {
        self.with(|lists| AllTables {
            live: lists.live.clone(),
            dropped: lists.dropped.iter().map(|dropped| dropped.table.clone()).collect(),
        })
    }

    /// The live table with this id.
    pub(crate) fn find(&self, id: u32) -> Option<Arc<Table>> {
        self.with(|lists| lists.position(id).map(|at| lists.live[at].clone()))
    }

    /// Whether any was dropped and is not freed.
    pub(crate) fn any_dropped(&self) -> bool {
        self.dropped_count.load(SeqCst) != 0
    }

    /// Looks at those that were dropped. Whoever takes one out owns it.
    pub(crate) fn with_dropped<R>(&self, f: impl FnOnce(&mut Vec<Dropped>) -> R) -> R {
        self.with(|lists| {
            let result = f(&mut lists.dropped);
            self.dropped_count.store(lists.dropped.len() as u64, SeqCst);
            result
        })
    }

    /// The same for who has all of the engine.
    pub(crate) fn dropped_mut(&mut self) -> &mut Vec<Dropped> {
        &mut self.lists.get_mut().dropped
    }

    /// From now on nobody finds it by its id: see [`Directory::take_out`].
    pub(crate) fn take_out(&self, id: u32) {
        self.directory.take_out(id);
    }
}

impl Lists {
    fn position(&self, id: u32) -> Option<usize> {
        self.live.binary_search_by_key(&id, |table| table.id).ok()
    }
}
