//! Watch over the workers of analytics: a class starves when other threads of the machine leave it no processor.
//!
//! **Invariant:** a class is called starved only if it has queries and its threads were ready to run but hardly ran: threads
//! that wait for locks, memory or each other are not starved.
//!
//! The kernel counts both for each thread, time on a processor and time ready without one (`schedstat`). It adds a wait to the
//! count when the wait ends, so a thread that waits throughout is known by its state.

use preempt::os::{self, RunDelay};
use sched::Scheduler;
use sql::observe::{SchedulerRow, Scheduling};
use stage::Class;
use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

/// Time between two looks.
const PERIOD: Duration = Duration::from_secs(1);
/// Log lines of one class are at least this far apart.
const LOG_PERIOD: Duration = Duration::from_secs(60);
/// A starved class ran for less than one part in this many of the period.
const RAN_PART: u32 = 50;

/// Threads of one class, and the last verdict on them.
#[derive(Default)]
struct Watched {
    threads: Mutex<Vec<Counters>>,
    is_starved: AtomicBool,
}

/// Threads of all classes, in the order of [`Class::ALL`].
#[derive(Default)]
pub struct Watch {
    classes: [Watched; 3],
    stopped: Mutex<bool>,
    changed: Condvar,
}

/// Thread that looks at a [`Watch`]. Dropping it ends the thread.
pub struct Watcher {
    watch: Arc<Watch>,
    thread: Option<JoinHandle<()>>,
}

/// Counters of one thread that the kernel keeps.
struct Counters {
    times: RunDelay,
    /// `stat`: the state is its third field.
    state: File,
}

/// Times of a class's threads, added up.
#[derive(Clone, Copy, Default)]
struct Sums {
    ran: Duration,
    waited: Duration,
    /// True if a thread is on a processor or ready.
    is_ready: bool,
}

impl Counters {
    fn of_current() -> io::Result<Counters> {
        let state = File::open(format!("/proc/self/task/{}/stat", os::thread_id()))?;
        Ok(Counters { times: RunDelay::open_current()?, state })
    }

    fn add_to(&self, sums: &mut Sums) {
        let (ran_ns, waited_ns) = self.times.read_both_ns();
        sums.ran += Duration::from_nanos(ran_ns);
        sums.waited += Duration::from_nanos(waited_ns);
        let mut bytes = [0; 512];
        let count = self.state.read_at(&mut bytes, 0).unwrap_or(0);
        // The name of the thread stands in brackets before the state and may hold anything.
        let state = bytes[..count].rsplit(|byte| *byte == b')').next().unwrap_or(&[]);
        sums.is_ready |= state.trim_ascii_start().starts_with(b"R");
    }
}

