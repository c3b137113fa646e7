//! The door: the gate, with sessions before it.
//!
//! A transaction enters before it runs, or gets a server connection, and leaves when it has ended. Who goes in is for
//! [`gate::Gate`] to say; here are the clock, the waiting, and the one task that looks after time and the limit.
//!
//! **Invariant:** whoever has a [`Slot`] is known to the gate, and leaves it by dropping the slot, whatever becomes of the session.
//! Nobody waits in a thread. What is done under the lock takes less than a microsecond for a transaction and some microseconds for who looks,
//! and wakes nobody; that is done after.

mod away;
mod history;
mod hot;
mod keeper;
pub mod lines;
mod marks;
mod options;
mod reload;
mod resources;
mod rooms;
mod runaway;
mod slot;
mod stalls;
mod verdict;
mod view;
mod waits;

pub use away::TurnedAway;
pub use history::Moment;
pub use hot::HotRules;
pub use marks::{Hot, Marks};
pub use options::{DoorOptions, Mode};
pub use resources::{Resource, Row, Sample, Source};
pub use rooms::{Place, Room};
pub use slot::Slot;
pub use stalls::Stalls;
pub use verdict::Verdict;
pub use view::DoorView;

use crate::stats::Stats;
use away::{refusal, timed_out};
use gate::control::Controller;
use gate::{Arrival, ClassId, Entrance, Event, Gate, SettingsError, Ticket, Time};
use keeper::SOONER;
use marks::Asked;
use resources::Resources;
use runaway::Runaways;
use stage::Class;
use std::collections::HashMap;
use std::fmt;
use std::future::poll_fn;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering::Acquire, Ordering::Relaxed};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError, RwLock};
use std::task::{Poll, Waker};
use std::time::Instant;
use tokio::sync::Notify;
use waits::{Waiting, Waits};
use wire::Cancel;

/// What is known of a transaction at the door.
#[derive(Clone, Copy, Debug)]
pub struct About {
    /// How important it is.
    pub class: Class,
    /// Its first statement with the literals left out, as a number; none if that is not known.
    pub fingerprint: Option<u64>,
    /// What it will meet others at, as a number; none if it will not, or that is not known.
    pub hot_key: Option<u64>,
    /// Whose it is; who has several at once may wait for itself. 0: nobody's in particular.
    pub owner: u64,
}

/// Lets transactions in. All clones are one door.
#[derive(Clone, Default)]
pub struct Door(Option<Arc<Shared>>);

struct Shared {
    began: Instant,
    state: Mutex<State>,
    history: Mutex<history::History>,
    /// Something is due sooner than was thought.
    alarm: Notify,
    /// There may be something for the controller to see.
    looks: Notify,
    /// Whether there are transactions to which something happens when they run for too long.
    bounds_runaways: AtomicBool,
    /// Whether anything is asked of statements.
    asks: AtomicBool,
    asked: RwLock<Asked>,
    /// How often the settings were read.
    generation: AtomicU32,
    /// As they were last read.
    options: Mutex<DoorOptions>,
    /// Whether the number of processors was said.
    has_processors: bool,
    /// What transactions spend their time on, if somebody looks.
    resources: Mutex<Resources>,
    /// The clock of stages, before our own engine.
    clock: OnceLock<Arc<Stats>>,
    /// The gate's classes for those of sessions.
    classes: [ClassId; Class::ALL.len()],
    /// Whether it only grants connections: to all who look at it there is no gate.
    is_hidden: bool,
}

struct State {
    gate: Gate,
    mode: Mode,
    /// How many controllers there were: what is computed for an earlier one does not count.
    controllers: u64,
    /// Acts under [`Mode::Auto`] only; else it can be asked.
    controller: Controller,
    /// Where its model comes from.
    source: Source,
    waiting: Waits,
    /// How those are cancelled that may be.
    cancels: HashMap<Ticket, Arc<dyn Cancel>>,
    runaways: Runaways,
    /// When the task wakes that looks after time.
    armed: Option<Time>,
}

impl fmt::Debug for Door {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Door").field("mode", &self.mode()).finish_non_exhaustive()
    }
}

impl Door {
    /// A door that does as it is told; one that is always open, if there is to be none.
    ///
    /// # Errors
    /// Settings that make no gate.
    pub fn new(options: &DoorOptions) -> Result<Door, SettingsError> {
        if options.mode == Mode::Off { Ok(Door(None)) } else { Door::made(options) }
    }

