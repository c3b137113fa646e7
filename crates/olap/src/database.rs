//! An engine's tables as SQL sees them, and statements made ready to run.
//!
//! Invariant: a prepared query holds no snapshot and no state of a run, so it may run many times, at once and on several
//! runtimes. Its logical plan is made once; the physical plan is made for each run, because DataFusion's operators keep
//! the state of a run inside the plan.

use crate::BATCH_ROWS_MAX;
use crate::error::{Error, Result};
use crate::run::RunContext;
use crate::safepoint::InsertSafepoints;
use crate::scan::EngineTable;
use arrow_schema::SchemaRef;
use datafusion::catalog::{CatalogProvider, MemTable, MemoryCatalogProvider, SchemaProvider, TableProvider};
use datafusion::error::{DataFusionError, Result as DataFusionResult};
use datafusion::execution::context::SQLOptions;
use datafusion::execution::runtime_env::RuntimeEnv;
use datafusion::execution::{SessionState, SessionStateBuilder, TaskContext};
use datafusion::logical_expr::LogicalPlan;
use datafusion::physical_plan::ExecutionPlan;
use datafusion::prelude::SessionConfig;
use engine::{Engine, Snapshot};
use std::collections::HashMap;
use std::fmt;
use std::sync::Arc;

const CATALOG: &str = "overtake";
/// The schema of tables whose names have no other.
const SCHEMA: &str = "public";

/// The tables of one engine, for queries.
pub struct Database {
    engine: Engine,
    session: SessionState,
}

/// A query, parsed and optimised but for what depends on a run.
pub struct Prepared {
    text: String,
    logical: LogicalPlan,
    session: SessionState,
}

impl Database {
    /// All tables of `engine`, those created later included. The engine's table `tpcc.orders` is `orders` of the schema
    /// `tpcc`; a name without a point is in the schema that need not be named.
    ///
    /// # Errors
    /// DataFusion refuses the configuration, which would be a bug.
    pub fn new(engine: Engine) -> Result<Database> {
        let mut config = configuration();
        // Scans take no filters, so nobody would consume a dynamic one.
        config.options_mut().optimizer.enable_dynamic_filter_pushdown = false;
        let builder = SessionStateBuilder::new().with_config(config).with_default_features();
        let session = builder.with_physical_optimizer_rule(Arc::new(InsertSafepoints)).build();
        session.catalog_list().register_catalog(CATALOG.to_owned(), Arc::new(EngineCatalog { engine: engine.clone() }));
        Ok(Database { engine, session })
    }

    /// What to compare with: the rows of `snapshot` in DataFusion's own in-memory tables of `partitions` partitions, and
    /// DataFusion as it comes, without anything of ours between its operators. The columns are shared, not copied, where the
    /// snapshot has them frozen. Only tables whose names have no schema.
    ///
    /// # Errors
    /// DataFusion refuses a table, which would be a bug.
    pub fn of_memory_tables(engine: Engine, snapshot: &Arc<Snapshot>, partitions: usize) -> Result<Database> {
        let session = SessionStateBuilder::new().with_config(configuration()).with_default_features().build();
        let tables: HashMap<String, Arc<dyn TableProvider>> = engine
            .tables()
            .iter()
            .map(|table| {
                let all: Vec<usize> = (0..table.columns().len()).collect();
                let parts = snapshot.scan(table, &all, BATCH_ROWS_MAX).split(partitions);
                let batches = parts.into_iter().map(Iterator::collect).collect();
                let memory = MemTable::try_new(Arc::clone(table.schema()), batches).map_err(Error::statement)?;
                Ok((table.name().to_owned(), Arc::new(memory) as Arc<dyn TableProvider>))
            })
            .collect::<Result<_>>()?;
        let catalog = MemoryCatalogProvider::new();
        catalog.register_schema(SCHEMA, Arc::new(MemoryTables(tables))).map_err(Error::statement)?;
        session.catalog_list().register_catalog(CATALOG.to_owned(), Arc::new(catalog));
        Ok(Database { engine, session })
    }

    /// The engine whose tables these are.
    pub fn engine(&self) -> &Engine {
        &self.engine
    }

    /// How its queries are planned.
    pub(crate) fn session(&self) -> &SessionState {
        &self.session
    }

    /// Makes a query ready. Whatever would write or set something is refused.
    ///
    /// # Errors
    /// [`Error::Statement`] if it is not one query over existing tables and columns.
    pub fn prepare(&self, text: &str) -> Result<Arc<Prepared>> {
        let read_only = SQLOptions::new().with_allow_ddl(false).with_allow_dml(false).with_allow_statements(false);
        // Ready at once: our catalog does no input or output.
        let plan = futures::executor::block_on(self.session.create_logical_plan(text)).map_err(Error::statement)?;
        read_only.verify_plan(&plan).map_err(Error::statement)?;
        let logical = self.session.optimize(&plan).map_err(Error::statement)?;
        Ok(Arc::new(Prepared { text: text.to_owned(), logical, session: self.session.clone() }))
    }
}

