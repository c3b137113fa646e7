//! Views of `information_schema` about privileges.
//!
//! **Invariant:** a view shows what a role has granted or may use that the current role is a member of, and what PUBLIC
//! may use.

use super::{SystemContext, SystemRows, reg, text, yes_no};
use catalog::acl::{Acl, AclItem, PUBLIC_ROLE, Privileges, Securable};
use catalog::rights::{Rights, role_named};
use catalog::{DATABASE, Relation};
use statement::error::SqlResult;
use std::collections::BTreeSet;
use types::datum::Datum;

pub(super) fn filled(name: &str) -> Option<super::TableFill> {
    match name {
        "table_privileges" => Some(|source, rows| tables(source, rows, Shown::All)),
        "role_table_grants" => Some(|source, rows| tables(source, rows, Shown::OfRoles)),
        "column_privileges" => Some(|source, rows| columns(source, rows, Shown::All)),
        "role_column_grants" => Some(|source, rows| columns(source, rows, Shown::OfRoles)),
        "usage_privileges" => Some(|source, rows| usages(source, rows, Shown::All)),
        "role_usage_grants" => Some(|source, rows| usages(source, rows, Shown::OfRoles)),
        _ => None,
    }
}

/// Grants that a view shows.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Shown {
    All,
    /// Those by and to roles that the current one is a member of, without those to PUBLIC alone.
    OfRoles,
}

/// Object whose grants are shown.
struct ShownObject {
    of: Securable,
    schema: String,
    name: String,
    is_sequence: bool,
    /// Columns by attribute number.
    columns: Vec<(i16, String)>,
}

fn objects(source: &SystemContext<'_>) -> Vec<ShownObject> {
    let mut all = Vec::new();
    for table in super::relations::system(source) {
        let Some(of) = source.state().securable(table.oid) else { continue };
        let columns = (1..).zip(table.columns.iter().map(|column| column.name.clone())).collect();
        let (schema, name) = (table.schema.clone(), table.name.clone());
        all.push(ShownObject { of, schema, name, is_sequence: false, columns });
    }
    for relation in source.state().relations() {
        let columns = match relation {
            Relation::Table(table) => table.columns.iter().map(|column| (column.number, column.name.clone())).collect(),
            Relation::View(view) => (1..).zip(view.columns.iter().map(|(name, _)| name.clone())).collect(),
            Relation::Sequence(_) => Vec::new(),
            Relation::Index { .. } => continue,
        };
        all.push(ShownObject {
            of: Securable::relation(relation),
            schema: reg::schema_name(source.snapshot, relation.schema()).unwrap_or_default(),
            name: relation.name().to_owned(),
            is_sequence: relation.as_sequence().is_some(),
            columns,
        });
    }
    all
}

/// Grant of one privilege, ordered as it is shown.
#[derive(PartialEq, Eq, PartialOrd, Ord)]
struct ShownGrant {
    grantor: u32,
    grantee: u32,
    privilege: &'static str,
    is_grantable: bool,
}

/// Returns the grants of a list that the current role sees.
fn grants(source: &SystemContext<'_>, of: Securable, list: &Acl, only: Privileges, shown: Shown) -> Vec<ShownGrant> {
    let roles = &source.snapshot.roles;
    let own = role_named(roles, &source.env.user);
    let rights = Rights::new(source.state(), roles, own);
    let is_shown = |item: &&AclItem| {
        let is_public = item.grantee == PUBLIC_ROLE;
        rights.owns(item.grantor) || !is_public && rights.owns(item.grantee) || is_public && shown == Shown::All
    };
    let of_item = |item: &AclItem| {
        let has_all = item.grantee != PUBLIC_ROLE && roles.has_rights_of(item.grantee, of.owner);
        let (grantor, grantee, options) = (item.grantor, item.grantee, item.options);
        (item.privileges & only)
            .iter()
            .map(move |(one, privilege)| ShownGrant {
                grantor,
                grantee,
                privilege,
                is_grantable: has_all || options.has(one),
            })
            .collect::<Vec<_>>()
    };
    list.items().iter().filter(is_shown).flat_map(of_item).collect()
}

fn role(source: &SystemContext<'_>, oid: u32) -> Datum {
    match oid {
        PUBLIC_ROLE => text("PUBLIC"),
        oid => text(super::server::owner_name(source.snapshot, oid)),
    }
}

fn tables(source: &SystemContext<'_>, rows: &mut SystemRows<'_>, shown: Shown) -> SqlResult<()> {
    for object in objects(source).iter().filter(|object| !object.is_sequence) {
        let list = source.state().acl(object.of);
        for grant in grants(source, object.of, &list, Privileges::OF_TABLE, shown) {
            rows.add([
                ("grantor", role(source, grant.grantor)),
                ("grantee", role(source, grant.grantee)),
                ("table_catalog", text(DATABASE)),
                ("table_schema", text(&object.schema)),
                ("table_name", text(&object.name)),
                ("privilege_type", text(grant.privilege)),
                ("is_grantable", yes_no(grant.is_grantable)),
                ("with_hierarchy", yes_no(grant.privilege == "SELECT")),
            ]);
        }
    }
    Ok(())
}

fn columns(source: &SystemContext<'_>, rows: &mut SystemRows<'_>, shown: Shown) -> SqlResult<()> {
    for object in objects(source).iter().filter(|object| !object.is_sequence) {
        let list = source.state().acl(object.of);
        for (number, name) in &object.columns {
            let mut all: BTreeSet<ShownGrant> =
                grants(source, object.of, &list, Privileges::OF_COLUMN, shown).into_iter().collect();
            if let Some(own) = source.state().own_acl(object.of.oid, *number) {
                all.extend(grants(source, object.of, own, Privileges::OF_COLUMN, shown));
            }
            for grant in all {
                rows.add([
                    ("grantor", role(source, grant.grantor)),
                    ("grantee", role(source, grant.grantee)),
                    ("table_catalog", text(DATABASE)),
                    ("table_schema", text(&object.schema)),
                    ("table_name", text(&object.name)),
                    ("column_name", text(name)),
                    ("privilege_type", text(grant.privilege)),
                    ("is_grantable", yes_no(grant.is_grantable)),
                ]);
            }
        }
    }
    Ok(())
}

fn usages(source: &SystemContext<'_>, rows: &mut SystemRows<'_>, shown: Shown) -> SqlResult<()> {
    for object in objects(source).iter().filter(|object| object.is_sequence) {
        let list = source.state().acl(object.of);
        for grant in grants(source, object.of, &list, Privileges::USAGE, shown) {
            rows.add([
                ("grantor", role(source, grant.grantor)),
                ("grantee", role(source, grant.grantee)),
                ("object_catalog", text(DATABASE)),
                ("object_schema", text(&object.schema)),
                ("object_name", text(&object.name)),
                ("object_type", text("SEQUENCE")),
                ("privilege_type", text(grant.privilege)),
                ("is_grantable", yes_no(grant.is_grantable)),
            ]);
        }
    }
    Ok(())
}
