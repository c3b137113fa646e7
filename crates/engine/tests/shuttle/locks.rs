//! Models of locks: the whole engine, small, with sessions that wait. If a wake-up is lost, all threads wait, which shuttle
//! reports.

use engine::{
    Begin, Column, Engine, EngineConfig, Error, IndexDef, LockConfig, LockPriority, Result, RowId, RowLock, Session,
    SessionOptions, Step, Table, TableDef, TableLock, Txn, Type, Value, Wait, Wake,
};
use shuttle::scheduler::{PctScheduler, RandomScheduler};
use shuttle::sync::{Condvar, Mutex};
use shuttle::{Config, Runner, thread};
use stage::Class;
use std::sync::Arc;

const SCHEDULES: usize = 1_000;

fn config() -> Config {
    let mut config = Config::new();
    // The engine's frames are larger than those of a model.
    config.stack_size = 1 << 18;
    config
}

fn check(model: impl Fn() + Send + Sync + Clone + 'static) {
    check_fairly(model.clone());
    Runner::new(PctScheduler::new(3, SCHEDULES), config()).run(model);
}

/// Runs models with an index, in which a thread that finds a node changing looks again and again: an unfair schedule
/// never ends.
fn check_fairly(model: impl Fn() + Send + Sync + Clone + 'static) {
    Runner::new(RandomScheduler::new(SCHEDULES), config()).run(model);
}

/// An engine with a table of numbers, and the ids of its rows. `keyed`: with a unique index over them.
struct Bank {
    engine: Engine,
    table: Arc<Table>,
    rows: Vec<RowId>,
}

impl Bank {
    fn new(priority: LockPriority, numbers: &[i64], keyed: bool) -> Arc<Bank> {
        let lock = LockConfig { priority, ..LockConfig::default() };
        let engine = Engine::new(EngineConfig { lock, ..EngineConfig::in_memory() });
        let indexes = if keyed { vec![IndexDef::unique("key", &[0])] } else { Vec::new() };
        let def = TableDef { name: "t".to_owned(), columns: vec![Column::required("number", Type::Int64)], indexes };
        let table = engine.create_table(def).unwrap();
        let txn = engine.begin(Begin::new(Class::High));
        let rows = numbers.iter().map(|number| txn.insert(&table, &[Value::Int64(*number)]).unwrap()).collect();
        txn.commit().unwrap();
        Arc::new(Bank { engine, table, rows })
    }

    fn session(&self, class: Class) -> Session {
        self.engine.session(SessionOptions::new(class))
    }

    fn add(&self, txn: &Txn<'_>, row: usize, more: i64) -> Result<()> {
        txn.update(&self.table, self.rows[row], |row| row.set_i64(0, row.get_i64(0) + more))
    }

    fn number(&self, txn: &Txn<'_>, row: usize) -> i64 {
        txn.get_row(&self.table, self.rows[row]).unwrap().unwrap().get_i64(0)
    }

    /// Returns each row's number, when all is over; and nothing may be left of any lock.
    fn end(&self) -> Vec<i64> {
        let stats = self.engine.lock_stats();
        assert_eq!((stats.entries, stats.waiting), (0, 0));
        let txn = self.engine.begin(Begin::new(Class::Normal));
        (0..self.rows.len()).map(|row| self.number(&txn, row)).collect()
    }
}

/// Blocks a thread of the model until it is woken.
#[derive(Default)]
struct Bell {
    rung: Mutex<bool>,
    changed: Condvar,
}

impl Wake for Bell {
    fn wake(&self) {
        *self.rung.lock().unwrap() = true;
        self.changed.notify_all();
    }
}

fn wait(ticket: &engine::Ticket) {
    let bell = Arc::new(Bell::default());
    ticket.on_ready(bell.clone());
    let mut rung = bell.rung.lock().unwrap();
    while !*rung {
        rung = bell.changed.wait(rung).unwrap();
    }
    assert!(ticket.is_ready());
}

