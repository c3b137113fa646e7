//! Goal: the engine's isolation scripts give the same results over the wire. Method: every interleaving of every file
//! of the crate `engine`, `tests/scripts`, as SQL in connections of its own to a real server, at each level. With
//! `OVERTAKE_SCRIPTS_URL` set to the address of a PostgreSQL (`host=/tmp/pg15 port=55432 user=postgres`) they run
//! there, and are compared with the results that the files give for PostgreSQL. With `OVERTAKE_SCRIPTS_ONLY`, only
//! files whose name contains its value are run.
//!
//! A statement counts as waiting when the server reports it for its session twice in a row, so that no session is about
//! to wake it. In a cycle no statement counts as waiting: PostgreSQL looks for deadlocks only after a while.

use crate::real::Real;
use std::collections::{BTreeSet, HashMap};
use std::io::{Read, Write};
use std::net::TcpStream;
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::time::{Duration, Instant};
use testkit::script::{self, Begin, Executor, Level, Reply, Script, ScriptClass, ScriptStatement, ScriptTable, Who};
use wirekit::raw::{PATIENCE, Raw, query};

/// Byte stream of a connection.
trait Stream: Read + Write + Send {}

impl<S: Read + Write + Send> Stream for S {}

/// Answer to one simple query.
#[derive(Default)]
struct Answer {
    /// Rows, with values separated by commas.
    rows: Option<Vec<String>>,
    tag: String,
    failed: Option<String>,
    in_block: bool,
}

impl Answer {
    fn of(raw: &mut Raw<Box<dyn Stream>>, text: &str) -> Answer {
        raw.send(&query(text));
        let mut answer = Answer::default();
        loop {
            let message = raw.next().expect("the session goes on");
            let (kind, inner) = message.split_once('(').unwrap_or((message.as_str(), ")"));
            let inner = &inner[..inner.len() - 1];
            match kind {
                "T" => answer.rows = Some(Vec::new()),
                "D" => answer.rows.as_mut().unwrap().push(inner.to_owned()),
                "C" => answer.tag = inner.to_owned(),
                "E" => answer.failed = inner.split('|').nth(1).map(str::to_owned),
                "Z" => {
                    answer.in_block = inner != "I";
                    return answer;
                }
                _ => {}
            }
        }
    }

    fn rows(self) -> Vec<Vec<Option<i64>>> {
        let value = |value: &str| (value != "NULL").then(|| value.parse().unwrap());
        self.rows.unwrap().iter().map(|row| row.split(',').map(value).collect()).collect()
    }

    fn reply(self, statement: &ScriptStatement) -> Reply {
        if let Some(state) = self.failed {
            return Reply::Failed(state);
        }
        match statement {
            ScriptStatement::Read { .. } => Reply::Rows(self.rows()),
            ScriptStatement::Insert { .. } | ScriptStatement::Update { .. } | ScriptStatement::Delete { .. } => {
                Reply::Count(self.tag.rsplit(' ').next().unwrap().parse().unwrap())
            }
            ScriptStatement::Commit if self.tag == "ROLLBACK" => Reply::RolledBack,
            _ => Reply::Done,
        }
    }
}

/// A connection whose statements may take long, served by a thread of its own.
struct Client {
    pid: i32,
    asks: Sender<String>,
    answers: Receiver<Answer>,
    /// Statement that was sent, until its reply is reported.
    under_way: Option<ScriptStatement>,
    heard: Option<Answer>,
    in_block: bool,
    /// Statement that set its class.
    class: String,
}

impl Client {
    fn new(mut raw: Raw<Box<dyn Stream>>) -> Client {
        let pid = raw.pid;
        let (asks, asked) = channel::<String>();
        let (answered, answers) = channel();
        std::thread::spawn(move || {
            // Until either end is gone.
            while let Ok(text) = asked.recv()
                && answered.send(Answer::of(&mut raw, &text)).is_ok()
            {}
        });
        Client { pid, asks, answers, under_way: None, heard: None, in_block: false, class: String::new() }
    }

    /// Returns true if a statement was sent and its answer has not come.
    fn is_busy(&self) -> bool {
        self.under_way.is_some() && self.heard.is_none()
    }

