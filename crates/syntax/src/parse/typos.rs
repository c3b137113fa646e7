//! Which word a syntax error is near: the first one with which no statement goes on.
//!
//! PostgreSQL's parser stops there by its nature. The library's tries one thing after another, and tells of the failure of the last,
//! which may be words before or behind. So its word is only where the search begins:
//!
//! - it goes forward while the text up to a word can be completed to a statement, by trying a few ways to go on;
//! - it goes back to what the library takes, and PostgreSQL does not: some words never follow some others.
//!
//! **Invariant:** but for [`check`], this is asked only of a statement that has failed, and the work of its trials is bounded.

use super::{at_end, near, position};
use sqlparser::keywords::Keyword;
use sqlparser::tokenizer::{Location, Span, Token, TokenWithSpan};
use statement::error::{SqlError, SqlResult, SqlState};
use statement::pulse;
use std::cell::Cell;

/// Statements of more words are told as the library tells them.
const WORDS_MAX: usize = 300;
/// And statements in texts of more bytes: to count up to a word takes time.
const TEXT_MAX: usize = 100_000;
/// So many words are parsed in all trials together, which takes a hundredth of a second or two.
const PARSED_MAX: usize = 50_000;

/// Ways to go on, before what is open is closed.
const GOING_ON: &[&str] = &[
    "",
    "x",
    "= x",
    "1",
    "x, x",
    "by x",
    "x by x",
    "end",
    "then x end",
    "x then x end",
    "x end",
    "when x then x end",
    "as x",
    "from x",
    "x from x",
    "int",
    "as int",
    "null",
    "key",
    "(x)",
    "(x, x)",
    "in x",
    "and x",
    "join x on x",
    "x on x",
    "on x",
    "x = x",
    "set x = x",
    "select 1",
    "as (select 1) select 1",
    "values (1)",
    "(select 1)",
    "row",
    "rows only",
    "table x",
    "into x values (1)",
    "nothing",
    "to x",
    "for select 1",
    "level serializable",
    "default 1",
];

/// Words that begin no value and no name.
const NEVER_FIRST: &[&str] = &[
    "from",
    "where",
    "group",
    "having",
    "order",
    "limit",
    "offset",
    "fetch",
    "union",
    "intersect",
    "except",
    "and",
    "or",
    "as",
    "asc",
    "desc",
    "then",
    "else",
    "end",
    "when",
    "using",
    "into",
    "returning",
    "window",
];

/// Words behind which a value stands.
const BEFORE_VALUES: &[&str] =
    &["where", "and", "or", "having", "by", "when", "then", "else", "between", "like", "ilike", "set"];

/// What a statement that has failed is told, whatever the library said.
pub(super) fn told(text: &str, piece: &[TokenWithSpan], error: SqlError) -> SqlError {
    if error.state() != SqlState::SYNTAX_ERROR || !error.message().starts_with("syntax error") {
        return error;
    }
    let is_word = |token: &&TokenWithSpan| !matches!(token.token, Token::Whitespace(_) | Token::EOF);
    let words: Vec<&TokenWithSpan> = piece.iter().filter(is_word).collect();
    if WORDS_MAX < words.len() || TEXT_MAX < text.len() {
        return error;
    }
    let left = Cell::new(PARSED_MAX);
    let place = error.position();
    let first = match place {
        Some(place) => words.iter().position(|word| position(text, word.span.start) == place),
        None => None,
    };
    // Nobody says where: from the beginning on.
    let begin = first.unwrap_or(if place.is_some() { words.len() } else { 0 });
    let mut found = begin;
    if begin < words.len() && can_go_on(text, &words, &left) {
        found = words.len();
    } else {
        while found < words.len() && can_go_on(text, &words[..=found], &left) {
            found += 1;
        }
    }
    // The library gives back a word that it took for the first of two.
    if is_one_of(words.get(found), &["group", "order", "primary", "partition", "unique"])
        && never_follows(&words, found + 1)
    {
        found += 1;
    }
    let impossible = (1..=words.len()).find(|at| never_follows(&words, *at));
    let found = impossible.map_or(found, |impossible| impossible.min(found.max(begin)));
    if place.is_none() && found == 0 {
        return error;
    }
    match words.get(found) {
        Some(word) => near(text, Some(word)),
        None => at_end(text),
    }
}

