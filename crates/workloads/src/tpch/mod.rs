//! TPC-H: eight tables, 22 queries, and answers to compare with.
//!
//! **Invariant: the same scale factor gives the same rows, with any number of threads**, so an answer can be compared
//! value by value with one that an independent engine gave over the same rows. The tables are loaded as frozen blocks
//! and have no indexes, because only scans read them. There is no query engine here: the queries are texts.
//!
//! - [`TpchTable`]: names, definitions and sizes;
//! - [`load()`]: makes the rows and hands them to the engine, with progress;
//! - [`query`]: the texts, with the validation parameters of the specification;
//! - [`check_answer`]: compares an answer at scale factor 0.1 with DuckDB's; [`compare_answer`]: any answer with any
//!   engine's;
//! - [`write_rows`]: the rows as text, for that engine.

pub(crate) mod answers;
mod cell;
mod csv;
mod generate;
mod load;
mod queries;
mod tables;

pub use answers::{ANSWERS_SCALE_FACTOR, Mismatch, TextRow, check_answer, compare_answer};
pub use csv::write_rows;
pub use generate::{Comments, generate};
pub use load::{LoadConfig, Loaded, TpchLoadProgress, load};
pub use queries::{QUERIES_COUNT, query};
pub use tables::TpchTable;

#[cfg(test)]
mod tests;
