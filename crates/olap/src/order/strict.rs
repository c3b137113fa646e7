//! Outer joins of which a condition above keeps only the matched rows.
//!
//! DataFusion finds them where it knows that a condition is not true of nulls, but it does not know the functions of
//! this crate.

use crate::functions;
use datafusion::common::{DFSchema, JoinType};
use datafusion::logical_expr::{BinaryExpr, Expr, Join, Operator};

/// Returns the type of the join, given that this condition holds for its rows.
pub(super) fn kind_below(join: &Join, condition: &Expr) -> JoinType {
    let rejects = |side: &DFSchema| is_never_true(condition, side);
    match join.join_type {
        JoinType::Left if rejects(join.right.schema()) => JoinType::Inner,
        JoinType::Right if rejects(join.left.schema()) => JoinType::Inner,
        kind => kind,
    }
}

/// Returns true if the condition is never true when all of these columns are null.
fn is_never_true(condition: &Expr, columns: &DFSchema) -> bool {
    match condition {
        Expr::BinaryExpr(BinaryExpr { left, op: Operator::And, right }) => {
            is_never_true(left, columns) || is_never_true(right, columns)
        }
        Expr::BinaryExpr(BinaryExpr { left, op: Operator::Or, right }) => {
            is_never_true(left, columns) && is_never_true(right, columns)
        }
        Expr::BinaryExpr(BinaryExpr {
            left,
            op: Operator::Eq | Operator::NotEq | Operator::Lt | Operator::LtEq | Operator::Gt | Operator::GtEq,
            right,
        }) => is_null(left, columns) || is_null(right, columns),
        _ => false,
    }
}

/// Returns true if the value is null when all of these columns are.
fn is_null(value: &Expr, columns: &DFSchema) -> bool {
    match value {
        Expr::Column(column) => columns.has_column(column),
        Expr::Alias(alias) => is_null(&alias.expr, columns),
        Expr::Cast(cast) => is_null(&cast.expr, columns),
        Expr::Negative(inner) => is_null(inner, columns),
        Expr::ScalarFunction(call) => {
            functions::is_strict(&call.func) && call.args.iter().any(|argument| is_null(argument, columns))
        }
        _ => false,
    }
}
