//! Plans as text and as JSON, in PostgreSQL's forms.

use super::options::ExplainOptions;
use query::explain::{ActualCounts, ExplainFact, ExplainNode, FactValue, FactVisibility};
use statement::pulse::{self, ITEM};
use std::fmt::Write;

/// A plan, and what there is to say of the whole.
pub(crate) struct ExplainOutput<'w> {
    pub(crate) plan: &'w ExplainNode,
    pub(crate) options: &'w ExplainOptions,
    /// Behind the plan.
    pub(crate) facts: Vec<ExplainFact>,
}

fn is_told(fact: &ExplainFact, options: &ExplainOptions, in_json: bool) -> bool {
    match fact.told {
        FactVisibility::Always => true,
        FactVisibility::InJson => in_json,
        FactVisibility::Verbose => options.verbose,
    }
}

/// The lines of the text form.
pub(crate) fn text(whole: &ExplainOutput<'_>) -> Vec<String> {
    let mut lines = Vec::new();
    node_lines(whole.plan, whole.options, None, &mut lines);
    for fact in whole.facts.iter().filter(|fact| is_told(fact, whole.options, false)) {
        lines.push(fact_line(fact));
    }
    lines
}

/// `arrow`: the column of the arrow before its name; the first node has none.
fn node_lines(node: &ExplainNode, options: &ExplainOptions, arrow: Option<usize>, lines: &mut Vec<String>) {
    // Each level is indented further: the text grows with the square of the depth.
    if pulse::walk(arrow.unwrap_or(0) * (1 + node.facts.len() + node.inputs.len())).is_err() {
        return;
    }
    // What belongs to a node stands behind its arrow.
    let inside = arrow.map_or(2, |arrow| arrow + 6);
    let arrow = arrow.map_or_else(String::new, |arrow| format!("{}->  ", " ".repeat(arrow)));
    let mut line = format!("{arrow}{}{}", node.name, node.target);
    if options.costs
        && let Some(rows) = node.rows_max
    {
        let _ = write!(line, "  (rows={rows})");
    }
    match &node.actual {
        Some(ActualCounts { loops: 0, .. }) => line.push_str(" (never executed)"),
        Some(actual) => {
            let (rows, loops) = (per_loop(actual.rows, actual.loops), actual.loops);
            line.push_str(" (actual ");
            if let Some((first, total)) = actual.times.filter(|_| options.timing()) {
                let (first, total) = (ms(first, loops), ms(total, loops));
                let _ = write!(line, "time={first:.3}..{total:.3} ");
            }
            let _ = write!(line, "rows={rows} loops={loops})");
        }
        None => {}
    }
    lines.push(line);
    for fact in node.facts.iter().filter(|fact| is_told(fact, options, false)) {
        lines.push(format!("{}{}", " ".repeat(inside), fact_line(fact)));
    }
    for input in &node.inputs {
        let arrow = match &input.label {
            None => inside,
            Some(label) => {
                lines.push(format!("{}{label}", " ".repeat(inside)));
                inside + 2
            }
        };
        node_lines(input, options, Some(arrow), lines);
    }
}

/// Rounded, as PostgreSQL 15 does.
fn per_loop(rows: u64, loops: u64) -> u64 {
    (rows as f64 / loops.max(1) as f64).round() as u64
}

fn ms(ns: u64, loops: u64) -> f64 {
    ns as f64 / 1e6 / loops.max(1) as f64
}

fn fact_line(fact: &ExplainFact) -> String {
    match &fact.value {
        FactValue::Text(text) => format!("{}: {text}", fact.name),
        FactValue::List(list) => format!("{}: {}", fact.name, list.join(", ")),
        FactValue::Count(count) => format!("{}: {count}", fact.name),
        FactValue::Ms(ms) => format!("{}: {ms:.3} ms", fact.name),
        FactValue::Times(times) => {
            let times: Vec<String> = times.iter().map(|(name, ms)| format!("{name} {ms:.3} ms")).collect();
            format!("{}: {}", fact.name, times.join(", "))
        }
    }
}

