//! Running a part of a statement in the session's transaction.
//!
//! **Invariant:** a part that waits has had no effect.

use super::{Block, Parked, Session};
use crate::datum::Datum;
use crate::error::SqlResult;
use crate::exec::{Changes, Memo, Run, Spent};
use crate::ops::Env;
use crate::ops::env::clock_us;
use crate::types::forms::Forms;
use engine::Txn;
use std::sync::Arc;

/// What a part came to.
pub(super) enum Ran<R> {
    Done(R),
    Parked(Parked),
}

impl Session {
    /// Runs a part of the open transaction, or of a new implicit one.
    pub(super) fn run<R>(
        &mut self,
        parameters: &[Datum],
        body: impl FnMut(&Run<'_>) -> SqlResult<R>,
    ) -> SqlResult<Ran<R>> {
        self.run_within(parameters, Spent::default, body)
    }

    /// As [`Session::run`], for what begins with something spent, or a budget.
    pub(super) fn run_within<R>(
        &mut self,
        parameters: &[Datum],
        spent: impl Fn() -> Spent,
        mut body: impl FnMut(&Run<'_>) -> SqlResult<R>,
    ) -> SqlResult<Ran<R>> {
        let is_first = self.block == Block::None;
        self.open_implicit();
        self.begin_in_engine()?;
        let statement_us = match self.is_parked {
            true => self.env.statement_us,
            false if is_first => self.settings.forms.now_us,
            false => clock_us(),
        };
        match self.wake_up()? {
            Some(nap) => return Ok(Ran::Parked(Parked::Nap(nap))),
            None if self.is_parked => {}
            None => {
                let left = self.time_left();
                self.engine.set_lock_timeout(self.settings.lock_timeout());
                self.engine.set_statement_timeout(left);
            }
        }
        let seen = self.see_now();
        let env = self.env_at(statement_us);
        let env = &*env;
        let was_parked = self.is_parked;
        let mut told = None;
        let numbers = &self.numbers;
        let probe = self.explaining.as_ref().map(|explaining| Arc::clone(&explaining.probe));
        env.naps.begin();
        let bed = &*self.bed;
        let step = self.engine.try_execute(|txn: &Txn<'_>| {
            if bed.is_cancelled() {
                return Err(engine::Error::Cancelled);
            }
            let (changes, memo) = (Changes::default(), Memo::default());
            let probe = probe.as_deref().inspect(|probe| probe.reset());
            let run = Run {
                txn,
                parameters,
                env,
                catalog: &seen.state,
                path: &seen.path,
                numbers,
                spent: spent(),
                changes,
                memo,
                probe,
            };
            match body(&run) {
                Ok(result) => Ok(Some(result)),
                // What it has done so far is done again when it has slept.
                Err(_) if env.naps.is_asked() => {
                    // A cancel that came before is the engine's.
                    bed.take();
                    txn.check_active()?;
                    txn.take_back();
                    Ok(None)
                }
                Err(error) => {
                    // The engine must see its own again.
                    let own = error.engine().cloned().unwrap_or(engine::Error::RolledBack);
                    told = Some(error);
                    Err(own)
                }
            }
        });
        let asked = env.naps.end();
        match step {
            Ok(step) => {
                let step = match step {
                    engine::Step::Done(Some(result)) => Ran::Done(result),
                    engine::Step::Done(None) => Ran::Parked(Parked::Nap(self.fall_asleep(asked))),
                    engine::Step::Parked(ticket) => Ran::Parked(Parked::Lock(ticket)),
                };
                self.is_parked = matches!(step, Ran::Parked(_));
                if !self.is_parked {
                    self.end_nap();
                }
                for (name, value, is_local) in env.take_asked() {
                    if !self.is_parked {
                        self.settings.set(&name, value.as_deref(), is_local)?;
                    }
                }
                Ok(step)
            }
            Err(error) => {
                self.is_parked = false;
                self.end_nap();
                drop(env.take_asked());
                // What the statement said is more than what the engine made of it, if it is the same.
                let error = match told {
                    Some(told) if error == engine::Error::RolledBack || told.engine() == Some(&error) => told,
                    _ => error.into(),
                };
                Err(self.told(error, was_parked))
            }
        }
    }

    /// How this session reads and writes values as text.
    pub fn forms(&self) -> &Forms {
        &self.settings.forms
    }

    /// What a statement is run with that began then.
    pub(super) fn env_at(&mut self, statement_us: i64) -> Arc<Env> {
        self.refresh_env();
        Arc::make_mut(&mut self.env).statement_us = statement_us;
        Arc::clone(&self.env)
    }

    /// Makes [`Env`] what the settings say, and what the clock said when the transaction began.
    pub(super) fn refresh_env(&mut self) {
        let now_us = self.settings.forms.now_us;
        let is_same = self.env_version == self.settings.version();
        let seen = |forms: &Forms| forms.seen.as_ref().map_or(std::ptr::null(), Arc::as_ptr);
        let is_seen = seen(&self.env.forms) == seen(&self.settings.forms);
        if is_same && is_seen && self.env.forms.now_us == now_us {
            return;
        }
        let env = Arc::make_mut(&mut self.env);
        env.forms.now_us = now_us;
        if !is_seen {
            env.forms.seen.clone_from(&self.settings.forms.seen);
        }
        if !is_same {
            env.forms = self.settings.forms.clone();
            env.settings = Arc::new(self.settings.clone());
            self.env_version = self.settings.version();
        }
    }
}
