//! Open transactions: statement by statement, with savepoints.

use super::{Savepoint, Session, Step, Unwind, worker};
use crate::engine::Engine;
use crate::error::TransactionState;
use crate::error::{Error, Result};
use crate::locks::Waiter;
use crate::log::LogPosition;
use crate::raw::activity::Activity;
use crate::txn::begin::{Begin, Isolation};
use crate::txn::{AtDecision, Mark, Suspended, Txn, tell};
use preempt::os;
use std::sync::Arc;

const NONE_OPEN: Error = Error::TransactionState(TransactionState::None);

/// Part of a statement that takes the locks with which it begins.
type TakeLocks<'f> = dyn FnMut(&Txn<'_>) -> Result<()> + 'f;

/// An open transaction between two statements.
pub(super) struct Open {
    begin: Begin,
    /// None before the first statement, and after the whole was rolled back.
    suspended: Option<Suspended>,
    state: OpenState,
    savepoints: Vec<(u64, Mark)>,
    /// True if no statement has read by its snapshot.
    pub(super) is_unread: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum OpenState {
    Fine,
    /// Another aborted the transaction, a more important one (`taken`) or the check of its reads: the next statement
    /// learns of it if none has (`is_told`), and a rollback to a savepoint in any case.
    Lost {
        taken: bool,
        is_told: bool,
    },
    /// A statement failed.
    Failed,
    /// A statement panicked, and nothing of it is left.
    Gone,
}

/// Returns the error of a transaction that another aborted.
fn lost(taken: bool) -> Error {
    if taken { Error::Taken } else { Error::SerializationFailure }
}

impl Open {
    /// Returns the weight of the transaction: see [`Session::weight`].
    #[inline]
    pub(super) fn weight(&self) -> usize {
        self.suspended.as_ref().map_or(0, Suspended::weight)
    }

    /// See [`Session::set_writable`].
    pub(super) fn set_writable(&mut self, is_writable: bool) {
        self.begin.refuses_writes = !is_writable;
        if let Some(suspended) = &mut self.suspended {
            suspended.set_writable(is_writable);
        }
    }

    /// Checks that a statement may begin.
    fn check(&mut self) -> Result<()> {
        match self.state {
            OpenState::Fine => Ok(()),
            OpenState::Lost { taken, is_told: false } => {
                self.state = OpenState::Lost { taken, is_told: true };
                Err(lost(taken))
            }
            OpenState::Lost { is_told: true, .. } | OpenState::Failed | OpenState::Gone => {
                Err(Error::InFailedTransaction)
            }
        }
    }

    /// Checks that the transaction may go back to a savepoint.
    fn check_back(&mut self) -> Result<()> {
        match self.state {
            OpenState::Fine | OpenState::Failed => Ok(()),
            OpenState::Lost { taken, .. } => {
                self.state = OpenState::Lost { taken, is_told: true };
                Err(lost(taken))
            }
            OpenState::Gone => Err(Error::InFailedTransaction),
        }
    }

    /// Returns true if the statement that begins takes a new snapshot.
    fn renews(&self) -> bool {
        self.is_unread || self.begin.isolation == Isolation::ReadCommitted
    }

    /// Returns true if others know its snapshot from its beginning on: it cannot take another.
    fn is_tied(&self) -> bool {
        self.begin.isolation == Isolation::Serializable && self.begin.read_only
    }

    /// Takes the transaction in hand, or begins it. With `refresh` it takes a new snapshot.
    #[inline]
    fn resume<'s>(&mut self, engine: &'s Engine, waiter: &'s Arc<Waiter>, refresh: bool) -> Result<Txn<'s>> {
        let inner = &engine.inner;
        let new = || Ok(Txn::new(inner, inner.hold(self.begin, worker())?, self.begin).in_session(waiter));
        match self.suspended.take() {
            Some(suspended) if refresh && self.is_tied() => {
                // The transaction has done nothing, and begins once more.
                drop(Txn::resume(inner, suspended, waiter, worker(), false));
                new()
            }
            Some(suspended) => Ok(Txn::resume(inner, suspended, waiter, worker(), refresh)),
            None => new(),
        }
    }

