//! Goal: a process that holds as much memory as it may refuses statements, lives on, and gives back dropped memory.
//! Method: `overtake serve` as a child, with a small `overtake.memory` or with the default in a control group of 700
//! MB; its resident size as the kernel counts it.

use crate::overtake;
use crate::serve::{connect, runtime, serve, serve_by, value};
use futures::SinkExt;
use std::fs;
use std::path::PathBuf;
use std::pin::pin;
use std::process::Command;
use std::time::{Duration, Instant};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio_postgres::{Client, CopyInSink};

const LIMIT_MB: u64 = 256;
/// Resident size that is accepted: with stacks and the like, freed memory until it is purged, and the memory of 20
/// sessions until they are stopped. Without a limit each of the statements takes gigabytes.
const RESIDENT_MB: u64 = 2 * LIMIT_MB;

fn status_mb(process: u32, field: &str) -> u64 {
    let status = fs::read_to_string(format!("/proc/{process}/status")).unwrap();
    let size = status.lines().find_map(|line| line.strip_prefix(field)).unwrap();
    size.trim().strip_suffix(" kB").unwrap().parse::<u64>().unwrap() >> 10
}

/// Bytes that nobody has accounted for.
const OTHERS: &str = "select coalesce(sum(bytes), 0) from overtake.memory where kind = 'others'";

pub(crate) fn peak_mb(process: u32) -> u64 {
    status_mb(process, "VmHWM:")
}

pub(crate) fn resident_mb(process: u32) -> u64 {
    status_mb(process, "VmRSS:")
}

/// Runs a query that needs more than the limit; the error names the holders of memory.
async fn refused(client: &Client, query: &str) {
    let Err(error) = client.batch_execute(query).await else { panic!("{query}: done") };
    is_refusal(&error, query);
}

pub(crate) fn is_refusal(error: &tokio_postgres::Error, query: &str) {
    let error = error.as_db_error().unwrap_or_else(|| panic!("{query}: {error:?}"));
    assert_eq!((error.code().code(), error.message()), ("53200", "out of memory"), "{query}");
    assert!(error.detail().unwrap_or_default().contains("tables and indexes"), "{query}: {error:?}");
}

