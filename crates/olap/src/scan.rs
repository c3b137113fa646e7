//! Scan of a table in a snapshot, as a leaf operator of DataFusion.
//!
//! **Invariant:** a plan holds the table, the projection and the conditions, but no snapshot; that comes from the run.
//! Statistics are always inexact: with an exact row count DataFusion would answer `count(*)` without checking which
//! rows the snapshot sees.

use crate::BATCH_ROWS_MAX;
use crate::pushdown::conditions;
use crate::run::{RowsRead, RunContext};
use arrow_array::RecordBatch;
use arrow_schema::SchemaRef;
use datafusion::catalog::{Session, TableProvider};
use datafusion::common::stats::Precision;
use datafusion::common::tree_node::TreeNodeRecursion;
use datafusion::common::{Statistics, internal_datafusion_err, internal_err};
use datafusion::error::{DataFusionError, Result};
use datafusion::execution::{SendableRecordBatchStream, TaskContext};
use datafusion::logical_expr::{Expr, TableProviderFilterPushDown, TableType};
use datafusion::physical_expr::{EquivalenceProperties, Partitioning, PhysicalExpr};
use datafusion::physical_plan::execution_plan::{Boundedness, EmissionType};
use datafusion::physical_plan::metrics::{BaselineMetrics, ExecutionPlanMetricsSet, MetricsSet};
use datafusion::physical_plan::statistics::StatisticsArgs;
use datafusion::physical_plan::stream::RecordBatchStreamAdapter;
use datafusion::physical_plan::{DisplayAs, DisplayFormatType, ExecutionPlan, PlanProperties, ReplaceChildrenOptions};
use engine::{Condition, ScanPart, Table};
use std::collections::HashMap;
use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// Table of the engine, for the planner.
#[derive(Debug)]
pub(crate) struct EngineTable {
    table: Arc<Table>,
}

impl EngineTable {
    pub(crate) fn new(table: Arc<Table>) -> EngineTable {
        EngineTable { table }
    }

    pub(crate) fn table(&self) -> &Arc<Table> {
        &self.table
    }
}

#[async_trait::async_trait]
impl TableProvider for EngineTable {
    fn schema(&self) -> SchemaRef {
        Arc::clone(self.table.schema())
    }

    fn table_type(&self) -> TableType {
        TableType::Base
    }

    async fn scan(
        &self,
        session: &dyn Session,
        projection: Option<&Vec<usize>>,
        filters: &[Expr],
        _limit: Option<usize>,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        let all = || (0..self.table.schema().fields().len()).collect();
        let projection = projection.cloned().unwrap_or_else(all);
        let partitions = session.config().target_partitions();
        let conditions = filters.iter().flat_map(|filter| conditions(&self.table, filter)).collect();
        Ok(Arc::new(TableScan::new(Arc::clone(&self.table), projection, conditions, partitions)?))
    }

    fn supports_filters_pushdown(&self, filters: &[&Expr]) -> Result<Vec<TableProviderFilterPushDown>> {
        let support = |filter: &&Expr| match conditions(&self.table, filter).is_empty() {
            true => TableProviderFilterPushDown::Unsupported,
            false => TableProviderFilterPushDown::Inexact,
        };
        Ok(filters.iter().map(support).collect())
    }
}

/// Scan of one table in the snapshot of the run.
#[derive(Debug)]
struct TableScan {
    /// Number that identifies the scan in its plan.
    number: u64,
    table: Arc<Table>,
    projection: Vec<usize>,
    conditions: Vec<Condition>,
    properties: Arc<PlanProperties>,
    metrics: ExecutionPlanMetricsSet,
}

static NEXT_NUMBER: AtomicU64 = AtomicU64::new(0);

impl TableScan {
    fn new(
        table: Arc<Table>,
        projection: Vec<usize>,
        conditions: Vec<Condition>,
        partitions: usize,
    ) -> Result<TableScan> {
        let schema = Arc::new(table.schema().project(&projection)?);
        // More partitions than batches would be empty.
        let batches = table.rows_bound().div_ceil(BATCH_ROWS_MAX as u64).max(1);
        let partitions = partitions.min(usize::try_from(batches).unwrap_or(usize::MAX));
        let properties = PlanProperties::new(
            EquivalenceProperties::new(schema),
            Partitioning::UnknownPartitioning(partitions),
            EmissionType::Incremental,
            Boundedness::Bounded,
        );
        let number = NEXT_NUMBER.fetch_add(1, Ordering::Relaxed);
        let (properties, metrics) = (Arc::new(properties), ExecutionPlanMetricsSet::new());
        Ok(TableScan { number, table, projection, conditions, properties, metrics })
    }

