//! Roles of a session: the one that has logged in, the session user, and the current role; and the check of what a
//! statement needs.
//!
//! **Invariant:** a bound statement runs only after its needs were checked for the current role. The check is made when
//! the statement runs, so a prepared one is checked again after a SET ROLE or a change of roles; a GRANT changes the
//! catalog, by which it is bound again. A binding remembers the epoch in which it was checked, so that most runs
//! compare two numbers.

use super::run::{RunNeeds, RunOutcome};
use super::{BoundStatement, Parked, Session, read_only};
use crate::context::{ROLE, SESSION_USER};
use crate::ddl::owned::check_unused;
use catalog::acl::Privileges;
use catalog::rights::{RelationNeed, Rights, role_named};
use settings::roles::Roles;
use statement::error::{SqlError, SqlResult, SqlState};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

/// Value of the second for the session user itself.
const NONE: &str = "none";

/// Roles of a session, as of versions of its settings and of the roles.
#[derive(Debug)]
pub(super) struct Authority {
    /// OID of the role that has logged in.
    login: u32,
    /// Session user: the value of its setting, and the role's OID.
    session: (Arc<str>, u32),
    /// Current role by `SET ROLE`: the value of its setting, and the role's OID, if it is not the session user.
    role: (Arc<str>, Option<u32>),
    /// Versions of the roles and the settings; `None` before the first use.
    versions: Option<(u64, u64)>,
    /// Number of changes of the current role, or of what any role has.
    epoch: u64,
}

/// Needs of a bound statement, with the epoch in which they were last found met; 0 for none.
#[derive(Debug, Default)]
pub(super) struct StatementNeeds {
    pub(super) all: Vec<RelationNeed>,
    checked: AtomicU64,
}

impl StatementNeeds {
    pub(super) fn new(all: Vec<RelationNeed>) -> StatementNeeds {
        StatementNeeds { all, checked: AtomicU64::new(0) }
    }
}

impl Authority {
    /// Returns the roles of a session that begins.
    pub(super) fn of_login(user: &str, roles: &Roles) -> Authority {
        let login = role_named(roles, user);
        Authority { login, session: (user.into(), login), role: (NONE.into(), None), versions: None, epoch: 1 }
    }

    /// Returns the OID of the current role.
    fn current(&self) -> u32 {
        self.role.1.unwrap_or(self.session.1)
    }
}

impl Session {
    /// Returns the OID of the current role.
    pub(super) fn current_role(&self) -> u32 {
        self.authority.current()
    }

    /// Returns the roles as the session sees them.
    pub(super) fn roles_seen(&self) -> &Arc<Roles> {
        self.roles.as_ref().map_or(&self.database.roles, |changed| &changed.seen)
    }

    /// Brings the session's roles, and the environment's names of them, up to date.
    pub(super) fn refresh_authority(&mut self) {
        let versions = (self.roles_seen().version(), self.settings.version());
        if self.authority.versions == Some(versions) {
            return;
        }
        let roles = Arc::clone(self.roles_seen());
        let before = (self.authority.current(), self.authority.versions.map(|(roles, _)| roles));
        self.take_named(&roles);
        let current = self.authority.current();
        let name = |oid: u32, said: &Arc<str>| roles.name_of(oid).unwrap_or_else(|| Arc::clone(said));
        let session_user = name(self.authority.session.1, &self.authority.session.0);
        let user = match self.authority.role.1 {
            Some(oid) => name(oid, &self.authority.role.0),
            None => Arc::clone(&session_user),
        };
        // A session without a user is the program's own, which has no name.
        let is_own = self.authority.session.0.is_empty() && self.authority.role.1.is_none();
        let env = Arc::make_mut(&mut self.env);
        env.user = if is_own { "".into() } else { user };
        env.session_user = if is_own { "".into() } else { session_user };
        self.settings.set_superuser(roles.is_superuser(current));
        self.authority.versions = Some((roles.version(), self.settings.version()));
        if before.0 != current {
            // Names are looked up as the new role.
            self.catalog_snapshot = None;
        }
        if before != (current, Some(roles.version())) {
            self.authority.epoch += 1;
        }
    }

    /// Takes the roles that the settings name, where these have changed. A role that was renamed stays the same.
    fn take_named(&mut self, roles: &Roles) {
        let said = |name| self.settings.show(name).unwrap_or_default();
        let (session, role) = (said(SESSION_USER), said(ROLE));
        if *session != *self.authority.session.0 {
            self.authority.session = (session.into(), role_named(roles, session));
        }
        if *role != *self.authority.role.0 {
            let oid = if role == NONE { None } else { roles.oid_of(role) };
            self.authority.role = (role.into(), oid);
        }
    }

