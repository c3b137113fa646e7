//! The library's dialect, in which the parser counts its work.
//!
//! The parser asks its dialect at the beginning of each expression, so that is where the work is counted. When the statement has
//! to end, the parser is told that it has gone too deep, the one error on which it tries nothing else.

use crate::error::SqlError;
use crate::pulse;
use sqlparser::ast::{Expr, Statement};
use sqlparser::derive_dialect;
use sqlparser::dialect::PostgreSqlDialect;
use sqlparser::parser::{Parser, ParserError};
use std::cell::RefCell;

/// Units of work of an expression, with what else stands between it and the next.
const EXPRESSION: usize = 1024;

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
        let stopped = crate::stack::check().err()?;
        STOPPED.set(Some(stopped));
        Some(Err(ParserError::RecursionLimitExceeded))
    }

    fn parse_prefix(&self, _parser: &mut Parser<'_>) -> Option<Result<Expr, ParserError>> {
        let stopped = pulse::tick(EXPRESSION).err()?;
        STOPPED.set(Some(stopped));
        Some(Err(ParserError::RecursionLimitExceeded))
    }
}

derive_dialect!(Grammar, Counting, preserve_type_id = true);

/// Takes the error for which the parser was told to stop, if it was.
pub(super) fn take_stopped() -> Option<SqlError> {
    STOPPED.take()
}
