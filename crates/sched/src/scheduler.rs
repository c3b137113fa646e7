//! The scheduler's interface: the hooks of the runtime that lends the workers, and the submission of work.

use crate::claimer;
use crate::counters::Counters;
use crate::dedicated;
use crate::event::Event;
use crate::keeper;
use crate::low::LowWork;
use crate::panics;
use crate::policy::Policy;
use crate::request::{Rejected, Request};
use crate::serve::Handler;
use crate::settings::SchedulerSettings;
use crate::state::SchedulerState;
use core::cell::RefCell;
use core::sync::atomic::Ordering::SeqCst;
use locked::Locked;
use preempt::os::{self, RunDelay};
use preempt::{Mode, Registration, Worker};
use std::io;
use std::sync::{Arc, Mutex, mpsc};
use std::thread::{self, JoinHandle};

/// Nice value of workers under `thread` where the real-time class is not allowed.
const NICE_MAX: i32 = 19;

/// Runs requests and starts low jobs on the workers that attach to it, by one policy.
///
/// Dropping it shuts it down.
pub struct Scheduler {
    shared: Arc<SchedulerState>,
    threads: Mutex<Vec<JoinHandle<()>>>,
}

/// State of this thread as a worker.
struct Attachment {
    shared: Arc<SchedulerState>,
    slot: usize,
    registration: Registration,
}

impl Drop for Attachment {
    fn drop(&mut self) {
        self.shared.detach(self.slot, self.registration.worker());
    }
}

thread_local! {
    /// State of this thread as a worker, if it is one. Touched when a thread starts and ends, never in an urgent
    /// context.
    static ATTACHMENT: RefCell<Option<Attachment>> = const { RefCell::new(None) };
}

impl Scheduler {
    /// Creates a scheduler with its own threads running, and no worker yet.
    ///
    /// # Errors
    /// If the settings make no sense, or a thread cannot be started.
    pub fn new(settings: SchedulerSettings) -> io::Result<Scheduler> {
        if settings.workers == 0 || settings.yield_interval == 0 || settings.cap.window_ns == 0 {
            let why = "a scheduler needs a worker, a yield interval and a window of the cap above 0";
            return Err(io::Error::new(io::ErrorKind::InvalidInput, why));
        }
        panics::silence_requests();
        let shared = SchedulerState::new(settings);
        let scheduler = Scheduler { shared, threads: Mutex::new(Vec::new()) };
        let name = &scheduler.shared.settings.name;
        let for_keeper = Arc::clone(&scheduler.shared);
        scheduler.spawn(format!("{name}-keeper"), move || keeper::run(&for_keeper))?;
        if scheduler.policy() == Policy::Thread {
            let (ready, readies) = mpsc::channel();
            for at in 0..scheduler.workers() {
                let (shared, ready) = (Arc::clone(&scheduler.shared), ready.clone());
                scheduler.spawn(format!("{name}-urgent-{at}"), move || dedicated::run(&shared, at, &ready))?;
            }
            drop(ready);
            let are_realtime = readies.iter().take(scheduler.workers()).filter(|&is_realtime| is_realtime).count();
            scheduler.shared.is_realtime.store(are_realtime == scheduler.workers(), SeqCst);
        }
        if let (Policy::Preempt, Some(after_ns)) = (scheduler.policy(), scheduler.settings().claim_after_ns) {
            scheduler.shared.claimer.prepare(after_ns)?;
            let (ready, is_realtime) = mpsc::channel();
            let shared = Arc::clone(&scheduler.shared);
            scheduler.spawn(format!("{name}-claimer"), move || claimer::run(&shared, &ready))?;
            scheduler.shared.is_realtime.store(is_realtime.recv().unwrap_or(false), SeqCst);
        }
        Ok(scheduler)
    }

    fn spawn(&self, name: String, body: impl FnOnce() + Send + 'static) -> io::Result<()> {
        let thread = thread::Builder::new().name(name).spawn(body)?;
        self.threads.locked_anyway().push(thread);
        Ok(())
    }

    /// Returns the settings of the scheduler.
    pub fn settings(&self) -> &SchedulerSettings {
        &self.shared.settings
    }

    /// Returns the policy of the scheduler.
    pub fn policy(&self) -> Policy {
        self.shared.settings.policy
    }

    /// Returns the number of workers that the scheduler has places for.
    pub fn workers(&self) -> usize {
        self.shared.settings.workers
    }

    /// Returns the mode of worker `index` now, if it is attached.
    pub fn worker_mode(&self, index: usize) -> Option<Mode> {
        self.shared.slots.get(index)?.worker().map(Worker::mode)
    }

