//! Actions of `ALTER` that the library does not know, said as others that it knows, with marks: `SET SCHEMA` is a `RENAME TO`,
//! what changes an identity is a `SET DEFAULT`.

use super::near;
use super::rewrite::{closing, is_word, mark, mark_at, sign, word};
use super::sequences::{self, behind_if, behind_name};
use sqlparser::ast::{self, ObjectName, ObjectNamePart, SequenceOptions};
use sqlparser::tokenizer::{Token, TokenWithSpan};
use statement::error::{SqlError, SqlResult, SqlState};

/// Before the new name: it is another schema.
const SCHEMA: &str = "set schema";
/// Before the name: nothing is said if there is none.
const IF_EXISTS: &str = "if exists";
/// Before a name that is commented on: it is a constraint's, and its table's.
const CONSTRAINT: &str = "comment on constraint";
/// As a default, or as a comment on a column: the name of the sequence of its identity.
const SEQUENCE_NAME: &str = "sequence name ";
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
pub fn schema(to: &ObjectName) -> Option<&ast::Ident> {
    match behind(to, SCHEMA)? {
        [ObjectNamePart::Identifier(schema)] => Some(schema),
        _ => None,
    }
}

/// Whether a new name is none: parameters of storage are set.
pub fn sets_options(to: &ObjectName) -> bool {
    behind(to, OPTIONS).is_some()
}

/// The name of an index, and whether it may be missing.
pub fn index(name: &ObjectName) -> (ObjectName, bool) {
    match behind(name, IF_EXISTS) {
        Some(rest) => (ObjectName(rest.to_vec()), true),
        None => (name.clone(), false),
    }
}

/// A constraint and its table, if such a name stands for a constraint.
pub fn constraint(name: &ObjectName) -> Option<(String, ObjectName)> {
    match behind(name, CONSTRAINT)? {
        [ObjectNamePart::Identifier(constraint), table @ ..] => {
            Some((super::folded(constraint), ObjectName(table.to_vec())))
        }
        _ => None,
    }
}

/// `COMMENT ON CONSTRAINT name ON table`, as one on a table with a mark.
pub(super) fn comments(_: &str, tokens: &mut Vec<TokenWithSpan>) -> SqlResult<()> {
    let is = |at: usize, word: &str| tokens.get(at).is_some_and(|token| is_word(token, word));
    let is_name = |at: usize| matches!(tokens.get(at).map(|token| &token.token), Some(Token::Word(_)));
    if is(0, "comment") && is(1, "on") && is(2, "constraint") && is_name(3) && is(4, "on") && is_name(5) {
        let (own, name) = (tokens[2].clone(), tokens[3].clone());
        let period = || sign(&own, Token::Period);
        tokens.splice(2..5, [word(&own, "table"), mark_at(&own, CONSTRAINT), period(), name, period()]);
    }
    Ok(())
}

/// What happens to a column's identity, or its parameters.
pub enum ColumnChange {
    /// Options alone.
    Options,
    /// `ALTER COLUMN … DROP IDENTITY`
    DropIdentity {
        /// True with `IF EXISTS`.
        if_exists: bool,
    },
    /// The sequence of the identity is called so.
    SequenceName(Vec<String>),
    /// `ALTER COLUMN … SET GENERATED`, `SET` and `RESTART`
    Identity {
        /// True for `ALWAYS`, false for `BY DEFAULT`.
        always: Option<bool>,
        /// Options of the sequence.
        options: Vec<SequenceOptions>,
        /// It begins again, there or at its start.
        restart: Option<Option<i64>>,
    },
}

