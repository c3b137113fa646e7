//! Background threads beside a load: the purge, and anything else that repeats itself.
//!
//! **Invariant:** they end when asked to, and their errors are errors of the run.

use crate::data::Data;
use engine::Begin;
use stage::Class;
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::SeqCst};
use std::thread::{self, JoinHandle};
use std::time::Duration;
use workloads::tpcc::{Purge, PurgeConfig, Purged};

/// Thread that repeats something until it is stopped.
pub struct Background<R> {
    is_over: Arc<AtomicBool>,
    thread: Option<JoinHandle<anyhow::Result<R>>>,
}

impl<R> Background<R> {
    fn ask_to_end(&self) {
        self.is_over.store(true, SeqCst);
        self.thread.iter().for_each(|thread| thread.thread().unpark());
    }
}

impl<R> Drop for Background<R> {
    /// Asks the thread to end, without waiting: the run has failed, and nobody needs the result.
    fn drop(&mut self) {
        self.ask_to_end();
    }
}

impl<R: Send + 'static> Background<R> {
    /// Starts the thread. `body` returns soon after the flag is set; it may park, and is woken then.
    ///
    /// # Errors
    /// If the thread cannot be started.
    pub fn start(
        name: &str,
        body: impl FnOnce(&AtomicBool) -> anyhow::Result<R> + Send + 'static,
    ) -> io::Result<Background<R>> {
        let is_over = Arc::new(AtomicBool::new(false));
        let there = Arc::clone(&is_over);
        let thread = thread::Builder::new().name(name.to_owned()).spawn(move || body(&there))?;
        Ok(Background { is_over, thread: Some(thread) })
    }

    /// Returns true if the thread still works; one that has ended by itself has failed.
    pub fn is_alive(&self) -> bool {
        self.thread.as_ref().is_some_and(|thread| !thread.is_finished())
    }

    /// Ends the thread and returns its result.
    ///
    /// # Errors
    /// The thread's own error.
    pub fn stop(mut self) -> anyhow::Result<R> {
        self.ask_to_end();
        let thread = self.thread.take().expect("it is stopped once");
        thread.join().unwrap_or_else(|_| anyhow::bail!("a thread in the background panicked"))
    }
}

/// Sleep of the purge after a round that found nothing in any district.
const PURGE_PAUSE: Duration = Duration::from_millis(2);

/// Starts a thread that deletes delivered orders, and payments likewise, behind a window.
///
/// # Errors
/// If the purge's tables cannot be made, or its thread not be started.
pub fn purge(data: &Arc<Data>) -> anyhow::Result<Background<Purged>> {
    let mut purge = Purge::new(data.engine(), data.tpcc(), data.scale(), PurgeConfig::default())?;
    let data = Arc::clone(data);
    let body = move |is_over: &AtomicBool| {
        let mut purged = Purged::default();
        while !is_over.load(SeqCst) {
            let before = purged;
            for _ in 0..purge.steps_per_round() {
                match purge.attempt(data.engine(), Begin::new(Class::Low), data.tpcc()) {
                    Ok(more) => purged.add(more),
                    Err(error) if error.is_retryable() => thread::yield_now(),
                    Err(error) => return Err(error.into()),
                }
            }
            if purged == before {
                thread::park_timeout(PURGE_PAUSE);
            }
        }
        Ok(purged)
    };
    Ok(Background::start("purge", body)?)
}
