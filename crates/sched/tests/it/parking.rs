//! Requests that park and come back.

use crate::support::{Gate, Runtime, count, until};
use sched::{Ended, Event, Policy, Rejected, Request, RequestState, Resubmit, RunCx, RunOutcome, SchedulerSettings};
use stage::Class;
use std::collections::VecDeque;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::SeqCst};
use std::sync::{Arc, OnceLock};

fn settings(policy: Policy) -> SchedulerSettings {
    SchedulerSettings { policy, ..SchedulerSettings::default() }
}

/// Place where a parked run leaves its wake-up. Work may run in an urgent context, so no lock.
type Left = Arc<OnceLock<Resubmit>>;

/// Parks in its first run and ends in its second.
fn parks_once(left: &Left) -> impl Fn(&RunCx<'_>) -> RunOutcome + Send + Sync + 'static {
    let left = left.clone();
    move |cx| {
        if cx.attempt == 1 {
            assert!(left.set(cx.resubmitter()).is_ok());
            RunOutcome::Parked
        } else {
            RunOutcome::Done
        }
    }
}

/// Goal: what a run waits for may be there before the run has ended; the wake-up is not lost. Method: the work uses its
/// own wake-up before it parks, under every policy, in an urgent context of an idle worker.
pub fn a_wake_up_before_the_end_of_the_run_counts() {
    for policy in Policy::ALL {
        let runtime = Runtime::new(settings(policy));
        let requests: Vec<Arc<Request>> = (0..200)
            .map(|id| {
                runtime.submit(id, Class::High, |cx: &RunCx<'_>| {
                    if cx.attempt == 1 {
                        cx.resubmitter().resubmit();
                        RunOutcome::Parked
                    } else {
                        RunOutcome::Done
                    }
                })
            })
            .collect();
        let first_runs = || requests.iter().all(|request| 1 <= request.attempts());
        until(|| first_runs() && runtime.scheduler.queued_requests() == 0);
        until(|| {
            requests.iter().all(|request| !matches!(request.state(), RequestState::Claimed | RequestState::Woken))
        });
        assert!(requests.iter().all(|request| request.state() == RequestState::Done), "{policy}: a wake-up was lost");
        assert!(requests.iter().all(|request| (request.attempts(), request.parks()) == (2, 1)), "{policy}");
        let counters = runtime.scheduler.counters();
        assert_eq!((counters.parks, counters.resubmits, counters.completed), (200, 200, 200), "{policy}");
        runtime.end();
    }
}

/// Goal: under every policy a parked request holds no worker, comes back when an ordinary thread or another request wakes
/// it, and its clock counts the time in between as lock wait.
pub fn a_parked_request_comes_back_under_every_policy() {
    for policy in Policy::ALL {
        for class in Class::ALL {
            let runtime = Runtime::new(settings(policy));
            let [by_thread, by_request] = [Left::default(), Left::default()];
            let first = runtime.submit(1, class, parks_once(&by_thread));
            let second = runtime.submit(2, class, parks_once(&by_request));
            until(|| [&first, &second].iter().all(|request| request.state() == RequestState::Parked));
            // The worker is free meanwhile.
            let ran = Arc::new(AtomicU64::new(0));
            runtime.submit(3, class, count(&ran));
            until(|| ran.load(SeqCst) == 1);
            let slept_ns = preempt::os::now_ns();
            until(|| slept_ns + 2_000_000 <= preempt::os::now_ns());
            by_thread.get().unwrap().resubmit();
            let wakes = by_request.get().unwrap().clone();
            runtime.submit(4, class, move |_| {
                wakes.resubmit();
                RunOutcome::Done
            });
            until(|| runtime.scheduler.counters().completed == 4);
            for request in [&first, &second] {
                assert_eq!((request.state(), request.attempts(), request.parks()), (RequestState::Done, 2, 1));
                let stamps = request.clock().stamps();
                assert!(2_000_000 <= stamps.lock_wait_ns, "{policy} {class}: {stamps:?}");
                assert!(stamps.lock_wait_ns <= stamps.end_ns.unwrap() - stamps.submit_ns.unwrap(), "{stamps:?}");
            }
            let parked = runtime.events().into_iter().filter_map(|event| match event {
                Event::Completed(completed) if completed.ended == Ended::Done => Some((completed.id, completed.parks)),
                _ => None,
            });
            let mut parked: Vec<(u64, u32)> = parked.collect();
            parked.sort_unstable();
            assert_eq!(parked, [(1, 1), (2, 1), (3, 0), (4, 0)]);
            runtime.end();
        }
    }
}

