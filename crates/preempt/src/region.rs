//! Non-preemptible regions.
//!
//! **Invariant:** while a thread's `depth` is not zero no urgent context starts on it; an interrupt that arrives then
//! sets `pending`, and the outermost exit serves it. Both words are touched by their own thread and by signal handlers
//! on it alone, so relaxed atomics with compiler fences suffice: there is no other processor to order against.

use crate::context;
use crate::memory;
use crate::worker::Worker;
use core::marker::PhantomData;
use core::ops::Deref;
use core::sync::atomic::{AtomicBool, AtomicPtr, AtomicU32, AtomicU64, Ordering::Relaxed, compiler_fence};

/// Witness that no urgent context can start on this thread now. Only a [`Region`] lends one.
///
/// Latches ask for it, so that forgetting the region does not compile.
pub struct NoPreempt {
    _own_thread: PhantomData<*const ()>,
}

/// State that a thread shares with the signal handlers on it. Constant-initialised and without a destructor, so that a
/// handler may use it at any time.
pub(crate) struct Local {
    /// Number of open regions.
    pub(crate) depth: AtomicU32,
    /// True if an interrupt arrived while it could not be served.
    pub(crate) pending: AtomicBool,
    /// True if an urgent context runs on this thread.
    pub(crate) urgent: AtomicBool,
    /// Worker of this thread, or null.
    pub(crate) worker: AtomicPtr<Worker>,
    /// Time at which this thread last let others go first, in [`os::now_ns`](crate::os::now_ns); 0 on one that need
    /// not.
    pub(crate) gave_way_ns: AtomicU64,
    /// Nanoseconds that this thread has waited for latches.
    pub(crate) latched_ns: AtomicU64,
    /// Bytes of blocks that this thread has allocated and freed.
    pub(crate) held: memory::ThreadSums,
}

thread_local! {
    pub(crate) static LOCAL: Local = const {
        Local {
            depth: AtomicU32::new(0),
            pending: AtomicBool::new(false),
            urgent: AtomicBool::new(false),
            worker: AtomicPtr::new(core::ptr::null_mut()),
            gave_way_ns: AtomicU64::new(0),
            latched_ns: AtomicU64::new(0),
            held: memory::ThreadSums::new(),
        }
    };
}

impl Local {
    #[inline]
    pub(crate) fn enter(&self) {
        self.depth.store(self.depth.load(Relaxed) + 1, Relaxed);
        // The region's work may not move above its beginning.
        compiler_fence(core::sync::atomic::Ordering::SeqCst);
    }

    #[inline]
    pub(crate) fn exit(&self) {
        compiler_fence(core::sync::atomic::Ordering::SeqCst);
        let depth = self.depth.load(Relaxed) - 1;
        self.depth.store(depth, Relaxed);
        // A handler before this line has set `pending`, one after it finds depth 0 and runs at once: none is lost.
        compiler_fence(core::sync::atomic::Ordering::SeqCst);
        if crate::plants::is_planted("pending_bit_lost") {
            self.pending.store(false, Relaxed);
        } else if self.pending.load(Relaxed) && depth == 0 {
            context::serve_deferred(self);
        }
    }
}

/// A non-preemptible region, from [`Region::enter`] to its drop. Regions nest.
///
/// Keep them short and bounded: no I/O, no page faults asked for, no large allocation. A region on a thread that is
/// no [`Worker`] costs the same and protects nothing, because nothing can interrupt it there.
pub struct Region {
    witness: NoPreempt,
}

impl Region {
    /// Begins a region on this thread.
    #[inline]
    pub fn enter() -> Region {
        LOCAL.with(Local::enter);
        Region { witness: NoPreempt { _own_thread: PhantomData } }
    }
}

impl Deref for Region {
    type Target = NoPreempt;

    #[inline]
    fn deref(&self) -> &NoPreempt {
        &self.witness
    }
}

impl Drop for Region {
    #[inline]
    fn drop(&mut self) {
        LOCAL.with(Local::exit);
    }
}

/// Runs `f` in a [`Region`].
#[inline]
pub fn no_preempt<R>(f: impl FnOnce(&NoPreempt) -> R) -> R {
    let region = Region::enter();
    f(&region)
}
