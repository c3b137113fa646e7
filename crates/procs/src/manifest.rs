//! Interface of a module: what it may touch, and what it offers.
//!
//! A manifest is a text. Each line is a word, a name, and the rest; empty lines and lines that begin with `#` are
//! skipped. Numbers count from 0 in the order of the lines, separately for tables, statements and entries.
//!
//! ```text
//! overtake 1
//! table district tpcc.district (d_w_id, d_id, d_tax, d_next_o_id)
//! statement audit INSERT INTO audit VALUES ($1, $2)
//! entry new_order
//! ```
//!
//! **Invariant:** no two tables, statements or entries of one manifest have the same name, and there are at most 1,000
//! of each.

use statement::error::{SqlError, SqlResult, SqlState};

/// Greatest number of tables, of statements, and of entries.
const EACH_MAX: usize = 1_000;

/// Parsed manifest.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Manifest {
    /// Tables, by number.
    pub tables: Vec<ManifestTable>,
    /// Statements, by number.
    pub statements: Vec<ManifestStatement>,
    /// Names of entries, by number.
    pub entries: Vec<String>,
}

/// Table that a module reaches by key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ManifestTable {
    /// Name within the module.
    pub name: String,
    /// Name of the table in SQL, with or without its schema.
    pub relation: String,
    /// Columns that rows consist of, in the module's order.
    pub columns: Vec<String>,
}

/// SQL statement that a module executes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ManifestStatement {
    /// Name within the module.
    pub name: String,
    /// Text of the statement, with parameters `$1` and so on.
    pub text: String,
}

impl Manifest {
    /// Parses a manifest.
    ///
    /// # Errors
    /// `42601` with the number of the line.
    pub fn parse(text: &str) -> SqlResult<Manifest> {
        let mut manifest = Manifest::default();
        let mut has_version = false;
        for (at, line) in text.lines().enumerate() {
            let line = line.trim();
            if line.is_empty() || line.starts_with('#') {
                continue;
            }
            let (word, rest) = split(line);
            let told = |message: &str| wrong(at + 1, message);
            match (word, has_version) {
                ("overtake", false) if rest == "1" => has_version = true,
                ("overtake", false) => return Err(told("the version of the interface must be 1")),
                (_, false) => return Err(told("the first line must be \"overtake 1\"")),
                ("table", true) => manifest.tables.push(table(rest).map_err(|message| told(&message))?),
                ("statement", true) => {
                    let (name, text) = split(rest);
                    if name.is_empty() || text.is_empty() {
                        return Err(told("expected: statement NAME SQL"));
                    }
                    manifest.statements.push(ManifestStatement { name: name.to_owned(), text: text.to_owned() });
                }
                ("entry", true) if rest.is_empty() => return Err(told("an entry has no name (expected: entry NAME)")),
                ("entry", true) => {
                    if let Some(sign) = rest.chars().find(|&sign| !is_of_name(sign)) {
                        let reason = if sign.is_whitespace() { "a blank" } else { "a control character" };
                        return Err(told(&format!("{rest:?} cannot be the name of an entry: it contains {reason}")));
                    }
                    manifest.entries.push(rest.to_owned());
                }
                (word, true) => return Err(told(&format!("unknown word \"{word}\""))),
            }
            manifest.check_last().map_err(|message| told(&message))?;
        }
        if !has_version {
            return Err(wrong(1, "the first line must be \"overtake 1\""));
        }
        Ok(manifest)
    }

    /// Returns the number of an entry.
    pub fn entry(&self, name: &str) -> Option<u16> {
        self.entries.iter().position(|entry| entry == name).and_then(|at| u16::try_from(at).ok())
    }

