//! The gate: active transactions, waiting transactions, and the order of admission.
//!
//! It holds transactions back, not connections: a transaction has a *slot* while it is active inside. One that waits
//! for its client lends its slot after a time and comes back before all others of its class; one that waits for a lock
//! keeps it. Slots beyond the limit exist only to resolve what would be a deadlock, and are counted.
//!
//! **Invariant:** slots in use never exceed the limit in force plus the extra ones, except after the limit was lowered,
//! when no transaction is admitted until they are within it. As long as a slot is free, no transaction waits that may
//! have it: except those whose pool of connections has no room, which hold no slot while they wait for that.

mod batches;
mod change;
mod entry;
mod hot;
mod learned;
mod meter;
mod pace;
mod passage;
mod patience;
mod queue;
mod rooms;
mod shares;
mod stalls;
mod timer;
mod times;
mod totals;
mod view;
mod window;

pub(crate) use batches::student;
pub use batches::{Estimate, Moments};
pub use entry::Ticket;
pub use rooms::PoolId;
pub use times::Times;
pub use totals::Totals;
pub use view::{ClassView, GateCounters, View, Whereabouts};
pub use window::{ClassObservation, Observation};

use crate::settings::{ClassId, GateSettings, SettingsError};
use crate::time::Time;
use entry::{Entries, GateEntry, TransactionState};
use hot::HotKeys;
use learned::Learned;
use meter::Meter;
use pace::Pace;
use queue::{ClassQueue, QueuePlace};
use rooms::Rooms;
use std::collections::VecDeque;
use thiserror::Error;
use timer::{Timed, Timer};
use window::Window;

/// Arrival of a transaction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Arrival {
    /// Class of the transaction.
    pub class: ClassId,
    /// Fingerprint of its first statement, the values left out; the expected time is learned by it.
    pub fingerprint: Option<u64>,
    /// Key of the row at which it will meet others. At most one transaction with the key is inside, except those that
    /// have lent their slots.
    pub hot_key: Option<u64>,
    /// Owner of the transaction: an owner with several transactions at once may wait for itself. 0: no owner.
    pub owner: u64,
    /// Pool that it needs a connection of; none if it has one, or needs none.
    pub pool: Option<PoolId>,
}

impl Arrival {
    /// Creates an arrival of this class, of which nothing more is known.
    pub fn new(class: ClassId) -> Arrival {
        Arrival { class, fingerprint: None, hot_key: None, owner: 0, pool: None }
    }
}

/// Answer to a transaction that has come, or come back.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Entrance {
    /// The transaction has a slot, and the connection that it needs.
    In,
    /// The transaction waits; [`Event::Admitted`] reports its admission.
    Waits,
}

/// Reason of a refusal of a transaction. Only limits that were set refuse.
#[derive(Clone, Debug, PartialEq, Error)]
pub enum Refused {
    /// The queue is full: [`ClassSettings::queue_max`](crate::ClassSettings::queue_max).
    #[error("too many transactions of class \"{class}\" are waiting")]
    Full {
        /// Name of the class.
        class: String,
        /// Number of transactions of the class that wait for a slot.
        waiting: usize,
        /// Place that the transaction would have had.
        at: Whereabouts,
    },
}

/// Ending of a transaction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ending {
    /// The transaction is done.
    Done,
    /// The transaction has failed, or its client has gone.
    Failed,
}

/// Event that the caller must act on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Event {
    /// The transaction has a slot now, and the connection that it needs; or a connection, if it [asked](Gate::ask) for
    /// nothing else.
    Admitted(Ticket),
    /// The transaction has waited for longer than its class may, and is forgotten: it stood at this place.
    TimedOut(Ticket, ClassId, Whereabouts),
    /// The transaction has been active for longer than its class may, and is of this class now.
    Demoted(Ticket, ClassId),
    /// The transaction has been active for longer than its class may, and is to be cancelled.
    Runaway(Ticket),
    /// The transaction was given an extra slot.
    Extra(Ticket),
}

/// State of one class.
#[derive(Debug)]
struct ClassState {
    queue: ClassQueue,
    slots: u32,
    /// Nanoseconds in slots over weight, those charged in advance included.
    used: f64,
    /// Expected time of one transaction, in nanoseconds of a slot.
    expected_ns: f64,
    /// Pace of admission of the class's transactions that wait for a slot.
    pace: Pace,
    wait_timer: Timer,
    run_timer: Timer,
    held_back: usize,
    lent: usize,
    arrived: u64,
    done: u64,
    failed: u64,
    wait: Times,
    inside: Times,
    idle: Times,
    demand: Moments,
}

