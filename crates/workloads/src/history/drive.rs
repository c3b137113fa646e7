//! The generator: sessions on several threads, which interrupt each other at random.
//!
//! **Invariant:** whatever interrupts a session is a session of its own, with a class of its own; so rows change hands in
//! every way the engine knows. A round has a fresh engine, and is judged when all its sessions have ended.

use super::notes::{Attempt, Change, Commit, End, KEYS_MAX, Note, Recorder, value_of};
use super::resolve::resolve;
use super::statement::{Statement, Writer, row_values, run, table_def};
use super::{Anomaly, Findings, check, expected, forbidden};
use crate::tpcc::Random;
use engine::{Begin, Engine, EngineConfig, Error, Isolation, RedoWhat, Result, Table, Txn, Value};
use preempt::{Arrival, Delivery, Latch, Serve, Worker, no_preempt};
use stage::Class;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicI64, AtomicU64, Ordering::SeqCst};
use std::time::Duration;

/// How a round runs.
#[derive(Debug, Clone, Copy)]
pub struct RoundConfig {
    /// The level of its transactions.
    pub isolation: Isolation,
    /// Its threads.
    pub threads: usize,
    /// The sessions of each thread, besides the one that interrupts them.
    pub sessions: usize,
    /// The transactions of all of them; those that interrupt come on top.
    pub transactions: u64,
    /// The keys, at most [`KEYS_MAX`].
    pub keys: usize,
    /// Makes the transactions. Who meets whom depends on the machine, too.
    pub seed: u64,
}

/// What a round, or several, came to.
#[derive(Debug, Default)]
pub struct Outcome {
    /// Transactions that committed.
    pub committed: u64,
    /// Transactions that did not, by the reason.
    pub aborted: BTreeMap<&'static str, u64>,
    /// Transactions that ran in an urgent context.
    pub urgent: u64,
    /// Anomalies.
    pub findings: Findings,
    /// What is wrong at any level, in words.
    pub faults: Vec<String>,
    /// The history in which something was wrong first.
    pub evidence: Option<String>,
}

impl Outcome {
    /// Adds another one.
    pub fn add(&mut self, other: Outcome) {
        self.committed += other.committed;
        self.urgent += other.urgent;
        for (why, count) in other.aborted {
            *self.aborted.entry(why).or_default() += count;
        }
        self.findings.add(other.findings);
        self.faults.extend(other.faults);
        self.evidence = self.evidence.take().or(other.evidence);
    }

    /// The anomalies found that the level forbids.
    pub fn forbidden(&self, isolation: Isolation) -> Vec<Anomaly> {
        forbidden(isolation).iter().copied().filter(|anomaly| 0 < self.findings.count(*anomaly)).collect()
    }

    /// The anomalies not found that the level lets happen.
    pub fn missing(&self, isolation: Isolation) -> Vec<Anomaly> {
        expected(isolation).iter().copied().filter(|anomaly| self.findings.count(*anomaly) == 0).collect()
    }

    /// Whether something happened that must not.
    pub fn is_wrong(&self, isolation: Isolation) -> bool {
        !self.faults.is_empty() || !self.forbidden(isolation).is_empty()
    }
}

/// Runs one round and judges it.
///
/// # Panics
/// When there are no threads, sessions or keys, or too many keys; when a thread cannot be a worker.
pub fn round(config: &RoundConfig) -> Outcome {
    assert!(0 < config.threads * config.sessions);
    assert!((1..=KEYS_MAX).contains(&config.keys));
    let shared = Arc::new(Shared::new(config));
    let stop = AtomicBool::new(false);
    let attempts: Vec<Attempt> = std::thread::scope(|scope| {
        let threads: Vec<_> = (0..config.threads)
            .map(|thread| {
                scope.spawn({
                    let shared = &shared;
                    move || work(shared, thread)
                })
            })
            .collect();
        let storm = scope.spawn(|| blow(&shared, &stop));
        let attempts = threads.into_iter().flat_map(|thread| thread.join().expect("no session panics")).collect();
        stop.store(true, SeqCst);
        storm.join().expect("the storm does not panic");
        attempts
    });
    judge(config, &shared, attempts)
}

/// What the threads of a round share.
struct Shared {
    engine: Engine,
    table: Arc<Table>,
    log: Arc<Recorder>,
    config: RoundConfig,
    /// Transactions to begin.
    left: AtomicI64,
    /// Attempts begun.
    numbers: AtomicU64,
    /// The greatest timestamp that a client was told of.
    told: AtomicU64,
}

