//! All small histories of SERIALIZABLE transactions: each reads some rows when it begins, and changes some when it ends. Of
//! each set of transactions all interleavings are played. Those that commit must have a serial order, found by trying all;
//! and one is refused exactly if it completes a dangerous structure, by the definition. Whoever is said to fail before its end
//! is refused then.

use crate::support::*;
use engine::{Begin, Engine, Error, Isolation, RowId, Table, Txn};
use std::sync::Arc;

/// Reads and writes of a transaction: rows, by bits.
#[derive(Debug, Clone, Copy)]
struct Kind {
    reads: usize,
    writes: usize,
    is_declared: bool,
}

/// Course of a transaction.
#[derive(Debug, Clone, Default)]
struct Played {
    /// Time at which it began and ended, if it has.
    began: Option<usize>,
    ended: Option<usize>,
    committed: bool,
    /// True if it was said before its end that it would be refused.
    doomed: bool,
    /// Writers of the rows that it read.
    saw: Vec<i64>,
}

struct Bank {
    engine: Engine,
    table: Arc<Table>,
    rows: Vec<RowId>,
}

impl Bank {
    fn new(rows: usize) -> Bank {
        let (engine, table) = bank_of(rows as i32);
        let rows = (0..rows).map(|id| row_of(&engine.begin(NORMAL), &table, id as i32).unwrap()).collect();
        Bank { engine, table, rows }
    }

    fn set(&self, txn: &Txn<'_>, row: usize, to: i64) -> engine::Result<()> {
        txn.update(&self.table, self.rows[row], |row| row.set_decimal_i64(BALANCE, to))
    }

    fn get(&self, txn: &Txn<'_>, row: usize) -> i64 {
        txn.get_row(&self.table, self.rows[row]).unwrap().unwrap().get_decimal_i64(BALANCE)
    }

    /// Plays one interleaving: the transactions' numbers, each twice. Panics at whatever is wrong.
    fn play(&self, kinds: &[Kind], order: &[usize]) -> Refusals {
        // Nobody wrote the rows.
        let nobody = self.engine.begin(NORMAL);
        (0..self.rows.len()).for_each(|row| self.set(&nobody, row, -1).unwrap());
        nobody.commit().unwrap();
        let serializable = NORMAL.isolation(Isolation::Serializable);
        let mut open: Vec<Option<Txn<'_>>> = kinds.iter().map(|_| None).collect();
        let mut played = vec![Played::default(); kinds.len()];
        let mut refusals = Refusals::default();
        for (now, at) in order.iter().copied().enumerate() {
            for (txn, played) in open.iter().zip(&mut played) {
                played.doomed |= txn.as_ref().is_some_and(|txn| txn.check_serializable().is_err());
            }
            let Kind { reads, writes, is_declared } = kinds[at];
            let Some(txn) = open[at].take() else {
                let begin: Begin = if is_declared { serializable.read_only() } else { serializable };
                let txn = self.engine.begin(begin);
                let saw = bits(reads).map(|row| self.get(&txn, row)).collect();
                played[at] = Played { began: Some(now), saw, ..Played::default() };
                open[at] = Some(txn);
                continue;
            };
            played[at].ended = Some(now);
            if let Err(error) = bits(writes).try_for_each(|row| self.set(&txn, row, at as i64)) {
                assert!(matches!(error, Error::WriteConflict { .. }), "{error}");
                continue;
            }
            let is_dangerous = completes(kinds, &played, at);
            let is_concerned = concerns_reader(kinds, &played, at);
            let looked = txn.check_serializable();
            assert_eq!(looked.is_err(), is_dangerous, "{at} of {kinds:?} in {order:?}, before its commit");
            assert!(is_dangerous || !played[at].doomed, "{at} of {kinds:?} in {order:?}, long before its commit");
            let result = txn.commit();
            let should_be = is_dangerous || is_concerned;
            assert_eq!(result.is_err(), should_be, "{at} of {kinds:?} in {order:?}: {result:?}");
            played[at].committed = result.is_ok();
            refusals += Refusals {
                all: u64::from(should_be),
                by_readers: u64::from(should_be && !is_dangerous),
                early: u64::from(played[at].doomed),
            };
        }
        let end = self.engine.begin(NORMAL);
        let left: Vec<i64> = (0..self.rows.len()).map(|row| self.get(&end, row)).collect();
        let committed: Vec<usize> = (0..kinds.len()).filter(|at| played[*at].committed).collect();
        let start = vec![-1; self.rows.len()];
        assert!(has_order(kinds, &played, &committed, &start, &left), "{kinds:?} in {order:?}: {played:?}");
        refusals
    }
}

/// Number of refused commits: all, those for a reader's sake, and those that were known before the last statement.
#[derive(Debug, Clone, Copy, Default)]
struct Refusals {
    all: u64,
    by_readers: u64,
    early: u64,
}

impl std::ops::AddAssign for Refusals {
    fn add_assign(&mut self, other: Refusals) {
        self.all += other.all;
        self.by_readers += other.by_readers;
        self.early += other.early;
    }
}

fn bits(set: usize) -> impl Iterator<Item = usize> {
    (0..usize::BITS as usize).filter(move |bit| set & (1 << bit) != 0)
}

