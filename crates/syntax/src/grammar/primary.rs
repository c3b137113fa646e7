//! Operands: `c_expr` of PostgreSQL's grammar.

use super::Parser;
use crate::ast::{CaseBranch, CastStyle, Constant, Expr, ExprKind, Indirection, Name, ObjectName, Query, SessionValue};
use crate::lex::{Keyword, KeywordCategory, Lexeme, Span, Token, value};
use statement::error::SqlResult;

/// Contents of parentheses.
pub(super) enum ParenthesisedExpr {
    /// Query.
    Query(Box<Query>),
    /// Expression.
    Expr(Expr),
    /// Two or more expressions.
    List(Vec<Expr>),
}

impl Parser<'_> {
    /// Parses an operand.
    pub(super) fn primary(&mut self) -> SqlResult<Expr> {
        let from = self.token.span;
        let kind = match self.token.lexeme {
            Lexeme::Integer | Lexeme::Decimal => {
                let token = self.next()?;
                ExprKind::Constant(self.number_of(token))
            }
            Lexeme::Text
            | Lexeme::EscapeText
            | Lexeme::UnicodeText
            | Lexeme::DollarText
            | Lexeme::Bits
            | Lexeme::Hex => ExprKind::Constant(self.literal()?),
            Lexeme::Parameter => {
                let digits = &self.next()?.span.of(self.text)[1..];
                // PostgreSQL reads the digits by `atol`; no parameter has a number beyond an `int`.
                let number = digits.parse().unwrap_or(i32::MAX);
                let parameter = Expr { kind: ExprKind::Parameter(number), span: self.since(from) };
                return self.with_indirection(parameter);
            }
            Lexeme::LeftParen => {
                let inner = self.parenthesised()?;
                return self.operand_of(inner, from);
            }
            Lexeme::Word | Lexeme::Quoted | Lexeme::UnicodeQuoted => return self.named(),
            Lexeme::Keyword(word) => return self.keyword(word),
            _ => return Err(self.unexpected()),
        };
        Ok(Expr { kind, span: self.since(from) })
    }

    /// Returns the number of a token.
    fn number_of(&self, token: Token) -> Constant {
        let digits = token.span.of(self.text);
        match digits.parse() {
            Ok(number) if token.lexeme == Lexeme::Integer => Constant::Integer(number),
            _ => Constant::Number(digits.into()),
        }
    }

    /// Parses a literal in quotes, at the current token.
    pub(super) fn literal(&mut self) -> SqlResult<Constant> {
        let token = self.next()?;
        let text = value::string(self.text, token)?.into_boxed_str();
        Ok(match token.lexeme {
            Lexeme::Bits => Constant::Bits(text),
            Lexeme::Hex => Constant::Hex(text),
            _ => Constant::Text(text),
        })
    }

    /// Returns true if a token is a text: `Sconst`.
    pub(super) fn is_text(lexeme: Lexeme) -> bool {
        matches!(lexeme, Lexeme::Text | Lexeme::EscapeText | Lexeme::UnicodeText | Lexeme::DollarText)
    }

    /// Parses a text, which must follow.
    pub(super) fn text(&mut self) -> SqlResult<Box<str>> {
        if !Self::is_text(self.token.lexeme) {
            return Err(self.unexpected());
        }
        let token = self.next()?;
        Ok(value::string(self.text, token)?.into_boxed_str())
    }

    /// Parses a number without a sign, which must follow and fit an `integer`: `Iconst`.
    pub(super) fn integer(&mut self) -> SqlResult<i32> {
        let number = match self.token.lexeme {
            Lexeme::Integer => self.token.span.of(self.text).parse().ok(),
            _ => None,
        };
        let Some(number) = number else { return Err(self.unexpected()) };
        self.next()?;
        Ok(number)
    }

    /// Parses an integer in parentheses.
    pub(super) fn integer_in_parens(&mut self) -> SqlResult<i32> {
        self.expect(Lexeme::LeftParen)?;
        let number = self.integer()?;
        self.expect(Lexeme::RightParen)?;
        Ok(number)
    }

    /// Parses the contents of parentheses, at the current token: a query, an expression, or several.
    pub(super) fn parenthesised(&mut self) -> SqlResult<ParenthesisedExpr> {
        if self.begins_query(1)? {
            return Ok(ParenthesisedExpr::Query(Box::new(self.query_in_parens()?)));
        }
        self.expect(Lexeme::LeftParen)?;
        let first = if self.is(Lexeme::LeftParen) {
            let from = self.token.span;
            let operand = match self.within(Self::parenthesised)? {
                // Parentheses around a query belong to the query until something follows that only an expression has.
                ParenthesisedExpr::Query(query) if self.is(Lexeme::RightParen) || self.continues_query() => {
                    let query = self.query_behind(*query)?;
                    self.expect(Lexeme::RightParen)?;
                    return Ok(ParenthesisedExpr::Query(Box::new(query)));
                }
                inner => self.operand_of(inner, from)?,
            };
            self.infixes(operand, 0, false)?
        } else {
            self.expr()?
        };
        if !self.is(Lexeme::Comma) {
            self.expect(Lexeme::RightParen)?;
            return Ok(ParenthesisedExpr::Expr(first));
        }
        let mut all = vec![first];
        while self.eat(Lexeme::Comma)? {
            all.push(self.expr()?);
        }
        self.expect(Lexeme::RightParen)?;
        Ok(ParenthesisedExpr::List(all))
    }

    /// Parses the rest of an operand that began with parentheses.
    fn operand_of(&mut self, inner: ParenthesisedExpr, from: Span) -> SqlResult<Expr> {
        match inner {
            ParenthesisedExpr::Query(query) => {
                let span = self.since(from);
                self.with_indirection(Expr { kind: ExprKind::Subquery(query), span })
            }
            ParenthesisedExpr::Expr(inner) => self.with_indirection(inner),
            ParenthesisedExpr::List(fields) => {
                let kind = ExprKind::Row { fields, is_explicit: false };
                let row = Expr { kind, span: self.since(from) };
                self.overlaps(row)
            }
        }
    }

    /// Parses a query in one or more pairs of parentheses: `select_with_parens`.
    pub(super) fn query_in_parens(&mut self) -> SqlResult<Query> {
        self.within(|parser| {
            parser.expect(Lexeme::LeftParen)?;
            let query = parser.query()?;
            parser.expect(Lexeme::RightParen)?;
            Ok(query)
        })
    }

    /// Parses `(a, b) OVERLAPS (c, d)` after the first row.
    fn overlaps(&mut self, row: Expr) -> SqlResult<Expr> {
        if !self.is_word(Keyword::Overlaps) {
            return Ok(row);
        }
        let from = row.span;
        let at = self.next()?.span;
        let right = self.row()?;
        let mut arguments = Vec::new();
        for (side, row) in [("left", row), ("right", right)] {
            match row.kind {
                ExprKind::Row { fields, .. } if fields.len() == 2 => arguments.extend(fields),
                _ => {
                    let message = format!("wrong number of parameters on {side} side of OVERLAPS expression");
                    let error = statement::SqlError::new(statement::SqlState::SYNTAX_ERROR, message);
                    return Err(error.at(at.position(self.text)));
                }
            }
        }
        let kind = super::expr::special_call("overlaps", arguments, at);
        Ok(Expr { kind, span: self.since(from) })
    }

    /// Parses a row, which must follow.
    fn row(&mut self) -> SqlResult<Expr> {
        let from = self.token.span;
        if self.is_word(Keyword::Row) {
            return self.explicit_row();
        }
        self.expect(Lexeme::LeftParen)?;
        let fields = self.exprs()?;
        if fields.len() < 2 {
            return Err(self.unexpected());
        }
        self.expect(Lexeme::RightParen)?;
        Ok(Expr { kind: ExprKind::Row { fields, is_explicit: false }, span: self.since(from) })
    }

    /// Parses `ROW (…)`, at the current token.
    fn explicit_row(&mut self) -> SqlResult<Expr> {
        let from = self.next()?.span;
        self.expect(Lexeme::LeftParen)?;
        let fields = if self.is(Lexeme::RightParen) { Vec::new() } else { self.exprs()? };
        self.expect(Lexeme::RightParen)?;
        Ok(Expr { kind: ExprKind::Row { fields, is_explicit: true }, span: self.since(from) })
    }

    /// Parses the steps into a value after it: `.field`, `[index]`.
    pub(super) fn with_indirection(&mut self, of: Expr) -> SqlResult<Expr> {
        if !self.is(Lexeme::Dot) && !self.is(Lexeme::LeftBracket) {
            return Ok(of);
        }
        let from = of.span;
        let steps = self.indirection()?;
        Ok(Expr { kind: ExprKind::Indirection { of: Box::new(of), steps }, span: self.since(from) })
    }

    /// Parses the steps into a value; the list is empty if there are none.
    pub(super) fn indirection(&mut self) -> SqlResult<Vec<Indirection>> {
        let mut steps = Vec::new();
        loop {
            match self.token.lexeme {
                Lexeme::Dot => {
                    self.next()?;
                    if self.is(Lexeme::Star) {
                        steps.push(Indirection::All(self.next()?.span));
                    } else {
                        steps.push(Indirection::Field(self.label()?));
                    }
                }
                Lexeme::LeftBracket => {
                    self.next()?;
                    steps.push(self.subscript()?);
                }
                _ => return Ok(steps),
            }
        }
    }

    /// Parses a subscript after its bracket.
    fn subscript(&mut self) -> SqlResult<Indirection> {
        let bound = |parser: &mut Self| -> SqlResult<Option<Box<Expr>>> {
            match parser.token.lexeme {
                Lexeme::Colon | Lexeme::RightBracket => Ok(None),
                _ => Ok(Some(Box::new(parser.expr()?))),
            }
        };
        let lower = bound(self)?;
        if self.eat(Lexeme::Colon)? {
            let upper = bound(self)?;
            self.expect(Lexeme::RightBracket)?;
            return Ok(Indirection::Slice(lower, upper));
        }
        let Some(index) = lower else { return Err(self.unexpected()) };
        self.expect(Lexeme::RightBracket)?;
        Ok(Indirection::Element(index))
    }

    /// Parses a column, a call of a function, or a literal of a type, by the name at the current token.
    pub(super) fn named(&mut self) -> SqlResult<Expr> {
        let from = self.token.span;
        let first_lexeme = self.token.lexeme;
        let token = self.next()?;
        let first = self.name_of(token)?;
        // A word that can only name a function is not qualified, and qualifies nothing.
        let steps = if Self::is_column_name(first_lexeme) { self.indirection()? } else { Vec::new() };
        let are_names = steps.iter().all(|step| matches!(step, Indirection::Field(_)));
        let may_be_call =
            if steps.is_empty() { Self::is_function_name(first_lexeme) } else { Self::is_column_name(first_lexeme) };
        if are_names && may_be_call && (self.is(Lexeme::LeftParen) || Self::is_text(self.token.lexeme)) {
            let name = self.joined(first, steps);
            return match self.token.lexeme {
                Lexeme::LeftParen => self.call_or_literal(name, from),
                _ => self.typed_literal(name, Vec::new(), from),
            };
        }
        if !Self::is_column_name(first_lexeme) {
            return Err(self.unexpected());
        }
        self.column(first, steps, from)
    }

    /// Joins a name and the fields after it.
    fn joined(&self, first: Name, steps: Vec<Indirection>) -> ObjectName {
        let fields = steps.into_iter().filter_map(|step| match step {
            Indirection::Field(name) => Some(name),
            Indirection::All(_) | Indirection::Element(_) | Indirection::Slice(..) => None,
        });
        ObjectName { parts: std::iter::once(first).chain(fields).collect() }
    }

    /// Creates a column with steps into it. Names up to the first subscript are the column's.
    fn column(&mut self, first: Name, steps: Vec<Indirection>, from: Span) -> SqlResult<Expr> {
        let is_field = |step: &Indirection| matches!(step, Indirection::Field(_));
        let fields = steps.iter().take_while(|step| is_field(step)).count();
        if let Some(at) = steps.iter().position(|step| matches!(step, Indirection::All(_)))
            && at + 1 < steps.len()
        {
            return Err(self.refused_here("improper use of \"*\""));
        }
        let mut steps = steps;
        let rest = steps.split_off(fields);
        let name = self.joined(first, steps);
        let span = self.since(from);
        if let [Indirection::All(_)] = &rest[..] {
            return Ok(Expr { kind: ExprKind::AllColumns(Some(name)), span });
        }
        if rest.is_empty() {
            return Ok(Expr { kind: ExprKind::Column(name), span });
        }
        let column = Expr { span: name.span(), kind: ExprKind::Column(name) };
        Ok(Expr { kind: ExprKind::Indirection { of: Box::new(column), steps: rest }, span })
    }

    /// Parses an operand that begins with a keyword.
    fn keyword(&mut self, word: Keyword) -> SqlResult<Expr> {
        let from = self.token.span;
        let opens = self.ahead(1)? == Lexeme::LeftParen;
        let kind = match word {
            Keyword::Null => self.word_alone(ExprKind::Constant(Constant::Null))?,
            Keyword::True => self.word_alone(ExprKind::Constant(Constant::Boolean(true)))?,
            Keyword::False => self.word_alone(ExprKind::Constant(Constant::Boolean(false)))?,
            Keyword::CurrentDate => self.word_alone(ExprKind::Session(SessionValue::CurrentDate))?,
            Keyword::CurrentRole => self.word_alone(ExprKind::Session(SessionValue::CurrentRole))?,
            Keyword::CurrentUser => self.word_alone(ExprKind::Session(SessionValue::CurrentUser))?,
            Keyword::User => self.word_alone(ExprKind::Session(SessionValue::User))?,
            Keyword::SessionUser => self.word_alone(ExprKind::Session(SessionValue::SessionUser))?,
            Keyword::CurrentCatalog => self.word_alone(ExprKind::Session(SessionValue::CurrentCatalog))?,
            Keyword::CurrentSchema if !opens => self.word_alone(ExprKind::Session(SessionValue::CurrentSchema))?,
            Keyword::CurrentTime | Keyword::CurrentTimestamp | Keyword::Localtime | Keyword::Localtimestamp => {
                self.next()?;
                let precision = if self.is(Lexeme::LeftParen) { Some(self.integer_in_parens()?) } else { None };
                ExprKind::Session(match word {
                    Keyword::CurrentTime => SessionValue::CurrentTime(precision),
                    Keyword::CurrentTimestamp => SessionValue::CurrentTimestamp(precision),
                    Keyword::Localtime => SessionValue::LocalTime(precision),
                    _ => SessionValue::LocalTimestamp(precision),
                })
            }
            Keyword::Case => self.case()?,
            Keyword::Cast => {
                self.next()?;
                self.expect(Lexeme::LeftParen)?;
                let value = Box::new(self.expr()?);
                self.expect_word(Keyword::As)?;
                let to = self.type_name()?;
                self.expect(Lexeme::RightParen)?;
                ExprKind::Cast { value, to, style: CastStyle::Function }
            }
            Keyword::Array => {
                self.next()?;
                match self.token.lexeme {
                    Lexeme::LeftBracket => ExprKind::Array(self.elements()?),
                    _ => ExprKind::ArrayQuery(Box::new(self.query_in_parens()?)),
                }
            }
            Keyword::Unique if opens => {
                self.next()?;
                ExprKind::Unsupported("UNIQUE predicate")
            }
            Keyword::Exists if opens => {
                self.next()?;
                ExprKind::Exists(Box::new(self.query_in_parens()?))
            }
            Keyword::Collation if self.ahead(1)? == Lexeme::Keyword(Keyword::For) => {
                self.next()?;
                self.next()?;
                self.expect(Lexeme::LeftParen)?;
                self.expr()?;
                self.expect(Lexeme::RightParen)?;
                ExprKind::Unsupported("COLLATION FOR")
            }
            Keyword::Row if opens => {
                let row = self.explicit_row()?;
                return self.overlaps(row);
            }
            // A word without a syntax of its own here is a name, unless it is reserved.
            _ if opens && self.has_special_call(word) => return self.special(word),
            _ if self.begins_type_literal(word)? => return self.literal_of_type(),
            _ => match word.category() {
                KeywordCategory::Reserved => return Err(self.unexpected()),
                KeywordCategory::Unreserved | KeywordCategory::ColumnName | KeywordCategory::TypeOrFunction => {
                    return self.named();
                }
            },
        };
        Ok(Expr { kind, span: self.since(from) })
    }

    fn word_alone(&mut self, kind: ExprKind) -> SqlResult<ExprKind> {
        self.next()?;
        Ok(kind)
    }

    /// Parses `CASE`, at the current token.
    fn case(&mut self) -> SqlResult<ExprKind> {
        self.next()?;
        let operand = if self.is_word(Keyword::When) { None } else { Some(Box::new(self.expr()?)) };
        let mut branches = Vec::new();
        loop {
            let from = self.expect_word(Keyword::When)?.span;
            let condition = self.expr()?;
            self.expect_word(Keyword::Then)?;
            let value = self.expr()?;
            branches.push(CaseBranch { condition, value, span: self.since(from) });
            if !self.is_word(Keyword::When) {
                break;
            }
        }
        let otherwise = if self.eat_word(Keyword::Else)? { Some(Box::new(self.expr()?)) } else { None };
        self.expect_word(Keyword::End)?;
        Ok(ExprKind::Case { operand, branches, otherwise })
    }

    /// Parses the elements of an array, from the bracket on. An array within stands in brackets alone.
    fn elements(&mut self) -> SqlResult<Vec<Expr>> {
        self.within(|parser| {
            parser.expect(Lexeme::LeftBracket)?;
            let mut elements = Vec::new();
            if parser.eat(Lexeme::RightBracket)? {
                return Ok(elements);
            }
            let are_arrays = parser.is(Lexeme::LeftBracket);
            loop {
                elements.push(match are_arrays {
                    true => {
                        let from = parser.token.span;
                        let kind = ExprKind::Array(parser.elements()?);
                        Expr { kind, span: parser.since(from) }
                    }
                    false => parser.expr()?,
                });
                if !parser.eat(Lexeme::Comma)? {
                    break;
                }
            }
            parser.expect(Lexeme::RightBracket)?;
            Ok(elements)
        })
    }
}
