//! Goal: events around the server do not end it: SIGHUP, a standard output or error that is gone. Method: `overtake
//! serve` as a child, an ordinary driver, signals.

use crate::{Program, overtake, run, text};
use std::fs::{self, File};
use std::io::{BufRead, BufReader};
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::thread::{self, JoinHandle};
use std::time::Duration;
use tokio::runtime::Runtime;
use tokio_postgres::{Client, NoTls, SimpleQueryMessage};

/// Starts a server as a child, and returns the URL that it printed, too.
pub fn serve(arguments: &[&str]) -> (Program, String) {
    let mut command = overtake();
    command.args(["serve", "--listen", "127.0.0.1:0"]).args(arguments);
    serve_by(command)
}

/// Starts a server by an existing command, and returns the URL that it printed, too.
pub fn serve_by(mut command: Command) -> (Program, String) {
    let mut program = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().map(Program).unwrap();
    let lines = BufReader::new(program.0.stdout.take().unwrap()).lines().map_while(Result::ok);
    let url = lines.filter_map(|line| Some(line.trim().strip_prefix("psql \"")?.split('"').next()?.to_owned())).next();
    (program, url.unwrap())
}

pub fn runtime() -> Runtime {
    tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap()
}

pub async fn connect(url: &str) -> Client {
    let (client, connection) = tokio_postgres::connect(url, NoTls).await.unwrap();
    tokio::spawn(connection);
    client
}

/// Returns the first value of the first row.
pub async fn value(client: &Client, query: &str) -> String {
    let messages = client.simple_query(query).await.unwrap_or_else(|error| panic!("{query}: {error:?}"));
    let first = messages.iter().find_map(|message| match message {
        SimpleQueryMessage::Row(row) => row.get(0).map(str::to_owned),
        _ => None,
    });
    first.unwrap_or_else(|| panic!("{query}: no row"))
}

fn hang_up(program: &Program) {
    let sent = Command::new("kill").args(["-HUP", &program.0.id().to_string()]).status().unwrap();
    assert!(sent.success());
}

/// Goal: SIGHUP reloads the file: sessions follow between transactions, keep the values that they have set, and the
/// data stay.
pub fn a_hangup_reloads_the_settings() {
    let folder = testkit::folder("reload");
    let file = folder.path().join("overtake.conf");
    fs::write(&file, "statement_timeout = 11s\nlock_timeout = 5s\n").unwrap();
    let (mut program, url) = serve(&["--config", file.to_str().unwrap(), "-c", "idle_session_timeout=1h"]);
    runtime().block_on(async {
        let client = connect(&url).await;
        client
            .batch_execute("create table kept (id int); insert into kept values (7); set lock_timeout = '9s'")
            .await
            .unwrap();
        assert_eq!(value(&client, "show statement_timeout").await, "11s");
        let busy = connect(&url).await;
        busy.batch_execute("begin").await.unwrap();
        fs::write(
            &file,
            "statement_timeout = 12s\nlock_timeout = 6s\nmax_connections = 7\nidle_session_timeout = 2h\n",
        )
        .unwrap();
        hang_up(&program);
        while value(&client, "show statement_timeout").await != "12s" {
            tokio::task::yield_now().await;
        }
        assert_eq!(value(&busy, "show statement_timeout").await, "11s", "inside a block nothing changes");
        busy.batch_execute("commit").await.unwrap();
        assert_eq!(value(&busy, "show statement_timeout").await, "12s");
        assert_eq!(value(&client, "show lock_timeout").await, "9s", "the session has set it");
        client.batch_execute("reset lock_timeout").await.unwrap();
        assert_eq!(value(&client, "show lock_timeout").await, "6s");
        assert_eq!(value(&client, "show idle_session_timeout").await, "1h", "a flag counts more than the file");
        let fresh = connect(&url).await;
        assert_eq!(value(&fresh, "show statement_timeout").await, "12s");
        // Settings that cannot be used change nothing.
        fs::write(&file, "statement_timeout = soon\nlock_timeout = 1s\n").unwrap();
        hang_up(&program);
        assert_eq!(value(&fresh, "select id from kept").await, "7");
    });
    let (status, log) = program.interrupted();
    assert!(status.success(), "{status} {log}");
    assert!(log.contains("parameter \"max_connections\" cannot be changed without restarting the server"), "{log}");
    assert!(log.contains("the settings stay as they were"), "{log}");
}

