//! Server behind the proxy: its last reported state, and its connections.
//!
//! **Invariant:** a node has the state that it reported last, and only until it stops answering. It has an admission
//! control of its own: the number of transactions that one server takes tells nothing about another.

use crate::servers::succession::ServerReport;
use crate::servers::target::TargetRole;
use crate::servers::url::ServerAddress;
use locked::Locked;
use server::admission::{Admission, Room};
use statement::{SqlError, SqlState};
use std::sync::atomic::{AtomicBool, AtomicU8, AtomicUsize, Ordering::Relaxed, Ordering::SeqCst};
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Instant;
use tokio::sync::Notify;

/// State of a server, as it reports it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(u8)]
pub(crate) enum Standing {
    /// The server was not asked, or its last report is in doubt.
    #[default]
    Unknown,
    /// The server does not answer, or refuses logins.
    Down,
    Primary,
    Standby,
    /// The server says that it is no standby, but must not be written: another one has continued on a later timeline,
    /// or its configuration makes all transactions read only.
    Fenced,
}

impl Standing {
    pub(crate) fn name(self) -> &'static str {
        match self {
            Standing::Unknown => "unknown",
            Standing::Down => "down",
            Standing::Primary => "primary",
            Standing::Standby => "standby",
            Standing::Fenced => "fenced",
        }
    }

    fn of(code: u8) -> Standing {
        use Standing::{Down, Fenced, Primary, Standby, Unknown};
        [Unknown, Down, Primary, Standby, Fenced].into_iter().find(|own| *own as u8 == code).unwrap_or_default()
    }
}

/// Server behind the proxy.
#[derive(Debug)]
pub(crate) struct Node {
    /// Index of the node in the list.
    pub(crate) number: usize,
    pub(crate) host: ServerAddress,
    pub(crate) name: Arc<str>,
    pub(crate) admission: Admission,
    standing: AtomicU8,
    /// True if a login has ever succeeded.
    was_there: AtomicBool,
    /// Number of transactions that are there, or on their way.
    active: AtomicUsize,
    word: Mutex<NodeReport>,
    /// Signal that the server is to be asked at once.
    pub(crate) is_asked_for: Notify,
}

/// Last report of a server, with what is wrong with it.
#[derive(Clone, Debug, Default)]
pub(crate) struct NodeReport {
    /// Last report of the server; all 0 before the first.
    pub(crate) said: ServerReport,
    /// Reason why it is down, or fenced.
    pub(crate) trouble: String,
    /// Time at which it was last asked.
    pub(crate) asked: Option<Instant>,
}

/// Transaction that is at a node, or on its way there. Dropping it leaves the node.
#[derive(Debug)]
pub(crate) struct NodePresence(pub(crate) Arc<Node>);

impl Node {
    pub(crate) fn new(number: usize, host: ServerAddress, admission: Admission) -> Node {
        let name = host.to_string().into();
        Node {
            number,
            host,
            name,
            admission,
            standing: AtomicU8::new(Standing::Unknown as u8),
            was_there: AtomicBool::new(false),
            active: AtomicUsize::new(0),
            word: Mutex::default(),
            is_asked_for: Notify::new(),
        }
    }

    /// Creates a room for this many connections, at its gate.
    pub(crate) fn room(&self, size: usize) -> Arc<Room> {
        self.admission.room(size).unwrap_or_else(|| unreachable!("the admission of a node grants connections"))
    }

    pub(crate) fn standing(&self) -> Standing {
        Standing::of(self.standing.load(SeqCst))
    }

    pub(crate) fn was_there(&self) -> bool {
        self.was_there.load(SeqCst)
    }

    pub(crate) fn is_there(&self) {
        self.was_there.store(true, SeqCst);
    }

    /// True if transactions with this target may begin there.
    pub(crate) fn suits(&self, target: TargetRole) -> bool {
        match (self.standing(), target) {
            (Standing::Primary, target) => target != TargetRole::Standby,
            (Standing::Standby, target) => target != TargetRole::Primary,
            _ => false,
        }
    }

    /// True if an administrator may accept it as the primary.
    pub(crate) fn is_acceptable(&self) -> bool {
        self.standing() == Standing::Fenced && !self.word().said.is_read_only
    }

    /// Returns the error for a client that has state at a server which another one has replaced.
    pub(crate) fn left_behind(&self) -> Option<SqlError> {
        (self.standing() == Standing::Fenced).then(|| {
            SqlError::new(SqlState::ADMIN_SHUTDOWN, "the server is not the primary any more")
                .detail(format!("{}: {}.", self.name, self.word().trouble))
                .hint("What the session had on its connection is gone, and an open transaction was rolled back.")
        })
    }

    pub(crate) fn active(&self) -> usize {
        self.active.load(Relaxed)
    }

    pub(crate) fn word(&self) -> MutexGuard<'_, NodeReport> {
        self.word.locked()
    }

    /// Sets the state, and returns the one before.
    pub(crate) fn stand(&self, standing: Standing) -> Standing {
        Standing::of(self.standing.swap(standing as u8, SeqCst))
    }

    /// Adds a transaction to the node.
    pub(crate) fn enter(self: &Arc<Node>) -> NodePresence {
        self.active.fetch_add(1, Relaxed);
        NodePresence(Arc::clone(self))
    }
}

impl Drop for NodePresence {
    fn drop(&mut self) {
        self.0.active.fetch_sub(1, Relaxed);
    }
}
