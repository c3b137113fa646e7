//! Goal: arrays compute what PostgreSQL computes. Method: the expressions whose answers PostgreSQL 15 gave (crate `sql`,
//! `tests/cases.tsv`), their constants put into columns: all of them, and every other one, so that operators meet columns and
//! constants on either side.

use super::{LoweredColumn, LoweredRow, Lowering, refused};
use crate::database::Database;
use crate::error::sql_error;
use crate::scan::TableOrigin;
use crate::values::{self, Repr, scalar};
use datafusion::execution::TaskContext;
use datafusion::logical_expr::{Expr as Df, LogicalPlan, LogicalPlanBuilder};
use datafusion::physical_plan::collect;
use engine::{Engine, EngineConfig};
use query::analytics::{Analytics, AnalyticsPlan, AnalyticsQuery};
use query::plan::{self, Expr, Plan};
use settings::Connect;
use sql::session::Session;
use statement::{SqlError, SqlResult};
use std::sync::{Arc, Mutex};
use types::ops::{CallContext, NoSession};
use types::{Datum, SqlType};
use types::{forms::Forms, text};

const CASES: &str = include_str!("../../../types/tests/cases.tsv");
/// Expressions that are run together.
const BATCH: usize = 100;

/// Keeps the plan that it is asked for.
#[derive(Default)]
struct Catch(Mutex<Option<(Plan, Vec<SqlType>)>>);

impl Analytics for Catch {
    fn prepare(&self, query: &AnalyticsQuery<'_>) -> SqlResult<Arc<dyn AnalyticsPlan>> {
        *self.0.lock().expect("nobody panics") = Some((query.plan.clone(), query.columns.to_vec()));
        Err(SqlError::unsupported("to run anything"))
    }
}

/// An expression, its type, and PostgreSQL's answer.
struct Case {
    text: &'static str,
    expr: Expr,
    kind: SqlType,
    wanted: String,
}

fn run(session: &mut Session, text: &str) -> SqlResult<()> {
    let statement = session.prepare(text, &[])?;
    let mut portal = session.bind(&statement, Vec::new())?;
    let done = session.execute(&mut portal).map(drop);
    if done.is_err() {
        session.fail();
    }
    session.sync()?;
    done
}

fn cases() -> Vec<Case> {
    let catch = Arc::new(Catch::default());
    let engine = Engine::new(EngineConfig::in_memory());
    let database = sql::session::Database::new(engine).with_analytics(Arc::clone(&catch) as _);
    let connect = Connect {
        user: "postgres".to_owned(),
        database: "postgres".to_owned(),
        settings: vec![("overtake.path".to_owned(), "analytics".to_owned())],
        backend_pid: 1,
    };
    let mut session = database.connect(connect).expect("a session");
    let mut all = Vec::new();
    for line in CASES.lines() {
        let (text, wanted) = line.split_once('\t').expect("an answer");
        let _ = run(&mut session, &format!("select {text}"));
        let Some((Plan::Project { columns, .. }, kinds)) = catch.0.lock().expect("nobody panics").take() else {
            continue;
        };
        if let ([expr], [kind]) = (&columns[..], &kinds[..]) {
            all.push(Case { text, expr: expr.clone(), kind: *kind, wanted: wanted.to_owned() });
        }
    }
    all
}

/// Which constants become columns.
#[derive(Clone, Copy, Debug)]
enum Which {
    All,
    Even,
    Odd,
}

/// Rows for expressions to be over: both the same, a column for each constant that was met.
#[derive(Default)]
struct Table {
    columns: Vec<(Datum, Repr)>,
}

impl Table {
    /// With its constants in columns; nothing if there are none.
    fn take(&mut self, expr: &Expr, which: Which) -> Option<Expr> {
        let mut own = expr.clone();
        let (mut met, mut taken) = (0, 0);
        plan::rewrite(&mut own, 0, &mut |part, depth| {
            let Expr::Constant(datum) = part else { return Ok(false) };
            let wanted = match which {
                Which::All => true,
                Which::Even => met % 2 == 0,
                Which::Odd => met % 2 == 1,
            };
            met += 1;
            // One with blanks at its end may be of `char(n)`, which a constant does not say.
            let is_clear = !matches!(datum, Datum::Null) && !matches!(datum, Datum::Text(text) if text.ends_with(' '));
            if let (0, true, true, Ok(repr)) = (depth, wanted, is_clear, Repr::of_datum(datum, None)) {
                let at = self.columns.len();
                self.columns.push((datum.clone(), repr));
                *part = Expr::Column(at);
                taken += 1;
            }
            Ok(true)
        })
        .expect("nothing fails");
        (0 < taken).then_some(own)
    }

    fn plan(&self) -> (LogicalPlan, Vec<Option<LoweredColumn>>) {
        let row = || self.columns.iter().map(|(datum, repr)| Df::Literal(scalar(datum, *repr).expect("a value"), None));
        let rows = vec![row().collect::<Vec<_>>(), row().collect()];
        let plan = LogicalPlanBuilder::values(rows).and_then(LogicalPlanBuilder::build).expect("rows");
        let names = plan.schema().columns();
        let places =
            names.into_iter().zip(&self.columns).map(|(column, (_, repr))| Some(LoweredColumn { column, repr: *repr }));
        (plan.clone(), places.collect())
    }
}

