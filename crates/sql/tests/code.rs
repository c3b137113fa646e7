//! Goal: routines whose code is in a module do what their code asks for, with the caller's rights, within their limits,
//! and as one statement. Method: a module that is linked into the test, called in SQL.

#![allow(missing_docs, clippy::unwrap_used, reason = "a test")]

#[path = "support/mod.rs"]
mod support;

use engine::{Engine, EngineConfig};
use procs::native::{NativeCall, NativeModule, NativeRuntime};
use procs::{
    Artifact, Availability, Channel, CodeTenant, EngineCalls, Instance, Level, Limits, NoticeLevel, Program, Runtime,
    Runtimes, StatementHandle, TableHandle,
};
use settings::Connect;
use sql::session::{Database, Session};
use stage::turn::JobTurn;
use stage::{Stage, StageClock, TickSource};
use statement::{SqlError, SqlResult, SqlState};
use std::ops::ControlFlow;
use std::sync::Arc;
use std::thread;
use std::time::Duration;
use types::Datum;

struct Bank;

const ACCOUNTS: TableHandle = TableHandle(0);

fn balance_of(engine: &mut dyn EngineCalls, id: &Datum, locks: bool) -> SqlResult<Option<i64>> {
    let mut found = None;
    engine.get(ACCOUNTS, std::slice::from_ref(id), locks, &mut |row| {
        if let [_, Datum::Int8(balance)] = row {
            found = Some(*balance);
        }
        Ok(ControlFlow::Break(()))
    })?;
    Ok(found)
}

impl NativeModule for Bank {
    fn name(&self) -> &'static str {
        "bank"
    }

    fn manifest(&self) -> &'static str {
        "overtake 1
        table accounts accounts (id, balance)
        statement total SELECT sum(balance)::bigint, count(*) FROM accounts
        statement raise_all UPDATE accounts SET balance = balance + $1
        statement broken SELECT nothing FROM accounts
        entry transfer
        entry total
        entry all
        entry raise
        entry half
        entry plus
        entry forge
        entry raise_all
        entry broken
        entry twice
        entry divide
        entry silent"
    }

    fn call(&self, call: NativeCall<'_>, engine: &mut dyn EngineCalls) -> SqlResult<Vec<Datum>> {
        let NativeCall { entry, arguments } = call;
        match (entry, arguments) {
            // transfer(from, to, amount) returns the new balance of `from`.
            (0, [from, to, Datum::Int8(amount)]) => {
                let missing = || SqlError::new(SqlState::NO_DATA, "no such account");
                let of_from = balance_of(engine, from, true)?.ok_or_else(missing)?;
                let of_to = balance_of(engine, to, true)?.ok_or_else(missing)?;
                if of_from < *amount {
                    engine.notice(NoticeLevel::Warning, "the balance is too low")?;
                    return Err(SqlError::new(SqlState::raised("OT001").unwrap(), "insufficient funds"));
                }
                engine.put(ACCOUNTS, &[from.clone(), Datum::Int8(of_from - amount)], false)?;
                engine.put(ACCOUNTS, &[to.clone(), Datum::Int8(of_to + amount)], false)?;
                Ok(vec![Datum::Int8(balance_of(engine, from, false)?.unwrap_or_default())])
            }
            // total() returns the sum and the count.
            (1, []) => {
                let executed = engine.execute(StatementHandle(0), &[])?;
                let mut row = Vec::new();
                engine.next(executed.cursor.unwrap(), 10, &mut |found| {
                    row = found.to_vec();
                    Ok(ControlFlow::Continue(()))
                })?;
                Ok(row)
            }
            // all() returns the accounts in descending order.
            (2, []) => {
                let cursor = engine.scan(ACCOUNTS, &[], true)?;
                let mut all = Vec::new();
                while !engine.next(cursor, 2, &mut |row| {
                    all.push(row.to_vec());
                    Ok(ControlFlow::Continue(()))
                })? {}
                all.iter().try_for_each(|row| engine.emit(row))?;
                Ok(Vec::new())
            }
            (3, [_]) => Err(SqlError::new(SqlState::RAISE_EXCEPTION, "on purpose").detail("A detail.").hint("A hint.")),
            // half() writes, and then fails.
            (4, []) => {
                engine.put(ACCOUNTS, &[Datum::Int4(99), Datum::Int8(1)], true)?;
                engine.delete(ACCOUNTS, &[Datum::Int4(1)])?;
                Err(SqlError::new(SqlState::DIVISION_BY_ZERO, "half way"))
            }
            (5, [Datum::Int4(a), Datum::Int4(b)]) => Ok(vec![Datum::Int4(a + b)]),
            (6, []) => engine.get(TableHandle(7), &[], false, &mut |_| Ok(ControlFlow::Break(()))).map(|_| Vec::new()),
            (7, [by]) => {
                let executed = engine.execute(StatementHandle(1), std::slice::from_ref(by))?;
                Ok(vec![Datum::Int8(executed.rows as i64)])
            }
            (8, []) => engine.execute(StatementHandle(2), &[]).map(|_| Vec::new()),
            // twice() inserts the same row twice.
            (9, []) => {
                engine.put(ACCOUNTS, &[Datum::Int4(50), Datum::Int8(1)], true)?;
                engine.put(ACCOUNTS, &[Datum::Int4(50), Datum::Int8(1)], true)?;
                Ok(Vec::new())
            }
            // divide(by) returns 100 / by.
            (10, [Datum::Int4(by)]) => {
                engine.notice(NoticeLevel::Notice, &format!("by {by}"))?;
                let divided = 100_i32.checked_div(*by);
                divided
                    .map(|value| vec![Datum::Int4(value)])
                    .ok_or_else(|| SqlError::new(SqlState::DIVISION_BY_ZERO, "division by zero"))
            }
            (11, [_]) => Ok(Vec::new()),
            _ => Err(SqlError::new(SqlState::INTERNAL_ERROR, "arguments of another type")),
        }
    }
}

