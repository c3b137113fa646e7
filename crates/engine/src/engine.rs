//! The engine: its tables, and the start of transactions and snapshots.
//!
//! **Invariant:** everything that a transaction needs on its way is found without a latch.

use crate::counters::Counters;
use crate::error::Limit;
use crate::error::{Error, Result};
use crate::frozen::block::Totals;
use crate::frozen::freeze::Freezer;
use crate::frozen::scan::Snapshot;
use crate::limits::{LimitState, Limits};
use crate::locks::{LockConfig, LockTable};
use crate::log::{AlwaysReached, Log};
use crate::raw::garbage::free_all_of;
use crate::raw::once::Parcel;
use crate::raw::prune::Stripes;
use crate::raw::slots::{READERS_MAX, Registry, SLOTS_MAX, SnapshotPin};
use crate::schema::drops::Drops;
use crate::schema::table::{Table, TableDef};
use crate::schema::tables::Tables;
use crate::sync::AtomicU64;
use crate::txn::Txn;
use crate::txn::begin::Begin;
use crate::txn::open::{HeldBack, Sessions};
use crate::txn::orphans::Orphans;
use crate::txn::scratch::Scratch;
use crate::txn::serial::Serial;
use core::sync::atomic::Ordering;
use preempt::{Worker, in_urgent, os};
use std::sync::{Arc, Weak};

/// Transactions, and snapshots beside them, at a time. A model makes an engine for each of its many schedules.
const SLOTS: usize = if cfg!(feature = "shuttle") { 8 } else { SLOTS_MAX };
const READERS: usize = if cfg!(feature = "shuttle") { 2 } else { READERS_MAX };

/// Configuration of an engine.
#[derive(Clone)]
pub struct EngineConfig {
    /// Log that takes the redo records of commits.
    pub log: Arc<dyn Log>,
    /// Number of times that [`Engine::run`] repeats a transaction after a retryable error.
    pub retries_max: u32,
    /// Largest number of entries that are kept of committed SERIALIZABLE transactions, for those that overlap them:
    /// their reads and writes, about 16 bytes each. Past it the oldest are summed up by tables, and more commits may be
    /// refused.
    pub serial_entries_max: usize,
    /// Settings of locks, such as which transaction gives way on a row; see [`Engine::set_lock_config`].
    pub lock: LockConfig,
    /// Limits of the engine.
    pub limits: Limits,
}

impl EngineConfig {
    /// Returns the configuration of an engine that keeps nothing beyond the process, and repeats a transaction up to 16
    /// times.
    pub fn in_memory() -> EngineConfig {
        EngineConfig {
            log: Arc::new(AlwaysReached),
            retries_max: 16,
            serial_entries_max: 1 << 24,
            lock: LockConfig::default(),
            limits: Limits::default(),
        }
    }
}

/// Statistics of an engine since it was created.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Stats {
    /// Hot versions in memory, dead ones included.
    pub versions: u64,
    /// Dead versions that wait until no snapshot can reach them.
    pub versions_dead: u64,
    /// Bytes of all hot versions.
    pub version_bytes: u64,
    /// Dead versions that were freed although a snapshot older than them was live.
    pub versions_pruned: u64,
    /// Rows that committed transactions have inserted, or bulk loads, and none has deleted.
    pub rows: u64,
    /// Row ids that rows had before and new rows can have.
    pub row_ids_free: u64,
    /// Bytes of the row maps.
    pub row_map_bytes: u64,
    /// Frozen blocks in memory, including replaced ones that still have readers.
    pub blocks: u64,
    /// Bytes of the blocks.
    pub block_bytes: u64,
    /// Blocks, or parts of them, that scans read.
    pub blocks_scanned: u64,
    /// Blocks, or parts of them, that the conditions of a scan ruled out.
    pub blocks_skipped: u64,
    /// Rows that the freezer moved into blocks.
    pub frozen: u64,
    /// Frozen rows that a write made hot.
    pub thawed: u64,
    /// Committed transactions.
    pub commits: u64,
    /// Aborted transactions, for whatever reason.
    pub aborts: u64,
    /// Transactions aborted because a more important one took a row.
    pub taken: u64,
    /// Write conflicts.
    pub conflicts: u64,
    /// SERIALIZABLE transactions refused because they would have completed a dangerous structure.
    pub serialization_failures: u64,
    /// Refused SERIALIZABLE transactions whose refusal protects a declared READ ONLY transaction that was open.
    pub refused_by_readers: u64,
    /// Entries kept of committed SERIALIZABLE transactions.
    pub serial_entries: u64,
    /// Unique violations.
    pub unique_violations: u64,
    /// Transactions begun again by [`Engine::run`].
    pub retries: u64,
    /// Entries of all indexes.
    pub index_entries: u64,
    /// Nodes of all indexes, of 2 to 2.5 KiB each.
    pub index_nodes: u64,
    /// Nodes and long keys that left an index and are not freed yet.
    pub index_waiting: u64,
}

