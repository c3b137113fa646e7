//! `SHOW POOLS`: the pools of server connections, and the administration database's own clients.

use super::clients::waited_us;
use super::is_name;
use super::table::{ResultTable, ZERO, count, text};
use crate::servers::node::Node;
use crate::{Pool, ProxyState};
use server::stats::Stats;
use stage::observe::Observe;
use std::collections::BTreeMap;
use std::sync::Arc;
use types::Kind::{Int4, Text};

const COLUMNS: [(&str, types::Kind); 16] = [
    ("database", Text),
    ("user", Text),
    ("cl_active", Int4),
    ("cl_waiting", Int4),
    ("cl_active_cancel_req", Int4),
    ("cl_waiting_cancel_req", Int4),
    ("sv_active", Int4),
    ("sv_active_cancel", Int4),
    ("sv_being_canceled", Int4),
    ("sv_idle", Int4),
    ("sv_used", Int4),
    ("sv_tested", Int4),
    ("sv_login", Int4),
    ("maxwait", Int4),
    ("maxwait_us", Int4),
    ("pool_mode", Text),
];

/// Sums of one user and database.
#[derive(Default)]
struct PoolSums {
    active: usize,
    waiting: usize,
    servers_active: usize,
    servers_idle: usize,
    waited_us: usize,
}

/// Sums of all pools, by database and user.
fn all(shared: &ProxyState, stats: &Stats) -> BTreeMap<(String, String), PoolSums> {
    let mut all: BTreeMap<(String, String), PoolSums> = BTreeMap::new();
    for pool in shared.all_pools() {
        let sums = all.entry((pool.name.to_string(), pool.user.to_string())).or_default();
        let sights = pool.sights();
        sums.servers_active = sights.iter().filter(|sight| sight.client().is_some()).count();
        sums.servers_idle = sights.len() - sums.servers_active;
    }
    let now_us = shared.nodes.time().unix_us();
    for row in stats.activity() {
        let waited = waited_us(&row, now_us);
        let sums = all.entry((row.database, row.user)).or_default();
        *(if row.state == "waiting" { &mut sums.waiting } else { &mut sums.active }) += 1;
        sums.waited_us = sums.waited_us.max(waited);
    }
    all
}

/// Number of rows of the table.
pub(super) fn how_many(shared: &ProxyState, stats: &Stats) -> usize {
    all(shared, stats).len()
}

pub(super) fn table(shared: &ProxyState, stats: &Stats) -> ResultTable {
    let line = |((database, user), sums): ((String, String), PoolSums)| {
        vec![
            ("database", text(&database)),
            ("user", text(&user)),
            ("cl_active", count(sums.active)),
            ("cl_waiting", count(sums.waiting)),
            ("cl_active_cancel_req", ZERO),
            ("cl_waiting_cancel_req", ZERO),
            ("sv_active", count(sums.servers_active)),
            ("sv_active_cancel", ZERO),
            ("sv_being_canceled", ZERO),
            ("sv_idle", count(sums.servers_idle)),
            ("sv_used", ZERO),
            ("sv_tested", ZERO),
            ("sv_login", ZERO),
            ("maxwait", count(sums.waited_us / 1_000_000)),
            ("maxwait_us", count(sums.waited_us % 1_000_000)),
            ("pool_mode", text(if is_name(&database) { "statement" } else { "transaction" })),
        ]
    };
    ResultTable::new(&COLUMNS, all(shared, stats).into_iter().map(line).collect())
}

const BY_SERVER: [(&str, types::Kind); 8] = [
    ("database", Text),
    ("user", Text),
    ("server", Text),
    ("role", Text),
    ("cl_waiting", Int4),
    ("sv_active", Int4),
    ("sv_idle", Int4),
    ("pool_size", Int4),
];

/// Connections of each pool at each server, and clients that wait for one there. Clients belong to no server between
/// transactions.
pub(super) fn by_server(shared: &ProxyState) -> ResultTable {
    let size = shared.pool_size();
    let line = |pool: &Pool, node: &Node| {
        let sights = pool.sights();
        let here = sights.iter().filter(|sight| sight.host == node.host);
        let (active, idle): (Vec<_>, Vec<_>) = here.partition(|sight| sight.client().is_some());
        vec![
            ("database", text(&pool.name)),
            ("user", text(&pool.user)),
            ("server", text(&node.name)),
            ("role", text(node.standing().name())),
            ("cl_waiting", count(pool.waiting_at(node))),
            ("sv_active", count(active.len())),
            ("sv_idle", count(idle.len())),
            ("pool_size", count(size)),
        ]
    };
    let of_pool = |pool: Arc<Pool>| shared.nodes.all().iter().map(|node| line(&pool, node)).collect::<Vec<_>>();
    ResultTable::new(&BY_SERVER, shared.all_pools().into_iter().flat_map(of_pool).collect())
}
