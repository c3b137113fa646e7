//! The urgent client: one thread that makes arrivals, and one that has all connections and talks to the server.
//!
//! **Invariant:** an arrival takes the first free connection; while there is none it waits, and that wait is in its
//! latency. A transaction that has not ended when the run gives up counts with the time that it has waited, and is
//! counted as unfinished.

use super::super::client::{connect, explain, runtime};
use super::super::servers::MeasuredServer;
use super::super::tpcc::{Statements, retried};
use super::open_loop::{Arrival, generate};
use anyhow::Context;
use clap::ValueEnum;
use host::stop::Stop;
use preempt::os;
use serde::Serialize;
use stage::Histogram;
use std::cell::RefCell;
use std::collections::{BTreeMap, VecDeque};
use std::sync::atomic::{AtomicBool, Ordering::SeqCst};
use std::time::Duration;
use tokio::sync::Notify;
use tokio::sync::mpsc::{UnboundedReceiver, unbounded_channel};
use tokio_postgres::{Client, Statement};
use workloads::tpcc::{Input, Inputs, Random, Scale};

/// Transaction of each arrival.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, ValueEnum)]
#[serde(rename_all = "kebab-case")]
pub enum UrgentKind {
    /// One prepared statement, a transaction by itself: an update by key.
    Update,
    /// TPC-C's New-Order, statement by statement.
    NewOrder,
}

impl UrgentKind {
    /// Returns the name in figures.
    pub fn name(self) -> &'static str {
        match self {
            UrgentKind::Update => "update",
            UrgentKind::NewOrder => "new_order",
        }
    }
}

/// Number of rows that the update chooses from.
pub const ACCOUNTS_COUNT: i32 = 100_000;
const UPDATE: &str = "update wire_accounts set balance = balance + $1 where id = $2";
/// Priority of the client, below the generator's.
const PRIORITY: i32 = 20;
/// Length of the warm-up; that of the measurement if that is shorter.
const WARM_UP: Duration = Duration::from_secs(1);
/// Time after the last arrival during which answers are waited for.
const GRACE: Duration = Duration::from_secs(5);

/// Parameters of a client.
#[derive(Clone, Copy, Debug)]
pub struct UrgentConfig {
    /// Kind of transaction.
    pub kind: UrgentKind,
    /// Arrivals per second.
    pub rate: f64,
    /// Number of connections.
    pub clients: u32,
    /// Measured time, after a warm-up.
    pub duration: Duration,
    /// True if the client's threads run in the real-time class.
    pub is_realtime: bool,
    /// Scale of TPC-C.
    pub scale: Scale,
    /// Seed of inputs and arrivals.
    pub seed: u64,
}

/// Observations of a client.
#[derive(Clone, Default)]
pub struct ClientResults {
    /// Time from the intended arrival to the end.
    pub latency: Histogram,
    /// Time from the intended arrival until the client's thread had it.
    pub late: Histogram,
    /// Number of repetitions after a serialisation failure or a deadlock.
    pub retries: u64,
    /// Number of transactions that had not ended when the client gave up.
    pub unfinished: u64,
}

/// Connection with its statements.
struct Connection {
    client: Client,
    update: Statement,
    statements: Statements,
}

/// State shared by the tasks of the client's thread.
struct ClientState {
    waiting: RefCell<VecDeque<Arrival>>,
    running: RefCell<BTreeMap<usize, Arrival>>,
    more: Notify,
    seen: RefCell<ClientResults>,
    measured_from_ns: u64,
    is_closed: std::cell::Cell<bool>,
}

/// Runs the client against a server for one phase.
///
/// # Errors
/// A stop; errors of the server for any transaction.
pub fn run(target: &MeasuredServer, config: &UrgentConfig, stop: &Stop) -> anyhow::Result<ClientResults> {
    let is_over = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let client = scope.spawn(|| {
            let seen = client(target, config, &is_over);
            is_over.store(true, SeqCst);
            seen
        });
        while !client.is_finished() {
            if let Err(stopped) = stop.wait(Duration::from_millis(20)) {
                is_over.store(true, SeqCst);
                let _ = client.join();
                return Err(stopped.into());
            }
        }
        client.join().map_err(|_| anyhow::anyhow!("the urgent client panicked"))?
    })
}

