//! Functions and aggregates that plans of ours call: DataFusion's own where they mean what PostgreSQL's do, ours elsewhere.
//!
//! **Invariant:** each has the answer, display scale included, that the row path's evaluation has. [`rows`] is the general
//! case: it calls the very functions that the row path calls, a row at a time. [`kernels`] and [`sums`] do the same a batch at a
//! time for what large queries spend their time on. [`defined`] is the only way from all of them to DataFusion.

pub(crate) mod defined;
pub(crate) mod kept;
pub(crate) mod kernels;
pub(crate) mod rows;
pub(crate) mod sums;

use datafusion::arrow::error::ArrowError;
use datafusion::common::tree_node::TreeNode;
use datafusion::error::DataFusionError;
use datafusion::logical_expr::{Expr, ScalarUDF};
use datafusion::physical_expr::{PhysicalExpr, ScalarFunctionExpr};
use statement::{SqlError, SqlState};
use std::sync::Arc;

/// Returns true for a function of ours that is null if any of its arguments is.
pub(crate) fn is_strict(function: &ScalarUDF) -> bool {
    defined::of(function).is_some_and(defined::Scalar::is_strict)
}

/// Returns true for an expression that fails for some rows.
pub(crate) fn can_raise(expr: &Expr) -> bool {
    // Looking never fails.
    expr.exists(|part| Ok(part_can_raise(part))).unwrap_or(true)
}

/// Returns true for an expression that itself, whatever its parts are, fails for some rows.
pub(crate) fn part_can_raise(part: &Expr) -> bool {
    match part {
        Expr::ScalarFunction(call) => defined::of(&call.func).is_some_and(defined::Scalar::can_raise),
        // A query may have more rows than one, and functions of its own.
        Expr::ScalarSubquery(_) => true,
        // They become joins, which evaluate what they like before the condition is asked.
        Expr::Exists(_) | Expr::InSubquery(_) => false,
        // Arithmetic is a function of ours, and casts only widen.
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
        // Nobody makes these here, so nothing is known of them.
        _ => true,
    }
}

/// The same of an operator's expression.
pub(crate) fn operator_can_raise(expr: &Arc<dyn PhysicalExpr>) -> bool {
    let raises = |part: &Arc<dyn PhysicalExpr>| {
        let call = part.downcast_ref::<ScalarFunctionExpr>();
        call.and_then(|call| defined::of(call.fun())).is_some_and(defined::Scalar::can_raise)
    };
    expr.exists(|part| Ok(raises(part))).unwrap_or(true)
}

/// An error of SQL on its way through DataFusion.
pub(crate) fn outwards(error: SqlError) -> DataFusionError {
    DataFusionError::External(Box::new(error))
}

/// An error of an arithmetic kernel whose result is called so.
pub(crate) fn arithmetic(error: &ArrowError, result: &str) -> DataFusionError {
    outwards(match error {
        ArrowError::DivideByZero => SqlError::new(SqlState::DIVISION_BY_ZERO, "division by zero"),
        ArrowError::ArithmeticOverflow(_) => {
            SqlError::new(SqlState::NUMERIC_VALUE_OUT_OF_RANGE, format!("{result} out of range"))
        }
        other => SqlError::new(SqlState::INTERNAL_ERROR, other.to_string()),
    })
}
