//! Prepared statements, on whichever connection they run.

use crate::support::Front;
use std::net::TcpStream;
use std::time::Duration;
use wirekit::raw::{PATIENCE, Raw, bind, execute, message, named, parse, query, sync};

/// Holds one of two connections, so that the others use the other one.
fn held(front: &Front) -> Raw<TcpStream> {
    let mut raw = front.raw();
    raw.ask(&query("begin"));
    raw
}

fn run(raw: &mut Raw<TcpStream>, name: &str, value: &str) -> String {
    raw.ask(&[bind("", name, &[], &[Some(value.as_bytes())], &[]), execute("", 0), sync()].concat())
}

/// A named statement exists on a connection that has never seen it, and is the one that its client has prepared.
pub fn statements_follow() {
    let Some(front) = Front::new(2) else { return };
    let (mut one, mut two) = (front.raw(), front.raw());
    assert_eq!(one.ask(&[parse("s", "select $1::int + 1", &[]), sync()].concat()), "1 Z(I)");
    assert_eq!(two.ask(&[parse("s", "select $1::int + 2", &[]), sync()].concat()), "1 Z(I)");
    // The same content under another name.
    assert_eq!(two.ask(&[parse("r", "select $1::int + 1", &[]), sync()].concat()), "1 Z(I)");
    for _ in 0..3 {
        // Each connection in turn.
        let mut other = held(&front);
        assert_eq!(run(&mut one, "s", "1"), "2 D(2) C(SELECT 1) Z(I)");
        assert_eq!(run(&mut two, "s", "1"), "2 D(3) C(SELECT 1) Z(I)");
        assert_eq!(run(&mut two, "r", "1"), "2 D(2) C(SELECT 1) Z(I)");
        assert_eq!(two.ask(&[named(b'D', b'S', "s"), sync()].concat()), "t(23) T(?column?:23:0) Z(I)");
        other.ask(&query("commit"));
        one.ask(&query("begin"));
        assert_eq!(run(&mut two, "s", "5"), "2 D(7) C(SELECT 1) Z(I)");
        one.ask(&query("commit"));
    }
    // Names are each client's own; a name that is taken, and one that does not exist.
    let said = two.ask(&[parse("s", "select 1", &[]), bind("", "s", &[], &[], &[]), sync()].concat());
    assert!(said.contains("42P05|prepared statement \"s\" already exists") && said.ends_with("Z(I)"), "{said}");
    assert_eq!(run(&mut two, "s", "1"), "2 D(3) C(SELECT 1) Z(I)");
    assert!(run(&mut one, "r", "1").contains("26000|prepared statement \"r\" does not exist"));
    assert_eq!(two.ask(&[named(b'C', b'S', "s"), named(b'C', b'S', "none"), sync()].concat()), "3 3 Z(I)");
    assert!(run(&mut two, "s", "1").contains("26000"));
    assert_eq!(run(&mut one, "s", "1"), "2 D(2) C(SELECT 1) Z(I)");
    // In a transaction a refused name fails it.
    one.ask(&query("begin"));
    assert!(one.ask(&[parse("s", "select 1", &[]), sync()].concat()).ends_with("Z(E)"));
    one.ask(&query("rollback"));
}

