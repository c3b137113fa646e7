//! Arrivals at a rate, whatever becomes of the earlier ones.
//!
//! **Invariant:** an arrival's due time depends on the seed alone; a generator that is held up sends overdue arrivals
//! at once, and never skips one or shifts those to come (no coordinated omission).

use preempt::os;
use std::sync::atomic::{AtomicBool, Ordering::SeqCst};
use std::time::Duration;
use tokio::sync::mpsc::UnboundedSender;
use workloads::tpcc::Random;

/// Priority of the generator, above the thread that talks to the server, so that no answer delays an arrival.
const PRIORITY: i32 = 21;
/// Maximum sleep: the delay after which a stop is seen.
const LOOK: Duration = Duration::from_millis(5);

/// Arrival of a transaction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Arrival {
    /// Moment at which the transaction was due, in nanoseconds of the monotonic clock.
    pub due_ns: u64,
}

/// Sends arrivals of the given mean rate, with exponential gaps, from now until `until_ns` or a stop. Returns their
/// number.
pub fn generate(
    rate: f64,
    until_ns: u64,
    seed: u64,
    is_realtime: bool,
    is_over: &AtomicBool,
    to: &UnboundedSender<Arrival>,
) -> u64 {
    if is_realtime {
        // This was allowed a moment ago; the lateness is printed either way.
        let _ = os::set_realtime(PRIORITY);
    }
    let mut random = Random::new(seed);
    let mut due_ns = os::now_ns();
    let mut count = 0;
    loop {
        due_ns += gap_ns(&mut random, rate);
        if until_ns <= due_ns {
            return count;
        }
        loop {
            let left = Duration::from_nanos(due_ns.saturating_sub(os::now_ns()));
            if is_over.load(SeqCst) {
                return count;
            }
            if left.is_zero() {
                break;
            }
            std::thread::park_timeout(left.min(LOOK));
        }
        if to.send(Arrival { due_ns }).is_err() {
            return count;
        }
        count += 1;
    }
}

fn gap_ns(random: &mut Random, rate: f64) -> u64 {
    let uniform = ((random.word() >> 11) + 1) as f64 / (1_u64 << 53) as f64;
    (-uniform.ln() / rate * 1e9) as u64
}

#[cfg(test)]
mod tests {
    use super::*;
    use tokio::sync::mpsc::unbounded_channel;

    #[test]
    fn the_rate_is_met_on_average() {
        let mut random = Random::new(7);
        let sum: u64 = (0..100_000).map(|_| gap_ns(&mut random, 500.0)).sum();
        assert!((sum as f64 / 1e5 - 2e6).abs() < 4e4, "{sum}");
    }

    #[test]
    fn due_times_are_the_seeds_and_none_is_early() {
        let (to, mut from) = unbounded_channel();
        let until_ns = os::now_ns() + 50_000_000;
        let count = generate(10_000.0, until_ns, 1, false, &AtomicBool::new(false), &to);
        drop(to);
        let mut seen = Vec::new();
        while let Ok(arrival) = from.try_recv() {
            seen.push(arrival.due_ns);
        }
        assert_eq!(seen.len() as u64, count);
        assert!(100 < count && seen.is_sorted() && seen.iter().all(|due| *due < until_ns));
        assert!(seen.last().is_some_and(|last| *last <= os::now_ns()));
        assert_eq!(
            generate(1.0, os::now_ns() + 60_000_000_000, 1, false, &AtomicBool::new(true), &unbounded_channel().0),
            0
        );
    }
}
