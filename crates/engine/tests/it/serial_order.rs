//! Random SERIALIZABLE transactions, many open at once, and others between them. Whatever they did, running the committed
//! ones again on a plain map, one after the other in the order of their timestamps, reads what they have read.

use crate::support::*;
use engine::{
    Column, Comparison, Condition, Direction, Engine, EngineConfig, Error, IndexDef, Isolation, Log, LogPosition,
    RedoWhat, Result, Row, RowId, Table, TableDef, Txn, Type, Value,
};
use std::collections::BTreeMap;
use std::ops::Bound;
use std::sync::{Arc, Mutex};

const IDS: u64 = 16;
const OWNERS: [Option<&str>; 4] = [None, Some("ann"), Some("bob"), Some("eve")];
const BALANCES: u64 = 5;
const OPEN: usize = 5;

/// Keeps the timestamps of commits, by the row that each inserts into the journal.
#[derive(Default)]
struct Records(Mutex<Vec<Vec<u8>>>);

impl Log for Records {
    fn append(&self, record: &[u8]) -> LogPosition {
        self.0.lock().unwrap().push(record.to_vec());
        self.end()
    }

    fn end(&self) -> LogPosition {
        LogPosition::default()
    }

    fn reached(&self, _position: LogPosition) -> bool {
        true
    }
}

/// A row: id, balance, owner.
type Content = (i32, i64, Option<&'static str>);

/// One thing that a transaction did, and what it saw of the rows by that.
enum Act {
    Get {
        id: i32,
        found: Option<(u64, Content)>,
    },
    Owner {
        owner: Option<&'static str>,
        direction: Direction,
        limit: usize,
        found: Vec<(u64, Content)>,
    },
    Range {
        from: i32,
        to: i32,
        direction: Direction,
        limit: usize,
        found: Vec<(u64, Content)>,
    },
    Scan {
        above: i64,
        owner: Option<Option<&'static str>>,
        found: Vec<(u64, Content)>,
    },
    /// A key was refused because it is there.
    IsThere {
        id: i32,
    },
    Write {
        row: u64,
        after: Option<Content>,
    },
}

/// A committed transaction.
struct Done {
    /// Its row in the journal, or the snapshot that it read.
    when: std::result::Result<i32, u64>,
    acts: Vec<Act>,
}

fn content(row: &Row<'_>) -> (u64, Content) {
    let owner = match row.get(OWNER) {
        Value::Text(text) => OWNERS.into_iter().flatten().find(|owner| *owner == text),
        _ => None,
    };
    (row.row_id().0, (row.get_i32(ID), row.get_decimal_i64(BALANCE), owner))
}

fn owner_value(owner: Option<&str>) -> Value<'_> {
    owner.map_or(Value::Null, Value::Text)
}

/// A transaction under way.
struct Open<'e> {
    txn: Txn<'e>,
    journal_row: Option<i32>,
    /// Whether what it reads must fit.
    is_serial: bool,
    acts: Vec<Act>,
}

struct World {
    engine: Engine,
    accounts: Arc<Table>,
    journal: Arc<Table>,
}

