//! The door: the gate, with sessions before it.
//!
//! A transaction enters before it runs, or gets a server connection, and leaves when it has ended. Who goes in is for
//! [`gate::Gate`] to say; here are the clock, the waiting, and the one task that looks after time and the limit.
//!
//! **Invariant:** whoever has a [`Slot`] is known to the gate, and leaves it by dropping the slot, whatever becomes of the session.
//! Nobody waits in a thread. What is done under the lock takes less than a microsecond, and wakes nobody; that is done after.

mod history;
mod hot;
mod marks;
mod options;
mod reload;
mod resources;
mod stalls;
mod view;

pub use history::Moment;
pub use hot::HotRules;
pub(crate) use marks::{Hot, Marks};
pub use options::{DoorOptions, Mode};
pub(crate) use resources::{Resource, Row, Sample, Source};
pub(crate) use stalls::Stalls;
pub use view::DoorView;

use crate::backend::Cancel;
use crate::stats::Stats;
use gate::control::Controller;
use gate::{Arrival, ClassId, Ending, Entrance, Event, Gate, Refused, SettingsError, Ticket, Time, Whereabouts};
use marks::Asked;
use resources::Resources;
use sql::{SqlError, SqlState};
use stage::Class;
use std::collections::HashMap;
use std::fmt;
use std::future::poll_fn;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering::Acquire, Ordering::Relaxed};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError, RwLock};
use std::task::{Poll, Waker};
use std::time::{Duration, Instant};
use tokio::sync::Notify;

/// What is known of a transaction at the door.
#[derive(Clone, Copy, Debug)]
pub(crate) struct About {
    /// How important it is.
    pub(crate) class: Class,
    /// Its first statement with the literals left out, as a number; none if that is not known.
    pub(crate) fingerprint: Option<u64>,
    /// What it will meet others at, as a number; none if it will not, or that is not known.
    pub(crate) hot_key: Option<u64>,
    /// Whose it is; who has several at once may wait for itself. 0: nobody's in particular.
    pub(crate) owner: u64,
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
    /// Whether there are transactions that are cancelled when they run for too long.
    cancels: AtomicBool,
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
    /// When the task wakes that looks after time.
    armed: Option<Time>,
}

/// Somebody before the door.
enum Waiting {
    Yet(Option<Waker>),
    Admitted,
    TimedOut(ClassId, Whereabouts),
}

/// Those before the door, each at the place that the gate has for it.
#[derive(Default)]
struct Waits(Vec<Option<(Ticket, Waiting)>>);

impl Waits {
    fn insert(&mut self, ticket: Ticket) {
        if self.0.len() <= ticket.place() {
            self.0.resize_with(ticket.place() + 1, || None);
        }
        self.0[ticket.place()] = Some((ticket, Waiting::Yet(None)));
    }

    fn get_mut(&mut self, ticket: Ticket) -> Option<&mut Waiting> {
        let (own, waiting) = self.0.get_mut(ticket.place())?.as_mut()?;
        (*own == ticket).then_some(waiting)
    }

    fn remove(&mut self, ticket: Ticket) {
        if self.get_mut(ticket).is_some() {
            self.0[ticket.place()] = None;
        }
    }

    #[cfg(test)]
    fn is_empty(&self) -> bool {
        self.0.iter().all(Option::is_none)
    }
}

/// Why a transaction was turned away; what the client is told besides.
#[derive(Debug)]
pub(crate) struct TurnedAway {
    pub(crate) error: SqlError,
    /// Class, place and expected wait.
    pub(crate) notice: Option<SqlError>,
}

impl From<SqlError> for TurnedAway {
    fn from(error: SqlError) -> TurnedAway {
        TurnedAway { error, notice: None }
    }
}

impl fmt::Debug for Door {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Door").field("mode", &self.mode()).finish_non_exhaustive()
    }
}

/// How often the controller looks, if there is anything to see.
const LOOK: Duration = Duration::from_millis(100);
/// The task that looks after time is not woken for less.
const SOONER: Duration = Duration::from_millis(1);

