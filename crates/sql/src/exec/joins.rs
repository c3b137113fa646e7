//! Joins: nested loops over the items of `FROM`, with sources kept in hash tables where the plan says so.
//!
//! **Invariant:** a step changes only its own places of the row, so the values of earlier steps stay while later steps
//! iterate.

use super::hash_table::RowTable;
use super::probe::step_key;
use super::sources::fill;
use super::{Flow, RowSink, RowStack, Run};
use query::plan::{Access, Expr, FullJoin, JoinHashTable, JoinKey, JoinStep, Joins, RowSource};
use statement::bulk::Bulk;
use statement::error::SqlResult;
use statement::holdings::MemoryUse;
use statement::pulse;
use std::cell::RefCell;
use std::rc::Rc;
use types::Kind;
use types::datum::Datum;

/// Continuation that a step passes the row to.
type NextStep<'n> = dyn FnMut(&mut Vec<Datum>) -> SqlResult<Flow> + 'n;

/// Stored rows of a source, by their keys.
pub(super) struct HashedRows {
    rows: Bulk<Box<[Datum]>>,
    keys: RowTable,
    /// First and last row of each key, and for each row the next one with the same key.
    ends: Vec<(u32, u32)>,
    next: Vec<u32>,
}

const NONE: u32 = u32::MAX;
/// Maximum number of places of a row that is found by a key and kept on the stack.
const NARROW_MAX: usize = 16;

impl HashedRows {
    fn new(keys: &[JoinKey]) -> HashedRows {
        let kinds: Vec<Kind> = keys.iter().map(|key| key.kind).collect();
        HashedRows { rows: Bulk::new(), keys: RowTable::new(kinds), ends: Vec::new(), next: Vec::new() }
    }

    /// Adds a row. Without a key it is never found.
    fn add(&mut self, row: Box<[Datum]>, key: Option<&[Datum]>) -> SqlResult<()> {
        let number = self.rows.len() as u32;
        self.rows.push(row);
        self.next.push(NONE);
        let Some(key) = key else { return Ok(()) };
        match self.keys.put(key)? {
            (_, true) => self.ends.push((number, number)),
            (key, false) => {
                let (_, last) = &mut self.ends[key];
                self.next[*last as usize] = number;
                *last = number;
            }
        }
        Ok(())
    }

    /// Returns the first row with this key.
    fn first(&self, key: &[Datum]) -> u32 {
        self.keys.find(key).map_or(NONE, |key| self.ends[key].0)
    }
}

/// Stored rows of sources that depend on an enclosing query, for one row of that query.
#[derive(Default)]
struct LocalStores {
    stores: RefCell<Vec<(u64, Rc<HashedRows>)>>,
}

