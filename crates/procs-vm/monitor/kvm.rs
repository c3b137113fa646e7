//! Virtual machine and processor of KVM.
//!
//! **Invariant:** the structures are those of the kernel's interface, whose layout never changes.
#![allow(unsafe_code)]

use crate::kernel;
use core::mem::offset_of;
use core::ptr::NonNull;

const CREATE_VM: usize = 0xae01;
const GET_MMAP_SIZE: usize = 0xae04;
const GET_SUPPORTED_CPUID: usize = 0xc008_ae05;
const CREATE_VCPU: usize = 0xae41;
const SET_USER_MEMORY_REGION: usize = 0x4020_ae46;
const RUN: usize = 0xae80;
const GET_REGS: usize = 0x8090_ae81;
const SET_REGS: usize = 0x4090_ae82;
const GET_SREGS: usize = 0x8138_ae83;
const SET_SREGS: usize = 0x4138_ae84;
const SET_MSRS: usize = 0x4008_ae89;
const SET_CPUID2: usize = 0x4008_ae90;
const SET_XCRS: usize = 0x4188_aea7;
/// Greatest number of answers of CPUID.
const CPUID_MAX: usize = 256;

/// General registers.
#[derive(Clone, Copy, Debug, Default)]
#[repr(C)]
#[allow(missing_docs, reason = "names of registers")]
pub struct Registers {
    pub rax: u64,
    pub rbx: u64,
    pub rcx: u64,
    pub rdx: u64,
    pub rsi: u64,
    pub rdi: u64,
    pub rsp: u64,
    pub rbp: u64,
    pub r8: u64,
    pub r9: u64,
    pub r10: u64,
    pub r11: u64,
    pub r12: u64,
    pub r13: u64,
    pub r14: u64,
    pub r15: u64,
    pub rip: u64,
    pub rflags: u64,
}

/// Segment.
#[derive(Clone, Copy, Debug, Default)]
#[repr(C)]
#[allow(missing_docs, reason = "names of the processor")]
pub struct Segment {
    pub base: u64,
    pub limit: u32,
    pub selector: u16,
    pub kind: u8,
    pub present: u8,
    pub dpl: u8,
    pub db: u8,
    pub s: u8,
    pub l: u8,
    pub g: u8,
    pub available: u8,
    pub unusable: u8,
    padding: u8,
}

/// Table of descriptors.
#[derive(Clone, Copy, Debug, Default)]
#[repr(C)]
#[allow(missing_docs, reason = "names of the processor")]
pub struct Table {
    pub base: u64,
    pub limit: u16,
    padding: [u16; 3],
}

/// Special registers.
#[derive(Clone, Copy, Debug, Default)]
#[repr(C)]
#[allow(missing_docs, reason = "names of registers")]
pub struct SpecialRegisters {
    pub cs: Segment,
    pub ds: Segment,
    pub es: Segment,
    pub fs: Segment,
    pub gs: Segment,
    pub ss: Segment,
    pub tr: Segment,
    pub ldt: Segment,
    pub gdt: Table,
    pub idt: Table,
    pub cr0: u64,
    pub cr2: u64,
    pub cr3: u64,
    pub cr4: u64,
    pub cr8: u64,
    pub efer: u64,
    pub apic_base: u64,
    interrupts: [u64; 4],
}

#[repr(C)]
struct MemoryRegion {
    slot: u32,
    flags: u32,
    address: u64,
    len: u64,
    host: u64,
}

#[derive(Clone, Copy, Default)]
#[repr(C)]
struct CpuidEntry {
    function: u32,
    index: u32,
    flags: u32,
    eax: u32,
    ebx: u32,
    ecx: u32,
    edx: u32,
    padding: [u32; 3],
}

#[repr(C)]
struct Cpuid {
    count: u32,
    padding: u32,
    entries: [CpuidEntry; CPUID_MAX],
}

/// Register that has a number, with its value. In C, the number and a reserved word of zero are its first half.
#[derive(Clone, Copy, Default)]
#[repr(C)]
struct NumberedRegister {
    number: u32,
    reserved: u32,
    value: u64,
}

#[repr(C)]
struct ModelRegisters<const N: usize> {
    count: u32,
    padding: u32,
    entries: [NumberedRegister; N],
}

#[repr(C)]
struct ControlRegisters {
    count: u32,
    flags: u32,
    entries: [NumberedRegister; 16],
    padding: [u64; 16],
}

/// Bytes of the structure that a request reads or writes, which its number has.
const fn bytes_of(request: usize) -> usize {
    request >> 16 & 0x3fff
}

