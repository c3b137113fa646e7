//! The tree among threads: its guarantees while others write, and its invariants at rest afterwards.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use super::tests::Random;
use super::{BTree, MANY, ScanDirection, first_many};
use preempt::no_preempt;
use std::sync::Barrier;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};

const THREADS: u64 = 4;
const ROUNDS: u64 = if cfg!(miri) { 30 } else { 30_000 };

fn short(at: u64) -> Vec<u8> {
    at.to_be_bytes().to_vec()
}

fn long(at: u64) -> Vec<u8> {
    format!("all of these keys share their first bytes {at:09}").into_bytes()
}

/// Goal: threads that write disjoint keys in the same leaves lose nothing, and readers see each key from its insert to its
/// remove. Method: thread `t` owns the keys equal to `t` modulo the threads, and knows which of them are there.
fn disjoint_writers(key_of: fn(u64) -> Vec<u8>, keys: u64) {
    let tree = BTree::new();
    let barrier = Barrier::new(THREADS as usize);
    let left: u64 = std::thread::scope(|scope| {
        let writers: Vec<_> = (0..THREADS)
            .map(|thread| {
                let (tree, barrier) = (&tree, &barrier);
                scope.spawn(move || {
                    let mut random = Random(thread);
                    let mut there = vec![false; keys as usize];
                    barrier.wait();
                    for round in 0..ROUNDS {
                        let at = random.below(keys);
                        let key = key_of(at * THREADS + thread);
                        let is_there = &mut there[at as usize];
                        assert_eq!(tree.first(&key), is_there.then_some(at));
                        let growing = (round * 4 / ROUNDS).is_multiple_of(2);
                        if random.below(4) < if growing { 3 } else { 1 } {
                            assert_eq!(no_preempt(|np| tree.insert(&key, at, np)), !*is_there);
                            *is_there = true;
                        } else {
                            assert_eq!(no_preempt(|np| tree.remove(&key, at, np)), *is_there);
                            *is_there = false;
                        }
                    }
                    there.into_iter().filter(|is_there| *is_there).count() as u64
                })
            })
            .collect();
        writers.into_iter().map(|writer| writer.join().expect("a writer does not panic")).sum()
    });
    assert_eq!(tree.len() as u64, left);
    tree.check();
}

#[test]
fn disjoint_writers_lose_nothing() {
    disjoint_writers(short, if cfg!(miri) { 40 } else { 2_000 });
}

#[test]
fn disjoint_writers_of_long_keys_lose_nothing() {
    disjoint_writers(long, if cfg!(miri) { 40 } else { 2_000 });
}

/// Goal: a range sees every entry that stays, once and in order, while leaves split and merge under it. Method: even keys
/// stay; writers add and remove the odd ones, in bursts that split and merge leaves; readers walk in both directions, and one
/// looks up many keys at a time.
fn ranges_under_change(key_of: fn(u64) -> Vec<u8>) {
    let keys: u64 = if cfg!(miri) { 60 } else { 3_000 };
    let walks = if cfg!(miri) { 3 } else { 20 };
    let tree = BTree::new();
    for at in 0..keys {
        no_preempt(|np| tree.insert(&key_of(at * 8), at * 8, np));
    }
    // Only the readers count their rounds: the writers change leaves until the last reader has ended.
    let stop = AtomicBool::new(false);
    std::thread::scope(|scope| {
        for thread in 0..2 {
            let (tree, stop) = (&tree, &stop);
            scope.spawn(move || {
                let mut random = Random(thread);
                while !stop.load(Relaxed) {
                    let start = random.below(keys) * 8;
                    let burst: Vec<_> = (start..start + 400).filter(|at| at % 8 != 0 && at % 2 == thread).collect();
                    for at in &burst {
                        no_preempt(|np| tree.insert(&key_of(*at), *at, np));
                    }
                    for at in &burst {
                        no_preempt(|np| tree.remove(&key_of(*at), *at, np));
                    }
                }
            });
        }
        let many = {
            let tree = &tree;
            scope.spawn(move || {
                let mut random = Random(7);
                for _ in 0..walks * 100 {
                    let wanted: [u64; MANY] = core::array::from_fn(|at| {
                        random.below(keys) * 8 + if at % 4 == 0 { 1 + random.below(7) } else { 0 }
                    });
                    let bytes = wanted.map(key_of);
                    let lookups: Vec<(&BTree, &[u8])> = bytes.iter().map(|key| (tree, &key[..])).collect();
                    let mut rows = [None; MANY];
                    first_many(&lookups, &mut rows);
                    for (at, row) in wanted.into_iter().zip(rows) {
                        assert!(row == Some(at) || (row.is_none() && at % 8 != 0), "{at}: {row:?}");
                    }
                }
            })
        };
        let readers: Vec<_> = [ScanDirection::Ascending, ScanDirection::Descending]
            .map(|order| {
                let tree = &tree;
                scope.spawn(move || {
                    for _ in 0..walks {
                        let mut cursor = tree.prefix(b"", order);
                        let (mut before, mut stayed) = (None, 0);
                        while let Some((key, row)) = cursor.next() {
                            assert_eq!(key, key_of(row));
                            if let Some(before) = before {
                                assert!(if order == ScanDirection::Ascending { before < row } else { row < before });
                            }
                            before = Some(row);
                            stayed += u64::from(row % 8 == 0);
                        }
                        assert_eq!(stayed, keys);
                    }
                })
            })
            .into_iter()
            .collect();
        let results: Vec<_> = readers.into_iter().chain([many]).map(|reader| reader.join()).collect();
        stop.store(true, Relaxed);
        results.into_iter().for_each(|result| result.expect("the other side does not panic"));
    });
    assert_eq!(tree.len() as u64, keys);
    tree.check();
}

