//! Processor that runs the code in ring 3.
//!
//! **Invariant:** the code never runs an instruction of its own in another ring: the only way into ring 0 is a system
//! call, which enters the gate. There are no tables of descriptors and interrupts, so a fault finds no handler.
#![allow(unsafe_code)]

use crate::kvm::{Exit, Processor, Registers, Segment, SpecialRegisters, VirtualMachine};
use crate::layout::Layout;
use crate::load::Start;
use crate::memory::{GATE_OUT_BYTES, GATE_PORT, GATE_TRY_AT, Guest, STATE_LIMIT};

/// Selectors of ring 3.
const CODE: u16 = 0x33;
const DATA: u16 = 0x2b;
/// Selector of the state segment.
const STATE: u16 = 0x40;
/// Always set.
const FLAGS: u64 = 2;
/// Flags of results, and the direction of string instructions: what code can change without a privilege.
const FLAGS_OF_CODE: u64 = 0xcd5 | 1 << 21 | 1 << 18;

/// Kinds of segments.
const EXECUTE_READ: u8 = 11;
const READ_WRITE: u8 = 3;
const BUSY_STATE: u8 = 11;

/// Model-specific registers of system calls.
const STAR: u32 = 0xc000_0081;
const LSTAR: u32 = 0xc000_0082;
const FMASK: u32 = 0xc000_0084;
/// Selectors of the gate, and the base of those to return to.
const STAR_VALUE: u64 = 0x23 << 48 | 0x10 << 32;
/// Flags that a system call clears: traps, interrupts, direction, the level of ports, nested tasks, alignment.
const FMASK_VALUE: u64 = 0x4_7700;

/// Reason for which the code has stopped.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Event {
    /// A system call.
    Call,
    /// A fault without a handler.
    Shutdown,
    /// An access to a device.
    Device,
    /// KVM cannot go on.
    Stuck,
}

/// Machine with one processor.
#[derive(Debug)]
pub struct Machine {
    processor: Processor,
    gate: u64,
    /// Registers at the last system call.
    pub registers: Registers,
    /// True if the gate runs in ring 0. Known before the code runs, which could lie about it.
    is_privileged: bool,
}

fn segment(selector: u16, kind: u8, l: u8) -> Segment {
    let mut segment = Segment::default();
    (segment.limit, segment.selector, segment.kind) = (u32::MAX, selector, kind);
    (segment.present, segment.dpl, segment.s, segment.g) = (1, 3, 1, 1);
    (segment.l, segment.db) = (l, 1 - l);
    segment
}

/// Sets the state of a processor in 64-bit mode, ring 3, without descriptors and interrupts.
fn begin_in_ring_3(special: &mut SpecialRegisters, layout: &Layout) {
    // Protection, coprocessor, numeric errors, write protection, paging.
    special.cr0 = 0x8001_0033;
    // Physical address extension, SSE and its exceptions, FS and GS by instructions, XSAVE.
    special.cr4 = 1 << 5 | 1 << 9 | 1 << 10 | 1 << 16 | 1 << 18;
    // System calls, long mode enabled and active, no-execute.
    special.efer = 1 | 1 << 8 | 1 << 10 | 1 << 11;
    special.cr3 = layout.tables;
    special.cs = segment(CODE, EXECUTE_READ, 1);
    let data = segment(DATA, READ_WRITE, 0);
    (special.ss, special.ds, special.es, special.fs, special.gs) = (data, data, data, data, data);
    special.tr = segment(STATE, BUSY_STATE, 0);
    (special.tr.base, special.tr.limit) = (layout.state, STATE_LIMIT);
    (special.tr.s, special.tr.dpl, special.tr.g, special.tr.db) = (0, 0, 0, 0);
    for table in [&mut special.gdt, &mut special.idt] {
        (table.base, table.limit) = (0, 0);
    }
}

impl Machine {
    /// Creates a machine whose processor is about to run the code.
    ///
    /// # Errors
    /// The step that has failed.
    pub fn new(kvm: i32, guest: &mut Guest, start: Start) -> Result<Machine, &'static str> {
        let virtual_machine = VirtualMachine::new(kvm)?;
        guest.show(&virtual_machine)?;
        let processor = virtual_machine.processor()?;
        let gate = guest.layout.gate;
        processor.set_model_registers([(STAR, STAR_VALUE), (LSTAR, gate), (FMASK, FMASK_VALUE)])?;
        let mut special = processor.special_registers();
        begin_in_ring_3(&mut special, &guest.layout);
        let mut machine = Machine { processor, gate, registers: Registers::default(), is_privileged: false };
        machine.begin_at(&special, gate + GATE_TRY_AT, 0)?;
        match machine.run(guest) {
            Event::Call => machine.is_privileged = machine.processor.special_registers().cs.dpl == 0,
            Event::Shutdown | Event::Device | Event::Stuck => return Err("KVM does not run code in ring 3"),
        }
        machine.begin_at(&special, start.entry, start.stack)?;
        Ok(machine)
    }

    fn begin_at(&mut self, special: &SpecialRegisters, entry: u64, stack: u64) -> Result<(), &'static str> {
        self.processor.set_special_registers(special)?;
        let registers = Registers { rip: entry, rsp: stack, rflags: FLAGS, ..Registers::default() };
        self.processor.set_registers(&registers);
        Ok(())
    }

    /// Runs the code until it stops.
    pub fn run(&mut self, guest: &mut Guest) -> Event {
        let _: &mut Guest = guest;
        loop {
            // SAFETY: references to the machine's memory are borrowed from the guest, which is borrowed here.
            match unsafe { self.processor.run() } {
                Exit::Interrupted => {}
                Exit::Shutdown => return Event::Shutdown,
                Exit::Port(GATE_PORT) => {
                    self.registers = self.processor.registers();
                    // Where it has stopped: some processors are behind the instruction, others are not yet.
                    let at = self.registers.rip.wrapping_sub(self.gate);
                    return if at == 0 || at == GATE_OUT_BYTES { Event::Call } else { Event::Device };
                }
                Exit::Port(_) | Exit::Device => return Event::Device,
                Exit::Other => return Event::Stuck,
            }
        }
    }

    /// Returns from the system call with this result.
    pub fn answer(&mut self, result: i64) {
        let mut registers = self.registers;
        registers.rax = result as u64;
        if !self.is_privileged {
            (registers.rip, registers.rflags) = (registers.rcx, registers.r11 & FLAGS_OF_CODE | FLAGS);
        }
        self.processor.set_registers(&registers);
    }

    /// Returns the base of the segment FS.
    pub fn thread_pointer(&self) -> u64 {
        self.processor.special_registers().fs.base
    }

    /// Sets the base of the segment FS. Returns false for an address that is none.
    pub fn set_thread_pointer(&mut self, base: u64) -> bool {
        let mut special = self.processor.special_registers();
        special.fs.base = base;
        base < 1 << 47 && self.processor.set_special_registers(&special).is_ok()
    }
}
