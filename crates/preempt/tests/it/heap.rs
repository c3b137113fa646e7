//! The guarded allocator.

use crate::support::{until, with_worker};
use preempt::{Arrival, Delivery, Serve, Signal, Worker};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::SeqCst};

/// Goal: the self-test passes in a guarded process; `allocator_guard_off` turns it red.
pub fn the_guard_covers_the_process() {
    preempt::self_test().expect("this process allocates through the guard");
}

struct UseTheHeap;

impl Serve for UseTheHeap {
    fn serve(&self, _worker: &'static Worker, _arrival: Arrival) {
        churn(7, 20);
    }
}

fn churn(seed: usize, rounds: usize) {
    let mut blocks: Vec<Vec<u8>> = Vec::new();
    for round in 0..rounds {
        let bytes = 8 << ((seed + round * 5) % 11);
        let fill = (seed + round) as u8;
        blocks.push(vec![fill; bytes]);
        if round % 3 == 2 {
            let block = blocks.swap_remove(round % blocks.len());
            assert!(block.iter().all(|byte| *byte == block[0]), "a block changed under its owner");
        }
    }
}

/// Goal: interrupts inside the allocator do no harm. Method: both contexts fill and check blocks of the same sizes,
/// under 3,000 signals.
pub fn the_heap_survives_interrupts_inside_it() {
    let base = |stop: &AtomicBool| {
        let mut seed = 0;
        while !stop.load(SeqCst) {
            seed += 1;
            churn(seed, 50);
        }
    };
    with_worker(Arc::new(UseTheHeap), base, |worker| {
        until(|| {
            Signal.send(worker);
            worker.counters().signals > 3_000
        });
        assert!(worker.counters().landed_in_region > 0, "no interrupt met the allocator");
    });
}

/// Goal: growing across the borders between the allocator and the kernel keeps the contents.
pub fn blocks_of_all_sizes_keep_their_contents() {
    let mut block: Vec<u32> = Vec::new();
    for n in 0..(6 << 20) {
        block.push(n);
    }
    assert!(block.iter().enumerate().all(|(at, n)| at as u32 == *n));
    block.truncate(100_000);
    block.shrink_to_fit();
    assert!(block.iter().enumerate().all(|(at, n)| at as u32 == *n));
    block.truncate(10);
    block.shrink_to_fit();
    assert_eq!(block, (0..10).collect::<Vec<u32>>());
    for bytes in [1_usize, 4095, 32 << 10, (32 << 10) + 1, (8 << 20) - 1, 8 << 20, 20 << 20] {
        assert!(vec![0_u8; bytes].iter().all(|byte| *byte == 0));
    }
}

/// Asserts that allocations that may use the reserve pass neither of the limits by more than it.
pub fn the_reserve_ends_at_the_resident_limit() {
    use preempt::memory::{has_reserve, has_room, has_small_reserve};
    const MB: usize = 1 << 20;
    preempt::memory::set_limit_bytes(700 * MB);
    preempt::memory::set_resident_limit_bytes(900 * MB);
    for (resident, answers) in [
        (750, [true, true, true]),
        (830, [false, true, true]),
        (880, [false, false, true]),
        (920, [false, false, false]),
    ] {
        preempt::memory::set_resident_bytes(resident * MB);
        assert_eq!([has_room(0), has_small_reserve(), has_reserve(0)], answers, "{resident}");
    }
}
