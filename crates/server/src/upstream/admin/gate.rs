//! `SHOW GATE`, `SHOW MPL`, `SHOW MPL LOG`, `SHOW FORECAST`: the views of the schema `overtake`, for each server.

use super::super::nodes::Nodes;
use super::table::{Table, text};
use crate::views::gate;
use sql::Kind;
use sql::system::ProvidedTable;

/// The view of this name; the forecast takes a while.
pub(super) fn table(nodes: &Nodes, name: &'static str) -> Table {
    let view = gate::tables().into_iter().find(|table| table.name == name);
    let none = || ProvidedTable { name: name.to_owned(), columns: Vec::new() };
    let mut view = view.unwrap_or_else(none);
    view.columns.push(("server".to_owned(), Kind::Text));
    let lines = nodes.all().iter().flat_map(|node| {
        let lines = gate::lines(&node.door, name).into_iter();
        lines.map(|mut line| {
            line.push(("server", text(&node.name)));
            line
        })
    });
    Table::of_view(view, lines.collect())
}
