//! Connections of a port, and the task that moves them on.
//!
//! **Invariant:** a connection keeps its number until its stream is dropped and its last words are said, so no stream
//! reaches another one. What sessions write goes out together, after their turns and before the thread sleeps.

use crate::alarm::Alarms;
use crate::connection::{self, CONNECTION_BYTES, Connection, Time};
use crate::count;
use crate::frame::{self, ACK, CLIENT_BITS, Ends, FIN, Offer, Plain, RST, Refusal, SYN, Segment, reversed};
use crate::handshake::Handshakes;
use crate::port::Port;
use crate::ring;
use crate::socket::Received;
use crate::stream::XdpStream;
use locked::Locked;
use rings::polling::{Polling, Step};
use smoltcp::iface::Interface;
use std::cell::RefCell;
use std::collections::HashMap;
use std::future::poll_fn;
use std::hash::{BuildHasher, RandomState};
use std::io;
use std::mem;
use std::net::SocketAddrV4;
use std::os::fd::{AsFd, OwnedFd};
use std::pin::Pin;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed, Ordering::SeqCst};
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll, Waker};
use std::thread;
use std::time::{Duration, Instant};
use tokio::io::unix::AsyncFd;
use tokio::time::Sleep;

/// Frames that are taken in one turn, before sessions have theirs.
const TURN: usize = 256;
/// Greatest time for which the port is polled before its thread sleeps.
const POLL_TIME: Duration = Duration::from_micros(30);
/// Pause after which a full device is tried again.
const FULL_PAUSE: Duration = Duration::from_millis(1);
/// Pause between two looks at the end of a thread, and their number.
const END_PAUSE: Duration = Duration::from_millis(1);
const END_LOOKS: usize = 200;

/// Identity of the next port.
static IDENTITIES: AtomicU64 = AtomicU64::new(0);

thread_local! {
    static DRIVER: RefCell<Option<Driver>> = const { RefCell::new(None) };
}

/// Connections whose streams were dropped on other threads.
#[derive(Debug, Default)]
pub(crate) struct Orphans {
    numbers: Mutex<Vec<u32>>,
    has_some: AtomicBool,
    /// Task of the driver.
    task: Mutex<Option<Waker>>,
}

impl Orphans {
    pub(crate) fn push(&self, number: u32) {
        self.numbers.locked_anyway().push(number);
        self.has_some.store(true, SeqCst);
        if let Some(task) = &*self.task.locked_anyway() {
            task.wake_by_ref();
        }
    }
}

/// Takes new connections.
pub type Accept = Box<dyn FnMut(XdpStream) + Send>;

/// Port of this thread with its connections.
pub(crate) struct Driver {
    /// Number that no other port of the process has.
    identity: u64,
    port: Port,
    interface: Interface,
    begun: Instant,
    accept: Accept,
    handshakes: Handshakes,
    connections: Vec<Option<Connection>>,
    free: Vec<u32>,
    numbers: HashMap<Ends, u32>,
    /// Port of the next client, but for the bits that all have.
    next_client: u16,
    /// Connections that may have something to send.
    listed: Vec<u32>,
    /// Times at which connections are looked at. A look too many does no harm.
    alarms: Alarms,
    orphans: Arc<Orphans>,
    polling: Polling,
    /// Task that takes turns.
    task: Option<Waker>,
    /// True if the task knows that there is something to send.
    is_told: bool,
    /// Tasks to wake when the driver is free, because a task may run at once.
    wakes: Vec<Waker>,
    has_warned: bool,
}

/// Step after a turn.
enum Next {
    /// Another turn, after those of the sessions.
    Turn,
    /// A sleep until a frame comes, or until this time.
    Sleep(Option<Instant>),
}

