//! Deadlocks: of two and of three, through rows, shared locks, keys and tables. The victim is the least important, and
//! among equals the youngest.

use crate::sessions::*;
use crate::support::*;
use engine::{Engine, Error, LockConfig, LockPriority, Result, RowLock, Session, Table, TableLock, Ticket, Txn, Wait};
use stage::Class;
use std::sync::Arc;

/// Creates a bank in which the members of a deadlock would be aborted for another reason if they gave way.
fn bank_of_rows(count: i32) -> (Engine, Arc<Table>) {
    let (engine, table) = bank_of(count);
    engine.set_lock_config(LockConfig { priority: LockPriority::PriorityQueue, ..LockConfig::default() });
    (engine, table)
}

fn is_deadlock(error: Option<&Error>) -> bool {
    matches!(error, Some(Error::Deadlock(_)))
}

fn is_victim(session: &mut Session) {
    let error = failed(session, |_| Ok(()));
    assert!(is_deadlock(Some(&error)), "{error}");
}

/// Two sessions in each order of classes; whoever closes the circle, the victim is the same.
pub fn two_wait_for_each_other() {
    for (classes, victim) in [
        ([Class::Normal, Class::Normal], 1),
        ([Class::Low, Class::Normal], 0),
        ([Class::Normal, Class::Low], 1),
        ([Class::High, Class::High], 1),
    ] {
        for closes in [0, 1] {
            let (engine, table) = bank_of_rows(2);
            let mut sessions = classes.map(|class| open_session(&engine, class));
            done(&mut sessions[0], add(&table, 0, 1));
            done(&mut sessions[1], add(&table, 1, 1));
            let other = 1 - closes;
            let ticket = parked(&mut sessions[other], add(&table, closes as i32, 1));
            let result = sessions[closes].try_execute(add(&table, other as i32, 1));
            if victim == closes {
                assert!(is_deadlock(result.err().as_ref()));
            } else {
                assert!(matches!(result, Ok(engine::Step::Parked(_))));
                assert!(ticket.is_ready());
                is_victim(&mut sessions[victim]);
            }
            let winner = 1 - victim;
            done(&mut sessions[winner], add(&table, victim as i32, 1));
            sessions[winner].commit().unwrap();
            assert_eq!(engine.lock_stats().deadlocks, 1);
            assert_eq!([0, 1].map(|id| balance_now(&engine, &table, id)), [Some(101), Some(101)]);
        }
    }
}

/// Three in a ring. One victim; the others go on.
pub fn three_wait_in_a_ring() {
    for low in 0..3 {
        let (engine, table) = bank_of_rows(3);
        let mut sessions: Vec<Session> =
            (0..3).map(|at| open_session(&engine, if at == low { Class::Low } else { Class::Normal })).collect();
        for (at, session) in sessions.iter_mut().enumerate() {
            done(session, add(&table, at as i32, 1));
        }
        let next = |at: usize| ((at + 1) % 3) as i32;
        let tickets: Vec<Ticket> = (0..2).map(|at| parked(&mut sessions[at], add(&table, next(at), 10))).collect();
        let last = sessions[2].try_execute(add(&table, next(2), 10));
        if low == 2 {
            assert!(is_deadlock(last.err().as_ref()));
        } else {
            assert!(matches!(last, Ok(engine::Step::Parked(_))));
            assert!(tickets[low].is_ready());
            is_victim(&mut sessions[low]);
        }
        // Whoever waited for the victim's row goes first, then whoever waited for that one's.
        for step in 1..3 {
            let at = (low + 3 - step) % 3;
            done(&mut sessions[at], add(&table, next(at), 10));
            sessions[at].commit().unwrap();
        }
        assert_eq!(engine.lock_stats().deadlocks, 1);
    }
}

