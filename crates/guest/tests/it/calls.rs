//! Entries, calls, batches, errors.

use crate::account::{Entry, worker};
use crate::engine::{Tables, numeric};
use crate::host::{CHANNELS, Worker};
use procs::{Channel, Manifest};
use statement::error::SqlResult;
use std::process::Command;
use std::thread;
use std::time::Duration;
use types::datum::Datum;
use types::{Kind, SqlType};

fn tables(result: &[Kind]) -> Tables {
    let result: Vec<SqlType> = result.iter().map(|kind| (*kind).into()).collect();
    Tables::new(Kind::Text.into(), &result)
}

fn transfer(worker: &mut Worker, tables: &mut Tables, row: [Datum; 3]) -> SqlResult<Vec<Vec<Datum>>> {
    let types = [Kind::Int8, Kind::Int8, Kind::Numeric].map(SqlType::from);
    worker.invoke(Entry::Transfer, &[&row], &types, tables)
}

#[test]
fn the_manifest_is_printed() {
    let output = Command::new(env!("CARGO_BIN_EXE_account")).arg("--manifest").output().expect("a process");
    assert!(output.status.success());
    let manifest = Manifest::parse(&String::from_utf8(output.stdout).expect("a text")).expect("a manifest");
    assert_eq!(manifest.tables[0].columns, ["id", "balance"]);
    assert_eq!(manifest.statements[0].text, "INSERT INTO audit VALUES ($1, $2)");
    assert_eq!(manifest.entry("fee_of_rows"), Some(Entry::FeeOfRows as u16));
}

#[test]
fn a_worker_without_a_channel_says_so() {
    let output = Command::new(env!("CARGO_BIN_EXE_account")).output().expect("a process");
    assert_eq!(output.status.code(), Some(1));
    let expected = "overtake worker: OVERTAKE_CHANNEL must be shared_memory:FD or unix_socket:FD; \
                    Overtake starts this program\n";
    assert_eq!(String::from_utf8_lossy(&output.stderr), expected);
}

#[test]
fn a_batch_of_calls_is_answered_in_order() {
    for channel in CHANNELS {
        let mut worker = worker(channel);
        let mut tables = tables(&[Kind::Numeric]);
        let arguments = [Datum::Int8(1), Datum::Int8(2), numeric("0.75")];
        let rows = transfer(&mut worker, &mut tables, arguments).expect("a result");
        assert_eq!(rows, [[numeric("99.75")]]);
        assert_eq!(tables.log, ["get 0 1 true", "get 0 2 true", "put 0 1 false", "put 0 2 false"]);
        assert_eq!(tables.tables[0][&2], [Datum::Int8(2), numeric("7.75")]);
    }
}

#[test]
fn raised_errors_have_all_their_fields() {
    for channel in CHANNELS {
        let mut worker = worker(channel);
        let mut tables = tables(&[Kind::Numeric]);
        let arguments = [Datum::Int8(2), Datum::Int8(1), numeric("7.01")];
        let error = transfer(&mut worker, &mut tables, arguments).expect_err("too much");
        assert_eq!((error.state().0, error.message()), ("P0001", "the balance is too low"));
        let shown = format!("{error:?}");
        assert!(shown.contains("It is 7.") && shown.contains("Ask for less."), "{shown}");
        // The worker is still in order.
        let arguments = [Datum::Int8(2), Datum::Int8(9), numeric("1")];
        let error = transfer(&mut worker, &mut tables, arguments).expect_err("no account");
        assert_eq!((error.state().0, error.message()), ("P0002", "account 9 does not exist"));
        let arguments = [Datum::Int8(2), Datum::Null, numeric("1")];
        let error = transfer(&mut worker, &mut tables, arguments).expect_err("no account");
        assert_eq!((error.state().0, error.message()), ("22004", "an integer is expected instead of NULL"));
        let types = [Kind::Int8, Kind::Int8].map(SqlType::from);
        let pair = [Datum::Int8(2), Datum::Int8(1)];
        let error = worker.invoke(Entry::Transfer, &[&pair], &types, &mut tables).expect_err("an argument is missing");
        let message = "wrong number of arguments: the routine has 2, its code reads 3";
        assert_eq!((error.state().0, error.message()), ("42703", message));
    }
}

