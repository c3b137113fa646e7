//! Resources that transactions inside spend their time on. Priority pays at the resource that dominates. The time that
//! a transaction needs of each resource is the demand that models ask for.
//!
//! In front of other servers, the figures come from samples of the wait events of their processes; in front of our own
//! engine, from the clock of stages.
//!
//! **Invariant:** the figures are recent: the weight of a sample halves every minute.

use super::{Admission, AdmissionShared};
use crate::stats::Stats;
use gate::control::{ControlSettings, Controller};
use gate::model::{Network, Station};
use locked::Locked;
use stage::Stage;
use stage::observe::{Observe, StageRow};
use std::sync::{Arc, MutexGuard};
use std::time::Duration;

/// Resource that a transaction inside can use or wait for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Resource {
    /// Processor: it runs, or would if one were free.
    Processor,
    /// Lock, of rows or of the server's own.
    Lock,
    /// Disk.
    Io,
    /// Log: it waits until its changes are durable.
    Log,
    /// Client.
    Client,
    /// Anything else.
    Other,
}

impl Resource {
    /// All resources, in the order of the views.
    pub const ALL: [Resource; 6] =
        [Resource::Processor, Resource::Lock, Resource::Io, Resource::Log, Resource::Client, Resource::Other];

    /// Name in views.
    pub fn name(self) -> &'static str {
        match self {
            Resource::Processor => "processor",
            Resource::Lock => "lock",
            Resource::Io => "io",
            Resource::Log => "log",
            Resource::Client => "client",
            Resource::Other => "other",
        }
    }

    /// True if the resource belongs to the database: only such ones can dominate.
    pub(super) fn is_inside(self) -> bool {
        !matches!(self, Resource::Client | Resource::Other)
    }
}

/// Source of the model's stations and demands.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum DemandSource {
    /// Nothing is known: two stations with equal demands are assumed.
    #[default]
    Assumed,
    /// Settings.
    Configured,
    /// Stage clock of this server.
    StageClock,
    /// Wait events of the server behind the gate.
    WaitEvents,
}

impl DemandSource {
    /// Source before the first sample.
    pub(super) fn of(control: &ControlSettings) -> DemandSource {
        if control.model.is_some() { DemandSource::Configured } else { DemandSource::Assumed }
    }

    /// Name in views.
    pub fn name(self) -> &'static str {
        match self {
            DemandSource::Assumed => "assumed",
            DemandSource::Configured => "configured",
            DemandSource::StageClock => "stage clock",
            DemandSource::WaitEvents => "wait events",
        }
    }
}

/// Observation at one moment.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ResourceSample {
    /// Number of transactions at each resource.
    pub at: [u32; Resource::ALL.len()],
    /// Processor time in seconds that server processes have had since the last sample, if it is visible.
    pub used: Option<f64>,
    /// Share of this host's processors that was busy since then.
    pub host_busy: Option<f64>,
}

/// Observations of the last minutes, weighted by age.
#[derive(Clone, Debug, Default)]
pub struct Resources {
    /// Seconds of transactions at each resource.
    at: [f64; Resource::ALL.len()],
    /// Seconds in which the servers of each station worked.
    busy: [f64; Resource::ALL.len()],
    seconds: f64,
    /// Number of transactions that have ended.
    done: f64,
    /// Seconds of processor time that server processes have had.
    used: f64,
    /// Seconds in which the host's processors were busy, as the average of one processor, and the seconds for which
    /// that is known.
    host_busy: f64,
    host_seconds: f64,
    last_done: Option<u64>,
    samples: u64,
    /// Number of transactions that the samples saw at each resource.
    seen: [u64; Resource::ALL.len()],
}

/// Figures of one resource, as the views show them.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct ResourceRow {
    /// Resource.
    pub resource: Resource,
    /// Share of the time that transactions are inside.
    pub share: f64,
    /// Seconds of transactions at the resource, as the share counts them.
    pub seconds: f64,
    /// True if transactions spend most of their time at it.
    pub dominates: bool,
    /// Share of its servers that work.
    pub busy: Option<f64>,
    /// Share of the machine's processors that work, for any process.
    pub host_busy: Option<f64>,
    /// Seconds of the resource that a transaction needs.
    pub demand: Option<f64>,
    /// Number of samples.
    pub samples: u64,
    /// Source of the figures.
    pub source: DemandSource,
}

/// Demands of one transaction, in seconds.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(crate) struct Demands {
    pub processor: f64,
    pub io: f64,
    pub log: f64,
    /// Time of its client between its statements.
    pub think: f64,
}