    fn partitions(&self) -> usize {
        self.properties.partitioning.partition_count()
    }
}

impl DisplayAs for TableScan {
    fn fmt_as(&self, _: DisplayFormatType, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let columns: Vec<&str> =
            self.properties.eq_properties.schema().fields().iter().map(|field| field.name().as_str()).collect();
        write!(f, "TableScan: {}({})", self.table.name(), columns.join(", "))?;
        if self.conditions.is_empty() { Ok(()) } else { write!(f, ", {} conditions", self.conditions.len()) }
    }
}

impl ExecutionPlan for TableScan {
    fn name(&self) -> &str {
        "TableScan"
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
        if children.is_empty() { Ok(self) } else { internal_err!("a table scan has no children") }
    }

    fn with_new_children(self: Arc<Self>, children: Vec<Arc<dyn ExecutionPlan>>) -> Result<Arc<dyn ExecutionPlan>> {
        if children.is_empty() { Ok(self) } else { internal_err!("a table scan has no children") }
    }

    fn execute(&self, partition: usize, context: Arc<TaskContext>) -> Result<SendableRecordBatchStream> {
        let run = run_of(&context)?;
        let part = run.take_part(self.number, partition, || {
            let scan = run.snapshot.scan_where(&self.table, &self.projection, &self.conditions, BATCH_ROWS_MAX);
            scan.map(|scan| scan.split(self.partitions()))
        });
        let part = part.map_err(|error| DataFusionError::External(Box::new(error)))?;
        let batches = ScanBatches { part, run, metrics: BaselineMetrics::new(&self.metrics, partition) };
        Ok(Box::pin(RecordBatchStreamAdapter::new(self.schema(), futures::stream::iter(batches))))
    }

    fn metrics(&self) -> Option<MetricsSet> {
        Some(self.metrics.clone_inner())
    }

    fn statistics_from_inputs(&self, _: &[Arc<Statistics>], args: &StatisticsArgs) -> Result<Arc<Statistics>> {
        let parts = if args.partition().is_some() { self.partitions() as u64 } else { 1 };
        let rows_count = usize::try_from(self.table.rows_bound() / parts).unwrap_or(usize::MAX);
        let unknown = Statistics::new_unknown(self.schema().as_ref());
        Ok(Arc::new(Statistics { num_rows: Precision::Inexact(rows_count), ..unknown }))
    }
}

/// Batches of one part, until the run is canceled.
struct ScanBatches {
    part: Option<ScanPart>,
    run: Arc<RunContext>,
    metrics: BaselineMetrics,
}

impl Iterator for ScanBatches {
    type Item = Result<RecordBatch>;

    fn next(&mut self) -> Option<Result<RecordBatch>> {
        let part = self.part.as_mut()?;
        match self.run.check() {
            Ok(()) => {
                let batch = {
                    let _timer = self.metrics.elapsed_compute().timer();
                    part.next()?
                };
                self.metrics.record_output(batch.num_rows());
                let RowsRead { frozen, hot } = &self.run.read;
                let read = if part.was_hot() { hot } else { frozen };
                read.fetch_add(batch.num_rows() as u64, Ordering::Relaxed);
                Some(Ok(batch))
            }
            Err(error) => Some(Err(error)),
        }
    }
}

/// Source of the rows of a lowered plan.
#[derive(Clone)]
pub(crate) enum TableOrigin {
    /// The engine's tables, as of the snapshot of the run.
    OfEngine,
    /// Tables in memory, by the numbers of the engine's tables.
    InMemory(Arc<HashMap<u32, Arc<dyn TableProvider>>>),
}

impl TableOrigin {
    /// Returns the rows of a table; `None` for a table created after the copy in memory.
    pub(crate) fn provider(&self, table: &Arc<Table>) -> Option<Arc<dyn TableProvider>> {
        match self {
            TableOrigin::OfEngine => Some(Arc::new(EngineTable::new(Arc::clone(table)))),
            TableOrigin::InMemory(tables) => tables.get(&table.number()).cloned(),
        }
    }
}

/// Returns the run that `context` belongs to.
pub(crate) fn run_of(context: &TaskContext) -> Result<Arc<RunContext>> {
    context
        .session_config()
        .get_extension::<RunContext>()
        .ok_or_else(|| internal_datafusion_err!("an operator runs outside of any run"))
}
