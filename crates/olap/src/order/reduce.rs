//! Groups that nobody will ask for are not made: what a grouped relation is joined with also chooses the rows that it groups
//! (magic sets: Mumick et al., SIGMOD 1990; by cost: Seshadri et al., SIGMOD 1996).
//!
//! **Invariant:** what chooses runs twice, so it has the same rows each time; only rows of groups that the join drops are left
//! out. The condition is on a value that the relation is grouped by, so each group is there with all its rows or not at all.

use super::joined;
use datafusion::common::{Column, JoinType, NullEquality};
use datafusion::error::Result;
use datafusion::logical_expr::{Expr, LogicalPlan, LogicalPlanBuilder, SubqueryAlias};
use std::sync::Arc;

/// Values that others have to be among.
pub(super) struct Wanted<'p> {
    /// Where they come from, and by what.
    pub plan: &'p LogicalPlan,
    pub value: &'p Expr,
    /// For a column that nobody else has.
    pub name: String,
}

/// The plan whose groups by this column are among those wanted; nothing if it has no such groups.
pub(super) fn reduced(plan: &LogicalPlan, column: &Column, wanted: &Wanted<'_>) -> Result<Option<LogicalPlan>> {
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

/// The column of the aliased plan that a column of the alias is.
pub(super) fn inside_alias(alias: &SubqueryAlias, column: &Column) -> Option<Column> {
    let at = alias.schema.maybe_index_of_column(column)?;
    Some(Column::from(alias.input.schema().qualified_field(at)))
}

fn rebuilt(plan: &LogicalPlan, input: Option<LogicalPlan>) -> Result<Option<LogicalPlan>> {
    input.map(|input| plan.with_new_exprs(plan.expressions(), vec![input])).transpose()
}
