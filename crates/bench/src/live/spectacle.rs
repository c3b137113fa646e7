//! The page's displays and commands: the implementation of [`demo::Demo`].
//!
//! **Invariant:** commands are serialised by one lock over the instances; reading for the page takes it only briefly,
//! and the collector takes it for the schedules alone. Nothing here runs on a worker.

use super::admission::{DemoInstance, keep_off_workers};
use super::collector::CollectedInstance;
use super::facts;
use super::wire::{Addresses, DemoServers};
use crate::data::{Data, DataConfig, LoadSteps};
use crate::mixed::{LowQuery, MakeRequest};
use demo::facts::{Facts, Figure1, LoadProgress, LoadStep, Policy, QueryInfo, WorkerContext};
use demo::records::{Cursor, InstanceInfo, Update, WorkerNow};
use demo::{Error, EventHistory};
use host::stop::Stop;
use locked::Locked;
use preempt::{Mode, os};
use std::sync::atomic::Ordering::Relaxed;
use std::sync::{Arc, Mutex, MutexGuard, OnceLock};
use std::time::{Duration, Instant};

/// Interval at which events are collected.
const COLLECT: Duration = Duration::from_millis(20);

/// Maximum number of dead versions that one turn of the housekeeping frees; it looks at about as many rows.
const GARBAGE_VERSIONS: usize = 256;

/// State of the demonstration.
pub struct Spectacle {
    config: DataConfig,
    workers: usize,
    yield_interval: u32,
    stop: Stop,
    steps: LoadSteps,
    began: Instant,
    history: EventHistory,
    loaded: OnceLock<Result<Loaded, String>>,
    facts: Facts,
    /// Addresses of the instances, until there is something to serve there.
    addresses: Mutex<Option<Addresses>>,
}

struct Loaded {
    data: Arc<Data>,
    elapsed: Duration,
    rungs: facts::DeliveryMedians,
    queries: Vec<(QueryInfo, LowQuery)>,
    admissions: Mutex<DemoInstances>,
    wire: Mutex<Option<DemoServers>>,
}

struct DemoInstances {
    admissions: Vec<DemoInstance>,
    selected: Policy,
    make: MakeRequest,
    next_ticket: u64,
    seed: u64,
    is_closed: bool,
}

impl Spectacle {
    /// Creates a demonstration whose database is not loaded yet.
    pub fn new(config: DataConfig, workers: usize, yield_interval: u32, addresses: Addresses, stop: Stop) -> Spectacle {
        Spectacle {
            config,
            workers,
            yield_interval,
            stop,
            steps: LoadSteps::default(),
            began: Instant::now(),
            history: EventHistory::new(),
            loaded: OnceLock::new(),
            facts: facts::machine(workers, yield_interval, addresses.psql()),
            addresses: Mutex::new(Some(addresses)),
        }
    }

    /// Loads the database, then collects events until the stop. The body of a thread.
    pub fn load(&self) {
        let loaded = self.try_load();
        if let Err(error) = &loaded
            && self.stop.wait(Duration::ZERO).is_ok()
        {
            tracing::error!("the database could not be loaded: {error:#}");
        }
        if loaded.is_err() {
            // A client that waits there for the database waits in vain.
            drop(self.addresses.locked_anyway().take());
        }
        let _ = self.loaded.set(loaded.map_err(|error| format!("{error:#}")));
        if let Some(Ok(loaded)) = self.loaded.get() {
            self.collect(loaded);
        }
    }

    fn try_load(&self) -> anyhow::Result<Loaded> {
        let data = Data::load(&self.config, &self.stop, &self.steps)?;
        let rungs = facts::measure(&self.stop)?;
        let open = |policy| DemoInstance::open(&data, policy, self.workers, self.yield_interval);
        let mut admissions = Policy::ALL.into_iter().map(open).collect::<anyhow::Result<Vec<DemoInstance>>>()?;
        let queries = facts::queries(&data, |query| admissions[Policy::Wait.index()].time(query, &self.stop))?;
        let addresses = self.addresses.locked_anyway().take();
        let wire = addresses.map(|addresses| DemoServers::start(addresses, &data, &admissions)).transpose()?;
        let make = data.new_orders(self.config.seed);
        let admissions =
            DemoInstances { admissions, selected: Policy::Preempt, make, next_ticket: 1, seed: 1, is_closed: false };
        Ok(Loaded {
            data,
            elapsed: self.began.elapsed(),
            rungs,
            queries,
            admissions: Mutex::new(admissions),
            wire: Mutex::new(wire),
        })
    }

