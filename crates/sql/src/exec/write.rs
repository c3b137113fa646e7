//! INSERT, UPDATE and DELETE.
//!
//! **Invariant:** all parts of a statement see the state before it: they read as of its command, so it may change rows
//! while it still chooses others. For a row that another transaction has changed since, the condition is evaluated
//! again and the new values are computed from the latest version (PostgreSQL's `EvalPlanQual`); other tables are read
//! by the snapshot.

use super::constraints::ConstraintEvent;
use super::probe::modify_key;
use super::{Flow, RowSink, RowStack, Run};
use catalog::TableInfo;
use catalog::acl::Privileges;
use catalog::rights::Rights;
use catalog::storage::{datum, store};
use engine::{RowId, RowWriter, Value};
use query::change::{Assignments, Change, ChangeTarget, ConstraintRules, Modify, NewValue};
use query::plan::{Hold, JoinStep, Joins, Plan, RowSource};
use statement::error::{SqlError, SqlResult, SqlState};
use statement::holdings::MemoryUse;
use statement::pulse;
use std::cell::RefCell;
use std::collections::{HashMap, HashSet, VecDeque};
use std::rc::Rc;
use std::sync::Arc;
use types::datum::Datum;
use types::ops::mistyped;
use types::text;

/// Result of a change.
pub(crate) struct ChangeResult {
    pub(crate) rows: u64,
    /// RETURNING rows.
    pub(crate) returned: Vec<Box<[Datum]>>,
}

/// RETURNING rows of a change in `WITH`.
type ReturnedRows = Rc<Vec<Box<[Datum]>>>;

/// Changes of a run.
#[derive(Default)]
pub(crate) struct RunChanges {
    /// Changed rows that may be met again, by table.
    seen: RefCell<HashSet<(u32, RowId)>>,
    /// RETURNING rows of changes in `WITH`, by address.
    returned: RefCell<HashMap<*const Modify, ReturnedRows>>,
    /// Changes in `WITH`.
    with: RefCell<Vec<Arc<Modify>>>,
    /// Foreign keys to check at the end of the statement.
    pub(super) events: RefCell<VecDeque<ConstraintEvent>>,
    /// Tables locked because of foreign keys.
    pub(super) held: RefCell<Vec<(u32, Hold)>>,
}

/// Maximum number of columns whose values are kept on the stack.
const NARROW_MAX: usize = 16;

/// Options of a change.
#[derive(Clone, Copy)]
struct ChangeOptions<'c> {
    /// True if a row may be met again, and is skipped then.
    once: bool,
    rules: Option<&'c Arc<ConstraintRules>>,
    is_returned: bool,
}

/// Consumer of changed rows, as `RETURNING` sees them.
type ChangedRowSink<'n> = dyn FnMut(&[Datum]) -> SqlResult<()> + 'n;