impl World {
    /// Does something at random. An error that is not expected of such a transaction is a panic.
    fn act(&self, open: &mut Open<'_>, random: &mut Random) -> Result<()> {
        let Open { txn, acts, is_serial, .. } = open;
        let table = &*self.accounts;
        let id = random.below(IDS) as i32;
        let (balance, owner) = (random.below(BALANCES) as i64, OWNERS[random.below(4) as usize]);
        let direction = if random.below(2) == 0 { Direction::Forward } else { Direction::Backward };
        let limit = if random.below(2) == 0 { usize::MAX } else { random.below(3) as usize };
        match random.below(9) {
            0 => {
                let found = txn.get(table, BY_ID, &[Value::Int32(id)])?.map(|row| content(&row));
                acts.push(Act::Get { id, found });
            }
            1 => {
                let mut rows = Vec::new();
                txn.get_many(table, BY_ID, &[[Value::Int32(id)], [Value::Int32(id + 1)]], &mut rows)?;
                for (id, row) in (id..).zip(rows) {
                    acts.push(Act::Get { id, found: row.map(|row| content(&row)) });
                }
            }
            2 => {
                let found = txn.range(table, BY_OWNER, &[owner_value(owner)], direction)?;
                let found = found.take(limit).map(|row| content(&row)).collect();
                acts.push(Act::Owner { owner, direction, limit, found });
            }
            3 => {
                let (from, to) = (id, id + random.below(6) as i32);
                let bounds = [Value::Int32(from), Value::Int32(to)];
                let (lower, upper) = (Bound::Included(&bounds[..1]), Bound::Excluded(&bounds[1..]));
                let found = txn.range_between(table, BY_ID, lower, upper, direction)?;
                let found = found.take(limit).map(|row| content(&row)).collect();
                acts.push(Act::Range { from, to, direction, limit, found });
            }
            4 => {
                let mut conditions =
                    vec![Condition::compare(BALANCE, Comparison::Greater, Value::Decimal(balance.into()))];
                let asked = (random.below(2) == 0).then_some(owner);
                conditions.extend(asked.map(|owner| match owner {
                    None => Condition::is_null(OWNER),
                    Some(owner) => Condition::compare(OWNER, Comparison::Equal, Value::Text(owner)),
                }));
                let mut found = Vec::new();
                txn.scan(table, &conditions, |row| found.push(content(&row)))?;
                acts.push(Act::Scan { above: balance, owner: asked, found });
            }
            5 => match txn.insert(table, &[Value::Int32(id), Value::Decimal(balance.into()), owner_value(owner)]) {
                Ok(RowId(row)) => acts.push(Act::Write { row, after: Some((id, balance, owner)) }),
                Err(Error::UniqueViolation { .. }) => acts.push(Act::IsThere { id }),
                Err(error) => return Err(error),
            },
            6 | 7 => {
                let Some(found) = txn.get(table, BY_ID, &[Value::Int32(id)])?.map(|row| content(&row)) else {
                    acts.push(Act::Get { id, found: None });
                    return Ok(());
                };
                acts.push(Act::Get { id, found: Some(found) });
                let to = if random.below(3) == 0 { random.below(IDS) as i32 } else { id };
                let updated = txn.update(table, RowId(found.0), |row| {
                    row.set_i32(ID, to);
                    row.set_decimal_i64(BALANCE, balance);
                    row.set(OWNER, owner_value(owner));
                });
                match updated {
                    Err(Error::NoSuchRow { .. }) if !*is_serial => {}
                    Ok(()) => acts.push(Act::Write { row: found.0, after: Some((to, balance, owner)) }),
                    Err(Error::UniqueViolation { .. }) => acts.push(Act::IsThere { id: to }),
                    Err(error) => return Err(error),
                }
            }
            _ => {
                let Some(found) = txn.get(table, BY_ID, &[Value::Int32(id)])?.map(|row| content(&row)) else {
                    acts.push(Act::Get { id, found: None });
                    return Ok(());
                };
                acts.push(Act::Get { id, found: Some(found) });
                match txn.delete(table, RowId(found.0)) {
                    Err(Error::NoSuchRow { .. }) if !*is_serial => {}
                    Ok(()) => acts.push(Act::Write { row: found.0, after: None }),
                    Err(error) => return Err(error),
                }
            }
        }
        Ok(())
    }

    fn open(&self, random: &mut Random, journal_row: i32) -> Result<Open<'_>> {
        let (isolation, is_serial) = match random.below(5) {
            0 => (Isolation::ReadCommitted, false),
            1 => (Isolation::RepeatableRead, false),
            _ => (Isolation::Serializable, true),
        };
        let txn = self.engine.begin(NORMAL.isolation(isolation));
        // Those that write nothing else either are read-only.
        let journal_row = (random.below(8) != 0).then_some(journal_row);
        if let Some(row) = journal_row {
            txn.insert(&self.journal, &[Value::Int32(row)])?;
        }
        Ok(Open { txn, journal_row, is_serial, acts: Vec::new() })
    }

    /// Transactions of one thread, `OPEN` of them at a time. Returns those that committed, and how many were refused.
    fn work(&self, seed: i32, count: i32) -> (Vec<Done>, u64) {
        let mut random = Random(seed as u64);
        let mut done = Vec::new();
        let mut refused = 0;
        let mut open: Vec<Open<'_>> = Vec::new();
        let mut next = 0;
        while next < count || !open.is_empty() {
            if open.len() < OPEN && next < count {
                if next % 64 == 0 {
                    self.engine.collect_garbage(usize::MAX);
                }
                open.push(self.open(&mut random, seed * count + next).unwrap());
                next += 1;
                continue;
            }
            let at = random.below(open.len() as u64) as usize;
            if random.below(5) != 0 {
                match self.act(&mut open[at], &mut random) {
                    Ok(()) => continue,
                    Err(error) => assert!(error.is_retryable(), "{error}"),
                }
                open.swap_remove(at);
                continue;
            }
            let Open { txn, journal_row, is_serial, mut acts } = open.swap_remove(at);
            let snapshot = txn.snapshot_number();
            if journal_row.is_none() && acts.iter().any(|act| matches!(act, Act::Write { .. })) {
                continue; // Nothing would tell when it was.
            }
            match txn.commit() {
                Ok(_) => {
                    if !is_serial {
                        acts.retain(|act| matches!(act, Act::Write { .. }));
                    }
                    done.push(Done { when: journal_row.ok_or(snapshot), acts });
                }
                Err(error) => {
                    assert_eq!(error, Error::SerializationFailure);
                    assert!(is_serial);
                    refused += 1;
                }
            }
        }
        (done, refused)
    }
}

