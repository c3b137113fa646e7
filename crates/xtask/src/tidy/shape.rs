//! Figures of the text: sizes, comments, openings of doc comments, names of types.

use super::source::SourceFile;
use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

/// Words that do not name a subject. A doc comment that opens with one makes its reader look for it.
const OPENERS: [&str; 13] =
    ["What", "Whether", "How", "Who", "Where", "Which", "Why", "When", "Its", "It", "Of", "As", "Those"];

/// Number of lines from which on a function explains at least one of its decisions.
const LONG_FUNCTION: usize = 40;

/// Number of types from which on a name that they share says nothing.
const SAME_NAME: usize = 4;

/// Figures of the product's files.
#[derive(Default)]
pub(super) struct SourceFigures {
    file_lines: Vec<usize>,
    function_lines: Vec<usize>,
    doc_lines: usize,
    comment_lines: usize,
    doc_items: usize,
    pub_doc_items: usize,
    opened: usize,
    pub_opened: usize,
    silent_functions: usize,
    long_functions: usize,
    calls: BTreeMap<&'static str, usize>,
    types: BTreeMap<String, Vec<String>>,
}

/// Returns true for the first line of a function's text: its name's line.
fn is_function(line: &str) -> bool {
    let mut rest = line.trim_start();
    if let Some(after) = rest.strip_prefix("pub") {
        rest = match after.strip_prefix('(') {
            Some(scope) => scope.split_once(')').map_or("", |(_, rest)| rest),
            None => after,
        };
        rest = rest.trim_start();
    }
    for word in ["const ", "async ", "unsafe ", "extern \"C\" "] {
        rest = rest.strip_prefix(word).unwrap_or(rest);
    }
    rest.starts_with("fn ")
}

/// Returns the number of lines of the function that begins at `at`, as `rustfmt` writes it: up to the brace of its own
/// indentation.
fn function_length(lines: &[&str], at: usize) -> usize {
    let line = lines[at];
    let indent = &line[..line.len() - line.trim_start().len()];
    if line.contains('{') && line.matches('{').count() == line.matches('}').count() {
        return 1;
    }
    let closing = format!("{indent}}}");
    let deeper = format!("{indent} ");
    let ends = |line: &&str| {
        line.starts_with(&closing)
            || (line.trim_end().ends_with(';') && line.starts_with(indent) && !line.starts_with(&deeper))
    };
    lines[at..].iter().skip(usize::from(!line.trim_end().ends_with(';'))).position(ends).map_or(1, |n| n + 2)
}

impl SourceFigures {
    pub(super) fn of(sources: &[SourceFile]) -> SourceFigures {
        let mut shape = SourceFigures::default();
        for source in sources.iter().filter(|source| !source.is_test()) {
            shape.add(source);
        }
        shape.file_lines.sort_unstable();
        shape.function_lines.sort_unstable();
        shape
    }

    fn add(&mut self, source: &SourceFile) {
        let text = source.product();
        let lines: Vec<&str> = text.lines().collect();
        self.file_lines.push(lines.len());
        let mut was_doc = false;
        for (at, line) in lines.iter().enumerate() {
            let code = line.trim_start();
            let is_doc = code.starts_with("///");
            let is_module_doc = code.starts_with("//!");
            self.doc_lines += usize::from(is_doc || is_module_doc);
            self.comment_lines += usize::from(code.starts_with("//") && !is_doc && !is_module_doc);
            if is_doc && !was_doc {
                self.doc_item(code, &lines[at..]);
            }
            was_doc = is_doc;
            if is_function(line) {
                let length = function_length(&lines, at);
                self.function_lines.push(length);
                if LONG_FUNCTION <= length {
                    let body = &lines[at..(at + length).min(lines.len())];
                    let explains = body.iter().any(|line| line.contains("// "));
                    self.long_functions += 1;
                    self.silent_functions += usize::from(!explains);
                }
            }
            if let Some(name) = type_name(code) {
                self.types.entry(name.to_owned()).or_default().push(source.crate_name().to_owned());
            }
        }
        for call in [".unwrap()", ".expect(", "panic!(", "unreachable!(", "TODO", "FIXME"] {
            *self.calls.entry(call).or_default() += text.matches(call).count();
        }
    }

