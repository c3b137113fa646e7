//! Transfer of the workers' event rings into the page's history. Runs on a thread of its own, never on a worker.

use super::admission::EndedRun;
use crate::data::{Data, TICKET, TransactionOutcome};
use crate::mixed::{Schedule, is_on_cpu};
use demo::EventHistory;
use demo::facts::{Policy, WorkerContext};
use demo::records::{QueryRun, Span, Start, UrgentOutcome, UrgentTransaction};
use locked::Locked;
use sched::{Completed, Ended, Event, Scheduler};
use std::collections::VecDeque;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Mutex};

/// Instance as the collector sees it.
pub struct CollectedInstance {
    /// Policy of the instance.
    pub policy: Policy,
    /// Scheduler, which has the events.
    pub scheduler: Arc<Scheduler>,
    /// Counter of the New-Orders that have ended.
    pub ended: Arc<AtomicU64>,
    /// Runs that have ended.
    pub ended_runs: Arc<Mutex<Vec<EndedRun>>>,
    /// Starts of transactions whose query has not ended, by worker.
    overtaking: Vec<VecDeque<u64>>,
    events_lost: u64,
}

impl CollectedInstance {
    /// Creates the source of an instance.
    pub fn new(
        policy: Policy,
        scheduler: Arc<Scheduler>,
        ended: Arc<AtomicU64>,
        ended_runs: Arc<Mutex<Vec<EndedRun>>>,
    ) -> CollectedInstance {
        let overtaking = vec![VecDeque::new(); scheduler.workers()];
        CollectedInstance { policy, scheduler, ended, ended_runs, overtaking, events_lost: 0 }
    }

    /// Moves the events since the last call into `history`.
    pub fn collect(&mut self, data: &Data, schedule: Option<&Schedule>, history: &EventHistory) {
        let CollectedInstance { policy, scheduler, ended, overtaking, .. } = self;
        scheduler.drain_events(&mut |event| {
            if let Event::Completed(completed) = event {
                ended.fetch_add(1, Relaxed);
                if let Some(transaction) = transaction(*policy, &completed, data, schedule) {
                    overtaking[transaction.worker].push_back(transaction.started_ns);
                    history.transaction(transaction);
                }
            }
        });
        let lost = self.scheduler.counters().events_lost;
        if self.events_lost < lost {
            history.lost(lost - self.events_lost);
            self.ended.fetch_add(lost - self.events_lost, Relaxed);
            self.events_lost = lost;
        }
        let runs = std::mem::take(&mut *self.ended_runs.locked());
        for run in runs {
            self.run(run, history);
        }
    }

    fn run(&mut self, run: EndedRun, history: &EventHistory) {
        let mut overtaken_count = 0;
        if let Some(worker) = run.worker {
            let starts = &mut self.overtaking[worker];
            while let Some(at_ns) = starts.front().copied().filter(|at_ns| *at_ns < run.ended_ns) {
                overtaken_count += u64::from(run.started_ns <= at_ns);
                starts.pop_front();
            }
            history.span(Span {
                policy: self.policy,
                worker,
                context: WorkerContext::Query,
                start_ns: run.started_ns,
                end_ns: run.ended_ns,
            });
        }
        history.run(QueryRun {
            policy: self.policy,
            query: run.query,
            started_ns: run.started_ns,
            ended_ns: run.ended_ns,
            overtaken_count,
            finished: run.is_finished,
        });
    }
}

fn transaction(
    policy: Policy,
    completed: &Completed,
    data: &Data,
    schedule: Option<&Schedule>,
) -> Option<UrgentTransaction> {
    let submit_ns = completed.stamps.submit_ns?;
    let is_ticket = completed.id & TICKET != 0;
    // The schedule of arrivals that have stopped is gone; requests left over count from their submission.
    let due_ns = schedule.filter(|_| !is_ticket).map_or(submit_ns, |schedule| schedule.at_ns(completed.id));
    let outcome = match (completed.ended, data.ending(completed.id)) {
        (Ended::Done, TransactionOutcome::Committed) => UrgentOutcome::Committed,
        (Ended::Done, TransactionOutcome::RolledBack) => UrgentOutcome::RolledBack,
        (Ended::Done, TransactionOutcome::Failed) | (Ended::Panicked | Ended::Exhausted, _) => UrgentOutcome::Failed,
    };
    Some(UrgentTransaction {
        ticket: if is_ticket { completed.id & !TICKET } else { 0 },
        policy,
        worker: completed.worker as usize,
        arrived_ns: due_ns.min(submit_ns),
        started_ns: completed.first_run_ns,
        ended_ns: completed.stamps.end_ns?,
        start: match completed.start {
            sched::Start::Polled => Start::Polled,
            sched::Start::Signalled => Start::Signalled,
            sched::Start::Deferred => Start::Deferred,
            sched::Start::Yielded => Start::Yielded,
            sched::Start::Boundary => Start::Boundary,
            sched::Start::Idle | sched::Start::Dedicated | sched::Start::Claimed => Start::Idle,
        },
        aborts_count: completed.attempts.saturating_sub(1 + completed.parks),
        is_on_cpu: is_on_cpu(completed),
        outcome,
    })
}
