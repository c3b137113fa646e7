//! The one decision: the class of request that may run at this point, if any.
//!
//! **Invariant:** [`decide`] is a pure function, and nothing else in the program chooses. The real workers and the
//! simulator ([`crate::sim`]) call it with what they see; so a result of a test on virtual time holds for real threads.
//!
//! | policy     | interrupt, safepoint | yield point | end of a query          | idle worker  | dedicated thread | claimer |
//! |------------|----------------------|-------------|-------------------------|--------------|------------------|---------|
//! | `wait`     | –                    | –           | oldest first, queries too | the same   | –                | –       |
//! | `boundary` | –                    | –           | by class                | by class     | –                | –       |
//! | `yield`    | –                    | urgent      | by class                | by class     | –                | –       |
//! | `preempt`  | urgent               | –           | by class                | by class     | –                | late    |
//! | `thread`   | –                    | –           | low                     | low          | urgent           | –       |
//!
//! *Urgent* is the classes high and normal: a request of class low is as important as a query and interrupts none. *By
//! class* is high, normal, then the older one of the low requests and the waiting queries. *Late* is urgent, among the
//! requests that have waited for too long. A closed starvation cap turns every entry into "–", except, at the end of a
//! query, for `wait` and for low requests, which the line limits.

use stage::Class;
use std::fmt;
use std::str::FromStr;

/// Returns the place of a class in arrays that hold one thing for each of [`Class::ALL`].
pub const fn class_index(class: Class) -> usize {
    class as usize
}

/// Occasions on which urgent work may run on a worker that is busy with a query.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Policy {
    /// Strict first in, first out, whatever the class; queries stand in the same line.
    Wait,
    /// Urgent first, at the end of a query.
    Boundary,
    /// Also at every n-th yield point of a query.
    Yield,
    /// Immediately, nested on the busy worker.
    Preempt,
    /// Dedicated threads that the kernel prefers to the workers run it.
    Thread,
}

impl Policy {
    /// Every policy, the slowest first.
    pub const ALL: [Policy; 5] = [Policy::Wait, Policy::Boundary, Policy::Yield, Policy::Preempt, Policy::Thread];

    /// Returns the name of the policy in settings and figures.
    pub const fn name(self) -> &'static str {
        match self {
            Policy::Wait => "wait",
            Policy::Boundary => "boundary",
            Policy::Yield => "yield",
            Policy::Preempt => "preempt",
            Policy::Thread => "thread",
        }
    }
}

impl fmt::Display for Policy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

/// A text that names no policy.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("unknown policy \"{0}\": it is one of wait, boundary, yield, preempt, thread")]
pub struct UnknownPolicy(String);

impl FromStr for Policy {
    type Err = UnknownPolicy;

    fn from_str(text: &str) -> Result<Policy, UnknownPolicy> {
        Policy::ALL.into_iter().find(|policy| policy.name() == text).ok_or_else(|| UnknownPolicy(text.to_owned()))
    }
}

/// Point at which a worker, or a dedicated thread, asks what it may run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Point {
    /// An arbitrary instruction of a query, reached by a signal or by the end of a region.
    Interrupt,
    /// A safepoint of a query.
    Safepoint,
    /// A yield point that is due.
    YieldPoint,
    /// The end of a query.
    Boundary,
    /// A worker without a query.
    Idle,
    /// A dedicated thread of the policy `thread`.
    Dedicated,
    /// The claimer of the policy `preempt`, which sees only requests that are late.
    Late,
}

/// Heads of the queues that the asker may take from; each is a place in the one line of submissions.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Heads {
    /// Oldest request of each class, see [`class_index`].
    pub requests: [Option<u64>; 3],
    /// Oldest query that waits for a worker.
    pub low_job: Option<u64>,
}

impl Heads {
    /// Returns true if no request is queued.
    pub fn is_empty(&self) -> bool {
        self.requests.iter().all(Option::is_none)
    }

    /// Returns true if a request that is more important than a query is queued.
    pub fn has_urgent(&self) -> bool {
        self.most_urgent().is_some()
    }

    fn most_urgent(&self) -> Option<Class> {
        [Class::High, Class::Normal].into_iter().find(|&class| self.requests[class_index(class)].is_some())
    }

    fn oldest(&self) -> Option<(u64, Class)> {
        Class::ALL
            .into_iter()
            .filter_map(|class| Some((self.requests[class_index(class)]?, class)))
            .min_by_key(|&(place, _)| place)
    }

    fn is_before_low_job(&self, place: u64) -> bool {
        self.low_job.is_none_or(|low_job| place < low_job)
    }

    fn low_in_turn(&self) -> Option<Class> {
        self.requests[class_index(Class::Low)].filter(|&place| self.is_before_low_job(place)).map(|_| Class::Low)
    }

    fn low(&self) -> Option<Class> {
        self.requests[class_index(Class::Low)].map(|_| Class::Low)
    }
}

/// Verdict of the starvation cap. It is `Open` where no query is held up.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Share {
    /// Urgent work may take more of this worker's time.
    Open,
    /// The queries of this worker are owed time.
    Closed,
}

/// Returns the class whose oldest request runs next at `point`, or none: the query goes on, or the next one starts.
pub fn decide(policy: Policy, point: Point, heads: &Heads, share: Share) -> Option<Class> {
    let is_open = share == Share::Open;
    let urgent = || heads.most_urgent().filter(|_| is_open);
    let low = || heads.low().filter(|_| is_open);
    let in_line = || heads.oldest().filter(|&(place, _)| heads.is_before_low_job(place)).map(|(_, class)| class);
    match (policy, point) {
        // A line is fair by itself; but a worker that never comes to the end of its line never sees the next query.
        (Policy::Wait, Point::Boundary) => in_line(),
        (Policy::Wait, Point::Idle) => in_line().filter(|_| is_open),
        (Policy::Boundary | Policy::Yield | Policy::Preempt, Point::Boundary) => {
            urgent().or_else(|| heads.low_in_turn())
        }
        (Policy::Boundary | Policy::Yield | Policy::Preempt, Point::Idle) => urgent().or_else(low),
        (Policy::Yield, Point::YieldPoint) | (Policy::Preempt, Point::Interrupt | Point::Safepoint | Point::Late) => {
            urgent()
        }
        (Policy::Thread, Point::Dedicated) => urgent(),
        (Policy::Thread, Point::Boundary) => heads.low_in_turn(),
        (Policy::Thread, Point::Idle) => low(),
        (Policy::Wait | Policy::Boundary, Point::Interrupt | Point::Safepoint | Point::YieldPoint)
        | (Policy::Yield, Point::Interrupt | Point::Safepoint)
        | (Policy::Preempt, Point::YieldPoint)
        | (Policy::Thread, Point::Interrupt | Point::Safepoint | Point::YieldPoint)
        | (Policy::Wait | Policy::Boundary | Policy::Yield | Policy::Preempt, Point::Dedicated)
        | (Policy::Wait | Policy::Boundary | Policy::Yield | Policy::Thread, Point::Late) => None,
    }
}

#[cfg(test)]
mod tests;
