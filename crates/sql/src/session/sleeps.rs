//! `pg_sleep`: a statement that sleeps is rolled back, its session waits, and the statement is restarted; it then skips
//! the sleeps that are over. A statement that runs for too long on a thread where it delays others is rolled back in
//! the same way.
//!
//! **Invariant:** no thread sleeps. A statement sleeps only where it can be restarted: in the row executor, in the
//! session's transaction. From its first sleep until its end the [`SessionSleep`] keeps a cancel request, whether the
//! statement sleeps or runs; before that the engine keeps it.
//!
//! The statement restarts after each sleep, so one with `n` sleeps computes the values before the last of them `n`
//! times.

use super::{Parked, Session};
use crate::context::TakeBackReason;
use engine::Wake;
use locked::{Locked, LockedResult};
use statement::error::Cancellation;
use statement::error::{SqlError, SqlResult};
use statement::time::TimeSource;
use std::sync::atomic::{AtomicBool, Ordering::SeqCst};
use std::sync::{Arc, Condvar, Mutex, MutexGuard};
use std::time::{Duration, Instant};

/// Time limit of a statement on a thread where it delays others.
#[derive(Debug, Default)]
pub(super) struct StayLimit {
    /// Time at which the limit is reached.
    pub(super) until: Option<Instant>,
    /// True if the statement under way has reached it and continues elsewhere, and its implicit transaction began with
    /// it.
    pub(super) is_moved_first: bool,
}

/// Sleep, shared with the threads that may end it.
#[derive(Clone, Debug)]
pub struct Sleep {
    until: Instant,
    sleeper: Arc<SessionSleep>,
}

/// Sleep state of a session.
pub(super) struct SessionSleep {
    time: TimeSource,
    /// True if the statement has slept, or is about to. The flag changes under the lock, and saves statements that
    /// never sleep the lock.
    is_taken: AtomicBool,
    sleeper: Mutex<Sleeper>,
    ended: Condvar,
}

#[derive(Default)]
struct Sleeper {
    is_cancelled: bool,
    wake: Option<Arc<dyn Wake>>,
}

impl std::fmt::Debug for SessionSleep {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Bed")
    }
}

impl SessionSleep {
    pub(super) fn new(time: TimeSource) -> Arc<SessionSleep> {
        let (is_taken, sleeper, ended) = Default::default();
        Arc::new(SessionSleep { time, is_taken, sleeper, ended })
    }

    fn get(&self) -> MutexGuard<'_, Sleeper> {
        self.sleeper.locked_anyway()
    }

    /// Prepares for the first sleep of the statement under way: from now on a cancel comes here.
    pub(super) fn take(&self) {
        let _sleeper = self.get();
        self.is_taken.store(true, SeqCst);
    }

    /// Resets the state at the end of the statement.
    pub(super) fn leave(&self) {
        if self.is_taken.load(SeqCst) {
            let mut sleeper = self.get();
            self.is_taken.store(false, SeqCst);
            *sleeper = Sleeper::default();
        }
    }

    pub(super) fn is_cancelled(&self) -> bool {
        self.is_taken.load(SeqCst) && self.get().is_cancelled
    }

    /// Cancels the statement, if it has slept.
    pub(super) fn cancel(&self) {
        let mut sleeper = self.get();
        if !self.is_taken.load(SeqCst) {
            return;
        }
        sleeper.is_cancelled = true;
        let wake = sleeper.wake.take();
        drop(sleeper);
        self.ended.notify_all();
        if let Some(wake) = wake {
            wake.wake();
        }
    }
}

impl Sleep {
    /// Returns the end of the sleep.
    pub fn until(&self) -> Instant {
        self.until
    }

    /// Calls `wake` if the sleep is cancelled; at once, if it was cancelled before.
    pub(super) fn on_ready(&self, wake: Arc<dyn Wake>) {
        let mut sleeper = self.sleeper.get();
        if sleeper.is_cancelled {
            drop(sleeper);
            wake.wake();
        } else {
            sleeper.wake = Some(wake);
        }
    }

    /// Blocks the thread until the sleep is over.
    pub(super) fn wait(&self) {
        let mut sleeper = self.sleeper.get();
        while !sleeper.is_cancelled
            && let left = self.sleeper.time.left(self.until)
            && !left.is_zero()
        {
            let woken = self.sleeper.ended.wait_timeout(sleeper, left);
            sleeper = woken.anyway().0;
        }
    }
}

