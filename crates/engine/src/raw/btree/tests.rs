//! The tree against the standard library's, alone and among threads.

use super::{BTree, Order};
use preempt::no_preempt;
use std::collections::BTreeSet;
use std::ops::Bound;

type Model = BTreeSet<(Vec<u8>, u64)>;

/// A small generator, so that a failing test replays from its seed.
pub(super) struct Random(pub(super) u64);

impl Random {
    pub(super) fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        mixed ^ (mixed >> 31)
    }

    pub(super) fn below(&mut self, limit: u64) -> u64 {
        self.next() % limit
    }
}

fn insert(tree: &BTree, key: &[u8], row: u64) -> bool {
    no_preempt(|np| tree.insert(key, row, np))
}

fn remove(tree: &BTree, key: &[u8], row: u64) -> bool {
    no_preempt(|np| tree.remove(key, row, np))
}

fn collect(mut cursor: super::Cursor<'_>) -> Vec<(Vec<u8>, u64)> {
    let mut found = Vec::new();
    while let Some((key, row)) = cursor.next() {
        found.push((key.to_vec(), row));
    }
    found
}

/// A key space that is hard on the order: short alphabets, shared prefixes around the 8- and 16-byte edges, zeros and
/// ones at the end, long keys that differ late.
fn awkward_key(random: &mut Random) -> Vec<u8> {
    let length = [0, 1, 2, 7, 8, 9, 15, 16, 17, 18, 24, 40][random.below(12) as usize];
    let alphabet: &[u8] = if random.below(2) == 0 { &[0, 1] } else { &[0, 255] };
    let mut key = vec![alphabet[random.below(2) as usize]; length];
    for byte in key.iter_mut().rev().take(4) {
        *byte = alphabet[random.below(2) as usize];
    }
    key
}

fn dense_key(random: &mut Random) -> Vec<u8> {
    random.below(400).to_be_bytes().to_vec()
}

fn check_ranges(tree: &BTree, model: &Model, lower: &[u8], upper: &[u8]) {
    let bounds = |key: &[u8]| [Bound::Included(key.to_vec()), Bound::Excluded(key.to_vec()), Bound::Unbounded];
    for low in bounds(lower) {
        for high in bounds(upper) {
            let inside = |key: &Vec<u8>| {
                let above = match &low {
                    Bound::Included(bound) => bound <= key,
                    Bound::Excluded(bound) => bound < key,
                    Bound::Unbounded => true,
                };
                let below = match &high {
                    Bound::Included(bound) => key <= bound,
                    Bound::Excluded(bound) => key < bound,
                    Bound::Unbounded => true,
                };
                above && below
            };
            let mut expected: Vec<_> = model.iter().filter(|(key, _)| inside(key)).cloned().collect();
            let low = low.as_ref().map(Vec::as_slice);
            let high = high.as_ref().map(Vec::as_slice);
            assert_eq!(collect(tree.range(low, high, Order::Ascending)), expected);
            expected.reverse();
            assert_eq!(collect(tree.range(low, high, Order::Descending)), expected);
        }
    }
    let mut expected: Vec<_> = model.iter().filter(|(key, _)| key.starts_with(lower)).cloned().collect();
    assert_eq!(collect(tree.prefix(lower, Order::Ascending)), expected);
    expected.reverse();
    assert_eq!(collect(tree.prefix(lower, Order::Descending)), expected);
}

/// Goal: every operation agrees with `BTreeSet`. Method: random operations from a seed, phases that grow and shrink.
fn against_model(seed: u64, operations: u64, key_of: fn(&mut Random) -> Vec<u8>) {
    let mut random = Random(seed);
    let tree = BTree::new();
    let mut model = Model::new();
    for operation in 0..operations {
        let key = key_of(&mut random);
        let row = random.below(6);
        let growing = (operation * 4 / operations).is_multiple_of(2);
        let choice = random.below(10);
        if choice < if growing { 7 } else { 2 } {
            assert_eq!(insert(&tree, &key, row), model.insert((key.clone(), row)), "seed {seed}");
        } else {
            // Of what is there, mostly.
            let near = model.range((key.clone(), row)..).next().cloned().unwrap_or((key.clone(), row));
            assert_eq!(remove(&tree, &near.0, near.1), model.remove(&near), "seed {seed}");
        }
        let first = model.range((key.clone(), 0)..=(key.clone(), u64::MAX)).next().map(|(_, row)| *row);
        assert_eq!(tree.first(&key), first, "seed {seed}");
        if operation % 64 == 0 {
            let other = key_of(&mut random);
            check_ranges(&tree, &model, key.as_slice().min(&other), key.as_slice().max(&other));
        }
    }
    assert_eq!(tree.len(), model.len());
    tree.check();
    for (key, row) in &model {
        assert!(remove(&tree, key, *row));
    }
    assert_eq!(tree.len(), 0);
    tree.check();
    assert!(tree.nodes() <= 3, "{} nodes hold nothing", tree.nodes());
}

const OPERATIONS: u64 = if cfg!(miri) { 600 } else { 20_000 };
const SEEDS: u64 = if cfg!(miri) { 1 } else { 8 };

#[test]
fn awkward_keys_agree_with_the_model() {
    (0..SEEDS).for_each(|seed| against_model(seed, OPERATIONS, awkward_key));
}

#[test]
fn dense_keys_agree_with_the_model() {
    (0..SEEDS).for_each(|seed| against_model(100 + seed, OPERATIONS, dense_key));
}
