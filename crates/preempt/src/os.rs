//! Calls of the kernel: time, threads, priorities, and the time that a thread waited for a processor.

use crate::region::{LOCAL, Local};
use core::ffi::CStr;
use core::sync::atomic::{AtomicPtr, Ordering::Relaxed};
use core::{mem, ptr};
use std::fs::File;
use std::io::{self, Read};
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use std::os::unix::fs::FileExt;

/// Returns the nanoseconds of `CLOCK_MONOTONIC`. No system call, so it is allowed in an urgent context.
#[inline]
pub fn now_ns() -> u64 {
    clock_ns(libc::CLOCK_MONOTONIC)
}

/// Returns the processor time of this process in nanoseconds.
pub fn process_cpu_ns() -> u64 {
    clock_ns(libc::CLOCK_PROCESS_CPUTIME_ID)
}

/// Returns the processor time of this thread in nanoseconds.
pub fn thread_cpu_ns() -> u64 {
    clock_ns(libc::CLOCK_THREAD_CPUTIME_ID)
}

fn clock_ns(clock: libc::clockid_t) -> u64 {
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: `time` is a local; these clocks exist on every Linux.
    unsafe { libc::clock_gettime(clock, &raw mut time) };
    time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64
}

/// Returns the processor's time-stamp counter (TSC), or the nanoseconds of [`now_ns`] on other processors. It costs half
/// of what that costs. Its unit is known only by comparison with [`now_ns`], and its values are times only where
/// [`has_steady_ticks`] says so.
#[inline]
pub fn ticks() -> u64 {
    #[cfg(target_arch = "x86_64")]
    // SAFETY: RDTSC reads a register of the processor into two others. It touches no memory, and every processor of
    // this architecture has it. It could fault only under PR_TSC_SIGSEGV, which this process does not ask for and under
    // which the vDSO's clocks, which read the same register, would fault as well.
    unsafe {
        core::arch::x86_64::_rdtsc()
    }
    #[cfg(not(target_arch = "x86_64"))]
    now_ns()
}

/// Returns true if [`ticks`] counts at a constant rate in every state of the processor, and alike on all processors.
/// The kernel judges that: it makes the TSC its own clock only if its tests of both have passed.
pub fn has_steady_ticks() -> bool {
    let read = |path| std::fs::read_to_string(path).unwrap_or_default();
    let is_clock = read("/sys/devices/system/clocksource/clocksource0/current_clocksource").trim() == "tsc";
    let flags = read("/proc/cpuinfo");
    let has = |flag: &str| flags.split_whitespace().any(|one| one == flag);
    cfg!(target_arch = "x86_64") && is_clock && has("constant_tsc") && has("nonstop_tsc")
}

/// Returns the kernel's id of this thread.
#[inline]
pub fn thread_id() -> i32 {
    // SAFETY: gettid has no arguments and cannot fail.
    unsafe { libc::syscall(libc::SYS_gettid) as i32 }
}

/// Returns the processors that this process may use.
pub fn cpus() -> Vec<usize> {
    // SAFETY: an all-zero set is valid, and the kernel fills it.
    let set = unsafe {
        let mut set: libc::cpu_set_t = mem::zeroed();
        if libc::sched_getaffinity(0, size_of::<libc::cpu_set_t>(), &raw mut set) != 0 {
            return vec![0];
        }
        set
    };
    // SAFETY: the index is below the size of the set.
    (0..libc::CPU_SETSIZE as usize).filter(|&cpu| unsafe { libc::CPU_ISSET(cpu, &set) }).collect()
}

/// Returns the processor that this thread runs on now; none if the kernel does not say.
#[inline]
pub fn current_cpu() -> Option<usize> {
    // SAFETY: no arguments; answered by the vDSO without a system call.
    usize::try_from(unsafe { libc::sched_getcpu() }).ok()
}

/// Keeps this thread on one processor.
pub fn pin_to_cpu(cpu: usize) -> io::Result<()> {
    pin_to_cpus(&[cpu])
}

/// Lets this thread run on these processors only.
pub fn pin_to_cpus(cpus: &[usize]) -> io::Result<()> {
    if cpus.iter().any(|&cpu| cpu >= libc::CPU_SETSIZE as usize) {
        return Err(io::Error::other("no such processor"));
    }
    // SAFETY: a local set, and indices below its size.
    let result = unsafe {
        let mut set: libc::cpu_set_t = mem::zeroed();
        cpus.iter().for_each(|&cpu| libc::CPU_SET(cpu, &mut set));
        libc::sched_setaffinity(0, size_of::<libc::cpu_set_t>(), &raw const set)
    };
    checked(result)
}

