//! A database on virtual time, behind the very gate that serves.
//!
//! A closed network of processors, disks and rows (or one with arrivals from outside), as in section 3 of the paper. It
//! adds what the models leave out: rows that are locked until the end, and the cost of waiting for them.
//!
//! **Invariant:** equal seeds give equal runs, and, under every limit, the transactions are the same in the order of
//! their arrival: their properties are drawn apart from the events that they meet. So the difference between two limits
//! is not that between two samples.

mod random;
mod setups;
mod stations;
mod workload;

pub use random::SimRandom;
pub use setups::{Bottleneck, Setup};
pub use workload::{Locks, Workload};

use crate::gate::{Arrival, Ending, Entrance, Event, Gate, Observation, Ticket};
use crate::model::H2;
use crate::settings::{ClassId, GateSettings};
use crate::time::Time;
use stations::{Disk, Processors, RowLocks, after};
use std::cmp::Reverse;
use std::collections::{BinaryHeap, HashMap};
use workload::Plan;

/// Source of transactions.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Load {
    /// A fixed number of clients, each with one transaction at a time, which think for a mean time (exponential) in
    /// between.
    Closed {
        /// Clients.
        clients: u32,
        /// Mean think time in seconds.
        think: f64,
    },
    /// Arrivals at a mean rate (Poisson), whatever becomes of them.
    Open {
        /// Arrivals per second.
        rate: f64,
    },
}

/// A transaction, by its place.
type Job = u32;

#[derive(Debug)]
struct RunningJob {
    ticket: Ticket,
    plan: Plan,
}

/// A database on virtual time.
#[derive(Debug)]
pub struct Simulation {
    workload: Workload,
    sizes: H2,
    load: Load,
    /// Class of important transactions, that of the others, and share of important ones.
    classes: (ClassId, ClassId, f64),
    gate: Gate,
    random: SimRandom,
    /// Durations of the visits to disks, and of thinking.
    services: SimRandom,
    now: Time,
    processors: Processors,
    disks: Vec<Disk>,
    rows: RowLocks,
    jobs: Vec<Option<RunningJob>>,
    free: Vec<Job>,
    of_ticket: HashMap<Ticket, Job>,
    /// Times at which clients come.
    arrivals: BinaryHeap<Reverse<Time>>,
    completions: u64,
    host: Option<HostSpeeds>,
}

/// Speeds that a host leaves the processors, over and over.
#[derive(Debug)]
struct HostSpeeds {
    speeds: Vec<f64>,
    /// Index of the next speed.
    at: usize,
    /// Time at which it begins.
    due: Time,
}

/// Length of each speed of a host.
const HOST_SAMPLE: f64 = 0.1;

/// Kind of the next event.
enum NextEvent {
    Host,
    Arrival,
    Processor,
    Disk(usize),
    Gate,
}

impl Simulation {
    /// Creates a database without transactions. A share of them, at random, is of the class `high`, the others of
    /// `low`.
    ///
    /// # Panics
    /// If the settings of the gate are invalid, or no distribution has the sizes of the workload.
    pub fn new(setup: &Setup, load: Load, settings: GateSettings, high: f64, seed: u64) -> Simulation {
        let class = |name| settings.class(name).expect("the classes of priorities are there");
        let classes = (class("high"), class("low"), high);
        let settings = GateSettings { processors: setup.processors, knows_stalls: true, ..settings };
        let workload = setup.workload.clone();
        let mut simulation = Simulation {
            sizes: H2::with_balanced_means(1.0, workload.c2).expect("sizes of mean 1 have a distribution"),
            load,
            classes,
            gate: Gate::new(settings).expect("the settings make a gate"),
            random: SimRandom::new(seed),
            services: SimRandom::new(!seed),
            now: Time::ZERO,
            processors: Processors::new(setup.processors),
            disks: (0..setup.disks).map(|_| Disk::default()).collect(),
            rows: RowLocks::new(workload.locks.rows),
            workload,
            jobs: Vec::new(),
            free: Vec::new(),
            of_ticket: HashMap::new(),
            arrivals: BinaryHeap::new(),
            completions: 0,
            host: None,
        };
        match load {
            Load::Closed { clients, .. } => (0..clients).for_each(|_| simulation.come_back()),
            Load::Open { .. } => simulation.come_back(),
        }
        simulation
    }

    /// Puts the database on a host with other loads: it leaves the processors each of these shares of their speed for a
    /// tenth of a second, over and over.
    #[must_use]
    pub fn on_host(mut self, speeds: Vec<f64>) -> Simulation {
        self.host = (!speeds.is_empty()).then_some(HostSpeeds { speeds, at: 0, due: self.now });
        self
    }

    /// Returns the gate.
    pub fn gate(&self) -> &Gate {
        &self.gate
    }

    /// Returns the gate, so that its limit can be changed.
    pub fn gate_mut(&mut self) -> &mut Gate {
        &mut self.gate
    }

    /// Returns the virtual time.
    pub fn now(&self) -> Time {
        self.now
    }

    /// Switches to another workload from the next transaction on.
    ///
    /// # Panics
    /// As [`Simulation::new`].
    pub fn switch(&mut self, workload: &Workload) {
        self.rows.make(workload.locks.rows);
        self.sizes = H2::with_balanced_means(1.0, workload.c2).expect("sizes of mean 1 have a distribution");
        self.workload = workload.clone();
    }

    /// Returns the utilisation of the processors and of each disk so far, from 0 to 1.
    pub fn utilisation(&self) -> (f64, Vec<f64>) {
        let seconds = self.now.since(Time::ZERO).as_secs_f64().max(f64::MIN_POSITIVE);
        let disks = self.disks.iter().map(|disk| disk.busy_seconds / seconds).collect();
        (self.processors.busy_seconds / seconds / self.processors.count(), disks)
    }

