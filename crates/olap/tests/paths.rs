//! Goal: a statement has one meaning on both paths. Method: the files of statements that hold on PostgreSQL 15 (crate `sql`,
//! `tests/slt`); each of their queries runs by rows and, where analytics does not refuse it, as analytics, over the same
//! tables. The generated statements, which rows answer as PostgreSQL did (`tests/generated` there), run as analytics too and
//! are held against the same answers.
#![allow(missing_docs, clippy::unwrap_used, reason = "a test fails by panicking")]

#[path = "../../sql/tests/generated/answer.rs"]
mod answer;
#[path = "paths/calls.rs"]
mod calls;
#[path = "paths/every_type.rs"]
mod every_type;
#[path = "paths/stored.rs"]
mod stored;

use answer::{Answer, Line};
use engine::{Engine, EngineConfig};
use olap::{Admission, ClassRuntime, Job, NoHook, QuerySlot, Runtime, RuntimeConfig, SqlAnalytics};
use procs::Runtimes;
use settings::Connect;
use sql::session::{Outcome, Session, Step};
use statement::outcome::TransactionStatus;
use statement::{SqlError, SqlResult, SqlState};
use std::fs;
use std::path::Path;
use std::sync::Arc;
use types::text;
use types::{Datum, SqlType};

/// Lets everybody in.
struct Open;

impl Admission for Open {
    fn enter(&self, job: Job) -> Option<u64> {
        job(Box::new(Open));
        Some(0)
    }

    fn take_back(&self, _: u64) {}
}

impl QuerySlot for Open {
    fn pause(&mut self) {}

    fn resume(&mut self) {}
}

/// What came of a query.
#[derive(Debug)]
struct Given {
    kinds: Vec<SqlType>,
    rows: Vec<Vec<Option<String>>>,
}

struct Server {
    _runtime: Arc<Runtime>,
    session: Session,
}

impl Server {
    fn new() -> Server {
        Server::with_runtimes(Arc::default())
    }

    /// A server with these levels of isolation.
    fn with_runtimes(runtimes: Arc<Runtimes>) -> Server {
        let engine = Engine::new(EngineConfig::in_memory());
        let tables = olap::Database::new(engine.clone());
        let runtime = Arc::new(Runtime::new(RuntimeConfig::new(2)).unwrap());
        let class_runtime =
            || ClassRuntime { runtime: Arc::downgrade(&runtime), admission: Arc::new(Open), hook: Arc::new(NoHook) };
        let analytics = SqlAnalytics::new(&tables, [class_runtime(), class_runtime(), class_runtime()]).unwrap();
        let database = sql::session::Database::new(engine).with_analytics(analytics).with_runtimes(runtimes);
        let connect = Connect {
            user: "postgres".to_owned(),
            database: "postgres".to_owned(),
            settings: Vec::new(),
            backend_pid: 1,
        };
        Server { _runtime: runtime, session: database.connect(connect).unwrap() }
    }

    /// The answer's rows, if it has any.
    fn run(&mut self, text: &str) -> SqlResult<Option<Given>> {
        let done = self.try_run(text);
        if done.is_err() {
            self.session.fail();
        }
        self.session.sync()?;
        done
    }

    fn try_run(&mut self, text: &str) -> SqlResult<Option<Given>> {
        let session = &mut self.session;
        let statement = session.prepare(text, &[])?;
        let mut portal = session.bind(&statement, Vec::new())?;
        let outcome = loop {
            match session.execute(&mut portal)? {
                Step::Done(outcome) => break outcome,
                Step::Parked(wait) => wait.wait(),
                Step::CopyIn(_) | Step::CopyOut(_) => return Ok(None),
            }
        };
        let Outcome::Rows(rows, _) = outcome else { return Ok(None) };
        let kinds: Vec<SqlType> = statement.columns().unwrap().iter().map(|column| column.kind).collect();
        let cell = |value: &Datum, kind: &SqlType| match value {
            Datum::Null => None,
            value => Some(text::to_string(value, *kind, session.forms())),
        };
        let rows = rows.iter().map(|row| row.iter().zip(&kinds).map(|(value, kind)| cell(value, kind)).collect());
        Ok(Some(Given { rows: rows.collect(), kinds }))
    }
}

