//! Passwords of roles, for which the server is asked.
//!
//! **Invariant:** an answer is trusted for a few seconds. So a changed password stays valid no longer than that, and
//! not after a client has failed to prove it. The answer that there is no such role, or no password, is not used twice.
//! One client at a time asks for a role. No question is asked for a client that need not prove anything.

use crate::Upstream;
use crate::statements::session_settings::literal;
use locked::Locked;
use settings::roles::Role;
use statement::SqlResult;
use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::{Duration, Instant};

/// Time for which an answer about a role counts for logins.
pub(crate) const FRESH: Duration = Duration::from_secs(5);
/// Maximum number of roles that are remembered, because names come from clients.
const ROLES_MAX: usize = 10_000;

/// Last answer about one role. A task that asks holds the lock.
type CachedRole = Arc<tokio::sync::Mutex<Option<(Instant, Role)>>>;

/// Answers by role.
#[derive(Debug, Default)]
pub(crate) struct RoleCache(Mutex<HashMap<String, CachedRole>>);

impl RoleCache {
    fn lock(&self) -> MutexGuard<'_, HashMap<String, CachedRole>> {
        self.0.locked()
    }

    /// Forgets all answers.
    pub(crate) fn forget(&self) {
        self.lock().clear();
    }

    /// Forgets the answer about this role. A question that is under way is a new one already.
    pub(crate) fn forget_one(&self, user: &str) {
        if let Some(known) = self.lock().get(user)
            && let Ok(mut known) = known.try_lock()
        {
            *known = None;
        }
    }

    fn of(&self, user: &str) -> CachedRole {
        let mut known = self.lock();
        if ROLES_MAX <= known.len() {
            known.clear();
        }
        Arc::clone(known.entry(user.to_owned()).or_default())
    }
}

impl Upstream {
    /// Returns the role of this name with its password, as the server has it.
    pub(crate) async fn ask_role(&self, user: &str) -> SqlResult<Option<Role>> {
        let known = self.0.roles.of(user);
        let mut known = known.lock().await;
        if let Some((since, role)) = &*known
            && self.0.nodes.time().since(*since) < FRESH
        {
            return Ok(Some(role.clone()));
        }
        *known = None;
        let url = &self.0.nodes.servers.url;
        let pool = self.pool(&url.user, &url.database);
        let (mut taken, _passage) = pool.take_open(self.0.nodes.target_of_own()).await?;
        let mut name = String::new();
        literal(&mut name, user);
        let rows = taken.server.ask(&self.0.options().auth_query.replace("$1", &name)).await?;
        let now = self.0.nodes.time().now();
        pool.put(taken, now);
        let role = rows.into_iter().next().map(|row| {
            let mut columns = row.into_iter().skip(1);
            let password = columns.next().flatten();
            let is_expired = columns.next().flatten().as_deref() == Some("t");
            Role { may_log_in: true, password, is_expired, ..Role::default() }
        });
        *known = role.clone().filter(|role| role.password.is_some()).map(|role| (now, role));
        Ok(role)
    }
}
