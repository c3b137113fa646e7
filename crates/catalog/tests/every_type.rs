//! Values of every type: as text, in binary, compared, hashed, and in a column of a table.

use types::forms::Forms;
use types::{Datum, Kind, binary, text};

/// Returns texts of values in ascending order; none for types without values.
fn samples(kind: Kind) -> &'static [&'static str] {
    match kind {
        Kind::Bool => &["f", "t"],
        Kind::Bytea => &["\\x", "\\x00", "\\xff"],
        Kind::InternalChar | Kind::Name | Kind::Text | Kind::Bpchar | Kind::Varchar => &["a", "b"],
        Kind::Int2 => &["-32768", "0", "32767"],
        Kind::Int4 => &["-2147483648", "0", "2147483647"],
        Kind::Int8 => &["-9223372036854775808", "0", "9223372036854775807"],
        Kind::Oid => &["0", "23", "4294967295"],
        Kind::Json => &["{\"a\": 1}"],
        Kind::Float4 | Kind::Float8 => &["-Infinity", "-1.5", "0", "1e-30", "Infinity", "NaN"],
        Kind::Date => &["-infinity", "2024-01-01", "infinity"],
        Kind::Time => &["00:00:00", "12:30:00.5", "24:00:00"],
        Kind::Timestamp => &["-infinity", "2024-01-01 00:00:00", "infinity"],
        Kind::Timestamptz => &["-infinity", "2024-01-01 00:00:00+00", "infinity"],
        Kind::Interval => &["-1 days", "00:00:01", "1 mon"],
        Kind::Numeric => &["-Infinity", "-1.50", "0", "1000000000000000000000", "NaN"],
        Kind::Regclass | Kind::Regproc | Kind::Regprocedure | Kind::Regnamespace | Kind::Regrole => &["16", "23"],
        Kind::Regtype => &["boolean", "integer"],
        Kind::Uuid => &["00000000-0000-0000-0000-000000000000", "ffffffff-ffff-ffff-ffff-ffffffffffff"],
        Kind::Int2Vector | Kind::OidVector => &["1 2", "2"],
        Kind::Unknown | Kind::Void | Kind::Array(_) => &[],
    }
}

fn hash_of(value: &Datum, kind: Kind) -> u64 {
    use std::hash::Hasher;
    let mut state = std::collections::hash_map::DefaultHasher::new();
    types::ops::compare::hash(value, kind, &mut state);
    state.finish()
}

/// Takes the values of a type through text, binary, order, hash and a table's column.
fn walk(kind: Kind, values: &[Datum]) {
    for (at, value) in values.iter().enumerate() {
        let name = kind.name();
        let written = text::to_string(value, kind.into(), &Forms::DEFAULT);
        let read = text::input(&written, kind.into(), &Forms::DEFAULT).expect("its own text");
        assert_eq!(format!("{read:?}"), format!("{value:?}"), "{name} as text");
        let mut bytes = Vec::new();
        binary::output(value, kind.into(), &mut bytes);
        let read = binary::input(&bytes, kind.into(), binary::ValueOrigin::Parameter(1)).expect("its own bytes");
        assert_eq!(format!("{read:?}"), format!("{value:?}"), "{name} as bytes");
        if let Ok(column) = catalog::storage::column_type(kind.into()) {
            let mut buffer = Vec::new();
            let stored = catalog::storage::store(value, kind.into(), &mut buffer).expect("a column's value");
            let back = catalog::storage::datum(stored, kind.into());
            assert_eq!(format!("{back:?}"), format!("{value:?}"), "{name} in a column of {column:?}");
        }
        if !types::ops::is_comparable(kind) {
            continue;
        }
        for (other_at, other) in values.iter().enumerate() {
            let order = types::ops::compare(value, other, kind);
            assert_eq!(order, at.cmp(&other_at), "{name}: {value:?} and {other:?}");
            let is_same_hash = hash_of(value, kind) == hash_of(other, kind);
            assert!(is_same_hash || order.is_ne(), "{name}: {value:?} and {other:?}");
        }
    }
}

#[test]
fn every_type_is_compared_hashed_written_and_stored() {
    for kind in Kind::scalars() {
        assert_eq!(Kind::from_oid(kind.oid()), Some(kind), "its own line of the table");
        let read = |text: &&str| text::input(text, kind.into(), &Forms::DEFAULT).expect("a value");
        let values: Vec<Datum> = samples(kind).iter().map(read).collect();
        assert!(!values.is_empty() || matches!(kind, Kind::Unknown | Kind::Void), "{}", kind.name());
        walk(kind, &values);
        if let Some(array) = kind.array_of() {
            assert_eq!(array.element(), Some(kind));
            let mut arrays: Vec<Datum> = values.iter().map(|value| Datum::Array(vec![value.clone()].into())).collect();
            arrays.insert(0, Datum::Array(Vec::new().into()));
            arrays.push(Datum::Array(vec![Datum::Null].into()));
            walk(array, &arrays);
        }
    }
}
