//! Goal: sessions that meet each other answer as PostgreSQL 15 does. Method: scripts of several sessions, step by step,
//! with the answers of PostgreSQL. With `OVERTAKE_SLT_URL` they run on that PostgreSQL instead, except for those with a
//! reason against it.
//!
//! A script begins with `== name`; one whose name is followed by `(here)` is not for PostgreSQL. `! text` is for a
//! session that prepares the tables; `1: text` is a step of session 1, followed by `-> answer` if it must have that
//! answer, and by `~` if it must wait; `1= answer` is the point where a waiting step ends. An answer is the rows, the
//! number of rows, or an SQLSTATE, which a message may follow. A step without an answer must succeed.
#![allow(missing_docs, clippy::unwrap_used, clippy::panic, reason = "a test fails by panicking")]

use engine::{Engine, EngineConfig};
use settings::Connect;
use sql::session::{Database, Outcome, Parked, Portal, PreparationFailure, Session, Step};
use statement::time::ManualTime;
use std::collections::BTreeMap;
use std::time::Duration;
use types::forms::Forms;
use types::text;

const FOLDER: &str = "tests/sessions";

/// Answer to a statement: rows or their number, or SQLSTATE and message.
type Answer = Result<String, (String, String)>;

/// Sessions of a server.
trait Server {
    /// Runs a statement; returns `None` if it waits.
    fn run(&mut self, session: &str, text: &str) -> Option<Answer>;
    /// Returns the answer of the waiting statement.
    fn end(&mut self, session: &str) -> Answer;
}

fn is(answer: &Answer, wanted: Option<&str>) -> bool {
    match (answer, wanted) {
        (Ok(_), None) => true,
        (Ok(rows), Some(wanted)) => rows.trim_end() == wanted,
        (Err((state, message)), Some(wanted)) => wanted == state || wanted == format!("{state} {message}"),
        (Err(_), None) => false,
    }
}

/// Plays a script; fails with a description of the first difference.
fn play(server: &mut dyn Server, script: &str) -> Result<(), String> {
    for line in script.lines().filter(|line| !line.trim().is_empty()) {
        if let Some(text) = line.strip_prefix("! ") {
            let answer = server.run("setup", text);
            if answer.is_none_or(|answer| answer.is_err()) {
                return Err(format!("{line}: fails"));
            }
        } else if let Some((session, wanted)) = line.split_once('=').filter(|(session, _)| session.len() == 1) {
            let answer = server.end(session);
            if !is(&answer, Some(wanted.trim()).filter(|wanted| !wanted.is_empty())) {
                return Err(format!("{line}: {answer:?}"));
            }
        } else {
            let (session, text) = line.split_once(": ").ok_or_else(|| format!("{line}: no step"))?;
            let (text, wanted) = match text.rsplit_once(" ->") {
                Some((text, wanted)) => (text, Some(wanted.trim())),
                None => (text, None),
            };
            let answer = match text.strip_suffix(" ~") {
                Some(text) => match server.run(session, text) {
                    None => continue,
                    Some(answer) => return Err(format!("{line}: does not wait: {answer:?}")),
                },
                None => server.run(session, text).ok_or_else(|| format!("{line}: waits"))?,
            };
            if !is(&answer, wanted) {
                return Err(format!("{line}: {answer:?}"));
            }
        }
    }
    Ok(())
}

struct Here {
    database: Database,
    sessions: BTreeMap<String, Session>,
    waiting: BTreeMap<String, Waiting>,
}

/// Statement that waits.
enum Waiting {
    Runs(Portal),
    IsPrepared(String),
}

impl Here {
    fn new() -> Here {
        let database = Database::new(Engine::new(EngineConfig::in_memory()));
        Here { database, sessions: BTreeMap::new(), waiting: BTreeMap::new() }
    }

