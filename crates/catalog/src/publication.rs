//! Publication of a new catalog, together with the rows of its transaction.
//!
//! **Invariant:** no session sees a definition whose transaction has not committed, and no session that sees the rows
//! of that transaction goes on with the definition before. The version of the new state is announced before the
//! decision, and the state is there after it. So a statement that finds the version of its own state unchanged after it
//! has taken its snapshot sees no commit of a newer definition. A statement that finds another version asks for the
//! state, and thereby waits for the decision, which is made under the latch of the state. No definitions are lost: a
//! state that derives from another than the newest one does not replace it.

use super::{Catalog, CatalogState, Sequence, TableInfo};
use engine::{AtDecision, ReplacedTable};
use locked::RwLocked;
use std::sync::atomic::Ordering;
use std::sync::{Arc, RwLockWriteGuard};

/// New state of the catalog that becomes visible with the rows of its transaction.
pub struct Publication<'c> {
    pub(super) catalog: &'c Catalog,
    pub(super) state: Arc<CatalogState>,
    /// Version of the state that the new one derives from.
    pub(super) base: u64,
    /// Tables of the engine that are no longer used after the decision, each with its replacement.
    pub(super) replaced: Vec<ReplacedTable>,
    /// Tables whose description is out of date after the decision. A session that has waited for one of them finds that
    /// out under its lock.
    pub(super) retired: Vec<Arc<TableInfo>>,
    /// Sequences that are redefined. A session that has waited for one of them finds that out, too.
    pub(super) sequences: Vec<Arc<Sequence>>,
    /// Sequences that are dropped.
    pub(super) dropped: Vec<Arc<Sequence>>,
    /// Write guard of the state before, held between announcement and decision.
    pub(super) current: Option<RwLockWriteGuard<'c, Arc<CatalogState>>>,
}

impl AtDecision for Publication<'_> {
    const IS_NEEDED: bool = true;

    fn replaced(&self) -> &[ReplacedTable] {
        &self.replaced
    }

    fn before(&mut self) -> bool {
        let current = self.catalog.current.write_locked();
        let is_newest = current.version() == self.base;
        if is_newest {
            self.catalog.current_version.store(self.state.version(), Ordering::SeqCst);
            self.current = Some(current);
        }
        is_newest
    }

    fn after(&mut self, is_committed: bool) {
        let Some(mut current) = self.current.take() else { return };
        if is_committed {
            self.retired.iter().for_each(|table| table.retired.store(true, Ordering::Release));
            self.sequences.iter().for_each(Sequence::publish);
            self.dropped.iter().for_each(|sequence| sequence.retire());
            let before = std::mem::replace(&mut *current, Arc::clone(&self.state));
            // Released first: sessions that ask for the state need not wait until the one before is freed.
            drop(current);
            drop(before);
        } else {
            self.catalog.current_version.store(current.version(), Ordering::SeqCst);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_state_replaces_the_one_that_it_was_made_of_and_no_other() {
        let catalog = Catalog::default();
        let base = catalog.current();
        let next = || Arc::new(base.next(catalog.version()));
        let (first, second) = (next(), next());
        for (state, is_newest) in [(&first, true), (&second, false)] {
            let mut publication =
                catalog.publication(&base, Arc::clone(state), Vec::new(), Vec::new(), Default::default());
            assert_eq!(publication.before(), is_newest);
            publication.after(is_newest);
            assert_eq!((catalog.current().version(), catalog.current_version()), (first.version(), first.version()));
        }
    }
}
