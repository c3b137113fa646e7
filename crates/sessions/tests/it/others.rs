//! Effects of sessions on one another, and of a session that has disconnected.

use crate::real::Real;
use std::net::TcpStream;
use std::time::Duration;
use tokio_postgres::Client;
use wirekit::raw::{PATIENCE, Raw, bind, execute, message, parse, query, sync};

/// Connects a client that can send arbitrary messages.
pub fn raw(real: &Real) -> Raw<TcpStream> {
    let stream = TcpStream::connect(real.address).unwrap();
    stream.set_read_timeout(Some(PATIENCE)).unwrap();
    let mut raw = Raw { stream, pid: 0, secret: 0 };
    raw.start(&[("user", "postgres"), ("database", "postgres")]);
    raw
}

fn copy_data(text: &str) -> Vec<u8> {
    message(b'd', text.as_bytes())
}

/// Returns code and message of the error of a statement.
async fn refused(client: &Client, text: &str) -> String {
    let error = client.batch_execute(text).await.unwrap_err();
    let error = error.as_db_error().unwrap();
    format!("{} {}", error.code().code(), error.message())
}

/// Programs need not parse messages.
pub fn errors_say_what_they_are_about() {
    let real = Real::new();
    real.runtime.block_on(async {
        let client = real.client().await;
        client
            .batch_execute(
                "create schema s; create table s.parent (id int primary key);
                 create table s.child (id int constraint own_name unique, parent int references s.parent,
                    n int not null check (n > 0)); insert into s.parent values (1); insert into s.child values (1, 1, 1)",
            )
            .await
            .unwrap();
        for (text, column, constraint, table) in [
            ("insert into s.child values (1, 1, 1)", None, Some("own_name"), "child"),
            ("insert into s.child values (2, 7, 1)", None, Some("child_parent_fkey"), "child"),
            ("insert into s.child values (2, 1, 0)", None, Some("child_n_check"), "child"),
            ("insert into s.child values (2, 1, null)", Some("n"), None, "child"),
            ("delete from s.parent", None, Some("child_parent_fkey"), "child"),
            ("insert into s.parent values (1)", None, Some("parent_pkey"), "parent"),
            ("alter table s.child add constraint low check (n > 5)", None, Some("low"), "child"),
        ] {
            let error = client.batch_execute(text).await.unwrap_err();
            let error = error.as_db_error().unwrap();
            assert_eq!((error.schema(), error.table()), (Some("s"), Some(table)), "{text}: {error:?}");
            assert_eq!((error.column(), error.constraint()), (column, constraint), "{text}: {error:?}");
        }
        let error = client.batch_execute("select 1 / 0").await.unwrap_err();
        let error = error.as_db_error().unwrap();
        assert_eq!((error.schema(), error.table(), error.constraint()), (None, None, None));
    });
}

/// A wrong row is reported while the client waits, and a `Sync` after it ends the skipping.
pub fn a_copy_tells_of_a_wrong_row_at_once() {
    let real = Real::new();
    let mut client = raw(&real);
    client.ask(&query("create table t (id int primary key)"));
    let wrong = "E(ERROR|22P02|invalid input syntax for type integer: \"x\"|WCOPY t, line 2, column id: \"x\")";
    client.send(&query("copy t from stdin"));
    assert_eq!(client.next().unwrap(), "G(0,1)");
    client.send(&copy_data("1\nx\n"));
    assert_eq!(client.answer(), format!("{wrong} Z(I)"));
    assert_eq!(
        client.ask(&[copy_data("2\n"), message(b'c', b""), query("select 1")].concat()),
        "T(?column?:23:0) D(1) C(SELECT 1) Z(I)"
    );
    // In the extended protocol, with the next statement after it in one write.
    let begun = [parse("", "copy t from stdin", &[]), bind("", "", &[], &[], &[]), execute("", 0)].concat();
    client.send(
        &[
            begun,
            copy_data("1\nx\n"),
            sync(),
            parse("", "select 2", &[]),
            bind("", "", &[], &[], &[]),
            execute("", 0),
            sync(),
        ]
        .concat(),
    );
    assert_eq!(client.answer(), format!("1 2 G(0,1) {wrong} Z(I)"));
    assert_eq!(client.answer(), "1 2 D(2) C(SELECT 1) Z(I)");
    // A row that comes in parts is not wrong, whatever the pauses.
    client.send(&query("copy t from stdin"));
    assert_eq!(client.next().unwrap(), "G(0,1)");
    for part in ["1", "2\n3", "4", "\n"] {
        client.send(&copy_data(part));
        std::thread::sleep(Duration::from_millis(60));
    }
    client.send(&message(b'c', b""));
    assert_eq!(client.answer(), "C(COPY 2) Z(I)");
    assert_eq!(client.ask(&query("select sum(id) from t")), "T(sum:20:0) D(46) C(SELECT 1) Z(I)");
}

