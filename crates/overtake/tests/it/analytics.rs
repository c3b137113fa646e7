//! Goal: the benchmarks of queries give every figure that they promise, and compare every answer. Method: short runs, which
//! fail if an answer is wrong.
//!
//! The figures' sizes are not tested: this machine may be loaded.

use crate::loads::{has_figures, report};
use crate::{run, text};

/// Goal: TPC-H is compared with tables in memory, at the scale factor whose answers are known.
pub fn tpch_compares_with_tables_in_memory() {
    let arguments = ["tpch", "--scale-factor", "0.1", "--rounds", "1", "--without-duckdb"];
    let (report, printed) = report(&arguments);
    has_figures(&report, &["tpch.vs_memtable", "tpch.ours_ms", "tpch.memtable_ms", "tpch.q22.ours_ms"]);
    assert!(report["figures"]["tpch.vs_duckdb"].is_null(), "DuckDB was not asked for");
    assert!(printed.contains("and to the committed ones"), "{printed}");
}

/// Goal: DuckDB is available, or can be installed, or the run is refused with advice.
pub fn tpch_compares_with_duckdb() {
    let output = run(&["bench", "tpch", "--scale-factor", "0.01", "--rounds", "1"]);
    let (printed, said) = (text(&output.stdout), text(&output.stderr));
    match output.status.code() {
        Some(0) => assert!(printed.contains("ours / DuckDB") && printed.contains("to DuckDB's"), "{printed}"),
        Some(2) => {
            assert!(said.contains("--without-duckdb"), "a refusal without advice: {said}");
            println!("SKIPPED: nothing was compared with DuckDB, because it is not to be had: {said}");
        }
        code => panic!("exit code {code:?}: {said}"),
    }
}

/// Goal: every answer of CH-benCHmark is checked. The queries of CH-benCHmark in the demo and the soak are the same.
pub fn ch_checks_every_answer() {
    let arguments = ["ch", "--policies", "wait,preempt", "--warehouses", "1", "--duration", "0.2", "--rate", "500"];
    let (report, printed) = report(&arguments);
    has_figures(
        &report,
        &[
            "ch.answers",
            "ch.wrong",
            "ch.chain_max",
            "ch.vs_rest",
            "ch.wait.times",
            "ch.share",
            "ch.preempt.e2e_us.p99",
            "ch.q22.loaded_ms",
        ],
    );
    // At least two runs at rest, three times, and one under each policy.
    assert!(22.0 * 8.0 <= report["figures"]["ch.answers"].as_f64().unwrap(), "{report:#}");
    assert!(printed.contains("TPC-C's consistency conditions hold"), "{printed}");
}
