//! System calls of the monitor.
//!
//! **Invariant:** each function gives the kernel addresses of values that it has, and no others.
#![allow(unsafe_code)]

use core::arch::asm;
use core::fmt::{self, Arguments, Write};
use core::ptr;
use core::sync::atomic::AtomicU32;

/// Numbers of system calls.
mod number {
    pub(super) const READ: usize = 0;
    pub(super) const WRITE: usize = 1;
    pub(super) const LSEEK: usize = 8;
    pub(super) const MMAP: usize = 9;
    pub(super) const MPROTECT: usize = 10;
    pub(super) const IOCTL: usize = 16;
    pub(super) const SCHED_YIELD: usize = 24;
    pub(super) const MADVISE: usize = 28;
    pub(super) const NANOSLEEP: usize = 35;
    pub(super) const SENDTO: usize = 44;
    pub(super) const FUTEX: usize = 202;
    pub(super) const CLOCK_GETTIME: usize = 228;
    pub(super) const EXIT_GROUP: usize = 231;
    pub(super) const GETRANDOM: usize = 318;
}

/// Seconds and nanoseconds.
pub type Time = [i64; 2];

const READ_WRITE: usize = 1 | 2;
const SHARED: usize = 1;
const PRIVATE: usize = 2;
/// Anonymous, and without a reservation: most machines use little of their memory.
const ANONYMOUS: usize = 0x20 | 0x4000;
const DONT_NEED: usize = 4;
/// Greatest number of an error.
const ERROR_MAX: isize = 4_095;

/// # Safety
/// The arguments are what the call expects; it may read and write at the addresses among them.
unsafe fn call(number: usize, arguments: [usize; 6]) -> isize {
    let [a, b, c, d, e, f] = arguments;
    let result: isize;
    // SAFETY: the caller's.
    unsafe {
        asm!(
            "syscall",
            inlateout("rax") number as isize => result,
            in("rdi") a, in("rsi") b, in("rdx") c, in("r10") d, in("r8") e, in("r9") f,
            lateout("rcx") _, lateout("r11") _,
            options(nostack),
        );
    }
    result
}

/// Reads into a slice. Returns the number of bytes, or a negative error.
pub fn read(file: i32, bytes: &mut [u8]) -> isize {
    // SAFETY: the slice is writable.
    unsafe { call(number::READ, [file as usize, bytes.as_mut_ptr().addr(), bytes.len(), 0, 0, 0]) }
}

/// Writes a slice. Returns the number of bytes, or a negative error. A socket that is closed raises no signal.
pub fn write(file: i32, bytes: &[u8], is_socket: bool) -> isize {
    const NO_SIGNAL: usize = 0x4000;
    let (number, flags) = if is_socket { (number::SENDTO, NO_SIGNAL) } else { (number::WRITE, 0) };
    // SAFETY: the slice is readable. The address of a receiver is null.
    unsafe { call(number, [file as usize, bytes.as_ptr().addr(), bytes.len(), flags, 0, 0]) }
}

/// Ends the monitor.
pub fn exit(status: i32) -> ! {
    loop {
        // SAFETY: takes a number.
        unsafe { call(number::EXIT_GROUP, [status as usize, 0, 0, 0, 0, 0]) };
    }
}

/// Maps empty memory; `None` if there is too little.
pub fn map_memory(len: usize) -> Option<&'static mut [u8]> {
    // SAFETY: a new mapping at an address that the kernel chooses.
    let base = unsafe { call(number::MMAP, [0, len, READ_WRITE, PRIVATE | ANONYMOUS, usize::MAX, 0]) };
    let base = ptr::with_exposed_provenance_mut(mapped(base)?);
    // SAFETY: the mapping is of this length, zero, nobody else's, and never unmapped.
    Some(unsafe { core::slice::from_raw_parts_mut(base, len) })
}

/// Maps a file that cannot change.
pub fn map_file(file: i32) -> Option<&'static [u8]> {
    const END: usize = 2;
    // SAFETY: takes numbers.
    let len = unsafe { call(number::LSEEK, [file as usize, 0, END, 0, 0, 0]) };
    let len = usize::try_from(len).ok().filter(|len| 0 < *len)?;
    // SAFETY: a new mapping at an address that the kernel chooses.
    let base = unsafe { call(number::MMAP, [0, len, 1, PRIVATE, file as usize, 0]) };
    let base = ptr::with_exposed_provenance(mapped(base)?);
    // SAFETY: the mapping is of this length and never unmapped. The server has sealed the file.
    Some(unsafe { core::slice::from_raw_parts(base, len) })
}

