//! Snapshots, own writes, commands, values.

use crate::support::*;
use engine::{Column, Direction, Engine, EngineConfig, Error, IndexDef, Lookup, TableDef, Type, Value};

/// A transaction sees the commits before its beginning, and its own changes; nobody sees them before the commit.
pub fn a_snapshot_sees_what_was_committed_before_it() {
    let (engine, table) = bank_of(2);
    let reader = engine.begin(NORMAL);
    let writer = engine.begin(NORMAL);
    pay(&writer, &table, 0, 11).unwrap();
    open(&writer, &table, 7, 1, "me").unwrap();
    let row = row_of(&writer, &table, 1).unwrap();
    writer.delete(&table, row).unwrap();
    assert_eq!(balance(&writer, &table, 0), Some(111));
    assert_eq!(balance(&writer, &table, 7), Some(1));
    assert_eq!(balance(&writer, &table, 1), None);
    for _ in 0..2 {
        assert_eq!(balance(&reader, &table, 0), Some(100));
        assert_eq!(balance(&reader, &table, 7), None);
        assert_eq!(balance(&reader, &table, 1), Some(100));
    }
    writer.commit().unwrap();
    assert_eq!(balance(&reader, &table, 0), Some(100));
    assert_eq!(balance(&reader, &table, 7), None);
    assert_eq!(balance(&reader, &table, 1), Some(100));
    reader.commit().unwrap();
    assert_eq!(balance_now(&engine, &table, 0), Some(111));
    assert_eq!(balance_now(&engine, &table, 7), Some(1));
    assert_eq!(balance_now(&engine, &table, 1), None);
}

/// The Halloween problem: a command that moves what it reads along an index meets each row once.
pub fn a_command_does_not_see_its_own_effects() {
    let (engine, table) = bank_of(10);
    let txn = engine.begin(NORMAL);
    let mut met = 0;
    for row in txn.range(&table, BY_ID, &[], Direction::Forward).unwrap() {
        met += 1;
        let id = row.get_i32(ID);
        txn.update(&table, row.row_id(), |row| row.set_i32(ID, id + 100)).unwrap();
        open(&txn, &table, 1_000 + id, 0, "new").unwrap();
    }
    assert_eq!(met, 10);
    let ids: Vec<i32> = txn.range(&table, BY_ID, &[], Direction::Forward).unwrap().map(|row| row.get_i32(ID)).collect();
    assert_eq!(ids, (100..110).chain(1_000..1_010).collect::<Vec<_>>());
    let ids: Vec<i32> =
        txn.range(&table, BY_ID, &[], Direction::Backward).unwrap().map(|row| row.get_i32(ID)).collect();
    assert_eq!(ids, (100..110).chain(1_000..1_010).rev().collect::<Vec<_>>());
    txn.commit().unwrap();
    assert_eq!(balance_now(&engine, &table, 5), None);
    assert_eq!(balance_now(&engine, &table, 105), Some(100));
}

/// A row changed many times by one transaction: each change starts from the last, the end is what others see.
pub fn a_transaction_changes_its_own_row_again() {
    let (engine, table) = bank_of(1);
    let txn = engine.begin(NORMAL);
    for change in 1..=5 {
        pay(&txn, &table, 0, 1).unwrap();
        assert_eq!(balance(&txn, &table, 0), Some(100 + change));
    }
    let row = open(&txn, &table, 1, 5, "me").unwrap();
    txn.update(&table, row, |row| row.set_decimal_i64(BALANCE, 6)).unwrap();
    txn.delete(&table, row).unwrap();
    assert_eq!(txn.update(&table, row, |_| ()), Err(Error::NoSuchRow { table: "accounts".to_owned(), row: row.0 }));
    open(&txn, &table, 1, 7, "me").unwrap();
    txn.commit().unwrap();
    assert_eq!(balance_now(&engine, &table, 0), Some(105));
    assert_eq!(balance_now(&engine, &table, 1), Some(7));
}

