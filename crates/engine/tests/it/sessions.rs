//! Short ways to use sessions of a bank.

use crate::support::*;
use engine::{
    Begin, Engine, Error, Result, Row, RowLock, Session, SessionOptions, Step, Table, Ticket, Txn, Value, Wait,
};
use stage::Class;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::SeqCst};

/// READ COMMITTED.
pub const COMMITTED: Begin = Begin::new(Class::Normal);

pub fn session(engine: &Engine) -> Session {
    engine.session(SessionOptions::new(Class::Normal))
}

/// A session of this class with an open transaction at READ COMMITTED.
pub fn open_session(engine: &Engine, class: Class) -> Session {
    let mut session = engine.session(SessionOptions { name: class.name().to_owned(), ..SessionOptions::new(class) });
    session.begin(Begin::new(class)).unwrap();
    session
}

/// The row of an account, found at the newest.
pub fn find<'t>(txn: &'t Txn<'_>, table: &'t Table, id: i32) -> Result<Row<'t>> {
    Ok(txn.get(table, BY_ID, &[Value::Int32(id)])?.expect("the account exists"))
}

/// Locks an account's row.
pub fn lock(txn: &Txn<'_>, table: &Table, id: i32, mode: RowLock, wait: Wait) -> Result<bool> {
    let row = find(txn, table, id)?.row_id();
    Ok(txn.lock_row(table, row, mode, wait)?.is_some())
}

/// Runs a statement that is done at once.
pub fn done<R>(session: &mut Session, statement: impl FnOnce(&Txn<'_>) -> Result<R>) -> R {
    match session.try_execute(statement) {
        Ok(Step::Done(result)) => result,
        Ok(Step::Parked(_)) => panic!("the statement waits"),
        Err(error) => panic!("{error}"),
    }
}

/// Runs a statement that must wait.
pub fn parked<R>(session: &mut Session, statement: impl FnOnce(&Txn<'_>) -> Result<R>) -> Ticket {
    match session.try_execute(statement) {
        Ok(Step::Parked(ticket)) => ticket,
        Ok(Step::Done(_)) => panic!("the statement does not wait"),
        Err(error) => panic!("{error}"),
    }
}

/// Runs a statement that fails.
pub fn failed<R>(session: &mut Session, statement: impl FnOnce(&Txn<'_>) -> Result<R>) -> Error {
    match session.try_execute(statement) {
        Err(error) => error,
        Ok(_) => panic!("the statement does not fail"),
    }
}

/// Adds to an account, whatever it has.
pub fn add(table: &Arc<Table>, id: i32, amount: i64) -> impl Fn(&Txn<'_>) -> Result<()> + use<> {
    let table = table.clone();
    move |txn| pay(txn, &table, id, amount)
}

/// Gives an account another id.
pub fn rename(table: &Arc<Table>, id: i32, new: i32) -> impl Fn(&Txn<'_>) -> Result<()> + use<> {
    let table = table.clone();
    move |txn| txn.update(&table, find(txn, &table, id)?.row_id(), |row| row.set_i32(ID, new))
}

pub fn delete(table: &Arc<Table>, id: i32) -> impl Fn(&Txn<'_>) -> Result<()> + use<> {
    let table = table.clone();
    move |txn| txn.delete(&table, find(txn, &table, id)?.row_id())
}

/// Locks a row and waits for it.
pub fn locks(table: &Arc<Table>, id: i32, mode: RowLock) -> impl Fn(&Txn<'_>) -> Result<bool> + use<> {
    let table = table.clone();
    move |txn| lock(txn, &table, id, mode, Wait::Block)
}

/// Counts how often it was woken.
#[derive(Default)]
pub struct Woken(pub AtomicU64);

impl engine::Wake for Woken {
    fn wake(&self) {
        self.0.fetch_add(1, SeqCst);
    }
}
