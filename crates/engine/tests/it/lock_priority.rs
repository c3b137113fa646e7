//! Order of waiters, and the transactions that give way, under each of the four settings.

use crate::sessions::*;
use crate::support::*;
use engine::{
    Begin, Engine, Error, LockConfig, LockPriority, RowLock, Session, SessionOptions, Step, Table, Taking, Ticket, Txn,
    Why,
};
use preempt::{Arrival, Serve, Worker, os};
use stage::Class;
use std::sync::Arc;
use std::time::Duration;

/// Long enough that no test reaches it by itself.
const LONG: Duration = Duration::from_secs(3_600);

fn set(engine: &Engine, priority: LockPriority) {
    engine.set_lock_config(LockConfig { priority, patience: LONG, ..LockConfig::default() });
}

/// Waiters are granted in the order of their classes, and within a class as they came; under `none` as they came.
pub fn waiters_are_served_by_class() {
    const ARRIVALS: [Class; 6] = [Class::Low, Class::Normal, Class::High, Class::Low, Class::High, Class::Normal];
    for priority in LockPriority::ALL {
        let (engine, table) = bank_of(1);
        set(&engine, priority);
        // The holder is as important as any, so it is in nobody's power.
        let mut holder = open_session(&engine, Class::High);
        done(&mut holder, add(&table, 0, 1));
        let mut waiters: Vec<(Class, Session, Ticket)> = ARRIVALS
            .into_iter()
            .map(|class| {
                let mut session = open_session(&engine, class);
                let ticket = parked(&mut session, add(&table, 0, 1));
                (class, session, ticket)
            })
            .collect();
        holder.commit().unwrap();
        let mut served = Vec::new();
        while !waiters.is_empty() {
            let ready: Vec<usize> = (0..waiters.len()).filter(|at| waiters[*at].2.is_ready()).collect();
            assert_eq!(ready.len(), 1, "one at a time");
            let (class, mut session, _) = waiters.remove(ready[0]);
            done(&mut session, add(&table, 0, 1));
            session.commit().unwrap();
            served.push(class);
        }
        let mut expected = ARRIVALS;
        if priority != LockPriority::None {
            expected.sort();
        }
        assert_eq!(served, expected, "{priority:?}");
        assert_eq!(balance_now(&engine, &table, 0), Some(107));
    }
}

/// Under `none` a waiter of low class goes before one of high class that it does not delay, as the waiter itself is told when it
/// comes.
pub fn without_priorities_classes_let_each_other_pass() {
    let (engine, table) = bank_of(1);
    set(&engine, LockPriority::None);
    // The first shares the row; the important one wants it alone and waits for that; the third could share it all the same, but for
    // the second, which has it alone for a while.
    let mut shares = open_session(&engine, Class::High);
    done(&mut shares, locks(&table, 0, RowLock::KeyShare));
    let mut alone = open_session(&engine, Class::High);
    done(&mut alone, locks(&table, 0, RowLock::NoKeyUpdate));
    let mut high = open_session(&engine, Class::High);
    let _high = parked(&mut high, locks(&table, 0, RowLock::Update));
    let mut low = open_session(&engine, Class::Low);
    let waits = parked(&mut low, locks(&table, 0, RowLock::Share));
    alone.commit().unwrap();
    assert!(waits.is_ready(), "nothing that it excludes is held");
    done(&mut low, locks(&table, 0, RowLock::Share));
}

/// A holder of low class in each state of rest, and whether each setting makes it give way to a high one at once.
pub fn holders_give_way_as_the_setting_says() {
    for priority in LockPriority::ALL {
        let pow = matches!(priority, LockPriority::Pow | LockPriority::NotRunning);
        let not_running = priority == LockPriority::NotRunning;
        // It waits for its client.
        let (engine, table) = bank_of(3);
        set(&engine, priority);
        let mut low = open_session(&engine, Class::Low);
        done(&mut low, add(&table, 0, 1));
        assert_eq!(takes(&engine, &table, 0), not_running, "{priority:?}, client");
        expect_victim(&mut low, not_running, &engine, Why::Client);
        // It waits at the gate.
        let (engine, table) = bank_of(3);
        set(&engine, priority);
        let mut low = open_session(&engine, Class::Low);
        done(&mut low, locks(&table, 0, RowLock::Update));
        low.wait_at_gate();
        assert_eq!(takes(&engine, &table, 0), not_running, "{priority:?}, gate");
        expect_victim(&mut low, not_running, &engine, Why::Gate);
        // It waits for a lock.
        let (engine, table) = bank_of(3);
        set(&engine, priority);
        let mut other = open_session(&engine, Class::High);
        done(&mut other, add(&table, 1, 1));
        let mut low = open_session(&engine, Class::Low);
        done(&mut low, add(&table, 0, 1));
        let ticket = parked(&mut low, add(&table, 1, 1));
        assert_eq!(takes(&engine, &table, 0), pow, "{priority:?}, lock wait");
        assert_eq!(ticket.is_ready(), pow, "a victim's wait is over");
        if pow {
            assert_eq!(failed(&mut low, add(&table, 1, 1)), Error::Taken);
        }
        other.commit().unwrap();
        if !pow {
            done(&mut low, add(&table, 1, 1));
            low.commit().unwrap();
        }
    }
}

