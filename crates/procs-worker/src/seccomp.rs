//! Filter of system calls: those that programs in Rust, C, Python and Java need to compute, and no others.
//!
//! There is no call here by which a process reaches another one, a network, a device, a new namespace, or a part of the
//! kernel that is seldom used: no `socket`, `ptrace`, `mount`, `bpf`, `keyctl`, `io_uring`, `perf_event_open`,
//! `userfaultfd`. What is not listed fails with `ENOSYS`, as in an old kernel, so that runtimes fall back (`clone3` to
//! `clone`); what asks for more than it may fails with `EPERM`.

use libc::{c_long, sock_filter};

/// Calls that are allowed whatever their arguments are, the frequent ones first.
const ALLOWED: &[c_long] = &[
    libc::SYS_futex,
    libc::SYS_read,
    libc::SYS_write,
    libc::SYS_sched_yield,
    libc::SYS_recvfrom,
    libc::SYS_sendto,
    libc::SYS_recvmsg,
    libc::SYS_sendmsg,
    libc::SYS_clock_nanosleep,
    libc::SYS_nanosleep,
    libc::SYS_clock_gettime,
    libc::SYS_mmap,
    libc::SYS_munmap,
    libc::SYS_mprotect,
    libc::SYS_mremap,
    libc::SYS_madvise,
    libc::SYS_brk,
    libc::SYS_membarrier,
    libc::SYS_mincore,
    libc::SYS_msync,
    libc::SYS_readv,
    libc::SYS_writev,
    libc::SYS_pread64,
    libc::SYS_pwrite64,
    libc::SYS_preadv,
    libc::SYS_pwritev,
    libc::SYS_lseek,
    libc::SYS_open,
    libc::SYS_openat,
    libc::SYS_openat2,
    libc::SYS_close,
    libc::SYS_close_range,
    libc::SYS_dup,
    libc::SYS_dup2,
    libc::SYS_dup3,
    libc::SYS_pipe,
    libc::SYS_pipe2,
    libc::SYS_eventfd2,
    libc::SYS_stat,
    libc::SYS_lstat,
    libc::SYS_fstat,
    libc::SYS_newfstatat,
    libc::SYS_statx,
    libc::SYS_statfs,
    libc::SYS_fstatfs,
    libc::SYS_access,
    libc::SYS_faccessat,
    libc::SYS_faccessat2,
    libc::SYS_readlink,
    libc::SYS_readlinkat,
    libc::SYS_getdents64,
    libc::SYS_getcwd,
    libc::SYS_chdir,
    libc::SYS_fchdir,
    libc::SYS_fcntl,
    libc::SYS_flock,
    libc::SYS_fadvise64,
    libc::SYS_poll,
    libc::SYS_ppoll,
    libc::SYS_select,
    libc::SYS_pselect6,
    libc::SYS_epoll_create1,
    libc::SYS_epoll_ctl,
    libc::SYS_epoll_wait,
    libc::SYS_epoll_pwait,
    libc::SYS_shutdown,
    libc::SYS_getsockopt,
    libc::SYS_getsockname,
    libc::SYS_rt_sigaction,
    libc::SYS_rt_sigprocmask,
    libc::SYS_rt_sigreturn,
    libc::SYS_rt_sigpending,
    libc::SYS_rt_sigtimedwait,
    libc::SYS_rt_sigsuspend,
    libc::SYS_sigaltstack,
    libc::SYS_tgkill,
    libc::SYS_kill,
    libc::SYS_getpid,
    libc::SYS_gettid,
    libc::SYS_getppid,
    libc::SYS_getpgrp,
    libc::SYS_getpgid,
    libc::SYS_getsid,
    libc::SYS_getuid,
    libc::SYS_geteuid,
    libc::SYS_getgid,
    libc::SYS_getegid,
    libc::SYS_getresuid,
    libc::SYS_getresgid,
    libc::SYS_getgroups,
    libc::SYS_capget,
    libc::SYS_uname,
    libc::SYS_sysinfo,
    libc::SYS_times,
    libc::SYS_getrusage,
    libc::SYS_getrlimit,
    libc::SYS_gettimeofday,
    libc::SYS_time,
    libc::SYS_clock_getres,
    libc::SYS_timer_create,
    libc::SYS_timer_settime,
    libc::SYS_timer_delete,
    libc::SYS_timerfd_create,
    libc::SYS_timerfd_settime,
    libc::SYS_setitimer,
    libc::SYS_getitimer,
    libc::SYS_alarm,
    libc::SYS_getrandom,
    libc::SYS_getcpu,
    libc::SYS_sched_getaffinity,
    libc::SYS_sched_getparam,
    libc::SYS_sched_getscheduler,
    libc::SYS_sched_get_priority_max,
    libc::SYS_sched_get_priority_min,
    libc::SYS_set_robust_list,
    libc::SYS_get_robust_list,
    libc::SYS_set_tid_address,
    libc::SYS_rseq,
    libc::SYS_arch_prctl,
    libc::SYS_execve,
    libc::SYS_execveat,
    libc::SYS_exit,
    libc::SYS_exit_group,
    libc::SYS_wait4,
    libc::SYS_waitid,
    libc::SYS_umask,
    libc::SYS_restart_syscall,
];

