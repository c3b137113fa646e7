//! Goal: a call by key, and a statement on one row that code makes, do what the same statement of a client does: rows,
//! errors, and the table afterwards. Method: random sequences of calls of linked code over one table, and the same
//! statements, made by a session, over a table like it. The session's run by the operators of their plans.

#![allow(missing_docs, clippy::unwrap_used, reason = "a test")]

#[path = "support/mod.rs"]
mod support;

use engine::{Engine, EngineConfig, Log, LogPosition, Redo, RedoWhat};
use procs::native::{NativeCall, NativeModule, NativeRuntime};
use procs::{EngineCalls, Runtimes, StatementHandle, TableHandle};
use sql::session::{Database, Outcome, Session, Step};
use statement::{SqlError, SqlResult, SqlState};
use std::fmt::Write;
use std::ops::ControlFlow;
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::Duration;
use types::Datum;

/// Module that runs a list of calls with one row.
struct Steps;

const TABLE: TableHandle = TableHandle(0);

/// Statement of the manifest, with the letter of its step and the positions of its parameters in the row.
struct StepStatement {
    letter: char,
    text: &'static str,
    parameters: &'static [usize],
}

/// Names of the row's values in the statements of a session.
const VALUES: [&str; 5] = ["{id}", "{part}", "{amount}", "{note}", "{big}"];

const fn step(letter: char, text: &'static str, parameters: &'static [usize]) -> StepStatement {
    StepStatement { letter, text, parameters }
}

/// Statements; capitals are calls by key.
const STATEMENTS: [StepStatement; 19] = [
    step('G', "SELECT id, part, amount, note, big FROM {t}.kept WHERE id = $1 AND part = $2", &[0, 1]),
    step('L', "SELECT id, part, amount, note, big FROM {t}.kept WHERE id = $1 AND part = $2 FOR UPDATE", &[0, 1]),
    step(
        'P',
        "INSERT INTO {t}.kept (id, part, amount, note, big) VALUES ($1, $2, $3, $4, $5) ON CONFLICT (id, part) DO UPDATE \
         SET amount = EXCLUDED.amount, note = EXCLUDED.note, big = EXCLUDED.big",
        &[0, 1, 2, 3, 4],
    ),
    step('I', "INSERT INTO {t}.kept (id, part, amount, note, big) VALUES ($1, $2, $3, $4, $5)", &[0, 1, 2, 3, 4]),
    step('D', "DELETE FROM {t}.kept WHERE id = $1 AND part = $2", &[0, 1]),
    step('g', "SELECT big, note FROM {t}.kept WHERE part = $2 AND id = $1", &[0, 1]),
    step('l', "SELECT note, amount FROM {t}.kept WHERE id = $1 AND part = $2 FOR NO KEY UPDATE", &[0, 1]),
    step('u', "UPDATE {t}.kept SET amount = amount + $3, note = $4 WHERE id = $1 AND part = $2", &[0, 1, 2, 3]),
    step(
        'r',
        "UPDATE {t}.kept SET amount = amount - $3, word = note WHERE id = $1 AND part = $2 RETURNING big, amount * 2, \
         word, num",
        &[0, 1, 2],
    ),
    step('k', "UPDATE {t}.kept SET big = $3 WHERE id = $1 AND part = $2", &[0, 1, 4]),
    step('n', "INSERT INTO {t}.kept (id, part, big) VALUES ($1, $2, $3) RETURNING num, word, amount, big", &[0, 1, 4]),
    step('m', "UPDATE {t}.kept SET id = id + 1, note = NULL WHERE id = $1 AND part = $2 RETURNING id", &[0, 1]),
    step('z', "UPDATE {t}.kept SET big = $3 / (big - 3) WHERE id = $1 AND part = $2", &[0, 1, 4]),
    step(
        'c',
        "INSERT INTO {t}.kept AS t (id, part, amount, big) VALUES ($1, $2, $3, $4) ON CONFLICT (id, part) DO UPDATE SET \
         amount = t.amount + EXCLUDED.amount WHERE t.part::text <> '2' RETURNING amount, part",
        &[0, 1, 2, 4],
    ),
    step('e', "INSERT INTO {t}.kept (id, part, big) VALUES ($1, $2, $3) ON CONFLICT DO NOTHING", &[0, 1, 4]),
    step('d', "DELETE FROM {t}.kept WHERE id = $1 AND part = $2 RETURNING note, big", &[0, 1]),
    step('q', "UPDATE {t}.kept SET (amount, note) = (SELECT 1.5, 'q') WHERE id = $1 AND part = $2", &[0, 1]),
    step('s', "UPDATE {t}.kept SET num = DEFAULT, word = DEFAULT WHERE id = $1 AND part = $2 RETURNING num", &[0, 1]),
    step('w', "UPDATE {t}.kept SET word = word || note, amount = DEFAULT WHERE id = $1 AND part = $2", &[0, 1]),
];

