//! Statistics of sessions and statements.
//!
//! **Invariant:** a statement costs a few relaxed additions, and a view never holds up a running statement. Memory is
//! bounded: past a number of different statements, the rest count as one.

use locked::Locked;
use stage::observe::{ActivityRow, ClockRow, Observe, RunPartRow, StageRow, StatementRow};
use stage::{Class, Stage, StageBook, StageKey, StageShard, StageTimes, TimeSpread};
use statement::outcome::Signal;
use statement::outcome::TransactionStatus;
use statement::time::TimeSource;
use std::collections::HashMap;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::atomic::{AtomicBool, AtomicI64, AtomicU8, AtomicU64, Ordering::Relaxed, Ordering::SeqCst};
use std::sync::{Arc, Mutex};
use std::time::Instant;
use syntax::normalised;
use wire::End;
use wire::wait::Gone;

/// Maximum number of statements that are counted separately.
const STATEMENTS_MAX: usize = 2_000;
/// Maximum size in bytes of a text that is kept.
const TEXT_MAX: usize = 4_000;
/// Name under which the remaining statements are counted.
const OTHERS: &str = "<others>";

/// Counters of one statement, its literals left out.
#[derive(Debug, Default)]
pub struct StatementTotals {
    times: TimeSpread,
    count: AtomicU64,
    /// Number of executions that were long.
    long: AtomicU64,
    rows: AtomicU64,
    errors: AtomicU64,
    /// Nanoseconds in each stage, of executions that are over with all their answers.
    stages: [AtomicU64; Stage::COUNT],
    /// Nanoseconds of the executions counted, without the preparation and the transfer.
    run_ns: AtomicU64,
}

/// True for a stage in which a statement occupies a thread that runs it.
fn is_run(stage: Stage) -> bool {
    matches!(stage, Stage::Run | Stage::Crossing | Stage::CrossingWait | Stage::Encode | Stage::NetworkWrite)
}

/// True for a stage in which it waits for others, except for admission.
fn is_wait(stage: Stage) -> bool {
    matches!(stage, Stage::Dispatch | Stage::LockWait | Stage::LogWait)
}

/// Run time in nanoseconds above which a statement delays others too much.
const LONG_NS: u64 = 2_000_000;
/// Statements that are known to be short may be long once in this many executions: even a short one is, when its thread
/// loses the processor.
const LONG_SELDOM: u64 = 64;

impl StatementTotals {
    /// True if the statement is known to be short. Executions that ended by an error, a cancel for instance, tell
    /// nothing about that.
    pub fn is_short(&self) -> bool {
        let (count, long) = (self.count.load(Relaxed), self.long.load(Relaxed));
        let count = count.saturating_sub(self.errors.load(Relaxed));
        0 < count && long * LONG_SELDOM <= count
    }

    /// True if the statement was never counted.
    pub fn is_new(&self) -> bool {
        self.count.load(Relaxed) == 0
    }

    /// True if the statement is known to take long until its rows are there, no matter what computes them.
    pub fn is_long(&self) -> bool {
        let count = self.count.load(Relaxed);
        0 < count && LONG_NS * count < self.run_ns.load(Relaxed)
    }

    fn add(&self, times: &StageTimes) {
        for (stage, ns) in times.iter() {
            if let Some(sum) = self.stages.get(stage as usize) {
                sum.fetch_add(ns, Relaxed);
            }
        }
    }
}

/// Entry of one session.
#[derive(Debug)]
pub struct SessionStats {
    pid: i32,
    user: String,
    database: String,
    client: Option<String>,
    session_start: Instant,
    session_start_us: i64,
    /// Handle by which others end the session, or its statement.
    pub end: Arc<End>,
    query_start_us: AtomicI64,
    state: AtomicU8,
    /// Number of statements that have begun.
    begun: AtomicU64,
    /// True while the last of them is being prepared.
    is_announced: AtomicBool,
    class: AtomicU8,
    /// Hash for [`SessionStats::owner`].
    owner: AtomicU64,
    texts: Mutex<SessionTexts>,
}

