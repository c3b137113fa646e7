//! Pair of rings in shared memory, one for each direction, seen from one side.
//!
//! A position is a count of bytes since the begin, modulo 2^32; its place in the ring is its rest by the ring's size.
//!
//! **Invariant:** this side's positions are its own fields; what stands in the memory is only a copy for the other side.
//! The other side's position is read once for each use, and is refused if no correct side could have written it.
//!
//! **Invariant:** no wake-up is lost. Who wants to sleep stores a mark and then looks at the position again; who moves a
//! position stores it and then looks at the mark. Both are sequentially consistent, so one of both sees the other.

use crate::memory::SharedMemory;
use std::io;
use std::sync::atomic::Ordering::{Relaxed, SeqCst};

/// Version of the layout, which the first word holds.
pub const VERSION: u32 = 1;
/// Bytes of each ring.
pub const RING_BYTES: usize = 64 << 10;
/// Bytes before the first ring. Words that different sides write do not share lines of a cache.
const HEAD_BYTES: usize = 4096;
/// Bytes of the whole.
pub const PAIR_BYTES: usize = HEAD_BYTES + 2 * RING_BYTES;
/// Mark of a side that sleeps until there are bytes for it.
pub const WANTS_BYTES: u32 = 1;
/// Mark of a side that sleeps until there is room for its bytes.
pub const WANTS_ROOM: u32 = 2;

/// Side of a pair.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Side {
    /// Side that has created the memory.
    Server,
    /// Other side.
    Client,
}

/// Offsets of one side's words, which only this side writes, except for the mark.
#[derive(Clone, Copy, Debug)]
pub struct SideWords {
    /// Position up to which it has written to its own ring.
    pub written: usize,
    /// 1 once it writes no more.
    pub ended: usize,
    /// Position up to which it has taken from the other's ring.
    pub taken: usize,
    /// Reasons for its sleep. The other side clears what it has answered by a wake-up.
    pub wants: usize,
    /// Begin of its own ring.
    pub ring: usize,
}

impl Side {
    /// Returns the offsets of this side's words.
    pub const fn words(self) -> SideWords {
        let (base, ring) = match self {
            Side::Server => (128, HEAD_BYTES),
            Side::Client => (1024, HEAD_BYTES + RING_BYTES),
        };
        SideWords { written: base, ended: base + 4, taken: base + 128, wants: base + 256, ring }
    }

    /// Returns the other side.
    pub const fn other(self) -> Side {
        match self {
            Side::Server => Side::Client,
            Side::Client => Side::Server,
        }
    }
}

/// Pair of rings, seen from one side.
#[derive(Debug)]
pub struct Pair {
    memory: SharedMemory,
    own: SideWords,
    other: SideWords,
    written: u32,
    taken: u32,
    /// Own mark, as it was last stored.
    wants: u32,
}

fn broken() -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, "the other side of the shared memory has written an invalid position")
}

impl Pair {
    /// Looks at the memory from one side. Nobody has used it on this side before.
    pub fn new(memory: SharedMemory, side: Side) -> Pair {
        Pair { memory, own: side.words(), other: side.other().words(), written: 0, taken: 0, wants: 0 }
    }

    fn distance(&self, front: u32, back: u32) -> io::Result<usize> {
        let distance = front.wrapping_sub(back) as usize;
        if distance <= RING_BYTES { Ok(distance) } else { Err(broken()) }
    }

    /// Returns the number of bytes that can be taken.
    ///
    /// # Errors
    /// The other side has written an invalid position.
    pub fn available(&self) -> io::Result<usize> {
        self.distance(self.memory.word(self.other.written).load(SeqCst), self.taken)
    }

    /// Returns the number of bytes for which there is room.
    ///
    /// # Errors
    /// The other side has written an invalid position.
    pub fn room(&self) -> io::Result<usize> {
        let taken = self.memory.word(self.other.taken).load(SeqCst);
        self.distance(self.written, taken).map(|used| RING_BYTES - used)
    }

    /// Takes bytes, at most as many as [`available`](Pair::available) has said.
    pub fn take(&mut self, into: &mut [u8]) {
        let at = self.taken as usize % RING_BYTES;
        let (first, second) = into.split_at_mut(into.len().min(RING_BYTES - at));
        self.memory.read(self.other.ring + at, first);
        self.memory.read(self.other.ring, second);
        self.taken = self.taken.wrapping_add(into.len() as u32);
        self.memory.word(self.own.taken).store(self.taken, SeqCst);
    }

    /// Puts bytes, at most as many as [`room`](Pair::room) has said.
    pub fn put(&mut self, bytes: &[u8]) {
        let at = self.written as usize % RING_BYTES;
        let (first, second) = bytes.split_at(bytes.len().min(RING_BYTES - at));
        self.memory.write(self.own.ring + at, first);
        self.memory.write(self.own.ring, second);
        self.written = self.written.wrapping_add(bytes.len() as u32);
        self.memory.word(self.own.written).store(self.written, SeqCst);
    }

