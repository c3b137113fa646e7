//! Integration tests of the binary: each starts it and looks at its exit code and what it printed.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod analytics;
mod command_line;
mod delivery;
mod limits;
mod loads;
mod memory;
mod memory_copies;
mod mixed;
mod mpl;
mod page;
mod psql;
mod reports;
mod serve;
mod wire;

use std::io::Read;
use std::process::{Child, Command, ExitCode, ExitStatus, Output, Stdio};

fn main() -> ExitCode {
    testkit::main(
        env!("CARGO_PKG_NAME"),
        &[
            testkit::test!(command_line::version_and_help_exist_on_every_level),
            testkit::test!(command_line::a_bad_argument_is_refused),
            testkit::test!(command_line::a_filter_of_messages_that_is_none_is_refused),
            testkit::test!(command_line::an_output_file_that_cannot_be_written_is_refused),
            testkit::test!(command_line::a_taken_port_is_refused),
            testkit::test!(mpl::throughput_is_that_of_the_reference),
            testkit::test!(mpl::throughput_of_measured_resources),
            testkit::test!(mpl::response_is_that_of_the_reference),
            testkit::test!(mpl::several_curves_have_names),
            testkit::test!(mpl::what_makes_no_model_is_refused_by_name),
            testkit::test!(limits::set_ups_do_with_few_at_a_time),
            testkit::test!(limits::important_transactions_go_round_the_queue),
            testkit::test!(limits::unknown_set_ups_and_parts_are_refused),
            testkit::test!(mixed::policies_change_when_never_what),
            testkit::test!(mixed::urgent_work_overtakes_a_running_query_under_preempt),
            testkit::test!(mixed::both_kinds_of_query_yield),
            testkit::test!(mixed::a_query_can_be_stopped_and_another_started),
            testkit::test!(mixed::the_dense_scan_gives_q6s_answer),
            testkit::test!(page::the_demo_works_in_a_browser),
            testkit::test!(psql::the_demos_instances_are_databases),
            testkit::test!(delivery::every_promised_figure_is_there),
            testkit::test!(delivery::a_stopped_run_leaves_no_file),
            testkit::test!(loads::tpcc_compares_workers_and_isolation),
            testkit::test!(loads::tpcc_measures_one_mix_at_one_level),
            testkit::test!(analytics::tpch_compares_with_tables_in_memory),
            testkit::test!(analytics::tpch_compares_with_duckdb),
            testkit::test!(analytics::ch_checks_every_answer),
            testkit::test!(loads::snapshot_tells_what_is_held_back),
            testkit::test!(loads::soak_tells_what_memory_does),
            testkit::test!(loads::locks_compares_the_four_settings),
            testkit::test!(reports::a_report_takes_the_analytics_path),
            testkit::test!(reports::whatever_ends_a_report_ends_it_at_once),
            testkit::test!(reports::an_urgent_statement_runs_beside_reports),
            testkit::test!(serve::a_hangup_reloads_the_settings),
            testkit::test!(serve::a_report_survives_a_closed_pipe_and_a_full_disk),
            testkit::test!(serve::a_server_outlives_its_output),
            testkit::test!(serve::a_termination_ends_busy_statements),
            testkit::test!(serve::a_terminated_session_hears_57p01),
            testkit::test!(memory::statements_are_refused_and_the_process_lives),
            testkit::test!(memory::a_small_control_group_is_enough),
            testkit::test!(memory_copies::copies_fit_a_small_control_group),
            testkit::test!(memory::nine_tenths_of_the_memory_are_somebodys),
            testkit::test!(wire::tpcc_compares_rate_and_processor_time),
            testkit::test!(wire::tpcb_compares_rate_and_processor_time),
            testkit::test!(wire::select_compares_rate_and_processor_time),
            testkit::test!(wire::tpch_compares_answers_and_times),
            testkit::test!(wire::mixed_compares_latencies_with_those_of_an_idle_server),
            testkit::test!(wire::connections_are_counted_and_weighed),
            testkit::test!(wire::reports_commit_beside_updates),
        ],
    )
}

/// The binary under test.
fn overtake() -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_overtake"));
    command.env_remove("OVERTAKE_LOG");
    command
}

/// Runs the binary to its end.
fn run(arguments: &[&str]) -> Output {
    overtake().args(arguments).output().unwrap()
}

/// A program that does not outlive its test, however that ends.
struct Program(Child);

impl Drop for Program {
    fn drop(&mut self) {
        // It has ended, most likely.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

impl Program {
    /// The demonstration, at a small scale.
    fn demo() -> Program {
        let mut command = overtake();
        command.args(["demo", "--port", "0", "--scale-factor", "0.02", "--warehouses", "1"]);
        command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().map(Program).unwrap()
    }

    /// Ends it by Ctrl-C: how it ended, and what it has logged.
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
