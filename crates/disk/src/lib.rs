//! Files of a database, behind one trait.
//!
//! [`FolderDisk`] is a directory of the operating system. [`FakeDisk`] is a disk in memory for tests: it knows which
//! bytes were synced, crashes between any two operations, and leaves what a real disk could leave.
//!
//! **Contract,** which is what POSIX promises and no more:
//!
//! - Bytes are durable when a [`DiskFile::sync`] has returned that was called after they were written. Until then a crash
//!   keeps any of their sectors of [`SECTOR`] bytes, in any order, and loses the others.
//! - A new, renamed or removed entry is durable when a [`Disk::sync_folder`] of its folder has returned. The sync of a file
//!   says nothing about its entry.
//! - A rename is atomic: after a crash the new name means the old file or the new one.
//! - The sync of a file that has failed says that bytes are lost, and the next one does not bring them back: Linux marks
//!   the pages as clean (Rebello et al., "Can Applications Recover from fsync Failures?", USENIX ATC 2020). Never sync
//!   again and go on. Entries are in the journal of the file system, which stops at its first error.
//!
//! Paths are relative to the disk's root, with `/` between their parts.

mod fake;
mod folder;

pub use fake::explore::{CrashSite, crash_everywhere};
pub use fake::survival::Survival;
pub use fake::{DiskFault, FakeDisk};
pub use folder::FolderDisk;

use std::fmt::Debug;
use std::io;
use std::sync::Arc;

/// Bytes that a disk writes as a whole, or not at all.
pub const SECTOR: usize = 512;

/// Directory with the files of a database.
pub trait Disk: Debug + Send + Sync {
    /// Creates an empty file, for reading and writing.
    ///
    /// # Errors
    /// [`io::ErrorKind::AlreadyExists`]; errors of the disk.
    fn create(&self, path: &str) -> io::Result<Arc<dyn DiskFile>>;

    /// Opens a file for reading and writing.
    ///
    /// # Errors
    /// [`io::ErrorKind::NotFound`]; errors of the disk.
    fn open(&self, path: &str) -> io::Result<Arc<dyn DiskFile>>;

    /// Creates a folder.
    ///
    /// # Errors
    /// [`io::ErrorKind::AlreadyExists`]; errors of the disk.
    fn create_folder(&self, path: &str) -> io::Result<()>;

    /// Returns the names in a folder, sorted.
    ///
    /// # Errors
    /// [`io::ErrorKind::NotFound`]; errors of the disk.
    fn names(&self, folder: &str) -> io::Result<Vec<String>>;

    /// Gives a file of a folder another name in it. A file that has that name is replaced.
    ///
    /// # Errors
    /// [`io::ErrorKind::NotFound`]; errors of the disk.
    fn rename(&self, folder: &str, from: &str, to: &str) -> io::Result<()>;

    /// Removes a file.
    ///
    /// # Errors
    /// [`io::ErrorKind::NotFound`]; errors of the disk.
    fn remove(&self, path: &str) -> io::Result<()>;

    /// Makes the entries of a folder durable.
    ///
    /// # Errors
    /// Errors of the disk. See the contract of this crate.
    fn sync_folder(&self, folder: &str) -> io::Result<()>;
}

/// Open file of a [`Disk`].
pub trait DiskFile: Debug + Send + Sync {
    /// Reads bytes from a place, as many as come at once. Returns 0 at the end of the file.
    ///
    /// # Errors
    /// Errors of the disk.
    fn read_at(&self, bytes: &mut [u8], at: u64) -> io::Result<usize>;

    /// Writes bytes to a place, as many as go at once, and makes the file longer if they end behind it.
    ///
    /// # Errors
    /// [`io::ErrorKind::StorageFull`]; errors of the disk.
    fn write_at(&self, bytes: &[u8], at: u64) -> io::Result<usize>;

    /// Returns the length in bytes.
    ///
    /// # Errors
    /// Errors of the disk.
    fn length(&self) -> io::Result<u64>;

    /// Reserves room for this many bytes. A shorter file becomes that long, with zeros behind its bytes; a longer one
    /// stays as it is.
    ///
    /// # Errors
    /// [`io::ErrorKind::StorageFull`]; errors of the disk.
    fn reserve(&self, length: u64) -> io::Result<()>;

    /// Cuts the file to this length. One that is not longer stays as it is.
    ///
    /// # Errors
    /// Errors of the disk.
    fn cut(&self, length: u64) -> io::Result<()>;

    /// Makes the bytes and the length durable.
    ///
    /// # Errors
    /// Errors of the disk. See the contract of this crate.
    fn sync(&self) -> io::Result<()>;

    /// Reads until `bytes` is full.
    ///
    /// # Errors
    /// [`io::ErrorKind::UnexpectedEof`] at the end of the file; errors of the disk.
    fn read_all_at(&self, mut bytes: &mut [u8], mut at: u64) -> io::Result<()> {
        while !bytes.is_empty() {
            match self.read_at(bytes, at) {
                Ok(0) => return Err(io::ErrorKind::UnexpectedEof.into()),
                Ok(count) => {
                    bytes = bytes.get_mut(count..).unwrap_or_default();
                    at += count as u64;
                }
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }

    /// Writes all bytes.
    ///
    /// # Errors
    /// [`io::ErrorKind::WriteZero`] if the disk takes no more without an error; errors of the disk.
    fn write_all_at(&self, mut bytes: &[u8], mut at: u64) -> io::Result<()> {
        while !bytes.is_empty() {
            match self.write_at(bytes, at) {
                Ok(0) => return Err(io::ErrorKind::WriteZero.into()),
                Ok(count) => {
                    bytes = bytes.get(count..).unwrap_or_default();
                    at += count as u64;
                }
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }
}

/// Returns the folder and the name of a path.
fn split(path: &str) -> (&str, &str) {
    path.rsplit_once('/').unwrap_or(("", path))
}
