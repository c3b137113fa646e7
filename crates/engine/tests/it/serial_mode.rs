//! SERIALIZABLE beside others: writers of other levels, frozen rows, the mode's coming and going, and its bounds.

use crate::serial::{refused, second_is_refused, serial};
use crate::sessions;
use crate::support::*;
use engine::{
    Column, Comparison, Condition, Direction, Engine, EngineConfig, Error, IndexDef, Isolation, Result, SessionOptions,
    Step, TableDef, Txn, Type, Value,
};
use preempt::os;
use stage::Class;
use std::ops::Bound;
use std::sync::{Arc, Barrier};

/// Writers of other levels are checked too, and a bulk load; and they are never refused themselves.
pub fn others_are_checked_too() {
    let (engine, table) = bank_of(3);
    let before_all = engine.begin(NORMAL);
    pay(&before_all, &table, 0, 1).unwrap();
    let reader = serial(&engine);
    assert_eq!(balance(&reader, &table, 0), Some(100));
    pay(&reader, &table, 2, 1).unwrap();
    // It began, and wrote, before there was any SERIALIZABLE transaction, and has been away since.
    before_all.commit().unwrap();
    assert!(refused(reader));
    let reader = serial(&engine);
    assert_eq!(balance(&reader, &table, 1), Some(100));
    let (result, retries) = engine.run(NORMAL, |txn| pay(txn, &table, 1, 1));
    result.unwrap();
    assert_eq!(retries, 0);
    pay(&reader, &table, 2, 1).unwrap();
    assert!(refused(reader));
    let reader = serial(&engine);
    assert_eq!(balance(&reader, &table, 1_000), None);
    pay(&reader, &table, 2, 1).unwrap();
    let ids: arrow_array::ArrayRef = Arc::new(arrow_array::Int32Array::from(vec![1_000]));
    let balances = arrow_array::Decimal128Array::from(vec![1]).with_precision_and_scale(12, 2).unwrap();
    let owners: arrow_array::ArrayRef = Arc::new(arrow_array::StringViewArray::from(vec!["loaded"]));
    let batch =
        arrow_array::RecordBatch::try_new(table.schema().clone(), vec![ids, Arc::new(balances), owners]).unwrap();
    engine.bulk_load(&table, [batch]).unwrap();
    assert!(refused(reader));
    assert_eq!(balance_now(&engine, &table, 2), Some(100));
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
        let (reader, writer) = (serial(&engine), engine.begin(NORMAL));
        consume(&reader);
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

/// Serial mode ends after a second in which nobody asked for it, and begins again, with a writer from before each time.
pub fn serial_mode_comes_and_goes() {
    let (engine, table) = bank_of(2);
    let second = 1_000_000_000;
    let mut now_ns = 0;
    for round in 0..5 {
        let writer = engine.begin(NORMAL);
        pay(&writer, &table, 0, 1).unwrap();
        let reader = serial(&engine);
        assert_eq!(balance(&reader, &table, 0), Some(100 + round));
        pay(&reader, &table, 1, 1).unwrap();
        // Whatever the time: the reader is there.
        for _ in 0..3 {
            engine.rest_serial_mode(now_ns);
            now_ns += second;
        }
        writer.commit().unwrap();
        assert!(refused(reader));
        // Between, writers go the short way; a SERIALIZABLE one that begins then is checked all the same.
        let long = engine.begin(NORMAL);
        pay(&long, &table, 1, 0).unwrap();
        for _ in 0..3 {
            engine.rest_serial_mode(now_ns);
            now_ns += second;
        }
        assert_eq!(engine.stats().recent_writes, 0);
        engine.run(NORMAL, |txn| pay(txn, &table, 0, 0)).0.unwrap();
        long.commit().unwrap();
    }
    assert_eq!(engine.stats().serialization_failures, 5);
}

/// Writes that a SERIALIZABLE transaction holds back are bounded: it is aborted when there are too many.
pub fn the_memory_for_recent_writes_is_bounded() {
    let engine = Engine::new(EngineConfig { recent_writes_max: 4_096, ..EngineConfig::in_memory() });
    let columns = vec![Column::required("id", Type::Int32), Column::required("number", Type::Int64)];
    let def = TableDef { name: "t".to_owned(), columns, indexes: vec![IndexDef::unique("t_pkey", &[0])] };
    let table = engine.create_table(def).unwrap();
    let write = |txn: &Txn<'_>, id: i32| txn.insert(&table, &[Value::Int32(id), Value::Int64(0)]).map(drop);
    let oldest = serial(&engine);
    write(&oldest, -1).unwrap();
    let mut most = 0;
    for id in 0..20_000 {
        let txn = serial(&engine);
        write(&txn, id).unwrap();
        txn.commit().unwrap();
        most = most.max(engine.stats().recent_writes);
    }
    assert!((4_096..8_192).contains(&most), "{most} writes were kept");
    assert_eq!(oldest.commit(), Err(Error::SerializationFailure));
    // A long write set, and one who reads beside it, are no reason to abort anybody. Past 4,096 writes only its tables count.
    for (long_writes, meets) in [(2_000, false), (5_000, true)] {
        let beside = serial(&engine);
        assert!(beside.get(&table, 0, &[Value::Int32(5)]).unwrap().is_some());
        let long = serial(&engine);
        for id in 0..long_writes {
            write(&long, 100_000 * long_writes + id).unwrap();
        }
        write(&beside, -2 - long_writes).unwrap();
        assert_eq!(second_is_refused(long, beside), meets);
    }
    serial(&engine).abort();
    engine.run(NORMAL, |txn| write(txn, -3)).0.unwrap();
    assert!(engine.stats().recent_writes < 4_096);
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
        let txn = engine.begin(NORMAL);
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

/// A log that has grown too long stands for whole tables.
pub fn a_long_read_log_stands_for_whole_tables() {
    let (engine, table) = bank_of(2);
    let other = engine.create_table(TableDef {
        name: "other".to_owned(),
        columns: vec![Column::required("id", Type::Int32)],
        indexes: vec![IndexDef::unique("other_pkey", &[0])],
    });
    let other = other.unwrap();
    let case = |writes_other: bool| {
        let (reader, writer) = (serial(&engine), serial(&engine));
        let open_range = reader.range(&table, BY_ID, &[Value::Int32(0)], Direction::Forward).unwrap();
        for id in 0..1 << 18 {
            assert!(reader.get(&table, BY_ID, &[Value::Int32(1_000 + id)]).unwrap().is_none());
        }
        drop(open_range);
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

/// In sessions: what was read is remembered from statement to statement, and what refused a statement that was undone to a
/// savepoint is a read too. A procedure that waited begins anew, with what is committed then.
pub fn sessions_remember_what_they_read() {
    let (engine, table) = bank_of(4);
    let serializable = NORMAL.isolation(Isolation::Serializable);
    let options = SessionOptions::new(stage::Class::Normal);
    let (mut one, mut two) = (engine.session(options.clone()), engine.session(options));
    one.begin(serializable).unwrap();
    assert_eq!(one.execute(|txn| Ok(balance(txn, &table, 0))), Ok(Some(100)));
    two.run(serializable, |txn| pay(txn, &table, 0, 1)).unwrap();
    one.execute(|txn| pay(txn, &table, 1, 1)).unwrap();
    assert_eq!(one.commit(), Err(Error::SerializationFailure));

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

/// A session that waits while its transaction is aborted for the sake of that memory learns of it although nobody frees
/// what it waits for.
pub fn who_waits_learns_that_its_memory_is_gone() {
    let engine = Engine::new(EngineConfig { recent_writes_max: 4_096, ..EngineConfig::in_memory() });
    let table = create_accounts(&engine);
    engine.run(NORMAL, |txn| [0, 1].into_iter().try_for_each(|id| open(txn, &table, id, 0, "").map(drop))).0.unwrap();
    let mut holder = sessions::open_session(&engine, Class::High);
    sessions::done(&mut holder, sessions::add(&table, 1, 1));
    let mut session = sessions::session(&engine);
    session.begin(NORMAL.isolation(Isolation::Serializable)).unwrap();
    sessions::done(&mut session, sessions::add(&table, 0, 1));
    let ticket = sessions::parked(&mut session, sessions::add(&table, 1, 1));
    for id in 2..8_000 {
        engine.run(NORMAL, |txn| open(txn, &table, id, 0, "").map(drop)).0.unwrap();
    }
    engine.expire_waits(os::now_ns() + 10_000_000_000);
    assert!(ticket.is_ready());
    assert_eq!(sessions::failed(&mut session, sessions::add(&table, 1, 1)), Error::SerializationFailure);
}
