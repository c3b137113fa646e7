//! `GRANT` and `REVOKE` of privileges on objects.
//!
//! **Invariant:** a role grants what it owns or has with grant option, as the role through which it does. The rest of
//! a statement is left out, with a warning; a role that has no privilege at all on the object is refused.

use super::routine_names::NamedRoutine;
use super::{Ddl, DdlResult};
use catalog::acl::{Acl, AclItem, AclKind, PUBLIC_ROLE, Privileges, Securable};
use catalog::rights::{DATABASE_ITSELF, Rights, denied};
use catalog::{DATABASE, Relation, Routine, SystemTable};
use statement::error::{SqlError, SqlResult, SqlState};
use std::sync::Arc;
use syntax::ast::{
    GrantCommand, GrantKind, GrantObjects, Name, ObjectName, PrivilegeChange, PrivilegeItem, RoleName, RoutineName,
    RoutineWord,
};

/// Attribute numbers and names of PostgreSQL's system columns. Privileges on a whole table are revoked from them, too.
const SYSTEM_COLUMNS: [(i16, &str); 6] =
    [(-6, "tableoid"), (-5, "cmax"), (-4, "xmax"), (-3, "cmin"), (-2, "xmin"), (-1, "ctid")];

pub(super) fn invalid(message: String) -> SqlError {
    SqlError::new(SqlState::INVALID_GRANT_OPERATION, message)
}

/// Object of a statement.
enum Granted {
    Relation(Relation),
    System(Arc<SystemTable>),
    /// Object that is no relation, with its word and name.
    Other(Securable, &'static str, String),
}

/// Change of privileges with its names resolved.
pub(super) struct ResolvedChange {
    pub(super) is_grant: bool,
    pub(super) has_option: bool,
    pub(super) cascades: bool,
    pub(super) grantees: Vec<u32>,
    /// Privileges on whole objects; `None` for all.
    pub(super) privileges: Option<Privileges>,
    /// Privileges on columns; `None` for all.
    columns: Vec<(Option<Privileges>, Vec<Name>)>,
}

impl ResolvedChange {
    /// Makes the change in a list.
    pub(super) fn apply(
        &self,
        list: &mut Acl,
        privileges: Privileges,
        grantor: u32,
        owner: u32,
        roles: &settings::roles::Roles,
    ) -> SqlResult<()> {
        let none = Privileges::NONE;
        for grantee in &self.grantees {
            let item = AclItem {
                grantee: *grantee,
                grantor,
                privileges: if self.is_grant || !self.has_option { privileges } else { none },
                options: if self.has_option || !self.is_grant { privileges } else { none },
            };
            match self.is_grant {
                true => list.grant(item, owner, roles)?,
                false => list.revoke(item, owner, self.cascades, roles)?,
            }
        }
        Ok(())
    }
}

impl Ddl<'_> {
    pub(super) fn grant(&mut self, command: &GrantCommand) -> SqlResult<DdlResult> {
        let GrantCommand { change, on, grantor } = command;
        if let Some(grantor) = grantor
            && self.role(grantor)? != self.user()
        {
            return Err(SqlError::new(SqlState::FEATURE_NOT_SUPPORTED, "grantor must be current user"));
        }
        let objects = self.granted_objects(on)?;
        let (all, word) = privileges_of(on);
        let change = self.resolved(change, all, word, matches!(on, GrantObjects::Tables(_)))?;
        for object in objects {
            match object {
                Granted::Relation(relation) => {
                    let is_sequence_wanted =
                        matches!(on, GrantObjects::Sequences(_) | GrantObjects::AllInSchemas(GrantKind::Sequences, _));
                    self.grant_on_relation(&relation, &change, is_sequence_wanted)?;
                }
                Granted::System(table) => self.grant_on_system(&table, &change)?,
                Granted::Other(of, word, name) => {
                    let privileges = change.privileges.unwrap_or_else(|| of.kind.all());
                    self.grant_on(of, (word, &name), privileges, &change)?;
                }
            }
        }
        Ok(if change.is_grant { "GRANT" } else { "REVOKE" }.into())
    }

    fn granted_objects(&mut self, on: &GrantObjects) -> SqlResult<Vec<Granted>> {
        match on {
            GrantObjects::Tables(names) | GrantObjects::Sequences(names) => {
                names.iter().map(|name| self.granted_relation(name)).collect()
            }
            GrantObjects::Databases(names) => names.iter().map(granted_database).collect(),
            GrantObjects::Schemas(names) => names.iter().map(|name| self.granted_schema(name)).collect(),
            GrantObjects::Routines(kind, names) => names.iter().map(|name| self.granted_routine(*kind, name)).collect(),
            GrantObjects::AllInSchemas(kind, schemas) => {
                let mut all = Vec::new();
                for schema in schemas {
                    self.granted_in_schema(*kind, schema, &mut all)?;
                }
                Ok(all)
            }
        }
    }

