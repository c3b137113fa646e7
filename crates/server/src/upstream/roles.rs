//! Whose password is what: the server is asked.
//!
//! **Invariant:** what was learned is believed for a few seconds, so a password that was changed is the old one no longer than
//! that. Nobody is asked for who need not prove anything.

use super::Upstream;
use super::settings::literal;
use sql::SqlResult;
use sql::roles::Role;
use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

/// How long an answer counts.
const FRESH: Duration = Duration::from_secs(5);
/// Names are the clients': more are not remembered.
const ROLES_MAX: usize = 10_000;

/// What was learned.
#[derive(Debug, Default)]
pub(crate) struct Known(Mutex<HashMap<String, (Instant, Option<Role>)>>);

impl Known {
    /// All is asked again.
    pub(crate) fn forget(&self) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).clear();
    }
}

impl Upstream {
    /// The role of this name with its password, as the server has it.
    pub(crate) async fn ask_role(&self, user: &str) -> SqlResult<Option<Role>> {
        let known = &self.0.roles.0;
        let lock = || known.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some((since, role)) = lock().get(user)
            && since.elapsed() < FRESH
        {
            return Ok(role.clone());
        }
        let url = &self.0.nodes.servers.url;
        let pool = self.pool(&url.user, &url.database);
        let (mut taken, _passage) = pool.take_open(self.0.nodes.target_of_own()).await?;
        let mut name = String::new();
        literal(&mut name, user);
        let rows = taken.server.ask(&self.0.options().auth_query.replace("$1", &name)).await?;
        pool.put(taken, Instant::now());
        let password = rows.into_iter().next().map(|row| row.into_iter().nth(1).flatten());
        let role = password.map(|password| Role { may_log_in: true, password, ..Role::default() });
        let mut known = lock();
        if ROLES_MAX <= known.len() {
            known.clear();
        }
        known.insert(user.to_owned(), (Instant::now(), role.clone()));
        Ok(role)
    }
}
