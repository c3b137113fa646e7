//! The server, its database, its roles and its settings, as rows of the catalog.
//!
//! **Invariant:** every name that owns something has a role, so numbers of owners can be looked up.

use super::{Rows, Source, array, int, oid, or_null, text, yes};
use crate::catalog::{DATABASE, OWNER, Relation, Seen};
use crate::datum::Datum;
use crate::error::SqlResult;

/// The number of the role that owns the database.
pub(super) const SUPERUSER: u32 = 10;
/// PostgreSQL's number of the database `postgres`.
const DATABASE_OID: u32 = 5;
/// Numbers of other roles begin here.
const FIRST_ROLE: u32 = 16_000;

pub(super) fn filled(name: &str) -> Option<super::Fill> {
    match name {
        "pg_database" => Some(databases),
        "pg_roles" => Some(roles),
        "pg_authid" => Some(authids),
        "pg_user" | "pg_shadow" => Some(users),
        "pg_settings" => Some(settings),
        "pg_tablespace" => Some(tablespaces),
        "pg_shdescription" => Some(descriptions),
        _ => None,
    }
}

/// All roles that are known here: the owner, and whoever has made something.
fn all_roles(seen: &Seen) -> Vec<(u32, String)> {
    let mut names: Vec<&str> = seen.state.schemas().map(|schema| schema.owner.as_str()).collect();
    names.extend(seen.state.relations().map(|relation| match relation {
        Relation::Table(table) | Relation::Index { table, .. } => table.owner.as_str(),
        Relation::View(view) => view.owner.as_str(),
        Relation::Sequence(sequence) => sequence.owner.as_str(),
    }));
    names.sort_unstable();
    names.dedup();
    let others = names.into_iter().filter(|name| *name != OWNER).zip(FIRST_ROLE..);
    std::iter::once((SUPERUSER, OWNER.to_owned()))
        .chain(others.map(|(name, number)| (number, name.to_owned())))
        .collect()
}

/// The same, with the one who asks.
fn roles_of(source: &Source<'_>) -> Vec<(u32, String)> {
    let mut all = all_roles(source.seen);
    if all.iter().all(|(_, name)| **name != *source.env.user) {
        all.push((FIRST_ROLE + all.len() as u32, source.env.user.to_string()));
    }
    all
}

/// The name of a role.
pub(super) fn role_name(seen: &Seen, number: u32) -> Option<String> {
    all_roles(seen).into_iter().find(|(own, _)| *own == number).map(|(_, name)| name)
}

/// The number of a role.
pub(super) fn role_number(seen: &Seen, name: &str) -> Option<u32> {
    if name == OWNER {
        return Some(SUPERUSER);
    }
    all_roles(seen).into_iter().find(|(_, own)| own == name).map(|(number, _)| number)
}

fn databases(_: &Source<'_>, rows: &mut Rows<'_>) -> SqlResult<()> {
    rows.add([
        ("oid", oid(DATABASE_OID)),
        ("datname", text(DATABASE)),
        ("datdba", oid(SUPERUSER)),
        ("encoding", int(6)),
        ("datlocprovider", text("c")),
        ("datallowconn", yes(true)),
        ("datconnlimit", int(-1)),
        ("dattablespace", oid(1663)),
        ("datcollate", text("C")),
        ("datctype", text("C")),
    ]);
    Ok(())
}

fn roles(source: &Source<'_>, rows: &mut Rows<'_>) -> SqlResult<()> {
    for (number, name) in roles_of(source) {
        let mut row = rights();
        row.extend([("oid", oid(number)), ("rolname", text(name)), ("rolpassword", text("********"))]);
        rows.add(row);
    }
    Ok(())
}

/// What every role may do: all there is.
fn rights() -> Vec<(&'static str, Datum)> {
    let names =
        ["rolsuper", "rolinherit", "rolcreaterole", "rolcreatedb", "rolcanlogin", "rolreplication", "rolbypassrls"];
    names.into_iter().map(|name| (name, yes(true))).chain([("rolconnlimit", int(-1))]).collect()
}

fn authids(source: &Source<'_>, rows: &mut Rows<'_>) -> SqlResult<()> {
    for (number, name) in roles_of(source) {
        let mut row = rights();
        row.extend([("oid", oid(number)), ("rolname", text(name))]);
        rows.add(row);
    }
    Ok(())
}

fn users(source: &Source<'_>, rows: &mut Rows<'_>) -> SqlResult<()> {
    for (number, name) in roles_of(source) {
        rows.add([
            ("usename", text(name)),
            ("usesysid", oid(number)),
            ("usecreatedb", yes(true)),
            ("usesuper", yes(true)),
            ("userepl", yes(true)),
            ("usebypassrls", yes(true)),
            ("passwd", text("********")),
        ]);
    }
    Ok(())
}

fn settings(source: &Source<'_>, rows: &mut Rows<'_>) -> SqlResult<()> {
    let mut all: Vec<_> = source.env.settings.rows().collect();
    all.sort_by_key(|line| line.name.to_lowercase());
    for line in all {
        let own = line.name.starts_with("overtake.");
        rows.add([
            ("name", text(line.name)),
            ("setting", text(line.setting)),
            ("unit", or_null(line.unit, text)),
            ("category", text(if own { "Customized Options" } else { "Options" })),
            ("short_desc", text(line.about)),
            ("context", text(line.context)),
            ("vartype", text(line.vartype)),
            ("source", text(line.source)),
            ("min_val", or_null(line.min_val, text)),
            ("max_val", or_null(line.max_val, text)),
            ("enumvals", or_null(line.enumvals, |all| array(all.iter().map(text)))),
            ("boot_val", text(line.boot_val)),
            ("reset_val", text(line.reset_val)),
            ("pending_restart", yes(false)),
        ]);
    }
    Ok(())
}

fn tablespaces(_: &Source<'_>, rows: &mut Rows<'_>) -> SqlResult<()> {
    for (number, name) in [(1663, "pg_default"), (1664, "pg_global")] {
        rows.add([("oid", oid(number)), ("spcname", text(name)), ("spcowner", oid(SUPERUSER))]);
    }
    Ok(())
}

fn descriptions(_: &Source<'_>, rows: &mut Rows<'_>) -> SqlResult<()> {
    rows.add([
        ("objoid", oid(DATABASE_OID)),
        ("classoid", oid(1262)),
        ("description", text("default administrative connection database")),
    ]);
    Ok(())
}
