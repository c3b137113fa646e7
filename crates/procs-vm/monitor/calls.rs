//! System calls of the code: those that a static executable needs to compute and to speak over its channel.
//!
//! **Invariant:** nothing but memory, clocks, random bytes, and the descriptors 0 to 3 of the monitor is behind them. An
//! address of the code is used only within its memory, or as a word of the channel.

use crate::kernel::{self, Time};
use crate::layout::channel::{HOST, HOST_SLEEPS, TURN, WORKER_SLEEPS};
use crate::layout::{CHANNEL_BYTES, CHANNEL_FD, PAGE, status};
use crate::load::NOBODY;
use crate::machine::Machine;
use crate::memory::Guest;
use crate::pages::{PageRange, Rights, pages_of};
use core::sync::atomic::Ordering::SeqCst;

const EPERM: i64 = -1;
const ENOENT: i64 = -2;
const EBADF: i64 = -9;
const ENOMEM: i64 = -12;
const EFAULT: i64 = -14;
const EINVAL: i64 = -22;
const ENOTTY: i64 = -25;
const ENOSYS: i64 = -38;

/// Looks at the turn before the monitor sleeps.
const SPINS: u32 = 2_000;

/// Result of a call, or its error. `None` ends the code.
type Answered = Result<i64, i64>;

/// Arguments of a call.
type Arguments = [u64; 6];

/// Answers the call that the machine has stopped at. Returns the status with which the code ends, if it does.
pub fn answer(machine: &mut Machine, guest: &mut Guest) -> Option<i32> {
    let registers = machine.registers;
    let arguments = [registers.rdi, registers.rsi, registers.rdx, registers.r10, registers.r8, registers.r9];
    if let Some(status) = ending(registers.rax, &arguments) {
        return Some(status);
    }
    let answered = of_thread(registers.rax, &arguments, machine, guest)
        .or_else(|| of_memory(registers.rax, &arguments, guest))
        .or_else(|| of_files(registers.rax, &arguments, guest))
        .or_else(|| of_time(registers.rax, &arguments, guest))
        .or_else(|| of_identity(registers.rax, &arguments, guest));
    machine.answer(answered.unwrap_or(Err(ENOSYS)).unwrap_or_else(|error| error));
    None
}

/// Returns the status for a call that ends the code: `exit`, `exit_group`, and signals to itself.
fn ending(number: u64, [a, b, c, ..]: &Arguments) -> Option<i32> {
    let signal = match number {
        60 | 231 => return Some((*a & 0x7f) as i32),
        62 | 200 => *b,
        234 => *c,
        _ => return None,
    };
    (1..=64).contains(&signal).then_some(status::SIGNAL + signal as i32)
}

fn put<const N: usize>(guest: &mut Guest, address: u64, bytes: [u8; N]) -> Result<(), i64> {
    guest.range(address, N as u64).ok_or(EFAULT)?.copy_from_slice(&bytes);
    Ok(())
}

fn take<const N: usize>(guest: &mut Guest, address: u64) -> Result<[u8; N], i64> {
    guest.range(address, N as u64).and_then(|bytes| bytes.first_chunk().copied()).ok_or(EFAULT)
}

fn time_at(guest: &mut Guest, address: u64) -> Result<Option<Time>, i64> {
    if address == 0 {
        return Ok(None);
    }
    let (seconds, nanoseconds) = (take(guest, address)?, take(guest, address.wrapping_add(8))?);
    Ok(Some([i64::from_le_bytes(seconds), i64::from_le_bytes(nanoseconds)]))
}

fn put_time(guest: &mut Guest, address: u64, [seconds, rest]: Time) -> Answered {
    put(guest, address, seconds.to_le_bytes())?;
    put(guest, address.wrapping_add(8), rest.to_le_bytes())?;
    Ok(0)
}

/// The thread, its signals, and words to sleep on.
fn of_thread(number: u64, arguments: &Arguments, machine: &mut Machine, guest: &mut Guest) -> Option<Answered> {
    let [a, b, c, d, ..] = *arguments;
    Some(match number {
        // rt_sigaction, rt_sigprocmask, sigaltstack: there are no signals, so all have their first action.
        13 if c == 0 => Ok(0),
        13 => put(guest, c, [0; 32]).map(|()| 0),
        14 if c == 0 => Ok(0),
        14 => put(guest, c, [0; 8]).map(|()| 0),
        131 if b == 0 => Ok(0),
        131 => put(guest, b, [0, 0, 0, 0, 0, 0, 0, 0, 2, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0]).map(|()| 0),
        // sched_yield
        24 => {
            kernel::sched_yield();
            Ok(0)
        }
        // arch_prctl: ARCH_SET_FS, ARCH_GET_FS
        158 if a == 0x1002 => {
            if machine.set_thread_pointer(b) {
                Ok(0)
            } else {
                Err(EPERM)
            }
        }
        158 if a == 0x1003 => put(guest, b, machine.thread_pointer().to_le_bytes()).map(|()| 0),
        158 => Err(EINVAL),
        202 => futex(guest, a, b, c as u32, d),
        // set_tid_address, set_robust_list
        218 => Ok(1),
        273 => Ok(0),
        _ => return None,
    })
}

