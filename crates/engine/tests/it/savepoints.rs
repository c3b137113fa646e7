//! Savepoints: the work that is undone, and the work that stays.

use crate::sessions::*;
use crate::support::*;
use engine::{Error, RowLock, Txn, Wait};
use preempt::os;
use stage::Class;

/// A rollback to a savepoint undoes what came after it, keys included, and no more; as often as one likes.
pub fn a_savepoint_undoes_what_came_after_it() {
    let (engine, table) = bank_of(3);
    let mut session = open_session(&engine, Class::Normal);
    let start = session.savepoint().unwrap();
    done(&mut session, add(&table, 0, 1));
    let first = session.savepoint().unwrap();
    for _ in 0..2 {
        done(&mut session, add(&table, 0, 10));
        done(&mut session, rename(&table, 1, 51));
        done(&mut session, delete(&table, 2));
        done(&mut session, |txn| open(txn, &table, 7, 7, "new"));
        let second = session.savepoint().unwrap();
        done(&mut session, |txn| open(txn, &table, 2, 2, "reborn"));
        session.rollback_to(&second).unwrap();
        assert_eq!(done(&mut session, |txn| Ok(balance(txn, &table, 2))), None);
        session.rollback_to(&first).unwrap();
        assert_eq!(session.rollback_to(&second), Err(Error::NoSuchSavepoint));
    }
    let look = |txn: &Txn<'_>| Ok([0, 1, 2, 7, 51].map(|id| balance(txn, &table, id)));
    assert_eq!(done(&mut session, look), [Some(101), Some(100), Some(100), None, None]);
    session.release(&start).unwrap();
    assert_eq!(session.rollback_to(&first), Err(Error::NoSuchSavepoint));
    session.commit().unwrap();
    assert_eq!(look(&engine.begin(NORMAL)).unwrap(), [Some(101), Some(100), Some(100), None, None]);
    // One of an earlier transaction is none of the next.
    session.begin(NORMAL).unwrap();
    let next = session.savepoint().unwrap();
    assert_ne!(next, start);
    assert_eq!(session.rollback_to(&start), Err(Error::NoSuchSavepoint));
    session.rollback();
}

/// Locks got after a savepoint, of whatever kind, are free again after the rollback to it, and those who wait have them;
/// locks from before are kept, in their strength from before.
pub fn a_savepoint_gives_up_locks() {
    let (engine, table) = bank_of(4);
    let mut session = open_session(&engine, Class::Normal);
    done(&mut session, locks(&table, 0, RowLock::KeyShare));
    let savepoint = session.savepoint().unwrap();
    done(&mut session, locks(&table, 0, RowLock::Update));
    done(&mut session, add(&table, 1, 1));
    done(&mut session, |txn| open(txn, &table, 9, 9, "new"));
    let mut waiting: Vec<_> = (0..3).map(|_| open_session(&engine, Class::Normal)).collect();
    let insert = |txn: &Txn<'_>| open(txn, &table, 9, 1, "other").map(drop);
    let tickets = [
        parked(&mut waiting[0], add(&table, 0, 10)),
        parked(&mut waiting[1], add(&table, 1, 10)),
        parked(&mut waiting[2], insert),
    ];
    session.rollback_to(&savepoint).unwrap();
    assert!(tickets.iter().all(engine::Ticket::is_ready));
    done(&mut waiting[0], add(&table, 0, 10));
    done(&mut waiting[1], add(&table, 1, 10));
    done(&mut waiting[2], insert);
    let mut deleter = open_session(&engine, Class::Normal);
    let nowait = |txn: &Txn<'_>| lock(txn, &table, 0, RowLock::Update, Wait::NoWait);
    waiting[0].commit().unwrap();
    assert!(matches!(failed(&mut deleter, nowait), Error::LockNotAvailable(_)));
    session.commit().unwrap();
    deleter.rollback();
    deleter.begin(COMMITTED).unwrap();
    assert!(done(&mut deleter, nowait));
}

