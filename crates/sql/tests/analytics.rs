//! Goal: a session sees the same through analytics as by rows, whatever its transaction has done; it can be cancelled
//! there, falls back where it may, and EXPLAIN tells the path. Method: an analytics engine that counts the rows of a
//! query's first table through the snapshot that it is lent, on a thread of its own.
#![allow(missing_docs, clippy::unwrap_used, reason = "a test fails by panicking")]

mod support;

use engine::{Engine, EngineConfig, Table};
use query::analytics::{
    Analytics, AnalyticsAnswer, AnalyticsFinish, AnalyticsPlan, AnalyticsQuery, AnalyticsReport, AnalyticsRun,
    AnalyticsStart,
};
use query::explain::ExplainNode;
use query::plan::{InputKind, Plan};
use query::rows::ResultPiece;
use sql::session::{Canceller, Database, Destination, Outcome, Session, Step};
use statement::{SqlError, SqlResult, SqlState};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::SeqCst};
use std::sync::{Arc, Mutex};
use std::thread;
use support::{connect, run};
use types::Datum;

/// Analytics engine that counts rows.
#[derive(Default)]
struct Counts {
    runs: AtomicUsize,
    cancels: AtomicUsize,
    /// True if runs do not end by themselves.
    holds: AtomicBool,
    /// True if runs return the numbers from 1 on, in pieces of ten, until their rows are not wanted any more.
    streams: AtomicBool,
    /// True if runs return two rows before their start returns.
    is_instant: AtomicBool,
    /// Streams that have begun and not ended.
    streaming: AtomicUsize,
    /// Error with which runs end.
    fails: Mutex<Option<SqlState>>,
    /// Session that the making of the next plan cancels.
    cancelled: Mutex<Option<Canceller>>,
}

struct Counting {
    of: Arc<Counts>,
    table: Option<Arc<Table>>,
}

struct Counted(Arc<Counts>);

fn table_of(plan: &Plan) -> Option<Arc<Table>> {
    match plan {
        Plan::From(tree) => match &tree.group.inputs.first()?.kind {
            InputKind::Table(table) => Some(table.table.clone()),
            _ => None,
        },
        Plan::Project { input, .. } | Plan::Aggregate { input, .. } | Plan::Filter { input, .. } => table_of(input),
        _ => None,
    }
}

struct Fake(Arc<Counts>);

impl Analytics for Fake {
    fn prepare(&self, query: &AnalyticsQuery<'_>) -> SqlResult<Arc<dyn AnalyticsPlan>> {
        if let Some(canceller) = self.0.cancelled.lock().unwrap().take() {
            canceller.cancel();
        }
        Ok(Arc::new(Counting { of: self.0.clone(), table: table_of(query.plan) }))
    }
}

/// Goal: wherever an effect occurs in a query, the query does not start on a path that may have to start it again.
#[test]
fn a_query_with_effects_is_begun_once() {
    let (database, counts) = database();
    let mut session = connect(&database);
    run(&mut session, "create sequence s; select nextval('s')").unwrap();
    let effect = "(select nextval('s'))";
    for query in [
        format!("select id from t limit {effect}"),
        format!("select id from t offset {effect}"),
        format!("select sum(1) over (order by id rows between {effect} preceding and current row) from t"),
        format!("select sum(1) over (order by id rows between current row and {effect} following) from t"),
        format!("select sum(1) over (partition by {effect}) from t"),
        format!("select sum(1) filter (where {effect} > 0) over () from t"),
        format!("select sum(id + {effect}) from t"),
        format!("select array_agg(id order by {effect}) from t"),
        format!("select count(*) from t group by {effect}"),
        format!("select * from t where id = {effect}"),
        format!("select * from t where {effect} < id"),
        format!("select * from t where id in (1, {effect})"),
        format!("select * from t where id = any(array[1, {effect}])"),
        format!("select * from t a join t b on a.id = b.id + {effect}"),
        format!("select * from t a full join t b on a.id = b.id + {effect}"),
        format!("select * from t a left join t b on a.id = b.id and {effect} > 0"),
        format!("select generate_series(1, {effect}) from t"),
        format!("select * from t, generate_series(1, {effect})"),
        format!("select distinct on ({effect}) id from t"),
        format!("select * from t order by {effect}"),
        format!("select 1 union all (select id from t limit {effect})"),
        format!(
            "with recursive r as (select 1 as x union all select x + 1 from r where x < {effect}) select * from r, t"
        ),
        format!("select exists (select from t limit {effect}) from t"),
        format!("values ({effect})"),
        "select set_config('overtake.x', 'y', true) from t".to_owned(),
        "select pg_advisory_lock(1) from t".to_owned(),
        "select pg_sleep(0) from t".to_owned(),
    ] {
        let lines = lines(&mut session, &format!("explain (costs off) {query}"));
        assert!(lines.iter().any(|line| line == "Path: row"), "{query}: {lines:?}");
        assert!(!lines.iter().any(|line| line.starts_with("Row Budget")), "{query}: {lines:?}");
    }
    let rows =
        "select count(*) from (select a.id from t a, generate_series(1, 5) limit (select nextval('s') * 15000)) x";
    assert_eq!(run(&mut session, rows).unwrap()[0][0], Datum::Int8(30_000));
    // The sequence was advanced once, so the query ran once, and not by analytics.
    assert_eq!(run(&mut session, "select currval('s')").unwrap()[0][0], Datum::Int8(2));
    assert_eq!(counts.runs.load(SeqCst), 0);
    let lines = lines(&mut session, "explain (costs off) select random(), * from t");
    assert!(lines.iter().any(|line| line == "Path: analytics"), "an answer is no effect: {lines:?}");
}

