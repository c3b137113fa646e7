//! Stored functions in FROM.

use super::from::input;
use super::routines::{CallMeaning, CallStyle, FoundRoutine, of_call};
use super::{Binder, Clause, FromRelation, NameScope, column_info};
use crate::plan::{ColumnInfo, Expr, InputKind, JoinGroup, Plan, SetCall, SetFunction, Slots, rewrite, slots_of};
use catalog::{Relation, Routine, RoutineResult};
use statement::error::{SqlError, SqlResult, SqlState};
use statement::refuse;
use std::sync::Arc;
use syntax::ast::{self, FunctionCall};

impl Binder<'_> {
    /// Binds a stored function in FROM; `None` if the call is one of a built-in function.
    pub(super) fn routine_in_from(
        &self,
        call: &FunctionCall,
        is_numbered: bool,
        alias: Option<&ast::Alias>,
        scope: &mut NameScope<'_>,
    ) -> SqlResult<Option<JoinGroup>> {
        if self.catalog.has_no_routines() {
            return Ok(None);
        }
        // Functions in FROM are lateral even without the keyword.
        let clause = scope.clause.replace(Clause::From);
        scope.is_lateral.set(true);
        let meaning = self.find_routine(call, CallStyle::Function, scope);
        scope.is_lateral.set(false);
        scope.clause.set(clause);
        let FoundRoutine { routine, arguments } = match meaning? {
            CallMeaning::Routine(found) => found,
            CallMeaning::Unknown | CallMeaning::BuiltIn(_) => return Ok(None),
        };
        super::functions::check_plain(call, &routine.name)?;
        if call.over.is_some() {
            return Err(super::window::not_windowed(&routine.name));
        }
        let mut columns = self.columns_of_routine(&routine, alias)?;
        let (first, is_value) = (scope.width, columns.len() == 1);
        if !is_numbered
            && self.may_execute(&routine)
            && let Some(plan) = self.inlined_rows(&routine, &arguments)?
        {
            let width = columns.len();
            let relation = self.relation(&routine.name, alias, columns, first, None)?;
            scope.add(FromRelation { is_value, ..relation }, width)?;
            let source = InputKind::Query { plan: Box::new(plan), is_lateral: false };
            return Ok(Some(input(source, first, width, Slots::default())));
        }
        let mut call = of_call(Arc::clone(&routine), arguments, self.catalog);
        let needs = slots_of(&call);
        let source = if is_value {
            if is_numbered {
                columns.push(column_info("ordinality", types::Kind::Int8.into()));
            }
            let calls = vec![SetCall { function: SetFunction::Routine, arguments: vec![call] }];
            InputKind::Functions { calls, is_numbered }
        } else {
            refuse!(is_numbered => "WITH ORDINALITY of a function with several columns");
            let is_lateral = !needs.is_empty();
            if is_lateral {
                outward(&mut call)?;
            }
            InputKind::Query { plan: Box::new(Plan::Routine(Box::new(call))), is_lateral }
        };
        let width = columns.len();
        let relation = self.relation(&routine.name, alias, columns, first, None)?;
        scope.add(FromRelation { is_value: width == 1, ..relation }, width)?;
        Ok(Some(input(source, first, width, needs)))
    }

    /// Returns the columns of the rows that a function returns in FROM.
    fn columns_of_routine(&self, routine: &Routine, alias: Option<&ast::Alias>) -> SqlResult<Vec<ColumnInfo>> {
        match routine.result {
            RoutineResult::Value(kind) => {
                let output = routine.outputs().next().and_then(|output| output.name.as_deref());
                let alias = alias.and_then(|alias| alias.name.as_deref());
                Ok(vec![column_info(output.or(alias).unwrap_or(&routine.name), kind.into())])
            }
            RoutineResult::Row => {
                let column = |(at, output): (usize, &catalog::RoutineParameter)| {
                    let name = output.name.clone().unwrap_or_else(|| format!("column{}", at + 1));
                    column_info(name, output.kind.into())
                };
                Ok(routine.outputs().enumerate().map(column).collect())
            }
            RoutineResult::Relation(oid) => match self.catalog.relation_numbered(oid) {
                Some(Relation::Table(table)) => {
                    Ok(table.columns.iter().map(|column| column_info(column.name.clone(), column.kind)).collect())
                }
                Some(Relation::View(view)) => {
                    Ok(view.columns.iter().map(|(name, kind)| column_info(name.clone(), *kind)).collect())
                }
                Some(Relation::Sequence(_) | Relation::Index { .. }) | None => {
                    let message = format!("cache lookup failed for type {oid}");
                    Err(SqlError::new(SqlState::INTERNAL_ERROR, message))
                }
            },
            RoutineResult::Record => Err(SqlError::unsupported("a function that returns record")),
            RoutineResult::Nothing => Err(SqlError::new(SqlState::INTERNAL_ERROR, "a function without a result")),
        }
    }
}

/// Moves an expression over the row of a FROM into a lateral query of that FROM.
fn outward(expr: &mut Expr) -> SqlResult<()> {
    rewrite(expr, 0, &mut |expr, depth| match expr {
        Expr::Column(column) if depth == 0 => {
            *expr = Expr::Outer { level: 1, column: *column };
            Ok(true)
        }
        Expr::Outer { level, column: _ } if depth <= *level => {
            *level += 1;
            Ok(true)
        }
        _ => Ok(false),
    })
}