fn client(target: &MeasuredServer, config: &UrgentConfig, is_over: &AtomicBool) -> anyhow::Result<ClientResults> {
    let runtime = runtime()?;
    let connections = runtime.block_on(connections(target, config)).context("the urgent client")?;
    if config.is_realtime {
        // This was allowed a moment ago; the lateness is printed either way.
        let _ = os::set_realtime(PRIORITY);
    }
    let began_ns = os::now_ns();
    let measured_from_ns = began_ns + WARM_UP.min(config.duration).as_nanos() as u64;
    let until_ns = measured_from_ns + config.duration.as_nanos() as u64;
    let (to, from) = unbounded_channel();
    let shared = ClientState {
        waiting: RefCell::default(),
        running: RefCell::default(),
        more: Notify::new(),
        seen: RefCell::default(),
        measured_from_ns,
        is_closed: std::cell::Cell::new(false),
    };
    std::thread::scope(|scope| {
        // The sender moves into the generator, which closes the channel when it ends.
        scope.spawn(move || generate(config.rate, until_ns, config.seed, config.is_realtime, is_over, &to));
        let ended = runtime.block_on(converse(&shared, connections, config, from, until_ns));
        is_over.store(true, SeqCst);
        ended
    })?;
    let now_ns = os::now_ns();
    let mut seen = shared.seen.into_inner();
    let left = shared.waiting.into_inner().into_iter().chain(shared.running.into_inner().into_values());
    for arrival in left.filter(|arrival| measured_from_ns <= arrival.due_ns) {
        seen.unfinished += 1;
        seen.latency.record_ns(now_ns.saturating_sub(arrival.due_ns));
    }
    Ok(seen)
}

async fn connections(target: &MeasuredServer, config: &UrgentConfig) -> anyhow::Result<Vec<Connection>> {
    let mut connections = Vec::new();
    for _ in 0..config.clients {
        let client = connect(&target.url).await?;
        // For PostgreSQL this setting has no meaning.
        client.batch_execute("set overtake.priority = 'high'").await.map_err(|error| explain(&error))?;
        let update = client.prepare(UPDATE).await.map_err(|error| explain(&error))?;
        let statements = Statements::prepare(&client, config.scale.districts).await;
        connections.push(Connection { client, update, statements: statements.map_err(|error| explain(&error))? });
    }
    Ok(connections)
}

/// Waits until all arrivals have ended, or some time after the last one.
async fn converse(
    shared: &ClientState,
    connections: Vec<Connection>,
    config: &UrgentConfig,
    mut from: UnboundedReceiver<Arrival>,
    until_ns: u64,
) -> anyhow::Result<()> {
    let dispatch = async {
        while let Some(arrival) = from.recv().await {
            if shared.measured_from_ns <= arrival.due_ns {
                shared.seen.borrow_mut().late.record_ns(os::now_ns().saturating_sub(arrival.due_ns));
            }
            shared.waiting.borrow_mut().push_back(arrival);
            shared.more.notify_one();
        }
        shared.is_closed.set(true);
        shared.more.notify_waiters();
        anyhow::Ok(())
    };
    let workers = connections.iter().enumerate().map(|(at, connection)| worker(shared, at, connection, config));
    let all = async { futures::future::try_join(dispatch, futures::future::try_join_all(workers)).await.map(drop) };
    let limit = Duration::from_nanos(until_ns.saturating_sub(os::now_ns())) + GRACE;
    // A transaction that has not ended by then is counted as unfinished.
    tokio::time::timeout(limit, all).await.unwrap_or(Ok(()))
}

/// Takes arrivals, one after the other, until there will be no more.
async fn worker(shared: &ClientState, at: usize, connection: &Connection, config: &UrgentConfig) -> anyhow::Result<()> {
    let mut random = Random::new(config.seed.wrapping_mul(31).wrapping_add(at as u64));
    let mut inputs = Inputs::new(config.scale, config.seed, at as u64);
    loop {
        let taken = shared.waiting.borrow_mut().pop_front();
        let Some(arrival) = taken else {
            if shared.is_closed.get() {
                return Ok(());
            }
            shared.more.notified().await;
            continue;
        };
        shared.running.borrow_mut().insert(at, arrival);
        let retries = match config.kind {
            UrgentKind::Update => {
                let (amount, id) = (i64::from(random.uniform(-5_000, 5_000)), random.uniform(1, ACCOUNTS_COUNT));
                let done = connection.client.execute(&connection.update, &[&amount, &id]).await;
                anyhow::ensure!(done.map_err(|error| explain(&error))? == 1, "account {id} does not exist");
                0
            }
            UrgentKind::NewOrder => {
                let warehouse = inputs.warehouse();
                let input = Input::NewOrder(inputs.new_order(warehouse));
                retried(&connection.client, &connection.statements, &input).await?.1
            }
        };
        shared.running.borrow_mut().remove(&at);
        if shared.measured_from_ns <= arrival.due_ns {
            let mut seen = shared.seen.borrow_mut();
            seen.latency.record_ns(os::now_ns().saturating_sub(arrival.due_ns));
            seen.retries += u64::from(retries);
        }
    }
}
