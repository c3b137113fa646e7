//! Calls of code that runs on another thread than its session's statements: each is a statement of the session.

use super::code::{CodeCalls, CodeCursor};
use super::{Flow, RowStack, Run};
use catalog::{Module, Routine};
use procs::calls::TypesOf;
use procs::ends::Deadline;
use procs::{Artifact, EngineCalls, Executed, StatementHandle, TableHandle};
use query::plan::RoutineCall;
use statement::error::{SqlError, SqlResult, SqlState};
use std::collections::BTreeMap;
use std::sync::Arc;
use types::SqlType;
use types::datum::Datum;

/// Call of code that runs on another thread than its session's statements.
#[derive(Debug)]
#[allow(missing_docs, reason = "the names are those of the calls")]
pub(crate) enum StepCall {
    Types(TypesOf),
    Get { table: TableHandle, key: Vec<Datum>, locks: bool },
    Put { table: TableHandle, row: Vec<Datum>, is_new: bool },
    Delete { table: TableHandle, key: Vec<Datum> },
    Scan { table: TableHandle, prefix: Vec<Datum>, is_descending: bool },
    Execute { statement: StatementHandle, parameters: Vec<Datum> },
}

/// Answer to such a call.
pub(crate) enum StepAnswer {
    /// Types of columns.
    Types(Arc<[SqlType]>),
    /// Row, if there is one.
    Row(Option<Box<[Datum]>>),
    /// True if there was a row.
    Found(bool),
    /// Rows that were changed or returned; the cursor over the latter, if there are any.
    Executed(u64, Option<CodeCursor>),
    Nothing,
}

impl Run<'_> {
    /// Evaluates the arguments of a procedure, and checks that the current role may call it.
    pub(crate) fn procedure_arguments(&self, call: &RoutineCall) -> SqlResult<Vec<Datum>> {
        let rows = RowStack { row: &[], outer: None };
        let arguments = call.arguments.iter().map(|argument| self.value(argument, &rows)).collect();
        self.check_execute(&call.routine)?;
        arguments
    }

    /// Makes one call of code as a statement. Counts rows down from `left`. The code has begun with the module `begun`,
    /// and its handles are numbers of that manifest.
    ///
    /// # Errors
    /// `55000`: the module is another now. Those of the call.
    pub(crate) fn code_step(
        &self,
        routine: &Routine,
        begun: &Arc<Module>,
        (call, deadline): (&StepCall, Option<Deadline>),
        left: &mut Option<u64>,
    ) -> SqlResult<StepAnswer> {
        let (module, _) =
            routine.module().ok_or_else(|| SqlError::new(SqlState::INTERNAL_ERROR, "a step of a routine in SQL"))?;
        let code = self.env.code.module(module, self.catalog, self.path, self.env)?;
        check_same(begun, code.module(), routine)?;
        let clock = self.env.code.clock();
        let mut calls = CodeCalls {
            run: self,
            code: &code,
            clock: clock.as_deref(),
            routine,
            result: Arc::from([]),
            cursors: BTreeMap::new(),
            last_cursor: 0,
            emitted: Vec::new(),
            deadline,
            rows_left: *left,
        };
        let answer = calls.step(call)?;
        *left = calls.rows_left;
        Ok(answer)
    }
}

/// Checks that a module still has the manifest and the code with which a procedure began: between its transactions no
/// lock keeps others from replacing it.
///
/// # Errors
/// `55000`
fn check_same(begun: &Arc<Module>, now: &Arc<Module>, routine: &Routine) -> SqlResult<()> {
    let digest = |module: &Module| {
        let (level, _) = routine.level()?;
        module.artifact(level.artifact()).map(Artifact::digest)
    };
    if Arc::ptr_eq(begun, now) || begun.manifest == now.manifest && digest(begun) == digest(now) {
        return Ok(());
    }
    let message = format!("module \"{}\" has changed", now.name);
    let detail = "It was replaced after the procedure had begun.";
    Err(SqlError::new(SqlState::OBJECT_NOT_IN_PREREQUISITE_STATE, message).detail(detail))
}

impl CodeCalls<'_, '_> {
    fn step(&mut self, call: &StepCall) -> SqlResult<StepAnswer> {
        Ok(match call {
            StepCall::Types(of) => StepAnswer::Types(match *of {
                TypesOf::Key(table) => self.key(table)?,
                TypesOf::Columns(table) => self.columns(table)?,
                TypesOf::Parameters(statement) => self.parameters(statement)?,
            }),
            StepCall::Get { table, key, locks } => {
                let mut found = None;
                self.get(*table, key, *locks, &mut |row| {
                    found = Some(row.into());
                    Ok(Flow::Break(()))
                })?;
                StepAnswer::Row(found)
            }
            StepCall::Put { table, row, is_new } => {
                self.put(*table, row, *is_new)?;
                StepAnswer::Nothing
            }
            StepCall::Delete { table, key } => StepAnswer::Found(self.delete(*table, key)?),
            StepCall::Scan { table, prefix, is_descending } => {
                let cursor = self.scan(*table, prefix, *is_descending)?;
                self.executed(Executed { rows: 0, cursor: Some(cursor) })
            }
            StepCall::Execute { statement, parameters } => {
                let executed = EngineCalls::execute(self, *statement, parameters)?;
                self.executed(executed)
            }
        })
    }

    fn executed(&mut self, executed: Executed) -> StepAnswer {
        let cursor = executed.cursor.and_then(|cursor| self.cursors.remove(&cursor.0));
        StepAnswer::Executed(executed.rows, cursor)
    }
}
