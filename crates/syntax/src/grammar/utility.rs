//! COPY, EXPLAIN and maintenance.

use super::Parser;
use crate::ast::Statement;
use crate::ast::{
    CommandOption, CopyCommand, CopyOf, CopyPlace, ExplainCommand, MaintenanceCommand, MaintenanceKind, Name,
    ObjectName, OptionValue,
};
use crate::lex::{Keyword, Lexeme, Span};
use statement::error::SqlResult;

impl Parser<'_> {
    /// Parses options in parentheses: `name [value], …`. The name of a COPY's option may be any word.
    pub(super) fn options(&mut self, takes_any: bool) -> SqlResult<Vec<CommandOption>> {
        self.expect(Lexeme::LeftParen)?;
        let mut options = vec![self.option(takes_any)?];
        while self.eat(Lexeme::Comma)? {
            options.push(self.option(takes_any)?);
        }
        self.expect(Lexeme::RightParen)?;
        Ok(options)
    }

    fn option(&mut self, takes_any: bool) -> SqlResult<CommandOption> {
        let lexeme = self.token.lexeme;
        let is_plain = Self::is_column_name(lexeme)
            || Self::is_function_name(lexeme)
            || matches!(lexeme, Lexeme::Keyword(Keyword::Analyze | Keyword::Analyse));
        if !takes_any && !is_plain {
            return Err(self.unexpected());
        }
        let name = self.label()?;
        let value = match self.token.lexeme {
            Lexeme::Comma | Lexeme::RightParen => None,
            Lexeme::Star if takes_any => {
                self.next()?;
                Some(OptionValue::Star)
            }
            Lexeme::Integer | Lexeme::Decimal | Lexeme::Plus | Lexeme::Minus => {
                Some(OptionValue::Number(self.signed_number()?))
            }
            Lexeme::LeftParen if takes_any => {
                self.next()?;
                let mut list = vec![self.word_or_text()?];
                while self.eat(Lexeme::Comma)? {
                    list.push(self.word_or_text()?);
                }
                self.expect(Lexeme::RightParen)?;
                Some(OptionValue::List(list))
            }
            _ => Some(OptionValue::Text(self.word_or_text()?)),
        };
        Ok(CommandOption { name, value })
    }

    /// Parses a word or text: `opt_boolean_or_string`.
    fn word_or_text(&mut self) -> SqlResult<Box<str>> {
        match self.token.lexeme {
            Lexeme::Keyword(word @ (Keyword::True | Keyword::False | Keyword::On)) => {
                self.next()?;
                Ok(word.word().into())
            }
            _ => self.non_reserved_word_or_text(),
        }
    }

    fn plain_option(&self, name: &str, span: Span, value: Option<OptionValue>) -> CommandOption {
        CommandOption { name: Name { text: name.into(), span }, value }
    }

    /// Parses `COPY`, at the current token.
    pub(super) fn copy(&mut self) -> SqlResult<Statement> {
        self.expect_word(Keyword::Copy)?;
        let mut options = Vec::new();
        if self.is(Lexeme::LeftParen) {
            self.next()?;
            let statement = self.within(Self::preparable)?;
            self.expect(Lexeme::RightParen)?;
            self.expect_word(Keyword::To)?;
            let place = self.copy_place(Keyword::Stdout)?;
            self.copy_options(&mut options)?;
            let of = CopyOf::Statement(Box::new(statement));
            let copy = CopyCommand { of, is_from: false, place, options, condition: None };
            return Ok(Statement::Copy(Box::new(copy)));
        }
        if self.is_word(Keyword::Binary) {
            let span = self.next()?.span;
            let value = Some(OptionValue::Text("binary".into()));
            options.push(self.plain_option("format", span, value));
        }
        let name = self.object_name()?;
        let columns = if self.is(Lexeme::LeftParen) { self.column_names()? } else { Vec::new() };
        let is_from = self.eat_word(Keyword::From)?;
        if !is_from {
            self.expect_word(Keyword::To)?;
        }
        let place = self.copy_place(if is_from { Keyword::Stdin } else { Keyword::Stdout })?;
        if self.is_word(Keyword::Delimiters) || self.is_word(Keyword::Using) {
            let span = self.token.span;
            self.eat_word(Keyword::Using)?;
            self.expect_word(Keyword::Delimiters)?;
            let value = Some(OptionValue::Text(self.text()?));
            options.push(self.plain_option("delimiter", span, value));
        }
        self.copy_options(&mut options)?;
        let condition = if self.eat_word(Keyword::Where)? { Some(self.expr()?) } else { None };
        let copy = CopyCommand { of: CopyOf::Table(name, columns), is_from, place, options, condition };
        Ok(Statement::Copy(Box::new(copy)))
    }

    fn copy_place(&mut self, client: Keyword) -> SqlResult<CopyPlace> {
        if self.eat_word(Keyword::Program)? {
            return Ok(CopyPlace::Program(self.text()?));
        }
        // Either word means the client.
        if self.eat_word(client)? || self.eat_word(Keyword::Stdin)? || self.eat_word(Keyword::Stdout)? {
            return Ok(CopyPlace::Client);
        }
        Ok(CopyPlace::File(self.text()?))
    }

    /// Parses options of a COPY, in parentheses or in the syntax of PostgreSQL before 9.0.
    fn copy_options(&mut self, options: &mut Vec<CommandOption>) -> SqlResult<()> {
        self.eat_word(Keyword::With)?;
        if self.is(Lexeme::LeftParen) {
            options.extend(self.options(true)?);
            return Ok(());
        }
        loop {
            let span = self.token.span;
            let Lexeme::Keyword(word) = self.token.lexeme else { return Ok(()) };
            // Options of the old syntax get the names and values that they have in parentheses.
            let text = |parser: &mut Self| -> SqlResult<Option<OptionValue>> {
                parser.next()?;
                parser.eat_word(Keyword::As)?;
                Ok(Some(OptionValue::Text(parser.text()?)))
            };
            let (name, value) = match word {
                Keyword::Binary | Keyword::Csv => {
                    self.next()?;
                    ("format", Some(OptionValue::Text(word.word().into())))
                }
                Keyword::Freeze | Keyword::Header => {
                    self.next()?;
                    (word.word(), Some(OptionValue::Text("true".into())))
                }
                Keyword::Delimiter | Keyword::Null | Keyword::Quote | Keyword::Escape => (word.word(), text(self)?),
                Keyword::Encoding => {
                    self.next()?;
                    ("encoding", Some(OptionValue::Text(self.text()?)))
                }
                Keyword::Force => {
                    self.next()?;
                    let name = match self.token.lexeme {
                        Lexeme::Keyword(Keyword::Quote) => "force_quote",
                        Lexeme::Keyword(Keyword::Null) => "force_null",
                        Lexeme::Keyword(Keyword::Not) => {
                            self.next()?;
                            if !self.is_word(Keyword::Null) {
                                return Err(self.unexpected());
                            }
                            "force_not_null"
                        }
                        _ => return Err(self.unexpected()),
                    };
                    self.next()?;
                    let value = match name == "force_quote" && self.eat(Lexeme::Star)? {
                        true => OptionValue::Star,
                        false => {
                            let mut list = vec![self.column_name()?.text];
                            while self.eat(Lexeme::Comma)? {
                                list.push(self.column_name()?.text);
                            }
                            OptionValue::List(list)
                        }
                    };
                    (name, Some(value))
                }
                _ => return Ok(()),
            };
            options.push(self.plain_option(name, span, value));
        }
    }

    /// Parses `EXPLAIN`, at the current token.
    pub(super) fn explain(&mut self) -> SqlResult<Statement> {
        self.expect_word(Keyword::Explain)?;
        let mut options = Vec::new();
        // A parenthesis may be the query's.
        if self.is(Lexeme::LeftParen) && !self.begins_query(1)? && self.ahead(1)? != Lexeme::LeftParen {
            options = self.options(false)?;
        } else {
            for word in [Keyword::Analyze, Keyword::Verbose] {
                let is_there = self.is_word(word) || (word == Keyword::Analyze && self.is_word(Keyword::Analyse));
                if is_there {
                    let span = self.next()?.span;
                    options.push(self.plain_option(word.word(), span, None));
                }
            }
        }
        let statement = self.within(Self::explainable)?;
        Ok(Statement::Explain(Box::new(ExplainCommand { options, statement })))
    }

    /// Parses a statement that may be explained: `ExplainableStmt`.
    fn explainable(&mut self) -> SqlResult<Statement> {
        match self.token.lexeme {
            Lexeme::Keyword(Keyword::Declare) => self.declare(),
            Lexeme::Keyword(Keyword::Execute) => Ok(Statement::Execute(self.execute()?)),
            Lexeme::Keyword(Keyword::Create) => {
                let makes_table = matches!(
                    self.ahead(1)?,
                    Lexeme::Keyword(
                        Keyword::Table
                            | Keyword::Temp
                            | Keyword::Temporary
                            | Keyword::Local
                            | Keyword::Global
                            | Keyword::Unlogged
                            | Keyword::Materialized
                    )
                );
                if !makes_table {
                    self.next()?;
                    return Err(self.unexpected());
                }
                self.in_explain = true;
                let statement = self.statement();
                self.in_explain = false;
                match statement? {
                    // A table without a query cannot be explained.
                    Statement::CreateTable(_) => Err(self.unexpected()),
                    statement => Ok(statement),
                }
            }
            _ => self.preparable(),
        }
    }

    /// Parses `VACUUM` or `ANALYZE`, at the current token.
    pub(super) fn vacuum(&mut self) -> SqlResult<Statement> {
        let is_vacuum = self.is_word(Keyword::Vacuum);
        self.next()?;
        let mut options = Vec::new();
        if self.is(Lexeme::LeftParen) {
            options = self.options(false)?;
        } else {
            let words: &[Keyword] = match is_vacuum {
                true => &[Keyword::Full, Keyword::Freeze, Keyword::Verbose, Keyword::Analyze],
                false => &[Keyword::Verbose],
            };
            for word in words {
                if self.is_word(*word) || (*word == Keyword::Analyze && self.is_word(Keyword::Analyse)) {
                    let span = self.next()?.span;
                    options.push(self.plain_option(word.word(), span, None));
                }
            }
        }
        let mut targets = Vec::new();
        if Self::is_column_name(self.token.lexeme) {
            loop {
                let name = self.object_name()?;
                let columns = if self.is(Lexeme::LeftParen) { self.column_names()? } else { Vec::new() };
                targets.push((name, columns));
                if !self.eat(Lexeme::Comma)? {
                    break;
                }
            }
        }
        let kind = if is_vacuum { MaintenanceKind::Vacuum } else { MaintenanceKind::Analyze };
        Ok(Statement::Maintenance(MaintenanceCommand { kind, options, targets, index: None }))
    }

    /// Parses `CLUSTER`, at the current token.
    pub(super) fn cluster(&mut self) -> SqlResult<Statement> {
        self.expect_word(Keyword::Cluster)?;
        let mut options = Vec::new();
        let has_options = self.is(Lexeme::LeftParen);
        if has_options {
            options = self.options(false)?;
        } else if self.is_word(Keyword::Verbose) {
            let span = self.next()?.span;
            options.push(self.plain_option("verbose", span, None));
        }
        let (mut targets, mut index) = (Vec::new(), None);
        // After options a table must be named.
        if has_options || Self::is_column_name(self.token.lexeme) {
            let name = self.object_name()?;
            if self.eat_word(Keyword::On)? {
                // `CLUSTER index ON table`, as before PostgreSQL 8.3.
                index = name.parts.into_iter().next_back();
                targets.push((self.object_name()?, Vec::new()));
            } else {
                targets.push((name, Vec::new()));
                index = if self.eat_word(Keyword::Using)? { Some(self.column_name()?) } else { None };
            }
        }
        Ok(Statement::Maintenance(MaintenanceCommand { kind: MaintenanceKind::Cluster, options, targets, index }))
    }

    /// Parses `REINDEX`, at the current token.
    pub(super) fn reindex(&mut self) -> SqlResult<Statement> {
        self.expect_word(Keyword::Reindex)?;
        let mut options = if self.is(Lexeme::LeftParen) { self.options(false)? } else { Vec::new() };
        let kind = match self.token.lexeme {
            Lexeme::Keyword(Keyword::Table) => MaintenanceKind::ReindexTable,
            Lexeme::Keyword(Keyword::Index) => MaintenanceKind::ReindexIndex,
            Lexeme::Keyword(Keyword::Schema) => MaintenanceKind::ReindexSchema,
            Lexeme::Keyword(Keyword::Database) => MaintenanceKind::ReindexDatabase,
            Lexeme::Keyword(Keyword::System) => MaintenanceKind::ReindexSystem,
            _ => return Err(self.unexpected()),
        };
        self.next()?;
        if self.is_word(Keyword::Concurrently) {
            let span = self.next()?.span;
            options.push(self.plain_option("concurrently", span, None));
        }
        let name = match kind {
            MaintenanceKind::ReindexTable | MaintenanceKind::ReindexIndex => self.object_name()?,
            _ => ObjectName { parts: vec![self.column_name()?] },
        };
        Ok(Statement::Maintenance(MaintenanceCommand { kind, options, targets: vec![(name, Vec::new())], index: None }))
    }
}
