//! What PostgreSQL's grammar has and the library's has not, said in the library's words: tokens are put in other places, taken
//! out, or put in. What the tree has no place for at all is put in as a *mark*.
//!
//! **Invariant:** a token that was put in has the place of one that the client wrote, so an error names what is there. A mark is
//! an identifier that begins with a NUL, which no text of a client has.

use super::paths::SEARCH_PATH;
use sqlparser::ast;
use sqlparser::keywords::{ALL_KEYWORDS, ALL_KEYWORDS_INDEX, Keyword};
use sqlparser::tokenizer::{Token, TokenWithSpan, Whitespace, Word};
use statement::error::{SqlError, SqlResult, SqlState};
use statement::pulse;
use std::ops::Range;

/// What begins a mark.
const MARK: char = '\0';
/// `FOR NO KEY UPDATE`, which stands as an `UPDATE` of this.
pub const NO_KEY_UPDATE: &str = "no key update";
/// `FOR KEY SHARE`, which stands as a `SHARE` of this.
pub const KEY_SHARE: &str = "key share";
/// The function that stands for the lower bound of `BETWEEN SYMMETRIC`.
pub const SYMMETRIC: &str = "symmetric";
/// First of the values of an `IN` that the library would take for a query.
pub const VALUES: &str = "values";
/// `USING (...) AS alias`, where it stands as one more column, of this.
pub const JOIN_ALIAS: &str = "join alias";
/// `EXCLUDE` of a window's frame, which stands as what rows are parted by first.
pub const EXCLUDES: &[&str] = &["exclude current row", "exclude group", "exclude ties", "exclude no others"];

/// What a mark says.
pub fn mark(ident: &ast::Ident) -> Option<&str> {
    ident.value.strip_prefix(MARK)
}

/// A mark's text.
pub(crate) fn marking(what: &str) -> String {
    format!("{MARK}{what}")
}

/// The same of an expression.
pub fn marked(expr: &ast::Expr) -> Option<&str> {
    match expr {
        ast::Expr::Identifier(ident) => mark(ident),
        _ => None,
    }
}

/// The lower bound of a `BETWEEN SYMMETRIC`.
pub fn symmetric(low: &ast::Expr) -> Option<&ast::Expr> {
    let ast::Expr::Function(ast::Function { name, args: ast::FunctionArguments::List(list), .. }) = low else {
        return None;
    };
    let [ast::ObjectNamePart::Identifier(name)] = &name.0[..] else { return None };
    match (mark(name), &list.args[..]) {
        (Some(SYMMETRIC), [ast::FunctionArg::Unnamed(ast::FunctionArgExpr::Expr(low))]) => Some(low),
        _ => None,
    }
}

/// Whether it is this word, not quoted.
pub(super) fn is_word(token: &TokenWithSpan, word: &str) -> bool {
    matches!(&token.token, Token::Word(found) if found.quote_style.is_none() && found.value.eq_ignore_ascii_case(word))
}

fn is_space(token: &TokenWithSpan) -> bool {
    matches!(token.token, Token::Whitespace(_))
}

/// A word in the place of another token.
pub(super) fn word(at: &TokenWithSpan, word: &str) -> TokenWithSpan {
    let upper = word.to_uppercase();
    let keyword = ALL_KEYWORDS.binary_search(&&*upper).map_or(Keyword::NoKeyword, |at| ALL_KEYWORDS_INDEX[at]);
    TokenWithSpan { token: Token::Word(Word { value: word.to_owned(), quote_style: None, keyword }), span: at.span }
}

pub(super) fn mark_at(at: &TokenWithSpan, what: &str) -> TokenWithSpan {
    let value = marking(what);
    let token = Token::Word(Word { value, quote_style: Some('"'), keyword: Keyword::NoKeyword });
    TokenWithSpan { token, span: at.span }
}

pub(super) fn sign(at: &TokenWithSpan, token: Token) -> TokenWithSpan {
    TokenWithSpan { token, span: at.span }
}

/// A rule, for statements that have its word or sign.
type Rule = fn(&str, &mut Vec<TokenWithSpan>) -> SqlResult<()>;