    /// Leaves the transaction, which now has this activity, until its next statement. If another took it, it is rolled
    /// back at once, for the sake of those that wait for its locks.
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
            self.state = OpenState::Lost { taken, is_told: false };
        }
        is_active
    }

    /// Fails the whole transaction, because a statement has panicked: nothing of it is left that could go on.
    #[cold]
    pub(super) fn fail_whole(&mut self) {
        self.state = if self.suspended.is_some() { OpenState::Failed } else { OpenState::Gone };
    }

    /// Fails the transaction while no statement runs.
    #[cold]
    fn fail_at_rest(&mut self, engine: &Engine, waiter: &Arc<Waiter>, error: &Error) -> Result<()> {
        if self.suspended.is_none() {
            // The transaction has done nothing yet.
            self.state = OpenState::Failed;
            return Ok(());
        }
        let txn = self.resume(engine, waiter, false)?;
        self.fail(txn, error);
        Ok(())
    }

    /// Undoes a statement that has failed, with everything since the last savepoint, or else the whole transaction.
    #[cold]
    fn fail(&mut self, txn: Txn<'_>, error: &Error) {
        self.state = OpenState::Failed;
        match self.savepoints.last() {
            // If that finds it taken, a rollback to a savepoint is told so.
            Some((_, mark)) if txn.check_alive() => {
                txn.undo_to(*mark);
                self.leave(txn, Activity::ClientWait);
            }
            savepoint => {
                if savepoint.is_some() {
                    let is_told = matches!(error, Error::Taken | Error::SerializationFailure);
                    self.state = OpenState::Lost { taken: txn.lost() == Error::Taken, is_told };
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
    /// [`Error::TransactionState`] if one is open.
    pub fn begin(&mut self, begin: Begin) -> Result<()> {
        if self.open.is_some() || self.is_parked {
            return Err(Error::TransactionState(TransactionState::Open));
        }
        let begin = self.promote(begin);
        let now_ns = os::now_ns();
        self.waiter.with(|state| state.born_ns = now_ns);
        self.open =
            Some(Open { begin, suspended: None, state: OpenState::Fine, savepoints: Vec::new(), is_unread: true });
        Ok(())
    }

    /// Runs a statement of the open transaction. Waits on this thread, which must be no worker, where it must.
    ///
    /// # Errors
    /// The errors of `statement`. The statement then is undone, and the transaction has failed: no other statement
    /// runs, [`Error::InFailedTransaction`], until [`Session::rollback`] or [`Session::rollback_to`].
    ///
    /// # Panics
    /// If `statement` panics. The whole transaction then is undone and has failed.
    pub fn execute<R>(&mut self, mut statement: impl FnMut(&Txn<'_>) -> Result<R>) -> Result<R> {
        loop {
            match self.try_execute(&mut statement)? {
                Step::Done(result) => return Ok(result),
                Step::Parked(ticket) => ticket.wait(),
            }
        }
    }

    /// Runs a statement as [`Session::execute`] does, but never blocks.
    ///
    /// # Errors
    /// Those of [`Session::execute`].
    pub fn try_execute<R>(&mut self, statement: impl FnOnce(&Txn<'_>) -> Result<R>) -> Result<Step<R>> {
        self.step(None, statement)
    }

    /// Runs a statement as [`Session::try_execute`] does, for one that takes locks of tables before anything else:
    /// `locks` takes them, and must neither read nor write. The snapshot is taken after that, so that the statement
    /// sees every commit of those that it has waited for; above READ COMMITTED this is so for the transaction's first
    /// statement. The locks stay while the statement waits for something else.
    ///
    /// # Errors
    /// Those of [`Session::execute`].
    pub fn try_execute_after<R>(
        &mut self,
        locks: &mut TakeLocks<'_>,
        statement: impl FnOnce(&Txn<'_>) -> Result<R>,
    ) -> Result<Step<R>> {
        self.step(Some(locks), statement)
    }

    #[inline]
    fn step<R>(
        &mut self,
        locks: Option<&mut TakeLocks<'_>>,
        statement: impl FnOnce(&Txn<'_>) -> Result<R>,
    ) -> Result<Step<R>> {
        let unwind = Unwind(self);
        let result = unwind.0.submit_statement(locks, statement);
        core::mem::forget(unwind);
        result
    }

    #[inline]
    fn submit_statement<R>(
        &mut self,
        locks: Option<&mut TakeLocks<'_>>,
        statement: impl FnOnce(&Txn<'_>) -> Result<R>,
    ) -> Result<Step<R>> {
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
        let mut result = waited.and_then(|_| self.submit(locks, statement, !goes_on));
        if let Ok(None) = result {
            // The statement may have been the victim of the deadlock that it closed.
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
                if let Some(open) = open.as_mut().filter(|open| open.state == OpenState::Fine) {
                    open.fail_at_rest(engine, waiter, &error)?;
                }
                self.end_statement();
                Err(error)
            }
        }
    }

    /// Runs the statement once. Returns none if it is parked.
    fn submit<R>(
        &mut self,
        locks: Option<&mut TakeLocks<'_>>,
        statement: impl FnOnce(&Txn<'_>) -> Result<R>,
        is_new: bool,
    ) -> Result<Option<R>> {
        let Session { engine, waiter, open, is_parked, is_locking, .. } = self;
        let open = open.as_mut().ok_or(NONE_OPEN)?;
        // A statement submitted again after it has begun keeps its snapshot: the rows that it waited for are the newest
        // all the same.
        let begins = is_new || *is_locking;
        let renews = begins && open.renews();
        let txn = open.resume(engine, waiter, renews && (locks.is_none() || open.is_tied()))?;
        let before = txn.mark();
        // Another may have taken the transaction while it waited for its client.
        let mut locked = txn.check_active();
        if let (Some(locks), true) = (locks, begins) {
            locked = locked.and_then(|()| locks(&txn));
            *is_locking = txn.must_wait.get();
            // Not before: the holders of the locks may have committed until they were ours.
            if renews && locked.is_ok() && !open.is_tied() {
                txn.renew_snapshot();
            }
        } else {
            *is_locking = false;
        }
        let (locking, start, reads) = (*is_locking, txn.mark(), txn.scratch().reads.mark());
        let mut result = locked.and_then(|()| statement(&txn));
        // With a snapshot of this moment no one can have committed since.
        if !renews && !txn.must_wait.get() && !txn.is_taken_back.get() {
            result = result.and_then(|result| txn.check_serializable().map(|()| result));
        }
        if txn.must_wait.get() {
            *is_locking = locking || txn.gives_back.get();
            let are_keys_free = txn.undo_quietly_to(if *is_locking { before } else { start });
            txn.scratch().reads.unread(&reads);
            // The transaction learns from its reads what it waits for.
            open.is_unread = open.is_unread && *is_locking && !(open.is_tied() && before != Mark::START);
            txn.goes_back();
            txn.park(waiter, true);
            // Two transactions that wait for each other's keys are a deadlock, though each gives back the locks of its
            // statement. If each woke the other before it parks, they would go on for ever.
            if are_keys_free {
                txn.keys_released();
            }
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
        open.is_unread = open.is_unread && txn.is_unread.get() && !(open.is_tied() && start != Mark::START);
        match result {
            Ok(result) => {
                open.leave(txn, Activity::ClientWait);
                Ok(Some(result))
            }
            Err(error) => {
                if txn.held().is_serial() && txn.check_alive() {
                    txn.undo_to(start);
                    txn.scratch().reads.unbind(&reads);
                }
                open.fail(txn, &error);
                Err(error)
            }
        }
    }

    /// Notes that no one waits with this session's transaction open any more.
    fn unpark(&mut self) {
        if let Some(suspended) = self.open.as_ref().and_then(|open| open.suspended.as_ref()) {
            self.engine.inner.locks.set_parked(suspended.slot(), None);
        }
    }

    /// Abandons the statement that waits, if one does: it will not be submitted again.
    fn abandon(&mut self) {
        if self.is_parked {
            self.unpark();
            self.end_statement();
        }
    }

    /// Commits the open transaction. Replies may leave when the log has reached the position returned.
    ///
    /// # Errors
    /// Those of [`Txn::commit`]; [`Error::InFailedTransaction`] if a statement had failed: then it is rolled back.
    pub fn commit(&mut self) -> Result<LogPosition> {
        self.commit_with(&mut ())
    }

    /// Commits as [`Session::commit`] does, with a hook at the decision.
    ///
    /// # Errors
    /// Those of [`Session::commit`].
    pub fn commit_with<D: AtDecision>(&mut self, decision: &mut D) -> Result<LogPosition> {
        self.abandon();
        let mut open = self.open.take().ok_or(NONE_OPEN)?;
        let result = match open.check() {
            Ok(()) if open.suspended.is_none() => {
                let is_committed = decision.before();
                tell(decision, is_committed);
                if is_committed { Ok(self.engine.log().end()) } else { Err(Error::SerializationFailure) }
            }
            Ok(()) => open.resume(&self.engine, &self.waiter, false).and_then(|txn| txn.commit_with(decision)),
            Err(error) => {
                open.roll_back(&self.engine, &self.waiter);
                Err(error)
            }
        };
        self.end_transaction(result.is_ok());
        result
    }

    /// Fails the open transaction, if there is one, for a cause outside the engine: as by a statement that fails, the
    /// work since the last savepoint, or else of the whole transaction, is undone, and the locks taken since are
    /// released.
    pub fn fail(&mut self) {
        self.abandon();
        let Session { engine, waiter, open, .. } = self;
        if let Some(open) = open.as_mut().filter(|open| open.state == OpenState::Fine)
            && open.fail_at_rest(engine, waiter, &Error::InFailedTransaction).is_err()
        {
            open.state = OpenState::Failed;
        }
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

    /// Goes back to a savepoint, which stays: the work since is undone, the locks taken since are released, and a
    /// transaction that failed since goes on.
    ///
    /// # Errors
    /// [`Error::NoSuchSavepoint`]; [`Error::TransactionState`]; [`Error::Taken`] or [`Error::SerializationFailure`],
    /// each time, of a transaction that another has aborted; [`Error::InFailedTransaction`] after a panic.
    pub fn rollback_to(&mut self, savepoint: &Savepoint) -> Result<()> {
        self.abandon();
        let Session { engine, waiter, open, .. } = self;
        let open = open.as_mut().ok_or(NONE_OPEN)?;
        open.check_back()?;
        let at = open.find(waiter, savepoint)?;
        let (_, mark) = open.savepoints[at];
        open.savepoints.truncate(at + 1);
        open.state = OpenState::Fine;
        if open.suspended.is_some() {
            let txn = open.resume(engine, waiter, false)?;
            txn.undo_to(mark);
            open.leave(txn, Activity::ClientWait);
        }
        open.check_back()
    }

    /// Forgets a savepoint and those after it; the work since stays.
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

    /// Notes that the open transaction waits at the gate for admission of its next statement: under `not-running` it
    /// may be taken from meanwhile.
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
