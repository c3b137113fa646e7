//! Session of one client.
//!
//! **Invariant:** no call blocks, except [`Parked::wait`], and a query whose [`Destination`] lets it wait for room in
//! its [`ResultSink`]. A statement that must wait is rolled back, and the caller runs it again when its ticket is
//! ready; calls of sequences and session-level advisory locks are not repeated then. A statement outside a transaction
//! block is part of an implicit transaction, which [`Session::sync`] ends.

mod action;
mod adopt;
mod alone;
mod analyse;
mod analysis;
mod authority;
mod copy;
mod cursor_rows;
mod cursor_run;
pub(crate) mod cursors;
mod define;
pub(crate) mod explain;
mod locking;
mod maintain;
pub(crate) mod names;
mod once;
mod parked;
mod parts;
mod prepared;
mod procedure;
mod queries;
mod run;
mod server;
pub(crate) mod set;
pub(crate) mod sleeps;
mod stream;
mod transaction;
mod unbound;
mod urgent;
mod wire;

use crate::context::{Env, SessionCode};
pub use crate::exec::urgent::GaveUp;
use crate::exec::{AdvisoryState, SessionSequences};
use action::{Action, ActionTraits, PlannedQuery};
pub use alone::QueryAlone;
use authority::{Authority, StatementNeeds};
use catalog::{Catalog, CatalogSnapshot, TableInfo};
pub use copy::CopyPart;
use define::{PendingDefinitions, PinnedCatalog};
use engine::{Engine, SessionOptions};
use locked::RwLocked;
use names::SessionNames;
pub use names::{ChangedNames, bytes_of_rows};
pub use parked::{Parked, Step};
pub use parts::{StatementText, parts};
use procs::Runtimes;
use query::analytics::Analytics;
use query::plan::{ColumnInfo, TableUse};
use query::planner::TableSizes;
use run::{RunNeeds, StatementRun};
use server::{LiveSettings, ServerSettings};
use settings::Connect;
use settings::Settings;
use settings::roles::Roles;
use settings::roles::change::{Changed, RoleChange};
pub use sleeps::Sleep;
use stage::{Class, Stage, StageClock, TickSource};
use statement::bulk::DeferredDrops;
use statement::error::{SqlError, SqlResult, SqlState};
use statement::outcome::CommandTag;
use statement::planning::Planning;
use statement::pulse::Watch;
use statement::stack;
use statement::time::TimeSource;
use std::sync::atomic::{AtomicBool, AtomicI64, Ordering};
use std::sync::{Arc, OnceLock, RwLock};
use std::time::Instant;
pub use stream::{Destination, ResultHead, ResultSink};
use syntax::ast;
use syntax::tree::Tree;
use types::SqlType;
use types::datum::Datum;
pub use unbound::PreparationFailure;
pub use urgent::{UrgentCounts, UrgentScheduler, UrgentWork};
pub use wire::Canceller;

/// Database: state that all sessions share.
#[derive(Clone)]
pub struct Database {
    engine: Engine,
    catalog: Arc<Catalog>,
    analytics: Option<Arc<dyn Analytics>>,
    provider: Option<Arc<dyn catalog::Provider>>,
    runtimes: Arc<Runtimes>,
    server: Arc<LiveSettings>,
    roles: Arc<Roles>,
    time: TimeSource,
    cursor_threads: Arc<cursor_run::SessionThreads>,
    procedure_threads: Arc<cursor_run::SessionThreads>,
    ending_procedures: Arc<procedure::EndingProcedures>,
    urgent: Option<Arc<urgent::UrgentCalls>>,
}

/// Analysed statement. It can be bound to values repeatedly, by its session only.
#[derive(Debug)]
pub struct Statement {
    text: String,
    /// `None` if the text was empty.
    tree: Option<Tree>,
    parameters: Vec<SqlType>,
    columns: Option<Vec<ColumnInfo>>,
    /// Latest binding.
    bound: RwLock<Arc<BoundStatement>>,
    traits: ActionTraits,
    /// Class given by a hint or rule.
    class: Option<Class>,
    /// Number of runs.
    runs: AtomicI64,
    /// False while no client knows the columns, so that they may change while the statement waits.
    has_fixed_columns: AtomicBool,
    /// Columns of the run, if they had changed.
    later: OnceLock<Arc<[ColumnInfo]>>,
}

