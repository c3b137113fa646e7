//! Conflicts of locks, and the fate of waiters.

use crate::sessions::*;
use crate::support::*;
use engine::{
    Begin, Column, Error, Isolation, LockConfig, LockPriority, RowLock, Session, TableDef, TableLock, Txn, Type, Value,
    Wait,
};
use stage::Class;
use std::sync::Arc;
use std::sync::atomic::Ordering::SeqCst;

/// PostgreSQL's table of row locks: who wants the row's mode while somebody has the column's. `x`: it waits.
const ROWS: [&str; 4] = ["...x", "..xx", ".xxx", "xxxx"];

/// PostgreSQL's table of table locks.
const TABLES: [&str; 8] =
    [".......x", "......xx", "....xxxx", "...xxxxx", "..xx.xxx", "..xxxxxx", ".xxxxxxx", "xxxxxxxx"];

fn excludes(table: &[&str], wanted: usize, had: usize) -> bool {
    table[wanted].as_bytes()[had] == b'x'
}

fn is_locked(error: &Error) -> bool {
    matches!(error, Error::LockNotAvailable(_))
}

/// Goal: each mode against each mode: refused with NOWAIT, left out with SKIP LOCKED, parked without, and granted at
/// the commit.
pub fn row_locks_exclude_as_in_postgresql() {
    for (had, wanted) in (0..4).flat_map(|had| (0..4).map(move |wanted| (had, wanted))) {
        let (engine, table) = bank_of(2);
        let (had_mode, mode) = (RowLock::ALL[had], RowLock::ALL[wanted]);
        let mut first = open_session(&engine, Class::Normal);
        done(&mut first, locks(&table, 0, had_mode));
        let mut second = open_session(&engine, Class::Normal);
        let excluded = excludes(&ROWS, wanted, had);
        let skipped = done(&mut second, |txn| lock(txn, &table, 0, mode, Wait::SkipLocked));
        assert_eq!(skipped, !excluded, "{mode:?} under {had_mode:?}");
        second.rollback();
        second.begin(COMMITTED).unwrap();
        if excluded {
            let error = failed(&mut second, |txn| lock(txn, &table, 0, mode, Wait::NoWait));
            assert!(is_locked(&error), "{mode:?} under {had_mode:?}: {error}");
            second.rollback();
            second.begin(COMMITTED).unwrap();
            let ticket = parked(&mut second, locks(&table, 0, mode));
            assert!(!ticket.is_ready());
            assert_eq!(engine.lock_stats().waiting, 1);
            first.commit().unwrap();
            assert!(ticket.is_ready(), "{mode:?} under {had_mode:?}");
        }
        assert!(done(&mut second, locks(&table, 0, mode)));
        // The same transaction may make it stronger or weaker.
        for other in RowLock::ALL.into_iter().filter(|_| excluded) {
            assert!(done(&mut second, locks(&table, 0, other)));
        }
        second.commit().unwrap();
        first.rollback();
        assert_eq!(engine.lock_stats().entries, 0);
    }
}

