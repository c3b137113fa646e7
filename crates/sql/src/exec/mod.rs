//! Row executor: each operator of a plan pushes rows, one at a time, to the next.
//!
//! **Invariant:** no call blocks. A row that must be waited for ends the run with [`engine::Error::MustWait`], which
//! the session turns into a parked statement. A consumer that needs no more rows returns `Break`, which stops all
//! operators below.

mod advisory;
mod aggregate;
mod batch;
mod code;
mod computed;
mod conflict;
mod constraints;
pub(crate) mod copy;
mod expr;
mod hash_table;
mod joins;
mod keyed;
mod memo;
mod order;
mod probe;
mod recursive;
pub(crate) mod remote;
mod routine;
mod sequence;
pub(crate) mod sets;
mod sources;
mod steps;
pub(crate) mod urgent;
mod window;
mod write;

use crate::context::Env;
use catalog::{Catalog, CatalogState, TableInfo};
use engine::Txn;
use engine::memory::SMALL_BYTES;
use hash_table::RowTable;
pub(crate) use memo::Memo;
pub(crate) use probe::Probe;
use query::plan::{Expr, Hold, Plan, SetOperation};
use query::planner::RowPlan;
use query::rows::{BYTES_MAX, Rows as Batch, bytes_of, too_much};
use statement::bulk::Bulk;
use statement::error::{RetryReason, SqlError, SqlResult, SqlState};
use statement::holdings::{MemoryUse, RunHoldings};
use std::cell::{Cell, LazyCell, OnceCell, RefCell};
use std::iter;
use std::ops::ControlFlow;
use types::Kind;
use types::datum::Datum;

pub(crate) use advisory::AdvisoryState;
pub(crate) use code::{may_end_transactions, no_end_of_transaction, of_code};
pub(crate) use computed::StatementCode;
pub(crate) use constraints::ConstraintEvent;
pub(crate) use sequence::SessionSequences;
pub(crate) use steps::{StepAnswer, StepCall};
pub(crate) use write::RunChanges;

/// Continuation of a scan: `Break` if no more rows are needed.
pub(crate) type Flow = ControlFlow<()>;

/// Run of a statement.
pub(crate) struct Run<'a> {
    pub(crate) txn: &'a Txn<'a>,
    pub(crate) parameters: &'a [Datum],
    /// State of the session.
    pub(crate) env: &'a Env,
    /// Catalog for names that are resolved at run time.
    pub(crate) catalog: &'a CatalogState,
    pub(crate) path: &'a [String],
    /// Catalog of all sessions, and the version at which its definitions agree with `catalog`. None if they cannot change
    /// for this statement.
    pub(crate) definitions: Option<(&'a Catalog, u64)>,
    pub(crate) numbers: &'a SessionSequences,
    pub(crate) advised: &'a AdvisoryState,
    /// Rows made, and bytes kept.
    pub(crate) spent: RunUsage,
    /// Changes of the run. Most runs need no such state, so that it is made when something is noted.
    pub(crate) changes: OnceCell<Box<RunChanges>>,
    /// Results that are used repeatedly.
    pub(crate) memo: LazyCell<Box<Memo>>,
    /// Local values of the expressions under way, the innermost last.
    pub(crate) locals: RefCell<Vec<Box<[Datum]>>>,
    /// Values of calls that were made for many rows at once.
    pub(crate) ready: batch::ReadyValues,
    /// Counters of the operators, for EXPLAIN ANALYZE.
    pub(crate) probe: Option<&'a Probe>,
}

/// Resources that a run has used.
#[derive(Debug, Default)]
pub(crate) struct RunUsage {
    rows: Cell<u64>,
    bytes: Cell<usize>,
    /// Published usage, for system views.
    holdings: RunHoldings,
    /// Number of rows after which the run ends.
    budget: Option<u64>,
}

impl RunUsage {
    /// Returns an empty usage with a budget of rows.
    pub(crate) fn within(budget: u64) -> RunUsage {
        RunUsage { budget: Some(budget), ..RunUsage::default() }
    }

    fn is_over_budget(&self) -> bool {
        self.budget.is_some_and(|budget| budget < self.rows.get())
    }
}

/// Rows that a run has made within its budgets.
pub(crate) enum FirstRows {
    /// All rows.
    All(Batch),
    /// Rows before the first error, their bytes, and the error.
    Until(Batch, usize, SqlError),
    /// There are more.
    TooMany,
}

