//! Integration tests of the binary: each starts it and looks at its exit code and what it printed.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod analytics;
mod command_line;
mod delivery;
mod loads;
mod mixed;
mod page;
mod reports;
mod wire;

use std::process::{Command, ExitCode, Output};

fn main() -> ExitCode {
    testkit::main(
        env!("CARGO_PKG_NAME"),
        &[
            testkit::test!(command_line::version_and_help_exist_on_every_level),
            testkit::test!(command_line::a_bad_argument_is_refused),
            testkit::test!(command_line::an_output_file_that_cannot_be_written_is_refused),
            testkit::test!(command_line::a_taken_port_is_refused),
            testkit::test!(mixed::policies_change_when_never_what),
            testkit::test!(mixed::urgent_work_overtakes_a_running_query_under_preempt),
            testkit::test!(mixed::both_kinds_of_query_yield),
            testkit::test!(mixed::a_query_can_be_stopped_and_another_started),
            testkit::test!(mixed::the_dense_scan_gives_q6s_answer),
            testkit::test!(page::the_demo_works_in_a_browser),
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
            testkit::test!(wire::tpcc_compares_rate_and_processor_time),
            testkit::test!(wire::connections_are_counted_and_weighed),
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

fn text(bytes: &[u8]) -> &str {
    std::str::from_utf8(bytes).unwrap()
}
