//! The library's dialect, with PostgreSQL's precedence of operators, and in which the parser counts its work.
//!
//! PostgreSQL's grammar (`gram.y`) has unary minus above `^`, COLLATE and AT TIME ZONE, and all operators that it has no name for
//! at one level, whether they stand before an operand or between two, be they matches (`~`) or OPERATOR(...).
//!
//! The parser asks its dialect at the beginning of each expression, so that is where the work is counted. When the statement has
//! to end, the parser is told that it has gone too deep, the one error on which it tries nothing else.

use sqlparser::ast::{Expr, Statement, UnaryOperator};
use sqlparser::derive_dialect;
use sqlparser::dialect::{Dialect, PostgreSqlDialect, Precedence};
use sqlparser::keywords::Keyword;
use sqlparser::parser::{Parser, ParserError};
use sqlparser::tokenizer::Token;
use statement::error::SqlError;
use statement::pulse;
use std::cell::RefCell;

/// Units of work of an expression, with what else stands between it and the next.
const EXPRESSION: usize = 1024;

/// Precedence of unary minus: between that of COLLATE and that of a subscript, which are the library's 120 and 130.
const UNARY_MINUS: u8 = 125;

thread_local! {
    /// Why the parser was told to stop.
    static STOPPED: RefCell<Option<SqlError>> = const { RefCell::new(None) };
}

mod counting {
    #![expect(dead_code, reason = "the macro makes a constructor, which only the outermost dialect needs")]
    use super::{PostgreSqlDialect, derive_dialect};

    // Escapes of `U&'...'` are read by `forms::unicode`, which knows UESCAPE; the library would read them as it splits the text.
    derive_dialect!(
        Counting,
        PostgreSqlDialect,
        preserve_type_id = true,
        overrides = { supports_unicode_string_literal = false }
    );
}
use counting::Counting;

// A method of the type itself goes before the trait's of the same name, in the dialect that passes all calls on to it.
impl Counting {
    /// A statement inside of another one (`EXPLAIN`, `PREPARE ... AS`, `IF ... THEN`): the library counts these, too, but a level of
    /// them takes more of the stack than one of expressions, for which the count is made.
    fn parse_statement(&self, _parser: &mut Parser<'_>) -> Option<Result<Statement, ParserError>> {
        let stopped = statement::stack::check().err()?;
        STOPPED.set(Some(stopped));
        Some(Err(ParserError::RecursionLimitExceeded))
    }

    fn parse_prefix(&self, parser: &mut Parser<'_>) -> Option<Result<Expr, ParserError>> {
        if let Err(stopped) = pulse::tick(EXPRESSION) {
            STOPPED.set(Some(stopped));
            return Some(Err(ParserError::RecursionLimitExceeded));
        }
        let other = || PostgreSqlDialect {}.prec_value(Precedence::PgOther);
        let (op, precedence) = match &parser.peek_token_ref().token {
            Token::Minus => (UnaryOperator::Minus, UNARY_MINUS),
            Token::Plus => (UnaryOperator::Plus, UNARY_MINUS),
            Token::Tilde => (UnaryOperator::BitwiseNot, other()),
            Token::AtSign => (UnaryOperator::PGAbs, other()),
            Token::PGSquareRoot => (UnaryOperator::PGSquareRoot, other()),
            Token::PGCubeRoot => (UnaryOperator::PGCubeRoot, other()),
            _ => return None,
        };
        parser.advance_token();
        Some(parser.parse_subexpr(precedence).map(|expr| Expr::UnaryOp { op, expr: Box::new(expr) }))
    }

    fn get_next_precedence_default(&self, parser: &Parser<'_>) -> Result<u8, ParserError> {
        let is_other = match &parser.peek_token_ref().token {
            Token::Tilde
            | Token::TildeAsterisk
            | Token::ExclamationMarkTilde
            | Token::ExclamationMarkTildeAsterisk
            | Token::DoubleTilde
            | Token::DoubleTildeAsterisk
            | Token::ExclamationMarkDoubleTilde
            | Token::ExclamationMarkDoubleTildeAsterisk => true,
            Token::Word(word) => word.keyword == Keyword::OPERATOR,
            _ => false,
        };
        let library = PostgreSqlDialect {};
        match is_other {
            true => Ok(library.prec_value(Precedence::PgOther)),
            false => library.get_next_precedence_default(parser),
        }
    }
}

derive_dialect!(Grammar, Counting, preserve_type_id = true);

/// Takes the error for which the parser was told to stop, if it was.
pub(super) fn take_stopped() -> Option<SqlError> {
    STOPPED.take()
}
