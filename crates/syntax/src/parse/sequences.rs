//! Options of sequences, which PostgreSQL takes in any order and the library in one; and `ALTER SEQUENCE`, which it does not
//! know: what changes a sequence's numbers stands as a `CREATE SEQUENCE` whose name begins with marks, and what changes its
//! name as an `ALTER TABLE`.

use super::near;
use super::rewrite::{closing, is_word, mark, mark_at, sign, word};
use sqlparser::ast::{Ident, ObjectName, ObjectNamePart};
use sqlparser::tokenizer::{Token, TokenWithSpan};
use statement::error::{SqlError, SqlResult, SqlState};

/// The first mark of an `ALTER SEQUENCE`.
const ALTER: &str = "alter sequence";
/// The second, if it begins again; behind it a number, perhaps.
const RESTART: &str = "restart";

/// An `ALTER SEQUENCE`, where a `CREATE SEQUENCE` has its name.
pub struct Altered {
    /// Name of the sequence.
    pub name: ObjectName,
    /// It begins again, there or at its start.
    pub restart: Option<Option<i64>>,
}

/// What a `CREATE SEQUENCE` with such a name is.
pub fn altered(name: &ObjectName) -> Option<Altered> {
    let part = |at: usize| match name.0.get(at) {
        Some(ObjectNamePart::Identifier(ident)) => mark(ident),
        _ => None,
    };
    part(0).filter(|first| *first == ALTER)?;
    let restart = part(1).and_then(|second| second.strip_prefix(RESTART));
    let rest = name.0[1 + usize::from(restart.is_some())..].to_vec();
    Some(Altered { name: ObjectName(rest), restart: restart.map(|number| number.trim().parse().ok()) })
}

/// The order in which the library wants options.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Rank {
    As,
    Increment,
    Min,
    Max,
    Start,
    Cache,
    Cycle,
    OwnedBy,
    Restart,
}

/// The options at the beginning of these tokens.
pub(super) fn options(text: &str, tokens: &[TokenWithSpan]) -> SqlResult<Vec<(Rank, Vec<TokenWithSpan>)>> {
    let mut found: Vec<(Rank, Vec<TokenWithSpan>)> = Vec::new();
    let mut at = 0;
    while at < tokens.len() {
        let is = |more: usize, word: &str| tokens.get(at + more).is_some_and(|token| is_word(token, word));
        // How long a number is that stands there.
        let number = |more: usize| {
            let token = |more: usize| tokens.get(at + more).map(|token| &token.token);
            let signed = usize::from(matches!(token(more), Some(Token::Minus | Token::Plus)));
            match token(more + signed) {
                Some(Token::Number(..)) => Ok(signed + 1),
                _ => Err(near(text, tokens.get(at + more + signed))),
            }
        };
        let name = |more: usize| {
            let mut length = 0;
            while matches!(tokens.get(at + more + length).map(|token| &token.token), Some(Token::Word(_))) {
                length += 1;
                match tokens.get(at + more + length).map(|token| &token.token) {
                    Some(Token::Period) => length += 1,
                    _ => return Ok(length),
                }
            }
            Err(near(text, tokens.get(at + more + length)))
        };
        let (rank, length) = match () {
            () if is(0, "as") => (Rank::As, 1 + name(1)?),
            () if is(0, "increment") => {
                let by = 1 + usize::from(is(1, "by"));
                (Rank::Increment, by + number(by)?)
            }
            () if is(0, "minvalue") => (Rank::Min, 1 + number(1)?),
            () if is(0, "maxvalue") => (Rank::Max, 1 + number(1)?),
            () if is(0, "no") && is(1, "minvalue") => (Rank::Min, 2),
            () if is(0, "no") && is(1, "maxvalue") => (Rank::Max, 2),
            () if is(0, "no") && is(1, "cycle") => (Rank::Cycle, 2),
            () if is(0, "cycle") => (Rank::Cycle, 1),
            () if is(0, "start") => {
                let with = 1 + usize::from(is(1, "with"));
                (Rank::Start, with + number(with)?)
            }
            () if is(0, "cache") => (Rank::Cache, 1 + number(1)?),
            () if is(0, "owned") && is(1, "by") => (Rank::OwnedBy, 2 + name(2)?),
            () if is(0, "restart") => {
                let with = 1 + usize::from(is(1, "with"));
                match number(with) {
                    Ok(length) => (Rank::Restart, with + length),
                    Err(error) if 1 < with => return Err(error),
                    Err(_) => (Rank::Restart, 1),
                }
            }
            () => return Err(near(text, tokens.get(at))),
        };
        if found.iter().any(|(other, _)| *other == rank) {
            let place = super::position(text, tokens[at].span.start);
            return Err(SqlError::new(SqlState::SYNTAX_ERROR, "conflicting or redundant options").at(place));
        }
        found.push((rank, tokens[at..at + length].to_vec()));
        at += length;
    }
    found.sort_by_key(|(rank, _)| *rank);
    Ok(found)
}

