//! `SHOW LISTS` and `SHOW USERS`: numbers of objects, and the users.
//!
//! PgBouncer's pools of free objects and its cache of names have no counterpart here: those counts are 0.

use super::pools;
use super::table::{ResultTable, ZERO, count, text};
use crate::ProxyState;
use server::stats::Stats;
use stage::observe::Observe;
use std::collections::BTreeSet;
use types::Datum;
use types::Kind::{Int4, Text};

/// Users with a pool or a session, including sessions of the administration database.
fn users(shared: &ProxyState, stats: &Stats) -> BTreeSet<String> {
    let of_pools = shared.all_pools().into_iter().map(|pool| pool.user.to_string());
    of_pools.chain(stats.activity().into_iter().map(|row| row.user)).collect()
}

pub(super) fn lists(shared: &ProxyState, stats: &Stats) -> ResultTable {
    let pools = shared.all_pools();
    let lines = [
        ("databases", count(shared.all_databases().len())),
        ("users", count(users(shared, stats).len())),
        ("pools", count(pools::how_many(shared, stats))),
        ("free_clients", ZERO),
        ("used_clients", count(stats.activity().len())),
        ("login_clients", ZERO),
        ("free_servers", ZERO),
        ("used_servers", count(pools.iter().map(|pool| pool.sights().len()).sum())),
        ("dns_names", ZERO),
        ("dns_zones", ZERO),
        ("dns_queries", ZERO),
        ("dns_pending", ZERO),
    ];
    let line = |(name, items): (&str, Datum)| vec![("list", text(name)), ("items", items)];
    ResultTable::new(&[("list", Text), ("items", Int4)], lines.into_iter().map(line).collect())
}

/// Table of the users. No user has a pool mode of its own, so that column is empty.
pub(super) fn of_users(shared: &ProxyState, stats: &Stats) -> ResultTable {
    let line = |name: String| vec![("name", text(&name)), ("pool_mode", Datum::Null)];
    ResultTable::new(&[("name", Text), ("pool_mode", Text)], users(shared, stats).into_iter().map(line).collect())
}
