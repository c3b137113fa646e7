//! Running requests: on a worker, in an urgent context of it, or on a dedicated thread.
//!
//! **Invariant:** this module keeps the rules of urgent contexts (design, section 4): no blocking, no I/O beyond
//! reading a counter of the kernel, no logging; events leave through rings made beforehand.

use crate::cap::Cap;
use crate::counters::Start;
use crate::entry::{self, Host, LeftRequests, RunSpan};
use crate::event::{Completed, Event};
use crate::panics;
use crate::policy::{Heads, Point, Policy, Share, class_index};
use crate::queues::RequestQueues;
use crate::request::{Ended, Request, RunCx, RunOutcome};
use crate::state::{SchedulerState, WorkerSlot};
use core::sync::atomic::Ordering::{Relaxed, SeqCst};
use preempt::{Arrival, Serve, Worker, no_preempt, os};
use stage::{Class, Moment};
use std::sync::Arc;

/// Handler that an interrupted worker runs.
pub(crate) struct Handler {
    pub(crate) shared: Arc<SchedulerState>,
    pub(crate) slot: usize,
}

impl Serve for Handler {
    fn serve(&self, _worker: &'static Worker, arrival: Arrival) {
        let (point, start) = if self.shared.slots[self.slot].is_parked.load(SeqCst) {
            (Point::Idle, Start::Idle)
        } else {
            match arrival {
                Arrival::Polled => (Point::Safepoint, Start::Polled),
                Arrival::Signalled => (Point::Interrupt, Start::Signalled),
                Arrival::Deferred => (Point::Interrupt, Start::Deferred),
            }
        };
        self.shared.serve(self.slot, point, start);
    }
}

impl SchedulerState {
    /// Runs requests at `point` of the worker `slot`, in the present context.
    pub(crate) fn serve(&self, slot: usize, point: Point, start: Start) -> LeftRequests {
        // Under `wait` a query that is submitted when this one ends stands in the line from now on.
        let line_end = (point == Point::Boundary).then(|| self.next_place.load(SeqCst));
        let mut host = OnWorker { shared: self, slot, point, start, line_end, late_before_ns: 0, from: [slot; 3] };
        let left = entry::serve(&mut host, self.settings.policy, point);
        if is_of_worker(point) {
            self.slots[slot].raising.lower_current();
        }
        if left == LeftRequests::HeldBack {
            self.counters.capped.add_one();
            // A dedicated thread, or a query's next yield point or end, comes back by itself.
            if point == Point::Idle || self.settings.policy == Policy::Preempt {
                self.keeper.wake();
            }
        }
        left
    }

    /// Runs requests at the end of a query on this thread.
    pub(crate) fn boundary(&self) {
        if let Some(slot) = self.current_slot().filter(|_| self.has_queued() && !preempt::in_urgent()) {
            preempt::enter_urgent(&mut || {
                self.serve(slot, Point::Boundary, Start::Boundary);
            });
        }
    }

    /// Runs requests at a point of a query at which it could yield.
    #[inline]
    pub(crate) fn yield_point(&self) {
        if self.settings.policy == Policy::Yield
            && let Some(slot) = self.current_slot()
        {
            let yield_points = &self.slots[slot].yield_points;
            let passed = yield_points.load(Relaxed) + 1;
            if passed < self.settings.yield_interval {
                yield_points.store(passed, Relaxed);
            } else {
                yield_points.store(0, Relaxed);
                if self.has_queued_for(slot) && !preempt::in_urgent() {
                    self.yield_now(slot);
                }
            }
        }
    }

    #[cold]
    fn yield_now(&self, slot: usize) {
        preempt::enter_urgent(&mut || {
            self.serve(slot, Point::YieldPoint, Start::Yielded);
        });
    }

    /// Notes that a worker is about to sleep.
    pub(crate) fn parks(&self, slot: usize, worker: &'static Worker) {
        self.log(Some(slot), Event::Idle { worker: slot as u32, from_ns: os::now_ns() });
        self.slots[slot].is_parked.store(true, SeqCst);
        worker.set_mode(preempt::Mode::Idle);
        // After the mode: see the invariant of `shared`.
        if self.has_queued() {
            preempt::enter_urgent(&mut || {
                self.serve(slot, Point::Idle, Start::Idle);
            });
        }
    }

    /// Notes that a worker is awake.
    pub(crate) fn unparks(&self, slot: usize, worker: &'static Worker) {
        self.slots[slot].is_parked.store(false, SeqCst);
        worker.set_mode(preempt::Mode::Foreign);
        self.log(Some(slot), Event::Busy { worker: slot as u32, from_ns: os::now_ns() });
        // After the mode: a request that was sent to an idle worker and finds a busy one is left to the workers still
        // idle.
        if self.has_queued_for(slot) {
            self.wake_idle_workers();
        }
    }
}

