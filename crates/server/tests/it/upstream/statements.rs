//! Prepared statements, whatever connection they meet.

use super::Front;
use crate::support::{Raw, bind, execute, message, named, parse, query, sync};
use std::net::TcpStream;

/// Holds one of two connections, so that the others use the other one.
fn held(front: &Front) -> Raw<TcpStream> {
    let mut raw = front.raw();
    raw.ask(&query("begin"));
    raw
}

fn run(raw: &mut Raw<TcpStream>, name: &str, value: &str) -> String {
    raw.ask(&[bind("", name, &[], &[Some(value.as_bytes())], &[]), execute("", 0), sync()].concat())
}

/// A named statement is there on a connection that has never seen it, and is what its client has prepared.
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
    // Names are each client's own; a name that is taken, and one that is none.
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

/// What failed to be prepared is not; what was dropped by an error in front of it neither.
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
    // A query takes it away, and so does one that fails.
    one.ask(&query("select 1"));
    assert!(run(&mut one, "", "1").contains("26000"));
    assert!(two.ask(&[parse("", "select nothing", &[]), sync()].concat()).contains("42703"));
    assert!(run(&mut two, "", "1").contains("26000"));
}

/// Statements go with DISCARD ALL and DEALLOCATE, and come again when they are prepared again.
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
    // More than one connection keeps: the oldest are closed, and come again.
    for number in 0..300 {
        let text = format!("select $1::int + {number}");
        assert_eq!(one.ask(&[parse(&format!("n{number}"), &text, &[]), sync()].concat()), "1 Z(I)");
    }
    assert_eq!(run(&mut one, "n0", "1"), "2 D(1) C(SELECT 1) Z(I)");
    let kept = one.ask(&query("select count(*) <= 201 as k from pg_prepared_statements"));
    assert_eq!(kept, "T(k:16:0) D(t) C(SELECT 1) Z(I)");
}
