//! Goal: statements that meet rows which others are changing do what PostgreSQL 15 does at READ COMMITTED. Method: a
//! table of scripts of two sessions, of which the second waits for the first; each script names the remaining rows.
//! With `OVERTAKE_SLT_URL` the same scripts run on that PostgreSQL.
#![allow(missing_docs, clippy::unwrap_used, reason = "a test fails by panicking")]

use engine::{Engine, EngineConfig};
use settings::Connect;
use sql::session::{Database, Outcome, Portal, Session, Step};
use types::forms::Forms;
use types::text;

const BEGIN: &str = "create table t (id int primary key, n int, s text);
    create table u (id int, n int);
    insert into t values (1, 10, 'a'), (2, 20, 'b'), (3, 30, 'c');
    insert into u values (1, 100), (2, 200);
    create table p (id int primary key);
    create table c (id int, p int references p);
    create sequence numbers;
    insert into p values (1), (2)";

/// Scripts: the statements of the first session in a transaction that it commits while the second waits, the statement
/// of the second, its rows or its error, and the rows of `t` at the end.
const SCRIPTS: &[(&str, &str, &str, &str)] = &[
    // The condition and the new value are computed from the latest version of the row.
    ("update t set n = 11 where id = 1", "update t set n = n + 1 where n = 10 returning n", "", "1 11 a;2 20 b;3 30 c"),
    (
        "update t set n = 11 where id = 1",
        "update t set n = n + 1 where n < 20 returning n",
        "12",
        "1 12 a;2 20 b;3 30 c",
    ),
    ("delete from t where id = 1", "update t set n = 0 where id < 3 returning id", "2", "2 0 b;3 30 c"),
    ("update t set n = 99 where id = 1", "delete from t where n < 25 returning id", "2", "1 99 a;3 30 c"),
    ("update t set n = 12 where id = 1", "delete from t where n < 15 returning n", "12", "2 20 b;3 30 c"),
    // FOR KEY SHARE concerns the keys only, and returns the row of the snapshot; FOR SHARE returns the latest version.
    (
        "select pg_advisory_xact_lock(1); update t set n = 11 where id = 1",
        "select n from t where id = 1 and pg_advisory_xact_lock(1) is not null for key share",
        "10",
        "1 11 a;2 20 b;3 30 c",
    ),
    (
        "select pg_advisory_xact_lock(1); update t set n = 11 where id = 1",
        "select n from t where id = 1 and pg_advisory_lock(1) is not null for share",
        "11",
        "1 11 a;2 20 b;3 30 c",
    ),
    // A statement that waits twice takes its session locks once.
    (
        "select pg_advisory_xact_lock(1)",
        "select (pg_advisory_lock(2) is null)::text || (pg_advisory_lock(1) is null)::text || pg_advisory_unlock(2)::text \
         || pg_advisory_unlock(2)::text || pg_advisory_unlock(1)::text || pg_advisory_unlock(1)::text",
        "falsefalsetruefalsetruefalse",
        "1 10 a;2 20 b;3 30 c",
    ),
    // Taking a value waits for a new definition, whose values come next; a definition waits for transactions that have
    // taken values.
    ("alter sequence numbers restart with 7", "select nextval('numbers')", "7", "1 10 a;2 20 b;3 30 c"),
    (
        "alter sequence numbers increment 5",
        "insert into u values (nextval('numbers')) returning id",
        "1",
        "1 10 a;2 20 b;3 30 c",
    ),
    ("select nextval('numbers')", "alter sequence numbers restart with 7", "", "1 10 a;2 20 b;3 30 c"),
    ("select setval('numbers', 9)", "drop sequence numbers", "", "1 10 a;2 20 b;3 30 c"),
    // Maintenance commands wait as if they had something to do.
    ("lock t in share update exclusive mode", "vacuum t", "", "1 10 a;2 20 b;3 30 c"),
    ("update t set n = 11 where id = 1", "reindex table t", "", "1 11 a;2 20 b;3 30 c"),
    ("lock t in share mode", "analyze t", "", "1 10 a;2 20 b;3 30 c"),
    // Adding a foreign key that is not validated excludes writers; validating it does not.
    (
        "insert into c values (1, 1)",
        "alter table c add foreign key (p) references p not valid",
        "",
        "1 10 a;2 20 b;3 30 c",
    ),
    // DO NOTHING depends on a key that stays: it waits for a delete and for a change of the key, and for nothing else.
    (
        "delete from t where id = 1",
        "insert into t values (1, 7, 'x') on conflict do nothing returning n",
        "7",
        "1 7 x;2 20 b;3 30 c",
    ),
    (
        "update t set id = 9 where id = 1",
        "insert into t values (1, 7, 'x') on conflict (id) do nothing returning n",
        "7",
        "1 7 x;2 20 b;3 30 c;9 10 a",
    ),
    (
        "delete from t where id = 1; insert into t values (1, 5, 'y')",
        "insert into t values (1, 7, 'x') on conflict do nothing returning n",
        "",
        "1 5 y;2 20 b;3 30 c",
    ),
    // Subqueries see the snapshot.
    (
        "update t set n = 11 where id = 1",
        "update t set n = n + (select max(n) from t) where id = 1 and exists (select 1 from u where u.id = t.id) returning n",
        "41",
        "1 41 a;2 20 b;3 30 c",
    ),
    (
        "update t set n = 11 where id = 1",
        "update t set n = 0 where n = (select n from t x where x.id = t.id) returning id",
        "2;3",
        "1 11 a;2 0 b;3 0 c",
    ),
    // Other tables are seen as of the snapshot.
    (
        "update t set n = 11 where id = 1; update u set n = 1000",
        "update t set n = t.n + u.n from u where u.id = t.id and t.n > 0 returning t.n, u.n",
        "111 100;220 200",
        "1 111 a;2 220 b;3 30 c",
    ),
    (
        "update t set n = -1 where id = 1",
        "delete from t using u where u.id = t.id and t.n > 0 returning t.id, u.n",
        "2 200",
        "1 -1 a;3 30 c",
    ),
    (
        "update t set n = 11 where id = 1",
        "update t set (n, s) = (select t.n + u.n, 'u' from u where u.id = t.id) where id = 1 returning n",
        "111",
        "1 111 u;2 20 b;3 30 c",
    ),
    // The snapshot does not see the key.
    (
        "insert into t values (4, 40, 'd')",
        "insert into t values (4, 1, 'x') on conflict (id) do update set n = t.n + excluded.n returning n, s",
        "41 d",
        "1 10 a;2 20 b;3 30 c;4 41 d",
    ),
    (
        "insert into t values (4, 40, 'd')",
        "insert into t values (4, 1, 'x'), (5, 5, 'y') on conflict do nothing returning id",
        "5",
        "1 10 a;2 20 b;3 30 c;4 40 d;5 5 y",
    ),
    (
        "delete from t where id = 3",
        "insert into t values (3, 1, 'x') on conflict (id) do update set n = t.n + excluded.n returning n, s",
        "1 x",
        "1 10 a;2 20 b;3 1 x",
    ),
    (
        "update t set n = 31 where id = 3",
        "insert into t values (3, 1, 'x') on conflict (id) do update set n = t.n + 1 where t.n = 30 returning n",
        "",
        "1 10 a;2 20 b;3 31 c",
    ),
    ("insert into t values (4, 40, 'd')", "insert into t values (4, 1, 'x')", "23505", "1 10 a;2 20 b;3 30 c;4 40 d"),
    // A statement that waits for a table sees the rows committed meanwhile, in the table's latest version.
    (
        "alter table t add column w int default 4",
        "update t set n = 7 where id = 2 returning n",
        "7",
        "1 10 a 4;2 7 b 4;3 30 c 4",
    ),
    ("alter table t alter column n type bigint", "delete from t where n < 25 returning id", "1;2", "3 30 c"),
    ("alter table t add column w int", "select * from t where id = 1 for update", "1 10 a ", ALL_WIDE),
    ("alter table t add column w int", "insert into t values (4, 1, 'x') returning *", "4 1 x ", ALL_WIDE_4),
    ("alter table t drop column n", "update t set s = 'z' where id = 1 returning *", "1 z", "1 z;2 b;3 c"),
    (
        "alter table t add column w int",
        "update t set n = u.n from u where u.id = t.id returning t.n",
        "100;200",
        FROM_U,
    ),
    (
        "alter table t add column w int",
        "with f as (select id from t where n < 25 for update) select count(*) from f",
        "2",
        ALL_WIDE,
    ),
    ("drop table t", "update t set n = 0", "42P01", "42P01"),
    ("truncate t; insert into t values (7, 70, 'g')", "delete from t returning id", "7", ""),
    (
        "drop table t; create table t (id int primary key, n int, s text); insert into t values (1, 5, 'e'), (2, 6, 'f')",
        "update t set n = 0 where id = 2 returning n",
        "0",
        "1 5 e;2 0 f",
    ),
    (
        "lock table t; create table v as select id, n + 100 as n, s from t; drop table t; alter table v rename to t",
        "update t set n = n + 7 where id < 3 returning n",
        "117;127",
        "1 117 a;2 127 b;3 130 c",
    ),
    (
        "lock table t; insert into t values (4, 40, 'd')",
        "delete from t where 20 < n returning id",
        "3;4",
        "1 10 a;2 20 b",
    ),
    (
        "lock table t; update u set n = 5",
        "update t set n = (select sum(n) from u) where id = 1 returning n",
        "10",
        NEW_SUM,
    ),
    (
        "lock table t; delete from u",
        "insert into t select id + 9, n, 'u' from u returning id",
        "",
        "1 10 a;2 20 b;3 30 c",
    ),
    (
        "lock table t; update t set n = 11 where id = 1",
        "select n from t where id = 1 for share",
        "11",
        "1 11 a;2 20 b;3 30 c",
    ),
    // The referenced table was altered, and the referenced row deleted with that.
    (
        "alter table p add column w int; delete from p where id = 2",
        "insert into c values (1, 2)",
        "23503",
        "1 10 a;2 20 b;3 30 c",
    ),
    (
        "alter table c add column w int; insert into c values (3, 1)",
        "delete from p where id = 1",
        "23503",
        "1 10 a;2 20 b;3 30 c",
    ),
    // The statement takes one number, however often it is run again.
    (
        "insert into t values (4, 40, 'd')",
        "insert into t values (4, nextval('numbers'), 'x') on conflict (id) do update set n = excluded.n returning n",
        "1",
        "1 10 a;2 20 b;3 30 c;4 1 d",
    ),
];

