//! Disk in memory that crashes and fails when it is told to.
//!
//! **Invariant:** a change is pending from the operation that makes it until a sync has returned. A crash keeps a part of
//! the pending changes ([`Survival`]) and nothing else of what was not synced.

mod content;
mod entries;
pub(crate) mod explore;
pub(crate) mod survival;
#[cfg(test)]
mod tests;

use crate::{Disk, DiskFile, split};
use content::Content;
use entries::{Entries, Entry};
use locked::Locked;
use rustix::io::Errno;
use std::collections::BTreeMap;
use std::io;
use std::sync::{Arc, Mutex};
use survival::{Chooser, Survival};

/// Fault of one operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DiskFault {
    /// The disk crashes: the operation may have taken effect, and all later ones fail.
    Crash,
    /// `EIO`. The sync of a file loses what it should have made durable; any other operation has no effect.
    Io,
    /// `ENOSPC`, likewise.
    Full,
    /// A read or a write of two bytes or more does half of them. Other operations are not affected.
    Short,
}

impl DiskFault {
    fn error(self) -> io::Error {
        match self {
            // There is nobody left to see an error of a machine without power.
            DiskFault::Crash | DiskFault::Io => Errno::IO.into(),
            DiskFault::Full => Errno::NOSPC.into(),
            DiskFault::Short => io::ErrorKind::Interrupted.into(),
        }
    }
}

/// Disk in memory. A clone is the same disk.
#[derive(Clone, Debug, Default)]
pub struct FakeDisk(Arc<Mutex<FakeState>>);

#[derive(Clone, Debug)]
struct FakeState {
    /// Folders by their paths; that of the root is empty.
    folders: BTreeMap<String, Entries>,
    /// Files by their numbers, those that have no name any more included.
    files: Vec<Content>,
    /// Faults by the numbers of operations.
    faults: BTreeMap<u64, DiskFault>,
    /// Number of bytes that all files together may have.
    room: Option<u64>,
    operations: u64,
    /// Description of the last operation.
    last: String,
    /// File that was written when the disk crashed.
    in_flight: Option<usize>,
    is_crashed: bool,
}

impl Default for FakeState {
    fn default() -> FakeState {
        FakeState {
            folders: BTreeMap::from([(String::new(), Entries::default())]),
            files: Vec::new(),
            faults: BTreeMap::new(),
            room: None,
            operations: 0,
            last: String::new(),
            in_flight: None,
            is_crashed: false,
        }
    }
}

impl FakeDisk {
    /// Creates an empty disk.
    pub fn new() -> FakeDisk {
        FakeDisk::default()
    }

    /// Lets the operation of this number fail, counted from 0.
    pub fn fail(&self, operation: u64, fault: DiskFault) {
        self.0.locked().faults.insert(operation, fault);
    }

    /// Limits the bytes of all files together. `None` is no limit.
    pub fn set_room(&self, bytes: Option<u64>) {
        self.0.locked().room = bytes;
    }

    /// Returns the number of operations so far.
    pub fn operations(&self) -> u64 {
        self.0.locked().operations
    }

    /// Returns a description of the last operation.
    pub fn last_operation(&self) -> String {
        self.0.locked().last.clone()
    }

    /// Returns true if the disk has crashed.
    pub fn is_crashed(&self) -> bool {
        self.0.locked().is_crashed
    }

    /// Returns the number of sectors of the write at which the disk has crashed; 0 if it was no write.
    pub fn sectors_in_flight(&self) -> usize {
        let state = self.0.locked();
        state.in_flight.and_then(|file| state.files.get(file)).map_or(0, Content::last_sectors)
    }

    /// Returns the disk that a machine finds which starts after a crash now. Everything on it is durable. This disk stays
    /// as it is, so that several fates of the same crash can be looked at.
    pub fn after_crash(&self, survival: Survival) -> FakeDisk {
        let state = self.0.locked();
        let mut chooser = Chooser::new(survival);
        let mut left = FakeState { room: state.room, ..FakeState::default() };
        left.files = (0..)
            .zip(&state.files)
            .map(|(number, content)| content.after_crash(&mut chooser, state.in_flight == Some(number)))
            .collect();
        left.folders =
            state.folders.iter().map(|(path, entries)| (path.clone(), entries.after_crash(&mut chooser))).collect();
        // A folder whose entry is lost is lost with all that is in it. Parents come before their folders.
        for path in state.folders.keys().filter(|path| !path.is_empty()) {
            let (parent, name) = split(path);
            let is_there = |entries: &Entries| entries.now.get(name) == Some(&Entry::Folder);
            if !left.folders.get(parent).is_some_and(is_there) {
                left.folders.remove(path);
            }
        }
        FakeDisk(Arc::new(Mutex::new(left)))
    }

