//! The storm: random interrupts on every registered worker.

use preempt::{Arrival, Delivery, Sent, Serve, Worker};
use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::SeqCst};
use std::time::{Duration, Instant};

const GAP_MEAN: Duration = Duration::from_millis(1);
/// Pause between two attempts when no worker can be hit.
const PAUSE: Duration = Duration::from_micros(100);
const MARK: &str = "storm-counts";

/// Counts of a storm.
#[derive(Clone, Copy, Default)]
pub(crate) struct Counts {
    sent: u64,
    handled: u64,
    in_region: u64,
    micros: u64,
}

impl Counts {
    /// Finds the counts that a test process printed.
    pub(crate) fn find(output: &str) -> Counts {
        let Some(line) = output.lines().find_map(|line| line.strip_prefix(MARK)) else { return Counts::default() };
        let fields: Vec<u64> = line.split_whitespace().filter_map(|field| field.parse().ok()).collect();
        match fields[..] {
            [sent, handled, in_region, micros] => Counts { sent, handled, in_region, micros },
            _ => Counts::default(),
        }
    }

    pub(crate) fn add(&mut self, other: &Counts) {
        self.sent += other.sent;
        self.handled += other.handled;
        self.in_region += other.in_region;
        self.micros += other.micros;
    }

    /// Returns the length of the storm.
    pub(crate) fn lasted(&self) -> Duration {
        Duration::from_micros(self.micros)
    }

    /// Returns the storm's own interrupts per second; those that the test sends itself do not count.
    pub(crate) fn per_second(&self) -> f64 {
        self.sent as f64 / (self.micros.max(1) as f64 / 1e6)
    }
}

impl fmt::Display for Counts {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let ms = self.micros as f64 / 1e3;
        write!(f, "{} interrupts, {:.0}/s over {ms:.0} ms; with the test's own ", self.sent, self.per_second())?;
        write!(f, "{} handled, {} of them inside a region", self.handled, self.in_region)
    }
}

/// Interrupt handler of the test's own thread: it uses the heap, so that a hole in the heap's guard shows.
struct UseTheHeap;

impl Serve for UseTheHeap {
    fn serve(&self, _worker: &'static Worker, _arrival: Arrival) {
        for bytes in [24, 200, 3000] {
            let mut block = vec![0_u8; bytes];
            block[bytes - 1] = 1;
            std::hint::black_box(&block);
        }
    }
}

/// Runs `test` on this thread, registered as a worker, under a storm; prints the counts.
pub(crate) fn run(test: fn()) {
    let registration = preempt::register("test", Arc::new(UseTheHeap)).expect("the test's thread can be a worker");
    let stop = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let storm = scope.spawn(|| blow(&stop));
        let result = std::panic::catch_unwind(test);
        stop.store(true, SeqCst);
        let (sent, elapsed) = storm.join().expect("the storm does not panic");
        let totals = preempt::totals();
        println!("\n{MARK} {sent} {} {} {}", totals.signals, totals.landed_in_region, elapsed.as_micros());
        if let Err(panic) = result {
            std::panic::resume_unwind(panic);
        }
    });
    drop(registration);
}

/// Interrupts random workers at random moments, 1,000 times a second on average, until told to stop.
fn blow(stop: &AtomicBool) -> (u64, Duration) {
    // Where this is permitted, the busy threads that the storm interrupts do not delay it.
    let _ = preempt::os::set_realtime(1);
    let began = Instant::now();
    let mut random = preempt::os::now_ns() | 1;
    let mut next = began;
    let mut sent = 0;
    while !stop.load(SeqCst) {
        // xorshift64 (Marsaglia, 2003); the mean of the uniform gap is GAP_MEAN.
        random ^= random << 13;
        random ^= random >> 7;
        random ^= random << 17;
        next += GAP_MEAN.mul_f64((random >> 11) as f64 / (1_u64 << 52) as f64);
        let now = Instant::now();
        if next > now {
            std::thread::sleep(next - now);
        }
        // A worker that is off its processor has not taken its last interrupt; another one is hit then. If all are, the
        // storm is behind its schedule and makes up for it.
        let workers: Vec<&'static Worker> = preempt::workers().collect();
        let first = (random >> 33) as usize;
        let hit =
            (0..workers.len()).any(|at| preempt::Signal.send(workers[(first + at) % workers.len()]) == Sent::Signalled);
        sent += u64::from(hit);
        if !hit {
            next -= GAP_MEAN.min(next - began);
            std::thread::sleep(PAUSE);
        }
    }
    (sent, began.elapsed())
}
