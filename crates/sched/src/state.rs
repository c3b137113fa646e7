//! State that the threads of a scheduler share, and the placement of requests.
//!
//! **Invariant: no wake-up is lost.** A submitter queues first and then looks at the modes of the workers; a worker that
//! is about to sleep publishes the mode idle first and then looks at all queues (Dekker's pattern, sequentially
//! consistent: see `preempt`'s line and queue). So either the submitter sees an idle worker and wakes it, or the worker
//! sees the request.

use crate::cap::Cap;
use crate::claimer::Claimer;
use crate::counters::Cells;
use crate::event::Event;
use crate::keeper::Keeper;
use crate::low::LowQueue;
use crate::policy::Policy;
use crate::queues::RequestQueues;
use crate::raising::Raising;
use crate::request::{Rejected, Request};
use crate::settings::{Placement, Rungs, SchedulerSettings};
use core::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, AtomicUsize, Ordering::*};
use preempt::os::RunDelay;
use preempt::{BoundedQueue, Delivery, Latch, Mode, Sent, WORKERS_MAX, Worker, os};
use stage::{Class, Moment};
use std::sync::{Arc, OnceLock, Weak};

/// State of one worker.
pub(crate) struct WorkerSlot {
    pub(crate) queues: RequestQueues,
    worker: OnceLock<&'static Worker>,
    is_attached: AtomicBool,
    /// True if the thread sleeps or is about to: requests that it runs then hold up no query.
    pub(crate) is_parked: AtomicBool,
    /// Yield points passed since the last one that was due. The worker alone writes it.
    pub(crate) yield_points: AtomicU32,
    pub(crate) cap: Latch<Cap>,
    /// Time until which the cap is closed, for submitters; the worker alone writes it.
    pub(crate) opens_at_ns: AtomicU64,
    pub(crate) run_delay: OnceLock<RunDelay>,
    pub(crate) raising: Raising,
    pub(crate) events: BoundedQueue<Event>,
    /// Under `thread`, the dedicated thread of this worker, and whether it sleeps.
    pub(crate) dedicated: OnceLock<std::thread::Thread>,
    pub(crate) dedicated_sleeps: AtomicBool,
}

impl WorkerSlot {
    pub(crate) fn worker(&self) -> Option<&'static Worker> {
        if self.is_attached.load(SeqCst) { self.worker.get().copied() } else { None }
    }

    /// Returns true if the cap keeps urgent work from this worker, which is busy. A hint.
    fn is_closed(&self, now_ns: u64) -> bool {
        now_ns < self.opens_at_ns.load(Relaxed) && self.worker().is_some_and(|worker| worker.mode() != Mode::Idle)
    }

    fn is_idle(&self) -> bool {
        self.worker().is_some_and(|worker| worker.mode() == Mode::Idle)
    }
}

pub(crate) struct SchedulerState {
    pub(crate) settings: SchedulerSettings,
    pub(crate) slots: Box<[WorkerSlot]>,
    /// Global queues. Each has room for every request under way, so a thread that brings one back is never turned away.
    pub(crate) overflow: RequestQueues,
    /// Number of requests under way: from their submission until they have ended or, cancelled, have left their queue.
    under_way: AtomicUsize,
    /// Handle for the wake-ups of parked requests.
    me: Weak<SchedulerState>,
    /// End of the line of submissions: requests and low jobs take their places here.
    pub(crate) next_place: AtomicU64,
    pub(crate) low: LowQueue,
    pub(crate) counters: Cells,
    pub(crate) keeper: Keeper,
    pub(crate) claimer: Claimer,
    pub(crate) is_realtime: AtomicBool,
    /// True if a worker runs in the class SCHED_IDLE and may not be raised.
    pub(crate) is_kept_down: AtomicBool,
    /// Index plus one of the slot of each worker of the process, 0 for workers of others.
    slot_of: Box<[AtomicU32]>,
    turn: AtomicUsize,
    delivery: Box<dyn Delivery>,
    /// Events of threads that are no workers.
    outside_events: BoundedQueue<Event>,
    is_stopped: AtomicBool,
}

