//! What is open, for how long, and what it holds back.
//!
//! **Invariant:** a dead version that must wait is counted for one snapshot, the youngest of those that see it. So what is
//! counted for a snapshot can go when that one is gone, unless an older one sees it too; for the oldest the count is exact.

use preempt::{Latch, no_preempt};
use std::collections::BTreeMap;

/// Dead versions and bytes that wait, by the snapshot that needs them.
pub(crate) struct HeldBack(Latch<BTreeMap<u64, (u64, u64)>>);

impl Default for HeldBack {
    fn default() -> HeldBack {
        HeldBack(Latch::new(BTreeMap::new()))
    }
}

impl HeldBack {
    pub(crate) fn add(&self, snapshot: u64, bytes: u64) {
        no_preempt(|no_preempt| {
            let mut held = self.0.lock(no_preempt);
            let held = held.entry(snapshot).or_default();
            *held = (held.0 + 1, held.1 + bytes);
        });
    }

    pub(crate) fn subtract(&self, snapshot: u64, versions: u64, bytes: u64) {
        no_preempt(|no_preempt| {
            let mut all = self.0.lock(no_preempt);
            if let Some(held) = all.get_mut(&snapshot) {
                *held = (held.0 - versions, held.1 - bytes);
                if held.0 == 0 {
                    all.remove(&snapshot);
                }
            }
        });
    }
}
