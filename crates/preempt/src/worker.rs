//! Workers: threads that can be interrupted.
//!
//! **Invariant:** workers live in a static table and are never freed, so a sender's reference, or an index inside a
//! signal that arrives late, always leads to a worker; whether it is still *this* thread's is checked by thread id.

use crate::context::{self, Arrival};
use crate::line::{Line, Mode};
use crate::os;
use crate::region::{LOCAL, Local};
use crate::signal;
use crate::stack::{SIGNAL_STACK_BYTES, STACK_BYTES, Stack};
use core::cell::UnsafeCell;
use core::ffi::c_void;
use core::marker::PhantomData;
use core::sync::atomic::{
    AtomicI32, AtomicPtr, AtomicU8, AtomicU32, AtomicU64, AtomicUsize, Ordering::*, compiler_fence,
};
use std::io;
use std::sync::Arc;

/// Workers that one process can have at a time.
pub const WORKERS_MAX: usize = 256;

const NAME_BYTES: usize = 24;

/// Processor of a worker that has not said where it runs.
const NOWHERE: u32 = u32::MAX;
/// Number of a thread that is no worker.
const NOBODY: i32 = -1;
/// Number of processors, from the first, of which is known who was seen there.
const SEEN_CPUS: usize = 1_024;

/// Kernel's number of the thread that was last seen on each processor.
static LAST_SEEN: [AtomicI32; SEEN_CPUS] = [const { AtomicI32::new(0) }; SEEN_CPUS];

/// Notes that this thread, by its number, runs on its processor. Returns that, or [`NOWHERE`]. Writes only what has
/// changed, so that the cache line stays shared.
#[inline]
fn seen_here(tid: i32) -> u32 {
    let cpu = os::current_cpu().map_or(NOWHERE, |cpu| cpu as u32);
    if let Some(last) = LAST_SEEN.get(cpu as usize)
        && last.load(Relaxed) != tid
    {
        last.store(tid, Relaxed);
    }
    cpu
}

/// Handler of a worker's interrupts: takes work from its queues and runs it.
///
/// `serve` runs in an urgent context and is never nested in itself. It must follow the rules of the design, section 4:
/// no lock that a paused context could hold, no I/O, no tokio, no logging, no first-use initialisation, and it catches
/// panics of the work that it runs: one that leaves `serve` aborts the process.
pub trait Serve: Send + Sync {
    /// Serves the requests queued for `worker`; more than one may stand behind one call, or none.
    fn serve(&self, worker: &'static Worker, arrival: Arrival);
}

/// Counts of a worker's interrupts, by their kinds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct InterruptCounters {
    /// Urgent contexts entered at a safepoint.
    pub polled: u64,
    /// Urgent contexts entered from a signal.
    pub signalled: u64,
    /// Urgent contexts entered at the end of a region, for an interrupt that landed in it.
    pub deferred: u64,
    /// Signals that arrived at this worker, served at once or not.
    pub signals: u64,
    /// Signals that landed in a region or in a running urgent context, and were remembered.
    pub landed_in_region: u64,
    /// Longest time in nanoseconds that a remembered interrupt waited for the end of its region.
    pub deferred_ns_max: u64,
    /// Sum of these times.
    pub deferred_ns_sum: u64,
}

/// A thread that can be interrupted. Get one by [`register`].
pub struct Worker {
    line: Line,
    index: AtomicUsize,
    /// State: 0 free, 1 being set up or taken down, 2 registered.
    state: AtomicU32,
    tid: AtomicI32,
    name: [AtomicU8; NAME_BYTES],
    local: AtomicPtr<Local>,
    urgent_top: AtomicPtr<c_void>,
    guard_start: AtomicUsize,
    guard_end: AtomicUsize,
    /// Processor of the thread where it was last seen: at a safepoint, at a change of its mode, at the begin of an urgent
    /// context. [`NOWHERE`] if that is unknown.
    processor: AtomicU32,
    landed_at_ns: AtomicU64,
    polled: AtomicU64,
    signalled: AtomicU64,
    deferred: AtomicU64,
    signals: AtomicU64,
    landed_in_region: AtomicU64,
    deferred_ns_max: AtomicU64,
    deferred_ns_sum: AtomicU64,
    /// Written by the owning thread while `state` is 1; read by it alone afterwards.
    serve: UnsafeCell<Option<Arc<dyn Serve>>>,
}

