//! The lives of requests and low jobs.

use crate::support::{Gate, Runtime, count, until};
use sched::{
    Ended, Event, Finish, Policy, Rejected, Request, RequestState, RunCx, RunOutcome, SchedulerSettings, Start,
};
use stage::Class;
use std::sync::atomic::{AtomicU64, Ordering::SeqCst};
use std::sync::{Arc, Mutex};

fn settings(policy: Policy) -> SchedulerSettings {
    SchedulerSettings { policy, ..SchedulerSettings::default() }
}

/// Goal: of 300 requests that interrupt one query each third panics; the others and the query come to their ends.
pub fn a_panic_harms_no_other_request() {
    let runtime = Runtime::new(settings(Policy::Preempt));
    let gate = Gate::new();
    runtime.query_until(&gate, core::hint::spin_loop);
    let ran = Arc::new(AtomicU64::new(0));
    for id in 0..300 {
        let ran = ran.clone();
        let request = runtime.submit(id, Class::High, move |_| {
            assert!(!id.is_multiple_of(3), "a planned panic, with {}", "an allocation");
            ran.fetch_add(1, SeqCst);
            RunOutcome::Done
        });
        until(|| request.state() == RequestState::Done);
    }
    gate.open();
    until(|| runtime.is_idle(0));
    assert_eq!(ran.load(SeqCst), 200);
    let counters = runtime.scheduler.counters();
    assert_eq!((counters.completed, counters.panicked), (300, 100));
    let panicked = runtime.events().into_iter().filter_map(|event| match event {
        Event::Completed(completed) if completed.ended == Ended::Panicked => Some(completed.id),
        _ => None,
    });
    assert!(panicked.eq((0..300).step_by(3)));
    runtime.end();
}

/// Goal: a queued request can be taken back, one that runs or ran cannot.
pub fn a_cancelled_request_never_runs() {
    let runtime = Runtime::new(settings(Policy::Wait));
    let gate = Gate::new();
    runtime.query_until(&gate, core::hint::spin_loop);
    let ran = Arc::new(AtomicU64::new(0));
    let requests: Vec<Arc<Request>> = (0..10).map(|id| runtime.submit(id, Class::High, count(&ran))).collect();
    for request in requests.iter().step_by(2) {
        assert!(request.cancel());
        assert!(!request.cancel());
    }
    gate.open();
    until(|| runtime.scheduler.counters().completed == 5 && runtime.scheduler.queued_requests() == 0);
    assert_eq!(ran.load(SeqCst), 5);
    assert_eq!(runtime.scheduler.counters().cancelled, 5);
    assert!(requests.iter().all(|request| !request.cancel()));
    assert_eq!(requests[1].state(), RequestState::Done);
    runtime.end();
}

