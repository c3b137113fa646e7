//! Errors of wasmtime as those of SQL.

use crate::state::StoreState;
use procs::ends;
use statement::error::SqlError;
use wasmtime::{Error, PoolConcurrencyLimitError, Store, Trap};

/// Returns the error with which code has ended.
pub(crate) fn ended(store: &mut Store<StoreState>, error: &Error, instances_max: u32) -> SqlError {
    match store.data_mut().error.take() {
        Some(own) => own,
        None => fault(error, instances_max),
    }
}

fn fault(error: &Error, instances_max: u32) -> SqlError {
    if error.is::<PoolConcurrencyLimitError>() {
        return ends::exhausted("instances of wasm modules", instances_max as usize);
    }
    match error.downcast_ref::<Trap>() {
        Some(trap) => {
            let reason = trap.to_string();
            ends::crashed(reason.strip_prefix("wasm trap: ").unwrap_or(&reason))
        }
        None => ends::crashed(&format!("{error:#}")),
    }
}
