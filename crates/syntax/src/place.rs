//! Places in a statement's text, for errors: where a value, an operator or a word stands.
//!
//! **Invariant:** a place costs next to nothing while all is well: it is what the parser's tree says of the leftmost leaf. What
//! the tree does not say (where an operator or a parenthesis stands) is looked for among the text's tokens, which are made
//! again when somebody asks.

use sqlparser::keywords::Keyword;
use sqlparser::tokenizer::{Location, Span, Token, TokenWithSpan};
use statement::error::{SqlError, SqlState};
use std::cell::OnceCell;

/// Where something begins in the statement's text: a line and a column from 1, or nowhere.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Place {
    line: u32,
    column: u32,
    hop: Hop,
}

/// What a place is of the one that the tree says.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Hop {
    #[default]
    Here,
    /// The parenthesis right before it.
    Parenthesis,
    /// The nearest of these words or signs before it.
    Word(&'static [&'static str]),
}

impl Place {
    /// Nobody wrote it.
    pub const NOWHERE: Place = Place { line: 0, column: 0, hop: Hop::Here };

    /// Whether it is one.
    pub fn is_known(self) -> bool {
        self.line != 0
    }

    /// This one, or the other if it is none.
    #[must_use]
    pub fn or(self, other: impl FnOnce() -> Place) -> Place {
        if self.is_known() { self } else { other() }
    }

    fn location(self) -> Location {
        Location { line: self.line.into(), column: self.column.into() }
    }
}

impl From<Place> for Span {
    fn from(place: Place) -> Span {
        Span { start: place.location(), end: place.location() }
    }
}

impl From<Span> for Place {
    fn from(span: Span) -> Place {
        let Location { line, column } = span.start;
        Place { line: line as u32, column: column as u32, hop: Hop::Here }
    }
}

/// A statement's text and, once they are asked for, its tokens without the spaces between them.
pub struct Source<'t> {
    /// Text of the statement.
    pub text: &'t str,
    tokens: OnceCell<Vec<TokenWithSpan>>,
}

impl<'t> Source<'t> {
    /// Source of a text.
    pub fn new(text: &'t str) -> Source<'t> {
        Source { text, tokens: OnceCell::new() }
    }

    fn tokens(&self) -> &[TokenWithSpan] {
        self.tokens.get_or_init(|| {
            let is_space = |token: &TokenWithSpan| matches!(token.token, Token::Whitespace(_) | Token::EOF);
            crate::parse::tokens(self.text).into_iter().filter(|token| !is_space(token)).collect()
        })
    }

    /// Which token is the first from a place on, if the place is known.
    fn first_from(&self, place: Place) -> Option<usize> {
        place.is_known().then(|| {
            let place = self.resolved(place).location();
            self.tokens().partition_point(|token| token.span.start < place)
        })
    }

    /// The tokens before a place, the nearest first.
    fn before(&self, place: Place) -> impl Iterator<Item = &TokenWithSpan> {
        let end = self.first_from(place).unwrap_or(0);
        self.tokens()[..end].iter().rev()
    }

    /// The parenthesis right before a place; the place if there is none.
    pub fn parenthesis(&self, place: Place) -> Place {
        Place { hop: Hop::Parenthesis, ..self.plain(place) }
    }

    /// The nearest of these words, in upper case, or signs before a place; the place if there is none.
    pub fn leading(&self, place: Place, words: &'static [&'static str]) -> Place {
        Place { hop: Hop::Word(words), ..self.plain(place) }
    }

    /// A place that is where the tree says.
    fn plain(&self, place: Place) -> Place {
        if place.hop == Hop::Here { place } else { self.resolved(place) }
    }

    /// The tokens from a place on.
    fn from(&self, place: Place) -> impl Iterator<Item = &TokenWithSpan> {
        let tokens = self.tokens();
        tokens[self.first_from(place).unwrap_or(tokens.len())..].iter()
    }

    fn resolved(&self, place: Place) -> Place {
        let plain = Place { hop: Hop::Here, ..place };
        let found = match place.hop {
            Hop::Here => None,
            Hop::Parenthesis => self.before(plain).next().filter(|token| token.token == Token::LParen),
            Hop::Word(words) => self.before(plain).find(|token| is_one_of(token, words)),
        };
        found.map_or(plain, |found| found.span.into())
    }

    /// The nearest token before a place that is one of these words, in upper case, or signs; nowhere if there is none.
    pub fn word_before(&self, place: Place, words: &[&str]) -> Place {
        self.before(place).find(|token| is_one_of(token, words)).map_or(Place::NOWHERE, |token| token.span.into())
    }

    /// `OPERATOR` of `OPERATOR(schema.+)`, if the place is the operator in it.
    pub fn of_operator(&self, place: Place) -> Place {
        let mut before = self.before(place);
        if before.next().is_none_or(|token| !matches!(token.token, Token::Period | Token::LParen)) {
            return place;
        }
        let found = before.take(3).find(|token| is_one_of(token, &["OPERATOR"]));
        found.map_or(place, |found| found.span.into())
    }

