//! Proxy in front of PostgreSQL servers: clients share connections to them, transaction by transaction.
//!
//! `statements` parses and writes messages, `servers` has addresses, connections and pools, `clients` has the sessions
//! and the forwarding of bytes, `setup` the options, `admin` the administration console.
//!
//! **Invariant:** messages are forwarded as the bytes that they are. A connection belongs to one client from the first
//! message of a transaction to the answer to its last. When it leaves a client, nothing of that client stays on it
//! except what it is known to have: settings and prepared statements.
//!
//! # Layers
//!
//! Bottom up; a module uses its own layer and those above it in this list.
//!
//! - statements and messages: `statements`, `clients::priority`, `clients::outcome`
//! - connections to servers: `servers`, `clients::cancel_request`, `clients::consent`, `clients::database`,
//!   `clients::expect`, `clients::leftovers`, `setup::ready`, `setup::roles`, `setup::sessions`
//! - options: `setup`
//! - sessions of clients: `clients`, `setup::unknown`
//! - the administration console: `admin`
//! - the admission for both: `clients::opened`
//!
//! The state of the proxy itself is in this file. A pool asks its server about its users and about what clients have left
//! on a connection; so those questions stand with the servers.

mod admin;
mod clients;
mod servers;
mod setup;
mod statements;

pub use clients::opened::Opened;
pub use servers::nodes::WatchOptions;
pub use servers::pool::PoolLimits;
pub use servers::target::TargetRole;
pub use servers::url::{ServerAddress, SslMode, Url, UrlError};
pub use setup::options::{SettingsSource, UpstreamOptions};
pub use setup::sessions::SessionDefaults;
pub use statements::resets::Resets;

use admin::Admin;
use clients::client::Client;
use clients::database::DatabaseState;
use clients::opened::Destination;
use clients::priority::{Priority, Setting};
use locked::Locked;
use server::admission::Admission;
use server::rules::Method;
use server::service::Service;
use servers::conn_status::ConnStatus;
use servers::internal::Internal;
use servers::login::Servers;
use servers::node::{Node, Standing};
use servers::nodes::Nodes;
use servers::params::Params;
use servers::pool::{LoginParameters, Pool};
use servers::target::ClientTargets;
use settings::Connect;
use settings::roles::{Role, Roles};
use setup::reload::LiveOptions;
use statement::SqlResult;
use statements::session_settings::SessionSettings;
use statements::shared::SharedStatements;
use std::collections::HashMap;
use std::fmt;
use std::io;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed, Ordering::SeqCst};
use std::sync::{Arc, Mutex};
use wire::frame;
use wire::scram::Keys;

/// Servers behind the proxy.
#[derive(Clone)]
pub struct Upstream(Arc<ProxyState>);

/// State that all clients share.
pub(crate) struct ProxyState {
    pub(crate) nodes: Arc<Nodes>,
    live: LiveOptions,
    pub(crate) statements: SharedStatements,
    pools: Mutex<HashMap<(String, String), Arc<Pool>>>,
    roles: crate::setup::roles::RoleCache,
    pub(crate) internal: Arc<Internal>,
    is_watched: AtomicBool,
    clients: AtomicU64,
    /// True if databases without a client so far are paused, too. It changes under the lock of `pools`.
    is_paused: AtomicBool,
}

impl fmt::Debug for Upstream {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Upstream").field("url", &self.0.nodes.servers.url).finish_non_exhaustive()
    }
}

impl Upstream {
    /// Creates a proxy in front of these servers. The first server gets this admission control, each other one a new
    /// one of the same kind, shared by all pools.
    ///
    /// # Errors
    /// Certificates cannot be read.
    pub fn new(url: Url, options: impl Into<UpstreamOptions>, admission: Admission) -> io::Result<Upstream> {
        let options = options.into();
        let servers = Servers::new(url, options.time.clone())?;
        let internal = Arc::new(Internal::new(options.internal_priorities));
        let statements = SharedStatements::default();
        statements.repeated.turn(options.prepare);
        let nodes = Nodes::new(servers, &admission, options.watching);
        Ok(Upstream(Arc::new(ProxyState {
            nodes: Arc::new(nodes),
            live: LiveOptions::new(options),
            statements,
            pools: Mutex::default(),
            roles: crate::setup::roles::RoleCache::default(),
            internal,
            is_watched: AtomicBool::new(false),
            clients: AtomicU64::new(0),
            is_paused: AtomicBool::new(false),
        })))
    }

    /// Returns true if a password is known for the URL's role: such a server asks for one.
    pub fn has_password(&self) -> bool {
        let login = &self.0.nodes.servers;
        let Url { hosts, user, database, .. } = &login.url;
        hosts.iter().any(|host| login.passwords.find(host, user, database).is_some())
    }

