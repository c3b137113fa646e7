//! Connection: TCP's state of one peer, and its way to the frames.
//!
//! **Invariant:** smoltcp sees the segments of one connection only, in a set of sockets that has one, so its search
//! among all sockets costs nothing. It chooses its own first sequence number: when a client has asked, after that knows
//! ours; when we ask, one that can be guessed. Numbers are moved in both directions, before and after it.

use crate::count::{self, Counted, Memory};
use crate::frame::{self, ACK, ETHERNET, Ends, HEADERS, Macs, Plain, RST, SYN, Segment, reversed};
use crate::handshake::Answered;
use crate::port::Facts;
use crate::socket::Sender;
use smoltcp::iface::{Config, Interface, PollResult, SocketHandle, SocketSet};
use smoltcp::phy::{self, Checksum, ChecksumCapabilities, Device, DeviceCapabilities, Medium};
use smoltcp::socket::tcp::{self, CongestionControl, SocketBuffer, State};
use smoltcp::wire::{HardwareAddress, IpAddress, IpCidr, IpEndpoint};
use std::hash::{BuildHasher, RandomState};
use std::io;
use std::task::{Context, Poll, Waker};
use std::time::Duration;

/// Bytes of a connection's buffer for what comes. A window of this size needs no scale.
const INCOMING: usize = 65_535;
/// Bytes of its buffer for what is sent and not acknowledged. Clients acknowledge when they read, so it covers that time.
const OUTGOING: usize = 256 << 10;
/// Bytes that a connection takes at most.
pub(crate) const CONNECTION_BYTES: usize = INCOMING + OUTGOING + 4096;
/// Time after which an idle client is asked for a sign of life, and time without any after which it is gone.
const KEEP_ALIVE: smoltcp::time::Duration = smoltcp::time::Duration::from_secs(60);
const SILENCE: smoltcp::time::Duration = smoltcp::time::Duration::from_secs(120);
/// Time for which a connection that nobody uses any more tries to deliver what was written, and waits for the client's
/// end.
const LINGER: Duration = Duration::from_secs(30);
/// Least and greatest time after which the last segment is sent again.
const PROBE: (Duration, Duration) = (Duration::from_millis(50), Duration::from_millis(800));

/// Time since the port was opened.
pub(crate) type Time = Duration;

/// Returns a time as smoltcp takes it.
pub(crate) fn instant(time: Time) -> smoltcp::time::Instant {
    smoltcp::time::Instant::from_micros(i64::try_from(time.as_micros()).unwrap_or(i64::MAX))
}

/// Last segment with payload, kept until it is acknowledged.
///
/// smoltcp waits for a second before it sends anything again, as the standard asks. If the last segment of an answer is
/// lost, nothing behind it makes the client tell. So it is sent once more, earlier (a tail loss probe).
#[derive(Debug, Default)]
struct Tail {
    frame: Vec<u8>,
    /// Number behind its payload, as smoltcp counts.
    end: u32,
    at: Option<Time>,
}

/// Numbers up to which both sides have the other's bytes, as TCP sees it.
///
/// smoltcp does not tell which segments it has accepted, but the lengths of its queues do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Numbers {
    /// Number behind the bytes that the client has acknowledged, as smoltcp counts.
    acknowledged: u32,
    /// Number behind the client's bytes that have come without a gap.
    received: u32,
}

/// Connection of a client with us, or of ours with a server.
pub(crate) struct Connection {
    sockets: SocketSet<'static>,
    handle: SocketHandle,
    pub(crate) ends: Ends,
    /// Ethernet addresses of what is sent: those of the handshake, until a segment that fits has others.
    macs: Macs,
    /// Numbers since the end of the handshake.
    numbers: Option<Numbers>,
    /// Time of our request for the connection.
    asked: Option<Time>,
    /// True if the server has refused it.
    is_refused: bool,
    /// Our sequence numbers minus smoltcp's.
    moved: u32,
    reader: Option<Waker>,
    writer: Option<Waker>,
    tail: Tail,
    probe_after: Option<Duration>,
    /// True if it is in the driver's list of those that may have something to send.
    pub(crate) is_listed: bool,
    /// True if nobody reads or writes any more.
    is_dropped: bool,
    /// Time at which it ends in any case, because nobody uses it any more.
    linger: Option<Time>,
    _counted: Counted,
}

