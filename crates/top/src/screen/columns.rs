//! Tables of as many columns as there is room for.
//!
//! **Invariant:** a column is shown whole or not at all: half a number would be read as another one.

use ratatui::layout::Constraint;
use ratatui::style::{Style, Stylize};
use ratatui::text::Text;
use ratatui::widgets::{Cell, Row, Table};

/// Column of a table, with its texts.
pub(super) struct Column {
    name: &'static str,
    /// Place in the order in which columns are kept: 0 is kept longest.
    rank: usize,
    cells: Vec<String>,
    is_left: bool,
    style: Style,
}

impl Column {
    /// Creates a column of numbers, aligned to the right.
    pub(super) fn new(name: &'static str, rank: usize, cells: impl IntoIterator<Item = String>) -> Column {
        Column { name, rank, cells: cells.into_iter().collect(), is_left: false, style: Style::new() }
    }

    /// Aligns the column to the left.
    pub(super) fn left(self) -> Column {
        Column { is_left: true, ..self }
    }

    /// Draws the column's texts in this style.
    pub(super) fn styled(self, style: Style) -> Column {
        Column { style, ..self }
    }

    fn width(&self) -> u16 {
        let texts = self.cells.iter().map(String::as_str).chain([self.name]);
        let longest = texts.map(|text| Text::from(text).width()).max().unwrap_or(0);
        u16::try_from(longest).unwrap_or(u16::MAX)
    }

    fn cell<'a>(&self, text: impl Into<Text<'a>>) -> Cell<'a> {
        let text = text.into();
        Cell::from(if self.is_left { text } else { text.right_aligned() })
    }
}

/// Returns the columns that fit side by side, the last by rank left out first. The first by rank always stays.
fn fitting(mut columns: Vec<Column>, width: u16) -> Vec<Column> {
    loop {
        let spaces = columns.len().saturating_sub(1);
        let used = columns.iter().map(|column| usize::from(column.width())).sum::<usize>() + spaces;
        if used <= usize::from(width) || columns.len() <= 1 {
            return columns;
        }
        let last = columns.iter().enumerate().max_by_key(|(_, column)| column.rank).map(|(at, _)| at);
        columns.remove(last.unwrap_or_default());
    }
}

/// Returns the table of the columns that fit; a row whose flag is set is emphasised.
pub(super) fn table(columns: Vec<Column>, emphasised: &[bool], width: u16) -> Table<'static> {
    let columns = fitting(columns, width);
    let head = Row::new(columns.iter().map(|column| column.cell(column.name))).dim();
    let rows = emphasised.iter().enumerate().map(|(at, is_emphasised)| {
        let text = |column: &Column| column.cells.get(at).cloned().unwrap_or_default();
        let row = Row::new(columns.iter().map(|column| column.cell(text(column)).style(column.style)));
        if *is_emphasised { row.bold() } else { row }
    });
    let widths: Vec<Constraint> = columns.iter().map(|column| Constraint::Length(column.width())).collect();
    Table::new(rows.collect::<Vec<_>>(), widths).header(head)
}

/// Joins the parts that fit in a line, in their order; the last by rank is left out first. The first by rank always
/// stays.
pub(super) fn joined(parts: Vec<(usize, String)>, separator: &str, width: u16) -> String {
    let mut parts = parts;
    loop {
        let line = parts.iter().map(|(_, part)| part.as_str()).collect::<Vec<_>>().join(separator);
        if Text::from(line.as_str()).width() <= usize::from(width) || parts.len() <= 1 {
            return line;
        }
        let last = parts.iter().enumerate().max_by_key(|(_, (rank, _))| *rank).map(|(at, _)| at);
        parts.remove(last.unwrap_or_default());
    }
}
