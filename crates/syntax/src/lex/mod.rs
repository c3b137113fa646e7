//! Tokens of a text, as PostgreSQL's scanner makes them (`src/backend/parser/scan.l`).
//!
//! **Invariant:** a token consists of its kind and its place; the value of a literal or a name is read when it is
//! needed ([`value`]). So a text is read once, and nothing is allocated for a token.

mod keyword;
mod scan;
mod span;
pub mod value;

pub use keyword::{Keyword, KeywordCategory};
pub use scan::Lexer;
pub use span::Span;

/// Kind of a token.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Lexeme {
    /// Name without quotes that is no keyword.
    Word,
    /// Name in quotes.
    Quoted,
    /// Name in quotes with Unicode escapes: `U&"…"`.
    UnicodeQuoted,
    /// Keyword.
    Keyword(Keyword),
    /// Keyword that the next one makes a part of an operator or a clause, and no name: `NOT` before `IN`, `NULLS`
    /// before `FIRST`, `WITH` before `TIME` (`NOT_LA`, `NULLS_LA`, `WITH_LA` of PostgreSQL's grammar).
    Joined(Keyword),
    /// Digits.
    Integer,
    /// Number with a point or an exponent.
    Decimal,
    /// `'…'`
    Text,
    /// `E'…'`
    EscapeText,
    /// `U&'…'`
    UnicodeText,
    /// `$tag$…$tag$`
    DollarText,
    /// `B'…'`
    Bits,
    /// `X'…'`
    Hex,
    /// `$1`
    Parameter,
    /// Operator without a kind of its own.
    Operator,
    /// `<`
    Less,
    /// `>`
    Greater,
    /// `=`
    Equal,
    /// `<=`
    LessEqual,
    /// `>=`
    GreaterEqual,
    /// `<>` or `!=`
    NotEqual,
    /// `+`
    Plus,
    /// `-`
    Minus,
    /// `*`
    Star,
    /// `/`
    Slash,
    /// `%`
    Percent,
    /// `^`
    Caret,
    /// `(`
    LeftParen,
    /// `)`
    RightParen,
    /// `[`
    LeftBracket,
    /// `]`
    RightBracket,
    /// `,`
    Comma,
    /// `;`
    Semicolon,
    /// `.`
    Dot,
    /// `..`
    DotDot,
    /// `:`
    Colon,
    /// `::`
    TypeCast,
    /// `:=`
    ColonEquals,
    /// `=>`
    EqualsGreater,
    /// Character that begins no token.
    Other,
    /// Beginning of a token that has no end, or is malformed: [`Lexer::error`] returns the error.
    Broken,
    /// End of the text.
    End,
}

/// Token of a text.
#[derive(Clone, Copy, Debug)]
pub struct Token {
    /// Kind of the token.
    pub lexeme: Lexeme,
    /// Place of the token.
    pub span: Span,
}

/// Returns the place of the first parameter of a text, `$1`, if there is one.
pub fn first_parameter(text: &str) -> Option<Span> {
    let mut lexer = Lexer::new(text);
    loop {
        let token = lexer.next_token().ok()?;
        match token.lexeme {
            Lexeme::Parameter => return Some(token.span),
            Lexeme::End | Lexeme::Broken => return None,
            _ => {}
        }
    }
}