const ALL_WIDE: &str = "1 10 a ;2 20 b ;3 30 c ";
const ALL_WIDE_4: &str = "1 10 a ;2 20 b ;3 30 c ;4 1 x ";
const FROM_U: &str = "1 100 a ;2 200 b ;3 30 c ";
const NEW_SUM: &str = "1 10 a;2 20 b;3 30 c";

struct Client(Session);

fn client(database: &Database) -> Client {
    let wishes = Connect { user: "postgres".into(), database: "postgres".into(), ..Connect::default() };
    Client(database.connect(wishes).unwrap())
}

impl Client {
    fn portal(&mut self, text: &str) -> Portal {
        let statement = self.0.prepare_once(text, &[]).unwrap();
        self.0.bind(&statement, Vec::new()).unwrap()
    }

    fn run(&mut self, text: &str) -> String {
        let mut all = String::new();
        for part in self.0.split(text).unwrap() {
            let mut portal = self.portal(&part.text);
            all = match self.0.execute(&mut portal) {
                Ok(Step::Done(outcome)) => shown(outcome),
                Ok(_) => panic!("{} waits", part.text),
                Err(error) => error.state().0.to_owned(),
            };
        }
        let ended = self.0.sync();
        ended.map_or_else(|error| error.state().0.to_owned(), |()| all)
    }
}

