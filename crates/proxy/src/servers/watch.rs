//! Watchers of the servers: each one observes, on a connection of its own, the wait events of the processes of one
//! server that run clients' transactions.
//!
//! They determine the resource that dominates, the demands of the gate's model, and the lock waits. A watcher looks
//! every `overtake.upstream_watch` while any transaction is inside; more often while the controller searches for the
//! limit, and while transactions wait at the gate and none makes progress. Each look is a query of `pg_stat_activity`.
//!
//! **Invariant:** no transaction waits for a watcher, and a watcher that cannot see says so: then the gate goes by time
//! again.

use crate::ProxyState;
use crate::servers::conn_status::ConnStatus;
use crate::servers::node::Node;
use crate::servers::process::{Process, Stat};
use crate::servers::server_conn::{QuestionFailed, ServerConn};
use server::admission::{Resource, ResourceSample, Stalls};
use statement::{SqlError, SqlState};
use std::collections::HashMap;
use std::fmt::Write;
use std::fs;
use std::sync::{Arc, Weak};
use std::time::Duration;

/// Interval of the looks while the controller searches for the limit, and while no transaction makes progress.
const SOON: Duration = Duration::from_millis(50);
/// Time after which a watcher that cannot look tries again.
const RETRY: Duration = Duration::from_secs(30);
/// Time without anything to observe after which the connection is closed.
const KEEP: Duration = Duration::from_mins(1);
/// Time after which a server that has not answered is too busy to be asked.
const ANSWER_TIME: Duration = Duration::from_secs(5);
/// Number of processes whose times are remembered. Beyond it all are forgotten, and with them those of closed
/// connections.
const PIDS_MAX: usize = 10_000;
/// Ticks per second of times in `/proc`.
const TICKS: f64 = 100.0;

/// Observation of one server process.
#[derive(Clone, Debug, PartialEq, Eq)]
struct ProcessSample {
    pid: i32,
    is_idle: bool,
    /// True if it waits for a lock, or for its client. The holders of the lock are known only where the question asked
    /// for them.
    waits: bool,
    at: Option<Resource>,
    waits_for: Vec<i32>,
}

/// Connection of a watcher.
struct WatchConn {
    server: ServerConn,
    host: Option<LocalHost>,
}

/// Host of the server, if it is this one.
#[derive(Debug, Default)]
struct LocalHost {
    /// Ticks of processor time that processes have had.
    used: HashMap<i32, u64>,
    /// Busy ticks of this host's processors, and all ticks.
    ticks: (u64, u64),
}

/// Reason why nothing can be observed.
#[derive(Debug)]
enum WatchError {
    Failed(QuestionFailed),
    Rights,
}

impl From<QuestionFailed> for WatchError {
    fn from(failed: QuestionFailed) -> WatchError {
        WatchError::Failed(failed)
    }
}

/// Resource that a process with this wait event uses. `None`: the transaction is over, or has not begun.
fn resource(state: &str, wait: Option<(&str, &str)>) -> Option<Resource> {
    match state {
        "active" | "fastpath function call" => {}
        "idle in transaction" | "idle in transaction (aborted)" => return Some(Resource::Client),
        _ => return None,
    }
    Some(match wait {
        None => Resource::Processor,
        // SyncRep is a wait for the log of other servers.
        Some(("IO" | "LWLock" | "IPC", name)) if name.starts_with("WAL") || name == "SyncRep" => Resource::Log,
        Some(("Lock" | "LWLock" | "BufferPin", _)) => Resource::Lock,
        Some(("IO", _)) => Resource::Io,
        Some(("Client", _)) => Resource::Client,
        Some(_) => Resource::Other,
    })
}