    /// Runs until `completions` more transactions are done.
    pub fn run(&mut self, completions: u64) {
        let end = self.completions + completions;
        while self.completions < end {
            self.step();
        }
    }

    /// Returns an observation of this many completions, after as many as are inside have left.
    pub fn observe(&mut self, completions: u64) -> Observation {
        let inside = self.gate.mpl();
        self.gate.observe_anew(self.now, inside);
        self.run(completions + u64::from(inside));
        self.gate.observation()
    }

    fn step(&mut self) {
        let arrival = self.arrivals.peek().map(|Reverse(time)| (*time, NextEvent::Arrival));
        let processor = self.processors.next().map(|time| (time, NextEvent::Processor));
        let disks = self.disks.iter().enumerate().filter_map(|(at, disk)| Some((disk.next()?, NextEvent::Disk(at))));
        let gate = self.gate.due().map(|time| (time, NextEvent::Gate));
        let host = self.host.as_ref().map(|host| (host.due, NextEvent::Host));
        let all = disks.chain([host, processor, arrival, gate].into_iter().flatten());
        let (time, next) = all.min_by_key(|(time, _)| *time).expect("somebody works, thinks or comes");
        self.now = self.now.max(time);
        match next {
            NextEvent::Host => {
                let host = self.host.as_mut().expect("it was due");
                self.processors.slow_down(self.now, host.speeds[host.at]);
                host.at = (host.at + 1) % host.speeds.len();
                host.due = after(self.now, HOST_SAMPLE);
            }
            NextEvent::Arrival => self.arrive(),
            NextEvent::Processor => {
                let job = self.processors.end(self.now).expect("one was about to end");
                self.after_processor(job);
            }
            NextEvent::Disk(at) => {
                let job = self.disks[at].end(self.now).expect("one was about to end");
                self.after_visit(job);
            }
            NextEvent::Gate => self.gate.tick(self.now),
        }
        while let Some(event) = self.gate.next_event() {
            if let Event::Admitted(ticket) = event
                && let Some(job) = self.of_ticket.get(&ticket)
            {
                self.go_on(*job);
            }
        }
    }

    /// Brings a client back after a thought, or the next transaction from outside.
    fn come_back(&mut self) {
        let seconds = match self.load {
            Load::Closed { think, .. } => think * self.services.exponential(),
            Load::Open { rate } => self.random.exponential() / rate,
        };
        self.arrivals.push(Reverse(after(self.now, seconds)));
    }

    fn arrive(&mut self) {
        self.arrivals.pop();
        if matches!(self.load, Load::Open { .. }) {
            self.come_back();
        }
        let (high, low, share) = self.classes;
        let class = if self.random.happens(share) { high } else { low };
        let (ticket, entrance) = self.gate.arrive(self.now, Arrival::new(class)).expect("nobody is turned away");
        let plan = self.workload.plan(&self.sizes, &mut self.random);
        let running = Some(RunningJob { ticket, plan });
        let job = match self.free.pop() {
            Some(job) => job,
            None => {
                self.jobs.push(None);
                Job::try_from(self.jobs.len() - 1).expect("there are fewer transactions than that")
            }
        };
        self.jobs[job as usize] = running;
        self.of_ticket.insert(ticket, job);
        if entrance == Entrance::In {
            self.go_on(job);
        }
    }

    fn job(&mut self, job: Job) -> &mut RunningJob {
        self.jobs[job as usize].as_mut().expect("a job that runs is there")
    }

    /// Starts the next step of a job.
    fn go_on(&mut self, job: Job) {
        while let Some(row) = self.job(job).plan.next_row() {
            if !self.rows.take(row, job) {
                let (now, ticket) = (self.now, self.job(job).ticket);
                self.gate.stall(now, ticket, true);
                return;
            }
            self.job(job).plan.locked += 1;
        }
        if self.job(job).plan.visits == 0 {
            return self.finish(job);
        }
        if self.workload.processor == 0.0 {
            return self.after_processor(job);
        }
        let delayed = 1.0 + self.workload.locks.overhead * self.rows.waiting as f64;
        let Plan { size, visits_all, .. } = self.job(job).plan;
        let seconds = self.workload.processor * size / f64::from(visits_all) * delayed;
        self.processors.begin(self.now, job, seconds);
    }

    fn after_processor(&mut self, job: Job) {
        if self.workload.disk == 0.0 || self.disks.is_empty() {
            return self.after_visit(job);
        }
        let seconds = self.workload.disk / self.workload.visits * self.services.exponential();
        let disk = self.services.below(self.disks.len() as u32) as usize;
        self.disks[disk].begin(self.now, job, seconds);
    }

    fn after_visit(&mut self, job: Job) {
        self.job(job).plan.visits -= 1;
        self.go_on(job);
    }

    fn finish(&mut self, job: Job) {
        let RunningJob { ticket, plan } = self.jobs[job as usize].take().expect("a job that runs is there");
        self.free.push(job);
        self.of_ticket.remove(&ticket);
        self.completions += 1;
        let now = self.now;
        for row in &plan.rows[..plan.locked] {
            if let Some(next) = self.rows.give_up(*row) {
                let running = self.job(next);
                running.plan.locked += 1;
                let ticket = running.ticket;
                self.gate.stall(now, ticket, false);
                self.go_on(next);
            }
        }
        self.gate.leave(now, ticket, Ending::Done);
        if matches!(self.load, Load::Closed { .. }) {
            self.come_back();
        }
    }
}

#[cfg(test)]
mod tests;
