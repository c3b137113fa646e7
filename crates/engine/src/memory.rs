//! Memory of the process: whether there is room for more, and who holds it.
//!
//! **Invariant:** what is held is what the allocator has given out ([`preempt::memory`]); the shares only say of whom it is.
//! Statements that take memory ask [`has_room`] before each large block and once for so many kept rows. Those that give
//! memory back (deletes, drops, the ends of transactions) and small ones do not ask: the limit leaves a reserve for them.

use core::cell::Cell;
use core::sync::atomic::{AtomicU64, Ordering::Relaxed};
pub use preempt::memory::{has_room, held_bytes, limit_bytes, set_limit_bytes};

/// Bytes that a statement may take without asking.
pub const SMALL_BYTES: usize = 256 << 10;

/// Bytes that something holds, as it counts them itself.
#[derive(Debug)]
pub struct Share {
    what: &'static str,
    bytes: AtomicU64,
}

/// Rows, dead versions and indexes of the engine that was housekept last.
pub static TABLES: Share = Share::new("tables and indexes");
/// Rows that statements keep by themselves: results, sorts, groups, hash tables.
pub static STATEMENTS: Share = Share::new("running statements");
/// What running analytics have reserved.
pub static ANALYTICS: Share = Share::new("running analytics");

impl Share {
    const fn new(what: &'static str) -> Share {
        Share { what, bytes: AtomicU64::new(0) }
    }

    /// Bytes of it.
    pub fn bytes(&self) -> u64 {
        self.bytes.load(Relaxed)
    }

    /// Takes the place of what was said before.
    pub fn set(&self, bytes: u64) {
        self.bytes.store(bytes, Relaxed);
    }

    /// So many more.
    pub fn add(&self, bytes: u64) {
        self.bytes.fetch_add(bytes, Relaxed);
    }

    /// So many less.
    pub fn sub(&self, bytes: u64) {
        self.bytes.fetch_sub(bytes, Relaxed);
    }
}

/// One statement's part of [`STATEMENTS`].
#[derive(Debug, Default)]
pub struct Part(Cell<u64>);

impl Part {
    /// So many more.
    pub fn add(&self, bytes: u64) {
        self.0.set(self.0.get() + bytes);
        STATEMENTS.add(bytes);
    }
}

impl Drop for Part {
    fn drop(&mut self) {
        STATEMENTS.sub(self.0.get());
    }
}

/// The sentence that says what is held, and by whom, for somebody who is refused.
pub fn in_words() -> String {
    let mb = |bytes: u64| bytes >> 20;
    let (held, limit) = (held_bytes() as u64, limit_bytes() as u64);
    let shares = [&TABLES, &STATEMENTS, &ANALYTICS].map(|share| (share.what, share.bytes()));
    let others = held.saturating_sub(shares.iter().map(|(_, bytes)| bytes).sum());
    let list: Vec<String> = shares.iter().map(|(what, bytes)| format!("{what} {} MB", mb(*bytes))).collect();
    let list = list.join(", ");
    format!("The process holds {} MB of {} MB: {list}, others {} MB.", mb(held), mb(limit), mb(others))
}
