//! Statements that change no answer, of which the library knows other databases' forms or none: `VACUUM`, `ANALYZE`, `REINDEX`,
//! `CLUSTER`, `CHECKPOINT`; and `SET CONSTRAINTS`, as no constraint can be deferred. What they name must be there, and they wait
//! for who has it in a mode that excludes PostgreSQL's, as if they had something to do.

use super::rewrite::{is_word, mark, marking};
use super::{at_end, near, position};
use sqlparser::ast;
use sqlparser::tokenizer::{Token, TokenWithSpan};
use statement::error::{SqlError, SqlResult, SqlState};
use std::iter::Peekable;

/// Stands before a name in a `LOCK`: it is an index's.
const INDEX: &str = "index";
/// The same: it is a constraint's, which is to be deferred, or not.
const DEFERRED: &str = "constraint deferred";
const IMMEDIATE: &str = "constraint immediate";

/// The same: it is a schema's.
const SCHEMA: &str = "schema";
/// The same: it is a database's.
const DATABASE: &str = "database";
/// The first of all: what the statement is called, behind this.
const STATEMENT: &str = "statement ";

/// What a name that is locked stands for.
pub enum Target {
    /// Nothing; the statement has this tag, and gives the locks up at its end.
    Tag(&'static str),
    /// Table.
    Table(ast::ObjectName),
    /// Index.
    Index(ast::ObjectName),
    /// All tables of a schema.
    Schema(ast::ObjectName),
    /// All tables of a database.
    Database(ast::ObjectName),
    /// Constraint of `SET CONSTRAINTS`.
    Constraint {
        /// Name of the constraint.
        name: ast::ObjectName,
        /// True for `DEFERRED`.
        defers: bool,
    },
}

/// Tells whether it stands for one of these statements.
pub fn is_maintenance(lock: &ast::Lock) -> bool {
    lock.tables.first().is_some_and(|first| matches!(target(&first.name), Target::Tag(_)))
}

/// What a name in a `LOCK` is.
pub fn target(name: &ast::ObjectName) -> Target {
    let first = match name.0.first() {
        Some(ast::ObjectNamePart::Identifier(ident)) => mark(ident),
        _ => None,
    };
    let rest = || ast::ObjectName(name.0[1..].to_vec());
    match first {
        Some(INDEX) => Target::Index(rest()),
        Some(SCHEMA) => Target::Schema(rest()),
        Some(DATABASE) => Target::Database(rest()),
        Some(what) if what.starts_with(STATEMENT) => {
            let tag = TAGS.into_iter().find(|tag| what.strip_prefix(STATEMENT) == Some(tag));
            Target::Tag(tag.unwrap_or_default())
        }
        Some(what @ (DEFERRED | IMMEDIATE)) => Target::Constraint { name: rest(), defers: what == DEFERRED },
        _ => Target::Table(name.clone()),
    }
}

/// What the statements are called.
const TAGS: [&str; 6] = ["VACUUM", "ANALYZE", "CHECKPOINT", "REINDEX", "CLUSTER", "SET CONSTRAINTS"];

/// A statement that locks what it names; in mode ACCESS SHARE: that only looks whether it is there.
fn locking(tag: &'static str, mut tables: Vec<ast::LockTableTarget>, mode: ast::LockTableMode) -> ast::Statement {
    tables.insert(0, named(Vec::new(), Some(&format!("{STATEMENT}{tag}"))));
    ast::Statement::Lock(ast::Lock { tables, lock_mode: Some(mode), nowait: false })
}

fn named(mut name: Vec<ast::ObjectNamePart>, what: Option<&str>) -> ast::LockTableTarget {
    if let Some(what) = what {
        name.insert(0, ast::ObjectNamePart::Identifier(ast::Ident::with_quote('"', marking(what))));
    }
    ast::LockTableTarget { name: ast::ObjectName(name), only: false, has_asterisk: false }
}

/// The name that stands next.
fn name<'t>(
    text: &str,
    words: &mut Peekable<impl Iterator<Item = &'t TokenWithSpan>>,
) -> SqlResult<Vec<ast::ObjectNamePart>> {
    let mut name: Vec<ast::ObjectNamePart> = Vec::new();
    loop {
        let next = words.next();
        let Some(TokenWithSpan { token: Token::Word(part), span }) = next else { return Err(near(text, next)) };
        name.push(ast::ObjectNamePart::Identifier(part.clone().into_ident(*span)));
        match words.peek().map(|token| &token.token) {
            Some(Token::Period) => drop(words.next()),
            _ => return Ok(name),
        }
    }
}

/// `(option [value], ...)`
fn skip_options<'t>(text: &str, words: &mut Peekable<impl Iterator<Item = &'t TokenWithSpan>>) -> SqlResult<()> {
    if words.next_if(|token| token.token == Token::LParen).is_some() {
        let end = words.find(|token| token.token == Token::RParen);
        if end.is_none() {
            return Err(at_end(text));
        }
    }
    Ok(())
}

