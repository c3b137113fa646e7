//! The history checker: random transactions run concurrently, and a proof, after the fact, of the effects that they saw
//! of each other.
//!
//! **Invariant: the checker trusts only the values read, the values written, and the commits' timestamps.** Every value
//! written is unique, so a value read names the version; the timestamps in the redo records order the versions. The
//! dependencies of Adya's thesis (1999) follow from these, and an isolation level is a set of cycles that the
//! dependencies must not have. Beyond the cycles each read is compared with the rows that existed at its snapshot, and
//! each snapshot with the commits that had been reported before it began.
//!
//! The modules, in the order to read them:
//! - [`History`]: transactions, versions, and the reads of each version: pure data;
//! - [`check`]: dependencies, cycles, and the [`Anomaly`] of each cycle; the anomalies that an [`engine::Isolation`]
//!   forbids and those that must be found: [`forbidden`], [`expected`];
//! - `notes`, `resolve`: from the sessions' notes and the log's records to a [`History`], and the faults that show
//!   already there;
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
pub use drive::{RoundConfig, RoundOutcome, round};
pub use graph::{Edge, EdgeKind};
pub use model::{Content, Fate, History, Predicate, Read, ReadVersion, Txn, Version};
pub use notes::KEYS_MAX;
