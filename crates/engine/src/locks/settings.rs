//! Settings of locks, changeable at run time.

use crate::sync::{AtomicU64, Relaxed};
use std::time::Duration;

/// Choice of the transaction that gives way on a row (Schroeder et al., ICDE 2006, section 5.2).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum LockPriority {
    /// No transaction gives way: waiters are served in the order in which they came.
    None,
    /// Waiters are served in the order of their classes.
    PriorityQueue,
    /// Also, a less important holder that itself waits for a lock is aborted (Preempt-on-Wait).
    Pow,
    /// Also, a less important holder that is paused under a preemption, or waits for its client or at the gate, is aborted;
    /// one that runs, after [`LockConfig::patience`].
    #[default]
    NotRunning,
}

impl LockPriority {
    /// Every setting.
    pub const ALL: [LockPriority; 4] =
        [LockPriority::None, LockPriority::PriorityQueue, LockPriority::Pow, LockPriority::NotRunning];

    /// Returns the name of the setting.
    pub fn name(self) -> &'static str {
        ["none", "priority-queue", "pow", "not-running"][self as usize]
    }
}

/// Settings of the lock table.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LockConfig {
    /// Choice of the transaction that gives way.
    pub priority: LockPriority,
    /// Time for which a less important holder that runs is waited for under [`LockPriority::NotRunning`].
    pub patience: Duration,
    /// Number of losses in a row after which a session's next transaction has the last taker's class until it ends.
    pub promote_after: u32,
    /// Largest number of locks and waits at once; past it: [`crate::Error::Limit`].
    pub entries_max: u64,
}

impl Default for LockConfig {
    fn default() -> LockConfig {
        LockConfig {
            priority: LockPriority::NotRunning,
            patience: Duration::from_millis(1),
            promote_after: 5,
            entries_max: 1 << 20,
        }
    }
}

/// Period after which a wait is looked at again whatever happens: a transaction may be aborted by code that knows no
/// locks.
const LOOK_AGAIN_NS: u64 = 1_000_000_000;

pub(crate) struct Settings {
    priority: AtomicU64,
    patience_ns: AtomicU64,
    promote_after: AtomicU64,
    entries_max: AtomicU64,
}

impl Settings {
    pub(crate) fn new(config: LockConfig) -> Settings {
        let settings = Settings {
            priority: AtomicU64::new(0),
            patience_ns: AtomicU64::new(0),
            promote_after: AtomicU64::new(0),
            entries_max: AtomicU64::new(0),
        };
        settings.set(config);
        settings
    }

    pub(crate) fn set(&self, config: LockConfig) {
        self.priority.store(config.priority as u64, Relaxed);
        self.patience_ns.store(u64::try_from(config.patience.as_nanos()).unwrap_or(u64::MAX), Relaxed);
        self.promote_after.store(config.promote_after.into(), Relaxed);
        self.entries_max.store(config.entries_max, Relaxed);
    }

    pub(crate) fn get(&self) -> LockConfig {
        LockConfig {
            priority: self.priority(),
            patience: Duration::from_nanos(self.patience_ns.load(Relaxed)),
            promote_after: self.promote_after(),
            entries_max: self.entries_max(),
        }
    }

    #[inline]
    pub(crate) fn priority(&self) -> LockPriority {
        LockPriority::ALL[self.priority.load(Relaxed) as usize]
    }

    pub(crate) fn promote_after(&self) -> u32 {
        self.promote_after.load(Relaxed) as u32
    }

    pub(crate) fn entries_max(&self) -> u64 {
        self.entries_max.load(Relaxed)
    }

    pub(crate) fn by_class(&self) -> bool {
        self.priority() != LockPriority::None
    }

    /// Returns the time at which a wait of this importance that begins now is to be looked at.
    pub(crate) fn look_at_ns(&self, importance: u64, now_ns: u64) -> u64 {
        if self.priority() == LockPriority::NotRunning && 0 < importance {
            now_ns.saturating_add(self.patience_ns.load(Relaxed))
        } else {
            self.look_again_at_ns(now_ns)
        }
    }

    /// Returns the time at which a wait that was looked at is to be looked at again.
    pub(crate) fn look_again_at_ns(&self, now_ns: u64) -> u64 {
        now_ns.saturating_add(LOOK_AGAIN_NS)
    }
}