/// Returns true if a high session has the row at once.
fn takes(engine: &Engine, table: &Arc<Table>, id: i32) -> bool {
    let mut high = open_session(engine, Class::High);
    match high.try_execute(add(table, id, 10)).unwrap() {
        engine::Step::Done(()) => {
            high.commit().unwrap();
            true
        }
        engine::Step::Parked(_) => false,
    }
}

fn expect_victim(low: &mut Session, is_victim: bool, engine: &Engine, why: Why) {
    if is_victim {
        assert_eq!(failed(low, |_| Ok(())), Error::Taken);
        assert_eq!(failed(low, |_| Ok(())), Error::InFailedTransaction);
        let taking = Taking { taker: Class::High, victim: Class::Low, why, count: 1 };
        assert_eq!(engine.lock_stats().takings, [taking]);
        assert_eq!(engine.stats().taken, 1);
    } else {
        done(low, |_| Ok(()));
        low.commit().unwrap();
        assert_eq!(engine.lock_stats().takings, []);
    }
}

/// Goal: a transaction that begins to rest while a more important one already waits gives way then.
pub fn a_holder_that_comes_to_rest_gives_way() {
    for priority in LockPriority::ALL {
        let (engine, table) = bank_of(2);
        set(&engine, priority);
        let mut low = open_session(&engine, Class::Low);
        let mut high = open_session(&engine, Class::High);
        // The high one comes while the low one runs.
        let mut ticket = None;
        done(&mut low, |txn| {
            pay(txn, &table, 0, 1)?;
            ticket = Some(parked(&mut high, add(&table, 0, 10)));
            Ok(())
        });
        let gives_way = priority == LockPriority::NotRunning;
        assert_eq!(ticket.unwrap().is_ready(), gives_way, "{priority:?}");
        if gives_way {
            done(&mut high, add(&table, 0, 10));
            high.commit().unwrap();
            assert_eq!(failed(&mut low, |_| Ok(())), Error::Taken);
        } else {
            low.commit().unwrap();
            done(&mut high, add(&table, 0, 10));
        }
    }
}

/// A less important holder that runs is waited for until the taker's patience ends, and then aborted at its next check.
pub fn patience_ends() {
    let (engine, table) = bank_of(2);
    engine.set_lock_config(LockConfig { patience: Duration::from_millis(1), ..LockConfig::default() });
    let mut low = open_session(&engine, Class::Low);
    let mut high = open_session(&engine, Class::High);
    let error = failed(&mut low, |txn| {
        pay(txn, &table, 0, 1)?;
        let ticket = parked(&mut high, add(&table, 0, 10));
        let next_ns = engine.expire_waits(os::now_ns()).expect("somebody waits");
        assert!(!ticket.is_ready() || next_ns <= os::now_ns());
        engine.expire_waits(next_ns + 2_000_000);
        assert!(ticket.is_ready());
        done(&mut high, add(&table, 0, 10));
        high.commit().unwrap();
        // It may have read on as a zombie; its next call tells.
        pay(txn, &table, 1, 1)
    });
    assert_eq!(error, Error::Taken);
    let takings = engine.lock_stats().takings;
    assert_eq!(takings, [Taking { taker: Class::High, victim: Class::Low, why: Why::Patience, count: 1 }]);
    assert_eq!([0, 1].map(|id| balance_now(&engine, &table, id)), [Some(110), Some(100)]);
    // An equal one is waited for as long as it takes.
    let mut first = open_session(&engine, Class::High);
    high.begin(Begin::new(Class::High)).unwrap();
    done(&mut first, add(&table, 0, 1));
    let ticket = parked(&mut high, add(&table, 0, 1));
    for _ in 0..100 {
        engine.expire_waits(os::now_ns() + 10_000_000_000);
    }
    assert!(!ticket.is_ready());
}

