//! Forms of expressions and small clauses that the library does not know, said as others that it knows.

use super::offset;
use super::paths::SEARCH_PATH;
use super::rewrite::{VALUES, closing, is_word, mark, mark_at, replace, sign, word};
use crate::lex::value::unescaped;
use sqlparser::ast;
use sqlparser::tokenizer::{Span, Token, TokenWithSpan, Word};
use statement::error::{SqlError, SqlResult, SqlState};
use statement::pulse;

fn is(tokens: &[TokenWithSpan], at: usize, word: &str) -> bool {
    tokens.get(at).is_some_and(|token| is_word(token, word))
}

fn is_sign(tokens: &[TokenWithSpan], at: usize, sign: &Token) -> bool {
    tokens.get(at).is_some_and(|token| token.token == *sign)
}

/// Where this word stands between two places, in no parentheses of their own.
fn find(tokens: &[TokenWithSpan], from: usize, to: usize, word: &str) -> Option<usize> {
    let mut depth = 0_usize;
    for (at, token) in tokens.iter().enumerate().take(to).skip(from) {
        match token.token {
            Token::LParen | Token::LBracket => depth += 1,
            Token::RParen | Token::RBracket => depth = depth.saturating_sub(1),
            _ if depth == 0 && is_word(token, word) => return Some(at),
            _ => {}
        }
    }
    None
}

/// `substring(a FOR n FROM m)`, `substring(a SIMILAR b ESCAPE c)`.
#[expect(clippy::ptr_arg, reason = "others of the table it stands in add tokens")]
pub(super) fn substrings(_text: &str, tokens: &mut Vec<TokenWithSpan>) -> SqlResult<()> {
    for at in (0..tokens.len()).rev() {
        pulse::tick(pulse::ITEM)?;
        if !is_word(&tokens[at], "substring") || !is_sign(tokens, at + 1, &Token::LParen) {
            continue;
        }
        pulse::tick(tokens.len())?;
        let close = closing(tokens, at + 2);
        let place = |tokens: &[TokenWithSpan], word| find(tokens, at + 2, close, word);
        if let (Some(similar), Some(escape)) = (place(tokens, "similar"), place(tokens, "escape")) {
            // `a SIMILAR TO b` is an expression.
            if !is(tokens, similar + 1, "to") {
                tokens[similar] = word(&tokens[similar], "from");
                tokens[escape] = word(&tokens[escape], "for");
            }
        }
        if let (Some(count), Some(from)) = (place(tokens, "for"), place(tokens, "from"))
            && count < from
        {
            tokens[count..close].rotate_left(from - count);
        }
    }
    Ok(())
}

/// `trim(LEADING FROM a)`, `trim(FROM a)`: of spaces.
pub(super) fn trims(_text: &str, tokens: &mut Vec<TokenWithSpan>) -> SqlResult<()> {
    for at in (0..tokens.len()).rev() {
        pulse::tick(pulse::ITEM)?;
        if !is_word(&tokens[at], "trim") || !is_sign(tokens, at + 1, &Token::LParen) {
            continue;
        }
        let side = ["leading", "trailing", "both"].iter().any(|side| is(tokens, at + 2, side));
        let from = at + 2 + usize::from(side);
        pulse::tick(tokens.len())?;
        let own = tokens[at].clone();
        if is(tokens, from, "from") {
            if side {
                tokens.insert(from, sign(&own, Token::SingleQuotedString(" ".to_owned())));
            } else {
                tokens.remove(from);
            }
        }
    }
    Ok(())
}

