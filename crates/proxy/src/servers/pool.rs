//! Pool of server connections, of one user to one database.
//!
//! **Invariant:** each server has at most as many connections as there are places for, idle ones included. A connection
//! in use holds a place, and an idle one stands in a free place. A connection that is put back is idle in every
//! respect. A transaction that wants the primary gets a connection whose server has said on it that it is the primary.

use crate::clients::consent::Consent;
use crate::clients::database::{ActiveTransaction, DatabaseState};
use crate::servers::conn_status::ConnStatus;
use crate::servers::full::FullPools;
use crate::servers::internal::Internal;
use crate::servers::node::Node;
use crate::servers::nodes::{Nodes, Patience};
use crate::servers::params::Params;
use crate::servers::proof::Secret;
use crate::servers::server_conn::{QuestionFailed, ServerConn, Settled};
use crate::servers::target::TargetRole;
use crate::statements::session_settings::SessionSettings;
use locked::Locked;
use server::admission::{Room, RoomPlace};
use statement::{SqlError, SqlState};
use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering::Relaxed, Ordering::SeqCst};
use std::sync::{Arc, Mutex, Weak};
use std::thread;
use std::time::{Duration, Instant};
use wire::scram::Keys;

/// Idle time after which a connection is checked before use.
const CHECK_AFTER: Duration = Duration::from_secs(30);
/// Time in which it has to answer.
const CHECK_TIME: Duration = Duration::from_secs(5);
/// `too_many_connections`: of the server, of the database or of the role.
const TOO_MANY: SqlState = SqlState::TOO_MANY_CONNECTIONS;
/// Time that a server process takes to exit.
const ROOM_SOON: Duration = Duration::from_millis(20);
/// Interval between two sweeps of idle connections.
const SWEEP: Duration = Duration::from_secs(1);
/// Maximum number of logins whose parameters are cached.
const WELCOMES_MAX: usize = 1_000;

/// Limits of a pool: number and age of its connections.
#[derive(Clone, Copy, Debug)]
pub struct PoolLimits {
    /// Maximum number of connections of one user to one database, at each server.
    pub size: usize,
    /// Idle time after which a connection is closed.
    pub idle: Duration,
    /// Age after which a connection is closed when it is idle.
    pub lifetime: Duration,
}

impl Default for PoolLimits {
    fn default() -> PoolLimits {
        // The gate limits transactions, not the pool.
        PoolLimits { size: 100, idle: Duration::from_mins(10), lifetime: Duration::from_hours(1) }
    }
}

/// Parameters reported to clients that log in with certain settings.
#[derive(Clone, Debug)]
pub(crate) struct LoginParameters {
    pub(crate) settings: Arc<SessionSettings>,
    pub(crate) params: Arc<Params>,
}

pub(crate) struct Pool {
    pub(crate) nodes: Arc<Nodes>,
    internal: Arc<Internal>,
    pub(crate) user: Arc<str>,
    /// Name of the database.
    pub(crate) name: Arc<str>,
    pub(crate) database: Arc<DatabaseState>,
    secret: Mutex<Secret>,
    limits: Mutex<PoolLimits>,
    /// Number of RECONNECTs. Connections from before the last one are not used again.
    generation: AtomicU64,
    sights: Mutex<Vec<Weak<ConnStatus>>>,
    /// Connections to each node, in the order of the nodes.
    pub(crate) shelves: Box<[Shelf]>,
    /// Cached logins, by the settings that clients have asked for.
    welcomes: Mutex<HashMap<SessionSettings, LoginParameters>>,
    /// Last answers about its user.
    pub(crate) consent: Consent,
}

/// Connections to one server.
pub(crate) struct Shelf {
    pub(crate) room: Arc<Room>,
    /// Maximum number of connections.
    pub(crate) size: AtomicUsize,
    #[expect(clippy::vec_box, reason = "they come and go with each transaction, and are large to be moved")]
    idle: Mutex<Vec<Box<ServerConn>>>,
    /// Number of connections.
    pub(crate) count: Arc<AtomicUsize>,
    pub(crate) full: FullPools,
}

