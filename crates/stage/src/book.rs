//! Sums of the times of stages, by class, transport and isolation level.
//!
//! **Invariant:** counters only grow, and nothing resets them. Each thread that serves sessions has a shard which it
//! alone changes, by loads and stores without a lock; readers add the shards up.

use crate::class::Class;
use crate::clock::{StageClock, StageTimes};
use crate::observe::{ClockRow, RunPartRow, StageRow};
use crate::split::{EVERY, RunPart};
use crate::spread::TimeSpread;
use crate::stages::{IsolationLevel, Stage, Transport};
use crate::ticks::TickSource;
use locked::Locked;
use std::collections::HashMap;
use std::hint::black_box;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Mutex, OnceLock};
use std::thread::{self, ThreadId};

/// Properties by which times are kept apart.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct StageKey {
    /// Class of the statement.
    pub class: Class,
    /// Transport of its session.
    pub transport: Transport,
    /// Isolation level of the procedure that it calls.
    pub isolation: IsolationLevel,
}

const KEYS: usize = Class::ALL.len() * Transport::ALL.len() * IsolationLevel::ALL.len();

impl StageKey {
    fn all() -> impl Iterator<Item = StageKey> {
        Class::ALL.into_iter().flat_map(|class| {
            Transport::ALL.into_iter().flat_map(move |transport| {
                IsolationLevel::ALL.into_iter().map(move |isolation| StageKey { class, transport, isolation })
            })
        })
    }

    fn place(self) -> usize {
        let pair = self.class as usize * Transport::ALL.len() + self.transport as usize;
        pair * IsolationLevel::ALL.len() + self.isolation as usize
    }
}

/// Times of one key.
#[derive(Debug, Default)]
struct KeyTimes {
    stages: [TimeSpread; Stage::COUNT],
    stamps: AtomicU64,
    readings: AtomicU64,
    bookings: AtomicU64,
    /// Nanoseconds of the parts of sampled runs, and the number of these.
    parts: [AtomicU64; RunPart::COUNT],
    sampled: AtomicU64,
}

/// Times of the sessions of one thread.
#[derive(Debug)]
pub struct StageShard {
    keys: [OnceLock<Box<KeyTimes>>; KEYS],
    /// Number of transactions that have begun.
    transactions: AtomicU64,
}

impl Default for StageShard {
    fn default() -> StageShard {
        StageShard { keys: [const { OnceLock::new() }; KEYS], transactions: AtomicU64::new(0) }
    }
}

/// Adds to a counter that no other thread changes.
fn add_alone(to: &AtomicU64, count: u32) {
    to.store(to.load(Relaxed) + u64::from(count), Relaxed);
}

impl StageShard {
    fn of(&self, key: StageKey) -> Option<&KeyTimes> {
        self.keys.get(key.place()).map(|times| &**times.get_or_init(Box::default))
    }

    /// Adds the times of one statement. The shard belongs to the calling thread.
    pub fn add(&self, key: StageKey, times: &StageTimes) {
        // The clock is off, or nothing has happened.
        if times.stamps == 0 {
            return;
        }
        let Some(own) = self.of(key) else { return };
        for (stage, ns) in times.iter() {
            if let Some(spread) = own.stages.get(stage as usize) {
                spread.add_alone(ns);
            }
        }
        add_alone(&own.stamps, times.stamps);
        add_alone(&own.readings, times.readings);
        add_alone(&own.bookings, 1);
        if times.parts != [0; RunPart::COUNT] {
            for (sum, ns) in own.parts.iter().zip(times.parts) {
                sum.store(sum.load(Relaxed) + ns, Relaxed);
            }
            add_alone(&own.sampled, 1);
        }
    }

    /// Counts a transaction that begins. Returns true if its runs are to be split into parts. The shard belongs to the
    /// calling thread.
    pub fn samples_next(&self) -> bool {
        let before = self.transactions.load(Relaxed);
        self.transactions.store(before + 1, Relaxed);
        before.is_multiple_of(EVERY)
    }

    fn known(&self, key: StageKey) -> Option<&KeyTimes> {
        self.keys.get(key.place())?.get().map(|times| &**times)
    }
}

/// Cost of the clock's own work, in nanoseconds, measured on this machine.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct StageCosts {
    /// Cost of a stamp.
    pub stamp_ns: f64,
    /// Cost of reading the processor time of a thread.
    pub reading_ns: f64,
    /// Cost of adding the times of one statement to a shard.
    pub booking_ns: f64,
}

/// Number of trials of which the cheapest counts, and of calls in each.
const TRIALS: usize = 5;
const CALLS: u32 = 200;

impl StageCosts {
    /// Returns the costs of this process. The first call measures them, which takes less than a millisecond.
    pub fn measured() -> StageCosts {
        static COSTS: OnceLock<StageCosts> = OnceLock::new();
        *COSTS.get_or_init(|| StageCosts::measure(&TickSource::system()))
    }

