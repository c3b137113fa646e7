//! A queue of jobs in a table: each worker takes the oldest free job, with SKIP LOCKED, and works on it while the row
//! is locked. A worker that fails gives its job back by rolling back.
//!
//! `cargo run --release -p engine --example queue`

use engine::{
    Begin, Column, Direction, Engine, EngineConfig, Error, IndexDef, Result, RowLock, SessionOptions, Table, TableDef,
    Txn, Type, Value, Wait,
};
use stage::Class;
use std::sync::Barrier;
use std::thread;

const JOBS: i64 = 1_000;

/// Locks the oldest free job, does it and deletes it. Returns none if no job is free.
fn work(txn: &Txn<'_>, jobs: &Table, does_it: impl FnOnce(&str) -> Result<()>) -> Result<Option<i64>> {
    for job in txn.range(jobs, 0, &[], Direction::Forward)? {
        if let Some(job) = txn.lock_row(jobs, job.row_id(), RowLock::Update, Wait::SkipLocked)? {
            does_it(job.get_text(1))?;
            txn.delete(jobs, job.row_id())?;
            return Ok(Some(job.get_i64(0)));
        }
    }
    Ok(None)
}

/// The work itself: it takes a while.
fn count(what: &str, fails: bool) -> Result<()> {
    let letters = (0..20_000).filter(|at| std::hint::black_box(what).as_bytes()[at % what.len()] == b'e').count();
    if fails || letters == 0 { Err(Error::RolledBack) } else { Ok(()) }
}

fn main() -> Result<()> {
    let engine = Engine::new(EngineConfig::in_memory());
    let columns = vec![Column::required("id", Type::Int64), Column::required("what", Type::Text)];
    let indexes = vec![IndexDef::unique("jobs_pkey", &[0])];
    let jobs = engine.create_table(TableDef { name: "jobs".to_owned(), columns, indexes })?;
    let txn = engine.begin(Begin::new(Class::Normal));
    for id in 0..JOBS {
        txn.insert(&jobs, &[Value::Int64(id), Value::Text("count the leaves")])?;
    }
    txn.commit()?;
    let start = Barrier::new(3);
    let done: usize = thread::scope(|scope| {
        let workers: Vec<_> = (0..3)
            .map(|worker| {
                let (engine, jobs, start) = (&engine, &jobs, &start);
                scope.spawn(move || {
                    let mut session = engine.session(SessionOptions::new(Class::Normal));
                    let (mut done, mut failures) = (0, 0);
                    start.wait();
                    loop {
                        let fails = (done + failures) % 10 == 9;
                        let result =
                            session.run(Begin::new(Class::Normal), |txn| work(txn, jobs, |what| count(what, fails)));
                        match result {
                            Ok(Some(_)) => done += 1,
                            Err(Error::RolledBack) => failures += 1,
                            Ok(None) => break,
                            Err(error) => panic!("{error}"),
                        }
                    }
                    println!("worker {worker}: {done} jobs done, {failures} given back");
                    done
                })
            })
            .collect();
        workers.into_iter().map(|worker| worker.join().expect("no worker panics")).sum()
    });
    let left = engine.begin(Begin::new(Class::Normal)).range(&jobs, 0, &[], Direction::Forward)?.count();
    println!("{done} jobs done once each, {left} left");
    // A job that was given back while the others saw it locked may be left: nobody waited for it.
    assert_eq!(done + left, JOBS as usize);
    Ok(())
}