    fn granted_relation(&self, name: &ObjectName) -> SqlResult<Granted> {
        let binder = self.binder();
        if let Some(table) = binder.system_table(&binder.qualified(name)?) {
            return Ok(Granted::System(table));
        }
        Ok(Granted::Relation(binder.relation_named(name)?.clone()))
    }

    fn granted_schema(&self, name: &Name) -> SqlResult<Granted> {
        if catalog::system::is_schema(name) {
            return Err(SqlError::unsupported("GRANT on a schema of the system"));
        }
        let schema = self.state.schema(name).ok_or_else(|| no_schema(name))?;
        Ok(Granted::Other(schema.securable(), "schema", schema.name.clone()))
    }

    /// Returns a routine.
    ///
    /// # Errors
    /// `42883`, `42725`, `42809`
    fn granted_routine(&mut self, word: RoutineWord, name: &RoutineName) -> SqlResult<Granted> {
        match self.routine_named(word, name)? {
            NamedRoutine::Own(routine) => {
                Ok(Granted::Other(routine.securable(), routine.kind.word(), routine.name.clone()))
            }
            NamedRoutine::System(_) => Err(SqlError::unsupported("GRANT on a function of the system")),
        }
    }

    fn granted_in_schema(&self, kind: GrantKind, name: &Name, all: &mut Vec<Granted>) -> SqlResult<()> {
        let schema = self.state.schema(name).ok_or_else(|| no_schema(name))?;
        if let Some(rights) = self.rights() {
            rights.check_schema(name, Privileges::USAGE)?;
        }
        let is_meant = |relation: &&Relation| {
            let is_kind = match (kind, relation) {
                (GrantKind::Tables, Relation::Table(_) | Relation::View(_))
                | (GrantKind::Sequences, Relation::Sequence(_)) => true,
                (GrantKind::Tables | GrantKind::Sequences, _) => false,
                // Routines follow; the grammar allows no other kinds.
                (GrantKind::Routines(_) | GrantKind::Types | GrantKind::Schemas, _) => false,
            };
            is_kind && relation.schema() == schema.oid
        };
        all.extend(self.state.relations().filter(is_meant).cloned().map(Granted::Relation));
        if let GrantKind::Routines(word) = kind {
            let is_meant = |routine: &&Arc<Routine>| {
                routine.schema == schema.oid && super::routine_names::takes(word, routine.kind)
            };
            all.extend(
                self.state
                    .routines()
                    .filter(is_meant)
                    .map(|routine| Granted::Other(routine.securable(), routine.kind.word(), routine.name.clone())),
            );
        }
        Ok(())
    }

    /// Resolves the names in a change. `all` are the privileges that the objects may have.
    pub(super) fn resolved(
        &self,
        change: &PrivilegeChange,
        all: Privileges,
        word: &str,
        may_have_columns: bool,
    ) -> SqlResult<ResolvedChange> {
        let PrivilegeChange { is_grant, has_option, privileges, grantees, is_cascading } = change;
        let one = |role: &RoleName| match role {
            RoleName::Public => Ok(PUBLIC_ROLE),
            role => self.role(role),
        };
        let grantees = grantees.iter().map(one).collect::<SqlResult<_>>()?;
        let (mut whole, mut columns) = (Privileges::NONE, Vec::new());
        for PrivilegeItem { name, columns: of } in privileges {
            let privilege = name.as_ref().map(named).transpose()?;
            if !of.is_empty() {
                if !may_have_columns {
                    return Err(invalid("column privileges are only valid for relations".to_owned()));
                }
                columns.push((privilege, of.clone()));
                continue;
            }
            // Without columns, all privileges are written without a list.
            let privilege = privilege.unwrap_or(Privileges::NONE);
            if let Some((_, unknown)) = (privilege - all).iter().next() {
                return Err(invalid(format!("invalid privilege type {unknown} for {word}")));
            }
            whole |= privilege;
        }
        Ok(ResolvedChange {
            is_grant: *is_grant,
            has_option: *has_option,
            cascades: *is_cascading,
            grantees,
            privileges: (!privileges.is_empty()).then_some(whole),
            columns,
        })
    }

    fn grant_on_system(&mut self, table: &SystemTable, change: &ResolvedChange) -> SqlResult<()> {
        if !change.columns.is_empty() {
            return Err(SqlError::unsupported("GRANT on columns of a system table"));
        }
        let Some(of) = self.state.securable(table.oid) else {
            return Err(SqlError::unsupported("GRANT on a table of the server"));
        };
        let privileges = change.privileges.unwrap_or_else(|| of.kind.all());
        self.grant_on(of, ("table", &table.name), privileges, change)
    }