impl SchedulerState {
    pub(crate) fn new(settings: SchedulerSettings) -> Arc<SchedulerState> {
        let SchedulerSettings { cap, queue_requests, events_per_worker, .. } = settings;
        let slot = |_| WorkerSlot {
            queues: RequestQueues::new(queue_requests),
            worker: OnceLock::new(),
            is_attached: AtomicBool::new(false),
            is_parked: AtomicBool::new(false),
            yield_points: AtomicU32::new(0),
            cap: Latch::new(Cap::new(cap, os::now_ns())),
            opens_at_ns: AtomicU64::new(0),
            run_delay: OnceLock::new(),
            raising: Raising::default(),
            events: BoundedQueue::new(events_per_worker),
            dedicated: OnceLock::new(),
            dedicated_sleeps: AtomicBool::new(false),
        };
        Arc::new_cyclic(|me| SchedulerState {
            me: Weak::clone(me),
            slots: (0..settings.workers).map(slot).collect(),
            overflow: RequestQueues::new(settings.requests_max),
            under_way: AtomicUsize::new(0),
            next_place: AtomicU64::new(0),
            low: LowQueue::new(settings.low_jobs_max),
            counters: Cells::default(),
            keeper: Keeper::default(),
            claimer: Claimer::default(),
            is_realtime: AtomicBool::new(false),
            is_kept_down: AtomicBool::new(false),
            slot_of: (0..WORKERS_MAX).map(|_| AtomicU32::new(0)).collect(),
            turn: AtomicUsize::new(0),
            delivery: match settings.rungs {
                Rungs::Poll => Box::new(preempt::Poll),
                Rungs::Signal => Box::new(preempt::Signal),
                Rungs::Both => Box::new(preempt::Ladder),
            },
            outside_events: BoundedQueue::new(settings.events_per_worker),
            is_stopped: AtomicBool::new(false),
            settings,
        })
    }

    /// Returns a handle for a caller that may outlive this call.
    pub(crate) fn own(&self) -> Arc<SchedulerState> {
        self.me.upgrade().expect("whoever calls this has a handle")
    }

    pub(crate) fn attach(&self, slot: usize, worker: &'static Worker) {
        let own = self.slots[slot].worker.get_or_init(|| worker);
        assert!(core::ptr::eq(*own, worker), "a worker's place is taken once");
        self.slot_of[worker.id()].store(slot as u32 + 1, SeqCst);
        self.slots[slot].is_attached.store(true, SeqCst);
    }

    pub(crate) fn detach(&self, slot: usize, worker: &'static Worker) {
        self.slots[slot].is_attached.store(false, SeqCst);
        self.slot_of[worker.id()].store(0, SeqCst);
        // Requests queued there are left to the others.
        self.wake_idle_workers();
    }

    pub(crate) fn is_free(&self, slot: usize) -> bool {
        self.slots.get(slot).is_some_and(|slot| slot.worker.get().is_none())
    }

    /// Returns the slot of this thread, if it is a worker of this scheduler.
    #[inline]
    pub(crate) fn current_slot(&self) -> Option<usize> {
        (self.slot_of[Worker::current()?.id()].load(Relaxed) as usize).checked_sub(1)
    }

    pub(crate) fn cpu_of(&self, slot: usize) -> Option<usize> {
        match self.settings.cpus.as_slice() {
            [] => None,
            cpus => Some(cpus[slot % cpus.len()]),
        }
    }

    pub(crate) fn is_stopped(&self) -> bool {
        self.is_stopped.load(SeqCst)
    }

    pub(crate) fn stop(&self) {
        self.is_stopped.store(true, SeqCst);
    }

    /// Accepts a request for this worker, or for the one that suits it.
    pub(crate) fn submit(&self, request: Arc<Request>, slot: Option<usize>) -> Result<(), Rejected> {
        let place = self.next_place.fetch_add(1, SeqCst);
        if self.is_stopped() {
            return Err(Rejected::Stopped);
        }
        if self.settings.requests_max <= self.under_way.fetch_add(1, SeqCst) {
            self.leaves();
            self.counters.rejected.add_one();
            return Err(Rejected::Full);
        }
        if !request.enqueue(place) {
            self.leaves();
            return Err(Rejected::NotNew);
        }
        let submit_ns = request.clock().stamp(Moment::Submit);
        let class = request.class();
        let first = slot.unwrap_or_else(|| self.choose(class));
        request.set_target(first);
        if self.settings.track_run_delay
            && let Some(run_delay) = self.slots[first].run_delay.get()
        {
            request.set_run_delay_base_ns(run_delay.read_ns());
        }
        let slot = self.queue(Arc::clone(&request), first, submit_ns);
        self.counters.queued.add_one();
        if self.is_stopped() && request.cancel() {
            return Err(Rejected::Stopped);
        }
        self.tell(slot, class, submit_ns);
        self.expect_claimer(class, submit_ns);
        if self.is_stopped() {
            // The timer may have been set again after the thread that stopped the scheduler had set it.
            self.claimer.wake();
        }
        Ok(())
    }