/// Module that sleeps, and that gives keys of a wrong width or type.
struct Odd;

const ODD: &str = "overtake 1
        table accounts accounts (id, balance)
        statement nap SELECT pg_sleep($1)
        entry nap
        entry odd_key";

impl NativeModule for Odd {
    fn name(&self) -> &'static str {
        "odd"
    }

    fn manifest(&self) -> &'static str {
        ODD
    }

    fn call(&self, call: NativeCall<'_>, engine: &mut dyn EngineCalls) -> SqlResult<Vec<Datum>> {
        let key: &[Datum] = match (call.entry, call.arguments) {
            (0, [seconds]) => {
                engine.execute(StatementHandle(0), std::slice::from_ref(seconds))?;
                return Ok(Vec::new());
            }
            (1, [_, Datum::Int4(0)]) => &[],
            (1, [_, Datum::Int4(1)]) => &[Datum::Int4(1), Datum::Int4(2)],
            _ => &[Datum::Int8(1)],
        };
        let mut ignored = |_: &[Datum]| Ok(ControlFlow::Continue(()));
        match call.arguments {
            [Datum::Int4(0), _] => engine.get(ACCOUNTS, key, false, &mut ignored).map(drop)?,
            [Datum::Int4(1), _] => engine.delete(ACCOUNTS, key).map(drop)?,
            _ => engine.scan(ACCOUNTS, key, false).map(drop)?,
        }
        Ok(Vec::new())
    }
}

fn odd(database: &Database) -> Session {
    let mut session = support::connect(database);
    support::run(
        &mut session,
        &format!(
            "create table accounts (id int primary key, balance bigint); insert into accounts values (1, 1);
             create module odd manifest $${ODD}$$ artifact native 'odd';
             create procedure nap(float8) language native as 'odd';
             create procedure odd_key(int, int) language native as 'odd'"
        ),
    )
    .unwrap();
    session
}

/// Goal: a sleep beyond the time limit ends a call, though the statement begins again after each sleep.
#[test]
fn a_sleep_ends_with_the_time_limit() {
    let session = &mut odd(&database());
    support::run(session, "alter procedure nap set (time_limit = '1min')").unwrap();
    assert_eq!(shown(session, "call nap(0.01)"), "");
    let error = support::run(session, "call nap(61)").unwrap_err();
    let expected = ("57014", "canceling statement due to time limit of routine");
    assert_eq!((error.state().0, error.message()), expected);
    assert_eq!(shown(session, "select 1"), "1");
}

/// Goal: a key that linked code gives has the columns of the table's, in any call.
#[test]
fn keys_of_linked_code_are_checked() {
    let session = &mut odd(&database());
    for call in 0..3 {
        for key in 0..3 {
            // A scan may have no value of the key.
            let expected = match (call, key) {
                (2, 0) => "",
                (_, 2) => "42804 the routine sent a value of another type for one of type integer",
                _ => "39000 the routine broke the protocol: a key has other columns than the table's",
            };
            assert_eq!(shown(session, &format!("call odd_key({call}, {key})")), expected, "{call} {key}");
        }
    }
}

