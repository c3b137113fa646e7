//! `SHOW CLIENTS`.

use super::table::{ResultTable, SOCKET, ZERO, count, moment, pointer, text};
use crate::ProxyState;
use server::stats::Stats;
use stage::observe::{ActivityRow, Observe};
use std::collections::HashMap;

/// Time in microseconds for which a client has waited for admission or a connection; 0 if it does not wait.
pub(super) fn waited_us(row: &ActivityRow, now_us: i64) -> usize {
    if row.state != "waiting" {
        return 0;
    }
    usize::try_from(now_us - row.query_start_us).unwrap_or(0)
}

pub(super) fn table(shared: &ProxyState, stats: &Stats) -> ResultTable {
    let sights = shared.all_pools().into_iter().flat_map(|pool| pool.sights());
    let servers: HashMap<i32, i32> = sights.filter_map(|sight| Some((sight.client()?, sight.pid))).collect();
    let now_us = shared.nodes.time().unix_us();
    let line = |row: ActivityRow| {
        let link = servers.get(&row.pid).map_or_else(String::new, |&server| pointer('S', server));
        let waited = waited_us(&row, now_us);
        vec![
            ("type", text("C")),
            ("user", text(&row.user)),
            ("database", text(&row.database)),
            ("state", text(if row.state == "waiting" { "waiting" } else { "active" })),
            ("addr", text(row.client.as_deref().unwrap_or("unix"))),
            ("port", ZERO),
            ("local_addr", text("")),
            ("local_port", ZERO),
            ("connect_time", moment(row.session_start_us)),
            ("request_time", moment(row.query_start_us)),
            ("wait", count(waited / 1_000_000)),
            ("wait_us", count(waited % 1_000_000)),
            ("close_needed", ZERO),
            ("ptr", text(&pointer('C', row.pid))),
            ("link", text(&link)),
            ("remote_pid", ZERO),
            ("tls", text("")),
            ("application_name", text(&row.application)),
        ]
    };
    ResultTable::new(&SOCKET, stats.activity().into_iter().map(line).collect())
}
