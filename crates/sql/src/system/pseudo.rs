//! Pseudo-types: what functions declare as arguments and results that no column has, and arrays of types that have none here.
//!
//! **Invariant:** numbers, lengths and functions are PostgreSQL's. Those that values have here ([`Kind::Unknown`], [`Kind::Void`])
//! are no lines of this table.
//!
//! [`Kind::Unknown`]: crate::types::Kind::Unknown
//! [`Kind::Void`]: crate::types::Kind::Void

use super::{Rows, int, oid, text, yes};
use crate::types::SqlType;

/// A pseudo-type.
pub(super) struct Pseudo {
    pub(super) oid: u32,
    /// `pg_type.typname`
    pub(super) name: &'static str,
    /// `pg_type.typlen`
    len: i16,
    /// `pg_type.typalign`
    align: &'static str,
    /// The type of its elements, 0 unless it is an array.
    element: u32,
    /// The type of arrays of it, or 0.
    pub(super) array: u32,
    /// Category `P`, but for arrays.
    category: &'static str,
    kind: &'static str,
    /// True if values are sent and received in binary, too.
    is_binary: bool,
}

#[rustfmt::skip]
const fn pseudo(oid: u32, name: &'static str, len: i16, align: &'static str, is_binary: bool) -> Pseudo {
    Pseudo { oid, name, len, align, element: 0, array: 0, category: "P", kind: "p", is_binary }
}

static TABLE: [Pseudo; 27] = [
    pseudo(32, "pg_ddl_command", 8, "d", true),
    pseudo(269, "table_am_handler", 4, "i", false),
    pseudo(325, "index_am_handler", 4, "i", false),
    Pseudo { kind: "b", category: "A", element: 22, ..pseudo(1006, "_int2vector", -1, "i", true) },
    Pseudo { kind: "b", category: "A", element: 30, ..pseudo(1013, "_oidvector", -1, "i", true) },
    Pseudo { kind: "b", category: "A", element: 2275, ..pseudo(1263, "_cstring", -1, "i", true) },
    Pseudo { array: 2287, ..pseudo(2249, "record", -1, "d", true) },
    Pseudo { array: 1263, ..pseudo(2275, "cstring", -2, "c", true) },
    pseudo(2276, "any", 4, "i", false),
    pseudo(2277, "anyarray", -1, "d", true),
    pseudo(2279, "trigger", 4, "i", false),
    pseudo(2280, "language_handler", 4, "i", false),
    pseudo(2281, "internal", 8, "d", false),
    pseudo(2283, "anyelement", 4, "i", false),
    Pseudo { element: 2249, ..pseudo(2287, "_record", -1, "d", true) },
    pseudo(2776, "anynonarray", 4, "i", false),
    pseudo(3115, "fdw_handler", 4, "i", false),
    pseudo(3310, "tsm_handler", 4, "i", false),
    pseudo(3500, "anyenum", 4, "i", false),
    pseudo(3831, "anyrange", -1, "d", false),
    pseudo(3838, "event_trigger", 4, "i", false),
    pseudo(4537, "anymultirange", -1, "d", false),
    pseudo(4538, "anycompatiblemultirange", -1, "d", false),
    pseudo(5077, "anycompatible", 4, "i", false),
    pseudo(5078, "anycompatiblearray", -1, "d", true),
    pseudo(5079, "anycompatiblenonarray", 4, "i", false),
    pseudo(5080, "anycompatiblerange", -1, "d", false),
];

/// Returns the pseudo-type with this number.
pub(super) fn numbered(oid: u32) -> Option<&'static Pseudo> {
    TABLE.iter().find(|one| one.oid == oid)
}

/// Returns the pseudo-type that `pg_type` calls so.
pub(super) fn named(name: &str) -> Option<&'static Pseudo> {
    TABLE.iter().find(|one| one.name == name)
}

/// Returns the name as `format_type` writes it.
pub(super) fn shown(of: &Pseudo) -> String {
    match (numbered(of.element), SqlType::from_oid(of.element)) {
        (Some(element), _) => format!("{}[]", element.name),
        (None, Some(element)) => format!("{}[]", element.kind.type_name()),
        (None, None) => super::quoted(of.name),
    }
}

/// The functions that read and write values: in, out, receive, send.
fn by_text(of: &Pseudo) -> [String; 4] {
    let base = if of.element == 0 { of.name } else { "array" };
    ["in", "out", "recv", "send"].map(|what| format!("{base}_{what}"))
}

/// All functions that read and write values of pseudo-types.
pub(super) fn functions() -> impl Iterator<Item = String> {
    TABLE.iter().flat_map(|one| {
        let count = if one.is_binary { 4 } else { 2 };
        by_text(one).into_iter().take(count)
    })
}

/// Adds their rows to `pg_type`.
pub(super) fn add_rows(rows: &mut Rows<'_>) {
    for one in &TABLE {
        let [input, output, receive, send] = by_text(one).map(|name| super::types::function_oid(&name));
        let none = || oid(0);
        rows.add([
            ("oid", oid(one.oid)),
            ("typname", text(one.name)),
            ("typnamespace", oid(super::types::OF_CATALOG)),
            ("typowner", oid(super::server::SUPERUSER)),
            ("typlen", int(i64::from(one.len))),
            ("typbyval", yes(0 < one.len)),
            ("typtype", text(one.kind)),
            ("typcategory", text(one.category)),
            ("typisdefined", yes(true)),
            ("typdelim", text(",")),
            ("typelem", oid(one.element)),
            ("typarray", oid(one.array)),
            (
                "typsubscript",
                match one.element {
                    0 => none(),
                    _ => super::types::function_oid("array_subscript_handler"),
                },
            ),
            ("typinput", input),
            ("typoutput", output),
            ("typreceive", if one.is_binary { receive } else { none() }),
            ("typsend", if one.is_binary { send } else { none() }),
            ("typalign", text(one.align)),
            ("typstorage", text(if one.len == -1 { "x" } else { "p" })),
            ("typtypmod", int(-1)),
        ]);
    }
}