fn database() -> Database {
    let native = NativeRuntime::new(vec![Arc::new(Bank), Arc::new(Odd)]);
    let database = Database::new(Engine::new(EngineConfig::in_memory()));
    database.with_runtimes(Arc::new(Runtimes::new(vec![Arc::new(native)])))
}

fn connect_as(database: &Database, user: &str) -> Session {
    database.connect(Connect { user: user.into(), database: "postgres".into(), ..Connect::default() }).unwrap()
}

const SET_UP: &str = "
    create table accounts (id int primary key, balance bigint not null check (0 <= balance));
    insert into accounts values (1, 100), (2, 50), (3, 0);
    create module bank manifest $$overtake 1
        table accounts accounts (id, balance)
        statement total SELECT sum(balance)::bigint, count(*) FROM accounts
        statement raise_all UPDATE accounts SET balance = balance + $1
        statement broken SELECT nothing FROM accounts
        entry transfer
        entry total
        entry all
        entry raise
        entry half
        entry plus
        entry forge
        entry raise_all
        entry broken
        entry twice
        entry divide
        entry silent$$ artifact native 'bank';
    create module plain manifest $$overtake 1
        table accounts accounts (id, balance)
        entry transfer
        entry total
        entry all
        entry raise
        entry half
        entry plus
        entry forge
        entry raise_all
        entry broken
        entry twice
        entry divide
        entry silent$$ artifact native 'bank';
    create function transfer(int, int, bigint) returns bigint language native as 'bank';
    create function total(out sum bigint, out count bigint) language native stable as 'bank', 'total';
    create function all_accounts() returns table (id int, balance bigint) language native as 'bank', 'all';
    create procedure half() language native as 'bank', 'half';
    create function plus(int, int) returns int language native immutable strict as 'plain';
    create function raised(int) returns int language native as 'bank', 'raise';
    create function forge() returns int language native as 'bank', 'forge';
    create function raise_all(bigint) returns bigint language native as 'bank', 'raise_all';
    create function stable_raise(bigint) returns bigint language native stable as 'bank', 'raise_all';
    create function broken() returns int language native as 'bank', 'broken';
    create function divide(int) returns int language native immutable strict as 'plain';
    create procedure twice() language native as 'bank', 'twice';
    create function nothing(int) returns int language native as 'bank', 'silent';
    create function nothing_stable(int) returns int language native stable as 'plain', 'silent';
    create function nothing_void(int) returns void language native as 'bank', 'silent';";

/// Rows as text, or the error's code and message.
fn shown(session: &mut Session, statement: &str) -> String {
    let cell = |datum: &Datum| match datum {
        Datum::Null => "NULL".to_owned(),
        Datum::Int4(value) => value.to_string(),
        Datum::Int8(value) => value.to_string(),
        Datum::Oid(value) => value.to_string(),
        Datum::Bool(value) => value.to_string(),
        Datum::Text(value) => value.to_string(),
        other => format!("{other:?}"),
    };
    match support::run(session, statement) {
        Ok(rows) => {
            let row = |row: &[Datum]| row.iter().map(cell).collect::<Vec<_>>().join(",");
            rows.iter().map(|one| row(one)).collect::<Vec<_>>().join(" ")
        }
        Err(error) => format!("{} {}", error.state(), error.message()),
    }
}

/// Goal: what `set_config` changes counts, or is refused: nothing runs with rights or in a mode that was given up.
#[test]
fn settings_of_bodies_count_or_are_refused() {
    let database = database();
    let session = &mut support::connect(&database);
    let later = |name: &str| format!("0A000 a statement after set_config of \"{name}\" in a routine is not supported");
    support::run(
        session,
        "create table secret (n int); insert into secret values (1); create role low;
         create procedure lower_rights() language sql as
           $$ select set_config('role', 'low', true); delete from secret $$;
         create procedure read_only() language sql as
           $$ select set_config('transaction_read_only', 'on', true); delete from secret $$;
         create function in_tokyo() returns text language sql as
           $$ select set_config('TimeZone', 'Asia/Tokyo', true); select '2020-01-01 00:00+00'::timestamptz::text $$;
         create function own_path() returns text language sql as
           $$ select set_config('search_path', 'x', true); select current_setting('search_path') $$;
         create function as_owner() returns text security definer language sql as
           $$ select set_config('role', 'low', true) $$",
    )
    .unwrap();
    for (statement, wanted) in [
        ("call lower_rights()", later("role")),
        ("call read_only()", later("transaction_read_only")),
        ("select in_tokyo()", later("timezone")),
        ("select own_path()", "x".to_owned()),
        ("select as_owner()", "42501 cannot set parameter \"role\" within security-definer function".to_owned()),
        ("select count(*) from secret", "1".to_owned()),
        (
            "begin; select set_config('transaction_read_only', 'true', true); delete from secret",
            "25006 cannot execute DELETE in a read-only transaction".to_owned(),
        ),
        (
            "rollback; begin; select set_config('transaction_isolation', 'serializable', true)",
            "25001 SET TRANSACTION ISOLATION LEVEL must be called before any query".to_owned(),
        ),
        ("rollback; select set_config('role', 'low', false); select current_user", "low".to_owned()),
        ("reset role; select count(*) from secret", "1".to_owned()),
    ] {
        assert_eq!(shown(session, statement), wanted, "{statement}");
    }
    let many = vec!["int"; 101].join(", ");
    let many = format!("create function f({many}) returns int language sql as 'select 1'");
    assert_eq!(shown(session, &many), "54023 functions cannot have more than 100 arguments");
}

