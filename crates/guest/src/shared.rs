//! Memory and descriptors that the server shares with an executable.
//!
//! **Invariant:** only the side that has the turn reads or writes the message and the area. The turn passes by a store
//! that releases what was written before it, and a load that acquires it.
#![allow(unsafe_code)]

use crate::bytes::AREA_BYTES;
use std::ffi::{c_int, c_long, c_void};
use std::io::{self, Read, Write};
use std::os::fd::{FromRawFd, OwnedFd, RawFd};
use std::os::unix::net::UnixStream;
use std::ptr::{self, NonNull};
use std::sync::atomic::{AtomicU32, Ordering};

/// Bytes of the memory.
const BYTES: usize = 4_096 + AREA_BYTES;
/// Version of the layout.
const VERSION: u32 = 2;
/// Offsets within the head.
const TURN: usize = 64;
const HOST_SLEEPS: usize = 68;
const WORKER_SLEEPS: usize = 72;
const PLACE: usize = 76;
/// Places of the worker.
const IN_MACHINE: u32 = 1;
const OTHER_KERNEL: u32 = 2;
const MESSAGE: usize = 80;
/// Bytes before the area.
const CONTENTS: usize = 96;
/// Values of the turn.
const HOST: u32 = 0;
const WORKER: u32 = 1;
/// Bounds of the looks at the turn before the worker sleeps.
const SPINS_MIN: u32 = 16;
const SPINS_MAX: u32 = 4_096;
/// Sleeps after which a worker that has given up spinning tries it again: at first, and when that is never worth it.
const RETRY: (u32, u32) = (32, 1_024);

const PROT_READ_WRITE: c_int = 1 | 2;
const MAP_SHARED: c_int = 1;
const FUTEX_WAIT: c_long = 0;
const FUTEX_WAKE: c_long = 1;
#[cfg(target_arch = "x86_64")]
const SYS_FUTEX: c_long = 202;
#[cfg(any(target_arch = "aarch64", target_arch = "riscv64"))]
const SYS_FUTEX: c_long = 98;

unsafe extern "C" {
    fn mmap(address: *mut c_void, len: usize, prot: c_int, flags: c_int, fd: c_int, offset: i64) -> *mut c_void;
    fn syscall(number: c_long, ...) -> c_long;
}

/// Takes over an inherited socket.
pub(crate) fn socket(fd: RawFd) -> UnixStream {
    // SAFETY: the server has opened the descriptor for this process, and nothing else in it uses the number.
    UnixStream::from(unsafe { OwnedFd::from_raw_fd(fd) })
}

/// Memory shared with the server, mapped until the process ends.
#[derive(Debug)]
pub(crate) struct Shared {
    base: NonNull<u8>,
    /// Looks at the turn before the next sleep.
    spins: u32,
    /// True in a virtual machine. Each system call leaves it, so one has to do: the wait wakes the server as well.
    is_in_machine: bool,
    /// Socket by which both sides wake each other where no futex reaches the server's kernel.
    doorbell: Option<UnixStream>,
    /// Sleeps since the worker last spun as long as it may.
    sleeps: u32,
    /// Sleeps after which it does so again.
    retry: u32,
}

impl Shared {
    /// Maps the memory behind an inherited descriptor.
    pub(crate) fn open(fd: RawFd) -> io::Result<Shared> {
        // SAFETY: a new mapping at an address that the kernel chooses touches nothing that exists.
        let base = unsafe { mmap(ptr::null_mut(), BYTES, PROT_READ_WRITE, MAP_SHARED, fd, 0) };
        let base = NonNull::new(base.cast::<u8>()).filter(|base| base.as_ptr().addr() != usize::MAX);
        let base = base.ok_or_else(io::Error::last_os_error)?;
        let mut shared =
            Shared { base, spins: SPINS_MAX, is_in_machine: false, doorbell: None, sleeps: 0, retry: RETRY.0 };
        let place = shared.word(PLACE).load(Ordering::Relaxed);
        shared.is_in_machine = place == IN_MACHINE;
        shared.doorbell = (place == OTHER_KERNEL).then(|| socket(fd + 1));
        match shared.word(0).load(Ordering::Acquire) {
            VERSION => Ok(shared),
            version => Err(io::Error::other(format!("the shared memory has layout {version} instead of {VERSION}"))),
        }
    }

