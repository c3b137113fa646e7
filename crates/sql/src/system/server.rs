//! The server, its database, its roles and its settings, as rows of the catalog.
//!
//! **Invariant:** every owner of an object has a role, so OIDs of owners can be looked up.

use super::{SystemContext, SystemRows, array, int, oid, or_null, text, yes};
use catalog::acl::Acl;
use catalog::{CatalogSnapshot, DATABASE};
use settings::roles::{Role, SettingList};
use statement::error::SqlResult;
use types::datum::Datum;

/// OID of the role that owns the database.
pub(super) const SUPERUSER: u32 = 10;
pub(super) use catalog::DATABASE_OID;

pub(super) fn filled(name: &str) -> Option<super::TableFill> {
    match name {
        "pg_database" => Some(databases),
        "pg_roles" => Some(roles),
        "pg_authid" => Some(authids),
        "pg_user" | "pg_shadow" => Some(users),
        "pg_auth_members" => Some(members),
        "pg_default_acl" => Some(default_acls),
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
    snapshot.roles.name_of(number).map(|name| name.to_string())
}

/// Returns the name of an owner.
pub(super) fn owner_name(snapshot: &CatalogSnapshot, number: u32) -> String {
    role_name(snapshot, number).unwrap_or_else(|| format!("unknown (OID={number})"))
}

/// Returns the OID of a role.
pub(super) fn role_number(snapshot: &CatalogSnapshot, name: &str) -> Option<u32> {
    snapshot.roles.oid_of(name)
}

fn databases(source: &SystemContext<'_>, rows: &mut SystemRows<'_>) -> SqlResult<()> {
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
        ("datacl", acl(source.snapshot, DATABASE_OID, 0)),
    ]);
    Ok(())
}

/// Returns the access control list of an object or a column, or NULL if it has the default one.
pub(super) fn acl(snapshot: &CatalogSnapshot, number: u32, column: i16) -> Datum {
    or_null(snapshot.state.own_acl(number, column), |list| acl_items(snapshot, list))
}

/// Returns the items of an access control list as an array.
pub(super) fn acl_items(snapshot: &CatalogSnapshot, list: &Acl) -> Datum {
    let name = |role: u32| role_name(snapshot, role).map_or_else(|| role.to_string(), |name| super::quoted(&name));
    array(list.texts(name).map(text))
}

/// Adds the memberships of roles.
fn members(source: &SystemContext<'_>, rows: &mut SystemRows<'_>) -> SqlResult<()> {
    for (number, _, role) in all_roles(source.snapshot) {
        for membership in &role.member_of {
            rows.add([
                ("roleid", oid(membership.role)),
                ("member", oid(number)),
                ("grantor", oid(membership.grantor)),
                ("admin_option", yes(membership.is_admin)),
            ]);
        }
    }
    Ok(())
}

/// Adds default privileges.
fn default_acls(source: &SystemContext<'_>, rows: &mut SystemRows<'_>) -> SqlResult<()> {
    for ((role, schema, kind), rights) in source.state().default_rights() {
        rows.add([
            ("oid", oid(rights.oid)),
            ("defaclrole", oid(*role)),
            ("defaclnamespace", oid(*schema)),
            ("defaclobjtype", text(kind.letter())),
            ("defaclacl", acl_items(source.snapshot, &rights.list)),
        ]);
    }
    Ok(())
}

fn roles(source: &SystemContext<'_>, rows: &mut SystemRows<'_>) -> SqlResult<()> {
    for (number, name, role) in all_roles(source.snapshot) {
        let mut row = rights(&role);
        row.extend([("oid", oid(number)), ("rolname", text(name)), ("rolpassword", text("********"))]);
        row.push(("rolconfig", config(&role.settings)));
        rows.add(row);
    }
    Ok(())
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
    // Only roles that may read the table come here.
    for (number, name, role) in all_roles(source.snapshot) {
        let mut row = rights(&role);
        row.extend([("oid", oid(number)), ("rolname", text(name))]);
        row.push(("rolpassword", or_null(role.password, text)));
        rows.add(row);
    }
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
