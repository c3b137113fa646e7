//! Format of a block: 28 bytes of header, then the payload. Numbers are little-endian.
//!
//! | bytes | content |
//! |---|---|
//! | 0 to 4 | CRC-32C of the rest of the block |
//! | 4 | version of the format |
//! | 5 | 0 |
//! | 6 to 8 | length of the payload |
//! | 8 to 16 | place of the block in the log |
//! | 16 to 24 | place up to which the log was durable when the block was written |
//! | 24 to 28 | number of the database |

/// Size of a block: what a disk writes as a whole.
pub(crate) const BLOCK: usize = disk::SECTOR;
pub(crate) const HEADER: usize = 28;
/// Greatest length of a payload.
pub(crate) const ROOM: usize = BLOCK - HEADER;
const VERSION: u8 = 1;

/// Block in memory.
pub(crate) type Block = [u8; BLOCK];

/// Header of a block.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct BlockHeader {
    pub(crate) used: usize,
    pub(crate) lsn: u64,
    pub(crate) synced: u64,
    pub(crate) database: u32,
}

/// Block as recovery finds it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum BlockState {
    Unwritten,
    Old,
    Live(BlockHeader),
}

fn number<const N: usize>(block: &Block, at: usize) -> [u8; N] {
    block.get(at..).and_then(|rest| rest.first_chunk()).copied().unwrap_or([0; N])
}

fn checksum(block: &Block) -> u32 {
    crc32c::crc32c(block.get(4..).unwrap_or_default())
}

/// Writes the header of a block whose payload is complete.
pub(crate) fn seal(block: &mut Block, header: BlockHeader) {
    let BlockHeader { used, lsn, synced, database } = header;
    let mut put = |at: usize, bytes: &[u8]| {
        if let Some(place) = block.get_mut(at..at + bytes.len()) {
            place.copy_from_slice(bytes);
        }
    };
    put(4, &[VERSION, 0]);
    put(6, &(used as u16).to_le_bytes());
    put(8, &lsn.to_le_bytes());
    put(16, &synced.to_le_bytes());
    put(24, &database.to_le_bytes());
    let sum = checksum(block);
    if let Some(place) = block.get_mut(..4) {
        place.copy_from_slice(&sum.to_le_bytes());
    }
}

/// Returns the state of the block at place `lsn` in the log of a database.
///
/// # Errors
/// The damage.
pub(crate) fn state(block: &Block, lsn: u64, database: u32) -> Result<BlockState, &'static str> {
    if block.iter().all(|byte| *byte == 0) {
        return Ok(BlockState::Unwritten);
    }
    if u32::from_le_bytes(number(block, 0)) != checksum(block) {
        return Err("the checksum of the block is wrong");
    }
    if number(block, 4) != [VERSION, 0] {
        return Err("the block has another format");
    }
    let header = BlockHeader {
        used: usize::from(u16::from_le_bytes(number(block, 6))),
        lsn: u64::from_le_bytes(number(block, 8)),
        synced: u64::from_le_bytes(number(block, 16)),
        database: u32::from_le_bytes(number(block, 24)),
    };
    if header.database != database {
        return Err("the block belongs to another database");
    }
    if ROOM < header.used || header.lsn < header.synced {
        return Err("the block contradicts itself");
    }
    match header.lsn.cmp(&lsn) {
        std::cmp::Ordering::Less => Ok(BlockState::Old),
        std::cmp::Ordering::Equal => Ok(BlockState::Live(header)),
        std::cmp::Ordering::Greater => Err("the block belongs to a later place"),
    }
}

/// Returns the payload of a live block.
pub(crate) fn payload(block: &Block, header: BlockHeader) -> &[u8] {
    block.get(HEADER..HEADER + header.used).unwrap_or_default()
}
