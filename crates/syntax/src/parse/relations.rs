//! How relations are named and made where the library knows less than PostgreSQL: `ONLY t`, `t *`, `ROWS FROM`, tables `LIKE`
//! others, columns without types, recursive views.

use super::rewrite::{closing, is_word, mark, mark_at, sign, word};
use super::{at_end, near};
use sqlparser::ast::{self, ObjectName, ObjectNamePart};
use sqlparser::tokenizer::{Token, TokenWithSpan, Word};
use statement::error::SqlResult;
use statement::pulse;

/// Begins the name of a column that stands for those of another table; behind it the options.
const LIKE: &str = "like";
/// The type of a column that is written without one.
const UNTYPED: &str = "untyped";

/// The table whose columns stand where this one is defined, and what is said of that, in lower case.
pub fn like(column: &ast::ColumnDef) -> Option<(&ObjectName, Vec<(&str, &str)>)> {
    let options = mark(&column.name)?.strip_prefix(LIKE)?;
    let ast::DataType::Custom(name, _) = &column.data_type else { return None };
    let words: Vec<&str> = options.split(' ').filter(|word| !word.is_empty()).collect();
    Some((name, words.chunks_exact(2).map(|two| (two[0], two[1])).collect()))
}

/// Whether a column was written without a type.
pub fn is_untyped(column: &ast::ColumnDef) -> bool {
    let ast::DataType::Custom(ObjectName(parts), _) = &column.data_type else { return false };
    matches!(&parts[..], [ObjectNamePart::Identifier(name)] if mark(name) == Some(UNTYPED))
}

/// A table may have no columns, but not without saying so: the library takes the name alone.
///
/// # Errors
/// `42601`
pub(super) fn check_columns(text: &str, tokens: &[TokenWithSpan], create: &ast::CreateTable) -> SqlResult<()> {
    let ast::CreateTable { name, columns, constraints, query, inherits, partition_of, like, .. } = create;
    let says_columns = !columns.is_empty() || !constraints.is_empty() || query.is_some() || like.is_some();
    if says_columns || inherits.is_some() || partition_of.is_some() {
        return Ok(());
    }
    let mut words = tokens.iter().filter(|token| !matches!(token.token, Token::Whitespace(_) | Token::EOF)).peekable();
    words.find(|token| is_word(token, "table"));
    if words.peek().is_some_and(|token| is_word(token, "if")) && create.if_not_exists {
        words.nth(2);
    }
    // Names and the periods between them.
    let next = words.nth(2 * name.0.len() - 1);
    match next {
        Some(token) if token.token == Token::LParen => Ok(()),
        Some(token) => Err(near(text, Some(token))),
        None => Err(at_end(text)),
    }
}

fn is(tokens: &[TokenWithSpan], at: usize, word: &str) -> bool {
    tokens.get(at).is_some_and(|token| is_word(token, word))
}

fn is_any(token: &TokenWithSpan, words: &[&str]) -> bool {
    words.iter().any(|word| is_word(token, word))
}

/// Where the name ends that begins there, perhaps with periods.
fn behind_name(tokens: &[TokenWithSpan], from: usize) -> Option<usize> {
    let mut at = from;
    loop {
        if !matches!(tokens.get(at)?.token, Token::Word(_)) {
            return None;
        }
        at += 1;
        match tokens.get(at) {
            Some(token) if token.token == Token::Period => at += 1,
            _ => return Some(at),
        }
    }
}

/// What stands before a relation's name. A comma is looked at by [`in_from`].
const BEFORE: &[&str] =
    &["from", "join", "using", "into", "update", "table", "truncate", "lock", "on", "only", "exists"];

/// Whether a comma there parts relations.
fn in_from(tokens: &[TokenWithSpan], comma: usize) -> bool {
    let mut depth = 0_usize;
    for at in (0..comma).rev() {
        let token = &tokens[at];
        match token.token {
            Token::RParen => depth += 1,
            Token::LParen if depth == 0 => return false,
            Token::LParen => depth -= 1,
            _ if 0 < depth => {}
            // `IS DISTINCT FROM` begins no list.
            _ if is_word(token, "from") && !(1 <= at && is_word(&tokens[at - 1], "distinct")) => return true,
            _ if is_word(token, "using") && is(tokens, 0, "delete") => return true,
            _ if at == 0 && is_any(token, &["truncate", "lock", "vacuum"]) => return true,
            _ if is_any(
                token,
                &["where", "group", "order", "by", "having", "select", "set", "values", "limit", "on", "returning"],
            ) =>
            {
                return false;
            }
            _ => {}
        }
    }
    false
}

