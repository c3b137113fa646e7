//! The whole catalog at one moment.
//!
//! **Invariant:** in one schema no two relations have the same name; indexes count as relations. No two routines have
//! the same name and the same types of input parameters.

use super::{Module, PUBLIC, Relation, Routine, Sequence, TableInfo, ViewInfo};
use crate::acl::{Acl, AclItem, AclKind, PUBLIC_ROLE, Privileges, Securable};
use settings::roles::DATABASE_OWNER;
use statement::error::{SqlError, SqlResult, SqlState};
use std::collections::BTreeMap;
use std::sync::Arc;
use syntax::names::name_parts;

/// PostgreSQL's OID of the schema `public`.
const PUBLIC_OID: u32 = 2200;

/// A schema.
#[derive(Debug, Clone)]
pub struct Schema {
    /// OID of the schema.
    pub oid: u32,
    /// Name of the schema.
    pub name: String,
    /// OID of the role that owns the schema.
    pub owner: u32,
}

impl Schema {
    /// Returns the schema as an object with privileges.
    pub fn securable(&self) -> Securable {
        Securable { oid: self.oid, kind: AclKind::Schema, owner: self.owner }
    }
}

/// Default privileges of objects that a role creates: `ALTER DEFAULT PRIVILEGES`.
#[derive(Debug, Clone)]
pub struct DefaultRights {
    /// OID of the row in `pg_default_acl`.
    pub oid: u32,
    /// Privileges: for all schemas instead of the built-in ones, for one schema in addition.
    pub list: Acl,
}

/// Role, schema (0 for all) and kind of the objects that default privileges are for.
pub type DefaultRightsKey = (u32, u32, AclKind);

/// All objects of a database at one moment.
#[derive(Debug, Clone)]
pub struct CatalogState {
    version: u64,
    schemas: BTreeMap<String, Schema>,
    /// Relations by schema and name.
    relations: BTreeMap<(u32, String), Relation>,
    names: BTreeMap<u32, (u32, String)>,
    /// Routines by OID.
    routines: BTreeMap<u32, Arc<Routine>>,
    /// OIDs of the routines of each schema and name, in the order of their creation.
    overloads: BTreeMap<(u32, String), Vec<u32>>,
    /// Modules by name.
    modules: BTreeMap<String, Arc<Module>>,
    /// Comments by object and column, 0 for the object itself. Shared with the states before: texts may be long, and
    /// each session may have another state.
    comments: BTreeMap<(u32, i16), Arc<str>>,
    /// Access control lists by object and column, 0 for the object itself, where they differ from the default ones.
    /// They are no part of the descriptions, so a GRANT retires none, and no transaction that uses one is disturbed.
    rights: BTreeMap<(u32, i16), Arc<Acl>>,
    default_rights: BTreeMap<DefaultRightsKey, DefaultRights>,
}

impl CatalogState {
    /// Creates the state of a new database.
    pub(super) fn fresh() -> CatalogState {
        // As in PostgreSQL 15: the owner of the database owns this schema, and all others may only use it.
        let public = Schema { oid: PUBLIC_OID, name: PUBLIC.to_owned(), owner: DATABASE_OWNER };
        let item =
            |grantee, privileges| AclItem { grantee, grantor: DATABASE_OWNER, privileges, options: Privileges::NONE };
        let list = vec![item(DATABASE_OWNER, AclKind::Schema.all()), item(PUBLIC_ROLE, Privileges::USAGE)];
        CatalogState {
            version: 0,
            schemas: BTreeMap::from([(PUBLIC.to_owned(), public)]),
            relations: BTreeMap::new(),
            names: BTreeMap::new(),
            routines: BTreeMap::new(),
            overloads: BTreeMap::new(),
            modules: BTreeMap::new(),
            comments: BTreeMap::new(),
            rights: BTreeMap::from([((PUBLIC_OID, 0), Arc::new(Acl::of(list)))]),
            default_rights: BTreeMap::new(),
        }
    }

    /// Returns the version. States that differ have different versions.
    pub fn version(&self) -> u64 {
        self.version
    }

    /// Copies the state under a new version, to be changed.
    pub fn next(&self, version: u64) -> CatalogState {
        CatalogState { version, ..self.clone() }
    }

    /// Returns all schemas, by name.
    pub fn schemas(&self) -> impl Iterator<Item = &Schema> {
        self.schemas.values()
    }