fn shown(outcome: Outcome) -> String {
    let Outcome::Rows(rows, _) = outcome else { return String::new() };
    let kind = types::SqlType::from(types::Kind::Text);
    let value = |value: &types::Datum| text::to_string(value, kind, &Forms::default());
    let mut rows: Vec<String> = rows.iter().map(|row| row.iter().map(value).collect::<Vec<_>>().join(" ")).collect();
    rows.sort();
    rows.join(";")
}

const ALL: &str = "select * from t";

fn here((first, second, ..): &(&str, &str, &str, &str)) -> (String, String) {
    let database = Database::new(Engine::new(EngineConfig::in_memory()));
    let (mut one, mut other) = (client(&database), client(&database));
    one.run(BEGIN);
    one.run("begin");
    one.run(first);
    let mut portal = other.portal(second);
    let Ok(Step::Parked(parked)) = other.0.execute(&mut portal) else { panic!("{second} does not wait") };
    one.run("commit");
    parked.wait();
    let result = loop {
        match other.0.execute(&mut portal) {
            Ok(Step::Parked(parked)) => parked.wait(),
            Ok(Step::Done(outcome)) => break shown(outcome),
            Ok(_) => panic!("a COPY"),
            Err(error) => break error.state().0.to_owned(),
        }
    };
    other.0.sync().unwrap();
    (result, one.0.prepare(ALL, &[]).map_or_else(|error| error.state().0.to_owned(), |_| one.run(ALL)))
}

