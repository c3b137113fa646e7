//! A session: what one client has open.
//!
//! **Invariant:** nothing here blocks, but a query whose [`ResultSink`] allows that. A statement that must wait has had no effect; it is given again when its ticket is
//! ready. A statement outside a transaction block is part of an implicit transaction, which [`Session::sync`] ends.

mod action;
mod adopt;
mod alone;
mod analyse;
mod analysis;
mod copy;
mod cursor_rows;
pub(crate) mod cursors;
mod define;
mod env;
pub(crate) mod explain;
pub(crate) mod explain_options;
mod locking;
mod maintain;
pub(crate) mod names;
pub(crate) mod naps;
mod once;
mod parked;
mod parts;
mod prepared;
mod queries;
mod run;
mod server;
pub(crate) mod set;
mod stream;
mod transaction;
mod unbound;
mod wire;

use crate::exec::{AdvisoryState, SessionSequences};
use action::{Action, ActionTraits, PlannedQuery};
pub use alone::QueryAlone;
use catalog::{Catalog, CatalogSnapshot, TableInfo};
pub use copy::CopyPart;
pub(crate) use define::with_kept;
use define::{PendingDefinitions, PinnedCatalog};
use engine::{Engine, SessionOptions};
pub use env::Env;
use locked::RwLocked;
use names::SessionNames;
pub use names::{ChangedNames, bytes_of_rows};
pub use naps::Nap;
pub use parked::{Parked, Step};
pub use parts::{StatementText, parts};
use query::analytics::Analytics;
use query::plan::{ColumnInfo, TableUse};
use query::planner::TableSizes;
use run::{RunNeeds, StatementRun};
use server::{LiveSettings, ServerSettings};
use settings::Connect;
use settings::Settings;
use settings::roles::Roles;
use settings::roles::change::Changed;
use stage::Class;
use statement::bulk::DeferredDrops;
use statement::error::{SqlError, SqlResult, SqlState};
use statement::outcome::CommandTag;
use statement::planning::Planning;
use statement::pulse::Watch;
use statement::stack;
use std::sync::atomic::{AtomicBool, AtomicI64, Ordering};
use std::sync::{Arc, OnceLock, RwLock};
use std::time::Instant;
pub use stream::{Destination, ResultHead, ResultSink};
use syntax::ast;
use syntax::tree::Tree;
use types::SqlType;
use types::datum::Datum;
pub use unbound::PreparationFailure;
pub use wire::Canceller;

/// What all sessions share.
#[derive(Clone)]
pub struct Database {
    engine: Engine,
    catalog: Arc<Catalog>,
    analytics: Option<Arc<dyn Analytics>>,
    provider: Option<Arc<dyn catalog::Provider>>,
    server: Arc<LiveSettings>,
    roles: Arc<Roles>,
}

/// A statement, analysed. It can be bound again and again, by this session only.
#[derive(Debug)]
pub struct Statement {
    text: String,
    /// Nothing: the text was empty.
    tree: Option<Tree>,
    parameters: Vec<SqlType>,
    columns: Option<Vec<ColumnInfo>>,
    /// As it was bound last.
    bound: RwLock<Arc<BoundStatement>>,
    traits: ActionTraits,
    /// By hint or rule.
    class: Option<Class>,
    /// How often it was run.
    runs: AtomicI64,
    /// True unless nobody knows its columns yet, so that they may change while it waits.
    has_fixed_columns: AtomicBool,
    /// The columns with which it was run, if they had changed.
    later: OnceLock<Arc<[ColumnInfo]>>,
}

/// What a statement does, and what that depends on.
#[derive(Debug)]
struct BoundStatement {
    action: Arc<Action>,
    known: Arc<queries::KnownPath>,
    columns: Option<Arc<[ColumnInfo]>>,
    /// Locks that it takes before it begins.
    uses: Vec<TableUse>,
    /// Sizes of tables on which its plan depends.
    sizes: TableSizes,
    /// Tables that its names stand for.
    tables: Vec<Arc<TableInfo>>,
    catalog: u64,
    path: Arc<[String]>,
    /// It was made on a large stack, and is dropped on one.
    is_deep: bool,
}