/// Rows that a victim held beside the one that was taken are free for those who wait for them, though its session is away.
pub fn all_rows_of_a_victim_are_free() {
    let (engine, table) = bank_of(3);
    set(&engine, LockPriority::NotRunning);
    let mut low = open_session(&engine, Class::Low);
    done(&mut low, add(&table, 0, 1));
    done(&mut low, locks(&table, 1, RowLock::Update));
    done(&mut low, add(&table, 2, 1));
    let mut others: Vec<Session> = (0..2).map(|_| open_session(&engine, Class::Low)).collect();
    let tickets = [parked(&mut others[0], add(&table, 1, 5)), parked(&mut others[1], add(&table, 2, 5))];
    assert!(takes(&engine, &table, 0));
    assert!(tickets.iter().all(Ticket::is_ready));
    done(&mut others[0], add(&table, 1, 5));
    done(&mut others[1], add(&table, 2, 5));
    for other in &mut others {
        other.commit().unwrap();
    }
    low.rollback();
    let all = [0, 1, 2].map(|id| balance_now(&engine, &table, id));
    assert_eq!(all, [Some(110), Some(105), Some(105)]);
}

/// Goal: after five losses in a row a session's next transaction has the taker's class until it ends.
pub fn losers_are_promoted() {
    let (engine, table) = bank_of(1);
    set(&engine, LockPriority::NotRunning);
    let mut low = open_session(&engine, Class::Low);
    for _ in 0..5 {
        done(&mut low, add(&table, 0, 1));
        assert!(takes(&engine, &table, 0));
        assert_eq!(failed(&mut low, |_| Ok(())), Error::Taken);
        low.rollback();
        low.begin(Begin::new(Class::Low)).unwrap();
    }
    done(&mut low, add(&table, 0, 1));
    assert!(!takes(&engine, &table, 0), "it is as important as they are");
    low.commit().unwrap();
    assert_eq!(engine.lock_stats().promotions, 1);
    low.begin(Begin::new(Class::Low)).unwrap();
    done(&mut low, add(&table, 0, 1));
    assert!(takes(&engine, &table, 0), "its class is its own again");
}

struct Nothing;

impl Serve for Nothing {
    fn serve(&self, _worker: &'static Worker, _arrival: Arrival) {}
}

/// A procedure that is paused under an urgent one on its own worker gives way, and is run again.
pub fn a_paused_procedure_gives_way() {
    let _worker = Worker::current().is_none().then(|| preempt::register("paused", Arc::new(Nothing)).unwrap());
    for priority in LockPriority::ALL {
        let (engine, table) = bank_of(1);
        set(&engine, priority);
        let mut low = session(&engine);
        let mut high = engine.session(SessionOptions::new(Class::High));
        let mut ticket = None;
        let mut runs = 0;
        low.run(Begin::new(Class::Low), |txn| {
            runs += 1;
            pay(txn, &table, 0, 1)?;
            if runs == 1 {
                preempt::enter_urgent(&mut || match high.try_run(Begin::new(Class::High), add(&table, 0, 10)) {
                    Ok(engine::Step::Done(())) => {}
                    Ok(engine::Step::Parked(parked)) => ticket = Some(parked),
                    Err(error) => panic!("{error}"),
                });
            }
            Ok(())
        })
        .unwrap();
        let gives_way = priority == LockPriority::NotRunning;
        assert_eq!(runs, if gives_way { 2 } else { 1 }, "{priority:?}");
        assert_eq!(ticket.is_some(), !gives_way);
        high.run(Begin::new(Class::High), |_| Ok(())).unwrap();
        assert_eq!(balance_now(&engine, &table, 0), Some(if gives_way { 111 } else { 101 }));
    }
}

/// A promoted procedure that must wait has not had its chance: it is promoted still when it is run again.
pub fn a_promotion_outlives_a_wait() {
    let (engine, table) = bank_of(2);
    engine.set_lock_config(LockConfig { promote_after: 1, patience: LONG, ..LockConfig::default() });
    let mut low = open_session(&engine, Class::Low);
    done(&mut low, add(&table, 0, 1));
    assert!(takes(&engine, &table, 0));
    low.rollback();
    let mut holder = open_session(&engine, Class::High);
    done(&mut holder, add(&table, 0, 1));
    let mut classes = Vec::new();
    let mut procedure = |txn: &Txn<'_>| {
        classes.extend(engine.transactions().iter().filter(|open| open.id == txn.id()).map(|open| open.class));
        pay(txn, &table, 0, 1)
    };
    let Ok(Step::Parked(ticket)) = low.try_run(Begin::new(Class::Low), &mut procedure) else { panic!("it waits") };
    holder.commit().unwrap();
    assert!(ticket.is_ready());
    assert!(matches!(low.try_run(Begin::new(Class::Low), &mut procedure), Ok(Step::Done(()))));
    assert!(matches!(low.try_run(Begin::new(Class::Low), &mut procedure), Ok(Step::Done(()))));
    assert_eq!(classes, [Class::High, Class::High, Class::Low]);
    assert_eq!(engine.lock_stats().promotions, 1);
}