    /// Flips one bit of a file, as a disk that decays does.
    ///
    /// # Errors
    /// [`io::ErrorKind::NotFound`]
    pub fn flip(&self, path: &str, bit: usize) -> io::Result<()> {
        let mut state = self.0.locked();
        let file = state.file_at(path)?;
        state.file(file)?.flip(bit);
        Ok(())
    }
}

impl FakeState {
    /// Counts an operation. Returns its fault, if it is one that takes effect nevertheless: a crash, or a short one.
    fn begin(&mut self, what: &str, path: &str) -> io::Result<Option<DiskFault>> {
        if self.is_crashed {
            return Err(DiskFault::Crash.error());
        }
        let fault = self.faults.get(&self.operations).copied();
        self.last = format!("{what} {path}");
        self.operations += 1;
        match fault {
            Some(DiskFault::Crash) => {
                self.is_crashed = true;
                Ok(fault)
            }
            Some(DiskFault::Short) | None => Ok(fault),
            Some(fault @ (DiskFault::Io | DiskFault::Full)) => Err(fault.error()),
        }
    }

    /// Ends an operation that has taken effect.
    fn end<T>(&self, done: T) -> io::Result<T> {
        if self.is_crashed { Err(DiskFault::Crash.error()) } else { Ok(done) }
    }

    fn folder(&mut self, path: &str) -> io::Result<&mut Entries> {
        self.folders.get_mut(path).ok_or_else(|| io::ErrorKind::NotFound.into())
    }

    fn file(&mut self, number: usize) -> io::Result<&mut Content> {
        self.files.get_mut(number).ok_or_else(|| io::ErrorKind::NotFound.into())
    }

    fn file_at(&mut self, path: &str) -> io::Result<usize> {
        let (folder, name) = split(path);
        match self.folder(folder)?.now.get(name) {
            Some(Entry::File(number)) => Ok(*number),
            Some(Entry::Folder) => Err(io::ErrorKind::IsADirectory.into()),
            None => Err(io::ErrorKind::NotFound.into()),
        }
    }

    /// Checks that there is room for a file to become this long.
    fn check_room(&self, number: usize, length: usize) -> io::Result<()> {
        let Some(room) = self.room else { return Ok(()) };
        let is_named = |number: usize| {
            self.folders.values().any(|entries| entries.now.values().any(|entry| *entry == Entry::File(number)))
        };
        let others = (0..).zip(&self.files).filter(|(other, _)| *other != number && is_named(*other));
        let used: usize = others.map(|(_, content)| content.length()).sum();
        if room < (used + length) as u64 { Err(DiskFault::Full.error()) } else { Ok(()) }
    }
}

impl Disk for FakeDisk {
    fn create(&self, path: &str) -> io::Result<Arc<dyn DiskFile>> {
        let mut state = self.0.locked();
        state.begin("create", path)?;
        let (folder, name) = split(path);
        let number = state.files.len();
        let entries = state.folder(folder)?;
        if entries.now.contains_key(name) {
            return Err(io::ErrorKind::AlreadyExists.into());
        }
        entries.put(name, Entry::File(number));
        state.files.push(Content::default());
        state.end(Arc::new(FakeFile { disk: self.clone(), number, path: path.to_owned() }))
    }

    fn open(&self, path: &str) -> io::Result<Arc<dyn DiskFile>> {
        let mut state = self.0.locked();
        state.begin("open", path)?;
        let number = state.file_at(path)?;
        state.end(Arc::new(FakeFile { disk: self.clone(), number, path: path.to_owned() }))
    }

    fn create_folder(&self, path: &str) -> io::Result<()> {
        let mut state = self.0.locked();
        state.begin("create the folder", path)?;
        let (parent, name) = split(path);
        let entries = state.folder(parent)?;
        if entries.now.contains_key(name) {
            return Err(io::ErrorKind::AlreadyExists.into());
        }
        entries.put(name, Entry::Folder);
        state.folders.insert(path.to_owned(), Entries::default());
        state.end(())
    }

