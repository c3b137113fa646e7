//! Thread that does the housekeeping beside sessions.
//!
//! **Invariant:** waits end and memory returns only while one runs; an owner of sessions keeps one until the last
//! session has gone.

use crate::Engine;
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::SeqCst};
use std::thread::{self, JoinHandle};
use std::time::Duration;

/// Sleep after a turn that found little to do.
const PAUSE: Duration = Duration::from_millis(10);
/// Dead versions freed, and rows looked at by the freezer, in one turn at most.
const TURN: usize = 4_096;

/// Thread that calls [`Engine::housekeep`] until it is stopped or dropped.
pub struct Housekeeper {
    is_over: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl Housekeeper {
    /// Starts the thread.
    ///
    /// # Errors
    /// If the system refuses a thread.
    pub fn start(engine: &Engine) -> io::Result<Housekeeper> {
        let engine = engine.clone();
        let is_over = Arc::new(AtomicBool::new(false));
        let asked = Arc::clone(&is_over);
        let body = move || {
            while !asked.load(SeqCst) {
                if engine.housekeep(TURN).freed < TURN {
                    thread::park_timeout(PAUSE);
                }
            }
        };
        let thread = thread::Builder::new().name("housekeeping".to_owned()).spawn(body)?;
        Ok(Housekeeper { is_over, thread: Some(thread) })
    }

    /// Returns false if the thread has panicked.
    pub fn is_alive(&self) -> bool {
        self.thread.as_ref().is_some_and(|thread| !thread.is_finished())
    }

    /// Ends the thread after its turn, and joins it.
    ///
    /// # Errors
    /// The thread has panicked.
    pub fn stop(mut self) -> io::Result<()> {
        self.ask_to_end();
        match self.thread.take().map(JoinHandle::join) {
            None | Some(Ok(())) => Ok(()),
            Some(Err(_)) => Err(io::Error::other("the housekeeping thread panicked")),
        }
    }

    fn ask_to_end(&self) {
        self.is_over.store(true, SeqCst);
        self.thread.iter().for_each(|thread| thread.thread().unpark());
    }
}

impl Drop for Housekeeper {
    /// Lets the thread end by itself: nothing waits for the thread of a run that has failed.
    fn drop(&mut self) {
        self.ask_to_end();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::EngineConfig;

    #[test]
    fn it_works_until_it_is_stopped() {
        let engine = Engine::new(EngineConfig::in_memory());
        let housekeeper = Housekeeper::start(&engine).expect("a thread starts");
        let thread = housekeeper.thread.as_ref().expect("it runs").thread().id();
        assert_ne!(thread, thread::current().id());
        assert!(housekeeper.is_alive());
        housekeeper.stop().expect("it has not panicked");
    }
}
