//! Integration tests of `server`: real sockets, a session that follows a script, each test in a process of its own.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod copy;
mod cost;
mod driver;
mod extended;
mod fuzz;
mod gate;
mod interleavings;
mod names;
mod operation;
mod others;
mod parking;
mod psql;
mod real;
mod script;
mod simple;
mod startup;
mod support;
mod tls;
mod upstream;

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
            testkit::test!(startup::scram_needs_its_messages),
            testkit::test!(startup::unix_sockets),
            testkit::test!(simple::statements_run_where_they_delay_nobody),
            testkit::test!(simple::statements_are_answered),
            testkit::test!(simple::several_statements_are_one_transaction),
            testkit::test!(simple::a_failed_commit_takes_the_tag_away),
            testkit::test!(simple::blocks_and_failed_blocks),
            testkit::test!(simple::bad_messages_end_the_query_or_the_session),
            testkit::test!(simple::large_results_pass),
            testkit::test!(extended::statements_and_portals),
            testkit::test!(extended::row_limits),
            testkit::test!(extended::portals_end_with_their_transaction),
            testkit::test!(extended::errors_by_name_and_number),
            testkit::test!(extended::an_error_skips_to_sync),
            testkit::test!(gate::one_at_a_time_and_the_important_first),
            testkit::test!(gate::who_waits_can_be_cancelled_or_go),
            testkit::test!(gate::who_dies_inside_leaves),
            testkit::test!(gate::an_idle_transaction_lends_its_slot),
            testkit::test!(gate::who_is_waited_for_inside_gets_an_extra_slot),
            testkit::test!(gate::who_is_turned_away_is_told_why),
            testkit::test!(gate::who_runs_for_too_long_is_cancelled),
            testkit::test!(gate::the_gate_shows_itself),
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
            testkit::test!(others::a_copy_is_cancelled_between_its_pieces),
            testkit::test!(others::one_session_ends_another),
            testkit::test!(others::a_dead_client_leaves_nothing),
            testkit::test!(names::statements_have_one_namespace),
            testkit::test!(names::portals_have_one_namespace),
            testkit::test!(names::cursors_in_binary),
            testkit::test!(names::a_sleep_is_cancelled),
            testkit::test!(psql::shows_what_it_shows_of_postgresql),
            testkit::test!(real::values_make_the_round_trip),
            testkit::test!(real::a_statement_waits_for_a_row_of_another_session),
            testkit::test!(real::cancel_and_death_leave_nothing_behind),
            testkit::test!(real::conflicts_have_their_codes),
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
            testkit::test!(operation::what_sleeps_again_and_again_can_be_cancelled),
            testkit::test!(operation::statements_may_be_handed_over),
            testkit::test!(operation::sessions_and_statements_are_counted),
            testkit::test!(operation::what_stood_in_the_way_is_told),
            testkit::test!(operation::a_certificate_binds_the_proof),
            testkit::test!(extended::memory_is_bounded),
            testkit::test!(startup::last_words_are_heard),
            testkit::test!(fuzz::garbage_harms_nobody),
            testkit::test!(fuzz::garbage_harms_no_real_session),
            testkit::test!(tls::encryption_by_rustls),
            testkit::test!(upstream::admin::tables_are_pgbouncers),
            testkit::test!(upstream::admin::only_superusers_administer),
            testkit::test!(upstream::admin::a_pause_waits_and_holds),
            testkit::test!(upstream::admin::a_pause_can_be_given_up),
            testkit::test!(upstream::admin::connections_are_replaced),
            testkit::test!(upstream::admin::the_gate_is_shown),
            testkit::test!(upstream::admin::what_clients_do_is_seen),
            testkit::test!(upstream::flow::queries_are_answered),
            testkit::test!(upstream::flow::pipelines_are_answered),
            testkit::test!(upstream::flow::copies_pass),
            testkit::test!(upstream::flow::large_results_pass),
            testkit::test!(upstream::isolation::many_clients_few_connections),
            testkit::test!(upstream::isolation::a_transaction_keeps_its_connection),
            testkit::test!(upstream::state::settings_follow),
            testkit::test!(upstream::state::logins_have_settings),
            testkit::test!(upstream::state::what_cannot_follow_holds),
            testkit::test!(upstream::state::notifications_pass),
            testkit::test!(upstream::state::priorities_are_the_fronts),
            testkit::test!(upstream::state::rules_count_at_login),
            testkit::test!(upstream::differential::the_front_says_what_the_server_says),
            testkit::test!(upstream::differential::garbage_harms_nobody),
            testkit::test!(upstream::passwords::proofs_are_passed_on),
            testkit::test!(upstream::passwords::older_methods_are_known),
            testkit::test!(upstream::passwords::servers_are_encrypted),
            testkit::test!(upstream::statements::statements_follow),
            testkit::test!(upstream::statements::failed_statements_are_not_there),
            testkit::test!(upstream::statements::the_unnamed_statement_follows),
            testkit::test!(upstream::statements::statements_are_taken_away),
            testkit::test!(upstream::trouble::clients_that_go_leave_nothing),
            testkit::test!(upstream::trouble::servers_that_go),
            testkit::test!(upstream::trouble::lost_connections_have_their_codes),
            testkit::test!(upstream::trouble::cancels_are_exact),
            testkit::test!(upstream::trouble::who_waits_can_be_cancelled),
            testkit::test!(upstream::servers::transactions_go_where_they_belong),
            testkit::test!(upstream::servers::roles_are_followed),
            testkit::test!(upstream::servers::a_later_timeline_counts),
            testkit::test!(upstream::servers::clients_choose_their_servers),
            testkit::test!(upstream::servers::targets_follow_their_clients),
            testkit::test!(upstream::servers::lost_outcomes_are_unknown),
            testkit::test!(upstream::servers::servers_have_gates_of_their_own),
            testkit::test!(upstream::patroni::nothing_acknowledged_is_lost),
            testkit::case!(cost::a_thousand_executions),
        ],
    )
}
