//! What is made once in a run of a statement, and used again: rows of shared queries, kept sources of joins, sets of `IN`.
//!
//! **Invariant:** everything here depends on nothing but the snapshot and the parameters.

use super::Run;
use super::joins::Store;
use super::table::RowTable;
use crate::datum::Datum;
use crate::error::SqlResult;
use crate::holdings::Use;
use crate::plan::{ListId, Plan};
use crate::types::Kind;
use std::cell::RefCell;
use std::rc::Rc;

/// Rows in memory.
pub(super) type Kept = Rc<Vec<Box<[Datum]>>>;

/// See the module. Each by the number of what it is made of; there are few.
#[derive(Default)]
pub(crate) struct Memo {
    rows: RefCell<Vec<(u64, Kept)>>,
    sets: RefCell<Vec<(u64, Rc<Set>)>>,
    /// The last round of recursive queries that are under way.
    pub(super) working: RefCell<Vec<(u64, Kept)>>,
    pub(super) stores: RefCell<Vec<(u64, Rc<Store>)>>,
}

/// The values of a query's one column, of a list or of an array, for `IN` and `= ANY`.
pub(super) struct Set {
    values: RowTable,
    has_null: bool,
    /// The array is NULL itself.
    is_null: bool,
}

impl Set {
    fn new(kind: Kind) -> Set {
        Set { values: RowTable::new(vec![kind]), has_null: false, is_null: false }
    }

    /// Says whether a value is equal to any of the set's: null where that is unknown.
    pub(super) fn has(&self, value: &Datum) -> Datum {
        if self.is_null {
            Datum::Null
        } else if self.values.len() == 0 && !self.has_null {
            Datum::Bool(false)
        } else if value.is_null() {
            Datum::Null
        } else if self.values.find(std::slice::from_ref(value)).is_some() {
            Datum::Bool(true)
        } else if self.has_null {
            Datum::Null
        } else {
            Datum::Bool(false)
        }
    }
}

impl Run<'_> {
    /// The rows of a query that depends on nothing.
    pub(super) fn shared(&self, id: u64, plan: &Plan) -> SqlResult<Kept> {
        self.made_once(id, || self.collect(plan, None))
    }

    /// Rows that are made when they are first asked for.
    pub(super) fn made_once(&self, id: u64, make: impl FnOnce() -> SqlResult<Vec<Box<[Datum]>>>) -> SqlResult<Kept> {
        if let Some((_, rows)) = self.memo.rows.borrow().iter().find(|(own, _)| *own == id) {
            return Ok(Rc::clone(rows));
        }
        let rows = Rc::new(make()?);
        self.memo.rows.borrow_mut().push((id, Rc::clone(&rows)));
        Ok(rows)
    }

    /// Its values as a set.
    pub(super) fn shared_set(&self, id: u64, plan: &Plan, kind: Kind) -> SqlResult<Rc<Set>> {
        if let Some((_, set)) = self.memo.sets.borrow().iter().find(|(own, _)| *own == id) {
            return Ok(Rc::clone(set));
        }
        let mut set = Set::new(kind);
        self.every(plan, None, &mut |row| row.first().map_or(Ok(()), |value| self.put(&mut set, value)))?;
        let set = Rc::new(set);
        self.memo.sets.borrow_mut().push((id, Rc::clone(&set)));
        Ok(set)
    }

    /// The values of a list or array as a set; nothing stands for an array that is NULL.
    pub(super) fn list_set(
        &self,
        ListId(id): ListId,
        kind: Kind,
        make: impl FnOnce() -> SqlResult<Option<Vec<Datum>>>,
    ) -> SqlResult<Rc<Set>> {
        if let Some((_, set)) = self.memo.sets.borrow().iter().find(|(own, _)| *own == id) {
            return Ok(Rc::clone(set));
        }
        let mut set = Set::new(kind);
        match make()? {
            Some(values) => values.iter().try_for_each(|value| self.put(&mut set, value))?,
            None => set.is_null = true,
        }
        let set = Rc::new(set);
        self.memo.sets.borrow_mut().push((id, Rc::clone(&set)));
        Ok(set)
    }

    fn put(&self, set: &mut Set, value: &Datum) -> SqlResult<()> {
        if value.is_null() {
            set.has_null = true;
        } else if set.values.put(std::slice::from_ref(value))?.1 {
            self.keep(Use::HashTables, std::slice::from_ref(value))?;
        }
        Ok(())
    }
}
