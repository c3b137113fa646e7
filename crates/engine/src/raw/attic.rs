//! Blocks and cells that were replaced, until no live snapshot can reach them.
//!
//! **Invariant:** an object that is put in was unlinked before the tick of the clock that comes with it: a snapshot
//! that registers later cannot find it. It is freed when the horizon has reached that tick. An attic that is dropped,
//! by a panic, leaks.

use super::rows::Cells;
use crate::frozen::block::Block;
use std::collections::VecDeque;
use std::mem::ManuallyDrop;
use std::sync::Arc;

/// Former part of a chunk.
pub(crate) enum RetiredPart {
    Block(ManuallyDrop<Arc<Block>>),
    Cells(ManuallyDrop<Box<Cells>>),
}

impl RetiredPart {
    pub(super) fn block(block: Arc<Block>) -> RetiredPart {
        RetiredPart::Block(ManuallyDrop::new(block))
    }

    pub(super) fn cells(cells: Box<Cells>) -> RetiredPart {
        RetiredPart::Cells(ManuallyDrop::new(cells))
    }

    fn free(self) {
        match self {
            RetiredPart::Block(block) => drop(ManuallyDrop::into_inner(block)),
            RetiredPart::Cells(cells) => drop(ManuallyDrop::into_inner(cells)),
        }
    }
}

/// Queue of replaced parts, in the order of their times.
#[derive(Default)]
pub(crate) struct Attic(VecDeque<(u64, RetiredPart)>);

impl Attic {
    pub(crate) fn push(&mut self, at: u64, replaced: RetiredPart) {
        self.0.push_back((at, replaced));
    }

    /// Frees every part whose time the horizon has reached.
    pub(crate) fn free_due(&mut self, horizon: u64) {
        while let Some((at, _)) = self.0.front()
            && *at <= horizon
            && let Some((_, replaced)) = self.0.pop_front()
        {
            replaced.free();
        }
    }

    /// Frees every part as the engine ends. Only for a caller that knows that there are no readers, which `&mut` of the
    /// whole engine proves.
    pub(crate) fn free_all(&mut self) {
        self.0.drain(..).for_each(|(_, replaced)| replaced.free());
    }
}