impl Drop for BoundStatement {
    fn drop(&mut self) {
        if self.is_deep {
            let action = std::mem::replace(&mut self.action, Arc::new(Action::Empty));
            let known = std::mem::take(&mut self.known);
            stack::on_large(move || drop((action, known)));
        }
    }
}

impl BoundStatement {
    /// Of what depends on nothing.
    fn fixed(action: Action) -> BoundStatement {
        let is_deep = stack::is_large();
        BoundStatement {
            action: Arc::new(action),
            known: Arc::default(),
            columns: None,
            uses: Vec::new(),
            sizes: TableSizes::default(),
            tables: Vec::new(),
            catalog: 0,
            path: Arc::from([]),
            is_deep,
        }
    }
}

impl Statement {
    /// Without parameters, columns and what else there may be.
    fn of(text: &str, bound: BoundStatement) -> Statement {
        Statement {
            text: text.to_owned(),
            tree: None,
            parameters: Vec::new(),
            columns: None,
            traits: bound.action.traits(),
            bound: RwLock::new(Arc::new(bound)),
            class: None,
            runs: AtomicI64::new(0),
            has_fixed_columns: AtomicBool::new(true),
            later: OnceLock::new(),
        }
    }

    /// Types of its parameters.
    pub fn parameters(&self) -> &[SqlType] {
        &self.parameters
    }

    /// Columns of its rows, if it returns rows.
    pub fn columns(&self) -> Option<&[ColumnInfo]> {
        match self.later.get() {
            Some(later) => Some(later),
            None => self.columns.as_deref(),
        }
    }

    /// Whether a transaction that has failed does it nevertheless: it ends it, or goes back.
    pub fn ends_failed_transaction(&self) -> bool {
        self.traits.ends_or_goes_back
    }

    /// Its text.
    pub fn text(&self) -> &str {
        &self.text
    }

    /// How often it was run.
    pub fn runs(&self) -> i64 {
        self.runs.load(Ordering::Relaxed)
    }

    fn known(&self) -> Arc<queries::KnownPath> {
        Arc::clone(&self.bound().known)
    }

    fn bound(&self) -> Arc<BoundStatement> {
        Arc::clone(&self.bound.read_locked_anyway())
    }
}

/// A statement with its parameters, about to be run or run.
#[derive(Debug)]
pub struct Portal {
    statement: Arc<Statement>,
    values: Vec<Datum>,
}

/// What a statement came to.
#[derive(Debug, PartialEq)]
pub enum Outcome {
    /// The text was empty.
    Empty,
    /// Rows, and the tag to be completed by how many were sent (`SELECT`), or whole (`INSERT 0 3`).
    Rows(Vec<Box<[Datum]>>, CommandTag),
    /// Rows or data that have gone to a [`ResultSink`], and the whole tag.
    Streamed(CommandTag),
    /// No rows.
    Done(CommandTag),
}

/// What is open.
#[derive(Clone, Copy, PartialEq, Eq)]
enum TransactionBlock {
    None,
    /// Until [`Session::sync`].
    Implicit,
    /// From `BEGIN` on.
    Explicit,
}

