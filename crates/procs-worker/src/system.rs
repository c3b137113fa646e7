//! Calls of the kernel that the standard library does not offer.
#![allow(unsafe_code)]

use std::ffi::CStr;
use std::fs::File;
use std::io;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd, RawFd};
use std::ptr;
use std::sync::atomic::AtomicU32;
use std::time::Duration;

fn checked(result: libc::c_int) -> io::Result<libc::c_int> {
    if result < 0 { Err(io::Error::last_os_error()) } else { Ok(result) }
}

/// Creates a file in memory that nothing names, for an executable.
pub(crate) fn memory_file(name: &CStr) -> io::Result<File> {
    let base = libc::MFD_CLOEXEC | libc::MFD_ALLOW_SEALING;
    // SAFETY: reads a text that ends with zero.
    let create = |flags| checked(unsafe { libc::memfd_create(name.as_ptr(), flags) });
    // Kernels before 6.3 do not know the flag.
    let file = create(base | libc::MFD_EXEC).or_else(|_| create(base))?;
    // SAFETY: the descriptor is new and nobody else's.
    Ok(unsafe { File::from_raw_fd(file) })
}

/// Keeps a file in memory as it is for ever.
pub(crate) fn seal(file: &File) -> io::Result<()> {
    let seals = libc::F_SEAL_SHRINK | libc::F_SEAL_GROW | libc::F_SEAL_WRITE;
    // SAFETY: takes numbers only.
    checked(unsafe { libc::fcntl(file.as_raw_fd(), libc::F_ADD_SEALS, seals | libc::F_SEAL_SEAL) })?;
    Ok(())
}

/// Returns a copy of a descriptor with a number of at least `least`, which `exec` closes.
pub(crate) fn copy_above(file: RawFd, least: RawFd) -> io::Result<OwnedFd> {
    // SAFETY: takes numbers only.
    let copy = checked(unsafe { libc::fcntl(file, libc::F_DUPFD_CLOEXEC, least) })?;
    // SAFETY: the descriptor is new and nobody else's.
    Ok(unsafe { OwnedFd::from_raw_fd(copy) })
}

/// Lets reads return at once if there is nothing to read.
pub(crate) fn set_nonblocking(file: &impl AsRawFd) -> io::Result<()> {
    // SAFETY: takes numbers only.
    checked(unsafe { libc::fcntl(file.as_raw_fd(), libc::F_SETFL, libc::O_NONBLOCK) })?;
    Ok(())
}

/// End of a process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Exit {
    /// Exit status.
    Status(i32),
    /// Signal that has killed it.
    Signal(i32),
}

/// Returns the end of a process, if it has ended. It is reaped only with `reaps`.
pub(crate) fn exit_of(process: &OwnedFd, reaps: bool) -> io::Result<Option<Exit>> {
    // SAFETY: an all-zero siginfo_t is valid, and the kernel fills it.
    let mut info: libc::siginfo_t = unsafe { std::mem::zeroed() };
    let keep = if reaps { 0 } else { libc::WNOWAIT };
    let flags = libc::WEXITED | libc::WNOHANG | keep;
    // SAFETY: `info` is a local.
    checked(unsafe { libc::waitid(libc::P_PIDFD, process.as_raw_fd() as libc::id_t, &raw mut info, flags) })?;
    // SAFETY: waitid has set these fields, or left them zero.
    let (pid, status) = unsafe { (info.si_pid(), info.si_status()) };
    Ok((pid != 0).then_some(if info.si_code == libc::CLD_EXITED { Exit::Status(status) } else { Exit::Signal(status) }))
}

/// Kills a process. One that has ended stays so.
pub(crate) fn kill(process: &OwnedFd) {
    // SAFETY: takes numbers, and no siginfo.
    unsafe {
        libc::syscall(
            libc::SYS_pidfd_send_signal,
            process.as_raw_fd(),
            libc::SIGKILL,
            ptr::null::<libc::siginfo_t>(),
            0,
        )
    };
}

/// Returns the descriptor of a process.
pub(crate) fn process(number: i32) -> io::Result<OwnedFd> {
    // SAFETY: takes numbers only.
    let descriptor = unsafe { libc::syscall(libc::SYS_pidfd_open, number, 0) };
    let descriptor = checked(descriptor as libc::c_int)?;
    // SAFETY: the descriptor is new and nobody else's.
    Ok(unsafe { OwnedFd::from_raw_fd(descriptor) })
}

