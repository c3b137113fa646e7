//! A small runtime whose threads are the workers: a queue of tasks, and hooks around its sleep, as tokio has them.

use sched::{Event, Finish, Request, RunCx, RunOutcome, Scheduler, SchedulerSettings};
use stage::Class;
use std::collections::VecDeque;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::SeqCst};
use std::sync::{Arc, Condvar, Mutex};
use std::thread::JoinHandle;

type Task = Box<dyn FnOnce() + Send>;

#[derive(Default)]
struct Tasks {
    queue: VecDeque<Task>,
    is_closed: bool,
}

#[derive(Default)]
pub struct Pool {
    tasks: Mutex<Tasks>,
    changed: Condvar,
}

impl Pool {
    pub fn spawn(&self, task: impl FnOnce() + Send + 'static) {
        self.tasks.lock().unwrap().queue.push_back(Box::new(task));
        self.changed.notify_one();
    }

    fn close(&self) {
        self.tasks.lock().unwrap().is_closed = true;
        self.changed.notify_all();
    }

    fn work(&self, scheduler: &Scheduler) {
        loop {
            let mut tasks = self.tasks.lock().unwrap();
            if let Some(task) = tasks.queue.pop_front() {
                drop(tasks);
                task();
                continue;
            }
            if tasks.is_closed {
                return;
            }
            drop(tasks);
            scheduler.thread_parks();
            let mut tasks = self.tasks.lock().unwrap();
            while tasks.queue.is_empty() && !tasks.is_closed {
                tasks = self.changed.wait(tasks).unwrap();
            }
            drop(tasks);
            scheduler.thread_unparks();
        }
    }
}

/// A scheduler with its workers.
pub struct Runtime {
    pub scheduler: Arc<Scheduler>,
    pub pool: Arc<Pool>,
    workers: Vec<JoinHandle<()>>,
}

impl Runtime {
    pub fn new(settings: SchedulerSettings) -> Runtime {
        Runtime::with_start(settings, || ())
    }

    /// Creates a runtime each of whose workers calls `begun` first.
    pub fn with_start(settings: SchedulerSettings, begun: fn()) -> Runtime {
        let scheduler = Arc::new(Scheduler::new(settings).unwrap());
        let pool = Arc::new(Pool::default());
        let workers = (0..scheduler.workers())
            .map(|index| {
                let (scheduler, pool) = (scheduler.clone(), pool.clone());
                std::thread::spawn(move || {
                    begun();
                    scheduler.attach(index).unwrap();
                    pool.work(&scheduler);
                    scheduler.detach();
                })
            })
            .collect();
        let runtime = Runtime { scheduler, pool, workers };
        until(|| (0..runtime.scheduler.workers()).all(|index| runtime.is_idle(index)));
        runtime
    }

    pub fn is_idle(&self, index: usize) -> bool {
        self.scheduler.worker_mode(index) == Some(preempt::Mode::Idle)
    }

    /// Submits a query of one worker that runs `body`.
    pub fn query(&self, body: impl FnOnce() + Send + 'static) -> u64 {
        let pool = self.pool.clone();
        let start = move |finish: Finish| {
            pool.spawn(move || {
                body();
                finish.finish();
            });
        };
        self.scheduler.submit_low(Box::new(start), 1).unwrap()
    }

    /// A query that runs `step` until the gate is open; returns when it runs.
    pub fn query_until(&self, gate: &Arc<Gate>, step: impl Fn() + Send + 'static) -> u64 {
        let gate_there = gate.clone();
        let id = self.query(move || {
            gate_there.entered.store(true, SeqCst);
            while !gate_there.open.load(SeqCst) {
                step();
            }
        });
        until(|| gate.entered.load(SeqCst));
        id
    }

    pub fn submit(
        &self,
        id: u64,
        class: Class,
        run: impl Fn(&RunCx<'_>) -> RunOutcome + Send + Sync + 'static,
    ) -> Arc<Request> {
        let request = Arc::new(Request::new(id, class, Box::new(run)));
        self.scheduler.submit(request.clone()).unwrap();
        request
    }

    pub fn events(&self) -> Vec<Event> {
        let mut events = Vec::new();
        self.scheduler.drain_events(&mut |event| events.push(event));
        events
    }

    /// Ends the workers, then the scheduler.
    pub fn end(self) {
        self.pool.close();
        for worker in self.workers {
            worker.join().unwrap();
        }
        self.scheduler.shutdown();
    }
}

/// Gate that a query of a test waits for.
#[derive(Default)]
pub struct Gate {
    pub entered: AtomicBool,
    pub open: AtomicBool,
}

impl Gate {
    pub fn new() -> Arc<Gate> {
        Arc::default()
    }

    pub fn open(&self) {
        self.open.store(true, SeqCst);
    }
}

/// Adds one to `counter`.
pub fn count(counter: &Arc<AtomicU64>) -> impl Fn(&RunCx<'_>) -> RunOutcome + Send + Sync + 'static {
    let counter = counter.clone();
    move |_| {
        counter.fetch_add(1, SeqCst);
        RunOutcome::Done
    }
}

/// Waits, without sleeping for a fixed time, until `condition` holds.
pub fn until(condition: impl Fn() -> bool) {
    while !condition() {
        std::thread::yield_now();
    }
}
