//! Per-statement cache of results that are used repeatedly: rows of shared queries, stored sources of joins, sets for
//! `IN`.
//!
//! **Invariant:** cached results depend only on the snapshot and the parameters.

use super::Run;
use super::expr::are_equal;
use super::hash_table::RowTable;
use super::joins::HashedRows;
use query::plan::{ListId, Plan};
use statement::error::SqlResult;
use statement::holdings::MemoryUse;
use statement::pulse;
use std::cell::RefCell;
use std::rc::Rc;
use types::Kind;
use types::datum::Datum;

/// Rows in memory.
pub(super) type KeptRows = Rc<Vec<Box<[Datum]>>>;

/// Cached results of a run, by the number of the part of the plan that makes them. There are few.
#[derive(Default)]
pub(crate) struct Memo {
    rows: RefCell<Vec<(u64, KeptRows)>>,
    sets: RefCell<Vec<(u64, Rc<ValueSet>)>>,
    /// Rows of the last iteration of recursive queries under way.
    pub(super) working: RefCell<Vec<(u64, KeptRows)>>,
    pub(super) stores: RefCell<Vec<(u64, Rc<HashedRows>)>>,
}

/// Rows of a query, or values of a list or an array, for `IN` and `= ANY`.
pub(super) struct ValueSet {
    kinds: Vec<Kind>,
    /// Rows without nulls.
    whole: RowTable,
    /// Rows with nulls. A set of single values has at most one.
    partial: RowTable,
    /// True if the array itself is null.
    is_null: bool,
}

impl ValueSet {
    fn new(kinds: &[Kind]) -> ValueSet {
        let table = || RowTable::new(kinds.to_vec());
        ValueSet { kinds: kinds.to_vec(), whole: table(), partial: table(), is_null: false }
    }

    /// Compares a row with those of the set: true if one is equal, null if that is unknown.
    ///
    /// Only a row whose comparison depends on nulls costs a scan of the set, as in PostgreSQL's hashed subplans.
    ///
    /// # Errors
    /// `57014`
    pub(super) fn has(&self, row: &[Datum]) -> SqlResult<Datum> {
        if self.is_null {
            return Ok(Datum::Null);
        }
        let has_null = row.iter().any(Datum::is_null);
        if !has_null && self.whole.find(row).is_some() {
            return Ok(Datum::Bool(true));
        }
        let is_unknown = self.may_equal(row, &self.partial)? || (has_null && self.may_equal(row, &self.whole)?);
        Ok(if is_unknown { Datum::Null } else { Datum::Bool(false) })
    }

    /// Returns true if the row may equal one of the table: no two values differ, as a null differs from nothing.
    fn may_equal(&self, row: &[Datum], table: &RowTable) -> SqlResult<bool> {
        for number in 0..table.len() {
            pulse::tick(pulse::ITEM)?;
            if are_equal(row, table.row(number), &self.kinds) != Some(false) {
                return Ok(true);
            }
        }
        Ok(false)
    }
}

impl Run<'_> {
    /// Returns the rows of an uncorrelated query.
    pub(super) fn shared(&self, id: u64, plan: &Plan) -> SqlResult<KeptRows> {
        self.made_once(id, || self.collect_for(MemoryUse::Results, plan, None))
    }

    /// Returns rows that are made at the first call.
    pub(super) fn made_once(
        &self,
        id: u64,
        make: impl FnOnce() -> SqlResult<Vec<Box<[Datum]>>>,
    ) -> SqlResult<KeptRows> {
        if let Some((_, rows)) = self.memo.rows.borrow().iter().find(|(own, _)| *own == id) {
            return Ok(Rc::clone(rows));
        }
        let rows = Rc::new(make()?);
        self.memo.rows.borrow_mut().push((id, Rc::clone(&rows)));
        Ok(rows)
    }

    /// Returns the rows of an uncorrelated query as a set.
    pub(super) fn shared_set(&self, id: u64, plan: &Plan, kinds: &[Kind]) -> SqlResult<Rc<ValueSet>> {
        if let Some((_, set)) = self.memo.sets.borrow().iter().find(|(own, _)| *own == id) {
            return Ok(Rc::clone(set));
        }
        let mut set = ValueSet::new(kinds);
        self.every(plan, None, &mut |row| self.put(&mut set, &row[..kinds.len()]))?;
        let set = Rc::new(set);
        self.memo.sets.borrow_mut().push((id, Rc::clone(&set)));
        Ok(set)
    }

    /// Returns the values of a list or array as a set; `None` for a null array.
    pub(super) fn list_set(
        &self,
        ListId(id): ListId,
        kind: Kind,
        make: impl FnOnce() -> SqlResult<Option<Vec<Datum>>>,
    ) -> SqlResult<Rc<ValueSet>> {
        if let Some((_, set)) = self.memo.sets.borrow().iter().find(|(own, _)| *own == id) {
            return Ok(Rc::clone(set));
        }
        let mut set = ValueSet::new(&[kind]);
        match make()? {
            Some(values) => values.iter().try_for_each(|value| self.put(&mut set, std::slice::from_ref(value)))?,
            None => set.is_null = true,
        }
        let set = Rc::new(set);
        self.memo.sets.borrow_mut().push((id, Rc::clone(&set)));
        Ok(set)
    }

    fn put(&self, set: &mut ValueSet, row: &[Datum]) -> SqlResult<()> {
        let table = if row.iter().any(Datum::is_null) { &mut set.partial } else { &mut set.whole };
        if table.put(row)?.1 {
            self.keep(MemoryUse::HashTables, row)?;
        }
        Ok(())
    }
}