/// Effect of a write, the lock it amounts to, and its name.
type Write = fn(&Arc<engine::Table>, &Txn<'_>) -> engine::Result<()>;
const WRITES: [(Write, RowLock, &str); 3] = [
    (|table, txn| add(table, 0, 1)(txn), RowLock::NoKeyUpdate, "update"),
    (|table, txn| rename(table, 0, 50)(txn), RowLock::Update, "update of the key"),
    (|table, txn| delete(table, 0)(txn), RowLock::Update, "delete"),
];

/// Writes against locks, and locks against writes.
pub fn writes_are_locks_of_rows() {
    for (write, amounts_to, name) in WRITES {
        for mode in RowLock::ALL {
            let (engine, table) = bank_of(2);
            let mut first = open_session(&engine, Class::Normal);
            let mut second = open_session(&engine, Class::Normal);
            done(&mut first, locks(&table, 0, mode));
            let excluded = excludes(&ROWS, amounts_to as usize, mode as usize);
            if excluded {
                let ticket = parked(&mut second, |txn| write(&table, txn));
                first.commit().unwrap();
                assert!(ticket.is_ready(), "{name} under {mode:?}");
            }
            done(&mut second, |txn| write(&table, txn));
            drop((first, second));
            // The other way.
            let mut first = open_session(&engine, Class::Normal);
            done(&mut first, |txn| write(&table, txn));
            let mut second = open_session(&engine, Class::Normal);
            let excluded = excludes(&ROWS, mode as usize, amounts_to as usize);
            let got = done(&mut second, |txn| lock(txn, &table, 0, mode, Wait::SkipLocked));
            assert_eq!(got, !excluded, "{mode:?} under {name}");
            if excluded {
                let ticket = parked(&mut second, locks(&table, 0, mode));
                first.rollback();
                assert!(ticket.is_ready(), "{mode:?} under {name}");
                assert!(done(&mut second, locks(&table, 0, mode)));
            }
            drop((first, second));
            assert_eq!(engine.lock_stats().entries, 0);
        }
    }
}

/// Goal: a transaction that has locked a row may write it, whoever waits for it; two who share it and both want to
/// write it cannot.
pub fn ones_own_lock_is_in_nobodys_way() {
    let (engine, table) = bank_of(2);
    let mut first = open_session(&engine, Class::Normal);
    done(&mut first, locks(&table, 0, RowLock::Share));
    let mut second = open_session(&engine, Class::Normal);
    let ticket = parked(&mut second, add(&table, 0, 10));
    done(&mut first, add(&table, 0, 1));
    done(&mut first, add(&table, 0, 1));
    assert!(!ticket.is_ready());
    first.commit().unwrap();
    assert!(ticket.is_ready());
    done(&mut second, add(&table, 0, 10));
    second.commit().unwrap();
    assert_eq!(balance_now(&engine, &table, 0), Some(112));
}

fn table_lock(session: &mut Session, table: &engine::Table, mode: TableLock, wait: Wait) -> engine::Result<()> {
    session.try_execute(|txn| txn.lock_table(table, mode, wait)).map(|step| match step {
        engine::Step::Done(()) => {}
        engine::Step::Parked(_) => panic!("it waits"),
    })
}

/// Goal: each mode of a table lock against each, as above; and against the locks that rows take by themselves.
pub fn table_locks_exclude_as_in_postgresql() {
    for (had, wanted) in (0..8).flat_map(|had| (0..8).map(move |wanted| (had, wanted))) {
        let (engine, table) = bank_of(2);
        let (had_mode, mode) = (TableLock::ALL[had], TableLock::ALL[wanted]);
        let mut first = open_session(&engine, Class::Normal);
        table_lock(&mut first, &table, had_mode, Wait::Block).unwrap();
        let mut second = open_session(&engine, Class::Normal);
        if excludes(&TABLES, wanted, had) {
            assert!(is_locked(&table_lock(&mut second, &table, mode, Wait::NoWait).unwrap_err()));
            second.rollback();
            second.begin(COMMITTED).unwrap();
            let ticket = parked(&mut second, |txn| txn.lock_table(&table, mode, Wait::Block));
            first.commit().unwrap();
            assert!(ticket.is_ready(), "{mode:?} under {had_mode:?}");
        }
        table_lock(&mut second, &table, mode, Wait::Block).unwrap();
        second.commit().unwrap();
        drop(first);
        assert_eq!(engine.lock_stats().entries, 0);
    }
}

/// Writers have ROW EXCLUSIVE and lockers of rows ROW SHARE, without an entry for the former; plain reads take nothing.
pub fn rows_lock_their_table() {
    let (writer, locker) = (TableLock::RowExclusive as usize, TableLock::RowShare as usize);
    for (at, mode) in TableLock::ALL.into_iter().enumerate() {
        let (engine, table) = bank_of(2);
        for what in [writer, locker] {
            let row_work = |txn: &Txn<'_>| {
                if what == writer {
                    pay(txn, &table, 0, 1)
                } else {
                    lock(txn, &table, 0, RowLock::Update, Wait::Block).map(drop)
                }
            };
            // The rows first, then the table.
            let mut first = open_session(&engine, Class::Normal);
            done(&mut first, row_work);
            let mut second = open_session(&engine, Class::Normal);
            let excluded = excludes(&TABLES, at, what);
            if excluded {
                let ticket = parked(&mut second, |txn| txn.lock_table(&table, mode, Wait::Block));
                first.commit().unwrap();
                assert!(ticket.is_ready(), "{mode:?}");
            }
            table_lock(&mut second, &table, mode, Wait::Block).unwrap();
            // The table first, then the rows; reads go on whatever it is.
            let mut third = open_session(&engine, Class::Normal);
            done(&mut third, |txn| Ok(balance(txn, &table, 0).unwrap()));
            first.rollback();
            if excluded {
                let ticket = parked(&mut third, row_work);
                second.commit().unwrap();
                assert!(ticket.is_ready(), "{mode:?}");
            }
            done(&mut third, row_work);
            third.rollback();
            second.rollback();
            assert_eq!(engine.lock_stats().entries, 0);
        }
    }
}

