//! Time, as the caller tells it.

use std::time::Duration;

/// A moment: nanoseconds since an origin that the caller has chosen, one for all calls.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Time(u64);

impl Time {
    /// Origin from which the caller counts.
    pub const ZERO: Time = Time(0);

    /// Returns the moment this many nanoseconds after the origin.
    pub const fn from_ns(ns: u64) -> Time {
        Time(ns)
    }

    /// Returns the nanoseconds since the origin.
    pub const fn ns(self) -> u64 {
        self.0
    }

    /// Returns the time that has passed since an earlier moment; zero since a later one.
    pub const fn since(self, earlier: Time) -> Duration {
        Duration::from_nanos(self.0.saturating_sub(earlier.0))
    }

    /// Returns the moment after this duration.
    #[must_use]
    pub const fn after(self, duration: Duration) -> Time {
        Time(self.0.saturating_add(ns_of(duration)))
    }
}

/// Returns a duration in nanoseconds: one beyond five hundred years counts as that.
pub(crate) const fn ns_of(duration: Duration) -> u64 {
    let ns = duration.as_nanos();
    if ns < u64::MAX as u128 { ns as u64 } else { u64::MAX }
}
