//! Health checks, which ask servers for their state: one connection to each, of the URL's user to its database.
//!
//! **Invariant:** a server that does not answer in time is down, and nobody waits for it longer than that. A connection
//! that breaks is news, and the server is asked at once, by a new connection.

use crate::servers::login::Servers;
use crate::servers::node::{Node, Standing};
use crate::servers::nodes::Nodes;
use crate::servers::server_conn::{QuestionFailed, ServerConn};
use crate::servers::succession::{ServerReport, TimelineHistory, position};
use statement::{SqlError, SqlState};
use std::sync::{Arc, Weak};
use std::time::Duration;

/// Time after which a server that has not answered is down.
const ANSWER_TIME: Duration = Duration::from_secs(5);
/// Interval of the checks while a transaction waits for a server.
const HURRY: Duration = Duration::from_millis(100);

/// Question for these values: if the server is a standby, its timeline (none on a standby), its cluster, if its
/// configuration makes transactions read only (a value set for the user that asks is not the server's), and how far it
/// has written its log.
const QUESTION: &str = "\
SELECT pg_catalog.pg_is_in_recovery(), \
CASE WHEN pg_catalog.pg_is_in_recovery() THEN NULL \
ELSE pg_catalog.substr(pg_catalog.pg_walfile_name(pg_catalog.pg_current_wal_lsn()), 1, 8) END, \
(SELECT system_identifier FROM pg_catalog.pg_control_system()), \
(SELECT count(*) FROM pg_catalog.pg_settings WHERE name = 'default_transaction_read_only' AND setting = 'on' \
AND source NOT IN ('database', 'user', 'database user', 'client', 'session')), \
CASE WHEN pg_catalog.pg_is_in_recovery() THEN NULL ELSE pg_catalog.pg_current_wal_lsn() END";

/// Question if the user may read histories of timelines. By default only superusers may.
const MAY_READ: &str = "\
SELECT pg_catalog.has_function_privilege('pg_catalog.pg_read_file(text,bigint,bigint,boolean)', 'execute')";

/// Watch of one node.
struct NodeWatch {
    servers: Arc<Servers>,
    connection: Option<ServerConn>,
    /// History of the timeline that the connection's server has reported last, 0 being none.
    history: (u32, Option<TimelineHistory>),
}

/// Starts the checks in the runtime of the caller, for as long as the nodes exist.
pub(crate) fn begin(nodes: &Arc<Nodes>) {
    for node in nodes.all() {
        let watch = NodeWatch { servers: Arc::clone(&nodes.servers), connection: None, history: (0, None) };
        tokio::spawn(watch.go_on(Arc::downgrade(nodes), Arc::clone(node)));
    }
}

impl NodeWatch {
    async fn go_on(mut self, nodes: Weak<Nodes>, node: Arc<Node>) {
        loop {
            let found = tokio::time::timeout(ANSWER_TIME, self.look(&node)).await;
            let Some(nodes) = nodes.upgrade() else { return };
            node.word().asked = Some(nodes.time().now());
            match found {
                Ok(Ok(said)) => nodes.has_said(&node, said),
                Ok(Err(failed)) => {
                    self.connection = None;
                    let error = SqlError::from(failed);
                    let is_full = error.state() == SqlState::TOO_MANY_CONNECTIONS;
                    if is_full && matches!(node.standing(), Standing::Primary | Standing::Standby) {
                        // The server is there and has no room, which tells nothing about its state; connections to it
                        // do.
                        tracing::info!(server = %node.name, "the server has no connection left to ask for its role");
                    } else {
                        let detail = error.detail_text().map_or_else(String::new, |detail| format!(": {detail}"));
                        nodes.stand(&node, Standing::Down, &format!("{}{detail}", error.message()));
                    }
                }
                Err(_) => {
                    self.connection = None;
                    nodes.stand(&node, Standing::Down, "it did not answer in time");
                }
            }
            let period = if nodes.are_waited_for() { HURRY.min(nodes.watching.period) } else { nodes.watching.period };
            drop(nodes);
            tokio::select! {
                () = tokio::time::sleep(period) => {}
                () = node.is_asked_for.notified() => {}
                // Any message without a question ends the connection.
                () = ended(&mut self.connection) => {}
            }
        }
    }

    async fn look(&mut self, node: &Node) -> Result<ServerReport, QuestionFailed> {
        if let Some(connection) = &mut self.connection
            && let Ok(rows) = connection.ask(QUESTION).await
        {
            return self.with_history(said(rows)?).await;
        }
        // The end of the old connection tells nothing about the server: an administrator may have ended it.
        let fresh = self.servers.connect_own(&node.host).await?;
        self.history = (0, None);
        let rows = self.connection.insert(fresh).ask(QUESTION).await?;
        self.with_history(said(rows)?).await
    }

    /// Asks for the history of a timeline when it is new.
    async fn with_history(&mut self, mut said: ServerReport) -> Result<ServerReport, QuestionFailed> {
        let Some(connection) = self.connection.as_mut().filter(|_| said.timeline != 0) else { return Ok(said) };
        if self.history.0 != said.timeline {
            let history = match said.timeline {
                1 => Some(TimelineHistory::default()),
                timeline => history_of(timeline, connection).await?,
            };
            self.history = (said.timeline, history);
        }
        said.history.clone_from(&self.history.1);
        Ok(said)
    }
}

/// Returns the timelines that led to this one, if the server reports them.
async fn history_of(timeline: u32, connection: &mut ServerConn) -> Result<Option<TimelineHistory>, QuestionFailed> {
    if one(connection.ask(MAY_READ).await?).as_deref() != Some("t") {
        return Ok(None);
    }
    let text = format!("SELECT pg_catalog.pg_read_file('pg_wal/{timeline:08X}.history', 0, 1048576, true)");
    match connection.ask(&text).await {
        Ok(rows) => Ok(one(rows).and_then(|text| TimelineHistory::parse(&text))),
        Err(QuestionFailed::Said(error)) => {
            tracing::info!(timeline, error = error.message(), "the history of a timeline cannot be read");
            Ok(None)
        }
        Err(broken) => Err(broken),
    }
}

/// Returns the only value of the only row.
fn one(rows: Vec<Vec<Option<String>>>) -> Option<String> {
    rows.into_iter().next()?.into_iter().next()?
}

/// Waits until an idle connection receives a message, or has ended.
async fn ended(connection: &mut Option<ServerConn>) {
    match connection {
        Some(own) => drop(own.next().await),
        None => std::future::pending().await,
    }
}

fn said(rows: Vec<Vec<Option<String>>>) -> Result<ServerReport, QuestionFailed> {
    let confused = || std::io::Error::new(std::io::ErrorKind::InvalidData, "the server has not said what it is");
    let row = rows.into_iter().next().ok_or_else(confused)?;
    let mut columns = row.into_iter().map(Option::unwrap_or_default);
    let mut next = || columns.next().unwrap_or_default();
    let (is_standby, timeline, system, read_only, written) = (next(), next(), next(), next(), next());
    let is_standby = match &*is_standby {
        "t" => true,
        "f" => false,
        _ => return Err(confused().into()),
    };
    Ok(ServerReport {
        is_standby,
        is_read_only: read_only != "0",
        // The value is signed there.
        system: system.parse::<i64>().map_err(|_| confused())?.cast_unsigned(),
        timeline: u32::from_str_radix(&timeline, 16).unwrap_or(0),
        position: position(&written).unwrap_or(0),
        history: None,
    })
}