/// A queue is served in order: nobody who comes passes one who waits and whom it excludes, unless that one was woken and is
/// not back yet. Those who share are granted together.
pub fn a_wake_up_is_no_lost_place() {
    let (engine, table) = bank_of(1);
    let mut holder = open_session(&engine, Class::Normal);
    done(&mut holder, locks(&table, 0, RowLock::Update));
    let mut readers: Vec<Session> = (0..2).map(|_| open_session(&engine, Class::Normal)).collect();
    let shared: Vec<_> = readers.iter_mut().map(|reader| parked(reader, locks(&table, 0, RowLock::Share))).collect();
    let mut writer = open_session(&engine, Class::Normal);
    let written = parked(&mut writer, add(&table, 0, 1));
    let woken = Arc::new(Woken::default());
    shared[0].on_ready(woken.clone());
    holder.commit().unwrap();
    assert_eq!(woken.0.load(SeqCst), 1);
    assert!(shared.iter().all(engine::Ticket::is_ready) && !written.is_ready());
    // A newcomer who shares with those that were woken would pass the writer.
    let mut late = open_session(&engine, Class::Normal);
    let late_ticket = parked(&mut late, locks(&table, 0, RowLock::Share));
    // A newcomer who writes meets the woken ones first. They keep their places.
    let mut newcomer = open_session(&engine, Class::Normal);
    done(&mut newcomer, add(&table, 0, 100));
    let again = parked(&mut readers[0], locks(&table, 0, RowLock::Share));
    newcomer.rollback();
    assert!(again.is_ready() && !written.is_ready());
    for reader in &mut readers {
        assert!(done(reader, locks(&table, 0, RowLock::Share)));
        reader.commit().unwrap();
    }
    assert!(written.is_ready() && !late_ticket.is_ready());
    done(&mut writer, add(&table, 0, 1));
    writer.rollback();
    assert!(late_ticket.is_ready());
    assert!(done(&mut late, locks(&table, 0, RowLock::Share)));
}

