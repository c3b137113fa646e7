//! Patrol over idle workers.
//!
//! **Invariant:** a worker computes for its invocations only. One that goes on between them, beyond what a runtime needs
//! to clean up or to compile, is killed; its session finds it dead and starts another one.

use crate::cgroup::Group;
use crate::system;
use std::fs;
use std::os::fd::OwnedFd;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Weak};
use std::time::{Duration, Instant};

/// Time between two looks at all idle workers.
pub(crate) const PATROL: Duration = Duration::from_secs(1);
/// Ticks of the kernel's clock in a second: a constant of Linux's interface on x86-64.
const TICKS: u64 = 100;
/// Processor time that an idle worker may use in any case, in ticks. A virtual machine of Java compiles and collects
/// garbage after a call.
const IDLE_TICKS: u64 = TICKS;
/// Part of the time for which it has been idle that it may use besides. However many compute on, and however little each
/// gets, none does so for long.
const IDLE_PART: u64 = 500;

/// Count of the begins and ends of a worker's invocations: odd while one runs.
#[derive(Debug, Default)]
pub(crate) struct WorkerActivity(AtomicU64);

/// Invocation that runs, until the value is dropped.
#[derive(Debug)]
pub(crate) struct Running<'a>(&'a WorkerActivity);

impl WorkerActivity {
    /// Notes that an invocation runs.
    pub(crate) fn run(&self) -> Running<'_> {
        self.0.fetch_add(1, Relaxed);
        Running(self)
    }

    fn count(&self) -> u64 {
        self.0.load(Relaxed)
    }
}

impl Drop for Running<'_> {
    fn drop(&mut self) {
        self.0.0.fetch_add(1, Relaxed);
    }
}

/// Worker that is looked at.
struct Patrolled {
    pid: i32,
    descriptor: OwnedFd,
    group: Option<Arc<Group>>,
    activity: Weak<WorkerActivity>,
    /// Count of its activity at the last look.
    count: u64,
    /// Look at which it was first found idle, and its processor time then, in ticks.
    idle_since: Option<(Instant, u64)>,
}

/// Workers that are looked at.
#[derive(Default)]
pub(crate) struct Patrol {
    all: Vec<Patrolled>,
    last: Option<Instant>,
}

impl Patrol {
    /// Adds a worker that was created.
    pub(crate) fn add(
        &mut self,
        pid: i32,
        descriptor: OwnedFd,
        group: Option<Arc<Group>>,
        activity: &Arc<WorkerActivity>,
    ) {
        let activity = Arc::downgrade(activity);
        self.all.push(Patrolled { pid, descriptor, group, activity, count: 0, idle_since: None });
    }

    /// Forgets a worker whose instance is gone, with what it holds of the worker.
    pub(crate) fn remove(&mut self, pid: i32) {
        self.all.retain(|one| one.pid != pid);
    }

    /// Returns true if there is any worker.
    pub(crate) fn is_needed(&self) -> bool {
        !self.all.is_empty()
    }

    /// Looks at all workers, if it is time to.
    pub(crate) fn look(&mut self) {
        if self.all.is_empty() || self.last.is_some_and(|last| last.elapsed() < PATROL) {
            return;
        }
        self.last = Some(Instant::now());
        self.all.retain_mut(Patrolled::look);
    }
}

impl Patrolled {
    /// Looks at the worker. Returns false if its instance is gone, or it was killed.
    fn look(&mut self) -> bool {
        let Some(activity) = self.activity.upgrade() else { return false };
        let count = activity.count();
        let was_idle = count == self.count && count.is_multiple_of(2);
        self.count = count;
        if !was_idle {
            self.idle_since = None;
            return true;
        }
        let spent = self.spent();
        let (since, before) = *self.idle_since.get_or_insert_with(|| (Instant::now(), spent));
        let idle_ticks = since.elapsed().as_millis() as u64 * TICKS / 1_000;
        if spent.saturating_sub(before) <= IDLE_TICKS + idle_ticks / IDLE_PART {
            return true;
        }
        if let Some(group) = &self.group {
            group.kill();
        }
        system::kill_with_group(self.pid, &self.descriptor);
        false
    }

    /// Returns the processor time of all processes of the worker, in ticks. It is not reaped before this thread does so,
    /// so its number is its own.
    fn spent(&self) -> u64 {
        let processes = match &self.group {
            Some(group) => group.processes(),
            None => vec![self.pid],
        };
        processes.into_iter().filter_map(ticks_of).sum()
    }
}

/// Returns the processor time of a process and of its children that were reaped, in ticks.
fn ticks_of(pid: i32) -> Option<u64> {
    let text = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    // The name in parentheses may contain anything. Behind it, the times are the fields 12 to 15.
    let fields = text.rsplit_once(')')?.1.split_whitespace();
    Some(fields.skip(11).take(4).filter_map(|field| field.parse::<u64>().ok()).sum())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn processor_time_is_found() {
        let own = i32::try_from(std::process::id()).expect("a number");
        let before = ticks_of(own).expect("this process");
        let begin = Instant::now();
        while ticks_of(own).expect("this process") <= before {
            assert!(begin.elapsed() < Duration::from_secs(60), "no processor time was counted");
        }
        assert_eq!(ticks_of(-1), None);
    }
}
