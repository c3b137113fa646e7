//! Session as the binder and the functions of the catalog see it.

use super::Seen;
use crate::ops::{CallContext, FunctionTable};
use std::sync::Arc;

/// Context of calls that also knows the catalog.
pub trait SessionContext: CallContext {
    /// Catalog of the statement. `None` outside of statements.
    fn seen(&self) -> Option<&Arc<Seen>>;

    /// Functions that statements may call.
    fn functions(&self) -> &'static FunctionTable;
}
