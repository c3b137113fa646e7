//! Goal: TPC-H's answers are right, over frozen blocks, whatever the parallelism and the interrupts. Method: DuckDB's
//! answers over the same rows at scale factor 0.1, compared value by value; each query is prepared once and run with one
//! partition, with two, and twice at the same time.

use crate::support::{database, runtime};
use olap::{Answer, RunConfig};
use std::sync::mpsc::sync_channel;
use workloads::tpch::{ANSWERS_SCALE_FACTOR, Comments, LoadConfig, QUERIES_COUNT, check_answer, load, query};

pub fn every_value_of_all_22_queries() {
    let database = database();
    let config = LoadConfig { scale_factor: ANSWERS_SCALE_FACTOR, comments: Comments::Specified, threads: 2 };
    let loaded = load(database.engine(), &config, &mut |_| {}).expect("the tables are new");
    assert!(860_000 < loaded.rows_count, "{loaded:?}");

    let runtime = runtime(2);
    let check = |number: usize, answer: olap::Result<Answer>| {
        let answer = answer.unwrap_or_else(|error| panic!("query {number}: {error}"));
        check_answer(number, &answer.texts()).unwrap_or_else(|mismatch| panic!("{mismatch}"));
    };
    for number in 1..=QUERIES_COUNT {
        let prepared = database.prepare(query(number)).unwrap_or_else(|error| panic!("query {number}: {error}"));
        for partitions in [1, 2] {
            check(number, runtime.answer(&prepared, database.engine().snapshot(), RunConfig::new(partitions)));
        }
        let (sender, receiver) = sync_channel(2);
        for _ in 0..2 {
            let sender = sender.clone();
            let finish = Box::new(move |answer| sender.send(answer).expect("somebody waits for it"));
            runtime.run(&prepared, database.engine().snapshot(), RunConfig::new(1), finish);
        }
        drop(sender);
        let answers: Vec<_> = receiver.iter().collect();
        assert_eq!(answers.len(), 2);
        answers.into_iter().for_each(|answer| check(number, answer));
    }
    assert_eq!(runtime.memory_bytes(), 0, "an ended query holds memory");
}
