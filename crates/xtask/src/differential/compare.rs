//! Comparison of two answers to one query: columns by name and type, rows as a multiset, or in order where ORDER BY
//! determines it, errors by SQLSTATE.

use super::ast::QueryTree;
use crate::wire::{QueryAnswer, ResultColumn};
use std::cmp::Ordering;

/// Difference between two answers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Difference {
    /// Internal error XX000, or a dead connection.
    Internal,
    Columns,
    Rows,
    Order,
    /// One side answers, the other fails.
    Failure,
    /// Both sides fail, each with another error.
    State,
    /// One side answers, the other runs into the timeout.
    Late,
}

/// Returns the difference, if there is one.
pub fn compare(query: &QueryTree, one: &QueryAnswer, two: &QueryAnswer) -> Option<Difference> {
    match (one, two) {
        (QueryAnswer::Error { state: one, .. }, QueryAnswer::Error { state: two, .. }) => {
            let excused = is_data(one) && is_data(two) && !is_strict(query);
            (one != two && !excused).then_some(Difference::State)
        }
        (QueryAnswer::Error { state, .. }, QueryAnswer::Rows { .. })
        | (QueryAnswer::Rows { .. }, QueryAnswer::Error { state, .. }) => {
            (!is_data(state) || is_strict(query)).then_some(Difference::Failure)
        }
        (QueryAnswer::Rows { columns, rows }, QueryAnswer::Rows { columns: others, rows: other_rows }) => {
            if columns != others && !(folds(query) && differ_in_modifiers_alone(columns, others)) {
                return Some(Difference::Columns);
            }
            let vague: Vec<bool> = query.outputs().iter().map(|(_, vague)| *vague).collect();
            let same_row = |one: &TextRow, two: &TextRow| {
                one.iter().zip(two).enumerate().all(|(at, (one, two))| {
                    one == two || vague.get(at).copied().unwrap_or(false) && alike(one.as_deref(), two.as_deref())
                })
            };
            if rows.len() != other_rows.len() {
                return Some(Difference::Rows);
            }
            if query.total && !query.order.is_empty() {
                let in_order = rows.iter().zip(other_rows).all(|(one, two)| same_row(one, two));
                return if in_order {
                    None
                } else if same_bag(rows, other_rows, &vague, same_row) {
                    Some(Difference::Order)
                } else {
                    Some(Difference::Rows)
                };
            }
            (!same_bag(rows, other_rows, &vague, same_row)).then_some(Difference::Rows)
        }
    }
}

/// Returns true for errors of values. Where several expressions can fail, or a condition, a join or a LIMIT decides
/// which rows they see, SQL leaves it to the plan which of them does.
fn is_data(state: &str) -> bool {
    // 0A000 is also raised for a value that a function does not support; Overtake's own refusals are not compared at
    // all. 54000 is a value too long to be made.
    state.starts_with("22") || state.starts_with("21") || state == "0A000" || state == "54000"
}

/// Returns true if PostgreSQL may describe a column as it is after constants are folded: of CASE, COALESCE or a set
/// operation one branch is left, and the column has its modifier.
fn folds(query: &QueryTree) -> bool {
    let text = query.to_string();
    ["case ", "coalesce(", ") union", ") except", ") intersect"].iter().any(|word| text.contains(word))
}

/// Returns true if columns are the same except for modifiers that one side does not know.
fn differ_in_modifiers_alone(columns: &[ResultColumn], others: &[ResultColumn]) -> bool {
    columns.len() == others.len()
        && columns.iter().zip(others).all(|(one, two)| {
            one.name == two.name
                && one.oid == two.oid
                && (one.modifier == two.modifier || one.modifier == -1 || two.modifier == -1)
        })
}

fn is_strict(query: &QueryTree) -> bool {
    query.strict || query.is_simple()
}

type TextRow = Vec<Option<String>>;

