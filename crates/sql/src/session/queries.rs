//! Queries, and the choice of their execution path.
//!
//! **Invariant:** a query without side effects may be run twice. So one that grows too large on the row path is
//! restarted as analytics; and one that analytics cannot run, or where it meets an error, is restarted on the row
//! path, whose first error is that of the first row. Nothing is sent before the path is settled; see
//! [`super::stream`]. On either path a statement sees the state of its transaction: an open transaction lends its
//! snapshot to analytics.

use super::action::Action;
use super::analysis::Analysis;
use super::run::{RunNeeds, RunOutcome, StatementRun};
use super::stream::{Destination, streamed};
use super::{BoundStatement, Outcome, Parked, PlannedQuery, Portal, Session, Statement, Step};
use crate::exec::{RunUsage, StatementCode};
use engine::{Isolation, RowLock, Snapshot, Table};
use locked::Locked;
use query::analytics::{AnalyticsPlan, AnalyticsQuery, AnalyticsStart, StoredCode};
use query::plan::{self, Access, Child, Expr, Plan, RoutineCall, RowSource, SequenceCall};
use statement::error::{SqlError, SqlResult, SqlState};
use statement::outcome::CommandTag;
use statement::pulse;
use std::borrow::Cow;
use std::collections::HashSet;
use std::sync::atomic::{AtomicBool, Ordering::SeqCst};
use std::sync::{Arc, Mutex, OnceLock};
use std::time::Instant;
use types::SqlType;
use types::datum::Datum;
use types::ops::CallContext;

/// A query that scans tables with more rows than this starts as analytics.
const SCAN_ROWS_MAX: u64 = 10_000;
/// A query that makes more rows than this moves to analytics.
pub(super) const BUDGET_ROWS: u64 = 20_000;

/// Execution path of a query.
#[derive(Clone, Copy, PartialEq, Eq)]
enum QueryPath {
    /// Row path.
    Row,
    /// Row path, as long as the query is small.
    Small,
    /// Analytics, and the row path if analytics cannot run it.
    Large,
    /// Analytics only.
    Analytics,
}

/// Tables and effects of a query, as far as they decide its path.
#[derive(Default)]
pub(super) struct QueryReads {
    /// Tables that are scanned as a whole.
    scanned: Vec<Arc<Table>>,
    /// Tables that are read by an index, or up to the last row that a LIMIT needs.
    found: Vec<Arc<Table>>,
    /// Part of the query that only the row path can run, in the session's transaction.
    only_rows: Option<OnlyRows>,
    /// True if it calls stored code that is a computation. On the row path it runs on the session's thread, to which
    /// its notices go.
    calls_code: bool,
    /// True if it calls volatile functions or sleeps.
    is_volatile: bool,
    /// Effect that a read-only transaction does not allow.
    writes: Option<&'static str>,
    /// Shared subplans that were visited: each once, however often it is used.
    shared: HashSet<u64>,
    /// True while the visited operator ends early: a LIMIT takes its rows as they come.
    ends_early: bool,
}

/// Part of a query for which it cannot run as analytics: it locks rows, advances sequences, reads the catalog, or has
/// other side effects.
struct OnlyRows {
    feature: Cow<'static, str>,
    reason: Option<&'static str>,
}

impl From<&'static str> for OnlyRows {
    fn from(feature: &'static str) -> OnlyRows {
        OnlyRows { feature: feature.into(), reason: None }
    }
}

impl OnlyRows {
    fn of_routine(call: &RoutineCall) -> OnlyRows {
        let kinds: Vec<String> = call.routine.inputs().map(|one| SqlType::from(one.kind).name()).collect();
        let feature = format!("function {}({})", call.routine.name, kinds.join(","));
        OnlyRows { feature: feature.into(), reason: call.why_no_computation() }
    }

    /// Returns the refusal of the query as analytics.
    fn refusal(&self) -> SqlError {
        let error = SqlError::unsupported(format_args!("{} as analytics", self.feature));
        match self.reason {
            Some(reason) => error.detail(reason),
            None => error,
        }
    }
}

