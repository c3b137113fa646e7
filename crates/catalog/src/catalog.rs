//! The catalog: its committed state, and the changes to it.

use crate::{CatalogState, Publication, Sequence, TableInfo};
use engine::{Advisory, ReplacedTable};
use locked::RwLocked;
use statement::error::{SqlError, SqlResult};
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::sync::{Arc, RwLock};

/// Name of the only database.
pub const DATABASE: &str = "postgres";
/// Schema of objects whose definition names no other schema.
pub const PUBLIC: &str = "public";
/// PostgreSQL's OID of the database `postgres`.
pub const DATABASE_OID: u32 = 5;
/// OID of the role that owns the objects that no other role owns.
pub const OWNER: u32 = settings::roles::FIRST_OID;
/// First OID of objects that users define; lower ones are PostgreSQL's own.
pub const FIRST_OID: u32 = 16_384;

/// Lock that a transaction that changes the catalog holds until its end.
pub const ORDER: Advisory = Advisory::Program(0);

/// Catalog that all sessions share, with its current state and the counters of its changes.
pub struct Catalog {
    pub(crate) current: RwLock<Arc<CatalogState>>,
    /// Version of the current state.
    pub(crate) current_version: AtomicU64,
    next_oid: AtomicU32,
    next_version: AtomicU64,
}

impl Default for Catalog {
    /// Creates a catalog without tables.
    fn default() -> Catalog {
        let fresh = CatalogState::fresh();
        Catalog {
            current_version: AtomicU64::new(fresh.version()),
            current: RwLock::new(Arc::new(fresh)),
            next_oid: AtomicU32::new(FIRST_OID),
            next_version: AtomicU64::new(1),
        }
    }
}

impl Catalog {
    /// Returns the committed state.
    pub fn current(&self) -> Arc<CatalogState> {
        Arc::clone(&self.current.read_locked())
    }

    /// Returns the version of the committed state.
    pub fn current_version(&self) -> u64 {
        self.current_version.load(Ordering::Acquire)
    }

    /// Returns an OID for a new object. An OID that is not used in the end is lost, as in PostgreSQL.
    ///
    /// # Errors
    /// `0A000` if no OIDs are left.
    pub fn oid(&self) -> SqlResult<u32> {
        let taken = self.next_oid.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |oid| oid.checked_add(1));
        taken.map_err(|_| SqlError::unsupported("more than four thousand million objects"))
    }

    /// Returns a version for a new state: two states that differ have different versions.
    pub fn version(&self) -> u64 {
        self.next_version.fetch_add(1, Ordering::Relaxed)
    }

    /// Creates the publication of a state that becomes visible to all sessions with a commit: from the state that it
    /// derives from, the table descriptions that are then out of date, the sequences that are redefined and those that
    /// are dropped. The caller has held the lock [`ORDER`] since it took the base state.
    pub fn publication(
        &self,
        base: &CatalogState,
        state: Arc<CatalogState>,
        replaced: Vec<ReplacedTable>,
        retired: Vec<Arc<TableInfo>>,
        [sequences, dropped]: [Vec<Arc<Sequence>>; 2],
    ) -> Publication<'_> {
        let base = base.version();
        Publication { catalog: self, base, state, replaced, retired, sequences, dropped, current: None }
    }
}
