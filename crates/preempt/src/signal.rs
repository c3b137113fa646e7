//! Signals: the interrupt, and the report of a stack overflow.
//!
//! The interrupt is SIGURG, which is ignored by default and which no library sends (Go's runtime chose it for the same
//! reason). Its handler starts on the thread's signal stack and enters the urgent context on the urgent stack from
//! there. So the signal stack is idle but for that one frame, and a fault inside the urgent context can be reported on
//! it: the report overwrites the interrupt's frame, to which nothing returns any more.

use crate::context::{self, Arrival};
use crate::os;
use crate::stack::Stack;
use crate::worker::{self, Worker};
use core::ffi::{c_int, c_void};
use core::mem::{self, MaybeUninit};
use core::ptr;
use core::sync::atomic::{AtomicI32, Ordering::Relaxed};
use std::io;
use std::sync::OnceLock;

const INTERRUPT: c_int = libc::SIGURG;

/// Handlers that were installed before these, for faults that are not urgent stacks'.
struct Previous {
    segv: libc::sigaction,
    bus: libc::sigaction,
}

static PREVIOUS: OnceLock<Previous> = OnceLock::new();
static PROCESS: AtomicI32 = AtomicI32::new(0);

/// Installs the handlers, once for the process.
pub(crate) fn install() -> io::Result<()> {
    static DONE: OnceLock<Result<(), i32>> = OnceLock::new();
    DONE.get_or_init(|| install_once().map_err(|error| error.raw_os_error().unwrap_or(0)))
        .map_err(io::Error::from_raw_os_error)
}

fn install_once() -> io::Result<()> {
    // The kernel's frame holds all register state; a processor with more of it than we planned for must not surprise.
    // SAFETY: getauxval only reads the auxiliary vector.
    let frame = unsafe { libc::getauxval(libc::AT_MINSIGSTKSZ) } as usize;
    if frame > crate::stack::SIGNAL_STACK_BYTES / 2 {
        return Err(io::Error::other("this processor's signal frames do not fit our signal stacks"));
    }
    PROCESS.store(std::process::id() as i32, Relaxed);
    let fault = action(on_fault as *const () as usize, libc::SA_SIGINFO | libc::SA_ONSTACK, false);
    let segv = set(libc::SIGSEGV, &fault)?;
    let bus = set(libc::SIGBUS, &fault)?;
    let _ = PREVIOUS.set(Previous { segv, bus });
    // SA_RESTART: a paused context's system calls go on where they can. SA_ONSTACK: the interrupted stack may be
    // nearly full. Everything but faults is blocked inside, so that no other handler meets our stack.
    let interrupt =
        action(on_interrupt as *const () as usize, libc::SA_SIGINFO | libc::SA_ONSTACK | libc::SA_RESTART, true);
    set(INTERRUPT, &interrupt)?;
    Ok(())
}

fn action(handler: usize, flags: c_int, block_others: bool) -> libc::sigaction {
    // SAFETY: all-zero is a valid sigaction; the mask is initialised before use by the calls below.
    let mut action: libc::sigaction = unsafe { mem::zeroed() };
    action.sa_sigaction = handler;
    action.sa_flags = flags;
    // SAFETY: the mask is a local that these functions may write.
    unsafe {
        libc::sigemptyset(&raw mut action.sa_mask);
        if block_others {
            libc::sigfillset(&raw mut action.sa_mask);
            for fault in [libc::SIGSEGV, libc::SIGBUS, libc::SIGILL, libc::SIGFPE, libc::SIGTRAP, libc::SIGABRT] {
                libc::sigdelset(&raw mut action.sa_mask, fault);
            }
        }
    }
    action
}

fn set(signal: c_int, action: &libc::sigaction) -> io::Result<libc::sigaction> {
    let mut before = MaybeUninit::uninit();
    // SAFETY: both point to a sigaction; the kernel fills `before` when it succeeds.
    unsafe {
        if libc::sigaction(signal, action, before.as_mut_ptr()) != 0 {
            return Err(io::Error::last_os_error());
        }
        Ok(before.assume_init())
    }
}

/// Lets this thread receive interrupts, whatever mask it inherited.
pub(crate) fn unblock() {
    // SAFETY: the set is a local.
    unsafe {
        let mut set = mem::zeroed();
        libc::sigemptyset(&raw mut set);
        libc::sigaddset(&raw mut set, INTERRUPT);
        libc::pthread_sigmask(libc::SIG_UNBLOCK, &raw const set, ptr::null_mut());
    }
}

/// Makes `stack` this thread's signal stack and returns the earlier one.
pub(crate) fn use_alternate_stack(stack: &Stack) -> libc::stack_t {
    let new = libc::stack_t { ss_sp: stack.bottom(), ss_flags: 0, ss_size: stack.usable() };
    let mut before = libc::stack_t { ss_sp: ptr::null_mut(), ss_flags: libc::SS_DISABLE, ss_size: 0 };
    // SAFETY: the stack stays mapped until `restore_alternate_stack`; `before` is a local.
    unsafe { libc::sigaltstack(&raw const new, &raw mut before) };
    before
}

