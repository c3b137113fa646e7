//! `EXPLAIN`: execution path and plan of a statement, and with ANALYZE its actual figures.
//!
//! **Invariant:** EXPLAIN shows the path that the statement would take without it. ANALYZE runs the statement,
//! including its side effects, and discards its rows.

use super::action::PlannedQuery;
use super::{BoundStatement, Outcome, Session, Statement, Step};
use crate::exec::Probe;
use crate::explain::{ExplainOptions, ExplainOutput, Explainer, json, text};
use crate::session::action::Action;
use query::analytics::AnalyticsReport;
use query::bind::column_info;
use query::explain::{ExplainFact, ExplainNode, FactValue, FactVisibility};
use query::plan::ColumnInfo;
use stage::StageTimes;
use statement::error::{SqlError, SqlResult, SqlState};
use statement::outcome::CommandTag;
use statement::pulse;
use statement::time::TimeSource;
use std::cell::{Cell, RefCell};
use std::sync::Arc;
use std::time::{Duration, Instant};
use syntax::ast::{self, TableSource};
use types::Kind;
use types::datum::Datum;

/// Bound `EXPLAIN`.
#[derive(Debug)]
pub(crate) struct Explain {
    options: ExplainOptions,
    statement: Arc<Statement>,
    /// Time for binding and planning the statement.
    planning: Duration,
}

/// `EXPLAIN ANALYZE` under way.
#[derive(Debug)]
pub(super) struct ExplainRun {
    pub(super) probe: Arc<Probe>,
    begun: Instant,
    /// Start of the current wait, if there is one.
    waits: Option<Instant>,
    waited: Duration,
    /// Figures of the analytical run.
    pub(super) report: Option<AnalyticsReport>,
}

/// Path of a statement, and its plan.
struct ExplainedPath {
    path: &'static str,
    plan: ExplainNode,
    row_budget: Option<u64>,
    /// Reason why a query of many rows is not analytics.
    reason: Option<String>,
}

fn by_rows(plan: ExplainNode) -> ExplainedPath {
    ExplainedPath { path: ROW, plan, row_budget: None, reason: None }
}

/// Names of the paths, as in `overtake.path`.
const ROW: &str = "row";
const ANALYTICS: &str = "analytics";

impl Explain {
    pub(super) fn new(options: ExplainOptions, statement: Statement, planning: Duration) -> Explain {
        Explain { options, statement: Arc::new(Statement { has_fixed_columns: false.into(), ..statement }), planning }
    }

    /// Returns the single column of the result.
    pub(super) fn columns(&self) -> Vec<ColumnInfo> {
        let kind = if self.options.is_json { Kind::Json } else { Kind::Text };
        vec![column_info("QUERY PLAN", kind.into())]
    }

    /// Returns the EXPLAIN as a statement with the parameters of the explained one.
    pub(super) fn into_statement(self, text: &str) -> Statement {
        let (parameters, class) = (self.statement.parameters.clone(), self.statement.class);
        let columns = Some(self.columns());
        let bound = BoundStatement::fixed(Action::Explain(Box::new(self)));
        Statement { parameters, columns, class, ..Statement::of(text, bound) }
    }
}

impl Session {
    /// Explains a statement, or continues after a wait.
    pub(super) fn explain(&mut self, explain: &Explain, values: &[Datum]) -> SqlResult<Step> {
        let Explain { options, statement, planning } = explain;
        let mut facts = Vec::new();
        let mut analysed = None;
        if options.analyze {
            let mut explaining = match self.explaining.take() {
                Some(explaining) if self.is_parked || self.analysis.0.get().is_some() => explaining,
                Some(_) | None => ExplainRun::new(options, &self.time),
            };
            explaining.waited += explaining.waits.take().map_or(Duration::ZERO, |since| self.time.since(since));
            self.explaining = Some(explaining);
            let result = self.act_current(statement, values);
            let Some(mut explaining) = self.explaining.take() else { return result };
            match result? {
                Step::Done(_) => {}
                Step::Parked(parked) => {
                    explaining.waits = Some(self.time.now());
                    self.explaining = Some(explaining);
                    return Ok(Step::Parked(parked));
                }
                step @ (Step::CopyIn(_) | Step::CopyOut(_)) => return Ok(step),
            }
            analysed = Some(explaining);
        }
        let ExplainedPath { path, plan, row_budget, reason } = match analysed.as_mut().and_then(|one| one.report.take())
        {
            Some(report) => {
                facts.extend(of_report(&report));
                ExplainedPath { path: ANALYTICS, plan: report.plan, row_budget: None, reason: None }
            }
            None => self.operators(statement, values, analysed.as_ref().map(|explaining| &*explaining.probe))?,
        };
        // Above this number of rows, the query moves to analytics.
        facts.splice(
            0..0,
            row_budget.filter(|_| !options.analyze).map(|rows| fact("Row Budget", FactValue::Count(rows))),
        );
        facts.splice(0..0, reason.map(|reason| fact("Path Reason", FactValue::Text(reason))));
        facts.insert(0, fact("Path", FactValue::Text(path.to_owned())));
        let ms = |time: Duration| FactValue::Ms(time.as_secs_f64() * 1e3);
        if options.summary() {
            facts.push(fact("Planning Time", ms(*planning)));
        }
        if let Some(explaining) = analysed.filter(|_| options.summary()) {
            if path == ROW && !explaining.waited.is_zero() {
                facts.push(fact("Lock Wait Time", ms(explaining.waited)));
            }
            facts.push(fact("Execution Time", ms(self.time.since(explaining.begun))));
        }
        if options.stages {
            facts.push(fact("Stages", FactValue::Times(stages_of(&self.clock.so_far()))));
        }
        let whole = ExplainOutput { plan: &plan, options, facts };
        let lines = pulse::preparing(|| Ok(if options.is_json { vec![json(&whole)] } else { text(&whole) }))?;
        let rows = lines.into_iter().map(|line| -> Box<[Datum]> { Box::new([Datum::text(line.as_str())]) }).collect();
        Ok(Step::Done(Outcome::Rows(rows, CommandTag { words: "EXPLAIN", rows: None })))
    }

