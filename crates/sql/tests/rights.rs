//! Goal: what one session grants, revokes and renames counts in the statements of another that were prepared before.
//! Method: two sessions, a statement that is prepared once and bound again and again, and changes of rights between its
//! runs.

#![allow(missing_docs, clippy::unwrap_used, reason = "a test fails by panicking")]

#[path = "support/mod.rs"]
mod support;

use engine::{Engine, EngineConfig};
use settings::Connect;
use sql::session::{Database, Outcome, Session, Statement, Step};
use statement::SqlResult;
use std::sync::Arc;

fn session_of(database: &Database, user: &str) -> Session {
    database.connect(Connect { user: user.into(), database: "postgres".into(), ..Connect::default() }).unwrap()
}

/// Runs a prepared statement; returns the number of its rows.
fn rows(session: &mut Session, statement: &Arc<Statement>) -> SqlResult<usize> {
    let mut portal = session.bind(statement, Vec::new())?;
    let result = loop {
        match session.execute(&mut portal) {
            Ok(Step::Parked(parked)) => parked.wait(),
            Ok(Step::Done(Outcome::Rows(rows, _))) => break Ok(rows.len()),
            Ok(_) => break Ok(0),
            Err(error) => break Err(error),
        }
    };
    session.sync().unwrap();
    result
}

/// Database with a role `ann` and a table of two rows, which she may not read; and sessions of a superuser and of her.
fn begin() -> (Session, Session) {
    let database = Database::new(Engine::new(EngineConfig::in_memory()));
    let mut admin = support::connect(&database);
    support::run(&mut admin, "create table t (id int primary key, v int)").unwrap();
    support::run(&mut admin, "insert into t values (1, 1), (2, 2)").unwrap();
    support::run(&mut admin, "create role ann login").unwrap();
    let ann = session_of(&database, "ann");
    (admin, ann)
}

fn state_of<T>(result: SqlResult<T>) -> Option<&'static str> {
    result.err().map(|error| error.state().0)
}

#[test]
fn a_prepared_statement_is_checked_whenever_rights_change() {
    let (mut admin, mut ann) = begin();
    let statement = ann.prepare("select id from t", &[]).unwrap();
    assert_eq!(state_of(rows(&mut ann, &statement)), Some("42501"));
    for (change, expected) in [
        ("grant select on t to ann", None),
        ("revoke select on t from ann", Some("42501")),
        ("grant select (id) on t to ann", None),
        ("revoke select (id) on t from ann", Some("42501")),
        ("create role readers; grant select on t to readers; grant readers to ann", None),
        ("alter role ann noinherit", Some("42501")),
        ("alter role ann inherit", None),
        ("alter role ann rename to eve", None),
        ("revoke readers from eve", Some("42501")),
        ("alter role eve superuser", None),
        ("alter role eve nosuperuser", Some("42501")),
        ("alter table t owner to eve", None),
    ] {
        for part in change.split("; ") {
            support::run(&mut admin, part).unwrap();
        }
        assert_eq!(state_of(rows(&mut ann, &statement)), expected, "{change}");
        assert_eq!(state_of(rows(&mut ann, &statement)), expected, "{change}, again");
    }
}

#[test]
fn a_call_is_checked_whenever_rights_change() {
    let (mut admin, mut ann) = begin();
    // With two statements the body takes no call's place.
    let function = "create function f() returns int language sql as 'select 1; select 2'";
    support::run(&mut admin, function).unwrap();
    let statement = ann.prepare("select f()", &[]).unwrap();
    let denied = Some("42501");
    for (change, expected) in [
        ("select 1", None),
        ("revoke execute on function f() from public", denied),
        ("grant execute on function f() to ann", None),
        ("revoke execute on function f() from ann", denied),
        ("create role callers; grant execute on function f() to callers; grant callers to ann", None),
        ("alter role ann noinherit", denied),
        ("alter role ann inherit", None),
        ("revoke callers from ann", denied),
        ("alter role ann superuser", None),
        ("alter role ann nosuperuser", denied),
        ("grant execute on function f() to ann", None),
    ] {
        for part in change.split("; ") {
            support::run(&mut admin, part).unwrap();
        }
        assert_eq!(state_of(rows(&mut ann, &statement)), expected, "{change}");
        assert_eq!(state_of(rows(&mut ann, &statement)), expected, "{change}, again");
    }
    // Changes that are rolled back count until then.
    for (statement, expected) in [
        ("set role ann", None),
        ("select f()", None),
        ("reset role", None),
        ("begin", None),
        ("revoke execute on function f() from ann", None),
        ("set role ann", None),
        ("select f()", denied),
        ("rollback", None),
        ("set role ann", None),
        ("select f()", None),
    ] {
        assert_eq!(state_of(support::run(&mut admin, statement)), expected, "{statement}");
    }
}

