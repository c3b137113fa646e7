//! The server, its database, its roles and its settings, as rows of the catalog.
//!
//! **Invariant:** every owner of an object has a role, so OIDs of owners can be looked up.

use super::{SystemContext, SystemRows, array, int, oid, or_null, text, yes};
use catalog::{CatalogSnapshot, DATABASE};
use settings::roles::{Role, SettingList};
use statement::error::SqlResult;
use types::datum::Datum;

/// OID of the role that owns the database.
pub(super) const SUPERUSER: u32 = 10;
/// OID of the role that stands for the owner of the database.
pub(super) const DATABASE_OWNER: u32 = 6171;
/// PostgreSQL's OID of the database `postgres`.
pub(super) const DATABASE_OID: u32 = 5;

pub(super) fn filled(name: &str) -> Option<super::TableFill> {
    match name {
        "pg_database" => Some(databases),
        "pg_roles" => Some(roles),
        "pg_authid" => Some(authids),
        "pg_user" | "pg_shadow" => Some(users),
        "pg_settings" => Some(settings),
        "pg_db_role_setting" => Some(role_settings),
        "pg_tablespace" => Some(tablespaces),
        "pg_shdescription" => Some(descriptions),
        _ => None,
    }
}

/// Returns all roles by OID and name.
fn all_roles(snapshot: &CatalogSnapshot) -> Vec<(u32, String, Role)> {
    snapshot.roles.all().into_iter().map(|(name, role)| (role.oid, name, role)).collect()
}

/// Returns the name of a role.
pub(super) fn role_name(snapshot: &CatalogSnapshot, number: u32) -> Option<String> {
    if number == DATABASE_OWNER {
        return Some("pg_database_owner".to_owned());
    }
    all_roles(snapshot).into_iter().find(|(own, ..)| *own == number).map(|(_, name, _)| name)
}

/// Returns the OID of a role.
pub(super) fn role_number(snapshot: &CatalogSnapshot, name: &str) -> Option<u32> {
    snapshot.roles.get(name).map(|role| role.oid)
}

fn databases(_: &SystemContext<'_>, rows: &mut SystemRows<'_>) -> SqlResult<()> {
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

fn roles(source: &SystemContext<'_>, rows: &mut SystemRows<'_>) -> SqlResult<()> {
    for (number, name, role) in all_roles(source.snapshot) {
        let mut row = rights(&role);
        row.extend([("oid", oid(number)), ("rolname", text(name)), ("rolpassword", text("********"))]);
        row.push(("rolconfig", config(&role.settings)));
        rows.add(row);
    }
    let mut row = database_owner();
    row.push(("rolpassword", text("********")));
    rows.add(row);
    Ok(())
}

/// Returns the row of the role that stands for the owner of the database.
fn database_owner() -> Vec<(&'static str, Datum)> {
    vec![
        ("oid", oid(DATABASE_OWNER)),
        ("rolname", text("pg_database_owner")),
        ("rolsuper", yes(false)),
        ("rolinherit", yes(true)),
        ("rolcreaterole", yes(false)),
        ("rolcreatedb", yes(false)),
        ("rolcanlogin", yes(false)),
        ("rolreplication", yes(false)),
        ("rolbypassrls", yes(false)),
        ("rolconnlimit", int(-1)),
    ]
}

/// Returns settings as `name=value`, or NULL if there are none.
fn config(settings: &SettingList) -> Datum {
    if settings.is_empty() {
        return Datum::Null;
    }
    array(settings.iter().map(|(name, value)| text(format!("{name}={value}"))))
}

/// Adds the settings of `ALTER ROLE SET` and `ALTER DATABASE SET`.
fn role_settings(source: &SystemContext<'_>, rows: &mut SystemRows<'_>) -> SqlResult<()> {
    let mut add = |database: u32, role: u32, settings: &SettingList| {
        if !settings.is_empty() {
            rows.add([("setdatabase", oid(database)), ("setrole", oid(role)), ("setconfig", config(settings))]);
        }
    };
    add(DATABASE_OID, 0, &source.snapshot.roles.of_database(DATABASE));
    for (number, _, role) in all_roles(source.snapshot) {
        add(0, number, &role.settings);
        role.settings_in.get(DATABASE).into_iter().for_each(|settings| add(DATABASE_OID, number, settings));
    }
    Ok(())
}

/// Returns the attributes of a role.
fn rights(role: &Role) -> Vec<(&'static str, Datum)> {
    vec![
        ("rolsuper", yes(role.is_superuser)),
        ("rolinherit", yes(role.inherits)),
        ("rolcreaterole", yes(role.may_create_roles)),
        ("rolcreatedb", yes(role.may_create_databases)),
        ("rolcanlogin", yes(role.may_log_in)),
        ("rolreplication", yes(role.is_superuser)),
        ("rolbypassrls", yes(role.is_superuser)),
        ("rolconnlimit", int(i64::from(role.connections_max))),
    ]
}

fn authids(source: &SystemContext<'_>, rows: &mut SystemRows<'_>) -> SqlResult<()> {
    // Password verifiers are shown to superusers only.
    let asks = source.snapshot.roles.get(&source.env.user);
    let is_asked_by_superuser = asks.is_some_and(|role| role.is_superuser);
    for (number, name, role) in all_roles(source.snapshot) {
        let mut row = rights(&role);
        row.extend([("oid", oid(number)), ("rolname", text(name))]);
        if is_asked_by_superuser {
            row.push(("rolpassword", or_null(role.password, text)));
        }
        rows.add(row);
    }
    rows.add(database_owner());
    Ok(())
}

fn users(source: &SystemContext<'_>, rows: &mut SystemRows<'_>) -> SqlResult<()> {
    for (number, name, role) in all_roles(source.snapshot).into_iter().filter(|(_, _, role)| role.may_log_in) {
        rows.add([
            ("usename", text(name)),
            ("usesysid", oid(number)),
            ("usecreatedb", yes(role.may_create_databases)),
            ("usesuper", yes(role.is_superuser)),
            ("userepl", yes(role.is_superuser)),
            ("usebypassrls", yes(role.is_superuser)),
            ("passwd", text("********")),
        ]);
    }
    Ok(())
}

fn settings(source: &SystemContext<'_>, rows: &mut SystemRows<'_>) -> SqlResult<()> {
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

fn tablespaces(_: &SystemContext<'_>, rows: &mut SystemRows<'_>) -> SqlResult<()> {
    for (number, name) in [(1663, "pg_default"), (1664, "pg_global")] {
        rows.add([("oid", oid(number)), ("spcname", text(name)), ("spcowner", oid(SUPERUSER))]);
    }
    Ok(())
}

fn descriptions(_: &SystemContext<'_>, rows: &mut SystemRows<'_>) -> SqlResult<()> {
    rows.add([
        ("objoid", oid(DATABASE_OID)),
        ("classoid", oid(1262)),
        ("description", text("default administrative connection database")),
    ]);
    Ok(())
}
