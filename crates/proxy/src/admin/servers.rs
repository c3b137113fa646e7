//! `SHOW SERVERS`.

use super::table::{ResultTable, SOCKET, ZERO, moment, pointer, text};
use crate::servers::url::ServerAddress;
use crate::{ConnStatus, Pool, ProxyState};
use std::sync::Arc;
use types::Datum;

/// Address of a server, as PgBouncer shows it.
pub(crate) fn place(host: &ServerAddress) -> (&str, Datum) {
    match host {
        ServerAddress::Tcp(name, port) => (name, Datum::Int4((*port).into())),
        ServerAddress::Unix(path) => {
            let port = path.extension().and_then(|port| port.to_str()?.parse().ok());
            ("unix", Datum::Int4(port.unwrap_or(0)))
        }
    }
}

pub(super) fn table(shared: &ProxyState) -> ResultTable {
    let line = |pool: &Pool, sight: &ConnStatus| {
        let (address, port) = place(&sight.host);
        let client = sight.client();
        vec![
            ("type", text("S")),
            ("user", text(&pool.user)),
            ("database", text(&pool.name)),
            ("state", text(if client.is_some() { "active" } else { "idle" })),
            ("addr", text(address)),
            ("port", port),
            ("local_addr", text("")),
            ("local_port", ZERO),
            ("connect_time", moment(sight.born_us)),
            ("request_time", moment(sight.request_us())),
            ("wait", ZERO),
            ("wait_us", ZERO),
            ("close_needed", ZERO),
            ("ptr", text(&pointer('S', sight.pid))),
            ("link", text(&client.map_or_else(String::new, |client| pointer('C', client)))),
            ("remote_pid", Datum::Int4(sight.pid)),
            ("tls", text("")),
            ("application_name", text("")),
        ]
    };
    let of_pool = |pool: Arc<Pool>| pool.sights().iter().map(|sight| line(&pool, sight)).collect::<Vec<_>>();
    ResultTable::new(&SOCKET, shared.all_pools().into_iter().flat_map(of_pool).collect())
}