/// What the paths came to.
#[derive(Default)]
struct Tally {
    same: usize,
    refused: usize,
    fell_back: Vec<String>,
    different: Vec<String>,
}

impl Tally {
    fn check(self, least: usize) {
        let Tally { same, refused, fell_back, different } = self;
        println!("{same} the same, {refused} refused, {} fell back:\n{}", fell_back.len(), fell_back.join("\n"));
        assert!(different.is_empty(), "{} differ:\n{}", different.len(), different.join("\n"));
        assert!(least < same, "only {same} were compared");
    }
}

/// Whether a statement has nothing to do with when it is run, or by whom.
fn is_repeatable(text: &str) -> bool {
    let text = text.trim_start().to_lowercase();
    let is_query = ["select", "with", "values", "table", "("].iter().any(|word| text.starts_with(word));
    is_query
        && ![
            "random",
            "clock_timestamp",
            "set_config",
            "nextval",
            "gen_random",
            "pg_",
            "txid",
            "insert ",
            "update ",
            "delete ",
        ]
        .iter()
        .any(|word| text.contains(word))
}

fn judge(server: &mut Server, text: &str, tally: &mut Tally) {
    server.run("set overtake.path = row").unwrap();
    let by_rows = server.run(text);
    server.run("set overtake.path = analytics").unwrap();
    let analytics = server.run(text);
    server.run("reset overtake.path").unwrap();
    let sorted = |found: &Option<Given>| {
        let mut rows = found.as_ref().map(|given| given.rows.clone()).unwrap_or_default();
        rows.sort_unstable();
        rows
    };
    let state = |error: &SqlError| error.state().0.to_owned();
    match (&by_rows, &analytics) {
        (_, Err(error)) if error.state() == SqlState::FEATURE_NOT_SUPPORTED => tally.refused += 1,
        (Ok(one), Ok(two)) if sorted(one) == sorted(two) => tally.same += 1,
        (Err(one), Err(two)) if state(one) == state(two) => tally.same += 1,
        // The row path is asked then, unless it is a fault of this program.
        (_, Err(error)) if error.state() != SqlState::INTERNAL_ERROR => {
            tally.fell_back.push(format!("{text}\n  {error}"))
        }
        _ => tally.different.push(format!("{text}\n  by rows {by_rows:?}\n  as analytics {analytics:?}")),
    }
}

/// The statements of a file, without what they should answer.
fn statements(file: &str) -> Vec<String> {
    let blocks = file.split("\n\n").filter_map(|block| {
        let mut lines = block.lines().skip_while(|line| line.starts_with('#') || line.trim().is_empty());
        let head = lines.next()?;
        let is_record = head.starts_with("query") || head.starts_with("statement");
        is_record.then(|| lines.take_while(|line| *line != "----").collect::<Vec<_>>().join("\n"))
    });
    blocks.collect()
}

#[test]
fn queries_mean_the_same_on_both_paths() {
    let folder = Path::new("../sql/tests/slt");
    let mut files: Vec<_> = fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()).collect();
    files.sort();
    let mut tally = Tally::default();
    for file in files {
        let mut server = Server::new();
        for text in statements(&fs::read_to_string(&file).unwrap()) {
            let Ok(parts) = server.session.split(&text) else { continue };
            for part in parts {
                if is_repeatable(&part.text) && server.session.status() == TransactionStatus::Idle {
                    judge(&mut server, &part.text, &mut tally);
                }
                let _ = server.run(&part.text);
            }
        }
    }
    tally.check(300);
}

#[test]
fn generated_queries_answer_as_postgresql_did_as_analytics_too() {
    let mut server = Server::new();
    for statement in include_str!("../../sql/tests/generated/schema.sql").split_inclusive(";\n") {
        server.run(statement).unwrap();
    }
    server.run("set overtake.path = analytics").unwrap();
    let mut tally = Tally::default();
    for line in include_str!("../../sql/tests/generated/answers.tsv").lines() {
        let Line { statement, answer } = Line::read(line);
        let found = match server.run(statement) {
            Ok(given) => {
                let Given { kinds, rows } = given.unwrap();
                Answer::rows(statement, kinds.iter().map(|kind| kind.oid()), rows)
            }
            Err(error) if error.state() == SqlState::FEATURE_NOT_SUPPORTED => {
                tally.refused += 1;
                continue;
            }
            Err(error) => Answer::failed(error.state().0),
        };
        if found.to_string() == answer {
            tally.same += 1;
        } else {
            tally.different.push(format!("{statement}\n  expected {answer}\n  came     {found}"));
        }
    }
    tally.check(1000);
}