/// The tokens of a statement as the library reads them.
///
/// # Errors
/// `42601`
pub(super) fn rewrite(text: &str, tokens: Vec<TokenWithSpan>) -> SqlResult<Vec<TokenWithSpan>> {
    let mut tokens = strings(text, tokens)?;
    let mut there = Present::of(&tokens);
    let has = |tokens: &[TokenWithSpan], there: &Present, word: &str| match word {
        "*" => pulse::walked(tokens).any(|token| token.token == Token::Mul),
        "'" => pulse::walked(tokens).any(|token| matches!(token.token, Token::SingleQuotedString(_))),
        word => there.may_have(word) && pulse::walked(tokens).any(|token| is_word(token, word)),
    };
    let rules: &[(&str, Rule)] = &[
        ("u", super::forms::unicode),
        ("only", super::relations::only),
        ("*", super::relations::stars),
        ("rows", super::relations::rows_from),
        ("like", super::relations::likes),
        ("create", super::relations::untyped),
        ("oids", super::relations::oids),
        ("recursive", super::relations::recursive_views),
        ("alter", super::alters::alters),
        ("substring", super::forms::substrings),
        ("trim", super::forms::trims),
        ("operator", super::forms::operators),
        ("extract", super::forms::extracts),
        ("in", super::forms::lists),
        ("values", super::queries::values),
        ("union", super::queries::operations),
        ("intersect", super::queries::operations),
        ("except", super::queries::operations),
        ("reset", super::forms::resets),
        ("show", super::forms::resets),
        ("zone", super::forms::local_zone),
        ("schema", super::forms::set_schema),
        ("role", super::forms::own_role),
        ("authorization", super::forms::own_role),
        (SEARCH_PATH, super::paths::lists),
        ("datestyle", super::paths::lists),
        ("read", super::forms::read_only),
        ("concurrently", super::forms::drop_index),
        ("national", super::forms::nationals),
        ("nchar", super::forms::nationals),
        ("collate", super::forms::collations),
        ("isnull", super::forms::null_tests),
        ("notnull", super::forms::null_tests),
        ("'", super::forms::typed_texts),
        ("interval", super::forms::interval_precisions),
        ("grouping", super::forms::refuse_nested_sets),
        ("rollup", super::forms::set_items),
        ("cube", super::forms::set_items),
        ("sets", super::forms::set_items),
        ("preceding", super::forms::frame_bounds),
        ("following", super::forms::frame_bounds),
        ("current_time", super::forms::refuse_current_time),
        ("like", super::forms::refuse_like_all),
        ("ilike", super::forms::refuse_like_all),
        ("table", tables),
        ("for", locks),
        ("symmetric", betweens),
        ("asymmetric", betweens),
        ("using", join_aliases),
        ("exclude", excludes),
        ("snapshot", snapshots),
        ("deferrable", deferrables),
        ("current", current_of),
        ("current_schema", current_schema),
        ("current_role", current_role),
        ("sequence", super::sequences::sequences),
        ("identity", super::sequences::identities),
        ("comment", super::alters::comments),
    ];
    let mut is_bare = false;
    for (word, rule) in rules.iter().copied() {
        if has(&tokens, &there, word) {
            if !is_bare {
                let mut goes_on = true;
                tokens.retain(|token| {
                    goes_on = goes_on && pulse::walk(pulse::ITEM).is_ok();
                    !goes_on || !is_space(token)
                });
                is_bare = true;
            }
            // A walk before it may have ended early.
            pulse::tick(1)?;
            rule(text, &mut tokens)?;
            there = Present::of(&tokens);
        }
    }
    Ok(tokens)
}

/// Lengths of the words that begin with each letter: most statements have the words of few rules, and this tells without
/// comparing.
struct Present([u32; 26]);

impl Present {
    fn of(tokens: &[TokenWithSpan]) -> Present {
        let mut lengths = [0; 26];
        for token in pulse::walked(tokens) {
            if let Token::Word(word) = &token.token
                && let Some(place) = Present::place(&word.value)
            {
                lengths[place] |= 1 << word.value.len().min(31);
            }
        }
        Present(lengths)
    }

    fn place(word: &str) -> Option<usize> {
        let first = word.bytes().next()?.to_ascii_lowercase();
        first.is_ascii_lowercase().then(|| usize::from(first - b'a'))
    }

    fn may_have(&self, word: &str) -> bool {
        Present::place(word).is_none_or(|place| self.0[place] & (1 << word.len().min(31)) != 0)
    }
}

