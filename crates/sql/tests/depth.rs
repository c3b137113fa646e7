//! Goal: no statement overflows the stack, however deep it is, and everyday depths of PostgreSQL work. Method: each
//! construct that nests, chains or refers is written to a depth, and run in every way in which a statement can run, on
//! threads with stacks of 2 MiB: the answer is right, or `54001`. An overflow would end this process.
#![allow(missing_docs, clippy::unwrap_used, reason = "a test fails by panicking")]

use engine::{Engine, EngineConfig};
use settings::Connect;
use sql::session::{Database, Outcome, Session, Step};
use statement::{SqlError, SqlResult, SqlState};
use types::Datum;

const STACK_BYTES: usize = 2 << 20;
/// Greatest depth. Unoptimized code takes minutes for 100,000.
const DEEPEST: usize = if cfg!(debug_assertions) { 12_000 } else { 100_000 };

/// Query of one column and one row, to this depth.
type Construct = fn(usize) -> String;

fn chain(of: &str, depth: usize, last: &str) -> String {
    format!("select {}{last}", of.repeat(depth))
}

fn around(open: &str, inner: &str, close: &str, depth: usize) -> String {
    format!("{}{inner}{}", open.repeat(depth), close.repeat(depth))
}

fn queries(depth: usize, next: impl Fn(usize) -> String) -> String {
    let mut text = "with c0 as (select 1 as x)".to_owned();
    for at in 1..depth {
        text += &format!(", c{at} as ({})", next(at - 1));
    }
    format!("{text} select x from c{}", depth - 1)
}

const CONSTRUCTS: &[(&str, Construct, usize)] = &[
    ("or", |depth| chain("1 = 2 or ", depth, "true"), 10_000),
    ("and", |depth| chain("1 = 1 and ", depth, "true"), 10_000),
    ("plus", |depth| chain("1 + ", depth, "1"), 2_000),
    ("concatenation", |depth| chain("'a' || ", depth, "'b'"), 2_000),
    ("not", |depth| chain("not ", depth, "true"), 100),
    ("minus", |depth| chain("- ", depth, "1"), 100),
    ("casts", |depth| format!("select 1{}", "::int".repeat(depth)), 500),
    ("parentheses", |depth| format!("select {}", around("(", "1", ")", depth)), 5_000),
    ("calls", |depth| format!("select {}", around("abs(", "1", ")", depth)), 2_000),
    (
        "rows in FROM",
        |depth| format!("select * from {}", around("(select * from ", "(values (1)) v", ") x", depth)),
        1_000,
    ),
    ("scalars", |depth| format!("select {}", around("(select ", "1", ")", depth)), 500),
    ("exists", |depth| format!("select {}", around("exists (select ", "1", ")", depth)), 500),
    ("case", |depth| format!("select {}", around("case when true then ", "1", " end", depth)), 500),
    ("whens", |depth| format!("select case {} else 1 end", "when 1 = 2 then 2 ".repeat(depth)), 10_000),
    ("union all", |depth| format!("select count(*) from (select 1 {}) x", "union all select 1 ".repeat(depth)), 5_000),
    ("except", |depth| format!("select 1 {}", "except select 2 ".repeat(depth)), 500),
    (
        "joins",
        |depth| {
            let join = |at| format!(" join (values (1)) v{at} (x) on v{at}.x = v.x");
            format!("select count(*) from (values (1)) v (x){}", (0..depth).map(join).collect::<String>())
        },
        100,
    ),
    ("queries of queries", |depth| queries(depth, |at| format!("select x from c{at}")), 800),
    ("scalars of queries", |depth| queries(depth, |at| format!("select (select x from c{at}) as x")), 300),
    (
        "queries compared",
        |depth| {
            let query = queries(depth, |at| format!("select x from c{at}"));
            format!("select distinct ({query}) order by ({query})")
        },
        300,
    ),
    ("json", |depth| format!("select length('{}'::json::text)", around("[", "1", "]", depth)), 500),
    ("pattern", |depth| format!("select 'a' ~ '{}'", around("(", "a", ")", depth)), 50),
    ("IN", |depth| format!("select 1 in ({}1)", "2, ".repeat(depth)), 10_000),
    ("subscripts", |depth| format!("select ('{{1}}'::int[]){}", "[1]".repeat(depth)), 1),
    ("array types", |depth| format!("select '{{1}}'::int{}", "[]".repeat(depth)), 6),
    ("collations", |depth| format!("select 'a'{}", " collate \"C\"".repeat(depth)), 1),
    ("zones", |depth| format!("select now(){}", " at time zone 'utc'".repeat(depth)), 100),
    ("isnull", |depth| format!("select 1{}", " isnull".repeat(depth)), 500),
    ("notnull", |depth| format!("select 1{}", " notnull".repeat(depth)), 500),
    ("is null", |depth| format!("select 1{}", " is null".repeat(depth)), 500),
    ("operators", |depth| format!("select 1{}", " operator(pg_catalog.+) 1".repeat(depth)), 500),
    // A row has at most 1664 values.
    ("rows by order", |depth| format!("select ({0}1) <= ({0}1)", "1, ".repeat(depth.min(1_600))), 100),
    (
        "rows by order within each other",
        |depth| {
            let row = "1, ".repeat(20);
            format!(
                "select {}",
                around(&format!("({row}case when "), "true", &format!(" then 1 end) <= ({row}1)"), depth)
            )
        },
        10,
    ),
];