/// The rows as they are after some of the transactions.
#[derive(Default)]
struct Rows(BTreeMap<u64, Content>);

impl Rows {
    fn sorted<K: Ord>(
        &self,
        keep: impl Fn(&Content) -> bool,
        key: impl Fn(&Content) -> K,
        direction: Direction,
        limit: usize,
    ) -> Vec<(u64, Content)> {
        let mut rows: Vec<(u64, Content)> =
            self.0.iter().map(|(row, it)| (*row, *it)).filter(|(_, it)| keep(it)).collect();
        rows.sort_by_key(|(row, it)| (key(it), *row));
        if direction == Direction::Backward {
            rows.reverse();
        }
        rows.truncate(limit);
        rows
    }

    fn run_again(&mut self, act: &Act) {
        use Direction::Forward;
        match act {
            Act::Get { id, found } => {
                assert_eq!(self.sorted(|it| it.0 == *id, |_| (), Forward, 1).first(), found.as_ref(), "{id}");
            }
            Act::Owner { owner, direction, limit, found } => {
                assert_eq!(self.sorted(|it| it.2 == *owner, |_| (), *direction, *limit), *found, "{owner:?} {limit}");
            }
            Act::Range { from, to, direction, limit, found } => {
                let rows = self.sorted(|it| (*from..*to).contains(&it.0), |it| it.0, *direction, *limit);
                assert_eq!(rows, *found, "{from}..{to} {limit}");
            }
            Act::Scan { above, owner, found } => {
                let keep = |it: &Content| *above < it.1 && owner.is_none_or(|owner| owner == it.2);
                assert_eq!(self.sorted(keep, |_| (), Forward, usize::MAX), *found, "{above} {owner:?}");
            }
            Act::IsThere { id } => assert!(self.0.values().any(|it| it.0 == *id), "{id} is not there"),
            Act::Write { row, after: Some(after) } => {
                assert!(self.0.iter().all(|(other, it)| other == row || it.0 != after.0), "{} is there", after.0);
                self.0.insert(*row, *after);
            }
            Act::Write { row, after: None } => {
                assert!(self.0.remove(row).is_some());
            }
        }
    }
}

pub fn the_order_of_commits_is_a_serial_order() {
    const EACH: i32 = 6_000;
    let records = Arc::new(Records::default());
    let engine = Engine::new(EngineConfig { log: records.clone(), ..EngineConfig::in_memory() });
    let accounts = create_accounts(&engine);
    let def = TableDef {
        name: "journal".to_owned(),
        columns: vec![Column::required("id", Type::Int32)],
        indexes: vec![IndexDef::unique("journal_pkey", &[0])],
    };
    let journal = engine.create_table(def).unwrap();
    let world = World { engine, accounts, journal };
    let ((mut done, refused), other) = std::thread::scope(|scope| {
        let other = scope.spawn(|| world.work(1, EACH));
        (world.work(2, EACH), other.join().unwrap())
    });
    done.extend(other.0);
    let refused = refused + other.1;
    println!("{} committed, {refused} refused at the commit; {:?}", done.len(), world.engine.stats());
    assert!(EACH as usize / 4 < done.len() && 100 < refused);

    let records = records.0.lock().unwrap();
    let journal_of = |record: &Vec<u8>| {
        let (timestamp, changes) = world.engine.decode_redo(record).unwrap();
        let row = changes.iter().find(|change| change.table == 1).map(|change| match &change.what {
            RedoWhat::Insert(values) => match values[0] {
                Value::Int32(row) => row,
                _ => panic!("the journal has one column"),
            },
            _ => panic!("the journal is only added to"),
        });
        (row.unwrap(), timestamp)
    };
    let timestamps: BTreeMap<i32, u64> = records.iter().map(journal_of).collect();
    // Who has only read a snapshot stands behind the commits that it sees.
    done.sort_by_key(|done| match done.when {
        Ok(journal_row) => (timestamps[&journal_row], false),
        Err(snapshot) => (snapshot, true),
    });
    let mut rows = Rows::default();
    done.iter().flat_map(|done| &done.acts).for_each(|act| rows.run_again(act));
    let txn = world.engine.begin(NORMAL);
    let mut left = BTreeMap::new();
    txn.scan(&world.accounts, &[], |row| left.extend([content(&row)])).unwrap();
    assert_eq!(left, rows.0);
}
