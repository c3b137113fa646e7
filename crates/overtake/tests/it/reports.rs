//! Goal: a report over the wire runs as analytics, and an event that ends it ends it at once, while urgent statements
//! go on. Method: this binary's `serve` as a child, an ordinary driver, a table of 100,000 rows, and a report that
//! would take minutes.

use crate::{Program, overtake};
use std::io::{BufRead, BufReader};
use std::process::Stdio;
use std::time::{Duration, Instant};
use tokio::runtime::Runtime;
use tokio::task::JoinHandle;
use tokio_postgres::{Client, Error, NoTls, SimpleQueryMessage};

/// Running server.
struct Served {
    _program: Program,
    url: String,
    runtime: Runtime,
}

/// Query that joins every row with every other one of its residue: 10^9 pairs, of which none is counted by the index.
const LONG: &str = "select count(*) from t a join t b on a.n = b.n where a.id + b.id < 0";
const ROWS: u32 = 100_000;
/// Time within which an immediate effect has happened, on a machine that does much else, too.
const WITHIN: Duration = Duration::from_secs(60);

impl Served {
    fn start(settings: &[&str]) -> Served {
        let mut command = overtake();
        command.args(["serve", "--listen", "127.0.0.1:0"]).args(settings.iter().flat_map(|one| ["-c", one]));
        let mut program = command.stdout(Stdio::piped()).stderr(Stdio::null()).spawn().map(Program).unwrap();
        let lines = BufReader::new(program.0.stdout.take().unwrap()).lines();
        let url = lines.map_while(Result::ok).find_map(|line| {
            let url = line.trim().strip_prefix("psql \"")?.strip_suffix('"')?;
            Some(url.to_owned())
        });
        let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap();
        let served = Served { _program: program, url: url.unwrap(), runtime };
        let client = served.connect();
        let insert = format!("insert into t select i, i % 10 from generate_series(1, {ROWS}) g(i)");
        served.run(&client, "create table t (id int primary key, n int)").unwrap();
        served.run(&client, &insert).unwrap();
        served
    }

    fn connect(&self) -> Client {
        self.connect_and_hold().0
    }

    /// Connects, and returns the task that keeps the connection, too: a driver that has a query under way does not
    /// close it when its client goes.
    fn connect_and_hold(&self) -> (Client, JoinHandle<Result<(), Error>>) {
        self.runtime.block_on(async {
            let (client, connection) = tokio_postgres::connect(&self.url, NoTls).await.unwrap();
            (client, tokio::spawn(connection))
        })
    }

    fn run(&self, client: &Client, text: &str) -> Result<Vec<String>, Error> {
        self.runtime.block_on(rows(client, text))
    }

    /// Waits until no query runs as analytics, abandoned ones included: where one may run at a time, the next one has
    /// its turn when the last is gone.
    fn wait_until_idle(&self, client: &Client) {
        let next = "begin; set local overtake.priority = normal; set local overtake.path = analytics; select count(*) from t; commit";
        let answer = self.runtime.block_on(async { tokio::time::timeout(WITHIN, rows(client, next)).await });
        assert_eq!(answer.expect("a query goes on that nobody waits for").unwrap(), [ROWS.to_string()]);
    }
}

/// Waits until this many queries of the class normal run, and this many wait for their turn.
async fn until_there_are(client: &Client, running: &str, waiting: &str) {
    let queues = "select running, waiting from overtake.scheduler where class = 'normal'";
    let is_so = |message: &SimpleQueryMessage| match message {
        SimpleQueryMessage::Row(row) => (row.get(0), row.get(1)) == (Some(running), Some(waiting)),
        _ => false,
    };
    while !client.simple_query(queues).await.unwrap().iter().any(is_so) {}
}

async fn rows(client: &Client, text: &str) -> Result<Vec<String>, Error> {
    let messages = client.simple_query(text).await?;
    let row = |message: SimpleQueryMessage| match message {
        SimpleQueryMessage::Row(row) => row.get(0).map(str::to_owned),
        _ => None,
    };
    Ok(messages.into_iter().filter_map(row).collect())
}

fn state(error: &Error) -> (&str, &str) {
    let error = error.as_db_error().unwrap_or_else(|| panic!("{error:?}"));
    (error.code().code(), error.message())
}