fn there(url: &str, (first, second, ..): &(&str, &str, &str, &str)) -> (String, String) {
    use tokio_postgres::{NoTls, SimpleQueryMessage, connect};
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
    let rows = |messages: Vec<SimpleQueryMessage>| {
        let mut rows = Vec::new();
        for message in messages {
            if let SimpleQueryMessage::Row(row) = message {
                rows.push((0..row.len()).map(|at| row.get(at).unwrap_or_default()).collect::<Vec<_>>().join(" "));
            }
        }
        rows.sort();
        rows.join(";")
    };
    runtime.block_on(async {
        let (one, connection) = connect(url, NoTls).await.unwrap();
        tokio::spawn(connection);
        let (other, connection) = connect(url, NoTls).await.unwrap();
        tokio::spawn(connection);
        let path =
            "set client_min_messages = error; create schema if not exists concurrent; set search_path = concurrent;";
        one.batch_execute(&format!(
            "{path} drop table if exists t, u, c, p, v; drop sequence if exists numbers; {BEGIN}"
        ))
        .await
        .unwrap();
        other.batch_execute(path).await.unwrap();
        one.batch_execute(&format!("begin; {first}")).await.unwrap();
        let pid = rows(other.simple_query("select pg_backend_pid()").await.unwrap());
        let waiting = tokio::spawn({
            let second = (*second).to_owned();
            async move { other.simple_query(&second).await }
        });
        // The other process waits, and reports that in its locks.
        while rows(one.simple_query(&format!("select 1 where pg_blocking_pids({pid}) <> '{{}}'")).await.unwrap()) != "1"
        {
        }
        one.batch_execute("commit").await.unwrap();
        let result = match waiting.await.unwrap() {
            Ok(messages) => rows(messages),
            Err(error) => error.code().unwrap().code().to_owned(),
        };
        let left = match one.simple_query(ALL).await {
            Ok(messages) => rows(messages),
            Err(error) => error.code().unwrap().code().to_owned(),
        };
        (result, left)
    })
}