    fn made(options: &DoorOptions) -> Result<Door, SettingsError> {
        let mut gate = Gate::new(options.gate.clone())?;
        let controller = Controller::new(options.control.clone());
        if options.mode == Mode::Auto {
            gate.set_mpl(Time::ZERO, controller.start(options.gate.processors));
        }
        let class = |class: Class| {
            let named = options.gate.class(class.name());
            named.ok_or_else(|| SettingsError::Missing(class.name().to_owned()))
        };
        let classes = [class(Class::High)?, class(Class::Normal)?, class(Class::Low)?];
        let state = State {
            gate,
            mode: options.mode,
            controllers: 0,
            controller,
            source: Source::of(&options.control),
            waiting: Waits::default(),
            cancels: HashMap::new(),
            runaways: Runaways::default(),
            armed: None,
        };
        let asked = options.asked();
        Ok(Door(Some(Arc::new(Shared {
            began: Instant::now(),
            state: Mutex::new(state),
            history: Mutex::default(),
            alarm: Notify::new(),
            looks: Notify::new(),
            bounds_runaways: AtomicBool::new(options.bounds_runaways()),
            asks: AtomicBool::new(!asked.is_nothing()),
            asked: RwLock::new(asked),
            generation: AtomicU32::new(0),
            options: Mutex::new(options.clone()),
            has_processors: options.has_processors,
            resources: Mutex::default(),
            clock: OnceLock::new(),
            classes,
            is_hidden: options.mode == Mode::Off,
        }))))
    }

    /// One of the same kind that nobody has come to yet, for another server.
    #[must_use]
    pub fn another(&self) -> Door {
        let options = |shared: &Arc<Shared>| shared.options.lock().unwrap_or_else(PoisonError::into_inner).clone();
        // What makes a door once makes it again.
        self.0.as_ref().map_or(Door(None), |shared| Door::made(&options(shared)).unwrap_or_default())
    }

    /// This door, which grants connections with slots; if it is always open, one that only grants connections.
    pub fn granting(&self) -> Door {
        let without_limit = || {
            let mut options = DoorOptions::default();
            (options.gate.lend_after, options.gate.stall_patience) = (None, None);
            Door::made(&options)
        };
        if self.0.is_some() { self.clone() } else { without_limit().unwrap_or_default() }
    }

    /// The gate, if it is to be seen.
    fn gate(&self) -> Option<&Arc<Shared>> {
        self.0.as_ref().filter(|shared| !shared.is_hidden)
    }

    /// What it does.
    pub fn mode(&self) -> Mode {
        self.gate().map_or(Mode::Off, |shared| shared.lock().mode)
    }

    /// Whether anybody may have to wait for a slot.
    pub fn is_there(&self) -> bool {
        self.gate().is_some()
    }

    /// What it is to be told of a transaction that begins with this text.
    pub fn marks(&self, text: &[u8]) -> Marks {
        let Some(shared) = self.gate() else { return Marks::default() };
        if !shared.asks.load(Relaxed) {
            return Marks { fingerprint: None, hot: marks::tagged(text) };
        }
        shared.asked.read().unwrap_or_else(PoisonError::into_inner).marks(text)
    }

    /// Marks of an earlier number may be others now.
    pub fn generation(&self) -> u32 {
        self.0.as_ref().map_or(0, |shared| shared.generation.load(Acquire))
    }

    /// Waits to be let in, from now on.
    ///
    /// # Errors
    /// It is turned away, by bounds that were set.
    pub async fn enter(&self, about: About, now: Instant) -> Result<Slot, TurnedAway> {
        self.enter_for(about, None, now).await
    }

