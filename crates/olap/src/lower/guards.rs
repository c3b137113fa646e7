//! Parts of an expression that must not see rows which earlier parts have decided about.
//!
//! **Invariant:** a part that can fail is not evaluated for a row about which an earlier part decides. For parts that
//! are evaluated row by row, a CASE ensures this. Subqueries are evaluated before, so one that can fail is refused
//! behind a guard.

use super::expr::balanced;
use super::number::case;
use crate::functions::kernels::{self, Kernel};
use crate::functions::{can_raise, part_can_raise};
use crate::values::mismatch;
use datafusion::common::tree_node::{TreeNode, TreeNodeRecursion};
use datafusion::logical_expr::{Expr as Df, LogicalPlan, lit};
use statement::{SqlError, SqlResult};

/// Maximum number of parts of an expression that is copied: nested copies double at each level.
const PARTS_MAX: usize = 4_000;

/// Builds `AND` or `OR`. A part that can raise does not see rows about which an earlier part decides. Unless
/// `is_exact`, null may become false.
pub(super) fn guarded(mut parts: Vec<Df>, is_and: bool, is_exact: bool) -> SqlResult<Df> {
    lazy(parts.iter().skip(1))?;
    let connect = if is_and { Df::and } else { Df::or };
    if parts.is_empty() || !parts[1..].iter().any(can_raise) {
        return balanced(parts, connect).ok_or_else(mismatch);
    }
    let decided = |part: &Df| match (is_and, is_exact) {
        (true, true) => part.clone().is_false(),
        (true, false) => part.clone().is_not_true(),
        (false, _) => part.clone().is_true(),
    };
    let value = lit(i64::from(!is_and));
    let whens = parts[..parts.len() - 1].iter().map(|part| (decided(part), value.clone())).collect();
    let otherwise = if is_exact {
        let mut count = 0;
        for part in &parts {
            // Counting never fails.
            let _ = part.apply(|_| {
                count += 1;
                Ok(TreeNodeRecursion::Continue)
            });
        }
        if PARTS_MAX < count {
            return Err(SqlError::unsupported("so large a condition as analytics"));
        }
        balanced(parts, connect)
    } else {
        parts.pop()
    };
    let otherwise = kernels::call(Kernel::Flag, vec![otherwise.ok_or_else(mismatch)?]);
    Ok(kernels::call(Kernel::Truth, vec![case(whens, otherwise)]))
}

/// Checks parts that may not be evaluated, depending on earlier ones.
///
/// # Errors
/// `0A000` for a subquery that can fail, because it is always evaluated.
pub(super) fn lazy<'e>(parts: impl IntoIterator<Item = &'e Df>) -> SqlResult<()> {
    let is_eager = |part: &Df| {
        Ok(match part {
            Df::ScalarSubquery(query) => !has_one_row(&query.subquery) || plan_can_raise(&query.subquery),
            Df::Exists(exists) => plan_can_raise(&exists.subquery.subquery),
            Df::InSubquery(of) => plan_can_raise(&of.subquery.subquery),
            Df::SetComparison(of) => plan_can_raise(&of.subquery.subquery),
            Df::Alias(_)
            | Df::Column(_)
            | Df::OuterReferenceColumn(..)
            | Df::Literal(..)
            | Df::BinaryExpr(_)
            | Df::Like(_)
            | Df::Not(_)
            | Df::IsNotNull(_)
            | Df::IsNull(_)
            | Df::IsTrue(_)
            | Df::IsFalse(_)
            | Df::IsUnknown(_)
            | Df::IsNotTrue(_)
            | Df::IsNotFalse(_)
            | Df::IsNotUnknown(_)
            | Df::Negative(_)
            | Df::Between(_)
            | Df::Case(_)
            | Df::Cast(_)
            | Df::TryCast(_)
            | Df::InList(_)
            | Df::ScalarFunction(_)
            | Df::AggregateFunction(_)
            | Df::WindowFunction(_) => false,
            // The planner here makes none of these, so nothing is known of them.
            _ => true,
        })
    };
    // The visit does not fail.
    if parts.into_iter().any(|part| part.exists(is_eager).unwrap_or(true)) {
        return Err(SqlError::unsupported("a subquery that can fail behind a condition as analytics"));
    }
    Ok(())
}

/// Returns true if a plan never has more than one row.
fn has_one_row(plan: &LogicalPlan) -> bool {
    match plan {
        LogicalPlan::EmptyRelation(_) => true,
        LogicalPlan::Aggregate(aggregate) => aggregate.group_expr.is_empty(),
        LogicalPlan::Projection(projection) => has_one_row(&projection.input),
        LogicalPlan::Filter(filter) => has_one_row(&filter.input),
        LogicalPlan::Join(join) => has_one_row(&join.left) && has_one_row(&join.right),
        // Nothing is known of other operators.
        _ => false,
    }
}

/// Returns true if a plan evaluates a part that can fail.
pub(crate) fn plan_can_raise(plan: &LogicalPlan) -> bool {
    has_part(plan, |part| match part {
        Df::ScalarSubquery(query) => !has_one_row(&query.subquery),
        part => part_can_raise(part),
    })
}

/// Returns true if a plan asks a query for one value that may have more rows.
pub(crate) fn asks_for_one_row(plan: &LogicalPlan) -> bool {
    has_part(plan, |part| matches!(part, Df::ScalarSubquery(query) if !has_one_row(&query.subquery)))
}

/// Returns true if an expression of a plan or of its subqueries has such a part.
fn has_part(plan: &LogicalPlan, is_it: impl Fn(&Df) -> bool) -> bool {
    let mut found = false;
    let looked = plan.apply_with_subqueries(|operator| {
        operator.apply_expressions(|expr| {
            found |= expr.exists(|part| Ok(is_it(part))).unwrap_or(true);
            Ok(if found { TreeNodeRecursion::Stop } else { TreeNodeRecursion::Continue })
        })
    });
    found || looked.is_err()
}