/// State of a prepared query that decides its path.
#[derive(Default)]
pub(super) struct KnownPath {
    reads: OnceLock<QueryReads>,
    plan: OnceLock<SqlResult<Arc<dyn AnalyticsPlan>>>,
}

impl KnownPath {
    pub(super) fn reads(&self, plan: &Plan) -> &QueryReads {
        self.reads.get_or_init(|| {
            let mut reads = QueryReads::default();
            reads.add(plan);
            reads
        })
    }

    /// Determines the tables and effects of the query.
    pub(super) fn read(&self, plan: &Plan) {
        let _ = self.reads(plan);
    }

    /// Returns true if the query does more than read rows: locks them, advances sequences, reads the catalog, or calls
    /// stored functions.
    pub(super) fn does_more(&self, plan: &Plan) -> bool {
        let reads = self.reads(plan);
        reads.only_rows.is_some() || reads.calls_code
    }

    /// Returns true if the query only reads, and returns the same rows in each run on a snapshot.
    pub(super) fn is_pure(&self, plan: &Plan) -> bool {
        let reads = self.reads(plan);
        reads.only_rows.is_none() && !reads.calls_code && !reads.is_volatile
    }

    /// Returns the effect that a read-only transaction does not allow, in PostgreSQL's words.
    pub(super) fn writes(&self, plan: &Plan) -> Option<&'static str> {
        self.reads(plan).writes
    }
}

impl std::fmt::Debug for KnownPath {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Known")
    }
}

/// Analytical run of a session, shared with those who may cancel it. A run that is abandoned is canceled.
#[derive(Clone, Default)]
pub(super) struct SharedAnalysis(Arc<CurrentAnalysis>);

#[derive(Default)]
struct CurrentAnalysis {
    /// True if there is a run. It changes under the lock; short statements read it without the lock.
    is_there: AtomicBool,
    analysis: Mutex<Option<Arc<Analysis>>>,
}

impl SharedAnalysis {
    pub(super) fn set(&self, analysis: Option<Arc<Analysis>>) {
        let mut own = self.0.analysis.locked_anyway();
        self.0.is_there.store(analysis.is_some(), SeqCst);
        *own = analysis;
    }

    pub(super) fn get(&self) -> Option<Arc<Analysis>> {
        if self.0.is_there.load(SeqCst) { self.0.analysis.locked_anyway().clone() } else { None }
    }

    /// Returns true if the run is a procedure's, whose calls use the engine.
    pub(super) fn is_procedure(&self) -> bool {
        self.get().is_some_and(|analysis| analysis.is_procedure())
    }

    pub(super) fn cancel(&self) {
        if let Some(analysis) = self.get() {
            analysis.cancel();
        }
    }
}

/// Cancels the run when its session abandons it.
#[derive(Default)]
pub(super) struct AnalysisGuard(pub(super) SharedAnalysis);

impl Drop for AnalysisGuard {
    fn drop(&mut self) {
        self.0.cancel();
    }
}

impl Session {
    /// Runs a query, or continues one after its wait.
    pub(super) fn query(&mut self, given: StatementRun<'_>, query: &PlannedQuery) -> SqlResult<Step> {
        if let Some(analysis) = self.analysis.0.get() {
            return match analysis.take() {
                None => Ok(Step::Parked(Parked::Analysis(analysis))),
                Some(result) => {
                    self.analysis.0.set(None);
                    let has_failed = self.end_code(&analysis);
                    // On the row path it starts from the beginning.
                    self.running = None;
                    match result {
                        Err(error)
                            if analysis.begun_rows().is_none()
                                && (self.may_fall_back(&error) || has_failed && !is_of_session(&error)) =>
                        {
                            self.by_rows(given, query)
                        }
                        result => {
                            let answer = result?;
                            if 0 < answer.streamed {
                                return Ok(Step::Done(streamed(answer.streamed)));
                            }
                            if let Some(explaining) = &mut self.explaining {
                                explaining.report = answer.report;
                            }
                            Ok(Step::Done(rows(answer.rows)))
                        }
                    }
                }
            };
        }
        match self.choose(&given.bound.known, query)? {
            QueryPath::Row => self.by_rows(given, query),
            QueryPath::Small => self.by_few_rows(given, query),
            QueryPath::Large => self.analyse_or_by_rows(given, query),
            QueryPath::Analytics => self.analyse(given, query),
        }
    }

