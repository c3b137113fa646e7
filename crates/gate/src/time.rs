//! What time it is, as the caller says.

use std::time::Duration;

/// A moment: nanoseconds since one that the caller has chosen, the same for all calls.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Time(u64);

impl Time {
    /// The moment from which the caller counts.
    pub const ZERO: Time = Time(0);

    /// So many nanoseconds after it.
    pub const fn from_ns(ns: u64) -> Time {
        Time(ns)
    }

    /// Nanoseconds since then.
    pub const fn ns(self) -> u64 {
        self.0
    }

    /// What has passed since an earlier moment; nothing since a later one.
    pub const fn since(self, earlier: Time) -> Duration {
        Duration::from_nanos(self.0.saturating_sub(earlier.0))
    }

    /// So much later.
    #[must_use]
    pub const fn after(self, duration: Duration) -> Time {
        Time(self.0.saturating_add(ns_of(duration)))
    }
}

/// A duration in nanoseconds: what is beyond five hundred years counts as that.
pub(crate) const fn ns_of(duration: Duration) -> u64 {
    let ns = duration.as_nanos();
    if ns < u64::MAX as u128 { ns as u64 } else { u64::MAX }
}
