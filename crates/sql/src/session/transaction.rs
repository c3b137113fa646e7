//! Transaction of a session: begin and end, in the engine and for the client.
//!
//! **Invariant:** the engine's transaction begins with the first statement that needs it, and ends with the session's.

use super::define::{PendingDefinitions, PinnedCatalog};
use super::{Portal, Savepoint, Session, TransactionBlock};
use engine::Begin;
use settings::roles::change::Decided;
use statement::error::{SqlError, SqlResult, SqlState};
use statement::holdings::MemoryUse;
use statement::outcome::TransactionStatus;
use std::sync::Arc;

impl Session {
    pub(super) fn open_implicit(&mut self) {
        if self.block == TransactionBlock::None {
            self.open(TransactionBlock::Implicit);
        }
    }

    pub(super) fn open(&mut self, block: TransactionBlock) {
        if self.block == TransactionBlock::None {
            // `'now'` in a statement that was analysed in this message is the same time.
            if !self.is_timed {
                self.settings.forms.now_us = self.time.unix_us();
            }
            self.settings.begin();
        }
        self.block = block;
    }

    /// Begins the engine's transaction, with the first statement that needs it.
    pub(super) fn begin_in_engine(&mut self) -> SqlResult<()> {
        if self.engine.is_open() {
            let version = self.database.catalog.current_version();
            if self.engine.is_unread() && self.pinned.as_ref().is_some_and(|pinned| pinned.upto != version) {
                self.pinned = Some(PinnedCatalog::new(self.database.catalog.current()));
            }
            return Ok(());
        }
        let mut begin = Begin::new(self.class()).isolation(self.settings.isolation());
        if self.settings.is_read_only() {
            begin = begin.read_only();
        }
        // The catalog is read before the snapshot is taken: objects that it names exist in any later snapshot.
        let keeps_snapshot = self.settings.isolation() != engine::Isolation::ReadCommitted;
        if keeps_snapshot && self.pinned.is_none() {
            self.pinned = Some(PinnedCatalog::new(self.database.catalog.current()));
        }
        Ok(self.engine.begin(begin)?)
    }

