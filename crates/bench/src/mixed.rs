//! The mixed load: urgent New-Orders over running analytics, by one policy, as the demo shows and the benchmarks
//! measure it.
//!
//! **Invariant:** an [`Instance`] is one scheduler, its workers and nothing else; the data belongs to all instances. Its
//! analytics are a closed loop of queries ([`LowLoop`]), its New-Orders come from an open loop ([`Arrivals`]).

mod arrivals;
mod dense;
mod instance;
mod low;
mod tally;

pub use arrivals::{Arrivals, MakeRequest, Offered, Schedule, UNDER_WAY_MAX};
pub use dense::revenue;
pub use instance::{Instance, worker_cpus};
pub use low::{LowLoop, LowQuery, RunEnd};
pub use tally::{ON_CPU_WAIT_NS_MAX, Tally, is_on_cpu};
