//! Runs of parts of a statement in the session's transaction.
//!
//! **Invariant:** a part that waits is rolled back. A statement first takes the locks of its tables, then its
//! snapshot; then it checks that it is bound by the catalog of that snapshot, and only then does it begin. From then
//! on it keeps that snapshot and that catalog.

use super::{Action, BoundStatement, Parked, Session, Statement, Step, TransactionBlock};
use crate::context::{Env, Sleeps};
use crate::exec::{Run, RunUsage, moves};
use catalog::CatalogSnapshot;
use catalog::{ORDER, TableInfo};
use engine::{AdvisoryScope, Txn, Wait};
use query::plan::Hold;
use statement::error::{SqlError, SqlResult};
use statement::pulse::{self, Watch};
use std::cell::{LazyCell, OnceCell};
use std::sync::Arc;
use types::datum::Datum;
use types::forms::Forms;

/// Watch of a statement that runs in the engine.
pub(super) struct EngineWatch(pub(super) engine::Canceller, pub(super) Sleeps);

impl Watch for EngineWatch {
    fn look(&self) -> SqlResult<()> {
        self.0.check()?;
        self.1.check_stay()
    }
}

/// Result of a part.
pub(super) enum RunOutcome<R> {
    Done(R),
    Parked(Parked),
    /// The part has not begun, because the catalog has changed since its statement was bound. Bind it again.
    Moved,
}

/// Needs of a part of a statement before it begins.
#[derive(Clone, Copy)]
pub(super) enum RunNeeds<'b> {
    /// No needs: the statement has begun before.
    Nothing,
    /// Locks and catalog with which the statement was bound.
    Statement(&'b Arc<BoundStatement>),
    /// Those of one call of a procedure's code, which takes its locks itself.
    Call,
    /// Lock that serializes definitions.
    Order,
}

impl<'b> RunNeeds<'b> {
    pub(super) fn of(bound: &'b Arc<BoundStatement>) -> RunNeeds<'b> {
        RunNeeds::Statement(bound)
    }

    /// Returns true if the part locks tables.
    pub(super) fn writes(&self) -> bool {
        matches!(self, RunNeeds::Statement(bound) if !bound.uses.is_empty())
    }

    fn has_locks(&self) -> bool {
        match self {
            RunNeeds::Nothing | RunNeeds::Call => false,
            RunNeeds::Statement(bound) => !bound.uses.is_empty(),
            RunNeeds::Order => true,
        }
    }

    /// Returns true if the part can be undone and restarted: it is a whole statement, or a call of a procedure's code.
    fn begins_again(&self) -> bool {
        let is_whole = |action: &Action| {
            matches!(action, Action::Query(_) | Action::Change(_) | Action::Call(_) | Action::CopyTo(_))
        };
        match self {
            RunNeeds::Statement(bound) => is_whole(&bound.action),
            RunNeeds::Call => true,
            RunNeeds::Nothing | RunNeeds::Order => false,
        }
    }

    /// Returns true if a locked table is out of date: the transaction keeps it for its snapshot.
    fn has_retired(&self) -> bool {
        matches!(self, RunNeeds::Statement(bound) if bound.uses.iter().any(|one| one.table.is_retired()))
    }

    /// Takes the locks.
    fn take(&self, txn: &Txn<'_>) -> engine::Result<()> {
        match self {
            RunNeeds::Nothing | RunNeeds::Call => Ok(()),
            RunNeeds::Statement(bound) => {
                // The statement changes no table, so writers of one need not wait until the next is locked.
                if matches!(*bound.action, Action::Maintain { .. }) {
                    txn.give_back_when_waiting();
                }
                let take = || bound.uses.iter().try_for_each(|one| one.take(txn));
                // NOWAIT and SKIP LOCKED apply to the lock on the table as well.
                let is_hasty = bound.uses.iter().any(|one| one.hold == Hold::Hasty);
                if is_hasty { txn.taking_nothing(take) } else { take() }
            }
            RunNeeds::Order => {
                txn.check_writable()?;
                // Other definitions do not wait while the statement waits for its tables.
                txn.give_back_when_waiting();
                txn.lock_advisory(ORDER, false, AdvisoryScope::Transaction, Wait::Block).map(drop)
            }
        }
    }
}

/// Statement that is run.
#[derive(Clone, Copy)]
pub(super) struct StatementRun<'g> {
    pub(super) statement: &'g Arc<Statement>,
    /// Current binding.
    pub(super) bound: &'g Arc<BoundStatement>,
    /// Values of the parameters.
    pub(super) values: &'g [Datum],
}

/// Result of a part that has not waited.
enum PartOutcome<R> {
    Done(R),
    TakenBack,
    Moved,
}

