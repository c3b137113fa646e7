//! Who may log in.
//!
//! **Invariant:** a change is seen by every connection that begins after it.

use crate::scram::Verifier;
use std::collections::HashMap;
use std::sync::{PoisonError, RwLock};

/// All roles, with what their passwords are checked against.
#[derive(Debug, Default)]
pub struct Roles(RwLock<HashMap<String, Role>>);

/// One role.
#[derive(Clone, Debug)]
pub struct Role {
    /// Whether it is a user: may log in.
    pub may_log_in: bool,
    /// What its password is checked against; without one, no password is right.
    pub verifier: Option<Verifier>,
}

impl Roles {
    /// The one role of a fresh server: `postgres`, without a password.
    pub fn of_a_fresh_server() -> Roles {
        let roles = Roles::default();
        roles.put("postgres", Role { may_log_in: true, verifier: None });
        roles
    }

    /// Makes or changes a role.
    pub fn put(&self, name: &str, role: Role) {
        self.0.write().unwrap_or_else(PoisonError::into_inner).insert(name.to_owned(), role);
    }

    /// Removes a role; whether there was one.
    pub fn remove(&self, name: &str) -> bool {
        self.0.write().unwrap_or_else(PoisonError::into_inner).remove(name).is_some()
    }

    /// The role of this name.
    pub fn get(&self, name: &str) -> Option<Role> {
        self.0.read().unwrap_or_else(PoisonError::into_inner).get(name).cloned()
    }
}
