//! Advisory locks: conflicts, lifetime, and deadlocks with rows and tables.

use crate::sessions::*;
use crate::support::*;
use engine::{Advisory, AdvisoryScope, Error, Result, Session, TableLock, Txn, Wait};
use stage::Class;

const LOCK: Advisory = Advisory::One(7);
const SCOPES: [AdvisoryScope; 2] = [AdvisoryScope::Transaction, AdvisoryScope::Session];

fn takes(lock: Advisory, shared: bool, scope: AdvisoryScope) -> impl Fn(&Txn<'_>) -> Result<()> {
    move |txn| txn.lock_advisory(lock, shared, scope, Wait::Block).map(drop)
}

fn tries(session: &mut Session, lock: Advisory, shared: bool) -> bool {
    done(session, |txn| txn.lock_advisory(lock, shared, AdvisoryScope::Transaction, Wait::SkipLocked))
}

/// Shared locks go with shared ones only, whatever their scopes. One number is never two, and none is another.
pub fn exclusive_ones_exclude_all_and_shared_ones_those() {
    for (had, wanted) in [(false, false), (false, true), (true, false), (true, true)] {
        for (had_scope, scope) in SCOPES.into_iter().flat_map(|had| SCOPES.map(|wanted| (had, wanted))) {
            let (engine, _) = bank_of(1);
            let mut first = open_session(&engine, Class::Normal);
            let mut second = open_session(&engine, Class::Normal);
            done(&mut first, takes(LOCK, had, had_scope));
            for other in [Advisory::One(8), Advisory::Two(0, 7), Advisory::One(7 << 32)] {
                assert!(tries(&mut second, other, false));
            }
            assert_eq!(tries(&mut second, LOCK, wanted), had && wanted);
            if !(had && wanted) {
                let ticket = parked(&mut second, takes(LOCK, wanted, scope));
                assert!(!ticket.is_ready());
                first.commit().unwrap();
                assert_eq!(ticket.is_ready(), had_scope == AdvisoryScope::Transaction);
                assert_eq!(first.unlock_advisory(LOCK, had), had_scope == AdvisoryScope::Session);
                assert!(ticket.is_ready());
                done(&mut second, takes(LOCK, wanted, scope));
            }
            drop((first, second));
            assert_eq!(engine.lock_stats().entries, 0);
        }
    }
}

/// A session's lock is counted, mode by mode, and stays when a transaction is rolled back; it goes with the session.
pub fn a_sessions_lock_is_counted_and_outlives_transactions() {
    let (engine, _) = bank_of(1);
    let mut first = open_session(&engine, Class::Normal);
    let mut second = open_session(&engine, Class::Normal);
    done(&mut first, takes(LOCK, false, AdvisoryScope::Session));
    done(&mut first, takes(LOCK, false, AdvisoryScope::Session));
    done(&mut first, takes(LOCK, true, AdvisoryScope::Session));
    first.rollback();
    assert!(first.unlock_advisory(LOCK, false) && !tries(&mut second, LOCK, true));
    assert!(first.unlock_advisory(LOCK, false) && tries(&mut second, LOCK, true));
    assert!(!first.unlock_advisory(LOCK, false), "it was had twice");
    assert!(!tries(&mut second, LOCK, false), "the shared one is still had");
    first.unlock_all_advisory();
    assert!(tries(&mut second, LOCK, false));
    second.rollback();
    first.begin(COMMITTED).unwrap();
    done(&mut first, takes(LOCK, false, AdvisoryScope::Session));
    second.begin(COMMITTED).unwrap();
    let ticket = parked(&mut second, takes(LOCK, false, AdvisoryScope::Session));
    drop(first);
    assert!(ticket.is_ready());
    done(&mut second, takes(LOCK, false, AdvisoryScope::Session));
    drop(second);
    assert_eq!(engine.lock_stats().entries, 0);
}

/// A transaction's lock goes when it goes back to before it. Nobody waits for himself, in whichever scope he has the lock.
pub fn a_transactions_lock_goes_with_its_savepoint() {
    let (engine, _) = bank_of(1);
    let mut first = open_session(&engine, Class::Normal);
    let mut second = open_session(&engine, Class::Normal);
    done(&mut first, takes(Advisory::Two(-1, 2), true, AdvisoryScope::Session));
    done(&mut first, takes(Advisory::Two(-1, 2), false, AdvisoryScope::Transaction));
    let savepoint = first.savepoint().unwrap();
    done(&mut first, takes(LOCK, false, AdvisoryScope::Transaction));
    done(&mut first, takes(LOCK, false, AdvisoryScope::Session));
    assert!(first.unlock_advisory(LOCK, false) && !tries(&mut second, LOCK, false));
    first.rollback_to(&savepoint).unwrap();
    assert!(tries(&mut second, LOCK, false) && !tries(&mut second, Advisory::Two(-1, 2), true));
    first.commit().unwrap();
    assert!(tries(&mut second, Advisory::Two(-1, 2), true) && !tries(&mut second, Advisory::Two(-1, 2), false));
}

/// Deadlocks go through advisory locks: one session has a session's lock and wants a row or table, the other has that
/// and wants the lock. The younger transaction fails, and keeps its session's locks.
pub fn deadlocks_go_through_them() {
    for (scope, of_table) in SCOPES.into_iter().flat_map(|scope| [(scope, false), (scope, true)]) {
        let (engine, table) = bank_of(2);
        let takes_other = |txn: &Txn<'_>| match of_table {
            true => txn.lock_table(&table, TableLock::Exclusive, Wait::Block),
            false => add(&table, 0, 1)(txn),
        };
        let mut first = open_session(&engine, Class::Normal);
        let mut second = open_session(&engine, Class::Normal);
        done(&mut first, takes_other);
        done(&mut second, takes(LOCK, false, scope));
        let _ticket = parked(&mut first, takes(LOCK, false, AdvisoryScope::Session));
        let error = failed(&mut second, takes_other);
        assert!(matches!(error, Error::Deadlock(_)), "{error}");
        second.rollback();
        assert_eq!(second.unlock_advisory(LOCK, false), scope == AdvisoryScope::Session);
        done(&mut first, takes(LOCK, false, AdvisoryScope::Session));
        first.commit().unwrap();
        assert_eq!(engine.lock_stats().deadlocks, 1);
    }
}

/// The view names the lock, its session and who waits for it.
pub fn the_view_shows_them() {
    let (engine, _) = bank_of(1);
    let mut first = open_session(&engine, Class::Normal);
    let mut second = open_session(&engine, Class::Normal);
    done(&mut first, takes(LOCK, true, AdvisoryScope::Session));
    let _ticket = parked(&mut second, takes(LOCK, false, AdvisoryScope::Transaction));
    let locks = engine.locks();
    let [had, wanted] = &locks[..] else { panic!("{locks:?}") };
    assert!(
        had.granted && had.of_session && had.mode == "share" && had.advisory == Some(LOCK) && had.session.is_some()
    );
    assert!(!wanted.granted && !wanted.of_session && wanted.mode == "exclusive" && wanted.advisory == Some(LOCK));
    assert_eq!(wanted.blocked_by, [had.transaction]);
}
