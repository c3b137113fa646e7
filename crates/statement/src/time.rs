//! Source of the present time: the system's clocks, or a clock that a test sets.
//!
//! **Invariant:** product code reads clocks here and nowhere else. Whoever decides by time is given a [`TimeSource`], or
//! the time itself as an argument, so a test decides what time it is and nobody sleeps for it.
//!
//! A timer of a thread or of a task stays a real one. Whoever it wakes reads the source again before it decides.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

/// Source of the present time. The system's one costs a branch more than the clock itself.
#[derive(Clone, Debug, Default)]
pub struct TimeSource(Option<Arc<ManualState>>);

/// Clock of a test. It stands still until somebody advances it.
#[derive(Clone, Debug)]
pub struct ManualTime(Arc<ManualState>);

#[derive(Debug)]
struct ManualState {
    start: Instant,
    start_us: i64,
    passed_ns: AtomicU64,
}

impl TimeSource {
    /// Returns the source that reads the system's clocks.
    pub const fn system() -> TimeSource {
        TimeSource(None)
    }

    /// Returns the present time, to measure and to compare with deadlines.
    #[inline]
    pub fn now(&self) -> Instant {
        match &self.0 {
            None => Instant::now(),
            Some(manual) => manual.start + manual.passed(),
        }
    }

    /// Returns the present time in microseconds since 1970, to show and to store.
    #[inline]
    pub fn unix_us(&self) -> i64 {
        match &self.0 {
            None => SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_micros() as i64),
            Some(manual) => manual.start_us.saturating_add(manual.passed().as_micros() as i64),
        }
    }

    /// Returns true from this moment on.
    #[inline]
    pub fn is_past(&self, deadline: Instant) -> bool {
        deadline <= self.now()
    }

    /// Returns the time that is left until this moment.
    #[inline]
    pub fn left(&self, deadline: Instant) -> Duration {
        deadline.saturating_duration_since(self.now())
    }

    /// Returns the time that has passed since this moment.
    #[inline]
    pub fn since(&self, begun: Instant) -> Duration {
        self.now().saturating_duration_since(begun)
    }

    /// Returns the moment for which a real timer is set, to look again at this one. It is the same moment unless a
    /// test has set the clock.
    #[inline]
    pub fn timer_at(&self, until: Instant) -> Instant {
        match &self.0 {
            None => until,
            Some(_) => Instant::now() + self.left(until),
        }
    }
}

impl ManualTime {
    /// Creates a clock that shows this many microseconds since 1970.
    pub fn new(start_us: i64) -> ManualTime {
        ManualTime(Arc::new(ManualState { start: Instant::now(), start_us, passed_ns: AtomicU64::new(0) }))
    }

    /// Returns a source that shows the time of this clock.
    pub fn source(&self) -> TimeSource {
        TimeSource(Some(Arc::clone(&self.0)))
    }

    /// Moves the clock forward. Nobody is woken by it.
    pub fn advance(&self, by: Duration) {
        // One word that says all: whoever must see it is told of it in another way, which orders the two.
        self.0.passed_ns.fetch_add(u64::try_from(by.as_nanos()).unwrap_or(u64::MAX), Relaxed);
    }
}

impl ManualState {
    fn passed(&self) -> Duration {
        Duration::from_nanos(self.passed_ns.load(Relaxed))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_manual_clock_moves_when_it_is_advanced_and_at_no_other_time() {
        let manual = ManualTime::new(1_000_000);
        let time = manual.source();
        let begun = time.now();
        let deadline = begun + Duration::from_secs(60);
        assert_eq!((time.unix_us(), time.since(begun)), (1_000_000, Duration::ZERO));
        manual.advance(Duration::from_millis(59_999));
        assert_eq!((time.unix_us(), time.left(deadline)), (60_999_000, Duration::from_millis(1)));
        assert!(!time.is_past(deadline));
        // A timer rings when the real time has passed that the clock has left.
        let until = time.timer_at(deadline).saturating_duration_since(Instant::now());
        assert!(until <= Duration::from_millis(1), "{until:?}");
        manual.advance(Duration::from_millis(1));
        assert!(time.clone().is_past(deadline));
        assert_eq!(time.left(deadline), Duration::ZERO);
    }

    #[test]
    fn the_system_shows_its_own_clocks() {
        let (time, before) = (TimeSource::system(), Instant::now());
        assert!(before <= time.now());
        assert_eq!(time.timer_at(before), before);
        // The first commit of this test was in 2026.
        assert!(1_767_225_600_000_000 < time.unix_us());
    }
}
