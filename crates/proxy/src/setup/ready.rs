//! Readiness: tells load balancers if there is a server to work with.
//!
//! **Invariant:** the answer comes within [`ANSWER_TIME`]. A single server, which is not asked otherwise, is asked at
//! most once in [`AGE`], however often the readiness is queried.

use crate::servers::node::{Node, Standing};
use crate::servers::nodes::Nodes;
use crate::servers::server_conn::QuestionFailed;
use crate::servers::target::TargetRole;
use statement::{SqlError, SqlState};
use std::sync::Arc;
use std::time::{Duration, Instant};
use tokio::sync::Mutex;
use tokio::time::timeout;

/// Time after which a server that has not answered counts as unreachable.
const ANSWER_TIME: Duration = Duration::from_secs(3);
/// Age up to which an answer still counts.
const AGE: Duration = Duration::from_secs(1);

/// Last answer of a single server, and its time.
#[derive(Debug, Default)]
pub(crate) struct ReadyCache(Mutex<Option<(Instant, Result<(), String>)>>);

impl Nodes {
    /// Checks that one of the servers can be used.
    ///
    /// # Errors
    /// The reason why none can, in one line.
    pub(crate) async fn ready(self: &Arc<Nodes>) -> Result<(), String> {
        if self.are_asked { self.one_stands().await } else { self.only_one_answers().await }
    }

    async fn one_stands(self: &Arc<Nodes>) -> Result<(), String> {
        self.watch();
        let until = self.time().now() + ANSWER_TIME;
        loop {
            let changed = self.changed.notified();
            let is_usable = |node: &Arc<Node>| matches!(node.standing(), Standing::Primary | Standing::Standby);
            if self.all().iter().any(is_usable) {
                return Ok(());
            }
            let is_hopeless = self.all().iter().all(|node| node.standing() != Standing::Unknown);
            if is_hopeless || self.is_over(until, changed).await {
                return Err(line(&self.nobody(TargetRole::Any)));
            }
        }
    }

    /// Checks the single server as `pg_isready` does: a server that refuses a login is there, except while it starts,
    /// shuts down or recovers.
    async fn only_one_answers(&self) -> Result<(), String> {
        let mut known = self.last_answer.0.lock().await;
        if let Some((at, answer)) = &*known
            && self.time().since(*at) < AGE
        {
            return answer.clone();
        }
        let node = &self.all()[0];
        let answer = match timeout(ANSWER_TIME, self.servers.connect_own(&node.host)).await {
            Ok(Ok(_)) => Ok(()),
            Ok(Err(QuestionFailed::Said(error))) if error.state() != SqlState::CANNOT_CONNECT_NOW => Ok(()),
            Ok(Err(failed)) => Err(line(&failed.into())),
            Err(_) => Err("it did not answer in time".to_owned()),
        };
        let answer = answer.map_err(|why| format!("no server can be reached: {}: {why}", node.name));
        *known = Some((self.time().now(), answer.clone()));
        answer
    }
}

fn line(error: &SqlError) -> String {
    let detail = error.detail_text().map_or_else(String::new, |detail| format!(": {}", detail.trim_end_matches('.')));
    format!("{}{detail}", error.message()).replace(['\r', '\n'], " ")
}
