//! Tests of the dashboard and of the alert rules in the folder `packaging`: they name only metrics that the sources have.

use crate::tidy::{root, sources};
use serde_json::Value;
use std::collections::BTreeSet;
use std::fs;

const DASHBOARD: &str = "packaging/grafana/overtake.json";
const RULES: &str = "packaging/prometheus/overtake.rules.yml";

fn read(path: &str) -> String {
    fs::read_to_string(root().join(path)).expect("the file exists")
}

/// Returns the metrics that a text names.
fn metrics(text: &str) -> BTreeSet<&str> {
    let words = text.split(|letter: char| !letter.is_ascii_alphanumeric() && letter != '_');
    words.filter(|word| word.starts_with("overtake_")).collect()
}

/// Fails for metrics that no source of the product has as a literal. Histograms and summaries have series of other names.
fn assert_known(named: &BTreeSet<&str>, file: &str) {
    let product: Vec<String> =
        sources("rs").iter().filter(|source| !source.is_test()).map(|source| source.product().to_owned()).collect();
    let is_known = |name: &str| {
        let literal = format!("\"{name}\"");
        product.iter().any(|text| text.contains(&literal))
    };
    let unknown: Vec<&&str> = named
        .iter()
        .filter(|name| {
            let base = ["_bucket", "_sum", "_count"].iter().find_map(|suffix| name.strip_suffix(suffix));
            !is_known(name) && !base.is_some_and(is_known)
        })
        .collect();
    assert!(unknown.is_empty(), "{file} names metrics that nothing makes: {unknown:?}");
}

/// Returns the panels of a dashboard, and those inside its rows.
fn panels(of: &Value) -> Vec<&Value> {
    let own = of["panels"].as_array().into_iter().flatten();
    own.flat_map(|panel| std::iter::once(panel).chain(panels(panel))).collect()
}

#[test]
fn the_dashboard_shows_metrics_that_exist() {
    let text = read(DASHBOARD);
    let dashboard: Value = serde_json::from_str(&text).expect("the dashboard is JSON");
    assert!(dashboard["uid"].is_string() && dashboard["title"].is_string());
    let panels = panels(&dashboard);
    let ids: BTreeSet<u64> = panels.iter().map(|panel| panel["id"].as_u64().expect("a panel has a number")).collect();
    assert_eq!(ids.len(), panels.len(), "two panels have one number");
    let graphs = panels.iter().filter(|panel| panel["type"] != "row");
    for panel in graphs {
        let targets = panel["targets"].as_array().expect("a panel has queries");
        assert!(!targets.is_empty(), "{} asks for nothing", panel["title"]);
        for target in targets {
            let query = target["expr"].as_str().expect("a query is a text");
            assert!(!metrics(query).is_empty(), "{} asks for no metric: {query}", panel["title"]);
        }
    }
    assert_known(&metrics(&text), DASHBOARD);
}

/// Goal: each rule has its parts, and metrics that exist. No library here reads YAML: the form of the file is narrow
/// enough for lines.
#[test]
fn each_rule_has_its_parts_and_metrics_that_exist() {
    let text = read(RULES);
    let code: String =
        text.lines().filter(|line| !line.trim_start().starts_with('#')).map(|line| format!("{line}\n")).collect();
    assert!(code.starts_with("groups:\n  - name: "), "{code}");
    assert!(!code.contains('\t'), "YAML has no tabs");
    let rules: Vec<&str> = code.split("      - alert: ").skip(1).collect();
    assert!(10 <= rules.len(), "{} rules", rules.len());
    let mut names = BTreeSet::new();
    for rule in rules {
        let name = rule.lines().next().expect("a rule has a name");
        assert!(names.insert(name), "{name} stands there twice");
        let parts: Vec<&str> = rule
            .lines()
            .filter_map(|line| line.strip_prefix("        ").filter(|line| !line.starts_with(' ')))
            .map(|line| line.split(':').next().unwrap_or_default())
            .collect();
        for part in ["expr", "labels", "annotations"] {
            assert_eq!(parts.iter().filter(|is| **is == part).count(), 1, "{name} has one {part}");
        }
        for line in ["          severity: ", "          summary: ", "          description: "] {
            assert!(rule.contains(line), "{name} has {}", line.trim());
        }
        assert!(!metrics(rule).is_empty() || rule.contains("up{"), "{name} asks for no metric");
    }
    assert_known(&metrics(&code), RULES);
}
