//! Connections of a thread, and the task that moves them on.
//!
//! **Invariant:** a connection keeps its number until all its operations are over, so no completion reaches another one.
//! Whatever the kernel refuses ends a connection, or all of them, and wakes their tasks: none waits for an operation
//! that does not exist.

use crate::count::Counts;
use crate::ring::Ring;
use crate::slot::{AHEAD, KEEP, Operation, Receive, Slot};
use std::cell::RefCell;
use std::future::poll_fn;
use std::io;
use std::mem;
use std::net::TcpStream;
use std::os::fd::{AsRawFd, OwnedFd};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::task::{Context, Poll, Waker};
use std::time::Duration;
use tokio::io::unix::AsyncFd;

/// Pause between two looks at the end of a thread, and their number.
const END_PAUSE: Duration = Duration::from_millis(1);
const END_LOOKS: usize = 200;

/// Identity of the next ring.
static IDENTITIES: AtomicU64 = AtomicU64::new(0);

thread_local! {
    static DRIVER: RefCell<Option<Driver>> = const { RefCell::new(None) };
}

/// Ring of this thread with its connections.
pub(crate) struct Driver {
    /// Number that no other ring of the process has.
    identity: u64,
    ring: Ring,
    counts: Counts,
    slots: Vec<Option<Slot>>,
    free: Vec<u32>,
    /// Task that enters the kernel.
    task: Option<Waker>,
    /// True if the task knows that there is something to submit.
    is_told: bool,
    /// Connections that have gone on in the last turn.
    woken: usize,
    /// Tasks to wake when the driver is free, because a task may run at once.
    wakes: Vec<Waker>,
}

/// Starts the ring of this thread, in a runtime of tokio that has one thread. `counts` hears of the bytes that its
/// connections hold.
///
/// # Errors
/// The kernel does not have what is needed, or forbids it.
pub fn start(counts: Counts) -> io::Result<()> {
    let ring = Ring::new()?;
    let watched = ring.watched()?;
    let (slots, free, wakes) = (Vec::new(), Vec::new(), Vec::new());
    let identity = IDENTITIES.fetch_add(1, Relaxed);
    let driver = Driver { identity, ring, counts, slots, free, task: None, is_told: false, woken: 0, wakes };
    DRIVER.with(|place| *place.borrow_mut() = Some(driver));
    tokio::spawn(drive(watched));
    Ok(())
}

/// Returns true if this thread has a ring that works.
pub fn is_started() -> bool {
    DRIVER.with(|place| place.borrow().is_some())
}

/// Ends the ring of this thread, after its runtime.
pub fn stop() {
    let Some(mut driver) = DRIVER.with(|place| place.borrow_mut().take()) else { return };
    for slot in 0..driver.slots.len() as u32 {
        driver.abandon(slot);
    }
    for _ in 0..END_LOOKS {
        if driver.turn().is_err() || driver.ring.in_flight() == 0 {
            return;
        }
        std::thread::sleep(END_PAUSE);
    }
}

/// Runs on the driver of this thread, then wakes whom that concerns.
pub(crate) fn with<R>(job: impl FnOnce(&mut Driver) -> R) -> Option<R> {
    let run = |place: &RefCell<Option<Driver>>| {
        let mut driver = place.try_borrow_mut().ok()?;
        let driver = driver.as_mut()?;
        Some((job(driver), mem::take(&mut driver.wakes)))
    };
    let (result, wakes) = DRIVER.try_with(run).ok().flatten()?;
    wakes.into_iter().for_each(Waker::wake);
    Some(result)
}

/// Enters the kernel whenever there is something to submit or to complete, until the ring fails.
async fn drive(watched: AsyncFd<OwnedFd>) {
    if let Err(error) = poll_fn(|cx| poll_drive(&watched, cx)).await {
        fail(&error);
    }
}

/// Ends the ring of this thread, whose connections end with it. Those that come later do without.
fn fail(error: &io::Error) {
    let Some(mut driver) = DRIVER.with(|place| place.borrow_mut().take()) else { return };
    tracing::error!(%error, "io_uring has failed on this thread: its connections end, and further ones use epoll");
    let wakes = driver.end_all();
    // The streams have to find it gone.
    drop(driver);
    wakes.into_iter().for_each(Waker::wake);
}

