//! Code that keeps the rules gets what it was promised, at every level.

use crate::{processes, subjects};
use procs::{Channel, Limits, NoticeLevel, TransactionEnd};
use procs_conformance::engine;
use proptest::prelude::*;
use proptest::test_runner::{Config, TestRunner};
use statement::error::SqlError;
use std::cell::RefCell;
use std::time::Duration;
use types::datum::Datum;
use types::forms::Forms;
use types::{Element, Kind, SqlType, text};

fn parts(error: &SqlError) -> (&'static str, &str) {
    (error.state().0, error.message())
}

#[test]
fn every_level_runs_the_suite() {
    // A machine without namespaces has no containers, but WebAssembly and processes are everywhere.
    assert!(3 <= subjects().len());
}

#[test]
fn each_kind_of_call_is_answered() {
    for subject in subjects() {
        let mut engine = engine(Kind::Int8.into());
        let result = subject.run("every_call", 0, Limits::default(), &mut engine);
        assert_eq!(result.expect(&subject.name), 1, "{}", subject.name);
        assert_eq!(engine.tables[0].rows().count(), 1);
        assert_eq!(engine.notices, [(NoticeLevel::Notice, "done".to_owned())]);
        let mut engine = procs_conformance::engine(Kind::Int8.into());
        assert_eq!(subject.run("batch", 0, Limits::default(), &mut engine).expect(&subject.name), 2);
        assert_eq!(engine.notices, [(NoticeLevel::Info, "in a batch".to_owned())]);
    }
}

#[test]
fn waits_for_other_processes_are_told_from_work() {
    const TIME: Duration = Duration::from_millis(50);
    for subject in subjects() {
        // The JavaScript engine has no clock, and its module not this entry.
        if subject.manifest.entry("takes").is_none() {
            continue;
        }
        let waits = || {
            let mut engine = engine(Kind::Int8.into());
            let result = subject.run("takes", TIME.as_millis() as i64, Limits::default(), &mut engine);
            assert_eq!(result.expect(&subject.name), 50, "{}", subject.name);
            engine.asleep.get()
        };
        match subject.channel {
            Channel::Direct => assert_eq!(waits(), (0, Duration::ZERO), "{}", subject.name),
            Channel::SharedMemory | Channel::UnixSocket => {
                // It polls for less than a millisecond before it sleeps, if it has a processor; hence some attempts. It
                // waits for the call, and perhaps for the result.
                let is_told = |(count, time): (u64, Duration)| (1..=2).contains(&count) && TIME / 2 <= time;
                assert!((0..10).any(|_| is_told(waits())), "{}", subject.name);
            }
        }
    }
}

#[test]
fn ends_of_transactions_close_cursors() {
    for subject in subjects() {
        let mut engine = engine(Kind::Int8.into());
        let error = subject.run("ends", 0, Limits::default(), &mut engine).expect_err(&subject.name);
        assert_eq!(error.state().0, "39000", "{}: {}", subject.name, error.message());
        assert_eq!(engine.ends, [TransactionEnd::Commit, TransactionEnd::Rollback], "{}", subject.name);
    }
}

#[test]
fn values_of_every_kind_come_back() {
    let kinds: &[(Kind, &[&str])] = &[
        (Kind::Bool, &["t", "f"]),
        (Kind::Int2, &["-32768", "32767"]),
        (Kind::Int4, &["-2147483648", "7"]),
        (Kind::Int8, &["-9223372036854775808", "9223372036854775807"]),
        (Kind::Oid, &["4294967295"]),
        (Kind::Float4, &["1.5", "NaN", "-Infinity"]),
        (Kind::Float8, &["1e300", "-0"]),
        (Kind::Numeric, &["1.50", "-0.001", "NaN", "Infinity", "1e200", "12345678901234567890123456789012345678"]),
        (Kind::Text, &["", "häß", "a\nb"]),
        (Kind::Bpchar, &["ab  "]),
        (Kind::Name, &["n"]),
        (Kind::Json, &["{\"a\": 1}"]),
        (Kind::Bytea, &["\\x00ff"]),
        (Kind::Date, &["2026-11-29", "infinity", "4713-01-01 BC"]),
        (Kind::Time, &["23:59:59.999999", "24:00"]),
        (Kind::Timestamp, &["2026-11-29 10:00:00.000001", "-infinity"]),
        (Kind::Timestamptz, &["2026-11-29 10:00:00+00"]),
        (Kind::Interval, &["1 mon -3 days 04:05:06"]),
        (Kind::Uuid, &["a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11"]),
        (Kind::Array(Element::Int4), &["{1,NULL,3}"]),
        (Kind::Array(Element::Text), &["{a,\"b c\",NULL}"]),
    ];
    for subject in subjects() {
        for (kind, texts) in kinds {
            let of = SqlType::from(*kind);
            let shown = |value: &Datum| text::to_string(value, of, &Forms::DEFAULT);
            let mut values: Vec<Datum> =
                texts.iter().map(|written| text::input(written, of, &Forms::DEFAULT).expect("a value")).collect();
            values.push(Datum::Null);
            let mut instance = subject.open(&Limits::default()).expect("an instance");
            for entry in ["echo", "keep"] {
                let mut engine = engine(of);
                let rows = subject.invoke(&mut *instance, entry, &values, (of, of), Limits::default(), &mut engine);
                let rows = rows.unwrap_or_else(|error| panic!("{} {} {error:?}", subject.name, kind.name()));
                assert_eq!(rows.len(), values.len());
                for (row, value) in rows.iter().zip(&values) {
                    assert_eq!(shown(&row[0]), shown(value), "{} {}", subject.name, kind.name());
                }
            }
        }
    }
}

