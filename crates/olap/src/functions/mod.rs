//! Functions and aggregates that plans of ours call: DataFusion's own where they mean what PostgreSQL's do, ours elsewhere.
//!
//! **Invariant:** each has the answer, display scale included, that the row path's evaluation has. [`rows`] is the general
//! case: it calls the very functions that the row path calls, a row at a time. [`kernels`] and [`sums`] do the same a batch at a
//! time for what large queries spend their time on.

pub(crate) mod kept;
pub(crate) mod kernels;
pub(crate) mod rows;
pub(crate) mod sums;

use datafusion::arrow::error::ArrowError;
use datafusion::error::DataFusionError;
use datafusion::logical_expr::ScalarUDF;
use sql::{SqlError, SqlState};

/// Whether a function is one of ours that is null if any of its arguments is.
pub(crate) fn is_strict(function: &ScalarUDF) -> bool {
    let inner = function.inner();
    inner.downcast_ref::<kernels::Function>().is_some()
        || inner.downcast_ref::<rows::Function>().is_some_and(rows::Function::is_strict)
}

/// An error of SQL on its way through DataFusion.
pub(crate) fn outwards(error: SqlError) -> DataFusionError {
    DataFusionError::External(Box::new(error))
}

/// An error of an arithmetic kernel whose result is called so.
pub(crate) fn arithmetic(error: &ArrowError, result: &str) -> DataFusionError {
    outwards(match error {
        ArrowError::DivideByZero => SqlError::new(SqlState::DIVISION_BY_ZERO, "division by zero"),
        _ => SqlError::new(SqlState::NUMERIC_VALUE_OUT_OF_RANGE, format!("{result} out of range")),
    })
}
