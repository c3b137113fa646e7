//! Servers behind the proxy, and the choice among them.
//!
//! A single server is used as it is, without a question. Of several, each is asked for its state (`health`), and a
//! transaction begins only on a server that suits its target.
//!
//! **Invariant:** of the servers that say that they are the primary, at most one is, as `succession` judges.

use crate::servers::health;
use crate::servers::login::Servers;
use crate::servers::node::{Node, NodePresence, Standing};
use crate::servers::pool::Pool;
use crate::servers::succession::{ServerReport, Succession, Verdict};
use crate::servers::target::TargetRole;
use crate::servers::url::ServerAddress;
use crate::setup::ready;
use gate::SettingsError;
use locked::Locked;
use server::admission::{Admission, AdmissionOptions};
use statement::time::TimeSource;
use statement::{SqlError, SqlState};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::Relaxed, Ordering::SeqCst};
use std::sync::{Arc, Mutex, Weak};
use std::time::{Duration, Instant};
use tokio::sync::Notify;

/// Options of the watch over the servers.
#[derive(Clone, Copy, Debug)]
pub struct WatchOptions {
    /// Interval at which each of several servers is asked for its state.
    pub period: Duration,
    /// Time for which a transaction waits for a server that suits it.
    pub patience: Duration,
}

impl Default for WatchOptions {
    fn default() -> WatchOptions {
        WatchOptions { period: Duration::from_secs(1), patience: Duration::from_secs(30) }
    }
}

/// Servers behind the proxy.
pub(crate) struct Nodes {
    pub(crate) servers: Arc<Servers>,
    all: Box<[Arc<Node>]>,
    pub(crate) watching: WatchOptions,
    /// True if their state matters: there are several, or the URL asks for one of a kind.
    pub(crate) are_asked: bool,
    is_watched: AtomicBool,
    succession: Mutex<Succession>,
    /// Number of transactions that wait for a server.
    waiting: AtomicUsize,
    /// Signal that the state of a server has changed.
    pub(crate) changed: Notify,
    pub(crate) last_answer: ready::ReadyCache,
    /// Pools that have connections.
    pools: Mutex<Vec<Weak<Pool>>>,
}

/// Interval at which a single server that has gone is tried again.
const RETRY: Duration = Duration::from_millis(500);

/// Deadline of a wait for servers, which starts at the first one that was unreachable.
#[derive(Debug, Default)]
pub(crate) struct Patience(Option<Instant>);

/// Waiting transaction, for which servers are asked more often.
struct WaitingTransaction<'n>(&'n Nodes);

impl Drop for WaitingTransaction<'_> {
    fn drop(&mut self) {
        self.0.waiting.fetch_sub(1, Relaxed);
    }
}

impl Nodes {
    /// Creates the nodes. The first has this admission control, the others their own of the same kind.
    pub(crate) fn new(servers: Servers, admission: &Admission, watching: WatchOptions) -> Nodes {
        let node = |(number, host): (usize, &ServerAddress)| {
            let admission = if number == 0 {
                admission.granting(&servers.time)
            } else {
                admission.another().granting(&servers.time)
            };
            Arc::new(Node::new(number, host.clone(), admission))
        };
        let url = &servers.url;
        Nodes {
            all: url.hosts.iter().enumerate().map(node).collect(),
            watching,
            are_asked: 1 < url.hosts.len() || url.target.is_some(),
            servers: Arc::new(servers),
            is_watched: AtomicBool::new(false),
            succession: Mutex::default(),
            waiting: AtomicUsize::new(0),
            changed: Notify::new(),
            last_answer: ready::ReadyCache::default(),
            pools: Mutex::default(),
        }
    }

    /// Applies these options to all gates, if possible.
    ///
    /// # Errors
    /// The settings describe no valid gate; all gates stay as they were.
    pub(crate) fn change_admissions(&self, options: &AdmissionOptions) -> Result<bool, SettingsError> {
        // All gates are of one kind: a change that the first accepts suits all.
        for node in &self.all {
            if !node.admission.change(options)? {
                return Ok(false);
            }
        }
        Ok(true)
    }

    /// Clock of everything that deals with the servers.
    pub(crate) fn time(&self) -> &TimeSource {
        &self.servers.time
    }

