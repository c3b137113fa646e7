//! Privilege checks: `has_table_privilege` and similar functions.
//!
//! Privileges cannot be granted yet ([`settings::roles`]): every role has all privileges on user-created objects. Only
//! the system's own tables are protected from roles that are not superusers, and only superusers and owners may grant.
//!
//! **Invariant:** objects, roles and privileges that do not exist are errors, as in PostgreSQL; unknown OIDs yield
//! NULL.

use super::functions::{line, number, snapshot};
use super::reg;
use catalog::{CatalogSnapshot, Relation};
use statement::error::{SqlError, SqlResult, SqlState};
use types::Kind;
use types::datum::Datum;
use types::ops::get::text as words;
use types::ops::{CallContext, Function};

/// Privilege that a call asks for.
struct WantedPrivilege {
    /// True if the privilege only allows reading.
    reads: bool,
    /// True if the privilege includes the grant option.
    grants: bool,
}

/// Privileges of a kind of object. The first `reading` of them only allow reading.
struct PrivilegeKind {
    words: &'static [&'static str],
    reading: usize,
}

const OF_TABLES: PrivilegeKind = PrivilegeKind {
    words: &["select", "insert", "update", "delete", "truncate", "references", "trigger", "rule"],
    reading: 1,
};
const OF_COLUMNS: PrivilegeKind = PrivilegeKind { words: &["select", "insert", "update", "references"], reading: 1 };
const OF_SEQUENCES: PrivilegeKind = PrivilegeKind { words: &["select", "usage", "update"], reading: 1 };
const OF_SCHEMAS: PrivilegeKind = PrivilegeKind { words: &["usage", "create"], reading: 1 };
const OF_DATABASES: PrivilegeKind = PrivilegeKind { words: &["connect", "temporary", "temp", "create"], reading: 4 };
const OF_FUNCTIONS: PrivilegeKind = PrivilegeKind { words: &["execute"], reading: 1 };
const USABLE: PrivilegeKind = PrivilegeKind { words: &["usage"], reading: 1 };
const OF_TABLESPACES: PrivilegeKind = PrivilegeKind { words: &["create"], reading: 1 };
const OF_ROLES: PrivilegeKind = PrivilegeKind { words: &["usage", "member", "set"], reading: 3 };

impl PrivilegeKind {
    /// Parses a list of privileges, any of which is enough.
    fn read(&self, list: &str) -> SqlResult<Vec<WantedPrivilege>> {
        let one = |written: &str| {
            let lower = written.trim().to_lowercase();
            let (word, grants) =
                match lower.strip_suffix(" with grant option").or(lower.strip_suffix(" with admin option")) {
                    Some(word) => (word.trim_end(), true),
                    None => (lower.as_str(), false),
                };
            let unknown = || {
                let message = format!("unrecognized privilege type: \"{}\"", written.trim());
                SqlError::new(SqlState::INVALID_PARAMETER_VALUE, message)
            };
            let at = self.words.iter().position(|known| *known == word).ok_or_else(unknown)?;
            Ok(WantedPrivilege { reads: at < self.reading, grants })
        };
        list.split(',').map(one).collect()
    }
}

/// Returns a role's name, and true if it is a superuser; `None` for an unknown OID.
fn role(snapshot: &CatalogSnapshot, given: &Datum) -> SqlResult<Option<(String, bool)>> {
    let name = match given {
        Datum::Text(name) => (**name).to_owned(),
        other => match super::server::role_name(snapshot, number(other)?) {
            Some(name) => name,
            None => return Ok(None),
        },
    };
    match snapshot.roles.get(&name) {
        Some(role) => Ok(Some((name, role.is_superuser))),
        None if name == "public" || super::server::role_number(snapshot, &name).is_some() => Ok(Some((name, false))),
        None if matches!(given, Datum::Text(_)) => Err(no_role(&name)),
        None => Ok(Some((name, false))),
    }
}

fn no_role(name: &str) -> SqlError {
    SqlError::new(SqlState::UNDEFINED_OBJECT, format!("role \"{name}\" does not exist"))
}

/// Properties of an object that privileges depend on.
struct PrivilegeObject {
    owner: Option<String>,
    is_system: bool,
}

impl PrivilegeObject {
    const OF_SYSTEM: PrivilegeObject = PrivilegeObject { owner: None, is_system: true };
}

type FindObject = fn(&CatalogSnapshot, &Datum) -> SqlResult<Option<PrivilegeObject>>;

fn relation(snapshot: &CatalogSnapshot, given: &Datum) -> SqlResult<Option<PrivilegeObject>> {
    let of = match given {
        Datum::Text(name) => reg::relation_number(snapshot, name)?,
        other => number(other)?,
    };
    let owner = match snapshot.state.relation_numbered(of) {
        Some(Relation::Table(table) | Relation::Index { table, .. }) => &table.owner,
        Some(Relation::View(view)) => &view.owner,
        Some(Relation::Sequence(sequence)) => &sequence.owner,
        None => return Ok(catalog::system::numbered(of, Some(snapshot)).map(|_| PrivilegeObject::OF_SYSTEM)),
    };
    Ok(Some(PrivilegeObject { owner: Some(owner.clone()), is_system: false }))
}

fn schema(snapshot: &CatalogSnapshot, given: &Datum) -> SqlResult<Option<PrivilegeObject>> {
    let name = match given {
        Datum::Text(name) if reg::schema_number(snapshot, name).is_none() => {
            return Err(SqlError::new(SqlState::INVALID_SCHEMA_NAME, format!("schema \"{name}\" does not exist")));
        }
        Datum::Text(name) => Some((**name).to_owned()),
        other => reg::schema_name(snapshot, number(other)?),
    };
    Ok(name.map(|name| match snapshot.state.schema(&name) {
        Some(schema) => PrivilegeObject { owner: Some(schema.owner.clone()), is_system: false },
        None => PrivilegeObject::OF_SYSTEM,
    }))
}

