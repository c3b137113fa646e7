//! Pseudo-types, which functions declare as arguments and results but no column has, and arrays of
//! types that have none here.
//!
//! **Invariant:** OIDs, lengths and functions are PostgreSQL's. Pseudo-types that values have here ([`Kind::Unknown`],
//! [`Kind::Void`]) are not in this table.
//!
//! [`Kind::Unknown`]: super::Kind::Unknown
//! [`Kind::Void`]: super::Kind::Void

use super::SqlType;

/// A pseudo-type.
pub struct PseudoType {
    /// OID in `pg_type`.
    pub oid: u32,
    /// `pg_type.typname`
    pub name: &'static str,
    /// `pg_type.typlen`
    pub len: i16,
    /// `pg_type.typalign`
    pub align: &'static str,
    /// OID of the element type, 0 unless this is an array.
    pub element: u32,
    /// OID of the array type, or 0.
    pub array: u32,
    /// Category: `P`, except for arrays.
    pub category: &'static str,
    /// `pg_type.typtype`
    pub kind: &'static str,
    /// True if values are sent and received in binary format, too.
    pub is_binary: bool,
}

#[rustfmt::skip]
const fn pseudo(oid: u32, name: &'static str, len: i16, align: &'static str, is_binary: bool) -> PseudoType {
    PseudoType { oid, name, len, align, element: 0, array: 0, category: "P", kind: "p", is_binary }
}

/// Pseudo-types of PostgreSQL 15.
pub static TABLE: [PseudoType; 27] = [
    pseudo(32, "pg_ddl_command", 8, "d", true),
    pseudo(269, "table_am_handler", 4, "i", false),
    pseudo(325, "index_am_handler", 4, "i", false),
    PseudoType { kind: "b", category: "A", element: 22, ..pseudo(1006, "_int2vector", -1, "i", true) },
    PseudoType { kind: "b", category: "A", element: 30, ..pseudo(1013, "_oidvector", -1, "i", true) },
    PseudoType { kind: "b", category: "A", element: 2275, ..pseudo(1263, "_cstring", -1, "i", true) },
    PseudoType { array: 2287, ..pseudo(2249, "record", -1, "d", true) },
    PseudoType { array: 1263, ..pseudo(2275, "cstring", -2, "c", true) },
    pseudo(2276, "any", 4, "i", false),
    pseudo(2277, "anyarray", -1, "d", true),
    pseudo(2279, "trigger", 4, "i", false),
    pseudo(2280, "language_handler", 4, "i", false),
    pseudo(2281, "internal", 8, "d", false),
    pseudo(2283, "anyelement", 4, "i", false),
    PseudoType { element: 2249, ..pseudo(2287, "_record", -1, "d", true) },
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

/// Returns the pseudo-type with this OID.
pub fn numbered(oid: u32) -> Option<&'static PseudoType> {
    TABLE.iter().find(|one| one.oid == oid)
}

/// Returns the pseudo-type with this `pg_type.typname`.
pub fn named(name: &str) -> Option<&'static PseudoType> {
    TABLE.iter().find(|one| one.name == name)
}

/// Returns the name that `format_type` writes.
pub fn shown(of: &PseudoType) -> String {
    match (numbered(of.element), SqlType::from_oid(of.element)) {
        (Some(element), _) => format!("{}[]", element.name),
        (None, Some(element)) => format!("{}[]", element.kind.type_name()),
        (None, None) => syntax::names::quoted_name(of.name),
    }
}