/// Texts on several lines are one; on one line they are an error.
fn strings(text: &str, tokens: Vec<TokenWithSpan>) -> SqlResult<Vec<TokenWithSpan>> {
    let is_text =
        |token: &TokenWithSpan| matches!(token.token, Token::SingleQuotedString(_) | Token::EscapedStringLiteral(_));
    // Most stand beside none.
    let mut is_behind = false;
    let is_beside = pulse::walked(&tokens).filter(|token| !is_space(token)).any(|token| {
        let is_text = is_text(token);
        std::mem::replace(&mut is_behind, is_text) && is_text
    });
    if !is_beside {
        return Ok(tokens);
    }
    let mut joined: Vec<TokenWithSpan> = Vec::with_capacity(tokens.len());
    // Where the last text is, if nothing but space stands behind it, and whether a line has ended since.
    let mut last: Option<(usize, bool)> = None;
    for token in tokens {
        pulse::tick(pulse::ITEM)?;
        match (&token.token, &mut last) {
            (Token::SingleQuotedString(more), Some((at, true))) => {
                if let Some(Token::SingleQuotedString(first) | Token::EscapedStringLiteral(first)) =
                    joined.get_mut(*at).map(|token| &mut token.token)
                {
                    first.push_str(more);
                }
                last = Some((*at, false));
                continue;
            }
            (Token::SingleQuotedString(_) | Token::EscapedStringLiteral(_), Some(_)) => {
                return Err(super::near(text, Some(&token)));
            }
            (Token::SingleQuotedString(_) | Token::EscapedStringLiteral(_), None) => last = Some((joined.len(), false)),
            (Token::Whitespace(Whitespace::Newline | Whitespace::SingleLineComment { .. }), Some((_, ended))) => {
                *ended = true;
            }
            (Token::Whitespace(_), _) => {}
            _ => last = None,
        }
        joined.push(token);
    }
    Ok(joined)
}

/// Puts tokens in the place of others: ranges from the first to the last, in linear time however many they are.
pub(super) fn replace(tokens: &mut Vec<TokenWithSpan>, edits: Vec<(Range<usize>, Vec<TokenWithSpan>)>) {
    if edits.is_empty() {
        return;
    }
    let mut rest = std::mem::take(tokens).into_iter();
    let mut done = 0;
    for (range, more) in edits {
        tokens.extend(rest.by_ref().take(range.start - done));
        rest.by_ref().take(range.len()).for_each(drop);
        tokens.extend(more);
        done = range.end;
    }
    tokens.extend(rest);
}

/// Where the parenthesis is closed that is open before this place; behind the last token, if nowhere.
pub(super) fn closing(tokens: &[TokenWithSpan], from: usize) -> usize {
    let mut depth = 0_usize;
    for (at, token) in tokens.iter().enumerate().skip(from) {
        match token.token {
            Token::LParen | Token::LBracket => depth += 1,
            Token::RParen | Token::RBracket if depth == 0 => return at,
            Token::RParen | Token::RBracket => depth -= 1,
            Token::EOF => return at,
            _ => {}
        }
    }
    tokens.len()
}

/// Where it is opened.
fn opening(tokens: &[TokenWithSpan], before: usize) -> Option<usize> {
    let mut depth = 0_usize;
    for at in (0..before).rev() {
        match tokens.get(at)?.token {
            Token::RParen | Token::RBracket => depth += 1,
            Token::LParen | Token::LBracket if depth == 0 => return Some(at),
            Token::LParen | Token::LBracket => depth -= 1,
            _ => {}
        }
    }
    None
}

/// `TABLE name` is `SELECT * FROM name`.
fn tables(_text: &str, tokens: &mut Vec<TokenWithSpan>) -> SqlResult<()> {
    let inserts = tokens.windows(2).any(|two| is_word(&two[0], "insert") && is_word(&two[1], "into"));
    let names = tokens.first().is_some_and(|first| is_word(first, "with"));
    let before = ["union", "intersect", "except", "all", "distinct", "as", "explain", "analyze", "verbose"];
    let mut edits = Vec::new();
    for at in 0..tokens.len() {
        pulse::tick(pulse::ITEM)?;
        let is_query = is_word(&tokens[at], "table")
            && matches!(tokens.get(at + 1).map(|next| &next.token), Some(Token::Word(_)))
            && match at.checked_sub(1).map(|at| &tokens[at]) {
                None => true,
                Some(token) if token.token == Token::LParen => true,
                Some(token) if before.iter().any(|word| is_word(token, word)) => true,
                Some(token) if names && token.token == Token::RParen => true,
                Some(token) => inserts && matches!(token.token, Token::Word(_) | Token::RParen),
            };
        if is_query {
            let own = tokens[at].clone();
            edits.push((at..at + 1, vec![word(&own, "select"), sign(&own, Token::Mul), word(&own, "from")]));
        }
    }
    replace(tokens, edits);
    Ok(())
}

