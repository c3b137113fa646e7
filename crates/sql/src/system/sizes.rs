//! Memory sizes of objects: `pg_relation_size` and similar functions.
//!
//! **Invariant:** sizes are estimates: the number of row IDs that the engine has assigned, times the size of a row with
//! such columns. Tables that are computed when they are read have size 0.

use super::functions::{line, number, snapshot};
use super::text;
use catalog::{CatalogSnapshot, IndexInfo, Relation, TableInfo};
use statement::error::{SqlError, SqlResult, SqlState};
use types::datum::Datum;
use types::ops::get::{int, numeric, text as words};
use types::ops::{CallContext, Function};
use types::{Kind, SqlType};

/// Size of a sequence's only row in PostgreSQL.
const SEQUENCE_BYTES: u64 = 8192;

#[derive(Clone, Copy, PartialEq, Eq)]
enum RelationPart {
    /// Rows; of an index, its nodes.
    Own,
    Indexes,
    All,
}

/// Overhead of a row version beside its values, and of an index entry beside its key, in bytes.
const VERSION_BYTES: u64 = 48;
const ENTRY_BYTES: u64 = 16;
/// Size of a value of variable length: its pointer in the row, and a word's worth of characters.
const VARYING_BYTES: u64 = 24;

fn width(kind: SqlType) -> u64 {
    u64::try_from(kind.len()).unwrap_or(VARYING_BYTES)
}

fn rows(table: &TableInfo) -> u64 {
    let columns: u64 = table.columns.iter().map(|column| width(column.kind)).sum();
    table.table.rows_bound() * (VERSION_BYTES + columns)
}

/// Returns the number of pages of PostgreSQL's size that so many rows of a table take.
pub(super) fn pages(table: &TableInfo, rows: u64) -> u64 {
    let columns: u64 = table.columns.iter().map(|column| width(column.kind)).sum();
    (rows * (VERSION_BYTES + columns)).div_ceil(8192)
}

fn index(table: &TableInfo, index: &IndexInfo) -> u64 {
    let key: u64 = index.columns.iter().filter_map(|at| table.columns.get(*at)).map(|column| width(column.kind)).sum();
    table.table.rows_bound() * (ENTRY_BYTES + key)
}

fn indexes(table: &TableInfo) -> u64 {
    table.indexes.iter().map(|own| index(table, own)).sum()
}

/// Returns the bytes of a relation; `None` if it does not exist.
fn bytes(snapshot: &CatalogSnapshot, of: u32, part: RelationPart) -> Option<u64> {
    let (own, indexes) = match snapshot.state.relation_numbered(of) {
        Some(Relation::Table(table)) => (rows(table), indexes(table)),
        Some(Relation::Index { table, position }) => {
            (table.indexes.get(*position).map_or(0, |own| index(table, own)), 0)
        }
        Some(Relation::Sequence(_)) => (SEQUENCE_BYTES, 0),
        Some(Relation::View(_)) => (0, 0),
        None => catalog::system::numbered(of, Some(snapshot)).map(|_| (0, 0))?,
    };
    Some(match part {
        RelationPart::Own => own,
        RelationPart::Indexes => indexes,
        RelationPart::All => own + indexes,
    })
}

fn counted(bytes: Option<u64>) -> Datum {
    bytes.map_or(Datum::Null, |bytes| Datum::Int8(i64::try_from(bytes).unwrap_or(i64::MAX)))
}

fn of(part: RelationPart, args: &[Datum], env: &dyn CallContext) -> SqlResult<Datum> {
    Ok(counted(bytes(snapshot(env)?, number(&args[0])?, part)))
}

fn of_fork(args: &[Datum], env: &dyn CallContext) -> SqlResult<Datum> {
    match words(&args[1])? {
        "main" => of(RelationPart::Own, args, env),
        "fsm" | "vm" | "init" => Ok(counted(bytes(snapshot(env)?, number(&args[0])?, RelationPart::Own).map(|_| 0))),
        _ => Err(SqlError::new(SqlState::INVALID_PARAMETER_VALUE, "invalid fork name")
            .hint("Valid fork names are \"main\", \"fsm\", \"vm\", and \"init\".")),
    }
}

