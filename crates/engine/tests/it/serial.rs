//! SERIALIZABLE: of transactions that form a dangerous structure the last to commit is refused, and nobody else.

use crate::support::*;
use engine::{
    Begin, Column, Comparison, Condition, Direction, Engine, Error, IndexDef, Isolation, Lookup, Result, Row, Table,
    TableDef, Txn, Type, Value,
};
use std::ops::Bound;
use std::sync::Arc;

/// Begins a SERIALIZABLE transaction.
pub fn serial(engine: &Engine) -> Txn<'_> {
    engine.begin(NORMAL.isolation(Isolation::Serializable))
}

/// A table of numbers beside the accounts.
pub fn create_other(engine: &Engine) -> Arc<Table> {
    let def = TableDef {
        name: "other".to_owned(),
        columns: vec![Column::required("id", Type::Int32)],
        indexes: vec![IndexDef::unique("other_pkey", &[0])],
    };
    engine.create_table(def).unwrap()
}

pub fn refused(txn: Txn<'_>) -> bool {
    match txn.commit() {
        Ok(_) => false,
        Err(error) => {
            assert_eq!(error, Error::SerializationFailure);
            assert!(error.is_retryable());
            true
        }
    }
}

/// Commits both, in this order. Says whether the second was refused; the first must not be.
pub fn second_is_refused(first: Txn<'_>, second: Txn<'_>) -> bool {
    assert!(!refused(first), "the first to commit is never refused");
    refused(second)
}

/// Goal: transactions that each read what the other writes. By keys: two withdraw from two accounts that together must
/// not be overdrawn.
pub fn write_skew_by_keys_is_refused() {
    let (engine, table) = bank_of(3);
    for commits_first in [0, 1] {
        let (one, two) = (serial(&engine), serial(&engine));
        for (txn, own) in [(&one, 0), (&two, 1)] {
            let sum = balance(txn, &table, 0).unwrap() + balance(txn, &table, 1).unwrap();
            pay(txn, &table, own, -sum).unwrap();
        }
        assert!(if commits_first == 0 { second_is_refused(one, two) } else { second_is_refused(two, one) });
    }
    // By row ids, and by many keys at once, it is the same.
    let (one, two) = (serial(&engine), serial(&engine));
    let (row_0, row_1) =
        (row_of(&engine.begin(NORMAL), &table, 0).unwrap(), row_of(&engine.begin(NORMAL), &table, 1).unwrap());
    one.get_row(&table, row_1).unwrap().unwrap();
    one.update(&table, row_0, |row| row.set_decimal_i64(BALANCE, 1)).unwrap();
    let mut rows = Vec::new();
    two.get_many(&table, BY_ID, &[[Value::Int32(0)], [Value::Int32(2)]], &mut rows).unwrap();
    two.update(&table, row_1, |row| row.set_decimal_i64(BALANCE, 1)).unwrap();
    assert!(second_is_refused(one, two));
    assert_eq!(engine.stats().serialization_failures, 3);
    // Memory that was asked for was not read.
    let (one, two) = (serial(&engine), serial(&engine));
    for (txn, other, own) in [(&one, 0, row_1), (&two, 1, row_0)] {
        txn.prefetch(&[Lookup { table: &table, index: BY_ID, key: &[Value::Int32(other)] }]).unwrap();
        txn.update(&table, own, |row| row.set_decimal_i64(BALANCE, 1)).unwrap();
    }
    assert!(!second_is_refused(one, two));
}

/// Two insert different keys, each because the other's does not exist. (With the planted bug `absent_key_unchecked` both
/// commit.)
pub fn write_skew_by_absent_keys_is_refused() {
    let (engine, table) = bank_of(1);
    let (one, two) = (serial(&engine), serial(&engine));
    for (txn, own, other) in [(&one, 10, 11), (&two, 11, 10)] {
        assert_eq!(balance(txn, &table, other), None);
        open(txn, &table, own, 0, "skewed").unwrap();
    }
    assert!(second_is_refused(one, two));
    assert_eq!((balance_now(&engine, &table, 10), balance_now(&engine, &table, 11)), (Some(0), None));
    // A key that appears because a row moves to it, looked for among many.
    let (one, two) = (serial(&engine), serial(&engine));
    let mut rows = Vec::new();
    one.get_many(&table, BY_ID, &[[Value::Int32(20)], [Value::Int32(21)]], &mut rows).unwrap();
    assert!(rows.iter().all(Option::is_none));
    open(&one, &table, 22, 0, "skewed").unwrap();
    assert_eq!(balance(&two, &table, 22), None);
    two.update(&table, row_of(&two, &table, 10).unwrap(), |row| row.set_i32(ID, 21)).unwrap();
    assert!(second_is_refused(two, one));
}

/// A stretch of an index, consumed in one direction or the other, wholly or up to a row.
struct Read {
    direction: Direction,
    rows: usize,
}

