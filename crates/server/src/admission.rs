//! Admission: the gate, with the sessions that wait for it.
//!
//! A transaction is admitted before it runs, or gets a server connection, and leaves when it has ended. [`gate::Gate`]
//! decides which one is admitted; this module has the clock, the waits, and the one task that handles timeouts and the
//! limit.
//!
//! **Invariant:** the gate knows every holder of a [`Slot`], and the holder leaves the gate by dropping the slot,
//! whatever becomes of the session. No thread blocks in a wait. The work under the lock takes less than a microsecond
//! for a transaction and some microseconds for a view. Wakers are called after the lock is released.

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
pub use history::GateSample;
pub use hot::HotRules;
pub use marks::{Hot, Marks};
pub use options::{AdmissionOptions, Mode};
pub use resources::{DemandSource, Resource, ResourceRow, ResourceSample};
pub use rooms::{Room, RoomPlace};
pub use slot::Slot;
pub use stalls::Stalls;
pub use verdict::Verdict;
pub use view::AdmissionView;

use crate::stats::Stats;
use away::{refusal, timed_out};
use gate::control::Controller;
use gate::{Arrival, ClassId, Entrance, Event, Gate, SettingsError, Ticket, Time};
use keeper::SOONER;
use locked::{Locked, RwLocked};
use marks::NeededMarks;
use resources::Resources;
use runaway::Runaways;
use stage::Class;
use statement::time::TimeSource;
use std::collections::HashMap;
use std::fmt;
use std::future::poll_fn;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering::Acquire, Ordering::Relaxed};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, RwLock};
use std::task::{Poll, Waker};
use std::time::Instant;
use tokio::sync::Notify;
use waits::{WaitState, Waits};
use wire::Cancel;

/// Properties of a transaction that asks for admission.
#[derive(Clone, Copy, Debug)]
pub struct About {
    /// Priority class.
    pub class: Class,
    /// Fingerprint of its first statement, with the literals left out; `None` if it is not known.
    pub fingerprint: Option<u64>,
    /// Hash of the key at which it will conflict with others; `None` if it will not, or if that is not known.
    pub hot_key: Option<u64>,
    /// Owner of the transaction. An owner of several transactions may wait for itself. 0: no particular owner.
    pub owner: u64,
}

/// Admission control for transactions. All clones share one state.
#[derive(Clone, Default)]
pub struct Admission(Option<Arc<AdmissionShared>>);

struct AdmissionShared {
    time: TimeSource,
    began: Instant,
    state: Mutex<AdmissionState>,
    history: Mutex<history::GateHistory>,
    /// Signals that something is due sooner than was expected.
    alarm: Notify,
    /// Signals that there may be something for the controller to observe.
    looks: Notify,
    /// True if some class limits the run time of its transactions.
    bounds_runaways: AtomicBool,
    /// True if the settings need properties of statements.
    asks: AtomicBool,
    asked: RwLock<NeededMarks>,
    /// Number of times that the settings were read.
    generation: AtomicU32,
    /// Settings as they were last read.
    options: Mutex<AdmissionOptions>,
    /// True if the number of processors is configured.
    has_processors: bool,
    /// Resources that transactions spend their time on, if somebody samples them.
    resources: Mutex<Resources>,
    /// Clock of stages, in front of our own engine.
    clock: OnceLock<Arc<Stats>>,
    /// Classes of the gate for the classes of sessions.
    classes: [ClassId; Class::ALL.len()],
    /// True if the gate only grants connections. Views show no gate then.
    is_hidden: bool,
}

struct AdmissionState {
    gate: Gate,
    mode: Mode,
    /// Number of controllers so far: results that were computed for an earlier one do not count.
    controllers: u64,
    /// Controller of the limit. It acts under [`Mode::Auto`] only; otherwise it can only be asked.
    controller: Controller,
    /// Source of its model.
    source: DemandSource,
    waiting: Waits,
    /// Handles that cancel the transactions that may be cancelled.
    cancels: HashMap<Ticket, Arc<dyn Cancel>>,
    runaways: Runaways,
    /// Time for which the task that handles timeouts is armed.
    armed: Option<Time>,
}