    fn names(&self, folder: &str) -> io::Result<Vec<String>> {
        let mut state = self.0.locked();
        state.begin("list", folder)?;
        let names = state.folder(folder)?.now.keys().cloned().collect();
        state.end(names)
    }

    fn rename(&self, folder: &str, from: &str, to: &str) -> io::Result<()> {
        let mut state = self.0.locked();
        state.begin("rename", &format!("{from} in \"{folder}\" to {to}"))?;
        let entries = state.folder(folder)?;
        let Some(entry) = entries.now.get(from).copied() else { return Err(io::ErrorKind::NotFound.into()) };
        if entry == Entry::Folder || entries.now.get(to) == Some(&Entry::Folder) {
            return Err(io::ErrorKind::IsADirectory.into());
        }
        // Two names of one file: POSIX does nothing.
        if from != to {
            entries.rename(from, to, entry);
        }
        state.end(())
    }

    fn remove(&self, path: &str) -> io::Result<()> {
        let mut state = self.0.locked();
        state.begin("remove", path)?;
        state.file_at(path)?;
        let (folder, name) = split(path);
        state.folder(folder)?.remove(name);
        state.end(())
    }

    fn sync_folder(&self, folder: &str) -> io::Result<()> {
        let mut state = self.0.locked();
        state.begin("sync the folder", folder)?;
        let is_crashed = state.is_crashed;
        let entries = state.folder(folder)?;
        if !is_crashed {
            entries.sync();
        }
        state.end(())
    }
}

/// File of a [`FakeDisk`].
#[derive(Debug)]
struct FakeFile {
    disk: FakeDisk,
    number: usize,
    path: String,
}

/// Returns the number of bytes that an operation does.
fn part(fault: Option<DiskFault>, length: usize) -> usize {
    if fault == Some(DiskFault::Short) && 1 < length { length / 2 } else { length }
}

fn place(at: u64) -> io::Result<usize> {
    usize::try_from(at).map_err(|_| io::ErrorKind::FileTooLarge.into())
}

impl DiskFile for FakeFile {
    fn read_at(&self, bytes: &mut [u8], at: u64) -> io::Result<usize> {
        let mut state = self.disk.0.locked();
        let fault = state.begin("read", &self.path)?;
        let length = part(fault, bytes.len());
        let to = bytes.get_mut(..length).unwrap_or_default();
        let count = state.file(self.number)?.read(to, place(at)?);
        state.end(count)
    }

    fn write_at(&self, bytes: &[u8], at: u64) -> io::Result<usize> {
        let mut state = self.disk.0.locked();
        let what = format!("write {} bytes at {at} to", bytes.len());
        let fault = state.begin(&what, &self.path)?;
        let (at, count) = (place(at)?, part(fault, bytes.len()));
        let end = at.checked_add(count).ok_or(io::ErrorKind::FileTooLarge)?;
        let longer = end.max(state.file(self.number)?.length());
        state.check_room(self.number, longer)?;
        if 0 < count {
            state.file(self.number)?.write(bytes.get(..count).unwrap_or_default(), at);
        }
        if state.is_crashed {
            state.in_flight = Some(self.number);
        }
        state.end(count)
    }

    fn length(&self) -> io::Result<u64> {
        let mut state = self.disk.0.locked();
        state.begin("measure", &self.path)?;
        let length = state.file(self.number)?.length();
        state.end(length as u64)
    }

    fn reserve(&self, length: u64) -> io::Result<()> {
        let mut state = self.disk.0.locked();
        state.begin("reserve room for", &self.path)?;
        let length = place(length)?;
        if state.file(self.number)?.length() < length {
            state.check_room(self.number, length)?;
            state.file(self.number)?.set_length(length);
        }
        state.end(())
    }

    fn cut(&self, length: u64) -> io::Result<()> {
        let mut state = self.disk.0.locked();
        state.begin("cut", &self.path)?;
        let length = place(length)?;
        let content = state.file(self.number)?;
        if length < content.length() {
            content.set_length(length);
        }
        state.end(())
    }

    fn sync(&self) -> io::Result<()> {
        let mut state = self.disk.0.locked();
        let begun = state.begin("sync", &self.path);
        let is_crashed = state.is_crashed;
        let content = state.file(self.number)?;
        match begun {
            Ok(_) if is_crashed => {}
            Ok(_) => content.sync(),
            Err(error) => {
                if !is_crashed {
                    content.lose();
                }
                return Err(error);
            }
        }
        state.end(())
    }
}