/// Priority queues before a multiprogramming limit.
#[derive(Debug)]
pub struct Gate {
    settings: GateSettings,
    mpl: u32,
    now: Time,
    classes: Vec<ClassState>,
    entries: Entries,
    events: VecDeque<Event>,
    hot: HotKeys,
    rooms: Rooms,
    learned: Learned,
    meter: Meter,
    window: Window,
    slots: u32,
    /// Number of slots that exist beyond the limit.
    extras: u32,
    queued: usize,
    next_number: u64,
    lend_timer: Timer,
    return_timer: Timer,
    /// Time at which a transaction was last observed to make progress.
    progress: Time,
    /// Pace of admission of all transactions that wait for a slot.
    pace: Pace,
    counters: GateCounters,
    totals: Totals,
}

impl Gate {
    /// Creates a gate without transactions.
    ///
    /// # Errors
    /// If the settings are invalid.
    pub fn new(settings: GateSettings) -> Result<Gate, SettingsError> {
        settings.check()?;
        // New queues and timers for each class; its settings say which of its waits and runs are timed.
        let class = |class: &crate::settings::ClassSettings| ClassState {
            queue: ClassQueue::default(),
            slots: 0,
            used: 0.0,
            expected_ns: 1e6,
            pace: Pace::default(),
            wait_timer: Timer::new(Timed::Waiting, class.wait_max),
            run_timer: Timer::new(Timed::Being(TransactionState::Inside), class.runaway.map(|runaway| runaway.after)),
            held_back: 0,
            lent: 0,
            arrived: 0,
            done: 0,
            failed: 0,
            wait: Times::default(),
            inside: Times::default(),
            idle: Times::default(),
            demand: Moments::default(),
        };
        Ok(Gate {
            mpl: settings.mpl,
            now: Time::ZERO,
            classes: settings.classes.iter().map(class).collect(),
            entries: Entries::default(),
            events: VecDeque::new(),
            hot: HotKeys::default(),
            rooms: Rooms::default(),
            learned: Learned::default(),
            meter: Meter::new(settings.processors),
            window: Window::new(Time::ZERO, settings.mpl, settings.classes.len(), 0),
            slots: 0,
            extras: 0,
            queued: 0,
            next_number: 0,
            lend_timer: Timer::new(Timed::Being(TransactionState::Resting), settings.lend_after),
            return_timer: Timer::new(Timed::Being(TransactionState::Returning), Some(settings.return_patience)),
            progress: Time::ZERO,
            pace: Pace::default(),
            counters: GateCounters::default(),
            totals: Totals::default(),
            settings,
        })
    }

    /// Returns the settings of the gate.
    pub fn settings(&self) -> &GateSettings {
        &self.settings
    }

    /// Returns the limit in force.
    pub fn mpl(&self) -> u32 {
        self.mpl
    }

    /// Returns the number of slots in use.
    pub fn slots(&self) -> u32 {
        self.slots
    }

    /// Sets the number of the database's processors, as learned by now. A new observation begins.
    pub fn know_processors(&mut self, now: Time, processors: u32) {
        let processors = processors.max(1);
        if processors != self.settings.processors {
            self.pass(now);
            self.meter.set_processors(now, processors);
            self.settings.processors = processors;
            self.observe_anew(now, self.slots);
        }
    }

    /// Sets the limit. A new observation begins when as many transactions have left as were inside.
    pub fn set_mpl(&mut self, now: Time, mpl: u32) {
        self.pass(now);
        self.mpl = mpl.max(1);
        self.observe_anew(now, self.slots.max(self.mpl));
        self.admit();
    }

    /// Begins a new observation, when `left_out` transactions have left.
    pub fn observe_anew(&mut self, now: Time, left_out: u32) {
        self.pass(now);
        self.window = Window::new(now, self.mpl, self.classes.len(), left_out);
    }