/// What an ordering of joins, or a plan that is used twice, must not change.
#[test]
fn a_part_that_runs_twice_has_the_same_rows() {
    let mut server = Server::new();
    for text in [
        "create table t (a int, b int)",
        "create table u (a int, n numeric)",
        "insert into t select i % 500, i % 7 from generate_series(1, 4000) i",
        "insert into u select i % 500, i from generate_series(1, 4000) i",
        "set overtake.path = analytics",
    ] {
        server.run(text).unwrap();
    }
    let twice = "with x as (select a from t limit 10) select count(*) from x join x y on x.a = y.a";
    assert_eq!(server.run(twice).unwrap_err().state(), SqlState::FEATURE_NOT_SUPPORTED);
    // Each set would take other rows.
    let sets = "select a, sum(b) from (select a, b from t limit 10) q group by rollup (a)";
    assert_eq!(server.run(sets).unwrap_err().state(), SqlState::FEATURE_NOT_SUPPORTED);
    let one = sets.replace("rollup (a)", "grouping sets ((a))");
    assert_eq!(server.run(&one).unwrap().unwrap().rows.len(), 10);
    assert_eq!(server.run(&sets.replace(" limit 10", "")).unwrap().unwrap().rows.len(), 501);
    let joined = |of: &str| {
        format!(
            "explain select sum(s) from (select a from t where b = 3{of}) x join (select a, sum(n) as s from u group by a) y on x.a = y.a"
        )
    };
    let mut plan = |text: &str| {
        let rows = server.run(text).unwrap().unwrap().rows;
        rows.into_iter().flatten().flatten().collect::<Vec<_>>().join("\n")
    };
    // One whose rows are the same each time may choose among the groups.
    let chooses = |plan: &str| plan.contains("Semi");
    let limited = plan(&joined(" limit 10"));
    assert!(!chooses(&limited), "{limited}");
    assert!(chooses(&plan(&joined(" and a = 5"))), "{}", plan(&joined(" and a = 5")));
}

#[test]
fn blanks_and_keys_mean_the_same_on_both_paths() {
    let mut server = Server::new();
    for text in [
        "create table bp (id int primary key, p char(4), c char(2), t text)",
        "insert into bp values (1, 'a', 'a', 'a'), (2, null, 'b', 'b '), (3, 'b', 'c', 'b'), (4, 'abc', null, null)",
        "create table w1 (n numeric)",
        "create table w2 (n numeric(6, 2))",
        "insert into w1 values (0.5), (1), (null)",
        "insert into w2 values (0.5), (2)",
    ] {
        server.run(text).unwrap();
    }
    let mut tally = Tally::default();
    for text in [
        "select id from bp where coalesce(p, 'b')::text = 'a'",
        "select id, c < coalesce(p, 'b') from bp",
        "select coalesce(p, 'b') || '|', count(*) from bp group by coalesce(p, 'b') || '|'",
        "select case when id < 3 then 'a'::char(2) else 'b '::char(2) end::text || '|' from bp",
        "select greatest(p, 'b')::text || '|', upper(coalesce(p, 'b')) || '|' from bp",
        "select min(coalesce(p, 'b')) || '|', count(distinct coalesce(p, c)) from bp",
        "select count(*) from bp x join bp y on x.c = coalesce(y.p, 'b')",
        "select id from bp where t not in (select coalesce(p, 'b') from bp)",
        "select count(*) from w1 left join w2 on w1.n = w2.n where w1.n + 1 = 1.5",
        "select count(*) from w1 where n in (select n from w2 where n * 2 = 1)",
    ] {
        judge(&mut server, text, &mut tally);
    }
    tally.check(7);
}