/// Kills the processes of a group.
pub(crate) fn kill_group(group: i32) {
    if 1 < group {
        // SAFETY: takes numbers only. The caller's child has this number, so it is a group of its own.
        unsafe { libc::kill(-group, libc::SIGKILL) };
    }
}

/// Kills a child, and those that it has started and not put into another session.
pub(crate) fn kill_with_group(child: i32, process: &OwnedFd) {
    kill_group(child);
    kill(process);
}

/// Returns a time in nanoseconds that the kernel moves on every few milliseconds, and which costs no more than reading
/// memory. It stands still between, so two equal times are close to each other.
pub(crate) fn coarse_ns() -> i64 {
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: the time is a local. The clock exists since Linux 2.6.32, and a failure leaves 0.
    unsafe { libc::clock_gettime(libc::CLOCK_MONOTONIC_COARSE, &raw mut time) };
    time.tv_sec * 1_000_000_000 + time.tv_nsec
}

/// Sleeps until the word is no longer `value`, somebody wakes it, or the time is over.
pub(crate) fn futex_wait(word: &AtomicU32, value: u32, time: Duration) {
    let time = libc::timespec { tv_sec: time.as_secs() as i64, tv_nsec: i64::from(time.subsec_nanos()) };
    // SAFETY: the word and the time outlive the call. Any result is a reason to look again.
    unsafe { libc::syscall(libc::SYS_futex, word.as_ptr(), libc::FUTEX_WAIT, value, &raw const time) };
}

/// Wakes whoever sleeps on the word.
pub(crate) fn futex_wake(word: &AtomicU32) {
    // SAFETY: the word outlives the call.
    unsafe { libc::syscall(libc::SYS_futex, word.as_ptr(), libc::FUTEX_WAKE, i32::MAX) };
}

/// Sleeps until there is something to read, or the time is over. Returns true if there is.
pub(crate) fn wait_for_input(file: &impl AsRawFd, time: Duration) -> bool {
    let mut list = [libc::pollfd { fd: file.as_raw_fd(), events: libc::POLLIN, revents: 0 }];
    let ms = libc::c_int::try_from(time.as_millis()).unwrap_or(libc::c_int::MAX);
    // SAFETY: the list is a local of this length.
    unsafe { libc::poll(list.as_mut_ptr(), 1, ms) == 1 }
}

/// Returns the processors on which a process may run; 0 is this thread. None if there are too many to tell.
fn processors_of(process: libc::pid_t) -> Option<libc::cpu_set_t> {
    // SAFETY: a set of bits, which may all be zero.
    let mut set = unsafe { std::mem::zeroed::<libc::cpu_set_t>() };
    // SAFETY: writes no more than the size of the set.
    let result = unsafe { libc::sched_getaffinity(process, size_of::<libc::cpu_set_t>(), &raw mut set) };
    checked(result).ok().map(|_| set)
}

/// Number of processors on which this thread or a process may run.
pub(crate) fn processors_with(process: libc::pid_t) -> usize {
    let (Some(own), Some(other)) = (processors_of(0), processors_of(process)) else {
        return std::thread::available_parallelism().map_or(1, usize::from);
    };
    // SAFETY: the numbers are below the size of the sets.
    let is_there = |cpu: &usize| unsafe { libc::CPU_ISSET(*cpu, &own) || libc::CPU_ISSET(*cpu, &other) };
    (0..libc::CPU_SETSIZE as usize).filter(is_there).count()
}

/// Returns true if core dumps of this process are allowed.
pub(crate) fn is_dumpable() -> bool {
    // SAFETY: takes numbers only.
    unsafe { libc::prctl(libc::PR_GET_DUMPABLE) == 1 }
}

/// Allows core dumps of this process.
pub(crate) fn set_dumpable() {
    // SAFETY: takes numbers only.
    unsafe { libc::prctl(libc::PR_SET_DUMPABLE, 1) };
}

/// Returns the effective user and group of this process.
pub(crate) fn user() -> (u32, u32) {
    // SAFETY: neither has arguments, neither fails.
    unsafe { (libc::geteuid(), libc::getegid()) }
}