/// Maps a file that others map as well. Returns the address.
pub fn map_shared(file: i32, len: usize) -> Option<*mut u8> {
    // SAFETY: a new mapping at an address that the kernel chooses.
    let base = unsafe { call(number::MMAP, [0, len, READ_WRITE, SHARED, file as usize, 0]) };
    mapped(base).map(ptr::with_exposed_provenance_mut)
}

fn mapped(result: isize) -> Option<usize> {
    if (-ERROR_MAX..=0).contains(&result) { None } else { Some(result as usize) }
}

/// Empties whole pages of memory. KVM forgets them, too.
pub fn empty(pages: &mut [u8]) {
    // SAFETY: the slice is private memory of the caller, which reads zeros from now on.
    unsafe { call(number::MADVISE, [pages.as_mut_ptr().expose_provenance(), pages.len(), DONT_NEED, 0, 0, 0]) };
}

/// Takes whole pages of memory out of reach, and brings them back as they were, to read and to write. KVM forgets them.
/// Returns false if the kernel has no memory for that; they may be out of reach then.
pub fn hide_and_show(pages: &mut [u8]) -> bool {
    let (base, len) = (pages.as_mut_ptr().expose_provenance(), pages.len());
    [0, READ_WRITE].into_iter().all(|rights| {
        // SAFETY: the slice is private memory of the caller, who does not use it meanwhile. It had these rights before.
        unsafe { call(number::MPROTECT, [base, len, rights, 0, 0, 0]) == 0 }
    })
}

/// Sleeps while the word has a value, until somebody wakes it or the time is over. Returns 0 or a negative error.
pub fn futex_wait(word: &AtomicU32, value: u32, time: Option<Time>) -> isize {
    const WAIT: usize = 0;
    let time = time.as_ref().map_or(0, |time| time.as_ptr().addr());
    // SAFETY: the word and the time outlive the call.
    unsafe { call(number::FUTEX, [word.as_ptr().addr(), WAIT, value as usize, time, 0, 0]) }
}

/// Wakes whoever sleeps on the word.
pub fn futex_wake(word: &AtomicU32) -> isize {
    const WAKE: usize = 1;
    // SAFETY: the word outlives the call.
    unsafe { call(number::FUTEX, [word.as_ptr().addr(), WAKE, i32::MAX as usize, 0, 0, 0]) }
}

/// Sleeps.
pub fn sleep(time: Time) -> isize {
    // SAFETY: the time outlives the call; the rest is not asked for.
    unsafe { call(number::NANOSLEEP, [time.as_ptr().addr(), 0, 0, 0, 0, 0]) }
}

/// Lets others run.
pub fn sched_yield() {
    // SAFETY: takes nothing.
    unsafe { call(number::SCHED_YIELD, [0; 6]) };
}

/// Reads a clock.
pub fn clock(number: u64) -> Result<Time, isize> {
    let mut time: Time = [0; 2];
    // SAFETY: the time outlives the call.
    let result = unsafe { call(number::CLOCK_GETTIME, [number as usize, time.as_mut_ptr().addr(), 0, 0, 0, 0]) };
    if result < 0 { Err(result) } else { Ok(time) }
}

/// Fills a slice with random bytes. Returns the number of bytes, or a negative error.
pub fn random(bytes: &mut [u8]) -> isize {
    // SAFETY: the slice is writable.
    unsafe { call(number::GETRANDOM, [bytes.as_mut_ptr().addr(), bytes.len(), 0, 0, 0, 0]) }
}

/// # Safety
/// The argument is what the request expects; the kernel may read and write at its address.
pub unsafe fn ioctl(file: i32, request: usize, argument: usize) -> isize {
    // SAFETY: the caller's.
    unsafe { call(number::IOCTL, [file as usize, request, argument, 0, 0, 0]) }
}

/// Output of the monitor.
struct Output;

impl Write for Output {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        write(2, text.as_bytes(), false);
        Ok(())
    }
}

/// Writes a text to the output.
pub fn tell(text: Arguments<'_>) {
    // Nobody can be told if this fails.
    let _ = Output.write_fmt(text);
}
