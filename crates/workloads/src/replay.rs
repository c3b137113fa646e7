//! A log that keeps its records in memory, and their replay in another engine.
//!
//! **Invariant:** after [`Replay::apply_up_to`] the other engine's visible rows are those that a snapshot of that
//! number of the first engine sees. Row IDs differ between the two, because rows are inserted in the order of commits
//! here and in the order of the statements there; a map per table leads from one to the other.

use engine::{Begin, Engine, Error, Log, LogPosition, RedoWhat, Result, RowId, Table, Value};
use preempt::{Latch, no_preempt};
use stage::Class;
use std::cmp::Reverse;
use std::collections::{BinaryHeap, HashMap};
use std::sync::Arc;

/// Size of a piece of memory for records, in bytes. A longer record gets a piece of its own.
const PIECE_BYTES: usize = 1 << 20;

/// Log that keeps every record. Commits may be reported to it in an urgent context.
pub struct Records {
    pieces: Latch<Pieces>,
}

struct Pieces {
    /// Pieces with records; the last one is being written.
    full: Vec<Vec<u8>>,
    /// Empty pieces, so that a commit need not wait for memory.
    empty: Vec<Vec<u8>>,
    /// Number of bytes of all records so far.
    bytes: u64,
}

impl Records {
    /// Creates a log that can take this number of bytes of records without asking for memory.
    pub fn with_room(bytes: usize) -> Records {
        let count = bytes.div_ceil(PIECE_BYTES);
        // The pages are touched now, because the first use of a page takes time.
        let empty = (0..count).map(|_| vec![1; PIECE_BYTES]).map(|mut piece: Vec<u8>| {
            piece.clear();
            piece
        });
        // Room for the list itself, too.
        let full = Vec::with_capacity(2 * count + 1_024);
        Records { pieces: Latch::new(Pieces { full, empty: empty.collect(), bytes: 0 }) }
    }

    /// Takes out the records so far. Records of commits that happen meanwhile are in this result or the next.
    pub fn take(&self) -> TakenRecords {
        let pieces = no_preempt(|no_preempt| {
            let mut pieces = self.pieces.lock(no_preempt);
            let room = Vec::with_capacity(pieces.full.capacity());
            std::mem::replace(&mut pieces.full, room)
        });
        TakenRecords { pieces }
    }
}

impl Pieces {
    fn append(&mut self, record: &[u8]) {
        let has_room = |piece: &Vec<u8>| record.len() <= piece.capacity() - piece.len();
        if !self.full.last().is_some_and(has_room) {
            let piece = self.empty.pop().filter(has_room);
            self.full.push(piece.unwrap_or_else(|| Vec::with_capacity(record.len().max(PIECE_BYTES))));
        }
        if let Some(piece) = self.full.last_mut() {
            piece.extend_from_slice(record);
        }
        self.bytes += record.len() as u64;
    }
}

impl Log for Records {
    fn append(&self, record: &[u8]) -> LogPosition {
        no_preempt(|no_preempt| {
            let mut pieces = self.pieces.lock(no_preempt);
            pieces.append(record);
            LogPosition(pieces.bytes)
        })
    }

    fn end(&self) -> LogPosition {
        no_preempt(|no_preempt| LogPosition(self.pieces.lock(no_preempt).bytes))
    }

    fn reached(&self, _position: LogPosition) -> bool {
        true
    }
}

/// Records that were taken out.
#[derive(Default)]
pub struct TakenRecords {
    pieces: Vec<Vec<u8>>,
}

impl TakenRecords {
    /// Returns an iterator over the records.
    pub fn iter(&self) -> impl Iterator<Item = &[u8]> {
        self.pieces.iter().flat_map(|piece| in_piece(piece))
    }

    /// Returns the number of bytes of all records.
    pub fn bytes(&self) -> u64 {
        self.pieces.iter().map(|piece| piece.len() as u64).sum()
    }
}

/// Returns the records in a piece; each begins with its length.
fn in_piece(piece: &[u8]) -> impl Iterator<Item = &[u8]> {
    let mut rest = piece;
    std::iter::from_fn(move || {
        let length = u32::from_le_bytes(*rest.first_chunk::<4>()?) as usize;
        let (record, behind) = rest.split_at_checked(length)?;
        rest = behind;
        Some(record)
    })
}

