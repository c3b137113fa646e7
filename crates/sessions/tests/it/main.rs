//! Integration tests of `sessions`: real sockets and a database in memory, each test in a process of its own.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod copy;
mod cost;
mod driver;
mod dump;
mod extended;
mod fuzz;
mod gate;
mod interleavings;
mod marks;
mod names;
mod operation;
mod others;
mod parking;
mod psql;
mod real;
mod reference;
mod simple;
mod stages;
mod startup;
mod streams;
mod threads;
mod tls;
mod transports;

use std::process::ExitCode;

fn main() -> ExitCode {
    testkit::main(
        env!("CARGO_PKG_NAME"),
        &[
            testkit::test!(startup::a_session_begins),
            testkit::test!(startup::versions_are_negotiated),
            testkit::test!(startup::bad_packets_are_refused),
            testkit::test!(startup::rules_and_roles_decide),
            testkit::test!(startup::too_many_clients),
            testkit::test!(startup::who_says_nothing_is_turned_away),
            testkit::test!(startup::who_says_nothing_keeps_nobody_out),
            testkit::test!(startup::scram_needs_its_messages),
            testkit::test!(startup::unix_sockets),
            testkit::test!(simple::statements_run_where_they_delay_nobody),
            testkit::test!(simple::long_texts_are_prepared_where_they_delay_nobody),
            testkit::test!(simple::transactions_end_where_they_delay_nobody),
            testkit::test!(simple::statements_are_answered),
            testkit::test!(simple::several_statements_are_one_transaction),
            testkit::test!(simple::several_statements_are_a_transaction_block),
            testkit::test!(simple::a_block_that_cannot_begin_is_over),
            testkit::test!(simple::a_failed_commit_takes_the_tag_away),
            testkit::test!(simple::what_was_answered_is_not_run_again),
            testkit::test!(simple::blocks_and_failed_blocks),
            testkit::test!(simple::bad_messages_end_the_query_or_the_session),
            testkit::test!(simple::large_results_pass),
            testkit::test!(reference::the_page_of_views_is_what_the_server_says),
            testkit::test!(streams::an_endless_result_begins_at_once_and_takes_no_memory),
            testkit::test!(streams::clients_that_do_not_read_cost_little_and_end_at_once),
            testkit::test!(streams::streamed_rows_are_whole_and_in_order),
            testkit::test!(streams::copy_to_the_client_is_sent_while_it_is_made),
            testkit::test!(streams::an_error_behind_sent_rows_is_the_last_word),
            testkit::test!(streams::what_cannot_begin_again_is_not_streamed),
            testkit::test!(streams::a_portal_with_a_row_limit_goes_on_between_its_pieces),
            testkit::test!(extended::statements_and_portals),
            testkit::test!(extended::row_limits),
            testkit::test!(extended::portals_end_with_their_transaction),
            testkit::test!(extended::a_portal_refused_in_a_failed_transaction_goes_on_later),
            testkit::test!(extended::errors_by_name_and_number),
            testkit::test!(extended::an_error_skips_to_sync),
            testkit::test!(gate::one_at_a_time_and_the_important_first),
            testkit::test!(gate::who_waits_can_be_cancelled_or_go),
            testkit::test!(gate::who_dies_inside_leaves),
            testkit::test!(gate::an_idle_transaction_lends_its_slot),
            testkit::test!(gate::who_reads_nothing_lends_its_slot),
            testkit::test!(gate::who_says_good_bye_at_once_is_answered),
            testkit::test!(gate::who_is_waited_for_inside_gets_an_extra_slot),
            testkit::test!(gate::who_is_turned_away_is_told_why),
            testkit::test!(gate::who_runs_for_too_long_is_cancelled),
            testkit::test!(gate::the_gate_shows_itself),
            testkit::test!(marks::rules_look_at_tags_and_fingerprints),
            testkit::test!(marks::the_shortest_expected_goes_first),
            testkit::test!(marks::who_would_meet_at_a_row_waits_outside),
            testkit::test!(marks::a_wait_at_the_gate_is_part_of_the_time),
            testkit::test!(marks::the_gate_is_told_something_else),
            testkit::test!(copy::data_come_in),
            testkit::test!(copy::data_come_in_by_the_extended_protocol),
            testkit::test!(copy::an_error_swallows_the_rest),
            testkit::test!(copy::a_client_gives_up_leaves_or_is_confused),
            testkit::test!(copy::data_that_must_wait),
            testkit::test!(copy::data_go_out_part_by_part),
            testkit::test!(parking::a_parked_statement_goes_on),
            testkit::test!(parking::a_wake_up_for_nothing_parks_again),
            testkit::test!(parking::cancel_by_key),
            testkit::test!(parking::a_client_that_leaves_is_cancelled),
            testkit::test!(parking::who_is_idle_for_too_long_must_go),
            testkit::test!(parking::shutdown_tells_everybody),
            testkit::test!(parking::shutdown_does_not_wait_for_ever),
            testkit::test!(driver::scram_sha_256),
            testkit::test!(driver::simple_and_extended_queries),
            testkit::test!(others::errors_say_what_they_are_about),
            testkit::test!(others::a_copy_tells_of_a_wrong_row_at_once),
            testkit::test!(others::a_copy_is_cancelled_between_its_pieces),
            testkit::test!(others::one_session_ends_another),
            testkit::test!(others::a_dead_client_leaves_nothing),
            testkit::test!(names::statements_have_one_namespace),
            testkit::test!(names::portals_have_one_namespace),
            testkit::test!(names::cursors_in_binary),
            testkit::test!(names::a_sleep_is_cancelled),
            testkit::test!(psql::shows_what_it_shows_of_postgresql),
            testkit::test!(dump::a_dump_makes_the_same_again),
            testkit::test!(dump::to_postgresql_and_back),
            testkit::test!(dump::archives_have_their_owners),
            testkit::test!(real::values_make_the_round_trip),
            testkit::test!(real::a_statement_waits_for_a_row_of_another_session),
            testkit::test!(real::what_is_parsed_waits_for_definitions),
            testkit::test!(real::cancel_and_death_leave_nothing_behind),
            testkit::test!(real::wrong_data_come_before_another_message),
            testkit::test!(real::columns_of_one_batch_may_change),
            testkit::test!(real::a_short_statement_that_gets_long_delays_nobody),
            testkit::test!(real::who_says_good_bye_has_its_work_done),
            testkit::test!(real::who_is_ended_within_a_copy_hears_only_that),
            testkit::test!(real::conflicts_have_their_codes),
            testkit::test!(real::a_statement_alone_survives_a_more_important_one),
            testkit::test!(interleavings::scripts_over_the_wire_1),
            testkit::test!(interleavings::scripts_over_the_wire_2),
            testkit::test!(interleavings::scripts_over_the_wire_3),
            testkit::test!(operation::time_limits_end_statements_and_sessions),
            testkit::test!(operation::a_death_leaves_nothing_behind),
            testkit::test!(operation::classes_come_from_everywhere),
            testkit::test!(operation::roles_are_shared_with_the_server),
            testkit::test!(operation::settings_have_sources),
            testkit::test!(operation::long_statements_delay_nobody),
            testkit::test!(operation::what_runs_can_be_cancelled),
            testkit::test!(operation::a_message_of_many_statements_harms_nobody),
            testkit::test!(operation::what_sleeps_again_and_again_can_be_cancelled),
            testkit::test!(operation::statements_may_be_handed_over),
            testkit::test!(operation::sessions_and_statements_are_counted),
            testkit::test!(stages::a_plan_is_made_once),
            testkit::test!(stages::waits_are_no_work),
            testkit::test!(stages::the_gate_is_a_stage),
            testkit::test!(stages::stages_are_the_whole),
            testkit::test!(stages::explain_shows_stages),
            testkit::test!(stages::runs_have_parts),
            testkit::test!(stages::the_clock_tells_its_cost),
            testkit::test!(operation::what_stood_in_the_way_is_told),
            testkit::test!(operation::a_certificate_binds_the_proof),
            testkit::test!(extended::memory_is_bounded),
            testkit::test!(startup::last_words_are_heard),
            testkit::test!(startup::taken_addresses_are_named),
            testkit::test!(fuzz::garbage_harms_nobody),
            testkit::test!(tls::encryption_by_rustls),
            testkit::test!(tls::handshakes_may_come_first),
            testkit::plain!(transports::the_protocol_over_shared_memory_1),
            testkit::plain!(transports::the_protocol_over_shared_memory_2),
            testkit::plain!(transports::the_protocol_over_shared_memory_3),
            testkit::plain!(transports::the_protocol_over_io_uring_1),
            testkit::plain!(transports::the_protocol_over_io_uring_2),
            testkit::plain!(transports::the_protocol_over_io_uring_3),
            testkit::test!(transports::io_uring_is_used),
            testkit::test!(transports::a_driver_uses_shared_memory),
            testkit::test!(transports::shared_memory_asks_who_comes),
            testkit::test!(transports::garbage_in_rings_harms_nobody),
            testkit::test!(transports::a_dead_peer_leaves_no_session),
            testkit::plain!(transports::killed_clients_leave_nothing),
            testkit::test!(transports::the_end_of_the_server_is_heard),
            testkit::plain!(transports::a_file_is_no_place_for_shared_memory),
            testkit::case!(transports::a_client_to_be_killed),
            testkit::case!(cost::a_thousand_executions),
            testkit::case!(cost::the_clock),
        ],
    )
}