impl Run<'_> {
    /// Runs a change to its end.
    pub(crate) fn modify(&self, modify: &Modify) -> SqlResult<ChangeResult> {
        self.begin(&modify.with)?;
        let changed = self.change(modify, !modify.with.is_empty())?;
        self.finish(&modify.with)?;
        Ok(changed)
    }

    /// Runs a query with changes in its `WITH`.
    pub(super) fn modifying(&self, modifies: &[Arc<Modify>], input: &Plan, each: &mut RowSink<'_>) -> SqlResult<Flow> {
        self.begin(modifies)?;
        let flow = self.rows(input, None, each)?;
        self.finish(modifies)?;
        Ok(flow)
    }

    /// Returns the RETURNING rows of a change in `WITH`, which is run at the first use.
    pub(super) fn modified(&self, modify: &Arc<Modify>, each: &mut RowSink<'_>) -> SqlResult<Flow> {
        for row in self.once(modify)?.iter() {
            if each(row)?.is_break() {
                return Ok(Flow::Break(()));
            }
        }
        Ok(Flow::Continue(()))
    }

    fn once(&self, modify: &Arc<Modify>) -> SqlResult<ReturnedRows> {
        let key = Arc::as_ptr(modify);
        if let Some(returned) = self.changes().returned.borrow().get(&key) {
            return Ok(Rc::clone(returned));
        }
        let returned = Rc::new(self.change(modify, true)?.returned);
        self.changes().returned.borrow_mut().insert(key, Rc::clone(&returned));
        Ok(returned)
    }

    /// Fixes the state that all parts of the statement see.
    fn begin(&self, with: &[Arc<Modify>]) -> SqlResult<()> {
        if !with.is_empty() {
            self.changes().with.replace(with.to_vec());
        }
        Ok(self.txn.hold_command()?)
    }

    /// Runs changes in `WITH` that the condition or new values may read. That must be done before this statement
    /// claims a row, since no rows may be changed meanwhile.
    fn run_those_before(&self, modify: &Modify) -> SqlResult<()> {
        let Some(changes) = self.changes.get() else { return Ok(()) };
        let with = changes.with.borrow().clone();
        if with.is_empty() || !modify.change.has_query() {
            return Ok(());
        }
        for other in with.iter().take_while(|other| !std::ptr::eq(&***other, modify)) {
            self.once(other)?;
        }
        Ok(())
    }

    /// Ends the statement: runs changes in `WITH` that were not read, the last first, as PostgreSQL does.
    fn finish(&self, with: &[Arc<Modify>]) -> SqlResult<()> {
        for modify in with.iter().rev() {
            self.once(modify)?;
        }
        self.txn.release_command();
        self.look_after()
    }

    fn change(&self, modify: &Modify, meets_others: bool) -> SqlResult<ChangeResult> {
        let Some(probe) = self.probe else { return self.change_rows(modify, meets_others) };
        probe.watch(modify_key(modify), |watch| {
            let changed = self.change_rows(modify, meets_others)?;
            changed.returned.iter().for_each(|_| watch.row(|| ()));
            Ok(changed)
        })
    }

    /// Changes rows. `meets_others` is true if other parts of the statement change rows, too.
    fn change_rows(&self, modify: &Modify, meets_others: bool) -> SqlResult<ChangeResult> {
        let Modify { change, returning, with: _ } = modify;
        let is_returned = returning.is_some();
        self.run_those_before(modify)?;
        let mut changed = ChangeResult { rows: 0, returned: Vec::new() };
        let mut note = |row: &[Datum]| {
            changed.rows += 1;
            if let Some(columns) = returning {
                let values: Box<[Datum]> = self.values(columns, &RowStack { row, outer: None })?.into();
                self.keep(MemoryUse::Results, &values)?;
                changed.returned.push(values);
            }
            Ok(())
        };
        match change {
            Change::Insert { table, input, conflict, rules } => self.every(input, None, &mut |row| match conflict {
                None => {
                    self.may_insert(table, row, rules.as_ref())?;
                    let id = self.insert(table, row).map_err(|error| self.describe(error, table, row))?;
                    if let Some(rules) = rules {
                        self.inserted(rules, table, id);
                    }
                    if meets_others {
                        self.changes().seen.borrow_mut().insert((table.oid, id));
                    }
                    note(row)
                }
                Some(conflict) => {
                    let is_one = matches!(input, Plan::Values(rows) if rows.len() == 1);
                    let remembers = meets_others || (conflict.update.is_some() && !is_one);
                    self.insert_or(table, row, (conflict, remembers), rules.as_ref(), &mut note)
                }
            })?,
            // A join, or another part of the statement, may choose a row again: only its first change counts.
            Change::Update { target, assignments, rules } => {
                let care = ChangeOptions { once: target.is_joined || meets_others, rules: rules.as_ref(), is_returned };
                self.targets(target, &mut |row| self.update(target, row, assignments, care, &mut note))?;
            }
            Change::Delete { target, rules } => {
                let care = ChangeOptions { once: target.is_joined || meets_others, rules: rules.as_ref(), is_returned };
                // A delete makes room, so it may use memory that is kept back for that.
                pulse::with_reserve(|| self.targets(target, &mut |row| self.delete(target, row, care, &mut note)))?;
            }
        }
        Ok(changed)
    }

    /// Passes the rows to change to `each`. For a single table only the columns that are used are read.
    fn targets(&self, target: &ChangeTarget, each: &mut dyn FnMut(&[Datum]) -> SqlResult<()>) -> SqlResult<()> {
        let (Some(needed), Plan::Joins(Joins { when: None, steps, width: _ }), None) =
            (&target.needed, &target.input, self.probe)
        else {
            return self.every(&target.input, None, each);
        };
        let [
            step @ JoinStep {
                source: RowSource::Table { table, access, columns: _ },
                is_outer: false,
                on: _,
                filter: None,
                kept: None,
                first: _,
                width: _,
            },
        ] = &steps[..]
        else {
            return self.every(&target.input, None, each);
        };
        let nothing = RowStack { row: &[], outer: None };
        let Some(keys) = self.look_up(table, access, &nothing)? else { return Ok(()) };
        let mut row = vec![Datum::Null; table.columns.len() + 1];
        let flow = self.table_rows(table, &keys, &mut |found| {
            self.made_row()?;
            for at in needed {
                row[*at] = datum(found.get(*at), table.columns[*at].kind);
            }
            row[table.columns.len()] = Datum::Int8(found.row_id().0 as i64);
            if let Some(condition) = step.residual()
                && !self.holds(condition, &RowStack { row: &row, outer: None })?
            {
                return Ok(Flow::Continue(()));
            }
            each(&row).map(Flow::Continue)
        });
        flow.map(|_| ())
    }

    /// Notes that the statement changes the row; returns false if it did so before.
    pub(super) fn is_first(&self, table: &TableInfo, id: RowId) -> bool {
        self.changes().seen.borrow_mut().insert((table.oid, id))
    }

    /// Returns true if the statement has changed the row.
    pub(super) fn has_changed(&self, table: &TableInfo, id: RowId) -> bool {
        self.changes.get().is_some_and(|changes| changes.seen.borrow().contains(&(table.oid, id)))
    }

    /// Forgets a row that was not changed after all: the condition may hold for another row of the join.
    pub(super) fn forget(&self, table: &TableInfo, id: RowId) {
        if let Some(changes) = self.changes.get() {
            changes.seen.borrow_mut().remove(&(table.oid, id));
        }
    }

    /// Checks the constraints of the row by itself.
    pub(super) fn may_insert(
        &self,
        table: &TableInfo,
        row: &[Datum],
        rules: Option<&Arc<ConstraintRules>>,
    ) -> SqlResult<()> {
        self.not_null(table, row)?;
        match rules.and_then(|rules| rules.tables.get(&table.oid)) {
            Some(own) => self.check(own, row),
            None => Ok(()),
        }
    }

    /// Inserts a row with all columns.
    pub(super) fn insert(&self, table: &TableInfo, row: &[Datum]) -> SqlResult<RowId> {
        // For most tables the values are kept on the stack.
        if row.len() <= NARROW_MAX {
            let mut buffers = [const { Vec::new() }; NARROW_MAX];
            let mut values = [Value::Null; NARROW_MAX];
            for (((value, column), buffer), stored) in row.iter().zip(&table.columns).zip(&mut buffers).zip(&mut values)
            {
                *stored = store(value, column.kind, buffer)?;
            }
            return Ok(self.txn.insert(&table.table, &values[..row.len()])?);
        }
        let mut buffers = vec![Vec::new(); row.len()];
        let values = row
            .iter()
            .zip(&table.columns)
            .zip(&mut buffers)
            .map(|((value, column), buffer)| store(value, column.kind, buffer))
            .collect::<SqlResult<Vec<Value<'_>>>>()?;
        Ok(self.txn.insert(&table.table, &values)?)
    }

    /// Returns the values of `SET`, in its order.
    pub(super) fn new_values(&self, assignments: &Assignments, rows: &RowStack<'_>) -> SqlResult<Vec<Datum>> {
        let mut made = Vec::with_capacity(assignments.columns.len());
        for value in &assignments.values {
            match value {
                NewValue::One(value) => made.push(self.value(value, rows)?),
                NewValue::Row { plan, width } => {
                    let before = made.len();
                    self.every(plan, Some(rows), &mut |row| {
                        if before < made.len() {
                            let message = "more than one row returned by a subquery used as an expression";
                            return Err(SqlError::new(SqlState::CARDINALITY_VIOLATION, message));
                        }
                        made.extend_from_slice(row);
                        Ok(())
                    })?;
                    made.resize(before + width, Datum::Null);
                }
            }
        }
        Ok(made)
    }

    /// Puts the values of `SET` into a copy of the row, whose table's columns begin at `first`, and into the engine's
    /// copy.
    pub(super) fn assign(
        &self,
        table: &TableInfo,
        first: usize,
        (columns, made): (&[usize], Vec<Datum>),
        row: &mut [Datum],
        writer: &mut RowWriter<'_>,
    ) -> SqlResult<()> {
        let mut buffer = Vec::new();
        for (at, value) in columns.iter().zip(made) {
            buffer.clear();
            writer.set(*at, store(&value, table.columns[*at].kind, &mut buffer)?);
            row[first + at] = value;
        }
        self.not_null(table, &row[first..first + table.columns.len()])
    }

    /// Updates the chosen row. The whole new row is made only if it is used.
    fn update(
        &self,
        target: &ChangeTarget,
        chosen: &[Datum],
        assignments: &Assignments,
        ChangeOptions { once, rules, is_returned }: ChangeOptions<'_>,
        note: &mut ChangedRowSink<'_>,
    ) -> SqlResult<()> {
        let ChangeTarget { table, first, condition, .. } = target;
        let columns = *first..first + table.columns.len();
        let Some(id) = row_id(chosen, target.row_id())? else { return Ok(()) };
        if once && !self.is_first(table, id) {
            return Ok(());
        }
        let mut made = self.new_values(assignments, &RowStack { row: chosen, outer: None })?;
        let needs_row = is_returned || rules.is_some();
        let (mut new, mut old) = (Vec::new(), Vec::new());
        let mut patch = |writer: &mut RowWriter<'_>| {
            if writer.is_newer() || needs_row {
                new = chosen.to_vec();
            }
            if writer.is_newer() {
                for (at, column) in table.columns.iter().enumerate() {
                    new[first + at] = datum(writer.get(at), column.kind);
                }
                let rows = RowStack { row: &new, outer: None };
                if let Some(condition) = condition
                    && !self.holds(condition, &rows).map_err(|error| within_newer(error, table))?
                {
                    return Ok(false);
                }
                made = self.new_values(assignments, &rows).map_err(|error| within_newer(error, table))?;
            }
            if !needs_row {
                return self.assign_alone(table, &assignments.columns, made.iter(), writer).map(|()| true);
            }
            if rules.is_some() {
                old.extend_from_slice(&new[columns.clone()]);
            }
            self.assign(table, *first, (&assignments.columns, made.clone()), &mut new, writer)?;
            if let Some(own) = rules.and_then(|rules| rules.tables.get(&table.oid)) {
                self.check(own, &new[columns.clone()])?;
            }
            Ok(true)
        };
        match self.patch(table, id, &mut patch) {
            Ok(true) => {
                if let Some(rules) = rules {
                    self.updated(rules, table, id, &old, &new[columns]);
                }
                note(&new)
            }
            Ok(false) => {
                self.forget(table, id);
                Ok(())
            }
            Err(error) if !matches!(error.engine(), Some(engine::Error::UniqueViolation { .. })) => Err(error),
            Err(error) => {
                // The error shows all columns of the row as the statement has changed it.
                let mut row = match (new.get(columns.clone()), self.txn.get_row(&table.table, id)) {
                    (Some(new), _) => new.to_vec(),
                    (None, Ok(Some(row))) => super::constraints::row_of(table, &row),
                    (None, _) => chosen.get(columns).unwrap_or_default().to_vec(),
                };
                assignments.columns.iter().zip(made).for_each(|(at, value)| row[*at] = value);
                Err(self.describe(error, table, &row))
            }
        }
    }

    /// Puts the values of `SET` into the engine's copy of the row, where the new row is not used otherwise.
    pub(super) fn assign_alone<'d>(
        &self,
        table: &TableInfo,
        columns: &[usize],
        made: impl Iterator<Item = &'d Datum> + Clone,
        writer: &mut RowWriter<'_>,
    ) -> SqlResult<()> {
        let mut buffer = Vec::new();
        let mut is_missing = false;
        for (at, value) in columns.iter().zip(made.clone()) {
            let column = &table.columns[*at];
            is_missing |= column.not_null && value.is_null();
            if !is_missing {
                buffer.clear();
                writer.set(*at, store(value, column.kind, &mut buffer)?);
            }
        }
        if !is_missing {
            return Ok(());
        }
        let mut row: Vec<Datum> =
            table.columns.iter().enumerate().map(|(at, column)| datum(writer.get(at), column.kind)).collect();
        columns.iter().zip(made).for_each(|(at, value)| row[*at] = value.clone());
        self.not_null(table, &row)
    }

    /// Updates a row with `patch`, if that returns true.
    pub(super) fn patch(
        &self,
        table: &TableInfo,
        id: RowId,
        patch: &mut dyn FnMut(&mut RowWriter<'_>) -> SqlResult<bool>,
    ) -> SqlResult<bool> {
        let mut failed = None;
        let changed = self.txn.update_if(&table.table, id, |writer| {
            patch(writer).unwrap_or_else(|error| {
                failed = Some(error);
                false
            })
        });
        match (failed, changed) {
            (Some(error), _) => Err(error),
            // This statement has deleted it.
            (None, Err(engine::Error::NoSuchRow { .. })) => Ok(false),
            (None, changed) => Ok(changed?),
        }
    }

    fn delete(
        &self,
        target: &ChangeTarget,
        chosen: &[Datum],
        ChangeOptions { once, rules, is_returned: _ }: ChangeOptions<'_>,
        note: &mut ChangedRowSink<'_>,
    ) -> SqlResult<()> {
        let ChangeTarget { table, condition, .. } = target;
        let Some(id) = row_id(chosen, target.row_id())? else { return Ok(()) };
        if once && !self.is_first(table, id) {
            return Ok(());
        }
        let mut now = None;
        // Another transaction may have changed the row since it was chosen. READ COMMITTED asks the condition again, of
        // the newer version beside the same rows of the other tables.
        let mut judge = |row: &engine::Row<'_>| {
            let Some(columns) = self.newer(table, id, row)? else { return Ok(true) };
            let mut newer = chosen.to_vec();
            newer[target.first..=target.row_id()].clone_from_slice(&columns);
            let rows = RowStack { row: &newer, outer: None };
            let holds = condition.as_ref().map_or(Ok(true), |condition| self.holds(condition, &rows));
            let holds = holds.map_err(|error| within_newer(error, table))?;
            now = Some(newer);
            Ok(holds)
        };
        let mut failed = None;
        let deleted = self.txn.delete_if(&table.table, id, |row| {
            judge(row).unwrap_or_else(|error: SqlError| {
                failed = Some(error);
                false
            })
        });
        match (failed, deleted) {
            (Some(error), _) => Err(error),
            (None, Err(engine::Error::NoSuchRow { .. })) => Ok(()),
            (None, deleted) => match deleted? {
                true => {
                    let old = now.as_deref().unwrap_or(chosen);
                    if let Some(rules) = rules {
                        self.deleted(rules, table, &old[target.first..target.row_id()]);
                    }
                    note(old)
                }
                false => {
                    self.forget(table, id);
                    Ok(())
                }
            },
        }
    }
}

