//! Goal: a cancel or `statement_timeout` soon ends a statement, whatever it computes, and no value becomes longer than
//! 1 GB. Method: each call gets enough input for seconds, and is stopped after a few milliseconds. The limit applies to
//! the thread's own processor time, so that a busy machine changes nothing; the worst case is printed.
#![allow(missing_docs, clippy::unwrap_used, reason = "a test fails by panicking")]

use engine::{Engine, EngineConfig};
use settings::Connect;
use sql::session::{Database, Outcome, Session, Step};
use statement::SqlResult;
use statement::pulse::steps::longest;
use std::sync::mpsc::channel;
use std::time::Duration;
use types::Datum;

/// Processor time from a cancel to its error. Debug builds do as much work between two checks, but are slower.
const SOON: Duration = Duration::from_millis(if cfg!(debug_assertions) { 2000 } else { 250 });
/// Time in which a statement may compute before it is stopped.
const BEGIN: Duration = Duration::from_millis(15);

/// Text `$1`, to be repeated to so many millions of bytes or, if the number is 0, 100,000 times. An empty text means no
/// `$1`.
type Input = (&'static str, usize);

const NONE: Input = ("", 0);
const LONG: Input = ("a", 20);

/// Calls that take seconds.
const CALLS: &[(&str, &str, Input)] = &[
    // One call over many bytes.
    ("replace", "select length(replace($1, 'a', 'bcde'))", LONG),
    ("replace of nothing", "select count(replace($1, 'aab', '')) from generate_series(1, 1000)", LONG),
    ("concat", "select count(concat($1, $1, n)) from generate_series(1, 1000) n", LONG),
    ("concat_ws", "select count(concat_ws($1, 'x', n, 'y')) from generate_series(1, 1000) n", LONG),
    ("||", "select count($1 || $1 || n) from generate_series(1, 1000) n", LONG),
    ("bytea ||", "select count($1::bytea || $1::bytea) from generate_series(1, 1000) n", LONG),
    ("repeat", "select count(repeat($1, 5)) from generate_series(1, 1000)", LONG),
    ("lpad", "select count(lpad('x', 50000000, 'yz')) from generate_series(1, 1000)", NONE),
    ("rpad", "select count(rpad('x', 50000000, 'y' || n)) from generate_series(1, 1000) n", NONE),
    ("encode hex", "select length(encode($1::bytea, 'hex'))", LONG),
    ("encode base64", "select length(encode($1::bytea, 'base64'))", LONG),
    ("encode escape", "select length(encode($1::bytea, 'escape'))", LONG),
    ("decode hex", "select length(decode($1, 'hex'))", LONG),
    ("decode base64", "select length(decode($1, 'base64'))", LONG),
    ("md5", "select count(md5($1 || n)) from generate_series(1, 10) n", LONG),
    ("sha512", "select count(sha512($1::bytea)) from generate_series(1, 10) n", LONG),
    ("translate", "select length(translate($1, 'abc', 'xyz'))", LONG),
    ("reverse", "select count(reverse($1)) from generate_series(1, 10)", LONG),
    ("upper", "select count(upper($1)) from generate_series(1, 100)", LONG),
    ("initcap", "select count(initcap($1)) from generate_series(1, 100)", LONG),
    ("length", "select sum(length($1)) from generate_series(1, 1000)", LONG),
    ("substring", "select count(substring($1, n)) from generate_series(1, 1000) n", LONG),
    ("right", "select count(right($1, -n)) from generate_series(1, 1000) n", LONG),
    ("position", "select sum(position('ab' in $1)) from generate_series(1, 1000)", LONG),
    ("split_part", "select count(split_part($1, 'aa', -1)) from generate_series(1, 100)", LONG),
    ("trim", "select count(btrim($1, 'bca')) from generate_series(1, 100)", LONG),
    ("overlay", "select count(overlay($1 placing 'x' from n)) from generate_series(1, 1000) n", LONG),
    ("quote_literal", "select count(quote_literal($1)) from generate_series(1, 100)", LONG),
    ("format", "select count(format('%L %s', $1, $1)) from generate_series(1, 100)", LONG),
    ("like", "select count(*) from generate_series(1, 100) where $1 like '%a%a%b'", LONG),
    ("like of many", "select $1 like repeat('%a', 1000) || 'b'", ("a", 10)),
    ("ilike", "select $1 ilike '%a_b%'", LONG),
    // Regular expressions.
    ("~", "select $1 ~ '(a|b)*c'", ("ab", 20)),
    ("~ of many beginnings", "select $1 ~ 'a.*c|b'", ("aaaaaaab", 20)),
    ("~ behind", "select $1 ~ '(?<=a*)b'", ("a", 1)),
    ("similar to", "select $1 similar to '(a|b)*c'", ("ab", 20)),
    ("regexp_replace", "select length(regexp_replace($1, 'a+?(b)', 'x\\1y', 'g'))", ("ab", 20)),
    ("regexp_match", "select regexp_match($1, '^((a|b)*?)((a|b)*)$')", ("ab", 1)),
    ("regexp_matches", "select count(*) from regexp_matches($1, 'a(b)', 'g')", ("ab", 20)),
    ("regexp_split_to_table", "select count(*) from regexp_split_to_table($1, 'b')", ("ab", 20)),
    ("regexp_split_to_array", "select cardinality(regexp_split_to_array($1, 'b'))", ("ab", 20)),
    ("regexp_count", "select regexp_count($1, 'a|b')", ("ab", 20)),
    ("string_to_array", "select count(string_to_array($1, 'b')) from generate_series(1, 10)", ("ab", 20)),
    ("string_to_table", "select count(*) from generate_series(1, 10), string_to_table($1, 'b')", ("ab", 20)),
    // Numbers.
    ("factorial", "select sum(scale(factorial(32000 + n))) from generate_series(1, 100) n", NONE),
    ("numeric power", "select count(power(2.5 + n % 100, 1000.5)) from generate_series(1, 100000) n", NONE),
    ("whole power", "select count((10 + n % 9)::numeric ^ 100000) from generate_series(1, 10000) n", NONE),
    ("product", "select count((7::numeric ^ 70000 + n) * (7::numeric ^ 70000)) from generate_series(1, 10000) n", NONE),
    (
        "quotient",
        "select count((7::numeric ^ 140000 + n) / (7::numeric ^ 70000)) from generate_series(1, 10000) n",
        NONE,
    ),
    ("ln", "select count(ln(7::numeric ^ 140000 + n)) from generate_series(1, 100) n", NONE),
    ("sqrt", "select count(sqrt(7::numeric ^ 140000 + n)) from generate_series(1, 1000) n", NONE),
    ("exp", "select count(exp(5000.5 + n / 1e9)) from generate_series(1, 10000) n", NONE),
    ("numeric of text", "select count($1::numeric) from generate_series(1, 100000)", ("1", 0)),
    ("numeric as text", "select count((7::numeric ^ 140000 + n)::text) from generate_series(1, 10000) n", NONE),
    // Casts.
    ("bytea as text", "select count($1::bytea::text) from generate_series(1, 100)", LONG),
    ("text as bytea", "select count($1::bytea) from generate_series(1, 100)", LONG),
    ("array of text", "select count(('{' || $1 || 'a}')::text[]) from generate_series(1, 100)", ("a,", 10)),
    // Arrays.
    ("array ||", "select count(array_fill(1, array[4000000]) || n) from generate_series(1, 100) n", NONE),
    ("array_position", "select array_position(array_fill(1, array[4000000]), n) from generate_series(2, 100) n", NONE),
    (
        "array_replace",
        "select count(array_replace(array_fill(1, array[4000000]), 1, n)) from generate_series(2, 9) n",
        NONE,
    ),
    ("array @>", "select (array_fill(1, array[100000]) || 2) @> array_fill(2, array[100000])", NONE),
    ("array &&", "select array_fill(1, array[100000]) && array_fill(2, array[100000])", NONE),
    (
        "array_to_string",
        "select count(array_to_string(array_fill(1, array[4000000]), ',')) from generate_series(1, 9)",
        NONE,
    ),
    ("array as text", "select count(array_fill(1, array[4000000])::text) from generate_series(1, 9)", NONE),
    ("array as numerics", "select count(array_fill(1, array[4000000])::numeric[]) from generate_series(1, 9)", NONE),
    // JSON.
    ("json", "select count(('[' || $1 || '1]')::json) from generate_series(1, 9)", ("1,", 10)),
    ("json ->", "select count(('[' || $1 || '1]')::json -> n) from generate_series(1, 9) n", ("1,", 10)),
    ("json_array_elements", "select count(*) from json_array_elements(('[' || $1 || '1]')::json)", ("1,", 10)),
    ("json_strip_nulls", "select json_strip_nulls(('[' || $1 || '1]')::json)", ("1,", 10)),
    ("json #>>", "select count(('[\"' || $1 || '\"]')::json #>> '{0}') from generate_series(1, 9)", ("ab", 10)),
    // Aggregates, sorts, windows, sets, hash tables.
    (
        "string_agg",
        "select length(string_agg($1, n::text)) from generate_series(1, 1000) n, generate_series(1, 1000)",
        ("a", 1),
    ),
    ("string_agg of many", "select length(string_agg('', '')) from generate_series(1, 100000000)", NONE),
    ("array_agg", "select cardinality(array_agg(n)) from generate_series(1, 100000000) n", NONE),
    ("ordered", "select cardinality(array_agg(n order by -n)) from generate_series(1, 5000000) n", NONE),
    ("distinct", "select count(distinct n) from generate_series(1, 10000000) n", NONE),
    ("json_object_agg", "select json_object_agg(n, n) from generate_series(1, 10000000) n", NONE),
    ("percentile", "select percentile_disc(0.5) within group (order by -n) from generate_series(1, 5000000) n", NONE),
    ("sort", "select n from generate_series(1, 5000000) n order by -n offset 1000000000", NONE),
    (
        "row_number",
        "select sum(x) from (select row_number() over (order by -n) x from generate_series(1, 3000000) n) s",
        NONE,
    ),
    (
        "frames",
        "select sum(x) from (select sum(n) over (rows between 1 following and unbounded following) x from generate_series(1, 30000) n) s",
        NONE,
    ),
    ("lag", "select count(x) from (select lag(n) over () x from generate_series(1, 5000000) n) s", NONE),
    ("group by", "select count(*) from (select n from generate_series(1, 10000000) n group by n) s", NONE),
    ("union", "select count(*) from (select generate_series(1, 10000000) union select 1) s", NONE),
    (
        "hash join",
        "select count(*) from generate_series(1, 3000000) a join generate_series(1, 3000000) b on a = b",
        NONE,
    ),
    (
        "nested loop",
        "select count(*) from generate_series(1, 100000) a, generate_series(1, 100000) b where a + b < 0",
        NONE,
    ),
    ("generate_series", "select count(*) from generate_series(1, 1000000000)", NONE),
    ("numeric series", "select count(*) from generate_series(1.0, 1000000000.0)", NONE),
    ("series in select", "select count(*) from (select generate_series(1, 1000000000)) s", NONE),
    ("recursive", "with recursive r as (select 1 n union all select n + 1 from r) select count(*) from r", NONE),
    (
        "recursive union",
        "with recursive r as (select 1 n union select n % 10000000 + 1 from r) select count(*) from r",
        NONE,
    ),
    (
        "values",
        "select count(*) from (values (1), (2), (3)) a, (values (1), (2)) b, generate_series(1, 1000000000)",
        NONE,
    ),
    (
        "IN",
        "select count(*) from generate_series(1, 100000000) n where n in (select generate_series(1, 3000000))",
        NONE,
    ),
];

fn database() -> Database {
    Database::new(Engine::new(EngineConfig::in_memory()))
}

fn session(database: &Database) -> Session {
    database.connect(Connect { user: "postgres".into(), database: "postgres".into(), ..Connect::default() }).unwrap()
}

fn value((text, millions): Input) -> Option<Datum> {
    (!text.is_empty())
        .then(|| Datum::text(text.repeat(if millions == 0 { 100_000 } else { millions * 1_000_000 / text.len() })))
}

fn run(session: &mut Session, text: &str, value: Option<Datum>) -> SqlResult<Outcome> {
    let types: &[u32] = if value.is_some() { &[25] } else { &[] };
    let statement = session.prepare(text, types)?;
    let mut portal = session.bind(&statement, value.into_iter().collect())?;
    let outcome = loop {
        match session.execute(&mut portal) {
            Ok(Step::Done(outcome)) => break Ok(outcome),
            Ok(Step::Parked(wait)) => wait.wait(),
            Ok(Step::CopyIn(_) | Step::CopyOut(_)) => panic!("no COPY"),
            Err(error) => break Err(error),
        }
    };
    let _ = session.sync();
    outcome
}

/// Returns the processor time of a thread of this process; `None` when the thread has ended.
fn processor_time(thread: &str) -> Option<Duration> {
    let told = std::fs::read_to_string(format!("/proc/{thread}/schedstat")).ok()?;
    Some(Duration::from_nanos(told.split(' ').next()?.parse().ok()?))
}

/// Way to stop a statement.
#[derive(Clone, Copy, PartialEq)]
enum Stop {
    /// A cancel after so much computation.
    Cancel(Duration),
    Timeout,
}

/// Runs a call on a thread and stops it. Returns its result, and the processor time from the stop to the end.
fn stopped(database: &Database, text: &str, value: Option<Datum>, stop: Stop) -> (SqlResult<Outcome>, Duration) {
    let mut session = session(database);
    if stop == Stop::Timeout {
        run(&mut session, &format!("set statement_timeout = {}", BEGIN.as_millis()), None).unwrap();
    }
    let canceller = session.canceller();
    let (begun, has_begun) = channel();
    std::thread::scope(|scope| {
        let runs = scope.spawn(move || {
            let thread = std::fs::read_link("/proc/thread-self").unwrap();
            begun.send(thread.to_str().unwrap().to_owned()).unwrap();
            let ended = run(&mut session, text, value);
            (ended, processor_time("thread-self").unwrap())
        });
        let thread = has_begun.recv().unwrap();
        let begun = processor_time(&thread).unwrap_or_default();
        let mut stopped = begun + BEGIN;
        if let Stop::Cancel(after) = stop {
            while let Some(now) = processor_time(&thread) {
                stopped = now;
                if begun + after <= now {
                    break;
                }
                std::thread::sleep(Duration::from_millis(1));
            }
            // A cancel between the parts of a statement is ignored, so it is repeated.
            while !runs.is_finished() {
                canceller.cancel();
                std::thread::sleep(Duration::from_millis(1));
            }
        }
        let (ended, at) = runs.join().unwrap();
        (ended, at.saturating_sub(stopped))
    })
}

fn judge(mut took: Vec<(Duration, &str)>, why: &str) {
    took.sort();
    for (time, name) in took.iter().rev().take(5) {
        println!("{:8.1} ms of processor time to the end by {why}: {name}", time.as_secs_f64() * 1e3);
    }
    for (time, name) in &took {
        assert!(*time < SOON, "{name}: {time:?}");
    }
}

fn each_is_stopped(stop: Stop, why: &str) {
    let database = database();
    let (mut took, mut wrong) = (Vec::new(), Vec::new());
    for (name, text, input) in CALLS {
        let (ended, time) = stopped(&database, text, value(*input), stop);
        let ended = ended.map_or_else(|error| error.message().to_owned(), |_| "it has ended".to_owned());
        if ended != format!("canceling statement due to {why}") {
            wrong.push(format!("{name}: {ended}"));
        }
        took.push((time, *name));
    }
    assert!(wrong.is_empty(), "not stopped: {wrong:#?}");
    judge(took, why);
}

#[test]
fn a_cancel_ends_each_call() {
    each_is_stopped(Stop::Cancel(BEGIN), "user request");
}

#[test]
fn a_timeout_ends_each_call() {
    each_is_stopped(Stop::Timeout, "statement timeout");
}

/// Statements of several parts, each of which takes a while.
const PARTS: &[(&str, &str)] = &[
    ("sort", "select n from generate_series(1, 400000) n order by md5(n::text) offset 1000000000"),
    ("ordered", "select cardinality(array_agg(n order by -n)) from generate_series(1, 400000) n"),
    ("row_number", "select sum(x) from (select row_number() over (order by -n) x from generate_series(1, 400000) n) s"),
    ("distinct", "select count(distinct n % 400000 order by n % 400000) from generate_series(1, 500000) n"),
    ("hash join", "select count(*) from generate_series(1, 400000) a join generate_series(1, 400000) b on a = b"),
    ("array", "select cardinality(array_agg(n) || array_agg(-n)) from generate_series(1, 400000) n"),
];

/// Goal: every part of a statement can be stopped. Method: it is stopped at moments all over its time.
#[test]
fn a_cancel_ends_each_part() {
    let database = database();
    let mut took = Vec::new();
    let mut ended_count = 0;
    for (name, text) in PARTS {
        for at in 1..=5_u64 {
            let (ended, time) = stopped(&database, text, None, Stop::Cancel(Duration::from_millis(at * 50)));
            if let Err(error) = ended {
                assert_eq!(error.message(), "canceling statement due to user request", "{name}");
                ended_count += 1;
                took.push((time, *name));
            }
        }
    }
    assert!(PARTS.len() < ended_count, "only {ended_count} were stopped before they ended");
    judge(took, "user request");
}

/// Returns statements that take about a second to be parsed, bound and planned.
fn long_texts() -> Vec<(&'static str, String)> {
    let list = |count: usize, one: &dyn Fn(usize) -> String| (0..count).map(one).collect::<Vec<_>>().join(",");
    let nested = |depth: usize| {
        let closed: String = (0..depth).map(|at| format!(") q{at}")).collect();
        format!("select * from {}(values (1)) v{closed}", "(select * from ".repeat(depth))
    };
    let joins = |count: usize, join: &str| {
        let more: String = (1..count).map(|at| format!(" {join} t t{at} on t{at}.a = t{}.a", at - 1)).collect();
        format!("select 1 from t t0{more}")
    };
    vec![
        ("values", format!("values {}", list(400_000, &|at| format!("({at}, 'x')")))),
        ("values in FROM", format!("select count(*) from (values {}) v", list(200_000, &|at| format!("({at})")))),
        ("IN", format!("select 1 in ({})", list(500_000, &|at| at.to_string()))),
        ("select list", format!("select {}", list(300_000, &|at| at.to_string()))),
        ("GROUP BY", format!("select 1 group by {}", list(100_000, &|_| "1".to_owned()))),
        (
            "WITH",
            format!(
                "with c0 as (select 1 x), {} select * from c19999",
                list(19_999, &|at| format!("c{} as (select x from c{at})", at + 1))
            ),
        ),
        ("LATERAL", format!("select 1 from {}", list(20_000, &|at| format!("lateral (select 1) x{at}")))),
        ("queries in FROM", nested(5_000)),
        ("explained", format!("explain {}", nested(5_000))),
        ("inserted", format!("insert into t {}", nested(5_000))),
        ("joins", joins(5_000, "join")),
        ("outer joins", joins(5_000, "left join")),
        ("tables", format!("select 1 from {}", list(10_000, &|at| format!("t t{at}")))),
        ("one literal", format!("select length('{}')", "x".repeat(30_000_000))),
    ]
}

/// Goal: the preparation of a statement can be stopped in each of its phases. Method: it is stopped at moments all over
/// its time; a few are refused for their size before that.
#[test]
fn a_cancel_ends_each_preparation() {
    let database = database();
    run(&mut session(&database), "create table t (a int)", None).unwrap();
    let (mut took, mut ended_count) = (Vec::new(), 0);
    for (name, text) in &long_texts() {
        for at in [5_u64, 30, 120, 400, 1_200] {
            let (ended, time) = stopped(&database, text, None, Stop::Cancel(Duration::from_millis(at)));
            let Err(error) = ended else { break };
            match error.state().0 {
                "57014" => {
                    assert_eq!(error.message(), "canceling statement due to user request", "{name}");
                    ended_count += 1;
                    took.push((time, *name));
                }
                "54001" | "54011" => break,
                state => panic!("{name}: {state} {error}"),
            }
        }
    }
    assert!(3 * long_texts().len() < 2 * ended_count, "only {ended_count} were stopped before they ended");
    judge(took, "user request");
}

/// Longest processor time of a preparation between two checks. A debug build does as much work between them, but is
/// slower.
const LONGEST: Duration = Duration::from_millis(if cfg!(debug_assertions) { 1000 } else { 100 });
/// Longest time where the parser's library descends into a nest, which it does without a check.
const LONGEST_OF_NESTS: Duration = Duration::from_millis(if cfg!(debug_assertions) { 2000 } else { 250 });

/// Goal: a cancel of a statement that is parsed and planned, or of a join of many tables, waits for no long step.
/// Method: processor time from one check to the next, the least of three tries, as a virtual machine counts time that
/// its host took.
#[test]
fn no_step_of_a_preparation_is_long() {
    let database = database();
    let mut session = session(&database);
    run(&mut session, "create table t (a int)", None).unwrap();
    let mut wrong = Vec::new();
    for (name, text) in long_texts() {
        let [is_nest, is_join] = [["queries in FROM", "explained", "inserted"], ["joins", "outer joins", "tables"]]
            .map(|names| names.contains(&name));
        let most = if is_nest { LONGEST_OF_NESTS } else { LONGEST };
        let mut least = Duration::MAX;
        for _ in 0..3 {
            let (prepared, prepares) = longest(|| session.prepare(&text, &[]));
            let (executed, executes) = longest(|| {
                let mut portal = session.bind(prepared.as_ref().ok()?, Vec::new()).unwrap();
                Some(session.execute(&mut portal).is_ok())
            });
            assert_ne!(executed, Some(false), "{name}");
            let _ = session.sync();
            least = least.min(if is_join || name == "LATERAL" { prepares.max(executes) } else { prepares });
            if least <= most {
                break;
            }
        }
        println!("{:8.1} ms of processor time without a look: {name}", least.as_secs_f64() * 1e3);
        if most < least {
            wrong.push((name, least));
        }
    }
    assert!(wrong.is_empty(), "{wrong:?}");
}

/// Goal: a value that would be longer than 1 GB is refused in PostgreSQL's words, before it is built. Method: the
/// function gets little input, so that the limit is known from the lengths alone, or a few values of 300 MB of one
/// text.
#[test]
fn no_value_is_longer_than_a_gigabyte() {
    let database = database();
    let mut session = session(&database);
    let length = "54000 requested length too large";
    let buffer = "54000 out of memory";
    let many = Some(Datum::text("x".repeat(300_000_000)));
    let mut refused = |expected: &str, text: &str, value: Option<Datum>| {
        let error = run(&mut session, text, value).expect_err(text);
        assert_eq!(format!("{} {}", error.state(), error.message()), expected, "{text}");
        error
    };
    refused(length, "select repeat('ab', 600000000)", None);
    refused(length, "select repeat('ab', 2147483647)", None);
    refused(length, "select lpad('x', 300000000)", None);
    refused(length, "select rpad('x', 2147483647, 'ab')", None);
    refused("54000 array size exceeds the maximum allowed (134217727)", "select array_fill(1, array[134217728])", None);
    refused(
        "54000 array size exceeds the maximum allowed (1073741823)",
        "select array_fill(repeat('x', 1000), array[2000000])",
        None,
    );
    refused(buffer, "select format('%1073741823s', 'x')", None);
    refused(length, "select $1 || $1 || $1 || $1", many.clone());
    refused(length, "select ($1::bytea || $1::bytea) || ($1::bytea || $1::bytea)", many.clone());
    let error = refused(buffer, "select concat($1, $1, $1, $1)", many.clone());
    let detail = "Cannot enlarge string buffer containing 900000000 bytes by 300000000 more bytes.";
    assert_eq!(error.detail_text(), Some(detail));
    refused(
        "54000 result of encoding conversion is too large",
        "select encode($1::bytea || $1::bytea, 'hex')",
        many.clone(),
    );
    refused(
        "54000 result of encoding conversion is too large",
        "select encode(($1 || $1 || $1)::bytea, 'base64')",
        many,
    );
}