/// # Errors
/// `42601` for a number that a letter follows: `1from` is no number and a word.
fn check_numbers(text: &str, piece: &[TokenWithSpan]) -> SqlResult<()> {
    let mut tokens = pulse::walked(piece).peekable();
    while let Some(token) = tokens.next() {
        // It is an `x'...'`, too, which is longer.
        let Span { start, end } = token.span;
        if let Token::HexStringLiteral(digits) = &token.token
            && end == (Location { column: start.column + 2 + digits.len() as u64, ..start })
        {
            let message = format!("trailing junk after numeric literal at or near \"0x{digits}\"");
            return Err(SqlError::new(SqlState::SYNTAX_ERROR, message).at(position(text, token.span.start)));
        }
        let (Token::Number(digits, false), Some(next)) = (&token.token, tokens.peek()) else { continue };
        let Token::Word(word) = &next.token else { continue };
        if word.quote_style.is_none() && token.span.end == next.span.start {
            let message = format!("trailing junk after numeric literal at or near \"{digits}{}\"", word.value);
            return Err(SqlError::new(SqlState::SYNTAX_ERROR, message).at(position(text, token.span.start)));
        }
    }
    Ok(())
}

/// # Errors
/// `42601` for a clause that begins where a value is wanted: the library takes its first word for a column's name.
pub(super) fn check(text: &str, piece: &[TokenWithSpan]) -> SqlResult<()> {
    check_numbers(text, piece)?;
    // The word before, and the one before that.
    let (mut before, mut further) = (None::<&TokenWithSpan>, None::<&TokenWithSpan>);
    for token in pulse::walked(piece) {
        match &token.token {
            Token::Whitespace(_) => continue,
            Token::Word(word) if word.quote_style.is_none() => {
                let begins_clause = matches!(
                    word.keyword,
                    Keyword::FROM
                        | Keyword::WHERE
                        | Keyword::GROUP
                        | Keyword::ORDER
                        | Keyword::HAVING
                        | Keyword::LIMIT
                        | Keyword::UNION
                );
                let wants_value = matches!(
                    before.map(|before| &before.token),
                    Some(
                        Token::Comma
                            | Token::Plus
                            | Token::Minus
                            | Token::Div
                            | Token::Mod
                            | Token::Eq
                            | Token::Neq
                            | Token::Lt
                            | Token::Gt
                            | Token::LtEq
                            | Token::GtEq
                            | Token::StringConcat
                            | Token::DoubleColon
                    )
                );
                // Behind a name it is no star of a select list. (That of `FROM t *` may have any clause but this behind it.)
                let multiplies = word.keyword == Keyword::FROM
                    && before.is_some_and(|before| before.token == Token::Mul)
                    && matches!(further.map(|one| &one.token), Some(Token::Word(name)) if name.keyword == Keyword::NoKeyword);
                if begins_clause && (wants_value || multiplies) {
                    // Of a list without a first value the comma is wrong already.
                    let is_select = matches!(further.map(|one| &one.token), Some(Token::Word(word)) if word.keyword == Keyword::SELECT);
                    return Err(near(text, if is_select { before } else { Some(token) }));
                }
            }
            _ => {}
        }
        (further, before) = (before, Some(token));
    }
    Ok(())
}

/// Whether there is a statement that begins with these words.
fn can_go_on(text: &str, words: &[&TokenWithSpan], left: &Cell<usize>) -> bool {
    let (Some(first), Some(last)) = (words.first(), words.last()) else { return true };
    let written = &text[super::offset(text, first.span.start)..super::offset(text, last.span.end)];
    let mut open = Vec::new();
    for word in words {
        match &word.token {
            Token::LParen => open.push(" )"),
            Token::LBracket => open.push(" ]"),
            Token::RParen | Token::RBracket => drop(open.pop()),
            _ => {}
        }
    }
    open.reverse();
    let closing = open.concat();
    let is_statement = |text: &str| {
        left.set(left.get().saturating_sub(words.len()));
        0 < left.get() && super::is_syntax(text)
    };
    GOING_ON.iter().any(|more| {
        let begun = format!("{written} {more}{closing}");
        is_statement(&begun) || (!closing.is_empty() && is_statement(&format!("{begun} x")))
    })
}

