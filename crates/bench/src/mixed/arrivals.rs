//! Arrivals: an open loop that submits urgent requests at a given rate, whatever happens to the earlier ones.
//!
//! **Invariant:** every arrival has a scheduled time that depends on the seed alone, and latencies count from it. A
//! generator that is held up submits overdue arrivals at once and its lateness is reported; it never skips an arrival
//! and never shifts the ones to come (no coordinated omission).

use preempt::os;
use sched::{Request, Scheduler};
use stage::Histogram;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed, Ordering::SeqCst};
use std::thread::{self, JoinHandle};
use std::time::Duration;
use workloads::tpcc::Random;

/// Maximum number of requests under way at a time; their scheduled times are kept in a ring of this size.
pub const UNDER_WAY_MAX: u64 = 1 << 16;
/// Interval at which a pause checks whether the rate changed.
const LOOK: Duration = Duration::from_millis(5);
const REALTIME_PRIORITY: i32 = 20;

/// Function that makes the request with a given number. It runs on the generator's thread, ahead of the arrival.
pub type MakeRequest = Box<dyn FnMut(u64) -> Arc<Request> + Send>;

struct GeneratorState {
    /// Arrivals per second as the bits of an `f64`; 0 pauses.
    rate: AtomicU64,
    stop: AtomicBool,
    offered: AtomicU64,
    rejected: AtomicU64,
    scheduled_ns: Box<[AtomicU64]>,
}

/// Running generator.
pub struct Arrivals {
    shared: Arc<GeneratorState>,
    thread: Option<JoinHandle<Histogram>>,
}

/// Results of a generator.
pub struct Offered {
    /// Number of arrivals, rejected ones included.
    pub arrivals: u64,
    /// Number of arrivals that the scheduler had no room for.
    pub rejected: u64,
    /// Lateness of the submissions after their scheduled times.
    pub late: Histogram,
}

/// Scheduled times of the requests under way.
#[derive(Clone)]
pub struct Schedule(Arc<GeneratorState>);

impl Schedule {
    /// Returns the moment at which request `id` was due to arrive.
    pub fn at_ns(&self, id: u64) -> u64 {
        self.0.scheduled_ns[(id % UNDER_WAY_MAX) as usize].load(Relaxed)
    }
}

impl Arrivals {
    /// Starts to submit to `scheduler`, `rate` requests a second on average, with exponential gaps made from `seed`.
    ///
    /// The thread runs in the real-time class where the scheduler's threads may and that is allowed, so that busy workers
    /// do not make it late.
    ///
    /// # Errors
    /// If the thread cannot be started.
    pub fn start(scheduler: Arc<Scheduler>, make: MakeRequest, rate: f64, seed: u64) -> std::io::Result<Arrivals> {
        let shared = Arc::new(GeneratorState {
            rate: AtomicU64::new(rate.to_bits()),
            stop: AtomicBool::new(false),
            offered: AtomicU64::new(0),
            rejected: AtomicU64::new(0),
            scheduled_ns: (0..UNDER_WAY_MAX).map(|_| AtomicU64::new(0)).collect(),
        });
        let for_thread = Arc::clone(&shared);
        let thread = thread::Builder::new()
            .name("arrivals".into())
            .spawn(move || generate(&for_thread, &scheduler, make, Random::new(seed)))?;
        Ok(Arrivals { shared, thread: Some(thread) })
    }

    /// Returns the scheduled times.
    pub fn schedule(&self) -> Schedule {
        Schedule(Arc::clone(&self.shared))
    }

    /// Changes the rate, from the next arrival on; 0 pauses.
    pub fn set_rate(&self, rate: f64) {
        self.shared.rate.store(rate.to_bits(), SeqCst);
        if let Some(thread) = &self.thread {
            thread.thread().unpark();
        }
    }

    /// Returns the number of arrivals so far.
    pub fn offered(&self) -> u64 {
        self.shared.offered.load(SeqCst)
    }

    /// Returns the number of arrivals that the scheduler had no room for.
    pub fn rejected(&self) -> u64 {
        self.shared.rejected.load(SeqCst)
    }

    /// Ends the arrivals and returns their numbers.
    pub fn stop(mut self) -> Offered {
        let late = self.join();
        Offered { arrivals: self.offered(), rejected: self.rejected(), late }
    }

    fn join(&mut self) -> Histogram {
        self.shared.stop.store(true, SeqCst);
        let Some(thread) = self.thread.take() else { return Histogram::new() };
        thread.thread().unpark();
        thread.join().expect("the generator does not panic")
    }
}

impl Drop for Arrivals {
    fn drop(&mut self) {
        self.join();
    }
}

fn generate(shared: &GeneratorState, scheduler: &Scheduler, mut make: MakeRequest, mut random: Random) -> Histogram {
    if 0 < scheduler.settings().realtime_priority {
        // The kernel refuses this without the privilege: the lateness is printed either way.
        let _ = os::set_realtime(REALTIME_PRIORITY);
    }
    let mut late = Histogram::new();
    let mut due_ns = os::now_ns();
    let mut id = 0;
    while !shared.stop.load(SeqCst) {
        let rate = f64::from_bits(shared.rate.load(SeqCst));
        if rate <= 0.0 {
            thread::park();
            due_ns = os::now_ns();
            continue;
        }
        // The gap is drawn before the pause and the request made before it, so that neither delays the arrival.
        due_ns += (exponential(&mut random) / rate * 1e9) as u64;
        let request = make(id);
        if !pause_until(shared, due_ns, rate) {
            // The rate changed meanwhile: this arrival happens now, the next ones at the new rate.
            due_ns = os::now_ns();
        }
        if shared.stop.load(SeqCst) {
            break;
        }
        shared.scheduled_ns[(id % UNDER_WAY_MAX) as usize].store(due_ns, Relaxed);
        shared.offered.fetch_add(1, SeqCst);
        late.record_ns(os::now_ns().saturating_sub(due_ns));
        if scheduler.submit(request).is_err() {
            shared.rejected.fetch_add(1, SeqCst);
        }
        id += 1;
    }
    late
}

/// Sleeps until `due_ns`; false if the rate changed or a stop was asked for before.
fn pause_until(shared: &GeneratorState, due_ns: u64, rate: f64) -> bool {
    loop {
        let left = Duration::from_nanos(due_ns.saturating_sub(os::now_ns()));
        if left.is_zero() {
            return true;
        }
        if shared.stop.load(SeqCst) || shared.rate.load(SeqCst) != rate.to_bits() {
            return false;
        }
        thread::park_timeout(left.min(LOOK));
    }
}

/// Returns an exponentially distributed number with mean 1.
fn exponential(random: &mut Random) -> f64 {
    let uniform = ((random.word() >> 11) + 1) as f64 / (1_u64 << 53) as f64;
    -uniform.ln()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn gaps_have_the_mean_and_spread_of_an_exponential_distribution() {
        let mut random = Random::new(7);
        let gaps: Vec<f64> = (0..200_000).map(|_| exponential(&mut random)).collect();
        let mean = gaps.iter().sum::<f64>() / gaps.len() as f64;
        let variance = gaps.iter().map(|gap| (gap - mean).powi(2)).sum::<f64>() / gaps.len() as f64;
        assert!((mean - 1.0).abs() < 0.01, "mean {mean}");
        assert!((variance - 1.0).abs() < 0.05, "variance {variance}");
    }
}