impl ProcessSample {
    /// Reads a row of [`question`].
    fn of(row: &[Option<String>]) -> Result<Option<ProcessSample>, WatchError> {
        let text = |at: usize| row.get(at).and_then(Option::as_deref);
        let Some(pid) = text(0).and_then(|pid| pid.parse().ok()) else { return Ok(None) };
        let state = match text(1) {
            // For processes of others all columns are empty; or statistics are turned off.
            None | Some("disabled") => return Err(WatchError::Rights),
            Some(state) => state,
        };
        let blockers = text(4).unwrap_or_default().trim_matches(['{', '}']);
        Ok(Some(ProcessSample {
            pid,
            // A process whose client takes nothing of its answers has lent its slot, too.
            is_idle: state.starts_with("idle in transaction") || text(3) == Some("ClientWrite"),
            // A client that is silent in the middle of a COPY or of a batch is waited for like a lock.
            waits: text(2) == Some("Lock") || (state == "active" && text(3) == Some("ClientRead")),
            at: resource(state, text(2).zip(text(3))),
            waits_for: blockers.split(',').filter_map(|pid| pid.parse().ok()).collect(),
        }))
    }
}

/// Question for the state of these processes, and for the holders of their locks, if that matters: it stops the
/// server's lock manager for a moment.
fn question(sights: &[Arc<ConnStatus>], for_whom: bool) -> String {
    let blockers = "CASE WHEN wait_event_type = 'Lock' THEN pg_catalog.pg_blocking_pids(pid) END";
    let mut text = format!(
        "SELECT pid, state, wait_event_type, wait_event, {} \
         FROM pg_catalog.pg_stat_get_activity(NULL) WHERE pid IN (0",
        if for_whom { blockers } else { "NULL" }
    );
    for sight in sights {
        // Writing to a string does not fail.
        let _ = write!(text, ",{}", sight.pid);
    }
    text + ")"
}

/// Returns the waiting transactions, and the idle ones that block them.
fn stalls(seen: &[ProcessSample], sights: &[Arc<ConnStatus>]) -> Stalls {
    let ticket = |pid: i32| sights.iter().find(|sight| sight.pid == pid)?.ticket();
    let waits = seen.iter().filter_map(|one| Some((ticket(one.pid)?, one.waits))).collect();
    let is_idle = |pid: &&i32| seen.iter().any(|one| one.pid == **pid && one.is_idle);
    let blockers = seen.iter().flat_map(|one| &one.waits_for).filter(is_idle).filter_map(|&pid| ticket(pid)).collect();
    Stalls { waits, blockers }
}

impl LocalHost {
    /// Returns the processor time of the processes and of the host since the last call; new processes count nothing.
    fn look(&mut self, sights: &[Arc<ConnStatus>]) -> (Option<f64>, Option<f64>) {
        if PIDS_MAX < self.used.len() {
            self.used.clear();
        }
        let mut ticks = 0;
        for sight in sights {
            if let Some(stat) = Stat::of(sight.pid) {
                ticks += stat.used.saturating_sub(self.used.insert(sight.pid, stat.used).unwrap_or(stat.used));
            }
        }
        let now = processors(&fs::read_to_string("/proc/stat").unwrap_or_default());
        let (busy, all) = (now.0.saturating_sub(self.ticks.0), now.1.saturating_sub(self.ticks.1));
        self.ticks = now;
        (Some(ticks as f64 / TICKS), (0 < all).then(|| busy as f64 / all as f64))
    }
}

/// Parses the first line of `/proc/stat`: busy ticks, and all ticks.
fn processors(text: &str) -> (u64, u64) {
    let line = text.lines().next().and_then(|line| line.strip_prefix("cpu ")).unwrap_or_default();
    // Guests' times are part of the first two.
    let ticks: Vec<u64> = line.split_whitespace().take(8).filter_map(|ticks| ticks.parse().ok()).collect();
    let idle: u64 = ticks.iter().skip(3).take(2).sum();
    let all: u64 = ticks.iter().sum();
    (all - idle, all)
}

