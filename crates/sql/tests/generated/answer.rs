//! Answers to statements as single lines of text, which are equal on two servers if the answers mean the same.

use std::fmt;

/// Length above which an answer is stored as a hash.
const LENGTH_MAX: usize = 240;

/// Line of the file.
pub struct Line<'l> {
    /// Statement that was run.
    pub statement: &'l str,
    /// Recorded answer, in the text form of [`Answer`].
    pub answer: &'l str,
}

impl Line<'_> {
    /// Parses a line of the file.
    pub fn read(line: &str) -> Line<'_> {
        let (statement, answer) = line.split_once('\t').expect("a statement and its answer");
        Line { statement, answer }
    }
}

/// OIDs of the column types, and the rows or an SQLSTATE.
#[derive(Debug, PartialEq, Eq)]
pub struct Answer {
    types: String,
    rows: String,
}

impl Answer {
    /// Returns the answer of an error.
    pub fn failed(state: &str) -> Answer {
        Answer { types: String::new(), rows: format!("!{state}") }
    }

    /// Returns the answer of rows. Their order counts if the statement has one, which is by all columns then. Among
    /// equal values that look different, it is undefined which one represents them.
    pub fn rows(statement: &str, types: impl Iterator<Item = u32>, rows: Vec<Vec<Option<String>>>) -> Answer {
        let words = ["group by", "distinct", "union", "intersect", "except", "min(", "max(", "order by"];
        let chooses = words.iter().any(|word| statement.contains(word));
        let mut rows: Vec<String> = (rows.into_iter())
            .map(|row| row.into_iter().map(|cell| written(cell, chooses)).collect::<Vec<_>>().join("|"))
            .collect();
        if !statement.contains(" order by 1") {
            rows.sort_unstable();
        }
        let count = rows.len();
        let mut text = rows.join(";");
        if LENGTH_MAX < text.len() {
            text = format!("{count} rows {:016x}", fingerprint(&text));
        } else if count == 0 {
            text = "none".to_owned();
        }
        Answer { types: types.map(|oid| oid.to_string()).collect::<Vec<_>>().join(","), rows: text }
    }
}

impl fmt::Display for Answer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}\t{}", self.types, self.rows)
    }
}

fn written(cell: Option<String>, chooses: bool) -> String {
    let Some(mut cell) = cell else { return "\\N".to_owned() };
    let digits = cell.trim_start_matches('-');
    if chooses && digits.contains('.') && digits.bytes().all(|byte| byte == b'.' || byte.is_ascii_digit()) {
        cell = cell.trim_end_matches('0').trim_end_matches('.').to_owned();
    }
    if chooses && cell == "-0" {
        cell = "0".to_owned();
    }
    cell.replace('\\', "\\\\").replace('\t', "\\t").replace('\n', "\\n").replace('|', "\\|").replace(';', "\\;")
}

/// Returns the FNV-1a hash of a text.
fn fingerprint(text: &str) -> u64 {
    text.bytes().fold(0xcbf2_9ce4_8422_2325, |hash, byte| (hash ^ u64::from(byte)).wrapping_mul(0x100_0000_01b3))
}
