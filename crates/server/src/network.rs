//! Threads that read the network. Each has a runtime and sessions of its own.
//!
//! A session stays on its thread. A runtime that shares its tasks among threads wakes another one whenever two sessions
//! have something to do at the same time, and a statement by key takes less time than waking a thread.
//!
//! **Invariant:** nothing runs for long on such a thread, so all its sessions are served soon. A statement that is not
//! known to be short is lent to a thread beside it, or to one [`Below`]; one that turns out to be long is taken back
//! and lent as well.

use engine::memory::MESSAGES;
use locked::Locked;
use preempt::os;
use stage::{StageCosts, TickSource, turn};
use std::io;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{self, RecvTimeoutError};
use std::sync::{Arc, Mutex, MutexGuard, Once};
use std::thread::{self, JoinHandle};
use std::time::Duration;
use tokio::runtime::{Builder, Handle, Runtime};
use tokio::sync::oneshot;
use xdp::{Accept, Port};

/// Interface of the kernel by which a server reads and writes TCP.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum NetworkInterface {
    /// Readiness, then one call for each read and write.
    #[default]
    Epoll,
    /// Operations that are submitted and completed together. Where the kernel does not allow that, epoll.
    IoUring,
}

/// Stack size in bytes of a thread that runs statements. Names, types and plans are traversed by recursion, as deep as
/// a statement is nested, which the parser limits. Untouched pages cost nothing.
pub(crate) const STACK_BYTES: usize = 8 << 20;

/// Greatest number of threads [`Below`], more than there are sessions. A session has one job at a time, which may wait for
/// its client for long; with fewer threads, statements of others would wait for that client, too, and hear no cancel.
const BELOW_MAX: usize = 1 << 18;

/// Time that a thread has to drop its sessions when the server ends.
const END_TIME: Duration = Duration::from_secs(1);

/// First step of each thread, in its runtime.
pub type ThreadStart = Arc<dyn Fn() + Send + Sync>;

/// Threads that read the network. Dropping this ends them, and with them all remaining sessions.
pub struct Network(Vec<NetworkThread>);

/// Thread that reads the network. Dropping this ends it.
pub struct NetworkThread {
    runtime: Handle,
    /// Counter of sessions: each one holds a reference.
    place: Arc<()>,
    /// Sender whose drop ends the runtime.
    over: Option<oneshot::Sender<()>>,
    thread: Option<JoinHandle<()>>,
    /// Channel that is closed when the thread has ended its runtime.
    ended: mpsc::Receiver<()>,
}

impl Network {
    /// Starts `count` threads.
    pub fn start(
        count: usize,
        interface: NetworkInterface,
        begun: &ThreadStart,
        lent: &ThreadStart,
    ) -> io::Result<Network> {
        let refused = Arc::new(Once::new());
        // Before there are sessions whose time this would take.
        StageCosts::measured();
        let begun: ThreadStart = match interface {
            NetworkInterface::Epoll => Arc::clone(begun),
            NetworkInterface::IoUring => {
                let begun = Arc::clone(begun);
                Arc::new(move || {
                    start_ring(&refused);
                    begun();
                })
            }
        };
        let start = |at| NetworkThread::start(format!("network {at}"), Arc::clone(&begun), Arc::clone(lent));
        (0..count.max(1)).map(start).collect::<io::Result<_>>().map(Network)
    }

    /// Returns the runtime of the thread with the fewest sessions, and a place there.
    pub fn place(&self) -> (&Handle, Arc<()>) {
        let fewest = self.0.iter().min_by_key(|reader| Arc::strong_count(&reader.place));
        let reader = fewest.expect("there is one thread at least");
        (&reader.runtime, Arc::clone(&reader.place))
    }
}

impl NetworkThread {
    /// Starts a thread for a port of AF_XDP, whose connections are handed to `accept`.
    ///
    /// # Errors
    /// The system has no threads left.
    pub fn of_port(port: Port, accept: Accept, begun: &ThreadStart, lent: &ThreadStart) -> io::Result<NetworkThread> {
        let begun = Arc::clone(begun);
        let once = Mutex::new(Some((port, accept)));
        let begun = move || {
            begun();
            if let Some((port, accept)) = once.locked_anyway().take() {
                let (address, queue, mode) = (port.address(), port.queue(), port.mode());
                let interface = port.interface().to_owned();
                match xdp::start(port, accept) {
                    Ok(()) => tracing::info!(interface, queue, %address, %mode, "AF_XDP is in use"),
                    Err(error) => {
                        tracing::warn!(%error, "AF_XDP cannot be used; clients come by the kernel's TCP only");
                    }
                }
            }
        };
        NetworkThread::start("network xdp".to_owned(), Arc::new(begun), Arc::clone(lent))
    }

    /// Returns its runtime.
    pub fn runtime(&self) -> &Handle {
        &self.runtime
    }