// The sizes that the kernel expects. Those of lists have a head alone, and the entries follow it.
const _: () = {
    assert!(size_of::<Registers>() == bytes_of(GET_REGS) && size_of::<Registers>() == bytes_of(SET_REGS));
    assert!(size_of::<SpecialRegisters>() == bytes_of(GET_SREGS));
    assert!(size_of::<SpecialRegisters>() == bytes_of(SET_SREGS));
    assert!(size_of::<Segment>() == 24 && size_of::<Table>() == 16);
    assert!(size_of::<MemoryRegion>() == bytes_of(SET_USER_MEMORY_REGION));
    assert!(size_of::<ControlRegisters>() == bytes_of(SET_XCRS));
    assert!(size_of::<CpuidEntry>() == 40 && size_of::<NumberedRegister>() == 16);
    assert!(offset_of!(Cpuid, entries) == bytes_of(GET_SUPPORTED_CPUID));
    assert!(offset_of!(Cpuid, entries) == bytes_of(SET_CPUID2));
    assert!(size_of::<Cpuid>() == 8 + CPUID_MAX * 40);
    assert!(offset_of!(ModelRegisters<1>, entries) == bytes_of(SET_MSRS));
    assert!(size_of::<ModelRegisters<3>>() == 8 + 3 * 16);
};

/// Reason for which the processor has left the code.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Exit {
    /// The code has written one byte to a port.
    Port(u16),
    /// A fault without a handler.
    Shutdown,
    /// Memory that is none, another kind of port, or the instruction `hlt`.
    Device,
    /// A signal.
    Interrupted,
    /// Any other.
    Other,
}

/// Virtual processor.
#[derive(Debug)]
pub struct Processor {
    file: i32,
    /// Page that the kernel writes when the processor leaves the code.
    run: NonNull<u8>,
}

/// Virtual machine.
#[derive(Debug)]
pub struct VirtualMachine {
    kvm: i32,
    file: i32,
}

fn made(result: isize, what: &'static str) -> Result<i32, &'static str> {
    if result < 0 { Err(what) } else { Ok(result as i32) }
}

impl VirtualMachine {
    /// Creates a machine.
    ///
    /// # Errors
    /// The step that has failed.
    pub fn new(kvm: i32) -> Result<VirtualMachine, &'static str> {
        // SAFETY: takes a number.
        let file = made(unsafe { kernel::ioctl(kvm, CREATE_VM, 0) }, "KVM_CREATE_VM failed")?;
        Ok(VirtualMachine { kvm, file })
    }

    /// Shows memory of this process to the machine.
    ///
    /// # Safety
    /// The memory stays mapped. The monitor has no reference to it while the processor runs, or only to atomics.
    pub unsafe fn add_memory(&self, slot: u32, address: u64, host: *mut u8, len: u64) -> Result<(), &'static str> {
        let region = MemoryRegion { slot, flags: 0, address, len, host: host.expose_provenance() as u64 };
        // SAFETY: reads a local.
        let set = unsafe { kernel::ioctl(self.file, SET_USER_MEMORY_REGION, (&raw const region).addr()) };
        made(set, "KVM_SET_USER_MEMORY_REGION failed").map(drop)
    }

    /// Creates the processor, with all that the host's can do.
    ///
    /// # Errors
    /// The step that has failed.
    pub fn processor(&self) -> Result<Processor, &'static str> {
        // SAFETY: takes a number.
        let file = made(unsafe { kernel::ioctl(self.file, CREATE_VCPU, 0) }, "KVM_CREATE_VCPU failed")?;
        // SAFETY: takes no argument.
        let size = made(unsafe { kernel::ioctl(self.kvm, GET_MMAP_SIZE, 0) }, "KVM_GET_VCPU_MMAP_SIZE failed")?;
        let run =
            kernel::map_shared(file, size as usize).and_then(NonNull::new).ok_or("the processor cannot be mapped")?;
        let processor = Processor { file, run };
        let mut known = Cpuid { count: CPUID_MAX as u32, padding: 0, entries: [CpuidEntry::default(); CPUID_MAX] };
        // SAFETY: writes into a local, as many entries as its count says, and reads it.
        unsafe {
            let got = kernel::ioctl(self.kvm, GET_SUPPORTED_CPUID, (&raw mut known).addr());
            made(got, "KVM_GET_SUPPORTED_CPUID failed")?;
            made(kernel::ioctl(file, SET_CPUID2, (&raw const known).addr()), "KVM_SET_CPUID2 failed")?;
        }
        processor.allow_vectors(&known)?;
        Ok(processor)
    }
}

