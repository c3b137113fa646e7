//! Goal: the benchmarks over the wire run against real servers, compare their answers, and give every figure that they
//! promise. Method: short runs at tiny scales, against this binary's `serve` and PostgreSQL 15 as children.
//!
//! The figures' sizes are not tested: this machine may be loaded. PostgreSQL is found, installed, or the run refused
//! with advice; that is reported aloud, and fails in CI.

use crate::loads::has_figures;
use crate::{run, text};
use std::fs;

const BOTH: [&str; 2] = ["overtake", "postgres"];

/// Runs `overtake bench wire` with these arguments and returns its report and its output; none without PostgreSQL 15.
fn report(arguments: &[&str]) -> Option<(serde_json::Value, String)> {
    let folder = testkit::folder("wire");
    let file = folder.path().join("report.json");
    let output = run(&[&["bench", "wire"], arguments, &["--json", file.to_str().unwrap()]].concat());
    let said = text(&output.stderr);
    if output.status.code() == Some(2) && said.contains("PostgreSQL 15") && std::env::var_os("OVERTAKE_CI").is_none() {
        println!("SKIPPED: {arguments:?} was not run, because PostgreSQL 15 is not to be had: {said}");
        return None;
    }
    assert_eq!(output.status.code(), Some(0), "{arguments:?}: {said}");
    let report = serde_json::from_str(&fs::read_to_string(&file).unwrap()).unwrap();
    Some((report, text(&output.stdout).to_owned()))
}

pub fn tpcc_compares_rate_and_processor_time() {
    // This server is reached by a socket; the other tests connect by TCP.
    let scale =
        ["--warehouses", "1", "--small", "--clients", "3", "--rounds", "1", "--duration", "3", "--transport", "unix"];
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
    for server in BOTH {
        for name in ["idle_bytes", "active_bytes", "per_s"] {
            has_figures(&report, &[&format!("wire.connections.{server}.{name}")]);
        }
        assert_eq!(report["figures"][format!("wire.connections.{server}.errors")], 0.0);
    }
}

/// Goal: reports at SERIALIZABLE commit each time beside updates of the rows that they read, at any isolation level of
/// the updates.
pub fn reports_commit_beside_updates() {
    let scale = ["--transactions", "12", "--sessions", "4", "--think-ms", "60"];
    let Some((report, _)) = report(&[&["reports"], &scale[..]].concat()) else { return };
    for beside in ["plain", "serializable"] {
        let figure = |name: &str| &report["figures"][format!("wire.reports.{beside}.think_60.{name}")];
        assert_eq!((figure("overtake.committed"), figure("overtake.refused")), (&12.0.into(), &0.0.into()));
        has_figures(&report, &[&format!("wire.reports.{beside}.think_60.postgres_times")]);
    }
    for beside in ["readers", "open_readers"] {
        has_figures(&report, &[&format!("wire.reports.{beside}.think_60.overtake.committed")]);
    }
}

pub fn tpcb_compares_rate_and_processor_time() {
    pgbench("tpcb", &["overtake", "postgres", "postgres_unlogged"]);
}

pub fn select_compares_rate_and_processor_time() {
    pgbench("select", &BOTH);
}

fn pgbench(bench: &str, servers: &[&str]) {
    let scale = ["--scale", "1", "--clients", "2", "--rounds", "1", "--duration", "1"];
    let Some((report, _)) = report(&[&[bench], &scale[..]].concat()) else { return };
    let prefix = format!("wire.{bench}.c2");
    for server in servers {
        has_figures(&report, &[&format!("{prefix}.{server}.per_s"), &format!("{prefix}.{server}.us.p99")]);
    }
    has_figures(&report, &[&format!("{prefix}.postgres_times"), &format!("{prefix}.cpu_vs_postgres")]);
}

/// Goal: the command compares the answers of both servers, and fails if they differ.
pub fn tpch_compares_answers_and_times() {
    let scale = ["--scale-factor", "0.01", "--rounds", "1", "--without-duckdb"];
    let Some((report, _)) = report(&[&["tpch"], &scale[..]].concat()) else { return };
    for server in BOTH {
        for query in 1..=22 {
            has_figures(&report, &[&format!("wire.tpch.q{query:02}.{server}_ms")]);
        }
        has_figures(&report, &[&format!("wire.tpch.{server}_ms")]);
    }
    has_figures(&report, &["wire.tpch.vs_postgres"]);
}

pub fn mixed_compares_latencies_with_those_of_an_idle_server() {
    let tables = ["--scale-factor", "0.01", "--warehouses", "1", "--small", "--query", "1,6", "--dropped-rows", "1000"];
    let load = [
        "--rate",
        "50",
        "--analytics",
        "1",
        "--clients",
        "4",
        "--duration",
        "0.3",
        "--servers",
        "overtake,postgres",
        "--runs",
        "2",
    ];
    let Some((report, _)) = report(&[&["mixed"], &tables[..], &load].concat()) else { return };
    for server in ["wire.mixed", "wire.mixed.postgres"] {
        for kind in ["update", "new_order"] {
            has_figures(
                &report,
                &[&format!("{server}.{kind}.idle.us.p99"), &format!("{server}.{kind}.a1.p99_vs_idle")],
            );
            has_figures(&report, &[&format!("{server}.{kind}.a1.queries_per_min")]);
            has_figures(&report, &[&format!("{server}.{kind}.a1.sleeper_us.p99")]);
        }
    }
    for figure in ["p999_vs_postgres", "network_delay_us", "network_faults_per_s"] {
        has_figures(&report, &[&format!("wire.mixed.update.a1.{figure}")]);
    }
}
