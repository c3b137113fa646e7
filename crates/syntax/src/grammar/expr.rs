//! Expressions: operators and their precedence.
//!
//! Precedence climbing over the levels of `gram.y`. A level without associativity refuses a second operator of the same
//! level after an operand: `a < b < c`.

use super::Parser;
use super::primary::ParenthesisedExpr;
use crate::ast::{
    Argument, CastStyle, Expr, ExprKind, FunctionCall, IsTest, KeptExpr, LikeKind, Name, ObjectName, OperatorName,
    QuantifiedOf, Quantifier,
};
use crate::lex::{Keyword, Lexeme, Span};
use statement::error::SqlResult;

/// Precedence level of an operator: the higher binds tighter.
pub(super) type Level = u8;

const OR: Level = 1;
const AND: Level = 2;
const NOT: Level = 3;
const IS: Level = 4;
const COMPARISON: Level = 5;
/// `BETWEEN`, `IN`, `LIKE` and the like.
const PATTERN: Level = 6;
const OPERATOR: Level = 7;
const SUM: Level = 8;
const PRODUCT: Level = 9;
const POWER: Level = 10;
const AT: Level = 11;
const COLLATE: Level = 12;
const SIGN: Level = 13;
const CAST: Level = 14;

/// Operator at the current token.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Infix {
    Or,
    And,
    Is,
    IsNull,
    NotNull,
    Comparison,
    /// `NOT` before one of the next operators.
    NotPattern,
    Between,
    In,
    Like(LikeKind),
    Operator,
    Qualified,
    AtTimeZone,
    Collate,
    Cast,
}

impl Infix {
    fn level(self, lexeme: Lexeme) -> Level {
        match self {
            Infix::Or => OR,
            Infix::And => AND,
            Infix::Is | Infix::IsNull | Infix::NotNull => IS,
            Infix::Comparison => COMPARISON,
            Infix::NotPattern | Infix::Between | Infix::In | Infix::Like(_) => PATTERN,
            Infix::Operator => match lexeme {
                Lexeme::Plus | Lexeme::Minus => SUM,
                Lexeme::Star | Lexeme::Slash | Lexeme::Percent => PRODUCT,
                Lexeme::Caret => POWER,
                _ => OPERATOR,
            },
            Infix::Qualified => OPERATOR,
            Infix::AtTimeZone => AT,
            Infix::Collate => COLLATE,
            Infix::Cast => CAST,
        }
    }

    /// Returns true if an operand must follow the operator.
    fn takes_more(self) -> bool {
        !matches!(self, Infix::IsNull | Infix::NotNull)
    }

    /// Returns true if the operator is allowed in a restricted expression, too: `b_expr`.
    fn is_restricted(self) -> bool {
        matches!(self, Infix::Is | Infix::Comparison | Infix::Operator | Infix::Qualified | Infix::Cast)
    }
}

fn expr(kind: ExprKind, span: Span) -> Expr {
    Expr { kind, span }
}

