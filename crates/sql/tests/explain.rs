//! Goal: EXPLAIN names the operators as PostgreSQL does, ANALYZE counts their work and has the statement's effects.
//! Method: plans of each form, without the parts that differ from run to run.
#![allow(missing_docs, clippy::unwrap_used, reason = "a test fails by panicking")]

use engine::{Engine, EngineConfig};
use settings::Connect;
use sql::session::{Database, Outcome, Session, Step};
use statement::SqlResult;
use types::Datum;

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
    // Conditions are pushed into the joins of a subquery, and find rows by its indexes.
    (
        "select * from (select a.id, b.id from a, b where a.n = b.a_id union all select 1, 2) q (x, y) where y = 3",
        "Append|  ->  Hash Join|        Hash Cond: (b.a_id = a.n)|        ->  Index Scan using b_pkey on b|              Index Cond: (id = 3)|              Filter: (b.id = 3)|        ->  Hash|              ->  Seq Scan on a|  ->  Result|        Filter: (2 = 3)",
    ),
    (
        "select max(id) from a",
        "Aggregate|  ->  Limit|        ->  Index Scan Backward using a_pkey on a|              Filter: (id IS NOT NULL)",
    ),
    ("select * from a order by id limit 3", "Limit|  ->  Index Scan using a_pkey on a"),
    (
        "select distinct id from a order by id desc limit 3",
        "Limit|  ->  HashAggregate|        Group Key: id|        ->  Index Scan Backward using a_pkey on a",
    ),
    ("select id from a order by n, id", "Sort|  Sort Key: n, id|  ->  Seq Scan on a"),
];

/// Goal: a plan follows the sizes of tables. Method: the same prepared join, before and after one of them has grown.
#[test]
fn prepared_joins_are_planned_again_when_a_table_has_grown() {
    let mut session = session();
    let first = |session: &mut Session| {
        let plan = lines(session, "explain (costs off) execute joined");
        plan.iter().find(|line| line.contains("Seq Scan")).map(|line| line.trim().to_owned()).unwrap()
    };
    for text in [
        "create table few (k int)",
        "create table many (k int)",
        "insert into few select generate_series(1, 10)",
        "insert into many select generate_series(1, 5000)",
        "prepare joined as select count(*) from many join few using (k)",
    ] {
        run(&mut session, text, Vec::new()).unwrap();
    }
    assert_eq!(first(&mut session), "->  Seq Scan on few");
    // Too little growth to matter.
    run(&mut session, "insert into few select generate_series(1, 200)", Vec::new()).unwrap();
    assert_eq!(first(&mut session), "->  Seq Scan on few");
    run(&mut session, "insert into few select generate_series(1, 100000)", Vec::new()).unwrap();
    assert_eq!(first(&mut session), "->  Seq Scan on many");
    assert_eq!(shown_count(&mut session, "execute joined"), 5000 + 200 + 10);
}

fn shown_count(session: &mut Session, text: &str) -> i64 {
    match run(session, text, Vec::new()).unwrap()[0][0] {
        Datum::Int8(count) => count,
        ref other => panic!("{other:?}"),
    }
}

