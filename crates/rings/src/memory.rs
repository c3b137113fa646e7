//! Memory that two processes share.
//!
//! **Invariant:** this process never has a reference to bytes that the other one may change. It sees atomic words, and
//! copies bytes by atomic loads and stores. Every access is checked against the size, which is sealed.
#![allow(unsafe_code)]

use crate::system;
use std::ffi::CStr;
use std::fs::File;
use std::io;
use std::ptr::NonNull;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::atomic::{AtomicU8, AtomicU32, AtomicU64};

/// Bytes that are copied by one load or store.
const WORD: usize = 8;

/// Mapping of a file in memory whose size never changes.
#[derive(Debug)]
pub struct SharedMemory {
    base: NonNull<u8>,
    bytes: usize,
}

// SAFETY: the mapping belongs to the value, and is only accessed through atomics.
unsafe impl Send for SharedMemory {}
// SAFETY: the same.
unsafe impl Sync for SharedMemory {}

impl SharedMemory {
    /// Creates a file of this size in bytes, filled with zeros, and maps it. Returns the file for the other side, too.
    ///
    /// # Errors
    /// The system has no descriptors or no addresses left.
    pub fn create(name: &CStr, bytes: usize) -> io::Result<(SharedMemory, File)> {
        let file = system::memory_file(name, bytes)?;
        let memory = SharedMemory { base: system::map(&file, bytes)?, bytes };
        Ok((memory, file))
    }

    /// Maps a file that another process has created.
    ///
    /// # Errors
    /// The file is shorter than this number of bytes or may become so; the system has no addresses left.
    pub fn open(file: &File, bytes: usize) -> io::Result<SharedMemory> {
        if !system::is_sealed(file) || file.metadata()?.len() < bytes as u64 {
            return Err(io::Error::new(io::ErrorKind::InvalidData, "the file is no shared memory of a constant size"));
        }
        Ok(SharedMemory { base: system::map(file, bytes)?, bytes })
    }

    /// Returns the size in bytes.
    pub fn bytes(&self) -> usize {
        self.bytes
    }

    fn check(&self, offset: usize, count: usize, align: usize) {
        let end = offset.checked_add(count);
        assert!(end.is_some_and(|end| end <= self.bytes) && offset.is_multiple_of(align), "outside of shared memory");
    }

    /// Returns the word of four bytes at an offset.
    ///
    /// # Panics
    /// The offset is no multiple of four, or the word is not within the memory.
    pub fn word(&self, offset: usize) -> &AtomicU32 {
        self.check(offset, 4, 4);
        // SAFETY: within the mapping and aligned. Atomics may be changed by others.
        unsafe { AtomicU32::from_ptr(self.base.as_ptr().add(offset).cast()) }
    }

    /// Returns words of eight bytes from an offset on.
    fn words(&self, offset: usize, count: usize) -> &[AtomicU64] {
        self.check(offset, count * WORD, WORD);
        // SAFETY: as in `word`.
        unsafe { std::slice::from_raw_parts(self.base.as_ptr().add(offset).cast(), count) }
    }

    /// Returns single bytes from an offset on.
    fn singles(&self, offset: usize, count: usize) -> &[AtomicU8] {
        self.check(offset, count, 1);
        // SAFETY: as in `word`.
        unsafe { std::slice::from_raw_parts(self.base.as_ptr().add(offset).cast(), count) }
    }

    /// Copies bytes from an offset on.
    ///
    /// # Panics
    /// They are not all within the memory.
    pub fn read(&self, offset: usize, into: &mut [u8]) {
        let head = offset.next_multiple_of(WORD).saturating_sub(offset).min(into.len());
        let (first, rest) = into.split_at_mut(head);
        load(self.singles(offset, head), first);
        let (middle, last) = rest.as_chunks_mut::<WORD>();
        let offset = offset + head;
        let words = self.words_of(offset, middle.len());
        for (bytes, word) in middle.iter_mut().zip(words) {
            *bytes = word.load(Relaxed).to_ne_bytes();
        }
        load(self.singles(offset + middle.len() * WORD, last.len()), last);
    }

    /// Writes bytes from an offset on.
    ///
    /// # Panics
    /// They are not all within the memory.
    pub fn write(&self, offset: usize, bytes: &[u8]) {
        let head = offset.next_multiple_of(WORD).saturating_sub(offset).min(bytes.len());
        let (first, rest) = bytes.split_at(head);
        store(self.singles(offset, head), first);
        let (middle, last) = rest.as_chunks::<WORD>();
        let offset = offset + head;
        for (word, bytes) in self.words_of(offset, middle.len()).iter().zip(middle) {
            word.store(u64::from_ne_bytes(*bytes), Relaxed);
        }
        store(self.singles(offset + middle.len() * WORD, last.len()), last);
    }

    /// Returns words, or none at an offset that may be no multiple of their size.
    fn words_of(&self, offset: usize, count: usize) -> &[AtomicU64] {
        if count == 0 { &[] } else { self.words(offset, count) }
    }
}

fn load(from: &[AtomicU8], into: &mut [u8]) {
    for (byte, from) in into.iter_mut().zip(from) {
        *byte = from.load(Relaxed);
    }
}

fn store(into: &[AtomicU8], bytes: &[u8]) {
    for (into, byte) in into.iter().zip(bytes) {
        into.store(*byte, Relaxed);
    }
}

impl Drop for SharedMemory {
    fn drop(&mut self) {
        // SAFETY: this mapping is ours, and no reference to it outlives the value.
        unsafe { system::unmap(self.base, self.bytes) };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_come_as_they_were_written_at_any_offset_and_length() {
        let (memory, file) = SharedMemory::create(c"test", 4096).unwrap();
        let other = SharedMemory::open(&file, 4096).unwrap();
        let bytes: Vec<u8> = (0..100).collect();
        for offset in 0..20 {
            for length in [0, 1, 5, 7, 8, 9, 15, 16, 17, 63, 100] {
                memory.write(offset, &[0xff; 128]);
                memory.write(offset, &bytes[..length]);
                let mut read = vec![0; length + 1];
                other.read(offset, &mut read);
                assert_eq!(&read[..length], &bytes[..length]);
                assert_eq!(read[length], 0xff);
            }
        }
    }

    #[test]
    fn a_file_that_can_be_shortened_is_refused() {
        let (_memory, file) = SharedMemory::create(c"test", 4096).unwrap();
        file.set_len(10).unwrap_err();
        SharedMemory::open(&file, 4097).unwrap_err();
        SharedMemory::open(&tempfile::tempfile().unwrap(), 0).unwrap_err();
    }

    #[test]
    #[should_panic(expected = "outside")]
    fn nothing_outside_is_read() {
        SharedMemory::create(c"test", 4096).unwrap().0.read(4090, &mut [0; 7]);
    }
}
