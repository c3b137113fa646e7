//! Prepared statements of a server connection.
//!
//! **Invariant:** a statement that counts as present is present. One whose `ParseComplete` is outstanding is present
//! for the rest of the same batch: up to the next `Sync` the server does nothing after a failure. For a later batch it
//! may be present or not, so it is closed, which never fails, and parsed again. So is one whose own `Close` is not
//! answered yet: the server ignores the `Close` if an earlier message of the batch has failed.

use std::collections::{BTreeMap, HashMap};
use std::mem;

/// Maximum number of statements on one connection. Beyond it, the least recently used one is closed.
const STATEMENTS_MAX: usize = 200;

#[derive(Debug, Default)]
pub(crate) struct PreparedStatements {
    statements: HashMap<u64, PreparedState>,
    /// Statements that are not being closed, by the time of their last use.
    by_use: BTreeMap<u64, u64>,
    clock: u64,
    /// Number of the current batch, which `Sync` ends, for the life of the connection.
    pub(crate) batch: u64,
}

#[derive(Debug)]
struct PreparedState {
    used: u64,
    /// Batch that brings the statement, until it is present.
    comes_with: Option<u64>,
    /// True if it is being closed, and does not count.
    goes: bool,
}

/// Messages to be sent before a statement can be used.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum PrepareMessages {
    /// None: the statement is present.
    Nothing,
    /// `Parse`.
    Parse,
    /// `Close`, then `Parse`.
    CloseAndParse,
}

impl PreparedStatements {
    /// Begins a batch after a `Sync`, or for another client.
    pub(crate) fn next_batch(&mut self) {
        self.batch += 1;
    }

    /// Marks a statement as used in this batch. It counts as on its way if it is missing.
    pub(crate) fn want(&mut self, statement: u64) -> PrepareMessages {
        let batch = self.batch;
        match self.statements.get_mut(&statement) {
            None => {
                self.clock += 1;
                let used = self.clock;
                self.statements.insert(statement, PreparedState { used, comes_with: Some(batch), goes: false });
                self.by_use.insert(used, statement);
                PrepareMessages::Parse
            }
            Some(state) => {
                if state.goes || state.used != self.clock {
                    self.clock += 1;
                    self.by_use.remove(&state.used);
                    self.by_use.insert(self.clock, statement);
                    (state.used, state.goes) = (self.clock, false);
                }
                match state.comes_with {
                    None => PrepareMessages::Nothing,
                    Some(own) if own == batch => PrepareMessages::Nothing,
                    Some(_) => {
                        state.comes_with = Some(batch);
                        PrepareMessages::CloseAndParse
                    }
                }
            }
        }
    }

    /// Returns the statement to be closed, if there are too many.
    pub(crate) fn evict(&mut self) -> Option<u64> {
        if self.by_use.len() <= STATEMENTS_MAX {
            return None;
        }
        let (_, oldest) = self.by_use.pop_first()?;
        let state = self.statements.get_mut(&oldest)?;
        (state.goes, state.comes_with) = (true, Some(0));
        Some(oldest)
    }

    /// Removes a closed statement, unless it was wanted since.
    pub(crate) fn is_gone(&mut self, statement: u64) {
        if self.statements.get(&statement).is_some_and(|state| state.goes) {
            self.statements.remove(&statement);
        }
    }

    /// Notes that the `Close` of a statement has not happened.
    pub(crate) fn stays(&mut self, statement: u64) {
        let next = self.clock + 1;
        // A statement that was closed, brought and closed again may have gone by the first `Close`.
        let state =
            self.statements.entry(statement).or_insert(PreparedState { used: next, comes_with: Some(0), goes: true });
        if mem::take(&mut state.goes) {
            self.clock = self.clock.max(state.used);
            self.by_use.insert(state.used, statement);
        }
    }

    /// Marks a statement as present, unless a later batch has begun to bring it anew.
    pub(crate) fn is_there(&mut self, statement: u64) {
        if let Some(state) = self.statements.get_mut(&statement)
            // A statement in doubt may have been removed since.
            && state.comes_with != Some(0)
        {
            state.comes_with = None;
        }
    }

