//! Random SERIALIZABLE transactions, several open at once, in batches. Whatever they did, there is an order in which the
//! committed ones of a batch, run again on a plain map one after the other, see what they have seen and leave what is left.
//! What a transaction took back to a savepoint it has seen, too.

use crate::support::*;
use engine::{
    Comparison, Condition, Direction, Engine, Error, Isolation, Result, Row, RowId, RowLock, Savepoint, Session, Step,
    Table, Ticket, Txn, Value, Wait,
};
use std::collections::BTreeMap;
use std::ops::Bound;
use std::sync::Arc;

const OWNERS: [Option<&str>; 4] = [None, Some("ann"), Some("bob"), Some("eve")];
const BALANCES: u64 = 5;
const SAVEPOINTS_MAX: usize = 2;

/// A row: id, balance, owner.
type Content = (i32, i64, Option<&'static str>);

/// Parameters of a batch.
#[derive(Debug, Clone, Copy)]
struct Shape {
    ids: u64,
    /// Transactions of a batch. Each has about five statements.
    transactions: usize,
    /// True if they are in sessions: then they wait for each other, and have savepoints.
    in_sessions: bool,
}

/// Step that a transaction is to do.
#[derive(Debug, Clone)]
enum Plan {
    Get {
        id: i32,
    },
    GetTwo {
        id: i32,
    },
    Owner {
        owner: Option<&'static str>,
        direction: Direction,
        limit: usize,
    },
    Range {
        from: i32,
        to: i32,
        direction: Direction,
        limit: usize,
    },
    Scan {
        above: i64,
        owner: Option<Option<&'static str>>,
    },
    Insert {
        row: Content,
    },
    InsertTwo {
        rows: [Content; 2],
    },
    Update {
        id: i32,
        to: Content,
    },
    UpdateIf {
        id: i32,
        balance: i64,
        to: Content,
    },
    Delete {
        id: i32,
    },
    Newest {
        id: i32,
    },
    /// The newest rows with this owner, as those are looked for that refer to a row.
    Referring {
        owner: Option<&'static str>,
    },
    Lock {
        id: i32,
        mode: RowLock,
        wait: Wait,
    },
}

/// Step that a transaction did, and the state of the rows that it saw by that.
#[derive(Debug, Clone)]
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
    /// A key was refused because one of these is there; the transaction itself sees that, or does not.
    IsThere {
        ids: Vec<i32>,
        is_seen: bool,
    },
    Write {
        row: u64,
        after: Option<Content>,
        takes_key: bool,
    },
    Savepoint,
    /// Back to the savepoint of this number.
    BackTo(usize),
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

fn values((id, balance, owner): Content) -> [Value<'static>; 3] {
    [Value::Int32(id), Value::Decimal(balance.into()), owner_value(owner)]
}

impl Plan {
    fn draw(random: &mut Random, shape: Shape, is_declared: bool) -> Plan {
        let id = random.below(shape.ids) as i32;
        let (balance, owner) = (random.below(BALANCES) as i64, OWNERS[random.below(4) as usize]);
        let direction = if random.below(2) == 0 { Direction::Forward } else { Direction::Backward };
        let limit = if random.below(2) == 0 { usize::MAX } else { random.below(3) as usize };
        let to = if random.below(3) == 0 { random.below(shape.ids) as i32 } else { id };
        let all = if shape.in_sessions { 14 } else { 10 };
        match random.below(if is_declared { 5 } else { all }) {
            0 => Plan::Get { id },
            1 => Plan::GetTwo { id },
            2 => Plan::Owner { owner, direction, limit },
            3 => Plan::Range { from: id, to: id + random.below(6) as i32, direction, limit },
            4 => Plan::Scan { above: balance, owner: (random.below(2) == 0).then_some(owner) },
            5 => Plan::Insert { row: (id, balance, owner) },
            6 | 7 => Plan::Update { id, to: (to, balance, owner) },
            8 | 9 => Plan::Delete { id },
            10 => Plan::Newest { id },
            11 => Plan::Referring { owner },
            12 => match random.below(2) {
                0 => Plan::UpdateIf { id, balance: random.below(BALANCES) as i64, to: (to, balance, owner) },
                _ => Plan::InsertTwo { rows: [(id, balance, owner), ((id + 1) % shape.ids as i32, balance, owner)] },
            },
            _ => {
                let modes = [RowLock::KeyShare, RowLock::Share, RowLock::NoKeyUpdate, RowLock::Update];
                let waits = [Wait::Block, Wait::NoWait, Wait::SkipLocked];
                Plan::Lock { id, mode: modes[random.below(4) as usize], wait: waits[random.below(3) as usize] }
            }
        }
    }
}

/// The part of an act that runs: its transaction, its table, and what it has seen so far.
struct Run<'t, 'e> {
    txn: &'t Txn<'e>,
    table: &'t Table,
    /// True if it goes on when a key is refused.
    goes_on: bool,
    acts: &'t mut Vec<Act>,
}

impl Run<'_, '_> {
    fn get(&mut self, id: i32) -> Result<Option<(u64, Content)>> {
        let found = self.txn.get(self.table, BY_ID, &[Value::Int32(id)])?.map(|row| content(&row));
        self.acts.push(Act::Get { id, found });
        Ok(found)
    }

    fn refused(&mut self, error: Error, ids: &[i32]) -> Result<()> {
        if !self.goes_on || !matches!(error, Error::UniqueViolation { .. }) {
            return Err(error);
        }
        let mut is_seen = false;
        for id in ids {
            is_seen |= self.txn.get(self.table, BY_ID, &[Value::Int32(*id)])?.is_some();
        }
        self.acts.push(Act::IsThere { ids: ids.to_vec(), is_seen });
        Ok(())
    }

    fn update(&mut self, id: i32, only_at: Option<i64>, to: Content) -> Result<()> {
        let Some((row, _)) = self.get(id)? else { return Ok(()) };
        let updated = self.txn.update_if(self.table, RowId(row), |row| {
            let is_wanted = only_at.is_none_or(|balance| row.get_decimal_i64(BALANCE) == balance);
            row.set_i32(ID, to.0);
            row.set_decimal_i64(BALANCE, to.1);
            row.set(OWNER, owner_value(to.2));
            is_wanted
        });
        match updated {
            Ok(true) => self.acts.push(Act::Write { row, after: Some(to), takes_key: to.0 != id }),
            Ok(false) => {}
            Err(error) => self.refused(error, &[to.0])?,
        }
        Ok(())
    }

    /// Does it. An error leaves the acts before it.
    fn act(&mut self, plan: &Plan) -> Result<()> {
        let (txn, table) = (self.txn, self.table);
        match *plan {
            Plan::Get { id } => drop(self.get(id)?),
            Plan::GetTwo { id } => {
                let mut rows = Vec::new();
                txn.get_many(table, BY_ID, &[[Value::Int32(id)], [Value::Int32(id + 1)]], &mut rows)?;
                let found = (id..).zip(rows).map(|(id, row)| Act::Get { id, found: row.map(|row| content(&row)) });
                self.acts.extend(found);
            }
            Plan::Owner { owner, direction, limit } => {
                let found = txn.range(table, BY_OWNER, &[owner_value(owner)], direction)?;
                let found = found.take(limit).map(|row| content(&row)).collect();
                self.acts.push(Act::Owner { owner, direction, limit, found });
            }
            Plan::Range { from, to, direction, limit } => {
                let bounds = [Value::Int32(from), Value::Int32(to)];
                let (lower, upper) = (Bound::Included(&bounds[..1]), Bound::Excluded(&bounds[1..]));
                let found = txn.range_between(table, BY_ID, lower, upper, direction)?;
                let found = found.take(limit).map(|row| content(&row)).collect();
                self.acts.push(Act::Range { from, to, direction, limit, found });
            }
            Plan::Scan { above, owner } => {
                let mut conditions =
                    vec![Condition::compare(BALANCE, Comparison::Greater, Value::Decimal(above.into()))];
                conditions.extend(owner.map(|owner| match owner {
                    None => Condition::is_null(OWNER),
                    Some(owner) => Condition::compare(OWNER, Comparison::Equal, Value::Text(owner)),
                }));
                let mut found = Vec::new();
                txn.scan(table, &conditions, |row| found.push(content(&row)))?;
                self.acts.push(Act::Scan { above, owner, found });
            }
            Plan::Insert { row } => match txn.insert(table, &values(row)) {
                Ok(RowId(id)) => self.acts.push(Act::Write { row: id, after: Some(row), takes_key: true }),
                Err(error) => self.refused(error, &[row.0])?,
            },
            Plan::InsertTwo { rows } => match txn.insert_many(table, &rows.map(values)) {
                Ok(()) => {
                    for row in rows {
                        let new = txn.newest(table, BY_ID, &[Value::Int32(row.0)])?.expect("it is ours");
                        self.acts.push(Act::Write { row: new.row_id().0, after: Some(row), takes_key: true });
                    }
                }
                Err(error) => self.refused(error, &rows.map(|row| row.0))?,
            },
            Plan::Update { id, to } => self.update(id, None, to)?,
            Plan::UpdateIf { id, balance, to } => self.update(id, Some(balance), to)?,
            Plan::Delete { id } => {
                if let Some((row, _)) = self.get(id)? {
                    txn.delete(table, RowId(row))?;
                    self.acts.push(Act::Write { row, after: None, takes_key: false });
                }
            }
            Plan::Newest { id } => {
                let found = txn.newest(table, BY_ID, &[Value::Int32(id)])?.map(|row| content(&row));
                self.acts.push(Act::Get { id, found });
            }
            Plan::Referring { owner } => {
                let mut found = Vec::new();
                txn.each_newest(table, Some((BY_OWNER, &[owner_value(owner)])), &mut |row| {
                    found.push(content(row));
                    true
                })?;
                self.acts.push(Act::Owner { owner, direction: Direction::Forward, limit: usize::MAX, found });
            }
            Plan::Lock { id, mode, wait } => {
                if let Some((row, _)) = self.get(id)? {
                    txn.lock_row(table, RowId(row), mode, wait)?;
                }
            }
        }
        Ok(())
    }
}

/// A transaction under way.
enum Way<'e> {
    Alone(Option<Txn<'e>>),
    InSession { session: Session, savepoints: Vec<Savepoint>, has_failed: bool },
}

struct Open<'e> {
    way: Way<'e>,
    is_declared: bool,
    acts: Vec<Act>,
    /// The statement that waits.
    waits: Option<(Vec<Plan>, bool, Ticket)>,
}

