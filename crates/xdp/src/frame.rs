//! Frames: what is read of them before TCP, and answers that no connection gives.
//!
//! **Invariant:** a [`Segment`] describes a whole frame: all lengths have been compared with the bytes that came, and
//! all checksums are right. Nobody believes a field of a frame before.

use std::net::{Ipv4Addr, SocketAddrV4};
use std::ops::Range;

/// Bytes of the Ethernet header, the IPv4 header and the TCP header, without options.
pub(crate) const ETHERNET: usize = 14;
const IP: usize = 20;
const TCP: usize = 20;
pub(crate) const HEADERS: usize = ETHERNET + IP + TCP;
/// Offset of the TCP header.
const AT_TCP: usize = ETHERNET + IP;

/// Bits of TCP's flags.
pub(crate) const FIN: u8 = 1;
pub(crate) const SYN: u8 = 2;
pub(crate) const RST: u8 = 4;
pub(crate) const ACK: u8 = 16;

/// Kinds of TCP's options.
const END: u8 = 0;
const NOTHING: u8 = 1;
const MSS: u8 = 2;
const SCALE: u8 = 3;
const SACK: u8 = 4;
/// Segment size without the option, and the least one that is believed.
const MSS_DEFAULT: u16 = 536;
const MSS_MIN: u16 = 88;
const SCALE_MAX: u8 = 14;

/// Ethernet addresses of a frame: to and from.
pub(crate) type Macs = [u8; 12];

/// Returns them in the other direction.
pub(crate) fn reversed(macs: &Macs) -> Macs {
    let mut reversed = *macs;
    reversed.rotate_left(6);
    reversed
}

/// Bits of the port of each client here. The kernel hands out none of these ports unless it is told to.
pub(crate) const CLIENT_BITS: u16 = 0xf000;

/// TCP that is diverted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Diverted {
    /// Segments to a server at this address and port.
    To(SocketAddrV4),
    /// Segments from a server, to the ports of its clients at an address.
    From { server: SocketAddrV4, to: Ipv4Addr },
}

impl Diverted {
    /// Returns the local address; its port is 0 for clients, each of which has its own.
    pub(crate) fn local(&self) -> SocketAddrV4 {
        match *self {
            Diverted::To(address) => address,
            Diverted::From { to, .. } => SocketAddrV4::new(to, 0),
        }
    }

    /// Returns true if TCP between these ends is part of it.
    fn has(&self, ends: &Ends) -> bool {
        match *self {
            Diverted::To(address) => ends.ours == address,
            Diverted::From { server, to } => {
                ends.theirs == server && *ends.ours.ip() == to && ends.ours.port() & CLIENT_BITS == CLIENT_BITS
            }
        }
    }
}

/// Both ends of a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Ends {
    pub(crate) ours: SocketAddrV4,
    pub(crate) theirs: SocketAddrV4,
}

/// TCP segment of a frame.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Segment {
    pub(crate) macs: Macs,
    pub(crate) ends: Ends,
    pub(crate) sequence: u32,
    pub(crate) acknowledged: u32,
    pub(crate) flags: u8,
    /// Window, as the header has it.
    pub(crate) window: u16,
    /// Place of the options.
    pub(crate) options: Range<usize>,
    /// Length of the payload.
    pub(crate) payload: usize,
    /// Place of the IP packet.
    pub(crate) packet: Range<usize>,
}

/// Reason why a frame is not taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Refusal {
    /// No valid segment of what is diverted.
    Invalid,
    /// The sender has left the checksum to its device, which did not compute it.
    Unfinished,
}

fn byte(bytes: &[u8], at: usize) -> u8 {
    bytes.get(at).copied().unwrap_or(0)
}

fn half(bytes: &[u8], at: usize) -> u16 {
    u16::from_be_bytes([byte(bytes, at), byte(bytes, at + 1)])
}

fn word(bytes: &[u8], at: usize) -> u32 {
    u32::from(half(bytes, at)) << 16 | u32::from(half(bytes, at + 2))
}

fn address(bytes: &[u8], at: usize) -> Ipv4Addr {
    Ipv4Addr::from(word(bytes, at))
}

fn put(bytes: &mut [u8], at: usize, value: &[u8]) {
    if let Some(place) = bytes.get_mut(at..at + value.len()) {
        place.copy_from_slice(value);
    }
}

