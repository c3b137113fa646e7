//! Advisory locks.
//!
//! **Invariant:** a statement that waits and is run again locks and unlocks session-level locks once: calls made
//! before the wait are not repeated, and return their previous results. Transaction-level locks are undone with the
//! statement, so they are requested again.

use super::{RowStack, Run};
use engine::{Advisory, AdvisoryLocks, AdvisoryScope, Wait};
use query::plan::{AdvisoryCall, Expr};
use statement::error::{SqlError, SqlResult, SqlState};
use statement::holdings::MemoryUse;
use std::cell::RefCell;
use types::datum::Datum;
use types::ops::impossible;

/// Advisory locks of a session, and the calls of the statement under way.
pub(crate) struct AdvisoryState {
    locks: AdvisoryLocks,
    log: RefCell<AdvisoryLog>,
}

#[derive(Default)]
struct AdvisoryLog {
    /// Session-level calls with their results, in order; the flag is true for those that the statement has repeated.
    calls: Vec<(AdvisoryCall, Option<Advisory>, bool)>,
    used: usize,
    /// Number of calls that earlier parts have used, while statements repeat an undone one in parts.
    before: usize,
    is_repeating: bool,
    warnings: Vec<SqlError>,
}

impl AdvisoryState {
    pub(crate) fn new(locks: AdvisoryLocks) -> AdvisoryState {
        AdvisoryState { locks, log: RefCell::default() }
    }

    /// Releases all session-level locks.
    pub(crate) fn unlock_all(&self) {
        self.locks.unlock_all();
    }

    /// Begins a statement.
    pub(crate) fn begin(&self) {
        let mut log = self.log.borrow_mut();
        if log.is_repeating {
            log.before = log.used;
            return;
        }
        if !log.calls.is_empty() {
            *log = AdvisoryLog::default();
        }
        (log.used, log.before) = (0, 0);
    }

    /// Restarts a statement after its wait.
    pub(crate) fn begin_again(&self) {
        let mut log = self.log.borrow_mut();
        log.used = log.before;
    }

    /// Lets the next statements together repeat the one that has ended, and was undone.
    pub(crate) fn repeat(&self) {
        let mut log = self.log.borrow_mut();
        (log.is_repeating, log.used, log.before) = (true, 0, 0);
    }

    /// Ends the repetition: undoes the calls that were not repeated.
    pub(crate) fn end_repeat(&self) {
        let mut log = self.log.borrow_mut();
        log.is_repeating = false;
        let used = log.used;
        self.forget_from(&mut log, used);
    }

    /// Ends the statement: undoes calls from before the wait that it has not repeated, unless it is a part of a
    /// repetition.
    pub(crate) fn end(&self) -> Vec<SqlError> {
        let mut log = self.log.borrow_mut();
        if !log.is_repeating {
            let used = log.used;
            self.forget_from(&mut log, used);
        }
        std::mem::take(&mut log.warnings)
    }

    /// Undoes the calls, since the transaction was aborted and is run again from its beginning.
    pub(crate) fn undo(&self) {
        self.forget_from(&mut self.log.borrow_mut(), 0);
    }

    fn forget_from(&self, log: &mut AdvisoryLog, from: usize) {
        for (call, lock, gave) in log.calls.drain(from..) {
            if let (AdvisoryCall::Lock { shared, .. }, Some(lock), true) = (call, lock, gave) {
                self.locks.unlock(lock, shared);
            }
        }
    }

    /// Returns the result of a call before the wait.
    fn given(&self, call: AdvisoryCall, lock: Option<Advisory>) -> Option<bool> {
        let mut log = self.log.borrow_mut();
        let used = log.used;
        match log.calls.get(used) {
            Some((of, on, gave)) if (*of, *on) == (call, lock) => {
                let gave = *gave;
                log.used += 1;
                Some(gave)
            }
            Some(_) => {
                // The statement has taken another course.
                self.forget_from(&mut log, used);
                None
            }
            None => None,
        }
    }

    fn note(&self, call: AdvisoryCall, lock: Option<Advisory>, gave: bool) {
        let mut log = self.log.borrow_mut();
        log.calls.push((call, lock, gave));
        log.used += 1;
        if let (AdvisoryCall::Unlock { shared }, false) = (call, gave) {
            let mode = if shared { "ShareLock" } else { "ExclusiveLock" };
            let message = format!("you don't own a lock of type {mode}");
            log.warnings.push(SqlError::new(SqlState::WARNING, message));
        }
    }
}

impl Run<'_> {
    pub(super) fn advisory(&self, call: AdvisoryCall, arguments: &[Expr], rows: &RowStack<'_>) -> SqlResult<Datum> {
        let values = arguments.iter().map(|one| self.value(one, rows)).collect::<SqlResult<Vec<_>>>()?;
        let lock = match &values[..] {
            [] => None,
            [Datum::Int8(number)] => Some(Advisory::One(*number)),
            [Datum::Int4(first), Datum::Int4(second)] => Some(Advisory::Two(*first, *second)),
            values if values.iter().any(Datum::is_null) => return Ok(Datum::Null),
            _ => return Err(impossible("the arguments of an advisory lock")),
        };
        let gave = match (call, lock) {
            (AdvisoryCall::Lock { shared, tries, scope }, Some(lock)) => {
                let wait = if tries { Wait::SkipLocked } else { Wait::Block };
                let takes = || Ok::<_, SqlError>(self.txn.lock_advisory(lock, shared, scope, wait)?);
                match scope {
                    AdvisoryScope::Transaction => self.env.holdings.during(MemoryUse::Transaction, takes)?,
                    AdvisoryScope::Session => self.done_once(call, Some(lock), takes)?,
                }
            }
            (AdvisoryCall::Unlock { shared }, Some(lock)) => {
                self.done_once(call, Some(lock), || Ok(self.advised.locks.unlock(lock, shared)))?
            }
            (AdvisoryCall::UnlockAll, None) => self.done_once(call, None, || {
                self.advised.unlock_all();
                Ok(true)
            })?,
            _ => return Err(impossible("the arguments of an advisory lock")),
        };
        Ok(if call.is_void() { Datum::text("") } else { Datum::Bool(gave) })
    }

    fn done_once(
        &self,
        call: AdvisoryCall,
        lock: Option<Advisory>,
        does: impl FnOnce() -> SqlResult<bool>,
    ) -> SqlResult<bool> {
        if let Some(gave) = self.advised.given(call, lock) {
            return Ok(gave);
        }
        let gave = self.env.holdings.during(MemoryUse::Locks, does)?;
        // The log is dropped when the next statement begins.
        self.env.holdings.during(MemoryUse::Results, || self.advised.note(call, lock, gave));
        Ok(gave)
    }
}