/// An abort restores rows, keys and balances, whatever was stacked upon them.
pub fn an_abort_undoes_everything() {
    let (engine, table) = bank_of(3);
    let txn = engine.begin(NORMAL);
    pay(&txn, &table, 0, 5).unwrap();
    pay(&txn, &table, 0, 5).unwrap();
    txn.update(&table, row_of(&txn, &table, 1).unwrap(), |row| row.set_i32(ID, 50)).unwrap();
    txn.update(&table, row_of(&txn, &table, 50).unwrap(), |row| row.set_text(OWNER, "somebody else")).unwrap();
    txn.delete(&table, row_of(&txn, &table, 2).unwrap()).unwrap();
    open(&txn, &table, 2, 9, "me").unwrap();
    assert_eq!(ids_of(&txn, &table, "somebody else"), [50]);
    txn.abort();
    let txn = engine.begin(NORMAL);
    for id in 0..3 {
        assert_eq!(balance(&txn, &table, id), Some(100));
    }
    assert_eq!(balance(&txn, &table, 50), None);
    assert_eq!(ids_of(&txn, &table, "nobody"), [0, 1, 2]);
    assert!(ids_of(&txn, &table, "somebody else").is_empty());
    // The rows are free again.
    for id in 0..3 {
        pay(&txn, &table, id, 1).unwrap();
    }
    txn.commit().unwrap();
}

/// Every type comes back as it was written, nulls too, through insert, update, texts that grow and shrink.
pub fn values_come_back_exactly() {
    let engine = Engine::new(EngineConfig::in_memory());
    let wide = Type::Decimal { precision: 38, scale: 10 };
    let kinds = [Type::Int32, Type::Int64, MONEY, wide, Type::Text, Type::Date, Type::Timestamp];
    let mut columns = vec![Column::required("k", Type::Int32)];
    columns.extend(kinds.iter().enumerate().map(|(n, kind)| Column::nullable(&format!("c{n}"), *kind)));
    columns.push(Column::required("tail", Type::Text));
    let indexes = vec![IndexDef::unique("t_pkey", &[0]), IndexDef::plain("t_all", &[5, 3, 4, 1, 2, 6, 7])];
    let table = engine.create_table(TableDef { name: "t".to_owned(), columns, indexes }).unwrap();
    let most = 10_i128.pow(38) - 1;
    let full = |k: i32| {
        [
            Value::Int32(k),
            Value::Int32(i32::MIN),
            Value::Int64(i64::MAX),
            Value::Decimal(-999_999_999_999),
            Value::Decimal(-most),
            Value::Text("Grüße\0 und mehr"),
            Value::Date(-1),
            Value::Timestamp(i64::MIN),
            Value::Text("tail"),
        ]
    };
    let txn = engine.begin(NORMAL);
    let row = txn.insert(&table, &full(1)).unwrap();
    let mut nulls = [Value::Null; 9];
    (nulls[0], nulls[8]) = (Value::Int32(2), Value::Text(""));
    txn.insert(&table, &nulls).unwrap();
    let read = |id: i32| txn.get(&table, 0, &[Value::Int32(id)]).unwrap().unwrap();
    let all = |id: i32| (0..9).map(|column| read(id).get(column)).collect::<Vec<_>>();
    assert_eq!(all(1), full(1));
    assert_eq!(all(2), nulls);
    assert_eq!((read(2).get_text(5), read(2).get_decimal(4), read(2).is_null(5)), ("", 0, true));
    assert_eq!((read(1).get_i32(1), read(1).get_i64(2), read(1).get_date(6)), (i32::MIN, i64::MAX, -1));
    assert_eq!((read(1).get_decimal(4), read(1).get_timestamp(7)), (-most, i64::MIN));
    // All columns change: numbers to null, texts to longer, then shorter, then null.
    for text in ["a much longer text than before, so that it moves to the end", "x", ""] {
        txn.update(&table, row, |row| {
            row.set_text(5, text);
            row.set_text(8, text);
        })
        .unwrap();
        assert_eq!((read(1).get_text(5), read(1).get_text(8)), (text, text));
    }
    txn.update(&table, row, |row| (1..8).for_each(|column| row.set_null(column))).unwrap();
    assert!((1..8).all(|column| read(1).is_null(column)));
    txn.update(&table, row, |row| (1..8).for_each(|column| row.set(column, full(1)[column]))).unwrap();
    assert_eq!(all(1)[..8], full(1)[..8]);
    // Nulls sort last, in each column of the key.
    let sorted: Vec<i32> = txn.range(&table, 1, &[], Direction::Forward).unwrap().map(|row| row.get_i32(0)).collect();
    assert_eq!(sorted, [1, 2]);
    txn.commit().unwrap();
}

