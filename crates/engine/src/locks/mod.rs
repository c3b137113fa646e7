//! The lock table: everything about locks that an end word does not tell.
//!
//! **Invariant:** a transaction that finds no mark on a row, before its claim and after it, has nothing to do with this
//! module. See `README.md` here for the protocol.
//!
//! - `mode`: modes and their conflicts; `key`: keys of locks;
//! - `entry`: holders and waiters of a key; this file: the table of entries;
//! - `waiter`: a session that waits; `advisory`: locks that it holds beyond its transactions;
//! - `deadlock`, `press`: the choice of the transaction that gives way; `clock`: patience and timeouts; `settings`,
//!   `tally`: parameters and statistics.

mod advisory;
mod clock;
mod deadlock;
mod entry;
mod key;
mod mode;
mod press;
mod settings;
mod tally;
mod view;
mod waiter;

pub(crate) use entry::{Holders, Obstacles, Unknown, Who, is_session};
pub(crate) use key::Key;
pub use key::{Advisory, Waited, WantedLock};
pub(crate) use mode::Mode;
pub use mode::{RowLock, TableLock, Wait};
pub use settings::{LockConfig, LockPriority};
pub use tally::{LockStats, Taking};
pub use view::LockView;
pub use waiter::Wake;
pub(crate) use waiter::{Outcome, Phase, Waiter};

use crate::error::Limit;
use crate::error::{Error, Result};
use crate::raw::slots::Registry;
use crate::sync::{AtomicU32, AtomicU64, Latch, Relaxed, SeqCst};
use entry::{Foreign, Granted, LockEntry, QueuePlace};
use key::Mixed;
use preempt::{Region, os};
use settings::Settings;
use std::collections::{BTreeMap, HashMap};
use std::hash::BuildHasherDefault;
use std::sync::Arc;
pub(crate) use tally::{Tally, class_of};
use waiter::Ended;

const MARKS: usize = if cfg!(feature = "shuttle") { 4 } else { 4096 };
const STRIPES: usize = if cfg!(feature = "shuttle") { 2 } else { 256 };
/// Number of bits that tell tables apart in a transaction's record of the tables that it has written.
pub(crate) const TABLE_BITS: u32 = 64;
/// Entries that a stripe keeps for reuse.
const SPARE_MAX: usize = 16;
/// Entries that a stripe keeps room for.
const ROOM_KEPT: usize = 64;

/// A number on a line of its own.
#[repr(align(128))]
struct PaddedCounter(AtomicU64);

#[derive(Default)]
struct Stripe {
    entries: HashMap<Key, LockEntry, BuildHasherDefault<Mixed>>,
    spare: Vec<LockEntry>,
}

/// The lock table of one engine.
pub(crate) struct LockTable {
    /// Number of locks and places in all entries.
    active: PaddedCounter,
    /// Number of them in entries whose key falls here.
    marks: Box<[AtomicU32]>,
    /// Number of them on tables with these bits, in modes that exclude writers.
    strong: Box<[AtomicU32]>,
    /// Number of them on tables with these bits, in modes that exclude readers.
    exclusive: Box<[AtomicU32]>,
    stripes: Box<[Latch<Stripe>]>,
    /// Sessions in queues, by the time at which the clock is to look at them, and id.
    waiting: Latch<BTreeMap<(u64, u64), Arc<Waiter>>>,
    /// For each slot, the session whose open transaction waits.
    parked: Box<[Latch<Option<Arc<Waiter>>>]>,
    /// Number of parked sessions.
    parked_count: AtomicU64,
    /// Counter of sessions and arrivals.
    numbers: AtomicU64,
    pub(crate) settings: Settings,
    pub(crate) tally: Tally,
}

