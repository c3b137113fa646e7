//! Order of joins.
//!
//! DataFusion joins tables in the order in which the statement names them. Here adjacent inner, semi and anti joins are
//! taken apart into relations and conditions, and put together again in the cheapest order that is found ([`search`]);
//! the side that is joined first is the hashed one. Groups that the joins would drop are not made ([`reduce`]). Samples
//! tell the number of rows of a relation ([`estimate`]), so no statistics have to be gathered before, and they are
//! never stale.
//!
//! **Invariant:** a reordered plan has the same rows and the same columns in the same order. An equality of a class is
//! evaluated exactly once between any two parts that both have members of the class; any other condition as soon as all
//! its relations are joined.

mod estimate;
mod graph;
mod lists;
mod reduce;
mod search;
mod strict;
#[cfg(test)]
mod tests;

use crate::barriers::{HideTotals, asked_in_turn};
use datafusion::common::tree_node::{Transformed, TreeNode, TreeNodeRecursion};
use datafusion::common::{JoinConstraint, JoinType, NullEquality};
use datafusion::error::Result;
use datafusion::execution::SessionState;
use datafusion::logical_expr::utils::split_conjunction_owned;
use datafusion::logical_expr::{Distinct, Expr, Join, LogicalPlan, LogicalPlanBuilder};
use datafusion::optimizer::{ApplyOrder, Optimizer, OptimizerConfig, OptimizerRule};
use engine::Snapshot;
use estimate::Estimator;
use graph::JoinGraph;
use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// DataFusion's rule after which joins are ordered: conditions are pushed down as far as possible then, and there are
/// no projections between joins yet.
const AFTER: &str = "push_down_filter";

/// DataFusion's rule that puts joins into the order of the statement. It must not run after they have been reordered.
const ONLY_BEFORE: &str = "eliminate_cross_join";

/// Returns the plan, optimized for a run over this snapshot.
///
/// # Errors
/// Errors of DataFusion.
pub(crate) fn optimized(plan: LogicalPlan, session: &SessionState, snapshot: &Arc<Snapshot>) -> Result<LogicalPlan> {
    let analyzed = session.analyzer().execute_and_check(plan, session.config_options(), |_, _| {})?;
    let is_done = Arc::new(AtomicBool::new(false));
    let mut rules: Vec<Arc<dyn OptimizerRule + Send + Sync>> = Vec::new();
    for rule in &session.optimizer().rules {
        let (rule, name) = (Arc::clone(rule), rule.name().to_owned());
        rules.push(match name.as_str() {
            ONLY_BEFORE => Arc::new(TemporaryRule { rule, is_done: Arc::clone(&is_done) }),
            AFTER => Arc::new(HideTotals(rule)),
            lists::NAME => Arc::new(lists::KeepNulls(rule)),
            _ => rule,
        });
        if name == AFTER {
            rules.push(Arc::new(OrderJoins { snapshot: Arc::clone(snapshot), is_done: Arc::clone(&is_done) }));
        }
    }
    asked_in_turn(Optimizer::with_rules(rules).optimize(analyzed, session, |_, _| {})?)
}

/// Rule that is disabled from some moment on.
#[derive(Debug)]
struct TemporaryRule {
    rule: Arc<dyn OptimizerRule + Send + Sync>,
    is_done: Arc<AtomicBool>,
}

impl OptimizerRule for TemporaryRule {
    fn name(&self) -> &str {
        self.rule.name()
    }

    fn apply_order(&self) -> Option<ApplyOrder> {
        self.rule.apply_order()
    }

    fn rewrite(&self, plan: LogicalPlan, config: &dyn OptimizerConfig) -> Result<Transformed<LogicalPlan>> {
        if self.is_done.load(Ordering::Relaxed) { Ok(Transformed::no(plan)) } else { self.rule.rewrite(plan, config) }
    }
}

struct OrderJoins {
    snapshot: Arc<Snapshot>,
    /// True after the first run: the optimizer repeats its rules until nothing changes, but joins are ordered once.
    is_done: Arc<AtomicBool>,
}

impl fmt::Debug for OrderJoins {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("OrderJoins")
    }
}

impl OptimizerRule for OrderJoins {
    fn name(&self) -> &str {
        "order_joins"
    }

    fn rewrite(&self, plan: LogicalPlan, _: &dyn OptimizerConfig) -> Result<Transformed<LogicalPlan>> {
        if self.is_done.swap(true, Ordering::Relaxed) {
            return Ok(Transformed::no(plan));
        }
        ordered(plan, &Estimator::new(Arc::clone(&self.snapshot)))
    }
}

/// Orders all joins of a plan.
fn ordered(plan: LogicalPlan, estimator: &Estimator) -> Result<Transformed<LogicalPlan>> {
    if let Some(group) = group_of(&plan)?
        && let Some(ordered) = group.put_together(estimator)?
    {
        return Ok(Transformed::yes(with_columns(ordered, plan.schema().columns())?));
    }
    let plan = plan.map_children(|child| ordered(child, estimator))?;
    let plan = plan.transform_data(|plan| plan.map_subqueries(|query| ordered(query, estimator)))?;
    plan.transform_data(|plan| match plan {
        LogicalPlan::Join(join) => smaller_first(join, estimator),
        plan => Ok(Transformed::no(plan)),
    })
}

