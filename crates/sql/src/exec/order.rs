//! Sorting, and operators that depend on an order.
//!
//! **Invariant:** sorts are stable.

use super::{Flow, RowSink, RowStack, Run, bytes_of, expr};
use query::plan::{Expr, Plan, SortKey};
use statement::bulk::Bulk;
use statement::error::{SqlError, SqlResult, SqlState};
use statement::holdings::MemoryUse;
use statement::pulse;
use std::cmp::Ordering;
use types::Kind;
use types::datum::Datum;
use types::ops::{is_same, mistyped};

/// Row with its sort keys.
type KeyedRow = (Box<[Datum]>, Box<[Datum]>);

/// Compares two rows by their sort keys.
pub(super) fn order_of(left: &[Datum], right: &[Datum], keys: &[SortKey]) -> Ordering {
    for ((left, right), key) in left.iter().zip(right).zip(keys) {
        let order = match (left.is_null(), right.is_null()) {
            (false, false) if key.descending => expr::order(right, left, key.kind),
            (false, false) => expr::order(left, right, key.kind),
            (left, right) if key.nulls_first => right.cmp(&left),
            (left, right) => left.cmp(&right),
        };
        if order.is_ne() {
            return order;
        }
    }
    Ordering::Equal
}

impl Run<'_> {
    /// Sorts rows; keeps only the first ones, if no more are needed.
    pub(super) fn sort(
        &self,
        input: &Plan,
        keys: &[SortKey],
        wanted: Option<usize>,
        outer: Option<&RowStack<'_>>,
        each: &mut RowSink<'_>,
    ) -> SqlResult<Flow> {
        let mut all: Bulk<KeyedRow> = Bulk::new();
        let by_keys = |(left, _): &KeyedRow, (right, _): &KeyedRow| order_of(left, right, keys);
        // With a bound, the rows are sorted and cut whenever there are twice as many. Rows behind the last of them are
        // not kept at all.
        let full = wanted.map(|wanted| 2 * wanted.max(32));
        let mut worst: Option<Box<[Datum]>> = None;
        let mut values: Vec<Datum> = Vec::with_capacity(keys.len());
        self.every(input, outer, &mut |row| {
            let rows = RowStack { row, outer };
            values.clear();
            for key in keys {
                values.push(self.value(&key.value, &rows)?);
            }
            if worst.as_ref().is_some_and(|worst| order_of(&values, worst, keys).is_ge()) {
                return Ok(());
            }
            self.keep(MemoryUse::Sorts, row)?;
            self.keep(MemoryUse::Sorts, &values)?;
            all.push((values.as_slice().into(), row.into()));
            if let (Some(full), Some(wanted)) = (full, wanted)
                && full <= all.len()
            {
                pulse::sort_by(&mut all, by_keys)?;
                let mut gone = 0;
                for (values, row) in &all[wanted.min(all.len())..] {
                    pulse::tick(pulse::ITEM)?;
                    gone += bytes_of(values) + bytes_of(row);
                }
                all.truncate(wanted);
                self.give_back(MemoryUse::Sorts, gone);
                worst = all.last().map(|(values, _)| values.clone());
            }
            Ok(())
        })?;
        pulse::sort_by(&mut all, by_keys)?;
        for (_, row) in all {
            if each(&row)?.is_break() {
                return Ok(Flow::Break(()));
            }
        }
        Ok(Flow::Continue(()))
    }

    fn count(
        &self,
        expr: Option<&Expr>,
        outer: Option<&RowStack<'_>>,
        state: SqlState,
        of: &str,
    ) -> SqlResult<Option<u64>> {
        let Some(expr) = expr else { return Ok(None) };
        match self.value(expr, &RowStack { row: &[], outer })? {
            Datum::Int8(count) if count < 0 => Err(SqlError::new(state, format!("{of} must not be negative"))),
            Datum::Int8(count) => Ok(Some(count as u64)),
            Datum::Null => Ok(None),
            other => Err(mistyped(&other)),
        }
    }

    /// Returns the number of rows to skip, and the number wanted after that.
    fn counts(
        &self,
        limit: Option<&Expr>,
        offset: Option<&Expr>,
        outer: Option<&RowStack<'_>>,
    ) -> SqlResult<(u64, Option<u64>)> {
        let offset = self.count(offset, outer, SqlState::INVALID_ROW_COUNT_IN_RESULT_OFFSET_CLAUSE, "OFFSET")?;
        let limit = self.count(limit, outer, SqlState::INVALID_ROW_COUNT_IN_LIMIT_CLAUSE, "LIMIT")?;
        Ok((offset.unwrap_or(0), limit))
    }

    pub(super) fn limit(
        &self,
        input: &Plan,
        limit: Option<&Expr>,
        offset: Option<&Expr>,
        outer: Option<&RowStack<'_>>,
        each: &mut RowSink<'_>,
    ) -> SqlResult<Flow> {
        let (mut skipped, wanted) = self.counts(limit, offset, outer)?;
        let mut left = wanted.unwrap_or(u64::MAX);
        if left == 0 {
            return Ok(Flow::Continue(()));
        }
        // A bounded sort keeps only these rows. For larger bounds a full sort is as good.
        let bound = wanted.and_then(|wanted| usize::try_from(wanted.checked_add(skipped)?).ok());
        let mut stopped = Flow::Continue(());
        let mut pass = |row: &[Datum]| {
            if 0 < skipped {
                skipped -= 1;
                return Ok(Flow::Continue(()));
            }
            left -= 1;
            stopped = each(row)?;
            Ok(if left == 0 { Flow::Break(()) } else { stopped })
        };
        let _ = match input {
            Plan::Sort { input: unsorted, keys } => self.watched(input, &mut pass, |each| {
                self.sort(unsorted, keys, bound.filter(|bound| *bound <= TOP_MAX), outer, each)
            })?,
            input => self.rows(input, outer, &mut pass)?,
        };
        Ok(stopped)
    }

    /// Returns the first rows, and those equal to the last of them in the order.
    pub(super) fn ties(
        &self,
        input: &Plan,
        keys: &[SortKey],
        limit: Option<&Expr>,
        offset: Option<&Expr>,
        outer: Option<&RowStack<'_>>,
        each: &mut RowSink<'_>,
    ) -> SqlResult<Flow> {
        let (mut skipped, wanted) = self.counts(limit, offset, outer)?;
        let Some(mut left) = wanted else {
            let message = "row count cannot be null in FETCH FIRST ... WITH TIES clause";
            return Err(SqlError::new(SqlState::INVALID_ROW_COUNT_IN_LIMIT_CLAUSE, message));
        };
        if left == 0 {
            return Ok(Flow::Continue(()));
        }
        let mut last: Option<Vec<Datum>> = None;
        let mut stopped = Flow::Continue(());
        let _ = self.rows(input, outer, &mut |row| {
            if 0 < skipped {
                skipped -= 1;
                return Ok(Flow::Continue(()));
            }
            if 0 < left {
                left -= 1;
                // Rows behind this one are wanted as long as they are equal to it in the order.
                if left == 0 {
                    let rows = RowStack { row, outer };
                    last = Some(keys.iter().map(|key| self.value(&key.value, &rows)).collect::<SqlResult<_>>()?);
                }
            } else if let Some(last) = &last {
                let rows = RowStack { row, outer };
                let values = keys.iter().map(|key| self.value(&key.value, &rows)).collect::<SqlResult<Vec<_>>>()?;
                if order_of(&values, last, keys).is_ne() {
                    return Ok(Flow::Break(()));
                }
            }
            stopped = each(row)?;
            Ok(stopped)
        })?;
        Ok(stopped)
    }

    /// Returns the first row of each run of equal keys.
    pub(super) fn distinct_on(
        &self,
        input: &Plan,
        values: &[(Expr, Kind)],
        outer: Option<&RowStack<'_>>,
        each: &mut RowSink<'_>,
    ) -> SqlResult<Flow> {
        let mut last: Option<Vec<Datum>> = None;
        self.rows(input, outer, &mut |row| {
            let rows = RowStack { row, outer };
            let now = values.iter().map(|(value, _)| self.value(value, &rows)).collect::<SqlResult<Vec<_>>>()?;
            let is_run =
                |last: &Vec<Datum>| last.iter().zip(&now).zip(values).all(|((a, b), (_, kind))| is_same(a, b, *kind));
            if last.as_ref().is_some_and(is_run) {
                return Ok(Flow::Continue(()));
            }
            last = Some(now);
            each(row)
        })
    }
}

