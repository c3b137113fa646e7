//! What stands behind the protocol's front: sessions of this process, or another server.
//!
//! Listening, encryption, rules, the registry and the network's threads are the same for both; what differs begins where a
//! client has proved who it is.
//!
//! **Invariant:** a client that has not proved who it is reaches nothing behind this trait but the question for its role.

use crate::backend::{Backend, Backends, Cancel};
use crate::conn::Conn;
use crate::door::Door;
use crate::rules::Method;
use crate::scram::Keys;
use crate::session::{Limits, Session};
use crate::stats::{Seen, Stats};
use crate::wake::Waiter;
use catalog::roles::{Role, Roles};
use sql::session::Connect;
use statement::SqlResult;
use std::borrow::Cow;
use std::sync::Arc;

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
    pub(crate) limits: Limits,
    pub(crate) waiter: Arc<Waiter>,
    pub(crate) stats: Arc<Stats>,
    pub(crate) seen: Arc<Seen>,
}

impl<D: Backends> Front for D {
    type Opened = D::Backend;

    async fn open(&self, connect: Connect, _: &Role, _: Option<Keys>) -> SqlResult<D::Backend> {
        self.connect(connect)
    }
}

impl<B: Backend> Opened for B {
    fn canceller(&self) -> Arc<dyn Cancel> {
        Backend::canceller(self)
    }

    fn take_reports(&mut self) -> Vec<(Cow<'static, str>, String)> {
        Backend::take_reports(self).into_iter().map(|(name, value)| (name.into(), value)).collect()
    }

    async fn serve(self, conn: Conn, site: Site) {
        Session::new(conn, self, site.waiter, site.limits, (site.stats, site.seen)).serve().await;
    }
}