/// Compares rows in any order: sorted by the determined columns, and where that does not suffice, each against each.
fn same_bag(one: &[TextRow], two: &[TextRow], vague: &[bool], same: impl Fn(&TextRow, &TextRow) -> bool) -> bool {
    let sorted = |rows: &[TextRow]| {
        let mut rows = rows.to_vec();
        rows.sort_by(|one, two| {
            let exact = |row: &TextRow| {
                row.iter()
                    .enumerate()
                    .filter(|(at, _)| !vague.get(*at).copied().unwrap_or(false))
                    .map(|(_, cell)| cell.clone())
                    .collect::<Vec<_>>()
            };
            exact(one).cmp(&exact(two)).then_with(|| {
                let pairs = one.iter().zip(two).map(|(one, two)| by_value(one.as_deref(), two.as_deref()));
                pairs.fold(Ordering::Equal, Ordering::then)
            })
        });
        rows
    };
    let (one, mut two) = (sorted(one), sorted(two));
    if one.iter().zip(&two).all(|(one, two)| same(one, two)) {
        return true;
    }
    if !vague.contains(&true) || 400 < one.len() {
        return false;
    }
    one.iter().all(|row| {
        let found = two.iter().position(|other| same(row, other));
        found.map(|at| two.swap_remove(at)).is_some()
    })
}

/// Compares values by type: numbers, then intervals, then texts. Arrays have the order of their elements.
fn by_value(one: Option<&str>, two: Option<&str>) -> Ordering {
    if let (Some(left), Some(right)) = (one.and_then(elements), two.and_then(elements)) {
        let pairs = left.iter().zip(&right).map(|(left, right)| by_value(Some(left), Some(right)));
        return pairs.fold(Ordering::Equal, Ordering::then).then(left.len().cmp(&right.len()));
    }
    let number = |text: &str| text.parse::<f64>().ok();
    let class = |text: Option<&str>| match text {
        None => 0,
        Some(text) if number(text).is_some() => 1,
        Some(text) if interval(text).is_some() => 2,
        Some(_) => 3,
    };
    let (Some(left), Some(right)) = (one, two) else { return one.cmp(&two) };
    class(one).cmp(&class(two)).then_with(|| match (number(left), number(right)) {
        // Adding 0 makes -0 the same.
        (Some(left), Some(right)) => (left + 0.0).total_cmp(&(right + 0.0)),
        _ => match (interval(left), interval(right)) {
            (Some(left), Some(right)) => left.cmp(&right),
            _ => left.trim_end().cmp(right.trim_end()),
        },
    })
}

/// Relative error that the order of a floating-point computation may cause.
const TOLERANCE: f64 = 1e-6;

/// Returns true if two values are equal as values of a type whose equal values may print differently.
fn alike(one: Option<&str>, two: Option<&str>) -> bool {
    let (Some(one), Some(two)) = (one, two) else { return one == two };
    if one.trim_end() == two.trim_end() {
        return true;
    }
    if let (Ok(one), Ok(two)) = (one.parse::<f64>(), two.parse::<f64>()) {
        let scale = one.abs().max(two.abs()).max(1.0);
        return one == two || one.is_nan() && two.is_nan() || (one - two).abs() <= TOLERANCE * scale;
    }
    if let (Some(one), Some(two)) = (elements(one), elements(two)) {
        return one.len() == two.len() && one.iter().zip(&two).all(|(one, two)| alike(Some(one), Some(two)));
    }
    match (interval(one), interval(two)) {
        (Some(one), Some(two)) => one == two,
        _ => false,
    }
}

/// Returns the elements of an array, or of an array in JSON.
fn elements(text: &str) -> Option<Vec<&str>> {
    let inner = |open, close| text.strip_prefix(open)?.strip_suffix(close);
    let inner = inner('{', '}').or_else(|| inner('[', ']'))?;
    Some(inner.split(',').map(|element| element.trim().trim_matches('"')).collect())
}

