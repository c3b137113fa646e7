//! Tables of `pg_catalog`, `information_schema` and `overtake`: names, OIDs and columns.
//!
//! Tables of PostgreSQL 15 come from `tables.tsv`: schema, table, OID, kind, and columns as `name:type`, with `!`
//! behind those that are never null. Tables of `overtake` come from the server ([`super::Provider`]). Module `system`
//! above makes the rows when a table is read.

use super::{CatalogSnapshot, Sequence};
use std::sync::{Arc, LazyLock};
use types::PG_CATALOG;
use types::table::{ProvidedColumn, ProvidedTable};
use types::{Element, Kind};

/// Name of the schema `information_schema`.
pub const INFORMATION_SCHEMA: &str = "information_schema";
/// Schema of the tables that only this server has.
pub const OWN_SCHEMA: &str = "overtake";

/// OIDs of the schemas that always exist.
pub const SCHEMAS: [(u32, &str); 4] =
    [(11, PG_CATALOG), (99, "pg_toast"), (13_207, INFORMATION_SCHEMA), (13_208, OWN_SCHEMA)];

/// Returns true if a schema of this name always exists.
pub fn is_schema(name: &str) -> bool {
    SCHEMAS.iter().any(|(_, fixed)| *fixed == name)
}

/// A virtual table, whose rows are made when it is read.
#[derive(Debug)]
pub struct SystemTable {
    /// Name of the schema.
    pub schema: String,
    /// Name of the table.
    pub name: String,
    /// OID of the table.
    pub oid: u32,
    /// True if the table is a view in PostgreSQL.
    pub is_view: bool,
    /// Description of a table of this server's own.
    pub about: Option<&'static str>,
    /// Columns, in their order.
    pub columns: Vec<SystemColumn>,
}

/// A column of a virtual table.
#[derive(Debug)]
pub struct SystemColumn {
    /// Name of the column.
    pub name: String,
    /// Type of the column.
    pub kind: Kind,
    /// True if no row has a null here.
    pub not_null: bool,
    /// Description of a column of a table of this server's own.
    pub about: Option<&'static str>,
}

static TABLES: LazyLock<Vec<Arc<SystemTable>>> =
    LazyLock::new(|| include_str!("tables.tsv").lines().filter_map(table_of).map(Arc::new).collect());

fn table_of(line: &str) -> Option<SystemTable> {
    let mut parts = line.split('\t');
    let (schema, name, number, relkind) = (parts.next()?, parts.next()?, parts.next()?, parts.next()?);
    let columns = parts.next()?.split(',').filter_map(|column| {
        let (column, not_null) = column.strip_suffix('!').map_or((column, false), |column| (column, true));
        let (name, kind) = column.split_once(':')?;
        Some(SystemColumn { name: name.to_owned(), kind: column_kind(kind), not_null, about: None })
    });
    Some(SystemTable {
        schema: schema.to_owned(),
        name: name.to_owned(),
        oid: number.parse().ok()?,
        is_view: relkind == "v",
        about: None,
        columns: columns.collect(),
    })
}

/// Returns the type of a column. Some of PostgreSQL's internal types are replaced by the type they are read as.
fn column_kind(name: &str) -> Kind {
    match name {
        "char" => Kind::InternalChar,
        "_char" => Kind::Array(Element::InternalChar),
        "xid" => Kind::Oid,
        "_aclitem" => Kind::Array(Element::Text),
        "_regtype" => Kind::Array(Element::Regtype),
        name => Kind::from_name(name).unwrap_or(Kind::Text),
    }
}

/// Returns all tables that always exist.
pub fn tables() -> &'static [Arc<SystemTable>] {
    &TABLES
}

/// Returns the tables of the schema `overtake`: those that the server adds, and those about the database.
pub fn provided(snapshot: Option<&CatalogSnapshot>) -> impl Iterator<Item = Arc<SystemTable>> {
    const FIRST: u32 = 14_000;
    let provider = snapshot.and_then(|snapshot| snapshot.provider.as_ref());
    let tables = provider.map(|provider| provider.tables()).unwrap_or_default();
    let own = provider.map(|_| own_tables()).into_iter().flatten();
    tables.into_iter().chain(own).zip(FIRST..).map(|(table, oid)| {
        let columns = table.columns.into_iter().map(|ProvidedColumn { name, kind, about }| SystemColumn {
            name: name.to_owned(),
            kind,
            not_null: false,
            about: Some(about),
        });
        Arc::new(SystemTable {
            schema: OWN_SCHEMA.to_owned(),
            name: table.name.to_owned(),
            oid,
            is_view: true,
            about: Some(table.about),
            columns: columns.collect(),
        })
    })
}

/// Returns a system table by schema and name.
pub fn find(schema: &str, name: &str, snapshot: Option<&CatalogSnapshot>) -> Option<Arc<SystemTable>> {
    if schema == OWN_SCHEMA {
        return provided(snapshot).find(|table| table.name == name);
    }
    TABLES.iter().find(|table| table.schema == schema && table.name == name).cloned()
}

/// Functions without arguments that return rows of several columns, as tables with brackets behind their names.
static FUNCTIONS: LazyLock<Vec<Arc<SystemTable>>> = LazyLock::new(|| {
    let keywords =
        "pg_catalog\tpg_get_keywords()\t0\tr\tword:text,catcode:char,barelabel:bool,catdesc:text,baredesc:text";
    [keywords].into_iter().filter_map(table_of).map(Arc::new).collect()
});

