//! What the parser library does not know of statements that change rows: `OVERRIDING`, `WHERE CURRENT OF`, a condition of
//! `ON CONFLICT`.
//!
//! **Invariant:** `OVERRIDING` is taken out of the tokens and put into the tree in a place that no statement of PostgreSQL has
//! words for: the columns behind `PARTITION`. Where there is no INSERT to put it, it is a syntax error.

use crate::parse::near;
use sqlparser::ast;
use sqlparser::tokenizer::{Token, TokenWithSpan};
use statement::error::{SqlError, SqlResult};
use statement::pulse;

/// What is done with values for columns that number themselves.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Overriding {
    /// They are taken.
    System,
    /// They are left out for the column's own.
    User,
}

fn is_word(token: &TokenWithSpan, word: &str) -> bool {
    matches!(&token.token, Token::Word(found) if found.quote_style.is_none() && found.value.eq_ignore_ascii_case(word))
}

/// Takes `OVERRIDING ... VALUE` out of a statement's tokens, and remembers where it stood.
///
/// # Errors
/// `0A000` for `WHERE CURRENT OF` and `ON CONFLICT (...) WHERE`.
pub fn cut(tokens: &[TokenWithSpan]) -> SqlResult<Option<(Vec<TokenWithSpan>, Overriding, TokenWithSpan)>> {
    let mut words = pulse::walked(tokens).enumerate().filter(|(_, token)| !matches!(token.token, Token::Whitespace(_)));
    let (Some(mut first), Some(mut second)) = (words.next(), words.next()) else { return Ok(None) };
    for third in words {
        let (one, two, three) = (first, second, third);
        (first, second) = (second, third);
        if is_word(one.1, "where") && is_word(two.1, "current") && is_word(three.1, "of") {
            return Err(SqlError::unsupported("WHERE CURRENT OF"));
        }
        if is_word(one.1, "on") && is_word(two.1, "conflict") && three.1.token == Token::LParen {
            refuse_predicate(&tokens[three.0 + 1..])?;
        }
        let what = match () {
            () if is_word(two.1, "system") => Overriding::System,
            () if is_word(two.1, "user") => Overriding::User,
            () => continue,
        };
        if is_word(one.1, "overriding") && is_word(three.1, "value") {
            let rest = tokens[..one.0].iter().chain(&tokens[three.0 + 1..]).cloned().collect();
            return Ok(Some((rest, what, one.1.clone())));
        }
    }
    Ok(None)
}

/// `ON CONFLICT (...) WHERE ...`, which the library does not know: it would choose among indexes of parts of a table. The
/// tokens are those behind the parenthesis.
fn refuse_predicate(tokens: &[TokenWithSpan]) -> SqlResult<()> {
    let mut depth = 1_usize;
    let mut rest = tokens.iter().filter(|token| !matches!(token.token, Token::Whitespace(_)));
    for token in rest.by_ref() {
        match token.token {
            Token::LParen => depth += 1,
            Token::RParen => depth -= 1,
            _ => {}
        }
        if depth == 0 {
            break;
        }
    }
    match rest.next() {
        Some(token) if is_word(token, "where") => Err(SqlError::unsupported("WHERE behind the columns of ON CONFLICT")),
        _ => Ok(()),
    }
}

/// Puts it into the tree.
///
/// # Errors
/// `42601` where there is no INSERT.
pub fn put(tree: &mut ast::Statement, what: Overriding, text: &str, token: &TokenWithSpan) -> SqlResult<()> {
    let insert = match tree {
        ast::Statement::Insert(insert) => insert,
        ast::Statement::Query(query) => match &mut *query.body {
            ast::SetExpr::Insert(ast::Statement::Insert(insert)) => insert,
            _ => return Err(near(text, Some(token))),
        },
        _ => return Err(near(text, Some(token))),
    };
    insert.after_columns = vec![ast::Ident::new(match what {
        Overriding::System => "overriding system value",
        Overriding::User => "overriding user value",
    })];
    Ok(())
}

/// What [`put`] has put there.
pub fn of(after_columns: &[ast::Ident]) -> SqlResult<Option<Overriding>> {
    match after_columns {
        [] => Ok(None),
        [one] if one.value == "overriding system value" => Ok(Some(Overriding::System)),
        [one] if one.value == "overriding user value" => Ok(Some(Overriding::User)),
        _ => Err(SqlError::unsupported("columns behind PARTITION")),
    }
}