#[test]
fn code_reads_and_writes_rows() {
    let database = database();
    let session = &mut support::connect(&database);
    support::run(session, SET_UP).unwrap();
    for (statement, wanted) in [
        ("select transfer(1, 2, 30)", "70"),
        ("select * from accounts order by id", "1,70 2,80 3,0"),
        ("select * from total()", "150,3"),
        ("select (total()).sum", "0A000 a composite value of total here is not supported"),
        ("select * from all_accounts()", "3,0 2,80 1,70"),
        ("select id from all_accounts() limit 1", "3"),
        ("select plus(id, 10) from accounts order by id", "11 12 13"),
        ("select plus(1, null)", "NULL"),
        ("select count(*) from accounts where plus(id, 1) = 3", "1"),
        ("select transfer(1, 2, 1000)", "OT001 insufficient funds"),
        ("select transfer(1, 9, 1)", "02000 no such account"),
        ("select raised(1)", "P0001 on purpose"),
        ("call half()", "22012 half way"),
        ("select * from accounts order by id", "1,70 2,80 3,0"),
        ("select forge()", "39000 the routine broke the protocol: 7 is the number of no table"),
        ("select broken()", "42703 column \"nothing\" does not exist"),
        ("call twice()", "23505 duplicate key value violates unique constraint \"accounts_pkey\""),
        ("select raise_all(5)", "3"),
        ("select stable_raise(5)", "0A000 UPDATE is not allowed in a non-volatile function"),
        (
            "select raise_all(-1000)",
            "23514 new row for relation \"accounts\" violates check constraint \"accounts_balance_check\"",
        ),
        ("select * from total()", "165,3"),
        ("begin read only; select raise_all(1)", "25006 cannot execute UPDATE in a read-only transaction"),
        ("rollback; select transfer(1, 2, 5), transfer(2, 1, 5)", "70,85"),
        // Arguments that are parameters, in another order and with others before them.
        ("prepare back(bigint, int, int) as select transfer($3, $2, $1); execute back(5, 1, 2)", "80"),
        ("prepare there(int, int, int, bigint) as select transfer($2, $3, $4); execute there(9, 1, 2, 10)", "70"),
    ] {
        assert_eq!(shown(session, statement), wanted, "{statement}");
    }
}

#[test]
fn notices_and_contexts_reach_the_client() {
    let database = database();
    let session = &mut support::connect(&database);
    support::run(session, SET_UP).unwrap();
    session.take_notices();
    let error = support::run(session, "select transfer(3, 1, 1)").unwrap_err();
    assert_eq!(error.context_text(), Some("native function \"transfer\""));
    let notices: Vec<_> = session.take_notices().into_iter().map(|(of, one)| (of, one.message().to_owned())).collect();
    assert_eq!(notices, [("WARNING", "the balance is too low".to_owned())]);
    let error = support::run(session, "select raised(3)").unwrap_err();
    assert_eq!((error.detail_text(), error.hint_text()), (Some("A detail."), Some("A hint.")));
}

/// Goal: a value that the code does not return is an error, not NULL, on both paths, for one row and for many.
#[test]
fn code_returns_a_value_for_each_row() {
    let database = database();
    let session = &mut support::connect(&database);
    support::run(session, SET_UP).unwrap();
    let missing = "39000 the routine returned 0 rows for 1";
    for statement in [
        "select nothing(1)",
        "select nothing_stable(1)",
        "select count(nothing_stable(id)) from accounts",
        "select id from accounts where nothing_stable(id) is null",
    ] {
        assert_eq!(shown(session, statement), missing, "{statement}");
    }
    assert!(support::run(session, "select nothing_void(1)").is_ok());
}

