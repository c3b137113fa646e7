//! View of open transactions and snapshots: their ages, and the garbage that they hold back.
//!
//! **Invariant:** a dead version that must wait is counted for one snapshot, the youngest of those that see it. So the
//! versions counted for a snapshot can go when that one is gone, unless an older one sees them too; for the oldest the
//! count is exact.

use crate::engine::Engine;
use crate::raw::activity::Activity;
use core::time::Duration;
use preempt::{Latch, no_preempt, os};
use stage::Class;
use std::collections::BTreeMap;
use std::sync::Arc;

/// Dead versions that wait for a snapshot. Snapshots of one number share the versions that wait for them.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct HeldVersions {
    /// Number of dead versions.
    pub versions: u64,
    /// Bytes of the dead versions.
    pub bytes: u64,
}

/// An open transaction.
#[derive(Debug, Clone)]
pub struct OpenTransaction {
    /// Number of the transaction, as [`crate::Txn::id`].
    pub id: u64,
    /// Class of the transaction.
    pub class: Class,
    /// Name of its session, if it has one.
    pub session: Option<Arc<str>>,
    /// Time for which it has been open. It is as exact as the turns of [`Engine::housekeep`] are frequent.
    pub open_for: Duration,
    /// Number of its snapshot. None while it has none: a READ COMMITTED one between two statements.
    pub snapshot: Option<u64>,
    /// Activity of the transaction.
    pub activity: Activity,
    /// True if it is SERIALIZABLE and may write.
    pub is_serializable: bool,
    /// Number of changes it has made.
    pub writes: u64,
    /// Versions that wait for its snapshot to go, as far as they were examined.
    pub holds: HeldVersions,
}

/// A registered snapshot.
#[derive(Debug, Clone, Copy)]
pub struct OpenSnapshot {
    /// Number of the snapshot.
    pub number: u64,
    /// Time since it was taken, as exact as [`OpenTransaction::open_for`].
    pub open_for: Duration,
    /// Versions that wait for it to go, as far as they were examined.
    pub holds: HeldVersions,
}

impl Engine {
    /// Returns the open transactions, the oldest snapshot first, with the garbage that each holds back.
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

    /// Returns the registered snapshots, the oldest first, with the garbage that each holds back.
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

/// Versions that are held back, by snapshot.
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

    /// Returns the number of versions that all snapshots hold back.
    pub(crate) fn versions(&self) -> u64 {
        no_preempt(|no_preempt| self.0.lock(no_preempt).values().map(|held| held.versions).sum())
    }
}

/// Names of the sessions, by their numbers.
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
