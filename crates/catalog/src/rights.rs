//! Rights of a role by one state of the catalog: what it owns, what it has been granted, and the checks of both.
//!
//! **Invariant:** the only place where a privilege is decided on. Statements say what they need ([`RelationNeed`]), and
//! ask here when they run, for the role that they run as.

use crate::acl::{Acl, AclKind, Privileges, Securable};
use crate::{CatalogState, DATABASE, DATABASE_OID, OWNER, Relation, SessionContext};
use settings::roles::{READ_ALL_DATA, Roles, WRITE_ALL_DATA};
use statement::error::{SqlError, SqlResult, SqlState};
use std::borrow::Cow;
use std::cell::OnceCell;
use types::PG_CATALOG;

/// System tables that only superusers may read unless it is granted: they have secrets.
const PROTECTED: [&str; 8] = [
    "pg_authid",
    "pg_shadow",
    "pg_statistic",
    "pg_statistic_ext_data",
    "pg_user_mapping",
    "pg_largeobject",
    "pg_hba_file_rules",
    "pg_file_settings",
];

/// The database, as an object with privileges.
pub const DATABASE_ITSELF: Securable = Securable { oid: DATABASE_OID, kind: AclKind::Database, owner: OWNER };

/// Rights on one relation that a statement needs.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RelationNeed {
    /// OID of the relation.
    pub relation: u32,
    /// Role as which the relation is used: the owner of the view that names it; `None` for the current role.
    pub role: Option<u32>,
    /// Privileges on the relation.
    pub privileges: Privileges,
    /// Privileges of which one is enough; none if these do not matter.
    pub any: Privileges,
    /// True if the rights of the owner are needed.
    pub is_owner: bool,
    /// Attribute numbers of the columns that are read.
    pub reads: Vec<i16>,
    /// Attribute numbers of the columns that an INSERT gives values to.
    pub inserts: Vec<i16>,
    /// Attribute numbers of the columns that are updated.
    pub updates: Vec<i16>,
}

/// Rights of a role.
pub struct Rights<'s> {
    state: &'s CatalogState,
    roles: &'s Roles,
    role: u32,
    is_superuser: bool,
    /// Roles whose rights it has.
    held: OnceCell<Vec<u32>>,
}

