//! Points at which each policy lets urgent work run.

use crate::support::{Gate, Runtime, count, until};
use preempt::os;
use sched::{CapSettings, Counters, Policy, Request, RequestState, RunCx, RunOutcome, Rungs, SchedulerSettings, Start};
use stage::Class;
use std::sync::atomic::{AtomicU64, Ordering::SeqCst};
use std::sync::{Arc, Mutex};

fn one_worker(policy: Policy) -> SchedulerSettings {
    SchedulerSettings { policy, workers: 1, ..SchedulerSettings::default() }
}

/// Runs `requests` high requests, one after the other, inside one query that does `step`. All must run before it ends.
fn inside_a_query(settings: SchedulerSettings, requests: u64, step: fn()) -> Runtime {
    let runtime = Runtime::new(settings);
    let gate = Gate::new();
    runtime.query_until(&gate, step);
    let ran = Arc::new(AtomicU64::new(0));
    for id in 0..requests {
        runtime.submit(id, Class::High, count(&ran));
        until(|| ran.load(SeqCst) == id + 1);
    }
    gate.open();
    until(|| runtime.is_idle(0));
    runtime
}

/// Goal: code that never polls is interrupted by a signal, and goes on.
pub fn preempt_by_signal_runs_inside_a_query_without_safepoints() {
    let settings = SchedulerSettings { rungs: Rungs::Signal, ..one_worker(Policy::Preempt) };
    let runtime = inside_a_query(settings, 200, core::hint::spin_loop);
    let counters = runtime.scheduler.counters();
    assert_eq!(counters.started(Start::Polled), 0);
    assert_eq!(counters.started(Start::Signalled) + counters.started(Start::Deferred), 200);
    runtime.end();
}

/// Asserts that all of `requests` were begun inside the query at safepoints; in a storm its signals may come first.
fn assert_polled(counters: &Counters, requests: u64) {
    let interrupted = counters.started(Start::Signalled) + counters.started(Start::Deferred);
    assert_eq!(counters.started(Start::Polled) + interrupted, requests, "{counters:?}");
    let is_storm = preempt::Worker::current().is_some();
    assert!(is_storm || interrupted == 0, "{counters:?}");
    assert!(0 < counters.started(Start::Polled), "{counters:?}");
}

/// Goal: with polling only, safepoints serve.
pub fn preempt_by_poll_runs_at_safepoints() {
    let settings = SchedulerSettings { rungs: Rungs::Poll, ..one_worker(Policy::Preempt) };
    let runtime = inside_a_query(settings, 2_000, preempt::safepoint);
    assert_polled(&runtime.scheduler.counters(), 2_000);
    runtime.end();
}

/// Goal: with both rungs, dense code is polled and foreign code is signalled.
pub fn preempt_by_both_rungs() {
    // Dense from its first to its last step, so that no request meets it in between.
    let settings = one_worker(Policy::Preempt);
    let runtime = Runtime::new(settings.clone());
    let gate = Gate::new();
    let (inside, ended) = (gate.clone(), Arc::new(AtomicU64::new(0)));
    let ended_there = ended.clone();
    runtime.query(move || {
        let _dense = preempt::Dense::enter();
        inside.entered.store(true, SeqCst);
        while !inside.open.load(SeqCst) {
            preempt::safepoint();
        }
        ended_there.store(1, SeqCst);
    });
    until(|| gate.entered.load(SeqCst));
    let ran = Arc::new(AtomicU64::new(0));
    for id in 0..2_000 {
        runtime.submit(id, Class::High, count(&ran));
        until(|| ran.load(SeqCst) == id + 1);
    }
    gate.open();
    until(|| ended.load(SeqCst) == 1);
    until(|| runtime.scheduler.counters().completed == 2_000);
    assert_polled(&runtime.scheduler.counters(), 2_000);
    runtime.end();
    let runtime = inside_a_query(settings, 200, core::hint::spin_loop);
    let counters = runtime.scheduler.counters();
    assert_eq!(counters.started(Start::Signalled) + counters.started(Start::Deferred), 200, "{counters:?}");
    runtime.end();
}

type Order = Arc<Mutex<Vec<u64>>>;