impl Session {
    /// Returns the wait of the statement under way, which was rolled back for this reason. `is_first` means that its
    /// implicit transaction began with it.
    pub(super) fn parked_for(&mut self, asked: Option<TakeBackReason>, is_first: bool) -> Parked {
        match asked {
            Some(TakeBackReason::Sleep(asked)) => Parked::Sleep(self.fall_asleep(asked)),
            Some(TakeBackReason::Move) | None => {
                self.stay.is_moved_first = is_first;
                // The sleep ends at the statement's time limit.
                let left = self.deadline.map(|deadline| self.time.left(deadline));
                self.engine.set_statement_timeout(left);
                Parked::Elsewhere
            }
        }
    }

    /// Starts a sleep of this duration, or until the statement's time limit.
    fn fall_asleep(&mut self, asked: Duration) -> Sleep {
        let until = self.time.now() + asked;
        let until = self.deadline.map_or(until, |deadline| deadline.min(until));
        let sleep = Sleep { until, sleeper: Arc::clone(&self.sleeper) };
        self.sleep = Some(sleep.clone());
        sleep
    }

    /// Returns the sleep of a restarted statement, if it is not over; `None` for a statement that has not slept.
    ///
    /// # Errors
    /// Fails with `57014` if the sleep was cancelled, or the statement's time limit is exceeded.
    pub(super) fn wake_up(&mut self) -> SqlResult<Option<Sleep>> {
        if !self.is_parked {
            self.end_sleep();
            self.env.sleeps.forget();
            return Ok(None);
        }
        let Some(sleep) = &self.sleep else { return Ok(None) };
        let is_cancelled = self.sleeper.is_cancelled();
        let is_late = self.deadline.is_some_and(|deadline| self.time.is_past(deadline));
        if !is_cancelled && !is_late && !self.time.is_past(sleep.until) {
            return Ok(Some(sleep.clone()));
        }
        self.sleep = None;
        if is_cancelled || is_late {
            self.end_sleep();
            self.is_parked = false;
            return Err(SqlError::cancelled(if is_cancelled {
                Cancellation::UserRequest
            } else {
                Cancellation::StatementTimeout
            }));
        }
        self.env.sleeps.pass();
        let left = self.deadline.map(|deadline| self.time.left(deadline));
        self.engine.set_statement_timeout(left);
        Ok(None)
    }

    /// Limits the time of the next statements on this thread: one that takes longer parks as [`Parked::Elsewhere`],
    /// because the thread has other sessions to serve. `None` removes the limit.
    pub fn stay_for(&mut self, limit: Option<Duration>) {
        self.stay.until = limit.map(|limit| self.time.now() + limit);
    }

