//! Action of a statement after its names and types are resolved.

use super::{locking, set};
use crate::ddl::role;
use crate::session::cursors::{Declare, Fetch};
use crate::session::explain::Explain;
use crate::session::prepared::Execute;
use query::bind::{Binder, BoundChange, BoundQuery, CopyFrom, CopySource, CopyTo};
use query::change::Modify;
use query::plan::{ColumnInfo, Expr, Plan, RoutineCall};
use query::planner::{Planner, RowPlan};
use settings::roles::change::RoleChange;
use statement::error::{SqlError, SqlResult};
use statement::refuse;
use syntax::ast::{
    CopyCommand, DiscardTarget, DropCommand, FunctionCall, ObjectKind, PrepareCommand, Query, Statement,
    TransactionCommand, UnsupportedStatement,
};

/// Bound statement, ready to run.
#[derive(Debug)]
pub(crate) enum Action {
    Empty,
    Query(Box<PlannedQuery>),
    Change(Box<Modify>),
    Call(Box<ProcedureCall>),
    CopyFrom(Box<CopyFrom>),
    CopyTo(Box<CopyTo>),
    /// Definition, which is bound when it runs.
    Define(Box<Statement>),
    Prepare(Box<PrepareCommand>),
    Execute(Execute),
    Explain(Box<Explain>),
    Declare(Box<Declare>),
    Fetch(Fetch),
    /// Next rows of the portal of this name. The number of rows is its parameter.
    Advance(String),
    /// `None` for all.
    Close(Option<String>),
    /// `None` for all.
    Deallocate(Option<String>),
    /// `LOCK TABLE`: all of its work is in the statement's locks.
    LockTable,
    /// Statement without effect: `UNLISTEN`, as there is no LISTEN.
    Nothing(&'static str),
    /// Statement that only waits for conflicting locks on its tables.
    Maintain {
        words: &'static str,
        /// Tables that are left out, because the role does not own them.
        skipped: Vec<String>,
    },
    Begin {
        modes: TransactionModes,
        is_start: bool,
    },
    /// `COMMIT`, `ROLLBACK`
    End {
        commits: bool,
        /// True for AND CHAIN.
        chain: bool,
    },
    Savepoint(String),
    RollbackTo(String),
    Release(String),
    SetTransaction(TransactionModes),
    /// Modes of future transactions.
    SetCharacteristics(TransactionModes),
    /// `None` resets the setting to its default.
    Set {
        name: String,
        value: Option<String>,
        is_local: bool,
    },
    ResetAll,
    Show(String),
    ShowAll,
    Discard(DiscardTarget),
    Role(RoleChange),
}

/// Query, bound and planned.
#[derive(Debug)]
pub(crate) struct PlannedQuery {
    /// Plan that analytics lowers.
    pub(crate) logical: Plan,
    /// Plan of the row executor.
    pub(crate) rows: RowPlan,
}

impl PlannedQuery {
    /// Returns true if its `WITH` changes rows.
    pub(crate) fn is_modifying(&self) -> bool {
        matches!(*self.rows, Plan::Modifying { .. })
    }
}

/// Call of a procedure.
#[derive(Debug)]
pub(crate) struct ProcedureCall {
    /// Plan whose only row has the output parameters.
    pub(crate) rows: RowPlan,
    /// True if there are output parameters.
    pub(crate) returns_row: bool,
}

impl ProcedureCall {
    /// Returns the call with its arguments.
    pub(crate) fn call(&self) -> Option<&RoutineCall> {
        let Plan::Routine(call) = &*self.rows else { return None };
        let Expr::Routine(call) = &**call else { return None };
        Some(call)
    }
}

/// `ISOLATION LEVEL`, `READ ONLY` and the like, as names and values of settings.
pub(crate) type TransactionModes = Vec<(&'static str, &'static str)>;

/// Properties of an action that do not change when its statement is bound again.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ActionTraits {
    /// True for a single query or change, including one run by `EXECUTE`.
    pub(crate) is_one: bool,
    pub(crate) is_query: bool,
    /// True unless it is a query that changes no rows.
    pub(crate) is_modifying: bool,
    /// True if rows may be sent before the query ends.
    pub(crate) streams: bool,
    /// True if the action is short, or can be undone and run elsewhere.
    pub(crate) can_move: bool,
    /// True if the action is allowed in a failed transaction.
    pub(crate) ends_or_goes_back: bool,
    /// True if the action starts no transaction: it begins or ends a block, sets or shows a setting.
    pub(crate) begins_nothing: bool,
    /// True if the action returns the next rows of a portal.
    pub(crate) advances: bool,
}

