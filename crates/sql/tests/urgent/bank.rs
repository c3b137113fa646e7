//! Modules that are linked into the test: procedures on accounts, which count their calls in urgent contexts.

use engine::Table;
use procs::native::{NativeCall, NativeModule};
use procs::{EngineCalls, NoticeLevel, StatementHandle, TableHandle, TransactionEnd};
use statement::{SqlError, SqlResult, SqlState};
use std::ops::ControlFlow;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::SeqCst};
use types::Datum;

/// Calls that ran in an urgent context.
pub static URGENT: AtomicU64 = AtomicU64::new(0);

/// Module of procedures that urgent contexts can run.
pub struct Bank;
/// Module that is not made for urgent contexts.
pub struct Slow;

const ACCOUNTS: TableHandle = TableHandle(0);
const NAMES: TableHandle = TableHandle(1);

fn balance_of(engine: &mut dyn EngineCalls, id: &Datum, locks: bool) -> SqlResult<Option<i64>> {
    let mut found = None;
    engine.get(ACCOUNTS, std::slice::from_ref(id), locks, &mut |row| {
        if let [_, Datum::Int8(balance)] = row {
            found = Some(*balance);
        }
        Ok(ControlFlow::Break(()))
    })?;
    Ok(found)
}

impl NativeModule for Bank {
    fn name(&self) -> &'static str {
        "bank"
    }

    fn manifest(&self) -> &'static str {
        "overtake 1
        table accounts accounts (id, balance)
        table names names (kind, name, note)
        statement by_name SELECT balance FROM accounts WHERE id = $1
        entry transfer
        entry sum
        entry raise
        entry panic
        entry spin
        entry insert
        entry name
        entry ends
        entry by_statement
        entry where
        entry tells"
    }

    fn is_urgent(&self) -> bool {
        true
    }

    fn prepare_urgent(&self, tables: &[Arc<Table>]) -> SqlResult<()> {
        match tables.get(1).map_or(3, |names| names.columns().len()) {
            3 => Ok(()),
            _ => Err(SqlError::new(SqlState::INVALID_TABLE_DEFINITION, "names has three columns")),
        }
    }

    fn call(&self, call: NativeCall<'_>, engine: &mut dyn EngineCalls) -> SqlResult<Vec<Datum>> {
        if preempt::in_urgent() {
            URGENT.fetch_add(1, SeqCst);
        }
        match (call.entry, call.arguments) {
            // transfer(from, to, amount) returns the new balance of `from`.
            (0, [from, to, Datum::Int8(amount)]) => {
                let missing = || SqlError::new(SqlState::NO_DATA, "no such account");
                let of_from = balance_of(engine, from, true)?.ok_or_else(missing)?;
                let of_to = balance_of(engine, to, true)?.ok_or_else(missing)?;
                engine.put(ACCOUNTS, &[from.clone(), Datum::Int8(of_from - amount)], false)?;
                engine.put(ACCOUNTS, &[to.clone(), Datum::Int8(of_to + amount)], false)?;
                Ok(vec![Datum::Int8(balance_of(engine, from, false)?.unwrap_or_default())])
            }
            // sum() adds all balances up, from the last to the first.
            (1, []) => {
                let cursor = engine.scan(ACCOUNTS, &[], true)?;
                let (mut sum, mut last) = (0, i64::MAX);
                while !engine.next(cursor, 3, &mut |row| {
                    if let [Datum::Int4(id), Datum::Int8(balance)] = row {
                        assert!(i64::from(*id) < last, "in descending order");
                        (sum, last) = (sum + balance, i64::from(*id));
                    }
                    Ok(ControlFlow::Continue(()))
                })? {}
                Ok(vec![Datum::Int8(sum)])
            }
            // raise() writes, tells, and fails.
            (2, []) => {
                engine.put(ACCOUNTS, &[Datum::Int4(1), Datum::Int8(-1)], false)?;
                engine.notice(NoticeLevel::Notice, "about to fail")?;
                Err(SqlError::new(SqlState::RAISE_EXCEPTION, "on purpose").detail("A detail."))
            }
            (3, []) => {
                engine.put(ACCOUNTS, &[Datum::Int4(1), Datum::Int8(-2)], false)?;
                panic!("a bug")
            }
            // spin() never ends by itself.
            (4, []) => loop {
                engine.look()?;
            },
            // insert(id, balance) fails for an id that is taken.
            (5, [id, balance]) => engine.put(ACCOUNTS, &[id.clone(), balance.clone()], true).map(|()| Vec::new()),
            // name(kind, name) puts a row, reads it, deletes it, and returns its name.
            (6, [kind, name]) => {
                engine.put(NAMES, &[kind.clone(), name.clone(), Datum::Null], false)?;
                engine.put(NAMES, &[kind.clone(), name.clone(), Datum::text("again")], false)?;
                let mut found = Datum::Null;
                engine.get(NAMES, &[kind.clone(), name.clone()], false, &mut |row| {
                    assert_eq!(row[2], Datum::text("again"));
                    found = row[1].clone();
                    Ok(ControlFlow::Break(()))
                })?;
                let cursor = engine.scan(NAMES, std::slice::from_ref(kind), false)?;
                let mut count = 0;
                engine.next(cursor, 10, &mut |_| {
                    count += 1;
                    Ok(ControlFlow::Continue(()))
                })?;
                assert_eq!(count, 1, "the row was put");
                assert!(engine.delete(NAMES, &[kind.clone(), name.clone()])?);
                assert!(!engine.delete(NAMES, &[kind.clone(), name.clone()])?);
                Ok(vec![found])
            }
            (7, [id]) => {
                engine.put(ACCOUNTS, &[id.clone(), Datum::Int8(7)], false)?;
                engine.end_transaction(TransactionEnd::Commit)?;
                Ok(Vec::new())
            }
            (8, [id]) => {
                let executed = engine.execute(StatementHandle(0), std::slice::from_ref(id))?;
                let mut balance = Datum::Null;
                engine.next(executed.cursor.unwrap(), 1, &mut |row| {
                    balance = row[0].clone();
                    Ok(ControlFlow::Continue(()))
                })?;
                Ok(vec![balance])
            }
            // where() tells whether it runs in an urgent context.
            (9, []) => Ok(vec![Datum::Bool(preempt::in_urgent())]),
            // tells(count) writes, and sends short notices.
            (10, [Datum::Int4(count)]) => {
                engine.put(ACCOUNTS, &[Datum::Int4(9), Datum::Int8((*count).into())], false)?;
                (0..*count).try_for_each(|_| engine.notice(NoticeLevel::Notice, "x"))?;
                Ok(Vec::new())
            }
            (entry, arguments) => panic!("no entry {entry} of {arguments:?}"),
        }
    }
}

impl NativeModule for Slow {
    fn name(&self) -> &'static str {
        "slow"
    }

    fn manifest(&self) -> &'static str {
        "overtake 1\nentry nothing"
    }

    fn call(&self, _: NativeCall<'_>, _: &mut dyn EngineCalls) -> SqlResult<Vec<Datum>> {
        Ok(Vec::new())
    }
}
