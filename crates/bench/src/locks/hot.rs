//! Hot rows: each transaction locks one of a few rows, and changes it and one of many others.

use super::load::{LockLoad, TransactionScript};
use engine::{Begin, Column, Engine, IndexDef, RowLock, Table, TableDef, Txn, Type, Value, Wait};
use stage::Class;
use std::sync::Arc;
use workloads::tpcc::Random;

const COLD_ROWS: i32 = 100_000;
const ID: usize = 0;
const COUNT: usize = 1;

struct HotTables {
    hot: Arc<Table>,
    cold: Arc<Table>,
}

/// Load on hot rows.
pub struct HotRows {
    tables: Arc<HotTables>,
    hot_rows: i32,
    random: Random,
    committed: u64,
}

struct HotTransaction {
    tables: Arc<HotTables>,
    hot: i32,
    cold: [i32; 3],
}

impl HotRows {
    /// Creates and fills the load's tables.
    ///
    /// # Errors
    /// Errors of the engine.
    pub fn load(engine: &Engine, hot_rows: i32, seed: u64) -> anyhow::Result<HotRows> {
        let create = |name: &str, rows: i32| -> engine::Result<Arc<Table>> {
            let columns = vec![Column::required("id", Type::Int32), Column::required("count", Type::Int64)];
            let indexes = vec![IndexDef::unique(&format!("{name}_pkey"), &[ID])];
            let table = engine.create_table(TableDef { name: name.to_owned(), columns, indexes })?;
            let ids: Vec<i32> = (0..rows).collect();
            for ids in ids.chunks(1_000) {
                let txn = engine.begin(Begin::new(Class::Normal));
                for &id in ids {
                    txn.insert(&table, &[Value::Int32(id), Value::Int64(0)])?;
                }
                txn.commit()?;
            }
            Ok(table)
        };
        let tables = HotTables { hot: create("locks.hot", hot_rows)?, cold: create("locks.cold", COLD_ROWS)? };
        Ok(HotRows { tables: Arc::new(tables), hot_rows, random: Random::new(seed), committed: 0 })
    }
}

fn find<'t>(txn: &'t Txn<'_>, table: &'t Table, id: i32) -> engine::Result<engine::Row<'t>> {
    let row = txn.get(table, 0, &[Value::Int32(id)])?;
    Ok(row.expect("nobody deletes rows"))
}

fn count_one(txn: &Txn<'_>, table: &Table, id: i32) -> engine::Result<()> {
    let row = find(txn, table, id)?.row_id();
    txn.update(table, row, |row| row.set_i64(COUNT, row.get_i64(COUNT) + 1))
}

impl TransactionScript for HotTransaction {
    fn statements(&self) -> usize {
        5
    }

    fn run(&mut self, at: usize, txn: &Txn<'_>) -> engine::Result<()> {
        let HotTables { hot, cold } = &*self.tables;
        match at {
            0 => find(txn, cold, self.cold[0]).map(drop),
            1 => {
                let row = find(txn, hot, self.hot)?.row_id();
                txn.lock_row(hot, row, RowLock::NoKeyUpdate, Wait::Block).map(drop)
            }
            2 => find(txn, cold, self.cold[1]).map(drop),
            3 => count_one(txn, hot, self.hot),
            _ => count_one(txn, cold, self.cold[2]),
        }
    }
}

impl LockLoad for HotRows {
    fn title(&self) -> String {
        format!("{} hot rows", self.hot_rows)
    }

    fn prefix(&self) -> &'static str {
        "locks.hot"
    }

    fn restart(&mut self, seed: u64) {
        self.random = Random::new(seed);
    }

    fn script(&mut self) -> Box<dyn TransactionScript> {
        let hot = self.random.uniform(0, self.hot_rows - 1);
        let cold = std::array::from_fn(|_| self.random.uniform(0, COLD_ROWS - 1));
        Box::new(HotTransaction { tables: Arc::clone(&self.tables), hot, cold })
    }

    fn committed(&mut self) {
        self.committed += 1;
    }

    fn check(&self, engine: &Engine) -> anyhow::Result<()> {
        let txn = engine.begin(Begin::new(Class::Normal));
        for (table, rows) in [(&self.tables.hot, self.hot_rows), (&self.tables.cold, COLD_ROWS)] {
            let mut sum = 0;
            for id in 0..rows {
                sum += find(&txn, table, id)?.get_i64(COUNT);
            }
            let committed = self.committed;
            anyhow::ensure!(
                sum as u64 == committed,
                "{} counted {sum} changes of {committed} transactions",
                table.name()
            );
        }
        Ok(())
    }
}
