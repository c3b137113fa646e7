//! Crashes at every operation of a workload.

use super::survival::Survival;
use super::{DiskFault, FakeDisk};
use std::fmt;

/// Fates by chance of each crash.
const CHANCES: u64 = 4;

/// Crash of a workload.
#[derive(Clone, Debug)]
pub struct CrashSite {
    /// Number of the operation, counted from 0.
    pub operation: u64,
    /// Description of the operation.
    pub what: String,
    /// Part of what was not synced that is left.
    pub survival: Survival,
}

impl fmt::Display for CrashSite {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let CrashSite { operation, what, survival } = self;
        write!(f, "crash at operation {operation} ({what}), {survival:?} left")
    }
}

/// Runs a workload on disks that begin as `start` is: once to its end, and then with a crash at each of its operations.
/// After each, `check` gets the disk in every state that [`Survival`] can describe (all torn ones, four by chance), and
/// what the workload has returned: a journal of what was acknowledged before the disk failed. Returns the number of
/// checks.
///
/// # Panics
/// If the workload does not do the same operations each time.
pub fn crash_everywhere<T>(
    start: &FakeDisk,
    workload: impl Fn(&FakeDisk) -> T,
    check: impl Fn(&FakeDisk, &T, &CrashSite),
) -> u64 {
    let whole = start.after_crash(Survival::Everything);
    workload(&whole);
    let mut checks = 0;
    for operation in 0..whole.operations() {
        let disk = start.after_crash(Survival::Everything);
        disk.fail(operation, DiskFault::Crash);
        let journal = workload(&disk);
        assert!(disk.is_crashed(), "the workload has fewer operations than before: {}", disk.operations());
        let torn = (0..disk.sectors_in_flight()).map(|sectors| Survival::Torn { sectors });
        let chances = (0..CHANCES).map(|chance| Survival::Chance { seed: operation * CHANCES + chance });
        let plain = [Survival::Nothing, Survival::Everything, Survival::Entries, Survival::Bytes];
        for survival in plain.into_iter().chain(torn).chain(chances) {
            let site = CrashSite { operation, what: disk.last_operation(), survival };
            check(&disk.after_crash(survival), &journal, &site);
            checks += 1;
        }
    }
    checks
}
