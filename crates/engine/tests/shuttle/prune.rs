//! Models of pruning: the whole engine, small. What is freed is only marked so, and whoever meets it on its way along a
//! chain of versions panics.

use engine::{Begin, Column, Engine, EngineConfig, Isolation, RowId, Table, TableDef, Txn, Type, Value};
use shuttle::scheduler::{PctScheduler, RandomScheduler};
use shuttle::{Config, Runner, thread};
use stage::Class;
use std::sync::Arc;

const SCHEDULES: usize = 2_000;
const BEGIN: Begin = Begin::new(Class::Normal).isolation(Isolation::RepeatableRead);

fn check(model: impl Fn() + Send + Sync + Clone + 'static) {
    let mut config = Config::new();
    // The engine's frames are larger than those of a model.
    config.stack_size = 1 << 18;
    Runner::new(RandomScheduler::new(SCHEDULES), config.clone()).run(model.clone());
    Runner::new(PctScheduler::new(3, SCHEDULES), config).run(model);
}

struct Bank {
    engine: Engine,
    table: Arc<Table>,
    row: RowId,
}

impl Bank {
    /// A row with this number.
    fn new(number: i64) -> Arc<Bank> {
        let engine = Engine::new(EngineConfig::in_memory());
        let columns = vec![Column::required("number", Type::Int64)];
        let table = engine.create_table(TableDef { name: "t".to_owned(), columns, indexes: Vec::new() }).unwrap();
        let txn = engine.begin(BEGIN);
        let row = txn.insert(&table, &[Value::Int64(number)]).unwrap();
        txn.commit().unwrap();
        Arc::new(Bank { engine, table, row })
    }

    fn number(&self, txn: &Txn<'_>) -> Option<i64> {
        txn.get_row(&self.table, self.row).unwrap().map(|row| row.get_i64(0))
    }

    fn add(&self, more: i64) {
        let txn = self.engine.begin(BEGIN);
        let added = txn.update(&self.table, self.row, |row| row.set_i64(0, row.get_i64(0) + more));
        if added.is_ok() {
            txn.commit().unwrap();
        }
    }

    fn collect(&self) {
        self.engine.collect_garbage(usize::MAX);
    }
}

/// Goal: the views of an old snapshot and of one that is taken at any time stay the same, while the versions between
/// them are taken out by two threads that look for garbage, and new ones are put on top.
#[test]
fn readers_pass_what_is_taken_out() {
    check(|| {
        let bank = Bank::new(0);
        let old = bank.engine.begin(BEGIN);
        assert_eq!(bank.number(&old), Some(0));
        bank.add(1);
        bank.add(1);
        let threads: Vec<_> = (0..3)
            .map(|thread| {
                let bank = bank.clone();
                thread::spawn(move || match thread {
                    0 => {
                        bank.add(1);
                        bank.collect();
                    }
                    1 => {
                        bank.collect();
                        bank.add(1);
                    }
                    _ => {
                        let txn = bank.engine.begin(BEGIN);
                        let seen = bank.number(&txn);
                        assert!((2..=4).contains(&seen.unwrap()));
                        assert_eq!(bank.number(&txn), seen);
                    }
                })
            })
            .collect();
        assert_eq!(bank.number(&old), Some(0));
        assert_eq!(bank.number(&old), Some(0));
        threads.into_iter().for_each(|thread| thread.join().unwrap());
        assert_eq!(bank.number(&old), Some(0));
        drop(old);
        bank.collect();
        assert_eq!((bank.engine.stats().versions, bank.engine.stats().versions_dead), (1, 0));
    });
}

/// A row that came after an old snapshot goes, and its id comes back, while others look for it and pass by.
#[test]
fn an_id_comes_back_under_readers() {
    check(|| {
        let bank = Bank::new(7);
        let old = bank.engine.begin(BEGIN);
        let txn = bank.engine.begin(BEGIN);
        let late = txn.insert(&bank.table, &[Value::Int64(1)]).unwrap();
        txn.commit().unwrap();
        let remover = {
            let bank = bank.clone();
            thread::spawn(move || {
                let txn = bank.engine.begin(BEGIN);
                txn.update(&bank.table, late, |row| row.set_i64(0, 2)).unwrap();
                txn.commit().unwrap();
                let txn = bank.engine.begin(BEGIN);
                txn.delete(&bank.table, late).unwrap();
                txn.commit().unwrap();
                bank.collect();
                bank.collect();
                let txn = bank.engine.begin(BEGIN);
                txn.insert(&bank.table, &[Value::Int64(3)]).unwrap();
                txn.commit().unwrap();
            })
        };
        let reader = {
            let bank = bank.clone();
            thread::spawn(move || {
                let txn = bank.engine.begin(BEGIN);
                let look = || txn.get_row(&bank.table, late).unwrap().map(|row| row.get_i64(0));
                let seen = look();
                assert_eq!(look(), seen);
                bank.collect();
                assert_eq!(look(), seen);
            })
        };
        let look = |row| old.get_row(&bank.table, row).unwrap().map(|row| row.get_i64(0));
        assert_eq!((look(late), look(bank.row)), (None, Some(7)));
        remover.join().unwrap();
        reader.join().unwrap();
        assert_eq!((look(late), look(bank.row)), (None, Some(7)));
        drop(old);
        bank.collect();
        assert_eq!((bank.engine.stats().versions, bank.engine.stats().versions_dead), (2, 0));
    });
}

/// A scan of what an open transaction sees goes on while the transaction commits or rolls back, others change its rows, and
/// the garbage is collected. Whatever it meets was not freed; and if the transaction was open all the while, it is right.
#[test]
fn a_scan_outlives_its_transaction() {
    check(|| {
        let bank = Bank::new(5);
        let txn = bank.engine.begin(BEGIN);
        bank.add(1);
        let other = txn.insert(&bank.table, &[Value::Int64(7)]).unwrap();
        txn.update(&bank.table, other, |row| row.set_i64(0, 8)).unwrap();
        let snapshot = txn.snapshot().unwrap();
        let scanner = {
            let bank = bank.clone();
            thread::spawn(move || {
                for _ in 0..2 {
                    let parts = snapshot.scan(&bank.table, &[0], 10).split(1);
                    let rows: usize = parts.into_iter().flatten().map(|batch| batch.num_rows()).sum();
                    assert!(rows == 2 || !snapshot.is_intact(), "{rows} rows");
                }
            })
        };
        let collector = {
            let bank = bank.clone();
            thread::spawn(move || {
                bank.add(1);
                bank.collect();
                let txn = bank.engine.begin(BEGIN);
                if txn.delete(&bank.table, other).is_ok() {
                    txn.commit().unwrap();
                }
                bank.collect();
            })
        };
        txn.update(&bank.table, other, |row| row.set_i64(0, 9)).unwrap();
        if shuttle::rand::Rng::gen_bool(&mut shuttle::rand::thread_rng(), 0.5) {
            txn.commit().map(drop).unwrap()
        } else {
            txn.abort()
        }
        bank.collect();
        scanner.join().unwrap();
        collector.join().unwrap();
    });
}