/// Goal: a waiter that was woken and is not back yet is passed three times, then by no one; by a less important one
/// never.
pub fn a_woken_place_is_passed_three_times() {
    let (engine, table) = bank_of(1);
    // The holder is not taken while it waits for its client.
    engine.set_lock_config(LockConfig { priority: LockPriority::PriorityQueue, ..LockConfig::default() });
    for class in [Class::Normal, Class::High] {
        let mut holder = open_session(&engine, Class::Normal);
        done(&mut holder, add(&table, 0, 1));
        let mut waiter = open_session(&engine, class);
        let ticket = parked(&mut waiter, add(&table, 0, 1));
        holder.commit().unwrap();
        assert!(ticket.is_ready());
        for _ in 0..if class == Class::Normal { 3 } else { 0 } {
            let mut passes = open_session(&engine, Class::Normal);
            done(&mut passes, add(&table, 0, 1));
            let ticket = parked(&mut waiter, add(&table, 0, 1));
            passes.commit().unwrap();
            assert!(ticket.is_ready());
        }
        let mut next = open_session(&engine, Class::Normal);
        let _ = parked(&mut next, add(&table, 0, 1));
        done(&mut waiter, add(&table, 0, 1));
        waiter.commit().unwrap();
        done(&mut next, add(&table, 0, 1));
        next.commit().unwrap();
    }
}

/// A grant that nobody collects goes on to the next.
pub fn a_grant_that_is_not_collected_goes_on() {
    let (engine, table) = bank_of(1);
    let mut holder = open_session(&engine, Class::Normal);
    done(&mut holder, add(&table, 0, 1));
    let mut second = open_session(&engine, Class::Normal);
    let second_ticket = parked(&mut second, add(&table, 0, 1));
    let mut third = open_session(&engine, Class::Normal);
    let third_ticket = parked(&mut third, add(&table, 0, 1));
    holder.commit().unwrap();
    assert!(second_ticket.is_ready() && !third_ticket.is_ready());
    drop(second);
    assert!(third_ticket.is_ready());
    done(&mut third, add(&table, 0, 1));
    third.commit().unwrap();
    assert_eq!(balance_now(&engine, &table, 0), Some(102));
}

/// Goal: a transaction that wants a key that another is inserting, or giving up, waits for that one, and goes by its
/// outcome.
pub fn races_for_a_key_wait_for_the_other() {
    for commits in [false, true] {
        let (engine, table) = bank_of(2);
        let mut first = open_session(&engine, Class::Normal);
        done(&mut first, |txn| open(txn, &table, 7, 1, "first"));
        done(&mut first, delete(&table, 1));
        let mut second = open_session(&engine, Class::Normal);
        let mut third = open_session(&engine, Class::Normal);
        let second_ticket = parked(&mut second, |txn| open(txn, &table, 7, 2, "second"));
        let third_ticket = parked(&mut third, |txn| open(txn, &table, 1, 2, "third"));
        if commits {
            first.commit().unwrap();
        } else {
            first.rollback()
        }
        assert!(second_ticket.is_ready() && third_ticket.is_ready());
        let second_opens = second.try_execute(|txn| open(txn, &table, 7, 2, "second"));
        let third_opens = third.try_execute(|txn| open(txn, &table, 1, 2, "third"));
        assert_eq!(second_opens.is_ok(), !commits);
        assert_eq!(third_opens.is_ok(), commits);
        let error = if commits { second_opens.err() } else { third_opens.err() };
        assert!(matches!(error, Some(Error::UniqueViolation { .. })));
    }
}