/// Replay of one engine's records in another engine.
pub struct Replay {
    engine: Engine,
    tables: Vec<Arc<Table>>,
    /// Map of each table from the first engine's row IDs to this engine's.
    rows: Vec<HashMap<u64, RowId>>,
    pieces: Vec<Vec<u8>>,
    /// Timestamps and places of the records to come, earliest first.
    waiting: BinaryHeap<Reverse<(u64, RecordSpan)>>,
    applied: u64,
}

/// Place of a record: the number of a piece, and the record's range of bytes in it.
type RecordSpan = (usize, usize, usize);

/// Number of records in one transaction of the replay.
const RECORDS_AT_ONCE: usize = 64;

impl Replay {
    /// Creates a replay into `engine`, which has the first engine's tables, created in the same order, and no rows.
    pub fn new(engine: Engine) -> Replay {
        let tables = engine.tables();
        let rows = tables.iter().map(|_| HashMap::new()).collect();
        Replay { engine, tables, rows, pieces: Vec::new(), waiting: BinaryHeap::new(), applied: 0 }
    }

    /// Returns the engine that the records are replayed into.
    pub fn engine(&self) -> &Engine {
        &self.engine
    }

    /// Returns the number of records applied.
    pub fn applied(&self) -> u64 {
        self.applied
    }

    /// Takes more records, in any order, none of them earlier than the records applied.
    ///
    /// # Errors
    /// [`Error::CorruptRedo`] for bytes that are no record.
    pub fn add(&mut self, records: TakenRecords) -> Result<()> {
        for piece in records.pieces {
            let mut from = 0;
            for record in in_piece(&piece) {
                let timestamp = self.engine.decode_redo(record)?.0;
                self.waiting.push(Reverse((timestamp, (self.pieces.len(), from, from + record.len()))));
                from += record.len();
            }
            self.pieces.push(piece);
        }
        Ok(())
    }

    /// Applies the records committed up to this timestamp.
    ///
    /// # Errors
    /// An error for a record that does not fit the rows; errors of the engine.
    pub fn apply_up_to(&mut self, number: u64) -> Result<()> {
        let Replay { engine, tables, rows, pieces, waiting, applied } = self;
        let is_due = |Reverse((timestamp, _)): &Reverse<(u64, RecordSpan)>| *timestamp <= number;
        while waiting.peek().is_some_and(is_due) {
            // Several records share a transaction. `is_due` bounds each batch, so nothing later than `number` becomes
            // visible.
            let txn = engine.try_begin(Begin::new(Class::Normal))?;
            for _ in 0..RECORDS_AT_ONCE {
                let Some(Reverse((_, (piece, from, to)))) = waiting.peek().filter(|next| is_due(next)) else { break };
                for change in engine.decode_redo(&pieces[*piece][*from..*to])?.1 {
                    let unknown = || Error::CorruptRedo("a change of a row that does not exist");
                    let at = tables.iter().position(|table| table.number() == change.table);
                    let (table, rows) = match at {
                        Some(at) => (&tables[at], &mut rows[at]),
                        None => return Err(Error::CorruptRedo("a change of a table that does not exist")),
                    };
                    match change.what {
                        RedoWhat::Insert(values) => {
                            let row = txn.insert(table, &values)?;
                            if rows.insert(change.row.0, row).is_some() {
                                return Err(Error::CorruptRedo("an insert of a row that exists"));
                            }
                        }
                        RedoWhat::Update(values) => {
                            let row = *rows.get(&change.row.0).ok_or_else(unknown)?;
                            txn.update(table, row, |row| {
                                values.iter().for_each(|(column, value): &(usize, Value<'_>)| row.set(*column, *value));
                            })?;
                        }
                        RedoWhat::Delete => {
                            let row = rows.remove(&change.row.0).ok_or_else(unknown)?;
                            txn.delete(table, row)?;
                        }
                    }
                }
                waiting.pop();
                *applied += 1;
            }
            txn.commit()?;
        }
        Ok(())
    }
}
