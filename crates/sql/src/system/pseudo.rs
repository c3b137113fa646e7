//! Rows of `pg_type` for pseudo-types, and their I/O functions.

use super::{SystemRows, int, oid, text, yes};
use types::pseudo::{PseudoType, TABLE};

/// Returns the I/O functions of a pseudo-type: in, out, receive, send.
fn by_text(of: &PseudoType) -> [String; 4] {
    let base = if of.element == 0 { of.name } else { "array" };
    ["in", "out", "recv", "send"].map(|what| format!("{base}_{what}"))
}

/// Returns the I/O functions of all pseudo-types.
pub(super) fn functions() -> impl Iterator<Item = String> {
    TABLE.iter().flat_map(|one| {
        let count = if one.is_binary { 4 } else { 2 };
        by_text(one).into_iter().take(count)
    })
}

/// Adds the rows of pseudo-types to `pg_type`.
pub(super) fn add_rows(rows: &mut SystemRows<'_>) {
    for one in &TABLE {
        let [input, output, receive, send] = by_text(one).map(|name| super::pg_type::function_oid(&name));
        let none = || oid(0);
        rows.add([
            ("oid", oid(one.oid)),
            ("typname", text(one.name)),
            ("typnamespace", oid(super::pg_type::OF_CATALOG)),
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
                    _ => super::pg_type::function_oid("array_subscript_handler"),
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
