//! A database on virtual time, behind the very gate that serves.
//!
//! A closed network of processors, disks and rows (or one with arrivals from outside), as in section 3 of the paper; what the
//! models leave out is here: rows that are locked until the end, and what it costs to wait for them.
//!
//! **Invariant:** the same seed gives the same run, and, under every limit, the same transactions in the order in which they come:
//! what they are is drawn apart from what they meet. So the difference between two limits is not that between two samples.

mod random;
mod setups;
mod stations;
mod workload;

pub use random::Random;
pub use setups::{Bottleneck, Setup};
pub use workload::{Locks, Workload};

use crate::gate::{Arrival, Ending, Entrance, Event, Gate, Observation, Ticket};
use crate::model::H2;
use crate::settings::{ClassId, Settings};
use crate::time::Time;
use stations::{Disk, Processors, Rows, after};
use std::cmp::Reverse;
use std::collections::{BinaryHeap, HashMap};
use workload::Plan;

/// Who sends transactions.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Load {
    /// So many clients, each with one at a time, who think for so many seconds (exponential) in between.
    Closed {
        /// Clients.
        clients: u32,
        /// Seconds of thought, on average.
        think: f64,
    },
    /// So many arrivals in a second (Poisson), whatever becomes of them.
    Open {
        /// Arrivals in a second.
        rate: f64,
    },
}

/// A transaction, by its place.
type Job = u32;

#[derive(Debug)]
struct Running {
    ticket: Ticket,
    plan: Plan,
}

/// A database on virtual time.
#[derive(Debug)]
pub struct Simulation {
    workload: Workload,
    sizes: H2,
    load: Load,
    /// The class of important transactions, that of the others, and how many are important.
    classes: (ClassId, ClassId, f64),
    gate: Gate,
    random: Random,
    /// How long each visit to a disk takes, and each thought.
    services: Random,
    now: Time,
    processors: Processors,
    disks: Vec<Disk>,
    rows: Rows,
    jobs: Vec<Option<Running>>,
    free: Vec<Job>,
    of_ticket: HashMap<Ticket, Job>,
    /// When clients come.
    arrivals: BinaryHeap<Reverse<Time>>,
    completions: u64,
    host: Option<Host>,
}

/// Speeds that a host leaves the processors, over and over.
#[derive(Debug)]
struct Host {
    speeds: Vec<f64>,
    /// The next one.
    at: usize,
    /// When it begins.
    due: Time,
}

/// How long each speed of a host lasts.
const HOST_SAMPLE: f64 = 0.1;

/// What happens next.
enum Next {
    Host,
    Arrival,
    Processor,
    Disk(usize),
    Gate,
}

impl Simulation {
    /// A database before anybody has come. A share of the transactions, at random, is of the class `high`, the others of `low`.
    ///
    /// # Panics
    /// With settings that make no gate, and with a workload whose sizes no distribution has.
    pub fn new(setup: &Setup, load: Load, settings: Settings, high: f64, seed: u64) -> Simulation {
        let class = |name| settings.class(name).expect("the classes of priorities are there");
        let classes = (class("high"), class("low"), high);
        let settings = Settings { processors: setup.processors, knows_stalls: true, ..settings };
        let workload = setup.workload.clone();
        let mut simulation = Simulation {
            sizes: H2::with_balanced_means(1.0, workload.c2).expect("sizes of mean 1 have a distribution"),
            load,
            classes,
            gate: Gate::new(settings).expect("the settings make a gate"),
            random: Random::new(seed),
            services: Random::new(!seed),
            now: Time::ZERO,
            processors: Processors::new(setup.processors),
            disks: (0..setup.disks).map(|_| Disk::default()).collect(),
            rows: Rows::new(workload.locks.rows),
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

    /// The same on a host that others load: it leaves the processors each of these shares of their speed for a tenth of a second,
    /// over and over.
    #[must_use]
    pub fn on_host(mut self, speeds: Vec<f64>) -> Simulation {
        self.host = (!speeds.is_empty()).then_some(Host { speeds, at: 0, due: self.now });
        self
    }

    /// Its gate.
    pub fn gate(&self) -> &Gate {
        &self.gate
    }

    /// Its gate, to be told of another limit.
    pub fn gate_mut(&mut self) -> &mut Gate {
        &mut self.gate
    }

    /// What time it is there.
    pub fn now(&self) -> Time {
        self.now
    }

    /// Other work from the next transaction on.
    ///
    /// # Panics
    /// As [`Simulation::new`].
    pub fn switch(&mut self, workload: &Workload) {
        self.rows.make(workload.locks.rows);
        self.sizes = H2::with_balanced_means(1.0, workload.c2).expect("sizes of mean 1 have a distribution");
        self.workload = workload.clone();
    }

    /// How busy the processors and each disk were so far, from 0 to 1.
    pub fn utilisation(&self) -> (f64, Vec<f64>) {
        let seconds = self.now.since(Time::ZERO).as_secs_f64().max(f64::MIN_POSITIVE);
        let disks = self.disks.iter().map(|disk| disk.busy_seconds / seconds).collect();
        (self.processors.busy_seconds / seconds / self.processors.count(), disks)
    }

    /// Goes on until so many more have done what they were for.
    pub fn run(&mut self, completions: u64) {
        let end = self.completions + completions;
        while self.completions < end {
            self.step();
        }
    }

    /// What is observed of so many, after as many as are inside have left.
    pub fn observe(&mut self, completions: u64) -> Observation {
        let inside = self.gate.mpl();
        self.gate.observe_anew(self.now, inside);
        self.run(completions + u64::from(inside));
        self.gate.observation()
    }

    fn step(&mut self) {
        let arrival = self.arrivals.peek().map(|Reverse(time)| (*time, Next::Arrival));
        let processor = self.processors.next().map(|time| (time, Next::Processor));
        let disks = self.disks.iter().enumerate().filter_map(|(at, disk)| Some((disk.next()?, Next::Disk(at))));
        let gate = self.gate.due().map(|time| (time, Next::Gate));
        let host = self.host.as_ref().map(|host| (host.due, Next::Host));
        let all = disks.chain([host, processor, arrival, gate].into_iter().flatten());
        let (time, next) = all.min_by_key(|(time, _)| *time).expect("somebody works, thinks or comes");
        self.now = self.now.max(time);
        match next {
            Next::Host => {
                let host = self.host.as_mut().expect("it was due");
                self.processors.slow_down(self.now, host.speeds[host.at]);
                host.at = (host.at + 1) % host.speeds.len();
                host.due = after(self.now, HOST_SAMPLE);
            }
            Next::Arrival => self.arrive(),
            Next::Processor => {
                let job = self.processors.end(self.now).expect("one was about to end");
                self.after_processor(job);
            }
            Next::Disk(at) => {
                let job = self.disks[at].end(self.now).expect("one was about to end");
                self.after_visit(job);
            }
            Next::Gate => self.gate.tick(self.now),
        }
        while let Some(event) = self.gate.next_event() {
            if let Event::Admitted(ticket) = event
                && let Some(job) = self.of_ticket.get(&ticket)
            {
                self.go_on(*job);
            }
        }
    }

    /// A client comes back after a thought, or the next one comes from outside.
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
        let running = Some(Running { ticket, plan });
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

    fn job(&mut self, job: Job) -> &mut Running {
        self.jobs[job as usize].as_mut().expect("a job that runs is there")
    }

    /// The next thing it has to do.
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
        let Running { ticket, plan } = self.jobs[job as usize].take().expect("a job that runs is there");
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
