//! Confinement of a child: its root, its files, its capabilities, its system calls.
//!
//! **Invariant:** these functions run in a child that shares the server's memory (`child`): they make system calls and
//! nothing else.
#![allow(unsafe_code)]

use crate::container::{Root, RootStep};
use libc::{c_char, c_int, c_long, c_void};
use std::ffi::CStr;
use std::os::fd::RawFd;
use std::ptr;

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

/// Number of a step that has failed.
pub(crate) type Step = u32;

/// Returns an error of this step if a system call has failed.
pub(crate) fn done(result: c_long, step: Step) -> Result<c_long, Step> {
    if result < 0 { Err(step) } else { Ok(result) }
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

/// Builds the root, and leaves the old one.
pub(crate) fn enter_root(root: &Root, start: Start) -> Result<(), Step> {
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
        copy_executable(start)?;
        // The old root is stacked below the new one, and leaves from there.
        done(libc::syscall(libc::SYS_pivot_root, c".".as_ptr(), c".".as_ptr()), 10)?;
        done(libc::umount2(c".".as_ptr(), libc::MNT_DETACH).into(), 10)?;
        done(libc::chdir(c"/".as_ptr()).into(), 10)?;
        set_mount(c"/", libc::MOUNT_ATTR_RDONLY | libc::MOUNT_ATTR_NOSUID | libc::MOUNT_ATTR_NODEV, false, 11)
    }
}

/// Copies the executable into the root.
fn copy_executable(start: Start) -> Result<(), Step> {
    let Start::Copied(from, len) = start else { return Ok(()) };
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
pub(crate) fn restrict_files(version: u32) -> Result<(), Step> {
    const EXECUTE_AND_READ: u64 = 1 | 1 << 2 | 1 << 3;
    const READ_AND_WRITE: u64 = 1 << 1 | 1 << 2;
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

/// Gives up all capabilities, now and for the executable.
pub(crate) fn drop_capabilities() -> Result<(), Step> {
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

/// Forbids system calls that the filter does not allow. The process can gain no privileges from now on.
pub(crate) fn filter_calls(filter: &[libc::sock_filter]) -> Result<(), Step> {
    let program = libc::sock_fprog { len: filter.len() as u16, filter: filter.as_ptr().cast_mut() };
    // SAFETY: a system call with a local and a list that outlives it.
    let set = unsafe { libc::syscall(libc::SYS_seccomp, libc::SECCOMP_SET_MODE_FILTER, 0, &raw const program) };
    done(set, 17).map(|_| ())
}

/// Returns the version of the kernel's Landlock; 0 without it.
pub(crate) fn landlock_version() -> u32 {
    /// Asks for the version.
    const VERSION: u32 = 1;
    // SAFETY: a system call with numbers.
    let version = unsafe { libc::syscall(libc::SYS_landlock_create_ruleset, ptr::null::<c_void>(), 0, VERSION) };
    u32::try_from(version).unwrap_or(0)
}