#[test]
fn an_aggregate_over_no_rows_is_the_same_in_a_correlated_subquery() {
    let mut server = Server::new();
    for text in [
        "create table inner_rows (id int, i int, f float8, n numeric, t text, b bool, s interval)",
        "insert into inner_rows select i, i, i, i, i::text, true, '1 day' from generate_series(1, 3) i",
        "create table outer_rows (id int)",
        "insert into outer_rows select generate_series(0, 5)",
    ] {
        server.run(text).unwrap();
    }
    let mut tally = Tally::default();
    for call in [
        "regr_count(f, f)",
        "count(*)",
        "count(i)",
        "count(distinct i)",
        "count(i) filter (where i > 1)",
        "regr_count(f, f) filter (where i > 1)",
        "sum(i)",
        "avg(n)",
        "max(t)",
        "bool_and(b)",
        "stddev(f)",
        "corr(f, f)",
        "bit_or(i)",
        "sum(s)",
        "string_agg(t, ',' order by id)",
        "array_agg(i order by id)",
        "coalesce(regr_count(f, f), 7) + 1",
        "case when regr_count(f, f) = 0 then 'none' else 'some' end",
    ] {
        let query = format!("(select {call} from inner_rows r where r.id = o.id + 1)");
        judge(&mut server, &format!("select id, {query} from outer_rows o"), &mut tally);
        judge(&mut server, &format!("select count(*) from outer_rows o where {query}::text is null"), &mut tally);
        judge(
            &mut server,
            &format!("select v::text, count(*) from (select {query} v from outer_rows o offset 0) q group by 1"),
            &mut tally,
        );
    }
    tally.check(40);
}

#[test]
fn conditions_on_a_correlated_total_are_asked_over_no_rows_too() {
    let mut server = Server::new();
    for text in [
        "create table inner_rows (id int, i int, t text)",
        "insert into inner_rows values (1, 1, 'a'), (2, 2, 'b'), (2, 3, 'c'), (3, null, null)",
        "create table outer_rows (id int)",
        "insert into outer_rows select generate_series(0, 4)",
    ] {
        server.run(text).unwrap();
    }
    let mut tally = Tally::default();
    for value in [
        "max(t)",
        "count(*)",
        "count(*) is null",
        "not (count(i) is null)",
        "case when count(*) is null then 1 else 2 end",
        "case when true then count(*) else 9 end",
        "case when count(*) = 0 then 'none' else max(t) end",
        "coalesce(sum(i), 0) + 1",
        "5",
    ] {
        for condition in [
            "",
            "having true",
            "having count(*) <> 1",
            "having count(*) = 0",
            "having count(i) < 1",
            "having count(distinct t) <= 1",
            "having not (count(*) = 1)",
            "having sum(i) is null",
            "having sum(i) is null or 1 < count(*)",
            "having count(*) is null",
            "having case when count(*) = 0 then true else sum(i) > 1 end",
        ] {
            let from = "from inner_rows r where r.id = o.id";
            if value == "5" && condition.is_empty() {
                continue;
            }
            let query = format!("(select {value} {from} {condition})");
            judge(&mut server, &format!("select id, {query} from outer_rows o"), &mut tally);
            judge(&mut server, &format!("select id from outer_rows o where {query} is null"), &mut tally);
            let around = format!("(select v from (select {value} v, count(*) c {from} {condition}) q where c <> 1)");
            judge(&mut server, &format!("select id, {around} from outer_rows o"), &mut tally);
        }
    }
    // Nothing of this is refused.
    assert_eq!(tally.refused, 0);
    tally.check(290);
}

/// Prepares tables, and holds the paths against each other for all queries; analytics may refuse none of them.
fn all_same(setup: &[&str], queries: &[&str]) {
    let mut server = Server::new();
    for text in setup {
        server.run(text).unwrap();
    }
    let mut tally = Tally::default();
    for text in queries {
        judge(&mut server, text, &mut tally);
    }
    assert!(tally.fell_back.is_empty(), "{:?}", tally.fell_back);
    tally.check(queries.len() - 1);
}

