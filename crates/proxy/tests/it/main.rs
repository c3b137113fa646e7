//! Integration tests of `proxy`: real sockets, PostgreSQL 15 and servers that follow a script, each test in a process
//! of its own.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod admin;
mod cancels;
mod crowd;
mod differential;
mod encryption;
mod fake;
mod flow;
mod given;
mod internal;
mod isolation;
mod marks;
mod passwords;
mod patroni;
mod pools;
mod reload;
mod servers;
mod state;
mod statements;
mod succession;
mod support;
mod trouble;
mod unread;
mod watch;

use std::process::ExitCode;

fn main() -> ExitCode {
    testkit::main(
        env!("CARGO_PKG_NAME"),
        &[
            testkit::plain!(admin::tables_are_pgbouncers),
            testkit::plain!(admin::lists_count_what_there_is),
            testkit::plain!(admin::only_superusers_administer),
            testkit::plain!(admin::administrators_get_in_when_all_is_full),
            testkit::plain!(admin::a_pause_waits_and_holds),
            testkit::plain!(admin::a_pause_can_be_given_up),
            testkit::plain!(admin::connections_are_replaced),
            testkit::plain!(admin::the_gate_is_shown),
            testkit::plain!(admin::what_clients_do_is_seen),
            testkit::plain!(flow::queries_are_answered),
            testkit::plain!(flow::pipelines_are_answered),
            testkit::plain!(flow::a_batch_that_has_ended_keeps_no_connection),
            testkit::plain!(flow::copies_pass),
            testkit::plain!(flow::copies_beside_deallocate_pass),
            testkit::plain!(flow::refused_copies_end),
            testkit::plain!(flow::large_results_pass),
            testkit::plain!(internal::processes_follow_classes),
            testkit::plain!(internal::processes_are_found_by_a_socket),
            testkit::plain!(internal::a_runaway_is_lowered),
            testkit::plain!(internal::high_gets_the_processor),
            testkit::plain!(isolation::many_clients_few_connections),
            testkit::plain!(isolation::a_transaction_keeps_its_connection),
            testkit::plain!(state::settings_follow),
            testkit::plain!(state::empty_settings_follow),
            testkit::plain!(state::calls_are_found_however_they_are_written),
            testkit::plain!(state::levels_are_of_transactions),
            testkit::plain!(state::refused_settings_are_nobodys),
            testkit::plain!(state::logins_have_settings),
            testkit::plain!(state::what_cannot_follow_holds),
            testkit::plain!(state::objects_may_be_temporary_by_the_search_path),
            testkit::plain!(state::what_functions_set_goes_to_nobody_else),
            testkit::plain!(state::notifications_pass),
            testkit::plain!(state::priorities_are_the_fronts),
            testkit::plain!(state::commands_of_the_front_keep_their_place),
            testkit::plain!(state::the_server_and_the_front_agree),
            testkit::plain!(state::roles_have_classes),
            testkit::plain!(state::rules_count_at_login),
            testkit::plain!(state::unknown_settings_are_refused),
            testkit::plain!(state::a_target_outlives_a_connection),
            testkit::plain!(state::resets_go_back_to_the_login),
            testkit::plain!(differential::the_front_says_what_the_server_says),
            testkit::plain!(differential::so_it_does_of_what_it_prepares),
            testkit::plain!(differential::garbage_harms_nobody),
            testkit::plain!(passwords::proofs_are_passed_on),
            testkit::plain!(passwords::passwords_are_asked_for_again),
            testkit::plain!(passwords::roles_are_asked_for_again),
            testkit::plain!(passwords::expired_passwords_are_refused),
            testkit::plain!(passwords::guesses_side_by_side_wait_for_each_other),
            testkit::plain!(passwords::a_failed_login_leaves_pools_alone),
            testkit::plain!(passwords::questions_of_the_front_are_asked_as_itself),
            testkit::plain!(passwords::older_methods_are_known),
            testkit::plain!(passwords::servers_are_encrypted),
            testkit::plain!(encryption::cancels_go_the_way_of_their_session),
            testkit::plain!(encryption::certificates_are_what_the_mode_asks_for),
            testkit::plain!(encryption::passwords_come_from_files_and_the_environment),
            testkit::plain!(statements::statements_follow),
            testkit::plain!(statements::answers_go_together),
            testkit::plain!(statements::failed_statements_are_not_there),
            testkit::plain!(statements::the_unnamed_statement_follows),
            testkit::plain!(statements::ignored_messages_leave_the_unnamed_statement),
            testkit::plain!(statements::the_unnamed_statement_keeps_nobody_waiting),
            testkit::plain!(statements::a_begin_leaves_the_portal_that_it_leaves_at_a_server),
            testkit::plain!(statements::statements_are_taken_away),
            testkit::plain!(statements::statements_that_have_gone_come_back),
            testkit::plain!(statements::who_was_to_make_room_may_stay),
            testkit::plain!(statements::repeated_statements_are_prepared),
            testkit::plain!(statements::prepared_statements_follow_a_changed_table),
            testkit::plain!(statements::statements_mean_what_their_settings_say),
            testkit::plain!(statements::so_do_those_that_are_prepared),
            testkit::plain!(statements::statements_beside_temporary_tables_are_their_clients),
            testkit::plain!(unread::a_slow_reader_has_all_of_it),
            testkit::plain!(unread::who_reads_nothing_for_too_long_is_gone),
            testkit::plain!(unread::who_takes_no_answers_of_the_front_is_not_heard),
            testkit::plain!(trouble::clients_that_go_leave_nothing),
            testkit::plain!(trouble::servers_that_go),
            testkit::plain!(trouble::who_cannot_be_served_is_told_at_once),
            testkit::plain!(trouble::lost_connections_have_their_codes),
            testkit::plain!(trouble::cancels_are_exact),
            testkit::plain!(trouble::who_keeps_a_connection_can_be_cancelled),
            testkit::plain!(cancels::nobody_gets_a_connection_that_a_cancel_may_hit),
            testkit::plain!(cancels::the_next_transaction_is_not_cancelled),
            testkit::plain!(cancels::a_time_limit_of_another_client_turns_nobody_away),
            testkit::plain!(cancels::a_time_limit_of_the_role_turns_nobody_away),
            testkit::plain!(cancels::a_login_has_no_statement_timeout),
            testkit::plain!(trouble::a_shutdown_says_what_is_known),
            testkit::plain!(trouble::who_waits_can_be_cancelled),
            testkit::plain!(marks::rules_look_at_tags_and_fingerprints),
            testkit::plain!(marks::classes_that_do_not_exist_are_refused),
            testkit::plain!(marks::a_block_begins_with_its_first_statement),
            testkit::plain!(marks::a_block_fails_where_it_is_refused),
            testkit::plain!(marks::a_failed_block_has_its_ways_out),
            testkit::plain!(marks::the_shortest_expected_goes_first),
            testkit::plain!(marks::who_would_meet_at_a_row_waits_outside),
            testkit::plain!(marks::a_wait_at_the_gate_is_part_of_the_time),
            testkit::plain!(marks::settings_of_the_front_are_shown),
            testkit::plain!(marks::a_runaway_is_told_so),
            testkit::plain!(reload::settings_are_read_again),
            testkit::plain!(reload::pools_become_smaller),
            testkit::plain!(reload::resets_count_at_once),
            testkit::plain!(reload::settings_reach_each_gate),
            testkit::plain!(crowd::two_thousand_clients_on_twenty_connections),
            testkit::plain!(crowd::servers_that_are_killed_and_come_back),
            testkit::plain!(crowd::clients_that_go_in_any_state_leave_nothing),
            testkit::plain!(crowd::a_server_with_little_room),
            testkit::plain!(crowd::a_server_that_is_away_is_waited_for),
            testkit::plain!(crowd::idle_connections_make_room),
            testkit::plain!(crowd::who_waits_for_a_connection_lets_those_in_who_have_one),
            testkit::plain!(pools::who_waits_for_a_connection_takes_no_slot),
            testkit::plain!(pools::the_wait_for_a_connection_has_an_end),
            testkit::plain!(pools::a_line_that_moves_is_waited_in),
            testkit::plain!(pools::a_connection_goes_to_the_most_important),
            testkit::plain!(pools::a_server_without_room_takes_no_slots),
            testkit::plain!(pools::who_keeps_a_connection_keeps_its_place),
            testkit::plain!(pools::a_login_waits_no_longer),
            testkit::plain!(given::sessions_begin_with_the_fronts_settings),
            testkit::plain!(given::all_settings_of_sessions_reach_the_server),
            testkit::plain!(given::ordinary_roles_are_normal_at_most),
            testkit::plain!(given::the_configuration_has_a_highest_class),
            testkit::plain!(watch::the_resource_that_dominates_is_named),
            testkit::plain!(watch::who_waits_for_itself_is_let_in_at_once),
            testkit::plain!(watch::a_long_statement_is_no_stall),
            testkit::plain!(watch::without_rights_silence_is_a_stall),
            testkit::plain!(servers::transactions_go_where_they_belong),
            testkit::plain!(servers::a_full_server_is_not_down),
            testkit::plain!(servers::roles_are_followed),
            testkit::plain!(servers::a_later_timeline_counts),
            testkit::plain!(servers::clients_choose_their_servers),
            testkit::plain!(servers::targets_follow_their_clients),
            testkit::plain!(servers::lost_outcomes_are_unknown),
            testkit::plain!(servers::servers_have_gates_of_their_own),
            testkit::plain!(servers::last_words_are_for_those_whom_they_concern),
            testkit::plain!(servers::nothing_is_said_within_a_message),
            testkit::plain!(servers::long_messages_are_bounded),
            testkit::plain!(servers::readiness_is_the_servers),
            testkit::plain!(succession::a_fenced_server_is_accepted),
            testkit::plain!(succession::a_promotion_goes_on_from_what_was_accepted),
            testkit::plain!(patroni::nothing_acknowledged_is_lost),
            testkit::case!(encryption::a_login_by_the_environment),
        ],
    )
}
