//! Session state that statements run with: settings, clocks, role, random numbers, the catalog.
//!
//! **Invariant:** it is constant while a statement runs, except for the state of `random()` and the requests of
//! `set_config`.

use super::code::SessionCode;
use super::names::SessionObjects;
use super::routines::RoutineBodies;
use super::sleeps::Sleeps;
use catalog::{CatalogSnapshot, DATABASE, SessionContext};
use locked::Locked;
use settings::{Settings, VERSION};
use statement::error::{SqlError, SqlResult, SqlState};
use statement::holdings::SessionHoldings;
use statement::outcome::Signal;
use statement::time::TimeSource;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::sync::{Arc, Mutex, MutexGuard};
use types::forms::Forms;
use types::ops::{CallContext, FunctionTable};

/// Session state that statements run with. A clone shares the state of `random()`.
#[derive(Clone, Debug)]
pub struct Env {
    /// Formats of values as text, with the start time of the transaction.
    pub forms: Forms,
    /// Catalog of the statement under way, by which values of `regclass` and its like are read and written.
    pub(crate) catalog_snapshot: Option<Arc<CatalogSnapshot>>,
    /// Start time of the statement, in microseconds since 1970.
    pub statement_us: i64,
    /// Name of the current role, whose rights count. A part of a statement that runs as another role runs with a copy
    /// of the environment that has that role's name here.
    pub user: Arc<str>,
    /// Name of the session user: the role that has logged in, or that of `SET SESSION AUTHORIZATION`.
    pub session_user: Arc<str>,
    /// True within a SECURITY DEFINER routine.
    is_definer: bool,
    /// Process ID by which the client knows the session.
    pub backend_pid: u32,
    pub(crate) settings: Arc<Settings>,
    /// The session's prepared statements and portals.
    pub(crate) names: Arc<dyn SessionObjects>,
    pub(crate) sleeps: Sleeps,
    /// Clock of the session.
    time: TimeSource,
    /// Bodies of routines that the session has called.
    pub(crate) bodies: Arc<RoutineBodies>,
    /// Code of modules that the session has called.
    pub(crate) code: Arc<SessionCode>,
    /// Memory of the session's statements.
    pub holdings: Arc<SessionHoldings>,
    functions: &'static FunctionTable,
    chance: Arc<SharedCallEffects>,
    asked: Arc<RequestedSettings>,
}

/// State of `random()`, and signals. A flag saves most statements the lock.
#[derive(Debug)]
struct SharedCallEffects {
    /// True if a statement has changed the state since the last one began.
    is_touched: AtomicBool,
    state: Mutex<CallEffects>,
}

/// Settings that a statement has requested. A flag saves most statements the lock.
#[derive(Debug, Default)]
struct RequestedSettings {
    is_any: AtomicBool,
    all: Mutex<Vec<SettingRequest>>,
}

/// State of `random()`, now and at the beginning of the statement under way; and the signals that the statement has
/// sent to sessions.
#[derive(Debug)]
struct CallEffects {
    now: Random,
    begun: Random,
    sent: Vec<SentSignal>,
    /// Signals sent by runs of the statement that were undone.
    sent_before: Vec<SentSignal>,
    /// True while statements repeat an undone one in parts.
    is_repeating: bool,
}

/// Session, signal, and true if the session existed.
type SentSignal = (i32, Signal, bool);

impl CallEffects {
    fn seeded(seed: u64) -> CallEffects {
        let now = Random::seeded(seed);
        CallEffects { begun: now.clone(), now, sent: Vec::new(), sent_before: Vec::new(), is_repeating: false }
    }
}

/// Request of `set_config`: name, value (`None` for the default), and true if it is for the transaction only.
pub(crate) type SettingRequest = (String, Option<String>, bool);

