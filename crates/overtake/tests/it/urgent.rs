//! Goal: calls of urgent procedures interrupt queries that run WebAssembly, by signal, and neither gets a wrong answer,
//! though calls trap and exceed their time. Method: a server whose workers all compute by stored functions; clients of
//! class high whose calls count up rows, crash, and hang. `OVERTAKE_URGENT_CALLS` sets the number of calls.

use crate::procedures::proc;
use crate::serve::{connect, runtime, serve, value};
use crate::text;
use std::fs;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::SeqCst};
use std::time::Duration;

/// Variable with the number of calls.
const COUNT: &str = "OVERTAKE_URGENT_CALLS";
/// Number of calls without it.
const COUNT_USUAL: u64 = 4_000;
/// Number of clients that call.
const CLIENTS: u64 = 4;
/// Number of rows that calls change.
const ROWS: u64 = 50;

const NUMBERS: &str = "
use guest::{Call, Result, module};

module! {
    entries { mixed; }
}

fn mixed(call: &mut Call) -> Result<i64> {
    let number = call.argument::<i64>(0)?;
    Ok((0..20).fold(number, |mixed, _| mixed.wrapping_mul(6364136223846793005).wrapping_add(1) >> 1) & 1023)
}
";

const COUNTERS: &str = "
use guest::{Call, Error, Result, module};