    /// Declares that this side writes no more.
    pub fn end(&self) {
        self.memory.word(self.own.ended).store(1, SeqCst);
    }

    /// Returns true if the other side writes no more. What it has written before may not have been taken yet.
    pub fn has_ended(&self) -> bool {
        self.memory.word(self.other.ended).load(SeqCst) != 0
    }

    /// Declares that this side is about to sleep for this reason. The caller has to look at the rings once more.
    pub fn want(&mut self, reason: u32) {
        self.wants |= reason;
        self.memory.word(self.own.wants).fetch_or(reason, SeqCst);
    }

    /// Declares that this side does not sleep for this reason.
    pub fn no_longer_want(&mut self, reason: u32) {
        if self.wants & reason != 0 {
            self.wants &= !reason;
            self.memory.word(self.own.wants).fetch_and(!reason, Relaxed);
        }
    }

    /// Returns true if the other side sleeps for this reason and has to be woken now.
    pub fn must_wake(&self, reason: u32) -> bool {
        let wants = self.memory.word(self.other.wants);
        wants.load(SeqCst) & reason != 0 && wants.fetch_and(!reason, SeqCst) & reason != 0
    }

    /// Returns true if the other side sleeps for this reason, or is about to. It is not woken.
    #[cfg(test)]
    pub(crate) fn other_wants(&self, reason: u32) -> bool {
        self.memory.word(self.other.wants).load(SeqCst) & reason != 0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pairs() -> (Pair, Pair, SharedMemory) {
        let (memory, file) = SharedMemory::create(c"test", PAIR_BYTES).unwrap();
        let open = || SharedMemory::open(&file, PAIR_BYTES).unwrap();
        (Pair::new(memory, Side::Server), Pair::new(open(), Side::Client), open())
    }

    #[test]
    fn bytes_pass_in_both_directions_and_around_the_end() {
        let (mut server, mut client, _) = pairs();
        let mut sent = 0u32;
        for count in (0..400).map(|at| at * 37 % 5000) {
            let bytes: Vec<u8> = (0..count).map(|at| (at + sent) as u8).collect();
            for turn in 0..2 {
                let (from, to) = if turn == 0 { (&mut server, &mut client) } else { (&mut client, &mut server) };
                assert_eq!(from.room().unwrap(), RING_BYTES);
                from.put(&bytes);
                assert_eq!(to.available().unwrap(), bytes.len());
                let mut got = vec![0; bytes.len()];
                to.take(&mut got);
                assert_eq!(got, bytes);
            }
            sent += count;
        }
        assert!(3 * RING_BYTES < sent as usize);
    }

    #[test]
    fn positions_wrap_around() {
        let (mut server, mut client, raw) = pairs();
        let before = u32::MAX - 10;
        (client.written, server.taken) = (before, before);
        raw.word(Side::Client.words().written).store(before, SeqCst);
        raw.word(Side::Server.words().taken).store(before, SeqCst);
        client.put(b"longer than ten bytes");
        assert_eq!((server.available().unwrap(), client.room().unwrap()), (21, RING_BYTES - 21));
        let mut got = [0; 21];
        server.take(&mut got);
        assert_eq!(&got, b"longer than ten bytes");
        assert_eq!(client.room().unwrap(), RING_BYTES);
    }

    #[test]
    fn positions_that_cannot_be_are_refused() {
        let (mut server, _client, raw) = pairs();
        let client = Side::Client.words();
        server.put(&[1; 100]);
        for wrong in [RING_BYTES as u32 + 1, u32::MAX, 1 << 31] {
            raw.word(client.written).store(wrong, SeqCst);
            assert_eq!(server.available().unwrap_err().kind(), io::ErrorKind::InvalidData);
        }
        for wrong in [101, u32::MAX - RING_BYTES as u32, 1 << 31] {
            raw.word(client.taken).store(wrong, SeqCst);
            assert_eq!(server.room().unwrap_err().kind(), io::ErrorKind::InvalidData);
        }
        raw.word(client.written).store(RING_BYTES as u32, SeqCst);
        assert_eq!(server.available().unwrap(), RING_BYTES);
        // A copy of its own position that the other side has changed changes nothing.
        raw.word(Side::Server.words().taken).store(77, SeqCst);
        assert_eq!(server.available().unwrap(), RING_BYTES);
    }

    #[test]
    fn a_mark_is_answered_once() {
        let (server, mut client, _) = pairs();
        assert!(!server.must_wake(WANTS_BYTES));
        client.want(WANTS_BYTES);
        client.want(WANTS_ROOM);
        assert!(server.must_wake(WANTS_BYTES) && !server.must_wake(WANTS_BYTES));
        client.no_longer_want(WANTS_ROOM);
        assert!(!server.must_wake(WANTS_ROOM));
    }
}
