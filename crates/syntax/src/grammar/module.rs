//! Definitions of modules. Their words are no keywords of PostgreSQL, so they stay free as names.

use super::Parser;
use crate::ast::{CreateModule, DropModules, OwnModule, Statement};
use crate::lex::{Keyword, Lexeme};
use statement::error::SqlResult;

impl Parser<'_> {
    /// Returns true if the current token is this word, which is no keyword. Words are given in lower case.
    pub(super) fn is_plain_word(&self, word: &str) -> bool {
        self.token.lexeme == Lexeme::Word && self.token.span.of(self.text).eq_ignore_ascii_case(word)
    }

    fn expect_plain_word(&mut self, word: &str) -> SqlResult<()> {
        if !self.is_plain_word(word) {
            return Err(self.unexpected());
        }
        self.next().map(drop)
    }

    /// Parses `CREATE MODULE`, from that word on.
    pub(super) fn create_module(&mut self, or_replace: bool) -> SqlResult<Statement> {
        self.expect_plain_word("module")?;
        let name = self.column_name()?;
        self.expect_plain_word("manifest")?;
        let manifest = self.text()?;
        let mut artifacts = Vec::new();
        loop {
            self.expect_plain_word("artifact")?;
            artifacts.push((self.label()?, self.text()?));
            if matches!(self.token.lexeme, Lexeme::End | Lexeme::Semicolon) {
                break;
            }
        }
        Ok(Statement::CreateModule(Box::new(CreateModule { or_replace, name, manifest, artifacts })))
    }

    /// Parses `ALTER MODULE`, from that word on.
    pub(super) fn alter_module(&mut self) -> SqlResult<Statement> {
        self.expect_plain_word("module")?;
        let name = self.column_name()?;
        self.expect_words(&[Keyword::Owner, Keyword::To])?;
        let owner = self.role_name()?;
        Ok(Statement::OwnModule(OwnModule { name, owner }))
    }

    /// Parses `DROP MODULE`, from that word on.
    pub(super) fn drop_modules(&mut self) -> SqlResult<Statement> {
        self.expect_plain_word("module")?;
        let if_exists = self.if_exists()?;
        let mut names = vec![self.column_name()?];
        while self.eat(Lexeme::Comma)? {
            names.push(self.column_name()?);
        }
        let is_cascading = self.cascades()?;
        Ok(Statement::DropModules(DropModules { names, if_exists, is_cascading }))
    }
}