/// Answers of the proxy's own are sent with the server's answer, in one piece, as a server sends them; where a client
/// flushes, or nothing follows, they are sent at once.
pub fn answers_go_together() {
    let Some(front) = Front::new(1) else { return };
    let mut raw = front.raw();
    let text = "select 1 as one from pg_sleep(0.4)";
    assert_eq!(raw.ask(&[parse("a", text, &[]), sync()].concat()), "1 Z(I)");
    let run = [bind("", "b", &[], &[], &[]), execute("", 0), sync()].concat();
    raw.send(&[parse("b", text, &[]), run.clone()].concat());
    raw.stream.set_read_timeout(Some(Duration::from_millis(150))).unwrap();
    assert!(raw.stream.peek(&mut [0]).is_err(), "it is said before anything else is known");
    raw.stream.set_read_timeout(Some(PATIENCE)).unwrap();
    assert_eq!(raw.answer(), "1 2 D(1) C(SELECT 1) Z(I)");
    raw.send(&[parse("c", text, &[]), message(b'H', b"")].concat());
    assert_eq!(raw.next().as_deref(), Some("1"));
    assert_eq!(raw.ask(&run), "2 D(1) C(SELECT 1) Z(I)");
    // There are more answers than are held: neither side waits for the other.
    let closes = named(b'C', b'S', "none").repeat(20_000);
    raw.send(&parse("d", text, &[]));
    let said = raw.ask(&[closes, sync()].concat());
    assert_eq!(said, format!("1 {}Z(I)", "3 ".repeat(20_000)));
    // A COPY that follows begins.
    raw.ask(&query("create table copied (a int)"));
    let copy = [parse("e", text, &[]), parse("", "copy copied from stdin", &[]), bind("", "", &[], &[], &[])].concat();
    raw.send(&[copy, execute("", 0), message(b'H', b"")].concat());
    let begun: Vec<String> = (0..4).filter_map(|_| raw.next()).collect();
    assert_eq!(begun.join(" "), "1 1 2 G(0,1)");
    assert_eq!(raw.ask(&[message(b'd', b"1\n"), message(b'c', b""), sync()].concat()), "C(COPY 1) Z(I)");
}

/// A statement that failed to be prepared does not exist, nor does one that was dropped by an error in front of it.
pub fn failed_statements_are_not_there() {
    let Some(front) = Front::new(1) else { return };
    let mut raw = front.raw();
    let said = raw.ask(&[parse("a", "select nothing", &[]), parse("b", "select 1", &[]), sync()].concat());
    assert!(said.starts_with("E(ERROR|42703") && said.ends_with("Z(I)"), "{said}");
    for name in ["a", "b"] {
        assert!(run(&mut raw, name, "1").contains("26000"), "{name}");
        let again = [parse(name, "select $1::int", &[]), sync()].concat();
        assert_eq!(raw.ask(&again), "1 Z(I)");
        assert_eq!(run(&mut raw, name, "1"), "2 D(1) C(SELECT 1) Z(I)");
    }
    // A second batch that was sent before the first one failed.
    let mut other = front.raw();
    other.ask(&[parse("x", "select $1::text", &[]), sync()].concat());
    raw.ask(&query("deallocate all"));
    let batch = || [bind("", "x", &[], &[Some(b"1")], &[]), execute("", 0), sync()].concat();
    other.send(&[message(b'B', b"\0none\0\0\0\0\0\0\0"), batch(), batch()].concat());
    assert!(other.answer().contains("26000"));
    assert_eq!(other.answer(), "2 D(1) C(SELECT 1) Z(I)");
}

/// The unnamed statement outlives its transaction, and its connection.
pub fn the_unnamed_statement_follows() {
    let Some(front) = Front::new(1) else { return };
    let (mut one, mut two) = (front.raw(), front.raw());
    assert_eq!(one.ask(&[parse("", "select $1::int + 1", &[]), sync()].concat()), "1 Z(I)");
    assert_eq!(two.ask(&[parse("", "select $1::int + 2", &[]), sync()].concat()), "1 Z(I)");
    assert_eq!(run(&mut one, "", "1"), "2 D(2) C(SELECT 1) Z(I)");
    assert_eq!(run(&mut two, "", "1"), "2 D(3) C(SELECT 1) Z(I)");
    assert_eq!(one.ask(&[named(b'D', b'S', ""), sync()].concat()), "t(23) T(?column?:23:0) Z(I)");
    // A query removes it, and so does one that fails.
    one.ask(&query("select 1"));
    assert!(run(&mut one, "", "1").contains("26000"));
    assert!(two.ask(&[parse("", "select nothing", &[]), sync()].concat()).contains("42703"));
    assert!(run(&mut two, "", "1").contains("26000"));
}

