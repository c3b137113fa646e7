//! Life of a worker between its creation and its executable.
//!
//! The child shares the memory of the server, as after `vfork`: a copy of the page tables of a database would take
//! longer than all the rest. The thread that creates it is suspended until the executable starts or the child ends.
//!
//! **Invariant:** the child makes system calls and nothing else. It allocates no memory, takes no lock, and cannot
//! panic. All that it needs is prepared before. It has a stack of its own. All signals are blocked until their actions
//! are the default ones, so no handler of the server runs in it.
#![allow(unsafe_code)]

use crate::confine::{self, Start, Step, done};
use crate::container::Root;
use crate::system;
use libc::{c_char, c_int, c_void};
use std::ffi::CString;
use std::io;
use std::mem;
use std::os::fd::{FromRawFd, OwnedFd, RawFd};
use std::ptr;
use std::sync::atomic::Ordering::SeqCst;
use std::sync::atomic::{AtomicI32, AtomicU32, AtomicU64};

/// Descriptor of the channel in the worker.
pub(crate) const CHANNEL_FD: RawFd = 3;
/// Descriptor of a script, whose interpreter opens it by its path.
const SCRIPT_FD: RawFd = 4;
/// Descriptor of an executable, which is closed when it runs. Above all that it inherits.
const PROGRAM_FD: RawFd = 8;
/// Least descriptor of the host's files that the child copies, above all those that it replaces.
pub(crate) const COPIES_FROM: RawFd = 16;
/// Bytes of the child's stack.
const STACK_BYTES: usize = 128 << 10;
/// Inaccessible bytes below it.
const GUARD_BYTES: usize = 4 << 10;
/// User and group within a container.
pub(crate) const NOBODY: u32 = 65_534;

/// Stages of the agreement between the child and the thread that admits it.
pub(crate) const STAGE_NEW: u32 = 0;
/// The child waits.
pub(crate) const STAGE_WAITS: u32 = 1;
/// It belongs to its group, and its users are mapped: it may go on.
pub(crate) const STAGE_ADMITTED: u32 = 2;
/// The child must end, or there is none.
pub(crate) const STAGE_ENDS: u32 = 3;

/// Additional parts of a container.
pub(crate) struct ContainerPlan {
    pub(crate) root: Root,
    pub(crate) filter: Vec<libc::sock_filter>,
    /// True if the server may drop its groups.
    pub(crate) is_root: bool,
    /// Version of Landlock; 0 without it.
    pub(crate) landlock: u32,
}

/// All that a child needs.
pub(crate) struct ChildPlan {
    pub(crate) start: Start,
    pub(crate) input: RawFd,
    pub(crate) output: RawFd,
    pub(crate) channel: RawFd,
    /// Descriptors that follow that of the channel.
    pub(crate) further: Vec<RawFd>,
    /// Arguments of the executable, its name first.
    pub(crate) arguments: Vec<CString>,
    /// Limits, by the numbers of `setrlimit`.
    pub(crate) limits: Vec<(u32, u64)>,
    /// Environment.
    pub(crate) environment: Vec<CString>,
    pub(crate) container: Option<ContainerPlan>,
    /// True if the child waits until another thread has admitted it.
    pub(crate) is_admitted: bool,
    pub(crate) stage: AtomicU32,
    /// Process descriptor, which the kernel writes before the child runs.
    pub(crate) process: AtomicI32,
    /// Step that has failed and its error.
    pub(crate) failure: AtomicU64,
}

/// Steps of a child, for messages.
const STEPS: [&str; 20] = [
    "the start",
    "the admission",
    "setresuid",
    "setsid",
    "prctl",
    "a private tree of mounts",
    "the root",
    "a folder of the root",
    "a mount in the root",
    "the copy of the executable",
    "pivot_root",
    "a read-only root",
    "landlock",
    "capabilities",
    "limits",
    "descriptors",
    "no_new_privs",
    "the filter of system calls",
    "the executable",
    "signals",
];

/// Step at which the executable takes the child's place.
const EXECUTION: Step = 18;

/// Error of a child that has not reached its executable. [`io::ErrorKind::InvalidData`] says that the fault is in the
/// executable.
fn failed(failure: u64) -> Option<io::Error> {
    if failure == 0 {
        return None;
    }
    let (step, error) = ((failure >> 32) as Step, failure as u32 as i32);
    let shown = io::Error::from_raw_os_error(error);
    let is_of_executable = step == EXECUTION
        && match error {
            // A damaged file, or an interpreter or loader that the machine lacks.
            libc::ENOEXEC | libc::ELIBBAD | libc::EINVAL | libc::EIO => true,
            libc::ENOENT | libc::EACCES | libc::ENOTDIR | libc::ELOOP | libc::ENAMETOOLONG => true,
            // All else depends on the machine's state.
            _ => false,
        };
    let step = STEPS.get(step as usize)?;
    Some(match is_of_executable {
        true => io::Error::new(io::ErrorKind::InvalidData, format!("it, its interpreter, or its loader: {shown}")),
        false => io::Error::other(format!("{step}: {shown}")),
    })
}