    /// Returns a schema by its name.
    pub fn schema(&self, name: &str) -> Option<&Schema> {
        self.schemas.get(name)
    }

    /// Returns a schema by its OID.
    pub fn schema_numbered(&self, oid: u32) -> Option<&Schema> {
        self.schemas.values().find(|schema| schema.oid == oid)
    }

    /// Adds the schema and name of a table to an error about it.
    pub fn about(&self, error: SqlError, table: &TableInfo) -> SqlError {
        let schema = self.schema_numbered(table.schema).map_or("", |schema| &*schema.name);
        error.about_table(schema, &table.name)
    }

    /// Returns all relations, by schema and name.
    pub fn relations(&self) -> impl Iterator<Item = &Relation> {
        self.relations.values()
    }

    /// Returns all tables.
    pub fn tables(&self) -> impl Iterator<Item = &Arc<TableInfo>> {
        self.relations.values().filter_map(Relation::as_table)
    }

    /// Returns all views.
    pub fn views(&self) -> impl Iterator<Item = &Arc<ViewInfo>> {
        self.relations.values().filter_map(Relation::as_view)
    }

    /// Returns all sequences.
    pub fn sequences(&self) -> impl Iterator<Item = &Arc<Sequence>> {
        self.relations.values().filter_map(Relation::as_sequence)
    }

    /// Returns a relation of a schema, by names.
    pub fn relation_in(&self, schema: &str, name: &str) -> Option<&Relation> {
        let schema = self.schemas.get(schema)?;
        self.relations.get(&(schema.oid, name.to_owned()))
    }

    /// Returns the first relation of this name in the schemas of the path.
    pub fn relation(&self, path: &[String], name: &str) -> Option<&Relation> {
        path.iter().find_map(|schema| self.relation_in(schema, name))
    }

    /// Returns a relation by its OID.
    pub fn relation_numbered(&self, oid: u32) -> Option<&Relation> {
        self.relations.get(self.names.get(&oid)?)
    }

    /// Returns a table by its OID.
    pub fn table_numbered(&self, oid: u32) -> Option<&Arc<TableInfo>> {
        self.relation_numbered(oid)?.as_table()
    }

    /// Returns the tables with foreign keys to this one, which may include itself.
    pub fn referencing(&self, parent: u32) -> impl Iterator<Item = &Arc<TableInfo>> {
        self.tables().filter(move |table| table.foreign_keys().any(|(_, key)| key.parent == parent))
    }

    /// Returns the comment on an object, or on one of its columns by attribute number.
    pub fn comment(&self, oid: u32, column: i16) -> Option<&str> {
        self.comments.get(&(oid, column)).map(|text| &**text)
    }

    /// Adds a schema.
    ///
    /// # Errors
    /// `42P06`
    pub fn add_schema(&mut self, schema: Schema) -> SqlResult<()> {
        if self.schemas.contains_key(&schema.name) {
            let message = format!("schema \"{}\" already exists", schema.name);
            return Err(SqlError::new(SqlState::DUPLICATE_SCHEMA, message));
        }
        self.schemas.insert(schema.name.clone(), schema);
        Ok(())
    }

    /// Puts a schema in the place of the one with the same name.
    pub fn put_schema(&mut self, schema: Schema) {
        self.schemas.insert(schema.name.clone(), schema);
    }

    /// Removes a schema, which must be empty.
    pub fn remove_schema(&mut self, name: &str) {
        self.schemas.remove(name);
    }

    /// Adds a relation; a table with its indexes.
    ///
    /// # Errors
    /// `42P07`
    pub fn add(&mut self, relation: Relation) -> SqlResult<()> {
        self.add_one(&relation)?;
        if let Relation::Table(table) = &relation {
            for position in 0..table.indexes.len() {
                self.add_one(&Relation::Index { table: Arc::clone(table), position })?;
            }
        }
        Ok(())
    }

    fn add_one(&mut self, relation: &Relation) -> SqlResult<()> {
        let place = (relation.schema(), relation.name().to_owned());
        if self.relations.contains_key(&place) {
            let message = format!("relation \"{}\" already exists", place.1);
            return Err(SqlError::new(SqlState::DUPLICATE_TABLE, message));
        }
        self.names.insert(relation.oid(), place.clone());
        self.relations.insert(place, relation.clone());
        Ok(())
    }

