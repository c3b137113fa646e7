//! Sessions that run TPC-H's queries back to back.
//!
//! **Invariant:** each session has a query under way from the moment it started until it is told to end; the first error,
//! other than the cancellation at the end, is kept and fails the run.

use super::super::client::{connect, explain, runtime, text_rows};
use super::super::servers::MeasuredServer;
use anyhow::{Context, ensure};
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::SeqCst};
use std::sync::mpsc::channel;
use std::thread::JoinHandle;
use tokio_postgres::{CancelToken, Client, NoTls};
use workloads::tpch;

/// Remedy that the sessions' users apply so that others wait less.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Remedy {
    /// No remedy.
    None,
    /// Remedy for PostgreSQL: no parallel workers, and their backends at nice +19.
    Nice,
}

/// Running sessions.
pub struct Analytics {
    shared: Arc<AnalyticsState>,
    sessions: Vec<(CancelToken, JoinHandle<anyhow::Result<()>>)>,
}

#[derive(Default)]
struct AnalyticsState {
    is_over: AtomicBool,
    done: AtomicU64,
}

impl Analytics {
    /// Starts this many sessions; each begins with another of the queries. The first makes a table of `dropped_rows`
    /// rows and drops it before each of them, unless there are none.
    ///
    /// # Errors
    /// Errors of the server for a connection, or of the kernel for the remedy.
    pub fn start(
        target: &MeasuredServer,
        count: u32,
        queries: &[usize],
        dropped_rows: u32,
        remedy: Remedy,
    ) -> anyhow::Result<Analytics> {
        let shared = Arc::new(AnalyticsState::default());
        let mut analytics = Analytics { shared: Arc::clone(&shared), sessions: Vec::new() };
        for session in 0..count as usize {
            let (url, shared) = (target.url.clone(), Arc::clone(&shared));
            let mut queries = queries.to_vec();
            let at = session * queries.len() / count as usize;
            queries.rotate_left(at);
            let (to, from) = channel();
            let thread = std::thread::spawn(move || {
                let runtime = runtime()?;
                runtime.block_on(async {
                    let client = connect(&url).await?;
                    if remedy == Remedy::Nice {
                        let text = "set max_parallel_workers_per_gather = 0";
                        client.batch_execute(text).await.map_err(|error| explain(&error))?;
                        let pid =
                            text_rows(&client, "select pg_backend_pid()").await.map_err(|error| explain(&error))?;
                        let pid = pid.first().and_then(|row| row.first()).cloned().flatten();
                        renice(&pid.context("a backend has no number")?)?;
                    }
                    if to.send(client.cancel_token()).is_err() {
                        return Ok(());
                    }
                    for number in queries.iter().copied().cycle() {
                        if shared.is_over.load(SeqCst) {
                            break;
                        }
                        if session == 0 && 0 < dropped_rows {
                            match make_and_drop(&client, dropped_rows).await {
                                Ok(()) => {}
                                Err(_) if shared.is_over.load(SeqCst) => break,
                                Err(error) => return Err(explain(&error).context("the table that is dropped")),
                            }
                        }
                        match text_rows(&client, tpch::query(number)).await {
                            Ok(_) => drop(shared.done.fetch_add(1, SeqCst)),
                            Err(_) if shared.is_over.load(SeqCst) => break,
                            Err(error) => return Err(explain(&error).context(format!("query {number}"))),
                        }
                    }
                    Ok(())
                })
            });
            match from.recv() {
                Ok(cancel) => analytics.sessions.push((cancel, thread)),
                // The session ended before it began; its error follows.
                Err(_) => {
                    let ended = thread.join().map_err(|_| anyhow::anyhow!("an analytics session panicked"))?;
                    ended.with_context(|| format!("an analytics session of {}", target.title))?;
                }
            }
        }
        Ok(analytics)
    }

    /// Returns the number of queries that have ended so far.
    pub fn done(&self) -> u64 {
        self.shared.done.load(SeqCst)
    }

    /// Ends the sessions, the queries under way by cancellation.
    ///
    /// # Errors
    /// The first error that a session had.
    pub fn stop(mut self) -> anyhow::Result<()> {
        self.end().context("an analytics session")
    }

    fn end(&mut self) -> anyhow::Result<()> {
        self.shared.is_over.store(true, SeqCst);
        let runtime = runtime()?;
        let mut first = Ok(());
        for (cancel, thread) in self.sessions.drain(..) {
            // Between two queries there is nothing to cancel, and the next one may have begun: the loop repeats until
            // the session has ended.
            while !thread.is_finished() {
                // A session that cannot be cancelled ends by itself, with its query.
                let _ = runtime.block_on(cancel.cancel_query(NoTls));
                std::thread::park_timeout(std::time::Duration::from_millis(20));
            }
            let ended = thread.join().unwrap_or_else(|_| Err(anyhow::anyhow!("it panicked")));
            first = first.and(ended);
        }
        first
    }
}

impl Drop for Analytics {
    fn drop(&mut self) {
        // An error is on its way already.
        let _ = self.end();
    }
}

/// Makes a table of some 100 bytes per row, and drops it.
async fn make_and_drop(client: &Client, rows: u32) -> Result<(), tokio_postgres::Error> {
    // A session that was cancelled has left the table.
    client.batch_execute("drop table if exists wire_dropped").await?;
    let query = format!("select id, repeat('x', 100) as filler from generate_series(1, {rows}) as id");
    client.batch_execute(&format!("create table wire_dropped as {query}")).await?;
    client.batch_execute("drop table wire_dropped").await
}

/// Lowers the priority of a process.
fn renice(pid: &str) -> anyhow::Result<()> {
    let mut command = Command::new("renice");
    let status = command.args(["-n", "19", "-p", pid]).stdout(Stdio::null()).status().context("renice")?;
    ensure!(status.success(), "renice: {status}");
    Ok(())
}