fn all(snapshot: &CatalogSnapshot) -> u64 {
    snapshot.state.tables().map(|table| rows(table) + indexes(table)).sum()
}

fn of_database(args: &[Datum], env: &dyn CallContext) -> SqlResult<Datum> {
    let snapshot = snapshot(env)?;
    let is_ours = match &args[0] {
        Datum::Text(name) if **name == *catalog::DATABASE => true,
        Datum::Text(name) => {
            let message = format!("database \"{name}\" does not exist");
            return Err(SqlError::new(SqlState::INVALID_CATALOG_NAME, message));
        }
        other => number(other)? == super::server::DATABASE_OID,
    };
    Ok(counted(is_ours.then(|| all(snapshot))))
}

fn of_tablespace(args: &[Datum], env: &dyn CallContext) -> SqlResult<Datum> {
    let is_default = match &args[0] {
        Datum::Text(name) => &**name == "pg_default",
        other => number(other)? == 1663,
    };
    let snapshot = snapshot(env)?;
    Ok(counted(Some(if is_default { all(snapshot) } else { 0 })))
}

/// Formats bytes in a readable unit, as PostgreSQL rounds them.
fn pretty(bytes: i128) -> String {
    // Name, limit, true if rounded from half units, and the unit's bits.
    const UNITS: [(&str, u128, bool, u32); 6] = [
        ("bytes", 10 * 1024, false, 0),
        ("kB", 20 * 1024 - 1, true, 10),
        ("MB", 20 * 1024 - 1, true, 20),
        ("GB", 20 * 1024 - 1, true, 30),
        ("TB", 20 * 1024 - 1, true, 40),
        ("PB", 20 * 1024 - 1, true, 50),
    ];
    let mut left = bytes;
    for (at, (name, limit, rounded, bits)) in UNITS.into_iter().enumerate() {
        match UNITS.get(at + 1) {
            Some((_, _, next_rounded, next_bits)) if limit <= left.unsigned_abs() => {
                let shift = next_bits - bits - u32::from(*next_rounded) + u32::from(rounded);
                left /= 1 << shift;
            }
            _ => {
                let half = if rounded { (left + left.signum()) / 2 } else { left };
                return format!("{half} {name}");
            }
        }
    }
    format!("{bytes} bytes")
}

/// Formats a number of bytes that may have a fraction: small ones are shown as they are.
fn pretty_numeric(args: &[Datum], _: &dyn CallContext) -> SqlResult<Datum> {
    const WHOLE_FROM: f64 = 10_240.0;
    let size = numeric(&args[0])?;
    Ok(text(if !size.is_finite() {
        format!("{size} PB")
    } else if size.abs().to_f64() < WHOLE_FROM {
        format!("{size} bytes")
    } else {
        let whole = size.trunc(0).to_i128();
        pretty(whole.ok_or_else(|| SqlError::unsupported("pg_size_pretty of a number of more than 38 digits"))?)
    }))
}

pub(super) fn functions() -> Vec<Function> {
    use Kind::{Int8, Name, Numeric, Oid, Regclass, Text};
    vec![
        line("pg_relation_size", &[Regclass], Int8, |a, env| of(RelationPart::Own, a, env)),
        line("pg_relation_size", &[Regclass, Text], Int8, of_fork),
        line("pg_table_size", &[Regclass], Int8, |a, env| of(RelationPart::Own, a, env)),
        line("pg_indexes_size", &[Regclass], Int8, |a, env| of(RelationPart::Indexes, a, env)),
        line("pg_total_relation_size", &[Regclass], Int8, |a, env| of(RelationPart::All, a, env)),
        line("pg_database_size", &[Oid], Int8, of_database),
        line("pg_database_size", &[Name], Int8, of_database),
        line("pg_tablespace_size", &[Oid], Int8, of_tablespace),
        line("pg_tablespace_size", &[Name], Int8, of_tablespace),
        line("pg_size_pretty", &[Int8], Text, |a, _| Ok(text(pretty(int(&a[0])?.into())))),
        line("pg_size_pretty", &[Numeric], Text, pretty_numeric),
    ]
}