    /// Books the time in stored code of a run that has ended. Returns true if the code has failed and the row path is to
    /// decide whether the query has.
    fn end_code(&self, analysis: &Analysis) -> bool {
        let Some(code) = analysis.code() else { return false };
        if let Some(time) = code.crossing() {
            self.clock.take_out_of_run(time);
        }
        code.has_failed() && self.path() == QueryPath::Small
    }

    /// Cancels the analytical run of a statement whose result could not be sent completely.
    pub(super) fn forget_analysis(&mut self) {
        if let Some(analysis) = self.analysis.0.get() {
            analysis.cancel();
            self.analysis.0.set(None);
            (self.running, self.is_parked) = (None, false);
        }
    }

    /// Returns the path by the setting; `Small` stands for `auto`.
    fn path(&self) -> QueryPath {
        match self.settings.path() {
            settings::Path::Row => QueryPath::Row,
            settings::Path::Analytics => QueryPath::Analytics,
            settings::Path::Auto => QueryPath::Small,
        }
    }

    /// Returns true if the query starts as analytics.
    pub(super) fn goes_to_analytics(&self, statement: &Statement, query: &PlannedQuery) -> SqlResult<bool> {
        Ok(matches!(self.choose(&statement.known(), query)?, QueryPath::Large | QueryPath::Analytics))
    }

    /// Returns the number of rows after which a query of the row path moves to analytics, if it may.
    pub(super) fn row_budget(&self, statement: &Statement, query: &PlannedQuery) -> SqlResult<Option<u64>> {
        Ok((self.choose(&statement.known(), query)? == QueryPath::Small).then_some(BUDGET_ROWS))
    }

    /// Returns true if a statement that analytics has refused with this error runs on the row path.
    pub(super) fn may_fall_back(&self, error: &SqlError) -> bool {
        self.path() == QueryPath::Small && falls_back(error)
    }

    /// Returns true if no other session can come to wait for this one while it runs the portal: a query outside any
    /// transaction block, without locks.
    pub fn holds_nothing(&self, portal: &Portal) -> bool {
        statement::stack::fitting(self.is_deep, || self.holds_no_lock(portal))
    }

    fn holds_no_lock(&self, portal: &Portal) -> bool {
        let bound = portal.statement.bound();
        let Action::Query(query) = &*bound.action else { return false };
        (!self.engine.is_open() || self.stay.is_moved_first) && bound.known.reads(&query.rows).only_rows.is_none()
    }

    /// Returns true if the portal, once it runs, ends soon or can be parked as [`Parked::Elsewhere`].
    pub fn can_move(&self, portal: &Portal) -> bool {
        portal.statement.traits.can_move
    }

    /// Returns true if the portal's query starts as analytics.
    pub fn is_large(&self, portal: &Portal) -> bool {
        let bound = portal.statement.bound();
        let Action::Query(query) = &*bound.action else { return false };
        statement::stack::fitting(self.is_deep, || self.goes_to_analytics(&portal.statement, query)).unwrap_or(false)
    }

    fn choose(&self, known: &KnownPath, query: &PlannedQuery) -> SqlResult<QueryPath> {
        let wanted = self.path();
        if wanted == QueryPath::Row {
            return Ok(QueryPath::Row);
        }
        let reads = known.reads(&query.rows);
        if wanted == QueryPath::Analytics {
            return reads.only_rows.as_ref().map_or(Ok(wanted), |part| Err(part.refusal()));
        }
        let could = self.database.analytics.is_some() && reads.only_rows.is_none();
        if !could || matches!(known.plan.get(), Some(Err(_))) {
            return Ok(QueryPath::Row);
        }
        let rows: u64 = reads.scanned.iter().map(|table| table.rows_bound()).sum();
        Ok(if SCAN_ROWS_MAX < rows { QueryPath::Large } else { QueryPath::Small })
    }