type Statement<'a> = &'a dyn Fn(&Txn<'_>) -> Result<()>;

/// Runs `steps` of two sessions, the last of which closes a circle, and says that the second is the victim.
fn closes(table: &Arc<Table>, engine: &Engine, steps: [Statement<'_>; 4]) {
    let mut first = open_session(engine, Class::Normal);
    let mut second = open_session(engine, Class::Normal);
    done(&mut first, steps[0]);
    done(&mut second, steps[1]);
    let ticket = parked(&mut first, steps[2]);
    assert!(is_deadlock(second.try_execute(steps[3]).err().as_ref()));
    assert!(ticket.is_ready());
    done(&mut first, steps[2]);
    first.commit().unwrap();
    second.rollback();
    assert_eq!(engine.lock_stats().deadlocks, 1);
    assert_eq!(engine.lock_stats().entries, 0, "{table:?}");
}

/// Goal: two inserters of a key each, then of the other's, deadlock.
pub fn inserters_wait_for_each_other() {
    let (engine, table) = bank_of_rows(1);
    let insert = |id: i32| {
        let table = table.clone();
        move |txn: &Txn<'_>| open(txn, &table, id, 0, "x").map(drop)
    };
    closes(&table, &engine, [&insert(7), &insert(8), &insert(8), &insert(7)]);
}

/// Goal: statements that have changed something before they wait give that back, and do not wake each other for it
/// again and again.
pub fn who_waits_for_a_key_gives_back_others() {
    let (engine, table) = bank_of_rows(3);
    let insert = |id: i32| {
        let table = table.clone();
        move |txn: &Txn<'_>| open(txn, &table, id, 0, "x").map(drop)
    };
    let both = |row: i32, id: i32| {
        let table = table.clone();
        move |txn: &Txn<'_>| pay(txn, &table, row, 1).and_then(|()| open(txn, &table, id, 0, "x").map(drop))
    };
    closes(&table, &engine, [&insert(7), &insert(8), &both(1, 8), &both(2, 7)]);
}

/// Goal: two transactions that share a row, and both want to write it, deadlock.
pub fn sharers_wait_for_each_other() {
    let (engine, table) = bank_of_rows(1);
    let share = |txn: &Txn<'_>| lock(txn, &table, 0, RowLock::Share, Wait::Block).map(drop);
    let write = add(&table, 0, 1);
    closes(&table, &engine, [&share, &share, &write, &write]);
}

/// Goal: one has the table, the other a row of it: they deadlock.
pub fn a_table_and_a_row() {
    let (engine, table) = bank_of_rows(2);
    let share_table = |txn: &Txn<'_>| txn.lock_table(&table, TableLock::Share, Wait::Block);
    let write = add(&table, 0, 1);
    // Both share the table and then write.
    closes(&table, &engine, [&share_table, &share_table, &write, &write]);
}

/// Goal: no one has what the other wants, but the queue stands between: a sharer behind a writer behind a sharer. The
/// writer matters more, so no one goes before it.
pub fn a_queue_closes_a_circle() {
    let (engine, table) = bank_of_rows(2);
    let mut first = open_session(&engine, Class::Normal);
    let mut writer = open_session(&engine, Class::High);
    let mut last = open_session(&engine, Class::Normal);
    done(&mut first, locks(&table, 0, RowLock::Share));
    done(&mut last, add(&table, 1, 1));
    let _ = parked(&mut writer, add(&table, 0, 1));
    let behind = parked(&mut last, locks(&table, 0, RowLock::Share));
    // The first waits for the last, who waits for the writer, who waits for the first.
    let waits = parked(&mut first, add(&table, 1, 1));
    assert!(behind.is_ready() && !waits.is_ready(), "the youngest is the victim");
    is_victim(&mut last);
    assert!(waits.is_ready());
    done(&mut first, add(&table, 1, 1));
    first.commit().unwrap();
    done(&mut writer, add(&table, 0, 1));
}

/// A savepoint keeps what came before it from the victim's fate.
pub fn a_victim_goes_on_from_its_savepoint() {
    let (engine, table) = bank_of_rows(3);
    let mut first = open_session(&engine, Class::Normal);
    let mut second = open_session(&engine, Class::Normal);
    done(&mut second, add(&table, 2, 1));
    let savepoint = second.savepoint().unwrap();
    done(&mut first, add(&table, 0, 1));
    done(&mut second, add(&table, 1, 1));
    let ticket = parked(&mut first, add(&table, 1, 1));
    assert!(is_deadlock(Some(&failed(&mut second, add(&table, 0, 1)))));
    assert!(ticket.is_ready());
    done(&mut first, add(&table, 1, 1));
    second.rollback_to(&savepoint).unwrap();
    second.commit().unwrap();
    first.commit().unwrap();
    assert_eq!([0, 1, 2].map(|id| balance_now(&engine, &table, id)), [Some(101); 3]);
}

/// Procedures are undone whole when they wait: two that lock in opposite orders have no deadlock.
pub fn procedures_hold_nothing_while_they_wait() {
    let (engine, table) = bank_of_rows(2);
    let mut holder = open_session(&engine, Class::Normal);
    done(&mut holder, add(&table, 0, 1));
    done(&mut holder, add(&table, 1, 1));
    let mut sessions = [session(&engine), session(&engine)];
    let orders = [[0, 1], [1, 0]];
    let mut tickets = Vec::new();
    for (session, order) in sessions.iter_mut().zip(orders) {
        let step = session.try_run(COMMITTED, |txn| order.iter().try_for_each(|id| pay(txn, &table, *id, 1)));
        let Ok(engine::Step::Parked(ticket)) = step else { panic!("it waits") };
        tickets.push(ticket);
    }
    holder.commit().unwrap();
    assert!(tickets.iter().all(Ticket::is_ready));
    // Each may have to wait for the other, which has a place before it, but not for ever.
    let mut waiting: Vec<usize> = vec![0, 1];
    for _ in 0..4 {
        waiting.retain(|at| {
            let step =
                sessions[*at].try_run(COMMITTED, |txn| orders[*at].iter().try_for_each(|id| pay(txn, &table, *id, 1)));
            matches!(step.unwrap(), engine::Step::Parked(_))
        });
    }
    assert!(waiting.is_empty());
    assert_eq!(engine.lock_stats().deadlocks, 0);
    assert_eq!([0, 1].map(|id| balance_now(&engine, &table, id)), [Some(103), Some(103)]);
}

/// One who shares a row goes before a delete that waits for it, so what the delete's holder waits for next closes no circle.
pub fn who_may_pass_closes_no_circle() {
    let (engine, table) = bank_of_rows(2);
    let mut one = open_session(&engine, Class::Normal);
    done(&mut one, locks(&table, 0, RowLock::Share));
    let mut three = open_session(&engine, Class::Normal);
    done(&mut three, add(&table, 1, 1));
    let mut two = open_session(&engine, Class::Normal);
    let twos = parked(&mut two, delete(&table, 0));
    done(&mut three, locks(&table, 0, RowLock::Share));
    let ones = parked(&mut one, add(&table, 1, 1));
    three.commit().unwrap();
    assert!(ones.is_ready());
    done(&mut one, add(&table, 1, 1));
    one.commit().unwrap();
    assert!(twos.is_ready());
    done(&mut two, delete(&table, 0));
    two.commit().unwrap();
    assert_eq!(engine.lock_stats().deadlocks, 0);
}

/// A circle that is closed only by the order of a queue is opened by another order, and nobody is aborted. (PostgreSQL's
/// `deadlock-soft`.)
pub fn a_soft_deadlock_is_opened_by_the_order_of_a_queue() {
    let (engine, a) = bank_of_rows(1);
    let b = engine.create_table(engine::TableDef { name: "other".to_owned(), ..definition(&a) }).unwrap();
    let table_lock = |table: &Arc<Table>, mode: TableLock| {
        let table = table.clone();
        move |txn: &Txn<'_>| txn.lock_table(&table, mode, Wait::Block)
    };
    let [mut d1, mut d2, mut e1, mut e2] = [(); 4].map(|()| open_session(&engine, Class::Normal));
    done(&mut d1, table_lock(&a, TableLock::AccessShare));
    done(&mut d2, table_lock(&b, TableLock::AccessShare));
    let e1s = parked(&mut e1, table_lock(&a, TableLock::AccessExclusive));
    let e2s = parked(&mut e2, table_lock(&b, TableLock::AccessExclusive));
    // d1 waits for e2, who waits for d2.
    let d1s = parked(&mut d1, table_lock(&b, TableLock::AccessShare));
    // d2 stands behind e1, who waits for d1: the circle is closed. Who has waited longer goes before the exclusive one.
    let d2s = parked(&mut d2, table_lock(&a, TableLock::AccessShare));
    assert!(d1s.is_ready() && !d2s.is_ready(), "d1 goes on, and d2 does not");
    assert_eq!(engine.lock_stats().deadlocks, 0);
    done(&mut d1, table_lock(&b, TableLock::AccessShare));
    d1.commit().unwrap();
    assert!(e1s.is_ready() && !e2s.is_ready());
    done(&mut e1, table_lock(&a, TableLock::AccessExclusive));
    e1.commit().unwrap();
    assert!(d2s.is_ready());
    done(&mut d2, table_lock(&a, TableLock::AccessShare));
    d2.commit().unwrap();
    assert!(e2s.is_ready());
    done(&mut e2, table_lock(&b, TableLock::AccessExclusive));
    assert_eq!(engine.lock_stats().deadlocks, 0);
}