impl Shared {
    fn new(config: &RoundConfig) -> Shared {
        let log = Arc::new(Recorder::new());
        let engine = Engine::new(EngineConfig { log: log.clone(), ..EngineConfig::in_memory() });
        let table = engine.create_table(table_def()).expect("the definition makes sense");
        let txn = engine.begin(Begin::new(Class::Normal));
        // Two of three keys exist at the beginning.
        for key in (0..config.keys).filter(|key| key % 3 != 2) {
            txn.insert(&table, &row_values(key, value_of(0, key as u64))).expect("the table was empty");
        }
        txn.commit().expect("nobody else is there");
        let left = AtomicI64::new(config.transactions as i64);
        Shared { engine, table, log, config: *config, left, numbers: AtomicU64::new(0), told: AtomicU64::new(0) }
    }

    fn begin(&self, session: usize, random: &mut Random) -> Open<'_> {
        let class = Class::ALL[random.uniform(0, 2) as usize];
        let begin = Begin::new(class).isolation(self.config.isolation);
        let may_write = !random.percent(15);
        let begin = if may_write { begin } else { begin.read_only() };
        let number = self.numbers.fetch_add(1, SeqCst) + 1;
        let floor = self.told.load(SeqCst);
        let txn = self.engine.begin(begin);
        let notes = vec![Note::Statement { snapshot: txn.snapshot_number(), floor }];
        Open {
            txn,
            attempt: Attempt { number, session, notes, end: End::Aborted("left") },
            writer: Writer { number, values: 0 },
            left: random.uniform(1, 6),
            may_write,
        }
    }
}

/// A transaction under way.
struct Open<'e> {
    txn: Txn<'e>,
    attempt: Attempt,
    writer: Writer,
    /// Statements to come.
    left: i32,
    may_write: bool,
}

impl<'e> Open<'e> {
    /// Runs one more statement, or ends the transaction.
    fn step(mut self, shared: &'e Shared, random: &mut Random) -> Result<Open<'e>, Attempt> {
        if self.left == 0 {
            return Err(self.end(shared, random));
        }
        self.left -= 1;
        let statement = Statement::random(random, shared.config.keys, self.may_write);
        let mut notes = Vec::new();
        match run(&self.txn, &shared.table, statement, &mut self.writer, &mut notes) {
            Ok(()) => {
                self.attempt.notes.append(&mut notes);
                Ok(self)
            }
            Err(error) => Err(self.failed(&error)),
        }
    }

    fn failed(mut self, error: &Error) -> Attempt {
        self.attempt.end = End::Aborted(reason(error));
        self.attempt
    }

    fn end(mut self, shared: &Shared, random: &mut Random) -> Attempt {
        if random.percent(7) {
            self.attempt.end = End::Aborted("rolled back");
            return self.attempt;
        }
        let wrote = self.attempt.notes.iter().any(|note| matches!(note, Note::Wrote { .. } | Note::Removed { .. }));
        self.attempt.end = match self.txn.commit() {
            Ok(_) if !wrote => End::Read,
            Ok(position) => {
                shared.told.fetch_max(position.0, SeqCst);
                End::Wrote(position.0)
            }
            Err(error) => End::Aborted(reason(&error)),
        };
        self.attempt
    }
}

/// Why an attempt ended. What is not among them is a fault.
fn reason(error: &Error) -> &'static str {
    match error {
        Error::WriteConflict { .. } => "write conflict",
        Error::SerializationFailure => "serialization failure",
        Error::Taken => "taken",
        _ => UNEXPECTED,
    }
}

const UNEXPECTED: &str = "an error that no transaction should get";

/// The sessions of one thread, in turns at random.
fn work(shared: &Arc<Shared>, thread: usize) -> Vec<Attempt> {
    let RoundConfig { sessions: count, seed, .. } = shared.config;
    let mut random = Random::new(seed ^ (thread as u64 + 1) << 32);
    let first = thread * (count + 1);
    let nested = Nested { random: random.clone(), attempts: Vec::new(), session: first + count };
    let urgent = Arc::new(Urgent { shared: shared.clone(), nested: Latch::new(Some(nested)) });
    let registration = preempt::register("history", urgent.clone()).expect("a thread of ours can be a worker");
    let mut sessions: Vec<Option<Open<'_>>> = (0..count).map(|_| None).collect();
    let mut attempts = Vec::new();
    loop {
        let at = random.uniform(0, count as i32 - 1) as usize;
        let open = match sessions[at].take() {
            Some(open) => open,
            None if 0 < shared.left.fetch_sub(1, SeqCst) => shared.begin(first + at, &mut random),
            None if sessions.iter().all(Option::is_none) => break,
            None => continue,
        };
        match open.step(shared, &mut random) {
            Ok(open) => sessions[at] = Some(open),
            Err(attempt) => attempts.push(attempt),
        }
    }
    drop(registration);
    let nested = no_preempt(|no_preempt| urgent.nested.lock(no_preempt).take());
    attempts.extend(nested.expect("nobody interrupts a worker that is none").attempts);
    attempts
}

