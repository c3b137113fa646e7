//! Ctrl-C (and SIGTERM): the first asks a run to end cleanly, the second ends the process at once.

use anyhow::Context;
use locked::{Locked, LockedResult};
use std::fmt;
use std::sync::{Arc, Condvar, Mutex};
use std::time::Duration;
use tokio::runtime::Builder;
use tokio::signal::unix::{SignalKind, signal};

/// Exit code that a shell reports for a process that SIGINT ended.
pub const EXIT_CODE: u8 = 130;

/// Request to stop the process, shared by all clones.
#[derive(Clone, Default)]
pub struct Stop(Arc<StopState>);

#[derive(Default)]
struct StopState {
    requested: Mutex<bool>,
    changed: Condvar,
}

impl Stop {
    /// Takes over Ctrl-C and SIGTERM for the whole process. Call it once.
    ///
    /// # Errors
    /// An error if the handler cannot be installed.
    pub fn install() -> anyhow::Result<Stop> {
        let stop = Stop::default();
        let handler = stop.clone();
        let runtime = Builder::new_current_thread().enable_all().build().context("the signals' runtime")?;
        // Not SIGHUP: that signal asks a server to reload its settings.
        let (mut interrupts, mut terminations) = {
            let _inside = runtime.enter();
            (signal(SignalKind::interrupt())?, signal(SignalKind::terminate())?)
        };
        let told = async move {
            loop {
                tokio::select! {
                    _ = interrupts.recv() => {}
                    _ = terminations.recv() => {}
                }
                if handler.request() {
                    std::process::exit(EXIT_CODE.into());
                }
                crate::say::complain("overtake: stopping; Ctrl-C once more ends it at once\n");
            }
        };
        let thread = std::thread::Builder::new().name("signals".to_owned());
        thread.spawn(move || runtime.block_on(told)).context("the thread that hears signals")?;
        Ok(stop)
    }

    /// Asks for a stop from inside the program.
    pub fn request_now(&self) {
        self.request();
    }

    /// Requests a stop; returns true if one was requested before.
    fn request(&self) -> bool {
        let before = std::mem::replace(&mut *self.requested(), true);
        self.0.changed.notify_all();
        before
    }

    /// Waits for a stop, but no longer than `limit`.
    ///
    /// # Errors
    /// [`Stopped`] if a stop was asked for, so that `?` ends the run.
    pub fn wait(&self, limit: Duration) -> Result<(), Stopped> {
        let requested = self.requested();
        let (requested, _) = self.0.changed.wait_timeout_while(requested, limit, |requested| !*requested).anyway();
        if *requested { Err(Stopped) } else { Ok(()) }
    }

    fn requested(&self) -> std::sync::MutexGuard<'_, bool> {
        self.0.requested.locked_anyway()
    }
}

/// Error of a run that was stopped before it finished.
#[derive(Debug, PartialEq, Eq)]
pub struct Stopped;

impl fmt::Display for Stopped {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("stopped before the run finished")
    }
}

impl std::error::Error for Stopped {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_request_ends_a_wait_at_once_and_the_second_is_told_apart() {
        let stop = Stop::default();
        assert_eq!(stop.wait(Duration::ZERO), Ok(()));
        assert!(!stop.request());
        assert!(stop.request());
        assert_eq!(stop.wait(Duration::from_secs(3_600)), Err(Stopped));
    }
}
