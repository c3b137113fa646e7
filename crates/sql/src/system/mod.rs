//! `pg_catalog`, `information_schema` and what the server tells of itself, as tables whose rows are made when they are read.
//!
//! Names, numbers and columns are those of PostgreSQL 15, from `tables.tsv`: schema, table, number, kind, and columns as
//! `name:type`, with `!` behind those that are never null. Rows are made of the catalog that the statement sees ([`Seen`]),
//! of its settings, and of what the server knows ([`Provider`]). A table without a line in `filled` has no rows: there are
//! no such objects here.
//!
//! **Invariant:** a row has exactly the columns that the table declares, of their types.

mod acl;
pub(crate) mod classes;
mod definitions;
pub(crate) mod deparse;
mod functions;
mod information;
pub(crate) mod json;
pub(crate) mod locks;
mod privileges;
mod provider;
mod pseudo;
mod reg;
mod relations;
mod server;
mod signals;
mod sizes;
mod types;
mod viewdef;
mod views;

use crate::catalog::{PG_CATALOG, Relation, Seen, State};
use crate::datum::Datum;
use crate::error::SqlResult;
use crate::ops::Env;
use crate::types::{Kind, SqlType};
pub(crate) use functions::functions;
pub use provider::{Lines, ProvidedTable, Provider, Signal};
pub(crate) use reg::{number, quoted, written};
use std::sync::{Arc, LazyLock};
pub(crate) use types::{collation_named, type_number, type_shown};

/// `information_schema`
pub(crate) const INFORMATION_SCHEMA: &str = "information_schema";
/// The schema of what only this server has.
pub(crate) const OWN_SCHEMA: &str = "overtake";

/// Numbers of schemas that are always there.
pub(crate) const SCHEMAS: [(u32, &str); 4] =
    [(11, PG_CATALOG), (99, "pg_toast"), (13_207, INFORMATION_SCHEMA), (13_208, OWN_SCHEMA)];

/// A table whose rows are made when it is read.
#[derive(Debug)]
pub struct SystemTable {
    /// Its schema.
    pub schema: String,
    /// Its name.
    pub name: String,
    /// Its number.
    pub oid: u32,
    /// Whether PostgreSQL has it as a view.
    pub is_view: bool,
    /// Its columns.
    pub columns: Vec<SystemColumn>,
}

/// A column of such a table.
#[derive(Debug)]
pub struct SystemColumn {
    /// Its name.
    pub name: String,
    /// Its type.
    pub kind: Kind,
    /// Whether it always has a value.
    pub not_null: bool,
}

/// What rows are made of.
pub(crate) struct Source<'s> {
    pub(crate) seen: &'s Seen,
    pub(crate) env: &'s Env,
}

impl Source<'_> {
    pub(crate) fn state(&self) -> &State {
        &self.seen.state
    }
}

/// The rows of one table, while they are made.
pub(crate) struct Rows<'t> {
    table: &'t SystemTable,
    rows: Vec<Box<[Datum]>>,
}

impl Rows<'_> {
    /// Adds a row. Columns that are not given are null, or nothing in their type if they are never null.
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

/// What a column has if nobody says.
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
        Kind::Oid | Kind::Regproc | Kind::Regclass | Kind::Regtype => Datum::Oid(0),
        Kind::Array(_) | Kind::Int2Vector | Kind::OidVector => Datum::Array(Box::default()),
        Kind::Text | Kind::Name | Kind::Varchar | Kind::InternalChar => Datum::text(""),
        _ => Datum::Null,
    }
}

/// Integers are given as the widest, and stored as the column's.
fn fitted(value: Datum, kind: Kind) -> Datum {
    match (value, kind) {
        (Datum::Int8(value), Kind::Int2) => Datum::Int2(value as i16),
        (Datum::Int8(value), Kind::Int4) => Datum::Int4(value as i32),
        (Datum::Int8(value), Kind::Float4) => Datum::Float4(value as f32),
        (Datum::Int8(value), Kind::Float8) => Datum::Float8(value as f64),
        (Datum::Int8(value), Kind::Oid | Kind::Regproc) => Datum::Oid(value as u32),
        (value, _) => value,
    }
}