/// The strengths of row locks that the library has not, several tables in one clause, and `LIMIT` behind it.
fn locks(text: &str, tokens: &mut Vec<TokenWithSpan>) -> SqlResult<()> {
    let mut at = 0;
    // Where the clauses that stand side by side begin, and end so far.
    let mut run = 0..0;
    while at < tokens.len() {
        let begins = is_word(&tokens[at], "for")
            && tokens
                .get(at + 1)
                .is_some_and(|next| ["update", "share", "no", "key"].iter().any(|one| is_word(next, one)));
        if begins {
            pulse::tick(tokens.len())?;
        }
        if begins && is_behind_list(&tokens[..at]) {
            // The library would take FOR for the name of the last column.
            let condition = ["where", "true"].map(|one| word(&tokens[at], one));
            tokens.splice(at..at, condition);
            at += 2;
        }
        let is_next = |place: usize, word: &str| tokens.get(place).is_some_and(|token| is_word(token, word));
        if !is_word(&tokens[at], "for") {
            at += 1;
            continue;
        }
        let (strength, own, mut end) = match () {
            () if is_next(at + 1, "update") => ("update", None, at + 2),
            () if is_next(at + 1, "share") => ("share", None, at + 2),
            () if is_next(at + 1, "no") && is_next(at + 2, "key") && is_next(at + 3, "update") => {
                ("update", Some(NO_KEY_UPDATE), at + 4)
            }
            () if is_next(at + 1, "key") && is_next(at + 2, "share") => ("share", Some(KEY_SHARE), at + 3),
            () => {
                at += 1;
                continue;
            }
        };
        let first = tokens[at].clone();
        let mut names: Vec<Vec<TokenWithSpan>> = Vec::new();
        if is_next(end, "of") {
            loop {
                end += 1;
                let start = end;
                while tokens.get(end).is_some_and(|token| matches!(token.token, Token::Word(_))) {
                    end += 1;
                    match tokens.get(end) {
                        Some(token) if token.token == Token::Period => end += 1,
                        _ => break,
                    }
                }
                if start == end {
                    return Err(super::near(text, tokens.get(end)));
                }
                names.push(tokens[start..end].to_vec());
                if tokens.get(end).is_none_or(|token| token.token != Token::Comma) {
                    break;
                }
            }
        }
        let wait = match () {
            () if is_next(end, "nowait") => 1,
            () if is_next(end, "skip") && is_next(end + 1, "locked") => 2,
            () => 0,
        };
        let wait = tokens[end..end + wait].to_vec();
        end += wait.len();
        if names.is_empty() {
            names.push(Vec::new());
        }
        let mut clauses = Vec::new();
        for name in names {
            clauses.extend([first.clone(), word(&first, strength)]);
            if own.is_some() || !name.is_empty() {
                clauses.push(word(&first, "of"));
            }
            if let Some(own) = own {
                clauses.push(mark_at(&first, own));
                if !name.is_empty() {
                    clauses.push(sign(&first, Token::Period));
                }
            }
            clauses.extend(name);
            clauses.extend(wait.iter().cloned());
        }
        let count = clauses.len();
        tokens.splice(at..end, clauses);
        end = at + count;
        if run.end != at {
            run.start = at;
        }
        // It may stand before the limit.
        if ["limit", "offset", "fetch"].iter().any(|word| tokens.get(end).is_some_and(|token| is_word(token, word))) {
            let close = closing(tokens, end);
            let stop = |token: &TokenWithSpan| ["on", "returning", "for"].iter().any(|word| is_word(token, word));
            let stop = tokens[end..close].iter().position(stop).map_or(close, |found| end + found);
            tokens[run.start..stop].rotate_left(end - run.start);
            end = stop;
        }
        run.end = end;
        at = end;
    }
    Ok(())
}

/// Whether a SELECT ends there that has nothing but its list.
fn is_behind_list(tokens: &[TokenWithSpan]) -> bool {
    let clauses = ["from", "where", "group", "having", "window", "order", "limit", "offset", "fetch", "values", "for"];
    let mut depth = 0_usize;
    for token in tokens.iter().rev() {
        match token.token {
            Token::RParen | Token::RBracket => depth += 1,
            Token::LParen | Token::LBracket if depth == 0 => return false,
            Token::LParen | Token::LBracket => depth -= 1,
            _ if 0 < depth => {}
            _ if is_word(token, "select") => return true,
            _ if clauses.iter().any(|word| is_word(token, word)) => return false,
            _ => {}
        }
    }
    false
}