/// Notes the order in which requests ran. A lock is all right here, because no base context holds it when they may run.
fn note(order: &Order, id: u64) -> impl Fn(&RunCx<'_>) -> RunOutcome + Send + Sync + 'static {
    let order = order.clone();
    move |_| {
        order.lock().unwrap().push(id);
        RunOutcome::Done
    }
}

/// Submits low, normal, high behind a running query and returns the order in which they ran after it.
fn order_behind_a_query(policy: Policy) -> Vec<u64> {
    let runtime = Runtime::new(one_worker(policy));
    let gate = Gate::new();
    let order = Order::default();
    runtime.query_until(&gate, core::hint::spin_loop);
    for (id, class) in [Class::Low, Class::Normal, Class::High].into_iter().enumerate() {
        runtime.submit(id as u64, class, note(&order, id as u64));
    }
    assert_eq!(runtime.scheduler.queued_requests(), 3);
    assert!(order.lock().unwrap().is_empty(), "nothing runs before the query ends");
    gate.open();
    until(|| runtime.scheduler.counters().completed == 3);
    assert_eq!(runtime.scheduler.counters().started(Start::Boundary), 3);
    runtime.end();
    let order = order.lock().unwrap();
    order.clone()
}

/// Goal: `wait` is first in, first out, whatever the class.
pub fn wait_runs_after_the_query_in_the_order_of_submission() {
    assert_eq!(order_behind_a_query(Policy::Wait), [0, 1, 2]);
}

/// Goal: `boundary` waits as long, but goes by class then.
pub fn boundary_runs_after_the_query_by_class() {
    assert_eq!(order_behind_a_query(Policy::Boundary), [2, 1, 0]);
}

/// Goal: queries stand in the same line. Method: request, query, request behind a running query; under `wait` the second
/// request runs after the second query, under `boundary` before it.
pub fn wait_keeps_a_later_query_ahead_of_later_requests() {
    for (policy, expected) in [(Policy::Wait, [1, 100, 2]), (Policy::Boundary, [1, 2, 100])] {
        let runtime = Runtime::new(one_worker(policy));
        let gate = Gate::new();
        let order = Order::default();
        runtime.query_until(&gate, core::hint::spin_loop);
        runtime.submit(1, Class::High, note(&order, 1));
        let of_query = order.clone();
        runtime.query(move || of_query.lock().unwrap().push(100));
        runtime.submit(2, Class::High, note(&order, 2));
        assert_eq!(runtime.scheduler.queued_low_jobs(), 1);
        gate.open();
        until(|| order.lock().unwrap().len() == 3);
        assert_eq!(*order.lock().unwrap(), expected, "{policy}");
        runtime.end();
    }
}

/// Goal: `yield` runs urgent work at each fourth yield point if the interval is 4, and nowhere else.
pub fn yield_runs_at_the_point_that_is_due() {
    let runtime = Runtime::new(SchedulerSettings { yield_interval: 4, ..one_worker(Policy::Yield) });
    let ran = Arc::new(AtomicU64::new(0));
    let (scheduler, seen) = (runtime.scheduler.clone(), ran.clone());
    let steps = Arc::new(Mutex::new(Vec::new()));
    let steps_there = steps.clone();
    let gate = Gate::new();
    let gate_there = gate.clone();
    runtime.query(move || {
        gate_there.entered.store(true, SeqCst);
        while !gate_there.open.load(SeqCst) {
            core::hint::spin_loop();
        }
        for _ in 0..8 {
            preempt::safepoint();
            scheduler.yield_point();
            steps_there.lock().unwrap().push(seen.load(SeqCst));
        }
    });
    until(|| gate.entered.load(SeqCst));
    runtime.submit(1, Class::High, count(&ran));
    assert_eq!(ran.load(SeqCst), 0);
    gate.open();
    until(|| runtime.is_idle(0));
    assert_eq!(*steps.lock().unwrap(), [0, 0, 0, 1, 1, 1, 1, 1]);
    assert_eq!(runtime.scheduler.counters().started(Start::Yielded), 1);
    runtime.end();
}

/// Goal: under `thread` the dedicated thread runs urgent work while the worker's query goes on.
pub fn thread_runs_beside_the_query() {
    let runtime = inside_a_query(
        SchedulerSettings { cap: CapSettings::OFF, ..one_worker(Policy::Thread) },
        200,
        core::hint::spin_loop,
    );
    assert_eq!(runtime.scheduler.counters().started(Start::Dedicated), 200);
    runtime.end();
}

/// Goal: a low request waits for the end of the query under every policy.
pub fn low_requests_interrupt_no_query() {
    for policy in Policy::ALL {
        let runtime = Runtime::new(one_worker(policy));
        let gate = Gate::new();
        let ran = Arc::new(AtomicU64::new(0));
        let scheduler = runtime.scheduler.clone();
        runtime.query_until(&gate, move || {
            preempt::safepoint();
            scheduler.yield_point();
        });
        let request = runtime.submit(1, Class::Low, count(&ran));
        let after = runtime.submit(2, Class::High, count(&ran));
        // The high one shows that the worker had its points meanwhile.
        if !matches!(policy, Policy::Wait | Policy::Boundary) {
            until(|| after.state() == sched::RequestState::Done);
        }
        assert_eq!(request.state(), sched::RequestState::Queued, "{policy}");
        gate.open();
        until(|| ran.load(SeqCst) == 2);
        runtime.end();
    }
}

/// Goal: a worker without a query runs a request at once under every policy but `thread`, where the other thread does.
pub fn idle_workers_run_at_once() {
    for policy in Policy::ALL {
        let runtime = Runtime::new(one_worker(policy));
        let ran = Arc::new(AtomicU64::new(0));
        for id in 0..500 {
            runtime.submit(id, Class::High, count(&ran));
            until(|| ran.load(SeqCst) == id + 1);
        }
        let start = if policy == Policy::Thread { Start::Dedicated } else { Start::Idle };
        until(|| runtime.scheduler.counters().completed == 500);
        assert_eq!(runtime.scheduler.counters().started(start), 500, "{policy}");
        runtime.end();
    }
}

/// Goal: a request that a busy worker has under `wait` is run by the worker that gets idle first.
pub fn an_idle_worker_takes_what_a_busy_one_has() {
    let runtime = Runtime::new(SchedulerSettings { workers: 2, ..one_worker(Policy::Wait) });
    let (first, second) = (Gate::new(), Gate::new());
    runtime.query_until(&first, core::hint::spin_loop);
    runtime.query_until(&second, core::hint::spin_loop);
    let ran = Arc::new(AtomicU64::new(0));
    for id in 0..10 {
        runtime.submit(id, Class::High, count(&ran));
    }
    assert_eq!(ran.load(SeqCst), 0);
    second.open();
    until(|| ran.load(SeqCst) == 10);
    assert!(0 < runtime.scheduler.counters().stolen);
    first.open();
    runtime.end();
}

/// Goal: a thread interrupts a busy worker on another processor, never one on its own, nor one that sleeps.
pub fn an_interruptible_worker_runs_elsewhere() {
    let [first, second, ..] = os::cpus()[..] else {
        println!("SKIPPED: nobody runs elsewhere on one processor");
        return;
    };
    let settings = SchedulerSettings { workers: 2, cpus: vec![first, second], ..one_worker(Policy::Preempt) };
    let runtime = Runtime::new(settings);
    assert_eq!(runtime.scheduler.interruptible(), None, "no worker is busy");
    let gates = [Gate::new(), Gate::new()];
    for gate in &gates {
        runtime.query_until(gate, preempt::safepoint);
    }
    for (here, there, worker) in [(first, second, 1), (second, first, 0)] {
        os::pin_to_cpu(here).unwrap();
        for id in 0..50 {
            // The other worker is never returned, whoever has the processors now.
            until(|| {
                let found = runtime.scheduler.interruptible();
                assert!(found.is_none() || found == Some(worker), "{found:?} of a thread on {here}");
                found.is_some()
            });
            let ran_on = Arc::new(AtomicU64::new(u64::MAX));
            let ran_there = ran_on.clone();
            let work = move |_: &RunCx<'_>| {
                ran_there.store(os::current_cpu().unwrap() as u64, SeqCst);
                RunOutcome::Done
            };
            let request = Arc::new(Request::new(id, Class::High, Box::new(work)));
            runtime.scheduler.submit_to(worker, request.clone()).unwrap();
            until(|| request.state() == RequestState::Done);
            assert_eq!(ran_on.load(SeqCst), there as u64);
        }
    }
    gates.iter().for_each(|gate| gate.open());
    until(|| runtime.is_idle(0) && runtime.is_idle(1));
    runtime.end();
}
