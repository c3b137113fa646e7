//! Random SERIALIZABLE transactions, several open at once, in batches. Whatever they did, there is an order in which the
//! committed ones of a batch, run again on a plain map one after the other, read what they have read and leave what is left.

use crate::support::*;
use engine::{Comparison, Condition, Direction, Engine, Error, Isolation, Result, Row, RowId, Table, Txn, Value};
use std::collections::BTreeMap;
use std::ops::Bound;
use std::sync::Arc;

const IDS: u64 = 16;
const OWNERS: [Option<&str>; 4] = [None, Some("ann"), Some("bob"), Some("eve")];
const BALANCES: u64 = 5;
/// Transactions of a batch. Each has about five statements.
const BATCH: usize = 6;

/// A row: id, balance, owner.
type Content = (i32, i64, Option<&'static str>);

/// One thing that a transaction did, and what it saw of the rows by that.
#[derive(Debug)]
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
    is_declared: bool,
    acts: Vec<Act>,
}

struct World {
    engine: Engine,
    accounts: Arc<Table>,
}

impl World {
    /// Does something at random. An error that is not expected of such a transaction is a panic.
    fn act(&self, open: &mut Open<'_>, random: &mut Random) -> Result<()> {
        let Open { txn, acts, is_declared } = open;
        let table = &*self.accounts;
        let id = random.below(IDS) as i32;
        let (balance, owner) = (random.below(BALANCES) as i64, OWNERS[random.below(4) as usize]);
        let direction = if random.below(2) == 0 { Direction::Forward } else { Direction::Backward };
        let limit = if random.below(2) == 0 { usize::MAX } else { random.below(3) as usize };
        match random.below(if *is_declared { 5 } else { 9 }) {
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
                // Of one that is not in the snapshot all that it has is an error.
                Err(Error::UniqueViolation { .. }) => {
                    acts.extend(txn.get(table, BY_ID, &[Value::Int32(id)])?.map(|_| Act::IsThere { id }));
                }
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
                    Ok(()) => acts.push(Act::Write { row: found.0, after: Some((to, balance, owner)) }),
                    Err(Error::UniqueViolation { .. }) => {
                        acts.extend(txn.get(table, BY_ID, &[Value::Int32(to)])?.map(|_| Act::IsThere { id: to }));
                    }
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
                    Ok(()) => acts.push(Act::Write { row: found.0, after: None }),
                    Err(error) => return Err(error),
                }
            }
        }
        Ok(())
    }

    /// A batch: those that committed, and how many were refused.
    fn batch(&self, random: &mut Random) -> (Vec<Vec<Act>>, u64) {
        let serializable = NORMAL.isolation(Isolation::Serializable);
        let (mut left, mut refused) = (BATCH, 0);
        let mut open: Vec<Open<'_>> = Vec::new();
        let mut done = Vec::new();
        while 0 < left || !open.is_empty() {
            if 0 < left && (open.is_empty() || random.below(6) == 0) {
                left -= 1;
                let is_declared = random.below(5) == 0;
                let begin = if is_declared { serializable.read_only() } else { serializable };
                open.push(Open { txn: self.engine.begin(begin), is_declared, acts: Vec::new() });
                continue;
            }
            let at = random.below(open.len() as u64) as usize;
            if random.below(6) != 0 {
                if let Err(error) = self.act(&mut open[at], random) {
                    assert!(error.is_retryable() && !open[at].is_declared, "{error}");
                    open.swap_remove(at);
                }
                continue;
            }
            let Open { txn, is_declared, acts } = open.swap_remove(at);
            match txn.commit() {
                Ok(_) => done.push(acts),
                Err(error) => {
                    assert_eq!(error, Error::SerializationFailure);
                    assert!(!is_declared, "a READ ONLY transaction was refused");
                    refused += 1;
                }
            }
        }
        (done, refused)
    }

    fn rows(&self) -> Rows {
        let mut rows = BTreeMap::new();
        self.engine.begin(NORMAL).scan(&self.accounts, &[], |row| rows.extend([content(&row)])).unwrap();
        Rows(rows)
    }
}

/// The rows as they are after some of the transactions.
#[derive(Clone, Debug, PartialEq)]
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

    /// Does it again. False: it would not have seen, or could not have done, what it has.
    fn run_again(&mut self, act: &Act) -> bool {
        use Direction::Forward;
        match act {
            Act::Get { id, found } => self.sorted(|it| it.0 == *id, |_| (), Forward, 1).first() == found.as_ref(),
            Act::Owner { owner, direction, limit, found } => {
                self.sorted(|it| it.2 == *owner, |_| (), *direction, *limit) == *found
            }
            Act::Range { from, to, direction, limit, found } => {
                self.sorted(|it| (*from..*to).contains(&it.0), |it| it.0, *direction, *limit) == *found
            }
            Act::Scan { above, owner, found } => {
                let keep = |it: &Content| *above < it.1 && owner.is_none_or(|owner| owner == it.2);
                self.sorted(keep, |_| (), Forward, usize::MAX) == *found
            }
            Act::IsThere { id } => self.0.values().any(|it| it.0 == *id),
            Act::Write { row, after: Some(after) } => {
                let is_free = self.0.iter().all(|(other, it)| other == row || it.0 != after.0);
                self.0.insert(*row, *after);
                is_free
            }
            Act::Write { row, after: None } => self.0.remove(row).is_some(),
        }
    }

    /// Tells whether some order of these transactions goes from here to `end`.
    fn has_order_to(&self, end: &Rows, transactions: &[&Vec<Act>]) -> bool {
        if transactions.is_empty() {
            return self == end;
        }
        (0..transactions.len()).any(|first| {
            let mut rows = self.clone();
            let mut others = transactions.to_vec();
            others.remove(first).iter().all(|act| rows.run_again(act)) && rows.has_order_to(end, &others)
        })
    }
}

pub fn committed_transactions_have_a_serial_order() {
    const BATCHES: u64 = 4_000;
    let (engine, accounts) = bank();
    let world = World { engine, accounts };
    let mut random = Random(23);
    let (mut committed, mut refused) = (0, 0);
    let mut before = world.rows();
    for batch in 0..BATCHES {
        let (done, more) = world.batch(&mut random);
        let after = world.rows();
        let transactions: Vec<_> = done.iter().collect();
        let has_order = before.has_order_to(&after, &transactions);
        assert!(has_order, "batch {batch}: no order leads from {before:?} to {after:?} by {done:?}");
        (committed, refused, before) = (committed + done.len(), refused + more, after);
        if batch % 64 == 0 {
            world.engine.housekeep(usize::MAX);
        }
    }
    println!("{committed} committed, {refused} refused at the commit; {:?}", world.engine.stats());
    assert!(BATCHES as usize * BATCH / 3 < committed);
    assert!(200 < refused);
}
