//! `ALTER`.

use super::Parser;
use crate::ast::Statement;
use crate::ast::{
    AlterAction, AlterActionKind, AlterTable, Name, ObjectKind, ObjectName, OwnerCommand, Persistence, RenameCommand,
    SequenceDefinition, SequenceOption, SequenceOptionKind, SetSchemaCommand,
};
use crate::edit::clause_words;
use crate::lex::{Keyword, Lexeme};
use statement::error::{SqlError, SqlResult, SqlState};

impl Parser<'_> {
    /// Parses `ALTER`, at the current token, of objects that are supported here.
    pub(super) fn alter(&mut self) -> SqlResult<Statement> {
        let from = self.expect_word(Keyword::Alter)?.span;
        if let Some(word) = self.routine_word() {
            return self.alter_routine(word);
        }
        if self.is_plain_word("module") {
            return self.alter_module();
        }
        let kind = match self.token.lexeme {
            Lexeme::Keyword(Keyword::Table) => ObjectKind::Table,
            Lexeme::Keyword(Keyword::View) => ObjectKind::View,
            Lexeme::Keyword(Keyword::Index) => ObjectKind::Index,
            Lexeme::Keyword(Keyword::Sequence) => ObjectKind::Sequence,
            Lexeme::Keyword(Keyword::Schema) => ObjectKind::Schema,
            Lexeme::Keyword(Keyword::Default) => return self.default_privileges(),
            Lexeme::Keyword(Keyword::Database) => return self.alter_database(),
            Lexeme::Keyword(Keyword::Role | Keyword::User) => return self.alter_role(),
            Lexeme::Keyword(Keyword::Group) => {
                self.skip_statement()?;
                return Ok(self.unsupported("ALTER GROUP", from));
            }
            Lexeme::Keyword(Keyword::System) => {
                self.skip_statement()?;
                return Ok(self.unsupported("ALTER SYSTEM", from));
            }
            _ => return Err(self.unexpected()),
        };
        self.next()?;
        if matches!(kind, ObjectKind::Table | ObjectKind::Index) && self.is_word(Keyword::All) {
            self.skip_statement()?;
            let object = if kind == ObjectKind::Table { "TABLE" } else { "INDEX" };
            return Ok(self.unsupported(format!("ALTER {object} ALL IN TABLESPACE"), from));
        }
        let if_exists = kind != ObjectKind::Schema && self.if_exists()?;
        let (name, is_only) = match kind {
            ObjectKind::Table => {
                let table = self.relation()?;
                (table.name, table.is_only)
            }
            ObjectKind::Schema => (ObjectName { parts: vec![self.column_name()?] }, false),
            _ => (self.object_name()?, false),
        };
        let is_schema = self.ahead_is(Keyword::Schema)?;
        match self.token.lexeme {
            Lexeme::Keyword(Keyword::Rename) => self.rename(kind, name, if_exists),
            // `SET SCHEMA` is one statement for all kinds of objects; any other `SET` is an action.
            Lexeme::Keyword(Keyword::Set) if is_schema && !matches!(kind, ObjectKind::Schema | ObjectKind::Index) => {
                self.next()?;
                self.next()?;
                let schema = self.column_name()?;
                Ok(Statement::SetSchema(SetSchemaCommand { kind, name, schema, if_exists }))
            }
            Lexeme::Keyword(Keyword::Owner) if kind != ObjectKind::Table => {
                self.expect_words(&[Keyword::Owner, Keyword::To])?;
                let owner = self.role_name()?;
                Ok(Statement::Owner(OwnerCommand { kind, name, owner, if_exists }))
            }
            _ => match kind {
                ObjectKind::Sequence => self.alter_sequence(name, if_exists),
                ObjectKind::Schema => Err(self.unexpected()),
                _ => {
                    let mut actions = vec![self.alter_action(kind)?];
                    while self.eat(Lexeme::Comma)? {
                        actions.push(self.alter_action(kind)?);
                    }
                    let alter = AlterTable { kind, name, if_exists, is_only, actions };
                    Ok(Statement::AlterTable(Box::new(alter)))
                }
            },
        }
    }

    fn ahead_is(&mut self, word: Keyword) -> SqlResult<bool> {
        Ok(self.ahead(1)? == Lexeme::Keyword(word))
    }

    /// Parses `ALTER SEQUENCE`, from the options on; there is at least one.
    fn alter_sequence(&mut self, name: ObjectName, has_condition: bool) -> SqlResult<Statement> {
        let mut options = Vec::new();
        loop {
            // `SET LOGGED` has a word more.
            if self.is_word(Keyword::Set) && (self.ahead_is(Keyword::Logged)? || self.ahead_is(Keyword::Unlogged)?) {
                self.next()?;
            }
            match self.sequence_option()? {
                Some(option) => options.push(option),
                None if options.is_empty() => {
                    self.eat_word(Keyword::Set)?;
                    return Err(self.unexpected());
                }
                None => break,
            }
        }
        let persistence = Persistence::Permanent;
        Ok(Statement::AlterSequence(Box::new(SequenceDefinition { name, persistence, has_condition, options })))
    }

    /// Parses `RENAME`, at the current token.
    fn rename(&mut self, kind: ObjectKind, name: ObjectName, if_exists: bool) -> SqlResult<Statement> {
        self.expect_word(Keyword::Rename)?;
        let takes_parts = matches!(kind, ObjectKind::Table | ObjectKind::View);
        let part = match self.token.lexeme {
            Lexeme::Keyword(Keyword::To) => None,
            Lexeme::Keyword(Keyword::Constraint) if kind == ObjectKind::Table => {
                self.next()?;
                Some((ObjectKind::Constraint, self.column_name()?))
            }
            _ if takes_parts => {
                self.eat_word(Keyword::Column)?;
                Some((ObjectKind::Column, self.column_name()?))
            }
            _ => return Err(self.unexpected()),
        };
        self.expect_word(Keyword::To)?;
        let to = self.column_name()?;
        Ok(Statement::Rename(RenameCommand { kind, name, part, to, if_exists }))
    }

    /// Parses an action of an `ALTER TABLE`: `alter_table_cmd`.
    fn alter_action(&mut self, object: ObjectKind) -> SqlResult<AlterAction> {
        let from = self.token.span;
        let Lexeme::Keyword(word) = self.token.lexeme else { return Err(self.unexpected()) };
        let name = match object {
            ObjectKind::Index => "ALTER INDEX",
            ObjectKind::View => "ALTER VIEW",
            _ => "ALTER TABLE",
        };
        let kind = match word {
            Keyword::Add => {
                self.next()?;
                self.add()?
            }
            Keyword::Drop => {
                self.next()?;
                let is_constraint = self.eat_word(Keyword::Constraint)?;
                if !is_constraint {
                    self.eat_word(Keyword::Column)?;
                }
                let if_exists = self.if_exists()?;
                let name = self.column_name()?;
                let is_cascading = self.cascades()?;
                match is_constraint {
                    true => AlterActionKind::DropConstraint { name, if_exists, is_cascading },
                    false => AlterActionKind::DropColumn { name, if_exists, is_cascading },
                }
            }
            Keyword::Alter => {
                self.next()?;
                if self.eat_word(Keyword::Constraint)? {
                    let name = self.column_name()?;
                    self.skip_action()?;
                    AlterActionKind::AlterConstraint(name)
                } else {
                    self.eat_word(Keyword::Column)?;
                    // A number names a column of an index.
                    if self.is(Lexeme::Integer) {
                        self.skip_action()?;
                        AlterActionKind::Unsupported(format!("{name} ALTER COLUMN").into())
                    } else {
                        let column = self.column_name()?;
                        self.alter_column(column)?
                    }
                }
            }
            Keyword::Validate => {
                self.expect_words(&[Keyword::Validate, Keyword::Constraint])?;
                AlterActionKind::ValidateConstraint(self.column_name()?)
            }
            Keyword::Owner => {
                self.expect_words(&[Keyword::Owner, Keyword::To])?;
                AlterActionKind::OwnerTo(self.role_name()?)
            }
            Keyword::Set if self.ahead(1)? == Lexeme::LeftParen => {
                self.next()?;
                AlterActionKind::SetOptions(self.storage_parameters()?)
            }
            Keyword::Reset => {
                self.next()?;
                AlterActionKind::ResetOptions(self.storage_parameters()?)
            }
            Keyword::Set => self.set_action(name)?,
            Keyword::Cluster => {
                self.skip_action()?;
                AlterActionKind::Unsupported(format!("{name} CLUSTER ON").into())
            }
            Keyword::Inherit | Keyword::Of => {
                self.next()?;
                self.object_name()?;
                AlterActionKind::Unsupported(format!("{name} {}", word.word().to_uppercase()).into())
            }
            Keyword::No if self.ahead(1)? == Lexeme::Keyword(Keyword::Inherit) => {
                self.skip_action()?;
                AlterActionKind::Unsupported(format!("{name} NO INHERIT").into())
            }
            // These have too many forms to list: the feature's name is the clause's own words.
            Keyword::No | Keyword::Not | Keyword::Enable | Keyword::Disable | Keyword::Force | Keyword::Replica => {
                self.skip_action()?;
                let said = clause_words(self.since(from).of(self.text));
                AlterActionKind::Unsupported(format!("{name} {said}").into())
            }
            Keyword::Attach | Keyword::Detach => {
                self.skip_action()?;
                AlterActionKind::Unsupported(format!("{name} {} PARTITION", word.word().to_uppercase()).into())
            }
            Keyword::Depends => {
                self.skip_action()?;
                AlterActionKind::Unsupported(format!("{name} DEPENDS ON EXTENSION").into())
            }
            _ => return Err(self.unexpected()),
        };
        Ok(AlterAction { kind, span: self.since(from) })
    }

    /// Parses `SET` of a table without parentheses, at the current token.
    fn set_action(&mut self, name: &str) -> SqlResult<AlterActionKind> {
        self.expect_word(Keyword::Set)?;
        Ok(match self.token.lexeme {
            Lexeme::Keyword(Keyword::Logged) => {
                self.next()?;
                AlterActionKind::SetLogged
            }
            Lexeme::Keyword(Keyword::Unlogged) => {
                self.next()?;
                AlterActionKind::SetUnlogged
            }
            Lexeme::Keyword(Keyword::Without) => {
                self.next()?;
                if self.eat_word(Keyword::Cluster)? {
                    return Ok(AlterActionKind::Unsupported(format!("{name} SET WITHOUT CLUSTER").into()));
                }
                self.expect_word(Keyword::Oids)?;
                AlterActionKind::WithoutOids
            }
            Lexeme::Keyword(Keyword::Tablespace) => {
                self.next()?;
                self.column_name()?;
                AlterActionKind::Unsupported(format!("{name} SET TABLESPACE").into())
            }
            Lexeme::Keyword(Keyword::Access) => {
                self.expect_words(&[Keyword::Access, Keyword::Method])?;
                self.column_name()?;
                AlterActionKind::Unsupported(format!("{name} SET ACCESS METHOD").into())
            }
            _ => return Err(self.unexpected()),
        })
    }

    /// Parses the rest of an `ADD`, whose word was taken.
    fn add(&mut self) -> SqlResult<AlterActionKind> {
        if self.begins_constraint()? {
            return Ok(AlterActionKind::AddConstraint(Box::new(self.table_constraint()?)));
        }
        self.eat_word(Keyword::Column)?;
        let if_not_exists = self.if_not_exists()?;
        let column = Box::new(self.column_definition()?);
        Ok(AlterActionKind::AddColumn { column, if_not_exists })
    }

    /// Parses `ALTER COLUMN`, from behind the name on.
    fn alter_column(&mut self, column: Name) -> SqlResult<AlterActionKind> {
        let Lexeme::Keyword(word) = self.token.lexeme else { return Err(self.unexpected()) };
        let follows = self.ahead(1)?;
        Ok(match (word, follows) {
            (Keyword::Type, _) => {
                self.next()?;
                self.column_type(column)?
            }
            (Keyword::Set, Lexeme::Keyword(Keyword::Data)) => {
                self.expect_words(&[Keyword::Set, Keyword::Data, Keyword::Type])?;
                self.column_type(column)?
            }
            (Keyword::Set, Lexeme::Keyword(Keyword::Default)) => {
                self.next()?;
                self.next()?;
                AlterActionKind::SetDefault { column, value: self.kept_expr(false)? }
            }
            (Keyword::Set, Lexeme::Keyword(Keyword::Not)) => {
                self.expect_words(&[Keyword::Set, Keyword::Not, Keyword::Null])?;
                AlterActionKind::SetNotNull { column }
            }
            (Keyword::Set | Keyword::Reset, Lexeme::LeftParen) => {
                self.next()?;
                AlterActionKind::ColumnOptions { column, options: self.storage_parameters()? }
            }
            (Keyword::Set, Lexeme::Keyword(word @ (Keyword::Statistics | Keyword::Storage | Keyword::Compression))) => {
                self.skip_action()?;
                AlterActionKind::Unsupported(format!("ALTER COLUMN SET {}", word.word().to_uppercase()).into())
            }
            // Any other word after `SET` is an option of the identity's sequence.
            (Keyword::Set | Keyword::Restart, _) => self.alter_identity(column)?,
            (Keyword::Drop, _) => {
                self.next()?;
                match self.token.lexeme {
                    Lexeme::Keyword(Keyword::Default) => {
                        self.next()?;
                        AlterActionKind::DropDefault { column }
                    }
                    Lexeme::Keyword(Keyword::Not) => {
                        self.expect_words(&[Keyword::Not, Keyword::Null])?;
                        AlterActionKind::DropNotNull { column }
                    }
                    Lexeme::Keyword(Keyword::Identity) => {
                        self.next()?;
                        AlterActionKind::DropIdentity { column, if_exists: self.if_exists()? }
                    }
                    Lexeme::Keyword(Keyword::Expression) => {
                        self.next()?;
                        self.if_exists()?;
                        AlterActionKind::Unsupported("ALTER COLUMN DROP EXPRESSION".into())
                    }
                    _ => return Err(self.unexpected()),
                }
            }
            (Keyword::Add, _) => {
                self.expect_words(&[Keyword::Add, Keyword::Generated])?;
                let is_always = self.generated_when()?;
                self.expect_words(&[Keyword::As, Keyword::Identity])?;
                let options = if self.is(Lexeme::LeftParen) { self.enclosed_sequence_options()? } else { Vec::new() };
                AlterActionKind::AddIdentity { column, is_always, options }
            }
            _ => return Err(self.unexpected()),
        })
    }

    fn column_type(&mut self, column: Name) -> SqlResult<AlterActionKind> {
        let kind = self.type_name()?;
        let collation = if self.eat_word(Keyword::Collate)? { Some(self.object_name()?) } else { None };
        let using = if self.eat_word(Keyword::Using)? { Some(self.expr()?) } else { None };
        Ok(AlterActionKind::SetType { column, kind, collation, using })
    }

    /// Parses `SET GENERATED`, `SET option` and `RESTART` of an identity column.
    fn alter_identity(&mut self, column: Name) -> SqlResult<AlterActionKind> {
        let (mut generated, mut options) = (Vec::new(), Vec::new());
        loop {
            match self.token.lexeme {
                Lexeme::Keyword(Keyword::Restart) => options.extend(self.sequence_option()?),
                Lexeme::Keyword(Keyword::Set) => {
                    self.next()?;
                    if self.eat_word(Keyword::Generated)? {
                        generated.push(self.generated_when()?);
                    } else {
                        match self.sequence_option()? {
                            Some(option) => options.push(self.of_identity(option)?),
                            None => return Err(self.unexpected()),
                        }
                    }
                }
                _ => return Ok(AlterActionKind::SetIdentity { column, generated, options }),
            }
        }
    }

    /// Checks an option of an identity's sequence after `SET`.
    fn of_identity(&self, option: SequenceOption) -> SqlResult<SequenceOption> {
        let name = match &option.kind {
            SequenceOptionKind::As(_) => "as",
            SequenceOptionKind::Restart(_) => "restart",
            SequenceOptionKind::OwnedBy(_) => "owned_by",
            SequenceOptionKind::Cache(_)
            | SequenceOptionKind::Cycle(_)
            | SequenceOptionKind::Increment(_)
            | SequenceOptionKind::MaxValue(_)
            | SequenceOptionKind::NoMaxValue
            | SequenceOptionKind::MinValue(_)
            | SequenceOptionKind::NoMinValue
            | SequenceOptionKind::SequenceName(_)
            | SequenceOptionKind::Start(_)
            | SequenceOptionKind::Logged
            | SequenceOptionKind::Unlogged => return Ok(option),
        };
        let error = SqlError::new(SqlState::SYNTAX_ERROR, format!("sequence option \"{name}\" not supported here"));
        Err(error.at(option.span.position(self.text)))
    }

    /// Skips to the end of an action.
    fn skip_action(&mut self) -> SqlResult<()> {
        let mut parens = 0_usize;
        loop {
            match self.token.lexeme {
                Lexeme::Broken => return Err(self.unexpected()),
                Lexeme::End | Lexeme::Semicolon => return Ok(()),
                Lexeme::Comma if parens == 0 => return Ok(()),
                Lexeme::LeftParen => parens += 1,
                Lexeme::RightParen => parens = parens.saturating_sub(1),
                _ => {}
            }
            self.next()?;
        }
    }
}
