//! Privilege checks: `has_table_privilege` and similar functions, as [`catalog::rights`] decides them.
//!
//! **Invariant:** objects, roles and privileges that do not exist are errors, as in PostgreSQL; unknown OIDs yield
//! NULL.

use super::functions::{line, number, snapshot};
use super::reg::{self, NamedFunction};
use catalog::acl::{AclKind, PUBLIC_ROLE, Privileges, Securable};
use catalog::rights::{DATABASE_ITSELF, Rights, role_named};
use catalog::{CatalogSnapshot, OWNER, Relation};
use statement::error::{SqlError, SqlResult, SqlState};
use types::Kind;
use types::datum::Datum;
use types::ops::get::text as words;
use types::ops::{CallContext, Function};

/// Privilege that a call asks for.
#[derive(Clone, Copy)]
struct WantedPrivilege {
    /// Privilege; none for one that nobody has.
    privilege: Privileges,
    /// True if the grant option is asked for.
    has_option: bool,
}

/// Object that a call asks about.
#[derive(Clone, Copy)]
enum Asked {
    Object(Securable),
    /// Schema of the system, which everybody may use.
    SystemSchema,
    /// Tablespace, in which only superusers create.
    Tablespace,
}

/// Columns of a relation that a call asks about.
#[derive(Clone, Copy, PartialEq, Eq)]
enum AskedColumns {
    None,
    /// Any column.
    Any,
    /// The column that an argument names.
    One,
}

/// Words of the privileges of a kind of object.
type PrivilegeWords = &'static [&'static str];

const OF_TABLES: PrivilegeWords =
    &["select", "insert", "update", "delete", "truncate", "references", "trigger", "rule"];
const OF_COLUMNS: PrivilegeWords = &["select", "insert", "update", "references"];
const OF_SEQUENCES: PrivilegeWords = &["select", "usage", "update"];
const OF_SCHEMAS: PrivilegeWords = &["usage", "create"];
const OF_DATABASES: PrivilegeWords = &["connect", "temporary", "temp", "create"];
const OF_FUNCTIONS: PrivilegeWords = &["execute"];
const USABLE: PrivilegeWords = &["usage"];
const OF_TABLESPACES: PrivilegeWords = &["create"];
const OF_ROLES: PrivilegeWords = &["usage", "member"];

/// Returns each privilege of a list, any of which is enough, and true for those with grant option.
fn wanted_words(known: PrivilegeWords, list: &str) -> SqlResult<Vec<(&'static str, bool)>> {
    let one = |written: &str| {
        let lower = written.trim().to_lowercase();
        let (word, has_option) =
            match lower.strip_suffix(" with grant option").or(lower.strip_suffix(" with admin option")) {
                Some(word) => (word.trim_end(), true),
                None => (lower.as_str(), false),
            };
        let unknown = || {
            let message = format!("unrecognized privilege type: \"{}\"", written.trim());
            SqlError::new(SqlState::INVALID_PARAMETER_VALUE, message)
        };
        let word = known.iter().find(|known| **known == word).ok_or_else(unknown)?;
        Ok((*word, has_option))
    };
    list.split(',').map(one).collect()
}

fn wanted(known: PrivilegeWords, list: &str) -> SqlResult<Vec<WantedPrivilege>> {
    let of = |(word, has_option)| WantedPrivilege {
        privilege: Privileges::named(word).unwrap_or(Privileges::NONE),
        has_option,
    };
    Ok(wanted_words(known, list)?.into_iter().map(of).collect())
}

/// Returns the OID of a role; an OID that no role has stays what it is.
fn role(snapshot: &CatalogSnapshot, given: &Datum) -> SqlResult<u32> {
    match given {
        Datum::Text(name) if **name == *"public" => Ok(PUBLIC_ROLE),
        Datum::Text(name) => snapshot.roles.oid_of(name).ok_or_else(|| no_role(name)),
        other => number(other),
    }
}

fn own_role(snapshot: &CatalogSnapshot, env: &dyn CallContext) -> u32 {
    role_named(&snapshot.roles, env.user())
}

fn no_role(name: &str) -> SqlError {
    SqlError::new(SqlState::UNDEFINED_OBJECT, format!("role \"{name}\" does not exist"))
}

type FindObject = fn(&CatalogSnapshot, &Datum) -> SqlResult<Option<Asked>>;

fn relation_number(snapshot: &CatalogSnapshot, given: &Datum) -> SqlResult<u32> {
    match given {
        Datum::Text(name) => reg::relation_number(snapshot, name),
        other => number(other),
    }
}

fn relation(snapshot: &CatalogSnapshot, given: &Datum) -> SqlResult<Option<Asked>> {
    let of = relation_number(snapshot, given)?;
    let is_there = snapshot.state.relation_numbered(of).is_some();
    if !is_there && catalog::system::numbered(of, Some(snapshot)).is_none() {
        return Ok(None);
    }
    Ok(snapshot.state.securable(of).map(Asked::Object))
}

