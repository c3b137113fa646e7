//! Threads that do the work of sessions, as told by what that work calls: the provider of tables, analytics, and
//! wake-ups.

use crate::real::Real;
use catalog::Provider;
use engine::{LockView, Wake};
use query::analytics::{
    Analytics, AnalyticsAnswer, AnalyticsFinish, AnalyticsPlan, AnalyticsQuery, AnalyticsRun, AnalyticsStart,
};
use query::explain::ExplainNode;
use settings::Connect;
use sql::session::{Outcome, Parked, Portal, Session, Step};
use statement::outcome::Signal;
use statement::{SqlError, SqlResult};
use std::mem;
use std::sync::{Arc, Mutex};
use types::table::{NamedRows, ProvidedTable};
use types::{Datum, Kind};

/// Returns the first word of the thread's name.
fn this_thread() -> String {
    let thread = std::thread::current();
    thread.name().and_then(|name| name.split(' ').next()).unwrap_or_default().to_owned()
}

/// Provider and analytics that tell on which threads they were called.
///
/// - The table `overtake.thread` has one row, the thread that executes the query. Its name is looked up by the thread
///   that prepares the statement.
/// - `pg_cancel_backend` is told by the thread that calls it, and finds no session.
/// - Analytics answer any query by the thread that has started it.
#[derive(Clone, Debug, Default)]
pub struct Spy(Arc<Mutex<Vec<String>>>);

impl Spy {
    /// Starts a server of a database with this spy.
    pub fn serve(&self) -> Real {
        let (provider, analytics) = (Arc::new(self.clone()), Arc::new(self.clone()));
        Real::over("", |_| {}, |database, _| database.with_provider(provider).with_analytics(analytics))
    }

    fn note(&self, what: &str) {
        let line = format!("{what} on {}", this_thread());
        let mut lines = self.0.lock().unwrap();
        if lines.last() != Some(&line) {
            lines.push(line);
        }
    }

    /// Takes what was told since the last call. What one thread has done several times in a row is told once.
    pub fn take(&self) -> Vec<String> {
        mem::take(&mut *self.0.lock().unwrap())
    }
}

impl Provider for Spy {
    fn tables(&self) -> Vec<ProvidedTable> {
        self.note("looked up");
        vec![ProvidedTable::new("thread", "Threads.", &[("name", Kind::Text, "Name.")])]
    }

    fn role_of(&self, _pid: i32) -> Option<String> {
        self.note("called");
        None
    }

    fn signal(&self, _pid: i32, _signal: Signal) -> bool {
        false
    }

    fn locks(&self) -> Vec<LockView> {
        Vec::new()
    }

    fn lines(&self, _schema: &str, table: &str) -> NamedRows {
        match table {
            "thread" => vec![vec![("name", Datum::text(this_thread()))]],
            _ => NamedRows::new(),
        }
    }
}

impl Analytics for Spy {
    fn prepare(&self, _query: &AnalyticsQuery<'_>) -> SqlResult<Arc<dyn AnalyticsPlan>> {
        Ok(Arc::new(self.clone()))
    }
}

impl AnalyticsPlan for Spy {
    fn start(&self, _start: AnalyticsStart, finish: AnalyticsFinish) -> SqlResult<Arc<dyn AnalyticsRun>> {
        let mut answer = AnalyticsAnswer::default();
        answer.add(vec![[Datum::text(this_thread())].into()])?;
        finish(Ok(answer));
        Ok(Arc::new(self.clone()))
    }

    fn explain(&self, _start: &AnalyticsStart) -> SqlResult<ExplainNode> {
        Err(SqlError::unsupported("EXPLAIN of a spy"))
    }
}

impl AnalyticsRun for Spy {
    fn cancel(&self) {}
}

/// Wait for the end of a transaction that holds the advisory lock 7, by a session of this process.
pub struct Watch {
    session: Session,
    portal: Portal,
    ended: Arc<Ended>,
}

/// Thread that has ended the wait.
#[derive(Default)]
struct Ended(Mutex<Option<String>>);

impl Wake for Ended {
    fn wake(&self) {
        self.0.lock().unwrap().get_or_insert_with(this_thread);
    }
}

impl Watch {
    pub fn new(real: &Real) -> Watch {
        let (user, database) = ("postgres".to_owned(), "postgres".to_owned());
        let mut session = real.database.connect(Connect { user, database, ..Connect::default() }).unwrap();
        let statement = session.prepare("select pg_advisory_xact_lock(7)", &[]).unwrap();
        let mut portal = session.bind(&statement, Vec::new()).unwrap();
        let ended = Arc::new(Ended::default());
        match session.execute(&mut portal).unwrap() {
            Step::Parked(parked @ Parked::Lock(_)) => parked.on_ready(ended.clone()),
            other => panic!("nobody has the lock: {other:?}"),
        }
        Watch { session, portal, ended }
    }

    /// Returns the thread that ended a watched transaction. It is repeated if the housekeeping has come first.
    pub fn told(mut transaction: impl FnMut() -> String) -> String {
        (0..20).map(|_| transaction()).find(|thread| thread != "housekeeping").unwrap()
    }

    /// Returns the thread that has ended the transaction, once it has.
    pub fn ended_on(mut self, real: &Real, what: &str) -> String {
        let ended = self.ended.clone();
        real.wait_until(what, |_| ended.0.lock().unwrap().is_some());
        let done = self.session.execute(&mut self.portal).unwrap();
        assert!(matches!(done, Step::Done(Outcome::Rows(..))), "{what}: {done:?}");
        self.session.sync().unwrap();
        let mut thread = ended.0.lock().unwrap();
        thread.take().unwrap()
    }
}