/// Takes one turn if there is something to do. Then the tasks that it has woken have theirs, and what they submit goes to
/// the kernel at once. Is ready when the driver has ended, with an error if the ring has failed.
fn poll_drive(watched: &AsyncFd<OwnedFd>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
    let is_ready = match watched.poll_read_ready(cx) {
        Poll::Ready(Ok(mut ready)) => {
            ready.clear_ready();
            true
        }
        Poll::Ready(Err(error)) => return Poll::Ready(Err(error)),
        Poll::Pending => false,
    };
    let turned = with(|driver| {
        if !driver.task.as_ref().is_some_and(|task| task.will_wake(cx.waker())) {
            driver.task = Some(cx.waker().clone());
        }
        let is_told = mem::take(&mut driver.is_told);
        if is_ready || is_told { driver.turn().map(|()| true) } else { Ok(false) }
    });
    match turned {
        Some(Ok(true)) => {
            cx.waker().wake_by_ref();
            Poll::Pending
        }
        Some(Ok(false)) => Poll::Pending,
        Some(Err(error)) => Poll::Ready(Err(error)),
        None => Poll::Ready(Ok(())),
    }
}

impl Driver {
    /// Submits and completes. The tasks of connections that go on are woken behind it.
    fn turn(&mut self) -> io::Result<()> {
        if self.ring.has_work() {
            self.ring.enter()?;
        }
        let mut again = Vec::new();
        let mut sends = Vec::new();
        let Driver { ring, slots, wakes, .. } = self;
        while ring.complete(|number, completion| {
            let Some(slot) = slots.get_mut(number as usize).and_then(Option::as_mut) else { return };
            slot.take(completion, wakes, |bytes| sends.push((number, bytes)));
            again.push(number);
        }) {}
        self.woken = self.wakes.len();
        for (number, bytes) in sends {
            self.send(number, bytes);
        }
        again.dedup();
        again.into_iter().for_each(|number| self.go_on(number));
        if self.ring.listen() {
            self.tell();
        }
        Ok(())
    }

    /// Receives again after an interruption, or removes a connection that has ended.
    fn go_on(&mut self, number: u32) {
        let Some(slot) = self.slots.get_mut(number as usize).and_then(Option::as_mut) else { return };
        slot.count();
        if slot.is_dropped {
            if slot.operations == 0 {
                self.slots[number as usize] = None;
                self.free.push(number);
            }
            return;
        }
        let held = slot.input.len() - slot.taken;
        match slot.receive {
            Receive::Off if held < AHEAD => self.receive(number),
            Receive::Armed if AHEAD <= held => {
                slot.receive = Receive::Ending;
                self.submit(number, Operation::CancelReceive, |ring, _| ring.cancel_receive(number));
            }
            Receive::Off | Receive::Armed | Receive::Ending | Receive::Over => {}
        }
    }

    /// Submits an operation. A connection whose operation cannot be submitted has failed: it ends, and its tasks are
    /// woken.
    fn submit(&mut self, number: u32, operation: Operation, submit: impl FnOnce(&mut Ring, i32) -> io::Result<()>) {
        let Some(slot) = self.slots.get_mut(number as usize).and_then(Option::as_mut) else { return };
        match submit(&mut self.ring, slot.socket.as_raw_fd()) {
            Ok(()) => slot.operations += 1,
            Err(error) => {
                slot.has_refused(operation);
                slot.end(error, &mut self.wakes);
            }
        }
        self.tell();
    }

    /// Ends all connections of a ring that has failed. Returns the wakers of their tasks.
    fn end_all(&mut self) -> Vec<Waker> {
        for slot in self.slots.iter_mut().flatten() {
            slot.end(io::ErrorKind::ConnectionAborted.into(), &mut self.wakes);
        }
        mem::take(&mut self.wakes)
    }

    /// Tells the task that there is something to submit. It runs behind the tasks that are ready now, so that what
    /// these submit goes to the kernel at once.
    fn tell(&mut self) {
        if !mem::replace(&mut self.is_told, true)
            && let Some(task) = &self.task
        {
            task.wake_by_ref();
        }
    }

    fn receive(&mut self, number: u32) {
        let Some(slot) = self.slots.get_mut(number as usize).and_then(Option::as_mut) else { return };
        slot.receive = Receive::Armed;
        self.submit(number, Operation::Receive, |ring, fd| ring.receive(number, fd));
    }

    /// Sends these bytes, from `sent` on.
    fn send(&mut self, number: u32, bytes: Vec<u8>) {
        let Some(slot) = self.slots.get_mut(number as usize).and_then(Option::as_mut) else { return };
        let sent = slot.sent;
        slot.is_sending = true;
        slot.sending = bytes.capacity();
        self.submit(number, Operation::Send, |ring, fd| ring.send(number, fd, bytes, sent));
    }

