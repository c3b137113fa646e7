//! Definitions concurrent with the work of other sessions.

#![allow(clippy::unwrap_used, reason = "a test")]

use engine::{Engine, EngineConfig};
use settings::Connect;
use sql::session::{Database, Outcome, Portal, Session, Step};
use statement::{SqlError, SqlResult};
use types::Datum;

struct Client(Session);

fn client(database: &Database) -> Client {
    let wishes = Connect { user: "postgres".into(), database: "postgres".into(), ..Connect::default() };
    Client(database.connect(wishes).unwrap())
}

impl Client {
    fn start(&mut self, text: &str) -> SqlResult<(Portal, Step)> {
        let statement = self.0.prepare(text, &[])?;
        let mut portal = self.0.bind(&statement, Vec::new())?;
        let step = self.0.execute(&mut portal)?;
        Ok((portal, step))
    }

    /// Starts a statement that must wait.
    fn parks(&mut self, text: &str) -> Portal {
        let (portal, step) = self.start(text).unwrap();
        assert!(matches!(step, Step::Parked(_)), "{text} does not wait");
        portal
    }

    fn goes_on(&mut self, mut portal: Portal) -> SqlResult<Outcome> {
        let result = self.0.execute(&mut portal).map(|step| step.done().expect("the wait is over"));
        self.end(result)
    }

    fn run(&mut self, text: &str) -> SqlResult<Outcome> {
        let result = self.start(text).map(|(_, step)| step.done().expect("nothing to wait for"));
        self.end(result)
    }

    fn end(&mut self, result: SqlResult<Outcome>) -> SqlResult<Outcome> {
        if result.is_err() {
            self.0.fail();
        }
        let synced = self.0.sync();
        let outcome = result?;
        synced.map(|()| outcome)
    }

    fn rows(&mut self, text: &str) -> Vec<Vec<i32>> {
        let Outcome::Rows(rows, _) = self.run(text).unwrap() else { panic!("{text} has no rows") };
        let number = |value: &Datum| match value {
            Datum::Int4(number) => *number,
            Datum::Null => -1,
            other => panic!("{other:?}"),
        };
        rows.iter().map(|row| row.iter().map(number).collect()).collect()
    }
}

fn two() -> (Client, Client) {
    let database = Database::new(Engine::new(EngineConfig::in_memory()));
    let (mut one, other) = (client(&database), client(&database));
    one.run("create table t (a int primary key)").unwrap();
    one.run("insert into t values (1)").unwrap();
    (one, other)
}

fn state(result: Result<Outcome, SqlError>) -> &'static str {
    result.unwrap_err().state().0
}

#[test]
fn what_was_written_while_a_definition_waited_is_copied() {
    let (mut writer, mut definer) = two();
    for isolation in ["read committed", "repeatable read"] {
        writer.run("begin").unwrap();
        writer.run("insert into t (a) values (2)").unwrap();
        definer.run(&format!("begin isolation level {isolation}")).unwrap();
        assert_eq!(definer.rows("select a from t"), [[1]]);
        let waits = definer.parks("alter table t add column b int default 7");
        writer.run("commit").unwrap();
        if isolation == "repeatable read" {
            // The snapshot does not see that row.
            assert_eq!(state(definer.goes_on(waits)), "40001");
            definer.run("rollback").unwrap();
            break;
        }
        definer.goes_on(waits).unwrap();
        assert_eq!(definer.rows("select a, b from t order by a"), [[1, 7], [2, 7]]);
        definer.run("commit").unwrap();
        assert_eq!(writer.rows("select a, b from t order by a"), [[1, 7], [2, 7]], "{isolation}");
        writer.run("alter table t drop column b").unwrap();
        writer.run("delete from t where a = 2").unwrap();
    }
}

#[test]
fn who_waited_to_write_writes_to_the_table_as_it_is_then() {
    let (mut definer, mut writer) = two();
    definer.run("begin").unwrap();
    definer.run("alter table t add column b int default 7").unwrap();
    // Nobody sees the change, and readers do not wait.
    assert_eq!(writer.rows("select * from t"), [[1]]);
    let waits = writer.parks("insert into t values (2)");
    definer.run("commit").unwrap();
    writer.goes_on(waits).unwrap();
    assert_eq!(writer.rows("select * from t order by a"), [[1, 7], [2, 7]]);

    definer.run("begin").unwrap();
    definer.run("drop table t").unwrap();
    let waits = writer.parks("insert into t values (3)");
    definer.run("commit").unwrap();
    assert_eq!(state(writer.goes_on(waits)), "42P01");
}

