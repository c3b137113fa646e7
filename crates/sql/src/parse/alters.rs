//! Actions of `ALTER` that the library does not know, said as others that it knows, with marks: `SET SCHEMA` is a `RENAME TO`,
//! what changes an identity is a `SET DEFAULT`.

use super::near;
use super::rewrite::{closing, is_word, mark, mark_at, sign, word};
use super::sequences::{self, behind_if, behind_name};
use crate::error::{SqlError, SqlResult, SqlState};
use sqlparser::ast::{self, ObjectName, ObjectNamePart, SequenceOptions};
use sqlparser::tokenizer::{Token, TokenWithSpan};

/// Before the new name: it is another schema.
const SCHEMA: &str = "set schema";
/// Before the name: nothing is said if there is none.
const IF_EXISTS: &str = "if exists";
/// As the new name, or as a default: parameters of storage are set.
const OPTIONS: &str = "options";
/// As a default: the identity goes; if there is one.
const DROP_IDENTITY: &str = "drop identity";
const DROP_IDENTITY_IF: &str = "drop identity if exists";
/// As a default: it changes; behind it `always`, `default` or nothing, and options of its sequence.
const SET_IDENTITY: &str = "set identity ";

/// What stands behind the mark that begins this name, if it begins with that mark.
fn behind<'n>(name: &'n ObjectName, what: &str) -> Option<&'n [ObjectNamePart]> {
    match name.0.first() {
        Some(ObjectNamePart::Identifier(ident)) if mark(ident) == Some(what) => Some(&name.0[1..]),
        _ => None,
    }
}

/// The schema into which what is renamed so goes.
pub(crate) fn schema(to: &ObjectName) -> Option<&ast::Ident> {
    match behind(to, SCHEMA)? {
        [ObjectNamePart::Identifier(schema)] => Some(schema),
        _ => None,
    }
}

/// Whether a new name is none: parameters of storage are set.
pub(crate) fn sets_options(to: &ObjectName) -> bool {
    behind(to, OPTIONS).is_some()
}

/// The name of an index, and whether it may be missing.
pub(crate) fn index(name: &ObjectName) -> (ObjectName, bool) {
    match behind(name, IF_EXISTS) {
        Some(rest) => (ObjectName(rest.to_vec()), true),
        None => (name.clone(), false),
    }
}

/// What happens to a column's identity, or its parameters.
pub(crate) enum ColumnChange {
    Options,
    DropIdentity {
        if_exists: bool,
    },
    Identity {
        always: Option<bool>,
        options: Vec<SequenceOptions>,
        /// It begins again, there or at its start.
        restart: Option<Option<i64>>,
    },
}

/// What such a default stands for.
///
/// # Errors
/// None that a client can cause.
pub(crate) fn column_change(default: &ast::Expr) -> SqlResult<Option<ColumnChange>> {
    let Some(what) = super::rewrite::marked(default) else { return Ok(None) };
    Ok(match what {
        OPTIONS => Some(ColumnChange::Options),
        DROP_IDENTITY => Some(ColumnChange::DropIdentity { if_exists: false }),
        DROP_IDENTITY_IF => Some(ColumnChange::DropIdentity { if_exists: true }),
        _ => {
            let Some((kind, options)) = what.strip_prefix(SET_IDENTITY).and_then(|rest| rest.split_once('|')) else {
                return Ok(None);
            };
            let always = (!kind.is_empty()).then_some(kind == "always");
            if options.is_empty() {
                return Ok(Some(ColumnChange::Identity { always, options: Vec::new(), restart: None }));
            }
            let mut parsed = super::parse(&format!("ALTER SEQUENCE s {options}"))?;
            match parsed.pop().map(|one| one.tree) {
                Some(ast::Statement::CreateSequence { name, sequence_options, .. }) => {
                    let restart = sequences::altered(&name).and_then(|altered| altered.restart);
                    Some(ColumnChange::Identity { always, options: sequence_options, restart })
                }
                _ => return Err(SqlError::new(SqlState::INTERNAL_ERROR, "options of ours do not parse")),
            }
        }
    })
}

/// `ALTER`
pub(super) fn alters(text: &str, tokens: &mut Vec<TokenWithSpan>) -> SqlResult<()> {
    let is = |tokens: &[TokenWithSpan], at: usize, word: &str| tokens.get(at).is_some_and(|token| is_word(token, word));
    if !is(tokens, 0, "alter") {
        return Ok(());
    }
    let begin = behind_if(tokens, 2);
    let from = behind_name(tokens, begin);
    let opens = |at: usize| tokens.get(at).is_some_and(|token| token.token == Token::LParen);
    let sets = (is(tokens, from, "set") || is(tokens, from, "reset")) && opens(from + 1);
    if is(tokens, 1, "view") && (is(tokens, from, "rename") || is(tokens, from, "owner")) {
        tokens[1] = word(&tokens[1], "table");
    }
    if is(tokens, 1, "index") && (sets || is(tokens, from, "rename")) {
        if sets {
            let close = closing(tokens, from + 2);
            let own = tokens[from].clone();
            tokens.splice(
                from..(close + 1).min(tokens.len()),
                [word(&own, "rename"), word(&own, "to"), mark_at(&own, OPTIONS)],
            );
        }
        if begin != 2 {
            let own = tokens[2].clone();
            tokens.splice(2..begin, [mark_at(&own, IF_EXISTS), sign(&own, Token::Period)]);
        }
        return Ok(());
    }
    let is_relation = ["table", "view", "sequence"].iter().any(|what| is(tokens, 1, what));
    if is_relation && is(tokens, from, "set") && is(tokens, from + 1, "schema") {
        tokens[1] = word(&tokens[1], "table");
        let own = tokens[from].clone();
        let to = [word(&own, "rename"), word(&own, "to"), mark_at(&own, SCHEMA), sign(&own, Token::Period)];
        tokens.splice(from..from + 2, to);
        return Ok(());
    }
    if is(tokens, 1, "table") {
        columns(text, tokens, from)?;
    }
    Ok(())
}