fn sequence(snapshot: &CatalogSnapshot, given: &Datum) -> SqlResult<Option<Asked>> {
    let of = relation_number(snapshot, given)?;
    match snapshot.state.relation_numbered(of) {
        Some(relation @ Relation::Sequence(_)) => Ok(Some(Asked::Object(Securable::relation(relation)))),
        Some(other) => Err(query::bind::not_a_sequence(other)),
        None => Ok(None),
    }
}

fn schema(snapshot: &CatalogSnapshot, given: &Datum) -> SqlResult<Option<Asked>> {
    let name = match given {
        Datum::Text(name) if reg::schema_number(snapshot, name).is_none() => {
            return Err(SqlError::new(SqlState::INVALID_SCHEMA_NAME, format!("schema \"{name}\" does not exist")));
        }
        Datum::Text(name) => Some((**name).to_owned()),
        other => reg::schema_name(snapshot, number(other)?),
    };
    Ok(name.map(|name| match snapshot.state.schema(&name) {
        Some(schema) => Asked::Object(schema.securable()),
        None => Asked::SystemSchema,
    }))
}

fn database(_: &CatalogSnapshot, given: &Datum) -> SqlResult<Option<Asked>> {
    let is_ours = match given {
        Datum::Text(name) if **name != *catalog::DATABASE => {
            return Err(SqlError::new(SqlState::INVALID_CATALOG_NAME, format!("database \"{name}\" does not exist")));
        }
        Datum::Text(_) => true,
        other => number(other)? == catalog::DATABASE_OID,
    };
    Ok(is_ours.then_some(Asked::Object(DATABASE_ITSELF)))
}

/// Finds a routine by its OID, or by a text as `regprocedure` reads it: `f(integer, text)`.
fn routine(snapshot: &CatalogSnapshot, given: &Datum) -> SqlResult<Option<Asked>> {
    let text = match given {
        Datum::Text(text) => text,
        other => {
            let found = snapshot.state.routine_numbered(number(other)?);
            return Ok(Some(found.map_or_else(|| of_system(AclKind::Routine), |one| Asked::Object(one.securable()))));
        }
    };
    Ok(Some(match reg::function_with_types(snapshot, text)? {
        NamedFunction::Own(routine) => Asked::Object(routine.securable()),
        // Functions of the system may be called by everybody.
        NamedFunction::System(_) => of_system(AclKind::Routine),
    }))
}

/// Returns an object of the system of this kind, which has the privileges of a new one.
fn of_system(kind: AclKind) -> Asked {
    Asked::Object(Securable { oid: 0, kind, owner: OWNER })
}

/// Evaluates a privilege function. The arguments are an optional role, the object, a column if one is asked about, and
/// the privilege.
fn has(
    known: PrivilegeWords,
    find: FindObject,
    columns: AskedColumns,
    args: &[Datum],
    env: &dyn CallContext,
) -> SqlResult<Datum> {
    let snapshot = snapshot(env)?;
    let rest = if columns == AskedColumns::One { 3 } else { 2 };
    let who = match args.len().checked_sub(rest) {
        Some(1) => role(snapshot, &args[0])?,
        _ => own_role(snapshot, env),
    };
    let at = args.len() - rest;
    if let Datum::Text(name) = &args[at]
        && [OF_TABLES, OF_COLUMNS, OF_SEQUENCES].contains(&known)
    {
        reg::check_usage(snapshot, own_role(snapshot, env), name)?;
    }
    let object = find(snapshot, &args[at])?;
    let wanted = wanted(known, words(&args[args.len() - 1])?)?;
    let Some(object) = object else { return Ok(Datum::Null) };
    let column = match columns {
        AskedColumns::One => match column_number(snapshot, &args[at], &args[at + 1])? {
            Some(column) => Some(column),
            None => return Ok(Datum::Null),
        },
        AskedColumns::None | AskedColumns::Any => None,
    };
    let rights = Rights::new(&snapshot.state, &snapshot.roles, who);
    let has_one = |wanted: WantedPrivilege| has_it(&rights, object, columns, column, wanted);
    Ok(Datum::Bool(wanted.into_iter().any(has_one)))
}

fn has_it(
    rights: &Rights<'_>,
    object: Asked,
    columns: AskedColumns,
    column: Option<i16>,
    wanted: WantedPrivilege,
) -> bool {
    let WantedPrivilege { privilege, has_option } = wanted;
    if privilege.is_empty() {
        return false;
    }
    let of = match object {
        Asked::Object(of) => of,
        Asked::SystemSchema => {
            return rights.is_superuser() || !has_option && privilege == Privileges::USAGE;
        }
        Asked::Tablespace => return rights.is_superuser(),
    };
    let held = if has_option { rights.options_on(of) } else { rights.on(of) };
    let on_column = |column: i16| match has_option {
        true => rights.options_on_column(of.oid, column).has(privilege),
        false => rights.on_column(of.oid, column).has(privilege),
    };
    held.has(privilege)
        || column.is_some_and(on_column)
        || columns == AskedColumns::Any && rights.columns_with_lists(of.oid).any(on_column)
}