fn manifest(schema: &str) -> String {
    let mut text = format!("overtake 1\ntable kept {schema}.kept (id, part, amount, note, big)\n");
    for (number, StepStatement { text: of, .. }) in STATEMENTS.iter().enumerate() {
        writeln!(text, "statement s{number} {}", of.replace("{t}", schema)).unwrap();
    }
    text + "entry run"
}

/// Appends what a step has done: its rows, and the number of rows that it has changed.
fn show(all: &mut String, letter: char, rows: &[String], changed: Option<u64>) {
    write!(all, "{letter} {rows:?}{};", changed.map_or(String::new(), |changed| format!(" {changed}"))).unwrap();
}

fn run_step(engine: &mut dyn EngineCalls, letter: char, row: &[Datum]) -> SqlResult<(Vec<String>, Option<u64>)> {
    let mut rows = Vec::new();
    let mut keep = |row: &[Datum]| {
        rows.push(format!("{row:?}"));
        Ok(ControlFlow::Continue(()))
    };
    match letter {
        'G' | 'L' => engine.get(TABLE, &row[..2], letter == 'L', &mut keep).map(|_| None),
        'P' | 'I' => engine.put(TABLE, row, letter == 'I').map(|()| Some(1)),
        'D' => engine.delete(TABLE, &row[..2]).map(|was_there| Some(u64::from(was_there))),
        letter => {
            let number = STATEMENTS.iter().position(|of| of.letter == letter).unwrap();
            let of = &STATEMENTS[number];
            let parameters: Vec<Datum> = of.parameters.iter().map(|at| row[*at].clone()).collect();
            let statement = StatementHandle(number as u16);
            // Both ways to the rows of a statement.
            let executed = match (letter as u32).is_multiple_of(2) {
                true => engine.query(statement, &parameters, &mut |_, row| keep(row))?,
                false => {
                    let executed = engine.execute(statement, &parameters)?;
                    if let Some(cursor) = executed.cursor {
                        assert!(engine.next(cursor, 10, &mut keep)?);
                    }
                    executed
                }
            };
            Ok((!of.text.starts_with("SELECT")).then_some(executed.rows))
        }
    }
    .map(|changed| (rows, changed))
}

impl NativeModule for Steps {
    fn name(&self) -> &'static str {
        "steps"
    }

    fn manifest(&self) -> &'static str {
        "overtake 1\nentry run"
    }

    fn call(&self, call: NativeCall<'_>, engine: &mut dyn EngineCalls) -> SqlResult<Vec<Datum>> {
        let [Datum::Text(steps), row @ ..] = call.arguments else {
            return Err(SqlError::new(SqlState::INTERNAL_ERROR, "arguments of another type"));
        };
        let mut all = String::new();
        for letter in steps.chars() {
            let (rows, changed) = run_step(engine, letter, row)?;
            show(&mut all, letter, &rows, changed);
        }
        Ok(vec![Datum::text(all)])
    }
}

/// Runs a statement of a session. Returns its rows, and the number of rows that it has changed.
fn run_one(session: &mut Session, text: &str) -> SqlResult<(Vec<String>, Option<u64>)> {
    let statement = session.prepare(text, &[])?;
    let mut portal = session.bind(&statement, Vec::new())?;
    let done = loop {
        match session.execute(&mut portal) {
            Ok(Step::Parked(parked)) => parked.wait(),
            Ok(Step::Done(outcome)) => break Ok(outcome),
            Ok(Step::CopyIn(_) | Step::CopyOut(_)) => panic!("no COPY"),
            Err(error) => break Err(error),
        }
    };
    let synced = session.sync();
    let is_query = text.starts_with("SELECT");
    match done? {
        Outcome::Rows(rows, tag) => {
            synced?;
            Ok((rows.iter().map(|row| format!("{row:?}")).collect(), tag.rows.filter(|_| !is_query)))
        }
        Outcome::Done(tag) => {
            synced?;
            Ok((Vec::new(), tag.rows))
        }
        _ => panic!("another outcome of {text}"),
    }
}

