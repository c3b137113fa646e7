//! Levels `process`, `container`, `gvisor` and `vm`: stored code in processes of its own.
//!
//! A worker is a process that runs the executable of one module for one instance. Host and worker take turns
//! ([`procs::abi`]), through shared memory or a socket. The worker ends with its instance.
//!
//! # Level `process`
//!
//! A process of the server's user. It inherits three standard files (`/dev/null` to read, a pipe to write) and the
//! channel, and an environment of `OVERTAKE_CHANNEL`, `PATH` and `LANG`. It is in a session of its own, dies with the
//! server, gains no privileges, dumps no core, and has limits for files and descriptors. It may read and write what the
//! server's user may: only superusers install such code.
//!
//! If the server may create control groups (version 1 or 2), each worker has one, which limits its memory and its
//! processes; a worker that exceeds the memory ends with `53200`. If not, `RLIMIT_DATA` limits the memory: allocations
//! fail, code that crashes of that ends with `38000`, and a process of level `process` that leaves the session of its
//! worker outlives it.
//!
//! # Level `container`
//!
//! The same process in new namespaces of users, mounts, processes, network, IPC, host name and cgroups. Its root is a
//! read-only file system in memory with the executable and `/dev/null`; dynamic executables and scripts also see `/usr`
//! and the libraries, read-only. It has no capability, a filter of system calls, and Landlock where the kernel has it.
//! Without control groups, `RLIMIT_NPROC` limits its processes. A server of root runs the code as user `nobody` (65534).
//!
//! # Level `gvisor`
//!
//! The executable runs on the kernel of gVisor, by `runsc` of the path or of `OVERTAKE_RUNSC`: without privileges
//! (`--rootless`), without network, on the platform `systrap`. Its root has the executable alone, so that must be static.
//! Futexes do not leave that kernel: a side that sleeps on shared memory is woken by a byte on a socket.
//!
//! # Level `vm`
//!
//! A container whose executable is the monitor of `procs-vm`, with a filter of system calls that is smaller still. It
//! inherits the image of the code and `/dev/kvm`. The image is a static executable, too.
//!
//! **Invariant:** no worker has two instances, and no descriptor, mapping or process of a worker outlives its instance
//! for long. Nothing that a worker writes is trusted. A level that cannot be had here is missing; code never runs with
//! less isolation.
//!
//! # Layers
//!
//! Bottom up; a module uses its own layer and those above it in this list.
//!
//! - the kernel: `system`, `elf`, `seccomp`, `lock`
//! - memory of a channel: `shared`
//! - root of a container, control groups: `cgroup`, `container`
//! - code between fork and exec: `confine`, which only makes system calls, and `child`
//! - layouts that stand elsewhere as well: `layout`
//! - files of sandboxes: `gvisor`
//! - patrol over idle workers: `patrol`
//! - processes: `spawner`
//! - channels: `channel`
//! - instances: `instance`
//! - the levels: `runtime`

mod cgroup;
mod channel;
mod child;
mod confine;
mod container;
mod elf;
mod gvisor;
mod instance;
mod layout;
mod lock;
mod patrol;
mod runtime;
mod seccomp;
mod shared;
mod spawner;
mod system;

pub use cgroup::{has_groups, own_group};
pub use runtime::{WorkerConfig, runtimes};
