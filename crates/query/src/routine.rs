//! Bodies of SQL routines, bound and planned.
//!
//! **Invariant:** a planned body depends on the state of the catalog and the search path that it was bound by, and on
//! settings by which literals are read.

use crate::bind::{
    Binder, BoundChange, BoundQuery, NameScope, as_result, column_info, converted, has_result, no_result, settled,
};
use crate::change::Modify;
use crate::keyed::{Keyed, KeyedUpdate, RowKey};
use crate::plan::{ColumnInfo, Plan, TableUse, Typed};
use crate::planner::{Planner, RowPlan, TableSizes};
use catalog::rights::RelationNeed;
use catalog::{CatalogState, Routine, RoutineBody, RoutineResult, SessionContext, TableInfo, Volatility};
use statement::error::{SqlError, SqlResult, SqlState};
use std::sync::Arc;
use syntax::ast::{ExprKind, LockStrength, Statement, TransactionCommand};

/// Body of a routine, ready to run.
#[derive(Debug)]
pub struct PlannedBody {
    /// Statements in order.
    pub statements: Vec<BodyStatement>,
    /// First statement that the current role may not run, with its error.
    pub denied: Option<(usize, SqlError)>,
}

/// Statement of a body.
#[derive(Debug)]
pub struct BodyStatement {
    /// Work of the statement.
    pub work: BodyWork,
    /// The same without the executor's operators; `None` if the plan has to run.
    pub keyed: Option<Keyed>,
    /// Locks on tables that the statement takes before it begins.
    pub uses: Vec<TableUse>,
    /// Rights that it needs.
    pub needs: Vec<RelationNeed>,
    /// Tables that it names.
    pub tables: Vec<Arc<TableInfo>>,
    /// True if its rows are the routine's result.
    pub is_result: bool,
    /// Sizes of tables on which the plan depends.
    sizes: TableSizes,
}

impl BodyStatement {
    /// Returns false if tables have grown or shrunk so much that another plan may be better.
    pub fn is_current(&self) -> bool {
        self.sizes.are_current()
    }

    /// Checks that the statement changes nothing.
    ///
    /// # Errors
    /// `0A000`, in the words of a routine that has promised this.
    pub fn check_changes_nothing(&self) -> SqlResult<()> {
        let words = match &self.work {
            BodyWork::Change(modify) => modify.change.verb(),
            BodyWork::Rows(plan) => match &**plan {
                Plan::Modifying { .. } => "SELECT",
                _ => return Ok(()),
            },
            BodyWork::Locking(words, _) => words,
            BodyWork::Refused(_) => return Ok(()),
        };
        let message = format!("{words} is not allowed in a non-volatile function");
        Err(SqlError::new(SqlState::FEATURE_NOT_SUPPORTED, message))
    }

    /// Returns the table and the key of the row that the statement begins with, if it is a keyed one.
    pub fn keyed_row(&self) -> Option<(&TableInfo, &RowKey)> {
        match (self.keyed.as_ref()?, &self.work) {
            (Keyed::Read(read), _) => Some((&read.table, &read.key)),
            (Keyed::Update(KeyedUpdate { key, .. }) | Keyed::Delete(key), BodyWork::Change(modify)) => {
                Some((modify.change.table(), key))
            }
            (Keyed::Insert | Keyed::Update(_) | Keyed::Delete(_), _) => None,
        }
    }
}

impl PlannedBody {
    /// Checks what a call checks before its first statement runs: none of them ends the transaction, and those of a
    /// routine that is not volatile change nothing.
    ///
    /// # Errors
    /// `0A000`
    pub fn check_statements(&self, volatility: Volatility) -> SqlResult<()> {
        self.statements.iter().try_for_each(|statement| match &statement.work {
            BodyWork::Refused(error) => Err(error.clone()),
            BodyWork::Rows(_) | BodyWork::Locking(..) | BodyWork::Change(_) => match volatility {
                Volatility::Volatile => Ok(()),
                Volatility::Stable | Volatility::Immutable => statement.check_changes_nothing(),
            },
        })
    }

    /// Returns false if tables have grown or shrunk so much that other plans may be better.
    pub fn is_current(&self) -> bool {
        self.statements.iter().all(BodyStatement::is_current)
    }
}

