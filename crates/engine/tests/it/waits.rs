//! Ends of waits other than by the grant; none is lost.

use crate::sessions::*;
use crate::support::*;
use engine::{Begin, Engine, Error, LockConfig, LockPriority, RowLock, Session, SessionOptions, Step, Table, Wait};
use preempt::os;
use stage::Class;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::SeqCst};
use std::thread;
use std::time::Duration;

const SECOND_NS: u64 = 1_000_000_000;

/// Opens a session with an open transaction; it waits for a lock ten seconds at most.
fn open_session_with_timeout(engine: &Engine) -> Session {
    let options = SessionOptions { lock_timeout: Some(Duration::from_secs(10)), ..SessionOptions::new(Class::Normal) };
    let mut session = engine.session(options);
    session.begin(COMMITTED).unwrap();
    session
}

/// The plain case, on one thread and without a clock: the commit wakes who waits for the row.
pub fn a_commit_wakes_who_waits() {
    let (engine, table) = bank_of(1);
    let mut holder = open_session(&engine, Class::Normal);
    done(&mut holder, add(&table, 0, 1));
    let mut session = open_session(&engine, Class::Normal);
    let ticket = parked(&mut session, add(&table, 0, 1));
    let woken = Arc::new(Woken::default());
    ticket.on_ready(woken.clone());
    holder.commit().unwrap();
    assert!(ticket.is_ready(), "nobody was woken");
    assert_eq!(woken.0.load(SeqCst), 1);
    done(&mut session, add(&table, 0, 1));
}

/// A wait that was given up tells nobody of the next one.
pub fn a_ticket_is_for_one_wait() {
    let (engine, table) = bank_of(1);
    let mut holder = open_session(&engine, Class::Normal);
    done(&mut holder, add(&table, 0, 1));
    let mut session = open_session(&engine, Class::Normal);
    let woken = [(); 2].map(|()| Arc::new(Woken::default()));
    let first = parked(&mut session, add(&table, 0, 1));
    first.on_ready(woken[0].clone());
    session.rollback();
    assert!(first.is_ready());
    session.begin(COMMITTED).unwrap();
    let second = parked(&mut session, add(&table, 0, 1));
    second.on_ready(woken[1].clone());
    assert!(first.is_ready() && !second.is_ready());
    holder.commit().unwrap();
    assert!(second.is_ready());
    assert_eq!(woken.map(|woken| woken.0.load(SeqCst)), [0, 1]);
}

/// A lock timeout counts from the beginning of the wait: 55P03. Its place is free.
pub fn a_lock_wait_times_out() {
    let (engine, table) = bank_of(1);
    let mut holder = open_session(&engine, Class::Normal);
    done(&mut holder, add(&table, 0, 1));
    let mut session = open_session_with_timeout(&engine);
    let ticket = parked(&mut session, locks(&table, 0, RowLock::Share));
    let now_ns = os::now_ns();
    assert!(engine.expire_waits(now_ns).is_some());
    engine.expire_waits(now_ns + 9 * SECOND_NS);
    assert!(!ticket.is_ready());
    engine.expire_waits(now_ns + 11 * SECOND_NS);
    assert!(ticket.is_ready());
    let error = failed(&mut session, locks(&table, 0, RowLock::Share));
    let Error::LockNotAvailable(wanted) = error else { panic!("{error}") };
    assert_eq!((wanted.table, wanted.row.is_some(), wanted.mode), (Some(table.number()), true, "for share"));
    assert_eq!(engine.lock_stats().timeouts, 1);
    session.rollback();
}

/// A statement timeout, and a cancel: 57014, while it waits and while it runs. A cancel of nothing does nothing.
pub fn statements_are_cancelled() {
    let (engine, table) = bank_of(2);
    let mut holder = open_session(&engine, Class::Normal);
    done(&mut holder, add(&table, 0, 1));
    let mut session = open_session(&engine, Class::Normal);
    let canceller = session.canceller();
    assert!(!canceller.cancel(), "no statement runs");
    let ticket = parked(&mut session, add(&table, 0, 1));
    assert!(canceller.cancel());
    assert!(ticket.is_ready());
    let error = failed(&mut session, add(&table, 0, 1));
    assert_eq!(error, Error::Cancelled);
    session.rollback();
    // After the grant, before it has come back.
    session.begin(COMMITTED).unwrap();
    let ticket = parked(&mut session, add(&table, 0, 1));
    holder.commit().unwrap();
    assert!(ticket.is_ready() && canceller.cancel());
    assert_eq!(failed(&mut session, add(&table, 0, 1)), Error::Cancelled);
    session.rollback();
    assert!(!canceller.cancel(), "it is over");
    holder.begin(COMMITTED).unwrap();
    done(&mut holder, add(&table, 0, 1));
    // While it runs: at the next call.
    session.begin(COMMITTED).unwrap();
    let error = failed(&mut session, |txn| {
        pay(txn, &table, 1, 1)?;
        assert!(canceller.cancel());
        pay(txn, &table, 1, 1)
    });
    assert_eq!(error, Error::Cancelled);
    session.rollback();
    assert_eq!(balance_now(&engine, &table, 1), Some(100));
    // By the clock.
    session.set_statement_timeout(Some(Duration::from_secs(10)));
    session.begin(COMMITTED).unwrap();
    let ticket = parked(&mut session, add(&table, 0, 1));
    engine.expire_waits(os::now_ns() + 11 * SECOND_NS);
    assert!(ticket.is_ready());
    assert_eq!(failed(&mut session, add(&table, 0, 1)), Error::Cancelled);
    session.rollback();
    session.set_statement_timeout(Some(Duration::ZERO));
    session.begin(COMMITTED).unwrap();
    assert_eq!(failed(&mut session, add(&table, 1, 1)), Error::Cancelled);
    assert_eq!(engine.lock_stats().cancelled, 1);
    drop(session);
    drop(holder);
    assert_eq!(engine.lock_stats().entries, 0);
}

