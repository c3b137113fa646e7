//! Integration tests of `workloads`: TPC-C on several threads, plain and under random interrupts.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod against_model;
mod conditions;
mod history;
mod model;
mod procedures;
mod purges;
mod replay;
mod seeds;
mod sessions;
mod support;
mod threads;

use std::process::ExitCode;

fn main() -> ExitCode {
    testkit::main(
        env!("CARGO_PKG_NAME"),
        &[
            testkit::test!(threads::two_terminals_leave_a_consistent_database),
            testkit::test!(threads::the_standard_mix_keeps_the_conditions_at_each_level),
            testkit::test!(threads::a_drive_and_a_check_stop_when_told),
            testkit::test!(threads::a_rolled_back_order_leaves_nothing),
            testkit::test!(threads::retries_are_bounded_and_counted),
            testkit::test!(procedures::an_order_writes_what_the_specification_says),
            testkit::test!(procedures::a_payment_finds_its_customer_by_name),
            testkit::test!(sessions::two_deliveries_never_deliver_the_same_order),
            testkit::test!(sessions::an_order_that_waited_has_the_next_number),
            testkit::test!(against_model::all_five_procedures_agree_with_a_slow_model),
            testkit::test!(against_model::statement_lists_agree_with_the_model),
            testkit::test!(purges::tables_stop_growing_and_the_conditions_hold),
            testkit::test!(purges::frozen_rows_are_delivered_and_purged_as_hot_ones),
            testkit::test!(purges::order_status_and_stock_level_do_not_notice_a_purge),
            testkit::test!(purges::damage_after_a_purge_is_found),
            testkit::test!(purges::a_step_that_aborts_is_repeated),
            testkit::test!(conditions::each_condition_detects_a_planted_violation),
            testkit::test!(conditions::rows_that_are_there_twice_are_detected),
            testkit::test!(seeds::the_same_seed_leaves_the_same_rows),
            testkit::test!(seeds::the_digest_sees_one_changed_row),
            testkit::test!(replay::a_replay_gives_every_snapshot_again),
            testkit::test!(replay::a_replay_refuses_changes_of_unknown_rows),
            testkit::test!(replay::records_come_out_as_they_went_in),
            testkit::test!(history::read_committed_allows_lost_updates),
            testkit::test!(history::repeatable_read_allows_write_skew_and_no_more),
            testkit::test!(history::serializable_allows_nothing),
        ],
    )
}