/// All that an error says.
fn said(error: &SqlError) -> String {
    format!("{} {} ({:?})", error.state(), error.message(), error.detail_text()).replace("by_key", "by_statement")
}

/// Values of a row, as literals.
type Row = [String; 5];

/// Runs steps by a call of the code.
fn by_key(session: &mut Session, steps: &str, row: &Row) -> String {
    match support::run(session, &format!("SELECT by_key('{steps}', {})", row.join(", "))) {
        Ok(rows) => match &*rows[0] {
            [Datum::Text(text)] => text.to_string(),
            other => panic!("{other:?}"),
        },
        Err(error) => said(&error),
    }
}

/// Runs the same steps as statements of the session, in one transaction.
fn by_statement(session: &mut Session, steps: &str, row: &Row) -> String {
    let mut all = String::new();
    support::run(session, "BEGIN").unwrap();
    for letter in steps.chars() {
        let of = STATEMENTS.iter().find(|of| of.letter == letter).unwrap();
        let mut text = of.text.replace("{t}", "by_statement");
        for (number, at) in of.parameters.iter().enumerate() {
            text = text.replace(&format!("${}", number + 1), VALUES[*at]);
        }
        for (name, value) in VALUES.iter().zip(row) {
            text = text.replace(name, value);
        }
        match run_one(session, &text) {
            Ok((rows, changed)) => {
                // A put of a row is one change, whatever it finds.
                show(&mut all, letter, &rows, if letter == 'P' { Some(1) } else { changed });
            }
            Err(error) => {
                support::run(session, "ROLLBACK").unwrap();
                return said(&error);
            }
        }
    }
    if let Err(error) = support::run(session, "COMMIT") {
        return said(&error);
    }
    all
}

/// Kind of a table.
struct Shape {
    /// Further columns and constraints.
    more: &'static str,
    /// Statements afterwards.
    then: &'static str,
    /// Type of the key's second column.
    part: &'static str,
}

const SHAPES: [Shape; 7] = [
    Shape { more: "", then: "", part: "int" },
    Shape { more: ", check (amount < 1000), check (note <> 'abcd')", then: "", part: "int" },
    Shape {
        more: ", foreign key (part) references {t}.parent on delete cascade",
        then: "insert into {t}.parent values (1), (2), (-5)",
        part: "int",
    },
    Shape {
        more: "",
        then: "create table {t}.child (id int, part int, foreign key (id, part) references {t}.kept on update cascade);
               create table {t}.other (big bigint references {t}.kept (big));
               insert into {t}.kept (id, part, big) values (1, 1, 3), (2, 1, 100), (2, 2, 101);
               insert into {t}.child values (2, 1); insert into {t}.other values (101)",
        part: "int",
    },
    Shape {
        more: "",
        then: "create index on {t}.kept (amount, note); alter table {t}.kept alter note set not null",
        part: "int",
    },
    Shape { more: "", then: "", part: "text" },
    Shape {
        more: ", a int default 1, b int default 2, c int, d int, e int, f int, g int, h int, i text default 'i', j text",
        then: "",
        part: "smallint",
    },
];

fn set_up(session: &mut Session, shape: &Shape) {
    for schema in ["by_key", "by_statement"] {
        let Shape { more, then, part } = shape;
        let text = format!(
            "create schema {{t}}; create table {{t}}.parent (part int primary key); create sequence {{t}}.numbers;
             create table {{t}}.kept (id int, part {part}, amount numeric(6, 2) default 1.5, note char(4),
                 big bigint not null unique, word varchar(5) default 'w', num bigint default nextval('{{t}}.numbers'),
                 own int generated by default as identity, primary key (id, part){more});
             {then}"
        );
        support::run(session, &text.replace("{t}", schema)).unwrap();
    }
    let manifest = manifest("by_key");
    support::run(
        session,
        &format!(
            "create module steps manifest $${manifest}$$ artifact native 'steps';
             create function by_key(text, int, {}, numeric, bpchar, bigint) returns text language native as
                 'steps', 'run';",
            shape.part
        ),
    )
    .unwrap();
}

fn database_over(engine: Engine) -> Database {
    let native = NativeRuntime::new(vec![Arc::new(Steps)]);
    Database::new(engine).with_runtimes(Arc::new(Runtimes::new(vec![Arc::new(native)])))
}

