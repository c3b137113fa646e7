//! Session as the binder and the functions of the catalog see it.

use super::CatalogSnapshot;
use std::sync::{Arc, LazyLock};
use types::ops::{CallContext, FunctionTable, NoSession};

/// Context of function calls that also knows the catalog.
pub trait SessionContext: CallContext {
    /// Returns the catalog of the statement. `None` outside of statements.
    fn catalog_snapshot(&self) -> Option<&Arc<CatalogSnapshot>>;

    /// Returns the functions that statements may call.
    fn functions(&self) -> &'static FunctionTable;
}

impl SessionContext for NoSession {
    fn catalog_snapshot(&self) -> Option<&Arc<CatalogSnapshot>> {
        None
    }

    fn functions(&self) -> &'static FunctionTable {
        static OWN: LazyLock<FunctionTable> = LazyLock::new(|| FunctionTable::with(Vec::new()));
        &OWN
    }
}