/// `a OPERATOR(pg_catalog.=) ANY (...)`: the library knows only the sign there.
pub(super) fn operators(_text: &str, tokens: &mut Vec<TokenWithSpan>) -> SqlResult<()> {
    for at in (0..tokens.len()).rev() {
        pulse::tick(pulse::ITEM)?;
        if !is_word(&tokens[at], "operator") || !is_sign(tokens, at + 1, &Token::LParen) {
            continue;
        }
        pulse::tick(tokens.len())?;
        let close = closing(tokens, at + 2);
        let named =
            at + 2 + 2 * usize::from(is(tokens, at + 2, "pg_catalog") && is_sign(tokens, at + 3, &Token::Period));
        // What rows are ordered by.
        let orders = 0 < at && is_word(&tokens[at - 1], "using");
        let quantified = orders || ["any", "all", "some"].iter().any(|word| is(tokens, close + 1, word));
        if quantified && named + 1 == close && close < tokens.len() {
            let operator = tokens[named].clone();
            tokens.splice(at..=close, [operator]);
        }
    }
    Ok(())
}

/// `extract('year' FROM a)`: the field is a word.
#[expect(clippy::ptr_arg, reason = "others of the table it stands in add tokens")]
pub(super) fn extracts(_text: &str, tokens: &mut Vec<TokenWithSpan>) -> SqlResult<()> {
    for at in 2..tokens.len() {
        pulse::tick(pulse::ITEM)?;
        if let Token::SingleQuotedString(field) = &tokens[at].token
            && is_word(&tokens[at - 2], "extract")
            && tokens[at - 1].token == Token::LParen
            && field.chars().all(|letter| letter.is_ascii_alphabetic())
        {
            tokens[at] = word(&tokens[at], &field.clone());
        }
    }
    Ok(())
}

/// `a IN ((SELECT b), c)`, `a IN ((SELECT b) + 1)`: values of which the first begins with a query, which the library takes for
/// all there is. A mark before them, which is no query, tells it that they are a list.
pub(super) fn lists(_text: &str, tokens: &mut Vec<TokenWithSpan>) -> SqlResult<()> {
    const QUERIES: [&str; 4] = ["select", "with", "values", "table"];
    const GOES_ON: [&str; 8] = ["union", "intersect", "except", "order", "limit", "offset", "fetch", "for"];
    for at in (0..tokens.len()).rev() {
        pulse::tick(pulse::ITEM)?;
        let first = at + 2;
        let is_list = is_word(&tokens[at], "in") && is_sign(tokens, at + 1, &Token::LParen);
        if !is_list || !is_sign(tokens, first, &Token::LParen) {
            continue;
        }
        pulse::tick(tokens.len())?;
        let begin = (first..tokens.len()).find(|place| !is_sign(tokens, *place, &Token::LParen)).unwrap_or(first);
        let next = closing(tokens, first + 1) + 1;
        let is_query = is_sign(tokens, next, &Token::RParen) || GOES_ON.iter().any(|word| is(tokens, next, word));
        if !is_query && QUERIES.iter().any(|word| is(tokens, begin, word)) {
            let own = &tokens[first];
            let mark = [mark_at(own, VALUES), sign(own, Token::Comma)];
            tokens.splice(first..first, mark);
        }
    }
    Ok(())
}

/// `ROLLUP ((a)::text, (b) + 1)`, `GROUPING SETS ((a)::text)`: an expression that begins with a parenthesis, which the library
/// takes for a list.
pub(super) fn set_items(text: &str, tokens: &mut Vec<TokenWithSpan>) -> SqlResult<()> {
    for at in (0..tokens.len()).rev() {
        pulse::tick(pulse::ITEM)?;
        let is_set = ["rollup", "cube"].iter().any(|word| is_word(&tokens[at], word))
            || is_word(&tokens[at], "sets") && 0 < at && is_word(&tokens[at - 1], "grouping");
        if !is_set || !is_sign(tokens, at + 1, &Token::LParen) {
            continue;
        }
        pulse::tick(tokens.len())?;
        let first = at + 2;
        let mut end = closing(tokens, first);
        let mut depth = 0_usize;
        // Backwards, so that what is added moves nothing that is still to be looked at.
        for start in (first..end).rev() {
            match tokens[start].token {
                Token::RParen | Token::RBracket => depth += 1,
                Token::LParen | Token::LBracket => depth = depth.saturating_sub(1),
                _ => {}
            }
            let is_comma = depth == 0 && tokens[start].token == Token::Comma;
            if !is_comma && start != first {
                continue;
            }
            let item = if is_comma { start + 1 } else { start };
            pulse::tick(tokens.len())?;
            // Only among GROUPING SETS is nothing a set.
            if !is_word(&tokens[at], "sets")
                && is_sign(tokens, item, &Token::LParen)
                && is_sign(tokens, item + 1, &Token::RParen)
            {
                return Err(super::near(text, tokens.get(item + 1)));
            }
            let is_query = is_sign(tokens, item, &Token::LParen) && super::queries::is_query(tokens, item + 1);
            if is_sign(tokens, item, &Token::LParen) && (is_query || closing(tokens, item + 1) + 1 < end) {
                let own = tokens[item].clone();
                tokens.insert(end, sign(&own, Token::RParen));
                tokens.insert(item, own);
            }
            end = start;
        }
    }
    Ok(())
}