/// Returns such a function, as the table of its rows.
pub fn function_in_from(name: &str) -> Option<Arc<SystemTable>> {
    FUNCTIONS.iter().find(|table| table.name.strip_suffix("()") == Some(name)).cloned()
}

/// Returns a system table by its OID.
pub fn numbered(oid: u32, snapshot: Option<&CatalogSnapshot>) -> Option<Arc<SystemTable>> {
    TABLES.iter().find(|table| table.oid == oid).cloned().or_else(|| provided(snapshot).find(|table| table.oid == oid))
}

/// Returns a sequence as a table of its one row.
pub fn sequence_table(sequence: &Sequence) -> SystemTable {
    let column = |(name, kind): (&str, Kind)| SystemColumn { name: name.to_owned(), kind, not_null: true, about: None };
    SystemTable {
        schema: String::new(),
        name: sequence.name.clone(),
        oid: sequence.oid,
        is_view: false,
        about: None,
        columns: OF_SEQUENCE.into_iter().map(column).collect(),
    }
}

/// Columns of a sequence that is read like a table.
pub const OF_SEQUENCE: [(&str, Kind); 3] =
    [("last_value", Kind::Int8), ("log_cnt", Kind::Int8), ("is_called", Kind::Bool)];

/// Definitions of the tables of the schema `overtake` that the server does not add.
fn own_tables() -> [ProvidedTable; 5] {
    let modules = ProvidedTable::new(
        "modules",
        "Code that routines run, one row for each artifact of a module.",
        &[
            ("oid", Kind::Oid, "OID of the module."),
            ("name", Kind::Text, "Name of the module."),
            ("owner", Kind::Text, "Role that owns the module."),
            ("artifact", Kind::Text, "Kind of the artifact: native, wasm, exec or guest."),
            ("bytes", Kind::Int8, "Size of the artifact."),
            ("sha256", Kind::Bytea, "SHA-256 of the artifact."),
            ("entries", Kind::Array(Element::Text), "Names that routines may call."),
            ("manifest", Kind::Text, "Text of the manifest: tables, statements and entries."),
        ],
    );
    let levels = ProvidedTable::new(
        "isolation_levels",
        "Levels of isolation of stored code, the weakest first, and whether this server can run them.",
        &[
            ("isolation", Kind::Text, "Name of the level."),
            ("available", Kind::Bool, "True if code can run at the level here."),
            ("reason", Kind::Text, "Reason why it cannot; NULL if it can."),
            ("means", Kind::Text, "Means of the machine that the level uses, such as its kind of virtualization."),
            ("artifact", Kind::Text, "Kind of artifact that the level runs."),
            ("channels", Kind::Array(Element::Text), "Channels between the code and the engine, the default first."),
        ],
    );
    let routines = ProvidedTable::new(
        "isolated_routines",
        "Functions and procedures whose code is in a module.",
        &[
            ("oid", Kind::Oid, "OID of the routine."),
            ("schema", Kind::Text, "Schema of the routine."),
            ("name", Kind::Text, "Name of the routine."),
            ("language", Kind::Text, "Language of the routine."),
            ("module", Kind::Text, "Module that has the code."),
            ("entry", Kind::Text, "Name within the module."),
            ("isolation", Kind::Text, "Level at which the code runs."),
            ("channel", Kind::Text, "Channel between the code and the engine."),
            ("time_limit_ms", Kind::Int8, "Greatest duration of a call; NULL if only statement_timeout limits it."),
            ("memory_limit", Kind::Int8, "Greatest memory of an instance, in bytes."),
            (
                "row_limit",
                Kind::Int8,
                "Greatest number of rows that a call reads, changes and emits; NULL for no limit.",
            ),
            ("urgent", Kind::Bool, "True if a call of class `high` may interrupt a query."),
        ],
    );
    let tenants = ProvidedTable::new(
        "tenants",
        "Tenants, whose stored code shares no instance, memory and limit with that of others.",
        &[
            ("role", Kind::Text, "Name of a role."),
            ("tenant", Kind::Text, "Role that is its tenant: the role itself, unless TENANT names another."),
        ],
    );
    [locks_table(), modules, levels, routines, tenants]
}

/// Definition of `overtake.locks`.
fn locks_table() -> ProvidedTable {
    ProvidedTable::new(
        "locks",
        "Locks that transactions and sessions hold or wait for.",
        &[
            ("relation", Kind::Regclass, "Table or sequence; NULL for an advisory lock."),
            ("row", Kind::Int8, "Number of the row; NULL if the lock is not on a row."),
            ("advisory", Kind::Text, "Key of an advisory lock: one number or two; NULL for other locks."),
            ("mode", Kind::Text, "Mode of the lock."),
            ("granted", Kind::Bool, "True if the lock is held, false if it is waited for."),
            ("woken", Kind::Bool, "True if the waiter was woken and will look again."),
            ("pid", Kind::Int4, "PID of the session; NULL for a transaction of the server itself."),
            ("class", Kind::Text, "Class of the transaction."),
            ("transaction", Kind::Int8, "Number of the transaction; NULL for a lock of the session."),
            ("blocked_by", Kind::Array(Element::Int4), "PIDs of the sessions that block it; NULL if the lock is held."),
        ],
    )
}
