//! `CREATE`, `ALTER` and `DROP ROLE`, and settings of roles and databases.
//!
//! **Invariant:** a statement is checked as a whole before it changes anything. It changes a copy, which its
//! transaction alone sees. When the transaction commits, its changes are applied once more, to the roles of that time.
//! No other transaction changes roles until the commit is decided, and the changes become visible to all sessions after
//! it. So no session sees changes that may be rolled back, and no changes are lost.

mod members;

use super::{FIRST, Role, Roles, RolesState, SettingList, is_predefined};
use crate::class_named;
use crate::defs::{DEFS, find};
use crate::takes::SettingContext;
use crate::value::accepted;
use locked::{Locked, LockedResult};
use statement::error::{SqlError, SqlResult, SqlState};
use std::sync::{Arc, MutexGuard};

/// Effect of a statement about roles.
#[derive(Clone, Debug)]
pub enum RoleChange {
    /// `CREATE ROLE`
    Create {
        /// Names of the new roles.
        names: Vec<String>,
        /// Options in the order of the text.
        options: Vec<RoleOptionChange>,
        /// OIDs, one for each name, given when the change is first made: its transaction may have shown them already.
        numbers: Vec<u32>,
        /// Roles that the new roles become members of: `IN ROLE`.
        of: Vec<String>,
        /// Roles that become members of the new roles: `ROLE`.
        members: Vec<String>,
        /// Roles that become members with the admin option: `ADMIN`.
        admins: Vec<String>,
    },
    /// `ALTER ROLE … WITH`
    Alter {
        /// Name of the role.
        name: String,
        /// Options in the order of the text.
        options: Vec<RoleOptionChange>,
    },
    /// `ALTER ROLE … RENAME TO`
    Rename {
        /// Name of the role.
        name: String,
        /// New name.
        to: String,
    },
    /// `DROP ROLE`
    Drop {
        /// Names of the roles.
        names: Vec<String>,
        /// True with `IF EXISTS`.
        if_exists: bool,
    },
    /// `GRANT role TO role`
    Grant {
        /// Names of the granted roles.
        roles: Vec<String>,
        /// Names of the new members.
        members: Vec<String>,
        /// True for `WITH ADMIN OPTION`.
        is_admin: bool,
        /// Name of the grantor; `None` for the current role.
        grantor: Option<String>,
    },
    /// `REVOKE role FROM role`
    Revoke {
        /// Names of the roles.
        roles: Vec<String>,
        /// Names of the members.
        members: Vec<String>,
        /// True for `ADMIN OPTION FOR`: the membership stays.
        is_admin_only: bool,
        /// Name of the grantor; `None` for the current role.
        grantor: Option<String>,
    },
    /// `ALTER … SET` or `RESET` of a role, of a database, or of a role in a database.
    Set {
        /// Name of the role; `None` for all.
        role: Option<String>,
        /// Name of the database; `None` without `IN DATABASE`.
        database: Option<String>,
        /// Name of the setting; `None` for all.
        setting: Option<String>,
        /// New value; `None` resets it.
        value: Option<String>,
    },
}

/// Option of a role.
#[derive(Clone, Debug)]
pub enum RoleOptionChange {
    /// `SUPERUSER`, `NOSUPERUSER`
    Superuser(bool),
    /// `CREATEROLE`, `NOCREATEROLE`
    CreateRole(bool),
    /// `CREATEDB`, `NOCREATEDB`
    CreateDb(bool),
    /// `INHERIT`, `NOINHERIT`
    Inherit(bool),
    /// `LOGIN`, `NOLOGIN`
    Login(bool),
    /// `CONNECTION LIMIT`; -1 for none.
    ConnectionLimit(i32),
    /// `PASSWORD`; `None` removes it.
    Password(Option<String>),
    /// `TENANT`, with the name of a role; `None` for `NOTENANT`.
    Tenant(Option<String>),
    /// Right that superusers have, and that no other role can get.
    OfSuperusers(&'static str),
}

/// Changes of roles by one transaction.
pub struct Changed {
    /// All roles, as the transaction sees them.
    pub seen: Arc<Roles>,
    /// Changes, each with the name of the role that has made it.
    changes: Vec<(String, RoleChange)>,
}

/// Roles as they are after the commit that is being decided. No other transaction changes roles meanwhile.
pub struct Decided<'r> {
    roles: &'r Roles,
    state: RolesState,
    _others: MutexGuard<'r, ()>,
}