/// A message that is skipped after an error leaves the unnamed statement as it was.
pub fn ignored_messages_leave_the_unnamed_statement() {
    for front in [Front::new(1), Front::preparing(1)] {
        let Some(front) = front else { return };
        let mut raw = front.raw();
        let fails = || bind("", "none", &[], &[], &[]);
        let plus = |number: i32| parse("", &format!("select $1::int + {number}"), &[]);
        // A repeated text becomes another kind of statement at last.
        for _ in 0..10 {
            for ignored in [plus(2), query("select 2"), named(b'C', b'S', "")] {
                assert_eq!(raw.ask(&[plus(1), sync()].concat()), "1 Z(I)");
                let said = raw.ask(&[fails(), ignored, sync()].concat());
                assert!(said.contains("26000|prepared statement \"none\"") && said.ends_with("Z(I)"), "{said}");
                assert_eq!(run(&mut raw, "", "1"), "2 D(2) C(SELECT 1) Z(I)");
            }
            // Messages that were sent behind it before it had failed mean the same.
            raw.send(
                &[fails(), plus(2), sync(), bind("", "", &[], &[Some(b"5")], &[]), execute("", 0), sync()].concat(),
            );
            assert!(raw.answer().contains("26000|prepared statement \"none\""));
            assert_eq!(raw.answer(), "2 D(6) C(SELECT 1) Z(I)");
            // A message that is processed removes it.
            let said = raw.ask(&[parse("", "select nothing", &[]), plus(2), sync()].concat());
            assert!(said.contains("42703"), "{said}");
            assert!(run(&mut raw, "", "1").contains("26000"));
        }
    }
}

/// A message about the unnamed statement waits for answers that come by themselves, and for nothing behind it.
pub fn the_unnamed_statement_keeps_nobody_waiting() {
    for front in [Front::new(1), Front::preparing(1)] {
        let Some(front) = front else { return };
        let mut raw = front.raw();
        let value = || bind("", "", &[], &[], &[]);
        for before in [query("select 1"), query("select 1/0"), named(b'C', b'S', ""), parse("", "select nothing", &[])]
        {
            // A message whose answer the server keeps, and one that has failed before.
            for (number, between) in [parse("b", "select 2", &[]), execute("none", 0)].into_iter().enumerate() {
                raw.send(&[&before, &sync()[..], &between, &value(), &sync(), &query("deallocate all")].concat());
                let mut said = raw.answer();
                while !said.ends_with("C(DEALLOCATE ALL) Z(I)") {
                    assert!(!said.ends_with("end"), "{said}");
                    said = [said, raw.answer()].join(" ");
                }
                assert!(said.contains(["26000", "34000"][number]), "{said}");
            }
        }
    }
}

/// A BEGIN that comes as a query has no portal; one that is executed has, which cannot be run again.
pub fn a_begin_leaves_the_portal_that_it_leaves_at_a_server() {
    let Some(front) = Front::new(1) else { return };
    let mut raw = front.raw();
    let ways =
        [query("begin"), [parse("", "begin", &[]), bind("", "", &[], &[], &[]), execute("", 0), sync()].concat()];
    for (begin, state) in ways.iter().zip(["34000", "55000"]) {
        assert!(raw.ask(begin).ends_with("C(BEGIN) Z(T)"));
        let said = raw.ask(&[execute("", 0), sync()].concat());
        assert!(said.starts_with(&format!("E(ERROR|{state}|")) && said.ends_with(" Z(E)"), "{said}");
        assert_eq!(raw.ask(&query("rollback")), "C(ROLLBACK) Z(I)");
        // The usual sequence is not affected.
        assert!(raw.ask(begin).ends_with("C(BEGIN) Z(T)"));
        let said = raw.ask(&[parse("", "select 1", &[]), bind("", "", &[], &[], &[]), execute("", 0), sync()].concat());
        assert_eq!(said, "1 2 D(1) C(SELECT 1) Z(T)");
        assert_eq!(raw.ask(&query("commit")), "C(COMMIT) Z(I)");
    }
    assert_eq!(raw.ask(&query("begin")), "C(BEGIN) Z(T)");
    let said = raw.ask(&[named(b'D', b'P', ""), sync()].concat());
    assert!(said.contains("34000") && said.ends_with(" Z(E)"), "{said}");
    assert_eq!(raw.ask(&query("rollback")), "C(ROLLBACK) Z(I)");
}

