//! Texts with several statements.

use syntax::lex::{Keyword, Lexeme, Lexer, Token, value};

/// Returns the tokens of a text, up to its end or the first that is malformed.
fn tokens(text: &str) -> Vec<Token> {
    scanned(text).0
}

/// Returns the tokens of a text up to its end or the first that is malformed, and whether the end was reached.
fn scanned(text: &str) -> (Vec<Token>, bool) {
    let mut lexer = Lexer::new(text);
    let mut tokens = Vec::new();
    loop {
        match lexer.next_token() {
            Ok(token) if token.lexeme == Lexeme::End => return (tokens, true),
            Ok(token) if token.lexeme != Lexeme::Broken => tokens.push(token),
            Ok(_) | Err(_) => return (tokens, false),
        }
    }
}

/// Returns the lexemes of a text, up to its end or the first that is malformed.
pub(crate) fn lexemes(text: &str) -> impl Iterator<Item = Lexeme> {
    tokens(text).into_iter().map(|token| token.lexeme)
}

/// Splits a text into its statements, without the semicolons between them. As in psql, the semicolons of a body
/// `BEGIN ATOMIC … END` and those in parentheses end no statement. What the scanner does not understand is left to the
/// server: it is part of the last statement.
pub(crate) fn statements(text: &str) -> Vec<&str> {
    let mut all = Vec::new();
    let mut depths = Depths::default();
    let mut begin = None;
    let (mut end, mut behind) = (0, 0);
    let (tokens, is_whole) = scanned(text);
    for token in tokens {
        if token.lexeme == Lexeme::Semicolon && depths.are_closed() {
            all.extend(begin.take().and_then(|begin| text.get(begin..end)));
            depths = Depths::default();
            behind = place(text, token).1;
            continue;
        }
        let span = place(text, token);
        begin.get_or_insert(span.0);
        end = span.1;
        depths.enter(token.lexeme);
    }
    let begin = begin.or_else(|| (!is_whole).then_some(behind));
    all.extend(begin.and_then(|begin| text.get(begin..)).map(str::trim).filter(|rest| !rest.is_empty()));
    all
}

/// Returns the first and the last byte of a token.
fn place(text: &str, token: Token) -> (usize, usize) {
    let part = token.span.of(text);
    let begin = (part.as_ptr() as usize).saturating_sub(text.as_ptr() as usize);
    (begin, begin + part.len())
}

/// Nesting of parentheses and bodies in a statement.
#[derive(Debug, Default)]
struct Depths {
    parentheses: usize,
    bodies: usize,
    /// First lexemes of the statement, as many as tell a routine's definition from others.
    head: Vec<Lexeme>,
    last: Option<Lexeme>,
}

/// Number of the first lexemes of a routine's definition.
const HEAD: usize = 4;

impl Depths {
    fn are_closed(&self) -> bool {
        self.parentheses == 0 && self.bodies == 0
    }

    /// Returns true within the definition of a routine. Elsewhere, `BEGIN ATOMIC` may be a column and its label.
    fn is_routine(&self) -> bool {
        use Keyword::{Create, Function, Or, Procedure, Replace};
        let word = |at: usize| match self.head.get(at) {
            Some(Lexeme::Keyword(word)) => Some(*word),
            _ => None,
        };
        let at = if [word(1), word(2)] == [Some(Or), Some(Replace)] { 3 } else { 1 };
        word(0) == Some(Create) && matches!(word(at), Some(Function | Procedure))
    }

    fn enter(&mut self, lexeme: Lexeme) {
        if self.head.len() < HEAD {
            self.head.push(lexeme);
        }
        match lexeme {
            Lexeme::LeftParen => self.parentheses += 1,
            Lexeme::RightParen => self.parentheses = self.parentheses.saturating_sub(1),
            Lexeme::Keyword(Keyword::Atomic)
                if self.last == Some(Lexeme::Keyword(Keyword::Begin)) && self.parentheses == 0 && self.is_routine() =>
            {
                self.bodies += 1;
            }
            Lexeme::Keyword(Keyword::Case) if 0 < self.bodies => self.bodies += 1,
            Lexeme::Keyword(Keyword::End) => self.bodies = self.bodies.saturating_sub(1),
            _ => {}
        }
        self.last = Some(lexeme);
    }
}