/// A transaction that has only locked, and lost its lock, cannot commit.
pub fn a_lost_lock_is_told_at_the_commit() {
    let (engine, table) = bank_of(2);
    type Locker<'a> = &'a dyn Fn(&Txn<'_>) -> engine::Result<()>;
    let lockers: [Locker<'_>; 3] = [
        &|txn| lock(txn, &table, 0, RowLock::Update, engine::Wait::Block).map(drop),
        &|txn| lock(txn, &table, 0, RowLock::Share, engine::Wait::Block).map(drop),
        &|txn| txn.lock_table(&table, engine::TableLock::Share, engine::Wait::Block),
    ];
    for locker in lockers {
        let mut normal = open_session(&engine, Class::Normal);
        done(&mut normal, locker);
        assert!(takes(&engine, &table, 0));
        assert_eq!(normal.commit().unwrap_err(), Error::Taken);
        // It is over.
        normal.begin(COMMITTED).unwrap();
        normal.commit().unwrap();
    }
}

/// NOWAIT and SKIP LOCKED take nothing from anybody.
pub fn who_does_not_wait_takes_nothing() {
    use engine::Wait;
    let (engine, table) = bank_of(2);
    let mut low = open_session(&engine, Class::Low);
    done(&mut low, add(&table, 0, 1));
    let mut high = open_session(&engine, Class::High);
    assert!(!done(&mut high, |txn| lock(txn, &table, 0, RowLock::Update, Wait::SkipLocked)));
    let error = failed(&mut high, |txn| lock(txn, &table, 0, RowLock::Update, Wait::NoWait));
    assert!(matches!(error, Error::LockNotAvailable(_)), "{error}");
    high.rollback();
    let mut high = open_session(&engine, Class::High);
    let error = failed(&mut high, |txn| txn.lock_table(&table, engine::TableLock::Exclusive, Wait::NoWait));
    assert!(matches!(error, Error::LockNotAvailable(_)), "{error}");
    low.commit().unwrap();
    high.rollback();
    // Nor does who waits, when it says so.
    type Asks<'a> = &'a dyn Fn(&Txn<'_>) -> engine::Result<()>;
    let asks: [Asks<'_>; 2] =
        [&|txn| txn.lock_table(&table, engine::TableLock::RowShare, Wait::Block), &|txn| txn.announce(&table)];
    for priority in LockPriority::ALL {
        engine.set_lock_config(LockConfig { priority, patience: Duration::ZERO, ..LockConfig::default() });
        for ask in asks {
            let mut low = open_session(&engine, Class::Low);
            done(&mut low, |txn| txn.lock_table(&table, engine::TableLock::AccessExclusive, Wait::Block));
            let mut high = open_session(&engine, Class::High);
            let ticket = parked(&mut high, |txn| txn.taking_nothing(|| ask(txn)));
            engine.housekeep(usize::MAX);
            assert!(!ticket.is_ready());
            done(&mut low, add(&table, 0, 1));
            low.commit().unwrap();
            assert!(ticket.is_ready());
            done(&mut high, |txn| txn.taking_nothing(|| ask(txn)));
            high.commit().unwrap();
        }
    }
    assert_eq!(engine.lock_stats().takings, []);
}