pub fn a_report_takes_the_analytics_path() {
    let served = Served::start(&[]);
    let client = served.connect();
    let query = "select n, count(*), sum(id) from t where n >= 0 group by n order by n";
    let plan = served.run(&client, &format!("explain {query}")).unwrap();
    assert!(
        plan.contains(&"Path: analytics".to_owned()) && plan.iter().any(|line| line.contains("TableScan")),
        "{plan:?}"
    );
    let expected: Vec<String> = (0..10).map(|n| n.to_string()).collect();
    assert_eq!(served.run(&client, query).unwrap(), expected);
    let report = served.run(&client, &format!("explain analyze {query}")).unwrap().join("\n");
    let read: u64 = ["Rows Read in Place: ", "Rows Copied: "]
        .iter()
        .map(|name| report.split(name).nth(1).unwrap().lines().next().unwrap().parse::<u64>().unwrap())
        .sum();
    assert_eq!(read, u64::from(ROWS), "{report}");
    for stage in ["Queue: ", "Lowering: ", "Run: ", "Rows: ", "Execution Time: "] {
        assert!(report.contains(stage), "{stage} is not in {report}");
    }
    // By rows the answer is the same.
    let sum = "select sum(id) from t where n = 3";
    let by_analytics = served.run(&client, sum).unwrap();
    served.run(&client, "set overtake.path = row").unwrap();
    assert_eq!(served.run(&client, sum).unwrap(), by_analytics);
    // A transaction sees its own changes there.
    served.run(&client, "reset overtake.path; begin; delete from t where n = 3").unwrap();
    assert_eq!(served.run(&client, "select count(*) from t").unwrap(), ["90000"]);
    served.run(&client, "rollback").unwrap();
}

pub fn whatever_ends_a_report_ends_it_at_once() {
    let served = Served::start(&["overtake.analytics_queries=1"]);
    let ((client, connection), other) = (served.connect_and_hold(), served.connect());
    // End by a cancel request.
    let token = client.cancel_token();
    let (took, error) = served.runtime.block_on(async {
        let report = rows(&client, LONG);
        let cancel = async {
            until_there_are(&other, "1", "0").await;
            let asked = Instant::now();
            token.cancel_query(NoTls).await.unwrap();
            asked
        };
        let (result, asked) = tokio::join!(report, cancel);
        (asked.elapsed(), result.unwrap_err())
    });
    assert_eq!(state(&error), ("57014", "canceling statement due to user request"));
    assert!(took < WITHIN, "the cancel took {took:?}");
    served.wait_until_idle(&other);
    // End by the statement's timeout.
    served.run(&client, "set statement_timeout = '200ms'").unwrap();
    let begun = Instant::now();
    let error = served.run(&client, LONG).unwrap_err();
    assert_eq!(state(&error), ("57014", "canceling statement due to statement timeout"));
    assert!(begun.elapsed() < WITHIN, "the timeout took {:?}", begun.elapsed());
    served.wait_until_idle(&other);
    // End by the client's disconnection.
    served.run(&client, "set statement_timeout = 0").unwrap();
    served.runtime.block_on(async {
        tokio::select! {
            _ = rows(&client, LONG) => panic!("the report has ended"),
            () = until_there_are(&other, "1", "0") => {}
        }
    });
    connection.abort();
    served.wait_until_idle(&other);
    assert_eq!(served.run(&other, "select count(*) from t").unwrap(), [ROWS.to_string()]);
}

pub fn an_urgent_statement_runs_beside_reports() {
    let served = Served::start(&["overtake.analytics_queries=1"]);
    let (first, second, urgent) = (served.connect(), served.connect(), served.connect());
    let tokens = [first.cancel_token(), second.cancel_token()];
    served.run(&urgent, "set overtake.priority = high").unwrap();
    served.runtime.block_on(async {
        let reports = async { tokio::join!(rows(&first, LONG), rows(&second, LONG)) };
        let updates = async {
            // One report runs, the other waits for it.
            until_there_are(&urgent, "1", "1").await;
            for id in 1..=200 {
                rows(&urgent, &format!("update t set n = n + 0 where id = {id}")).await.unwrap();
            }
            for token in tokens {
                token.cancel_query(NoTls).await.unwrap();
            }
        };
        let ((first, second), ()) = tokio::join!(reports, updates);
        // The reports would have gone on for minutes.
        for report in [first, second] {
            assert_eq!(state(&report.unwrap_err()).0, "57014");
        }
    });
    served.wait_until_idle(&urgent);
}