fn no_restart(text: &str, found: &[(Rank, Vec<TokenWithSpan>)]) -> SqlResult<()> {
    match found.iter().find(|(rank, _)| *rank == Rank::Restart) {
        Some((_, tokens)) => Err(near(text, tokens.first())),
        None => Ok(()),
    }
}

/// Where a name ends that begins there.
pub(super) fn behind_name(tokens: &[TokenWithSpan], from: usize) -> usize {
    let is_period = |at: usize| tokens.get(at).is_some_and(|token| token.token == Token::Period);
    let mut at = from + 1;
    while is_period(at) {
        at += 2;
    }
    at.min(tokens.len())
}

/// Behind `IF [NOT] EXISTS`, if it stands there.
pub(super) fn behind_if(tokens: &[TokenWithSpan], from: usize) -> usize {
    let is = |at: usize, word: &str| tokens.get(at).is_some_and(|token| is_word(token, word));
    match () {
        () if is(from, "if") && is(from + 1, "not") && is(from + 2, "exists") => from + 3,
        () if is(from, "if") && is(from + 1, "exists") => from + 2,
        () => from,
    }
}

/// `CREATE SEQUENCE`, `ALTER SEQUENCE`.
pub(super) fn sequences(text: &str, tokens: &mut Vec<TokenWithSpan>) -> SqlResult<()> {
    let is = |tokens: &[TokenWithSpan], at: usize, word: &str| tokens.get(at).is_some_and(|token| is_word(token, word));
    let own = tokens.iter().position(|token| is_word(token, "sequence")).unwrap_or(0);
    let is_temporary = own == 2 && (is(tokens, 1, "temporary") || is(tokens, 1, "temp"));
    if is(tokens, 0, "create") && (own == 1 || is_temporary) {
        let from = behind_name(tokens, behind_if(tokens, own + 1));
        let found = options(text, &tokens[from..])?;
        no_restart(text, &found)?;
        tokens.splice(from.., found.into_iter().flat_map(|(_, tokens)| tokens));
        return Ok(());
    }
    if !is(tokens, 0, "alter") || own != 1 {
        return Ok(());
    }
    let begin = behind_if(tokens, 2);
    let from = behind_name(tokens, begin);
    if ["rename", "owner"].iter().any(|word| is(tokens, from, word)) {
        tokens[1] = word(&tokens[1], "table");
        return Ok(());
    }
    if tokens.len() <= from {
        return Err(near(text, tokens.get(from)));
    }
    let mut found = options(text, &tokens[from..])?;
    let mut marks = vec![mark_at(&tokens[1], ALTER), sign(&tokens[1], Token::Period)];
    if let Some((_, restart)) = found.pop_if(|(rank, _)| *rank == Rank::Restart) {
        let number: String =
            restart[1..].iter().filter(|token| !is_word(token, "with")).map(|one| one.to_string()).collect();
        marks.push(mark_at(&tokens[1], &format!("{RESTART} {number}")));
        marks.push(sign(&tokens[1], Token::Period));
    }
    let name = tokens[begin..from].to_vec();
    let mut made = vec![word(&tokens[0], "create"), tokens[1].clone()];
    if begin != 2 {
        made.extend(["if", "not", "exists"].map(|part| word(&tokens[2], part)));
    }
    made.extend(marks);
    made.extend(name);
    made.extend(found.into_iter().flat_map(|(_, tokens)| tokens));
    *tokens = made;
    Ok(())
}

/// `AS IDENTITY (options)`.
pub(super) fn identities(text: &str, tokens: &mut Vec<TokenWithSpan>) -> SqlResult<()> {
    let mut at = 0;
    while at + 1 < tokens.len() {
        at += 1;
        if is_word(&tokens[at - 1], "as")
            && is_word(&tokens[at], "identity")
            && tokens.get(at + 1).is_some_and(|token| token.token == Token::LParen)
        {
            super::alters::name_of_sequence(tokens, at + 1);
            if tokens.get(at + 1).is_none_or(|token| token.token != Token::LParen) {
                continue;
            }
            let close = closing(tokens, at + 2);
            let found = options(text, &tokens[at + 2..close])?;
            no_restart(text, &found)?;
            let sorted: Vec<TokenWithSpan> = found.into_iter().flat_map(|(_, tokens)| tokens).collect();
            tokens.splice(at + 2..close, sorted);
        }
    }
    Ok(())
}

/// Whether what a sequence is owned by is nothing.
pub fn is_none(name: &ObjectName) -> bool {
    let is_none = |ident: &Ident| ident.quote_style.is_none() && ident.value.eq_ignore_ascii_case("none");
    matches!(&name.0[..], [ObjectNamePart::Identifier(ident)] if is_none(ident))
}
