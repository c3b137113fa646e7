//! Definitions of indexes, views, sequences and schemas; `DROP`, `TRUNCATE`, `COMMENT`.

use super::Parser;
use crate::ast::Statement;
use crate::ast::{
    CommentCommand, CreateIndex, CreateSchema, CreateView, DropCommand, DropDatabase, Expr, ExprKind, IndexKey,
    ObjectKind, ObjectName, Persistence, RoleName, SequenceDefinition, SequenceOption, SequenceOptionKind,
    TruncateCommand,
};
use crate::lex::{Keyword, Lexeme};
use statement::error::SqlResult;

impl Parser<'_> {
    /// Parses `CREATE`, at the current token, of objects that are supported here.
    pub(super) fn create(&mut self) -> SqlResult<Statement> {
        let from = self.expect_word(Keyword::Create)?.span;
        let or_replace = self.is_word(Keyword::Or);
        if or_replace {
            self.expect_words(&[Keyword::Or, Keyword::Replace])?;
        }
        let persistence = self.persistence()?;
        match self.token.lexeme {
            Lexeme::Keyword(Keyword::Table) if !or_replace => self.create_table(persistence),
            Lexeme::Keyword(Keyword::View) if persistence != Persistence::Unlogged => {
                self.create_view(persistence, or_replace)
            }
            Lexeme::Keyword(Keyword::Recursive) if persistence != Persistence::Unlogged => {
                self.create_view(persistence, or_replace)
            }
            Lexeme::Keyword(Keyword::Sequence) if !or_replace => {
                self.next()?;
                let has_condition = self.if_not_exists()?;
                let name = self.object_name()?;
                let options = self.sequence_options()?;
                let sequence = SequenceDefinition { name, persistence, has_condition, options };
                Ok(Statement::CreateSequence(Box::new(sequence)))
            }
            Lexeme::Keyword(Keyword::Function | Keyword::Procedure) if persistence == Persistence::Permanent => {
                self.create_routine(or_replace)
            }
            _ if self.is_plain_word("module") && persistence == Persistence::Permanent => {
                self.create_module(or_replace)
            }
            _ if or_replace || persistence != Persistence::Permanent => Err(self.unexpected()),
            Lexeme::Keyword(Keyword::Unique | Keyword::Index) => self.create_index(),
            Lexeme::Keyword(Keyword::Schema) => self.create_schema(),
            Lexeme::Keyword(Keyword::Role | Keyword::User | Keyword::Group) => self.create_role(),
            Lexeme::Keyword(Keyword::Database) => {
                self.next()?;
                self.column_name()?;
                self.skip_statement()?;
                Ok(self.unsupported("CREATE DATABASE", from))
            }
            _ => Err(self.unexpected()),
        }
    }

    /// Parses `TEMP`, `UNLOGGED` and the like, if there is one.
    fn persistence(&mut self) -> SqlResult<Persistence> {
        let is_temporary = |lexeme| matches!(lexeme, Lexeme::Keyword(Keyword::Temp | Keyword::Temporary));
        if matches!(self.token.lexeme, Lexeme::Keyword(Keyword::Local | Keyword::Global)) {
            self.next()?;
            if !is_temporary(self.token.lexeme) {
                return Err(self.unexpected());
            }
        }
        if is_temporary(self.token.lexeme) {
            self.next()?;
            return Ok(Persistence::Temporary);
        }
        Ok(if self.eat_word(Keyword::Unlogged)? { Persistence::Unlogged } else { Persistence::Permanent })
    }

    /// Parses `CREATE INDEX`, from `UNIQUE` or `INDEX` on.
    fn create_index(&mut self) -> SqlResult<Statement> {
        let is_unique = self.eat_word(Keyword::Unique)?;
        self.expect_word(Keyword::Index)?;
        let is_concurrent = self.eat_word(Keyword::Concurrently)?;
        let if_not_exists = self.if_not_exists()?;
        let name = if if_not_exists || !self.is_word(Keyword::On) { Some(self.column_name()?) } else { None };
        self.expect_word(Keyword::On)?;
        let table = self.relation()?.name;
        let method = if self.eat_word(Keyword::Using)? { Some(self.column_name()?) } else { None };
        let keys = self.index_keys()?;
        let included = if self.eat_word(Keyword::Include)? { self.index_keys()? } else { Vec::new() };
        let nulls_not_distinct = self.nulls_not_distinct()?;
        let parameters = if self.eat_word(Keyword::With)? { self.storage_parameters()? } else { Vec::new() };
        let tablespace = if self.eat_word(Keyword::Tablespace)? { Some(self.column_name()?) } else { None };
        let predicate = if self.eat_word(Keyword::Where)? { Some(self.expr()?) } else { None };
        Ok(Statement::CreateIndex(Box::new(CreateIndex {
            name,
            table,
            is_unique,
            is_concurrent,
            if_not_exists,
            method,
            keys,
            included,
            nulls_not_distinct,
            parameters,
            tablespace,
            predicate,
        })))
    }

    /// Parses keys of an index, in parentheses.
    pub(super) fn index_keys(&mut self) -> SqlResult<Vec<IndexKey>> {
        self.expect(Lexeme::LeftParen)?;
        let mut keys = vec![self.index_key()?];
        while self.eat(Lexeme::Comma)? {
            keys.push(self.index_key()?);
        }
        self.expect(Lexeme::RightParen)?;
        Ok(keys)
    }

    /// Parses a key of an index: `index_elem`.
    fn index_key(&mut self) -> SqlResult<IndexKey> {
        let from = self.token.span;
        let follows = self.ahead(1)?;
        let is_call = (Self::is_function_name(self.token.lexeme) && follows == Lexeme::LeftParen)
            || (Self::is_column_name(self.token.lexeme) && follows == Lexeme::Dot);
        let value = match self.token.lexeme {
            Lexeme::LeftParen => {
                self.next()?;
                let value = self.expr()?;
                self.expect(Lexeme::RightParen)?;
                value
            }
            _ if is_call => self.primary()?,
            _ => {
                let name = self.column_name()?;
                let span = name.span;
                Expr { kind: ExprKind::Column(ObjectName { parts: vec![name] }), span }
            }
        };
        let collation = if self.eat_word(Keyword::Collate)? { Some(self.object_name()?) } else { None };
        let names_class = Self::is_column_name(self.token.lexeme) && !self.is_word(Keyword::Nulls);
        let class = if names_class { Some(self.object_name()?) } else { None };
        let has_class_options = class.is_some() && self.is(Lexeme::LeftParen);
        if has_class_options {
            self.storage_parameters()?;
        }
        let (order, nulls) = (self.direction()?, self.nulls()?);
        Ok(IndexKey { value, collation, class, has_class_options, order, nulls, span: self.since(from) })
    }

    /// Parses `CREATE VIEW`, from `RECURSIVE` or `VIEW` on.
    fn create_view(&mut self, persistence: Persistence, or_replace: bool) -> SqlResult<Statement> {
        let is_recursive = self.eat_word(Keyword::Recursive)?;
        self.expect_word(Keyword::View)?;
        let name = self.object_name()?;
        let columns = if is_recursive || self.is(Lexeme::LeftParen) { self.column_names()? } else { Vec::new() };
        let options = if self.eat_word(Keyword::With)? { self.storage_parameters()? } else { Vec::new() };
        self.expect_word(Keyword::As)?;
        let at = self.token.span;
        let query = self.query()?;
        let extent = self.since(at);
        let has_check_option = self.eat_word(Keyword::With)?;
        if has_check_option {
            if !self.eat_word(Keyword::Cascaded)? {
                self.eat_word(Keyword::Local)?;
            }
            self.expect_words(&[Keyword::Check, Keyword::Option])?;
        }
        Ok(Statement::CreateView(Box::new(CreateView {
            name,
            persistence,
            or_replace,
            is_recursive,
            columns,
            options,
            query,
            extent,
            has_check_option,
        })))
    }

    /// Parses options of a sequence, if there are any.
    pub(super) fn sequence_options(&mut self) -> SqlResult<Vec<SequenceOption>> {
        let mut options = Vec::new();
        while let Some(option) = self.sequence_option()? {
            options.push(option);
        }
        Ok(options)
    }

    /// Parses options of a sequence in parentheses; there is at least one.
    pub(super) fn enclosed_sequence_options(&mut self) -> SqlResult<Vec<SequenceOption>> {
        self.expect(Lexeme::LeftParen)?;
        let options = self.sequence_options()?;
        if options.is_empty() {
            return Err(self.unexpected());
        }
        self.expect(Lexeme::RightParen)?;
        Ok(options)
    }

    pub(super) fn sequence_option(&mut self) -> SqlResult<Option<SequenceOption>> {
        let from = self.token.span;
        let Lexeme::Keyword(word) = self.token.lexeme else { return Ok(None) };
        if !matches!(
            word,
            Keyword::As
                | Keyword::Cache
                | Keyword::Cycle
                | Keyword::Increment
                | Keyword::Maxvalue
                | Keyword::Minvalue
                | Keyword::No
                | Keyword::Owned
                | Keyword::Sequence
                | Keyword::Start
                | Keyword::Restart
                | Keyword::Logged
                | Keyword::Unlogged
        ) {
            return Ok(None);
        }
        self.next()?;
        let kind = match word {
            Keyword::As => SequenceOptionKind::As(self.type_name()?),
            Keyword::Cache => SequenceOptionKind::Cache(self.signed_number()?),
            Keyword::Cycle => SequenceOptionKind::Cycle(true),
            Keyword::Increment => {
                self.eat_word(Keyword::By)?;
                SequenceOptionKind::Increment(self.signed_number()?)
            }
            Keyword::Maxvalue => SequenceOptionKind::MaxValue(self.signed_number()?),
            Keyword::Minvalue => SequenceOptionKind::MinValue(self.signed_number()?),
            Keyword::No => {
                let kind = match self.token.lexeme {
                    Lexeme::Keyword(Keyword::Maxvalue) => SequenceOptionKind::NoMaxValue,
                    Lexeme::Keyword(Keyword::Minvalue) => SequenceOptionKind::NoMinValue,
                    Lexeme::Keyword(Keyword::Cycle) => SequenceOptionKind::Cycle(false),
                    _ => return Err(self.unexpected()),
                };
                self.next()?;
                kind
            }
            Keyword::Owned => {
                self.expect_word(Keyword::By)?;
                SequenceOptionKind::OwnedBy(self.object_name()?)
            }
            Keyword::Sequence => {
                self.expect_word(Keyword::Name)?;
                SequenceOptionKind::SequenceName(self.object_name()?)
            }
            Keyword::Start => {
                self.eat_word(Keyword::With)?;
                SequenceOptionKind::Start(self.signed_number()?)
            }
            Keyword::Restart => {
                // `WITH` is optional, and so is the number.
                let is_number =
                    |lexeme| matches!(lexeme, Lexeme::Integer | Lexeme::Decimal | Lexeme::Plus | Lexeme::Minus);
                match self.eat_word(Keyword::With)? || is_number(self.token.lexeme) {
                    true => SequenceOptionKind::Restart(Some(self.signed_number()?)),
                    false => SequenceOptionKind::Restart(None),
                }
            }
            Keyword::Logged => SequenceOptionKind::Logged,
            _ => SequenceOptionKind::Unlogged,
        };
        Ok(Some(SequenceOption { kind, span: self.since(from) }))
    }

    /// Parses `CREATE SCHEMA`, from the word `SCHEMA` on.
    fn create_schema(&mut self) -> SqlResult<Statement> {
        self.expect_word(Keyword::Schema)?;
        let if_not_exists = self.if_not_exists()?;
        let name = if self.is_word(Keyword::Authorization) { None } else { Some(self.column_name()?) };
        let owner = if self.eat_word(Keyword::Authorization)? { Some(self.role_name()?) } else { None };
        let has_elements = matches!(self.token.lexeme, Lexeme::Keyword(Keyword::Create | Keyword::Grant));
        if has_elements {
            self.skip_statement()?;
        }
        Ok(Statement::CreateSchema(CreateSchema { name, owner, if_not_exists, has_elements }))
    }

    /// Parses a role by its name, or by a word for the current one: `RoleSpec`.
    pub(super) fn role_name(&mut self) -> SqlResult<RoleName> {
        let role = match self.token.lexeme {
            Lexeme::Keyword(Keyword::CurrentRole) => RoleName::CurrentRole,
            Lexeme::Keyword(Keyword::CurrentUser) => RoleName::CurrentUser,
            Lexeme::Keyword(Keyword::SessionUser) => RoleName::SessionUser,
            lexeme if Self::is_column_name(lexeme) || Self::is_function_name(lexeme) => {
                let token = self.next()?;
                let name = self.name_of(token)?;
                let is_plain = token.lexeme != Lexeme::Quoted;
                return Ok(if is_plain && &*name.text == "public" { RoleName::Public } else { RoleName::Named(name) });
            }
            _ => return Err(self.unexpected()),
        };
        self.next()?;
        Ok(role)
    }

    /// Parses `DROP`, at the current token, of objects that are supported here.
    pub(super) fn drop_objects(&mut self) -> SqlResult<Statement> {
        self.expect_word(Keyword::Drop)?;
        if let Some(word) = self.routine_word() {
            return self.drop_routines(word);
        }
        if self.is_word(Keyword::Owned) {
            return self.drop_owned();
        }
        if self.is_plain_word("module") {
            return self.drop_modules();
        }
        let kind = match self.token.lexeme {
            Lexeme::Keyword(Keyword::Table) => ObjectKind::Table,
            Lexeme::Keyword(Keyword::View) => ObjectKind::View,
            Lexeme::Keyword(Keyword::Index) => ObjectKind::Index,
            Lexeme::Keyword(Keyword::Sequence) => ObjectKind::Sequence,
            Lexeme::Keyword(Keyword::Schema) => ObjectKind::Schema,
            Lexeme::Keyword(Keyword::Role | Keyword::User | Keyword::Group) => ObjectKind::Role,
            Lexeme::Keyword(Keyword::Database) => {
                self.next()?;
                let if_exists = self.if_exists()?;
                let name = self.column_name()?;
                let mut is_forced = false;
                if self.eat_word(Keyword::With)? || self.is(Lexeme::LeftParen) {
                    self.expect(Lexeme::LeftParen)?;
                    self.expect_word(Keyword::Force)?;
                    while self.eat(Lexeme::Comma)? {
                        self.expect_word(Keyword::Force)?;
                    }
                    self.expect(Lexeme::RightParen)?;
                    is_forced = true;
                }
                return Ok(Statement::DropDatabase(DropDatabase { name, if_exists, is_forced }));
            }
            _ => return Err(self.unexpected()),
        };
        self.next()?;
        let is_concurrent = kind == ObjectKind::Index && self.eat_word(Keyword::Concurrently)?;
        let if_exists = self.if_exists()?;
        // Names of roles and schemas are not qualified.
        let one = |parser: &mut Self| match kind {
            ObjectKind::Role | ObjectKind::Schema => Ok(ObjectName { parts: vec![parser.column_name()?] }),
            _ => parser.object_name(),
        };
        let mut names = vec![one(self)?];
        while self.eat(Lexeme::Comma)? {
            names.push(one(self)?);
        }
        let is_cascading = kind != ObjectKind::Role && self.cascades()?;
        Ok(Statement::Drop(DropCommand { kind, names, if_exists, is_cascading, is_concurrent }))
    }

    /// Parses `CASCADE` or `RESTRICT`, if there is one.
    pub(super) fn cascades(&mut self) -> SqlResult<bool> {
        if self.eat_word(Keyword::Cascade)? {
            return Ok(true);
        }
        self.eat_word(Keyword::Restrict)?;
        Ok(false)
    }

    /// Parses `TRUNCATE`, at the current token.
    pub(super) fn truncate(&mut self) -> SqlResult<Statement> {
        self.expect_word(Keyword::Truncate)?;
        self.eat_word(Keyword::Table)?;
        let mut tables = vec![self.relation()?];
        while self.eat(Lexeme::Comma)? {
            tables.push(self.relation()?);
        }
        let restarts = self.is_word(Keyword::Restart);
        if restarts || self.is_word(Keyword::Continue) {
            self.next()?;
            self.expect_word(Keyword::Identity)?;
        }
        let is_cascading = self.cascades()?;
        Ok(Statement::Truncate(TruncateCommand { tables, restarts, is_cascading }))
    }

    /// Parses `COMMENT`, at the current token.
    pub(super) fn comment(&mut self) -> SqlResult<Statement> {
        let from = self.expect_word(Keyword::Comment)?.span;
        self.expect_word(Keyword::On)?;
        if let Some(word) = self.routine_word() {
            return self.comment_on_routine(word);
        }
        let kind = match self.token.lexeme {
            Lexeme::Keyword(Keyword::Table) => ObjectKind::Table,
            Lexeme::Keyword(Keyword::View) => ObjectKind::View,
            Lexeme::Keyword(Keyword::Index) => ObjectKind::Index,
            Lexeme::Keyword(Keyword::Sequence) => ObjectKind::Sequence,
            Lexeme::Keyword(Keyword::Schema) => ObjectKind::Schema,
            Lexeme::Keyword(Keyword::Column) => ObjectKind::Column,
            Lexeme::Keyword(Keyword::Constraint) => ObjectKind::Constraint,
            Lexeme::Keyword(Keyword::Database) => ObjectKind::Database,
            Lexeme::Keyword(Keyword::Role) => ObjectKind::Role,
            Lexeme::Keyword(_) => {
                let mut words = Vec::new();
                while let Lexeme::Keyword(word) = self.token.lexeme {
                    // The object's name is the last word, except for objects of two words.
                    words.push(word.word().to_uppercase());
                    self.next()?;
                    if words.len() == Self::object_words(&words[0]) {
                        break;
                    }
                }
                self.skip_statement()?;
                return Ok(self.unsupported(format!("COMMENT ON {}", words.join(" ")), from));
            }
            _ => return Err(self.unexpected()),
        };
        self.next()?;
        let name = self.object_name()?;
        let mut table = None;
        if kind == ObjectKind::Constraint {
            self.expect_word(Keyword::On)?;
            if self.is_word(Keyword::Domain) {
                self.skip_statement()?;
                return Ok(self.unsupported("COMMENT ON CONSTRAINT ON DOMAIN", from));
            }
            table = Some(self.object_name()?);
        }
        self.expect_word(Keyword::Is)?;
        let text = if self.eat_word(Keyword::Null)? { None } else { Some(self.text()?) };
        Ok(Statement::Comment(CommentCommand { kind, name, table, text }))
    }

    /// Returns the number of words of the kind of object that begins with this word.
    fn object_words(first: &str) -> usize {
        match first {
            "ACCESS" | "EVENT" | "LARGE" | "MATERIALIZED" | "TEXT" => 2,
            "FOREIGN" => 2,
            _ => 1,
        }
    }
}
