//! Reduction of grouped relations: groups that no join will need are not made, as the relation on the other side of the
//! join also filters the rows that are grouped (magic sets: Mumick et al., SIGMOD 1990; by cost: Seshadri et al.,
//! SIGMOD 1996).
//!
//! **Invariant:** the filtering relation runs twice, so it has the same rows each time; only rows of groups that the
//! join drops are left out. The condition is on a value that the relation is grouped by, so each group has all its rows
//! or none.

use super::joined;
use datafusion::common::{Column, JoinType, NullEquality};
use datafusion::error::Result;
use datafusion::logical_expr::{Expr, LogicalPlan, LogicalPlanBuilder, SubqueryAlias};
use std::sync::Arc;

/// Values to which a grouped relation is reduced.
pub(super) struct ReducingValues<'p> {
    /// Plan that has the values, and their expression in it.
    pub plan: &'p LogicalPlan,
    pub value: &'p Expr,
    /// Unique name for the column of the values.
    pub name: String,
}

/// Returns the plan with only the wanted groups by this column; `None` if the plan has no such groups.
pub(super) fn reduced(plan: &LogicalPlan, column: &Column, wanted: &ReducingValues<'_>) -> Result<Option<LogicalPlan>> {
    match plan {
        LogicalPlan::SubqueryAlias(alias) => {
            let Some(inside) = inside_alias(alias, column) else { return Ok(None) };
            rebuilt(plan, reduced(&alias.input, &inside, wanted)?)
        }
        LogicalPlan::Projection(projection) => {
            let at = projection.schema.maybe_index_of_column(column);
            let inside = at.and_then(|at| projection.expr.get(at)).map(|value| value.clone().unalias());
            let Some(Expr::Column(inside)) = inside else { return Ok(None) };
            rebuilt(plan, reduced(&projection.input, &inside, wanted)?)
        }
        LogicalPlan::Filter(filter) => rebuilt(plan, reduced(&filter.input, column, wanted)?),
        LogicalPlan::Aggregate(aggregate) => {
            let at = aggregate.schema.maybe_index_of_column(column);
            let key = at.and_then(|at| aggregate.group_expr.get(at)).map(|key| key.clone().unalias());
            let Some(Expr::Column(key)) = key else { return Ok(None) };
            let chosen = LogicalPlanBuilder::from(wanted.plan.clone());
            let chosen = chosen.project([wanted.value.clone().alias(&wanted.name)])?.build()?;
            let on = vec![(Expr::Column(key), Expr::Column(Column::new_unqualified(&wanted.name)))];
            let (input, chosen) = (Arc::clone(&aggregate.input), Arc::new(chosen));
            let kept = joined(input, chosen, on, None, JoinType::LeftSemi, NullEquality::NullEqualsNothing)?;
            rebuilt(plan, Some(kept))
        }
        _ => Ok(None),
    }
}

/// Returns the column of the aliased plan that a column of the alias stands for.
pub(super) fn inside_alias(alias: &SubqueryAlias, column: &Column) -> Option<Column> {
    let at = alias.schema.maybe_index_of_column(column)?;
    Some(Column::from(alias.input.schema().qualified_field(at)))
}

fn rebuilt(plan: &LogicalPlan, input: Option<LogicalPlan>) -> Result<Option<LogicalPlan>> {
    input.map(|input| plan.with_new_exprs(plan.expressions(), vec![input])).transpose()
}
