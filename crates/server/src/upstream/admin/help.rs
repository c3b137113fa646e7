//! `SHOW HELP`, `SHOW VERSION`, and what RELOAD has done.

use super::table::{Table, text};
use sql::Kind::Text;
use sql::{SqlError, SqlState};

const USAGE: &str = "
	SHOW HELP|CONFIG|DATABASES|POOLS|CLIENTS|SERVERS|VERSION|STATS
	SHOW GATE|MPL|MPL LOG|FORECAST|UPSTREAM
	RELOAD
	PAUSE [<db>]
	RESUME [<db>]
	RECONNECT [<db>]";

fn notice(message: &str) -> SqlError {
    SqlError::new(SqlState("00000"), message)
}

pub(super) fn help() -> SqlError {
    notice("Console usage").detail(USAGE)
}

pub(super) fn version() -> Table {
    let version = concat!("Overtake ", env!("CARGO_PKG_VERSION"));
    Table::new(&[("version", Text)], vec![vec![("version", text(version))]])
}

pub(super) fn reloaded() -> SqlError {
    notice("passwords and settings of logins are asked of the servers again")
        .detail("Settings of the front, rules and certificates are read at its start, and were not reloaded.")
        .hint("RECONNECT replaces server connections.")
}
