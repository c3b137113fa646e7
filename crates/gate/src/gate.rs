//! The gate: transactions inside, transactions that wait, and the order of admission.
//!
//! It holds transactions back, not connections: a transaction has a *slot* while it is active inside. One that waits for its
//! client lends its slot after a time and comes back before all others of its class; one that waits for a lock keeps it. Slots
//! beyond the limit exist only to end what would be a deadlock, and are counted.
//!
//! **Invariant:** slots in use never exceed the limit in force plus the extra ones, but after the limit was lowered, when nobody
//! goes in until they are. As long as a slot is free, nobody waits who may have it: but for those whose pool of connections has no
//! room, who hold no slot while they wait for that.

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
pub use view::{ClassView, Counters, View, Whereabouts};
pub use window::{ClassObservation, Observation};

use crate::settings::{ClassId, Settings, SettingsError};
use crate::time::Time;
use entry::{Entries, Entry, State};
use hot::HotKeys;
use learned::Learned;
use meter::Meter;
use pace::Pace;
use queue::{Place, Queue};
use rooms::Rooms;
use std::collections::VecDeque;
use thiserror::Error;
use timer::{Timed, Timer};
use window::Window;

/// A transaction that comes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Arrival {
    /// Its class.
    pub class: ClassId,
    /// What stands for its first statement, its values left out; by it is known what it will take.
    pub fingerprint: Option<u64>,
    /// What stands for the row that it will meet others at. At most one with it is inside, but for those that have lent their slots.
    pub hot_key: Option<u64>,
    /// Whose it is: who has several transactions at once may wait for itself. 0: nobody's in particular.
    pub owner: u64,
    /// What it needs a connection of; none: it has one, or needs none.
    pub pool: Option<PoolId>,
}

impl Arrival {
    /// One of this class, of which nothing more is known.
    pub fn new(class: ClassId) -> Arrival {
        Arrival { class, fingerprint: None, hot_key: None, owner: 0, pool: None }
    }
}

/// What becomes of a transaction that has come, or come back.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Entrance {
    /// It has a slot, and the connection that it needs.
    In,
    /// It waits; [`Event::Admitted`] will say when it has one.
    Waits,
}

/// Why a transaction was turned away. Only by bounds that were set.
#[derive(Clone, Debug, PartialEq, Error)]
pub enum Refused {
    /// [`ClassSettings::queue_max`](crate::ClassSettings::queue_max).
    #[error("too many transactions of class \"{class}\" are waiting")]
    Full {
        /// Its class.
        class: String,
        /// How many of its class wait for a slot.
        waiting: usize,
        /// Where it would have stood.
        at: Whereabouts,
    },
}

/// How a transaction has ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ending {
    /// It has done what it was for.
    Done,
    /// It has failed, or its client has gone.
    Failed,
}

/// What the caller must act on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Event {
    /// It has a slot now, and the connection that it needs; or a connection, if it [asked](Gate::ask) for nothing else.
    Admitted(Ticket),
    /// It has waited for longer than its class may, and is forgotten: it stood at this place.
    TimedOut(Ticket, ClassId, Whereabouts),
    /// It has been active for longer than its class may, and is of this class now.
    Demoted(Ticket, ClassId),
    /// It has been active for longer than its class may, and is to be cancelled.
    Runaway(Ticket),
    /// It was given an extra slot.
    Extra(Ticket),
}

/// One class at work.
#[derive(Debug)]
struct Class {
    queue: Queue,
    slots: u32,
    /// Nanoseconds in slots over weight, those charged ahead included.
    used: f64,
    /// What one of its transactions takes, in nanoseconds of a slot.
    expected_ns: f64,
    /// Of those that wait for a slot.
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
    settings: Settings,
    mpl: u32,
    now: Time,
    classes: Vec<Class>,
    entries: Entries,
    events: VecDeque<Event>,
    hot: HotKeys,
    rooms: Rooms,
    learned: Learned,
    meter: Meter,
    window: Window,
    slots: u32,
    /// Of them, those that exist beyond the limit.
    extras: u32,
    queued: usize,
    next_number: u64,
    lend_timer: Timer,
    return_timer: Timer,
    /// When somebody was last seen to get on.
    progress: Time,
    /// Of all who wait for a slot.
    pace: Pace,
    counters: Counters,
    totals: Totals,
}