/// A JSON value.
enum JsonValue {
    Plain(String),
    List(Vec<JsonValue>),
    Object(Vec<(&'static str, JsonValue)>),
}

fn string(text: &str) -> JsonValue {
    let mut out = String::with_capacity(text.len() + 2);
    out.push('"');
    for one in text.chars() {
        match one {
            '"' => out.push_str("\\\""),
            '\\' => out.push_str("\\\\"),
            '\n' => out.push_str("\\n"),
            '\r' => out.push_str("\\r"),
            '\t' => out.push_str("\\t"),
            control if control < ' ' => {
                let _ = write!(out, "\\u{:04x}", control as u32);
            }
            other => out.push(other),
        }
    }
    out.push('"');
    JsonValue::Plain(out)
}

fn value_json(value: &FactValue) -> JsonValue {
    match value {
        FactValue::Text(text) => string(text),
        FactValue::List(list) => JsonValue::List(list.iter().map(|one| string(one)).collect()),
        FactValue::Count(count) => JsonValue::Plain(count.to_string()),
        FactValue::Ms(ms) => JsonValue::Plain(format!("{ms:.3}")),
        FactValue::Times(times) => {
            JsonValue::Object(times.iter().map(|(name, ms)| (*name, JsonValue::Plain(format!("{ms:.3}")))).collect())
        }
    }
}

/// The JSON form, the whole in one text.
pub(crate) fn json(whole: &ExplainOutput<'_>) -> String {
    let mut all = vec![("Plan", node_json(whole.plan, whole.options, None))];
    let facts = whole.facts.iter().filter(|fact| is_told(fact, whole.options, true));
    all.extend(facts.map(|fact| (fact.name, value_json(&fact.value))));
    let mut out = String::new();
    put(&JsonValue::List(vec![JsonValue::Object(all)]), 0, &mut out);
    out
}

fn node_json(node: &ExplainNode, options: &ExplainOptions, parent: Option<usize>) -> JsonValue {
    let mut all = vec![("Node Type", string(node.kind.unwrap_or(&node.name)))];
    if let Some(at) = parent {
        let relationship = match (&node.label, at) {
            (Some(label), _) if label.starts_with("SubPlan") => "SubPlan",
            (Some(_), _) => "InitPlan",
            (None, 0) => "Outer",
            (None, 1) => "Inner",
            (None, _) => "Member",
        };
        all.push(("Parent Relationship", string(relationship)));
    }
    if let Some(label) = &node.label {
        all.push(("Subplan Name", string(label)));
    }
    if options.costs
        && let Some(rows) = node.rows_max
    {
        all.push(("Plan Rows", JsonValue::Plain(rows.to_string())));
    }
    if let Some(actual) = &node.actual {
        if let Some((first, total)) = actual.times.filter(|_| options.timing()) {
            all.push(("Actual Startup Time", JsonValue::Plain(format!("{:.3}", ms(first, actual.loops)))));
            all.push(("Actual Total Time", JsonValue::Plain(format!("{:.3}", ms(total, actual.loops)))));
        }
        all.push(("Actual Rows", JsonValue::Plain(per_loop(actual.rows, actual.loops).to_string())));
        all.push(("Actual Loops", JsonValue::Plain(actual.loops.to_string())));
    }
    let facts = node.facts.iter().filter(|fact| is_told(fact, options, true));
    all.extend(facts.map(|fact| (fact.name, value_json(&fact.value))));
    if !node.inputs.is_empty() {
        let inputs = node.inputs.iter().enumerate();
        all.push(("Plans", JsonValue::List(inputs.map(|(at, input)| node_json(input, options, Some(at))).collect())));
    }
    JsonValue::Object(all)
}

fn put(json: &JsonValue, depth: usize, out: &mut String) {
    if pulse::walk(depth + ITEM).is_err() {
        return;
    }
    let indent = |out: &mut String, depth: usize| {
        out.push('\n');
        out.push_str(&"  ".repeat(depth));
    };
    match json {
        JsonValue::Plain(text) => out.push_str(text),
        // Lists of plain values stand in one line, as PostgreSQL writes them.
        JsonValue::List(list) if list.iter().all(|one| matches!(one, JsonValue::Plain(_))) => {
            out.push('[');
            for (at, one) in list.iter().enumerate() {
                out.push_str(if at == 0 { "" } else { ", " });
                put(one, depth, out);
            }
            out.push(']');
        }
        JsonValue::List(list) => {
            out.push('[');
            for (at, one) in list.iter().enumerate() {
                out.push_str(if at == 0 { "" } else { "," });
                indent(out, depth + 1);
                put(one, depth + 1, out);
            }
            indent(out, depth);
            out.push(']');
        }
        JsonValue::Object(members) => {
            out.push('{');
            for (at, (name, value)) in members.iter().enumerate() {
                out.push_str(if at == 0 { "" } else { "," });
                indent(out, depth + 1);
                let _ = write!(out, "\"{name}\": ");
                put(value, depth + 1, out);
            }
            indent(out, depth);
            out.push('}');
        }
    }
}
