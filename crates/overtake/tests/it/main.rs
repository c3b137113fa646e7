//! Integration tests of the binary: each starts it and checks its exit code and its output.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod analytics;
mod command_line;
mod delivery;
mod formats;
mod histories;
mod hostile;
mod limits;
mod loads;
mod lookingglass;
mod memory;
mod memory_copies;
mod mixed;
mod mpl;
mod new_order;
mod page;
mod procedures;
mod psql;
mod reports;
mod serve;
mod stalled;
mod urgent;
mod wire;

use std::io::Read;
use std::process::{Child, Command, ExitCode, ExitStatus, Output, Stdio};

fn main() -> ExitCode {
    testkit::main(
        env!("CARGO_PKG_NAME"),
        &[
            testkit::beside!(command_line::version_and_help_exist_on_every_level),
            testkit::beside!(command_line::a_bad_argument_is_refused),
            testkit::plain!(command_line::a_filter_of_messages_that_is_none_is_refused),
            testkit::plain!(command_line::an_output_file_that_cannot_be_written_is_refused),
            testkit::plain!(command_line::a_taken_port_is_refused),
            testkit::beside!(mpl::throughput_is_that_of_the_reference),
            testkit::beside!(mpl::throughput_of_measured_resources),
            testkit::beside!(mpl::response_is_that_of_the_reference),
            testkit::beside!(mpl::several_curves_have_names),
            testkit::beside!(mpl::what_makes_no_model_is_refused_by_name),
            testkit::plain!(limits::set_ups_do_with_few_at_a_time),
            testkit::plain!(limits::important_transactions_go_round_the_queue),
            testkit::plain!(limits::unknown_set_ups_and_parts_are_refused),
            testkit::plain!(mixed::policies_change_when_never_what),
            testkit::plain!(mixed::urgent_work_overtakes_a_running_query_under_preempt),
            testkit::plain!(mixed::both_kinds_of_query_yield),
            testkit::plain!(mixed::a_query_can_be_stopped_and_another_started),
            testkit::beside!(mixed::the_dense_scan_gives_q6s_answer),
            testkit::plain!(page::the_demo_works_in_a_browser),
            testkit::beside!(procedures::new_projects_pass_their_tests),
            testkit::beside!(procedures::stored_functions_run_as_analytics),
            testkit::beside!(procedures::procedures_end_transactions),
            testkit::beside!(procedures::typescript_is_the_same_at_all_levels),
            testkit::beside!(procedures::a_test_that_fails_shows_the_difference),
            testkit::plain!(hostile::tenants_harm_nobody_at_any_level),
            testkit::beside!(new_order::all_programs_do_the_same),
            testkit::plain!(lookingglass::a_short_run_has_all_parts),
            testkit::beside!(psql::the_demos_instances_are_databases),
            testkit::plain!(delivery::every_promised_figure_is_there),
            testkit::plain!(delivery::a_stopped_run_leaves_no_file),
            testkit::beside!(loads::tpcc_compares_workers_and_isolation),
            testkit::beside!(loads::tpcc_measures_one_mix_at_one_level),
            testkit::beside!(analytics::tpch_compares_with_tables_in_memory),
            testkit::beside!(analytics::tpch_compares_with_duckdb),
            testkit::beside!(analytics::ch_checks_every_answer),
            testkit::plain!(loads::snapshot_tells_what_is_held_back),
            testkit::plain!(loads::soak_tells_what_memory_does),
            testkit::beside!(loads::locks_compares_the_four_settings),
            testkit::plain!(reports::a_report_takes_the_analytics_path),
            testkit::plain!(reports::whatever_ends_a_report_ends_it_at_once),
            testkit::plain!(reports::an_urgent_statement_runs_beside_reports),
            testkit::plain!(urgent::urgent_calls_interrupt_queries_that_run_webassembly),
            testkit::plain!(command_line::a_proxy_without_a_server_is_refused),
            testkit::plain!(procedures::a_build_ends_at_once_when_it_is_told),
            testkit::beside!(procedures::a_new_version_stays_at_its_level),
            testkit::plain!(serve::a_loopback_interface_is_served_by_tcp),
            testkit::plain!(serve::a_hangup_reloads_the_settings),
            testkit::plain!(histories::serializable_histories_have_no_cycle_on_either_path),
            testkit::plain!(serve::a_report_survives_a_closed_pipe_and_a_full_disk),
            testkit::plain!(serve::a_server_outlives_its_output),
            testkit::plain!(serve::a_termination_ends_busy_statements),
            testkit::plain!(serve::a_terminated_session_hears_57p01),
            testkit::plain!(serve::long_queries_say_that_they_get_no_processor),
            testkit::plain!(serve::long_queries_on_ordinary_threads_get_a_processor),
            testkit::plain!(memory::statements_are_refused_and_the_process_lives),
            testkit::plain!(memory::a_small_control_group_is_enough),
            testkit::plain!(memory_copies::copies_fit_a_small_control_group),
            testkit::plain!(memory::nine_tenths_of_the_memory_are_somebodys),
            testkit::plain!(stalled::unread_results_keep_no_query_from_running),
            testkit::plain!(stalled::a_cursor_over_a_large_table_takes_no_memory),
            testkit::beside!(formats::every_type_has_the_same_bytes_by_both_paths),
            testkit::beside!(formats::large_batches_have_the_same_bytes_by_both_paths),
            testkit::beside!(wire::tpcc_compares_rate_and_processor_time),
            testkit::beside!(wire::tpcb_compares_rate_and_processor_time),
            testkit::beside!(wire::select_compares_rate_and_processor_time),
            testkit::beside!(wire::tpch_compares_answers_and_times),
            testkit::plain!(wire::mixed_compares_latencies_with_those_of_an_idle_server),
            testkit::plain!(wire::connections_are_counted_and_weighed),
            testkit::plain!(wire::reports_commit_beside_updates),
        ],
    )
}

/// Returns a command of the binary under test.
fn overtake() -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_overtake"));
    command.env_remove("OVERTAKE_LOG");
    command
}

/// Runs the binary to its end.
fn run(arguments: &[&str]) -> Output {
    overtake().args(arguments).output().unwrap()
}

/// Program that does not outlive its test, however the test ends.
struct Program(Child);

impl Drop for Program {
    fn drop(&mut self) {
        // The program has ended, most likely.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

impl Program {
    /// Starts the demonstration, at a small scale.
    fn demo() -> Program {
        let mut command = overtake();
        command.args(["demo", "--port", "0", "--scale-factor", "0.02", "--warehouses", "1"]);
        command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().map(Program).unwrap()
    }

    /// Ends the program by Ctrl-C; returns its exit status and its log.
    fn interrupted(&mut self) -> (ExitStatus, String) {
        let sent = Command::new("kill").args(["-INT", &self.0.id().to_string()]).status().unwrap();
        assert!(sent.success());
        let status = self.0.wait().unwrap();
        let mut log = Vec::new();
        self.0.stderr.take().unwrap().read_to_end(&mut log).unwrap();
        (status, text(&log).to_owned())
    }
}

fn text(bytes: &[u8]) -> &str {
    std::str::from_utf8(bytes).unwrap()
}
