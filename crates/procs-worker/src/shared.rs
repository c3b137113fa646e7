//! Memory that host and worker share.
//!
//! **Invariant:** the host never has a reference to bytes that the worker may change. It sees atomic words, reads each
//! of them once, and copies a message into memory of its own before it looks at it. The file cannot change its size, so
//! no access faults.

use crate::system;
use procs::abi::{
    CONTENTS, HOST, HOST_SLEEPS, LAYOUT, MESSAGE, OTHER_KERNEL, PLACE, SHARED_BYTES, TURN, WORKER, WORKER_SLEEPS,
};
use procs::wire::AREA_BYTES;
use std::fs::File;
use std::io::{self, Read, Write};
use std::os::unix::net::UnixStream;
use std::sync::atomic::AtomicU32;
use std::sync::atomic::Ordering::{Relaxed, SeqCst};
use std::time::Duration;

/// Head of a message: its kind, its entry, and the length of its contents.
pub(crate) type Head = (u32, u32, u32);

/// Channel in memory that is shared with the worker.
pub(crate) struct SharedChannel {
    memory: rings::SharedMemory,
    /// File for the worker.
    file: File,
    /// Socket by which both sides wake each other where futexes do not reach the worker.
    doorbell: Option<UnixStream>,
}

impl SharedChannel {
    /// Creates the file with the worker's turn: it has the first word. A worker on a kernel of its own has a doorbell.
    pub(crate) fn create(doorbell: Option<UnixStream>) -> io::Result<SharedChannel> {
        let (memory, file) = rings::SharedMemory::create(c"overtake-channel", SHARED_BYTES)?;
        let place = if doorbell.is_some() { OTHER_KERNEL } else { 0 };
        let memory = SharedChannel { memory, file, doorbell };
        memory.word(0).store(LAYOUT, SeqCst);
        memory.word(PLACE).store(place, SeqCst);
        memory.word(TURN).store(WORKER, SeqCst);
        Ok(memory)
    }

    /// Returns the file for the worker.
    pub(crate) fn file(&self) -> &File {
        &self.file
    }

    /// Returns the word at an offset in the head.
    fn word(&self, offset: usize) -> &AtomicU32 {
        const { assert!(MESSAGE + 12 <= CONTENTS && CONTENTS + AREA_BYTES <= SHARED_BYTES) };
        self.memory.word(offset)
    }

    /// Returns true if it is the host's turn.
    pub(crate) fn is_ours(&self) -> bool {
        self.word(TURN).load(SeqCst) == HOST
    }

    /// Sleeps until it is the host's turn, or the time is over.
    pub(crate) fn sleep(&self, time: Duration) {
        // The worker gives the turn first and then reads the mark; in sequentially consistent order, one of both sees
        // the other. A worker that lies only delays itself.
        self.word(HOST_SLEEPS).store(1, SeqCst);
        let turn = self.word(TURN).load(SeqCst);
        match &self.doorbell {
            _ if turn == HOST => {}
            Some(doorbell) => wait_for_bell(doorbell, time),
            None => system::futex_wait(self.word(TURN), turn, time),
        }
        self.word(HOST_SLEEPS).store(0, SeqCst);
    }

    /// Copies the message of the worker: its contents into `contents`, as far as they are within the area.
    pub(crate) fn take(&self, contents: &mut Vec<u8>) -> Head {
        let [kind, entry, len] = [0, 4, 8].map(|offset| self.word(MESSAGE + offset).load(Relaxed));
        let copied = (len as usize).min(AREA_BYTES);
        contents.clear();
        contents.resize(copied, 0);
        self.memory.read(CONTENTS, contents);
        (kind, entry, len)
    }

    /// Gives the turn to the worker with a message, whose contents fit the area.
    pub(crate) fn give(&self, (kind, entry): (u32, u32), contents: &[u8]) {
        self.memory.write(CONTENTS, contents);
        for (offset, value) in [(0, kind), (4, entry), (8, contents.len() as u32)] {
            self.word(MESSAGE + offset).store(value, Relaxed);
        }
        self.word(TURN).store(WORKER, SeqCst);
        if self.word(WORKER_SLEEPS).load(SeqCst) != 0 {
            match &self.doorbell {
                // A doorbell that takes no more bytes has enough of them.
                Some(doorbell) => drop((&*doorbell).write(&[1])),
                None => system::futex_wake(self.word(TURN)),
            }
        }
    }
}

/// Sleeps until there is a byte, or the time is over. Takes the bytes that are there, as far as they fit.
fn wait_for_bell(doorbell: &UnixStream, time: Duration) {
    // A worker that writes more bytes than these only wakes the host again.
    if system::wait_for_input(doorbell, time) && matches!((&*doorbell).read(&mut [0; 256]), Ok(0)) {
        // It has closed its end: whoever looks finds out why.
        std::thread::sleep(time);
    }
}
