//! Goal: wrong texts are refused with PostgreSQL's words at PostgreSQL's place. Method: `errors.tsv` lists PostgreSQL
//! 15's error for each of them, one text to a line; `cargo xtask grammar --record` creates it anew.
#![allow(missing_docs, reason = "a test")]

use std::fmt::Write as _;

#[test]
fn wrong_texts_are_refused_where_postgresql_refuses_them() {
    let mut wrong = String::new();
    for line in include_str!("errors.tsv").lines() {
        let (text, expected) = line.split_once('\t').expect("a text and its answer");
        let parsed = statement::stack::bounded(|| syntax::grammar::parse(&text.replace("\\n", "\n")).map(drop));
        let found = match parsed {
            Ok(_) => "-\t".to_owned(),
            Err(error) => {
                let message = error.message().replace('\\', "\\\\").replace('\n', "\\n");
                format!("{}\t{message}", error.position().unwrap_or(0))
            }
        };
        if found != expected {
            writeln!(wrong, "{text}\n    PostgreSQL: {expected}\n    Overtake:   {found}").expect("it is a string");
        }
    }
    assert!(wrong.is_empty(), "{wrong}");
}