#[test]
fn who_waits_goes_on_with_the_newest_rows() {
    let peer = std::env::var("OVERTAKE_SLT_URL").ok();
    let mut wrong = Vec::new();
    for script in SCRIPTS {
        let found = peer.as_ref().map_or_else(|| here(script), |url| there(url, script));
        if found != (script.2.to_owned(), script.3.to_owned()) {
            wrong.push((script, found));
        }
    }
    assert!(wrong.is_empty(), "{wrong:#?}");
}

/// Runs a statement to its end on this thread.
fn finish(client: &mut Client, text: &str) -> Result<String, String> {
    let told = |error: statement::SqlError| format!("{} {}", error.state().0, error.message());
    let statement = client.0.prepare_once(text, &[]).map_err(told)?;
    let mut portal = client.0.bind(&statement, Vec::new()).map_err(told)?;
    let result = loop {
        match client.0.execute(&mut portal) {
            Ok(Step::Parked(parked)) => parked.wait(),
            Ok(Step::Done(Outcome::Done(tag))) => break Ok(format!("{:?}", tag.rows)),
            Ok(Step::Done(outcome)) => break Ok(shown(outcome)),
            Ok(_) => panic!("a COPY"),
            Err(error) => break Err(told(error)),
        }
    };
    client.0.sync().map_err(told)?;
    result
}

/// Goal: the report of a deadlock over keys names the transactions that were waited for, and no table. Method: two
/// sessions insert the keys that the other one has inserted.
#[test]
fn a_deadlock_over_keys_is_one_of_transactions() {
    let database = Database::new(Engine::new(EngineConfig::in_memory()));
    let (mut one, mut two) = (client(&database), client(&database));
    one.run("create table first (id int primary key); create table keys (id int primary key)");
    for (client, key) in [(&mut one, 10), (&mut two, 11)] {
        finish(client, "begin").unwrap();
        finish(client, &format!("insert into keys values ({key})")).unwrap();
    }
    let begin = |client: &mut Client, text: &str| {
        let statement = client.0.prepare_once(text, &[]).unwrap();
        client.0.bind(&statement, Vec::new()).unwrap()
    };
    let mut waits = begin(&mut one, "insert into keys values (11)");
    assert!(matches!(one.0.execute(&mut waits), Ok(Step::Parked(_))));
    let mut closes = begin(&mut two, "insert into keys values (10)");
    let error = loop {
        match two.0.execute(&mut closes) {
            Ok(Step::Parked(parked)) => parked.wait(),
            Ok(_) => panic!("it is no deadlock"),
            Err(error) => break error,
        }
    };
    assert_eq!(error.state().0, "40P01");
    let detail = error.detail_text().unwrap();
    for line in detail.lines() {
        let (what, number) = line.split_once(" on transaction ").unwrap_or_else(|| panic!("{line}"));
        assert_eq!(what, "Process 0 waits for ShareLock");
        let (number, by) = number.split_once("; ").unwrap();
        assert_eq!((number.parse::<u32>().is_ok(), by), (true, "blocked by process 0."));
    }
    assert_eq!(detail.lines().count(), 2);
}

