//! Executables: their kind, and the smallest one.
//!
//! **Invariant:** the bytes are those of a user. Nothing here trusts an offset in them.

use procs::level::{ELF, SCRIPT};

/// Kind of an executable.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ExecutableKind {
    /// ELF that needs no other file.
    Static,
    /// ELF that needs a loader and libraries.
    Dynamic,
    /// Text that begins with `#!` and the interpreter.
    Script,
}

/// Length of the header of an ELF file.
const HEADER: usize = 64;
/// Program header that names the loader.
const PT_INTERP: u32 = 3;
/// Number of x86-64.
const EM_X86_64: u16 = 62;

fn number<const N: usize>(bytes: &[u8], at: usize) -> Option<[u8; N]> {
    bytes.get(at..)?.first_chunk().copied()
}

impl ExecutableKind {
    /// Returns the kind of an executable.
    ///
    /// # Errors
    /// The reason if it is none for this machine.
    pub(crate) fn of(bytes: &[u8]) -> Result<ExecutableKind, &'static str> {
        if bytes.starts_with(SCRIPT) {
            return Ok(ExecutableKind::Script);
        }
        if bytes.len() < HEADER || !bytes.starts_with(ELF) {
            return Err("it is neither an ELF file nor a script that begins with #!");
        }
        let is_64_bit_little_endian = bytes.get(4..6) == Some(&[2, 1]);
        if !is_64_bit_little_endian || number(bytes, 18).map(u16::from_le_bytes) != Some(EM_X86_64) {
            return Err("it is an ELF file for another machine than x86-64");
        }
        let has_loader = has_loader(bytes).ok_or("its program headers are beyond its end")?;
        Ok(if has_loader { ExecutableKind::Dynamic } else { ExecutableKind::Static })
    }
}

/// Returns true if a program header names a loader; `None` for headers beyond the end.
fn has_loader(bytes: &[u8]) -> Option<bool> {
    let begin = usize::try_from(u64::from_le_bytes(number(bytes, 32)?)).ok()?;
    let size = usize::from(u16::from_le_bytes(number(bytes, 54)?));
    let count = usize::from(u16::from_le_bytes(number(bytes, 56)?));
    for at in 0..count {
        let header = begin.checked_add(at.checked_mul(size)?)?;
        if u32::from_le_bytes(number(bytes, header)?) == PT_INTERP {
            return Some(true);
        }
    }
    Some(false)
}

/// Returns an executable that ends at once with exit status 0.
pub(crate) fn nothing() -> Vec<u8> {
    const BASE: u64 = 0x40_0000;
    const CODE_AT: u64 = 64 + 56;
    // xor edi, edi; mov eax, 60 (exit); syscall
    const CODE: [u8; 9] = [0x31, 0xff, 0xb8, 60, 0, 0, 0, 0x0f, 0x05];
    let len = CODE_AT + CODE.len() as u64;
    let mut bytes = b"\x7fELF\x02\x01\x01\0\0\0\0\0\0\0\0\0".to_vec();
    // Executable, x86-64, version 1.
    bytes.extend_from_slice(&[2, 0, 62, 0, 1, 0, 0, 0]);
    for field in [BASE + CODE_AT, 64, 0] {
        bytes.extend_from_slice(&field.to_le_bytes());
    }
    // Flags, sizes of the headers, one program header, no sections.
    bytes.extend_from_slice(&[0, 0, 0, 0, 64, 0, 56, 0, 1, 0, 0, 0, 0, 0, 0, 0]);
    // Loaded, readable and executable.
    bytes.extend_from_slice(&[1, 0, 0, 0, 5, 0, 0, 0]);
    for field in [0, BASE, BASE, len, len, 0x1000] {
        bytes.extend_from_slice(&field.to_le_bytes());
    }
    bytes.extend_from_slice(&CODE);
    bytes
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn kinds_are_told_apart() {
        assert_eq!(ExecutableKind::of(&nothing()), Ok(ExecutableKind::Static));
        assert_eq!(ExecutableKind::of(b"#!/bin/sh\n"), Ok(ExecutableKind::Script));
        let own = std::fs::read("/proc/self/exe").expect("this test");
        assert_eq!(ExecutableKind::of(&own), Ok(ExecutableKind::Dynamic));
        assert!(ExecutableKind::of(b"").is_err() && ExecutableKind::of(b"\x7fELF").is_err());
    }

    #[test]
    fn headers_beyond_the_end_are_refused() {
        let whole = nothing();
        for at in 0..64 {
            for value in [0, 1, 0x7f, 0xff] {
                let mut changed = whole.clone();
                changed[at] = value;
                let _ = ExecutableKind::of(&changed);
            }
        }
        let mut changed = whole;
        changed[32..40].copy_from_slice(&u64::MAX.to_le_bytes());
        assert!(ExecutableKind::of(&changed).is_err());
    }
}
