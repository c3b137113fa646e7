//! SERIALIZABLE: transactions that may write, declared readers, writers of other levels, helpers. Whatever the interleaving,
//! the committed SERIALIZABLE ones have a serial order.

use super::check;
use engine::model::{Model, ModelTxn};
use shuttle::sync::{Arc, Mutex};
use shuttle::thread;
use stage::Class;

const ROWS: usize = 3;
const START: [i64; ROWS] = [1, 1, 0];

/// Record of a transaction: the numbers that it read, and those that it added.
struct Done {
    reads: Vec<(usize, i64)>,
    writes: Vec<(usize, i64)>,
}

#[derive(Default)]
struct History(Mutex<Vec<Done>>);

impl History {
    /// Commits, and remembers that. Says whether it did.
    fn commit(&self, txn: ModelTxn<'_>, reads: Vec<(usize, i64)>, writes: Vec<(usize, i64)>) -> bool {
        let committed = txn.commit().is_ok();
        if committed {
            self.0.lock().unwrap().push(Done { reads, writes });
        }
        committed
    }

    /// Checks that some order of them, one after the other, reads what they have read.
    fn check(&self) {
        let done = self.0.lock().unwrap();
        let all: Vec<&Done> = done.iter().collect();
        assert!(has_order(START, &all), "no serial order");
    }
}

fn has_order(rows: [i64; ROWS], left: &[&Done]) -> bool {
    left.is_empty()
        || (0..left.len()).any(|first| {
            let mut others = left.to_vec();
            let Done { reads, writes } = others.remove(first);
            let mut rows = rows;
            let fits = reads.iter().all(|(row, number)| rows[*row] == *number);
            writes.iter().for_each(|(row, more)| rows[*row] += more);
            fits && has_order(rows, &others)
        })
}

/// Reads some rows and adds to others.
fn act(model: &Model, history: &History, reads: &[usize], adds: &[usize]) {
    let mut txn = model.begin_serial(Class::Normal);
    let reads = reads.iter().map(|row| (*row, txn.read(*row))).collect();
    for row in adds {
        if txn.add(*row, 1).is_err() {
            return txn.abort();
        }
    }
    history.commit(txn, reads, adds.iter().map(|row| (*row, 1)).collect());
}

/// Takes one away from `own` if there is another in the two rows.
fn skew(model: &Model, history: &History, own: usize) {
    let mut txn = model.begin_serial(Class::Normal);
    let reads: Vec<(usize, i64)> = [own, 1 - own].map(|row| (row, txn.read(row))).into();
    if reads[0].1 + reads[1].1 < 2 {
        history.commit(txn, reads, Vec::new());
        return;
    }
    match txn.add(own, -1) {
        Ok(()) => drop(history.commit(txn, reads, vec![(own, -1)])),
        Err(_) => txn.abort(),
    }
}

/// A declared reader of all rows. It is never refused.
fn read_all(model: &Model, history: &History) {
    let txn = model.begin_reader(Class::Normal);
    let reads = (0..ROWS).map(|row| (row, txn.read(row))).collect();
    assert!(history.commit(txn, reads, Vec::new()), "a reader was refused");
}

type Act = fn(&Model, &History);

fn run(acts: &'static [Act]) {
    check(move || {
        let model = Arc::new(Model::new(&START));
        let history = Arc::new(History::default());
        let begin = |act: &'static Act| {
            let (model, history) = (model.clone(), history.clone());
            thread::spawn(move || act(&model, &history))
        };
        let threads: Vec<_> = acts.iter().map(begin).collect();
        threads.into_iter().for_each(|thread| thread.join().unwrap());
        history.check();
        (0..ROWS).for_each(|row| model.assert_at_rest(row));
    });
}

/// Write skew, twice by one, beside a reader.
#[test]
fn commits_have_a_serial_order() {
    run(&[
        |model, history| {
            skew(model, history, 0);
            skew(model, history, 0);
        },
        |model, history| skew(model, history, 1),
        read_all,
    ]);
}

/// Three in a ring, each of which reads what the next one writes.
#[test]
fn a_ring_of_three_is_broken() {
    run(&[
        |model, history| act(model, history, &[0], &[1]),
        |model, history| act(model, history, &[1], &[2]),
        |model, history| act(model, history, &[2], &[0]),
    ]);
}

/// The anomaly of a read-only transaction, whichever way the reader begins: alone, or beside the writers.
#[test]
fn a_reader_sees_no_anomaly() {
    run(&[
        |model, history| act(model, history, &[0, 1], &[0]),
        |model, history| act(model, history, &[], &[1]),
        read_all,
    ]);
}

/// Goal: a transaction that only reads, undeclared, is recorded by its snapshot, or refused.
#[test]
fn an_undeclared_reader_sees_no_anomaly() {
    run(&[
        |model, history| act(model, history, &[0, 1], &[0]),
        |model, history| act(model, history, &[], &[1]),
        |model, history| act(model, history, &[0, 1, 2], &[]),
    ]);
}

/// Writers of other levels come between, and are helped to their decisions; they do not count, and break nothing of what
/// does.
#[test]
fn others_do_not_disturb() {
    run(&[
        |model, history| act(model, history, &[0], &[1]),
        |model, history| act(model, history, &[1], &[0]),
        |model, _| {
            let mut txn = model.begin(Class::Normal);
            match txn.add(2, 1) {
                Ok(()) => drop(txn.commit()),
                Err(_) => txn.abort(),
            }
        },
    ]);
}