/// READ COMMITTED: an update meets the newest version and looks at it once more; what was deleted is left out. REPEATABLE
/// READ: what was changed after the snapshot is refused, also after a wait.
pub fn writes_meet_the_newest_version() {
    let (engine, table) = bank_of(3);
    let mut other = open_session(&engine, Class::Normal);
    let mut session = open_session(&engine, Class::Normal);
    done(&mut other, add(&table, 0, 50));
    let if_rich = |txn: &Txn<'_>| {
        let row = find(txn, &table, 0)?;
        assert_eq!(row.get_decimal_i64(BALANCE), 100, "a statement sees its snapshot, also after a wait");
        txn.update_if(&table, row.row_id(), |row| {
            row.set_decimal_i64(BALANCE, row.get_decimal_i64(BALANCE) - 120);
            0 <= row.get_decimal_i64(BALANCE)
        })
    };
    let ticket = parked(&mut session, if_rich);
    other.commit().unwrap();
    assert!(ticket.is_ready());
    assert!(done(&mut session, if_rich));
    session.commit().unwrap();
    assert_eq!(balance_now(&engine, &table, 0), Some(30));
    // Not fulfilled any more; gone.
    session.begin(COMMITTED).unwrap();
    other.begin(COMMITTED).unwrap();
    done(&mut other, add(&table, 1, -100));
    done(&mut other, delete(&table, 2));
    let unless_poor = |txn: &Txn<'_>| {
        let row = find(txn, &table, 1)?.row_id();
        txn.update_if(&table, row, |row| {
            row.set_decimal_i64(BALANCE, row.get_decimal_i64(BALANCE) - 1);
            0 <= row.get_decimal_i64(BALANCE)
        })
    };
    let _ = parked(&mut session, unless_poor);
    other.commit().unwrap();
    assert!(!done(&mut session, unless_poor));
    session.commit().unwrap();
    assert_eq!(balance_now(&engine, &table, 1), Some(0));
    assert_eq!(balance_now(&engine, &table, 2), None);
    // Above READ COMMITTED.
    session.begin(Begin::new(Class::Normal).isolation(Isolation::RepeatableRead)).unwrap();
    other.begin(COMMITTED).unwrap();
    done(&mut session, |txn| Ok(balance(txn, &table, 0)));
    done(&mut other, add(&table, 0, 1));
    let _ = parked(&mut session, add(&table, 0, 1));
    other.commit().unwrap();
    assert!(matches!(failed(&mut session, add(&table, 0, 1)), Error::WriteConflict { .. }));
    assert_eq!(failed(&mut session, add(&table, 0, 1)), Error::InFailedTransaction);
    assert_eq!(session.commit(), Err(Error::InFailedTransaction));
    assert!(!session.is_open());
}

/// Goal: each statement of READ COMMITTED sees the state committed when it began; REPEATABLE READ that of its first
/// one.
pub fn statements_see_their_snapshots() {
    for (isolation, sees) in [(Isolation::ReadCommitted, 101), (Isolation::RepeatableRead, 100)] {
        let (engine, table) = bank_of(1);
        let mut session = session(&engine);
        session.begin(Begin::new(Class::Normal).isolation(isolation)).unwrap();
        assert_eq!(done(&mut session, |txn| Ok(balance(txn, &table, 0))), Some(100));
        engine.run(NORMAL, add(&table, 0, 1)).0.unwrap();
        assert_eq!(done(&mut session, |txn| Ok(balance(txn, &table, 0))), Some(sees));
        // Between statements, with nothing done, READ COMMITTED holds back no garbage.
        session.commit().unwrap();
    }
}

/// Goal: there is a limit to locks, with its error, and it passes.
pub fn locks_have_a_limit() {
    let (engine, table) = bank_of(20);
    engine.set_lock_config(engine::LockConfig { entries_max: 10, ..engine.lock_config() });
    let mut session = open_session(&engine, Class::Normal);
    let lock_all =
        |txn: &Txn<'_>| (0..20).try_for_each(|id| lock(txn, &table, id, RowLock::Share, Wait::Block).map(drop));
    assert!(matches!(failed(&mut session, lock_all), Error::Limit(_)));
    assert_eq!(engine.lock_stats().entries, 0, "a failed transaction gives up its locks");
    session.rollback();
    engine.set_lock_config(engine::LockConfig::default());
    session.begin(COMMITTED).unwrap();
    done(&mut session, lock_all);
    let views = engine.locks();
    assert_eq!(views.len(), 21, "twenty rows and their table");
    assert!(views.iter().all(|view| view.granted && view.table.as_deref() == Some("accounts")));
    assert_eq!(views.iter().filter(|view| view.mode == "for share").count(), 20);
}

