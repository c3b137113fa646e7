//! Workers that run below other threads, while urgent requests want them.

use crate::support::{Gate, Runtime, until};
use preempt::os::{self, ThreadPriority};
use sched::{Policy, RequestState, RunOutcome, Rungs, SchedulerSettings};
use stage::Class;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::SeqCst};
use std::thread;

fn settings(rungs: Rungs) -> SchedulerSettings {
    SchedulerSettings { policy: Policy::Preempt, rungs, raises_workers: true, ..SchedulerSettings::default() }
}

fn begin_idle() {
    os::set_idle().unwrap();
}

fn begin_nice() {
    os::set_nice(10).unwrap();
}

/// Returns the priority to which a thread of the idle class is raised; `None` if that is not allowed here.
fn allowed() -> Option<ThreadPriority> {
    let raised = ThreadPriority::Ordinary { nice: 0, slice_ns: 0 };
    let tried = thread::spawn(move || {
        begin_idle();
        raised.apply_to_current().is_ok().then_some(raised)
    });
    tried.join().unwrap()
}

fn is_own() -> bool {
    let own = ThreadPriority::of_current().unwrap();
    own == ThreadPriority::Idle { nice: 0 } || own == ThreadPriority::Ordinary { nice: 10, slice_ns: 0 }
}

/// Looks of a query at its priority after which it stays what it is.
const LOOKS: u64 = 1_000;

/// Starts a query that looks at its priority. Returns the number of looks since that was last another than its own.
fn query(runtime: &Runtime, gate: &Arc<Gate>) -> Arc<AtomicU64> {
    let looks = Arc::new(AtomicU64::new(0));
    let looks_there = looks.clone();
    runtime.query_until(gate, move || {
        preempt::safepoint();
        if is_own() {
            looks_there.fetch_add(1, SeqCst);
        } else {
            looks_there.store(0, SeqCst);
        }
    });
    looks
}

/// Goal: a request runs at a high priority on a worker that has a low one, at every kind of arrival, and the query goes
/// on with the low one.
pub fn a_worker_below_others_is_raised_for_requests() {
    for (rungs, is_idle) in [(Rungs::Signal, true), (Rungs::Poll, true), (Rungs::Signal, false)] {
        let begun = if is_idle { begin_idle } else { begin_nice };
        let runtime = Runtime::with_start(settings(rungs), begun);
        let Some(raised) = allowed() else {
            assert_eq!(runtime.scheduler.is_kept_down(), is_idle);
            runtime.end();
            continue;
        };
        assert!(!runtime.scheduler.is_kept_down());
        let gate = Gate::new();
        let looks = query(&runtime, &gate);
        let wrong = Arc::new(AtomicU64::new(0));
        for id in 0..200 {
            let wrong = wrong.clone();
            let request = runtime.submit(id, Class::High, move |_| {
                let is_raised = ThreadPriority::of_current().ok() == Some(raised);
                wrong.fetch_add(u64::from(!is_raised), SeqCst);
                RunOutcome::Done
            });
            until(|| request.state() == RequestState::Done);
        }
        until(|| LOOKS < looks.load(SeqCst));
        gate.open();
        until(|| runtime.is_idle(0));
        assert_eq!(wrong.load(SeqCst), 0, "{rungs}");
        runtime.end();
    }
}

/// Goal: submitters that race leave no worker raised.
pub fn a_worker_is_lowered_again_whoever_submits() {
    let runtime = Arc::new(Runtime::with_start(settings(Rungs::Both), begin_idle));
    for _ in 0..20 {
        let gate = Gate::new();
        let looks = query(&runtime, &gate);
        let submitters: Vec<_> = (0..4)
            .map(|_| {
                let runtime = runtime.clone();
                thread::spawn(move || {
                    for id in 0..200 {
                        let request = runtime.submit(id, Class::High, |_| RunOutcome::Done);
                        if id % 8 == 0 {
                            until(|| request.state() == RequestState::Done);
                        }
                    }
                })
            })
            .collect();
        submitters.into_iter().for_each(|submitter| submitter.join().unwrap());
        until(|| runtime.scheduler.queued_requests() == 0);
        until(|| LOOKS < looks.load(SeqCst));
        gate.open();
        until(|| runtime.is_idle(0));
    }
    Arc::into_inner(runtime).unwrap().end();
}