impl WatchConn {
    async fn open(shared: &ProxyState, node: &Node) -> Result<WatchConn, SqlError> {
        let mut server = shared.nodes.servers.connect_own(&node.host).await?;
        server.ask("SET application_name = 'overtake watcher'").await?;
        let process = Process::serving(server.io.peer(), server.line.pid());
        if let Some(processors) = process.as_ref().and_then(|process| process.processors) {
            node.admission.know_processors(processors);
        }
        Ok(WatchConn { server, host: process.map(|_| LocalHost::default()) })
    }

    async fn look(
        &mut self,
        sights: &[Arc<ConnStatus>],
        for_whom: bool,
    ) -> Result<(ResourceSample, Stalls), WatchError> {
        let answer = tokio::time::timeout(ANSWER_TIME, self.server.ask(&question(sights, for_whom))).await;
        let late = |_| QuestionFailed::Broken(std::io::ErrorKind::TimedOut.into());
        let mut seen = Vec::new();
        for row in answer.map_err(late)?? {
            seen.extend(ProcessSample::of(&row)?);
        }
        let mut sample = ResourceSample::default();
        for resource in seen.iter().filter_map(|one| one.at) {
            sample.at[resource as usize] += 1;
        }
        if let Some(mut host) = self.host.take() {
            let sights = sights.to_vec();
            // There is a file for each of them, so they are not read on a thread that serves clients.
            let looked = tokio::task::spawn_blocking(move || {
                let found = host.look(&sights);
                (host, found)
            });
            if let Ok((host, found)) = looked.await {
                self.host = Some(host);
                (sample.used, sample.host_busy) = found;
            }
        }
        Ok((sample, stalls(&seen, sights)))
    }
}