/// `ROWS '1'::bigint PRECEDING`: the library takes a text for the whole of an interval there.
pub(super) fn frame_bounds(_text: &str, tokens: &mut Vec<TokenWithSpan>) -> SqlResult<()> {
    const UNITS: [&str; 3] = ["rows", "range", "groups"];
    const SIDES: [&str; 2] = ["preceding", "following"];
    let mut edits = Vec::new();
    for at in 1..tokens.len() {
        pulse::tick(pulse::ITEM)?;
        let before = |back: usize, words: &[&str]| {
            at.checked_sub(back).is_some_and(|at| words.iter().any(|word| is_word(&tokens[at], word)))
        };
        let is_bound = before(1, &UNITS)
            || before(1, &["between"]) && before(2, &UNITS)
            || before(1, &["and"]) && (before(2, &SIDES) || before(2, &["row"]));
        let is_text = matches!(tokens[at].token, Token::SingleQuotedString(_));
        if !is_bound || !is_text || !is_sign(tokens, at + 1, &Token::DoubleColon) {
            continue;
        }
        pulse::tick(tokens.len())?;
        let mut depth = 0_usize;
        for (end, token) in tokens.iter().enumerate().skip(at + 1) {
            match token.token {
                Token::LParen | Token::LBracket => depth += 1,
                Token::RParen | Token::RBracket | Token::Comma if depth == 0 => break,
                Token::RParen | Token::RBracket => depth -= 1,
                _ if depth == 0 && is_word(token, "and") => break,
                _ if depth == 0 && SIDES.iter().any(|word| is_word(token, word)) => {
                    edits.push((at..at, vec![sign(&tokens[at], Token::LParen)]));
                    edits.push((end..end, vec![sign(token, Token::RParen)]));
                    break;
                }
                _ => {}
            }
        }
    }
    // One may stand within another.
    edits.sort_by_key(|(range, _)| range.start);
    replace(tokens, edits);
    Ok(())
}

/// `GROUPING SETS (a, ROLLUP (b))`
///
/// # Errors
/// `0A000`, where the binder would look for a function of that name.
#[expect(clippy::ptr_arg, reason = "others of the table it stands in add tokens")]
pub(super) fn refuse_nested_sets(text: &str, tokens: &mut Vec<TokenWithSpan>) -> SqlResult<()> {
    for at in 0..tokens.len() {
        pulse::tick(pulse::ITEM)?;
        if !is_word(&tokens[at], "grouping") || !is(tokens, at + 1, "sets") {
            continue;
        }
        pulse::tick(tokens.len())?;
        let nested = (at + 3..closing(tokens, at + 3))
            .find(|at| ["rollup", "cube", "grouping"].iter().any(|word| is(tokens, *at, word)));
        if let Some(nested) = nested {
            let place = super::position(text, tokens[nested].span.start);
            return Err(SqlError::unsupported("ROLLUP, CUBE or GROUPING SETS in GROUPING SETS").at(place));
        }
    }
    Ok(())
}

