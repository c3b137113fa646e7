//! Goal: `bench lookingglass` measures every part, and writes the tables of the documentation. Method: a short run
//! without PostgreSQL; its page is written again from its figures alone.

use crate::loads::has_figures;
use crate::{run, text};
use std::fs;

const PAGE: &str = "../../docs/benchmarks.md";

pub fn a_short_run_has_all_parts() {
    let folder = testkit::folder("lookingglass");
    let path = |name: &str| folder.path().join(name).to_str().unwrap().to_owned();
    let (json, svg, page, again) = (path("report.json"), path("report.svg"), path("page.md"), path("again.md"));
    fs::copy(PAGE, &page).unwrap();
    let scale =
        ["--small", "--warehouses", "1", "--clients", "4", "--duration", "0.1", "--rounds", "1", "--pairs", "2"];
    let output = ["--servers", "overtake", "--json", &json, "--svg", &svg, "--docs", &page];
    let output = run(&[&["bench", "lookingglass"], &scale[..], &output[..]].concat());
    let said = text(&output.stdout);
    assert_eq!(output.status.code(), Some(0), "{}", text(&output.stderr));
    let report: serde_json::Value = serde_json::from_str(&fs::read_to_string(&json).unwrap()).unwrap();
    has_figures(
        &report,
        &[
            "glass.new_order.interactive.cpu_us",
            "glass.new_order.wasm.kernel_us",
            "glass.new_order.process_socket.worker_us",
            "glass.new_order.process.client_kernel_us",
            "glass.new_order.process.saturated",
            "glass.new_order.stored_times",
            "glass.new_order.native_times",
            "glass.new_order.wasm_times",
            "glass.new_order.native_of_tpcc",
            "glass.kv.1.process.cpu_us",
            "glass.kv.10.wasm_batch.cpu_us",
            "glass.kv.40.process_batch.stage.outside_us",
            "glass.point.pipelined_over_unpipelined",
            "glass.call.wasm_us",
            "glass.call.native_us",
            "glass.call.process_us",
            "glass.call.process_same_core_us",
            "glass.call.process_blocking_us",
            "glass.call.wasm_beyond_native_us",
            "glass.call.process_beyond_native_us",
            "glass.call.process_batch_crossing_times",
            "glass.lines.rust.wasm",
            "glass.lines.typescript.container",
            "glass.attacks.wasm.stopped",
            "glass.transport.1.depth_1.shared.cpu_times_tcp",
            "glass.clock.overhead_percent",
        ],
    );
    // A batch of one call is none, and an interactive program is where the count begins.
    assert!(report["figures"]["glass.kv.1.wasm_batch.cpu_us"].is_null());
    assert_eq!(report["figures"]["glass.lines.rust.interactive"], 0.0);
    for table in ["Ratios and goals", "Levels: cost of a New-Order", "control group"] {
        assert!(said.contains(table), "{table}: {said}");
    }
    assert!(fs::read_to_string(&svg).unwrap().contains("attacks stopped"));
    let written = fs::read_to_string(&page).unwrap();
    let wasm = written.lines().filter(|line| line.starts_with("| `wasm` | the usual choice")).count();
    assert_eq!(wasm, 1, "the page ends with the decision: {written}");

    fs::copy(PAGE, &again).unwrap();
    let output = run(&["bench", "lookingglass", "--figures", &json, "--docs", &again]);
    assert_eq!(output.status.code(), Some(0), "{}", text(&output.stderr));
    assert!(fs::read_to_string(&again).unwrap() == written, "the figures alone make the same page");
    let output = run(&["bench", "lookingglass", "--figures", &svg]);
    assert_eq!(output.status.code(), Some(2), "a picture has no figures: {}", text(&output.stderr));
}
