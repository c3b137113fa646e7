//! Counters of AF_XDP: a view, and metrics.
//!
//! **Invariant:** both show the same numbers, of the whole process.

use types::Kind;
use types::table::{NamedRows, ProvidedTable, count};

/// Counter: name of its metric, description, value.
type Line = (&'static str, &'static str, u64);

/// Returns the counters.
pub fn counters() -> [Line; 12] {
    let xdp = xdp::counts();
    [
        ("overtake_xdp_frames_received_total", "Frames that were diverted to the server.", xdp.received),
        ("overtake_xdp_frames_sent_total", "Frames that the server has sent.", xdp.sent),
        ("overtake_xdp_frames_refused_total", "Diverted frames that were no valid TCP.", xdp.refused),
        (
            "overtake_xdp_frames_unfinished_total",
            "Diverted frames whose checksum was left to a device.",
            xdp.unfinished,
        ),
        ("overtake_xdp_cookies_total", "Requests for connections answered by a SYN cookie.", xdp.cookies),
        ("overtake_xdp_resets_total", "Resets sent in answer to segments of no connection.", xdp.resets),
        ("overtake_xdp_probes_total", "Last segments sent again because no answer had come for long.", xdp.probes),
        ("overtake_xdp_connections_total", "Connections that were established.", xdp.accepted),
        (
            "overtake_xdp_empty_looks_total",
            "Looks that found no frame: processor time that was no work.",
            xdp.empty_looks,
        ),
        ("overtake_xdp_sleeps_total", "Sleeps until a frame comes.", xdp.sleeps),
        ("overtake_xdp_kernel_calls_total", "Calls of the kernel for frames.", xdp.kernel_calls),
        ("overtake_xdp_kernel_ns_total", "Nanoseconds that these calls took.", xdp.kernel_ns),
    ]
}

/// Returns the name of a counter in the view.
fn column(metric: &'static str) -> &'static str {
    metric.split_once("_xdp_").and_then(|(_, name)| name.strip_suffix("_total")).unwrap_or(metric)
}

/// Definition of the view.
pub fn table() -> ProvidedTable {
    let columns: Vec<_> = counters().into_iter().map(|(name, help, _)| (column(name), Kind::Int8, help)).collect();
    ProvidedTable::new("af_xdp", "TCP that the server handles itself, by AF_XDP, in one row.", &columns)
}

/// Returns its row.
pub fn lines() -> NamedRows {
    vec![counters().into_iter().map(|(name, _, value)| (column(name), count(value))).collect()]
}