#[test]
fn an_outer_order_does_not_choose_the_rows_that_a_limit_leaves() {
    all_same(
        &[
            "create table o (id int, v int)",
            "insert into o select i, i % 7 from generate_series(1, 200) i",
            "create table p (id int)",
            "insert into p select i * 2 from generate_series(1, 100) i",
        ],
        &[
            "select id from (select id from o order by id desc offset 195) z order by id",
            "select id from (select id from o order by id desc offset 195) z order by id desc",
            "select id from (select id from o order by v, id offset 190) z order by id",
            "select id + 1 from (select id from o order by id desc offset 195) z order by 1",
            "select id, v from (select id, v from o order by id desc limit 10 offset 5) z order by id desc, v",
            "select id from (select id from o order by id desc limit 10 offset 5) z order by id",
            "select id from (select id from o order by id desc limit 10) z order by id offset 5",
            "select id from (select id from o order by id desc limit 10) z order by id offset 5 limit 2",
            "select id from (select id from o order by id desc offset 190 limit 5) z order by id limit 2",
            "select id from (select id from o order by id desc offset 150) z where id > 20 order by id offset 10",
            "select * from (select id from o order by id desc offset 195) z union all select id from p order by 1",
            "(select id from o order by id desc offset 195) union (select id from p order by id offset 95) order by 1",
            "(select id from o order by v, id limit 3) union (select id from p order by id desc limit 3) order by 1 desc",
            "select z.id from (select id from o order by id desc offset 190) z join p on p.id = z.id order by z.id",
            "select v, count(*) from (select v from o order by id desc offset 150) z group by v order by v",
            "select count(*) from (select id from o order by id desc offset 195) z",
            "select max(id) from (select id from (select id from o order by id desc offset 100) y order by id offset 50) z",
            "select id from o where id in (select id from (select id from p order by id desc offset 95) z) order by id",
        ],
    );
}

#[test]
fn a_condition_above_a_grand_total_stays_there() {
    all_same(
        &["create table r (v int, w int)", "insert into r select i, i % 3 from generate_series(1, 100) i"],
        &[
            "select * from (select v / 10 k, count(*) c from r group by rollup (1)) x where k = 2",
            "select v % 3, count(*) from r group by rollup (1) having v % 3 = 1",
            "select w, count(*) from r group by cube (w) having w > 0",
            "select v / 50, w, count(*) from r group by cube (1, 2) having w = 1",
            "select * from (select v / 50 k, w, count(*) c from r group by grouping sets ((1, 2), (2), ())) x where k = 1",
            "select * from (select v / 50 k, w, count(*) c from r group by grouping sets ((1, 2), (2), ())) x where k is null",
            "select * from (select 1 k, count(*) c from r) x where k = 2",
            "select * from (select 1 k, count(*) c from r) x where k = 1",
            "select count(*) from r having 1 = 2",
            "select count(*) from r where v > 1000 having 1 = 1",
            "select sum(c) from (select w, count(*) c from r group by rollup (w)) x where w = 1",
            "select x.c from (select 5 k, count(*) c from r where v < 0) x join r on r.v = x.k and x.k = 6",
            "select count(*), null::int from r where v < 0 group by grouping sets (())",
            "select w, count(*) from r where v < 0 group by rollup (w)",
            "select w, count(*) from r where v < 0 group by grouping sets ((w))",
            "select count(*) from (select w, count(*) from r group by rollup (w) having w = 7) x",
        ],
    );
}

#[test]
fn what_a_group_shows_is_one_of_its_values() {
    all_same(
        &[
            "create table p (x text, f float8, g float4, n numeric)",
            "insert into p values ('a', '-0', '-0', 1.50), ('b', 1, 1, 2), ('c', 'NaN', 'NaN', 2.0), ('é', null, null, null)",
        ],
        &[
            "select '[' || octet_length(max(c)) || ']', max(c) from (select distinct x::char(5) c from p) q",
            "select min(c), max(c || '|') from (select distinct x::char(5) c from p) q",
            "select distinct x::char(5) from p",
            "select x::char(5), count(*) from p group by 1",
            "select max(c) from (select x::char(5) c from p union select x::char(5) from p) q",
            "select c || '|' from (select x::char(3) c from p union all select x::char(3) from p) q group by c",
            "select distinct f from p",
            "select f, count(*) from p group by f",
            "select g, count(*) from p group by g",
            "select f from p union select f from p",
            "select count(*) from p where f = 0",
            "select distinct n from p where n > 1.9 or n is null",
            "(select f from p order by f limit 1) union (select f from p order by f limit 1)",
            "select max(x::varchar(1)), max(x::char(3)) || '|', max(n::numeric(5, 3)) from p",
        ],
    );
}

