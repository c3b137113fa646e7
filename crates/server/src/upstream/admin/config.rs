//! `SHOW CONFIG`: the settings of the server by their own names, and where the servers are.

use super::super::Shared;
use super::table::{Table, text};
use sql::Kind::Text;

const COLUMNS: [(&str, sql::Kind); 4] = [("key", Text), ("value", Text), ("default", Text), ("changeable", Text)];

pub(super) fn table(shared: &Shared) -> Table {
    let line = |name: &str, value: &str, default: &str| {
        // They are read at the start.
        vec![("key", text(name)), ("value", text(value)), ("default", text(default)), ("changeable", text("no"))]
    };
    let settings = shared.settings().of_server().map(|(name, value, default)| line(name, value, default));
    let upstream = line("upstream", &shared.hosts(), "");
    Table::new(&COLUMNS, settings.chain([upstream]).collect())
}