impl Decided<'_> {
    /// Makes the roles visible to all sessions once the transaction has committed.
    pub fn publish(self) {
        let mut state = self.roles.write();
        *state = self.state;
        self.roles.note_change();
    }
}

impl Changed {
    /// Creates the set of a transaction that has not changed roles yet.
    pub fn new(seen: Arc<Roles>) -> Changed {
        Changed { seen, changes: Vec::new() }
    }

    /// Makes a change for the transaction. A password is hashed once, here.
    pub fn change(
        &mut self,
        change: &RoleChange,
        (user, database): (&str, &str),
        notices: &mut Vec<(&'static str, SqlError)>,
    ) -> SqlResult<()> {
        let mut change = change.hashed(&self.seen)?;
        if let RoleChange::Create { names, numbers, .. } = &mut change {
            *numbers = names.iter().map(|_| self.seen.number()).collect();
        }
        // A copy: queries of earlier statements may still use the state before.
        let seen = Arc::new(self.seen.copy());
        RoleChanger { roles: &seen, user, database, notices }.apply(&change)?;
        self.seen = seen;
        self.changes.push((user.to_owned(), change));
        Ok(())
    }

    /// Applies the changes to the current roles, for a commit.
    ///
    /// # Errors
    /// The error of a change that concurrent changes of other transactions no longer allow.
    pub fn decide<'r>(self, roles: &'r Roles, database: &str) -> SqlResult<Decided<'r>> {
        let others = roles.changing.locked();
        let copy = roles.copy();
        for (user, change) in &self.changes {
            RoleChanger { roles: &copy, user, database, notices: &mut Vec::new() }.apply(change)?;
        }
        let state = copy.state.into_inner().anyway();
        Ok(Decided { roles, state, _others: others })
    }
}

impl RoleChange {
    /// Returns the change with verifiers in the place of passwords.
    fn hashed(&self, roles: &Roles) -> SqlResult<RoleChange> {
        let mut change = self.clone();
        if let RoleChange::Create { options, .. } | RoleChange::Alter { options, .. } = &mut change {
            for option in options {
                // An empty password could never be given: clients take it for none.
                if let RoleOptionChange::Password(password) = option {
                    let given = password.take().filter(|password| !password.is_empty());
                    *password = given.map(|password| roles.hashed(&password)).transpose()?;
                }
            }
        }
        Ok(change)
    }

    /// Returns the command tag of the statement.
    pub fn tag(&self) -> &'static str {
        match self {
            RoleChange::Create { .. } => "CREATE ROLE",
            RoleChange::Drop { .. } => "DROP ROLE",
            RoleChange::Grant { .. } => "GRANT ROLE",
            RoleChange::Revoke { .. } => "REVOKE ROLE",
            RoleChange::Set { role: None, .. } => "ALTER DATABASE",
            RoleChange::Alter { .. } | RoleChange::Rename { .. } | RoleChange::Set { .. } => "ALTER ROLE",
        }
    }
}

/// User who makes a change, and the roles that it changes.
struct RoleChanger<'a> {
    roles: &'a Roles,
    user: &'a str,
    database: &'a str,
    notices: &'a mut Vec<(&'static str, SqlError)>,
}

fn denied(what: &str) -> SqlError {
    SqlError::new(SqlState::INSUFFICIENT_PRIVILEGE, what)
}

fn missing(name: &str) -> SqlError {
    SqlError::new(SqlState::UNDEFINED_OBJECT, format!("role \"{name}\" does not exist"))
}

fn exists(name: &str) -> SqlError {
    SqlError::new(SqlState::DUPLICATE_OBJECT, format!("role \"{name}\" already exists"))
}

