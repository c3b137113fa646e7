//! Memory that the host shares with a worker.
#![allow(unsafe_code)]

use procs::abi::{HEAD_BYTES, HOST_SLEEPS, MESSAGE, SHARED_BYTES, TURN, WORKER_SLEEPS};
use rustix::fd::OwnedFd;
use rustix::fs::{MemfdFlags, ftruncate, memfd_create};
use rustix::mm::{MapFlags, ProtFlags, mmap};
use rustix::thread::futex;
use std::ptr;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

/// Mapping that lives as long as the test's process.
pub struct Memory {
    base: *mut u8,
    pub fd: OwnedFd,
}

/// Longest wait for a worker, which is an error.
const WAIT: Duration = Duration::from_secs(60);

impl Memory {
    pub fn new() -> Memory {
        let fd = memfd_create("overtake", MemfdFlags::empty()).expect("memory");
        ftruncate(&fd, SHARED_BYTES as u64).expect("memory");
        let prot = ProtFlags::READ | ProtFlags::WRITE;
        // SAFETY: a new mapping at an address that the kernel chooses.
        let base = unsafe { mmap(ptr::null_mut(), SHARED_BYTES, prot, MapFlags::SHARED, &fd, 0) };
        let memory = Memory { base: base.expect("a mapping").cast(), fd };
        memory.word(0).store(1, Ordering::Relaxed);
        // The worker begins.
        memory.word(TURN).store(1, Ordering::SeqCst);
        memory
    }

    fn word(&self, offset: usize) -> &AtomicU32 {
        assert!(offset + 4 <= HEAD_BYTES);
        // SAFETY: aligned, within the mapping, and atomic on both sides.
        unsafe { &*self.base.add(offset).cast::<AtomicU32>() }
    }

    pub fn send(&self, kind: u32, entry: u32, bytes: &[u8]) {
        assert_eq!(self.word(TURN).load(Ordering::SeqCst), 0, "the host has the turn");
        // SAFETY: the host has the turn.
        unsafe { ptr::copy_nonoverlapping(bytes.as_ptr(), self.base.add(HEAD_BYTES), bytes.len()) };
        for (at, word) in [kind, entry, bytes.len() as u32].into_iter().enumerate() {
            self.word(MESSAGE + 4 * at).store(word, Ordering::Relaxed);
        }
        self.word(TURN).store(1, Ordering::SeqCst);
        if self.word(WORKER_SLEEPS).load(Ordering::SeqCst) == 1 {
            futex::wake(self.word(TURN), futex::Flags::empty(), 1).expect("a wake-up");
        }
    }

    pub fn receive(&self) -> (u32, Vec<u8>) {
        let begun = Instant::now();
        self.word(HOST_SLEEPS).store(1, Ordering::SeqCst);
        while self.word(TURN).load(Ordering::SeqCst) != 0 {
            assert!(begun.elapsed() < WAIT, "the worker does not answer");
            let second = rustix::time::Timespec { tv_sec: 1, tv_nsec: 0 };
            let _ = futex::wait(self.word(TURN), futex::Flags::empty(), 1, Some(&second));
        }
        self.word(HOST_SLEEPS).store(0, Ordering::Relaxed);
        let [kind, len] = [0, 8].map(|at| self.word(MESSAGE + at).load(Ordering::Relaxed));
        // SAFETY: the host has the turn, and the length is within the area.
        let bytes = unsafe { std::slice::from_raw_parts(self.base.add(HEAD_BYTES), len as usize) };
        (kind, bytes.to_vec())
    }
}