    /// Returns the reason why a query of many rows runs on the row path, if analytics cannot run it.
    pub(super) fn why_by_rows(&self, statement: &Statement, query: &PlannedQuery) -> Option<String> {
        let known = statement.known();
        let reads = known.reads(&query.rows);
        let rows: u64 = reads.scanned.iter().map(|table| table.rows_bound()).sum();
        if self.path() == QueryPath::Row || self.database.analytics.is_none() || rows <= SCAN_ROWS_MAX {
            return None;
        }
        let error = match (&reads.only_rows, known.plan.get()) {
            (Some(part), _) => part.refusal(),
            (None, Some(Err(error))) => error.clone(),
            (None, Some(Ok(_)) | None) => return None,
        };
        Some(error.message().to_owned())
    }

    /// Returns the snapshot of the next statement, for analytics; `None` if the statement must be bound again. An open
    /// transaction lends its own snapshot, and a SERIALIZABLE one notes all of these tables as read.
    pub(super) fn snapshot(
        &mut self,
        bound: &Arc<BoundStatement>,
        reads: &QueryReads,
    ) -> SqlResult<Option<Arc<Snapshot>>> {
        self.open_implicit();
        if !self.engine.is_open() && self.settings.isolation() == Isolation::ReadCommitted {
            let snapshot = self.database.engine().try_snapshot()?;
            // Checked after the snapshot is taken: see `run`.
            let is_current = self.database.catalog.current_version() == bound.catalog;
            return Ok(is_current.then_some(snapshot));
        }
        // Taking a snapshot is short and not a run of the statement, so the limit does not apply.
        let stays_until = self.stay.until.take();
        let step = self.run_within(&[], RunNeeds::of(bound), RunUsage::default, |run| {
            for table in reads.scanned.iter().chain(&reads.found) {
                run.txn.note_scan(table, &[])?;
            }
            Ok(run.txn.snapshot()?)
        });
        self.stay.until = stays_until;
        match step? {
            RunOutcome::Done(snapshot) => Ok(Some(snapshot)),
            RunOutcome::Moved => Ok(None),
            RunOutcome::Parked(_) => Err(SqlError::new(SqlState::INTERNAL_ERROR, "a snapshot waits for nobody")),
        }
    }

    /// Runs as analytics, and on the row path if analytics refuses.
    fn analyse_or_by_rows(&mut self, given: StatementRun<'_>, query: &PlannedQuery) -> SqlResult<Step> {
        match self.analyse(given, query) {
            Err(error) if falls_back(&error) => self.by_rows(given, query),
            step => step,
        }
    }

    /// Runs on the row path as long as the query is small, and then as analytics.
    fn by_few_rows(&mut self, given: StatementRun<'_>, query: &PlannedQuery) -> SqlResult<Step> {
        if self.may_run_apart(given, query) {
            return self.by_first_rows(given, query, |session| session.analyse_large(given, query));
        }
        let spent = || RunUsage::within(BUDGET_ROWS);
        let ran = self
            .run_within(given.values, RunNeeds::of(given.bound), spent, |run| run.collect_within_budget(&query.rows))?;
        self.step_of(ran, given, |session, all| match all {
            Some(all) => Ok(Step::Done(rows(all))),
            None => session.analyse_large(given, query),
        })
    }

    /// Runs a query as analytics that is no longer small. The time limit of the statement continues.
    fn analyse_large(&mut self, given: StatementRun<'_>, query: &PlannedQuery) -> SqlResult<Step> {
        // Preparing its analytics takes a while.
        if self.stay.until.is_some() && given.statement.known().plan.get().is_none() {
            return Ok(Step::Parked(Parked::Elsewhere));
        }
        self.analyse_or_by_rows(given, query)
    }