/// A queue of work: each worker takes the first piece that nobody has, and each piece is done once.
pub fn skip_locked_shares_out_work() {
    const PIECES: i32 = 400;
    let (engine, table) = bank_of(PIECES);
    let done_by: Vec<u64> = thread::scope(|scope| {
        let workers: Vec<_> = (0..3)
            .map(|_| {
                scope.spawn(|| {
                    let mut session = session(&engine);
                    let mut pieces = 0;
                    loop {
                        let took = session.run(COMMITTED, |txn| {
                            for row in txn.range(&table, BY_ID, &[], engine::Direction::Forward)? {
                                let locked = txn.lock_row(&table, row.row_id(), RowLock::Update, Wait::SkipLocked)?;
                                if let Some(row) = locked {
                                    txn.delete(&table, row.row_id())?;
                                    return Ok(true);
                                }
                            }
                            Ok(false)
                        });
                        if took.unwrap() {
                            pieces += 1;
                        } else if engine
                            .begin(NORMAL)
                            .range(&table, BY_ID, &[], engine::Direction::Forward)
                            .unwrap()
                            .next()
                            .is_none()
                        {
                            return pieces;
                        }
                    }
                })
            })
            .collect();
        workers.into_iter().map(|worker| worker.join().unwrap()).collect()
    });
    assert_eq!(done_by.iter().sum::<u64>(), PIECES as u64);
}

/// Threads that wait, under each setting: money is neither made nor lost, every transaction is done in the end, and
/// nobody sleeps for ever. Locks on request, updates, inserts of contended keys and savepoints, over few rows.
pub fn no_wake_up_is_lost() {
    const ROUNDS: u64 = 3_000;
    let mut waits = 0;
    for priority in LockPriority::ALL {
        let (engine, table) = bank_of(6);
        engine.set_lock_config(LockConfig { priority, patience: Duration::from_micros(200), ..LockConfig::default() });
        let added = AtomicU64::new(0);
        thread::scope(|scope| {
            for seed in 0..4 {
                let (engine, table, added) = (&engine, &table, &added);
                scope.spawn(move || transfers(engine, table, seed, ROUNDS, added));
            }
        });
        let txn = engine.begin(NORMAL);
        let sum: i64 = (0..6).map(|id| balance(&txn, &table, id).unwrap()).sum();
        assert_eq!(sum as u64, 600 + added.load(SeqCst), "{priority:?}");
        drop(txn);
        let stats = engine.lock_stats();
        assert_eq!((stats.entries, stats.waiting), (0, 0), "{priority:?}");
        waits += stats.waits.iter().sum::<u64>();
    }
    // On a busy machine the threads of one setting may run one after the other.
    assert!(0 < waits);
}