    /// Notes that the `Parse` of a statement has not happened: it may be present from before.
    pub(crate) fn has_failed(&mut self, statement: u64) {
        if let Some(state) = self.statements.get_mut(&statement) {
            state.comes_with = Some(0);
        }
    }

    /// Puts all statements in doubt, after an event that may have removed some.
    pub(crate) fn doubt_all(&mut self) {
        // No batch has the number 0.
        self.statements.values_mut().for_each(|state| state.comes_with = Some(0));
    }

    pub(crate) fn clear(&mut self) {
        self.statements.clear();
        self.by_use.clear();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_not_sure_is_brought_again() {
        let mut prepared = PreparedStatements::default();
        prepared.next_batch();
        assert_eq!(prepared.want(7), PrepareMessages::Parse);
        assert_eq!(prepared.want(7), PrepareMessages::Nothing);
        prepared.next_batch();
        assert_eq!(prepared.want(7), PrepareMessages::CloseAndParse);
        prepared.is_there(7);
        prepared.next_batch();
        assert_eq!(prepared.want(7), PrepareMessages::Nothing);
        prepared.doubt_all();
        assert_eq!(prepared.want(7), PrepareMessages::CloseAndParse);
        prepared.has_failed(7);
        assert_eq!(prepared.want(7), PrepareMessages::CloseAndParse);
    }

    #[test]
    fn the_one_not_used_for_longest_goes() {
        let mut prepared = PreparedStatements::default();
        prepared.next_batch();
        for statement in 0..STATEMENTS_MAX as u64 {
            prepared.want(statement);
        }
        prepared.want(0);
        assert_eq!(prepared.evict(), None);
        prepared.want(1_000);
        assert_eq!(prepared.evict(), Some(1));
        // A statement does not count while it is being closed, and may be present until that has happened.
        assert_eq!(prepared.evict(), None);
        assert_eq!(prepared.want(1), PrepareMessages::CloseAndParse);
        prepared.is_gone(1);
        assert_eq!((prepared.evict(), prepared.want(1)), (Some(2), PrepareMessages::Nothing));
        prepared.is_gone(2);
        assert_eq!((prepared.want(2), prepared.evict()), (PrepareMessages::Parse, Some(3)));
        // A server that has ignored the `Close` still has the statement.
        prepared.stays(3);
        assert_eq!((prepared.want(3), prepared.evict()), (PrepareMessages::CloseAndParse, Some(4)));
        // A statement that was brought and closed once more may have come back.
        assert_eq!(prepared.want(4), PrepareMessages::CloseAndParse);
        while prepared.statements.get(&4).is_some_and(|state| !state.goes) {
            let next = 2_000 + prepared.clock;
            prepared.want(next);
            prepared.evict();
        }
        prepared.is_gone(4);
        prepared.stays(4);
        assert_eq!(prepared.want(4), PrepareMessages::CloseAndParse);
    }

    #[test]
    fn a_long_pipeline_is_not_walked_for_each_message() {
        const MANY: u64 = 100_000;
        let begun = std::time::Instant::now();
        let mut prepared = PreparedStatements::default();
        prepared.next_batch();
        let bring = |prepared: &mut PreparedStatements, statement| {
            assert_eq!(prepared.want(statement), PrepareMessages::Parse);
            std::iter::from_fn(|| prepared.evict()).take(2).collect::<Vec<_>>()
        };
        let closed: Vec<_> = (1..MANY).flat_map(|statement| bring(&mut prepared, statement)).collect();
        assert_eq!((closed.len(), closed.first()), (MANY as usize - 1 - STATEMENTS_MAX, Some(&1)));
        // The server has closed none of them: their number decreases again.
        closed.iter().rev().for_each(|&statement| prepared.stays(statement));
        for statement in MANY..2 * MANY {
            bring(&mut prepared, statement).into_iter().for_each(|statement| prepared.is_gone(statement));
        }
        assert_eq!(prepared.statements.len(), STATEMENTS_MAX);
        assert!(begun.elapsed() < std::time::Duration::from_secs(10), "{:?}", begun.elapsed());
    }
}