/// Goal: an aborted request runs again, from its first submit; a bound ends one that never succeeds.
pub fn a_request_may_ask_to_run_again() {
    let runtime = Runtime::new(SchedulerSettings { attempts_max: 5, ..settings(Policy::Preempt) });
    let third_time = |cx: &RunCx<'_>| if cx.attempt < 3 { RunOutcome::Again } else { RunOutcome::Done };
    let one = runtime.submit(1, Class::High, third_time);
    let never = runtime.submit(2, Class::Normal, |_: &RunCx<'_>| RunOutcome::Again);
    until(|| one.state() == RequestState::Done && never.state() == RequestState::Done);
    assert_eq!((one.attempts(), never.attempts()), (3, 5));
    let stamps = one.clock().stamps();
    assert!(stamps.submit_ns <= stamps.run_ns && stamps.run_ns <= stamps.end_ns, "{stamps:?}");
    let counters = runtime.scheduler.counters();
    assert_eq!((counters.retried, counters.exhausted), (2 + 4, 1));
    runtime.end();
}

/// Goal: low jobs start one after the other on one worker, a waiting one can be taken back, a wide one waits for all.
pub fn low_jobs_start_in_order_and_can_be_taken_back() {
    let runtime = Runtime::new(SchedulerSettings { workers: 2, ..settings(Policy::Boundary) });
    let order = Arc::new(Mutex::new(Vec::new()));
    let gate = Gate::new();
    runtime.query_until(&gate, core::hint::spin_loop);
    let wide = |name: u64| {
        let (order, pool) = (order.clone(), runtime.pool.clone());
        let start = move |finish: Finish| {
            pool.spawn(move || {
                order.lock().unwrap().push(name);
                drop(finish);
            });
        };
        runtime.scheduler.submit_low(Box::new(start), 2).unwrap()
    };
    let first = wide(1);
    let second = wide(2);
    wide(3);
    // A narrow one would fit beside the first, but stands behind the wide ones.
    let narrow = order.clone();
    runtime.query(move || narrow.lock().unwrap().push(4));
    assert_eq!(runtime.scheduler.queued_low_jobs(), 4);
    assert!(runtime.scheduler.cancel_low(second));
    assert!(!runtime.scheduler.cancel_low(second));
    assert!(order.lock().unwrap().is_empty());
    gate.open();
    until(|| order.lock().unwrap().len() == 3);
    assert_eq!(*order.lock().unwrap(), [1, 3, 4]);
    assert!(!runtime.scheduler.cancel_low(first));
    runtime.end();
}

/// Goal: a low job that waits for its client lets the next one in, goes on when it can, and counts again then.
pub fn a_paused_low_job_lets_the_next_one_in() {
    let runtime = Runtime::new(settings(Policy::Boundary));
    let (held, given) = (Arc::new(Mutex::new(Vec::new())), runtime.pool.clone());
    // A job that leaves its worker without ending.
    let leave = |held: &Arc<Mutex<Vec<Finish>>>| {
        let (held, pool) = (held.clone(), given.clone());
        let start = move |finish: Finish| pool.spawn(move || held.lock().unwrap().push(finish));
        runtime.scheduler.submit_low(Box::new(start), 1).unwrap()
    };
    leave(&held);
    until(|| held.lock().unwrap().len() == 1);
    let ran = Arc::new(AtomicU64::new(0));
    let query = || {
        let ran = ran.clone();
        runtime.query(move || {
            ran.fetch_add(1, SeqCst);
        })
    };
    query();
    assert_eq!((runtime.scheduler.queued_low_jobs(), ran.load(SeqCst)), (1, 0));
    held.lock().unwrap().iter_mut().for_each(Finish::pause);
    // The query has ended, and the one that is paused is left.
    until(|| ran.load(SeqCst) == 1 && runtime.scheduler.low_jobs() == 1);
    // Twice counts once.
    held.lock().unwrap().iter_mut().for_each(Finish::pause);
    held.lock().unwrap().iter_mut().for_each(Finish::resume);
    query();
    assert_eq!((runtime.scheduler.queued_low_jobs(), ran.load(SeqCst)), (1, 1));
    held.lock().unwrap().clear();
    until(|| ran.load(SeqCst) == 2);
    // One that ends while it is paused takes nothing from those that run.
    leave(&held);
    until(|| held.lock().unwrap().len() == 1);
    held.lock().unwrap().iter_mut().for_each(Finish::pause);
    let gate = Gate::new();
    runtime.query_until(&gate, core::hint::spin_loop);
    held.lock().unwrap().clear();
    query();
    assert_eq!((runtime.scheduler.queued_low_jobs(), ran.load(SeqCst)), (1, 2));
    gate.open();
    until(|| ran.load(SeqCst) == 3);
    runtime.end();
}

/// Goal: under `wait`, requests behind a wide query run on an idle worker at once when that query is taken back. Method:
/// many rounds; the keeper, who looks around ten times a second, may have helped in some, but not in most.
pub fn what_stood_behind_a_query_that_is_taken_back_runs() {
    const ROUNDS: u64 = 40;
    let runtime = Runtime::new(SchedulerSettings { workers: 2, ..settings(Policy::Wait) });
    let gate = Gate::new();
    runtime.query_until(&gate, core::hint::spin_loop);
    let ran = Arc::new(AtomicU64::new(0));
    let idle = (0..2).find(|&index| runtime.is_idle(index)).and_then(|index| runtime.scheduler.worker(index)).unwrap();
    let mut rounds_of_keeper = 0;
    for round in 0..ROUNDS {
        let signals = idle.counters().signals;
        let wide = runtime.scheduler.submit_low(Box::new(|finish: Finish| finish.finish()), 2).unwrap();
        runtime.submit(round, Class::High, count(&ran));
        // The idle worker has looked, and sleeps again.
        until(|| signals < idle.counters().signals && idle.mode() == preempt::Mode::Idle);
        assert_eq!(ran.load(SeqCst), round, "a request overtook a query under wait");
        let before = runtime.scheduler.counters().redelivered;
        assert!(runtime.scheduler.cancel_low(wide));
        until(|| ran.load(SeqCst) == round + 1);
        rounds_of_keeper += u64::from(before < runtime.scheduler.counters().redelivered);
    }
    assert!(
        rounds_of_keeper < ROUNDS / 2,
        "{rounds_of_keeper} of {ROUNDS} times nobody but the keeper woke the idle worker"
    );
    gate.open();
    runtime.end();
}

/// Goal: shutting down ends the scheduler's threads, cancels what waits, and leaves the workers to their runtime.
pub fn shutdown_cancels_and_turns_away() {
    for policy in Policy::ALL {
        let runtime = Runtime::new(settings(policy));
        let gate = Gate::new();
        runtime.query_until(&gate, core::hint::spin_loop);
        let started = Arc::new(AtomicU64::new(0));
        let started_there = started.clone();
        runtime.query(move || {
            started_there.fetch_add(1, SeqCst);
        });
        // Class low, so that no policy runs it inside the query.
        let waiting = runtime.submit(1, Class::Low, |_: &RunCx<'_>| RunOutcome::Done);
        runtime.scheduler.shutdown();
        assert_eq!(waiting.state(), RequestState::Cancelled, "{policy}");
        let late = Arc::new(Request::new(2, Class::High, Box::new(|_: &RunCx<'_>| RunOutcome::Done)));
        assert_eq!(runtime.scheduler.submit(late.clone()), Err(Rejected::Stopped));
        assert_eq!(late.state(), RequestState::New);
        assert_eq!(runtime.scheduler.submit_low(Box::new(|_: Finish| {}), 1), Err(Rejected::Stopped));
        gate.open();
        until(|| runtime.is_idle(0));
        runtime.end();
        assert_eq!(started.load(SeqCst), 0);
    }
}

/// Goal: the events of a worker tell in order when it was busy, which query ran, and what ran inside it.
pub fn events_tell_the_story() {
    let runtime = Runtime::new(SchedulerSettings { track_run_delay: true, ..settings(Policy::Preempt) });
    runtime.events();
    let gate = Gate::new();
    let query = runtime.query_until(&gate, core::hint::spin_loop);
    let request = runtime.submit(7, Class::High, |_: &RunCx<'_>| RunOutcome::Done);
    until(|| request.state() == RequestState::Done);
    gate.open();
    until(|| runtime.is_idle(0));
    let events = runtime.events();
    let completed = events.iter().find_map(|event| match event {
        Event::Completed(completed) => Some(*completed),
        _ => None,
    });
    let completed = completed.unwrap();
    assert_eq!((completed.id, completed.class, completed.attempts, completed.ended), (7, Class::High, 1, Ended::Done));
    assert!(matches!(completed.start, Start::Signalled | Start::Deferred));
    assert!(completed.run_delay_ns.is_some());
    let at = |wanted: fn(&Event, u64) -> Option<u64>| events.iter().find_map(|event| wanted(event, query)).unwrap();
    let busy = at(|event, _| match event {
        Event::Busy { from_ns, .. } => Some(*from_ns),
        _ => None,
    });
    let ended = at(|event, query| match event {
        Event::QueryEnd { id, worker: Some(0), at_ns } if *id == query => Some(*at_ns),
        _ => None,
    });
    let idle = at(|event, _| match event {
        Event::Idle { from_ns, .. } => Some(*from_ns),
        _ => None,
    });
    let started = at(|event, query| match event {
        Event::QueryStart { id, worker: None, at_ns } if *id == query => Some(*at_ns),
        _ => None,
    });
    let (run, end) = (completed.stamps.run_ns.unwrap(), completed.stamps.end_ns.unwrap());
    assert!([started, busy, run, end, ended, idle].is_sorted(), "{events:?}");
    assert_eq!(runtime.scheduler.counters().events_lost, 0);
    runtime.end();
}
