//! Names and OIDs of types, and the effect of storing a value in a column. `ops`' tests cover literals and casts.

use super::forms::Forms;
use super::{Kind, SqlType, binary, modifier, text};
use crate::datum::Datum;

#[test]
fn numbers_and_names_lead_back() {
    for kind in Kind::all() {
        assert_eq!(Kind::from_oid(kind.oid()), Some(kind));
        assert_eq!(Kind::from_name(&kind.name()), Some(kind));
        if kind != Kind::InternalChar && kind != Kind::Array(super::Element::InternalChar) {
            assert_eq!(Kind::from_name(&kind.type_name()), Some(kind));
        }
        assert_eq!(kind.array_of().and_then(Kind::element), kind.array_of().map(|_| kind));
    }
    assert_eq!(Kind::from_oid(0), None);
}

#[test]
fn other_names() {
    for (name, kind) in [
        ("int", Kind::Int4),
        ("float", Kind::Float8),
        ("decimal", Kind::Numeric),
        ("char", Kind::Bpchar),
        ("\"char\"", Kind::InternalChar),
        ("timestamp", Kind::Timestamp),
        ("timestamptz", Kind::Timestamptz),
        ("_int4", Kind::Array(super::Element::Int4)),
        ("character varying[]", Kind::Array(super::Element::Varchar)),
    ] {
        assert_eq!(Kind::from_name(name), Some(kind), "{name}");
    }
    for name in ["serial", "bigserial", "foo", "int4[][]", ""] {
        assert_eq!(Kind::from_name(name), None, "{name}");
    }
}

#[test]
fn names_with_modifiers() {
    let with = |kind, typmod| SqlType { kind, typmod }.name();
    assert_eq!(with(Kind::Varchar, 24), "character varying(20)");
    assert_eq!(with(Kind::Varchar, -1), "character varying");
    assert_eq!(with(Kind::Bpchar, 14), "character(10)");
    assert_eq!(with(Kind::Bpchar, -1), "bpchar");
    assert_eq!(SqlType::numeric(12, 2).name(), "numeric(12,2)");
    assert_eq!(SqlType::numeric(3, -2).name(), "numeric(3,-2)");
    assert_eq!(with(Kind::Timestamptz, 3), "timestamp(3) with time zone");
    assert_eq!(with(Kind::Time, 0), "time(0) without time zone");
    assert_eq!(with(Kind::Interval, 0x7fff << 16 | 2), "interval(2)");
    assert_eq!(with(Kind::Interval, 0x7fff << 16 | 0xffff), "interval");
    assert_eq!(SqlType { kind: Kind::Array(super::Element::Varchar), typmod: 24 }.name(), "character varying(20)[]");
}

#[test]
fn what_pg_type_says() {
    assert_eq!((Kind::Int4.oid(), Kind::Int4.len(), Kind::Int4.category()), (23, 4, 'N'));
    assert_eq!((Kind::Text.oid(), Kind::Text.len(), Kind::Text.is_preferred()), (25, -1, true));
    let array = Kind::Array(super::Element::Int4);
    assert_eq!((array.oid(), array.len(), array.category(), array.is_preferred()), (1007, -1, 'A', false));
}

#[test]
fn an_assignment_refuses_what_an_explicit_cast_cuts() {
    let to = SqlType::with_length(Kind::Varchar, 3);
    let error = modifier::apply(Datum::text("abcd"), to, false).expect_err("too long");
    assert_eq!(error.to_string(), "value too long for type character varying(3) (SQLSTATE 22001)");
    assert_eq!(modifier::apply(Datum::text("abc  "), to, false), Ok(Datum::text("abc")));
    assert_eq!(modifier::apply(Datum::text("abcd"), to, true), Ok(Datum::text("abc")));
    let to = SqlType::with_length(Kind::Bpchar, 3);
    let error = text::input("abcd", to, &Forms::DEFAULT).expect_err("too long");
    assert_eq!(error.to_string(), "value too long for type character(3) (SQLSTATE 22001)");
    assert_eq!(text::input("a", to, &Forms::DEFAULT), Ok(Datum::text("a  ")));
    let error = text::input("1000", SqlType::numeric(3, 0), &Forms::DEFAULT).expect_err("too large");
    assert_eq!(error.message(), "numeric field overflow");
}

