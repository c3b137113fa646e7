//! The serial way to commit, over the rows of the model: reads are rows by their ids.

use super::{Model, ModelTxn};
use crate::raw::recent::RecentWrite;
use crate::raw::slots::NotCommitted;
use crate::serial::{Check, Refused};
use core::cell::RefCell;
use stage::Class;

struct Rows<'a> {
    reads: &'a [usize],
    buffer: Vec<RecentWrite>,
}

impl Check for Rows<'_> {
    fn conflicts(&mut self, writes: &[RecentWrite]) -> bool {
        writes.iter().any(|write| self.reads.contains(&(write.row as usize)))
    }

    fn buffer(&mut self) -> &mut Vec<RecentWrite> {
        &mut self.buffer
    }

    fn buffered_conflict(&mut self) -> bool {
        let buffer = core::mem::take(&mut self.buffer);
        self.conflicts(&buffer)
    }
}

impl Model {
    /// Begins a SERIALIZABLE transaction.
    pub fn begin_serial(&self, class: Class) -> ModelTxn<'_> {
        let held = self.registry.begin(class, None, true).expect("the model has slots for all its transactions");
        ModelTxn { model: self, held, changes: Vec::new(), reads: RefCell::default() }
    }

    /// Turns serial mode off if nobody needs it. Says whether it is off.
    pub fn rest_serial(&self) -> bool {
        self.registry.rest_serial(self.registry.look_at_serial())
    }
}

impl ModelTxn<'_> {
    /// The number of the snapshot that it reads.
    pub fn snapshot(&self) -> u64 {
        self.held.snapshot()
    }

    pub(super) fn decide(&self) -> Result<u64, Refused> {
        match self.held.commit() {
            Ok(timestamp) => return Ok(timestamp),
            Err(NotCommitted::Aborted) => return Err(Refused::Aborted),
            Err(NotCommitted::Publish) => {}
        }
        let reads = self.reads.borrow();
        let mut check = self.held.is_serial().then(|| Rows { reads: &reads, buffer: Vec::new() });
        self.model.serial.commit(&self.model.registry, &self.held, check.as_mut(), |push| {
            for (row, change) in &self.changes {
                RecentWrite::new(&self.held, 0, *row as u64, change).into_iter().for_each(&mut *push);
            }
        })
    }
}
