//! SERIALIZABLE beside others: writers of other levels, frozen rows, sessions, and the bounds of what is remembered.

use crate::serial::{refused, second_is_refused, serial};
use crate::support::*;
use engine::{
    Column, Comparison, Condition, Direction, Engine, EngineConfig, Error, IndexDef, Isolation, Result, SessionOptions,
    Step, Table, TableDef, Txn, Type, Value,
};
use std::ops::Bound;
use std::sync::Barrier;

/// Writers of other levels do not count, and neither does a bulk load. They bring the anomaly that the level is for, as in
/// PostgreSQL: each of two takes from an account what both have together, if one of them is READ COMMITTED.
pub fn writers_of_other_levels_do_not_count() {
    for level in [Isolation::ReadCommitted, Isolation::RepeatableRead, Isolation::Serializable] {
        for commits_last in [false, true] {
            let (engine, table) = bank_of(2);
            let (one, two) = (serial(&engine), engine.begin(NORMAL.isolation(level)));
            for (txn, own) in [(&one, 0), (&two, 1)] {
                let sum = balance(txn, &table, 0).unwrap() + balance(txn, &table, 1).unwrap();
                pay(txn, &table, own, -sum).unwrap();
            }
            let is_refused = if commits_last { second_is_refused(two, one) } else { second_is_refused(one, two) };
            assert_eq!(is_refused, level == Isolation::Serializable);
            let left = balance_now(&engine, &table, 0).unwrap() + balance_now(&engine, &table, 1).unwrap();
            assert_eq!(left, if is_refused { 0 } else { -200 });
        }
    }
    let (engine, table) = bank_of(3);
    let reader = serial(&engine);
    assert_eq!(balance(&reader, &table, 1_000), None);
    pay(&reader, &table, 2, 1).unwrap();
    engine.bulk_load(&table, [crate::scans::accounts(1_000..1_001)]).unwrap();
    assert!(!refused(reader));
    assert_eq!(engine.stats().serial_entries, 0);
}

/// Rows of frozen blocks are found by keys, ranges and scans like any; a write of others to one of them is met as it is,
/// thawed or frozen again, and a scan that leaves a block out has read it all the same.
pub fn frozen_rows_are_checked_too() {
    let (engine, table) = bank_of(2);
    engine.bulk_load(&table, [crate::scans::accounts(100..9_100)]).unwrap();
    let rich = [Condition::compare(BALANCE, Comparison::Greater, Value::Decimal(100))];
    let owned = [Condition::compare(OWNER, Comparison::Equal, Value::Text("block"))];
    let high = [Condition::compare(ID, Comparison::GreaterOrEqual, Value::Int32(9_000)), owned[0].clone()];
    let count = |txn: &Txn<'_>, conditions: &[Condition]| {
        let mut count = 0;
        txn.scan(&table, conditions, |_| count += 1).unwrap();
        count
    };
    type Consume<'a> = &'a dyn Fn(&Txn<'_>);
    let by_key: Consume<'_> = &|txn| assert_eq!(balance(txn, &table, 200), Some(100));
    let none_rich: Consume<'_> = &|txn| assert_eq!(count(txn, &rich), 0);
    let high_owned: Consume<'_> = &|txn| assert_eq!(count(txn, &high), 90);
    let to = Value::Int32(205);
    let range: Consume<'_> = &|txn| {
        let (lower, upper) = (Value::Int32(195), to);
        let (lower, upper) =
            (Bound::Excluded(std::slice::from_ref(&lower)), Bound::Included(std::slice::from_ref(&upper)));
        assert_eq!(txn.range_between(&table, BY_ID, lower, upper, Direction::Backward).unwrap().count(), 10);
    };
    // What is read; the row that another pays to; whether that meets it.
    for (consume, id, meets) in [
        (by_key, 200, true),
        (by_key, 201, false),
        (none_rich, 300, true),
        (high_owned, 9_001, true),
        (high_owned, 9_010, false),
        (high_owned, 400, false),
        (range, 205, true),
        (range, 206, false),
        (range, 195, false),
    ] {
        let (reader, writer) = (serial(&engine), serial(&engine));
        consume(&reader);
        balance(&writer, &table, 0).unwrap();
        pay(&reader, &table, 0, 0).unwrap();
        pay(&writer, &table, id, 1).unwrap();
        assert_eq!(second_is_refused(writer, reader), meets, "{id}");
        // Back again, so that the next case starts as this one did.
        engine.run(NORMAL, |txn| pay(txn, &table, id, -1)).0.unwrap();
        while !engine.freeze(u64::MAX).ended {}
    }
    let all = serial(&engine);
    assert_eq!((count(&all, &[]), count(&all, &high)), (9_002, 90));
    pay(&all, &table, 9_001, 1).unwrap();
    assert_eq!((count(&all, &rich), count(&all, &high)), (1, 90));
    all.commit().unwrap();
}

