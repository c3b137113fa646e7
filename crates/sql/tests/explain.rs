//! Goal: EXPLAIN names the operators as PostgreSQL does, ANALYZE counts what they did and does what the statement does.
//! Method: plans of each form, without what differs from run to run.
#![allow(missing_docs, clippy::unwrap_used, reason = "a test fails by panicking")]

use engine::{Engine, EngineConfig};
use sql::session::{Connect, Database, Outcome, Session, Step};
use sql::{Datum, SqlResult};

fn session() -> Session {
    let connect = Connect { user: "postgres".into(), database: "postgres".into(), ..Connect::default() };
    let mut session = Database::new(Engine::new(EngineConfig::in_memory())).connect(connect).unwrap();
    for text in [
        "create table a (id int primary key, n int, s text)",
        "create table b (id int primary key, a_id int references a)",
        "create index b_a on b (a_id)",
        "insert into a select i, i % 10, 's' || i from generate_series(1, 100) g(i)",
        "insert into b select i, (i + 1) / 2 from generate_series(1, 200) g(i)",
    ] {
        run(&mut session, text, Vec::new()).unwrap();
    }
    session
}

fn run(session: &mut Session, text: &str, values: Vec<Datum>) -> SqlResult<Vec<Box<[Datum]>>> {
    let statement = session.prepare(text, &[])?;
    let mut portal = session.bind(&statement, values)?;
    let step = session.execute(&mut portal);
    session.sync()?;
    match step? {
        Step::Done(Outcome::Rows(rows, _)) => Ok(rows),
        _ => Ok(Vec::new()),
    }
}

fn shown(value: &Datum) -> &str {
    match value {
        Datum::Text(text) => text,
        other => panic!("{other:?}"),
    }
}

fn lines(session: &mut Session, text: &str) -> Vec<String> {
    let rows = run(session, text, Vec::new()).unwrap();
    rows.iter().map(|row| shown(&row[0]).to_owned()).collect()
}

/// Statements and their operators.
const PLANS: &[(&str, &str)] = &[
    ("select 1", "Result"),
    ("select * from a", "Seq Scan on a"),
    ("select * from a where n > 3 and s = 'x'", "Seq Scan on a|  Filter: ((n > 3) AND (s = 'x'::text))"),
    (
        "select n, count(*) from a group by n order by n desc limit 3",
        "Limit|  ->  Sort|        Sort Key: n DESC|        ->  HashAggregate|              Group Key: n|              ->  Seq Scan on a",
    ),
    (
        "select a.s from b join a on a.id = b.a_id where b.id = 7",
        "Nested Loop|  Join Filter: (a.id = b.a_id)|  ->  Index Scan using b_pkey on b|        Index Cond: (id = 7)|        Filter: (b.id = 7)|  ->  Index Scan using a_pkey on a|        Index Cond: (id = b.a_id)",
    ),
    (
        "select * from a where id in (1, 2)",
        "Index Scan using a_pkey on a|  Index Cond: (id = ANY (ARRAY[1, 2]))|  Filter: (id = ANY (ARRAY[1, 2]))",
    ),
    ("select distinct n from a", "HashAggregate|  Group Key: n|  ->  Seq Scan on a"),
    ("select 1 union all select 2", "Append|  ->  Result|  ->  Result"),
    (
        "select * from a where id = 1 for update",
        "LockRows|  ->  Index Scan using a_pkey on a|        Index Cond: (id = 1)|        Filter: (id = 1)",
    ),
    ("select * from generate_series(1, 3)", "Function Scan on generate_series"),
    ("values (1), (2)", "Values Scan on \"*VALUES*\""),
    ("insert into a values (1000, 1, 'x')", "Insert on a|  ->  Values Scan on \"*VALUES*\""),
    (
        "update a set n = 0 where id = 5",
        "Update on a|  ->  Index Scan using a_pkey on a|        Index Cond: (id = 5)|        Filter: (id = 5)",
    ),
    (
        "delete from b where id >= 190",
        "Delete on b|  ->  Index Scan using b_pkey on b|        Index Cond: (id >= 190)|        Filter: (id >= 190)",
    ),
    (
        "select (select max(n) from a) from b",
        "Seq Scan on b|  InitPlan 1|    ->  Limit|          ->  Aggregate|                ->  Seq Scan on a",
    ),
    ("create table c as select * from a", "Seq Scan on a"),
];