/// The view of locks says whom a session waits for: for a row that is locked or changed, and for a unique key.
pub fn the_view_says_who_blocks_whom() {
    let (engine, table) = bank_of(2);
    let mut holders = [(); 3].map(|()| open_session(&engine, Class::Normal));
    let id = |txn: &Txn<'_>| Ok(txn.id());
    let owners = holders.each_mut().map(|session| done(session, id));
    done(&mut holders[0], locks(&table, 0, RowLock::Share));
    done(&mut holders[1], add(&table, 1, 1));
    done(&mut holders[2], |txn| open(txn, &table, 9, 9, "new"));
    let mut waiting = [(); 3].map(|()| open_session(&engine, Class::Normal));
    let _tickets = [
        parked(&mut waiting[0], add(&table, 0, 1)),
        parked(&mut waiting[1], add(&table, 1, 1)),
        parked(&mut waiting[2], |txn| open(txn, &table, 9, 9, "other").map(drop)),
    ];
    let (aborts, commits) = (engine.stats().aborts, engine.stats().commits);
    let views = engine.locks();
    let mut blocked: Vec<u64> = views.iter().flat_map(|view| view.blocked_by.clone()).collect();
    blocked.sort_unstable();
    let mut expected = owners.to_vec();
    expected.sort_unstable();
    assert_eq!(blocked, expected);
    for waits in views.iter().filter(|view| !view.granted) {
        let has_it = |view: &&engine::LockView| {
            view.granted
                && view.transaction == waits.blocked_by[0]
                && (view.table_number, view.row) == (waits.table_number, waits.row)
        };
        let holder = views.iter().find(has_it).expect("whoever is waited for has a line");
        assert_eq!((holder.session.is_some(), holder.class), (true, Some(Class::Normal)));
    }
    // Who stands further behind waits for the one before it, too.
    let mut last = open_session(&engine, Class::Normal);
    let last_id = done(&mut last, id);
    let _ticket = parked(&mut last, add(&table, 1, 1));
    let views = engine.locks();
    let waits_for = |transaction| {
        let of = |view: &&engine::LockView| view.transaction == transaction && !view.granted;
        views.iter().find(of).map(|view| view.blocked_by.clone())
    };
    let before = views.iter().find(|view| view.blocked_by == [owners[1]]).unwrap().transaction;
    assert_eq!(waits_for(last_id), Some(vec![owners[1], before]));
    assert_eq!((engine.stats().aborts, engine.stats().commits), (aborts, commits), "a look is no transaction");
}

/// A transaction that announced a write and wrote nothing in the end has ended all the same.
pub fn who_wrote_nothing_keeps_no_table() {
    let (engine, table) = bank_of(1);
    let mut session = open_session(&engine, Class::Normal);
    let touch = |txn: &Txn<'_>| txn.update_if(&table, find(txn, &table, 0)?.row_id(), |_| false);
    assert!(!done(&mut session, touch));
    let mut locker = open_session(&engine, Class::Normal);
    let ticket = parked(&mut locker, |txn| txn.lock_table(&table, TableLock::Share, Wait::Block));
    session.commit().unwrap();
    assert!(ticket.is_ready());
    done(&mut locker, |txn| txn.lock_table(&table, TableLock::Share, Wait::Block));
    locker.commit().unwrap();
    session.begin(COMMITTED).unwrap();
    assert!(!done(&mut session, touch));
    session.commit().unwrap();
    let mut locker = open_session(&engine, Class::Normal);
    done(&mut locker, |txn| txn.lock_table(&table, TableLock::Share, Wait::NoWait));
}

