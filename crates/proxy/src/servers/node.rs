//! Server behind the proxy: its last reported state, and its connections.
//!
//! **Invariant:** a node is what it has said last, and only until it does not answer any more. It has a door of its own: how many
//! transactions one server takes says nothing of another.

use crate::servers::succession::Said;
use crate::servers::target::Target;
use crate::servers::url::Host;
use server::door::{Door, Room};
use statement::{SqlError, SqlState};
use std::sync::atomic::{AtomicBool, AtomicU8, AtomicUsize, Ordering::Relaxed, Ordering::SeqCst};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Instant;
use tokio::sync::Notify;

/// What a server is, by its own word.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(u8)]
pub(crate) enum Standing {
    /// It was not asked, or something has happened that puts its last word in doubt.
    #[default]
    Unknown,
    /// It does not answer, or lets nobody in.
    Down,
    Primary,
    Standby,
    /// It says that it is no standby, but must not be written: another one has gone on since on a later timeline, or its
    /// configuration makes all transactions read only.
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
    /// Its place in the list.
    pub(crate) number: usize,
    pub(crate) host: Host,
    pub(crate) name: Arc<str>,
    pub(crate) door: Door,
    standing: AtomicU8,
    /// Whether anybody was ever let in.
    was_there: AtomicBool,
    /// Transactions that are there, or on their way.
    active: AtomicUsize,
    word: Mutex<Word>,
    /// Somebody wants it to be asked at once.
    pub(crate) is_asked_for: Notify,
}

/// What else is known of it.
#[derive(Clone, Debug, Default)]
pub(crate) struct Word {
    /// What it has last said; all 0: nothing.
    pub(crate) said: Said,
    /// Why it is down, or fenced.
    pub(crate) trouble: String,
    /// When it was last asked.
    pub(crate) asked: Option<Instant>,
}

/// A transaction that is at a node, or on its way there. Dropping it is leaving.
#[derive(Debug)]
pub(crate) struct Presence(pub(crate) Arc<Node>);

impl Node {
    pub(crate) fn new(number: usize, host: Host, door: Door) -> Node {
        let name = host.to_string().into();
        Node {
            number,
            host,
            name,
            door,
            standing: AtomicU8::new(Standing::Unknown as u8),
            was_there: AtomicBool::new(false),
            active: AtomicUsize::new(0),
            word: Mutex::default(),
            is_asked_for: Notify::new(),
        }
    }

    /// A room for so many connections, at its door.
    pub(crate) fn room(&self, size: usize) -> Arc<Room> {
        self.door.room(size).unwrap_or_else(|| unreachable!("the door of a node grants connections"))
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

    /// Whether transactions with this target may begin there.
    pub(crate) fn suits(&self, target: Target) -> bool {
        match (self.standing(), target) {
            (Standing::Primary, target) => target != Target::Standby,
            (Standing::Standby, target) => target != Target::Primary,
            _ => false,
        }
    }

    /// Whether an administrator may say that it is the primary.
    pub(crate) fn is_acceptable(&self) -> bool {
        self.standing() == Standing::Fenced && !self.word().said.is_read_only
    }

    /// What a client is told that has something at a server whose place another one has taken.
    pub(crate) fn left_behind(&self) -> Option<SqlError> {
        (self.standing() == Standing::Fenced).then(|| {
            SqlError::new(SqlState("57P01"), "the server is not the primary any more")
                .detail(format!("{}: {}.", self.name, self.word().trouble))
                .hint("What the session had on its connection is gone, and an open transaction was rolled back.")
        })
    }

    pub(crate) fn active(&self) -> usize {
        self.active.load(Relaxed)
    }

    pub(crate) fn word(&self) -> MutexGuard<'_, Word> {
        self.word.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Says what it was before.
    pub(crate) fn stand(&self, standing: Standing) -> Standing {
        Standing::of(self.standing.swap(standing as u8, SeqCst))
    }

    /// One more transaction is there.
    pub(crate) fn enter(self: &Arc<Node>) -> Presence {
        self.active.fetch_add(1, Relaxed);
        Presence(Arc::clone(self))
    }
}

impl Drop for Presence {
    fn drop(&mut self) {
        self.0.active.fetch_sub(1, Relaxed);
    }
}