/// Adds up the bytes in the way of the Internet's checksum.
fn sum(bytes: &[u8], begin: u64) -> u16 {
    let (words, rest) = bytes.as_chunks::<4>();
    let mut sum = begin + words.iter().map(|word| u64::from(u32::from_be_bytes(*word))).sum::<u64>();
    let mut last = [0; 4];
    put(&mut last, 0, rest);
    sum += u64::from(u32::from_be_bytes(last));
    while 0xffff < sum {
        sum = (sum & 0xffff) + (sum >> 16);
    }
    sum as u16
}

/// Returns the sum of the pseudo-header of a frame whose segment has this length.
fn pseudo(frame: &[u8], length: usize) -> u64 {
    u64::from(word(frame, 26)) + u64::from(word(frame, 30)) + 6 + length as u64
}

/// Reads a frame of what is diverted.
pub(crate) fn parse(frame: &[u8], diverted: &Diverted) -> Result<Segment, Refusal> {
    let is = |is_so: bool| if is_so { Ok(()) } else { Err(Refusal::Invalid) };
    is(HEADERS <= frame.len() && half(frame, 12) == 0x0800 && byte(frame, ETHERNET) == 0x45)?;
    is(half(frame, 20) & 0x3fff == 0 && byte(frame, 23) == 6)?;
    let end = ETHERNET + usize::from(half(frame, 16));
    is((HEADERS..=frame.len()).contains(&end))?;
    let data = AT_TCP + usize::from(byte(frame, AT_TCP + 12) >> 4) * 4;
    is((HEADERS..=end).contains(&data))?;
    let theirs = SocketAddrV4::new(address(frame, 26), half(frame, AT_TCP));
    let ours = SocketAddrV4::new(address(frame, 30), half(frame, AT_TCP + 2));
    let ends = Ends { ours, theirs };
    is(diverted.has(&ends))?;
    let ip = theirs.ip();
    is(theirs.port() != 0 && !ip.is_unspecified() && !ip.is_multicast() && !ip.is_broadcast() && !ip.is_loopback())?;
    let mut macs: Macs = [0; 12];
    put(&mut macs, 0, frame.get(..12).unwrap_or_default());
    // Answers go to one station.
    is(macs[0] & 1 == 0 && macs[6] & 1 == 0 && theirs != ours)?;
    is(sum(frame.get(ETHERNET..AT_TCP).unwrap_or_default(), 0) == 0xffff)?;
    let segment = frame.get(AT_TCP..end).unwrap_or_default();
    if sum(segment, pseudo(frame, segment.len())) != 0xffff {
        let is_unfinished = sum(&[], pseudo(frame, segment.len())) == half(segment, 16);
        return Err(if is_unfinished { Refusal::Unfinished } else { Refusal::Invalid });
    }
    Ok(Segment {
        macs,
        ends,
        sequence: word(frame, AT_TCP + 4),
        acknowledged: word(frame, AT_TCP + 8),
        flags: byte(frame, AT_TCP + 13),
        window: half(frame, AT_TCP + 14),
        options: HEADERS..data,
        payload: end - data,
        packet: ETHERNET..end,
    })
}

/// Offer of a client with its request for a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Offer {
    pub(crate) mss: u16,
    pub(crate) scale: Option<u8>,
    pub(crate) sack: bool,
}

impl Offer {
    /// Reads the options of a segment.
    pub(crate) fn read(options: &[u8]) -> Offer {
        let mut offer = Offer { mss: MSS_DEFAULT, scale: None, sack: false };
        let mut rest = options;
        while let [kind, behind @ ..] = rest {
            match (*kind, behind) {
                (END, _) => break,
                (NOTHING, _) => rest = behind,
                (kind, [length, ..]) if 2 <= *length => {
                    let Some((option, next)) = rest.split_at_checked(usize::from(*length)) else { break };
                    match (kind, option) {
                        (MSS, [_, _, high, low]) => offer.mss = u16::from_be_bytes([*high, *low]).max(MSS_MIN),
                        (SCALE, [_, _, scale]) => offer.scale = Some((*scale).min(SCALE_MAX)),
                        (SACK, [_, _]) => offer.sack = true,
                        _ => {}
                    }
                    rest = next;
                }
                _ => break,
            }
        }
        offer
    }

