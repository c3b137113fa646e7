//! Memory that statements of sessions hold, by what for.
//!
//! **Invariant:** the session's thread alone adds and takes away while a statement runs by rows, the workers of a run while it is
//! analytics. Bytes are those that the thread has taken of the allocator, so nothing is left out; what for is as the
//! operators say that keep rows. Results stay until the session begins another statement, though they go as they are sent.

use engine::memory::{self, STATEMENTS, Share};
use std::cell::Cell;
use std::sync::atomic::{AtomicI64, Ordering::Relaxed};
use std::sync::{Arc, Mutex, PoisonError, Weak};

/// What memory is held for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Use {
    /// Rows that were found, and those of queries that are used several times.
    Results,
    /// Rows to be sorted.
    Sorts,
    /// Rows that window functions are evaluated over.
    Windows,
    /// Groups, kept sides of joins, sets.
    HashTables,
    /// Savepoints of the open transaction, and its advisory locks.
    Transaction,
    /// Advisory locks of the session.
    Locks,
}

impl Use {
    /// All of them, in the order of [`SessionHoldings::bytes`].
    pub const ALL: [Use; 6] = [Use::Results, Use::Sorts, Use::Windows, Use::HashTables, Use::Transaction, Use::Locks];

    /// Its name in views.
    pub fn name(self) -> &'static str {
        match self {
            Use::Results => "results",
            Use::Sorts => "sorts",
            Use::Windows => "windows",
            Use::HashTables => "hash tables",
            Use::Transaction => "transaction",
            Use::Locks => "advisory locks",
        }
    }
}

/// What one session's statements hold.
#[derive(Debug, Default)]
pub struct SessionHoldings {
    pid: u32,
    bytes: [AtomicI64; Use::ALL.len()],
}

static SESSIONS: Mutex<Vec<Weak<SessionHoldings>>> = Mutex::new(Vec::new());

/// What the sessions of this process hold.
pub fn of_sessions() -> Vec<Arc<SessionHoldings>> {
    let sessions = SESSIONS.lock().unwrap_or_else(PoisonError::into_inner);
    sessions.iter().filter_map(Weak::upgrade).collect()
}

impl SessionHoldings {
    /// Of a session that begins.
    pub fn new(pid: u32) -> Arc<SessionHoldings> {
        let new = Arc::new(SessionHoldings { pid, bytes: Default::default() });
        let mut sessions = SESSIONS.lock().unwrap_or_else(PoisonError::into_inner);
        sessions.retain(|session| 0 < session.strong_count());
        sessions.push(Arc::downgrade(&new));
        new
    }

    /// The number by which its session can be cancelled.
    pub fn pid(&self) -> u32 {
        self.pid
    }

    /// Bytes for each use.
    pub fn bytes(&self) -> [u64; Use::ALL.len()] {
        self.bytes.each_ref().map(|bytes| bytes.load(Relaxed).max(0) as u64)
    }

    /// Adds bytes, or takes them away.
    pub fn add(&self, of: Use, change: i64) {
        self.bytes[of as usize].fetch_add(change, Relaxed);
        of.share().change(change);
    }

    /// Calls `f`; what its thread takes or gives back meanwhile is for this.
    pub fn during<R>(&self, of: Use, f: impl FnOnce() -> R) -> R {
        let before = memory::thread_bytes();
        let made = f();
        self.add(of, (memory::thread_bytes() - before) as i64);
        made
    }

    /// Forgets the bytes held for this.
    pub fn forget(&self, of: Use) {
        let bytes = self.bytes[of as usize].swap(0, Relaxed);
        of.share().change(-bytes);
    }

    /// The last statement's results are gone.
    pub fn forget_results(&self) {
        self.forget(Use::Results);
    }
}

impl Use {
    /// Sum to which it belongs.
    fn share(self) -> &'static Share {
        match self {
            Use::Results | Use::Sorts | Use::Windows | Use::HashTables => &STATEMENTS,
            Use::Transaction | Use::Locks => &memory::SESSIONS,
        }
    }
}

impl Drop for SessionHoldings {
    fn drop(&mut self) {
        Use::ALL.into_iter().for_each(|of| self.forget(of));
    }
}

/// A run's part of what its session holds.
#[derive(Debug)]
pub struct RunHoldings {
    /// What its thread had taken when it began.
    begun: isize,
    told: Cell<Option<Told>>,
    bytes: [Cell<i64>; Use::ALL.len()],
    session: std::cell::OnceCell<Arc<SessionHoldings>>,
}

/// What was told last.
#[derive(Clone, Copy, Debug)]
struct Told {
    /// What the thread had taken.
    thread: isize,
    /// What its transaction had put into tables.
    tables: u64,
    of: Use,
}

impl Default for RunHoldings {
    fn default() -> RunHoldings {
        let (told, bytes, session) = Default::default();
        RunHoldings { begun: memory::thread_bytes(), told, bytes, session }
    }
}

impl RunHoldings {
    /// What the thread has taken since it told last is for this. `tables` is what its transaction has put into tables so far, which is
    /// theirs.
    pub fn tell(&self, session: &Arc<SessionHoldings>, of: Use, tables: u64) {
        let thread = memory::thread_bytes();
        let told = self.told.get().unwrap_or(Told { thread: self.begun, tables, of });
        let change = (thread - told.thread) as i64 - tables.wrapping_sub(told.tables) as i64;
        let bytes = &self.bytes[of as usize];
        bytes.set(bytes.get() + change);
        session.add(of, change);
        self.told.set(Some(Told { thread, tables, of }));
        self.session.get_or_init(|| Arc::clone(session));
    }

    /// The same for what was told last, if anything was.
    pub fn go_on(&self, tables: u64) {
        if let (Some(told), Some(session)) = (self.told.get(), self.session.get()) {
            self.tell(session, told.of, tables);
        }
    }
}

impl Drop for RunHoldings {
    fn drop(&mut self) {
        let Some(session) = self.session.get() else { return };
        for of in Use::ALL {
            if of != Use::Results {
                session.add(of, -self.bytes[of as usize].get());
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What counts, in the tests of this crate as in the program.
    #[global_allocator]
    static HEAP: preempt::Heap = preempt::Heap::HEAP;

    #[test]
    fn what_a_thread_takes_is_its_sessions_until_the_run_ends() {
        let session = SessionHoldings::new(7);
        assert!(of_sessions().iter().any(|one| one.pid() == 7));
        let run = RunHoldings::default();
        run.tell(&session, Use::Sorts, 0);
        let mut kept = vec![vec![0_u8; 1 << 20]; 3];
        run.tell(&session, Use::Sorts, 0);
        let [_, sorts, ..] = session.bytes();
        assert!((3 << 20..4 << 20).contains(&sorts), "{sorts}");
        kept.pop();
        run.tell(&session, Use::Results, 1 << 19);
        let less = i64::try_from(session.bytes()[0]).unwrap_or_default();
        assert_eq!(less, 0, "nothing is less than nothing");
        run.go_on(0);
        drop(run);
        assert!(session.bytes()[1..].iter().all(|bytes| *bytes == 0));
        session.forget_results();
        let locks = session.during(Use::Locks, || vec![0_u8; 1 << 20]);
        assert!((1 << 20..2 << 20).contains(&session.bytes()[Use::Locks as usize]));
        session.during(Use::Locks, || drop(locks));
        assert!(session.bytes().iter().all(|bytes| *bytes == 0));
        drop(kept);
    }
}