/// `ONLY t`, `ONLY (t)`: nothing inherits, so it is the table.
pub(super) fn only(_text: &str, tokens: &mut Vec<TokenWithSpan>) -> SqlResult<()> {
    for at in (1..tokens.len()).rev() {
        pulse::tick(pulse::ITEM)?;
        if !is_word(&tokens[at], "only") {
            continue;
        }
        pulse::tick(tokens.len())?;
        let before = &tokens[at - 1];
        let begins = is_any(before, BEFORE) || (before.token == Token::Comma && in_from(tokens, at - 1));
        if !begins {
            continue;
        }
        if tokens.get(at + 1).is_some_and(|next| next.token == Token::LParen) {
            let Some(end) = behind_name(tokens, at + 2) else { continue };
            if tokens.get(end).is_none_or(|token| token.token != Token::RParen) {
                continue;
            }
            tokens.remove(end);
            tokens.drain(at..at + 2);
        } else if behind_name(tokens, at + 1).is_some() {
            tokens.remove(at);
        }
    }
    Ok(())
}

/// `t *`: the same.
pub(super) fn stars(_text: &str, tokens: &mut Vec<TokenWithSpan>) -> SqlResult<()> {
    /// Whose arguments have a FROM of their own.
    const FUNCTIONS: &[&str] = &["extract", "substring", "trim", "overlay"];
    for at in (2..tokens.len()).rev() {
        pulse::tick(pulse::ITEM)?;
        let is_name = |token: &TokenWithSpan| matches!(token.token, Token::Word(_));
        if tokens[at].token != Token::Mul || !is_name(&tokens[at - 1]) {
            continue;
        }
        pulse::tick(at)?;
        let mut begin = at - 1;
        while 1 < begin && tokens[begin - 1].token == Token::Period && is_name(&tokens[begin - 2]) {
            begin -= 2;
        }
        let Some(before) = begin.checked_sub(1).map(|at| &tokens[at]) else { continue };
        let of_query = is_any(before, &["from", "only"]) && {
            let distinct = 2 <= begin && is_word(&tokens[begin - 2], "distinct");
            let mut depth = 0_usize;
            let open = tokens[..begin].iter().rposition(|token| {
                match token.token {
                    Token::RParen => depth += 1,
                    Token::LParen if depth == 0 => return true,
                    Token::LParen => depth -= 1,
                    _ => {}
                }
                false
            });
            let calls = open.and_then(|open| tokens.get(open.checked_sub(1)?)).is_some_and(|it| is_any(it, FUNCTIONS));
            !distinct && !calls
        };
        let is_first = begin == 1 && is_any(before, &["update", "truncate", "lock", "table"]);
        let of_statement = is_first
            || is(tokens, begin - 1, "table")
            || is_word(before, "join")
            || (2 <= begin && is_word(before, "exists") && is_word(&tokens[begin - 2], "if"))
            || (is_word(before, "using") && is(tokens, 0, "delete"));
        if of_query || of_statement || (before.token == Token::Comma && in_from(tokens, begin - 1)) {
            tokens.remove(at);
        }
    }
    Ok(())
}

/// `ROWS FROM (f())`: that function.
pub(super) fn rows_from(_text: &str, tokens: &mut Vec<TokenWithSpan>) -> SqlResult<()> {
    for at in (1..tokens.len()).rev() {
        pulse::tick(pulse::ITEM)?;
        let opens = tokens.get(at + 2).is_some_and(|token| token.token == Token::LParen);
        if !is_word(&tokens[at], "rows") || !is(tokens, at + 1, "from") || !opens {
            continue;
        }
        if tokens.get(at + 3).is_some_and(|first| is_any(first, &["values", "select", "with", "table"])) {
            continue; // A column of that name, from a query.
        }
        pulse::tick(tokens.len())?;
        let close = closing(tokens, at + 3);
        let call =
            behind_name(tokens, at + 3).filter(|open| tokens.get(*open).is_some_and(|it| it.token == Token::LParen));
        if close < tokens.len() && call.is_some_and(|open| closing(tokens, open + 1) + 1 == close) {
            tokens.remove(close);
            tokens.drain(at..at + 3);
        }
    }
    Ok(())
}

/// Where the list of columns begins, in `CREATE TABLE name (`.
fn columns_of_table(tokens: &[TokenWithSpan]) -> Option<usize> {
    if !is(tokens, 0, "create") {
        return None;
    }
    let table = tokens.iter().take(4).position(|token| is_word(token, "table"))?;
    let from = if is(tokens, table + 1, "if") { table + 4 } else { table + 1 };
    behind_name(tokens, from).filter(|at| tokens.get(*at).is_some_and(|token| token.token == Token::LParen))
}

