//! What transactions inside spend their time on. The resource that dominates is the one where priority pays; and what each
//! resource does for a transaction are the demands that models ask for.
//!
//! Before other servers it comes of samples of what their processes wait for, before our own engine of the clock of stages.
//!
//! **Invariant:** what is shown was seen lately: an older sample counts half as much a minute later.

use super::{Door, Shared};
use crate::stats::Stats;
use gate::control::{ControlSettings, Controller};
use gate::model::{Network, Station};
use stage::observe::{Observe, StageRow};
use std::sync::{Arc, MutexGuard, PoisonError};
use std::time::Duration;

/// What a transaction that is inside can be at.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Resource {
    /// It runs, or would if a processor were free.
    Processor,
    /// It waits for a lock, of rows or of the server's own.
    Lock,
    /// It waits for a disk.
    Io,
    /// It waits for its changes to be safe.
    Log,
    /// It waits for its client.
    Client,
    /// It waits for something else.
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

    /// Whether it is the database's: only such ones dominate.
    pub(super) fn is_inside(self) -> bool {
        !matches!(self, Resource::Client | Resource::Other)
    }
}

/// Where stations and demands of the model come from.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Source {
    /// Nothing is known: two stations that are needed equally.
    #[default]
    Assumed,
    /// Settings give them.
    Configured,
    /// The stage clock of this server measures them.
    StageClock,
    /// Wait events of the server behind the gate tell them.
    WaitEvents,
}

impl Source {
    /// Before anything was seen.
    pub(super) fn of(control: &ControlSettings) -> Source {
        if control.model.is_some() { Source::Configured } else { Source::Assumed }
    }

    /// Name in views.
    pub fn name(self) -> &'static str {
        match self {
            Source::Assumed => "assumed",
            Source::Configured => "configured",
            Source::StageClock => "stage clock",
            Source::WaitEvents => "wait events",
        }
    }
}

/// What was seen at one moment.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Sample {
    /// How many transactions were at each resource.
    pub at: [u32; Resource::ALL.len()],
    /// Seconds of processors that server processes have had since the last one, if they can be seen.
    pub used: Option<f64>,
    /// The share of this host's processors that was busy since then.
    pub host_busy: Option<f64>,
}

/// What was seen lately.
#[derive(Clone, Debug, Default)]
pub struct Resources {
    /// Seconds of transactions at each.
    at: [f64; Resource::ALL.len()],
    /// Seconds of servers of each station that worked.
    busy: [f64; Resource::ALL.len()],
    seconds: f64,
    /// Transactions that have ended.
    done: f64,
    /// Seconds of processors that server processes have had.
    used: f64,
    /// Seconds of the host's processors that were busy, of one of them on average, and of how many that is known.
    host_busy: f64,
    host_seconds: f64,
    last_done: Option<u64>,
    samples: u64,
    /// Of the samples, how many transactions were seen at each.
    seen: [u64; Resource::ALL.len()],
}

/// One resource, as it is shown.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Row {
    /// Resource.
    pub resource: Resource,
    /// Of the time that transactions are inside.
    pub share: f64,
    /// Seconds of transactions that were at it, as the share counts them.
    pub seconds: f64,
    /// True if transactions spend most of their time at it.
    pub dominates: bool,
    /// The share of its servers that works.
    pub busy: Option<f64>,
    /// Share of the machine's processors that work, for whomever.
    pub host_busy: Option<f64>,
    /// Seconds of it that a transaction needs.
    pub demand: Option<f64>,
    /// Number of samples.
    pub samples: u64,
    /// Source of the figures.
    pub source: Source,
}

/// What one transaction needs, in seconds.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(crate) struct Demands {
    pub processor: f64,
    pub io: f64,
    pub log: f64,
    /// Its client's time between its statements.
    pub think: f64,
}

impl Demands {
    /// Stations of one server but for the processors; waits for locks are no station: they are what a limit shortens.
    pub fn network(&self, processors: u32) -> Result<Network, gate::model::Error> {
        let stations = [(self.processor, processors), (self.io, 1), (self.log, 1)];
        let stations = stations.map(|(demand, servers)| Station::queue(demand, servers));
        Network::new(stations.to_vec(), self.think)
    }
}