/// One client's session.
pub struct Session {
    database: Database,
    engine: engine::Session,
    /// Server settings as of the last reload that this session has taken.
    server: Arc<ServerSettings>,
    settings: Settings,
    block: TransactionBlock,
    /// True while the statements of a message with several are run: they are one transaction block, unless they end it.
    has_several: bool,
    has_failed: bool,
    savepoints: Vec<Savepoint>,
    /// The catalog that the open transaction has had from its beginning, at REPEATABLE READ and above.
    pinned: Option<PinnedCatalog>,
    /// What the open transaction has defined.
    work: Option<PendingDefinitions>,
    locked: define::DefinitionLocks,
    numbers: SessionSequences,
    advised: AdvisoryState,
    /// Statements and portals that have one.
    names: SessionNames,
    /// Those that SQL has given or taken away.
    renamed: Option<Box<ChangedNames>>,
    /// Values of the `EXECUTE` that waits: they are made once.
    waiting: Option<Vec<Datum>>,
    /// Schemas where names are looked up, as of `path_version`.
    path: Arc<[String]>,
    path_version: u64,
    /// What values depend on beside their arguments; its settings are as of `env_version`.
    env: Arc<Env>,
    env_version: u64,
    /// Catalog of the statement under way.
    catalog_snapshot: Option<Arc<CatalogSnapshot>>,
    notices: Vec<(&'static str, SqlError)>,
    /// The statement under way has been given before, and waits.
    is_parked: bool,
    /// True if the time of the transaction is settled, which begins with the first statement that is analysed for it.
    is_timed: bool,
    /// Binding of the statement that waits, if it has begun: it goes on with what it has seen.
    running: Option<Arc<BoundStatement>>,
    /// The binding that has failed last, if that may be for a definition that is not committed.
    unbound: Option<unbound::FailedBinding>,
    /// The sleep of the statement under way, and where it is.
    nap: Option<naps::Nap>,
    /// Stay of the statement that is run next where it delays others.
    stay: naps::StayLimit,
    bed: Arc<naps::SessionSleep>,
    /// The query that is computed elsewhere.
    analysis: queries::AnalysisGuard,
    /// Destination of the rows of the portal that is executed next.
    destination: Destination,
    /// The EXPLAIN ANALYZE that is under way.
    explaining: Option<explain::ExplainRun>,
    /// The COPY that is under way, and how it is cancelled between its pieces.
    copying: Option<copy::ActiveCopy>,
    copy_flag: Arc<copy::CopyFlag>,
    user: String,
    name_of_database: String,
    /// The class that a hint or a rule gives to the transaction.
    hinted: Option<Class>,
    /// What the transaction has changed of roles.
    roles: Option<Box<Changed>>,
    /// When the statement under way has taken too long, and whether there is one: its timer runs, from the first message about it to
    /// its end.
    deadline: Option<Instant>,
    has_timer: bool,
    /// It has made statements on a large stack, and runs all on one since then.
    is_deep: bool,
    /// Flag that cancels the preparation of a statement.
    planning: Arc<Planning>,
    /// Message of several statements that is under way.
    message: Arc<Planning>,
    /// Rows and the like of statements that had to end, to be dropped later.
    leavings: DeferredDrops,
    /// Watch of the statement that runs in the engine.
    watch: Arc<dyn Watch>,
}

/// A savepoint, and what else there was then.
struct Savepoint {
    name: String,
    engine: engine::Savepoint,
    /// How many changes of settings.
    settings: usize,
    /// What the transaction had defined.
    work: Option<define::CatalogStates>,
}

impl Database {
    /// Over this engine.
    pub fn new(engine: Engine) -> Database {
        Database {
            engine,
            catalog: Arc::default(),
            analytics: None,
            provider: None,
            server: Arc::default(),
            roles: Arc::new(Roles::of_a_fresh_server()),
        }
    }

    /// Large queries run there.
    #[must_use]
    pub fn with_analytics(self, analytics: Arc<dyn Analytics>) -> Database {
        Database { analytics: Some(analytics), ..self }
    }

    /// With what the server knows of its sessions.
    #[must_use]
    pub fn with_provider(self, provider: Arc<dyn catalog::Provider>) -> Database {
        Database { provider: Some(provider), ..self }
    }

    /// The engine.
    pub fn engine(&self) -> &Engine {
        &self.engine
    }