/// State of a transaction for now.
enum Now {
    GoesOn,
    Committed,
    /// The commit was refused.
    Refused,
    Gone,
}

impl Open<'_> {
    /// Runs a statement.
    fn run(&mut self, table: &Table, plans: Vec<Plan>, goes_on: bool) -> Now {
        let mut acts = Vec::new();
        let statement = |txn: &Txn<'_>, acts: &mut Vec<Act>| {
            let mut run = Run { txn, table, goes_on, acts };
            plans.iter().try_for_each(|plan| run.act(plan))
        };
        let error = match &mut self.way {
            Way::Alone(txn) => {
                // What was done before the error stays.
                let result = statement(txn.as_ref().expect("it is open"), &mut self.acts);
                let Err(error) = result else { return Now::GoesOn };
                error
            }
            Way::InSession { session, has_failed, .. } => match session.try_execute(|txn| statement(txn, &mut acts)) {
                Ok(Step::Done(())) => {
                    self.acts.append(&mut acts);
                    return Now::GoesOn;
                }
                Ok(Step::Parked(ticket)) => {
                    self.waits = Some((plans, goes_on, ticket));
                    return Now::GoesOn;
                }
                Err(error) => {
                    *has_failed = true;
                    error
                }
            },
        };
        assert!(!self.is_declared, "a READ ONLY transaction: {error}");
        match &self.way {
            Way::Alone(_) => {
                assert!(error.is_retryable(), "{error}");
                Now::Gone
            }
            Way::InSession { savepoints, .. } => {
                let is_known = matches!(error, Error::UniqueViolation { .. } | Error::LockNotAvailable(_));
                assert!(is_known || error.is_retryable(), "{error}");
                if savepoints.is_empty() { Now::Gone } else { Now::GoesOn }
            }
        }
    }

    fn back_to(&mut self, number: usize) -> Now {
        let Way::InSession { session, savepoints, has_failed } = &mut self.way else { return Now::GoesOn };
        if session.rollback_to(&savepoints[number]).is_err() {
            return Now::Gone;
        }
        savepoints.truncate(number + 1);
        *has_failed = false;
        self.acts.push(Act::BackTo(number));
        Now::GoesOn
    }

    fn commit(&mut self) -> Now {
        let result = match &mut self.way {
            Way::Alone(txn) => txn.take().expect("it is open").commit(),
            Way::InSession { session, .. } => session.commit(),
        };
        let Err(error) = result else { return Now::Committed };
        assert_eq!(error, Error::SerializationFailure);
        assert!(!self.is_declared, "a READ ONLY transaction was refused");
        Now::Refused
    }

    /// Runs a statement in place of something else, if there is one.
    fn step(&mut self, table: &Table, random: &mut Random, shape: Shape) -> Now {
        if let Some((plans, goes_on, _)) = self.waits.take_if(|(.., ticket)| ticket.is_ready()) {
            return self.run(table, plans, goes_on);
        }
        if self.waits.is_some() {
            return Now::GoesOn;
        }
        let draw = random.below(6);
        if let Way::InSession { session, savepoints, has_failed } = &mut self.way {
            let last = savepoints.len().wrapping_sub(1);
            if *has_failed {
                return if draw == 0 { Now::Gone } else { self.back_to(last) };
            }
            match (draw, savepoints.len()) {
                (1, count) if count < SAVEPOINTS_MAX => {
                    savepoints.push(session.savepoint().unwrap());
                    self.acts.push(Act::Savepoint);
                    return Now::GoesOn;
                }
                (2, count) if 0 < count => return self.back_to(random.below(count as u64) as usize),
                _ => {}
            }
        }
        if draw == 0 {
            return self.commit();
        }
        let count = if shape.in_sessions { 1 + random.below(2) } else { 1 };
        let plans = (0..count).map(|_| Plan::draw(random, shape, self.is_declared)).collect();
        let goes_on = !shape.in_sessions || random.below(2) == 0;
        self.run(table, plans, goes_on)
    }
}