    /// Waits for the answer, up to `patience`.
    fn hears(&mut self, patience: Duration) -> bool {
        match self.answers.recv_timeout(patience) {
            Ok(answer) => {
                self.in_block = answer.in_block;
                self.heard = Some(answer);
                true
            }
            Err(RecvTimeoutError::Timeout) => false,
            Err(RecvTimeoutError::Disconnected) => panic!("the connection is lost"),
        }
    }

    fn ask(&mut self, text: &str) -> Answer {
        self.asks.send(text.to_owned()).unwrap();
        assert!(self.hears(PATIENCE), "no answer: {text}");
        self.heard.take().unwrap()
    }
}

/// Server that runs the scripts.
enum Place {
    Ours(Box<Real>),
    Peer { host: String, port: u16, user: String },
}

impl Place {
    fn of_environment() -> Place {
        let Ok(url) = std::env::var("OVERTAKE_SCRIPTS_URL") else {
            let real = Real::new();
            // Transactions do not take rows from one another, since PostgreSQL has no such feature.
            let locks = engine::LockConfig { priority: engine::LockPriority::None, ..real.engine.lock_config() };
            real.engine.set_lock_config(locks);
            return Place::Ours(Box::new(real));
        };
        let config: tokio_postgres::Config = url.parse().unwrap();
        let host = match &config.get_hosts()[0] {
            tokio_postgres::config::Host::Tcp(name) => name.clone(),
            tokio_postgres::config::Host::Unix(folder) => folder.to_str().unwrap().to_owned(),
        };
        let port = config.get_ports().first().copied().unwrap_or(5432);
        Place::Peer { host, port, user: config.get_user().unwrap_or("postgres").to_owned() }
    }

    fn connect(&self) -> Raw<Box<dyn Stream>> {
        let (stream, user): (Box<dyn Stream>, &str) = match self {
            Place::Ours(real) => (Box::new(tcp(real.address)), "postgres"),
            Place::Peer { host, port, user } if host.starts_with('/') => {
                let stream = UnixStream::connect(format!("{host}/.s.PGSQL.{port}")).unwrap();
                stream.set_read_timeout(Some(PATIENCE)).unwrap();
                (Box::new(stream), user)
            }
            Place::Peer { host, port, user } => (Box::new(tcp((host.as_str(), *port))), user),
        };
        let mut raw = Raw { stream, pid: 0, secret: 0 };
        let begun = raw.start(&[("user", user), ("database", "postgres")]);
        assert!(begun.ends_with("Z(I)"), "{begun}");
        raw
    }

    fn who(&self) -> Who {
        match self {
            Place::Ours(_) => Who::Overtake,
            Place::Peer { .. } => Who::PostgreSql,
        }
    }

    /// Returns a query for the sessions that wait now, and for the ones they wait for where that may be a cycle.
    fn waiters(&self) -> &'static str {
        match self {
            Place::Ours(_) => {
                // A session that waits in a cycle is aborted by the time the last of the cycle is reported as waiting.
                "select a.pid, '' from overtake.activity a join overtake.locks l on l.pid = a.pid
                 where a.state = 'waiting' and not l.granted and not l.woken"
            }
            Place::Peer { .. } => {
                "select pid, array_to_string(blockers, '/') from (select pid, pg_blocking_pids(pid)
                 || pg_safe_snapshot_blocking_pids(pid) as blockers from pg_stat_activity) w where blockers <> '{}'"
            }
        }
    }

    /// Returns the statement that sets the class of a session, before its `begun`th transaction
    /// of an interleaving begins.
    fn class(&self, class: ScriptClass, begun: u32) -> String {
        match (self, class) {
            (Place::Ours(_), ScriptClass::High) => "set overtake.priority = high".to_owned(),
            (Place::Ours(_), ScriptClass::Normal) => "set overtake.priority = normal".to_owned(),
            (Place::Ours(_), ScriptClass::Low) => "set overtake.priority = low".to_owned(),
            // The first session to look becomes the victim: the least important, then the youngest.
            (Place::Peer { .. }, class) => {
                let rank = [ScriptClass::Low, ScriptClass::Normal, ScriptClass::High]
                    .iter()
                    .position(|one| *one == class)
                    .unwrap();
                let ms = 1000 * (rank + 1) - 150 * begun.min(5) as usize;
                format!("set deadlock_timeout = {ms}; set enable_seqscan = off")
            }
        }
    }
}

