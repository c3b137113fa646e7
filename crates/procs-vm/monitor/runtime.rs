//! Parts that a program without a library needs: its beginning, its panics, and the functions that the compiler calls.
#![allow(unsafe_code)]

use crate::kernel;
use crate::layout::{MEMORY_VARIABLE, status};
use core::arch::{asm, global_asm};
use core::panic::PanicInfo;

global_asm!(
    ".globl _start",
    "_start:",
    "xor ebp, ebp",
    "mov rdi, rsp",
    "and rsp, -16",
    "call {begin}",
    "ud2",
    begin = sym begin,
);

/// Reads the environment, which the kernel has put on the stack.
extern "C" fn begin(stack: *const usize) -> ! {
    // SAFETY: the kernel puts the number of arguments here, then their pointers and a null pointer, then those of the
    // environment and a null pointer. Each is a text that ends with zero, and stays as long as the process.
    unsafe {
        let arguments = *stack;
        let mut variable = stack.add(arguments + 2).cast::<*const u8>();
        while !(*variable).is_null() {
            let text = core::ffi::CStr::from_ptr((*variable).cast()).to_str().unwrap_or("");
            if let Some(value) = text.strip_prefix(MEMORY_VARIABLE).and_then(|rest| rest.strip_prefix('=')) {
                crate::main(value.parse().ok())
            }
            variable = variable.add(1);
        }
    }
    crate::main(None)
}

#[panic_handler]
fn panicked(panic: &PanicInfo<'_>) -> ! {
    kernel::tell(format_args!("the monitor panicked: {panic}\n"));
    kernel::exit(status::MONITOR)
}

/// # Safety
/// As `memcpy` of C.
#[unsafe(no_mangle)]
unsafe extern "C" fn memcpy(to: *mut u8, from: *const u8, len: usize) -> *mut u8 {
    // SAFETY: the caller owns both ranges. The direction flag is clear, as the calling convention says.
    unsafe { asm!("rep movsb", inout("rcx") len => _, inout("rdi") to => _, inout("rsi") from => _, options(nostack)) };
    to
}

/// # Safety
/// As `memmove` of C.
#[unsafe(no_mangle)]
unsafe extern "C" fn memmove(to: *mut u8, from: *const u8, len: usize) -> *mut u8 {
    if len <= to.addr().wrapping_sub(from.addr()) {
        // SAFETY: as above; no byte is overwritten before it is read.
        return unsafe { memcpy(to, from, len) };
    }
    // SAFETY: the caller owns both ranges. Copied from the end, and the direction flag is cleared again.
    unsafe {
        asm!(
            "std", "rep movsb", "cld",
            inout("rcx") len => _,
            inout("rdi") to.wrapping_add(len).wrapping_sub(1) => _,
            inout("rsi") from.wrapping_add(len).wrapping_sub(1) => _,
            options(nostack),
        );
    }
    to
}

/// # Safety
/// As `memset` of C.
#[unsafe(no_mangle)]
unsafe extern "C" fn memset(to: *mut u8, byte: i32, len: usize) -> *mut u8 {
    // SAFETY: the caller owns the range.
    unsafe { asm!("rep stosb", inout("rcx") len => _, inout("rdi") to => _, in("al") byte as u8, options(nostack)) };
    to
}

/// # Safety
/// As `memcmp` of C.
#[unsafe(no_mangle)]
unsafe extern "C" fn memcmp(one: *const u8, other: *const u8, len: usize) -> i32 {
    let mut at = 0;
    while at < len {
        // SAFETY: the caller owns both ranges. Volatile, so that the loop does not become a call of this function.
        let (a, b) = unsafe { (one.add(at).read_volatile(), other.add(at).read_volatile()) };
        if a != b {
            return i32::from(a) - i32::from(b);
        }
        at += 1;
    }
    0
}

/// # Safety
/// As `bcmp` of C.
#[unsafe(no_mangle)]
unsafe extern "C" fn bcmp(one: *const u8, other: *const u8, len: usize) -> i32 {
    // SAFETY: as above.
    unsafe { memcmp(one, other, len) }
}

/// # Safety
/// As `strlen` of C.
#[unsafe(no_mangle)]
unsafe extern "C" fn strlen(text: *const u8) -> usize {
    let mut len = 0;
    // SAFETY: the caller's text ends with zero. Volatile, so that the loop does not become a call of this function.
    while unsafe { text.add(len).read_volatile() } != 0 {
        len += 1;
    }
    len
}

/// Named by the tables of the compiler's library. Nothing here unwinds.
#[unsafe(no_mangle)]
extern "C" fn rust_eh_personality() {}
