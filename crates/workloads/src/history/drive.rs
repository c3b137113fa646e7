//! The generator: sessions on several threads, which interrupt each other at random.
//!
//! **Invariant:** an interrupt of a session runs in a session of its own, with a class of its own, so rows change hands
//! in every way the engine knows. A round has a fresh engine, and is judged when all its sessions have ended.

use super::notes::{Attempt, Change, Commit, End, KEYS_MAX, Note, Recorder, value_of};
use super::resolve::resolve;
use super::statement::{HistoryStatement, ValueWriter, row_values, run, table_def};
use super::{Anomaly, Findings, check, expected, forbidden};
use crate::tpcc::Random;
use engine::{
    Begin, Engine, EngineConfig, Error, Isolation, LockConfig, LockPriority, RedoWhat, Result, Savepoint, Session,
    SessionOptions, Step, Table, Ticket, Value,
};
use preempt::{Arrival, Delivery, Latch, Serve, Worker, no_preempt, os};
use stage::Class;
use statement::error::state_of;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicI64, AtomicU64, Ordering::SeqCst};
use std::time::Duration;

/// Parameters of a round.
#[derive(Debug, Clone, Copy)]
pub struct RoundConfig {
    /// Isolation level of the transactions.
    pub isolation: Isolation,
    /// Number of threads.
    pub threads: usize,
    /// Number of sessions of each thread, besides the one that interrupts them.
    pub sessions: usize,
    /// Number of transactions of all threads together; those that interrupt come on top.
    pub transactions: u64,
    /// Number of keys, at most [`KEYS_MAX`].
    pub keys: usize,
    /// Seed of the transactions. Which transactions meet depends on the machine, too.
    pub seed: u64,
}

/// Result of one or several rounds.
#[derive(Debug, Default)]
pub struct RoundOutcome {
    /// Number of transactions that committed.
    pub committed: u64,
    /// Number of transactions that aborted, by the reason.
    pub aborted: BTreeMap<&'static str, u64>,
    /// Number of transactions that ran in an urgent context.
    pub urgent: u64,
    /// Anomalies found.
    pub findings: Findings,
    /// Faults at any level, in words.
    pub faults: Vec<String>,
    /// First history in which something was wrong.
    pub evidence: Option<String>,
}

impl RoundOutcome {
    /// Adds the result of another round.
    pub fn add(&mut self, other: RoundOutcome) {
        self.committed += other.committed;
        self.urgent += other.urgent;
        for (why, count) in other.aborted {
            *self.aborted.entry(why).or_default() += count;
        }
        self.findings.add(other.findings);
        self.faults.extend(other.faults);
        self.evidence = self.evidence.take().or(other.evidence);
    }

    /// Returns the anomalies found that the level forbids.
    pub fn forbidden(&self, isolation: Isolation) -> Vec<Anomaly> {
        forbidden(isolation).iter().copied().filter(|anomaly| 0 < self.findings.count(*anomaly)).collect()
    }

    /// Returns the anomalies not found that the level allows.
    pub fn missing(&self, isolation: Isolation) -> Vec<Anomaly> {
        expected(isolation).iter().copied().filter(|anomaly| self.findings.count(*anomaly) == 0).collect()
    }

    /// Returns true if something happened that the level forbids, or a fault was found.
    pub fn is_wrong(&self, isolation: Isolation) -> bool {
        !self.faults.is_empty() || !self.forbidden(isolation).is_empty()
    }
}

