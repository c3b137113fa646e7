//! Rights that definitions need, and privileges of the objects that they create.

use super::Ddl;
use catalog::acl::{Privileges, Securable};
use catalog::rights::{Rights, not_owner, role_named};
use catalog::{ColumnDef, Relation, Routine, Schema};
use settings::roles::Roles;
use statement::error::{SqlError, SqlResult, SqlState};
use syntax::ast::RoleName;

impl Ddl<'_> {
    /// Returns the OID of the current role.
    pub(super) fn user(&self) -> u32 {
        self.roles().map_or(catalog::OWNER, |roles| role_named(roles, &self.run.env.user))
    }

    /// Returns the roles as the statement sees them.
    pub(super) fn roles(&self) -> Option<&Roles> {
        self.run.env.catalog_snapshot.as_ref().map(|snapshot| &*snapshot.roles)
    }

    /// Returns the rights of the current role, by the catalog as the statement has it so far.
    pub(super) fn rights(&self) -> Option<Rights<'_>> {
        Rights::of_session(&self.state, self.run.env)
    }

    fn check(&self, check: impl FnOnce(&Rights<'_>) -> SqlResult<()>) -> SqlResult<()> {
        self.rights().map_or(Ok(()), |rights| check(&rights))
    }

    /// Checks that the current role owns a relation.
    ///
    /// # Errors
    /// `42501`
    pub(super) fn check_owner(&self, relation: &Relation) -> SqlResult<()> {
        self.check(|rights| rights.check_owner(relation))
    }

    /// Checks that the current role owns the relation of a column or a constraint.
    ///
    /// # Errors
    /// `42501`
    pub(super) fn check_owner_of_part(&self, relation: &Relation) -> SqlResult<()> {
        self.check(|rights| match rights.owns(relation.owner()) {
            true => Ok(()),
            false => Err(not_owner("relation", relation.name())),
        })
    }

    /// Checks that the current role may drop a relation: it owns the relation or its schema.
    ///
    /// # Errors
    /// `42501`
    pub(super) fn check_may_drop(&self, relation: &Relation) -> SqlResult<()> {
        self.check(|rights| match self.state.schema_numbered(relation.schema()) {
            Some(schema) if rights.owns(schema.owner) => Ok(()),
            Some(_) | None => rights.check_owner(relation),
        })
    }

    /// Checks that the current role owns a schema.
    ///
    /// # Errors
    /// `42501`
    pub(super) fn check_schema_owner(&self, schema: &Schema) -> SqlResult<()> {
        self.check(|rights| match rights.owns(schema.owner) {
            true => Ok(()),
            false => Err(not_owner("schema", &schema.name)),
        })
    }

    /// Checks that the current role owns a routine, of which a refusal has this word and this name.
    ///
    /// # Errors
    /// `42501`
    pub(super) fn check_routine_owner(&self, routine: &Routine, (word, name): (&str, &str)) -> SqlResult<()> {
        self.check(|rights| match rights.owns(routine.owner) {
            true => Ok(()),
            false => Err(not_owner(word, name)),
        })
    }

    /// Checks that the current role may create objects in a schema.
    ///
    /// # Errors
    /// `42501`
    pub(super) fn check_create(&self, schema: &Schema) -> SqlResult<()> {
        self.check(|rights| rights.check_schema(&schema.name, Privileges::CREATE))
    }

    /// Checks that the current role may create objects in the schema of a relation.
    ///
    /// # Errors
    /// `42501`
    pub(super) fn check_create_beside(&self, relation: &Relation) -> SqlResult<()> {
        self.state.schema_numbered(relation.schema()).map_or(Ok(()), |schema| self.check_create(schema))
    }

    /// Checks that the current role may create schemas.
    ///
    /// # Errors
    /// `42501`
    pub(super) fn check_create_schema(&self) -> SqlResult<()> {
        self.check(|rights| rights.check_database(Privileges::CREATE))
    }

    /// Checks that the current role has a privilege on a whole relation.
    ///
    /// # Errors
    /// `42501`
    pub(super) fn check_privilege(&self, relation: u32, privilege: Privileges) -> SqlResult<()> {
        self.check(|rights| rights.check_any(relation, privilege))
    }

    /// Checks that the current role may refer to these columns of a table by a foreign key.
    ///
    /// # Errors
    /// `42501`
    pub(super) fn check_references(&self, table: u32, columns: &[ColumnDef], places: &[usize]) -> SqlResult<()> {
        self.check(|rights| {
            let has_it = |at: &usize| {
                let column = columns.get(*at);
                column.is_some_and(|column| rights.on_column(table, column.number).has(Privileges::REFERENCES))
            };
            match places.iter().all(has_it) {
                true => Ok(()),
                false => rights.check_any(table, Privileges::REFERENCES),
            }
        })
    }

    /// Checks that the current role may give objects to another: it can become that role.
    ///
    /// # Errors
    /// `42501`
    pub(super) fn check_may_become(&self, role: u32) -> SqlResult<()> {
        let Some(roles) = self.roles() else { return Ok(()) };
        if roles.may_become(self.user(), role) {
            return Ok(());
        }
        let message = format!("must be member of role \"{}\"", self.role_name(role));
        Err(SqlError::new(SqlState::INSUFFICIENT_PRIVILEGE, message))
    }

    /// Checks that the current role may make another the owner of a relation, and that the new owner may create objects
    /// where it is.
    ///
    /// # Errors
    /// `42501`
    pub(super) fn check_new_owner(&self, relation: &Relation, role: u32) -> SqlResult<()> {
        let Some(rights) = self.rights() else { return Ok(()) };
        if rights.is_superuser() || relation.owner() == role {
            return Ok(());
        }
        self.check_may_become(role)?;
        let Some(schema) = self.state.schema_numbered(relation.schema()) else { return Ok(()) };
        self.check_create_as(schema, role)
    }

    /// Checks that a role may create objects in a schema.
    ///
    /// # Errors
    /// `42501`
    pub(super) fn check_create_as(&self, schema: &Schema, role: u32) -> SqlResult<()> {
        let Some(roles) = self.roles() else { return Ok(()) };
        Rights::new(&self.state, roles, role).check_schema(&schema.name, Privileges::CREATE)
    }

    /// Returns the name of a role, for messages.
    pub(super) fn role_name(&self, role: u32) -> String {
        let name = self.roles().and_then(|roles| roles.name_of(role));
        name.map_or_else(|| role.to_string(), |name| name.to_string())
    }

    /// Returns the OID of an existing role.
    ///
    /// # Errors
    /// `42704`
    pub(super) fn role(&self, role: &RoleName) -> SqlResult<u32> {
        let name = match role {
            RoleName::Named(name) => &**name,
            RoleName::CurrentRole | RoleName::CurrentUser => return Ok(self.user()),
            RoleName::SessionUser => &self.run.env.session_user,
            // No role has this name.
            RoleName::Public => "public",
        };
        let Some(roles) = self.roles() else { return Ok(catalog::OWNER) };
        let missing = || SqlError::new(SqlState::UNDEFINED_OBJECT, format!("role \"{name}\" does not exist"));
        if name.is_empty() { Ok(catalog::OWNER) } else { roles.oid_of(name).ok_or_else(missing) }
    }

    /// Adds a new relation to the catalog, with the default privileges of its owner.
    pub(super) fn add_relation(&mut self, relation: Relation) -> SqlResult<()> {
        let (of, schema) = (Securable::relation(&relation), relation.schema());
        self.state.add(relation)?;
        self.give_default_rights(of, schema);
        Ok(())
    }

    /// Gives a new object the default privileges of its owner; `schema` is 0 for a schema.
    pub(super) fn give_default_rights(&mut self, of: Securable, schema: u32) {
        let list = self.state.acl_of_new(of.kind, of.owner, schema);
        if list.is_some() {
            self.state.set_acl(of.oid, 0, list);
        }
    }

    /// Makes the privileges of an object those of its new owner.
    pub(super) fn own_rights(&mut self, oid: u32, columns: &[i16], before: u32, new: u32) {
        if before == new {
            return;
        }
        for column in [0].into_iter().chain(columns.iter().copied()) {
            if let Some(list) = self.state.own_acl(oid, column).map(|list| list.owned_by(new, before)) {
                self.state.set_acl(oid, column, Some(list));
            }
        }
    }

    /// Makes the privileges of a relation, which has a new owner now, those of that owner.
    pub(super) fn own_relation_rights(&mut self, relation: u32, before: u32, new: u32) {
        let columns: Vec<i16> = self.state.columns_with_acl(relation).collect();
        self.own_rights(relation, &columns, before, new);
    }
}
