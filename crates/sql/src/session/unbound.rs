//! Statements whose binding fails while another transaction has uncommitted definitions.
//!
//! **Invariant:** an error of binding is reported only if no other transaction holds a lock against readers on a table
//! that the statement names, or if the holder has defined nothing. So the error is that of the committed definitions,
//! as for a statement that locks its tables before it is bound. The statement waits without a lock of its own, and is
//! bound again.

use super::run::{RunNeeds, RunOutcome};
use super::{Parked, Portal, Session, Step};
use catalog::TableInfo;
use engine::{TableLock, Wait};
use statement::error::SqlResult;
use std::sync::Arc;

/// Outcome of a failed preparation.
#[derive(Debug)]
pub enum PreparationFailure {
    /// The error is final.
    Stands,
    /// Prepare the statement again.
    Again,
    /// Another transaction has a lock on a table that the statement names. Ask again after the wait.
    Parked(Parked),
}

/// Failed binding.
pub(super) struct FailedBinding {
    /// Tables that the statement names.
    tables: Arc<[Arc<TableInfo>]>,
    /// Version of the catalog at that time.
    catalog: u64,
}

impl Session {
    /// Notes a failed binding, which began with this version of the shared catalog.
    pub(super) fn note_failed(&mut self, tables: Vec<Arc<TableInfo>>, catalog: u64) {
        // A transaction with definitions excludes those of others.
        let may_wait = self.work.is_none() && !tables.is_empty();
        self.unbound = may_wait.then(|| FailedBinding { tables: tables.into(), catalog });
    }

    /// Returns true if the failed statement named a table: then [`Session::await_definitions`] decides if the error is
    /// final.
    pub fn is_unbound(&self) -> bool {
        self.unbound.is_some()
    }

    /// Decides, after [`Session::prepare`] has failed, if an uncommitted definition may be the cause.
    ///
    /// # Errors
    /// Errors of the wait.
    pub fn await_definitions(&mut self) -> SqlResult<PreparationFailure> {
        let Some(failed) = self.unbound.take() else { return Ok(PreparationFailure::Stands) };
        if self.has_failed {
            return Ok(PreparationFailure::Stands);
        }
        let engine = self.database.engine();
        // Usually there is no such lock. Locks are checked first, then the catalog, as a definition is published
        // before its locks are released.
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

    /// Compares the catalog with that of the failed binding.
    fn judged(&self, failed: &FailedBinding) -> PreparationFailure {
        if failed.catalog == self.database.catalog.current_version() {
            PreparationFailure::Stands
        } else {
            PreparationFailure::Again
        }
    }

    /// Runs a statement that binds others as it runs; repeats it after definitions that made its binding fail.
    pub(super) fn act_bound(&mut self, portal: &Portal) -> SqlResult<Step> {
        if self.procedure.is_some() {
            return self.continue_procedure();
        }
        if self.waits_urgently()
            && let Some(step) = self.continue_urgently()?
        {
            return Ok(step);
        }
        // The statement has waited for a definition.
        let mut result = match self.unbound.is_some() && self.is_parked {
            true => None,
            false => {
                self.unbound = None;
                Some(self.act_portal(portal))
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
                // A statement that has waited is bound again, which reports its error.
                (PreparationFailure::Stands | PreparationFailure::Again, _) => {}
            }
            result = Some(self.act_portal(portal));
        }
    }
}
