//! The embedded engine: tables, versions, indexes and transactions, in memory.
//!
//! **Invariant: a version, once written, never changes.** A reader holds nothing, so it may be paused at any instruction,
//! and it never waits; a writer holds only the end words of the rows it changes. The engine knows no SQL, and no thread
//! but the caller's and the [`Housekeeper`]'s. Everything here may run in an urgent context (see crate `preempt`): nothing blocks, and what takes
//! a latch does so inside a region.
//!
//! The modules, in the order to read them:
//! - [`Type`], [`Value`], `layout`: what a row image looks like; `key`: what an index compares;
//! - [`Table`]: its definition, row map and indexes; `tables`: all of them; `drops`: how a dropped one goes;
//! - `raw`: the versions' memory, the status words and the protocol by which rows are claimed, taken and given back
//!   (the only module with `unsafe`; its README explains the protocol);
//! - [`Engine`], [`Txn`]: reads and writes, commit and rollback;
//! - [`Session`], `lock`, `locks`: who waits for whom, and who gives way (a README there); savepoints;
//! - `serial`, `reads`: SERIALIZABLE, with the proof that refusing dangerous structures is enough; [`Condition`];
//! - `block`, [`Snapshot`]: bulk loaded columns, and scans for analytics;
//! - `settle`, [`Engine::housekeep`]: clearing away what nobody can reach; [`Engine::transactions`]: who holds what back;
//! - `redo`, [`Log`]: what a commit hands to the log.

mod condition;
mod error;
mod types;
mod value;

mod key;
mod layout;
mod row;
mod writer;

mod table;
mod tables;

mod raw;
mod sync;

mod advisory;
mod begin;
mod call;
mod counters;
mod drops;
mod engine;
mod entries;
mod insert_many;
mod lock;
mod locks;
mod newest;
mod read;
mod read_many;
mod reads;
mod row_scan;
mod scratch;
mod serial;
mod session;
mod settle;
mod txn;
mod write;

mod arrow;
mod block;
mod bounds;
mod freeze;
mod gather;
mod load;
mod present;
mod scan;

mod holdings;
mod housekeep;
mod housekeeper;
mod limits;
mod open;
mod orphans;

mod log;
pub mod memory;
mod redo;

#[cfg(feature = "shuttle")]
#[doc(hidden)]
pub mod model;

pub use advisory::{AdvisoryLocks, AdvisoryScope};
pub use begin::{Begin, Isolation};
pub use condition::{Comparison, Condition, Constant, Test};
pub use engine::{Engine, EngineConfig, Stats};
pub use error::{Error, Result};
pub use freeze::Frozen;
pub use holdings::{Holdings, TableHoldings};
pub use housekeep::Housekept;
pub use housekeeper::Housekeeper;
pub use limits::Limits;
pub use locks::{
    Advisory, LockConfig, LockPriority, LockStats, LockView, RowLock, TableLock, Taking, Ticket, Wait, Waited, Wake,
    Wanted,
};
pub use log::{AlwaysReached, Log, LogPosition};
pub use open::{HeldVersions, OpenSnapshot, OpenTransaction};
pub use raw::activity::{Activity, Why};
pub use read::{Direction, Range};
pub use read_many::Lookup;
pub use redo::{Redo, RedoWhat};
pub use row::{Row, RowId};
pub use scan::{Sample, Scan, ScanPart, Snapshot};
pub use session::{Canceller, Savepoint, Session, SessionOptions, Step};
pub use table::{Column, IndexDef, Table, TableDef};
pub use txn::{AtDecision, Replaced, Txn};
pub use value::{Type, Value};
pub use writer::RowWriter;
