//! Level `vm`: the monitor of a virtual machine that runs stored code without a kernel.
//!
//! A machine of KVM runs one image in ring 3, on page tables that the monitor builds. The image is a static executable
//! of Linux for x86-64, like those of the level `process`; the monitor answers the few system calls that it needs to
//! compute. There are no devices, no files and no other process: a fault shuts the machine down. The monitor is a process
//! of its own, which `procs-worker` starts as a container and can kill, because an endless loop does not leave a machine
//! of page-table based virtualization on a signal.
//!
//! This crate has the monitor as bytes, which `build.rs` compiles from the folder `monitor`, and what the server must
//! know about it.
//!
//! **Invariant:** the code reaches only its own memory and the channel. Ring 0 has one page of code, the gate, which the
//! code cannot write; page tables are in no page that the code has.
//!
//! # Layers
//!
//! Bottom up; a module uses its own layer and those above it in this list.
//!
//! - places in a machine: `layout`
//! - page tables, images: `image`, `pages`

mod image;
mod layout;
pub mod pages;

pub use image::Image;
pub use layout::{CHANNEL_BYTES, CHANNEL_FD, IMAGE_FD, KVM_FD, Layout, MEMORY_VARIABLE, channel, status};

use std::path::Path;

/// Executable of the monitor; empty on machines that it is not made for.
pub static MONITOR: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/monitor"));

/// Virtualization that KVM uses on this machine.
pub fn hypervisor() -> &'static str {
    let modules =
        [("kvm_intel", "KVM by Intel VT-x"), ("kvm_amd", "KVM by AMD-V"), ("kvm_pvm", "KVM by page tables (PVM)")];
    let found = modules.into_iter().find(|(module, _)| Path::new("/sys/module").join(module).is_dir());
    found.map_or("KVM by another module", |(_, name)| name)
}
