//! Queueing models of a database with a multiprogramming limit (MPL): the cost of a limit, before anything is measured.
//!
//! Schroeder et al. ask two questions of a limit, each with its own model:
//!
//! - [`Network`]: the throughput that is lost when at most N transactions use the resources (section 4.1);
//! - [`Response`]: the mean response time that is lost when at most M transactions share the server, because a short
//!   one can stand in the external queue behind long ones (section 4.2).
//!
//! **Invariant:** all probabilities are made from positive numbers by sums, products and quotients; no two of them are
//! subtracted. So no digits cancel, however many servers or transactions there are; the tests hold the results against
//! Markov chains that are solved otherwise.

mod h2;
mod matrix;
mod network;
mod qbd;
mod response;
mod wide;

pub use h2::H2;
pub use network::{Network, Station, StationLoad};
pub use response::{AtMpl, MPL_MAX, Response, pollaczek_khinchine, processor_sharing};

/// Relative slack of a threshold: a limit that keeps exactly the asked share keeps it, in spite of rounding.
const TOLERANCE: f64 = 1e-9;

/// Reason why a model gives no answer. The first eight are wrong input; the last two are the answer.
#[derive(Clone, Copy, Debug, PartialEq, thiserror::Error)]
pub enum ModelError {
    /// A network needs a station.
    #[error("a network needs at least one station")]
    NoStations,
    /// A demand that is no valid time.
    #[error("demand {demand} of station {} is not a finite time of at least 0", .station + 1)]
    Demand {
        /// Place of the station in the list, from 0.
        station: usize,
        /// Value given.
        demand: f64,
    },
    /// A station without servers.
    #[error("station {} needs at least one server", .station + 1)]
    NoServers {
        /// Place of the station in the list, from 0.
        station: usize,
    },
    /// No station limits the throughput.
    #[error("at least one station with a queue needs a demand above 0")]
    NoDemand,
    /// A think time that is no valid time.
    #[error("think time {0} is not a finite time of at least 0")]
    Think(f64),
    /// A load at which there is no steady state, or no work.
    #[error("load {0} is not between 0 and 1")]
    NoSteadyState(f64),
    /// A squared coefficient of variation that is not valid.
    #[error("C² of {0} is not a finite number of at least 0")]
    Variability(f64),
    /// A share to keep, an allowed increase, or a limit outside its range.
    #[error("{what} {value} is out of range")]
    OutOfRange {
        /// Name of the parameter.
        what: &'static str,
        /// Value given.
        value: f64,
    },
    /// Unstable limit: with so few transactions at a time, work arrives faster than it can be done, and the external
    /// queue grows without end.
    #[error("at most {mpl} at a time cannot keep up with the arrivals")]
    Unstable {
        /// Limit.
        mpl: usize,
    },
    /// No limit up to this one is enough.
    #[error("no limit up to {mpl_max} is enough")]
    OutOfReach {
        /// Largest limit that was tried.
        mpl_max: usize,
    },
}

/// Returns true if `value` is a finite number of at least 0.
fn is_amount(value: f64) -> bool {
    value.is_finite() && 0.0 <= value
}

#[cfg(test)]
mod tests;
