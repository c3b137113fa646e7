//! Tables of an engine for SQL, and queries prepared without a session.
//!
//! **Invariant:** the text of a query passes through the binder of `sql` alone, as that of a session does; DataFusion
//! gets the lowered plan. A prepared query holds no snapshot and no state of a run, so it may run many times,
//! concurrently and on several runtimes. It is bound and lowered once. Its join order and operators are determined for
//! each run: the join order depends on samples of the snapshot, and operators hold state of a run.

use crate::BATCH_ROWS_MAX;
use crate::barriers;
use crate::error::{Error, Result};
use crate::lower::lower;
use crate::order;
use crate::run::{Answer, RunContext, RunLimits, watched};
use crate::scan::TableOrigin;
use datafusion::catalog::{MemTable, TableProvider};
use datafusion::error::Result as DataFusionResult;
use datafusion::execution::runtime_env::RuntimeEnv;
use datafusion::execution::{SessionState, SessionStateBuilder, TaskContext};
use datafusion::logical_expr::LogicalPlan;
use datafusion::physical_plan::{ExecutionPlan, execute_stream};
use datafusion::prelude::SessionConfig;
use engine::{Engine, Snapshot};
use futures::StreamExt;
use std::fmt;
use std::sync::Arc;
use types::SqlType;

/// Database of analytical queries.
pub struct Database {
    catalog: sql::session::Database,
    /// True if this database owns its catalog, which then learns of tables when a query is prepared.
    is_own: bool,
    tables: TableOrigin,
    session: SessionState,
}

/// Bound and lowered query.
pub struct PreparedQuery {
    text: String,
    columns: Arc<[SqlType]>,
    logical: LogicalPlan,
    /// True if the plan is to be optimized for each run, since the join order depends on its snapshot.
    is_ordered_by_run: bool,
    session: SessionState,
}

impl Database {
    /// Returns a database of all tables of `engine`, including later ones, under the names given by
    /// [`sql::session::Database::adopt`].
    pub fn new(engine: Engine) -> Database {
        Database { is_own: true, ..Database::of_catalog(sql::session::Database::new(engine)) }
    }

    /// Returns a database of the tables in this catalog.
    pub fn of_catalog(catalog: sql::session::Database) -> Database {
        let mut config = configuration();
        // Scans take no filters, so no operator would use a dynamic one.
        config.options_mut().optimizer.enable_dynamic_filter_pushdown = false;
        // Module `order` determines the join order and the hashed side.
        config.options_mut().optimizer.join_reordering = false;
        let builder = SessionStateBuilder::new().with_config(config).with_default_features();
        let session = builder.with_physical_optimizer_rules(barriers::physical_rules()).build();
        Database { catalog, is_own: false, tables: TableOrigin::OfEngine, session }
    }

    /// Returns a baseline for comparison: the rows of `snapshot` in DataFusion's own in-memory tables of `partitions`
    /// partitions, with unmodified DataFusion. Frozen columns are shared, not copied. Plans are made from the same
    /// bound queries; joins stay in DataFusion's order.
    ///
    /// # Errors
    /// If DataFusion refuses a table, which would be a bug.
    pub fn of_memory_tables(engine: Engine, snapshot: &Arc<Snapshot>, partitions: usize) -> Result<Database> {
        let session = SessionStateBuilder::new().with_config(configuration()).with_default_features().build();
        let tables = engine.tables();
        let in_memory = tables.iter().map(|table| {
            let all: Vec<usize> = (0..table.columns().len()).collect();
            let parts = snapshot.scan(table, &all, BATCH_ROWS_MAX).split(partitions);
            let batches = parts.into_iter().map(Iterator::collect).collect();
            let memory = MemTable::try_new(Arc::clone(table.schema()), batches).map_err(Error::statement)?;
            Ok((table.number(), Arc::new(memory) as Arc<dyn TableProvider>))
        });
        let in_memory = TableOrigin::InMemory(Arc::new(in_memory.collect::<Result<_>>()?));
        let catalog = sql::session::Database::new(engine);
        catalog.adopt(&tables).map_err(Error::refused)?;
        Ok(Database { catalog, is_own: false, tables: in_memory, session })
    }

    /// Returns the engine.
    pub fn engine(&self) -> &Engine {
        self.catalog.engine()
    }

    /// Returns DataFusion's session, by which queries are planned.
    pub(crate) fn session(&self) -> &SessionState {
        &self.session
    }

