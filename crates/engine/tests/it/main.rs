//! Integration tests of `engine`, each in a process of its own, plain and under a storm of interrupts.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod basics;
mod conflicts;
mod deadlocks;
mod freeze;
mod garbage;
mod limits;
mod load;
mod lock_priority;
mod locks;
mod own_snapshot;
mod panics;
mod prune;
mod redo;
mod savepoints;
mod scans;
mod scripts;
mod serial;
mod serial_mode;
mod serial_order;
mod sessions;
mod stress;
mod support;
mod taking;
mod thaw;
mod thick_and_thin;
mod waits;

use std::process::ExitCode;

fn main() -> ExitCode {
    testkit::main(
        env!("CARGO_PKG_NAME"),
        &[
            testkit::test!(basics::a_snapshot_sees_what_was_committed_before_it),
            testkit::test!(basics::a_command_does_not_see_its_own_effects),
            testkit::test!(basics::a_transaction_changes_its_own_row_again),
            testkit::test!(basics::an_abort_undoes_everything),
            testkit::test!(basics::values_come_back_exactly),
            testkit::test!(basics::ranges_respect_their_bounds),
            testkit::test!(basics::ranges_read_ahead_the_same_rows),
            testkit::test!(basics::rows_inserted_together_are_all_there_or_none),
            testkit::test!(basics::many_are_found_as_one_is),
            testkit::test!(basics::each_is_found_in_its_table),
            testkit::test!(basics::values_that_do_not_fit_are_refused),
            testkit::test!(basics::definitions_are_checked),
            testkit::test!(conflicts::a_lost_update_is_prevented),
            testkit::test!(conflicts::a_claimed_row_is_refused_to_others),
            testkit::test!(conflicts::a_deleted_row_conflicts_or_does_not_exist),
            testkit::test!(conflicts::a_unique_key_has_one_row),
            testkit::test!(conflicts::keys_move_between_rows),
            testkit::test!(conflicts::racing_inserts_of_one_key_have_one_winner),
            testkit::test!(taking::a_paused_less_important_holder_loses_its_rows),
            testkit::test!(taking::only_the_more_important_take),
            testkit::test!(taking::an_aborted_taker_leaves_the_committed_row),
            testkit::test!(taking::a_victim_is_run_again),
            testkit::test!(garbage::updates_leave_memory_level),
            testkit::test!(garbage::a_snapshot_holds_back_only_while_it_lives),
            testkit::test!(garbage::deleted_rows_leave_no_entries),
            testkit::test!(garbage::a_key_regained_and_undone_leaves_no_entry),
            testkit::test!(panics::a_closure_that_panics_leaves_its_row_alone),
            testkit::test!(panics::a_statement_that_panics_fails_its_transaction),
            testkit::test!(panics::a_waiter_that_panics_leaves_its_queue),
            testkit::test!(prune::every_snapshot_sees_its_own_state),
            testkit::test!(prune::threads_prune_while_others_read),
            testkit::test!(prune::a_hot_row_is_pruned_by_many),
            testkit::test!(prune::an_old_snapshot_keeps_what_it_sees),
            testkit::test!(prune::many_snapshots_cost_others_little),
            testkit::test!(prune::short_lives_leave_nothing_beside_an_old_snapshot),
            testkit::test!(prune::a_purged_table_stays_as_it_is),
            testkit::test!(prune::ids_come_back_under_readers),
            testkit::test!(prune::a_loser_undoes_what_it_claimed),
            testkit::test!(limits::memory_is_limited),
            testkit::test!(limits::a_load_is_limited),
            testkit::test!(limits::open_transactions_are_limited),
            testkit::test!(limits::versions_held_back_are_limited),
            testkit::test!(limits::open_transactions_are_shown),
            testkit::test!(limits::a_resting_transaction_keeps_no_garbage),
            testkit::test!(limits::a_load_that_panics_holds_nothing_back),
            testkit::test!(scans::a_snapshot_scans_blocks_and_hot_rows),
            testkit::test!(scans::blocks_go_out_without_copying),
            testkit::test!(scans::slices_of_arrays_count_once),
            testkit::test!(scans::a_scan_comes_in_batches_without_a_bound),
            testkit::test!(scans::a_row_that_is_too_wide_is_not_loaded),
            testkit::test!(scans::frozen_rows_are_read_by_key),
            testkit::test!(scans::a_failed_load_leaves_nothing),
            testkit::test!(scans::all_types_are_scanned),
            testkit::test!(load::the_end_of_a_load_wakes_who_waits),
            testkit::test!(load::a_load_that_was_taken_says_so),
            testkit::test!(load::a_load_and_a_table_lock_exclude_each_other),
            testkit::test!(own_snapshot::a_transaction_scans_what_it_sees),
            testkit::test!(own_snapshot::a_statement_scans_what_it_has_done),
            testkit::test!(own_snapshot::noted_scans_are_checked),
            testkit::test!(own_snapshot::transactions_end_under_their_scans),
            testkit::test!(thaw::frozen_rows_take_writes),
            testkit::test!(thaw::keys_of_frozen_rows_are_given_up),
            testkit::test!(thaw::money_thaws_under_scans),
            testkit::test!(freeze::rows_at_rest_are_frozen),
            testkit::test!(freeze::a_snapshot_that_stays_open_stops_the_freezer),
            testkit::test!(freeze::worn_blocks_are_made_anew),
            testkit::test!(freeze::rows_that_thaw_rest_longer),
            testkit::test!(freeze::failed_loads_leave_no_blocks),
            testkit::test!(freeze::scans_leave_blocks_out),
            testkit::test!(freeze::all_types_are_equal_hot_and_frozen),
            testkit::test!(thick_and_thin::random_changes_equal_the_model),
            testkit::test!(thick_and_thin::pairs_stay_together_while_rows_move),
            testkit::test!(redo::records_replay_to_the_same_tables),
            testkit::test!(redo::all_types_are_decoded),
            testkit::test!(redo::commits_return_positions),
            testkit::test!(serial::a_read_only_transaction_refuses_writes),
            testkit::test!(serial::write_skew_by_keys_is_refused),
            testkit::test!(serial::write_skew_by_absent_keys_is_refused),
            testkit::test!(serial::ranges_are_read_as_far_as_consumed),
            testkit::test!(serial::ranges_by_prefix_know_their_rows),
            testkit::test!(serial::scans_are_read_by_their_conditions),
            testkit::test!(serial::a_scan_sees_own_changes),
            testkit::test!(serial::the_read_only_anomaly_is_prevented),
            testkit::test!(serial::read_only_transactions_cost_others_nothing),
            testkit::test!(serial::a_lost_update_is_refused),
            testkit::test!(serial::a_unique_violation_is_a_read),
            testkit::test!(serial::what_was_undone_was_read),
            testkit::test!(serial::disjoint_writers_both_commit),
            testkit::test!(serial_mode::others_are_checked_too),
            testkit::test!(serial_mode::frozen_rows_are_checked_too),
            testkit::test!(serial_mode::serial_mode_comes_and_goes),
            testkit::test!(serial_mode::the_memory_for_recent_writes_is_bounded),
            testkit::test!(serial_mode::who_waits_learns_that_its_memory_is_gone),
            testkit::test!(serial_mode::a_long_read_log_stands_for_whole_tables),
            testkit::test!(serial_mode::somebody_stays_on_call),
            testkit::test!(serial_mode::versions_to_be_checked_are_not_pruned),
            testkit::test!(serial_mode::sessions_remember_what_they_read),
            testkit::test!(serial_order::the_order_of_commits_is_a_serial_order),
            testkit::test!(stress::money_is_conserved),
            testkit::test!(locks::row_locks_exclude_as_in_postgresql),
            testkit::test!(locks::writes_are_locks_of_rows),
            testkit::test!(locks::ones_own_lock_is_in_nobodys_way),
            testkit::test!(locks::table_locks_exclude_as_in_postgresql),
            testkit::test!(locks::rows_lock_their_table),
            testkit::test!(locks::a_wake_up_is_no_lost_place),
            testkit::test!(locks::a_woken_place_is_passed_three_times),
            testkit::test!(locks::a_grant_that_is_not_collected_goes_on),
            testkit::test!(locks::races_for_a_key_wait_for_the_other),
            testkit::test!(locks::writes_meet_the_newest_version),
            testkit::test!(locks::statements_see_their_snapshots),
            testkit::test!(locks::locks_have_a_limit),
            testkit::test!(locks::the_view_says_who_blocks_whom),
            testkit::test!(locks::who_wrote_nothing_keeps_no_table),
            testkit::test!(locks::tables_are_locked_beyond_the_64th),
            testkit::test!(savepoints::a_savepoint_undoes_what_came_after_it),
            testkit::test!(savepoints::a_savepoint_gives_up_locks),
            testkit::test!(savepoints::an_error_is_undone_to_the_last_savepoint),
            testkit::test!(savepoints::a_statement_that_waits_is_undone),
            testkit::test!(savepoints::a_savepoint_of_a_victim_is_gone_for_that_reason),
            testkit::test!(lock_priority::waiters_are_served_by_class),
            testkit::test!(lock_priority::holders_give_way_as_the_setting_says),
            testkit::test!(lock_priority::a_holder_that_comes_to_rest_gives_way),
            testkit::test!(lock_priority::patience_ends),
            testkit::test!(lock_priority::all_rows_of_a_victim_are_free),
            testkit::test!(lock_priority::losers_are_promoted),
            testkit::test!(lock_priority::a_promotion_outlives_a_wait),
            testkit::test!(lock_priority::a_paused_procedure_gives_way),
            testkit::test!(deadlocks::two_wait_for_each_other),
            testkit::test!(deadlocks::three_wait_in_a_ring),
            testkit::test!(deadlocks::inserters_wait_for_each_other),
            testkit::test!(deadlocks::sharers_wait_for_each_other),
            testkit::test!(deadlocks::a_table_and_a_row),
            testkit::test!(deadlocks::a_queue_closes_a_circle),
            testkit::test!(deadlocks::a_victim_goes_on_from_its_savepoint),
            testkit::test!(deadlocks::procedures_hold_nothing_while_they_wait),
            testkit::test!(waits::a_commit_wakes_who_waits),
            testkit::test!(waits::a_ticket_is_for_one_wait),
            testkit::test!(waits::a_lock_wait_times_out),
            testkit::test!(waits::a_wake_up_prolongs_no_lock_wait),
            testkit::test!(waits::statements_are_cancelled),
            testkit::test!(waits::skip_locked_shares_out_work),
            testkit::test!(waits::no_wake_up_is_lost),
            testkit::test!(waits::a_procedure_waits_with_empty_hands),
            testkit::test!(waits::woken_procedures_do_not_send_each_other_round),
            testkit::test!(panics::a_panic_leaves_no_place),
            testkit::test!(scripts::anomalies),
            testkit::test!(scripts::row_locks),
            testkit::test!(scripts::unique_races_and_rechecks),
            testkit::test!(scripts::deadlocks_and_savepoints),
            testkit::test!(scripts::table_locks),
        ],
    )
}