/// # Errors
/// `0A000`: there is no type of times with a zone.
#[expect(clippy::ptr_arg, reason = "others of the table it stands in add tokens")]
pub(super) fn refuse_current_time(text: &str, tokens: &mut Vec<TokenWithSpan>) -> SqlResult<()> {
    for at in 1..tokens.len() {
        pulse::tick(pulse::ITEM)?;
        let is_name = tokens[at - 1].token == Token::Period || is_word(&tokens[at - 1], "as");
        if is_word(&tokens[at], "current_time") && !is_name {
            return Err(SqlError::unsupported("CURRENT_TIME").at(super::position(text, tokens[at].span.start)));
        }
    }
    Ok(())
}

/// # Errors
/// `0A000`: `LIKE ALL`, which the library takes for a function.
#[expect(clippy::ptr_arg, reason = "others of the table it stands in add tokens")]
pub(super) fn refuse_like_all(text: &str, tokens: &mut Vec<TokenWithSpan>) -> SqlResult<()> {
    for at in 1..tokens.len() {
        pulse::tick(pulse::ITEM)?;
        let likes = is_word(&tokens[at - 1], "like") || is_word(&tokens[at - 1], "ilike");
        if likes && is_word(&tokens[at], "all") && is_sign(tokens, at + 1, &Token::LParen) {
            return Err(SqlError::unsupported("LIKE ALL").at(super::position(text, tokens[at].span.start)));
        }
    }
    Ok(())
}

/// `COLLATE "C"` where the library does not take it: behind a cast, in an index, in `ALTER TABLE` and `ON CONFLICT`. All
/// collations that are here are that one.
pub(super) fn collations(_text: &str, tokens: &mut Vec<TokenWithSpan>) -> SqlResult<()> {
    const OURS: &[&str] = &["C", "POSIX", "default", "ucs_basic"];
    let has = |words: [&str; 2]| tokens.windows(2).any(|two| is_word(&two[0], words[0]) && is_word(&two[1], words[1]));
    let in_list =
        [["create", "index"], ["unique", "index"], ["alter", "table"], ["on", "conflict"]].into_iter().any(has);
    let mut edits = Vec::new();
    for at in 1..tokens.len() {
        pulse::tick(pulse::ITEM)?;
        let is_taken = !(in_list || 2 <= at && is_sign(tokens, at - 2, &Token::DoubleColon));
        if is_taken || !is_word(&tokens[at], "collate") || is_sign(tokens, at - 1, &Token::Period) {
            continue;
        }
        let schema = is(tokens, at + 1, "pg_catalog") && is_sign(tokens, at + 2, &Token::Period);
        let name = at + 1 + 2 * usize::from(schema);
        let is_ours = tokens.get(name).is_some_and(|token| match &token.token {
            Token::Word(word) if word.quote_style.is_some() => OURS.contains(&&*word.value),
            Token::Word(word) => OURS[2..].iter().any(|own| word.value.eq_ignore_ascii_case(own)),
            _ => false,
        });
        if is_ours {
            edits.push((at..name + 1, Vec::new()));
        }
    }
    replace(tokens, edits);
    Ok(())
}

/// `a ISNULL`, `a NOTNULL`, which the library takes for names of columns.
pub(super) fn null_tests(_text: &str, tokens: &mut Vec<TokenWithSpan>) -> SqlResult<()> {
    let mut edits = Vec::new();
    for at in 1..tokens.len() {
        pulse::tick(pulse::ITEM)?;
        let nots = is_word(&tokens[at], "notnull");
        let is_name = is_word(&tokens[at - 1], "as") || is_sign(tokens, at - 1, &Token::Period);
        let is_test = nots || is_word(&tokens[at], "isnull");
        if !is_test || is_name || is_sign(tokens, at + 1, &Token::LParen) {
            continue;
        }
        let own = tokens[at].clone();
        let words: &[&str] = if nots { &["is", "not", "null"] } else { &["is", "null"] };
        edits.push((at..at + 1, words.iter().map(|one| word(&own, one)).collect()));
    }
    replace(tokens, edits);
    Ok(())
}

