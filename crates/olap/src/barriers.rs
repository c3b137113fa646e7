//! What DataFusion's optimizers must not move, and how they are kept from it.
//!
//! **Invariant:** no rule moves a sort, a limit or a projection across a LIMIT or OFFSET, and none moves a condition below a
//! grand total. A rule cannot move anything across what it cannot look into, so both barriers are leaves of the plan while
//! rules run:
//!
//! - A grand total (an aggregate without groups) has one row even over no rows. A condition above it that is pushed below
//!   leaves that row. [`HideTotals`] puts an opaque leaf in the place of each total while DataFusion pushes conditions down.
//!   The total's own input is optimized by itself. Grouping sets are unions of aggregates here, so this covers them, too.
//! - Rows that are skipped are chosen by the order below the OFFSET, and an outer ORDER BY must not replace that order.
//!   [`SealLimits`] plans each limit that another operator reads as a [`SealedExec`]: a leaf whose plan has been
//!   optimized by itself. Only projections may stand between the answer and a limit that is not sealed.
//! - A column that is constant below an outer join is that or null above it, and an expression that equals a column below it
//!   need not be null where the column is (`coalesce(x, 5)`). DataFusion takes both for what they were, and leaves them out of
//!   sort keys. So [`SealLimits`] seals an input that the join may extend by nulls and that has such constants or
//!   equalities.
//! - What is constant in each input of a union is not constant in the union, but DataFusion leaves it out of the keys by which
//!   it merges the inputs. So [`SealLimits`] seals inputs with constants, too; a grand total is one.
//!
//! What can raise an error sees no row that a condition has excluded. [`asked_in_turn`] puts conditions that can raise above
//! all others, one upon the other in the order in which the query has them. A projection that can raise stays above the
//! condition below it: a safepoint between them is an operator that no rule moves it across.
//!
//! DataFusion's physical rules that push conditions down are left out: the logical rule has done that, and they would merge
//! conditions that stand apart on purpose. They also find columns by name alone: a condition on `a.x` and `b.x` became one on
//! `b.x`. The rule that takes statistics for answers is left out, too: of an input without rows it counted one distinct value.

use crate::functions::{can_raise, operator_can_raise};
use crate::safepoint::{InsertSafepoints, SafepointExec};
use arrow_schema::SchemaRef;
use datafusion::common::config::ConfigOptions;
use datafusion::common::tree_node::{Transformed, TransformedResult, TreeNode, TreeNodeRecursion};
use datafusion::common::{DFSchemaRef, JoinType, Statistics, internal_err};
use datafusion::error::Result;
use datafusion::execution::{SendableRecordBatchStream, TaskContext};
use datafusion::logical_expr::utils::{conjunction, split_conjunction_owned};
use datafusion::logical_expr::{EmptyRelation, Expr, Filter, LogicalPlan};
use datafusion::optimizer::{ApplyOrder, OptimizerConfig, OptimizerRule};
use datafusion::physical_expr::expressions::Column;
use datafusion::physical_expr::{EquivalenceProperties, PhysicalExpr};
use datafusion::physical_optimizer::PhysicalOptimizerRule;
use datafusion::physical_optimizer::optimizer::PhysicalOptimizer;
use datafusion::physical_plan::execution_plan::replace_children_if_necessary;
use datafusion::physical_plan::filter::FilterExec;
use datafusion::physical_plan::joins::{HashJoinExec, NestedLoopJoinExec, SortMergeJoinExec};
use datafusion::physical_plan::limit::{GlobalLimitExec, LocalLimitExec};
use datafusion::physical_plan::projection::ProjectionExec;
use datafusion::physical_plan::sorts::sort::SortExec;
use datafusion::physical_plan::statistics::StatisticsArgs;
use datafusion::physical_plan::union::UnionExec;
use datafusion::physical_plan::{
    DisplayAs, DisplayFormatType, ExecutionPlan, ExecutionPlanProperties, PlanProperties, ReplaceChildrenOptions,
};
use std::fmt;
use std::sync::Arc;

/// DataFusion's rule that pushes conditions down, with grand totals hidden from it.
#[derive(Debug)]
pub(crate) struct HideTotals(pub(crate) Arc<dyn OptimizerRule + Send + Sync>);