fn lock<T>(of: &Mutex<T>) -> MutexGuard<'_, T> {
    of.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Watch {
    /// Adds the current thread to those of a class.
    pub fn add_current(&self, class: Class) {
        match Counters::of_current() {
            Ok(counter) => lock(&self.of(class).threads).push(counter),
            Err(error) => tracing::debug!(%error, "this kernel does not say how long threads wait for a processor"),
        }
    }

    fn of(&self, class: Class) -> &Watched {
        let at = Class::ALL.iter().position(|one| *one == class);
        &self.classes[at.expect("all classes are there")]
    }

    fn sums(&self, class: Class) -> Sums {
        let mut sums = Sums::default();
        lock(&self.of(class).threads).iter().for_each(|counters| counters.add_to(&mut sums));
        sums
    }

    /// Starts the thread that looks at the watch. `schedulers` are those of the classes.
    ///
    /// # Errors
    /// The thread cannot be started.
    pub fn start(self: &Arc<Watch>, schedulers: Vec<(Class, Arc<Scheduler>)>) -> io::Result<Watcher> {
        let watch = Arc::clone(self);
        let thread = thread::Builder::new().name("starvation".to_owned()).spawn(move || watch.run(&schedulers))?;
        Ok(Watcher { watch: Arc::clone(self), thread: Some(thread) })
    }

    fn run(&self, schedulers: &[(Class, Arc<Scheduler>)]) {
        let mut before: Vec<Option<Sums>> = schedulers.iter().map(|_| None).collect();
        let mut logged: Vec<Option<Instant>> = schedulers.iter().map(|_| None).collect();
        let mut looked = Instant::now();
        let mut stopped = lock(&self.stopped);
        loop {
            let waited = self.changed.wait_timeout_while(stopped, PERIOD, |stopped| !*stopped);
            stopped = waited.unwrap_or_else(PoisonError::into_inner).0;
            if *stopped {
                return;
            }
            let (now, passed) = (Instant::now(), looked.elapsed());
            looked = now;
            for (at, (class, scheduler)) in schedulers.iter().enumerate() {
                // Without queries nothing is compared: a class that has just got one is given a whole period.
                let sums = (0 < scheduler.low_jobs()).then(|| self.sums(*class));
                let is_starved = before[at].zip(sums).is_some_and(|(before, now)| starves(before, now, passed));
                before[at] = sums;
                let was_starved = self.of(*class).is_starved.swap(is_starved, Relaxed);
                let is_due = logged[at].is_none_or(|last| LOG_PERIOD <= now.duration_since(last));
                if is_starved && !was_starved && is_due {
                    logged[at] = Some(now);
                    tracing::warn!(
                        class = class.name(),
                        "analytics get no processor: other threads of this machine keep all of them busy; \
                         overtake.analytics_threads = ordinary lets them compete"
                    );
                }
            }
        }
    }
}

/// Judges one period of a class.
fn starves(before: Sums, now: Sums, passed: Duration) -> bool {
    let ran = now.ran.saturating_sub(before.ran);
    let waited = now.waited.saturating_sub(before.waited);
    // A class that neither waited nor is ready is blocked, and that is not starvation.
    ran * RAN_PART < passed && (passed / 2 <= waited || (before.is_ready && now.is_ready))
}

impl Drop for Watcher {
    fn drop(&mut self) {
        *lock(&self.watch.stopped) = true;
        self.watch.changed.notify_all();
        if let Some(thread) = self.thread.take() {
            // A panic of it has been reported.
            drop(thread.join());
        }
    }
}

/// The scheduler's view with the watch's verdict.
pub struct WithVerdict {
    /// Queues and workers.
    pub inner: Arc<dyn Scheduling>,
    /// Verdict by class.
    pub watch: Arc<Watch>,
}

impl Scheduling for WithVerdict {
    fn scheduler(&self) -> Vec<SchedulerRow> {
        let mut rows = self.inner.scheduler();
        for row in &mut rows {
            row.is_starved = self.is_starved(row.class);
        }
        rows
    }

    fn is_starved(&self, class: Class) -> bool {
        self.watch.of(class).is_starved.load(Relaxed)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_class_that_is_ready_and_hardly_runs_starves() {
        let sums = |ran, waited, is_ready| Sums {
            ran: Duration::from_millis(ran),
            waited: Duration::from_millis(waited),
            is_ready,
        };
        let starved = |before, now| starves(before, now, Duration::from_secs(1));
        assert!(starved(sums(500, 100, true), sums(510, 100, true)), "it waits throughout");
        assert!(starved(sums(500, 100, false), sums(505, 900, false)), "it ran for a moment");
        assert!(!starved(sums(500, 100, false), sums(500, 100, false)), "it is blocked");
        assert!(!starved(sums(500, 100, true), sums(500, 100, false)), "it was ready at one end only");
        assert!(!starved(sums(500, 100, true), sums(600, 900, true)), "it runs a tenth of the time");
    }

    #[test]
    fn the_kernel_tells_of_this_thread() {
        let counters = Counters::of_current().expect("schedstat and stat");
        let mut sums = Sums::default();
        while sums.ran == Duration::ZERO {
            sums = Sums::default();
            counters.add_to(&mut sums);
        }
        assert!(sums.is_ready, "who asks is on a processor");
    }
}