    /// Tells a worker that something was queued with `slot`, at `now_ns`; or the keeper, if the cap is closed.
    fn tell(&self, slot: usize, class: Class, now_ns: u64) {
        if self.settings.policy == Policy::Preempt && class != Class::Low && self.slots[slot].is_closed(now_ns) {
            // An interrupt would only find the cap closed.
            self.keeper.wake();
        } else {
            self.deliver(slot, class);
        }
    }

    /// Accepts a parked request back whose wake-up came: it is queued by its state, and the caller is its only owner.
    /// It cannot be turned away. It keeps its first place in the line of submissions.
    pub(crate) fn resubmit(&self, request: Arc<Request>) {
        self.counters.resubmits.add_one();
        let class = request.class();
        // A request that was freed here goes on here, next: another worker, even an idle one, has to be woken first,
        // and every waiter for the same thing waits that long each time.
        let own = if preempt::in_urgent() { self.current_slot() } else { None };
        let first = own.unwrap_or_else(|| self.choose(class));
        let now_ns = os::now_ns();
        let slot = self.queue(request, first, now_ns);
        if self.is_stopped() {
            // The thread that stopped the scheduler may have looked before.
            return self.cancel_queued();
        }
        self.tell(slot, class, now_ns);
        self.expect_claimer(class, now_ns);
    }

    /// Counts a request as under way no more.
    pub(crate) fn leaves(&self) {
        self.under_way.fetch_sub(1, SeqCst);
    }

    /// Queues with `first`, else with the next worker that has room, else globally. Returns the worker to tell.
    fn queue(&self, mut request: Arc<Request>, first: usize, now_ns: u64) -> usize {
        let class = request.class();
        request.set_queued_ns(now_ns);
        for step in 0..self.slots.len() {
            let slot = (first + step) % self.slots.len();
            match self.slots[slot].queues.of(class).push(request) {
                Ok(()) => return slot,
                Err(back) => request = back,
            }
        }
        self.queue_globally(request);
        first
    }

    /// Makes the claimer look in time, after a request of this class was queued at `now_ns`.
    #[inline]
    fn expect_claimer(&self, class: Class, now_ns: u64) {
        if class != Class::Low {
            self.claimer.expect(now_ns);
        }
    }

    /// Queues a request whose run ended at `now_ns` and that runs again.
    pub(crate) fn queue_again(&self, request: Arc<Request>, slot: usize, now_ns: u64) {
        let class = request.class();
        request.set_queued_ns(now_ns);
        if let Err(request) = self.slots[slot].queues.of(class).push(request) {
            self.queue_globally(request);
        }
        self.expect_claimer(class, now_ns);
    }

    /// Queues a request again that ran beside the worker `slot`, which does not look by itself.
    pub(crate) fn return_late(&self, request: Arc<Request>, slot: usize, now_ns: u64) {
        let class = request.class();
        self.queue_again(request, slot, now_ns);
        self.tell(slot, class, now_ns);
    }

    fn queue_globally(&self, request: Arc<Request>) {
        let class = request.class();
        let pushed = self.overflow.of(class).push(request);
        assert!(pushed.is_ok(), "it is under way, and there is room for all that are");
        self.counters.overflowed.add_one();
    }

    /// Returns true if requests of the class run on the dedicated threads, under `thread`.
    pub(crate) fn uses_dedicated(&self, class: Class) -> bool {
        self.settings.policy == Policy::Thread && class != Class::Low
    }

    fn choose(&self, class: Class) -> usize {
        let count = self.slots.len();
        let own = match self.settings.placement {
            Placement::OwnCore => self.own_core_slot(),
            Placement::RoundRobin => None,
        };
        let first = own.unwrap_or_else(|| self.turn.fetch_add(1, Relaxed) % count);
        let in_turn = || (first..count).chain(0..first);
        let is_idle = |&slot: &usize| {
            let slot = &self.slots[slot];
            let is_idle = if self.uses_dedicated(class) { slot.dedicated_sleeps.load(SeqCst) } else { slot.is_idle() };
            is_idle && slot.queues.is_empty()
        };
        let is_there = |&slot: &usize| self.uses_dedicated(class) || self.slots[slot].worker().is_some();
        in_turn().find(is_idle).or_else(|| in_turn().find(is_there)).unwrap_or(first)
    }

    /// Returns true if this worker is busy and seems to run on another processor than this thread.
    pub(crate) fn runs_elsewhere(&self, slot: usize) -> bool {
        self.slots[slot].worker().is_some_and(|worker| !self.slots[slot].is_idle() && worker.seems_to_run_elsewhere())
    }

