//! Goal: `bench delivery` gives every figure that it promises, on any machine. Method: a short run.
//!
//! The figures' sizes are not tested: this machine may be loaded.

use crate::{overtake, run, text};
use std::fs;
use std::io::Read;
use std::process::{Command, Stdio};

pub fn every_promised_figure_is_there() {
    let scratch = testkit::folder("delivery");
    let directory = scratch.path();
    let (json, svg) = (directory.join("delivery.json"), directory.join("delivery.svg"));
    let [json_argument, svg_argument] = [&json, &svg].map(|path| path.to_str().unwrap());
    let output = run(&["bench", "delivery", "--duration", "0.2", "--json", json_argument, "--svg", svg_argument]);
    assert_eq!(output.status.code(), Some(0), "{}", text(&output.stderr));
    let report: serde_json::Value = serde_json::from_str(&fs::read_to_string(&json).unwrap()).unwrap();
    assert_eq!(report["bench"], "delivery");
    assert_eq!(report["args"]["duration"], 0.2);
    let mut names: Vec<String> =
        ["region_ns", "safepoint_ns", "safepoint_1024_ratio", "alloc_plain_ns", "alloc_guarded_ns", "uintr_available"]
            .map(String::from)
            .to_vec();
    if 1 < preempt::os::cpus().len() {
        for rung in ["poll", "signal", "thread"] {
            names.extend(["sender_us", "stolen_us", "on_cpu_share"].map(|what| format!("{rung}_{what}")));
            let on_cpu_share = report["figures"][format!("delivery.{rung}_on_cpu_share")].as_f64().unwrap();
            for quantile in ["p50", "p90", "p99", "p999", "max"] {
                names.push(format!("{rung}_us.{quantile}"));
                // On a machine so loaded that no sample was on CPU, there is nothing to report.
                names.extend((0.0 < on_cpu_share).then(|| format!("{rung}_on_cpu_us.{quantile}")));
            }
        }
    }
    for name in names {
        assert!(report["figures"][format!("delivery.{name}")].is_number(), "delivery.{name} is missing: {report:#}");
    }
    assert!(fs::read_to_string(&svg).unwrap().trim_end().ends_with("</svg>"));
}

pub fn a_stopped_run_leaves_no_file() {
    let scratch = testkit::folder("delivery");
    let directory = scratch.path();
    let json = directory.join("delivery.json");
    let mut child = overtake()
        .args(["bench", "delivery", "--duration", "600", "--json", json.to_str().unwrap()])
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    // The first message comes after the handler of Ctrl-C is in place.
    let mut stderr = child.stderr.take().unwrap();
    let mut byte = [0];
    stderr.read_exact(&mut byte).unwrap();
    let sent = Command::new("kill").args(["-INT", &child.id().to_string()]).status().unwrap();
    assert!(sent.success());
    let status = child.wait().unwrap();
    assert_eq!(status.code(), Some(130));
    let mut messages = String::new();
    stderr.read_to_string(&mut messages).unwrap();
    assert!(messages.contains("stopped before the run finished"), "{messages}");
    assert_eq!(fs::read_dir(directory).unwrap().count(), 0, "files were left");
}