impl Parser<'_> {
    /// Parses an expression.
    pub(super) fn expr(&mut self) -> SqlResult<Expr> {
        self.expr_from(0, false)
    }

    /// Parses an expression without the operators that may be words after it: `b_expr`.
    pub(super) fn restricted_expr(&mut self) -> SqlResult<Expr> {
        self.expr_from(0, true)
    }

    /// Parses an expression that a definition keeps.
    pub(super) fn kept_expr(&mut self, is_restricted: bool) -> SqlResult<KeptExpr> {
        let from = self.token.span;
        let value = self.expr_from(0, is_restricted)?;
        Ok(KeptExpr { value, extent: self.since(from) })
    }

    /// Parses one or more expressions, with commas between them.
    pub(super) fn exprs(&mut self) -> SqlResult<Vec<Expr>> {
        let mut all = vec![self.expr()?];
        while self.eat(Lexeme::Comma)? {
            all.push(self.expr()?);
        }
        Ok(all)
    }

    /// Parses an expression of operators of a level or higher.
    fn expr_from(&mut self, least: Level, is_restricted: bool) -> SqlResult<Expr> {
        self.within(|parser| {
            let left = parser.prefix(is_restricted)?;
            parser.infixes(left, least, is_restricted)
        })
    }

    /// Parses an expression of a list of columns. A word after it is its label where nothing else could follow.
    pub(super) fn listed_expr(&mut self) -> SqlResult<Expr> {
        self.within(|parser| {
            let left = parser.prefix(false)?;
            parser.infixes_before(left, 0, false, true)
        })
    }

    /// Parses an operand, with operators before it.
    fn prefix(&mut self, is_restricted: bool) -> SqlResult<Expr> {
        let from = self.token.span;
        let is_qualified = self.is_word(Keyword::Operator) && self.ahead(1)? == Lexeme::LeftParen;
        match self.token.lexeme {
            Lexeme::Keyword(Keyword::Not) | Lexeme::Joined(Keyword::Not) if !is_restricted => {
                self.next()?;
                let operand = self.expr_from(NOT, false)?;
                Ok(expr(ExprKind::Not(Box::new(operand)), self.since(from)))
            }
            Lexeme::Plus | Lexeme::Minus => {
                let operator = self.operator()?;
                let operand = self.expr_from(SIGN, is_restricted)?;
                Ok(self.signed(operator, operand, from))
            }
            Lexeme::Operator => {
                let operator = self.operator()?;
                let operand = Box::new(self.expr_from(OPERATOR + 1, is_restricted)?);
                Ok(expr(ExprKind::Prefix { operator, operand }, self.since(from)))
            }
            Lexeme::Keyword(Keyword::Operator) if is_qualified => {
                let operator = self.qualified_operator()?;
                let operand = Box::new(self.expr_from(OPERATOR + 1, is_restricted)?);
                Ok(expr(ExprKind::Prefix { operator, operand }, self.since(from)))
            }
            Lexeme::Keyword(Keyword::Default) if !is_restricted => {
                self.next()?;
                Ok(expr(ExprKind::Default, from))
            }
            _ => self.primary(),
        }
    }

    /// Creates an operand with a sign. The sign of a number becomes a part of it (`doNegate`).
    pub(super) fn signed(&mut self, operator: OperatorName, operand: Expr, from: Span) -> Expr {
        use crate::ast::Constant;
        let span = self.since(from);
        if &*operator.signs == "-" {
            match &operand.kind {
                ExprKind::Constant(Constant::Integer(number)) => {
                    return expr(ExprKind::Constant(Constant::Integer(number.wrapping_neg())), span);
                }
                ExprKind::Constant(Constant::Number(digits)) => {
                    let digits = match digits.strip_prefix('-') {
                        Some(digits) => digits.into(),
                        None => format!("-{digits}").into(),
                    };
                    return expr(ExprKind::Constant(Constant::Number(digits)), span);
                }
                _ => {}
            }
        }
        expr(ExprKind::Prefix { operator, operand: Box::new(operand) }, span)
    }

    /// Returns the operator at the current token, if there is one.
    fn infix(&mut self) -> SqlResult<Option<Infix>> {
        Ok(Some(match self.token.lexeme {
            Lexeme::Less
            | Lexeme::Greater
            | Lexeme::Equal
            | Lexeme::LessEqual
            | Lexeme::GreaterEqual
            | Lexeme::NotEqual => Infix::Comparison,
            Lexeme::Operator
            | Lexeme::Plus
            | Lexeme::Minus
            | Lexeme::Star
            | Lexeme::Slash
            | Lexeme::Percent
            | Lexeme::Caret => Infix::Operator,
            Lexeme::TypeCast => Infix::Cast,
            Lexeme::Joined(Keyword::Not) => Infix::NotPattern,
            Lexeme::Keyword(word) => match word {
                Keyword::Or => Infix::Or,
                Keyword::And => Infix::And,
                Keyword::Is => Infix::Is,
                Keyword::Isnull => Infix::IsNull,
                Keyword::Notnull => Infix::NotNull,
                Keyword::Between => Infix::Between,
                Keyword::In => Infix::In,
                Keyword::Like => Infix::Like(LikeKind::Like),
                Keyword::Ilike => Infix::Like(LikeKind::ILike),
                // In `substring(text SIMILAR pattern ESCAPE escape)` the word separates arguments.
                Keyword::Similar if self.in_substring && self.ahead(1)? != Lexeme::Keyword(Keyword::To) => {
                    return Ok(None);
                }
                Keyword::Similar => Infix::Like(LikeKind::SimilarTo),
                Keyword::Collate => Infix::Collate,
                Keyword::At => match self.ahead(1)? {
                    Lexeme::Keyword(Keyword::Time) => Infix::AtTimeZone,
                    _ => return Ok(None),
                },
                Keyword::Operator => Infix::Qualified,
                _ => return Ok(None),
            },
            _ => return Ok(None),
        }))
    }

    /// Parses the operators after an operand, and their other operands.
    pub(super) fn infixes(&mut self, left: Expr, least: Level, is_restricted: bool) -> SqlResult<Expr> {
        self.infixes_before(left, least, is_restricted, false)
    }

    fn infixes_before(
        &mut self,
        mut left: Expr,
        least: Level,
        is_restricted: bool,
        is_listed: bool,
    ) -> SqlResult<Expr> {
        // Level of the last operator without associativity, if an operand came after it.
        let mut closed = None;
        loop {
            let Some(infix) = self.infix()? else { return Ok(left) };
            let level = infix.level(self.token.lexeme);
            if level < least || (is_restricted && !infix.is_restricted()) {
                return Ok(left);
            }
            if is_listed && infix.takes_more() && Self::is_bare_label(self.token.lexeme) {
                let follows = self.ahead(1)?;
                if Self::ends_column(follows) {
                    return Ok(left);
                }
            }
            if closed == Some(level) {
                return Err(self.unexpected());
            }
            let highest = std::mem::take(&mut self.height);
            // A chain of AND or OR is one node.
            let is_longer =
                matches!((infix, &left.kind), (Infix::And, ExprKind::And(_)) | (Infix::Or, ExprKind::Or(_)));
            let ends_with_operand;
            (left, ends_with_operand) = self.infix_of(left, infix, level, is_restricted)?;
            self.height = self.height.max(highest);
            self.grow(usize::from(!is_longer))?;
            closed = (ends_with_operand && matches!(level, IS | COMPARISON | PATTERN)).then_some(level);
        }
    }

    /// Parses the rest of an expression with the operator at the current token. The second value is true if an operand
    /// ends it.
    fn infix_of(&mut self, left: Expr, infix: Infix, level: Level, is_restricted: bool) -> SqlResult<(Expr, bool)> {
        let from = left.span;
        let left = Box::new(left);
        let kind = match infix {
            Infix::Or | Infix::And => {
                self.next()?;
                let right = self.expr_from(level + 1, false)?;
                match (infix, *left) {
                    // As in PostgreSQL, a chain of them is one node.
                    (Infix::And, Expr { kind: ExprKind::And(mut all), .. }) => {
                        all.push(right);
                        ExprKind::And(all)
                    }
                    (Infix::Or, Expr { kind: ExprKind::Or(mut all), .. }) => {
                        all.push(right);
                        ExprKind::Or(all)
                    }
                    (Infix::And, left) => ExprKind::And(vec![left, right]),
                    (_, left) => ExprKind::Or(vec![left, right]),
                }
            }
            Infix::Comparison | Infix::Operator | Infix::Qualified => {
                let operator = if infix == Infix::Qualified { self.qualified_operator()? } else { self.operator()? };
                if !is_restricted && let Some(quantifier) = self.quantifier() {
                    return Ok((self.quantified(left, operator, quantifier, from)?, false));
                }
                let right = Box::new(self.expr_from(level + 1, is_restricted)?);
                ExprKind::Infix { left, operator, right }
            }
            Infix::Cast => {
                let sign = self.next()?.span;
                let to = self.type_name()?;
                ExprKind::Cast { value: left, to, style: CastStyle::Sign(sign) }
            }
            Infix::Collate => {
                let at = self.next()?.span;
                ExprKind::Collate { value: left, collation: self.object_name()?, at }
            }
            Infix::AtTimeZone => {
                let at = self.expect_word(Keyword::At)?.span;
                self.expect_words(&[Keyword::Time, Keyword::Zone])?;
                let zone = self.expr_from(level + 1, is_restricted)?;
                special_call("timezone", [zone, *left], at)
            }
            Infix::Is => return self.is_test(left, is_restricted, from),
            Infix::IsNull | Infix::NotNull => {
                let at = self.next()?.span;
                ExprKind::Is { value: left, test: IsTest::Null, is_not: infix == Infix::NotNull, at }
            }
            Infix::NotPattern => {
                let at = self.next()?.span;
                return self.pattern(left, true, at, from);
            }
            Infix::Between | Infix::In | Infix::Like(_) => {
                let at = self.token.span;
                return self.pattern(left, false, at, from);
            }
        };
        let ends_with_operand = !matches!(infix, Infix::Cast | Infix::Collate | Infix::IsNull | Infix::NotNull);
        Ok((expr(kind, self.since(from)), ends_with_operand))
    }

    /// Parses a test after `IS`, at the current token.
    fn is_test(&mut self, value: Box<Expr>, is_restricted: bool, from: Span) -> SqlResult<(Expr, bool)> {
        let at = self.next()?.span;
        let is_not = self.eat_word(Keyword::Not)?;
        let test = match self.token.lexeme {
            Lexeme::Keyword(Keyword::Distinct) => {
                self.expect_words(&[Keyword::Distinct, Keyword::From])?;
                let right = Box::new(self.expr_from(IS + 1, is_restricted)?);
                let kind = ExprKind::IsDistinct { left: value, right, is_not, at };
                return Ok((expr(kind, self.since(from)), true));
            }
            Lexeme::Keyword(Keyword::Document) => IsTest::Document,
            Lexeme::Keyword(Keyword::Null) if !is_restricted => IsTest::Null,
            Lexeme::Keyword(Keyword::True) if !is_restricted => IsTest::True,
            Lexeme::Keyword(Keyword::False) if !is_restricted => IsTest::False,
            Lexeme::Keyword(Keyword::Unknown) if !is_restricted => IsTest::Unknown,
            Lexeme::Keyword(Keyword::Normalized) if !is_restricted => IsTest::Normalized,
            Lexeme::Keyword(Keyword::Nfc | Keyword::Nfd | Keyword::Nfkc | Keyword::Nfkd) if !is_restricted => {
                self.next()?;
                if !self.is_word(Keyword::Normalized) {
                    return Err(self.unexpected());
                }
                IsTest::Normalized
            }
            _ => return Err(self.unexpected()),
        };
        self.next()?;
        Ok((expr(ExprKind::Is { value, test, is_not, at }, self.since(from)), false))
    }

    /// Returns the quantifier at the current token, if it is `ANY`, `SOME` or `ALL`.
    fn quantifier(&self) -> Option<Quantifier> {
        match self.token.lexeme {
            Lexeme::Keyword(Keyword::Any | Keyword::Some) => Some(Quantifier::Any),
            Lexeme::Keyword(Keyword::All) => Some(Quantifier::All),
            _ => None,
        }
    }

    /// Parses a query or a single expression in parentheses. A comma is refused at its place.
    fn single_in_parens(&mut self) -> SqlResult<ParenthesisedExpr> {
        if self.begins_query(1)? || self.ahead(1)? == Lexeme::LeftParen {
            return self.parenthesised();
        }
        self.expect(Lexeme::LeftParen)?;
        let one = self.expr()?;
        self.expect(Lexeme::RightParen)?;
        Ok(ParenthesisedExpr::Expr(one))
    }

    /// Parses a quantified comparison, from the word `ANY` or `ALL` on.
    fn quantified(
        &mut self,
        value: Box<Expr>,
        operator: OperatorName,
        quantifier: Quantifier,
        from: Span,
    ) -> SqlResult<Expr> {
        self.next()?;
        if !self.is(Lexeme::LeftParen) {
            return Err(self.unexpected());
        }
        let of = Box::new(match self.single_in_parens()? {
            ParenthesisedExpr::Query(query) => QuantifiedOf::Query(query),
            ParenthesisedExpr::Expr(array) => QuantifiedOf::Array(array),
            ParenthesisedExpr::List(_) => return Err(self.unexpected()),
        });
        Ok(expr(ExprKind::Quantified { value, operator, quantifier, of }, self.since(from)))
    }

    /// Parses `BETWEEN`, `IN`, `LIKE` and the like, at the current token.
    fn pattern(&mut self, value: Box<Expr>, is_not: bool, at: Span, from: Span) -> SqlResult<(Expr, bool)> {
        let kind = match self.token.lexeme {
            Lexeme::Keyword(Keyword::Between) => {
                self.next()?;
                let is_symmetric = self.eat_word(Keyword::Symmetric)?;
                if !is_symmetric {
                    self.eat_word(Keyword::Asymmetric)?;
                }
                // Restricted, since `AND` ends the lower bound.
                let low = Box::new(self.restricted_expr()?);
                self.expect_word(Keyword::And)?;
                let high = Box::new(self.expr_from(PATTERN + 1, false)?);
                ExprKind::Between { value, low, high, is_not, is_symmetric, at }
            }
            Lexeme::Keyword(Keyword::In) => {
                self.next()?;
                if !self.is(Lexeme::LeftParen) {
                    return Err(self.unexpected());
                }
                let kind = match self.parenthesised()? {
                    ParenthesisedExpr::Query(query) => ExprKind::InQuery { value, query, is_not, at },
                    ParenthesisedExpr::Expr(one) => ExprKind::InList { value, list: vec![one], is_not, at },
                    ParenthesisedExpr::List(list) => ExprKind::InList { value, list, is_not, at },
                };
                return Ok((expr(kind, self.since(from)), false));
            }
            _ => {
                let (kind, signs) = match self.next()?.lexeme {
                    Lexeme::Keyword(Keyword::Like) => (LikeKind::Like, if is_not { "!~~" } else { "~~" }),
                    Lexeme::Keyword(Keyword::Ilike) => (LikeKind::ILike, if is_not { "!~~*" } else { "~~*" }),
                    _ => {
                        self.expect_word(Keyword::To)?;
                        (LikeKind::SimilarTo, "")
                    }
                };
                if kind != LikeKind::SimilarTo
                    && let Some(quantifier) = self.quantifier()
                {
                    let operator = OperatorName { schemas: Vec::new(), signs: signs.into(), span: at };
                    return Ok((self.quantified(value, operator, quantifier, from)?, false));
                }
                let pattern = Box::new(self.expr_from(PATTERN + 1, false)?);
                let escape = match self.eat_word(Keyword::Escape)? {
                    true => Some(Box::new(self.expr_from(PATTERN + 1, false)?)),
                    false => None,
                };
                ExprKind::Like { kind, value, pattern, escape, is_not, at }
            }
        };
        Ok((expr(kind, self.since(from)), true))
    }
}

/// Creates the call of a function of `pg_catalog` that has a syntax of its own.
pub(super) fn special_call(name: &str, arguments: impl IntoIterator<Item = Expr>, span: Span) -> ExprKind {
    let parts = ["pg_catalog", name].map(|text| Name { text: text.into(), span }).into();
    ExprKind::Call(Box::new(FunctionCall {
        name: ObjectName { parts },
        arguments: arguments.into_iter().map(|value| Argument { name: None, value }).collect(),
        is_star: false,
        is_distinct: false,
        is_variadic: false,
        order_by: Vec::new(),
        is_within_group: false,
        filter: None,
        over: None,
        is_special: true,
    }))
}