#[derive(Debug, Default)]
struct SessionTexts {
    application: String,
    query: Arc<str>,
}

const STATES: [&str; 7] =
    ["idle", "active", "waiting", "idle in transaction", "idle in transaction (aborted)", ANALYTICS_STATE, BELOW_STATE];
const ACTIVE: u8 = 1;
const WAITING: u8 = 2;
const ANALYTICS: u8 = 5;
/// Name of the state of a statement whose rows analytics compute. The views show it as active, or as starved.
pub const ANALYTICS_STATE: &str = "analytics";
const BELOW: u8 = 6;
/// Name of the state of a long statement by rows, on a thread below others. The views show it as active, or as starved.
pub const BELOW_STATE: &str = "below";

impl SessionStats {
    /// Entry of a session that begins now.
    pub fn new(pid: i32, user: &str, database: &str, client: Option<String>, time: &TimeSource) -> SessionStats {
        let activity = SessionStats {
            pid,
            user: user.to_owned(),
            database: database.to_owned(),
            client,
            session_start: time.now(),
            session_start_us: time.unix_us(),
            end: Arc::default(),
            query_start_us: AtomicI64::new(0),
            state: AtomicU8::new(0),
            begun: AtomicU64::new(0),
            is_announced: AtomicBool::new(false),
            class: AtomicU8::new(Class::Normal as u8),
            owner: AtomicU64::new(0),
            texts: Mutex::default(),
        };
        activity.set_application("");
        activity
    }

    /// Name of the role.
    pub fn user(&self) -> &str {
        &self.user
    }

    /// Name of the database.
    pub fn database(&self) -> &str {
        &self.database
    }

    /// Hash that identifies a client which may have several sessions at once. Never 0.
    pub fn owner(&self) -> u64 {
        self.owner.load(Relaxed)
    }

    /// Address of the client; `None` for the unix socket.
    pub fn client(&self) -> Option<&str> {
        self.client.as_deref()
    }

    /// Process number of the session.
    pub fn pid(&self) -> i32 {
        self.pid
    }

    /// Sets `application_name`.
    pub fn set_application(&self, name: &str) {
        name.clone_into(&mut self.texts.locked_anyway().application);
        let mut hasher = DefaultHasher::new();
        (&self.client, &self.user, &self.database, name).hash(&mut hasher);
        self.owner.store(hasher.finish() | 1, Relaxed);
    }

    /// Records that a statement begins, perhaps the one that was announced before.
    pub fn begin(&self, text: &Arc<str>, class: Class, now: Instant) {
        self.show(text, class, now);
        if !self.is_announced.swap(false, SeqCst) {
            self.begun.fetch_add(1, SeqCst);
        }
    }

    /// Records that a statement is being prepared, which takes a while. A cancel from now on is meant for it, in
    /// whichever phase it is.
    pub fn announce(&self, text: &Arc<str>, class: Class, now: Instant) {
        self.show(text, class, now);
        if !self.is_announced.swap(true, SeqCst) {
            self.begun.fetch_add(1, SeqCst);
        }
    }

    /// Records that a transaction of this class begins with a statement that runs elsewhere. The server that runs it
    /// also cancels it.
    pub fn show(&self, text: &Arc<str>, class: Class, now: Instant) {
        self.class.store(class as u8, Relaxed);
        self.show_next(text, now);
    }

    /// Records that the next statement of the transaction begins.
    pub fn show_next(&self, text: &Arc<str>, now: Instant) {
        self.texts.locked_anyway().query.clone_from(text);
        let since = now.saturating_duration_since(self.session_start).as_micros();
        self.query_start_us.store(self.session_start_us + i64::try_from(since).unwrap_or(0), Relaxed);
        self.state.store(ACTIVE, Relaxed);
    }

    /// Number that identifies the statement under way here; `None` if there is none.
    pub fn under_way(&self) -> Option<u64> {
        let begun = self.begun.load(SeqCst);
        (0 < begun && matches!(self.state.load(Relaxed), ACTIVE | WAITING | ANALYTICS | BELOW)).then_some(begun)
    }