/// `BETWEEN SYMMETRIC a AND b`: `a` becomes the argument of a function that is a mark.
fn betweens(_text: &str, tokens: &mut Vec<TokenWithSpan>) -> SqlResult<()> {
    let mut at = 1;
    while at < tokens.len() {
        if !is_word(&tokens[at - 1], "between") {
            at += 1;
            continue;
        }
        if is_word(&tokens[at], "asymmetric") {
            tokens.remove(at);
        } else if is_word(&tokens[at], "symmetric") {
            pulse::tick(tokens.len())?;
            let own = tokens[at].clone();
            let close = closing(tokens, at);
            // The AND of this BETWEEN.
            let (mut depth, mut open) = (0_usize, 0_usize);
            let mut and = None;
            for (place, token) in tokens.iter().enumerate().take(close).skip(at + 1) {
                match token.token {
                    Token::LParen | Token::LBracket => depth += 1,
                    Token::RParen | Token::RBracket => depth = depth.saturating_sub(1),
                    _ if 0 < depth => {}
                    _ if is_word(token, "between") || is_word(token, "case") => open += 1,
                    _ if is_word(token, "end") => open = open.saturating_sub(1),
                    _ if is_word(token, "and") && open == 0 => {
                        and = Some(place);
                        break;
                    }
                    _ if is_word(token, "and") => open -= 1,
                    _ => {}
                }
            }
            if let Some(and) = and {
                tokens.insert(and, sign(&own, Token::RParen));
                tokens.splice(at..=at, [mark_at(&own, SYMMETRIC), sign(&own, Token::LParen)]);
            }
        }
        at += 1;
    }
    Ok(())
}

/// `USING (a, b) AS alias`: the alias becomes one more column.
fn join_aliases(_text: &str, tokens: &mut Vec<TokenWithSpan>) -> SqlResult<()> {
    let mut at = 0;
    while at + 1 < tokens.len() {
        if is_word(&tokens[at], "using") && tokens[at + 1].token == Token::LParen {
            pulse::tick(tokens.len())?;
            let close = closing(tokens, at + 2);
            if are_names(&tokens[at + 2..close.min(tokens.len())])
                && tokens.get(close + 1).is_some_and(|token| is_word(token, "as"))
                && tokens.get(close + 2).is_some_and(|token| matches!(token.token, Token::Word(_)))
            {
                let alias = tokens.remove(close + 2);
                let own = tokens.remove(close + 1);
                let more = [sign(&own, Token::Comma), mark_at(&own, JOIN_ALIAS), sign(&own, Token::Period), alias];
                tokens.splice(close..close, more);
            }
        }
        at += 1;
    }
    Ok(())
}

/// Says whether these are names with commas between them, as in a join's `USING (a, b)`: that of `DELETE` has a query there.
fn are_names(tokens: &[TokenWithSpan]) -> bool {
    let mut tokens = tokens.iter().filter(|token| !is_space(token));
    let is_name = |token: Option<&TokenWithSpan>| token.is_some_and(|token| matches!(token.token, Token::Word(_)));
    while is_name(tokens.next()) {
        match tokens.next().map(|token| &token.token) {
            None => return true,
            Some(Token::Comma) => {}
            Some(_) => return false,
        }
    }
    false
}

/// `EXCLUDE` behind a window's frame: it becomes what rows are parted by first.
fn excludes(text: &str, tokens: &mut Vec<TokenWithSpan>) -> SqlResult<()> {
    let mut at = 0;
    while at < tokens.len() {
        let own = tokens[at].clone();
        let found = EXCLUDES.iter().find(|what| {
            what.split(' ').enumerate().all(|(more, word)| tokens.get(at + more).is_some_and(|one| is_word(one, word)))
        });
        at += 1;
        let Some(what) = found else { continue };
        pulse::tick(tokens.len())?;
        let Some(open) = opening(tokens, at - 1) else { continue };
        let count = what.split(' ').count();
        tokens.drain(at - 1..at - 1 + count);
        if tokens.get(at - 1).is_none_or(|token| token.token != Token::RParen) {
            return Err(super::near(text, tokens.get(at - 1)));
        }
        let is_at = |place: usize, word: &str| tokens.get(place).is_some_and(|token| is_word(token, word));
        let begins = |place: usize| {
            is_at(place, "partition")
                || is_at(place, "order")
                || ["rows", "range", "groups"].iter().any(|unit| is_at(place, unit))
        };
        // Behind the name of another window, if there is one.
        let place = if begins(open + 1) { open + 1 } else { open + 2 };
        let mark = mark_at(&own, what);
        if is_at(place, "partition") && is_at(place + 1, "by") {
            tokens.splice(place + 2..place + 2, [mark, sign(&own, Token::Comma)]);
        } else if place <= tokens.len() {
            tokens.splice(place..place, [word(&own, "partition"), word(&own, "by"), mark]);
        }
    }
    Ok(())
}