/// INSERT, COPY FROM, sorts, windows, joins and large values end with 53200, on both paths and in many sessions at once. The process
/// lives and stays small, and DELETE, DROP and small reads go on.
pub fn statements_are_refused_and_the_process_lives() {
    let (mut program, url) = serve(&["-c", &format!("overtake.memory={LIMIT_MB}MB")]);
    let process = program.0.id();
    runtime().block_on(async {
        let client = connect(&url).await;
        assert_eq!(value(&client, "show overtake.memory").await, format!("{LIMIT_MB}MB"));
        client
            .batch_execute("create table small (id int primary key); insert into small values (1), (2)")
            .await
            .unwrap();
        client.batch_execute("create table big (id bigint primary key, text text)").await.unwrap();
        let fill = "insert into big select n, repeat('x', 400) from generate_series(1, 10000000) n";
        refused(&client, fill).await;
        assert_eq!(value(&client, "select count(*) from big").await, "0");
        let queries = [
            // A volatile result is kept as a whole.
            "select n, repeat('x', 300), random() from generate_series(1, 10000000) n",
            "select n, repeat('x', 300) from generate_series(1, 10000000) n order by n desc",
            "select n, row_number() over (order by -n) from generate_series(1, 10000000) n",
            "select count(*) from generate_series(1, 10000000) a join generate_series(1, 10000000) b on a = b",
            "select n, count(*) from generate_series(1, 10000000) n group by n",
            "with recursive r(n, t) as (select 1, 'x' union all select n + 1, repeat('y', 400) from r) select * from r order by t",
            "select repeat('x', 900000000)",
            // These statements keep memory that is no rows: states of aggregates, arrays, texts that grow.
            "select length(string_agg(repeat('x', 1000), '')) from generate_series(1, 900000) n",
            "select n % 1000, array_agg(repeat('x', 200)) from generate_series(1, 10000000) n group by 1",
            "select cardinality(array_agg(n::text)) from generate_series(1, 30000000) n",
            "select n, array[n, n + 1, n + 2, n + 3]::text[] from generate_series(1, 10000000) n order by 1",
            "with recursive r(n, t) as (select 1, repeat('y', 1000000) union all select n + 1, t || repeat('y', 1000000) \
             from r where n < 200) select max(n) from r",
        ];
        for query in queries {
            refused(&client, query).await;
        }
        // Many statements at once, with room for a part of them.
        let mut all = Vec::new();
        for _ in 0..20 {
            let other = connect(&url).await;
            all.push(tokio::spawn(async move { other.batch_execute(queries[1]).await }));
        }
        for one in all {
            let error = one.await.unwrap().unwrap_err();
            assert_eq!(error.code().map(|code| code.code()), Some("53200"), "{error:?}");
        }
        // One row with texts that grow beyond the limit, in some sessions at once.
        let mut all = Vec::new();
        for call in ["concat", "concat_ws", "json_build_array", "concat"] {
            let (other, values) = (connect(&url).await, ["x"; 40].join(", "));
            let query = format!("select length({call}({values})::text) from (select repeat('a', 20000000) x) q");
            all.push(tokio::spawn(async move {
                for _ in 0..3 {
                    let error = other.batch_execute(&query).await.unwrap_err();
                    assert_eq!(error.code().map(|code| code.code()), Some("53200"), "{error:?}");
                }
            }));
        }
        for one in all {
            one.await.unwrap();
        }
        // The memory is full of rows that stay.
        let mut next = 0;
        let rows =
            |next| format!("insert into big select n, repeat('x', 400) from generate_series({next}, {next} + 19999) n");
        while client.batch_execute(&rows(next)).await.is_ok() {
            next += 20_000;
        }
        assert!(0 < next);
        refused(&client, "insert into small select n from generate_series(3, 10000000) n").await;
        assert_eq!(value(&client, "select id from small where id = 2").await, "2");
        assert_eq!(value(&client, "select count(*) from big").await, next.to_string());
        client
            .batch_execute("begin; delete from small where id = 2; commit; delete from big where id < 1000; drop table big")
            .await
            .unwrap();
        // Dropped memory is available for the next table.
        let again = "create table big as select n from generate_series(1, 100000) n";
        while client.batch_execute(again).await.is_err() {
            tokio::task::yield_now().await;
        }
    });
    let peak = peak_mb(process);
    assert!(peak <= RESIDENT_MB, "{peak} MB");
    let (status, log) = program.interrupted();
    assert!(status.success(), "{status} {log}");
}

/// Control group with a limit, which is removed when the value is dropped.
pub(crate) struct Group {
    folder: PathBuf,
    is_second_version: bool,
}

impl Group {
    /// Makes a group below this process's own group; returns nothing where that is not allowed.
    fn new(limit_mb: u64) -> Option<Group> {
        let own = fs::read_to_string("/proc/self/cgroup").ok()?;
        let name = format!("overtake-memory-{}", std::process::id());
        for line in own.lines() {
            let mut parts = line.splitn(3, ':').skip(1);
            let (controllers, path) = (parts.next()?, parts.next()?.trim_start_matches('/'));
            let (root, file, is_second_version) = match controllers {
                "" => ("/sys/fs/cgroup", "memory.max", true),
                "memory" => ("/sys/fs/cgroup/memory", "memory.limit_in_bytes", false),
                _ => continue,
            };
            let folder = PathBuf::from(root).join(path).join(&name);
            if fs::create_dir(&folder).is_err() {
                continue;
            }
            let group = Group { folder, is_second_version };
            if fs::write(group.folder.join(file), (limit_mb << 20).to_string()).is_ok() {
                return Some(group);
            }
        }
        None
    }

