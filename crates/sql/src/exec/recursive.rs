//! Recursive queries.
//!
//! **Invariant:** a round sees the rows that the round before it was the first to make, and nothing of other rounds.

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
    /// Its rows. They are passed on as they are made, if nobody else will ask for them again.
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

    /// The rows of the last round.
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
            // Rows that are told apart stay in the table; others go with their round.
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
