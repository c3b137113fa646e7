//! `SHOW GATE`, `GATE HISTOGRAM`, `MPL`, `MPL LOG`, `MPL HISTORY`, `FORECAST`, `VERDICT`, `RESOURCES`: the views of the
//! schema `overtake`, for each server.

use super::table::{ResultTable, text};
use crate::servers::nodes::Nodes;
use server::admission::Admission;
use server::admission::lines as gate;
use types::Kind;
use types::table::{NamedRows, ProvidedColumn, ProvidedTable};

/// Returns the view of this name. The forecast takes a while.
pub(super) fn table(nodes: &Nodes, name: &'static str) -> ResultTable {
    each(nodes, name, |admission| gate::lines(admission, name))
}

/// Returns the history of the gates over the last seconds, or all of it.
pub(super) fn history(nodes: &Nodes, seconds: Option<u32>) -> ResultTable {
    each(nodes, "mpl_history", |admission| gate::history(admission, seconds.map_or(f64::INFINITY, f64::from)))
}

/// Returns the view of this name, with the lines of each server's admission control.
fn each(nodes: &Nodes, name: &'static str, lines_of: impl Fn(&Admission) -> NamedRows) -> ResultTable {
    let none = || ProvidedTable::new(name, "", &[]);
    let mut view = gate::tables().into_iter().find(|table| table.name == name).unwrap_or_else(none);
    view.columns.push(ProvidedColumn { name: "server", kind: Kind::Text, about: "Name of the server." });
    let lines = nodes.all().iter().flat_map(|node| {
        let lines = lines_of(&node.admission).into_iter();
        lines.map(|mut line| {
            line.push(("server", text(&node.name)));
            line
        })
    });
    ResultTable::of_view(view, lines.collect())
}
