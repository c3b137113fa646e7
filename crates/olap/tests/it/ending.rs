//! Goal: every way in which a query can end is one result, and harms nothing else. Method: hooks between operators that
//! wait, panic or count at an exact batch; no clock is involved.

use crate::support::{Interruptible, ask, database, numbers, rows, runtime};
use olap::{BatchHook, Database, Error, QueryMemory, RunConfig, Runtime, RuntimeConfig};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex};

/// Would take hours: 100 million pairs of 10,000 rows, and again.
const ENDLESS: &str = "select count(*) from numbers a, numbers b, numbers c where a.id + b.id + c.id = -1";

/// At one batch, tells that it has been reached, and goes on when it is told so.
struct StopAt {
    batch: u64,
    seen: AtomicU64,
    reached: Mutex<Sender<()>>,
    go_on: Mutex<Receiver<()>>,
}

fn stop_at(batch: u64) -> (Arc<StopAt>, Receiver<()>, Sender<()>) {
    let ((reached, is_reached), (go_on, may_go_on)) = (channel(), channel());
    let hook = StopAt { batch, seen: AtomicU64::new(0), reached: Mutex::new(reached), go_on: Mutex::new(may_go_on) };
    (Arc::new(hook), is_reached, go_on)
}

impl BatchHook for StopAt {
    fn batch(&self) {
        if self.seen.fetch_add(1, Ordering::SeqCst) + 1 == self.batch {
            self.reached.lock().expect("nobody panics while holding it").send(()).expect("the test waits");
            self.go_on.lock().expect("nobody panics while holding it").recv().expect("the test tells");
        }
    }
}

/// After the cancel each operator of each partition may pass one batch on, no more.
pub fn cancelled_within_a_few_batches() {
    let database = database();
    numbers(database.engine(), 10_000);
    let runtime = runtime(2);
    let prepared = database.prepare(ENDLESS).expect("it is a query");
    for partitions in [1, 2] {
        let plan = prepared.explain(&database.engine().snapshot(), partitions).expect("it has a plan");
        let operators = plan.matches("SafepointExec").count() as u64;
        assert!(5 < operators, "{operators}");
        let (hook, is_reached, go_on) = stop_at(40);
        let (sender, receiver) = channel();
        let finish = Box::new(move |answer| sender.send(answer).expect("the test waits"));
        let config = RunConfig { partitions, hook };
        let running = runtime.run(&prepared, database.engine().snapshot(), config, finish);
        is_reached.recv().expect("the query gets there");
        let batches_before = running.batches_count();
        running.cancel();
        go_on.send(()).expect("the query waits");
        let error = receiver.recv().expect("the query ends").expect_err("nobody counts that far");
        assert_eq!(error, Error::Cancelled);
        let batches = running.batches_count() - batches_before;
        assert!(batches <= operators * partitions as u64, "{batches} batches after the cancel");
    }
    assert_eq!(runtime.memory_bytes(), 0, "a cancelled query holds memory");
}

/// Goal: a run is left in the middle of a batch, where a call takes long. Method: a batch that would take hours.
pub fn cancelled_within_a_batch() {
    let database = database();
    numbers(database.engine(), 10_000);
    let runtime = runtime(2);
    for text in [
        "select sum(length(repeat(note, 30000000))) from numbers",
        "select count(*) from numbers where regexp_replace(repeat(note, 1000000), '(.)(.)', 'x', 'g') = note",
        "select count(*) from numbers where (id + 7::numeric ^ 100000::numeric) * (id + 7::numeric ^ 60000::numeric) = id",
    ] {
        let prepared = database.prepare(text).expect(text);
        let (sender, receiver) = channel();
        let finish = Box::new(move |answer| sender.send(answer).expect("the test waits"));
        let running = runtime.run(&prepared, database.engine().snapshot(), RunConfig::new(1), finish);
        while running.batches_count() == 0 {
            std::thread::yield_now();
        }
        running.cancel();
        let ended =
            receiver.recv_timeout(std::time::Duration::from_secs(20)).expect("it ends in the middle of a batch");
        assert_eq!(ended.expect_err(text), Error::Cancelled, "{text}");
    }
}

struct PanicAt(AtomicU64);

impl BatchHook for PanicAt {
    fn batch(&self) {
        assert!(self.0.fetch_sub(1, Ordering::SeqCst) != 1, "a planted bug");
    }
}

pub fn a_panic_is_an_error_of_its_query() {
    let database = database();
    numbers(database.engine(), 20_000);
    let runtime = runtime(2);
    let prepared = database.prepare("select note, count(*) from numbers group by note").expect("it is a query");
    for partitions in [1, 2] {
        let config = RunConfig { partitions, hook: Arc::new(PanicAt(AtomicU64::new(3))) };
        let answer = runtime.answer(&prepared, database.engine().snapshot(), config);
        let error = answer.expect_err("the bug is there");
        assert!(matches!(&error, Error::Panicked(text) if text.contains("a planted bug")), "{error}");
        let again = runtime.answer(&prepared, database.engine().snapshot(), RunConfig::new(partitions));
        assert!(again.is_ok(), "{again:?}");
    }
}

pub fn out_of_memory_is_an_error_of_its_query() {
    let database = database();
    numbers(database.engine(), 20_000);
    let config = RuntimeConfig {
        memory: QueryMemory::of_bytes(1 << 18),
        answer_rows_max: 100,
        hooks: Arc::new(Interruptible),
        ..RuntimeConfig::new(2)
    };
    let runtime = Runtime::new(config).expect("threads start");
    let out_of_memory = |text: &str| {
        let error = ask(&runtime, &database, text, 1).expect_err("it does not fit");
        assert!(matches!(error, Error::OutOfMemory(_)), "{error}");
    };
    out_of_memory("select note, count(*) from numbers group by note order by note");
    out_of_memory("select id from numbers");
    let answer = ask(&runtime, &database, "select count(*) from numbers", 1).expect("it fits");
    assert_eq!(rows(&answer), ["20000"]);
}

pub fn a_runtime_that_stops_ends_its_queries() {
    let database = database();
    numbers(database.engine(), 10_000);
    let runtime = runtime(2);
    let prepared = database.prepare(ENDLESS).expect("it is a query");
    let (sender, receiver) = channel();
    for partitions in [1, 2, 1] {
        let sender = sender.clone();
        let finish = Box::new(move |answer| sender.send(answer).expect("the test waits"));
        runtime.run(&prepared, database.engine().snapshot(), RunConfig::new(partitions), finish);
    }
    drop((runtime, sender));
    let ends: Vec<Error> = receiver.iter().map(|answer| answer.expect_err("nobody counts that far")).collect();
    assert_eq!(ends, [Error::Stopped, Error::Stopped, Error::Stopped]);
}

pub fn only_queries_are_prepared() {
    let database: Database = database();
    numbers(database.engine(), 1);
    for text in [
        "insert into numbers values (1, 1, 'x')",
        "delete from numbers",
        "create table t (a int)",
        "drop table numbers",
        "set datafusion.execution.batch_size = 1",
        "select * from nothing",
        "select nothing from numbers",
        "select 1; select 2",
        "nonsense",
        "",
    ] {
        let error = database.prepare(text).expect_err(text);
        assert!(matches!(error, Error::Statement(_)), "{text}: {error}");
    }
}