/// After so long a sample counts half.
const HALF_LIFE: Duration = Duration::from_mins(1);
/// Between two samples that belong together.
const GAP: Duration = Duration::from_secs(20);
/// Without so many samples of transactions, and so many that ended, nothing is concluded.
const SEEN_MIN: u64 = 50;
const DONE_MIN: f64 = 50.0;

impl Resources {
    /// Adds what was seen so long after the last sample; `done` have ended up to now, of which a database with so many
    /// processors has done.
    pub fn record(&mut self, passed: Duration, sample: &Sample, done: u64, processors: u32) {
        if GAP < passed {
            // Nobody has looked, and one moment does not stand for so long.
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

    /// How many of the servers of a station work, on average.
    fn working(&self, resource: Resource) -> f64 {
        // What the system counts is exact; who waits for nothing may wait for a processor.
        if resource == Resource::Processor && 0.0 < self.used {
            return self.used / self.seconds;
        }
        self.busy[resource as usize] / self.seconds
    }

    /// A network of what a transaction needs. The log is a delay here: who waits for it is served together with others (group
    /// commit), and a station that is always busy would say that no more can be done with more.
    fn network(&self, processors: u32) -> Option<Network> {
        let demands = self.demands()?;
        let waits = self.at[Resource::Log as usize] / self.done;
        let demands = Demands { log: 0.0, think: demands.think + waits, ..demands };
        demands.network(processors).ok()
    }

    /// What a transaction needs: what is done of it over how many do it (the utilisation law).
    pub fn demands(&self) -> Option<Demands> {
        if !self.is_enough() {
            return None;
        }
        let rate = self.done / self.seconds;
        let of = |resource| self.working(resource) / rate;
        let think = self.at[Resource::Client as usize] / self.done;
        Some(Demands { processor: of(Resource::Processor), io: of(Resource::Io), log: of(Resource::Log), think })
    }

    pub fn rows(&self, processors: u32) -> Vec<Row> {
        let all: f64 = self.at.iter().sum();
        let demands = self.demands();
        let rows = Resource::ALL.into_iter().enumerate().map(|(index, resource)| {
            let is_processor = resource == Resource::Processor;
            let servers = if is_processor { f64::from(processors) } else { 1.0 };
            let is_station = matches!(resource, Resource::Processor | Resource::Io | Resource::Log);
            Row {
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
                source: Source::WaitEvents,
            }
        });
        with_dominating(rows.collect())
    }
}

/// Of our own engine. It keeps its data in memory, and what it does is processor time but for its waits.
fn rows_of_stages(stages: &[StageRow], done: u64) -> Vec<Row> {
    let sum = |names: &[&str]| {
        let of = stages.iter().filter(|row| names.contains(&row.stage));
        of.fold((0.0, 0), |(us, calls), row| (us + row.times.total_us, calls + row.times.count))
    };
    let (runs, waits) = (sum(&["parse", "run", "commit", "reply"]), sum(&["wait"]));
    let all: f64 = runs.0 + waits.0;
    let row = |resource, (us, samples): (f64, u64)| Row {
        resource,
        share: if 0.0 < all { us / all } else { 0.0 },
        seconds: us / 1e6,
        dominates: false,
        busy: None,
        host_busy: None,
        demand: (resource == Resource::Processor && 0 < done).then(|| us / 1e6 / done as f64),
        samples,
        source: Source::StageClock,
    };
    with_dominating(vec![row(Resource::Processor, runs), row(Resource::Lock, waits)])
}

fn with_dominating(mut rows: Vec<Row>) -> Vec<Row> {
    let inside = rows.iter_mut().filter(|row| row.resource.is_inside() && 0.0 < row.share);
    if let Some(most) = inside.max_by(|one, other| one.share.total_cmp(&other.share)) {
        most.dominates = true;
    }
    rows
}

impl Shared {
    fn resources(&self) -> MutexGuard<'_, Resources> {
        self.resources.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// How many transactions have ended well, and how many processors there are for them.
    fn done(&self) -> (u64, u32) {
        let state = self.lock();
        (state.gate.done(), state.gate.settings().processors)
    }

    fn rows(&self) -> Vec<Row> {
        let (done, processors) = self.done();
        match self.clock.get() {
            Some(stats) => rows_of_stages(&stats.stages(), done),
            None => self.resources().rows(processors),
        }
    }

    /// Has the controller know what was learned of the database, unless somebody has said it.
    pub(super) fn teach(&self, controller: &mut Controller) {
        let (done, processors) = self.done();
        let (network, source) = match self.clock.get() {
            Some(stats) => {
                let rows = rows_of_stages(&stats.stages(), done);
                let processor = rows.first().and_then(|row| row.demand).filter(|_| DONE_MIN <= done as f64);
                let demands = processor.map(|processor| Demands { processor, ..Demands::default() });
                (demands.and_then(|demands| demands.network(processors).ok()), Source::StageClock)
            }
            None => (self.resources().network(processors), Source::WaitEvents),
        };
        let Some(network) = network else { return };
        let mut state = self.lock();
        if state.source != Source::Configured {
            state.source = source;
            controller.know_model(network);
        }
    }
}

impl Door {
    /// Transactions run on our own engine: its stages say what they spend their time on.
    pub fn clocked_by(&self, stats: &Arc<Stats>) {
        if let Some(shared) = self.gate() {
            // The first one counts.
            let _ = shared.clock.set(Arc::clone(stats));
        }
    }

    /// The database may use so many processors, as its host says.
    pub fn know_processors(&self, processors: u32) {
        if let Some(shared) = self.gate().filter(|shared| !shared.has_processors) {
            shared.with(|state, now| state.gate.know_processors(now, processors));
        }
    }

    /// What was seen so long after the last sample.
    pub fn record(&self, passed: Duration, sample: &Sample) {
        if let Some(shared) = self.gate() {
            let (done, processors) = shared.done();
            shared.resources().record(passed, sample, done, processors);
        }
    }

    /// What transactions spend their time on; nothing, if there is no gate.
    pub fn resources(&self) -> Vec<Row> {
        self.gate().map_or_else(Vec::new, |shared| shared.rows())
    }

    /// The one of the database's that they spend most of it on.
    pub fn dominating(&self) -> Option<Resource> {
        self.resources().into_iter().find(|row| row.dominates).map(|row| row.resource)
    }

    /// Where the model's stations and demands come from.
    pub(crate) fn model_source(&self) -> Source {
        let Some(shared) = self.gate() else { return Source::Assumed };
        // It may have been learned since somebody last needed it.
        shared.teach(&mut Controller::new(ControlSettings::default()));
        shared.lock().source
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TICK: Duration = Duration::from_millis(100);

    fn sample(of: &[(Resource, u32)]) -> Sample {
        let mut sample = Sample::default();
        for (resource, count) in of {
            sample.at[*resource as usize] = *count;
        }
        sample
    }

    fn demand_of(rows: &[Row], wanted: Resource) -> Option<f64> {
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
        // What was is forgotten.
        for _ in 0..600 {
            seen.record(TICK * 10, &sample(&[(Resource::Io, 1)]), 0, 2);
        }
        assert_eq!(dominating(&seen), Some(Resource::Io));
        assert!(seen.rows(2)[1].share < 0.01);
    }

    #[test]
    fn demands_follow_from_what_works_and_how_many_end() {
        let mut seen = Resources::default();
        // In a second 100 end: both processors work all the time, three more wait for one, the disk works half of the time.
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
        // The system's count of processor time is worth more.
        let mut counted = Resources::default();
        for tick in 0..100 {
            let at = Sample { used: Some(0.1), host_busy: Some(0.5), ..sample(&[(Resource::Processor, 5)]) };
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
        // Nor from what ended while nobody looked.
        seen.record(GAP * 2, &sample(&[(Resource::Processor, 200)]), 1_000, 2);
        seen.record(TICK, &sample(&[(Resource::Processor, 200)]), 1_001, 2);
        assert_eq!(seen.demands(), None);
        assert!(Demands { think: 1.0, ..Demands::default() }.network(2).is_err());
    }
}