/// Types that the library does not know; a text behind one of them it takes for the name of a column.
const TYPES: &[&str] = &[
    "bpchar",
    "box",
    "cidr",
    "circle",
    "daterange",
    "inet",
    "int4range",
    "int8range",
    "jsonpath",
    "line",
    "lseg",
    "macaddr",
    "macaddr8",
    "money",
    "name",
    "numrange",
    "oid",
    "pg_lsn",
    "point",
    "polygon",
    "regclass",
    "regproc",
    "regrole",
    "regtype",
    "tsquery",
    "tsrange",
    "tstzrange",
    "tsvector",
    "xml",
];

/// `interval(2) '…'` as `'…'::interval(2)`: the library loses the precision.
pub(super) fn interval_precisions(_text: &str, tokens: &mut Vec<TokenWithSpan>) -> SqlResult<()> {
    for at in (0..tokens.len()).rev() {
        pulse::tick(pulse::ITEM)?;
        let is_it = is_word(&tokens[at], "interval")
            && is_sign(tokens, at + 1, &Token::LParen)
            && is_sign(tokens, at + 3, &Token::RParen)
            && tokens.get(at + 4).is_some_and(|token| matches!(token.token, Token::SingleQuotedString(_)));
        if is_it {
            pulse::tick(tokens.len())?;
            tokens[at..at + 5].rotate_right(1);
            let cast = sign(&tokens[at], Token::DoubleColon);
            tokens.insert(at + 1, cast);
        }
    }
    Ok(())
}

/// `type 'text'` is a cast.
pub(super) fn typed_texts(_text: &str, tokens: &mut Vec<TokenWithSpan>) -> SqlResult<()> {
    let mut edits = Vec::new();
    for at in 1..tokens.len() {
        pulse::tick(pulse::ITEM)?;
        let is_text = matches!(tokens[at].token, Token::SingleQuotedString(_));
        if !is_text || !TYPES.iter().any(|name| is_word(&tokens[at - 1], name)) {
            continue;
        }
        let is_alias = 2 <= at && (is_word(&tokens[at - 2], "as") || is_sign(tokens, at - 2, &Token::Period));
        if !is_alias {
            let (of, own) = (tokens[at - 1].clone(), tokens[at].clone());
            let (open, close) = (sign(&of, Token::LParen), sign(&own, Token::RParen));
            let cast = vec![word(&of, "cast"), open, own.clone(), word(&own, "as"), of, close];
            edits.push((at - 1..at + 1, cast));
        }
    }
    replace(tokens, edits);
    Ok(())
}

/// `SET TIME ZONE LOCAL`
pub(super) fn local_zone(_text: &str, tokens: &mut Vec<TokenWithSpan>) -> SqlResult<()> {
    if let [set, .., time, zone, local] = &mut tokens[..]
        && is_word(set, "set")
        && is_word(time, "time")
        && is_word(zone, "zone")
        && (is_word(local, "local") || is_word(local, "default"))
    {
        *local = word(local, "default");
        let own = word(zone, "timezone");
        let at = tokens.len() - 3;
        tokens.splice(at..at + 2, [own.clone(), word(&own, "to")]);
    }
    Ok(())
}

/// `RESET TIME ZONE`, `RESET TRANSACTION ISOLATION LEVEL`, `SHOW SESSION AUTHORIZATION`.
pub(super) fn resets(_text: &str, tokens: &mut Vec<TokenWithSpan>) -> SqlResult<()> {
    if is(tokens, 0, "reset") && is(tokens, 1, "time") && is(tokens, 2, "zone") {
        let own = tokens[1].clone();
        tokens.splice(1..3, [word(&own, "timezone")]);
    } else if is(tokens, 0, "show") && is(tokens, 1, "session") && is(tokens, 2, "authorization") {
        let own = tokens[1].clone();
        tokens.splice(1..3, [word(&own, "session_authorization")]);
    } else if is(tokens, 0, "reset")
        && is(tokens, 1, "transaction")
        && is(tokens, 2, "isolation")
        && is(tokens, 3, "level")
    {
        let own = tokens[1].clone();
        tokens.splice(1..4, [word(&own, "transaction_isolation")]);
    }
    Ok(())
}

