//! `EXPLAIN` and its options, cut off before the library parses what is explained: it knows other databases' forms, and
//! loses the errors of the statement inside.

use super::{near, position};
use sqlparser::ast::Statement;
use sqlparser::tokenizer::{Token, TokenWithSpan};
use statement::error::{SqlError, SqlResult, SqlState};

/// What `EXPLAIN` was asked for.
#[derive(Clone, Debug, PartialEq)]
pub struct Options {
    /// Whether the statement is run.
    pub analyze: bool,
    /// `VERBOSE`
    pub verbose: bool,
    /// `COSTS`
    pub costs: bool,
    timing: Option<bool>,
    summary: Option<bool>,
    /// `FORMAT JSON`
    pub is_json: bool,
}

impl Options {
    /// Whether each operator's time is measured.
    pub fn timing(&self) -> bool {
        self.timing.unwrap_or(self.analyze)
    }

    /// Whether the whole's times are told.
    pub fn summary(&self) -> bool {
        self.summary.unwrap_or(self.analyze)
    }
}

fn is_space(token: &TokenWithSpan) -> bool {
    matches!(token.token, Token::Whitespace(_))
}

fn word(token: &TokenWithSpan) -> Option<String> {
    match &token.token {
        Token::Word(word) if word.quote_style.is_none() => Some(word.value.to_lowercase()),
        Token::Word(word) => Some(word.value.clone()),
        _ => None,
    }
}

fn is_word(token: Option<&&TokenWithSpan>, wanted: &[&str]) -> bool {
    let Some(Token::Word(found)) = token.map(|token| &token.token) else { return false };
    found.quote_style.is_none() && wanted.iter().any(|wanted| found.value.eq_ignore_ascii_case(wanted))
}

/// If a statement is an EXPLAIN: what is asked for, and the tokens of the statement that is explained.
///
/// # Errors
/// `42601`, `22023`
pub fn cut<'t>(text: &str, tokens: &'t [TokenWithSpan]) -> SqlResult<Option<(Options, &'t [TokenWithSpan])>> {
    if !is_word(tokens.iter().find(|token| !is_space(token)).as_ref(), &["explain"]) {
        return Ok(None);
    }
    let all: Vec<(usize, &TokenWithSpan)> =
        statement::pulse::walked(tokens).enumerate().filter(|(_, token)| !is_space(token)).collect();
    let at = |number: usize| all.get(number).map(|(_, token)| token);
    let mut options =
        Options { analyze: false, verbose: false, costs: true, timing: None, summary: None, is_json: false };
    let mut next = 1;
    // In parentheses there may stand a query, too.
    let is_list = at(1).is_some_and(|token| token.token == Token::LParen)
        && !is_word(at(2), &["select", "values", "with", "table"])
        && at(2).is_some_and(|token| token.token != Token::LParen);
    if is_list {
        next = 2;
        loop {
            let Some(name) = at(next).and_then(|token| word(token)) else { return Err(near(text, at(next).copied())) };
            let place = at(next).map_or(1, |token| position(text, token.span.start));
            next += 1;
            let value = match at(next).map(|token| &token.token) {
                Some(Token::Comma | Token::RParen) | None => None,
                Some(Token::Word(_)) => at(next).and_then(|token| word(token)),
                Some(Token::Number(digits, _)) => Some(digits.clone()),
                Some(Token::SingleQuotedString(text)) => Some(text.clone()),
                Some(_) => return Err(near(text, at(next).copied())),
            };
            next += usize::from(value.is_some());
            options.set(&name, value.as_deref(), place)?;
            match at(next).map(|token| &token.token) {
                Some(Token::Comma) => next += 1,
                Some(Token::RParen) => break,
                _ => return Err(near(text, at(next).copied())),
            }
        }
        next += 1;
    } else {
        if is_word(at(next), &["analyze", "analyse"]) {
            options.analyze = true;
            next += 1;
        }
        if is_word(at(next), &["verbose"]) {
            options.verbose = true;
            next += 1;
        }
    }
    if options.timing == Some(true) && !options.analyze {
        return Err(SqlError::new(SqlState("22023"), "EXPLAIN option TIMING requires ANALYZE"));
    }
    let explainable =
        ["select", "insert", "update", "delete", "execute", "create", "with", "values", "table", "declare", "merge"];
    let is_query = at(next).is_some_and(|token| token.token == Token::LParen);
    match all.get(next) {
        Some((from, _)) if is_query || is_word(at(next), &explainable) => Ok(Some((options, &tokens[*from..]))),
        other => Err(near(text, other.map(|(_, token)| *token))),
    }
}

impl Options {
    fn set(&mut self, name: &str, value: Option<&str>, place: usize) -> SqlResult<()> {
        let switch = || match value.map(str::to_lowercase).as_deref() {
            None | Some("true" | "on" | "1") => Ok(true),
            Some("false" | "off" | "0") => Ok(false),
            Some(_) => Err(SqlError::new(SqlState::SYNTAX_ERROR, format!("{name} requires a Boolean value"))),
        };
        match name {
            "analyze" => self.analyze = switch()?,
            "verbose" => self.verbose = switch()?,
            "costs" => self.costs = switch()?,
            "timing" => self.timing = Some(switch()?),
            "summary" => self.summary = Some(switch()?),
            // There are no buffers to count; of settings none changes a plan but `overtake.path`, and the path is told.
            "buffers" | "settings" => drop(switch()?),
            "wal" if !switch()? => {}
            "wal" => return Err(SqlError::unsupported("EXPLAIN option WAL")),
            "format" => match value.map(str::to_lowercase).as_deref() {
                Some("text") => self.is_json = false,
                Some("json") => self.is_json = true,
                Some(other @ ("xml" | "yaml")) => {
                    return Err(SqlError::unsupported(format_args!("EXPLAIN format {}", other.to_uppercase())));
                }
                Some(_) => {
                    let value = value.unwrap_or_default();
                    let message = format!("unrecognized value for EXPLAIN option \"format\": \"{value}\"");
                    return Err(SqlError::new(SqlState("22023"), message).at(place));
                }
                None => return Err(SqlError::new(SqlState::SYNTAX_ERROR, "format requires a parameter")),
            },
            other => {
                let message = format!("unrecognized EXPLAIN option \"{other}\"");
                return Err(SqlError::new(SqlState::SYNTAX_ERROR, message).at(place));
            }
        }
        Ok(())
    }
}

/// # Errors
/// `42601`, `0A000`: a statement that has no plan.
pub fn check(text: &str, tokens: &[TokenWithSpan], tree: &Statement) -> SqlResult<()> {
    match tree {
        Statement::Query(_)
        | Statement::Insert(_)
        | Statement::Update(_)
        | Statement::Delete(_)
        | Statement::Execute { .. } => Ok(()),
        Statement::CreateTable(create) if create.query.is_some() => Ok(()),
        // Up to its first type it could still have been one.
        Statement::CreateTable(_) => {
            let mut rest = tokens.iter().filter(|token| !is_space(token));
            rest.find(|token| token.token == Token::LParen);
            Err(near(text, rest.nth(1)))
        }
        Statement::Declare { .. } => Err(SqlError::unsupported("EXPLAIN DECLARE")),
        Statement::Merge { .. } => Err(SqlError::unsupported("EXPLAIN MERGE")),
        // `CREATE VIEW`
        _ => Err(near(text, tokens.iter().filter(|token| !is_space(token)).nth(1))),
    }
}