    fn grant_on_relation(
        &mut self,
        relation: &Relation,
        change: &ResolvedChange,
        is_sequence_wanted: bool,
    ) -> SqlResult<()> {
        let name = relation.name();
        let wrong = |what: &str| Err(SqlError::new(SqlState::WRONG_OBJECT_TYPE, format!("\"{name}\" is {what}")));
        let of = Securable::relation(relation);
        let word = match relation {
            Relation::Index { .. } => return wrong("an index"),
            Relation::Table(_) | Relation::View(_) if is_sequence_wanted => return wrong("not a sequence"),
            Relation::Table(_) | Relation::View(_) => "table",
            Relation::Sequence(_) => "sequence",
        };
        let mut privileges = change.privileges.unwrap_or_else(|| of.kind.all());
        let unknown = privileges - of.kind.all();
        if !unknown.is_empty() && of.kind == AclKind::Sequence {
            let message = format!("sequence \"{name}\" only supports USAGE, SELECT, and UPDATE privileges");
            self.made.notices.push(("WARNING", invalid(message)));
            privileges = privileges & of.kind.all();
        } else if let Some((_, unknown)) = unknown.iter().next() {
            return Err(invalid(format!("invalid privilege type {unknown} for table")));
        }
        let by_column = self.column_privileges(relation, change, privileges)?;
        if !privileges.is_empty() {
            self.grant_on(of, (word, name), privileges, change)?;
        }
        for (number, column, privileges) in by_column {
            self.grant_on_column(of, (name, &column), number, privileges, change)?;
        }
        Ok(())
    }

    /// Returns the columns whose own privileges change, by attribute number. A REVOKE for the whole relation revokes
    /// from its columns, too.
    fn column_privileges(
        &self,
        relation: &Relation,
        change: &ResolvedChange,
        whole: Privileges,
    ) -> SqlResult<Vec<(i16, String, Privileges)>> {
        let named: Vec<(i16, String)> = match relation {
            Relation::Table(table) => table.columns.iter().map(|column| (column.number, column.name.clone())).collect(),
            Relation::View(view) => (1..).zip(view.columns.iter().map(|(name, _)| name.clone())).collect(),
            Relation::Sequence(_) => (1..).zip(catalog::system::OF_SEQUENCE.map(|(name, _)| name.to_owned())).collect(),
            Relation::Index { .. } => Vec::new(),
        };
        let of_columns = whole & AclKind::Column.all();
        let mut all: Vec<(i16, String, Privileges)> = Vec::new();
        if !change.is_grant && !of_columns.is_empty() {
            if matches!(relation, Relation::Table(_)) {
                all.extend(SYSTEM_COLUMNS.map(|(number, name)| (number, name.to_owned(), of_columns)));
            }
            all.extend(named.iter().map(|(number, name)| (*number, name.clone(), of_columns)));
        }
        for (privilege, columns) in &change.columns {
            let privilege = privilege.unwrap_or_else(|| AclKind::Column.all());
            if let Some((_, unknown)) = (privilege - AclKind::Column.all()).iter().next() {
                return Err(invalid(format!("invalid privilege type {unknown} for column")));
            }
            for column in columns {
                let Some((number, name)) = named.iter().find(|(_, name)| **name == **column) else {
                    let message = format!("column \"{column}\" of relation \"{}\" does not exist", relation.name());
                    return Err(SqlError::new(SqlState::UNDEFINED_COLUMN, message));
                };
                match all.iter_mut().find(|(known, ..)| known == number) {
                    Some((.., known)) => *known |= privilege,
                    None => all.push((*number, name.clone(), privilege)),
                }
            }
        }
        all.sort_by_key(|(number, ..)| *number);
        Ok(all)
    }

    /// Changes the privileges on an object with this word and name.
    fn grant_on(
        &mut self,
        of: Securable,
        (word, name): (&str, &str),
        wanted: Privileges,
        change: &ResolvedChange,
    ) -> SqlResult<()> {
        let mut list = self.state.acl(of).into_owned();
        let Some((grantor, options, has_any)) = self.grantor(of, &list, wanted, None) else { return Ok(()) };
        if options.is_empty() && !has_any {
            return Err(denied(word, name));
        }
        let shown = format!("\"{name}\"");
        let privileges = self.granted(wanted, options, change, change.privileges.is_none(), &shown);
        let Some(roles) = self.roles() else { return Ok(()) };
        change.apply(&mut list, privileges, grantor, of.owner, roles)?;
        self.state.set_acl(of.oid, 0, Some(list));
        Ok(())
    }