fn database() -> Database {
    database_over(Engine::new(EngineConfig::in_memory()))
}

/// Numbers that look random.
struct Numbers(u64);

impl Numbers {
    fn below(&mut self, bound: u64) -> u64 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) % bound
    }

    fn one_of<'t>(&mut self, all: &[&'t str]) -> &'t str {
        all[self.below(all.len() as u64) as usize]
    }

    /// Returns a row. Most keys are few, so that rows are met again.
    fn row(&mut self, part: &str) -> Row {
        let id = self.one_of(&["1", "2", "1", "2", "3", "-2147483648", "2147483647", "null"]);
        let part_value = match part {
            "text" => self.one_of(&["''", "'a'", "'a '", "null"]),
            _ => self.one_of(&["1", "2", "1", "2", "-5", "null"]),
        };
        let amount = self.one_of(&["null", "0.00", "1234.50", "-0.01", "9999.99", "7"]);
        let note = self.one_of(&["null", "'ab  '", "'abcd'", "'x   '"]);
        let big = self.one_of(&["null", "1", "2", "3", "4", "5", "6", "7", "8"]);
        [
            format!("({id})::int"),
            format!("({part_value})::{part}"),
            format!("({amount})::numeric(6, 2)"),
            format!("{note}::char(4)"),
            format!("{big}::bigint"),
        ]
    }
}

fn content(session: &mut Session, schema: &str) -> String {
    let mut all = String::new();
    for (table, order) in [("kept", "1, 2"), ("parent", "1"), ("child", "1, 2"), ("other", "1")] {
        match support::run(session, &format!("select * from {schema}.{table} order by {order}")) {
            Ok(rows) => write!(all, "{rows:?}").unwrap(),
            // Not all shapes have this table.
            Err(error) => assert_eq!(error.state().0, "42P01"),
        }
    }
    all
}

#[test]
fn calls_do_what_their_statements_do() {
    let mut numbers = Numbers(42);
    for shape in &SHAPES {
        let database = database();
        let session = &mut support::connect(&database);
        set_up(session, shape);
        let (mut errors, mut changes) = (0, 0);
        for isolation in ["read committed", "repeatable read", "serializable"] {
            support::run(session, &format!("set default_transaction_isolation = '{isolation}'")).unwrap();
            for _ in 0..250 {
                let letters: Vec<String> = STATEMENTS.iter().map(|of| of.letter.to_string()).collect();
                let letters: Vec<&str> = letters.iter().map(|letter| &**letter).collect();
                let steps: String = (0..=numbers.below(4)).map(|_| numbers.one_of(&letters)).collect();
                let row = numbers.row(shape.part);
                let outcome = by_key(session, &steps, &row);
                assert_eq!(outcome, by_statement(session, &steps, &row), "{steps} {row:?} at {isolation}");
                errors += usize::from(outcome.starts_with("23"));
                changes += outcome.matches(" 1;").count();
            }
            assert_eq!(content(session, "by_key"), content(session, "by_statement"), "{isolation}");
        }
        assert!(50 < errors && 50 < changes, "{errors} errors and {changes} changes are too few");
    }
}

/// Returns a row whose values are these.
fn row_of(values: [&str; 5]) -> Row {
    let [id, part, amount, note, big] = values;
    [
        format!("({id})::int"),
        format!("({part})::int"),
        format!("({amount})::numeric(6, 2)"),
        format!("{note}::char(4)"),
        format!("{big}::bigint"),
    ]
}