fn is_one_of(word: Option<&&TokenWithSpan>, of: &[&str]) -> bool {
    matches!(word.map(|word| &word.token), Some(Token::Word(word))
        if word.quote_style.is_none() && of.iter().any(|one| word.value.eq_ignore_ascii_case(one)))
}

/// Whether the word at this place, or the end, can never stand behind the one before it.
fn never_follows(words: &[&TokenWithSpan], at: usize) -> bool {
    let (before, word) = (words.get(at - 1), words.get(at));
    let is_sign = |of: &[Token]| before.is_some_and(|before| of.contains(&before.token));
    let further = at.checked_sub(2).and_then(|at| words.get(at));
    let needs = |first: &[&str], second: &[&str]| is_one_of(before, first) && !is_one_of(word, second);
    if needs(&["group", "order"], &["by"]) && further.is_none_or(|one| one.token != Token::Period) {
        return !is_one_of(further, &["within"]) || is_one_of(before, &["order"]);
    }
    if needs(&["primary"], &["key"]) && !is_sign(&[Token::Period]) && is_one_of(words.first(), &["create", "alter"]) {
        return true;
    }
    // Of a window.
    if needs(&["partition"], &["by"]) && further.is_some_and(|one| one.token == Token::LParen) {
        return at.checked_sub(3).is_some_and(|at| is_one_of(words.get(at), &["over", "as"]));
    }
    if at == 2 && is_one_of(further, &["create"]) && needs(&["unique"], &["index"]) {
        return true;
    }
    if at == 1 && (needs(&["insert"], &["into"]) || needs(&["delete"], &["from"])) {
        return true;
    }
    let Some(word) = word else { return false };
    if at == 3 && is_one_of(words.first(), &["insert"]) && is_one_of(Some(word), &["set", "value"]) {
        return true;
    }
    if is_one_of(before, &["constraint"]) && is_one_of(Some(word), &["primary", "unique", "check", "foreign"]) {
        return true;
    }
    if is_sign(&[Token::LParen]) && is_one_of(further, &["filter"]) && !is_one_of(Some(word), &["where"]) {
        return true;
    }
    if is_sign(&[Token::Comma]) && is_one_of(Some(word), &["select"]) && !is_one_of(words.first(), &["grant", "revoke"])
    {
        return true;
    }
    let is_closing = matches!(word.token, Token::RParen | Token::Comma);
    if (is_closing && is_one_of(before, &["not"]))
        || (is_one_of(Some(word), &["distinct"]) && is_one_of(before, &["all"]))
    {
        return true;
    }
    let signs = [Token::Comma, Token::Plus, Token::Minus, Token::Div, Token::Eq, Token::Neq, Token::Lt, Token::Gt];
    if is_one_of(Some(word), NEVER_FIRST) && (is_sign(&signs) || is_one_of(before, BEFORE_VALUES)) {
        return true;
    }
    if is_one_of(before, &["case"]) && is_one_of(Some(word), &["then", "else", "end"]) {
        return true;
    }
    // Behind a value it must be a part of one of these.
    let is_value = before.is_some_and(|before| match &before.token {
        Token::Word(name) => {
            name.quote_style.is_some() || !(super::is_reserved(&name.value) || is_one_of(Some(before), &["is", "if"]))
        }
        token => matches!(token, Token::Number(..) | Token::SingleQuotedString(_) | Token::RParen),
    });
    if is_one_of(Some(word), &["not"])
        && is_value
        && is_one_of(words.first(), &["select", "insert", "update", "delete", "with", "values"])
    {
        return !is_one_of(words.get(at + 1), &["between", "in", "like", "ilike", "similar", "null", "materialized"]);
    }
    // All columns have no name of their own.
    let is_all = is_sign(&[Token::Mul])
        && (is_one_of(further, &["select", "all", "distinct"])
            || further.is_some_and(|one| matches!(one.token, Token::Comma | Token::Period)));
    is_all && matches!(&word.token, Token::Word(name) if name.quote_style.is_some() || !super::is_reserved(&name.value))
}
