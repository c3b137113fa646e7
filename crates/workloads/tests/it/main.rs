//! Integration tests of `workloads`: TPC-C on several threads, plain and under random interrupts.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod conditions;
mod procedures;
mod replay;
mod seeds;
mod support;
mod threads;

use std::process::ExitCode;

fn main() -> ExitCode {
    testkit::main(
        env!("CARGO_PKG_NAME"),
        &[
            testkit::test!(threads::two_terminals_leave_a_consistent_database),
            testkit::test!(threads::a_rolled_back_order_leaves_nothing),
            testkit::test!(threads::retries_are_bounded_and_counted),
            testkit::test!(procedures::an_order_writes_what_the_specification_says),
            testkit::test!(procedures::a_payment_finds_its_customer_by_name),
            testkit::test!(conditions::each_condition_detects_a_planted_violation),
            testkit::test!(conditions::rows_that_are_there_twice_are_detected),
            testkit::test!(seeds::the_same_seed_leaves_the_same_rows),
            testkit::test!(seeds::the_digest_sees_one_changed_row),
            testkit::test!(replay::a_replay_gives_every_snapshot_again),
            testkit::test!(replay::a_replay_refuses_changes_of_unknown_rows),
            testkit::test!(replay::records_come_out_as_they_went_in),
        ],
    )
}