    fn start(name: String, begun: ThreadStart, lent: ThreadStart) -> io::Result<NetworkThread> {
        let turns = turns();
        // Threads of the runtime's blocking pool, for statements that may be long, inherit this thread's scheduling
        // class.
        let runtime = Builder::new_current_thread()
            .enable_all()
            .thread_stack_size(STACK_BYTES)
            .on_thread_start(move || lent())
            .on_thread_unpark(turns.0)
            .on_thread_park(turns.1)
            .build()?;
        let handle = runtime.handle().clone();
        let (over, end) = oneshot::channel();
        let thread = thread::Builder::new().name(name).stack_size(STACK_BYTES);
        let (alive, ended) = mpsc::channel::<()>();
        let thread = thread.spawn(move || {
            let _alive = alive;
            let _: Result<(), _> = runtime.block_on(async {
                begun();
                end.await
            });
            // Statements that were handed over and have nobody waiting for them are not waited for either.
            runtime.shutdown_background();
            uring::stop();
            xdp::stop();
        })?;
        Ok(NetworkThread { runtime: handle, place: Arc::default(), over: Some(over), thread: Some(thread), ended })
    }
}

/// Starts the ring of this thread. Without one, it serves by epoll; the first such thread logs it.
fn start_ring(refused: &Once) {
    if let Err(error) = uring::start(|bytes| MESSAGES.change(bytes)) {
        refused.call_once(|| tracing::warn!(%error, "io_uring cannot be used; the network is served by epoll"));
    }
}

/// Returns what begins and what ends a turn of the stage clock.
fn turns() -> (impl Fn() + Send + Sync, impl Fn() + Send + Sync) {
    let source = TickSource::system();
    let own = source.clone();
    (move || turn::begin(&source), move || turn::end(&own))
}

impl Drop for NetworkThread {
    fn drop(&mut self) {
        drop(self.over.take());
        // A thread that a statement holds for ever would otherwise hold up the end of the process, too.
        let is_stuck = self.ended.recv_timeout(END_TIME) == Err(RecvTimeoutError::Timeout);
        if let Some(thread) = self.thread.take()
            && !is_stuck
        {
            // The result tells nothing: a session that panics ends alone.
            let _ = thread.join();
        }
    }
}

/// Threads for queries that are known to take long: as many as needed, below those that read the network.
///
/// **Invariant:** a thread is below the others only while it has a job, so that the next job begins soon, and only
/// until that job is [lifted](Lift::lift): a job that has to end does not wait for a processor that others keep.
pub struct Below {
    runtime: Option<Runtime>,
    begun: ThreadStart,
}

impl std::fmt::Debug for Below {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Below")
    }
}

impl Below {
    /// Creates the threads. `begun` puts its thread below the others.
    pub fn start(begun: &ThreadStart) -> io::Result<Below> {
        let mut builder = Builder::new_current_thread();
        builder.thread_name("below").thread_stack_size(STACK_BYTES).max_blocking_threads(BELOW_MAX);
        Ok(Below { runtime: Some(builder.build()?), begun: Arc::clone(begun) })
    }

    /// Runs a job on such a thread, or as any other work when `lift` says so. Returns `None` if it panicked.
    pub async fn run<R: Send + 'static>(
        &self,
        lift: &Arc<Lift>,
        job: impl FnOnce() -> R + Send + 'static,
    ) -> Option<R> {
        let (begun, lift) = (Arc::clone(&self.begun), Arc::clone(lift));
        let job = move || {
            let _place = lift.enter(&begun);
            job()
        };
        self.runtime.as_ref()?.spawn_blocking(job).await.ok()
    }
}

/// Request to run a job of a thread [`Below`] as any other work from now on.
///
/// **Invariant:** a thread below the others never keeps one above them waiting: [`Lift::lift`] takes the lock only if
/// it is free. The thread that holds it otherwise is either about to check `is_wanted` or at the end of the job.
#[derive(Debug, Default)]
pub struct Lift {
    /// Thread that runs the job.
    thread: Mutex<Option<i32>>,
    is_wanted: AtomicBool,
}

/// Entry of a job's thread, for the time that the job runs.
struct LiftPlace<'l>(&'l Lift);

impl Lift {
    fn thread(&self) -> MutexGuard<'_, Option<i32>> {
        self.thread.locked_anyway()
    }

    fn enter(&self, begun: &ThreadStart) -> LiftPlace<'_> {
        *self.thread() = Some(os::thread_id());
        let place = LiftPlace(self);
        if !self.is_wanted.load(Ordering::SeqCst) {
            // The thread may lose its processor for long here, so it holds no lock.
            begun();
            // An earlier request has been undone by the call above.
            if self.is_wanted.load(Ordering::SeqCst) {
                ordinary();
            }
        }
        place
    }

    /// Lifts the job, which must end: it is not kept from a processor any more. Where the system does not allow that,
    /// the job goes on unchanged.
    pub fn lift(&self) {
        self.is_wanted.store(true, Ordering::SeqCst);
        let Some(thread) = self.thread.try_locked_anyway() else { return };
        // The thread is still at the job, because it withdraws its number under the lock.
        if let Some(Err(error)) = thread.map(os::set_thread_ordinary) {
            tracing::debug!(%error, "a statement that must end stays below other threads");
        }
    }
}

