//! Goal: definitions of routines give PostgreSQL's notices and details. Method: a statement to a line, with the
//! messages that PostgreSQL 15 gives.

#![allow(clippy::unwrap_used, reason = "a test")]

#[path = "support/mod.rs"]
mod support;

use engine::{Engine, EngineConfig};
use sql::session::{Database, Session};

/// Runs a statement; returns its notices with their details, and the error's.
fn said(session: &mut Session, statement: &str) -> Vec<String> {
    let result = support::run(session, statement);
    let with_detail = |message: &str, detail: Option<&str>| match detail {
        Some(detail) => format!("{message} / {}", detail.replace('\n', " / ")),
        None => message.to_owned(),
    };
    let notices = session.take_notices().into_iter().map(|(_, one)| with_detail(one.message(), one.detail_text()));
    let mut all: Vec<String> = notices.collect();
    all.extend(result.err().map(|error| with_detail(error.message(), error.detail_text())));
    all
}

#[test]
fn notices_and_details_are_those_of_postgresql() {
    let database = Database::new(Engine::new(EngineConfig::in_memory()));
    let session = &mut support::connect(&database);
    let body = "language sql as 'select 1'";
    for (statement, wanted) in [
        ("create table t (a int, b text); create schema s2", &[][..]),
        (
            &format!("create function f(a t.a%type, b t.b%type) returns t.a%type {body}"),
            &[
                "type reference t.a%TYPE converted to integer",
                "type reference t.b%TYPE converted to text",
                "type reference t.a%TYPE converted to integer",
            ],
        ),
        ("drop function if exists f(nosuch)", &["type \"nosuch\" does not exist, skipping"]),
        ("drop function if exists f(sc.x)", &["schema \"sc\" does not exist, skipping"]),
        ("drop function if exists sc.f(int)", &["schema \"sc\" does not exist, skipping"]),
        (
            "drop function if exists nosuch(int, text[], out x date), nosuch",
            &[
                "function nosuch(pg_catalog.int4,text[]) does not exist, skipping",
                "function nosuch() does not exist, skipping",
            ],
        ),
        (
            "drop procedure if exists nosuch(varchar(3))",
            &["procedure nosuch(pg_catalog.varchar) does not exist, skipping"],
        ),
        ("drop routine if exists s2.nosuch(t)", &["routine s2.nosuch(t) does not exist, skipping"]),
        (
            "create function fr() returns setof t language sql as 'select * from t';
             create function fr2() returns setof t language sql as 'select * from t'",
            &[],
        ),
        (
            "drop table t",
            &[
                "cannot drop table t because other objects depend on it / function fr() depends on type t / function fr2() \
               depends on type t",
            ],
        ),
        (
            "drop table t cascade",
            &["drop cascades to 2 other objects / drop cascades to function fr() / drop cascades to function fr2()"],
        ),
        (
            "create function s2.\"F\"(a int, b text) returns int return 1; create procedure s2.p() language sql as '';
             create table s2.t (a int)",
            &[],
        ),
        (
            "drop schema s2",
            &["cannot drop schema s2 because other objects depend on it / function s2.\"F\"(integer,text) depends on \
               schema s2 / function s2.p() depends on schema s2 / table s2.t depends on schema s2"],
        ),
        (
            "drop schema s2 cascade",
            &[
                "drop cascades to 3 other objects / drop cascades to function s2.\"F\"(integer,text) / drop cascades to \
               function s2.p() / drop cascades to table s2.t",
            ],
        ),
    ] {
        assert_eq!(said(session, statement), wanted, "{statement}");
    }
}

/// Goal: nothing is defined before the commit, or after a rollback, also for another session.
#[test]
fn definitions_are_private_until_the_commit() {
    let database = Database::new(Engine::new(EngineConfig::in_memory()));
    let (mut one, mut other) = (support::connect(&database), support::connect(&database));
    let count = |session: &mut Session| support::run(session, "select proname from pg_proc where proname ~ '^own_'");
    support::run(&mut one, "begin").unwrap();
    support::run(&mut one, "create function own_a() returns int return 1").unwrap();
    assert_eq!(count(&mut other).unwrap().len(), 0);
    assert_eq!(count(&mut one).unwrap().len(), 1);
    support::run(&mut one, "commit").unwrap();
    assert_eq!(count(&mut other).unwrap().len(), 1);
    support::run(&mut one, "begin").unwrap();
    support::run(&mut one, "drop function own_a").unwrap();
    support::run(&mut one, "rollback").unwrap();
    assert_eq!(count(&mut one).unwrap().len(), 1);
}

/// A function that writes, called while its statement changes a row, is refused, and leaves nothing behind.
#[test]
fn a_check_may_not_write_while_a_row_is_changed() {
    let database = Database::new(Engine::new(EngineConfig::in_memory()));
    let session = &mut support::connect(&database);
    for statement in [
        "create table log (n int)",
        "create function noted(n int) returns int language sql as 'insert into log values (n) returning n'",
        "create table t (id int primary key, v int check (noted(v) > 0))",
        "insert into t values (1, 1)",
    ] {
        assert_eq!(said(session, statement), Vec::<String>::new(), "{statement}");
    }
    let error = support::run(session, "update t set v = 2").unwrap_err();
    assert_eq!(error.state().0, "0A000");
    assert_eq!(
        error.context_text(),
        Some("SQL function \"noted\" statement 1"),
        "the error names the function that has written"
    );
    let error = support::run(session, "select noted(1 / (v - v)) from t").unwrap_err();
    assert_eq!((error.state().0, error.context_text()), ("22012", None), "an argument is no part of the function");
    support::run(session, "select case when count(*) = 1 then 1 else 1 / 0 end from log").unwrap();
}