impl Prepared {
    /// Its SQL.
    pub fn text(&self) -> &str {
        &self.text
    }

    /// The columns of its answer.
    pub fn schema(&self) -> SchemaRef {
        Arc::clone(self.logical.schema().inner())
    }

    /// The operators that a run with so many partitions would have, a line each, for people.
    ///
    /// # Errors
    /// [`Error::Statement`] if no physical plan exists.
    pub fn explain(&self, partitions: usize) -> Result<String> {
        let session = self.session_of(partitions);
        let plan = futures::executor::block_on(session.query_planner().create_physical_plan(&self.logical, &session))
            .map_err(Error::statement)?;
        Ok(datafusion::physical_plan::displayable(plan.as_ref()).indent(false).to_string())
    }

    fn session_of(&self, partitions: usize) -> SessionState {
        let mut session = self.session.clone();
        session.config_mut().options_mut().execution.target_partitions = partitions;
        session
    }

    /// The operators of one run, and what they find their run by.
    pub(crate) async fn plan(
        &self,
        partitions: usize,
        environment: Arc<RuntimeEnv>,
        run: Arc<RunContext>,
    ) -> DataFusionResult<(Arc<dyn ExecutionPlan>, Arc<TaskContext>)> {
        let session = self.session_of(partitions);
        let plan = session.query_planner().create_physical_plan(&self.logical, &session).await?;
        let config = session.config().clone().with_extension(run);
        let context = TaskContext::from(&session).with_session_config(config).with_runtime(environment);
        Ok((plan, Arc::new(context)))
    }
}

impl fmt::Debug for Prepared {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Prepared").field("text", &self.text).finish_non_exhaustive()
    }
}

/// What all databases have in common.
fn configuration() -> SessionConfig {
    SessionConfig::new()
        .with_batch_size(BATCH_ROWS_MAX)
        .with_default_catalog_and_schema(CATALOG, SCHEMA)
        .with_create_default_catalog_and_schema(false)
        .with_information_schema(false)
}

/// The part of a table's name that is its schema, and the rest.
fn split_name(name: &str) -> (&str, &str) {
    name.split_once('.').unwrap_or((SCHEMA, name))
}

/// Looks schemas and tables up when a query names them, so that later ones are found.
struct EngineCatalog {
    engine: Engine,
}

struct EngineTables {
    engine: Engine,
    schema: String,
}

impl EngineCatalog {
    fn has(&self, schema: &str) -> bool {
        schema == SCHEMA || self.engine.tables().iter().any(|table| split_name(table.name()).0 == schema)
    }
}

impl EngineTables {
    fn find(&self, name: &str) -> Option<Arc<engine::Table>> {
        self.engine.tables().into_iter().find(|table| split_name(table.name()) == (&self.schema, name))
    }
}

impl fmt::Debug for EngineCatalog {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("EngineCatalog")
    }
}

impl fmt::Debug for EngineTables {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("EngineTables").field("schema", &self.schema).finish_non_exhaustive()
    }
}

impl CatalogProvider for EngineCatalog {
    fn schema_names(&self) -> Vec<String> {
        let tables = self.engine.tables();
        let mut names: Vec<String> = tables.iter().map(|table| split_name(table.name()).0.to_owned()).collect();
        names.sort_unstable();
        names.dedup();
        names
    }

    fn schema(&self, name: &str) -> Option<Arc<dyn SchemaProvider>> {
        let schema = || EngineTables { engine: self.engine.clone(), schema: name.to_owned() };
        self.has(name).then(|| Arc::new(schema()) as Arc<dyn SchemaProvider>)
    }
}

#[async_trait::async_trait]
impl SchemaProvider for EngineTables {
    fn table_names(&self) -> Vec<String> {
        let tables = self.engine.tables();
        let names = tables.iter().map(|table| split_name(table.name()));
        names.filter(|(schema, _)| *schema == self.schema).map(|(_, name)| name.to_owned()).collect()
    }

    async fn table(&self, name: &str) -> DataFusionResult<Option<Arc<dyn TableProvider>>, DataFusionError> {
        Ok(self.find(name).map(|table| Arc::new(EngineTable::new(table)) as Arc<dyn TableProvider>))
    }

    fn table_exist(&self, name: &str) -> bool {
        self.find(name).is_some()
    }
}

/// Tables that never change.
#[derive(Debug)]
struct MemoryTables(HashMap<String, Arc<dyn TableProvider>>);

#[async_trait::async_trait]
impl SchemaProvider for MemoryTables {
    fn table_names(&self) -> Vec<String> {
        self.0.keys().cloned().collect()
    }

    async fn table(&self, name: &str) -> DataFusionResult<Option<Arc<dyn TableProvider>>, DataFusionError> {
        Ok(self.0.get(name).cloned())
    }

    fn table_exist(&self, name: &str) -> bool {
        self.0.contains_key(name)
    }
}
