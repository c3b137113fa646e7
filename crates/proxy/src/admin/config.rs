//! `SHOW CONFIG`: the settings of the server by their own names, and the addresses of the servers.

use super::table::{ResultTable, text};
use crate::ProxyState;
use crate::setup::reload::effective;
use server::reload::is_changeable;
use types::Kind::Text;

const COLUMNS: [(&str, types::Kind); 4] = [("key", Text), ("value", Text), ("default", Text), ("changeable", Text)];

pub(super) fn table(shared: &ProxyState) -> ResultTable {
    let line = |name: &str, value: &str, default: &str| {
        // The other settings are read at the start only.
        let changeable = text(if is_changeable(name) { "yes" } else { "no" });
        vec![("key", text(name)), ("value", text(value)), ("default", text(default)), ("changeable", changeable)]
    };
    let options = shared.options();
    let settings = options.settings.of_server().map(|setting| {
        line(setting.name, effective(setting.name, setting.value), effective(setting.name, setting.default))
    });
    let upstream = line("upstream", &shared.hosts(), "");
    ResultTable::new(&COLUMNS, settings.chain([upstream]).collect())
}