/// Returns the adjacent joins from here on, with the condition above them.
fn group_of(plan: &LogicalPlan) -> Result<Option<JoinGraph>> {
    let mut group = JoinGraph::default();
    match plan {
        LogicalPlan::Join(join) if graph::belongs(join) => group.take_apart(plan.clone())?,
        LogicalPlan::Filter(filter) => {
            let LogicalPlan::Join(join) = graph::bare(&filter.input) else { return Ok(None) };
            if filter.predicate.exists(|part| Ok(is_query(part)))? {
                return Ok(None);
            }
            let mut join = join.clone();
            join.join_type = strict::kind_below(&join, &filter.predicate);
            if !graph::belongs(&join) {
                return Ok(None);
            }
            group.take_apart(LogicalPlan::Join(join))?;
            group.conditions.extend(split_conjunction_owned(filter.predicate.clone()));
        }
        _ => return Ok(None),
    }
    Ok(Some(group))
}

/// Returns true if the plan has the same rows each time it runs over a snapshot. The rows of a LIMIT and a sum of
/// floating-point numbers depend on the order of their input.
pub(crate) fn is_repeatable(plan: &LogicalPlan) -> Result<bool> {
    let mut is_repeatable = true;
    plan.apply_with_subqueries(|part| {
        is_repeatable &= match part {
            LogicalPlan::Limit(_) | LogicalPlan::Window(_) | LogicalPlan::Distinct(Distinct::On(_)) => false,
            LogicalPlan::Sort(sort) => sort.fetch.is_none(),
            LogicalPlan::TableScan(scan) => scan.fetch.is_none(),
            LogicalPlan::Aggregate(aggregate) => {
                let values = aggregate.schema.fields().iter().skip(aggregate.group_expr.len());
                let mut computed = values.zip(&aggregate.aggr_expr).filter(|(_, value)| !is_of_group(value));
                !computed.any(|(field, _)| field.data_type().is_floating())
            }
            LogicalPlan::Projection(_)
            | LogicalPlan::Filter(_)
            | LogicalPlan::Join(_)
            | LogicalPlan::Repartition(_)
            | LogicalPlan::Union(_)
            | LogicalPlan::EmptyRelation(_)
            | LogicalPlan::Subquery(_)
            | LogicalPlan::SubqueryAlias(_)
            | LogicalPlan::Values(_)
            | LogicalPlan::Distinct(Distinct::All(_)) => true,
            // These nodes are not made here, so nothing is known of them.
            LogicalPlan::Statement(_)
            | LogicalPlan::Explain(_)
            | LogicalPlan::Analyze(_)
            | LogicalPlan::Extension(_)
            | LogicalPlan::Dml(_)
            | LogicalPlan::Ddl(_)
            | LogicalPlan::Copy(_)
            | LogicalPlan::DescribeTable(_)
            | LogicalPlan::Unnest(_)
            | LogicalPlan::RecursiveQuery(_) => false,
        };
        Ok(if is_repeatable { TreeNodeRecursion::Continue } else { TreeNodeRecursion::Stop })
    })?;
    Ok(is_repeatable)
}

/// Returns true for any one of a group's values, which are all equal.
fn is_of_group(value: &Expr) -> bool {
    match value {
        Expr::Alias(alias) => is_of_group(&alias.expr),
        Expr::AggregateFunction(call) => call.func.name() == "first_value",
        _ => false,
    }
}

/// Returns true for a subquery, which uses more than its columns tell.
fn is_query(part: &Expr) -> bool {
    matches!(part, Expr::Exists(_) | Expr::InSubquery(_) | Expr::ScalarSubquery(_) | Expr::SetComparison(_))
}

/// Swaps the sides of any other join so that the smaller one is hashed.
fn smaller_first(join: Join, estimator: &Estimator) -> Result<Transformed<LogicalPlan>> {
    let swapped = match join.join_type {
        JoinType::LeftMark | JoinType::RightMark => return Ok(Transformed::no(LogicalPlan::Join(join))),
        other => other.swap(),
    };
    if join.null_aware || estimator.rows(&join.left) <= estimator.rows(&join.right) {
        return Ok(Transformed::no(LogicalPlan::Join(join)));
    }
    let columns = join.schema.columns();
    let on = join.on.into_iter().map(|(left, right)| (right, left)).collect();
    let plan = joined(join.right, join.left, on, join.filter, swapped, join.null_equality)?;
    Ok(Transformed::yes(with_columns(plan, columns)?))
}

fn joined(
    left: Arc<LogicalPlan>,
    right: Arc<LogicalPlan>,
    on: Vec<(Expr, Expr)>,
    filter: Option<Expr>,
    join_type: JoinType,
    null_equality: NullEquality,
) -> Result<LogicalPlan> {
    Join::try_new(left, right, on, filter, join_type, JoinConstraint::On, null_equality, false).map(LogicalPlan::Join)
}

/// Returns the plan with only these columns, in this order.
fn with_columns(plan: LogicalPlan, columns: Vec<datafusion::common::Column>) -> Result<LogicalPlan> {
    if plan.schema().columns() == columns {
        return Ok(plan);
    }
    LogicalPlanBuilder::from(plan).project(columns.into_iter().map(Expr::Column))?.build()
}

fn nothing() -> LogicalPlan {
    LogicalPlan::EmptyRelation(datafusion::logical_expr::EmptyRelation {
        produce_one_row: false,
        schema: Arc::new(datafusion::common::DFSchema::empty()),
    })
}
