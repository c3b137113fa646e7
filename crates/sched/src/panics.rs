//! Panics of requests, caught at the boundary without output on standard error.
//!
//! The standard hook prints under a lock that the interrupted code may hold, so within a request it does not run.

use core::cell::Cell;
use std::panic::{self, AssertUnwindSafe};
use std::sync::Once;

thread_local! {
    static IN_REQUEST: Cell<bool> = const { Cell::new(false) };
}

/// Installs a hook before the present one that is silent within requests. Once for a process; not in an urgent context.
pub(crate) fn silence_requests() {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        let before = panic::take_hook();
        panic::set_hook(Box::new(move |info| {
            if !IN_REQUEST.get() {
                before(info);
            }
        }));
    });
}

/// Runs `f` and returns its result; none if it panicked.
pub(crate) fn caught<R>(f: impl FnOnce() -> R) -> Option<R> {
    IN_REQUEST.set(true);
    let result = panic::catch_unwind(AssertUnwindSafe(f));
    let result = match result {
        Ok(value) => Some(value),
        Err(payload) => {
            // Dropping the payload is foreign code too; if that panics, its own payload is left alone.
            if let Err(second) = panic::catch_unwind(AssertUnwindSafe(|| drop(payload))) {
                core::mem::forget(second);
            }
            None
        }
    };
    IN_REQUEST.set(false);
    result
}
