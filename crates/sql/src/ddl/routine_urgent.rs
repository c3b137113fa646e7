//! `ALTER PROCEDURE … SET (urgent = true)`: procedures whose calls may interrupt queries.
//!
//! **Invariant:** what an urgent call cannot do is refused here, with its reason, as far as the definitions say it. What
//! only a call shows (a write that needs a default, a lock that another transaction holds) is left to the executor then.

use super::Ddl;
use crate::context::{refuse_urgent_table, tenant_of};
use catalog::{Module, Routine, RoutineKind};
use procs::Level;
use query::code::{CallScope, CodeTable, PlannedCall};
use statement::error::{SqlError, SqlResult, SqlState};

impl Ddl<'_> {
    /// Checks that a procedure can be urgent, if it is to be.
    ///
    /// # Errors
    /// `42501` unless the current role is a superuser; `42P13` for a function; `0A000` with what urgent calls do not
    /// support; those of the module's tables and statements.
    pub(super) fn check_urgent(&self, routine: &Routine, module: &Module) -> SqlResult<()> {
        if !routine.isolation.is_urgent {
            return Ok(());
        }
        let what = |what: &dyn std::fmt::Display| SqlError::unsupported(format_args!("{what} in an urgent procedure"));
        if routine.kind == RoutineKind::Function {
            let message = "only procedures can be urgent";
            let error = SqlError::new(SqlState::INVALID_FUNCTION_DEFINITION, message);
            return Err(error.detail("A function is part of the statement that calls it."));
        }
        if !self.is_superuser() {
            let message = format!("permission denied to make procedure \"{}\" urgent", routine.name);
            return Err(SqlError::new(SqlState::INSUFFICIENT_PRIVILEGE, message)
                .hint("Must be superuser to let calls interrupt the queries of others."));
        }
        if routine.is_security_definer {
            return Err(what(&"SECURITY DEFINER"));
        }
        if let Some((name, _)) = routine.settings.first() {
            return Err(what(&format_args!("SET {name}")));
        }
        let Some((level, _)) = routine.level() else { return Ok(()) };
        let reason = match module.artifact(level.artifact()) {
            Some(artifact) if matches!(level, Level::Native | Level::Wasm) => {
                self.run.env.code.runtimes().program(level, artifact, tenant_of(self.run.env))?.refuses_urgent()
            }
            Some(_) | None => Some("Only code of the levels \"native\" and \"wasm\" can interrupt a query."),
        };
        if let Some(reason) = reason {
            return Err(what(&format_args!("isolation level \"{level}\"")).detail(reason));
        }
        let scope = CallScope { catalog: &self.state, path: self.path, env: self.run.env };
        for named in &module.manifest.tables {
            refuse_urgent_table(&CodeTable::new(named, scope)?.table, scope)?;
        }
        for statement in &module.manifest.statements {
            let planned = PlannedCall::new(&statement.text, &[], scope).map_err(|error| {
                error.nowhere().within(format!("statement \"{}\" of module \"{}\"", statement.name, module.name))
            })?;
            if planned.keyed_read().is_none() {
                let text = format!("statement \"{}\" of module \"{}\"", statement.name, module.name);
                return Err(what(&text).detail("It is not a read of one row by its key."));
            }
        }
        Ok(())
    }
}
