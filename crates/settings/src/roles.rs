//! Roles: who may log in, by which password, and with which settings.
//!
//! Shared by the sessions, which change them, and by the server, which lets clients in.
//!
//! **Invariant:** a change is seen by every connection that begins after it. The first role is always there and always a
//! superuser. No password is kept, only what it is checked against.
//!
//! Privileges on tables do not exist yet: every role may do everything with them. Only roles themselves, and settings that
//! are a superuser's, are kept from others.

pub mod change;

use statement::error::{SqlError, SqlResult, SqlState};
use std::collections::{BTreeMap, HashMap};
use std::sync::atomic::{AtomicU32, Ordering::Relaxed};
use std::sync::{Arc, Mutex, OnceLock, PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard};

/// The role that is always there.
pub const FIRST: &str = "postgres";
/// Its number, as in PostgreSQL, and that of the first role that somebody makes.
const FIRST_OID: u32 = 10;
const NEXT_OID: u32 = 16_384;

/// Makes of a password what it is checked against; nothing if the system gives no random bytes.
pub type Hash = fn(&str) -> Option<String>;

/// All roles, and the settings of databases.
#[derive(Debug, Default)]
pub struct Roles {
    state: RwLock<State>,
    hash: OnceLock<Hash>,
    /// For whoever decides a commit that changes some.
    changing: Mutex<()>,
    /// Count of the numbers that were given, by the copies of transactions too: a role keeps the one that its own transaction has seen.
    numbers: Arc<AtomicU32>,
}

#[derive(Clone, Debug, Default)]
struct State {
    /// Shared with the copies of transactions.
    roles: BTreeMap<Arc<str>, Arc<Role>>,
    /// What `ALTER DATABASE SET` has said.
    databases: HashMap<String, SettingList>,
}

/// Names and values, in the order in which they were first given.
pub type SettingList = Vec<(String, String)>;

/// One role.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Role {
    /// Its number.
    pub oid: u32,
    /// Whether it is a user: may log in.
    pub may_log_in: bool,
    /// Whether it may do what is kept from others.
    pub is_superuser: bool,
    /// Whether it may make and change roles that are no superusers.
    pub may_create_roles: bool,
    /// Whether it may make databases, once there can be more than one.
    pub may_create_databases: bool,
    /// Whether it has the rights of roles it is a member of, once there are members.
    pub inherits: bool,
    /// How many sessions it may have; -1: any number.
    pub connections_max: i32,
    /// What its password is checked against, as PostgreSQL writes it; without one, no password is right.
    pub password: Option<String>,
    /// True if the time is over until which its password is valid.
    pub is_expired: bool,
    /// What `ALTER ROLE SET` has said.
    pub settings: SettingList,
    /// What `ALTER ROLE IN DATABASE SET` has said.
    pub settings_in: HashMap<String, SettingList>,
}

impl Default for Role {
    fn default() -> Role {
        Role {
            oid: 0,
            may_log_in: false,
            is_superuser: false,
            may_create_roles: false,
            may_create_databases: false,
            inherits: true,
            connections_max: -1,
            password: None,
            is_expired: false,
            settings: Vec::new(),
            settings_in: HashMap::new(),
        }
    }
}

impl Role {
    fn first() -> Role {
        Role {
            oid: FIRST_OID,
            may_log_in: true,
            is_superuser: true,
            may_create_roles: true,
            may_create_databases: true,
            ..Role::default()
        }
    }
}

impl Roles {
    /// The one role of a fresh server: `postgres`, without a password.
    pub fn of_a_fresh_server() -> Roles {
        let roles = Roles::default();
        roles.write().roles.insert(FIRST.into(), Arc::new(Role::first()));
        roles
    }

    /// Says how passwords are made into what is kept. The first one counts.
    pub fn hash_by(&self, hash: Hash) {
        // Whoever comes later would say the same.
        let _ = self.hash.set(hash);
    }

    /// The same, to be changed by a transaction.
    fn copy(&self) -> Roles {
        let state = RwLock::new(self.read().clone());
        Roles { state, hash: self.hash.clone(), changing: Mutex::default(), numbers: Arc::clone(&self.numbers) }
    }

    fn read(&self) -> RwLockReadGuard<'_, State> {
        self.state.read().unwrap_or_else(PoisonError::into_inner)
    }

    fn write(&self) -> RwLockWriteGuard<'_, State> {
        self.state.write().unwrap_or_else(PoisonError::into_inner)
    }

    /// A number that no role has had.
    fn number(&self) -> u32 {
        NEXT_OID + self.numbers.fetch_add(1, Relaxed)
    }

    /// Makes or changes a role. A number is given to one that has none.
    pub fn put(&self, name: &str, mut role: Role) {
        let mut state = self.write();
        if role.oid == 0 {
            role.oid = state.roles.get(name).map_or_else(|| self.number(), |before| before.oid);
        }
        state.roles.insert(name.into(), Arc::new(role));
    }

    /// Removes a role; whether there was one.
    pub fn remove(&self, name: &str) -> bool {
        self.write().roles.remove(name).is_some()
    }

    /// The role of this name.
    pub fn get(&self, name: &str) -> Option<Role> {
        self.read().roles.get(name).map(|role| Role::clone(role))
    }

    /// All of them, by name.
    pub fn all(&self) -> Vec<(String, Role)> {
        self.read().roles.iter().map(|(name, role)| (name.to_string(), Role::clone(role))).collect()
    }

    /// What `ALTER DATABASE SET` has said.
    pub fn of_database(&self, database: &str) -> SettingList {
        self.read().databases.get(database).cloned().unwrap_or_default()
    }

    /// Sets what sessions of a database begin with.
    pub fn put_database(&self, database: &str, settings: SettingList) {
        self.write().databases.insert(database.to_owned(), settings);
    }

    /// Returns the SCRAM verifier of a password, or the text itself if it is one already.
    pub fn hashed(&self, password: &str) -> SqlResult<String> {
        if is_verifier(password) {
            return Ok(password.to_owned());
        }
        let hash = self.hash.get().ok_or_else(|| SqlError::unsupported("a password without a server"))?;
        hash(password).ok_or_else(|| SqlError::new(SqlState::INTERNAL_ERROR, "could not generate random salt"))
    }
}

/// Tells whether a password is given as what it is checked against, as dumps do: `SCRAM-SHA-256$iterations:salt$stored:server`.
fn is_verifier(password: &str) -> bool {
    let parts = || {
        let (iterations, rest) = password.strip_prefix("SCRAM-SHA-256$")?.split_once(':')?;
        let (salt, keys) = rest.split_once('$')?;
        let (stored, server) = keys.split_once(':')?;
        Some((iterations, [salt, stored, server]))
    };
    // SHA-256 has 32 bytes, in base64 44 letters.
    let is_key = |key: &str| key.len() == 44 && key.ends_with('=');
    let is_base64 =
        |text: &str| text.bytes().all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'+' | b'/' | b'='));
    parts().is_some_and(|(iterations, [salt, stored, server])| {
        iterations.parse::<u32>().is_ok_and(|count| 0 < count)
            && [salt, stored, server].into_iter().all(is_base64)
            && !salt.is_empty()
            && is_key(stored)
            && is_key(server)
    })
}