    fn collect(&self, loaded: &Loaded) {
        keep_off_workers(self.workers);
        let mut sources: Vec<CollectedInstance> = {
            let admissions = loaded.admissions();
            let source = |admission: &DemoInstance| {
                let (ended, runs) = (Arc::clone(&admission.ended), Arc::clone(&admission.ended_runs));
                CollectedInstance::new(admission.policy, Arc::clone(admission.scheduler()), ended, runs)
            };
            admissions.admissions.iter().map(source).collect()
        };
        while self.stop.wait(COLLECT).is_ok() {
            let schedules: Vec<_> = match loaded.admissions.try_lock() {
                Ok(admissions) => admissions.admissions.iter().map(DemoInstance::schedule).collect(),
                // A command has the lock; the next turn comes soon.
                Err(_) => continue,
            };
            for (source, schedule) in sources.iter_mut().zip(&schedules) {
                source.collect(&loaded.data, schedule.as_ref(), &self.history);
            }
            loaded.data.engine().housekeep(GARBAGE_VERSIONS);
        }
    }

    /// Stops the running work and ends the instances.
    pub fn close(&self) {
        if let Some(Ok(loaded)) = self.loaded.get() {
            // The queries of the servers' sessions run on the instances.
            drop(loaded.wire.locked_anyway().take());
            let mut admissions = loaded.admissions();
            admissions.is_closed = true;
            for admission in &mut admissions.admissions {
                admission.stop_arrivals();
                if let Err(error) = admission.stop_query() {
                    tracing::error!(policy = admission.policy.name(), "{error:#}");
                }
            }
            admissions.admissions.clear();
        }
    }

    fn loaded(&self) -> Result<&Loaded, Error> {
        match self.loaded.get() {
            Some(Ok(loaded)) => Ok(loaded),
            Some(Err(reason)) => Err(Error::Internal(reason.clone())),
            None => Err(Error::Loading),
        }
    }

    fn command<R>(&self, command: impl FnOnce(&Loaded, &mut DemoInstances) -> anyhow::Result<R>) -> Result<R, Error> {
        let loaded = self.loaded()?;
        let mut admissions = loaded.admissions();
        if admissions.is_closed {
            return Err(Error::Conflict("the demonstration is ending".to_owned()));
        }
        command(loaded, &mut admissions).map_err(|error| Error::Internal(format!("{error:#}")))
    }
}

impl Loaded {
    fn admissions(&self) -> MutexGuard<'_, DemoInstances> {
        self.admissions.locked()
    }

    fn query(&self, name: &str) -> Option<LowQuery> {
        self.queries.iter().find(|(info, _)| info.name == name).map(|(_, query)| query.clone())
    }
}

impl DemoInstances {
    fn chosen(&mut self) -> &mut DemoInstance {
        let selected = self.selected.index();
        &mut self.admissions[selected]
    }

    fn next_seed(&mut self) -> u64 {
        self.seed += 1;
        self.seed
    }
}

impl demo::Demo for Spectacle {
    fn facts(&self) -> Facts {
        match self.loaded.get() {
            Some(Ok(loaded)) => facts::with_database(&self.facts, &self.config, &loaded.data, &loaded.rungs),
            _ => self.facts.clone(),
        }
    }

    fn loading(&self) -> LoadProgress {
        match self.loaded.get() {
            None => {
                let step = |step: crate::data::LoadStep| LoadStep {
                    name: step.name.to_owned(),
                    done: step.rows_count,
                    total: step.rows_expected,
                    unit: "rows".to_owned(),
                };
                let steps = self.steps.read().into_iter().map(step).collect();
                LoadProgress::Loading { steps, elapsed_ms: self.began.elapsed().as_millis() as u64 }
            }
            Some(Ok(loaded)) => LoadProgress::Ready { elapsed_ms: loaded.elapsed.as_millis() as u64 },
            Some(Err(reason)) => LoadProgress::Failed { reason: reason.clone() },
        }
    }

