//! Goal: statements do what they do on PostgreSQL 15. Method: the files under `tests/slt`, in the format of
//! sqllogictest, each of which also holds on PostgreSQL; here each runs on a database of its own. With
//! `OVERTAKE_SLT_URL` set to the address of a PostgreSQL (`host=/tmp/pg15 port=55432 user=postgres`) they run there,
//! each in a new schema; with `OVERTAKE_SLT_ONLY` only those whose path contains its value.
#![allow(missing_docs, clippy::unwrap_used, reason = "a test fails by panicking")]

#[path = "errors/mod.rs"]
mod errors;
#[path = "generated/mod.rs"]
mod generated;
#[path = "written/mod.rs"]
mod written;

use engine::{Engine, EngineConfig};
use settings::Connect;
use sql::session::{Database, Outcome, Session, Step};
use sqllogictest::{DB, DBOutput, DefaultColumnType, Runner};
use statement::{SqlError, SqlResult};
use types::SqlType;
use types::text;

struct Client(Session);

fn wishes() -> Connect {
    Connect { user: "postgres".into(), database: "postgres".into(), ..Connect::default() }
}

/// Result of a statement: rows as texts, `None` for NULL.
#[derive(Default)]
struct Given {
    kinds: Option<Vec<SqlType>>,
    rows: Vec<Vec<Option<String>>>,
    count: u64,
}

impl Client {
    fn new() -> Client {
        let database = Database::new(Engine::new(EngineConfig::in_memory()));
        Client(database.connect(wishes()).unwrap())
    }

    fn give(&mut self, statement: &str) -> SqlResult<Given> {
        let session = &mut self.0;
        let statement = session.prepare(statement, &[])?;
        let mut portal = session.bind(&statement, Vec::new())?;
        let outcome = loop {
            match session.execute(&mut portal)? {
                Step::Done(outcome) => break outcome,
                Step::Parked(ticket) => ticket.wait(),
                Step::CopyIn(_) | Step::CopyOut(_) => return Ok(Given::default()),
            }
        };
        Ok(match outcome {
            Outcome::Rows(rows, _) => {
                let kinds: Vec<_> = statement.columns().unwrap().iter().map(|column| column.kind).collect();
                let forms = session.forms();
                let cell = |(value, kind): (&types::Datum, &SqlType)| match value {
                    types::Datum::Null => None,
                    value => Some(text::to_string(value, *kind, forms)),
                };
                let rows = rows.iter().map(|row| row.iter().zip(&kinds).map(cell).collect()).collect();
                Given { kinds: Some(kinds), rows, count: 0 }
            }
            Outcome::Done(tag) => Given { count: tag.rows.unwrap_or(0), ..Given::default() },
            Outcome::Streamed(_) => panic!("nobody has asked for a stream"),
            Outcome::Empty => Given::default(),
        })
    }

    fn run_one(&mut self, statement: &str) -> SqlResult<DBOutput<DefaultColumnType>> {
        let Given { kinds, rows, count } = self.give(statement)?;
        let rows = rows.into_iter().map(|row| row.into_iter().map(|cell| shown(cell.as_deref())).collect()).collect();
        Ok(match kinds {
            Some(kinds) => DBOutput::Rows { types: vec![DefaultColumnType::Any; kinds.len()], rows },
            None => DBOutput::StatementComplete(count),
        })
    }
}

/// Returns a value in the form of the files.
fn shown(cell: Option<&str>) -> String {
    match cell {
        None => "NULL".to_owned(),
        Some("") => "(empty)".to_owned(),
        Some(text) => text.to_owned(),
    }
}

impl DB for Client {
    type Error = SqlError;
    type ColumnType = DefaultColumnType;

    fn run(&mut self, sql: &str) -> SqlResult<DBOutput<DefaultColumnType>> {
        let mut last = DBOutput::StatementComplete(0);
        for part in self.0.split(sql).inspect_err(|_| self.0.fail())? {
            let result = self.run_one(&part.text);
            if result.is_err() {
                self.0.fail();
                self.0.sync().unwrap();
            }
            last = result?;
        }
        self.0.sync()?;
        Ok(last)
    }

    fn engine_name(&self) -> &'static str {
        "overtake"
    }

    fn error_sql_state(error: &SqlError) -> Option<String> {
        Some(error.state().0.to_owned())
    }
}

/// Session with a real PostgreSQL.
struct Peer {
    runtime: tokio::runtime::Runtime,
    client: tokio_postgres::Client,
}

impl Peer {
    fn connect(url: &str, schema: &str) -> Peer {
        let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap();
        let (client, connection) = runtime.block_on(tokio_postgres::connect(url, tokio_postgres::NoTls)).unwrap();
        runtime.spawn(connection);
        let begin = format!("create schema if not exists {schema}; set search_path = {schema}; set timezone = utc");
        runtime.block_on(client.batch_execute(&begin)).unwrap();
        Peer { runtime, client }
    }
}

