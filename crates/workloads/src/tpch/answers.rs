//! Answers of DuckDB at scale factor 0.1 over the generated rows, and their comparison with an answer of the engine
//! under test.
//!
//! Invariant: every value of every row is compared. Exact numbers (integers, decimals), text and dates must be equal;
//! numbers that DuckDB gives as floating point (averages and quotients of decimals) may differ by
//! [`RELATIVE_TOLERANCE`] and by one unit in the last place that the engine's decimal has. Rows must come in the order
//! that the query asks for; rows that are equal in it may come in any order.
//!
//! The files under `answers/` are made by `answers/regenerate.py`: a line of column names, a line of kinds (`number`,
//! `float`, `text`, `date`, `timestamp`), then rows, `|` between cells.

use super::cell::Cell;
use super::queries::QUERIES_COUNT;
use std::cmp::Ordering;

/// Scale factor of the answers that [`check_answer`] compares with; comments are [`super::Comments::Specified`].
pub const ANSWERS_SCALE_FACTOR: f64 = 0.1;

/// Row of an answer as PostgreSQL shows values in text; `None` stands for null.
pub type TextRow = Vec<Option<String>>;

/// Permitted difference of a floating-point number, relative to DuckDB's.
const RELATIVE_TOLERANCE: f64 = 1e-9;

/// Difference between an answer and that of the independent engine.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("answer of query {query} is wrong: {what}")]
pub struct Mismatch {
    /// Query's number.
    pub query: usize,
    /// First difference.
    pub what: String,
}

/// Compares the answer of query `number` at [`ANSWERS_SCALE_FACTOR`] with DuckDB's, value by value.
///
/// # Errors
/// The first difference.
///
/// # Panics
/// If there is no such query.
pub fn check_answer(number: usize, answer: &[TextRow]) -> Result<(), Mismatch> {
    assert!((1..=QUERIES_COUNT).contains(&number), "TPC-H has queries 1 to 22, not {number}");
    compare(EXPECTED[number - 1], ORDER[number - 1], answer).map_err(|what| Mismatch { query: number, what })
}

/// Compares the answer of query `number` with `expected`, which another engine gave over the same rows, in the form of
/// a file under `answers/`. Of rows that tie with the last one that the query's `limit` lets through, either engine may
/// show others; they are left out.
///
/// # Errors
/// The first difference.
///
/// # Panics
/// If there is no such query.
pub fn compare_answer(number: usize, expected: &str, answer: &[TextRow]) -> Result<(), Mismatch> {
    assert!((1..=QUERIES_COUNT).contains(&number), "TPC-H has queries 1 to 22, not {number}");
    compare_limited(expected, ORDER[number - 1], limit(number), answer).map_err(|what| Mismatch { query: number, what })
}

/// Returns the query's `limit`, if it has one.
fn limit(number: usize) -> Option<usize> {
    match number {
        2 | 18 | 21 => Some(100),
        3 => Some(10),
        10 => Some(20),
        _ => None,
    }
}

/// Compares an answer with the text of a file under `answers/`.
pub(crate) fn compare(expected: &str, order: &[OrderKey], answer: &[TextRow]) -> Result<(), String> {
    compare_limited(expected, order, None, answer)
}