impl AnalyticsPlan for Counting {
    fn start(&self, start: AnalyticsStart, finish: AnalyticsFinish) -> SqlResult<Arc<dyn AnalyticsRun>> {
        self.of.runs.fetch_add(1, SeqCst);
        let (of, table) = (self.of.clone(), self.table.clone());
        if let Some(stream) = start.stream.clone().filter(|_| of.streams.load(SeqCst)) {
            of.streaming.fetch_add(1, SeqCst);
            thread::spawn(move || {
                // A run keeps the context of its session to its end.
                let _start = start;
                let piece = |first: i64| -> Vec<Box<[Datum]>> {
                    (first..first + 10).map(|number| Box::new([Datum::Int8(number)]) as Box<[Datum]>).collect()
                };
                let mut pieces = (0..).map(|at| piece(at * 10 + 1));
                let ended = pieces.find_map(|rows| stream.push(ResultPiece::Rows(rows), 100_000, || Ok(())).err());
                of.streaming.fetch_sub(1, SeqCst);
                finish(Err(ended.unwrap()));
            });
        } else if let Some(stream) = start.stream.clone().filter(|_| of.is_instant.load(SeqCst)) {
            let rows: Vec<Box<[Datum]>> = vec![Box::new([Datum::Int8(1)]), Box::new([Datum::Int8(2)])];
            stream.push(ResultPiece::Rows(rows), 100, || Ok(())).unwrap();
            let mut answer = AnalyticsAnswer::default();
            answer.streamed = 2;
            finish(Ok(answer));
        } else if !of.holds.load(SeqCst) {
            thread::spawn(move || {
                if let Some(state) = *of.fails.lock().unwrap() {
                    return finish(Err(SqlError::new(state, "on purpose")));
                }
                let table = table.unwrap();
                let rows: usize = start
                    .snapshot
                    .scan(&table, &[], 100)
                    .split(1)
                    .into_iter()
                    .flatten()
                    .map(|one| one.num_rows())
                    .sum();
                let mut answer = AnalyticsAnswer::default();
                if start.analyze {
                    answer.report = Some(AnalyticsReport {
                        plan: ExplainNode::new("Count"),
                        rows_copied: 1,
                        ..AnalyticsReport::default()
                    });
                }
                finish(answer.add(vec![Box::new([Datum::Int8(rows as i64)])]).map(|()| answer));
            });
        }
        Ok(Arc::new(Counted(self.of.clone())))
    }

    fn explain(&self, _: &AnalyticsStart) -> SqlResult<ExplainNode> {
        Ok(ExplainNode::new("Count"))
    }
}

impl AnalyticsRun for Counted {
    fn cancel(&self) {
        self.0.cancels.fetch_add(1, SeqCst);
    }
}

fn database() -> (Database, Arc<Counts>) {
    let counts = Arc::<Counts>::default();
    let engine = Engine::new(EngineConfig::in_memory());
    let database = Database::new(engine).with_analytics(Arc::new(Fake(counts.clone())));
    let mut session = connect(&database);
    run(&mut session, "create table t (id int primary key); insert into t select generate_series(1, 12000)").unwrap();
    (database, counts)
}

