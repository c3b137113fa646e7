//! The embedded engine: tables, versions, indexes and transactions, in memory.
//!
//! **Invariant: a version, once written, never changes.** A reader holds nothing, so it may be paused at any instruction,
//! and it never waits; a writer holds only the end words of the rows it changes. The engine knows no SQL, and no thread
//! but the caller's and the [`Housekeeper`]'s. Everything here may run in an urgent context (see crate `preempt`): nothing blocks, and what takes
//! a latch does so inside a region.
//!
//! The folders, in the order to read them:
//! - `row`: [`Type`], [`Value`], layout of a row image, keys of an index, [`Condition`];
//! - `schema`: [`Table`] with its row map and indexes, all tables, the removal of a dropped one;
//! - `raw`: the versions' memory, the status words and the protocol by which rows are claimed, taken and given back
//!   (the only module with `unsafe`; its README explains the protocol);
//! - `txn`: [`Txn`]: reads and writes, commit and rollback; `serial`: SERIALIZABLE, with the proof that refusing
//!   dangerous structures is enough; `settle`, `orphans`: removal of garbage that no reader can reach;
//! - `locks`: waits between transactions, and which of them gives way (a README there);
//! - `frozen`: [`Snapshot`]: blocks of columns, the freezer, the bulk load, scans for analytics.
//!
//! Beside them: [`Engine`] and [`Session`], which hold all of it together; [`Engine::housekeep`] and the thread that
//! calls it; `redo`, [`Log`]: the record that a commit gives to the log.
//!
//! # Layers
//!
//! Bottom up; a module uses its own layer and those above it in this list.
//!
//! - what the rest stands on: `sync`, `counters`, `log`, `memory`
//! - versions, slots and trees: `raw`
//! - errors, and the names of locks in them: `error`, `locks::key`, `locks::mode`
//! - rows, in tables: `row`, `schema::table`, `schema::tables`, `frozen::arrow`, `frozen::block`, `frozen::bounds`,
//!   `frozen::gather`, `frozen::present`, `raw::attic`, `raw::directory`, `raw::ids`, `raw::rows`
//! - waits between transactions: `locks`
//! - transactions, and the engine that they share: `txn`, `frozen`, `redo`, `schema`, `limits`, `engine`
//! - sessions: `session`
//! - beside them: `holdings`, `housekeep`, `housekeeper`, `model`
//!
//! A row map leads to blocks, and a block to its rows and their table; so tables and the files of `raw` and `frozen` that
//! hold rows make one layer. A transaction works on all parts of its engine, and those parts (the freezer, scans, limits,
//! redo records) work on transactions; they make another one.

mod counters;
mod engine;
mod error;
mod frozen;
mod holdings;
mod housekeep;
mod housekeeper;
mod limits;
mod locks;
mod log;
pub mod memory;
mod raw;
mod redo;
mod row;
mod schema;
mod session;
mod sync;
mod txn;

#[cfg(feature = "shuttle")]
#[doc(hidden)]
pub mod model;

pub use engine::{Engine, EngineConfig, Stats};
pub use error::{Error, InvalidDefinition, InvalidValue, Limit, Result, TransactionState};
pub use frozen::freeze::Frozen;
pub use frozen::scan::{Sample, Scan, ScanPart, Snapshot};
pub use holdings::{Holdings, TableHoldings};
pub use housekeep::Housekept;
pub use housekeeper::Housekeeper;
pub use limits::Limits;
pub use locks::{
    Advisory, LockConfig, LockPriority, LockStats, LockView, RowLock, TableLock, Taking, Wait, Waited, Wake, WantedLock,
};
pub use log::{AlwaysReached, Log, LogPosition};
pub use raw::activity::{Activity, Why};
pub use redo::{Redo, RedoWhat};
pub use row::condition::{Comparison, Condition, Constant, Test};
pub use row::value::{Type, Value};
pub use row::writer::RowWriter;
pub use row::{Row, RowId};
pub use schema::table::{Column, IndexDef, Table, TableDef};
pub use session::advisory::{AdvisoryLocks, AdvisoryScope};
pub use session::{Canceller, Savepoint, Session, SessionOptions, Step, Ticket};
pub use txn::begin::{Begin, Isolation};
pub use txn::open::{HeldVersions, OpenSnapshot, OpenTransaction};
pub use txn::read::{Direction, Range};
pub use txn::read_many::Lookup;
pub use txn::{AtDecision, ReplacedTable, Txn};
