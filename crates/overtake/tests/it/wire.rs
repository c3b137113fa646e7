//! Goal: the benchmarks over the wire run against real servers, compare what they say, and give every figure that they
//! promise. Method: short runs at tiny scales, against this binary's `serve` and PostgreSQL 15 as children.
//!
//! The figures' sizes are not tested: this machine may be loaded. PostgreSQL is found, installed, or the run refused with
//! advice; that is said aloud, and fails in CI.

use crate::loads::has_figures;
use crate::{run, text};
use std::fs;

/// Runs `overtake bench wire` with these arguments and returns its report and what it printed; none without PostgreSQL 15.
fn report(arguments: &[&str]) -> Option<(serde_json::Value, String)> {
    let name = format!("overtake-it-wire-{}-{}", std::process::id(), arguments[0]);
    let file = std::env::temp_dir().join(format!("{name}.json"));
    let output = run(&[&["bench", "wire"], arguments, &["--json", file.to_str().unwrap()]].concat());
    let said = text(&output.stderr);
    if output.status.code() == Some(2) && said.contains("PostgreSQL 15") && std::env::var_os("OVERTAKE_CI").is_none() {
        println!("SKIPPED: {arguments:?} was not run, because PostgreSQL 15 is not to be had: {said}");
        return None;
    }
    assert_eq!(output.status.code(), Some(0), "{arguments:?}: {said}");
    let report = serde_json::from_str(&fs::read_to_string(&file).unwrap()).unwrap();
    fs::remove_file(&file).unwrap();
    Some((report, text(&output.stdout).to_owned()))
}

pub fn tpcc_compares_rate_and_processor_time() {
    let scale = ["--warehouses", "1", "--small", "--clients", "3", "--rounds", "1", "--duration", "3"];
    let Some((report, printed)) = report(&[&["tpcc"], &scale[..]].concat()) else { return };
    has_figures(
        &report,
        &[
            "wire.tpcc.overtake.per_s",
            "wire.tpcc.overtake.new_order_us.p999",
            "wire.tpcc.postgres.retries",
            "wire.tpcc.postgres_times",
            "wire.tpcc.postgres_unlogged_times",
            "wire.tpcc.cpu_vs_postgres",
        ],
    );
    // Every condition of both servers was asked.
    assert_eq!(printed.matches("hold afterwards: 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 12.").count(), 3, "{printed}");
}

pub fn connections_are_counted_and_weighed() {
    let scale = ["--idle", "20", "--active", "5", "--duration", "0.2"];
    let Some((report, _)) = report(&[&["connections"], &scale[..]].concat()) else { return };
    for server in ["overtake", "postgres"] {
        for name in ["idle_bytes", "active_bytes", "per_s"] {
            has_figures(&report, &[&format!("wire.connections.{server}.{name}")]);
        }
        assert_eq!(report["figures"][format!("wire.connections.{server}.errors")], 0.0);
    }
}