/// Ranges between bounds, whole keys and prefixes, included and excluded, in both directions.
pub fn ranges_respect_their_bounds() {
    use std::ops::Bound::{Excluded, Included, Unbounded};
    let (engine, _accounts) = bank();
    let columns = vec![Column::required("a", Type::Int32), Column::required("b", Type::Int64)];
    let indexes = vec![IndexDef::unique("pairs_pkey", &[0, 1])];
    let table = engine.create_table(TableDef { name: "pairs".to_owned(), columns, indexes }).unwrap();
    let txn = engine.begin(NORMAL);
    let pairs: Vec<(i32, i64)> = (-2..3).flat_map(|a| (-3..4).map(move |b| (a, b))).collect();
    for (a, b) in pairs.iter().rev() {
        txn.insert(&table, &[Value::Int32(*a), Value::Int64(*b)]).unwrap();
    }
    let whole = [[Value::Int32(-1), Value::Int64(2)], [Value::Int32(1), Value::Int64(-1)]];
    for (lower, upper, expected) in [
        (Unbounded, Unbounded, (-2, -3)..=(2, 3)),
        (Included(&whole[0][..]), Included(&whole[1][..]), (-1, 2)..=(1, -1)),
        (Excluded(&whole[0][..]), Excluded(&whole[1][..]), (-1, 3)..=(1, -2)),
        (Included(&whole[0][..1]), Included(&whole[1][..1]), (-1, -3)..=(1, 3)),
        (Excluded(&whole[0][..1]), Excluded(&whole[1][..1]), (0, -3)..=(0, 3)),
        (Included(&whole[1][..]), Excluded(&whole[1][..]), (9, 9)..=(9, 9)),
        (Excluded(&[][..]), Unbounded, (9, 9)..=(9, 9)),
    ] {
        let read = |direction| -> Vec<(i32, i64)> {
            let rows = txn.range_between(&table, 0, lower, upper, direction).unwrap();
            rows.map(|row| (row.get_i32(0), row.get_i64(1))).collect()
        };
        let mut wanted: Vec<_> = pairs.iter().copied().filter(|pair| expected.contains(pair)).collect();
        assert_eq!(read(Direction::Forward), wanted);
        wanted.reverse();
        assert_eq!(read(Direction::Backward), wanted);
    }
    txn.commit().unwrap();
}

/// A range that reads ahead gives the same rows: hot, frozen, deleted and own ones, over many leaves and over none, in both
/// directions.
pub fn ranges_read_ahead_the_same_rows() {
    let (engine, table) = bank_of(500);
    engine.bulk_load(&table, [crate::scans::accounts(600..700)]).unwrap();
    let txn = engine.begin(NORMAL);
    for id in (0..500).step_by(7) {
        txn.delete(&table, row_of(&txn, &table, id).unwrap()).unwrap();
    }
    open(&txn, &table, 555, 1, "own").unwrap();
    for owner in ["nobody", "own", "no such owner"] {
        for direction in [Direction::Forward, Direction::Backward] {
            let range = || txn.range(&table, BY_OWNER, &[Value::Text(owner)], direction).unwrap();
            let plain: Vec<i32> = range().map(|row| row.get_i32(ID)).collect();
            let ahead: Vec<i32> = range().read_ahead().map(|row| row.get_i32(ID)).collect();
            assert_eq!(ahead, plain);
        }
    }
    let all = || txn.range(&table, BY_ID, &[], Direction::Backward).unwrap();
    let ids: Vec<i32> = all().read_ahead().map(|row| row.get_i32(ID)).collect();
    assert_eq!(ids, all().map(|row| row.get_i32(ID)).collect::<Vec<_>>());
    assert_eq!(ids.len(), 500 - 72 + 1 + 100);
}