    /// Waits until something has changed, or this moment has passed. Returns true if it has passed.
    pub(crate) async fn is_over(&self, until: Instant, changed: impl Future<Output = ()>) -> bool {
        let timer = self.time().timer_at(until);
        tokio::time::timeout_at(timer.into(), changed).await.is_err() && self.time().is_past(until)
    }

    pub(crate) fn all(&self) -> &[Arc<Node>] {
        &self.all
    }

    /// Registers a pool of connections to them.
    pub(crate) fn serve(&self, pool: &Arc<Pool>) {
        let mut pools = self.pools.locked();
        pools.retain(|pool| 0 < pool.strong_count());
        pools.push(Arc::downgrade(pool));
    }

    /// Makes another pool close its longest idle connection to a server that has no room for one of this pool. Returns
    /// true if there was any.
    pub(crate) fn make_room(&self, node: &Node, own: &Pool) -> bool {
        let pools: Vec<Arc<Pool>> = self.pools.locked().iter().filter_map(Weak::upgrade).collect();
        let others = pools.iter().filter(|pool| !std::ptr::eq(&***pool, own));
        let longest = others.filter_map(|pool| Some((pool.idle_since(node)?, pool))).min_by_key(|(since, _)| *since);
        longest.is_some_and(|(_, pool)| pool.close_longest_idle(node))
    }

    /// True if the state of a server matters to a transaction with this target.
    pub(crate) fn must_ask(&self, target: TargetRole) -> bool {
        self.are_asked || target == TargetRole::Standby
    }

    /// True if transactions with this target may begin there.
    pub(crate) fn suits(&self, node: &Node, target: TargetRole) -> bool {
        !self.must_ask(target) || node.suits(target)
    }

    /// True if some transaction waits for a server.
    pub(crate) fn are_waited_for(&self) -> bool {
        0 < self.waiting.load(Relaxed)
    }

    /// Target of the proxy's own questions: the primary's answer is preferred, if there is one.
    pub(crate) fn target_of_own(&self) -> TargetRole {
        let is_there = self.all.iter().any(|node| node.standing() == Standing::Primary);
        if !self.are_asked || is_there { TargetRole::Primary } else { TargetRole::Any }
    }

    /// Returns the best suitable server: the one with the fewest transactions, the first of the list among equals.
    fn pick(&self, target: TargetRole) -> Option<NodePresence> {
        let suited = self.all.iter().filter(|node| self.suits(node, target));
        let by_need = |node: &&Arc<Node>| {
            let is_second = target == TargetRole::PreferStandby && node.standing() != Standing::Standby;
            (is_second, node.active())
        };
        suited.min_by_key(by_need).map(Node::enter)
    }

    /// Waits for a suitable server, for as long as there is patience.
    ///
    /// # Errors
    /// `57P03`: there is none.
    pub(crate) async fn choose(
        self: &Arc<Nodes>,
        target: TargetRole,
        patience: &mut Patience,
    ) -> Result<NodePresence, SqlError> {
        if !self.must_ask(target) {
            return Ok(self.all[0].enter());
        }
        self.watch();
        if let Some(presence) = self.pick(target) {
            return Ok(presence);
        }
        // This is rare, so it must not enlarge the future of every transaction.
        Box::pin(self.wait_for(target, patience)).await
    }

    async fn wait_for(&self, target: TargetRole, patience: &mut Patience) -> Result<NodePresence, SqlError> {
        let until = *patience.0.get_or_insert_with(|| self.time().now() + self.watching.patience);
        self.waiting.fetch_add(1, Relaxed);
        let _waiting = WaitingTransaction(self);
        self.ask_all();
        loop {
            let changed = self.changed.notified();
            if let Some(presence) = self.pick(target) {
                return Ok(presence);
            }
            // A primary will come back. The operator decides if there are standbys.
            let is_hopeless = target == TargetRole::Standby && self.all.iter().all(|node| is_known(node));
            if is_hopeless || self.is_over(until, changed).await {
                return Err(self.nobody(target));
            }
        }
    }

    /// Returns true, when it is time, if a transaction that this server has refused is to try again. A single server
    /// that was never reachable is not waited for: its address may be wrong.
    pub(crate) async fn may_retry(&self, node: &Node, patience: &mut Patience) -> bool {
        let until = *patience.0.get_or_insert_with(|| self.time().now() + self.watching.patience);
        if self.are_asked {
            return !self.time().is_past(until);
        }
        let again = self.time().now() + RETRY;
        let may = node.was_there() && again < until;
        if may {
            tokio::time::sleep_until(self.time().timer_at(again).into()).await;
        }
        may
    }