fn transfers(engine: &Engine, table: &Arc<Table>, seed: u64, rounds: u64, added: &AtomicU64) {
    let mut random = Random(seed);
    let class = Class::ALL[seed as usize % 3];
    let mut session = engine.session(SessionOptions::new(class));
    for round in 0..rounds {
        let (from, to) = (random.below(6) as i32, random.below(6) as i32);
        let what = random.below(8);
        let begin = Begin::new(class);
        if what < 4 {
            // A procedure.
            let result = session.run(begin, |txn| {
                if what == 0 {
                    lock(txn, table, from, RowLock::Update, Wait::Block)?;
                    lock(txn, table, to, RowLock::KeyShare, Wait::Block)?;
                }
                pay(txn, table, from, -5)?;
                pay(txn, table, to, 6)
            });
            match result {
                Ok(()) => drop(added.fetch_add(1, SeqCst)),
                Err(error) => assert!(error.is_retryable(), "{error}"),
            }
            continue;
        }
        // Statement by statement, until it commits.
        loop {
            session.begin(begin).unwrap();
            let result = (|| {
                session.execute(|txn| lock(txn, table, from, RowLock::Share, Wait::Block))?;
                if what == 4 {
                    let key = 100 + random.below(2) as i32;
                    session.execute(|txn| open(txn, table, key, 0, "contended").map(drop))?;
                    session.execute(|txn| txn.delete(table, find(txn, table, key)?.row_id()))?;
                }
                let savepoint = session.savepoint()?;
                session.execute(|txn| pay(txn, table, to, 500))?;
                session.rollback_to(&savepoint)?;
                session.execute(|txn| pay(txn, table, to, 7))?;
                session.execute(|txn| pay(txn, table, from, -6))?;
                session.commit()
            })();
            session.rollback();
            match result {
                Ok(_) => {
                    added.fetch_add(1, SeqCst);
                    break;
                }
                Err(error) => assert!(error.is_retryable(), "round {round}: {error}"),
            }
        }
    }
}

/// A procedure that waits keeps nothing but its place: not even what it wrote before is to be seen or in the way.
pub fn a_procedure_waits_with_empty_hands() {
    let (engine, table) = bank_of(2);
    let mut holder = open_session(&engine, Class::Normal);
    done(&mut holder, add(&table, 1, 1));
    let mut session = session(&engine);
    let transfer = |txn: &engine::Txn<'_>| {
        pay(txn, &table, 0, -1)?;
        pay(txn, &table, 1, 1)
    };
    let Ok(Step::Parked(ticket)) = session.try_run(COMMITTED, transfer) else { panic!("it waits") };
    let mut other = open_session(&engine, Class::Normal);
    done(&mut other, add(&table, 0, 50));
    other.commit().unwrap();
    assert!(matches!(session.try_run(COMMITTED, transfer), Ok(Step::Parked(_))), "it waits still");
    holder.commit().unwrap();
    assert!(ticket.is_ready());
    session.run(COMMITTED, transfer).unwrap();
    assert_eq!([0, 1].map(|id| balance_now(&engine, &table, id)), [Some(149), Some(102)]);
}

/// Three procedures that want the same three rows, each beginning with another, all woken at once. Each meets the place of
/// one that has not come back yet: were places kept whoever came first, they would send each other round for ever.
pub fn woken_procedures_do_not_send_each_other_round() {
    const COUNT: usize = 3;
    let (engine, table) = bank_of(COUNT as i32);
    let mut holder = open_session(&engine, Class::Normal);
    for id in 0..COUNT {
        done(&mut holder, add(&table, id as i32, 1));
    }
    let mut waiting: Vec<_> = (0..COUNT).map(|first| (first, session(&engine))).collect();
    let step = |first: usize, session: &mut engine::Session| {
        session.try_run(COMMITTED, |txn| {
            (first..first + COUNT).try_for_each(|id| pay(txn, &table, (id % COUNT) as i32, 10))
        })
    };
    for (first, session) in &mut waiting {
        assert!(matches!(step(*first, session), Ok(Step::Parked(_))));
    }
    holder.commit().unwrap();
    for _ in 0..COUNT {
        waiting.retain_mut(|(first, session)| matches!(step(*first, session).unwrap(), Step::Parked(_)));
    }
    assert_eq!(waiting.len(), 0, "in each round at least the first of those who wait comes through");
    assert_eq!(balance_now(&engine, &table, 0), Some(100 + 1 + 10 * COUNT as i64));
    drop(holder);
    assert_eq!(engine.lock_stats().entries, 0);
}

/// Goal: a session that is woken in vain and waits on, in its place, does not begin its lock timeout anew.
pub fn a_wake_up_prolongs_no_lock_wait() {
    let (engine, table) = bank_of(1);
    let mut holder = open_session(&engine, Class::Normal);
    done(&mut holder, add(&table, 0, 1));
    let mut session = open_session_with_timeout(&engine);
    let mut ticket = parked(&mut session, add(&table, 0, 1));
    let first_ns = os::now_ns();
    // A deadline that began anew would be later than ten seconds after this.
    while os::now_ns() == first_ns {}
    // Those behind it go, and each time it is looked whether it is free.
    for _ in 0..3 {
        let mut other = open_session(&engine, Class::Normal);
        let _ = parked(&mut other, add(&table, 0, 1));
        other.rollback();
        if ticket.is_ready() {
            ticket = parked(&mut session, add(&table, 0, 1));
        }
    }
    engine.expire_waits(first_ns + 10 * SECOND_NS);
    assert!(matches!(failed(&mut session, add(&table, 0, 1)), Error::LockNotAvailable(_)));
}