    pub(super) fn end_sleep(&mut self) {
        (self.sleep, self.stay.is_moved_first) = (None, false);
        self.sleeper.leave();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::session::{Database, Outcome, Step};
    use engine::{Engine, EngineConfig};
    use settings::Connect;
    use types::datum::Datum;

    fn session() -> Session {
        let database = Database::new(Engine::new(EngineConfig::in_memory()));
        let (user, name) = ("postgres".to_owned(), "postgres".to_owned());
        database.connect(Connect { user, database: name, ..Connect::default() }).expect("the database is there")
    }

    /// Runs a statement with a time limit, and then without. Returns whether it was rolled back and held nothing at
    /// that time.
    fn run(session: &mut Session, text: &str) -> (Option<bool>, Option<Outcome>) {
        let statement = session.prepare(text, &[]).expect("it is right");
        let mut portal = session.bind(&statement, Vec::new()).expect("no parameters");
        session.stay_for(Some(Duration::ZERO));
        let mut step = session.execute(&mut portal).expect("it runs");
        session.stay_for(None);
        let mut held_nothing = None;
        if let Step::Parked(Parked::Elsewhere) = step {
            held_nothing = Some(session.holds_nothing(&portal));
            step = session.execute(&mut portal).expect("it runs again");
            assert!(!matches!(step, Step::Parked(_)), "{text} is taken back once more");
        }
        let outcome = step.done();
        session.end_copy();
        session.sync().expect("it is committed");
        (held_nothing, outcome)
    }

    #[test]
    fn a_long_statement_goes_on_elsewhere() {
        let mut session = session();
        let mut run = |text: &str| run(&mut session, text);
        for text in
            ["create table t (n int8)", "create table few (n int8)", "create sequence s", "insert into few values (1)"]
        {
            assert_eq!(run(text).0, None, "{text}");
        }
        let series = "from generate_series(1, 50000)";
        for (text, held_nothing) in [
            (format!("select count(*) {series}"), true),
            (format!("select count(*) {series} where nextval('s') = 0"), false),
            (format!("insert into t select nextval('s') {series}"), false),
            (format!("copy (select 1 {series}) to stdout"), false),
            (format!("declare c cursor with hold for select 1 {series}"), false),
            ("begin".to_owned(), false),
            (format!("select count(*) {series}"), false),
            (format!("update few set n = n + (select count(*) {series})"), false),
            ("update t set n = -n".to_owned(), false),
        ] {
            let wanted = (text != "begin").then_some(held_nothing);
            assert_eq!(run(&text).0, wanted, "{text}");
        }
        // A restarted statement gets the same random numbers.
        let [one, other] = [(); 2].map(|()| {
            run("select setseed(0.5)");
            match run("select sum(random()) from generate_series(1, 50000)") {
                (Some(_), Some(Outcome::Rows(rows, _))) => format!("{rows:?}"),
                outcome => panic!("{outcome:?}"),
            }
        });
        assert_eq!(one, other);
        // A restarted statement has its effects once, with the numbers of its first run.
        for (text, wanted) in [
            ("select n from few", 50_001),
            ("select last_value from s", 100_000),
            ("select count(*) from t where n between -100000 and -50001", 50_000),
            ("rollback", 0),
            ("select count(*) from t where 0 < n", 50_000),
        ] {
            match run(text).1 {
                Some(Outcome::Rows(rows, _)) => assert!(matches!(rows[0][0], Datum::Int8(n) if n == wanted), "{text}"),
                outcome => assert!(wanted == 0, "{text}: {outcome:?}"),
            }
        }
    }

    /// Other sessions take values of the sequence between two runs of the statement that sets it.
    #[test]
    fn a_sequence_is_set_once() {
        let mut session = session();
        run(&mut session, "create sequence s");
        let text = "select count(*) from generate_series(1, 50000) g where g <> 1 or setval('s', 10) = 10";
        let statement = session.prepare(text, &[]).expect("it is right");
        let mut portal = session.bind(&statement, Vec::new()).expect("no parameters");
        session.stay_for(Some(Duration::ZERO));
        assert!(matches!(session.execute(&mut portal), Ok(Step::Parked(Parked::Elsewhere))));
        let (user, database) = ("postgres".to_owned(), "postgres".to_owned());
        let mut other = session.database.connect(Connect { user, database, ..Connect::default() });
        let other = other.as_mut().expect("it connects");
        let mut next = || match run(other, "select nextval('s')").1 {
            Some(Outcome::Rows(rows, _)) => format!("{:?}", rows[0][0]),
            outcome => panic!("{outcome:?}"),
        };
        assert_eq!(next(), "Int8(11)");
        session.stay_for(None);
        assert!(matches!(session.execute(&mut portal), Ok(Step::Done(_))));
        session.sync().expect("it is committed");
        assert_eq!(next(), "Int8(12)");
    }

    /// The error that ends a run for a restart must not be taken for an error of the statement, even where an error
    /// means that there is nothing to report.
    #[test]
    fn no_definition_is_lost_where_it_is_taken_back() {
        let mut session = session();
        let columns: Vec<String> = (0..1_500).map(|at| format!("{at} + 1 as c{at}")).collect();
        run(&mut session, &format!("create view wide as select {}", columns.join(", ")));
        let asked = "select length(definition) from pg_views where viewname = 'wide'";
        let (held_nothing, outcome) = run(&mut session, asked);
        assert!(held_nothing.is_some(), "it looked at no time");
        let Some(Outcome::Rows(rows, _)) = outcome else { panic!("{outcome:?}") };
        assert!(matches!(rows[0][0], Datum::Int4(length) if 10_000 < length), "{rows:?}");
    }
}
