//! An entry: the requests that a worker runs at one point, from the first decision to the last.
//!
//! **Invariant:** the question is asked anew between two requests, so a more important one that came meanwhile goes
//! first. The loop is written once, for real workers and for the simulator; their differences are in [`Host`].

use crate::policy::{Heads, Point, Policy, Share, decide};
use stage::Class;

/// Time span in which a request ran.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct RunSpan {
    pub(crate) from_ns: u64,
    pub(crate) to_ns: u64,
}

/// A worker, as the loop uses it.
pub(crate) trait Host {
    /// Returns the heads of the queues now.
    fn heads(&mut self) -> Heads;
    /// Returns the verdict of the cap now; open where no query is held up.
    fn share(&mut self) -> Share;
    /// Returns the number of requests that may run in one go where a query is held up.
    fn entry_requests_max(&mut self) -> u32;
    /// Takes the oldest request of `class` and runs it to its end. Returns none if there was none to run after all:
    /// another worker took it, or it was cancelled.
    fn run(&mut self, class: Class) -> Option<RunSpan>;
    /// Charges a request that ran, and may have held up a query.
    fn charge(&mut self, ran: RunSpan);
    /// Ends the entry when its budget is used up; the query resumes.
    fn rest(&mut self, entry: RunSpan);
}

/// Requests that an entry leaves in the queues.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum LeftRequests {
    /// No request that could run at such a point.
    Nothing,
    /// Urgent requests that the cap or the budget held back: some thread has to come back for them.
    HeldBack,
}

/// Runs requests at `point` until none may run there.
pub(crate) fn serve(host: &mut impl Host, policy: Policy, point: Point) -> LeftRequests {
    let mut budget = if counts_requests(point) { host.entry_requests_max() } else { u32::MAX };
    let mut entry: Option<RunSpan> = None;
    loop {
        let heads = host.heads();
        if heads.is_empty() {
            return LeftRequests::Nothing;
        }
        let Some(class) = decide(policy, point, &heads, host.share()) else {
            // Decides whether the cap or the policy refused.
            return match decide(policy, point, &heads, Share::Open) {
                Some(_) => LeftRequests::HeldBack,
                None => LeftRequests::Nothing,
            };
        };
        let Some(ran) = host.run(class) else { continue };
        host.charge(ran);
        let began = entry.get_or_insert(ran);
        began.to_ns = ran.to_ns;
        budget -= 1;
        if budget == 0 {
            let entry = *began;
            host.rest(entry);
            return if host.heads().has_urgent() { LeftRequests::HeldBack } else { LeftRequests::Nothing };
        }
    }
}

/// Returns true if the budget of requests counts at the point. At the end of a query and on an idle worker it does not,
/// only the share of the time: otherwise a burst would wait for one whole query more.
fn counts_requests(point: Point) -> bool {
    match point {
        Point::Interrupt | Point::Safepoint | Point::YieldPoint | Point::Dedicated => true,
        // The claimer keeps no query from the processor for long: what it may run becomes late one by one.
        Point::Boundary | Point::Idle | Point::Late => false,
    }
}
