//! Limit of the modules that are compiled at a time.
//!
//! **Invariant:** a compiler goes on although its statement was cancelled, and keeps its place until it ends; so
//! cancelled statements cannot take all processors.

use locked::{Locked, LockedResult};
use stage::turn;
use statement::error::SqlResult;
use statement::pulse;
use std::sync::{Arc, Condvar, Mutex};
use std::time::Duration;

/// Greatest number of compilers.
const COMPILERS_MAX: usize = 2;
/// Time between two looks for the end of the statement.
const LOOK: Duration = Duration::from_millis(5);

/// Compilers that run.
#[derive(Default)]
pub(crate) struct Compilers {
    count: Mutex<usize>,
    has_ended: Condvar,
}

/// Place of a compiler.
pub(crate) struct CompilerPlace(Arc<Compilers>);

impl Compilers {
    /// Waits for a place.
    ///
    /// # Errors
    /// `57014` if the statement is cancelled.
    pub(crate) fn place(self: &Arc<Compilers>) -> SqlResult<CompilerPlace> {
        loop {
            let mut count = self.count.locked();
            if *count < COMPILERS_MAX {
                *count += 1;
                return Ok(CompilerPlace(Arc::clone(self)));
            }
            drop(turn::outside(|| self.has_ended.wait_timeout(count, LOOK)).or_end_process());
            pulse::look()?;
        }
    }
}

impl Drop for CompilerPlace {
    fn drop(&mut self) {
        // The drop may be part of the unwinding of a compiler's panic.
        *self.0.count.locked_anyway() -= 1;
        self.0.has_ended.notify_one();
    }
}