/// Chains without meaning, or outside PostgreSQL's grammar.
const WRONG: &[(&str, Construct)] = &[
    ("fields", |depth| format!("select (1){}", ".x".repeat(depth))),
    ("names", |depth| format!("select x{}", ".x".repeat(depth))),
    ("similar", |depth| format!("select 'a'{}", " similar to 'a'".repeat(depth))),
    ("overlaps", |depth| format!("select (now(), now()){}", " overlaps (now(), now())".repeat(depth))),
    ("prepare", |depth| format!("{}select 1", "prepare a as ".repeat(depth))),
    ("intervals", |depth| format!("select {}'1 day'", "interval ".repeat(depth))),
    ("describe", |depth| format!("{}select 1", "describe ".repeat(depth))),
    ("if", |depth| format!("{}select 1", "if true then ".repeat(depth))),
    ("while", |depth| format!("{}select 1", "while true begin ".repeat(depth))),
    ("rows", |depth| format!("select ({0}1) < ({0}1)", "1, ".repeat(depth))),
    ("explain prepare", |depth| format!("{}select 1", "explain prepare a as ".repeat(depth))),
];

/// Prefixes of a statement, in the library's grammar.
const BEFORE: [&str; 5] = ["prepare a as ", "describe ", "if true then ", "while true begin ", "create view v as "];

fn connect(database: &Database) -> Session {
    database.connect(Connect { user: "postgres".into(), database: "postgres".into(), ..Connect::default() }).unwrap()
}

fn run(session: &mut Session, text: &str, values: Vec<Datum>) -> SqlResult<Outcome> {
    let statement = session.prepare(text, &[])?;
    let mut portal = session.bind(&statement, values)?;
    loop {
        match session.execute(&mut portal)? {
            Step::Done(outcome) => return Ok(outcome),
            Step::Parked(wait) => wait.wait(),
            Step::CopyIn(_) | Step::CopyOut(_) => panic!("no COPY"),
        }
    }
}

/// Runs the statements of a text as the simple protocol does.
fn each(session: &mut Session, text: &str) -> SqlResult<Option<Outcome>> {
    let result = session.split(text).and_then(|all| {
        all.iter().try_fold(None, |_, one| {
            let outcome = run(session, &one.text, Vec::new())?;
            Ok(Some(outcome))
        })
    });
    if result.is_err() {
        session.fail();
    }
    session.sync()?;
    result
}

fn on_a_small_stack(f: impl FnOnce() + Send + 'static) {
    std::thread::Builder::new().stack_size(STACK_BYTES).spawn(f).unwrap().join().unwrap();
}

fn is_too_deep(error: &SqlError) -> bool {
    error.state() == SqlState::STATEMENT_TOO_COMPLEX
}

#[test]
fn everyday_depths_are_answered() {
    on_a_small_stack(|| {
        let mut session = connect(&Database::new(Engine::new(EngineConfig::in_memory())));
        for (name, construct, everyday) in CONSTRUCTS {
            match each(&mut session, &construct(*everyday)) {
                Ok(Some(Outcome::Rows(rows, _))) => assert_eq!(rows.len(), 1, "{name}"),
                Ok(other) => panic!("{name}: {other:?}"),
                Err(error) => panic!("{name}: {error}"),
            }
        }
    });
}

/// Goal: definitions that catalogs show are bound while the query runs, in sessions that have seen nothing deep.
#[test]
fn deep_definitions_are_read_in_catalogs() {
    on_a_small_stack(|| {
        for (name, construct, everyday) in CONSTRUCTS {
            let database = Database::new(Engine::new(EngineConfig::in_memory()));
            // Stored definitions may be limited to less depth than statements.
            let is_made = |depth: &usize| match each(
                &mut connect(&database),
                &format!("create view v as {}", construct((*everyday).min(*depth))),
            ) {
                Ok(_) => true,
                Err(error) => {
                    assert!(is_too_deep(&error), "{name}: {error}");
                    false
                }
            };
            assert!([800, 300, 100, 40].iter().any(is_made), "{name}: not at all");
            for text in ["select pg_get_viewdef('v'::regclass)", "select count(*) from pg_depend"] {
                let mut other = connect(&database);
                match each(&mut other, text) {
                    Ok(Some(Outcome::Rows(rows, _))) => assert_eq!(rows.len(), 1, "{name}"),
                    Ok(answer) => panic!("{name}: {answer:?}"),
                    Err(error) => panic!("{name}, {text}: {error}"),
                }
            }
        }
    });
}