// SAFETY: everything but `serve` is atomic; `serve` is touched only by the thread that registered (see the field).
unsafe impl Sync for Worker {}

#[cfg(not(feature = "shuttle"))]
static WORKERS: [Worker; WORKERS_MAX] = [const { Worker::new() }; WORKERS_MAX];
#[cfg(feature = "shuttle")]
static WORKERS: std::sync::LazyLock<[Worker; WORKERS_MAX]> =
    std::sync::LazyLock::new(|| [(); WORKERS_MAX].map(|()| Worker::new()));

macro_rules! const_unless_shuttle {
    ($(#[$meta:meta])* fn $name:ident() -> $type:ty $body:block) => {
        #[cfg(not(feature = "shuttle"))]
        $(#[$meta])* const fn $name() -> $type $body
        #[cfg(feature = "shuttle")]
        $(#[$meta])* fn $name() -> $type $body
    };
}

impl Worker {
    const_unless_shuttle! {
        fn new() -> Worker {
            Worker {
                line: Line::new(),
                index: AtomicUsize::new(0),
                state: AtomicU32::new(0),
                tid: AtomicI32::new(0),
                name: [const { AtomicU8::new(0) }; NAME_BYTES],
                local: AtomicPtr::new(core::ptr::null_mut()),
                urgent_top: AtomicPtr::new(core::ptr::null_mut()),
                guard_start: AtomicUsize::new(0),
                guard_end: AtomicUsize::new(0),
                processor: AtomicU32::new(NOWHERE),
                landed_at_ns: AtomicU64::new(0),
                polled: AtomicU64::new(0),
                signalled: AtomicU64::new(0),
                deferred: AtomicU64::new(0),
                signals: AtomicU64::new(0),
                landed_in_region: AtomicU64::new(0),
                deferred_ns_max: AtomicU64::new(0),
                deferred_ns_sum: AtomicU64::new(0),
                serve: UnsafeCell::new(None),
            }
        }
    }

    /// Returns this thread's worker, if it is registered.
    pub fn current() -> Option<&'static Worker> {
        LOCAL.with(context::worker_of)
    }

    /// Returns the place in the table of workers, below [`WORKERS_MAX`].
    pub fn id(&self) -> usize {
        self.index.load(Relaxed)
    }

    /// Returns the name given at registration, cut to 24 bytes.
    pub fn name(&self) -> String {
        let mut bytes = [0; NAME_BYTES];
        String::from_utf8_lossy(self.name_into(&mut bytes)).into_owned()
    }

    /// Returns the mode of the worker now.
    pub fn mode(&self) -> Mode {
        self.line.mode()
    }

    /// Publishes the mode of this thread from now on, and serves a request whose sender may have seen the old mode.
    /// Within an urgent context it does nothing: that context's mode is `Urgent` until it ends.
    ///
    /// # Panics
    /// If called by another thread than the worker's own.
    pub fn set_mode(&self, mode: Mode) {
        LOCAL.with(|local| {
            assert!(core::ptr::eq(local.worker.load(Relaxed), self), "only its own thread sets a worker's mode");
            self.publish_cpu();
            if !local.urgent.load(Relaxed) && self.line.publish(mode) {
                context::serve_polled(local);
            }
        });
    }

    /// Returns the counts of the worker's interrupts.
    pub fn counters(&self) -> InterruptCounters {
        InterruptCounters {
            polled: self.polled.load(Relaxed),
            signalled: self.signalled.load(Relaxed),
            deferred: self.deferred.load(Relaxed),
            signals: self.signals.load(Relaxed),
            landed_in_region: self.landed_in_region.load(Relaxed),
            deferred_ns_max: self.deferred_ns_max.load(Relaxed),
            deferred_ns_sum: self.deferred_ns_sum.load(Relaxed),
        }
    }

    /// Returns true if the thread seems to run now, on another processor than this thread: no other worker, and no thread
    /// of the idle class, was seen after it on the processor where it was last seen. Threads are seen at safepoints,
    /// and other threads are not, so this may be wrong. Processors beyond the first 1,024 count as those where nobody runs.
    #[inline]
    pub fn seems_to_run_elsewhere(&self) -> bool {
        let cpu = self.processor.load(Relaxed);
        let last = LAST_SEEN.get(cpu as usize).map(|last| last.load(Relaxed));
        last == Some(self.tid.load(Relaxed)) && os::current_cpu() != Some(cpu as usize)
    }

    /// Publishes the processor on which this thread, the worker's own, runs.
    #[inline]
    pub(crate) fn publish_cpu(&self) {
        let cpu = seen_here(self.tid.load(Relaxed));
        if self.processor.load(Relaxed) != cpu {
            self.processor.store(cpu, Relaxed);
        }
    }

    pub(crate) fn line(&self) -> &Line {
        &self.line
    }

    /// Returns the kernel's [number](crate::os::thread_id) of the thread.
    pub fn tid(&self) -> i32 {
        self.tid.load(Relaxed)
    }

    pub(crate) fn urgent_top(&self) -> *mut c_void {
        self.urgent_top.load(Relaxed)
    }

    pub(crate) fn guard_holds(&self, address: usize) -> bool {
        self.state.load(Acquire) == 2
            && self.guard_start.load(Relaxed) <= address
            && address < self.guard_end.load(Relaxed)
    }

    pub(crate) fn name_into<'a>(&self, bytes: &'a mut [u8; NAME_BYTES]) -> &'a [u8] {
        let mut count = 0;
        for (byte, from) in bytes.iter_mut().zip(&self.name) {
            *byte = from.load(Relaxed);
            if *byte == 0 {
                break;
            }
            count += 1;
        }
        &bytes[..count]
    }

    /// Returns the thread state of this worker; null while it is not registered.
    pub(crate) fn local(&self) -> *const Local {
        self.local.load(Relaxed)
    }

    pub(crate) fn serve_now(&'static self, arrival: Arrival) {
        // SAFETY: this is the worker's own thread, and `serve` changes only while no context of it runs.
        if let Some(serve) = unsafe { &*self.serve.get() } {
            serve.serve(self, arrival);
        }
    }

    pub(crate) fn count_entry(&self, arrival: Arrival) {
        add_own(
            match arrival {
                Arrival::Polled => &self.polled,
                Arrival::Signalled => &self.signalled,
                Arrival::Deferred => &self.deferred,
            },
            1,
        );
    }

    pub(crate) fn count_signal(&self) {
        add_own(&self.signals, 1);
    }

    /// Counts a signal that was remembered. One that a running urgent context takes along waits for no region.
    pub(crate) fn count_landed(&self, is_urgent: bool) {
        add_own(&self.landed_in_region, 1);
        if !is_urgent && self.landed_at_ns.load(Relaxed) == 0 {
            self.landed_at_ns.store(os::now_ns(), Relaxed);
        }
    }

    pub(crate) fn count_deferred_wait(&self) {
        let landed_at_ns = self.landed_at_ns.swap(0, Relaxed);
        if landed_at_ns > 0 {
            let waited = os::now_ns().saturating_sub(landed_at_ns);
            add_own(&self.deferred_ns_sum, waited);
            self.deferred_ns_max.fetch_max(waited, Relaxed);
        }
    }
}