/// `SET ROLE NONE` and `SET SESSION AUTHORIZATION DEFAULT`, `RESET SESSION AUTHORIZATION`: all mean the user that logged in,
/// which is the only one that a session ever is.
pub(super) fn own_role(_text: &str, tokens: &mut Vec<TokenWithSpan>) -> SqlResult<()> {
    let at = 1 + usize::from(is(tokens, 1, "local") || is(tokens, 1, "session") && !is(tokens, 2, "authorization"));
    let ends = |end: usize| tokens[end..].iter().all(|token| matches!(token.token, Token::SemiColon | Token::EOF));
    let is_none = |at: usize| {
        let is_text = |token: &TokenWithSpan| matches!(&token.token, Token::SingleQuotedString(text) if text == "none");
        is(tokens, at, "none") || tokens.get(at).is_some_and(is_text)
    };
    let is_own = |name: usize, value: usize| {
        is(tokens, name, "role") && is_none(value)
            || is(tokens, name, "session") && is(tokens, name + 1, "authorization") && is(tokens, value, "default")
    };
    let value = at + 1 + usize::from(is(tokens, at, "session"));
    // In quotes it is the name of a setting, and no keyword to the parser.
    let role = |at: &TokenWithSpan| TokenWithSpan { token: Token::make_word("role", Some('"')), span: at.span };
    if is(tokens, 0, "set") && is_own(at, value) && ends(value + 1) {
        let own = tokens[at].clone();
        tokens.splice(at..=value, [role(&own), word(&own, "to"), word(&own, "none")]);
    } else if is(tokens, 0, "reset") && is(tokens, 1, "session") && is(tokens, 2, "authorization") && ends(3) {
        let own = tokens[1].clone();
        tokens.splice(1..3, [role(&own)]);
    }
    Ok(())
}

/// `SET SCHEMA 'name'` is about the path.
pub(super) fn set_schema(_text: &str, tokens: &mut Vec<TokenWithSpan>) -> SqlResult<()> {
    let at = 1 + usize::from(is(tokens, 1, "local") || is(tokens, 1, "session"));
    let names = tokens.get(at + 1).is_some_and(|token| matches!(token.token, Token::SingleQuotedString(_)));
    if is(tokens, 0, "set") && is(tokens, at, "schema") && names {
        let own = tokens[at].clone();
        tokens.splice(at..=at, [word(&own, SEARCH_PATH), word(&own, "to")]);
    }
    Ok(())
}

/// `FOR READ ONLY`, which locks nothing.
pub(super) fn read_only(_text: &str, tokens: &mut Vec<TokenWithSpan>) -> SqlResult<()> {
    let found = tokens
        .windows(3)
        .position(|three| is_word(&three[0], "for") && is_word(&three[1], "read") && is_word(&three[2], "only"));
    if let Some(at) = found {
        tokens.drain(at..at + 3);
    }
    Ok(())
}

/// First name of a `DROP INDEX CONCURRENTLY`.
const CONCURRENTLY: &str = "concurrently";

/// `DROP INDEX CONCURRENTLY`, as one of another index besides, which has the name of a mark.
pub(super) fn drop_index(_text: &str, tokens: &mut Vec<TokenWithSpan>) -> SqlResult<()> {
    if is(tokens, 0, "drop") && is(tokens, 1, "index") && is(tokens, 2, "concurrently") {
        let own = tokens.remove(2);
        let at = if is(tokens, 2, "if") && is(tokens, 3, "exists") { 4 } else { 2 };
        tokens.splice(at..at, [mark_at(&own, CONCURRENTLY), sign(&own, Token::Comma)]);
    }
    Ok(())
}

