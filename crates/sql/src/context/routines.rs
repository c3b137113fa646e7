//! Planned bodies of the routines that a session calls.
//!
//! **Invariant:** a body is used only with the catalog, the search path and the settings that it was planned by, and by
//! the role that may call the routine and has the rights that the body needs.

use super::Env;
use catalog::rights::Rights;
use catalog::{CatalogState, Routine};
use locked::Locked;
use query::routine::{PlannedBody, plan_body};
use statement::error::SqlResult;
use std::collections::HashMap;
use std::sync::{Arc, Mutex};

/// Greatest number of bodies that a session keeps.
const BODIES_MAX: usize = 1_000;

/// Planned bodies, by the routines' OIDs.
#[derive(Debug, Default)]
pub(crate) struct RoutineBodies(Mutex<HashMap<u32, KeptBody>>);

#[derive(Debug)]
struct KeptBody {
    /// Version of the catalog.
    catalog: u64,
    /// Version of the settings.
    settings: u64,
    path: Box<[String]>,
    /// Role that runs the body, and the version of the roles.
    user: (Arc<str>, u64),
    body: Arc<PlannedBody>,
}

impl RoutineBodies {
    /// Returns the body of a routine, which is planned if that was not done or is out of date.
    ///
    /// # Errors
    /// Those of [`plan_body`]; `42501`
    pub(crate) fn of(
        &self,
        routine: &Arc<Routine>,
        catalog: &CatalogState,
        path: &[String],
        env: &Env,
    ) -> SqlResult<Arc<PlannedBody>> {
        let settings = env.settings.version();
        let roles = env.catalog_snapshot.as_ref().map(|snapshot| &snapshot.roles);
        let user = (Arc::clone(&env.user), roles.map_or(0, |roles| roles.version()));
        if let Some(kept) = self.0.locked_anyway().get(&routine.oid)
            && kept.catalog == catalog.version()
            && kept.settings == settings
            && *kept.path == *path
            && kept.user == user
            && kept.body.is_current()
        {
            return Ok(Arc::clone(&kept.body));
        }
        let body = Arc::new(plan_body(routine, catalog, path, env)?);
        if let Some(rights) = Rights::of_session(catalog, env) {
            let needs = body.statements.iter().flat_map(|statement| &statement.needs);
            needs.into_iter().try_for_each(|need| rights.check(need))?;
        }
        let kept = KeptBody { catalog: catalog.version(), settings, path: path.into(), user, body: Arc::clone(&body) };
        let mut all = self.0.locked_anyway();
        if BODIES_MAX <= all.len() {
            all.clear();
        }
        all.insert(routine.oid, kept);
        Ok(body)
    }
}
