//! Work of a transaction, estimated from its time inside and the number of others beside it.
//!
//! The gate sees times that are stretched by the others inside; the models need demands. A server that shares its `c`
//! processors among `n` transactions gives each of them `min(1, c/n)` of one. The meter runs at that speed, so its
//! advance between two moments is the work of each transaction that was active all the while. It is exact for processor
//! sharing.
//!
//! **Invariant:** the reading never decreases.

use crate::time::Time;

#[derive(Debug)]
pub(super) struct Meter {
    processors: f64,
    /// Work of a transaction that is active all the time, in nanoseconds of a processor.
    reading: f64,
    at: Time,
    active: u32,
}

impl Meter {
    pub(super) fn new(processors: u32) -> Meter {
        Meter { processors: processors.into(), reading: 0.0, at: Time::ZERO, active: 0 }
    }

    /// Returns the reading now.
    pub(super) fn read(&mut self, now: Time) -> f64 {
        let passed = now.since(self.at).as_nanos() as f64;
        if 0.0 < passed {
            self.reading += passed * (self.processors / f64::from(self.active.max(1))).min(1.0);
            self.at = now;
        }
        self.reading
    }

    /// Sets the number of processors from now on.
    pub(super) fn set_processors(&mut self, now: Time, processors: u32) {
        self.read(now);
        self.processors = processors.into();
    }

    /// Counts one more active transaction. Returns the reading.
    pub(super) fn begin(&mut self, now: Time) -> f64 {
        let reading = self.read(now);
        self.active += 1;
        reading
    }

    /// Counts one active transaction less. Returns the reading.
    pub(super) fn end(&mut self, now: Time) -> f64 {
        let reading = self.read(now);
        self.active = self.active.checked_sub(1).expect("whoever ends has begun");
        reading
    }

    pub(super) fn active(&self) -> u32 {
        self.active
    }
}