impl<'s> Rights<'s> {
    /// Returns the rights of the role with this OID.
    pub fn new(state: &'s CatalogState, roles: &'s Roles, role: u32) -> Rights<'s> {
        Rights { state, roles, role, is_superuser: roles.is_superuser(role), held: OnceCell::new() }
    }

    /// Returns the rights of a session's current role by this state; `None` outside of statements, where nothing is
    /// checked.
    pub fn of_session<'e: 's>(state: &'s CatalogState, env: &'e dyn SessionContext) -> Option<Rights<'s>> {
        let snapshot = env.catalog_snapshot()?;
        Some(Rights::new(state, &snapshot.roles, role_named(&snapshot.roles, env.user())))
    }

    /// Returns the OID of the role.
    pub fn role(&self) -> u32 {
        self.role
    }

    /// Returns true if the role is a superuser, who may do everything.
    pub fn is_superuser(&self) -> bool {
        self.is_superuser
    }

    /// Returns the roles whose rights the role has.
    fn held(&self) -> &[u32] {
        self.held.get_or_init(|| self.roles.inherited(self.role))
    }

    /// Returns true if the role has the rights of an owner.
    pub fn owns(&self, owner: u32) -> bool {
        self.is_superuser || self.role == owner || self.held().contains(&owner)
    }

    /// Returns the privileges on an object.
    pub fn on(&self, of: Securable) -> Privileges {
        if self.is_superuser {
            return of.kind.all();
        }
        let held = self.held();
        let mut all = self.state.acl(of).privileges_of(held);
        if held.contains(&READ_ALL_DATA) {
            all |= match of.kind {
                AclKind::Table | AclKind::Column | AclKind::Sequence => Privileges::SELECT,
                AclKind::Schema => Privileges::USAGE,
                AclKind::Database | AclKind::Routine | AclKind::Language | AclKind::Type => Privileges::NONE,
            };
        }
        if held.contains(&WRITE_ALL_DATA) {
            all |= match of.kind {
                AclKind::Table | AclKind::Column | AclKind::Sequence => {
                    Privileges::INSERT | Privileges::UPDATE | Privileges::DELETE
                }
                AclKind::Schema => Privileges::USAGE,
                AclKind::Database | AclKind::Routine | AclKind::Language | AclKind::Type => Privileges::NONE,
            };
        }
        all
    }

    /// Returns the privileges with grant option on an object.
    pub fn options_on(&self, of: Securable) -> Privileges {
        if self.owns(of.owner) {
            return of.kind.all();
        }
        self.state.acl(of).options_of(self.held())
    }

    /// Returns the privileges on a column that were granted for it alone.
    pub fn on_column(&self, relation: u32, column: i16) -> Privileges {
        let list = self.state.own_acl(relation, column);
        list.map_or(Privileges::NONE, |list| list.privileges_of(self.held()))
    }

    /// Returns the columns of a relation on which anything was granted for them alone.
    pub fn columns_with_lists(&self, relation: u32) -> impl Iterator<Item = i16> {
        self.state.columns_with_acl(relation)
    }

    /// Returns the grant options on a column that were granted for it alone.
    pub fn options_on_column(&self, relation: u32, column: i16) -> Privileges {
        let list = self.state.own_acl(relation, column);
        list.map_or(Privileges::NONE, |list| list.options_of(self.held()))
    }

    /// Returns the grantor, and the privileges that it may grant, for a grant by this role: the owner if it has the
    /// owner's rights, otherwise the one of its roles with the most of the grant options.
    pub fn grantor(&self, of: Securable, list: &Acl, wanted: Privileges) -> (u32, Privileges) {
        if self.owns(of.owner) {
            return (of.owner, wanted);
        }
        let mut best = (self.role, Privileges::NONE);
        for role in self.held() {
            let options = list.options_of(&[*role]) & wanted;
            if options == wanted {
                return (*role, options);
            }
            if best.1.iter().count() < options.iter().count() {
                best = (*role, options);
            }
        }
        best
    }

    /// Checks a need of a statement.
    ///
    /// # Errors
    /// `42501`
    pub fn check(&self, need: &RelationNeed) -> SqlResult<()> {
        if let Some(role) = need.role.filter(|role| *role != self.role) {
            let other = RelationNeed { role: None, ..need.clone() };
            return Rights::new(self.state, self.roles, role).check(&other);
        }
        if self.is_superuser {
            return Ok(());
        }
        let Some(of) = self.state.securable(need.relation) else { return Ok(()) };
        if need.is_owner && !self.owns(of.owner) {
            let relation = self.state.relation_numbered(need.relation);
            return relation.map_or(Ok(()), |relation| self.check_owner(relation));
        }
        if !need.any.is_empty() && !self.on(of).has_any(need.any) {
            return Err(self.denied_relation(need.relation));
        }
        let missing = need.privileges - self.on(of);
        let by_column = Privileges::SELECT | Privileges::INSERT | Privileges::UPDATE;
        let is_enough = (missing - by_column).is_empty()
            && [
                (Privileges::SELECT, &need.reads),
                (Privileges::INSERT, &need.inserts),
                (Privileges::UPDATE, &need.updates),
            ]
            .into_iter()
            .filter(|(one, _)| missing.has(*one))
            .all(|(one, columns)| self.has_columns(of.oid, one, columns));
        if is_enough { Ok(()) } else { Err(self.denied_relation(need.relation)) }
    }

    /// Returns true if the role has a privilege on all of these columns. Without columns, one of the relation is
    /// enough.
    fn has_columns(&self, relation: u32, privilege: Privileges, columns: &[i16]) -> bool {
        match columns {
            [] => self.state.columns_with_acl(relation).any(|column| self.on_column(relation, column).has(privilege)),
            columns => columns.iter().all(|column| self.on_column(relation, *column).has(privilege)),
        }
    }

    /// Checks a privilege on an object that is no relation, which messages call by this word and name: EXECUTE on a
    /// routine, for example.
    ///
    /// # Errors
    /// `42501`
    pub fn check_object(&self, of: Securable, privilege: Privileges, (word, name): (&str, &str)) -> SqlResult<()> {
        if self.on(of).has(privilege) { Ok(()) } else { Err(denied(word, name)) }
    }

    /// Checks that the role has one of these privileges on a relation.
    ///
    /// # Errors
    /// `42501`
    pub fn check_any(&self, relation: u32, privileges: Privileges) -> SqlResult<()> {
        match self.state.securable(relation) {
            Some(of) if !self.on(of).has_any(privileges) => Err(self.denied_relation(relation)),
            Some(_) | None => Ok(()),
        }
    }

    /// Checks a privilege on a schema.
    ///
    /// # Errors
    /// `42501`
    pub fn check_schema(&self, name: &str, privilege: Privileges) -> SqlResult<()> {
        if self.has_schema(name, privilege) { Ok(()) } else { Err(denied("schema", name)) }
    }

    /// Returns true if the role has a privilege on a schema. A schema that does not exist is nobody's to refuse.
    pub fn has_schema(&self, name: &str, privilege: Privileges) -> bool {
        if self.is_superuser {
            return true;
        }
        match self.state.schema(name) {
            Some(schema) => self.on(schema.securable()).has(privilege),
            None => privilege == Privileges::USAGE || !crate::system::is_schema(name),
        }
    }

    /// Checks a privilege on the database.
    ///
    /// # Errors
    /// `42501`
    pub fn check_database(&self, privilege: Privileges) -> SqlResult<()> {
        self.check_object(DATABASE_ITSELF, privilege, ("database", DATABASE))
    }

    /// Checks that the role owns a relation; an index is its table's.
    ///
    /// # Errors
    /// `42501`
    pub fn check_owner(&self, relation: &Relation) -> SqlResult<()> {
        let has_it = self.owns(relation.owner());
        if has_it { Ok(()) } else { Err(not_owner(relation.word(), relation.name())) }
    }

    fn denied_relation(&self, relation: u32) -> SqlError {
        match self.state.relation_numbered(relation) {
            Some(relation) => denied(relation.word(), relation.name()),
            None => match crate::system::numbered(relation, None) {
                Some(table) => denied(if table.is_view { "view" } else { "table" }, &table.name),
                None => denied("table", &relation.to_string()),
            },
        }
    }
}

