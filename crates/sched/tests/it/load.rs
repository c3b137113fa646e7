//! Load of many requests at once.

use crate::support::{Gate, Runtime, until};
use sched::{CapSettings, Policy, Rejected, Request, RunCx, RunOutcome, SchedulerSettings};
use stage::Class;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering::SeqCst};

const SUBMITTERS: u64 = 2;
const EACH: u64 = 3_000;

/// Goal: under every policy each request runs exactly once, whatever is full, stolen or asked for again; queries come and
/// go meanwhile. Method: two submitters, three workers, queues of 8, 40 requests under way.
pub fn everything_runs_exactly_once() {
    // With claims that are due at once, too.
    let ways = Policy::ALL.into_iter().map(|policy| (policy, None)).chain([(Policy::Preempt, Some(1))]);
    for (policy, claim_after_ns) in ways {
        let runtime = Runtime::new(SchedulerSettings {
            policy,
            claim_after_ns,
            workers: 3,
            queue_requests: 8,
            requests_max: 40,
            ..SchedulerSettings::default()
        });
        let runs: Arc<Vec<AtomicU32>> = Arc::new((0..SUBMITTERS * EACH).map(|_| AtomicU32::new(0)).collect());
        let is_over = Arc::new(AtomicBool::new(false));
        let queries = Arc::new(AtomicU64::new(0));
        std::thread::scope(|scope| {
            let submitters: Vec<_> = (0..SUBMITTERS)
                .map(|submitter| {
                    let (runtime, runs) = (&runtime, &runs);
                    scope.spawn(move || {
                        for n in 0..EACH {
                            let id = submitter * EACH + n;
                            let class = Class::ALL[(n % 3) as usize];
                            let runs = runs.clone();
                            let work = move |_: &RunCx<'_>| {
                                runs[id as usize].fetch_add(1, SeqCst);
                                RunOutcome::Done
                            };
                            submit_at_last(runtime, &Arc::new(Request::new(id, class, Box::new(work))));
                        }
                    })
                })
                .collect();
            let feeder = scope.spawn(|| {
                loop {
                    let queries_there = queries.clone();
                    runtime.query(move || {
                        (0..2_000).for_each(|_| core::hint::spin_loop());
                        queries_there.fetch_add(1, SeqCst);
                    });
                    until(|| runtime.scheduler.queued_low_jobs() < 4);
                    if is_over.load(SeqCst) {
                        break;
                    }
                }
            });
            for submitter in submitters {
                submitter.join().unwrap();
            }
            until(|| runtime.scheduler.counters().completed == SUBMITTERS * EACH);
            is_over.store(true, SeqCst);
            feeder.join().unwrap();
        });
        until(|| runtime.scheduler.queued_low_jobs() == 0 && 0 < queries.load(SeqCst));
        assert!(runs.iter().all(|runs| runs.load(SeqCst) == 1), "{policy}");
        let counters = runtime.scheduler.counters();
        assert_eq!(counters.queued, SUBMITTERS * EACH, "{policy}");
        assert_eq!(counters.starts.iter().sum::<u64>(), SUBMITTERS * EACH, "{policy}");
        println!("{policy}: {counters:?}");
        runtime.end();
    }
}

fn submit_at_last(runtime: &Runtime, request: &Arc<Request>) {
    loop {
        match runtime.scheduler.submit(request.clone()) {
            Ok(()) => return,
            Err(Rejected::Full) => std::thread::yield_now(),
            Err(other) => panic!("{other}"),
        }
    }
}

/// Goal: a flood of urgent work leaves a query half of its worker's time if the cap says so, and is served to its end.
/// Method: 5,000 requests of at least 20 us each are queued at once; they must take twice their time.
pub fn the_cap_leaves_queries_their_share() {
    const WINDOW_NS: u64 = 5_000_000;
    const REQUESTS: u64 = 5_000;
    const REQUEST_NS: u64 = 20_000;
    let cap = CapSettings { low_share_percent: 50, window_ns: WINDOW_NS, entry_requests_max: 16 };
    let settings = SchedulerSettings {
        policy: Policy::Preempt,
        cap,
        queue_requests: REQUESTS as usize,
        ..SchedulerSettings::default()
    };
    let runtime = Runtime::new(settings);
    let gate = Gate::new();
    runtime.query_until(&gate, core::hint::spin_loop);
    let began = preempt::os::now_ns();
    for id in 0..REQUESTS {
        runtime.submit(id, Class::High, |_: &RunCx<'_>| {
            let until_ns = preempt::os::now_ns() + REQUEST_NS;
            while preempt::os::now_ns() < until_ns {}
            RunOutcome::Done
        });
    }
    until(|| runtime.scheduler.counters().completed == REQUESTS);
    let elapsed = preempt::os::now_ns() - began;
    gate.open();
    let counters = runtime.scheduler.counters();
    println!("{elapsed} ns, {counters:?}");
    let urgent = REQUESTS * REQUEST_NS;
    assert!(urgent <= elapsed / 2 + 3 * WINDOW_NS, "urgent work took {urgent} of {elapsed} ns");
    assert!(0 < counters.capped);
    assert!(0 < counters.redelivered);
    runtime.end();
}