/// Starts a port on this thread, in a runtime of tokio that has this one thread. `accept` takes the connections of a
/// server's port; those of clients are made by [`connect`](crate::connect).
///
/// # Errors
/// The runtime refuses the socket.
pub fn start(port: Port, accept: Accept) -> io::Result<()> {
    let watched = ring::watched(&port.socket)?;
    let identity = IDENTITIES.fetch_add(1, Relaxed);
    let interface = connection::interface(&port.facts, RandomState::new().hash_one(identity));
    let driver = Driver {
        identity,
        port,
        interface,
        begun: Instant::now(),
        accept,
        handshakes: Handshakes::default(),
        connections: Vec::new(),
        free: Vec::new(),
        numbers: HashMap::new(),
        next_client: RandomState::new().hash_one(identity) as u16,
        listed: Vec::new(),
        alarms: Alarms::default(),
        orphans: Arc::default(),
        polling: Polling::new(is_polling_useful()),
        task: None,
        is_told: false,
        wakes: Vec::new(),
        has_warned: false,
    };
    DRIVER.with(|place| *place.borrow_mut() = Some(driver));
    tokio::spawn(drive(watched));
    Ok(())
}

/// Ends the port of this thread, after its runtime. What was written is sent if the clients take it soon.
pub fn stop() {
    let Some(mut driver) = DRIVER.with(|place| place.borrow_mut().take()) else { return };
    let numbers: Vec<u32> = driver.numbers.values().copied().collect();
    for number in &numbers {
        driver.at(*number, |connection| connection.abandon());
    }
    for look in 0..END_LOOKS {
        if look + 1 == END_LOOKS {
            numbers.iter().for_each(|number| driver.at(*number, |connection| connection.abort()));
        }
        if driver.turn(Instant::now()).is_err() || driver.numbers.is_empty() {
            return;
        }
        thread::sleep(END_PAUSE);
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

/// Takes turns whenever there is something to do, until the port fails.
async fn drive(watched: AsyncFd<OwnedFd>) {
    let mut alarm: Option<Pin<Box<Sleep>>> = None;
    if let Err(error) = poll_fn(|cx| poll_drive(&watched, &mut alarm, cx)).await {
        fail(&error);
    }
}

/// Ends the port of this thread. Its connections end with it, and the kernel has the port again.
fn fail(error: &io::Error) {
    let Some(mut driver) = DRIVER.with(|place| place.borrow_mut().take()) else { return };
    let interface = driver.port.interface();
    tracing::error!(%error, interface, "AF_XDP has failed: its connections end, and further ones are the kernel's");
    let wakes: Vec<Waker> = driver.connections.iter_mut().flatten().flat_map(Connection::tasks).collect();
    // The streams have to find it gone.
    drop(driver);
    wakes.into_iter().for_each(Waker::wake);
}

fn poll_drive(
    watched: &AsyncFd<OwnedFd>,
    alarm: &mut Option<Pin<Box<Sleep>>>,
    cx: &mut Context<'_>,
) -> Poll<io::Result<()>> {
    // The socket is looked at below. News that come after that look wake this task.
    while let Poll::Ready(ready) = watched.poll_read_ready(cx) {
        match ready {
            Ok(mut ready) => ready.clear_ready(),
            Err(error) => return Poll::Ready(Err(error)),
        }
    }
    let next = with(|driver| {
        if !driver.task.as_ref().is_some_and(|task| task.will_wake(cx.waker())) {
            driver.task = Some(cx.waker().clone());
            *driver.orphans.task.locked_anyway() = Some(cx.waker().clone());
        }
        driver.turn(Instant::now())
    });
    match next {
        Some(Ok(Next::Turn)) => cx.waker().wake_by_ref(),
        Some(Ok(Next::Sleep(None))) => {}
        Some(Ok(Next::Sleep(Some(until)))) => {
            let until = tokio::time::Instant::from_std(until);
            let alarm = alarm.get_or_insert_with(|| Box::pin(tokio::time::sleep_until(until)));
            // One that rings too early does no harm.
            if until < alarm.deadline() || alarm.is_elapsed() {
                alarm.as_mut().reset(until);
            }
            if alarm.as_mut().poll(cx).is_ready() {
                cx.waker().wake_by_ref();
            }
        }
        Some(Err(error)) => return Poll::Ready(Err(error)),
        None => return Poll::Ready(Ok(())),
    }
    Poll::Pending
}

/// True if others can run while the port is polled. Frames come by the kernel, and what else has to run is of this
/// process: so its processors count, not the machine's.
fn is_polling_useful() -> bool {
    thread::available_parallelism().is_ok_and(|count| 1 < count.get())
}

impl Driver {
    /// Returns the number that no other port of the process has.
    pub(crate) fn identity(&self) -> u64 {
        self.identity
    }

    /// Returns the number of times at which connections are looked at, and that of the connections.
    #[cfg(test)]
    pub(crate) fn alarms(&self) -> (usize, usize) {
        (self.alarms.len(), self.numbers.len())
    }

    /// Sends what is due, and takes what has come. Tasks of connections that go on are woken behind it.
    fn turn(&mut self, clock: Instant) -> io::Result<Next> {
        let now = clock.saturating_duration_since(self.begun);
        self.is_told = false;
        if self.orphans.has_some.swap(false, SeqCst) {
            let numbers = mem::take(&mut *self.orphans.numbers.locked_anyway());
            numbers.into_iter().for_each(|number| self.at(number, |connection| connection.abandon()));
        }
        while let Some(number) = self.alarms.ring(now) {
            self.list(number);
        }
        self.send(now);
        self.port.sender.flush(&self.port.socket)?;
        if 0 < self.receive(now) || self.is_told {
            let looks = self.polling.is_over();
            if looks != 0 {
                count::EMPTY_LOOKS.add(looks.into());
            }
            return Ok(Next::Turn);
        }
        match self.polling.next(|| clock, |_| POLL_TIME) {
            Step::Look => return Ok(Next::Turn),
            Step::FallAsleep(looks) => {
                count::EMPTY_LOOKS.add(looks.into());
                count::SLEEPS.add(1);
            }
            Step::Sleep => {}
        }
        self.port.sender.flush_capture();
        let is_full = self.port.sender.is_waiting() || !self.listed.is_empty();
        let alarm = self.alarms.first().map(|at| self.begun + at);
        Ok(Next::Sleep(alarm.into_iter().chain(is_full.then(|| clock + FULL_PAUSE)).min()))
    }

    /// Sends what the listed connections have to send.
    fn send(&mut self, now: Time) {
        let listed = mem::take(&mut self.listed);
        for number in &listed {
            let Some(connection) = self.connections.get_mut(*number as usize).and_then(Option::as_mut) else {
                continue;
            };
            connection.is_listed = false;
            let means = (&self.port.facts, &mut self.interface, &mut self.port.sender);
            let is_full = connection.send(means, now, &mut self.wakes);
            if connection.is_over() {
                self.numbers.remove(&connection.ends);
                self.alarms.forget(*number);
                self.connections[*number as usize] = None;
                self.free.push(*number);
                continue;
            }
            if is_full {
                self.list(*number);
                continue;
            }
            if let Some(due) = connection.due(&mut self.interface, now) {
                self.alarms.ask(*number, due);
            }
        }
        if self.listed.is_empty() {
            // Its room is used again.
            self.listed = listed;
            self.listed.clear();
        }
    }

    /// Notes that a connection may have something to send.
    fn list(&mut self, number: u32) {
        let Some(connection) = self.connections.get_mut(number as usize).and_then(Option::as_mut) else { return };
        if !mem::replace(&mut connection.is_listed, true) {
            self.listed.push(number);
        }
    }

    /// Takes frames that have come. Returns their number.
    fn receive(&mut self, now: Time) -> usize {
        let mut taken = 0;
        while taken < TURN
            && let Some(mut received) = self.port.receiver.take()
        {
            taken += 1;
            let bytes = self.port.receiver.bytes(&mut received);
            self.port.sender.capture(bytes);
            match frame::parse(bytes, &self.port.facts.diverted) {
                Ok(segment) => self.segment(&segment, &mut received, now),
                Err(refusal) => self.refused(refusal),
            }
            self.port.receiver.give_back(received);
        }
        if 0 < taken {
            count::RECEIVED.add(taken as u64);
            self.port.receiver.publish(self.port.socket.as_fd());
        }
        taken
    }

    fn refused(&mut self, refusal: Refusal) {
        match refusal {
            Refusal::Invalid => count::REFUSED.add(1),
            Refusal::Unfinished => {
                count::UNFINISHED.add(1);
                if !mem::replace(&mut self.has_warned, true) {
                    let hint = "switch that off at their sender: ethtool -K INTERFACE tx off";
                    let interface = self.port.interface();
                    tracing::warn!(interface, hint, "frames have come whose checksums were left to a device");
                }
            }
        }
    }

    /// Hands a segment to its connection.
    fn segment(&mut self, segment: &Segment, received: &mut Received, now: Time) {
        let number = match self.numbers.get(&segment.ends) {
            Some(number) => *number,
            None => match self.stranger(segment, received, now) {
                Some(number) => number,
                None => return,
            },
        };
        let Some(connection) = self.connections.get_mut(number as usize).and_then(Option::as_mut) else { return };
        let means = (&self.port.facts, &mut self.interface, &mut self.port.sender);
        connection.take(means, segment, self.port.receiver.bytes(received), now, &mut self.wakes);
        self.list(number);
    }

    /// Handles a segment of no connection. Returns the number of the connection that it has established.
    fn stranger(&mut self, segment: &Segment, received: &mut Received, now: Time) -> Option<u32> {
        let (is_served, from) = (self.port.server.is_none(), segment.ends.theirs);
        match segment.flags & (SYN | ACK | RST | FIN) {
            SYN if is_served => {
                let bytes = self.port.receiver.bytes(received);
                let offer = Offer::read(bytes.get(segment.options.clone()).unwrap_or_default());
                let (ours, answer) = self.handshakes.request(from, segment.sequence, offer, now);
                let options = answer.options(self.port.facts.mss, 0);
                self.answer(segment, (ours, segment.sequence.wrapping_add(1)), SYN | ACK, &options);
                None
            }
            ACK if is_served => {
                let (theirs, ours) = (segment.sequence.wrapping_sub(1), segment.acknowledged.wrapping_sub(1));
                let answered = self.handshakes.acknowledged(from, theirs, ours, now);
                let connection = answered.filter(|_| self.has_room()).and_then(|answered| {
                    let (port, interface) = (&self.port, &mut self.interface);
                    Connection::new(&port.facts, interface, segment, answered, port.memory, now)
                });
                match connection {
                    Some(connection) => {
                        let stream = self.enter(connection);
                        let number = stream.number;
                        (self.accept)(stream);
                        Some(number)
                    }
                    None => {
                        self.reset(segment);
                        None
                    }
                }
            }
            // Nobody answers a reset.
            flags if flags & RST == 0 => {
                self.reset(segment);
                None
            }
            _ => None,
        }
    }

    fn has_room(&self) -> bool {
        self.numbers.len() < self.port.connections_max && (self.port.memory.has_room)(CONNECTION_BYTES)
    }

    /// Begins a connection with the server, which has this time to answer.
    pub(crate) fn open(&mut self, limit: Duration) -> io::Result<XdpStream> {
        let refused = |kind: io::ErrorKind, why: &str| Err(io::Error::new(kind, why));
        let Some((theirs, macs)) = self.port.server else {
            return refused(io::ErrorKind::Unsupported, "the port of this thread is that of a server");
        };
        if !self.has_room() {
            return refused(io::ErrorKind::QuotaExceeded, "too many connections, or too little memory for one more");
        }
        let mut ends = (0..=!CLIENT_BITS).map(|more| {
            let port = CLIENT_BITS | self.next_client.wrapping_add(more);
            Ends { ours: SocketAddrV4::new(*self.port.address().ip(), port), theirs }
        });
        let Some(ends) = ends.find(|ends| !self.numbers.contains_key(ends)) else {
            return refused(io::ErrorKind::AddrNotAvailable, "all ports of clients are taken");
        };
        // A port rests for as long as possible: the server may remember its last connection.
        self.next_client = ends.ours.port().wrapping_add(1);
        let Some(connection) = Connection::open(&mut self.interface, (ends, macs), limit, self.port.memory) else {
            return refused(io::ErrorKind::AddrNotAvailable, "the server's address is none to connect to");
        };
        let stream = self.enter(connection);
        self.list(stream.number);
        self.tell();
        Ok(stream)
    }

    /// Gives a connection a number and a stream.
    fn enter(&mut self, connection: Connection) -> XdpStream {
        let Ends { ours, theirs } = connection.ends;
        let number = self.free.pop().unwrap_or_else(|| {
            self.connections.push(None);
            self.connections.len() as u32 - 1
        });
        self.connections[number as usize] = Some(connection);
        self.numbers.insert(Ends { ours, theirs }, number);
        XdpStream { port: self.identity, number, ours, theirs, orphans: Arc::clone(&self.orphans) }
    }

    /// Sends a segment without payload, or nothing if there is no frame: who has asked asks again.
    fn answer(&mut self, segment: &Segment, (sequence, acknowledged): (u32, u32), flags: u8, options: &[u8]) {
        let Some(mut frame) = self.port.sender.frame() else { return };
        let plain = Plain {
            macs: reversed(&segment.macs),
            from: segment.ends.ours,
            to: segment.ends.theirs,
            sequence,
            acknowledged,
            flags,
            window: u16::MAX,
            options,
        };
        let length = plain.write(self.port.sender.bytes(&mut frame));
        self.port.sender.send(frame, length);
    }

    /// Tells the sender of a segment that there is no such connection.
    fn reset(&mut self, segment: &Segment) {
        count::RESETS.add(1);
        if segment.flags & ACK != 0 {
            return self.answer(segment, (segment.acknowledged, 0), RST, &[]);
        }
        let more = (segment.flags & SYN != 0) as u32 + (segment.flags & FIN != 0) as u32;
        let end = segment.sequence.wrapping_add(segment.payload as u32 + more);
        self.answer(segment, (0, end), RST | ACK, &[]);
    }

    /// Runs on a connection, which may have something to send then.
    pub(crate) fn at(&mut self, number: u32, job: impl FnOnce(&mut Connection)) {
        if let Some(connection) = self.connections.get_mut(number as usize).and_then(Option::as_mut) {
            job(connection);
            self.list(number);
            self.tell();
        }
    }

    /// Tells the task that there is something to send. It runs behind the tasks that are ready now, so that what these
    /// write goes out together.
    fn tell(&mut self) {
        if !mem::replace(&mut self.is_told, true)
            && let Some(task) = &self.task
        {
            task.wake_by_ref();
        }
    }

    pub(crate) fn poll_open(&mut self, number: u32, cx: &Context<'_>) -> Poll<io::Result<()>> {
        let connection = self.connections.get_mut(number as usize).and_then(Option::as_mut);
        connection.map_or_else(gone, |connection| connection.poll_open(cx))
    }

    pub(crate) fn poll_read(
        &mut self,
        number: u32,
        cx: &Context<'_>,
        copy: impl FnOnce(&[u8]) -> usize,
    ) -> Poll<io::Result<()>> {
        let Some(connection) = self.connections.get_mut(number as usize).and_then(Option::as_mut) else {
            return gone();
        };
        let read = connection.poll_read(cx, copy);
        if read.is_ready() {
            // The client may be told of more room.
            self.list(number);
            self.tell();
        }
        read
    }

    pub(crate) fn poll_write(&mut self, number: u32, cx: &Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        let Some(connection) = self.connections.get_mut(number as usize).and_then(Option::as_mut) else {
            return gone();
        };
        let written = connection.poll_write(cx, bytes);
        if written.is_ready() {
            self.list(number);
            self.tell();
        }
        written
    }
}

fn gone<R>() -> Poll<io::Result<R>> {
    Poll::Ready(Err(io::ErrorKind::NotConnected.into()))
}