    /// Returns the plan for analytics, prepared at the first use.
    pub(super) fn analytics_plan(
        &self,
        statement: &Statement,
        query: &PlannedQuery,
    ) -> SqlResult<Arc<dyn AnalyticsPlan>> {
        let analytics = self.database.analytics.as_ref();
        let prepare = || {
            let bound = statement.bound();
            let columns: Vec<SqlType> =
                bound.columns.as_deref().unwrap_or(&[]).iter().map(|column| column.kind).collect();
            let analytics = analytics.ok_or_else(|| SqlError::unsupported("analytics without workers"))?;
            let parameters = &statement.parameters[..];
            let context: Arc<dyn CallContext> = Arc::clone(&self.env) as _;
            let code: Arc<dyn StoredCode> = StatementCode::new(&self.env, false);
            pulse::preparing(|| {
                analytics.prepare(&AnalyticsQuery {
                    plan: &query.logical,
                    parameters,
                    columns: &columns,
                    context: &context,
                    code: Some(&code),
                })
            })
        };
        let (known, made) = (statement.known(), OnceLock::new());
        match known.plan.get().unwrap_or_else(|| made.get_or_init(prepare)) {
            // A cancel says nothing about the statement, so it is not remembered.
            Err(error) if matches!(error.state(), SqlState::QUERY_CANCELED | SqlState::OUT_OF_MEMORY) => {
                Err(error.clone())
            }
            ready => known.plan.get_or_init(|| ready.clone()).clone(),
        }
    }

    /// Returns the input of an analytical run in this transaction, with the stored code that it may call; `None` if the
    /// statement must be bound again.
    pub(super) fn start_now(
        &mut self,
        statement: &Statement,
        query: &PlannedQuery,
        values: &[Datum],
        deadline: Option<Instant>,
    ) -> SqlResult<Option<(AnalyticsStart, Arc<StatementCode>)>> {
        let statement_us = self.time.unix_us();
        let bound = statement.bound();
        let Some(snapshot) = self.snapshot(&bound, bound.known.reads(&query.rows))? else { return Ok(None) };
        let env = self.env_at(statement_us);
        let code = StatementCode::new(&env, matches!(self.destination, Destination::Cursor { .. }));
        let start = AnalyticsStart {
            snapshot,
            parameters: values.to_vec(),
            context: env,
            code: Some(Arc::clone(&code) as _),
            holdings: Arc::clone(&self.env.holdings),
            class: self.class(),
            deadline,
            analyze: self.explaining.is_some(),
            stream: None,
        };
        Ok(Some((start, code)))
    }

    fn analyse(&mut self, given: StatementRun<'_>, query: &PlannedQuery) -> SqlResult<Step> {
        let analysis = Arc::<Analysis>::default();
        // From here on a cancel reaches the run, even while the plan is prepared.
        self.analysis.0.set(Some(Arc::clone(&analysis)));
        let started = self.start_analysis(&analysis, given, query);
        match started {
            Ok(true) => {}
            Ok(false) => {
                self.analysis.0.set(None);
                return self.again(given);
            }
            Err(error) => {
                self.analysis.0.set(None);
                return Err(error);
            }
        }
        self.running = Some(Arc::clone(given.bound));
        Ok(Step::Parked(Parked::Analysis(analysis)))
    }

    /// Returns false if the statement must be bound again.
    fn start_analysis(
        &mut self,
        analysis: &Arc<Analysis>,
        given: StatementRun<'_>,
        query: &PlannedQuery,
    ) -> SqlResult<bool> {
        let StatementRun { statement, values, .. } = given;
        // A cursor's run outlives its statement, which checks its time limit itself.
        let deadline = self.deadline.filter(|_| !matches!(self.destination, Destination::Cursor { .. }));
        let ready = self.analytics_plan(statement, query)?;
        match self.start_now(statement, query, values, deadline)? {
            Some((start, code)) => {
                let start = AnalyticsStart { stream: self.stream_of(given), ..start };
                analysis.start(&*ready, start, code).map(|()| true)
            }
            None => Ok(false),
        }
    }
}

pub(super) fn rows(rows: Vec<Box<[Datum]>>) -> Outcome {
    let tag = CommandTag { words: "SELECT", rows: Some(rows.len() as u64) };
    Outcome::Rows(rows, tag)
}