/// No statement of the COPY runs while the client pauses.
pub fn a_copy_is_cancelled_between_its_pieces() {
    let real = Real::new();
    real.runtime.block_on(async {
        let client = real.client().await;
        client.batch_execute("create table t (id int primary key)").await.unwrap();
        let mut copies = raw(&real);
        let pid = copies.pid;
        let text = |line: Option<String>| line.unwrap();
        // A cancel from another session.
        copies.send(&query("copy t from stdin"));
        assert_eq!(text(copies.next()), "G(0,1)");
        copies.send(&copy_data("1\n"));
        assert!(client.query_one("select pg_cancel_backend($1)", &[&pid]).await.unwrap().get::<_, bool>(0));
        copies.send(&copy_data("2\n"));
        assert_eq!(text(copies.next()), "E(ERROR|57014|canceling statement due to user request)");
        assert_eq!(copies.answer(), "Z(I)");
        // Data sent after that are ignored.
        assert_eq!(
            copies.ask(&[copy_data("3\n"), message(b'c', b""), query("select 1")].concat()),
            "T(?column?:23:0) D(1) C(SELECT 1) Z(I)"
        );
        // A statement timeout.
        copies.ask(&query("set statement_timeout = 50"));
        copies.send(&query("copy t from stdin"));
        assert_eq!(text(copies.next()), "G(0,1)");
        // Row after row, until the server answers.
        copies.stream.set_read_timeout(Some(Duration::from_millis(1))).unwrap();
        while copies.stream.peek(&mut [0]).is_err() {
            copies.send(&copy_data("4\n"));
        }
        copies.stream.set_read_timeout(Some(PATIENCE)).unwrap();
        assert_eq!(text(copies.next()), "E(ERROR|57014|canceling statement due to statement timeout)");
        assert_eq!(copies.answer(), "Z(I)");
        assert_eq!(client.query_one("select count(*) from t", &[]).await.unwrap().get::<_, i64>(0), 0);
    });
}

/// A session is ended in the way of an administrator.
pub fn one_session_ends_another() {
    let real = Real::new();
    real.runtime.block_on(async {
        let (one, two) = (real.client().await, real.client().await);
        let pid: i32 = two.query_one("select pg_backend_pid()", &[]).await.unwrap().get(0);
        one.batch_execute("create table t (id int primary key); insert into t values (1)").await.unwrap();
        one.batch_execute("begin; delete from t").await.unwrap();
        let waits = tokio::spawn(async move {
            let said = refused(&two, "delete from t").await;
            (two, said)
        });
        real.until("it waits", |engine| engine.locks().iter().any(|lock| !lock.granted)).await;
        let shown = one
            .query_one("select state, wait_event_type, query, datname, client_addr is not null from pg_stat_activity where pid = $1", &[&pid])
            .await
            .unwrap();
        assert_eq!((shown.get::<_, &str>(0), shown.get::<_, &str>(1)), ("active", "Lock"));
        assert_eq!((shown.get::<_, &str>(2), shown.get::<_, &str>(3)), ("delete from t", "postgres"));
        assert!(shown.get::<_, bool>(4));
        assert!(one.query_one("select pg_cancel_backend($1)", &[&pid]).await.unwrap().get::<_, bool>(0));
        let (two, said) = waits.await.unwrap();
        assert_eq!(said, "57014 canceling statement due to user request");
        two.batch_execute("begin; create table of_two (id int)").await.unwrap();
        assert!(one.query_one("select pg_terminate_backend($1)", &[&pid]).await.unwrap().get::<_, bool>(0));
        while !two.is_closed() {
            tokio::task::yield_now().await;
        }
        assert!(!one.query_one("select pg_terminate_backend($1)", &[&pid]).await.unwrap().get::<_, bool>(0));
        one.batch_execute("rollback; create table of_two (id int)").await.unwrap();
        // Other roles may end only their own sessions.
        one.batch_execute("create user ann; create user bob").await.unwrap();
        let (ann, bob) = (real.login("user=ann").await.unwrap(), real.login("user=bob").await.unwrap());
        let pid = |of: &'static str| {
            let one = &one;
            async move {
                let text = "select pid from pg_stat_activity where usename = $1 limit 1";
                one.query_one(text, &[&of]).await.unwrap().get::<_, i32>(0)
            }
        };
        let (of_bob, of_first, of_ann) = (pid("bob").await, pid("postgres").await, pid("ann").await);
        let said = refused(&ann, &format!("select pg_cancel_backend({of_bob})")).await;
        assert!(said.starts_with("42501 must be a member of the role whose query is being canceled"), "{said}");
        let said = refused(&ann, &format!("select pg_terminate_backend({of_first})")).await;
        assert_eq!(said, "42501 must be a superuser to terminate superuser process");
        assert!(bob.query_one("select 1", &[]).await.is_ok());
        drop(ann.query_one("select pg_terminate_backend($1)", &[&of_ann]).await);
        while !ann.is_closed() {
            tokio::task::yield_now().await;
        }
        assert_eq!(refused(&one, "listen channel").await, "0A000 LISTEN is not supported");
        assert_eq!(refused(&one, "notify channel").await, "0A000 NOTIFY is not supported");
        // A client that cannot listen may still send UNLISTEN.
        one.batch_execute("unlisten channel; unlisten *").await.unwrap();
    });
}