/// The transaction that asks for a lock.
#[derive(Clone, Copy)]
pub(crate) struct Asker<'a> {
    pub(crate) owner: u64,
    pub(crate) importance: u64,
    /// True if less important transactions give way to it.
    pub(crate) takes: bool,
    /// Session of the transaction, if it can wait.
    pub(crate) waiter: Option<&'a Arc<Waiter>>,
    /// True if the lock is to be the session's, and outlive the transaction.
    pub(crate) for_session: bool,
}

impl Asker<'_> {
    fn who(&self) -> Who {
        Who { owner: self.owner, session: self.waiter.map_or(0, |waiter| waiter.id) }
    }

    /// Returns the future owner of the lock.
    fn grantee(&self) -> u64 {
        self.waiter.filter(|_| self.for_session).map_or(self.owner, |waiter| waiter.id)
    }
}

/// Kind of a question to the lock table.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Ask {
    /// Asks for the obstacles, if there is an entry.
    Check,
    /// Asks for the obstacles, and if there are any for a place in the queue.
    Queue,
    /// Asks for the lock.
    Grant,
    /// Asks for the lock, or a place in the queue.
    GrantOrQueue,
}

/// Answer of the lock table.
#[derive(Debug)]
pub(crate) enum Answer {
    Free,
    /// The lock is the asker's; `new` if it was not before.
    Granted {
        new: bool,
    },
    Blocked(Obstacles),
}

impl LockTable {
    pub(crate) fn new(slots_count: usize, config: LockConfig) -> LockTable {
        LockTable {
            active: PaddedCounter(AtomicU64::new(0)),
            marks: (0..MARKS).map(|_| AtomicU32::new(0)).collect(),
            strong: (0..TABLE_BITS).map(|_| AtomicU32::new(0)).collect(),
            exclusive: (0..TABLE_BITS).map(|_| AtomicU32::new(0)).collect(),
            stripes: (0..STRIPES).map(|_| Latch::new(Stripe::default())).collect(),
            waiting: Latch::new(BTreeMap::new()),
            parked: (0..slots_count).map(|_| Latch::new(None)).collect(),
            parked_count: AtomicU64::new(0),
            numbers: AtomicU64::new(1),
            settings: Settings::new(config),
            tally: Tally::default(),
        }
    }

    pub(crate) fn number(&self) -> u64 {
        self.numbers.fetch_add(1, Relaxed)
    }

    /// Returns true if no lock is held here or waited for. Sequentially consistent, as all looks at marks: see
    /// `README.md`.
    #[inline]
    pub(crate) fn is_quiet(&self) -> bool {
        self.active.0.load(SeqCst) == 0
    }

    /// Returns true if no entry can have this key.
    #[inline]
    pub(crate) fn is_unmarked(&self, key: Key) -> bool {
        self.is_quiet() || self.marks[key.mixed() as usize % MARKS].load(SeqCst) == 0
    }

    /// Returns true if no transaction has or wants a lock that excludes writers of tables with this bit.
    #[inline]
    pub(crate) fn admits_writers(&self, bit: u32) -> bool {
        self.strong[bit as usize].load(SeqCst) == 0
    }

    /// Returns true if no transaction has or wants a lock that excludes readers of tables with this bit.
    #[inline]
    pub(crate) fn admits_readers(&self, bit: u32) -> bool {
        self.exclusive[bit as usize].load(SeqCst) == 0
    }

    pub(crate) fn entries(&self) -> u64 {
        self.active.0.load(Relaxed)
    }

    fn mark(&self, key: Key, mode: Mode) {
        self.active.0.fetch_add(1, SeqCst);
        self.marks[key.mixed() as usize % MARKS].fetch_add(1, SeqCst);
        for count in self.table_counts(key, mode) {
            count.fetch_add(1, SeqCst);
        }
    }

    fn unmark(&self, key: Key, mode: Mode) {
        for count in self.table_counts(key, mode) {
            count.fetch_sub(1, SeqCst);
        }
        self.marks[key.mixed() as usize % MARKS].fetch_sub(1, SeqCst);
        self.active.0.fetch_sub(1, SeqCst);
    }