/// Maximum number of rows for a bounded sort.
const TOP_MAX: usize = 1 << 16;

#[cfg(test)]
mod tests {
    use crate::session::{Database, Outcome, Step};
    use engine::{Engine, EngineConfig};
    use settings::Connect;
    use statement::holdings::{MemoryUse, of_sessions};
    use types::datum::Datum;

    /// The allocator that counts, as in the program.
    #[global_allocator]
    static HEAP: preempt::Heap = preempt::Heap::HEAP;

    /// Method: what is held is looked at while a statement sorts more than it may keep, of which it needs little.
    #[test]
    fn the_first_of_an_order_are_counted_while_they_are_kept() {
        const PID: u32 = 40_961;
        let database = Database::new(Engine::new(EngineConfig::in_memory()));
        let (user, name) = ("postgres".to_owned(), "postgres".to_owned());
        let wishes = Connect { user, database: name, backend_pid: PID, ..Connect::default() };
        let mut session = database.connect(wishes).expect("the database is there");
        let own = of_sessions().into_iter().find(|one| one.pid() == PID).expect("it has begun");
        let text =
            "select max(length(wide)) from (select repeat('x', 20000) || n as wide, n from generate_series(1, 60000) n
            order by n desc limit 1000) q";
        let runs = std::thread::spawn(move || {
            let statement = session.prepare(text, &[]).expect("it is right");
            let mut portal = session.bind(&statement, Vec::new()).expect("no parameters");
            match session.execute(&mut portal) {
                Ok(Step::Done(Outcome::Rows(rows, _))) => rows.iter().flat_map(|row| row.to_vec()).next(),
                Ok(_) => None,
                Err(error) => panic!("{error}"),
            }
        });
        let mut most = 0;
        while !runs.is_finished() {
            most = most.max(own.bytes()[MemoryUse::Sorts as usize]);
        }
        assert_eq!(runs.join().expect("it ends"), Some(Datum::Int4(20_005)));
        assert!((10 << 20..100 << 20).contains(&most), "{most}");
    }
}
