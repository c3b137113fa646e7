//! Urgent calls as requests of the analytics' schedulers.
//!
//! A call goes to a scheduler with a worker that runs a query now, on another processor: the least important one, which
//! holds up the least. If there is none, the thread that has read the call has a processor and makes it at once. The
//! scheduler raises a worker of the class SCHED_IDLE for the call: the worker may have lost its processor when the call
//! comes, and must not lose it while the call has locks of rows. That needs a privilege (CAP_SYS_NICE, or a limit that allows
//! it). Without it, such workers get no calls.
//!
//! **Invariant:** what runs here may run in an urgent context: no lock, no log; counts are relaxed atomics.

use olap::Workers;
use sched::{Request, RunCx, RunOutcome, Scheduler, Start};
use server::metrics::family;
use sql::session::{GaveUp, UrgentCounts, UrgentScheduler, UrgentWork};
use stage::Class;
use stage::TimeSpread;
use stage::observe::UrgentRow;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

/// Scheduler of one class, with what is counted about its urgent calls.
struct UrgentTarget {
    class: Class,
    scheduler: Arc<Scheduler>,
    started: Arc<TimeSpread>,
}

/// Queue of urgent calls.
pub struct UrgentQueue {
    /// The least important first.
    targets: Vec<UrgentTarget>,
    next: AtomicU64,
}

impl UrgentQueue {
    /// Creates the queue over the schedulers of these workers.
    pub fn new<'w>(all: impl IntoIterator<Item = (Class, &'w Workers)>) -> Arc<UrgentQueue> {
        let target = |(class, workers): (Class, &Workers)| UrgentTarget {
            class,
            scheduler: Arc::clone(workers.scheduler()),
            started: Arc::default(),
        };
        let mut targets: Vec<UrgentTarget> = all.into_iter().map(target).collect();
        targets.sort_by_key(|target| std::cmp::Reverse(target.class));
        if targets.iter().any(|target| target.scheduler.is_kept_down()) {
            tracing::info!(
                "urgent procedures interrupt no worker of the class SCHED_IDLE: that needs CAP_SYS_NICE or LimitNICE=20, \
                 or overtake.analytics_threads = ordinary"
            );
        }
        Arc::new(UrgentQueue { targets, next: AtomicU64::new(0) })
    }

    /// Returns the scheduler that gets the next call, and the worker that it interrupts.
    fn target(&self) -> Option<(&UrgentTarget, usize)> {
        let is_busy = |target: &&UrgentTarget| !target.scheduler.is_kept_down() && 0 < target.scheduler.low_jobs();
        self.targets.iter().filter(is_busy).find_map(|target| Some((target, target.scheduler.interruptible()?)))
    }

    /// Returns the figures of a class.
    pub fn row(&self, class: Class) -> UrgentRow {
        let Some(target) = self.targets.iter().find(|target| target.class == class) else {
            return UrgentRow::default();
        };
        let counters = target.scheduler.counters();
        let times = target.started.times();
        let interrupts = [Start::Polled, Start::Signalled, Start::Deferred];
        UrgentRow {
            calls: counters.completed,
            interrupting: interrupts.into_iter().map(|start| counters.started(start)).sum(),
            claimed: counters.started(Start::Claimed),
            held_back: counters.capped,
            rejected: counters.rejected,
            start_p50_us: times.p50_us,
            start_p99_us: times.p99_us,
        }
    }
}

/// Name, kind and description of a metric, and the figure of a row that it tells.
type UrgentFigure = (&'static str, &'static str, &'static str, fn(&UrgentRow) -> f64);

/// Returns the metrics of urgent calls in Prometheus' text format.
pub fn metrics(queue: &UrgentQueue, counts: &UrgentCounts) -> String {
    let mut out = String::new();
    let ends = [("committed", counts.committed), ("failed", counts.failed), ("at_once", counts.at_once)];
    let gave_up = GaveUp::ALL.into_iter().zip(counts.gave_up).map(|(why, count)| (why.name(), count));
    let values = |all: &mut dyn Iterator<Item = (&'static str, u64)>, label: &str| -> Vec<(String, f64)> {
        all.map(|(name, count)| (format!("{label}=\"{name}\""), count as f64)).collect()
    };
    let help = "Calls of urgent procedures of class high, by their ends.";
    let all = values(&mut ends.into_iter().chain(gave_up), "end");
    family(&mut out, ("overtake_urgent_calls_total", "counter", help), &all);
    let of = |figure: fn(&UrgentRow) -> f64| -> Vec<(String, f64)> {
        Class::ALL.map(|class| (format!("class=\"{}\"", class.name()), figure(&queue.row(class)))).into()
    };
    let figures: [UrgentFigure; 4] = [
        (
            "overtake_urgent_interrupting_total",
            "counter",
            "Urgent calls that have interrupted a query, by the class of its workers.",
            |row| row.interrupting as f64,
        ),
        ("overtake_urgent_claimed_total", "counter", "Urgent calls that the claimer has made.", |row| {
            row.claimed as f64
        }),
        (
            "overtake_urgent_held_back_total",
            "counter",
            "Times that urgent calls had to wait because queries were owed time.",
            |row| row.held_back as f64,
        ),
        (
            "overtake_urgent_start_p99_seconds",
            "gauge",
            "99th percentile of the times from the hand-over to the first instruction.",
            |row| row.start_p99_us / 1e6,
        ),
    ];
    for (name, kind, help, figure) in figures {
        family(&mut out, (name, kind, help), &of(figure));
    }
    out
}

/// Makes the call on the thread of a worker, or of the claimer.
fn make(cx: &RunCx<'_>, work: &dyn UrgentWork, started: &TimeSpread) -> RunOutcome {
    if let Some(delay_ns) = cx.request.clock().stamps().start_delay_ns() {
        started.add(delay_ns);
    }
    work.run();
    RunOutcome::Done
}

impl UrgentScheduler for UrgentQueue {
    fn can_interrupt(&self) -> bool {
        self.target().is_some()
    }

    fn submit(&self, work: Arc<dyn UrgentWork>) -> bool {
        let Some((target, worker)) = self.target() else { return false };
        let started = Arc::clone(&target.started);
        let id = self.next.fetch_add(1, Relaxed);
        let work = move |cx: &RunCx<'_>| make(cx, &*work, &started);
        target.scheduler.submit_to(worker, Arc::new(Request::new(id, Class::High, Box::new(work)))).is_ok()
    }
}
