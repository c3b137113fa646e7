//! Statements whose binding has failed beside a definition that has not been committed.
//!
//! **Invariant:** an error of binding is told only if nobody else has one of the tables that the statement names locked against
//! readers, or nothing was defined by whoever had. So a statement fails by the definitions of now, as one that locks its tables
//! before it is bound. It waits without a lock of its own, and is bound anew.

use super::run::{RunNeeds, RunOutcome};
use super::{Parked, Portal, Session, Step};
use catalog::TableInfo;
use engine::{TableLock, Wait};
use statement::error::SqlResult;
use std::sync::Arc;

/// Outcome of a preparation that has failed.
#[derive(Debug)]
pub enum PreparationFailure {
    /// The error stands.
    Stands,
    /// It is to be prepared again.
    Again,
    /// Somebody defines something that it names: ask again when the wait is over.
    Parked(Parked),
}

/// Binding that has failed.
pub(super) struct FailedBinding {
    /// Tables that its names stand for.
    tables: Arc<[Arc<TableInfo>]>,
    /// The number of the catalog then.
    catalog: u64,
}

impl Session {
    /// Remembers a binding that has failed; it began when the common catalog had this number.
    pub(super) fn note_failed(&mut self, tables: Vec<Arc<TableInfo>>, catalog: u64) {
        // Nobody else defines anything beside a transaction that does.
        let may_wait = self.work.is_none() && !tables.is_empty();
        self.unbound = may_wait.then(|| FailedBinding { tables: tables.into(), catalog });
    }

    /// Tells whether the preparation that has failed named a table: [`Session::await_definitions`] may know more.
    pub fn is_unbound(&self) -> bool {
        self.unbound.is_some()
    }

    /// After [`Session::prepare`] has failed: whether it may have failed for a definition that is not committed.
    ///
    /// # Errors
    /// Those of waiting for it.
    pub fn await_definitions(&mut self) -> SqlResult<PreparationFailure> {
        let Some(failed) = self.unbound.take() else { return Ok(PreparationFailure::Stands) };
        if self.has_failed {
            return Ok(PreparationFailure::Stands);
        }
        let engine = self.database.engine();
        // Most have failed beside nobody. First the locks, then the catalog: who defines something publishes it before it gives them up.
        if !self.is_parked && failed.tables.iter().all(|table| engine.admits_readers(&table.table)) {
            return Ok(self.judged(&failed));
        }
        let tables = Arc::clone(&failed.tables);
        let ran = self.run(&[], RunNeeds::Nothing, |run| {
            run.txn.give_back_when_waiting();
            for table in tables.iter() {
                run.txn.lock_table(&table.table, TableLock::AccessShare, Wait::Block)?;
            }
            run.txn.take_back();
            run.txn.has_read_nothing();
            Ok(())
        })?;
        Ok(match ran {
            RunOutcome::Parked(parked) => {
                self.unbound = Some(failed);
                PreparationFailure::Parked(parked)
            }
            RunOutcome::Done(()) | RunOutcome::Moved => self.judged(&failed),
        })
    }

    /// Tells whether anything was defined since.
    fn judged(&self, failed: &FailedBinding) -> PreparationFailure {
        if failed.catalog == self.database.catalog.current_version() {
            PreparationFailure::Stands
        } else {
            PreparationFailure::Again
        }
    }

    /// Runs what binds on the way, again after definitions that its binding has failed for.
    pub(super) fn act_bound(&mut self, portal: &Portal) -> SqlResult<Step> {
        // It has waited for some.
        let mut result = match self.unbound.is_some() && self.is_parked {
            true => None,
            false => {
                self.unbound = None;
                Some(self.act_current(&portal.statement, &portal.values))
            }
        };
        loop {
            let error = match result {
                Some(Err(error)) if self.unbound.is_some() => Some(error),
                Some(result) => return result,
                None => None,
            };
            match (self.await_definitions()?, error) {
                (PreparationFailure::Parked(parked), _) => return Ok(Step::Parked(parked)),
                (PreparationFailure::Stands, Some(error)) => return Err(error),
                // One that has waited says when it is bound again what it has said.
                (PreparationFailure::Stands | PreparationFailure::Again, _) => {}
            }
            result = Some(self.act_current(&portal.statement, &portal.values));
        }
    }
}