    /// Returns the attached worker `index`, for its counters of interrupts.
    pub fn worker(&self, index: usize) -> Option<&'static Worker> {
        self.shared.slots.get(index)?.worker()
    }

    /// Returns true if the dedicated threads, or the claimer, run in the real-time class. If not, workers run at nice +19
    /// under `thread`.
    pub fn is_realtime(&self) -> bool {
        self.shared.is_realtime.load(SeqCst)
    }

    /// Returns true if a worker runs in the class SCHED_IDLE and may not be raised above it, which needs CAP_SYS_NICE or a
    /// limit of nice values up to 0 (RLIMIT_NICE). A request that it runs may stand still for long, with all its locks.
    pub fn is_kept_down(&self) -> bool {
        self.shared.is_kept_down.load(SeqCst)
    }

    /// Makes this thread worker `index`, until [`Scheduler::detach`] or its end. Call it when the thread starts.
    ///
    /// # Errors
    /// If there is no such place, it was taken before, or the thread is a worker already.
    pub fn attach(&self, index: usize) -> io::Result<()> {
        let shared = &self.shared;
        if !shared.is_free(index) {
            return Err(io::Error::other(format!("there is no free place for worker {index}")));
        }
        if let Some(cpu) = shared.cpu_of(index) {
            os::pin_to_cpu(cpu)?;
        }
        let is_thread = self.policy() == Policy::Thread;
        if is_thread && !self.is_realtime() {
            os::set_nice(NICE_MAX)?;
        }
        if shared.settings.track_run_delay && !is_thread {
            // A kernel without the counter leaves the delays unknown.
            if let Ok(run_delay) = RunDelay::open_current() {
                let _ = shared.slots[index].run_delay.set(run_delay);
            }
        }
        if shared.settings.raises_workers && !shared.slots[index].raising.attach() {
            shared.is_kept_down.store(true, SeqCst);
        }
        let handler = Handler { shared: Arc::clone(shared), slot: index };
        let registration = preempt::register(&format!("{}-{index}", shared.settings.name), Arc::new(handler))?;
        shared.attach(index, registration.worker());
        let attachment = Attachment { shared: Arc::clone(shared), slot: index, registration };
        ATTACHMENT.with_borrow_mut(|own| *own = Some(attachment));
        Ok(())
    }

    /// Ends this thread's role as a worker. Requests queued with it are left to the others.
    pub fn detach(&self) {
        drop(ATTACHMENT.with_borrow_mut(Option::take));
    }

    /// Tells the scheduler that this thread is about to sleep. Has no effect on a thread that is no worker of it.
    pub fn thread_parks(&self) {
        if let (Some(slot), Some(worker)) = (self.shared.current_slot(), Worker::current()) {
            self.shared.parks(slot, worker);
        }
    }

    /// Tells the scheduler that this thread is awake. Has no effect on a thread that is no worker of it.
    pub fn thread_unparks(&self) {
        if let (Some(slot), Some(worker)) = (self.shared.current_slot(), Worker::current()) {
            self.shared.unparks(slot, worker);
        }
    }

    /// Marks a point at which a query may yield, between two batches for example. Costs a few loads.
    #[inline]
    pub fn yield_point(&self) {
        self.shared.yield_point();
    }

    /// Marks the end of a query that was not submitted by [`Scheduler::submit_low`], on this thread.
    pub fn boundary(&self) {
        self.shared.boundary();
    }

    /// Accepts a request, and runs it as soon as the policy allows.
    ///
    /// # Errors
    /// [`Rejected`]; a request that was refused because the scheduler is full may be submitted again.
    pub fn submit(&self, request: Arc<Request>) -> Result<(), Rejected> {
        self.shared.submit(request, None)
    }

    /// Accepts a request and interrupts this worker for it, one that [`Scheduler::interruptible`] has returned. If its
    /// queue is full, the next one gets the request.
    ///
    /// # Errors
    /// As [`Scheduler::submit`].
    ///
    /// # Panics
    /// If there is no such worker.
    pub fn submit_to(&self, worker: usize, request: Arc<Request>) -> Result<(), Rejected> {
        assert!(worker < self.workers(), "there is no worker {worker}");
        self.shared.submit(request, Some(worker))
    }

    /// Returns a busy worker that an interrupt from this thread reaches at once: one that seems to run, on another
    /// processor. A worker on this one does not run, and one that was seen nowhere may wait for long.
    #[inline]
    pub fn interruptible(&self) -> Option<usize> {
        (0..self.workers()).find(|&worker| self.shared.runs_elsewhere(worker))
    }

    /// Accepts a low job that needs `width` workers, and starts it when they are free of other low jobs: often here and
    /// now. Returns its number. Not in an urgent context.
    ///
    /// # Errors
    /// [`Rejected`]; the work is dropped then.
    pub fn submit_low(&self, work: Box<dyn LowWork>, width: usize) -> Result<u64, Rejected> {
        self.shared.submit_low(work, width)
    }

    /// Takes a low job back that was not started yet. A started one is ended by its runner.
    pub fn cancel_low(&self, id: u64) -> bool {
        self.shared.cancel_low(id)
    }

    /// Returns the approximate number of queued requests.
    pub fn queued_requests(&self) -> usize {
        self.shared.queued_count()
    }

    /// Returns the number of low jobs that wait to be started.
    pub fn queued_low_jobs(&self) -> usize {
        self.shared.low.len()
    }

    /// Returns the number of low jobs that wait or run.
    pub fn low_jobs(&self) -> usize {
        self.shared.low.alive()
    }

    /// Passes every event since the last call to `f`. For one reader at a time; each worker's events come in order.
    pub fn drain_events(&self, f: &mut dyn FnMut(Event)) {
        self.shared.drain_events(f);
    }

    /// Returns the counts since the scheduler was created.
    pub fn counters(&self) -> Counters {
        self.shared.counters.read()
    }

    /// Accepts no more work, cancels what is queued, and ends the scheduler's own threads. The workers are left to
    /// their runtime. Running requests go on to their end; a parked one is cancelled by its wake-up.
    pub fn shutdown(&self) {
        self.shared.stop();
        self.shared.low.close();
        self.shared.keeper.unpark();
        self.shared.claimer.wake();
        for slot in &self.shared.slots {
            if let Some(thread) = slot.dedicated.get() {
                thread.unpark();
            }
        }
        let threads = core::mem::take(&mut *self.threads.locked_anyway());
        for thread in threads {
            thread.join().expect("the scheduler's own threads catch the panics of requests");
        }
        self.shared.cancel_queued();
    }
}

impl Drop for Scheduler {
    fn drop(&mut self) {
        self.shutdown();
    }
}