/// Statements are removed by DISCARD ALL and DEALLOCATE, and come back when they are prepared again.
pub fn statements_are_taken_away() {
    let Some(front) = Front::new(1) else { return };
    let (mut one, mut two) = (front.raw(), front.raw());
    let prepare = [parse("s", "select $1::int", &[]), sync()].concat();
    for all in ["discard all", "deallocate all", "deallocate s"] {
        assert_eq!(one.ask(&prepare), "1 Z(I)", "{all}");
        assert_eq!(two.ask(&prepare), "1 Z(I)", "{all}");
        assert!(one.ask(&query(all)).ends_with("Z(I)"));
        assert!(run(&mut one, "s", "1").contains("26000"), "{all}");
        assert_eq!(run(&mut two, "s", "1"), "2 D(1) C(SELECT 1) Z(I)", "{all}");
        assert_eq!(two.ask(&[named(b'C', b'S', "s"), sync()].concat()), "3 Z(I)");
    }
    // There are more statements than a connection keeps: the oldest are closed, and come back.
    for number in 0..300 {
        let text = format!("select $1::int + {number}");
        assert_eq!(one.ask(&[parse(&format!("n{number}"), &text, &[]), sync()].concat()), "1 Z(I)");
    }
    assert_eq!(run(&mut one, "n0", "1"), "2 D(1) C(SELECT 1) Z(I)");
    let kept = one.ask(&query("select count(*) <= 201 as k from pg_prepared_statements"));
    assert_eq!(kept, "T(k:16:0) D(t) C(SELECT 1) Z(I)");
}

/// A statement that a text has removed silently is missed once, and brought again; the names that statements have at a
/// server cannot be used by clients.
pub fn statements_that_have_gone_come_back() {
    let Some(front) = Front::new(1) else { return };
    front
        .cluster
        .ask("create function f() returns int language plpgsql as $$ begin execute 'deallocate all'; return 1; end $$");
    let (mut one, mut two) = (front.raw(), front.raw());
    for number in 0..3 {
        let name = format!("s{number}");
        assert_eq!(one.ask(&[parse(&name, &format!("select $1::int + {number}"), &[]), sync()].concat()), "1 Z(I)");
    }
    two.ask(&query("select f()"));
    let said = run(&mut one, "s0", "1");
    assert!(said.contains("26000|prepared statement \"s0\" does not exist"), "{said}");
    for number in 0..3 {
        let said = format!("2 D({}) C(SELECT 1) Z(I)", number + 1);
        assert_eq!(run(&mut one, &format!("s{number}"), "1"), said);
    }
    let names = one.ask(&query("select name from pg_prepared_statements order by name"));
    let name = names.split_once("D(").and_then(|(_, rest)| rest.split_once(')')).expect("there are some").0;
    for message in [named(b'D', b'S', name), bind("", name, &[], &[Some(b"1")], &[])] {
        let said = two.ask(&[message, sync()].concat());
        assert!(said.contains(&format!("26000|prepared statement \"{name}\" does not exist")), "{said}");
    }
    assert_eq!(two.ask(&[named(b'C', b'S', name), sync()].concat()), "3 Z(I)");
    for number in 0..3 {
        assert!(run(&mut one, &format!("s{number}"), "1").starts_with("2 D("), "s{number}");
    }
    // Such a name may be that of a client's own statement.
    assert_eq!(two.ask(&[parse(name, "select $1::int + 7", &[]), sync()].concat()), "1 Z(I)");
    assert_eq!(run(&mut two, name, "1"), "2 D(8) C(SELECT 1) Z(I)");
    assert_eq!(two.ask(&[named(b'C', b'S', name), sync()].concat()), "3 Z(I)");
    assert!(run(&mut two, name, "1").contains("26000"));
}

