//! Correlated subqueries, which DataFusion turns into joins.
//!
//! DataFusion moves conditions on the enclosing row to the top of the subquery (`PullUpCorrelatedExpr`), past all
//! operators between. That is correct only for operators that treat the rows of one enclosing row independently of
//! those of others. **Invariant:** a subquery that leaves this module has no other operators there.
//!
//! A total is such an operator only in a scalar subquery: grouped by the compared columns, it has no row where nothing
//! belongs to the enclosing row, and DataFusion restores the value over no rows only there ("count bug"). That value
//! is lost at a condition above the total, and where its rules make a constant of the result. **Invariant:** a total
//! in a correlated subquery has one projection above it and no condition ([`TotalSubquery`]), and the projection's
//! value depends on the total whatever the rules make of it ([`Kernel::Beside`]).

use super::guards::guarded;
use super::{LoweredExpr, LoweredPlan, Lowering};
use crate::functions::kernels::{self, Kernel};
use crate::values::{Repr, mismatch};
use datafusion::common::ScalarValue;
use datafusion::common::tree_node::{Transformed, TransformedResult, TreeNode, TreeNodeRecursion};
use datafusion::error::DataFusionError;
use datafusion::logical_expr::{Expr as Df, JoinType, LogicalPlan, Projection};
use statement::{SqlError, SqlResult};

/// Maximum number of parts of a value and its conditions over the total itself.
const PARTS_MAX: usize = 4_000;

/// Use of a subquery.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum SubqueryUse {
    /// Value of a scalar subquery.
    Value,
    /// Rows for EXISTS and IN.
    Rows,
}

/// Scalar subquery over a total: its value, and the conditions on its one row, the innermost first. All are
/// expressions over the total's own columns.
pub(super) struct TotalSubquery<'p> {
    total: &'p LogicalPlan,
    value: Df,
    conditions: Vec<Df>,
}

impl<'p> TotalSubquery<'p> {
    /// Returns the total at the bottom of a correlated subquery with this value, if there is one.
    ///
    /// # Errors
    /// `0A000` for an aggregate that DataFusion cannot evaluate over no rows.
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
                // The order of a single row does not matter.
                LogicalPlan::Sort(sort) => &sort.input,
                LogicalPlan::Aggregate(aggregate) if aggregate.group_expr.is_empty() => break,
                // Other operators have rows of their own, or none.
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
    /// Returns a subquery of one column, which is null where a condition is not true.
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

/// Rewrites an expression over a projection's columns to one over its input's.
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

/// Checks the size of expressions.
///
/// # Errors
/// `0A000`
fn limit<'e>(exprs: impl Iterator<Item = &'e Df>) -> SqlResult<()> {
    let mut count = 0;
    for expr in exprs {
        // The visit does not fail.
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

/// Checks this operator and those below it.
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
        // The order of rows does not matter without a LIMIT above.
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
