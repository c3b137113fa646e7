//! SERIALIZABLE: commits, plain and serial, helpers, serial mode that comes and goes. Whatever the interleaving, running
//! the committed transactions one after the other in the order of their timestamps reads what they have read.

use super::check;
use engine::model::{Model, ModelTxn};
use shuttle::sync::{Arc, Mutex};
use shuttle::thread;
use stage::Class;

const ROWS: usize = 3;
const START: [i64; ROWS] = [1, 1, 0];

/// What a transaction did: when, what it read, what it wrote.
struct Done {
    at: u64,
    reads: Vec<(usize, i64)>,
    writes: Vec<(usize, i64)>,
}

#[derive(Default)]
struct History(Mutex<Vec<Done>>);

impl History {
    /// Commits, and remembers that, with what counts as read.
    fn commit(&self, txn: ModelTxn<'_>, reads: Vec<(usize, i64)>, writes: Vec<(usize, i64)>) {
        if let Ok(at) = txn.commit() {
            self.0.lock().unwrap().push(Done { at, reads, writes });
        }
    }

    /// A transaction that only read stands behind the commits that its snapshot sees.
    fn only_read(&self, txn: ModelTxn<'_>, reads: Vec<(usize, i64)>) {
        let at = txn.snapshot();
        txn.abort();
        self.0.lock().unwrap().push(Done { at, reads, writes: Vec::new() });
    }

    /// Runs it again, one after the other.
    fn check(&self) {
        let mut done = self.0.lock().unwrap();
        done.sort_by_key(|done| (done.at, done.writes.is_empty()));
        let mut rows = START;
        for done in done.iter() {
            for (row, number) in &done.reads {
                assert_eq!(rows[*row], *number, "row {row} at {}", done.at);
            }
            for (row, more) in &done.writes {
                rows[*row] += more;
            }
        }
        assert!(0 < rows[0] + rows[1], "both have been taken away");
    }
}

/// Takes one away from `own` if there is another in the two rows. Reads the third for its own sake.
fn skew(model: &Model, history: &History, own: usize) {
    let mut txn = model.begin_serial(Class::Normal);
    let reads: Vec<(usize, i64)> = [own, 1 - own, 2].map(|row| (row, txn.read(row))).into();
    if reads[0].1 + reads[1].1 < 2 {
        return history.only_read(txn, reads);
    }
    match txn.add(own, -1) {
        Ok(()) => history.commit(txn, reads, vec![(own, -1)]),
        Err(_) => txn.abort(),
    }
}

/// Writes at another level: its reads do not count.
fn plain(model: &Model, history: &History, row: usize) {
    let mut txn = model.begin(Class::Normal);
    match txn.add(row, 1) {
        Ok(()) => history.commit(txn, Vec::new(), vec![(row, 1)]),
        Err(_) => txn.abort(),
    }
}

#[test]
fn commits_are_in_serial_order() {
    check(|| {
        let model = Arc::new(Model::new(&START));
        let history = Arc::new(History::default());
        let act = |what: fn(&Model, &History)| {
            let (model, history) = (model.clone(), history.clone());
            thread::spawn(move || what(&model, &history))
        };
        let threads = [
            act(|model, history| {
                skew(model, history, 0);
                model.rest_serial();
                skew(model, history, 0);
            }),
            act(|model, history| skew(model, history, 1)),
            act(|model, history| {
                plain(model, history, 2);
                plain(model, history, 1);
            }),
            act(|model, history| {
                model.rest_serial();
                let txn = model.begin(Class::Normal);
                let reads = (0..ROWS).map(|row| (row, txn.read(row))).collect();
                history.only_read(txn, reads);
            }),
        ];
        for thread in threads {
            thread.join().unwrap();
        }
        history.check();
        (0..ROWS).for_each(|row| model.assert_at_rest(row));
        assert!(model.rest_serial());
    });
}

/// Two turn serial mode on at once while a plain writer commits: neither may read before the writer is marked or decided.
#[test]
fn serial_mode_is_on_when_the_second_begins() {
    check(|| {
        let model = Arc::new(Model::new(&START));
        let history = Arc::new(History::default());
        let reader = |own: usize| {
            let (model, history) = (model.clone(), history.clone());
            move || {
                let mut txn = model.begin_serial(Class::Normal);
                let reads = vec![(2, txn.read(2))];
                txn.add(own, 1).unwrap();
                history.commit(txn, reads, vec![(own, 1)]);
            }
        };
        let threads = [thread::spawn(reader(0)), thread::spawn(reader(1))];
        plain(&model, &history, 2);
        for thread in threads {
            thread.join().unwrap();
        }
        history.check();
    });
}