    fn own_core_slot(&self) -> Option<usize> {
        if let Some(slot) = self.current_slot() {
            return Some(slot);
        }
        let cpus = &self.settings.cpus;
        if cpus.is_empty() {
            return None;
        }
        let cpu = os::current_cpu()?;
        cpus.iter().take(self.slots.len()).position(|&of_slot| of_slot == cpu)
    }

    /// Makes a worker look at the queues, because something was queued with `slot`.
    pub(crate) fn deliver(&self, slot: usize, class: Class) {
        if self.uses_dedicated(class) {
            if let Some(thread) = self.slots[slot].dedicated.get() {
                thread.unpark();
            }
            return;
        }
        let Some(worker) = self.slots[slot].worker() else {
            // The worker left since the choice was made, or none has come yet.
            return self.wake_idle_workers();
        };
        if self.settings.policy == Policy::Preempt && class != Class::Low {
            let raise = self.slots[slot].raising.begin();
            self.delivery.send(worker);
            // Also in an urgent context: a worker that has just lowered itself may have lost its processor there.
            if raise.is_some_and(|raise| raise.raise(worker.tid())) {
                self.delivery.send(worker);
            }
        } else if !matches!(preempt::wake_idle(worker), Sent::Signalled | Sent::Outstanding) {
            // The worker is busy, and will come by itself. One that went to sleep since the choice was made takes it at
            // once.
            if let Some(other) = self.slots.iter().find(|slot| slot.is_idle()).and_then(WorkerSlot::worker) {
                preempt::wake_idle(other);
            }
        }
    }

    /// Lets every idle worker look at the queues, if there is something in them.
    pub(crate) fn wake_idle_workers(&self) {
        if self.has_queued() {
            for worker in self.slots.iter().filter(|slot| slot.is_idle()).filter_map(WorkerSlot::worker) {
                preempt::wake_idle(worker);
            }
        }
    }

    /// Returns true if a request of the urgent classes is queued, or being queued.
    pub(crate) fn has_urgent(&self) -> bool {
        self.slots.iter().map(|slot| &slot.queues).chain([&self.overflow]).any(RequestQueues::has_urgent)
    }

    #[inline]
    pub(crate) fn has_queued(&self) -> bool {
        self.has_queued_globally() || self.slots.iter().any(|slot| !slot.queues.is_empty())
    }

    /// Returns true if a worker that is busy could find something: in its own queues or the global one.
    #[inline]
    pub(crate) fn has_queued_for(&self, slot: usize) -> bool {
        !self.slots[slot].queues.is_empty() || self.has_queued_globally()
    }

    #[inline]
    fn has_queued_globally(&self) -> bool {
        !self.overflow.is_empty()
    }

    /// Returns the time since which the oldest request of the urgent classes is queued.
    pub(crate) fn oldest_urgent_ns(&self) -> Option<u64> {
        let all = self.slots.iter().map(|slot| &slot.queues).chain([&self.overflow]);
        let oldest = |queues: &RequestQueues, class| queues.of(class).peek_since().map(|(_, since_ns)| since_ns);
        all.flat_map(|queues| [Class::High, Class::Normal].map(|class| oldest(queues, class))).flatten().min()
    }

    pub(crate) fn queued_count(&self) -> usize {
        self.overflow.len() + self.slots.iter().map(|slot| slot.queues.len()).sum::<usize>()
    }

    pub(crate) fn log(&self, slot: Option<usize>, event: Event) {
        let ring = slot.map_or(&self.outside_events, |slot| &self.slots[slot].events);
        if ring.push(event).is_err() {
            self.counters.events_lost.add_one();
        }
    }

    pub(crate) fn drain_events(&self, f: &mut dyn FnMut(Event)) {
        for ring in self.slots.iter().map(|slot| &slot.events).chain([&self.outside_events]) {
            // No more than fit: a reader that is slower than the workers must come back some time.
            for _ in 0..ring.capacity() {
                let Some(event) = ring.pop() else { break };
                f(event);
            }
        }
    }

    /// Cancels every queued request.
    pub(crate) fn cancel_queued(&self) {
        for queues in self.slots.iter().map(|slot| &slot.queues).chain([&self.overflow]) {
            for class in Class::ALL {
                while let Some(request) = queues.of(class).take() {
                    self.leaves();
                    if request.cancel() {
                        self.counters.cancelled.add_one();
                    }
                }
            }
        }
    }
}