const COUNT: &str = "select count(*) from t";

fn count(session: &mut Session) -> i64 {
    match run(session, COUNT).unwrap()[0][..] {
        [Datum::Int8(count)] => count,
        ref other => panic!("{other:?}"),
    }
}

fn shown(value: &Datum) -> &str {
    match value {
        Datum::Text(text) => text,
        other => panic!("{other:?}"),
    }
}

fn lines(session: &mut Session, text: &str) -> Vec<String> {
    let rows = run(session, text).unwrap();
    rows.iter().map(|row| shown(&row[0]).to_owned()).collect()
}

#[test]
fn a_large_query_sees_what_its_transaction_sees() {
    let (database, counts) = database();
    let (mut one, mut other) = (connect(&database), connect(&database));
    assert_eq!((count(&mut one), counts.runs.load(SeqCst)), (12_000, 1));
    // The transaction's own changes, which nobody else sees.
    run(&mut one, "begin; delete from t where id <= 10").unwrap();
    assert_eq!((count(&mut one), count(&mut other)), (11_990, 12_000));
    run(&mut one, "rollback").unwrap();
    assert_eq!(count(&mut one), 12_000);
    // REPEATABLE READ counts as of its beginning, READ COMMITTED as of now.
    for (level, seen) in [("repeatable read", 12_000), ("read committed", 11_999)] {
        run(&mut other, "insert into t values (0) on conflict do nothing; delete from t where id = 0").unwrap();
        run(&mut one, &format!("begin isolation level {level}")).unwrap();
        assert_eq!(count(&mut one), 12_000);
        run(&mut other, "delete from t where id = 1").unwrap();
        assert_eq!(count(&mut one), seen, "{level}");
        run(&mut one, "commit").unwrap();
        run(&mut other, "insert into t values (1)").unwrap();
    }
    assert_eq!(counts.runs.load(SeqCst), 8);
}

#[test]
fn what_a_serializable_transaction_reads_by_analytics_counts() {
    let (database, _) = database();
    let (mut one, mut other) = (connect(&database), connect(&database));
    run(&mut one, "create table n (n bigint)").unwrap();
    for session in [&mut one, &mut other] {
        run(session, "begin isolation level serializable").unwrap();
    }
    // Each counts the rows to which the other then adds.
    assert_eq!((count(&mut one), count(&mut other)), (12_000, 12_000));
    run(&mut one, "insert into t values (-1)").unwrap();
    run(&mut other, "insert into t values (-2)").unwrap();
    run(&mut one, "commit").unwrap();
    assert_eq!(run(&mut other, "commit").unwrap_err().state(), SqlState("40001"));
}

#[test]
fn a_cancel_ends_it_at_once() {
    let (database, counts) = database();
    let mut session = connect(&database);
    counts.holds.store(true, SeqCst);
    let statement = session.prepare(COUNT, &[]).unwrap();
    let mut portal = session.bind(&statement, Vec::new()).unwrap();
    let canceller = session.canceller();
    let Step::Parked(parked) = session.execute(&mut portal).unwrap() else { panic!("it runs elsewhere") };
    let waiting = thread::spawn(move || canceller.cancel());
    parked.wait();
    waiting.join().unwrap();
    assert_eq!(session.execute(&mut portal).unwrap_err().state(), SqlState("57014"));
    assert_eq!(counts.cancels.load(SeqCst), 1);
    // A client that disconnects also cancels.
    session.sync().unwrap();
    let Step::Parked(_) = session.execute(&mut portal).unwrap() else { panic!("it runs elsewhere") };
    drop(session);
    assert_eq!(counts.cancels.load(SeqCst), 2);
}

#[test]
fn a_cancel_ends_it_before_it_has_begun() {
    let (database, counts) = database();
    let mut session = connect(&database);
    *counts.cancelled.lock().unwrap() = Some(session.canceller());
    assert_eq!(run(&mut session, COUNT).unwrap_err().state(), SqlState("57014"));
    // The cancel ended only that statement.
    assert_eq!(count(&mut session), 12_000);
}

fn numbers(session: &mut Session, text: &str) -> Vec<i64> {
    let rows = run(session, text).unwrap();
    let number = |row: &[Datum]| match row {
        [Datum::Int8(number)] => *number,
        other => panic!("{other:?}"),
    };
    rows.iter().map(|row| number(row)).collect()
}

