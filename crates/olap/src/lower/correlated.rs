//! Correlated subqueries that DataFusion makes joins of.
//!
//! DataFusion moves the conditions that look at the enclosing row to the subquery's top (`PullUpCorrelatedExpr`), past everything
//! that stands between. That is right only past operators that do the same to the rows of one enclosing row whether those of
//! others are there or not. **Invariant:** nothing else stands between in a subquery that leaves this module.
//!
//! A total is such an operator for a scalar subquery alone: grouped by what the condition compares, it has no row where nothing
//! belongs to the enclosing row, and only there DataFusion puts the value of no rows back ("count bug").

use datafusion::logical_expr::{Expr as Df, JoinType, LogicalPlan};
use sql::{SqlError, SqlResult};

/// Use of a subquery.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Use {
    /// One value, of a scalar subquery.
    Value,
    /// Rows, of EXISTS and IN.
    Rows,
}

/// Checks that a subquery's conditions may be moved to its top.
///
/// # Errors
/// `0A000`
pub(super) fn check(plan: &LogicalPlan, of: Use) -> SqlResult<()> {
    below(plan, of == Use::Value)
}

/// Checks what stands from here on down. `total` says that a total may be there.
fn below(plan: &LogicalPlan, total: bool) -> SqlResult<()> {
    if plan.all_out_ref_exprs().is_empty() {
        return Ok(());
    }
    match plan {
        LogicalPlan::Filter(filter) => below(&filter.input, total),
        LogicalPlan::Projection(projection) => below(&projection.input, total),
        LogicalPlan::SubqueryAlias(alias) => below(&alias.input, total),
        LogicalPlan::Aggregate(aggregate) => match &aggregate.group_expr[..] {
            [] if total => below(&aggregate.input, false),
            [] => Err(refused("a total")),
            keys if keys.iter().any(|key| matches!(key, Df::GroupingSet(_))) => Err(refused("grouping sets")),
            _ => below(&aggregate.input, false),
        },
        LogicalPlan::Join(join) => {
            let (left, right) = match join.join_type {
                JoinType::Inner => (true, true),
                JoinType::Left | JoinType::LeftSemi | JoinType::LeftAnti | JoinType::LeftMark => (true, false),
                JoinType::Right | JoinType::RightSemi | JoinType::RightAnti | JoinType::RightMark => (false, true),
                JoinType::Full => (false, false),
            };
            for (input, may_look_out) in [(&join.left, left), (&join.right, right)] {
                if !may_look_out && !input.all_out_ref_exprs().is_empty() {
                    return Err(refused("an outer join"));
                }
                below(input, false)?;
            }
            Ok(())
        }
        // The order of rows is of no matter where no limit stands above it.
        LogicalPlan::Sort(sort) => below(&sort.input, total),
        LogicalPlan::Distinct(distinct) => match distinct {
            datafusion::logical_expr::Distinct::All(input) => below(input, false),
            datafusion::logical_expr::Distinct::On(_) => Err(refused("DISTINCT ON")),
        },
        LogicalPlan::Limit(_) => Err(refused("LIMIT or OFFSET")),
        LogicalPlan::Window(_) => Err(refused("a window function")),
        LogicalPlan::Union(_) => Err(refused("UNION")),
        // DataFusion may get other operators: none is known to be safe, so each is refused.
        _ => Err(refused("this")),
    }
}

fn refused(what: &str) -> SqlError {
    SqlError::unsupported(format_args!("a correlated subquery below {what} as analytics"))
}
