//! Roles: which users may log in, with their passwords and settings.
//!
//! Shared by the sessions, which change them, and by the server, which authenticates clients.
//!
//! **Invariant:** a change is seen by every connection that begins after it. The first role always exists and is always
//! a superuser. No password is kept, only its verifier.
//!
//! A role is known by its OID wherever it is stored, so a role that is renamed keeps what it has. Rights on tables and
//! other objects are in the catalog.

pub mod change;
mod members;
mod predefined;

pub use members::Membership;
pub use predefined::{
    CHECKPOINT, DATABASE_OWNER, READ_ALL_DATA, READ_ALL_STATS, SIGNAL_BACKEND, WRITE_ALL_DATA, is_predefined,
};

use locked::RwLocked;
use statement::error::{SqlError, SqlResult, SqlState};
use std::collections::{BTreeMap, HashMap};
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Mutex, OnceLock, RwLock, RwLockReadGuard, RwLockWriteGuard};

/// Name of the role that always exists.
pub const FIRST: &str = "postgres";
/// OID of that role, as in PostgreSQL.
pub const FIRST_OID: u32 = 10;
/// OID of the first role that a user creates.
const NEXT_OID: u32 = 16_384;

/// Function that makes a password into its verifier; `None` if the system gives no random bytes.
pub type PasswordHash = fn(&str) -> Option<String>;

/// All roles, and the settings of databases.
#[derive(Debug, Default)]
pub struct Roles {
    state: RwLock<RolesState>,
    hash: OnceLock<PasswordHash>,
    /// Held while a commit that changes roles is decided.
    changing: Mutex<()>,
    /// Number of OIDs that were given, shared with the copies of transactions: a role keeps the OID that its own
    /// transaction has seen.
    numbers: Arc<AtomicU32>,
    /// Version of the state. States that differ have different versions.
    version: AtomicU64,
    /// Number of versions that were given, shared with the copies of transactions.
    versions: Arc<AtomicU64>,
}

#[derive(Clone, Debug, Default)]
struct RolesState {
    /// Roles by name. Each is shared with the copies of transactions.
    roles: BTreeMap<Arc<str>, Arc<Role>>,
    /// Names of the roles, by OID.
    names: HashMap<u32, Arc<str>>,
    /// Settings by `ALTER DATABASE SET`, by database.
    databases: HashMap<String, SettingList>,
}

/// Names and values of settings, in the order in which they were first given.
pub type SettingList = Vec<(String, String)>;

/// A role and its attributes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Role {
    /// OID of the role.
    pub oid: u32,
    /// True for `LOGIN`: the role is a user.
    pub may_log_in: bool,
    /// True for `SUPERUSER`: the role bypasses all restrictions.
    pub is_superuser: bool,
    /// True for `CREATEROLE`: the role may create and change roles that are no superusers.
    pub may_create_roles: bool,
    /// True for `CREATEDB`: the role may create databases, once there can be more than one.
    pub may_create_databases: bool,
    /// True for `INHERIT`: the role has the rights of the roles that it is a member of.
    pub inherits: bool,
    /// Roles that the role is a member of.
    pub member_of: Vec<Membership>,
    /// Limit on the role's sessions; -1: no limit.
    pub connections_max: i32,
    /// Verifier of the password, as PostgreSQL writes it; without one, no password is right.
    pub password: Option<String>,
    /// Tenant of the role's stored code; `None` if the role is a tenant of its own.
    pub tenant: Option<u32>,
    /// True if the password has expired (`VALID UNTIL`).
    pub is_expired: bool,
    /// Settings by `ALTER ROLE SET`.
    pub settings: SettingList,
    /// Settings by `ALTER ROLE IN DATABASE SET`, by database.
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
            member_of: Vec::new(),
            connections_max: -1,
            password: None,
            tenant: None,
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

impl RolesState {
    fn insert(&mut self, name: &str, role: Role) {
        let name: Arc<str> = name.into();
        self.names.insert(role.oid, Arc::clone(&name));
        self.roles.insert(name, Arc::new(role));
    }

