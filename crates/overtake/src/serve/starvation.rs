//! Watch over the threads of long queries: the workers of analytics by class, and the threads of queries that are
//! answered by rows. They starve when other threads of the machine leave them no processor.
//!
//! **Invariant:** a group of threads is called starved only if they were ready to run but hardly ran: threads that wait for locks,
//! memory, each other or work are not starved.
//!
//! The kernel counts both for each thread, time on a processor and time ready without one (`schedstat`). It adds a wait to the
//! count when the wait ends, so a thread that waits throughout is known by its state.

use super::urgent::UrgentQueue;
use locked::{Locked, LockedResult};
use preempt::os::{self, RunDelay};
use sched::Scheduler;
use stage::Class;
use stage::observe::{SchedulerRow, Scheduling};
use std::cell::Cell;
use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::sync::{Arc, Condvar, Mutex};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

/// Time between two looks.
const PERIOD: Duration = Duration::from_secs(1);
/// Minimum time between two log lines of one class.
const LOG_PERIOD: Duration = Duration::from_secs(60);
/// Divisor of the period: starved threads ran for less than one part in this many of it.
const RAN_PART: u32 = 50;

/// Threads of one kind, and the last verdict on them.
#[derive(Default)]
struct ThreadGroup {
    threads: Mutex<Threads>,
    is_starved: AtomicBool,
}

#[derive(Default)]
struct Threads {
    live: Vec<ThreadCounters>,
    /// Times of threads that have ended, so that a sum never falls.
    ended: ThreadTimes,
}

/// Threads of analytics by class, in the order of [`Class::ALL`], and those of long queries by rows.
#[derive(Default)]
pub struct StarvationWatch {
    classes: [ThreadGroup; 3],
    by_rows: ThreadGroup,
    stopped: Mutex<bool>,
    changed: Condvar,
}

/// Thread that looks at a [`StarvationWatch`]. Dropping it ends the thread.
pub struct Watcher {
    watch: Arc<StarvationWatch>,
    thread: Option<JoinHandle<()>>,
}

/// Counters of one thread that the kernel keeps.
struct ThreadCounters {
    times: RunDelay,
    /// File `stat`: the state is its third field.
    state: File,
    /// Times as they were last read, on a processor and ready without one.
    last: (Duration, Duration),
}

/// State between two looks at one kind of threads.
#[derive(Default)]
struct PreviousLook {
    before: Option<ThreadTimes>,
    logged: Option<Instant>,
}

/// Times of threads of one kind, added up.
#[derive(Clone, Copy, Default)]
struct ThreadTimes {
    ran: Duration,
    waited: Duration,
    /// True if a thread is on a processor or ready.
    is_ready: bool,
}

impl ThreadCounters {
    fn of_current() -> io::Result<ThreadCounters> {
        let state = File::open(format!("/proc/self/task/{}/stat", os::thread_id()))?;
        Ok(ThreadCounters { times: RunDelay::open_current()?, state, last: Default::default() })
    }

    /// Adds this thread's times. Returns false if it has ended.
    fn add_to(&mut self, sums: &mut ThreadTimes) -> bool {
        let mut bytes = [0; 512];
        let count = self.state.read_at(&mut bytes, 0).unwrap_or(0);
        let is_alive = 0 < count;
        if is_alive {
            let (ran_ns, waited_ns) = self.times.read_both_ns();
            self.last = (Duration::from_nanos(ran_ns), Duration::from_nanos(waited_ns));
        }
        sums.ran += self.last.0;
        sums.waited += self.last.1;
        // The name of the thread stands in brackets before the state and may contain anything.
        let state = bytes[..count].rsplit(|byte| *byte == b')').next().unwrap_or(&[]);
        sums.is_ready |= state.trim_ascii_start().starts_with(b"R");
        is_alive
    }
}

impl ThreadGroup {
    fn add_current(&self) {
        match ThreadCounters::of_current() {
            Ok(counter) => self.threads.locked().live.push(counter),
            Err(error) => tracing::debug!(%error, "this kernel does not say how long threads wait for a processor"),
        }
    }

    fn sums(&self) -> ThreadTimes {
        let mut threads = self.threads.locked();
        let Threads { live, ended } = &mut *threads;
        let mut sums = *ended;
        live.retain_mut(|counters| {
            let is_alive = counters.add_to(&mut sums);
            if !is_alive {
                ended.ran += counters.last.0;
                ended.waited += counters.last.1;
            }
            is_alive
        });
        sums
    }
}

