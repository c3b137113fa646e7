//! Transfers between accounts by several threads: procedures that wait for each other's rows, and are never lost or doubled.
//!
//! `cargo run --release -p engine --example transfer`
//!
//! A procedure ([`engine::Session::run`]) is a transaction in one closure. Where it must wait for a row it is undone whole
//! and run again at the grant; the thread waits meanwhile, so it must be an ordinary one.

use engine::{
    Begin, Column, Engine, EngineConfig, Error, IndexDef, Result, SessionOptions, Table, TableDef, Txn, Type, Value,
};
use stage::Class;
use std::thread;

const ACCOUNTS: i32 = 10;
const BALANCE: usize = 1;

fn accounts(engine: &Engine) -> Result<()> {
    let columns = vec![Column::required("id", Type::Int32), Column::required("balance", Type::Int64)];
    let indexes = vec![IndexDef::unique("accounts_pkey", &[0])];
    let table = engine.create_table(TableDef { name: "accounts".to_owned(), columns, indexes })?;
    let txn = engine.begin(Begin::new(Class::Normal));
    for id in 0..ACCOUNTS {
        txn.insert(&table, &[Value::Int32(id), Value::Int64(1_000)])?;
    }
    txn.commit().map(drop)
}

/// Moves money, unless the paying account would be overdrawn.
fn transfer(txn: &Txn<'_>, table: &Table, from: i32, to: i32, amount: i64) -> Result<()> {
    let find = |id: i32| Ok::<_, Error>(txn.get(table, 0, &[Value::Int32(id)])?.expect("it exists").row_id());
    // The closures get the newest version, whatever was read before.
    let paid = txn.update_if(table, find(from)?, |row| {
        row.set_i64(BALANCE, row.get_i64(BALANCE) - amount);
        0 <= row.get_i64(BALANCE)
    })?;
    if !paid {
        return Err(Error::RolledBack);
    }
    txn.update(table, find(to)?, |row| row.set_i64(BALANCE, row.get_i64(BALANCE) + amount))
}

fn main() -> Result<()> {
    let engine = Engine::new(EngineConfig::in_memory());
    accounts(&engine)?;
    let table = engine.table("accounts").expect("it was created above");
    thread::scope(|scope| {
        for teller in 0..3 {
            let (engine, table) = (&engine, &table);
            scope.spawn(move || {
                let mut session = engine.session(SessionOptions::new(Class::Normal));
                let mut refused = 0;
                for round in 0..20_000 {
                    let (from, to) = ((round + teller) % ACCOUNTS, (round * 7 + 3 * teller + 1) % ACCOUNTS);
                    let amount = i64::from(round % 90);
                    match session.run(Begin::new(Class::Normal), |txn| transfer(txn, table, from, to, amount)) {
                        Ok(()) => {}
                        Err(Error::RolledBack) => refused += 1,
                        Err(error) => panic!("{error}"),
                    }
                }
                println!("teller {teller}: 20000 transfers, {refused} refused for want of money");
            });
        }
    });
    let txn = engine.begin(Begin::new(Class::Normal));
    let mut sum = 0;
    for id in 0..ACCOUNTS {
        sum += txn.get(&table, 0, &[Value::Int32(id)])?.expect("it exists").get_i64(BALANCE);
    }
    assert_eq!(sum, 1_000 * i64::from(ACCOUNTS));
    println!("{sum} in all, as at the beginning; waits: {:?}", engine.lock_stats().waits);
    Ok(())
}
