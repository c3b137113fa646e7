//! Workers that run requests alone: threads that sleep until the scheduler interrupts them.

use anyhow::Context;
use sched::{Scheduler, SchedulerSettings};
use std::sync::atomic::{AtomicBool, Ordering::SeqCst};
use std::sync::{Arc, mpsc};
use std::thread::{self, JoinHandle};

/// Scheduler and its workers. Dropping the value ends both.
pub struct Workers {
    scheduler: Arc<Scheduler>,
    is_over: Arc<AtomicBool>,
    threads: Vec<JoinHandle<()>>,
}

impl Workers {
    /// Starts a scheduler and as many workers as `settings` says.
    ///
    /// # Errors
    /// If threads cannot be started or registered.
    pub fn start(settings: SchedulerSettings) -> anyhow::Result<Workers> {
        let scheduler = Arc::new(Scheduler::new(settings).context("the scheduler cannot be started")?);
        let is_over = Arc::new(AtomicBool::new(false));
        let mut workers = Workers { scheduler, is_over, threads: Vec::new() };
        let (ready, readies) = mpsc::channel();
        for index in 0..workers.scheduler.workers() {
            let (scheduler, is_over, ready) =
                (Arc::clone(&workers.scheduler), Arc::clone(&workers.is_over), ready.clone());
            let body = move || {
                let attached = scheduler.attach(index);
                let is_attached = attached.is_ok();
                // The receiver is gone only if another worker failed. It waits until all senders are gone.
                let _ = ready.send(attached);
                drop(ready);
                if is_attached {
                    sleep_until_over(&scheduler, &is_over);
                    scheduler.detach();
                }
            };
            workers.threads.push(thread::Builder::new().name(format!("locks-{index}")).spawn(body)?);
        }
        drop(ready);
        for attached in readies {
            attached.context("a thread cannot be a worker")?;
        }
        Ok(workers)
    }

    /// Returns the workers' scheduler.
    pub fn scheduler(&self) -> &Arc<Scheduler> {
        &self.scheduler
    }
}

/// Sleeps; all work is done by interrupts of this sleep.
fn sleep_until_over(scheduler: &Scheduler, is_over: &AtomicBool) {
    while !is_over.load(SeqCst) {
        scheduler.thread_parks();
        thread::park();
        scheduler.thread_unparks();
    }
}

impl Drop for Workers {
    fn drop(&mut self) {
        self.is_over.store(true, SeqCst);
        for thread in self.threads.drain(..) {
            thread.thread().unpark();
            thread.join().expect("a worker does not panic");
        }
        self.scheduler.shutdown();
    }
}
