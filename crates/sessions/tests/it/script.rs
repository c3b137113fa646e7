//! A scripted session, whose behaviour is given by the statement's text.
//!
//! **Invariant:** it keeps a transaction's status like the real session, and counts how many
//! sessions of its kind are alive.

use bytes::BytesMut;
use engine::Wake;
use sessions::backend::{Backend, Backends, CopyPart, Run};
use settings::Connect;
use sql::session::{Outcome, Part};
use statement::outcome::CopyShape;
use statement::outcome::{Tag, TransactionStatus};
use statement::{SqlError, SqlResult, SqlState};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::SeqCst};
use std::sync::{Arc, Mutex};
use std::time::Duration;
use types::Datum;
use wire::copy::CopyRows;
use wire::reply::{Column, Format};
use wire::{Cancel, Parked};

/// State that all scripted sessions share.
#[derive(Clone, Default)]
pub struct Script(pub Arc<Shared>);

#[derive(Default)]
pub struct Shared {
    /// Log of events.
    pub log: Mutex<Vec<String>>,
    /// Number of sessions alive.
    pub alive: AtomicUsize,
    /// True if `park` goes on.
    pub is_open: AtomicBool,
    wakes: Mutex<Vec<Arc<dyn Wake>>>,
    /// Number of times that a statement was parked.
    pub parked: AtomicUsize,
    /// Number of bytes that COPYs were given.
    pub copied: AtomicUsize,
    /// Number of rows that COPYs have returned.
    pub given: AtomicUsize,
}

impl Shared {
    pub fn log(&self, what: impl Into<String>) {
        self.log.lock().unwrap().push(what.into());
    }

    pub fn wake_all(&self) {
        for wake in std::mem::take(&mut *self.wakes.lock().unwrap()) {
            wake.wake();
        }
    }
}