    /// The nearest token from a place on that is one of these.
    pub fn word_after(&self, place: Place, words: &[&str]) -> Place {
        self.from(place).find(|token| is_one_of(token, words)).map_or(Place::NOWHERE, |token| token.span.into())
    }

    /// The places where these words stand side by side.
    pub fn all(&self, words: &[&str]) -> Vec<Place> {
        let tokens = self.tokens();
        let is_it = |tokens: &[TokenWithSpan]| tokens.iter().zip(words).all(|(token, word)| is_one_of(token, &[word]));
        let windows = tokens.windows(words.len()).enumerate().filter(|(_, tokens)| is_it(tokens));
        windows.map(|(at, _)| self.constraint(at)).collect()
    }

    /// The place of a token, or of the `CONSTRAINT name` before it.
    fn constraint(&self, at: usize) -> Place {
        let tokens = self.tokens();
        match at.checked_sub(2).and_then(|before| tokens.get(before)) {
            Some(before) if is_one_of(before, &["CONSTRAINT"]) => before.span.into(),
            _ => tokens[at].span.into(),
        }
    }

    /// As [`Source::word_before`]; if the word is a constraint's with a name, where that begins.
    pub fn constraint_before(&self, place: Place, words: &[&str]) -> Place {
        self.constraint_of(self.word_before(place, words))
    }

    /// The place of this word, or where the constraint begins whose word it is.
    pub fn constraint_of(&self, word: Place) -> Place {
        let at = self.before(word).count();
        if word.is_known() { self.constraint(at) } else { word }
    }

    /// Where something behind a column's name says that it has nulls although it has none, or the other way round: `NULL`,
    /// `NOT NULL`, or an identity, which has none.
    pub fn other_nullness(&self, name: Place) -> Place {
        let is = |token: Option<&TokenWithSpan>, word: &str| token.is_some_and(|token| is_one_of(token, &[word]));
        let mut before: [Option<&TokenWithSpan>; 3] = [None; 3];
        let mut first = None;
        for token in self.from(name) {
            let is_null = is(Some(token), "NULL") && !is(before[0], "DEFAULT");
            if is_null || is(Some(token), "GENERATED") {
                let has_not = is_null && is(before[0], "NOT");
                let takes_nulls = is_null && !has_not;
                if *first.get_or_insert(takes_nulls) != takes_nulls {
                    let named = if has_not { [before[2], before[1]] } else { [before[1], before[0]] };
                    let begin = match named {
                        [Some(word), Some(_)] if is(Some(word), "CONSTRAINT") => word,
                        _ if has_not => before[0].unwrap_or(token),
                        _ => token,
                    };
                    return begin.span.into();
                }
            }
            before = [Some(token), before[0], before[1]];
        }
        Place::NOWHERE
    }

    /// The token behind the one at this place.
    pub fn next(&self, place: Place) -> Place {
        self.from(place).nth(1).map_or(Place::NOWHERE, |token| token.span.into())
    }

    /// The first of the words that stand side by side and lead to a place, parentheses aside: `NOT` of `a NOT LIKE (b)`.
    pub fn words_before(&self, place: Place, words: &[&str]) -> Place {
        let mut tokens = self.before(place).skip_while(|token| !is_one_of(token, words));
        let mut first = Place::NOWHERE;
        for token in tokens.by_ref().take_while(|token| is_one_of(token, words)) {
            first = token.span.into();
        }
        first
    }

    /// The error of the first parameter, where there are none.
    pub fn no_parameter(&self) -> SqlError {
        let first = self.tokens().iter().find_map(|token| match &token.token {
            Token::Placeholder(name) => Some((name, token.span)),
            _ => None,
        });
        let name = first.map_or("$1", |(name, _)| name);
        let error = SqlError::new(SqlState::UNDEFINED_PARAMETER, format!("there is no parameter {name}"));
        self.at(error, first.map_or(Place::NOWHERE, |(_, span)| span.into()))
    }

    /// The error with this place.
    pub fn at(&self, error: SqlError, place: Place) -> SqlError {
        if !place.is_known() || error.is_placed() {
            return error;
        }
        error.at(crate::parse::position(self.text, self.resolved(place).location()))
    }
}

fn is_one_of(token: &TokenWithSpan, words: &[&str]) -> bool {
    match &token.token {
        Token::Word(word) if word.keyword != Keyword::NoKeyword || word.quote_style.is_none() => {
            words.iter().any(|wanted| word.value.eq_ignore_ascii_case(wanted))
        }
        Token::Word(_) | Token::SingleQuotedString(_) => false,
        sign => {
            let sign = sign.to_string();
            words.iter().any(|wanted| *wanted == sign)
        }
    }
}
