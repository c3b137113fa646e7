//! The three tables that TPC-C lacks.
//!
//! Invariant: stock `(w, i)` belongs to supplier `w * i % 10,000`, so there are always 10,000 suppliers, numbered from
//! 0, at any scale.

use super::nations::{NATIONS, REGIONS};
use crate::tpcc::Random;
use engine::{Begin, Column, Engine, Result, Table, TableDef, Txn, Type, Value};
use stage::Class;
use std::sync::Arc;

/// Number of suppliers.
pub const SUPPLIERS: i32 = 10_000;
/// Number of rows of the three tables together.
pub const ROWS_COUNT: u64 = SUPPLIERS as u64 + (NATIONS.len() + REGIONS.len()) as u64;
/// Number of rows in one transaction of the load.
const CHUNK_ROWS: i32 = 1_000;
/// Interval of suppliers with complaints: one in this many.
const BAD: i32 = 2_000;

/// The three tables of one engine.
pub struct ChTables {
    /// 10,000 rows.
    pub supplier: Arc<Table>,
    /// 62 rows.
    pub nation: Arc<Table>,
    /// 5 rows.
    pub region: Arc<Table>,
}

impl ChTables {
    /// Creates the tables, empty and without indexes: only scans read them.
    ///
    /// # Errors
    /// An error if one of them exists already.
    pub fn create(engine: &Engine) -> Result<ChTables> {
        use Type::{Int32, Text};
        let create = |name: &str, columns: &[(&str, Type)]| {
            let columns = columns.iter().map(|(name, kind)| Column::required(name, *kind)).collect();
            engine.create_table(TableDef { name: format!("ch.{name}"), columns, indexes: Vec::new() })
        };
        Ok(ChTables {
            supplier: create(
                "supplier",
                &[
                    ("su_suppkey", Int32),
                    ("su_name", Text),
                    ("su_address", Text),
                    ("su_nationkey", Int32),
                    ("su_phone", Text),
                    ("su_acctbal", Type::Decimal { precision: 12, scale: 2 }),
                    ("su_comment", Text),
                ],
            )?,
            nation: create(
                "nation",
                &[("n_nationkey", Int32), ("n_name", Text), ("n_regionkey", Int32), ("n_comment", Text)],
            )?,
            region: create("region", &[("r_regionkey", Int32), ("r_name", Text), ("r_comment", Text)])?,
        })
    }
}

/// Creates and fills the three tables. The same seed gives the same rows.
///
/// # Errors
/// Errors of the engine, for instance if a table exists already.
pub fn load(engine: &Engine, seed: u64) -> Result<ChTables> {
    let tables = ChTables::create(engine)?;
    let mut random = Random::new(seed);
    let begin = || engine.try_begin(Begin::new(Class::Normal));
    let txn = begin()?;
    for (at, name) in REGIONS.iter().enumerate() {
        let comment = random.a_string(30, 100);
        txn.insert(&tables.region, &[Value::Int32(at as i32 + 1), Value::Text(name), Value::Text(&comment)])?;
    }
    for (name, key, region) in NATIONS {
        let comment = random.a_string(30, 100);
        let values = [Value::Int32(key.into()), Value::Text(name), Value::Int32(region), Value::Text(&comment)];
        txn.insert(&tables.nation, &values)?;
    }
    txn.commit()?;
    for first in (0..SUPPLIERS).step_by(CHUNK_ROWS as usize) {
        let txn = begin()?;
        (first..first + CHUNK_ROWS).try_for_each(|key| supplier(&txn, &tables, &mut random, key))?;
        txn.commit()?;
    }
    Ok(tables)
}

fn supplier(txn: &Txn<'_>, tables: &ChTables, random: &mut Random, key: i32) -> Result<()> {
    let (name, address, phone) = (format!("Supplier#{key:09}"), random.a_string(10, 40), random.n_string(15));
    let nation = NATIONS[random.uniform(0, NATIONS.len() as i32 - 1) as usize].1;
    let balance = Value::Decimal(random.uniform(-99_999, 999_999).into());
    let mut comment = random.a_string(25, 100);
    if key % BAD == 0 {
        comment.replace_range(10..15, " bad ");
    }
    let values = [
        Value::Int32(key),
        Value::Text(&name),
        Value::Text(&address),
        Value::Int32(nation.into()),
        Value::Text(&phone),
        balance,
        Value::Text(&comment),
    ];
    txn.insert(&tables.supplier, &values).map(drop)
}