/// Returns the microseconds of an interval as PostgreSQL compares it: a month has 30 days, a day 24 hours.
fn interval(text: &str) -> Option<i128> {
    const DAY: i128 = 86_400_000_000;
    let mut sum = 0;
    let mut words = text.split_whitespace();
    while let Some(word) = words.next() {
        if word.contains(':') {
            let (sign, digits) = word.strip_prefix('-').map_or((1, word.trim_start_matches('+')), |rest| (-1, rest));
            let mut parts = digits.split(':');
            let (hours, minutes, seconds) = (parts.next()?, parts.next()?, parts.next()?);
            let (whole, fraction) = seconds.split_once('.').unwrap_or((seconds, ""));
            let fraction: i128 = format!("{fraction:0<6}").parse().ok()?;
            let whole =
                (hours.parse::<i128>().ok()? * 60 + minutes.parse::<i128>().ok()?) * 60 + whole.parse::<i128>().ok()?;
            sum += sign * (whole * 1_000_000 + fraction);
        } else {
            let count: i128 = word.parse().ok()?;
            let unit = words.next()?.trim_end_matches('s');
            sum += count
                * DAY
                * match unit {
                    "year" => 360,
                    "mon" => 30,
                    "day" => 1,
                    _ => return None,
                };
        }
    }
    (!text.trim().is_empty()).then_some(sum)
}

/// Describes an answer for the report.
pub fn describe(answer: &QueryAnswer) -> String {
    match answer {
        QueryAnswer::Error { state, message } => format!("ERROR {state}: {message}"),
        QueryAnswer::Rows { columns, rows } => {
            let heads: Vec<String> =
                columns.iter().map(|ResultColumn { name, oid, modifier }| format!("{name}:{oid}:{modifier}")).collect();
            let shown = rows
                .iter()
                .take(12)
                .map(|row| row.iter().map(|cell| cell.as_deref().unwrap_or("∅")).collect::<Vec<_>>().join("|"));
            let more = if 12 < rows.len() { "\n    …" } else { "" };
            format!(
                "{} rows ({})\n    {}{more}",
                rows.len(),
                heads.join(", "),
                shown.collect::<Vec<_>>().join("\n    ")
            )
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_are_compared_by_what_they_are() {
        for (one, two) in [
            ("1.0", "1.00"),
            ("-0", "0"),
            ("1 mon", "30 days"),
            ("a", "a   "),
            ("{1.0,2}", "{1,2.0}"),
            ("NaN", "NaN"),
            ("24:00:00", "1 day"),
            ("[\"1 mon\", null]", "[\"30 days\", null]"),
        ] {
            assert!(alike(Some(one), Some(two)), "{one} is {two}");
        }
        for (one, two) in [("1.0", "1.1"), ("1 mon", "31 days"), ("a", "b"), ("{1}", "{1,2}"), ("NaN", "1")] {
            assert!(!alike(Some(one), Some(two)), "{one} is not {two}");
        }
        assert!(!alike(None, Some("")));
    }

    #[test]
    fn rows_with_equal_intervals_pair_up_in_any_number() {
        let rows = |spellings: [&str; 2]| -> Vec<TextRow> {
            (0..900).map(|at| vec![Some(spellings[at % 2].to_owned()), Some((at / 2).to_string())]).collect()
        };
        let (one, mut two) = (rows(["1 mon", "1 day"]), rows(["30 days", "24:00:00"]));
        let same = |one: &TextRow, two: &TextRow| alike(one[0].as_deref(), two[0].as_deref()) && one[1] == two[1];
        assert!(same_bag(&one, &two, &[true, false], same));
        two[7][0] = Some("25:00:00".to_owned());
        assert!(!same_bag(&one, &two, &[true, false], same));
        let (one, two) = (rows(["{\"1 mon\"}", "{NULL}"]), rows(["{\"30 days\"}", "{NULL}"]));
        assert!(same_bag(&one, &two, &[true, false], same));
    }
}
