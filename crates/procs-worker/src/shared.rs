//! Memory that host and worker share.
//!
//! **Invariant:** the host never has a reference to bytes that the worker may change. It sees atomic words, reads each
//! of them once, and copies a message into memory of its own before it looks at it. The file cannot change its size, so
//! no access faults.
#![allow(unsafe_code)]

use crate::system;
use procs::abi::{HEAD_BYTES, HOST_SLEEPS, MESSAGE, OTHER_KERNEL, PLACE, SHARED_BYTES, TURN, WORKER_SLEEPS};
use procs::wire::AREA_BYTES;
use std::fs::File;
use std::io::{self, Read, Write};
use std::os::fd::AsRawFd;
use std::os::unix::net::UnixStream;
use std::ptr::{self, NonNull};
use std::sync::atomic::Ordering::{Relaxed, SeqCst};
use std::sync::atomic::{AtomicU32, AtomicU64};
use std::time::Duration;

/// Turn of the host.
const HOST: u32 = 0;
/// Turn of the worker.
const WORKER: u32 = 1;
/// Version of the layout.
const VERSION: u32 = 1;
/// Bytes of a word of the exchange area.
const WORD: usize = 8;

/// Head of a message: its kind, its entry, and the length of its contents.
pub(crate) type Head = (u32, u32, u32);

/// Mapping of the shared file.
pub(crate) struct SharedMemory {
    base: NonNull<u8>,
    /// File for the worker.
    file: File,
    /// Socket by which both sides wake each other where futexes do not reach the worker.
    doorbell: Option<UnixStream>,
}

// SAFETY: the mapping belongs to the value, and is only accessed through atomics.
unsafe impl Send for SharedMemory {}

impl SharedMemory {
    /// Creates the file with the worker's turn: it has the first word. A worker on a kernel of its own has a doorbell.
    pub(crate) fn create(doorbell: Option<UnixStream>) -> io::Result<SharedMemory> {
        let file = system::memory_file(c"overtake-channel", false)?;
        file.set_len(SHARED_BYTES as u64)?;
        system::seal(&file, false)?;
        // SAFETY: a new mapping of a file that nobody can shorten, at an address of the kernel's choice.
        let base = unsafe {
            let access = libc::PROT_READ | libc::PROT_WRITE;
            libc::mmap(ptr::null_mut(), SHARED_BYTES, access, libc::MAP_SHARED, file.as_raw_fd(), 0)
        };
        if base == libc::MAP_FAILED {
            return Err(io::Error::last_os_error());
        }
        let base = NonNull::new(base.cast()).ok_or_else(|| io::Error::other("a mapping at address 0"))?;
        let place = if doorbell.is_some() { OTHER_KERNEL } else { 0 };
        let memory = SharedMemory { base, file, doorbell };
        memory.word(0).store(VERSION, SeqCst);
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
        const { assert!(MESSAGE + 12 <= HEAD_BYTES) };
        assert!(offset + 4 <= HEAD_BYTES && offset.is_multiple_of(4));
        // SAFETY: within the mapping, aligned, and only ever accessed as this atomic word by this process.
        unsafe { AtomicU32::from_ptr(self.base.as_ptr().add(offset).cast()) }
    }

    /// Returns the words of the exchange area.
    fn area(&self) -> &[AtomicU64] {
        // SAFETY: the area is within the mapping, aligned, and only ever accessed as these words by this process.
        // Atomics may be changed by others.
        unsafe { std::slice::from_raw_parts(self.base.as_ptr().add(HEAD_BYTES).cast(), AREA_BYTES / WORD) }
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
        for word in self.area().iter().take(copied.div_ceil(WORD)) {
            contents.extend_from_slice(&word.load(Relaxed).to_ne_bytes());
        }
        contents.truncate(copied);
        (kind, entry, len)
    }

    /// Gives the turn to the worker with a message, whose contents fit the area.
    pub(crate) fn give(&self, (kind, entry): (u32, u32), contents: &[u8]) {
        for (word, bytes) in self.area().iter().zip(contents.chunks(WORD)) {
            let mut whole = [0; WORD];
            whole[..bytes.len()].copy_from_slice(bytes);
            word.store(u64::from_ne_bytes(whole), Relaxed);
        }
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

impl Drop for SharedMemory {
    fn drop(&mut self) {
        // SAFETY: this mapping is ours, and no reference to it outlives the value.
        unsafe { libc::munmap(self.base.as_ptr().cast(), SHARED_BYTES) };
    }
}