    /// Admits or queues a transaction that arrives.
    ///
    /// # Errors
    /// If a limit refuses the transaction.
    pub fn arrive(&mut self, now: Time, arrival: Arrival) -> Result<(Ticket, Entrance), Refused> {
        self.pass(now);
        let Arrival { class: id, fingerprint, hot_key, owner, pool } = arrival;
        let (class, settings) = (&self.classes[id.index()], &self.settings.classes[id.index()]);
        // A transaction that is held back waits for a row, not for a slot, and takes no place that the bound is for.
        let is_held_back = hot_key.is_some_and(|key| self.hot.is_taken(key));
        let waiting = class.queue.len();
        if let Some(most) = settings.queue_max
            && most <= waiting
            && !is_held_back
            && !self.has_room(id, pool)
        {
            let (class, at) = (settings.name.clone(), self.behind(id, waiting));
            self.counters.turned_away += 1;
            return Err(Refused::Full { class, waiting, at });
        }
        self.window.arrived();
        let number = self.next_number;
        self.next_number += 1;
        let expected_ns = fingerprint.and_then(|print| self.learned.expected_ns(print)).unwrap_or(class.expected_ns);
        let place = QueuePlace::new(settings.order, now, expected_ns, number);
        self.classes[id.index()].arrived += 1;
        let mut entry = GateEntry::new(id, now, place);
        (entry.fingerprint, entry.hot, entry.owner, entry.charged) = (fingerprint, hot_key, owner, expected_ns);
        entry.pool = pool;
        let ticket = self.entries.insert(entry);
        if let Some(key) = hot_key
            && !self.hot.take(key)
        {
            self.turn(ticket, TransactionState::HeldBack);
            self.counters.held_back += 1;
            self.classes[id.index()].held_back += 1;
            self.hot.wait(key, self.settings.classes[id.index()].level, number, ticket);
            self.set_wait_timer(ticket, id);
            return Ok((ticket, Entrance::Waits));
        }
        if self.has_room(id, pool) {
            self.let_in(ticket);
            return Ok((ticket, Entrance::In));
        }
        self.enqueue(ticket, place);
        self.set_wait_timer(ticket, id);
        Ok((ticket, Entrance::Waits))
    }

    /// Notes that the transaction waits for its client.
    pub fn rest(&mut self, now: Time, ticket: Ticket) {
        self.pass(now);
        let Some(TransactionState::Inside) = self.state(ticket) else { return };
        self.deactivate(ticket);
        self.turn(ticket, TransactionState::Resting);
        self.progress = now;
        self.lend_timer.set(now, ticket, &self.entries);
    }

    /// Notes that the transaction's client goes on. Returns whether the transaction may go on.
    pub fn resume(&mut self, now: Time, ticket: Ticket) -> Entrance {
        self.pass(now);
        match self.entries.get(ticket).map(|entry| (entry.state, entry.class)) {
            Some((TransactionState::Resting, _)) => {
                self.turn(ticket, TransactionState::Inside);
                self.activate(ticket);
                Entrance::In
            }
            Some((TransactionState::Lent, id)) => {
                self.classes[id.index()].lent -= 1;
                if self.has_room(id, None) {
                    self.let_in(ticket);
                    return Entrance::In;
                }
                let place = QueuePlace::returning(now, self.next_number);
                self.next_number += 1;
                self.turn(ticket, TransactionState::Returning);
                self.enqueue(ticket, place);
                self.return_timer.set(now, ticket, &self.entries);
                Entrance::Waits
            }
            _ => Entrance::In,
        }
    }

    /// Notes whether the transaction waits for a lock inside. It keeps its slot, but when all of them wait, they may
    /// wait for one outside.
    pub fn stall(&mut self, now: Time, ticket: Ticket, is_stalled: bool) {
        self.pass(now);
        if let Some(entry) = self.entries.get_mut(ticket) {
            entry.is_stalled = is_stalled;
        }
    }