    /// Returns the counters in which a lock on a table counts beside the marks.
    fn table_counts(&self, key: Key, mode: Mode) -> impl Iterator<Item = &AtomicU32> {
        let table = if let Key::Table(table) = key { Some((table % TABLE_BITS) as usize) } else { None };
        let strong = table.filter(|_| mode.excludes(Mode::ROW_EXCLUSIVE)).map(|table| &self.strong[table]);
        let exclusive = table.filter(|_| mode.excludes(Mode::ACCESS_SHARE)).map(|table| &self.exclusive[table]);
        strong.into_iter().chain(exclusive)
    }

    /// Runs `f` on the key's entry, under its latch; with none if there is no such entry, and none is to be made. An
    /// entry that is empty then is removed.
    fn with_entry<R>(&self, key: Key, make: bool, f: impl FnOnce(Option<&mut LockEntry>) -> R) -> R {
        let region = Region::enter();
        let mut stripe = self.stripes[(key.mixed() >> 32) as usize % STRIPES].lock(&region);
        let Stripe { entries, spare } = &mut *stripe;
        if make && !entries.contains_key(&key) {
            entries.insert(key, spare.pop().unwrap_or_default());
        }
        let Some(entry) = entries.get_mut(&key) else { return f(None) };
        let result = f(Some(entry));
        if entry.is_empty() {
            let entry = entries.remove(&key);
            spare.extend(entry.filter(|_| spare.len() < SPARE_MAX));
            // Half of the room is freed when a quarter is used: each entry pays for a constant number of moves.
            let room = entries.capacity();
            if ROOM_KEPT < room && entries.len() < room / 4 {
                entries.shrink_to(room / 2);
            }
        }
        result
    }

    /// Asks for a lock. A session that is to be queued must have no place in another queue.
    ///
    /// # Errors
    /// [`Error::Limit`] if there are too many entries.
    pub(crate) fn ask(
        &self,
        registry: &Registry,
        holders: &dyn Holders,
        asker: Asker<'_>,
        (key, mode): (Key, Mode),
        ask: Ask,
    ) -> Result<Answer> {
        let grant = matches!(ask, Ask::Grant | Ask::GrantOrQueue);
        let waiter = asker.waiter.filter(|_| matches!(ask, Ask::Queue | Ask::GrantOrQueue));
        if ask != Ask::Check {
            if self.settings.entries_max() <= self.active.0.load(Relaxed) {
                return Err(Error::Limit(Limit::Locks));
            }
            // Before anything is looked at: a transaction that claims the row from now on sees the mark, and an earlier
            // claim is seen here.
            self.mark(key, mode);
        }
        let mut wakes = Vec::new();
        let answer = self.with_entry(key, ask != Ask::Check, |entry| {
            let Some(entry) = entry else { return Answer::Free };
            entry.clean(registry, |mode| self.unmark(key, mode));
            // Advisory locks are released mode by mode.
            let has_it = match key {
                Key::Advisory(_) => entry.is_granted(asker.grantee(), mode),
                Key::Row { .. } | Key::Table(_) | Key::Transaction(_) => entry.covers(asker.owner, mode),
            };
            if grant && has_it {
                self.unmark(key, mode);
                return Answer::Granted { new: false };
            }
            let marked = ask != Ask::Check;
            let foreign = Foreign::of(key, registry, holders);
            let place = asker.waiter.and_then(|waiter| entry.position(waiter));
            let rank = match place {
                Some(at) => entry.queue()[at].rank,
                None if self.settings.by_class() => asker.importance,
                None => u64::MAX,
            };
            let position = place.unwrap_or_else(|| {
                // A statement that has waited elsewhere goes before those that came after it: see `README.md`.
                let arrival = asker.waiter.and_then(|waiter| waiter.arrival()).unwrap_or(u64::MAX);
                entry.insertion(rank, arrival)
            });
            let mut obstacles = entry.obstacles(&foreign, asker.who(), mode, (position, rank));
            if obstacles.is_none() {
                if !grant {
                    if marked {
                        self.unmark(key, mode);
                    }
                    return Answer::Free;
                }
                entry.granted.push(Granted { owner: asker.grantee(), mode });
                if let Some(at) = place {
                    self.remove_place(entry, key, at);
                    entry.grant(&foreign, &mut wakes);
                }
                return Answer::Granted { new: true };
            }
            match (waiter, place) {
                (Some(waiter), None) => {
                    obstacles.fresh = true;
                    let upgrades = entry.has(&foreign, asker.who());
                    // Locks of tables queue strictly, as PostgreSQL's do.
                    let is_row = matches!(key, Key::Row { .. });
                    let blockers = if is_row { obstacles.owners.clone() } else { Vec::new() };
                    self.queue(entry, (position, rank), waiter, asker, (key, mode), (upgrades, blockers));
                }
                (Some(waiter), Some(at)) => {
                    obstacles.fresh = entry.queue()[at].woken;
                    // It has its place, and its mark, from before.
                    self.unmark(key, mode);
                    let before = entry.wait_on(at, asker.owner, mode, entry.has(&foreign, asker.who()));
                    self.queue_again(before, waiter, asker, (key, mode));
                }
                (None, _) if marked => self.unmark(key, mode),
                (None, _) => {}
            }
            Answer::Blocked(obstacles)
        });
        wake(wakes);
        Ok(answer)
    }

