//! Names of catalog objects as values: `regclass` and its like.

use super::Kind;
use statement::error::SqlResult;
use std::fmt::Debug;

/// Names and numbers of the objects of a catalog.
pub trait Naming: Debug + Send + Sync {
    /// Name of the object of this kind with this number, as the search path finds it. `None`: the number is shown.
    fn name_of(&self, kind: Kind, oid: u32) -> Option<String>;

    /// Number of the object of this kind with this name.
    ///
    /// # Errors
    /// There is no such object, or there are several.
    fn number_of(&self, kind: Kind, name: &str) -> SqlResult<u32>;
}
