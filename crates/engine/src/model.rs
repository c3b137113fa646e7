//! The row protocol by itself, for `tests/shuttle.rs`: rows of one number, and transactions that add to them. Nothing
//! is freed here, so a model sees the words and pointers exactly as they were left.

use crate::raw::activity::{Pressed, Yields};
use crate::raw::chain::{Change, Claim, View};
use crate::raw::live::Role;
use crate::raw::slots::{HeldSlot, Registry};
use crate::raw::version::{NewVersion, RowCell, Version};
use crate::schema::tables::Tables;
use crate::txn::reads::ReadLog;
use crate::txn::serial::Serial;
use core::cell::RefCell;
use stage::Class;

mod frozen;
mod serial;

pub use frozen::{FreezeModel, FreezeTxn};

/// A model: rows of one number each, and their transactions.
pub struct Model {
    registry: Registry,
    rows: Vec<RowCell>,
    serial: Serial,
    /// Set of no tables: reads are rows by their ids.
    tables: Tables,
}

/// A transaction of the model.
pub struct ModelTxn<'m> {
    model: &'m Model,
    held: HeldSlot<'m>,
    changes: Vec<(usize, Change)>,
    /// Reads of a SERIALIZABLE transaction.
    reads: RefCell<ReadLog>,
}

/// Error: the row was not available.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RowUnavailable;

fn number(version: &Version) -> i64 {
    i64::from_le_bytes(version.image().try_into().expect("rows of the model have 8 bytes"))
}

/// Claims the row, or takes it from a less important transaction: in the model, that is always possible.
fn claim_or_take<'p>(held: &'p HeldSlot<'_>, cell: &RowCell) -> Claim<'p> {
    loop {
        match held.claim(cell, 0, false, false) {
            Claim::Held(word) => match held.press(word, Yields::NotRunning) {
                Pressed::Taken { .. } | Pressed::Settled => {}
                Pressed::Running | Pressed::Refused => return Claim::Held(word),
            },
            claim => return claim,
        }
    }
}

impl Model {
    /// Creates rows with these numbers, committed.
    pub fn new(numbers: &[i64]) -> Model {
        let model = Model {
            registry: Registry::new(8, 1),
            rows: numbers.iter().map(|_| RowCell::new()).collect(),
            serial: Serial::new(1 << 10),
            tables: Tables::new(),
        };
        let mut txn = model.begin(Class::Normal);
        for (row, number) in numbers.iter().enumerate() {
            let new = NewVersion::new(txn.held.word(0), row as u64, None, &number.to_le_bytes());
            let mut change = Change::claim(None);
            change.made(txn.held.publish_first(&model.rows[row], new));
            txn.changes.push((row, change));
        }
        txn.commit().expect("nobody else is there");
        model
    }

    /// Begins a transaction.
    pub fn begin(&self, class: Class) -> ModelTxn<'_> {
        let held = self.registry.begin(class, None, Role::None).expect("the model has slots for all its transactions");
        ModelTxn { model: self, held, changes: Vec::new(), reads: RefCell::default() }
    }

    /// Panics unless the row is at rest: its newest version is committed and stamped, and no transaction has claimed
    /// it.
    pub fn assert_at_rest(&self, row: usize) {
        let txn = self.begin(Class::Normal);
        assert!(txn.held.is_at_rest(&self.rows[row]), "row {row} is not at rest");
        txn.abort();
    }
}

impl ModelTxn<'_> {
    /// Returns the number of the row, by its snapshot and its own changes.
    pub fn read(&self, row: usize) -> i64 {
        if self.held.logs_reads() {
            self.reads.borrow_mut().row(0, row as u64);
        }
        let view = View { snapshot: self.held.snapshot(), owner: self.held.word(0), command: 1 };
        let version = self.model.registry.visible(&self.model.rows[row], self.held.pin(), view);
        number(version.expect("rows of the model are never deleted"))
    }

    /// Adds to the number of the row.
    ///
    /// # Errors
    /// If another transaction has the row, or took it from this one.
    pub fn add(&mut self, row: usize, more: i64) -> Result<(), RowUnavailable> {
        let cell = &self.model.rows[row];
        let Claim::Claimed(base) = claim_or_take(&self.held, cell) else { return Err(RowUnavailable) };
        let mut change = Change::claim(Some(base));
        let image = (number(base) + more).to_le_bytes();
        let new = NewVersion::new(self.held.word(0), row as u64, Some(base), &image);
        let published = self.held.publish(cell, base, new);
        if let Ok(version) = published {
            change.made(version);
        }
        self.changes.push((row, change));
        published.map(|_| ()).map_err(|_| RowUnavailable)
    }

    /// Commits.
    ///
    /// # Errors
    /// If another transaction took a row of it; everything is undone then.
    pub fn commit(self) -> Result<u64, RowUnavailable> {
        let Ok(timestamp) = self.decide() else {
            self.abort();
            return Err(RowUnavailable);
        };
        for (_, change) in &self.changes {
            change.stamp(self.held.pin(), timestamp);
        }
        self.end();
        Ok(timestamp)
    }

    /// Aborts and undoes everything.
    pub fn abort(self) {
        self.held.abort();
        for (row, change) in self.changes.iter().rev() {
            let pin = self.held.pin();
            self.held.undo(&self.model.rows[*row], change.claimed(pin), change.published(pin));
        }
        self.end();
    }

    fn end(self) {
        if self.held.is_serial_reader() {
            self.model.serial.end_reader(&self.model.registry, &self.held, None);
        }
        self.held.release();
    }
}