/// Puts this thread into the real-time class SCHED_FIFO, which needs a privilege (CAP_SYS_NICE or RLIMIT_RTPRIO).
pub fn set_realtime(priority: i32) -> io::Result<()> {
    let parameter = libc::sched_param { sched_priority: priority };
    // SAFETY: reads a local.
    checked(unsafe { libc::sched_setscheduler(0, libc::SCHED_FIFO, &raw const parameter) })?;
    LOCAL.with(|local| local.gave_way_ns.store(0, Relaxed));
    Ok(())
}

/// Puts this thread back into the ordinary class.
pub fn set_ordinary() -> io::Result<()> {
    let parameter = libc::sched_param { sched_priority: 0 };
    // SAFETY: reads a local.
    checked(unsafe { libc::sched_setscheduler(0, libc::SCHED_OTHER, &raw const parameter) })?;
    LOCAL.with(|local| local.gave_way_ns.store(0, Relaxed));
    Ok(())
}

/// Puts a thread of this process, by its [number](thread_id), into the ordinary class. One of the class SCHED_IDLE gets there only
/// with a privilege (CAP_SYS_NICE, or RLIMIT_NICE up to its nice value). It still gives way at its safepoints.
pub fn set_thread_ordinary(thread: i32) -> io::Result<()> {
    let parameter = libc::sched_param { sched_priority: 0 };
    // SAFETY: reads a local.
    checked(unsafe { libc::sched_setscheduler(thread, libc::SCHED_OTHER, &raw const parameter) })
}

/// Puts this thread into the class SCHED_IDLE, below every ordinary one. That needs no privilege. From now on it gives way at
/// its [safepoints](crate::safepoint).
///
/// Linux (since 6.6, EEVDF) runs the thread with the earliest virtual deadline, and a thread of this class that has
/// waited for another of it may have an earlier one than an ordinary thread that wakes: so two of them on one processor
/// delayed an ordinary one by up to 3 ms, until the slice was over. `sched_yield` gives up the slice.
pub fn set_idle() -> io::Result<()> {
    let parameter = libc::sched_param { sched_priority: 0 };
    // SAFETY: reads a local.
    checked(unsafe { libc::sched_setscheduler(0, libc::SCHED_IDLE, &raw const parameter) })?;
    LOCAL.with(|local| local.gave_way_ns.store(1, Relaxed));
    Ok(())
}

/// Scheduling class of a thread, with its nice value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ThreadPriority {
    /// Class SCHED_IDLE. The kernel ignores the nice value there, and keeps it.
    Idle {
        /// Nice value.
        nice: i32,
    },
    /// Ordinary class.
    Ordinary {
        /// Nice value, -20 to 19.
        nice: i32,
        /// Length of a slice in nanoseconds, 0 for the usual one. Linux before 6.12 ignores it.
        slice_ns: u64,
    },
}

impl ThreadPriority {
    /// Returns the priority of this thread, with the usual slice.
    ///
    /// # Errors
    /// `Unsupported` for a class that is none of these.
    pub fn of_current() -> io::Result<ThreadPriority> {
        let mut attributes = scheduling(0, 0, 0);
        let size = attributes.size;
        // SAFETY: the kernel writes no more than `size` bytes into a local of that size.
        let result = unsafe { libc::syscall(libc::SYS_sched_getattr, 0, &raw mut attributes, size, 0) };
        checked(result as i32)?;
        match attributes.sched_policy as i32 {
            libc::SCHED_IDLE => Ok(ThreadPriority::Idle { nice: attributes.sched_nice }),
            libc::SCHED_OTHER => Ok(ThreadPriority::Ordinary { nice: attributes.sched_nice, slice_ns: 0 }),
            _ => Err(io::ErrorKind::Unsupported.into()),
        }
    }

    /// Returns true for the class SCHED_IDLE.
    pub const fn is_idle(self) -> bool {
        matches!(self, ThreadPriority::Idle { .. })
    }

    /// Returns true if the kernel prefers threads of the other priority.
    pub const fn is_below(self, other: ThreadPriority) -> bool {
        use ThreadPriority::{Idle, Ordinary};
        match (self, other) {
            (Idle { .. }, Ordinary { .. }) => true,
            (Ordinary { nice, .. }, Ordinary { nice: other, .. }) => other < nice,
            (Idle { .. } | Ordinary { .. }, Idle { .. }) => false,
        }
    }

