//! Goal: `bench mpl` gives every figure that it promises, plausible ones, the same ones each time; and refuses unknown
//! set-ups. Method: short runs of the set-ups that are simulated soonest.

use crate::loads::{has_figures, report};
use crate::{run, text};

pub fn set_ups_do_with_few_at_a_time() {
    let (report, printed) = report(&["mpl", "setups", "figures", "--only", "s01,s05", "--quick"]);
    let figure =
        |name: &str| report["figures"][name].as_f64().unwrap_or_else(|| panic!("{name} is missing: {report:#}"));
    for name in ["s01", "s05"] {
        assert!((1.0..1.6).contains(&figure(&format!("{name}.c2"))), "{report:#}");
        // These set-ups have one processor and one disk, of which one is busy; so the limit is known from arithmetic,
        // too.
        for (threshold, least) in [("mpl80", 1.0), ("mpl95", if name == "s01" { 2.0 } else { 1.0 })] {
            assert_eq!(figure(&format!("{name}.{threshold}")), least, "{name}");
            assert_eq!(figure(&format!("{name}.model.{threshold}")), least, "{name}");
        }
    }
    assert!(0.98 < figure("s01.processor_busy") && 0.98 < figure("s05.disk_busy"), "{report:#}");
    assert!((figure("fig2.s01.throughput.1") - figure("fig2.s01.model.1")).abs() < 0.02, "{report:#}");
    has_figures(&report, &["s01.mpl_best", "fig3.s05.throughput.100", "fig3.s05.model_off"]);
    assert!(report["figures"]["s02.c2"].is_null() && report["figures"]["controller.kept"].is_null());
    assert!(printed.starts_with("overtake bench mpl\n") && printed.contains("Figure 3"), "{printed}");
}

pub fn important_transactions_go_round_the_queue() {
    let arguments = ["mpl", "priorities", "--only", "s13", "--quick", "--seed", "7"];
    let (report, printed) = report(&arguments);
    let figure =
        |name: &str| report["figures"][name].as_f64().unwrap_or_else(|| panic!("{name} is missing: {report:#}"));
    for level in ["l0", "l5", "l20"] {
        assert!(5.0 < figure(&format!("prio.{level}.high_times")), "{report:#}");
        assert_eq!(figure(&format!("s13.prio.{level}.high_times")), figure(&format!("prio.{level}.high_times")));
        // Without a limit, throughput is half of the best.
        assert!(figure(&format!("prio.{level}.all_increase")) < -0.2, "{report:#}");
    }
    assert!(printed.contains("think at a time"), "{printed}");
}

pub fn unknown_set_ups_and_parts_are_refused() {
    let cases: [(&[&str], &str); 3] = [
        (&["setups", "--only", "s01,s18"], "there is no set-up \"s18\"; there are s01 to s17"),
        (&["figures", "--only", ""], "there is no set-up \"\""),
        (&["everything"], "possible values: setups, figures, arrivals, priorities, controller"),
    ];
    for (arguments, message) in cases {
        let output = run(&[&["bench", "mpl"], arguments].concat());
        assert_eq!(output.status.code(), Some(2), "{arguments:?}");
        assert!(text(&output.stderr).contains(message), "{arguments:?}: {}", text(&output.stderr));
        assert!(output.stdout.is_empty(), "{arguments:?}: {}", text(&output.stdout));
    }
}
