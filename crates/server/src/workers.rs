//! Threads to which statements are handed, by priority: those that would hold up the sessions of the thread that has
//! read them.
//!
//! **Invariant:** no thread waits for a statement; the session that handed it over is notified when it is done.
//! Statements that nobody waits for any more still run to their end.

use locked::{Locked, LockedResult};
use stage::Class;
use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::io;
use std::sync::{Arc, Condvar, Mutex};
use std::thread;
use tokio::sync::oneshot;

/// Choice of the thread that runs a statement.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Dispatch {
    /// The thread that has read it, if it is known to be short.
    #[default]
    Spot,
    /// A thread of [`Workers`], for every statement.
    Worker,
}

type Job = Box<dyn FnOnce() + Send>;

/// Number of processors available to this process.
pub fn processors() -> usize {
    thread::available_parallelism().map_or(1, std::num::NonZero::get)
}

/// Waiting job. Higher classes come first, then older jobs.
struct WaitingJob {
    order: Reverse<(Class, u64)>,
    job: Job,
}

impl PartialEq for WaitingJob {
    fn eq(&self, other: &WaitingJob) -> bool {
        self.order == other.order
    }
}

impl Eq for WaitingJob {}

impl PartialOrd for WaitingJob {
    fn partial_cmp(&self, other: &WaitingJob) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for WaitingJob {
    fn cmp(&self, other: &WaitingJob) -> std::cmp::Ordering {
        self.order.cmp(&other.order)
    }
}

#[derive(Default)]
struct JobQueue {
    waiting: BinaryHeap<WaitingJob>,
    arrivals: u64,
    is_over: bool,
}

#[derive(Default)]
struct WorkersShared {
    queue: Mutex<JobQueue>,
    more: Condvar,
}

/// Pool of threads. Dropping it ends them.
pub struct Workers(Arc<WorkersShared>);

impl std::fmt::Debug for Workers {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Workers")
    }
}

impl Workers {
    /// Starts `count` threads; each calls `begun` first.
    ///
    /// # Errors
    /// A thread cannot be started.
    pub fn new(count: usize, begun: impl Fn() + Clone + Send + 'static) -> io::Result<Arc<Workers>> {
        let shared = Arc::new(WorkersShared::default());
        let workers = Arc::new(Workers(Arc::clone(&shared)));
        for at in 0..count {
            let (shared, begun) = (Arc::clone(&shared), begun.clone());
            let thread = thread::Builder::new().name(format!("statement {at}")).stack_size(crate::network::STACK_BYTES);
            thread.spawn(move || {
                begun();
                shared.work();
            })?;
        }
        Ok(workers)
    }

    /// Runs a job on one of the threads. Returns `None` if it panicked.
    pub async fn run<R: Send + 'static>(&self, class: Class, job: impl FnOnce() -> R + Send + 'static) -> Option<R> {
        let (done, result) = oneshot::channel();
        {
            let mut queue = self.0.queue.locked();
            queue.arrivals += 1;
            let order = Reverse((class, queue.arrivals));
            let job = Box::new(move || drop(done.send(job())));
            queue.waiting.push(WaitingJob { order, job });
        }
        self.0.more.notify_one();
        result.await.ok()
    }
}

impl Drop for Workers {
    fn drop(&mut self) {
        // The drop may be part of the unwinding of a panic under this lock.
        self.0.queue.locked_anyway().is_over = true;
        self.0.more.notify_all();
    }
}

impl WorkersShared {
    fn work(&self) {
        let mut queue = self.queue.locked();
        loop {
            if let Some(next) = queue.waiting.pop() {
                drop(queue);
                // The session of a job that panics notices it by the end of its channel.
                let _ = std::panic::catch_unwind(std::panic::AssertUnwindSafe(next.job));
                queue = self.queue.locked();
            } else if queue.is_over {
                return;
            } else {
                queue = self.more.wait(queue).or_end_process();
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::mpsc;

    #[tokio::test]
    async fn the_more_important_is_first() {
        let workers = Workers::new(1, || {}).expect("a thread");
        let (hold, held) = mpsc::channel::<()>();
        let (order, ran) = mpsc::channel();
        let begun = Arc::new(tokio::sync::Notify::new());
        let first = {
            let (workers, begun) = (workers.clone(), begun.clone());
            tokio::spawn(async move {
                workers
                    .run(Class::Low, move || {
                        begun.notify_one();
                        held.recv()
                    })
                    .await
            })
        };
        begun.notified().await;
        let rest = [Class::Low, Class::Normal, Class::High, Class::Normal].map(|class| {
            let order = order.clone();
            let mut run = Box::pin(workers.run(class, move || order.send(class)));
            // After its first poll, the job is in the queue.
            let waker = std::task::Waker::noop();
            assert!(run.as_mut().poll(&mut std::task::Context::from_waker(waker)).is_pending());
        });
        drop(hold);
        assert!(first.await.expect("a task").is_some());
        drop((rest, order, workers));
        assert_eq!(ran.iter().collect::<Vec<_>>(), [Class::High, Class::Normal, Class::Normal, Class::Low]);
    }

    #[tokio::test]
    async fn a_panic_is_told() {
        let workers = Workers::new(1, || {}).expect("a thread");
        assert_eq!(workers.run(Class::High, || panic!("on purpose")).await, None::<()>);
        assert_eq!(workers.run(Class::High, || 1).await, Some(1));
    }
}