    fn measure(source: &TickSource) -> StageCosts {
        let each = |call: &dyn Fn()| {
            let trial = |_| {
                let begun = source.now();
                (0..CALLS).for_each(|_| call());
                source.ns(source.now().saturating_sub(begun))
            };
            (0..TRIALS).map(trial).min().unwrap_or(0) as f64 / f64::from(CALLS)
        };
        let (clock, shard) = (StageClock::new(source.clone()), StageShard::default());
        let key = StageKey { class: Class::Normal, transport: Transport::Tcp, isolation: IsolationLevel::None };
        let two_stamps = each(&|| {
            clock.enter(Stage::Run);
            clock.enter(Stage::Encode);
        });
        // The usual statement passes eight stages.
        let usual = [Stage::NetworkRead, Stage::Decode, Stage::PlanCached, Stage::Run, Stage::Encode];
        let usual = usual.into_iter().chain([Stage::NetworkWrite, Stage::Unattributed, Stage::Dispatch]);
        let usual: Vec<Stage> = usual.collect();
        let whole = each(&|| {
            for stage in &usual {
                clock.enter(*stage);
            }
            shard.add(key, &clock.take());
        });
        let stamp_ns = two_stamps / 2.0;
        let reading_ns = each(&|| {
            black_box(source.cpu_ns());
        });
        StageCosts { stamp_ns, reading_ns, booking_ns: (whole - stamp_ns * usual.len() as f64).max(0.0) }
    }

    fn ns(&self, stamps: u64, readings: u64, bookings: u64) -> f64 {
        self.stamp_ns * stamps as f64 + self.reading_ns * readings as f64 + self.booking_ns * bookings as f64
    }
}

/// Sums of all threads of a server.
#[derive(Debug, Default)]
pub struct StageBook {
    shards: Mutex<HashMap<ThreadId, Arc<StageShard>>>,
    /// Times that any thread adds.
    shared: Arc<StageShard>,
}

impl StageBook {
    /// Returns the shard of the calling thread.
    pub fn shard(&self) -> Arc<StageShard> {
        Arc::clone(self.shards.locked().entry(thread::current().id()).or_default())
    }

    /// Adds the time of one stage, from any thread, in nanoseconds.
    pub fn add(&self, key: StageKey, stage: Stage, ns: u64) {
        if let Some(spread) = self.shared.of(key).and_then(|own| own.stages.get(stage as usize)) {
            spread.add(ns);
        }
    }

    fn shards(&self) -> Vec<Arc<StageShard>> {
        let own = self.shards.locked().values().cloned().collect::<Vec<_>>();
        own.into_iter().chain([Arc::clone(&self.shared)]).collect()
    }

    /// Returns the times of every stage, for each key with any.
    pub fn rows(&self) -> Vec<StageRow> {
        let (shards, costs) = (self.shards(), StageCosts::measured());
        StageKey::all().flat_map(|key| rows_of(key, &shards, &costs)).collect()
    }

    /// Returns the parts of the runs, for each key with any that was sampled.
    pub fn run_parts(&self) -> Vec<RunPartRow> {
        let shards = self.shards();
        StageKey::all().flat_map(|key| parts_of(key, &shards)).collect()
    }

    /// Returns the state of the clock itself.
    pub fn clock(&self) -> ClockRow {
        let (shards, costs) = (self.shards(), StageCosts::measured());
        let known: Vec<&KeyTimes> =
            StageKey::all().flat_map(|key| shards.iter().filter_map(move |shard| shard.known(key))).collect();
        let sum = |of: fn(&KeyTimes) -> &AtomicU64| known.iter().map(|one| of(one).load(Relaxed)).sum::<u64>();
        let (stamps, readings, bookings) = (sum(|one| &one.stamps), sum(|one| &one.readings), sum(|one| &one.bookings));
        let work_us = self.rows().iter().filter(|row| !row.stage.is_waiting()).map(|row| row.times.total_us).sum();
        ClockRow {
            source: TickSource::system().name(),
            stamp_ns: costs.stamp_ns,
            reading_ns: costs.reading_ns,
            booking_ns: costs.booking_ns,
            stamps,
            readings,
            bookings,
            work_us,
            overhead: share(costs.ns(stamps, readings, bookings) / 1e3, work_us),
        }
    }
}

fn share(part: f64, whole: f64) -> f64 {
    if 0.0 < whole { part / whole } else { 0.0 }
}

fn parts_of(key: StageKey, shards: &[Arc<StageShard>]) -> Vec<RunPartRow> {
    let known: Vec<&KeyTimes> = shards.iter().filter_map(|shard| shard.known(key)).collect();
    let sampled = known.iter().map(|one| one.sampled.load(Relaxed)).sum();
    if sampled == 0 {
        return Vec::new();
    }
    let sum = |part: RunPart| {
        let of = known.iter().filter_map(|one| one.parts.get(part as usize));
        of.map(|ns| ns.load(Relaxed)).sum::<u64>() as f64 / 1e3
    };
    let all: f64 = RunPart::ALL.into_iter().map(sum).sum();
    let runs = TimeSpread::times_of(known.iter().filter_map(|one| one.stages.get(Stage::Run as usize))).total_us;
    let StageKey { class, transport, isolation } = key;
    let row = |part| {
        let (sampled_us, share) = (sum(part), share(sum(part), all));
        RunPartRow { class, transport, isolation, part, sampled, sampled_us, share, total_us: share * runs }
    };
    RunPart::ALL.into_iter().map(row).collect()
}

