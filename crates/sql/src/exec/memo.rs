//! What is made once in a run of a statement, and used again: rows of shared queries, kept sources of joins, sets of `IN`.
//!
//! **Invariant:** everything here depends on nothing but the snapshot and the parameters.

use super::Run;
use super::joins::Store;
use super::table::RowTable;
use crate::datum::Datum;
use crate::error::SqlResult;
use crate::plan::Plan;
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

/// The values of a query's one column, for `IN`.
pub(super) struct Set {
    pub(super) values: RowTable,
    pub(super) has_null: bool,
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
        let mut set = Set { values: RowTable::new(vec![kind]), has_null: false };
        self.every(plan, None, &mut |row| {
            match row.first() {
                Some(value) if !value.is_null() => {
                    if set.values.put(row).1 {
                        self.keep(&row[..1])?;
                    }
                }
                _ => set.has_null = true,
            }
            Ok(())
        })?;
        let set = Rc::new(set);
        self.memo.sets.borrow_mut().push((id, Rc::clone(&set)));
        Ok(set)
    }
}
