//! Segments: files of a fixed size that hold the blocks.
//!
//! **Invariant:** a segment has its name when it has its size on the disk, so one with a name and another size is damaged.

use crate::block::BLOCK;
use crate::error::{LogError, LogResult};
use disk::{Disk, DiskFile};
use preempt::plants::is_planted;
use std::collections::BTreeMap;
use std::fmt;
use std::io;
use std::sync::Arc;

/// Folder of the segments.
pub(crate) const FOLDER: &str = "log";
/// Name of a segment that is being made.
const UNFINISHED: &str = "unfinished";

/// Segments of a log.
#[derive(Debug)]
pub(crate) struct Segments {
    disk: Arc<dyn Disk>,
    /// Size of a segment.
    bytes: u64,
    /// By their numbers: place in the log, divided by the size.
    all: BTreeMap<u64, Arc<dyn DiskFile>>,
}

/// Path of a segment: its number in hexadecimal digits.
pub(crate) struct SegmentPath(pub(crate) u64);

impl SegmentPath {
    fn name(&self) -> String {
        format!("{:016x}", self.0)
    }
}

impl fmt::Display for SegmentPath {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{FOLDER}/{}", self.name())
    }
}

fn numbered(name: &str) -> Option<u64> {
    let is_plain = name.len() == 16 && name.bytes().all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f'));
    if is_plain { u64::from_str_radix(name, 16).ok() } else { None }
}

fn unreadable(file: impl fmt::Display) -> impl FnOnce(io::Error) -> LogError {
    move |error| match error.kind() {
        io::ErrorKind::StorageFull => LogError::Full,
        _ => LogError::Unreadable { file: file.to_string(), error },
    }
}

