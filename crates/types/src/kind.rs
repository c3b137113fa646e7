//! Kinds of types, and types with their modifiers.

/// Schema of PostgreSQL's system catalogs, functions and types.
pub const PG_CATALOG: &str = "pg_catalog";

/// A type without its modifier.
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
    /// A literal or parameter whose type is not decided yet.
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
    Regprocedure,
    Regnamespace,
    Regrole,
    /// Numbers as catalogs store them: an array that starts at 0 and is written without braces.
    Int2Vector,
    OidVector,
    Uuid,
    /// Result of a function that returns nothing.
    Void,
    /// An array of one dimension.
    Array(Element),
}

/// Element type of an array.
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
    /// Kind of the type.
    pub kind: Kind,
    /// PostgreSQL's `atttypmod`, -1 without a modifier.
    pub typmod: i32,
}

impl From<Kind> for SqlType {
    fn from(kind: Kind) -> SqlType {
        SqlType { kind, typmod: -1 }
    }
}