/// Actions of `ALTER TABLE` from there on.
fn columns(text: &str, tokens: &mut Vec<TokenWithSpan>, from: usize) -> SqlResult<()> {
    let mut at = from;
    while at < tokens.len() {
        let is = |place: usize, word: &str| tokens.get(place).is_some_and(|token| is_word(token, word));
        let opens = |place: usize| tokens.get(place).is_some_and(|token| token.token == Token::LParen);
        let end = action_end(tokens, at);
        let own = tokens[at].clone();
        if (is(at, "reset") || is(at, "set")) && opens(at + 1) {
            // Whatever is set, it is ignored.
            tokens.splice(at..end, [word(&own, "set")].into_iter().chain(ignored(&own)));
        } else if is(at, "alter") && !is(at + 1, "constraint") {
            let name = at + 1 + usize::from(is(at + 1, "column"));
            let what = name + 1;
            let default = |mark: &str| [word(&own, "set"), word(&own, "default"), mark_at(&own, mark)];
            let sequence = |place: usize| {
                let words = ["generated", "as", "increment", "minvalue", "maxvalue", "no", "cycle", "start", "cache"];
                words.iter().chain(&["restart", "owned"]).any(|word| is(place, word))
            };
            let made = match () {
                () if end < what => None,
                () if is(what, "drop") && is(what + 1, "identity") && end == what + 2 => Some(DROP_IDENTITY.to_owned()),
                () if is(what, "drop") && is(what + 1, "identity") && is(what + 2, "if") && end == what + 4 => {
                    Some(DROP_IDENTITY_IF.to_owned())
                }
                () if (is(what, "set") || is(what, "reset")) && opens(what + 1) => Some(OPTIONS.to_owned()),
                () if is(what, "restart") || (is(what, "set") && sequence(what + 1)) => {
                    Some(identity(text, &tokens[what..end])?)
                }
                () => None,
            };
            if let Some(made) = made {
                let default = default(&made);
                tokens.splice(what..end, default);
            }
        }
        at = action_end(tokens, at) + 1;
    }
    Ok(())
}

/// A parameter of storage, which is ignored.
pub(super) fn ignored(at: &TokenWithSpan) -> [TokenWithSpan; 5] {
    let value = sign(at, Token::Number("1".to_owned(), false));
    [sign(at, Token::LParen), mark_at(at, OPTIONS), sign(at, Token::Eq), value, sign(at, Token::RParen)]
}

/// Where the comma behind an action stands.
fn action_end(tokens: &[TokenWithSpan], from: usize) -> usize {
    let mut depth = 0_usize;
    for (at, token) in tokens.iter().enumerate().skip(from) {
        match token.token {
            Token::LParen | Token::LBracket => depth += 1,
            Token::RParen | Token::RBracket => depth = depth.saturating_sub(1),
            Token::Comma if depth == 0 => return at,
            _ => {}
        }
    }
    tokens.len()
}

/// `SET GENERATED ... SET option ... RESTART ...` as a mark.
fn identity(text: &str, tokens: &[TokenWithSpan]) -> SqlResult<String> {
    let is = |at: usize, word: &str| tokens.get(at).is_some_and(|token| is_word(token, word));
    let mut kind = "";
    let mut options = Vec::new();
    let mut at = 0;
    while at < tokens.len() {
        let sets = is(at, "set");
        if !sets && !is(at, "restart") && options.is_empty() {
            return Err(near(text, tokens.get(at)));
        }
        at += usize::from(sets);
        if sets && is(at, "generated") {
            let length = match () {
                () if is(at + 1, "always") => 2,
                () if is(at + 1, "by") && is(at + 2, "default") => 3,
                () => return Err(near(text, tokens.get(at + 1))),
            };
            if !kind.is_empty() {
                let place = super::position(text, tokens[at].span.start);
                return Err(SqlError::new(SqlState::SYNTAX_ERROR, "conflicting or redundant options").at(place));
            }
            kind = if length == 2 { "always" } else { "default" };
            at += length;
        } else {
            options.extend(tokens.get(at).cloned());
            at += 1;
        }
    }
    let sorted = sequences::options(text, &options)?;
    let words: Vec<String> = sorted.iter().flat_map(|(_, tokens)| tokens).map(ToString::to_string).collect();
    Ok(format!("{SET_IDENTITY}{kind}|{}", words.join(" ")))
}