fn tcp(address: impl std::net::ToSocketAddrs) -> TcpStream {
    let stream = TcpStream::connect(address).unwrap();
    stream.set_nodelay(true).unwrap();
    stream.set_read_timeout(Some(PATIENCE)).unwrap();
    stream
}

/// Returns true if a session waits for itself through others.
fn has_circle(waits_for: &HashMap<i32, Vec<i32>>) -> bool {
    let mut left = waits_for.clone();
    // A session that waits only for sessions that do not wait is in no cycle.
    loop {
        let before = left.len();
        let waiting: Vec<i32> = left.keys().copied().collect();
        left.retain(|_, others| others.iter().any(|other| waiting.contains(other)));
        if left.len() == before {
            return before != 0;
        }
    }
}

/// Runs steps as SQL.
struct Wire {
    place: Place,
    control: Raw<Box<dyn Stream>>,
    clients: Vec<Client>,
    tables: Vec<ScriptTable>,
    level: Level,
    begun: u32,
}

impl Wire {
    fn new(place: Place) -> Wire {
        let control = place.connect();
        Wire { place, control, clients: Vec::new(), tables: Vec::new(), level: Level::ReadCommitted, begun: 0 }
    }

    fn control(&mut self, text: &str) -> Answer {
        let answer = Answer::of(&mut self.control, text);
        assert_eq!(answer.failed, None, "{text}");
        answer
    }

    /// Returns true if these sessions wait, and none of them in a cycle.
    fn all_wait(&mut self, pids: &[i32]) -> bool {
        let rows = self.control(self.place.waiters()).rows.unwrap();
        let mut waits_for = HashMap::new();
        for row in &rows {
            let (pid, others) = row.split_once(',').unwrap();
            let others = others.split('/').filter_map(|other| other.parse().ok()).collect::<Vec<i32>>();
            waits_for.insert(pid.parse::<i32>().unwrap(), others);
        }
        waits_for.retain(|pid, _| pids.contains(pid));
        waits_for.len() == pids.len() && !has_circle(&waits_for)
    }

    /// Waits until every session has answered or waits, and nothing changes any more.
    fn settle(&mut self) {
        let begun = Instant::now();
        let mut seen = 0;
        while seen < 2 {
            let mut pids = Vec::new();
            for client in self.clients.iter_mut().filter(|client| client.is_busy()) {
                if !client.hears(Duration::ZERO) {
                    pids.push(client.pid);
                }
            }
            if pids.is_empty() {
                return;
            }
            seen = if self.all_wait(&pids) { seen + 1 } else { 0 };
            assert!(begun.elapsed() < PATIENCE, "neither an answer nor a wait");
        }
    }

    fn reply(&mut self, session: usize) -> Option<Reply> {
        let client = &mut self.clients[session];
        let answer = client.heard.take()?;
        let statement = client.under_way.take().expect("an answer to a statement");
        Some(answer.reply(&statement))
    }
}

impl Executor for Wire {
    fn set_up(&mut self, script: &Script, level: Level) {
        let mut text = String::new();
        for table in &script.tables {
            text.push_str(&format!("drop table if exists {}; ", table.name));
            text.push_str(&(script::to_sql_table(table).join("; ") + "; "));
        }
        self.control(&text);
        while self.clients.len() < script.sessions.len() {
            self.clients.push(Client::new(self.place.connect()));
        }
        self.tables = script.tables.clone();
        self.level = level;
        self.begun = 0;
    }

    fn submit(&mut self, session: usize, statement: &ScriptStatement) -> Option<Reply> {
        let text = script::to_sql(&self.tables, self.level, statement);
        let client = &mut self.clients[session];
        if let ScriptStatement::Begin(Begin { class, .. }) = statement
            && !client.in_block
        {
            let class = self.place.class(*class, self.begun);
            self.begun += 1;
            if client.class != class {
                assert_eq!(client.ask(&class).failed, None, "{class}");
                client.class = class;
            }
        }
        client.under_way = Some(statement.clone());
        client.asks.send(text).unwrap();
        // Most statements are answered at once. Otherwise, any other session may be the one a
        // waiting session waits for.
        client.hears(Duration::from_millis(1));
        self.settle();
        self.reply(session)
    }

