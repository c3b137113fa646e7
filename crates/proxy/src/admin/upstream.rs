//! The servers with their state and their transactions: `SHOW UPSTREAM`, and the same for Prometheus.

use super::servers::place;
use super::table::{ResultTable, count, text};
use crate::ProxyState;
use crate::servers::node::{Node, Standing};
use crate::servers::nodes::Nodes;
use server::metrics::family;
use std::sync::Arc;
use types::Datum;
use types::Kind::{Float8, Int4, Int8, Text};

const COLUMNS: [(&str, types::Kind); 14] = [
    ("server", Text),
    ("host", Text),
    ("port", Int4),
    ("role", Text),
    ("timeline", Int8),
    ("asked_ms_ago", Float8),
    ("trouble", Text),
    ("active", Int4),
    ("slots", Int4),
    ("waiting", Int4),
    ("mpl", Int4),
    ("connections", Int4),
    ("connections_idle", Int4),
    ("hint", Text),
];

pub(super) fn table(shared: &ProxyState) -> ResultTable {
    let pools = shared.all_pools();
    let line = |node: &Node| {
        let word = node.word().clone();
        let (host, port) = place(&node.host);
        let sights = pools.iter().flat_map(|pool| pool.sights());
        let here: Vec<_> = sights.filter(|sight| sight.host == node.host).collect();
        let mut line = vec![
            ("server", text(&node.name)),
            ("host", text(host)),
            ("port", port),
            ("role", text(node.standing().name())),
            ("trouble", text(&word.trouble)),
            ("active", count(node.active())),
            ("connections", count(here.len())),
            ("connections_idle", count(here.iter().filter(|sight| sight.client().is_none()).count())),
        ];
        // Unknown values are NULL: nobody has asked, a standby writes no timeline, there is no gate.
        let timeline = word.said.timeline;
        line.extend((timeline != 0).then(|| ("timeline", Datum::Int8(timeline.into()))));
        let asked = word.asked.map(|asked| shared.nodes.time().since(asked).as_secs_f64() * 1e3);
        line.extend(asked.map(|ms| ("asked_ms_ago", Datum::Float8(ms))));
        let hint = || format!("ACCEPT '{}' makes it the primary; see docs/split-brain.md", node.name);
        line.push(("hint", text(&if node.is_acceptable() { hint() } else { String::new() })));
        if let Some(view) = node.admission.view() {
            line.push(("slots", count(view.gate.slots as usize)));
            line.push(("waiting", count(view.gate.classes.iter().map(|class| class.waiting).sum())));
            line.extend(
                (view.mode != server::admission::Mode::Observe).then(|| ("mpl", count(view.gate.mpl as usize))),
            );
        }
        line
    };
    ResultTable::new(&COLUMNS, shared.nodes.all().iter().map(|node| line(node)).collect())
}

/// Metrics of the servers, in Prometheus' text format.
pub(crate) fn metrics(nodes: &Nodes) -> String {
    let mut out = String::new();
    let mut each = |name: &str, help: &str, value: &dyn Fn(&Node) -> Option<f64>| {
        let labelled = |node: &Arc<Node>| Some((format!("server=\"{}\"", node.name), value(node)?));
        family(&mut out, (name, "gauge", help), &nodes.all().iter().filter_map(labelled).collect::<Vec<_>>());
    };
    let is = |truth: bool| Some(f64::from(u8::from(truth)));
    let active = "Transactions at a server, or on their way there.";
    each("overtake_upstream_active", active, &|node| Some(node.active() as f64));
    if nodes.are_asked {
        each("overtake_upstream_up", "Whether a server can be used.", &|node| {
            is(matches!(node.standing(), Standing::Primary | Standing::Standby))
        });
        each("overtake_upstream_primary", "Whether a server is the primary.", &|node| {
            is(node.standing() == Standing::Primary)
        });
        let fenced = "Whether a server is fenced: it says that it is the primary, and must not be written.";
        each("overtake_upstream_fenced", fenced, &|node| is(node.standing() == Standing::Fenced));
        each("overtake_upstream_timeline", "Timeline that a server has last said that it writes.", &|node| {
            Some(node.word().said.timeline).filter(|&timeline| timeline != 0).map(f64::from)
        });
    }
    out
}
