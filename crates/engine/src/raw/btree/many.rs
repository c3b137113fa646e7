//! Many look-ups at a time: their cache misses overlap.
//!
//! **Invariant:** each look-up follows the rule of a single one, a node at a time, and one that finds a node changed is
//! done again by itself. What differs is only the order: all of them go one level down before any goes two, and each asks
//! for its next node's lines before the others need the processor. (A look-up waits for memory most of its time: on
//! 100,000 rows of TPC-C's stock table it meets six to eight lines that are not in the nearest cache.)

use super::epoch::{self, Pin};
use super::key::Probe;
use super::node::{Node, NodeRef};
use super::version::Restart;
use super::{BTree, Lookup};

/// The most look-ups at a time: more than a processor has misses under way.
pub(crate) const MANY: usize = 16;

impl BTree {
    /// The lowest row id with each of the keys, at most [`MANY`].
    pub(crate) fn first_many(&self, keys: &[&[u8]], rows: &mut [Option<u64>]) {
        assert!(keys.len() <= MANY);
        assert!(keys.len() == rows.len());
        // Those that met a change, by bit.
        let mut again = 0_u32;
        {
            let pin = epoch::pin();
            let probes: [Probe<'_>; MANY] =
                core::array::from_fn(|at| Probe::new(keys.get(at).copied().unwrap_or(&[]), 0));
            let mut places = [None; MANY];
            for place in &mut places[..keys.len()] {
                *place = self.enter(&pin).ok();
            }
            while self.go_down(&probes[..keys.len()], &mut places, &pin) {}
            for (place, probe) in places.iter().zip(&probes) {
                if let Some((leaf, _)) = place {
                    leaf.prefetch_second_round(probe);
                }
            }
            for (at, row) in rows.iter_mut().enumerate() {
                let found = places[at].map(|(leaf, version)| look(leaf, version, &probes[at]));
                *row = match found {
                    Some(Ok(Lookup::Found(row))) => Some(row),
                    Some(Ok(Lookup::Absent)) => None,
                    Some(Ok(Lookup::NextLeaf) | Err(Restart)) | None => {
                        again |= 1 << at;
                        None
                    }
                };
            }
        }
        while again != 0 {
            let at = again.trailing_zeros() as usize;
            again &= again - 1;
            rows[at] = self.first(keys[at]);
        }
    }

    /// Takes each look-up one level down. Says whether one of them may have further to go.
    #[inline]
    fn go_down<'p>(&self, probes: &[Probe<'_>], places: &mut [Option<(NodeRef<'p>, u64)>; MANY], pin: &'p Pin) -> bool {
        let mut children = [core::ptr::null_mut::<Node>(); MANY];
        let mut moved = false;
        for (at, probe) in probes.iter().enumerate() {
            let Some((node, version)) = places[at] else { continue };
            if node.is_leaf() {
                continue;
            }
            let child = node.child(node.rank(&probe.after()));
            if node.lock.validate(version).is_ok() {
                NodeRef::prefetch(child);
                children[at] = child;
                moved = true;
            } else {
                places[at] = None;
            }
        }
        for (at, child) in children.into_iter().enumerate().filter(|(_, child)| !child.is_null()) {
            places[at] = places[at].and_then(|(node, version)| node.arrive(version, child, pin).ok());
        }
        moved
    }
}

/// What the leaf where the probe belongs says of its key.
#[inline]
pub(super) fn look(leaf: NodeRef<'_>, version: u64, probe: &Probe<'_>) -> Result<Lookup, Restart> {
    let at = leaf.rank(probe);
    if leaf.count() <= at {
        leaf.lock.validate(version)?;
        return Ok(Lookup::NextLeaf);
    }
    let found = if leaf.has_key(at, probe) { Lookup::Found(leaf.row(at)) } else { Lookup::Absent };
    leaf.lock.validate(version)?;
    Ok(found)
}
