//! Scheduler: workers, priority queues, policies and the starvation cap.
//!
//! **Invariants.** A request runs exactly once at a time, on the thread that claimed it, whatever queues it stands in.
//! Urgent work runs in an urgent context of [`preempt`], never nested in itself. A request that parks comes back by its
//! wake-up, and no wake-up is lost. No worker sleeps while something that it may run is queued. Only [`decide`] chooses
//! what runs.
//!
//! Workers are threads of another runtime; they call [`Scheduler::attach`] and report their sleeps. This crate runs
//! `dyn` [`Work`] and starts `dyn` [`LowWork`]; it knows neither transactions nor query engines.
//!
//! The modules, in the order to read them:
//! - [`decide`]: the decision, a pure function of policy, point and queues; [`Cap`]: the starvation cap;
//! - `entry`: the loop that asks it, shared by workers and simulator; [`sim`]: the simulator, on virtual time;
//! - [`Request`], [`Work`]: the unit of work, and the claim; `queues`: the queues;
//! - `raising`: lifting a worker that runs below other threads;
//! - `state`: the state that the threads share, and placement; `serve`: running requests on a worker; `low`: queries;
//! - [`Scheduler`]: the interface; `keeper`, `dedicated`, `claimer`: its own threads;
//! - [`Event`]: a record for one reader.
//!
//! # Layers
//!
//! Bottom up; a module uses its own layer and those above it in this list.
//!
//! - what the rest stands on: `sync`, `counters`, `panics`, `raising`
//! - the decision: `policy`
//! - cap and settings: `cap`, `settings`
//! - the loop that asks for decisions: `entry`
//! - the same on virtual time: `sim`
//! - state that the threads share: `event`, `keeper`, `claimer`, `queues`, `low`, `request`, `state`
//! - threads that run requests: `serve`, `dedicated`
//! - the interface: `scheduler`
//!
//! A request that parks and a query that ends go back into the queues by themselves, and the queues hold requests and
//! queries; so these modules and the state make one layer.

mod cap;
mod claimer;
mod counters;
mod dedicated;
mod entry;
mod event;
mod keeper;
mod low;
mod panics;
mod policy;
mod queues;
mod raising;
mod request;
mod scheduler;
mod serve;
mod settings;
pub mod sim;
mod state;
mod sync;

pub use cap::{Cap, CapSettings};
pub use counters::{Counters, Start};
pub use event::{Completed, Event};
pub use low::{Finish, LowWork};
pub use policy::{Heads, Point, Policy, Share, UnknownPolicy, class_index, decide};
pub use request::{Ended, Rejected, Request, RequestState, Resubmit, RunCx, RunOutcome, Work};
pub use scheduler::Scheduler;
pub use settings::{CLAIM_AFTER_NS, Placement, Rungs, SchedulerSettings};

#[cfg(feature = "shuttle")]
#[doc(hidden)]
pub mod model {
    //! Items that `tests/shuttle.rs` explores.
    pub use crate::queues::RequestQueue;
}