impl Action {
    /// Returns the lasting properties.
    pub(crate) fn traits(&self) -> ActionTraits {
        let is_query = matches!(self, Action::Query(_));
        let is_one = match self {
            Action::Execute(execute) => execute.statement().traits.is_one,
            action => matches!(action, Action::Query(_) | Action::Change(_)),
        };
        let begins_nothing = matches!(
            self,
            Action::Empty
                | Action::Begin { .. }
                | Action::End { .. }
                | Action::SetTransaction(_)
                | Action::SetCharacteristics(_)
                | Action::Set { .. }
                | Action::ResetAll
                | Action::Show(_)
                | Action::ShowAll
        );
        ActionTraits {
            is_one,
            is_query,
            is_modifying: !matches!(self, Action::Query(query) if !query.is_modifying()),
            streams: is_query || matches!(self, Action::CopyTo(_)),
            can_move: !matches!(self, Action::Define(_) | Action::Explain(_)),
            ends_or_goes_back: matches!(self, Action::End { .. } | Action::RollbackTo(_) | Action::Empty),
            begins_nothing,
            advances: matches!(self, Action::Advance(_)),
        }
    }

    /// Returns true if the action depends on the catalog.
    pub(crate) fn uses_catalog(&self) -> bool {
        matches!(
            self,
            Action::Query(_)
                | Action::Change(_)
                | Action::Call(_)
                | Action::CopyFrom(_)
                | Action::CopyTo(_)
                | Action::LockTable
                | Action::Maintain { .. }
        )
    }
}

/// Action of a statement, and the columns of its result, if it has one.
type BoundAction = (Action, Option<Vec<ColumnInfo>>);

/// Binds and plans a statement. Returns its action, and the columns of its result, if it has one.
pub(crate) fn of_statement(
    binder: &Binder<'_>,
    planner: &mut Planner,
    statement: &Statement,
) -> SqlResult<BoundAction> {
    let action = match statement {
        Statement::Query(query) => return of_query(binder, planner, query),
        Statement::Insert(insert) => return written(binder, planner, binder.insert(insert)?),
        Statement::Update(update) => return written(binder, planner, binder.update(update)?),
        Statement::Delete(delete) => return written(binder, planner, binder.delete(delete)?),
        Statement::Show(name) => return Ok(set::show(name)),
        Statement::Copy(copy) => of_copy(binder, planner, copy)?,
        Statement::Prepare(prepare) => {
            if let Statement::Unsupported(foreign) = &prepare.statement {
                return Err(unsupported(foreign));
            }
            Action::Prepare(prepare.clone())
        }
        Statement::Deallocate(name) => Action::Deallocate(name.as_ref().map(ToString::to_string)),
        Statement::Close(name) => Action::Close(name.as_ref().map(ToString::to_string)),
        Statement::Transaction(command) => of_transaction(command),
        Statement::Set(command) => set::set(binder, command)?,
        Statement::Reset(name) => set::reset(name),
        Statement::Discard(target) => Action::Discard(*target),
        Statement::Lock(command) => locking::lock(binder, command)?,
        Statement::Maintenance(command) => locking::maintenance(binder, command)?,
        Statement::Constraints(command) => locking::constraints(binder, command)?,
        Statement::Unlisten(_) => Action::Nothing("UNLISTEN"),
        Statement::CreateRole(_)
        | Statement::AlterRole(_)
        | Statement::RenameRole(..)
        | Statement::RoleSetting(_)
        | Statement::GrantRole(_)
        | Statement::Drop(DropCommand { kind: ObjectKind::Role, .. }) => Action::Role(role::change(binder, statement)?),
        Statement::CreateTable(_)
        | Statement::CreateTableAs(_)
        | Statement::CreateIndex(_)
        | Statement::CreateView(_)
        | Statement::CreateSequence(_)
        | Statement::CreateSchema(_)
        | Statement::CreateRoutine(_)
        | Statement::CreateModule(_)
        | Statement::OwnModule(_)
        | Statement::DropModules(_)
        | Statement::AlterTable(_)
        | Statement::AlterSequence(_)
        | Statement::AlterRoutine(_)
        | Statement::Rename(_)
        | Statement::SetSchema(_)
        | Statement::Owner(_)
        | Statement::Drop(_)
        | Statement::DropDatabase(_)
        | Statement::DropRoutines(_)
        | Statement::Truncate(_)
        | Statement::Comment(_)
        | Statement::CommentRoutine(_)
        | Statement::Grant(_)
        | Statement::DefaultPrivileges(_)
        | Statement::DropOwned(_)
        | Statement::ReassignOwned(_) => Action::Define(Box::new(statement.clone())),
        Statement::Call(call) => return of_call(binder, planner, call),
        // The session binds these, since it knows their names.
        Statement::Execute(_) => return Err(SqlError::unsupported("EXECUTE there")),
        Statement::Declare(_) => return Err(SqlError::unsupported("DECLARE there")),
        Statement::Fetch(_) => return Err(SqlError::unsupported("FETCH there")),
        Statement::Explain(_) => return Err(SqlError::unsupported("EXPLAIN there")),
        Statement::Unsupported(foreign) => return Err(unsupported(foreign)),
    };
    Ok((action, None))
}

