//! Goal: CH-benCHmark's answers are right, over hot rows that transactions have changed. Method: DuckDB's answers over the
//! same small database, compared value by value; with one partition and with two.

use crate::support::{database, runtime};
use olap::RunConfig;
use workloads::ch::{QUERIES_COUNT, check_answer, known_database, query};

pub fn every_value_of_all_22_queries() {
    let database = database();
    known_database(database.engine()).expect("the tables are new");
    let runtime = runtime(2);
    for number in 1..=QUERIES_COUNT {
        let prepared = database.prepare(query(number)).unwrap_or_else(|error| panic!("query {number}: {error}"));
        for partitions in [1, 2] {
            let answer = runtime.answer(&prepared, database.engine().snapshot(), RunConfig::new(partitions));
            let answer = answer.unwrap_or_else(|error| panic!("query {number}: {error}"));
            check_answer(number, &answer.texts()).unwrap_or_else(|mismatch| panic!("{mismatch}"));
        }
    }
}