fn futex(guest: &mut Guest, address: u64, operation: u64, value: u32, time_at_address: u64) -> Answered {
    let (is_wait, is_wake) = (matches!(operation & 0x7f, 0), matches!(operation & 0x7f, 1));
    if !is_wait && !is_wake {
        return Err(ENOSYS);
    }
    let time = if is_wait { time_at(guest, time_at_address)? } else { None };
    let turn = guest.layout.channel + TURN;
    if is_wait && address == turn && value == HOST && time.is_none() {
        return wait_for_turn(guest);
    }
    let word = guest.word(address).ok_or(EFAULT)?;
    Ok(if is_wait { kernel::futex_wait(word, value, time) } else { kernel::futex_wake(word) } as i64)
}

/// Waits until the host has given the turn back. Wakes it first, so that code which sends a message and waits for the
/// answer leaves the machine once.
fn wait_for_turn(guest: &mut Guest) -> Answered {
    let channel = guest.channel.as_ref().ok_or(EFAULT)?;
    let (turn, sleeps) = (channel.word(TURN).ok_or(EFAULT)?, channel.word(HOST_SLEEPS).ok_or(EFAULT)?);
    if sleeps.load(SeqCst) != 0 {
        kernel::futex_wake(turn);
    }
    for _ in 0..SPINS {
        if turn.load(SeqCst) != HOST {
            return Ok(0);
        }
        core::hint::spin_loop();
    }
    let worker_sleeps = channel.word(WORKER_SLEEPS).ok_or(EFAULT)?;
    // Marked before the kernel looks at the turn: whoever gives it afterwards sees the mark.
    worker_sleeps.store(1, SeqCst);
    let result = kernel::futex_wait(turn, HOST, None);
    worker_sleeps.store(0, SeqCst);
    Ok(result as i64)
}

/// Memory.
fn of_memory(number: u64, arguments: &Arguments, guest: &mut Guest) -> Option<Answered> {
    let [a, b, c, d, e, _] = *arguments;
    Some(match number {
        9 => map(guest, (a, b), c, d, e as i32),
        10 => protect(guest, a, b, c),
        11 => pages(a, b).and_then(|range| guest.free(range).ok_or(EINVAL)).map(|()| 0),
        12 => Ok(heap(guest, a)),
        // mremap: the caller allocates, copies and frees instead.
        25 => Err(ENOMEM),
        28 => advise(guest, a, b, c),
        _ => return None,
    })
}

/// Returns the pages of a range that begins with one.
fn pages(address: u64, len: u64) -> Result<PageRange, i64> {
    let range = pages_of(address, len).filter(|(_, count)| *count != 0);
    range.filter(|_| address.is_multiple_of(PAGE)).ok_or(EINVAL)
}

fn map(guest: &mut Guest, (address, len): (u64, u64), protection: u64, flags: u64, file: i32) -> Answered {
    const FIXED: u64 = 0x10 | 0x10_0000;
    const ANONYMOUS: u64 = 0x20;
    if flags & ANONYMOUS == 0 {
        // The channel is the only file, and it has its place.
        let is_channel = file == CHANNEL_FD && guest.channel.is_some() && len <= CHANNEL_BYTES;
        return if is_channel { Ok(guest.layout.channel as i64) } else { Err(EBADF) };
    }
    let (rights, (_, count)) = (Rights::of_protection(protection), pages(0, len)?);
    if flags & FIXED != 0 {
        let range = pages(address, len)?;
        return guest.pages().take(range, rights).map(|()| address as i64).ok_or(ENOMEM);
    }
    match guest.pages().take_any(count, rights) {
        Some(page) => Ok((page * PAGE) as i64),
        None => {
            guest.was_refused = true;
            Err(ENOMEM)
        }
    }
}

fn protect(guest: &mut Guest, address: u64, len: u64, protection: u64) -> Answered {
    if len == 0 {
        return Ok(0);
    }
    let range = pages(address, len)?;
    guest.protect(range, Rights::of_protection(protection)).map(|()| 0).ok_or(ENOMEM)
}

/// Moves the end of the heap, if the memory behind it is free. Returns the end.
fn heap(guest: &mut Guest, wanted: u64) -> i64 {
    let (begin, now) = guest.heap;
    let page = |address: u64| address.div_ceil(PAGE);
    let moved = if wanted < begin {
        None
    } else if page(wanted) <= page(now) {
        let range = (page(wanted), page(now) - page(wanted));
        guest.free(range)
    } else {
        guest.pages().take((page(now), page(wanted) - page(now)), Rights::DATA)
    };
    if moved.is_some() {
        guest.heap.1 = wanted;
    }
    guest.heap.1 as i64
}

