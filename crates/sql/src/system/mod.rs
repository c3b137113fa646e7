//! System catalogs: `pg_catalog`, `information_schema` and the server's own tables, whose rows are computed when they
//! are read.
//!
//! The catalog declares the tables ([`catalog::SystemTable`]). Rows are computed from the catalog snapshot of the
//! statement ([`CatalogSnapshot`]), from its settings, and from the state of the server ([`catalog::Provider`]). A
//! table without a line in `filled` has no rows: there are no such objects here.
//!
//! **Invariant:** a row has exactly the columns that the table declares, of their types.

mod acl;
pub(crate) mod classes;
mod definitions;
pub(crate) mod deparse;
mod functions;
mod grants;
mod information;
pub(crate) mod json;
pub(crate) mod locks;
mod modules;
mod pg_type;
mod privileges;
mod pseudo;
mod reg;
mod relations;
mod routines;
mod server;
mod signals;
mod sizes;
mod viewdef;
mod views;

use crate::context::Env;
use catalog::system::{INFORMATION_SCHEMA, OWN_SCHEMA};
use catalog::{CatalogSnapshot, CatalogState, Relation, SystemColumn, SystemTable};
pub(crate) use functions::all_functions;
pub(crate) use pg_type::{arguments_of, collation_named};
pub(crate) use reg::{SnapshotNames, quoted, relation_shown, shown_routine};
use settings::roles::READ_ALL_STATS;
use statement::error::SqlResult;
use syntax::lex::{Keyword, KeywordCategory};
use types::Kind;
use types::PG_CATALOG;
use types::datum::Datum;

/// Sources of the rows: the statement's catalog snapshot and its session.
pub(crate) struct SystemContext<'s> {
    pub(crate) snapshot: &'s CatalogSnapshot,
    pub(crate) env: &'s Env,
}

impl SystemContext<'_> {
    pub(crate) fn state(&self) -> &CatalogState {
        &self.snapshot.state
    }
}

/// Rows of one table that are being collected.
pub(crate) struct SystemRows<'t> {
    table: &'t SystemTable,
    rows: Vec<Box<[Datum]>>,
}

impl SystemRows<'_> {
    /// Adds a row. Columns that are not given are null, or the empty value of their type if they are never null.
    pub(crate) fn add(&mut self, values: impl IntoIterator<Item = (&'static str, Datum)>) {
        let columns = &self.table.columns;
        let mut row: Vec<Datum> = columns.iter().map(nothing).collect();
        for (name, value) in values {
            let at = columns.iter().position(|column| column.name == name);
            debug_assert!(at.is_some(), "{} has no column {name}", self.table.name);
            if let Some(at) = at {
                row[at] = fitted(value, columns[at].kind);
            }
        }
        self.rows.push(row.into());
    }
}

/// Returns the default of a column: null, or the empty value of its type if it is never null.
fn nothing(column: &SystemColumn) -> Datum {
    if !column.not_null {
        return Datum::Null;
    }
    match column.kind {
        Kind::Bool => Datum::Bool(false),
        Kind::Int2 => Datum::Int2(0),
        Kind::Int4 => Datum::Int4(0),
        Kind::Int8 => Datum::Int8(0),
        Kind::Float4 => Datum::Float4(0.0),
        Kind::Float8 => Datum::Float8(0.0),
        Kind::Oid | Kind::Regproc | Kind::Regprocedure | Kind::Regclass | Kind::Regtype => Datum::Oid(0),
        Kind::Array(_) | Kind::Int2Vector | Kind::OidVector => Datum::Array(Box::default()),
        Kind::Text | Kind::Name | Kind::Varchar | Kind::InternalChar => Datum::text(""),
        _ => Datum::Null,
    }
}

/// Converts an integer, which is given as the widest type, to the column's type.
fn fitted(value: Datum, kind: Kind) -> Datum {
    match (value, kind) {
        (Datum::Int8(value), Kind::Int2) => Datum::Int2(value as i16),
        (Datum::Int8(value), Kind::Int4) => Datum::Int4(value as i32),
        (Datum::Int8(value), Kind::Float4) => Datum::Float4(value as f32),
        (Datum::Int8(value), Kind::Float8) => Datum::Float8(value as f64),
        (Datum::Int8(value), Kind::Oid | Kind::Regproc | Kind::Regprocedure | Kind::Regclass | Kind::Regtype) => {
            Datum::Oid(value as u32)
        }
        (value, _) => value,
    }
}

