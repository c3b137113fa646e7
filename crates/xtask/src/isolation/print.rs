//! Texts as isolationtester prints them: results as libpq's `PQprint`, messages as its `PQresultErrorMessage`.

use std::fmt::Write;

/// Rows of a query, as text.
#[derive(Debug, Default)]
pub struct TextTable {
    pub columns: Vec<String>,
    pub rows: Vec<Vec<Option<String>>>,
}

/// Error or notice of a server.
#[derive(Clone, Debug, Default)]
pub struct Message {
    pub severity: String,
    pub state: String,
    pub primary: String,
    pub detail: Option<String>,
    pub hint: Option<String>,
}

impl Message {
    /// Returns the message with detail and hint, each on its line.
    pub fn full(&self) -> String {
        let mut text = format!("{}:  {}\n", self.severity, self.primary);
        for (title, part) in [("DETAIL", &self.detail), ("HINT", &self.hint)] {
            if let Some(part) = part {
                let _ = writeln!(text, "{title}:  {part}");
            }
        }
        text
    }
}

impl TextTable {
    /// Returns the table with a header, aligned, and the number of rows; nothing for a table without columns.
    pub fn print(&self) -> String {
        if self.columns.is_empty() {
            return String::new();
        }
        let field = |row: usize, at: usize| self.rows[row][at].as_deref().unwrap_or_default();
        let shape = |at: usize| {
            let fields = || (0..self.rows.len()).map(|row| field(row, at));
            let width = fields().map(str::len).chain([self.columns[at].len()]).max().unwrap_or_default();
            (width, fields().all(|text| text.is_empty() || is_number(text)))
        };
        let shapes: Vec<(usize, bool)> = (0..self.columns.len()).map(shape).collect();
        let line = |fields: Vec<&str>| {
            let fields = fields.iter().zip(&shapes).map(|(text, (width, is_number))| {
                // The width is counted in bytes.
                let fill = " ".repeat(width - text.len());
                if *is_number { format!("{fill}{text}") } else { format!("{text}{fill}") }
            });
            fields.collect::<Vec<_>>().join("|") + "\n"
        };
        let mut text = line(self.columns.iter().map(String::as_str).collect());
        let border: Vec<String> = shapes.iter().map(|(width, _)| "-".repeat(*width)).collect();
        let _ = writeln!(text, "{}", border.join("+"));
        for row in 0..self.rows.len() {
            text += &line((0..self.columns.len()).map(|at| field(row, at)).collect());
        }
        let _ = write!(text, "({} row{})\n\n", self.rows.len(), if self.rows.len() == 1 { "" } else { "s" });
        text
    }
}

/// Returns true if libpq takes a field for a number.
fn is_number(text: &str) -> bool {
    let inside = text.chars().all(|letter| letter.is_ascii_digit() || ".Ee -".contains(letter));
    inside && !text.starts_with(['E', 'e']) && text.ends_with(|letter: char| letter.is_ascii_digit())
}

#[cfg(test)]
mod tests {
    use super::{Message, TextTable};

    #[test]
    fn tables_are_aligned_as_by_libpq() {
        let row = |fields: [Option<&str>; 3]| fields.map(|field| field.map(str::to_owned)).to_vec();
        let table = TextTable {
            columns: ["id", "text", "n"].map(str::to_owned).to_vec(),
            rows: vec![row([Some("1"), Some("a"), None]), row([Some("-20"), Some("12345 x"), Some("1.5e3")])],
        };
        let expected = " id|text   |    n\n---+-------+-----\n  1|a      |     \n-20|12345 x|1.5e3\n(2 rows)\n\n";
        assert_eq!(table.print(), expected);
        assert_eq!(TextTable { columns: vec!["a".to_owned()], rows: Vec::new() }.print(), "a\n-\n(0 rows)\n\n");
        assert_eq!(TextTable { columns: Vec::new(), rows: vec![Vec::new()] }.print(), "");
    }

    #[test]
    fn messages_have_their_detail() {
        let text = |text: &str| text.to_owned();
        let message =
            Message { severity: text("NOTICE"), primary: text("a"), detail: Some(text("b")), ..Message::default() };
        assert_eq!(message.full(), "NOTICE:  a\nDETAIL:  b\n");
    }
}