    /// Records that the statement waits, or goes on.
    pub fn set_waiting(&self, waits: bool) {
        self.state.store(if waits { WAITING } else { ACTIVE }, Relaxed);
    }

    /// Records that the statement under way waits for rows that analytics compute.
    pub fn set_analysed(&self) {
        self.state.store(ANALYTICS, Relaxed);
    }

    /// Records that the session goes on on a thread below others. Returns the state for [`SessionStats::restore`].
    pub fn set_below(&self, is_below: bool) -> u8 {
        if is_below { self.state.swap(BELOW, Relaxed) } else { self.state.load(Relaxed) }
    }

    /// Restores the state from before [`SessionStats::set_below`].
    pub fn restore(&self, state: u8) {
        self.state.store(state, Relaxed);
    }

    /// Records that it is the client's turn.
    pub fn rest(&self, status: TransactionStatus) {
        self.is_announced.store(false, SeqCst);
        self.state.store(
            match status {
                TransactionStatus::Idle => 0,
                TransactionStatus::Open => 3,
                TransactionStatus::Failed => 4,
            },
            Relaxed,
        );
    }
}

/// Statistics of a server, shared by the server, the views and the metrics.
#[derive(Debug, Default)]
pub struct Stats {
    sessions: Mutex<HashMap<i32, Arc<SessionStats>>>,
    statements: Mutex<HashMap<Arc<str>, Arc<StatementTotals>>>,
    stages: StageBook,
    /// Number of sessions since the start.
    pub connections: AtomicU64,
    /// Number of clients that were turned away.
    pub turned_away: AtomicU64,
    /// Number of errors that were reported to clients.
    pub errors: AtomicU64,
    /// Number of cancel requests.
    pub cancels: AtomicU64,
    /// Number of statements that were run again because a more important transaction had aborted them.
    pub run_again: AtomicU64,
    /// Number of clients that were disconnected because they took nothing.
    pub unread: AtomicU64,
}

impl Stats {
    /// Adds a session.
    pub fn enter(&self, activity: SessionStats) -> Arc<SessionStats> {
        let activity = Arc::new(activity);
        self.sessions.locked().insert(activity.pid, Arc::clone(&activity));
        self.connections.fetch_add(1, Relaxed);
        activity
    }

    /// Logs and counts the end of a session whose client reads nothing. Other reasons are ignored. The client cannot be
    /// told, so only the log is.
    pub fn note_unread(&self, activity: &SessionStats, gone: Gone) {
        if let Gone::Unread(time) = gone {
            self.unread.fetch_add(1, Relaxed);
            let ms = time.as_millis() as u64;
            tracing::info!(pid = activity.pid, ms, "a client was disconnected: it took nothing of what it was sent");
        }
    }

    /// Removes a session.
    pub fn leave(&self, activity: &SessionStats) {
        self.sessions.locked().remove(&activity.pid);
    }

    /// Returns the role of the session of this number.
    pub fn role_of(&self, pid: i32) -> Option<String> {
        self.sessions.locked().get(&pid).map(|activity| activity.user.clone())
    }

    /// Cancels what a session is doing, or ends it. Returns true if there was one.
    pub fn signal(&self, pid: i32, signal: Signal) -> bool {
        let end = self.sessions.locked().get(&pid).map(|activity| Arc::clone(&activity.end));
        if let Some(end) = &end {
            end.signal(signal);
        }
        end.is_some()
    }

    /// Returns the counters of a statement.
    pub fn statement(&self, text: &str) -> Arc<StatementTotals> {
        let mut text = normalised(text);
        let mut statements = self.statements.locked();
        if let Some(totals) = statements.get(&*text) {
            return Arc::clone(totals);
        }
        if STATEMENTS_MAX <= statements.len() {
            OTHERS.clone_into(&mut text);
        }
        text.truncate(text.floor_char_boundary(TEXT_MAX));
        Arc::clone(statements.entry(text.into()).or_default())
    }