pub(crate) fn text(value: impl AsRef<str>) -> Datum {
    Datum::text(value.as_ref())
}

pub(crate) fn oid(value: u32) -> Datum {
    Datum::Oid(value)
}

/// Returns an integer for a column of any width.
pub(crate) fn int(value: i64) -> Datum {
    Datum::Int8(value)
}

pub(crate) fn yes(value: bool) -> Datum {
    Datum::Bool(value)
}

/// Returns a boolean as `information_schema` writes it.
pub(crate) fn yes_no(value: bool) -> Datum {
    Datum::text(if value { "YES" } else { "NO" })
}

pub(crate) fn array(items: impl IntoIterator<Item = Datum>) -> Datum {
    Datum::Array(items.into_iter().collect())
}

pub(crate) fn or_null<T>(value: Option<T>, of: impl FnOnce(T) -> Datum) -> Datum {
    value.map_or(Datum::Null, of)
}

type TableFill = fn(&SystemContext<'_>, &mut SystemRows<'_>) -> SqlResult<()>;

/// Returns the function that computes the rows of a table.
fn filled(schema: &str, name: &str) -> Option<TableFill> {
    match (schema, name) {
        (INFORMATION_SCHEMA, _) => return information::filled(name),
        (PG_CATALOG, "pg_get_keywords()") => return Some(keywords),
        (PG_CATALOG, "pg_locks") => return Some(locks::pg_locks),
        (OWN_SCHEMA, "locks") => return Some(locks::locks),
        (OWN_SCHEMA, name) => return modules::filled(name),
        _ => {}
    }
    relations::filled(name)
        .or_else(|| definitions::filled(name))
        .or_else(|| pg_type::filled(name))
        .or_else(|| classes::filled(name))
        .or_else(|| views::filled(name))
        .or_else(|| server::filled(name))
}

/// Adds the keywords of PostgreSQL 15.
fn keywords(_: &SystemContext<'_>, rows: &mut SystemRows<'_>) -> SqlResult<()> {
    for word in Keyword::ALL {
        let (code, about) = match word.category() {
            KeywordCategory::Unreserved => ("U", "unreserved"),
            KeywordCategory::ColumnName => ("C", "unreserved (cannot be function or type name)"),
            KeywordCategory::TypeOrFunction => ("T", "reserved (can be function or type name)"),
            KeywordCategory::Reserved => ("R", "reserved"),
        };
        let is_bare = word.is_bare_label();
        rows.add([
            ("word", text(word.word())),
            ("catcode", text(code)),
            ("barelabel", yes(is_bare)),
            ("catdesc", text(about)),
            ("baredesc", text(if is_bare { "can be bare label" } else { "requires AS" })),
        ]);
    }
    Ok(())
}

/// Hides what a session runs from roles that have neither the rights of its role nor those of `pg_read_all_stats`.
fn hide_statement(source: &SystemContext<'_>, line: &mut [(&'static str, Datum)]) {
    let Some((_, Datum::Text(user))) = line.iter().find(|(name, _)| *name == "usename") else { return };
    let roles = &source.snapshot.roles;
    let viewer = catalog::rights::role_named(roles, &source.env.user);
    let has = |role| roles.has_rights_of(viewer, role);
    if roles.is_superuser(viewer) || has(READ_ALL_STATS) || roles.oid_of(user).is_some_and(has) {
        return;
    }
    for (name, value) in line {
        match *name {
            "query" => *value = text("<insufficient privilege>"),
            "client" | "client_addr" => *value = Datum::Null,
            _ => {}
        }
    }
}

/// Computes the rows of a table.
///
/// # Errors
/// Errors of the functions that compute the rows.
pub(crate) fn rows(table: &SystemTable, env: &Env) -> SqlResult<Vec<Box<[Datum]>>> {
    let Some(snapshot) = env.catalog_snapshot.as_deref() else { return Ok(Vec::new()) };
    let mut rows = SystemRows { table, rows: Vec::new() };
    let source = SystemContext { snapshot, env };
    if let Some(Relation::Sequence(sequence)) = snapshot.state.relation_numbered(table.oid) {
        relations::row_of_sequence(sequence, &mut rows);
    } else if let Some(fill) = filled(&table.schema, &table.name) {
        fill(&source, &mut rows)?;
    } else if let Some(provider) = &snapshot.provider {
        for mut line in provider.lines(&table.schema, &table.name) {
            hide_statement(&source, &mut line);
            rows.add(line);
        }
    }
    Ok(rows.rows)
}