/// What interrupts a thread's sessions: a transaction from beginning to end.
struct Urgent {
    shared: Arc<Shared>,
    nested: Latch<Option<Nested>>,
}

struct Nested {
    random: Random,
    attempts: Vec<Attempt>,
    session: usize,
}

impl Serve for Urgent {
    fn serve(&self, _worker: &'static Worker, _arrival: Arrival) {
        let nested = no_preempt(|no_preempt| self.nested.lock(no_preempt).take());
        let Some(mut nested) = nested else { return };
        let mut open = self.shared.begin(nested.session, &mut nested.random);
        let attempt = loop {
            match open.step(&self.shared, &mut nested.random) {
                Ok(still) => open = still,
                Err(attempt) => break attempt,
            }
        };
        nested.attempts.push(attempt);
        no_preempt(|no_preempt| *self.nested.lock(no_preempt) = Some(nested));
    }
}

/// Between two interrupts.
const GAP: Duration = Duration::from_micros(200);

/// Interrupts random workers, and has old versions freed and frozen in between.
fn blow(shared: &Shared, stop: &AtomicBool) {
    let mut random = Random::new(shared.config.seed);
    while !stop.load(SeqCst) {
        let workers: Vec<&'static Worker> = preempt::workers().collect();
        if !workers.is_empty() {
            preempt::Signal.send(workers[random.word() as usize % workers.len()]);
        }
        if random.percent(10) {
            shared.engine.freeze(u64::MAX);
            shared.engine.collect_garbage(usize::MAX);
        }
        std::thread::sleep(GAP.mul_f64(f64::from(random.uniform(0, 200)) / 100.0));
    }
}

/// From what was noted to what it means.
fn judge(config: &RoundConfig, shared: &Shared, attempts: Vec<Attempt>) -> Outcome {
    let mut outcome = Outcome::default();
    for attempt in &attempts {
        outcome.urgent += u64::from(attempt.session % (config.sessions + 1) == config.sessions);
        match attempt.end {
            End::Read | End::Wrote(_) => outcome.committed += 1,
            End::Aborted(why) => *outcome.aborted.entry(why).or_default() += 1,
        }
    }
    let commits = shared.log.take().iter().map(|record| decode(&shared.engine, record)).collect::<Result<Vec<_>>>();
    let commits = match commits {
        Ok(commits) => commits,
        Err(error) => {
            outcome.faults.push(error.to_string());
            return outcome;
        }
    };
    let resolved = resolve(config.keys, attempts.clone(), commits);
    outcome.findings = check(&resolved.history);
    outcome.faults = resolved.faults;
    if let Some(count) = outcome.aborted.get(UNEXPECTED) {
        outcome.faults.push(format!("{count} transactions met {UNEXPECTED}"));
    }
    if outcome.is_wrong(config.isolation) {
        outcome.evidence = Some(evidence(config, &outcome, attempts));
    }
    outcome
}

fn decode(engine: &Engine, record: &[u8]) -> Result<Commit> {
    let (timestamp, changes) = engine.decode_redo(record)?;
    let number = |value: Option<Value<'_>>| match value {
        Some(Value::Int64(number)) => Some(number as u64),
        _ => None,
    };
    let changes = changes.into_iter().map(|change| {
        let row = change.row.0;
        match change.what {
            RedoWhat::Insert(values) => {
                let [key, _, value] = [0, 1, 2].map(|column| number(values.get(column).copied()));
                Change { row, key: key.map(|key| key as usize), value, is_delete: false }
            }
            RedoWhat::Update(columns) => {
                let column = |at| number(columns.iter().find(|(column, _)| *column == at).map(|(_, value)| *value));
                Change { row, key: column(0).map(|key| key as usize), value: column(2), is_delete: false }
            }
            RedoWhat::Delete => Change { row, key: None, value: None, is_delete: true },
        }
    });
    Ok(Commit { timestamp, changes: changes.collect() })
}

/// The whole history as text, behind what is wrong with it.
fn evidence(config: &RoundConfig, outcome: &Outcome, mut attempts: Vec<Attempt>) -> String {
    let mut text = format!("{config:?}\n");
    outcome.faults.iter().for_each(|fault| text.push_str(&format!("{fault}\n")));
    for (anomaly, example) in &outcome.findings.examples {
        let count = outcome.findings.count(*anomaly);
        text.push_str(&format!("\n{} {count} times, for instance:\n{}", anomaly.name(), example.words));
    }
    text.push('\n');
    attempts.sort_by_key(|attempt| attempt.number);
    attempts.iter().for_each(|attempt| text.push_str(&format!("{attempt:x?}\n")));
    text
}