    /// Returns the number of server connections, and how many of them are idle.
    pub fn connections(&self) -> (usize, usize) {
        let pools = self.0.pools.locked();
        pools.values().fold((0, 0), |(all, idle), pool| (all + pool.count(), idle + pool.idle_count()))
    }

    /// Admission control of the primary, or of the first server while there is no primary.
    pub fn admission(&self) -> Admission {
        let nodes = self.0.nodes.all();
        let primary = nodes.iter().find(|node| node.standing() == Standing::Primary);
        primary.unwrap_or(&nodes[0]).admission.clone()
    }

    fn pool(&self, user: &str, database: &str) -> Arc<Pool> {
        let shared = &self.0;
        let mut pools = shared.pools.locked();
        let key = (user.to_owned(), database.to_owned());
        if let Some(pool) = pools.get(&key) {
            return Arc::clone(pool);
        }
        // Users of one database share its state.
        let known = pools.values().find(|pool| *pool.name == *database).map(|pool| Arc::clone(&pool.database));
        let known = known.unwrap_or_else(|| Arc::new(DatabaseState::new(shared.is_paused.load(SeqCst))));
        self.begin_watch();
        let (nodes, internal) = (Arc::clone(&shared.nodes), Arc::clone(&shared.internal));
        let pool = Pool::new(nodes, internal, (user, database), known, shared.options().limits);
        pools.insert(key, Arc::clone(&pool));
        pool
    }

    /// Starts watching the servers with the first pool, when there is a runtime: before that there is no transaction to
    /// observe.
    fn begin_watch(&self) {
        let shared = &self.0;
        if let Some(every) = shared.options().watch
            && shared.admission().is_there()
            && !shared.is_watched.swap(true, Relaxed)
        {
            for node in shared.nodes.all() {
                tokio::spawn(crate::servers::watch::watch(Arc::downgrade(shared), Arc::clone(node), every));
            }
        }
    }

    /// Target of clients that have not asked for another.
    fn target(&self) -> TargetRole {
        self.0.nodes.servers.url.target.unwrap_or_else(|| self.0.options().target())
    }

    /// Drops a pool without a connection: names of users and databases come from clients.
    fn forget(&self, pool: &Arc<Pool>) {
        let mut pools = self.0.pools.locked();
        let key = (pool.user.to_string(), pool.name.to_string());
        // One reference is in the table, one is the caller's. Any other holder is a client, or becomes one.
        let is_nobodys = Arc::strong_count(pool) == 2 && pool.count() == 0;
        if is_nobodys && pools.get(&key).is_some_and(|own| Arc::ptr_eq(own, pool)) {
            pools.remove(&key);
        }
    }
}

impl ProxyState {
    /// Returns the pools, ordered by database and user.
    pub(crate) fn all_pools(&self) -> Vec<Arc<Pool>> {
        let pools = self.pools.locked();
        let mut all: Vec<Arc<Pool>> = pools.values().cloned().collect();
        drop(pools);
        all.sort_by(|one, other| (&one.name, &one.user).cmp(&(&other.name, &other.user)));
        all
    }

    /// Returns the databases with their names.
    pub(crate) fn all_databases(&self) -> Vec<(Arc<str>, Arc<DatabaseState>)> {
        let mut pools = self.all_pools();
        pools.dedup_by(|one, other| one.name == other.name);
        pools.iter().map(|pool| (Arc::clone(&pool.name), Arc::clone(&pool.database))).collect()
    }

    /// Admission control of the first server. The properties that it needs of statements are the same for all of them.
    pub(crate) fn admission(&self) -> &Admission {
        &self.nodes.all()[0].admission
    }

    pub(crate) fn pool_size(&self) -> usize {
        self.options().limits.size
    }

    pub(crate) fn first_host(&self) -> Option<&ServerAddress> {
        self.nodes.servers.url.hosts.first()
    }

    /// Names of the hosts without ports, as PgBouncer lists them.
    pub(crate) fn host_names(&self) -> String {
        let names: Vec<&str> = self.nodes.all().iter().map(|node| admin::place(&node.host).0).collect();
        names.join(",")
    }

    /// All hosts, as the URL has them.
    pub(crate) fn hosts(&self) -> String {
        self.nodes.servers.url.hosts.iter().map(ToString::to_string).collect::<Vec<_>>().join(",")
    }
}

impl Service for Upstream {
    type Opened = Opened;

    fn admissions(&self) -> Vec<(Arc<str>, Admission)> {
        let nodes = self.0.nodes.all();
        // A single server needs no name.
        let name = |node: &Node| if nodes.len() == 1 { Arc::from("") } else { Arc::clone(&node.name) };
        nodes.iter().map(|node| (name(node), node.admission.clone())).collect()
    }