fn compare_limited(expected: &str, order: &[OrderKey], limit: Option<usize>, answer: &[TextRow]) -> Result<(), String> {
    let mut lines = expected.lines();
    let names: Vec<&str> = lines.next().ok_or("the expected answer is empty")?.split('|').collect();
    let kinds: Vec<&str> = lines.next().ok_or("the expected answer has no kinds")?.split('|').collect();
    let mut wanted: Vec<Vec<Cell>> = lines.map(|line| parse(line, &kinds)).collect::<Result<_, _>>()?;
    if answer.len() != wanted.len() {
        return Err(format!("{} rows instead of {}", answer.len(), wanted.len()));
    }
    if let Some(row) = answer.iter().find(|row| row.len() != kinds.len()) {
        return Err(format!("{} columns instead of {}", row.len(), kinds.len()));
    }
    let mut found: Vec<Vec<Cell>> = answer.iter().map(|row| parse_row(row, &kinds)).collect::<Result<_, _>>()?;
    if let Some(pair) = found.windows(2).find(|pair| in_order(&pair[0], &pair[1], order) == Ordering::Greater) {
        return Err(format!("not in order: {} before {}", show(&pair[0]), show(&pair[1])));
    }
    // Rows that tie with the last one may differ between the engines, so only the rows before the tie are compared.
    if limit == Some(wanted.len()) {
        for rows in [&mut found, &mut wanted] {
            let tied = |row: &Vec<Cell>| rows.last().is_some_and(|last| in_order(row, last, order) == Ordering::Equal);
            let decided = rows.iter().take_while(|row| !tied(row)).count();
            rows.truncate(decided);
        }
        if found.len() != wanted.len() {
            return Err(format!("{} rows before the last tie instead of {}", found.len(), wanted.len()));
        }
    }
    // The order is checked already. Sorting by the exact columns pairs rows that tie, which the two engines may show in
    // different orders.
    let by_exact_columns = |row: &Vec<Cell>| -> Vec<String> {
        let exact = row.iter().zip(&kinds).filter(|(_, kind)| **kind != "float");
        exact.map(|(cell, _)| cell.clone().canonical().to_string()).collect()
    };
    wanted.sort_by_cached_key(by_exact_columns);
    found.sort_by_cached_key(by_exact_columns);
    for (found, wanted) in found.iter().zip(&wanted) {
        for (column, name) in names.iter().enumerate() {
            if !same(&found[column], &wanted[column]) {
                return Err(format!("{name} differs: {} instead of {}", show(found), show(wanted)));
            }
        }
    }
    Ok(())
}

fn same(found: &Cell, wanted: &Cell) -> bool {
    match (found, wanted) {
        (_, Cell::Float(wanted)) => found.as_f64().is_some_and(|value| {
            let last_place = match found {
                Cell::Number { scale, .. } => 10f64.powi(-i32::from(*scale)),
                _ => 0.0,
            };
            (value - wanted).abs() <= wanted.abs() * RELATIVE_TOLERANCE + last_place
        }),
        _ => found.clone().canonical() == wanted.clone().canonical(),
    }
}

fn show(row: &[Cell]) -> String {
    row.iter().map(Cell::to_string).collect::<Vec<_>>().join("|")
}

fn parse(line: &str, kinds: &[&str]) -> Result<Vec<Cell>, String> {
    let texts: Vec<&str> = line.split('|').collect();
    if texts.len() != kinds.len() {
        return Err(format!("the expected answer has a broken row: {line}"));
    }
    texts.iter().zip(kinds).map(|(text, kind)| parse_cell(text, kind)).collect()
}

/// Parses a row that was found, with the kinds of the expected one. An exact number in the place of a floating-point
/// one stays exact.
fn parse_row(row: &TextRow, kinds: &[&str]) -> Result<Vec<Cell>, String> {
    let cell = |(text, kind): (&Option<String>, &&str)| {
        let Some(text) = text else { return Ok(Cell::Null) };
        let read = |kind: &str| parse_cell(text, kind).map_err(|_| format!("{text:?} is no {kind}"));
        if *kind == "float" { read("number").or_else(|_| read(kind)) } else { read(kind) }
    };
    row.iter().zip(kinds).map(cell).collect()
}

fn parse_cell(text: &str, kind: &str) -> Result<Cell, String> {
    let broken = || format!("the expected answer has {text:?} for a {kind}");
    match kind {
        _ if text.is_empty() => Ok(Cell::Null),
        "number" => {
            let (whole, fraction) = text.split_once('.').unwrap_or((text, ""));
            let unscaled = format!("{whole}{fraction}").parse().map_err(|_| broken())?;
            Ok(Cell::Number { unscaled, scale: fraction.len().try_into().map_err(|_| broken())? })
        }
        "float" => text.parse().map(Cell::Float).map_err(|_| broken()),
        "text" => Ok(Cell::Text(text.to_owned())),
        "timestamp" => Ok(Cell::Timestamp(parse_timestamp(text).ok_or_else(broken)?)),
        "date" => Ok(Cell::Date(parse_date(text).ok_or_else(broken)?)),
        _ => Err(broken()),
    }
}