#[test]
fn ranges_miss_nothing_while_leaves_split_and_merge() {
    ranges_under_change(short);
}

#[test]
fn ranges_of_long_keys_miss_nothing_while_leaves_split_and_merge() {
    ranges_under_change(long);
}

/// Goal: of all who insert the same key, exactly one wins, also when dead rows of the key fill several leaves. Method:
/// threads race for each key; a row counts as present if its thread has not given it up.
#[test]
fn of_equal_unique_inserts_one_wins() {
    let keys: u64 = if cfg!(miri) { 2 } else { 4_000 };
    let dead: u64 = if cfg!(miri) { 70 } else { 150 };
    let tree = BTree::new();
    // A few keys have many dead rows.
    const DEAD: u64 = 1 << 32;
    let alive = |row: u64| !((DEAD..DEAD + 100_000).contains(&row) && row.is_multiple_of(2));
    for key in (0..keys).step_by(100) {
        for row in 0..dead {
            no_preempt(|np| tree.insert(&short(key), DEAD + row * 2, np));
        }
    }
    let wins: Vec<AtomicU64> = (0..keys).map(|_| AtomicU64::new(0)).collect();
    let barrier = Barrier::new(THREADS as usize);
    std::thread::scope(|scope| {
        for thread in 0..THREADS {
            let (tree, wins, barrier, alive) = (&tree, &wins, &barrier, &alive);
            scope.spawn(move || {
                for key in 0..keys {
                    if key % 64 == 0 {
                        barrier.wait();
                    }
                    // Before, between and behind the dead rows.
                    let row = match thread % 3 {
                        0 => thread,
                        1 => DEAD + 101 + thread * 2,
                        _ => DEAD + 100_001 + thread,
                    };
                    match no_preempt(|np| tree.insert_unique(&short(key), row, np, &mut |row| alive(row))) {
                        Ok(()) => assert_eq!(wins[key as usize].swap(row + 1, Relaxed), 0),
                        Err(winner) => assert!(alive(winner)),
                    }
                }
            });
        }
    });
    for (key, winner) in wins.iter().enumerate() {
        let mut found = Vec::new();
        tree.for_each(&short(key as u64), &mut |row| {
            if alive(row) {
                found.push(row + 1);
            }
            true
        });
        assert_eq!(found, [winner.load(Relaxed)]);
    }
    tree.check();
}

/// Goal: memory that left the tree is freed while others keep reading. Method: a queue whose ends are different threads.
#[test]
fn a_queue_between_threads_stays_small() {
    let length: u64 = if cfg!(miri) { 400 } else { 100_000 };
    let width: u64 = if cfg!(miri) { 100 } else { 2_000 };
    let tree = BTree::new();
    let (head, tail) = (AtomicU64::new(0), AtomicU64::new(0));
    std::thread::scope(|scope| {
        scope.spawn(|| {
            for at in 0..length {
                while tail.load(Relaxed) + width < at {
                    std::thread::yield_now();
                }
                assert!(no_preempt(|np| tree.insert(&short(at), at, np)));
                head.store(at + 1, Relaxed);
            }
        });
        scope.spawn(|| {
            let mut at = 0;
            while at < length {
                // The lowest entry, as a delivery transaction finds its order.
                match tree.prefix(b"", ScanDirection::Ascending).next_row() {
                    Some(row) => {
                        assert_eq!(row, at);
                        assert!(no_preempt(|np| tree.remove(&short(row), row, np)));
                        at += 1;
                        tail.store(at, Relaxed);
                    }
                    None => assert!(head.load(Relaxed) <= length),
                }
                assert!(tree.nodes() <= width as usize / 50 + 8, "{} nodes", tree.nodes());
            }
        });
    });
    assert_eq!(tree.len(), 0);
    tree.check();
    while no_preempt(|np| tree.collect(np)) {}
}
