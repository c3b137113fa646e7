//! Queries in parentheses that the library takes for something else where an expression stands: `(VALUES ...)`, and set
//! operations that begin with a parenthesis. As the query of a FROM it takes both.

use super::rewrite::{is_word, sign, word};
use sqlparser::keywords::Keyword;
use sqlparser::tokenizer::{Token, TokenWithSpan, Word};
use statement::error::SqlResult;
use statement::pulse;

/// Name of such a query in FROM. PostgreSQL gives it to lists of values.
const NAME: &str = "*VALUES*";

/// Words before a parenthesis in which an expression stands. All others are names, or words before any query.
const TAKES_EXPRESSIONS: &[&str] = &[
    "select",
    "where",
    "and",
    "or",
    "not",
    "when",
    "then",
    "else",
    "case",
    "on",
    "having",
    "by",
    "between",
    "any",
    "some",
    "array",
    "limit",
    "offset",
    "like",
    "ilike",
    "returning",
];

/// Parentheses around one query, at most: what has more is found to be no query without looking far.
const PARENTHESES_MAX: usize = 64;

fn is_open(tokens: &[TokenWithSpan], at: usize) -> bool {
    tokens.get(at).is_some_and(|token| token.token == Token::LParen)
}

/// Tells if a query begins there.
pub(super) fn is_query(tokens: &[TokenWithSpan], at: usize) -> bool {
    let begins = |token: &TokenWithSpan| ["select", "with", "values"].iter().any(|own| is_word(token, own));
    tokens.get(at).is_some_and(begins)
}

fn is_operation(token: &TokenWithSpan) -> bool {
    ["union", "intersect", "except"].iter().any(|own| is_word(token, own))
}

/// Tells if an expression may stand in this parenthesis. ALL and DISTINCT are before a query of a set operation, too.
fn may_be_expression(tokens: &[TokenWithSpan], open: usize) -> bool {
    let Some(before) = open.checked_sub(1) else { return false };
    match &tokens[before].token {
        Token::Word(_) if ["all", "distinct"].iter().any(|own| is_word(&tokens[before], own)) => {
            !before.checked_sub(1).is_some_and(|at| is_operation(&tokens[at]))
        }
        // `IS DISTINCT FROM`
        Token::Word(_) if is_word(&tokens[before], "from") => {
            let is = |back: usize, word| before.checked_sub(back).is_some_and(|at| is_word(&tokens[at], word));
            is(1, "distinct") && (is(2, "is") || is(2, "not") && is(3, "is"))
        }
        Token::Word(_) => TAKES_EXPRESSIONS.iter().any(|own| is_word(&tokens[before], own)),
        Token::RParen | Token::RBracket | Token::SemiColon => false,
        _ => true,
    }
}

/// Where each parenthesis that is opened is closed; behind the last token if it is not, or if none is opened there.
fn closings(tokens: &[TokenWithSpan]) -> SqlResult<Vec<usize>> {
    let mut closings = vec![tokens.len(); tokens.len()];
    let mut open = Vec::new();
    for (at, token) in tokens.iter().enumerate() {
        pulse::tick(pulse::ITEM)?;
        match token.token {
            Token::LParen => open.push(at),
            Token::RParen => {
                if let Some(opened) = open.pop() {
                    closings[opened] = at;
                }
            }
            _ => {}
        }
    }
    Ok(closings)
}

/// Puts `SELECT * FROM (...) AS name` around these pieces of a statement, each from its first token to before its end.
fn put_into_from(tokens: &mut Vec<TokenWithSpan>, pieces: &[(usize, usize)]) {
    if pieces.is_empty() {
        return;
    }
    let mut firsts: Vec<usize> = pieces.iter().map(|(first, _)| *first).collect();
    let mut ends: Vec<usize> = pieces.iter().map(|(_, end)| *end).collect();
    firsts.sort_unstable();
    ends.sort_unstable();
    let (mut firsts, mut ends) = (firsts.into_iter().peekable(), ends.into_iter().peekable());
    let old = std::mem::take(tokens);
    tokens.reserve(old.len() + 7 * pieces.len());
    for (at, own) in old.into_iter().enumerate() {
        while ends.next_if_eq(&at).is_some() {
            let name = Word { value: NAME.to_owned(), quote_style: Some('"'), keyword: Keyword::NoKeyword };
            tokens.extend([sign(&own, Token::RParen), word(&own, "as"), sign(&own, Token::Word(name))]);
        }
        while firsts.next_if_eq(&at).is_some() {
            let from = [word(&own, "select"), sign(&own, Token::Mul), word(&own, "from"), sign(&own, Token::LParen)];
            tokens.extend(from);
        }
        tokens.push(own);
    }
}

/// `(VALUES (1))` as an expression.
pub(super) fn values(_text: &str, tokens: &mut Vec<TokenWithSpan>) -> SqlResult<()> {
    let closings = closings(tokens)?;
    let mut pieces = Vec::new();
    for at in 1..tokens.len() {
        pulse::tick(pulse::ITEM)?;
        let is_list = is_word(&tokens[at], "values") && is_open(tokens, at - 1) && is_open(tokens, at + 1);
        if !is_list || !may_be_expression(tokens, at - 1) {
            continue;
        }
        let mut end = closings[at + 1] + 1;
        while tokens.get(end).is_some_and(|token| token.token == Token::Comma) && is_open(tokens, end + 1) {
            end = closings[end + 1] + 1;
        }
        if end < tokens.len() {
            pieces.push((at, end));
        }
    }
    put_into_from(tokens, &pieces);
    Ok(())
}

/// `((SELECT 1) UNION (SELECT 2))` as an expression.
pub(super) fn operations(_text: &str, tokens: &mut Vec<TokenWithSpan>) -> SqlResult<()> {
    let closings = closings(tokens)?;
    let mut pieces = Vec::new();
    for at in 1..tokens.len() {
        pulse::tick(pulse::ITEM)?;
        if !is_open(tokens, at) || !is_open(tokens, at + 1) || !may_be_expression(tokens, at) {
            continue;
        }
        let end = tokens.len().min(at + PARENTHESES_MAX);
        let begin = (at + 1..end).find(|place| !is_open(tokens, *place)).unwrap_or(at);
        let goes_on = tokens.get(closings[at + 1] + 1).is_some_and(is_operation);
        if goes_on && is_query(tokens, begin) && closings[at] < tokens.len() {
            pieces.push((at + 1, closings[at]));
        }
    }
    put_into_from(tokens, &pieces);
    Ok(())
}