    /// Counts a doc comment by its first line, and by the line of code that follows it.
    fn doc_item(&mut self, first: &str, rest: &[&str]) {
        let word = first.trim_start_matches('/').trim_start();
        let word = &word[..word.find(|sign: char| !sign.is_alphanumeric()).unwrap_or(word.len())];
        let is_opened = OPENERS.contains(&word);
        let is_item = |line: &&&str| {
            let line = line.trim_start();
            !line.starts_with("///") && !line.starts_with("#[") && !line.is_empty()
        };
        let is_pub = rest.iter().find(is_item).is_some_and(|line| line.trim_start().starts_with("pub "));
        self.doc_items += 1;
        self.opened += usize::from(is_opened);
        self.pub_doc_items += usize::from(is_pub);
        self.pub_opened += usize::from(is_opened && is_pub);
    }

    /// Returns the names that stand for [`SAME_NAME`] types or more, and the number of those of more than one type in a
    /// crate.
    fn ambiguous(&self) -> (Vec<(&str, usize)>, usize) {
        let mut many: Vec<(&str, usize)> = self
            .types
            .iter()
            .filter(|(_, crates)| SAME_NAME <= crates.len())
            .map(|(name, crates)| (&**name, crates.len()))
            .collect();
        many.sort_by_key(|(_, count)| std::cmp::Reverse(*count));
        let is_twice = |crates: &&Vec<String>| crates.iter().collect::<BTreeSet<_>>().len() < crates.len();
        (many, self.types.values().filter(is_twice).count())
    }
}

fn type_name(code: &str) -> Option<&str> {
    let mut rest = code;
    if let Some(after) = rest.strip_prefix("pub") {
        rest = match after.strip_prefix('(') {
            Some(scope) => scope.split_once(')')?.1,
            None => after,
        };
        rest = rest.trim_start();
    }
    let name = ["struct ", "enum ", "trait "].iter().find_map(|word| rest.strip_prefix(word))?;
    let end = name.find(|sign: char| !sign.is_alphanumeric() && sign != '_').unwrap_or(name.len());
    (end != 0).then(|| &name[..end])
}

/// Returns the value below which a share of the sorted values lies.
fn quantile(sorted: &[usize], share: f64) -> usize {
    let at = (share * sorted.len() as f64) as usize;
    sorted.get(at.min(sorted.len().saturating_sub(1))).copied().unwrap_or(0)
}

fn percent(part: usize, whole: usize) -> f64 {
    100.0 * part as f64 / whole.max(1) as f64
}

impl fmt::Display for SourceFigures {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (files, functions) = (&self.file_lines, &self.function_lines);
        let total: usize = files.iter().sum();
        writeln!(
            f,
            "files {}, lines {total}, median {}, p90 {}, max {}",
            files.len(),
            quantile(files, 0.5),
            quantile(files, 0.9),
            quantile(files, 1.0)
        )?;
        writeln!(
            f,
            "functions {}, median {}, p90 {}, p99 {}, max {}, over 100 lines: {}",
            functions.len(),
            quantile(functions, 0.5),
            quantile(functions, 0.9),
            quantile(functions, 0.99),
            quantile(functions, 1.0),
            functions.iter().filter(|lines| 100 < **lines).count()
        )?;
        writeln!(
            f,
            "lines of documentation {:.1} %, of comments {:.1} %; functions of {LONG_FUNCTION} lines or more without a comment: {} of {}",
            percent(self.doc_lines, total),
            percent(self.comment_lines, total),
            self.silent_functions,
            self.long_functions
        )?;
        writeln!(
            f,
            "doc comments that open without a subject: {} of {} ({:.1} %), of public items {} of {} ({:.1} %)",
            self.opened,
            self.doc_items,
            percent(self.opened, self.doc_items),
            self.pub_opened,
            self.pub_doc_items,
            percent(self.pub_opened, self.pub_doc_items)
        )?;
        let calls: Vec<String> = self.calls.iter().map(|(call, count)| format!("{call} {count}")).collect();
        writeln!(f, "{}", calls.join(", "))?;
        let (many, twice) = self.ambiguous();
        // Only the worst names are listed, so that the line stays readable.
        let worst: Vec<String> = many.iter().take(12).map(|(name, count)| format!("{name} {count}")).collect();
        write!(
            f,
            "type names of {SAME_NAME} types or more: {} ({}); names of two types in one crate: {twice}",
            many.len(),
            worst.join(", ")
        )
    }
}

#[cfg(test)]
mod tests;
