//! Guarded stacks: memory from `mmap` with an inaccessible page below.

use core::ffi::c_void;
use std::io;
use std::ptr;

/// Bytes of the stack of an urgent context. Code on it is this project's and shallow; a row executor's depth check
/// (54001) comes long before this ends.
pub const STACK_BYTES: usize = 256 * 1024;

/// Bytes of the stack on which signal handlers start. The kernel's frame is 3.6 KB with AVX-512 and 11 KB with AMX.
pub(crate) const SIGNAL_STACK_BYTES: usize = 64 * 1024;

const PAGE: usize = 4096;

/// A stack: `[guard page | usable]`, growing down from `top`.
pub(crate) struct Stack {
    base: *mut c_void,
    bytes: usize,
}

impl Stack {
    /// Maps a stack of `usable` bytes (a multiple of the page size) and touches all of it, so that its first use costs
    /// no page fault inside an urgent context.
    pub(crate) fn map(usable: usize) -> io::Result<Stack> {
        let bytes = usable + PAGE;
        // SAFETY: an anonymous mapping at an address of the kernel's choice touches no memory of ours.
        let base = unsafe {
            libc::mmap(
                ptr::null_mut(),
                bytes,
                libc::PROT_READ | libc::PROT_WRITE,
                libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_STACK | libc::MAP_POPULATE,
                -1,
                0,
            )
        };
        if base == libc::MAP_FAILED {
            return Err(io::Error::last_os_error());
        }
        let stack = Stack { base, bytes };
        // SAFETY: the first page of the mapping made above, which is not in use yet.
        if unsafe { libc::mprotect(base, PAGE, libc::PROT_NONE) } != 0 {
            return Err(io::Error::last_os_error());
        }
        Ok(stack)
    }

    /// Returns the lowest usable address.
    pub(crate) fn bottom(&self) -> *mut c_void {
        // SAFETY: one page into a mapping that is longer than a page.
        unsafe { self.base.byte_add(PAGE) }
    }

    /// Returns the end of the stack, aligned to a page.
    pub(crate) fn top(&self) -> *mut c_void {
        // SAFETY: one past the end of the mapping.
        unsafe { self.base.byte_add(self.bytes) }
    }

    /// Returns the number of usable bytes.
    pub(crate) fn usable(&self) -> usize {
        self.bytes - PAGE
    }

    /// Returns the first and the past-the-end address of the guard page.
    pub(crate) fn guard(&self) -> (usize, usize) {
        (self.base as usize, self.base as usize + PAGE)
    }
}

impl Drop for Stack {
    fn drop(&mut self) {
        // SAFETY: this mapping is ours, and its owner drops it only when no context runs on it.
        unsafe { libc::munmap(self.base, self.bytes) };
    }
}