/// Runs one round and judges it.
///
/// # Panics
/// If there are no threads, sessions or keys, or too many keys; if a thread cannot be a worker.
pub fn round(config: &RoundConfig) -> RoundOutcome {
    assert!(0 < config.threads * config.sessions);
    assert!((1..=KEYS_MAX).contains(&config.keys));
    let shared = Arc::new(RoundState::new(config));
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

/// State shared by the threads of a round.
struct RoundState {
    engine: Engine,
    table: Arc<Table>,
    log: Arc<Recorder>,
    config: RoundConfig,
    /// Number of transactions still to begin.
    left: AtomicI64,
    /// Number of attempts begun.
    numbers: AtomicU64,
    /// Greatest timestamp that a client was told of.
    told: AtomicU64,
}

impl RoundState {
    fn new(config: &RoundConfig) -> RoundState {
        let log = Arc::new(Recorder::new());
        let engine = Engine::new(EngineConfig { log: log.clone(), ..EngineConfig::in_memory() });
        let table = engine.create_table(table_def()).expect("the definition makes sense");
        let txn = engine.begin(Begin::new(Class::Normal));
        // Two of three keys exist at the beginning.
        for key in (0..config.keys).filter(|key| key % 3 != 2) {
            txn.insert(&table, &row_values(key, value_of(0, key as u64))).expect("the table was empty");
        }
        txn.commit().expect("nobody else is there");
        // The treatment of a lock that a more important session wants: each of the ways in turn.
        let priority = LockPriority::ALL[config.seed as usize % LockPriority::ALL.len()];
        engine.set_lock_config(LockConfig { priority, ..engine.lock_config() });
        let left = AtomicI64::new(config.transactions as i64);
        RoundState { engine, table, log, config: *config, left, numbers: AtomicU64::new(0), told: AtomicU64::new(0) }
    }

    /// Chooses the options of the next transaction's beginning, and whether it may write.
    fn plan(&self, random: &mut Random) -> (Begin, bool) {
        let class = Class::ALL[random.uniform(0, 2) as usize];
        let begin = Begin::new(class).isolation(self.config.isolation);
        let may_write = !random.percent(15);
        (if may_write { begin } else { begin.read_only() }, may_write)
    }
}

/// Session of a thread, and its transaction under way.
struct RoundClient {
    number: usize,
    session: Session,
    open: Option<OpenTransaction>,
}

/// Transaction under way.
struct OpenTransaction {
    attempt: Attempt,
    writer: ValueWriter,
    /// Number of steps to come.
    left: i32,
    may_write: bool,
    savepoints: Vec<Savepoint>,
    /// Commits that were known before the snapshot of the transaction, or of its statement, was taken.
    floor: Option<u64>,
    /// Statement that waits.
    waits_with: Option<(HistoryStatement, Ticket)>,
}

/// Result of a client's step.
enum StepResult {
    /// The transaction goes on.
    More,
    /// The client's statement waits.
    Waits,
    /// The transaction is over.
    Ended(Attempt),
}

impl RoundClient {
    fn new(shared: &RoundState, number: usize) -> RoundClient {
        let options = SessionOptions { name: format!("history {number}"), ..SessionOptions::new(Class::Normal) };
        RoundClient { number, session: shared.engine.session(options), open: None }
    }

    fn waits(&self) -> bool {
        let waiting = self.open.as_ref().and_then(|open| open.waits_with.as_ref());
        waiting.is_some_and(|(_, ticket)| !ticket.is_ready())
    }

    /// Runs one step: a beginning, a statement, something about savepoints, or an end.
    fn step(&mut self, shared: &RoundState, random: &mut Random) -> StepResult {
        let Some(mut open) = self.open.take() else {
            let (begin, may_write) = shared.plan(random);
            let number = shared.numbers.fetch_add(1, SeqCst) + 1;
            let attempt =
                Attempt { number, session: self.number, notes: Vec::new(), end: End::Aborted("left at the end") };
            let mut open = OpenTransaction {
                attempt,
                writer: ValueWriter { number, values: 0 },
                left: random.uniform(1, 8),
                may_write,
                savepoints: Vec::new(),
                floor: None,
                waits_with: None,
            };
            if let Err(error) = self.session.begin(begin) {
                open.attempt.end = End::Aborted(reason(&error));
                return StepResult::Ended(open.attempt);
            }
            self.open = Some(open);
            return StepResult::More;
        };
        let result = match open.waits_with.take() {
            Some((statement, ticket)) if !ticket.is_ready() => {
                if random.percent(1) && random.percent(1) {
                    self.session.canceller().cancel();
                }
                open.waits_with = Some((statement, ticket));
                Ok(())
            }
            Some((statement, _)) => self.execute(shared, &mut open, statement),
            None if open.left == 0 => return StepResult::Ended(self.end(shared, open, random)),
            None => {
                open.left -= 1;
                match random.uniform(1, 20) {
                    1 if open.savepoints.len() < 2 => self.session.savepoint().map(|savepoint| {
                        open.savepoints.push(savepoint);
                        open.attempt.notes.push(Note::Savepoint);
                    }),
                    2 if !open.savepoints.is_empty() => self.roll_back_to_last(&mut open),
                    3 if !open.savepoints.is_empty() => {
                        let last = open.savepoints.pop().expect("there is one");
                        self.session.release(&last).map(|()| open.attempt.notes.push(Note::Released))
                    }
                    _ => {
                        let statement = HistoryStatement::random(random, shared.config.keys, open.may_write);
                        if open.floor.is_none() || shared.config.isolation == Isolation::ReadCommitted {
                            open.floor = Some(shared.told.load(SeqCst));
                        }
                        self.execute(shared, &mut open, statement)
                    }
                }
            }
        };
        let result = match result {
            // If the whole transaction is lost, so are its savepoints.
            Err(error) if !open.savepoints.is_empty() && random.percent(60) => {
                self.roll_back_to_last(&mut open).map_err(|_| error)
            }
            result => result,
        };
        if let Err(error) = result {
            self.session.rollback();
            open.attempt.end = End::Aborted(reason(&error));
            return StepResult::Ended(open.attempt);
        }
        let waits = open.waits_with.is_some();
        self.open = Some(open);
        if waits { StepResult::Waits } else { StepResult::More }
    }

    fn execute(&mut self, shared: &RoundState, open: &mut OpenTransaction, statement: HistoryStatement) -> Result<()> {
        let floor = open.floor.unwrap_or(0);
        let mut notes = Vec::new();
        let step = self.session.try_execute(|txn| {
            notes.push(Note::Statement { snapshot: txn.snapshot_number(), floor });
            run(txn, &shared.table, statement, &mut open.writer, &mut notes)
        })?;
        match step {
            Step::Done(()) => open.attempt.notes.append(&mut notes),
            Step::Parked(ticket) => open.waits_with = Some((statement, ticket)),
        }
        Ok(())
    }

    fn roll_back_to_last(&mut self, open: &mut OpenTransaction) -> Result<()> {
        let last = open.savepoints.last().expect("whoever asks has a savepoint");
        self.session.rollback_to(last)?;
        open.attempt.notes.extend([Note::RolledBack, Note::Savepoint]);
        Ok(())
    }

    fn end(&mut self, shared: &RoundState, mut open: OpenTransaction, random: &mut Random) -> Attempt {
        if random.percent(7) {
            self.session.rollback();
            open.attempt.end = End::Aborted("rolled back");
            return open.attempt;
        }
        let wrote = open.attempt.has_written();
        open.attempt.end = match self.session.commit() {
            Ok(position) if !wrote => End::Read(position.0),
            Ok(position) => {
                shared.told.fetch_max(position.0, SeqCst);
                End::Wrote(position.0)
            }
            Err(error) => End::Aborted(reason(&error)),
        };
        open.attempt
    }

    /// Rolls back the open transaction.
    fn leave(&mut self) -> Option<Attempt> {
        self.session.rollback();
        self.open.take().map(|open| open.attempt)
    }
}

/// Returns the reason of an attempt's end. An error not listed here is a fault.
fn reason(error: &Error) -> &'static str {
    match error {
        Error::WriteConflict { .. } => "write conflict",
        Error::SerializationFailure => "serialization failure",
        Error::Taken => "taken",
        Error::Deadlock(_) => "deadlock",
        Error::LockNotAvailable(_) => "lock not available",
        Error::Cancelled => "cancelled",
        other => state_of(other).0,
    }
}