/// Way of one connection's segments: to smoltcp, and from it to frames.
struct Wire<'w> {
    facts: &'w Facts,
    incoming: Option<&'w [u8]>,
    sender: Option<&'w mut Sender>,
    macs: Macs,
    moved: u32,
    tail: &'w mut Tail,
    /// Result: the first sequence number of an answer that is not sent.
    answered: Option<u32>,
    /// Result: no frame was left.
    is_full: bool,
}

struct Incoming<'w>(&'w [u8]);

struct Outgoing<'o, 'w>(&'o mut Wire<'w>);

impl phy::RxToken for Incoming<'_> {
    fn consume<R, F: FnOnce(&[u8]) -> R>(self, read: F) -> R {
        read(self.0)
    }
}

impl phy::TxToken for Outgoing<'_, '_> {
    fn consume<R, F: FnOnce(&mut [u8]) -> R>(self, length: usize, write: F) -> R {
        let Outgoing(wire) = self;
        let end = ETHERNET + length;
        let taken = wire.sender.as_mut().and_then(|sender| sender.frame());
        let (Some(sender), Some(mut frame)) = (wire.sender.as_mut(), taken) else {
            // Nobody is to be sent this, or nothing can be sent now: TCP repeats what matters.
            let mut spare = vec![0; end];
            let result = write(&mut spare[ETHERNET..]);
            wire.answered = Some(frame::sent(&spare).0);
            return result;
        };
        // The interface was told how much fits.
        let bytes = &mut sender.bytes(&mut frame)[..end];
        bytes[..12].copy_from_slice(&wire.macs);
        bytes[12..ETHERNET].copy_from_slice(&[0x08, 0]);
        let result = write(&mut bytes[ETHERNET..]);
        let (sequence, payload) = frame::sent(bytes);
        frame::move_sequence(bytes, wire.moved);
        frame::finish(bytes);
        if 0 < payload {
            wire.tail.frame.clear();
            wire.tail.frame.extend_from_slice(bytes);
            (wire.tail.end, wire.tail.at) = (sequence.wrapping_add(payload as u32), None);
        }
        sender.send(frame, end);
        result
    }
}

impl<'w> Device for Wire<'w> {
    type RxToken<'a>
        = Incoming<'w>
    where
        Self: 'a;
    type TxToken<'a>
        = Outgoing<'a, 'w>
    where
        Self: 'a;

    fn receive(&mut self, _: smoltcp::time::Instant) -> Option<(Incoming<'w>, Outgoing<'_, 'w>)> {
        self.incoming.take().map(|incoming| (Incoming(incoming), Outgoing(self)))
    }

    fn transmit(&mut self, _: smoltcp::time::Instant) -> Option<Outgoing<'_, 'w>> {
        self.is_full = self.sender.as_mut().is_some_and(|sender| !sender.has_frame());
        (!self.is_full).then_some(Outgoing(self))
    }

    fn capabilities(&self) -> DeviceCapabilities {
        let mut capabilities = DeviceCapabilities::default();
        capabilities.medium = Medium::Ip;
        capabilities.max_transmission_unit = self.facts.mtu;
        // Of what comes, all sums were compared. TCP's sums are computed when numbers have moved.
        capabilities.checksum = ChecksumCapabilities::ignored();
        capabilities.checksum.ipv4 = Checksum::Tx;
        capabilities
    }
}

impl<'w> Wire<'w> {
    fn new(facts: &'w Facts, tail: &'w mut Tail) -> Wire<'w> {
        let macs = [0; 12];
        Wire { facts, incoming: None, sender: None, macs, moved: 0, tail, answered: None, is_full: false }
    }
}

