//! An urgent write under a scan: a worker is busy with a long scan; an urgent transaction interrupts it, runs on the same
//! thread and commits, takes a row from a less important transaction on its way, and the scan goes on and sees none of it.
//!
//! `cargo run --release -p engine --example urgent`

use engine::{
    Begin, Column, Engine, EngineConfig, Error, IndexDef, Result, Session, SessionOptions, Step, Table, TableDef, Type,
    Value,
};
use preempt::{Arrival, Delivery, Heap, Latch, Serve, Signal, Worker, no_preempt, os};
use stage::Class;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::SeqCst};

#[global_allocator]
static HEAP: Heap = Heap::HEAP;

const ROWS: i64 = 400_000;
const SPEED: usize = 1;

/// Handler of the worker's interrupts: sets the speed of pump 7.
struct Urgent {
    session: Latch<Option<Session>>,
    pumps: Arc<Table>,
    asked_ns: AtomicU64,
    committed_ns: AtomicU64,
}

impl Serve for Urgent {
    fn serve(&self, _worker: &'static Worker, _arrival: Arrival) {
        // One interrupt, one transaction: nobody else wants the session.
        let Some(mut session) = no_preempt(|region| self.session.lock(region).take()) else { return };
        let step = session.try_run(Begin::new(Class::High), |txn| {
            let pump = txn.get(&self.pumps, 0, &[Value::Int64(7)])?.expect("it exists").row_id();
            txn.update(&self.pumps, pump, |row| row.set_i64(SPEED, 0))
        });
        no_preempt(|region| *self.session.lock(region) = Some(session));
        // It must not block here; under `not-running`, the default, it need not.
        assert!(matches!(step, Ok(Step::Done(()))), "{step:?}");
        self.committed_ns.store(os::now_ns(), SeqCst);
    }
}

fn speeds(engine: &Engine, pumps: &Arc<Table>, started: &AtomicBool) -> (usize, i64) {
    let parts = engine.snapshot().scan(pumps, &[SPEED], 4_096).split(1);
    parts.into_iter().flatten().fold((0, 0), |(rows, sum), batch| {
        started.store(true, SeqCst);
        let speeds = batch.column(0).to_data();
        (rows + batch.num_rows(), sum + speeds.buffer::<i64>(0).iter().sum::<i64>())
    })
}

fn main() -> Result<()> {
    preempt::prepare_heap();
    let engine = Engine::new(EngineConfig::in_memory());
    let columns = vec![Column::required("id", Type::Int64), Column::required("speed", Type::Int64)];
    let indexes = vec![IndexDef::unique("pumps_pkey", &[0])];
    let pumps = engine.create_table(TableDef { name: "pumps".to_owned(), columns, indexes })?;
    let txn = engine.begin(Begin::new(Class::Normal));
    for id in 0..ROWS {
        txn.insert(&pumps, &[Value::Int64(id), Value::Int64(100)])?;
    }
    txn.commit()?;

    // A session of low class has changed the same row, and waits for its client.
    let mut clerk = engine.session(SessionOptions::new(Class::Low));
    clerk.begin(Begin::new(Class::Low))?;
    clerk.execute(|txn| {
        let pump = txn.get(&pumps, 0, &[Value::Int64(7)])?.expect("it exists").row_id();
        txn.update(&pumps, pump, |row| row.set_i64(SPEED, 110))
    })?;

    let urgent = Arc::new(Urgent {
        session: Latch::new(Some(engine.session(SessionOptions::new(Class::High)))),
        pumps: pumps.clone(),
        asked_ns: AtomicU64::new(0),
        committed_ns: AtomicU64::new(0),
    });
    let registration = preempt::register("scanner", urgent.clone()).expect("the first worker of this process");
    let worker = registration.worker();
    let started = AtomicBool::new(false);
    let (rows, sum, ended_ns) = std::thread::scope(|scope| {
        scope.spawn(|| {
            while !started.load(SeqCst) {
                core::hint::spin_loop();
            }
            urgent.asked_ns.store(os::now_ns(), SeqCst);
            Signal.send(worker);
        });
        // Once more if it was over before it was interrupted.
        let (rows, sum) = loop {
            let seen = speeds(&engine, &pumps, &started);
            if urgent.committed_ns.load(SeqCst) != 0 {
                break seen;
            }
        };
        (rows, sum, os::now_ns())
    });
    let asked_ns = urgent.asked_ns.load(SeqCst);
    let after_us = |ns: u64| ns.saturating_sub(asked_ns) / 1_000;
    println!("urgent: committed {} us after it was asked for", after_us(urgent.committed_ns.load(SeqCst)));
    println!("scan:   ended {} us after that, {rows} rows, speed {sum} in all", after_us(ended_ns));
    let lost = clerk.execute(|_| Ok(())).expect_err("its row was taken");
    println!("clerk:  {lost}: {:?}", engine.lock_stats().takings);
    assert_eq!((lost, rows as i64), (Error::Taken, ROWS));
    let now = engine.begin(Begin::new(Class::Normal));
    assert_eq!(now.get(&pumps, 0, &[Value::Int64(7)])?.expect("it exists").get_i64(SPEED), 0);
    Ok(())
}
