//! A snapshot that no transaction owns.
//!
//! **Invariant:** it is registered as long as this lives, in a place of its own. Its number is that of a clock reading
//! made after it was registered, or the number of a transaction that was registered all the time until it was. A
//! transaction that reads by it ends before it does.

use super::horizon::NO_SNAPSHOT;
use super::slots::{HeldSlot, Registry, SnapshotPin};
use crate::sync::{Relaxed, SeqCst};
use core::marker::PhantomData;
use std::sync::Arc;

/// A registered snapshot that no transaction owns.
pub(crate) struct ReadHold {
    registry: Arc<Registry>,
    index: usize,
    snapshot: u64,
    pin: SnapshotPin,
}

impl ReadHold {
    /// Registers a snapshot of now. Returns none if too many are registered.
    pub(crate) fn new(registry: &Arc<Registry>) -> Option<ReadHold> {
        let index = registry.readers_free.acquire()?;
        let reader = &registry.readers[index];
        reader.began_ns.store(registry.horizons.coarse_ns(), Relaxed);
        let snapshot = registry.register(&reader.snapshot);
        Some(ReadHold { registry: registry.clone(), index, snapshot, pin: SnapshotPin { _only_here: PhantomData } })
    }

    /// Registers the snapshot of a transaction a second time. Returns none if too many are registered.
    ///
    /// Why nothing that it may reach is freed: until the store below the transaction's own place says the same number, and
    /// whatever that says later is stored after it. A look at all places ([`super::horizon`]) reads those of transactions
    /// first. So it finds the number there, or it finds something later there, and then it finds the number here.
    pub(crate) fn of(registry: &Arc<Registry>, held: &HeldSlot<'_>) -> Option<ReadHold> {
        assert!(std::ptr::eq(&raw const **registry, held.registry), "a transaction of another engine");
        let index = registry.readers_free.acquire()?;
        let reader = &registry.readers[index];
        reader.began_ns.store(registry.horizons.coarse_ns(), Relaxed);
        let snapshot = held.snapshot();
        reader.snapshot.store(snapshot, SeqCst);
        Some(ReadHold { registry: registry.clone(), index, snapshot, pin: SnapshotPin { _only_here: PhantomData } })
    }

    pub(crate) fn pin(&self) -> &SnapshotPin {
        &self.pin
    }

    pub(crate) fn snapshot(&self) -> u64 {
        self.snapshot
    }

    pub(crate) fn registry(&self) -> &Registry {
        &self.registry
    }
}

impl HeldSlot<'_> {
    /// Makes the transaction read by a registered snapshot, which must outlive it. It has read nothing, or reads by that
    /// snapshot again.
    ///
    /// Why nothing that it may reach is freed: `hold` keeps the snapshot's versions, whatever is published here. Of a walk
    /// that began with the number published before, the older number is a lower bound, as it is of later walks.
    pub(crate) fn read_by(&self, hold: &ReadHold) {
        assert!(std::ptr::eq(&raw const *hold.registry, self.registry), "a snapshot of another engine");
        self.snapshot.set(hold.snapshot());
        self.slot().snapshot.store(hold.snapshot(), SeqCst);
    }
}

impl Drop for ReadHold {
    fn drop(&mut self) {
        self.registry.readers[self.index].snapshot.store(NO_SNAPSHOT, SeqCst);
        self.registry.readers_free.release(self.index);
    }
}
