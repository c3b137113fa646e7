//! The trait between the page and the program.

use crate::facts::{Facts, Figure1, Policy, Progress, QueryInfo};
use crate::records::{Cursor, InstanceInfo, Update};

/// Why a command was refused. Each variant is one reaction of the page.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// Try again when the database is loaded (503).
    #[error("the database is still loading")]
    Loading,
    /// The request can never work: unknown query, rate out of bounds (400).
    #[error("{0}")]
    Invalid(String),
    /// It does not fit what runs now: a full queue, a query that is not there to stop (409).
    #[error("{0}")]
    Conflict(String),
    /// Our fault (500).
    #[error("{0}")]
    Internal(String),
}

/// What the page needs of the program. One loaded database, three instances over it, one of them chosen.
///
/// The getters and [`poll`](Demo::poll) are called ten times a second and return at once. Commands may take as long as a
/// query needs to notice that it is cancelled; they run on threads of the server, several at once.
pub trait Demo: Send + Sync {
    /// The machine and the database; called again once loading has ended.
    fn facts(&self) -> Facts;
    /// How far loading is.
    fn loading(&self) -> Progress;
    /// The long queries to choose from, the default first.
    fn queries(&self) -> Vec<QueryInfo>;
    /// The paper's Figure 1, played by the scheduler's own decisions.
    fn figure1(&self) -> Figure1;
    /// The three instances as they are now, in the order of [`Policy::ALL`].
    fn instances(&self) -> Vec<InstanceInfo>;
    /// What is new since `cursor`, at most some thousands of records (the rest comes with the next call).
    fn poll(&self, cursor: Cursor) -> Update;

    /// Chooses an instance. The query and the rate that run go on under it; what the others ran has stopped on return.
    ///
    /// # Errors
    /// [`Error::Loading`], [`Error::Internal`].
    fn select(&self, policy: Policy) -> Result<(), Error>;
    /// Repeats the named query on all workers of the chosen instance until [`Demo::stop_query`]; one that runs already is replaced.
    ///
    /// # Errors
    /// [`Error::Loading`], [`Error::Invalid`] for a name that is not in [`Demo::queries`], [`Error::Internal`].
    fn start_query(&self, name: &str) -> Result<(), Error>;
    /// Stops the query; nothing happens when none runs.
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
    /// Forgets transactions, runs and spans of all instances; what runs goes on.
    fn clear(&self);
}
