//! Routines whose code is in a module, with what each invocation of them needs.
//!
//! **Invariant:** a planned routine serves calls of the same description by the catalog, the search path, the settings
//! and the role that it was planned by. Nothing of it depends on anything else.

use super::Env;
use super::code::{InstanceKey, ModuleCode, SessionCode, no_artifact};
use super::routines::{KeptVersions, add_last, last_used};
use catalog::{CatalogState, Routine, rights};
use locked::Locked;
use procs::Tenant;
use query::bind::result_kinds;
use statement::error::{SqlError, SqlResult, SqlState};
use std::sync::Arc;
use types::SqlType;

/// Greatest number of planned routines that a session keeps.
const KEPT_MAX: usize = 32;

/// Routine that is ready to be invoked.
#[derive(Debug)]
pub(crate) struct PlannedRoutine {
    pub(crate) routine: Arc<Routine>,
    pub(crate) code: Arc<ModuleCode>,
    /// Number of the entry in the module's manifest.
    pub(crate) entry: u16,
    /// Types of the arguments.
    pub(crate) arguments: Box<[SqlType]>,
    /// Types of the result's columns.
    pub(crate) result: Arc<[SqlType]>,
    /// Instances that may run it.
    pub(super) instance: InstanceKey,
}

/// Planned routine of a session, with what it was planned by besides the search path of its code.
#[derive(Debug)]
pub(super) struct KeptRoutine {
    versions: KeptVersions,
    user: Arc<str>,
    planned: Arc<PlannedRoutine>,
}

/// Returns the owner of instances: the tenant of the current role.
pub(crate) fn tenant_of(env: &Env) -> Tenant {
    let roles = env.catalog_snapshot.as_ref().map(|snapshot| &snapshot.roles);
    Tenant(roles.map_or(catalog::OWNER, |roles| rights::tenant_of(roles, &env.user)))
}

fn no_entry(module: &str, entry: &str) -> SqlError {
    let message = format!("module \"{module}\" has no entry \"{entry}\"");
    SqlError::new(SqlState::UNDEFINED_FUNCTION, message)
}

impl SessionCode {
    /// Returns a routine whose code is in a module, planned by this state unless that was done before.
    ///
    /// # Errors
    /// `42704` and `42883` for a module or an entry that does not exist; `0A000` if the module has no artifact for the
    /// level; those of [`result_kinds`].
    pub(crate) fn planned(
        &self,
        routine: &Arc<Routine>,
        catalog: &CatalogState,
        path: &[String],
        env: &Env,
    ) -> SqlResult<Arc<PlannedRoutine>> {
        let versions = KeptVersions::new(catalog, env);
        let is_same = |kept: &KeptRoutine| {
            Arc::ptr_eq(&kept.planned.routine, routine)
                && kept.versions == versions
                && kept.user == env.user
                && *kept.planned.code.path() == *path
        };
        if let Some(kept) = last_used(&mut self.routines.locked_anyway(), is_same) {
            return Ok(Arc::clone(&kept.planned));
        }
        let planned = Arc::new(self.plan(routine, catalog, path, env)?);
        let kept = KeptRoutine { versions, user: Arc::clone(&env.user), planned: Arc::clone(&planned) };
        add_last(&mut self.routines.locked_anyway(), kept, KEPT_MAX, |kept| kept.versions.is_same_catalog(versions));
        Ok(planned)
    }

    fn plan(
        &self,
        routine: &Arc<Routine>,
        catalog: &CatalogState,
        path: &[String],
        env: &Env,
    ) -> SqlResult<PlannedRoutine> {
        let (Some((module, entry)), Some((level, channel))) = (routine.module(), routine.level()) else {
            return Err(SqlError::new(SqlState::INTERNAL_ERROR, "a routine in SQL has no instance"));
        };
        let code = self.module(module, catalog, path, env)?;
        let entry = code.module().manifest.entry(entry).ok_or_else(|| no_entry(module, entry))?;
        let result = result_kinds(routine, catalog)?.into();
        let arguments = routine.inputs().map(|input| input.kind.into()).collect();
        let artifact = code.module().artifact(level.artifact());
        let digest = artifact.ok_or_else(|| no_artifact(module, level))?.digest();
        let (tenant, memory) = (tenant_of(env), routine.isolation.limits.memory);
        let instance = InstanceKey { digest, level, channel, tenant, memory, is_urgent: false };
        Ok(PlannedRoutine { routine: Arc::clone(routine), code, entry, arguments, result, instance })
    }
}
