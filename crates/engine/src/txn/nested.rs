//! Commands within a command: the statements of a function that another statement calls.
//!
//! **Invariant:** the command around it goes on with the view that it had: it sees nothing that the nested commands have
//! written, and its own later writes carry its own number. Nested commands have higher numbers than all before them, so
//! they see what the command around them has written so far, as PostgreSQL's volatile functions do.

use crate::error::{Error, Limit, Result};
use crate::raw::reader::ReadHold;
use crate::raw::slots::COMMANDS_MAX;
use crate::txn::Txn;

/// Guard that returns to the command around the nested ones, also when the caller's closure panics.
struct OuterCommand<'t, 'e> {
    txn: &'t Txn<'e>,
    command: u32,
    wrote: bool,
    held: bool,
    /// Number of the snapshot of the command around.
    snapshot: u64,
}

impl Drop for OuterCommand<'_, '_> {
    fn drop(&mut self) {
        let OuterCommand { txn, command, wrote, held, snapshot } = *self;
        // The number of a command that has written nothing is used again, so that reading calls use up no numbers.
        let used = if txn.wrote.get() { txn.command.get() } else { txn.command.get() - 1 };
        txn.command_max.set(txn.command_max.get().max(used));
        txn.command.set(command);
        txn.wrote.set(wrote);
        txn.command_held.set(held);
        if txn.held().snapshot() != snapshot {
            txn.read_again_by(snapshot);
        }
    }
}

impl Txn<'_> {
    /// Runs `body`, whose reads and writes are commands of their own within the command that runs, and which at READ
    /// COMMITTED sees the state that is committed when it begins. It may run several commands, one after the other, and
    /// may be called within itself.
    ///
    /// # Errors
    /// [`Error::Limit`] if there are too many commands, or too many snapshots are registered; [`Error::Taken`],
    /// [`Error::Cancelled`].
    pub fn nested<R>(&self, body: impl FnOnce() -> R) -> Result<R> {
        // The command around may not have begun: it then sees what the last one has written, and nothing of these.
        self.view()?;
        let next = self.next_command()?;
        let (command, wrote, held) = (self.command.get(), self.wrote.get(), self.command_held.get());
        let outer = OuterCommand { txn: self, command, wrote, held, snapshot: self.held().snapshot() };
        self.command.set(next);
        self.wrote.set(false);
        self.command_held.set(false);
        if self.reads_latest() && self.held().is_outdated() {
            self.renew_for_nested()?;
        }
        let result = body();
        drop(outer);
        Ok(result)
    }

    /// Returns the number of the next command.
    pub(crate) fn next_command(&self) -> Result<u32> {
        let last = self.command.get().max(self.command_max.get());
        if last == COMMANDS_MAX { Err(Error::Limit(Limit::Commands)) } else { Ok(last + 1) }
    }

    /// Takes a new snapshot. The one before stays registered until the statement ends: the command around goes back to
    /// it. A row that the caller holds stays: it was seen by the snapshot before, which is registered, or it is claimed,
    /// or it is the transaction's own.
    #[cold]
    fn renew_for_nested(&self) -> Result<()> {
        let snapshot = self.held().snapshot();
        let mut outer = self.outer_snapshots.borrow_mut();
        if !outer.iter().any(|hold| hold.snapshot() == snapshot) {
            let hold = ReadHold::of(&self.inner.registry, self.held());
            outer.push(hold.ok_or(Error::Limit(Limit::Snapshots))?);
        }
        self.held().refresh(false);
        Ok(())
    }

    /// Goes back to the snapshot of this number, which [`Txn::renew_for_nested`] has kept. Claims of the nested commands
    /// may have been made on versions beyond it.
    #[cold]
    fn read_again_by(&self, snapshot: u64) {
        let _call = self.call();
        let mut outer = self.outer_snapshots.borrow_mut();
        if let Some(hold) = outer.iter().find(|hold| hold.snapshot() == snapshot) {
            self.held().read_by(hold);
        }
        // Snapshots of the commands in between are not read any more.
        outer.retain(|hold| hold.snapshot() <= snapshot);
        self.goes_beyond();
    }
}
