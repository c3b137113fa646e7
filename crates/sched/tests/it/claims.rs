//! Requests that no worker starts in time.

use crate::support::{Gate, Runtime, count, until};
use sched::{CLAIM_AFTER_NS, CapSettings, Policy, RequestState, RunCx, RunOutcome, SchedulerSettings, Start};
use stage::Class;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::SeqCst};
use std::thread::sleep;
use std::time::Duration;

fn settings(claim_after_ns: Option<u64>) -> SchedulerSettings {
    SchedulerSettings { policy: Policy::Preempt, workers: 1, claim_after_ns, ..SchedulerSettings::default() }
}

/// Runs a query that no interrupt reaches until the gate is open.
fn unreachable_query(runtime: &Runtime, gate: &Arc<Gate>) {
    let inside = gate.clone();
    runtime.query(move || {
        preempt::no_preempt(|_| {
            inside.entered.store(true, SeqCst);
            until(|| inside.open.load(SeqCst));
        });
    });
    until(|| gate.entered.load(SeqCst));
}

/// Goal: requests run although their worker cannot be interrupted, each once, urgent ones only.
pub fn what_is_late_is_claimed() {
    let runtime = Runtime::new(settings(Some(CLAIM_AFTER_NS)));
    let gate = Gate::new();
    unreachable_query(&runtime, &gate);
    let (ran, ran_low) = (Arc::new(AtomicU64::new(0)), Arc::new(AtomicU64::new(0)));
    let low = runtime.submit(1_000, Class::Low, count(&ran_low));
    for id in 0..50 {
        let class = if id % 2 == 0 { Class::High } else { Class::Normal };
        runtime.submit(id, class, count(&ran));
        until(|| ran.load(SeqCst) == id + 1);
    }
    // The claimer sleeps by now, and is woken.
    sleep(Duration::from_millis(200));
    runtime.submit(50, Class::High, count(&ran));
    until(|| runtime.scheduler.counters().completed == 51);
    let counters = runtime.scheduler.counters();
    assert_eq!((counters.started(Start::Claimed), ran.load(SeqCst)), (51, 51), "{counters:?}");
    assert_eq!((low.state(), ran_low.load(SeqCst)), (RequestState::Queued, 0));
    gate.open();
    until(|| ran_low.load(SeqCst) == 1);
    runtime.end();
}

/// Goal: without the setting a request waits for its worker; a claimed request that parks comes back.
pub fn claims_can_be_forbidden_and_may_park() {
    let runtime = Runtime::new(settings(None));
    let gate = Gate::new();
    unreachable_query(&runtime, &gate);
    let ran = Arc::new(AtomicU64::new(0));
    runtime.submit(0, Class::High, count(&ran));
    sleep(Duration::from_millis(20));
    assert_eq!(ran.load(SeqCst), 0);
    gate.open();
    until(|| ran.load(SeqCst) == 1);
    assert_eq!(runtime.scheduler.counters().started(Start::Claimed), 0);
    runtime.end();

    let runtime = Runtime::new(settings(Some(CLAIM_AFTER_NS)));
    let gate = Gate::new();
    unreachable_query(&runtime, &gate);
    let request = runtime.submit(0, Class::High, |cx: &RunCx<'_>| {
        if 1 < cx.attempt {
            return RunOutcome::Done;
        }
        let resubmit = cx.resubmitter();
        std::thread::spawn(move || {
            sleep(Duration::from_millis(1));
            resubmit.resubmit();
        });
        RunOutcome::Parked
    });
    until(|| request.state() == RequestState::Done);
    assert_eq!(runtime.scheduler.counters().started(Start::Claimed), 2);
    gate.open();
    runtime.end();
}

/// Goal: the claimer takes nothing that the starvation cap holds back.
pub fn the_cap_holds_for_claims() {
    const WINDOW_NS: u64 = 20_000_000;
    let cap = CapSettings { low_share_percent: 50, window_ns: WINDOW_NS, entry_requests_max: 1_000 };
    let runtime = Runtime::new(SchedulerSettings { cap, ..settings(Some(CLAIM_AFTER_NS)) });
    let gate = Gate::new();
    unreachable_query(&runtime, &gate);
    let began_ns = preempt::os::now_ns();
    // Together they take 60 ms: three windows of which half is left to the query.
    for id in 0..30 {
        runtime.submit(id, Class::High, |_: &RunCx<'_>| {
            let until_ns = preempt::os::now_ns() + 2_000_000;
            while preempt::os::now_ns() < until_ns {}
            RunOutcome::Done
        });
    }
    until(|| runtime.scheduler.counters().completed == 30);
    let took_ns = preempt::os::now_ns() - began_ns;
    assert_eq!(runtime.scheduler.counters().started(Start::Claimed), 30);
    assert!(4 * WINDOW_NS < took_ns, "30 requests of 2 ms took {took_ns} ns");
    gate.open();
    runtime.end();
}