/// Returns true if the statement is to be bound again and restarted.
pub(crate) fn moves(error: &SqlError) -> bool {
    error.begins_again() == Some(RetryReason::Moved)
}

/// Size of the first batch of a stream.
const FIRST_BATCH_BYTES: usize = 1 << 10;
/// Size of later batches.
const BATCH_BYTES: usize = 128 << 10;
/// Number of rows between two checks for a cancel.
const ROWS_PER_LOOK: u64 = 1024;
/// Units of work of visiting a row or a key.
const DEED: usize = 64;
/// Row, with those of the enclosing queries.
#[derive(Clone, Copy)]
pub(crate) struct RowStack<'r> {
    pub(crate) row: &'r [Datum],
    pub(crate) outer: Option<&'r RowStack<'r>>,
}

/// Consumer of rows.
pub(crate) type RowSink<'e> = dyn FnMut(&[Datum]) -> SqlResult<Flow> + 'e;

impl Run<'_> {
    /// Passes the rows of the plan to `each`, until that breaks. Returns the last flow.
    pub(crate) fn rows(&self, plan: &Plan, outer: Option<&RowStack<'_>>, each: &mut RowSink<'_>) -> SqlResult<Flow> {
        match self.probe {
            None => self.rows_of(plan, outer, each),
            Some(_) => self.watched(plan, each, |each| self.rows_of(plan, outer, each)),
        }
    }

    /// Runs an operator, counted if there is a probe.
    fn watched(
        &self,
        plan: &Plan,
        each: &mut RowSink<'_>,
        run: impl FnOnce(&mut RowSink<'_>) -> SqlResult<Flow>,
    ) -> SqlResult<Flow> {
        let Some(probe) = self.probe else { return run(each) };
        probe.watch(probe::plan_key(plan), |watch| run(&mut |row| watch.row(|| each(row))))
    }

    fn rows_of(&self, plan: &Plan, outer: Option<&RowStack<'_>>, each: &mut RowSink<'_>) -> SqlResult<Flow> {
        match plan {
            Plan::Unit => each(&[]),
            Plan::Values(all) => {
                let nothing = RowStack { row: &[], outer };
                for values in all {
                    self.made_row()?;
                    let row = self.values(values, &nothing)?;
                    if each(&row)?.is_break() {
                        return Ok(Flow::Break(()));
                    }
                }
                Ok(Flow::Continue(()))
            }
            Plan::Joins(joins) => self.joins(joins, outer, each),
            Plan::From(_) => Err(SqlError::new(SqlState::INTERNAL_ERROR, "a FROM clause that was not planned")),
            Plan::Filter { input, condition } => self.rows_for(input, outer, &mut iter::once(condition), &mut |row| {
                if self.holds(condition, &RowStack { row, outer })? { each(row) } else { Ok(Flow::Continue(())) }
            }),
            Plan::Project { input, columns } => {
                let mut each = |row: &[Datum]| each(&self.values(columns, &RowStack { row, outer })?);
                self.rows_for(input, outer, &mut columns.iter(), &mut each)
            }
            Plan::Aggregate { input, groups, sets, calls } => {
                self.aggregate(input, groups, sets.as_deref(), calls, outer, each)
            }
            Plan::Windows { input, calls } => self.windows(input, calls, outer, each),
            // A row comes once for each row of the longest set; shorter sets give nulls.
            Plan::Sets { input, calls } => self.rows(input, outer, &mut |row| {
                let mut sets = self.sets(calls, &RowStack { row, outer })?;
                let mut wide = row.to_vec();
                wide.resize(row.len() + calls.len(), Datum::Null);
                while sets::next_of(&mut sets, &mut wide[row.len()..])? {
                    self.made_row()?;
                    if each(&wide)?.is_break() {
                        return Ok(Flow::Break(()));
                    }
                }
                Ok(Flow::Continue(()))
            }),
            Plan::Sort { input, keys } => self.sort(input, keys, None, outer, each),
            Plan::Distinct { input, kinds } => {
                let mut seen = RowTable::new(kinds.clone());
                self.rows(input, outer, &mut |row| {
                    let (_, is_new) = seen.put(row)?;
                    if !is_new {
                        return Ok(Flow::Continue(()));
                    }
                    // The first of equal rows is passed on at once, so a LIMIT above can end the query early.
                    self.keep(MemoryUse::HashTables, &row[..kinds.len()])?;
                    each(row)
                })
            }
            Plan::DistinctOn { input, values } => self.distinct_on(input, values, outer, each),
            Plan::Limit { input, limit, offset } => self.limit(input, limit.as_ref(), offset.as_ref(), outer, each),
            Plan::Ties { input, keys, limit, offset } => {
                self.ties(input, keys, limit.as_ref(), offset.as_ref(), outer, each)
            }
            Plan::Set { operation, all, kinds, left, right } => {
                self.set(*operation, *all, kinds, [left, right], outer, each)
            }
            Plan::Lock { input, locks, joins, condition } => {
                self.lock(input, locks, (joins, condition.as_ref()), outer, each)
            }
            Plan::System(table) => {
                for row in crate::system::rows(table, self.env)? {
                    self.made_row()?;
                    if each(&row)?.is_break() {
                        return Ok(Flow::Break(()));
                    }
                }
                Ok(Flow::Continue(()))
            }
            Plan::Routine(call) => self.routine_rows(call, &RowStack { row: &[], outer }, each),
            Plan::Shared { id, plan } => {
                for row in self.shared(*id, plan)?.iter() {
                    self.made_row()?;
                    if each(row)?.is_break() {
                        return Ok(Flow::Break(()));
                    }
                }
                Ok(Flow::Continue(()))
            }
            Plan::Recursive(recursive) => self.recursive(recursive, outer, each),
            Plan::Working(id) => self.working(*id, each),
            Plan::Modified(modify) => self.modified(modify, each),
            Plan::Modifying { modifies, input } => self.modifying(modifies, input, each),
        }
    }

    /// Returns a run like this one, for a part of the statement.
    pub(crate) fn again(&self) -> Run<'_> {
        let Run { txn, parameters, env, catalog, path, definitions, numbers, advised, probe, .. } = *self;
        let (spent, locals, ready, changes) = Default::default();
        let memo = LazyCell::new(Box::default as fn() -> _);
        Run {
            txn,
            parameters,
            env,
            catalog,
            path,
            definitions,
            numbers,
            advised,
            spent,
            changes,
            memo,
            locals,
            ready,
            probe,
        }
    }

    /// Locks a table that the statement reaches by a foreign key, until the end of the transaction.
    ///
    /// # Errors
    /// An error that [`moves`] the statement, if the table was redefined since it was bound.
    pub(crate) fn hold(&self, table: &TableInfo, hold: Hold) -> SqlResult<()> {
        let key = (table.oid, hold);
        if self.changes.get().is_some_and(|changes| changes.held.borrow().contains(&key)) {
            return Ok(());
        }
        self.hold_once(table, hold)?;
        self.changes().held.borrow_mut().push(key);
        Ok(())
    }

    /// Locks a table that the statement uses, until the end of the transaction. Once in a run: it is not remembered.
    ///
    /// # Errors
    /// As [`Run::hold`].
    pub(crate) fn hold_once(&self, table: &TableInfo, hold: Hold) -> SqlResult<()> {
        hold.take(self.txn, table)?;
        if table.is_retired() { Err(SqlError::again(RetryReason::Moved)) } else { Ok(()) }
    }

    /// Returns the changes of the run, to note something.
    fn changes(&self) -> &RunChanges {
        self.changes.get_or_init(Box::default)
    }

    /// Evaluates an expression over one row alone.
    pub(crate) fn value_of(&self, expr: &Expr, row: &[Datum]) -> SqlResult<Datum> {
        self.value(expr, &RowStack { row, outer: None })
    }

    /// Returns all rows of a plan.
    pub(crate) fn collect(&self, plan: &RowPlan) -> SqlResult<Vec<Box<[Datum]>>> {
        self.collect_for(MemoryUse::Results, plan, None)
    }

    /// Passes the rows of a plan on in batches with their sizes. The first batches are small, so that the first row
    /// arrives soon. Rows before the error of a row are passed on, too. Returns the number of rows.
    ///
    /// # Errors
    /// Errors of the rows, and of `push`.
    pub(crate) fn stream(&self, plan: &RowPlan, push: &mut dyn FnMut(Batch, usize) -> SqlResult<()>) -> SqlResult<u64> {
        let (mut batch, mut bytes, mut enough, mut count) = (Vec::new(), 0, FIRST_BATCH_BYTES, 0);
        let ended = self.every_owned(plan, None, &mut |row| {
            bytes += bytes_of(&row);
            batch.push(row);
            count += 1;
            if enough <= bytes {
                enough = (2 * enough).min(BATCH_BYTES);
                push(std::mem::take(&mut batch), std::mem::take(&mut bytes))?;
                SqlError::check_room(SMALL_BYTES)?;
            }
            Ok(())
        });
        if !batch.is_empty() && ended.as_ref().err().is_none_or(is_of_row) {
            push(batch, bytes)?;
        }
        ended.map(|()| count)
    }

    fn collect_for(&self, of: MemoryUse, plan: &Plan, outer: Option<&RowStack<'_>>) -> SqlResult<Vec<Box<[Datum]>>> {
        let mut all = Bulk::new();
        self.every_owned(plan, outer, &mut |row| {
            self.keep(of, &row)?;
            all.push(row);
            Ok(())
        })?;
        Ok(all.into_inner())
    }

    /// Returns all rows of a plan; `None` if that exceeds the budget.
    pub(crate) fn collect_within_budget(&self, plan: &RowPlan) -> SqlResult<Option<Vec<Box<[Datum]>>>> {
        match self.collect(plan) {
            Err(_) if self.spent.is_over_budget() => {
                // The query begins again elsewhere.
                self.env.code.drop_notices_after(0);
                Ok(None)
            }
            result => result.map(Some),
        }
    }

    /// Returns the rows of a plan, or those before its first error, unless they exceed the budget of the run or take more than
    /// these bytes.
    ///
    /// # Errors
    /// Those that end a statement at any time: it was cancelled, there is no room, or it begins again.
    pub(crate) fn first_rows(&self, plan: &RowPlan, bytes_max: usize) -> SqlResult<FirstRows> {
        let (mut all, mut bytes) = (Vec::new(), 0);
        let ended = self.rows(plan, None, &mut |row| {
            bytes += bytes_of(row);
            if bytes_max < bytes {
                return Ok(Flow::Break(()));
            }
            self.keep(MemoryUse::Results, row)?;
            all.push(row.into());
            Ok(Flow::Continue(()))
        });
        match ended {
            Ok(_) if bytes_max < bytes => Ok(FirstRows::TooMany),
            Ok(_) => Ok(FirstRows::All(all)),
            Err(_) if self.spent.is_over_budget() => Ok(FirstRows::TooMany),
            Err(error) if is_of_row(&error) => Ok(FirstRows::Until(all, bytes, error)),
            Err(error) => Err(error),
        }
    }

    /// Counts a row that is made. Every operator that makes rows calls this, so that a cancel is noticed.
    #[inline]
    fn made_row(&self) -> SqlResult<()> {
        let rows = self.spent.rows.get() + 1;
        self.spent.rows.set(rows);
        if rows.is_multiple_of(ROWS_PER_LOOK) {
            preempt::safepoint();
            self.look()?;
            self.spent.holdings.go_on(self.txn.bytes_made());
        }
        if self.spent.is_over_budget() {
            return Err(SqlError::unsupported("so large a query on the row path"));
        }
        Ok(())
    }

    /// Checks for a cancel, and if the statement may stay on this thread.
    pub(crate) fn look(&self) -> SqlResult<()> {
        self.txn.check_active()?;
        statement::pulse::look()
    }

    /// Counts one of many steps that make no rows.
    fn goes_on(&self) -> SqlResult<()> {
        self.txn.check_active()?;
        statement::pulse::tick(DEED)
    }

    /// Counts a row that is kept.
    ///
    /// # Errors
    /// `53200` if that exceeds the limit of a statement or of the process.
    fn keep(&self, of: MemoryUse, row: &[Datum]) -> SqlResult<()> {
        let before = self.spent.bytes.get();
        let bytes = before + bytes_of(row);
        self.spent.bytes.set(bytes);
        if before / SMALL_BYTES != bytes / SMALL_BYTES {
            SqlError::check_room(SMALL_BYTES)?;
            self.spent.holdings.tell(&self.env.holdings, of, self.txn.bytes_made());
        }
        if bytes <= BYTES_MAX { Ok(()) } else { Err(too_much()) }
    }

    /// Subtracts bytes that are no longer kept.
    fn give_back(&self, of: MemoryUse, bytes: usize) {
        let before = self.spent.bytes.get();
        let left = before.saturating_sub(bytes);
        self.spent.bytes.set(left);
        if before / SMALL_BYTES != left / SMALL_BYTES {
            self.spent.holdings.tell(&self.env.holdings, of, self.txn.bytes_made());
        }
    }

    /// Passes all rows of a plan to `each`.
    fn every(
        &self,
        plan: &Plan,
        outer: Option<&RowStack<'_>>,
        each: &mut dyn FnMut(&[Datum]) -> SqlResult<()>,
    ) -> SqlResult<()> {
        let flow = self.rows(plan, outer, &mut |row| each(row).map(Flow::Continue));
        flow.map(|_| ())
    }

    /// Does the same for a consumer that keeps the rows. Those that a projection makes are not copied.
    fn every_owned(
        &self,
        plan: &Plan,
        outer: Option<&RowStack<'_>>,
        each: &mut dyn FnMut(Box<[Datum]>) -> SqlResult<()>,
    ) -> SqlResult<()> {
        match plan {
            Plan::Project { input, columns } if self.probe.is_none() => {
                let mut each = |row: &[Datum]| {
                    each(self.values(columns, &RowStack { row, outer })?.into())?;
                    Ok(Flow::Continue(()))
                };
                self.rows_for(input, outer, &mut columns.iter(), &mut each).map(drop)
            }
            plan => self.every(plan, outer, &mut |row| each(row.into())),
        }
    }

    fn values(&self, columns: &[Expr], rows: &RowStack<'_>) -> SqlResult<Vec<Datum>> {
        let mut values = Vec::with_capacity(columns.len());
        for column in columns {
            values.push(self.value(column, rows)?);
        }
        Ok(values)
    }

    fn set(
        &self,
        operation: SetOperation,
        all: bool,
        kinds: &[Kind],
        [left, right]: [&Plan; 2],
        outer: Option<&RowStack<'_>>,
        each: &mut RowSink<'_>,
    ) -> SqlResult<Flow> {
        if operation == SetOperation::Union {
            let mut seen = RowTable::new(kinds.to_vec());
            for plan in [left, right] {
                let flow = self.rows(plan, outer, &mut |row| {
                    if !all {
                        let (_, is_new) = seen.put(row)?;
                        if !is_new {
                            return Ok(Flow::Continue(()));
                        }
                        self.keep(MemoryUse::HashTables, row)?;
                    }
                    each(row)
                })?;
                if flow.is_break() {
                    return Ok(flow);
                }
            }
            return Ok(Flow::Continue(()));
        }
        // Remaining count of each row of the right side, and true if the left side has had it.
        let mut rows = RowTable::new(kinds.to_vec());
        let mut counts: Vec<(u64, bool)> = Vec::new();
        self.every(right, outer, &mut |row| {
            match rows.put(row)? {
                (_, true) => {
                    self.keep(MemoryUse::HashTables, row)?;
                    counts.push((1, false));
                }
                (number, false) => counts[number].0 += 1,
            }
            Ok(())
        })?;
        self.rows(left, outer, &mut |row| {
            let (number, is_new) = rows.put(row)?;
            if is_new {
                self.keep(MemoryUse::HashTables, row)?;
                counts.push((0, false));
            }
            let (count, is_given) = &mut counts[number];
            let wanted = match (operation, all) {
                (SetOperation::Intersect, false) => 0 < *count && !*is_given,
                (SetOperation::Intersect, true) => take(count),
                (_, false) => *count == 0 && !*is_given,
                (_, true) => !take(count),
            };
            *is_given = true;
            if wanted { each(row) } else { Ok(Flow::Continue(())) }
        })
    }
}

/// Returns true if the error is one of a row, so that the rows before it stand.
fn is_of_row(error: &SqlError) -> bool {
    let ends = [SqlState::QUERY_CANCELED, SqlState::OUT_OF_MEMORY, SqlState::STATEMENT_TOO_COMPLEX];
    error.engine().is_none() && error.begins_again().is_none() && !ends.contains(&error.state())
}

/// Decrements a count; returns false if it is 0.
fn take(count: &mut u64) -> bool {
    let there = 0 < *count;
    *count = count.saturating_sub(1);
    there
}
