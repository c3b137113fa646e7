//! The catalog snapshot of one statement: schema state, search path, roles and the provider of virtual tables.
//!
//! **Invariant:** a statement is bound against this state, this path and this server.

use super::{CatalogState, Provider};
use settings::roles::Roles;
use std::fmt;
use std::sync::Arc;

/// Catalog as one statement sees it, with the provider of its virtual tables.
#[derive(Clone)]
pub struct CatalogSnapshot {
    /// State of the catalog, for names of schemas and relations.
    pub state: Arc<CatalogState>,
    /// Search path: schemas where unqualified names are looked up.
    pub path: Arc<[String]>,
    /// Roles, which own objects and log in.
    pub roles: Arc<Roles>,
    /// Source of the rows of virtual tables, such as those of sessions.
    pub provider: Option<Arc<dyn Provider>>,
}

impl fmt::Debug for CatalogSnapshot {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Seen").field("version", &self.state.version()).field("path", &self.path).finish_non_exhaustive()
    }
}