/// A procedure, to its end. Nothing but a lost row begins it again.
fn run(session: &mut Session, class: Class, body: impl Fn(&Txn<'_>) -> Result<()>) -> Result<()> {
    loop {
        match session.try_run(Begin::new(class), &body) {
            Ok(Step::Done(())) => return Ok(()),
            Ok(Step::Parked(ticket)) => wait(&ticket),
            Err(error) => return Err(error),
        }
    }
}

/// A statement, to its end.
fn execute(session: &mut Session, statement: impl Fn(&Txn<'_>) -> Result<()>) -> Result<()> {
    loop {
        match session.try_execute(&statement)? {
            Step::Done(()) => return Ok(()),
            Step::Parked(ticket) => wait(&ticket),
        }
    }
}

fn all(threads: impl IntoIterator<Item = thread::JoinHandle<()>>) {
    threads.into_iter().collect::<Vec<_>>().into_iter().for_each(|thread| thread.join().unwrap());
}

/// Grant and park: three procedures of all classes want one row. Nobody is lost, nobody is forgotten, whatever the setting;
/// under `not-running` every less important one can be taken from at any moment.
#[test]
fn whoever_waits_for_a_row_has_it_in_the_end() {
    for priority in [LockPriority::None, LockPriority::PriorityQueue, LockPriority::NotRunning] {
        check(move || {
            let bank = Bank::new(priority, &[0], false);
            all(Class::ALL.into_iter().zip([1, 10, 100]).map(|(class, more)| {
                let bank = bank.clone();
                thread::spawn(move || {
                    let mut session = bank.session(class);
                    run(&mut session, class, |txn| bank.add(txn, 0, more)).unwrap();
                })
            }));
            assert_eq!(bank.end(), [111]);
        });
    }
}

/// Shared locks against writes: what one who shares a row reads twice is the same, though writers claim end words without
/// asking anybody, and lockers look at end words without asking writers.
#[test]
fn a_shared_row_does_not_change() {
    check(|| {
        let bank = Bank::new(LockPriority::PriorityQueue, &[0], false);
        let writer = {
            let bank = bank.clone();
            thread::spawn(move || {
                let mut session = bank.session(Class::Normal);
                run(&mut session, Class::Normal, |txn| bank.add(txn, 0, 1)).unwrap();
            })
        };
        all([writer].into_iter().chain((0..2).map(|_| {
            let bank = bank.clone();
            thread::spawn(move || {
                let mut session = bank.session(Class::Normal);
                session.begin(Begin::new(Class::Normal)).unwrap();
                let row = bank.rows[0];
                let lock = |txn: &Txn<'_>| txn.lock_row(&bank.table, row, RowLock::Share, Wait::Block).map(drop);
                execute(&mut session, lock).unwrap();
                let first = session.execute(|txn| Ok(bank.number(txn, 0))).unwrap();
                let second = session.execute(|txn| Ok(bank.number(txn, 0))).unwrap();
                assert_eq!(first, second);
                session.commit().unwrap();
            })
        })));
        assert_eq!(bank.end(), [1]);
    });
}

/// A shared table against its first writers: the same, by the marks of tables written.
#[test]
fn a_shared_table_does_not_change() {
    check(|| {
        let bank = Bank::new(LockPriority::PriorityQueue, &[0, 0], false);
        let writers = (0..2).map(|row| {
            let bank = bank.clone();
            thread::spawn(move || {
                let mut session = bank.session(Class::Normal);
                run(&mut session, Class::Normal, |txn| bank.add(txn, row, 1)).unwrap();
            })
        });
        let sharer = {
            let bank = bank.clone();
            thread::spawn(move || {
                let mut session = bank.session(Class::Normal);
                session.begin(Begin::new(Class::Normal)).unwrap();
                let lock = |txn: &Txn<'_>| txn.lock_table(&bank.table, TableLock::Share, Wait::Block);
                execute(&mut session, lock).unwrap();
                let look = |txn: &Txn<'_>| Ok([bank.number(txn, 0), bank.number(txn, 1)]);
                let first = session.execute(look).unwrap();
                assert_eq!(session.execute(look).unwrap(), first);
                session.commit().unwrap();
            })
        };
        all(writers.chain([sharer]));
        assert_eq!(bank.end(), [1, 1]);
    });
}

/// Two sessions take two rows in opposite orders, statement by statement: at least one commits, a victim of the deadlock
/// tries again, and in the end both have.
#[test]
fn deadlocks_are_found() {
    check(|| {
        let bank = Bank::new(LockPriority::PriorityQueue, &[0, 0], false);
        all([[0, 1], [1, 0]].into_iter().map(|order| {
            let bank = bank.clone();
            thread::spawn(move || {
                let mut session = bank.session(Class::Normal);
                loop {
                    session.begin(Begin::new(Class::Normal)).unwrap();
                    let done = order
                        .into_iter()
                        .try_for_each(|row| execute(&mut session, |txn| bank.add(txn, row, 1)))
                        .and_then(|()| session.commit().map(drop));
                    session.rollback();
                    match done {
                        Ok(()) => break,
                        Err(error) => assert!(matches!(error, Error::Deadlock(_)), "{error}"),
                    }
                }
            })
        }));
        assert_eq!(bank.end(), [2, 2]);
    });
}

/// Unique races: of two who insert a key one waits for the other, whose insert stays, goes with a rollback, or goes with a
/// savepoint while the transaction goes on.
#[test]
fn one_of_two_has_the_key() {
    for ending in 0..3 {
        check_fairly(move || {
            let bank = Bank::new(LockPriority::PriorityQueue, &[0], true);
            let insert = |bank: &Bank, txn: &Txn<'_>| txn.insert(&bank.table, &[Value::Int64(7)]).map(drop);
            let first = {
                let bank = bank.clone();
                thread::spawn(move || {
                    let mut session = bank.session(Class::Normal);
                    session.begin(Begin::new(Class::Normal)).unwrap();
                    let savepoint = session.savepoint().unwrap();
                    let inserted = execute(&mut session, |txn| insert(&bank, txn)).is_ok();
                    match ending {
                        0 => assert_eq!(session.commit().is_ok(), inserted),
                        1 => session.rollback(),
                        _ => {
                            session.rollback_to(&savepoint).unwrap();
                            // The other may wait, and must not wait for this.
                            thread::yield_now();
                            session.commit().unwrap();
                        }
                    }
                })
            };
            let second = {
                let bank = bank.clone();
                thread::spawn(move || {
                    let mut session = bank.session(Class::Normal);
                    let result = run(&mut session, Class::Normal, |txn| insert(&bank, txn));
                    if ending != 0 {
                        result.unwrap();
                    }
                })
            };
            all([first, second]);
            bank.end();
            let txn = bank.engine.begin(Begin::new(Class::Normal));
            assert_eq!(txn.get(&bank.table, 0, &[Value::Int64(7)]).unwrap().unwrap().get_i64(0), 7);
        });
    }
}

/// Taking rows from open transactions: a low session changes two rows statement by statement while a high procedure takes
/// them in the other order and a normal one waits. The rows agree, and each commit counts once.
#[test]
fn rows_are_taken_from_open_transactions() {
    check(|| {
        let bank = Bank::new(LockPriority::NotRunning, &[0, 0], false);
        let low = {
            let bank = bank.clone();
            thread::spawn(move || {
                let mut session = bank.session(Class::Low);
                loop {
                    session.begin(Begin::new(Class::Low)).unwrap();
                    let done = [0, 1]
                        .into_iter()
                        .try_for_each(|row| execute(&mut session, |txn| bank.add(txn, row, 1)))
                        .and_then(|()| session.commit().map(drop));
                    session.rollback();
                    match done {
                        Ok(()) => break,
                        Err(error) => assert!(matches!(error, Error::Taken | Error::Deadlock(_)), "{error}"),
                    }
                }
            })
        };
        let others =
            [(Class::Normal, [0, 1], 10), (Class::High, [1, 0], 100)].into_iter().map(|(class, order, more)| {
                let bank = bank.clone();
                thread::spawn(move || {
                    let mut session = bank.session(class);
                    let both = |txn: &Txn<'_>| order.into_iter().try_for_each(|row| bank.add(txn, row, more));
                    run(&mut session, class, both).unwrap();
                })
            });
        all([low].into_iter().chain(others));
        assert_eq!(bank.end(), [111, 111]);
    });
}

/// A cancel that comes between a statement's last look and its wait ends that wait.
#[test]
fn a_cancel_is_not_lost() {
    check(|| {
        let bank = Bank::new(LockPriority::PriorityQueue, &[0], false);
        let mut holder = bank.session(Class::Normal);
        holder.begin(Begin::new(Class::Normal)).unwrap();
        execute(&mut holder, |txn| bank.add(txn, 0, 1)).unwrap();
        let mut session = bank.session(Class::Normal);
        let canceller = session.canceller();
        let thread = thread::spawn(move || canceller.cancel());
        let result = match session.try_run(Begin::new(Class::Normal), |txn| bank.add(txn, 0, 10)) {
            Ok(Step::Parked(ticket)) => {
                // If the cancel came too early it says so.
                if thread.join().unwrap() {
                    wait(&ticket);
                    session.try_run(Begin::new(Class::Normal), |txn| bank.add(txn, 0, 10)).map(|_| ())
                } else {
                    Err(Error::Cancelled)
                }
            }
            result => result.map(|_| ()),
        };
        assert_eq!(result, Err(Error::Cancelled));
        drop(session);
        holder.commit().unwrap();
        assert_eq!(bank.end(), [1]);
    });
}

/// Goal: a thread that ends a wait from outside gives up the place of that wait: the session may have come back before,
/// and wait for something else by then.
#[test]
fn the_end_of_a_wait_does_not_touch_the_next() {
    check(|| {
        let bank = Bank::new(LockPriority::PriorityQueue, &[0, 0], false);
        let [first_holder, mut second_holder] = [0, 1].map(|row| {
            let mut holder = bank.session(Class::Normal);
            holder.begin(Begin::new(Class::Normal)).unwrap();
            execute(&mut holder, |txn| bank.add(txn, row, 1)).unwrap();
            holder
        });
        let mut session = bank.session(Class::Normal);
        let canceller = session.canceller();
        let first = match session.try_run(Begin::new(Class::Normal), |txn| bank.add(txn, 0, 10)) {
            Ok(Step::Parked(ticket)) => ticket,
            _ => panic!("the row is held"),
        };
        let threads = [thread::spawn(move || assert!(canceller.cancel())), {
            let bank = bank.clone();
            thread::spawn(move || {
                // It looks without having been told.
                while !first.is_ready() {
                    thread::yield_now();
                }
                let result = session.try_run(Begin::new(Class::Normal), |txn| bank.add(txn, 0, 10));
                assert!(matches!(result, Err(Error::Cancelled)));
                run(&mut session, Class::Normal, |txn| bank.add(txn, 1, 100)).unwrap();
            })
        }];
        thread::yield_now();
        second_holder.commit().unwrap();
        all(threads);
        drop(first_holder);
        assert_eq!(bank.end(), [0, 101]);
    });
}