/// Adds to a counter that one thread alone writes.
fn add_own(counter: &AtomicU64, n: u64) {
    counter.store(counter.load(Relaxed) + n, Relaxed);
}

/// Returns the counts of every worker of this process so far, also of those that ended.
pub fn totals() -> InterruptCounters {
    let ended = InterruptCounters {
        polled: ENDED[0].load(Relaxed),
        signalled: ENDED[1].load(Relaxed),
        deferred: ENDED[2].load(Relaxed),
        signals: ENDED[3].load(Relaxed),
        landed_in_region: ENDED[4].load(Relaxed),
        deferred_ns_max: ENDED[5].load(Relaxed),
        deferred_ns_sum: ENDED[6].load(Relaxed),
    };
    workers().fold(ended, |sum, worker| sum.plus(&worker.counters()))
}

impl InterruptCounters {
    /// Returns the sums of these counts and others, and the longer of both waits.
    pub fn plus(&self, other: &InterruptCounters) -> InterruptCounters {
        InterruptCounters {
            polled: self.polled + other.polled,
            signalled: self.signalled + other.signalled,
            deferred: self.deferred + other.deferred,
            signals: self.signals + other.signals,
            landed_in_region: self.landed_in_region + other.landed_in_region,
            deferred_ns_max: self.deferred_ns_max.max(other.deferred_ns_max),
            deferred_ns_sum: self.deferred_ns_sum + other.deferred_ns_sum,
        }
    }
}

