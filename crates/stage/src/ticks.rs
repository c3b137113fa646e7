//! Time source of the stage clock, and the cost of reading it.
//!
//! **Invariant:** ticks of one source never run backwards by more than the skew between two processors, which the clock
//! counts as no time.

use preempt::os;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

/// Source of ticks. The system's one is chosen once, for the whole process.
#[derive(Clone, Debug)]
pub enum TickSource {
    /// Time-stamp counter of the processor, where it is steady.
    Tsc,
    /// `CLOCK_MONOTONIC`: a tick is a nanosecond.
    Monotonic,
    /// Clock of a test: a tick is a nanosecond.
    Manual(Arc<ManualTicks>),
    /// No clock: nothing is stamped, and all times are 0. See [`switch_off`].
    Off,
}

/// Clock of a test, with the processor time of its only thread. It stands still until somebody advances it.
#[derive(Debug, Default)]
pub struct ManualTicks {
    now_ns: AtomicU64,
    cpu_ns: AtomicU64,
}

impl ManualTicks {
    /// Creates a clock.
    pub fn new() -> Arc<ManualTicks> {
        Arc::default()
    }

    /// Lets time pass in which the thread runs.
    pub fn run_for(&self, ns: u64) {
        self.now_ns.fetch_add(ns, Relaxed);
        self.cpu_ns.fetch_add(ns, Relaxed);
    }

    /// Lets time pass in which the thread does not run.
    pub fn pass(&self, ns: u64) {
        self.now_ns.fetch_add(ns, Relaxed);
    }
}

/// Bits behind the point of [`Rate`].
const POINT: u32 = 32;
/// Time over which the rate of the counter is measured. The two clocks are read within 100 ns of each other, so the
/// rate is exact to 1 in 20,000.
const MEASURED: Duration = Duration::from_millis(2);

/// Nanoseconds of a tick, as a fixed-point number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Rate(u64);

const ONE: Rate = Rate(1 << POINT);

impl Rate {
    fn ns(self, ticks: u64) -> u64 {
        u64::try_from((u128::from(ticks) * u128::from(self.0)) >> POINT).unwrap_or(u64::MAX)
    }

    /// Compares the counter with the clock. `None` if the counter cannot be a clock.
    fn measure() -> Option<Rate> {
        // The closest of several readings of both.
        let both = || {
            let one = || {
                let (before, ticks, after) = (os::now_ns(), os::ticks(), os::now_ns());
                (after - before, before + (after - before) / 2, ticks)
            };
            (0..8).map(|_| one()).min().map(|(_, ns, ticks)| (ns, ticks))
        };
        let first = both()?;
        std::thread::sleep(MEASURED);
        let last = both()?;
        let ticks = last.1.checked_sub(first.1).filter(|&ticks| 0 < ticks)?;
        let rate = (u128::from(last.0.checked_sub(first.0)?) << POINT) / u128::from(ticks);
        u64::try_from(rate).ok().filter(|&rate| 0 < rate).map(Rate)
    }
}

/// Rate of the time-stamp counter; `None` where it is not steady.
static RATE: OnceLock<Option<Rate>> = OnceLock::new();

/// True if [`switch_off`] was called.
static IS_OFF: AtomicBool = AtomicBool::new(false);

/// Switches the clocks of this process off. For measurements of their cost alone: without them, views of stages are
/// empty. Call it before the first session: each clock asks once, when it is created.
pub fn switch_off() {
    IS_OFF.store(true, Relaxed);
}

fn rate() -> Option<Rate> {
    *RATE.get_or_init(|| if os::has_steady_ticks() { Rate::measure() } else { None })
}

impl TickSource {
    /// Returns the cheapest source that this machine has. The first call takes some milliseconds.
    pub fn system() -> TickSource {
        match (IS_OFF.load(Relaxed), rate()) {
            (true, _) => TickSource::Off,
            (false, Some(_)) => TickSource::Tsc,
            (false, None) => TickSource::Monotonic,
        }
    }

    /// Returns the name in views.
    pub fn name(&self) -> &'static str {
        match self {
            TickSource::Tsc => "tsc",
            TickSource::Monotonic => "monotonic",
            TickSource::Manual(_) => "manual",
            TickSource::Off => "off",
        }
    }

    /// Returns the present time in ticks.
    #[inline]
    pub(crate) fn now(&self) -> u64 {
        match self {
            TickSource::Tsc => os::ticks(),
            TickSource::Monotonic => os::now_ns(),
            TickSource::Manual(manual) => manual.now_ns.load(Relaxed),
            TickSource::Off => 0,
        }
    }

    /// Returns the processor time of this thread in nanoseconds.
    pub(crate) fn cpu_ns(&self) -> u64 {
        match self {
            TickSource::Tsc | TickSource::Monotonic => os::thread_cpu_ns(),
            TickSource::Manual(manual) => manual.cpu_ns.load(Relaxed),
            TickSource::Off => 0,
        }
    }

    fn rate(&self) -> Rate {
        match self {
            TickSource::Tsc => rate().unwrap_or(ONE),
            TickSource::Monotonic | TickSource::Manual(_) | TickSource::Off => ONE,
        }
    }

    /// Returns true if there is no clock.
    #[inline]
    pub(crate) fn is_off(&self) -> bool {
        matches!(self, TickSource::Off)
    }

    /// Returns the nanoseconds of so many ticks.
    pub(crate) fn ns(&self, ticks: u64) -> u64 {
        self.rate().ns(ticks)
    }

    /// Returns the ticks of so many nanoseconds.
    pub(crate) fn ticks(&self, ns: u64) -> u64 {
        let ticks = (u128::from(ns) << POINT) / u128::from(self.rate().0.max(1));
        u64::try_from(ticks).unwrap_or(u64::MAX)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ticks_of_the_system_agree_with_its_clock() {
        let source = TickSource::system();
        let (ticks, ns) = (source.now(), os::now_ns());
        std::thread::sleep(Duration::from_millis(20));
        let (ticks, ns) = (source.ns(source.now() - ticks), os::now_ns() - ns);
        // Between two readings the thread may lose its processor.
        assert!(ticks.abs_diff(ns) < 5_000_000, "{ticks} ns by {}, {ns} by the clock", source.name());
    }

    #[test]
    fn a_rate_converts_both_ways() {
        // 2.5 GHz.
        let rate = Rate((1 << POINT) * 2 / 5);
        assert!(rate.ns(2_500_000_000).abs_diff(1_000_000_000) <= 1);
        assert_eq!(ONE.ns(u64::MAX), u64::MAX);
        let source = TickSource::system();
        assert!(source.ns(source.ticks(1_000_000)).abs_diff(1_000_000) <= 2);
    }
}
