//! Goal: stored functions mean the same on both paths: values of all types, nulls, STRICT, errors, notices, rights, limits,
//! and rows for which PostgreSQL does not call them; they end when their query is cancelled. Method: a module that is
//! linked into the test; wasm and processes pass the same way (crate `overtake`, `procedures`).

use super::{Given, Server};
use procs::native::{NativeCall, NativeModule, NativeRuntime};
use procs::{EngineCalls, NoticeLevel, Runtimes};
use statement::{SqlError, SqlResult, SqlState};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};
use std::thread;
use std::time::{Duration, Instant};
use types::Datum;

#[derive(Default)]
struct Numbers {
    /// Calls of `same`.
    calls: AtomicUsize,
}

struct Linked(Arc<Numbers>);

impl NativeModule for Linked {
    fn name(&self) -> &'static str {
        "numbers"
    }

    fn manifest(&self) -> &'static str {
        "overtake 1
        entry same
        entry half
        entry told
        entry endless
        entry other"
    }

    fn call(&self, call: NativeCall<'_>, engine: &mut dyn EngineCalls) -> SqlResult<Vec<Datum>> {
        match (call.entry, call.arguments) {
            (0, [value]) => {
                self.0.calls.fetch_add(1, SeqCst);
                Ok(vec![value.clone()])
            }
            // half(n) fails for odd numbers.
            (1, [Datum::Int4(value)]) if value % 2 == 0 => Ok(vec![Datum::Int4(value / 2)]),
            (1, [Datum::Int4(value)]) => {
                Err(SqlError::new(SqlState::RAISE_EXCEPTION, format!("{value} is odd")).detail("A detail."))
            }
            // told(n) tells of every thousandth number.
            (2, [Datum::Int4(value)]) => {
                if value % 1_000 == 0 {
                    engine.notice(NoticeLevel::Notice, &format!("at {value}"))?;
                }
                Ok(vec![Datum::Int4(-value)])
            }
            (3, [_]) => loop {
                engine.look()?;
                thread::yield_now();
            },
            // other(n) returns a value of another type than declared.
            (4, [_]) => Ok(vec![Datum::text("a text")]),
            _ => Ok(vec![Datum::Int4(0)]),
        }
    }
}

const SET_UP: [&str; 14] = [
    "create module numbers manifest $$overtake 1
        entry same
        entry half
        entry told
        entry endless
        entry other$$ artifact native 'numbers'",
    "create module reads manifest $$overtake 1
        table t t (id, v)
        entry same$$ artifact native 'numbers'",
    "create function half(int) returns int language native immutable strict as 'numbers'",
    "create function told(int) returns int language native stable as 'numbers'",
    "create function endless(int) returns int language native stable as 'numbers'",
    "create function other(int) returns int language native stable as 'numbers'",
    "create function each_row(int) returns int language native as 'numbers', 'same'",
    "create function reading(int) returns int language native stable as 'reads', 'same'",
    "create function limited(int) returns int language native stable as 'numbers', 'endless'",
    "alter function limited(int) set (time_limit = '50ms')",
    "create function lax(int) returns int language native stable as 'numbers', 'half'",
    "create function added(int) returns int language sql immutable as 'select half($1 * 2) + 1'",
    "create table t (id int primary key, v int)",
    "insert into t select i, case when i % 7 <> 0 then i % 100 end from generate_series(1, 20000) i",
];

/// Server with these functions, and a table that is large.
fn server() -> (Server, Arc<Numbers>) {
    let numbers = Arc::new(Numbers::default());
    let native = NativeRuntime::new(vec![Arc::new(Linked(Arc::clone(&numbers)))]);
    let mut server = Server::with_runtimes(Arc::new(Runtimes::new(vec![Arc::new(native)])));
    for text in SET_UP {
        server.run(text).unwrap();
    }
    (server, numbers)
}

/// Outcome of a query on one path: its rows in order, or its error.
fn on(server: &mut Server, path: &str, text: &str) -> Result<Vec<Vec<Option<String>>>, String> {
    server.run(&format!("set overtake.path = {path}")).unwrap();
    let given = server.run(text);
    server.run("reset overtake.path").unwrap();
    match given {
        Ok(given) => {
            let Given { mut rows, .. } = given.unwrap();
            rows.sort_unstable();
            Ok(rows)
        }
        Err(error) => {
            let parts = [error.detail_text(), error.context_text()].map(|part| part.unwrap_or_default().to_owned());
            Err(format!("{} {} {parts:?}", error.state(), error.message()))
        }
    }
}

fn check_same(server: &mut Server, text: &str) {
    let by_rows = on(server, "row", text);
    assert!(by_rows.is_ok(), "{text}: {by_rows:?}");
    assert_eq!(by_rows, on(server, "analytics", text), "{text}");
    assert_eq!(by_rows, on(server, "auto", text), "{text}");
}