/// Goal: a report ends well when its reader goes, and names the disk that is full; its files are written.
pub fn a_report_survives_a_closed_pipe_and_a_full_disk() {
    let arguments = ["mpl", "throughput", "--demand", "1,1", "--think", "0", "--mpl", "1..10"];
    let folder = testkit::folder("pipe");
    let json = folder.path().join("report.json");
    for (name, status, why) in [("closed pipe", 0, ""), ("/dev/full", 1, "cannot write to standard output")] {
        let mut command = overtake();
        command.args(arguments).arg("--json").arg(&json).stderr(Stdio::piped());
        let output = match name {
            "/dev/full" => command.stdout(File::options().write(true).open(name).unwrap()).output().unwrap(),
            _ => {
                let (reader, writer) = std::io::pipe().unwrap();
                drop(reader);
                command.stdout(writer).output().unwrap()
            }
        };
        assert_eq!(output.status.code(), Some(status), "{name}: {}", text(&output.stderr));
        assert!(text(&output.stderr).contains(why) && !text(&output.stderr).contains("panicked"), "{name}");
        assert!(fs::read_to_string(&json).unwrap().contains("\"figures\""), "{name}");
        fs::remove_file(&json).unwrap();
    }
    // An error message has no reader, either.
    let mut wrong = overtake();
    wrong.args(["mpl", "throughput", "--demand", "1", "--mpl", "0"]);
    let expected = run(&["mpl", "throughput", "--demand", "1", "--mpl", "0"]).status.code();
    let status = wrong.stderr(File::options().write(true).open("/dev/full").unwrap()).status().unwrap();
    assert_eq!(status.code(), expected);
}

/// Goal: a server whose log and output are on a full disk serves all the same.
pub fn a_server_outlives_its_output() {
    let scratch = testkit::folder("full");
    let directory = scratch.path();
    let full = || File::options().write(true).open("/dev/full").unwrap();
    let mut command = overtake();
    command.args(["serve", "--listen", "127.0.0.1:0", "--socket", directory.to_str().unwrap()]);
    command.args(["-c", "log_min_duration_statement=0"]).stdout(full()).stderr(full());
    let mut program = command.spawn().map(Program).unwrap();
    let socket = loop {
        let mut entries =
            fs::read_dir(directory).unwrap().map(|entry| entry.unwrap().file_name().into_string().unwrap());
        match entries.find(|name| !name.ends_with(".lock")) {
            Some(name) => break name,
            None => assert!(program.0.try_wait().unwrap().is_none(), "it has ended"),
        }
        std::thread::yield_now();
    };
    let port = socket.rsplit('.').next().unwrap();
    let url = format!("host={} port={port} user=postgres dbname=postgres", directory.display());
    runtime().block_on(async {
        // The name exists from bind() on, connections are accepted from listen() on.
        let client = loop {
            match tokio_postgres::connect(&url, NoTls).await {
                Ok((client, connection)) => {
                    tokio::spawn(connection);
                    break client;
                }
                Err(error) => assert!(program.0.try_wait().unwrap().is_none(), "it has ended: {error}"),
            }
        };
        assert_eq!(value(&client, "select 1").await, "1");
        hang_up(&program);
        assert_eq!(value(&client, "select 2").await, "2");
    });
    let sent = Command::new("kill").args(["-TERM", &program.0.id().to_string()]).status().unwrap();
    assert!(sent.success() && program.0.wait().unwrap().success());
}

/// Statements that would run for minutes: row by row, and as analytics.
const BUSY: [&str; 2] = [
    "set overtake.path = row; select count(*) from generate_series(1, 100000) a, generate_series(1, 100000) b where a.a = -b.b",
    "set overtake.path = analytics; select count(*) from kept a, kept b, kept c where a.id + b.id + c.id = -1",
];

/// Starts each of the statements in a session of its own, and waits until all run. The tasks return the SQLSTATEs of
/// their ends.
async fn busy(url: &str) -> Vec<tokio::task::JoinHandle<String>> {
    let watcher = connect(url).await;
    watcher
        .batch_execute("create table kept (id int); insert into kept select generate_series(1, 20000)")
        .await
        .unwrap();
    let mut ends = Vec::new();
    for text in BUSY {
        let client = connect(url).await;
        let run = async move {
            let error = client.batch_execute(text).await.unwrap_err();
            error.code().map_or_else(|| format!("{error:?}"), |state| state.code().to_owned())
        };
        ends.push(tokio::spawn(run));
    }
    let count = "select count(*) from overtake.activity where query like 'select count(*) from%' and state <> 'idle' \
                 and pid <> pg_backend_pid()";
    while value(&watcher, count).await != "2" {
        tokio::task::yield_now().await;
    }
    ends
}

/// Goal: with SIGTERM during statements, their clients receive 57P01, and the process ends within its grace period.
pub fn a_termination_ends_busy_statements() {
    let (mut program, url) = serve(&["-c", "overtake.shutdown_grace=60s"]);
    let states = runtime().block_on(async {
        let ends = busy(&url).await;
        let sent = Command::new("kill").args(["-TERM", &program.0.id().to_string()]).status().unwrap();
        assert!(sent.success());
        let mut states = Vec::new();
        for end in ends {
            states.push(end.await.unwrap());
        }
        states
    });
    assert_eq!(states, ["57P01", "57P01"]);
    assert!(program.0.wait().unwrap().success());
}