/// Makes smoltcp's interface, which all connections share.
pub(crate) fn interface(facts: &Facts, seed: u64) -> Interface {
    let mut config = Config::new(HardwareAddress::Ip);
    config.random_seed = seed;
    let mut interface = Interface::new(config, &mut Wire::new(facts, &mut Tail::default()), instant(Time::ZERO));
    interface.update_ip_addrs(|addresses| {
        // There is room for one.
        let _ = addresses.push(IpCidr::new(IpAddress::Ipv4(*facts.diverted.local().ip()), 32));
    });
    interface
}

fn socket() -> tcp::Socket<'static> {
    let mut socket = tcp::Socket::new(SocketBuffer::new(vec![0; INCOMING]), SocketBuffer::new(vec![0; OUTGOING]));
    socket.set_nagle_enabled(false);
    socket.set_congestion_control(CongestionControl::Cubic);
    socket.set_keep_alive(Some(KEEP_ALIVE));
    socket.set_timeout(Some(SILENCE));
    socket
}

impl Connection {
    fn between(ends: Ends, macs: Macs, memory: Memory) -> Connection {
        let mut sockets = SocketSet::new(Vec::with_capacity(1));
        let handle = sockets.add(socket());
        Connection {
            sockets,
            handle,
            ends,
            macs,
            numbers: None,
            asked: None,
            is_refused: false,
            moved: 0,
            reader: None,
            writer: None,
            tail: Tail::default(),
            probe_after: None,
            is_listed: false,
            is_dropped: false,
            linger: None,
            _counted: Counted::new(memory, CONNECTION_BYTES),
        }
    }

    /// Begins a connection with a server. It ends if there is no answer within this time.
    pub(crate) fn open(
        interface: &mut Interface,
        (ends, macs): (Ends, Macs),
        limit: Duration,
        memory: Memory,
    ) -> Option<Connection> {
        let mut connection = Connection::between(ends, macs, memory);
        connection.limit_silence(Some(limit));
        // Who sees one connection learns nothing about the numbers of the next one.
        connection.moved = RandomState::new().hash_one(ends) as u32;
        let (theirs, ours) = (IpEndpoint::from(ends.theirs), IpEndpoint::from(ends.ours));
        connection.socket().connect(interface.context(), theirs, ours).ok()?;
        Some(connection)
    }

    /// Makes the connection of a client that has acknowledged our first sequence number, `ours`. Its segment is to be
    /// [taken](Connection::take) next.
    pub(crate) fn new(
        facts: &Facts,
        interface: &mut Interface,
        segment: &Segment,
        answered: Answered,
        memory: Memory,
        now: Time,
    ) -> Option<Connection> {
        let ends = segment.ends;
        let mut connection = Connection::between(ends, reversed(&segment.macs), memory);
        connection.socket().listen(ends.ours.port()).ok()?;
        // The request again, as smoltcp has to see it.
        let mut frame = [0; HEADERS + 20];
        let options = answered.offer.options(answered.offer.mss, answered.offer.scale.unwrap_or(0));
        let request = Plain {
            macs: segment.macs,
            from: ends.theirs,
            to: ends.ours,
            sequence: segment.sequence.wrapping_sub(1),
            acknowledged: 0,
            flags: SYN,
            window: u16::MAX,
            options: &options,
        };
        let end = request.write(&mut frame);
        let mut wire = Wire::new(facts, &mut connection.tail);
        wire.incoming = frame.get(ETHERNET..end);
        interface.poll_ingress_single(instant(now), &mut wire, &mut connection.sockets);
        interface.poll_egress(instant(now), &mut wire, &mut connection.sockets);
        connection.moved = segment.acknowledged.wrapping_sub(1).wrapping_sub(wire.answered?);
        connection.is_established(segment, answered.rtt);
        Some(connection)
    }