impl Demands {
    /// Network of these demands. Stations have one server each, except the processors. Waits for locks are no station:
    /// a limit shortens them.
    pub fn network(&self, processors: u32) -> Result<Network, gate::model::ModelError> {
        let stations = [(self.processor, processors), (self.io, 1), (self.log, 1)];
        let stations = stations.map(|(demand, servers)| Station::queue(demand, servers));
        Network::new(stations.to_vec(), self.think)
    }
}

/// Time after which a sample counts half.
const HALF_LIFE: Duration = Duration::from_mins(1);
/// Longest interval between two samples that belong together.
const GAP: Duration = Duration::from_secs(20);
/// Minimum numbers of transactions in samples, and of transactions that ended, for any conclusion.
const SEEN_MIN: u64 = 50;
const DONE_MIN: f64 = 50.0;

impl Resources {
    /// Adds a sample, taken this long after the last one. `done` is the number of transactions that have ended up to
    /// now; the database has this many processors.
    pub fn record(&mut self, passed: Duration, sample: &ResourceSample, done: u64, processors: u32) {
        if GAP < passed {
            // Nobody has sampled for a while, and one moment does not stand for such a long time.
            self.last_done = Some(done);
            return;
        }
        let seconds = passed.as_secs_f64();
        let kept = (-seconds / HALF_LIFE.as_secs_f64()).exp2();
        for sum in self.at.iter_mut().chain(&mut self.busy) {
            *sum *= kept;
        }
        let host = [&mut self.host_busy, &mut self.host_seconds];
        for sum in [&mut self.seconds, &mut self.done, &mut self.used].into_iter().chain(host) {
            *sum *= kept;
        }
        for (index, resource) in Resource::ALL.into_iter().enumerate() {
            let count = sample.at[index];
            let servers = if resource == Resource::Processor { processors } else { 1 };
            self.at[index] += f64::from(count) * seconds;
            self.busy[index] += f64::from(count.min(servers)) * seconds;
            self.seen[index] += u64::from(count);
        }
        self.used += sample.used.unwrap_or(0.0);
        if let Some(busy) = sample.host_busy {
            self.host_busy += busy * seconds;
            self.host_seconds += seconds;
        }
        self.seconds += seconds;
        self.done += done.saturating_sub(self.last_done.unwrap_or(done)) as f64;
        self.last_done = Some(done);
        self.samples += 1;
    }

    fn is_enough(&self) -> bool {
        SEEN_MIN <= self.seen.iter().sum() && DONE_MIN <= self.done
    }

    /// Number of working servers of a station, on average.
    fn working(&self, resource: Resource) -> f64 {
        // Processor time that the system counts is exact. A transaction without a wait event may still wait for a
        // processor.
        if resource == Resource::Processor && 0.0 < self.used {
            return self.used / self.seconds;
        }
        self.busy[resource as usize] / self.seconds
    }

    /// Network of the demands of a transaction. The log is a delay here: a group commit serves several waiters
    /// together, and a station that is always busy would predict that more transactions cannot get more done.
    fn network(&self, processors: u32) -> Option<Network> {
        let demands = self.demands()?;
        let waits = self.at[Resource::Log as usize] / self.done;
        let demands = Demands { log: 0.0, think: demands.think + waits, ..demands };
        demands.network(processors).ok()
    }

    /// Demands of a transaction: the work done divided by the number of transactions (the utilisation law).
    pub fn demands(&self) -> Option<Demands> {
        if !self.is_enough() {
            return None;
        }
        let rate = self.done / self.seconds;
        let of = |resource| self.working(resource) / rate;
        let think = self.at[Resource::Client as usize] / self.done;
        Some(Demands { processor: of(Resource::Processor), io: of(Resource::Io), log: of(Resource::Log), think })
    }

    pub fn rows(&self, processors: u32) -> Vec<ResourceRow> {
        let all: f64 = self.at.iter().sum();
        let demands = self.demands();
        let rows = Resource::ALL.into_iter().enumerate().map(|(index, resource)| {
            let is_processor = resource == Resource::Processor;
            let servers = if is_processor { f64::from(processors) } else { 1.0 };
            let is_station = matches!(resource, Resource::Processor | Resource::Io | Resource::Log);
            ResourceRow {
                resource,
                share: if 0.0 < all { self.at[index] / all } else { 0.0 },
                seconds: self.at[index],
                dominates: false,
                busy: (is_station && 0.0 < self.seconds).then(|| (self.working(resource) / servers).min(1.0)),
                host_busy: (is_processor && 0.0 < self.host_seconds).then(|| self.host_busy / self.host_seconds),
                demand: demands.and_then(|demands| match resource {
                    Resource::Processor => Some(demands.processor),
                    Resource::Io => Some(demands.io),
                    Resource::Log => Some(demands.log),
                    Resource::Client => Some(demands.think),
                    Resource::Lock | Resource::Other => None,
                }),
                samples: self.seen[index],
                source: DemandSource::WaitEvents,
            }
        });
        with_dominating(rows.collect())
    }
}