/// Returns the row's id in this column; `None` for the null side of an outer join.
pub(super) fn row_id(row: &[Datum], at: usize) -> SqlResult<Option<RowId>> {
    match &row[at] {
        Datum::Int8(id) => Ok(Some(RowId(*id as u64))),
        Datum::Null => Ok(None),
        other => Err(mistyped(other)),
    }
}

/// Messages about rows.
impl Run<'_> {
    /// Checks the NOT NULL constraints.
    ///
    /// # Errors
    /// `23502`
    pub(super) fn not_null(&self, table: &TableInfo, row: &[Datum]) -> SqlResult<()> {
        let missing = table.columns.iter().zip(row).find(|(column, value)| column.not_null && value.is_null());
        let Some((column, _)) = missing else { return Ok(()) };
        let (name, of) = (&column.name, &table.name);
        let message = format!("null value in column \"{name}\" of relation \"{of}\" violates not-null constraint");
        let error = SqlError::new(SqlState::NOT_NULL_VIOLATION, message).detail(self.failing(table, row));
        Err(self.catalog.about(error, table).about_column(name))
    }

    /// Returns the columns whose values the role may see; `None` for all.
    fn shown_columns(&self, table: &TableInfo) -> Option<Vec<bool>> {
        let rights = Rights::of_session(self.catalog, self.env).filter(|rights| !rights.is_superuser())?;
        let on_table = self.catalog.securable(table.oid).is_none_or(|of| rights.on(of).has(Privileges::SELECT));
        let on_column =
            |column: &catalog::ColumnDef| rights.on_column(table.oid, column.number).has(Privileges::SELECT);
        (!on_table).then(|| table.columns.iter().map(on_column).collect())
    }

    /// Returns the detail `Failing row contains (...).` It has the columns that the role may read.
    pub(super) fn failing(&self, table: &TableInfo, row: &[Datum]) -> String {
        let visible = self.shown_columns(table);
        let is_shown = |at: usize| visible.as_ref().is_none_or(|visible| visible.get(at) == Some(&true));
        let columns = || table.columns.iter().enumerate().filter(|(at, _)| is_shown(*at)).map(|(_, column)| column);
        let values = row.iter().enumerate().filter(|(at, _)| is_shown(*at)).map(|(_, value)| value);
        let shown = columns().zip(values).map(|(column, value)| {
            if value.is_null() {
                return "null".to_owned();
            }
            let text = text::to_string(value, column.kind, &self.env.forms);
            if text.len() <= SHOWN_BYTES_MAX {
                text
            } else {
                format!("{}...", syntax::names::clipped(&text, SHOWN_BYTES_MAX))
            }
        });
        let shown = shown.collect::<Vec<_>>().join(", ");
        match visible {
            None => format!("Failing row contains ({shown})."),
            Some(_) => {
                let names: Vec<&str> = columns().map(|column| &*column.name).collect();
                format!("Failing row contains ({}) = ({shown}).", names.join(", "))
            }
        }
    }

    /// Describes an error about this row, in PostgreSQL's words.
    pub(super) fn describe(&self, error: SqlError, table: &TableInfo, row: &[Datum]) -> SqlError {
        let Some(engine::Error::UniqueViolation { index, .. }) = error.engine() else { return error };
        let def = table.table.indexes().iter().find(|def| def.name == *index);
        let columns: &[usize] = def.map_or(&[], |def| &def.columns);
        let name = index.clone();
        if let Some(visible) = self.shown_columns(table)
            && !columns.iter().all(|at| visible.get(*at) == Some(&true))
        {
            return self.catalog.about(error, table).about_constraint(&name);
        }
        let detail = format!("Key {} already exists.", self.key_text(table, columns, row));
        self.catalog.about(error.detail(detail), table).about_constraint(&name)
    }

    /// Returns the key as `(a, b)=(1, 2)`.
    pub(super) fn key_text(&self, table: &TableInfo, columns: &[usize], row: &[Datum]) -> String {
        let names: Vec<&str> = columns.iter().map(|at| &*table.columns[*at].name).collect();
        let value = |at: &usize| Some(text::to_string(row.get(*at)?, table.columns[*at].kind, &self.env.forms));
        let values: Vec<String> = columns.iter().filter_map(value).collect();
        format!("({})=({})", names.join(", "), values.join(", "))
    }
}

/// Maximum number of bytes of a value in a detail.
const SHOWN_BYTES_MAX: usize = 64;

/// Turns the error of a function that writes, in an expression over a newer version of a row, into a serialization
/// failure: the statement may succeed when it is repeated.
pub(super) fn within_newer(error: SqlError, table: &TableInfo) -> SqlError {
    match error.engine() {
        Some(engine::Error::WithinChange) => {
            engine::Error::WriteConflict { table: table.name.clone(), is_deleted: false }.into()
        }
        _ => error,
    }
}