    /// Gives this priority to this thread. A thread that has called [`set_idle`] still gives way at its safepoints, except
    /// in an urgent context. Allowed in an urgent context.
    ///
    /// # Errors
    /// `PermissionDenied` for a higher priority than the thread has, without CAP_SYS_NICE or a limit that allows it
    /// (RLIMIT_NICE).
    pub fn apply_to_current(self) -> io::Result<()> {
        self.apply_to(0)
    }

    /// Gives this priority to a thread of this process, by its [number](thread_id). Allowed in an urgent context.
    ///
    /// # Errors
    /// As [`ThreadPriority::apply_to_current`].
    pub fn apply_to(self, thread: i32) -> io::Result<()> {
        let attributes = match self {
            ThreadPriority::Idle { nice } => scheduling(libc::SCHED_IDLE, nice, 0),
            ThreadPriority::Ordinary { nice, slice_ns } => scheduling(libc::SCHED_OTHER, nice, slice_ns),
        };
        // SAFETY: reads a local, whose size is its first field.
        let result = unsafe { libc::syscall(libc::SYS_sched_setattr, thread, &raw const attributes, 0) };
        checked(result as i32)
    }
}

fn scheduling(policy: i32, nice: i32, slice_ns: u64) -> libc::sched_attr {
    libc::sched_attr {
        size: size_of::<libc::sched_attr>() as u32,
        sched_policy: policy as u32,
        sched_flags: 0,
        sched_nice: nice,
        sched_priority: 0,
        sched_runtime: slice_ns,
        sched_deadline: 0,
        sched_period: 0,
    }
}

/// Returns the value of the variable `PLANTED_BUG`, empty without it. Allocates nothing. Only for builds with planted bugs,
/// whose processes never change their variables.
pub(crate) fn planted_bug() -> &'static [u8] {
    static VALUE: AtomicPtr<libc::c_char> = AtomicPtr::new(ptr::null_mut());
    let mut value = VALUE.load(Relaxed);
    if value.is_null() {
        // SAFETY: reads a string that ends with 0; nobody changes variables.
        let found = unsafe { libc::getenv(c"PLANTED_BUG".as_ptr()) };
        value = if found.is_null() { c"".as_ptr().cast_mut() } else { found };
        VALUE.store(value, Relaxed);
    }
    // SAFETY: a string that ends with 0, which is there and the same until the process ends.
    unsafe { CStr::from_ptr(value) }.to_bytes()
}

/// Disables huge pages: touched memory comes in small pages from now on, whatever was advised. A huge page is resident
/// as a whole, and each thread's part of the heap touches several.
pub fn disable_huge_pages() -> io::Result<()> {
    // SAFETY: sets a flag of this process.
    checked(unsafe { libc::prctl(libc::PR_SET_THP_DISABLE, 1, 0, 0, 0) })
}

/// Shortest time between two yields of a thread of the idle class. No thread that waits for it waits longer, except for
/// its work between two safepoints.
const GIVES_WAY_NS: u64 = 300_000;

/// Lets other threads of this processor go first, on a thread of the idle class that has not done so recently.
#[inline]
pub(crate) fn give_way(local: &Local) {
    let last_ns = local.gave_way_ns.load(Relaxed);
    // A holder of a latch, or an urgent context, keeps the processor.
    if last_ns == 0 || local.depth.load(Relaxed) != 0 || local.urgent.load(Relaxed) {
        return;
    }
    let now_ns = now_ns();
    if GIVES_WAY_NS <= now_ns.saturating_sub(last_ns) {
        local.gave_way_ns.store(now_ns, Relaxed);
        // SAFETY: no pointers.
        unsafe { libc::sched_yield() };
    }
}

/// Sets the time by which the kernel may wake this thread late, to save wake-ups, in nanoseconds. Threads begin with
/// 50 µs; those of the real-time class have none.
pub fn set_timer_slack(ns: u32) -> io::Result<()> {
    // SAFETY: no pointers.
    checked(unsafe { libc::prctl(libc::PR_SET_TIMERSLACK, libc::c_ulong::from(ns)) })
}

/// Returns true if this process may use the real-time class, tried on a thread of its own.
pub fn realtime_allowed() -> bool {
    std::thread::spawn(|| set_realtime(1).is_ok()).join().unwrap_or(false)
}

/// Sets the nice value of this thread (Linux keeps one per thread). Raising it needs no privilege.
pub fn set_nice(nice: i32) -> io::Result<()> {
    // SAFETY: no pointers.
    checked(unsafe { libc::setpriority(libc::PRIO_PROCESS, thread_id() as libc::id_t, nice) })
}

