//! `SHOW HELP`, `SHOW VERSION`, and the notices of RELOAD and ACCEPT.

use super::table::{ResultTable, text};
use settings::sources::OptionError;
use statement::{SqlError, SqlState};
use types::Kind::Text;

const USAGE: &str = "
	SHOW HELP|CONFIG|DATABASES|POOLS|POOLS BY SERVER|CLIENTS|SERVERS|USERS|LISTS|VERSION
	SHOW STATS|STATS_TOTALS|TOTALS
	SHOW GATE|GATE HISTOGRAM|MPL|MPL LOG|FORECAST|VERDICT|RESOURCES|UPSTREAM
	SHOW MPL HISTORY [<seconds>]
	RELOAD
	PAUSE [<db>]
	RESUME [<db>]
	RECONNECT [<db>]
	ACCEPT '<host>:<port>'";

fn notice(message: &str) -> SqlError {
    SqlError::new(SqlState::SUCCESSFUL_COMPLETION, message)
}

pub(super) fn help() -> SqlError {
    notice("Console usage").detail(USAGE)
}

pub(super) fn version() -> ResultTable {
    let version = concat!("Overtake ", env!("CARGO_PKG_VERSION"));
    ResultTable::new(&[("version", Text)], vec![vec![("version", text(version))]])
}

/// Notice of a RELOAD. `changed` lists the settings with new values; `None` if there is no source to read them from
/// again.
pub(super) fn reloaded(changed: Option<Vec<&'static str>>) -> SqlError {
    let detail = match changed.as_deref() {
        None => "The settings were not read: they come from no file.".to_owned(),
        Some([]) => "No setting that can be changed has another value.".to_owned(),
        Some(names) => format!("Other values now: {}.", names.join(", ")),
    };
    notice("passwords and settings of logins are asked of the servers again")
        .detail(detail)
        .hint("Rules of hba_file and certificates are read at the start only. RECONNECT replaces server connections.")
}

/// Notice of an ACCEPT. `latest` is the latest timeline that was seen.
pub(super) fn accepted(server: &str, timeline: u32, latest: u32) -> SqlError {
    let said = notice(&format!("{server} is the primary now, on timeline {timeline}"));
    if latest <= timeline {
        return said;
    }
    said.detail(format!("Timeline {latest} is set aside, with what was committed on it."))
}

pub(super) fn unreadable(error: &OptionError) -> SqlError {
    SqlError::new(SqlState::CONFIG_FILE_ERROR, error.to_string()).detail("All settings stay as they were.")
}
