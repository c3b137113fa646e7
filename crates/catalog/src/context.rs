//! Session as the binder and the functions of the catalog see it.

use super::Seen;
use std::sync::{Arc, LazyLock};
use types::ops::{CallContext, FunctionTable, NoSession};

/// Context of function calls that also knows the catalog.
pub trait SessionContext: CallContext {
    /// Returns the catalog of the statement. `None` outside of statements.
    fn seen(&self) -> Option<&Arc<Seen>>;

    /// Returns the functions that statements may call.
    fn functions(&self) -> &'static FunctionTable;
}

impl SessionContext for NoSession {
    fn seen(&self) -> Option<&Arc<Seen>> {
        None
    }

    fn functions(&self) -> &'static FunctionTable {
        static OWN: LazyLock<FunctionTable> = LazyLock::new(|| FunctionTable::with(Vec::new()));
        &OWN
    }
}
