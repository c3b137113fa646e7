//! View of open transactions. The values read may be of two transactions that followed one another on a slot: a view,
//! no more.

use super::activity::Activity;
use super::horizon::{NO_SNAPSHOT, TENTATIVE};
use super::slots::{ACTIVE, GENERATION_MASK, Registry, STATE_SHIFT, owner_word};
use crate::sync::{Relaxed, SeqCst};

/// An open transaction, as its slot shows it.
pub(crate) struct OpenSlot {
    pub(crate) index: usize,
    pub(crate) owner: u64,
    pub(crate) snapshot: Option<u64>,
    pub(crate) began_ns: u64,
    pub(crate) session: u64,
    pub(crate) importance: u64,
    pub(crate) activity: Activity,
    pub(crate) is_serial: bool,
}

fn snapshot(published: u64) -> Option<u64> {
    (published != NO_SNAPSHOT).then_some(published & !TENTATIVE)
}

impl Registry {
    /// Returns the open transactions.
    pub(crate) fn open_slots(&self) -> Vec<OpenSlot> {
        let open = |(index, slot): (usize, &super::slots::TransactionSlot)| {
            let status = slot.status.load(SeqCst);
            let open = (status >> STATE_SHIFT == ACTIVE).then(|| OpenSlot {
                index,
                owner: owner_word(index, status & GENERATION_MASK),
                snapshot: snapshot(slot.snapshot.load(SeqCst)),
                began_ns: slot.began_ns.load(Relaxed),
                session: slot.session.load(Relaxed),
                importance: slot.importance.load(Relaxed),
                activity: Activity::of(slot.activity.load(Relaxed)),
                is_serial: slot.serial.load(Relaxed) == 1,
            });
            // Values read while the slot became another transaction's are neither's.
            open.filter(|_| slot.status.load(SeqCst) == status)
        };
        self.used().iter().enumerate().filter_map(open).collect()
    }

    /// Returns the registered snapshots: number, and the time when they were taken by the coarse clock.
    pub(crate) fn open_readers(&self) -> Vec<(u64, u64)> {
        let readers = self.readers[..self.readers_free.high_water()].iter();
        let open = |reader: &super::slots::SnapshotSlot| {
            Some((snapshot(reader.snapshot.load(SeqCst))?, reader.began_ns.load(Relaxed)))
        };
        readers.filter_map(open).collect()
    }
}
