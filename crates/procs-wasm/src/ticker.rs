//! Thread that advances the epoch while code runs.
//!
//! **Invariant:** while code runs, the epoch advances each millisecond. Otherwise the thread sleeps: an invocation
//! counts itself first and then looks whether the thread is asleep; the thread says that it is going to sleep first and
//! then looks at the count. Both in sequentially consistent order, so at least one of them sees the other.

use locked::{Locked, LockedResult};
use std::io;
use std::ops::Deref;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::SeqCst};
use std::sync::{Arc, Condvar, Mutex};
use std::thread::{self, JoinHandle};
use std::time::Duration;
use wasmtime::Engine;

/// Time between two epochs.
const PERIOD: Duration = Duration::from_millis(1);
/// Epochs without running code before the thread sleeps. Waking it costs more than the epochs do.
const IDLE_MAX: u32 = 50;

/// Common state of the thread and of invocations.
#[derive(Default)]
pub(crate) struct TickerState {
    running: AtomicUsize,
    is_asleep: AtomicBool,
    has_ended: Mutex<bool>,
    changed: Condvar,
}

/// Clock of running code. Its thread starts with the first code, and ends with the clock.
pub(crate) struct Ticker {
    state: Arc<TickerState>,
    engine: Engine,
    thread: Mutex<Option<JoinHandle<()>>>,
}

/// Code that runs. The epoch advances until it is dropped.
pub(crate) struct Ticking<S: Deref<Target = TickerState>>(S);

/// Code that runs, perhaps on another thread than the one that has begun it.
pub(crate) type LentTicking = Ticking<Arc<TickerState>>;

impl<S: Deref<Target = TickerState>> Drop for Ticking<S> {
    fn drop(&mut self) {
        self.0.running.fetch_sub(1, SeqCst);
    }
}

impl Ticker {
    pub(crate) fn new(engine: Engine) -> Ticker {
        let state = TickerState { is_asleep: AtomicBool::new(true), ..TickerState::default() };
        Ticker { state: Arc::new(state), engine, thread: Mutex::default() }
    }

    /// Has the epoch advance while the result exists.
    ///
    /// # Errors
    /// Those of starting the thread.
    pub(crate) fn run(&self) -> io::Result<Ticking<&TickerState>> {
        self.begin(&*self.state)
    }

    /// As [`Ticker::run`], for code that another thread runs.
    ///
    /// # Errors
    /// Those of starting the thread.
    pub(crate) fn run_elsewhere(&self) -> io::Result<LentTicking> {
        self.begin(Arc::clone(&self.state))
    }

    #[inline]
    fn begin<S: Deref<Target = TickerState>>(&self, state: S) -> io::Result<Ticking<S>> {
        state.running.fetch_add(1, SeqCst);
        let ticking = Ticking(state);
        if self.state.is_asleep.load(SeqCst) {
            self.wake()?;
        }
        Ok(ticking)
    }

    #[cold]
    fn wake(&self) -> io::Result<()> {
        let mut thread = self.thread.locked_anyway();
        if thread.is_none() {
            let (state, engine) = (Arc::clone(&self.state), self.engine.clone());
            let body = move || state.tick(|| engine.increment_epoch());
            *thread = Some(thread::Builder::new().name("wasm-epoch".to_owned()).spawn(body)?);
        }
        // The lock orders this after the thread's look at the count, if that has missed this code.
        let _has_ended = self.state.has_ended.locked_anyway();
        self.state.changed.notify_all();
        Ok(())
    }
}

impl Drop for Ticker {
    fn drop(&mut self) {
        *self.state.has_ended.locked_anyway() = true;
        self.state.changed.notify_all();
        if let Some(thread) = self.thread.get_mut().anyway().take() {
            let _ = thread.join();
        }
    }
}

impl TickerState {
    /// Advances the epoch until the clock is dropped.
    fn tick(&self, advance: impl Fn()) {
        let mut idle = 0;
        let mut has_ended = self.has_ended.locked_anyway();
        while !*has_ended {
            if idle < IDLE_MAX {
                self.is_asleep.store(false, SeqCst);
                has_ended = self.changed.wait_timeout(has_ended, PERIOD).anyway().0;
                advance();
                idle = if self.running.load(SeqCst) == 0 { idle + 1 } else { 0 };
                continue;
            }
            self.is_asleep.store(true, SeqCst);
            if self.running.load(SeqCst) == 0 {
                has_ended = self.changed.wait(has_ended).anyway();
            }
            idle = 0;
        }
    }
}
