//! The 22 query texts.
//!
//! Invariant: a text is the paper's, except for the changes listed here, and the same text runs in DuckDB.
//! - `orderline` and `neworder` are `tpcc.order_line` and `tpcc.new_order`, as TPC-C calls them. The added tables are
//!   in the schema `ch`, because TPC-H has tables of these names.
//! - `mod(a, b)` is `a % b`.
//! - Dates: the paper's lie around its data of 2007 to 2012, so that every row is inside. The data here is entered from
//!   2026 on: lower bounds stay, upper bounds (2012-01-02, 2020-01-01, 2020-01-02; queries 4, 6, 7, 8, 12 and 14)
//!   become 2100-01-01.
//! - Query 8 divides by `nullif(sum(ol_amount), 0)`: orders delivered at load have an amount of 0 (clause 4.3.3.1), and
//!   a year may have no others.
//! - Query 15's view is a common table expression; queries 13 and 18 name the columns that they return or order by.
//! - Query 21 names its tables in an order in which each can be joined to those before it. Beside a subquery DataFusion
//!   keeps the order, and the paper's order begins with a cross join of suppliers and order lines.
//!
//! Query 22 asks for customers without orders. TPC-C's load gives each customer one, and a purge leaves the last, so
//! the query finds nobody there; the database of the known answers has some.

/// Number of queries; they are numbered from 1.
pub const QUERIES_COUNT: usize = 22;

/// Returns the text of query `number`, 1 to 22.
///
/// # Panics
/// If there is no such query.
pub fn query(number: usize) -> &'static str {
    assert!((1..=QUERIES_COUNT).contains(&number), "CH-benCHmark has queries 1 to 22, not {number}");
    QUERIES[number - 1]
}

const QUERIES: [&str; QUERIES_COUNT] = texts_of_22!("queries/q", ".sql");
