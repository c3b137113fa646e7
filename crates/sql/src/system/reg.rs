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
use types::regtype::type_number;
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

/// Returns the name and the types of a function as `regprocedure` writes them.
fn signature_shown(snapshot: &CatalogSnapshot, oid: u32) -> Option<String> {
    match snapshot.state.routine_numbered(oid) {
        Some(routine) => Some(shown_routine(&snapshot.state, &snapshot.path, routine)),
        None => super::pg_type::function_signature(oid),
    }
}

/// Function that a text with types names.
pub(super) enum NamedFunction<'s> {
    Own(&'s Arc<Routine>),
    /// OID of a function of the system.
    System(u32),
}

/// Finds the function that a text as `f(integer, text)` names.
///
/// # Errors
/// `42883`, `3F000`; `22P02`, `42602`, `42601` and `42704` for a text that names no function with types.
pub(super) fn function_with_types<'s>(snapshot: &'s CatalogSnapshot, text: &str) -> SqlResult<NamedFunction<'s>> {
    let (name, arguments) = parted(text)?;
    let parts = name_of_object(name)?;
    let kinds = arguments.into_iter().map(type_number).collect::<SqlResult<Vec<u32>>>()?;
    let (schemas, name): (Vec<&str>, &str) = match &parts[..] {
        [name] => (search_path(snapshot).collect(), name),
        [schema, name] => (vec![there(snapshot, schema)?], name),
        [database, schema, name] if database == catalog::DATABASE => (vec![there(snapshot, schema)?], name),
        [_, _, _] => {
            let message = format!("cross-database references are not implemented: {}", parts.join("."));
            return Err(SqlError::new(SqlState::FEATURE_NOT_SUPPORTED, message));
        }
        _ => {
            let message = format!("improper qualified name (too many dotted names): {}", parts.join("."));
            return Err(SqlError::new(SqlState::SYNTAX_ERROR, message));
        }
    };
    for schema in schemas {
        let system = if schema == PG_CATALOG { super::pg_type::function_with(name, &kinds) } else { None };
        if let Some(system) = system {
            return Ok(NamedFunction::System(system));
        }
        let Some(schema) = snapshot.state.schema(schema) else { continue };
        let has_them = |one: &&Arc<Routine>| one.inputs().map(|input| input.kind.oid()).eq(kinds.iter().copied());
        if let Some(own) = snapshot.state.routines_named(schema.oid, name).find(has_them) {
            return Ok(NamedFunction::Own(own));
        }
    }
    Err(SqlError::new(SqlState::UNDEFINED_FUNCTION, format!("function \"{text}\" does not exist")))
}

/// Returns the name of a schema that is there.
///
/// # Errors
/// `3F000`
fn there<'n>(snapshot: &CatalogSnapshot, schema: &'n str) -> SqlResult<&'n str> {
    let message = || format!("schema \"{schema}\" does not exist");
    let found = schema_number(snapshot, schema).map(|_| schema);
    found.ok_or_else(|| SqlError::new(SqlState::INVALID_SCHEMA_NAME, message()))
}

/// Parts a text into the name before its parentheses and the types in them: PostgreSQL's `parseNameAndArgTypes`.
fn parted(text: &str) -> SqlResult<(&str, Vec<&str>)> {
    let invalid = |message: &str| SqlError::new(SqlState::INVALID_TEXT_REPRESENTATION, message);
    let mut is_quoted = false;
    let mut outside = |sign: char| {
        is_quoted ^= sign == '"';
        !is_quoted
    };
    let open = text.find(|sign| outside(sign) && sign == '(').ok_or_else(|| invalid("expected a left parenthesis"))?;
    let inner = text[open + 1..].trim_end().strip_suffix(')').ok_or_else(|| invalid("expected a right parenthesis"))?;
    let mut types = Vec::new();
    let (mut begin, mut depth, mut is_quoted) = (0, 0_i32, false);
    for (at, sign) in inner.char_indices() {
        match sign {
            '"' => is_quoted = !is_quoted,
            _ if is_quoted => {}
            ',' if depth == 0 => {
                let one = inner[begin..at].trim();
                if one.is_empty() {
                    return Err(SqlError::new(SqlState::SYNTAX_ERROR, "invalid type name \"\""));
                }
                types.push(one);
                begin = at + 1;
            }
            '(' | '[' => depth += 1,
            ')' | ']' => depth -= 1,
            _ => {}
        }
    }
    if is_quoted || depth != 0 {
        return Err(invalid("improper type name"));
    }
    match inner[begin..].trim() {
        "" if types.is_empty() => {}
        "" => return Err(invalid("expected a type name")),
        last => types.push(last),
    }
    Ok((&text[..open], types))
}

/// Returns the parts of a name in a text.
///
/// # Errors
/// `42602`
fn name_of_object(text: &str) -> SqlResult<Vec<String>> {
    syntax::names::name_parts(text).ok_or_else(|| SqlError::new(SqlState::INVALID_NAME, "invalid name syntax"))
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
        let snapshot = &self.snapshot;
        match kind {
            Kind::Regclass => relation_shown(snapshot, oid),
            Kind::Regnamespace => schema_name(snapshot, oid).map(|name| quoted(&name)),
            Kind::Regrole => super::server::role_name(snapshot, oid).map(|name| quoted(&name)),
            Kind::Regproc => function_shown(snapshot, oid),
            Kind::Regprocedure => signature_shown(snapshot, oid),
            _ => None,
        }
    }

    fn number_of(&self, kind: Kind, name: &str) -> SqlResult<u32> {
        let snapshot = &self.snapshot;
        let missing = |state: SqlState, word: &str| SqlError::new(state, format!("{word} \"{name}\" does not exist"));
        if kind == Kind::Regprocedure {
            check_usage(snapshot, self.role, parted(name)?.0)?;
            return Ok(match function_with_types(snapshot, name)? {
                NamedFunction::Own(routine) => routine.oid,
                NamedFunction::System(oid) => oid,
            });
        }
        let parts = name_of_object(name)?;
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
                check_usage(snapshot, self.role, name)?;
                let found = match &parts[..] {
                    [name] => functions_named(snapshot, None, name),
                    [schema, name] => functions_named(snapshot, Some(there(snapshot, schema)?), name),
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