#[test]
fn random_values_come_back() {
    let value = prop_oneof![
        any::<i64>().prop_map(|value| (Kind::Int8, Datum::Int8(value))),
        any::<f64>().prop_map(|value| (Kind::Float8, Datum::Float8(value))),
        "[^\0]{0,300}".prop_map(|value| (Kind::Text, Datum::text(value))),
        any::<Vec<u8>>().prop_map(|value| (Kind::Bytea, Datum::Bytes(value.into()))),
        any::<[u8; 16]>().prop_map(|value| (Kind::Uuid, Datum::Uuid(value))),
        (any::<i64>(), 0..18_u16).prop_map(|(value, scale)| {
            (Kind::Numeric, Datum::Numeric(types::numeric::Numeric::from_parts(i128::from(value), scale)))
        }),
    ];
    for subject in subjects() {
        let instance = RefCell::new(subject.open(&Limits::default()).expect("an instance"));
        let mut runner = TestRunner::new(Config { cases: 64, failure_persistence: None, ..Config::default() });
        let ran = runner.run(&value, |(kind, value)| {
            let of = SqlType::from(kind);
            let mut engine = engine(of);
            let arguments = [value.clone()];
            let rows = subject.invoke(
                &mut **instance.borrow_mut(),
                "keep",
                &arguments,
                (of, of),
                Limits::default(),
                &mut engine,
            );
            let shown = |value: &Datum| text::to_string(value, of, &Forms::DEFAULT);
            prop_assert_eq!(shown(&rows.expect("a result")[0][0]), shown(&value));
            Ok(())
        });
        ran.unwrap_or_else(|error| panic!("{}: {error}", subject.name));
    }
}

#[test]
fn a_batch_of_rows_is_one_invocation() {
    for subject in subjects() {
        let values: Vec<Datum> = (0..1_024).map(Datum::Int8).collect();
        let types = (Kind::Int8.into(), Kind::Int8.into());
        let mut instance = subject.open(&Limits::default()).expect("an instance");
        let mut engine = engine(Kind::Int8.into());
        let rows = subject.invoke(&mut *instance, "echo", &values, types, Limits::default(), &mut engine);
        let rows = rows.expect(&subject.name);
        assert!(rows.iter().map(|row| &row[0]).eq(&values), "{}", subject.name);
    }
}

#[test]
fn a_scan_may_exceed_the_area() {
    for subject in subjects() {
        let mut engine = engine(Kind::Int8.into());
        let mut expected = 0;
        for number in 0..3_000_i64 {
            // 1.5 MB within the prefix, and rows beside it.
            let prefix = number % 2;
            engine.tables[1]
                .put(vec![Datum::Int8(prefix), Datum::text(format!("{number:01000}")), Datum::Int8(number)])
                .expect("a row");
            expected += if prefix == 1 { number } else { 0 };
        }
        let sum = subject.run("sum_of_scan", 1, Limits::default(), &mut engine).expect(&subject.name);
        assert_eq!(sum, expected, "{}", subject.name);
        engine.tables[1].put(vec![Datum::Int8(7), Datum::text("x".repeat(1 << 20)), Datum::Int8(1)]).expect("a row");
        let error = subject.run("sum_of_scan", 7, Limits::default(), &mut engine).expect_err("a row beyond the area");
        assert_eq!(parts(&error), ("54000", "a row of the routine exceeds 1024 kB"), "{}", subject.name);
    }
}

