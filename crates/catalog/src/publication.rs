//! Publication of a new catalog, together with the rows of its transaction.
//!
//! **Invariant:** nobody sees a definition whose transaction has not committed, and nobody who sees the rows of that
//! transaction goes on with the definition before. The number of the new state is announced before the decision, and the state
//! is there after it. So a statement that finds the number of its own state unchanged after it has taken its snapshot sees no
//! commit of a newer definition. One that finds another number asks for the state, and waits for the decision by that: it is
//! made under the latch of the state. Nobody's definitions are lost: a state that was made of another than the newest one does
//! not replace it.

use super::{Catalog, Sequence, State, TableInfo};
use engine::{AtDecision, Replaced};
use std::sync::atomic::Ordering;
use std::sync::{Arc, PoisonError, RwLockWriteGuard};

/// New state of the catalog that becomes visible with the rows of its transaction.
pub struct Publication<'c> {
    pub(super) catalog: &'c Catalog,
    pub(super) state: Arc<State>,
    /// The number of the state that it was made of.
    pub(super) base: u64,
    /// Tables of the engine that nobody goes on with then, and those in their places.
    pub(super) replaced: Vec<Replaced>,
    /// Tables that are out of date then. Whoever has waited for one of these finds that out under its lock.
    pub(super) retired: Vec<Arc<TableInfo>>,
    /// Sequences that are defined anew. Whoever has waited for one of these finds that out, too.
    pub(super) sequences: Vec<Arc<Sequence>>,
    /// Sequences that are dropped.
    pub(super) dropped: Vec<Arc<Sequence>>,
    /// The state of before, between announcement and decision.
    pub(super) current: Option<RwLockWriteGuard<'c, Arc<State>>>,
}

impl AtDecision for Publication<'_> {
    const IS_NEEDED: bool = true;

    fn replaced(&self) -> &[Replaced] {
        &self.replaced
    }

    fn before(&mut self) -> bool {
        let current = self.catalog.current.write().unwrap_or_else(PoisonError::into_inner);
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
            // Whoever asks for the state need not wait until the one before is freed.
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
