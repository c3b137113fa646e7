//! Memory that statements of sessions hold, by use.
//!
//! **Invariant:** while a statement runs row by row, only the session's thread adds and subtracts; while it is
//! analytics, the workers of a run do, and a thread that runs code of a procedure does for its cursors. Bytes are those that the thread has taken from the allocator, so nothing is left
//! out. Their use is what the operators that keep rows report. Results stay until the session begins another statement,
//! though they are freed as they are sent.

use engine::memory::{self, STATEMENTS, Share};
use locked::Locked;
use std::cell::Cell;
use std::sync::atomic::{AtomicI64, Ordering::Relaxed};
use std::sync::{Arc, Mutex, Weak};

/// Use of held memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MemoryUse {
    /// Result rows, and rows of queries that are used several times.
    Results,
    /// Rows of cursors of procedures that end transactions. They outlast the statements of these.
    Cursors,
    /// Rows to be sorted.
    Sorts,
    /// Rows over which window functions are evaluated.
    Windows,
    /// Groups, build sides of joins, sets.
    HashTables,
    /// Savepoints of the open transaction, and its advisory locks.
    Transaction,
    /// Advisory locks of the session.
    Locks,
}

impl MemoryUse {
    /// Every use, in the order of [`SessionHoldings::bytes`].
    pub const ALL: [MemoryUse; 7] = [
        MemoryUse::Results,
        MemoryUse::Cursors,
        MemoryUse::Sorts,
        MemoryUse::Windows,
        MemoryUse::HashTables,
        MemoryUse::Transaction,
        MemoryUse::Locks,
    ];

    /// Returns the name that views show.
    pub fn name(self) -> &'static str {
        match self {
            MemoryUse::Results => "results",
            MemoryUse::Cursors => "cursors of procedures",
            MemoryUse::Sorts => "sorts",
            MemoryUse::Windows => "windows",
            MemoryUse::HashTables => "hash tables",
            MemoryUse::Transaction => "transaction",
            MemoryUse::Locks => "advisory locks",
        }
    }
}

/// Memory that the statements of one session hold.
#[derive(Debug, Default)]
pub struct SessionHoldings {
    pid: u32,
    bytes: [AtomicI64; MemoryUse::ALL.len()],
}

static SESSIONS: Mutex<Vec<Weak<SessionHoldings>>> = Mutex::new(Vec::new());

/// Returns the holdings of the sessions of this process.
pub fn of_sessions() -> Vec<Arc<SessionHoldings>> {
    let sessions = SESSIONS.locked();
    sessions.iter().filter_map(Weak::upgrade).collect()
}

impl SessionHoldings {
    /// Creates the holdings of a session that begins.
    pub fn new(pid: u32) -> Arc<SessionHoldings> {
        let new = Arc::new(SessionHoldings { pid, bytes: Default::default() });
        let mut sessions = SESSIONS.locked();
        sessions.retain(|session| 0 < session.strong_count());
        sessions.push(Arc::downgrade(&new));
        new
    }

    /// Returns the process ID by which the session can be cancelled.
    pub fn pid(&self) -> u32 {
        self.pid
    }

    /// Returns the bytes of each use.
    pub fn bytes(&self) -> [u64; MemoryUse::ALL.len()] {
        self.bytes.each_ref().map(|bytes| bytes.load(Relaxed).max(0) as u64)
    }

    /// Adds bytes, or subtracts them.
    pub fn add(&self, of: MemoryUse, change: i64) {
        self.bytes[of as usize].fetch_add(change, Relaxed);
        of.share().change(change);
    }

    /// Calls `f` and counts the memory that its thread takes or gives back meanwhile for this use.
    pub fn during<R>(&self, of: MemoryUse, f: impl FnOnce() -> R) -> R {
        let before = memory::thread_bytes();
        let made = f();
        self.add(of, (memory::thread_bytes() - before) as i64);
        made
    }

    /// Forgets the bytes held for this use.
    pub fn forget(&self, of: MemoryUse) {
        let held = &self.bytes[of as usize];
        // Most statements hold nothing, and all threads write to the shares.
        if held.load(Relaxed) != 0 {
            of.share().change(-held.swap(0, Relaxed));
        }
    }

