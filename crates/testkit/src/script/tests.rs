use super::*;

const LOST_UPDATE: &str = "\
# Two write one row.
table t id v
index t v
row t 1 10

session a class high
  wa: update t 1 set v = v + 1, id = 1 where v > 3
  ca: commit
session b
  rb: read t by v 3..9 where id <> 4 desc limit 2 for no key update skip locked
  cb: rollback

expect read committed, repeatable read  # a comment
  wa ca rb=none cb | t 1:11
";

#[test]
fn a_script_is_read() {
    let script = parse("lost", LOST_UPDATE).unwrap();
    assert_eq!(script.sessions.len(), 2);
    assert_eq!(script.sessions[0].begin.class, ScriptClass::High);
    assert_eq!(
        script.sessions[0].steps[0].statement,
        ScriptStatement::Update {
            table: 0,
            rows: Which {
                keys: Keys::One(1),
                condition: Some(RowCondition { column: 1, comparison: CompareOp::Greater, value: 3 })
            },
            set: vec![(1, NewValue::Plus(1, 1)), (0, NewValue::To(Some(1)))],
        }
    );
    assert_eq!(script.expected(Who::Overtake, Level::RepeatableRead).len(), 1);
    assert_eq!(script.expected(Who::Overtake, Level::Serializable).len(), 0);
}

#[test]
fn a_mistake_is_named_with_its_line() {
    for (wrong, why) in [
        ("table t id\nrow t 1 2", "lost:2: a row has a value for each column"),
        ("table t id\nsession a\n  r: read u 1", "lost:3: no table is called u"),
        ("table t id\nsession a\n  r: read t 1 for ever", "lost:3: no row lock"),
        ("table t id\nsession a\n  r: commit\n  r: commit", "lost:4: this step's name is taken"),
        ("table t id\nsession a\n  r: commit now", "lost:3: now is too much"),
        ("permutation r", "lost:1: no step is called r"),
        ("expect snapshot", "lost:1: no level"),
    ] {
        let error = parse("lost", wrong).unwrap_err();
        assert!(error.starts_with(why), "{error}");
    }
}

#[test]
fn steps_print_as_sql() {
    let script = parse("lost", LOST_UPDATE).unwrap();
    let sql = |session: usize, step: usize| {
        to_sql(&script.tables, Level::Serializable, &script.sessions[session].steps[step].statement)
    };
    assert_eq!(sql(0, 0), "UPDATE t SET v = v + (1), id = 1 WHERE id = 1 AND v > 3");
    assert_eq!(
        sql(1, 0),
        "SELECT * FROM t WHERE v BETWEEN 3 AND 9 AND id <> 4 ORDER BY v DESC, id DESC LIMIT 2 FOR NO KEY UPDATE SKIP LOCKED"
    );
    assert_eq!(
        to_sql_table(&script.tables[0]),
        ["CREATE TABLE t (id bigint primary key, v bigint)", "CREATE INDEX ON t (v)", "INSERT INTO t VALUES (1, 10)"]
    );
}

/// A database with one row, no isolation, and a lock that writers hold until they commit; its flaws are on purpose.
#[derive(Default)]
struct Toy {
    value: i64,
    holder: Option<usize>,
    waiting: Vec<(usize, ScriptStatement)>,
}

impl Executor for Toy {
    fn set_up(&mut self, script: &Script, _: Level) {
        *self = Toy { value: script.tables[0].rows[0][1].unwrap(), ..Toy::default() };
    }

    fn submit(&mut self, session: usize, statement: &ScriptStatement) -> Option<Reply> {
        match statement {
            ScriptStatement::Begin(_) => Some(Reply::Done),
            ScriptStatement::Read { .. } => Some(Reply::Rows(vec![vec![Some(1), Some(self.value)]])),
            ScriptStatement::Update { set, .. } => {
                if self.holder.is_some_and(|holder| holder != session) {
                    self.waiting.push((session, statement.clone()));
                    return None;
                }
                self.holder = Some(session);
                self.value = set[0].1.value(&[Some(1), Some(self.value)]).unwrap();
                Some(Reply::Count(1))
            }
            ScriptStatement::Commit => {
                self.holder = self.holder.filter(|holder| *holder != session);
                Some(Reply::Done)
            }
            _ => Some(Reply::Failed("0A000".to_owned())),
        }
    }

    fn resume(&mut self, session: usize) -> Option<Reply> {
        let at = self.waiting.iter().position(|(waiter, _)| *waiter == session).unwrap();
        if self.holder.is_some() {
            return None;
        }
        let (_, statement) = self.waiting.remove(at);
        self.submit(session, &statement)
    }