/// Gives the thread its earlier signal stack back, if `stack` is still its present one. It is not while the thread's
/// locals are dropped: std has then taken its own stack away, and with it the earlier one.
pub(crate) fn restore_alternate_stack(stack: &Stack, before: &libc::stack_t) {
    let mut now = libc::stack_t { ss_sp: ptr::null_mut(), ss_flags: libc::SS_DISABLE, ss_size: 0 };
    // SAFETY: `now` is a local; `before` came from the kernel and std keeps that stack mapped as long as the thread's
    // own code runs.
    unsafe {
        libc::sigaltstack(ptr::null(), &raw mut now);
        if now.ss_flags & libc::SS_DISABLE == 0 && now.ss_sp == stack.bottom() {
            libc::sigaltstack(before, ptr::null_mut());
        }
    }
}

/// Sends the interrupt to the worker at `index`, on thread `tid`. Returns false if that thread is gone.
///
/// The index travels with the signal, so that the handler needs no thread-local to find its worker.
pub(crate) fn send(index: usize, tid: i32) -> bool {
    /// Head of the kernel's `siginfo_t` as `rt_tgsigqueueinfo` reads it (x86-64 layout).
    #[repr(C)]
    struct QueuedInfo {
        signo: c_int,
        errno: c_int,
        code: c_int,
        _align: c_int,
        pid: i32,
        uid: u32,
        value: usize,
        _rest: [u64; 12],
    }
    const _: () = assert!(size_of::<QueuedInfo>() == size_of::<libc::siginfo_t>());
    let info = QueuedInfo {
        signo: INTERRUPT,
        errno: 0,
        code: libc::SI_QUEUE,
        _align: 0,
        pid: PROCESS.load(Relaxed),
        uid: 0,
        value: index,
        _rest: [0; 12],
    };
    // SAFETY: `info` is a complete siginfo_t of ours; the kernel copies it and checks pid and tid.
    unsafe { libc::syscall(libc::SYS_rt_tgsigqueueinfo, PROCESS.load(Relaxed), tid, INTERRUPT, &raw const info) == 0 }
}

extern "C" fn on_interrupt(_signal: c_int, info: *mut libc::siginfo_t, _ucontext: *mut c_void) {
    // SAFETY: the kernel passes a valid siginfo_t (SA_SIGINFO); pid and value exist for SI_QUEUE.
    let (ours, index) = unsafe {
        let info = &*info;
        (info.si_code == libc::SI_QUEUE && info.si_pid() == PROCESS.load(Relaxed), info.si_value().sival_ptr as usize)
    };
    let worker = if ours {
        worker::worker_at(index, os::thread_id())
    } else {
        // Out-of-band data on a socket, or another process: not an interrupt. But the kernel keeps one SIGURG for a thread
        // and drops the value beyond RLIMIT_SIGPENDING, so one of ours may have become this one.
        Worker::current().filter(|worker| worker.line().is_signal_due())
    };
    let Some(worker) = worker else { return };
    // SAFETY: the worker is registered on this thread, so its thread state is this thread's, which outlives it.
    let local = unsafe { &*worker.local() };
    os::keeping_errno(|| {
        worker.line().arrived();
        worker.count_signal();
        let is_urgent = local.urgent.load(Relaxed);
        if is_urgent || local.depth.load(Relaxed) > 0 {
            worker.count_landed(is_urgent);
            local.pending.store(true, Relaxed);
        } else {
            context::serve(worker, local, Arrival::Signalled);
        }
    });
}

/// Reports an overflow of an urgent stack and ends the process; passes every other fault on.
extern "C" fn on_fault(signal: c_int, info: *mut libc::siginfo_t, ucontext: *mut c_void) {
    // SAFETY: si_addr is set for SIGSEGV and SIGBUS.
    let address = unsafe { (*info).si_addr() } as usize;
    if let Some(worker) = worker::workers().find(|worker| worker.guard_holds(address)) {
        let mut name = [0; 24];
        report(b"\novertake: stack overflow in the urgent context of worker '");
        report(worker.name_into(&mut name));
        report(b"' (256 KiB); the process ends, because that context cannot be left halfway\n");
        // SAFETY: abort is async-signal-safe.
        unsafe { libc::abort() };
    }
    let previous = PREVIOUS.get().map(|previous| if signal == libc::SIGSEGV { &previous.segv } else { &previous.bus });
    match previous {
        Some(action) if action.sa_sigaction != libc::SIG_DFL && action.sa_sigaction != libc::SIG_IGN => {
            if action.sa_flags & libc::SA_SIGINFO != 0 {
                // SAFETY: with SA_SIGINFO the field holds a function of this type; std's handler is one.
                let handler: extern "C" fn(c_int, *mut libc::siginfo_t, *mut c_void) =
                    unsafe { mem::transmute(action.sa_sigaction) };
                handler(signal, info, ucontext);
            } else {
                // SAFETY: without SA_SIGINFO it holds a function of this type.
                let handler: extern "C" fn(c_int) = unsafe { mem::transmute(action.sa_sigaction) };
                handler(signal);
            }
        }
        // SAFETY: setting the default action is async-signal-safe; the fault repeats on return and ends the process.
        _ => unsafe {
            libc::signal(signal, libc::SIG_DFL);
        },
    }
}

fn report(bytes: &[u8]) {
    // SAFETY: write is async-signal-safe and reads just these bytes.
    unsafe { libc::write(2, bytes.as_ptr().cast(), bytes.len()) };
}