/// Goal: after an error nothing works until the rollback to a savepoint; the work before the savepoint is still there,
/// and its locks too. Without a savepoint all locks are free at once.
pub fn an_error_is_undone_to_the_last_savepoint() {
    let (engine, table) = bank_of(3);
    let mut session = open_session(&engine, Class::Normal);
    done(&mut session, add(&table, 0, 1));
    let savepoint = session.savepoint().unwrap();
    done(&mut session, add(&table, 1, 1));
    assert!(matches!(failed(&mut session, |txn| open(txn, &table, 2, 0, "twice")), Error::UniqueViolation { .. }));
    assert_eq!(failed(&mut session, add(&table, 2, 1)), Error::InFailedTransaction);
    assert_eq!(session.savepoint(), Err(Error::InFailedTransaction));
    // The second row is free, the first is not.
    let mut other = open_session(&engine, Class::Normal);
    done(&mut other, add(&table, 1, 5));
    let ticket = parked(&mut other, add(&table, 0, 5));
    session.rollback_to(&savepoint).unwrap();
    done(&mut session, add(&table, 2, 1));
    session.commit().unwrap();
    assert!(ticket.is_ready());
    done(&mut other, add(&table, 0, 5));
    // Without a savepoint.
    let mut third = open_session(&engine, Class::Normal);
    let ticket = parked(&mut third, add(&table, 1, 7));
    assert!(matches!(failed(&mut other, |txn| open(txn, &table, 2, 0, "twice")), Error::UniqueViolation { .. }));
    assert!(ticket.is_ready());
    assert_eq!(other.commit(), Err(Error::InFailedTransaction));
    done(&mut third, add(&table, 1, 7));
    third.commit().unwrap();
    assert_eq!([0, 1, 2].map(|id| balance_now(&engine, &table, id)), [Some(101), Some(107), Some(101)]);
}

/// A statement that must wait has had no effect meanwhile: what it had changed before is as it was, and free.
pub fn a_statement_that_waits_is_undone() {
    let (engine, table) = bank_of(2);
    let mut holder = open_session(&engine, Class::Normal);
    done(&mut holder, add(&table, 1, 1));
    let mut session = open_session(&engine, Class::Normal);
    done(&mut session, |txn| open(txn, &table, 5, 5, "before"));
    let both = |txn: &Txn<'_>| {
        pay(txn, &table, 0, -10)?;
        open(txn, &table, 6, 6, "within")?;
        pay(txn, &table, 1, 10)
    };
    let ticket = parked(&mut session, both);
    let mut other = open_session(&engine, Class::Normal);
    done(&mut other, add(&table, 0, 1));
    other.commit().unwrap();
    holder.commit().unwrap();
    assert!(ticket.is_ready());
    done(&mut session, both);
    session.commit().unwrap();
    let all = [0, 1, 5, 6].map(|id| balance_now(&engine, &table, id));
    assert_eq!(all, [Some(91), Some(111), Some(5), Some(6)]);
    let stats = engine.stats();
    assert_eq!(stats.index_entries, 8, "four rows in two indexes");
}

/// A statement fails while its transaction has been taken, or because it has: who goes back to the savepoint is told to begin
/// again, however often.
pub fn a_savepoint_of_a_victim_is_gone_for_that_reason() {
    let (engine, table) = bank_of(2);
    let mut low = open_session(&engine, Class::Low);
    done(&mut low, add(&table, 0, 1));
    let savepoint = low.savepoint().unwrap();
    assert_eq!(failed(&mut low, |_| Err::<(), _>(Error::RolledBack)), Error::RolledBack);
    low.rollback_to(&savepoint).unwrap();
    low.rollback();
    for learns in [false, true] {
        let mut low = open_session(&engine, Class::Low);
        done(&mut low, add(&table, 0, 1));
        let savepoint = low.savepoint().unwrap();
        let error = failed(&mut low, |txn| {
            let mut high = open_session(&engine, Class::High);
            let ticket = parked(&mut high, add(&table, 0, 10));
            engine.expire_waits(os::now_ns() + 10_000_000_000);
            assert!(ticket.is_ready());
            if learns { txn.check_active() } else { Err::<(), _>(Error::RolledBack) }
        });
        assert_eq!(error, if learns { Error::Taken } else { Error::RolledBack });
        for _ in 0..3 {
            assert_eq!(low.rollback_to(&savepoint), Err(Error::Taken));
            assert_eq!(failed(&mut low, add(&table, 1, 1)), Error::InFailedTransaction);
            assert_eq!(low.savepoint().unwrap_err(), Error::InFailedTransaction);
            assert_eq!(low.release(&savepoint), Err(Error::InFailedTransaction));
        }
        low.rollback();
    }
}