/// Tells whether the transactions, one after the other in some order, see what they saw and leave what is left.
fn has_order(kinds: &[Kind], played: &[Played], left: &[usize], rows: &[i64], end: &[i64]) -> bool {
    if left.is_empty() {
        return rows == end;
    }
    left.iter().any(|at| {
        if !bits(kinds[*at].reads).map(|row| rows[row]).eq(played[*at].saw.iter().copied()) {
            return false;
        }
        let mut rows = rows.to_vec();
        bits(kinds[*at].writes).for_each(|row| rows[row] = *at as i64);
        let others: Vec<usize> = left.iter().copied().filter(|other| other != at).collect();
        has_order(kinds, played, &others, &rows, end)
    })
}

/// Tells whether `from` has read the state before a write of `to`, which has committed or is about to.
fn rw(kinds: &[Kind], played: &[Played], from: usize, to: usize) -> bool {
    from != to && played[from].began < played[to].ended && kinds[from].reads & kinds[to].writes != 0
}

/// Returns the place of a transaction: one that wrote, at its end.
fn place(kinds: &[Kind], played: &[Played], at: usize) -> Option<usize> {
    if kinds[at].writes == 0 { played[at].began } else { played[at].ended }
}

/// Returns the time at which the first transaction committed that wrote what `t2` had read.
fn first_out(kinds: &[Kind], played: &[Played], t2: usize) -> Option<usize> {
    let is_out = |t3: &usize| played[*t3].committed && rw(kinds, played, t2, *t3);
    (0..kinds.len()).filter(is_out).filter_map(|t3| played[t3].ended).filter(|end| Some(*end) < played[t2].ended).min()
}

/// Tells whether the commit of `at`, which ends now, would complete T1 -rw-> T2 -rw-> T3 of which T3 commits first.
fn completes(kinds: &[Kind], played: &[Played], at: usize) -> bool {
    let counts = |other: usize| other == at || played[other].committed;
    let pairs = (0..kinds.len()).flat_map(|t1| (0..kinds.len()).map(move |t2| (t1, t2)));
    pairs.filter(|(t1, t2)| (*t1 == at || *t2 == at) && counts(*t1) && counts(*t2)).any(|(t1, t2)| {
        let out = first_out(kinds, played, t2);
        rw(kinds, played, t1, t2) && out.is_some() && out <= place(kinds, played, t1)
    })
}

/// Tells whether a declared READ ONLY transaction is open that might yet make `at` the middle of such a structure.
fn concerns_reader(kinds: &[Kind], played: &[Played], at: usize) -> bool {
    let Some(out) = first_out(kinds, played, at) else { return false };
    let is_open = |reader: &usize| kinds[*reader].is_declared && played[*reader].ended.is_none();
    kinds[at].writes != 0 && (0..kinds.len()).filter(is_open).any(|reader| Some(out) < played[reader].began)
}

/// Calls `each` with all orders of the numbers that are left, so many times each.
fn orders(left: &mut [usize], order: &mut Vec<usize>, each: &mut dyn FnMut(&[usize])) {
    if left.iter().all(|count| *count == 0) {
        return each(order);
    }
    for at in 0..left.len() {
        if left[at] != 0 {
            left[at] -= 1;
            order.push(at);
            orders(left, order, each);
            order.pop();
            left[at] += 1;
        }
    }
}

/// Lists every kind over this many rows.
fn kinds(rows: usize) -> Vec<Kind> {
    let sets = 1 << rows;
    let writers = (0..sets).flat_map(|reads| (0..sets).map(move |writes| (reads, writes, false)));
    let declared = (1..sets).map(|reads| (reads, 0, true));
    let all = writers.filter(|(reads, writes, _)| reads | writes != 0).chain(declared);
    all.map(|(reads, writes, is_declared)| Kind { reads, writes, is_declared }).collect()
}

/// Three transactions over two rows: every set of them, every interleaving.
pub fn every_history_of_three_over_two_rows() {
    let (bank, kinds) = (Bank::new(2), kinds(2));
    let mut histories = 0_u64;
    let mut refusals = Refusals::default();
    for one in 0..kinds.len() {
        for two in one..kinds.len() {
            for three in two..kinds.len() {
                let set = [kinds[one], kinds[two], kinds[three]];
                orders(&mut [2; 3], &mut Vec::new(), &mut |order| {
                    refusals += bank.play(&set, order);
                    histories += 1;
                });
            }
            bank.engine.housekeep(usize::MAX);
        }
    }
    println!("{histories} histories, {refusals:?}");
    assert!(100_000 < histories && 1_000 < refusals.all && 0 < refusals.by_readers && 0 < refusals.early);
}

/// Four and five over three rows, drawn at random.
pub fn many_histories_of_five_over_three_rows() {
    let (bank, kinds) = (Bank::new(3), kinds(3));
    let mut random = Random(7);
    let mut refusals = Refusals::default();
    for round in 0..30_000 {
        let count = 4 + random.below(2) as usize;
        let set: Vec<Kind> = (0..count).map(|_| kinds[random.below(kinds.len() as u64) as usize]).collect();
        let mut order: Vec<usize> = (0..2 * count).map(|at| at / 2).collect();
        for at in (1..order.len()).rev() {
            order.swap(at, random.below(at as u64 + 1) as usize);
        }
        refusals += bank.play(&set, &order);
        if round % 64 == 0 {
            bank.engine.housekeep(usize::MAX);
        }
    }
    println!("{refusals:?}");
    assert!(1_000 < refusals.all && 0 < refusals.by_readers && 0 < refusals.early);
}