struct Bench {
    database: Database,
    context: Arc<dyn CallContext>,
}

impl Bench {
    /// Both rows of the expressions over the table.
    fn run(&self, table: &Table, exprs: &[(&Expr, SqlType)]) -> SqlResult<Vec<Vec<String>>> {
        let lowering = Lowering::new(&[], (&self.context, None), &TableOrigin::OfEngine);
        let (plan, places) = table.plan();
        let row = LoweredRow { places: &places, outer: None };
        let values = exprs.iter().map(|(expr, _)| lowering.stored(expr, &row)).collect::<SqlResult<Vec<_>>>()?;
        let projected = lowering.project(plan, values)?;
        let answer =
            exprs.iter().enumerate().map(|(at, (_, kind))| Ok(super::answer_column(projected.place(at)?, *kind)));
        let answer = answer.collect::<SqlResult<Vec<_>>>()?;
        let logical = lowering.project(projected.plan, answer)?.plan;
        let session = self.database.session();
        let logical = session.optimize(&logical).map_err(refused)?;
        let batches = futures::executor::block_on(async {
            let plan = session.query_planner().create_physical_plan(&logical, session).await?;
            collect(plan, Arc::new(TaskContext::from(session))).await
        });
        let kinds: Vec<SqlType> = exprs.iter().map(|(_, kind)| *kind).collect();
        let rows = values::rows(&batches.map_err(sql_error)?, &kinds)?;
        let shown =
            |row: &[Datum]| {
                let cells = row.iter().zip(&kinds);
                cells
                    .map(|(value, kind)| {
                        if value.is_null() { "NULL".to_owned() } else { text::to_string(value, *kind, &Forms::DEFAULT) }
                    })
                    .collect()
            };
        Ok(rows.iter().map(|row| shown(row)).collect())
    }
}

#[test]
fn arrays_compute_what_postgres_computes() {
    let engine = Engine::new(EngineConfig::in_memory());
    // Without safepoints, which look for the run that they are in.
    let database = Database::of_memory_tables(engine.clone(), &engine.snapshot(), 1).expect("a database");
    let bench = Bench { database, context: Arc::new(NoSession) };
    let cases = cases();
    assert!(10_000 < cases.len(), "only {} cases were bound", cases.len());
    let (mut right, mut refused, mut wrong) = (0, 0, Vec::new());
    for which in [Which::All, Which::Even, Which::Odd] {
        let mut judge = |case: &Case, found: SqlResult<Vec<String>>| match found {
            Ok(values) => {
                let values: Vec<String> = values.into_iter().map(|value| value.replace('\n', "\\n")).collect();
                let wanted = case.wanted.split_once('|').map_or("", |(_, value)| value);
                let is_right = values.iter().all(|value| value == wanted || (value == "NULL" && wanted.is_empty()));
                if is_right && !case.wanted.starts_with("ERROR") {
                    right += 1;
                } else {
                    wrong.push(format!("{which:?} {}: {values:?}, PostgreSQL {}", case.text, case.wanted));
                }
            }
            Err(error) if error.state() == statement::SqlState::FEATURE_NOT_SUPPORTED => refused += 1,
            Err(error) if case.wanted.starts_with("ERROR") => {
                // Which of two errors comes first may differ; the row path is asked then.
                right += usize::from(error.state().0.starts_with("22") || case.wanted.contains(error.state().0));
            }
            Err(error) => wrong.push(format!("{which:?} {}: {error}, PostgreSQL {}", case.text, case.wanted)),
        };
        let alone = |case: &Case| {
            let mut table = Table::default();
            let expr = table.take(&case.expr, which)?;
            let rows = bench.run(&table, &[(&expr, case.kind)]);
            Some(rows.map(|rows| rows.into_iter().map(|mut row| row.remove(0)).collect()))
        };
        let (errors, values): (Vec<&Case>, Vec<&Case>) =
            cases.iter().partition(|case| case.wanted.starts_with("ERROR"));
        for case in errors {
            if let Some(found) = alone(case) {
                judge(case, found);
            }
        }
        for some in values.chunks(BATCH) {
            let mut table = Table::default();
            let taken = some.iter().filter_map(|case| Some((*case, table.take(&case.expr, which)?)));
            let taken: Vec<(&Case, Expr)> = taken.collect();
            if taken.is_empty() {
                continue;
            }
            let exprs: Vec<(&Expr, SqlType)> = taken.iter().map(|(case, expr)| (expr, case.kind)).collect();
            match bench.run(&table, &exprs) {
                Ok(rows) => {
                    for (at, (case, _)) in taken.iter().enumerate() {
                        judge(case, Ok(rows.iter().map(|row| row[at].clone()).collect()));
                    }
                }
                Err(_) => {
                    for (case, _) in &taken {
                        if let Some(found) = alone(case) {
                            judge(case, found);
                        }
                    }
                }
            }
        }
    }
    assert!(
        wrong.is_empty(),
        "{} wrong, {right} right, {refused} refused:\n{}",
        wrong.len(),
        wrong[..wrong.len().min(60)].join("\n")
    );
    assert!(20_000 < right, "only {right} were compared, {refused} refused");
}