impl Door {
    /// A door that does as it is told; one that is always open, if there is to be none.
    ///
    /// # Errors
    /// Settings that make no gate.
    pub fn new(options: &DoorOptions) -> Result<Door, SettingsError> {
        if options.mode == Mode::Off {
            return Ok(Door(None));
        }
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
            armed: None,
        };
        let asked = options.asked();
        Ok(Door(Some(Arc::new(Shared {
            began: Instant::now(),
            state: Mutex::new(state),
            history: Mutex::default(),
            alarm: Notify::new(),
            looks: Notify::new(),
            cancels: AtomicBool::new(options.cancels()),
            asks: AtomicBool::new(!asked.is_nothing()),
            asked: RwLock::new(asked),
            generation: AtomicU32::new(0),
            options: Mutex::new(options.clone()),
            has_processors: options.has_processors,
            resources: Mutex::default(),
            clock: OnceLock::new(),
            classes,
        }))))
    }

    /// One of the same kind that nobody has come to yet, for another server.
    #[must_use]
    pub fn another(&self) -> Door {
        let options = |shared: &Arc<Shared>| shared.options.lock().unwrap_or_else(PoisonError::into_inner).clone();
        // What makes a door once makes it again.
        self.0.as_ref().map_or(Door(None), |shared| Door::new(&options(shared)).unwrap_or_default())
    }

    /// What it does.
    pub fn mode(&self) -> Mode {
        self.0.as_ref().map_or(Mode::Off, |shared| shared.lock().mode)
    }

    /// Whether anybody may have to wait.
    pub(crate) fn is_there(&self) -> bool {
        self.0.is_some()
    }

    /// What it is to be told of a transaction that begins with this text.
    pub(crate) fn marks(&self, text: &[u8]) -> Marks {
        let Some(shared) = &self.0 else { return Marks::default() };
        if !shared.asks.load(Relaxed) {
            return Marks { fingerprint: None, hot: marks::tagged(text) };
        }
        shared.asked.read().unwrap_or_else(PoisonError::into_inner).marks(text)
    }

    /// Marks of an earlier number may be others now.
    pub(crate) fn generation(&self) -> u32 {
        self.0.as_ref().map_or(0, |shared| shared.generation.load(Acquire))
    }

    /// Waits to be let in, from now on.
    ///
    /// # Errors
    /// It is turned away, by bounds that were set.
    pub(crate) async fn enter(&self, about: About, now: Instant) -> Result<Slot, TurnedAway> {
        let Some(shared) = &self.0 else { return Ok(Slot { inside: None, class: about.class, is_idle: false }) };
        let arrival = Arrival {
            class: shared.classes[about.class as usize],
            fingerprint: about.fingerprint,
            hot_key: about.hot_key,
            owner: about.owner,
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
        let slot = Slot { inside, class: about.class, is_idle: false };
        if entrance == Entrance::Waits {
            shared.admission(ticket).await?;
        }
        Ok(slot)
    }

    /// Looks after time, and controls the limit. For ever.
    pub(crate) async fn watch(&self) {
        let Some(shared) = &self.0 else { return std::future::pending().await };
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
        let mut runaways = Vec::new();
        while let Some(event) = state.gate.next_event() {
            let (ticket, answer) = match event {
                Event::Admitted(ticket) => (ticket, Waiting::Admitted),
                Event::TimedOut(ticket, class, whereabouts) => (ticket, Waiting::TimedOut(class, whereabouts)),
                Event::Runaway(ticket) => {
                    runaways.extend(state.cancels.get(&ticket).cloned());
                    continue;
                }
                Event::Demoted(..) | Event::Extra(_) => continue,
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
        drop(state);
        if is_sooner {
            self.alarm.notify_one();
        }
        if let Some(waker) = woken {
            waker.wake();
        }
        runaways.iter().for_each(|cancel| cancel.cancel());
        result
    }

    /// Slots are lent, waits end; and there may be something for the controller to see.
    async fn keep_time(&self) {
        loop {
            let wait = self.with(|state, now| {
                state.gate.tick(now);
                let look = (0 < state.gate.slots()).then(|| now.after(LOOK));
                state.armed = [state.gate.due(), look].into_iter().flatten().min();
                state.armed.map(|due| due.since(now))
            });
            self.looks.notify_one();
            match wait {
                Some(wait) => drop(tokio::time::timeout(wait.max(SOONER), self.alarm.notified()).await),
                None => self.alarm.notified().await,
            }
        }
    }

    /// Moves the limit under [`Mode::Auto`]. What follows from an observation is computed on a thread beside: models may take seconds,
    /// and neither transactions nor the clock wait for them.
    async fn control(&self) {
        loop {
            self.looks.notified().await;
            let over = self.with(|state, now| {
                if state.mode != Mode::Auto {
                    return None;
                }
                let seen = state.controller.observed(now, &mut state.gate)?;
                Some((state.controller.clone(), seen, state.gate.settings().processors, now, state.controllers))
            });
            let Some((mut controller, seen, processors, now, number)) = over else { continue };
            self.teach(&mut controller);
            let decided = tokio::task::spawn_blocking(move || {
                let mpl = controller.decide(now, &seen, processors);
                (controller, mpl)
            });
            let Ok((controller, mpl)) = decided.await else { continue };
            if let Some(moved) = controller.moves().last()
                && moved.from != moved.to
            {
                tracing::info!(from = moved.from, to = moved.to, reason = %moved.reason, "the limit has moved");
            }
            self.with(|state, now| {
                if state.controllers == number {
                    state.controller = controller;
                    Controller::steer(now, &mut state.gate, mpl);
                }
            });
        }
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

fn told(class: &str, ahead: usize, expected: Duration) -> SqlError {
    let ms = expected.as_secs_f64() * 1e3;
    SqlError::new(SqlState("00000"), format!("transaction of class \"{class}\" was turned away"))
        .detail(format!("{ahead} transactions were to go before it; the expected wait was {ms:.0} ms."))
}

fn refusal(refused: &Refused) -> TurnedAway {
    let Refused::Full { class, waiting, expected } = refused;
    let error = SqlError::new(SqlState("53300"), refused.to_string())
        .detail(format!("{waiting} of them are waiting, as many as may."))
        .hint("Try again later, or raise queue_max of the class in overtake.gate_classes.");
    TurnedAway { error, notice: Some(told(class, *waiting, *expected)) }
}

fn timed_out(class: &str, at: Whereabouts) -> TurnedAway {
    let error =
        SqlError::new(SqlState("57014"), format!("transaction of class \"{class}\" waited too long to be let in"))
            .hint("Try again later, or raise wait_max of the class in overtake.gate_classes.");
    TurnedAway { error, notice: Some(told(class, at.ahead, at.expected)) }
}

/// A place inside. Dropping it is leaving.
pub(crate) struct Slot {
    inside: Option<(Arc<Shared>, Ticket)>,
    class: Class,
    is_idle: bool,
}

impl fmt::Debug for Slot {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Slot").field("is_idle", &self.is_idle).finish_non_exhaustive()
    }
}

impl Slot {
    /// The transaction waits for its client.
    pub(crate) fn idle(&mut self) {
        if let Some((shared, ticket)) = &self.inside
            && !std::mem::replace(&mut self.is_idle, true)
        {
            shared.with(|state, now| state.gate.rest(now, *ticket));
        }
    }

    /// Its client has spoken again: waits for a slot, if its own was lent.
    pub(crate) async fn active(&mut self) {
        let Some((shared, ticket)) = &self.inside else { return };
        if !self.is_idle {
            return;
        }
        let entrance = shared.with(|state, now| {
            let entrance = state.gate.resume(now, *ticket);
            if entrance == Entrance::Waits {
                state.waiting.insert(*ticket);
            }
            entrance
        });
        self.is_idle = false;
        if entrance == Entrance::Waits {
            // Who comes back is not turned away.
            let _: Result<(), TurnedAway> = shared.admission(*ticket).await;
        }
    }

    /// The transaction is of another class from now on.
    pub(crate) fn reclass(&mut self, class: Class) {
        if let Some((shared, ticket)) = &self.inside
            && std::mem::replace(&mut self.class, class) != class
        {
            let class = shared.classes[class as usize];
            shared.with(|state, now| state.gate.reclass(now, *ticket, class));
        }
    }

    /// If it may have to be cancelled because it runs for too long, this is how.
    pub(crate) fn cancel_by(&self, cancel: impl FnOnce() -> Arc<dyn Cancel>) {
        if let Some((shared, ticket)) = &self.inside
            && shared.cancels.load(Relaxed)
        {
            let cancel = cancel();
            shared.with(|state, _| state.cancels.insert(*ticket, cancel));
        }
    }

    /// Whether it waits for a lock.
    pub(crate) fn stall(&self, is_stalled: bool) {
        if let Some((shared, ticket)) = &self.inside {
            shared.with(|state, now| state.gate.stall(now, *ticket, is_stalled));
        }
    }

    /// It has done what it was for.
    pub(crate) fn done(mut self, now: Instant) {
        self.leave(now, Ending::Done);
    }

    fn leave(&mut self, now: Instant, ending: Ending) {
        if let Some((shared, ticket)) = self.inside.take() {
            shared.with_at(shared.time(now), |state, now| {
                state.waiting.remove(ticket);
                if !state.cancels.is_empty() {
                    state.cancels.remove(&ticket);
                }
                state.gate.leave(now, ticket, ending);
            });
        }
    }
}

impl Drop for Slot {
    fn drop(&mut self) {
        if self.inside.is_some() {
            self.leave(Instant::now(), Ending::Failed);
        }
    }
}

#[cfg(test)]
mod tests;
