//! Model checks of the row protocol: `cargo test --release -p engine --features shuttle --test shuttle`.
//!
//! Every less important transaction counts as paused here, so rows are taken at any moment, also between the two steps
//! of a claim, of a commit and of an undo.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

#[path = "shuttle/drops.rs"]
mod drops;
#[path = "shuttle/frozen.rs"]
mod frozen;
#[path = "shuttle/locks.rs"]
mod locks;
#[path = "shuttle/newest.rs"]
mod newest;
#[path = "shuttle/prune.rs"]
mod prune;
#[path = "shuttle/serial.rs"]
mod serial;

use engine::model::{FreezeModel, Model, RowUnavailable};
use shuttle::sync::Arc;
use shuttle::thread;
use stage::Class;

const SCHEDULES: usize = 10_000;

fn check(model: impl Fn() + Send + Sync + Clone + 'static) {
    shuttle::check_random(model.clone(), SCHEDULES);
    shuttle::check_pct(model, SCHEDULES, 3);
}

/// A reader that meets a commit half-way helps to decide it, and sees all of it or nothing, the same each time it looks.
#[test]
fn snapshots_are_consistent_while_commits_are_helped() {
    check(|| {
        let model = Arc::new(Model::new(&[100, 100]));
        let writer = {
            let model = model.clone();
            thread::spawn(move || {
                for _ in 0..2 {
                    let mut txn = model.begin(Class::Normal);
                    txn.add(0, -1).unwrap();
                    txn.add(1, 1).unwrap();
                    txn.commit().unwrap();
                }
            })
        };
        let readers: Vec<_> = (0..2)
            .map(|_| {
                let model = model.clone();
                thread::spawn(move || {
                    for _ in 0..2 {
                        let txn = model.begin(Class::Normal);
                        let (first, second) = (txn.read(0), txn.read(1));
                        assert_eq!(first + second, 200);
                        assert_eq!((txn.read(0), txn.read(1)), (first, second));
                        txn.abort();
                    }
                })
            })
            .collect();
        readers.into_iter().for_each(|reader| reader.join().unwrap());
        writer.join().unwrap();
        model.assert_at_rest(0);
        model.assert_at_rest(1);
        assert_eq!(model.begin(Class::Normal).read(1), 102);
    });
}

/// Adds `more` to the rows in this order, and says what the row got.
fn transaction(model: &Model, class: Class, rows: &[usize], more: i64) -> i64 {
    let mut txn = model.begin(class);
    let claimed = rows.iter().try_for_each(|row| txn.add(*row, more));
    let done = match claimed {
        Ok(()) => txn.commit().is_ok(),
        Err(RowUnavailable) => {
            txn.abort();
            false
        }
    };
    if done { more } else { 0 }
}

/// A victim that runs on, commits or undoes, and two takers of different importance: the row ends with exactly the
/// additions of those who committed, claimed by nobody.
#[test]
fn a_row_taken_twice_has_one_owner() {
    check(|| {
        let model = Arc::new(Model::new(&[0]));
        let threads: Vec<_> = [(Class::Low, 1), (Class::Normal, 10), (Class::High, 100)]
            .into_iter()
            .map(|(class, more)| {
                let model = model.clone();
                thread::spawn(move || transaction(&model, class, &[0], more))
            })
            .collect();
        let sum: i64 = threads.into_iter().map(|thread| thread.join().unwrap()).sum();
        model.assert_at_rest(0);
        let txn = model.begin(Class::Normal);
        assert_eq!(txn.read(0), sum);
        txn.abort();
        // The row can be had again.
        assert_eq!(transaction(&model, Class::Low, &[0], 7), 7);
    });
}