/// Stack for children.
pub(crate) struct ChildStack(*mut c_void);

// SAFETY: the mapping belongs to the value.
unsafe impl Send for ChildStack {}

impl ChildStack {
    pub(crate) fn new() -> io::Result<ChildStack> {
        // SAFETY: a new mapping at an address of the kernel's choice, and its first page.
        unsafe {
            let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_STACK;
            let access = libc::PROT_READ | libc::PROT_WRITE;
            let base = libc::mmap(ptr::null_mut(), STACK_BYTES, access, flags, -1, 0);
            if base == libc::MAP_FAILED || libc::mprotect(base, GUARD_BYTES, libc::PROT_NONE) != 0 {
                return Err(io::Error::last_os_error());
            }
            Ok(ChildStack(base))
        }
    }
}

impl Drop for ChildStack {
    fn drop(&mut self) {
        // SAFETY: this mapping is ours, and no child runs on it: `create` waits for it.
        unsafe { libc::munmap(self.0, STACK_BYTES) };
    }
}

/// Creates the child and waits until its executable runs. Returns its number and its descriptor.
pub(crate) fn create(plan: &ChildPlan, stack: &mut ChildStack) -> io::Result<(i32, OwnedFd)> {
    let mut flags = libc::CLONE_VM | libc::CLONE_VFORK | libc::CLONE_PIDFD | libc::SIGCHLD;
    if plan.container.is_some() {
        flags |= libc::CLONE_NEWUSER
            | libc::CLONE_NEWNS
            | libc::CLONE_NEWPID
            | libc::CLONE_NEWNET
            | libc::CLONE_NEWIPC
            | libc::CLONE_NEWUTS
            | libc::CLONE_NEWCGROUP;
    }
    let environment: Vec<*const c_char> =
        plan.environment.iter().map(|one| one.as_ptr()).chain([ptr::null()]).collect();
    let arguments: Vec<*const c_char> = plan.arguments.iter().map(|one| one.as_ptr()).chain([ptr::null()]).collect();
    let prepared = Prepared { plan, arguments: arguments.as_ptr(), environment: environment.as_ptr() };
    let was_dumpable = system::is_dumpable();
    // SAFETY: `child` runs on the stack, which nobody else uses, and reads `prepared`; both outlive it, as this thread
    // is suspended until the child has left this memory. Signals are blocked meanwhile.
    let (created, error) = unsafe {
        let mut all: libc::sigset_t = mem::zeroed();
        let mut before: libc::sigset_t = mem::zeroed();
        libc::sigfillset(&raw mut all);
        libc::pthread_sigmask(libc::SIG_SETMASK, &raw const all, &raw mut before);
        let top = stack.0.byte_add(STACK_BYTES);
        let argument = (&raw const prepared).cast_mut().cast();
        let created = libc::clone(child, top, flags, argument, plan.process.as_ptr());
        let error = io::Error::last_os_error();
        libc::pthread_sigmask(libc::SIG_SETMASK, &raw const before, ptr::null_mut());
        (created, error)
    };
    // The kernel takes core dumps from a memory whose process changes its user. The memory is the server's.
    if was_dumpable {
        system::set_dumpable();
    }
    if created < 0 {
        return Err(error);
    }
    // SAFETY: the kernel has created the descriptor, and nobody else has it.
    let process = unsafe { OwnedFd::from_raw_fd(plan.process.load(SeqCst)) };
    match failed(plan.failure.load(SeqCst)) {
        None => Ok((created, process)),
        Some(error) => {
            reap(&process);
            Err(error)
        }
    }
}

/// Kills a child, and waits for its end.
pub(crate) fn reap(process: &OwnedFd) {
    system::kill(process);
    while let Ok(None) = system::exit_of(process, true) {
        std::thread::yield_now();
    }
}

/// Argument of [`child`].
struct Prepared<'a> {
    plan: &'a ChildPlan,
    arguments: *const *const c_char,
    environment: *const *const c_char,
}

