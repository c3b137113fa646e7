//! The simulator: one worker on virtual time.
//!
//! **Invariant:** the simulator decides nothing. It advances the time, offers the points that a real worker would
//! reach, and runs what `entry` and [`decide`](crate::decide) choose, under the same [`Cap`]. Only the costs are
//! idealised: switching and delivery take no time, and a held-back request is asked for again the moment the cap opens.
//!
//! Figure 1 of the PreemptDB paper (SIGMOD 2025) is [`figure1`]: a query of 12 units, a transaction of 1 unit that
//! arrives at time 4.
//!
//! ```text
//! wait     QQQQQQQQQQQQT     done 9 after it arrived
//! yield    QQQQQQTQQQQQQ     3, yielding every 6 units
//! preempt  QQQQTQQQQQQQQ     1
//! ```

use crate::cap::{Cap, CapSettings};
use crate::entry::{self, Host, RunSpan};
use crate::policy::{Heads, Point, Policy, Share, class_index};
use stage::Class;
use std::collections::VecDeque;

/// A query to simulate.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SimQuery {
    /// Time of the submission.
    pub arrive: u64,
    /// Run time without interruptions.
    pub length: u64,
}

/// A transaction to simulate.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SimTransaction {
    /// Time of the submission.
    pub arrive: u64,
    /// Run time.
    pub length: u64,
    /// Class of the transaction.
    pub class: Class,
}

/// Input of a simulation. Times are in units of the caller's choice.
#[derive(Clone, Debug)]
pub struct Scenario {
    /// Policy.
    pub policy: Policy,
    /// Under `yield`, the units of its own progress after which a query yields. At least 1.
    pub yield_every: u64,
    /// Starvation cap, its window in these units.
    pub cap: CapSettings,
    /// Queries. Of two that arrive together the first comes first, and queries before transactions.
    pub queries: Vec<SimQuery>,
    /// Transactions.
    pub transactions: Vec<SimTransaction>,
}

/// Owner of the work in a segment: the index in the scenario's list.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SimContext {
    /// A query.
    Query(usize),
    /// A transaction.
    Transaction(usize),
}

/// A stretch of time in which the worker ran one context.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Segment {
    /// Context that ran.
    pub context: SimContext,
    /// Start of the stretch.
    pub start: u64,
    /// End of the stretch.
    pub end: u64,
}

/// Result of a simulation: the segments in the order of time, without overlap.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Trace {
    /// Policy that was simulated.
    pub policy: Policy,
    /// Segments.
    pub segments: Vec<Segment>,
}

impl Trace {
    /// Returns the time at which `context` ran for the first time, if it ever did.
    pub fn started(&self, context: SimContext) -> Option<u64> {
        self.segments.iter().find(|segment| segment.context == context).map(|segment| segment.start)
    }

    /// Returns the time at which `context` ran for the last time.
    pub fn ended(&self, context: SimContext) -> Option<u64> {
        self.segments.iter().rev().find(|segment| segment.context == context).map(|segment| segment.end)
    }

    /// Returns the trace as text, one letter a unit: `Q` a query, `T` a transaction, `.` nothing.
    pub fn text(&self) -> String {
        let mut text = String::new();
        for segment in &self.segments {
            let letter = match segment.context {
                SimContext::Query(_) => 'Q',
                SimContext::Transaction(_) => 'T',
            };
            text.extend((text.len() as u64..segment.start).map(|_| '.'));
            text.extend((segment.start..segment.end).map(|_| letter));
        }
        text
    }
}

/// Returns the scenario of the paper's Figure 1 under `policy`.
pub fn figure1_scenario(policy: Policy) -> Scenario {
    Scenario {
        policy,
        yield_every: 6,
        cap: CapSettings { window_ns: 10, ..CapSettings::default() },
        queries: vec![SimQuery { arrive: 0, length: 12 }],
        transactions: vec![SimTransaction { arrive: 4, length: 1, class: Class::High }],
    }
}

/// Simulates Figure 1 of the paper under each policy, in the order of [`Policy::ALL`].
pub fn figure1() -> Vec<Trace> {
    Policy::ALL.map(|policy| simulate(&figure1_scenario(policy))).into()
}

/// Runs `scenario` to its end.
pub fn simulate(scenario: &Scenario) -> Trace {
    let mut worker = VirtualWorker::new(scenario);
    while worker.step() {}
    Trace { policy: scenario.policy, segments: worker.segments }
}

#[derive(Clone, Copy)]
struct SimArrival {
    at: u64,
    what: SimContext,
}

struct SimRunning {
    query: usize,
    done: u64,
}

struct VirtualWorker<'a> {
    scenario: &'a Scenario,
    now: u64,
    /// Arrivals to come, in the order of time.
    arrivals: VecDeque<SimArrival>,
    next_place: u64,
    requests: [VecDeque<(u64, usize)>; 3],
    low_jobs: VecDeque<(u64, usize)>,
    running: Option<SimRunning>,
    /// End of the line at the time when the last query ended.
    line_end: Option<u64>,
    cap: Cap,
    segments: Vec<Segment>,
}

