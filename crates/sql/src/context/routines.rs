//! Planned bodies of the routines that a session calls, and settings of routines with their own.
//!
//! **Invariant:** a body is used only with the catalog, the search path and the settings that it was planned by, and by
//! the role whose rights were checked; it says which statement this role may not run.

use super::Env;
use catalog::acl::Privileges;
use catalog::rights::{Rights, role_named};
use catalog::{CatalogState, Routine};
use locked::Locked;
use query::routine::{BodyStatement, PlannedBody, is_met_by_planner, plan_body};
use settings::Settings;
use statement::error::{SqlError, SqlResult};
use std::collections::HashMap;
use std::sync::{Arc, Mutex};

/// Greatest number of bodies, and of settings, that a session keeps.
const KEPT_MAX: usize = 1_000;

/// Greatest number of routines of which a session keeps who may call them.
const ALLOWED_MAX: usize = 32;

/// Bodies and settings of routines, by OID and role.
#[derive(Debug, Default)]
pub(crate) struct RoutineBodies {
    /// Routines that a role may call, the one that was called last at the end.
    allowed: Mutex<Vec<KeptRight>>,
    bodies: Mutex<HashMap<(u32, Arc<str>), KeptBody>>,
    settings: Mutex<HashMap<(u32, Arc<str>), KeptSettings>>,
}

/// Versions of what a body or settings depend on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct KeptVersions {
    catalog: u64,
    settings: u64,
    roles: u64,
}

/// Right of a role to call a routine. It follows from the three and the catalog alone.
#[derive(Debug)]
struct KeptRight {
    routine: Arc<Routine>,
    user: Arc<str>,
    versions: KeptVersions,
}

/// Moves an entry to the end, behind which the next one is added, and returns it.
pub(super) fn last_used<T>(all: &mut [T], is_it: impl Fn(&T) -> bool) -> Option<&T> {
    let at = all.iter().rposition(is_it)?;
    all[at..].rotate_left(1);
    all.last()
}

#[derive(Debug)]
struct KeptBody {
    versions: KeptVersions,
    path: Box<[String]>,
    body: Arc<PlannedBody>,
}

#[derive(Debug)]
struct KeptSettings {
    versions: KeptVersions,
    own: Arc<Settings>,
    path: Arc<[String]>,
}

/// Adds an entry at the end. Drops those that are of no use, and the first one if there are too many.
pub(super) fn add_last<T>(all: &mut Vec<T>, entry: T, entries_max: usize, is_of_use: impl FnMut(&T) -> bool) {
    all.retain(is_of_use);
    if entries_max <= all.len() {
        all.remove(0);
    }
    all.push(entry);
}

impl KeptVersions {
    /// Returns true if the catalog and the roles are the same. Entries of others are of no use any more, and they keep
    /// dropped tables and modules alive.
    pub(super) fn is_same_catalog(self, other: KeptVersions) -> bool {
        (self.catalog, self.roles) == (other.catalog, other.roles)
    }

    pub(super) fn new(catalog: &CatalogState, env: &Env) -> KeptVersions {
        let roles = env.catalog_snapshot.as_ref().map_or(0, |snapshot| snapshot.roles.version());
        KeptVersions { catalog: catalog.version(), settings: env.settings.version(), roles }
    }
}

impl RoutineBodies {
    /// Checks that the current role may call a routine, unless that was done by the same state before.
    ///
    /// # Errors
    /// `42501`
    pub(crate) fn check_execute(&self, routine: &Arc<Routine>, catalog: &CatalogState, env: &Env) -> SqlResult<()> {
        let versions = KeptVersions::new(catalog, env);
        let is_same = |kept: &KeptRight| {
            Arc::ptr_eq(&kept.routine, routine) && kept.versions.is_same_catalog(versions) && kept.user == env.user
        };
        if last_used(&mut self.allowed.locked_anyway(), is_same).is_some() {
            return Ok(());
        }
        let Some(rights) = Rights::of_session(catalog, env) else { return Ok(()) };
        rights.check_object(routine.securable(), Privileges::EXECUTE, (routine.kind.word(), &routine.name))?;
        let right = KeptRight { routine: Arc::clone(routine), user: Arc::clone(&env.user), versions };
        add_last(&mut self.allowed.locked_anyway(), right, ALLOWED_MAX, |kept| kept.versions.is_same_catalog(versions));
        Ok(())
    }

