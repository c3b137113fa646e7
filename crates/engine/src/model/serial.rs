//! The serial way to commit, over the rows of the model: reads are rows by their ids.

use super::{Model, ModelTxn};
use crate::raw::live::Role;
use crate::raw::recent::RecentWrite;
use crate::txn::serial::{Commit, CommitRefusal, Record};
use core::cell::RefCell;
use stage::Class;
use std::sync::Arc;

impl Model {
    /// Begins a SERIALIZABLE transaction that may write.
    pub fn begin_serial(&self, class: Class) -> ModelTxn<'_> {
        let held =
            self.registry.begin(class, None, Role::Writer).expect("the model has slots for all its transactions");
        ModelTxn { model: self, held, changes: Vec::new(), reads: RefCell::default() }
    }

    /// Begins a SERIALIZABLE transaction that is declared READ ONLY.
    pub fn begin_reader(&self, class: Class) -> ModelTxn<'_> {
        let held = self.serial.begin_reader(&self.registry, class, None);
        let held = held.expect("the model has slots for all its transactions");
        ModelTxn { model: self, held, changes: Vec::new(), reads: RefCell::default() }
    }
}

impl ModelTxn<'_> {
    /// Returns the number of the snapshot that it reads.
    pub fn snapshot(&self) -> u64 {
        self.held.snapshot()
    }

    /// Returns the timestamp; the snapshot for a transaction without changes.
    pub(super) fn decide(&self) -> Result<u64, CommitRefusal> {
        if !self.held.logs_reads() {
            return self.held.commit().ok_or(CommitRefusal::Aborted);
        }
        let write = |(row, change): &(usize, _)| RecentWrite::new(&self.held, 0, *row as u64, change);
        let mut record: Arc<Record> = Arc::default();
        Record::fill(&mut record, &mut self.reads.borrow_mut(), self.changes.iter().filter_map(write));
        let registry = &self.model.registry;
        if self.held.is_serial_reader() {
            self.model.serial.end_reader(registry, &self.held, Some(&mut record));
            return Ok(self.held.snapshot());
        }
        let commit = Commit {
            tables: &self.model.tables,
            registry,
            held: &self.held,
            record: &mut record,
            key: &mut Vec::new(),
            has_changes: !self.changes.is_empty(),
        };
        Ok(self.model.serial.commit(commit)?.unwrap_or(self.held.snapshot()))
    }
}