impl Segments {
    /// Opens the segments that are there, and makes the folder if there is none.
    pub(crate) fn open(disk: &Arc<dyn Disk>, bytes: u64) -> LogResult<Segments> {
        let names = match disk.names(FOLDER) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                disk.create_folder(FOLDER).map_err(unreadable(FOLDER))?;
                Vec::new()
            }
            names => names.map_err(unreadable(FOLDER))?,
        };
        // Entries that a crash of this process has left need not be durable yet.
        disk.sync_folder("").map_err(unreadable("."))?;
        disk.sync_folder(FOLDER).map_err(unreadable(FOLDER))?;
        let mut segments = Segments { disk: Arc::clone(disk), bytes, all: BTreeMap::new() };
        for name in names {
            let path = format!("{FOLDER}/{name}");
            if name == UNFINISHED {
                disk.remove(&path).map_err(unreadable(&path))?;
                continue;
            }
            let Some(number) = numbered(&name) else { continue };
            let file = disk.open(&path).map_err(unreadable(&path))?;
            let length = file.length().map_err(unreadable(&path))?;
            if length != bytes {
                let what = "the segment has another size";
                return Err(LogError::Damaged { file: path, offset: length.min(bytes), what });
            }
            segments.all.insert(number, file);
        }
        Ok(segments)
    }

    /// Returns the file of the segment that has the block at a place, and the offset in it.
    pub(crate) fn place(&self, lsn: u64) -> Option<(&Arc<dyn DiskFile>, u64)> {
        self.all.get(&(lsn / self.bytes)).map(|file| (file, lsn % self.bytes))
    }

    /// Returns the path of the segment that has a place, and the offset in it.
    pub(crate) fn path(&self, lsn: u64) -> (String, u64) {
        (SegmentPath(lsn / self.bytes).to_string(), lsn % self.bytes)
    }

    /// Returns the damage at a place.
    pub(crate) fn damaged(&self, lsn: u64, what: &'static str) -> LogError {
        let (file, offset) = self.path(lsn);
        LogError::Damaged { file, offset, what }
    }

    /// Returns the number of bytes from a place to the end of its segment.
    pub(crate) fn left(&self, lsn: u64) -> u64 {
        self.bytes - lsn % self.bytes
    }

    /// Returns the first place behind `lsn` that has no segment.
    pub(crate) fn end_from(&self, lsn: u64) -> u64 {
        let mut number = lsn / self.bytes;
        while self.all.contains_key(&number) {
            number += 1;
        }
        number * self.bytes
    }

    /// Returns true if there is no segment at all.
    pub(crate) fn is_empty(&self) -> bool {
        self.all.is_empty()
    }

    /// Makes segments until the log has room up to `end`.
    pub(crate) fn make_room(&mut self, from: u64, end: u64) -> LogResult<()> {
        let mut number = self.end_from(from) / self.bytes;
        while number * self.bytes < end {
            self.make(number)?;
            number += 1;
        }
        Ok(())
    }

    fn make(&mut self, number: u64) -> LogResult<()> {
        let path = format!("{FOLDER}/{UNFINISHED}");
        let made = self.disk.create(&path).and_then(|file| {
            file.reserve(self.bytes)?;
            file.sync()?;
            Ok(file)
        });
        let file = match made {
            Ok(file) => file,
            Err(error) => {
                // What is left of it would keep the next one from being made, and the room from others.
                let _ = self.disk.remove(&path);
                return Err(unreadable(&path)(error));
            }
        };
        let name = SegmentPath(number).name();
        self.disk.rename(FOLDER, UNFINISHED, &name).map_err(unreadable(&path))?;
        // From now on the segment is there. A log that cannot say so may not go on.
        if !is_planted("folder_sync_skipped") {
            self.sync_names()?;
        }
        self.all.insert(number, file);
        Ok(())
    }

    /// Gives segments that end before `lsn` the numbers behind the last one, or removes them if so many are in reserve
    /// behind `end`.
    pub(crate) fn recycle(&mut self, before: u64, end: u64, reserve: u64) -> LogResult<()> {
        let mut has_changed = false;
        while let Some((&number, _)) = self.all.first_key_value()
            && (number + 1) * self.bytes <= before
        {
            let next = self.end_from(end) / self.bytes;
            let path = SegmentPath(number);
            if next.saturating_sub(end.div_ceil(self.bytes)) < reserve {
                let to = SegmentPath(next).name();
                self.disk.rename(FOLDER, &path.name(), &to).map_err(unreadable(&path))?;
                if let Some(file) = self.all.remove(&number) {
                    self.all.insert(next, file);
                }
            } else {
                self.disk.remove(&path.to_string()).map_err(unreadable(&path))?;
                self.all.remove(&number);
            }
            has_changed = true;
        }
        if has_changed { self.sync_names() } else { Ok(()) }
    }

    /// Makes the names of segments durable that have changed.
    fn sync_names(&self) -> LogResult<()> {
        self.disk.sync_folder(FOLDER).map_err(|error| LogError::Broken { file: FOLDER.to_owned(), error })
    }

    /// Writes whole blocks that begin at a place, and makes them durable. Passes each error to `error`.
    pub(crate) fn write(
        &self,
        mut blocks: &[u8],
        mut lsn: u64,
        error: impl Fn(String, io::Error) -> LogError,
    ) -> LogResult<()> {
        debug_assert!(blocks.len().is_multiple_of(BLOCK), "blocks are written as a whole");
        let mut touched = Vec::new();
        while !blocks.is_empty() {
            let (path, offset) = self.path(lsn);
            let Some((file, _)) = self.place(lsn) else { return Err(error(path, io::ErrorKind::NotFound.into())) };
            let count = usize::try_from(self.left(lsn)).unwrap_or(usize::MAX).min(blocks.len());
            let (now, later) = blocks.split_at(count);
            file.write_all_at(now, offset).map_err(|failed| error(path.clone(), failed))?;
            touched.push((file, path));
            lsn += count as u64;
            blocks = later;
        }
        if is_planted("log_sync_skipped") {
            return Ok(());
        }
        touched.into_iter().try_for_each(|(file, path)| file.sync().map_err(|failed| error(path, failed)))
    }
}