fn rows_of(key: StageKey, shards: &[Arc<StageShard>], costs: &StageCosts) -> Vec<StageRow> {
    let known: Vec<&KeyTimes> = shards.iter().filter_map(|shard| shard.known(key)).collect();
    if known.is_empty() {
        return Vec::new();
    }
    let times =
        Stage::ALL.map(|stage| TimeSpread::times_of(known.iter().filter_map(|one| one.stages.get(stage as usize))));
    let all: f64 = times.iter().map(|times| times.total_us).sum();
    let pairs = || Stage::ALL.into_iter().zip(times);
    let work: f64 = pairs().filter(|(stage, _)| !stage.is_waiting()).map(|(_, times)| times.total_us).sum();
    let sum = |of: fn(&KeyTimes) -> &AtomicU64| known.iter().map(|one| of(one).load(Relaxed)).sum::<u64>();
    let cost_us = costs.ns(sum(|one| &one.stamps), sum(|one| &one.readings), sum(|one| &one.bookings)) / 1e3;
    let StageKey { class, transport, isolation } = key;
    let row = |(stage, times): (Stage, crate::observe::Times)| StageRow {
        class,
        transport,
        isolation,
        stage,
        times,
        share: share(times.total_us, all),
        overhead: share(cost_us, work),
    };
    pairs().map(row).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ticks::ManualTicks;

    const KEY: StageKey = StageKey { class: Class::High, transport: Transport::Unix, isolation: IsolationLevel::None };

    #[test]
    fn shards_of_threads_are_one_row() {
        let book = Arc::new(StageBook::default());
        let own = Arc::clone(&book);
        let add = move || {
            let manual = ManualTicks::new();
            let clock = StageClock::new(TickSource::Manual(Arc::clone(&manual)));
            clock.enter(Stage::Run);
            manual.run_for(3_000);
            clock.enter(Stage::LockWait);
            manual.pass(1_000);
            clock.rest();
            own.shard().add(KEY, &clock.take());
        };
        add();
        std::thread::spawn(add).join().expect("no panic");
        book.add(KEY, Stage::Gate, 2_000);
        let rows = book.rows();
        assert_eq!(rows.len(), Stage::COUNT);
        let of = |stage| rows.iter().find(|row| row.stage == stage).expect("a row");
        assert_eq!((of(Stage::Run).times.count, of(Stage::Run).times.total_us), (2, 6.0));
        assert_eq!((of(Stage::LockWait).times.total_us, of(Stage::LockWait).share), (2.0, 0.2));
        assert_eq!((of(Stage::Gate).times.total_us, of(Stage::Gate).transport), (2.0, Transport::Unix));
        assert_eq!(of(Stage::Plan).times.count, 0);
        // Six stamps and two bookings in 6 us of work.
        let costs = StageCosts::measured();
        let wanted = (6.0 * costs.stamp_ns + 2.0 * costs.booking_ns) / 6_000.0;
        assert!((of(Stage::Run).overhead - wanted).abs() < 1e-9, "{} is not {wanted}", of(Stage::Run).overhead);
        let clock = book.clock();
        assert_eq!((clock.stamps, clock.bookings, clock.work_us), (6, 2, 6.0));
    }

    #[test]
    fn runs_are_divided_as_the_sampled_ones_were() {
        let book = StageBook::default();
        let shard = book.shard();
        assert_eq!((0..=2 * EVERY).filter(|_| shard.samples_next()).count(), 3);
        assert_eq!(book.run_parts(), []);
        book.add(KEY, Stage::Run, 900_000);
        let mut times = StageTimes::default();
        times.parts[RunPart::Index as usize] = 100;
        times.parts[RunPart::Other as usize] = 200;
        times.stamps = 1;
        shard.add(KEY, &times);
        let rows = book.run_parts();
        let of = |part| rows.iter().find(|row| row.part == part).expect("a row");
        assert_eq!((of(RunPart::Index).sampled, of(RunPart::Index).sampled_us), (1, 0.1));
        assert!((of(RunPart::Index).total_us - 300.0).abs() < 1e-6, "{rows:?}");
        assert!((of(RunPart::Other).share - 2.0 / 3.0).abs() < 1e-9 && of(RunPart::Commit).total_us == 0.0, "{rows:?}");
    }

    #[test]
    fn keys_have_places_of_their_own() {
        let places: Vec<usize> = StageKey::all().map(StageKey::place).collect();
        assert_eq!(places, (0..KEYS).collect::<Vec<_>>());
    }

    #[test]
    fn costs_are_measured() {
        let costs = StageCosts::measured();
        assert!(0.0 < costs.stamp_ns && costs.stamp_ns < 100_000.0, "{costs:?}");
        assert!(0.0 < costs.reading_ns, "{costs:?}");
    }
}