/// Flags of `clone` that make namespaces.
const NAMESPACES: u32 = (libc::CLONE_NEWNS
    | libc::CLONE_NEWCGROUP
    | libc::CLONE_NEWUTS
    | libc::CLONE_NEWIPC
    | libc::CLONE_NEWUSER
    | libc::CLONE_NEWPID
    | libc::CLONE_NEWNET) as u32;

/// Operations of `prctl` that are allowed: names of threads, and questions.
const PRCTL_ALLOWED: [libc::c_int; 6] = [
    libc::PR_SET_NAME,
    libc::PR_GET_NAME,
    libc::PR_GET_DUMPABLE,
    libc::PR_GET_PDEATHSIG,
    libc::PR_GET_SECCOMP,
    libc::PR_CAPBSET_READ,
];

/// Requests of `ioctl` that are allowed: whether a file is a terminal, how much it holds, `O_NONBLOCK`, `FD_CLOEXEC`.
const IOCTL_ALLOWED: [u32; 5] =
    [libc::TCGETS as u32, libc::FIONREAD as u32, libc::FIONBIO as u32, libc::FIOCLEX as u32, libc::TIOCGWINSZ as u32];

const LOAD: u16 = (libc::BPF_LD | libc::BPF_W | libc::BPF_ABS) as u16;
const IF_EQUAL: u16 = (libc::BPF_JMP | libc::BPF_JEQ | libc::BPF_K) as u16;
const IF_ANY_BIT: u16 = (libc::BPF_JMP | libc::BPF_JSET | libc::BPF_K) as u16;
const IF_AT_LEAST: u16 = (libc::BPF_JMP | libc::BPF_JGE | libc::BPF_K) as u16;
const RETURN: u16 = (libc::BPF_RET | libc::BPF_K) as u16;
/// Architecture x86-64 in the data of a filter.
const ARCHITECTURE: u32 = 0xc000_003e;
/// Bit of the numbers of calls with 32-bit pointers.
const X32: u32 = 0x4000_0000;
/// Offsets in `seccomp_data`: number, architecture, lower halves of the first three arguments.
const NUMBER_AT: u32 = 0;
const ARCHITECTURE_AT: u32 = 4;
const FIRST_AT: u32 = 16;
const SECOND_AT: u32 = 24;
const THIRD_AT: u32 = 32;

fn one(code: u16, k: u32, then: u8, otherwise: u8) -> sock_filter {
    sock_filter { code, jt: then, jf: otherwise, k }
}

fn fails_with(error: libc::c_int) -> sock_filter {
    one(RETURN, libc::SECCOMP_RET_ERRNO | error as u32, 0, 0)
}

fn allows() -> sock_filter {
    one(RETURN, libc::SECCOMP_RET_ALLOW, 0, 0)
}

/// Adds a call that is allowed if one of its arguments is listed.
fn listed(filter: &mut Vec<sock_filter>, call: c_long, argument_at: u32, list: impl ExactSizeIterator<Item = u32>) {
    // The argument's load, two for each entry, and the refusal.
    filter.push(one(IF_EQUAL, call as u32, 0, (2 + 2 * list.len()) as u8));
    filter.push(one(LOAD, argument_at, 0, 0));
    for allowed in list {
        filter.push(one(IF_EQUAL, allowed, 0, 1));
        filter.push(allows());
    }
    filter.push(fails_with(libc::EPERM));
}

/// Returns the beginning of a filter, which loads the number of the call.
fn beginning() -> Vec<sock_filter> {
    vec![
        one(LOAD, ARCHITECTURE_AT, 0, 0),
        one(IF_EQUAL, ARCHITECTURE, 1, 0),
        one(RETURN, libc::SECCOMP_RET_KILL_PROCESS, 0, 0),
        one(LOAD, NUMBER_AT, 0, 0),
        one(IF_AT_LEAST, X32, 0, 1),
        one(RETURN, libc::SECCOMP_RET_KILL_PROCESS, 0, 0),
    ]
}

