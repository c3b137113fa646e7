//! Integration tests of `preempt`: real signals on real threads, each test in a process of its own.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod contexts;
mod dying;
mod heap;
mod regions;
mod support;

use std::process::ExitCode;

fn main() -> ExitCode {
    testkit::main(
        env!("CARGO_PKG_NAME"),
        &[
            testkit::test!(contexts::a_signal_interrupts_code_without_safepoints),
            testkit::test!(contexts::a_flag_is_served_at_a_safepoint_and_only_there),
            testkit::test!(contexts::the_ladder_sends_no_signal_to_dense_code),
            testkit::test!(contexts::an_urgent_context_is_not_interrupted),
            testkit::test!(contexts::the_base_context_is_paused_while_an_urgent_one_runs),
            testkit::test!(contexts::an_idle_worker_is_woken_by_every_rung),
            testkit::test!(contexts::leaving_dense_code_serves_what_was_flagged),
            testkit::test!(contexts::registers_survive_an_interrupt),
            testkit::test!(contexts::errno_survives_an_interrupt),
            testkit::test!(contexts::a_signal_from_elsewhere_is_ignored),
            testkit::test!(contexts::a_panic_in_an_urgent_context_harms_no_other),
            testkit::test!(contexts::a_worker_slot_is_used_again),
            testkit::test!(contexts::a_late_sender_mutes_no_new_worker),
            testkit::test!(contexts::a_signal_that_lost_its_value_is_served),
            testkit::test!(contexts::a_worker_may_end_with_its_threads_locals),
            testkit::test!(contexts::a_timer_expires_at_the_last_time_that_was_set),
            testkit::test!(contexts::a_worker_is_seen_where_it_runs),
            testkit::test!(contexts::what_an_urgent_context_takes_along_waits_for_no_region),
            testkit::test!(regions::an_interrupt_in_a_region_is_served_at_its_end),
            testkit::test!(regions::only_the_outermost_end_serves),
            testkit::test!(regions::a_latch_is_never_met_by_an_urgent_context),
            testkit::test!(heap::the_guard_covers_the_process),
            testkit::test!(heap::the_heap_survives_interrupts_inside_it),
            testkit::test!(heap::blocks_of_all_sizes_keep_their_contents),
            testkit::test!(heap::the_reserve_ends_at_the_resident_limit),
            testkit::test!(dying::a_stack_overflow_names_the_context),
            testkit::test!(dying::an_overflow_of_an_ordinary_stack_is_reported_as_before),
            testkit::test!(dying::a_panic_that_leaves_serve_ends_the_process),
            testkit::case!(dying::overflow_in_a_signalled_context),
            testkit::case!(dying::overflow_in_a_polled_context),
            testkit::case!(dying::overflow_of_the_base_stack),
            testkit::case!(dying::panic_out_of_serve),
        ],
    )
}