/// Work of a statement of a body.
#[derive(Debug)]
pub enum BodyWork {
    /// Query.
    Rows(RowPlan),
    /// Query that locks rows, with its words: `SELECT FOR UPDATE`.
    Locking(&'static str, RowPlan),
    /// INSERT, UPDATE or DELETE.
    Change(Box<Modify>),
    /// Statement that no SQL routine may run, with the error that a call gets.
    Refused(SqlError),
}

impl BodyWork {
    /// Returns the keyed statement that does this work, if there is one.
    fn keyed(&self) -> Option<Keyed> {
        match self {
            BodyWork::Rows(plan) | BodyWork::Locking(_, plan) => Keyed::of_query(plan),
            BodyWork::Change(modify) => Keyed::of_change(modify),
            BodyWork::Refused(_) => None,
        }
    }
}

/// Binds and plans the body of a routine.
///
/// # Errors
/// Errors of syntax, names and types, with positions in the body's text; `42P13` if the body does not
/// return the declared type; `0A000` for statements that cannot be part of a body.
pub fn plan_body(
    routine: &Arc<Routine>,
    catalog: &CatalogState,
    path: &[String],
    env: &dyn SessionContext,
) -> SqlResult<PlannedBody> {
    let mut statements = Vec::new();
    match &routine.body {
        RoutineBody::Return(text) => {
            let binder = Binder::of_body(routine, catalog, path, text, env);
            let tree = syntax::grammar::expression(text)?;
            let scope = NameScope::default();
            // A row constructor gives the columns of a result with several.
            let is_row =
                matches!(tree.kind, ExprKind::Row { .. }) && !matches!(routine.result, RoutineResult::Value(_));
            let values = if is_row { binder.row_values(&tree, &scope)? } else { vec![binder.expr(&tree, &scope)?] };
            let column = |value: &Typed| column_info(&*routine.name, settled(value.kind));
            let infos = values.iter().map(column).collect();
            let columns = values.into_iter().map(|value| value.expr).collect();
            let plan = Plan::Project { input: Box::new(Plan::Unit), columns };
            statements.push(planned(Bound::Rows(plan, infos), &binder, routine, catalog, true)?);
        }
        RoutineBody::Code { .. } => {
            return Err(SqlError::new(SqlState::INTERNAL_ERROR, "the body of the routine is no SQL"));
        }
        RoutineBody::Text(body) | RoutineBody::Atomic(body) => {
            let parsed = syntax::grammar::parse(body)?;
            let last = parsed.len().checked_sub(1);
            for (at, parsed) in parsed.iter().enumerate() {
                let text = parsed.extent.of(body);
                let binder = Binder::of_body(routine, catalog, path, text, env);
                let before = body[..parsed.extent.start as usize].chars().count();
                let is_last = Some(at) == last;
                if is_last && has_result(routine) && !may_have_rows(&parsed.statement) {
                    return Err(no_result(routine, catalog));
                }
                let planned = bound(&binder, &parsed.statement)
                    .and_then(|bound| planned(bound, &binder, routine, catalog, is_last));
                statements.push(planned.map_err(|error| error.moved(before))?);
            }
        }
    }
    if statements.is_empty() && has_result(routine) {
        return Err(no_result(routine, catalog));
    }
    Ok(PlannedBody { statements, denied: None })
}

/// Returns true if PostgreSQL's planner meets an error of [`plan_body`] before a call does: it binds the body of a
/// function of one statement to see whether it can take the place of the call.
pub fn is_met_by_planner(routine: &Routine, error: &SqlError) -> bool {
    let is_plain = !routine.is_set && !routine.is_security_definer && routine.settings.is_empty();
    let is_known = routine.volatility == Volatility::Immutable;
    if !is_plain || is_known || !matches!(routine.result, RoutineResult::Value(_) | RoutineResult::Relation(_)) {
        return false;
    }
    let RoutineBody::Text(body) = &routine.body else { return false };
    match syntax::grammar::parse(body).as_deref() {
        Err(_) => true,
        Ok([one]) => match &one.statement {
            Statement::Query(_) => true,
            one => may_have_rows(one) && error.state() != SqlState::INVALID_FUNCTION_DEFINITION,
        },
        Ok(_) => false,
    }
}

/// Binds and plans a statement that stands alone. Returns the columns of its result, if it has one.
///
/// # Errors
/// As [`plan_body`].
pub(crate) fn alone(binder: &Binder<'_>, statement: &Statement) -> SqlResult<(BodyStatement, Option<Vec<ColumnInfo>>)> {
    let mut planner = Planner::default();
    let (work, columns) = match bound(binder, statement)? {
        Bound::Rows(plan, columns) => (BodyWork::Rows(planner.query(plan)?), Some(columns)),
        Bound::Locking(words, plan, columns) => (BodyWork::Locking(words, planner.query(plan)?), Some(columns)),
        Bound::Refused(error) => return Err(error),
        Bound::Change(change) => {
            let BoundChange { mut modify, columns } = *change;
            planner.change(&mut modify)?;
            (BodyWork::Change(Box::new(modify)), columns)
        }
    };
    let (uses, needs, tables) = (binder.take_uses(), binder.take_needs(), binder.take_tables());
    let is_result = columns.is_some();
    let (keyed, sizes) = (work.keyed(), planner.into_sizes());
    Ok((BodyStatement { work, keyed, uses, needs, tables, is_result, sizes }, columns))
}

/// Statement of a body after binding.
enum Bound {
    Rows(Plan, Vec<ColumnInfo>),
    Locking(&'static str, Plan, Vec<ColumnInfo>),
    Change(Box<BoundChange>),
    Refused(SqlError),
}

fn bound(binder: &Binder<'_>, statement: &Statement) -> SqlResult<Bound> {
    let change = match statement {
        Statement::Query(query) => {
            let BoundQuery { mut plan, mut columns, names: _ } = binder.query(query, None)?;
            columns.iter_mut().for_each(|column| column.kind = settled(column.kind));
            let modifies = binder.take_modifies();
            if !modifies.is_empty() {
                plan = Plan::Modifying { modifies, input: Box::new(plan) };
            }
            return Ok(match query.locking.first() {
                Some(locking) => Bound::Locking(words_of_locking(locking.strength), plan, columns),
                None => Bound::Rows(plan, columns),
            });
        }
        Statement::Insert(insert) => binder.insert(insert)?,
        Statement::Update(update) => binder.update(update)?,
        Statement::Delete(delete) => binder.delete(delete)?,
        Statement::Transaction(command) => {
            let message = format!("{} is not allowed in an SQL function", words_of(command));
            return Ok(Bound::Refused(SqlError::new(SqlState::FEATURE_NOT_SUPPORTED, message)));
        }
        Statement::Unsupported(foreign) => return Err(SqlError::unsupported(&foreign.feature)),
        _ => {
            let word = binder.text.split_whitespace().next().unwrap_or_default().to_uppercase();
            return Err(SqlError::unsupported(format_args!("{word} in the body of a routine")));
        }
    };
    let mut change = change;
    change.modify.with = binder.take_modifies();
    Ok(Bound::Change(Box::new(change)))
}

/// Returns true for the statements that can make the result of a function.
fn may_have_rows(statement: &Statement) -> bool {
    matches!(statement, Statement::Query(_) | Statement::Insert(_) | Statement::Update(_) | Statement::Delete(_))
}

fn words_of_locking(strength: LockStrength) -> &'static str {
    match strength {
        LockStrength::Update => "SELECT FOR UPDATE",
        LockStrength::NoKeyUpdate => "SELECT FOR NO KEY UPDATE",
        LockStrength::Share => "SELECT FOR SHARE",
        LockStrength::KeyShare => "SELECT FOR KEY SHARE",
    }
}

fn words_of(command: &TransactionCommand) -> &'static str {
    match command {
        TransactionCommand::Begin { modes: _, is_start: false } => "BEGIN",
        TransactionCommand::Begin { modes: _, is_start: true } => "START TRANSACTION",
        TransactionCommand::Commit { .. } => "COMMIT",
        TransactionCommand::Rollback { .. } | TransactionCommand::RollbackTo(_) => "ROLLBACK",
        TransactionCommand::Savepoint(_) => "SAVEPOINT",
        TransactionCommand::Release(_) => "RELEASE",
    }
}