/// Returns the OID of a session's role. A session without a user is the program's own, and an unknown role has only
/// what PUBLIC has.
pub fn role_named(roles: &Roles, name: &str) -> u32 {
    if name.is_empty() { OWNER } else { roles.oid_of(name).unwrap_or(crate::acl::PUBLIC_ROLE) }
}

/// Returns the tenant of a session's role, by the OID of a role.
pub fn tenant_of(roles: &Roles, name: &str) -> u32 {
    if name.is_empty() { OWNER } else { roles.tenant_of(name).unwrap_or(crate::acl::PUBLIC_ROLE) }
}

/// Returns the error for a missing privilege.
pub fn denied(word: &str, name: &str) -> SqlError {
    SqlError::new(SqlState::INSUFFICIENT_PRIVILEGE, format!("permission denied for {word} {name}"))
}

/// Returns the error for an object of another owner.
pub fn not_owner(word: &str, name: &str) -> SqlError {
    SqlError::new(SqlState::INSUFFICIENT_PRIVILEGE, format!("must be owner of {word} {name}"))
}

impl CatalogState {
    /// Returns the list of an object: its own, or the default one.
    pub fn acl(&self, of: Securable) -> Cow<'_, Acl> {
        match self.own_acl(of.oid, 0) {
            Some(list) => Cow::Borrowed(&**list),
            None => Cow::Owned(default_acl(of)),
        }
    }

    /// Returns a relation of the catalog or of the system, as an object with privileges.
    pub fn securable(&self, relation: u32) -> Option<Securable> {
        if let Some(relation) = self.relation_numbered(relation) {
            return Some(Securable::relation(relation));
        }
        let is_system = relation < crate::FIRST_OID;
        is_system.then_some(Securable { oid: relation, kind: AclKind::Table, owner: OWNER })
    }
}

/// Returns the list of an object without one of its own. Everybody may read most of the system's tables.
fn default_acl(of: Securable) -> Acl {
    let list = Acl::default_of(of.kind, of.owner);
    let is_system = of.kind == AclKind::Table && of.oid < crate::FIRST_OID;
    if !is_system {
        return list;
    }
    let is_protected = |table: &crate::SystemTable| table.schema == PG_CATALOG && PROTECTED.contains(&&*table.name);
    match crate::system::tables().iter().find(|table| table.oid == of.oid) {
        Some(table) if is_protected(table) => list,
        Some(_) | None => list.with(&Acl::of(vec![crate::acl::AclItem {
            grantee: crate::acl::PUBLIC_ROLE,
            grantor: of.owner,
            privileges: Privileges::SELECT,
            options: Privileges::NONE,
        }])),
    }
}