pub struct Scripted {
    shared: Arc<Shared>,
    status: TransactionStatus,
    is_implicit: bool,
    fails_at_commit: bool,
    /// True if the transaction has changed much, so that the thread of its end is logged.
    has_long_end: bool,
    /// Number of commits that a more important transaction will prevent.
    taken_at_commit: Option<u32>,
    cancelled: Arc<AtomicBool>,
    idle_limit: Option<Duration>,
    reports: Vec<(&'static str, String)>,
    notices: Vec<(&'static str, SqlError)>,
}

#[derive(Debug)]
pub struct Statement {
    text: String,
    types: Vec<u32>,
    columns: Option<Vec<(String, u32)>>,
}

pub struct Portal(Arc<Statement>, Vec<Datum>, Copying);

/// Returns the first word of the thread's name.
fn this_thread() -> String {
    let thread = std::thread::current();
    thread.name().and_then(|name| name.split(' ').next()).unwrap_or_default().to_owned()
}

/// Progress of a COPY: bytes or rows so far.
#[derive(Default)]
pub struct Copying(usize);

struct Waiting(Arc<Shared>, Arc<AtomicBool>);

impl Parked for Waiting {
    fn on_ready(&self, wake: Arc<dyn Wake>) {
        self.0.wakes.lock().unwrap().push(wake);
        self.0.parked.fetch_add(1, SeqCst);
        if self.0.is_open.load(SeqCst) || self.1.load(SeqCst) {
            self.0.wake_all();
        }
    }
}

struct Canceller(Arc<Shared>, Arc<AtomicBool>);

impl Cancel for Canceller {
    fn cancel(&self) {
        self.1.store(true, SeqCst);
        self.0.log("cancel");
        self.0.wake_all();
    }
}

impl Backends for Script {
    type Backend = Scripted;

    fn connect(&self, connect: Connect) -> SqlResult<Scripted> {
        if connect.database == "nowhere" {
            return Err(SqlError::new(SqlState("3D000"), "database \"nowhere\" does not exist"));
        }
        self.0.alive.fetch_add(1, SeqCst);
        self.0.log(format!("connect {} {} {:?}", connect.user, connect.database, connect.settings));
        Ok(Scripted {
            shared: self.0.clone(),
            status: TransactionStatus::Idle,
            is_implicit: false,
            fails_at_commit: false,
            has_long_end: false,
            taken_at_commit: None,
            cancelled: Arc::default(),
            idle_limit: None,
            reports: vec![("server_version", "15.0".into()), ("client_encoding", "UTF8".into())],
            notices: vec![],
        })
    }
}

impl Drop for Scripted {
    fn drop(&mut self) {
        if self.status != TransactionStatus::Idle || self.is_implicit {
            self.ended("rollback");
        }
        self.shared.alive.fetch_sub(1, SeqCst);
    }
}

impl Scripted {
    fn ended(&mut self, how: &str) {
        self.shared.log(match std::mem::take(&mut self.has_long_end) {
            true => format!("{how} on {}", this_thread()),
            false => how.to_owned(),
        });
    }
}

fn done(words: &'static str, rows: Option<u64>) -> SqlResult<Run> {
    Ok(Run::Done(Outcome::Done(Tag { words, rows })))
}

fn aborted() -> SqlError {
    SqlError::new(SqlState("25P02"), "current transaction is aborted, commands ignored until end of transaction block")
}

fn words(text: &str) -> (&str, &str) {
    text.split_once(' ').unwrap_or((text, ""))
}

impl Backend for Scripted {
    type Statement = Arc<Statement>;
    type Portal = Portal;

    fn split(&mut self, text: &str) -> SqlResult<Vec<Part>> {
        if let Some(at) = text.find('!') {
            return Err(SqlError::new(SqlState::SYNTAX_ERROR, "syntax error at or near \"!\"").at(at + 1));
        }
        let mut begin = 0;
        let parts = text.split_inclusive(';').map(|whole| {
            let part = whole.trim_end_matches(';').trim_start();
            let before = text[..begin].chars().count() + whole.chars().count() - whole.trim_start().chars().count();
            begin += whole.len();
            Part { text: part.trim_end().to_owned(), before }
        });
        Ok(parts.filter(|part| !part.text.is_empty()).collect())
    }

    fn goes_on(&self) -> SqlResult<()> {
        Ok(())
    }

    fn prepare(&mut self, text: &str, types: &[u32]) -> SqlResult<Arc<Statement>> {
        let (verb, rest) = words(text);
        if rest.starts_with("here") {
            self.shared.log(format!("prepared on {}", this_thread()));
        }
        let column = |name: &str, oid| (name.to_owned(), oid);
        let count = text.matches('$').count();
        let types: Vec<u32> =
            (0..count).map(|at| types.get(at).copied().filter(|&oid| oid != 0).unwrap_or(25)).collect();
        let columns = match verb {
            "rows" | "wide" | "returning" | "taken" | "taken-at-commit" => Some(vec![column("n", 23), column("t", 25)]),
            "echo" => Some(types.iter().map(|&oid| column("v", oid)).collect()),
            "show" => Some(vec![column(rest, 25)]),
            "thread" => Some(vec![column("name", 25)]),
            "nonsense" => {
                let at = "nonsense ".len();
                return Err(SqlError::new(SqlState::SYNTAX_ERROR, format!("no {rest}")).hint("Make sense.").at(at));
            }
            _ => None,
        };
        Ok(Arc::new(Statement { text: text.to_owned(), types, columns }))
    }

    fn parameters(&self, statement: &Arc<Statement>) -> Vec<u32> {
        statement.types.clone()
    }

    fn parameter_count(&self, statement: &Arc<Statement>) -> usize {
        statement.types.len()
    }

    fn columns<'s>(&self, statement: &'s Arc<Statement>) -> Option<Vec<Column<'s>>> {
        let column = |(name, oid): &'s (String, u32)| Column {
            name,
            table: 0,
            number: 0,
            oid: *oid,
            length: if *oid == 23 { 4 } else { -1 },
            typmod: -1,
        };
        statement.columns.as_ref().map(|columns| columns.iter().map(column).collect())
    }

    fn column_count(&self, statement: &Arc<Statement>) -> Option<usize> {
        statement.columns.as_ref().map(Vec::len)
    }

    fn read(&self, statement: &Arc<Statement>, parameter: usize, format: Format, bytes: &[u8]) -> SqlResult<Datum> {
        let wrong = || SqlError::new(SqlState::INVALID_BINARY_REPRESENTATION, "wrong bytes");
        let text = || std::str::from_utf8(bytes).map_err(|_| wrong());
        match (statement.types[parameter], format) {
            (23, Format::Binary) => {
                bytes.try_into().map(|bytes| Datum::Int4(i32::from_be_bytes(bytes))).map_err(|_| wrong())
            }
            (23, Format::Text) => text()?.parse().map(Datum::Int4).map_err(|_| wrong()),
            _ => Ok(Datum::text(text()?)),
        }
    }

    fn bind(&mut self, statement: &Arc<Statement>, values: Vec<Datum>) -> SqlResult<Portal> {
        Ok(Portal(statement.clone(), values, Copying::default()))
    }

    fn execute(&mut self, Portal(statement, values, _): &mut Portal) -> SqlResult<Run> {
        let text = statement.text.to_ascii_lowercase();
        // A driver writes some statements in its own words.
        let (verb, rest) = words(if text.starts_with("start transaction") { "begin" } else { &text });
        if self.status == TransactionStatus::Failed && !matches!(verb, "commit" | "rollback") {
            return Err(aborted());
        }
        let number = rest.parse::<i32>().unwrap_or(0);
        let rows = || -> Vec<Box<[Datum]>> {
            (1..=number).map(|n| [Datum::Int4(n), Datum::text(format!("row {n}"))].into()).collect()
        };
        let rows_done = |rows, words, count| Ok(Run::Done(Outcome::Rows(rows, Tag { words, rows: count })));
        self.shared.log(statement.text.clone());
        self.is_implicit |= self.status == TransactionStatus::Idle;
        match verb {
            "" => Ok(Run::Done(Outcome::Empty)),
            "rows" => rows_done(rows(), "SELECT", None),
            "wide" => {
                let wide = |n| [Datum::Int4(n), Datum::text("x".repeat(50_000))].into();
                rows_done((1..=number).map(wide).collect(), "SELECT", None)
            }
            "returning" => rows_done(rows(), "INSERT 0", Some(number.unsigned_abs().into())),
            "echo" => rows_done(vec![values.clone().into()], "SELECT", None),
            "show" => rows_done(vec![[Datum::text(rest)].into()], "SHOW", None),
            "thread" => {
                let kind = this_thread();
                rows_done(vec![[Datum::text(kind)].into()], "SELECT", None)
            }
            "much" => {
                self.has_long_end = true;
                done("UPDATE", None)
            }
            "insert" => done("INSERT 0", Some(number.unsigned_abs().into())),
            "begin" => {
                self.status = TransactionStatus::Open;
                done("BEGIN", None)
            }
            "commit" | "rollback" => {
                let words =
                    if verb == "commit" && self.status == TransactionStatus::Open { "COMMIT" } else { "ROLLBACK" };
                self.status = TransactionStatus::Idle;
                self.is_implicit = false;
                if self.has_long_end {
                    self.ended(verb);
                }
                done(words, None)
            }
            "fail" => {
                let error = SqlError::new(SqlState::DIVISION_BY_ZERO, "division by zero");
                Err(error.detail("This happens.").hint("Do not.").at(3))
            }
            "fail-at-commit" => {
                self.fails_at_commit = true;
                done("UPDATE", Some(1))
            }
            "taken-at-commit" => {
                let left = *self.taken_at_commit.get_or_insert(number.unsigned_abs());
                let run = number.unsigned_abs() - left + 1;
                self.notices.push(("NOTICE", SqlError::new(SqlState("00000"), format!("run {run}"))));
                rows_done(rows(), "UPDATE", Some(number.unsigned_abs().into()))
            }
            "taken" => {
                let left = *self.taken_at_commit.get_or_insert(number.unsigned_abs());
                if let Some(next) = left.checked_sub(1) {
                    (self.taken_at_commit, self.is_implicit) = (Some(next), false);
                    self.shared.log("rollback");
                    return Err(engine::Error::Taken.into());
                }
                self.taken_at_commit = None;
                rows_done(rows(), "UPDATE", Some(number.unsigned_abs().into()))
            }
            "idle-limit" => {
                self.idle_limit = Some(Duration::from_millis(number.unsigned_abs().into()));
                done("SET", None)
            }
            "notice" => {
                self.notices.push(("NOTICE", SqlError::new(SqlState("00000"), rest)));
                done("DO", None)
            }
            "set" => {
                self.reports.push(("application_name", rest.to_owned()));
                done("SET", None)
            }
            "copy-in" | "copy-in-park" => Ok(Run::CopyIn(CopyShape { is_binary: false, columns: 2 })),
            "copy-in-binary" => Ok(Run::CopyIn(CopyShape { is_binary: true, columns: 1 })),
            "copy-out" => Ok(Run::CopyOut(CopyShape { is_binary: false, columns: 2 })),
            "park" if self.cancelled.swap(false, SeqCst) => {
                Err(SqlError::new(SqlState("57014"), "canceling statement due to user request"))
            }
            "park" if self.shared.is_open.load(SeqCst) => done("UPDATE", Some(1)),
            "park" => Ok(Run::Parked(Box::new(Waiting(self.shared.clone(), self.cancelled.clone())))),
            other => Err(SqlError::unsupported(other)),
        }
    }

    fn copy_data(
        &mut self,
        Portal(statement, _, copying): &mut Portal,
        data: &[u8],
    ) -> SqlResult<Option<Box<dyn Parked>>> {
        copying.0 += data.len();
        self.shared.copied.fetch_add(data.len(), SeqCst);
        let (verb, most) = words(&statement.text);
        if self.has_long_end {
            self.shared.log(format!("copies on {}", this_thread()));
        }
        if most.parse::<usize>().is_ok_and(|most| most < copying.0) {
            return Err(SqlError::new(SqlState("22P04"), "extra data after last expected column"));
        }
        if self.cancelled.swap(false, SeqCst) {
            return Err(SqlError::new(SqlState("57014"), "canceling statement due to user request"));
        }
        let waits = verb == "copy-in-park" && !self.shared.is_open.load(SeqCst);
        Ok(waits.then(|| Box::new(Waiting(self.shared.clone(), self.cancelled.clone())) as Box<dyn Parked>))
    }

    fn copy_done(&mut self, Portal(_, _, copying): &mut Portal) -> SqlResult<CopyPart> {
        Ok(CopyPart::Last(Tag { words: "COPY", rows: Some(copying.0 as u64) }))
    }

    /// Appends 100 rows at a time, of about 1,000 bytes.
    fn copy_next(
        &mut self,
        Portal(statement, _, copying): &mut Portal,
        rows: &mut CopyRows<'_>,
    ) -> SqlResult<CopyPart> {
        let wanted: usize = words(&statement.text).1.parse().unwrap();
        if self.has_long_end && copying.0 == 0 {
            self.shared.log(format!("copies on {}", this_thread()));
        }
        if copying.0 == 1_300 {
            return Err(SqlError::new(SqlState::DIVISION_BY_ZERO, "division by zero"));
        }
        for _ in copying.0..wanted.min(copying.0 + 100) {
            copying.0 += 1;
            self.shared.given.fetch_add(1, SeqCst);
            rows.row(format!("{}\t{}\n", copying.0, "x".repeat(1_000)).as_bytes());
        }
        Ok(match copying.0 == wanted {
            true => CopyPart::Last(Tag { words: "COPY", rows: Some(wanted as u64) }),
            false => CopyPart::More,
        })
    }

    fn write(
        &mut self,
        statement: &Arc<Statement>,
        column: usize,
        format: Format,
        value: &Datum,
        out: &mut BytesMut,
    ) -> SqlResult<()> {
        let columns = statement.columns.as_deref().unwrap();
        match (value, format, columns[column].1) {
            (Datum::Int4(value), Format::Binary, 23) => out.extend_from_slice(&value.to_be_bytes()),
            (Datum::Int4(value), Format::Text, 23) => out.extend_from_slice(value.to_string().as_bytes()),
            (Datum::Text(value), _, _) => out.extend_from_slice(value.as_bytes()),
            other => panic!("{other:?}"),
        }
        Ok(())
    }

    fn sync(&mut self) -> SqlResult<()> {
        if std::mem::take(&mut self.is_implicit) && self.status == TransactionStatus::Idle {
            if std::mem::take(&mut self.fails_at_commit) {
                return Err(SqlError::new(SqlState("40001"), "could not serialize access"));
            }
            if let Some(left) = self.taken_at_commit.filter(|&left| 0 < left) {
                self.taken_at_commit = Some(left - 1);
                self.shared.log("rollback");
                return Err(engine::Error::Taken.into());
            }
            self.taken_at_commit = None;
            self.ended("commit");
        }
        Ok(())
    }

    fn is_alone(&self, Portal(statement, ..): &Portal) -> bool {
        statement.text.starts_with("taken") && self.status == TransactionStatus::Idle && !self.is_implicit
    }

    fn begin_again(&mut self) {
        self.notices.clear();
    }

    fn fail(&mut self) {
        self.taken_at_commit = None;
        if self.status == TransactionStatus::Open {
            self.status = TransactionStatus::Failed;
        }
        if std::mem::take(&mut self.is_implicit) || self.has_long_end {
            self.ended("rollback");
        }
    }

    fn has_long_end(&self) -> bool {
        self.has_long_end
    }

    fn idle_limit(&self) -> Option<Duration> {
        self.idle_limit
    }

    fn status(&self) -> TransactionStatus {
        self.status
    }

    fn holds_nothing(&self, Portal(statement, ..): &Portal) -> bool {
        statement.text.starts_with("thread") && self.status == TransactionStatus::Idle && !self.is_implicit
    }

    fn is_large(&self, Portal(statement, ..): &Portal) -> bool {
        statement.text.starts_with("thread large")
    }

    fn take_reports(&mut self) -> Vec<(&'static str, String)> {
        std::mem::take(&mut self.reports)
    }

    fn take_notices(&mut self) -> Vec<(&'static str, SqlError)> {
        std::mem::take(&mut self.notices)
    }

    fn canceller(&self) -> Arc<dyn Cancel> {
        Arc::new(Canceller(self.shared.clone(), self.cancelled.clone()))
    }
}