module! {
    tables { COUNTER: \"counter\" (id, v); }
    entries { touch; crashes; hangs; raises; }
}

fn touch(call: &mut Call) -> Result<i64> {
    let id = call.argument::<i32>(0)?;
    let row = call.get_for_update(COUNTER, id)?.ok_or_else(|| Error::new(\"P0002\", \"no such counter\"))?;
    let v = row.get::<i64>(1)? + 1;
    call.put(COUNTER, (id, v))?;
    Ok(v)
}

fn crashes(call: &mut Call) -> Result<()> {
    let id = call.argument::<i32>(0)?;
    call.put(COUNTER, (id, -1_000_000_i64))?;
    panic!(\"on purpose\")
}

fn hangs(call: &mut Call) -> Result<()> {
    let id = call.argument::<i32>(0)?;
    call.put(COUNTER, (id, -1_000_000_i64))?;
    loop {
        std::hint::black_box(id);
    }
}

fn raises(call: &mut Call) -> Result<()> {
    let id = call.argument::<i32>(0)?;
    call.put(COUNTER, (id, -1_000_000_i64))?;
    Err(Error::new(\"P0001\", \"on purpose\"))
}
";

/// Writes a project and deploys it at the level `wasm`.
fn deploy(folder: &Path, name: &str, source: &str, procedures: &str, url: &str) {
    let directory = folder.join(name);
    let output = proc(&["new", "--language", "rust"], &directory);
    assert!(output.status.success(), "{}", text(&output.stderr));
    fs::write(directory.join("src/main.rs"), source).unwrap();
    fs::write(directory.join("procedures.sql"), procedures).unwrap();
    let output = proc(&["deploy", "--url", url], &directory);
    assert!(output.status.success(), "{}{}", text(&output.stdout), text(&output.stderr));
}

/// Runs a query again and again, and compares its answer. Returns the number of runs.
async fn computes(url: String, expected: String, is_over: Arc<AtomicBool>) -> u64 {
    let client = connect(&url).await;
    client.batch_execute("set overtake.path = analytics").await.unwrap();
    let mut runs = 0;
    while !is_over.load(SeqCst) {
        assert_eq!(value(&client, QUERY).await, expected, "an interrupted query");
        runs += 1;
    }
    runs
}

const QUERY: &str = "select sum(mixed(n) * (1 + n % 3)) from big";

/// Makes calls until so many were made. Returns the number of those that have counted.
async fn calls(url: String, number: u64, made: Arc<AtomicU64>, wanted: u64) -> u64 {
    let client = connect(&url).await;
    client.batch_execute("set overtake.priority = high").await.unwrap();
    let prepare = async |text: &str| client.prepare(text).await.unwrap();
    let touch = prepare("call touch($1, null)").await;
    let failing = [
        (prepare("call crashes($1)").await, "38000"),
        (prepare("call hangs($1)").await, "57014"),
        (prepare("call raises($1)").await, "P0001"),
    ];
    let (mut counted, mut at) = (0, number * 1_000);
    while made.fetch_add(1, SeqCst) < wanted {
        at += 1;
        let id = (at * 7 % ROWS) as i32 + 1;
        // A hang takes milliseconds, so there are few of them.
        let failing = match at % 100 {
            3 | 23 | 43 | 63 | 83 => Some(&failing[0]),
            50 => Some(&failing[1]),
            8 | 28 | 48 | 68 | 88 => Some(&failing[2]),
            _ => None,
        };
        match failing {
            Some((call, state)) => {
                let error = client.execute(call, &[&id]).await.expect_err("it fails");
                assert_eq!(error.code().map(|code| code.code()), Some(*state), "{error:?}");
            }
            None => {
                let row = client.query_one(&touch, &[&id]).await.unwrap_or_else(|error| panic!("{error:?}"));
                assert!(0 < row.get::<_, i64>(0));
                counted += 1;
            }
        }
    }
    counted
}

pub fn urgent_calls_interrupt_queries_that_run_webassembly() {
    let wanted = std::env::var(COUNT).map_or(COUNT_USUAL, |count| count.parse().unwrap());
    let (_program, url) = serve(&["-c", "overtake.analytics_threads=ordinary"]);
    let folder = testkit::folder("urgent");
    runtime().block_on(async {
        let client = connect(&url).await;
        client
            .batch_execute(&format!(
                "create table counter (id int primary key, v bigint not null);
                 insert into counter select n, 0 from generate_series(1, {ROWS}) n;
                 create table big (n bigint primary key);
                 insert into big select n from generate_series(1, 100000) n"
            ))
            .await
            .unwrap();
        let function =
            "CREATE FUNCTION mixed(n bigint) RETURNS bigint LANGUAGE wasm IMMUTABLE STRICT AS 'numbers', 'mixed';";
        deploy(folder.path(), "numbers", NUMBERS, function, &url);
        let procedures = "
            CREATE PROCEDURE touch(id int, OUT v bigint) LANGUAGE wasm SET (urgent = true) AS 'counters', 'touch';
            CREATE PROCEDURE crashes(id int) LANGUAGE wasm SET (urgent = true) AS 'counters', 'crashes';
            CREATE PROCEDURE hangs(id int) LANGUAGE wasm SET (urgent = true, time_limit = '2ms') AS 'counters', 'hangs';
            CREATE PROCEDURE raises(id int) LANGUAGE wasm SET (urgent = true) AS 'counters', 'raises';";
        deploy(folder.path(), "counters", COUNTERS, procedures, &url);
        client.batch_execute("set overtake.path = row").await.unwrap();
        let expected = value(&client, QUERY).await;
        let (is_over, made) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicU64::new(0)));
        let busy: Vec<_> =
            (0..4).map(|_| tokio::spawn(computes(url.clone(), expected.clone(), Arc::clone(&is_over)))).collect();
        tokio::time::sleep(Duration::from_millis(500)).await;
        let callers: Vec<_> =
            (0..CLIENTS).map(|number| tokio::spawn(calls(url.clone(), number, Arc::clone(&made), wanted))).collect();
        let mut counted = 0;
        for caller in callers {
            counted += caller.await.unwrap();
        }
        is_over.store(true, SeqCst);
        let mut runs = 0;
        for session in busy {
            runs += session.await.unwrap();
        }
        assert_eq!(value(&client, "select sum(v)::bigint from counter").await, counted.to_string());
        assert_eq!(value(&client, "select count(*) from counter where v < 0").await, "0");
        let figures = "select urgent_calls || ' ' || urgent_interrupting || ' ' || urgent_claimed from \
                       overtake.scheduler where class = 'normal'";
        let figures = value(&client, figures).await;
        println!("{runs} queries; urgent calls, interrupting, claimed: {figures}");
        let [calls, interrupting, _] =
            figures.split(' ').map(|figure| figure.parse::<u64>().unwrap()).collect::<Vec<_>>()[..]
        else {
            panic!("{figures}");
        };
        // A call goes to a worker that runs on another processor, and is made where it was read if none does.
        let is_possible = 1 < std::thread::available_parallelism().unwrap().get();
        assert!(0 < runs && (!is_possible || 0 < calls && calls / 4 < interrupting), "{runs} queries; {figures}");
    });
}