/// Resource at which a transaction inside is in a stage; `None` for the gate itself.
fn resource_of(stage: Stage) -> Option<Resource> {
    match stage {
        Stage::Gate => None,
        Stage::LockWait => Some(Resource::Lock),
        Stage::LogWait => Some(Resource::Log),
        // It runs, here or in a process of its code, or would if a thread, or a processor, were free.
        Stage::NetworkRead
        | Stage::Decode
        | Stage::Parse
        | Stage::Plan
        | Stage::PlanCached
        | Stage::Dispatch
        | Stage::Run
        | Stage::Crossing
        | Stage::CrossingWait
        | Stage::Encode
        | Stage::NetworkWrite
        | Stage::Preempted
        | Stage::Unattributed => Some(Resource::Processor),
    }
}

/// Rows for our own engine, by its stage clock.
fn rows_of_stages(stages: &[StageRow], done: u64) -> Vec<ResourceRow> {
    let sum = |of: &dyn Fn(Stage) -> bool| {
        let of = stages.iter().filter(|row| of(row.stage));
        of.fold((0.0, 0), |(us, count), row| (us + row.times.total_us, count + row.times.count))
    };
    let all = sum(&|stage| resource_of(stage).is_some()).0;
    let work = sum(&|stage| !stage.is_waiting()).0;
    let row = |resource| {
        let (us, samples) = sum(&|stage| resource_of(stage) == Some(resource));
        ResourceRow {
            resource,
            share: if 0.0 < all { us / all } else { 0.0 },
            seconds: us / 1e6,
            dominates: false,
            busy: None,
            host_busy: None,
            // A transaction that waits for a processor needs none.
            demand: (resource == Resource::Processor && 0 < done).then(|| work / 1e6 / done as f64),
            samples,
            source: DemandSource::StageClock,
        }
    };
    with_dominating([Resource::Processor, Resource::Lock, Resource::Log].map(row).into())
}

fn with_dominating(mut rows: Vec<ResourceRow>) -> Vec<ResourceRow> {
    let inside = rows.iter_mut().filter(|row| row.resource.is_inside() && 0.0 < row.share);
    if let Some(most) = inside.max_by(|one, other| one.share.total_cmp(&other.share)) {
        most.dominates = true;
    }
    rows
}

impl AdmissionShared {
    fn resources(&self) -> MutexGuard<'_, Resources> {
        self.resources.locked()
    }

    /// Number of transactions that have ended well, and of processors for them.
    fn done(&self) -> (u64, u32) {
        let state = self.lock();
        (state.gate.done(), state.gate.settings().processors)
    }

    fn rows(&self) -> Vec<ResourceRow> {
        let (done, processors) = self.done();
        match self.clock.get() {
            Some(stats) => rows_of_stages(&stats.stages(), done),
            None => self.resources().rows(processors),
        }
    }

    /// Passes measured demands to the controller, unless the settings give them.
    pub(super) fn teach(&self, controller: &mut Controller) {
        let (done, processors) = self.done();
        let (network, source) = match self.clock.get() {
            Some(stats) => {
                let rows = rows_of_stages(&stats.stages(), done);
                let processor = rows.first().and_then(|row| row.demand).filter(|_| DONE_MIN <= done as f64);
                let demands = processor.map(|processor| Demands { processor, ..Demands::default() });
                (demands.and_then(|demands| demands.network(processors).ok()), DemandSource::StageClock)
            }
            None => (self.resources().network(processors), DemandSource::WaitEvents),
        };
        let Some(network) = network else { return };
        let mut state = self.lock();
        if state.source != DemandSource::Configured {
            state.source = source;
            controller.know_model(network);
        }
    }
}

impl Admission {
    /// Registers the stage clock, for transactions that run on our own engine: its stages tell what they spend their
    /// time on.
    pub fn clocked_by(&self, stats: &Arc<Stats>) {
        if let Some(shared) = self.gate() {
            // The first clock counts.
            let _ = shared.clock.set(Arc::clone(stats));
        }
    }

    /// Sets the number of processors that the database may use, as its host reports it.
    pub fn know_processors(&self, processors: u32) {
        if let Some(shared) = self.gate().filter(|shared| !shared.has_processors) {
            shared.with(|state, now| state.gate.know_processors(now, processors));
        }
    }

    /// Records a sample, taken this long after the last one.
    pub fn record(&self, passed: Duration, sample: &ResourceSample) {
        if let Some(shared) = self.gate() {
            let (done, processors) = shared.done();
            shared.resources().record(passed, sample, done, processors);
        }
    }