fn planned(
    bound: Bound,
    binder: &Binder<'_>,
    routine: &Routine,
    catalog: &CatalogState,
    is_last: bool,
) -> SqlResult<BodyStatement> {
    let is_result = is_last && has_result(routine);
    let mut planner = Planner::default();
    let work = match bound {
        Bound::Rows(plan, columns) => {
            let plan = if is_result { as_result(binder, plan, &columns, routine, catalog)? } else { plan };
            BodyWork::Rows(planner.query(plan)?)
        }
        Bound::Locking(words, plan, columns) => {
            let plan = if is_result { as_result(binder, plan, &columns, routine, catalog)? } else { plan };
            BodyWork::Locking(words, planner.query(plan)?)
        }
        Bound::Refused(error) => BodyWork::Refused(error),
        Bound::Change(change) => {
            let BoundChange { mut modify, columns } = *change;
            if is_result {
                let columns = columns.ok_or_else(|| no_result(routine, catalog))?;
                let returning = modify.returning.take().unwrap_or_default();
                modify.returning = Some(converted(binder, returning, &columns, routine, catalog)?);
            }
            planner.change(&mut modify)?;
            BodyWork::Change(Box::new(modify))
        }
    };
    let (uses, needs, tables) = (binder.take_uses(), binder.take_needs(), binder.take_tables());
    let (keyed, sizes) = (work.keyed(), planner.into_sizes());
    Ok(BodyStatement { work, keyed, uses, needs, tables, is_result, sizes })
}