#[test]
fn a_definition_that_is_rolled_back_was_never_there() {
    let (mut definer, mut writer) = two();
    definer.run("begin").unwrap();
    definer.run("alter table t add column b int default 7").unwrap();
    definer.run("insert into t values (5, 5)").unwrap();
    let waits = writer.parks("insert into t values (2)");
    definer.run("rollback").unwrap();
    writer.goes_on(waits).unwrap();
    assert_eq!(definer.rows("select * from t order by a"), [[1], [2]]);
}

#[test]
fn definitions_wait_for_each_other_and_none_is_lost() {
    let (mut one, mut other) = two();
    one.run("begin").unwrap();
    one.run("create table first (a int)").unwrap();
    let waits = other.parks("create table second (a int)");
    one.run("commit").unwrap();
    other.goes_on(waits).unwrap();
    assert_eq!(one.rows("select * from first, second"), Vec::<Vec<i32>>::new());

    one.run("begin").unwrap();
    one.run("create table third (a int)").unwrap();
    let waits = other.parks("create table third (a int)");
    one.run("commit").unwrap();
    assert_eq!(state(other.goes_on(waits)), "42P07");
}

#[test]
fn a_snapshot_keeps_its_catalog() {
    let (mut old, mut new) = two();
    old.run("begin isolation level repeatable read").unwrap();
    assert_eq!(old.rows("select 1"), [[1]]);
    new.run("alter table t add column b int default 7").unwrap();
    new.run("insert into t values (2, 8)").unwrap();
    assert_eq!(old.rows("select * from t"), [[1]]);
    assert_eq!(state(old.run("insert into t values (3)")), "40001");
    old.run("rollback").unwrap();
    assert_eq!(old.rows("select * from t order by a"), [[1, 7], [2, 8]]);
}

#[test]
fn dropped_tables_leave_nothing_in_the_engine() {
    let database = Database::new(Engine::new(EngineConfig::in_memory()));
    let mut client = client(&database);
    let before = database.engine().tables().len();
    for _ in 0..20 {
        client.run("create table t (a int primary key, s serial)").unwrap();
        client.run("insert into t select g from generate_series(1, 100) g").unwrap();
        client.run("alter table t add column b int").unwrap();
        client.run("alter sequence t_s_seq increment 2").unwrap();
        client.run("create index on t (b)").unwrap();
        client.run("truncate t").unwrap();
        assert_eq!(database.engine().tables().len(), before + 2, "the table, and what stands for its sequence");
        client.run("drop table t").unwrap();
        client.run("begin").unwrap();
        client.run("create table t (a serial)").unwrap();
        client.run("rollback").unwrap();
    }
    assert_eq!(database.engine().tables().len(), before);
}

#[test]
fn a_transaction_takes_its_snapshot_when_its_first_statement_has_its_locks() {
    for isolation in ["repeatable read", "serializable"] {
        let (mut one, mut other) = two();
        one.run("begin").unwrap();
        one.run("alter table t add column b int default 7").unwrap();
        one.run("insert into t values (2, 8)").unwrap();
        other.run(&format!("begin isolation level {isolation}")).unwrap();
        let waits = other.parks("update t set a = 3 where a = 2");
        one.run("commit").unwrap();
        other.goes_on(waits).unwrap();
        assert_eq!(other.rows("select * from t order by a"), [[1, 7], [3, 8]]);
        other.run("commit").unwrap();

        // A transaction that has a snapshot keeps it.
        other.run(&format!("begin isolation level {isolation}")).unwrap();
        assert_eq!(other.rows("select 1"), [[1]]);
        one.run("begin").unwrap();
        one.run("alter table t drop column b").unwrap();
        let waits = other.parks("update t set a = 3 where a = 2");
        one.run("commit").unwrap();
        assert_eq!(state(other.goes_on(waits)), "40001");
        other.run("rollback").unwrap();
    }
}