fn advise(guest: &mut Guest, address: u64, len: u64, advice: u64) -> Answered {
    const DONT_NEED: u64 = 4;
    if advice == DONT_NEED && len != 0 {
        let (first, count) = pages(address, len)?;
        kernel::empty(guest.range(first * PAGE, count * PAGE).ok_or(ENOMEM)?);
    }
    Ok(0)
}

/// Descriptors: an input that is empty, outputs, and the channel.
fn of_files(number: u64, arguments: &Arguments, guest: &mut Guest) -> Option<Answered> {
    let [a, b, c, ..] = *arguments;
    let file = a as i32;
    let is_open = (0..=CHANNEL_FD).contains(&file);
    Some(match number {
        // read, recvfrom
        0 | 45 if file == CHANNEL_FD && guest.channel.is_none() => {
            guest.range(b, c).ok_or(EFAULT).map(|bytes| kernel::read(file, bytes) as i64)
        }
        0 if file == 0 => Ok(0),
        // write, sendto
        1 | 44 if file == CHANNEL_FD && guest.channel.is_none() => {
            guest.range(b, c).ok_or(EFAULT).map(|bytes| kernel::write(file, bytes, true) as i64)
        }
        1 if matches!(file, 1 | 2) => {
            guest.range(b, c).ok_or(EFAULT).map(|bytes| kernel::write(file, bytes, false) as i64)
        }
        0 | 1 | 44 | 45 => Err(EBADF),
        20 if is_open => write_all(guest, file, b, c),
        // close: the numbers stay open, which nobody can tell.
        3 if is_open => Ok(0),
        // poll: nothing has happened.
        7 => Ok(0),
        16 if is_open => Err(ENOTTY),
        // fcntl
        72 if is_open => Ok(0),
        3 | 16 | 20 | 72 => Err(EBADF),
        // open, stat, lstat, access, readlink, openat, readlinkat, faccessat, statx: there are no files.
        2 | 4 | 6 | 21 | 89 | 257 | 267 | 269 | 332 => Err(ENOENT),
        _ => return None,
    })
}

/// Writes a list of ranges, as `writev` does.
fn write_all(guest: &mut Guest, file: i32, list: u64, count: u64) -> Answered {
    const LIST_MAX: u64 = 1_024;
    let is_socket = file == CHANNEL_FD && guest.channel.is_none();
    if LIST_MAX < count || !(is_socket || matches!(file, 1 | 2)) {
        return Err(EINVAL);
    }
    let mut sum = 0;
    for at in 0..count {
        let place = list.wrapping_add(16 * at);
        let (address, len) = (u64::from_le_bytes(take(guest, place)?), u64::from_le_bytes(take(guest, place + 8)?));
        let bytes = guest.range(address, len).ok_or(EFAULT)?;
        let written = kernel::write(file, bytes, is_socket) as i64;
        if written < 0 {
            return if sum == 0 { Err(written) } else { Ok(sum) };
        }
        sum += written;
        if (written as u64) < len {
            break;
        }
    }
    Ok(sum)
}

/// Clocks and random bytes.
fn of_time(number: u64, arguments: &Arguments, guest: &mut Guest) -> Option<Answered> {
    const REAL: u64 = 0;
    let [a, b, c, ..] = *arguments;
    Some(match number {
        // nanosleep, clock_nanosleep without a flag
        35 => sleep(guest, a),
        230 if b == 0 => sleep(guest, c),
        // gettimeofday
        96 => kernel::clock(REAL)
            .map_err(|error| error as i64)
            .and_then(|[seconds, rest]| put_time(guest, a, [seconds, rest / 1_000])),
        // time
        201 => kernel::clock(REAL).map(|[seconds, _]| seconds).map_err(|error| error as i64),
        228 => kernel::clock(a).map_err(|error| error as i64).and_then(|time| put_time(guest, b, time)),
        318 => guest.range(a, b).ok_or(EFAULT).map(|bytes| kernel::random(bytes) as i64),
        _ => return None,
    })
}

fn sleep(guest: &mut Guest, address: u64) -> Answered {
    let time = time_at(guest, address)?.ok_or(EFAULT)?;
    Ok(kernel::sleep(time) as i64)
}

/// Names and limits of the process.
fn of_identity(number: u64, arguments: &Arguments, guest: &mut Guest) -> Option<Answered> {
    const STACK: u64 = 3;
    let [_, b, c, d, ..] = *arguments;
    Some(match number {
        // getpid, gettid
        39 | 186 => Ok(1),
        // getuid, getgid, geteuid, getegid
        102 | 104 | 107 | 108 => Ok(NOBODY as i64),
        // prlimit64: it reads the limit of the stack, and sets none.
        302 if c == 0 && d != 0 => {
            let limit = if b == STACK { guest.layout.memory - guest.layout.stack } else { u64::MAX };
            put_time(guest, d, [limit as i64; 2])
        }
        302 => Err(EPERM),
        _ => return None,
    })
}