    /// Opens a session.
    ///
    /// # Errors
    /// Unknown database, a setting that does not exist or does not take the value.
    pub fn connect(&self, connect: Connect) -> SqlResult<Session> {
        let Connect { user, database, settings: wishes, backend_pid } = connect;
        if database != catalog::DATABASE {
            let message = format!("database \"{database}\" does not exist");
            return Err(SqlError::new(SqlState::INVALID_CATALOG_NAME, message));
        }
        let server = self.server.current();
        let (settings, notices) = self.settings_of(&server, &user, &database, &wishes)?;
        let name = crate::system::locks::session_name(&user, backend_pid);
        let env = Arc::new(Env::new(&user, backend_pid, Arc::new(settings.clone())));
        // No settings have this version, so the first statement makes its environment and search path.
        let env_version = u64::MAX;
        let engine = self.engine.session(SessionOptions { name, ..SessionOptions::new(settings.class()) });
        let watch = Arc::new(run::EngineWatch(engine.canceller(), env.naps.clone()));
        Ok(Session {
            database: self.clone(),
            advised: AdvisoryState::new(engine.advisory_locks()),
            engine,
            server,
            settings,
            block: TransactionBlock::None,
            has_several: false,
            has_failed: false,
            savepoints: Vec::new(),
            pinned: None,
            work: None,
            locked: Vec::new(),
            numbers: SessionSequences::default(),
            names: env.names.clone(),
            renamed: None,
            waiting: None,
            path: Arc::from([]),
            path_version: u64::MAX,
            env,
            env_version,
            catalog_snapshot: None,
            notices,
            is_parked: false,
            is_timed: false,
            running: None,
            unbound: None,
            nap: None,
            stay: naps::StayLimit::default(),
            bed: Arc::default(),
            analysis: queries::AnalysisGuard::default(),
            destination: Destination::Whole,
            explaining: None,
            copying: None,
            copy_flag: Arc::default(),
            user,
            name_of_database: database,
            hinted: None,
            roles: None,
            deadline: None,
            has_timer: false,
            is_deep: false,
            planning: Arc::default(),
            message: Arc::default(),
            leavings: DeferredDrops::default(),
            watch,
        })
    }
}

impl Session {
    /// Binds it to values of its parameters' types.
    ///
    /// # Errors
    /// Not as many values as parameters.
    pub fn bind(&mut self, statement: &Arc<Statement>, values: Vec<Datum>) -> SqlResult<Portal> {
        let (given, wanted) = (values.len(), statement.parameters.len());
        if given != wanted {
            let message =
                format!("bind message supplies {given} parameters, but the prepared statement requires {wanted}");
            return Err(SqlError::new(SqlState::PROTOCOL_VIOLATION, message));
        }
        self.begin_timer();
        Ok(Portal { statement: Arc::clone(statement), values })
    }

    /// Runs it to its end. Outside a transaction block it becomes part of the implicit transaction, which
    /// [`Session::sync`] ends.
    ///
    /// # Errors
    /// Whatever the statement meets; the transaction has failed then.
    pub fn execute(&mut self, portal: &mut Portal) -> SqlResult<Step> {
        let deadline = self.begin_timer();
        let planning = Arc::clone(&self.planning);
        let execute = || stack::fitting(self.is_deep, || self.execute_here(portal));
        let executed = statement::planning::executing(&planning, deadline, execute);
        self.leavings.add(DeferredDrops::take());
        executed
    }

    fn execute_here(&mut self, portal: &mut Portal) -> SqlResult<Step> {
        self.take_reloaded();
        let statement = Arc::clone(&portal.statement);
        if !statement.traits.streams {
            self.destination = Destination::Whole;
        }
        self.check_runnable(portal)?;
        if statement.class.is_some() && !self.engine.is_open() {
            self.hinted = statement.class;
        }
        let result = self.act_bound(portal);
        match &result {
            Ok(Step::Done(_)) => {
                self.running = None;
                self.end_timer();
                statement.settle();
                statement.runs.fetch_add(1, Ordering::Relaxed);
            }
            Ok(_) => {}
            Err(_) => {
                self.explaining = None;
                self.running = None;
                self.is_parked = false;
                self.end_nap();
                self.fail();
            }
        }
        result
    }

    /// Runs the statement as it is bound now.
    fn act_current(&mut self, statement: &Arc<Statement>, values: &[Datum]) -> SqlResult<Step> {
        let bound = &self.current(statement)?;
        self.act(StatementRun { statement, bound, values })
    }

    fn act(&mut self, given: StatementRun<'_>) -> SqlResult<Step> {
        // What a definition does cannot be begun twice, so it begins where there is room.
        let is_deep = self.is_deep || matches!(*given.bound.action, Action::Define(_));
        stack::fitting(is_deep, || self.act_here(given))
    }

