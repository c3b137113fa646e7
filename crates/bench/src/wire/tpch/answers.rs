//! Comparison of two servers' answers, as text.
//!
//! **Invariant:** every cell of every row is compared; only floating columns have a tolerance.

use super::super::client::TextRows;

/// Permitted relative difference of a floating-point number.
const RELATIVE_TOLERANCE: f64 = 1e-9;

/// Compares two answers; `floating` says of each column whether it is a floating-point number. Returns true for the
/// same rows in another order, which rows that tie may have.
///
/// # Errors
/// The first difference.
pub fn compare(first: &TextRows, second: &TextRows, floating: &[bool]) -> Result<bool, String> {
    if first.len() != second.len() {
        return Err(format!("{} rows and {}", first.len(), second.len()));
    }
    if first.iter().zip(second).all(|(first, second)| same(first, second, floating)) {
        return Ok(false);
    }
    let sorted = |rows: &TextRows| {
        let mut rows = rows.clone();
        // Floating-point cells come last: they may differ.
        rows.sort_by_cached_key(|row| {
            let exact: Vec<_> =
                row.iter().zip(floating).filter(|(_, floats)| !**floats).map(|(cell, _)| cell.clone()).collect();
            (exact, row.clone())
        });
        rows
    };
    for (first, second) in sorted(first).iter().zip(&sorted(second)) {
        if !same(first, second, floating) {
            return Err(format!("{} and {}", show(first), show(second)));
        }
    }
    Ok(true)
}

fn same(first: &[Option<String>], second: &[Option<String>], floating: &[bool]) -> bool {
    let cells = first.iter().zip(second).zip(floating);
    first.len() == second.len()
        && first.len() == floating.len()
        && cells.into_iter().all(|((first, second), floats)| first == second || (*floats && close(first, second)))
}

fn close(first: &Option<String>, second: &Option<String>) -> bool {
    let number = |cell: &Option<String>| cell.as_deref().and_then(|text| text.parse::<f64>().ok());
    match (number(first), number(second)) {
        (Some(first), Some(second)) => (first - second).abs() <= second.abs() * RELATIVE_TOLERANCE,
        _ => false,
    }
}

fn show(row: &[Option<String>]) -> String {
    row.iter().map(|cell| cell.as_deref().unwrap_or("NULL")).collect::<Vec<_>>().join("|")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rows(text: &str) -> TextRows {
        let cell = |cell: &str| (!cell.is_empty()).then(|| cell.to_owned());
        text.lines().map(|line| line.split('|').map(cell).collect()).collect()
    }

    #[test]
    fn exact_columns_are_compared_exactly() {
        let floating = [false, true];
        assert_eq!(compare(&rows("1|2.0\n2|"), &rows("1|2.0000000001\n2|"), &floating), Ok(false));
        assert_eq!(compare(&rows("1|2\n2|3"), &rows("2|3\n1|2"), &floating), Ok(true));
        assert_eq!(compare(&rows("1|2"), &rows("1.0|2"), &floating), Err("1|2 and 1.0|2".to_owned()));
        assert_eq!(compare(&rows("1|2"), &rows("1|2.1"), &floating), Err("1|2 and 1|2.1".to_owned()));
        assert_eq!(compare(&rows("1|"), &rows("1|0"), &floating), Err("1|NULL and 1|0".to_owned()));
        assert!(compare(&rows("1|2"), &rows("1|2\n1|2"), &floating).is_err());
    }
}
