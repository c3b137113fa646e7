//! Conversion of the rows of a body to the result of its routine.

use super::Binder;
use crate::plan::{ColumnInfo, Expr, Plan, Typed};
use catalog::{CatalogState, Relation, Routine, RoutineResult};
use statement::error::{SqlError, SqlResult, SqlState};
use types::ops::CastContext;
use types::{Kind, SqlType};

/// Returns true if the last statement of the body makes the result.
pub fn has_result(routine: &Routine) -> bool {
    !matches!(routine.result, RoutineResult::Nothing | RoutineResult::Value(Kind::Void))
}

/// Returns the types of the columns of a routine's result.
///
/// # Errors
/// `0A000` for a result whose columns each call declares.
pub fn result_kinds(routine: &Routine, catalog: &CatalogState) -> SqlResult<Vec<SqlType>> {
    match routine.result {
        RoutineResult::Nothing => Ok(Vec::new()),
        RoutineResult::Value(kind) => Ok(vec![kind.into()]),
        RoutineResult::Row => Ok(routine.outputs().map(|output| output.kind.into()).collect()),
        RoutineResult::Relation(oid) => match catalog.relation_numbered(oid) {
            Some(Relation::Table(table)) => Ok(table.columns.iter().map(|column| column.kind).collect()),
            Some(Relation::View(view)) => Ok(view.columns.iter().map(|(_, kind)| *kind).collect()),
            Some(Relation::Sequence(_) | Relation::Index { .. }) | None => {
                Err(SqlError::new(SqlState::INTERNAL_ERROR, format!("cache lookup failed for type {oid}")))
            }
        },
        RoutineResult::Record => Err(SqlError::unsupported("a function that returns record")),
    }
}

/// Converts the rows of the last statement to the routine's result.
///
/// # Errors
/// `42P13` if they do not have its types.
pub fn as_result(
    binder: &Binder<'_>,
    plan: Plan,
    columns: &[ColumnInfo],
    routine: &Routine,
    catalog: &CatalogState,
) -> SqlResult<Plan> {
    let kinds = result_kinds(routine, catalog)?;
    if columns.len() == kinds.len() && columns.iter().zip(&kinds).all(|(column, kind)| column.kind.kind == kind.kind) {
        return Ok(plan);
    }
    let values = (0..columns.len()).map(Expr::Column).collect();
    let columns = converted(binder, values, columns, routine, catalog)?;
    Ok(Plan::Project { input: Box::new(plan), columns })
}

/// Converts the columns of the last statement, given as expressions, to the routine's result.
///
/// # Errors
/// `42P13` if they do not have its types.
pub fn converted(
    binder: &Binder<'_>,
    values: Vec<Expr>,
    columns: &[ColumnInfo],
    routine: &Routine,
    catalog: &CatalogState,
) -> SqlResult<Vec<Expr>> {
    let kinds = result_kinds(routine, catalog)?;
    let is_row = !matches!(routine.result, RoutineResult::Value(_));
    if columns.len() != kinds.len() {
        let detail = match (is_row, columns.len() < kinds.len()) {
            (false, _) => "Final statement must return exactly one column.",
            (true, true) => "Final statement returns too few columns.",
            (true, false) => "Final statement returns too many columns.",
        };
        return Err(mismatch(routine, catalog).detail(detail));
    }
    let convert = |(at, ((value, column), kind)): (usize, ((Expr, &ColumnInfo), &SqlType))| {
        let typed = Typed::new(value, column.kind);
        let cast = binder.coerce(typed, kind.kind.into(), CastContext::Assignment);
        cast.map(|typed| typed.expr).map_err(|_| {
            let actual = column.kind.name();
            mismatch(routine, catalog).detail(match is_row {
                false => format!("Actual return type is {actual}."),
                true => format!("Final statement returns {actual} instead of {} at column {}.", kind.name(), at + 1),
            })
        })
    };
    values.into_iter().zip(columns).zip(&kinds).enumerate().map(convert).collect()
}

/// Returns the error for a body whose last statement returns something else than declared.
fn mismatch(routine: &Routine, catalog: &CatalogState) -> SqlError {
    let declared = match routine.result {
        RoutineResult::Value(kind) => kind.name(),
        RoutineResult::Relation(oid) => {
            catalog.relation_numbered(oid).map_or_else(String::new, |relation| relation.name().to_owned())
        }
        RoutineResult::Nothing | RoutineResult::Row | RoutineResult::Record => "record".to_owned(),
    };
    let message = format!("return type mismatch in function declared to return {declared}");
    SqlError::new(SqlState::INVALID_FUNCTION_DEFINITION, message)
}

/// Returns the error for a body without a result.
pub fn no_result(routine: &Routine, catalog: &CatalogState) -> SqlError {
    let detail = "Function's final statement must be SELECT or INSERT/UPDATE/DELETE RETURNING.";
    mismatch(routine, catalog).detail(detail)
}