    fn count(&mut self, number: u32) {
        if let Some(slot) = self.slots.get_mut(number as usize).and_then(Option::as_mut) {
            slot.count();
        }
    }

    /// Returns the number that no other ring of the process has.
    pub(crate) fn identity(&self) -> u64 {
        self.identity
    }

    /// Returns the ring, for faults that a test makes.
    #[cfg(test)]
    pub(crate) fn ring(&mut self) -> &mut Ring {
        &mut self.ring
    }

    /// Adds a connection.
    pub(crate) fn add(&mut self, socket: Arc<TcpStream>) -> u32 {
        let slot = Slot::new(socket, self.counts);
        let number = self.free.pop().unwrap_or_else(|| {
            self.slots.push(None);
            self.slots.len() as u32 - 1
        });
        self.slots[number as usize] = Some(slot);
        self.receive(number);
        number
    }

    /// Ends a connection that nobody uses any more. Bytes that are not on their way are not sent.
    pub(crate) fn abandon(&mut self, number: u32) {
        let Some(slot) = self.slots.get_mut(number as usize).and_then(Option::as_mut) else { return };
        if mem::replace(&mut slot.is_dropped, true) {
            return;
        }
        slot.output.clear();
        if slot.operations == 0 {
            return self.go_on(number);
        }
        self.submit(number, Operation::CancelAll, |ring, fd| ring.cancel_all(number, fd));
    }

    pub(crate) fn poll_read(
        &mut self,
        number: u32,
        cx: &Context<'_>,
        copy: impl FnOnce(&[u8]) -> usize,
    ) -> Poll<io::Result<()>> {
        let Some(slot) = self.slots.get_mut(number as usize).and_then(Option::as_mut) else { return gone() };
        let Some(held) = slot.input.get(slot.taken..).filter(|held| !held.is_empty()) else {
            if let Some(error) = slot.read_error.take() {
                return Poll::Ready(Err(error));
            }
            if slot.receive == Receive::Over {
                return Poll::Ready(Ok(()));
            }
            keep(&mut slot.reader, cx);
            return Poll::Pending;
        };
        slot.taken += copy(held);
        if slot.taken == slot.input.len() {
            slot.taken = 0;
            slot.input.clear();
            slot.input.shrink_to(KEEP);
            slot.count();
            if slot.receive == Receive::Off {
                self.receive(number);
            }
        }
        Poll::Ready(Ok(()))
    }

    pub(crate) fn poll_write(&mut self, number: u32, cx: &Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        let Some(slot) = self.slots.get_mut(number as usize).and_then(Option::as_mut) else {
            return gone();
        };
        if let Some(kind) = slot.write_error {
            return Poll::Ready(Err(kind.into()));
        }
        if self.woken <= 1 && !slot.is_sending && slot.output.is_empty() && !bytes.is_empty() {
            // Alone, an operation costs more than a call: its completion has to be taken.
            match Ring::send_now(slot.socket.as_raw_fd(), bytes) {
                Ok(count) => return Poll::Ready(Ok(count)),
                Err(error) if matches!(error.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::Interrupted) => {}
                Err(error) => {
                    slot.write_error = Some(error.kind());
                    return Poll::Ready(Err(error));
                }
            }
        }
        let count = AHEAD.saturating_sub(slot.output.len()).min(bytes.len());
        if count == 0 && !bytes.is_empty() {
            keep(&mut slot.writer, cx);
            return Poll::Pending;
        }
        slot.output.extend_from_slice(&bytes[..count]);
        if !slot.is_sending && !slot.output.is_empty() {
            slot.sent = 0;
            let bytes = mem::take(&mut slot.output);
            self.send(number, bytes);
        }
        self.count(number);
        Poll::Ready(Ok(count))
    }

    /// Is ready when all bytes have been sent.
    pub(crate) fn poll_sent(&mut self, number: u32, cx: &Context<'_>) -> Poll<io::Result<()>> {
        let Some(slot) = self.slots.get_mut(number as usize).and_then(Option::as_mut) else { return gone() };
        if let Some(kind) = slot.write_error {
            return Poll::Ready(Err(kind.into()));
        }
        if !slot.is_sending {
            return Poll::Ready(Ok(()));
        }
        keep(&mut slot.writer, cx);
        Poll::Pending
    }
}

fn gone<R>() -> Poll<io::Result<R>> {
    Poll::Ready(Err(io::ErrorKind::NotConnected.into()))
}

fn keep(slot: &mut Option<Waker>, cx: &Context<'_>) {
    if !slot.as_ref().is_some_and(|waker| waker.will_wake(cx.waker())) {
        *slot = Some(cx.waker().clone());
    }
}
