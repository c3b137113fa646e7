//! The tree against the standard library's, alone and among threads.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use super::{BTree, Occupied, RUN_MAX, ScanDirection};
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
            assert_eq!(collect(tree.range(low, high, ScanDirection::Ascending)), expected);
            expected.reverse();
            assert_eq!(collect(tree.range(low, high, ScanDirection::Descending)), expected);
        }
    }
    let mut expected: Vec<_> = model.iter().filter(|(key, _)| key.starts_with(lower)).cloned().collect();
    assert_eq!(collect(tree.prefix(lower, ScanDirection::Ascending)), expected);
    expected.reverse();
    assert_eq!(collect(tree.prefix(lower, ScanDirection::Descending)), expected);
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
        if operation % 512 == 0 {
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

const OPERATIONS: u64 = if cfg!(miri) { 250 } else { 20_000 };
const SEEDS: u64 = if cfg!(miri) { 1 } else { 4 };

#[test]
fn awkward_keys_agree_with_the_model() {
    (0..SEEDS).for_each(|seed| against_model(seed, OPERATIONS, awkward_key));
}

#[test]
fn dense_keys_agree_with_the_model() {
    (0..SEEDS).for_each(|seed| against_model(100 + seed, OPERATIONS, dense_key));
}

/// Goal: a tail appended to or consumed keeps the tree dense and small. Method: a queue, inserts at the right and deletes
/// at the left, of which the tree must never hold more nodes than its entries need.
#[test]
fn a_queue_does_not_grow() {
    let (length, width) = if cfg!(miri) { (300, 100) } else { (300_000, 5_000) };
    let tree = BTree::new();
    for at in 0..length + width {
        if at < length {
            assert!(insert(&tree, &u64::to_be_bytes(at), at));
        }
        if width <= at {
            assert!(remove(&tree, &u64::to_be_bytes(at - width), at - width));
        }
        if at % 1_000 == 0 {
            let needed = tree.len() / 60 + 2;
            assert!(tree.nodes() <= needed + needed / 16 + 4, "{} nodes for {}", tree.nodes(), tree.len());
            assert_eq!(tree.first(&u64::to_be_bytes(at)), (at < length).then_some(at));
        }
    }
    assert_eq!(tree.len(), 0);
    tree.check();
    assert_eq!(tree.nodes(), 1);
}

/// Goal: order lines of several districts, each ascending but interleaved, fill their leaves.
#[test]
fn interleaved_ascending_runs_fill_leaves() {
    let (districts, orders) = if cfg!(miri) { (2, 30) } else { (10, 1_000) };
    let tree = BTree::new();
    let mut random = Random(5);
    for order in 0..orders {
        for turn in 0..districts {
            let district = random.below(districts);
            for line in 0..10 {
                let low: u64 = (order * districts + turn) << 8 | line;
                let key = [district.to_be_bytes(), low.to_be_bytes()].concat();
                insert(&tree, &key, line);
            }
        }
    }
    tree.check();
    assert!(tree.len() <= tree.nodes() * 63);
    if !cfg!(miri) {
        assert!(tree.nodes() * 63 * 8 / 10 <= tree.len(), "{} nodes for {}", tree.nodes(), tree.len());
    }
}

/// Goal: what left the tree is freed, long keys too. Method: fill, empty, collect.
#[test]
fn a_mass_delete_returns_the_memory() {
    let count = if cfg!(miri) { 100 } else { 20_000 };
    let tree = BTree::new();
    let key_of = |at: u64| format!("a key that is longer than sixteen bytes {at:08}").into_bytes();
    (0..count).for_each(|at| assert!(insert(&tree, &key_of(at), at)));
    let full = tree.nodes();
    assert!(count as usize / 63 < full);
    (0..count).rev().for_each(|at| assert!(remove(&tree, &key_of(at), at)));
    assert_eq!(tree.nodes(), 1);
    // Others' pins may hold an epoch back for a moment.
    while 0 < tree.waiting() {
        while no_preempt(|np| tree.collect(np)) {}
        std::thread::yield_now();
    }
    assert!(insert(&tree, b"again", 1));
    tree.check();
}

/// Goal: the rows of one key may fill many leaves. Method: 1,000 rows, look-ups and unique inserts around them.
#[test]
fn one_key_with_many_rows() {
    let rows = if cfg!(miri) { 80 } else { 1_000 };
    for key in [&b"short"[..], b"a key that is longer than sixteen bytes"] {
        let tree = BTree::new();
        insert(&tree, b"a", 9);
        insert(&tree, b"z", 9);
        for row in (1..=rows).map(|row| row * 7 % 1_009) {
            assert!(insert(&tree, key, row));
        }
        tree.check();
        let mut expected: Vec<u64> = (1..=rows).map(|row| row * 7 % 1_009).collect();
        expected.sort_unstable();
        let mut found = Vec::new();
        tree.for_each(key, &mut |row| {
            found.push(row);
            true
        });
        assert_eq!(found, expected);
        assert_eq!(tree.first(key), Some(expected[0]));
        // Each row is asked about; the last one counts.
        let last = expected[expected.len() - 1];
        let result = no_preempt(|np| tree.insert_unique(key, 2_000, np, &mut |row| row == last));
        assert_eq!(result, Err(last));
        // None counts: the new row goes before, between and behind.
        let between = (expected[0]..).find(|row| !expected.contains(row)).unwrap();
        for row in [0, 2_000_000, between] {
            let mut asked = Vec::new();
            let result = no_preempt(|np| {
                tree.insert_unique(key, row, np, &mut |row| {
                    asked.push(row);
                    false
                })
            });
            assert_eq!(result, Ok(()));
            assert_eq!(
                asked,
                collect(tree.rows(key)).into_iter().map(|(_, row)| row).filter(|at| *at != row).collect::<Vec<_>>()
            );
        }
        tree.check();
    }
}

/// Goal: a panic in `check` leaves no lock behind.
#[test]
fn a_panic_in_check_unlocks_the_leaf() {
    let tree = BTree::new();
    insert(&tree, b"key", 1);
    let panicked = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
        no_preempt(|np| tree.insert_unique(b"key", 2, np, &mut |_| panic!("planted")))
    }));
    assert!(panicked.is_err());
    assert!(insert(&tree, b"key", 2));
}