    /// Writes options with this segment size. The window is not scaled, but its peer's may be.
    pub(crate) fn options(self, mss: u16, scale: u8) -> Vec<u8> {
        let [high, low] = mss.to_be_bytes();
        let mut options = vec![MSS, 4, high, low];
        if self.scale.is_some() {
            options.extend([NOTHING, SCALE, 3, scale]);
        }
        if self.sack {
            options.extend([NOTHING, NOTHING, SACK, 2]);
        }
        options
    }
}

/// Segment without payload, to be written.
#[derive(Clone, Debug)]
pub(crate) struct Plain<'o> {
    pub(crate) macs: Macs,
    pub(crate) from: SocketAddrV4,
    pub(crate) to: SocketAddrV4,
    pub(crate) sequence: u32,
    pub(crate) acknowledged: u32,
    pub(crate) flags: u8,
    pub(crate) window: u16,
    pub(crate) options: &'o [u8],
}

impl Plain<'_> {
    /// Writes the frame. Returns its length.
    pub(crate) fn write(&self, frame: &mut [u8]) -> usize {
        let end = HEADERS + self.options.len();
        let Some(frame) = frame.get_mut(..end) else { return 0 };
        put(frame, 0, &self.macs);
        put(frame, 12, &[0x08, 0, 0x45, 0]);
        put(frame, 16, &((end - ETHERNET) as u16).to_be_bytes());
        // No fragments, as many hops as usual.
        put(frame, 18, &[0, 0, 0x40, 0, 64, 6, 0, 0]);
        put(frame, 26, &self.from.ip().octets());
        put(frame, 30, &self.to.ip().octets());
        let ip = !sum(frame.get(ETHERNET..AT_TCP).unwrap_or_default(), 0);
        put(frame, 24, &ip.to_be_bytes());
        put(frame, AT_TCP, &self.from.port().to_be_bytes());
        put(frame, AT_TCP + 2, &self.to.port().to_be_bytes());
        put(frame, AT_TCP + 4, &self.sequence.to_be_bytes());
        put(frame, AT_TCP + 8, &self.acknowledged.to_be_bytes());
        put(frame, AT_TCP + 12, &[(((end - AT_TCP) / 4) << 4) as u8, self.flags]);
        put(frame, AT_TCP + 14, &self.window.to_be_bytes());
        put(frame, AT_TCP + 16, &[0; 4]);
        put(frame, HEADERS, self.options);
        finish(frame);
        end
    }
}

/// Moves the sequence number of a frame that is about to be sent.
pub(crate) fn move_sequence(frame: &mut [u8], by: u32) {
    put(frame, AT_TCP + 4, &word(frame, AT_TCP + 4).wrapping_add(by).to_be_bytes());
}

/// Moves the acknowledgement of a frame that has come.
pub(crate) fn move_acknowledged(frame: &mut [u8], by: u32) {
    if byte(frame, AT_TCP + 13) & ACK != 0 {
        put(frame, AT_TCP + 8, &word(frame, AT_TCP + 8).wrapping_sub(by).to_be_bytes());
    }
}

/// Returns the sequence number of a frame, and the number of bytes of its payload.
pub(crate) fn sent(frame: &[u8]) -> (u32, usize) {
    let header = usize::from(byte(frame, AT_TCP + 12) >> 4) * 4;
    (word(frame, AT_TCP + 4), frame.len().saturating_sub(AT_TCP + header))
}

/// Computes TCP's checksum of a frame that is otherwise complete.
pub(crate) fn finish(frame: &mut [u8]) {
    put(frame, AT_TCP + 16, &[0, 0]);
    let segment = frame.get(AT_TCP..).unwrap_or_default();
    let sum = !sum(segment, pseudo(frame, segment.len()));
    put(frame, AT_TCP + 16, &sum.to_be_bytes());
}

#[cfg(test)]
mod tests {
    use super::*;

    const CLIENT: &str = "10.1.2.3:40000";
    const SERVER: &str = "10.1.2.4:5432";

    fn to_server() -> Diverted {
        Diverted::To(SERVER.parse().unwrap())
    }

    fn frame(options: &[u8]) -> Vec<u8> {
        between(CLIENT.parse().unwrap(), SERVER.parse().unwrap(), options)
    }

    fn between(from: SocketAddrV4, to: SocketAddrV4, options: &[u8]) -> Vec<u8> {
        let plain = Plain {
            macs: [2, 0, 0, 0, 0, 1, 2, 0, 0, 0, 0, 2],
            from,
            to,
            sequence: 0xfedc_ba98,
            acknowledged: 77,
            flags: SYN,
            window: 1000,
            options,
        };
        let mut frame = vec![0; 200];
        let length = plain.write(&mut frame);
        frame.truncate(length);
        frame
    }

