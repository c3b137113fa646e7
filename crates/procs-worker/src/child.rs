//! Life of a worker between its creation and its executable.
//!
//! The child shares the memory of the server, as after `vfork`: a copy of the page tables of a database would take
//! longer than all the rest. The thread that creates it is suspended until the executable starts or the child ends.
//!
//! **Invariant:** the child makes system calls and nothing else. It allocates no memory, takes no lock, and cannot
//! panic. All that it needs is prepared before. It has a stack of its own. All signals are blocked until their actions
//! are the default ones, so no handler of the server runs in it.
#![allow(unsafe_code)]

use crate::container::{Root, RootStep};
use crate::system;
use libc::{c_char, c_int, c_long, c_void};
use std::ffi::{CStr, CString};
use std::io;
use std::mem;
use std::os::fd::{FromRawFd, OwnedFd, RawFd};
use std::ptr;
use std::sync::atomic::Ordering::SeqCst;
use std::sync::atomic::{AtomicI32, AtomicU32, AtomicU64};

/// Descriptor of the channel in the worker.
pub(crate) const CHANNEL_FD: RawFd = 3;
/// Descriptor of a script, whose interpreter opens it by its path.
const PROGRAM_FD: RawFd = 4;
/// Least descriptor of the host's files that the child copies, above all those that it replaces.
pub(crate) const COPIES_FROM: RawFd = 16;
/// Bytes of the child's stack.
const STACK_BYTES: usize = 128 << 10;
/// Inaccessible bytes below it.
const GUARD_BYTES: usize = 4 << 10;
/// User and group within a container.
pub(crate) const NOBODY: u32 = 65_534;

/// Stages of the agreement between the child and the thread that maps its users.
pub(crate) const STAGE_NEW: u32 = 0;
/// The child waits.
pub(crate) const STAGE_WAITS: u32 = 1;
/// The users are mapped: the child may go on.
pub(crate) const STAGE_MAPPED: u32 = 2;
/// The child must end, or there is none.
pub(crate) const STAGE_ENDS: u32 = 3;

/// Way to the executable.
#[derive(Clone, Copy)]
pub(crate) enum Start {
    /// File in memory, by its descriptor.
    Descriptor(RawFd),
    /// Script in memory, whose interpreter opens its descriptor.
    Script(RawFd),
    /// Copy in the root of the container.
    Copied(RawFd, u64),
}

/// Landlock's rights that a container has none of but reading and executing.
#[derive(Clone, Copy)]
#[repr(C)]
struct RulesetAttributes {
    files: u64,
    network: u64,
    scopes: u64,
}

/// Rights of a path.
#[repr(C, packed)]
struct PathRule {
    rights: u64,
    folder: c_int,
}

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
    /// Limits, by the numbers of `setrlimit`.
    pub(crate) limits: Vec<(u32, u64)>,
    /// Environment.
    pub(crate) environment: Vec<CString>,
    pub(crate) container: Option<ContainerPlan>,
    pub(crate) stage: AtomicU32,
    /// Process descriptor, which the kernel writes before the child runs.
    pub(crate) process: AtomicI32,
    /// Step that has failed and its error.
    pub(crate) failure: AtomicU64,
}

