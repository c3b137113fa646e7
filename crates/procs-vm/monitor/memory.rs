//! Memory of the machine, and the channel.
//!
//! **Invariant:** there are no references to the memory of the code but those that [`Guest`] lends, and they end
//! before the processor runs. Words of the channel are atomics, which the server changes at the same time.
#![allow(unsafe_code)]

use crate::kernel;
use crate::kvm::VirtualMachine;
use crate::layout::channel::{IN_MACHINE, PLACE};
use crate::layout::{CHANNEL_BYTES, CHANNEL_FD, FIRST, Layout, PAGE};
use crate::pages::{PageRange, Pages, Rights};
use core::ptr::NonNull;
use core::slice;
use core::sync::atomic::AtomicU32;
use core::sync::atomic::Ordering::SeqCst;

/// Memory of the machine, and what its code has of it.
#[derive(Debug)]
pub struct Guest {
    base: NonNull<u8>,
    /// Places in the memory.
    pub layout: Layout,
    /// Channel in shared memory; `None` if it is a socket.
    pub channel: Option<Channel>,
    /// Beginning and end of the memory that `brk` has given to the code.
    pub heap: (u64, u64),
    /// True once the code was refused memory.
    pub was_refused: bool,
}

/// Memory that the server maps as well.
#[derive(Clone, Copy, Debug)]
pub struct Channel(NonNull<u8>);

impl Channel {
    /// Returns a word of the head.
    pub fn word(&self, offset: u64) -> Option<&AtomicU32> {
        if !offset.is_multiple_of(4) || PAGE - 4 < offset {
            return None;
        }
        // SAFETY: aligned and within the mapping, which is never unmapped. Nobody here uses it but as an atomic.
        Some(unsafe { AtomicU32::from_ptr(self.0.as_ptr().add(offset as usize).cast()) })
    }
}

impl Guest {
    /// Maps the memory, and writes the page tables. Maps the channel, if it is shared memory.
    pub fn new(layout: Layout) -> Option<Guest> {
        let memory = kernel::map_memory(layout.end as usize)?;
        let base = NonNull::from(memory).cast::<u8>();
        let channel = kernel::map_shared(CHANNEL_FD, CHANNEL_BYTES as usize).and_then(NonNull::new).map(Channel);
        let mut guest = Guest { base, layout, channel, heap: (0, 0), was_refused: false };
        let mut pages = Pages::new(&layout, guest.words(layout.tables, layout.gate))?;
        if let Some(channel) = channel {
            pages.map_channel(&layout)?;
            channel.word(PLACE)?.store(IN_MACHINE, SeqCst);
        }
        // out GATE_PORT, al; sysretq; nop; syscall
        let code = [0xe6, GATE_PORT as u8, 0x48, 0x0f, 0x07, 0x90, 0x0f, 0x05];
        let gate = guest.bytes(layout.gate, layout.state);
        gate.iter_mut().zip(code).for_each(|(place, byte)| *place = byte);
        write_state(guest.bytes(layout.state, layout.end))?;
        Some(guest)
    }

    fn bytes(&mut self, from: u64, to: u64) -> &mut [u8] {
        assert!(from <= to && to <= self.layout.end);
        // SAFETY: within the mapping; borrowed from the value, which has no other reference to it.
        unsafe { slice::from_raw_parts_mut(self.base.as_ptr().add(from as usize), (to - from) as usize) }
    }

    fn words(&mut self, from: u64, to: u64) -> &mut [u64] {
        let bytes = self.bytes(from, to);
        assert!(bytes.as_ptr().addr().is_multiple_of(8));
        // SAFETY: aligned, within the bytes, and any bits are a number.
        unsafe { slice::from_raw_parts_mut(bytes.as_mut_ptr().cast(), bytes.len() / 8) }
    }