/// Returns the filter for code in containers.
pub(crate) fn filter() -> Vec<sock_filter> {
    let mut filter = beginning();
    for call in ALLOWED {
        filter.push(one(IF_EQUAL, *call as u32, 0, 1));
        filter.push(allows());
    }
    filter.extend([
        one(IF_EQUAL, libc::SYS_clone as u32, 0, 4),
        one(LOAD, FIRST_AT, 0, 0),
        one(IF_ANY_BIT, NAMESPACES, 0, 1),
        fails_with(libc::EPERM),
        allows(),
        one(IF_EQUAL, libc::SYS_fork as u32, 0, 1),
        allows(),
        one(IF_EQUAL, libc::SYS_vfork as u32, 0, 1),
        allows(),
    ]);
    listed(&mut filter, libc::SYS_prctl, FIRST_AT, PRCTL_ALLOWED.into_iter().map(|one| one as u32));
    listed(&mut filter, libc::SYS_ioctl, SECOND_AT, IOCTL_ALLOWED.into_iter());
    // A limit may be read, not set: the new value is a null pointer, whose halves are both zero.
    filter.extend([
        one(IF_EQUAL, libc::SYS_prlimit64 as u32, 0, 6),
        one(LOAD, THIRD_AT, 0, 0),
        one(IF_EQUAL, 0, 0, 3),
        one(LOAD, 36, 0, 0),
        one(IF_EQUAL, 0, 0, 1),
        allows(),
        fails_with(libc::EPERM),
    ]);
    for refused in [libc::SYS_socket, libc::SYS_socketpair, libc::SYS_ptrace, libc::SYS_mount, libc::SYS_unshare] {
        filter.push(one(IF_EQUAL, refused as u32, 0, 1));
        filter.push(fails_with(libc::EPERM));
    }
    filter.push(fails_with(libc::ENOSYS));
    filter
}

/// Calls of a monitor of a machine (`procs-vm`).
const OF_MONITOR: &[c_long] = &[
    libc::SYS_futex,
    libc::SYS_read,
    libc::SYS_write,
    libc::SYS_sendto,
    libc::SYS_madvise,
    libc::SYS_clock_gettime,
    libc::SYS_getrandom,
    libc::SYS_nanosleep,
    libc::SYS_sched_yield,
    libc::SYS_mmap,
    libc::SYS_lseek,
    libc::SYS_exit_group,
    libc::SYS_execve,
    libc::SYS_restart_syscall,
];

/// Requests of `ioctl` that a monitor makes: to create a machine, and to run it.
const KVM_REQUESTS: [u32; 13] = [
    0xae80,      // KVM_RUN
    0x8090_ae81, // KVM_GET_REGS
    0x4090_ae82, // KVM_SET_REGS
    0x8138_ae83, // KVM_GET_SREGS
    0x4138_ae84, // KVM_SET_SREGS
    0xae01,      // KVM_CREATE_VM
    0xae04,      // KVM_GET_VCPU_MMAP_SIZE
    0xae41,      // KVM_CREATE_VCPU
    0xc008_ae05, // KVM_GET_SUPPORTED_CPUID
    0x4008_ae90, // KVM_SET_CPUID2
    0x4188_aea7, // KVM_SET_XCRS
    0x4008_ae89, // KVM_SET_MSRS
    0x4020_ae46, // KVM_SET_USER_MEMORY_REGION
];

/// Rights that a monitor gives to its memory: none, and those it has always had. No memory becomes executable.
const MONITOR_RIGHTS: [libc::c_int; 2] = [libc::PROT_NONE, libc::PROT_READ | libc::PROT_WRITE];

/// Returns the filter for monitors of machines.
pub(crate) fn monitor_filter() -> Vec<sock_filter> {
    let mut filter = beginning();
    listed(&mut filter, libc::SYS_ioctl, SECOND_AT, KVM_REQUESTS.into_iter());
    listed(&mut filter, libc::SYS_mprotect, THIRD_AT, MONITOR_RIGHTS.into_iter().map(|one| one as u32));
    for call in OF_MONITOR {
        filter.push(one(IF_EQUAL, *call as u32, 0, 1));
        filter.push(allows());
    }
    filter.push(fails_with(libc::EPERM));
    filter
}