#[test]
fn a_prepared_statement_is_checked_for_the_current_role() {
    let (mut admin, _) = begin();
    let statement = admin.prepare("select id from t", &[]).unwrap();
    assert_eq!(rows(&mut admin, &statement).unwrap(), 2);
    support::run(&mut admin, "set role ann").unwrap();
    assert_eq!(state_of(rows(&mut admin, &statement)), Some("42501"));
    support::run(&mut admin, "reset role").unwrap();
    assert_eq!(rows(&mut admin, &statement).unwrap(), 2);
}

#[test]
fn a_grant_disturbs_no_transaction_that_uses_the_table() {
    let (mut admin, mut ann) = begin();
    support::run(&mut admin, "grant select, update on t to ann").unwrap();
    support::run(&mut ann, "begin isolation level repeatable read; select * from t").unwrap();
    support::run(&mut admin, "grant insert on t to ann").unwrap();
    support::run(&mut ann, "update t set v = 3 where id = 1; commit").unwrap();
    let read = support::run(&mut admin, "select id from t where v = 3").unwrap();
    assert_eq!(read.len(), 1);
}

#[test]
fn a_path_leaves_out_schemas_that_the_role_may_not_use() {
    let (mut admin, mut ann) = begin();
    support::run(&mut admin, "create schema s; create table s.t (other int); grant select on t, s.t to ann").unwrap();
    support::run(&mut ann, "set search_path = s, public").unwrap();
    let columns = |session: &mut Session| {
        let statement = session.prepare("select * from t", &[]).unwrap();
        session.sync().unwrap();
        statement.columns().unwrap().len()
    };
    assert_eq!(columns(&mut ann), 2);
    support::run(&mut admin, "grant usage on schema s to ann").unwrap();
    assert_eq!(columns(&mut ann), 1);
    support::run(&mut admin, "revoke usage on schema s from ann").unwrap();
    assert_eq!(columns(&mut ann), 2);
}

#[test]
fn a_role_that_was_granted_something_is_not_dropped() {
    let (mut admin, _) = begin();
    support::run(&mut admin, "begin").unwrap();
    support::run(&mut admin, "grant select on t to ann").unwrap();
    support::run(&mut admin, "commit").unwrap();
    assert_eq!(state_of(support::run(&mut admin, "drop role ann")), Some("2BP01"));
    support::run(&mut admin, "revoke select on t from ann; drop role ann").unwrap();
}

#[test]
fn copy_needs_the_rights_on_its_columns() {
    let (mut admin, mut ann) = begin();
    for (grant, statement, expected) in [
        ("grant update on t to ann", "copy t to stdout", Some("42501")),
        ("grant select (id) on t to ann", "copy t to stdout", Some("42501")),
        ("grant select (id) on t to ann", "copy t (id) to stdout", None),
        ("grant select on t to ann", "copy (select v from t) to stdout", None),
        ("grant select on t to ann", "copy t from stdin", Some("42501")),
        ("grant insert (id) on t to ann", "copy t from stdin", Some("42501")),
        ("grant insert (id) on t to ann", "copy t (id) from stdin", None),
    ] {
        support::run(&mut admin, "revoke all on t from ann").unwrap();
        support::run(&mut admin, grant).unwrap();
        assert_eq!(state_of(support::run(&mut ann, statement)), expected, "{grant}; {statement}");
    }
}

#[test]
fn a_session_begins_as_no_role_that_it_may_not_become() {
    let database = Database::new(Engine::new(EngineConfig::in_memory()));
    let mut admin = support::connect(&database);
    for statement in ["create role staff", "create role ann login in role staff", "create role bob login"] {
        support::run(&mut admin, statement).unwrap();
    }
    for (user, setting, role, expected) in [
        ("ann", "role", "staff", None),
        ("bob", "role", "staff", Some("42501")),
        ("bob", "role", "nobody", Some("22023")),
        ("bob", "session_authorization", "ann", Some("42501")),
        ("postgres", "session_authorization", "ann", None),
    ] {
        let settings = vec![(setting.to_owned(), role.to_owned())];
        let wishes = Connect { user: user.into(), database: "postgres".into(), settings, ..Connect::default() };
        match database.connect(wishes) {
            Ok(mut session) => {
                let current = support::run(&mut session, "select current_user::text").unwrap();
                assert_eq!((expected, &current[0][0]), (None, &types::Datum::text(role)), "{user} as {role}");
            }
            Err(error) => assert_eq!(Some(error.state().0), expected, "{user} as {role}"),
        }
    }
}
