//! Urgent contexts: their start and end, and the reference by which others see whether a context is paused.
//!
//! **Invariant:** an urgent context starts only at depth 0 of [`crate::Region`] and never inside another one, and it
//! ends before the code below it goes on. It ends only when no request is left that a sender may have given up on.

use crate::arch;
use crate::line::Mode;
use crate::os;
use crate::region::{LOCAL, Local};
use crate::worker::Worker;
use core::ffi::c_void;
use core::sync::atomic::{Ordering::Relaxed, Ordering::SeqCst, compiler_fence};

/// Way in which an urgent context came to run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Arrival {
    /// The interrupted code reached a safepoint, or changed its mode.
    Polled,
    /// A signal interrupted the code.
    Signalled,
    /// An interrupt landed in a region and was served at its end.
    Deferred,
}

/// Serves requests on `worker`, whose thread this is. The caller has checked that no urgent context runs and no region
/// is open.
pub(crate) fn serve(worker: &'static Worker, local: &Local, arrival: Arrival) {
    let mut body = || {
        worker.count_entry(arrival);
        worker.serve_now(arrival);
    };
    run_urgent(worker, local, &mut body);
}

/// Runs `body` as an urgent context of this worker, and again as long as requests keep coming.
fn run_urgent(worker: &'static Worker, local: &Local, body: &mut dyn FnMut()) {
    local.urgent.store(true, Relaxed);
    worker.publish_cpu();
    let before = worker.line().begin_urgent();
    loop {
        local.pending.store(false, Relaxed);
        worker.line().take();
        on_second_stack(worker, body);
        debug_assert_eq!(local.depth.load(Relaxed), 0, "an urgent context left a region open");
        if !local.pending.load(Relaxed) && worker.line().end_urgent(before) {
            break;
        }
    }
    local.urgent.store(false, Relaxed);
    // A signal between `end_urgent` and the line above found `urgent` set and left `pending`; the compiler may not look
    // at that before.
    compiler_fence(SeqCst);
    if local.pending.load(Relaxed) && local.depth.load(Relaxed) == 0 {
        serve_deferred(local);
    }
}

extern "C" fn call_body(argument: *mut c_void) {
    // SAFETY: `on_second_stack` passes a pointer to its own `&mut dyn FnMut()`, which outlives this nested call.
    let body = unsafe { &mut *argument.cast::<&mut dyn FnMut()>() };
    body();
}

fn on_second_stack(worker: &'static Worker, mut body: &mut dyn FnMut()) {
    let argument: *mut &mut dyn FnMut() = &mut body;
    // SAFETY: the top is a page boundary of this worker's own urgent stack. It is unused: only one urgent context runs
    // at a time on a thread (`local.urgent`). `call_body` is `extern "C"`, so a panic in it aborts instead of unwinding.
    unsafe { arch::run_on(worker.urgent_top(), argument.cast(), call_body) };
}

/// Serves an interrupt that was pending when the outermost region ended.
#[cold]
pub(crate) fn serve_deferred(local: &Local) {
    if local.urgent.load(Relaxed) {
        return; // The running urgent context looks at `pending` before it ends.
    }
    local.pending.store(false, Relaxed);
    if let Some(worker) = worker_of(local) {
        worker.count_deferred_wait();
        // A region may end between a failed system call and the read of its error: in a drop, for instance.
        os::keeping_errno(|| serve(worker, local, Arrival::Deferred));
    }
}

/// Serves a request whose flag a safepoint found set.
#[cold]
pub(crate) fn serve_polled(local: &Local) {
    let Some(worker) = worker_of(local) else { return };
    if local.urgent.load(Relaxed) {
        return;
    }
    if local.depth.load(Relaxed) > 0 {
        local.pending.store(true, Relaxed);
        return;
    }
    serve(worker, local, Arrival::Polled);
}

pub(crate) fn worker_of(local: &Local) -> Option<&'static Worker> {
    // SAFETY: null, or a pointer into the static table of workers.
    unsafe { local.worker.load(Relaxed).as_ref() }
}

/// Runs `f` as an urgent context of this thread: on the second stack, with the mode published.
///
/// Inside another urgent context, or on a thread that is no worker, `f` is called directly.
///
/// # Panics
/// In a debug build, if a [`crate::Region`] is open. A panic in `f` on a worker aborts the process: catch it inside.
pub fn enter_urgent(f: &mut dyn FnMut()) {
    LOCAL.with(|local| match worker_of(local) {
        Some(worker) if !local.urgent.load(Relaxed) => {
            debug_assert_eq!(local.depth.load(Relaxed), 0, "an urgent context was entered inside a region");
            let mut first = Some(f);
            run_urgent(worker, local, &mut || match first.take() {
                Some(f) => f(),
                // Requests that came while `f` ran.
                None => {
                    worker.count_entry(Arrival::Polled);
                    worker.serve_now(Arrival::Polled);
                }
            });
        }
        _ => f(),
    });
}

/// Returns true if this code runs in an urgent context.
#[inline]
pub fn in_urgent() -> bool {
    LOCAL.with(|local| local.urgent.load(Relaxed))
}

/// A reference to a context, by which any thread may ask whether an urgent context runs above it.
///
/// The reference names the *base* context of a worker, or a context that nothing can pause. The answer is a hint that
/// may be outdated at once: code that acts on it needs a protocol that stays right if the context goes on.
#[derive(Clone, Copy)]
pub struct ContextRef(Option<&'static Worker>);

impl ContextRef {
    /// A context that nothing pauses.
    pub const NEVER_PAUSED: ContextRef = ContextRef(None);

    /// Returns true if an urgent context runs above this one now.
    #[inline]
    pub fn is_paused(self) -> bool {
        self.0.is_some_and(|worker| worker.mode() == Mode::Urgent)
    }
}

/// Returns the context that this code runs in.
#[inline]
pub fn current_context() -> ContextRef {
    LOCAL.with(|local| match worker_of(local) {
        Some(worker) if !local.urgent.load(Relaxed) => ContextRef(Some(worker)),
        _ => ContextRef::NEVER_PAUSED,
    })
}