/// A statement that was to be closed to make room stays if the batch fails before that, and can be used by others.
pub fn who_was_to_make_room_may_stay() {
    let Some(front) = Front::new(1) else { return };
    let (mut one, mut two) = (front.raw(), front.raw());
    let text = |number: usize| format!("select $1::int + {number}");
    for number in 0..200 {
        assert_eq!(one.ask(&[parse(&format!("n{number}"), &text(number), &[]), sync()].concat()), "1 Z(I)");
    }
    assert_eq!(two.ask(&[parse("own", &text(1), &[]), sync()].concat()), "1 Z(I)");
    let bad = |number: usize| parse(&format!("bad{number}"), &format!("selec {number}"), &[]);
    assert!(one.ask(&[bad(0), sync()].concat()).contains("42601"));
    assert_eq!(run(&mut one, "n0", "1"), "2 D(1) C(SELECT 1) Z(I)");
    // Another client's, and in a transaction, with the batch sent on before the first has failed.
    assert!(one.ask(&[bad(1), sync()].concat()).contains("42601"));
    assert!(one.ask(&[bad(2), sync()].concat()).contains("42601"));
    assert_eq!(run(&mut two, "own", "1"), "2 D(2) C(SELECT 1) Z(I)");
    let again = [bind("", "n2", &[], &[Some(b"1")], &[]), execute("", 0), sync()].concat();
    one.send(&[bad(3), bad(4), sync(), again.clone()].concat());
    assert!(one.answer().contains("42601"));
    assert_eq!(one.answer(), "2 D(3) C(SELECT 1) Z(I)");
    one.ask(&query("begin"));
    one.ask(&query("select 1/0"));
    assert!(one.ask(&[parse("late", "select 1", &[]), sync()].concat()).contains("25P02"));
    one.ask(&query("rollback"));
    for number in 0..200 {
        assert!(run(&mut one, &format!("n{number}"), "1").starts_with("2 D("), "n{number}");
    }
}

/// First column of the first row, by a client whose only statement this is.
fn only(front: &Front, text: &str) -> String {
    let said = front.raw().ask(&query(text));
    said.split_once("D(").and_then(|(_, rest)| rest.split_once(')')).map(|(value, _)| value.to_owned()).unwrap_or(said)
}

/// A repeated unnamed statement is prepared once on each connection, and keeps its meaning.
pub fn repeated_statements_are_prepared() {
    let Some(front) = Front::preparing(1) else { return };
    let kept = |text: &str| {
        let text = text.replace('\'', "''");
        only(&front, &format!("select count(*) from pg_prepared_statements where statement = '{text}'"))
    };
    let (mut one, mut two) = (front.raw(), front.raw());
    let text = "select $1::int + 1";
    let batch = [parse("", text, &[]), bind("", "", &[], &[Some(b"1")], &[]), execute("", 0), sync()].concat();
    assert_eq!(one.ask(&batch), "1 2 D(2) C(SELECT 1) Z(I)");
    assert_eq!(kept(text), "0");
    for _ in 0..10 {
        assert_eq!(one.ask(&batch), "1 2 D(2) C(SELECT 1) Z(I)");
        assert_eq!(two.ask(&batch), "1 2 D(2) C(SELECT 1) Z(I)");
    }
    assert_eq!(kept(text), "1");
    // The statement still exists, is described, and goes as an unnamed one does.
    assert_eq!(run(&mut one, "", "5"), "2 D(6) C(SELECT 1) Z(I)");
    assert_eq!(one.ask(&[named(b'D', b'S', ""), sync()].concat()), "t(23) T(?column?:23:0) Z(I)");
    one.ask(&query("select 1"));
    assert!(run(&mut one, "", "1").contains("26000"));
    assert_eq!(two.ask(&[named(b'C', b'S', ""), sync()].concat()), "3 Z(I)");
    assert!(run(&mut two, "", "1").contains("26000"));
    // A statement that is not parsed after an error does not exist, nor does one before it; one that comes behind does.
    let failing = [parse("", "select nothing", &[]), parse("", text, &[]), sync()].concat();
    one.send(&[failing, batch.clone()].concat());
    assert!(one.answer().contains("42703"));
    assert_eq!(one.answer(), "1 2 D(2) C(SELECT 1) Z(I)");
    assert_eq!(run(&mut one, "", "5"), "2 D(6) C(SELECT 1) Z(I)");
    // In a failed transaction nothing is parsed.
    one.ask(&query("begin; select 1/0"));
    assert!(one.ask(&batch).contains("25P02"));
    one.ask(&query("rollback"));
    assert!(run(&mut one, "", "5").contains("26000"));
    // An existing statement is brought to a connection that has lost it.
    assert_eq!(one.ask(&[parse("", text, &[]), sync()].concat()), "1 Z(I)");
    two.ask(&query("deallocate all"));
    assert_eq!(run(&mut one, "", "5"), "2 D(6) C(SELECT 1) Z(I)");
    // A statement that leaves state in its session is not affected.
    for _ in 0..10 {
        one.ask(
            &[parse("", "set work_mem = '5MB'", &[]), bind("", "", &[], &[], &[]), execute("", 0), sync()].concat(),
        );
    }
    assert_eq!(kept("set work_mem = '5MB'"), "0");
    assert_eq!(one.ask(&query("show work_mem")), "T(work_mem:25:0) D(5MB) C(SHOW) Z(I)");
    assert_eq!(only(&front, "show work_mem"), "4MB");
}