/// Connection in use.
pub(crate) struct TakenConn {
    pub(crate) server: Box<ServerConn>,
    pub(crate) node: Arc<Node>,
    /// Place of the connection, unless a transaction's slot has it.
    pub(crate) place: Option<RoomPlace>,
}

/// Reason why there is no connection.
pub(crate) struct TakeError {
    pub(crate) error: SqlError,
    pub(crate) why: TakeErrorKind,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum TakeErrorKind {
    /// The server refuses the connection.
    Refused,
    /// The server is unreachable, or not what it was taken for: another one may serve.
    Away,
    /// The server has room for only this many connections of this pool. The transaction is not turned away: one of them
    /// will come back.
    Full(usize),
}

/// True if an error means that a server has no room for anybody. An error about a role or a database names it, in
/// quotes of any language. From PostgreSQL 16 on, the general error also names the role that may use the last
/// connections.
fn is_of_all(error: &SqlError) -> bool {
    let text = error.message();
    text.contains("pg_use_reserved_connections") || !text.contains(['"', '\'', '«', '“', '„', '「', '‘'])
}

impl Pool {
    /// Creates a pool. It needs a runtime, which sweeps idle connections.
    pub(crate) fn new(
        nodes: Arc<Nodes>,
        internal: Arc<Internal>,
        (user, name): (&str, &str),
        database: Arc<DatabaseState>,
        limits: PoolLimits,
    ) -> Arc<Pool> {
        let shelf = |node: &Arc<Node>| Shelf {
            room: node.room(limits.size),
            size: AtomicUsize::new(limits.size),
            idle: Mutex::default(),
            count: Arc::default(),
            full: FullPools::new(nodes.time().clone()),
        };
        let shelves = nodes.all().iter().map(shelf).collect();
        let pool = Arc::new(Pool {
            nodes,
            internal,
            user: user.into(),
            name: name.into(),
            database,
            secret: Mutex::default(),
            limits: Mutex::new(limits),
            generation: AtomicU64::new(0),
            sights: Mutex::default(),
            shelves,
            welcomes: Mutex::default(),
            consent: Consent::default(),
        });
        tokio::spawn(sweep(Arc::downgrade(&pool)));
        pool.nodes.serve(&pool);
        pool
    }

    /// Time since when the longest idle connection to a server has been idle.
    pub(crate) fn idle_since(&self, node: &Node) -> Option<Instant> {
        self.shelves[node.number].idle.locked().first().map(|server| server.rested)
    }

    /// Closes the longest idle connection to a server.
    pub(crate) fn close_longest_idle(&self, node: &Node) -> bool {
        let mut idle = self.shelves[node.number].idle.locked();
        // The connection is dropped at the end of the function, not under the lock.
        let closed = (!idle.is_empty()).then(|| idle.remove(0));
        drop(idle);
        closed.is_some()
    }

    /// Sets the keys with which connections authenticate from now on, unless there is a password for them.
    pub(crate) fn learn(&self, keys: Keys) {
        *self.secret.locked_anyway() = Secret::Keys(keys);
    }

    pub(crate) fn shelf(&self, node: &Node) -> &Shelf {
        &self.shelves[node.number]
    }

    /// Room of this node's gate in which its connections are granted.
    pub(crate) fn room(&self, node: &Node) -> &Arc<Room> {
        &self.shelves[node.number].room
    }