    /// Prepares a statement and runs it.
    fn prepare(&mut self, session: &str, text: &str, may_wait: bool) -> Option<Answer> {
        let own = self.sessions.get_mut(session).unwrap();
        let mut prepared = if may_wait { Some(own.prepare_once(text, &[])) } else { None };
        let statement = loop {
            let error = match prepared {
                Some(Ok(statement)) => break Ok(statement),
                Some(Err(error)) => Some(error),
                None => None,
            };
            match own.await_definitions() {
                Ok(PreparationFailure::Parked(_)) if may_wait => {
                    self.waiting.insert(session.to_owned(), Waiting::IsPrepared(text.to_owned()));
                    return None;
                }
                Ok(PreparationFailure::Parked(parked)) => {
                    parked.wait();
                    prepared = None;
                    continue;
                }
                Ok(PreparationFailure::Stands) if error.is_some() => break Err(error.unwrap()),
                Ok(PreparationFailure::Stands | PreparationFailure::Again) => {}
                Err(error) => break Err(error),
            }
            prepared = Some(own.prepare_once(text, &[]));
        };
        match statement.and_then(|statement| own.bind(&statement, Vec::new())) {
            Ok(portal) => self.go_on(session, portal, may_wait),
            Err(error) => {
                own.fail();
                let _ = own.sync();
                Some(Err((error.state().0.to_owned(), error.message().to_owned())))
            }
        }
    }

    fn go_on(&mut self, session: &str, mut portal: Portal, may_wait: bool) -> Option<Answer> {
        let own = self.sessions.get_mut(session).unwrap();
        let answer = loop {
            match own.execute(&mut portal) {
                Ok(Step::Parked(_)) if may_wait => {
                    self.waiting.insert(session.to_owned(), Waiting::Runs(portal));
                    return None;
                }
                Ok(Step::Parked(parked)) => parked.wait(),
                Ok(Step::Done(outcome)) => break Ok(shown(outcome)),
                Ok(_) => panic!("a COPY"),
                Err(error) => break Err(error),
            }
        };
        let answer = own.sync().and(answer);
        Some(answer.map_err(|error| (error.state().0.to_owned(), error.message().to_owned())))
    }
}

impl Server for Here {
    fn run(&mut self, session: &str, text: &str) -> Option<Answer> {
        let connect = || Connect { user: "postgres".into(), database: "postgres".into(), ..Connect::default() };
        if !self.sessions.contains_key(session) {
            self.sessions.insert(session.to_owned(), self.database.connect(connect()).unwrap());
            self.run(session, "set statement_timeout = '20s'");
        }
        self.prepare(session, text, true)
    }

    fn end(&mut self, session: &str) -> Answer {
        match self.waiting.remove(session).expect("a statement that waits") {
            Waiting::Runs(portal) => self.go_on(session, portal, false).unwrap(),
            Waiting::IsPrepared(text) => self.prepare(session, &text, false).unwrap(),
        }
    }
}

fn shown(outcome: Outcome) -> String {
    let rows = match outcome {
        Outcome::Rows(rows, _) => rows,
        Outcome::Done(tag) => return tag.rows.map_or_else(String::new, |rows| rows.to_string()),
        _ => return String::new(),
    };
    let kind = types::SqlType::from(types::Kind::Text);
    let value = |value: &types::Datum| text::to_string(value, kind, &Forms::default());
    let rows: Vec<String> = rows.iter().map(|row| row.iter().map(value).collect::<Vec<_>>().join(" ")).collect();
    rows.join(";")
}

/// PostgreSQL server; its sessions are clients of their own.
struct There {
    runtime: tokio::runtime::Runtime,
    url: String,
    sessions: BTreeMap<String, (std::sync::Arc<tokio_postgres::Client>, String)>,
    waiting: BTreeMap<String, tokio::task::JoinHandle<Answer>>,
}

async fn ask(client: &tokio_postgres::Client, text: &str) -> Answer {
    use tokio_postgres::SimpleQueryMessage;
    let messages = client.simple_query(text).await.map_err(|error| {
        let error = error.as_db_error().unwrap();
        (error.code().code().to_owned(), error.message().to_owned())
    })?;
    let (mut rows, mut count, mut is_query) = (Vec::new(), String::new(), false);
    for message in messages {
        match message {
            SimpleQueryMessage::Row(row) => {
                let values: Vec<&str> = (0..row.len()).map(|at| row.get(at).unwrap_or_default()).collect();
                rows.push(values.join(" "));
            }
            SimpleQueryMessage::RowDescription(_) => is_query = true,
            SimpleQueryMessage::CommandComplete(number) => count = number.to_string(),
            _ => {}
        }
    }
    Ok(if is_query { rows.join(";") } else { count })
}