/// Tables that share a bit of what a transaction says that it has written: its first write to each asks.
pub fn tables_are_locked_beyond_the_64th() {
    let (engine, first) = bank_of(1);
    let mut last = None;
    for number in 1..=64 {
        let columns = vec![Column::required("id", Type::Int32)];
        last = Some(engine.create_table(TableDef { name: format!("t{number}"), columns, indexes: vec![] }).unwrap());
    }
    let last = last.unwrap();
    let mut locker = open_session(&engine, Class::Normal);
    done(&mut locker, |txn| txn.lock_table(&last, TableLock::Share, Wait::Block));
    let mut writer = open_session(&engine, Class::Normal);
    done(&mut writer, add(&first, 0, 1));
    let write = |txn: &Txn<'_>| txn.insert(&last, &[Value::Int32(1)]).map(|_| ());
    let ticket = parked(&mut writer, write);
    locker.commit().unwrap();
    assert!(ticket.is_ready());
    done(&mut writer, write);
    // Once it has written there, who waits for the table does not keep it from going on.
    let mut locker = open_session(&engine, Class::Normal);
    let ticket = parked(&mut locker, |txn| txn.lock_table(&last, TableLock::Share, Wait::Block));
    done(&mut writer, write);
    done(&mut writer, add(&first, 0, 1));
    writer.commit().unwrap();
    assert!(ticket.is_ready());
}

/// Goal: sharers of a row with its holder pass a delete that waits for the holder, and delay it by no more than their
/// own time: once the holder that was there before has ended, newcomers queue.
pub fn sharers_pass_a_waiting_delete_and_do_not_starve_it() {
    let (engine, table) = bank_of(2);
    let share = || locks(&table, 0, RowLock::KeyShare);
    let mut first = open_session(&engine, Class::Normal);
    done(&mut first, share());
    let mut deleter = open_session(&engine, Class::Normal);
    let deletes = parked(&mut deleter, delete(&table, 0));
    // By the lock table, by a claim, without waiting.
    let mut second = open_session(&engine, Class::Normal);
    done(&mut second, share());
    let mut third = open_session(&engine, Class::Normal);
    assert!(done(&mut third, |txn| lock(txn, &table, 0, RowLock::KeyShare, Wait::NoWait)));
    third.commit().unwrap();
    let mut writer = open_session(&engine, Class::Normal);
    done(&mut writer, add(&table, 0, 1));
    writer.commit().unwrap();
    // A less important one does not pass.
    let mut low = open_session(&engine, Class::Low);
    let lows = parked(&mut low, share());
    first.commit().unwrap();
    assert!(!deletes.is_ready(), "the second is still there");
    // Its own blocker has gone: nobody passes any more.
    let mut fourth = open_session(&engine, Class::Normal);
    let fourths = parked(&mut fourth, share());
    second.commit().unwrap();
    assert!(deletes.is_ready() && !fourths.is_ready() && !lows.is_ready());
    done(&mut deleter, delete(&table, 0));
    deleter.rollback();
    assert!(fourths.is_ready() && lows.is_ready());
    done(&mut fourth, share());
    done(&mut low, share());
    fourth.commit().unwrap();
    low.commit().unwrap();
    assert_eq!(engine.lock_stats().entries, 0);
}

/// Goal: a waiter that was queued behind a delete for another reason is woken when that reason is gone, though the
/// delete waits on.
pub fn a_sharer_in_the_queue_overtakes() {
    let (engine, table) = bank_of(2);
    let mut holder = open_session(&engine, Class::Normal);
    done(&mut holder, locks(&table, 0, RowLock::KeyShare));
    let mut writer = open_session(&engine, Class::Normal);
    done(&mut writer, add(&table, 0, 1));
    let mut deleter = open_session(&engine, Class::Normal);
    let deletes = parked(&mut deleter, delete(&table, 0));
    let mut sharer = open_session(&engine, Class::Normal);
    let shares = parked(&mut sharer, locks(&table, 0, RowLock::Share));
    writer.commit().unwrap();
    assert!(shares.is_ready() && !deletes.is_ready());
    done(&mut sharer, locks(&table, 0, RowLock::Share));
    holder.commit().unwrap();
    assert!(!deletes.is_ready());
    sharer.commit().unwrap();
    assert!(deletes.is_ready());
    done(&mut deleter, delete(&table, 0));
    deleter.commit().unwrap();
    assert_eq!(engine.lock_stats().entries, 0);
}