pub(crate) fn text(value: impl AsRef<str>) -> Datum {
    Datum::text(value.as_ref())
}

pub(crate) fn oid(value: u32) -> Datum {
    Datum::Oid(value)
}

/// An integer of whatever width the column has.
pub(crate) fn int(value: i64) -> Datum {
    Datum::Int8(value)
}

pub(crate) fn yes(value: bool) -> Datum {
    Datum::Bool(value)
}

/// As `information_schema` says it.
pub(crate) fn yes_no(value: bool) -> Datum {
    Datum::text(if value { "YES" } else { "NO" })
}

pub(crate) fn array(items: impl IntoIterator<Item = Datum>) -> Datum {
    Datum::Array(items.into_iter().collect())
}

pub(crate) fn or_null<T>(value: Option<T>, of: impl FnOnce(T) -> Datum) -> Datum {
    value.map_or(Datum::Null, of)
}

type Fill = fn(&Source<'_>, &mut Rows<'_>) -> SqlResult<()>;

/// What makes the rows of a table.
fn filled(schema: &str, name: &str) -> Option<Fill> {
    match (schema, name) {
        (INFORMATION_SCHEMA, _) => return information::filled(name),
        (PG_CATALOG, "pg_get_keywords()") => return Some(keywords),
        (PG_CATALOG, "pg_locks") => return Some(locks::pg_locks),
        (OWN_SCHEMA, "locks") => return Some(locks::locks),
        _ => {}
    }
    relations::filled(name)
        .or_else(|| definitions::filled(name))
        .or_else(|| types::filled(name))
        .or_else(|| classes::filled(name))
        .or_else(|| views::filled(name))
        .or_else(|| server::filled(name))
}

static TABLES: LazyLock<Vec<Arc<SystemTable>>> =
    LazyLock::new(|| include_str!("tables.tsv").lines().filter_map(table_of).map(Arc::new).collect());

fn table_of(line: &str) -> Option<SystemTable> {
    let mut parts = line.split('\t');
    let (schema, name, number, relkind) = (parts.next()?, parts.next()?, parts.next()?, parts.next()?);
    let columns = parts.next()?.split(',').filter_map(|column| {
        let (column, not_null) = column.strip_suffix('!').map_or((column, false), |column| (column, true));
        let (name, kind) = column.split_once(':')?;
        Some(SystemColumn { name: name.to_owned(), kind: column_kind(kind), not_null })
    });
    Some(SystemTable {
        schema: schema.to_owned(),
        name: name.to_owned(),
        oid: number.parse().ok()?,
        is_view: relkind == "v",
        columns: columns.collect(),
    })
}

/// The type of a column; some of PostgreSQL's inner types are here what they are read as.
fn column_kind(name: &str) -> Kind {
    match name {
        "char" => Kind::InternalChar,
        "_char" => Kind::Array(crate::types::Element::InternalChar),
        "xid" => Kind::Oid,
        "_aclitem" => Kind::Array(crate::types::Element::Text),
        "_regtype" => Kind::Array(crate::types::Element::Regtype),
        name => Kind::from_name(name).unwrap_or(Kind::Text),
    }
}

/// All tables that are always there.
pub(crate) fn tables() -> &'static [Arc<SystemTable>] {
    &TABLES
}

/// The tables of the schema `overtake`: those that the server adds, and the locks.
pub(crate) fn provided(seen: Option<&Seen>) -> impl Iterator<Item = Arc<SystemTable>> {
    const FIRST: u32 = 14_000;
    let provider = seen.and_then(|seen| seen.provider.as_ref());
    let tables = provider.map(|provider| provider.tables()).unwrap_or_default();
    tables.into_iter().chain(provider.map(|_| locks::table())).zip(FIRST..).map(|(table, oid)| {
        let columns = table.columns.into_iter().map(|(name, kind)| SystemColumn { name, kind, not_null: false });
        Arc::new(SystemTable {
            schema: OWN_SCHEMA.to_owned(),
            name: table.name,
            oid,
            is_view: true,
            columns: columns.collect(),
        })
    })
}