/// Waits until no query streams.
fn all_streams_end(counts: &Counts) {
    while counts.streaming.load(SeqCst) != 0 {
        thread::yield_now();
    }
}

#[test]
fn rows_of_a_cursor_come_while_it_goes_forward() {
    let (database, counts) = database();
    counts.streams.store(true, SeqCst);
    let mut session = connect(&database);
    run(&mut session, "begin; declare c cursor for select count(*) from t").unwrap();
    assert_eq!(numbers(&mut session, "fetch 3 from c"), [1, 2, 3]);
    // Other statements do not disturb it, nor does going back to a savepoint.
    run(&mut session, "savepoint s; delete from t where id < 100; rollback to s").unwrap();
    assert_eq!(numbers(&mut session, "fetch from c"), [4]);
    run(&mut session, "move forward 100000 in c").unwrap();
    assert_eq!(numbers(&mut session, "fetch forward 12 from c"), (100_005..100_017).collect::<Vec<_>>());
    assert_eq!(numbers(&mut session, "fetch absolute 200000 from c"), [200_000]);
    assert_eq!(numbers(&mut session, "fetch relative 2 from c"), [200_002]);
    assert_eq!(numbers(&mut session, "fetch next from c"), [200_003]);
    let shown = lines(&mut session, "select is_scrollable::text from pg_cursors");
    assert_eq!((shown, counts.streaming.load(SeqCst)), (vec!["false".to_owned()], 1));
    assert_eq!(run(&mut session, "fetch prior from c").unwrap_err().state(), SqlState("55000"));
    run(&mut session, "rollback").unwrap();
    all_streams_end(&counts);
    // Each way for a cursor to go ends its query.
    for end in ["close c", "commit", "rollback", "savepoint s; declare d cursor for select count(*) from t; close all"]
    {
        run(&mut session, "begin; declare c cursor for select count(*) from t; fetch 1 from c").unwrap();
        assert_eq!(counts.streaming.load(SeqCst), 1);
        run(&mut session, end).unwrap();
        all_streams_end(&counts);
        run(&mut session, "rollback").unwrap();
    }
    run(&mut session, "begin; declare c cursor for select count(*) from t").unwrap();
    drop(session);
    all_streams_end(&counts);
}

/// Goal: the rows of a run that has ended by itself reach their client, whoever cancels it then.
#[test]
fn rows_of_a_run_that_has_ended_are_not_lost() {
    let (database, counts) = database();
    counts.is_instant.store(true, SeqCst);
    let mut session = connect(&database);
    let statement = session.prepare(COUNT, &[]).unwrap();
    for is_cancelled in [false, true] {
        let mut portal = session.bind(&statement, Vec::new()).unwrap();
        session.stream_to(Destination::Later);
        let Step::Parked(parked) = session.execute(&mut portal).unwrap() else { panic!("it runs elsewhere") };
        parked.wait();
        if is_cancelled {
            session.canceller().cancel();
        }
        let sink = session.sink().unwrap().clone();
        let Step::Done(Outcome::Streamed(tag)) = session.execute(&mut portal).unwrap() else { panic!("it has ended") };
        let Some(ResultPiece::Rows(rows)) = sink.stream().next_now() else { panic!("the rows are lost") };
        assert_eq!((tag.rows, rows.len(), counts.cancels.load(SeqCst)), (Some(2), 2, 0));
        session.stream_to(Destination::Whole);
        session.sync().unwrap();
    }
}

#[test]
fn a_cursor_with_all_its_rows_is_made_at_once() {
    let (database, counts) = database();
    counts.streams.store(true, SeqCst);
    let mut session = connect(&database);
    // One that may go back, one that outlives its transaction, and one that shows changes of its transaction.
    for declared in [
        "begin; declare c scroll cursor for select count(*) from t",
        "begin; declare c cursor with hold for select count(*) from t",
        "begin; insert into t values (0); declare c cursor for select count(*) from t",
    ] {
        run(&mut session, declared).unwrap();
        assert_eq!(counts.streaming.load(SeqCst), 0, "{declared}");
        assert!([12_000, 12_001].contains(&numbers(&mut session, "fetch all from c")[0]), "{declared}");
        run(&mut session, "rollback").unwrap();
    }
}