#[test]
fn a_call_that_waits_does_what_its_statement_does_then() {
    let changes = [
        "update {t}.kept set big = 7, amount = 3",
        "update {t}.kept set part = 2, big = 8",
        "delete from {t}.kept",
        "update {t}.kept set note = 'y'; rollback",
    ];
    let row = row_of(["1", "1", "1", "'x   '", "5"]);
    let mut waits = 0;
    for isolation in ["read committed", "repeatable read", "serializable"] {
        for steps in ["L", "P", "I", "D", "u", "r", "k", "m", "z", "c", "e", "d"] {
            for change in changes {
                let engine = Engine::new(EngineConfig::in_memory());
                let database = database_over(engine.clone());
                set_up(&mut support::connect(&database), &SHAPES[0]);
                let mut outcomes = Vec::new();
                for (schema, runs) in
                    [("by_key", by_key as fn(&mut Session, &str, &Row) -> String), ("by_statement", by_statement)]
                {
                    let session = &mut support::connect(&database);
                    support::run(session, &format!("insert into {schema}.kept values (1, 1, 2, 'x', 5)")).unwrap();
                    support::run(session, &format!("set default_transaction_isolation = '{isolation}'")).unwrap();
                    let other = &mut support::connect(&database);
                    let text = format!("begin; {}", change.replace("{t}", schema));
                    let (text, end) =
                        text.split_once("; rollback").map_or((&*text, "commit"), |(text, _)| (text, "rollback"));
                    support::run(other, text).unwrap();
                    let outcome = thread::scope(|scope| {
                        let waiting = scope.spawn(|| runs(session, steps, &row));
                        while !waiting.is_finished() && engine.locks().iter().all(|lock| lock.granted) {
                            thread::sleep(Duration::from_millis(1));
                        }
                        waits += usize::from(!waiting.is_finished());
                        support::run(other, end).unwrap();
                        waiting.join().unwrap()
                    });
                    outcomes.push((outcome, content(other, schema)));
                }
                let [by_key, by_statement] = &outcomes[..] else { panic!("two ways") };
                assert_eq!(by_key, by_statement, "{steps} beside {change} at {isolation}");
            }
        }
    }
    assert!(200 < waits, "{waits} waits are too few");
}

#[test]
fn what_a_call_has_changed_is_undone_with_its_block() {
    let database = database();
    let session = &mut support::connect(&database);
    set_up(session, &SHAPES[0]);
    let row = row_of(["1", "1", "1", "'x   '", "3"]);
    assert_eq!(by_key(session, "I", &row), "I [] 1;");
    let before = content(session, "by_key");
    for steps in ["u", "D", "P", "k", "m", "du", "DI"] {
        support::run(session, "begin; savepoint s").unwrap();
        by_key(session, steps, &row_of(["1", "1", "2", "'z   '", "6"]));
        assert_ne!(content(session, "by_key"), before, "{steps}");
        support::run(session, "rollback to s").unwrap();
        assert_eq!(content(session, "by_key"), before, "{steps}");
        by_key(session, steps, &row_of(["1", "1", "2", "'z   '", "6"]));
        support::run(session, "rollback").unwrap();
        assert_eq!(content(session, "by_key"), before, "{steps}");
    }
    // The last step fails, and nothing of those before is left.
    for steps in ["uz", "rz", "kz", "Pz", "DIz"] {
        let outcome = by_key(session, steps, &row_of(["1", "1", "2", "'z   '", "3"]));
        assert_eq!(&outcome[..5], "22012", "{steps}");
        assert_eq!(content(session, "by_key"), before, "{steps}");
    }
    support::run(session, "begin read only").unwrap();
    assert_eq!(&by_key(session, "u", &row)[..5], "25006");
    support::run(session, "rollback").unwrap();
}

#[test]
fn rights_and_definitions_count_at_each_call() {
    let database = database();
    let owner = &mut support::connect(&database);
    set_up(owner, &SHAPES[0]);
    let session = &mut support::connect(&database);
    support::run(owner, "create role alice; grant usage on schema by_key to alice").unwrap();
    support::run(owner, "grant usage on sequence by_key.numbers to alice").unwrap();
    let row = row_of(["1", "1", "1", "'x   '", "5"]);
    let state = |session: &mut Session, steps: &str| by_key(session, steps, &row)[..5].to_owned();
    support::run(session, "set role alice").unwrap();
    let denied = "42501";
    let is_denied = |outcome: &str| outcome == denied;
    for step in ["I", "L", "u", "k", "G", "D", "P", "n", "d"] {
        assert_eq!(state(session, step), denied, "{step}");
    }
    // Each right in turn, with the steps that it suffices for together with those before.
    for (right, allowed) in [
        ("insert (id, part, amount, note, big)", "I"),
        ("select (id, part)", "D"),
        ("delete", "D"),
        ("select (amount, note, big)", "G"),
        ("update (amount)", ""),
        ("update (note)", "u"),
        ("update (big)", "kLP"),
    ] {
        support::run(owner, &format!("grant {right} on by_key.kept to alice")).unwrap();
        for step in allowed.chars().filter(|step| *step != 'D' || right == "delete") {
            support::run(owner, "delete from by_key.kept").unwrap();
            assert!(!is_denied(&state(session, &step.to_string())), "{step} with {right}");
        }
    }
    for (right, lost) in [("update (big)", "kP"), ("update (note)", "u"), ("delete", "D"), ("insert (big)", "I")] {
        support::run(owner, &format!("revoke {right} on by_key.kept from alice")).unwrap();
        for step in lost.chars() {
            assert!(is_denied(&state(session, &step.to_string())), "{step} without {right}");
        }
    }
    support::run(session, "reset role").unwrap();
    support::run(owner, "delete from by_key.kept").unwrap();
    for (change, step, wanted) in [
        ("select", "I", "I [] "),
        ("alter table by_key.kept rename note to remark", "u", "42703"),
        ("alter table by_key.kept rename remark to note", "u", "u [] "),
        ("alter table by_key.kept add check (amount < 3)", "u", "23514"),
        ("alter table by_key.kept add extra int not null default 3", "k", "k [] "),
        ("alter table by_key.kept alter word set default 'much too long'", "D", "D [] "),
        ("select", "n", "22001"),
        ("alter table by_key.kept alter word set default 'v'", "n", "n [\"["),
        ("alter table by_key.kept add unique (amount)", "m", "m [\"["),
        ("insert into by_key.kept (id, part, amount, note, big) values (1, 1, 1, 'x', 9)", "P", "23505"),
        ("alter table by_key.kept drop column word", "s", "42703"),
        ("alter table by_key.kept alter note set default 'zz'", "k", "23505"),
        ("drop table by_key.kept", "G", "42P01"),
    ] {
        support::run(owner, change).unwrap();
        let outcome = by_key(session, step, &row);
        assert!(outcome.starts_with(wanted), "{step} after {change}: {outcome}");
    }
}