#[test]
fn bytes_that_are_no_value() {
    let state = |bytes: &[u8], kind: Kind| {
        binary::input(bytes, kind.into(), binary::ValueOrigin::Parameter(1)).expect_err("no value").state().0
    };
    assert_eq!(state(&[0, 0, 1], Kind::Int4), "08P01");
    assert_eq!(state(&[0, 0, 0, 0, 1], Kind::Int4), "22P03");
    assert_eq!(state(&[0xff], Kind::Text), "22021");
    assert_eq!(state(b"a\0b", Kind::Varchar), "22021");
    assert_eq!(state(b"{", Kind::Json), "22P02");
    let array = Kind::Array(super::Element::Int4);
    assert_eq!(state(&[0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 25], array), "42804");
    let words = |words: &[i32]| words.iter().flat_map(|word| word.to_be_bytes()).collect::<Vec<u8>>();
    for (bytes, found) in [
        (&[2, 0, 23, 1, 1, 1, 1, 4, 7][..], "0A000"),
        (&[1, 0, 23, 1, 2, 4, 7], "0A000"),
        (&[0x7f, 0, 23], "54000"),
        (&[7, 0, 23], "54000"),
        (&[-1, 0, 23], "22P03"),
        (&[0, 2, 23], "22P03"),
        (&[1, 0, 23, -1, 1], "54000"),
        (&[1, 0, 23, 134_217_728, 1], "54000"),
        (&[2, 0, 23, 65_536, 1, 65_536, 1], "54000"),
        (&[1, 0, 23, 1, i32::MAX], "54000"),
        (&[1, 0, 23, 2, 1, 4, 7], "08P01"),
        (&[1, 0, 23, 1, 1, 5, 7], "22P03"),
        (&[1, 0, 23, 1, 1, -2, 7], "22P03"),
    ] {
        assert_eq!(state(&words(bytes), array), found, "{bytes:?}");
    }
    let message = |words: &[i32], kind: Kind| {
        let bytes = words.iter().flat_map(|word| word.to_be_bytes()).collect::<Vec<u8>>();
        binary::input(&bytes, kind.into(), binary::ValueOrigin::Parameter(3)).expect_err("no value").to_string()
    };
    let surplus = "incorrect binary data format in bind parameter 3 (SQLSTATE 22P03)";
    for given in
        [&[0, 0, 23, 0][..], &[1, 0, 23, 0, 1, 4, 7], &[2, 0, 23, 3, 1, 0, 1, 4, 7], &[1, 0, 23, 1, 1, 4, 7, 7]]
    {
        assert_eq!(message(given, array), surplus, "{given:?}");
    }
    assert_eq!(
        message(&[1, 0, 23, 1, 1, 8, 7, 7], array),
        "improper binary format in array element 1 (SQLSTATE 22P03)"
    );
    assert_eq!(message(&[0, 0, 21], Kind::Int2Vector), "invalid int2vector data (SQLSTATE 22P03)");
    // NaN, with a digit that it does not use.
    assert_eq!(message(&[1 << 16, -0x4000_0000, 1], Kind::Numeric), surplus);
    assert_eq!(state(&[], Kind::Bool), "08P01");
}

#[test]
fn bytes_outside_of_the_calendar() {
    let state = |bytes: &[u8], kind: Kind| {
        binary::input(bytes, kind.into(), binary::ValueOrigin::Parameter(1)).expect_err("no value").state().0
    };
    assert_eq!(state(&(i32::MAX - 1).to_be_bytes(), Kind::Date), "22008");
    assert_eq!(state(&(i64::MAX - 1).to_be_bytes(), Kind::Timestamp), "22008");
    assert_eq!(state(&(-1_i64).to_be_bytes(), Kind::Time), "22008");
}
