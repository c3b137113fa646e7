//! Correlated subqueries that DataFusion makes joins of.
//!
//! DataFusion moves the conditions that look at the enclosing row to the subquery's top (`PullUpCorrelatedExpr`), past everything
//! that stands between. That is right only past operators that do the same to the rows of one enclosing row whether those of
//! others are there or not. **Invariant:** nothing else stands between in a subquery that leaves this module.
//!
//! A total is such an operator for a scalar subquery alone: grouped by what the condition compares, it has no row where nothing
//! belongs to the enclosing row, and only there DataFusion puts the value of no rows back ("count bug"). It loses that value at
//! a condition above the total, and where its rules have made a constant of what is computed. **Invariant:** a total in a
//! correlated subquery has one projection above it and no condition ([`TotalSubquery`]), and the projection's value
//! looks at the total whatever rules make of it ([`Kernel::Beside`]).

use super::guards::guarded;
use super::{LoweredExpr, LoweredPlan, Lowering};
use crate::functions::kernels::{self, Kernel};
use crate::values::{Repr, mismatch};
use datafusion::common::ScalarValue;
use datafusion::common::tree_node::{Transformed, TransformedResult, TreeNode, TreeNodeRecursion};
use datafusion::error::DataFusionError;
use datafusion::logical_expr::{Expr as Df, JoinType, LogicalPlan, Projection};
use statement::{SqlError, SqlResult};

/// Greatest number of parts of a value and its conditions once they look at the total itself.
const PARTS_MAX: usize = 4_000;

/// Use of a subquery.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum SubqueryUse {
    /// One value, of a scalar subquery.
    Value,
    /// Rows, of EXISTS and IN.
    Rows,
}

/// A scalar subquery over a total: its value, and the conditions that its one row has to meet, the innermost first. All of
/// them look at the total's own columns.
pub(super) struct TotalSubquery<'p> {
    total: &'p LogicalPlan,
    value: Df,
    conditions: Vec<Df>,
}

impl<'p> TotalSubquery<'p> {
    /// The total at the foot of a correlated subquery with this value; nothing if there is none.
    ///
    /// # Errors
    /// `0A000` for what DataFusion does not evaluate over no rows.
    pub(super) fn of(plan: &'p LogicalPlan, value: Df) -> SqlResult<Option<TotalSubquery<'p>>> {
        let mut total = plan;
        let mut value = value;
        let mut conditions: Vec<Df> = Vec::new();
        loop {
            total = match total {
                LogicalPlan::Projection(projection) => {
                    value = behind(value, projection)?;
                    conditions = conditions
                        .into_iter()
                        .map(|condition| behind(condition, projection))
                        .collect::<SqlResult<_>>()?;
                    limit([&value].into_iter().chain(&conditions))?;
                    &projection.input
                }
                LogicalPlan::Filter(filter) => {
                    conditions.insert(0, filter.predicate.clone());
                    &filter.input
                }
                // The order of one row is of no matter.
                LogicalPlan::Sort(sort) => &sort.input,
                LogicalPlan::Aggregate(aggregate) if aggregate.group_expr.is_empty() => break,
                // All else has rows of its own, or none.
                _ => return Ok(None),
            };
        }
        for part in [&value].into_iter().chain(&conditions) {
            if part.contains_outer() {
                return Err(SqlError::unsupported("a value of the enclosing row beside a total as analytics"));
            }
            let asks = |part: &Df| Ok(matches!(part, Df::ScalarSubquery(_) | Df::Exists(_) | Df::InSubquery(_)));
            if part.exists(asks).unwrap_or(true) {
                return Err(SqlError::unsupported("a subquery beside a correlated total as analytics"));
            }
        }
        Ok(Some(TotalSubquery { total, value, conditions }))
    }
}

impl Lowering<'_> {
    /// A subquery of one column, null where a condition does not hold.
    pub(super) fn total(&self, of: TotalSubquery<'_>, repr: Repr) -> SqlResult<LoweredPlan> {
        let TotalSubquery { total, value, conditions } = of;
        let mut value = LoweredExpr::of(value, repr);
        if !conditions.is_empty() && !statement::plants::is_planted("having_of_total_lost") {
            let null = LoweredExpr::of(Df::Literal(ScalarValue::Null, None), Repr::Null);
            value = self.settled(self.choice(vec![(guarded(conditions, true, false)?, value)], null)?);
        }
        let LoweredExpr { expr, repr, .. } = value;
        let column = total.schema().columns().into_iter().next().ok_or_else(mismatch)?;
        let value = match statement::plants::is_planted("value_of_no_rows_lost") {
            true => kernels::call(Kernel::OrNull(repr), vec![expr]),
            false => kernels::call(Kernel::Beside(repr), vec![expr, Df::Column(column)]),
        };
        self.project(total.clone(), vec![(value, repr)])
    }
}

/// An expression over a projection's columns as one over those of its input.
fn behind(expr: Df, projection: &Projection) -> SqlResult<Df> {
    let inward = |part: Df| {
        let Df::Column(column) = &part else { return Ok(Transformed::no(part)) };
        let at = projection.schema.maybe_index_of_column(column);
        let own = at.and_then(|at| projection.expr.get(at));
        let own = own.ok_or_else(|| DataFusionError::Plan(format!("{column} is not of the projection")))?;
        Ok(Transformed::new(own.clone().unalias(), true, TreeNodeRecursion::Jump))
    };
    expr.transform_down(inward).data().map_err(super::refused)
}

/// Checks how large expressions have become.
///
/// # Errors
/// `0A000`
fn limit<'e>(exprs: impl Iterator<Item = &'e Df>) -> SqlResult<()> {
    let mut count = 0;
    for expr in exprs {
        // Counting never fails.
        let _ = expr.apply(|_| {
            count += 1;
            Ok(if count <= PARTS_MAX { TreeNodeRecursion::Continue } else { TreeNodeRecursion::Stop })
        });
    }
    if PARTS_MAX < count {
        return Err(SqlError::unsupported("a value as large as this one as analytics"));
    }
    Ok(())
}

/// Checks that a subquery's conditions may be moved to its top.
///
/// # Errors
/// `0A000`
pub(super) fn check(plan: &LogicalPlan, of: SubqueryUse) -> SqlResult<()> {
    match plan {
        LogicalPlan::Projection(projection) if of == SubqueryUse::Value => match &*projection.input {
            LogicalPlan::Aggregate(aggregate) if aggregate.group_expr.is_empty() => below(&aggregate.input),
            _ => below(plan),
        },
        _ => below(plan),
    }
}

/// Checks what stands from here on down.
fn below(plan: &LogicalPlan) -> SqlResult<()> {
    if plan.all_out_ref_exprs().is_empty() {
        return Ok(());
    }
    match plan {
        LogicalPlan::Filter(filter) => below(&filter.input),
        LogicalPlan::Projection(projection) => below(&projection.input),
        LogicalPlan::SubqueryAlias(alias) => below(&alias.input),
        LogicalPlan::Aggregate(aggregate) => match &aggregate.group_expr[..] {
            [] => Err(refused("a total")),
            keys if keys.iter().any(|key| matches!(key, Df::GroupingSet(_))) => Err(refused("grouping sets")),
            _ => below(&aggregate.input),
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
                below(input)?;
            }
            Ok(())
        }
        // The order of rows is of no matter where no limit stands above it.
        LogicalPlan::Sort(sort) => below(&sort.input),
        LogicalPlan::Distinct(distinct) => match distinct {
            datafusion::logical_expr::Distinct::All(input) => below(input),
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
