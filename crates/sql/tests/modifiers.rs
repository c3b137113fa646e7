//! Goal: values that code puts into a table are cut and rounded to their columns as those of a statement are, and
//! refused as those are. Method: a module that is linked into the test puts its arguments.

#![allow(missing_docs, clippy::unwrap_used, reason = "a test")]

#[path = "support/mod.rs"]
mod support;

use engine::{Engine, EngineConfig};
use procs::native::{NativeCall, NativeModule, NativeRuntime};
use procs::{EngineCalls, Runtimes, TableHandle};
use sql::session::{Database, Session};
use statement::SqlResult;
use std::sync::Arc;
use types::Datum;

struct Writer;

const MANIFEST: &str = "overtake 1
    table goods goods (id, word, code, price)
    entry write";

impl NativeModule for Writer {
    fn name(&self) -> &'static str {
        "writer"
    }

    fn manifest(&self) -> &'static str {
        MANIFEST
    }

    fn call(&self, call: NativeCall<'_>, engine: &mut dyn EngineCalls) -> SqlResult<Vec<Datum>> {
        engine.put(TableHandle(0), call.arguments, false)?;
        Ok(Vec::new())
    }
}

fn begin() -> Session {
    let native = NativeRuntime::new(vec![Arc::new(Writer)]);
    let database = Database::new(Engine::new(EngineConfig::in_memory()));
    let database = database.with_runtimes(Arc::new(Runtimes::new(vec![Arc::new(native)])));
    let mut session = support::connect(&database);
    for statement in [
        "create table goods (id int primary key, word varchar(5), code char(3), price numeric(6, 2))".to_owned(),
        format!("create module writer manifest $${MANIFEST}$$ artifact native 'writer'"),
        "create procedure write(int, varchar, char, numeric) language native as 'writer'".to_owned(),
    ] {
        support::run(&mut session, &statement).unwrap();
    }
    session
}

/// Returns what is in the table, or the error.
fn after(session: &mut Session, statement: &str) -> String {
    let outcome = support::run(session, statement).and_then(|_| {
        let rows = support::run(session, "select word || '|' || code || '|' || price::text from goods where id = 1")?;
        Ok(format!("{:?}", rows[0][0]))
    });
    let _ = support::run(session, "delete from goods");
    outcome.unwrap_or_else(|error| format!("{} {}", error.state(), error.message()))
}

#[test]
fn values_take_the_form_of_their_columns() {
    let mut session = begin();
    for values in [
        "1, 'ab', 'x', 1.2345",
        "1, 'abcde  ', 'xyz  ', -1.005",
        "1, 'abcdefg', 'x', 1",
        "1, 'a', 'wxyz', 1",
        "1, 'a', 'x', 12345.6",
        "1, null, 'x', 1",
    ] {
        let insert = after(&mut session, &format!("insert into goods values ({values})"));
        for round in 0..2 {
            let put = after(&mut session, &format!("call write({values})"));
            assert_eq!(put, insert, "{values}, call {round}");
        }
    }
}
