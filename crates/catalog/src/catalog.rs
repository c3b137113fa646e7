//! The catalog: what is committed, and how it changes.

use crate::{Publication, Sequence, State, TableInfo};
use engine::{Advisory, Replaced};
use statement::error::{SqlError, SqlResult};
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::sync::{Arc, PoisonError, RwLock};

/// The one database.
pub const DATABASE: &str = "postgres";
/// The schema of what names no other.
pub const PUBLIC: &str = "public";
/// The role that owns what nobody else does.
pub const OWNER: &str = "postgres";
/// Numbers below are PostgreSQL's own.
pub const FIRST_OID: u32 = 16_384;

/// Whoever changes the catalog holds this lock until the end of the transaction.
pub const ORDER: Advisory = Advisory::Program(0);

/// What all sessions know, and how it changes.
pub struct Catalog {
    pub(crate) current: RwLock<Arc<State>>,
    /// Its number.
    pub(crate) current_version: AtomicU64,
    next_oid: AtomicU32,
    next_version: AtomicU64,
}

impl Default for Catalog {
    /// A catalog without tables.
    fn default() -> Catalog {
        let fresh = State::fresh();
        Catalog {
            current_version: AtomicU64::new(fresh.version()),
            current: RwLock::new(Arc::new(fresh)),
            next_oid: AtomicU32::new(FIRST_OID),
            next_version: AtomicU64::new(1),
        }
    }
}

impl Catalog {
    /// What is committed now.
    pub fn current(&self) -> Arc<State> {
        Arc::clone(&self.current.read().unwrap_or_else(PoisonError::into_inner))
    }

    /// The number of what is committed now.
    pub fn current_version(&self) -> u64 {
        self.current_version.load(Ordering::Acquire)
    }

    /// A number for a new object. One that is not used in the end is lost, as in PostgreSQL.
    pub fn oid(&self) -> SqlResult<u32> {
        let taken = self.next_oid.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |oid| oid.checked_add(1));
        taken.map_err(|_| SqlError::unsupported("more than four thousand million objects"))
    }

    /// A number for a new state: two states that differ have different ones.
    pub fn version(&self) -> u64 {
        self.next_version.fetch_add(1, Ordering::Relaxed)
    }

    /// A state that becomes everybody's with a commit, the one that it was made of, and the descriptions that are out of date
    /// then; with the sequences that are defined anew, and those that are dropped. The caller has held the lock [`ORDER`] since it took that one.
    pub fn publication(
        &self,
        base: &State,
        state: Arc<State>,
        replaced: Vec<Replaced>,
        retired: Vec<Arc<TableInfo>>,
        [sequences, dropped]: [Vec<Arc<Sequence>>; 2],
    ) -> Publication<'_> {
        let base = base.version();
        Publication { catalog: self, base, state, replaced, retired, sequences, dropped, current: None }
    }
}