#[test]
fn code_has_the_rights_of_its_caller() {
    let database = database();
    let session = &mut support::connect(&database);
    support::run(session, SET_UP).unwrap();
    support::run(
        session,
        "create role clerk; create role owner; grant create on schema public to clerk; create role reader;
         grant select on accounts to reader;
         create function trusted(int, int, bigint) returns bigint language native security definer as 'bank', 'transfer'",
    )
    .unwrap();
    let clerk = &mut connect_as(&database, "clerk");
    let reader = &mut connect_as(&database, "reader");
    let denied = "42501 permission denied for table accounts";
    assert_eq!(shown(clerk, "select transfer(1, 2, 1)"), denied);
    assert_eq!(shown(clerk, "select * from total()"), denied);
    assert_eq!(shown(clerk, "select trusted(1, 2, 1)"), "99");
    assert_eq!(shown(reader, "select * from total()"), "150,3");
    assert_eq!(shown(reader, "select transfer(1, 2, 1)"), denied);
    assert_eq!(shown(session, "grant update on accounts to clerk; select 1"), "1");
    assert_eq!(shown(clerk, "select raise_all(1)"), denied, "it reads the column too");
    assert_eq!(shown(session, "grant select on accounts to clerk; select 1"), "1");
    assert_eq!(shown(clerk, "select raise_all(1)"), "3");
    assert_eq!(shown(session, "revoke update on accounts from clerk; select 1"), "1");
    assert_eq!(shown(clerk, "select raise_all(1)"), denied);
    assert_eq!(shown(clerk, "select forge()"), "39000 the routine broke the protocol: 7 is the number of no table");
    assert_eq!(shown(session, "revoke execute on function forge() from public; select 1"), "1");
    assert_eq!(shown(clerk, "select forge()"), "42501 permission denied for function forge");
    for (statement, wanted) in [
        (
            "create function f(int) returns int language native as 'bank', 'raise'",
            "42501 permission denied for language native",
        ),
        (
            "create module m manifest 'overtake 1' artifact native 'bank'",
            "42501 permission denied for database postgres",
        ),
        ("drop module bank", "42501 must be owner of module bank"),
        ("alter module bank owner to clerk", "42501 must be owner of module bank"),
    ] {
        let said = shown(clerk, statement);
        assert_eq!(said, wanted, "{statement}");
    }
}

/// Goal: calls that are made for many rows at once have the values, errors and notices of calls row by row.
#[test]
fn calls_for_many_rows_are_as_calls_one_by_one() {
    let database = database();
    let session = &mut support::connect(&database);
    support::run(session, SET_UP).unwrap();
    support::run(session, "create table n (x int); insert into n select generate_series(-3000, 3000)").unwrap();
    let zero = "22012 division by zero";
    for (statement, wanted) in [
        ("select sum(plus(x, 1)), count(plus(x, null)) from n", "6001,0"),
        ("select count(*) from n where plus(x, 1) = x + 1", "6001"),
        ("select plus(plus(x, 1), 1) from n where x = 7", "9"),
        ("select plus(x, 1) + plus(x, 2) from n where x in (1, 2) order by x", "5 7"),
        ("select divide(x) from n", zero),
        ("select divide(x) from (select x from n order by x desc) s limit 3", "0 0 0"),
        ("select count(d) from (select divide(x) d from (select x from n order by x desc) s limit 3000) t", "3000"),
        ("select count(d) from (select divide(x) d from (select x from n order by x desc) s limit 3001) t", zero),
        ("select sum(case when x = 0 then 0 else divide(x) end) from n", "0"),
        ("select count(*) from n where x <> 0 and divide(x) = 50", "1"),
        ("select count(divide(nullif(x, 0))) from n", "6000"),
        ("select sum(divide(x)) filter (where x = 4) from n where x between 1 and 10", "25"),
        ("select divide(x) from (values (1), (2), (0)) v(x) where 10 / x > 0 limit 2", "100 50"),
        ("create sequence s; select plus(nextval('s')::int, 0), plus(nextval('s')::int, 0) from n limit 2", "1,2 3,4"),
        ("select sum(case when plus(x, 0) > 0 then divide(x) end) from n", "482"),
        ("select coalesce(plus(x, null), plus(x, 1)) from n where x = 3", "4"),
        (
            "select (select sum(plus(m.x, n.x)) from n m where m.x between 1 and 3) from n where x in (1, 2) order by x",
            "9 12",
        ),
        (
            "create function once(int) returns int language sql stable as 'select plus($1, 1) + plus($1, 2) + $1';
             select sum(case x + 1 when 1 then 0 else once(x) end) from n where x between -1 and 1",
            "6",
        ),
        ("select x, sum(plus(x, 1)) from n where x < -2998 group by x order by x", "-3000,-2999 -2999,-2998"),
    ] {
        assert_eq!(shown(session, statement), wanted, "{statement}");
    }
    session.take_notices();
    assert_eq!(shown(session, "select divide(x) from (values (1), (2), (0)) v(x)"), zero);
    let notices: Vec<_> = session.take_notices().into_iter().map(|(_, one)| one.message().to_owned()).collect();
    assert_eq!(notices, ["by 1", "by 2", "by 0"]);
}

