//! A state of the catalog that becomes everybody's together with the rows of its transaction.
//!
//! **Invariant:** nobody sees a definition whose transaction has not committed, and nobody who sees the rows of that
//! transaction goes on with the definition before. The number of the new state is announced before the decision, and the state
//! is there after it. So a statement that finds the number of its own state unchanged after it has taken its snapshot sees no
//! commit of a newer definition. One that finds another number asks for the state, and waits for the decision by that: it is
//! made under the latch of the state.

use super::{Catalog, Sequence, State, TableInfo};
use engine::{AtDecision, Replaced};
use std::sync::atomic::Ordering;
use std::sync::{Arc, PoisonError, RwLockWriteGuard};

/// See the module.
pub(crate) struct Publication<'c> {
    pub(super) catalog: &'c Catalog,
    pub(super) state: Arc<State>,
    /// Tables of the engine that nobody goes on with then, and those in their places.
    pub(super) replaced: Vec<Replaced>,
    /// Tables that are out of date then. Whoever has waited for one of these finds that out under its lock.
    pub(super) retired: Vec<Arc<TableInfo>>,
    /// Sequences that are defined anew. Whoever has waited for one of these finds that out, too.
    pub(super) sequences: Vec<Arc<Sequence>>,
    /// The state of before, between announcement and decision.
    pub(super) current: Option<RwLockWriteGuard<'c, Arc<State>>>,
}

impl AtDecision for Publication<'_> {
    const IS_NEEDED: bool = true;

    fn replaced(&self) -> &[Replaced] {
        &self.replaced
    }

    fn before(&mut self) {
        self.current = Some(self.catalog.current.write().unwrap_or_else(PoisonError::into_inner));
        self.catalog.current_version.store(self.state.version(), Ordering::SeqCst);
    }

    fn after(&mut self, is_committed: bool) {
        let Some(mut current) = self.current.take() else { return };
        if is_committed {
            self.retired.iter().for_each(|table| table.retired.store(true, Ordering::Release));
            self.sequences.iter().for_each(Sequence::publish);
            *current = Arc::clone(&self.state);
        } else {
            self.catalog.current_version.store(current.version(), Ordering::SeqCst);
        }
    }
}
