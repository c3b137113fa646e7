//! Names of types in the forms that `regtype` reads and writes.

use super::{Element, Kind, PG_CATALOG, SqlType, pseudo};
use statement::error::{SqlError, SqlResult, SqlState};

/// Returns a type's name, with its modifier if one is given: `format_type`.
pub fn type_name(number: u32, modifier: Option<i32>) -> String {
    let Some(kind) = Kind::from_oid(number) else {
        return match pseudo::numbered(number) {
            Some(found) => pseudo::shown(found),
            None if number == 0 => "-".to_owned(),
            None => "???".to_owned(),
        };
    };
    match modifier {
        None => match kind {
            Kind::Array(Element::Bpchar) => "character[]".to_owned(),
            kind => kind.name(),
        },
        Some(typmod) => SqlType { kind, typmod }.name(),
    }
}

/// Reads the name of a type as `regtype` does: an SQL name, or one of `pg_type`, quoted or with a schema.
///
/// # Errors
/// `42704`, `42602`
pub fn type_number(written: &str) -> SqlResult<u32> {
    let missing = || SqlError::new(SqlState::UNDEFINED_OBJECT, format!("type \"{written}\" does not exist"));
    let mut name = written.trim().to_owned();
    let mut dimensions = 0;
    while let Some(rest) = name.strip_suffix(']').and_then(|rest| rest.trim_end().strip_suffix('[')) {
        dimensions += 1;
        name = rest.trim_end().to_owned();
    }
    // A modifier is allowed, and has no effect here.
    if let (Some(first), Some(last)) = (name.find('('), name.find(')'))
        && first < last
        && name[first + 1..last].bytes().all(|byte| byte.is_ascii_digit() || byte == b',' || byte == b' ')
    {
        name = format!("{}{}", name[..first].trim_end(), &name[last + 1..]);
    }
    let by_name = |name: &str| {
        let kind = Kind::all().find(|kind| kind.type_name() == name).map(Kind::oid);
        kind.or_else(|| pseudo::named(name).map(|found| found.oid))
    };
    let found = if name.contains(['"', '.']) {
        match syntax::names::name_parts(&name).as_deref() {
            Some([own]) => by_name(own),
            Some([schema, own]) if schema == PG_CATALOG => by_name(own),
            Some(_) => None,
            None => {
                return Err(SqlError::new(SqlState::SYNTAX_ERROR, format!("syntax error at or near \"{written}\"")));
            }
        }
    } else {
        let words: Vec<&str> = name.split_ascii_whitespace().collect();
        let lower = words.join(" ").to_lowercase();
        Kind::from_name(&lower).map(Kind::oid).or_else(|| by_name(&lower))
    };
    let found = found.ok_or_else(missing)?;
    if dimensions == 0 {
        return Ok(found);
    }
    let array = match Kind::from_oid(found) {
        Some(kind @ Kind::Array(_)) => Some(kind.oid()),
        Some(kind) => kind.array_of().map(Kind::oid),
        None => pseudo::numbered(found).map(|found| found.array).filter(|array| *array != 0),
    };
    array.ok_or_else(missing)
}

/// Returns the name that `regtype` writes, and `None` for an OID of no type.
pub fn type_shown(number: u32) -> Option<String> {
    let is_there = number == 0 || Kind::from_oid(number).is_some() || pseudo::numbered(number).is_some();
    is_there.then(|| type_name(number, None))
}
