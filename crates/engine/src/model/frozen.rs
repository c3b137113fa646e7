//! Rows that freeze, thaw and go, for `tests/shuttle.rs`: a row map of one chunk with two rows of one number each. An
//! unlinked object is never freed.

use super::{RowUnavailable, claim_or_take, number};
use crate::frozen::block::{Block, Totals};
use crate::frozen::freeze::{FreezeSource, settle_in, sources};
use crate::frozen::present::Present;
use crate::raw::chain::{Change, Claim, View};
use crate::raw::ids::SlotIds;
use crate::raw::live::Role;
use crate::raw::rows::{CHUNK_ROWS, NewestState, RowMap};
use crate::raw::slots::{HeldSlot, Registry};
use crate::raw::version::NewVersion;
use crate::row::value::Type;
use crate::sync::{Acquire, AtomicU64, Release};
use arrow_array::Int64Array;
use stage::Class;
use std::sync::Arc;

/// The chunk, its freezer and its transactions.
pub struct FreezeModel {
    registry: Registry,
    rows: RowMap,
    totals: Arc<Totals>,
    /// Commit timestamp of each row's deletion; 0 before that.
    deleted: Vec<AtomicU64>,
}

/// A transaction of the model.
pub struct FreezeTxn<'m> {
    model: &'m FreezeModel,
    held: HeldSlot<'m>,
    changes: Vec<(u64, Change)>,
}

impl FreezeModel {
    /// Creates two rows with these numbers, committed and hot.
    pub fn new(numbers: [i64; CHUNK_ROWS as usize]) -> FreezeModel {
        let model = FreezeModel {
            registry: Registry::new(8, 1),
            rows: RowMap::new(),
            totals: Arc::default(),
            deleted: numbers.iter().map(|_| AtomicU64::new(0)).collect(),
        };
        let mut txn = model.begin(Class::Normal);
        let mut ids = SlotIds::default();
        for number in numbers {
            let row = ids.allocate(&model.rows, 0);
            let new = NewVersion::new(txn.held.word(0), row, None, &number.to_le_bytes());
            let mut change = Change::claim(None);
            change.made(txn.held.publish_first(model.rows.cell(row, txn.held.pin()), new));
            txn.changes.push((row, change));
        }
        txn.commit().expect("nobody else is there");
        model
    }

    /// Begins a transaction.
    pub fn begin(&self, class: Class) -> FreezeTxn<'_> {
        let held = self.registry.begin(class, None, Role::None).expect("the model has slots for all its transactions");
        FreezeTxn { model: self, held, changes: Vec::new() }
    }

    /// Freezes every row that is older than all snapshots, or rebuilds the block. One thread at a time. Returns the
    /// number of rows moved.
    pub fn freeze(&self) -> usize {
        let txn = self.begin(Class::Low);
        let (held, pin) = (&txn.held, txn.held.pin());
        let rested = self.registry.horizon();
        let old = self.rows.chunk(0).and_then(|chunk| chunk.share_block(pin));
        let sources = sources(&self.rows, 0..1, old.as_deref(), rested, pin);
        let numbers = sources.iter().filter_map(|source| match source {
            FreezeSource::Hot(_, version) => Some(number(version)),
            FreezeSource::Frozen(at) => old.as_ref().map(|old| old.i64(0, *at)),
            FreezeSource::Left => None,
        });
        let numbers: Int64Array = numbers.collect::<Vec<_>>().into();
        let present = Present::new(sources.iter().map(|source| !matches!(source, FreezeSource::Left)));
        let (kinds, columns) = (vec![Type::Int64], vec![Arc::new(numbers) as _]);
        let block = Arc::new(Block::new(0, sources.len(), Some(present), rested, kinds, columns, [&self.totals; 2]));
        let block = Some(&block).filter(|block| 0 < block.rows_count);
        let unlinked = settle_in(&self.rows, 0..1, block, &sources, held);
        let moved = unlinked.versions.len();
        std::mem::forget(unlinked);
        txn.abort();
        moved
    }

    /// Removes rows whose deletion no snapshot is older than.
    pub fn bury(&self) {
        let txn = self.begin(Class::Low);
        let horizon = self.registry.horizon();
        for (row, deleted) in self.deleted.iter().enumerate() {
            if (1..=horizon).contains(&deleted.load(Acquire)) {
                self.rows.clear(row as u64, txn.held.pin());
                deleted.store(0, Release);
            }
        }
        txn.abort();
    }
}

impl<'m> FreezeTxn<'m> {
    fn view(&self) -> View {
        View { snapshot: self.held.snapshot(), owner: self.held.word(0), command: 1 }
    }