fn database(_: &CatalogSnapshot, given: &Datum) -> SqlResult<Option<PrivilegeObject>> {
    let is_ours = match given {
        Datum::Text(name) if **name != *catalog::DATABASE => {
            return Err(SqlError::new(SqlState::INVALID_CATALOG_NAME, format!("database \"{name}\" does not exist")));
        }
        Datum::Text(_) => true,
        other => number(other)? == super::server::DATABASE_OID,
    };
    Ok(is_ours.then_some(PrivilegeObject { owner: None, is_system: false }))
}

/// Returns the object for functions, types, languages and tablespaces: all of them are the system's.
fn of_system(_: &CatalogSnapshot, _: &Datum) -> SqlResult<Option<PrivilegeObject>> {
    Ok(Some(PrivilegeObject::OF_SYSTEM))
}

/// Evaluates a privilege function. The arguments are an optional role, the object, a column if `has_column`, and the
/// privilege.
fn has(
    known: &PrivilegeKind,
    find: FindObject,
    has_column: bool,
    args: &[Datum],
    env: &dyn CallContext,
) -> SqlResult<Datum> {
    let snapshot = snapshot(env)?;
    let rest = if has_column { 3 } else { 2 };
    let who = match args.len().checked_sub(rest) {
        Some(1) => role(snapshot, &args[0])?,
        _ => role(snapshot, &Datum::text(env.user()))?,
    };
    let at = args.len() - rest;
    let object = find(snapshot, &args[at])?;
    let wanted = known.read(words(&args[args.len() - 1])?)?;
    let (Some((name, is_superuser)), Some(object)) = (who, object) else { return Ok(Datum::Null) };
    if has_column
        && let Some(is_there) = column_is_there(snapshot, &args[at], &args[at + 1])?
        && !is_there
    {
        return Ok(Datum::Null);
    }
    let may = |wanted: &WantedPrivilege| {
        is_superuser || object.owner.as_ref() == Some(&name) || (!wanted.grants && (wanted.reads || !object.is_system))
    };
    Ok(Datum::Bool(wanted.iter().any(may)))
}

/// Returns true if the table has the column with this number. An unknown name is an error.
fn column_is_there(snapshot: &CatalogSnapshot, of: &Datum, column: &Datum) -> SqlResult<Option<bool>> {
    let of = match of {
        Datum::Text(name) => reg::relation_number(snapshot, name)?,
        other => number(other)?,
    };
    let names: Vec<(i16, String)> = match snapshot.state.relation_numbered(of) {
        Some(Relation::Table(table)) => {
            table.columns.iter().map(|column| (column.number, column.name.clone())).collect()
        }
        Some(Relation::View(view)) => (1..).zip(view.columns.iter().map(|(name, _)| name.clone())).collect(),
        _ => return Ok(None),
    };
    match column {
        Datum::Text(wanted) if names.iter().all(|(_, name)| **name != **wanted) => {
            let (_, relation) = reg::relation_name(snapshot, of).unwrap_or_default();
            let message = format!("column \"{wanted}\" of relation \"{relation}\" does not exist");
            Err(SqlError::new(SqlState::UNDEFINED_COLUMN, message))
        }
        Datum::Int2(wanted) => Ok(Some(names.iter().any(|(number, _)| number == wanted))),
        _ => Ok(Some(true)),
    }
}

/// Executes `pg_has_role`. Roles have no members: a role has itself, and a superuser has all.
fn has_role(args: &[Datum], env: &dyn CallContext) -> SqlResult<Datum> {
    let snapshot = snapshot(env)?;
    let at = args.len() - 2;
    let who = if at == 0 { role(snapshot, &Datum::text(env.user()))? } else { role(snapshot, &args[0])? };
    let whose = role(snapshot, &args[at])?;
    OF_ROLES.read(words(&args[at + 1])?)?;
    let (Some((who, is_superuser)), Some((whose, _))) = (who, whose) else { return Ok(Datum::Bool(false)) };
    Ok(Datum::Bool(is_superuser || who == whose))
}

macro_rules! lines {
    ($all:ident, $name:literal, $known:ident, $find:ident) => {
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
                $all.push(line($name, arguments, Kind::Bool, |a, env| has(&$known, $find, false, a, env)));
            }
        }
    };
}

pub(super) fn functions() -> Vec<Function> {
    use Kind::{Bool, Int2, Name, Oid, Text};
    let mut all = Vec::new();
    lines!(all, "has_table_privilege", OF_TABLES, relation);
    lines!(all, "has_any_column_privilege", OF_COLUMNS, relation);
    lines!(all, "has_sequence_privilege", OF_SEQUENCES, relation);
    lines!(all, "has_schema_privilege", OF_SCHEMAS, schema);
    lines!(all, "has_database_privilege", OF_DATABASES, database);
    lines!(all, "has_function_privilege", OF_FUNCTIONS, of_system);
    lines!(all, "has_type_privilege", USABLE, of_system);
    lines!(all, "has_language_privilege", USABLE, of_system);
    lines!(all, "has_tablespace_privilege", OF_TABLESPACES, of_system);
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
        all.push(line("has_column_privilege", arguments, Bool, |a, env| has(&OF_COLUMNS, relation, true, a, env)));
    }
    let of_roles: [&'static [Kind]; 6] =
        [&[Name, Text], &[Oid, Text], &[Name, Name, Text], &[Name, Oid, Text], &[Oid, Name, Text], &[Oid, Oid, Text]];
    for arguments in of_roles {
        all.push(line("pg_has_role", arguments, Bool, has_role));
    }
    all
}
