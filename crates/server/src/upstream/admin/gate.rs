//! `SHOW GATE`, `GATE HISTOGRAM`, `MPL`, `MPL LOG`, `MPL HISTORY`, `FORECAST`, `RESOURCES`: the views of the schema `overtake`.

use super::table::Table;
use crate::door::Door;
use crate::views::gate;
use sql::system::ProvidedTable;

/// The view of this name; the forecast takes a while.
pub(super) fn table(door: &Door, name: &'static str) -> Table {
    Table::of_view(view(name), gate::lines(door, name))
}

/// What the gate did in the last so many seconds, or ever.
pub(super) fn history(door: &Door, seconds: Option<u32>) -> Table {
    Table::of_view(view("mpl_history"), gate::history(door, seconds.map_or(f64::INFINITY, f64::from)))
}

fn view(name: &str) -> ProvidedTable {
    let none = || ProvidedTable { name: name.to_owned(), columns: Vec::new() };
    gate::tables().into_iter().find(|table| table.name == name).unwrap_or_else(none)
}