/// `LIKE t INCLUDING ...` among columns.
pub(super) fn likes(text: &str, tokens: &mut Vec<TokenWithSpan>) -> SqlResult<()> {
    let Some(open) = columns_of_table(tokens) else { return Ok(()) };
    let mut at = open + 1;
    loop {
        if is(tokens, at, "like") {
            let Some(end) = behind_name(tokens, at + 1) else { return Err(near(text, tokens.get(at + 1))) };
            let mut options = LIKE.to_owned();
            let mut last = end;
            while tokens.get(last).is_some_and(|token| is_any(token, &["including", "excluding"])) {
                let what = tokens.get(last + 1).filter(|what| {
                    is_any(what, &["all", "comments", "compression", "constraints", "defaults", "generated"])
                        || is_any(what, &["identity", "indexes", "statistics", "storage"])
                });
                let Some(what) = what else { return Err(near(text, tokens.get(last + 1))) };
                options += &format!(" {} {}", tokens[last], what).to_lowercase();
                last += 2;
            }
            let own = tokens[at].clone();
            // As a type's name it would mean others unless it is quoted.
            for token in &mut tokens[at + 1..end] {
                if let Token::Word(Word { value, quote_style: quote_style @ None, .. }) = &mut token.token {
                    *value = value.to_ascii_lowercase();
                    *quote_style = Some('"');
                }
            }
            tokens.drain(end..last);
            tokens[at] = mark_at(&own, &options);
        }
        // The next item.
        let mut depth = 0_usize;
        loop {
            match tokens.get(at).map(|token| &token.token) {
                Some(Token::LParen) => depth += 1,
                Some(Token::RParen) if 0 < depth => depth -= 1,
                Some(Token::Comma) if depth == 0 => break,
                Some(Token::RParen) | None => return Ok(()),
                _ => {}
            }
            at += 1;
        }
        at += 1;
    }
}

/// `CREATE TABLE name (a, b) AS`.
pub(super) fn untyped(_text: &str, tokens: &mut Vec<TokenWithSpan>) -> SqlResult<()> {
    let Some(open) = columns_of_table(tokens) else { return Ok(()) };
    let close = closing(tokens, open + 1);
    let is_list = tokens[open + 1..close.max(open + 1)].chunks(2).all(|two| {
        matches!(two[0].token, Token::Word(_)) && two.get(1).is_none_or(|comma| comma.token == Token::Comma)
    });
    let is_query = tokens[close..].iter().any(|token| is_word(token, "as"));
    if !is_list
        || !is_query
        || !tokens.get(close + 1).is_some_and(|next| is_any(next, &["as", "using", "with", "on", "tablespace"]))
    {
        return Ok(());
    }
    for at in (open + 1..close).rev() {
        if tokens[at].token != Token::Comma {
            let own = mark_at(&tokens[at], UNTYPED);
            tokens.insert(at + 1, own);
        }
    }
    Ok(())
}

/// `WITHOUT OIDS`, which no table has.
pub(super) fn oids(_text: &str, tokens: &mut Vec<TokenWithSpan>) -> SqlResult<()> {
    let makes = columns_of_table(tokens).is_some();
    let alters = is(tokens, 0, "alter") && is(tokens, 1, "table");
    if let Some(at) = tokens.windows(2).position(|two| is_word(&two[0], "without") && is_word(&two[1], "oids")) {
        if makes {
            tokens.drain(at..at + 2);
        } else if alters && 0 < at && is(tokens, at - 1, "set") {
            // As if there were nothing to set.
            let own = tokens[at].clone();
            tokens.splice(at..at + 2, super::alters::ignored(&own));
        }
    }
    Ok(())
}

/// `CREATE RECURSIVE VIEW name (columns) AS query`, which is a query with that name of its own.
pub(super) fn recursive_views(_text: &str, tokens: &mut Vec<TokenWithSpan>) -> SqlResult<()> {
    let at = if is(tokens, 1, "or") { 3 } else { 1 };
    if !is(tokens, 0, "create") || !is(tokens, at, "recursive") || !is(tokens, at + 1, "view") {
        return Ok(());
    }
    let Some(open) = behind_name(tokens, at + 2) else { return Ok(()) };
    let close = closing(tokens, open + 1);
    if tokens.get(open).is_none_or(|token| token.token != Token::LParen) || !is(tokens, close + 1, "as") {
        return Ok(());
    }
    let own = tokens[at].clone();
    let (name, columns) = (tokens[open - 1].clone(), tokens[open..=close].to_vec());
    let mut query = vec![word(&own, "with"), word(&own, "recursive"), name.clone()];
    query.extend(columns.iter().cloned());
    query.extend([word(&own, "as"), sign(&own, Token::LParen)]);
    query.extend(tokens.drain(close + 2..));
    query.extend([sign(&own, Token::RParen), word(&own, "select")]);
    query.extend(columns[1..columns.len() - 1].iter().cloned());
    query.extend([word(&own, "from"), name]);
    tokens.extend(query);
    tokens.remove(at);
    Ok(())
}