    fn metrics(&self) -> String {
        admin::metrics(&self.0.nodes)
    }

    async fn ready(&self) -> Result<(), String> {
        self.0.nodes.ready().await
    }

    async fn role(&self, roles: &Roles, user: &str, method: Method) -> SqlResult<Option<Role>> {
        let own = roles.get(user);
        // The proxy's own configuration decides which role may administer it.
        let is_superuser = own.as_ref().is_some_and(|role| role.is_superuser);
        if let Some(own) = own.filter(|role| role.password.is_some()) {
            return Ok(Some(own));
        }
        if method == Method::ScramSha256 {
            return Ok(self.ask_role(user).await?.map(|role| Role { is_superuser, ..role }));
        }
        // The server decides if there is such a role, and what else it may do.
        Ok(Some(Role { may_log_in: true, is_superuser, ..Role::default() }))
    }

    fn is_administration(&self, database: &str) -> bool {
        admin::is_name(database)
    }

    fn mistrust(&self, user: &str) {
        self.0.roles.forget_one(user);
    }

    async fn open(&self, connect: Connect, role: &Role, proof: Option<Keys>) -> SqlResult<Opened> {
        let Connect { user, database, settings, .. } = connect;
        let mut asked: SessionSettings = settings.into_iter().collect();
        let application = asked.remove("application_name").unwrap_or_default();
        if admin::is_name(&database) {
            let admin = Admin::open(Arc::clone(&self.0), role, &database, &application)?;
            return Ok(Opened(Destination::Admin(admin)));
        }
        let options = self.0.options();
        let class =
            asked.remove(Setting::Priority.name()).map(|value| settings::priority::class_of(&value)).transpose()?;
        let hot_key = asked.remove(Setting::HotKey.name());
        if let Some(error) = asked.iter().find_map(|(name, _)| crate::setup::unknown::refused(&options.settings, name))
        {
            return Err(error);
        }
        let target = asked.get(crate::servers::target::NAME).map_or_else(|| Ok(self.target()), TargetRole::of)?;
        let pool = self.pool(&user, &database);
        if let Some(keys) = proof {
            pool.learn(keys);
        }
        let welcome = match self.welcome(&pool, asked, target).await {
            Ok(welcome) => welcome,
            Err(error) => {
                self.forget(&pool);
                return Err(error);
            }
        };
        let LoginParameters { mut settings, mut params } = welcome;
        if !application.is_empty() {
            // The name is cleaned as the server does it.
            let name: String =
                application.chars().map(|c| if matches!(c, ' '..='~') { c } else { '?' }).take(63).collect();
            Arc::make_mut(&mut settings).set("application_name", &name);
            Params::note(&mut params, "application_name", &name);
        }
        let number = self.0.clients.fetch_add(1, Relaxed) + 1;
        // A default of the database or the role counts where the client has not asked for a target.
        let target = settings.get(crate::servers::target::NAME).and_then(TargetRole::named).unwrap_or(target);
        let of_role = || {
            let value = settings.get(Setting::Priority.name())?;
            let class = settings::priority::class_of(value);
            if class.is_err() {
                tracing::warn!(user = %pool.user, value, "the server's overtake.priority of a role or a database is no class");
            }
            class.ok()
        };
        let mut max =
            options.class_max(pool.consent.class_max(&pool), role.is_superuser || pool.consent.is_superuser());
        let class = match class {
            Some(class) if class.outranks(max) => return Err(crate::clients::priority::denied(max)),
            Some(class) => class,
            None => match of_role() {
                Some(class) => class.max(max),
                None => match options.rules.of_session(&pool.user, &pool.name, &application) {
                    // A rule may give any class, and the session may return to it.
                    Some(class) => {
                        max = max.min(class);
                        class
                    }
                    None => options.class()?.max(max),
                },
            },
        };
        let of_server = || settings.get(Setting::HotKey.name());
        let hot_key = hot_key.as_deref().or_else(of_server);
        let hot_key = hot_key.unwrap_or_else(|| options.settings.get(Setting::HotKey.name()));
        let classes = (Priority::new(class, max, hot_key), ClientTargets::new(target));
        let client = Client::new(Arc::clone(&self.0), pool, number, classes, settings, params);
        Ok(Opened(Destination::Servers(Box::new(client))))
    }
}

/// Text of a client's message, for the proxy to parse. Bytes that are not UTF-8 count as an empty text.
pub(crate) fn text_of(bytes: &[u8]) -> &str {
    frame::utf8(bytes).unwrap_or_default()
}