    /// Lends the page tables.
    pub fn pages(&mut self) -> Pages<'_> {
        let layout = self.layout;
        Pages::of(&layout, self.words(layout.entries, layout.gate))
    }

    /// Lends a range of the code's memory; `None` if it is not within it.
    pub fn range(&mut self, address: u64, len: u64) -> Option<&mut [u8]> {
        let end = address.checked_add(len).filter(|end| *end <= self.layout.memory && FIRST <= address)?;
        Some(self.bytes(address, end))
    }

    /// Returns a word that somebody may sleep on: one of the channel, or of the code's own memory.
    pub fn word(&mut self, address: u64) -> Option<&AtomicU32> {
        if let Some(offset) = address.checked_sub(self.layout.channel) {
            return self.channel.as_ref()?.word(offset);
        }
        let word = self.range(address, 4).filter(|_| address.is_multiple_of(4))?;
        // SAFETY: aligned, and lent like the bytes that it consists of.
        Some(unsafe { AtomicU32::from_ptr(word.as_mut_ptr().cast()) })
    }

    /// Changes the rights to pages; `None` if they are not all taken, or if the kernel refuses.
    ///
    /// The processor keeps what it has read in the page tables, and KVM keeps a copy of them where the processor has no
    /// tables of a second level (PVM). Neither hears that the monitor has changed an entry: the code runs no instruction
    /// that says so, and KVM has no request for it. New special registers make the processor forget, but KVM takes its
    /// copy for true as long as the code itself has not written to the table.
    ///
    /// But whatever becomes of the monitor's own mapping shows in the machine at once, by any way that leads to the
    /// memory: KVM promises it (`KVM_CAP_SYNC_MMU`). An entry maps a page to itself. So once the pages have been out of
    /// the monitor's reach, there is no translation of their addresses: none that allows more than the entry, and none
    /// that allows less, whose fault would find no handler.
    pub fn protect(&mut self, (first, count): PageRange, rights: Rights) -> Option<()> {
        let are_known = self.pages().protect((first, count), rights)?;
        if are_known && !kernel::hide_and_show(self.range(first * PAGE, count * PAGE)?) {
            self.was_refused = true;
            return None;
        }
        Some(())
    }

    /// Frees pages, and empties them.
    pub fn free(&mut self, (first, count): PageRange) -> Option<()> {
        self.pages().free((first, count))?;
        kernel::empty(self.range(first * PAGE, count * PAGE)?);
        Some(())
    }

    /// Shows the memory and the channel to the machine.
    pub fn show(&self, machine: &VirtualMachine) -> Result<(), &'static str> {
        // SAFETY: neither is ever unmapped. References to the memory are lent by `&mut self` only, and `Machine::run`
        // takes `&mut Guest`.
        unsafe {
            machine.add_memory(0, 0, self.base.as_ptr(), self.layout.end)?;
            if let Some(Channel(base)) = self.channel {
                machine.add_memory(1, self.layout.channel, base.as_ptr(), CHANNEL_BYTES)?;
            }
        }
        Ok(())
    }
}

/// Writes the state segment: a map of ports, of which ring 3 may use one.
fn write_state(segment: &mut [u8]) -> Option<()> {
    let (head, ports) = segment.split_at_mut_checked(STATE_BYTES)?;
    head.get_mut(STATE_BYTES - 2..)?.copy_from_slice(&(STATE_BYTES as u16).to_le_bytes());
    // A set bit forbids a port.
    ports.get_mut(..PORTS_BYTES)?.fill(0xff);
    *ports.get_mut(usize::from(GATE_PORT / 8))? &= !(1 << (GATE_PORT % 8));
    Some(())
}

/// Bytes of a state segment before its map of ports.
const STATE_BYTES: usize = 104;
/// Bytes of the map: up to the gate's port, and a last byte that is all ones.
const PORTS_BYTES: usize = GATE_PORT as usize / 8 + 2;
/// Greatest offset in the state segment.
pub const STATE_LIMIT: u32 = (STATE_BYTES + PORTS_BYTES - 1) as u32;
/// Port that the gate writes to.
pub const GATE_PORT: u16 = 0x55;
/// Bytes of the instruction that writes to it.
pub const GATE_OUT_BYTES: u64 = 2;
/// Place of a system call in the gate, by which the monitor tries it.
pub const GATE_TRY_AT: u64 = 6;
