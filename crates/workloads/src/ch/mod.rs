//! CH-benCHmark (Cole et al., "The mixed workload CH-benCHmark", DBTest 2011): TPC-H's questions, asked of TPC-C's tables
//! while TPC-C writes them.
//!
//! **Invariant:** the three tables that TPC-C lacks are never written after their load, and each query reads one snapshot
//! of all of them. No query has a `limit`, none adds floating numbers, so over the same snapshot an answer is the same
//! set of rows, value by value, whatever plan or policy made it.
//!
//! - [`load()`]: `ch.supplier`, `ch.nation`, `ch.region`, beside TPC-C's nine;
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
pub use tables::{ROWS_COUNT, SUPPLIERS, Tables, load};