    /// Checks what the last line has added.
    fn check_last(&self) -> Result<(), String> {
        fn is_new<T>(all: &[T], name: impl Fn(&T) -> &str) -> bool {
            all.split_last().is_none_or(|(last, before)| before.iter().all(|one| name(one) != name(last)))
        }
        let lens = [self.tables.len(), self.statements.len(), self.entries.len()];
        if lens.into_iter().any(|len| EACH_MAX < len) {
            return Err(format!("more than {EACH_MAX} tables, statements or entries"));
        }
        let twice = |kind: &str, name: Option<&str>| {
            Err(format!("more than one {kind} is named \"{}\"", name.unwrap_or_default()))
        };
        if !is_new(&self.tables, |table| &table.name) {
            return twice("table", self.tables.last().map(|table| &*table.name));
        }
        if !is_new(&self.statements, |statement| &statement.name) {
            return twice("statement", self.statements.last().map(|statement| &*statement.name));
        }
        if !is_new(&self.entries, |entry| entry) {
            return twice("entry", self.entries.last().map(String::as_str));
        }
        Ok(())
    }
}

/// Returns true for a character that the name of an entry may have.
fn is_of_name(sign: char) -> bool {
    !sign.is_whitespace() && !sign.is_control()
}

/// Splits a text at its first blank.
fn split(text: &str) -> (&str, &str) {
    let (first, rest) = text.split_once(char::is_whitespace).unwrap_or((text, ""));
    (first, rest.trim())
}

fn table(rest: &str) -> Result<ManifestTable, String> {
    const EXPECTED: &str = "expected: table NAME RELATION (COLUMN, ...)";
    let (name, rest) = split(rest);
    let (relation, columns) = rest.split_once('(').ok_or(EXPECTED)?;
    let columns = columns.strip_suffix(')').ok_or(EXPECTED)?;
    let columns: Vec<String> = columns.split(',').map(|column| column.trim().to_owned()).collect();
    let relation = relation.trim();
    if name.is_empty() || relation.is_empty() || columns.iter().any(String::is_empty) {
        return Err(EXPECTED.to_owned());
    }
    Ok(ManifestTable { name: name.to_owned(), relation: relation.to_owned(), columns })
}

fn wrong(line: usize, message: &str) -> SqlError {
    SqlError::new(SqlState::SYNTAX_ERROR, format!("manifest, line {line}: {message}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_manifest_is_parsed() {
        let text = "# a comment\novertake 1\n\ntable d tpcc.district (d_id, d_tax)\nstatement s SELECT 1\nentry e\n";
        let manifest = Manifest::parse(text).expect("a manifest");
        assert_eq!(manifest.tables[0].relation, "tpcc.district");
        assert_eq!(manifest.tables[0].columns, ["d_id", "d_tax"]);
        assert_eq!(manifest.statements[0].text, "SELECT 1");
        assert_eq!(manifest.entry("e"), Some(0));
        assert_eq!(manifest.entry("f"), None);
    }

    #[test]
    fn a_wrong_manifest_is_refused_with_its_line() {
        for (text, message) in [
            ("", "manifest, line 1: the first line must be \"overtake 1\""),
            ("overtake 2", "manifest, line 1: the version of the interface must be 1"),
            ("table t t (a)", "manifest, line 1: the first line must be \"overtake 1\""),
            ("overtake 1\ntable t t", "manifest, line 2: expected: table NAME RELATION (COLUMN, ...)"),
            ("overtake 1\ntable t t (a,)", "manifest, line 2: expected: table NAME RELATION (COLUMN, ...)"),
            ("overtake 1\nstatement s", "manifest, line 2: expected: statement NAME SQL"),
            ("overtake 1\nentry ", "manifest, line 2: an entry has no name (expected: entry NAME)"),
            (
                "overtake 1\nentry my fee",
                "manifest, line 2: \"my fee\" cannot be the name of an entry: it contains a blank",
            ),
            (
                "overtake 1\nentry f\u{7}",
                "manifest, line 2: \"f\\u{7}\" cannot be the name of an entry: it contains a control character",
            ),
            ("overtake 1\nentry e\nentry e", "manifest, line 3: more than one entry is named \"e\""),
            ("overtake 1\ntable t a (b)\ntable t a (b)", "manifest, line 3: more than one table is named \"t\""),
            ("overtake 1\nstatement s A\nstatement s A", "manifest, line 3: more than one statement is named \"s\""),
            ("overtake 1\novertake 1", "manifest, line 2: unknown word \"overtake\""),
        ] {
            let error = Manifest::parse(text).expect_err(text);
            assert_eq!((error.state(), error.message()), (SqlState::SYNTAX_ERROR, message));
        }
    }
}
