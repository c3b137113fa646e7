//! Nested commands: what they see, what the command around them sees, and what is left when they are undone.

use crate::sessions::*;
use crate::support::*;
use engine::{Begin, Error, Isolation, Txn};
use stage::Class;

fn deposit(txn: &Txn<'_>, table: &engine::Table, id: i32, amount: i64) -> engine::Result<()> {
    pay(txn, table, id, amount)
}

/// The command around goes on with its view; nested commands see all writes so far, at READ COMMITTED those of others
/// too; the next statement sees everything.
pub fn each_command_has_its_view() {
    for (isolation, is_new_seen) in [(Isolation::ReadCommitted, true), (Isolation::RepeatableRead, false)] {
        let (engine, table) = bank_of(4);
        let mut session = session(&engine);
        session.begin(Begin::new(Class::Normal).isolation(isolation)).unwrap();
        done(&mut session, |txn| {
            let seen = |id| balance(txn, &table, id);
            txn.hold_command()?;
            assert_eq!(seen(0), Some(100));
            deposit(txn, &table, 0, 1)?;
            engine.run(COMMITTED, |other| deposit(other, &table, 1, 50)).0.unwrap();
            let of_other = if is_new_seen { Some(150) } else { Some(100) };
            for _ in 0..2 {
                txn.nested(|| {
                    assert_eq!([seen(0), seen(1)], [Some(101), of_other], "{isolation:?}");
                    deposit(txn, &table, 2, 7)?;
                    txn.nested(|| {
                        assert_eq!(seen(1), of_other);
                        deposit(txn, &table, 3, 9)
                    })?
                })??;
                assert_eq!([0, 1, 2, 3].map(seen), [Some(100); 4], "the command around keeps its view");
            }
            txn.release_command();
            Ok(())
        });
        let look = |txn: &Txn<'_>| Ok([0, 2, 3].map(|id| balance(txn, &table, id)));
        assert_eq!(done(&mut session, look), [Some(101), Some(114), Some(118)]);
        session.commit().unwrap();
        assert_eq!([0, 1, 2, 3].map(|id| balance_now(&engine, &table, id)), [101, 150, 114, 118].map(Some));
    }
}

/// A row that a nested command has changed cannot be changed by the command around it, and the other way round it can.
pub fn the_command_around_overwrites_no_nested_change() {
    let (engine, table) = bank_of(2);
    let mut session = open_session(&engine, Class::Normal);
    done(&mut session, |txn| {
        deposit(txn, &table, 1, 1)?;
        txn.nested(|| deposit(txn, &table, 1, 10))?
    });
    assert_eq!(done(&mut session, |txn| Ok(balance(txn, &table, 1))), Some(111));
    let deleted = |deletes| Error::ChangedWithin { table: table.name().to_owned(), deletes };
    for deletes in [false, true] {
        let error = failed(&mut session, |txn| {
            let row = row_of(txn, &table, 0).expect("it exists");
            txn.hold_command()?;
            txn.nested(|| deposit(txn, &table, 0, 10))??;
            match deletes {
                true => txn.delete(&table, row),
                false => txn.update(&table, row, |_| ()),
            }
        });
        assert_eq!(error, deleted(deletes));
        session.rollback();
        session.begin(COMMITTED).unwrap();
    }
    session.rollback();
    assert_eq!(balance_now(&engine, &table, 0), Some(100));
}

/// A statement whose nested command waits is undone as a whole, and sees what the holder has committed when it runs
/// again; the versions that its own snapshot needs are there all the time.
pub fn a_nested_command_waits() {
    let (engine, table) = bank_of(3);
    let mut holder = open_session(&engine, Class::Normal);
    done(&mut holder, add(&table, 2, 5));
    let mut session = open_session(&engine, Class::Normal);
    let statement = |txn: &Txn<'_>| {
        let before = balance(txn, &table, 0);
        deposit(txn, &table, 1, 1)?;
        engine.run(COMMITTED, |other| deposit(other, &table, 0, 1)).0?;
        txn.nested(|| deposit(txn, &table, 2, 1))??;
        assert_eq!(balance(txn, &table, 0), before);
        Ok(before)
    };
    let ticket = parked(&mut session, statement);
    holder.commit().unwrap();
    ticket.wait();
    assert!(done(&mut session, statement).is_some());
    session.commit().unwrap();
    assert_eq!([1, 2].map(|id| balance_now(&engine, &table, id)), [Some(101), Some(106)]);
}

/// A command that begins with a nested one sees what was written before it, and nothing of the nested one.
pub fn a_nested_command_may_come_first() {
    let (engine, table) = bank_of(1);
    let mut session = open_session(&engine, Class::Normal);
    done(&mut session, |txn| deposit(txn, &table, 0, 1));
    done(&mut session, |txn| {
        txn.nested(|| deposit(txn, &table, 0, 10))??;
        assert_eq!(balance(txn, &table, 0), Some(101));
        Ok(())
    });
    assert_eq!(done(&mut session, |txn| Ok(balance(txn, &table, 0))), Some(111));
    session.rollback();
}

/// Snapshots of calls within calls are given back when each call ends, however many commits come in between.
pub fn nested_commands_hold_few_snapshots() {
    let (engine, table) = bank_of(2);
    let mut session = open_session(&engine, Class::Normal);
    done(&mut session, |txn| {
        for _ in 0..2_000 {
            engine.run(COMMITTED, |other| deposit(other, &table, 0, 1)).0?;
            txn.nested(|| {
                engine.run(COMMITTED, |other| deposit(other, &table, 0, 1)).0?;
                txn.nested(|| assert!(balance(txn, &table, 0) > Some(100)))
            })??;
        }
        assert_eq!(balance(txn, &table, 0), Some(100));
        assert!(engine.snapshots().len() < 4);
        Ok(())
    });
    session.rollback();
}