impl There {
    fn new(url: &str) -> There {
        let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
        let mut there = There { runtime, url: url.to_owned(), sessions: BTreeMap::new(), waiting: BTreeMap::new() };
        there.connect("look");
        for text in ["drop schema if exists sessions cascade", "create schema sessions"] {
            there.runtime.block_on(ask(&there.sessions["look"].0, text)).unwrap();
        }
        there
    }

    fn connect(&mut self, session: &str) {
        let made = self.runtime.block_on(async {
            let (client, connection) = tokio_postgres::connect(&self.url, tokio_postgres::NoTls).await.unwrap();
            tokio::spawn(connection);
            ask(&client, "set search_path = sessions").await.unwrap();
            ask(&client, "set client_min_messages = error").await.unwrap();
            let pid = ask(&client, "select pg_backend_pid()").await.unwrap();
            (std::sync::Arc::new(client), pid)
        });
        self.sessions.insert(session.to_owned(), made);
    }
}

impl Server for There {
    fn run(&mut self, session: &str, text: &str) -> Option<Answer> {
        if !self.sessions.contains_key(session) {
            self.connect(session);
        }
        let (client, pid) = self.sessions[session].clone();
        let look = std::sync::Arc::clone(&self.sessions["look"].0);
        let text = text.to_owned();
        let running = self.runtime.spawn(async move { ask(&client, &text).await });
        let waits = format!("select 1 where pg_blocking_pids({pid}) <> '{{}}'");
        loop {
            if running.is_finished() {
                return Some(self.runtime.block_on(running).unwrap());
            }
            if self.runtime.block_on(ask(&look, &waits)).unwrap() == "1" {
                self.waiting.insert(session.to_owned(), running);
                return None;
            }
        }
    }

    fn end(&mut self, session: &str) -> Answer {
        let running = self.waiting.remove(session).expect("a statement that waits");
        self.runtime.block_on(running).unwrap()
    }
}

/// Returns scripts of transactions above READ COMMITTED that contain a definition, while another changes a row before
/// or after their first read: they see their snapshot, and revert no change. A definition that copies a table is
/// refused when the snapshot does not have all of it, where PostgreSQL refuses the next change of such a row, or, if it
/// rewrites the rows, loses the change.
fn own_definitions(is_here: bool) -> Vec<(String, String)> {
    let definitions = [
        ("alter table t add column c int", true),
        ("alter table t alter v type bigint", true),
        ("create index on t (v)", true),
        ("truncate t", false),
        ("create table x (a int)", false),
    ];
    // The sum after the change, the rows that a later change of row 1 finds, and the sum after that.
    let changes = [
        ("update t set v = 2 where id = 1", 4, 1, 13),
        ("delete from t where id = 1", 2, 0, 2),
        ("insert into t values (3, 3)", 6, 1, 16),
    ];
    let mut scripts = Vec::new();
    for level in ["repeatable read", "serializable"] {
        for (define, copies) in definitions {
            for (change, new, rows, last) in changes {
                for is_after in [false, true] {
                    let is_insert = change.starts_with("insert");
                    let mut lines = vec![
                        "! create table t (id int primary key, v int)".to_owned(),
                        "! insert into t values (1, 1), (2, 2)".to_owned(),
                        format!("1: begin isolation level {level}"),
                    ];
                    if is_after {
                        lines.push("1: select sum(v) from t -> 3".to_owned());
                    }
                    lines.push(format!("2: {change} -> 1"));
                    let sum = "select coalesce(sum(v), 0) from t ->";
                    if is_after && copies && is_here {
                        lines.push(format!("1: {define} -> 40001 could not serialize access due to concurrent update"));
                        lines.push("1: rollback".to_owned());
                        lines.push(format!("2: {sum} {new}"));
                    } else if is_after && define.contains("type") {
                        // PostgreSQL's snapshot sees the latest versions of rewritten rows.
                        continue;
                    } else {
                        let is_truncated = define.starts_with("truncate");
                        let seen = if is_truncated {
                            0
                        } else if is_after {
                            3
                        } else {
                            new
                        };
                        let is_lost = is_after && !is_truncated && !is_insert;
                        let wanted = if is_lost {
                            "40001".to_owned()
                        } else {
                            (if is_truncated { 0 } else { rows }).to_string()
                        };
                        let (end, left) =
                            if is_lost { ("rollback", new) } else { ("commit", if is_truncated { 0 } else { last }) };
                        lines.push(format!("1: {define}"));
                        lines.push(format!("1: {sum} {seen}"));
                        lines.push(format!("1: update t set v = 11 where id = 1 -> {wanted}"));
                        lines.push(format!("1: {end}"));
                        lines.push(format!("2: {sum} {left}"));
                    }
                    let when = if is_after { "after" } else { "before" };
                    let name = format!("{define} at {level}, {change} {when} the first read");
                    scripts.push((name, lines.join("\n")));
                }
            }
        }
    }
    scripts
}