/// Goal: two rows taken in opposite order, again and again on recycled slots, while a reader looks: takers that are
/// taken from, stacked changes, words whose slot moved on. The two rows always are equal.
#[test]
fn rows_taken_in_opposite_order_stay_together() {
    check(|| {
        let model = Arc::new(Model::new(&[0, 0]));
        let orders: [(Class, &'static [usize], i64); 3] =
            [(Class::Low, &[0, 1], 1), (Class::Normal, &[1, 0], 10), (Class::High, &[0, 1], 100)];
        let threads: Vec<_> = orders
            .into_iter()
            .map(|(class, rows, more)| {
                let model = model.clone();
                thread::spawn(move || (0..2).map(|_| transaction(&model, class, rows, more)).sum::<i64>())
            })
            .collect();
        let txn = model.begin(Class::Normal);
        assert_eq!(txn.read(0), txn.read(1));
        txn.abort();
        let sum: i64 = threads.into_iter().map(|thread| thread.join().unwrap()).sum();
        model.assert_at_rest(0);
        model.assert_at_rest(1);
        let txn = model.begin(Class::Normal);
        assert_eq!((txn.read(0), txn.read(1)), (sum, sum));
        txn.abort();
    });
}

/// Adds to both rows, or to neither. Says whether it did.
fn add_to_both(model: &FreezeModel, class: Class, rows: [u64; 2], more: i64) -> i64 {
    let mut txn = model.begin(class);
    let done = match rows.iter().try_for_each(|row| txn.add(*row, more)) {
        Ok(()) => txn.commit().is_ok(),
        Err(RowUnavailable) => {
            txn.abort();
            false
        }
    };
    if done { more } else { 0 }
}

/// A freezer moves rows to blocks and makes blocks anew while writers thaw, take and undo, and a reader looks by id and by
/// scan: the two rows always are equal, and the same each time; in the end they have what was committed.
#[test]
fn rows_freeze_and_thaw_under_writers() {
    check(|| {
        let model = Arc::new(FreezeModel::new([0, 0]));
        let writers: Vec<_> = [(Class::Low, [0, 1], 1), (Class::High, [1, 0], 10)]
            .into_iter()
            .map(|(class, rows, more)| {
                let model = model.clone();
                thread::spawn(move || (0..2).map(|_| add_to_both(&model, class, rows, more)).sum::<i64>())
            })
            .collect();
        let freezer = {
            let model = model.clone();
            thread::spawn(move || (0..3).for_each(|_| assert!(model.freeze() <= 2)))
        };
        for _ in 0..2 {
            let txn = model.begin(Class::Normal);
            let first = txn.read(0).unwrap();
            assert_eq!(txn.read(1), Some(first));
            assert_eq!(txn.scan(), [(0, first), (1, first)]);
            assert_eq!(txn.read(0), Some(first));
            txn.abort();
        }
        freezer.join().unwrap();
        let sum: i64 = writers.into_iter().map(|writer| writer.join().unwrap()).sum();
        model.freeze();
        assert_eq!(model.freeze(), 0, "all is frozen");
        let txn = model.begin(Class::Normal);
        assert_eq!(txn.scan(), [(0, sum), (1, sum)]);
        txn.abort();
        assert_eq!(add_to_both(&model, Class::Low, [0, 1], 7), 7);
    });
}

/// A row is deleted and removed for good while a freezer and readers are at work: it is there for snapshots before the
/// deletion, however they look, and for no other; and it never comes back.
#[test]
fn a_deleted_row_does_not_come_back_from_a_block() {
    check(|| {
        let model = Arc::new(FreezeModel::new([5, 6]));
        model.freeze();
        let freezer = {
            let model = model.clone();
            thread::spawn(move || (0..3).for_each(|_| assert!(model.freeze() <= 2)))
        };
        let deleter = {
            let model = model.clone();
            thread::spawn(move || {
                let mut undone = model.begin(Class::Normal);
                let claimed = undone.delete(0);
                undone.abort();
                claimed.unwrap();
                let mut txn = model.begin(Class::Normal);
                txn.delete(0).unwrap();
                txn.commit().unwrap();
                let after = model.begin(Class::Normal);
                assert_eq!((after.read(0), after.scan()), (None, vec![(1, 6)]));
                after.abort();
                (0..2).for_each(|_| model.bury());
            })
        };
        for _ in 0..2 {
            let txn = model.begin(Class::Normal);
            let seen = txn.read(0);
            assert_eq!(txn.read(1), Some(6));
            assert_eq!(txn.scan().first(), Some(&seen.map_or((1, 6), |number| (0, number))));
            assert_eq!(txn.read(0), seen);
            txn.abort();
        }
        freezer.join().unwrap();
        deleter.join().unwrap();
        model.bury();
        (0..2).for_each(|_| assert!(model.freeze() <= 2));
        let txn = model.begin(Class::Normal);
        assert_eq!((txn.read(0), txn.scan()), (None, vec![(1, 6)]));
        txn.abort();
    });
}
