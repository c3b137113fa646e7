//! Write-ahead log on a disk.
//!
//! The log is a sequence of blocks, each of the size that a disk writes as a whole. A block has its place in the log, a
//! checksum, and the place up to which the log was known to be durable when the block was written. Records are cut into
//! the payload of blocks. Blocks are in segments, files of a fixed size, which are reserved in advance and used again.
//!
//! **Invariant:** a flush begins with a block of its own and ends with whole records, so what is durable is never
//! written again.
//!
//! Because a disk writes a block as a whole, each block that recovery finds is one of these:
//!
//! - *live*: its checksum holds, and it is in its place;
//! - *old*: its checksum holds, and it had its place in the segment before that was used again;
//! - *unwritten*: zeros;
//! - anything else is damage, whatever has happened to the machine, and refused with file and offset.
//!
//! The log ends before the first block that is not live. If a later block says that the log was durable up to a place behind
//! that end, then a durable block is missing: that is damage, too.
//!
//! # Layers
//!
//! Bottom up; a module uses its own layer and those above it in this list.
//!
//! - errors: `error`
//! - formats: `block`, `record`
//! - files: `segments`
//! - reading the log to its end: `recovery`
//! - writing: `writer`

mod block;
mod error;
mod record;
mod recovery;
mod segments;
mod writer;

pub use error::{LogError, LogResult};
pub use record::{LENGTH_MAX, LogRecord};
pub use writer::{LogOptions, LogWriter};

use std::fmt;

/// Log sequence number: a place in the log, counted in bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Lsn(pub u64);

impl fmt::Display for Lsn {
    /// Writes it as PostgreSQL does: two halves in hexadecimal digits.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:X}/{:08X}", self.0 >> 32, self.0 & 0xFFFF_FFFF)
    }
}