impl Run<'_> {
    pub(super) fn joins(&self, joins: &Joins, outer: Option<&RowStack<'_>>, each: &mut RowSink<'_>) -> SqlResult<Flow> {
        if let Some(when) = &joins.when
            && !self.holds(when, &RowStack { row: &[], outer })?
        {
            return Ok(Flow::Continue(()));
        }
        // A single row needs no loop.
        if let [step] = &joins.steps[..]
            && let RowSource::Table { table, access: Access::Key { index, values, decides: _ }, columns } = &step.source
            && !step.is_outer
            && self.probe.is_none()
        {
            let Some(found) = self.key_row(table, *index, values, &RowStack { row: &[], outer })? else {
                return Ok(Flow::Continue(()));
            };
            let mut narrow = [const { Datum::Null }; NARROW_MAX];
            let mut wide = Vec::new();
            let row = match narrow.get_mut(..joins.width) {
                Some(row) => row,
                None => {
                    wide.resize(joins.width, Datum::Null);
                    &mut wide[..]
                }
            };
            fill(&mut row[step.first..], table, columns.as_deref(), &found);
            return if self.is_match(step, row, outer, &mut false)? { each(row) } else { Ok(Flow::Continue(())) };
        }
        let mut row = vec![Datum::Null; joins.width];
        self.steps(&joins.steps, &LocalStores::default(), &mut row, outer, &mut |row| each(row))
    }

    fn steps(
        &self,
        steps: &[JoinStep],
        local: &LocalStores,
        row: &mut Vec<Datum>,
        outer: Option<&RowStack<'_>>,
        each: &mut NextStep<'_>,
    ) -> SqlResult<Flow> {
        let Some((step, rest)) = steps.split_first() else { return each(row) };
        let mut found = false;
        let flow = self.step(step, local, row, outer, &mut |row| {
            if !self.is_match(step, row, outer, &mut found)? {
                return Ok(Flow::Continue(()));
            }
            if rest.is_empty() { each(row) } else { self.steps(rest, local, row, outer, each) }
        })?;
        if flow.is_break() || !step.is_outer || found {
            return Ok(flow);
        }
        row[step.first..step.first + step.width].fill(Datum::Null);
        match &step.filter {
            Some(filter) if !self.holds(filter, &RowStack { row, outer })? => Ok(flow),
            _ => {
                if let Some(probe) = self.probe {
                    probe.joined(step);
                }
                self.steps(rest, local, row, outer, each)
            }
        }
    }

    /// Counts a row of a step; returns true if the conditions of the step hold. `found` becomes true if it is a match of
    /// the rows before it.
    #[inline]
    fn is_match(
        &self,
        step: &JoinStep,
        row: &[Datum],
        outer: Option<&RowStack<'_>>,
        found: &mut bool,
    ) -> SqlResult<bool> {
        self.made_row()?;
        let rows = RowStack { row, outer };
        if let Some(on) = step.residual()
            && !self.holds(on, &rows)?
        {
            return Ok(false);
        }
        // The row has a partner even if the filter, which comes from above the join, refuses the pair.
        *found = true;
        if let Some(filter) = &step.filter
            && !self.holds(filter, &rows)?
        {
            return Ok(false);
        }
        if let Some(probe) = self.probe {
            probe.joined(step);
        }
        Ok(true)
    }

    /// Iterates over the rows of one step, given the values of earlier steps.
    fn step(
        &self,
        step: &JoinStep,
        local: &LocalStores,
        row: &mut Vec<Datum>,
        outer: Option<&RowStack<'_>>,
        each: &mut NextStep<'_>,
    ) -> SqlResult<Flow> {
        let Some(kept) = &step.kept else { return self.source(step, local, row, outer, each) };
        let store = self.store(step, kept, local, row.len(), outer)?;
        let places = step.first..step.first + step.width;
        if kept.keys.is_empty() {
            for found in store.rows.iter() {
                row[places.clone()].clone_from_slice(found);
                if each(row)?.is_break() {
                    return Ok(Flow::Break(()));
                }
            }
            return Ok(Flow::Continue(()));
        }
        let Some(key) = self.key(kept.keys.iter().map(|key| &key.before), &RowStack { row, outer })? else {
            return Ok(Flow::Continue(()));
        };
        let mut at = store.first(&key);
        while at != NONE {
            row[places.clone()].clone_from_slice(&store.rows[at as usize]);
            if each(row)?.is_break() {
                return Ok(Flow::Break(()));
            }
            at = store.next[at as usize];
        }
        Ok(Flow::Continue(()))
    }

    /// Returns the values of a key; `None` if one is null, which equals nothing.
    fn key<'k>(&self, key: impl Iterator<Item = &'k Expr>, rows: &RowStack<'_>) -> SqlResult<Option<Vec<Datum>>> {
        let mut values = Vec::new();
        for part in key {
            let value = self.value(part, rows)?;
            if value.is_null() {
                return Ok(None);
            }
            values.push(value);
        }
        Ok(Some(values))
    }

    fn store(
        &self,
        step: &JoinStep,
        kept: &JoinHashTable,
        local: &LocalStores,
        width: usize,
        outer: Option<&RowStack<'_>>,
    ) -> SqlResult<Rc<HashedRows>> {
        let stores = if kept.is_constant { &self.memo.stores } else { &local.stores };
        if let Some((_, store)) = stores.borrow().iter().find(|(id, _)| *id == kept.id) {
            return Ok(Rc::clone(store));
        }
        let mut store = HashedRows::new(&kept.keys);
        pulse::tick(width)?;
        let mut row = vec![Datum::Null; width];
        let places = step.first..step.first + step.width;
        let _ = self.source(step, local, &mut row, outer, &mut |row| {
            self.made_row()?;
            let rows = RowStack { row, outer };
            if let Some(condition) = &kept.condition
                && !self.holds(condition, &rows)?
            {
                return Ok(Flow::Continue(()));
            }
            if let Some(key) = self.key(kept.keys.iter().map(|key| &key.own), &rows)? {
                self.keep(MemoryUse::HashTables, &row[places.clone()])?;
                store.add(row[places.clone()].into(), Some(&key))?;
            }
            Ok(Flow::Continue(()))
        })?;
        let store = Rc::new(store);
        stores.borrow_mut().push((kept.id, Rc::clone(&store)));
        Ok(store)
    }

    fn source(
        &self,
        step: &JoinStep,
        local: &LocalStores,
        row: &mut Vec<Datum>,
        outer: Option<&RowStack<'_>>,
        each: &mut NextStep<'_>,
    ) -> SqlResult<Flow> {
        match self.probe {
            None => self.source_of(step, local, row, outer, each),
            Some(probe) => probe.watch(step_key(step), |watch| {
                self.source_of(step, local, row, outer, &mut |row| watch.row(|| each(row)))
            }),
        }
    }

    fn source_of(
        &self,
        step: &JoinStep,
        local: &LocalStores,
        row: &mut Vec<Datum>,
        outer: Option<&RowStack<'_>>,
        each: &mut NextStep<'_>,
    ) -> SqlResult<Flow> {
        let first = step.first;
        match &step.source {
            RowSource::Table { table, access, columns } => {
                let Some(keys) = self.look_up(table, access, &RowStack { row, outer })? else {
                    return Ok(Flow::Continue(()));
                };
                self.table_rows(table, &keys, &mut |found| {
                    fill(&mut row[first..], table, columns.as_deref(), found);
                    each(row)
                })
            }
            RowSource::Query { plan, is_lateral: true } => {
                // The query looks at the row while its own results are written into it.
                pulse::tick(row.len())?;
                let before = row.clone();
                let before = RowStack { row: &before, outer };
                self.rows(plan, Some(&before), &mut |found| {
                    row[first..first + found.len()].clone_from_slice(found);
                    each(row)
                })
            }
            RowSource::Query { plan, is_lateral: false } => self.rows(plan, outer, &mut |found| {
                row[first..first + found.len()].clone_from_slice(found);
                each(row)
            }),
            RowSource::Functions { calls, is_numbered } => {
                let mut sets = self.sets(calls, &RowStack { row, outer })?;
                let mut number = 0;
                loop {
                    let places = &mut row[first..first + calls.len()];
                    if !super::sets::next_of(&mut sets, places)? {
                        return Ok(Flow::Continue(()));
                    }
                    if *is_numbered {
                        number += 1;
                        row[first + calls.len()] = Datum::Int8(number);
                    }
                    if each(row)?.is_break() {
                        return Ok(Flow::Break(()));
                    }
                }
            }
            RowSource::Group(steps) => self.steps(steps, local, row, outer, each),
            RowSource::Full(full) => self.full(full, local, row, outer, each),
        }
    }

    fn full(
        &self,
        full: &FullJoin,
        local: &LocalStores,
        row: &mut Vec<Datum>,
        outer: Option<&RowStack<'_>>,
        each: &mut NextStep<'_>,
    ) -> SqlResult<Flow> {
        let FullJoin { left, right, on, keys } = full;
        let (left_places, right_places) = (left.first..left.first + left.width, right.first..right.first + right.width);
        // The right side is stored and the left side passes by: a match marks the stored row, and those without a mark
        // come at the end.
        let mut store = HashedRows::new(keys);
        pulse::tick(row.len())?;
        let mut other = row.clone();
        let _ = self.steps(&right.steps, local, &mut other, outer, &mut |row| {
            let key = self.key(keys.iter().map(|key| &key.own), &RowStack { row, outer })?;
            self.keep(MemoryUse::HashTables, &row[right_places.clone()])?;
            store.add(row[right_places.clone()].into(), key.as_deref())?;
            Ok(Flow::Continue(()))
        })?;
        let mut has_match = vec![false; store.rows.len()];
        let flow = self.steps(&left.steps, local, row, outer, &mut |row| {
            let mut found = false;
            if let Some(key) = self.key(keys.iter().map(|key| &key.before), &RowStack { row, outer })? {
                let mut at = store.first(&key);
                while at != NONE {
                    row[right_places.clone()].clone_from_slice(&store.rows[at as usize]);
                    let holds = match on {
                        Some(on) => self.holds(on, &RowStack { row, outer })?,
                        None => true,
                    };
                    if holds {
                        found = true;
                        has_match[at as usize] = true;
                        if each(row)?.is_break() {
                            return Ok(Flow::Break(()));
                        }
                    }
                    at = store.next[at as usize];
                }
            }
            if found {
                return Ok(Flow::Continue(()));
            }
            row[right_places.clone()].fill(Datum::Null);
            each(row)
        })?;
        if flow.is_break() {
            return Ok(flow);
        }
        row[left_places].fill(Datum::Null);
        for (found, _) in store.rows.iter().zip(&has_match).filter(|(_, has_match)| !**has_match) {
            row[right_places.clone()].clone_from_slice(found);
            if each(row)?.is_break() {
                return Ok(Flow::Break(()));
            }
        }
        Ok(Flow::Continue(()))
    }
}
