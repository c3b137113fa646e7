//! Regular expressions with PostgreSQL's semantics (its AREs): the leftmost match, then the longest or shortest as the
//! expression prefers, and subexpressions likewise, those that begin earlier first. No crate offers that: others take
//! the first alternative that fits.
//!
//! **Invariant:** expressions match as PostgreSQL's `regexec` under `lc_ctype = C` does: only ASCII letters have two
//! cases, and only they count as letters. Back references are refused.

mod parse;
mod program;
mod tree;

pub(crate) use parse::set_option;

use program::Program;
use statement::error::{SqlError, SqlResult, SqlState};
use std::collections::HashMap;
use std::sync::{Arc, LazyLock, Mutex};
use tree::MatchTree;

/// Options of an expression.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct RegexOptions {
    /// True if upper and lower case are equal.
    pub ignore_case: bool,
    /// True if `.` and `[^x]` do not match the end of a line.
    pub lines_part: bool,
    /// True if `^` and `$` match at the ends of lines.
    pub lines_anchor: bool,
    /// True if blanks and comments are ignored.
    pub expanded: bool,
    /// True if all characters are ordinary.
    pub literal: bool,
}

/// Range of a match or subexpression, in characters.
pub type Span = (usize, usize);

/// A compiled expression.
#[derive(Debug)]
pub struct Regex {
    programs: Vec<Program>,
    tree: MatchTree,
    /// Number of capturing parentheses.
    pub groups: usize,
}

/// Returns `2201B`, with the message of PostgreSQL's compiler.
pub fn invalid(what: &str) -> SqlError {
    SqlError::new(SqlState::INVALID_REGULAR_EXPRESSION, format!("invalid regular expression: {what}"))
}

type RegexCache = HashMap<(String, RegexOptions), Arc<Regex>>;
static CACHE: LazyLock<Mutex<RegexCache>> = LazyLock::new(Mutex::default);
/// Maximum number of kept expressions.
const CACHED_MAX: usize = 256;

impl Regex {
    /// Returns the expression, compiled now or earlier.
    ///
    /// # Errors
    /// `2201B`; `0A000` for back references and other flavours.
    pub fn new(pattern: &str, options: RegexOptions) -> SqlResult<Arc<Regex>> {
        let key = (pattern.to_owned(), options);
        // The holder of the lock may be a context that is paused under this one, so nothing waits for it.
        if let Ok(cache) = CACHE.try_lock()
            && let Some(found) = cache.get(&key)
        {
            return Ok(Arc::clone(found));
        }
        let compiled = Arc::new(Regex::compile(pattern, options)?);
        if let Ok(mut cache) = CACHE.try_lock() {
            if cache.len() >= CACHED_MAX {
                cache.clear();
            }
            cache.insert(key, Arc::clone(&compiled));
        }
        Ok(compiled)
    }

    fn compile(pattern: &str, options: RegexOptions) -> SqlResult<Regex> {
        let (expression, groups) = parse::parse(pattern, options)?;
        let mut programs = Vec::new();
        let tree = MatchTree::of(&expression, &mut programs)?;
        Ok(Regex { programs, tree, groups })
    }

    /// Returns true if the expression matches anywhere.
    ///
    /// # Errors
    /// `57014`
    pub fn is_match(&self, text: &[char]) -> SqlResult<bool> {
        self.program().is_anywhere(text, 0)
    }

    fn program(&self) -> &Program {
        &self.programs[self.tree.program]
    }

    /// Finds the first match that begins at this character or later.
    ///
    /// # Errors
    /// `57014`
    pub fn find(&self, text: &[char], from: usize) -> SqlResult<Option<Span>> {
        if text.len() < from || !self.program().is_anywhere(text, from)? {
            return Ok(None);
        }
        for begin in from..=text.len() {
            if let Some(end) = self.program().end(text, begin, text.len(), self.tree.shorter)? {
                return Ok(Some((begin, end)));
            }
        }
        Ok(None)
    }

    /// Finds the same match as [`Regex::find`], and returns the subexpressions after it.
    ///
    /// # Errors
    /// `57014`
    pub fn captures(&self, text: &[char], from: usize) -> SqlResult<Option<Vec<Option<Span>>>> {
        let Some((begin, end)) = self.find(text, from)? else { return Ok(None) };
        let mut spans = vec![None; self.groups + 1];
        spans[0] = Some((begin, end));
        if self.groups > 0 {
            self.tree.dissect(&self.programs, text, (begin, end), &mut spans)?;
        }
        Ok(Some(spans))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(pattern: &str, text: &str) -> Option<Vec<Option<String>>> {
        let text: Vec<char> = text.chars().collect();
        let regex = Regex::new(pattern, RegexOptions::default()).expect("an expression");
        let spans = regex.captures(&text, 0).expect("nobody stops it")?;
        Some(spans.into_iter().map(|span| span.map(|(a, b)| text[a..b].iter().collect())).collect())
    }

    #[test]
    fn the_longest_match_wins() {
        for (pattern, text, expected) in [
            ("foo|foobar", "xfoobarx", &["foobar"][..]),
            ("(a|ab)(c|bcd)(d*)", "abcd", &["abcd", "ab", "c", "d"]),
            ("a.*?c", "abcabc", &["abc"]),
            ("x*", "aaa", &[""]),
            ("(?:x|y)+?$", "xyxy", &["xyxy"]),
            ("^(l*){1,1}(.*)(f*)$", "llmmmfff", &["llmmmfff", "ll", "mmmfff", ""]),
            ("^(l*){1,1}?(.*)(f*)$", "llmmmfff", &["llmmmfff", "", "llmmmfff", ""]),
            ("^(l*){1,1}?(.*){1,1}?(f*)$", "llmmmfff", &["llmmmfff", "", "llmmm", "fff"]),
            ("^(l*?){1,1}(.*)(f*)$", "llmmmfff", &["llmmmfff", "ll", "mmmfff", ""]),
            ("^(l*?){1,1}?(.*){1,1}?(f*)$", "llmmmfff", &["llmmmfff", "", "llmmm", "fff"]),
        ] {
            let expected = expected.iter().map(|part| Some((*part).to_owned())).collect();
            assert_eq!(found(pattern, text), Some(expected), "{pattern}");
        }
        assert_eq!(found("^b", "ab"), None);
    }

    #[test]
    fn nothing_is_too_large_for_the_machine() {
        let huge = "(((a{255}){255}){255}){255}";
        assert_eq!(Regex::compile(huge, RegexOptions::default()).expect_err("too complex").state().0, "2201B");
        let deep = format!("{}a{}", "(".repeat(100_000), ")".repeat(100_000));
        assert!(Regex::compile(&deep, RegexOptions::default()).is_err());
        let text: Vec<char> = "a".repeat(3000).chars().collect();
        let slow = Regex::compile("(a*)*b", RegexOptions::default()).expect("an expression");
        assert!(!slow.is_match(&text).expect("nobody stops it"));
    }
}