    /// Notes that a single server, which is not asked for its state, was reached, or the reason why it was not.
    pub(crate) fn was_tried(&self, node: &Node, trouble: &str) {
        if trouble.is_empty() {
            node.is_there();
        }
        if self.are_asked {
            return;
        }
        let before = std::mem::replace(&mut node.word().trouble, trouble.to_owned());
        match (before.is_empty(), trouble.is_empty()) {
            (true, false) => tracing::warn!(server = %node.name, trouble, "the server cannot be used"),
            (false, true) => tracing::info!(server = %node.name, "the server can be used again"),
            _ => {}
        }
    }

    /// Runs a job for as long as a node suits; returns `None` if it ceases to.
    pub(crate) async fn while_suited<T>(
        &self,
        node: &Node,
        target: TargetRole,
        job: impl Future<Output = T>,
    ) -> Option<T> {
        if !self.must_ask(target) {
            return Some(job.await);
        }
        tokio::select! {
            biased;
            done = job => Some(done),
            () = self.ceased(node, target) => None,
        }
    }

    /// Waits until a node does not suit any more.
    async fn ceased(&self, node: &Node, target: TargetRole) {
        loop {
            let changed = self.changed.notified();
            if !node.suits(target) {
                return;
            }
            changed.await;
        }
    }

    /// Starts the health checks, in the runtime of the caller.
    pub(crate) fn watch(self: &Arc<Nodes>) {
        if !self.is_watched.load(Relaxed) && !self.is_watched.swap(true, SeqCst) {
            health::begin(self);
        }
    }

    /// Asks all of them at once.
    fn ask_all(&self) {
        self.all.iter().for_each(|node| node.is_asked_for.notify_one());
    }

    /// Requests a check of a server whose state may have changed.
    pub(crate) fn suspect(&self, node: &Node) {
        node.is_asked_for.notify_one();
    }

    /// Marks a server as down, because it refuses logins or does not answer. It is not used before it reports its state
    /// again.
    pub(crate) fn is_down(&self, node: &Node, trouble: &str) {
        self.stand(node, Standing::Down, trouble);
        node.is_asked_for.notify_one();
    }

    /// Notes that a connection has shown its server to be a standby, which was taken for the primary.
    pub(crate) fn is_no_primary(&self, node: &Node) {
        self.stand(node, Standing::Standby, "");
        node.is_asked_for.notify_one();
    }

    /// Notes the report of a server.
    pub(crate) fn has_said(&self, node: &Node, said: ServerReport) {
        node.word().said = said.clone();
        if said.is_standby {
            return self.stand(node, Standing::Standby, "");
        }
        if said.is_read_only {
            return self.stand(node, Standing::Fenced, "its default_transaction_read_only is on");
        }
        // The lock is held to the end: of two servers with the same claim, one is judged after the other.
        let mut succession = self.succession.locked();
        let is_primary = |other: &&Arc<Node>| other.standing() == Standing::Primary;
        let primaries = self.all.iter().filter(is_primary).map(|other| (other.number, other.word().said.clone()));
        let primaries: Vec<(usize, ServerReport)> = primaries.collect();
        let verdict = succession.judge(node.number, &said, primaries.iter().map(|(number, said)| (*number, said)));
        let left_behind = |latest| format!("another server has gone on since, on timeline {latest}");
        let trouble = match verdict {
            Verdict::Primary => {
                for (number, _) in primaries.iter().filter(|(number, _)| *number != node.number) {
                    self.stand(&self.all[*number], Standing::Fenced, &left_behind(said.timeline));
                }
                return self.stand(node, Standing::Primary, "");
            }
            Verdict::LeftBehind { latest } => left_behind(latest),
            Verdict::SetAside { for_whom, timeline } => set_aside(said.timeline, &for_whom, timeline),
            Verdict::Second { first } => {
                format!("{} says as well that it is the primary, and was there first", self.all[first].name)
            }
        };
        self.stand(node, Standing::Fenced, &trouble);
    }