/// Returns the attribute number of a column; `None` for a number without a column. An unknown name is an error.
fn column_number(snapshot: &CatalogSnapshot, of: &Datum, column: &Datum) -> SqlResult<Option<i16>> {
    let of = relation_number(snapshot, of)?;
    let names: Vec<(i16, String)> = match snapshot.state.relation_numbered(of) {
        Some(Relation::Table(table)) => {
            table.columns.iter().map(|column| (column.number, column.name.clone())).collect()
        }
        Some(Relation::View(view)) => (1..).zip(view.columns.iter().map(|(name, _)| name.clone())).collect(),
        Some(Relation::Sequence(_) | Relation::Index { .. }) | None => match column {
            Datum::Int2(number) => return Ok(Some(*number)),
            // Privileges on columns of these are those on the whole.
            _ => return Ok(Some(0)),
        },
    };
    match column {
        Datum::Text(wanted) => {
            let found = names.iter().find(|(_, name)| **name == **wanted).map(|(number, _)| *number);
            found.map(Some).ok_or_else(|| {
                let (_, relation) = reg::relation_name(snapshot, of).unwrap_or_default();
                let message = format!("column \"{wanted}\" of relation \"{relation}\" does not exist");
                SqlError::new(SqlState::UNDEFINED_COLUMN, message)
            })
        }
        Datum::Int2(wanted) => Ok(names.iter().any(|(number, _)| number == wanted).then_some(*wanted)),
        _ => Ok(None),
    }
}

/// Executes `pg_has_role`.
fn has_role(args: &[Datum], env: &dyn CallContext) -> SqlResult<Datum> {
    let snapshot = snapshot(env)?;
    let at = args.len() - 2;
    let who = if at == 0 { own_role(snapshot, env) } else { role(snapshot, &args[0])? };
    let whose = role(snapshot, &args[at])?;
    let roles = &snapshot.roles;
    let has_one = |(word, has_option): (&str, bool)| match (word, has_option) {
        (_, true) => roles.is_admin(who, whose),
        ("usage", false) => roles.has_rights_of(who, whose),
        (_, false) => roles.may_become(who, whose),
    };
    Ok(Datum::Bool(wanted_words(OF_ROLES, words(&args[at + 1])?)?.into_iter().any(has_one)))
}

macro_rules! lines {
    ($all:ident, $name:literal, $known:ident, $find:expr, $columns:ident) => {
        for object in [Kind::Text, Kind::Oid] {
            let of: &'static [&'static [Kind]] = if object == Kind::Text {
                &[
                    &[Kind::Text, Kind::Text],
                    &[Kind::Name, Kind::Text, Kind::Text],
                    &[Kind::Oid, Kind::Text, Kind::Text],
                ]
            } else {
                &[&[Kind::Oid, Kind::Text], &[Kind::Name, Kind::Oid, Kind::Text], &[Kind::Oid, Kind::Oid, Kind::Text]]
            };
            for arguments in of {
                $all.push(line($name, arguments, Kind::Bool, |a, env| {
                    has($known, $find, AskedColumns::$columns, a, env)
                }));
            }
        }
    };
}

pub(super) fn functions() -> Vec<Function> {
    use Kind::{Bool, Int2, Name, Oid, Text};
    let mut all = Vec::new();
    lines!(all, "has_table_privilege", OF_TABLES, relation, None);
    lines!(all, "has_any_column_privilege", OF_COLUMNS, relation, Any);
    lines!(all, "has_sequence_privilege", OF_SEQUENCES, sequence, None);
    lines!(all, "has_schema_privilege", OF_SCHEMAS, schema, None);
    lines!(all, "has_database_privilege", OF_DATABASES, database, None);
    lines!(all, "has_function_privilege", OF_FUNCTIONS, routine, None);
    lines!(all, "has_type_privilege", USABLE, |_, _| Ok(Some(of_system(AclKind::Type))), None);
    lines!(all, "has_language_privilege", USABLE, |_, _| Ok(Some(of_system(AclKind::Language))), None);
    lines!(all, "has_tablespace_privilege", OF_TABLESPACES, |_, _| Ok(Some(Asked::Tablespace)), None);
    let of_columns: [&'static [Kind]; 12] = [
        &[Text, Text, Text],
        &[Text, Int2, Text],
        &[Oid, Text, Text],
        &[Oid, Int2, Text],
        &[Name, Text, Text, Text],
        &[Name, Text, Int2, Text],
        &[Name, Oid, Text, Text],
        &[Name, Oid, Int2, Text],
        &[Oid, Text, Text, Text],
        &[Oid, Text, Int2, Text],
        &[Oid, Oid, Text, Text],
        &[Oid, Oid, Int2, Text],
    ];
    for arguments in of_columns {
        all.push(line("has_column_privilege", arguments, Bool, |a, env| {
            has(OF_COLUMNS, relation, AskedColumns::One, a, env)
        }));
    }
    let of_roles: [&'static [Kind]; 6] =
        [&[Name, Text], &[Oid, Text], &[Name, Name, Text], &[Name, Oid, Text], &[Oid, Name, Text], &[Oid, Oid, Text]];
    for arguments in of_roles {
        all.push(line("pg_has_role", arguments, Bool, has_role));
    }
    all
}
