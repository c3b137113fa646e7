//! Attacks on a virtual machine: instructions and addresses that code has no business with. They run at every level of
//! processes; only a machine has all of them.
#![allow(unsafe_code, reason = "the attacks")]

use guest::{Call, Error, Result, module};
use std::arch::asm;

module! {
    entries { attack; survives; protects; }
}

/// Address beyond the memory of any machine of the tests, and that of a null pointer.
const FAR: usize = 0x7000_0000_0000;

/// Runs one attack, which does not come back.
fn attack(call: &mut Call) -> Result<i64> {
    let name = call.argument::<String>(0)?;
    // SAFETY: none. Each of these ends the code, at least in a sandbox.
    unsafe {
        match name.as_str() {
            "in from a port" => asm!("in al, dx", in("dx") 0x60_u16, out("al") _),
            "out to a port" => asm!("out dx, al", in("dx") 0x64_u16, in("al") 0xfe_u8),
            "out to the port of the gate" => asm!("out 0x55, al", in("al") 0_u8),
            "string output" => {
                asm!("mov ecx, 100", "rep outsb", in("dx") 0x3f8_u16, in("rsi") b"text".as_ptr(), out("rcx") _)
            }
            "hlt" => asm!("hlt"),
            "cli" => asm!("cli"),
            "ud2" => asm!("ud2"),
            "int 3" => asm!("int3"),
            "int 0x80" => asm!("int 0x80", inout("rax") 1_usize => _),
            "sysenter" => asm!("sysenter"),
            "sysret" => asm!("sysretq", in("rcx") FAR),
            "iret" => asm!("push 0", "push 0", "push 2", "push 8", "push 0", "iretq"),
            "far jump" => asm!("push 8", "push 0", "retfq"),
            "mov to cr3" => asm!("mov cr3, {}", in(reg) 0_usize),
            "mov from cr0" => asm!("mov {}, cr0", out(reg) _),
            "wrmsr" => asm!("wrmsr", in("ecx") 0xc000_0082_u32, in("eax") 0, in("edx") 0),
            "rdmsr" => asm!("rdmsr", in("ecx") 0xc000_0080_u32, out("eax") _, out("edx") _),
            "lidt" => asm!("lidt [{}]", in(reg) &raw const name),
            "ltr" => asm!("ltr {0:x}", in(reg) 0x40_u16),
            "invlpg" => asm!("invlpg [{}]", in(reg) FAR),
            "wbinvd" => asm!("wbinvd"),
            "vmcall" => asm!("vmcall", inout("rax") 1_usize => _),
            "trap flag" => asm!("pushfq", "or qword ptr [rsp], 0x100", "popfq", "nop", "nop"),
            "null pointer" => asm!("mov byte ptr [{}], 1", in(reg) 8_usize),
            "far address" => asm!("mov byte ptr [{}], 1", in(reg) FAR),
            "address of the kernel" => asm!("mov al, byte ptr [{}]", in(reg) 0xffff_ffff_8100_0000_usize, out("al") _),
            "address that is none" => asm!("mov al, byte ptr [{}]", in(reg) 0x8000_0000_0000_0000_usize, out("al") _),
            "write to code" => asm!("mov byte ptr [{}], 0xc3", in(reg) attack as *const () as usize),
            "execute data" => asm!("call {}", in(reg) &raw const name),
            "division by zero" => asm!("div {0:e}", in(reg) 0_u32, inout("eax") 1_u32 => _, inout("edx") 0_u32 => _),
            "no stack" => asm!("mov rsp, {}", "push rax", in(reg) 64_usize),
            // The tables, the gate and the state segment are behind the memory, which has 64 MB.
            "read page tables" => asm!("mov al, byte ptr [{}]", in(reg) 64_usize << 20, out("al") _),
            "write page tables" => asm!("mov qword ptr [{}], 0", in(reg) (64_usize << 20) + 0x2000),
            "write after the right went" => {
                let page = known_page();
                assert_eq!(protect(page, 1), 0);
                page.write_volatile(0xc3);
            }
            "execute after the right went" => {
                let page = known_page();
                assert_eq!(protect(page, 3), 0);
                asm!("call {}", in(reg) page);
            }
            "read after all rights went" => {
                let page = known_page();
                assert_eq!(protect(page, 0), 0);
                page.read_volatile();
            }
            "read of memory that is free" => {
                let page = known_page();
                assert_eq!(system_call(11, [page.addr(), PAGE, 0, 0]), 0);
                page.read_volatile();
            }
            _ => return Err(Error::new("P0001", format!("{name} is no attack"))),
        }
    }
    Ok(0)
}