#[test]
fn calls_count_for_the_limit_of_rows() {
    let database = database();
    let session = &mut support::connect(&database);
    set_up(session, &SHAPES[0]);
    support::run(session, "alter function by_key set (row_limit = 3)").unwrap();
    let row = row_of(["1", "1", "1", "'x   '", "5"]);
    assert_eq!(by_key(session, "IrG", &row).matches(';').count(), 3);
    for steps in ["GGGG", "urlk", "PPPP", "GGGD"] {
        assert_eq!(&by_key(session, steps, &row)[..5], "54000", "{steps}");
    }
    assert_eq!(by_key(session, "GGGu", &row_of(["7", "1", "1", "'x   '", "5"])), "G [];G [];G [];u [] 0;");
}

/// Log that keeps its records.
#[derive(Default)]
struct Kept(Mutex<Vec<Vec<u8>>>);

impl Log for Kept {
    fn append(&self, record: &[u8]) -> LogPosition {
        self.0.lock().unwrap().push(record.to_vec());
        LogPosition::default()
    }

    fn end(&self) -> LogPosition {
        LogPosition::default()
    }

    fn reached(&self, _: LogPosition) -> bool {
        true
    }
}

#[test]
fn the_log_has_the_changes_of_calls() {
    let log = Arc::new(Kept::default());
    let engine = Engine::new(EngineConfig { log: Arc::clone(&log) as _, ..EngineConfig::in_memory() });
    let database = database_over(engine.clone());
    let session = &mut support::connect(&database);
    set_up(session, &SHAPES[0]);
    let mut numbers = Numbers(7);
    let take = || -> Vec<String> {
        let records = std::mem::take(&mut *log.0.lock().unwrap());
        let decoded = records.iter().map(|record| {
            let (_, changes) = engine.decode_redo(record).unwrap();
            changes.into_iter().map(|Redo { what, .. }: Redo<'_>| format!("{what:?};")).collect()
        });
        decoded.collect()
    };
    let mut kinds = [0; 3];
    for _ in 0..900 {
        let steps: String = (0..3).map(|_| numbers.one_of(&["I", "u", "r", "k", "D", "P", "n", "m", "c"])).collect();
        let row = numbers.row("int");
        take();
        by_key(session, &steps, &row);
        let of_calls = take();
        by_statement(session, &steps, &row);
        assert_eq!(of_calls, take(), "{steps} {row:?}");
        let all = of_calls.concat();
        let all = [RedoWhat::Insert(Vec::new()), RedoWhat::Update(Vec::new()), RedoWhat::Delete]
            .map(|what| all.matches(format!("{what:?}").trim_end_matches("([])")).count());
        kinds.iter_mut().zip(all).for_each(|(sum, more)| *sum += more);
    }
    assert!(kinds.iter().all(|count| 20 < *count), "{kinds:?} of each kind are too few");
}
