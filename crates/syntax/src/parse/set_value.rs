//! Values of `SET` and of a role's options.

use super::folded;
use sqlparser::ast;
use statement::error::{SqlError, SqlResult};

/// A value as a statement writes it, as text. A word without quotes is folded to lower case, so `TRUE` is `true`.
///
/// # Errors
/// `0A000` for what is none.
pub fn set_value(value: &ast::Expr) -> SqlResult<String> {
    match value {
        ast::Expr::Identifier(ident) => Ok(folded(ident)),
        ast::Expr::Value(value) => match &value.value {
            ast::Value::SingleQuotedString(text) | ast::Value::EscapedStringLiteral(text) => Ok(text.clone()),
            ast::Value::Number(digits, false) => Ok(digits.clone()),
            ast::Value::Boolean(value) => Ok(value.to_string()),
            other => Err(SqlError::unsupported(format_args!("{other} as the value of a setting"))),
        },
        ast::Expr::UnaryOp { op: ast::UnaryOperator::Minus, expr } => Ok(format!("-{}", set_value(expr)?)),
        other => Err(SqlError::unsupported(format_args!("{other} as the value of a setting"))),
    }
}