/// Watches a server for as long as clients may come.
pub(crate) async fn watch(shared: Weak<ProxyState>, node: Arc<Node>, every: Duration) {
    let admission = &node.admission;
    let mut eye: Option<WatchConn> = None;
    let Some(time) = shared.upgrade().map(|shared| shared.nodes.time().clone()) else { return };
    let begun = time.now();
    let (mut retry, mut last, mut wait, mut used) = (begun, begun, every, begun);
    loop {
        tokio::time::sleep(wait).await;
        let Some(shared) = shared.upgrade() else { return };
        let (is_busy, is_stuck) = admission.is_busy(SOON);
        let now = time.now();
        let is_time = is_stuck || admission.is_searching() || every <= now - last;
        wait = if is_busy { SOON.min(every) } else { every };
        if !is_busy {
            // No transaction used anything, which needs no question.
            admission.record(now - last, &ResourceSample::default());
            last = now;
            // A server that is to be restarted waits for its connections to close.
            let is_paused = shared.all_databases().iter().any(|(_, database)| database.is_paused());
            if is_paused || KEEP < now - used {
                eye = None;
                admission.know_stalls(false);
            }
            continue;
        }
        used = now;
        if !is_time || (eye.is_none() && now < retry) {
            continue;
        }
        if eye.is_none() {
            let late = || SqlError::new(SqlState::CONNECTION_FAILURE, "it did not answer in time");
            let open = tokio::time::timeout(ANSWER_TIME, WatchConn::open(&shared, &node)).await;
            match open.unwrap_or_else(|_| Err(late())) {
                Ok(open) => eye = Some(open),
                Err(error) => {
                    // Without observations, the gate goes by time.
                    admission.know_stalls(false);
                    retry = now + RETRY;
                    tracing::info!(server = %node.name, error = error.message(), "cannot read the wait events of the server");
                    continue;
                }
            }
        }
        let Some(open) = &mut eye else { continue };
        let sights: Vec<Arc<ConnStatus>> = shared.all_pools().iter().flat_map(|pool| pool.sights()).collect();
        let sights: Vec<_> = sights.into_iter().filter(|it| it.client().is_some() && it.host == node.host).collect();
        match open.look(&sights, is_stuck).await {
            Ok((sample, stalls)) => {
                admission.know_stalls(true);
                admission.stalls(&stalls);
                admission.record(now - last, &sample);
            }
            Err(blind) => {
                eye = None;
                retry = now + RETRY;
                admission.know_stalls(false);
                match blind {
                    WatchError::Failed(failed) => {
                        tracing::info!(server = %node.name, ?failed, "cannot read the wait events of the server")
                    }
                    WatchError::Rights => tracing::warn!(
                        server = %node.name,
                        "the wait events of the server's processes are hidden: grant pg_read_all_stats to the user of --upstream, \
                         and set track_activities = on"
                    ),
                }
            }
        }
        last = now;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::clients::cancel_request::ServerCancel;
    use crate::servers::dial::ServerRoute;
    use crate::servers::url;
    use gate::Ticket;
    use statement::time::TimeSource;

    #[test]
    fn waits_are_of_resources() {
        let of = |kind, name| resource("active", Some((kind, name)));
        assert_eq!(resource("active", None), Some(Resource::Processor));
        assert_eq!(resource("idle in transaction (aborted)", Some(("Client", "ClientRead"))), Some(Resource::Client));
        assert_eq!(resource("idle", Some(("Client", "ClientRead"))), None);
        for (kind, name, wanted) in [
            ("Lock", "transactionid", Resource::Lock),
            ("LWLock", "BufferContent", Resource::Lock),
            ("LWLock", "WALWrite", Resource::Log),
            ("LWLock", "WALInsert", Resource::Log),
            ("IO", "WALSync", Resource::Log),
            ("IPC", "SyncRep", Resource::Log),
            ("IO", "DataFileRead", Resource::Io),
            ("Client", "ClientWrite", Resource::Client),
            ("Timeout", "PgSleep", Resource::Other),
            ("IPC", "ParallelFinish", Resource::Other),
        ] {
            assert_eq!(of(kind, name), Some(wanted), "{kind} {name}");
        }
    }

    fn row(of: [&str; 5]) -> Vec<Option<String>> {
        of.map(|text| (text != "-").then(|| text.to_owned())).to_vec()
    }

    #[test]
    fn who_waits_for_whom_is_told() {
        let sight = |pid, ticket: u64| {
            let sight = ConnStatus::new(
                &ServerCancel::with_key(ServerRoute::to(url::ServerAddress::Tcp("a".to_owned(), 1)), pid, 0),
                &TimeSource::system(),
            );
            sight.works_for(Some(Ticket::from_bits(ticket)));
            Arc::new(sight)
        };
        let sights = [sight(11, 1), sight(12, 0), sight(13, 3)];
        let rows = [
            row(["11", "active", "Lock", "tuple", "{12,99}"]),
            row(["12", "idle in transaction", "Client", "ClientRead", "-"]),
            row(["13", "active", "-", "-", "-"]),
        ];
        let unread = ProcessSample::of(&row(["14", "active", "Client", "ClientWrite", "-"])).expect("it can be seen");
        assert!(unread.is_some_and(|seen| seen.is_idle && !seen.waits));
        let seen: Vec<ProcessSample> =
            rows.iter().filter_map(|row| ProcessSample::of(row).expect("it can be seen")).collect();
        let [one, two, three] = [1, 0, 3].map(Ticket::from_bits);
        let wanted = Stalls { waits: vec![(one, true), (two, false), (three, false)], blockers: vec![two] };
        assert_eq!(stalls(&seen, &sights), wanted);
        assert!(question(&sights, true).ends_with("pid IN (0,11,12,13)"));
        for hidden in [["11", "-", "-", "-", "-"], ["11", "disabled", "-", "-", "-"]] {
            assert!(matches!(ProcessSample::of(&row(hidden)), Err(WatchError::Rights)), "{hidden:?}");
        }
    }

    #[test]
    fn processors_are_busy_when_they_are_not_idle() {
        assert_eq!(processors("cpu  10 1 20 100 5 2 3 4 7 7\ncpu0 1 1 1 1 1 1 1 1 1 1\n"), (40, 145));
        assert_eq!(processors(""), (0, 0));
    }
}
