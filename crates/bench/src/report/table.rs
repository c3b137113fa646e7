//! Tables with aligned columns, for a terminal.

use std::fmt;

/// Table for a terminal. The first column is text, aligned left; the others are numbers, aligned right.
pub struct TextTable {
    title: String,
    header: Vec<String>,
    rows: Vec<Vec<String>>,
}

impl TextTable {
    /// Creates an empty table.
    pub fn new(title: impl Into<String>, header: &[&str]) -> TextTable {
        TextTable { title: title.into(), header: header.iter().map(ToString::to_string).collect(), rows: Vec::new() }
    }

    /// Adds a row.
    ///
    /// # Panics
    /// If the row has another number of cells than the header.
    pub fn row(&mut self, cells: impl IntoIterator<Item = String>) {
        let row: Vec<String> = cells.into_iter().collect();
        assert_eq!(row.len(), self.header.len(), "a row of table \"{}\" has a wrong number of cells", self.title);
        self.rows.push(row);
    }
}

impl fmt::Display for TextTable {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let lines = || std::iter::once(&self.header).chain(&self.rows);
        let widths: Vec<usize> = (0..self.header.len())
            .map(|column| lines().map(|line| line[column].chars().count()).max().unwrap_or(0))
            .collect();
        writeln!(f, "{}", self.title)?;
        for (at, line) in lines().enumerate() {
            write!(f, "  {:<width$}", line[0], width = widths[0])?;
            for (cell, width) in line.iter().zip(&widths).skip(1) {
                write!(f, "  {cell:>width$}")?;
            }
            writeln!(f)?;
            if at == 0 {
                writeln!(f, "  {}", "-".repeat(widths.iter().sum::<usize>() + 2 * (widths.len() - 1)))?;
            }
        }
        Ok(())
    }
}

/// Formats a number with about three significant digits and, when it is large, its thousands apart: `0.123`, `17.2`,
/// `12,345`.
pub fn number(value: f64) -> String {
    let digits_behind = match value.abs() {
        size if !size.is_finite() => return "-".to_owned(),
        size if size < 0.0005 => 0,
        size if size < 1.0 => 3,
        size if size < 10.0 => 2,
        size if size < 100.0 => 1,
        _ => 0,
    };
    let text = format!("{value:.digits_behind$}");
    let (whole, behind) = text.split_at(text.find('.').unwrap_or(text.len()));
    let (sign, digits) = whole.split_at(usize::from(whole.starts_with('-')));
    let mut apart = String::new();
    for (at, digit) in digits.chars().enumerate() {
        if 0 < at && (digits.len() - at).is_multiple_of(3) {
            apart.push(',');
        }
        apart.push(digit);
    }
    format!("{sign}{apart}{behind}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_read_well() {
        let cases = [
            (0.0, "0"),
            (0.1234, "0.123"),
            (1.999, "2.00"),
            (17.23, "17.2"),
            (999.4, "999"),
            (1_000.0, "1,000"),
            (1_234_567.8, "1,234,568"),
            (-1_234.0, "-1,234"),
            (f64::NAN, "-"),
        ];
        for (value, text) in cases {
            assert_eq!(number(value), text);
        }
    }

    #[test]
    fn columns_are_aligned() {
        let mut table = TextTable::new("Start delay", &["rung", "p50 µs"]);
        table.row(["poll".into(), number(0.13)]);
        table.row(["signal".into(), number(1_717.2)]);
        assert_eq!(
            table.to_string(),
            "Start delay\n  rung    p50 µs\n  --------------\n  poll     0.130\n  signal   1,717\n"
        );
    }
}