impl PreviousLook {
    /// Judges the period since the last look. Without work nothing is compared: a class that has just got some is given
    /// a whole period. Returns true if the verdict belongs into the log.
    fn judge(&mut self, watched: &ThreadGroup, has_work: bool, now: Instant, passed: Duration) -> bool {
        let sums = has_work.then(|| watched.sums());
        let is_starved = self.before.zip(sums).is_some_and(|(before, now)| starves(before, now, passed));
        self.before = sums;
        let was_starved = watched.is_starved.swap(is_starved, Relaxed);
        let is_due = self.logged.is_none_or(|last| LOG_PERIOD <= now.duration_since(last));
        let is_told = is_starved && !was_starved && is_due;
        if is_told {
            self.logged = Some(now);
        }
        is_told
    }
}

impl StarvationWatch {
    /// Adds the current thread to those of analytics of a class.
    pub fn add_current(&self, class: Class) {
        self.of(class).add_current();
    }

    /// Adds the current thread to those of long queries by rows, at its first query.
    pub fn add_current_by_rows(&self) {
        thread_local! {
            static IS_ADDED: Cell<bool> = const { Cell::new(false) };
        }
        if !IS_ADDED.replace(true) {
            self.by_rows.add_current();
        }
    }

    fn of(&self, class: Class) -> &ThreadGroup {
        let at = Class::ALL.iter().position(|one| *one == class);
        &self.classes[at.expect("all classes are there")]
    }

    /// Starts the thread that looks at the watch. `schedulers` are those of the classes.
    ///
    /// # Errors
    /// If the thread cannot be started.
    pub fn start(self: &Arc<StarvationWatch>, schedulers: Vec<(Class, Arc<Scheduler>)>) -> io::Result<Watcher> {
        let watch = Arc::clone(self);
        let thread = thread::Builder::new().name("starvation".to_owned()).spawn(move || watch.run(&schedulers))?;
        Ok(Watcher { watch: Arc::clone(self), thread: Some(thread) })
    }

    fn run(&self, schedulers: &[(Class, Arc<Scheduler>)]) {
        let mut looks: Vec<PreviousLook> = schedulers.iter().map(|_| PreviousLook::default()).collect();
        let mut by_rows = PreviousLook::default();
        let mut looked = Instant::now();
        let mut stopped = self.stopped.locked_anyway();
        loop {
            let waited = self.changed.wait_timeout_while(stopped, PERIOD, |stopped| !*stopped);
            stopped = waited.anyway().0;
            if *stopped {
                return;
            }
            let (now, passed) = (Instant::now(), looked.elapsed());
            looked = now;
            if by_rows.judge(&self.by_rows, true, now, passed) {
                tracing::warn!(
                    "long queries by rows get no processor: other threads of this machine keep all of them busy; \
                     overtake.analytics_threads = ordinary lets them compete"
                );
            }
            for (look, (class, scheduler)) in looks.iter_mut().zip(schedulers) {
                if look.judge(self.of(*class), 0 < scheduler.low_jobs(), now, passed) {
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

/// Judges one period of threads of one kind.
fn starves(before: ThreadTimes, now: ThreadTimes, passed: Duration) -> bool {
    let ran = now.ran.saturating_sub(before.ran);
    let waited = now.waited.saturating_sub(before.waited);
    // A thread that neither waited nor is ready is blocked, and that is not starvation.
    ran * RAN_PART < passed && (passed / 2 <= waited || (before.is_ready && now.is_ready))
}

impl Drop for Watcher {
    fn drop(&mut self) {
        *self.watch.stopped.locked_anyway() = true;
        self.watch.changed.notify_all();
        if let Some(thread) = self.thread.take() {
            // A panic of the thread has been reported.
            drop(thread.join());
        }
    }
}

/// The scheduler's view with the watch's verdict, and the urgent calls.
pub struct WithVerdict {
    /// Queues and workers.
    pub inner: Arc<dyn Scheduling>,
    /// Verdict by class.
    pub watch: Arc<StarvationWatch>,
    /// Urgent calls, if the workers make any.
    pub urgent: Option<Arc<UrgentQueue>>,
}

impl Scheduling for WithVerdict {
    fn scheduler(&self) -> Vec<SchedulerRow> {
        let mut rows = self.inner.scheduler();
        for row in &mut rows {
            row.is_starved = self.is_starved(row.class);
            if let Some(urgent) = &self.urgent {
                row.urgent = urgent.row(row.class);
            }
        }
        rows
    }

    fn is_starved(&self, class: Class) -> bool {
        self.watch.of(class).is_starved.load(Relaxed)
    }

    fn are_rows_starved(&self) -> bool {
        self.watch.by_rows.is_starved.load(Relaxed)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_class_that_is_ready_and_hardly_runs_starves() {
        let sums = |ran, waited, is_ready| ThreadTimes {
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
        let mut counters = ThreadCounters::of_current().expect("schedstat and stat");
        let mut sums = ThreadTimes::default();
        while sums.ran == Duration::ZERO {
            sums = ThreadTimes::default();
            counters.add_to(&mut sums);
        }
        assert!(sums.is_ready, "who asks is on a processor");
    }
}
