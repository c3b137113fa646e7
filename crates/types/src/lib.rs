//! Values of PostgreSQL's types: their text and binary forms, comparison, casts, operators and functions.
//!
//! # Layers
//!
//! - kinds and parts: `kind`, `abbreviations`, `calendar`, `tokens`, `regex`, `pseudo`, `zone`, `names`, `naming`
//! - forms: `regtype`, `forms`, `datetime`, `interval`, `interval_text`
//! - values: `datum`, `numeric`, `modifier`, `binary`, `text`, `ops`
//! - tables: `table`

mod abbreviations;
pub mod binary;
pub mod calendar;
pub mod datetime;
pub mod datum;
pub mod forms;
pub mod interval;
mod interval_text;
mod kind;
pub mod modifier;
pub mod names;
pub mod naming;
pub mod numeric;
pub mod ops;
pub mod pseudo;
pub mod regex;
pub mod regtype;

pub mod table;
#[cfg(test)]
mod tests;
pub mod text;
mod tokens;
pub mod zone;

pub use datum::Datum;
pub use kind::{Element, Kind, PG_CATALOG, SqlType};
