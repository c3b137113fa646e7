//! Values of all kinds, there and back.

use crate::account::{Entry, worker};
use crate::engine::Tables;
use crate::host::{CHANNELS, Worker};
use proptest::prelude::*;
use proptest::test_runner::{Config, TestRunner};
use std::cell::RefCell;
use types::datum::Datum;
use types::forms::Forms;
use types::{Element, Kind, SqlType, text};

/// Passes a value through arguments, a put, a get and a result. Returns its text.
fn echo(worker: &mut Worker, value: &Datum, of: SqlType) -> String {
    let mut tables = Tables::new(of, &[of]);
    let rows = worker.invoke(Entry::Echo, &[std::slice::from_ref(value)], &[of], &mut tables).expect("a value");
    let [row] = rows.as_slice() else { panic!("{rows:?}") };
    text::to_string(&row[0], of, &Forms::DEFAULT)
}

#[test]
fn values_of_every_kind_come_back() {
    for channel in CHANNELS {
        let mut worker = worker(channel);
        for (kind, texts) in [
            (Kind::Bool, &["t", "f"][..]),
            (Kind::Int2, &["-32768", "32767"]),
            (Kind::Int4, &["-2147483648", "7"]),
            (Kind::Int8, &["-9223372036854775808", "9223372036854775807"]),
            (Kind::Oid, &["4294967295"]),
            (Kind::Float4, &["1.5", "NaN", "-Infinity"]),
            (Kind::Float8, &["1e+300", "-0"]),
            (Kind::Numeric, &["1.50", "-0.001", "NaN", "170141183460469231731687303715884105727"]),
            (Kind::Text, &["", "häß"]),
            (Kind::Bpchar, &["ab  "]),
            (Kind::Name, &["n"]),
            (Kind::Json, &["{\"a\": 1}"]),
            (Kind::Bytea, &["\\x00ff"]),
            (Kind::Date, &["2026-11-29", "infinity"]),
            (Kind::Time, &["23:59:59.999999", "24:00:00"]),
            (Kind::Timestamp, &["2026-11-29 10:00:00.000001", "-infinity"]),
            (Kind::Timestamptz, &["2026-11-29 10:00:00+00"]),
            (Kind::Interval, &["1 mon -3 days 04:05:06"]),
            (Kind::Uuid, &["a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11"]),
            (Kind::Array(Element::Int4), &["{1,NULL,3}"]),
        ] {
            for written in texts {
                let value = text::input(written, kind.into(), &Forms::DEFAULT).expect("a value");
                let shown = text::to_string(&value, kind.into(), &Forms::DEFAULT);
                assert_eq!(echo(&mut worker, &value, kind.into()), shown, "{} over {channel}", kind.name());
            }
        }
    }
}

#[test]
fn any_text_and_any_bytes_come_back() {
    for channel in CHANNELS {
        let worker = RefCell::new(worker(channel));
        let mut runner = TestRunner::new(Config { cases: 100, failure_persistence: None, ..Config::default() });
        let strategy = ("[^\\x00]{0,5000}", proptest::collection::vec(any::<u8>(), 0..5_000));
        runner
            .run(&strategy, |(written, bytes)| {
                let value = Datum::text(written.as_str());
                prop_assert_eq!(echo(&mut worker.borrow_mut(), &value, Kind::Text.into()), written);
                let value = Datum::Bytes(bytes.as_slice().into());
                let shown = text::to_string(&value, Kind::Bytea.into(), &Forms::DEFAULT);
                prop_assert_eq!(echo(&mut worker.borrow_mut(), &value, Kind::Bytea.into()), shown);
                Ok(())
            })
            .expect("all come back");
    }
}

#[test]
fn a_value_that_exceeds_the_area_is_refused() {
    for channel in CHANNELS {
        let mut worker = worker(channel);
        // As an argument it fits; with the number of its table, it does not.
        let value = Datum::text("x".repeat(guest::AREA_BYTES - 11));
        let mut tables = Tables::new(Kind::Text.into(), &[Kind::Text.into()]);
        let rows = worker.invoke(Entry::Echo, &[&[value]], &[Kind::Text.into()], &mut tables);
        let error = rows.expect_err("too large");
        assert_eq!((error.state().0, error.message()), ("54000", "a batch of calls of the routine exceeds 1024 kB"));
    }
}