    fn queue(
        &self,
        entry: &mut LockEntry,
        (at, rank): (usize, u64),
        waiter: &Arc<Waiter>,
        asker: Asker<'_>,
        (key, mode): (Key, Mode),
        (upgrades, blockers): (bool, Vec<u64>),
    ) {
        let Asker { owner, importance, .. } = asker;
        let arrival = waiter.arrival().unwrap_or_else(|| self.number());
        waiter.set_arrival(arrival);
        let place = QueuePlace {
            waiter: waiter.clone(),
            owner,
            mode,
            importance,
            rank,
            arrival,
            woken: false,
            passed: 0,
            upgrades,
            blockers,
        };
        entry.insert(at, place);
        waiter.set_place(true);
        let look_ns = self.begin_wait(waiter, asker, key, mode, true);
        self.look_at(waiter, Some(look_ns));
    }

    /// Makes a session that came back wait on: in its place, in which it waited for the mode `before`.
    fn queue_again(&self, before: Mode, waiter: &Arc<Waiter>, asker: Asker<'_>, (key, mode): (Key, Mode)) {
        if before != mode {
            self.mark(key, mode);
            self.unmark(key, before);
        }
        let look_ns = self.begin_wait(waiter, asker, key, mode, false);
        self.look_at(waiter, Some(look_ns));
    }

    /// Sets the time at which the clock is to look at the waiter, in place of the earlier time; none if it waits no
    /// more.
    fn look_at(&self, waiter: &Arc<Waiter>, look_ns: Option<u64>) {
        let region = Region::enter();
        let mut waiting = self.waiting.lock(&region);
        let own = waiting.remove(&(waiter.look_ns(), waiter.id));
        if let Some(look_ns) = look_ns {
            waiter.set_look_ns(look_ns);
            waiting.insert((look_ns, waiter.id), own.unwrap_or_else(|| waiter.clone()));
        }
    }