/// Goal: the memory of committed transactions is bounded: the oldest are summed up by tables. No transaction is aborted
/// for that; those that overlap them may be refused more often, and never less.
pub fn the_memory_for_committed_transactions_is_bounded() {
    let engine = Engine::new(EngineConfig { serial_entries_max: 4_096, ..EngineConfig::in_memory() });
    let columns = vec![Column::required("id", Type::Int32), Column::required("number", Type::Int64)];
    let def = |name: &str| TableDef {
        name: name.to_owned(),
        columns: columns.clone(),
        indexes: vec![IndexDef::unique("pkey", &[0])],
    };
    let [table, other] = ["t", "other"].map(|name| engine.create_table(def(name)).unwrap());
    let write = |txn: &Txn<'_>, id: i32| txn.insert(&table, &[Value::Int32(id), Value::Int64(0)]).map(drop);
    let write_other = |txn: &Txn<'_>, id: i32| txn.insert(&other, &[Value::Int32(id), Value::Int64(0)]).map(drop);
    let absent = |txn: &Txn<'_>, table: &Table, id: i32| txn.get(table, 0, &[Value::Int32(id)]).unwrap().is_none();
    // One read what the first of many wrote; one has written what the first of many read; one has done neither.
    let (reads, skewed, apart) = (serial(&engine), serial(&engine), serial(&engine));
    assert!(absent(&reads, &table, 0));
    assert!(absent(&skewed, &table, 0));
    write_other(&reads, -1).unwrap();
    write_other(&skewed, -2).unwrap();
    write_other(&apart, -3).unwrap();
    let mut most = 0;
    for id in 0..20_000 {
        let txn = serial(&engine);
        if id == 0 {
            assert!(absent(&txn, &other, -2));
        }
        write(&txn, id).unwrap();
        txn.commit().unwrap();
        most = most.max(engine.stats().serial_entries);
    }
    assert!((3_072..4_200).contains(&most), "{most} entries were kept");
    assert!(refused(skewed));
    assert!(!refused(apart));
    drop(reads);
    // A long write set, and one who reads beside it, are no reason to refuse anybody. Past 4,096 writes only its tables count.
    for (long_writes, meets) in [(1_000, false), (5_000, true)] {
        let beside = serial(&engine);
        assert!(!absent(&beside, &table, 5));
        let long = serial(&engine);
        assert!(absent(&long, &other, long_writes));
        for id in 0..long_writes {
            write(&long, 100_000 * long_writes + id).unwrap();
        }
        write_other(&beside, long_writes).unwrap();
        assert_eq!(second_is_refused(long, beside), meets);
    }
    serial(&engine).abort();
    engine.housekeep(0);
    assert_eq!(engine.stats().serial_entries, 0);
}

/// Versions between two snapshots that nobody sees are kept for a SERIALIZABLE transaction that may have to look at them,
/// whatever is cleared away around it; and go when it has ended.
pub fn versions_to_be_checked_are_not_pruned() {
    const UPDATES: i64 = 20_000;
    let (engine, table) = bank_of(2);
    let passing = [Condition::compare(BALANCE, Comparison::Equal, Value::Decimal(i128::from(UPDATES / 2)))];
    let never = [Condition::compare(BALANCE, Comparison::Less, Value::Decimal(0))];
    let (meets, clear) = (serial(&engine), serial(&engine));
    for (txn, conditions) in [(&meets, &passing), (&clear, &never)] {
        txn.scan(&table, conditions, |_| panic!("no row is like that")).unwrap();
    }
    open(&meets, &table, 10, 0, "meets").unwrap();
    open(&clear, &table, 11, 0, "clear").unwrap();
    for balance in 1_000..1_000 + UPDATES {
        let txn = serial(&engine);
        for id in [10, 11] {
            assert!(txn.get(&table, BY_ID, &[Value::Int32(id)]).unwrap().is_none());
        }
        txn.update(&table, row_of(&txn, &table, 0).unwrap(), |row| row.set_decimal_i64(BALANCE, balance)).unwrap();
        txn.commit().unwrap();
        if balance % 256 == 0 {
            engine.collect_garbage(usize::MAX);
        }
    }
    assert!(UPDATES as u64 <= engine.stats().versions, "what was committed since their snapshots is all there");
    assert!(refused(meets));
    assert!(!refused(clear));
    for _ in 0..4 {
        engine.run(NORMAL, |txn| pay(txn, &table, 1, 1)).0.unwrap();
        engine.collect_garbage(usize::MAX);
    }
    assert!(engine.stats().versions < 20, "{:?}", engine.stats());
}