impl Env {
    /// Returns the environment of a session that begins. `functions` are all that its statements can call.
    pub(crate) fn new(
        user: &str,
        backend_pid: u32,
        settings: Arc<Settings>,
        time: TimeSource,
        names: Arc<dyn SessionObjects>,
        functions: &'static FunctionTable,
        code: Arc<SessionCode>,
    ) -> Env {
        let seed = time.unix_us() as u64 ^ u64::from(backend_pid).rotate_left(32) ^ (&raw const *settings as u64);
        Env {
            forms: Forms::default(),
            catalog_snapshot: None,
            statement_us: 0,
            user: user.into(),
            session_user: user.into(),
            is_definer: false,
            backend_pid,
            settings,
            names,
            sleeps: Sleeps::new(time.clone()),
            time,
            bodies: Arc::default(),
            code,
            holdings: SessionHoldings::new(backend_pid),
            functions,
            chance: Arc::new(SharedCallEffects {
                is_touched: AtomicBool::new(false),
                state: Mutex::new(CallEffects::seeded(seed)),
            }),
            asked: Arc::default(),
        }
    }

    /// Locks the state, to change it.
    fn chance(&self) -> MutexGuard<'_, CallEffects> {
        self.chance.is_touched.store(true, Relaxed);
        self.chance.state.locked_anyway()
    }

    /// Returns a copy, with these names, for a query without effects that continues while the session runs other
    /// statements. It shares nothing that these change.
    pub(crate) fn apart(&self, names: Arc<dyn SessionObjects>) -> Env {
        let (sleeps, code) = (Sleeps::new(self.time.clone()), self.code.apart());
        Env { names, sleeps, code, asked: Arc::default(), ..self.clone() }
    }

    /// Returns a copy for a routine with these settings, as this role.
    pub(super) fn of_routine(&self, settings: Arc<Settings>, user: Arc<str>, is_definer: bool) -> Env {
        let is_definer = is_definer || self.is_definer;
        let mut forms = settings.forms.clone();
        forms.now_us = self.forms.now_us;
        forms.naming.clone_from(&self.forms.naming);
        Env { forms, settings, user, is_definer, ..self.clone() }
    }

    /// Begins a statement.
    pub(crate) fn begin(&self) {
        drop(self.code.take_notices());
        if !self.chance.is_touched.swap(false, Relaxed) {
            return;
        }
        let mut chance = self.chance.state.locked_anyway();
        chance.begun = chance.now.clone();
        chance.sent.clear();
        if !chance.is_repeating {
            chance.sent_before.clear();
        }
    }

    /// Lets the next statements together repeat the one that has ended, and was undone.
    pub(crate) fn repeat(&self) {
        let mut chance = self.chance();
        chance.is_repeating = true;
        chance.now = chance.begun.clone();
        let sent = std::mem::take(&mut chance.sent);
        chance.sent_before.extend(sent);
    }

    /// Ends the repetition.
    pub(crate) fn end_repeat(&self) {
        self.chance().is_repeating = false;
    }

    /// Restarts a statement after its wait: it gets the same random numbers, and sends no signal twice.
    pub(crate) fn begin_again(&self) {
        drop(self.code.take_notices());
        let mut chance = self.chance();
        chance.now = chance.begun.clone();
        let sent = std::mem::take(&mut chance.sent);
        chance.sent_before.extend(sent);
    }

    /// Sends a signal to a session, unless an undone run of the statement has done so. Returns true if the session
    /// exists.
    pub(crate) fn signal(&self, pid: i32, signal: Signal, send: impl FnOnce() -> bool) -> bool {
        let mut chance = self.chance();
        let before = chance.sent_before.iter().position(|(to, which, _)| (*to, *which) == (pid, signal));
        let answer = match before {
            Some(at) => chance.sent_before.swap_remove(at).2,
            None => send(),
        };
        chance.sent.push((pid, signal, answer));
        answer
    }

    /// Takes the requests since the last call.
    pub(crate) fn take_asked(&self) -> Vec<SettingRequest> {
        if !self.asked.is_any.swap(false, Relaxed) {
            return Vec::new();
        }
        std::mem::take(&mut *self.asked.all.locked_anyway())
    }
}

/// Setting that holds the name of the session user.
pub(crate) const SESSION_USER: &str = "session_authorization";
/// Setting that holds the name of the current role.
pub(crate) const ROLE: &str = "role";

/// Settings that decide about rights and about results, besides the characteristics of transactions. Statements of a
/// body run with those of the calling statement.
const OF_STATEMENT: [&str; 7] =
    [ROLE, SESSION_USER, "timezone", "datestyle", "intervalstyle", "extra_float_digits", "bytea_output"];

