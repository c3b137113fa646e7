//! The starvation cap: queries keep a share of each worker's time.
//!
//! **Invariant:** over the windows in which a worker was busy with queries, urgent work took at most `1 - share` of the
//! time, plus one request at the end of a window; what it took too much is owed to the queries in the next windows, up
//! to one whole window. The cap holds no clock: every method is told the time, so that it works on virtual time too.

use crate::policy::Share;

/// Settings of the share of a worker's time that is kept for its queries.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CapSettings {
    /// Percent of the time that urgent work leaves to queries; 0 switches the cap off. At most 100.
    pub low_share_percent: u8,
    /// Length of the window over which the share is kept.
    pub window_ns: u64,
    /// Requests that run in one go before the query resumes for its share of the time they took.
    pub entry_requests_max: u32,
}

impl Default for CapSettings {
    fn default() -> CapSettings {
        CapSettings { low_share_percent: 10, window_ns: 10_000_000, entry_requests_max: 64 }
    }
}

impl CapSettings {
    /// Settings without a cap.
    pub const OFF: CapSettings =
        CapSettings { low_share_percent: 0, window_ns: 10_000_000, entry_requests_max: u32::MAX };

    /// Returns true if there is a cap.
    pub fn is_on(&self) -> bool {
        0 < self.low_share_percent
    }

    /// Returns the number of requests that run in one go where they hold up a query.
    pub fn entry_requests(&self) -> u32 {
        if self.is_on() { self.entry_requests_max.max(1) } else { u32::MAX }
    }

    fn low_percent(&self) -> u64 {
        u64::from(self.low_share_percent.min(100))
    }

    fn urgent_ns_max(&self) -> u64 {
        self.window_ns * (100 - self.low_percent()) / 100
    }
}

/// Account of one worker's time.
#[derive(Clone, Debug)]
pub struct Cap {
    settings: CapSettings,
    window_start_ns: u64,
    /// Urgent time in this window, and the excess of the windows before.
    urgent_ns: u64,
    /// Time until which a query runs that let a whole budget of requests pass.
    rest_until_ns: u64,
}

impl Cap {
    /// Creates an empty account, whose first window begins now.
    pub fn new(settings: CapSettings, now_ns: u64) -> Cap {
        assert!(0 < settings.window_ns, "the cap's window is not empty");
        Cap { settings, window_start_ns: now_ns, urgent_ns: 0, rest_until_ns: 0 }
    }

    /// Returns `Open` if urgent work may hold up a query now.
    pub fn share(&mut self, now_ns: u64) -> Share {
        if self.opens_at(now_ns) <= now_ns { Share::Open } else { Share::Closed }
    }

    /// Returns the time from which on urgent work may hold up a query; not later than `now_ns` if it may already.
    pub fn opens_at(&mut self, now_ns: u64) -> u64 {
        if !self.settings.is_on() {
            return now_ns;
        }
        self.roll(now_ns);
        let urgent_ns_max = self.settings.urgent_ns_max();
        if self.urgent_ns < urgent_ns_max {
            return self.rest_until_ns;
        }
        // At the end of this window `urgent_ns_max` is forgiven; what is left then still has to be below it.
        let windows = match urgent_ns_max {
            0 => return u64::MAX,
            max => self.urgent_ns / max,
        };
        self.rest_until_ns.max(self.window_start_ns + windows * self.settings.window_ns)
    }

    /// Charges the time from `from_ns` to `to_ns`, in which urgent work held up a query.
    pub fn charge(&mut self, from_ns: u64, to_ns: u64) {
        if !self.settings.is_on() {
            return;
        }
        self.roll(from_ns);
        let mut from_ns = from_ns.max(self.window_start_ns);
        let window_end_ns = self.window_start_ns + self.settings.window_ns;
        if window_end_ns < to_ns {
            self.urgent_ns += window_end_ns.saturating_sub(from_ns);
            // Whole windows in between leave a whole window owed, and more than that is never owed.
            let whole = (to_ns - window_end_ns) / self.settings.window_ns;
            self.roll(window_end_ns);
            if 0 < whole {
                self.urgent_ns = self.settings.window_ns;
                self.window_start_ns += whole * self.settings.window_ns;
            }
            from_ns = self.window_start_ns;
        }
        self.urgent_ns += to_ns.saturating_sub(from_ns);
    }

    /// Notes that a budget of requests took `entry_ns` in one go: the query runs for its share before the next.
    pub fn rest(&mut self, now_ns: u64, entry_ns: u64) {
        if self.settings.is_on() {
            let low = self.settings.low_percent();
            let rest_ns = if low == 100 { self.settings.window_ns } else { entry_ns.saturating_mul(low) / (100 - low) };
            self.rest_until_ns = now_ns + rest_ns.min(self.settings.window_ns);
        }
    }

    fn roll(&mut self, now_ns: u64) {
        let windows = now_ns.saturating_sub(self.window_start_ns) / self.settings.window_ns;
        if 0 < windows {
            let forgiven_ns = self.settings.urgent_ns_max().saturating_mul(windows);
            self.urgent_ns = self.urgent_ns.saturating_sub(forgiven_ns).min(self.settings.window_ns);
            self.window_start_ns += windows * self.settings.window_ns;
        }
    }
}

#[cfg(test)]
mod tests;
