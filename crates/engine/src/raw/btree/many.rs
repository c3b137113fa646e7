//! Batches of look-ups whose cache misses overlap.
//!
//! **Invariant:** each look-up follows the rule of a single one, a node at a time, and one that finds a node changed is
//! done again by itself. Only the order differs: all of them go one level down before any goes two, and each asks for
//! its next node's lines before the others need the processor. (A look-up waits for memory most of its time: on 100,000
//! rows of TPC-C's stock table it meets six to eight lines that are not in the nearest cache.)

use super::epoch::{self, EpochPin};
use super::key::Probe;
use super::node::{Node, NodeRef};
use super::version::Restart;
use super::{BTree, LeafLookup};

/// Largest number of look-ups at a time: more than a processor has misses under way.
pub(crate) const MANY: usize = 40;
const _: () = assert!(MANY <= u64::BITS as usize, "a bit each");

/// Finds the lowest row id with each of the keys, each in a tree of its own; at most [`MANY`].
pub(crate) fn first_many(lookups: &[(&BTree, &[u8])], rows: &mut [Option<u64>]) {
    assert!(lookups.len() <= MANY);
    assert!(lookups.len() == rows.len());
    // Look-ups that met a change, by bit.
    let mut again = 0_u64;
    {
        let pin = epoch::pin();
        let mut places = [const { None }; MANY];
        for (place, (tree, key)) in places.iter_mut().zip(lookups) {
            *place = tree.enter(&pin).ok().map(|(node, version)| LookupProgress {
                node,
                version,
                probe: Probe::new(key, 0),
                group: 0,
            });
        }
        let places = &mut places[..lookups.len()];
        loop {
            for place in places.iter_mut().flatten() {
                place.group = place.node.prefetch_second_round(&place.probe);
            }
            if !go_down(places, &pin) {
                break;
            }
        }
        for (at, (row, place)) in rows.iter_mut().zip(places).enumerate() {
            *row = match place.as_ref().map(LookupProgress::look) {
                Some(Ok(LeafLookup::Found(row))) => Some(row),
                Some(Ok(LeafLookup::Absent)) => None,
                Some(Ok(LeafLookup::NextLeaf) | Err(Restart)) | None => {
                    again |= 1 << at;
                    None
                }
            };
        }
    }
    while again != 0 {
        let at = again.trailing_zeros() as usize;
        again &= again - 1;
        let (tree, key) = lookups[at];
        rows[at] = tree.first(key);
    }
}

/// Progress of a look-up.
struct LookupProgress<'p, 'k> {
    node: NodeRef<'p>,
    version: u64,
    probe: Probe<'k>,
    /// Group of the node in which the search goes on, once its first round is done.
    group: usize,
}

impl LookupProgress<'_, '_> {
    #[inline]
    fn look(&self) -> Result<LeafLookup, Restart> {
        look(self.node, self.version, self.node.rank_in(self.group, &self.probe), &self.probe)
    }
}

/// Takes each look-up one level down. Returns true if there was one that was not at a leaf.
#[inline]
fn go_down<'p>(places: &mut [Option<LookupProgress<'p, '_>>], pin: &'p EpochPin) -> bool {
    let mut children = [core::ptr::null_mut::<Node>(); MANY];
    let mut moved = false;
    for (slot, next) in places.iter_mut().zip(&mut children) {
        let Some(place) = slot.as_ref().filter(|place| !place.node.is_leaf()) else { continue };
        let child = place.node.child(place.node.rank_in(place.group, &place.probe.after()));
        if place.node.lock.validate(place.version).is_ok() {
            NodeRef::prefetch(child);
            *next = child;
            moved = true;
        } else {
            *slot = None;
        }
    }
    for (slot, child) in places.iter_mut().zip(children).filter(|(_, child)| !child.is_null()) {
        let Some(place) = slot else { continue };
        match place.node.arrive(place.version, child, pin) {
            Ok((node, version)) => (place.node, place.version) = (node, version),
            Err(Restart) => *slot = None,
        }
    }
    moved
}

/// Returns the leaf's answer for the probe's key, which belongs at this index.
#[inline]
pub(super) fn look(leaf: NodeRef<'_>, version: u64, at: usize, probe: &Probe<'_>) -> Result<LeafLookup, Restart> {
    if leaf.count() <= at {
        leaf.lock.validate(version)?;
        return Ok(LeafLookup::NextLeaf);
    }
    let found = if leaf.has_key(at, probe) { LeafLookup::Found(leaf.row(at)) } else { LeafLookup::Absent };
    leaf.lock.validate(version)?;
    Ok(found)
}
