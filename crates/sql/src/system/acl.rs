//! Privileges as lists of `aclitem`: `acldefault` and similar functions.
//!
//! **Invariant:** nothing can be granted here, so each object has the privileges of a new one.

use super::functions::{line, number, snapshot};
use statement::error::{SqlError, SqlResult, SqlState};
use types::datum::Datum;
use types::ops::get::{items, text as words};
use types::ops::{CallContext, Function};
use types::{Element, Kind};

const TEXTS: Kind = Kind::Array(Element::Text);

/// Returns the privileges of PUBLIC and of the owner on a new object of a kind.
fn defaults(kind: &str) -> Option<(&'static str, &'static str)> {
    Some(match kind {
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
    })
}

/// Executes `acldefault(kind, owner)`.
fn default(args: &[Datum], env: &dyn CallContext) -> SqlResult<Datum> {
    let kind = words(&args[0])?;
    let (all, own) = defaults(kind).ok_or_else(|| {
        SqlError::new(SqlState::INTERNAL_ERROR, format!("unrecognized object type abbreviation: {kind}"))
    })?;
    let of = number(&args[1])?;
    let owner =
        super::server::role_name(snapshot(env)?, of).map_or_else(|| of.to_string(), |name| super::quoted(&name));
    let item = |who: &str, rights: &str| (!rights.is_empty()).then(|| Datum::text(format!("{who}={rights}/{owner}")));
    Ok(super::array([item("", all), item(&owner, own)].into_iter().flatten()))
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
        // Columns of `pg_options_to_table`.
        line("[option names]", &[TEXTS], TEXTS, |args, _| {
            options(args, |option| Datum::text(option.split_once('=').map_or(option, |(name, _)| name)))
        }),
        line("[option values]", &[TEXTS], TEXTS, |args, _| {
            options(args, |option| option.split_once('=').map_or(Datum::Null, |(_, value)| Datum::text(value)))
        }),
    ]
}
