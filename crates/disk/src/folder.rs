//! Directory of the operating system.

use crate::{Disk, DiskFile};
use rustix::fs::{FallocateFlags, fallocate};
use std::fs::{self, File, OpenOptions};
use std::io;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// Directory of the operating system, as a [`Disk`]. Nothing is mapped into memory: a page fault would be a read of the
/// disk on whichever thread meets it.
#[derive(Debug)]
pub struct FolderDisk {
    root: PathBuf,
}

impl FolderDisk {
    /// Returns the disk of a directory that exists.
    pub fn new(root: impl Into<PathBuf>) -> FolderDisk {
        FolderDisk { root: root.into() }
    }

    /// Returns the directory.
    pub fn root(&self) -> &Path {
        &self.root
    }

    fn opened(&self, path: &str, options: &OpenOptions) -> io::Result<Arc<dyn DiskFile>> {
        Ok(Arc::new(FolderFile(options.open(self.root.join(path))?)))
    }
}

impl Disk for FolderDisk {
    fn create(&self, path: &str) -> io::Result<Arc<dyn DiskFile>> {
        self.opened(path, OpenOptions::new().read(true).write(true).create_new(true))
    }

    fn open(&self, path: &str) -> io::Result<Arc<dyn DiskFile>> {
        self.opened(path, OpenOptions::new().read(true).write(true))
    }

    fn create_folder(&self, path: &str) -> io::Result<()> {
        fs::create_dir(self.root.join(path))
    }

    fn names(&self, folder: &str) -> io::Result<Vec<String>> {
        let mut names = Vec::new();
        for entry in fs::read_dir(self.root.join(folder))? {
            // A name that is no text is not one of ours.
            names.extend(entry?.file_name().into_string());
        }
        names.sort();
        Ok(names)
    }

    fn rename(&self, folder: &str, from: &str, to: &str) -> io::Result<()> {
        let folder = self.root.join(folder);
        fs::rename(folder.join(from), folder.join(to))
    }

    fn remove(&self, path: &str) -> io::Result<()> {
        fs::remove_file(self.root.join(path))
    }

    fn sync_folder(&self, folder: &str) -> io::Result<()> {
        File::open(self.root.join(folder))?.sync_all()
    }
}

/// File of the operating system.
#[derive(Debug)]
struct FolderFile(File);

impl DiskFile for FolderFile {
    fn read_at(&self, bytes: &mut [u8], at: u64) -> io::Result<usize> {
        self.0.read_at(bytes, at)
    }

    fn write_at(&self, bytes: &[u8], at: u64) -> io::Result<usize> {
        self.0.write_at(bytes, at)
    }

    fn length(&self) -> io::Result<u64> {
        Ok(self.0.metadata()?.len())
    }

    fn reserve(&self, length: u64) -> io::Result<()> {
        // The call refuses a length of 0.
        if 0 < length {
            fallocate(&self.0, FallocateFlags::empty(), 0, length)?;
        }
        Ok(())
    }

    fn cut(&self, length: u64) -> io::Result<()> {
        if length < self.length()? { self.0.set_len(length) } else { Ok(()) }
    }

    fn sync(&self) -> io::Result<()> {
        // fdatasync: the length belongs to what it makes durable.
        self.0.sync_data()
    }
}
