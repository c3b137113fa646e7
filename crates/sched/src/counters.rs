//! Counters: the ways in which requests came to run, and the exceptions.

use core::sync::atomic::{AtomicU64, Ordering::Relaxed};

/// Occasion on which a request came to run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Start {
    /// A safepoint of the query found the flag.
    Polled = 0,
    /// A signal interrupted the query.
    Signalled = 1,
    /// A signal landed in a region and was served at its end.
    Deferred = 2,
    /// A yield point of the query was due.
    Yielded = 3,
    /// A query ended.
    Boundary = 4,
    /// The worker had no query.
    Idle = 5,
    /// A dedicated thread ran it.
    Dedicated = 6,
    /// No worker had started it in time, so the claimer ran it.
    Claimed = 7,
}

impl Start {
    /// Every occasion, in the order of [`Counters::starts`].
    pub const ALL: [Start; 8] = [
        Start::Polled,
        Start::Signalled,
        Start::Deferred,
        Start::Yielded,
        Start::Boundary,
        Start::Idle,
        Start::Dedicated,
        Start::Claimed,
    ];

    /// Returns the name of the occasion in figures.
    pub const fn name(self) -> &'static str {
        match self {
            Start::Polled => "polled",
            Start::Signalled => "signalled",
            Start::Deferred => "deferred",
            Start::Yielded => "yielded",
            Start::Boundary => "boundary",
            Start::Idle => "idle",
            Start::Dedicated => "dedicated",
            Start::Claimed => "claimed",
        }
    }
}

macro_rules! counters {
    ($($(#[$doc:meta])* $name:ident),+ $(,)?) => {
        /// Counts since the scheduler was created.
        #[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
        pub struct Counters {
            $($(#[$doc])* pub $name: u64,)+
            /// Runs begun, attempts counted singly, by [`Start`] in the order of [`Start::ALL`].
            pub starts: [u64; 8],
        }

        impl Counters {
            /// Returns the sums of these counts and others.
            pub fn plus(&self, other: &Counters) -> Counters {
                let starts = core::array::from_fn(|at| self.starts[at] + other.starts[at]);
                Counters { $($name: self.$name + other.$name,)+ starts }
            }
        }

        #[derive(Default)]
        pub(crate) struct Cells {
            $(pub(crate) $name: CounterCell,)+
            pub(crate) starts: [CounterCell; 8],
        }

        impl Cells {
            pub(crate) fn read(&self) -> Counters {
                Counters { $($name: self.$name.read(),)+ starts: core::array::from_fn(|at| self.starts[at].read()) }
            }
        }
    };
}

counters! {
    /// Requests accepted.
    queued,
    /// Requests turned away because every queue was full.
    rejected,
    /// Requests that went to the global queue because the workers' queues were full.
    overflowed,
    /// Runs on another worker than the one that the request was placed with.
    stolen,
    /// Entries that the starvation cap, or its budget, ended while urgent requests were left.
    capped,
    /// Requests asked for again by the keeper, after the cap had held them back.
    redelivered,
    /// Cancelled requests that were found in a queue and dropped.
    cancelled,
    /// Runs that asked to run again.
    retried,
    /// Runs that parked.
    parks,
    /// Parked requests that were submitted again. The other parked requests still wait.
    resubmits,
    /// Requests that panicked.
    panicked,
    /// Requests that used up their attempts.
    exhausted,
    /// Requests that ended, in whatever way.
    completed,
    /// Events that found their ring full.
    events_lost,
}

impl Counters {
    /// Returns the number of runs begun by `start`.
    pub fn started(&self, start: Start) -> u64 {
        self.starts[start as usize]
    }
}

#[derive(Default)]
pub(crate) struct CounterCell(AtomicU64);

impl CounterCell {
    pub(crate) fn add_one(&self) {
        self.0.fetch_add(1, Relaxed);
    }

    pub(crate) fn read(&self) -> u64 {
        self.0.load(Relaxed)
    }
}