/// Steps of a child, for messages.
const STEPS: [&str; 20] = [
    "the start",
    "mapping of users",
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

/// Error of a child that has not reached its executable.
fn failed(failure: u64) -> Option<io::Error> {
    let (step, error) = ((failure >> 32) as usize, failure as u32 as i32);
    let step = STEPS.get(step).filter(|_| failure != 0)?;
    Some(io::Error::other(format!("{step}: {}", io::Error::from_raw_os_error(error))))
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
    let prepared = Prepared { plan, environment: environment.as_ptr() };
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

/// Number of a step that has failed.
type Step = u32;

/// Returns an error of this step if a system call has failed.
fn done(result: c_long, step: Step) -> Result<c_long, Step> {
    if result < 0 { Err(step) } else { Ok(result) }
}

enum Never {}

impl Prepared<'_> {
    fn run(&self) -> Result<Never, Step> {
        if let Some(container) = &self.plan.container {
            self.await_users(container)?;
        }
        reset_signals()?;
        // SAFETY: system calls with numbers.
        unsafe {
            done(libc::setsid().into(), 3)?;
            // The parent is the thread that creates children, which lives as long as the server.
            done(libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGKILL).into(), 4)?;
        }
        if let Some(container) = &self.plan.container {
            self.enter_root(&container.root)?;
            self.restrict_files(container)?;
            drop_capabilities()?;
        }
        for (resource, limit) in &self.plan.limits {
            let limit = libc::rlimit64 { rlim_cur: *limit, rlim_max: *limit };
            // SAFETY: reads a local.
            done(unsafe { libc::setrlimit64(*resource, &raw const limit) }.into(), 14)?;
        }
        self.place_descriptors()?;
        // SAFETY: system calls with numbers and with texts and lists of the plan.
        unsafe {
            done(libc::prctl(libc::PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0).into(), 16)?;
            if let Some(container) = &self.plan.container {
                let filter = &container.filter;
                let program = libc::sock_fprog { len: filter.len() as u16, filter: filter.as_ptr().cast_mut() };
                done(libc::syscall(libc::SYS_seccomp, libc::SECCOMP_SET_MODE_FILTER, 0, &raw const program), 17)?;
            }
        }
        self.execute()
    }

    /// Waits until another thread has mapped the user, and becomes it.
    fn await_users(&self, container: &ContainerPlan) -> Result<(), Step> {
        let stage = &self.plan.stage;
        stage.store(STAGE_WAITS, SeqCst);
        system::futex_wake(stage);
        while stage.load(SeqCst) == STAGE_WAITS {
            system::futex_wait(stage, STAGE_WAITS, std::time::Duration::from_secs(1));
        }
        // SAFETY: system calls with numbers; raw ones, because the library's would tell all threads of the server.
        unsafe {
            done(if stage.load(SeqCst) == STAGE_MAPPED { 0 } else { -1 }, 1)?;
            if container.is_root {
                done(libc::syscall(libc::SYS_setgroups, 0, ptr::null::<u32>()), 2)?;
            }
            done(libc::syscall(libc::SYS_setresgid, NOBODY, NOBODY, NOBODY), 2)?;
            done(libc::syscall(libc::SYS_setresuid, NOBODY, NOBODY, NOBODY), 2)?;
        }
        Ok(())
    }

    /// Builds the root, and leaves the old one.
    fn enter_root(&self, root: &Root) -> Result<(), Step> {
        // SAFETY: system calls with texts of the plan.
        unsafe {
            let none = ptr::null::<c_char>();
            let private = libc::MS_REC | libc::MS_PRIVATE;
            done(libc::mount(none, c"/".as_ptr(), none, private, ptr::null()).into(), 5)?;
            let (kind, flags) = (c"tmpfs".as_ptr(), libc::MS_NOSUID | libc::MS_NODEV);
            done(libc::mount(kind, root.base.as_ptr(), kind, flags, root.options.as_ptr().cast()).into(), 6)?;
            done(libc::chdir(root.base.as_ptr()).into(), 6)?;
            for step in &root.steps {
                take(step)?;
            }
            self.copy_executable()?;
            // The old root is stacked below the new one, and leaves from there.
            done(libc::syscall(libc::SYS_pivot_root, c".".as_ptr(), c".".as_ptr()), 10)?;
            done(libc::umount2(c".".as_ptr(), libc::MNT_DETACH).into(), 10)?;
            done(libc::chdir(c"/".as_ptr()).into(), 10)?;
            set_mount(c"/", libc::MOUNT_ATTR_RDONLY | libc::MOUNT_ATTR_NOSUID | libc::MOUNT_ATTR_NODEV, false, 11)
        }
    }

    fn copy_executable(&self) -> Result<(), Step> {
        let Start::Copied(from, len) = self.plan.start else { return Ok(()) };
        // SAFETY: system calls with numbers, a text, and a local.
        unsafe {
            let flags = libc::O_CREAT | libc::O_EXCL | libc::O_WRONLY | libc::O_CLOEXEC;
            let to = done(libc::open(c"worker".as_ptr(), flags, 0o555).into(), 9)? as c_int;
            let mut offset: libc::off64_t = 0;
            while (offset as u64) < len {
                let sent = libc::sendfile64(to, from, &raw mut offset, (len - offset as u64) as usize);
                if sent <= 0 {
                    return Err(9);
                }
            }
            done(libc::close(to).into(), 9)?;
        }
        Ok(())
    }

    /// Restricts files to reading and executing, and forbids what else the kernel's Landlock knows.
    fn restrict_files(&self, container: &ContainerPlan) -> Result<(), Step> {
        const EXECUTE_AND_READ: u64 = 1 | 1 << 2 | 1 << 3;
        const READ_AND_WRITE: u64 = 1 << 1 | 1 << 2;
        let version = container.landlock;
        if version == 0 {
            return Ok(());
        }
        // Rights of version 1; those to move files, to truncate them, and to control devices came later.
        let mut files: u64 = (1 << 13) - 1;
        for (since, right) in [(2, 1 << 13), (3, 1 << 14), (5, 1 << 15)] {
            files |= if since <= version { right } else { 0 };
        }
        let attributes = RulesetAttributes { files, network: 3, scopes: 3 };
        let len = if version < 4 {
            8_usize
        } else if version < 6 {
            16
        } else {
            24
        };
        // SAFETY: system calls with locals and texts.
        unsafe {
            let made = libc::syscall(libc::SYS_landlock_create_ruleset, &raw const attributes, len, 0);
            let ruleset = done(made, 12)? as c_int;
            for (path, rights) in [(c"/", EXECUTE_AND_READ), (c"/dev/null", READ_AND_WRITE)] {
                let flags = libc::O_PATH | libc::O_CLOEXEC;
                let folder = done(libc::open(path.as_ptr(), flags).into(), 12)? as c_int;
                let rule = PathRule { rights, folder };
                done(libc::syscall(libc::SYS_landlock_add_rule, ruleset, 1, &raw const rule, 0), 12)?;
                libc::close(folder);
            }
            done(libc::prctl(libc::PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0).into(), 16)?;
            done(libc::syscall(libc::SYS_landlock_restrict_self, ruleset, 0), 12)?;
            libc::close(ruleset);
        }
        Ok(())
    }

    /// Leaves the standard files, the channel, and a script open, and closes all else.
    fn place_descriptors(&self) -> Result<(), Step> {
        let plan = self.plan;
        // SAFETY: system calls with numbers. The sources are above all targets.
        unsafe {
            for (from, to) in [(plan.input, 0), (plan.output, 1), (plan.output, 2), (plan.channel, CHANNEL_FD)] {
                done(libc::dup2(from, to).into(), 15)?;
            }
            let first = match plan.start {
                Start::Descriptor(from) => {
                    done(libc::dup3(from, PROGRAM_FD, libc::O_CLOEXEC).into(), 15)?;
                    PROGRAM_FD + 1
                }
                Start::Script(from) => {
                    done(libc::dup2(from, PROGRAM_FD).into(), 15)?;
                    PROGRAM_FD + 1
                }
                Start::Copied(..) => PROGRAM_FD,
            };
            done(libc::syscall(libc::SYS_close_range, first, u32::MAX, 0), 15)?;
        }
        Ok(())
    }

    fn execute(&self) -> Result<Never, Step> {
        let arguments = [c"overtake-worker".as_ptr(), ptr::null()];
        let (arguments, environment) = (arguments.as_ptr(), self.environment);
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
        Err(18)
    }
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

/// Gives up all capabilities, now and for the executable.
fn drop_capabilities() -> Result<(), Step> {
    /// Version 3 of the interface.
    const VERSION: u32 = 0x2008_0522;
    let header = [VERSION, 0];
    let none = [0_u32; 6];
    // SAFETY: system calls with numbers and locals of the kernel's layout.
    unsafe {
        let mut capability = 0;
        // The kernel tells the end by refusing the first that it does not know.
        while capability < 64 && libc::prctl(libc::PR_CAPBSET_DROP, capability, 0, 0, 0) == 0 {
            capability += 1;
        }
        done(libc::syscall(libc::SYS_capset, header.as_ptr(), none.as_ptr()), 13)?;
    }
    Ok(())
}

/// Takes a step of the root.
///
/// # Safety
/// The current folder is that of the new root.
unsafe fn take(step: &RootStep) -> Result<(), Step> {
    let none = ptr::null::<c_char>();
    // SAFETY: system calls with texts of the plan.
    unsafe {
        match step {
            RootStep::Folder(path) => done(libc::mkdir(path.as_ptr(), 0o755).into(), 7).map(|_| ()),
            RootStep::File(path) => {
                let flags = libc::O_CREAT | libc::O_WRONLY | libc::O_CLOEXEC;
                let file = done(libc::open(path.as_ptr(), flags, 0o666).into(), 7)? as c_int;
                done(libc::close(file).into(), 7).map(|_| ())
            }
            RootStep::Link(to, path) => done(libc::symlink(to.as_ptr(), path.as_ptr()).into(), 7).map(|_| ()),
            RootStep::Bind(from, path) => {
                let flags = libc::MS_BIND | libc::MS_REC;
                done(libc::mount(from.as_ptr(), path.as_ptr(), none, flags, ptr::null()).into(), 8)?;
                set_mount(path, libc::MOUNT_ATTR_RDONLY | libc::MOUNT_ATTR_NOSUID | libc::MOUNT_ATTR_NODEV, true, 8)
            }
            RootStep::Device(from, path) => {
                done(libc::mount(from.as_ptr(), path.as_ptr(), none, libc::MS_BIND, ptr::null()).into(), 8)?;
                set_mount(path, libc::MOUNT_ATTR_NOSUID | libc::MOUNT_ATTR_NOEXEC, false, 8)
            }
        }
    }
}

/// Sets attributes of a mount, and with `all` of those below it.
fn set_mount(path: &CStr, attributes: u64, all: bool, step: Step) -> Result<(), Step> {
    let attributes = libc::mount_attr { attr_set: attributes, attr_clr: 0, propagation: 0, userns_fd: 0 };
    let flags = if all { libc::AT_RECURSIVE } else { 0 };
    let (here, len) = (libc::AT_FDCWD, size_of::<libc::mount_attr>());
    // SAFETY: a system call with a text and a local.
    let set = unsafe { libc::syscall(libc::SYS_mount_setattr, here, path.as_ptr(), flags, &raw const attributes, len) };
    done(set, step).map(|_| ())
}

/// Returns the version of the kernel's Landlock; 0 without it.
pub(crate) fn landlock_version() -> u32 {
    /// Asks for the version.
    const VERSION: u32 = 1;
    // SAFETY: a system call with numbers.
    let version = unsafe { libc::syscall(libc::SYS_landlock_create_ruleset, ptr::null::<c_void>(), 0, VERSION) };
    u32::try_from(version).unwrap_or(0)
}