impl RoleChanger<'_> {
    fn apply(&mut self, change: &RoleChange) -> SqlResult<()> {
        match change {
            RoleChange::Create { names, options, numbers, of, members, admins } => {
                // The first loop refuses the statement as a whole before the second changes anything.
                for name in names {
                    self.check_name(name)?;
                    if self.roles.get(name).is_some() {
                        return Err(exists(name));
                    }
                }
                for (name, number) in names.iter().zip(numbers) {
                    let role = self.with(Role::default(), options, "permission denied to create role")?;
                    self.put(name, Some(Role { oid: *number, ..role }));
                }
                // Whoever may create a role may give it members, and make it one.
                self.grant(of, names, false, None)?;
                self.grant(names, admins, true, None)?;
                self.grant(names, members, false, None)
            }
            RoleChange::Grant { roles, members, is_admin, grantor } => {
                self.grant(roles, members, *is_admin, grantor.as_deref())
            }
            RoleChange::Revoke { roles, members, is_admin_only, grantor } => {
                self.revoke(roles, members, *is_admin_only, grantor.as_deref())
            }
            RoleChange::Alter { name, options } => {
                self.check_not_reserved(name, "Cannot alter reserved roles.")?;
                let role = self.role(name)?;
                // Every role may change its own password.
                let changes_password_only =
                    options.iter().all(|option| matches!(option, RoleOptionChange::Password(_)));
                self.check_attributes(&role, options)?;
                if !(changes_password_only && name == self.user) {
                    self.may_change(&role, "permission denied")?;
                }
                if name == FIRST
                    && options.iter().any(|option| {
                        matches!(option, RoleOptionChange::Superuser(false) | RoleOptionChange::Login(false))
                    })
                {
                    return Err(
                        denied("permission denied").detail("The bootstrap user must be a superuser who may log in.")
                    );
                }
                let role = self.with(role, options, "permission denied")?;
                self.put(name, Some(role));
                Ok(())
            }
            RoleChange::Rename { name, to } => {
                let role = self.role(name)?;
                if role.is_superuser && !self.own().is_superuser {
                    return Err(denied("must be superuser to rename superusers"));
                }
                self.may_change(&role, "permission denied to rename role")?;
                self.check_not_reserved(name, "Role names starting with \"pg_\" are reserved.")?;
                self.check_name(to)?;
                if name == self.user {
                    return Err(SqlError::unsupported("to rename the session's user"));
                }
                if name == FIRST {
                    return Err(SqlError::unsupported("to rename the first role"));
                }
                if self.roles.get(to).is_some() {
                    return Err(exists(to));
                }
                self.put(name, None);
                self.put(to, Some(role));
                Ok(())
            }
            RoleChange::Drop { names, if_exists } => {
                let own = self.own();
                if !own.is_superuser && !own.may_create_roles {
                    return Err(denied("permission denied to drop role"));
                }
                for name in names {
                    match self.roles.get(name) {
                        Some(role) => self.may_drop(&role)?,
                        None if *if_exists => {
                            let message = format!("role \"{name}\" does not exist, skipping");
                            self.notices.push(("NOTICE", SqlError::new(SqlState::SUCCESSFUL_COMPLETION, message)));
                        }
                        None => return Err(missing(name)),
                    }
                    if name == self.user {
                        return Err(SqlError::new(SqlState::OBJECT_IN_USE, "current user cannot be dropped"));
                    }
                    if name == FIRST || self.roles.oid_of(name).is_some_and(is_predefined) {
                        let message = format!("cannot drop role {name} because it is required by the database system");
                        return Err(SqlError::new(SqlState::DEPENDENT_OBJECTS_STILL_EXIST, message));
                    }
                }
                self.check_no_tenants(names)?;
                for name in names {
                    if let Some(oid) = self.roles.oid_of(name) {
                        self.put(name, None);
                        self.forget_memberships(oid);
                    }
                }
                Ok(())
            }
            RoleChange::Set { role, database, setting, value } => {
                self.set(role.as_deref(), database.as_deref(), setting.as_deref(), value.as_deref())
            }
        }
    }

    /// Returns the OID of a role that becomes the tenant of another. Tenants are of one level.
    fn tenant(&self, role: &Role, name: &str) -> SqlResult<Option<u32>> {
        let tenant = self.role(name)?;
        if tenant.oid == role.oid {
            // Every role is a tenant of its own, unless it belongs to another.
            return Ok(None);
        }
        let invalid = |message: String| Err(SqlError::new(SqlState::INVALID_PARAMETER_VALUE, message));
        if tenant.tenant.is_some() {
            return invalid(format!("role \"{name}\" belongs to another tenant"));
        }
        if role.oid != 0 && self.roles.all().iter().any(|(_, other)| other.tenant == Some(role.oid)) {
            return invalid("a role that is the tenant of others cannot belong to one".to_owned());
        }
        Ok(Some(tenant.oid))
    }

    /// Fails if a role that stays belongs to the tenant of one that is dropped.
    fn check_no_tenants(&self, dropped: &[String]) -> SqlResult<()> {
        for name in dropped {
            let Some(oid) = self.roles.oid_of(name) else { continue };
            let stays = |other: &String| !dropped.contains(other);
            let of_tenant =
                |(other, role): (String, Role)| (role.tenant == Some(oid) && stays(&other)).then_some(other);
            let left: Vec<String> = self.roles.all().into_iter().filter_map(of_tenant).collect();
            if !left.is_empty() {
                let message = format!("role \"{name}\" cannot be dropped because some objects depend on it");
                let detail: Vec<String> =
                    left.iter().map(|other| format!("role {other} belongs to its tenant")).collect();
                return Err(SqlError::new(SqlState::DEPENDENT_OBJECTS_STILL_EXIST, message).detail(detail.join("\n")));
            }
        }
        Ok(())
    }

    fn role(&self, name: &str) -> SqlResult<Role> {
        self.roles.get(name).ok_or_else(|| missing(name))
    }

    fn own(&self) -> Role {
        self.roles.get(self.user).unwrap_or_default()
    }

    fn check_name(&self, name: &str) -> SqlResult<()> {
        if name.starts_with("pg_") || matches!(name, "public" | "none") {
            let error = SqlError::new(SqlState::RESERVED_NAME, format!("role name \"{name}\" is reserved"));
            return Err(if name.starts_with("pg_") {
                error.detail("Role names starting with \"pg_\" are reserved.")
            } else {
                error
            });
        }
        Ok(())
    }

    fn check_not_reserved(&self, name: &str, detail: &str) -> SqlResult<()> {
        if !name.starts_with("pg_") {
            return Ok(());
        }
        let message = format!("role name \"{name}\" is reserved");
        Err(SqlError::new(SqlState::RESERVED_NAME, message).detail(detail))
    }

    fn may_change(&self, role: &Role, refusal: &str) -> SqlResult<()> {
        let own = self.own();
        let may = own.is_superuser || own.may_create_roles && !role.is_superuser;
        if may { Ok(()) } else { Err(denied(refusal)) }
    }

    /// Checks that the current role may change these attributes of another, before any other right.
    ///
    /// # Errors
    /// `42501`
    fn check_attributes(&self, role: &Role, options: &[RoleOptionChange]) -> SqlResult<()> {
        if self.own().is_superuser {
            return Ok(());
        }
        if role.is_superuser || options.iter().any(|one| matches!(one, RoleOptionChange::Superuser(_))) {
            return Err(denied("must be superuser to alter superuser roles or change superuser attribute"));
        }
        let gives = |right| options.iter().any(|one| matches!(one, RoleOptionChange::OfSuperusers(of) if *of == right));
        if gives("REPLICATION") {
            return Err(denied("must be superuser to alter replication roles or change replication attribute"));
        }
        if gives("BYPASSRLS") {
            return Err(denied("must be superuser to change bypassrls attribute"));
        }
        Ok(())
    }

    fn may_drop(&self, role: &Role) -> SqlResult<()> {
        match role.is_superuser && !self.own().is_superuser {
            true => Err(denied("must be superuser to drop superusers")),
            false => Ok(()),
        }
    }

    fn with(&self, mut role: Role, options: &[RoleOptionChange], refusal: &str) -> SqlResult<Role> {
        let own = self.own();
        let is_new = role.oid == 0;
        if is_new && !own.is_superuser {
            if options.iter().any(|option| matches!(option, RoleOptionChange::Superuser(true))) {
                return Err(denied("must be superuser to create superusers"));
            }
            if !own.may_create_roles {
                return Err(denied(refusal));
            }
        }
        for option in options {
            match option {
                RoleOptionChange::Superuser(is) => role.is_superuser = *is,
                RoleOptionChange::CreateRole(may) => role.may_create_roles = *may,
                RoleOptionChange::CreateDb(may) => role.may_create_databases = *may,
                RoleOptionChange::Inherit(does) => role.inherits = *does,
                RoleOptionChange::Login(may) => role.may_log_in = *may,
                RoleOptionChange::ConnectionLimit(limit) if *limit < -1 => {
                    return Err(SqlError::new(
                        SqlState::INVALID_PARAMETER_VALUE,
                        format!("invalid connection limit: {limit}"),
                    ));
                }
                RoleOptionChange::ConnectionLimit(limit) => role.connections_max = *limit,
                // Checked when the other options have been applied.
                RoleOptionChange::OfSuperusers(_) => {}
                RoleOptionChange::Password(password) => role.password.clone_from(password),
                RoleOptionChange::Tenant(_) if !own.is_superuser => {
                    return Err(denied("must be superuser to change the tenant of a role"));
                }
                RoleOptionChange::Tenant(None) => role.tenant = None,
                RoleOptionChange::Tenant(Some(name)) => {
                    role.tenant = self.tenant(&role, name)?;
                }
            }
        }
        for option in options {
            if let RoleOptionChange::OfSuperusers(right) = option
                && !role.is_superuser
            {
                return Err(SqlError::unsupported(*right));
            }
        }
        Ok(role)
    }

    fn put(&mut self, name: &str, role: Option<Role>) {
        match role {
            Some(role) => self.roles.put(name, role),
            None => drop(self.roles.remove(name)),
        }
    }

    fn set(
        &mut self,
        role: Option<&str>,
        database: Option<&str>,
        setting: Option<&str>,
        value: Option<&str>,
    ) -> SqlResult<()> {
        if let Some(database) = database.filter(|database| *database != self.database) {
            return Err(SqlError::new(
                SqlState::INVALID_CATALOG_NAME,
                format!("database \"{database}\" does not exist"),
            ));
        }
        let own = self.own();
        let before = role.map(|name| self.role(name)).transpose()?;
        // A role may change its own settings.
        match (&before, role) {
            (Some(before), _) if before.is_superuser && !own.is_superuser => {
                return Err(denied("must be superuser to alter superusers"));
            }
            (Some(before), name) if name != Some(self.user) => self.may_change(before, "permission denied")?,
            (None, _) if !own.is_superuser => {
                return Err(denied(&format!("must be owner of database {}", self.database)).at(1));
            }
            _ => {}
        }
        let changed = match setting {
            None => None,
            Some(setting) => Some((setting, self.check_setting(&own, before.as_ref(), setting, value)?)),
        };
        let change = |list: &mut SettingList| match &changed {
            None => list.clear(),
            Some((setting, value)) => {
                let at = list.iter().position(|(name, _)| name == setting);
                match (at, value) {
                    (Some(at), Some(value)) => list[at].1.clone_from(value),
                    (None, Some(value)) => list.push(((*setting).to_owned(), value.clone())),
                    (Some(at), None) => drop(list.remove(at)),
                    (None, None) => {}
                }
            }
        };
        match (role, before, database) {
            (Some(name), Some(mut role), None) => {
                change(&mut role.settings);
                self.put(name, Some(role));
            }
            (Some(name), Some(mut role), Some(database)) => {
                change(role.settings_in.entry(database.to_owned()).or_default());
                self.put(name, Some(role));
            }
            (_, _, Some(database)) => {
                let mut list = self.roles.of_database(database);
                change(&mut list);
                self.roles.put_database(database, list);
            }
            (_, _, None) => return Err(SqlError::unsupported("ALTER ROLE ALL without a database")),
        }
        Ok(())
    }

    /// Returns the value in the form in which it is kept, if the setting may be given to a role.
    fn check_setting(
        &self,
        own: &Role,
        of: Option<&Role>,
        setting: &str,
        value: Option<&str>,
    ) -> SqlResult<Option<String>> {
        let at = find(setting).ok_or_else(|| {
            SqlError::new(SqlState::UNDEFINED_OBJECT, format!("unrecognized configuration parameter \"{setting}\""))
        })?;
        let def = &DEFS[at];
        let cannot = |why: &str| {
            Err(SqlError::new(SqlState::CANT_CHANGE_RUNTIME_PARAM, format!("parameter \"{}\" {why}", def.title)))
        };
        match def.context {
            SettingContext::Internal => return cannot("cannot be changed"),
            SettingContext::Postmaster => return cannot("cannot be changed without restarting the server"),
            SettingContext::Superuser if !own.is_superuser => {
                return Err(denied(&format!("permission denied to set parameter \"{}\"", def.title)));
            }
            SettingContext::Superuser | SettingContext::User => {}
        }
        let Some(value) = value else { return Ok(None) };
        let value = accepted(def, value)?;
        // A role cannot give itself, or another, a class above its own highest.
        if def.name == "overtake.priority" && !own.is_superuser {
            let list = |role: &Role| role.settings.iter().find(|(name, _)| name == "overtake.priority_max").cloned();
            let highest = of.and_then(list).or_else(|| list(own));
            if highest.is_some_and(|(_, highest)| class_named(&value) < class_named(&highest)) {
                return Err(denied(&format!("permission denied to set parameter \"{}\"", def.title)));
            }
        }
        Ok(Some(value.into_owned()))
    }
}
