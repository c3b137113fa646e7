//! Names of objects as `regclass`, `regtype` and similar types read and write them.
//!
//! **Invariant:** a written name can be read again, by the same search path.

use catalog::acl::Privileges;
use catalog::rights::Rights;
use catalog::{CatalogSnapshot, CatalogState, Relation, Routine};
use statement::error::{SqlError, SqlResult, SqlState};
use std::sync::Arc;
pub(crate) use syntax::names::quoted_name as quoted;
use types::Kind;
use types::naming::Naming;
use types::{PG_CATALOG, SqlType};

/// Returns the name of a schema.
pub(super) fn schema_name(snapshot: &CatalogSnapshot, oid: u32) -> Option<String> {
    let fixed = catalog::system::SCHEMAS.iter().find(|(number, _)| *number == oid).map(|(_, name)| (*name).to_owned());
    fixed.or_else(|| snapshot.state.schema_numbered(oid).map(|schema| schema.name.clone()))
}

/// Returns the OID of a schema.
pub(super) fn schema_number(snapshot: &CatalogSnapshot, name: &str) -> Option<u32> {
    let fixed = catalog::system::SCHEMAS.iter().find(|(_, fixed)| *fixed == name).map(|(number, _)| *number);
    fixed.or_else(|| snapshot.state.schema(name).map(|schema| schema.oid))
}

/// Returns the schema and the name of a relation, the system's included.
pub(super) fn relation_name(snapshot: &CatalogSnapshot, oid: u32) -> Option<(String, String)> {
    if let Some(relation) = snapshot.state.relation_numbered(oid) {
        return Some((schema_name(snapshot, relation.schema())?, relation.name().to_owned()));
    }
    catalog::system::numbered(oid, Some(snapshot)).map(|table| (table.schema.clone(), table.name.clone()))
}

/// Returns the OID of the relation that a name without a schema means.
pub(super) fn relation_by_path(snapshot: &CatalogSnapshot, name: &str) -> Option<u32> {
    search_path(snapshot).find_map(|schema| relation_in(snapshot, schema, name))
}

/// Returns the schemas of the search path, `pg_catalog` first unless the path names it.
pub(super) fn search_path(snapshot: &CatalogSnapshot) -> impl Iterator<Item = &str> {
    let implied = (!snapshot.path.iter().any(|schema| schema == PG_CATALOG)).then_some(PG_CATALOG);
    implied.into_iter().chain(snapshot.path.iter().map(String::as_str))
}

fn relation_in(snapshot: &CatalogSnapshot, schema: &str, name: &str) -> Option<u32> {
    let own = snapshot.state.relation_in(schema, name).map(Relation::oid);
    own.or_else(|| catalog::system::find(schema, name, Some(snapshot)).map(|table| table.oid))
}

/// Returns the name of a relation, with the schema if the search path does not find it.
pub(crate) fn relation_shown(snapshot: &CatalogSnapshot, oid: u32) -> Option<String> {
    let (schema, name) = relation_name(snapshot, oid)?;
    if relation_by_path(snapshot, &name) == Some(oid) {
        return Some(quoted(&name));
    }
    Some(format!("{}.{}", quoted(&schema), quoted(&name)))
}

/// Returns the name and input types of a routine as PostgreSQL's `format_procedure` writes them: with the schema if the
/// search path does not find the routine.
pub(crate) fn shown_routine(state: &CatalogState, path: &[String], routine: &Routine) -> String {
    let kinds: Vec<String> = routine.inputs().map(|one| SqlType::from(one.kind).name()).collect();
    format!("{}({})", routine_name(state, path, routine), kinds.join(","))
}

/// Returns the name of a routine, with the schema if the search path does not find it.
pub(super) fn routine_name(state: &CatalogState, path: &[String], routine: &Routine) -> String {
    let name = quoted(&routine.name);
    match state.schema_numbered(routine.schema) {
        Some(schema) if !is_routine_visible(state, path, routine) => format!("{}.{name}", quoted(&schema.name)),
        _ => name,
    }
}

/// Returns true if the search path finds a routine by its name and the types of its arguments.
pub(super) fn is_routine_visible(state: &CatalogState, path: &[String], routine: &Routine) -> bool {
    let kinds = routine.input_kinds();
    let mut schemas = path.iter().filter_map(|schema| state.schema(schema));
    let first = schemas
        .find_map(|schema| state.routines_named(schema.oid, &routine.name).find(|other| other.input_kinds() == kinds));
    first.is_some_and(|first| first.oid == routine.oid)
}

/// Returns the OIDs of the functions that a name can mean, those that others hide left out.
fn functions_named(snapshot: &CatalogSnapshot, schema: Option<&str>, name: &str) -> Vec<u32> {
    let system = schema.is_none_or(|schema| schema == PG_CATALOG);
    // The system's functions of a name count as one here, as long as no user has defined one of this name.
    let mut found: Vec<u32> = system.then(|| super::pg_type::function_number(name)).flatten().into_iter().collect();
    let mut kinds = Vec::new();
    for schema in snapshot.path.iter().map(String::as_str).filter(|_| schema.is_none()).chain(schema) {
        let Some(schema) = snapshot.state.schema(schema) else { continue };
        for routine in snapshot.state.routines_named(schema.oid, name) {
            let own = routine.input_kinds();
            if !kinds.contains(&own) {
                kinds.push(own);
                found.push(routine.oid);
            }
        }
    }
    found
}