    /// Accepts the fenced server of this name as the primary, for an administrator. Other primaries are fenced. Returns
    /// the timeline of that server, and the latest one that was seen.
    ///
    /// # Errors
    /// `42704`: there is no such server. `55000`: it is not fenced, or not because of another one.
    pub(crate) fn accept(self: &Arc<Nodes>, name: &str) -> Result<(u32, u32), SqlError> {
        let Some(node) = self.all.iter().find(|node| node.name.eq_ignore_ascii_case(name)) else {
            let all: Vec<&str> = self.all.iter().map(|node| &*node.name).collect();
            return Err(SqlError::new(SqlState::UNDEFINED_OBJECT, format!("server \"{name}\" does not exist"))
                .hint(format!("The servers are {}.", all.join(", "))));
        };
        self.watch();
        let mut succession = self.succession.locked();
        let (said, trouble) = {
            let word = node.word();
            (word.said.clone(), word.trouble.clone())
        };
        let not_now =
            |what: &str| SqlError::new(SqlState::OBJECT_NOT_IN_PREREQUISITE_STATE, format!("server \"{name}\" {what}"));
        match node.standing() {
            _ if !self.are_asked => {
                return Err(not_now("is not fenced").detail("It is the only one, and taken for what it is."));
            }
            Standing::Unknown => return Err(not_now("has not said yet what it is").hint("Try again.")),
            Standing::Down => return Err(not_now("is down").detail(format!("{trouble}."))),
            Standing::Primary => return Err(not_now("is not fenced").detail("It is the primary.")),
            Standing::Standby => {
                return Err(not_now("is a standby").hint("Promote it if it is to be the primary."));
            }
            Standing::Fenced if said.is_read_only => return Err(not_now("is read only").detail(format!("{trouble}."))),
            Standing::Fenced => {}
        }
        let latest = succession.accept(node.number, &node.name, &said);
        for other in self.all.iter().filter(|other| other.standing() == Standing::Primary) {
            let own = other.word().said.timeline;
            self.stand(other, Standing::Fenced, &set_aside(own, &node.name, said.timeline));
        }
        self.stand(node, Standing::Primary, "");
        Ok((said.timeline, latest))
    }

    /// Sets the state of a server.
    pub(crate) fn stand(&self, node: &Node, standing: Standing, trouble: &str) {
        {
            let mut word = node.word();
            trouble.clone_into(&mut word.trouble);
        }
        let before = node.stand(standing);
        if before == standing {
            return;
        }
        match standing {
            Standing::Primary | Standing::Standby => {
                tracing::info!(server = %node.name, from = before.name(), to = standing.name(), "a server's role is known");
            }
            Standing::Unknown | Standing::Down | Standing::Fenced => {
                tracing::warn!(server = %node.name, from = before.name(), to = standing.name(), trouble, "a server cannot be used");
            }
        }
        self.changed.notify_waiters();
    }

    pub(crate) fn nobody(&self, target: TargetRole) -> SqlError {
        let what = match target {
            TargetRole::Primary => "no server is the primary",
            TargetRole::Standby => "no server is a standby",
            TargetRole::PreferStandby | TargetRole::Any => "no server can be reached",
        };
        let one = |node: &Arc<Node>| {
            let trouble = node.word().trouble.clone();
            let why = if trouble.is_empty() { String::new() } else { format!(" ({trouble})") };
            format!("{}: {}{why}", node.name, node.standing().name())
        };
        let all: Vec<String> = self.all.iter().map(one).collect();
        let hint = match target {
            TargetRole::Primary if self.all.iter().any(|node| node.is_acceptable()) => {
                "After a split brain, ACCEPT 'host:port' in the administration database makes a fenced server the primary; \
                 see docs/split-brain.md."
            }
            TargetRole::Standby => "SET overtake.target = prefer_standby takes the primary where there is none.",
            TargetRole::Primary | TargetRole::PreferStandby | TargetRole::Any => {
                "Transactions wait for one for overtake.upstream_wait. SHOW UPSTREAM in the administration database says more."
            }
        };
        SqlError::new(SqlState::CANNOT_CONNECT_NOW, what).detail(format!("{}.", all.join("; "))).hint(hint)
    }
}

/// Reason why a server is fenced on this timeline after another one was accepted on that one.
fn set_aside(own: u32, for_whom: &str, timeline: u32) -> String {
    if own == timeline {
        return format!("{for_whom} was accepted, which is on the same timeline {own}");
    }
    format!("its timeline {own} does not go on from timeline {timeline}, on which {for_whom} was accepted")
}

/// True if a server has answered, or has failed to in time.
fn is_known(node: &Node) -> bool {
    node.word().asked.is_some() && node.standing() != Standing::Unknown
}
