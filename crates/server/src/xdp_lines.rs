//! Counters of AF_XDP: a view, and metrics.
//!
//! **Invariant:** both show the same numbers, of the whole process.

use types::Kind;
use types::table::{NamedRows, ProvidedTable, count};

/// Counter: its column, its description, its value.
type Line = (&'static str, &'static str, u64);

/// Returns the counters.
pub fn counters() -> [Line; 12] {
    let xdp = xdp::counts();
    [
        ("frames_received", "Frames that were diverted to the server.", xdp.received),
        ("frames_sent", "Frames that the server has sent.", xdp.sent),
        ("frames_refused", "Diverted frames that were no valid TCP.", xdp.refused),
        ("frames_unfinished", "Diverted frames whose checksum was left to a device.", xdp.unfinished),
        ("cookies", "Requests for connections answered by a SYN cookie.", xdp.cookies),
        ("resets", "Resets sent in answer to segments of no connection.", xdp.resets),
        ("probes", "Last segments sent again because no answer had come for long.", xdp.probes),
        ("connections", "Connections that were established.", xdp.accepted),
        ("empty_looks", "Looks that found no frame: processor time that was no work.", xdp.empty_looks),
        ("sleeps", "Sleeps until a frame comes.", xdp.sleeps),
        ("kernel_calls", "Calls of the kernel for frames.", xdp.kernel_calls),
        ("kernel_ns", "Nanoseconds that these calls took.", xdp.kernel_ns),
    ]
}

/// Definition of the view.
pub fn table() -> ProvidedTable {
    let columns: Vec<_> = counters().into_iter().map(|(name, help, _)| (name, Kind::Int8, help)).collect();
    ProvidedTable::new("af_xdp", "TCP that the server handles itself, by AF_XDP, in one row.", &columns)
}

/// Returns its row.
pub fn lines() -> NamedRows {
    vec![counters().into_iter().map(|(name, _, value)| (name, count(value))).collect()]
}