#[test]
fn operators_have_postgresqls_names() {
    let mut session = session();
    for (statement, expected) in PLANS {
        let found = lines(&mut session, &format!("explain (costs off) {statement}"));
        assert_eq!(found.join("|"), format!("{expected}|Path: row"), "{statement}");
    }
    assert_eq!(run(&mut session, "select * from c", Vec::new()).unwrap_err().state(), sql::SqlState("42P01"));
}

#[test]
fn analyze_runs_the_statement_and_counts() {
    let mut session = session();
    let of = |session: &mut Session, text: &str| {
        lines(session, &format!("explain (analyze, costs off, timing off, summary off) {text}")).join("|")
    };
    assert_eq!(
        of(&mut session, "select count(*) from a where n = 3"),
        "Aggregate (actual rows=1 loops=1)|  ->  Seq Scan on a (actual rows=10 loops=1)|        Filter: (n = 3)|        Rows Removed by Filter: 90|Path: row"
    );
    let update = of(&mut session, "update a set s = 'new' where n = 3");
    assert!(
        update.starts_with("Update on a (actual rows=0 loops=1)|  ->  Seq Scan on a (actual rows=10 loops=1)"),
        "{update}"
    );
    let returning = of(&mut session, "update a set s = 'new' where n = 4 returning id");
    assert!(returning.starts_with("Update on a (actual rows=10 loops=1)"), "{returning}");
    let count = run(&mut session, "select count(*) from a where s = 'new'", Vec::new()).unwrap();
    assert_eq!(count[0][0], Datum::Int8(20));
    let join = of(&mut session, "select * from a join b on b.a_id = a.id where a.n = 1 order by b.id limit 3");
    assert!(join.starts_with("Limit (actual rows=3 loops=1)|  ->  Sort (actual rows=3 loops=1)"), "{join}");
    assert!(join.contains("Join") && join.contains("(actual rows=20 loops=1)"), "{join}");
    run(&mut session, "explain analyze create table c as select * from a", Vec::new()).unwrap();
    let count = run(&mut session, "select count(*) from c", Vec::new()).unwrap();
    assert_eq!(count[0][0], Datum::Int8(100));
    let timed = lines(&mut session, "explain analyze select * from a");
    assert!(timed[0].starts_with("Seq Scan on a  (rows=") && timed[0].contains("(actual time="), "{timed:?}");
    assert!(timed[2].starts_with("Planning Time: ") && timed[3].starts_with("Execution Time: "), "{timed:?}");
}

#[test]
fn parameters_and_prepared_statements() {
    let mut session = session();
    let rows = run(&mut session, "explain (costs off) select * from a where id = $1", vec![Datum::Int4(4)]).unwrap();
    assert_eq!(shown(&rows[1][0]), "  Index Cond: (id = $1)");
    run(&mut session, "prepare p (int) as select * from a where n = $1", Vec::new()).unwrap();
    let found = lines(&mut session, "explain (analyze, costs off, timing off, summary off) execute p (3)").join("|");
    let expected = "Seq Scan on a (actual rows=10 loops=1)|  Filter: (n = $1)|  Rows Removed by Filter: 90|Path: row";
    assert_eq!(found, expected);
}

#[test]
fn json_is_one_value() {
    let mut session = session();
    let statement = session.prepare("explain (format json, costs off) select * from a where id = 1", &[]).unwrap();
    let columns = statement.columns().unwrap();
    assert_eq!((&*columns[0].name, columns[0].kind.name()), ("QUERY PLAN", "json".to_owned()));
    let text = lines(&mut session, "explain (format json, costs off) select * from a where id = 1").join("\n");
    let expected = r#"[
  {
    "Plan": {
      "Node Type": "Index Scan",
      "Index Name": "a_pkey",
      "Relation Name": "a",
      "Index Cond": "(id = 1)",
      "Filter": "(id = 1)"
    },
    "Path": "row"
  }
]"#;
    assert_eq!(text, expected);
}
