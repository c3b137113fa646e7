//! The analytics path: bound plans over a snapshot of the engine, by DataFusion, the only crate that names it.
//!
//! **Invariant: a query sees one snapshot, and takes nothing that a transaction could wait for.** Frozen blocks are read
//! where they lie, hot rows are gathered a batch at a time, and between any two operators there is a place where an urgent
//! transaction may run and where a cancelled query ends. Nothing of DataFusion shows outside: the interface is objects,
//! Arrow batches and boxed closures, with no generics and no async functions, so that nobody else compiles it.
//!
//! The modules, in the order to read them:
//! - [`Runtime`]: the threads that run queries, and what they tell a scheduler ([`WorkerHooks`]); [`Workers`]: both together;
//! - [`Database`], [`PreparedQuery`]: an engine's tables, and queries of programs, bound by `sql` and made ready to
//!   run;
//! - [`SqlAnalytics`]: sessions' bound plans;
//! - `lower`: both kinds become DataFusion's plans; `values`: their answers become SQL's values; `batch`: those that go to
//!   a client as they come;
//! - `order`: which tables are joined first, by samples of them;
//! - `run`: one run of a prepared query ([`Running`]), from any thread, to its end on a worker;
//! - `scan`: a table of a snapshot as DataFusion's leaf operator; `pushdown`: the filters that it can use;
//! - `barriers`: what DataFusion's optimizers must not move;
//! - `safepoint`: what stands between any two operators.
//!
//! # Layers
//!
//! Bottom up; a module uses its own layer and those above it in this list.
//!
//! - errors and deadlines: `error`, `deadline`
//! - values and functions: `values`, `functions`
//! - results as they come: `batch`
//! - a run: `run`
//! - tables as operators: `pushdown`, `scan`
//! - between operators: `safepoint`
//! - what optimizers must not move: `barriers`
//! - order of joins: `order`
//! - from bound plans to DataFusion's: `lower`
//! - plans shown: `explain`
//! - queries of programs: `database`
//! - threads that run queries: `runtime`
//! - sessions' plans: `analytics`
//! - threads with their scheduler: `workers`

mod analytics;
mod barriers;
mod batch;
mod database;
mod deadline;
mod error;
mod explain;
mod functions;
mod lower;
mod order;
mod pushdown;
mod run;
mod runtime;
mod safepoint;
mod scan;
mod values;
mod workers;

pub use analytics::{Admission, ClassRuntime, Job, QuerySlot, SqlAnalytics};
pub use database::{Database, PreparedQuery};
pub use error::{Error, Result};
pub use run::{Answer, BatchHook, Finish, NoHook, RunConfig, Running};
pub use runtime::{NoHooks, QueryMemory, Runtime, RuntimeConfig, WorkerHooks};
pub use workers::{StartError, WorkerStart, Workers, scheduling};

/// Maximum number of rows of a batch between two operators, and so between two safepoints of a scan over frozen
/// blocks.
pub const BATCH_ROWS_MAX: usize = 8_192;