/// Error with its message.
#[derive(Debug)]
struct Told(tokio_postgres::Error);

impl std::fmt::Display for Told {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self.0.as_db_error() {
            Some(error) => f.write_str(error.message()),
            None => self.0.fmt(f),
        }
    }
}

impl std::error::Error for Told {}

impl DB for Peer {
    type Error = Told;
    type ColumnType = DefaultColumnType;

    fn run(&mut self, sql: &str) -> Result<DBOutput<DefaultColumnType>, Told> {
        use tokio_postgres::SimpleQueryMessage;
        let mut last = DBOutput::StatementComplete(0);
        let mut rows = Vec::new();
        let mut columns = None;
        for message in self.runtime.block_on(self.client.simple_query(sql)).map_err(Told)? {
            match message {
                SimpleQueryMessage::RowDescription(described) => columns = Some(described.len()),
                SimpleQueryMessage::Row(row) => {
                    rows.push((0..row.len()).map(|at| shown(row.get(at))).collect());
                }
                SimpleQueryMessage::CommandComplete(count) => {
                    last = match columns.take() {
                        Some(width) => {
                            let types = vec![DefaultColumnType::Any; width];
                            DBOutput::Rows { types, rows: std::mem::take(&mut rows) }
                        }
                        None => DBOutput::StatementComplete(count),
                    };
                }
                _ => {}
            }
        }
        Ok(last)
    }

    fn engine_name(&self) -> &'static str {
        "postgres"
    }

    fn error_sql_state(error: &Told) -> Option<String> {
        error.0.code().map(|code| code.code().to_owned())
    }
}

#[test]
fn statements_do_what_they_do_on_postgresql() {
    let peer = std::env::var("OVERTAKE_SLT_URL").ok();
    let only = std::env::var("OVERTAKE_SLT_ONLY").ok();
    let mut count = 0;
    for entry in std::fs::read_dir("tests/slt").unwrap() {
        let path = entry.unwrap().path();
        if only.as_ref().is_some_and(|only| !path.to_string_lossy().contains(only.as_str())) {
            continue;
        }
        // Any error would match, even an internal one.
        let bare = std::fs::read_to_string(&path).unwrap().lines().any(|line| line.trim_end() == "statement error");
        assert!(!bare, "{}: an error that is expected has a SQLSTATE or words", path.display());
        if let Some(url) = &peer {
            let schema = format!("slt_{}_{count}", std::process::id());
            let mut runner = Runner::new(|| {
                let peer = Peer::connect(url, &schema);
                async { Ok(peer) }
            });
            runner.run_file(&path).unwrap_or_else(|error| panic!("{error}"));
            count += 1;
            continue;
        }
        let database = Database::new(Engine::new(EngineConfig::in_memory()));
        let mut runner = Runner::new(|| {
            let session = database.connect(wishes());
            async { session.map(Client) }
        });
        runner.run_file(&path).unwrap_or_else(|error| panic!("{error}"));
        count += 1;
    }
    assert!(5 <= count || only.is_some(), "the files are there");
}

/// Goal: `client_min_messages` is as the statement has left it.
#[test]
fn clients_are_sent_the_messages_that_they_want() {
    let mut client = Client::new();
    for (level, wanted) in [
        ("debug5", &["NOTICE", "WARNING"][..]),
        ("log", &["NOTICE", "WARNING"]),
        ("info", &["NOTICE", "WARNING"]),
        ("notice", &["NOTICE", "WARNING"]),
        ("warning", &["WARNING"]),
        ("error", &[]),
    ] {
        client.run(&format!("set client_min_messages = {level}")).unwrap();
        client.run("drop table if exists nothing").unwrap();
        client.run("commit").unwrap();
        let sent: Vec<&str> = client.0.take_notices().into_iter().map(|(severity, _)| severity).collect();
        assert_eq!(sent, wanted, "{level}");
    }
}

/// Goal: a signal to nobody is told, though the statement succeeds.
#[test]
fn a_signal_to_an_unknown_process_is_warned_of() {
    let mut client = Client::new();
    for function in ["pg_cancel_backend", "pg_terminate_backend"] {
        client.run(&format!("select {function}(999999)")).unwrap();
        let notices = client.0.take_notices();
        let sent: Vec<(&str, &str)> = notices.iter().map(|(severity, notice)| (*severity, notice.message())).collect();
        assert_eq!(sent, [("WARNING", "PID 999999 is not a PostgreSQL backend process")]);
    }
}