/// Returns true if a transaction of a round may end for this reason.
fn is_expected(why: &str) -> bool {
    // An error without a name here is told by its SQLSTATE.
    why.contains(|letter: char| letter.is_ascii_lowercase())
}

/// Runs the sessions of one thread, in turns at random.
fn work(shared: &Arc<RoundState>, thread: usize) -> Vec<Attempt> {
    let RoundConfig { sessions: count, seed, .. } = shared.config;
    let mut random = Random::new(seed ^ (thread as u64 + 1) << 32);
    let first = thread * (count + 1);
    let nested =
        Nested { random: random.clone(), attempts: Vec::new(), client: RoundClient::new(shared, first + count) };
    let urgent = Arc::new(Urgent { shared: shared.clone(), nested: Latch::new(Some(nested)) });
    let registration = preempt::register("history", urgent.clone()).expect("a thread of ours can be a worker");
    let mut clients: Vec<RoundClient> = (0..count).map(|at| RoundClient::new(shared, first + at)).collect();
    let mut attempts = Vec::new();
    loop {
        let client = &mut clients[random.uniform(0, count as i32 - 1) as usize];
        if client.open.is_none() && shared.left.fetch_sub(1, SeqCst) <= 0 {
            if clients.iter().all(|client| client.open.is_none()) {
                break;
            }
            continue;
        }
        match client.step(shared, &mut random) {
            StepResult::More => {}
            StepResult::Ended(attempt) => attempts.push(attempt),
            StepResult::Waits => {
                shared.engine.expire_waits(os::now_ns());
                if clients.iter().all(RoundClient::waits) {
                    std::thread::yield_now();
                }
            }
        }
    }
    drop(registration);
    let nested = no_preempt(|no_preempt| urgent.nested.lock(no_preempt).take());
    let mut nested = nested.expect("nobody interrupts a worker that is none");
    attempts.append(&mut nested.attempts);
    attempts.extend(nested.client.leave());
    attempts
}