struct World {
    engine: Engine,
    accounts: Arc<Table>,
    shape: Shape,
}

impl World {
    /// A batch: those that committed, and how many were refused.
    fn batch(&self, random: &mut Random) -> (Vec<Vec<Act>>, u64) {
        let serializable = NORMAL.isolation(Isolation::Serializable);
        let (mut left, mut refused) = (self.shape.transactions, 0);
        let mut open: Vec<Open<'_>> = Vec::new();
        let mut done = Vec::new();
        while 0 < left || !open.is_empty() {
            if 0 < left && (open.is_empty() || random.below(6) == 0) {
                left -= 1;
                let is_declared = random.below(5) == 0;
                let begin = if is_declared { serializable.read_only() } else { serializable };
                let way = if self.shape.in_sessions {
                    let mut session = crate::sessions::session(&self.engine);
                    session.begin(begin).unwrap();
                    Way::InSession { session, savepoints: Vec::new(), has_failed: false }
                } else {
                    Way::Alone(Some(self.engine.begin(begin)))
                };
                open.push(Open { way, is_declared, acts: Vec::new(), waits: None });
                continue;
            }
            let at = random.below(open.len() as u64) as usize;
            match open[at].step(&self.accounts, random, self.shape) {
                Now::GoesOn => continue,
                Now::Committed => done.push(open.swap_remove(at).acts),
                Now::Refused => {
                    open.swap_remove(at);
                    refused += 1;
                }
                Now::Gone => drop(open.swap_remove(at)),
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

/// Tells whether a transaction leaves something, or knows that a key was free. If neither, a refused key is an error to it and
/// no more.
fn is_bound(acts: &[Act]) -> bool {
    let mut savepoints = Vec::new();
    let (mut left, mut took_key) = (0, false);
    for act in acts {
        match act {
            Act::Savepoint => savepoints.push(left),
            Act::BackTo(number) => {
                savepoints.truncate(number + 1);
                left = savepoints[*number];
            }
            Act::Write { takes_key, .. } => {
                left += 1;
                took_key |= takes_key;
            }
            Act::Get { .. } | Act::Owner { .. } | Act::Range { .. } | Act::Scan { .. } | Act::IsThere { .. } => {}
        }
    }
    took_key || left != 0
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

    /// Does it all again. False: it would not have seen, or could not have done, what it has.
    fn run_again(&mut self, acts: &[Act]) -> bool {
        let is_bound = is_bound(acts);
        let mut savepoints = Vec::new();
        acts.iter().all(|act| self.act_again(act, is_bound, &mut savepoints))
    }

    fn act_again(&mut self, act: &Act, is_bound: bool, savepoints: &mut Vec<Rows>) -> bool {
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
            Act::IsThere { ids, is_seen } => !is_bound && !is_seen || self.0.values().any(|it| ids.contains(&it.0)),
            Act::Write { row, after: Some(after), .. } => {
                let is_free = self.0.iter().all(|(other, it)| other == row || it.0 != after.0);
                self.0.insert(*row, *after);
                is_free
            }
            Act::Write { row, after: None, .. } => self.0.remove(row).is_some(),
            Act::Savepoint => {
                savepoints.push(self.clone());
                true
            }
            Act::BackTo(number) => {
                savepoints.truncate(number + 1);
                self.clone_from(&savepoints[*number]);
                true
            }
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
            rows.run_again(others.remove(first)) && rows.has_order_to(end, &others)
        })
    }
}

/// Plays so many batches, and judges each.
fn play(shape: Shape, seed: u64, batches: u64) {
    let (engine, accounts) = bank();
    let world = World { engine, accounts, shape };
    let mut random = Random(seed);
    let (mut committed, mut refused) = (0, 0);
    let mut before = world.rows();
    for batch in 0..batches {
        let (done, more) = world.batch(&mut random);
        let after = world.rows();
        let transactions: Vec<_> = done.iter().collect();
        let has_order = before.has_order_to(&after, &transactions);
        assert!(
            has_order,
            "batch {batch} of {shape:?}, seed {seed}: no order leads from {before:?} to {after:?} by {done:?}"
        );
        (committed, refused, before) = (committed + done.len(), refused + more, after);
        if batch % 64 == 0 {
            world.engine.housekeep(usize::MAX);
        }
    }
    println!("{shape:?}: {committed} committed, {refused} refused at the commit; {:?}", world.engine.stats());
    assert!(batches as usize * shape.transactions / 4 < committed);
    assert!(batches / 40 < refused);
}

const ALONE: [Shape; 2] =
    [Shape { ids: 16, transactions: 6, in_sessions: false }, Shape { ids: 4, transactions: 4, in_sessions: false }];

pub fn committed_transactions_have_a_serial_order() {
    for shape in ALONE {
        play(shape, 23, 100_000);
    }
}

pub fn sessions_have_a_serial_order() {
    for shape in ALONE.map(|shape| Shape { in_sessions: true, ..shape }) {
        play(shape, 23, 50_000);
    }
}