    fn queries(&self) -> Vec<QueryInfo> {
        match self.loaded.get() {
            Some(Ok(loaded)) => loaded.queries.iter().map(|(info, _)| info.clone()).collect(),
            _ => facts::query_infos(),
        }
    }

    fn figure1(&self) -> Figure1 {
        facts::figure1()
    }

    fn instances(&self) -> Vec<InstanceInfo> {
        let none = |policy| InstanceInfo {
            policy,
            selected: policy == Policy::Preempt,
            query: None,
            rate_per_s: 0.0,
            waiting_count: 0,
        };
        let Ok(loaded) = self.loaded() else { return Policy::ALL.map(none).into() };
        let admissions = loaded.admissions();
        let info = |admission: &DemoInstance| InstanceInfo {
            policy: admission.policy,
            selected: admission.policy == admissions.selected,
            query: admission.query().map(str::to_owned),
            rate_per_s: admission.rate(),
            waiting_count: admission.waiting_count(),
        };
        admissions.admissions.iter().map(info).collect()
    }

    fn poll(&self, cursor: Cursor) -> Update {
        let workers = match self.loaded() {
            Ok(loaded) => {
                let admissions = loaded.admissions();
                admissions.admissions.get(admissions.selected.index()).map(workers_now).unwrap_or_default()
            }
            Err(_) => Vec::new(),
        };
        self.history.poll(cursor, os::now_ns(), workers)
    }

    fn select(&self, policy: Policy) -> Result<(), Error> {
        self.command(|loaded, admissions| {
            if admissions.selected == policy {
                return Ok(());
            }
            let before = admissions.chosen();
            let (rate, query) = (before.rate(), before.query().map(str::to_owned));
            before.stop_arrivals();
            before.stop_query()?;
            admissions.selected = policy;
            let seed = admissions.next_seed();
            let chosen = admissions.chosen();
            if let Some(query) = query.and_then(|name| loaded.query(&name)) {
                chosen.start_query(query, self.workers)?;
            }
            chosen.set_rate(&loaded.data, rate, seed)
        })
    }

    fn start_query(&self, name: &str) -> Result<(), Error> {
        let query = self.loaded()?.query(name);
        let query = query.ok_or_else(|| Error::Invalid(format!("there is no query \"{name}\"")))?;
        self.command(|_, admissions| admissions.chosen().start_query(query, self.workers))
    }

    fn stop_query(&self) -> Result<(), Error> {
        self.command(|_, admissions| admissions.chosen().stop_query())
    }

    fn issue(&self) -> Result<u64, Error> {
        let issued = self.command(|_, admissions| {
            let ticket = admissions.next_ticket;
            let selected = admissions.selected.index();
            let DemoInstances { admissions: instances, make, .. } = admissions;
            let issued = instances[selected].issue(ticket, make);
            admissions.next_ticket += 1;
            Ok(issued.map(|()| ticket))
        })?;
        issued.map_err(|rejected| Error::Conflict(rejected.to_string()))
    }

    fn set_rate(&self, per_second: f64) -> Result<(), Error> {
        self.command(|loaded, admissions| {
            let seed = admissions.next_seed();
            admissions.chosen().set_rate(&loaded.data, per_second, seed)
        })
    }

    fn clear(&self) {
        self.history.clear();
    }
}

fn workers_now(admission: &DemoInstance) -> Vec<WorkerNow> {
    (0..admission.scheduler().workers())
        .map(|worker| {
            let since_ns = admission.query_since_ns[worker].load(Relaxed);
            let context = match admission.scheduler().worker_mode(worker) {
                None | Some(Mode::Idle) => WorkerContext::Idle,
                Some(Mode::Foreign | Mode::Dense) => WorkerContext::Query,
                Some(Mode::Urgent) => WorkerContext::Urgent,
            };
            WorkerNow {
                worker,
                name: format!("worker {worker} on cpu {}", admission.cpus[worker % admission.cpus.len()]),
                context,
                query_since_ns: (0 < since_ns && context != WorkerContext::Idle).then_some(since_ns),
            }
        })
        .collect()
}