/// Goal: no change is lost beside definitions, and nobody sees half of a transaction that contains one. Method:
/// sessions on threads of their own increment counters and read two sums between which transactions with an ALTER TABLE
/// move parts.
#[test]
fn nothing_is_lost_beside_definitions() {
    const INCREMENTS: usize = 400;
    let database = Database::new(Engine::new(EngineConfig::in_memory()));
    let mut one = client(&database);
    one.run("create table a (id int primary key, v int); create table b (v int); create table m (id int primary key, v int)");
    one.run("insert into a select g, 100 from generate_series(1, 10) g; insert into b values (0)");
    one.run("insert into m select g, 0 from generate_series(1, 500) g");
    let writers_count = 4;
    let left = std::sync::atomic::AtomicUsize::new(writers_count);
    let is_over = || left.load(std::sync::atomic::Ordering::SeqCst) == 0;
    std::thread::scope(|scope| {
        for writer in 0..writers_count {
            let (mut own, left) = (client(&database), &left);
            scope.spawn(move || {
                for at in 0..INCREMENTS {
                    let id = 1 + (at * 7 + writer * 131) % 500;
                    let done = finish(&mut own, &format!("update m set v = v + 1 where id = {id}"));
                    assert_eq!(done.as_deref(), Ok("Some(1)"));
                }
                left.fetch_sub(1, std::sync::atomic::Ordering::SeqCst);
            });
        }
        // Neither the writers nor the reader run definitions, so none of their statements may fail.
        let mut reader = client(&database);
        scope.spawn(move || {
            while !is_over() {
                let sum = "select (select sum(v) from a) + (select sum(v) from b)";
                assert_eq!(finish(&mut reader, sum).as_deref(), Ok("1000"));
                let own =
                    ["begin isolation level repeatable read", sum, "commit"].map(|text| finish(&mut reader, text));
                assert_eq!(own[1].as_deref(), Ok("1000"));
            }
        });
        let mut mover = client(&database);
        scope.spawn(move || {
            for at in 0.. {
                if is_over() {
                    break;
                }
                for text in [
                    "begin",
                    &format!("alter table m add column c{at} int"),
                    &format!("alter table a add column c{at} int"),
                    "update a set v = v - 1 where id = 1",
                    "update b set v = v + 1",
                    "commit",
                    &format!("alter table m drop column c{at}"),
                    &format!("alter table a drop column c{at}"),
                ] {
                    finish(&mut mover, text).unwrap();
                }
            }
        });
    });
    assert_eq!(finish(&mut one, "select sum(v) from m"), Ok((writers_count * INCREMENTS).to_string()));
}

/// Goal: the definitions of one session stay, whatever another rolls back to a savepoint. Method: one session rolls
/// back to before its first definition, or a statement fails after it, the other creates a table and fills it, and the
/// first commits.
#[test]
fn a_definition_that_was_taken_back_takes_no_other_with_it() {
    let definitions = [
        "create table x (i int)",
        "create table x (i int); savepoint b; insert into x values (1); rollback to b; savepoint c",
        "create index on t (n)",
        "create view w as select id from t",
        "create sequence s; select nextval('s')",
        "alter table t add column extra int default 7",
        "alter table t alter column n type bigint",
        "alter sequence numbers restart with 70",
        "truncate t restart identity",
        "drop table t cascade",
        "comment on table t is 'ours'",
    ];
    let fails = "select 1 / 0";
    let mut wrong = Vec::new();
    for definition in definitions {
        for (ends, is_early) in [("", false), (fails, false), (fails, true)] {
            // A failed statement is undone at once, except for definitions before its savepoint.
            if is_early && definition.contains("savepoint") {
                continue;
            }
            for last in ["", "create table z (i int)"] {
                let database = Database::new(Engine::new(EngineConfig::in_memory()));
                let (mut one, mut other) = (client(&database), client(&database));
                one.run(BEGIN);
                one.run("begin; savepoint a");
                one.run(definition);
                if !ends.is_empty() {
                    assert_eq!(one.run(ends), "22012");
                }
                if !is_early {
                    one.run("rollback to a");
                }
                other.run("create table y (i int); insert into y values (1); alter table u add column w int default 5");
                if is_early {
                    one.run("rollback to a");
                }
                if !last.is_empty() {
                    one.run(last);
                }
                one.run("commit");
                let mut left = vec![other.run("table y"), one.run("select max(w) from u"), one.run(ALL)];
                left.push(one.run("select count(*) from pg_class where relname in ('x', 'w', 's', 'z')"));
                let count = if last.is_empty() { "0" } else { "1" };
                if left != ["1", "5", "1 10 a;2 20 b;3 30 c", count] {
                    wrong.push((definition, ends, is_early, last, left));
                }
            }
        }
    }
    assert!(wrong.is_empty(), "{wrong:#?}");
}
