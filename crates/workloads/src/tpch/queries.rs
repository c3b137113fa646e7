//! The 22 query texts.
//!
//! Invariant: a text is the specification's, with its validation parameters, for every scale factor. Two notes: query 11's
//! fraction is that of scale factor 1 at every scale factor, and query 15's view is a common table expression.

/// How many queries there are; they are numbered from 1.
pub const QUERIES_COUNT: usize = 22;

/// The text of query `number`, 1 to 22.
///
/// # Panics
/// There is no other query.
pub fn query(number: usize) -> &'static str {
    assert!((1..=QUERIES_COUNT).contains(&number), "TPC-H has queries 1 to 22, not {number}");
    QUERIES[number - 1]
}

const QUERIES: [&str; QUERIES_COUNT] = [
    include_str!("queries/q01.sql"),
    include_str!("queries/q02.sql"),
    include_str!("queries/q03.sql"),
    include_str!("queries/q04.sql"),
    include_str!("queries/q05.sql"),
    include_str!("queries/q06.sql"),
    include_str!("queries/q07.sql"),
    include_str!("queries/q08.sql"),
    include_str!("queries/q09.sql"),
    include_str!("queries/q10.sql"),
    include_str!("queries/q11.sql"),
    include_str!("queries/q12.sql"),
    include_str!("queries/q13.sql"),
    include_str!("queries/q14.sql"),
    include_str!("queries/q15.sql"),
    include_str!("queries/q16.sql"),
    include_str!("queries/q17.sql"),
    include_str!("queries/q18.sql"),
    include_str!("queries/q19.sql"),
    include_str!("queries/q20.sql"),
    include_str!("queries/q21.sql"),
    include_str!("queries/q22.sql"),
];