impl fmt::Debug for Admission {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Admission").field("mode", &self.mode()).finish_non_exhaustive()
    }
}

impl Admission {
    /// Creates the admission control that the options describe; one that admits everybody at once, if they ask for
    /// none.
    ///
    /// # Errors
    /// The settings describe no valid gate.
    pub fn new(options: &AdmissionOptions) -> Result<Admission, SettingsError> {
        Admission::timed(options, TimeSource::system())
    }

    /// Creates one that takes the time from there.
    ///
    /// # Errors
    /// The settings describe no valid gate.
    pub fn timed(options: &AdmissionOptions, time: TimeSource) -> Result<Admission, SettingsError> {
        if options.mode == Mode::Off { Ok(Admission(None)) } else { Admission::made(options, time) }
    }

    fn made(options: &AdmissionOptions, time: TimeSource) -> Result<Admission, SettingsError> {
        let mut gate = Gate::new(options.gate.clone())?;
        let controller = Controller::new(options.control.clone());
        // A found limit starts where the controller begins its search; the other modes keep the limit of the settings.
        if options.mode == Mode::Auto {
            gate.set_mpl(Time::ZERO, controller.start(options.gate.processors));
        }
        let class = |class: Class| {
            let named = options.gate.class(class.name());
            named.ok_or_else(|| SettingsError::Missing(class.name().to_owned()))
        };
        let classes = [class(Class::High)?, class(Class::Normal)?, class(Class::Low)?];
        let state = AdmissionState {
            gate,
            mode: options.mode,
            controllers: 0,
            controller,
            source: DemandSource::of(&options.control),
            waiting: Waits::default(),
            cancels: HashMap::new(),
            runaways: Runaways::default(),
            armed: None,
        };
        let asked = options.asked();
        Ok(Admission(Some(Arc::new(AdmissionShared {
            began: time.now(),
            time,
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

    /// Creates one of the same kind without any transactions, for another server.
    #[must_use]
    pub fn another(&self) -> Admission {
        let options = |shared: &Arc<AdmissionShared>| shared.options.locked_anyway().clone();
        // Options that made one gate make another.
        self.0.as_ref().map_or(Admission(None), |shared| {
            Admission::made(&options(shared), shared.time.clone()).unwrap_or_default()
        })
    }

    /// Returns this admission control, which grants connections together with slots. If it admits everybody at once,
    /// returns one that only grants connections and takes the time from there.
    pub fn granting(&self, time: &TimeSource) -> Admission {
        let without_limit = || {
            let mut options = AdmissionOptions::default();
            (options.gate.lend_after, options.gate.stall_patience) = (None, None);
            Admission::made(&options, time.clone())
        };
        if self.0.is_some() { self.clone() } else { without_limit().unwrap_or_default() }
    }

    /// Returns the gate, unless it is hidden.
    fn gate(&self) -> Option<&Arc<AdmissionShared>> {
        self.0.as_ref().filter(|shared| !shared.is_hidden)
    }

    /// Mode of the gate.
    pub fn mode(&self) -> Mode {
        self.gate().map_or(Mode::Off, |shared| shared.lock().mode)
    }

    /// True if a transaction may have to wait for a slot.
    pub fn is_there(&self) -> bool {
        self.gate().is_some()
    }

    /// Returns the properties of a transaction that begins with this text, as far as the settings need them.
    pub fn marks(&self, text: &[u8]) -> Marks {
        let Some(shared) = self.gate() else { return Marks::default() };
        if !shared.asks.load(Relaxed) {
            return Marks { fingerprint: None, hot: marks::tagged(text) };
        }
        shared.asked.read_locked_anyway().marks(text)
    }

    /// Number of times that the settings were read. Marks that were made under an earlier number may be outdated.
    pub fn generation(&self) -> u32 {
        self.0.as_ref().map_or(0, |shared| shared.generation.load(Acquire))
    }

    /// Waits to be admitted, from now on.
    ///
    /// # Errors
    /// The transaction is turned away, by bounds that were set.
    pub async fn enter(&self, about: About, now: Instant) -> Result<Slot, TurnedAway> {
        self.enter_for(about, None, now).await
    }

    /// Waits to be admitted with a connection of this room, if it needs one; both are granted together.
    ///
    /// # Errors
    /// The transaction is turned away, by bounds that were set.
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
        let (ticket, entrance) = shared.with_at(shared.at(now), |state, now| {
            let (ticket, entrance) = state.gate.arrive(now, arrival).map_err(|refused| refusal(&refused))?;
            if entrance == Entrance::Waits {
                state.waiting.insert(ticket);
            }
            Ok::<_, TurnedAway>((ticket, entrance))
        })?;
        // From here on, dropping the future leaves the gate.
        let inside = Some((Arc::clone(shared), ticket));
        let slot = Slot { inside, room, class, is_idle: false };
        if entrance == Entrance::Waits {
            shared.admission(ticket).await?;
        }
        Ok(slot)
    }

    /// Handles timeouts and controls the limit, for ever.
    pub async fn watch(&self) {
        let Some(shared) = self.gate() else { return std::future::pending().await };
        tokio::join!(shared.keep_time(), shared.control(), shared.keep_history());
    }
}

impl AdmissionShared {
    fn lock(&self) -> MutexGuard<'_, AdmissionState> {
        self.state.locked()
    }

    /// True after a panic of the gate. Whoever uses the gate next ends the process; the ends of slots, rooms and places
    /// leave that to others, as they may be part of the unwinding of that very panic.
    fn is_half_changed(&self) -> bool {
        self.state.is_poisoned()
    }

    fn at(&self, now: Instant) -> Time {
        Time::ZERO.after(now.saturating_duration_since(self.began))
    }

    fn with<R>(&self, act: impl FnOnce(&mut AdmissionState, Time) -> R) -> R {
        self.with_at(self.at(self.time.now()), act)
    }

    /// Calls `act` with the gate, and notifies the sessions that it concerns. A time in the past counts as the present
    /// for the gate.
    fn with_at<R>(&self, now: Time, act: impl FnOnce(&mut AdmissionState, Time) -> R) -> R {
        let mut state = self.lock();
        let result = act(&mut state, now);
        let mut woken: Option<Waker> = None;
        let (mut runaways, mut demoted) = (Vec::new(), Vec::new());
        while let Some(event) = state.gate.next_event() {
            let (ticket, answer) = match event {
                Event::Admitted(ticket) => (ticket, WaitState::Admitted),
                Event::TimedOut(ticket, class, whereabouts) => (ticket, WaitState::TimedOut(class, whereabouts)),
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
            if let WaitState::Yet(Some(waker)) = std::mem::replace(waiting, answer)
                && let Some(before) = woken.replace(waker)
            {
                // More than one at a time is rare, and the waker does not take the lock.
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
            // One alarm suffices until the task has looked.
            state.armed = Some(due.unwrap_or(now));
        }
        // The lock is held, so these transactions are still inside. A later cancel would hit whatever their sessions do
        // next.
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

    /// Waits for the answer of the gate.
    async fn admission(&self, ticket: Ticket) -> Result<(), TurnedAway> {
        poll_fn(|cx| {
            let mut state = self.lock();
            let Some(waiting) = state.waiting.get_mut(ticket) else { return Poll::Ready(Ok(())) };
            match waiting {
                WaitState::Yet(waker) => {
                    *waker = Some(cx.waker().clone());
                    Poll::Pending
                }
                WaitState::Admitted => {
                    state.waiting.remove(ticket);
                    Poll::Ready(Ok(()))
                }
                WaitState::TimedOut(class, at) => {
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