    /// Checks what a statement needs, unless that was done for this role and these roles before.
    ///
    /// # Errors
    /// `42501`
    pub(super) fn check_needs(&mut self, bound: &BoundStatement) -> SqlResult<()> {
        if bound.needs.all.is_empty() {
            return Ok(());
        }
        self.refresh_authority();
        let authority = &self.authority;
        // The binding is this session's alone, so no other thread stores an epoch here.
        if bound.needs.checked.load(Relaxed) == authority.epoch {
            return Ok(());
        }
        let state = self.state();
        let rights = Rights::new(&state, self.roles_seen(), authority.current());
        bound.needs.all.iter().try_for_each(|need| rights.check(need))?;
        bound.needs.checked.store(authority.epoch, Relaxed);
        Ok(())
    }

    /// Checks that the session may give a setting of its roles this value: `SET ROLE`, `SET SESSION AUTHORIZATION`.
    ///
    /// # Errors
    /// `22023` for an unknown role, `42501`
    pub(super) fn check_role_setting(&mut self, name: &str, value: Option<&str>) -> SqlResult<()> {
        let is_of = |setting: &str| name.eq_ignore_ascii_case(setting);
        if !is_of(SESSION_USER) && !is_of(ROLE) {
            return Ok(());
        }
        self.refresh_authority();
        let Some(value) = value else { return Ok(()) };
        if is_of(ROLE) && value == NONE {
            return Ok(());
        }
        let roles = self.roles_seen();
        let unknown = || {
            let message = format!("role \"{value}\" does not exist");
            SqlError::new(SqlState::INVALID_PARAMETER_VALUE, message)
        };
        let oid = roles.oid_of(value).ok_or_else(unknown)?;
        let denied = |message: String| Err(SqlError::new(SqlState::INSUFFICIENT_PRIVILEGE, message));
        if is_of(ROLE) && !roles.may_become(self.authority.session.1, oid) {
            return denied(format!("permission denied to set role \"{value}\""));
        }
        if is_of(SESSION_USER) && oid != self.authority.login && !roles.is_superuser(self.authority.login) {
            return denied("permission denied to set session authorization".to_owned());
        }
        Ok(())
    }

    /// Checks that nothing depends on roles that are dropped. The lock of definitions is held until the end of the
    /// transaction.
    ///
    /// # Errors
    /// `2BP01`
    pub(super) fn check_unused_roles(&mut self, names: &[String]) -> SqlResult<Option<Parked>> {
        self.refuse_roles_in_block("DROP ROLE")?;
        loop {
            match self.run(&[], RunNeeds::Order, |_| Ok(())).map_err(|error| read_only(error, "DROP ROLE"))? {
                RunOutcome::Done(()) => break,
                RunOutcome::Moved => {}
                RunOutcome::Parked(parked) => return Ok(Some(parked)),
            }
        }
        let (state, snapshot) = (self.database.catalog.current(), self.see_now());
        let state = if self.has_definitions() { Arc::clone(&snapshot.state) } else { state };
        for name in names {
            // Who may not drop the role, or not any, is told that first.
            let Some(oid) = self.roles_seen().oid_of(name).filter(|oid| self.may_drop_role(*oid)) else { continue };
            check_unused(&state, &snapshot, name, oid)?;
        }
        Ok(None)
    }

    fn may_drop_role(&self, oid: u32) -> bool {
        let (roles, own) = (self.roles_seen(), self.authority.current());
        let may_create = || roles.get(&self.env.user).is_some_and(|role| role.may_create_roles);
        let is_own = [own, self.authority.session.1].contains(&oid);
        let is_fixed = oid == catalog::OWNER || settings::roles::is_predefined(oid);
        !is_own && !is_fixed && (roles.is_superuser(own) || may_create() && !roles.is_superuser(oid))
    }

    /// Checks that the role of a new session may connect to the database.
    ///
    /// # Errors
    /// `42501`
    pub(super) fn check_connect(&mut self) -> SqlResult<()> {
        self.refresh_authority();
        let state = self.state();
        let rights = Rights::new(&state, self.roles_seen(), self.authority.current());
        rights.check_database(Privileges::CONNECT).map_err(|error| {
            let message = format!("permission denied for database \"{}\"", catalog::DATABASE);
            error.with_message(&message).detail("User does not have CONNECT privilege.")
        })
    }

    /// Checks the roles that the settings of a new session name.
    ///
    /// # Errors
    /// `22023`, `42501`
    pub(super) fn check_first_roles(&mut self) -> SqlResult<()> {
        for (name, own) in [(SESSION_USER, self.user.clone()), (ROLE, NONE.to_owned())] {
            let value = self.settings.show(name)?.to_owned();
            if value != own {
                self.check_role_setting(name, Some(&value))?;
            }
        }
        Ok(())
    }

    /// Returns true if a change of this setting ends a `SET ROLE`.
    pub(super) fn ends_role(name: &str) -> bool {
        name.eq_ignore_ascii_case(SESSION_USER)
    }
}