    /// Checks that nothing in the group, if there is one, was killed.
    pub(crate) fn has_lived(group: Option<&Group>) {
        assert_eq!(group.map_or(0, Group::killed), 0);
    }

    /// Returns the number of the group's processes that the kernel has killed.
    fn killed(&self) -> u64 {
        let file = if self.is_second_version { "memory.events" } else { "memory.oom_control" };
        let text = fs::read_to_string(self.folder.join(file)).unwrap();
        text.lines().find_map(|line| line.strip_prefix("oom_kill ")).unwrap().parse().unwrap()
    }
}

impl Drop for Group {
    fn drop(&mut self) {
        // The group is empty, as the server has ended. If not, there is nothing to be done.
        let _ = fs::remove_dir(&self.folder);
    }
}

pub(crate) const GROUP_MB: u64 = 700;
/// Resident size that is accepted after all tables have been dropped, in MB.
const LEFT_MB: u64 = 250;

/// Returns a server with the default limit in a control group of [`GROUP_MB`], or where there can be none, with the
/// limit that it would have.
pub(crate) fn in_a_group() -> (Option<Group>, Command) {
    let group = Group::new(GROUP_MB);
    let mut command = match &group {
        Some(group) => {
            let mut command = Command::new("sh");
            command.args(["-c", "echo $$ > \"$0\" && exec \"$@\""]).arg(group.folder.join("cgroup.procs"));
            command.arg(overtake().get_program()).env_remove("OVERTAKE_LOG");
            command
        }
        // The limit is that of the default.
        None => overtake(),
    };
    command.args(["serve", "--listen", "127.0.0.1:0"]);
    if group.is_none() {
        eprintln!("SKIPPED: no control group can be made here: the resident size alone is judged");
        command.args(["-c", &format!("overtake.memory={}MB", GROUP_MB / 3)]);
    }
    (group, command)
}

/// The default limit keeps a server alive in a control group of 700 MB: INSERT, COPY, sorts, windows, hash joins, aggregates and 100
/// sessions at once are done or refused with 53200, small statements of another session go on, and after DROP the memory goes
/// back to the system.
pub fn a_small_control_group_is_enough() {
    let (group, command) = in_a_group();
    let (mut program, url) = serve_by(command);
    let process = program.0.id();
    let told = |what: &str| {
        let (resident, peak) = (resident_mb(process), peak_mb(process));
        eprintln!("{what}: {resident} MB resident, {peak} MB at most");
        assert!(peak <= GROUP_MB, "{what}");
    };
    runtime().block_on(async {
        let client = connect(&url).await;
        told("start");
        client
            .batch_execute("create table small (id int primary key, n int); insert into small values (1, 0)")
            .await
            .unwrap();
        let small = SmallStatements::start(&url);
        client.batch_execute("create table twenty as select generate_series(1, 20) as k").await.unwrap();
        client.batch_execute("create table big (id bigint primary key, text text)").await.unwrap();
        let fill = "insert into big select n, repeat('x', 400) from generate_series(1, 10000000) n";
        refused(&client, fill).await;
        told("INSERT");
        is_refusal(&copy(&client).await, "COPY");
        told("COPY");
        let rows = "insert into big select n, repeat('x', 200) from generate_series(1, 250000) n";
        client.batch_execute(rows).await.unwrap();
        told("table of 250,000 rows");
        let wide = "select id, text || id::text as t from big cross join twenty";
        let queries = [
            ("sort", format!("select * from ({wide}) q order by t desc, id")),
            ("window", format!("select id, t, lag(t) over (order by t, id) from ({wide}) q")),
            (
                "hash join",
                format!(
                    "select count(*) from ({wide} offset 0) a join ({wide} offset 0) b on a.t = b.t and a.id = b.id + 1"
                ),
            ),
            ("groups", format!("select t, id, count(*), max(id) from ({wide}) q group by t, id")),
            ("array", format!("select array_agg(t order by t), string_agg(t, ',' order by t) from ({wide}) q")),
        ];
        for path in ["row", "auto"] {
            client.batch_execute(&format!("set overtake.path = {path}")).await.unwrap();
            for (what, query) in &queries {
                refused(&client, query).await;
                told(&format!("{what} ({path})"));
            }
        }
        client.batch_execute("reset overtake.path").await.unwrap();
        let mut sessions = Vec::new();
        for number in 0..100_usize {
            let other = connect(&url).await;
            let query = match number % 6 {
                5 => format!("create table t{number} as {wide}"),
                kind => queries[kind].1.clone(),
            };
            sessions
                .push(tokio::spawn(async move { other.batch_execute(&query).await.err().map(|error| (error, query)) }));
        }
        for session in sessions {
            if let Some((error, query)) = session.await.unwrap() {
                is_refusal(&error, &query);
            }
        }
        told("100 sessions");
        unfinished_messages(&url).await;
        told("unfinished messages");
        assert_eq!(value(&client, "select count(*) from big").await, "250000");
        client.batch_execute("delete from big where id % 2 = 0; drop table big").await.unwrap();
        while LEFT_MB < resident_mb(process) {
            client.batch_execute("select pg_sleep(0.01)").await.unwrap();
        }
        told("DROP");
        small.end(&client).await;
    });
    Group::has_lived(group.as_ref());
    let (status, log) = program.interrupted();
    assert!(status.success(), "{status} {log}");
}

