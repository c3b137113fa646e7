//! Operator between any two others: at each batch it calls the scheduler's hook and checks for a cancel.
//!
//! **Invariant:** it changes nothing else. Batches, partitions, order and statistics are those of its input. The last
//! rule of the optimizer inserts it, when no other rule looks for operators by type.

use crate::run::RunContext;
use crate::scan::run_of;
use arrow_array::RecordBatch;
use arrow_schema::SchemaRef;
use datafusion::common::config::ConfigOptions;
use datafusion::common::tree_node::{Transformed, TransformedResult, TreeNode, TreeNodeRecursion};
use datafusion::common::{Statistics, internal_err};
use datafusion::error::Result;
use datafusion::execution::{RecordBatchStream, SendableRecordBatchStream, TaskContext};
use datafusion::physical_expr::PhysicalExpr;
use datafusion::physical_optimizer::PhysicalOptimizerRule;
use datafusion::physical_plan::execution_plan::CardinalityEffect;
use datafusion::physical_plan::metrics::MetricsSet;
use datafusion::physical_plan::statistics::{ChildStats, StatisticsArgs};
use datafusion::physical_plan::{DisplayAs, DisplayFormatType, ExecutionPlan, PlanProperties, ReplaceChildrenOptions};
use futures::{Stream, StreamExt};
use statement::holdings::MemoryUse;
use statement::pulse;
use std::fmt;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

/// Optimizer rule that puts a [`SafepointExec`] above each operator.
#[derive(Debug)]
pub(crate) struct InsertSafepoints;

impl PhysicalOptimizerRule for InsertSafepoints {
    fn optimize(&self, plan: Arc<dyn ExecutionPlan>, _: &ConfigOptions) -> Result<Arc<dyn ExecutionPlan>> {
        plan.transform_up(|plan| Ok(Transformed::yes(Arc::new(SafepointExec { input: plan }) as _))).data()
    }

    fn name(&self) -> &str {
        "insert_safepoints"
    }

    fn schema_check(&self) -> bool {
        true
    }
}

#[derive(Debug)]
pub(crate) struct SafepointExec {
    input: Arc<dyn ExecutionPlan>,
}

impl SafepointExec {
    /// Puts one above this operator.
    pub(crate) fn over(input: Arc<dyn ExecutionPlan>) -> SafepointExec {
        SafepointExec { input }
    }

    fn above(mut children: Vec<Arc<dyn ExecutionPlan>>) -> Result<Arc<dyn ExecutionPlan>> {
        match (children.pop(), children.is_empty()) {
            (Some(input), true) => Ok(Arc::new(SafepointExec { input })),
            _ => internal_err!("a safepoint has one child"),
        }
    }
}

impl DisplayAs for SafepointExec {
    fn fmt_as(&self, _: DisplayFormatType, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("SafepointExec")
    }
}

impl ExecutionPlan for SafepointExec {
    fn name(&self) -> &str {
        "SafepointExec"
    }

    fn properties(&self) -> &Arc<PlanProperties> {
        self.input.properties()
    }

    fn maintains_input_order(&self) -> Vec<bool> {
        vec![true]
    }

    fn benefits_from_input_partitioning(&self) -> Vec<bool> {
        vec![false]
    }

    fn children(&self) -> Vec<&Arc<dyn ExecutionPlan>> {
        vec![&self.input]
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
        SafepointExec::above(children)
    }

    fn with_new_children(self: Arc<Self>, children: Vec<Arc<dyn ExecutionPlan>>) -> Result<Arc<dyn ExecutionPlan>> {
        SafepointExec::above(children)
    }

    fn execute(&self, partition: usize, context: Arc<TaskContext>) -> Result<SendableRecordBatchStream> {
        let run = run_of(&context)?;
        let input = self.input.execute(partition, context)?;
        Ok(Box::pin(SafepointStream { input, run, of: use_of(self.input.name()) }))
    }

    fn metrics(&self) -> Option<MetricsSet> {
        self.input.metrics()
    }

    fn child_stats_requests(&self, partition: Option<usize>) -> Vec<ChildStats> {
        vec![ChildStats::At(partition)]
    }

    fn statistics_from_inputs(&self, inputs: &[Arc<Statistics>], _: &StatisticsArgs) -> Result<Arc<Statistics>> {
        Ok(Arc::clone(&inputs[0]))
    }

    fn supports_limit_pushdown(&self) -> bool {
        true
    }

    fn cardinality_effect(&self) -> CardinalityEffect {
        CardinalityEffect::Equal
    }
}

struct SafepointStream {
    input: SendableRecordBatchStream,
    run: Arc<RunContext>,
    /// Use of the operator's memory, if it keeps rows.
    of: Option<MemoryUse>,
}

/// Returns the use of an operator's memory; `None` if it passes rows on.
fn use_of(operator: &str) -> Option<MemoryUse> {
    const USES: [(&str, MemoryUse); 5] = [
        ("Sort", MemoryUse::Sorts),
        ("Window", MemoryUse::Windows),
        ("Join", MemoryUse::HashTables),
        ("Aggregate", MemoryUse::HashTables),
        ("RecursiveQuery", MemoryUse::Results),
    ];
    USES.iter().find(|(part, _)| operator.contains(part)).map(|(_, of)| *of)
}

impl Stream for SafepointStream {
    type Item = Result<RecordBatch>;

    fn poll_next(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Result<RecordBatch>>> {
        // Memory taken by the operator below during this poll belongs to this run.
        let (run, of) = (Arc::clone(&self.run), self.of);
        let watch = Arc::clone(&run);
        let polled = run.counted(of, || pulse::during(watch, || self.input.poll_next_unpin(context)));
        let batch = std::task::ready!(polled);
        Poll::Ready(match (batch, self.run.batch()) {
            (Some(Ok(_)), Err(ended)) => Some(Err(ended)),
            (batch, _) => batch,
        })
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        self.input.size_hint()
    }
}

impl RecordBatchStream for SafepointStream {
    fn schema(&self) -> SchemaRef {
        self.input.schema()
    }
}