/// The statement, if it is one of these: one that locks the same objects.
///
/// # Errors
/// `42601`
pub(super) fn maintenance(text: &str, tokens: &[TokenWithSpan]) -> SqlResult<Option<ast::Statement>> {
    let mut words = tokens.iter().filter(|token| !matches!(token.token, Token::Whitespace(_) | Token::EOF)).peekable();
    let Some(first) = words.next() else { return Ok(None) };
    let mut found = Vec::new();
    let mut mode = ast::LockTableMode::AccessShare;
    let tag = match () {
        () if is_word(first, "vacuum") => return gathered(text, "VACUUM", words).map(Some),
        () if is_word(first, "analyze") || is_word(first, "analyse") => {
            return gathered(text, "ANALYZE", words).map(Some);
        }
        () if is_word(first, "checkpoint") => "CHECKPOINT",
        () if is_word(first, "reindex") => {
            skip_options(text, &mut words)?;
            let what = words.next();
            let is = |word| what.is_some_and(|token| is_word(token, word));
            let is_concurrent = words.next_if(|token| is_word(token, "concurrently")).is_some();
            mode = match is_concurrent {
                true => ast::LockTableMode::ShareUpdateExclusive,
                false => ast::LockTableMode::Share,
            };
            let own = name(text, &mut words)?;
            match () {
                () if is("table") => found.push(named(own, None)),
                () if is("index") => found.push(named(own, Some(INDEX))),
                () if is("schema") => found.push(named(own, Some(SCHEMA))),
                () if is("database") => found.push(named(own, Some(DATABASE))),
                // The catalog has no indexes.
                () if is("system") => {}
                () => return Err(near(text, what)),
            }
            "REINDEX"
        }
        () if is_word(first, "cluster") => {
            skip_options(text, &mut words)?;
            mode = ast::LockTableMode::AccessExclusive;
            words.next_if(|token| is_word(token, "verbose"));
            if words.peek().is_some() {
                let mut own = name(text, &mut words)?;
                let mut index = None;
                if words.next_if(|token| is_word(token, "on")).is_some() {
                    // As it was written once: the index first.
                    index = std::mem::replace(&mut own, name(text, &mut words)?).pop();
                }
                if let Some(last) = index {
                    let mut index = own.clone();
                    index.pop();
                    index.push(last);
                    found.push(named(index, Some(INDEX)));
                } else if words.next_if(|token| is_word(token, "using")).is_some() {
                    // It is in the schema of its table.
                    let mut index = own.clone();
                    index.pop();
                    index.extend(name(text, &mut words)?);
                    found.push(named(index, Some(INDEX)));
                }
                found.insert(0, named(own, None));
            }
            "CLUSTER"
        }
        () if is_word(first, "set") && words.next_if(|token| is_word(token, "constraints")).is_some() => {
            let mut names = Vec::new();
            if words.next_if(|token| is_word(token, "all")).is_none() {
                loop {
                    names.push(name(text, &mut words)?);
                    if words.next_if(|token| token.token == Token::Comma).is_none() {
                        break;
                    }
                }
            }
            let mode = match words.next() {
                Some(mode) if is_word(mode, "deferred") => DEFERRED,
                Some(mode) if is_word(mode, "immediate") => IMMEDIATE,
                other => return Err(near(text, other)),
            };
            found.extend(names.into_iter().map(|name| named(name, Some(mode))));
            "SET CONSTRAINTS"
        }
        () => return Ok(None),
    };
    match words.next() {
        None => Ok(Some(locking(tag, found, mode))),
        more => Err(near(text, more)),
    }
}

/// `VACUUM`, `ANALYZE`, behind that word.
fn gathered<'t>(
    text: &str,
    tag: &'static str,
    mut words: Peekable<impl Iterator<Item = &'t TokenWithSpan>>,
) -> SqlResult<ast::Statement> {
    let (mut is_full, mut skips) = (false, false);
    let word = |token: &TokenWithSpan| match &token.token {
        Token::Word(word) if word.quote_style.is_none() => word.value.to_lowercase(),
        _ => String::new(),
    };
    if words.peek().is_some_and(|token| token.token == Token::LParen) {
        // Options: names, with a value perhaps.
        words.next();
        loop {
            let Some(name) = words.next() else { return Err(at_end(text)) };
            let known = [
                "full",
                "freeze",
                "verbose",
                "analyze",
                "analyse",
                "disable_page_skipping",
                "skip_locked",
                "index_cleanup",
                "process_toast",
                "truncate",
                "parallel",
            ];
            if !known.contains(&&*word(name)) {
                let message = format!("unrecognized {tag} option \"{}\"", word(name));
                return Err(SqlError::new(SqlState::SYNTAX_ERROR, message).at(position(text, name.span.start)));
            }
            is_full |= word(name) == "full";
            skips |= word(name) == "skip_locked";
            let mut end = words.next();
            if end.is_some_and(|token| !matches!(token.token, Token::Comma | Token::RParen)) {
                end = words.next();
            }
            match end.map(|token| &token.token) {
                Some(Token::Comma) => {}
                Some(Token::RParen) => break,
                _ => return Err(near(text, end)),
            }
        }
    } else {
        let flags = ["full", "freeze", "verbose", "analyze", "analyse"];
        while let Some(flag) = words.next_if(|token| flags.contains(&&*word(token))) {
            is_full |= word(flag) == "full";
        }
    }
    let mut tables = Vec::new();
    while words.peek().is_some() {
        let name = name(text, &mut words)?;
        // Columns.
        if words.peek().is_some_and(|token| token.token == Token::LParen) {
            words.find(|token| token.token == Token::RParen);
        }
        tables.push(named(name, None));
        match words.next() {
            None => break,
            Some(token) if token.token == Token::Comma && words.peek().is_some() => {}
            other => return Err(near(text, other)),
        }
    }
    let mode = match (skips, is_full) {
        (true, _) => ast::LockTableMode::AccessShare,
        (false, true) => ast::LockTableMode::AccessExclusive,
        (false, false) => ast::LockTableMode::ShareUpdateExclusive,
    };
    Ok(locking(tag, tables, mode))
}