/// FOR KEY SHARE is for the keys: of a row that was changed otherwise since the snapshot it returns what the snapshot has, at
/// any level; a row whose key was changed is another.
pub fn key_shares_mind_only_keys() {
    for isolation in [Isolation::ReadCommitted, Isolation::RepeatableRead, Isolation::Serializable] {
        for keeps_key in [true, false] {
            let (engine, table) = bank_of(2);
            let mut session = session(&engine);
            session.begin(COMMITTED.isolation(isolation)).unwrap();
            let mut other = open_session(&engine, Class::Normal);
            let seen = session.try_execute(|txn| {
                let row = find(txn, &table, 0)?.row_id();
                // As if the statement had waited between its read and its lock.
                match keeps_key {
                    true => done(&mut other, add(&table, 0, 5)),
                    false => done(&mut other, rename(&table, 0, 50)),
                }
                other.commit().unwrap();
                let row = txn.lock_row(&table, row, RowLock::KeyShare, Wait::Block)?;
                Ok(row.map(|row| row.get_decimal_i64(BALANCE)))
            });
            match (isolation, keeps_key) {
                (_, true) => assert!(matches!(seen, Ok(engine::Step::Done(Some(100)))), "{seen:?} at {isolation:?}"),
                (Isolation::ReadCommitted, false) => assert!(matches!(seen, Ok(engine::Step::Done(Some(100))))),
                (_, false) => assert!(matches!(seen, Err(Error::WriteConflict { .. })), "{seen:?} at {isolation:?}"),
            }
        }
    }
}

/// Goal: a change by a transaction that had the row locked FOR UPDATE excluded FOR KEY SHARE, whatever was changed and
/// whatever became of the versions between.
pub fn key_shares_mind_who_had_the_row_alone() {
    for isolation in [Isolation::ReadCommitted, Isolation::RepeatableRead, Isolation::Serializable] {
        for (before, after) in [(0, 0), (2, 0), (0, 2), (2, 2)] {
            for mode in [RowLock::NoKeyUpdate, RowLock::Update] {
                let (engine, table) = bank_of(2);
                let mut session = session(&engine);
                session.begin(COMMITTED.isolation(isolation)).unwrap();
                let seen = session.try_execute(|txn| {
                    let row = find(txn, &table, 0)?.row_id();
                    for _ in 0..before {
                        let mut other = open_session(&engine, Class::Normal);
                        done(&mut other, add(&table, 0, 1));
                        other.commit().unwrap();
                    }
                    let mut other = open_session(&engine, Class::Normal);
                    done(&mut other, locks(&table, 0, mode));
                    done(&mut other, add(&table, 0, 5));
                    done(&mut other, add(&table, 0, 5));
                    other.commit().unwrap();
                    for _ in 0..after {
                        let mut other = open_session(&engine, Class::Normal);
                        done(&mut other, add(&table, 0, 1));
                        other.commit().unwrap();
                    }
                    engine.housekeep(1000);
                    let row = txn.lock_row(&table, row, RowLock::KeyShare, Wait::Block)?;
                    Ok(row.map(|row| row.get_decimal_i64(BALANCE)))
                });
                match (mode, isolation) {
                    (RowLock::Update, Isolation::ReadCommitted) => {
                        let now = 110 + before + after;
                        assert!(matches!(seen, Ok(engine::Step::Done(Some(balance))) if balance == now), "{seen:?}");
                    }
                    (RowLock::Update, _) => assert!(matches!(seen, Err(Error::WriteConflict { .. })), "{seen:?}"),
                    _ => assert!(matches!(seen, Ok(engine::Step::Done(Some(100)))), "{seen:?} at {isolation:?}"),
                }
            }
        }
    }
}
