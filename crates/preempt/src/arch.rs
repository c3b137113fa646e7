//! The stack switch.
//!
//! ```text
//! before                     inside `call(argument)`
//!   rsp -> return address      rsp -> return address into run_on
//!                              [top] .. the new stack, 16-byte aligned at the call
//!   rdi = new top              rbp -> saved rbp, return address   (on the old stack)
//!   rsi = argument
//!   rdx = call
//! ```
//!
//! `rbp` is callee-saved, so it leads back to the old stack however deep `call` went; the unwinder finds the old frame
//! through it as well (the CFI says so), which makes backtraces cross the switch.

use core::ffi::c_void;

/// Calls `call(argument)` on the stack that ends at `top` and returns when it returns.
///
/// # Safety
/// `top` is 16-byte aligned and ends a writable stack that is not in use; `call` does not unwind.
#[unsafe(naked)]
pub(crate) unsafe extern "C" fn run_on(top: *mut c_void, argument: *mut c_void, call: extern "C" fn(*mut c_void)) {
    core::arch::naked_asm!(
        ".cfi_startproc",
        "push rbp",
        ".cfi_def_cfa_offset 16",
        ".cfi_offset rbp, -16",
        "mov rbp, rsp",
        ".cfi_def_cfa_register rbp",
        "mov rsp, rdi",
        "mov rdi, rsi",
        "call rdx",
        "mov rsp, rbp",
        "pop rbp",
        ".cfi_def_cfa rsp, 8",
        "ret",
        ".cfi_endproc",
    )
}
