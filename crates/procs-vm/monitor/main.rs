//! Monitor of a virtual machine: a process that runs one image on one virtual processor.
//!
//! There is no kernel in the machine. The monitor builds page tables, enters the code in ring 3, and answers the few
//! system calls that a static executable needs: memory, the channel, output, clocks. Any other call fails as in a kernel
//! that does not know it. A fault finds no handler, so it shuts the machine down.
//!
//! A system call enters the *gate*, a page with the instruction `out`, which leaves the machine. On processors with
//! virtualization it runs in ring 0, and `sysret` behind it leads back. On page-table based virtual machines ring 3 goes
//! on in the gate, and the monitor leads back.
//!
//! It is a program without libraries, so that it starts in a millisecond and is small: `build.rs` compiles it.
//!
//! **Invariant:** the code runs only while [`machine::Machine::run`] does, on the only thread. So the monitor may hold
//! the memory of the code as an ordinary slice while it answers a call.
#![no_std]
#![no_main]
#![deny(warnings, unsafe_code, unsafe_op_in_unsafe_fn)]

#[path = "../src/image.rs"]
#[allow(dead_code, reason = "shared with the server")]
mod image;
#[path = "../src/layout.rs"]
#[allow(dead_code, reason = "shared with the server")]
mod layout;
#[path = "../src/pages.rs"]
#[allow(dead_code, reason = "shared with the server")]
mod pages;

mod calls;
mod kernel;
mod kvm;
mod load;
mod machine;
mod memory;
mod runtime;

use core::fmt::Arguments;
use layout::{IMAGE_FD, KVM_FD, Layout, status};
use machine::{Event, Machine};
use memory::Guest;

/// End of a monitor: its status, and a reason for its output.
pub struct End(i32, &'static str);

/// Writes a line to the output, and ends.
fn end(status: i32, reason: Arguments<'_>) -> ! {
    kernel::tell(format_args!("{reason}\n"));
    kernel::exit(status)
}

fn run(memory: u64) -> Result<i32, End> {
    let layout = Layout::of(memory);
    let mut guest = Guest::new(layout).ok_or(End(status::NO_MACHINE, "the memory cannot be mapped"))?;
    let file = kernel::map_file(IMAGE_FD).ok_or(End(status::NO_IMAGE, "the image cannot be read"))?;
    let start = load::load(file, &mut guest).map_err(|reason| End(status::NO_IMAGE, reason))?;
    let mut machine = Machine::new(KVM_FD, &mut guest, start).map_err(|reason| End(status::NO_MACHINE, reason))?;
    loop {
        let event = machine.run(&mut guest);
        let fault =
            |status, reason| if guest.was_refused { End(status::NO_MEMORY, reason) } else { End(status, reason) };
        match event {
            Event::Call => {}
            Event::Shutdown => return Err(fault(status::FAULT, "a fault shut the machine down")),
            Event::Device => return Err(fault(status::DEVICE, "the code reached for a device")),
            Event::Stuck => return Err(fault(status::STUCK, "KVM cannot run the code")),
        }
        if let Some(status) = calls::answer(&mut machine, &mut guest) {
            return Ok(if guest.was_refused && status != 0 { status::NO_MEMORY } else { status });
        }
    }
}

/// Runs the monitor with this environment.
fn main(memory: Option<u64>) -> ! {
    let Some(memory) = memory else { end(status::NO_MACHINE, format_args!("the server starts this program")) };
    match run(memory) {
        Ok(status) => kernel::exit(status),
        Err(End(status, reason)) => end(status, format_args!("{reason}")),
    }
}