fn path_of(server: &mut Server, text: &str) -> String {
    let rows = server.run(&format!("explain (costs off) {text}")).unwrap().unwrap().rows;
    let lines: Vec<String> = rows.into_iter().flatten().flatten().collect();
    lines.iter().find_map(|line| line.strip_prefix("Path: ")).unwrap().to_owned()
}

#[test]
fn calls_give_the_same_wherever_they_stand() {
    let (mut server, _) = server();
    for text in [
        "select id, half(v * 2) from t",
        "select sum(half(v * 2)), count(half(v * 2)), count(*) from t",
        "select half(v * 2) + 1, count(*) from t group by half(v * 2) having half(min(v) * 2) < 50",
        "select count(*) from t where half(v * 2) = 7",
        "select count(*) from t x join t y on half(x.v * 2) = y.id",
        "select count(*) from t x left join t y on half(x.v * 2) = half(y.id * 2) and y.id < 50",
        "select id from t order by half(v * 2) desc nulls last, id limit 5",
        "select distinct half(v * 2) from t",
        "select max(half(v * 2)) filter (where half(id * 2) > 5) from t",
        "select sum(half(half(v * 4))) from t",
        "select (select max(half(y.v * 2)) from t y where y.id < 50) from t where id < 20",
        "select count(*) from t where exists (select from t y where y.id = half(t.v * 2))",
        "select half(10), v from t where id < 100",
        "select sum(half(20)) from t where id < 0",
        // A function that is not strict receives nulls.
        "select id, coalesce(reading(v), -1) from t where id < 10",
        "select added(v) from t",
    ] {
        let is_refused = text.contains("reading");
        let by_rows = on(&mut server, "row", text);
        assert!(by_rows.is_ok(), "{text}: {by_rows:?}");
        let analytics = on(&mut server, "analytics", text);
        if is_refused {
            assert!(analytics.unwrap_err().starts_with("0A000"), "{text}");
        } else {
            assert_eq!(by_rows, analytics, "{text}");
        }
        assert_eq!(by_rows, on(&mut server, "auto", text), "{text}");
    }
}

#[test]
fn values_of_every_type_pass_unchanged() {
    let (mut server, _) = server();
    let columns = [
        ("bool", "i % 2 = 0"),
        ("int2", "i"),
        ("int4", "i * 1000"),
        ("int8", "i * 10000000000"),
        ("oid", "i"),
        ("float4", "i / 3.0"),
        ("float8", "'NaN'"),
        ("numeric", "i / 7.00"),
        ("text", "repeat('ä', i) || ' '"),
        ("varchar", "'x' || i"),
        ("bpchar", "'y' || i || '  '"),
        ("bytea", "decode('00ff', 'hex')"),
        ("uuid", "'a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11'"),
        ("date", "date '2024-01-31' + i"),
        ("time", "time '10:20:30.5'"),
        ("timestamp", "timestamp '2024-01-31 10:20:30.5' + i * interval '1 day'"),
        ("timestamptz", "timestamptz '2024-01-31 10:20:30.5+01'"),
        ("interval", "i * interval '1 month 2 days'"),
        ("json", "('[' || i || ']')"),
        ("int4[]", "array[i, null, 3]"),
        ("text[]", "array['a', i::text]"),
    ];
    for (of, value) in columns {
        let array = of.replace("[]", "_array");
        for text in [
            format!("create table of_{array} (id int, v {of})"),
            format!(
                "insert into of_{array} select i, case when i % 3 <> 0 then ({value})::{of} end from generate_series(1, 40) i"
            ),
            format!("create function same({of}) returns {of} language native stable as 'numbers'"),
        ] {
            server.run(&text).unwrap();
        }
        check_same(&mut server, &format!("select id, same(v), same(v)::text || '|' from of_{array}"));
        // Constants.
        let one = server.run(&format!("select v from of_{array} where id = 1")).unwrap().unwrap().rows.remove(0);
        let constant = one[0].clone().unwrap();
        check_same(&mut server, &format!("select id, same('{constant}'::{of}) from of_{array}"));
    }
    for text in [
        "create table sized (n numeric(10, 2), c char(5), s varchar(4))",
        "insert into sized values (1.50, 'ab', 'cd'), (-2, null, ''), (null, 'abcde', null)",
    ] {
        server.run(text).unwrap();
    }
    check_same(&mut server, "select same(n), same(c) || '|', same(s) || '|', same(n)::text from sized");
}