/// Goal: errors have PostgreSQL's message and position, which a client shows.
#[test]
fn errors_say_what_postgresql_says() {
    let mut client = Client::new();
    client.run("create table t (id int primary key, owner varchar(10) not null unique)").unwrap();
    client.run("insert into t values (1, 'anna')").unwrap();
    for (statement, message, position) in [
        ("select 1 / 0", "division by zero", None),
        ("select 2147483647 + 1", "integer out of range", None),
        ("select 1 from from t", "syntax error at or near \"from\"", Some(15)),
        ("select * from nowhere", "relation \"nowhere\" does not exist", Some(15)),
        ("select nobody from t", "column \"nobody\" does not exist", Some(8)),
        ("select x.id from t", "missing FROM-clause entry for table \"x\"", Some(8)),
        (
            "select owner, count(*) from t",
            "column \"t.owner\" must appear in the GROUP BY clause or be used in an aggregate function",
            Some(8),
        ),
        ("select id from t a, t b", "column reference \"id\" is ambiguous", Some(8)),
        ("select 1 from t, t", "table name \"t\" specified more than once", None),
        ("select 1 limit -1", "LIMIT must not be negative", None),
        ("savepoint a", "SAVEPOINT can only be used in transaction blocks", None),
        ("rollback to a", "ROLLBACK TO SAVEPOINT can only be used in transaction blocks", None),
        ("set nothing = 1", "unrecognized configuration parameter \"nothing\"", None),
        ("select 'x'::int", "invalid input syntax for type integer: \"x\"", Some(8)),
        ("insert into t values (1, 'x')", "duplicate key value violates unique constraint \"t_pkey\"", None),
        ("insert into t values (2, 'anna')", "duplicate key value violates unique constraint \"t_owner_key\"", None),
        (
            "insert into t (id) values (4)",
            "null value in column \"owner\" of relation \"t\" violates not-null constraint",
            None,
        ),
        ("insert into t values (4, 'longer than ten')", "value too long for type character varying(10)", None),
        ("insert into t values (4, 'x', 1)", "INSERT has more expressions than target columns", Some(31)),
        (
            "insert into t values (true, 'x')",
            "column \"id\" is of type integer but expression is of type boolean",
            Some(23),
        ),
        ("update t set nothing = 1", "column \"nothing\" of relation \"t\" does not exist", Some(14)),
        ("create table t (a int)", "relation \"t\" already exists", None),
        ("create table u (a int, a int)", "column \"a\" specified more than once", None),
        ("create table u (a nothing)", "type \"nothing\" does not exist", Some(19)),
    ] {
        let error = client.run(statement).map(drop).unwrap_err();
        assert_eq!((error.message(), error.position()), (message, position), "{statement}");
    }
    let error = client.run("insert into t values (1, 'x')").map(drop).unwrap_err();
    assert_eq!(error.detail_text(), Some("Key (id)=(1) already exists."));
    client
        .run(
            "create table pair (a int, b int, c int, primary key (a, b)); insert into pair values (1, 2, 3), (2, 2, 4)",
        )
        .unwrap();
    let error = client.run("update pair set a = a + 1 where c = 3").map(drop).unwrap_err();
    assert_eq!(error.detail_text(), Some("Key (a, b)=(2, 2) already exists."));
    let error = client.run("update t set owner = null").map(drop).unwrap_err();
    assert_eq!(error.detail_text(), Some("Failing row contains (1, null)."));
    let error = client.run("insert into t (id) values (4)").map(drop).unwrap_err();
    assert_eq!(error.detail_text(), Some("Failing row contains (4, null)."));
    client
        .run(
            "create table parent (id int primary key, a int, b int, unique (a, b)); create table child (id int, parent_id \
             int references parent, x int constraint positive check (x > 0), foreign key (id, x) references parent (a, b) \
             match full on delete restrict); insert into parent values (1, 2, 3); insert into child values (2, 1, 3)",
        )
        .unwrap();
    let child = "insert or update on table \"child\" violates foreign key constraint ";
    let parent = "update or delete on table \"parent\" violates foreign key constraint ";
    for (statement, message, detail) in [
        (
            "insert into child values (null, 7, null)",
            format!("{child}\"child_parent_id_fkey\""),
            "Key (parent_id)=(7) is not present in table \"parent\".",
        ),
        (
            "insert into child values (1, 1, null)",
            format!("{child}\"child_id_x_fkey\""),
            "MATCH FULL does not allow mixing of null and nonnull key values.",
        ),
        (
            "update child set id = 1, x = 1",
            format!("{child}\"child_id_x_fkey\""),
            "Key (id, x)=(1, 1) is not present in table \"parent\".",
        ),
        (
            "insert into child values (2, 1, 0)",
            "new row for relation \"child\" violates check constraint \"positive\"".to_owned(),
            "Failing row contains (2, 1, 0).",
        ),
        (
            "delete from parent",
            format!("{parent}\"child_parent_id_fkey\" on table \"child\""),
            "Key (id)=(1) is still referenced from table \"child\".",
        ),
        (
            "update parent set a = 5",
            format!("{parent}\"child_id_x_fkey\" on table \"child\""),
            "Key (a, b)=(2, 3) is still referenced from table \"child\".",
        ),
    ] {
        let error = client.run(statement).map(drop).unwrap_err();
        assert_eq!((error.message(), error.detail_text()), (&*message, Some(detail)), "{statement}");
    }
}