#[test]
fn an_old_snapshot_writes_by_new_definitions_of_the_same_rows() {
    let (mut old, mut new) = two();
    for change in [
        "alter table t rename to u",
        "alter table u rename to t",
        "alter table t add constraint small check (a < 9)",
        "alter table t drop constraint small",
    ] {
        old.run("begin isolation level repeatable read").unwrap();
        assert_eq!(old.rows("select 1"), [[1]]);
        new.run(change).unwrap();
        let name = if change.ends_with("to u") { "u" } else { "t" };
        old.run(&format!("update {name} set a = 1 where a = 1")).unwrap();
        old.run("commit").unwrap();
    }
    // A foreign key that is newer than the snapshot still refuses the delete.
    old.run("begin isolation level repeatable read").unwrap();
    assert_eq!(old.rows("select a from t"), [[1]]);
    new.run("create table c (a int references t)").unwrap();
    new.run("insert into c values (1)").unwrap();
    assert!(["23503", "40001"].contains(&state(old.run("delete from t"))));
}

#[test]
fn columns_that_were_told_do_not_change() {
    let (mut definer, mut reader) = two();
    definer.run("begin").unwrap();
    definer.run("alter table t add column b int default 7").unwrap();
    // The statement is prepared, and the client knows its columns.
    let waits = reader.parks("select * from t for update");
    definer.run("commit").unwrap();
    let error = reader.goes_on(waits).unwrap_err();
    assert_eq!((error.state().0, error.message()), ("0A000", "cached plan must not change result type"));
}

#[test]
fn changes_of_roles_are_their_transactions_own_until_it_commits() {
    let database = Database::new(Engine::new(EngineConfig::in_memory()));
    let (mut one, mut other) = (client(&database), client(&database));
    one.run("create role app").unwrap();
    let is = |session: &mut Client, what: &str| {
        let count = format!("select count(*)::int from pg_roles where rolname = 'app' and {what}");
        session.rows(&count) == [[1]]
    };
    for commits in [true, false] {
        // Several statements of one message.
        one.start("alter role app login").unwrap();
        one.start("create role fresh").unwrap();
        assert!(!is(&mut other, "rolcanlogin"), "seen before the commit");
        let (_, seen) = one.start("select 1 from pg_roles where rolname = 'app' and rolcanlogin").unwrap();
        assert!(matches!(seen.done(), Some(Outcome::Rows(rows, _)) if rows.len() == 1), "not seen by its transaction");
        other.run("alter role app createdb createrole").unwrap();
        match commits {
            true => one.run("select 1").map(drop).unwrap(),
            false => assert_eq!(state(one.run("select 1 / 0")), "22012"),
        }
        assert_eq!(is(&mut other, "rolcanlogin"), commits);
        assert!(is(&mut other, "rolcreatedb and rolcreaterole"), "lost");
        assert_eq!(other.rows("select count(*)::int from pg_roles where rolname = 'fresh'"), [[i32::from(commits)]]);
        if commits {
            other.run("drop role fresh").unwrap();
            other.run("alter role app nologin nocreatedb nocreaterole").unwrap();
        }
    }
    // A role keeps the OID that its own transaction has seen, whatever roles others create before its commit.
    let number = "select oid::int from pg_roles where rolname = 'numbered'";
    one.start("create role numbered").unwrap();
    let (_, seen) = one.start(number).unwrap();
    other.run("create role sooner").unwrap();
    one.0.sync().unwrap();
    let Some(Outcome::Rows(seen, _)) = seen.done() else { panic!("a query waits") };
    assert!(matches!(seen[0][0], Datum::Int4(seen) if other.rows(number) == [[seen]]), "{seen:?}");
    assert!(other.rows("select count(*)::int from pg_roles group by oid having 1 < count(*)").is_empty());
    // The changes of other sessions do not allow the statement any more.
    one.start("alter role app login").unwrap();
    other.run("drop role app").unwrap();
    let unchecked = one.start("create table t (a int)").map(drop).and_then(|()| one.0.sync());
    assert_eq!(unchecked.unwrap_err().state().0, "42704");
    assert_eq!(state(other.run("select * from t")), "42P01");
}
