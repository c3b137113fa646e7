//! The dead: versions and rows that wait until no live snapshot can reach them.
//!
//! **Invariant:** a dead version is in exactly one queue, and is freed by whoever holds that queue once `horizon` has
//! reached its time. A version that a commit ended is dead from the commit's timestamp: whoever reads later sees its
//! successor first and never walks past that. A version that was unlinked (undone, or its row deleted) is dead from a
//! tick of the clock taken *after* the unlinking: whoever registered later cannot find it.

use super::slots::Pin;
use super::version::{Version, VersionPtr};
use std::collections::VecDeque;

/// What is to be done with a dead version.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Rest {
    /// It is out of reach: free it.
    Free,
    /// Its row was deleted: remove the row's index entries and its place in the map first. The map owns it until then.
    Unlink,
}

/// A dead version.
#[derive(Debug)]
pub(crate) struct Dead {
    at: u64,
    version: VersionPtr,
    /// Indexes, by bit, that may have an entry only for its key.
    pub(crate) keys: u64,
    pub(crate) table: u32,
    pub(crate) rest: Rest,
}

impl Dead {
    /// A version that nobody whose snapshot is `at` or later can reach.
    #[inline]
    pub(crate) fn new(at: u64, version: VersionPtr, table: u32, rest: Rest, keys: u64) -> Dead {
        Dead { at, version, keys, table, rest }
    }

    /// Its image and row, for as long as it is in the queue.
    pub(crate) fn version<'p>(&self, pin: &'p Pin) -> &'p Version {
        self.version.get(pin)
    }

    /// The same, unlinked at a later time.
    pub(crate) fn unlinked(self, at: u64) -> Dead {
        Dead { at, rest: Rest::Free, keys: 0, ..self }
    }

    /// The same, to be looked at again when the horizon has reached `at`.
    pub(crate) fn later(self, at: u64) -> Dead {
        Dead { at: self.at.max(at), ..self }
    }

    /// Frees it and returns how many bytes that were.
    fn free(self) -> usize {
        debug_assert_eq!(self.rest, Rest::Free);
        // SAFETY: the invariant above: the queue owned it, and the horizon has reached its time or the engine ends.
        unsafe { self.version.free() }
    }
}

/// A queue of the dead, in the order of their times.
#[derive(Debug, Default)]
pub(crate) struct Graveyard(VecDeque<Dead>);

impl Graveyard {
    /// Adds one.
    #[inline]
    pub(crate) fn push(&mut self, dead: Dead) {
        self.0.push_back(dead);
    }

    /// Whether the first could go now.
    #[inline]
    pub(crate) fn is_due(&self, horizon: u64) -> bool {
        self.0.front().is_some_and(|dead| dead.at <= horizon)
    }

    /// Frees the first if it is due and nothing has to be done before. Returns its bytes.
    #[inline]
    pub(crate) fn free_first(&mut self, horizon: u64) -> Option<usize> {
        let first = self.0.front()?;
        if first.at <= horizon && first.rest == Rest::Free && first.keys == 0 {
            return self.0.pop_front().map(Dead::free);
        }
        None
    }

    /// Takes out the first if it is due.
    pub(crate) fn pop_due(&mut self, horizon: u64) -> Option<Dead> {
        if self.is_due(horizon) { self.0.pop_front() } else { None }
    }

    /// Puts one back in front: what had to be done before was done.
    pub(crate) fn push_first(&mut self, dead: Dead) {
        self.0.push_front(dead);
    }
}

impl Graveyard {
    /// The engine ends: frees all. What is still linked belongs to its table's row map.
    ///
    /// Not a destructor: a graveyard that is dropped earlier, by a panic halfway through a commit, leaks, because
    /// readers may still reach what is in it. So this is for who knows that there are none, which `&mut` of the whole
    /// engine proves.
    pub(crate) fn free_all(&mut self) {
        for dead in self.0.drain(..).filter(|dead| dead.rest == Rest::Free) {
            dead.free();
        }
    }
}