    /// Moves the transaction to another class.
    pub fn reclass(&mut self, now: Time, ticket: Ticket, to: ClassId) {
        self.pass(now);
        let Some(entry) = self.entries.get_mut(ticket) else { return };
        let (from, state, hot, place) = (entry.class, entry.state, entry.hot, entry.place);
        let (subqueue, pool) = (entry.subqueue(), entry.needs());
        if from == to {
            return;
        }
        entry.class = to;
        let (weight_from, weight_to) = (self.weight(from), self.weight(to));
        let [old, new] = self.classes.get_disjoint_mut([from.index(), to.index()]).expect("these are two classes");
        match state {
            TransactionState::Inside | TransactionState::Resting => {
                (old.slots, new.slots) = (old.slots - 1, new.slots + 1);
                let charged = self.entries.get(ticket).map_or(0.0, |entry| entry.charged);
                old.used -= charged / weight_from;
                new.used += charged / weight_to;
            }
            TransactionState::Lent => (old.lent, new.lent) = (old.lent - 1, new.lent + 1),
            TransactionState::HeldBack => {
                (old.held_back, new.held_back) = (old.held_back - 1, new.held_back + 1);
                if let Some(key) = hot {
                    let [from, to] = [from, to].map(|id| self.settings.classes[id.index()].level);
                    self.hot.forget(key, from, place.number(), ticket);
                    self.hot.wait(key, to, place.number(), ticket);
                }
            }
            TransactionState::Waiting | TransactionState::Returning => {
                old.queue.remove(place, subqueue);
                new.queue.push(place, ticket, subqueue, self.rooms.is_open(pool));
            }
            TransactionState::Asking => {}
        }
        self.admit();
    }

    /// Removes a transaction that has ended, or that is given up while it waits.
    pub fn leave(&mut self, now: Time, ticket: Ticket, ending: Ending) {
        self.pass(now);
        // Read before the transaction becomes inactive: its own place counts in the number of active ones.
        let active_count = self.meter.active();
        let Some(state) = self.state(ticket) else { return };
        if state == TransactionState::Inside {
            self.deactivate(ticket);
        }
        if state.has_slot() {
            self.release(ticket);
        }
        let Some(mut entry) = self.entries.remove(ticket) else { return };
        let id = entry.class;
        match state {
            TransactionState::Waiting | TransactionState::Returning => {
                self.queued -= 1;
                self.classes[id.index()].queue.remove(entry.place, entry.subqueue());
            }
            TransactionState::HeldBack => {
                self.classes[id.index()].held_back -= 1;
                if let Some(key) = entry.hot {
                    self.hot.forget(key, self.settings.classes[id.index()].level, entry.place.number(), ticket);
                }
            }
            TransactionState::Lent => self.classes[id.index()].lent -= 1,
            TransactionState::Asking => entry.pool.into_iter().for_each(|pool| self.ask_no_more(pool, ticket)),
            TransactionState::Inside | TransactionState::Resting => {}
        }
        if let Some(pool) = entry.pool.filter(|_| entry.has_place) {
            self.vacate(pool);
        }
        entry.turn(state, now);
        // A transaction that is held back only waits for its key: there is none to pass on.
        if state != TransactionState::HeldBack
            && let Some(key) = entry.hot
        {
            self.pass_on(key);
        }
        match state {
            TransactionState::Waiting | TransactionState::HeldBack => self.counters.given_up += 1,
            TransactionState::Asking => {}
            TransactionState::Inside
            | TransactionState::Resting
            | TransactionState::Lent
            | TransactionState::Returning => self.count(entry, ending, active_count),
        }
        self.admit();
    }

    /// Returns the next event that the caller must act on: to be asked after each call until there is none.
    pub fn next_event(&mut self) -> Option<Event> {
        self.events.pop_front()
    }

    /// Returns the observation since the limit last changed.
    pub fn observation(&self) -> Observation {
        self.window.observation(self.now)
    }

    /// Returns the number of transactions that have left since then.
    pub fn observed(&self) -> u64 {
        self.window.completions()
    }

    /// Lets time pass.
    fn pass(&mut self, now: Time) {
        if self.now < now {
            let passed = now.since(self.now);
            // A transaction that waits for a connection is not held back by the limit.
            let holds_back = 0 < self.queued && self.classes.iter().any(|class| class.queue.can_run());
            self.window.pass(passed, self.meter.active(), holds_back);
            self.totals.pass(
                passed,
                self.meter.active(),
                self.queued + self.classes.iter().map(|class| class.held_back).sum::<usize>(),
            );
            if 0 < self.queued {
                self.pace.pass(passed);
                let waiting = self.classes.iter_mut().filter(|class| !class.queue.is_empty());
                waiting.for_each(|class| class.pace.pass(passed));
            }
            self.now = now;
        }
    }
}

#[cfg(test)]
mod tests;