/// Returns scripts of transactions above READ COMMITTED that write, by any statement, to a table that another
/// transaction has altered since their snapshot, after they have switched to the latest definitions for the sake of
/// another table. The write is refused, and earlier writes persist.
fn writes_to_the_replaced() -> Vec<(String, String)> {
    let definitions = [
        "alter table t alter n type bigint",
        "alter table t add column z int default 3",
        "create index on t (n)",
        "drop index t_n",
        "truncate t cascade",
        "begin; truncate t cascade; insert into t values (1, 1, 1); commit",
    ];
    let advances = ["insert into o values (1) -> 1", "update o set k = 1 -> 1", "insert into later values (1) -> 1"];
    let writes = [
        "insert into t values (9, 9, 1)",
        "insert into t values (1, 9, 1) on conflict (id) do update set v = 9",
        "update t set v = 9 where id = 1",
        "delete from t where id = 1",
        "with d as (delete from t returning id) insert into o select id from d",
        "select v from t where id = 1 for update",
        "select w.v from w join t on w.id = t.id for key share of t",
        "insert into c values (1)",
        "delete from p where id = 1",
        "copy t (id) from stdin",
        "lock table t in row exclusive mode",
        "execute q",
        "alter table t add column q int",
        "truncate t cascade",
    ];
    let mut scripts = Vec::new();
    for level in ["repeatable read", "serializable"] {
        for define in definitions {
            for advance in advances {
                let mut lines: Vec<String> = [
                    "! create table o (k int)",
                    "! create table p (id int primary key)",
                    "! create table t (id int primary key, v int, p int references p on delete cascade, n int)",
                    "! create table c (t int references t on delete cascade)",
                    "! create index t_n on t (n)",
                    "! create view w as select id, v from t",
                    "! insert into o values (0)",
                    "! insert into p values (1)",
                    "! insert into t values (1, 1, 1)",
                    "1: prepare q as update t set v = 9 where id = 1",
                ]
                .map(str::to_owned)
                .into();
                lines.push(format!("1: begin isolation level {level}"));
                lines.push("1: select count(*) from o -> 1".to_owned());
                lines.extend(define.split("; ").map(|text| format!("2: {text}")));
                lines.push("2: create table later (k int)".to_owned());
                lines.push(format!("1: {advance}"));
                lines.push("1: savepoint a".to_owned());
                // Each write must fail by itself, so the script returns to a savepoint after it.
                for write in writes {
                    lines.push(format!("1: {write} -> 40001 could not serialize access due to concurrent update"));
                    lines.push("1: rollback to a".to_owned());
                }
                let is_gone = define == "truncate t cascade";
                lines.push("1: select v from t -> 1".to_owned());
                lines.push("1: commit".to_owned());
                lines.push(format!("2: select v from t -> {}", if is_gone { "" } else { "1" }));
                lines.push("2: select (select sum(k) from o) + (select count(*) from later) -> 1".to_owned());
                lines.push("2: select count(*) from p -> 1".to_owned());
                lines.push("2: select count(*) from c -> 0".to_owned());
                scripts.push((format!("{define} at {level} before {advance} (here)"), lines.join("\n")));
            }
        }
    }
    scripts
}

