//! Statements of PostgreSQL that are not supported here: they are recognised by their first words and refused by name.

use super::Parser;
use crate::ast::Statement;
use crate::ast::UnsupportedStatement;
use crate::lex::{Keyword, Lexeme, Span};
use statement::error::SqlResult;

/// Objects that are created, altered and dropped, by their words.
const OBJECTS: &[&[Keyword]] = &[
    &[Keyword::Trigger],
    &[Keyword::Event, Keyword::Trigger],
    &[Keyword::Rule],
    &[Keyword::Policy],
    &[Keyword::Type],
    &[Keyword::Domain],
    &[Keyword::Aggregate],
    &[Keyword::Operator, Keyword::Class],
    &[Keyword::Operator, Keyword::Family],
    &[Keyword::Operator],
    &[Keyword::Cast],
    &[Keyword::Collation],
    &[Keyword::Conversion],
    &[Keyword::Transform],
    &[Keyword::Language],
    &[Keyword::Access, Keyword::Method],
    &[Keyword::Extension],
    &[Keyword::Foreign, Keyword::Table],
    &[Keyword::Foreign, Keyword::Data, Keyword::Wrapper],
    &[Keyword::Server],
    &[Keyword::User, Keyword::Mapping],
    &[Keyword::Publication],
    &[Keyword::Subscription],
    &[Keyword::Statistics],
    &[Keyword::Text, Keyword::Search],
    &[Keyword::Tablespace],
    &[Keyword::Materialized, Keyword::View],
    &[Keyword::Large, Keyword::Object],
];

/// Words between `CREATE` and the kind of the object.
const QUALIFIERS: &[Keyword] =
    &[Keyword::Or, Keyword::Replace, Keyword::Trusted, Keyword::Procedural, Keyword::Constraint, Keyword::Default];

impl Parser<'_> {
    /// Creates a statement that is not supported here, from the part of it that was read.
    pub(super) fn unsupported(&self, feature: impl Into<Box<str>>, from: Span) -> Statement {
        Statement::Unsupported(UnsupportedStatement { feature: feature.into(), span: self.since(from) })
    }

    /// Parses a statement that is not supported here, if the first words are those of one.
    pub(super) fn foreign(&mut self) -> SqlResult<Option<Statement>> {
        let from = self.token.span;
        let Lexeme::Keyword(verb) = self.token.lexeme else { return Ok(None) };
        let feature = match verb {
            Keyword::Create | Keyword::Alter | Keyword::Drop | Keyword::Refresh => match self.foreign_object(verb)? {
                Some(object) => format!("{} {object}", verb.word().to_uppercase()),
                None => return Ok(None),
            },
            Keyword::Import => "IMPORT FOREIGN SCHEMA".to_owned(),
            Keyword::Security => "SECURITY LABEL".to_owned(),
            Keyword::Do | Keyword::Load | Keyword::Listen | Keyword::Notify | Keyword::Merge => {
                // A verb alone is none: each of these statements has an object.
                if matches!(self.ahead(1)?, Lexeme::End | Lexeme::Semicolon) {
                    self.next()?;
                    return Err(self.unexpected());
                }
                verb.word().to_uppercase()
            }
            _ => return Ok(None),
        };
        self.skip_statement()?;
        Ok(Some(self.unsupported(feature, from)))
    }

    /// Returns the words of a verb's object, if objects of that kind are not supported here.
    fn foreign_object(&mut self, verb: Keyword) -> SqlResult<Option<String>> {
        let mut at = 1;
        loop {
            match self.ahead(at)? {
                // In `ALTER DEFAULT PRIVILEGES` the word qualifies nothing.
                Lexeme::Keyword(word)
                    if QUALIFIERS.contains(&word) && (verb == Keyword::Create || word == Keyword::Procedural) =>
                {
                    at += 1;
                }
                _ => break,
            }
        }
        // Number of words of the longest object that begins like this one and differs later.
        let mut begun = 0;
        for words in OBJECTS {
            let mut count = 0;
            while count < words.len() && self.ahead(at + count)? == Lexeme::Keyword(words[count]) {
                count += 1;
            }
            if count == words.len() {
                let words: Vec<&str> = words.iter().map(|word| word.word()).collect();
                return Ok(Some(words.join(" ").to_uppercase()));
            }
            begun = begun.max(count);
        }
        let is_own = matches!(self.ahead(at)?, Lexeme::Keyword(Keyword::User));
        if 0 < begun && !is_own || 1 < at && verb != Keyword::Create {
            for _ in 0..at + begun {
                self.next()?;
            }
            return Err(self.unexpected());
        }
        Ok(None)
    }

    /// Skips to the end of a statement. Rules contain statements in parentheses, and functions contain them after
    /// `BEGIN ATOMIC`.
    pub(super) fn skip_statement(&mut self) -> SqlResult<()> {
        let (mut parens, mut blocks) = (0_usize, 0_usize);
        loop {
            let is_atomic = self.is_word(Keyword::Begin) && self.ahead(1)? == Lexeme::Keyword(Keyword::Atomic);
            match self.token.lexeme {
                Lexeme::Broken => return Err(self.unexpected()),
                Lexeme::End => return Ok(()),
                Lexeme::Semicolon if parens == 0 && blocks == 0 => return Ok(()),
                Lexeme::LeftParen => parens += 1,
                Lexeme::RightParen => parens = parens.saturating_sub(1),
                Lexeme::Keyword(Keyword::Begin) if is_atomic => blocks += 1,
                Lexeme::Keyword(Keyword::Case) if 0 < blocks => blocks += 1,
                Lexeme::Keyword(Keyword::End) => blocks = blocks.saturating_sub(1),
                _ => {}
            }
            self.next()?;
        }
    }
}