/// The embedded engine. Clones share everything.
#[derive(Clone)]
pub struct Engine {
    pub(crate) inner: Arc<Inner>,
}

pub(crate) struct Inner {
    /// Reference for a transaction that makes a snapshot, which shares the engine.
    pub(crate) itself: Weak<Inner>,
    pub(crate) registry: Arc<Registry>,
    pub(crate) config: EngineConfig,
    pub(crate) tables: Tables,
    pub(crate) drops: Drops,
    /// State that each slot's next transaction takes over from the last.
    pub(crate) scratch: Box<[Parcel<Scratch>]>,
    pub(crate) counters: Box<[Counters]>,
    pub(crate) serial: Serial,
    pub(crate) locks: LockTable,
    pub(crate) stripes: Stripes,
    pub(crate) held_back: HeldBack,
    pub(crate) sessions: Sessions,
    pub(crate) orphans: Orphans,
    pub(crate) limits: LimitState,
    pub(crate) blocks: Arc<Totals>,
    /// Longest version chain since the last call of [`Engine::take_chain_max`].
    pub(crate) passed_max: AtomicU64,
    /// State of the freezer, taken by the thread that freezes.
    pub(crate) freezer: Parcel<Freezer>,
    /// Time at which the housekeeping walks through all tables again, by [`preempt::os::now_ns`].
    pub(crate) walk_due_ns: AtomicU64,
}

impl Drop for Inner {
    fn drop(&mut self) {
        for mut scratch in self.scratch.iter().filter_map(Parcel::take) {
            scratch.graveyard.free_all();
        }
        self.orphans.drain().for_each(|mut graveyard| graveyard.free_all());
        if let Some(mut freezer) = self.freezer.take() {
            freezer.attic.free_all();
        }
        for dead in self.tables.dropped_mut().drain(..).flat_map(|dropped| dropped.dead) {
            free_all_of(dead);
        }
    }
}

impl Inner {
    /// Returns the table with this id, which the caller's write set or queue of dead versions names.
    #[inline]
    pub(crate) fn table<'a>(&'a self, id: u32, pin: &'a SnapshotPin) -> &'a Table {
        self.tables.get(id, pin).expect("a table stays as long as a slot names it")
    }

    /// # Panics
    /// If `table` belongs to another engine.
    #[inline]
    pub(crate) fn assert_own(&self, table: &Table) {
        assert!(self.tables.is_own(table), "table {} of another engine, or dropped", table.name());
    }
}

impl Engine {
    /// Creates an engine without tables.
    pub fn new(config: EngineConfig) -> Engine {
        let serial = Serial::new(config.serial_entries_max);
        let registry = Registry::new(config.limits.transactions.clamp(1, SLOTS), READERS);
        registry.set_coarse_ns(os::now_ns());
        let new = |itself: &Weak<Inner>| Inner {
            itself: itself.clone(),
            locks: LockTable::new(SLOTS, config.lock),
            registry: Arc::new(registry),
            limits: LimitState::new(config.limits),
            config,
            serial,
            stripes: Stripes::new(),
            held_back: HeldBack::default(),
            sessions: Sessions::default(),
            orphans: Orphans::default(),
            tables: Tables::new(),
            drops: Drops::new(SLOTS),
            scratch: (0..SLOTS).map(|_| Parcel::new()).collect(),
            counters: (0..SLOTS).map(|_| Counters::default()).collect(),
            blocks: Arc::default(),
            passed_max: AtomicU64::new(0),
            freezer: Parcel::new(),
            walk_due_ns: AtomicU64::new(0),
        };
        let inner = Arc::new_cyclic(new);
        inner.freezer.put(Box::default());
        Engine { inner }
    }

    /// Creates a table.
    ///
    /// # Errors
    /// [`Error::InvalidDefinition`] if the name is taken or the definition makes no sense, [`Error::Limit`] after 2³²
    /// tables.
    pub fn create_table(&self, def: TableDef) -> Result<Arc<Table>> {
        self.inner.tables.create(def)
    }

    /// Drops a table: it is not among the tables any more, and its name is free. If it is not among them, nothing
    /// happens.
    ///
    /// Users of the table, or of a snapshot's scan of it, go on as before; their writes to it are their own business,
    /// unless a commit has taken its rows away ([`crate::AtDecision::replaced`]). When it has no user any more, and the
    /// transactions that were open then are over, the housekeeping frees all that it held.
    pub fn drop_table(&self, table: &Arc<Table>) {
        self.inner.tables.drop_one(table);
    }

    /// Returns the table called `name`.
    pub fn table(&self, name: &str) -> Option<Arc<Table>> {
        self.inner.tables.live().iter().find(|table| table.name() == name).cloned()
    }

    /// Returns the tables, oldest first.
    pub fn tables(&self) -> Vec<Arc<Table>> {
        self.inner.tables.live().to_vec()
    }