/// Session that interrupts a thread's sessions. Where it must wait, it goes on at a later interrupt.
struct Urgent {
    shared: Arc<RoundState>,
    nested: Latch<Option<Nested>>,
}

struct Nested {
    random: Random,
    attempts: Vec<Attempt>,
    client: RoundClient,
}

impl Serve for Urgent {
    fn serve(&self, _worker: &'static Worker, _arrival: Arrival) {
        let nested = no_preempt(|no_preempt| self.nested.lock(no_preempt).take());
        let Some(mut nested) = nested else { return };
        loop {
            match nested.client.step(&self.shared, &mut nested.random) {
                StepResult::More => {}
                StepResult::Waits => break,
                StepResult::Ended(attempt) => {
                    nested.attempts.push(attempt);
                    break;
                }
            }
        }
        no_preempt(|no_preempt| *self.nested.lock(no_preempt) = Some(nested));
    }
}

/// Time between two interrupts.
const GAP: Duration = Duration::from_micros(200);

/// Interrupts random workers, and has old versions freed and frozen in between.
fn blow(shared: &RoundState, stop: &AtomicBool) {
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

/// Derives the result of a round from the notes of its attempts.
fn judge(config: &RoundConfig, shared: &RoundState, attempts: Vec<Attempt>) -> RoundOutcome {
    let mut outcome = RoundOutcome::default();
    for attempt in &attempts {
        outcome.urgent += u64::from(attempt.session % (config.sessions + 1) == config.sessions);
        match attempt.end {
            End::Read(_) | End::Wrote(_) => outcome.committed += 1,
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
    for (why, count) in outcome.aborted.iter().filter(|(why, _)| !is_expected(why)) {
        outcome.faults.push(format!("{count} transactions met the error {why}, which none of these should"));
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

/// Returns the whole history as text, after a list of its faults.
fn evidence(config: &RoundConfig, outcome: &RoundOutcome, mut attempts: Vec<Attempt>) -> String {
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