/// Hidden totals, by the schemas of the leaves in their places.
#[derive(Default)]
struct HiddenTotals(Vec<(DFSchemaRef, LogicalPlan)>);

impl HiddenTotals {
    /// Replaces a total by a leaf with the same columns.
    fn hide(&mut self, total: LogicalPlan) -> LogicalPlan {
        let schema: DFSchemaRef = Arc::new(total.schema().as_ref().clone());
        self.0.push((Arc::clone(&schema), total));
        LogicalPlan::EmptyRelation(EmptyRelation { produce_one_row: true, schema })
    }

    /// Restores all totals.
    fn restore(&self, plan: LogicalPlan) -> Result<LogicalPlan> {
        let back = |plan: LogicalPlan| {
            let LogicalPlan::EmptyRelation(leaf) = &plan else { return Ok(Transformed::no(plan)) };
            match self.0.iter().find(|(schema, _)| Arc::ptr_eq(schema, &leaf.schema)) {
                Some((_, total)) => {
                    let total = self.restore(total.clone())?;
                    Ok(Transformed::new(total, true, TreeNodeRecursion::Jump))
                }
                None => Ok(Transformed::no(plan)),
            }
        };
        plan.transform_down_with_subqueries(back).data()
    }
}

impl OptimizerRule for HideTotals {
    fn name(&self) -> &str {
        self.0.name()
    }

    fn apply_order(&self) -> Option<ApplyOrder> {
        None
    }

    fn rewrite(&self, plan: LogicalPlan, config: &dyn OptimizerConfig) -> Result<Transformed<LogicalPlan>> {
        let mut is_changed = false;
        let mut push = |plan: LogicalPlan| {
            let pushed = plan.transform_down_with_subqueries(|plan| self.0.rewrite(plan, config))?;
            is_changed |= pushed.transformed;
            Ok::<_, datafusion::error::DataFusionError>(pushed.data)
        };
        let mut hidden = HiddenTotals::default();
        let hide = |plan: LogicalPlan| {
            let LogicalPlan::Aggregate(aggregate) = &plan else { return Ok(Transformed::no(plan)) };
            if !aggregate.group_expr.is_empty() || statement::plants::is_planted("filter_below_grouping_sets") {
                return Ok(Transformed::no(plan));
            }
            Ok(Transformed::yes(hidden.hide(push(plan)?)))
        };
        let plan = plan.transform_up_with_subqueries(hide)?.data;
        let plan = hidden.restore(push(plan)?)?;
        Ok(if is_changed { Transformed::yes(plan) } else { Transformed::no(plan) })
    }
}

/// Returns the optimized plan, with each condition that can raise in a filter of its own above those that cannot.
pub(crate) fn asked_in_turn(plan: LogicalPlan) -> Result<LogicalPlan> {
    let stack = |plan: LogicalPlan| {
        let LogicalPlan::Filter(filter) = plan else { return Ok(Transformed::no(plan)) };
        let conditions = split_conjunction_owned(filter.predicate.clone());
        let (raising, others): (Vec<Expr>, Vec<Expr>) = conditions.into_iter().partition(can_raise);
        if raising.is_empty() || raising.len() + others.len() < 2 {
            return Ok(Transformed::no(LogicalPlan::Filter(filter)));
        }
        let mut input = filter.input;
        for condition in conjunction(others).into_iter().chain(raising) {
            input = Arc::new(LogicalPlan::Filter(Filter::try_new(condition, input)?));
        }
        Ok(Transformed::yes(Arc::unwrap_or_clone(input)))
    };
    plan.transform_up_with_subqueries(stack).data()
}

/// Keeps a projection that can raise above the condition below it.
fn kept_above(plan: Arc<dyn ExecutionPlan>) -> Result<Transformed<Arc<dyn ExecutionPlan>>> {
    let Some(projection) = plan.downcast_ref::<ProjectionExec>() else { return Ok(Transformed::no(plan)) };
    let raises = projection.expr().iter().any(|value| operator_can_raise(&value.expr));
    let is_above = projection.input().downcast_ref::<FilterExec>().is_some();
    if !raises || !is_above {
        return Ok(Transformed::no(plan));
    }
    let input: Arc<dyn ExecutionPlan> = Arc::new(SafepointExec::over(Arc::clone(projection.input())));
    replace_children_if_necessary(plan, vec![input]).map(Transformed::yes)
}

