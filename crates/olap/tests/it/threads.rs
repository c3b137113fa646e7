//! Goal: a scheduler that listens to the hooks knows its workers. Method: hooks that write down which thread called.

use crate::support::{database, numbers, rows};
use olap::{RunConfig, Runtime, RuntimeConfig, WorkerHooks};
use std::collections::{BTreeSet, HashMap};
use std::sync::mpsc::channel;
use std::sync::{Arc, Mutex};
use std::thread::ThreadId;

#[derive(Default)]
struct Listening {
    workers: Mutex<HashMap<ThreadId, usize>>,
    stopped: Mutex<Vec<ThreadId>>,
    /// The last of parked (`true`) and unparked (`false`) of each thread.
    parked: Mutex<HashMap<ThreadId, bool>>,
}

impl WorkerHooks for Listening {
    fn started(&self, index: usize) {
        assert_eq!(
            self.workers.lock().expect("nobody panics while holding it").insert(std::thread::current().id(), index),
            None,
            "started twice"
        );
    }

    fn parked(&self) {
        let before =
            self.parked.lock().expect("nobody panics while holding it").insert(std::thread::current().id(), true);
        assert_ne!(before, Some(true), "parked twice");
    }

    fn unparked(&self) {
        let before =
            self.parked.lock().expect("nobody panics while holding it").insert(std::thread::current().id(), false);
        assert_eq!(before, Some(true), "unparked without having parked");
    }

    fn stopping(&self) {
        self.stopped.lock().expect("nobody panics while holding it").push(std::thread::current().id());
    }
}

pub fn hooks_see_exactly_the_workers() {
    let hooks = Arc::new(Listening::default());
    let runtime =
        Runtime::new(RuntimeConfig { hooks: Arc::clone(&hooks) as _, ..RuntimeConfig::new(3) }).expect("threads start");
    let indexes: BTreeSet<usize> =
        hooks.workers.lock().expect("nobody panics while holding it").values().copied().collect();
    assert_eq!(indexes, BTreeSet::from([0, 1, 2]), "all workers have started when the runtime is there");

    let database = database();
    numbers(database.engine(), 20_000);
    let prepared = database.prepare("select count(*) from numbers").expect("it is a query");
    for _ in 0..50 {
        let answer = runtime.answer(&prepared, database.engine().snapshot(), RunConfig::new(3)).expect("it is right");
        assert_eq!(rows(&answer), ["20000"]);
    }
    drop(runtime);
    let workers: BTreeSet<String> =
        hooks.workers.lock().expect("nobody panics while holding it").keys().map(|id| format!("{id:?}")).collect();
    let names = |ids: Vec<ThreadId>| ids.iter().map(|id| format!("{id:?}")).collect::<BTreeSet<_>>();
    assert_eq!(
        names(hooks.stopped.lock().expect("nobody panics while holding it").clone()),
        workers,
        "each worker stops, and nobody else"
    );
    let parked = names(hooks.parked.lock().expect("nobody panics while holding it").keys().copied().collect());
    assert!(parked.is_subset(&workers), "only workers park");
}

/// The boundary of a query is its end, on the worker that ended it.
pub fn a_query_ends_on_a_worker() {
    let hooks = Arc::new(Listening::default());
    let runtime =
        Runtime::new(RuntimeConfig { hooks: Arc::clone(&hooks) as _, ..RuntimeConfig::new(2) }).expect("threads start");
    let database = database();
    numbers(database.engine(), 100);
    let prepared = database.prepare("select count(*) from numbers").expect("it is a query");
    let mut ids = BTreeSet::new();
    for _ in 0..20 {
        let (sender, receiver) = channel();
        let finish = Box::new(move |answer: olap::Result<_>| {
            sender.send((std::thread::current().id(), answer.is_ok())).expect("the test waits");
        });
        let running = runtime.run(&prepared, database.engine().snapshot(), RunConfig::new(1), finish);
        let (thread, is_ok) = receiver.recv().expect("the query ends");
        assert!(is_ok);
        assert!(
            hooks.workers.lock().expect("nobody panics while holding it").contains_key(&thread),
            "ended on a thread that is no worker"
        );
        assert!(ids.insert(running.id()), "two runs have one id");
    }
}
