//! Advisory locks: functions that lock what only the application knows.
//!
//! **Invariant:** a statement that waits and is run again has locked and unlocked for its session once: calls that were
//! done are not done again, and give what they gave. Locks of the transaction are taken back with the statement, so those
//! are asked for again.

use super::{RowStack, Run};
use engine::{Advisory, AdvisoryLocks, AdvisoryScope, Wait};
use query::plan::{AdvisoryCall, Expr};
use statement::error::{SqlError, SqlResult, SqlState};
use statement::holdings::MemoryUse;
use std::cell::RefCell;
use types::datum::Datum;
use types::ops::impossible;

/// Advisory locks of a session, and what the statement under way has done to them.
pub(crate) struct AdvisoryState {
    locks: AdvisoryLocks,
    log: RefCell<AdvisoryLog>,
}

#[derive(Default)]
struct AdvisoryLog {
    /// Calls for the session with what they gave, in order, and how many of them the statement has come to again.
    calls: Vec<(AdvisoryCall, Option<Advisory>, bool)>,
    used: usize,
    warnings: Vec<SqlError>,
}

impl AdvisoryState {
    pub(crate) fn new(locks: AdvisoryLocks) -> AdvisoryState {
        AdvisoryState { locks, log: RefCell::default() }
    }

    /// Gives up all of them.
    pub(crate) fn unlock_all(&self) {
        self.locks.unlock_all();
    }

    /// A statement begins.
    pub(crate) fn begin(&self) {
        let mut log = self.log.borrow_mut();
        if !log.calls.is_empty() {
            *log = AdvisoryLog::default();
        }
        log.used = 0;
    }

    /// The statement that has waited begins anew.
    pub(crate) fn begin_again(&self) {
        self.log.borrow_mut().used = 0;
    }

    /// The statement is done: what it did before it waited, and has not come to again, did not happen.
    pub(crate) fn end(&self) -> Vec<SqlError> {
        let mut log = self.log.borrow_mut();
        let used = log.used;
        self.forget_from(&mut log, used);
        std::mem::take(&mut log.warnings)
    }

    /// The statement's transaction was aborted, and is run again from its beginning.
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

    /// What a call gave before the statement waited.
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
                // The statement has taken another way.
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
        // It is forgotten when another statement begins.
        self.env.holdings.during(MemoryUse::Results, || self.advised.note(call, lock, gave));
        Ok(gave)
    }
}