    /// Begins a wait. Returns the time at which the clock is to look at it. A session that waits on in its place,
    /// `is_first` false, was woken in vain: the time that the lock may take goes on.
    fn begin_wait(&self, waiter: &Arc<Waiter>, asker: Asker<'_>, key: Key, mode: Mode, is_first: bool) -> u64 {
        let now_ns = os::now_ns();
        let force = if asker.takes { asker.importance } else { 0 };
        let patience_ns = self.settings.look_at_ns(force, now_ns);
        waiter.with(|state| {
            if state.phase != Phase::Waiting {
                state.begin_wait();
                state.since_ns = now_ns;
                if is_first {
                    state.lock_deadline_ns = now_ns.saturating_add(waiter.lock_timeout_ns());
                }
                state.patience_ns = patience_ns;
            }
            state.phase = Phase::Waiting;
            state.place = Some((key, mode));
            (state.owner, state.importance, state.force) = (asker.owner, asker.importance, force);
            state.statement_deadline_ns = waiter.deadline_ns();
            if state.born_ns == 0 {
                state.born_ns = now_ns;
            }
            state.look_ns()
        })
    }

    /// Takes a place out of the queue.
    fn remove_place(&self, entry: &mut LockEntry, key: Key, at: usize) {
        let place = entry.remove(at);
        self.unmark(key, place.mode);
        self.look_at(&place.waiter, None);
        // Last, and together: a session that finds its place gone, by another, takes the next one at once.
        place.waiter.with(|state| {
            state.place = None;
            if matches!(state.phase, Phase::Waiting | Phase::Ready(None)) {
                state.phase = Phase::Idle;
            }
            place.waiter.set_place(false);
        });
    }

    /// Gives up the waiter's place, unless it is in the queue of `but`. Those behind it may be next.
    pub(crate) fn leave(&self, registry: &Registry, holders: &dyn Holders, waiter: &Arc<Waiter>, but: Option<Key>) {
        let place = waiter.with(|state| state.place);
        if let Some((key, _)) = place.filter(|(key, _)| Some(*key) != but) {
            self.leave_one(registry, holders, waiter, key, None);
        }
    }

    /// Gives up the waiter's place in the queue of `key`; with a number, only that of this wait.
    fn leave_one(
        &self,
        registry: &Registry,
        holders: &dyn Holders,
        waiter: &Arc<Waiter>,
        key: Key,
        number: Option<u64>,
    ) {
        let mut wakes = Vec::new();
        self.with_entry(key, false, |entry| {
            let Some(entry) = entry else { return };
            let Some(at) = entry.position(waiter) else { return };
            if number.is_some_and(|number| waiter.with(|state| state.number != number)) {
                return;
            }
            self.remove_place(entry, key, at);
            entry.clean(registry, |mode| self.unmark(key, mode));
            entry.grant(&Foreign::of(key, registry, holders), &mut wakes);
        });
        wake(wakes);
    }

    /// Wakes every session that can go on now, because a lock or a place of `key` was released.
    pub(crate) fn released(&self, registry: &Registry, holders: &dyn Holders, key: Key) {
        if preempt::plants::is_planted("wakeup_lost") || self.is_unmarked(key) {
            return;
        }
        let mut wakes = Vec::new();
        self.with_entry(key, false, |entry| {
            let Some(entry) = entry else { return };
            entry.clean(registry, |mode| self.unmark(key, mode));
            if !entry.queue().is_empty() {
                entry.grant(&Foreign::of(key, registry, holders), &mut wakes);
            }
        });
        wake(wakes);
    }

    /// Makes every session that waits for `key` look again.
    pub(crate) fn wake_all(&self, key: Key) {
        if self.is_unmarked(key) {
            return;
        }
        let mut wakes = Vec::new();
        self.with_entry(key, false, |entry| {
            if let Some(entry) = entry {
                entry.wake_all(&mut wakes);
            }
        });
        wake(wakes);
    }

    /// Releases one lock.
    pub(crate) fn release(&self, registry: &Registry, holders: &dyn Holders, owner: u64, key: Key, mode: Mode) {
        let mut wakes = Vec::new();
        self.with_entry(key, false, |entry| {
            let Some(entry) = entry else { return };
            let is_it = |granted: &Granted| granted.owner == owner && granted.mode == mode;
            if let Some(at) = entry.granted.iter().position(is_it) {
                entry.granted.swap_remove(at);
                self.unmark(key, mode);
            }
            entry.clean(registry, |mode| self.unmark(key, mode));
            if !entry.queue().is_empty() {
                entry.grant(&Foreign::of(key, registry, holders), &mut wakes);
            }
        });
        wake(wakes);
    }

