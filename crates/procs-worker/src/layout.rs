//! Layout of the channel in the places that do not depend on [`procs::abi`]: the monitor of a machine, which has no
//! libraries, and the libraries of the languages.
//!
//! **Invariant:** they all say what `procs::abi` says.

use crate::child;
use procs::abi;
use procs_vm::channel;

const _: () = {
    assert!(procs_vm::CHANNEL_BYTES == abi::SHARED_BYTES as u64);
    assert!(procs_vm::CHANNEL_FD == child::CHANNEL_FD);
    assert!(channel::TURN == abi::TURN as u64 && channel::HOST == abi::HOST);
    assert!(channel::HOST_SLEEPS == abi::HOST_SLEEPS as u64);
    assert!(channel::WORKER_SLEEPS == abi::WORKER_SLEEPS as u64);
    assert!(channel::PLACE == abi::PLACE as u64 && channel::IN_MACHINE == abi::IN_MACHINE);
};

#[cfg(test)]
mod tests;
