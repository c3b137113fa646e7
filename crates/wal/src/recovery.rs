//! Recovery: reads the log to its end, and prepares it to go on.
//!
//! **Invariant:** when recovery has ended, every record that it has passed on is durable, and behind the last one there is no
//! live block. It may be killed at any moment and run again.
//!
//! Bytes that can be read need not be durable: the process may have been killed before a sync, or a sync
//! may have failed, after which Linux counts pages as clean that are not on the disk. So the end of the log, from the last
//! place that a block calls durable, is written again and synced.

use crate::Lsn;
use crate::block::{self, BLOCK, Block, BlockHeader, BlockState, HEADER};
use crate::error::{LogError, LogResult};
use crate::record::{Assembly, LogRecord};
use crate::segments::Segments;
use preempt::plants::is_planted;
use std::io;

/// Blocks that are read at once.
const BLOCKS_READ: usize = 128;

/// Reader of blocks in their order.
struct BlockReader<'s> {
    segments: &'s Segments,
    /// Place behind the last segment.
    end: u64,
    read: Vec<u8>,
    /// Place of the first block of `read`.
    begin: u64,
}

impl<'s> BlockReader<'s> {
    fn new(segments: &'s Segments, lsn: u64) -> BlockReader<'s> {
        BlockReader { segments, end: segments.end_from(lsn), read: Vec::new(), begin: lsn }
    }

    /// Returns the block at a place; `None` behind the last segment. Places must not decrease.
    fn block(&mut self, lsn: u64) -> LogResult<Option<Block>> {
        if self.end <= lsn {
            return Ok(None);
        }
        if lsn < self.begin || self.begin + self.read.len() as u64 <= lsn {
            let Some((file, offset)) = self.segments.place(lsn) else { return Ok(None) };
            let count = usize::try_from(self.segments.left(lsn)).unwrap_or(usize::MAX).min(BLOCKS_READ * BLOCK);
            self.read.resize(count, 0);
            self.begin = lsn;
            file.read_all_at(&mut self.read, offset).map_err(|error| self.unreadable(lsn, error))?;
        }
        let at = (lsn - self.begin) as usize;
        Ok(self.read.get(at..).and_then(|rest| rest.first_chunk()).copied())
    }

    fn unreadable(&self, lsn: u64, error: io::Error) -> LogError {
        LogError::Unreadable { file: self.segments.path(lsn).0, error }
    }
}

/// Rewrites blocks, which recovery has not passed on as durable.
fn rewrite(segments: &Segments, blocks: &[Block], lsn: u64) -> LogResult<()> {
    segments.write(blocks.as_flattened(), lsn, |file, error| LogError::Unreadable { file, error })
}

/// Overwrites blocks at increasing places with zeros.
fn erase(segments: &Segments, places: impl Iterator<Item = u64>) -> LogResult<()> {
    let (mut begin, mut count) = (0, 0);
    for lsn in places {
        if begin + (count * BLOCK) as u64 != lsn {
            rewrite(segments, &vec![[0; BLOCK]; count], begin)?;
            (begin, count) = (lsn, 0);
        }
        count += 1;
    }
    rewrite(segments, &vec![[0; BLOCK]; count], begin)
}

/// Blocks at the end of the log that need not be durable.
struct LogTail {
    blocks: Vec<Block>,
    /// Place of the first one.
    begin: u64,
}

impl LogTail {
    /// Adds the next block. Those before the place up to which it calls the log durable are dropped.
    fn push(&mut self, block: Block, synced: u64) {
        if self.begin < synced {
            let durable = ((synced - self.begin) as usize / BLOCK).min(self.blocks.len());
            self.blocks.drain(..durable);
            self.begin += (durable * BLOCK) as u64;
        }
        self.blocks.push(block);
    }
}

/// Log that was read to its end.
struct ReadLog {
    tail: LogTail,
    /// Place behind the last live block.
    end: u64,
    /// Place behind the last complete record.
    accepted: u64,
    /// True if a record begins behind it that is not complete.
    is_cut: bool,
}

/// Reads the log from `start`, which must be the begin of a record or the end of the log. Returns the place of the block
/// at which it goes on.
pub(crate) fn recover(
    segments: &Segments,
    database: u32,
    start: Lsn,
    each: &mut dyn FnMut(LogRecord<'_>) -> LogResult<()>,
) -> LogResult<u64> {
    let first = start.0 / BLOCK as u64 * BLOCK as u64;
    if segments.is_empty() && first == 0 {
        return Ok(0);
    }
    if segments.place(first).is_none() {
        return Err(segments.damaged(first, "the segment is missing"));
    }
    let mut reader = BlockReader::new(segments, first);
    let read = read_to_end(&mut reader, database, start, first, each)?;
    let stale = stale_blocks(&mut reader, database, read.end)?;
    prepare_end(segments, database, read, &stale)
}

/// Reads the live blocks from `first` on, and passes the complete records from `start` on.
fn read_to_end(
    reader: &mut BlockReader<'_>,
    database: u32,
    start: Lsn,
    first: u64,
    each: &mut dyn FnMut(LogRecord<'_>) -> LogResult<()>,
) -> LogResult<ReadLog> {
    let segments = reader.segments;
    let mut assembly = Assembly::default();
    let mut tail = LogTail { blocks: Vec::new(), begin: first };
    let mut accepted = first.max(start.0);
    let mut lsn = first;
    while let Some(block) = reader.block(lsn)? {
        let state = block::state(&block, lsn, database).map_err(|what| segments.damaged(lsn, what))?;
        let BlockState::Live(header) = state else { break };
        tail.push(block, header.synced);
        let payload = block::payload(&block, header);
        // The first block may begin with records that are before the start.
        let mut at = (start.0.saturating_sub(lsn + HEADER as u64) as usize).min(payload.len());
        while let Some(rest) = payload.get(at..).filter(|rest| !rest.is_empty()) {
            let place = lsn + (HEADER + at) as u64;
            let (taken, is_complete) = assembly.add(rest, place).map_err(|what| segments.damaged(place, what))?;
            at += taken;
            if is_complete {
                let record = assembly.complete().map_err(|what| segments.damaged(assembly.begin().0, what))?;
                each(record)?;
                assembly.clear();
                accepted = lsn + (HEADER + at) as u64;
            }
        }
        lsn += BLOCK as u64;
    }
    if lsn == first && first + (HEADER as u64) < start.0 {
        return Err(segments.damaged(first, "the place from which the log is needed is not in it"));
    }
    Ok(ReadLog { tail, end: lsn, accepted, is_cut: !assembly.is_empty() })
}

/// Returns the places of live blocks behind the end: those of a flush whose earlier blocks were lost. They must not come
/// back.
///
/// # Errors
/// Damage, if one of them calls the end durable.
fn stale_blocks(reader: &mut BlockReader<'_>, database: u32, end: u64) -> LogResult<Vec<u64>> {
    let segments = reader.segments;
    let mut stale = Vec::new();
    let mut lsn = end;
    while let Some(block) = reader.block(lsn)? {
        match block::state(&block, lsn, database).map_err(|what| segments.damaged(lsn, what))? {
            BlockState::Live(header) if end < header.synced => {
                return Err(segments.damaged(end, "a block is missing that was durable"));
            }
            BlockState::Live(_) => stale.push(lsn),
            BlockState::Old | BlockState::Unwritten => {}
        }
        lsn += BLOCK as u64;
    }
    Ok(stale)
}

/// Erases what is behind the last complete record, and makes what is before it durable. Returns the place of the block at
/// which the log goes on.
fn prepare_end(segments: &Segments, database: u32, read: ReadLog, stale: &[u64]) -> LogResult<u64> {
    let ReadLog { tail: LogTail { mut blocks, begin }, accepted, is_cut, .. } = read;
    let next = go_on_at(accepted);
    let kept = ((next.saturating_sub(begin)) as usize / BLOCK).min(blocks.len());
    // Blocks of a record that is not complete must not come back either.
    let incomplete = (kept..blocks.len()).map(|at| begin + (at * BLOCK) as u64);
    // Before the last block is cut: what follows it then would be taken for its next record.
    if !is_planted("lost_flush_left") {
        erase(segments, incomplete.chain(stale.iter().copied()))?;
    }
    blocks.truncate(kept);
    if is_cut
        && let Some(last) = blocks.last_mut()
        && let Ok(BlockState::Live(header)) = block::state(last, next - BLOCK as u64, database)
    {
        // The block has a whole record and the begin of one that is not.
        let used = (accepted - header.lsn) as usize - HEADER;
        last.iter_mut().skip(HEADER + used).for_each(|byte| *byte = 0);
        block::seal(last, BlockHeader { used, ..header });
    }
    if !is_planted("log_end_trusted") {
        rewrite(segments, &blocks, begin)?;
    }
    Ok(next)
}

/// Returns the place of the block behind those that have whole records.
fn go_on_at(accepted: u64) -> u64 {
    let begin = accepted / BLOCK as u64 * BLOCK as u64;
    // Nothing of the block counts, if not even its header is passed.
    if accepted <= begin + HEADER as u64 { begin } else { begin + BLOCK as u64 }
}