/// Errors of nested calls name each call, the innermost first.
#[test]
fn contexts_of_nested_calls_are_lines() {
    let database = Database::new(Engine::new(EngineConfig::in_memory()));
    let session = &mut support::connect(&database);
    for statement in [
        "create table t (id int primary key)",
        "create function inner_f(n int) returns int language sql as 'insert into t values (n) returning id'",
        "create function outer_f(n int) returns int language sql as 'select 1; select inner_f(n)'",
        "select outer_f(1)",
    ] {
        assert_eq!(said(session, statement), Vec::<String>::new(), "{statement}");
    }
    let error = support::run(session, "select outer_f(1)").unwrap_err();
    assert_eq!(error.state().0, "23505");
    let lines = "SQL function \"inner_f\" statement 1\nSQL function \"outer_f\" statement 2";
    assert_eq!(error.context_text(), Some(lines));
}

/// Goal: errors in functions say when they have come, in PostgreSQL's words. Method: its answers for the same calls.
#[test]
fn contexts_say_when_an_error_has_come() {
    let database = Database::new(Engine::new(EngineConfig::in_memory()));
    let session = &mut support::connect(&database);
    for statement in [
        "create table t (a int); insert into t values (1)",
        "create table own (a int)",
        "set check_function_bodies = off",
        "create function ends() returns void language sql as 'select 1; commit'",
        "create procedure p_ends() language sql as 'select 1; savepoint x'",
        "create function writes() returns int language sql immutable as 'update t set a = 1 returning a'",
        "create function writes_late() returns int language sql stable as 'select 1; delete from t; select 2'",
        "create function writes_with() returns int language sql stable as \
         'with x as (delete from t returning a) select a from x'",
        "create function locks() returns int language sql stable as 'select a from t for update'",
        "create function no_query() returns int language sql as 'select 1; rollback'",
        "create function nothing(a int) returns int language sql as 'select a from nosuch'",
        "create function wrong(a int) returns int language sql as 'select ''x''::text'",
        "create function no_sql(a int) returns int language sql as 'selekt 1'",
        "create function inserts() returns int language sql as 'insert into nosuch values (1) returning 1'",
        "create function two() returns int language sql as 'select 1; select a from nosuch'",
        "create function many() returns setof int language sql as 'select a from nosuch'",
        "create function definer() returns int language sql security definer as 'select a from nosuch'",
        "create function reads() returns int language sql as 'select 1; select a from own; select 2'",
        "create procedure p_reads() language sql as 'insert into own values (1)'",
        "create function fails_first() returns int language sql as 'select a / 0 from t; select a from own'",
        "create role plain",
        "grant select on t to plain",
    ] {
        support::run(session, statement).unwrap();
    }
    let said = |session: &mut Session, statement: &str| {
        let error = support::run(session, statement).unwrap_err();
        format!("{} {} [{}]", error.state().0, error.message(), error.context_text().unwrap_or_default())
    };
    for (call, expected) in [
        ("select ends()", "0A000 COMMIT is not allowed in an SQL function [SQL function \"ends\" during startup]"),
        ("call p_ends()", "0A000 SAVEPOINT is not allowed in an SQL function [SQL function \"p_ends\" during startup]"),
        (
            "select writes()",
            "0A000 UPDATE is not allowed in a non-volatile function [SQL function \"writes\" during startup]",
        ),
        (
            "select writes_late()",
            "0A000 DELETE is not allowed in a non-volatile function [SQL function \"writes_late\" during startup]",
        ),
        (
            "select writes_with()",
            "0A000 SELECT is not allowed in a non-volatile function [SQL function \"writes_with\" during startup]",
        ),
        (
            "select locks()",
            "0A000 SELECT FOR UPDATE is not allowed in a non-volatile function [SQL function \"locks\" during startup]",
        ),
        (
            "select no_query()",
            "42P13 return type mismatch in function declared to return integer \
             [SQL function \"no_query\" during startup]",
        ),
        ("select nothing(1)", "42P01 relation \"nosuch\" does not exist [SQL function \"nothing\" during inlining]"),
        (
            "select wrong(1)",
            "42P13 return type mismatch in function declared to return integer \
             [SQL function \"wrong\" during inlining]",
        ),
        ("select no_sql(1)", "42601 syntax error at or near \"selekt\" [SQL function \"no_sql\" during inlining]"),
        ("select inserts()", "42P01 relation \"nosuch\" does not exist [SQL function \"inserts\" during inlining]"),
        ("select two()", "42P01 relation \"nosuch\" does not exist [SQL function \"two\" during startup]"),
        ("select many()", "42P01 relation \"nosuch\" does not exist [SQL function \"many\" during startup]"),
        ("select definer()", "42P01 relation \"nosuch\" does not exist [SQL function \"definer\" during startup]"),
    ] {
        assert_eq!(said(session, call), expected, "{call}");
    }
    support::run(session, "set role plain").unwrap();
    for (call, expected) in [
        ("select reads()", "42501 permission denied for table own [SQL function \"reads\" statement 2]"),
        ("call p_reads()", "42501 permission denied for table own [SQL function \"p_reads\" statement 1]"),
        ("select fails_first()", "22012 division by zero [SQL function \"fails_first\" statement 1]"),
    ] {
        assert_eq!(said(session, call), expected, "{call}");
    }
    support::run(session, "reset role; grant select on own to plain; set role plain").unwrap();
    support::run(session, "select reads()").unwrap();
}