const READS: [Read; 4] = [
    Read { direction: Direction::Forward, rows: usize::MAX },
    Read { direction: Direction::Backward, rows: usize::MAX },
    Read { direction: Direction::Forward, rows: 2 },
    Read { direction: Direction::Backward, rows: 2 },
];

/// Returns the ids that `read` consumes of the accounts 10, 20, ... 60, in the range from 20 to 50.
fn consume(txn: &Txn<'_>, table: &Table, read: &Read) -> Vec<i32> {
    let (lower, upper) = ([Value::Int32(20)], [Value::Int32(50)]);
    let (lower, upper) = (Bound::Included(&lower[..]), Bound::Included(&upper[..]));
    let mut range = txn.range_between(table, BY_ID, lower, upper, read.direction).unwrap();
    let mut ids = Vec::new();
    while ids.len() < read.rows
        && let Some(row) = range.next()
    {
        ids.push(row.get_i32(ID));
    }
    ids
}

fn tens() -> (Engine, Arc<Table>) {
    let (engine, table) = bank();
    let txn = engine.begin(NORMAL);
    for id in 1..7 {
        open(&txn, &table, 10 * id, 0, "ten").unwrap();
    }
    txn.commit().unwrap();
    (engine, table)
}

/// Goal: a write inside of the consumed part is refused, before, between and behind the rows found; a write outside is
/// not. Writes are inserts, updates that leave the key alone, moves into and out of the range, and deletes.
pub fn ranges_are_read_as_far_as_consumed() {
    type Change = fn(&Txn<'_>, &Table, i32) -> Result<()>;
    let insert: Change = |txn, table, id| open(txn, table, id, 0, "new").map(|_| ());
    let touch: Change = |txn, table, id| pay(txn, table, id, 1);
    let move_in: Change = |txn, table, id| {
        let row = row_of(txn, table, 60).unwrap();
        txn.update(table, row, |row| row.set_i32(ID, id))
    };
    let move_out: Change = |txn, table, id| {
        let row = row_of(txn, table, id).unwrap();
        txn.update(table, row, |row| row.set_i32(ID, 99))
    };
    let delete: Change = |txn, table, id| txn.delete(table, row_of(txn, table, id).unwrap());
    let changes: [(Change, &[i32]); 5] = [
        (insert, &[15, 21, 25, 31, 39, 45, 49, 51]),
        (touch, &[10, 20, 30, 40, 50, 60]),
        (move_in, &[15, 22, 35, 48, 55]),
        (move_out, &[10, 20, 30, 40, 50]),
        (delete, &[10, 20, 30, 40, 50, 60]),
    ];
    let mut refusals = 0;
    for read in &READS {
        let consumed = match (read.direction, read.rows) {
            (_, usize::MAX) => 20..=50,
            (Direction::Forward, _) => 20..=30,
            (Direction::Backward, _) => 40..=50,
        };
        for (change, ids) in &changes {
            for id in *ids {
                let (engine, table) = tens();
                let (reader, writer) = (serial(&engine), serial(&engine));
                let ids = consume(&reader, &table, read);
                assert_eq!(ids.len(), read.rows.min(4));
                open(&reader, &table, 1_000, 0, "makes it a writer").unwrap();
                assert_eq!(balance(&writer, &table, 1_000), None);
                change(&writer, &table, *id).unwrap();
                let is_refused = second_is_refused(writer, reader);
                assert_eq!(is_refused, consumed.contains(id), "{id} after {ids:?}");
                refusals += u64::from(is_refused);
            }
        }
    }
    assert!(40 < refusals);
}

/// Ranges by prefix, in an index with equal keys; an iterator that was made and never asked has read nothing, and one that
/// is never dropped has read all.
pub fn ranges_by_prefix_know_their_rows() {
    let (engine, table) = bank();
    let txn = engine.begin(NORMAL);
    for id in 0..4 {
        open(&txn, &table, id, 0, "same").unwrap();
    }
    open(&txn, &table, 9, 0, "samuel").unwrap();
    txn.commit().unwrap();
    let owner = [Value::Text("same")];
    let case = |consume: &dyn Fn(&Txn<'_>), write: &dyn Fn(&Txn<'_>)| {
        let (reader, writer) = (serial(&engine), serial(&engine));
        consume(&reader);
        open(&reader, &table, 1_000, 0, "reader").unwrap();
        assert_eq!(balance(&writer, &table, 1_000), None);
        write(&writer);
        let is_refused = second_is_refused(writer, reader);
        let txn = engine.begin(NORMAL);
        if let Some(row) = row_of(&txn, &table, 1_000) {
            txn.delete(&table, row).unwrap();
        }
        txn.commit().unwrap();
        is_refused
    };
    let first = |txn: &Txn<'_>| {
        assert_eq!(txn.range(&table, BY_OWNER, &owner, Direction::Forward).unwrap().next().unwrap().get_i32(ID), 0);
    };
    let last = |txn: &Txn<'_>| {
        assert_eq!(txn.range(&table, BY_OWNER, &owner, Direction::Backward).unwrap().next().unwrap().get_i32(ID), 3);
    };
    let pay_to = |id: i32| move |txn: &Txn<'_>, table: &Table| pay(txn, table, id, 1).unwrap();
    for (id, meets_first, meets_last) in [(0, true, false), (1, false, false), (3, false, true), (9, false, false)] {
        assert_eq!(case(&first, &|txn| pay_to(id)(txn, &table)), meets_first, "{id} and the first of equal keys");
        assert_eq!(case(&last, &|txn| pay_to(id)(txn, &table)), meets_last, "{id} and the last of equal keys");
    }
    let all = |txn: &Txn<'_>| assert_eq!(ids_of(txn, &table, "same").len(), 4);
    assert!(case(&all, &|txn| pay_to(2)(txn, &table)));
    assert!(!case(&all, &|txn| pay_to(9)(txn, &table)));
    // A look-up in an index with equal keys reads the first of them.
    let get = |txn: &Txn<'_>| assert_eq!(txn.get(&table, BY_OWNER, &owner).unwrap().unwrap().get_i32(ID), 0);
    assert!(case(&get, &|txn| pay_to(0)(txn, &table)));
    assert!(!case(&get, &|txn| pay_to(1)(txn, &table)));
    let none = |txn: &Txn<'_>| drop(txn.range(&table, BY_OWNER, &owner, Direction::Forward).unwrap());
    assert!(!case(&none, &|txn| pay_to(0)(txn, &table)));
    let forgotten = |txn: &Txn<'_>| {
        std::mem::forget(txn.range(&table, BY_OWNER, &owner, Direction::Forward).unwrap());
    };
    assert!(case(&forgotten, &|txn| pay_to(0)(txn, &table)));
}