/// Runs clients that send 50 MB of a query of 60 MB each. Most of them are refused for lack of memory.
async fn unfinished_messages(url: &str) {
    let address = url.rsplit_once('@').and_then(|(_, rest)| rest.split('/').next()).unwrap().to_owned();
    let mut clients = Vec::new();
    for _ in 0..20 {
        let mut client = tokio::net::TcpStream::connect(&address).await.unwrap();
        let parameters = b"\0\x03\0\0user\0postgres\0\0";
        client.write_all(&(parameters.len() as u32 + 4).to_be_bytes()).await.unwrap();
        client.write_all(parameters).await.unwrap();
        clients.push(tokio::spawn(async move {
            client.write_all(b"Q").await.unwrap();
            client.write_all(&(60_u32 << 20).to_be_bytes()).await.unwrap();
            let part = vec![b' '; 1 << 20];
            for _ in 0..50 {
                if client.write_all(&part).await.is_err() {
                    break;
                }
            }
            let mut told = vec![0; 16 << 10];
            let mut length = 0;
            // The log-in's answers come first; a server that waits for the rest of the message sends no more.
            let read = async {
                while let Ok(more @ 1..) = client.read(&mut told[length..]).await {
                    length += more;
                }
            };
            let _ = tokio::time::timeout(Duration::from_secs(2), read).await;
            (client, told[..length].windows(6).any(|window| window == b"C53200"))
        }));
    }
    let mut refused_count = 0;
    let mut open = Vec::new();
    for client in clients {
        let (client, is_refused) = client.await.unwrap();
        refused_count += usize::from(is_refused);
        open.push(client);
    }
    assert!(0 < refused_count, "nobody was refused");
    eprintln!("{refused_count} of {} unfinished messages were refused", open.len());
}

/// Session beside, with its table `small`.
pub(crate) struct SmallStatements {
    stop: tokio::sync::oneshot::Sender<()>,
    updates: tokio::task::JoinHandle<u64>,
}

impl SmallStatements {
    pub(crate) fn start(url: &str) -> SmallStatements {
        let (stop, stopped) = tokio::sync::oneshot::channel();
        SmallStatements { stop, updates: tokio::spawn(small_statements(url.to_owned(), stopped)) }
    }

    /// Stops the session, and checks that each update that was answered is there.
    pub(crate) async fn end(self, client: &Client) {
        self.stop.send(()).unwrap();
        let updates = self.updates.await.unwrap();
        assert_eq!(value(client, "select n from small").await, updates.to_string());
        eprintln!("{updates} small updates meanwhile");
    }
}

