//! Goal: the calculator's figures are those of the models, for every limit asked for, and arguments that make no model
//! are refused. Method: rows of the reference files of `gate`, and closed forms.

use crate::loads::{has_figures, report_of};
use crate::{run, text};

const THROUGHPUT: &str = include_str!("../../../gate/tests/reference/mva_balanced_relative_throughput.csv");
const RESPONSE: &str = include_str!("../../../gate/tests/reference/response_time_vs_mpl.csv");

/// Returns the cells of the rows that begin with these cells.
fn rows<'a>(file: &'a str, begin: &str) -> impl Iterator<Item = Vec<&'a str>> {
    let rows: Vec<_> = file.lines().filter(|row| row.starts_with(begin)).map(|row| row.split(',').collect()).collect();
    assert!(!rows.is_empty(), "{begin}");
    rows.into_iter()
}

#[track_caller]
fn assert_figure(report: &serde_json::Value, name: &str, expected: f64) {
    let found = report["figures"][name].as_f64().unwrap_or_else(|| panic!("{name} is missing: {report:#}"));
    assert!((found / expected - 1.0).abs() < 1e-9, "{name}: {found} instead of {expected}");
}

pub fn throughput_is_that_of_the_reference() {
    let (report, said) = report_of("mpl", &["throughput", "--demand", "1,1,1", "--mpl", "1..120"]);
    assert_eq!((&report["bench"], &report["args"]["mpl"]), (&"mpl throughput".into(), &"1..120".into()));
    assert_eq!(report["args"]["demand"], serde_json::json!([1.0, 1.0, 1.0]));
    assert!(report["machine"]["cpus"].is_number());
    for row in rows(THROUGHPUT, "3,") {
        assert_figure(&report, &format!("throughput.{}", row[1]), row[2].parse().unwrap());
    }
    for (figure, least) in [("keep_80", 8.0), ("keep_90", 18.0), ("keep_95", 38.0), ("keep_99", 198.0)] {
        assert_figure(&report, &format!("least_mpl.{figure}"), least);
    }
    assert_eq!(report["figures"].as_object().unwrap().len(), 120 + 4);
    assert!(said.starts_with("overtake mpl throughput\n") && said.contains("95 %"), "{said}");
}

pub fn throughput_of_measured_resources() {
    // Two processors, of which each transaction needs one for 2 units, and 3 units without any: by hand for one and for two.
    let (report, said) =
        report_of("mpl", &["throughput", "--demand", "2", "--servers", "2", "--think", "3", "--mpl", "1..300"]);
    assert_figure(&report, "throughput.1", 0.2);
    assert_figure(&report, "throughput.2", 0.4);
    assert_figure(&report, "throughput.300", 1.0);
    assert!(said.contains("The resources at MPL 300"), "{said}");
    // One limit alone; the unit of time does not matter, and an unused resource neither.
    let (report, _) = report_of("mpl", &["throughput", "--demand", "0.005,0,0.005", "--mpl", "4"]);
    assert_figure(&report, "throughput.4", 0.8);
    assert!(report["figures"]["throughput.3"].is_null());
}

pub fn response_is_that_of_the_reference() {
    let (report, said) = report_of("mpl", &["response", "--load", "0.9", "--c2", "15", "--mpl", "1..60"]);
    assert_eq!((&report["bench"], &report["args"]["load"]), (&"mpl response".into(), &0.9.into()));
    for row in rows(RESPONSE, "0.9,15,").filter(|row| row[2].parse::<u32>().unwrap() <= 60) {
        assert_figure(&report, &format!("response.{}", row[2]), row[3].parse().unwrap());
    }
    for (figure, least) in [("within_2", 54.0), ("within_5", 45.0), ("within_10", 39.0), ("within_20", 33.0)] {
        assert_figure(&report, &format!("least_mpl.{figure}"), least);
    }
    assert!(said.contains("it is 10.0 mean service times") && said.contains("it is 73.0."), "{said}");
    // Several processors: two that take one each are M/M/2 when nothing varies; one alone cannot do the work.
    let (report, said) =
        report_of("mpl", &["response", "--load", "0.75", "--c2", "0.3", "--servers", "2", "--mpl", "1..3"]);
    assert!(report["figures"]["response.1"].is_null());
    assert_figure(&report, "response.2", 1.0 / (1.0 - 0.75 * 0.75));
    assert!(said.contains("Below MPL 2 "), "{said}");
}

pub fn several_curves_have_names() {
    let (report, _) = report_of("mpl", &["throughput", "--balanced", "1..16", "--mpl", "20"]);
    for row in rows(THROUGHPUT, "").filter(|row| row[1] == "20") {
        assert_figure(&report, &format!("k{}.throughput.20", row[0]), row[2].parse().unwrap());
    }
    has_figures(&report, &["k1.least_mpl.keep_80", "k16.least_mpl.keep_95"]);
    let (report, said) = report_of("mpl", &["response", "--load", "0.7", "--c2", "1,2.5,5", "--mpl", "3..9"]);
    for row in rows(RESPONSE, "0.7,5,").filter(|row| (3..=9).contains(&row[2].parse().unwrap())) {
        assert_figure(&report, &format!("c2_5.response.{}", row[2]), row[3].parse().unwrap());
    }
    has_figures(&report, &["c2_1.response.3", "c2_2_5.response.9", "c2_2_5.least_mpl.within_5"]);
    assert!(said.contains("C² 2.5"), "{said}");
}

pub fn what_makes_no_model_is_refused_by_name() {
    let cases: [(&[&str], &str); 10] = [
        (&["throughput", "--demand", "1,1", "--servers", "1"], "--servers has 1 numbers, but --demand has 2"),
        (&["throughput", "--demand=-1"], "demand -1 of station 1 is not a finite time of at least 0"),
        (&["throughput", "--demand", "1,NaN"], "demand NaN of station 2 is not"),
        (&["throughput", "--demand", "0,0"], "needs a demand above 0"),
        (&["throughput", "--demand", "1", "--servers", "0"], "station 1 needs at least one server"),
        (&["throughput", "--demand", "1", "--think=-2"], "think time -2 is not"),
        (&["throughput", "--balanced", "1..17"], "17 curves are too many"),
        (&["response", "--load", "1", "--c2", "5"], "load 1 is not between 0 and 1"),
        (&["response", "--load", "0.5", "--c2", "5,5"], "--c2 has a value twice"),
        (
            &["response", "--load", "0.9", "--c2", "5", "--servers", "4", "--mpl", "3"],
            "at most 3 at a time cannot keep up",
        ),
    ];
    for (arguments, message) in cases {
        let output = run(&[&["mpl"], arguments].concat());
        assert_eq!(output.status.code(), Some(2), "{arguments:?}");
        let said = text(&output.stderr);
        assert!(said.starts_with("overtake: ") && said.contains(message), "{arguments:?}: {said}");
        assert!(output.stdout.is_empty(), "{arguments:?}: {}", text(&output.stdout));
    }
}
