//! Format of a record: 12 bytes of header, then its bytes. Numbers are little-endian.
//!
//! | bytes | content |
//! |---|---|
//! | 0 to 4 | number of bytes behind the header |
//! | 4 | version of the format |
//! | 5 | kind, which the writer chooses |
//! | 6 to 8 | 0 |
//! | 8 to 12 | CRC-32C of the header before and of the bytes |

use crate::Lsn;

pub(crate) const HEADER: usize = 12;
const VERSION: u8 = 1;

/// Greatest length of a record in bytes. Whoever has more to write cuts it into chunks.
pub const LENGTH_MAX: usize = 16 << 20;

/// Returns the header of a record.
pub(crate) fn header(kind: u8, bytes: &[u8]) -> [u8; HEADER] {
    let mut header = [0; HEADER];
    let (before, sum) = header.split_at_mut(8);
    let (length, rest) = before.split_at_mut(4);
    length.copy_from_slice(&(bytes.len() as u32).to_le_bytes());
    rest.copy_from_slice(&[VERSION, kind, 0, 0]);
    sum.copy_from_slice(&crc32c::crc32c_append(crc32c::crc32c(before), bytes).to_le_bytes());
    header
}

/// Record that comes together from payloads of blocks.
#[derive(Debug, Default)]
pub(crate) struct Assembly {
    bytes: Vec<u8>,
    /// Place at which the record begins.
    begin: Lsn,
}

/// Record of the log.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LogRecord<'a> {
    /// Place at which it begins.
    pub begin: Lsn,
    /// Kind, which the writer has chosen.
    pub kind: u8,
    /// Content.
    pub bytes: &'a [u8],
}

impl Assembly {
    /// Returns true between two records.
    pub(crate) fn is_empty(&self) -> bool {
        self.bytes.is_empty()
    }

    /// Place at which the record begins that is not complete.
    pub(crate) fn begin(&self) -> Lsn {
        self.begin
    }

    /// Takes bytes of a payload that begins at `lsn`, up to the end of the record. Returns the number of bytes that were
    /// taken, and true if the record is complete: [`Assembly::take`] it then.
    ///
    /// # Errors
    /// The damage.
    pub(crate) fn add(&mut self, payload: &[u8], lsn: u64) -> Result<(usize, bool), &'static str> {
        if self.bytes.is_empty() {
            self.begin = Lsn(lsn);
        }
        let mut taken = 0;
        let mut take = |bytes: &mut Vec<u8>, until: usize| {
            let count = until.saturating_sub(bytes.len()).min(payload.len() - taken);
            bytes.extend_from_slice(payload.get(taken..taken + count).unwrap_or_default());
            taken += count;
        };
        take(&mut self.bytes, HEADER);
        let Some(header) = self.bytes.first_chunk::<HEADER>() else { return Ok((taken, false)) };
        let length = u32::from_le_bytes([header[0], header[1], header[2], header[3]]) as usize;
        if LENGTH_MAX < length {
            return Err("a record is longer than any");
        }
        if (header[4], header[6], header[7]) != (VERSION, 0, 0) {
            return Err("a record has another format");
        }
        take(&mut self.bytes, HEADER + length);
        Ok((taken, self.bytes.len() == HEADER + length))
    }

    /// Checks a complete record.
    ///
    /// # Errors
    /// The damage.
    pub(crate) fn complete(&self) -> Result<LogRecord<'_>, &'static str> {
        let (head, bytes) = self.bytes.split_at_checked(HEADER).ok_or("a record is shorter than any")?;
        let kind = head.get(5).copied().unwrap_or_default();
        if head != header(kind, bytes) {
            return Err("the checksum of a record is wrong");
        }
        Ok(LogRecord { begin: self.begin, kind, bytes })
    }

    /// Begins the next record.
    pub(crate) fn clear(&mut self) {
        self.bytes.clear();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Goal: records have checksums of their own: one that was put together wrongly is none.
    #[test]
    fn a_changed_record_is_damage() {
        let bytes = [&header(3, b"abc")[..], b"abc"].concat();
        for at in 0..bytes.len() {
            let mut changed = bytes.clone();
            changed[at] ^= 1;
            let mut assembly = Assembly::default();
            let is_whole = matches!(assembly.add(&changed, 0), Ok((_, true)));
            assert!(!is_whole || assembly.complete().is_err(), "byte {at}");
        }
    }
}
