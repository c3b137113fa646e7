//! A transaction: its beginning and its two ends.
//!
//! **Invariant:** everything that it did is named by its write set, so either end visits each change once: a commit to
//! replace its word by the timestamp, an abort to undo it, latest first. The slot goes back when no word names it.

use crate::begin::Begin;
use crate::counters::Counters;
use crate::engine::Inner;
use crate::error::{Error, Result};
use crate::log::LogPosition;
use crate::raw::chain::View;
use crate::raw::garbage::{Dead, Rest};
use crate::raw::slots::{COMMANDS_MAX, Held};
use crate::redo;
use crate::scratch::{Kind, Scratch};
use crate::serial::Refused;
use core::cell::{BorrowMutError, Cell, RefCell, RefMut};

/// A transaction. It reads the snapshot of its beginning and its own earlier commands; dropping it aborts it.
///
/// All methods borrow it shared, so that rows it has read stay borrowed while it writes. After an error that
/// [is retryable](Error::is_retryable) nothing but dropping it makes sense.
pub struct Txn<'e> {
    pub(crate) inner: &'e Inner,
    /// Given up by commit and abort alone, which consume the transaction.
    held: Option<Held<'e>>,
    scratch: RefCell<Option<Box<Scratch>>>,
    begin: Begin,
    /// The number of the command that runs.
    command: Cell<u32>,
    /// Whether this command has written: the next read then begins a new one, which sees it.
    wrote: Cell<bool>,
}

impl<'e> Txn<'e> {
    #[inline]
    pub(crate) fn new(inner: &'e Inner, held: Held<'e>, begin: Begin) -> Txn<'e> {
        let scratch = inner.scratch[held.index()].take().unwrap_or_default();
        Txn {
            inner,
            held: Some(held),
            scratch: RefCell::new(Some(scratch)),
            begin,
            command: Cell::new(0),
            wrote: Cell::new(false),
        }
    }

    #[inline]
    pub(crate) fn held(&self) -> &Held<'e> {
        self.held.as_ref().expect("only the two ends give it up")
    }

    #[inline]
    pub(crate) fn scratch(&self) -> RefMut<'_, Scratch> {
        RefMut::map(self.scratch.borrow_mut(), |scratch| &mut **scratch.as_mut().expect("only the two ends give it up"))
    }

    /// The scratch, if nobody has it.
    pub(crate) fn try_scratch(&self) -> Result<RefMut<'_, Scratch>, BorrowMutError> {
        let scratch = self.scratch.try_borrow_mut()?;
        Ok(RefMut::map(scratch, |scratch| &mut **scratch.as_mut().expect("only the two ends give it up")))
    }

    #[inline]
    pub(crate) fn counters(&self) -> &'e Counters {
        &self.inner.counters[self.held().index()]
    }

    /// The number of the snapshot that it reads.
    pub fn snapshot_number(&self) -> u64 {
        self.held().snapshot()
    }

    /// Every call begins here: a transaction that somebody aborted learns of it.
    #[inline]
    pub(crate) fn check_active(&self) -> Result<()> {
        if self.held().is_active() { Ok(()) } else { Err(Error::Taken) }
    }

    /// What a read that begins now sees.
    #[inline]
    pub(crate) fn view(&self) -> Result<View> {
        self.check_active()?;
        if self.wrote.get() {
            if self.command.get() == COMMANDS_MAX {
                return Err(Error::Limit("commands of one transaction"));
            }
            self.command.set(self.command.get() + 1);
            self.wrote.set(false);
        }
        let held = self.held();
        Ok(View { snapshot: held.snapshot(), owner: held.word(0), command: self.command.get() })
    }

    /// The number of a write that begins now.
    #[inline]
    pub(crate) fn write_command(&self) -> Result<u32> {
        self.check_active()?;
        if self.begin.read_only {
            return Err(Error::ReadOnly);
        }
        self.wrote.set(true);
        Ok(self.command.get())
    }

    /// Commits. Replies may leave when the log has reached the position returned.
    ///
    /// # Errors
    /// [`Error::Taken`] when a more important transaction aborted it before; [`Error::SerializationFailure`] when it is
    /// SERIALIZABLE and another transaction wrote, after its snapshot, what it has read.
    #[inline]
    pub fn commit(mut self) -> Result<LogPosition> {
        let log = &self.inner.config.log;
        let held = self.held.take().expect("only the two ends give it up");
        let mut scratch = self.scratch.take().expect("only the two ends give it up");
        let counters = &self.inner.counters[held.index()];
        if scratch.writes.is_empty() {
            counters.commits.add(1);
            self.inner.end(held, scratch, counters);
            return Ok(log.end());
        }
        let keeps_records = log.keeps_records();
        if keeps_records {
            redo::encode(self.inner, held.pin(), &mut scratch);
        }
        let timestamp = match self.inner.decide(&held, &mut scratch) {
            Ok(timestamp) => timestamp,
            Err(refused) => {
                counters.serialization_failures.add(u64::from(refused == Refused::Conflict));
                self.inner.roll_back(held, scratch, counters);
                return Err(refused.into());
            }
        };
        let position = if keeps_records {
            redo::seal(&mut scratch.redo, timestamp);
            log.append(&scratch.redo)
        } else {
            log.end()
        };
        counters.commits.add(1);
        // From the decision on the changes exist for all; this only spares readers the way to the status word. It may be
        // interrupted anywhere, whatever the length of the write set.
        let Scratch { writes, graveyard, .. } = &mut *scratch;
        for write in writes.iter() {
            write.change.stamp(held.pin(), timestamp);
            if let Some(version) = write.change.dead_by_commit() {
                let rest = if write.kind == Kind::Delete { Rest::Unlink } else { Rest::Free };
                graveyard.push(Dead::new(timestamp, version, write.table, rest, write.keys_left));
                counters.died.add(1);
            }
        }
        self.inner.end(held, scratch, counters);
        Ok(position)
    }

    /// Aborts: nothing of it ever happened.
    pub fn abort(self) {
        drop(self);
    }
}

impl Drop for Txn<'_> {
    #[inline]
    fn drop(&mut self) {
        if let (Some(held), Some(scratch)) = (self.held.take(), self.scratch.take()) {
            let counters = &self.inner.counters[held.index()];
            self.inner.roll_back(held, scratch, counters);
        }
    }
}