    /// Waits to be let in with a connection of this room, if it needs one; both are granted together.
    ///
    /// # Errors
    /// It is turned away, by bounds that were set.
    pub async fn enter_for(&self, about: About, room: Option<&Arc<Room>>, now: Instant) -> Result<Slot, TurnedAway> {
        let (class, room) = (about.class, room.map(Arc::clone));
        let Some(shared) = &self.0 else { return Ok(Slot { inside: None, room, class, is_idle: false }) };
        let arrival = Arrival {
            class: shared.classes[about.class as usize],
            fingerprint: about.fingerprint,
            hot_key: about.hot_key,
            owner: about.owner,
            pool: room.as_ref().map(|room| room.pool),
        };
        let (ticket, entrance) = shared.with_at(shared.time(now), |state, now| {
            let (ticket, entrance) = state.gate.arrive(now, arrival).map_err(|refused| refusal(&refused))?;
            if entrance == Entrance::Waits {
                state.waiting.insert(ticket);
            }
            Ok::<_, TurnedAway>((ticket, entrance))
        })?;
        // From here on whoever gives up leaves.
        let inside = Some((Arc::clone(shared), ticket));
        let slot = Slot { inside, room, class, is_idle: false };
        if entrance == Entrance::Waits {
            shared.admission(ticket).await?;
        }
        Ok(slot)
    }

    /// Looks after time, and controls the limit. For ever.
    pub async fn watch(&self) {
        let Some(shared) = self.gate() else { return std::future::pending().await };
        tokio::join!(shared.keep_time(), shared.control(), shared.keep_history());
    }
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn time(&self, now: Instant) -> Time {
        Time::ZERO.after(now.saturating_duration_since(self.began))
    }

    fn with<R>(&self, act: impl FnOnce(&mut State, Time) -> R) -> R {
        self.with_at(self.time(Instant::now()), act)
    }

    /// Does something with the gate, and tells those whom it concerns. The gate takes a time that is over for its present.
    fn with_at<R>(&self, now: Time, act: impl FnOnce(&mut State, Time) -> R) -> R {
        let mut state = self.lock();
        let result = act(&mut state, now);
        let mut woken: Option<Waker> = None;
        let (mut runaways, mut demoted) = (Vec::new(), Vec::new());
        while let Some(event) = state.gate.next_event() {
            let (ticket, answer) = match event {
                Event::Admitted(ticket) => (ticket, Waiting::Admitted),
                Event::TimedOut(ticket, class, whereabouts) => (ticket, Waiting::TimedOut(class, whereabouts)),
                Event::Runaway(ticket) => {
                    state.note_runaway(now, ticket);
                    runaways.extend(state.cancels.get(&ticket).cloned());
                    continue;
                }
                Event::Demoted(ticket, class) => {
                    let low = self.classes[Class::Low as usize];
                    demoted.extend(state.cancels.get(&ticket).filter(|_| class == low).cloned());
                    continue;
                }
                Event::Extra(_) => continue,
            };
            let Some(waiting) = state.waiting.get_mut(ticket) else { continue };
            if let Waiting::Yet(Some(waker)) = std::mem::replace(waiting, answer)
                && let Some(before) = woken.replace(waker)
            {
                // More than one at a time is rare, and waking does not ask for the lock.
                before.wake();
            }
        }
        let due = state.gate.due();
        let is_sooner = match (due, state.armed) {
            (Some(due), Some(armed)) => due.after(SOONER) < armed,
            (due, None) => due.is_some() || 0 < state.gate.slots(),
            (None, Some(_)) => false,
        };
        if is_sooner {
            // Once is enough, until it has looked.
            state.armed = Some(due.unwrap_or(now));
        }
        // Under the lock: they are inside. What comes later would hit what their sessions do next.
        runaways.iter().for_each(|cancel| cancel.cancel());
        drop(state);
        if is_sooner {
            self.alarm.notify_one();
        }
        if let Some(waker) = woken {
            waker.wake();
        }
        demoted.iter().for_each(|cancel| cancel.demote());
        result
    }

    /// Waits until the gate has answered.
    async fn admission(&self, ticket: Ticket) -> Result<(), TurnedAway> {
        poll_fn(|cx| {
            let mut state = self.lock();
            let Some(waiting) = state.waiting.get_mut(ticket) else { return Poll::Ready(Ok(())) };
            match waiting {
                Waiting::Yet(waker) => {
                    *waker = Some(cx.waker().clone());
                    Poll::Pending
                }
                Waiting::Admitted => {
                    state.waiting.remove(ticket);
                    Poll::Ready(Ok(()))
                }
                Waiting::TimedOut(class, at) => {
                    let (class, at) = (*class, *at);
                    state.waiting.remove(ticket);
                    let name = state.gate.settings().classes[class.index()].name.clone();
                    Poll::Ready(Err(timed_out(&name, at)))
                }
            }
        })
        .await
    }
}

#[cfg(test)]
mod tests;
