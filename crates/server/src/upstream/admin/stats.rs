//! `SHOW STATS`: what has become of the transactions of each database, times in microseconds.
//!
//! Bytes and the time of single queries are not counted here, averages over a period neither: they are 0.

use super::super::Shared;
use super::table::{Table, text};
use sql::Datum;
use sql::Kind::{Numeric, Text};
use sql::types::numeric;

const COLUMNS: [(&str, sql::Kind); 15] = [
    ("database", Text),
    ("total_xact_count", Numeric),
    ("total_query_count", Numeric),
    ("total_received", Numeric),
    ("total_sent", Numeric),
    ("total_xact_time", Numeric),
    ("total_query_time", Numeric),
    ("total_wait_time", Numeric),
    ("avg_xact_count", Numeric),
    ("avg_query_count", Numeric),
    ("avg_recv", Numeric),
    ("avg_sent", Numeric),
    ("avg_xact_time", Numeric),
    ("avg_query_time", Numeric),
    ("avg_wait_time", Numeric),
];

fn count(value: u64) -> Datum {
    Datum::Numeric(numeric::Numeric::from(i64::try_from(value).unwrap_or(i64::MAX)))
}

pub(super) fn table(shared: &Shared) -> Table {
    let lines = shared.all_databases().into_iter().map(|(name, database)| {
        let sums = database.sums();
        let known = |column: &str| match column {
            "total_xact_count" => sums.transactions,
            "total_query_count" => sums.statements,
            "total_xact_time" => sums.run_us,
            "total_wait_time" => sums.wait_us,
            _ => 0,
        };
        let mut line = vec![("database", text(&name))];
        line.extend(COLUMNS.iter().skip(1).map(|&(column, _)| (column, count(known(column)))));
        line
    });
    Table::new(&COLUMNS, lines.collect())
}
