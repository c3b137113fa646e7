//! Checks the invariants of a tree at rest, for tests.

use super::BTree;
use super::epoch::{self, EpochPin};
use super::key::NodeEntry;
use super::node::NodeRef;

struct TreeCounts {
    entries: usize,
    nodes: usize,
}

impl BTree {
    /// Panics if an invariant of the tree does not hold. No thread may write meanwhile.
    pub(super) fn check(&self) {
        let pin = epoch::pin();
        let (root, _) = self.enter(&pin).expect("a tree at rest has no writer");
        let mut seen = TreeCounts { entries: 0, nodes: 0 };
        check_node(root, None, None, &pin, &mut seen);
        assert_eq!(seen.entries, self.len());
        assert_eq!(seen.nodes, self.nodes());
    }
}

fn check_node(
    node: NodeRef<'_>,
    lower: Option<NodeEntry>,
    upper: Option<NodeEntry>,
    pin: &EpochPin,
    seen: &mut TreeCounts,
) {
    let version = node.lock.read().expect("a tree at rest has no writer");
    seen.nodes += 1;
    let count = node.count();
    let mut before = lower;
    for at in 0..count {
        let entry = node.entry(at);
        // SAFETY: loaded under this pin.
        let probe = unsafe { entry.probe() };
        if let Some(before) = before {
            // SAFETY: as above.
            let order = unsafe { before.compare(&probe) };
            // A leaf's first entry may equal the separator before it.
            let may_equal = node.is_leaf() && at == 0;
            assert!(order.is_lt() || may_equal && order.is_eq());
        }
        if let Some(upper) = upper {
            // SAFETY: as above.
            assert!(unsafe { upper.compare(&probe) }.is_gt());
        }
        before = Some(entry);
    }
    node.check_padding();
    if node.is_leaf() {
        seen.entries += count;
    } else {
        for at in 0..=count {
            let (child, _) = node.step(version, at, pin).expect("a tree at rest has no writer");
            assert_eq!(child.level() + 1, node.level());
            let lower = if at == 0 { lower } else { Some(node.entry(at - 1)) };
            let upper = if at == count { upper } else { Some(node.entry(at)) };
            check_node(child, lower, upper, pin, seen);
        }
    }
    node.lock.validate(version).expect("a tree at rest has no writer");
}