/// Returns true if the row path is tried after this error of analytics: the query is not supported there, or it has
/// failed. The two paths may evaluate different rows before an error.
fn falls_back(error: &SqlError) -> bool {
    let state = error.state();
    state == SqlState::FEATURE_NOT_SUPPORTED
        || state == SqlState::STATEMENT_TOO_COMPLEX
        || state == SqlState::CARDINALITY_VIOLATION
        || state == SqlState::INTERNAL_ERROR
        || state.0.starts_with("22")
}

/// Returns true for an error that is not about the query: it was cancelled, or its transaction must end.
fn is_of_session(error: &SqlError) -> bool {
    error.engine().is_some() || error.cancellation().is_some()
}

/// Returns true for a count of rows that is small, or not known: then the budget of the row path decides.
fn is_small_count(count: &Expr) -> bool {
    match count {
        Expr::Constant(Datum::Int8(count)) => u64::try_from(*count).is_ok_and(|count| count <= SCAN_ROWS_MAX),
        count => matches!(count, Expr::Parameter(_)),
    }
}

impl QueryReads {
    /// **Invariant:** every expression that the row path evaluates is visited. A missed one may have a side effect,
    /// and a query with side effects must not be restarted.
    fn add(&mut self, plan: &Plan) {
        let before = self.ends_early;
        self.ends_early = match plan {
            Plan::Limit { limit: Some(limit), offset, .. } => {
                [Some(limit), offset.as_ref()].into_iter().flatten().all(is_small_count)
            }
            Plan::Filter { .. } | Plan::Project { .. } | Plan::Sets { .. } | Plan::Lock { .. } | Plan::Joins(_) => {
                before
            }
            Plan::Unit
            | Plan::Values(_)
            | Plan::From(_)
            | Plan::Aggregate { .. }
            | Plan::Windows { .. }
            | Plan::Sort { .. }
            | Plan::Distinct { .. }
            | Plan::DistinctOn { .. }
            | Plan::Limit { .. }
            | Plan::Ties { .. }
            | Plan::Set { .. }
            | Plan::System(_)
            | Plan::Routine(_)
            | Plan::Shared { .. }
            | Plan::Recursive(_)
            | Plan::Working(_)
            | Plan::Modified(_)
            | Plan::Modifying { .. } => false,
        };
        self.add_operator(plan);
        self.ends_early = before;
    }

    fn add_operator(&mut self, plan: &Plan) {
        match plan {
            // The other tables of a join are read for each row of the first, or into hash tables.
            Plan::Joins(joins) => {
                let ends_early = std::mem::take(&mut self.ends_early);
                let (first, others) = joins.steps.split_at(joins.steps.len().min(1));
                self.add_tables(first, ends_early);
                self.add_tables(others, false);
            }
            // Only the row path knows the catalog.
            Plan::System(_) => self.needs_rows(|| "the catalog".into()),
            Plan::Lock { locks, .. } => {
                self.writes = locks.first().map(|lock| match lock.mode {
                    RowLock::KeyShare => "SELECT FOR KEY SHARE",
                    RowLock::Share => "SELECT FOR SHARE",
                    RowLock::NoKeyUpdate => "SELECT FOR NO KEY UPDATE",
                    RowLock::Update => "SELECT FOR UPDATE",
                });
                let words = self.writes.unwrap_or("SELECT FOR UPDATE");
                self.needs_rows(|| words.into());
            }
            Plan::Modified(_) | Plan::Modifying { .. } => self.needs_rows(|| "a change in WITH".into()),
            // Each is visited once, however often it is used.
            Plan::Shared { id, plan } if self.shared.insert(*id) => self.add(plan),
            Plan::Recursive(recursive) => {
                if self.shared.insert(recursive.id) {
                    self.add(&recursive.first);
                    self.add(&recursive.step);
                }
                return;
            }
            Plan::Shared { .. }
            | Plan::Routine(_)
            | Plan::Unit
            | Plan::Values(_)
            | Plan::From(_)
            | Plan::Filter { .. }
            | Plan::Project { .. }
            | Plan::Aggregate { .. }
            | Plan::Windows { .. }
            | Plan::Sets { .. }
            | Plan::Sort { .. }
            | Plan::Distinct { .. }
            | Plan::DistinctOn { .. }
            | Plan::Limit { .. }
            | Plan::Ties { .. }
            | Plan::Set { .. }
            | Plan::Working(_) => {}
        }
        // The visit fails only if the statement must end.
        let _ = plan::children_of_plan(plan, &mut |child, _| {
            self.add_child(child);
            Ok(())
        });
    }

