//! `ALTER DEFAULT PRIVILEGES`: privileges of objects that a role will create.

use super::grant::{ResolvedChange, invalid, no_schema};
use super::{Ddl, DdlResult};
use catalog::acl::{Acl, AclKind};
use catalog::{DefaultRights, DefaultRightsKey};
use statement::error::{SqlError, SqlResult, SqlState};
use syntax::ast::{DefaultPrivileges, GrantKind};

impl Ddl<'_> {
    pub(super) fn default_privileges(&mut self, command: &DefaultPrivileges) -> SqlResult<DdlResult> {
        let DefaultPrivileges { roles, schemas, repeated, change, kind } = command;
        if let Some(place) = repeated {
            let error = SqlError::new(SqlState::SYNTAX_ERROR, "conflicting or redundant options");
            return Err(self.binder().at_place(error, *place));
        }
        if change.privileges.iter().any(|item| !item.columns.is_empty()) {
            return Err(invalid("default privileges cannot be set for columns".to_owned()));
        }
        let (kind, word) = kind_of(*kind);
        let change = self.resolved(change, kind.all(), word, false)?;
        if !schemas.is_empty() && kind == AclKind::Schema {
            let message = "cannot use IN SCHEMA clause when using GRANT/REVOKE ON SCHEMAS";
            return Err(invalid(message.to_owned()));
        }
        let roles = match &roles[..] {
            [] => vec![self.user()],
            roles => roles.iter().map(|role| self.role(role)).collect::<SqlResult<_>>()?,
        };
        for role in roles {
            self.check_may_become(role)?;
            if schemas.is_empty() {
                self.set_default_of(role, 0, kind, &change)?;
            }
            for name in schemas {
                let schema = self.state.schema(name).ok_or_else(|| no_schema(name))?.oid;
                self.set_default_of(role, schema, kind, &change)?;
            }
        }
        Ok("ALTER DEFAULT PRIVILEGES".into())
    }

    fn set_default_of(&mut self, role: u32, schema: u32, kind: AclKind, change: &ResolvedChange) -> SqlResult<()> {
        let Some(roles) = self.roles() else { return Ok(()) };
        let key = (role, schema, kind);
        let before = self.state.default_right(key).cloned();
        let mut list = before.as_ref().map_or_else(|| built_in_of(key), |rights| rights.list.clone());
        change.apply(&mut list, change.privileges.unwrap_or_else(|| kind.all()), role, role, roles)?;
        let oid = before.map_or_else(|| self.catalog.oid(), |rights| Ok(rights.oid))?;
        self.put_default_rights(key, DefaultRights { oid, list: list.sorted() });
        Ok(())
    }

    /// Stores default privileges, unless they are those that a role has without them.
    pub(super) fn put_default_rights(&mut self, key: DefaultRightsKey, rights: DefaultRights) {
        let is_needed = !rights.list.is_same(&built_in_of(key));
        self.state.set_default_rights(key, is_needed.then_some(rights));
    }
}

/// Returns the privileges of new objects for which nothing is stored.
fn built_in_of((role, schema, kind): DefaultRightsKey) -> Acl {
    // What is for one schema is granted in addition to what is for all.
    if schema == 0 { Acl::default_of(kind, role) } else { Acl::default() }
}

fn kind_of(kind: GrantKind) -> (AclKind, &'static str) {
    match kind {
        GrantKind::Tables => (AclKind::Table, "relation"),
        GrantKind::Sequences => (AclKind::Sequence, "sequence"),
        GrantKind::Routines(_) => (AclKind::Routine, "function"),
        GrantKind::Types => (AclKind::Type, "type"),
        GrantKind::Schemas => (AclKind::Schema, "schema"),
    }
}