/// Goal: a cursor that waits holds nothing and misses nothing. Method: another "context" empties, refills and splits the
/// tree between its steps, as an urgent one may.
#[test]
fn a_cursor_survives_what_happens_between_its_steps() {
    let count: u64 = if cfg!(miri) { 30 } else { 4_000 };
    for order in [ScanDirection::Ascending, ScanDirection::Descending] {
        let tree = BTree::new();
        for at in 0..count {
            insert(&tree, &(at * 4).to_be_bytes(), at);
        }
        let mut random = Random(11);
        let mut cursor = tree.prefix(b"", order);
        let mut before: Option<u64> = None;
        let mut kept = 0;
        while let Some((key, _)) = cursor.next() {
            let key = u64::from_be_bytes(key.try_into().unwrap());
            if let Some(before) = before {
                assert!(if order == ScanDirection::Ascending { before < key } else { key < before });
            }
            before = Some(key);
            kept += u64::from(key % 4 == 0);
            // Multiples of four stay; the rest come and go.
            for _ in 0..4 {
                let other = random.below(count * 4) | 1;
                if !insert(&tree, &other.to_be_bytes(), 1) {
                    remove(&tree, &other.to_be_bytes(), 1);
                }
                assert_eq!(tree.first(&(other / 4 * 4).to_be_bytes()), Some(other / 4));
            }
        }
        assert_eq!(kept, count);
        tree.check();
    }
}

/// Goal: a look-up that was interrupted at any point finds what is there. Method: a timer-like context that nests inside
/// look-ups is simulated by entering an urgent context while a pin is held, and changing the leaf that was read.
#[test]
fn a_nested_context_may_change_what_a_look_up_reads() {
    let tree = BTree::new();
    for at in 0..200u64 {
        insert(&tree, &at.to_be_bytes(), at);
    }
    let pin = super::epoch::pin();
    let probe = super::key::Probe::new(&[0, 0, 0, 0, 0, 0, 0, 20], 0);
    let (leaf, version) = tree.descend(&probe, &pin).unwrap();
    let at = leaf.rank(&probe);
    // The urgent context: it has a pin of its own, and removes the very leaf.
    let mut nested = || {
        for at in 0..200u64 {
            assert_eq!(tree.first(&at.to_be_bytes()), Some(at));
            assert!(remove(&tree, &at.to_be_bytes(), at));
        }
        while no_preempt(|np| tree.collect(np)) {}
    };
    if cfg!(miri) {
        nested()
    } else {
        preempt::enter_urgent(&mut nested)
    }
    // The leaf is still there to be read, and what was read does not count.
    let _ = leaf.entry(at.min(62));
    assert!(leaf.lock.validate(version).is_err());
    assert!(0 < tree.waiting());
    drop(pin);
    assert_eq!(tree.first(&20u64.to_be_bytes()), None);
}

