//! Integration tests of `sched`: real threads, real signals, each test in a process of its own.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod claims;
mod lives;
mod load;
mod parking;
mod policies;
mod raising;
mod support;

use std::process::ExitCode;

fn main() -> ExitCode {
    testkit::main(
        env!("CARGO_PKG_NAME"),
        &[
            testkit::test!(policies::preempt_by_signal_runs_inside_a_query_without_safepoints),
            testkit::test!(policies::preempt_by_poll_runs_at_safepoints),
            testkit::test!(policies::preempt_by_both_rungs),
            testkit::test!(policies::wait_runs_after_the_query_in_the_order_of_submission),
            testkit::test!(policies::wait_keeps_a_later_query_ahead_of_later_requests),
            testkit::test!(policies::boundary_runs_after_the_query_by_class),
            testkit::test!(policies::yield_runs_at_the_point_that_is_due),
            testkit::test!(policies::thread_runs_beside_the_query),
            testkit::test!(policies::low_requests_interrupt_no_query),
            testkit::test!(policies::idle_workers_run_at_once),
            testkit::test!(policies::an_interruptible_worker_runs_elsewhere),
            testkit::test!(policies::an_idle_worker_takes_what_a_busy_one_has),
            testkit::test!(lives::a_panic_harms_no_other_request),
            testkit::test!(lives::a_cancelled_request_never_runs),
            testkit::test!(lives::a_request_may_ask_to_run_again),
            testkit::test!(lives::low_jobs_start_in_order_and_can_be_taken_back),
            testkit::test!(lives::a_paused_low_job_lets_the_next_one_in),
            testkit::test!(lives::what_stood_behind_a_query_that_is_taken_back_runs),
            testkit::test!(lives::shutdown_cancels_and_turns_away),
            testkit::test!(lives::events_tell_the_story),
            testkit::test!(parking::a_wake_up_before_the_end_of_the_run_counts),
            testkit::test!(parking::a_parked_request_comes_back_under_every_policy),
            testkit::test!(parking::a_wake_up_counts_once_and_only_for_its_run),
            testkit::test!(parking::what_is_parked_does_not_use_up_attempts),
            testkit::test!(parking::a_full_scheduler_takes_parked_requests_back),
            testkit::test!(parking::parked_requests_count_as_under_way),
            testkit::test!(parking::a_parked_request_is_not_taken_back),
            testkit::test!(parking::many_sessions_take_turns_at_one_lock),
            testkit::test!(claims::what_is_late_is_claimed),
            testkit::test!(claims::claims_can_be_forbidden_and_may_park),
            testkit::test!(claims::the_cap_holds_for_claims),
            testkit::test!(raising::a_worker_below_others_is_raised_for_requests),
            testkit::test!(raising::a_worker_is_lowered_again_whoever_submits),
            testkit::test!(load::everything_runs_exactly_once),
            testkit::test!(load::the_cap_leaves_queries_their_share),
        ],
    )
}