/// A table that is scanned again and again is noted once for each condition, and past some of these as a whole.
pub fn repeated_scans_take_no_memory() {
    let (engine, table) = bank_of(3);
    let beside = serial(&engine);
    let of = |id: i32| [Condition::compare(ID, Comparison::Equal, Value::Int32(id))];
    let scans = |conditions: &[Condition]| {
        let txn = serial(&engine);
        (0..10_000).for_each(|_| txn.scan(&table, conditions, |_| ()).unwrap());
        txn
    };
    assert!(!refused(scans(&[])));
    assert!(!refused(scans(&of(1))));
    let many = serial(&engine);
    for id in 0..10_000 {
        many.scan(&table, &of(id + 100), |_| ()).unwrap();
    }
    assert!(!refused(many));
    let entries = engine.stats().serial_entries;
    assert!((1..4_096).contains(&entries), "{entries} entries are kept");
    drop(beside);
    // What is not told apart any more is still there.
    let (many, other) = (serial(&engine), serial(&engine));
    (0..10_000).for_each(|id| many.scan(&table, &of(id + 100), |_| ()).unwrap());
    pay(&many, &table, 0, 1).unwrap();
    balance(&other, &table, 0).unwrap();
    pay(&other, &table, 1, 1).unwrap();
    assert!(second_is_refused(other, many));
}

/// A log that has grown too long stands for whole tables.
pub fn a_long_read_log_stands_for_whole_tables() {
    let (engine, table) = bank_of(2);
    let other = crate::serial::create_other(&engine);
    let case = |writes_other: bool| {
        let (reader, writer) = (serial(&engine), serial(&engine));
        let open_range = reader.range(&table, BY_ID, &[Value::Int32(0)], Direction::Forward).unwrap();
        for id in 0..1 << 18 {
            assert!(reader.get(&table, BY_ID, &[Value::Int32(1_000 + id)]).unwrap().is_none());
        }
        drop(open_range);
        assert!(writer.get(&other, 0, &[Value::Int32(1)]).unwrap().is_none());
        reader.insert(&other, &[Value::Int32(1)]).unwrap();
        if writes_other {
            writer.insert(&other, &[Value::Int32(2)]).unwrap();
        } else {
            pay(&writer, &table, 1, 1).unwrap();
        }
        second_is_refused(writer, reader)
    };
    assert!(case(false));
    assert!(!case(true));
}