/// Returns true if requests at this point run on the thread of the worker.
fn is_of_worker(point: Point) -> bool {
    match point {
        Point::Interrupt | Point::Safepoint | Point::YieldPoint | Point::Boundary | Point::Idle => true,
        Point::Dedicated | Point::Late => false,
    }
}

/// Index that stands for the global queues, as a source of requests.
const OVERFLOW: usize = usize::MAX;

struct OnWorker<'a> {
    shared: &'a SchedulerState,
    slot: usize,
    point: Point,
    start: Start,
    line_end: Option<u64>,
    /// At the point [`Point::Late`], the time of the last request that is late.
    late_before_ns: u64,
    /// Slot in which the oldest request of each class was seen.
    from: [usize; 3],
}

impl<'a> OnWorker<'a> {
    fn own(&self) -> &WorkerSlot {
        &self.shared.slots[self.slot]
    }

    fn queues(&self, from: usize) -> &'a RequestQueues {
        match from {
            OVERFLOW => &self.shared.overflow,
            slot => &self.shared.slots[slot].queues,
        }
    }

    fn look(&mut self, heads: &mut Heads, from: usize) {
        let queues = self.queues(from);
        for class in Class::ALL {
            let at = class_index(class);
            if let Some(place) = queues.of(class).peek()
                && heads.requests[at].is_none_or(|best| place < best)
            {
                heads.requests[at] = Some(place);
                self.from[at] = from;
            }
        }
    }

    /// Returns the oldest requests that are late, on workers whose queries are owed no time.
    fn late_heads(&mut self) -> Heads {
        let now_ns = os::now_ns();
        let after_ns = self.shared.settings.claim_after_ns.unwrap_or(u64::MAX);
        self.late_before_ns = now_ns.saturating_sub(after_ns);
        let mut heads = Heads::default();
        for from in (0..self.shared.slots.len()).chain([OVERFLOW]) {
            for class in [Class::High, Class::Normal] {
                let at = class_index(class);
                if let Some((place, since_ns)) = self.queues(from).of(class).peek_since()
                    && since_ns <= self.late_before_ns
                    && heads.requests[at].is_none_or(|best| place < best)
                    && !self.is_owed(from, now_ns)
                {
                    heads.requests[at] = Some(place);
                    self.from[at] = from;
                }
            }
        }
        heads
    }

    /// Returns true if the cap keeps urgent work from the queries of a worker.
    fn is_owed(&self, slot: usize, now_ns: u64) -> bool {
        let Some(slot) = self.shared.slots.get(slot) else { return false };
        let has_query = !slot.is_parked.load(SeqCst) || self.shared.low.has_any();
        has_query && no_preempt(|no_preempt| slot.cap.lock(no_preempt).share(now_ns)) == Share::Closed
    }

    /// Returns true if requests that run here take time from a query. They may on an idle worker, too: from a query
    /// that was started meanwhile, whose tasks wait for a worker to come back from here.
    fn holds_up_query(&self) -> bool {
        let is_idle = self.point == Point::Idle || self.own().is_parked.load(Relaxed);
        !is_idle || self.shared.low.has_any()
    }

    fn account(&self, entry: impl FnOnce(&mut Cap), now_ns: u64) {
        let slot = self.own();
        let opens_at_ns = no_preempt(|no_preempt| {
            let mut cap = slot.cap.lock(no_preempt);
            entry(&mut cap);
            cap.opens_at(now_ns)
        });
        slot.opens_at_ns.store(opens_at_ns, Relaxed);
    }

    /// Runs a claimed request, and returns the time span of its run.
    fn run_claimed(&self, request: Arc<Request>, attempt: u32) -> RunSpan {
        let run_ns = os::now_ns();
        request.clock().set(Moment::Dispatch, run_ns);
        if attempt == 1 {
            request.set_first_run_ns(run_ns);
        }
        self.shared.counters.starts[self.start as usize].add_one();
        request.clock().set(Moment::Run, run_ns);
        let cx = RunCx { shared: self.shared, request: &request, worker: self.slot, attempt, start: self.start };
        let outcome = panics::caught(|| request.work().run(&cx));
        let to_ns = os::now_ns();
        match outcome {
            Some(RunOutcome::Again) if request.count_repeat() < self.shared.settings.attempts_max => {
                self.shared.counters.retried.add_one();
                request.release();
                self.put_back(request, to_ns);
            }
            Some(RunOutcome::Parked) => self.park(request, to_ns),
            Some(RunOutcome::Done) => self.end(&request, to_ns, Ended::Done),
            Some(RunOutcome::Again) => self.end(&request, to_ns, Ended::Exhausted),
            None => self.end(&request, to_ns, Ended::Panicked),
        }
        RunSpan { from_ns: run_ns, to_ns }
    }

    /// Queues a request again whose run ended at `to_ns`. A worker looks at its queues once more; the claimer is none.
    fn put_back(&self, request: Arc<Request>, to_ns: u64) {
        match self.point {
            Point::Late => self.shared.return_late(request, self.slot, to_ns),
            Point::Interrupt
            | Point::Safepoint
            | Point::YieldPoint
            | Point::Boundary
            | Point::Idle
            | Point::Dedicated => self.shared.queue_again(request, self.slot, to_ns),
        }
    }

    /// Parks a request whose run ended at `to_ns`: leaves it to its wake-up, or queues it if that came before.
    fn park(&self, request: Arc<Request>, to_ns: u64) {
        self.shared.counters.parks.add_one();
        if !request.park(to_ns) {
            self.shared.counters.resubmits.add_one();
            self.put_back(request, to_ns);
        }
    }

    fn end(&self, request: &Request, to_ns: u64, ended: Ended) {
        request.clock().set(Moment::End, to_ns);
        request.end();
        self.shared.leaves();
        let counters = &self.shared.counters;
        counters.completed.add_one();
        match ended {
            Ended::Done => {}
            Ended::Panicked => counters.panicked.add_one(),
            Ended::Exhausted => counters.exhausted.add_one(),
        }
        let run_delay = self.own().run_delay.get().filter(|_| self.shared.settings.track_run_delay);
        let completed = Completed {
            id: request.id(),
            class: request.class(),
            worker: self.slot as u32,
            stamps: request.clock().stamps(),
            first_run_ns: request.first_run_ns(),
            attempts: request.attempts(),
            parks: request.parks(),
            start: self.start,
            run_delay_ns: run_delay.map(|run_delay| run_delay.read_ns().saturating_sub(request.run_delay_base_ns())),
            ended,
        };
        // The events of a worker come in the order of its time, and this run was beside it.
        let ring = (self.point != Point::Late).then_some(self.slot);
        self.shared.log(ring, Event::Completed(completed));
    }

    /// Moves a request to this worker. The time that its former worker waited for a processor so far, and the time that
    /// this one waits from now on, count.
    fn take_over(&self, request: &Request) {
        let Some(target) = request.target().filter(|&target| target != self.slot) else { return };
        self.shared.counters.stolen.add_one();
        if self.shared.settings.track_run_delay {
            let read = |slot: usize| self.shared.slots[slot].run_delay.get().map_or(0, |run_delay| run_delay.read_ns());
            let waited_ns = read(target).saturating_sub(request.run_delay_base_ns());
            request.set_run_delay_base_ns(read(self.slot).saturating_sub(waited_ns));
        }
        request.set_target(self.slot);
    }
}