/// Tests half of the constructs, for one CPU: all of them take five minutes of one.
fn no_depth_ends_the_process(first: usize) {
    on_a_small_stack(move || {
        for (name, construct, everyday) in CONSTRUCTS.iter().skip(first).step_by(2) {
            for depth in [*everyday, DEEPEST] {
                let mut session = connect(&Database::new(Engine::new(EngineConfig::in_memory())));
                let query = construct(depth);
                for text in [
                    query.clone(),
                    format!("explain {query}"),
                    format!("explain (verbose, format json) {query}"),
                    format!("prepare p as {query}; execute p; deallocate p"),
                    format!("begin; declare c cursor for {query}; fetch all from c; close c; commit"),
                    format!("create table t as {query}; insert into t {query}; drop table t"),
                    format!("create view v as {query}; select * from v; explain select * from v; drop view v"),
                ] {
                    if let Err(error) = each(&mut session, &text) {
                        let is_json = *name == "json" || *name == "pattern";
                        // Subscripts of one value are siblings in the tree, and the binder supports one of them.
                        let is_flat = *name == "subscripts" && error.state() == SqlState::FEATURE_NOT_SUPPORTED;
                        let is_told = is_too_deep(&error) || is_flat || (is_json && !error.state().0.starts_with("XX"));
                        assert!(is_told, "{name}, {depth}, {}: {error}", &text[..30]);
                    }
                    let _ = each(&mut session, "rollback");
                }
            }
        }
    });
}

#[test]
fn no_depth_of_the_even_ones_ends_the_process() {
    no_depth_ends_the_process(0);
}

#[test]
fn no_depth_of_the_odd_ones_ends_the_process() {
    no_depth_ends_the_process(1);
}

#[test]
fn no_depth_of_what_is_wrong_ends_the_process() {
    on_a_small_stack(|| {
        for (name, construct) in WRONG {
            for depth in [2, 150, 1_000, DEEPEST] {
                let mut session = connect(&Database::new(Engine::new(EngineConfig::in_memory())));
                if let Err(error) = each(&mut session, &construct(depth)) {
                    assert!(!error.state().0.starts_with("XX"), "{name}, {depth}: {error}");
                }
            }
        }
    });
}

/// Goal: nested statements leave room for the deepest expression that a small stack takes, at any depth.
#[test]
fn no_statement_in_statements_ends_the_process() {
    on_a_small_stack(|| {
        let deep = around("(", "1", ")", 20);
        let wide = " + 1".repeat(150);
        for before in BEFORE {
            for depth in (1..=64).chain([80, 100, 150, 200, 300, 600, 1_000]) {
                let mut session = connect(&Database::new(Engine::new(EngineConfig::in_memory())));
                let text = format!("{}select {deep}{wide}", before.repeat(depth));
                if let Err(error) = each(&mut session, &text) {
                    assert!(!error.state().0.starts_with("XX"), "{before}, {depth}: {error}");
                }
            }
        }
    });
}

#[test]
fn chains_of_views_are_answered_or_refused() {
    on_a_small_stack(|| {
        for select in ["select x from v", "select (select x from v", "select x from (select * from v"] {
            let close = if select.contains('(') { ") as x" } else { "" };
            let database = Database::new(Engine::new(EngineConfig::in_memory()));
            let mut session = connect(&database);
            each(&mut session, "create view v0 as select 1 as x; create table t (x int)").unwrap();
            for at in 1..800 {
                each(&mut session, &format!("create view v{at} as {select}{}{close}", at - 1)).unwrap();
            }
            assert!(each(&mut session, "select * from v400").is_ok());
            // The dependency on a key is found by binding the view.
            each(
                &mut session,
                "create table k (id int primary key, n int);
                 create view relies as select k.id, k.n, v799.x from k, v799 group by k.id, v799.x",
            )
            .unwrap();
            let relied = "select count(*) from pg_depend where refobjid = (select oid from pg_constraint where conname = 'k_pkey')
                          and classid = 'pg_rewrite'::regclass";
            match each(&mut connect(&database), relied) {
                Ok(Some(Outcome::Rows(rows, _))) => assert_eq!(rows[0][0], Datum::Int8(1)),
                other => panic!("{other:?}"),
            }
            for text in [
                "select * from v799",
                "explain select * from v799",
                "insert into t select * from v799",
                "create table u as select * from v799",
            ] {
                if let Err(error) = each(&mut session, text) {
                    assert!(is_too_deep(&error), "{text}: {error}");
                }
            }
        }
    });
}

/// Goal: each query of `WITH` is planned once, and run once.
#[test]
fn queries_named_twice_are_planned_once() {
    on_a_small_stack(|| {
        let mut session = connect(&Database::new(Engine::new(EngineConfig::in_memory())));
        let mut text = "with c0 as (select 1 as x)".to_owned();
        for at in 1..=60 {
            text += &format!(", c{at} as (select a.x from c{0} a, c{0} b)", at - 1);
        }
        text += " select count(*) from c60";
        for text in [
            text.clone(),
            format!("explain {text}"),
            format!("create table t as {text}"),
            // Queries that are compared with copies of themselves.
            format!("select ({text}) group by rollup (({text}))"),
            format!("select distinct ({text}) order by ({text})"),
            format!("select string_agg(distinct ({text})::text, '' order by ({text})::text)"),
        ] {
            each(&mut session, &text).unwrap();
        }
    });
}