#[test]
fn rows_of_no_columns_are_counted() {
    let mut server = Server::new();
    server.run("create table t (a int)").unwrap();
    server.run("insert into t select generate_series(1, 3)").unwrap();
    server.run("set overtake.path = analytics").unwrap();
    for (text, count) in [
        ("select from (select 42) v", 1),
        ("select from t", 3),
        ("select from t where a > 1", 2),
        ("select from t union all select from t", 6),
        ("select from t order by a limit 2", 2),
    ] {
        let rows = server.run(text).unwrap().unwrap().rows;
        assert_eq!(rows, vec![Vec::new(); count], "{text}");
    }
}

#[test]
fn nothing_raises_on_a_row_that_a_condition_has_excluded() {
    all_same(
        &[
            "create table g (i int, j int, k int, s text)",
            "insert into g select x, x % 5, x % 3, case x % 4 when 0 then x::text else 'w' || x end from generate_series(1, 400) x",
            "create table h (i int, d int)",
            "insert into h select x * 2, x % 4 from generate_series(1, 200) x",
        ],
        &[
            "select count(*) from g where i <> 250 and 100 / (i - 250) > 0",
            "select count(*) from g where j <> 0 and 10 / j > 2 and k <> 0 and 10 / k > 3",
            "select count(*) from g where s ~ '^[0-9]+$' and s::int > 5",
            "select sum(100 / j) from g where j <> 0",
            "select i, 100 / (j * k) from g where j <> 0 and k <> 0",
            "select j, 100 / (j + k - k) from g where j <> 0 and i > 3",
            "select * from (select i, j from g where j <> 0) q where 100 / j > 30",
            "select sum(x) from (select 100 / j x from g where j <> 0) q",
            "select j <> 0 and 100 / j > 30, count(*) from g group by 1",
            "select j = 0 or 100 / j > 30, count(*) from g group by 1",
            "select count(*) from g where j = 0 or 100 / j > 30",
            "select count(*) from g where i < 3 or (j <> 0 and 100 / j > 30)",
            "select count(*) from g where case when j <> 0 then 100 / j > 30 else false end",
            "select case when j = 0 then null else 100 / j > 30 end, count(*) from g group by 1",
            "select coalesce(nullif(j, 0) is null, 100 / j > 30), count(*) from g group by 1",
            "select coalesce(case when j = 0 then 1 end, 100 / j), count(*) from g group by 1",
            "select sum(100 / j) filter (where j <> 0) from g",
            "select k, max(s::int) filter (where s ~ '^[0-9]+$') from g group by k",
            "select count(distinct 100 / j) filter (where j <> 0) from g",
            "select count(*) from g join h on g.i = h.i where h.d <> 0 and g.j / h.d > 0",
            "select count(*) from g join h on g.i = h.i and h.d <> 0 and g.j / h.d > 0",
            "select k, count(*) from g where j <> 0 group by k having sum(100 / j) > 10",
            "select not (j <> 0 and 100 / j > 30) is true, count(*) from g group by 1",
        ],
    );
}

/// A thousand conditions are everyday. Too many for DataFusion's stack, or for ours, are refused, wherever in the query they
/// stand.
#[test]
fn conditions_side_by_side_do_not_end_the_process() {
    let mut server = Server::new();
    for text in [
        "create table t (a int)",
        "insert into t select i from generate_series(1, 100) i",
        "set overtake.path = analytics",
    ] {
        server.run(text).unwrap();
    }
    let chain = |of: &str, with: &str, count: usize| vec![of; count].join(with);
    for count in [1_000, 6_000, 30_000] {
        let within = |from: String| format!("(select * from {from} x where {})", chain("a <> 7", " and ", count / 10));
        let queries = (0..10).fold("t".to_owned(), |from, _| within(from));
        for (name, text) in [
            ("AND", format!("select count(*) from t where {}", chain("a <> 7", " and ", count))),
            ("OR", format!("select count(*) from t where not ({})", chain("a = 7", " or ", count))),
            ("queries", format!("select count(*) from {queries} x")),
        ] {
            match server.run(&text) {
                Ok(given) => assert_eq!(given.unwrap().rows, [[Some("99".to_owned())]], "{name}, {count}"),
                Err(error) => {
                    let states = [SqlState::FEATURE_NOT_SUPPORTED, SqlState::STATEMENT_TOO_COMPLEX];
                    assert!(1_000 < count && states.contains(&error.state()), "{name}, {count}: {error}");
                }
            }
        }
    }
}
