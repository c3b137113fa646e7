//! Names of types, and literals of a type.

use super::Parser;
use crate::ast::{CastStyle, Constant, Expr, ExprKind, IntervalFields, Name, ObjectName, TypeName};
use crate::lex::{Keyword, Lexeme, Span};
use statement::error::SqlResult;

impl Parser<'_> {
    /// Parses a type with its modifiers: `Typename`.
    pub(super) fn type_name(&mut self) -> SqlResult<TypeName> {
        let from = self.token.span;
        let is_set = self.eat_word(Keyword::Setof)?;
        let mut name = self.simple_type()?;
        name.is_set = is_set;
        if self.eat_word(Keyword::Array)? {
            let bound = match self.eat(Lexeme::LeftBracket)? {
                true => {
                    let bound = self.integer()?;
                    self.expect(Lexeme::RightBracket)?;
                    Some(bound)
                }
                false => None,
            };
            name.dimensions.push(bound);
        } else {
            while self.eat(Lexeme::LeftBracket)? {
                let bound = if self.is(Lexeme::RightBracket) { None } else { Some(self.integer()?) };
                self.expect(Lexeme::RightBracket)?;
                name.dimensions.push(bound);
            }
        }
        name.span = self.since(from);
        Ok(name)
    }

    /// Returns true if a token may begin a type without `SETOF`.
    pub(super) fn begins_type(lexeme: Lexeme) -> bool {
        match lexeme {
            Lexeme::Keyword(word) if is_type_word(word) => true,
            lexeme => Self::is_function_name(lexeme),
        }
    }

    /// Parses a type that is no array: `SimpleTypename`.
    fn simple_type(&mut self) -> SqlResult<TypeName> {
        let from = self.token.span;
        if let Lexeme::Keyword(word) = self.token.lexeme
            && is_type_word(word)
        {
            return self.builtin_type(true);
        }
        if !Self::is_function_name(self.token.lexeme) {
            return Err(self.unexpected());
        }
        if self.is_word(Keyword::Double) && self.ahead(1)? == Lexeme::Keyword(Keyword::Precision) {
            return self.builtin_type(true);
        }
        let token = self.next()?;
        let mut parts = vec![self.name_of(token)?];
        while self.eat(Lexeme::Dot)? {
            parts.push(self.label()?);
        }
        let mut made = made(ObjectName { parts }, from);
        if self.is(Lexeme::LeftParen) {
            self.next()?;
            made.modifiers = self.exprs()?;
            self.expect(Lexeme::RightParen)?;
        } else if 1 < made.name.parts.len()
            && self.is(Lexeme::Percent)
            && self.ahead(1)? == Lexeme::Keyword(Keyword::Type)
        {
            self.next()?;
            self.next()?;
            made.is_of_column = true;
        }
        made.span = self.since(from);
        Ok(made)
    }

    /// Parses a type with a syntax of its own, at the current token. `takes_default` is true where `character` without
    /// a length has one character.
    fn builtin_type(&mut self, takes_default: bool) -> SqlResult<TypeName> {
        let token = self.next()?;
        let from = token.span;
        let Lexeme::Keyword(word) = token.lexeme else { return Err(self.unexpected()) };
        let system = |text: &str| {
            let parts = ["pg_catalog", text].map(|text| Name { text: text.into(), span: from }).into();
            let mut named = made(ObjectName { parts }, from);
            named.is_builtin = true;
            named
        };
        let mut named = match word {
            Keyword::Int | Keyword::Integer => system("int4"),
            Keyword::Smallint => system("int2"),
            Keyword::Bigint => system("int8"),
            Keyword::Real => system("float4"),
            Keyword::Boolean => system("bool"),
            Keyword::Double => {
                self.expect_word(Keyword::Precision)?;
                system("float8")
            }
            Keyword::Float => {
                let at = self.ahead(1).map(|_| self.token.span)?;
                match self.is(Lexeme::LeftParen) {
                    false => system("float8"),
                    true => match self.integer_in_parens()? {
                        ..=0 => {
                            return Err(self.invalid_precision("precision for type float must be at least 1 bit", at));
                        }
                        1..=24 => system("float4"),
                        25..=53 => system("float8"),
                        _ => {
                            return Err(
                                self.invalid_precision("precision for type float must be less than 54 bits", at)
                            );
                        }
                    },
                }
            }
            Keyword::Dec | Keyword::Decimal | Keyword::Numeric => {
                let mut named = system("numeric");
                named.modifiers = self.modifiers()?;
                named
            }
            Keyword::Bit => {
                let is_varying = self.eat_word(Keyword::Varying)?;
                let mut named = system(if is_varying { "varbit" } else { "bit" });
                named.modifiers = self.modifiers()?;
                // Without a length the type has one bit, unless any length is meant.
                if named.modifiers.is_empty() && !is_varying && takes_default {
                    named.modifiers = vec![one(from)];
                }
                named
            }
            Keyword::Varchar => {
                let mut named = system("varchar");
                named.modifiers = self.length()?;
                named
            }
            Keyword::Character | Keyword::Char | Keyword::Nchar | Keyword::National => {
                if word == Keyword::National && !self.eat_word(Keyword::Character)? {
                    self.expect_word(Keyword::Char)?;
                }
                let is_varying = self.eat_word(Keyword::Varying)?;
                let mut named = system(if is_varying { "varchar" } else { "bpchar" });
                named.modifiers = self.length()?;
                if named.modifiers.is_empty() && !is_varying && takes_default {
                    named.modifiers = vec![one(from)];
                }
                named
            }
            Keyword::Time | Keyword::Timestamp => {
                let precision = self.length()?;
                let has_zone = self.time_zone()?;
                let mut named = system(match (word, has_zone) {
                    (Keyword::Time, false) => "time",
                    (Keyword::Time, true) => "timetz",
                    (_, false) => "timestamp",
                    (_, true) => "timestamptz",
                });
                named.modifiers = precision;
                named
            }
            Keyword::Interval => {
                let mut named = system("interval");
                match self.is(Lexeme::LeftParen) {
                    true => named.modifiers = self.length()?,
                    false => (named.fields, named.modifiers) = self.interval_fields()?,
                }
                named
            }
            _ => return Err(self.unexpected()),
        };
        named.span = self.since(from);
        Ok(named)
    }

    fn invalid_precision(&self, message: &str, at: Span) -> statement::SqlError {
        statement::SqlError::new(statement::SqlState::INVALID_PARAMETER_VALUE, message).at(at.position(self.text))
    }

    /// Parses `WITH TIME ZONE` or `WITHOUT TIME ZONE`, if they are there.
    fn time_zone(&mut self) -> SqlResult<bool> {
        let has_zone = self.is(Lexeme::Joined(Keyword::With)) && self.ahead(1)? == Lexeme::Keyword(Keyword::Time);
        let has_none = self.is_word(Keyword::Without) && self.ahead(1)? == Lexeme::Keyword(Keyword::Time);
        if has_zone || has_none {
            self.next()?;
            self.expect_words(&[Keyword::Time, Keyword::Zone])?;
            return Ok(has_zone);
        }
        Ok(false)
    }

    /// Parses modifiers in parentheses, if there are any.
    fn modifiers(&mut self) -> SqlResult<Vec<Expr>> {
        if !self.eat(Lexeme::LeftParen)? {
            return Ok(Vec::new());
        }
        let all = self.exprs()?;
        self.expect(Lexeme::RightParen)?;
        Ok(all)
    }

    /// Parses a length or precision in parentheses, if there is one.
    fn length(&mut self) -> SqlResult<Vec<Expr>> {
        if !self.is(Lexeme::LeftParen) {
            return Ok(Vec::new());
        }
        self.next()?;
        let from = self.token.span;
        let number = self.integer()?;
        let span = self.since(from);
        self.expect(Lexeme::RightParen)?;
        Ok(vec![Expr { kind: ExprKind::Constant(Constant::Integer(number)), span }])
    }

    /// Parses the fields of an interval, and the precision of its seconds: `opt_interval`.
    pub(super) fn interval_fields(&mut self) -> SqlResult<(Option<IntervalFields>, Vec<Expr>)> {
        let Lexeme::Keyword(first) = self.token.lexeme else { return Ok((None, Vec::new())) };
        if !matches!(
            first,
            Keyword::Year | Keyword::Month | Keyword::Day | Keyword::Hour | Keyword::Minute | Keyword::Second
        ) {
            return Ok((None, Vec::new()));
        }
        self.next()?;
        let has_more = !matches!(first, Keyword::Month | Keyword::Second) && self.eat_word(Keyword::To)?;
        if !has_more {
            let precision = if first == Keyword::Second { self.length()? } else { Vec::new() };
            let fields = match first {
                Keyword::Year => IntervalFields::Year,
                Keyword::Month => IntervalFields::Month,
                Keyword::Day => IntervalFields::Day,
                Keyword::Hour => IntervalFields::Hour,
                Keyword::Minute => IntervalFields::Minute,
                _ => IntervalFields::Second,
            };
            return Ok((Some(fields), precision));
        }
        let fields = match (first, self.token.lexeme) {
            (Keyword::Year, Lexeme::Keyword(Keyword::Month)) => IntervalFields::YearToMonth,
            (Keyword::Day, Lexeme::Keyword(Keyword::Hour)) => IntervalFields::DayToHour,
            (Keyword::Day, Lexeme::Keyword(Keyword::Minute)) => IntervalFields::DayToMinute,
            (Keyword::Day, Lexeme::Keyword(Keyword::Second)) => IntervalFields::DayToSecond,
            (Keyword::Hour, Lexeme::Keyword(Keyword::Minute)) => IntervalFields::HourToMinute,
            (Keyword::Hour, Lexeme::Keyword(Keyword::Second)) => IntervalFields::HourToSecond,
            (Keyword::Minute, Lexeme::Keyword(Keyword::Second)) => IntervalFields::MinuteToSecond,
            _ => return Err(self.unexpected()),
        };
        let to_second = self.is_word(Keyword::Second);
        self.next()?;
        let precision = if to_second { self.length()? } else { Vec::new() };
        Ok((Some(fields), precision))
    }

    /// Returns true if the word at the current token begins the literal of a type, and is not the name of a column.
    pub(super) fn begins_type_literal(&mut self, word: Keyword) -> SqlResult<bool> {
        let next = self.ahead(1)?;
        let follows = |words: &[Keyword]| matches!(next, Lexeme::Keyword(word) if words.contains(&word));
        Ok(match word {
            Keyword::Double => follows(&[Keyword::Precision]),
            word if !is_type_word(word) => false,
            _ if Self::is_text(next) => true,
            Keyword::National => follows(&[Keyword::Character, Keyword::Char]),
            Keyword::Bit | Keyword::Character | Keyword::Char | Keyword::Nchar => {
                next == Lexeme::LeftParen || follows(&[Keyword::Varying])
            }
            Keyword::Time | Keyword::Timestamp => {
                let has_none = follows(&[Keyword::Without]);
                next == Lexeme::LeftParen
                    || (next == Lexeme::Joined(Keyword::With) || has_none)
                        && self.ahead(2)? == Lexeme::Keyword(Keyword::Time)
            }
            Keyword::Interval
            | Keyword::Varchar
            | Keyword::Numeric
            | Keyword::Decimal
            | Keyword::Dec
            | Keyword::Float => next == Lexeme::LeftParen,
            _ => false,
        })
    }

    /// Parses a literal of a type with a syntax of its own, at the current token: `ConstTypename Sconst`.
    pub(super) fn literal_of_type(&mut self) -> SqlResult<Expr> {
        let from = self.token.span;
        let is_interval = self.is_word(Keyword::Interval);
        let mut to = match is_interval && Self::is_text(self.ahead(1)?) {
            // The fields of an interval stand after its text.
            true => {
                let span = self.next()?.span;
                let parts = ["pg_catalog", "interval"].map(|text| Name { text: text.into(), span }).into();
                TypeName { is_builtin: true, ..made(ObjectName { parts }, span) }
            }
            false => self.builtin_type(false)?,
        };
        let text_from = self.token.span;
        let text = self.text()?;
        let value = Expr { kind: ExprKind::Constant(Constant::Text(text)), span: self.since(text_from) };
        if is_interval && to.modifiers.is_empty() {
            (to.fields, to.modifiers) = self.interval_fields()?;
        }
        let kind = ExprKind::Cast { value: Box::new(value), to, style: CastStyle::Literal };
        Ok(Expr { kind, span: self.since(from) })
    }

    /// Parses a literal of a type by its name, from the text on.
    pub(super) fn typed_literal(&mut self, name: ObjectName, modifiers: Vec<Expr>, from: Span) -> SqlResult<Expr> {
        let to = TypeName { modifiers, ..made(name, from) };
        let text_from = self.token.span;
        let text = self.text()?;
        let value = Expr { kind: ExprKind::Constant(Constant::Text(text)), span: self.since(text_from) };
        let kind = ExprKind::Cast { value: Box::new(value), to, style: CastStyle::Literal };
        Ok(Expr { kind, span: self.since(from) })
    }
}

fn made(name: ObjectName, span: Span) -> TypeName {
    TypeName {
        name,
        is_builtin: false,
        modifiers: Vec::new(),
        fields: None,
        dimensions: Vec::new(),
        is_set: false,
        is_of_column: false,
        span,
    }
}

fn one(span: Span) -> Expr {
    Expr { kind: ExprKind::Constant(Constant::Integer(1)), span }
}

/// Returns true if a type with a syntax of its own begins with this word. (`DOUBLE` begins one only before
/// `PRECISION`.)
fn is_type_word(word: Keyword) -> bool {
    matches!(
        word,
        Keyword::Int
            | Keyword::Integer
            | Keyword::Smallint
            | Keyword::Bigint
            | Keyword::Real
            | Keyword::Boolean
            | Keyword::Float
            | Keyword::Dec
            | Keyword::Decimal
            | Keyword::Numeric
            | Keyword::Bit
            | Keyword::Varchar
            | Keyword::Character
            | Keyword::Char
            | Keyword::Nchar
            | Keyword::National
            | Keyword::Time
            | Keyword::Timestamp
            | Keyword::Interval
    )
}