/// Action of a statement, and the state that it depends on.
#[derive(Debug)]
struct BoundStatement {
    action: Arc<Action>,
    known: Arc<queries::KnownPath>,
    columns: Option<Arc<[ColumnInfo]>>,
    /// Rights that the statement needs.
    needs: StatementNeeds,
    /// Locks to take before the statement begins.
    uses: Vec<TableUse>,
    /// Table sizes on which the plan depends.
    sizes: TableSizes,
    /// Tables that the statement names.
    tables: Vec<Arc<TableInfo>>,
    catalog: u64,
    path: Arc<[String]>,
    /// True if the statement was bound on a large stack, and must be dropped on one.
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
    /// Returns a binding that depends on nothing.
    fn fixed(action: Action) -> BoundStatement {
        let is_deep = stack::is_large();
        BoundStatement {
            action: Arc::new(action),
            known: Arc::default(),
            columns: None,
            needs: StatementNeeds::default(),
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
    /// Returns a statement without parameters and columns.
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

    /// Returns the types of the parameters.
    pub fn parameters(&self) -> &[SqlType] {
        &self.parameters
    }

    /// Returns the columns of the result, if there is one.
    pub fn columns(&self) -> Option<&[ColumnInfo]> {
        match self.later.get() {
            Some(later) => Some(later),
            None => self.columns.as_deref(),
        }
    }

    /// Returns true if a failed transaction allows the statement, because it ends the transaction or rolls back to a
    /// savepoint.
    pub fn ends_failed_transaction(&self) -> bool {
        self.traits.ends_or_goes_back
    }

    /// Returns the text.
    pub fn text(&self) -> &str {
        &self.text
    }

    /// Returns the number of runs.
    pub fn runs(&self) -> i64 {
        self.runs.load(Ordering::Relaxed)
    }

    /// Returns the stage in which its plan is looked up before it runs.
    fn planning_stage(&self) -> Stage {
        if self.runs() == 0 { Stage::Plan } else { Stage::PlanCached }
    }

    fn known(&self) -> Arc<queries::KnownPath> {
        Arc::clone(&self.bound().known)
    }

    fn bound(&self) -> Arc<BoundStatement> {
        Arc::clone(&self.bound.read_locked_anyway())
    }
}

/// Statement with values of its parameters.
#[derive(Debug)]
pub struct Portal {
    statement: Arc<Statement>,
    values: Vec<Datum>,
    /// Number of rows of the first run, if the client has set it: [`Session::suspend_at`].
    rows_first: Option<usize>,
}

impl Portal {
    /// Returns the stage in which the plan of its statement is looked up: that of planning before the first run.
    pub fn planning_stage(&self) -> Stage {
        self.statement.planning_stage()
    }
}

/// Result of a statement.
#[derive(Debug, PartialEq)]
pub enum Outcome {
    /// The text was empty.
    Empty,
    /// Rows, with a tag that is complete (`INSERT 0 3`) or lacks the number of rows sent (`SELECT`).
    Rows(Vec<Box<[Datum]>>, CommandTag),
    /// Rows or data that were sent to a [`ResultSink`], with the complete tag.
    Streamed(CommandTag),
    /// No rows.
    Done(CommandTag),
}

/// Kind of the open transaction.
#[derive(Clone, Copy, PartialEq, Eq)]
enum TransactionBlock {
    None,
    /// Implicit transaction, until [`Session::sync`].
    Implicit,
    /// Transaction block that `BEGIN` started.
    Explicit,
}

/// Versions on which a search path depends.
type PathVersion = (u64, Option<(u64, u64)>);

/// Session of one client.
pub struct Session {
    database: Database,
    time: TimeSource,
    engine: engine::Session,
    /// Server settings as of the last reload that the session has taken.
    server: Arc<ServerSettings>,
    settings: Settings,
    block: TransactionBlock,
    /// True while the statements of a message with several are run: they are one transaction block, unless they end it.
    has_several: bool,
    has_failed: bool,
    savepoints: Vec<Savepoint>,
    /// Catalog of a transaction at REPEATABLE READ or above, as of its beginning.
    pinned: Option<PinnedCatalog>,
    /// Uncommitted definitions of the open transaction.
    work: Option<PendingDefinitions>,
    locked: define::DefinitionLocks,
    numbers: SessionSequences,
    advised: AdvisoryState,
    /// Named statements and portals.
    names: SessionNames,
    /// Names that SQL has created or removed.
    renamed: Option<Box<ChangedNames>>,
    /// Values for the `EXECUTE` that waits, which are computed once.
    waiting: Option<Vec<Datum>>,
    /// Search path, as of these versions of the settings, and of the roles and the catalog for roles that may not use
    /// all schemas.
    path: Arc<[String]>,
    path_version: Option<PathVersion>,
    /// Environment of expressions; its settings are as of `env_version`.
    env: Arc<Env>,
    env_version: u64,
    /// Catalog of the statement under way.
    catalog_snapshot: Option<Arc<CatalogSnapshot>>,
    notices: Vec<(&'static str, SqlError)>,
    /// True if the statement under way was run before and waits.
    is_parked: bool,
    /// True if the time of the transaction is fixed, which is done when its first statement is analysed.
    is_timed: bool,
    /// Binding of a statement that waits after it has begun, and continues with this binding.
    running: Option<Arc<BoundStatement>>,
    /// Latest failed binding, if an uncommitted definition may be the cause.
    unbound: Option<unbound::FailedBinding>,
    /// Sleep of the statement under way.
    sleep: Option<sleeps::Sleep>,
    /// Time limit of the next statement on a thread where it delays others.
    stay: sleeps::StayLimit,
    sleeper: Arc<sleeps::SessionSleep>,
    /// Query that runs as analytics.
    analysis: queries::AnalysisGuard,
    /// Procedure that runs on a thread of its own.
    procedure: Option<procedure::ProcedureRun>,
    urgent: urgent::SessionUrgent,
    /// True while statements repeat in parts one that was undone.
    is_repeating: bool,
    /// Destination for the rows of the next portal.
    destination: Destination,
    /// EXPLAIN ANALYZE under way.
    explaining: Option<explain::ExplainRun>,
    /// COPY under way, and the flag by which it is canceled between its pieces.
    copying: Option<copy::ActiveCopy>,
    copy_flag: Arc<copy::CopyFlag>,
    user: String,
    authority: Authority,
    name_of_database: String,
    /// Class that a hint or a rule gives to the transaction.
    hinted: Option<Class>,
    /// Uncommitted changes of roles.
    roles: Option<Box<Changed>>,
    /// Time limit of the statement under way, and true if it has one. The timer runs from the first message about the
    /// statement to its end.
    deadline: Option<Instant>,
    has_timer: bool,
    /// True once the session has made statements on a large stack. From then on it runs all statements on one.
    is_deep: bool,
    /// Flag that cancels the preparation of a statement.
    planning: Arc<Planning>,
    /// Simple query of several statements under way.
    message: Arc<Planning>,
    /// Rows and other memory of ended statements, to be freed later.
    leavings: DeferredDrops,
    /// Watch of the statement that runs in the engine.
    watch: Arc<dyn Watch>,
    /// Stage clock, which the owner of the session may share.
    clock: Arc<StageClock>,
}

/// Savepoint, with the state of the session at that time.
struct Savepoint {
    name: String,
    engine: engine::Savepoint,
    /// Number of changed settings.
    settings: usize,
    /// Uncommitted definitions at that time.
    work: Option<define::CatalogStates>,
}

impl Database {
    /// Opens a session.
    ///
    /// # Errors
    /// `3D000` for an unknown database; errors of the settings given, roles among them.
    pub fn connect(&self, connect: Connect) -> SqlResult<Session> {
        let Connect { user, database, settings: wishes, backend_pid } = connect;
        if database != catalog::DATABASE {
            let message = format!("database \"{database}\" does not exist");
            return Err(SqlError::new(SqlState::INVALID_CATALOG_NAME, message));
        }
        self.sweep_urgent();
        let server = self.server.current();
        let (settings, notices) = self.settings_of(&server, &user, &database, &wishes)?;
        let name = crate::system::locks::session_name(&user, backend_pid);
        let names = SessionNames::default();
        let shown = Arc::new(settings.clone());
        let functions = crate::system::all_functions();
        let clock = StageClock::new(TickSource::system());
        let code = SessionCode::new(Arc::clone(&self.runtimes), Some(Arc::clone(&clock)));
        let env = Arc::new(Env::new(&user, backend_pid, shown, self.time.clone(), names.listed(), functions, code));
        // No settings have this version, so the first statement makes its environment and search path.
        let env_version = u64::MAX;
        let engine = self.engine.session(SessionOptions { name, ..SessionOptions::new(settings.class()) });
        let watch = Arc::new(run::EngineWatch(engine.canceller(), env.sleeps.clone()));
        let mut session = Session {
            database: self.clone(),
            time: self.time.clone(),
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
            names,
            renamed: None,
            waiting: None,
            path: Arc::from([]),
            path_version: None,
            env,
            env_version,
            catalog_snapshot: None,
            notices,
            is_parked: false,
            is_timed: false,
            running: None,
            unbound: None,
            sleep: None,
            stay: sleeps::StayLimit::default(),
            sleeper: sleeps::SessionSleep::new(self.time.clone()),
            analysis: queries::AnalysisGuard::default(),
            procedure: None,
            urgent: urgent::SessionUrgent::default(),
            is_repeating: false,
            destination: Destination::Whole,
            explaining: None,
            copying: None,
            copy_flag: Arc::default(),
            authority: Authority::of_login(&user, &self.roles),
            user,
            name_of_database: database,
            hinted: None,
            roles: None,
            deadline: None,
            has_timer: false,
            is_deep: false,
            planning: Arc::new(Planning::new(self.time.clone())),
            message: Arc::new(Planning::new(self.time.clone())),
            leavings: DeferredDrops::default(),
            watch,
            clock,
        };
        session.check_connect()?;
        session.check_first_roles()?;
        Ok(session)
    }
}

impl Session {
    /// Binds the statement to values of its parameters.
    ///
    /// # Errors
    /// If the number of values is not that of the parameters.
    pub fn bind(&mut self, statement: &Arc<Statement>, values: Vec<Datum>) -> SqlResult<Portal> {
        let (given, wanted) = (values.len(), statement.parameters.len());
        if given != wanted {
            let message =
                format!("bind message supplies {given} parameters, but the prepared statement requires {wanted}");
            return Err(SqlError::new(SqlState::PROTOCOL_VIOLATION, message));
        }
        self.begin_timer();
        Ok(Portal { statement: Arc::clone(statement), values, rows_first: None })
    }

    /// Runs the portal to its end. Outside a transaction block it becomes part of the implicit transaction, which
    /// [`Session::sync`] ends.
    ///
    /// # Errors
    /// Errors of the statement; the transaction has failed then.
    pub fn execute(&mut self, portal: &mut Portal) -> SqlResult<Step> {
        self.clock.enter(portal.planning_stage());
        let deadline = self.begin_timer();
        let planning = Arc::clone(&self.planning);
        let execute = || stack::fitting(self.is_deep, || self.execute_here(portal));
        let executed = statement::planning::executing(&planning, deadline, execute);
        self.clock.end_parts();
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
                self.end_repeat();
                self.end_urgent();
                statement.settle();
                statement.runs.fetch_add(1, Ordering::Relaxed);
            }
            Ok(_) => {}
            Err(_) => {
                self.explaining = None;
                self.running = None;
                self.is_parked = false;
                self.end_sleep();
                self.fail();
            }
        }
        result
    }

    /// Runs the statement with its current binding.
    fn act_current(&mut self, statement: &Arc<Statement>, values: &[Datum]) -> SqlResult<Step> {
        self.clock.enter(statement.planning_stage());
        let bound = &self.current(statement)?;
        self.clock.enter(Stage::Run);
        self.clock.begin_parts();
        self.act(StatementRun { statement, bound, values })
    }

    fn act(&mut self, given: StatementRun<'_>) -> SqlResult<Step> {
        // A definition cannot be restarted on a larger stack, so it starts on one.
        let is_deep = self.is_deep || matches!(*given.bound.action, Action::Define(_));
        stack::fitting(is_deep, || self.act_here(given))
    }

    fn act_here(&mut self, given: StatementRun<'_>) -> SqlResult<Step> {
        let StatementRun { statement, bound, values } = given;
        if self.running.is_none() {
            if matches!(*bound.action, Action::LockTable) {
                self.need_block("LOCK TABLE")?;
            }
            self.check_needs(bound)?;
        }
        let done = |words: &'static str| Ok(Step::Done(Outcome::Done(CommandTag { words, rows: None })));
        match &*bound.action {
            Action::Empty => Ok(Step::Done(Outcome::Empty)),
            Action::CopyFrom(_) | Action::CopyTo(_) => self.copy(given),
            Action::Query(query) if query.is_modifying() => {
                self.by_rows(given, query).map_err(|error| read_only(error, "SELECT"))
            }
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
            Action::Call(call) => self.call(given, call),
            Action::Define(tree) => self.define(&statement.text, tree),
            Action::LockTable => {
                let ran = self.run(values, RunNeeds::of(bound), |run| {
                    // As in PostgreSQL, this read does not fix the transaction's snapshot.
                    run.txn.has_read_nothing();
                    Ok(())
                })?;
                self.step_of(ran, given, |_, ()| done("LOCK TABLE"))
            }
            Action::Maintain { words, skipped } => self.maintain(words, skipped, given),
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
                if *is_local && self.block == TransactionBlock::None && !self.has_several {
                    self.check_role_setting(name, value.as_deref())?;
                    // The value is checked all the same.
                    self.settings.clone().set(name, value.as_deref(), true)?;
                    self.warn(SqlState::NO_ACTIVE_SQL_TRANSACTION, "SET LOCAL can only be used in transaction blocks");
                    return done("SET");
                }
                self.open_implicit();
                self.set_setting(name, value.as_deref(), *is_local)?;
                done(if matches!(statement.tree.as_deref(), Some(ast::Statement::Reset(_))) { "RESET" } else { "SET" })
            }
            Action::Role(change) => {
                // A role that is dropped must be unused: no definition may begin to use it meanwhile.
                if let RoleChange::Drop { names, .. } = change
                    && let Some(parked) = self.check_unused_roles(names)?
                {
                    return Ok(Step::Parked(parked));
                }
                self.change_roles(change)?;
                done(change.tag())
            }
            Action::ResetAll => {
                self.open_implicit();
                self.settings.reset_all();
                done("RESET")
            }
            Action::Show(name) => {
                // Outside a transaction, its characteristics are those that one starting now would have.
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

    /// Runs the statement again after a change of the catalog, before it had begun. If the transaction keeps its
    /// snapshot, its tables must still be the ones whose rows that snapshot sees.
    fn again(&mut self, given: StatementRun<'_>) -> SqlResult<Step> {
        self.advance_pinned(&given.bound.uses)?;
        self.act_current(given.statement, given.values)
    }
}

/// Error `42P02`, for a statement with parameters where no values can be given.
pub fn no_parameter(text: &str) -> SqlError {
    let Some(first) = syntax::lex::first_parameter(text) else {
        return SqlError::new(SqlState::UNDEFINED_PARAMETER, "there is no parameter $1");
    };
    let message = format!("there is no parameter {}", first.of(text));
    SqlError::new(SqlState::UNDEFINED_PARAMETER, message).at(first.position(text))
}

/// Rewords the error as PostgreSQL does.
fn read_only(error: SqlError, verb: &str) -> SqlError {
    if error.engine() != Some(&engine::Error::ReadOnly) {
        return error;
    }
    SqlError::new(error.state(), format!("cannot execute {verb} in a read-only transaction"))
}