/// Doctors on call, on two threads: each goes off call only if another stays; by keys, by a range or by a scan, whichever
/// the draw says. In between others, READ COMMITTED, go on call. Somebody always is on call.
pub fn somebody_stays_on_call() {
    const DOCTORS: i32 = 4;
    const ROUNDS: u64 = 20_000;
    let (engine, table) = bank();
    let setup = engine.begin(NORMAL);
    for id in 0..DOCTORS {
        open(&setup, &table, id, 1, "doctor").unwrap();
    }
    setup.commit().unwrap();
    let on_call = |txn: &Txn<'_>, way: u64| -> Result<i64> {
        let mut count = 0;
        match way {
            0 => {
                for id in 0..DOCTORS {
                    let row = txn.get(&table, BY_ID, &[Value::Int32(id)])?;
                    count += row.map_or(0, |row| row.get_decimal_i64(BALANCE));
                }
            }
            1 => {
                let doctors = txn.range(&table, BY_OWNER, &[Value::Text("doctor")], Direction::Backward)?;
                count = doctors.map(|row| row.get_decimal_i64(BALANCE)).sum();
            }
            _ => {
                let serving = [Condition::compare(BALANCE, Comparison::Greater, Value::Decimal(0))];
                txn.scan(&table, &serving, |_| count += 1)?;
            }
        }
        Ok(count)
    };
    let begin = Barrier::new(2);
    let work = |seed: u64| {
        let mut random = Random(seed + 7);
        let mut left = 0;
        begin.wait();
        for _ in 0..ROUNDS {
            // Each thread has its own doctors, so that no write meets another.
            let (id, way) = ((2 * random.below(DOCTORS as u64 / 2) + seed) as i32, random.below(3));
            if random.below(4) == 0 {
                let back = engine.begin(NORMAL);
                let set = |txn: &Txn<'_>| {
                    let row = row_of(txn, &table, id).unwrap();
                    txn.update(&table, row, |row| row.set_decimal_i64(BALANCE, 1))
                };
                set(&back).and_then(|()| back.commit()).unwrap();
                continue;
            }
            let txn = serial(&engine);
            let off = |txn: &Txn<'_>| -> Result<bool> {
                let serving = on_call(txn, way)?;
                assert!(0 < serving, "nobody is on call");
                if balance(txn, &table, id) == Some(0) || serving < 2 {
                    return Ok(false);
                }
                // So that transactions overlap on machines with few processors, too.
                std::thread::yield_now();
                let row = row_of(txn, &table, id).unwrap();
                txn.update(&table, row, |row| row.set_decimal_i64(BALANCE, 0))?;
                Ok(true)
            };
            match off(&txn).and_then(|off| txn.commit().map(|_| off)) {
                Ok(off) => left += u64::from(off),
                Err(error) => assert!(error.is_retryable(), "{error}"),
            }
        }
        left
    };
    let left = std::thread::scope(|scope| {
        let other = scope.spawn(|| work(0));
        work(1) + other.join().unwrap()
    });
    println!("{left} went off call; {:?}", engine.stats());
    assert!(0 < left && 0 < engine.stats().serialization_failures);
    assert!(0 < on_call(&engine.begin(NORMAL), 1).unwrap());
}

/// Goal: in sessions, reads are recorded from statement to statement, and the cause that refused a statement that was
/// undone to a savepoint is a read too. A procedure that waited begins anew, with the state committed then.
pub fn sessions_remember_what_they_read() {
    let (engine, table) = bank_of(4);
    let serializable = NORMAL.isolation(Isolation::Serializable);
    let options = SessionOptions::new(stage::Class::Normal);
    let (mut one, mut two) = (engine.session(options.clone()), engine.session(options));
    one.begin(serializable).unwrap();
    assert_eq!(one.execute(|txn| Ok(balance(txn, &table, 0))), Ok(Some(100)));
    two.begin(serializable).unwrap();
    two.execute(|txn| Ok(balance(txn, &table, 1))).unwrap();
    two.execute(|txn| pay(txn, &table, 0, 1)).unwrap();
    two.commit().unwrap();
    // The commit would be refused, so the statement is.
    assert_eq!(one.execute(|txn| pay(txn, &table, 1, 1)), Err(Error::SerializationFailure));
    one.rollback();

    one.begin(serializable).unwrap();
    one.execute(|txn| pay(txn, &table, 1, 1)).unwrap();
    let savepoint = one.savepoint().unwrap();
    two.run(serializable, |txn| pay(txn, &table, 2, 1)).unwrap();
    let row = row_of(&engine.begin(NORMAL), &table, 2).unwrap();
    let blind = one.execute(|txn| txn.update(&table, row, |row| row.set_decimal_i64(BALANCE, 0)));
    assert!(matches!(blind, Err(Error::WriteConflict { .. })));
    one.rollback_to(&savepoint).unwrap();
    assert_eq!(one.commit(), Err(Error::SerializationFailure));

    two.begin(serializable).unwrap();
    two.execute(|txn| pay(txn, &table, 3, 1)).unwrap();
    let procedure = |txn: &Txn<'_>| {
        let seen = balance(txn, &table, 3);
        pay(txn, &table, 3, 10)?;
        Ok(seen)
    };
    let step = one.try_run(serializable, procedure).unwrap();
    assert!(matches!(step, Step::Parked(_)));
    two.commit().unwrap();
    assert_eq!(one.run(serializable, procedure), Ok(Some(101)));
    assert_eq!(balance_now(&engine, &table, 3), Some(111));
}
