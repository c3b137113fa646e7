//! Memory of the process: the room for more, and its holders.
//!
//! **Invariant:** the held bytes are those that the allocator has allocated ([`preempt::memory`]); the shares only tell
//! their owners. Statements that take memory ask [`has_room`] before each large block and when they have taken a fixed
//! amount since they asked last. Statements that give memory back (deletes, drops) ask [`has_reserve`]; the ends of
//! transactions and small statements do not ask.

use core::sync::atomic::{AtomicI64, Ordering::Relaxed};
pub use preempt::memory::{
    Promise, block_bytes, has_reserve, has_room, has_room_beside, has_small_reserve, held_bytes, kept_bytes,
    limit_bytes, promise, promised_bytes, resident_bytes, resident_limit_bytes, thread_bytes,
};

/// Bytes that a statement may take without asking.
pub const SMALL_BYTES: usize = 256 << 10;

/// Bytes of one kind of holder, as it counts them itself.
#[derive(Debug)]
pub struct Share {
    what: &'static str,
    bytes: AtomicI64,
}

/// Rows, dead versions and indexes of the engine that was housekept last.
pub static TABLES: Share = Share::new("tables and indexes");
/// Write sets of open transactions.
pub static CHANGES: Share = Share::new("changes of open transactions");
/// Savepoints and advisory locks of sessions.
pub static SESSIONS: Share = Share::new("savepoints and advisory locks");
/// Messages of clients that have not come to their ends.
pub static MESSAGES: Share = Share::new("unfinished messages");
/// Rows that statements keep by themselves: results, sorts, groups, hash tables.
pub static STATEMENTS: Share = Share::new("running statements");

impl Share {
    const fn new(what: &'static str) -> Share {
        Share { what, bytes: AtomicI64::new(0) }
    }

    /// Returns the bytes of the share.
    pub fn bytes(&self) -> u64 {
        self.bytes.load(Relaxed).max(0) as u64
    }

    /// Replaces the bytes of the share.
    pub fn set(&self, bytes: u64) {
        self.bytes.store(bytes as i64, Relaxed);
    }

    /// Adds to the bytes of the share, or subtracts from them.
    pub fn change(&self, change: i64) {
        self.bytes.fetch_add(change, Relaxed);
    }
}

/// Returns the sentence that tells the holders of memory, for a statement that is refused.
pub fn in_words() -> String {
    let mb = |bytes: u64| bytes >> 20;
    let (held, limit) = (held_bytes() as u64, limit_bytes() as u64);
    let mut shares = vec![(TABLES.what, TABLES.bytes()), (STATEMENTS.what, STATEMENTS.bytes())];
    let more = [&CHANGES, &SESSIONS, &MESSAGES].map(|share| (share.what, share.bytes()));
    shares.extend(more.into_iter().filter(|(_, bytes)| 0 < mb(*bytes)));
    let said = shares.iter().map(|(_, bytes)| bytes).sum();
    // Holders of promises have taken some of what they were promised.
    let texts = (promised_bytes() as u64).min(held.saturating_sub(said));
    if 0 < mb(texts) {
        shares.push(("texts that are read", texts));
    }
    let others = held.saturating_sub(shares.iter().map(|(_, bytes)| bytes).sum());
    let list: Vec<String> = shares.iter().map(|(what, bytes)| format!("{what} {} MB", mb(*bytes))).collect();
    let list = list.join(", ");
    format!("The process holds {} MB of {} MB: {list}, others {} MB.", mb(held), mb(limit), mb(others))
}