    /// Takes note of the end of the handshake, by this segment, and of the time that it took.
    fn is_established(&mut self, segment: &Segment, rtt: Option<Duration>) {
        let acknowledged = segment.acknowledged.wrapping_sub(self.moved);
        // A request has a number, too.
        let received = segment.sequence.wrapping_add((segment.flags & SYN != 0).into());
        self.numbers = Some(Numbers { acknowledged, received });
        self.probe_after = rtt.map(|rtt| (3 * rtt).clamp(PROBE.0, PROBE.1));
        count::ACCEPTED.add(1);
    }

    /// Takes note of a server's answer to our request, if this segment is one.
    fn is_answered(&mut self, segment: &Segment, now: Time) {
        match self.socket().state() {
            State::Listen | State::SynSent | State::SynReceived => {}
            State::Closed => self.is_refused = true,
            State::Established
            | State::FinWait1
            | State::FinWait2
            | State::CloseWait
            | State::Closing
            | State::LastAck
            | State::TimeWait => {
                self.is_established(segment, self.asked.map(|asked| now.saturating_sub(asked)));
                self.limit_silence(None);
            }
        }
    }

    fn socket(&mut self) -> &mut tcp::Socket<'static> {
        self.sockets.get_mut(self.handle)
    }

    /// Returns the lengths of TCP's queues: of what is sent and not acknowledged, and of what has come and is not read.
    fn queued(&mut self) -> (usize, usize) {
        let socket = self.socket();
        (socket.send_queue(), socket.recv_queue())
    }

    /// Returns true if the peer's end has come, which has a number.
    fn has_end(&mut self) -> bool {
        matches!(self.socket().state(), State::CloseWait | State::Closing | State::LastAck | State::TimeWait)
    }

    /// Takes a segment of the peer.
    pub(crate) fn take(
        &mut self,
        (facts, interface, sender): (&Facts, &mut Interface, &mut Sender),
        segment: &Segment,
        bytes: &mut [u8],
        now: Time,
        wakes: &mut Vec<Waker>,
    ) {
        frame::move_acknowledged(bytes, self.moved);
        let before = self.queued();
        let acknowledged = segment.acknowledged.wrapping_sub(self.moved);
        let fits = |numbers: Numbers| numbers.fit(segment.sequence, acknowledged, before.0);
        let numbers = self.numbers.filter(|numbers| segment.flags & (ACK | SYN | RST) == ACK && fits(*numbers));
        if numbers.is_some() {
            self.macs = reversed(&segment.macs);
        }
        let (mut frame, mut length) = ([0; HEADERS], 0);
        if let Some(next) = numbers.and_then(|numbers| numbers.behind(segment, acknowledged, self.has_end())) {
            length = next.write(&mut frame);
        }
        let is_opening = self.numbers.is_none() && self.socket().state() != State::Closed;
        let mut wire = Wire::new(facts, &mut self.tail);
        (wire.sender, wire.macs, wire.moved) = (Some(sender), self.macs, self.moved);
        for packet in [frame.get(ETHERNET..length), bytes.get(segment.packet.clone())].into_iter().flatten() {
            wire.incoming = Some(packet);
            interface.poll_ingress_single(instant(now), &mut wire, &mut self.sockets);
        }
        let after = self.queued();
        if is_opening {
            self.is_answered(segment, now);
        }
        if let Some(numbers) = &mut self.numbers {
            numbers.follow(before, after);
            self.tail.is_acknowledged(numbers.acknowledged);
        }
        if self.is_dropped && 0 < self.socket().recv_queue() {
            // Nobody will read it: the client hears that, as from the kernel.
            self.socket().abort();
        }
        self.wake(wakes);
    }

    /// Sends what is due. Returns true if frames were missing.
    pub(crate) fn send(
        &mut self,
        (facts, interface, sender): (&Facts, &mut Interface, &mut Sender),
        now: Time,
        wakes: &mut Vec<Waker>,
    ) -> bool {
        if self.numbers.is_none() {
            self.asked.get_or_insert(now);
        }
        if self.tail.at.is_some_and(|at| at <= now) {
            self.tail.send_again(sender);
        }
        if self.is_dropped && *self.linger.get_or_insert(now + LINGER) <= now {
            self.socket().abort();
        }
        let mut wire = Wire::new(facts, &mut self.tail);
        (wire.sender, wire.macs, wire.moved) = (Some(sender), self.macs, self.moved);
        while interface.poll_egress(instant(now), &mut wire, &mut self.sockets) == PollResult::SocketStateChanged {}
        let is_full = wire.is_full;
        if self.tail.at.is_none() && !self.tail.frame.is_empty() {
            self.tail.at = self.probe_after.map(|after| now + after);
        }
        self.wake(wakes);
        is_full
    }

    /// Returns the time at which it has to send something, whatever happens.
    pub(crate) fn due(&mut self, interface: &mut Interface, now: Time) -> Option<Time> {
        let due = interface.poll_at(instant(now), &self.sockets);
        let due = due.map(|due| Time::from_micros(u64::try_from(due.total_micros()).unwrap_or(0)));
        due.into_iter().chain(self.tail.at).chain(self.linger).min()
    }

    /// Returns true if neither side has anything to do with it any more.
    pub(crate) fn is_over(&mut self) -> bool {
        // Who has closed first does not wait for segments that come late: they are answered by resets.
        self.is_dropped && matches!(self.socket().state(), State::Closed | State::TimeWait)
    }

    fn wake(&mut self, wakes: &mut Vec<Waker>) {
        let socket = self.sockets.get_mut::<tcp::Socket<'_>>(self.handle);
        if matches!(socket.state(), State::SynSent | State::SynReceived) {
            return;
        }
        if self.reader.is_some() && (socket.can_recv() || !socket.may_recv()) {
            wakes.extend(self.reader.take());
        }
        if self.writer.is_some() && (socket.can_send() || !socket.may_send()) {
            wakes.extend(self.writer.take());
        }
    }

    /// Returns the tasks that wait for it.
    pub(crate) fn tasks(&mut self) -> impl Iterator<Item = Waker> {
        self.reader.take().into_iter().chain(self.writer.take())
    }

    /// Waits for the server's answer to our request.
    pub(crate) fn poll_open(&mut self, cx: &Context<'_>) -> Poll<io::Result<()>> {
        if self.numbers.is_some() {
            return Poll::Ready(Ok(()));
        }
        if self.socket().state() == State::Closed {
            let kind = if self.is_refused { io::ErrorKind::ConnectionRefused } else { io::ErrorKind::TimedOut };
            return Poll::Ready(Err(kind.into()));
        }
        keep(&mut self.writer, cx);
        Poll::Pending
    }

    pub(crate) fn poll_read(&mut self, cx: &Context<'_>, copy: impl FnOnce(&[u8]) -> usize) -> Poll<io::Result<()>> {
        let socket = self.socket();
        if !socket.can_recv() && socket.may_recv() {
            keep(&mut self.reader, cx);
            return Poll::Pending;
        }
        let read = socket.recv(|bytes| (copy(bytes), ()));
        Poll::Ready(match read {
            Ok(()) | Err(tcp::RecvError::Finished) => Ok(()),
            Err(tcp::RecvError::InvalidState) => Err(io::ErrorKind::ConnectionReset.into()),
        })
    }

    pub(crate) fn poll_write(&mut self, cx: &Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        let socket = self.socket();
        if !socket.may_send() {
            return Poll::Ready(Err(io::ErrorKind::BrokenPipe.into()));
        }
        if !socket.can_send() && !bytes.is_empty() {
            keep(&mut self.writer, cx);
            return Poll::Pending;
        }
        Poll::Ready(socket.send_slice(bytes).map_err(|_| io::ErrorKind::BrokenPipe.into()))
    }

    /// Tells the client that nothing more is written.
    pub(crate) fn shut_down(&mut self) {
        self.socket().close();
    }

    /// Limits the time in which the client acknowledges nothing.
    pub(crate) fn limit_silence(&mut self, limit: Option<Duration>) {
        let limit = limit.map(|limit| smoltcp::time::Duration::from_micros(limit.as_micros() as u64));
        self.socket().set_timeout(limit.or(Some(SILENCE)));
    }

    /// Closes it, because nobody uses it any more. What was written is sent. If something was not read, the client hears
    /// that it is lost.
    pub(crate) fn abandon(&mut self) {
        self.is_dropped = true;
        self.tasks().for_each(drop);
        let socket = self.socket();
        if 0 < socket.recv_queue() {
            return socket.abort();
        }
        socket.close();
        socket.set_keep_alive(None);
    }

    /// Ends it at once.
    pub(crate) fn abort(&mut self) {
        self.socket().abort();
    }
}