#[test]
fn sessions_answer_as_in_postgresql() {
    let peer = std::env::var("OVERTAKE_SLT_URL").ok();
    let mut wrong = Vec::new();
    let files = std::fs::read_dir(FOLDER).unwrap().map(|file| std::fs::read_to_string(file.unwrap().path()).unwrap());
    let all: String = files.collect();
    let written = all.split("== ").skip(1).map(|script| script.split_once('\n').unwrap());
    let scripts: Vec<(String, String)> = written.map(|(name, script)| (name.to_owned(), script.to_owned())).collect();
    assert!(!scripts.is_empty(), "no scripts");
    for (name, script) in scripts.iter().chain(&own_definitions(peer.is_none())).chain(&writes_to_the_replaced()) {
        let result = match &peer {
            Some(_) if name.contains("(here)") => continue,
            Some(url) => play(&mut There::new(url), script),
            None => play(&mut Here::new(), script),
        };
        if let Err(what) = result {
            wrong.push(format!("{name}: {what}"));
        }
    }
    assert!(wrong.is_empty(), "{wrong:#?}");
}

/// Goal: a statement that cannot be bound reports that, whatever resource is exhausted. Method: no lock can be had.
#[test]
fn an_error_of_binding_needs_no_lock() {
    let engine = Engine::new(EngineConfig::in_memory());
    let database = Database::new(engine.clone());
    let connect = Connect { user: "postgres".into(), database: "postgres".into(), ..Connect::default() };
    let mut session = database.connect(connect).unwrap();
    let statement = session.prepare("create table t (a int)", &[]).unwrap();
    let mut portal = session.bind(&statement, Vec::new()).unwrap();
    session.execute(&mut portal).unwrap();
    session.sync().unwrap();
    engine.set_lock_config(engine::LockConfig { entries_max: 0, ..engine.lock_config() });
    assert_eq!(session.prepare("select nothing from t", &[]).unwrap_err().state().0, "42703");
    assert!(session.is_unbound() && matches!(session.await_definitions(), Ok(PreparationFailure::Stands)));
    session.fail();
    session.sync().unwrap();
}

/// Returns a session whose clock the test advances. It stands at the start of 2000.
fn timed_session() -> (Session, ManualTime) {
    let manual = ManualTime::new(946_684_800_000_000);
    let database = Database::new(Engine::new(EngineConfig::in_memory())).with_time(manual.source());
    let connect = Connect { user: "postgres".into(), database: "postgres".into(), ..Connect::default() };
    (database.connect(connect).unwrap(), manual)
}

/// Goal: `statement_timeout` counts once for all the work of a statement, and anew for the next one. Method: the
/// remaining time, by a clock that the test advances between the steps.
#[test]
fn a_statement_has_one_timer() {
    let (mut session, manual) = timed_session();
    let all = Duration::from_secs(3600);
    let later = || manual.advance(Duration::from_secs(60));
    let left = |minutes: u64| Some(all - Duration::from_secs(60 * minutes));
    let done = |session: &mut Session, text: &str| {
        let statement = session.prepare(text, &[]).unwrap();
        let mut portal = session.bind(&statement, Vec::new()).unwrap();
        session.execute(&mut portal).is_ok()
    };
    assert!(done(&mut session, "set statement_timeout = '1h'"));
    session.sync().unwrap();
    later();
    assert_eq!(session.time_left(), left(0), "the next one has all of it");
    // The simple protocol, with one statement and with two.
    assert_eq!(session.split("select 1; select 2").unwrap().len(), 2);
    later();
    assert_eq!(session.time_left(), left(1));
    let statement = session.prepare("select 1", &[]).unwrap();
    later();
    assert_eq!(session.time_left(), left(2));
    let mut portal = session.bind(&statement, Vec::new()).unwrap();
    later();
    assert_eq!(session.time_left(), left(3));
    assert!(matches!(session.execute(&mut portal), Ok(Step::Done(_))));
    assert_eq!(session.time_left(), left(0));
    // A statement that is run again has the remaining time.
    session.begin_again();
    assert_eq!(session.time_left(), left(3));
    session.sync().unwrap();
    assert_eq!(session.time_left(), left(0));
    // The extended protocol: from the first message to the end, to Sync, or to an error.
    let statement = session.prepare("select 1", &[]).unwrap();
    later();
    assert_eq!(session.time_left(), left(1));
    session.sync().unwrap();
    assert_eq!(session.time_left(), left(0));
    session.bind(&statement, Vec::new()).unwrap();
    later();
    assert_eq!(session.time_left(), left(1));
    session.fail();
    assert_eq!(session.time_left(), left(0));
    assert!(!done(&mut session, "select 1 / 0"));
    assert_eq!(session.time_left(), left(0));
    session.sync().unwrap();
    // A statement that fails to bind may be bound again.
    assert!(session.prepare("select nothing", &[]).is_err());
    later();
    assert_eq!(session.time_left(), left(1));
    assert!(matches!(session.await_definitions(), Ok(PreparationFailure::Stands)));
    assert_eq!(session.time_left(), left(1));
    session.fail();
    session.sync().unwrap();
    // A COPY has one timer for all of its data.
    assert!(done(&mut session, "create table t (a int)"));
    session.sync().unwrap();
    assert!(done(&mut session, "copy t from stdin"));
    later();
    assert!(session.copy_data(b"1\n").unwrap().is_none());
    later();
    assert_eq!(session.time_left(), left(2));
    assert!(session.copy_done().is_ok());
    assert_eq!(session.time_left(), left(0));
}

