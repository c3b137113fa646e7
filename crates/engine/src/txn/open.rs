//! What is open, for how long, and what it holds back.
//!
//! **Invariant:** a dead version that must wait is counted for one snapshot, the youngest of those that see it. So what is
//! counted for a snapshot can go when that one is gone, unless an older one sees it too; for the oldest the count is exact.

use crate::engine::Engine;
use crate::raw::activity::Activity;
use core::time::Duration;
use preempt::{Latch, no_preempt, os};
use stage::Class;
use std::collections::BTreeMap;
use std::sync::Arc;

/// Dead versions that wait for a snapshot. Snapshots of one number share what waits for them.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct HeldVersions {
    /// Dead versions.
    pub versions: u64,
    /// Their bytes.
    pub bytes: u64,
}

/// An open transaction.
#[derive(Debug, Clone)]
pub struct OpenTransaction {
    /// Its number, as [`crate::Txn::id`].
    pub id: u64,
    /// Its class.
    pub class: Class,
    /// The name of its session, if it has one.
    pub session: Option<Arc<str>>,
    /// For how long it has been open. It is as exact as the turns of [`Engine::housekeep`] are frequent.
    pub open_for: Duration,
    /// The number of its snapshot. Nothing while it has none: a READ COMMITTED one between two statements.
    pub snapshot: Option<u64>,
    /// What it is doing.
    pub activity: Activity,
    /// Whether it is SERIALIZABLE and may write.
    pub is_serializable: bool,
    /// How many changes it has made.
    pub writes: u64,
    /// What waits for its snapshot to go, as far as it has been looked at.
    pub holds: HeldVersions,
}

/// A registered snapshot.
#[derive(Debug, Clone, Copy)]
pub struct OpenSnapshot {
    /// Its number.
    pub number: u64,
    /// How long ago it was taken, as [`OpenTransaction::open_for`].
    pub open_for: Duration,
    /// What waits for it to go, as far as it has been looked at.
    pub holds: HeldVersions,
}

impl Engine {
    /// The open transactions, the oldest snapshot first, and what each holds back.
    pub fn transactions(&self) -> Vec<OpenTransaction> {
        let now_ns = os::now_ns();
        let inner = &self.inner;
        let holds = inner.held_back.all();
        let open = inner.registry.open_slots().into_iter().map(|slot| OpenTransaction {
            id: slot.owner,
            class: match slot.importance {
                0 => Class::Low,
                1 => Class::Normal,
                _ => Class::High,
            },
            session: inner.sessions.name(slot.session),
            open_for: since(slot.began_ns, now_ns),
            snapshot: slot.snapshot,
            activity: slot.activity,
            is_serializable: slot.is_serial,
            writes: inner.counters[slot.index].writes.get(),
            holds: slot.snapshot.and_then(|snapshot| holds.get(&snapshot)).copied().unwrap_or_default(),
        });
        let mut open: Vec<_> = open.collect();
        open.sort_by_key(|transaction| transaction.snapshot.unwrap_or(u64::MAX));
        inner.registry.set_coarse_ns(now_ns);
        open
    }

    /// The registered snapshots, the oldest first, and what each holds back.
    pub fn snapshots(&self) -> Vec<OpenSnapshot> {
        let now_ns = os::now_ns();
        let holds = self.inner.held_back.all();
        let open = self.inner.registry.open_readers().into_iter().map(|(number, began_ns)| OpenSnapshot {
            number,
            open_for: since(began_ns, now_ns),
            holds: holds.get(&number).copied().unwrap_or_default(),
        });
        let mut open: Vec<_> = open.collect();
        open.sort_by_key(|snapshot| snapshot.number);
        open
    }
}

fn since(began_ns: u64, now_ns: u64) -> Duration {
    Duration::from_nanos(now_ns.saturating_sub(began_ns))
}

/// What is held back, by snapshot.
pub(crate) struct HeldBack(Latch<BTreeMap<u64, HeldVersions>>);

impl Default for HeldBack {
    fn default() -> HeldBack {
        HeldBack(Latch::new(BTreeMap::new()))
    }
}

impl HeldBack {
    pub(crate) fn add(&self, snapshot: u64, bytes: u64) {
        no_preempt(|no_preempt| {
            let mut all = self.0.lock(no_preempt);
            let held = all.entry(snapshot).or_default();
            held.versions += 1;
            held.bytes += bytes;
        });
    }

    pub(crate) fn subtract(&self, snapshot: u64, versions: u64, bytes: u64) {
        no_preempt(|no_preempt| {
            let mut all = self.0.lock(no_preempt);
            if let Some(held) = all.get_mut(&snapshot) {
                held.versions -= versions;
                held.bytes -= bytes;
                if held.versions == 0 {
                    all.remove(&snapshot);
                }
            }
        });
    }

    fn all(&self) -> BTreeMap<u64, HeldVersions> {
        no_preempt(|no_preempt| self.0.lock(no_preempt).clone())
    }

    /// How many versions all snapshots hold back.
    pub(crate) fn versions(&self) -> u64 {
        no_preempt(|no_preempt| self.0.lock(no_preempt).values().map(|held| held.versions).sum())
    }
}

/// The sessions' names, by their numbers.
pub(crate) struct Sessions(Latch<BTreeMap<u64, Arc<str>>>);

impl Default for Sessions {
    fn default() -> Sessions {
        Sessions(Latch::new(BTreeMap::new()))
    }
}

impl Sessions {
    pub(crate) fn add(&self, number: u64, name: &str) {
        let name: Arc<str> = name.into();
        no_preempt(|no_preempt| self.0.lock(no_preempt).insert(number, name));
    }

    pub(crate) fn remove(&self, number: u64) {
        drop(no_preempt(|no_preempt| self.0.lock(no_preempt).remove(&number)));
    }

    pub(crate) fn name(&self, number: u64) -> Option<Arc<str>> {
        no_preempt(|no_preempt| self.0.lock(no_preempt).get(&number).cloned())
    }
}