impl Env {
    /// Checks that no statement of a body comes after `set_config` of a setting that it should run with: the setting
    /// counts when the calling statement has ended.
    ///
    /// # Errors
    /// `0A000`
    pub(crate) fn check_settings_of_body(&self) -> SqlResult<()> {
        if !self.asked.is_any.load(Relaxed) {
            return Ok(());
        }
        let asked = self.asked.all.locked_anyway();
        let is_one = |name: &str| OF_STATEMENT.contains(&name) || settings::of_transaction(name).is_some();
        match asked.iter().find(|(name, ..)| is_one(name)) {
            Some((name, ..)) => {
                Err(SqlError::unsupported(format_args!("a statement after set_config of \"{name}\" in a routine")))
            }
            None => Ok(()),
        }
    }
}

impl CallContext for Env {
    fn forms(&self) -> &Forms {
        &self.forms
    }

    fn statement_us(&self) -> i64 {
        self.statement_us
    }

    fn clock_us(&self) -> i64 {
        self.time.unix_us()
    }

    fn user(&self) -> &str {
        &self.user
    }

    fn session_user(&self) -> &str {
        &self.session_user
    }

    fn database(&self) -> &str {
        DATABASE
    }

    fn version(&self) -> &str {
        VERSION
    }

    fn backend_pid(&self) -> u32 {
        self.backend_pid
    }

    fn sleep(&self, seconds: f64) -> SqlResult<()> {
        self.sleeps.sleep(seconds)
    }

    fn ask(&self, name: &str, value: Option<&str>, is_local: bool) -> SqlResult<String> {
        let shown = self.settings.would_show(name, value)?;
        if self.is_definer && [ROLE, SESSION_USER].iter().any(|own| own.eq_ignore_ascii_case(name)) {
            let message = format!("cannot set parameter \"{}\" within security-definer function", name.to_lowercase());
            return Err(SqlError::new(SqlState::INSUFFICIENT_PRIVILEGE, message));
        }
        let mut asked = self.asked.all.locked_anyway();
        self.asked.is_any.store(true, Relaxed);
        asked.push((name.to_lowercase(), value.map(str::to_owned), is_local));
        Ok(shown)
    }

    fn setting(&self, name: &str) -> SqlResult<String> {
        let asked = self.asked.all.locked_anyway();
        match asked.iter().rev().find(|(asked, ..)| asked.eq_ignore_ascii_case(name)) {
            Some((name, value, _)) => self.settings.would_show(name, value.as_deref()),
            None => self.settings.show(name).map(str::to_owned),
        }
    }

    fn random(&self) -> f64 {
        self.chance().now.next_f64()
    }

    fn random_bits(&self) -> u64 {
        self.chance().now.next()
    }

    fn set_seed(&self, seed: f64) {
        let seed = (((1_u64 << 52) - 1) as f64 * seed) as i64 as u64;
        self.chance().now = Random::seeded(seed);
    }
}

impl SessionContext for Env {
    fn catalog_snapshot(&self) -> Option<&Arc<CatalogSnapshot>> {
        self.catalog_snapshot.as_ref()
    }

    fn functions(&self) -> &'static FunctionTable {
        self.functions
    }
}

/// PostgreSQL's generator, xoroshiro128**, so that the same seed gives the same numbers.
#[derive(Clone, Debug)]
struct Random([u64; 2]);

impl Random {
    fn seeded(mut seed: u64) -> Random {
        let mut split = || {
            seed = seed.wrapping_add(0x9E37_79B9_7F4A_7C15);
            let value = (seed ^ (seed >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
            let value = (value ^ (value >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
            value ^ (value >> 31)
        };
        let state = [split(), split()];
        Random(if state == [0, 0] { [0x5851_F42D_4C95_7F2D, 0x1405_7B7E_F767_814F] } else { state })
    }

    fn next(&mut self) -> u64 {
        let [first, second] = self.0;
        let mixed = second ^ first;
        let value = first.wrapping_mul(5).rotate_left(7).wrapping_mul(9);
        self.0 = [first.rotate_left(24) ^ mixed ^ (mixed << 16), mixed.rotate_left(37)];
        value
    }

    fn next_f64(&mut self) -> f64 {
        (self.next() >> 12) as f64 / (1_u64 << 52) as f64
    }
}