impl Numbers {
    /// Returns true if a segment with these numbers is the client's, while so many bytes are not acknowledged. Who does
    /// not see the connection's frames does not guess them.
    ///
    /// The acknowledgement is one that TCP accepts. The sequence number is within the window, or in that behind it: a
    /// client whose way has changed repeats what we have, because our answers do not reach it.
    fn fit(self, sequence: u32, acknowledged: u32, outstanding: usize) -> bool {
        // Our end has a number, too.
        let may_acknowledge = acknowledged.wrapping_sub(self.acknowledged) as usize <= outstanding + 1;
        let oldest = self.received.wrapping_sub(INCOMING as u32);
        may_acknowledge && sequence.wrapping_sub(oldest) as usize <= 2 * INCOMING
    }

    /// Returns the acknowledgement of a segment that fits, if we have all of its bytes, as one behind them. There is
    /// none if it says nothing new.
    ///
    /// smoltcp drops old segments with their acknowledgements, as the standard asks, and repeats from the oldest bytes
    /// that are not acknowledged, with old numbers in all that it sends. If both sides do that, neither hears the other
    /// any more.
    fn behind(self, segment: &Segment, acknowledged: u32, has_end: bool) -> Option<Plain<'static>> {
        let next = self.received.wrapping_add(has_end.into());
        let end = segment.sequence.wrapping_add(segment.payload as u32);
        let is_old = segment.sequence != next && end.wrapping_sub(next).cast_signed() <= 0;
        let Ends { ours, theirs } = segment.ends;
        (is_old && acknowledged != self.acknowledged).then_some(Plain {
            macs: segment.macs,
            from: theirs,
            to: ours,
            sequence: next,
            acknowledged,
            flags: ACK,
            window: segment.window,
            options: &[],
        })
    }

    /// Follows TCP, whose queues had and have these lengths before and after a segment: those of what is sent and not
    /// acknowledged, and of what has come and is not read.
    fn follow(&mut self, before: (usize, usize), after: (usize, usize)) {
        self.acknowledged = self.acknowledged.wrapping_add(before.0.saturating_sub(after.0) as u32);
        self.received = self.received.wrapping_add(after.1.saturating_sub(before.1) as u32);
    }
}