impl Session {
    /// Runs a part in the open transaction, or in a new implicit one.
    pub(super) fn run<R>(
        &mut self,
        parameters: &[Datum],
        needs: RunNeeds<'_>,
        body: impl FnMut(&Run<'_>) -> SqlResult<R>,
    ) -> SqlResult<RunOutcome<R>> {
        self.run_within(parameters, needs, RunUsage::default, body)
    }

    /// As [`Session::run`], with an initial cost or a row budget.
    pub(super) fn run_within<R>(
        &mut self,
        parameters: &[Datum],
        needs: RunNeeds<'_>,
        spent: impl Fn() -> RunUsage,
        mut body: impl FnMut(&Run<'_>) -> SqlResult<R>,
    ) -> SqlResult<RunOutcome<R>> {
        let is_first = self.block == TransactionBlock::None;
        let stays_until = self.stay.until.filter(|_| needs.begins_again());
        self.env.holdings.forget_results();
        self.open_implicit();
        self.begin_in_engine()?;
        let statement_us = match self.is_parked {
            true => self.env.statement_us,
            false if is_first => self.settings.forms.now_us,
            false => self.time.unix_us(),
        };
        match self.wake_up()? {
            Some(sleep) => return Ok(RunOutcome::Parked(Parked::Sleep(sleep))),
            None if self.is_parked => {}
            None => {
                self.begin_timer();
                let left = self.time_left();
                self.engine.set_lock_timeout(self.settings.lock_timeout());
                self.engine.set_statement_timeout(left);
            }
        }
        let has_begun = self.running.take().is_some();
        let seen = match self.catalog_snapshot.clone().filter(|_| has_begun) {
            Some(seen) => seen,
            None => self.see_now(),
        };
        if let RunNeeds::Statement(bound) = needs
            && !has_begun
            && bound.catalog != seen.state.version()
        {
            return Ok(self.moved());
        }
        if self.is_parked {
            self.numbers.begin_again();
            self.env.begin_again();
            self.advised.begin_again();
        } else {
            self.numbers.begin();
            self.env.begin();
            self.advised.begin();
        }
        let must_stay =
            self.must_stay(&needs, &seen.state).filter(|_| !has_begun && !matches!(needs, RunNeeds::Nothing));
        // Statements of routines take snapshots of their own only at READ COMMITTED.
        let must_stay_in_body = (self.work.is_none() && self.pinned.is_none()).then(|| seen.state.version());
        let keeps_snapshot = self.pinned.is_some() && !self.engine.is_unread();
        let env = self.env_at(statement_us);
        let env = &*env;
        let catalog = &self.database.catalog;
        // A transaction that keeps its catalog also keeps the tables that it has read: a session that replaces one
        // waits for it, and it waits for none.
        let shares: &[Arc<TableInfo>] = match needs {
            RunNeeds::Statement(bound) if self.pinned.is_some() && self.is_in_block() => &bound.tables,
            RunNeeds::Nothing | RunNeeds::Call | RunNeeds::Statement(_) | RunNeeds::Order => &[],
        };
        let was_parked = self.is_parked;
        let mut told = None;
        let (numbers, advised) = (&self.numbers, &self.advised);
        let probe = self.explaining.as_ref().map(|explaining| Arc::clone(&explaining.probe));
        env.sleeps.begin(stays_until);
        let sleeper = &*self.sleeper;
        let watch = Arc::clone(&self.watch);
        let mut locks = |txn: &Txn<'_>| needs.take(txn);
        let statement = |txn: &Txn<'_>| {
            if sleeper.is_cancelled() {
                return Err(engine::Error::Cancelled);
            }
            // Checked after the snapshot is taken: it contains no commit of a newer catalog unless the version has
            // changed.
            if must_stay.is_some_and(|version| version != catalog.current_version()) {
                txn.take_back();
                txn.has_read_nothing();
                return Ok(PartOutcome::Moved);
            }
            // Tables replaced since the catalog was pinned do not belong to it.
            if !has_begun && needs.has_retired() {
                told = Some(SqlError::changed_since());
                return Err(engine::Error::RolledBack);
            }
            for table in shares {
                txn.try_share_table(&table.table)?;
            }
            let probe = probe.as_deref().inspect(|probe| probe.reset());
            let run = Run {
                txn,
                parameters,
                env,
                catalog: &seen.state,
                path: &seen.path,
                definitions: must_stay_in_body.map(|version| (&**catalog, version)),
                numbers,
                advised,
                spent: spent(),
                changes: OnceCell::new(),
                memo: LazyCell::new(Box::default),
                locals: Default::default(),
                ready: Default::default(),
                probe,
            };
            let result = pulse::during(watch, || body(&run));
            drop(run);
            if result.is_err() {
                env.holdings.forget_results();
            }
            match result {
                // The effects so far will be repeated after the sleep or on another thread. The error that ended the
                // run may have been lost on its way: the functions that print definitions for system views return
                // nothing on an error.
                _ if env.sleeps.is_asked() => {
                    // A cancel that came before is in the engine.
                    sleeper.take();
                    txn.check_active()?;
                    txn.take_back();
                    Ok(PartOutcome::TakenBack)
                }
                Ok(result) => Ok(PartOutcome::Done(result)),
                Err(error) if moves(&error) && !keeps_snapshot => {
                    txn.check_active()?;
                    txn.take_back();
                    Ok(PartOutcome::Moved)
                }
                Err(error) if moves(&error) => {
                    told = Some(SqlError::changed_since());
                    Err(engine::Error::RolledBack)
                }
                Err(error) => {
                    // The engine expects its own error.
                    let own = error.engine().cloned().unwrap_or(engine::Error::RolledBack);
                    told = Some(error);
                    Err(own)
                }
            }
        };
        let step = match needs.has_locks() {
            true => self.engine.try_execute_after(&mut locks, statement),
            false => self.engine.try_execute(statement),
        };
        let asked = env.sleeps.end();
        match step {
            Ok(step) => {
                let step = match step {
                    engine::Step::Done(PartOutcome::Done(result)) => RunOutcome::Done(result),
                    engine::Step::Done(PartOutcome::TakenBack) => RunOutcome::Parked(self.parked_for(asked, is_first)),
                    engine::Step::Done(PartOutcome::Moved) => return Ok(self.moved()),
                    engine::Step::Parked(ticket) => RunOutcome::Parked(Parked::Lock(ticket)),
                };
                if let (RunOutcome::Parked(Parked::Lock(_)), RunNeeds::Statement(bound)) = (&step, needs)
                    && !self.engine.is_locking()
                {
                    self.running = Some(Arc::clone(bound));
                }
                self.is_parked = matches!(step, RunOutcome::Parked(_));
                if !self.is_parked {
                    self.end_sleep();
                    self.notices.extend(self.advised.end().into_iter().map(|warning| ("WARNING", warning)));
                    self.notices.extend(env.code.take_notices());
                }
                for (name, value, is_local) in env.take_asked() {
                    if self.is_parked {
                        continue;
                    }
                    self.set_setting(&name, value.as_deref(), is_local)?;
                }
                Ok(step)
            }
            Err(error) => {
                self.is_parked = false;
                self.end_sleep();
                self.notices.extend(self.advised.end().into_iter().map(|warning| ("WARNING", warning)));
                self.notices.extend(env.code.take_notices());
                drop(env.take_asked());
                // Without an error of the statement itself, the wait has failed.
                let has_waited = was_parked && told.is_none();
                // If both report the same error, the statement's has more detail.
                let error = match told {
                    Some(told) if error == engine::Error::RolledBack || told.engine() == Some(&error) => told,
                    _ => error.into(),
                };
                Err(self.told(error, has_waited))
            }
        }
    }

    /// Returns the step for the result of a run; `done` converts the value. A statement whose catalog has changed is
    /// restarted.
    pub(super) fn step_of<R>(
        &mut self,
        ran: RunOutcome<R>,
        given: StatementRun<'_>,
        done: impl FnOnce(&mut Session, R) -> SqlResult<Step>,
    ) -> SqlResult<Step> {
        match ran {
            RunOutcome::Done(result) => done(self, result),
            RunOutcome::Moved => self.again(given),
            RunOutcome::Parked(parked) => Ok(Step::Parked(parked)),
        }
    }

    /// Marks the statement for rebinding; its time limit continues.
    fn moved<R>(&mut self) -> RunOutcome<R> {
        let left = self.deadline.map(|deadline| self.time.left(deadline));
        self.engine.set_statement_timeout(left);
        self.is_parked = true;
        drop(self.env.take_asked());
        RunOutcome::Moved
    }

    /// Returns the formats in which this session reads and writes values.
    pub fn forms(&self) -> &Forms {
        &self.settings.forms
    }

    /// Returns the environment for a statement with this start time.
    pub(super) fn env_at(&mut self, statement_us: i64) -> Arc<Env> {
        self.refresh_env();
        Arc::make_mut(&mut self.env).statement_us = statement_us;
        Arc::clone(&self.env)
    }

    /// Updates [`Env`] to the settings and to the start time of the transaction.
    pub(super) fn refresh_env(&mut self) {
        self.refresh_authority();
        let now_us = self.settings.forms.now_us;
        let is_same = self.env_version == self.settings.version();
        let number = |seen: &Option<Arc<CatalogSnapshot>>| seen.as_ref().map_or(std::ptr::null(), Arc::as_ptr);
        let is_seen = number(&self.env.catalog_snapshot) == number(&self.catalog_snapshot);
        if is_same && is_seen && self.env.forms.now_us == now_us {
            return;
        }
        let env = Arc::make_mut(&mut self.env);
        env.forms.now_us = now_us;
        if !is_seen {
            env.catalog_snapshot.clone_from(&self.catalog_snapshot);
            env.forms.naming.clone_from(&self.settings.forms.naming);
        }
        if !is_same {
            env.forms = self.settings.forms.clone();
            env.settings = Arc::new(self.settings.clone());
            self.env_version = self.settings.version();
        }
    }
}