#[test]
fn rows_are_emitted_beyond_the_area() {
    for subject in subjects() {
        let mut engine = engine(Kind::Int8.into());
        engine.result = vec![Kind::Int8.into(), Kind::Text.into()];
        let mut instance = subject.open(&Limits::default()).expect("an instance");
        let entry = subject.manifest.entry("emit_rows").expect("an entry");
        let argument = [Datum::Int8(20_000)];
        let invocation = procs::Invocation {
            entry,
            rows: &[&argument],
            arguments: &[Kind::Int8.into()],
            result: &engine.result.clone(),
            limits: Limits::default(),
        };
        let rest = instance.invoke(&invocation, &mut engine).expect(&subject.name);
        let all: Vec<Vec<Datum>> = engine.emitted.drain(..).chain(rest).collect();
        assert_eq!(all.len(), 20_000, "{}", subject.name);
        assert!((0..).zip(&all).all(|(number, row)| row[0] == Datum::Int8(number)));
    }
}

#[test]
fn notices_and_errors_have_all_their_parts() {
    for subject in subjects() {
        let mut engine = engine(Kind::Int8.into());
        assert_eq!(subject.run("notices", 0, Limits::default(), &mut engine).expect(&subject.name), 5);
        use NoticeLevel::{Debug, Info, Log, Notice, Warning};
        let levels: Vec<NoticeLevel> = engine.notices.iter().map(|(level, _)| *level).collect();
        assert_eq!(levels, [Debug, Log, Info, Notice, Warning]);
        let error = subject.run("raise", 0, Limits::default(), &mut engine).expect_err("an error");
        assert_eq!(parts(&error), ("UX123", "the message"), "{}", subject.name);
        assert_eq!((error.detail_text(), error.hint_text()), (Some("The detail."), Some("The hint.")));
        let error = subject.run("panics", 0, Limits::default(), &mut engine).expect_err("a panic");
        assert_eq!(error.state().0, "38000", "{}", subject.name);
        let message = error.message();
        let is_told = |reason: &str| match reason.strip_prefix("panicked at ") {
            Some(place) => place.ends_with(":\na panic of the guest"),
            None => reason == "Error: a panic of the guest",
        };
        let reason = message.strip_prefix("the routine failed: ");
        assert!(reason.is_some_and(is_told), "{}: {message}", subject.name);
    }
}

#[test]
fn the_first_error_ends_the_invocation() {
    for subject in subjects() {
        let mut engine = engine(Kind::Int8.into());
        let error = subject.run("goes_on", 0, Limits::default(), &mut engine).expect_err("an error");
        assert_eq!(parts(&error), ("22012", "division by zero"), "{}", subject.name);
        assert_eq!((engine.calls, engine.tables[0].rows().count()), (1, 0), "{}", subject.name);
    }
}

/// Goal: an error at any call ends the invocation with it, and the next instance works.
#[test]
fn an_invocation_may_end_at_each_call() {
    for subject in subjects() {
        let mut calls = 0;
        for at in 1.. {
            let mut engine = engine(Kind::Int8.into());
            engine.fails_at = at;
            match subject.run("every_call", 0, Limits::default(), &mut engine) {
                Ok(result) => {
                    assert_eq!(result, 1);
                    break;
                }
                Err(error) => assert_eq!(parts(&error), ("40001", "the model refuses this call")),
            }
            assert_eq!(engine.calls, at);
            calls += 1;
        }
        assert!(10 < calls, "{}", subject.name);
    }
}

#[test]
fn an_instance_runs_many_invocations() {
    for subject in subjects() {
        let mut instance = subject.open(&Limits::default()).expect("an instance");
        let mut engine = engine(Kind::Int8.into());
        let types = (Kind::Int8.into(), Kind::Int8.into());
        for number in 0..200 {
            let arguments = [Datum::Int8(number)];
            let rows = subject.invoke(&mut *instance, "one_call", &arguments, types, Limits::default(), &mut engine);
            assert_eq!(rows.expect(&subject.name), [[Datum::Int8(0)]]);
        }
        assert_eq!(engine.calls, 200);
    }
}

#[test]
fn output_of_a_worker_is_shown_with_its_crash() {
    for subject in processes() {
        let error = subject.run("writes_output", 0, Limits::default(), &mut engine(Kind::Int8.into()));
        let error = error.expect_err("a crash");
        assert_eq!(parts(&error), ("38000", "the routine crashed: it ended with exit status 3"), "{}", subject.name);
        let detail = error.detail_text().unwrap_or_default();
        assert!(detail.starts_with("Its last output:\n") && detail.ends_with("line 19999\nthe last line"), "{detail}");
        assert!(detail.len() < 4_200);
    }
}

#[test]
fn a_result_of_another_type_is_refused() {
    for subject in subjects() {
        let mut instance = subject.open(&Limits::default()).expect("an instance");
        let types = (Kind::Text.into(), Kind::Uuid.into());
        let arguments = [Datum::text("no uuid")];
        let mut engine = engine(Kind::Int8.into());
        let error = subject.invoke(&mut *instance, "echo", &arguments, types, Limits::default(), &mut engine);
        assert_eq!(error.expect_err("another type").state().0, "22P02", "{}", subject.name);
    }
}
