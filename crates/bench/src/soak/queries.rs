//! Names of queries.

use crate::data::Data;
use crate::mixed::LowQuery;
use host::refusal::Refusal;
use workloads::{ch, tpch};

enum SoakQuery {
    Ch(usize),
    Tpch(usize),
    Scan,
}

fn named(name: &str) -> Option<SoakQuery> {
    let number = |prefix: &str, count: usize| {
        let number: usize = name.strip_prefix(prefix)?.parse().ok()?;
        (1..=count).contains(&number).then_some(number)
    };
    if name == "scan" {
        return Some(SoakQuery::Scan);
    }
    let of_ch = number("ch", ch::QUERIES_COUNT).map(SoakQuery::Ch);
    of_ch.or_else(|| number("q", tpch::QUERIES_COUNT).map(SoakQuery::Tpch))
}

/// Checks that there is such a query.
///
/// # Errors
/// A refusal that lists the existing queries.
pub fn check(name: &str) -> Result<(), Refusal> {
    let unknown = || Refusal::new(format!("unknown query \"{name}\": use ch1 to ch22, q1 to q22 or scan"));
    named(name).map(drop).ok_or_else(unknown)
}

/// Returns the query of this name, ready to run.
///
/// # Errors
/// Errors of [`check`], and an error if the query does not prepare.
pub fn query(data: &Data, name: &str) -> anyhow::Result<LowQuery> {
    check(name)?;
    match named(name) {
        Some(SoakQuery::Ch(number)) => data.ch_query(number),
        Some(SoakQuery::Tpch(number)) => data.tpch_query(number),
        Some(SoakQuery::Scan) | None => Ok(data.dense_scan()),
    }
}