    fn act_here(&mut self, given: StatementRun<'_>) -> SqlResult<Step> {
        let StatementRun { statement, bound, values } = given;
        let done = |words: &'static str| Ok(Step::Done(Outcome::Done(CommandTag { words, rows: None })));
        match &*bound.action {
            Action::Empty => Ok(Step::Done(Outcome::Empty)),
            Action::CopyFrom(_) | Action::CopyTo(_) => self.copy(given),
            Action::Query(query) if query.is_modifying() => self.by_rows(given, query),
            Action::Query(query) => {
                if self.settings.is_read_only()
                    && let Some(verb) = statement.known().writes(&query.rows)
                {
                    return Err(read_only(engine::Error::ReadOnly.into(), verb));
                }
                self.query(given, query)
            }
            Action::Change(modify) => {
                let words = modify.change.tag();
                let ran = self
                    .run(values, RunNeeds::of(bound), |run| run.modify(modify))
                    .map_err(|error| read_only(error, words.split(' ').next().unwrap_or(words)))?;
                self.step_of(ran, given, |_, changed| {
                    let tag = CommandTag { words, rows: Some(changed.rows) };
                    Ok(Step::Done(if modify.returning.is_some() {
                        Outcome::Rows(changed.returned, tag)
                    } else {
                        Outcome::Done(tag)
                    }))
                })
            }
            Action::Define(tree) => self.define(&statement.text, tree),
            Action::LockTable => {
                self.need_block("LOCK TABLE")?;
                let ran = self.run(values, RunNeeds::of(bound), |run| {
                    // As in PostgreSQL, it is not what the transaction's snapshot is taken for.
                    run.txn.has_read_nothing();
                    Ok(())
                })?;
                self.step_of(ran, given, |_, ()| done("LOCK TABLE"))
            }
            Action::Maintain(words) => self.maintain(words, given),
            Action::Nothing(words) => done(words),
            Action::Prepare(prepare) => {
                self.prepare_named(&statement.text, prepare)?;
                done("PREPARE")
            }
            Action::Execute(execute) => self.execute_named(execute),
            Action::Explain(explain) => self.explain(explain, values),
            Action::Declare(declare) => self.declare(declare, values),
            Action::Fetch(fetch) => self.fetch(statement, fetch),
            Action::Advance(name) => self.advance_portal(name, values),
            Action::Close(name) => {
                self.close_cursor(name.as_deref())?;
                done(if name.is_some() { "CLOSE CURSOR" } else { "CLOSE CURSOR ALL" })
            }
            Action::Deallocate(name) => {
                self.deallocate(name.as_deref())?;
                done(if name.is_some() { "DEALLOCATE" } else { "DEALLOCATE ALL" })
            }
            Action::Begin { modes, is_start } => {
                let before = self.block;
                if before == TransactionBlock::Explicit {
                    self.warn(SqlState::ACTIVE_SQL_TRANSACTION, "there is already a transaction in progress");
                } else {
                    self.open(TransactionBlock::Explicit);
                }
                if let Err(error) = self.set_modes(modes) {
                    // A block that could not begin is over with its message.
                    if before != TransactionBlock::Explicit {
                        self.block = TransactionBlock::Implicit;
                    }
                    return Err(error);
                }
                done(if *is_start { "START TRANSACTION" } else { "BEGIN" })
            }
            Action::End { commits, chain: true } => {
                done(if self.end_and_chain(*commits)? { "COMMIT" } else { "ROLLBACK" })
            }
            Action::End { commits, chain: false } if self.block != TransactionBlock::Explicit => {
                self.warn(SqlState::NO_ACTIVE_SQL_TRANSACTION, "there is no transaction in progress");
                self.end(*commits)?;
                done(if *commits { "COMMIT" } else { "ROLLBACK" })
            }
            Action::End { commits, chain: false } => done(if self.end(*commits)? { "COMMIT" } else { "ROLLBACK" }),
            Action::Savepoint(name) => {
                self.need_begun_block("SAVEPOINT")?;
                self.begin_in_engine()?;
                self.set_savepoint(name)?;
                done("SAVEPOINT")
            }
            Action::RollbackTo(name) => {
                self.need_begun_block("ROLLBACK TO SAVEPOINT")?;
                let at = self.savepoint_named(name)?;
                self.engine.rollback_to(&self.savepoints[at].engine)?;
                self.settings.back_to(self.savepoints[at].settings);
                self.engine.set_writable(!self.settings.is_read_only());
                let defined = self.savepoints[at].work.clone();
                self.defined_back_to(defined);
                self.savepoints.truncate(at + 1);
                self.close_portals(|cursor| at < cursor.level);
                self.has_failed = false;
                done("ROLLBACK")
            }
            Action::Release(name) => {
                self.need_begun_block("RELEASE SAVEPOINT")?;
                let at = self.savepoint_named(name)?;
                self.engine.release(&self.savepoints[at].engine)?;
                self.savepoints.truncate(at);
                self.names.get().portals.values_mut().for_each(|cursor| cursor.level = cursor.level.min(at));
                done("RELEASE")
            }
            Action::SetTransaction(modes) => {
                if self.is_in_block() {
                    self.open_implicit();
                    self.set_modes(modes)?;
                } else {
                    self.warn(
                        SqlState::NO_ACTIVE_SQL_TRANSACTION,
                        "SET TRANSACTION can only be used in transaction blocks",
                    );
                }
                done("SET")
            }
            Action::SetCharacteristics(modes) => {
                self.open_implicit();
                for (own, value) in modes {
                    self.set_setting(settings::default_of(own), Some(value), false)?;
                }
                done("SET")
            }
            Action::Set { name, value, is_local } => {
                if let Some(value) = value
                    && let Some(name) = settings::of_transaction(name)
                {
                    self.open_implicit();
                    self.set_modes(&[(name, value.as_str())])?;
                    return done("SET");
                }
                if *is_local && self.block == TransactionBlock::None && !self.has_several {
                    // It is looked at all the same.
                    self.settings.clone().set(name, value.as_deref(), true)?;
                    self.warn(SqlState::NO_ACTIVE_SQL_TRANSACTION, "SET LOCAL can only be used in transaction blocks");
                    return done("SET");
                }
                self.open_implicit();
                self.set_setting(name, value.as_deref(), *is_local)?;
                done(if matches!(statement.tree.as_deref(), Some(ast::Statement::Reset(_))) { "RESET" } else { "SET" })
            }
            Action::Role(change) => {
                self.change_roles(change)?;
                done(change.tag())
            }
            Action::ResetAll => {
                self.open_implicit();
                self.settings.reset_all();
                done("RESET")
            }
            Action::Show(name) => {
                // What a transaction has of its own is what one that begins now would have.
                self.open_implicit();
                let value = self.settings.show(name)?;
                let row: Box<[Datum]> = Box::new([Datum::text(value)]);
                Ok(Step::Done(Outcome::Rows(vec![row], CommandTag { words: "SHOW", rows: None })))
            }
            Action::ShowAll => {
                let row = |(name, value, about): (&str, &str, &str)| -> Box<[Datum]> {
                    Box::new([Datum::text(name), Datum::text(value), Datum::text(about)])
                };
                let rows = self.settings.all().map(row).collect();
                Ok(Step::Done(Outcome::Rows(rows, CommandTag { words: "SHOW", rows: None })))
            }
            Action::Discard(what) => done(self.discard(*what)?),
        }
    }

    /// The statement once more: what its names stand for has changed before it began. If the transaction keeps its snapshot,
    /// its tables must still be where that sees their rows.
    fn again(&mut self, given: StatementRun<'_>) -> SqlResult<Step> {
        self.advance_pinned(&given.bound.uses)?;
        self.act_current(given.statement, given.values)
    }
}

/// `42P02`, of a statement with parameters for which nobody can give values.
pub fn no_parameter(text: &str) -> SqlError {
    let Some(first) = syntax::lex::first_parameter(text) else {
        return SqlError::new(SqlState::UNDEFINED_PARAMETER, "there is no parameter $1");
    };
    let message = format!("there is no parameter {}", first.of(text));
    SqlError::new(SqlState::UNDEFINED_PARAMETER, message).at(first.position(text))
}

/// In PostgreSQL's words.
fn read_only(error: SqlError, verb: &str) -> SqlError {
    if error.engine() != Some(&engine::Error::ReadOnly) {
        return error;
    }
    SqlError::new(error.state(), format!("cannot execute {verb} in a read-only transaction"))
}
