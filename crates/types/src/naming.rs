//! Names of catalog objects as values: `regclass` and the like.

use super::Kind;
use statement::error::SqlResult;
use std::fmt::Debug;

/// Names and OIDs of the objects of a catalog.
pub trait Naming: Debug + Send + Sync {
    /// Returns the name of the object of this kind with this OID, as the search path finds it. For
    /// `None`, the OID is shown.
    fn name_of(&self, kind: Kind, oid: u32) -> Option<String>;

    /// Returns the OID of the object of this kind with this name.
    ///
    /// # Errors
    /// There is no such object, or there are several.
    fn number_of(&self, kind: Kind, name: &str) -> SqlResult<u32>;
}
