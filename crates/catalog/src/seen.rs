//! The catalog as one statement sees it, and whom its tables ask.
//!
//! **Invariant:** it is the catalog, the search path and the server by which the statement was bound, or is about to be.

use super::{Provider, State};
use settings::roles::Roles;
use std::fmt;
use std::sync::Arc;

/// Catalog as one statement sees it, with the providers of its tables.
#[derive(Clone)]
pub struct Seen {
    /// What names stand for.
    pub state: Arc<State>,
    /// Schemas where names without one are looked up.
    pub path: Arc<[String]>,
    /// Who owns things, and logs in.
    pub roles: Arc<Roles>,
    /// Who knows of the sessions.
    pub provider: Option<Arc<dyn Provider>>,
}

impl fmt::Debug for Seen {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Seen").field("version", &self.state.version()).field("path", &self.path).finish_non_exhaustive()
    }
}
