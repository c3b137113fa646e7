//! Goal: keys compare as values do. Method: all pairs of a list that has the edges of each type.

use super::*;
use crate::row::value::Type;
use crate::schema::table::{Column, IndexDef, TableDef};

/// A table `t(a, b)` of these types with an index on both.
fn table(a: Type, b: Type) -> Table {
    let columns = vec![Column::nullable("a", a), Column::required("b", b)];
    Table::new(1, 0, TableDef { name: "t".to_owned(), columns, indexes: vec![IndexDef::plain("i", &[0, 1])] }).unwrap()
}

fn key(table: &Table, values: &[Value<'_>]) -> Vec<u8> {
    let mut key = Vec::new();
    of_values(table, &table.indexes[0], values, &mut key).unwrap();
    // The key of the stored row is the same.
    let (mut image, mut other) = (Vec::new(), Vec::new());
    table.layout.encode(values, &mut image).unwrap();
    let has_null = of_image(&table.indexes[0], Image { layout: &table.layout, bytes: &image }, &mut other);
    assert_eq!(key, other);
    assert_eq!(has_null, values.contains(&Value::Null));
    key
}

/// Checks that `sorted` values of column a, nulls last, sort by their keys, whatever column b is.
fn check(kind: Type, sorted: &[Value<'_>]) {
    let table = table(kind, Type::Text);
    let with_null: Vec<Value<'_>> = sorted.iter().copied().chain([Value::Null]).collect();
    for (at, low) in with_null.iter().enumerate() {
        assert!(key(&table, &[*low, Value::Text("a")]) < key(&table, &[*low, Value::Text("b")]));
        for high in &with_null[at + 1..] {
            assert!(
                key(&table, &[*low, Value::Text("\u{10ffff}")]) < key(&table, &[*high, Value::Text("")]),
                "{low:?} < {high:?}"
            );
        }
    }
}

#[test]
fn keys_sort_as_values() {
    check(Type::Int32, &[i32::MIN, -256, -1, 0, 1, 255, 256, i32::MAX].map(Value::Int32));
    check(Type::Date, &[i32::MIN, -1, 0, 1, i32::MAX].map(Value::Date));
    check(Type::Int64, &[i64::MIN, -1, 0, 1, 1 << 40, i64::MAX].map(Value::Int64));
    check(Type::Timestamp, &[i64::MIN, -1, 0, 1, i64::MAX].map(Value::Timestamp));
    check(Type::Bool, &[false, true].map(Value::Bool));
    check(Type::Int16, &[i16::MIN, -256, -1, 0, 1, i16::MAX].map(Value::Int16));
    let infinity = f64::INFINITY;
    check(Type::Float64, &[-infinity, -1.5, -1e-300, -0.0, 1e-300, 1.5, infinity, f64::NAN].map(Value::Float64));
    check(Type::Bytes, &[&[][..], &[0], &[0, 0], &[0, 0xff], &[1], &[0xfe], &[0xff], &[0xff, 0]].map(Value::Bytes));
    let most = 10_i128.pow(18) - 1;
    check(Type::Decimal { precision: 18, scale: 3 }, &[-most, -1, 0, 1, most].map(Value::Decimal));
    let most = 10_i128.pow(38) - 1;
    check(Type::Decimal { precision: 38, scale: 3 }, &[-most, -1, 0, 1, 1 << 100, most].map(Value::Decimal));
    check(
        Type::Text,
        &["", "\0", "\0\0", "\0\u{1}", "\0a", "\u{1}", "a", "a\0", "a\0b", "a\u{1}", "aa", "b", "ü", "\u{10ffff}"]
            .map(Value::Text),
    );
}

#[test]
fn no_key_is_a_prefix_of_another() {
    let table = table(Type::Text, Type::Text);
    let texts = ["", "\0", "a", "a\0", "a\0\u{1}", "ab"];
    let keys: Vec<_> =
        texts.iter().flat_map(|a| texts.map(|b| key(&table, &[Value::Text(a), Value::Text(b)]))).collect();
    for (at, one) in keys.iter().enumerate() {
        assert!(keys.iter().enumerate().all(|(other, key)| other == at || !key.starts_with(one)));
    }
}

#[test]
fn passing_a_prefix() {
    let pass = |prefix: &[u8]| {
        let mut prefix = prefix.to_vec();
        pass_prefix(&mut prefix).then_some(prefix)
    };
    assert_eq!(pass(&[1, 2]), Some(vec![1, 3]));
    assert_eq!(pass(&[1, 0xff, 0xff]), Some(vec![2]));
    assert_eq!(pass(&[0xff]), None);
    assert_eq!(pass(&[]), None);
}