/// Counts of workers that ended, in the order of the fields of [`InterruptCounters`].
static ENDED: [AtomicU64; 7] = [const { AtomicU64::new(0) }; 7];

fn remember_counts(counters: InterruptCounters) {
    let sums = [counters.polled, counters.signalled, counters.deferred, counters.signals, counters.landed_in_region];
    for (ended, count) in ENDED.iter().zip(sums) {
        ended.fetch_add(count, Relaxed);
    }
    ENDED[5].fetch_max(counters.deferred_ns_max, Relaxed);
    ENDED[6].fetch_add(counters.deferred_ns_sum, Relaxed);
}

/// Returns every worker that is registered now.
pub fn workers() -> impl Iterator<Item = &'static Worker> {
    WORKERS.iter().filter(|worker| worker.state.load(Acquire) == 2)
}

/// Returns the worker at `index`, if it is registered and runs on the thread `tid`. For signal handlers.
pub(crate) fn worker_at(index: usize, tid: i32) -> Option<&'static Worker> {
    WORKERS.get(index).filter(|worker| worker.state.load(Acquire) == 2 && worker.tid.load(Relaxed) == tid)
}

/// A thread's registration as a worker, which ends when this is dropped.
pub struct Registration {
    worker: &'static Worker,
    /// Stack for signals, and stack for urgent contexts.
    stacks: [Stack; 2],
    alternate_before: libc::stack_t,
    _own_thread: PhantomData<*const ()>,
}

impl Registration {
    /// Returns the worker that this thread is.
    pub fn worker(&self) -> &'static Worker {
        self.worker
    }
}

