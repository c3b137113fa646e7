//! Non-preemptible regions.

use crate::support::{Seen, until, with_worker};
use preempt::{Arrival, Delivery, Latch, Poll, Region, Serve, Signal, Worker, no_preempt};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::SeqCst};

/// Goal: an interrupt that lands in a region is remembered, not lost and not served early. The worker is inside a
/// region whenever the test sends, and each request must be served at the region's end: nothing else could serve it.
pub fn an_interrupt_in_a_region_is_served_at_its_end() {
    let seen = Arc::new(Seen::default());
    let inside = AtomicU64::new(0);
    let leave = AtomicU64::new(0);
    let rounds = 500;
    let base = |_stop: &AtomicBool| {
        for round in 1..=rounds {
            let region = Region::enter();
            inside.store(round, SeqCst);
            until(|| leave.load(SeqCst) == round);
            assert_eq!(seen.served.load(SeqCst), round - 1, "served inside a region");
            drop(region);
            assert_eq!(seen.served.load(SeqCst), round, "lost at the end of a region");
        }
    };
    with_worker(seen.clone(), base, |worker| {
        for round in 1..=rounds {
            until(|| inside.load(SeqCst) == round);
            seen.queued.fetch_add(1, SeqCst);
            let landed = worker.counters().landed_in_region;
            Signal.send(worker);
            until(|| worker.counters().landed_in_region > landed);
            leave.store(round, SeqCst);
        }
    });
    assert!(seen.deferred.load(SeqCst) >= rounds);
}

/// Goal: regions nest; a safepoint inside one serves nothing.
pub fn only_the_outermost_end_serves() {
    std::thread::spawn(|| {
        let seen = Arc::new(Seen::default());
        let registration = preempt::register("nested", seen.clone()).unwrap();
        let outer = Region::enter();
        no_preempt(|_| {
            Poll.send(registration.worker());
            preempt::safepoint();
            assert_eq!(seen.calls(), 0);
        });
        assert_eq!(seen.calls(), 0);
        drop(outer);
        assert_eq!(seen.deferred.load(SeqCst), 1);
    })
    .join()
    .unwrap();
}

/// Goal: what a latch protects is never seen half-done by an urgent context of the same thread, nor by another thread,
/// and nobody deadlocks. Method: a pair of numbers that are equal outside the latch.
pub fn a_latch_is_never_met_by_an_urgent_context() {
    struct Check {
        pair: Latch<(u64, u64)>,
        torn: AtomicU64,
    }
    impl Check {
        fn bump(&self) {
            no_preempt(|no_preempt| {
                let mut pair = self.pair.lock(no_preempt);
                if pair.0 != pair.1 {
                    self.torn.fetch_add(1, SeqCst);
                }
                pair.0 += 1;
                std::hint::black_box(&mut *pair);
                pair.1 += 1;
            });
        }
    }
    impl Serve for Check {
        fn serve(&self, _worker: &'static Worker, _arrival: Arrival) {
            self.bump();
        }
    }
    let check = Arc::new(Check { pair: Latch::new((0, 0)), torn: AtomicU64::new(0) });
    let base = |stop: &AtomicBool| {
        while !stop.load(SeqCst) {
            check.bump();
        }
    };
    with_worker(check.clone(), base, |worker| {
        until(|| {
            Signal.send(worker);
            check.bump();
            worker.counters().signals > 2_000
        });
    });
    assert_eq!(check.torn.load(SeqCst), 0);
}