/// Goal: waking twice runs once; a wake-up of a run that did not park, or of an earlier one, does nothing.
pub fn a_wake_up_counts_once_and_only_for_its_run() {
    let runtime = Runtime::new(settings(Policy::Preempt));
    let lefts: Arc<Vec<OnceLock<Resubmit>>> = Arc::new((0..3).map(|_| OnceLock::new()).collect());
    let there = lefts.clone();
    let request = runtime.submit(1, Class::High, move |cx| {
        assert!(there[cx.attempt as usize - 1].set(cx.resubmitter()).is_ok());
        if cx.attempt < 3 { RunOutcome::Parked } else { RunOutcome::Done }
    });
    let parked_in = |attempt| until(|| (request.state(), request.attempts()) == (RequestState::Parked, attempt));
    parked_in(1);
    let first = lefts[0].get().unwrap();
    (0..10).for_each(|_| first.resubmit());
    parked_in(2);
    (0..10).for_each(|_| first.resubmit());
    assert_eq!((request.state(), request.attempts()), (RequestState::Parked, 2), "an old wake-up woke another run");
    lefts[1].get().unwrap().resubmit();
    until(|| request.state() == RequestState::Done);
    lefts.iter().for_each(|left| left.get().unwrap().resubmit());
    assert_eq!((request.state(), request.attempts()), (RequestState::Done, 3));
    let counters = runtime.scheduler.counters();
    assert_eq!((counters.parks, counters.resubmits, counters.completed, counters.retried), (2, 2, 1, 0));
    runtime.end();
}

/// Goal: a request may park more often than it may ask to run again.
pub fn what_is_parked_does_not_use_up_attempts() {
    let runtime = Runtime::new(SchedulerSettings { attempts_max: 3, ..settings(Policy::Preempt) });
    let request = runtime.submit(1, Class::High, |cx: &RunCx<'_>| match cx.attempt {
        1..=100 => {
            cx.resubmitter().resubmit();
            RunOutcome::Parked
        }
        101 | 102 => RunOutcome::Again,
        _ => RunOutcome::Done,
    });
    until(|| request.state() == RequestState::Done);
    assert_eq!((request.attempts(), request.parks()), (103, 100));
    let counters = runtime.scheduler.counters();
    assert_eq!((counters.exhausted, counters.retried), (0, 2));
    runtime.end();
}

/// Goal: requests that come back when every queue is full are all run. Method: a busy worker with tiny queues under
/// `boundary`; 40 requests park before, others fill the queues, and all 40 are woken.
pub fn a_full_scheduler_takes_parked_requests_back() {
    let runtime = Runtime::new(SchedulerSettings { queue_requests: 2, requests_max: 60, ..settings(Policy::Boundary) });
    let lefts: Vec<Left> = (0..40).map(|_| Left::default()).collect();
    let parked: Vec<Arc<Request>> = lefts
        .iter()
        .enumerate()
        .map(|(id, left)| {
            let request = runtime.submit(id as u64, Class::ALL[id % 3], parks_once(left));
            until(|| request.state() == RequestState::Parked);
            request
        })
        .collect();
    let gate = Gate::new();
    runtime.query_until(&gate, core::hint::spin_loop);
    let ran = Arc::new(AtomicU64::new(0));
    let mut filled = 0;
    for class in Class::ALL {
        for id in 100.. {
            let request = Arc::new(Request::new(id, class, Box::new(count(&ran))));
            if runtime.scheduler.submit(request).is_err() {
                break;
            }
            filled += 1;
        }
    }
    lefts.iter().for_each(|left| left.get().unwrap().resubmit());
    assert_eq!(runtime.scheduler.queued_requests() as u64, filled + 40);
    gate.open();
    until(|| runtime.scheduler.counters().completed == filled + 40);
    assert!(parked.iter().all(|request| request.state() == RequestState::Done));
    assert_eq!(ran.load(SeqCst), filled);
    runtime.end();
}