    /// Removes a relation; a table with its indexes. Comments on it stay until [`CatalogState::forget`].
    pub fn remove(&mut self, oid: u32) -> Option<Relation> {
        let relation = self.relations.remove(&self.names.remove(&oid)?)?;
        if let Relation::Table(table) = &relation {
            for index in &table.indexes {
                if let Some(place) = self.names.remove(&index.oid) {
                    self.relations.remove(&place);
                }
            }
        }
        Some(relation)
    }

    /// Puts a description in the place of the one with the same OID.
    ///
    /// # Errors
    /// `42P07` when a new name is taken.
    pub fn replace(&mut self, relation: Relation) -> SqlResult<()> {
        self.remove(relation.oid());
        self.add(relation)
    }

    /// Removes all comments and access control lists of an object and its columns.
    pub fn forget(&mut self, oid: u32) {
        self.comments.retain(|(of, _), _| *of != oid);
        self.rights.retain(|(of, _), _| *of != oid);
        self.default_rights.retain(|(_, schema, _), _| *schema != oid);
    }

    /// Removes the access control list of a column that is dropped.
    pub fn forget_column(&mut self, oid: u32, column: i16) {
        self.rights.remove(&(oid, column));
    }

    /// Returns the access control list that an object or a column has of its own.
    pub fn own_acl(&self, oid: u32, column: i16) -> Option<&Arc<Acl>> {
        self.rights.get(&(oid, column))
    }

    /// Returns the columns of a relation that have lists of their own, by attribute number.
    pub fn columns_with_acl(&self, oid: u32) -> impl Iterator<Item = i16> {
        self.rights
            .range((oid, i16::MIN)..=(oid, i16::MAX))
            .map(|((_, column), _)| *column)
            .filter(|column| *column != 0)
    }

    /// Returns all access control lists, by object and column.
    pub fn acls(&self) -> impl Iterator<Item = (u32, i16, &Arc<Acl>)> {
        self.rights.iter().map(|((oid, column), list)| (*oid, *column, list))
    }

    /// Sets the access control list of an object or a column; `None` makes it the default one.
    pub fn set_acl(&mut self, oid: u32, column: i16, list: Option<Acl>) {
        match list {
            Some(list) => drop(self.rights.insert((oid, column), Arc::new(list))),
            None => drop(self.rights.remove(&(oid, column))),
        }
    }

    /// Returns all default privileges.
    pub fn default_rights(&self) -> impl Iterator<Item = (&DefaultRightsKey, &DefaultRights)> {
        self.default_rights.iter()
    }

    /// Returns default privileges.
    pub fn default_right(&self, key: DefaultRightsKey) -> Option<&DefaultRights> {
        self.default_rights.get(&key)
    }

    /// Sets default privileges; `None` removes them.
    pub fn set_default_rights(&mut self, key: DefaultRightsKey, rights: Option<DefaultRights>) {
        match rights {
            Some(rights) => drop(self.default_rights.insert(key, rights)),
            None => drop(self.default_rights.remove(&key)),
        }
    }

    /// Returns the access control list of a new object; `None` for the default one of its kind.
    pub fn acl_of_new(&self, kind: AclKind, owner: u32, schema: u32) -> Option<Acl> {
        let of = |schema: u32| self.default_rights.get(&(owner, schema, kind)).map(|rights| &rights.list);
        let (everywhere, here) = (of(0), of(schema).filter(|_| schema != 0));
        if everywhere.is_none() && here.is_none() {
            return None;
        }
        let built_in = Acl::default_of(kind, owner);
        let list = everywhere.unwrap_or(&built_in).with(here.unwrap_or(&Acl::default())).sorted();
        (!list.is_same(&built_in)).then_some(list)
    }

    /// Sets the comment on an object or a column; `None` removes it.
    pub fn set_comment(&mut self, oid: u32, column: i16, text: Option<&str>) {
        match text {
            Some(text) => self.comments.insert((oid, column), text.into()),
            None => self.comments.remove(&(oid, column)),
        };
    }
}

/// Routines.
impl CatalogState {
    /// Returns all routines, by OID.
    pub fn routines(&self) -> impl Iterator<Item = &Arc<Routine>> {
        self.routines.values()
    }