    /// Forgets the results of the last statement, which are gone.
    pub fn forget_results(&self) {
        self.forget(MemoryUse::Results);
    }
}

impl MemoryUse {
    /// Returns the total to which this use belongs.
    fn share(self) -> &'static Share {
        match self {
            MemoryUse::Results | MemoryUse::Cursors | MemoryUse::Sorts | MemoryUse::Windows | MemoryUse::HashTables => {
                &STATEMENTS
            }
            MemoryUse::Transaction | MemoryUse::Locks => &memory::SESSIONS,
        }
    }
}

impl Drop for SessionHoldings {
    fn drop(&mut self) {
        MemoryUse::ALL.into_iter().for_each(|of| self.forget(of));
    }
}

/// Part of the session's holdings that one run takes.
#[derive(Debug)]
pub struct RunHoldings {
    /// Bytes that its thread had taken when the run began.
    begun: isize,
    told: Cell<Option<LastReport>>,
    bytes: [Cell<i64>; MemoryUse::ALL.len()],
    session: std::cell::OnceCell<Arc<SessionHoldings>>,
}

/// State at the last report.
#[derive(Clone, Copy, Debug)]
struct LastReport {
    /// Bytes that the thread had taken.
    thread: isize,
    /// Bytes that its transaction had put into tables.
    tables: u64,
    of: MemoryUse,
}

impl Default for RunHoldings {
    fn default() -> RunHoldings {
        let (told, bytes, session) = Default::default();
        RunHoldings { begun: memory::thread_bytes(), told, bytes, session }
    }
}

impl RunHoldings {
    /// Counts for this use the bytes that the thread has taken since its last report. `tables` are the bytes that its
    /// transaction has put into tables so far, which count for the tables.
    pub fn tell(&self, session: &Arc<SessionHoldings>, of: MemoryUse, tables: u64) {
        let thread = memory::thread_bytes();
        let told = self.told.get().unwrap_or(LastReport { thread: self.begun, tables, of });
        let change = (thread - told.thread) as i64 - tables.wrapping_sub(told.tables) as i64;
        let bytes = &self.bytes[of as usize];
        bytes.set(bytes.get() + change);
        session.add(of, change);
        self.told.set(Some(LastReport { thread, tables, of }));
        self.session.get_or_init(|| Arc::clone(session));
    }

    /// Does the same for the use of the last report, if there was one.
    pub fn go_on(&self, tables: u64) {
        if let (Some(told), Some(session)) = (self.told.get(), self.session.get()) {
            self.tell(session, told.of, tables);
        }
    }
}

impl Drop for RunHoldings {
    fn drop(&mut self) {
        let Some(session) = self.session.get() else { return };
        for of in MemoryUse::ALL {
            if of != MemoryUse::Results {
                session.add(of, -self.bytes[of as usize].get());
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Counting allocator, in the tests of this crate as in the program.
    #[global_allocator]
    static HEAP: preempt::Heap = preempt::Heap::HEAP;

    #[test]
    fn what_a_thread_takes_is_its_sessions_until_the_run_ends() {
        let session = SessionHoldings::new(7);
        assert!(of_sessions().iter().any(|one| one.pid() == 7));
        let run = RunHoldings::default();
        run.tell(&session, MemoryUse::Sorts, 0);
        let mut kept = vec![vec![0_u8; 1 << 20]; 3];
        run.tell(&session, MemoryUse::Sorts, 0);
        let sorts = session.bytes()[MemoryUse::Sorts as usize];
        assert!((3 << 20..4 << 20).contains(&sorts), "{sorts}");
        kept.pop();
        run.tell(&session, MemoryUse::Results, 1 << 19);
        let less = i64::try_from(session.bytes()[MemoryUse::Results as usize]).unwrap_or_default();
        assert_eq!(less, 0, "nothing is less than nothing");
        run.go_on(0);
        drop(run);
        assert!(session.bytes()[1..].iter().all(|bytes| *bytes == 0));
        session.forget_results();
        let locks = session.during(MemoryUse::Locks, || vec![0_u8; 1 << 20]);
        assert!((1 << 20..2 << 20).contains(&session.bytes()[MemoryUse::Locks as usize]));
        session.during(MemoryUse::Locks, || drop(locks));
        assert!(session.bytes().iter().all(|bytes| *bytes == 0));
        drop(kept);
    }
}