/// What such a default stands for.
///
/// # Errors
/// None that a client can cause.
pub fn column_change(default: &ast::Expr) -> SqlResult<Option<ColumnChange>> {
    let Some(what) = super::rewrite::marked(default) else { return Ok(None) };
    Ok(match what {
        OPTIONS => Some(ColumnChange::Options),
        DROP_IDENTITY => Some(ColumnChange::DropIdentity { if_exists: false }),
        DROP_IDENTITY_IF => Some(ColumnChange::DropIdentity { if_exists: true }),
        _ if what.starts_with(SEQUENCE_NAME) => sequence_name(what).map(ColumnChange::SequenceName),
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

/// The parts of the name that such a mark gives to a sequence.
fn sequence_name(mark: &str) -> Option<Vec<String>> {
    crate::names::name_parts(mark.strip_prefix(SEQUENCE_NAME)?)
}

/// The same, where a column is commented on with a mark.
pub fn sequence_of_identity(comment: &str) -> Option<Vec<String>> {
    sequence_name(super::rewrite::mark(&ast::Ident::new(comment))?)
}

/// `SEQUENCE NAME name`, which is taken out of an identity's options: where a column is made, as a comment on it; where one
/// becomes an identity, as a further action of the `ALTER TABLE`.
pub(super) fn name_of_sequence(tokens: &mut Vec<TokenWithSpan>, open: usize) {
    let is = |at: usize, word: &str| tokens.get(at).is_some_and(|token| is_word(token, word));
    let close = closing(tokens, open + 1);
    let Some(at) = (open + 1..close).find(|at| is(*at, "sequence") && is(*at + 1, "name")) else { return };
    let end = behind_name(tokens, at + 2).min(close);
    let part = |token: &TokenWithSpan| match &token.token {
        Token::Word(word) if word.quote_style.is_some() => format!("\"{}\"", word.value.replace('"', "\"\"")),
        other => other.to_string(),
    };
    let name: String = tokens[at + 2..end].iter().map(part).collect();
    let own = tokens[at].clone();
    // GENERATED {ALWAYS | BY DEFAULT} AS IDENTITY (
    let generated = open.saturating_sub(if is(open.saturating_sub(4), "by") { 5 } else { 4 });
    let becomes = generated.checked_sub(2).filter(|_| is(generated, "generated") && is(generated - 1, "add"));
    let behind = match becomes.filter(|name| is(name - 1, "alter") || is(name - 1, "column")) {
        Some(column) => {
            let column = tokens[column].clone();
            let mark = mark_at(&own, &format!("{SEQUENCE_NAME}{name}"));
            let words = ["set", "default"].map(|part| word(&own, part));
            [sign(&own, Token::Comma), word(&own, "alter"), column].into_iter().chain(words).chain([mark]).collect()
        }
        None => {
            let text = Token::SingleQuotedString(super::rewrite::marking(&format!("{SEQUENCE_NAME}{name}")));
            vec![word(&own, "comment"), sign(&own, text)]
        }
    };
    let behind: Vec<TokenWithSpan> = behind;
    tokens.splice(close + 1..close + 1, behind);
    tokens.drain(at..end);
    // Nothing is left of the options.
    if tokens.get(open + 1).is_some_and(|token| token.token == Token::RParen) {
        tokens.drain(open..open + 2);
    }
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
    if is(tokens, 1, "table") {
        check_alone(text, tokens, from)?;
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

/// Looks whether a new name, or another schema, is the one action of its `ALTER TABLE`.
fn check_alone(text: &str, tokens: &[TokenWithSpan], from: usize) -> SqlResult<()> {
    let is = |at: usize, word: &str| tokens.get(at).is_some_and(|token| is_word(token, word));
    let mut at = from;
    while at < tokens.len() {
        let end = action_end(tokens, at);
        if is(at, "rename") || (is(at, "set") && is(at + 1, "schema")) {
            let wrong = if at != from {
                Some(at + usize::from(is(at, "set")))
            } else {
                Some(end).filter(|end| *end < tokens.len())
            };
            if let Some(wrong) = wrong {
                return Err(near(text, tokens.get(wrong)));
            }
        }
        at = end + 1;
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
