use super::*;
use stage::Histogram;

fn report() -> Report {
    let arguments = serde_json::json!({ "duration": 3.0 });
    Report::new("delivery", &arguments, Machine::read()).expect("these arguments have a JSON form")
}

#[test]
fn names_are_dotted_paths() {
    for name in ["q2.preempt.start_us.p99", "delivery.safepoint_1024_ratio", "a.b"] {
        assert!(is_dotted_path(name), "{name}");
    }
    for name in ["", "a", ".a", "a.", "a..b", "A.b", "a.b-c", "a.b c", "a.µs"] {
        assert!(!is_dotted_path(name), "{name}");
    }
}

#[test]
fn json_has_the_four_keys_and_plain_numbers() {
    let mut report = report();
    report.figure("delivery.region_ns", 1.9);
    report.quantiles("delivery.poll_us", &Quantiles { p50: 0.1, p90: 0.2, p99: 0.3, p999: 0.4, max: 0.5 });
    let json: serde_json::Value = serde_json::from_str(&report.json().expect("it can be written")).expect("valid JSON");
    let keys: Vec<&String> = json.as_object().expect("an object").keys().collect();
    assert_eq!(keys, ["args", "bench", "figures", "machine"]);
    assert_eq!(json["bench"], "delivery");
    assert_eq!(json["args"]["duration"], 3.0);
    assert_eq!(json["figures"]["delivery.region_ns"], 1.9);
    assert_eq!(json["figures"]["delivery.poll_us.p999"], 0.4);
    assert_eq!(json["figures"].as_object().expect("an object").len(), 6);
}

#[test]
fn a_value_that_is_not_finite_fails_the_run() {
    let mut report = report();
    report.figure("delivery.region_ns", f64::NAN);
    let opened = Output::default().open().expect("nothing to open");
    let error = report.publish(opened).expect_err("NaN is no figure");
    assert_eq!(error.to_string(), "nothing could be measured for delivery.region_ns");
}

#[test]
fn text_shows_tables_and_notes() {
    let mut report = report();
    let mut table = TextTable::new("Costs", &["what", "ns"]);
    table.row(["region".into(), number(1.9)]);
    report.table(table);
    report.note("A note.");
    let text = report.to_string();
    assert!(text.starts_with("overtake bench delivery\n"), "{text}");
    assert!(text.contains("Costs\n"), "{text}");
    assert!(text.ends_with("\n- A note.\n"), "{text}");
}

#[test]
fn a_calculation_does_not_name_the_machine_to_people() {
    let report = Report::calculated("mpl response", &serde_json::json!({})).expect("these arguments have a JSON form");
    assert_eq!(report.to_string(), "overtake mpl response\n");
    assert!(report.svg().expect("it can be drawn").contains("</svg>"));
    let json: serde_json::Value = serde_json::from_str(&report.json().expect("it can be written")).expect("valid JSON");
    assert!(json["machine"]["kernel"].is_string());
}

#[test]
fn files_are_complete_or_absent() {
    let directory = testkit::folder("report");
    let output = Output { json: Some(directory.path().join("r.json")), svg: Some(directory.path().join("r.svg")) };
    drop(output.open().expect("both can be written"));
    assert_eq!(std::fs::read_dir(directory.path()).expect("it exists").count(), 0, "a stopped run left files");

    let mut report = report();
    let mut histogram = Histogram::new();
    (1..=1_000).for_each(|us| histogram.record_ns(us * 1_000));
    let mut chart = PercentileChart::new("Delay <of> a start", "µs");
    chart.series("poll", &histogram);
    report.chart(chart);
    report.publish(output.open().expect("both can be written")).expect("both are written");
    let svg = std::fs::read_to_string(directory.path().join("r.svg")).expect("written");
    assert!(svg.starts_with("<svg "), "{svg}");
    assert!(svg.contains("prefers-color-scheme: dark"), "no dark colours");
    assert!(svg.contains("Delay &lt;of&gt; a start"), "no title");
    let json = std::fs::read_to_string(directory.path().join("r.json")).expect("written");
    assert!(json.ends_with("}\n"), "{json}");
    assert_eq!(std::fs::read_dir(directory.path()).expect("it exists").count(), 2, "part files were left");
}

#[test]
fn a_file_that_cannot_be_written_is_refused_before_the_run() {
    let output = Output { json: Some("/nonexistent/r.json".into()), svg: None };
    let error = output.open().err().expect("there is no such directory");
    assert!(error.is::<host::refusal::Refusal>());
    assert!(error.to_string().starts_with("cannot write /nonexistent/r.json: "), "{error}");
}

/// Goal: an existing path that is no file is not replaced by one. Method: a socket, which cannot be written either.
#[test]
fn what_is_no_file_stays() {
    let directory = testkit::folder("report");
    let path = directory.path().join("r.json");
    let _socket = std::os::unix::net::UnixListener::bind(&path).expect("a socket");
    let output = Output { json: Some(path.clone()), svg: None };
    let error = output.open().err().expect("a socket cannot be opened");
    assert!(error.is::<host::refusal::Refusal>(), "{error}");
    assert!(!std::fs::metadata(&path).expect("it is there").is_file());
}