#[test]
fn a_cancel_ends_a_fetch_that_waits_for_rows() {
    let (database, counts) = database();
    counts.streams.store(true, SeqCst);
    let mut session = connect(&database);
    run(&mut session, "begin; declare c cursor for select count(*) from t").unwrap();
    let statement = session.prepare("move all in c", &[]).unwrap();
    let mut portal = session.bind(&statement, Vec::new()).unwrap();
    let canceller = session.canceller();
    let cancelled = loop {
        match session.execute(&mut portal) {
            Ok(Step::Parked(parked)) => {
                canceller.cancel();
                parked.wait();
            }
            Ok(step) => panic!("{step:?}"),
            Err(error) => break error,
        }
    };
    assert_eq!(cancelled.state(), SqlState("57014"));
    session.fail();
    all_streams_end(&counts);
    assert_eq!(run(&mut session, "rollback").unwrap().len(), 0);
    // The same by time.
    run(&mut session, "begin; declare c cursor for select count(*) from t; set statement_timeout = 50").unwrap();
    let late = run(&mut session, "move all in c").unwrap_err();
    assert_eq!((late.state(), late.message()), (SqlState("57014"), "canceling statement due to statement timeout"));
    run(&mut session, "rollback").unwrap();
    all_streams_end(&counts);
}

#[test]
fn explain_says_which_path_it_takes() {
    let (database, counts) = database();
    let mut session = connect(&database);
    let large = "explain select count(*) from t";
    assert_eq!(lines(&mut session, large), ["Count", "Path: analytics"]);
    assert_eq!(counts.runs.load(SeqCst), 0);
    let analysed = lines(&mut session, "explain (analyze, summary off) select count(*) from t");
    let copied = ["Rows Read in Place: 0", "Rows Copied: 1", "Share Copied: 100.0%"];
    assert_eq!(analysed, [&["Count", "Path: analytics"], &copied[..]].concat());
    assert_eq!(counts.runs.load(SeqCst), 1);
    // Queries that analytics refuses or fails at are run by rows, unless analytics was forced.
    *counts.fails.lock().unwrap() = Some(SqlState("22012"));
    let analysed = lines(&mut session, "explain (analyze, timing off, costs off, summary off) select count(*) from t");
    let rows = ["Aggregate (actual rows=1 loops=1)", "  ->  Seq Scan on t (actual rows=12000 loops=1)", "Path: row"];
    assert_eq!(analysed, rows);
    run(&mut session, "set overtake.path = analytics").unwrap();
    assert_eq!(run(&mut session, COUNT).unwrap_err().state(), SqlState("22012"));
    assert_eq!(run(&mut session, "select * from t for update").unwrap_err().state(), SqlState::FEATURE_NOT_SUPPORTED);
    run(&mut session, "set overtake.path = row").unwrap();
    assert_eq!(lines(&mut session, "explain (costs off) select count(*) from t")[2], "Path: row");
    run(&mut session, "reset overtake.path").unwrap();
    // A few rows are found by an index.
    let found = [
        "Index Scan using t_pkey on t",
        "  Index Cond: (id = 5)",
        "  Filter: (id = 5)",
        "Path: row",
        "Row Budget: 20000",
    ];
    assert_eq!(lines(&mut session, "explain select * from t where id = 5"), found);
}

/// Goal: a query that needs the first rows only is one of the row path. Method: limits over plans that end early, and over
/// those that read their whole input first.
#[test]
fn few_rows_of_a_large_table_are_read_by_rows() {
    let (database, _) = database();
    let mut session = connect(&database);
    let mut path = |query: &str| {
        let lines = lines(&mut session, &format!("explain {query}"));
        lines.iter().find_map(|line| line.strip_prefix("Path: ").map(str::to_owned)).expect("a path")
    };
    for early in [
        "select id from t limit 1",
        "select id + 1 from t where id <> 3 limit 5 offset 5",
        "select exists (select from t where id + 1 = 3)",
        "select * from (select id from t) a limit 1",
    ] {
        assert_eq!(path(early), "row", "{early}");
    }
    for whole in [
        "select id from t order by -id limit 1",
        "select count(*) from t limit 1",
        "select id from t limit 11000",
        "select (select count(*) from t) limit 1",
        "select id % 7, count(*) from t group by id % 7 limit 1",
    ] {
        assert_eq!(path(whole), "analytics", "{whole}");
    }
}
