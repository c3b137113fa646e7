//! Service behind the protocol: sessions of this process, or another server.
//!
//! Listening, encryption, rules, the registry and the network's threads are the same for both. The difference begins
//! where a client has proved its identity.
//!
//! **Invariant:** before authentication, a client reaches nothing behind this trait but the lookup of its role.

use crate::admission::Admission;
use crate::network::Below;
use crate::rules::Method;
use crate::stats::{SessionStats, Stats};
use crate::workers::{Dispatch, Workers};
use settings::Connect;
use settings::roles::{Role, Roles};
use statement::SqlResult;
use std::borrow::Cow;
use std::sync::Arc;
use wire::Cancel;
use wire::conn::Conn;
use wire::scram::Keys;
use wire::wake::Waiter;

/// Service that opens the objects which serve clients. It is cloned for each connection.
pub trait Service: Clone + Send + Sync + 'static {
    /// Type of these objects.
    type Opened: Opened;

    /// Returns the role of this name, with the secrets that this method needs: by default one of the roles that the
    /// server was given.
    fn role(&self, roles: &Roles, user: &str, _method: Method) -> impl Future<Output = SqlResult<Option<Role>>> + Send {
        let role = roles.get(user);
        async { Ok(role) }
    }

    /// Notes that a client has failed to prove that it is this role: what is cached about the role may be outdated.
    fn mistrust(&self, _user: &str) {}

    /// True if a database is the service's own administration database.
    fn is_administration(&self, _database: &str) -> bool {
        false
    }

    /// Admission controls of the servers behind this service, with their names; empty if there is only the server's
    /// own.
    fn admissions(&self) -> Vec<(Arc<str>, Admission)> {
        Vec::new()
    }

    /// Further metrics in Prometheus' text format.
    fn metrics(&self) -> String {
        String::new()
    }

    /// Checks that new clients can be served. The error is the reason in one line.
    fn ready(&self) -> impl Future<Output = Result<(), String>> + Send {
        async { Ok(()) }
    }

    /// Opens an object for a client that has this role and has proved it, if it had to, by these keys.
    fn open(
        &self,
        connect: Connect,
        role: &Role,
        proof: Option<Keys>,
    ) -> impl Future<Output = SqlResult<Self::Opened>> + Send;
}

/// Object that serves one client.
pub trait Opened: Send + 'static {
    /// Returns the handle that cancels from another thread what the client is doing.
    fn canceller(&self) -> Arc<dyn Cancel>;

    /// Returns the settings that the client is told before it may send requests.
    fn take_reports(&mut self) -> Vec<(Cow<'static, str>, String)>;

    /// Serves the client to its end, in the runtime of the caller, into which it moves the connection.
    fn serve(self, conn: Conn, site: Site) -> impl Future<Output = ()> + Send;
}

/// Environment of a session.
pub struct Site {
    /// Limits of the session.
    pub limits: SessionLimits,
    /// Waiter of the session.
    pub waiter: Arc<Waiter>,
    /// Statistics of the server.
    pub stats: Arc<Stats>,
    /// Entry of the session in the statistics.
    pub activity: Arc<SessionStats>,
}

/// Limits of one session.
#[derive(Clone, Debug)]
pub struct SessionLimits {
    /// Maximum size of a message, in bytes.
    pub message_max: usize,
    /// Maximum size of prepared statements and portals, in bytes.
    pub memory_max: usize,
    /// Threads that run its statements.
    pub dispatch: Dispatch,
    /// Threads for statements that run elsewhere.
    pub workers: Arc<Workers>,
    /// Threads of lower scheduling priority, for queries that are known to be long.
    pub below: Arc<Below>,
    /// Admission control.
    pub admission: Admission,
}