    /// Returns a routine by its OID.
    pub fn routine_numbered(&self, oid: u32) -> Option<&Arc<Routine>> {
        self.routines.get(&oid)
    }

    /// Returns the routines of this name in a schema, given by its OID, in the order of their creation.
    pub fn routines_named(&self, schema: u32, name: &str) -> impl Iterator<Item = &Arc<Routine>> {
        let numbers = self.overloads.get(&(schema, name.to_owned())).map_or(&[][..], |numbers| numbers);
        numbers.iter().filter_map(|oid| self.routines.get(oid))
    }

    /// Returns true if no schema has a routine of any name.
    pub fn has_no_routines(&self) -> bool {
        self.routines.is_empty()
    }

    /// Adds a routine.
    ///
    /// # Errors
    /// `42723`
    pub fn add_routine(&mut self, routine: Routine) -> SqlResult<()> {
        let kinds = routine.input_kinds();
        if self.routines_named(routine.schema, &routine.name).any(|other| other.input_kinds() == kinds) {
            let message = format!("function \"{}\" already exists with same argument types", routine.name);
            return Err(SqlError::new(SqlState::DUPLICATE_FUNCTION, message));
        }
        self.overloads.entry((routine.schema, routine.name.clone())).or_default().push(routine.oid);
        self.routines.insert(routine.oid, Arc::new(routine));
        Ok(())
    }

    /// Removes a routine. Comments on it stay until [`CatalogState::forget`].
    pub fn remove_routine(&mut self, oid: u32) -> Option<Arc<Routine>> {
        let routine = self.routines.remove(&oid)?;
        let place = (routine.schema, routine.name.clone());
        if let Some(numbers) = self.overloads.get_mut(&place) {
            numbers.retain(|number| *number != oid);
            if numbers.is_empty() {
                self.overloads.remove(&place);
            }
        }
        Some(routine)
    }

    /// Puts a description in the place of the one with the same OID.
    ///
    /// # Errors
    /// `42723` when a new name and schema are taken.
    pub fn replace_routine(&mut self, routine: Routine) -> SqlResult<()> {
        self.remove_routine(routine.oid);
        self.add_routine(routine)
    }
}

/// Modules.
impl CatalogState {
    /// Returns all modules, by name.
    pub fn modules(&self) -> impl Iterator<Item = &Arc<Module>> {
        self.modules.values()
    }

    /// Returns the module of this name.
    pub fn module(&self, name: &str) -> Option<&Arc<Module>> {
        self.modules.get(name)
    }

    /// Adds a module, or puts it in the place of the one with the same name.
    pub fn put_module(&mut self, module: Module) {
        self.modules.insert(module.name.clone(), Arc::new(module));
    }

    /// Removes a module, which no routine may use.
    pub fn remove_module(&mut self, name: &str) {
        self.modules.remove(name);
    }

    /// Returns the routines whose code is in this module.
    pub fn routines_of_module<'s>(&'s self, name: &'s str) -> impl Iterator<Item = &'s Arc<Routine>> {
        self.routines.values().filter(move |routine| routine.module().is_some_and(|(module, _)| module == name))
    }
}

impl CatalogState {
    /// Returns the relation that a text names, written as in a statement: `name`, `schema."Name"`.
    ///
    /// # Errors
    /// `42P01`, `42602`
    pub fn relation_written(&self, path: &[String], text: &str) -> SqlResult<&Relation> {
        let parts = name_parts(text).ok_or_else(|| SqlError::new(SqlState::INVALID_NAME, "invalid name syntax"))?;
        let found = match &parts[..] {
            [name] => self.relation(path, name),
            [schema, name] => self.relation_in(schema, name),
            [database, schema, name] if database == super::DATABASE => self.relation_in(schema, name),
            _ => return Err(SqlError::new(SqlState::SYNTAX_ERROR, "improper relation name (too many dotted names)")),
        };
        found.ok_or_else(|| {
            SqlError::new(SqlState::UNDEFINED_TABLE, format!("relation \"{}\" does not exist", parts.join(".")))
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn states_share_their_comments() {
        let mut state = CatalogState::fresh();
        state.set_comment(1, 0, Some("long"));
        let next = state.next(1);
        let text = |state: &CatalogState| state.comment(1, 0).map(str::as_ptr);
        assert!(text(&state).is_some());
        assert_eq!(text(&state), text(&next));
    }
}
