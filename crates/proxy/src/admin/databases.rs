//! `SHOW DATABASES`: the databases that a client has asked for.

use super::servers::place;
use super::table::{ResultTable, ZERO, count, text};
use crate::ProxyState;
use types::Datum;
use types::Kind::{Int4, Text};

const COLUMNS: [(&str, types::Kind); 13] = [
    ("name", Text),
    ("host", Text),
    ("port", Int4),
    ("database", Text),
    ("force_user", Text),
    ("pool_size", Int4),
    ("min_pool_size", Int4),
    ("reserve_pool", Int4),
    ("pool_mode", Text),
    ("max_connections", Int4),
    ("current_connections", Int4),
    ("paused", Int4),
    ("disabled", Int4),
];

pub(super) fn table(shared: &ProxyState) -> ResultTable {
    let pools = shared.all_pools();
    let (_, port) = shared.first_host().map_or(("", ZERO), place);
    let host = shared.host_names();
    let lines = shared.all_databases().into_iter().map(|(name, database)| {
        let connections = pools.iter().filter(|pool| *pool.name == *name).map(|pool| pool.sights().len()).sum();
        vec![
            ("name", text(&name)),
            ("host", text(&host)),
            ("port", port.clone()),
            ("database", text(&name)),
            ("force_user", Datum::Null),
            ("pool_size", count(shared.pool_size())),
            ("min_pool_size", ZERO),
            ("reserve_pool", ZERO),
            ("pool_mode", text("transaction")),
            ("max_connections", ZERO),
            ("current_connections", count(connections)),
            ("paused", count(usize::from(database.is_paused()))),
            ("disabled", ZERO),
        ]
    });
    ResultTable::new(&COLUMNS, lines.collect())
}
