//! The scanner.

use super::{Keyword, Lexeme, Span, Token, value};
use statement::error::{SqlError, SqlResult, SqlState};
use statement::pulse::{self, SLICE};

/// Units of work for each byte.
const BYTE: usize = 2;
/// Units of work for each token.
const TOKEN: usize = 8;
/// Least length that no operator has (`NAMEDATALEN`).
const OPERATOR_MAX: usize = 64;

/// Scanner that reads the tokens of a text, one after another.
#[derive(Clone, Debug)]
pub struct Lexer<'t> {
    text: &'t str,
    at: usize,
    error: Option<SqlError>,
}

/// Message about a token that has no end, or is malformed.
type TokenError = &'static str;

impl<'t> Lexer<'t> {
    /// Creates a lexer at the beginning of a text.
    pub fn new(text: &'t str) -> Lexer<'t> {
        Lexer { text, at: 0, error: None }
    }

    /// Creates a lexer at a byte of a text at which a token begins.
    pub(super) fn at(text: &'t str, at: usize) -> Lexer<'t> {
        Lexer { text, at, error: None }
    }

    /// Reads the token that begins here, without a `UESCAPE` after it.
    pub(super) fn read_alone(&mut self) -> SqlResult<Token> {
        let start = self.at;
        let lexeme = self.read()?.unwrap_or(Lexeme::Broken);
        Ok(Token { lexeme, span: Span::new(start, self.at) })
    }

    /// Returns the text.
    pub fn text(&self) -> &'t str {
        self.text
    }

    /// Returns the error of the last [`Lexeme::Broken`].
    pub fn error(&self) -> Option<&SqlError> {
        self.error.as_ref()
    }

    /// Returns the next token; at the end, and after it, [`Lexeme::End`].
    ///
    /// # Errors
    /// `57014`
    pub fn next_token(&mut self) -> SqlResult<Token> {
        let mut start = self.at;
        let read = match self.skip_blanks()? {
            Ok(()) => {
                start = self.at;
                self.read()?
            }
            Err((comment, what)) => {
                start = comment.max(start);
                Err(what)
            }
        };
        pulse::tick(TOKEN)?;
        let lexeme = match read {
            Ok(lexeme @ (Lexeme::UnicodeText | Lexeme::UnicodeQuoted)) => return self.with_escape(lexeme, start),
            Ok(lexeme) => lexeme,
            Err(what) => {
                let near = &self.text[start..self.at];
                let error = SqlError::new(SqlState::SYNTAX_ERROR, format!("{what} at or near \"{near}\""));
                self.error = Some(error.at(Span::new(start, start).position(self.text)));
                Lexeme::Broken
            }
        };
        Ok(Token { lexeme, span: Span::new(start, self.at) })
    }

    /// Reads the `UESCAPE` after a text or name with Unicode escapes, if there is one.
    fn with_escape(&mut self, lexeme: Lexeme, start: usize) -> SqlResult<Token> {
        let behind = self.at;
        if self.next_token()?.lexeme != Lexeme::Keyword(Keyword::Uescape) {
            (self.at, self.error) = (behind, None);
            return Ok(Token { lexeme, span: Span::new(start, behind) });
        }
        let escape = self.next_token()?;
        let lexeme = match value::escape_of(self.text, escape) {
            _ if escape.lexeme == Lexeme::Broken => Lexeme::Broken,
            Ok(_) => lexeme,
            Err(error) => {
                self.error = Some(error);
                Lexeme::Broken
            }
        };
        Ok(Token { lexeme, span: Span::new(start, self.at) })
    }

    /// Returns the byte that is `ahead` bytes on; 0 after the end.
    fn peek(&self, ahead: usize) -> u8 {
        self.text.as_bytes().get(self.at + ahead).copied().unwrap_or(0)
    }

    /// Skips bytes while the condition holds.
    fn skip(&mut self, is_such: impl Fn(u8) -> bool) -> SqlResult<()> {
        let rest = &self.text.as_bytes()[self.at..];
        for slice in rest.chunks(SLICE) {
            let length = slice.iter().position(|byte| !is_such(*byte)).unwrap_or(slice.len());
            pulse::tick(length * BYTE)?;
            self.at += length;
            if length < slice.len() {
                break;
            }
        }
        Ok(())
    }

    /// Skips to after the next one of these bytes. False if there is none, so that the end of the text is reached.
    fn skip_behind(&mut self, wanted: u8) -> SqlResult<bool> {
        self.skip(|byte| byte != wanted)?;
        let is_there = self.at < self.text.len();
        self.at += usize::from(is_there);
        Ok(is_there)
    }

    /// Skips blanks and comments. A comment without an end is reported with its beginning.
    fn skip_blanks(&mut self) -> SqlResult<Result<(), (usize, TokenError)>> {
        loop {
            match (self.peek(0), self.peek(1)) {
                (b' ' | b'\t' | b'\n' | b'\r' | b'\x0c', _) => self.skip(is_space)?,
                (b'-', b'-') => self.skip(|byte| !matches!(byte, b'\n' | b'\r'))?,
                (b'/', b'*') => {
                    let start = self.at;
                    if !self.skip_comment()? {
                        return Ok(Err((start, "unterminated /* comment")));
                    }
                }
                _ => return Ok(Ok(())),
            }
        }
    }

    /// Skips a comment, which may contain others. False if it has no end.
    fn skip_comment(&mut self) -> SqlResult<bool> {
        let mut open = 0_usize;
        loop {
            match (self.peek(0), self.peek(1)) {
                (b'/', b'*') => {
                    open += 1;
                    self.at += 2;
                }
                (b'*', b'/') => {
                    open -= 1;
                    self.at += 2;
                    if open == 0 {
                        return Ok(true);
                    }
                }
                _ if self.at == self.text.len() => return Ok(false),
                _ => {
                    self.at += 1;
                    self.skip(|byte| !matches!(byte, b'/' | b'*'))?;
                }
            }
        }
    }

    /// Reads the token that begins here.
    fn read(&mut self) -> SqlResult<Result<Lexeme, TokenError>> {
        let first = self.peek(0);
        let quoted = self.peek(1) == b'\'';
        Ok(match first {
            b'\'' => self.text_in_quotes(1, "unterminated quoted string", false)?.map(|()| Lexeme::Text),
            b'e' | b'E' if quoted => {
                self.text_in_quotes(2, "unterminated quoted string", true)?.map(|()| Lexeme::EscapeText)
            }
            b'b' | b'B' if quoted => {
                self.text_in_quotes(2, "unterminated bit string literal", false)?.map(|()| Lexeme::Bits)
            }
            b'x' | b'X' if quoted => {
                self.text_in_quotes(2, "unterminated hexadecimal string literal", false)?.map(|()| Lexeme::Hex)
            }
            // `N'text'` is `nchar 'text'`: the literal is a token of its own.
            b'n' | b'N' if quoted => {
                self.at += 1;
                Ok(Lexeme::Keyword(Keyword::Nchar))
            }
            b'u' | b'U' if self.peek(1) == b'&' && self.peek(2) == b'\'' => {
                self.text_in_quotes(3, "unterminated quoted string", false)?.map(|()| Lexeme::UnicodeText)
            }
            b'u' | b'U' if self.peek(1) == b'&' && self.peek(2) == b'"' => {
                self.name_in_quotes(3)?.map(|()| Lexeme::UnicodeQuoted)
            }
            b'"' => self.name_in_quotes(1)?.map(|()| Lexeme::Quoted),
            b'$' if self.peek(1).is_ascii_digit() => self.parameter()?,
            b'$' => self.dollar_text()?,
            b'0'..=b'9' => self.number()?,
            b'.' if self.peek(1).is_ascii_digit() => self.number()?,
            _ if begins_name(first) => {
                let start = self.at;
                self.skip(continues_name)?;
                Ok(Keyword::of(&self.text[start..self.at]).map_or(Lexeme::Word, Lexeme::Keyword))
            }
            _ if is_operator(first) => self.operator()?,
            0 if self.at == self.text.len() => Ok(Lexeme::End),
            _ => Ok(self.sign(first)),
        })
    }

    /// Reads a literal whose quote is `before` bytes on. Literals with only blanks between them, a line break among
    /// these, are one.
    fn text_in_quotes(&mut self, before: usize, open: TokenError, escapes: bool) -> SqlResult<Result<(), TokenError>> {
        self.at += before;
        loop {
            if escapes {
                self.skip(|byte| !matches!(byte, b'\'' | b'\\'))?;
                if self.peek(0) == b'\\' && self.at + 1 < self.text.len() {
                    // The escaped character may have several bytes.
                    self.at = self.text.ceil_char_boundary(self.at + 2);
                    continue;
                }
            }
            if !self.skip_behind(b'\'')? {
                return Ok(Err(open));
            }
            if self.peek(0) == b'\'' {
                self.at += 1;
                continue;
            }
            if !self.continues()? {
                return Ok(Ok(()));
            }
        }
    }

    /// Skips to after the quote with which a literal goes on, if one does.
    fn continues(&mut self) -> SqlResult<bool> {
        let behind = self.at;
        let mut has_line = false;
        loop {
            match (self.peek(0), self.peek(1)) {
                (b'\n' | b'\r', _) => {
                    has_line = true;
                    self.at += 1;
                }
                (b' ' | b'\t' | b'\x0c', _) => self.at += 1,
                (b'-', b'-') => self.skip(|byte| !matches!(byte, b'\n' | b'\r'))?,
                (b'\'', _) if has_line => {
                    self.at += 1;
                    return Ok(true);
                }
                _ => {
                    self.at = behind;
                    return Ok(false);
                }
            }
        }
    }

    /// Reads a name in quotes, whose quote is `before - 1` bytes on.
    fn name_in_quotes(&mut self, before: usize) -> SqlResult<Result<(), TokenError>> {
        self.at += before;
        let start = self.at;
        loop {
            if !self.skip_behind(b'"')? {
                return Ok(Err("unterminated quoted identifier"));
            }
            if self.peek(0) != b'"' {
                let is_empty = self.at == start + 1;
                return Ok(if is_empty { Err("zero-length delimited identifier") } else { Ok(()) });
            }
            self.at += 1;
        }
    }

    fn parameter(&mut self) -> SqlResult<Result<Lexeme, TokenError>> {
        self.at += 1;
        self.skip(|byte| byte.is_ascii_digit())?;
        self.without_junk(Lexeme::Parameter, "trailing junk after parameter")
    }

    /// Returns the token, unless a name begins immediately after it.
    fn without_junk(&mut self, lexeme: Lexeme, what: TokenError) -> SqlResult<Result<Lexeme, TokenError>> {
        if !begins_name(self.peek(0)) {
            return Ok(Ok(lexeme));
        }
        self.skip(continues_name)?;
        Ok(Err(what))
    }

    fn number(&mut self) -> SqlResult<Result<Lexeme, TokenError>> {
        let mut lexeme = Lexeme::Integer;
        self.skip(|byte| byte.is_ascii_digit())?;
        // Two points are a token of their own.
        if self.peek(0) == b'.' && self.peek(1) != b'.' {
            lexeme = Lexeme::Decimal;
            self.at += 1;
            self.skip(|byte| byte.is_ascii_digit())?;
        }
        if matches!(self.peek(0), b'e' | b'E') {
            let sign = usize::from(matches!(self.peek(1), b'+' | b'-'));
            if self.peek(1 + sign).is_ascii_digit() {
                lexeme = Lexeme::Decimal;
                self.at += 1 + sign;
                self.skip(|byte| byte.is_ascii_digit())?;
            } else if sign == 1 {
                self.at += 2;
                return Ok(Err("trailing junk after numeric literal"));
            }
        }
        self.without_junk(lexeme, "trailing junk after numeric literal")
    }

    /// Reads a dollar-quoted text, or the dollar alone.
    fn dollar_text(&mut self) -> SqlResult<Result<Lexeme, TokenError>> {
        let start = self.at;
        let tag = &self.text.as_bytes()[start + 1..];
        let is_tag = |byte: &u8| continues_name(*byte) && *byte != b'$';
        let length = tag.iter().take_while(|byte| is_tag(byte)).count();
        pulse::tick(length)?;
        let is_opening = tag.get(length) == Some(&b'$') && !tag.first().is_some_and(u8::is_ascii_digit);
        if !is_opening {
            self.at += 1;
            return Ok(Ok(Lexeme::Other));
        }
        let delimiter = &self.text[start..start + length + 2];
        self.at += delimiter.len();
        loop {
            self.skip(|byte| byte != b'$')?;
            if self.at == self.text.len() {
                return Ok(Err("unterminated dollar-quoted string"));
            }
            if self.text[self.at..].starts_with(delimiter) {
                self.at += delimiter.len();
                return Ok(Ok(Lexeme::DollarText));
            }
            self.at += 1;
        }
    }

    /// Reads an operator. It ends before a comment, and before signs of numbers, unless it has a character that no
    /// operator of standard SQL has: `a>-1` compares, `a@-1` is one operator.
    fn operator(&mut self) -> SqlResult<Result<Lexeme, TokenError>> {
        let start = self.at;
        self.skip(is_operator)?;
        let all = &self.text[start..self.at];
        let comment = ["--", "/*"].iter().filter_map(|comment| all.find(comment)).min();
        let mut own = &all[..comment.unwrap_or(all.len())];
        let is_uncommon = |sign: char| "~!@#^&|`?%".contains(sign);
        while 1 < own.len() && own.ends_with(['+', '-']) && !own[..own.len() - 1].contains(is_uncommon) {
            own = &own[..own.len() - 1];
        }
        self.at = start + own.len();
        Ok(match own {
            "<" => Ok(Lexeme::Less),
            ">" => Ok(Lexeme::Greater),
            "=" => Ok(Lexeme::Equal),
            "+" => Ok(Lexeme::Plus),
            "-" => Ok(Lexeme::Minus),
            "*" => Ok(Lexeme::Star),
            "/" => Ok(Lexeme::Slash),
            "%" => Ok(Lexeme::Percent),
            "^" => Ok(Lexeme::Caret),
            "<=" => Ok(Lexeme::LessEqual),
            ">=" => Ok(Lexeme::GreaterEqual),
            "<>" | "!=" => Ok(Lexeme::NotEqual),
            "=>" => Ok(Lexeme::EqualsGreater),
            own if OPERATOR_MAX <= own.len() => Err("operator too long"),
            _ => Ok(Lexeme::Operator),
        })
    }

    /// Reads a sign that is no operator.
    fn sign(&mut self, first: u8) -> Lexeme {
        let (lexeme, length) = match (first, self.peek(1)) {
            (b'(', _) => (Lexeme::LeftParen, 1),
            (b')', _) => (Lexeme::RightParen, 1),
            (b'[', _) => (Lexeme::LeftBracket, 1),
            (b']', _) => (Lexeme::RightBracket, 1),
            (b',', _) => (Lexeme::Comma, 1),
            (b';', _) => (Lexeme::Semicolon, 1),
            (b'.', b'.') => (Lexeme::DotDot, 2),
            (b'.', _) => (Lexeme::Dot, 1),
            (b':', b':') => (Lexeme::TypeCast, 2),
            (b':', b'=') => (Lexeme::ColonEquals, 2),
            (b':', _) => (Lexeme::Colon, 1),
            _ => (Lexeme::Other, 1),
        };
        self.at += length;
        lexeme
    }
}

fn is_space(byte: u8) -> bool {
    matches!(byte, b' ' | b'\t' | b'\n' | b'\r' | b'\x0c')
}

/// Returns true if a name may begin with this byte. Bytes of characters beyond ASCII all count as letters, as in
/// PostgreSQL.
fn begins_name(byte: u8) -> bool {
    byte.is_ascii_alphabetic() || byte == b'_' || 0x80 <= byte
}

fn continues_name(byte: u8) -> bool {
    begins_name(byte) || byte.is_ascii_digit() || byte == b'$'
}

fn is_operator(byte: u8) -> bool {
    b"~!@#^&|`?+-*/%<>=".contains(&byte)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn split(text: &str) -> String {
        let mut lexer = Lexer::new(text);
        let mut all: Vec<String> = Vec::new();
        loop {
            let token = lexer.next_token().expect("nobody cancels");
            match token.lexeme {
                Lexeme::End => return all.join(" "),
                Lexeme::Broken => {
                    all.push(lexer.error().expect("it is broken").to_string());
                    return all.join(" ");
                }
                _ => all.push(token.span.of(text).to_owned()),
            }
        }
    }

    #[test]
    fn operators_end_where_postgresqls_end() {
        for (text, wanted) in [
            ("1>-1", "1 > - 1"),
            ("1>=-1", "1 >= - 1"),
            ("1<>-1", "1 <> - 1"),
            ("1>>-1", "1 >> - 1"),
            ("1<<-+-1", "1 << - + - 1"),
            ("2>=+1", "2 >= + 1"),
            ("a->-1", "a -> - 1"),
            ("a->>-1", "a ->> - 1"),
            ("1<-1", "1 < - 1"),
            ("1=-1", "1 = - 1"),
            ("2*-1", "2 * - 1"),
            ("1-/*c*/2", "1 - 2"),
            ("1<=/*c*/2", "1 <= 2"),
            ("1>=/**/-1", "1 >= - 1"),
            ("1>-/*c*/1", "1 > - 1"),
            ("1<>--c\n1", "1 <> 1"),
            ("1>--c", "1 >"),
            ("1-/*'*/2-/*\"*/3", "1 - 2 - 3"),
            ("1>/* a /* ' */ - */-é'*/\n'", "1 > - é '*/\n'"),
            ("1>/*\n'\n*/-1", "1 > - 1"),
            ("2^-1", "2 ^- 1"),
            ("1=~1", "1 =~ 1"),
            ("a||-1", "a ||- 1"),
            ("a<->-b", "a <-> - b"),
            ("t.*,a=>-1", "t . * , a => - 1"),
            ("'>-/*'||\">-\"", "'>-/*' || \">-\""),
            ("a==b", "a == b"),
        ] {
            assert_eq!(split(text), wanted, "{text}");
        }
    }

    #[test]
    fn literals_and_names_end_where_postgresqls_end() {
        for (text, wanted) in [
            ("'it''s' e'a\\'b\\é' $$a'b$$ $t$ $$ $x$ $t$", "'it''s' e'a\\'b\\é' $$a'b$$ $t$ $$ $x$ $t$"),
            ("'a'  \n  'b' c", "'a'  \n  'b' c"),
            ("'a' 'b'", "'a' 'b'"),
            ("'a'\n--c\n'b' 'c'", "'a'\n--c\n'b' 'c'"),
            ("\"a\"\"b\" U&\"\\0061\" u&'x' N'y' b'01' X'1f'", "\"a\"\"b\" U&\"\\0061\" u&'x' N 'y' b'01' X'1f'"),
            ("1.5e+3 1e5 .5 1. 1..2 1.e2 a.1", "1.5e+3 1e5 .5 1. 1 .. 2 1.e2 a .1"),
            ("$1 $1,$2::int a$1 a:b a:=1", "$1 $1 , $2 :: int a$1 a : b a := 1"),
            ("123abc", "trailing junk after numeric literal at or near \"123abc\" (SQLSTATE 42601)"),
            ("1e+", "trailing junk after numeric literal at or near \"1e+\" (SQLSTATE 42601)"),
            ("1é2", "trailing junk after numeric literal at or near \"1é2\" (SQLSTATE 42601)"),
            ("$1a", "trailing junk after parameter at or near \"$1a\" (SQLSTATE 42601)"),
            ("a 'b", "a unterminated quoted string at or near \"'b\" (SQLSTATE 42601)"),
            ("a /* b", "a unterminated /* comment at or near \"/* b\" (SQLSTATE 42601)"),
            ("\"\"", "zero-length delimited identifier at or near \"\"\"\" (SQLSTATE 42601)"),
            ("\"a", "unterminated quoted identifier at or near \"\"a\" (SQLSTATE 42601)"),
            ("$$ a $", "unterminated dollar-quoted string at or near \"$$ a $\" (SQLSTATE 42601)"),
            ("b'01", "unterminated bit string literal at or near \"b'01\" (SQLSTATE 42601)"),
            ("a \\ b", "a \\ b"),
        ] {
            assert_eq!(split(text), wanted, "{text}");
        }
    }
}
