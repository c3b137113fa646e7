//! The trait between the page and the program.

use crate::facts::{Facts, Figure1, LoadProgress, Policy, QueryInfo};
use crate::records::{Cursor, InstanceInfo, Update};

/// Reason why a command was refused. Each variant is one reaction of the page.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The database is not loaded yet: the page tries again (503).
    #[error("the database is still loading")]
    Loading,
    /// The request can never work: unknown query, rate out of bounds (400).
    #[error("{0}")]
    Invalid(String),
    /// The request conflicts with the present state: a full queue, a query that is not there to stop (409).
    #[error("{0}")]
    Conflict(String),
    /// Internal error of the server (500).
    #[error("{0}")]
    Internal(String),
}

/// Program as the page needs it: one loaded database, three instances over it, one of them chosen.
///
/// The getters and [`poll`](Demo::poll) are called ten times a second and return at once. Commands may take as long as a
/// query needs to notice that it is cancelled; they run on threads of the server, several at once.
pub trait Demo: Send + Sync {
    /// Returns the machine and the database; called again once loading has ended.
    fn facts(&self) -> Facts;
    /// Returns the progress of loading.
    fn loading(&self) -> LoadProgress;
    /// Returns the long queries to choose from, the default first.
    fn queries(&self) -> Vec<QueryInfo>;
    /// Returns the paper's Figure 1, played by the scheduler's own decisions.
    fn figure1(&self) -> Figure1;
    /// Returns the present state of the three instances, in the order of [`Policy::ALL`].
    fn instances(&self) -> Vec<InstanceInfo>;
    /// Returns the records since `cursor`, at most some thousands (the rest comes with the next call).
    fn poll(&self, cursor: Cursor) -> Update;

    /// Chooses an instance. The running query and rate go on under it; the work of the other instances has stopped on
    /// return.
    ///
    /// # Errors
    /// [`Error::Loading`], [`Error::Internal`].
    fn select(&self, policy: Policy) -> Result<(), Error>;
    /// Repeats the named query on all workers of the chosen instance until [`Demo::stop_query`]; a running query is
    /// replaced.
    ///
    /// # Errors
    /// [`Error::Loading`], [`Error::Invalid`] for a name that is not in [`Demo::queries`], [`Error::Internal`].
    fn start_query(&self, name: &str) -> Result<(), Error>;
    /// Stops the query; does nothing if none runs.
    ///
    /// # Errors
    /// [`Error::Internal`].
    fn stop_query(&self) -> Result<(), Error>;
    /// Hands one urgent New-Order to the chosen instance and returns its ticket (1 or more) without waiting for it.
    ///
    /// # Errors
    /// [`Error::Loading`], [`Error::Conflict`] when the queue is full.
    fn issue(&self) -> Result<u64, Error>;
    /// Sends New-Orders at this rate, open loop, to the chosen instance; 0 stops. The server has checked it against
    /// [`Facts::rate_per_s_max`].
    ///
    /// # Errors
    /// [`Error::Loading`], [`Error::Internal`].
    fn set_rate(&self, per_second: f64) -> Result<(), Error>;
    /// Forgets transactions, runs and spans of all instances; running work goes on.
    fn clear(&self);
}
