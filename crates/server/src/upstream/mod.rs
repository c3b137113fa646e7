//! The front of other servers: clients of this process share connections to them, transaction by transaction.
//!
//! From the bottom up: `url` (where the servers are), `dial`, `proof`, `login` (from there to a connection), `message`, `params`,
//! `settings`, `scan` (what is said, what was reported, what was set, what may leave something behind), [`expect`] (what is
//! still to be answered), `prepared` and `statements` (who has prepared what), `server_conn` and `pool` (connections),
//! `reach` (cancelling), `client` with `link`, `forward`, `backward`, `check` and `leave` (one client's session).
//!
//! **Invariant:** messages are forwarded as the bytes that they are; a connection belongs to one client from the first
//! message of a transaction to the answer to its last, and when it leaves a client, nothing of that client stays on it but what
//! it is known to have: settings and prepared statements.

mod backward;
mod check;
mod client;
mod dial;
mod expect;
mod forward;
mod leave;
mod link;
mod login;
mod message;
mod params;
mod pool;
mod prepared;
mod priority;
mod proof;
mod reach;
mod roles;
mod scan;
mod server_conn;
mod settings;
mod statements;
mod url;

pub use client::Opened;
pub use pool::Limits;
pub use url::{Host, SslMode, Url, UrlError};

use crate::door::Door;
use crate::frame;
use crate::front::Front;
use crate::rules::Method;
use crate::scram::Keys;
use client::Client;
use login::Servers;
use params::Params;
use pool::{Pool, Welcome};
use priority::Priority;
use proof::Secret;
use settings::Settings;
use sql::roles::{Role, Roles};
use sql::session::Connect;
use sql::{SqlError, SqlResult};
use stage::Class;
use statements::Statements;
use std::collections::HashMap;
use std::fmt;
use std::io;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Mutex, PoisonError};

/// The servers behind this one.
#[derive(Clone)]
pub struct Upstream(Arc<Shared>);

/// What all clients share.
pub(crate) struct Shared {
    servers: Arc<Servers>,
    limits: Limits,
    pub(crate) door: Door,
    pub(crate) statements: Statements,
    pools: Mutex<HashMap<(String, String), Arc<Pool>>>,
    auth_query: String,
    roles: roles::Known,
    clients: AtomicU64,
}

impl fmt::Debug for Upstream {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Upstream").field("url", &self.0.servers.url).finish_non_exhaustive()
    }
}

impl Upstream {
    /// Before these servers, behind this door: one for all pools together.
    ///
    /// # Errors
    /// Certificates cannot be read.
    pub fn new(url: Url, limits: Limits, door: Door) -> io::Result<Upstream> {
        let encryption = dial::encryption(&url)?;
        Ok(Upstream(Arc::new(Shared {
            servers: Arc::new(Servers { url, encryption }),
            limits,
            door,
            statements: Statements::default(),
            pools: Mutex::default(),
            auth_query: roles::QUESTION.to_owned(),
            roles: roles::Known::default(),
            clients: AtomicU64::new(0),
        })))
    }

    /// Asks for passwords in these words, `$1` being the user: the second column of the row is as in `pg_authid`.
    #[must_use]
    pub fn with_auth_query(self, text: &str) -> Upstream {
        match Arc::try_unwrap(self.0) {
            Ok(shared) => Upstream(Arc::new(Shared { auth_query: text.to_owned(), ..shared })),
            // Somebody serves by it already.
            Err(shared) => Upstream(shared),
        }
    }

    /// How many server connections there are, and how many of them are idle.
    pub fn connections(&self) -> (usize, usize) {
        let pools = self.0.pools.lock().unwrap_or_else(PoisonError::into_inner);
        pools.values().fold((0, 0), |(all, idle), pool| (all + pool.count.load(Relaxed), idle + pool.idle_count()))
    }

    fn pool(&self, user: &str, database: &str) -> Arc<Pool> {
        let shared = &self.0;
        let url = &shared.servers.url;
        let mut pools = shared.pools.lock().unwrap_or_else(PoisonError::into_inner);
        let pool = pools.entry((user.to_owned(), database.to_owned())).or_insert_with(|| {
            let secret = match &url.password {
                Some(password) if url.user == user => Secret::Password(password.clone()),
                _ => Secret::Nothing,
            };
            Pool::new(Arc::clone(&shared.servers), user, database, secret, shared.limits)
        });
        Arc::clone(pool)
    }

    /// What a client is told that asks for these settings. The server is asked when that is not known.
    async fn welcome(&self, pool: &Arc<Pool>, asked: Settings) -> Result<Welcome, SqlError> {
        if let Some(welcome) = pool.welcome(&asked) {
            return Ok(welcome);
        }
        let mut taken = pool.take().await?;
        let server = &mut taken.server;
        let (change, _) = asked.change_from(&server.settings);
        server.ask(&change).await?;
        let found = check::ask(server, &asked, &pool.user).await?;
        server.settings = Arc::new(found.settings);
        let welcome = Welcome { settings: Arc::clone(&server.settings), params: Arc::clone(&server.params) };
        pool.put(taken);
        pool.remember(asked, welcome.clone());
        Ok(welcome)
    }

    /// Pools of which nothing has come are not kept: names of users and databases are the clients'.
    fn forget(&self, pool: &Arc<Pool>) {
        let mut pools = self.0.pools.lock().unwrap_or_else(PoisonError::into_inner);
        if pool.count.load(Relaxed) == 0 {
            pools.remove(&(pool.user.to_string(), pool.database.to_string()));
        }
    }
}

impl Front for Upstream {
    type Opened = Opened;

    async fn role(&self, roles: &Roles, user: &str, method: Method) -> SqlResult<Option<Role>> {
        let own = roles.get(user).filter(|role| role.password.is_some());
        if method == Method::ScramSha256 && own.is_none() {
            return self.ask_role(user).await;
        }
        // Whether there is such a role, and what it may, is for the server to say.
        Ok(Some(own.unwrap_or_else(|| Role { may_log_in: true, ..Role::default() })))
    }

    async fn open(&self, connect: Connect, proof: Option<Keys>) -> SqlResult<Opened> {
        let Connect { user, database, settings, .. } = connect;
        let mut asked: Settings = settings.into_iter().collect();
        let application = asked.remove("application_name").unwrap_or_default();
        let class = asked.remove("overtake.priority").map(|value| priority::class_of(&value)).transpose()?;
        let pool = self.pool(&user, &database);
        if let Some(keys) = proof {
            pool.learn(keys);
        }
        let welcome = match self.welcome(&pool, asked).await {
            Ok(welcome) => welcome,
            Err(error) => {
                self.forget(&pool);
                return Err(error);
            }
        };
        let Welcome { mut settings, mut params } = welcome;
        if !application.is_empty() {
            // As the server does.
            let name: String =
                application.chars().map(|c| if matches!(c, ' '..='~') { c } else { '?' }).take(63).collect();
            Arc::make_mut(&mut settings).set("application_name", &name);
            Params::note(&mut params, "application_name", &name);
        }
        let number = self.0.clients.fetch_add(1, Relaxed) + 1;
        let class = Priority::new(class.unwrap_or(Class::Normal));
        Ok(Opened(Client::new(Arc::clone(&self.0), pool, number, class, settings, params)))
    }
}

/// Text of a client's message that is for the front to understand; bytes that are no text are nothing to it.
pub(crate) fn text_of(bytes: &[u8]) -> &str {
    frame::utf8(bytes).unwrap_or_default()
}