    fn resume(&mut self, session: usize) -> Option<Reply> {
        self.reply(session)
    }

    fn end(&mut self) -> Vec<Vec<Vec<Option<i64>>>> {
        let mut left: Vec<usize> = (0..self.clients.len()).collect();
        let begun = Instant::now();
        // Waiting sessions can go on when the others are gone.
        while !left.is_empty() {
            left.retain(|session| {
                let client = &mut self.clients[*session];
                if client.is_busy() && !client.hears(Duration::from_millis(1)) {
                    return true;
                }
                (client.under_way, client.heard) = (None, None);
                if client.in_block {
                    client.ask("ROLLBACK");
                }
                false
            });
            assert!(begun.elapsed() < PATIENCE, "somebody waits for nobody");
        }
        let query = |table: &ScriptTable| format!("select * from {} order by {}", table.name, table.columns[0]);
        let queries: Vec<String> = self.tables.iter().map(query).collect();
        queries.iter().map(|query| self.control(query).rows()).collect()
    }
}

/// Scripts in which a scan by rows gives more conflicts. It passes no conditions to the engine, so at SERIALIZABLE
/// changes of rows that it did not want conflict with it, as in PostgreSQL. The engine's own interface lets them pass.
const COARSE: [&str; 1] = ["condition-not-met"];

/// Script in which a block above READ COMMITTED keeps locks on the tables that it has read, as in PostgreSQL. A read of
/// the engine's own interface takes no lock. So an earlier reader is waited for, and a later one reads its snapshot.
const KEPT: &str = "table-access-exclusive-readers";

/// Checks the outcome of that script.
fn check_kept(script: &Script, level: Level, found: &[String]) {
    let reads_first = |line: &&str| line.starts_with("rb");
    let ours = script.expected(Who::Overtake, level).into_iter().filter(|line| !reads_first(line));
    let theirs = script.expected(Who::PostgreSql, level).into_iter().filter(reads_first);
    let wanted: BTreeSet<String> = ours.chain(theirs).map(script::unordered).collect();
    let found: BTreeSet<String> = found.iter().map(|line| script::unordered(line)).collect();
    assert_eq!(found, wanted, "{} {level}", script.name);
}

/// Checks every `PARTS`th of the scripts, from this one on.
fn check(part: usize) {
    let only = std::env::var("OVERTAKE_SCRIPTS_ONLY").unwrap_or_default();
    let folder = Path::new("../engine/tests/scripts");
    let mut wire = Wire::new(Place::of_environment());
    let who = wire.place.who();
    let mut words = String::new();
    let (mut scripts, mut runs) = (0, 0);
    for script in script::read_folder(folder).unwrap().into_iter().skip(part).step_by(PARTS) {
        if !script.name.contains(&only) {
            continue;
        }
        scripts += 1;
        for level in Level::ALL {
            let outcomes = script::explore(&script, level, &mut wire);
            runs += outcomes.len();
            let found = script::transcripts(&outcomes);
            if who == Who::Overtake && level != Level::ReadCommitted && script.name == KEPT {
                check_kept(&script, level, &found);
                continue;
            }
            let differs = script.compare_unordered(who, level, &found);
            if who == Who::Overtake && level == Level::Serializable && COARSE.contains(&script.name.as_str()) {
                assert!(!differs.is_empty(), "{} needs no exception any more", script.name);
                words.push_str(&script::check_serial(&script, &outcomes, &mut wire));
            } else {
                words.push_str(&differs);
            }
        }
    }
    println!("{scripts} scripts, {runs} interleavings");
    assert!(0 < scripts || !only.is_empty());
    assert!(words.is_empty(), "\n{words}");
}

/// Number of tests that share the scripts.
const PARTS: usize = 3;

/// First third of the scripts.
pub fn scripts_over_the_wire_1() {
    check(0);
}

/// Second third of the scripts.
pub fn scripts_over_the_wire_2() {
    check(1);
}

/// Last third of the scripts.
pub fn scripts_over_the_wire_3() {
    check(2);
}