/// Makes this thread a worker: gives it a stack for signals and one for urgent contexts, and lets it be interrupted.
///
/// # Errors
/// If the thread is a worker already, [`WORKERS_MAX`] are registered, or the kernel refuses memory or the handlers.
pub fn register(name: &str, serve: Arc<dyn Serve>) -> io::Result<Registration> {
    if Worker::current().is_some() {
        return Err(io::Error::other("this thread is registered as a worker already"));
    }
    signal::install()?;
    let signal_stack = Stack::map(SIGNAL_STACK_BYTES)?;
    let urgent_stack = Stack::map(STACK_BYTES)?;
    let (index, worker) = WORKERS
        .iter()
        .enumerate()
        .find(|(_, worker)| worker.state.compare_exchange(0, 1, AcqRel, Relaxed).is_ok())
        .ok_or_else(|| io::Error::other("too many workers are registered"))?;
    worker.index.store(index, Relaxed);
    worker.tid.store(os::thread_id(), Relaxed);
    for (at, to) in worker.name.iter().enumerate() {
        to.store(name.as_bytes().get(at).copied().unwrap_or(0), Relaxed);
    }
    worker.urgent_top.store(urgent_stack.top(), Relaxed);
    let (start, end) = urgent_stack.guard();
    worker.guard_start.store(start, Relaxed);
    worker.guard_end.store(end, Relaxed);
    worker.publish_cpu();
    worker.landed_at_ns.store(0, Relaxed);
    let counters = [&worker.polled, &worker.signalled, &worker.deferred, &worker.signals, &worker.landed_in_region];
    for counter in counters.into_iter().chain([&worker.deferred_ns_max, &worker.deferred_ns_sum]) {
        counter.store(0, Relaxed);
    }
    worker.line.reset();
    // SAFETY: state 1 makes this thread the only one that touches `serve`.
    unsafe { *worker.serve.get() = Some(serve) };
    let alternate_before = signal::use_alternate_stack(&signal_stack);
    LOCAL.with(|local| {
        worker.local.store(core::ptr::from_ref(local).cast_mut(), Relaxed);
        local.pending.store(false, Relaxed);
        local.worker.store(core::ptr::from_ref(worker).cast_mut(), Relaxed);
    });
    // Release: a thread that finds the worker registered finds all of the above.
    worker.state.store(2, Release);
    // A sender that still knew the worker's last owner may have set the mark above, and its signal found no worker: the
    // mark would keep every later signal away. One that is set from now on belongs to a signal that will be served.
    worker.line.arrived();
    signal::unblock();
    Ok(Registration { worker, stacks: [signal_stack, urgent_stack], alternate_before, _own_thread: PhantomData })
}

impl Drop for Registration {
    fn drop(&mut self) {
        assert!(!context::in_urgent(), "a worker cannot end inside its urgent context");
        // From here on a late signal finds no worker and does nothing.
        self.worker.state.store(1, SeqCst);
        compiler_fence(SeqCst);
        remember_counts(self.worker.counters());
        LOCAL.with(|local| {
            local.worker.store(core::ptr::null_mut(), Relaxed);
            local.pending.store(false, Relaxed);
        });
        self.worker.local.store(core::ptr::null_mut(), Relaxed);
        signal::restore_alternate_stack(&self.stacks[0], &self.alternate_before);
        // SAFETY: no context of this worker runs any more, and its thread is this one.
        drop(unsafe { (*self.worker.serve.get()).take() });
        self.worker.line.reset();
        self.worker.state.store(0, Release);
    }
}

/// Marks a point at which this thread can be interrupted without a signal: cheap enough for every 1,024 rows. A thread
/// of the idle class ([`os::set_idle`]) lets others go first here.
#[inline]
pub fn safepoint() {
    LOCAL.with(|local| {
        if let Some(worker) = context::worker_of(local) {
            worker.publish_cpu();
            if worker.line.polled() {
                context::serve_polled(local);
            }
        } else if local.gave_way_ns.load(Relaxed) != 0 {
            // A thread of the class SCHED_IDLE, as the workers may be: it has taken the processor from one of them.
            seen_here(NOBODY);
        }
        os::give_way(local);
    });
}

/// Guard of a stretch with dense safepoints: from [`Dense::enter`] to its drop this thread reaches a [`safepoint`] at
/// least every 1,024 rows, so that a sender need only set the flag.
pub struct Dense {
    before: Option<(&'static Worker, Mode)>,
    _own_thread: PhantomData<*const ()>,
}

impl Dense {
    /// Begins a stretch with dense safepoints.
    #[inline]
    pub fn enter() -> Dense {
        let before = Worker::current().filter(|_| !context::in_urgent()).map(|worker| {
            let before = worker.mode();
            worker.set_mode(Mode::Dense);
            (worker, before)
        });
        Dense { before, _own_thread: PhantomData }
    }
}

impl Drop for Dense {
    #[inline]
    fn drop(&mut self) {
        if let Some((worker, before)) = self.before {
            worker.set_mode(before);
        }
    }
}