/// A system table of a schema.
pub(crate) fn find(schema: &str, name: &str, seen: Option<&Seen>) -> Option<Arc<SystemTable>> {
    if schema == OWN_SCHEMA {
        return provided(seen).find(|table| table.name == name);
    }
    TABLES.iter().find(|table| table.schema == schema && table.name == name).cloned()
}

/// Functions of no arguments that return rows of several columns, as tables with brackets behind their names.
static FUNCTIONS: LazyLock<Vec<Arc<SystemTable>>> = LazyLock::new(|| {
    let keywords =
        "pg_catalog\tpg_get_keywords()\t0\tr\tword:text,catcode:char,barelabel:bool,catdesc:text,baredesc:text";
    [keywords].into_iter().filter_map(table_of).map(Arc::new).collect()
});

/// Such a function, as the table of its rows.
pub(crate) fn function_in_from(name: &str) -> Option<Arc<SystemTable>> {
    FUNCTIONS.iter().find(|table| table.name.strip_suffix("()") == Some(name)).cloned()
}

/// PostgreSQL 15's words.
fn keywords(_: &Source<'_>, rows: &mut Rows<'_>) -> SqlResult<()> {
    for line in include_str!("keywords.tsv").lines() {
        let mut fields = line.split('\t');
        let mut next = || fields.next().unwrap_or_default();
        rows.add([
            ("word", text(next())),
            ("catcode", text(next())),
            ("barelabel", yes(next() == "t")),
            ("catdesc", text(next())),
            ("baredesc", text(next())),
        ]);
    }
    Ok(())
}

/// A system table by its number.
pub(crate) fn numbered(oid: u32, seen: Option<&Seen>) -> Option<Arc<SystemTable>> {
    TABLES.iter().find(|table| table.oid == oid).cloned().or_else(|| provided(seen).find(|table| table.oid == oid))
}

/// A sequence as a table of its one row.
pub(crate) fn sequence_table(sequence: &crate::catalog::Sequence) -> SystemTable {
    let column = |(name, kind): (&str, Kind)| SystemColumn { name: name.to_owned(), kind, not_null: true };
    SystemTable {
        schema: String::new(),
        name: sequence.name.clone(),
        oid: sequence.oid,
        is_view: false,
        columns: relations::OF_SEQUENCE.into_iter().map(column).collect(),
    }
}

/// Makes the rows of a table.
///
/// # Errors
/// Those of what it is made of.
pub(crate) fn rows(table: &SystemTable, env: &Env) -> SqlResult<Vec<Box<[Datum]>>> {
    let Some(seen) = env.forms.seen.as_deref() else { return Ok(Vec::new()) };
    let mut rows = Rows { table, rows: Vec::new() };
    let source = Source { seen, env };
    if let Some(Relation::Sequence(sequence)) = seen.state.relation_numbered(table.oid) {
        relations::row_of_sequence(sequence, &mut rows);
    } else if let Some(fill) = filled(&table.schema, &table.name) {
        fill(&source, &mut rows)?;
    } else if let Some(provider) = &seen.provider {
        for line in provider.lines(&table.schema, &table.name) {
            rows.add(line);
        }
    }
    Ok(rows.rows)
}

/// The columns as a result has them.
pub(crate) fn columns_of(table: &SystemTable) -> Vec<crate::session::ColumnInfo> {
    let column = |(at, column): (usize, &SystemColumn)| crate::session::ColumnInfo {
        name: column.name.clone(),
        kind: SqlType::from(column.kind),
        table: table.oid,
        number: at as i16 + 1,
    };
    table.columns.iter().enumerate().map(column).collect()
}