/// Puts this thread back into the ordinary scheduling class.
fn ordinary() {
    if let Err(error) = os::set_ordinary() {
        tracing::debug!(%error, "a thread stays below others");
    }
}

impl Drop for LiftPlace<'_> {
    fn drop(&mut self) {
        ordinary();
        *self.0.thread() = None;
    }
}

impl Drop for Below {
    fn drop(&mut self) {
        if let Some(runtime) = self.runtime.take() {
            // Queries that nobody waits for any more are not waited for either.
            runtime.shutdown_background();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn nothing() -> ThreadStart {
        Arc::new(|| {})
    }

    #[test]
    fn places_are_spread_evenly() {
        let network = Network::start(3, NetworkInterface::Epoll, &nothing(), &nothing()).expect("threads");
        let mut places: Vec<_> = (0..30).map(|_| network.place().1).collect();
        let counts =
            |network: &Network| network.0.iter().map(|reader| Arc::strong_count(&reader.place) - 1).collect::<Vec<_>>();
        assert_eq!(counts(&network), [10, 10, 10]);
        // All sessions of one thread leave.
        places.retain(|place| !Arc::ptr_eq(place, &network.0[1].place));
        places.extend((0..10).map(|_| network.place().1));
        assert_eq!(counts(&network), [10, 10, 10]);
    }

    #[tokio::test]
    async fn jobs_that_wait_keep_no_other_from_running() {
        const JOBS: usize = 600;
        let below = Arc::new(Below::start(&nothing()).expect("threads"));
        let (begun, mut all_begun) = tokio::sync::mpsc::unbounded_channel();
        let (end, ended) = std::sync::mpsc::channel::<()>();
        let ended = Arc::new(Mutex::new(ended));
        for _ in 0..JOBS {
            let (below, begun, ended) = (Arc::clone(&below), begun.clone(), Arc::clone(&ended));
            let job = move || {
                begun.send(()).expect("the test waits");
                // The first one waits for the test, all others for the lock.
                ended.locked_anyway().recv().expect_err("the test ends all waits");
            };
            tokio::spawn(async move { below.run(&Arc::default(), job).await });
        }
        for _ in 0..JOBS {
            let next = tokio::time::timeout(Duration::from_secs(60), all_begun.recv()).await;
            next.expect("each job begins while all others wait").expect("a job");
        }
        drop(end);
    }

    /// Scheduling class of this thread, as `/proc` shows it: 0 is the ordinary one, 5 SCHED_IDLE.
    fn class() -> String {
        let stat = std::fs::read_to_string("/proc/thread-self/stat").expect("it exists");
        let behind_name = stat.rsplit(')').next().expect("a name");
        behind_name.split_whitespace().nth(38).expect("the class").to_owned()
    }

    #[tokio::test]
    async fn a_job_that_must_end_is_not_below_others() {
        if os::set_thread_ordinary(os::thread_id()).is_err() {
            return;
        }
        let below = Below::start(&(Arc::new(|| os::set_idle().expect("it needs no privilege")) as ThreadStart))
            .expect("threads");
        let before = Arc::<Lift>::default();
        before.lift();
        assert_eq!(below.run(&before, class).await.as_deref(), Some("0"));
        let lift = Arc::<Lift>::default();
        let own = Arc::clone(&lift);
        let job = move || {
            let first = class();
            own.lift();
            (first, class())
        };
        assert_eq!(below.run(&lift, job).await, Some(("5".to_owned(), "0".to_owned())));
        // The job has ended.
        lift.lift();
        assert_eq!(below.run(&Arc::default(), || panic!("on purpose")).await, None::<()>);
        assert_eq!(below.run(&Arc::default(), class).await.as_deref(), Some("5"));
    }

    #[test]
    fn tasks_run_there_and_end_with_it() {
        let network = Network::start(1, NetworkInterface::Epoll, &nothing(), &nothing()).expect("a thread");
        let (sender, receiver) = std::sync::mpsc::channel();
        let name = move || thread::current().name().map(str::to_owned);
        let dropped = sender.clone();
        network.place().0.spawn(async move {
            sender.send(name()).expect("it is received");
            std::future::pending::<()>().await;
            drop(dropped);
        });
        assert_eq!(receiver.recv(), Ok(Some("network 0".to_owned())));
        drop(network);
        assert!(receiver.recv().is_err());
    }
}