impl Host for OnWorker<'_> {
    fn heads(&mut self) -> Heads {
        if self.point == Point::Late {
            return self.late_heads();
        }
        let mut heads = Heads::default();
        self.look(&mut heads, self.slot);
        if !self.shared.overflow.is_empty() {
            self.look(&mut heads, OVERFLOW);
        }
        // A worker that holds up no query, or whose query has ended, takes from the others too.
        if matches!(self.point, Point::Boundary | Point::Idle | Point::Dedicated) {
            for other in 0..self.shared.slots.len() {
                if other != self.slot && !self.shared.slots[other].queues.is_empty() {
                    self.look(&mut heads, other);
                }
            }
        }
        heads.low_job = [self.shared.low.head(), self.line_end].into_iter().flatten().min();
        heads
    }

    fn share(&mut self) -> Share {
        // Late requests are looked at with the cap of their workers.
        if self.point == Point::Late || !self.holds_up_query() {
            return Share::Open;
        }
        no_preempt(|no_preempt| self.own().cap.lock(no_preempt).share(os::now_ns()))
    }

    fn entry_requests_max(&mut self) -> u32 {
        self.shared.settings.cap.entry_requests()
    }

    fn run(&mut self, class: Class) -> Option<RunSpan> {
        let from = self.from[class_index(class)];
        let request = match self.point {
            Point::Late => self.queues(from).of(class).take_since(self.late_before_ns),
            Point::Interrupt
            | Point::Safepoint
            | Point::YieldPoint
            | Point::Boundary
            | Point::Idle
            | Point::Dedicated => self.queues(from).of(class).take(),
        }?;
        let Some(attempt) = request.claim() else {
            self.shared.leaves();
            self.shared.counters.cancelled.add_one();
            return None;
        };
        if self.point == Point::Late {
            // The run is booked on the worker in whose queue the request was.
            self.slot = if from == OVERFLOW { request.target().unwrap_or(self.slot) } else { from };
        }
        self.take_over(&request);
        if class != Class::Low && is_of_worker(self.point) && !self.own().raising.raise_current() {
            self.shared.is_kept_down.store(true, SeqCst);
        }
        Some(self.run_claimed(request, attempt))
    }

    fn charge(&mut self, ran: RunSpan) {
        if self.holds_up_query() {
            self.account(|cap| cap.charge(ran.from_ns, ran.to_ns), ran.to_ns);
        }
    }

    fn rest(&mut self, entry: RunSpan) {
        if self.holds_up_query() {
            self.account(|cap| cap.rest(entry.to_ns, entry.to_ns - entry.from_ns), entry.to_ns);
        }
    }
}
