//! CH-benCHmark (Cole et al., "The mixed workload CH-benCHmark", DBTest 2011): TPC-H's questions, asked of TPC-C's
//! tables while TPC-C writes them.
//!
//! **Invariant:** the three tables that TPC-C lacks are never written after their load, and each query reads one
//! snapshot of all tables. No query has a `limit`, and none adds floating-point numbers, so over the same snapshot an
//! answer is the same set of rows, value by value, under any plan and any policy.
//!
//! - [`load()`]: `ch.supplier`, `ch.nation`, `ch.region`, beside TPC-C's nine tables;
//! - [`query`]: the texts;
//! - [`known_database`], [`check_answer`]: a small database, and the comparison of an answer over it with DuckDB's.

mod answers;
mod known;
mod nations;
mod queries;
mod tables;

pub use answers::check_answer;
pub use known::known_database;
pub use queries::{QUERIES_COUNT, query};
pub use tables::{ChTables, ROWS_COUNT, SUPPLIERS, load};
