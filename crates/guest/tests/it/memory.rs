//! Memory that the host shares with a worker.
#![allow(unsafe_code)]

use procs::abi::{CONTENTS, HOST_SLEEPS, LAYOUT, MESSAGE, SHARED_BYTES, TURN, WORKER_SLEEPS};
use std::fs::File;
use std::os::fd::{AsRawFd, BorrowedFd, FromRawFd};
use std::ptr;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

/// Mapping that lives as long as the test's process.
pub struct Memory {
    base: *mut u8,
    pub file: File,
}

/// Longest wait for a worker, which is an error.
const WAIT: Duration = Duration::from_secs(60);

/// Lets child processes inherit a descriptor.
pub fn inherit(descriptor: BorrowedFd<'_>) {
    // SAFETY: the descriptor is open, and the call changes nothing but its flag.
    assert_eq!(unsafe { libc::fcntl(descriptor.as_raw_fd(), libc::F_SETFD, 0) }, 0, "a descriptor");
}

/// Waits at most 10 ms while the word has this value, or wakes one that waits.
fn futex(word: &AtomicU32, operation: libc::c_int, value: u32) {
    let time = libc::timespec { tv_sec: 0, tv_nsec: 10_000_000 };
    // SAFETY: the word and the time live longer than the call.
    unsafe { libc::syscall(libc::SYS_futex, word.as_ptr(), operation, value, &raw const time) };
}

impl Memory {
    pub fn new() -> Memory {
        // SAFETY: a new descriptor, which nothing else owns.
        let file = unsafe { File::from_raw_fd(libc::memfd_create(c"overtake".as_ptr(), 0)) };
        file.set_len(SHARED_BYTES as u64).expect("memory");
        let (prot, shared) = (libc::PROT_READ | libc::PROT_WRITE, libc::MAP_SHARED);
        // SAFETY: a new mapping at an address that the kernel chooses.
        let base = unsafe { libc::mmap(ptr::null_mut(), SHARED_BYTES, prot, shared, file.as_raw_fd(), 0) };
        assert_ne!(base, libc::MAP_FAILED, "a mapping");
        let memory = Memory { base: base.cast(), file };
        memory.word(0).store(LAYOUT, Ordering::Relaxed);
        // The worker begins.
        memory.word(TURN).store(1, Ordering::SeqCst);
        memory
    }

    fn word(&self, offset: usize) -> &AtomicU32 {
        assert!(offset + 4 <= CONTENTS);
        // SAFETY: aligned, within the mapping, and atomic on both sides.
        unsafe { &*self.base.add(offset).cast::<AtomicU32>() }
    }

    pub fn send(&self, kind: u32, entry: u32, bytes: &[u8]) {
        assert_eq!(self.word(TURN).load(Ordering::SeqCst), 0, "the host has the turn");
        // SAFETY: the host has the turn.
        unsafe { ptr::copy_nonoverlapping(bytes.as_ptr(), self.base.add(CONTENTS), bytes.len()) };
        for (at, word) in [kind, entry, bytes.len() as u32].into_iter().enumerate() {
            self.word(MESSAGE + 4 * at).store(word, Ordering::Relaxed);
        }
        self.word(TURN).store(1, Ordering::SeqCst);
        if self.word(WORKER_SLEEPS).load(Ordering::SeqCst) == 1 {
            futex(self.word(TURN), libc::FUTEX_WAKE, 1);
        }
    }

    pub fn receive(&self) -> (u32, Vec<u8>) {
        let begun = Instant::now();
        self.word(HOST_SLEEPS).store(1, Ordering::SeqCst);
        while self.word(TURN).load(Ordering::SeqCst) != 0 {
            assert!(begun.elapsed() < WAIT, "the worker does not answer");
            futex(self.word(TURN), libc::FUTEX_WAIT, 1);
        }
        self.word(HOST_SLEEPS).store(0, Ordering::Relaxed);
        let [kind, len] = [0, 8].map(|at| self.word(MESSAGE + at).load(Ordering::Relaxed));
        // SAFETY: the host has the turn, and the length is within the area.
        let bytes = unsafe { std::slice::from_raw_parts(self.base.add(CONTENTS), len as usize) };
        (kind, bytes.to_vec())
    }
}