#[test]
fn errors_and_notices_are_those_of_the_rows_that_are_needed() {
    let (mut server, _) = server();
    let odd = "select sum(half(id)) from t";
    assert_eq!(path_of(&mut server, odd), "analytics");
    let by_rows = on(&mut server, "row", odd);
    let error = "P0001 1 is odd [\"A detail.\", \"native function \\\"half\\\"\"]";
    assert_eq!(by_rows, Err(error.to_owned()));
    assert_eq!(by_rows, on(&mut server, "auto", odd), "the first row of the row path decides");
    // The order of the rows is not that of the table, but the error is one of theirs.
    let analytics = on(&mut server, "analytics", odd).unwrap_err();
    assert!(analytics.contains("P0001") && analytics.contains(" is odd"), "{analytics}");
    for lazy in [
        "select sum(case when id % 2 = 0 then half(id) end) from t",
        "select count(*) from t where id % 2 = 0 and half(id) > 10",
        "select count(*) from t where id % 2 = 1 or half(id) > 10",
        "select sum(coalesce(v, half(id * 2))) from t",
        "select sum(half(id)) from t where id % 2 = 0",
        "select count(*) from t x join t y on x.id = y.id and x.id % 2 = 0 and half(x.id) > 0",
        "select half(id) from t where id % 2 = 0 order by id limit 3",
    ] {
        check_same(&mut server, lazy);
    }
    // An error of a type comes as it does by rows, and a function that is not strict sees nulls.
    for text in ["select sum(other(id)) from t", "select sum(lax(v)) from t where id = 7"] {
        let by_rows = on(&mut server, "row", text);
        assert!(by_rows.is_err() || text.contains("lax"), "{by_rows:?}");
        assert_eq!(by_rows, on(&mut server, "analytics", text), "{text}");
    }
    // Notices have an order, which only the row path keeps.
    server.session.take_notices();
    let told = "select sum(told(id)) from t";
    assert!(on(&mut server, "analytics", told).unwrap_err().starts_with("0A000"));
    for path in ["row", "auto"] {
        server.session.take_notices();
        assert_eq!(on(&mut server, path, told).unwrap(), [[Some("-200010000".to_owned())]]);
        let notices: Vec<String> =
            server.session.take_notices().into_iter().map(|(_, notice)| notice.message().to_owned()).collect();
        let expected: Vec<String> = (1..=20).map(|thousand| format!("at {}", thousand * 1_000)).collect();
        assert_eq!(notices, expected, "{path}");
    }
}

#[test]
fn functions_that_need_the_transaction_stay_on_the_row_path() {
    let (mut server, numbers) = server();
    for text in ["select sum(each_row(id)) from t", "select sum(reading(id)) from t"] {
        assert_eq!(path_of(&mut server, text), "row", "{text}");
        assert!(on(&mut server, "analytics", text).unwrap_err().starts_with("0A000"), "{text}");
    }
    let before = numbers.calls.load(SeqCst);
    server.run("select sum(each_row(id)) from t").unwrap();
    assert_eq!(numbers.calls.load(SeqCst) - before, 20_000, "a volatile function is called once for each row");
}

#[test]
fn rights_and_limits_hold() {
    let (mut server, _) = server();
    for text in [
        "create role guest",
        "grant select on t to guest",
        "revoke execute on function half(int) from public",
        "create function owned(int) returns int language native stable security definer as 'numbers', 'same'",
    ] {
        server.run(text).unwrap();
    }
    let limited = "select sum(limited(id)) from t";
    for path in ["row", "analytics", "auto"] {
        let error = on(&mut server, path, limited).unwrap_err();
        assert!(error.starts_with("57014 canceling statement due to time limit of routine"), "{path}: {error}");
    }
    server.run("set role guest").unwrap();
    for path in ["row", "analytics", "auto"] {
        let error = on(&mut server, path, "select sum(half(v * 2)) from t").unwrap_err();
        assert!(error.starts_with("42501 permission denied for function half"), "{path}: {error}");
    }
    check_same(&mut server, "select sum(owned(v)) from t");
}

#[test]
fn a_cancel_and_a_timeout_end_code() {
    let (mut server, _) = server();
    for path in ["analytics", "auto"] {
        let canceller = server.session.canceller();
        let cancelling = thread::spawn(move || {
            thread::sleep(Duration::from_millis(100));
            canceller.cancel();
            Instant::now()
        });
        let error = on(&mut server, path, "select sum(endless(id)) from t").unwrap_err();
        let took = cancelling.join().unwrap().elapsed();
        assert!(error.starts_with("57014 canceling statement due to user request"), "{path}: {error}");
        assert!(took < Duration::from_secs(1), "{path}: {took:?}");
        server.run("set statement_timeout = '100ms'").unwrap();
        let error = on(&mut server, path, "select sum(endless(id)) from t").unwrap_err();
        assert!(error.starts_with("57014 canceling statement due to statement timeout"), "{path}: {error}");
        server.run("reset statement_timeout").unwrap();
        // Its workers are free again.
        check_same(&mut server, "select sum(half(v * 2)) from t");
    }
}