    fn remove(&mut self, name: &str) -> bool {
        let Some(role) = self.roles.remove(name) else { return false };
        self.names.remove(&role.oid);
        true
    }

    /// Returns the role with this OID.
    fn numbered(&self, oid: u32) -> Option<&Role> {
        self.roles.get(self.names.get(&oid)?).map(|role| &**role)
    }
}

impl Roles {
    /// Creates the roles of a fresh server: `postgres`, without a password, and the predefined roles, which cannot log
    /// in.
    pub fn of_a_fresh_server() -> Roles {
        let roles = Roles::default();
        roles.put(FIRST, Role::first());
        predefined::all().for_each(|(name, role)| roles.put(name, role));
        roles
    }

    /// Sets the function that makes passwords into verifiers. The first call counts.
    pub fn hash_by(&self, hash: PasswordHash) {
        // Later callers would set the same function.
        let _ = self.hash.set(hash);
    }

    /// Copies the roles, for a transaction to change.
    fn copy(&self) -> Roles {
        Roles {
            state: RwLock::new(self.read().clone()),
            hash: self.hash.clone(),
            changing: Mutex::default(),
            numbers: Arc::clone(&self.numbers),
            version: AtomicU64::new(self.next_version()),
            versions: Arc::clone(&self.versions),
        }
    }

    /// Returns the version of the roles: while it stays the same, so do all roles and memberships.
    pub fn version(&self) -> u64 {
        self.version.load(Relaxed)
    }

    fn next_version(&self) -> u64 {
        self.versions.fetch_add(1, Relaxed) + 1
    }

    /// Gives the roles, which the caller has changed and still keeps locked, a new version.
    fn note_change(&self) {
        self.version.store(self.next_version(), Relaxed);
    }

    fn read(&self) -> RwLockReadGuard<'_, RolesState> {
        self.state.read_locked()
    }

    fn write(&self) -> RwLockWriteGuard<'_, RolesState> {
        self.state.write_locked()
    }

    /// Returns an OID that no role has had.
    fn number(&self) -> u32 {
        NEXT_OID + self.numbers.fetch_add(1, Relaxed)
    }

    /// Creates or replaces a role. A role without an OID gets one.
    pub fn put(&self, name: &str, mut role: Role) {
        let mut state = self.write();
        if role.oid == 0 {
            role.oid = state.roles.get(name).map_or_else(|| self.number(), |before| before.oid);
        }
        state.insert(name, role);
        self.note_change();
    }

    /// Removes a role; returns true if there was one.
    pub fn remove(&self, name: &str) -> bool {
        let mut state = self.write();
        self.note_change();
        state.remove(name)
    }

    /// Returns the role of this name.
    pub fn get(&self, name: &str) -> Option<Role> {
        self.read().roles.get(name).map(|role| Role::clone(role))
    }

    /// Returns the OID of the role of this name.
    pub fn oid_of(&self, name: &str) -> Option<u32> {
        self.read().roles.get(name).map(|role| role.oid)
    }

    /// Returns the OID of the tenant of the role of this name: the role's own, unless `TENANT` names another.
    pub fn tenant_of(&self, name: &str) -> Option<u32> {
        self.read().roles.get(name).map(|role| role.tenant.unwrap_or(role.oid))
    }

    /// Returns the name of the role with this OID.
    pub fn name_of(&self, oid: u32) -> Option<Arc<str>> {
        self.read().names.get(&oid).cloned()
    }

    /// Returns all roles, by name.
    pub fn all(&self) -> Vec<(String, Role)> {
        self.read().roles.iter().map(|(name, role)| (name.to_string(), Role::clone(role))).collect()
    }

    /// Returns the settings by `ALTER DATABASE SET`.
    pub fn of_database(&self, database: &str) -> SettingList {
        self.read().databases.get(database).cloned().unwrap_or_default()
    }

    /// Sets the settings with which sessions of a database begin.
    pub fn put_database(&self, database: &str, settings: SettingList) {
        self.write().databases.insert(database.to_owned(), settings);
        self.note_change();
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

/// Returns true if the text is a verifier already, as in dumps: `SCRAM-SHA-256$iterations:salt$stored:server`.
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
