//! Recursive queries.
//!
//! **Invariant:** an iteration sees only the rows that the previous iteration added.

use super::hash_table::RowTable;
use super::memo::KeptRows;
use super::{Flow, RowSink, RowStack, Run};
use query::plan::Recursive;
use query::rows::bytes_of;
use statement::error::SqlResult;
use statement::holdings::MemoryUse;
use statement::plants::is_planted;
use statement::pulse;
use std::rc::Rc;
use std::sync::atomic::Ordering;
use types::datum::Datum;

impl Run<'_> {
    /// Runs a recursive query. Rows are passed on as they are made, unless they are used again.
    pub(super) fn recursive(
        &self,
        recursive: &Recursive,
        outer: Option<&RowStack<'_>>,
        each: &mut RowSink<'_>,
    ) -> SqlResult<Flow> {
        if recursive.looks_out && !is_planted("recursion_looks_nowhere") {
            return self.rounds(recursive, outer, each);
        }
        if outer.is_none() && recursive.references.load(Ordering::Relaxed) <= 1 {
            return self.rounds(recursive, None, each);
        }
        let rows = self.made_once(recursive.id, || {
            let mut all = Vec::new();
            let _ = self.rounds(recursive, None, &mut |row| {
                all.push(row.into());
                Ok(Flow::Continue(()))
            })?;
            Ok(all)
        })?;
        pass(&rows, each)
    }

    /// Returns the rows of the last iteration.
    pub(super) fn working(&self, id: u64, each: &mut RowSink<'_>) -> SqlResult<Flow> {
        let rows = self.memo.working.borrow().iter().rev().find(|(own, _)| *own == id).map(|(_, rows)| Rc::clone(rows));
        match rows {
            Some(rows) => pass(&rows, each),
            None => Ok(Flow::Continue(())),
        }
    }

    fn rounds(&self, recursive: &Recursive, outer: Option<&RowStack<'_>>, each: &mut RowSink<'_>) -> SqlResult<Flow> {
        let Recursive { id, all, kinds, first, step, references: _, looks_out: _ } = recursive;
        let mut seen = (!all).then(|| RowTable::new(kinds.clone()));
        let mut round = |plan, each: &mut RowSink<'_>| {
            let mut made: Vec<Box<[Datum]>> = Vec::new();
            let flow = self.rows(plan, outer, &mut |row| {
                if let Some(seen) = &mut seen
                    && !seen.put(row)?.1
                {
                    return Ok(Flow::Continue(()));
                }
                self.made_row()?;
                self.keep(MemoryUse::Results, row)?;
                made.push(row.into());
                each(row)
            })?;
            Ok::<_, statement::error::SqlError>((flow, made))
        };
        let (mut flow, mut last) = round(first, each)?;
        while flow.is_continue() && !last.is_empty() {
            // Rows of UNION stay in the hash table; those of UNION ALL go with their iteration.
            let bytes = if *all { last.iter().map(|row| bytes_of(row)).sum() } else { 0 };
            self.memo.working.borrow_mut().push((*id, Rc::new(last)));
            let result = round(step, each);
            self.memo.working.borrow_mut().pop();
            self.give_back(MemoryUse::Results, bytes);
            (flow, last) = result?;
        }
        Ok(flow)
    }
}

/// Units of work of passing a row on.
const ROW: usize = 64;

fn pass(rows: &KeptRows, each: &mut RowSink<'_>) -> SqlResult<Flow> {
    for row in rows.iter() {
        pulse::tick(ROW)?;
        if each(row)?.is_break() {
            return Ok(Flow::Break(()));
        }
    }
    Ok(Flow::Continue(()))
}
