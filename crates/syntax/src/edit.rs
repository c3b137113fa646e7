//! Edits of a text: of names and literals in the text that a definition keeps.

use crate::lex::{Keyword, Lexeme, Lexer, Span};
use statement::error::SqlResult;

/// Edits of one text, by the places that are replaced.
#[derive(Clone, Debug, Default)]
pub struct Edits(Vec<(Span, String)>);

impl Edits {
    /// Replaces the text of a span. Of spans that overlap, the first in the text is replaced, and the others are
    /// ignored.
    pub fn replace(&mut self, at: Span, by: impl Into<String>) {
        self.0.push((at, by.into()));
    }

    /// Inserts a text after a span.
    pub fn insert_behind(&mut self, at: Span, text: impl Into<String>) {
        self.replace(Span { start: at.end, end: at.end }, text);
    }

    /// Returns true if there are no edits.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Returns a part of the text with the edits applied.
    pub fn apply(&self, text: &str, part: Span) -> String {
        let mut edits: Vec<&(Span, String)> = self.0.iter().collect();
        edits.sort_by_key(|(span, _)| (span.start, span.end));
        let mut edited = String::new();
        let mut at = part.start;
        for (span, by) in edits {
            if at <= span.start && span.end <= part.end {
                edited.push_str(Span { start: at, end: span.start }.of(text));
                edited.push_str(by);
                at = span.end;
            }
        }
        edited.push_str(Span { start: at, end: part.end }.of(text));
        edited
    }
}

/// Returns a text on one line: spaces and comments between its tokens become single spaces.
///
/// # Errors
/// The errors of the scanner.
pub fn on_one_line(text: &str) -> SqlResult<String> {
    let mut lexer = Lexer::new(text);
    let mut line = String::with_capacity(text.len());
    let mut end = 0;
    loop {
        let token = lexer.next_token()?;
        if matches!(token.lexeme, Lexeme::End | Lexeme::Broken) {
            return match lexer.error() {
                Some(error) => Err(error.clone()),
                None => Ok(line),
            };
        }
        if end < token.span.start && !line.is_empty() {
            line.push(' ');
        }
        // A text on several lines is one token, which stays as it is.
        line.push_str(token.span.of(text));
        end = token.span.end;
    }
}

/// Returns a clause as messages name it: on one line, with keywords in upper case. The name of a trigger or a rule,
/// which may look like a keyword, stays.
pub fn clause_words(clause: &str) -> String {
    let mut lexer = Lexer::new(clause);
    let mut words = String::with_capacity(clause.len());
    let (mut end, mut is_name) = (0, false);
    // The caller has parsed the clause: the scanner finds no error in it.
    while let Ok(token) = lexer.next_token()
        && !matches!(token.lexeme, Lexeme::End | Lexeme::Broken)
    {
        if end < token.span.start && !words.is_empty() {
            words.push(' ');
        }
        let word = token.span.of(clause);
        match token.lexeme {
            Lexeme::Keyword(_) if !is_name => words.push_str(&word.to_uppercase()),
            _ => words.push_str(word),
        }
        is_name = matches!(token.lexeme, Lexeme::Keyword(Keyword::Trigger | Keyword::Rule));
        end = token.span.end;
    }
    words
}

#[cfg(test)]
mod tests {
    use super::{Edits, clause_words, on_one_line};
    use crate::lex::Span;

    #[test]
    fn edits_are_applied_to_a_part_of_the_text() {
        let text = "select a, b from t";
        let mut edits = Edits::default();
        edits.replace(Span::new(17, 18), "public.t");
        edits.insert_behind(Span::new(10, 11), " AS c");
        edits.replace(Span::new(7, 8), "x");
        assert_eq!(edits.apply(text, Span::new(0, 18)), "select x, b AS c from public.t");
        assert_eq!(edits.apply(text, Span::new(7, 11)), "x, b AS c");
    }

    #[test]
    fn spaces_and_comments_become_single_spaces() {
        let text = "  select /* a */ 'b  c',\n\t1+2 -- d\n from t";
        assert_eq!(on_one_line(text).unwrap(), "select 'b  c', 1+2 from t");
    }

    #[test]
    fn a_clause_is_named_with_keywords_in_upper_case() {
        assert_eq!(clause_words("exclude using gist (b  with =)"), "EXCLUDE USING gist (b WITH =)");
        assert_eq!(clause_words("enable trigger all"), "ENABLE TRIGGER all");
    }
}
