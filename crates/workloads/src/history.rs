//! The history checker: random transactions run side by side, and a proof, after the fact, of what they saw of each other.
//!
//! **Invariant: the checker trusts nothing but what was read, what was written, and the commits' timestamps.** Every value
//! written is unique, so a value read names the version; the timestamps in the redo records order the versions. From
//! these follow the dependencies of Adya's thesis (1999), and an isolation level is a set of cycles that they must not
//! have. Beyond the cycles each read is compared with the rows that existed at its snapshot, and each snapshot with what
//! had been committed, and reported, before it began.
//!
//! The modules, in the order to read them:
//! - [`History`]: transactions, versions, and who read which: pure data;
//! - [`check`]: dependencies, cycles, and the [`Anomaly`] that each is; what a [`engine::Isolation`] forbids and what must be
//!   found: [`forbidden`], [`expected`];
//! - `notes`, `resolve`: from what sessions noted, and the log received, to a [`History`]; and whatever is wrong already
//!   there;
//! - [`round`]: the generator: sessions on threads that interrupt each other at random.

mod anomaly;
mod drive;
mod graph;
mod model;
mod notes;
mod resolve;
mod statement;

#[cfg(test)]
mod tests;

pub use anomaly::{Anomaly, Example, Findings, check, expected, forbidden};
pub use drive::{Outcome, RoundConfig, round};
pub use graph::{Edge, EdgeKind};
pub use model::{Content, Fate, History, Predicate, Read, Seen, Txn, Version};
pub use notes::KEYS_MAX;
