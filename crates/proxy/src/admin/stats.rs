//! `SHOW STATS`, `STATS_TOTALS` and `TOTALS`: totals over the transactions of each database, or of all, with times in
//! microseconds.
//!
//! Bytes and the time of single queries are not counted here, nor averages over a period: they are 0.

use super::table::{ResultTable, text};
use crate::ProxyState;
use crate::clients::database::TransactionSums;
use types::Datum;
use types::Kind::{Numeric, Text};
use types::numeric;

const COLUMNS: [(&str, types::Kind); 15] = [
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

const TOTALS: [(&str, types::Kind); 8] = [
    ("database", Text),
    ("xact_count", Numeric),
    ("query_count", Numeric),
    ("bytes_received", Numeric),
    ("bytes_sent", Numeric),
    ("xact_time", Numeric),
    ("query_time", Numeric),
    ("wait_time", Numeric),
];

fn count(value: u64) -> Datum {
    Datum::Numeric(numeric::Numeric::from(i64::try_from(value).unwrap_or(i64::MAX)))
}

/// Value of a column of PgBouncer's, if it is known here.
fn known(sums: &TransactionSums, column: &str) -> Option<u64> {
    Some(match column {
        "xact_count" => sums.transactions,
        "query_count" => sums.statements,
        "xact_time" => sums.run_us,
        "wait_time" => sums.wait_us,
        _ => return None,
    })
}

pub(super) fn table(shared: &ProxyState) -> ResultTable {
    per_database(shared, &COLUMNS, |column| column.strip_prefix("total_"))
}

/// Totals by database: the table without averages.
pub(super) fn totals_by_database(shared: &ProxyState) -> ResultTable {
    per_database(shared, &TOTALS, Some)
}

fn per_database(
    shared: &ProxyState,
    columns: &'static [(&'static str, types::Kind)],
    total: impl Fn(&'static str) -> Option<&'static str>,
) -> ResultTable {
    let lines = shared.all_databases().into_iter().map(|(name, database)| {
        let sums = database.sums();
        let value = |column| total(column).and_then(|column| known(&sums, column)).unwrap_or(0);
        let mut line = vec![("database", text(&name))];
        line.extend(columns.iter().skip(1).map(|&(column, _)| (column, count(value(column)))));
        line
    });
    ResultTable::new(columns, lines.collect())
}

/// Totals of all databases, one row for each. Unknown values have no row.
pub(super) fn totals(shared: &ProxyState) -> ResultTable {
    let nothing = TransactionSums { transactions: 0, statements: 0, run_us: 0, wait_us: 0 };
    let all = shared.all_databases().iter().map(|(_, database)| database.sums()).fold(nothing, |one, other| {
        TransactionSums {
            transactions: one.transactions + other.transactions,
            statements: one.statements + other.statements,
            run_us: one.run_us + other.run_us,
            wait_us: one.wait_us + other.wait_us,
        }
    });
    let line = |&(column, _): &(&'static str, types::Kind)| {
        let sum = known(&all, column.strip_prefix("total_")?)?;
        Some(vec![("name", text(column)), ("value", count(sum))])
    };
    ResultTable::new(&[("name", Text), ("value", Numeric)], COLUMNS.iter().skip(1).filter_map(line).collect())
}