    /// Notes a part of the query that only the row path can run. The first one counts.
    fn needs_rows(&mut self, part: impl FnOnce() -> OnlyRows) {
        self.only_rows.get_or_insert_with(part);
    }

    fn add_child(&mut self, child: Child<'_>) {
        match child {
            Child::Plan(plan) => self.add(plan),
            Child::Expr(expr) => self.add_expr(expr),
        }
    }

    fn add_tables(&mut self, steps: &[plan::JoinStep], ends_early: bool) {
        for step in steps {
            match &step.source {
                RowSource::Table { table, access, columns: _ } => {
                    let is_whole = matches!(access, Access::All) && !ends_early;
                    let tables = if is_whole { &mut self.scanned } else { &mut self.found };
                    tables.push(Arc::clone(&table.table));
                }
                RowSource::Query { .. } | RowSource::Functions { .. } => {}
                RowSource::Group(steps) => self.add_tables(steps, false),
                RowSource::Full(full) => {
                    self.add_tables(&full.left.steps, false);
                    self.add_tables(&full.right.steps, false);
                }
            }
        }
    }

    fn add_expr(&mut self, expr: &Expr) {
        let before = std::mem::take(&mut self.ends_early);
        self.add_call(expr);
        let _ = plan::children_of_expr(expr, &mut |child, _| {
            self.add_child(child);
            Ok(())
        });
        self.ends_early = before;
    }

    fn add_call(&mut self, expr: &Expr) {
        match expr {
            Expr::Call { callee, arguments: _ } => {
                let callable = callee.callable();
                self.is_volatile |= callable.is_volatile();
                if callable.has_effects() {
                    let feature = || Cow::from(format!("function {}", callable.name()));
                    self.needs_rows(|| OnlyRows { feature: feature(), reason: None });
                }
            }
            Expr::Routine(call) if call.is_computation => self.calls_code = true,
            // Its statements run in this transaction.
            Expr::Routine(call) => {
                self.needs_rows(|| OnlyRows::of_routine(call));
                self.is_volatile |= call.is_volatile();
            }
            // The lock belongs to this session, so the query may not run in another transaction.
            Expr::Advisory { call: _, arguments: _ } => self.needs_rows(|| "an advisory lock".into()),
            // A query that takes values of a sequence may not be run twice.
            Expr::Sequence { call, arguments: _ } => {
                self.needs_rows(|| "a sequence".into());
                match call {
                    SequenceCall::Next | SequenceCall::Identity => self.writes = Some("nextval()"),
                    SequenceCall::Set => self.writes = Some("setval()"),
                    SequenceCall::Current | SequenceCall::Last => {}
                }
            }
            // Without effects of their own; their parts are visited below.
            Expr::Constant(_)
            | Expr::Parameter(_)
            | Expr::Column(_)
            | Expr::Outer { .. }
            | Expr::Cast { .. }
            | Expr::And(_)
            | Expr::Or(_)
            | Expr::Not(_)
            | Expr::IsNull(_)
            | Expr::IsBool(..)
            | Expr::IsSame { .. }
            | Expr::Case { .. }
            | Expr::Let { .. }
            | Expr::Local(_)
            | Expr::Coalesce(_)
            | Expr::Extreme { .. }
            | Expr::Scalar(_)
            | Expr::Exists(_)
            | Expr::InQuery { .. }
            | Expr::InList { .. }
            | Expr::Quantified { .. }
            | Expr::Array(_)
            | Expr::ArrayQuery(_)
            | Expr::Now { .. } => {}
        }
    }
}
