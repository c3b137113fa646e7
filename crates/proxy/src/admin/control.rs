//! PAUSE, RESUME, RECONNECT, RELOAD.
//!
//! **Invariant:** a PAUSE that does not complete, because the client disconnects or cancels, is undone.

use super::AdminSession;
use crate::clients::database::DatabaseState;
use crate::{Pool, ProxyState};
use statement::{SqlError, SqlState};
use std::sync::Arc;
use std::sync::atomic::Ordering::SeqCst;
use wire::Stop;

fn wrong_state(message: impl Into<String>) -> SqlError {
    SqlError::new(SqlState::OBJECT_NOT_IN_PREREQUISITE_STATE, message)
}

/// Changes of a PAUSE. Dropping this undoes them.
struct Pausing<'s> {
    shared: &'s ProxyState,
    databases: Vec<Arc<DatabaseState>>,
    is_of_all: bool,
    is_done: bool,
}

impl Drop for Pausing<'_> {
    fn drop(&mut self) {
        if self.is_done {
            return;
        }
        if self.is_of_all {
            self.shared.is_paused.store(false, SeqCst);
        }
        for database in &self.databases {
            database.set_paused(false);
        }
    }
}

impl AdminSession {
    /// Pauses: waits until no transaction is under way, while none begins.
    pub(super) async fn pause(&mut self, name: Option<&str>) -> Result<(), Stop> {
        let shared = Arc::clone(&self.shared);
        let mut pausing = shared.begin_pause(name)?;
        let databases = pausing.databases.clone();
        let settled = async move {
            for database in &databases {
                if !database.settled().await {
                    return false;
                }
            }
            true
        };
        self.site.activity.set_waiting(true);
        let end = Arc::clone(&self.site.activity.end);
        if !self.conn.before_admission(settled, &end, None).await? {
            pausing.is_done = true;
            return Err(wrong_state("RESUME came before all transactions had ended").into());
        }
        pausing.is_done = true;
        // The servers may be restarted now.
        shared.pools_of(name)?.iter().for_each(|pool| pool.close_all_idle());
        Ok(())
    }
}

impl ProxyState {
    /// Returns the pools of this database, or all.
    fn pools_of(&self, name: Option<&str>) -> Result<Vec<Arc<Pool>>, SqlError> {
        let mut pools = self.all_pools();
        if let Some(name) = name {
            pools.retain(|pool| *pool.name == *name);
            if pools.is_empty() {
                return Err(SqlError::new(SqlState::INVALID_CATALOG_NAME, format!("no such database: {name}")));
            }
        }
        Ok(pools)
    }

    fn begin_pause(&self, name: Option<&str>) -> Result<Pausing<'_>, SqlError> {
        if name.is_none() && self.is_paused.swap(true, SeqCst) {
            return Err(wrong_state("already suspended/paused"));
        }
        // A pool that is created later sees the flag that was set before.
        let pools = self.pools_of(name)?;
        let paused = pools.iter().filter(|pool| pool.database.set_paused(true));
        let databases: Vec<Arc<DatabaseState>> = paused.map(|pool| Arc::clone(&pool.database)).collect();
        match name {
            Some(name) if databases.is_empty() => Err(wrong_state(format!("database {name} is already paused"))),
            _ => Ok(Pausing { shared: self, databases, is_of_all: name.is_none(), is_done: false }),
        }
    }

    pub(super) fn resume(&self, name: Option<&str>) -> Result<(), SqlError> {
        let was_paused = name.is_none() && self.is_paused.swap(false, SeqCst);
        let resumed = self.pools_of(name)?.iter().filter(|pool| pool.database.set_paused(false)).count();
        match name {
            None if !was_paused && resumed == 0 => Err(wrong_state("pooler is not paused/suspended")),
            Some(name) if resumed == 0 => Err(wrong_state(format!("database {name} is not paused"))),
            _ => Ok(()),
        }
    }

    /// Marks the current connections, so that they serve no further transaction.
    pub(super) fn reconnect(&self, name: Option<&str>) -> Result<(), SqlError> {
        self.pools_of(name)?.iter().for_each(|pool| pool.reconnect());
        Ok(())
    }

    /// Forgets the answers of servers about logins.
    pub(crate) fn forget_logins(&self) {
        self.roles.forget();
        for pool in self.all_pools() {
            pool.consent.forget();
            pool.forget_welcomes();
        }
    }
}
