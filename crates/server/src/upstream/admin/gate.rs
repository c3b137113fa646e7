//! `SHOW GATE`, `SHOW MPL`, `SHOW MPL LOG`, `SHOW FORECAST`, `SHOW RESOURCES`: the views of the schema `overtake`.

use super::table::Table;
use crate::door::Door;
use crate::views::gate;
use sql::system::ProvidedTable;

/// The view of this name; the forecast takes a while.
pub(super) fn table(door: &Door, name: &'static str) -> Table {
    let view = gate::tables().into_iter().find(|table| table.name == name);
    let none = || ProvidedTable { name: name.to_owned(), columns: Vec::new() };
    Table::of_view(view.unwrap_or_else(none), gate::lines(door, name))
}