/// Goal: a parked request is under way: where there is room for two, a third is refused until one of them has ended. So none
/// is ever asked to look again and again whether it may go on.
pub fn parked_requests_count_as_under_way() {
    let runtime = Runtime::new(SchedulerSettings { requests_max: 2, ..settings(Policy::Preempt) });
    let lefts = [(); 2].map(|()| Left::default());
    let parked = [0, 1].map(|at| runtime.submit(at as u64, Class::High, parks_once(&lefts[at])));
    until(|| parked.iter().all(|request| request.state() == RequestState::Parked));
    let third = Arc::new(Request::new(2, Class::High, Box::new(|_: &RunCx<'_>| RunOutcome::Done)));
    assert_eq!(runtime.scheduler.submit(third.clone()), Err(Rejected::Full));
    assert_eq!((third.state(), runtime.scheduler.counters().rejected), (RequestState::New, 1));
    lefts[0].get().unwrap().resubmit();
    until(|| parked[0].state() == RequestState::Done);
    // Its end is told before its place is free.
    until(|| runtime.scheduler.submit(third.clone()).is_ok());
    until(|| third.state() == RequestState::Done);
    assert_eq!((parked[1].state(), parked[1].attempts()), (RequestState::Parked, 1));
    lefts[1].get().unwrap().resubmit();
    until(|| parked[1].state() == RequestState::Done);
    runtime.end();
}

/// Goal: a parked request is not taken back, and after a shutdown its wake-up cancels it.
pub fn a_parked_request_is_not_taken_back() {
    for policy in Policy::ALL {
        let runtime = Runtime::new(settings(policy));
        let left = Left::default();
        let request = runtime.submit(1, Class::High, parks_once(&left));
        until(|| request.state() == RequestState::Parked);
        assert!(!request.cancel());
        runtime.scheduler.shutdown();
        assert_eq!(request.state(), RequestState::Parked);
        left.get().unwrap().resubmit();
        assert_eq!((request.state(), request.attempts()), (RequestState::Cancelled, 1), "{policy}");
        runtime.end();
    }
}

/// A lock whose waiters stand in a line, as the engine's sessions do: allowed in urgent contexts.
struct Lock {
    state: preempt::Latch<(bool, VecDeque<Resubmit>)>,
}

impl Lock {
    /// Takes it, or leaves the wake-up of this run with it.
    fn take(&self, cx: &RunCx<'_>) -> bool {
        preempt::no_preempt(|no_preempt| {
            let mut state = self.state.lock(no_preempt);
            let is_free = !state.0;
            if is_free {
                state.0 = true;
            } else {
                state.1.push_back(cx.resubmitter());
            }
            is_free
        })
    }

    /// Gives it up, and wakes the next, outside of the latch.
    fn release(&self) {
        let next = preempt::no_preempt(|no_preempt| {
            let mut state = self.state.lock(no_preempt);
            state.0 = false;
            state.1.pop_front()
        });
        if let Some(next) = next {
            next.resubmit();
        }
    }
}

/// Goal: no wake-up is lost and nothing runs twice when many requests of all classes contend for one lock on three
/// workers, beside queries, under every policy. Method: each takes the lock or parks; whoever has it wakes the next.
pub fn many_sessions_take_turns_at_one_lock() {
    const REQUESTS: u64 = 1_500;
    for policy in Policy::ALL {
        let runtime = Runtime::new(SchedulerSettings { workers: 3, queue_requests: 64, ..settings(policy) });
        let lock = Arc::new(Lock { state: preempt::Latch::new((false, VecDeque::new())) });
        let [inside, ended] = [(); 2].map(|()| Arc::new(AtomicU64::new(0)));
        let is_over = Arc::new(AtomicBool::new(false));
        std::thread::scope(|scope| {
            let feeder = scope.spawn(|| {
                while !is_over.load(SeqCst) {
                    runtime.query(|| (0..20).for_each(|_| preempt::safepoint()));
                    until(|| runtime.scheduler.queued_low_jobs() < 4);
                }
            });
            for id in 0..REQUESTS {
                let (lock, inside, ended_there) = (lock.clone(), inside.clone(), ended.clone());
                runtime.submit(id, Class::ALL[(id % 3) as usize], move |cx| {
                    if !lock.take(cx) {
                        return RunOutcome::Parked;
                    }
                    assert_eq!(inside.fetch_add(1, SeqCst), 0, "two have the lock");
                    (0..50).for_each(|_| core::hint::spin_loop());
                    inside.fetch_sub(1, SeqCst);
                    lock.release();
                    ended_there.fetch_add(1, SeqCst);
                    RunOutcome::Done
                });
                until(|| id < ended.load(SeqCst) + 500);
            }
            until(|| runtime.scheduler.counters().completed == REQUESTS);
            is_over.store(true, SeqCst);
            feeder.join().unwrap();
        });
        let counters = runtime.scheduler.counters();
        assert_eq!((ended.load(SeqCst), counters.panicked), (REQUESTS, 0), "{policy}");
        assert_eq!(counters.parks, counters.resubmits, "{policy}");
        println!("{policy}: {counters:?}");
        runtime.end();
    }
}