/// Goal: many look-ups at a time find what each finds alone, at every number of keys. Method: keys that are there, keys
/// between them, keys before the first and after the last, and one whose rows begin in the next leaf.
#[test]
fn many_look_ups_agree_with_single_ones() {
    use super::{MANY, first_many};
    let count: u64 = if cfg!(miri) { 150 } else { 5_000 };
    let (tree, small) = (BTree::new(), BTree::new());
    for at in 0..count {
        insert(&tree, &(at * 2 + 10).to_be_bytes(), at);
        if at % 100 == 0 {
            insert(&small, &(at * 2 + 10).to_be_bytes(), at + 1);
        }
    }
    let mut random = Random(3);
    for round in 0..if cfg!(miri) { 20 } else { 2_000 } {
        let keys: Vec<_> = (0..round % (MANY + 1)).map(|_| random.below(count * 2 + 20).to_be_bytes()).collect();
        let tree_of = |at: usize| if at % 3 == 1 { &small } else { &tree };
        let lookups: Vec<(&BTree, &[u8])> = keys.iter().enumerate().map(|(at, key)| (tree_of(at), &key[..])).collect();
        let mut rows = vec![Some(u64::MAX); keys.len()];
        first_many(&lookups, &mut rows);
        let alone: Vec<_> = lookups.iter().map(|(tree, key)| tree.first(key)).collect();
        assert_eq!(rows, alone);
    }
}

/// Runs across many leaves, in the middle and at the ends of the tree, with keys that are held and rows that do not
/// count: a run does what its keys one by one would have done.
#[test]
fn a_run_does_what_its_keys_one_by_one_do() {
    let mut random = Random(7);
    let mut below = |bound: u64| random.next() % bound;
    let (together, singly) = (BTree::new(), BTree::new());
    for round in 0..if cfg!(miri) { 20 } else { 3_000_u64 } {
        let first = below(20_000);
        let count = 1 + below(RUN_MAX as u64);
        let step = 1 + below(3);
        let bytes: Vec<Vec<u8>> = (0..count)
            .map(|at| {
                let mut key = (first + at * step).to_be_bytes().to_vec();
                if round % 3 == 0 {
                    key.extend_from_slice(b"a tail that makes the key a long one");
                }
                key
            })
            .collect();
        let keys: Vec<&[u8]> = bytes.iter().map(Vec::as_slice).collect();
        let rows: Vec<u64> = (0..count).map(|at| round * 100 + at).collect();
        // A fifth of the rows count as gone, so keys with several entries come about.
        let counts = |row: u64| !row.is_multiple_of(5);
        let result = no_preempt(|np| together.insert_unique_run(&keys, &rows, np, &mut |_, row| counts(row)));
        let mut expected = Ok(());
        for (at, (key, row)) in keys.iter().zip(&rows).enumerate() {
            if let Err(row) = no_preempt(|np| singly.insert_unique(key, *row, np, &mut |row| counts(row))) {
                expected = Err(Occupied { at, row });
                break;
            }
        }
        assert_eq!(result, expected);
    }
    let all = |tree: &BTree| -> Vec<(Vec<u8>, u64)> {
        let mut cursor = tree.range(Bound::Unbounded, Bound::Unbounded, ScanDirection::Ascending);
        let mut all = Vec::new();
        while let Some((key, row)) = cursor.next() {
            all.push((key.to_vec(), row));
        }
        all
    };
    assert!(if cfg!(miri) { 20 } else { 10_000 } < together.len());
    assert_eq!(all(&together), all(&singly));
}

/// Goal: leaves that the purge of a window thins out are merged. Method: TPC-C's order lines, of several districts, with a
/// purge: behind the window each customer's last order stays, so of all leaves there an entry here and there goes.
#[test]
fn a_window_with_stragglers_stays_dense() {
    let (rounds, customers, window) = if cfg!(miri) { (60, 8, 5) } else { (14_000, 1_000, 600) };
    const DISTRICTS: usize = 3;
    const LINES: u64 = 10;
    let tree = BTree::new();
    let mut random = Random(17);
    let key =
        |district: usize, order: u64, line: u64| [district as u64, order << 8 | line].map(u64::to_be_bytes).concat();
    let mut orders: [Vec<u64>; DISTRICTS] = Default::default();
    let mut behind = vec![vec![None; customers]; DISTRICTS];
    for _ in 0..rounds {
        let district = random.below(DISTRICTS as u64) as usize;
        let order = orders[district].len() as u64;
        orders[district].push(random.below(customers as u64));
        (0..LINES).for_each(|line| assert!(insert(&tree, &key(district, order, line), order)));
        let Some(leaving) = order.checked_sub(window) else { continue };
        let customer = orders[district][leaving as usize] as usize;
        if let Some(old) = behind[district][customer].replace(leaving) {
            (0..LINES).for_each(|line| assert!(remove(&tree, &key(district, old, line), old)));
        }
    }
    tree.check();
    if !cfg!(miri) {
        assert!(tree.nodes() * 63 * 5 / 8 <= tree.len(), "{} nodes for {}", tree.nodes(), tree.len());
    }
}