    #[test]
    fn what_is_written_is_read() {
        let offer = Offer { mss: 1460, scale: Some(7), sack: true };
        let frame = frame(&offer.options(1460, 7));
        let segment = parse(&frame, &to_server()).unwrap();
        assert_eq!(segment.ends, Ends { ours: SERVER.parse().unwrap(), theirs: CLIENT.parse().unwrap() });
        assert_eq!((segment.sequence, segment.acknowledged, segment.flags), (0xfedc_ba98, 77, SYN));
        assert_eq!((segment.payload, segment.packet.end), (0, frame.len()));
        assert_eq!(Offer::read(&frame[segment.options]), offer);
    }

    #[test]
    fn each_wrong_bit_and_each_missing_byte_is_noticed() {
        let whole = frame(&[]);
        let to = &to_server();
        for bit in 0..whole.len() * 8 {
            let mut wrong = whole.clone();
            wrong[bit / 8] ^= 1 << (bit % 8);
            // Ethernet's addresses have no checksum of theirs, and the zero of the sum has two forms.
            if let Ok(segment) = parse(&wrong, to) {
                assert!(bit / 8 < 12, "bit {bit}: {segment:?}");
            }
        }
        for length in 0..whole.len() {
            assert_eq!(parse(&whole[..length], to), Err(Refusal::Invalid));
        }
        // What stands behind the packet is not looked at.
        let mut longer = whole.clone();
        longer.extend([1, 2, 3]);
        assert_eq!(parse(&longer, to), parse(&whole, to));
        let mut unfinished = whole.clone();
        let sum = sum(&[], pseudo(&whole, whole.len() - AT_TCP));
        put(&mut unfinished, AT_TCP + 16, &sum.to_be_bytes());
        assert_eq!(parse(&unfinished, to), Err(Refusal::Unfinished));
    }

    #[test]
    fn clients_get_what_comes_from_their_server_to_ports_of_theirs() {
        let server: SocketAddrV4 = SERVER.parse().unwrap();
        let diverted = Diverted::From { server, to: Ipv4Addr::new(10, 1, 2, 3) };
        let is_taken =
            |from: &str, to: &str| parse(&between(from.parse().unwrap(), to.parse().unwrap(), &[]), &diverted).is_ok();
        for to in ["10.1.2.3:61440", "10.1.2.3:65535"] {
            assert!(is_taken(SERVER, to), "{to}");
        }
        for (from, to) in [
            // The kernel's clients of the same server.
            (SERVER, "10.1.2.3:60999"),
            (SERVER, "10.1.2.3:61439"),
            (SERVER, "10.1.2.5:61440"),
            ("10.1.2.4:5433", "10.1.2.3:61440"),
            ("10.1.2.6:5432", "10.1.2.3:61440"),
        ] {
            assert!(!is_taken(from, to), "{from} {to}");
        }
    }

    #[test]
    fn options_that_lie_are_not_believed() {
        let default = Offer { mss: MSS_DEFAULT, scale: None, sack: false };
        for options in [&[][..], &[2], &[2, 0], &[2, 4, 5], &[3, 255, 1], &[0, 2, 4, 5, 5], &[254, 2], &[4, 3, 0]] {
            assert_eq!(Offer::read(options), default, "{options:?}");
        }
        assert_eq!(Offer::read(&[2, 4, 0, 1, 1, 3, 3, 200]), Offer { mss: MSS_MIN, scale: Some(14), sack: false });
    }

    #[test]
    fn numbers_move_and_the_sum_follows() {
        let mut frame = frame(&[]);
        move_sequence(&mut frame, 0x2000_0000);
        finish(&mut frame);
        let segment = parse(&frame, &to_server()).unwrap();
        assert_eq!(segment.sequence, 0x1edc_ba98);
        // Without the flag, there is nothing to move.
        move_acknowledged(&mut frame, 7);
        assert_eq!(word(&frame, AT_TCP + 8), 77);
        frame[AT_TCP + 13] |= ACK;
        move_acknowledged(&mut frame, 78);
        assert_eq!(word(&frame, AT_TCP + 8), u32::MAX);
    }
}
