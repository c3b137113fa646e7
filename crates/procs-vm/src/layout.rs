//! Layout of a machine's memory, and the statuses with which a monitor ends.
//!
//! Guest addresses, physical and virtual ones alike, begin with the code's memory. The page tables, the gate, the
//! state segment and the channel follow it. Code sees its own memory, the gate, and the channel.

/// Bytes of a page.
pub const PAGE: u64 = 4_096;
/// First address that code can use: no pointer near null is valid.
pub const FIRST: u64 = 16 * PAGE;
/// Bytes that one page of a page table maps.
const TABLE_SPAN: u64 = 512 * PAGE;
/// Least memory of code in bytes.
pub const MEMORY_MIN: u64 = 4 << 20;
/// Greatest memory of code in bytes: one table of the third level maps it.
pub const MEMORY_MAX: u64 = 256 << 30;
/// Bytes of the shared memory of a channel.
pub const CHANNEL_BYTES: u64 = 4_096 + (1 << 20);

/// Head of the shared memory of a channel: what the monitor must know of it, which needs no library. `procs-worker`
/// compares it with `procs::abi`.
pub mod channel {
    /// Offset of the turn.
    pub const TURN: u64 = 64;
    /// Turn of the host.
    pub const HOST: u32 = 0;
    /// Offset of the mark of a sleeping host.
    pub const HOST_SLEEPS: u64 = 68;
    /// Offset of the mark of a sleeping worker.
    pub const WORKER_SLEEPS: u64 = 72;
    /// Offset of the place of the worker.
    pub const PLACE: u64 = 76;
    /// Place of a worker in a machine.
    pub const IN_MACHINE: u32 = 1;
    /// Variables of the environment with the channel, which end with zero: shared memory, and a socket.
    pub const VARIABLES: [&[u8]; 2] = [b"OVERTAKE_CHANNEL=shared_memory:3\0", b"OVERTAKE_CHANNEL=unix_socket:3\0"];
}
/// Greatest stack in bytes.
const STACK_MAX: u64 = 8 << 20;

/// Descriptor of the channel, in the monitor as in the code.
pub const CHANNEL_FD: i32 = 3;
/// Descriptor of the image in the monitor.
pub const IMAGE_FD: i32 = 4;
/// Descriptor of `/dev/kvm` in the monitor.
pub const KVM_FD: i32 = 5;
/// Environment variable of the monitor with the memory of the code in bytes.
pub const MEMORY_VARIABLE: &str = "OVERTAKE_VM_MEMORY";

/// Statuses of a monitor. Lower ones are those of the code; from 128 on, of a signal that it sent to itself.
pub mod status {
    /// First status of a signal.
    pub const SIGNAL: i32 = 128;
    /// The code made a fault, which nothing in the machine handles.
    pub const FAULT: i32 = 200;
    /// The code reached for a device: a port, or memory that is none.
    pub const DEVICE: i32 = 201;
    /// KVM could not go on.
    pub const STUCK: i32 = 202;
    /// The code ended after it was refused memory.
    pub const NO_MEMORY: i32 = 203;
    /// The machine could not be made.
    pub const NO_MACHINE: i32 = 204;
    /// The image cannot be loaded.
    pub const NO_IMAGE: i32 = 205;
    /// The monitor itself has failed.
    pub const MONITOR: i32 = 206;
}

/// Places in a machine.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Layout {
    /// Bytes of the code's memory, which begins at 0.
    pub memory: u64,
    /// Root of the page tables. Tables of the third, the second and the first level follow.
    pub tables: u64,
    /// First table of the first level. Those tables are contiguous: an array of entries by the number of a page.
    pub entries: u64,
    /// Page with the code that a system call enters.
    pub gate: u64,
    /// Page with the state segment, which says that ring 3 may write to the gate's port and to no other.
    pub state: u64,
    /// End of all that the host allocates.
    pub end: u64,
    /// Channel.
    pub channel: u64,
    /// Lowest address of the stack, which ends with the memory.
    pub stack: u64,
}

impl Layout {
    /// Returns the layout for so many bytes of memory, which are brought into the bounds above.
    pub fn of(memory: u64) -> Layout {
        let memory = memory.clamp(MEMORY_MIN, MEMORY_MAX) / PAGE * PAGE;
        // Tables for the memory, for themselves (1 in 512), and for the channel behind a gap.
        let spanned = memory + memory / 256 + (8 << 20);
        let first = spanned.div_ceil(TABLE_SPAN);
        let second = first.div_ceil(512);
        let (tables, entries) = (memory, memory + (2 + second) * PAGE);
        let gate = entries + first * PAGE;
        let state = gate + PAGE;
        let end = state + PAGE;
        let channel = end.div_ceil(TABLE_SPAN) * TABLE_SPAN;
        let stack = memory - STACK_MAX.min(memory / 8 / PAGE * PAGE);
        Layout { memory, tables, entries, gate, state, end, channel, stack }
    }

    /// Returns the number of pages that have an entry.
    pub fn pages(&self) -> u64 {
        (self.gate - self.entries) / 8
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_place_has_an_entry() {
        for memory in [0, MEMORY_MIN, 48 << 20, 64 << 20, (1 << 30) + 5_000, 8 << 30, MEMORY_MAX, u64::MAX] {
            let layout = Layout::of(memory);
            assert!(layout.channel + CHANNEL_BYTES <= layout.pages() * PAGE, "{layout:?}");
            assert!(layout.end <= layout.channel && layout.entries < layout.gate && layout.stack < layout.memory);
            assert!(layout.channel.is_multiple_of(PAGE) && layout.gate.is_multiple_of(PAGE));
        }
    }
}