/// Returns the name of a function as `regproc` writes it: with the schema unless the name alone means it.
fn function_shown(snapshot: &CatalogSnapshot, oid: u32) -> Option<String> {
    let Some(routine) = snapshot.state.routine_numbered(oid) else { return super::pg_type::function_name(oid) };
    let name = quoted(&routine.name);
    if functions_named(snapshot, None, &routine.name) == [oid] {
        return Some(name);
    }
    schema_name(snapshot, routine.schema).map(|schema| format!("{}.{name}", quoted(&schema)))
}

/// Catalog snapshot of a statement as the source of names for `regclass` and similar types.
#[derive(Debug)]
pub(crate) struct SnapshotNames {
    pub(crate) snapshot: Arc<CatalogSnapshot>,
    /// OID of the current role, which must be allowed to use the schema of a name.
    pub(crate) role: u32,
}

impl Naming for SnapshotNames {
    fn name_of(&self, kind: Kind, oid: u32) -> Option<String> {
        if !matches!(kind, Kind::Regclass | Kind::Regtype | Kind::Regproc | Kind::Regnamespace | Kind::Regrole) {
            return None;
        }
        if oid == 0 {
            return Some("-".to_owned());
        }
        let snapshot = &self.snapshot;
        match kind {
            Kind::Regclass => relation_shown(snapshot, oid),
            Kind::Regnamespace => schema_name(snapshot, oid).map(|name| quoted(&name)),
            Kind::Regrole => super::server::role_name(snapshot, oid).map(|name| quoted(&name)),
            Kind::Regproc => function_shown(snapshot, oid),
            _ => None,
        }
    }

    fn number_of(&self, kind: Kind, name: &str) -> SqlResult<u32> {
        let snapshot = &self.snapshot;
        let missing = |state: SqlState, word: &str| SqlError::new(state, format!("{word} \"{name}\" does not exist"));
        let parts = syntax::names::name_parts(name)
            .ok_or_else(|| SqlError::new(SqlState::INVALID_NAME, "invalid name syntax"))?;
        match kind {
            Kind::Regclass => {
                check_usage(snapshot, self.role, name)?;
                relation_number(snapshot, name)
            }
            Kind::Regnamespace => match &parts[..] {
                [name] => schema_number(snapshot, name).ok_or_else(|| missing(SqlState::INVALID_SCHEMA_NAME, "schema")),
                _ => Err(SqlError::new(SqlState::SYNTAX_ERROR, "invalid name syntax")),
            },
            Kind::Regrole => match &parts[..] {
                [name] => super::server::role_number(snapshot, name)
                    .ok_or_else(|| missing(SqlState::UNDEFINED_OBJECT, "role")),
                _ => Err(SqlError::new(SqlState::SYNTAX_ERROR, "invalid name syntax")),
            },
            _ => {
                let found = match &parts[..] {
                    [name] => functions_named(snapshot, None, name),
                    [schema, name] => functions_named(snapshot, Some(schema), name),
                    _ => Vec::new(),
                };
                match &found[..] {
                    [] => Err(missing(SqlState::UNDEFINED_FUNCTION, "function")),
                    [one] => Ok(*one),
                    _ => {
                        let message = format!("more than one function named \"{name}\"");
                        Err(SqlError::new(SqlState::AMBIGUOUS_FUNCTION, message))
                    }
                }
            }
        }
    }
}

/// Checks that a role may use the schema that a text names, if it names one.
///
/// # Errors
/// `42501`
pub(super) fn check_usage(snapshot: &CatalogSnapshot, role: u32, text: &str) -> SqlResult<()> {
    match syntax::names::name_parts(text).as_deref() {
        Some([.., schema, _]) => {
            Rights::new(&snapshot.state, &snapshot.roles, role).check_schema(schema, Privileges::USAGE)
        }
        Some(_) | None => Ok(()),
    }
}

/// Returns the OID of the relation that a text names.
///
/// # Errors
/// `42P01`, `42602`
pub(super) fn relation_number(snapshot: &CatalogSnapshot, text: &str) -> SqlResult<u32> {
    let found = snapshot.state.relation_written(&snapshot.path, text).map(Relation::oid);
    let system = match syntax::names::name_parts(text).as_deref() {
        Some([name]) => catalog::system::find(PG_CATALOG, name, Some(snapshot))
            .or_else(|| snapshot.path.iter().find_map(|schema| catalog::system::find(schema, name, Some(snapshot)))),
        Some([schema, name]) => catalog::system::find(schema, name, Some(snapshot)),
        Some([database, schema, name]) if database == catalog::DATABASE => {
            catalog::system::find(schema, name, Some(snapshot))
        }
        _ => None,
    };
    system.map_or(found, |table| Ok(table.oid))
}