    /// Begins a transaction that reads what is committed now.
    ///
    /// # Panics
    /// If as many are open as [`Limits::transactions`] allows; see [`Engine::try_begin`].
    #[inline]
    pub fn begin(&self, begin: Begin) -> Txn<'_> {
        self.try_begin(begin).expect("no more transactions are open than may be")
    }

    /// Begins a transaction that reads what is committed now.
    ///
    /// # Errors
    /// [`Error::Limit`] if too many are open.
    #[inline]
    pub fn try_begin(&self, begin: Begin) -> Result<Txn<'_>> {
        let txn = self.try_begin_whole(begin)?;
        txn.rest_between_calls();
        Ok(txn)
    }

    /// Begins a transaction as [`Engine::try_begin`] does, for one that runs from its beginning to its end without
    /// waiting for another.
    #[inline]
    fn try_begin_whole(&self, begin: Begin) -> Result<Txn<'_>> {
        // An urgent context is never paused: only a transaction of a worker's base context is known by its worker.
        let worker = if in_urgent() { None } else { Worker::current() };
        Ok(Txn::new(&self.inner, self.inner.hold(begin, worker)?, begin))
    }

    /// Runs `body` as a transaction and commits it; begins again, a bounded number of times, when it or the commit
    /// meets a retryable error. Any other error rolls back; [`Error::RolledBack`] is for bodies that want only the
    /// rollback. The second value is the number of times that it began again.
    pub fn run<R>(&self, begin: Begin, mut body: impl FnMut(&Txn<'_>) -> Result<R>) -> (Result<R>, u32) {
        let mut retries = 0;
        loop {
            let outcome = self.try_begin_whole(begin).and_then(|txn| {
                if 0 < retries {
                    txn.counters().retries.add(1);
                }
                let result = body(&txn)?;
                txn.commit()?;
                Ok(result)
            });
            match outcome {
                Err(error) if error.is_retryable() && retries < self.inner.config.retries_max => {
                    retries += 1;
                    core::hint::spin_loop();
                }
                outcome => return (outcome, retries),
            }
        }
    }

    /// Registers a snapshot of what is committed now.
    ///
    /// # Panics
    /// If 1,024 snapshots are registered; see [`Engine::try_snapshot`].
    pub fn snapshot(&self) -> Arc<Snapshot> {
        self.try_snapshot().expect("at most 1,024 snapshots are registered")
    }

    /// Registers a snapshot of what is committed now.
    ///
    /// # Errors
    /// [`Error::Limit`] if too many are registered.
    pub fn try_snapshot(&self) -> Result<Arc<Snapshot>> {
        Snapshot::new(&self.inner).map(Arc::new).ok_or(Error::Limit(Limit::Snapshots))
    }

    /// Returns the figures now. Those of transactions that run may be missing.
    pub fn stats(&self) -> Stats {
        let blocks = &self.inner.blocks;
        let mut stats = Stats {
            blocks: blocks.blocks.get(),
            block_bytes: blocks.bytes.get(),
            blocks_scanned: blocks.scanned.get(),
            blocks_skipped: blocks.skipped.get(),
            refused_by_readers: self.inner.serial.refused_by_readers(),
            serial_entries: self.inner.serial.kept() as u64,
            retries: self.inner.locks.tally.retries.load(Ordering::Relaxed),
            ..Stats::default()
        };
        // The slots are read without their holders: a version may be made on one slot and freed on another meanwhile,
        // so each difference alone may be below zero, and only the wrapped sums count.
        for slot in &self.inner.counters[..self.inner.registry.slots_used()] {
            stats.versions =
                stats.versions.wrapping_add(slot.versions_made.get()).wrapping_sub(slot.versions_freed.get());
            stats.versions_dead =
                stats.versions_dead.wrapping_add(slot.died.get()).wrapping_sub(slot.versions_freed.get());
            stats.version_bytes =
                stats.version_bytes.wrapping_add(slot.bytes_made.get()).wrapping_sub(slot.bytes_freed.get());
            stats.versions_pruned += slot.pruned.get();
            stats.rows = stats.rows.wrapping_add(slot.rows_made.get()).wrapping_sub(slot.rows_deleted.get());
            stats.frozen += slot.frozen.get();
            stats.thawed += slot.thawed.get();
            stats.commits += slot.commits.get();
            stats.aborts += slot.aborts.get();
            stats.taken += slot.taken.get();
            stats.conflicts += slot.conflicts.get();
            stats.serialization_failures += slot.serialization_failures.get();
            stats.unique_violations += slot.unique_violations.get();
            stats.retries += slot.retries.get();
        }
        let tables = self.inner.tables.all();
        for rows in tables.iter().map(|table| &table.rows) {
            stats.row_ids_free += rows.free_count();
            stats.row_map_bytes += rows.bytes();
        }
        for tree in tables.iter().flat_map(|table| &table.indexes).map(|index| &index.tree) {
            stats.index_entries += tree.len() as u64;
            stats.index_nodes += tree.nodes() as u64;
            stats.index_waiting += tree.waiting() as u64;
        }
        stats
    }

    /// Returns the log of this engine.
    pub fn log(&self) -> &dyn Log {
        &*self.inner.config.log
    }
}