    fn word(&self, offset: usize) -> &AtomicU32 {
        debug_assert!(offset.is_multiple_of(4) && offset + 4 <= CONTENTS);
        // SAFETY: the offset is one of the constants above: aligned and within the mapping, which is never unmapped.
        // The other side uses the word atomically, too.
        unsafe { self.base.add(offset).cast::<AtomicU32>().as_ref() }
    }

    /// Writes a message, and gives the turn to the server.
    pub(crate) fn send(&mut self, kind: u32, bytes: &[u8]) {
        let len = bytes.len().min(AREA_BYTES);
        // SAFETY: the area is within the mapping; this side has the turn, so nobody else uses it.
        unsafe { ptr::copy_nonoverlapping(bytes.as_ptr(), self.base.add(CONTENTS).as_ptr(), len) };
        for (at, word) in [kind, 0, len as u32].into_iter().enumerate() {
            self.word(MESSAGE + 4 * at).store(word, Ordering::Relaxed);
        }
        // Sequentially consistent, as is the sleeper's mark: either this side sees the mark or the sleeper the turn.
        self.word(TURN).store(HOST, Ordering::SeqCst);
        if !self.is_in_machine && self.word(HOST_SLEEPS).load(Ordering::SeqCst) != 0 {
            match &mut self.doorbell {
                // A server that is gone needs no wake.
                Some(doorbell) => drop(doorbell.write_all(&[1])),
                None => self.futex(FUTEX_WAKE, 1),
            }
        }
    }

    /// Waits for the turn. Returns the message: kind, entry, contents.
    pub(crate) fn receive(&mut self) -> (u32, u32, &[u8]) {
        self.wait();
        let [kind, entry, len] = [0, 4, 8].map(|at| self.word(MESSAGE + at).load(Ordering::Relaxed));
        let len = (len as usize).min(AREA_BYTES);
        // SAFETY: the area is within the mapping; this side has the turn until `send`, which needs `&mut self`.
        let bytes = unsafe { std::slice::from_raw_parts(self.base.add(CONTENTS).as_ptr(), len) };
        (kind, entry, bytes)
    }

    fn wait(&mut self) {
        if self.is_in_machine {
            while self.word(TURN).load(Ordering::SeqCst) != WORKER {
                self.futex(FUTEX_WAIT, HOST);
            }
            return;
        }
        // A few looks never see an answer that takes the server a moment, so their failure says nothing.
        let is_retry = self.retry <= self.sleeps;
        for _ in 0..if is_retry { SPINS_MAX } else { self.spins } {
            if self.word(TURN).load(Ordering::Acquire) == WORKER {
                (self.spins, self.sleeps) = (if is_retry { SPINS_MAX } else { (2 * self.spins).min(SPINS_MAX) }, 0);
                self.retry = RETRY.0;
                return;
            }
            std::hint::spin_loop();
        }
        // A server on the same core cannot answer while this side spins.
        self.spins = (self.spins / 2).max(SPINS_MIN);
        if is_retry {
            (self.sleeps, self.retry) = (0, (2 * self.retry).min(RETRY.1));
        } else {
            self.sleeps += 1;
        }
        self.word(WORKER_SLEEPS).store(1, Ordering::SeqCst);
        while self.word(TURN).load(Ordering::SeqCst) != WORKER {
            match &mut self.doorbell {
                Some(doorbell) => {
                    if matches!(doorbell.read(&mut [0; 64]), Ok(0)) {
                        // The server has closed the channel.
                        std::process::exit(0);
                    }
                }
                None => self.futex(FUTEX_WAIT, HOST),
            }
        }
        self.word(WORKER_SLEEPS).store(0, Ordering::Relaxed);
    }

    fn futex(&self, operation: c_long, value: u32) {
        let turn = self.word(TURN).as_ptr();
        // SAFETY: the word lives as long as the mapping. FUTEX_WAIT without a time limit and FUTEX_WAKE use no other
        // argument. Errors are a changed word or a signal; the caller looks at the word again.
        unsafe { syscall(SYS_FUTEX, turn, operation, c_long::from(value), ptr::null::<c_void>()) };
    }
}
