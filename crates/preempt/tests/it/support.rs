//! Threads that are workers for the length of a test.

use preempt::{Arrival, Serve, Worker};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::SeqCst};
use std::sync::mpsc;

/// Record of the calls of one worker's `serve`.
#[derive(Default)]
pub struct Seen {
    pub polled: AtomicU64,
    pub signalled: AtomicU64,
    pub deferred: AtomicU64,
    /// Requests that a sender asked for and that the worker has not taken yet.
    pub queued: AtomicU64,
    pub served: AtomicU64,
}

impl Seen {
    pub fn calls(&self) -> u64 {
        self.polled.load(SeqCst) + self.signalled.load(SeqCst) + self.deferred.load(SeqCst)
    }
}

impl Serve for Seen {
    fn serve(&self, _worker: &'static Worker, arrival: Arrival) {
        match arrival {
            Arrival::Polled => &self.polled,
            Arrival::Signalled => &self.signalled,
            Arrival::Deferred => &self.deferred,
        }
        .fetch_add(1, SeqCst);
        self.served.fetch_add(self.queued.swap(0, SeqCst), SeqCst);
    }
}

/// True if the worker of a test, or the thread beside it, has panicked. A test has its process to itself.
static PANICKED: AtomicBool = AtomicBool::new(false);

/// Runs `f`; if it panics, a thread that waits by [`until`] panics too, instead of for ever.
fn telling_of_panics<R>(f: impl FnOnce() -> R) -> R {
    std::panic::catch_unwind(std::panic::AssertUnwindSafe(f)).unwrap_or_else(|panic| {
        PANICKED.store(true, SeqCst);
        std::panic::resume_unwind(panic)
    })
}

/// Runs `base` on a thread that is a worker, and `beside` on this one; `base` gets a flag that tells it to stop.
pub fn with_worker<S: Serve + 'static>(
    serve: Arc<S>,
    base: impl FnOnce(&AtomicBool) + Send,
    beside: impl FnOnce(&'static Worker),
) {
    let stop = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let (ready, worker) = mpsc::channel();
        let stop = &stop;
        scope.spawn(move || {
            let registration = preempt::register("tested", serve).expect("this thread can be a worker");
            ready.send(registration.worker()).expect("the test waits for the worker");
            telling_of_panics(|| base(stop));
        });
        let worker = worker.recv().expect("the worker starts");
        // Also when `beside` panics.
        struct Stop<'a>(&'a AtomicBool);
        impl Drop for Stop<'_> {
            fn drop(&mut self) {
                self.0.store(true, SeqCst);
            }
        }
        let _stop = Stop(stop);
        telling_of_panics(|| beside(worker));
    });
}

/// Waits, without sleeping for a fixed time, until `condition` holds.
///
/// # Panics
/// If the other side of the test has panicked.
pub fn until(condition: impl Fn() -> bool) {
    while !condition() {
        assert!(!PANICKED.load(SeqCst), "the other side of the test has panicked");
        std::thread::yield_now();
    }
}