extern "C" fn child(argument: *mut c_void) -> c_int {
    // SAFETY: `create` passes this type, which outlives the child's stay in this memory.
    let prepared = unsafe { &*argument.cast::<Prepared<'_>>() };
    let step = match prepared.run() {
        Ok(never) => match never {},
        Err(step) => step,
    };
    // SAFETY: the address is that of this thread's errno.
    let error = unsafe { *libc::__errno_location() };
    prepared.plan.failure.store(u64::from(step) << 32 | u64::from(error as u32), SeqCst);
    // SAFETY: ends this process without any destructor.
    unsafe { libc::_exit(127) }
}

enum Never {}

impl Prepared<'_> {
    fn run(&self) -> Result<Never, Step> {
        if self.plan.is_admitted {
            self.await_admission()?;
        }
        if let Some(container) = &self.plan.container {
            become_nobody(container)?;
        }
        reset_signals()?;
        // SAFETY: system calls with numbers.
        unsafe {
            done(libc::setsid().into(), 3)?;
            // The parent is the thread that creates children, which lives as long as the server.
            done(libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGKILL).into(), 4)?;
        }
        if let Some(container) = &self.plan.container {
            confine::enter_root(&container.root, self.plan.start)?;
            confine::restrict_files(container.landlock)?;
            confine::drop_capabilities()?;
        } else {
            // SAFETY: a system call with a text.
            done(unsafe { libc::chdir(c"/".as_ptr()) }.into(), 15)?;
        }
        for (resource, limit) in &self.plan.limits {
            let limit = libc::rlimit64 { rlim_cur: *limit, rlim_max: *limit };
            // SAFETY: reads a local.
            done(unsafe { libc::setrlimit64(*resource, &raw const limit) }.into(), 14)?;
        }
        self.place_descriptors()?;
        // SAFETY: a system call with numbers.
        done(unsafe { libc::prctl(libc::PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) }.into(), 16)?;
        if let Some(container) = &self.plan.container {
            confine::filter_calls(&container.filter)?;
        }
        self.execute()
    }

    /// Waits until another thread has put this process into its group, and has mapped the user of a container. Whatever
    /// the process starts later belongs to the group, too.
    fn await_admission(&self) -> Result<(), Step> {
        let stage = &self.plan.stage;
        stage.store(STAGE_WAITS, SeqCst);
        system::futex_wake(stage);
        while stage.load(SeqCst) == STAGE_WAITS {
            system::futex_wait(stage, STAGE_WAITS, std::time::Duration::from_secs(1));
        }
        done(if stage.load(SeqCst) == STAGE_ADMITTED { 0 } else { -1 }, 1).map(drop)
    }

    /// Leaves the standard files, the channel, and a script open, and closes all else.
    fn place_descriptors(&self) -> Result<(), Step> {
        let plan = self.plan;
        // SAFETY: system calls with numbers. The sources are above all targets.
        unsafe {
            for (from, to) in [(plan.input, 0), (plan.output, 1), (plan.output, 2), (plan.channel, CHANNEL_FD)] {
                done(libc::dup2(from, to).into(), 15)?;
            }
            let mut first = CHANNEL_FD + 1;
            for from in &plan.further {
                done(libc::dup2(*from, first).into(), 15)?;
                first += 1;
            }
            match plan.start {
                Start::Descriptor(from) => {
                    done(libc::dup3(from, PROGRAM_FD, libc::O_CLOEXEC).into(), 15)?;
                    done(libc::syscall(libc::SYS_close_range, PROGRAM_FD + 1, u32::MAX, 0), 15)?;
                }
                Start::Script(from) => {
                    done(libc::dup2(from, SCRIPT_FD).into(), 15)?;
                    first = SCRIPT_FD + 1;
                }
                Start::Copied(..) => {}
            }
            let last = if let Start::Descriptor(_) = plan.start { PROGRAM_FD as u32 - 1 } else { u32::MAX };
            done(libc::syscall(libc::SYS_close_range, first, last, 0), 15)?;
        }
        Ok(())
    }

    fn execute(&self) -> Result<Never, Step> {
        let (arguments, environment) = (self.arguments, self.environment);
        // SAFETY: lists of texts that end with null pointers. Each call returns only if it fails.
        unsafe {
            match self.plan.start {
                Start::Descriptor(_) => {
                    let empty = c"".as_ptr();
                    let flags = libc::AT_EMPTY_PATH;
                    libc::syscall(libc::SYS_execveat, PROGRAM_FD, empty, arguments, environment, flags);
                }
                Start::Script(_) => {
                    libc::execve(c"/proc/self/fd/4".as_ptr(), arguments, environment);
                }
                Start::Copied(..) => {
                    libc::execve(c"/worker".as_ptr(), arguments, environment);
                }
            }
        }
        Err(EXECUTION)
    }
}

/// Becomes the user of a container, who is mapped.
fn become_nobody(container: &ContainerPlan) -> Result<(), Step> {
    // SAFETY: system calls with numbers; raw ones, because the library's would tell all threads of the server.
    unsafe {
        if container.is_root {
            done(libc::syscall(libc::SYS_setgroups, 0, ptr::null::<u32>()), 2)?;
        }
        done(libc::syscall(libc::SYS_setresgid, NOBODY, NOBODY, NOBODY), 2)?;
        done(libc::syscall(libc::SYS_setresuid, NOBODY, NOBODY, NOBODY), 2)?;
    }
    Ok(())
}

/// Gives every signal its default action, and lets all of them arrive.
fn reset_signals() -> Result<(), Step> {
    // SAFETY: system calls with locals. Signals that cannot have another action, or do not exist, are refused.
    unsafe {
        let mut action: libc::sigaction = mem::zeroed();
        action.sa_sigaction = libc::SIG_DFL;
        for signal in 1..=64 {
            libc::sigaction(signal, &raw const action, ptr::null_mut());
        }
        let mut none: libc::sigset_t = mem::zeroed();
        libc::sigemptyset(&raw mut none);
        done(libc::sigprocmask(libc::SIG_SETMASK, &raw const none, ptr::null_mut()).into(), 19)?;
    }
    Ok(())
}