    /// Sums of the times of stages.
    pub fn book(&self) -> &StageBook {
        &self.stages
    }

    /// Counts a statement that has ended, with its times so far. For `parked_ns` nanoseconds of its run it needed no
    /// thread here. `rows` is `None` after an error.
    pub fn count(&self, totals: &StatementTotals, times: &StageTimes, parked_ns: u64, rows: Option<u64>) {
        let run_ns = times.sum(is_run).saturating_sub(parked_ns);
        totals.times.add(times.sum(|stage| stage != Stage::NetworkRead));
        totals.count.fetch_add(1, Relaxed);
        totals.run_ns.fetch_add(times.sum(|stage| is_run(stage) || is_wait(stage)), Relaxed);
        if LONG_NS < run_ns {
            totals.long.fetch_add(1, Relaxed);
        }
        match rows {
            Some(rows) => drop(totals.rows.fetch_add(rows, Relaxed)),
            None => {
                totals.errors.fetch_add(1, Relaxed);
                self.errors.fetch_add(1, Relaxed);
            }
        }
    }

    /// Adds the times of a statement that is over with all its answers. The shard belongs to this thread.
    pub fn add(&self, shard: &StageShard, key: StageKey, times: &StageTimes, totals: Option<&StatementTotals>) {
        shard.add(key, times);
        if let Some(totals) = totals {
            totals.add(times);
        }
    }

    /// Number of open sessions.
    pub fn sessions(&self) -> usize {
        self.sessions.locked().len()
    }
}

impl Observe for Stats {
    fn activity(&self) -> Vec<ActivityRow> {
        let sessions: Vec<Arc<SessionStats>> = self.sessions.locked().values().cloned().collect();
        let row = |activity: Arc<SessionStats>| {
            let texts = activity.texts.locked_anyway();
            ActivityRow {
                pid: activity.pid,
                user: activity.user.clone(),
                database: activity.database.clone(),
                application: texts.application.clone(),
                client: activity.client.clone(),
                state: STATES.get(usize::from(activity.state.load(Relaxed))).copied().unwrap_or("idle"),
                class: Class::ALL.get(usize::from(activity.class.load(Relaxed))).copied().unwrap_or(Class::Normal),
                query: texts.query.to_string(),
                session_start_us: activity.session_start_us,
                query_start_us: activity.query_start_us.load(Relaxed),
            }
        };
        let mut rows: Vec<ActivityRow> = sessions.into_iter().map(row).collect();
        rows.sort_by_key(|row| row.pid);
        rows
    }

    fn stages(&self) -> Vec<StageRow> {
        self.stages.rows()
    }

    fn run_parts(&self) -> Vec<RunPartRow> {
        self.stages.run_parts()
    }

    fn clock(&self) -> ClockRow {
        self.stages.clock()
    }

    fn statements(&self) -> Vec<StatementRow> {
        let statements: Vec<(Arc<str>, Arc<StatementTotals>)> =
            self.statements.locked().iter().map(|(text, totals)| (text.clone(), totals.clone())).collect();
        let row = |(text, totals): (Arc<str>, Arc<StatementTotals>)| StatementRow {
            query: text.to_string(),
            times: totals.times.times(),
            rows: totals.rows.load(Relaxed),
            errors: totals.errors.load(Relaxed),
            stages: totals.stages.each_ref().map(|ns| ns.load(Relaxed)),
        };
        let mut rows: Vec<StatementRow> = statements.into_iter().map(row).collect();
        rows.sort_by(|one, other| other.times.total_us.total_cmp(&one.times.total_us));
        rows
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn statements_are_bounded() {
        let stats = Stats::default();
        for at in 0..STATEMENTS_MAX + 10 {
            let totals = stats.statement(&format!("select c{at} from t where a = {at}"));
            stats.count(&totals, &StageTimes::default(), 0, Some(1));
        }
        let rows = stats.statements();
        assert_eq!(rows.len(), STATEMENTS_MAX + 1);
        assert_eq!(rows.iter().find(|row| row.query == OTHERS).map(|row| row.times.count), Some(10));
    }
}