/// Calls `f` and leaves this thread's `errno` as it was.
pub(crate) fn keeping_errno(f: impl FnOnce()) {
    // SAFETY: __errno_location is this thread's errno, which lives as long as the thread.
    let errno = unsafe { libc::__errno_location() };
    // SAFETY: as above.
    let before = unsafe { *errno };
    f();
    // SAFETY: as above; urgent code returns on the thread that it interrupted.
    unsafe { *errno = before };
}

fn checked(result: i32) -> io::Result<()> {
    if result == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

/// Timer of the kernel that one thread waits for, and that any thread sets.
///
/// Setting it costs a microsecond, or ten in a virtual machine if no other timer expires before. The thread is woken
/// later, so the caller is not delayed by that.
pub struct Timer(File);

impl Timer {
    /// Creates a timer that is not set.
    ///
    /// # Errors
    /// If the process has too many descriptors.
    pub fn new() -> io::Result<Timer> {
        // SAFETY: no pointers.
        let fd = unsafe { libc::timerfd_create(libc::CLOCK_MONOTONIC, libc::TFD_CLOEXEC) };
        if fd < 0 {
            return Err(io::Error::last_os_error());
        }
        // SAFETY: the descriptor is new, and nobody else has it.
        Ok(Timer(File::from(unsafe { OwnedFd::from_raw_fd(fd) })))
    }

    /// Sets the timer to this time of [`now_ns`], instead of the one so far. It expires at once if that has passed.
    /// Allowed in an urgent context.
    pub fn set_ns(&self, at_ns: u64) {
        // Zero would stop the timer.
        let at_ns = at_ns.max(1);
        let never = libc::timespec { tv_sec: 0, tv_nsec: 0 };
        let at = libc::timespec {
            tv_sec: (at_ns / 1_000_000_000) as libc::time_t,
            tv_nsec: (at_ns % 1_000_000_000) as libc::c_long,
        };
        let times = libc::itimerspec { it_interval: never, it_value: at };
        let fd = self.0.as_raw_fd();
        // SAFETY: reads a local; the times are valid, and the descriptor is a timer's, so the call cannot fail.
        unsafe { libc::timerfd_settime(fd, libc::TFD_TIMER_ABSTIME, &raw const times, core::ptr::null_mut()) };
    }

    /// Waits until the timer has expired since the last wait. May return before that, after a signal.
    pub fn wait(&self) {
        // The number of expirations, or the error of an interrupted wait: the caller looks itself.
        let _ = (&self.0).read(&mut [0; 8]);
    }
}

/// Counter of the time that a thread was ready but had to wait for a processor (`/proc/thread-self/schedstat`, second
/// field).
///
/// Any thread may read it, and reading is one restartable system call without allocation.
pub struct RunDelay(File);

impl RunDelay {
    /// Opens the counter of this thread.
    pub fn open_current() -> io::Result<RunDelay> {
        Ok(RunDelay(File::open(format!("/proc/self/task/{}/schedstat", thread_id()))?))
    }

    /// Returns the nanoseconds waited so far; 0 when the kernel does not say.
    pub fn read_ns(&self) -> u64 {
        self.read_both_ns().1
    }

    /// Returns the nanoseconds run and waited so far; 0 when the kernel does not say.
    pub fn read_both_ns(&self) -> (u64, u64) {
        let mut bytes = [0; 64];
        let count = self.0.read_at(&mut bytes, 0).unwrap_or(0);
        let mut fields = bytes[..count].split(|byte| *byte == b' ').map(|digits| {
            let digits = digits.iter().take_while(|byte| byte.is_ascii_digit());
            digits.fold(0, |sum, byte| sum * 10 + u64::from(byte - b'0'))
        });
        (fields.next().unwrap_or(0), fields.next().unwrap_or(0))
    }
}

/// Support of this machine for user interrupts (UINTR), the rung below a signal.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Uintr {
    /// True if the processor has the instructions (CPUID leaf 7, EDX bit 5).
    pub processor: bool,
    /// True if the kernel offers the system calls. No released kernel does; Intel's patches of 2021 use number 471.
    pub kernel: bool,
}

impl core::fmt::Display for Uintr {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.write_str(match (self.processor, self.kernel) {
            (true, true) => "available, not used yet",
            (true, false) => "not available: the processor has them, the kernel does not",
            (false, _) => "not available: the processor does not have them",
        })
    }
}

/// Checks for user interrupts.
pub fn uintr() -> Uintr {
    let leaf7 = core::arch::x86_64::__cpuid_count(7, 0);
    let processor = leaf7.edx & (1 << 5) != 0;
    let flags = std::fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    // A kernel that manages the state lists the flag; one that does not hides it.
    let kernel = processor && flags.lines().any(|line| line.starts_with("flags") && line.contains(" uintr"));
    Uintr { processor, kernel }
}
