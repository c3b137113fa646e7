//! Tables that are made when they are read.

use crate::{Datum, Kind};

/// Rows, each as its columns by name; columns that are not named are null.
pub type Lines = Vec<Vec<(&'static str, Datum)>>;

/// A table of the schema `overtake`.
#[derive(Clone, Debug)]
pub struct ProvidedTable {
    /// Its name.
    pub name: String,
    /// Its columns.
    pub columns: Vec<(String, Kind)>,
}

impl ProvidedTable {
    /// Table of this name with these columns.
    pub fn new(name: &str, columns: &[(&str, Kind)]) -> ProvidedTable {
        let columns = columns.iter().map(|(name, kind)| ((*name).to_owned(), *kind)).collect();
        ProvidedTable { name: name.to_owned(), columns }
    }
}

/// Count as `bigint`.
pub fn count(value: u64) -> Datum {
    Datum::Int8(i64::try_from(value).unwrap_or(i64::MAX))
}

/// Microseconds as milliseconds in `double precision`.
pub fn ms(us: f64) -> Datum {
    Datum::Float8(us / 1e3)
}