/// Returns the error for a statement of PostgreSQL that has no meaning here. It has no position, since it is about the
/// whole statement.
fn unsupported(statement: &UnsupportedStatement) -> SqlError {
    let UnsupportedStatement { feature, span: _ } = statement;
    SqlError::unsupported(feature)
}

fn of_query(binder: &Binder<'_>, planner: &mut Planner, tree: &Query) -> SqlResult<BoundAction> {
    let BoundQuery { mut plan, mut columns, names: _ } = binder.query(tree, None)?;
    columns.iter_mut().for_each(|column| column.kind = query::bind::settled(column.kind));
    refuse!(columns.iter().any(|column| column.name.contains('\0')) => "a composite value in a result");
    let modifies = binder.take_modifies();
    if !modifies.is_empty() {
        plan = Plan::Modifying { modifies, input: Box::new(plan) };
    }
    let rows = planner.query(plan.clone())?;
    Ok((Action::Query(Box::new(PlannedQuery { logical: plan, rows })), Some(columns)))
}

/// Binds `CALL`.
fn of_call(binder: &Binder<'_>, planner: &mut Planner, call: &FunctionCall) -> SqlResult<BoundAction> {
    let call = binder.call_of_procedure(call)?;
    let column = |output: &catalog::RoutineParameter| {
        query::bind::column_info(output.name.clone().unwrap_or_default(), output.kind.into())
    };
    let columns: Vec<_> = call.routine.outputs().map(column).collect();
    let returns_row = !columns.is_empty();
    let rows = planner.query(Plan::Routine(Box::new(Expr::Routine(Box::new(call)))))?;
    Ok((Action::Call(Box::new(ProcedureCall { rows, returns_row })), returns_row.then_some(columns)))
}

fn of_copy(binder: &Binder<'_>, planner: &mut Planner, copy: &CopyCommand) -> SqlResult<Action> {
    if let Some(from) = binder.copy_from(copy)? {
        return Ok(Action::CopyFrom(Box::new(from)));
    }
    let mut to = binder.copy_to(copy)?;
    match &mut to.rows {
        CopySource::Query(plan) => planner.in_place(plan)?,
        CopySource::Change(modify) => planner.change(modify)?,
    }
    Ok(Action::CopyTo(Box::new(to)))
}

fn written(binder: &Binder<'_>, planner: &mut Planner, written: BoundChange) -> SqlResult<BoundAction> {
    let BoundChange { mut modify, columns } = written;
    modify.with = binder.take_modifies();
    planner.change(&mut modify)?;
    Ok((Action::Change(Box::new(modify)), columns))
}

fn of_transaction(command: &TransactionCommand) -> Action {
    match command {
        TransactionCommand::Begin { modes, is_start } => {
            Action::Begin { modes: set::modes_of(modes), is_start: *is_start }
        }
        TransactionCommand::Commit { is_chained } => Action::End { commits: true, chain: *is_chained },
        TransactionCommand::Rollback { is_chained } => Action::End { commits: false, chain: *is_chained },
        TransactionCommand::Savepoint(name) => Action::Savepoint(name.to_string()),
        TransactionCommand::Release(name) => Action::Release(name.to_string()),
        TransactionCommand::RollbackTo(name) => Action::RollbackTo(name.to_string()),
    }
}
