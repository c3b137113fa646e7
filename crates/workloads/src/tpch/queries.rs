//! The 22 query texts.
//!
//! Invariant: a text is the specification's, with its validation parameters, for every scale factor. Two notes: query 11's
//! fraction is that of scale factor 1 at every scale factor, and query 15's view is a common table expression.

/// Number of queries; they are numbered from 1.
pub const QUERIES_COUNT: usize = 22;

/// Returns the text of query `number`, 1 to 22.
///
/// # Panics
/// If there is no such query.
pub fn query(number: usize) -> &'static str {
    assert!((1..=QUERIES_COUNT).contains(&number), "TPC-H has queries 1 to 22, not {number}");
    QUERIES[number - 1]
}

const QUERIES: [&str; QUERIES_COUNT] = texts_of_22!("queries/q", ".sql");
