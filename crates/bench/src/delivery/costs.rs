//! The cost of code being interruptible when nothing interrupts it.
//!
//! Each cost is the fastest of many short rounds: time that a round takes beyond it is another program's, not the
//! code's.

use anyhow::Context;
use preempt::os;
use preempt::{Arrival, Dense, Heap, Mode, Region, Serve, Worker, no_preempt, safepoint};
use std::hint::black_box;
use std::sync::Arc;
use std::thread;

/// Maximum number of rows between two safepoints, as in the scans.
pub const ROWS_PER_SAFEPOINT: usize = 1_024;
/// Number of rows of the sum: they stay in the second-level cache, so that memory does not hide the safepoint.
const ROWS: usize = 32 * ROWS_PER_SAFEPOINT;
const ROUNDS: u32 = 200;
const REPEATS: u32 = 20_000;
const BLOCK_BYTES: usize = 64;

/// Costs of single operations.
pub struct Costs {
    /// Time of a region's beginning and end.
    pub region_ns: f64,
    /// Time of a safepoint of a registered worker without a request.
    pub safepoint_ns: f64,
    /// Time of taking and giving back a small block, past the guard.
    pub alloc_plain_ns: f64,
    /// Time of taking and giving back a small block through the guard, as the whole program does it.
    pub alloc_guarded_ns: f64,
    /// Time of one reading of the clock.
    pub clock_ns: f64,
    /// Time of a sum with a safepoint each 1,024 rows over the time without.
    pub safepoint_1024_ratio: f64,
}

/// Handler of the measured worker, which receives no requests.
struct Nothing;

impl Serve for Nothing {
    fn serve(&self, _worker: &'static Worker, _arrival: Arrival) {}
}

/// Measures the costs on a worker of its own, pinned to `processor`.
///
/// # Errors
/// If the kernel refuses the worker.
pub fn measure(processor: usize) -> anyhow::Result<Costs> {
    let measuring = thread::spawn(move || -> anyhow::Result<Costs> {
        os::pin_to_cpu(processor)?;
        let registration = preempt::register("costs", Arc::new(Nothing))?;
        registration.worker().set_mode(Mode::Foreign);
        let _dense = Dense::enter();
        Ok(measure_here())
    });
    measuring.join().expect("measuring does not panic").context("the costs could not be measured")
}

fn measure_here() -> Costs {
    let nothing_ns = fastest_ns(|| repeat(|| {}));
    let once_ns = |total_ns: f64| ((total_ns - nothing_ns) / f64::from(REPEATS)).max(0.0);
    let rows = rows();
    let (mut plain_ns, mut polled_ns) = (f64::INFINITY, f64::INFINITY);
    for _ in 0..ROUNDS {
        // The two take turns, so that a change of the processor's speed meets both.
        plain_ns = plain_ns.min(fastest_of_ns(10, || discard(sum_without_safepoints(black_box(&rows)))));
        polled_ns = polled_ns.min(fastest_of_ns(10, || discard(sum_with_safepoints(black_box(&rows)))));
    }
    Costs {
        region_ns: once_ns(fastest_ns(|| repeat(|| discard(Region::enter())))),
        safepoint_ns: once_ns(fastest_ns(|| repeat(safepoint))),
        alloc_plain_ns: once_ns(fastest_ns(|| {
            no_preempt(|witness| repeat(|| Heap::take_and_give_unguarded(black_box(BLOCK_BYTES), witness)));
        })),
        alloc_guarded_ns: once_ns(fastest_ns(|| {
            repeat(|| discard(Vec::<u8>::with_capacity(black_box(BLOCK_BYTES))));
        })),
        clock_ns: clock_ns(),
        safepoint_1024_ratio: polled_ns / plain_ns,
    }
}

/// Returns the time of one reading of the clock, in nanoseconds.
pub fn clock_ns() -> f64 {
    fastest_ns(|| repeat(|| discard(os::now_ns()))) / f64::from(REPEATS)
}

/// Returns the rows that are summed.
pub fn rows() -> Vec<i64> {
    (0..ROWS as i64).collect()
}

/// Returns the sum as the compiler vectorises it.
#[inline(never)]
pub fn sum(rows: &[i64]) -> i64 {
    rows.iter().fold(0, |sum, row| sum.wrapping_add(*row))
}

/// Returns the sum, computed block by block with a call of `between` after each block. Both sides of a comparison run
/// the same compiled [`sum`], so that only `between` differs.
#[inline(always)]
fn sum_blocks(rows: &[i64], between: impl Fn()) -> i64 {
    let mut total = 0_i64;
    for block in rows.chunks(ROWS_PER_SAFEPOINT) {
        total = total.wrapping_add(sum(block));
        between();
    }
    total
}

/// Returns the sum without a safepoint.
#[inline(never)]
fn sum_without_safepoints(rows: &[i64]) -> i64 {
    sum_blocks(rows, || ())
}

/// Returns the sum with a safepoint each 1,024 rows.
#[inline(never)]
pub fn sum_with_safepoints(rows: &[i64]) -> i64 {
    sum_blocks(rows, safepoint)
}

/// Consumes `result`, so that the compiler can neither drop nor foresee it.
fn discard<T>(result: T) {
    black_box(result);
}

fn repeat(mut operation: impl FnMut()) {
    for _ in 0..REPEATS {
        operation();
        // This keeps the compiler from joining or dropping rounds.
        black_box(());
    }
}

fn fastest_ns(operation: impl FnMut()) -> f64 {
    fastest_of_ns(ROUNDS, operation)
}

fn fastest_of_ns(rounds: u32, mut operation: impl FnMut()) -> f64 {
    let round = |_| {
        let before_ns = os::now_ns();
        operation();
        (os::now_ns() - before_ns) as f64
    };
    (0..rounds).map(round).fold(f64::INFINITY, f64::min)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_sums_agree() {
        let rows = rows();
        assert_eq!(sum(&rows), sum_with_safepoints(&rows));
        assert_eq!(sum(&rows), (ROWS * (ROWS - 1) / 2) as i64);
    }

    #[test]
    fn costs_are_plausible() {
        let costs = measure_here();
        assert!(0.0 < costs.clock_ns);
        assert!(0.0 < costs.alloc_guarded_ns);
        assert!(0.5 < costs.safepoint_1024_ratio, "{}", costs.safepoint_1024_ratio);
    }
}
