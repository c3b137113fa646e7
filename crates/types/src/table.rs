//! Tables whose rows are made when they are read.

use crate::{Datum, Kind};

/// Rows, each with its columns by name. Columns that are not named are null.
pub type NamedRows = Vec<Vec<(&'static str, Datum)>>;

/// A table of the schema `overtake`.
#[derive(Clone, Debug)]
pub struct ProvidedTable {
    /// Name of the table.
    pub name: String,
    /// Columns, by name and type.
    pub columns: Vec<(String, Kind)>,
}

impl ProvidedTable {
    /// Creates a table of this name with these columns.
    pub fn new(name: &str, columns: &[(&str, Kind)]) -> ProvidedTable {
        let columns = columns.iter().map(|(name, kind)| ((*name).to_owned(), *kind)).collect();
        ProvidedTable { name: name.to_owned(), columns }
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