    /// Returns the path that the statement would take now, and its plan.
    fn operators(
        &mut self,
        statement: &Arc<Statement>,
        values: &[Datum],
        probe: Option<&Probe>,
    ) -> SqlResult<ExplainedPath> {
        let bound = self.current(statement)?;
        self.check_needs(&bound)?;
        match &*bound.action {
            Action::Execute(execute) => {
                let values = self.values_of(execute)?;
                self.operators(execute.statement(), &values, probe)
            }
            Action::Query(query) => {
                let is_large = probe.is_none() && self.goes_to_analytics(statement, query)?;
                match if is_large { self.analytics_operators(statement, query, values) } else { Ok(None) } {
                    Ok(Some(plan)) => Ok(ExplainedPath { path: ANALYTICS, plan, row_budget: None, reason: None }),
                    Ok(None) => {
                        let row_budget = self.row_budget(statement, query)?;
                        let plan = self.by_explainer(probe, |explainer| explainer.query(&query.rows))?;
                        let reason = self.why_by_rows(statement, query);
                        Ok(ExplainedPath { path: ROW, plan, row_budget, reason })
                    }
                    Err(error) => Err(error),
                }
            }
            Action::Change(modify) => Ok(by_rows(self.by_explainer(probe, |explainer| explainer.modify(modify))?)),
            Action::Define(tree) => {
                let ast::Statement::CreateTableAs(create) = &**tree else {
                    return Err(SqlError::new(SqlState::INTERNAL_ERROR, "a definition without rows"));
                };
                let tree = match &create.source {
                    TableSource::Query(query) => ast::Statement::Query(query.clone()),
                    TableSource::Execute(_) => return Err(SqlError::unsupported("CREATE TABLE AS EXECUTE")),
                };
                let (bound, ..) = self.bind_now(&statement.text, &tree, Vec::new())?;
                self.check_needs(&bound)?;
                match &*bound.action {
                    // The definition makes the rows; it has bound the query again.
                    Action::Query(query) => {
                        Ok(by_rows(self.by_explainer(None, |explainer| explainer.query(&query.rows))?))
                    }
                    _ => Err(SqlError::unsupported("EXPLAIN of this CREATE TABLE AS")),
                }
            }
            _ => Err(SqlError::unsupported("EXPLAIN of this statement")),
        }
    }

    /// Returns the plan of a query as analytics; `None` if it cannot run there and need not.
    fn analytics_operators(
        &mut self,
        statement: &Statement,
        query: &PlannedQuery,
        values: &[Datum],
    ) -> SqlResult<Option<ExplainNode>> {
        let node = self.analytics_plan(statement, query).and_then(|ready| {
            let start = self.start_now(statement, query, values, None)?;
            start.map(|(start, _)| ready.explain(&start)).transpose()
        });
        match node {
            Ok(node) => Ok(node),
            Err(error) if self.may_fall_back(&error) => Ok(None),
            Err(error) => Err(error),
        }
    }

    fn by_explainer(
        &mut self,
        probe: Option<&Probe>,
        make: impl FnOnce(&Explainer<'_>) -> ExplainNode,
    ) -> SqlResult<ExplainNode> {
        let (seen, env) = (self.see_now(), &self.env);
        let (subplans, shared) = (Cell::new(0), RefCell::default());
        pulse::preparing(|| Ok(make(&Explainer { snapshot: &seen, env, probe, subplans, shared })))
    }
}

impl ExplainRun {
    fn new(options: &ExplainOptions, time: &TimeSource) -> ExplainRun {
        ExplainRun {
            probe: Arc::new(Probe::new(options.timing().then(|| time.clone()))),
            begun: time.now(),
            waits: None,
            waited: Duration::ZERO,
            report: None,
        }
    }
}

fn fact(name: &'static str, value: FactValue) -> ExplainFact {
    ExplainFact { name, value, told: FactVisibility::Always }
}

/// Times of the stages that the statement has passed up to here.
fn stages_of(times: &StageTimes) -> Vec<(&'static str, f64)> {
    times.iter().map(|(stage, ns)| (stage.name(), ns as f64 / 1e6)).collect()
}

fn of_report(report: &AnalyticsReport) -> Vec<ExplainFact> {
    let AnalyticsReport { plan: _, rows_in_place, rows_copied, stages } = report;
    let all = rows_in_place + rows_copied;
    let share = if all == 0 { 0.0 } else { *rows_copied as f64 / all as f64 * 100.0 };
    let mut facts = vec![
        fact("Rows Read in Place", FactValue::Count(*rows_in_place)),
        fact("Rows Copied", FactValue::Count(*rows_copied)),
        fact("Share Copied", FactValue::Text(format!("{share:.1}%"))),
    ];
    facts.extend(stages.iter().map(|(name, time)| fact(name, FactValue::Ms(time.as_secs_f64() * 1e3))));
    facts
}