    /// Prepares a query. Statements that write or set something are refused.
    ///
    /// # Errors
    /// [`Error::Statement`] if the text is not a single query over existing tables and columns, or is not supported as
    /// analytics.
    pub fn prepare(&self, text: &str) -> Result<Arc<PreparedQuery>> {
        if self.is_own {
            self.catalog.adopt(&self.engine().tables()).map_err(Error::refused)?;
        }
        let bound = self.catalog.query_alone(text).map_err(Error::refused)?;
        let query = bound.query();
        let columns = query.columns;
        let logical = lower(&query, &[], &self.tables).map_err(Error::refused)?;
        let is_ordered_by_run = matches!(self.tables, TableOrigin::OfEngine);
        let logical =
            if is_ordered_by_run { logical } else { self.session.optimize(&logical).map_err(Error::statement)? };
        Ok(Arc::new(PreparedQuery {
            text: text.to_owned(),
            columns: columns.into(),
            logical,
            is_ordered_by_run,
            session: self.session.clone(),
        }))
    }
}

impl PreparedQuery {
    /// Returns the types of the result's columns.
    pub(crate) fn columns(&self) -> &Arc<[SqlType]> {
        &self.columns
    }

    /// Returns the operators of a run over this snapshot with this number of partitions, one a line, for people.
    ///
    /// # Errors
    /// [`Error::Statement`] if no physical plan exists.
    pub fn explain(&self, snapshot: &Arc<Snapshot>, partitions: usize) -> Result<String> {
        let session = session_of(&self.session, partitions);
        // This does not wait: the planner does no I/O.
        let plan = futures::executor::block_on(self.operators(&session, snapshot)).map_err(Error::statement)?;
        Ok(datafusion::physical_plan::displayable(plan.as_ref()).indent(false).to_string())
    }

    async fn operators(
        &self,
        session: &SessionState,
        snapshot: &Arc<Snapshot>,
    ) -> DataFusionResult<Arc<dyn ExecutionPlan>> {
        match self.is_ordered_by_run {
            true => operators(self.logical.clone(), session, snapshot).await,
            false => session.query_planner().create_physical_plan(&self.logical, session).await,
        }
    }

    /// Returns the operators of a run, and the task context that leads them to it.
    pub(crate) async fn plan(
        &self,
        partitions: usize,
        environment: Arc<RuntimeEnv>,
        run: Arc<RunContext>,
    ) -> DataFusionResult<(Arc<dyn ExecutionPlan>, Arc<TaskContext>)> {
        let session = session_of(&self.session, partitions);
        let plan = self.operators(&session, &run.snapshot).await?;
        let config = session.config().clone().with_extension(run);
        let context = TaskContext::from(&session).with_session_config(config).with_runtime(environment);
        Ok((plan, Arc::new(context)))
    }
}

impl fmt::Debug for PreparedQuery {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Prepared").field("text", &self.text).finish_non_exhaustive()
    }
}

/// Returns the result of a prepared query.
pub(crate) async fn answer(
    prepared: Arc<PreparedQuery>,
    partitions: usize,
    limits: RunLimits,
    run: Arc<RunContext>,
) -> Result<Answer> {
    match watched(Arc::clone(&run), collect(prepared, partitions, limits, Arc::clone(&run))).await {
        // Operators wrap errors in various ways; the flag tells the first cause.
        Err(Error::Execution(error)) => Err(run.why_end().unwrap_or(Error::Execution(error))),
        other => other,
    }
}

async fn collect(
    prepared: Arc<PreparedQuery>,
    partitions: usize,
    limits: RunLimits,
    run: Arc<RunContext>,
) -> Result<Answer> {
    run.check().map_err(Error::execution)?;
    let columns = Arc::clone(prepared.columns());
    let (plan, context) = prepared.plan(partitions, limits.environment, run).await.map_err(Error::execution)?;
    let mut stream = execute_stream(plan, context).map_err(Error::execution)?;
    let mut answer = Answer::of(columns);
    let mut rows_count = 0;
    while let Some(batch) = stream.next().await {
        let batch = batch.map_err(Error::execution)?;
        rows_count += batch.num_rows();
        if limits.answer_rows_max < rows_count {
            return Err(Error::OutOfMemory(format!("the answer has more than {} rows", limits.answer_rows_max)));
        }
        answer.add(batch)?;
    }
    Ok(answer)
}

/// Returns the session of a run with this number of partitions.
pub(crate) fn session_of(session: &SessionState, partitions: usize) -> SessionState {
    let mut session = session.clone();
    session.config_mut().options_mut().execution.target_partitions = partitions;
    session
}

/// Returns the operators of a lowered plan over this snapshot.
pub(crate) async fn operators(
    logical: LogicalPlan,
    session: &SessionState,
    snapshot: &Arc<Snapshot>,
) -> DataFusionResult<Arc<dyn ExecutionPlan>> {
    let logical = order::optimized(logical, session, snapshot)?;
    session.query_planner().create_physical_plan(&logical, session).await
}

/// Returns the configuration of all databases. Plans hold their tables, so DataFusion needs no catalog.
fn configuration() -> SessionConfig {
    SessionConfig::new()
        .with_batch_size(BATCH_ROWS_MAX)
        .with_create_default_catalog_and_schema(false)
        .with_information_schema(false)
}
