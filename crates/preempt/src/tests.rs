//! Unit tests of the parts that need no signal.

use crate::{BoundedQueue, Latch, no_preempt, os};
use std::sync::Arc;

#[test]
fn a_queue_is_first_in_first_out_and_bounded() {
    let queue = BoundedQueue::new(4);
    assert_eq!(queue.capacity(), 4);
    for round in 0..10 {
        for n in 0..4 {
            queue.push((round, n)).unwrap();
        }
        assert_eq!(queue.push((9, 9)), Err((9, 9)));
        assert_eq!(queue.len(), 4);
        for n in 0..4 {
            assert_eq!(queue.pop(), Some((round, n)));
        }
        assert_eq!(queue.pop(), None);
        assert!(queue.is_empty());
    }
}

#[test]
fn a_queue_drops_what_is_left() {
    let value = Arc::new(());
    let queue = BoundedQueue::new(4);
    queue.push(value.clone()).unwrap();
    queue.push(value.clone()).unwrap();
    drop(queue.pop());
    drop(queue);
    assert_eq!(Arc::strong_count(&value), 1);
}

#[test]
fn producers_and_consumers_lose_nothing() {
    let queue = Arc::new(BoundedQueue::new(64));
    let sum = std::thread::scope(|scope| {
        for _ in 0..2 {
            scope.spawn(|| {
                for n in 1..=50_000_u64 {
                    let mut value = n;
                    while let Err(back) = queue.push(value) {
                        value = back;
                        std::thread::yield_now();
                    }
                }
            });
        }
        let consumers: Vec<_> = (0..2)
            .map(|_| {
                scope.spawn(|| {
                    let mut sum = 0;
                    for _ in 0..50_000 {
                        sum += std::iter::repeat_with(|| queue.pop())
                            .inspect(|value| {
                                if value.is_none() {
                                    std::thread::yield_now();
                                }
                            })
                            .flatten()
                            .next()
                            .expect("the iterator is endless");
                    }
                    sum
                })
            })
            .collect();
        consumers.into_iter().map(|consumer| consumer.join().unwrap()).sum::<u64>()
    });
    assert_eq!(sum, 2 * (1..=50_000).sum::<u64>());
}

#[test]
fn a_latch_admits_one_at_a_time() {
    let latch = Latch::new(0_u64);
    std::thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| {
                for _ in 0..20_000 {
                    no_preempt(|witness| *latch.lock(witness) += 1);
                }
            });
        }
    });
    assert_eq!(latch.into_inner(), 80_000);
}

#[test]
fn a_held_latch_cannot_be_tried() {
    let latch = Latch::new(());
    no_preempt(|witness| {
        let held = latch.lock(witness);
        // Twice: a failed try must not free a latch that another holds.
        assert!(latch.try_lock(witness).is_none());
        assert!(latch.try_lock(witness).is_none());
        drop(held);
        assert!(latch.try_lock(witness).is_some());
    });
}

#[test]
fn only_a_thread_of_the_idle_class_gives_way() {
    let gave_way_ns =
        || crate::region::LOCAL.with(|local| local.gave_way_ns.load(core::sync::atomic::Ordering::Relaxed));
    let thread = std::thread::spawn(move || {
        crate::safepoint();
        let before = gave_way_ns();
        os::set_idle().expect("it needs no privilege");
        let region = crate::Region::enter();
        crate::safepoint();
        let within = gave_way_ns();
        drop(region);
        crate::safepoint();
        let first = gave_way_ns();
        crate::safepoint();
        (before, within, first, gave_way_ns())
    });
    let (before, within, first, at_once) = thread.join().expect("it does not panic");
    assert_eq!((before, within), (0, 1), "not an ordinary thread, and not one that may hold a latch");
    assert!(1 < first);
    // Two safepoints in a row are one chance, unless the kernel took the processor between them.
    assert!(at_once == first || first + 300_000 <= at_once);
}