/// Reads and updates a row until it is told to stop; reads never fail, and updates are only refused for memory. Returns
/// the number of updates.
async fn small_statements(url: String, mut stopped: tokio::sync::oneshot::Receiver<()>) -> u64 {
    let client = connect(&url).await;
    let mut count = 0;
    while stopped.try_recv().is_err() {
        client.batch_execute("select n from small where id = 1").await.unwrap();
        match client.batch_execute("update small set n = n + 1 where id = 1").await {
            Ok(()) => count += 1,
            Err(error) => is_refusal(&error, "update"),
        }
        client.batch_execute("select pg_sleep(0.01)").await.unwrap();
    }
    count
}

/// Copies rows until one is refused, and returns the error.
async fn copy(client: &Client) -> tokio_postgres::Error {
    let sink: CopyInSink<bytes::Bytes> = client.copy_in("copy big from stdin").await.unwrap();
    let mut sink = pin!(sink);
    for number in 0..10_000_u64 {
        let line = |at| format!("{}\t{}\n", number * 1000 + at, "y".repeat(400));
        let lines: String = (0..1000).map(line).collect();
        if let Err(error) = sink.send(lines.into()).await {
            return error;
        }
    }
    sink.finish().await.expect_err("4 GB do not fit")
}

/// Goal: at least nine tenths of the memory that the allocator has given out have an owner: rows, garbage and indexes
/// of tables; results, sorts, windows and hash tables of sessions, on both paths, while they run.
pub fn nine_tenths_of_the_memory_are_somebodys() {
    let (mut program, url) = serve(&["-c", "overtake.memory=1GB"]);
    runtime().block_on(async {
        let client = connect(&url).await;
        client
            .batch_execute(
                "create table small (id int primary key); \
                 create table big (id bigint primary key, n numeric, text text, at timestamptz); \
                 create index by_text on big (text); \
                 insert into big select n, n / 7.0, 'text number ' || n, now() from generate_series(1, 800000) n",
            )
            .await
            .unwrap();
        // A session that reads the old rows holds them.
        let reader = connect(&url).await;
        reader.batch_execute("begin isolation level repeatable read; select count(*) from big").await.unwrap();
        client.batch_execute("update big set n = n + 1 where id <= 50000").await.unwrap();
        let part = |part: &str| format!("select bytes from overtake.memory where name like '%big' and part = '{part}'");
        for one in ["rows", "garbage", "indexes"] {
            let bytes: u64 = value(&client, &part(one)).await.parse().unwrap();
            assert!(2 << 20 < bytes, "{one}: {bytes}");
        }
        let share = "select (100 * sum(bytes) filter (where kind <> 'others') / sum(bytes))::int from overtake.memory";
        let all = "select string_agg(concat_ws(' ', kind, name, pid, part, bytes), ', ') from overtake.memory";
        let is_attributed = async |what: &str| {
            let share: u64 = value(&client, share).await.parse().unwrap();
            eprintln!("{what}: {share} %");
            90 <= share
        };
        assert!(is_attributed("tables").await, "{}", value(&client, all).await);
        client.batch_execute("create table thousand as select generate_series(1, 1000) as k").await.unwrap();
        // Twice what belongs to nobody while no query runs.
        let others_max = 2 * value(&client, OTHERS).await.parse::<u64>().unwrap();
        let wide = "select n, repeat('x', 100) || n as t from generate_series(1, 100000000) n";
        let from_table = "select id + k * 1000000 as n, text || k as t from big cross join thousand";
        // What is volatile, or may fail at some row as analytics, is kept as a whole.
        let kept = format!("select q.*, random() from ({wide}) q");
        for (path, wide, kept) in [("row", wide, &*kept), ("analytics", from_table, from_table)] {
            for (of, query) in [
                ("results", kept.to_owned()),
                ("sorts", format!("select * from ({wide}) q order by t desc, n")),
                ("windows", format!("select n, t, max(t) over (order by n % 10) from ({wide}) q")),
                ("hash tables", format!("select t, count(*) from ({wide}) q group by t")),
                ("hash tables", format!("select count(*) from ({wide}) a join ({wide}) b on a.n = b.n")),
            ] {
                // Windows run by rows. Hash tables of analytics grow from little to a refusal between two looks.
                if path == "analytics" && matches!(of, "windows" | "hash tables") {
                    continue;
                }
                let other = connect(&url).await;
                let pid = value(&other, "select pg_backend_pid()").await;
                other.batch_execute(&format!("set overtake.path = {path}")).await.unwrap();
                let cancel = other.cancel_token();
                let running = tokio::spawn(async move { other.batch_execute(&query).await });
                let used =
                    format!("select coalesce(sum(bytes), 0) from overtake.memory where pid = {pid} and part = '{of}'");
                loop {
                    let bytes: u64 = value(&client, &used).await.parse().unwrap();
                    if 100 << 20 < bytes && is_attributed(&format!("{of} ({path})")).await {
                        break;
                    }
                    assert!(!running.is_finished(), "{of} ({path}): {:?} {}", running.await, value(&client, all).await);
                }
                cancel.cancel_query(tokio_postgres::NoTls).await.unwrap();
                let _ = running.await.unwrap();
                // What the query held is nobody's until it is freed, and must not be counted with the next.
                while others_max < value(&client, OTHERS).await.parse().unwrap() {
                    tokio::task::yield_now().await;
                }
            }
        }
        reader.batch_execute("commit").await.unwrap();
        // Garbage from before must not be counted with the next.
        let garbage = "select coalesce(sum(bytes), 0) > 1000000 from overtake.memory where part = 'garbage'";
        // The freezer's work must not be counted either: sealed, the rows need two thirds of their present memory.
        let hot = "select bytes > 80000000 from overtake.memory where name = 'big' and part = 'rows'";
        for is_there in [garbage, hot] {
            while value(&client, is_there).await == "t" {
                tokio::task::yield_now().await;
            }
        }
        // Memory that a session keeps between two statements.
        let savepoints: String = (0..10_000).map(|at| format!("savepoint s{};", at % 100)).collect();
        let locks = "select count(pg_advisory_lock(n)) from generate_series(1, 400000) n; select 1".to_owned();
        for (part, begin, keep, times) in
            [("transaction", "begin", savepoints, 20), ("advisory locks", "select 1", locks, 1)]
        {
            let other = connect(&url).await;
            let pid = value(&other, "select pg_backend_pid()").await;
            other.batch_execute(begin).await.unwrap();
            let before: u64 = value(&client, OTHERS).await.parse().unwrap();
            for _ in 0..times {
                other.batch_execute(&keep).await.unwrap();
            }
            let used =
                format!("select coalesce(sum(bytes), 0) from overtake.memory where pid = {pid} and part = '{part}'");
            let bytes: u64 = value(&client, &used).await.parse().unwrap();
            assert!(10 << 20 < bytes, "{part}: {bytes}");
            let settles = async |what: &str| {
                let since = Instant::now();
                loop {
                    let after: u64 = value(&client, OTHERS).await.parse().unwrap();
                    if 9 * after.saturating_sub(before) <= bytes {
                        break eprintln!(
                            "{part}, {what}: {bytes} bytes, others {before} bytes before and {after} after"
                        );
                    }
                    assert!(since.elapsed() < Duration::from_secs(30), "{}", value(&client, all).await);
                }
            };
            settles("while they are held").await;
            drop(other);
            while value(&client, &format!("select count(*) from pg_stat_activity where pid = {pid}")).await != "0" {
                tokio::task::yield_now().await;
            }
            settles("when their session is gone").await;
        }
    });
    let (status, log) = program.interrupted();
    assert!(status.success(), "{status} {log}");
}