/// Returns the rules over operators: DataFusion's, without those that push conditions down, between our barrier and
/// our safepoints.
pub(crate) fn physical_rules() -> Vec<Arc<dyn PhysicalOptimizerRule + Send + Sync>> {
    let mut rest = PhysicalOptimizer::new().rules;
    rest.retain(|rule| !rule.name().starts_with("FilterPushdown") && rule.name() != "aggregate_statistics");
    rest.push(Arc::new(InsertSafepoints));
    let mut rules: Vec<Arc<dyn PhysicalOptimizerRule + Send + Sync>> = vec![Arc::new(SealLimits(rest.clone()))];
    rules.extend(rest);
    rules
}

/// Rule that seals limits below other operators.
#[derive(Debug)]
struct SealLimits(Vec<Arc<dyn PhysicalOptimizerRule + Send + Sync>>);

fn is_limit(plan: &dyn ExecutionPlan) -> bool {
    plan.downcast_ref::<GlobalLimitExec>().is_some()
        || plan.downcast_ref::<LocalLimitExec>().is_some()
        || plan.downcast_ref::<SortExec>().is_some_and(|sort| sort.fetch().is_some())
}

/// Returns for each input of an operator true if a property of all its rows need not hold above the operator.
fn is_changed(plan: &dyn ExecutionPlan) -> Vec<bool> {
    let kind = if let Some(join) = plan.downcast_ref::<HashJoinExec>() {
        *join.join_type()
    } else if let Some(join) = plan.downcast_ref::<NestedLoopJoinExec>() {
        *join.join_type()
    } else if let Some(join) = plan.downcast_ref::<SortMergeJoinExec>() {
        join.join_type()
    } else {
        let is_union = plan.downcast_ref::<UnionExec>().is_some();
        return vec![is_union; plan.children().len()];
    };
    // Rows of nulls may take the place of the input's rows.
    match kind {
        JoinType::Left => vec![false, true],
        JoinType::Right => vec![true, false],
        JoinType::Full => vec![true, true],
        JoinType::Inner
        | JoinType::LeftSemi
        | JoinType::RightSemi
        | JoinType::LeftAnti
        | JoinType::RightAnti
        | JoinType::LeftMark
        | JoinType::RightMark => vec![false, false],
    }
}

impl SealLimits {
    /// Optimizes a plan by itself.
    fn alone(&self, plan: Arc<dyn ExecutionPlan>, config: &ConfigOptions) -> Result<Arc<dyn ExecutionPlan>> {
        let mut input = self.below_top(plan, config)?;
        for rule in &self.0 {
            input = rule.optimize(input, config)?;
        }
        Ok(SealedExec::around(input))
    }

    /// Seals the inputs of an outer join or union that have properties which need not hold above it.
    fn combined(
        &self,
        plan: Arc<dyn ExecutionPlan>,
        config: &ConfigOptions,
    ) -> Result<Transformed<Arc<dyn ExecutionPlan>>> {
        let inputs: Vec<_> = plan.children().into_iter().map(Arc::clone).collect();
        // Equal columns are null together.
        let is_column = |expr: &Arc<dyn PhysicalExpr>| expr.downcast_ref::<Column>().is_some();
        let holds_above = |input: &Arc<dyn ExecutionPlan>| {
            let known = input.equivalence_properties();
            known.constants().is_empty() && known.eq_group().iter().all(|class| class.iter().all(is_column))
        };
        let changed = is_changed(&*plan);
        let is_sealed = |(input, changed): (&Arc<dyn ExecutionPlan>, bool)| changed && !holds_above(input);
        if !inputs.iter().zip(changed.iter().copied()).any(is_sealed) {
            return Ok(Transformed::no(plan));
        }
        let inputs = inputs
            .into_iter()
            .zip(changed)
            .map(|(input, changed)| if is_sealed((&input, changed)) { self.alone(input, config) } else { Ok(input) });
        Ok(Transformed::yes(replace_children_if_necessary(plan, inputs.collect::<Result<_>>()?)?))
    }