/// Scans are read as their conditions say, nulls included, before and after a change.
pub fn scans_are_read_by_their_conditions() {
    let rich = || vec![Condition::compare(BALANCE, Comparison::Greater, Value::Decimal(50))];
    let nobody = || vec![Condition::is_null(OWNER)];
    let ann = || vec![Condition::compare(OWNER, Comparison::Equal, Value::Text("ann")), rich().remove(0)];
    let not_ann = || vec![Condition::compare(OWNER, Comparison::NotEqual, Value::Text("ann"))];
    // Conditions; balance and owner before and after the other's change; whether that meets them.
    type State = Option<(i64, Option<&'static str>)>;
    let cases: [(Vec<Condition>, State, State, bool); 14] = [
        (vec![], None, Some((0, None)), true),
        (rich(), Some((10, None)), Some((20, None)), false),
        (rich(), Some((10, None)), Some((51, None)), true),
        (rich(), Some((51, None)), Some((10, None)), true),
        (rich(), Some((51, None)), None, true),
        (rich(), Some((50, None)), None, false),
        (nobody(), Some((0, Some("ann"))), Some((0, Some("bob"))), false),
        (nobody(), Some((0, Some("ann"))), Some((0, None)), true),
        (nobody(), None, Some((0, None)), true),
        (ann(), None, Some((60, Some("bob"))), false),
        (ann(), None, Some((40, Some("ann"))), false),
        (ann(), None, Some((60, Some("ann"))), true),
        (not_ann(), None, Some((60, None)), false),
        (not_ann(), Some((60, Some("bob"))), None, true),
    ];
    for (conditions, before, after, meets) in cases {
        let (engine, table) = bank();
        let values = |state: (i64, Option<&'static str>)| {
            [Value::Int32(1), Value::Decimal(i128::from(state.0)), state.1.map_or(Value::Null, Value::Text)]
        };
        let setup = engine.begin(NORMAL);
        if let Some(state) = before {
            setup.insert(&table, &values(state)).unwrap();
        }
        setup.commit().unwrap();
        let (reader, writer) = (serial(&engine), serial(&engine));
        let mut found = 0;
        reader.scan(&table, &conditions, |row: Row<'_>| found += row.get_i32(ID)).unwrap();
        open(&reader, &table, 2, 0, "makes it a writer").unwrap();
        assert_eq!(balance(&writer, &table, 2), None);
        match (before, after) {
            (None, Some(state)) => drop(writer.insert(&table, &values(state)).unwrap()),
            (_, Some((balance, owner))) => {
                let row = row_of(&writer, &table, 1).unwrap();
                let owner = owner.map_or(Value::Null, Value::Text);
                writer
                    .update(&table, row, |row| {
                        row.set_decimal_i64(BALANCE, balance);
                        row.set(OWNER, owner);
                    })
                    .unwrap();
            }
            (_, None) => writer.delete(&table, row_of(&writer, &table, 1).unwrap()).unwrap(),
        }
        assert_eq!(second_is_refused(writer, reader), meets, "{conditions:?}: {before:?} to {after:?}, found {found}");
    }
    let (engine, table) = bank_of(1);
    let misfits = [
        Condition::compare(BALANCE, Comparison::Less, Value::Int32(1)),
        Condition::compare(9, Comparison::Less, Value::Int32(1)),
    ];
    for misfit in misfits {
        let result = engine.begin(NORMAL).scan(&table, &[misfit], |_| ());
        assert!(matches!(result, Err(Error::InvalidValue { .. })));
    }
}

/// A scan by a transaction sees its snapshot and its own changes, and goes on while it writes.
pub fn a_scan_sees_own_changes() {
    let (engine, table) = bank_of(4);
    let txn = serial(&engine);
    txn.delete(&table, row_of(&txn, &table, 0).unwrap()).unwrap();
    pay(&txn, &table, 1, 1).unwrap();
    open(&txn, &table, 7, 200, "own").unwrap();
    let mut seen = Vec::new();
    txn.scan(&table, &[], |row| {
        seen.push((row.get_i32(ID), row.get_decimal_i64(BALANCE)));
        pay(&txn, &table, row.get_i32(ID), 1).unwrap();
    })
    .unwrap();
    assert_eq!(seen, [(1, 101), (2, 100), (3, 100), (7, 200)]);
    txn.commit().unwrap();
    assert_eq!(balance_now(&engine, &table, 7), Some(201));
}

/// Fekete's anomaly: X and Y are 0. One deposits 20 to Y; another, which has seen neither, withdraws 10 from X and pays a
/// fee because X + Y would be below zero; a third only reads, and sees the deposit but no withdrawal. No serial order
/// gives all three.
pub fn the_read_only_anomaly_is_prevented() {
    let serializable = NORMAL.isolation(Isolation::Serializable);
    let anomaly = |begin: Begin, end: &dyn Fn(Txn<'_>), ends_late: bool| {
        let (engine, table) = bank();
        let txn = engine.begin(NORMAL);
        open(&txn, &table, 0, 0, "x").unwrap();
        open(&txn, &table, 1, 0, "y").unwrap();
        txn.commit().unwrap();
        let withdrawal = serial(&engine);
        let sum = balance(&withdrawal, &table, 0).unwrap() + balance(&withdrawal, &table, 1).unwrap();
        let deposit = serial(&engine);
        pay(&deposit, &table, 1, 20).unwrap();
        assert!(!refused(deposit));
        let only_reads = engine.begin(begin);
        assert_eq!((balance(&only_reads, &table, 0), balance(&only_reads, &table, 1)), (Some(0), Some(20)));
        let mut only_reads = Some(only_reads);
        if !ends_late {
            only_reads.take().map(end);
        }
        pay(&withdrawal, &table, 0, if sum < 10 { -11 } else { -10 }).unwrap();
        let is_refused = refused(withdrawal);
        only_reads.take().map(end);
        (is_refused, engine.stats().refused_by_readers)
    };
    let commit = |txn: Txn<'_>| assert!(!refused(txn), "the reader was refused");
    for begin in [serializable, serializable.read_only(), serializable.read_only().deferrable()] {
        assert_eq!(anomaly(begin, &commit, false), (true, 0));
        // Who rolls back does not count.
        assert_eq!(anomaly(begin, &|txn| txn.abort(), false), (false, 0));
    }
    // One that is declared and open counts as reading everything; one that is not declared may be refused itself.
    assert_eq!(anomaly(serializable.read_only(), &commit, true), (true, 1));
    assert_eq!(anomaly(serializable, &|txn| assert!(refused(txn)), true), (false, 0));
    // At other levels it may see what it likes.
    assert_eq!(anomaly(NORMAL, &commit, false), (false, 0));
    assert_eq!(anomaly(NORMAL.read_only(), &commit, true), (false, 0));
}

/// A declared READ ONLY transaction without SERIALIZABLE writers beside it keeps no log, and concerns nobody; nor does it
/// concern a writer that begins after it.
pub fn read_only_transactions_cost_later_writers_nothing() {
    let (engine, table) = bank_of(3);
    let reader = engine.begin(NORMAL.isolation(Isolation::Serializable).read_only());
    assert_eq!(balance(&reader, &table, 0), Some(100));
    let pivot = |engine: &Engine| {
        let txn = serial(engine);
        balance(&txn, &table, 0).unwrap();
        let other = serial(engine);
        pay(&other, &table, 0, 1).unwrap();
        assert!(!refused(other));
        pay(&txn, &table, 1, 1).unwrap();
        refused(txn)
    };
    assert!(!pivot(&engine));
    let beside = serial(&engine);
    let late_reader = engine.begin(NORMAL.isolation(Isolation::Serializable).read_only());
    assert!(!pivot(&engine), "it began after both readers");
    drop(beside);
    assert!(matches!(open(&reader, &table, 5, 0, "x"), Err(Error::ReadOnly)));
    assert!(!refused(reader));
    assert!(!refused(late_reader));
    engine.housekeep(0);
    assert_eq!(engine.stats().serial_entries, 0);
}

/// A report that reads much, is overtaken by writers of what it has read, and writes elsewhere, commits: nobody comes both
/// before and after it.
pub fn a_report_beside_writers_commits() {
    let (engine, table) = bank_of(10);
    let other = create_other(&engine);
    for round in 0..20 {
        let report = serial(&engine);
        let mut sum = 0;
        report.scan(&table, &[], |row| sum += row.get_decimal_i64(BALANCE)).unwrap();
        for id in 0..10 {
            let writer = engine.begin(if id % 2 == 0 { NORMAL } else { NORMAL.isolation(Isolation::Serializable) });
            pay(&writer, &table, id, 1).unwrap();
            assert!(!refused(writer));
        }
        assert_eq!(sum, 1_000 + 10 * round);
        report.insert(&other, &[Value::Int32(round as i32)]).unwrap();
        assert!(!refused(report));
    }
    // Somebody who looks for the report before a writer that it has overlooked has committed, and commits after it, does.
    let (report, second) = (serial(&engine), serial(&engine));
    report.scan(&table, &[], |_| ()).unwrap();
    assert!(second.get(&other, 0, &[Value::Int32(99)]).unwrap().is_none());
    pay(&second, &table, 0, 1).unwrap();
    assert!(!refused(second));
    report.insert(&other, &[Value::Int32(99)]).unwrap();
    assert!(refused(report));
    // Begun again at once, it commits.
    let again = serial(&engine);
    again.scan(&table, &[], |_| ()).unwrap();
    again.insert(&other, &[Value::Int32(99)]).unwrap();
    assert!(!refused(again));
}

/// T1 reads what T2 writes, T2 what T3 writes. T3 commits first; whoever of the other two comes last is refused, and commits
/// when it is begun again at once. (With the planted bug `pivot_committed_unchecked` T1 commits last.)
pub fn the_last_of_a_dangerous_structure_is_refused() {
    for t1_last in [false, true] {
        let (engine, table) = bank_of(4);
        let begin = || [serial(&engine), serial(&engine), serial(&engine)];
        let [t1, t2, t3] = begin();
        balance(&t1, &table, 2).unwrap();
        balance(&t2, &table, 3).unwrap();
        pay(&t1, &table, 1, 1).unwrap();
        pay(&t2, &table, 2, 1).unwrap();
        pay(&t3, &table, 3, 1).unwrap();
        assert!(!refused(t3));
        let (first, last) = if t1_last { (t2, t1) } else { (t1, t2) };
        assert!(!refused(first));
        assert!(refused(last), "t1 last: {t1_last}");
        let again = serial(&engine);
        balance(&again, &table, if t1_last { 2 } else { 3 }).unwrap();
        pay(&again, &table, if t1_last { 1 } else { 2 }, 1).unwrap();
        assert!(!refused(again));
        // Where T3 is not the first to commit, nobody is.
        for order in [[0, 1, 2], [1, 0, 2], [0, 2, 1], [1, 2, 0]] {
            let [t1, t2, t3] = begin();
            balance(&t1, &table, 2).unwrap();
            balance(&t2, &table, 3).unwrap();
            pay(&t1, &table, 1, 1).unwrap();
            pay(&t2, &table, 2, 1).unwrap();
            pay(&t3, &table, 3, 1).unwrap();
            let mut all = [Some(t1), Some(t2), Some(t3)];
            for at in order {
                assert!(!refused(all[at].take().unwrap()), "{order:?}: {at}");
            }
        }
    }
}

/// A key that another has given up, taken by one who does not see that, puts it after the other: T2 reads the balance that
/// T3 changes, T1 sees that and deletes a row, and T2 takes the row's key.
pub fn a_key_that_was_given_up_is_a_dependency() {
    for moves in [false, true] {
        let (engine, table) = bank_of(4);
        let t2 = serial(&engine);
        balance(&t2, &table, 1).unwrap();
        let t3 = serial(&engine);
        pay(&t3, &table, 1, 1).unwrap();
        assert!(!refused(t3));
        let t1 = serial(&engine);
        assert_eq!(balance(&t1, &table, 1), Some(101));
        let row = row_of(&t1, &table, 3).unwrap();
        if moves {
            t1.update(&table, row, |row| row.set_i32(ID, 30)).unwrap();
        } else {
            t1.delete(&table, row).unwrap();
        }
        assert!(!refused(t1));
        open(&t2, &table, 3, 0, "t2").unwrap();
        assert!(refused(t2));
    }
}

/// Goal: a read of the newest rows, beyond the snapshot, may have come before or after a write that meets it, if that
/// was committed by then.
pub fn reads_beyond_the_snapshot_are_dependencies() {
    let (engine, table) = bank_of(4);
    let case = |reads_first: bool| {
        let (late, other) = (serial(&engine), serial(&engine));
        let look = || late.each_newest(&table, Some((BY_OWNER, &[Value::Text("nobody")])), &mut |_| true).unwrap();
        if reads_first {
            look();
        }
        pay(&other, &table, 2, 1).unwrap();
        assert!(!refused(other));
        if !reads_first {
            look();
        }
        pay(&late, &table, 3, 1).unwrap();
        refused(late)
    };
    assert!(!case(true));
    assert!(case(false));
    // A row that the snapshot still has, and that is gone, is a conflict.
    let (late, other) = (serial(&engine), serial(&engine));
    balance(&late, &table, 0).unwrap();
    other.delete(&table, row_of(&other, &table, 2).unwrap()).unwrap();
    assert!(!refused(other));
    assert!(matches!(late.newest(&table, BY_ID, &[Value::Int32(2)]), Err(Error::WriteConflict { .. })));
}

/// Two read one balance and add to it: the second to write is refused at once.
pub fn a_lost_update_is_refused() {
    let (engine, table) = bank_of(1);
    let (one, two) = (serial(&engine), serial(&engine));
    pay(&one, &table, 0, 1).unwrap();
    assert_eq!(balance(&two, &table, 0), Some(100));
    one.commit().unwrap();
    assert!(matches!(pay(&two, &table, 0, 1), Err(Error::WriteConflict { .. })));
    drop(two);
    assert_eq!(balance_now(&engine, &table, 0), Some(101));
}

/// A key that was taken after the snapshot is a violation, unless the two have both read that it was free: then it is a
/// failure to serialize, as in PostgreSQL (`read-write-unique`, `read-write-unique-4`).
pub fn a_key_that_both_looked_for_is_no_violation() {
    for (first_looks, second_looks) in [(false, false), (true, false), (false, true), (true, true)] {
        let (engine, table) = bank_of(2);
        let (first, second) = (serial(&engine), serial(&engine));
        for (txn, looks) in [(&first, first_looks), (&second, second_looks)] {
            let looked = txn.get(&table, BY_ID, &[Value::Int32(if looks { 5 } else { 0 })]).unwrap();
            assert_eq!(looked.is_some(), !looks);
        }
        open(&first, &table, 5, 0, "first").unwrap();
        first.commit().unwrap();
        let error = open(&second, &table, 5, 0, "second").unwrap_err();
        match first_looks && second_looks {
            true => assert_eq!(error, Error::SerializationFailure),
            false => assert!(matches!(error, Error::UniqueViolation { .. }), "{error}"),
        }
        // Whatever it does now does not fit its snapshot.
        pay(&second, &table, 1, 1).unwrap();
        assert!(refused(second));
    }
}

/// A violation is a read: when the row goes before the commit, the commit is refused.
pub fn a_unique_violation_is_a_read() {
    let (engine, table) = bank_of(2);
    let late = serial(&engine);
    pay(&late, &table, 1, 1).unwrap();
    engine.run(NORMAL, |txn| open(txn, &table, 5, 0, "first")).0.unwrap();
    assert!(matches!(open(&late, &table, 5, 0, "second"), Err(Error::UniqueViolation { .. })));
    drop(late);
    let many = serial(&engine);
    engine.run(NORMAL, |txn| open(txn, &table, 6, 0, "first")).0.unwrap();
    let rows = [5, 6].map(|id| [Value::Int32(id + 1), Value::Decimal(0), Value::Null]);
    assert!(matches!(many.insert_many(&table, &rows), Err(Error::UniqueViolation { .. })));
    drop(many);
    let found = serial(&engine);
    assert!(matches!(open(&found, &table, 5, 0, "again"), Err(Error::UniqueViolation { .. })));
    pay(&found, &table, 0, 1).unwrap();
    let deletes = serial(&engine);
    balance(&deletes, &table, 0).unwrap();
    deletes.delete(&table, row_of(&deletes, &table, 5).unwrap()).unwrap();
    assert!(!refused(deletes));
    assert!(refused(found));
    // Its own row is no news.
    let own = serial(&engine);
    open(&own, &table, 7, 0, "own").unwrap();
    assert!(matches!(open(&own, &table, 7, 0, "own"), Err(Error::UniqueViolation { .. })));
    pay(&own, &table, 1, 1).unwrap();
    assert!(!refused(own));
}

/// Writers on different rows both commit, though they use one table, one index and neighbouring keys.
pub fn disjoint_writers_both_commit() {
    let (engine, table) = bank_of(10);
    let (one, two) = (serial(&engine), serial(&engine));
    for (txn, first) in [(&one, 0), (&two, 5)] {
        for id in first..first + 5 {
            pay(txn, &table, id, 1).unwrap();
        }
        let bounds = [Value::Int32(first), Value::Int32(first + 5)];
        let (lower, upper) = (Bound::Included(&bounds[..1]), Bound::Excluded(&bounds[1..]));
        assert_eq!(txn.range_between(&table, BY_ID, lower, upper, Direction::Forward).unwrap().count(), 5);
        assert_eq!(balance(txn, &table, 100 + first), None);
        open(txn, &table, 200 + first, 0, "new").unwrap();
        let own = [Condition::compare(ID, Comparison::Equal, Value::Int32(200 + first))];
        txn.scan(&table, &own, |row| assert_eq!(row.get_i32(ID), 200 + first)).unwrap();
    }
    assert!(!second_is_refused(one, two));
    // A row that the other made and removed again was never there.
    let (one, two) = (serial(&engine), serial(&engine));
    assert_eq!(balance(&one, &table, 300), None);
    open(&one, &table, 301, 0, "stays").unwrap();
    let row = open(&two, &table, 300, 0, "passes").unwrap();
    two.delete(&table, row).unwrap();
    pay(&two, &table, 3, 1).unwrap();
    assert!(!second_is_refused(two, one));
    assert_eq!(engine.stats().serialization_failures, 0);
}

/// A read-only transaction refuses writes, reads on, and commits.
pub fn a_read_only_transaction_refuses_writes() {
    let (engine, table) = bank_of(2);
    for isolation in [Isolation::ReadCommitted, Isolation::RepeatableRead, Isolation::Serializable] {
        let txn = engine.begin(NORMAL.isolation(isolation).read_only().deferrable());
        assert_eq!(pay(&txn, &table, 0, 1), Err(Error::ReadOnly));
        assert_eq!(open(&txn, &table, 7, 1, "me"), Err(Error::ReadOnly));
        assert_eq!(balance(&txn, &table, 0), Some(100));
        txn.commit().unwrap();
    }
}

/// Goal: an update's effect on a row, and that a key was free, was read, though nothing of it is left at the commit.
pub fn what_was_undone_was_read() {
    let (engine, table) = bank_of(3);
    let [row_0, row_1, row_2] = [0, 1, 2].map(|id| row_of(&engine.begin(NORMAL), &table, id).unwrap());
    let skew = |reads: &dyn Fn(&Txn<'_>)| {
        let (one, two) = (serial(&engine), serial(&engine));
        reads(&one);
        pay(&two, &table, 2, 1).unwrap();
        one.update(&table, row_1, |row| row.set_decimal_i64(BALANCE, 1)).unwrap();
        two.get_row(&table, row_1).unwrap().unwrap();
        second_is_refused(two, one)
    };
    assert!(skew(&|txn| assert!(!txn.update_if(&table, row_2, |row| row.get_decimal_i64(BALANCE) < 0).unwrap())));
    assert!(skew(&|txn| assert!(!txn.delete_if(&table, row_2, |row| row.get_decimal_i64(BALANCE) < 0).unwrap())));
    // In a session, by a savepoint.
    let level = NORMAL.isolation(Isolation::Serializable);
    let mut session = crate::sessions::session(&engine);
    let mut undone = |statement: &dyn Fn(&Txn<'_>) -> Result<()>, other: &dyn Fn(&Txn<'_>) -> Result<()>| {
        session.begin(level).unwrap();
        let savepoint = session.savepoint().unwrap();
        crate::sessions::done(&mut session, statement);
        session.rollback_to(&savepoint).unwrap();
        crate::sessions::done(&mut session, |txn| txn.update(&table, row_1, |row| row.set_decimal_i64(BALANCE, 2)));
        let two = serial(&engine);
        other(&two).unwrap();
        two.get_row(&table, row_1).unwrap().unwrap();
        assert!(!refused(two));
        session.commit().err()
    };
    let write = |txn: &Txn<'_>| txn.update(&table, row_2, |row| row.set_decimal_i64(BALANCE, 3));
    let rename = |txn: &Txn<'_>| txn.update(&table, row_2, |row| row.set_i32(ID, 30));
    assert_eq!(undone(&write, &write), Some(Error::SerializationFailure));
    assert_eq!(undone(&rename, &|txn| open(txn, &table, 30, 0, "new").map(|_| ())), Some(Error::SerializationFailure));
    let insert = |txn: &Txn<'_>| open(txn, &table, 40, 0, "new").map(|_| ());
    assert_eq!(undone(&insert, &insert), Some(Error::SerializationFailure));
    // Others are not in its way.
    assert_eq!(undone(&write, &|txn| txn.update(&table, row_0, |row| row.set_decimal_i64(BALANCE, 3))), None);
    assert_eq!(
        undone(&|txn| open(txn, &table, 50, 0, "new").map(|_| ()), &|txn| open(txn, &table, 51, 0, "new").map(|_| ())),
        None
    );
}

/// A transaction that had a key for a while and leaves nothing knows that the key was free: whoever gave it up beyond its
/// snapshot comes before it. (With the planted bug `passing_key_unchecked` it commits.) The same goes for what it has looked
/// for among the newest rows. A statement that failed is only an error to it.
pub fn a_key_that_was_had_for_a_while_is_a_dependency() {
    let (engine, table) = bank_of(4);
    let row_3 = row_of(&engine.begin(NORMAL), &table, 3).unwrap();
    let five = std::cell::Cell::new(None);
    // Gives up the key 3 and takes 5, or the other way round.
    let other = |back: bool| {
        let other = serial(&engine);
        other.update(&table, row_3, |row| row.set_i32(ID, if back { 3 } else { 30 })).unwrap();
        match five.take() {
            Some(row) => other.delete(&table, row).unwrap(),
            None => five.set(Some(open(&other, &table, 5, 0, "five").unwrap())),
        }
        pay(&other, &table, 1, 1).unwrap();
        assert!(!refused(other));
    };
    type Statement<'a> = &'a dyn Fn(&Txn<'_>) -> Result<()>;
    let insert = |txn: &Txn<'_>, id: i32| open(txn, &table, id, 0, "late").map(|_| ());
    let rename = |txn: &Txn<'_>, from: i32, to: i32| {
        txn.update(&table, row_of(txn, &table, from).unwrap(), |row| row.set_i32(ID, to))
    };
    let alone = |statement: Statement<'_>| {
        let late = serial(&engine);
        balance(&late, &table, 2).unwrap();
        other(false);
        statement(&late).unwrap();
        balance(&late, &table, 1).unwrap();
        let is_refused = refused(late);
        other(true);
        is_refused
    };
    let newest =
        |txn: &Txn<'_>, id: i32| txn.newest(&table, BY_ID, &[Value::Int32(id)]).map(|row| row.unwrap().row_id());
    assert!(alone(&|txn| {
        insert(txn, 3)?;
        txn.delete(&table, newest(txn, 3)?)
    }));
    assert!(alone(&|txn| {
        let row = open(txn, &table, 3, 0, "late")?;
        txn.update(&table, row, |row| row.set_i32(ID, 40))?;
        txn.delete(&table, row)
    }));
    assert!(!alone(&|txn| {
        insert(txn, 40)?;
        txn.delete(&table, newest(txn, 40)?)
    }));
    let violates = |result: Result<()>| assert!(matches!(result, Err(Error::UniqueViolation { .. })));
    assert!(!alone(&|txn| {
        violates(insert(txn, 5));
        violates(rename(txn, 0, 5));
        let rows = [40, 5].map(|id| [Value::Int32(id), Value::Decimal(0), Value::Null]);
        violates(txn.insert_many(&table, &rows));
        Ok(())
    }));

    let mut session = crate::sessions::session(&engine);
    let mut undone = |statement: Statement<'_>| {
        session.begin(NORMAL.isolation(Isolation::Serializable)).unwrap();
        session.execute(|txn| Ok(balance(txn, &table, 2))).unwrap();
        let savepoint = session.savepoint().unwrap();
        other(false);
        let result = session.execute(statement);
        session.rollback_to(&savepoint).unwrap();
        let is_refused = session.execute(|txn| Ok(balance(txn, &table, 1))).is_err() || session.commit().is_err();
        session.rollback();
        other(true);
        (result.is_ok(), is_refused)
    };
    assert_eq!(undone(&|txn| insert(txn, 3)), (true, true));
    assert_eq!(undone(&|txn| rename(txn, 0, 3)), (true, true));
    assert_eq!(undone(&|txn| insert(txn, 40)), (true, false));
    assert_eq!(undone(&|txn| pay(txn, &table, 0, 1)), (true, false));
    assert_eq!(undone(&|txn| insert(txn, 5)), (false, false));
    assert_eq!(undone(&|txn| insert(txn, 3).and_then(|()| insert(txn, 5))), (false, false));

    for (owner, looks_late, meets) in [("five", true, true), ("five", false, false), ("six", true, false)] {
        let late = serial(&engine);
        let look = || late.each_newest(&table, Some((BY_OWNER, &[Value::Text(owner)])), &mut |_| true).unwrap();
        if !looks_late {
            look();
        }
        other(false);
        if looks_late {
            look();
        }
        balance(&late, &table, 1).unwrap();
        assert_eq!(refused(late), meets, "{owner}, late: {looks_late}");
        other(true);
    }
}