/// Whether a `DROP INDEX` of these names is one that is concurrent.
pub fn is_concurrent(names: &[ast::ObjectName]) -> bool {
    match names.first().map(|name| &name.0[..]) {
        Some([ast::ObjectNamePart::Identifier(ident)]) => mark(ident) == Some(CONCURRENTLY),
        _ => false,
    }
}

/// `NATIONAL CHARACTER`, `NCHAR`.
pub(super) fn nationals(_text: &str, tokens: &mut Vec<TokenWithSpan>) -> SqlResult<()> {
    for at in (0..tokens.len()).rev() {
        pulse::tick(pulse::ITEM)?;
        let is_column = at.checked_sub(1).is_none_or(|before| {
            matches!(tokens[before].token, Token::LParen | Token::Comma)
                || ["add", "column", "exists"].into_iter().any(|word| is_word(&tokens[before], word))
        });
        if is_word(&tokens[at], "national")
            && !is_column
            && (is(tokens, at + 1, "character") || is(tokens, at + 1, "char"))
        {
            tokens.remove(at);
        } else if is_word(&tokens[at], "nchar") && is_sign(tokens, at + 1, &Token::LParen) {
            tokens[at] = word(&tokens[at], "char");
        }
    }
    Ok(())
}

/// The character of `UESCAPE`.
fn uescape(text: &str, token: Option<&TokenWithSpan>) -> SqlResult<char> {
    let Some(token) = token else { return Err(super::near(text, None)) };
    let error = |message: &str| {
        let near = &text[offset(text, token.span.start)..offset(text, token.span.end)];
        let message = format!("{message} at or near \"{near}\"");
        SqlError::new(SqlState::SYNTAX_ERROR, message).at(super::position(text, token.span.start))
    };
    let Token::SingleQuotedString(escape) = &token.token else {
        return Err(error("UESCAPE must be followed by a simple string literal"));
    };
    let mut characters = escape.chars();
    match (characters.next(), characters.next()) {
        (Some(one), None) if !one.is_ascii_hexdigit() && !one.is_ascii_whitespace() && !"+'\"".contains(one) => Ok(one),
        _ => Err(error("invalid Unicode escape character")),
    }
}

/// `U&'...'` and `U&"..."`, perhaps with `UESCAPE '!'`.
pub(super) fn unicode(text: &str, tokens: &mut Vec<TokenWithSpan>) -> SqlResult<()> {
    let mut at = 0;
    while let Some([u, and, quoted, ..]) = tokens.get(at..) {
        let touches = |one: &TokenWithSpan, next: &TokenWithSpan| one.span.end == next.span.start;
        let is_escaped = is_word(u, "u") && and.token == Token::Ampersand && touches(u, and) && touches(and, quoted);
        let raw = match &quoted.token {
            Token::SingleQuotedString(raw) => Some(raw),
            Token::Word(word) if word.quote_style == Some('"') => Some(&word.value),
            _ => None,
        };
        let Some(raw) = raw.filter(|_| is_escaped) else {
            at += 1;
            continue;
        };
        let (escape, end) = match is(tokens, at + 3, "uescape") {
            true => (uescape(text, tokens.get(at + 4))?, at + 5),
            false => ('\\', at + 3),
        };
        let place = super::position(text, u.span.start);
        let value = unescaped(raw, escape, place + 3)?;
        let span = Span::new(u.span.start, quoted.span.end);
        let token = match &quoted.token {
            Token::Word(_) if value.is_empty() => {
                let message = "zero-length delimited identifier at or near \"U&\"\"\"";
                return Err(SqlError::new(SqlState::SYNTAX_ERROR, message).at(place));
            }
            Token::Word(word) => {
                let mut word = Word { value, ..word.clone() };
                super::names::shortened(&mut word);
                Token::Word(word)
            }
            _ => Token::SingleQuotedString(value),
        };
        tokens.splice(at..end, [TokenWithSpan { token, span }]);
        at += 1;
    }
    Ok(())
}