    /// Returns a connection to this node, for a transaction with this target that has a place in the
    /// [room](Pool::room), in the runtime of the caller.
    pub(crate) async fn take(
        self: &Arc<Pool>,
        node: &Arc<Node>,
        target: TargetRole,
        now: Instant,
    ) -> Result<TakenConn, TakeError> {
        let shelf = &self.shelves[node.number];
        let must_be_primary = self.nodes.are_asked && target == TargetRole::Primary;
        let server = loop {
            if let Some(server) = self.idle_of(shelf, must_be_primary, now).await {
                break server;
            }
            match Box::pin(self.connected(node, must_be_primary)).await {
                Ok(server) => {
                    self.rises(node);
                    break server;
                }
                Err(TakeError { error, why: TakeErrorKind::Refused }) if error.state() == TOO_MANY => {
                    if is_of_all(&error) && self.nodes.make_room(node, self) {
                        tokio::time::sleep(ROOM_SOON).await;
                        continue;
                    }
                    return Err(self.full(node, error));
                }
                Err(not) => return Err(not),
            }
        };
        shelf.full.moves();
        Ok(TakenConn { server, node: Arc::clone(node), place: None })
    }

    /// Returns an idle connection that is as good as new, if there is any.
    async fn idle_of(&self, shelf: &Shelf, must_be_primary: bool, now: Instant) -> Option<Box<ServerConn>> {
        while let Some(mut server) = shelf.pick() {
            match server.settle() {
                Ok(Settled::Here) => {}
                // The runtime checks once if the connection has received anything.
                Ok(Settled::Moved) => tokio::task::yield_now().await,
                Err(_) => continue,
            }
            if !server.is_quiet() {
                continue;
            }
            if CHECK_AFTER < now.saturating_duration_since(server.rested) {
                // Rare steps are boxed: a future is as large as the largest of its waits, and is moved.
                let asked = Box::pin(tokio::time::timeout(CHECK_TIME, server.ask(""))).await;
                if !matches!(asked, Ok(Ok(_))) {
                    continue;
                }
            }
            // A standby that was promoted keeps its connections.
            if must_be_primary && !matches!(Box::pin(server.is_of_primary()).await, Ok(true)) {
                continue;
            }
            return Some(server);
        }
        None
    }

    /// Opens a new connection.
    async fn connected(&self, node: &Arc<Node>, must_be_primary: bool) -> Result<Box<ServerConn>, TakeError> {
        let (secret, generation) = (self.secret.locked_anyway().clone(), self.generation.load(SeqCst));
        let connected = self.nodes.servers.connect(&node.host, &self.user, &self.name, &secret).await;
        let mut server = Box::new(connected.map_err(|failed| self.not_taken(node, failed))?);
        if must_be_primary {
            let is_primary = server.is_of_primary().await;
            if !is_primary.map_err(|failed| self.not_taken(node, failed))? {
                self.nodes.is_no_primary(node);
                let error = SqlError::new(SqlState::CANNOT_CONNECT_NOW, "the server is a standby");
                return Err(TakeError { error, why: TakeErrorKind::Away });
            }
        }
        self.nodes.was_tried(node, "");
        let lever = self.internal.lever(server.io.peer(), server.line.pid()).await;
        *server.line.lever() = lever;
        server.counted_by(&self.shelves[node.number].count);
        server.generation = generation;
        let sight = server.show(self.nodes.time());
        let mut sights = self.sights.locked();
        sights.retain(|sight| 0 < sight.strong_count());
        sights.push(sight);
        drop(sights);
        Ok(server)
    }

    /// Asks a server if it accepts the user.
    pub(crate) async fn is_let_in(&self, node: &Node) -> Result<(), QuestionFailed> {
        let secret = self.secret.locked_anyway().clone();
        self.nodes.servers.connect(&node.host, &self.user, &self.name, &secret).await.map(drop)
    }

