//! `DECLARE`, `FETCH` and `MOVE`, read as PostgreSQL's grammar has them: the library knows one order of a cursor's options, no
//! `MOVE`, and no count behind some of the directions.

use super::{Parsed, at_end, near, rewrite};
use sqlparser::ast::{self, Declare, FetchDirection, FetchPosition, Ident, Statement};
use sqlparser::tokenizer::{Token, TokenWithSpan};
use statement::error::{SqlError, SqlResult, SqlState};

/// Stands where a `FETCH` would name a table: it is a `MOVE`.
const MOVE: &str = "move";

/// Whether a `FETCH` is a `MOVE`.
pub fn is_move(into: &ast::ObjectName) -> bool {
    matches!(&into.0[..], [ast::ObjectNamePart::Identifier(name)] if rewrite::mark(name) == Some(MOVE))
}

/// The tokens of a statement that mean something, one after the other.
struct Words<'t> {
    text: &'t str,
    tokens: &'t [TokenWithSpan],
    at: usize,
}

impl<'t> Words<'t> {
    fn new(text: &'t str, tokens: &'t [TokenWithSpan]) -> Words<'t> {
        Words { text, tokens, at: 0 }
    }

    /// Where the next one stands.
    fn place(&self) -> usize {
        let is_said = |token: &TokenWithSpan| !matches!(token.token, Token::Whitespace(_) | Token::EOF);
        self.tokens[self.at..].iter().position(is_said).map_or(self.tokens.len(), |more| self.at + more)
    }

    fn peek(&self) -> Option<&'t TokenWithSpan> {
        self.tokens.get(self.place())
    }

    fn next(&mut self) -> Option<&'t TokenWithSpan> {
        let place = self.place();
        self.at = (place + 1).min(self.tokens.len());
        self.tokens.get(place)
    }

    /// Takes the next one if it is one of these words.
    fn take(&mut self, words: &[&'static str]) -> Option<&'static str> {
        let next = self.peek()?;
        let found = words.iter().copied().find(|word| rewrite::is_word(next, word))?;
        self.next();
        Some(found)
    }

    fn need(&mut self, word: &'static str) -> SqlResult<()> {
        match self.take(&[word]) {
            Some(_) => Ok(()),
            None => Err(self.near()),
        }
    }

    fn near(&self) -> SqlError {
        near(self.text, self.peek())
    }

    fn name(&mut self) -> SqlResult<Ident> {
        match self.peek() {
            Some(TokenWithSpan { token: Token::Word(word), span })
                if word.quote_style.is_some() || !super::is_reserved(&word.value) =>
            {
                self.next();
                Ok(word.clone().into_ident(*span))
            }
            _ => Err(self.near()),
        }
    }

    /// A number with a sign, if there stands one.
    fn number(&mut self) -> SqlResult<Option<ast::ValueWithSpan>> {
        let begin = self.at;
        let sign = match self.peek().map(|token| &token.token) {
            Some(Token::Minus) => "-",
            Some(Token::Plus) => "+",
            _ => "",
        };
        if !sign.is_empty() {
            self.next();
        }
        match self.peek() {
            Some(TokenWithSpan { token: Token::Number(digits, _), span }) if digits.parse::<u32>().is_ok_and(fits) => {
                self.next();
                let digits = if sign == "-" { format!("-{digits}") } else { digits.clone() };
                Ok(Some(ast::ValueWithSpan { value: ast::Value::Number(digits, false), span: *span }))
            }
            _ if sign.is_empty() => {
                self.at = begin;
                Ok(None)
            }
            _ => Err(self.near()),
        }
    }

    /// Whether the statement ends here.
    fn is_over(&self) -> bool {
        self.peek().is_none()
    }
}

fn fits(count: u32) -> bool {
    i32::try_from(count).is_ok()
}

/// A `FETCH` or a `MOVE`, if it is one.
///
/// # Errors
/// `42601`
pub(super) fn fetch(text: &str, tokens: &[TokenWithSpan]) -> SqlResult<Option<Statement>> {
    let mut words = Words::new(text, tokens);
    let Some(verb) = words.take(&["fetch", MOVE]) else { return Ok(None) };
    let direction = direction(&mut words)?;
    words.take(&["from", "in"]);
    let name = words.name()?;
    if !words.is_over() {
        return Err(words.near());
    }
    let mark = || ast::ObjectName::from(vec![Ident::with_quote('"', rewrite::marking(MOVE))]);
    let into = (verb == MOVE).then(mark);
    Ok(Some(Statement::Fetch { name, direction, position: FetchPosition::From, into }))
}

fn direction(words: &mut Words<'_>) -> SqlResult<FetchDirection> {
    let begin = words.at;
    let known = ["next", "prior", "first", "last", "absolute", "relative", "all", "forward", "backward"];
    let Some(word) = words.take(&known) else {
        return Ok(match words.number()? {
            Some(limit) => FetchDirection::Count { limit },
            None => FetchDirection::Next,
        });
    };
    if words.is_over() && word != "all" {
        // A cursor may have such a name.
        words.at = begin;
        return Ok(FetchDirection::Next);
    }
    Ok(match word {
        "next" => FetchDirection::Next,
        "prior" => FetchDirection::Prior,
        "first" => FetchDirection::First,
        "last" => FetchDirection::Last,
        "all" => FetchDirection::All,
        "absolute" | "relative" => match words.number()? {
            Some(limit) if word == "absolute" => FetchDirection::Absolute { limit },
            Some(limit) => FetchDirection::Relative { limit },
            None => return Err(words.near()),
        },
        "forward" if words.take(&["all"]).is_some() => FetchDirection::ForwardAll,
        "forward" => FetchDirection::Forward { limit: words.number()? },
        _ if words.take(&["all"]).is_some() => FetchDirection::BackwardAll,
        _ => FetchDirection::Backward { limit: words.number()? },
    })
}

/// If a statement is a `DECLARE`: what it says of the cursor, and the tokens of its query.
///
/// # Errors
/// `42601`; `42P11` for what contradicts itself.
pub(super) fn cut<'t>(text: &str, tokens: &'t [TokenWithSpan]) -> SqlResult<Option<(Declare, &'t [TokenWithSpan])>> {
    let mut words = Words::new(text, tokens);
    if words.take(&["declare"]).is_none() {
        return Ok(None);
    }
    let name = words.name()?;
    let (mut scroll, mut sensitive, mut binary) = (None, None, None);
    let twice =
        |one: &str, other: &str| SqlError::new(SqlState("42P11"), format!("cannot specify both {one} and {other}"));
    while let Some(word) = words.take(&["no", "scroll", "binary", "insensitive", "asensitive"]) {
        match word {
            "no" => {
                words.need("scroll")?;
                if scroll.replace(false) == Some(true) {
                    return Err(twice("SCROLL", "NO SCROLL"));
                }
            }
            "scroll" => {
                if scroll.replace(true) == Some(false) {
                    return Err(twice("SCROLL", "NO SCROLL"));
                }
            }
            "binary" => binary = Some(true),
            word => {
                let is_insensitive = word == "insensitive";
                if sensitive.replace(is_insensitive) == Some(!is_insensitive) {
                    return Err(twice("INSENSITIVE", "ASENSITIVE"));
                }
            }
        }
    }
    words.need("cursor")?;
    let mut hold = None;
    if let Some(word) = words.take(&["with", "without"]) {
        words.need("hold")?;
        hold = Some(word == "with");
    }
    words.need("for")?;
    if words.is_over() {
        return Err(at_end(text));
    }
    let declare_type = Some(ast::DeclareType::Cursor);
    let (data_type, assignment, for_query) = (None, None, None);
    let names = vec![name];
    let declare = Declare { names, data_type, assignment, declare_type, binary, sensitive, scroll, hold, for_query };
    Ok(Some((declare, &tokens[words.place()..])))
}

/// The whole of a `DECLARE` again, around its query.
///
/// # Errors
/// `42601`: it is no query.
pub(super) fn put(text: &str, declare: Declare, query: Statement, tokens: &[TokenWithSpan]) -> SqlResult<Statement> {
    match query {
        Statement::Query(query) => {
            Ok(Statement::Declare { stmts: vec![Declare { for_query: Some(query), ..declare }] })
        }
        _ => Err(Words::new(text, tokens).near()),
    }
}

/// A statement that is no query, and names nothing but a cursor.
pub(super) fn parsed(text: String, tree: Statement) -> Parsed {
    Parsed { tree, text, copy: None, explain: None, notices: Vec::new() }
}