#[test]
fn operators_have_postgresqls_names() {
    let mut session = session();
    for (statement, expected) in PLANS {
        let found = lines(&mut session, &format!("explain (costs off) {statement}"));
        assert_eq!(found.join("|"), format!("{expected}|Path: row"), "{statement}");
    }
    assert_eq!(run(&mut session, "select * from c", Vec::new()).unwrap_err().state(), statement::SqlState("42P01"));
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

/// Values at the limits of each type, as casts of literals.
const VALUES: &[(&str, &[&str])] = &[
    ("smallint", &["-32768", "0", "5", "32767"]),
    ("integer", &["-2147483648", "-32769", "0", "5", "32768", "2147483647"]),
    (
        "bigint",
        &[
            "-9223372036854775808",
            "-2147483649",
            "5",
            "2147483648",
            "9007199254740992",
            "9007199254740993",
            "9223372036854775807",
        ],
    ),
    (
        "numeric",
        &[
            "-1e30",
            "-32768.5",
            "4.5",
            "5.0",
            "32767.1",
            "9223372036854775807.5",
            "1e30",
            "NaN",
            "Infinity",
            "-Infinity",
        ],
    ),
    (
        "float8",
        &[
            "-1e30",
            "-32768.5",
            "4.5",
            "5",
            "9007199254740992",
            "9223372036854775807",
            "1e30",
            "NaN",
            "Infinity",
            "-Infinity",
        ],
    ),
    ("float4", &["4.5", "5", "9007199254740992", "1e30", "NaN", "-Infinity"]),
    ("date", &["-infinity", "4714-11-24 BC", "2024-03-09", "2024-03-10", "2024-11-03", "5874897-12-31", "infinity"]),
    (
        "timestamp",
        &[
            "-infinity",
            "2024-03-10",
            "2024-03-10 02:30",
            "2024-03-10 03:30",
            "2024-11-03 01:30",
            "294246-12-31 23:59:59",
            "infinity",
        ],
    ),
    (
        "timestamptz",
        &[
            "-infinity",
            "2024-03-10 05:00+00",
            "2024-03-10 07:30+00",
            "2024-11-03 05:30+00",
            "2024-11-03 06:30+00",
            "294246-12-31 23:59:59+00",
            "infinity",
        ],
    ),
];

/// Goal: a value of another type can use the index, and the index changes no answer. Method: each comparison of a key
/// of each type with the limits of all others, by the index and by a scan of the same rows, in zones with changes of
/// the clock.
#[test]
fn values_of_other_types_are_found_by_the_index() {
    let numbers = ["smallint", "integer", "bigint"];
    let mixed = ["numeric", "float8", "float4"];
    let times = ["date", "timestamp", "timestamptz"];
    let mut session = session();
    for zone in ["UTC", "America/New_York", "Pacific/Apia", "Asia/Kolkata"] {
        run(&mut session, &format!("set timezone = '{zone}'"), Vec::new()).unwrap();
        for (key, keys) in VALUES.iter().filter(|(key, _)| !mixed.contains(key)) {
            if zone != "UTC" && numbers.contains(key) {
                continue;
            }
            for table in ["indexed", "scanned"] {
                run(&mut session, &format!("drop table if exists {table}"), Vec::new()).unwrap();
                run(&mut session, &format!("create table {table} (k {key})"), Vec::new()).unwrap();
                for value in *keys {
                    run(&mut session, &format!("insert into {table} values ('{value}')"), Vec::new()).unwrap();
                }
                run(&mut session, &format!("insert into {table} values (null)"), Vec::new()).unwrap();
            }
            run(&mut session, "create index on indexed (k)", Vec::new()).unwrap();
            let is_number = numbers.contains(key);
            let others = VALUES.iter().filter(|(of, _)| is_number != times.contains(of));
            for (of, values) in others {
                for value in *values {
                    let mut conditions = vec![format!("k in ('{value}'::{of}, null)")];
                    if !mixed.contains(of) {
                        conditions.push(format!("k = any(array['{value}'::{of}, null])"));
                    }
                    for operator in ["=", "<", "<=", ">", ">="] {
                        conditions.push(format!("k {operator} '{value}'::{of}"));
                        conditions.push(format!("'{value}'::{of} {operator} k"));
                    }
                    for condition in conditions {
                        let mut answer = |table: &str| {
                            let text = format!("select k::text from {table} where {condition} order by k");
                            run(&mut session, &text, Vec::new()).map_err(|error| error.to_string())
                        };
                        let found = answer("indexed");
                        assert_eq!(found, answer("scanned"), "{key}: {condition} in {zone}");
                        // Values of a list are cast to its type, and fail if they are beyond its range.
                        if found.is_err() {
                            assert!(condition.contains(" in ("), "{key}: {condition}: {found:?}");
                            continue;
                        }
                        // A list cannot use the index where one value may equal several keys.
                        let is_near =
                            (*of == "timestamptz" && key != of) || (of.starts_with("float") && *key == "bigint");
                        if is_near && (condition.contains("any(") || condition.contains("in (")) {
                            continue;
                        }
                        let plan = lines(&mut session, &format!("explain select * from indexed where {condition}"));
                        assert!(plan[0].starts_with("Index Scan"), "{key}: {condition}: {plan:?}");
                    }
                }
            }
        }
    }
}

/// Goal: values of other types also use the index in joins, changes and parameters.
#[test]
fn keys_of_other_types_are_found_in_joins_and_changes() {
    let mut session = session();
    for text in [
        "create table k (i4 int primary key, i2 smallint unique, p text)",
        "insert into k select i, i, 'x' from generate_series(1, 900) i",
        "create table big (id bigint primary key, k bigint)",
        "insert into big select i, i * 2 from generate_series(1, 900) i",
        "prepare by_bigint(bigint) as select p from k where i4 = $1",
        "prepare by_list(bigint[]) as select p from k where i4 = any($1)",
    ] {
        run(&mut session, text, Vec::new()).unwrap();
    }
    for text in [
        "select * from k where i4 = 5::bigint",
        "select * from k where i2 = 5",
        "select * from k where i4 = 5.0",
        "select * from k where i4 in (5::bigint, 6.0)",
        "update k set p = 'y' where i4 = 5::bigint",
        "delete from k where i2 = 5",
        "select * from big where id = any('{1,2}'::int[])",
        "select * from k where i4 = 1::bigint or i4 = 2",
        "execute by_bigint(7)",
        "execute by_list('{7,8}')",
    ] {
        let plan = lines(&mut session, &format!("explain {text}"));
        assert!(plan.iter().any(|line| line.contains("Index Scan")), "{text}: {plan:?}");
    }
    let plan = lines(&mut session, "explain select * from big join k on k.i4 = big.k where big.id = 3::smallint");
    assert_eq!(plan.iter().filter(|line| line.contains("Index Scan")).count(), 2, "{plan:?}");
    assert_eq!(run(&mut session, "execute by_bigint(9223372036854775807)", Vec::new()).unwrap().len(), 0);
    assert_eq!(run(&mut session, "execute by_list('{7,7,null,8,9223372036854775807}')", Vec::new()).unwrap().len(), 2);
}

/// Goal: long lists and arrays answer by hash as they do one value at a time. Method: short and long ones of the same
/// values.
#[test]
fn long_lists_are_hashed() {
    let mut session = session();
    let mut one = |text: String| run(&mut session, &text, Vec::new()).unwrap()[0][0].clone();
    let long: Vec<String> = (1..=100_000).map(|number| (number * 7).to_string()).collect();
    let long = long.join(", ");
    let in_list = |list: &str| format!("select count(*)::int from generate_series(1, 70000) g where g in ({list})");
    assert_eq!(one(in_list(&long)), Datum::Int4(10_000));
    assert_eq!(one(in_list(&long).replace(" in ", " not in ")), Datum::Int4(60_000));
    assert_eq!(one(in_list(&format!("{long}, null")).replace(" in ", " not in ")), Datum::Int4(0));
    assert_eq!(one(in_list(&format!("{long}, null"))), Datum::Int4(10_000));
    let ten = "1, 2, 3, 4, 5, 6, 7, 8, 9, 10";
    for (expr, wanted) in [
        ("null::int in (L)", Datum::Null),
        ("11 in (L, null)", Datum::Null),
        ("10 in (L, null)", Datum::Bool(true)),
        ("11 not in (L)", Datum::Bool(true)),
        ("11 not in (L, null)", Datum::Null),
        ("10 not in (L, null)", Datum::Bool(false)),
        ("11::bigint in (L)", Datum::Bool(false)),
        ("10.0 in (L)", Datum::Bool(true)),
        ("10::bigint = any(array[L])", Datum::Bool(true)),
        ("11::smallint = any(array[L])", Datum::Bool(false)),
        ("11 = any(array[L, null])", Datum::Null),
        ("11 <> all(array[L])", Datum::Bool(true)),
        ("11 <> all(array[L, null])", Datum::Null),
        ("10 <> all(array[L, null])", Datum::Bool(false)),
        ("11 <> any(array[L])", Datum::Bool(true)),
        ("1 = any(null::int[])", Datum::Null),
        ("1 <> all(null::int[])", Datum::Null),
        ("null::int = any('{}'::int[])", Datum::Bool(false)),
        ("null::int <> all('{}'::int[])", Datum::Bool(true)),
        ("'a '::char(3) in ('a', 'b', 'c', 'd', 'e', 'f', 'g', 'h', 'i')", Datum::Bool(true)),
        ("'NaN'::float8 in (L, 'NaN')", Datum::Bool(true)),
    ] {
        assert_eq!(one(format!("select {}", expr.replace('L', ten))), wanted, "{expr}");
    }
}