#[test]
fn limits_end_a_call() {
    let database = database();
    let session = &mut support::connect(&database);
    support::run(session, SET_UP).unwrap();
    for (statement, wanted) in [
        (
            "alter function all_accounts set (row_limit = 5); select count(*) from all_accounts()",
            "54000 routine \"all_accounts\" exceeded its limit of 5 rows",
        ),
        ("alter function all_accounts set (row_limit = 6); select count(*) from all_accounts()", "3"),
        ("alter function all_accounts reset (row_limit); select count(*) from all_accounts()", "3"),
        (
            "alter function plus set (isolation = 'wasm')",
            "0A000 isolation level \"wasm\" for module \"plain\" is not supported",
        ),
        (
            "alter function plus set (isolation = 'strong')",
            "22023 invalid value for parameter \"isolation\": \"strong\"",
        ),
        (
            "alter function plus set (channel = 'unix_socket')",
            "22023 isolation level \"native\" has no channel \"unix_socket\"",
        ),
        ("alter function plus set (memory_limit = '8MB')", "0A000 a memory limit of native code is not supported"),
        (
            "alter function plus set (memory_limit = '8MB', isolation = 'wasm')",
            "0A000 isolation level \"wasm\" for module \"plain\" is not supported",
        ),
        (
            "alter function plus set (memory_limit = '1MB')",
            "22023 1024 kB is outside the valid range for parameter \"memory_limit\" (4096 kB .. 2097152 kB)",
        ),
        (
            "alter function plus set (time_limit = '1s', time_limit = '2s')",
            "22023 parameter \"time_limit\" specified more than once",
        ),
        ("create schema overtake", "42P06 schema \"overtake\" already exists"),
        ("alter function plus set (nothing = 1)", "22023 unrecognized parameter \"nothing\""),
        (
            "create function s() returns int language sql as 'select 1'; alter function s set (isolation = wasm)",
            "42809 function \"s\" is written in SQL",
        ),
        (
            "alter function plus set (time_limit = '2s', row_limit = 9); select isolation, channel, time_limit_ms, memory_limit from overtake.isolated_routines where name = 'plus'",
            "42P01 relation \"overtake.isolated_routines\" does not exist",
        ),
        (
            "select pg_get_functiondef('plus'::regproc)",
            "CREATE OR REPLACE FUNCTION public.plus(integer, integer)\n RETURNS integer\n LANGUAGE native\n IMMUTABLE STRICT\n SET (time_limit = '2000ms', row_limit = '9')\nAS 'plain', 'plus'\n",
        ),
        (
            // A new version keeps what it does not give.
            "create or replace function plus(int, int) returns int language native as 'plain'; select pg_get_functiondef('plus'::regproc)",
            "CREATE OR REPLACE FUNCTION public.plus(integer, integer)\n RETURNS integer\n LANGUAGE native\n SET (time_limit = '2000ms', row_limit = '9')\nAS 'plain', 'plus'\n",
        ),
        (
            "create or replace function plus(int, int) returns int language native set (row_limit = 8) as 'plain'; select pg_get_functiondef('plus'::regproc)",
            "CREATE OR REPLACE FUNCTION public.plus(integer, integer)\n RETURNS integer\n LANGUAGE native\n SET (row_limit = '8')\nAS 'plain', 'plus'\n",
        ),
        (
            "select lanname, lanpltrusted from pg_proc p join pg_language l on l.oid = prolang where proname = 'plus'",
            "native,false",
        ),
    ] {
        assert_eq!(shown(session, statement), wanted, "{statement}");
    }
}