#[test]
fn each_row_of_a_scalar_function_has_its_result() {
    let amounts: Vec<Datum> = (0..1_024).map(|cents| numeric(&format!("{cents}.33"))).chain([Datum::Null]).collect();
    let rows: Vec<&[Datum]> = amounts.iter().skip(1).map(std::slice::from_ref).collect();
    for channel in CHANNELS {
        let mut worker = worker(channel);
        for entry in [Entry::Fee, Entry::FeeOfRows] {
            let mut tables = tables(&[Kind::Numeric]);
            let fees = worker.invoke(entry, &rows, &[Kind::Numeric.into()], &mut tables).expect("results");
            assert_eq!(fees.len(), 1_024);
            assert_eq!(fees[99], [numeric("1.50")], "0.015 * 100.33");
            assert_eq!(fees[1_023], [Datum::Null]);
            assert!(tables.log.is_empty());
        }
    }
}

#[test]
fn every_kind_of_call_is_understood() {
    for channel in CHANNELS {
        let mut worker = worker(channel);
        let mut tables = tables(&[Kind::Int8]);
        let rows = worker.invoke(Entry::EveryCall, &[&[]], &[], &mut tables).expect("a result");
        assert_eq!(rows, [[Datum::Int8(1 + 2 + 3 + 3)]]);
        let expected = [
            "notice Warning begun",
            "put 0 100 true",
            "delete 0 100",
            "get 0 100 false",
            "execute 0 2",
            "scan 0 0 true",
            "next",
            "next",
            "scan 0 1 false",
            "close",
            "execute 1 0",
            "next",
            "next",
        ];
        assert_eq!(tables.log, expected);
    }
}

#[test]
fn emitted_rows_arrive_in_order_whatever_their_number() {
    for channel in CHANNELS {
        let mut worker = worker(channel);
        for count in [0, 1, 20_000] {
            let mut tables = tables(&[Kind::Int8, Kind::Text]);
            let rest = worker.invoke(Entry::Numbers, &[&[Datum::Int8(count)]], &[Kind::Int8.into()], &mut tables);
            let mut all = std::mem::take(&mut tables.emitted);
            all.extend(rest.expect("rows"));
            assert_eq!(all.len() as i64, count);
            let is_in_order = |(at, row): (i64, &Vec<Datum>)| row[0] == Datum::Int8(at);
            assert!((0..).zip(&all).all(is_in_order));
        }
    }
}

#[test]
fn panics_are_failures_with_their_message() {
    for channel in CHANNELS {
        let mut worker = worker(channel);
        let mut tables = tables(&[Kind::Int8]);
        let types = [Kind::Int8.into()];
        let mut failure = |entry, argument: i64| {
            let error = worker.invoke(entry, &[&[Datum::Int8(argument)]], &types, &mut tables).expect_err("a failure");
            (error.state().0, error.message().to_owned())
        };
        let (state, message) = failure(Entry::Panics, 7);
        assert_eq!(state, "38000");
        assert!(message.contains("index out of bounds: the len is 2 but the index is 7"), "{message}");
        let (state, message) = failure(Entry::Panics, -1);
        assert_eq!((state, message.contains("out of range")), ("38000", true), "{message}");
        assert_eq!(failure(Entry::Unknown, 0), ("39000", "the module has no entry 99".to_owned()));
    }
}

#[test]
fn code_that_goes_on_after_an_error_makes_no_more_calls() {
    for channel in CHANNELS {
        let mut worker = worker(channel);
        let mut tables = tables(&[Kind::Int8]);
        let error = worker.invoke(Entry::GoesOn, &[&[]], &[], &mut tables).expect_err("the first error");
        assert_eq!(error.state().0, "23505");
        assert_eq!(tables.log, ["put 0 1 true"]);
    }
}

#[test]
fn a_worker_ends_with_its_socket() {
    let mut worker = worker(Channel::UnixSocket);
    assert!(worker.hang_up().success());
}

#[test]
fn an_idle_worker_sleeps() {
    for channel in CHANNELS {
        let worker = worker(channel);
        thread::sleep(Duration::from_millis(50));
        let before = worker.sleeps();
        thread::sleep(Duration::from_millis(200));
        assert_eq!(worker.sleeps(), before, "{channel}");
    }
}