/// Goal: an administrator ends sessions at work, and the own one: 57P01, not 57014.
pub fn a_terminated_session_hears_57p01() {
    let (mut program, url) = serve(&[]);
    runtime().block_on(async {
        let ends = busy(&url).await;
        let admin = connect(&url).await;
        let others = "select count(pg_terminate_backend(pid)) from overtake.activity where query like 'select count(*) from%' \
                      and state <> 'idle' and pid <> pg_backend_pid()";
        assert_eq!(value(&admin, others).await, "2");
        for end in ends {
            assert_eq!(end.await.unwrap(), "57P01");
        }
        let error = admin.simple_query("select pg_terminate_backend(pg_backend_pid())").await.unwrap_err();
        assert_eq!(error.code().map(|state| state.code()), Some("57P01"), "{error:?}");
    });
    let (status, log) = program.interrupted();
    assert!(status.success(), "{status} {log}");
}

/// Ordinary threads that keep all processors busy, until they are dropped.
struct Burners(Arc<AtomicBool>, Vec<JoinHandle<()>>);

impl Burners {
    fn start() -> Burners {
        let is_over = Arc::<AtomicBool>::default();
        let burn = |_| {
            let is_over = is_over.clone();
            thread::spawn(move || while !is_over.load(Relaxed) {})
        };
        let threads = (0..thread::available_parallelism().unwrap().get()).map(burn).collect();
        Burners(is_over, threads)
    }
}

impl Drop for Burners {
    fn drop(&mut self) {
        self.0.store(true, Relaxed);
        self.1.drain(..).for_each(|thread| thread.join().unwrap());
    }
}

/// Query that takes some tenths of a second of one processor.
const LONG: &str = "select count(*) from generate_series(1, 2000000) as g where g % 7 = 3";

/// Goal: beside programs that keep all processors busy, a long query by rows stands still, and the server reports it.
pub fn long_queries_say_that_they_get_no_processor() {
    let (mut program, url) = serve(&["-c", "overtake.path=row"]);
    runtime().block_on(async {
        let (client, admin) = (connect(&url).await, connect(&url).await);
        // From now on the query is known to take long.
        value(&client, LONG).await;
        let burners = Burners::start();
        let query = tokio::spawn(async move { value(&client, LONG).await });
        let starved =
            "select count(*) from overtake.activity where state = 'starved' and query like '%generate_series(%'
                       and pid <> pg_backend_pid()";
        while value(&admin, starved).await != "1" {
            assert!(!query.is_finished(), "it had a processor");
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
        drop(burners);
        assert_eq!(query.await.unwrap(), "285714");
    });
    let (status, log) = program.interrupted();
    assert!(status.success() && log.contains("long queries by rows get no processor"), "{status} {log}");
}

/// Goal: with ordinary threads a long query competes with those programs.
pub fn long_queries_on_ordinary_threads_get_a_processor() {
    let (_program, url) = serve(&["-c", "overtake.path=row", "-c", "overtake.analytics_threads=ordinary"]);
    runtime().block_on(async {
        let client = connect(&url).await;
        value(&client, LONG).await;
        let _burners = Burners::start();
        // With the remaining time of a thread of SCHED_IDLE the query takes minutes.
        client.batch_execute("set statement_timeout = '20s'").await.unwrap();
        assert_eq!(value(&client, LONG).await, "285714");
    });
}

/// Goal: where AF_XDP would cut clients off, the log says so in one line, and they come by the kernel's TCP.
pub fn a_loopback_interface_is_served_by_tcp() {
    for xdp in ["lo", "lo:9"] {
        let (mut program, url) = serve(&["--xdp", xdp]);
        runtime().block_on(async { assert_eq!(value(&connect(&url).await, "select 6 * 7").await, "42") });
        let (status, log) = program.interrupted();
        assert!(status.success(), "{status} {log}");
        let expected = "AF_XDP cannot be used; clients come by the kernel's TCP only error=interface \"lo\": segments \
                        on a loopback interface have no checksums, so none would be taken";
        let lines: Vec<&str> = log.lines().filter(|line| line.contains("AF_XDP")).collect();
        assert!(matches!(lines[..], [line] if line.contains(expected)), "{log}");
    }
    let output = run(&["serve", "--xdp", "lo 127.0.0.1:0"]);
    assert_eq!(output.status.code(), Some(2));
    assert!(text(&output.stderr).contains("\"lo 127.0.0.1:0\": port 0 is not supported"), "{}", text(&output.stderr));
}