/// A client dies in a transaction, in a COPY in either direction, and while it waits for a lock.
pub fn a_dead_client_leaves_nothing() {
    let real = Real::new();
    real.runtime.block_on(async {
        let client = real.client().await;
        client
            .batch_execute("create table t (id int primary key, n int); insert into t values (1, 1), (2, 2)")
            .await
            .unwrap();
        client.batch_execute("create table big (id int primary key, t text)").await.unwrap();
        client
            .batch_execute("insert into big select n, repeat('x', 1000) from generate_series(1, 20000) n")
            .await
            .unwrap();
        client.batch_execute("begin; update t set n = 0 where id = 2").await.unwrap();
        let mut dying = Vec::new();
        for (texts, last) in [
            (vec!["begin; update t set n = 5 where id = 1; create table made (id int)"], None),
            (vec!["begin isolation level serializable; select * from t"], None),
            (
                vec!["copy big from stdin"],
                Some(copy_data(&(30_000..60_000).map(|id| format!("{id}\tx\n")).collect::<String>())),
            ),
            (vec!["copy big to stdout"], None),
            (vec!["select * from big"], None),
            (vec!["update t set n = 7 where id = 2"], None),
            // These do not end by themselves in any reasonable time.
            (vec!["begin; insert into t values (3, 3); select count(*) from generate_series(1, 1000000) a, generate_series(1, 1000000) b"], None),
            (vec!["select count(*) from generate_series(1, 1000000) a, generate_series(1, 1000000) b"], None),
            (vec!["begin; declare c cursor for select * from big; fetch 10 from c"], None),
        ] {
            let mut one = raw(&real);
            for text in texts {
                one.send(&query(text));
            }
            one.send(&last.unwrap_or_default());
            dying.push(one);
        }
        real.until("one waits", |engine| engine.locks().iter().any(|lock| !lock.granted)).await;
        drop(dying);
        // A statement that gets its lock before the server knows of the client's death is finished, as in PostgreSQL.
        real.until("nobody waits", |engine| engine.locks().iter().all(|lock| lock.granted)).await;
        client.batch_execute("rollback").await.unwrap();
        let others = "select count(*) from pg_stat_activity where pid <> pg_backend_pid()";
        let begun = std::time::Instant::now();
        while client.query_one(others, &[]).await.unwrap().get::<_, i64>(0) != 0 {
            assert!(begun.elapsed() < PATIENCE, "sessions are left");
            tokio::task::yield_now().await;
        }
        real.until("no transaction is open", |engine| engine.transactions().is_empty()).await;
        real.until("nothing is locked", |engine| engine.locks().is_empty()).await;
        let row = client.query_one("select sum(n), (select count(*) from big) from t", &[]).await.unwrap();
        assert_eq!((row.get::<_, i64>(0), row.get::<_, i64>(1)), (3, 20_000));
        client.batch_execute("create table made (id int); drop table made, t, big").await.unwrap();
    });
}