/// Goal: many look-ups at a time find what single ones find: rows there and not, of this transaction, under moved keys,
/// more than fit one round.
pub fn many_are_found_as_one_is() {
    let (engine, table) = bank_of(5_000);
    engine.bulk_load(&table, [crate::scans::accounts(6_000..6_100)]).unwrap();
    let txn = engine.begin(NORMAL);
    txn.delete(&table, row_of(&txn, &table, 7).unwrap()).unwrap();
    open(&txn, &table, 7, 1, "again").unwrap();
    txn.update(&table, row_of(&txn, &table, 8).unwrap(), |row| row.set_i32(ID, -8)).unwrap();
    let keys: Vec<_> = [7, 8, -8, 6_050, 9_999].into_iter().chain(0..5_200).map(|id| [Value::Int32(id)]).collect();
    let mut rows = Vec::new();
    for count in [0, 1, 5, 40, 41, keys.len()] {
        txn.get_many(&table, BY_ID, &keys[..count], &mut rows).unwrap();
        assert_eq!(rows.len(), count);
        for (row, key) in rows.iter().zip(&keys) {
            let one = txn.get(&table, BY_ID, key).unwrap();
            assert_eq!(row.map(|row| row.row_id()), one.map(|row| row.row_id()), "{key:?}");
        }
    }
    assert!(txn.get_many(&table, BY_ID, &[[Value::Int64(0)]], &mut rows).is_err());
}