    /// Handles a failed connection to a server.
    fn not_taken(&self, node: &Node, failed: QuestionFailed) -> TakeError {
        let (error, is_away) = match failed {
            QuestionFailed::Broken(error) => {
                let detail = format!("{}: {error}.", node.name);
                (SqlError::new(SqlState::CONNECTION_FAILURE, "no server can be reached").detail(detail), true)
            }
            // The server is reachable, and has answered.
            QuestionFailed::Said(error) => {
                let is_away = matches!(
                    error.state(),
                    SqlState::ADMIN_SHUTDOWN | SqlState::CRASH_SHUTDOWN | SqlState::CANNOT_CONNECT_NOW
                );
                (error, is_away)
            }
        };
        // A refusal of one user does not make the server unusable, unless that is the proxy's own user.
        let is_front = *self.user == *self.nodes.servers.url.user && error.state().class() == "28";
        if is_away || is_front {
            self.nodes.was_tried(node, error.detail_text().unwrap_or(error.message()).trim_end_matches('.'));
        }
        // A single server that is not asked keeps its state.
        if is_away && self.nodes.are_asked {
            self.nodes.is_down(node, error.detail_text().unwrap_or(error.message()).trim_end_matches('.'));
        }
        TakeError { error, why: if is_away { TakeErrorKind::Away } else { TakeErrorKind::Refused } }
    }

    /// Takes a connection for a question of the proxy's own, which a pause holds up, too.
    pub(crate) async fn take_open(
        self: &Arc<Pool>,
        target: TargetRole,
    ) -> Result<(TakenConn, ActiveTransaction), SqlError> {
        let mut patience = Patience::default();
        let since = self.nodes.time().now();
        loop {
            self.database.opened().await;
            let presence = self.nodes.choose(target, &mut patience).await?;
            let node = &presence.0;
            let taking = async {
                let place = self.in_patience(node, since, self.room(node).place()).await?;
                let taken = self.take(node, target, self.nodes.time().now()).await;
                if let Err(TakeError { why: TakeErrorKind::Full(ceiling), .. }) = taken {
                    // The bound is set before another transaction takes the place.
                    self.room(node).bound(Some(ceiling));
                }
                Ok::<_, SqlError>(taken.map(|taken| TakenConn { place: Some(place), ..taken }))
            };
            let mut taken = match self.nodes.while_suited(node, target, taking).await {
                Some(Ok(Ok(taken))) => taken,
                Some(Ok(Err(TakeError { why: TakeErrorKind::Full(_), .. }))) => continue,
                Some(Ok(Err(not))) => {
                    if not.why != TakeErrorKind::Away || !Box::pin(self.nodes.may_retry(node, &mut patience)).await {
                        return Err(not.error);
                    }
                    continue;
                }
                Some(Err(error)) => return Err(error),
                None => continue,
            };
            taken.server.line.lever().release();
            // Settings of the last client do not apply to questions of the proxy.
            if let (change, _) = SessionSettings::default().change_from(&taken.server.settings)
                && *taken.server.settings != SessionSettings::default()
            {
                match taken.server.ask(&change).await {
                    Ok(_) => taken.server.settings = Arc::default(),
                    // The connection is not used again.
                    Err(_) => continue,
                }
            }
            if let Some(passage) = self.database.begin() {
                return Ok((taken, passage));
            }
        }
    }

    /// Puts a connection back that is idle in every respect. One that a late cancel may hit is closed.
    pub(crate) fn put(&self, TakenConn { mut server, node, place }: TakenConn, now: Instant) {
        if server.line.is_in_doubt() {
            server.ends();
        }
        server.rest(now);
        let shelf = &self.shelves[node.number];
        let mut idle = shelf.idle.locked();
        // The lock is held: a RECONNECT closes the connection either here or there, and so does a pool that becomes
        // smaller.
        if server.generation == self.generation.load(SeqCst) && !shelf.is_overfull() {
            idle.push(server);
        }
        drop(idle);
        drop(place);
    }

    /// Number of connections.
    pub(crate) fn count(&self) -> usize {
        self.shelves.iter().map(|shelf| shelf.count.load(Relaxed)).sum()
    }

    /// Number of idle connections.
    pub(crate) fn idle_count(&self) -> usize {
        self.shelves.iter().map(|shelf| shelf.idle.locked().len()).sum()
    }