    /// Returns the number of the row, by its id.
    pub fn read(&self, row: u64) -> Option<i64> {
        let (registry, pin) = (&self.model.registry, self.held.pin());
        match self.model.rows.newest(row, pin) {
            NewestState::Hot(newest) => registry.visible_after(newest, pin, self.view(), || ()).map(number),
            NewestState::Frozen(block, at) if registry.sees_block(&block.since, self.view()) => Some(block.i64(0, at)),
            NewestState::Frozen(..) | NewestState::Nowhere => None,
        }
    }

    /// Returns the number of each row, as a scan finds them: the block, without rows that are hot or gone, and the hot
    /// rows.
    pub fn scan(&self) -> Vec<(u64, i64)> {
        let (registry, pin) = (&self.model.registry, self.held.pin());
        let chunk = self.model.rows.chunk(0).expect("the model has rows");
        match chunk.parts(pin) {
            (None, None) => return Vec::new(),
            // A scan may leave it out by the bounds of all its rows.
            (None, Some(block)) => assert!(block.is_full(0, CHUNK_ROWS), "rows without cells are in the block"),
            (Some(_), _) => {}
        }
        loop {
            let block = chunk.share_block(pin);
            let hot: Vec<_> =
                (0..CHUNK_ROWS).map(|row| self.model.rows.hot_cell(row, pin).and_then(|cell| cell.load(pin))).collect();
            let mut found = Vec::new();
            for (row, newest) in (0..).zip(hot) {
                match newest {
                    Some(newest) => {
                        let seen = registry.visible_after(newest, pin, self.view(), || ());
                        found.extend(seen.map(|version| (row, number(version))));
                    }
                    None => {
                        let at = block.as_ref().and_then(|block| Some((block, block.position(row)?)));
                        found.extend(at.map(|(block, at)| (row, block.i64(0, at))));
                    }
                }
            }
            if chunk.has_block(block.as_deref()) {
                return found;
            }
        }
    }

    /// Claims the row, thawing it if need be; `make` computes the new version's number from the old one's.
    fn change(&mut self, row: u64, make: Option<&dyn Fn(i64) -> i64>) -> Result<(), RowUnavailable> {
        let (rows, pin) = (&self.model.rows, self.held.pin());
        let (cell, claim) = loop {
            match rows.newest(row, pin) {
                NewestState::Hot(_) => {}
                NewestState::Frozen(block, at) => {
                    let since = self.held.block_since(&block.since).expect("the model loads nothing");
                    let _ = rows.thaw(row, NewVersion::new(since, row, None, &block.i64(0, at).to_le_bytes()), pin);
                    continue;
                }
                NewestState::Nowhere => return Err(RowUnavailable),
            }
            let Some(cell) = rows.hot_cell(row, pin) else { continue };
            match claim_or_take(&self.held, cell) {
                Claim::Moved => {}
                claim => break (cell, claim),
            }
        };
        let Claim::Claimed(base) = claim else { return Err(RowUnavailable) };
        let mut change = Change::claim(Some(base));
        let published = make.map_or(Ok(()), |make| {
            let image = make(number(base)).to_le_bytes();
            let new = NewVersion::new(self.held.word(0), row, Some(base), &image);
            self.held.publish(cell, base, new).map(|version| change.made(version)).map_err(|_| RowUnavailable)
        });
        self.changes.push((row, change));
        published
    }

    /// Adds to the number of the row.
    ///
    /// # Errors
    /// If another transaction has the row, or took it from this one, or it does not exist.
    pub fn add(&mut self, row: u64, more: i64) -> Result<(), RowUnavailable> {
        self.change(row, Some(&|number| number + more))
    }

    /// Deletes the row.
    ///
    /// # Errors
    /// As [`FreezeTxn::add`].
    pub fn delete(&mut self, row: u64) -> Result<(), RowUnavailable> {
        self.change(row, None)
    }

    /// Commits.
    ///
    /// # Errors
    /// If another transaction took a row of it; everything is undone then.
    pub fn commit(self) -> Result<(), RowUnavailable> {
        let Some(timestamp) = self.held.commit() else {
            self.abort();
            return Err(RowUnavailable);
        };
        for (row, change) in &self.changes {
            change.stamp(self.held.pin(), timestamp);
            if change.dead_by_undo().is_none() {
                self.model.deleted[*row as usize].store(timestamp, Release);
            }
        }
        self.held.release();
        Ok(())
    }

    /// Aborts and undoes everything.
    pub fn abort(self) {
        self.held.abort();
        let pin = self.held.pin();
        for (row, change) in self.changes.iter().rev() {
            self.held.undo(self.model.rows.cell(*row, pin), change.claimed(pin), change.published(pin));
        }
        self.held.release();
    }
}