/// A changed table fails at most the statements that were prepared before, and once.
pub fn prepared_statements_follow_a_changed_table() {
    let Some(front) = Front::preparing(2) else { return };
    front.cluster.ask("create table t (a int); insert into t values (1)");
    let mut raw = front.raw();
    let batch = [parse("", "select * from t", &[]), bind("", "", &[], &[], &[]), execute("", 0), sync()].concat();
    let on_both = |raw: &mut Raw<TcpStream>| {
        let first = raw.ask(&batch);
        let mut other = held(&front);
        other.ask(&query("select 1"));
        let second = raw.ask(&batch);
        other.ask(&query("commit"));
        [first, second]
    };
    for _ in 0..8 {
        on_both(&mut raw).iter().for_each(|said| assert_eq!(said, "1 2 D(1) C(SELECT 1) Z(I)"));
    }
    // This holds for a client's own statement, too: the client has prepared it anew.
    assert_eq!(raw.ask(&[parse("s", "select * from t", &[]), sync()].concat()), "1 Z(I)");
    front.cluster.ask("alter table t add b int");
    let said = raw.ask(&batch);
    assert!(said.contains("0A000|cached plan must not change result type"), "{said}");
    for _ in 0..8 {
        on_both(&mut raw).iter().for_each(|said| assert_eq!(said, "1 2 D(1,NULL) C(SELECT 1) Z(I)"));
    }
    let anew = [named(b'C', b'S', "s"), parse("s", "select * from t", &[]), sync()].concat();
    assert_eq!(raw.ask(&anew), "3 1 Z(I)");
    assert_eq!(run_plain(&mut raw, "s"), "2 D(1,NULL) C(SELECT 1) Z(I)");
}

fn run_plain(raw: &mut Raw<TcpStream>, name: &str) -> String {
    raw.ask(&[bind("", name, &[], &[], &[]), execute("", 0), sync()].concat())
}

/// Literals become values when a text is parsed, so it is another statement under other settings, of the login, of the
/// session or of the transaction.
pub fn statements_mean_what_their_settings_say() {
    meanings(Front::new(1));
}

pub fn so_do_those_that_are_prepared() {
    meanings(Front::preparing(1));
}

/// A name means a client's temporary table in statements that it prepares beside that, and nobody else's table.
pub fn statements_beside_temporary_tables_are_their_clients() {
    for front in [Front::new(1), Front::preparing(1)] {
        let Some(front) = front else { return };
        front.cluster.ask("create table tt (a int); insert into tt values (1)");
        let (mut one, mut two) = (front.raw(), front.raw());
        // The search path of the connection has a schema for them from now on, and does not change any more.
        one.ask(&query("create temp table other (a int); drop table other"));
        let text = "select * from tt";
        let all = |name: &str| {
            let close = if name.is_empty() { Vec::new() } else { named(b'C', b'S', name) };
            let run = [parse(name, text, &[]), bind("", name, &[], &[], &[]), execute("", 0)].concat();
            [close, run, sync()].concat()
        };
        for _ in 0..8 {
            assert_eq!(one.ask(&all("")), "1 2 D(1) C(SELECT 1) Z(I)");
        }
        assert_eq!(one.ask(&[parse("s", text, &[]), sync()].concat()), "1 Z(I)");
        two.ask(&query("create temp table tt (a int); insert into tt values (222)"));
        for _ in 0..8 {
            assert_eq!(two.ask(&all("")), "1 2 D(222) C(SELECT 1) Z(I)");
            assert_eq!(two.ask(&all("s")), "3 1 2 D(222) C(SELECT 1) Z(I)");
        }
        two.ask(&query("drop table tt"));
        assert_eq!(run_plain(&mut one, "s"), "2 D(1) C(SELECT 1) Z(I)");
        assert_eq!(one.ask(&all("")), "1 2 D(1) C(SELECT 1) Z(I)");
        assert_eq!(run_plain(&mut two, "s"), "2 D(1) C(SELECT 1) Z(I)");
        // Two clients with tables of one name, one after the other.
        for (client, columns, row) in [(&mut two, "a int", "NULL"), (&mut one, "a text, b int", "NULL,NULL")] {
            client.ask(&query(&format!("create temp table ty ({columns}); insert into ty default values")));
            let fresh = [parse("fresh", "select * from ty", &[]), bind("", "fresh", &[], &[], &[])].concat();
            let said = client.ask(&[fresh, execute("", 0), sync()].concat());
            assert_eq!(said, format!("1 2 D({row}) C(SELECT 1) Z(I)"));
            client.ask(&query("drop table ty"));
        }
        assert_eq!(front.all_idle(), 1);
    }
}