    /// Returns the body of a routine, which is planned if that was not done or is out of date.
    ///
    /// # Errors
    /// Those of [`plan_body`] and [`PlannedBody::check_statements`], with PostgreSQL's context.
    pub(crate) fn of(
        &self,
        routine: &Arc<Routine>,
        catalog: &CatalogState,
        path: &[String],
        env: &Env,
    ) -> SqlResult<Arc<PlannedBody>> {
        let versions = KeptVersions::new(catalog, env);
        let key = (routine.oid, Arc::clone(&env.user));
        if let Some(kept) = self.bodies.locked_anyway().get(&key)
            && kept.versions == versions
            && *kept.path == *path
            && kept.body.is_current()
        {
            return Ok(Arc::clone(&kept.body));
        }
        let within =
            |error: SqlError, when| error.nowhere().within(format!("SQL function \"{}\" during {when}", routine.name));
        let mut body = plan_body(routine, catalog, path, env).map_err(|error| {
            let when = if is_met_by_planner(routine, &error) { "inlining" } else { "startup" };
            within(error, when)
        })?;
        body.check_statements(routine.volatility).map_err(|error| within(error, "startup"))?;
        if let Some(rights) = Rights::of_session(catalog, env) {
            let denied = |statement: &BodyStatement| statement.needs.iter().find_map(|need| rights.check(need).err());
            body.denied = (0..).zip(&body.statements).find_map(|(at, statement)| Some((at, denied(statement)?)));
        }
        let body = Arc::new(body);
        let kept = KeptBody { versions, path: path.into(), body: Arc::clone(&body) };
        let mut all = self.bodies.locked_anyway();
        if KEPT_MAX <= all.len() {
            all.clear();
        }
        all.insert(key, kept);
        Ok(body)
    }

    /// Returns the environment and the search path of a routine that has settings of its own, or the rights of its
    /// owner; `None` for any other.
    ///
    /// # Errors
    /// Those of [`Settings::set`].
    pub(crate) fn env_of(
        &self,
        routine: &Routine,
        catalog: &CatalogState,
        env: &Env,
    ) -> SqlResult<Option<(Env, Arc<[String]>)>> {
        if routine.settings.is_empty() && !routine.is_security_definer {
            return Ok(None);
        }
        let roles = env.catalog_snapshot.as_ref().map(|snapshot| &snapshot.roles);
        let owner = roles.filter(|_| routine.is_security_definer).and_then(|roles| roles.name_of(routine.owner));
        let user = owner.unwrap_or_else(|| Arc::clone(&env.user));
        let versions = KeptVersions::new(catalog, env);
        let key = (routine.oid, Arc::clone(&user));
        if let Some(kept) = self.settings.locked_anyway().get(&key)
            && kept.versions == versions
        {
            return Ok(Some((
                env.of_routine(Arc::clone(&kept.own), user, routine.is_security_definer),
                Arc::clone(&kept.path),
            )));
        }
        let mut own = (*env.settings).clone();
        for (name, value) in &routine.settings {
            own.set(name, Some(value), true)?;
        }
        let own = Arc::new(own);
        let of_routine = env.of_routine(Arc::clone(&own), user, routine.is_security_definer);
        let path = path_of(&of_routine, catalog)?;
        let mut all = self.settings.locked_anyway();
        if KEPT_MAX <= all.len() {
            all.clear();
        }
        all.insert(key, KeptSettings { versions, own, path: Arc::clone(&path) });
        Ok(Some((of_routine, path)))
    }
}

/// Returns the search path of an environment. Schemas that its role may not use are left out, without an error.
fn path_of(env: &Env, catalog: &CatalogState) -> SqlResult<Arc<[String]>> {
    let names = settings::names_of(env.settings.show("search_path")?).unwrap_or_default().into_iter();
    let names = names.map(|name| if name == "$user" { env.user.to_string() } else { name });
    let mut path: Vec<String> = names.collect();
    if let Some(snapshot) = &env.catalog_snapshot {
        let rights = Rights::new(catalog, &snapshot.roles, role_named(&snapshot.roles, &env.user));
        path.retain(|name| rights.has_schema(name, Privileges::USAGE));
    }
    Ok(path.into())
}
