//! Holders of the memory of this process: the views `overtake.memory` and `overtake.memory_total`, and the metrics.
//!
//! **Invariant:** the rows of `overtake.memory` add up to the bytes that the allocator has given out, as far as they
//! are of one moment. Memory that no holder reports is a row of its own.

use super::{NamedRow, text};
use engine::memory::{MESSAGES, held_bytes, kept_bytes, limit_bytes, resident_bytes, resident_limit_bytes};
use engine::{Engine, TableHoldings};
use server::metrics::family;
use statement::holdings::{MemoryUse, of_sessions};
use types::table::{NamedRows, ProvidedTable, count};
use types::{Datum, Kind};

/// Memory of one holder, for one use.
struct Share {
    kind: &'static str,
    name: Option<String>,
    pid: Option<u32>,
    part: &'static str,
    bytes: u64,
}

impl Share {
    fn of_all(kind: &'static str, part: &'static str, bytes: u64) -> Share {
        Share { kind, name: None, pid: None, part, bytes }
    }
}

/// Strips the suffix that distinguishes tables of the engine that have had the same name one after another.
fn shown(name: &str) -> &str {
    name.split_once('#').map_or(name, |(name, _)| name)
}

/// Returns all shares that are not empty. `is_idle` tells which sessions run no statement: the results of
/// these are with their clients.
fn shares(engine: &Engine, is_idle: impl Fn(u32) -> bool) -> Vec<Share> {
    let held = held_bytes() as u64;
    let holdings = engine.holdings();
    let mut shares = Vec::new();
    for TableHoldings { name, is_dropped, rows, garbage, indexes } in holdings.tables {
        let kind = if is_dropped { "dropped table" } else { "table" };
        for (part, bytes) in [("rows", rows), ("garbage", garbage), ("indexes", indexes)] {
            shares.push(Share { kind, name: Some(shown(&name).to_owned()), pid: None, part, bytes });
        }
    }
    shares.push(Share::of_all("engine", "write sets", holdings.write_sets));
    shares.push(Share::of_all("engine", "garbage queues", holdings.garbage_queues));
    for session in of_sessions() {
        let pid = session.pid();
        for (of, bytes) in MemoryUse::ALL.into_iter().zip(session.bytes()) {
            let bytes = if of == MemoryUse::Results && is_idle(pid) { 0 } else { bytes };
            shares.push(Share { kind: "session", name: None, pid: Some(pid), part: of.name(), bytes });
        }
    }
    shares.push(Share::of_all("sessions", "unfinished messages", MESSAGES.bytes()));
    shares.push(Share::of_all("allocator", "freed blocks", kept_bytes() as u64));
    let said: u64 = shares.iter().map(|share| share.bytes).sum();
    shares.push(Share::of_all("others", "others", held.saturating_sub(said)));
    shares.retain(|share| share.bytes != 0);
    shares
}

pub(super) fn tables() -> [ProvidedTable; 2] {
    use Kind::{Int4, Int8, Text};
    [
        ProvidedTable::new(
            "memory",
            "Holders of memory. The rows add up to the bytes that the allocator has given out.",
            &[
                (
                    "kind",
                    Text,
                    "`table`, `dropped table`, `session`, `sessions`, `engine`, `allocator`, or `others` for memory that \
                     no holder reports.",
                ),
                ("name", Text, "Name of the table; NULL for other kinds."),
                ("pid", Int4, "PID of the session; NULL for other kinds."),
                (
                    "part",
                    Text,
                    "Use of the memory: `rows`, `garbage`, `indexes`; `results`, `cursors of procedures`, `sorts`, \
                     `windows`, `hash tables`, `transaction`, `advisory locks`; `unfinished messages`; `write sets`, \
                     `garbage queues`; `freed blocks`; `others`.",
                ),
                ("bytes", Int8, "Bytes held."),
            ],
        ),
        ProvidedTable::new(
            "memory_total",
            "Memory of the process, with its limits.",
            &[
                ("held_bytes", Int8, "Bytes of blocks that the allocator has given out."),
                ("limit_bytes", Int8, "Bytes of blocks beyond which statements are refused; NULL without a limit."),
                ("resident_bytes", Int8, "Resident bytes of the process, without files."),
                (
                    "resident_limit_bytes",
                    Int8,
                    "Resident bytes beyond which statements are refused; NULL without a limit.",
                ),
            ],
        ),
    ]
}

pub(super) fn lines(engine: &Engine, is_idle: impl Fn(u32) -> bool) -> NamedRows {
    let line = |Share { kind, name, pid, part, bytes }: Share| {
        vec![
            ("kind", text(kind)),
            ("name", name.as_deref().map_or(Datum::Null, text)),
            ("pid", pid.map_or(Datum::Null, |pid| Datum::Int8(pid.into()))),
            ("part", text(part)),
            ("bytes", count(bytes)),
        ]
    };
    shares(engine, is_idle).into_iter().map(line).collect()
}

/// Returns the one row of `overtake.memory_total`. A limit that is not set is null.
pub(super) fn total() -> NamedRows {
    let limit = |bytes: usize| if bytes == usize::MAX { Datum::Null } else { count(bytes as u64) };
    let line: NamedRow = vec![
        ("held_bytes", count(held_bytes() as u64)),
        ("limit_bytes", limit(limit_bytes())),
        ("resident_bytes", count(resident_bytes() as u64)),
        ("resident_limit_bytes", limit(resident_limit_bytes())),
    ];
    vec![line]
}

/// Returns the metrics in Prometheus' text format.
pub(crate) fn metrics(engine: &Engine, is_idle: impl Fn(u32) -> bool) -> String {
    let mut out = String::new();
    for (name, help, bytes) in [
        ("overtake_memory_held_bytes", "Bytes of blocks that the allocator has given out.", held_bytes()),
        ("overtake_memory_limit_bytes", "Bytes of blocks beyond which statements are refused.", limit_bytes()),
        ("overtake_memory_resident_bytes", "Bytes that are resident, without files.", resident_bytes()),
        (
            "overtake_memory_resident_limit_bytes",
            "Resident bytes beyond which statements are refused.",
            resident_limit_bytes(),
        ),
    ] {
        if bytes != usize::MAX {
            family(&mut out, (name, "gauge", help), &[(String::new(), bytes as f64)]);
        }
    }
    let label = |share: &Share| {
        let mut label = format!("kind=\"{}\",part=\"{}\"", share.kind, share.part);
        if let Some(name) = &share.name {
            let name = name.replace('\\', "\\\\").replace('"', "\\\"").replace('\n', "\\n");
            label.push_str(&format!(",name=\"{name}\""));
        }
        if let Some(pid) = share.pid {
            label.push_str(&format!(",pid=\"{pid}\""));
        }
        (label, share.bytes as f64)
    };
    let values: Vec<(String, f64)> = shares(engine, is_idle).iter().map(label).collect();
    let help = "Bytes of blocks, by who holds them and what for.";
    family(&mut out, ("overtake_memory_bytes", "gauge", help), &values);
    out
}