fn meanings(front: Option<Front>) {
    let Some(front) = front else { return };
    let login = |zone: &str| {
        let mut raw = Raw::connect(front.address);
        raw.start(&[("user", "postgres"), ("TimeZone", zone)]);
        raw
    };
    let (mut tokyo, mut utc) = (login("Asia/Tokyo"), login("UTC"));
    let text = "select extract(hour from timestamptz '2024-06-01 12:00' at time zone 'UTC')::int";
    let all = |name: &str| [parse(name, text, &[]), bind("", name, &[], &[], &[]), execute("", 0)].concat();
    let hour = |raw: &mut Raw<TcpStream>, name: &str| {
        let close = if name.is_empty() { Vec::new() } else { named(b'C', b'S', name) };
        let said = raw.ask(&[all(name), close, sync()].concat());
        said.split_once("D(")
            .and_then(|(_, rest)| rest.split_once(')'))
            .map(|(hour, _)| hour.to_owned())
            .unwrap_or(said)
    };
    for name in ["", "s"] {
        for _ in 0..8 {
            assert_eq!((hour(&mut tokyo, name), hour(&mut utc, name)), ("3".to_owned(), "12".to_owned()));
        }
        utc.ask(&query("set timezone = 'Asia/Tokyo'"));
        assert_eq!(hour(&mut utc, name), "3");
        utc.ask(&query("set timezone = 'UTC'"));
        assert_eq!(hour(&mut utc, name), "12");
        // The setting is for one transaction only: a statement that is parsed in it is not shared.
        utc.ask(&query("begin"));
        utc.ask(&query("set local timezone = 'America/New_York'"));
        assert_eq!(hour(&mut utc, name), "16");
        utc.ask(&query("commit"));
        assert_eq!((hour(&mut utc, name), hour(&mut tokyo, name)), ("12".to_owned(), "3".to_owned()));
    }
    // A statement that is brought to the connection in such a transaction.
    assert_eq!(utc.ask(&[parse("own", text, &[]), sync()].concat()), "1 Z(I)");
    tokyo.ask(&query("deallocate all"));
    utc.ask(&query("begin"));
    utc.ask(&query("set local timezone = 'America/New_York'"));
    run_plain(&mut utc, "own");
    utc.ask(&query("commit"));
    assert_eq!(run_plain(&mut utc, "own"), "2 D(12) C(SELECT 1) Z(I)");
    // A moment is the one at which it was parsed.
    let now = "select 'now'::timestamptz::text";
    let batch = [parse("", now, &[]), bind("", "", &[], &[], &[]), execute("", 0), sync()].concat();
    let moments: std::collections::HashSet<String> = (0..12).map(|_| utc.ask(&batch)).collect();
    assert_eq!(moments.len(), 12, "{moments:?}");
    // An error names the statement as the client does.
    for _ in 0..8 {
        let said = utc.ask(&[parse("", "select $1::int", &[]), bind("", "", &[], &[], &[]), sync()].concat());
        assert!(said.contains("but prepared statement \"\" requires 1"), "{said}");
    }
}
