//! An engine's tables as SQL sees them, and queries made ready to run by whoever has no session.
//!
//! Invariant: a query's text goes through the binder of `sql` and nothing else, as a session's does; DataFusion gets its
//! lowered plan. A prepared query holds no snapshot and no state of a run, so it may run many times, at once and on several
//! runtimes. It is bound and lowered once; the order of its joins and its operators are found for each run, because a
//! snapshot's samples decide about the one, and the others keep the state of a run.

use crate::BATCH_ROWS_MAX;
use crate::barriers;
use crate::error::{Error, Result};
use crate::lower::lower;
use crate::order;
use crate::run::RunContext;
use crate::scan::EngineTable;
use datafusion::catalog::{MemTable, TableProvider};
use datafusion::error::Result as DataFusionResult;
use datafusion::execution::runtime_env::RuntimeEnv;
use datafusion::execution::{SessionState, SessionStateBuilder, TaskContext};
use datafusion::logical_expr::LogicalPlan;
use datafusion::physical_plan::ExecutionPlan;
use datafusion::prelude::SessionConfig;
use engine::{Engine, Snapshot, Table};
use query::analytics::AnalyticsQuery;
use std::collections::HashMap;
use std::fmt;
use std::sync::Arc;
use types::SqlType;

/// Tables, for queries.
pub struct Database {
    catalog: sql::session::Database,
    /// Whether the catalog is this one's own, which learns of tables when a query is prepared.
    is_own: bool,
    tables: TableOrigin,
    session: SessionState,
}

/// Where the rows of a lowered plan come from.
#[derive(Clone)]
pub(crate) enum TableOrigin {
    /// From the engine, as the snapshot of the run sees them.
    OfEngine,
    /// From memory, by the numbers of the engine's tables.
    InMemory(Arc<HashMap<u32, Arc<dyn TableProvider>>>),
}

/// A query, bound and lowered.
pub struct PreparedQuery {
    text: String,
    columns: Arc<[SqlType]>,
    logical: LogicalPlan,
    /// Whether the plan is yet to be optimised: a run's snapshot says in which order tables are joined.
    is_ordered_by_run: bool,
    session: SessionState,
}

impl Database {
    /// All tables of `engine`, those created later included, under the names that [`sql::session::Database::adopt`] gives
    /// them.
    pub fn new(engine: Engine) -> Database {
        Database { is_own: true, ..Database::of_catalog(sql::session::Database::new(engine)) }
    }

    /// The tables that this catalog names.
    pub fn of_catalog(catalog: sql::session::Database) -> Database {
        let mut config = configuration();
        // Scans take no filters, so nobody would consume a dynamic one.
        config.options_mut().optimizer.enable_dynamic_filter_pushdown = false;
        // The order of joins is ours (module `order`), and it says which side is hashed.
        config.options_mut().optimizer.join_reordering = false;
        let builder = SessionStateBuilder::new().with_config(config).with_default_features();
        let session = builder.with_physical_optimizer_rules(barriers::physical_rules()).build();
        Database { catalog, is_own: false, tables: TableOrigin::OfEngine, session }
    }

    /// What to compare with: the rows of `snapshot` in DataFusion's own in-memory tables of `partitions` partitions, and
    /// DataFusion as it comes, without anything of ours between its operators. The columns are shared, not copied, where the
    /// snapshot has them frozen. The plans are made of the same bound queries; joins stay in DataFusion's order.
    ///
    /// # Errors
    /// DataFusion refuses a table, which would be a bug.
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

    /// The engine whose tables these are.
    pub fn engine(&self) -> &Engine {
        self.catalog.engine()
    }

    /// How its queries are planned.
    pub(crate) fn session(&self) -> &SessionState {
        &self.session
    }

    /// Makes a query ready. Whatever would write or set something is refused.
    ///
    /// # Errors
    /// [`Error::Statement`] if it is not one query over existing tables and columns, or one that analytics does not do.
    pub fn prepare(&self, text: &str) -> Result<Arc<PreparedQuery>> {
        if self.is_own {
            self.catalog.adopt(&self.engine().tables()).map_err(Error::refused)?;
        }
        let bound = self.catalog.query_alone(text).map_err(Error::refused)?;
        let AnalyticsQuery { plan, parameters: _, columns, context } = bound.query();
        let logical = lower(plan, columns, &[], context, &self.tables).map_err(Error::refused)?;
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

impl TableOrigin {
    /// The rows of one; nothing of a table that has been made since these were put into memory.
    pub(crate) fn provider(&self, table: &Arc<Table>) -> Option<Arc<dyn TableProvider>> {
        match self {
            TableOrigin::OfEngine => Some(Arc::new(EngineTable::new(Arc::clone(table)))),
            TableOrigin::InMemory(tables) => tables.get(&table.number()).cloned(),
        }
    }
}

impl PreparedQuery {
    /// The types of its answer's columns.
    pub(crate) fn columns(&self) -> &Arc<[SqlType]> {
        &self.columns
    }

    /// The operators that a run over this snapshot with so many partitions would have, a line each, for people.
    ///
    /// # Errors
    /// [`Error::Statement`] if no physical plan exists.
    pub fn explain(&self, snapshot: &Arc<Snapshot>, partitions: usize) -> Result<String> {
        let session = session_of(&self.session, partitions);
        // Ready at once: our planner does no input or output.
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

    /// The operators of one run, and what they find their run by.
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

/// The session of a run with so many partitions.
pub(crate) fn session_of(session: &SessionState, partitions: usize) -> SessionState {
    let mut session = session.clone();
    session.config_mut().options_mut().execution.target_partitions = partitions;
    session
}

/// The operators of a lowered plan over this snapshot.
pub(crate) async fn operators(
    logical: LogicalPlan,
    session: &SessionState,
    snapshot: &Arc<Snapshot>,
) -> DataFusionResult<Arc<dyn ExecutionPlan>> {
    let logical = order::optimized(logical, session, snapshot)?;
    session.query_planner().create_physical_plan(&logical, session).await
}

/// What all databases have in common. Plans name their tables themselves, so DataFusion needs no catalog.
fn configuration() -> SessionConfig {
    SessionConfig::new()
        .with_batch_size(BATCH_ROWS_MAX)
        .with_create_default_catalog_and_schema(false)
        .with_information_schema(false)
}