    /// Returns the resources that transactions spend their time on; empty if there is no gate.
    pub fn resources(&self) -> Vec<ResourceRow> {
        self.gate().map_or_else(Vec::new, |shared| shared.rows())
    }

    /// Returns the resource of the database on which they spend most of their time.
    pub fn dominating(&self) -> Option<Resource> {
        self.resources().into_iter().find(|row| row.dominates).map(|row| row.resource)
    }

    /// Source of the model's stations and demands.
    pub(crate) fn model_source(&self) -> DemandSource {
        let Some(shared) = self.gate() else { return DemandSource::Assumed };
        // The demands may have been measured since the model was last needed.
        shared.teach(&mut Controller::new(ControlSettings::default()));
        shared.lock().source
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TICK: Duration = Duration::from_millis(100);

    fn sample(of: &[(Resource, u32)]) -> ResourceSample {
        let mut sample = ResourceSample::default();
        for (resource, count) in of {
            sample.at[*resource as usize] = *count;
        }
        sample
    }

    fn demand_of(rows: &[ResourceRow], wanted: Resource) -> Option<f64> {
        rows.iter().find(|row| row.resource == wanted)?.demand
    }

    #[test]
    fn the_resource_with_most_of_the_time_dominates() {
        let mut seen = Resources::default();
        let dominating = |seen: &Resources| seen.rows(2).into_iter().find(|row| row.dominates).map(|row| row.resource);
        assert_eq!(dominating(&seen), None);
        seen.record(TICK, &sample(&[(Resource::Client, 9), (Resource::Processor, 1)]), 0, 2);
        assert_eq!(dominating(&seen), Some(Resource::Processor));
        seen.record(TICK, &sample(&[(Resource::Lock, 8), (Resource::Log, 2)]), 0, 2);
        assert_eq!(dominating(&seen), Some(Resource::Lock));
        assert!((seen.rows(2)[1].share - 0.4).abs() < 0.01, "{:?}", seen.rows(2));
        // Old samples are forgotten.
        for _ in 0..600 {
            seen.record(TICK * 10, &sample(&[(Resource::Io, 1)]), 0, 2);
        }
        assert_eq!(dominating(&seen), Some(Resource::Io));
        assert!(seen.rows(2)[1].share < 0.01);
    }

    #[test]
    fn demands_follow_from_what_works_and_how_many_end() {
        let mut seen = Resources::default();
        // 100 transactions end in a second: both processors work all the time, three more transactions wait for one,
        // and the disk works half of the time.
        for tick in 0..100 {
            let disk = u32::from(tick % 2 == 0) * 3;
            let at = sample(&[(Resource::Processor, 5), (Resource::Io, disk), (Resource::Client, 4)]);
            seen.record(TICK, &at, 10 * tick, 2);
        }
        let rows = seen.rows(2);
        let near = |resource, wanted: f64| {
            let found = demand_of(&rows, resource).expect("it is known");
            assert!((found / wanted - 1.0).abs() < 0.03, "{resource:?}: {found}");
        };
        near(Resource::Processor, 0.02);
        near(Resource::Io, 0.005);
        near(Resource::Client, 0.04);
        assert_eq!(demand_of(&rows, Resource::Lock), None);
        let network = seen.network(2).expect("a network");
        assert!((network.throughput_max() / 100.0 - 1.0).abs() < 0.03);
        // The system's count of processor time takes precedence.
        let mut counted = Resources::default();
        for tick in 0..100 {
            let at = ResourceSample { used: Some(0.1), host_busy: Some(0.5), ..sample(&[(Resource::Processor, 5)]) };
            counted.record(TICK, &at, 10 * tick, 2);
        }
        let rows = counted.rows(2);
        assert!((demand_of(&rows, Resource::Processor).expect("it is known") / 0.01 - 1.0).abs() < 0.03, "{rows:?}");
        assert_eq!((rows[0].host_busy, rows[1].host_busy), (Some(0.5), None));
    }

    #[test]
    fn nothing_is_concluded_from_little() {
        let mut seen = Resources::default();
        seen.record(TICK, &sample(&[(Resource::Processor, 200)]), 0, 2);
        assert_eq!(seen.demands(), None);
        // Transactions that ended while nobody sampled tell nothing either.
        seen.record(GAP * 2, &sample(&[(Resource::Processor, 200)]), 1_000, 2);
        seen.record(TICK, &sample(&[(Resource::Processor, 200)]), 1_001, 2);
        assert_eq!(seen.demands(), None);
        assert!(Demands { think: 1.0, ..Demands::default() }.network(2).is_err());
    }
}