    /// Returns true if this owner holds the lock in a mode that covers `mode`.
    pub(crate) fn has(&self, owner: u64, key: Key, mode: Mode) -> bool {
        !self.is_unmarked(key)
            && self.with_entry(key, false, |entry| entry.is_some_and(|entry| entry.covers(owner, mode)))
    }

    /// Returns the locks in the table that stand in the way of a transaction that has claimed the row just now. Waiters
    /// do not: they see the claim.
    pub(crate) fn against_claim(&self, registry: &Registry, owner: u64, key: Key, mode: Mode) -> Obstacles {
        self.with_entry(key, false, |entry| {
            let Some(entry) = entry else { return Obstacles::default() };
            entry.clean(registry, |mode| self.unmark(key, mode));
            entry.obstacles(&Foreign::none(), Who { owner, session: 0 }, mode, (0, 0))
        })
    }

    /// Sets the session of this slot's open transaction that waits from now on, or none if it waits no more.
    pub(crate) fn set_parked(&self, slot: usize, waiter: Option<&Arc<Waiter>>) {
        let region = Region::enter();
        let before = core::mem::replace(&mut *self.parked[slot].lock(&region), waiter.cloned());
        match (before.is_some(), waiter.is_some()) {
            (false, true) => drop(self.parked_count.fetch_add(1, SeqCst)),
            (true, false) => drop(self.parked_count.fetch_sub(1, SeqCst)),
            _ => {}
        }
    }

    /// Returns the session that waits with this transaction open, or that is the owner itself and waits.
    fn parked_session(&self, owner: u64) -> Option<Arc<Waiter>> {
        let region = Region::enter();
        if is_session(owner) {
            return self.waiting.lock(&region).values().find(|waiter| waiter.id == owner).cloned();
        }
        let waiter = self.parked[crate::raw::slots::slot_of(owner)].lock(&region).clone()?;
        drop(region);
        waiter.with(|state| state.owner == owner).then_some(waiter)
    }

    /// Returns the outcome for the session of a parked statement that comes back.
    pub(crate) fn outcome(&self, waiter: &Waiter) -> Outcome {
        let (outcome, waited) = waiter.with(|state| match state.phase.clone() {
            Phase::Waiting => (Outcome::Waits, None),
            Phase::Idle => (Outcome::Over(None), None),
            Phase::Ready(error) => {
                state.phase = Phase::Idle;
                state.parked = false;
                (Outcome::Over(error), Some((state.importance, state.since_ns)))
            }
        });
        if let Some((importance, since_ns)) = waited {
            self.tally.waited(importance, os::now_ns().saturating_sub(since_ns));
        }
        outcome
    }

    /// Ends a wait with an error, unless it has ended. Returns true if it did.
    pub(crate) fn fail(
        &self,
        registry: &Registry,
        holders: &dyn Holders,
        waiter: &Arc<Waiter>,
        number: Option<u64>,
        error: Error,
    ) -> bool {
        let ended = waiter.end_wait(number, Some(error));
        let Some((number, place)) = ended.wait else { return false };
        // The session may come back at once, and wait for something else before the next line.
        if let Some((key, _)) = place {
            self.leave_one(registry, holders, waiter, key, Some(number));
        }
        wake(vec![ended]);
        true
    }
}

/// Wakes every session that has left a wake-up. After unlatching: a session that is woken may come at once.
fn wake(ended: Vec<Ended>) {
    for wake in ended.into_iter().filter_map(|ended| ended.wake) {
        wake.wake();
    }
}
