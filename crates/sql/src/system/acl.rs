//! Privileges as lists of `aclitem`: `acldefault` and similar functions.
//!
//! **Invariant:** a list is shown as PostgreSQL's `aclitem[]` is, as an array of texts.

use super::functions::{line, number, snapshot};
use catalog::acl::{AclItem, PUBLIC_ROLE, Privileges};
use statement::error::{SqlError, SqlResult, SqlState};
use types::datum::Datum;
use types::ops::get::{items, text as words};
use types::ops::{CallContext, Function};
use types::{Element, Kind};

const TEXTS: Kind = Kind::Array(Element::Text);
const OIDS: Kind = Kind::Array(Element::Oid);

/// Returns the access control list of a new object of a kind, by its letter.
fn defaults(kind: &str, owner: u32) -> Option<Vec<(u32, &'static str)>> {
    let (all, own) = match kind {
        "c" => ("", ""),
        "r" => ("", "arwdDxt"),
        "s" => ("", "rwU"),
        "d" => ("Tc", "CTc"),
        "f" => ("X", "X"),
        "l" | "T" => ("U", "U"),
        "L" => ("", "rw"),
        "n" => ("", "UC"),
        "t" => ("", "C"),
        "F" | "S" => ("", "U"),
        "p" => ("", "sA"),
        _ => return None,
    };
    Some([(PUBLIC_ROLE, all), (owner, own)].into_iter().filter(|(_, rights)| !rights.is_empty()).collect())
}

/// Executes `acldefault(kind, owner)`.
fn default(args: &[Datum], env: &dyn CallContext) -> SqlResult<Datum> {
    let (kind, owner) = (words(&args[0])?, number(&args[1])?);
    let items = defaults(kind, owner).ok_or_else(|| {
        SqlError::new(SqlState::INTERNAL_ERROR, format!("unrecognized object type abbreviation: {kind}"))
    })?;
    let snapshot = snapshot(env)?;
    let name = |role: u32| {
        super::server::role_name(snapshot, role).map_or_else(|| role.to_string(), |name| super::quoted(&name))
    };
    let item = |(role, rights): (u32, &str)| {
        let grantee = if role == PUBLIC_ROLE { String::new() } else { name(role) };
        Datum::text(format!("{grantee}={rights}/{}", name(owner)))
    };
    Ok(super::array(items.into_iter().map(item)))
}

/// Returns one value for each privilege of a list: a column of `aclexplode`.
fn exploded(args: &[Datum], env: &dyn CallContext, part: fn(&AclItem, Privileges, &str) -> Datum) -> SqlResult<Datum> {
    let snapshot = snapshot(env)?;
    let mut all = Vec::new();
    for item in items(&args[0])?.iter().filter(|item| !item.is_null()) {
        let written = words(item)?;
        let item = AclItem::parse(written, |name| snapshot.roles.oid_of(name)).ok_or_else(|| {
            SqlError::new(SqlState::INVALID_TEXT_REPRESENTATION, format!("invalid access privilege: \"{written}\""))
        })?;
        all.extend(item.privileges.iter().map(|(one, word)| part(&item, one, word)));
    }
    Ok(super::array(all))
}

/// Returns the parts of options before or after `=`, as `part` chooses.
fn options(args: &[Datum], part: fn(&str) -> Datum) -> SqlResult<Datum> {
    let given = items(&args[0])?.iter().filter(|item| !item.is_null());
    Ok(super::array(given.map(|item| words(item).map(part)).collect::<SqlResult<Vec<_>>>()?))
}

pub(super) fn functions() -> Vec<Function> {
    use Kind::{InternalChar, Oid};
    vec![
        line("acldefault", &[InternalChar, Oid], TEXTS, default),
        // Columns of `aclexplode`.
        line("[acl grantors]", &[TEXTS], OIDS, |args, env| exploded(args, env, |item, _, _| Datum::Oid(item.grantor))),
        line("[acl grantees]", &[TEXTS], OIDS, |args, env| exploded(args, env, |item, _, _| Datum::Oid(item.grantee))),
        line("[acl privileges]", &[TEXTS], TEXTS, |args, env| exploded(args, env, |_, _, word| Datum::text(word))),
        line("[acl options]", &[TEXTS], Kind::Array(Element::Bool), |args, env| {
            exploded(args, env, |item, one, _| Datum::Bool(item.options.has(one)))
        }),
        // Columns of `pg_options_to_table`.
        line("[option names]", &[TEXTS], TEXTS, |args, _| {
            options(args, |option| Datum::text(option.split_once('=').map_or(option, |(name, _)| name)))
        }),
        line("[option values]", &[TEXTS], TEXTS, |args, _| {
            options(args, |option| option.split_once('=').map_or(Datum::Null, |(_, value)| Datum::text(value)))
        }),
    ]
}
