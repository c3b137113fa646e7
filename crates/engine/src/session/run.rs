//! Procedures: a transaction as one statement, undone whole when it must wait, and run again at the grant.

use super::{Session, Step, Unwind, worker};
use crate::error::TransactionState;
use crate::error::{Error, Result};
use crate::locks::Tally;
use crate::txn::begin::Begin;
use crate::txn::{Mark, Txn};

impl Session {
    /// Runs `body` as a transaction and commits it. Waits on this thread, which must be no worker, where it must, and runs
    /// `body` again after each wait and after each retryable error, up to [`crate::EngineConfig::retries_max`] times.
    ///
    /// # Errors
    /// The errors of `body` or of the commit; [`Error::Cancelled`], [`Error::LockNotAvailable`];
    /// [`Error::TransactionState`] if a transaction is open.
    pub fn run<R>(&mut self, begin: Begin, mut body: impl FnMut(&Txn<'_>) -> Result<R>) -> Result<R> {
        loop {
            match self.try_run(begin, &mut body)? {
                Step::Done(result) => return Ok(result),
                Step::Parked(ticket) => ticket.wait(),
            }
        }
    }

    /// Runs a transaction as [`Session::run`] does, but never blocks. A procedure that must wait has had no effect, and
    /// keeps nothing but its place in one queue.
    ///
    /// # Errors
    /// Those of [`Session::run`].
    pub fn try_run<R>(&mut self, begin: Begin, body: impl FnMut(&Txn<'_>) -> Result<R>) -> Result<Step<R>> {
        let unwind = Unwind(self);
        let result = unwind.0.submit_procedure(begin, body);
        core::mem::forget(unwind);
        result
    }

    #[inline]
    fn submit_procedure<R>(&mut self, begin: Begin, mut body: impl FnMut(&Txn<'_>) -> Result<R>) -> Result<Step<R>> {
        if self.open.is_some() {
            return Err(Error::TransactionState(TransactionState::Open));
        }
        if !self.is_parked {
            self.retries = 0;
            self.begin_statement();
        }
        loop {
            let result = match self.come_back() {
                Ok(Some(ticket)) => return Ok(Step::Parked(ticket)),
                Ok(None) => self.attempt(begin, &mut body),
                Err(error) => Err(error),
            };
            match result {
                Ok(Some(result)) => {
                    self.end_statement();
                    return Ok(Step::Done(result));
                }
                Ok(None) => {}
                Err(error) if error.is_retryable() && self.retries < self.engine.inner.config.retries_max => {
                    self.retries += 1;
                    Tally::one(&self.engine.inner.locks.tally.retries);
                }
                Err(error) => {
                    self.end_statement();
                    return Err(error);
                }
            }
        }
    }

    /// Runs the procedure once. Returns none if it is parked.
    #[inline]
    fn attempt<R>(&mut self, begin: Begin, body: &mut impl FnMut(&Txn<'_>) -> Result<R>) -> Result<Option<R>> {
        let begin = self.promote(begin);
        let inner = &self.engine.inner;
        let txn = Txn::new(inner, inner.hold(begin, worker())?, begin).in_session(&self.waiter);
        let result = body(&txn);
        if txn.must_wait.get() {
            txn.undo_to(Mark::START);
            txn.park(&self.waiter, false);
            txn.give_up();
            self.is_parked = true;
            // A session that was promoted still is: it has not had its chance yet.
            return Ok(None);
        }
        let result = match result {
            Ok(result) => txn.commit().map(|_| Some(result)),
            Err(error) => {
                drop(txn);
                Err(error)
            }
        };
        self.end_transaction(result.is_ok());
        result
    }
}