    /// Returns the cached parameters for a client that asks for these settings, if there are any.
    pub(crate) fn welcome(&self, asked: &SessionSettings) -> Option<LoginParameters> {
        self.welcomes.locked().get(asked).cloned()
    }

    pub(crate) fn remember(&self, asked: SessionSettings, welcome: LoginParameters) {
        let mut welcomes = self.welcomes.locked();
        if WELCOMES_MAX <= welcomes.len() {
            welcomes.clear();
        }
        welcomes.insert(asked, welcome);
    }

    /// Forgets the cached parameters of logins.
    pub(crate) fn forget_welcomes(&self) {
        self.welcomes.locked().clear();
    }

    /// Number of transactions that wait for a connection to this server.
    pub(crate) fn waiting_at(&self, node: &Node) -> usize {
        self.room(node).waiting()
    }

    /// Returns its connections, as the views show them.
    pub(crate) fn sights(&self) -> Vec<Arc<ConnStatus>> {
        self.sights.locked().iter().filter_map(Weak::upgrade).collect()
    }

    /// Closes the idle connections now, the others when they are put back.
    pub(crate) fn reconnect(&self) {
        self.generation.fetch_add(1, SeqCst);
        self.close_all_idle();
    }

    pub(crate) fn close_all_idle(&self) {
        self.shelves.iter().for_each(|shelf| shelf.idle.locked().clear());
    }

    /// Sets other limits.
    pub(crate) fn set_limits(&self, limits: PoolLimits) {
        *self.limits.locked_anyway() = limits;
        self.shelves.iter().for_each(|shelf| shelf.resize(limits.size));
    }

    fn close_idle(&self, now: Instant) {
        let PoolLimits { idle: longest, lifetime, .. } = *self.limits.locked_anyway();
        let is_old = |server: &ServerConn| {
            longest < now.saturating_duration_since(server.rested)
                || lifetime < now.saturating_duration_since(server.born)
        };
        for shelf in &self.shelves {
            let mut idle = shelf.idle.locked();
            idle.retain(|server| !is_old(server));
            // A connection that is not used any more has no reason to keep its low priority.
            let rested = idle.iter().filter(|server| SWEEP < now.saturating_duration_since(server.rested));
            rested.for_each(|server| server.line.lever().release());
        }
    }
}

impl Shelf {
    /// Takes the best idle connection: of this thread, the last one used.
    fn pick(&self) -> Option<Box<ServerConn>> {
        let here = thread::current().id();
        let mut idle = self.idle.locked();
        let at = idle.iter().rposition(|server| server.home == here).or_else(|| idle.len().checked_sub(1))?;
        Some(idle.remove(at))
    }

    /// True if there are too many connections, because some were taken before the pool was made smaller.
    fn is_overfull(&self) -> bool {
        self.size.load(SeqCst) < self.count.load(SeqCst)
    }

    /// Sets the number of places. Surplus places go as they become free.
    fn resize(&self, size: usize) {
        self.size.store(size, SeqCst);
        self.room.resize(size);
        let mut idle = self.idle.locked();
        // The connections used last are closed last.
        while self.is_overfull() && !idle.is_empty() {
            idle.remove(0);
        }
    }
}

async fn sweep(pool: Weak<Pool>) {
    loop {
        tokio::time::sleep(SWEEP).await;
        match pool.upgrade() {
            Some(pool) => pool.close_idle(pool.nodes.time().now()),
            None => return,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_full_server_is_told_from_a_full_role_or_database() {
        let is = |text: &str| is_of_all(&SqlError::new(TOO_MANY, text));
        for text in [
            "sorry, too many clients already",
            "remaining connection slots are reserved for non-replication superuser connections",
            "remaining connection slots are reserved for roles with privileges of the \"pg_use_reserved_connections\" role",
            "remaining connection slots are reserved for roles with the SUPERUSER attribute",
        ] {
            assert!(is(text), "{text}");
        }
        assert!(!is("too many connections for role \"ann\"") && !is("too many connections for database \"shop\""));
    }
}
