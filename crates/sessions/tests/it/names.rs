//! Names of statements and portals, which the protocol and SQL share, and sleeps.

use crate::others::raw;
use crate::real::Real;
use std::net::TcpStream;
use wirekit::raw::{Raw, bind, execute, named, parse, query, sync};

fn ask(client: &mut Raw<TcpStream>, messages: &[Vec<u8>]) -> String {
    client.ask(&[messages.concat(), sync()].concat())
}

fn is(client: &mut Raw<TcpStream>, text: &str, answer: &str) {
    assert_eq!(client.ask(&query(text)), answer, "{text}");
}

pub fn statements_have_one_namespace() {
    let real = Real::new();
    let mut client = raw(&real);
    assert_eq!(ask(&mut client, &[parse("s", "select $1::int + 1 as n", &[])]), "1 Z(I)");
    is(&mut client, "execute s (4)", "T(n:23:0) D(5) C(SELECT 1) Z(I)");
    let taken = "E(ERROR|42P05|prepared statement \"s\" already exists) Z(I)";
    is(&mut client, "prepare s as select 1", taken);
    is(
        &mut client,
        "select name, from_sql from pg_prepared_statements",
        "T(name:25:0,from_sql:16:0) D(s,f) C(SELECT 1) Z(I)",
    );
    is(&mut client, "deallocate s", "C(DEALLOCATE) Z(I)");
    let gone = "E(ERROR|26000|prepared statement \"s\" does not exist) Z(I)";
    assert_eq!(ask(&mut client, &[bind("", "s", &[], &[Some(b"1")], &[])]), gone);
    is(&mut client, "prepare s (int) as select $1 * 2 as n", "C(PREPARE) Z(I)");
    assert_eq!(ask(&mut client, &[parse("s", "select 1", &[])]), taken);
    let run = [bind("", "s", &[], &[Some(b"4")], &[]), execute("", 0)];
    assert_eq!(ask(&mut client, &run), "2 D(8) C(SELECT 1) Z(I)");
    assert_eq!(ask(&mut client, &[named(b'C', b'S', "s")]), "3 Z(I)");
    is(&mut client, "execute s (1)", gone);
    // A name that is used again stands for the new statement.
    is(&mut client, "prepare t as select 1 as n", "C(PREPARE) Z(I)");
    assert_eq!(ask(&mut client, &[bind("", "t", &[], &[], &[]), execute("", 0)]), "2 D(1) C(SELECT 1) Z(I)");
    is(&mut client, "deallocate all", "C(DEALLOCATE ALL) Z(I)");
    is(&mut client, "prepare t as select 2 as n", "C(PREPARE) Z(I)");
    assert_eq!(ask(&mut client, &[bind("", "t", &[], &[], &[]), execute("", 0)]), "2 D(2) C(SELECT 1) Z(I)");
    is(&mut client, "discard all", "C(DISCARD ALL) Z(I)");
    assert_eq!(ask(&mut client, &[parse("t", "select 3", &[])]), "1 Z(I)");
}