impl Tail {
    /// Takes note of what the client has.
    fn is_acknowledged(&mut self, until: u32) {
        if !self.frame.is_empty() && (until.wrapping_sub(self.end)).cast_signed() >= 0 {
            self.frame.clear();
            self.at = None;
        }
    }

    /// Sends the segment once more.
    fn send_again(&mut self, sender: &mut Sender) {
        self.at = None;
        let frame = if self.frame.is_empty() { None } else { sender.frame() };
        if let Some(mut frame) = frame {
            let length = self.frame.len();
            sender.bytes(&mut frame)[..length].copy_from_slice(&self.frame);
            sender.send(frame, length);
            count::PROBES.add(1);
        }
        self.frame.clear();
    }
}

fn keep(slot: &mut Option<Waker>, cx: &Context<'_>) {
    if !slot.as_ref().is_some_and(|waker| waker.will_wake(cx.waker())) {
        *slot = Some(cx.waker().clone());
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::frame::FIN;
    use crate::port::Port;
    use crate::tests::{self, MEMORY};
    use std::net::SocketAddrV4;

    #[test]
    fn numbers_fit_that_only_the_client_knows() {
        for (acknowledged, received) in [(1_000_000, 2_000_000), (u32::MAX - 3, u32::MAX - 9), (3, 9)] {
            let numbers = Numbers { acknowledged, received };
            let fits = |sequence: i64, acknowledgement: i64| {
                let moved = |number: u32, by: i64| number.wrapping_add_signed(by as i32);
                numbers.fit(moved(received, sequence), moved(acknowledged, acknowledgement), 10)
            };
            let window = INCOMING as i64;
            for (sequence, acknowledgement) in [(0, 0), (0, 11), (window, 5), (-1, 0), (-window, 10)] {
                assert!(fits(sequence, acknowledgement), "{sequence} {acknowledgement}");
            }
            for (sequence, acknowledgement) in [(0, -1), (0, 12), (window + 1, 0), (-window - 1, 0), (1 << 30, 1 << 30)]
            {
                assert!(!fits(sequence, acknowledgement), "{sequence} {acknowledgement}");
            }
        }
    }

    /// Connection whose client is played by the test, and what it needs.
    struct Played {
        port: Port,
        interface: Interface,
        connection: Connection,
    }

    const CLIENT: &str = "10.99.0.77:40000";
    const MACS: Macs = [2, 0, 0, 0, 0, 1, 2, 0, 0, 0, 0, 2];
    const OTHER: Macs = [2, 0, 0, 0, 0, 1, 2, 0, 0, 0, 0, 3];
    /// First number of the client's bytes, and of ours.
    const THEIRS: u32 = 0xffff_fffe;
    const OURS: u32 = 5_001;

    fn frame(to: SocketAddrV4, macs: Macs, flags: u8, numbers: (u32, u32), payload: &[u8]) -> Vec<u8> {
        let (from, window) = (CLIENT.parse().unwrap(), 10_000);
        let (sequence, acknowledged) = numbers;
        // Options are the bytes behind the header; the length of the header follows.
        let plain = Plain { macs, from, to, sequence, acknowledged, flags, window, options: payload };
        let mut frame = vec![0; HEADERS + payload.len()];
        assert_eq!(plain.write(&mut frame), frame.len());
        frame[ETHERNET + 32] = 5 << 4;
        frame::finish(&mut frame);
        frame
    }

    impl Played {
        fn new(port: Port) -> Played {
            let mut interface = interface(&port.facts, 7);
            let frame = frame(port.address(), MACS, ACK, (THEIRS, OURS), &[]);
            let segment = frame::parse(&frame, &port.facts.diverted).unwrap();
            let offer = frame::Offer { mss: 1460, scale: None, sack: false };
            let answered = Answered { offer, rtt: Some(Duration::from_millis(1)) };
            let connection =
                Connection::new(&port.facts, &mut interface, &segment, answered, MEMORY, Time::ZERO).unwrap();
            let mut played = Played { port, interface, connection };
            played.take(MACS, ACK, (THEIRS, OURS), &[]);
            played
        }

        fn take(&mut self, macs: Macs, flags: u8, numbers: (u32, u32), payload: &[u8]) {
            let mut frame = frame(self.port.address(), macs, flags, numbers, payload);
            let segment = frame::parse(&frame, &self.port.facts.diverted).unwrap();
            let means = (&self.port.facts, &mut self.interface, &mut self.port.sender);
            self.connection.take(means, &segment, &mut frame, Time::from_millis(5), &mut Vec::new());
        }

        fn write(&mut self, bytes: &[u8]) {
            let cx = Context::from_waker(Waker::noop());
            assert!(matches!(self.connection.poll_write(&cx, bytes), Poll::Ready(Ok(count)) if count == bytes.len()));
            let means = (&self.port.facts, &mut self.interface, &mut self.port.sender);
            assert!(!self.connection.send(means, Time::from_millis(1), &mut Vec::new()));
        }

        /// Returns true if the last segment waits for its acknowledgement.
        fn has_tail(&self) -> bool {
            assert_eq!(self.connection.tail.frame.is_empty(), self.connection.tail.at.is_none());
            !self.connection.tail.frame.is_empty()
        }

        fn read(&mut self) -> Vec<u8> {
            let mut all = Vec::new();
            let cx = Context::from_waker(Waker::noop());
            let read = self.connection.poll_read(&cx, |bytes| {
                all.extend_from_slice(bytes);
                bytes.len()
            });
            assert!(matches!(read, Poll::Ready(Ok(()))));
            all
        }
    }

    #[test]
    fn who_only_knows_the_address_changes_neither_the_way_nor_the_tail() {
        let Some(lab) = tests::lab(1500) else { return };
        let port = lab.at_server(|| Port::open(tests::options(1), MEMORY)).unwrap().unwrap();
        let mut played = Played::new(port);
        played.write(b"answer");
        assert!(played.has_tail());
        let end = OURS + 6;
        let far = 1 << 20;
        for (flags, numbers) in [
            // Wrong sequence, with the acknowledgement that is awaited.
            (ACK, (THEIRS.wrapping_add(far), end)),
            (ACK, (THEIRS.wrapping_sub(far), end)),
            (ACK | FIN, (THEIRS.wrapping_sub(far), end)),
            // Acknowledgements of what was not sent, and of what was acknowledged long ago.
            (ACK, (THEIRS, end + far)),
            (ACK, (THEIRS, OURS - 1)),
            // No acknowledgement, and those that TCP does not look at.
            (0, (THEIRS, end)),
            (SYN, (THEIRS, end)),
            (SYN | ACK, (THEIRS.wrapping_add(far), end)),
            (RST | ACK, (THEIRS.wrapping_add(far), end)),
        ] {
            played.take(OTHER, flags, numbers, &[]);
            played.take(OTHER, flags, numbers, b"forged");
            assert_eq!(played.connection.macs, reversed(&MACS), "{flags} {numbers:?}");
            assert!(played.has_tail(), "{flags} {numbers:?}");
        }
        // The client's own does both.
        played.take(OTHER, ACK, (THEIRS, end), b"more");
        assert_eq!((played.connection.macs, played.has_tail()), (reversed(&OTHER), false));
        assert_eq!(played.read(), b"more");
        // Its way changes again, and our answer was lost: it repeats its bytes.
        played.write(b"next");
        played.take(MACS, ACK, (THEIRS, end), b"more");
        assert_eq!((played.connection.macs, played.has_tail()), (reversed(&MACS), true));
        played.take(MACS, ACK, (THEIRS.wrapping_add(4), end + 4), &[]);
        assert!(!played.has_tail());
        assert_eq!(played.connection.numbers.unwrap().received, THEIRS.wrapping_add(4));
    }

    #[test]
    fn acknowledgements_of_old_segments_count() {
        let Some(lab) = tests::lab(1500) else { return };
        let port = lab.at_server(|| Port::open(tests::options(1), MEMORY)).unwrap().unwrap();
        let mut played = Played::new(port);
        played.take(MACS, ACK, (THEIRS, OURS), b"more");
        // The client has lost our acknowledgement, so it repeats its bytes; or it sends none, with an old number.
        for (number, payload) in [(1, &b"more"[..]), (2, b"mo"), (3, b"")] {
            played.write(b"answer");
            assert!(played.has_tail());
            played.take(MACS, ACK, (THEIRS, OURS + 6 * number), payload);
            assert!(!played.has_tail(), "{number}");
        }
        // The same behind its end.
        let next = THEIRS.wrapping_add(4);
        played.take(MACS, ACK | FIN, (next, OURS + 18), b"");
        played.write(b"answer");
        played.take(MACS, ACK, (next, OURS + 24), b"");
        assert!(!played.has_tail());
        assert_eq!(played.read(), b"more");
    }
}
