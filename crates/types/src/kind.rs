//! The table of types: names, numbers, lengths.

/// The schema of PostgreSQL's own tables, functions and types.
pub const PG_CATALOG: &str = "pg_catalog";

/// What a type is, without its modifier.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[allow(missing_docs, reason = "PostgreSQL's names")]
pub enum Kind {
    Bool,
    Bytea,
    /// `"char"`, one byte.
    InternalChar,
    Name,
    Int8,
    Int2,
    Int4,
    Text,
    Oid,
    Json,
    Float4,
    Float8,
    /// A literal or parameter whose type nobody has decided.
    Unknown,
    /// `character(n)`.
    Bpchar,
    Varchar,
    Date,
    Time,
    Timestamp,
    Timestamptz,
    Interval,
    Numeric,
    Regclass,
    Regtype,
    Regproc,
    Regnamespace,
    Regrole,
    /// Numbers, as the catalog has them: an array that begins at 0 and is written without braces.
    Int2Vector,
    OidVector,
    Uuid,
    /// Of no value.
    Void,
    /// An array of one dimension.
    Array(Element),
}

/// What an array may have as its elements.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[allow(missing_docs, reason = "PostgreSQL's names")]
pub enum Element {
    Bool,
    Bytea,
    InternalChar,
    Name,
    Int8,
    Int2,
    Int4,
    Text,
    Oid,
    Json,
    Float4,
    Float8,
    Bpchar,
    Varchar,
    Date,
    Time,
    Timestamp,
    Timestamptz,
    Interval,
    Numeric,
    Uuid,
    Regtype,
}

/// A type with its modifier: `varchar(20)`, `numeric(12,2)`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct SqlType {
    /// What it is.
    pub kind: Kind,
    /// PostgreSQL's `atttypmod`; -1 without one.
    pub typmod: i32,
}

impl From<Kind> for SqlType {
    fn from(kind: Kind) -> SqlType {
        SqlType { kind, typmod: -1 }
    }
}