pub fn portals_have_one_namespace() {
    let real = Real::new();
    let mut client = raw(&real);
    is(&mut client, "begin", "C(BEGIN) Z(T)");
    let open =
        [parse("g", "select g from generate_series(1, 5) g", &[]), bind("c", "g", &[], &[], &[]), execute("c", 2)];
    assert_eq!(ask(&mut client, &open), "1 2 D(1) D(2) s Z(T)");
    is(&mut client, "fetch c", "T(g:23:0) D(3) C(FETCH 1) Z(T)");
    assert_eq!(ask(&mut client, &[execute("c", 1)]), "D(4) s Z(T)");
    is(&mut client, "move 1 in c", "C(MOVE 1) Z(T)");
    assert_eq!(ask(&mut client, &[execute("c", 0), execute("c", 1)]), "C(SELECT 0) C(SELECT 0) Z(T)");
    is(&mut client, "close c", "C(CLOSE CURSOR) Z(T)");
    is(&mut client, "savepoint s", "C(SAVEPOINT) Z(T)");
    let gone = "E(ERROR|34000|portal \"c\" does not exist) Z(E)";
    assert_eq!(ask(&mut client, &[execute("c", 0)]), gone);
    is(&mut client, "rollback to s", "C(ROLLBACK) Z(T)");
    is(&mut client, "declare d scroll cursor for select 7 as x", "C(DECLARE CURSOR) Z(T)");
    let run = [named(b'D', b'P', "d"), execute("d", 1), execute("d", 1)];
    assert_eq!(ask(&mut client, &run), "T(x:23:0) D(7) s C(SELECT 0) Z(T)");
    is(&mut client, "fetch prior from d", "T(x:23:0) D(7) C(FETCH 1) Z(T)");
    let taken = "E(ERROR|42P03|cursor \"d\" already exists) Z(E)";
    assert_eq!(ask(&mut client, &[bind("d", "g", &[], &[], &[])]), taken);
    is(&mut client, "rollback to s", "C(ROLLBACK) Z(T)");
    assert_eq!(ask(&mut client, &[bind("d", "g", &[], &[], &[]), named(b'C', b'P', "d")]), "2 3 Z(T)");
    is(&mut client, "fetch d", "E(ERROR|34000|cursor \"d\" does not exist) Z(E)");
    is(&mut client, "rollback", "C(ROLLBACK) Z(I)");
    // A cursor declared WITH HOLD outlives its transaction, a portal of the protocol does not.
    is(&mut client, "declare h cursor with hold for select 1 as x", "C(DECLARE CURSOR) Z(I)");
    assert_eq!(ask(&mut client, &[bind("p", "g", &[], &[], &[])]), "2 Z(I)");
    is(&mut client, "select name from pg_cursors where name <> ''", "T(name:25:0) D(h) C(SELECT 1) Z(I)");
    assert_eq!(ask(&mut client, &[execute("h", 0)]), "D(1) C(SELECT 1) Z(I)");
    // The name of a portal that `Sync` has closed stands for the next one.
    let run = [bind("c", "g", &[], &[], &[]), execute("c", 0)];
    for _ in 0..2 {
        assert_eq!(ask(&mut client, &run), "2 D(1) D(2) D(3) D(4) D(5) C(SELECT 5) Z(I)");
    }
}

pub fn cursors_in_binary() {
    let real = Real::new();
    let mut client = raw(&real);
    is(&mut client, "begin", "C(BEGIN) Z(T)");
    is(&mut client, "declare b binary cursor for select 258 as x", "C(DECLARE CURSOR) Z(T)");
    is(&mut client, "fetch b", "T(x:23:1) D([0, 0, 1, 2]) C(FETCH 1) Z(T)");
    is(&mut client, "rollback", "C(ROLLBACK) Z(I)");
}

/// A sleep delays no other session, and ends at once when it is cancelled.
pub fn a_sleep_is_cancelled() {
    let real = Real::new();
    real.runtime.block_on(async {
        let (client, other) = (real.client().await, real.client().await);
        let cancel = client.cancel_token();
        let cancels = async {
            let waits = "select 1 from pg_stat_activity where query like '%600%' and wait_event is not null and pid <> pg_backend_pid()";
            while other.query(waits, &[]).await.unwrap().is_empty() {}
            cancel.cancel_query(tokio_postgres::NoTls).await.unwrap();
        };
        let (result, ()) = tokio::join!(client.batch_execute("select pg_sleep(600)"), cancels);
        let error = result.unwrap_err();
        assert_eq!(error.as_db_error().unwrap().message(), "canceling statement due to user request");
        // A sleep takes the time that it is given, and may be repeated.
        client.batch_execute("select pg_sleep(0.001), pg_sleep(0.001)").await.unwrap();
    });
}
