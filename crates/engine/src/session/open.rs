//! Open transactions: statement by statement, with savepoints.

use super::{Savepoint, Session, Step, Unwind, worker};
use crate::begin::{Begin, Isolation};
use crate::engine::Engine;
use crate::error::{Error, IN_TRANSACTION, NO_TRANSACTION, Result};
use crate::locks::Waiter;
use crate::log::LogPosition;
use crate::raw::activity::Activity;
use crate::txn::{Mark, Suspended, Txn};
use preempt::os;
use std::sync::Arc;

const NONE_OPEN: Error = Error::TransactionState(NO_TRANSACTION);

/// An open transaction between two statements.
pub(super) struct Open {
    begin: Begin,
    /// Nothing before the first statement, and after the whole was rolled back.
    suspended: Option<Suspended>,
    state: State,
    savepoints: Vec<(u64, Mark)>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum State {
    Fine,
    /// Somebody else aborted it between two statements, a more important transaction (`taken`) or the check of what it has
    /// read: the next learns of it.
    Lost {
        taken: bool,
    },
    /// A statement failed.
    Failed,
}

impl Open {
    /// Whether a statement may begin.
    fn check(&mut self) -> Result<()> {
        match self.state {
            State::Fine => Ok(()),
            State::Lost { taken } => {
                self.state = State::Failed;
                Err(if taken { Error::Taken } else { Error::SerializationFailure })
            }
            State::Failed => Err(Error::InFailedTransaction),
        }
    }

    /// Takes the transaction in hand, or begins it. With `statement` a new one begins.
    #[inline]
    fn resume<'s>(&mut self, engine: &'s Engine, waiter: &'s Arc<Waiter>, statement: bool) -> Result<Txn<'s>> {
        let inner = &engine.inner;
        match self.suspended.take() {
            Some(suspended) => {
                let refresh = statement && self.begin.isolation == Isolation::ReadCommitted;
                Ok(Txn::resume(inner, suspended, waiter, worker(), refresh))
            }
            None => Ok(Txn::new(inner, inner.hold(self.begin, worker())?, self.begin).in_session(waiter)),
        }
    }

    /// Leaves the transaction, which now does this, until its next statement. If somebody took it, it is rolled back at
    /// once, for the sake of whoever waits for what it has.
    fn leave(&mut self, txn: Txn<'_>, activity: Activity) -> bool {
        let is_active = txn.rest(activity);
        if is_active {
            self.suspended = Some(txn.suspend(activity != Activity::LockWait));
        } else {
            let taken = txn.lost() == Error::Taken;
            // While the slot is still ours.
            txn.inner.locks.set_parked(txn.held().index(), None);
            drop(txn);
            self.savepoints.clear();
            self.state = State::Lost { taken };
        }
        is_active
    }

    /// A statement has panicked: nothing of the transaction is left that could go on.
    #[cold]
    pub(super) fn fail_whole(&mut self) {
        self.state = State::Failed;
        if self.suspended.is_none() {
            self.savepoints.clear();
        }
    }

    /// A statement has failed: it is undone with everything since the last savepoint, or else the whole transaction.
    #[cold]
    fn fail(&mut self, txn: Txn<'_>, error: &Error) {
        self.state = State::Failed;
        match self.savepoints.last() {
            // If that finds it taken, whoever goes back to a savepoint is told so.
            Some((_, mark)) if txn.check_alive() => {
                txn.undo_to(*mark);
                self.leave(txn, Activity::ClientWait);
            }
            savepoint => {
                if savepoint.is_some() && !matches!(error, Error::Taken | Error::SerializationFailure) {
                    self.state = State::Lost { taken: txn.lost() == Error::Taken };
                }
                drop(txn);
                self.savepoints.clear();
            }
        }
    }
}

impl Session {
    /// Opens a transaction. It begins with its first statement: until then it sees nothing and holds nothing.
    ///
    /// # Errors
    /// [`Error::TransactionState`] when one is open.
    pub fn begin(&mut self, begin: Begin) -> Result<()> {
        if self.open.is_some() || self.is_parked {
            return Err(Error::TransactionState(IN_TRANSACTION));
        }
        let begin = self.promote(begin);
        let now_ns = os::now_ns();
        self.waiter.with(|state| state.born_ns = now_ns);
        self.open = Some(Open { begin, suspended: None, state: State::Fine, savepoints: Vec::new() });
        Ok(())
    }

