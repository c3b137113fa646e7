//! The version word of a node: the latch of writers and the witness of readers.
//!
//! **Invariant:** while the word reads `v`, unlocked, the node's contents are those that every other reader saw at `v`;
//! every change of contents happens between [`VersionLock::upgrade`] and an unlock that leaves a word never used
//! before. A reader therefore copies what it needs with relaxed loads and then asks [`VersionLock::validate`]; if the
//! word moved it throws the copies away. It never writes, so it may be paused at any instruction.
//!
//! ```text
//!   63                             2        1          0
//!  | counter, +1 for each change   | locked | obsolete |
//! ```
//!
//! No thread waits while holding one: `upgrade` fails instead. (The one exception, and why it cannot deadlock, is told
//! at [`BTree::insert_unique`](super::BTree::insert_unique).)

use core::sync::atomic::Ordering;
#[cfg(not(feature = "shuttle"))]
use core::sync::atomic::{AtomicU64, fence};
#[cfg(feature = "shuttle")]
use shuttle::sync::atomic::{AtomicU64, fence};

const OBSOLETE: u64 = 1;
const LOCKED: u64 = 2;
const CHANGE: u64 = 4;

/// Signal to begin again at the root: the contents that a reader saw moved, or a writer has the node.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Restart;

/// Version word.
pub(super) struct VersionLock(AtomicU64);

impl VersionLock {
    pub(super) fn new() -> VersionLock {
        VersionLock(AtomicU64::new(0))
    }

    /// Returns the version to read under, unless a writer is at work or the node has left the tree.
    #[inline]
    pub(super) fn read(&self) -> Result<u64, Restart> {
        // Acquire pairs with the release of the unlock: the contents of this version are visible.
        let version = self.0.load(Ordering::Acquire);
        if version & (LOCKED | OBSOLETE) == 0 { Ok(version) } else { Err(Restart) }
    }

    /// Checks that nothing changed since [`read`](Self::read) returned `version`.
    #[inline]
    pub(super) fn validate(&self, version: u64) -> Result<(), Restart> {
        // If a relaxed load before this fence saw a store of a later writer, then the writer's release fence in
        // `upgrade` and this acquire fence synchronise, and the load below sees that writer's lock bit or later
        // (Boehm, "Can seqlocks get along with programming language memory models?", MSPC 2012).
        fence(Ordering::Acquire);
        if self.0.load(Ordering::Relaxed) == version { Ok(()) } else { Err(Restart) }
    }

    /// Turns a reader at `version` into the writer; fails rather than waits.
    #[inline]
    pub(super) fn upgrade(&self, version: u64) -> Result<(), Restart> {
        let locked = version | LOCKED;
        match self.0.compare_exchange(version, locked, Ordering::Acquire, Ordering::Relaxed) {
            Ok(_) => {
                // Orders the lock bit before every store to the contents; see `validate`.
                fence(Ordering::Release);
                Ok(())
            }
            Err(_) => Err(Restart),
        }
    }

    /// Ends a change. Only the writer may call it.
    #[inline]
    pub(super) fn unlock_changed(&self) {
        let version = self.0.load(Ordering::Relaxed);
        debug_assert!(version & LOCKED != 0);
        self.0.store((version & !LOCKED) + CHANGE, Ordering::Release);
    }

    /// Ends a lock under which nothing was changed: readers go on undisturbed.
    #[inline]
    pub(super) fn unlock_unchanged(&self) {
        let version = self.0.load(Ordering::Relaxed);
        debug_assert!(version & LOCKED != 0);
        self.0.store(version & !LOCKED, Ordering::Release);
    }

    /// Ends the node's life in the tree: a reader that still sees it restarts.
    #[inline]
    pub(super) fn unlock_obsolete(&self) {
        let version = self.0.load(Ordering::Relaxed);
        debug_assert!(version & LOCKED != 0);
        self.0.store((version & !LOCKED) + CHANGE + OBSOLETE, Ordering::Release);
    }
}