impl Processor {
    /// Lets the code use the vector registers that KVM knows, except those that need a permission (AMX).
    fn allow_vectors(&self, known: &Cpuid) -> Result<(), &'static str> {
        const STATES: u64 = 0xe7;
        let states = known.entries.iter().take(known.count as usize).find(|one| (one.function, one.index) == (0xd, 0));
        let Some(states) = states.map(|one| u64::from(one.eax) & STATES).filter(|states| *states != 0) else {
            return Ok(());
        };
        let entries = [NumberedRegister::default(); 16];
        let mut registers = ControlRegisters { count: 1, flags: 0, entries, padding: [0; 16] };
        registers.entries[0].value = states | 3;
        // SAFETY: reads a local.
        let set = unsafe { kernel::ioctl(self.file, SET_XCRS, (&raw const registers).addr()) };
        made(set, "KVM_SET_XCRS failed").map(drop)
    }

    /// Sets model-specific registers, by their numbers.
    pub fn set_model_registers<const N: usize>(&self, entries: [(u32, u64); N]) -> Result<(), &'static str> {
        let entries = entries.map(|(number, value)| NumberedRegister { number, reserved: 0, value });
        let registers = ModelRegisters { count: N as u32, padding: 0, entries };
        // SAFETY: reads a local, as many entries as its count says.
        let set = unsafe { kernel::ioctl(self.file, SET_MSRS, (&raw const registers).addr()) };
        if set == N as isize { Ok(()) } else { Err("KVM_SET_MSRS failed") }
    }

    /// Returns the general registers.
    pub fn registers(&self) -> Registers {
        let mut registers = Registers::default();
        // SAFETY: writes into a local. It cannot fail for a processor that is not running.
        unsafe { kernel::ioctl(self.file, GET_REGS, (&raw mut registers).addr()) };
        registers
    }

    /// Sets the general registers.
    pub fn set_registers(&self, registers: &Registers) {
        // SAFETY: reads the value. It cannot fail for a processor that is not running.
        unsafe { kernel::ioctl(self.file, SET_REGS, (&raw const *registers).addr()) };
    }

    /// Returns the special registers.
    pub fn special_registers(&self) -> SpecialRegisters {
        let mut registers = SpecialRegisters::default();
        // SAFETY: writes into a local. It cannot fail for a processor that is not running.
        unsafe { kernel::ioctl(self.file, GET_SREGS, (&raw mut registers).addr()) };
        registers
    }

    /// Sets the special registers.
    ///
    /// # Errors
    /// The step that has failed: the kernel refuses values that no processor takes.
    pub fn set_special_registers(&self, registers: &SpecialRegisters) -> Result<(), &'static str> {
        // SAFETY: reads the value.
        made(unsafe { kernel::ioctl(self.file, SET_SREGS, (&raw const *registers).addr()) }, "KVM_SET_SREGS failed")
            .map(drop)
    }

    /// Runs the code until it leaves the machine.
    ///
    /// # Safety
    /// No reference to memory of the machine exists, except to atomics.
    pub unsafe fn run(&mut self) -> Exit {
        const REASON_AT: usize = 8;
        const PORT_AT: usize = 32;
        const IO: u32 = 2;
        const HLT: u32 = 5;
        const MMIO: u32 = 6;
        const SHUTDOWN: u32 = 8;
        const INTERRUPTED: u32 = 10;
        const EINTR: isize = -4;
        const EAGAIN: isize = -11;
        // SAFETY: takes no argument. The machine's memory is the caller's.
        match unsafe { kernel::ioctl(self.file, RUN, 0) } {
            EINTR | EAGAIN => return Exit::Interrupted,
            0.. => {}
            _ => return Exit::Other,
        }
        // SAFETY: both places are within the page, which the kernel writes only while the processor runs: the reason, then
        // direction, size, port and count of an access to a port.
        let (reason, [direction, size], port, count) = unsafe {
            (
                self.run.add(REASON_AT).cast::<u32>().read_volatile(),
                self.run.add(PORT_AT).cast::<[u8; 2]>().read_volatile(),
                self.run.add(PORT_AT + 2).cast::<u16>().read_volatile(),
                self.run.add(PORT_AT + 4).cast::<u32>().read_volatile(),
            )
        };
        match reason {
            IO if (direction, size, count) == (1, 1, 1) => Exit::Port(port),
            IO | HLT | MMIO => Exit::Device,
            SHUTDOWN => Exit::Shutdown,
            INTERRUPTED => Exit::Interrupted,
            _ => Exit::Other,
        }
    }
}