/// Returns the day number of a date like 1998-12-01 (Howard Hinnant's `days_from_civil`).
fn parse_date(text: &str) -> Option<i32> {
    let mut fields = text.splitn(3, '-').map(|field| field.parse::<i32>().ok());
    let (year, month, day) = (fields.next()??, fields.next()??, fields.next()??);
    let year = if month <= 2 { year - 1 } else { year };
    let era = year.div_euclid(400);
    let year_of_era = year.rem_euclid(400);
    let day_of_year = (153 * ((month + 9) % 12) + 2) / 5 + day - 1;
    let day_of_era = year_of_era * 365 + year_of_era / 4 - year_of_era / 100 + day_of_year;
    Some(era * 146_097 + day_of_era - 719_468)
}

/// Returns the microseconds of a time like `1998-12-01 12:00:00.000001`; the fraction may be missing.
fn parse_timestamp(text: &str) -> Option<i64> {
    let (date, time) = text.split_once(' ')?;
    let (time, fraction) = time.split_once('.').unwrap_or((time, "0"));
    let mut fields = time.splitn(3, ':').map(|field| field.parse::<i64>().ok());
    let (hour, minute, second) = (fields.next()??, fields.next()??, fields.next()??);
    let seconds = (i64::from(parse_date(date)?) * 24 + hour) * 3_600 + minute * 60 + second;
    Some(seconds * 1_000_000 + format!("{fraction:0<6}").parse::<i64>().ok()?)
}

/// Key of an `order by`: the position of a column in the answer, and the direction.
#[derive(Debug, Clone, Copy)]
pub(crate) enum OrderKey {
    Up(usize),
    Down(usize),
}
use OrderKey::{Down, Up};

fn in_order(first: &[Cell], second: &[Cell], order: &[OrderKey]) -> Ordering {
    let compare = |column: usize| match (&first[column], &second[column]) {
        (Cell::Text(first), Cell::Text(second)) => first.cmp(second),
        (Cell::Date(first), Cell::Date(second)) => first.cmp(second),
        (Cell::Timestamp(first), Cell::Timestamp(second)) => first.cmp(second),
        // A column has one scale, so the digits alone decide.
        (Cell::Number { unscaled: first, .. }, Cell::Number { unscaled: second, .. }) => first.cmp(second),
        (first, second) => first.as_f64().partial_cmp(&second.as_f64()).unwrap_or(Ordering::Equal),
    };
    order.iter().fold(Ordering::Equal, |decided, key| {
        decided.then_with(|| match *key {
            Up(column) => compare(column),
            Down(column) => compare(column).reverse(),
        })
    })
}

/// Sort keys of each query.
const ORDER: [&[OrderKey]; QUERIES_COUNT] = [
    &[Up(0), Up(1)],
    &[Down(0), Up(2), Up(1), Up(3)],
    &[Down(1), Up(2)],
    &[Up(0)],
    &[Down(1)],
    &[],
    &[Up(0), Up(1), Up(2)],
    &[Up(0)],
    &[Up(0), Down(1)],
    &[Down(2)],
    &[Down(1)],
    &[Up(0)],
    &[Down(1), Down(0)],
    &[],
    &[Up(0)],
    &[Down(3), Up(0), Up(1), Up(2)],
    &[],
    &[Down(4), Up(3)],
    &[],
    &[Up(0)],
    &[Down(1), Up(0)],
    &[Up(0)],
];

const EXPECTED: [&str; QUERIES_COUNT] = texts_of_22!("../../answers/sf0.1/q", ".txt");
