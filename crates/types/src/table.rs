//! Tables whose rows are made when they are read.

use crate::{Datum, Kind};

/// Rows, each with its columns by name. Columns that are not named are null.
pub type NamedRows = Vec<Vec<(&'static str, Datum)>>;

/// Column of a table of the schema `overtake`.
#[derive(Clone, Copy, Debug)]
pub struct ProvidedColumn {
    /// Name of the column.
    pub name: &'static str,
    /// Type of the column.
    pub kind: Kind,
    /// Description, in SQL and in the reference of views: Markdown without links.
    pub about: &'static str,
}

/// A table of the schema `overtake`.
#[derive(Clone, Debug)]
pub struct ProvidedTable {
    /// Name of the table.
    pub name: &'static str,
    /// Description of the table, as that of a column.
    pub about: &'static str,
    /// Columns, in their order.
    pub columns: Vec<ProvidedColumn>,
}

impl ProvidedTable {
    /// Creates a table with a description, and its columns by name, type and description.
    pub fn new(
        name: &'static str,
        about: &'static str,
        columns: &[(&'static str, Kind, &'static str)],
    ) -> ProvidedTable {
        let columns = columns.iter().map(|&(name, kind, about)| ProvidedColumn { name, kind, about }).collect();
        ProvidedTable { name, about, columns }
    }
}

/// Returns a count as `bigint`.
pub fn count(value: u64) -> Datum {
    Datum::Int8(i64::try_from(value).unwrap_or(i64::MAX))
}

/// Returns microseconds as milliseconds in `double precision`.
pub fn ms(us: f64) -> Datum {
    Datum::Float8(us / 1e3)
}
