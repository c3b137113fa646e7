//! The catalog as one statement sees it.
//!
//! **Invariant:** it is the catalog, the search path and the server by which the statement was bound, or is about to be.

use super::State;
use crate::system::Provider;
use std::sync::Arc;

/// See the module.
#[derive(Clone, Debug)]
pub struct Seen {
    /// What names stand for.
    pub state: Arc<State>,
    /// Schemas where names without one are looked up.
    pub path: Arc<[String]>,
    /// Who knows of the sessions.
    pub provider: Option<Arc<dyn Provider>>,
}
