//! Goal: the benchmarks of transactions give every figure that they promise, on any machine. Method: short runs.
//!
//! The figures' sizes are not tested: this machine may be loaded.

use crate::{run, text};
use std::fs;

/// Runs `overtake bench` with these arguments to its end, and returns its report and what it printed.
pub fn report(arguments: &[&str]) -> (serde_json::Value, String) {
    report_of("bench", arguments)
}

/// Runs a command that reports with these arguments to its end, and returns its report and what it printed.
pub fn report_of(command: &str, arguments: &[&str]) -> (serde_json::Value, String) {
    let folder = testkit::folder("loads");
    let files = ["report.json", "report.svg"].map(|name| folder.path().join(name));
    let [json, svg] = files.each_ref().map(|path| path.to_str().unwrap());
    let output = run(&[&[command], arguments, &["--json", json, "--svg", svg]].concat());
    assert_eq!(output.status.code(), Some(0), "{arguments:?}: {}", text(&output.stderr));
    let report = serde_json::from_str(&fs::read_to_string(json).unwrap()).unwrap();
    assert!(fs::read_to_string(svg).unwrap().trim_end().ends_with("</svg>"));
    (report, text(&output.stdout).to_owned())
}

/// Checks that the report has all of these figures.
pub fn has_figures(report: &serde_json::Value, names: &[&str]) {
    for name in names {
        assert!(report["figures"][name].is_number(), "{name} is missing: {report:#}");
    }
}

pub fn tpcc_compares_workers_and_isolation() {
    let (report, _) = report(&["tpcc", "--duration", "0.1"]);
    has_figures(
        &report,
        &[
            "tpcc.new_order_per_cpu_s",
            "tpcc.new_order_us.p999",
            "tpcc.mix_per_cpu_s",
            "tpcc.mix_aborts",
            "tpcc.scaling_2",
            "tpcc.serializable_times",
            "tpcc.serializable_aborts",
        ],
    );
}

pub fn tpcc_measures_one_mix_at_one_level() {
    let arguments =
        ["tpcc", "--duration", "0.2", "--mix", "full", "--isolation", "serializable", "--workers", "2", "--purge"];
    let (report, printed) = report(&arguments);
    has_figures(&report, &["tpcc.mix_per_cpu_s", "tpcc.mix_per_s"]);
    assert!(report["figures"]["tpcc.new_order_per_cpu_s"].is_null(), "New-Order alone was not asked for");
    assert_eq!((&report["args"]["mix"], &report["args"]["isolation"]), (&"full".into(), &"serializable".into()));
    assert!(printed.contains("Stock-Level"), "{printed}");
}

/// Goal: the soak reports memory; every query is known by its name, and a short run keeps its conditions.
pub fn soak_tells_what_memory_does() {
    let arguments = ["soak", "--minutes", "0.05", "--rate", "300", "--query", "ch6,q6,scan"];
    let (report, printed) = report(&arguments);
    has_figures(
        &report,
        &[
            "soak.bytes_per_live_row_drift",
            "soak.garbage_share",
            "soak.bytes_per_live_row",
            "soak.live_rows",
            "soak.rss_bytes",
            "soak.e2e_us.p99",
        ],
    );
    let figure = |name: &str| report["figures"][name].as_f64().unwrap();
    assert!(0.0 < figure("soak.offered") && figure("soak.rejected") == 0.0, "{report:#}");
    assert!(700_000.0 < figure("soak.live_rows"), "one warehouse and TPC-H at 0.01 are more than 700,000 rows");
    assert!(printed.contains("consistency conditions hold"), "{printed}");
}

/// Goal: the report shows the versions held back. The rows that the snapshot sees stay as they were, and the garbage
/// goes with it, or there would be no report.
pub fn snapshot_tells_what_is_held_back() {
    let (report, printed) = report(&["snapshot", "--minutes", "0.05", "--rate", "5000", "--rows", "1000"]);
    has_figures(
        &report,
        &["snapshot.growth_of_visible", "snapshot.versions_per_row", "snapshot.left_of_growth", "snapshot.e2e_us.p999"],
    );
    let figure = |name: &str| report["figures"][name].as_f64().unwrap();
    // 15,000 updates of 1,000 rows: all but a few have a version that the snapshot sees, and one that all others see.
    assert!((1.5..4.0).contains(&figure("snapshot.versions_per_row")), "16 without pruning: {report:#}");
    assert!(9_000.0 < figure("snapshot.pruned"), "{report:#}");
    assert!(printed.contains("they were the same"), "{printed}");
}

/// Goal: the four settings are compared. Under each setting nothing is lost, or the tables would not add up and there
/// would be no report.
pub fn locks_compares_the_four_settings() {
    let (report, printed) = report(&["locks", "--duration", "0.4", "--sessions", "20"]);
    for load in ["locks", "locks.hot"] {
        for setting in ["none", "priority_queue", "pow", "not_running"] {
            let names = ["high_mean_us", "low_mean_us", "overall_mean_us", "high_us.p999", "low_per_s", "low_aborts"];
            let names = names.map(|name| format!("{load}.{setting}.{name}"));
            has_figures(&report, &names.each_ref().map(String::as_str));
        }
        has_figures(&report, &[&format!("{load}.high_times"), &format!("{load}.low_share")]);
    }
    assert!(printed.contains("not-running"), "{printed}");
}