    pub(super) fn set_modes(&mut self, modes: &[(&'static str, &str)]) -> SqlResult<()> {
        for (name, value) in modes {
            if self.engine.is_open() && self.settings.show(name)? != *value {
                let message = match *name {
                    "transaction_isolation" if !self.savepoints.is_empty() => {
                        "SET TRANSACTION ISOLATION LEVEL must not be called in a subtransaction"
                    }
                    "transaction_deferrable" if !self.savepoints.is_empty() => {
                        "SET TRANSACTION [NOT] DEFERRABLE cannot be called within a subtransaction"
                    }
                    "transaction_isolation" => "SET TRANSACTION ISOLATION LEVEL must be called before any query",
                    "transaction_deferrable" => "SET TRANSACTION [NOT] DEFERRABLE must be called before any query",
                    // From now on it may not write; its writes so far stay.
                    _ if *value == "on" => {
                        self.settings.set_of_transaction(name, value)?;
                        self.engine.set_writable(false);
                        continue;
                    }
                    _ => "transaction read-write mode must be set before any query",
                };
                return Err(SqlError::new(SqlState::ACTIVE_SQL_TRANSACTION, message));
            }
            self.settings.set_of_transaction(name, value)?;
        }
        Ok(())
    }

    /// Ends the transaction. Returns true if it was committed.
    pub(super) fn end(&mut self, commit: bool) -> SqlResult<bool> {
        let commit = commit && !self.has_failed;
        let roles = Arc::clone(&self.database.roles);
        let changed = self.roles.take().filter(|_| commit);
        let decided = changed.map(|changed| changed.decide(&roles, &self.name_of_database)).transpose();
        let result = match decided {
            Ok(decided) if commit && self.engine.is_open() => self.commit().map(|()| decided),
            decided => {
                self.engine.rollback();
                self.undefine();
                decided
            }
        };
        // Published after the commit, so no session sees changes that may be rolled back.
        let result = result.map(|decided| decided.into_iter().for_each(Decided::publish));
        self.pinned = None;
        self.is_timed = false;
        self.locked.clear();
        self.hinted = None;
        self.end_portals(commit && result.is_ok());
        self.block = TransactionBlock::None;
        self.has_failed = false;
        self.is_parked = false;
        self.running = None;
        self.end_sleep();
        self.end_copy();
        self.explaining = None;
        self.savepoints.clear();
        self.env.holdings.forget(MemoryUse::Transaction);
        self.settings.end(commit && result.is_ok());
        result.map(|()| commit)
    }

    /// Ends the transaction, and begins another with the same characteristics. Returns true if it was committed.
    pub(super) fn end_and_chain(&mut self, commit: bool) -> SqlResult<bool> {
        self.need_begun_block(if commit { "COMMIT AND CHAIN" } else { "ROLLBACK AND CHAIN" })?;
        let modes = self.settings.characteristics();
        let is_committed = self.end(commit)?;
        self.open(TransactionBlock::Explicit);
        for (name, value) in &modes {
            self.settings.set_of_transaction(name, value)?;
        }
        Ok(is_committed)
    }

    /// Returns true if the end of the open transaction, or an error in it, may take long: it has changed, locked or
    /// read many rows, or has definitions, for which a commit compares whole catalogs.
    pub fn has_long_end(&self) -> bool {
        /// Undoing this many changes takes a fraction of a millisecond.
        const MUCH: usize = 1_024;
        MUCH < self.engine.weight() || self.work.is_some()
    }

    /// Ends a simple query, or a batch at `Sync`: commits or rolls back the implicit transaction, if there is one.
    ///
    /// # Errors
    /// Errors of a commit.
    pub fn sync(&mut self) -> SqlResult<()> {
        self.message.end();
        self.has_several = false;
        self.end_timer();
        match self.block {
            TransactionBlock::Implicit => {
                self.clock.begin_parts();
                let ended = self.end(true);
                self.clock.end_parts();
                ended.map(drop)
            }
            TransactionBlock::Explicit => Ok(()),
            // Portals of a transaction that has not begun in the engine.
            TransactionBlock::None => {
                self.is_timed = false;
                self.end_portals(false);
                Ok(())
            }
        }
    }

    /// Returns true if the portal would be a transaction of its own that can be run twice: no transaction is open, and
    /// it is one query or change, including one run by `EXECUTE`.
    pub fn is_alone(&self, portal: &Portal) -> bool {
        portal.statement.traits.is_one && self.block == TransactionBlock::None && !self.engine.is_open()
    }

    /// Returns true unless the portal is a query that changes no rows.
    pub fn is_modifying(&self, portal: &Portal) -> bool {
        portal.statement.traits.is_modifying
    }

    /// Undoes the implicit transaction, and drops its notices, to run the statement again. Its time limit continues.
    pub fn begin_again(&mut self) {
        if self.block == TransactionBlock::Implicit {
            // A rollback cannot fail.
            let _ = self.end(false);
        }
        self.has_timer = true;
        self.end_repeat();
        self.advised.undo();
        self.waiting = None;
        self.notices.clear();
    }

    /// Fails the transaction, which releases its locks at once. Call it after every error, whatever the cause: a
    /// protocol error, a syntax error, an unknown name, a refused command.
    pub fn fail(&mut self) {
        self.end_copy();
        self.end_timer();
        self.end_repeat();
        self.procedure = None;
        self.end_urgent();
        self.forget_analysis();
        if self.block != TransactionBlock::None {
            self.has_failed = true;
            self.engine.fail();
            self.end_cursor_runs();
        }
    }

    /// Returns true in a transaction block: from `BEGIN` on, or in a message with several statements, which are one
    /// transaction.
    pub(super) fn is_in_block(&self) -> bool {
        self.block == TransactionBlock::Explicit || self.has_several
    }

    /// Checks that a transaction block is open, which may be that of a message with several statements.
    pub(super) fn need_block(&self, what: &str) -> SqlResult<()> {
        if self.is_in_block() { Ok(()) } else { self.need_begun_block(what) }
    }

    /// Checks that a transaction block is open that `BEGIN` has begun.
    pub(super) fn need_begun_block(&self, what: &str) -> SqlResult<()> {
        if self.block == TransactionBlock::Explicit {
            return Ok(());
        }
        let message = format!("{what} can only be used in transaction blocks");
        Err(SqlError::new(SqlState::NO_ACTIVE_SQL_TRANSACTION, message))
    }

    /// Runs a `SAVEPOINT`.
    pub(super) fn set_savepoint(&mut self, name: &str) -> SqlResult<()> {
        let holdings = Arc::clone(&self.env.holdings);
        holdings.during(MemoryUse::Transaction, || {
            let engine = self.engine.savepoint()?;
            let work = self.work.as_ref().map(PendingDefinitions::states);
            let settings = self.settings.mark();
            self.savepoints.push(Savepoint { name: name.to_owned(), engine, settings, work });
            Ok(())
        })
    }

    pub(super) fn savepoint_named(&self, name: &str) -> SqlResult<usize> {
        self.savepoints.iter().rposition(|one| one.name == *name).ok_or_else(|| {
            let message = format!("savepoint \"{name}\" does not exist");
            SqlError::new(SqlState::INVALID_SAVEPOINT_SPECIFICATION, message)
        })
    }

    pub(super) fn warn(&mut self, state: SqlState, message: &str) {
        self.notices.push(("WARNING", SqlError::new(state, message)));
    }

    /// Returns the status of the transaction.
    pub fn status(&self) -> TransactionStatus {
        match self.block {
            TransactionBlock::Explicit if self.has_failed => TransactionStatus::Failed,
            TransactionBlock::Explicit => TransactionStatus::Open,
            TransactionBlock::None | TransactionBlock::Implicit => TransactionStatus::Idle,
        }
    }
}
