//! Functions and aggregates of plans: DataFusion's own where they mean what PostgreSQL's do, those of this crate
//! elsewhere.
//!
//! **Invariant:** each has the answer, display scale included, of the row path's evaluation. [`rows`] is the general
//! case: it calls the same functions as the row path, a row at a time. [`stored`] calls stored code. [`kernels`] and
//! [`sums`] compute a batch at a time what large queries spend their time on. [`defined`] is the only way from all of them to DataFusion.

pub(crate) mod defined;
pub(crate) mod kept;
pub(crate) mod kernels;
pub(crate) mod rows;
pub(crate) mod stored;
pub(crate) mod sums;

use datafusion::arrow::error::ArrowError;
use datafusion::common::tree_node::TreeNode;
use datafusion::error::DataFusionError;
use datafusion::logical_expr::{Expr, ScalarUDF};
use datafusion::physical_expr::{PhysicalExpr, ScalarFunctionExpr};
use statement::{SqlError, SqlState};
use std::sync::Arc;

/// Returns true for a function of this crate that is null if any of its arguments is.
pub(crate) fn is_strict(function: &ScalarUDF) -> bool {
    defined::of(function).is_some_and(defined::ScalarBody::is_strict)
}

/// Returns true for an expression that fails for some rows.
pub(crate) fn can_raise(expr: &Expr) -> bool {
    // The visitor never fails.
    expr.exists(|part| Ok(part_can_raise(part))).unwrap_or(true)
}

/// Returns true for an expression that itself, apart from its parts, fails for some rows.
pub(crate) fn part_can_raise(part: &Expr) -> bool {
    match part {
        Expr::ScalarFunction(call) => defined::of(&call.func).is_some_and(defined::ScalarBody::can_raise),
        // A subquery may return more than one row, and has functions of its own.
        Expr::ScalarSubquery(_) => true,
        // Both become joins, which may evaluate any part before the condition is asked.
        Expr::Exists(_) | Expr::InSubquery(_) => false,
        // Arithmetic is a function of this crate, and casts only widen.
        Expr::Alias(_)
        | Expr::Column(_)
        | Expr::OuterReferenceColumn(..)
        | Expr::Literal(..)
        | Expr::BinaryExpr(_)
        | Expr::Like(_)
        | Expr::Not(_)
        | Expr::IsNotNull(_)
        | Expr::IsNull(_)
        | Expr::IsTrue(_)
        | Expr::IsFalse(_)
        | Expr::IsUnknown(_)
        | Expr::IsNotTrue(_)
        | Expr::IsNotFalse(_)
        | Expr::IsNotUnknown(_)
        | Expr::Negative(_)
        | Expr::Between(_)
        | Expr::Case(_)
        | Expr::Cast(_)
        | Expr::TryCast(_)
        | Expr::InList(_)
        | Expr::AggregateFunction(_)
        | Expr::WindowFunction(_) => false,
        // These are not made here, so nothing is known of them.
        _ => true,
    }
}

/// Returns true for an operator's expression that fails for some rows.
pub(crate) fn operator_can_raise(expr: &Arc<dyn PhysicalExpr>) -> bool {
    let raises = |part: &Arc<dyn PhysicalExpr>| {
        let call = part.downcast_ref::<ScalarFunctionExpr>();
        call.and_then(|call| defined::of(call.fun())).is_some_and(defined::ScalarBody::can_raise)
    };
    expr.exists(|part| Ok(raises(part))).unwrap_or(true)
}

/// Wraps an SQL error for its way through DataFusion.
pub(crate) fn outwards(error: SqlError) -> DataFusionError {
    DataFusionError::External(Box::new(error))
}

/// Returns the error of an arithmetic kernel, whose result has this name.
pub(crate) fn arithmetic(error: &ArrowError, result: &str) -> DataFusionError {
    outwards(match error {
        ArrowError::DivideByZero => SqlError::new(SqlState::DIVISION_BY_ZERO, "division by zero"),
        ArrowError::ArithmeticOverflow(_) => {
            SqlError::new(SqlState::NUMERIC_VALUE_OUT_OF_RANGE, format!("{result} out of range"))
        }
        other => SqlError::new(SqlState::INTERNAL_ERROR, other.to_string()),
    })
}