fn sets_modes(tokens: &[TokenWithSpan]) -> bool {
    tokens.first().is_some_and(|first| ["begin", "start", "set"].iter().any(|word| is_word(first, word)))
}

/// The library has one more level of isolation.
#[expect(clippy::ptr_arg, reason = "others of the table it stands in add tokens")]
fn snapshots(text: &str, tokens: &mut Vec<TokenWithSpan>) -> SqlResult<()> {
    match tokens.windows(2).find(|two| is_word(&two[0], "level") && is_word(&two[1], "snapshot")) {
        Some(two) if sets_modes(tokens) => Err(super::near(text, two.get(1))),
        _ => Ok(()),
    }
}

/// `DEFERRABLE` of a transaction: that level stands for it. `NOT DEFERRABLE`, among others, is how they are anyway.
fn deferrables(_text: &str, tokens: &mut Vec<TokenWithSpan>) -> SqlResult<()> {
    let Some(at) = tokens.iter().position(|token| is_word(token, "deferrable")).filter(|_| sets_modes(tokens)) else {
        return Ok(());
    };
    if 0 < at && is_word(&tokens[at - 1], "not") {
        let has_comma = 1 < at && tokens[at - 2].token == Token::Comma;
        tokens.drain(at - 1 - usize::from(has_comma)..=at);
    } else {
        let own = tokens[at].clone();
        tokens.splice(at..=at, [word(&own, "isolation"), word(&own, "level"), word(&own, "snapshot")]);
    }
    Ok(())
}

/// # Errors
/// `0A000`: rows are not found by a cursor.
#[expect(clippy::ptr_arg, reason = "others of the table it stands in add tokens")]
fn current_of(text: &str, tokens: &mut Vec<TokenWithSpan>) -> SqlResult<()> {
    let words = ["where", "current", "of"];
    let found = tokens.windows(3).find(|three| three.iter().zip(words).all(|(token, word)| is_word(token, word)));
    match found {
        Some(three) => Err(SqlError::unsupported("WHERE CURRENT OF").at(super::position(text, three[0].span.start))),
        None => Ok(()),
    }
}

/// `current_schema` is a function with or without parentheses.
fn current_schema(_text: &str, tokens: &mut Vec<TokenWithSpan>) -> SqlResult<()> {
    bracketed(tokens, "current_schema");
    Ok(())
}

/// `CURRENT_ROLE`, which the library knows as a call only.
fn current_role(_text: &str, tokens: &mut Vec<TokenWithSpan>) -> SqlResult<()> {
    bracketed(tokens, "current_role");
    Ok(())
}

/// Makes of a word a call, where it is no name.
fn bracketed(tokens: &mut Vec<TokenWithSpan>, name: &str) {
    let mut edits = Vec::new();
    for at in 0..tokens.len() {
        // Behind the last of these stands a role.
        let names = ["as", "to", "role", "user", "authorization"];
        let is_name = at.checked_sub(1).is_some_and(|at| {
            tokens[at].token == Token::Period || names.into_iter().any(|word| is_word(&tokens[at], word))
        });
        let is_call = tokens.get(at + 1).is_some_and(|next| matches!(next.token, Token::LParen | Token::Period));
        if is_word(&tokens[at], name) && !is_name && !is_call {
            let own = tokens[at].clone();
            edits.push((at + 1..at + 1, vec![sign(&own, Token::LParen), sign(&own, Token::RParen)]));
        }
    }
    replace(tokens, edits);
}

/// # Errors
/// `22021`: no text has a NUL.
pub(super) fn check_text(text: &str) -> SqlResult<()> {
    if text.contains(MARK) {
        let message = "invalid byte sequence for encoding \"UTF8\": 0x00";
        return Err(SqlError::new(SqlState("22021"), message));
    }
    Ok(())
}