#[test]
fn modules_are_defined_and_dropped() {
    let database = database();
    let session = &mut support::connect(&database);
    support::run(session, SET_UP).unwrap();
    let one = "create module one manifest 'overtake 1' ";
    for (statement, wanted) in [
        ("create module bank manifest 'overtake 1' artifact native 'bank'", "42710 module \"bank\" already exists"),
        (
            "create or replace module bank manifest 'overtake 1' artifact native 'bank'",
            "42883 module \"bank\" has no entry \"transfer\"",
        ),
        (&format!("{one} artifact native 'nothing'"), "42704 native module \"nothing\" does not exist"),
        (&format!("{one} artifact nothing 'x'"), "22023 unknown kind of artifact \"nothing\""),
        (
            &format!("{one} artifact native 'bank' artifact native 'bank'"),
            "42601 artifact \"native\" specified more than once",
        ),
        (&format!("{one} artifact wasm '\\x00'"), "22023 invalid wasm artifact"),
        (&format!("{one} artifact exec 'echo'"), "22023 invalid exec artifact"),
        (&format!("{one} artifact guest '\\x2321'"), "22023 invalid guest artifact"),
        (&format!("{one} artifact wasm '!'"), "22023 invalid symbol \"!\" found while decoding base64 sequence"),
        (
            "create module one manifest 'overtake 2' artifact native 'bank'",
            "42601 manifest, line 1: the version of the interface must be 1",
        ),
        ("create module one manifest 'overtake 1'", "42601 syntax error at end of input"),
        ("create function f() returns int language native as 'two', 'f'", "42704 module \"two\" does not exist"),
        (
            "create function f() returns int language native as 'bank', 'nothing'",
            "42883 module \"bank\" has no entry \"nothing\"",
        ),
        (
            "create function f() returns int language native return 1",
            "42P13 inline SQL function body only valid for language SQL",
        ),
        (
            "create function f() returns int language wasm as 'bank', 'plus'",
            "0A000 isolation level \"wasm\" for module \"bank\" is not supported",
        ),
        ("drop module two", "42704 module \"two\" does not exist"),
        ("drop module if exists two", ""),
        ("drop module bank", "2BP01 cannot drop module bank because other objects depend on it"),
        ("begin; drop module bank cascade; rollback; select plus(1, 2)", "3"),
        ("drop module bank cascade; select count(*) from pg_proc where probin = 'bank'", "0"),
        (
            "create role r; create module m manifest 'overtake 1' artifact native 'bank'; alter module m owner to r; drop role r",
            "2BP01 role \"r\" cannot be dropped because some objects depend on it",
        ),
        ("reassign owned by r to postgres; drop role r; drop module m; select 1", "1"),
    ] {
        assert_eq!(shown(session, statement), wanted, "{statement}");
    }
}

/// Time for which another thread compiles code.
const COMPILES: Duration = Duration::from_millis(60);

/// Level whose code is compiled by another thread.
#[derive(Clone, Debug)]
struct Compiling;

impl Runtime for Compiling {
    fn level(&self) -> Level {
        Level::Wasm
    }

    fn availability(&self) -> Availability {
        Availability::Ready
    }

    fn load(&self, _artifact: &Artifact, _tenant: &CodeTenant) -> SqlResult<Arc<dyn Program>> {
        thread::spawn(|| thread::sleep(COMPILES)).join().unwrap();
        Ok(Arc::new(self.clone()))
    }
}

impl Program for Compiling {
    fn open(&self, _tenant: &CodeTenant, _channel: Channel, _limits: &Limits) -> SqlResult<Box<dyn Instance>> {
        Err(SqlError::unsupported("an instance of code that is only compiled"))
    }
}

/// Goal: the time in which code is compiled is that of the statement's run, and not time without a processor. Method: a
/// level whose compiler is another thread, in a turn of this one.
#[test]
fn the_wait_for_a_compiler_is_no_lost_time() {
    let runtimes = Runtimes::new(vec![Arc::new(Compiling)]);
    let database = Database::new(Engine::new(EngineConfig::in_memory())).with_runtimes(Arc::new(runtimes));
    let mut session = support::connect(&database);
    let source = TickSource::system();
    let clock = StageClock::new(source.clone());
    session.clock_by(&clock);
    let _turn = JobTurn::begin(source);
    let module = |code| format!("create or replace module m manifest $$overtake 1\nentry e$$ artifact wasm '{code}'");
    for (statement, compiles) in [
        (module("AGFzbQ=="), 0),
        ("create procedure p() language wasm as 'm', 'e'".to_owned(), 1),
        (module("AGFzbQE="), 1),
    ] {
        clock.enter(Stage::Run);
        support::run(&mut session, &statement).unwrap();
        clock.rest();
        let times = clock.take();
        let [run, lost] = [Stage::Run, Stage::Preempted].map(|stage| Duration::from_nanos(times.of(stage)));
        assert!(compiles * COMPILES <= run, "{statement}: {run:?} of {times:?}");
        assert!(compiles == 0 || lost < run / 2, "{statement}: {lost:?} of {times:?}");
    }
}

