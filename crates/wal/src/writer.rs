//! Writer of the log: records are added to blocks in memory, and a flush makes them durable.

use crate::Lsn;
use crate::block::{self, BLOCK, Block, BlockHeader, HEADER, ROOM};
use crate::error::{LogError, LogResult};
use crate::record::{self, LENGTH_MAX, LogRecord};
use crate::recovery;
use crate::segments::Segments;
use disk::Disk;
use std::io;
use std::sync::Arc;

/// Settings of a log. They must not change while it is there.
#[derive(Clone, Copy, Debug)]
pub struct LogOptions {
    /// Size of a segment in bytes: a multiple of [`disk::SECTOR`].
    pub segment_bytes: u64,
    /// Number of the database: blocks of another one are damage.
    pub database: u32,
    /// Number of segments that are kept in reserve when old ones are given up.
    pub reserve: u64,
}

impl Default for LogOptions {
    fn default() -> LogOptions {
        LogOptions { segment_bytes: 16 << 20, database: 0, reserve: 4 }
    }
}

/// Writer of a log.
#[derive(Debug)]
pub struct LogWriter {
    options: LogOptions,
    segments: Segments,
    /// Blocks that are not written yet. All but the last one are full.
    blocks: Vec<Block>,
    /// Length of the payload of the last one.
    used: usize,
    /// Place of the first of them, up to which the log is durable.
    synced: u64,
    is_broken: bool,
}

impl LogWriter {
    /// Opens a log, or begins one, and passes each record from `start` on to `each`. `start` is the begin of a record
    /// or the end of the log. Afterwards all of them are durable, and the log goes on behind them.
    ///
    /// # Errors
    /// [`LogError::Damaged`], [`LogError::Unreadable`], [`LogError::Full`]; errors of `each`.
    ///
    /// # Panics
    /// If the size of a segment is no multiple of [`disk::SECTOR`], or 0.
    pub fn open(
        disk: &Arc<dyn Disk>,
        options: LogOptions,
        start: Lsn,
        each: &mut dyn FnMut(LogRecord<'_>) -> LogResult<()>,
    ) -> LogResult<LogWriter> {
        let is_size = 0 < options.segment_bytes && options.segment_bytes.is_multiple_of(BLOCK as u64);
        assert!(is_size, "a segment has whole blocks");
        let segments = Segments::open(disk, options.segment_bytes)?;
        let end = recovery::recover(&segments, options.database, start, each)?;
        Ok(LogWriter { options, segments, blocks: Vec::new(), used: 0, synced: end, is_broken: false })
    }

    /// Returns the place up to which the log is durable.
    pub fn synced(&self) -> Lsn {
        Lsn(self.synced)
    }

    /// Returns the place at which the next record begins.
    pub fn end(&self) -> Lsn {
        match self.blocks.len().checked_sub(1) {
            Some(full) if self.used < ROOM => Lsn(self.synced + (full * BLOCK + HEADER + self.used) as u64),
            Some(_) | None => Lsn(self.synced + (self.blocks.len() * BLOCK + HEADER) as u64),
        }
    }

    /// Reserves room on the disk for records of so many bytes together, so that [`LogWriter::append`] does not fail for want
    /// of it.
    ///
    /// # Errors
    /// [`LogError::Full`], [`LogError::Unreadable`], [`LogError::Broken`]
    pub fn reserve(&mut self, records: usize, bytes: usize) -> LogResult<()> {
        self.check()?;
        let blocks = (bytes + records * record::HEADER).div_ceil(ROOM) + self.blocks.len() + 1;
        let made = self.segments.make_room(self.synced, self.synced + (blocks * BLOCK) as u64);
        self.is_broken |= matches!(made, Err(LogError::Broken { .. }));
        made
    }

    /// Adds a record. Returns the place behind it: it is durable when [`LogWriter::synced`] has reached that.
    ///
    /// # Errors
    /// [`LogError::TooLong`]; those of [`LogWriter::reserve`], unless room was reserved.
    pub fn append(&mut self, kind: u8, bytes: &[u8]) -> LogResult<Lsn> {
        if LENGTH_MAX < bytes.len() {
            return Err(LogError::TooLong(bytes.len()));
        }
        self.reserve(1, bytes.len())?;
        let header = record::header(kind, bytes);
        self.add(&header);
        self.add(bytes);
        let last = self.blocks.len().saturating_sub(1) * BLOCK;
        Ok(Lsn(self.synced + (last + HEADER + self.used) as u64))
    }

    fn add(&mut self, mut bytes: &[u8]) {
        while !bytes.is_empty() {
            if self.blocks.is_empty() || self.used == ROOM {
                self.blocks.push([0; BLOCK]);
                self.used = 0;
            }
            let (now, later) = bytes.split_at(bytes.len().min(ROOM - self.used));
            let at = HEADER + self.used;
            if let Some(place) = self.blocks.last_mut().and_then(|block| block.get_mut(at..at + now.len())) {
                place.copy_from_slice(now);
            }
            self.used += now.len();
            bytes = later;
        }
    }

    /// Makes all records durable that were added. Returns the place up to which the log is durable now.
    ///
    /// # Errors
    /// [`LogError::Broken`]
    pub fn flush(&mut self) -> LogResult<Lsn> {
        self.check()?;
        let (count, database, synced) = (self.blocks.len(), self.options.database, self.synced);
        for (at, block) in self.blocks.iter_mut().enumerate() {
            let used = if at + 1 == count { self.used } else { ROOM };
            block::seal(block, BlockHeader { used, lsn: synced + (at * BLOCK) as u64, synced, database });
        }
        let written =
            self.segments.write(self.blocks.as_flattened(), synced, |file, error| LogError::Broken { file, error });
        if written.is_err() {
            self.is_broken = true;
        }
        written?;
        self.blocks.clear();
        self.used = 0;
        self.synced += (count * BLOCK) as u64;
        Ok(self.synced())
    }

    /// Gives up what is before a place, which recovery will not need: the segments are used again.
    ///
    /// # Errors
    /// [`LogError::Broken`], [`LogError::Unreadable`]
    pub fn forget(&mut self, before: Lsn) -> LogResult<()> {
        self.check()?;
        let forgotten = self.segments.recycle(before.0.min(self.synced), self.synced, self.options.reserve);
        self.is_broken |= matches!(forgotten, Err(LogError::Broken { .. }));
        forgotten
    }

    fn check(&self) -> LogResult<()> {
        if !self.is_broken {
            return Ok(());
        }
        let error = io::Error::other("an earlier write or sync has failed");
        Err(LogError::Broken { file: self.segments.path(self.synced).0, error })
    }
}
