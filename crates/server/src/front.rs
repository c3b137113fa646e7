//! What stands behind the protocol's front: sessions of this process, or another server.
//!
//! Listening, encryption, rules, the registry and the network's threads are the same for both; what differs begins where a
//! client has proved who it is.
//!
//! **Invariant:** a client that has not proved who it is reaches nothing behind this trait but the question for its role.

use crate::door::Door;
use crate::network::Below;
use crate::rules::Method;
use crate::stats::{Seen, Stats};
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

/// Opens what a client is served by. Cloned for each connection.
pub trait Front: Clone + Send + Sync + 'static {
    /// What it opens.
    type Opened: Opened;

    /// The role of this name, with what this method needs of it: those that the server was given, unless the front knows better.
    fn role(&self, roles: &Roles, user: &str, _method: Method) -> impl Future<Output = SqlResult<Option<Role>>> + Send {
        let role = roles.get(user);
        async { Ok(role) }
    }

    /// Somebody has failed to prove that it is this role: what was learned of it may be outdated.
    fn mistrust(&self, _user: &str) {}

    /// Tells whether a database is the front's own, which it is administered by.
    fn is_administration(&self, _database: &str) -> bool {
        false
    }

    /// Doors of servers behind the front, with their names; none: there is but the server's own.
    fn doors(&self) -> Vec<(Arc<str>, Door)> {
        Vec::new()
    }

    /// More of Prometheus' text.
    fn metrics(&self) -> String {
        String::new()
    }

    /// Whether clients that come now can be served; if not, why, in one line.
    fn ready(&self) -> impl Future<Output = Result<(), String>> + Send {
        async { Ok(()) }
    }

    /// Opens one for a client that has this role and has proved it, if it had to, by this.
    fn open(
        &self,
        connect: Connect,
        role: &Role,
        proof: Option<Keys>,
    ) -> impl Future<Output = SqlResult<Self::Opened>> + Send;
}

/// One client's, until it is served.
pub trait Opened: Send + 'static {
    /// Cancels from another thread what the client is doing.
    fn canceller(&self) -> Arc<dyn Cancel>;

    /// Settings that the client is told before it may speak.
    fn take_reports(&mut self) -> Vec<(Cow<'static, str>, String)>;

    /// Serves the client to its end, in the runtime of the caller, into which it takes the connection.
    fn serve(self, conn: Conn, site: Site) -> impl Future<Output = ()> + Send;
}

/// What a session has around it.
pub struct Site {
    /// Limits of the session.
    pub limits: Limits,
    /// Waiter of the session.
    pub waiter: Arc<Waiter>,
    /// Statistics of the server.
    pub stats: Arc<Stats>,
    /// Entry of the session in the statistics.
    pub seen: Arc<Seen>,
}

/// What one session may ask for.
#[derive(Clone, Debug)]
pub struct Limits {
    /// Bytes of a message.
    pub message_max: usize,
    /// Bytes of prepared statements and portals.
    pub memory_max: usize,
    /// Where its statements run.
    pub dispatch: Dispatch,
    /// Threads for statements that run elsewhere.
    pub workers: Arc<Workers>,
    /// Threads below the others, for queries that are known to be long.
    pub below: Arc<Below>,
    /// Who is let in when.
    pub door: Door,
}