/// Look-ups in different tables and indexes, more than fit one round, with absent keys among them: each finds what it finds
/// alone, in its own table. A key that does not fit is an error of all of them.
pub fn each_is_found_in_its_table() {
    let (engine, table) = bank_of(200);
    let pairs = engine
        .create_table(TableDef {
            name: "pairs".to_owned(),
            columns: vec![Column::required("left", Type::Int32), Column::required("right", Type::Int32)],
            indexes: vec![IndexDef::unique("by_both", &[0, 1]), IndexDef::unique("by_right", &[1])],
        })
        .unwrap();
    let txn = engine.begin(NORMAL);
    for at in 0..100 {
        txn.insert(&pairs, &[Value::Int32(at), Value::Int32(1_000 + at)]).unwrap();
    }
    let keys: Vec<[Value<'_>; 2]> = (0..130).map(|at| [Value::Int32(at), Value::Int32(1_000 + at)]).collect();
    let lookups: Vec<Lookup<'_, '_>> = keys
        .iter()
        .enumerate()
        .map(|(at, key)| match at % 3 {
            0 => Lookup { table: &pairs, index: 0, key },
            1 => Lookup { table: &pairs, index: 1, key: &key[1..] },
            _ => Lookup { table: &table, index: BY_ID, key: &key[..1] },
        })
        .collect();
    let mut rows = Vec::new();
    for count in [0, 1, 40, 41, lookups.len()] {
        txn.prefetch(&lookups[..count]).unwrap();
        txn.get_each(&lookups[..count], &mut rows).unwrap();
        assert_eq!(rows.len(), count);
        for (at, (row, lookup)) in rows.iter().zip(&lookups).enumerate() {
            let one = txn.get(lookup.table, lookup.index, lookup.key).unwrap();
            assert_eq!(row.map(|row| row.row_id()), one.map(|row| row.row_id()), "{at}");
            assert_eq!(row.is_some(), at < 100 || at % 3 == 2, "{at}");
            assert!(
                row.is_none_or(
                    |row| row.get_i32(usize::from(at % 3 == 1)) == at as i32 + 1_000 * i32::from(at % 3 == 1)
                )
            );
        }
    }
    let unfit = Lookup { table: &pairs, index: 0, key: &keys[0][..1] };
    for before in [1, 100] {
        let with_unfit: Vec<_> = lookups[..before].iter().copied().chain([unfit]).collect();
        assert!(matches!(txn.get_each(&with_unfit, &mut rows), Err(Error::InvalidValue { .. })));
        assert!(rows.is_empty());
        assert!(matches!(txn.prefetch(&with_unfit), Err(Error::InvalidValue { .. })));
    }
}

/// Goal: a value that a column cannot hold is refused, and the refusal leaves no trace.
pub fn values_that_do_not_fit_are_refused() {
    let (engine, table) = bank_of(1);
    let txn = engine.begin(NORMAL);
    let too_much = 10_i128.pow(12);
    for row in [
        &[Value::Int32(5), Value::Decimal(too_much), Value::Text("x")][..],
        &[Value::Int32(5), Value::Int64(1), Value::Text("x")],
        &[Value::Null, Value::Decimal(1), Value::Text("x")],
        &[Value::Int32(5), Value::Decimal(1)],
        &[Value::Int32(5), Value::Decimal(1), Value::Text("x"), Value::Null],
    ] {
        assert!(matches!(txn.insert(&table, row), Err(Error::InvalidValue { .. })), "{row:?}");
    }
    let row = row_of(&txn, &table, 0).unwrap();
    let refused = txn.update(&table, row, |row| row.set_decimal(BALANCE, -too_much));
    assert!(matches!(refused, Err(Error::InvalidValue { .. })));
    assert!(txn.get(&table, BY_ID, &[Value::Int64(0)]).is_err());
    assert!(txn.get(&table, BY_ID, &[Value::Int32(0), Value::Int32(0)]).is_err());
    assert!(txn.get(&table, BY_ID, &[]).is_err());
    assert!(txn.get_many(&table, BY_ID, &[[]], &mut Vec::new()).is_err());
    pay(&txn, &table, 0, 1).unwrap();
    txn.commit().unwrap();
    assert_eq!(balance_now(&engine, &table, 0), Some(101));
    assert_eq!(balance_now(&engine, &table, 5), None);
}

/// Definitions that make no sense are refused.
pub fn definitions_are_checked() {
    let (engine, _table) = bank();
    let def = |name: &str, columns: &[Column], indexes: &[IndexDef]| TableDef {
        name: name.to_owned(),
        columns: columns.to_vec(),
        indexes: indexes.to_vec(),
    };
    let int = Column::required("a", Type::Int32);
    let wrong = Column::required("a", Type::Decimal { precision: 39, scale: 0 });
    for bad in [
        def("accounts", std::slice::from_ref(&int), &[]),
        def("", std::slice::from_ref(&int), &[]),
        def("t", &[Column::required("", Type::Int32)], &[]),
        def("t", std::slice::from_ref(&int), &[IndexDef::unique("", &[0])]),
        def("t", &[int.clone(), int.clone()], &[]),
        def("t", &[wrong], &[]),
        def("t", std::slice::from_ref(&int), &[IndexDef::unique("i", &[1])]),
        def("t", std::slice::from_ref(&int), &[IndexDef::unique("i", &[])]),
    ] {
        assert!(matches!(engine.create_table(bad), Err(Error::InvalidDefinition { .. })));
    }
    engine.create_table(def("t", &[int], &[])).unwrap();
    engine.create_table(def("no columns", &[], &[])).unwrap();
    assert_eq!(engine.tables().len(), 3);
    assert!(engine.table("t").is_some_and(|table| table.column("a") == Some(0)));
    assert!(engine.table("u").is_none());
}

/// Rows inserted together: all are there, or none; in any order of keys, with keys that are taken, doubled or freed.
pub fn rows_inserted_together_are_all_there_or_none() {
    let (engine, table) = bank_of(10);
    let rows = |ids: &[i32]| -> Vec<[Value<'static>; 3]> {
        ids.iter().map(|id| [Value::Int32(*id), Value::Decimal(5), Value::Null]).collect()
    };
    let txn = engine.begin(NORMAL);
    let forward: Vec<i32> = (100..150).collect();
    let backward: Vec<i32> = (200..250).rev().collect();
    txn.insert_many(&table, &rows(&forward)).unwrap();
    txn.insert_many(&table, &rows(&backward)).unwrap();
    let entries = engine.stats().index_entries;
    for refused in [vec![50, 51, 3, 52], vec![60, 61, 61], (300..340).chain([100]).collect()] {
        let error = txn.insert_many(&table, &rows(&refused)).unwrap_err();
        assert!(matches!(error, Error::UniqueViolation { .. }), "{error}");
        assert!(refused.iter().all(|id| *id == 3 || *id == 100 || balance(&txn, &table, *id).is_none()));
        assert_eq!(engine.stats().index_entries, entries, "a refused statement leaves no entry");
    }
    let deleted = row_of(&txn, &table, 3).unwrap();
    txn.delete(&table, deleted).unwrap();
    txn.insert_many(&table, &rows(&[2_000, 3, 2_001])).unwrap();
    txn.insert_many(&table, &rows(&[])).unwrap();
    txn.commit().unwrap();
    for id in forward.iter().chain(&backward).chain(&[3, 2_000, 2_001]) {
        assert_eq!(balance_now(&engine, &table, *id), Some(5));
    }
    let txn = engine.begin(NORMAL);
    let nobody = txn.range(&table, BY_OWNER, &[Value::Null], Direction::Forward).unwrap();
    assert_eq!(nobody.count(), forward.len() + backward.len() + 3);
}