    /// Runs a statement of the open transaction. Waits on this thread, which must be no worker, where it must.
    ///
    /// # Errors
    /// What `statement` returns. The statement then is undone, and the transaction has failed: nothing else is done,
    /// [`Error::InFailedTransaction`], until [`Session::rollback`] or [`Session::rollback_to`].
    ///
    /// # Panics
    /// When `statement` does. The whole transaction then is undone and has failed.
    pub fn execute<R>(&mut self, mut statement: impl FnMut(&Txn<'_>) -> Result<R>) -> Result<R> {
        loop {
            match self.try_execute(&mut statement)? {
                Step::Done(result) => return Ok(result),
                Step::Parked(ticket) => ticket.wait(),
            }
        }
    }

    /// As [`Session::execute`], but never blocks.
    ///
    /// # Errors
    /// Those of [`Session::execute`].
    pub fn try_execute<R>(&mut self, statement: impl FnOnce(&Txn<'_>) -> Result<R>) -> Result<Step<R>> {
        let unwind = Unwind(self);
        let result = unwind.0.submit_statement(statement);
        core::mem::forget(unwind);
        result
    }

    #[inline]
    fn submit_statement<R>(&mut self, statement: impl FnOnce(&Txn<'_>) -> Result<R>) -> Result<Step<R>> {
        self.open.as_mut().ok_or(NONE_OPEN)?.check()?;
        let goes_on = self.is_parked;
        let waited = self.come_back();
        if let Ok(Some(ticket)) = waited {
            return Ok(Step::Parked(ticket));
        }
        if goes_on {
            self.unpark();
        } else {
            self.begin_statement();
        }
        let mut result = waited.and_then(|_| self.submit(statement, !goes_on));
        if let Ok(None) = result {
            // It may have been the victim of the deadlock that it closed.
            match self.come_back() {
                Ok(ticket) => {
                    self.is_parked = true;
                    return Ok(Step::Parked(ticket.unwrap_or_else(|| self.ticket())));
                }
                Err(error) => result = Err(error),
            }
        }
        match result {
            Ok(result) => {
                self.end_statement();
                Ok(Step::Done(result.expect("a statement that is parked has returned above")))
            }
            Err(error) => {
                self.unpark();
                // If the wait failed, the transaction is still suspended.
                let Session { engine, waiter, open, .. } = self;
                if let Some(open) = open.as_mut().filter(|open| open.state == State::Fine) {
                    match open.suspended.is_some() {
                        true => {
                            let txn = open.resume(engine, waiter, false)?;
                            open.fail(txn, &error);
                        }
                        false => open.state = State::Failed,
                    }
                }
                self.end_statement();
                Err(error)
            }
        }
    }

    /// Runs the statement once. Nothing: it is parked.
    fn submit<R>(&mut self, statement: impl FnOnce(&Txn<'_>) -> Result<R>, is_new: bool) -> Result<Option<R>> {
        let Session { engine, waiter, open, is_parked, .. } = self;
        let open = open.as_mut().ok_or(NONE_OPEN)?;
        // Submitted again it sees what it saw: the rows that it waited for are the newest all the same.
        let txn = open.resume(engine, waiter, is_new)?;
        let (start, reads) = (txn.mark(), txn.scratch().reads.mark());
        // Somebody may have taken it while it waited for its client.
        let result = txn.check_active().and_then(|()| statement(&txn));
        if txn.must_wait.get() {
            txn.undo_to(start);
            txn.scratch().reads.unread(&reads);
            txn.goes_back();
            txn.park(waiter, true);
            *is_parked = true;
            if open.leave(txn, Activity::LockWait) {
                return Ok(None);
            }
            return open.check().map(|()| None);
        }
        if txn.is_taken_back.get() && result.is_ok() {
            txn.undo_to(start);
            txn.scratch().reads.unread(&reads);
        }
        match result {
            Ok(result) => {
                open.leave(txn, Activity::ClientWait);
                Ok(Some(result))
            }
            Err(error) => {
                open.fail(txn, &error);
                Err(error)
            }
        }
    }

    /// Nobody waits with this session's transaction open any more.
    fn unpark(&mut self) {
        if let Some(suspended) = self.open.as_ref().and_then(|open| open.suspended.as_ref()) {
            self.engine.inner.locks.set_parked(suspended.slot(), None);
        }
    }

    /// The statement that waits, if one does, will not be submitted again.
    fn abandon(&mut self) {
        if self.is_parked {
            self.unpark();
            self.end_statement();
        }
    }

    /// Commits the open transaction. Replies may leave when the log has reached the position returned.
    ///
    /// # Errors
    /// Those of [`Txn::commit`]; [`Error::InFailedTransaction`] when a statement had failed: then it is rolled back.
    pub fn commit(&mut self) -> Result<LogPosition> {
        self.abandon();
        let mut open = self.open.take().ok_or(NONE_OPEN)?;
        let result = match open.check() {
            Ok(()) if open.suspended.is_none() => Ok(self.engine.log().end()),
            Ok(()) => open.resume(&self.engine, &self.waiter, false).and_then(Txn::commit),
            Err(error) => {
                open.roll_back(&self.engine, &self.waiter);
                Err(error)
            }
        };
        self.end_transaction(result.is_ok());
        result
    }

    /// Rolls back the open transaction, if there is one.
    pub fn rollback(&mut self) {
        self.abandon();
        if let Some(mut open) = self.open.take() {
            open.roll_back(&self.engine, &self.waiter);
            self.end_transaction(false);
        }
    }

    /// Marks a point to which the open transaction can go back.
    ///
    /// # Errors
    /// [`Error::TransactionState`], [`Error::InFailedTransaction`].
    pub fn savepoint(&mut self) -> Result<Savepoint> {
        let open = self.open.as_mut().ok_or(NONE_OPEN)?;
        open.check()?;
        self.savepoints += 1;
        let mark = open.suspended.as_ref().map_or(Mark::START, Suspended::mark);
        open.savepoints.push((self.savepoints, mark));
        Ok(Savepoint { session: self.waiter.id, number: self.savepoints })
    }

    /// Goes back to a savepoint, which stays: what was done since is undone, the locks got since are given up, and a
    /// transaction that failed since goes on.
    ///
    /// # Errors
    /// [`Error::NoSuchSavepoint`]; [`Error::TransactionState`]; [`Error::Taken`].
    pub fn rollback_to(&mut self, savepoint: &Savepoint) -> Result<()> {
        self.abandon();
        let Session { engine, waiter, open, .. } = self;
        let open = open.as_mut().ok_or(NONE_OPEN)?;
        if matches!(open.state, State::Lost { .. }) {
            return open.check();
        }
        let at = open.find(waiter, savepoint)?;
        let (_, mark) = open.savepoints[at];
        open.savepoints.truncate(at + 1);
        open.state = State::Fine;
        if open.suspended.is_some() {
            let txn = open.resume(engine, waiter, false)?;
            txn.undo_to(mark);
            if !open.leave(txn, Activity::ClientWait) {
                return open.check();
            }
        }
        Ok(())
    }

    /// Forgets a savepoint and those after it; what was done since stays.
    ///
    /// # Errors
    /// [`Error::NoSuchSavepoint`], [`Error::TransactionState`], [`Error::InFailedTransaction`].
    pub fn release(&mut self, savepoint: &Savepoint) -> Result<()> {
        let open = self.open.as_mut().ok_or(NONE_OPEN)?;
        open.check()?;
        let at = open.find(&self.waiter, savepoint)?;
        open.savepoints.truncate(at);
        Ok(())
    }

    /// Says that the open transaction waits at the gate for its next statement to be let in: under `not-running` it may be
    /// taken from meanwhile.
    pub fn wait_at_gate(&mut self) {
        let Session { engine, waiter, open, is_parked, .. } = self;
        let Some(open) = open.as_mut().filter(|open| !*is_parked && open.suspended.is_some()) else { return };
        if let Ok(txn) = open.resume(engine, waiter, false) {
            let was = open.state;
            if open.leave(txn, Activity::GateWait) {
                open.state = was;
            }
        }
    }
}

impl Open {
    fn roll_back(&mut self, engine: &Engine, waiter: &Arc<Waiter>) {
        if self.suspended.is_some() {
            drop(self.resume(engine, waiter, false));
        }
    }

    fn find(&self, waiter: &Waiter, savepoint: &Savepoint) -> Result<usize> {
        let is_it = |(number, _): &(u64, Mark)| *number == savepoint.number && savepoint.session == waiter.id;
        self.savepoints.iter().position(is_it).ok_or(Error::NoSuchSavepoint)
    }
}
