//! An engine with one table of accounts, and short ways to use it.

use engine::{
    Begin, Column, Engine, EngineConfig, IndexDef, Isolation, Result, RowId, Table, TableDef, Txn, Type, Value,
};
use stage::Class;
use std::sync::Arc;

pub const NORMAL: Begin = Begin::new(Class::Normal).isolation(Isolation::RepeatableRead);
pub const HIGH: Begin = Begin::new(Class::High).isolation(Isolation::RepeatableRead);
pub const LOW: Begin = Begin::new(Class::Low).isolation(Isolation::RepeatableRead);

/// Columns of the accounts.
pub const ID: usize = 0;
pub const BALANCE: usize = 1;
pub const OWNER: usize = 2;
/// Indexes of the accounts.
pub const BY_ID: usize = 0;
pub const BY_OWNER: usize = 1;

pub const MONEY: Type = Type::Decimal { precision: 12, scale: 2 };

/// An engine with the empty table `accounts(id, balance, owner)`: `id` unique, `owner` indexed.
pub fn bank() -> (Engine, Arc<Table>) {
    let engine = Engine::new(EngineConfig::in_memory());
    let table = create_accounts(&engine);
    (engine, table)
}

/// Creates the table `accounts`.
pub fn create_accounts(engine: &Engine) -> Arc<Table> {
    let def = TableDef {
        name: "accounts".to_owned(),
        columns: vec![
            Column::required("id", Type::Int32),
            Column::required("balance", MONEY),
            Column::nullable("owner", Type::Text),
        ],
        indexes: vec![IndexDef::unique("accounts_pkey", &[ID]), IndexDef::plain("accounts_owner", &[OWNER])],
    };
    engine.create_table(def).unwrap()
}

/// Returns the definition of a table.
pub fn definition(table: &Table) -> TableDef {
    let (columns, indexes) = (table.columns().to_vec(), table.indexes().to_vec());
    TableDef { name: table.name().to_owned(), columns, indexes }
}

/// A bank with the accounts 0 to `count`, 100 each, all of "nobody".
pub fn bank_of(count: i32) -> (Engine, Arc<Table>) {
    let (engine, table) = bank();
    let txn = engine.begin(NORMAL);
    for id in 0..count {
        open(&txn, &table, id, 100, "nobody").unwrap();
    }
    txn.commit().unwrap();
    (engine, table)
}

pub fn open(txn: &Txn<'_>, table: &Table, id: i32, balance: i64, owner: &str) -> Result<RowId> {
    txn.insert(table, &[Value::Int32(id), Value::Decimal(i128::from(balance)), Value::Text(owner)])
}

pub fn row_of(txn: &Txn<'_>, table: &Table, id: i32) -> Option<RowId> {
    txn.get(table, BY_ID, &[Value::Int32(id)]).unwrap().map(|row| row.row_id())
}

pub fn balance(txn: &Txn<'_>, table: &Table, id: i32) -> Option<i64> {
    txn.get(table, BY_ID, &[Value::Int32(id)]).unwrap().map(|row| row.get_decimal_i64(BALANCE))
}

/// Returns the balance that a transaction that begins now sees.
pub fn balance_now(engine: &Engine, table: &Table, id: i32) -> Option<i64> {
    balance(&engine.begin(NORMAL), table, id)
}

/// Adds `amount` to the account. It must exist.
pub fn pay(txn: &Txn<'_>, table: &Table, id: i32, amount: i64) -> Result<()> {
    let row = txn.get(table, BY_ID, &[Value::Int32(id)])?.expect("the account exists").row_id();
    txn.update(table, row, |row| row.set_decimal_i64(BALANCE, row.get_decimal_i64(BALANCE) + amount))
}

/// Ids of the accounts of an owner, in index order.
pub fn ids_of(txn: &Txn<'_>, table: &Table, owner: &str) -> Vec<i32> {
    let rows = txn.range(table, BY_OWNER, &[Value::Text(owner)], engine::Direction::Forward).unwrap();
    rows.map(|row| row.get_i32(ID)).collect()
}

/// A cheap pseudo-random sequence.
pub struct Random(pub u64);

impl Random {
    pub fn below(&mut self, bound: u64) -> u64 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) % bound
    }
}