impl<'a> VirtualWorker<'a> {
    fn new(scenario: &'a Scenario) -> VirtualWorker<'a> {
        let queries = scenario.queries.iter().enumerate().map(|(at, query)| (query.arrive, SimContext::Query(at)));
        let transactions =
            scenario.transactions.iter().enumerate().map(|(at, one)| (one.arrive, SimContext::Transaction(at)));
        let mut arrivals: Vec<SimArrival> =
            queries.chain(transactions).map(|(at, what)| SimArrival { at, what }).collect();
        arrivals.sort_by_key(|arrival| arrival.at); // Stable: queries stay before transactions.
        VirtualWorker {
            scenario,
            now: 0,
            arrivals: arrivals.into(),
            next_place: 0,
            requests: Default::default(),
            low_jobs: VecDeque::new(),
            running: None,
            line_end: None,
            cap: Cap::new(scenario.cap, 0),
            segments: Vec::new(),
        }
    }

    fn admit(&mut self) {
        while let Some(&SimArrival { at, what }) = self.arrivals.front()
            && at <= self.now
        {
            self.arrivals.pop_front();
            let place = self.next_place;
            self.next_place += 1;
            match what {
                SimContext::Query(query) => self.low_jobs.push_back((place, query)),
                SimContext::Transaction(one) => {
                    let class = self.scenario.transactions[one].class;
                    self.requests[class_index(class)].push_back((place, one));
                }
            }
        }
    }

    fn record(&mut self, context: SimContext, start: u64, end: u64) {
        match self.segments.last_mut() {
            _ if start == end => {}
            Some(last) if last.context == context && last.end == start => last.end = end,
            _ => self.segments.push(Segment { context, start, end }),
        }
    }

    /// Returns true if a query runs, waits, or has ended at this moment.
    fn has_query(&self) -> bool {
        self.running.is_some() || self.line_end.is_some() || !self.low_jobs.is_empty()
    }

    fn serve(&mut self, point: Point) {
        entry::serve(self, self.scenario.policy, point);
    }

    /// Makes one step of the worker; returns false when nothing is left to do.
    fn step(&mut self) -> bool {
        self.admit();
        match self.running.take() {
            Some(running) => self.step_query(running),
            None => return self.step_idle(),
        }
        true
    }

    fn step_idle(&mut self) -> bool {
        self.serve(Point::Idle);
        self.serve(Point::Dedicated);
        if let Some((_, query)) = self.low_jobs.pop_front() {
            self.running = Some(SimRunning { query, done: 0 });
            true
        } else if let Some(next) = self.arrivals.front() {
            self.now = self.now.max(next.at);
            true
        } else {
            !Heads::is_empty(&self.heads())
        }
    }

    fn step_query(&mut self, mut running: SimRunning) {
        // Requests that would have interrupted it before it goes on.
        self.running = Some(SimRunning { ..running });
        match self.scenario.policy {
            Policy::Preempt => self.serve(Point::Interrupt),
            Policy::Thread => self.serve(Point::Dedicated),
            Policy::Wait | Policy::Boundary | Policy::Yield => {}
        }
        let length = self.scenario.queries[running.query].length;
        let until = self.next_interruption(&running, length);
        self.record(SimContext::Query(running.query), self.now, until);
        running.done += until - self.now;
        self.now = until;
        self.admit();
        if length <= running.done {
            self.running = None;
            self.line_end = Some(self.next_place);
            self.serve(Point::Boundary);
            self.line_end = None;
            // The end of one query is the start of the next, whichever queries still wait for their share.
            if let Some((_, query)) = self.low_jobs.pop_front() {
                self.running = Some(SimRunning { query, done: 0 });
            }
            return;
        }
        if running.done.is_multiple_of(self.scenario.yield_every) {
            self.serve(Point::YieldPoint);
        }
        self.running = Some(running);
    }

    /// Returns the time at which the query stops next: at its end, a yield point, an arrival, or when the cap opens.
    fn next_interruption(&mut self, running: &SimRunning, length: u64) -> u64 {
        let end = self.now + (length - running.done);
        let yields = self.now + self.scenario.yield_every - running.done % self.scenario.yield_every;
        let arrives = self.arrivals.front().map_or(u64::MAX, |arrival| arrival.at);
        let opens = match self.heads().has_urgent() {
            true => self.cap.opens_at(self.now),
            false => u64::MAX,
        };
        let opens = if self.now < opens { opens } else { u64::MAX };
        end.min(yields).min(arrives).min(opens)
    }
}

impl Host for VirtualWorker<'_> {
    fn heads(&mut self) -> Heads {
        let head = |class| self.requests[class_index(class)].front().map(|&(place, _)| place);
        let low_job = self.low_jobs.front().map(|&(place, _)| place);
        Heads { requests: Class::ALL.map(head), low_job: low_job.into_iter().chain(self.line_end).min() }
    }

    fn share(&mut self) -> Share {
        match self.has_query() {
            true => self.cap.share(self.now),
            false => Share::Open,
        }
    }

    fn entry_requests_max(&mut self) -> u32 {
        self.scenario.cap.entry_requests()
    }

    fn run(&mut self, class: Class) -> Option<RunSpan> {
        let (_, one) = self.requests[class_index(class)].pop_front()?;
        let from_ns = self.now;
        self.now += self.scenario.transactions[one].length;
        self.record(SimContext::Transaction(one), from_ns, self.now);
        self.admit();
        Some(RunSpan { from_ns, to_ns: self.now })
    }

    fn charge(&mut self, ran: RunSpan) {
        if self.has_query() {
            self.cap.charge(ran.from_ns, ran.to_ns);
        }
    }

    fn rest(&mut self, entry: RunSpan) {
        if self.has_query() {
            self.cap.rest(entry.to_ns, entry.to_ns - entry.from_ns);
        }
    }
}

#[cfg(test)]
mod tests;