/// Returns the module of each `AS 'MODULE', 'ENTRY'` of a text.
pub(crate) fn modules(text: &str) -> Vec<String> {
    let tokens = tokens(text);
    let is_text = |token: &Token| matches!(token.lexeme, Lexeme::Text | Lexeme::EscapeText | Lexeme::DollarText);
    tokens
        .windows(4)
        .filter_map(|window| match window {
            [word, module, comma, entry]
                if word.lexeme == Lexeme::Keyword(Keyword::As)
                    && is_text(module)
                    && comma.lexeme == Lexeme::Comma
                    && is_text(entry) =>
            {
                value::string(text, *module).ok()
            }
            _ => None,
        })
        .collect()
}

/// Returns true if a text has a routine with this `LANGUAGE`.
pub(crate) fn has_language(text: &str, language: &str) -> bool {
    let named = |token: Token| match token.lexeme {
        Lexeme::Text | Lexeme::EscapeText | Lexeme::DollarText => value::string(text, token).ok(),
        _ => value::name(text, token).ok().map(|(name, _)| name.into()),
    };
    tokens(text).windows(2).any(|window| match window {
        [word, name] => word.lexeme == Lexeme::Keyword(Keyword::Language) && named(*name).as_deref() == Some(language),
        _ => false,
    })
}

/// Returns a name in quotes.
pub(crate) fn quoted_name(name: &str) -> String {
    format!("\"{}\"", name.replace('"', "\"\""))
}

/// Returns a text as a literal.
pub(crate) fn literal(text: &str) -> String {
    // A backslash means itself whatever the setting standard_conforming_strings is.
    let prefix = if text.contains('\\') { "E" } else { "" };
    format!("{prefix}'{}'", text.replace('\\', "\\\\").replace('\'', "''"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn statements_end_where_psql_ends_them() {
        let text = "-- a; comment\nSELECT ';' ;;\nCREATE FUNCTION f() RETURNS int BEGIN ATOMIC SELECT CASE WHEN true THEN 1 END; END;\
                    BEGIN; SELECT (1;2); SELECT $$;$$ -- last\n";
        let expected = [
            "SELECT ';'",
            "CREATE FUNCTION f() RETURNS int BEGIN ATOMIC SELECT CASE WHEN true THEN 1 END; END",
            "BEGIN",
            "SELECT (1;2)",
            "SELECT $$;$$ -- last",
        ];
        assert_eq!(statements(text), expected);
        assert_eq!(statements("SELECT 1; SELECT 'open"), ["SELECT 1", "SELECT 'open"]);
        for open in ["/* open", "$$open", "'open", "\"open"] {
            assert_eq!(statements(&format!("SELECT 1; {open}")), ["SELECT 1", open]);
        }
        assert_eq!(statements(" ; -- nothing"), [""; 0]);
        let columns = "SELECT begin atomic FROM t; CREATE VIEW v AS SELECT begin atomic FROM t; SELECT 1";
        assert_eq!(statements(columns).len(), 3);
        let replaced = "CREATE OR REPLACE PROCEDURE p() BEGIN ATOMIC SELECT 1; SELECT 2; END; SELECT 1";
        assert_eq!(statements(replaced).len(), 2);
    }

    #[test]
    fn modules_are_found_in_signatures() {
        let text = "CREATE PROCEDURE p() LANGUAGE wasm AS 'bank', 'p'; -- AS 'no', 'no'\n\
                    CREATE FUNCTION f() RETURNS int LANGUAGE exec AS $$b'k$$, 'f'; SELECT 'x' AS y, 'z'";
        assert_eq!(modules(text), ["bank", "b'k"]);
    }

    #[test]
    fn languages_are_found_in_signatures() {
        for text in ["LANGUAGE Wasm AS 'm', 'f'", "language 'wasm'", "LANGUAGE exec; CREATE LANGUAGE \"wasm\""] {
            assert!(has_language(text, "wasm"), "{text}");
        }
        assert!(!has_language("LANGUAGE exec -- LANGUAGE wasm\n 'LANGUAGE wasm'", "wasm"));
    }

    #[test]
    fn texts_are_quoted() {
        assert_eq!(literal("it's"), "'it''s'");
        assert_eq!(literal("a\\b"), "E'a\\\\b'");
        assert_eq!(quoted_name("a\"b"), "\"a\"\"b\"");
    }
}
