//! Model checks of claiming, queueing and parking: each request runs once for each time that it is queued, no worker
//! sleeps beside a queued one, and no wake-up of a parked one is lost or counts twice.
//! `cargo test -p sched --features shuttle --test shuttle`.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use preempt::{AllowedWays, Line, Mode, Sent};
use sched::model::RequestQueue;
use sched::{Request, RequestState, RunCx, RunOutcome};
use shuttle::sync::Arc as ModelArc;
use shuttle::sync::atomic::{AtomicU32, Ordering::SeqCst};
use shuttle::sync::mpsc::{Sender, channel};
use shuttle::thread;
use stage::Class;
use std::sync::Arc;

const SCHEDULES: usize = 10_000;

fn queued(place: u64) -> Arc<Request> {
    let request = Request::new(place, Class::High, Box::new(|_: &RunCx<'_>| RunOutcome::Done));
    assert!(request.enqueue(place));
    Arc::new(request)
}

/// Goal: of those who want to run a request and one who cancels it, exactly one succeeds.
#[test]
fn one_claims_or_one_cancels() {
    shuttle::check_random(
        || {
            let request = queued(0);
            let threads: Vec<_> = (0..4)
                .map(|at| {
                    let request = request.clone();
                    thread::spawn(move || if at == 0 { request.cancel() } else { request.claim().is_some() })
                })
                .collect();
            let won: Vec<bool> = threads.into_iter().map(|thread| thread.join().unwrap()).collect();
            assert_eq!(won.iter().filter(|won| **won).count(), 1);
            assert_eq!(request.state(), if won[0] { RequestState::Cancelled } else { RequestState::Claimed });
        },
        SCHEDULES,
    );
}

/// Goal: what is pushed comes out once, in the order of one producer, while others look and take.
#[test]
fn a_queue_gives_each_request_once() {
    shuttle::check_random(
        || {
            let queue = ModelArc::new(RequestQueue::new(4));
            let pusher = {
                let queue = queue.clone();
                thread::spawn(move || (0..3).for_each(|place| assert!(queue.push(queued(place)).is_ok())))
            };
            let takers: Vec<_> = (0..2)
                .map(|_| {
                    let queue = queue.clone();
                    thread::spawn(move || {
                        let mut taken = Vec::new();
                        for _ in 0..3 {
                            if queue.peek().is_some() {
                                taken.extend(queue.take().map(|request| request.id()));
                            }
                        }
                        taken
                    })
                })
                .collect();
            pusher.join().unwrap();
            let mut all: Vec<u64> = Vec::new();
            for taker in takers {
                let taken = taker.join().unwrap();
                assert!(taken.is_sorted());
                all.extend(taken);
            }
            all.extend(core::iter::from_fn(|| queue.take()).map(|request| request.id()));
            all.sort_unstable();
            assert_eq!(all, [0, 1, 2]);
            assert!(queue.is_empty());
        },
        SCHEDULES,
    );
}

/// Goal: a queue never looks empty while a request is in it, even while another worker moves it to the head.
#[test]
fn a_queue_with_a_request_is_not_empty() {
    shuttle::check_random(
        || {
            let queue = ModelArc::new(RequestQueue::new(4));
            assert!(queue.push(queued(0)).is_ok());
            let looker = {
                let queue = queue.clone();
                thread::spawn(move || queue.peek())
            };
            assert!(!queue.is_empty());
            assert_eq!(looker.join().unwrap(), Some(0));
            assert!(!queue.is_empty());
        },
        SCHEDULES,
    );
}

/// Goal: whatever the order of the end of a run that parks and of its wake-ups, exactly one of them has to queue the
/// request; a wake-up for an earlier run does nothing.
#[test]
fn one_queues_what_parked() {
    shuttle::check_random(
        || {
            let request = queued(0);
            let mut stale = Vec::new();
            for attempt in 1..=2 {
                assert_eq!(request.claim(), Some(attempt));
                let wakers: Vec<_> = (0..2)
                    .map(|_| {
                        let request = request.clone();
                        thread::spawn(move || request.wake(attempt, 0).is_some())
                    })
                    .collect();
                let is_parked = request.park(0);
                let woken = wakers.into_iter().map(|waker| waker.join().unwrap()).filter(|queues| *queues).count();
                stale.extend((attempt == 2).then(|| request.wake(1, 0)));
                assert_eq!(usize::from(!is_parked) + woken, 1);
                assert_eq!(request.state(), RequestState::Queued);
            }
            assert_eq!(stale, [None]);
            assert_eq!((request.attempts(), request.parks()), (2, 2));
        },
        SCHEDULES,
    );
}

/// A worker that parks and unparks as `SchedulerState::parks` does; a signal is a word that it notices between two
/// steps.
struct Model {
    line: Line,
    queue: RequestQueue,
    signal: AtomicU32,
    ran: AtomicU32,
    /// First runs of these requests park, and leave their wake-up here.
    parks: Option<Sender<(Arc<Request>, u32)>>,
}

impl Model {
    fn new(parks: Option<Sender<(Arc<Request>, u32)>>) -> ModelArc<Model> {
        let (signal, ran) = (AtomicU32::new(0), AtomicU32::new(0));
        ModelArc::new(Model { line: Line::new(), queue: RequestQueue::new(8), signal, ran, parks })
    }

    /// Submits as `SchedulerState::submit` does under a policy without preemption: push, then wake if idle.
    fn submit(&self, place: u64) {
        self.push(queued(place));
    }

    /// Runs a request as `OnWorker::run_claimed` does.
    fn run(&self, request: Arc<Request>) {
        let Some(attempt) = request.claim() else { return };
        self.ran.fetch_add(1, SeqCst);
        if let Some(parks) = self.parks.as_ref().filter(|_| attempt == 1) {
            parks.send((request.clone(), attempt)).unwrap();
            if !request.park(0) {
                assert!(self.queue.push(request).is_ok());
            }
        }
    }

    /// Wakes as `Resubmit::resubmit` does.
    fn wake(&self, request: Arc<Request>, attempt: u32) {
        if request.wake(attempt, 0).is_some() {
            self.push(request);
        }
    }

    fn push(&self, request: Arc<Request>) {
        assert!(self.queue.push(request).is_ok());
        if self.line.request(AllowedWays { poll: false, signal: false }) == Sent::Signalled {
            self.signal.store(1, SeqCst);
        }
    }

    /// Runs the urgent context of an idle worker.
    fn serve(&self) {
        let before = self.line.begin_urgent();
        loop {
            self.line.take();
            while self.queue.peek().is_some() {
                if let Some(request) = self.queue.take() {
                    self.run(request);
                }
            }
            if self.line.end_urgent(before) {
                break;
            }
        }
    }

    fn notice_signal(&self, is_parked: bool) {
        if self.signal.swap(0, SeqCst) == 1 {
            self.line.arrived();
            // On a busy worker the policy lets nothing run.
            if is_parked {
                self.serve();
            }
        }
    }

    fn park(&self) {
        self.line.publish(Mode::Idle);
        if !self.queue.is_empty() {
            self.serve();
        }
        self.notice_signal(true);
    }

    fn unpark(&self) {
        self.line.publish(Mode::Foreign);
        self.notice_signal(false);
    }
}

/// Goal: no wake-up is lost. Whatever the interleaving, once all is submitted and the worker sleeps, everything ran.
#[test]
fn a_sleeping_worker_has_nothing_queued() {
    shuttle::check_random(
        || {
            let model = Model::new(None);
            let submitters: Vec<_> = (0..2)
                .map(|at| {
                    let model = model.clone();
                    thread::spawn(move || {
                        model.submit(at);
                        model.submit(at + 10);
                    })
                })
                .collect();
            let worker = {
                let model = model.clone();
                thread::spawn(move || {
                    for _ in 0..2 {
                        model.park();
                        model.unpark();
                    }
                    model.park();
                })
            };
            submitters.into_iter().for_each(|submitter| submitter.join().unwrap());
            worker.join().unwrap();
            // A signal that is on its way arrives in the sleep.
            model.notice_signal(true);
            assert_eq!(model.ran.load(SeqCst), 4);
            assert!(model.queue.is_empty());
        },
        SCHEDULES,
    );
}

/// Goal: a parked request is run again, whatever the interleaving of its run's end, its wake-up and the worker's sleep.
#[test]
fn a_sleeping_worker_leaves_no_woken_request() {
    shuttle::check_random(
        || {
            let (parks, parked) = channel();
            let model = Model::new(Some(parks));
            let granter = {
                let model = model.clone();
                thread::spawn(move || {
                    for _ in 0..2 {
                        let (request, attempt) = parked.recv().unwrap();
                        model.wake(request, attempt);
                    }
                })
            };
            let worker = {
                let model = model.clone();
                thread::spawn(move || {
                    model.park();
                    model.unpark();
                    model.park();
                })
            };
            model.submit(0);
            model.submit(1);
            worker.join().unwrap();
            // Signals arrive in the sleep: that of the submissions, then that of the wake-ups.
            model.notice_signal(true);
            granter.join().unwrap();
            model.notice_signal(true);
            assert_eq!(model.ran.load(SeqCst), 4);
            assert!(model.queue.is_empty());
        },
        SCHEDULES,
    );
}