/// Goal: a query that cannot run as analytics says which part of it cannot, and why.
#[test]
fn refusals_of_analytics_name_the_part() {
    let database = database();
    let session = &mut support::connect(&database);
    support::run(session, SET_UP).unwrap();
    for statement in [
        "create sequence s",
        "create module free manifest 'overtake 1 entry plus' artifact native 'bank'",
        "create function free_volatile(int, int) returns int language native as 'free', 'plus'",
        "create function free_set(int, int) returns setof int language native stable as 'free', 'plus'",
        "create function counted(i int) returns bigint language sql as 'select count(*) from accounts where id < i'",
        "set overtake.path = 'analytics'",
    ] {
        support::run(session, &statement.replace("1 entry", "1\n entry")).unwrap();
    }
    let of_module = Some("Its module names tables or statements.");
    for (query, part, reason) in [
        ("select sum(plus(id, 1)) from accounts", "function plus(integer,integer)", of_module),
        ("select * from accounts where plus(id, 1) = 3", "function plus(integer,integer)", of_module),
        ("select * from total()", "function total()", Some("The function returns more than one value.")),
        (
            "select sum(free_volatile(id, 1)) from accounts",
            "function free_volatile(integer,integer)",
            Some("The function is VOLATILE."),
        ),
        (
            "select free_set(id, 1) from accounts",
            "function free_set(integer,integer)",
            Some("The function returns more than one value."),
        ),
        (
            "select sum(counted(id)) from accounts",
            "function counted(integer)",
            Some("It is an SQL function whose body could not become a part of the query."),
        ),
        ("select id from accounts for update", "SELECT FOR UPDATE", None),
        ("select id from accounts for key share", "SELECT FOR KEY SHARE", None),
        ("select nextval('s') from accounts", "a sequence", None),
        ("select lastval()", "a sequence", None),
        ("select count(*) from pg_class", "the catalog", None),
        ("select pg_advisory_lock(1) from accounts", "an advisory lock", None),
        ("select pg_sleep(0) from accounts", "function pg_sleep", None),
        ("select set_config('overtake.x', 'y', true) from accounts", "function set_config", None),
    ] {
        let error = support::run(session, query).unwrap_err();
        assert_eq!(error.state().0, "0A000", "{query}");
        assert_eq!(error.message(), format!("{part} as analytics is not supported"), "{query}");
        assert_eq!(error.detail_text(), reason, "{query}");
    }
    let change = "with x as (delete from accounts where id = 1 returning id) select * from x";
    assert_eq!(shown(session, change), "1", "changes run by rows");
}

/// Goal: routines in other languages are described as PostgreSQL describes those in its own.
#[test]
fn routines_in_other_languages_are_external() {
    let database = database();
    let session = &mut support::connect(&database);
    support::run(session, SET_UP).unwrap();
    support::run(session, "create function own(a int default 7) returns int language sql as 'select a'").unwrap();
    let query = "select routine_name, routine_body, routine_definition, external_name, external_language \
                 from information_schema.routines where routine_name in ('plus', 'all_accounts', 'own') order by 1";
    let owned = "all_accounts,EXTERNAL,all,all,NATIVE own,SQL,select a,NULL,SQL plus,EXTERNAL,plus,plus,NATIVE";
    assert_eq!(shown(session, query), owned);
    support::run(session, "create role plain; revoke execute on function all_accounts() from public; set role plain")
        .unwrap();
    let of_others = "own,SQL,NULL,NULL,SQL plus,EXTERNAL,NULL,plus,NATIVE";
    assert_eq!(shown(session, query), of_others, "what a role may neither change nor call is not shown");
    let defaults = "select parameter_name, parameter_default from information_schema.parameters \
                    where specific_name like 'own%' or specific_name like 'all%'";
    assert_eq!(shown(session, defaults), "a,NULL");
    support::run(session, "reset role").unwrap();
    for (statement, wanted) in [
        (
            "create function f() returns trigger language native as 'bank', 'plus'",
            "0A000 native functions cannot return type trigger",
        ),
        (
            "create function f(a cstring) returns int language native as 'bank', 'plus'",
            "0A000 native functions cannot accept type cstring",
        ),
        ("create function f() returns trigger language sql as 'x'", "42P13 SQL functions cannot return type trigger"),
    ] {
        assert_eq!(shown(session, statement), wanted, "{statement}");
    }
}