    /// Changes the privileges on a column of a relation.
    fn grant_on_column(
        &mut self,
        of: Securable,
        (relation, column): (&str, &str),
        number: i16,
        wanted: Privileges,
        change: &ResolvedChange,
    ) -> SqlResult<()> {
        let own = self.state.own_acl(of.oid, number).map(|list| (**list).clone()).unwrap_or_default();
        // Grant options on the whole relation count for its columns.
        let both = self.state.acl(of).with(&own);
        let Some((grantor, options, has_any)) = self.grantor(of, &both, wanted, Some(number)) else { return Ok(()) };
        let shown = format!("column \"{column}\" of relation \"{relation}\"");
        if options.is_empty() && !has_any {
            let message = format!("permission denied for {shown}");
            return Err(SqlError::new(SqlState::INSUFFICIENT_PRIVILEGE, message));
        }
        let privileges = self.granted(wanted, options, change, wanted == AclKind::Column.all(), &shown);
        let Some(roles) = self.roles() else { return Ok(()) };
        let mut list = own;
        change.apply(&mut list, privileges, grantor, of.owner, roles)?;
        self.state.set_acl(of.oid, number, (!list.is_empty()).then_some(list));
        Ok(())
    }

    /// Returns the role as which the current one grants, the privileges of these that it may grant, and true if it has
    /// any privilege on the object.
    fn grantor(
        &self,
        of: Securable,
        list: &Acl,
        wanted: Privileges,
        column: Option<i16>,
    ) -> Option<(u32, Privileges, bool)> {
        let (rights, roles) = (self.rights()?, self.roles()?);
        let (grantor, options) = rights.grantor(of, list, wanted);
        let of_grantor = Rights::new(&self.state, roles, grantor);
        let on_column = column.is_some_and(|column| !of_grantor.on_column(of.oid, column).is_empty());
        let has_any = on_column || !of_grantor.on(of).is_empty() || !of_grantor.options_on(of).is_empty();
        Some((grantor, options, has_any))
    }

    /// Returns the privileges of these that are granted, or revoked, with a warning if some are left out.
    fn granted(
        &mut self,
        wanted: Privileges,
        options: Privileges,
        change: &ResolvedChange,
        is_all: bool,
        shown: &str,
    ) -> Privileges {
        let privileges = wanted & options;
        let (state, verb) = match change.is_grant {
            true => (SqlState::PRIVILEGE_NOT_GRANTED, "were granted"),
            false => (SqlState::PRIVILEGE_NOT_REVOKED, "could be revoked"),
        };
        let few = match privileges {
            Privileges::NONE => Some("no"),
            some if some != wanted && !is_all => Some("not all"),
            _ => None,
        };
        if let Some(few) = few {
            let message = format!("{few} privileges {verb} for {shown}");
            self.made.notices.push(("WARNING", SqlError::new(state, message)));
        }
        privileges
    }
}

fn granted_database(name: &Name) -> SqlResult<Granted> {
    if **name == *DATABASE {
        return Ok(Granted::Other(DATABASE_ITSELF, "database", DATABASE.to_owned()));
    }
    let message = format!("database \"{name}\" does not exist");
    Err(SqlError::new(SqlState::INVALID_CATALOG_NAME, message))
}

pub(super) fn no_schema(name: &str) -> SqlError {
    SqlError::new(SqlState::INVALID_SCHEMA_NAME, format!("schema \"{name}\" does not exist"))
}

/// Returns the privilege of a name.
///
/// # Errors
/// `42601`
fn named(name: &Name) -> SqlResult<Privileges> {
    let unknown = || SqlError::new(SqlState::SYNTAX_ERROR, format!("unrecognized privilege type \"{name}\""));
    Privileges::named(name).ok_or_else(unknown)
}

/// Returns the privileges that objects of a statement may have, and the word for the objects.
fn privileges_of(on: &GrantObjects) -> (Privileges, &'static str) {
    match on {
        // A sequence may be called a table here.
        GrantObjects::Tables(_) | GrantObjects::AllInSchemas(GrantKind::Tables, _) => {
            (AclKind::Table.all() | AclKind::Sequence.all(), "relation")
        }
        GrantObjects::Sequences(_) | GrantObjects::AllInSchemas(GrantKind::Sequences, _) => {
            (AclKind::Sequence.all(), "sequence")
        }
        GrantObjects::Databases(_) => (AclKind::Database.all(), "database"),
        GrantObjects::Schemas(_) | GrantObjects::AllInSchemas(GrantKind::Schemas, _) => {
            (AclKind::Schema.all(), "schema")
        }
        GrantObjects::Routines(kind, _) | GrantObjects::AllInSchemas(GrantKind::Routines(kind), _) => {
            let word = match kind {
                RoutineWord::Function => "function",
                RoutineWord::Procedure => "procedure",
                RoutineWord::Routine => "routine",
            };
            (AclKind::Routine.all(), word)
        }
        GrantObjects::AllInSchemas(GrantKind::Types, _) => (AclKind::Type.all(), "type"),
    }
}