const PAGE: usize = 4_096;

/// # Safety
/// As the call.
unsafe fn system_call(number: usize, [a, b, c, d]: [usize; 4]) -> isize {
    let result: isize;
    // SAFETY: the caller's.
    unsafe {
        asm!(
            "syscall", inlateout("rax") number as isize => result, in("rdi") a, in("rsi") b, in("rdx") c,
            in("r10") d, in("r8") -1_isize, in("r9") 0_usize, lateout("rcx") _, lateout("r11") _,
        );
    }
    result
}

/// Maps a page with all rights, and uses them, so that the processor knows it.
///
/// # Safety
/// The page is used within its rights.
unsafe fn known_page() -> *mut u8 {
    // SAFETY: a new mapping, of a function that returns.
    unsafe {
        let page = std::ptr::with_exposed_provenance_mut::<u8>(system_call(9, [0, PAGE, 7, 0x22]) as usize);
        assert!(page.addr().is_multiple_of(PAGE));
        page.write_volatile(0xc3);
        asm!("call {}", in(reg) page);
        page
    }
}

/// # Safety
/// The page is used within its rights.
unsafe fn protect(page: *mut u8, rights: usize) -> isize {
    // SAFETY: the caller's.
    unsafe { system_call(10, [page.addr(), PAGE, rights, 0]) }
}

/// Takes rights to a page and gives them back, each time after it was used. Returns how often.
fn protects(_call: &mut Call) -> Result<i64> {
    let mut changes = 0;
    // SAFETY: the page is used within its rights.
    unsafe {
        let page = known_page();
        for round in 0..100_u8 {
            for rights in [1, 3, 0, 5, 7, 1, 7] {
                assert_eq!(protect(page, rights), 0);
                changes += 1;
                if rights != 0 {
                    // What is in the page stays.
                    assert_eq!((page.read_volatile(), page.add(1).read_volatile()), (0xc3, round));
                }
                if rights & 2 != 0 {
                    page.add(1).write_volatile(round);
                }
                if rights & 4 != 0 {
                    asm!("call {}", in(reg) page);
                }
            }
            page.add(1).write_volatile(round + 1);
        }
    }
    Ok(changes)
}

/// Makes system calls with wrong arguments. Returns how many were refused, which is all of them.
fn survives(_call: &mut Call) -> Result<i64> {
    let mut refused = 0;
    for address in [0_usize, 8, FAR, usize::MAX - 4, 1 << 63, (64 << 20) - 2] {
        // read, write, futex, mmap of a file, munmap, mprotect, arch_prctl, clock_gettime, getrandom, writev
        for (number, a, b, c) in [
            (1, 1, address, 100_usize),
            (202, address | 1, 0, 0),
            (9, address, usize::MAX - 8_192, 3),
            (11, address | 1, 4_096, 0),
            (10, address | 1, 4_096, 7),
            (228, 0, address | 1 << 62, 0),
            (318, address | 1 << 62, 64, 0),
            (20, 1, address | 1 << 62, 3),
        ] {
            // SAFETY: none of these calls can succeed.
            let result = unsafe { system_call(number, [a, b, c, 0]) };
            refused += i64::from(result < 0);
        }
    }
    Ok(refused)
}