impl Gate {
    /// A gate that nobody has come to yet.
    ///
    /// # Errors
    /// Settings that make none.
    pub fn new(settings: Settings) -> Result<Gate, SettingsError> {
        settings.check()?;
        let class = |class: &crate::settings::ClassSettings| Class {
            queue: Queue::default(),
            slots: 0,
            used: 0.0,
            expected_ns: 1e6,
            pace: Pace::default(),
            wait_timer: Timer::new(Timed::Waiting, class.wait_max),
            run_timer: Timer::new(Timed::Being(State::Inside), class.runaway.map(|runaway| runaway.after)),
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
            lend_timer: Timer::new(Timed::Being(State::Resting), settings.lend_after),
            return_timer: Timer::new(Timed::Being(State::Returning), Some(settings.return_patience)),
            progress: Time::ZERO,
            pace: Pace::default(),
            counters: Counters::default(),
            totals: Totals::default(),
            settings,
        })
    }

    /// What it was told.
    pub fn settings(&self) -> &Settings {
        &self.settings
    }

    /// The limit in force.
    pub fn mpl(&self) -> u32 {
        self.mpl
    }

    /// How many have a slot.
    pub fn slots(&self) -> u32 {
        self.slots
    }

    /// The database has so many processors, as was found out by now. What is observed begins anew.
    pub fn know_processors(&mut self, now: Time, processors: u32) {
        let processors = processors.max(1);
        if processors != self.settings.processors {
            self.pass(now);
            self.meter.set_processors(now, processors);
            self.settings.processors = processors;
            self.observe_anew(now, self.slots);
        }
    }

    /// Lets so many be active from now on. What is observed begins anew, when as many have left as were inside.
    pub fn set_mpl(&mut self, now: Time, mpl: u32) {
        self.pass(now);
        self.mpl = mpl.max(1);
        self.observe_anew(now, self.slots.max(self.mpl));
        self.admit();
    }

    /// Begins a new observation, when so many have left.
    pub fn observe_anew(&mut self, now: Time, left_out: u32) {
        self.pass(now);
        self.window = Window::new(now, self.mpl, self.classes.len(), left_out);
    }

    /// A transaction comes.
    ///
    /// # Errors
    /// It is turned away, if a bound says so.
    pub fn arrive(&mut self, now: Time, arrival: Arrival) -> Result<(Ticket, Entrance), Refused> {
        self.pass(now);
        let Arrival { class: id, fingerprint, hot_key, owner, pool } = arrival;
        let (class, settings) = (&self.classes[id.index()], &self.settings.classes[id.index()]);
        // Who is held back waits for a row, not for a slot, and takes no place that the bound is for.
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
        let place = Place::new(settings.order, now, expected_ns, number);
        self.classes[id.index()].arrived += 1;
        let mut entry = Entry::new(id, now, place);
        (entry.fingerprint, entry.hot, entry.owner, entry.charged) = (fingerprint, hot_key, owner, expected_ns);
        entry.pool = pool;
        let ticket = self.entries.insert(entry);
        if let Some(key) = hot_key
            && !self.hot.take(key)
        {
            self.turn(ticket, State::HeldBack);
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

    /// The transaction waits for its client.
    pub fn rest(&mut self, now: Time, ticket: Ticket) {
        self.pass(now);
        let Some(State::Inside) = self.state(ticket) else { return };
        self.deactivate(ticket);
        self.turn(ticket, State::Resting);
        self.progress = now;
        self.lend_timer.set(now, ticket, &self.entries);
    }

    /// Its client goes on. Whether it may go on with it.
    pub fn resume(&mut self, now: Time, ticket: Ticket) -> Entrance {
        self.pass(now);
        match self.entries.get(ticket).map(|entry| (entry.state, entry.class)) {
            Some((State::Resting, _)) => {
                self.turn(ticket, State::Inside);
                self.activate(ticket);
                Entrance::In
            }
            Some((State::Lent, id)) => {
                self.classes[id.index()].lent -= 1;
                if self.has_room(id, None) {
                    self.let_in(ticket);
                    return Entrance::In;
                }
                let place = Place::returning(now, self.next_number);
                self.next_number += 1;
                self.turn(ticket, State::Returning);
                self.enqueue(ticket, place);
                self.return_timer.set(now, ticket, &self.entries);
                Entrance::Waits
            }
            _ => Entrance::In,
        }
    }

    /// Whether the transaction waits for a lock inside. It keeps its slot, but when all do, they may wait for one outside.
    pub fn stall(&mut self, now: Time, ticket: Ticket, is_stalled: bool) {
        self.pass(now);
        if let Some(entry) = self.entries.get_mut(ticket) {
            entry.is_stalled = is_stalled;
        }
    }

    /// The transaction is of another class from now on.
    pub fn reclass(&mut self, now: Time, ticket: Ticket, to: ClassId) {
        self.pass(now);
        let Some(entry) = self.entries.get_mut(ticket) else { return };
        let (from, state, hot, place) = (entry.class, entry.state, entry.hot, entry.place);
        let (lane, pool) = (entry.lane(), entry.needs());
        if from == to {
            return;
        }
        entry.class = to;
        let (weight_from, weight_to) = (self.weight(from), self.weight(to));
        let [old, new] = self.classes.get_disjoint_mut([from.index(), to.index()]).expect("these are two classes");
        match state {
            State::Inside | State::Resting => {
                (old.slots, new.slots) = (old.slots - 1, new.slots + 1);
                let charged = self.entries.get(ticket).map_or(0.0, |entry| entry.charged);
                old.used -= charged / weight_from;
                new.used += charged / weight_to;
            }
            State::Lent => (old.lent, new.lent) = (old.lent - 1, new.lent + 1),
            State::HeldBack => {
                (old.held_back, new.held_back) = (old.held_back - 1, new.held_back + 1);
                if let Some(key) = hot {
                    let [from, to] = [from, to].map(|id| self.settings.classes[id.index()].level);
                    self.hot.forget(key, from, place.number(), ticket);
                    self.hot.wait(key, to, place.number(), ticket);
                }
            }
            State::Waiting | State::Returning => {
                old.queue.remove(place, lane);
                new.queue.push(place, ticket, lane, self.rooms.is_open(pool));
            }
            State::Asking => {}
        }
        self.admit();
    }

    /// The transaction has ended, or is given up while it waits.
    pub fn leave(&mut self, now: Time, ticket: Ticket, ending: Ending) {
        self.pass(now);
        let active_count = self.meter.active();
        let Some(state) = self.state(ticket) else { return };
        if state == State::Inside {
            self.deactivate(ticket);
        }
        if state.has_slot() {
            self.release(ticket);
        }
        let Some(mut entry) = self.entries.remove(ticket) else { return };
        let id = entry.class;
        match state {
            State::Waiting | State::Returning => {
                self.queued -= 1;
                self.classes[id.index()].queue.remove(entry.place, entry.lane());
            }
            State::HeldBack => {
                self.classes[id.index()].held_back -= 1;
                if let Some(key) = entry.hot {
                    self.hot.forget(key, self.settings.classes[id.index()].level, entry.place.number(), ticket);
                }
            }
            State::Lent => self.classes[id.index()].lent -= 1,
            State::Asking => entry.pool.into_iter().for_each(|pool| self.ask_no_more(pool, ticket)),
            State::Inside | State::Resting => {}
        }
        if let Some(pool) = entry.pool.filter(|_| entry.has_place) {
            self.vacate(pool);
        }
        entry.turn(state, now);
        if state != State::HeldBack
            && let Some(key) = entry.hot
        {
            self.pass_on(key);
        }
        match state {
            State::Waiting | State::HeldBack => self.counters.given_up += 1,
            State::Asking => {}
            _ => self.count(entry, ending, active_count),
        }
        self.admit();
    }

    /// What the caller must act on: to be asked after each call until there is nothing.
    pub fn next_event(&mut self) -> Option<Event> {
        self.events.pop_front()
    }

    /// What was seen since the limit last changed.
    pub fn observation(&self) -> Observation {
        self.window.observation(self.now)
    }

    /// How many have left since then.
    pub fn observed(&self) -> u64 {
        self.window.completions()
    }

    /// Time has passed.
    fn pass(&mut self, now: Time) {
        if self.now < now {
            let passed = now.since(self.now);
            // Who waits for a connection is not held back by the limit.
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