    /// Seals the plan below its top operators, which need no seal: projections, then limits.
    fn below_top(&self, plan: Arc<dyn ExecutionPlan>, config: &ConfigOptions) -> Result<Arc<dyn ExecutionPlan>> {
        let plan = self.combined(plan, config)?.data;
        let is_top = plan.downcast_ref::<ProjectionExec>().is_some() || is_limit(&*plan);
        let children = plan.children().into_iter().map(Arc::clone);
        let children = children.map(|child| match is_top {
            true => self.below_top(child, config),
            false => self.sealed(child, config),
        });
        let children = children.collect::<Result<Vec<_>>>()?;
        replace_children_if_necessary(plan, children)
    }

    fn sealed(&self, plan: Arc<dyn ExecutionPlan>, config: &ConfigOptions) -> Result<Arc<dyn ExecutionPlan>> {
        let seal = |plan: Arc<dyn ExecutionPlan>| {
            if !is_limit(&*plan) {
                return self.combined(plan, config);
            }
            Ok(Transformed::new(self.alone(plan, config)?, true, TreeNodeRecursion::Jump))
        };
        plan.transform_down(seal).data()
    }
}

impl PhysicalOptimizerRule for SealLimits {
    fn optimize(&self, plan: Arc<dyn ExecutionPlan>, config: &ConfigOptions) -> Result<Arc<dyn ExecutionPlan>> {
        let plan = plan.transform_up(kept_above).data()?;
        if statement::plants::is_planted("offset_under_sort") { Ok(plan) } else { self.below_top(plan, config) }
    }

    fn name(&self) -> &str {
        "seal_limits"
    }

    fn schema_check(&self) -> bool {
        true
    }
}

/// Leaf with a plan that was optimized by itself. It declares no order of its rows.
#[derive(Debug)]
pub(crate) struct SealedExec {
    input: Arc<dyn ExecutionPlan>,
    properties: Arc<PlanProperties>,
}

impl SealedExec {
    fn around(input: Arc<dyn ExecutionPlan>) -> Arc<dyn ExecutionPlan> {
        let properties = PlanProperties::new(
            EquivalenceProperties::new(input.schema()),
            datafusion::physical_expr::Partitioning::UnknownPartitioning(
                input.properties().partitioning.partition_count(),
            ),
            input.properties().emission_type,
            input.properties().boundedness,
        );
        Arc::new(SealedExec { input, properties: Arc::new(properties) })
    }

    /// Returns the plan inside.
    pub(crate) fn input(&self) -> &Arc<dyn ExecutionPlan> {
        &self.input
    }
}

impl DisplayAs for SealedExec {
    fn fmt_as(&self, _: DisplayFormatType, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("SealedExec")
    }
}

impl ExecutionPlan for SealedExec {
    fn name(&self) -> &str {
        "SealedExec"
    }

    fn schema(&self) -> SchemaRef {
        self.input.schema()
    }

    fn properties(&self) -> &Arc<PlanProperties> {
        &self.properties
    }

    fn children(&self) -> Vec<&Arc<dyn ExecutionPlan>> {
        Vec::new()
    }

    fn apply_expressions(
        &self,
        _: &mut dyn FnMut(&Arc<dyn PhysicalExpr>) -> Result<TreeNodeRecursion>,
    ) -> Result<TreeNodeRecursion> {
        Ok(TreeNodeRecursion::Continue)
    }

    fn replace_children(
        self: Arc<Self>,
        children: Vec<Arc<dyn ExecutionPlan>>,
        _: ReplaceChildrenOptions,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        if children.is_empty() { Ok(self) } else { internal_err!("a sealed plan is a leaf") }
    }

    fn with_new_children(self: Arc<Self>, children: Vec<Arc<dyn ExecutionPlan>>) -> Result<Arc<dyn ExecutionPlan>> {
        if children.is_empty() { Ok(self) } else { internal_err!("a sealed plan is a leaf") }
    }

    fn execute(&self, partition: usize, context: Arc<TaskContext>) -> Result<SendableRecordBatchStream> {
        self.input.execute(partition, context)
    }

    fn statistics_from_inputs(&self, _: &[Arc<Statistics>], _: &StatisticsArgs) -> Result<Arc<Statistics>> {
        Ok(Arc::new(Statistics::new_unknown(&self.schema())))
    }
}