    fn end(&mut self) -> Vec<Vec<Vec<Option<i64>>>> {
        vec![vec![vec![Some(1), Some(self.value)]]]
    }
}

fn toy(text: &str) -> (Script, Vec<InterleavingOutcome>) {
    let script = parse("toy", text).unwrap();
    let outcomes = explore(&script, Level::Serializable, &mut Toy::default());
    (script, outcomes)
}

#[test]
fn all_interleavings_that_can_happen_are_run() {
    let text = "table t id v\nrow t 1 10\nsession a\n  wa: update t 1 set v = 11\n  ca: commit\n\
        session b\n  wb: update t 1 set v = v + 5\n  cb: commit";
    let (_, outcomes) = toy(text);
    assert_eq!(
        transcripts(&outcomes),
        ["wa ca wb cb | t 1:16", "wa wb~ ca wb cb | t 1:16", "wb wa~ cb wa ca | t 1:11", "wb cb wa ca | t 1:11",]
    );
}

#[test]
fn a_session_that_waits_for_ever_is_stuck() {
    let text = "table t id v\nrow t 1 10\nsession a\n  wa: update t 1 set v = 11\n\
        session b\n  wb: update t 1 set v = 12\n  xb: lock t share\n  cb: commit\npermutation wa wb";
    let (_, outcomes) = toy(text);
    assert_eq!(transcripts(&outcomes), ["wa wb~ stuck | t 1:11"]);
}

#[test]
fn what_no_serial_order_gives_is_found() {
    let text = "table t id v\nrow t 1 10\nsession a\n  ra: read t 1\n  wa: update t 1 set v = 11\n  ca: commit\n\
        session b\n  wb: update t 1 set v = v + 5\n  cb: commit";
    let (script, outcomes) = toy(text);
    let words = check_serial(&script, &outcomes, &mut Toy::default());
    // Only where b committed between a's read and a's write, or wrote before the read without having committed.
    assert_eq!(
        words.lines().collect::<Vec<_>>(),
        [
            "toy: no serial order gives   ra=10 wb wa~ cb wa ca | t 1:11",
            "toy: no serial order gives   ra=10 wb cb wa ca | t 1:11"
        ]
    );
}

#[test]
fn expectations_are_written_as_they_are_read() {
    let script = parse("lost", LOST_UPDATE).unwrap();
    let lines = |lines: &[&str]| lines.iter().map(|line| (*line).to_owned()).collect::<Vec<_>>();
    let text = script.with_expectations(&[
        (Who::PostgreSql, Level::ReadCommitted, lines(&["x", "y"])),
        (Who::Overtake, Level::ReadCommitted, lines(&["x", "y"])),
        (Who::PostgreSql, Level::Serializable, lines(&["x", "z"])),
        (Who::Overtake, Level::Serializable, lines(&["x", "w"])),
    ]);
    let again = parse("lost", &text).unwrap();
    assert_eq!(again.head.trim_end(), script.head.trim_end());
    for (who, level, all) in [
        (Who::Overtake, Level::ReadCommitted, ["x", "y"]),
        (Who::PostgreSql, Level::ReadCommitted, ["x", "y"]),
        (Who::Overtake, Level::Serializable, ["w", "x"]),
        (Who::PostgreSql, Level::Serializable, ["x", "z"]),
    ] {
        assert_eq!(again.expected(who, level).into_iter().collect::<Vec<_>>(), all);
    }
    assert_eq!(again.expectations.iter().filter(|section| section.who == Who::Both).count(), 2);
    let different = again.compare(Who::Overtake, Level::Serializable, &lines(&["x", "v"]));
    assert_eq!(different, "lost serializable: expected   w\nlost serializable: came       v\n");
}

#[test]
fn replies_of_one_step_have_no_order() {
    for (line, form) in [
        ("wa wb~ ca wb=2 cb | t 1:12", "wa wb~ ca wb=2 cb | t 1:12"),
        // The victim of the deadlock, whichever reply arrives first; the other session did wait, but only within the
        // step.
        ("wa wb wb2~ wa2~ wb2!40P01 wa2 ca | t", "wa wb wb2~ wa2 wb2!40P01 ca | t"),
        ("wa wb wb2~ wa2 wb2!40P01 ca | t", "wa wb wb2~ wa2 wb2!40P01 ca | t"),
        ("wa wb~ wc~ ca wc=1 wb!40001 | t", "wa wb~ wc~ ca wb!40001 wc=1 | t"),
        ("wa wb~ stuck | t", "wa wb~ stuck | t"),
    ] {
        assert_eq!(unordered(line), form);
    }
}