/// Goal: the clock of the session decides when a COPY is late and when a sleep is over or late, and what the functions
/// of time show. Method: hours that nobody waits for.
#[test]
fn the_clock_of_a_session_is_passed_in() {
    fn given(session: &mut Session, text: &str) -> Portal {
        let statement = session.prepare(text, &[]).unwrap();
        session.bind(&statement, Vec::new()).unwrap()
    }
    fn shown(session: &mut Session, text: &str) -> String {
        let mut portal = given(session, text);
        let Ok(Step::Done(Outcome::Rows(rows, _))) = session.execute(&mut portal) else { panic!("{text}") };
        format!("{:?}", rows[0])
    }
    let (mut session, manual) = timed_session();
    let hour = Duration::from_secs(3600);
    let set = |session: &mut Session, text: &str| {
        let mut portal = given(session, text);
        assert!(session.execute(&mut portal).is_ok(), "{text}");
    };
    let times = "select now()::text, statement_timestamp()::text, clock_timestamp()::text, timeofday()";
    set(&mut session, "set timezone = 'UTC'");
    session.sync().unwrap();
    set(&mut session, "begin");
    manual.advance(hour);
    let (begun, now) = ("2000-01-01 00:00:00+00", "2000-01-01 01:00:00+00");
    let told = shown(&mut session, times);
    assert_eq!([told.matches(begun).count(), told.matches(now).count()], [1, 2], "{told}");
    assert!(told.contains("Sat Jan 01 01:00:00.000000 2000 UTC"), "{told}");
    set(&mut session, "prepare p as select 1");
    let since = "select prepare_time::text from pg_prepared_statements where name = 'p'";
    assert!(shown(&mut session, since).contains(now));
    set(&mut session, "commit");
    session.sync().unwrap();
    // A sleep is over when the clock says so.
    let mut sleeps = given(&mut session, "select pg_sleep(3600)");
    for _ in 0..2 {
        assert!(matches!(session.execute(&mut sleeps), Ok(Step::Parked(Parked::Sleep(_)))));
        manual.advance(hour / 2);
    }
    assert!(matches!(session.execute(&mut sleeps), Ok(Step::Done(_))));
    session.sync().unwrap();
    // It ends before that when its statement has taken too long.
    set(&mut session, "set statement_timeout = '1min'");
    session.sync().unwrap();
    let late = "canceling statement due to statement timeout";
    let mut sleeps = given(&mut session, "select pg_sleep_until(clock_timestamp() + interval '1 hour')");
    assert!(matches!(session.execute(&mut sleeps), Ok(Step::Parked(Parked::Sleep(_)))));
    manual.advance(Duration::from_secs(60));
    assert_eq!(session.execute(&mut sleeps).unwrap_err().message(), late);
    session.fail();
    session.sync().unwrap();
    // A COPY is late between its pieces.
    set(&mut session, "create table t (a int)");
    session.sync().unwrap();
    set(&mut session, "copy t from stdin");
    manual.advance(Duration::from_secs(59));
    assert!(session.copy_data(b"1\n").unwrap().is_none());
    manual.advance(Duration::from_secs(1));
    assert_eq!(session.copy_data(b"2\n").unwrap_err().message(), late);
}
