//! Roles, and settings of roles and databases.

use super::Parser;
use crate::ast::Statement;
use crate::ast::{RoleDefinition, RoleName, RoleOption, RoleSetting, SettingChange};
use crate::lex::{Keyword, Lexeme, Span};
use statement::error::{SqlError, SqlResult, SqlState};

impl Parser<'_> {
    /// Parses `CREATE ROLE`, `USER` or `GROUP`, from that word on.
    pub(super) fn create_role(&mut self) -> SqlResult<Statement> {
        let is_user = self.next()?.lexeme == Lexeme::Keyword(Keyword::User);
        let name = self.role_name()?;
        self.eat_word(Keyword::With)?;
        let mut options = self.role_options(true)?;
        // A user may log in unless an option says otherwise.
        if is_user && !options.iter().any(|(option, _)| matches!(option, RoleOption::Login(_))) {
            options.insert(0, (RoleOption::Login(true), Span::NOWHERE));
        }
        Ok(Statement::CreateRole(RoleDefinition { name, options }))
    }

    /// Parses `ALTER ROLE` or `USER`, from that word on.
    pub(super) fn alter_role(&mut self) -> SqlResult<Statement> {
        self.next()?;
        if self.is_word(Keyword::All) {
            self.next()?;
            return self.role_setting(None);
        }
        let name = self.role_name()?;
        match self.token.lexeme {
            Lexeme::Keyword(Keyword::Rename) => {
                self.expect_words(&[Keyword::Rename, Keyword::To])?;
                let to = self.column_name()?;
                Ok(Statement::RenameRole(name, to))
            }
            Lexeme::Keyword(Keyword::In | Keyword::Set | Keyword::Reset) => self.role_setting(Some(name)),
            _ => {
                self.eat_word(Keyword::With)?;
                let options = self.role_options(false)?;
                Ok(Statement::AlterRole(RoleDefinition { name, options }))
            }
        }
    }

    /// Parses `[IN DATABASE name] SET …` or `RESET …` of a role.
    fn role_setting(&mut self, role: Option<RoleName>) -> SqlResult<Statement> {
        let mut database = None;
        if self.eat_word(Keyword::In)? {
            self.expect_word(Keyword::Database)?;
            database = Some(self.column_name()?);
        }
        let change = self.setting_change()?;
        Ok(Statement::RoleSetting(Box::new(RoleSetting { role, database, change })))
    }

    fn setting_change(&mut self) -> SqlResult<SettingChange> {
        if self.eat_word(Keyword::Reset)? {
            return Ok(SettingChange::Reset(self.shown_setting()?));
        }
        if !self.is_word(Keyword::Set) {
            return Err(self.unexpected());
        }
        match self.set()? {
            Statement::Set(set) if !set.is_local => Ok(SettingChange::Set(set.target)),
            _ => Err(self.unexpected()),
        }
    }

    /// Parses `ALTER DATABASE`, from the word `DATABASE` on.
    pub(super) fn alter_database(&mut self) -> SqlResult<Statement> {
        let from = self.expect_word(Keyword::Database)?.span;
        let database = Some(self.column_name()?);
        let follows = self.ahead(1)?;
        match self.token.lexeme {
            Lexeme::Keyword(Keyword::Set | Keyword::Reset) if follows != Lexeme::Keyword(Keyword::Tablespace) => {
                let change = self.setting_change()?;
                Ok(Statement::RoleSetting(Box::new(RoleSetting { role: None, database, change })))
            }
            _ => {
                let feature = match self.token.lexeme {
                    Lexeme::Keyword(Keyword::Rename) => "ALTER DATABASE RENAME",
                    Lexeme::Keyword(Keyword::Owner) => "ALTER DATABASE OWNER",
                    _ => "an option of ALTER DATABASE",
                };
                self.skip_statement()?;
                Ok(self.unsupported(feature, from))
            }
        }
    }

    /// Parses options of a role, if there are any.
    fn role_options(&mut self, is_new: bool) -> SqlResult<Vec<(RoleOption, Span)>> {
        let mut options = Vec::new();
        loop {
            let from = self.token.span;
            match self.role_option(is_new)? {
                Some(option) => options.push((option, self.since(from))),
                None => return Ok(options),
            }
        }
    }

    /// Parses an option of a role, if there is one.
    fn role_option(&mut self, is_new: bool) -> SqlResult<Option<RoleOption>> {
        Ok(Some(match self.token.lexeme {
            Lexeme::Keyword(Keyword::Password | Keyword::Encrypted) => {
                if self.eat_word(Keyword::Encrypted)? {
                    self.expect_word(Keyword::Password)?;
                    return Ok(Some(RoleOption::Password(Some(self.text()?))));
                }
                self.next()?;
                let password = if self.eat_word(Keyword::Null)? { None } else { Some(self.text()?) };
                RoleOption::Password(password)
            }
            Lexeme::Keyword(Keyword::Inherit) => {
                self.next()?;
                RoleOption::Inherit(true)
            }
            Lexeme::Keyword(Keyword::Connection) => {
                self.expect_words(&[Keyword::Connection, Keyword::Limit])?;
                let is_negative = match self.token.lexeme {
                    Lexeme::Plus | Lexeme::Minus => self.next()?.lexeme == Lexeme::Minus,
                    _ => false,
                };
                let limit = self.integer()?;
                RoleOption::ConnectionLimit(if is_negative { -limit } else { limit })
            }
            Lexeme::Keyword(Keyword::Valid) => {
                self.expect_words(&[Keyword::Valid, Keyword::Until])?;
                RoleOption::ValidUntil(self.text()?)
            }
            Lexeme::Keyword(Keyword::User) => {
                self.next()?;
                RoleOption::Members(self.role_list()?)
            }
            Lexeme::Keyword(Keyword::Sysid) if is_new => {
                self.next()?;
                self.integer()?;
                RoleOption::Unsupported("SYSID")
            }
            Lexeme::Keyword(Keyword::Admin) if is_new => {
                self.next()?;
                RoleOption::Admins(self.role_list()?)
            }
            Lexeme::Keyword(Keyword::Role) if is_new => {
                self.next()?;
                RoleOption::Members(self.role_list()?)
            }
            Lexeme::Keyword(Keyword::In) if is_new => {
                self.next()?;
                if !self.eat_word(Keyword::Role)? {
                    self.expect_word(Keyword::Group)?;
                }
                RoleOption::InRoles(self.role_list()?)
            }
            // The other options are no keywords: their text decides.
            Lexeme::Word | Lexeme::Quoted | Lexeme::UnicodeQuoted => {
                let token = self.next()?;
                let name = self.name_of(token)?;
                match &*name.text {
                    "superuser" => RoleOption::Superuser(true),
                    "nosuperuser" => RoleOption::Superuser(false),
                    "createrole" => RoleOption::CreateRole(true),
                    "nocreaterole" => RoleOption::CreateRole(false),
                    "createdb" => RoleOption::CreateDb(true),
                    "nocreatedb" => RoleOption::CreateDb(false),
                    "noinherit" => RoleOption::Inherit(false),
                    "login" => RoleOption::Login(true),
                    "nologin" => RoleOption::Login(false),
                    "replication" => RoleOption::Replication(true),
                    "noreplication" => RoleOption::Replication(false),
                    "bypassrls" => RoleOption::BypassRls(true),
                    "nobypassrls" => RoleOption::BypassRls(false),
                    "tenant" => RoleOption::Tenant(Some(self.role_name()?)),
                    "notenant" => RoleOption::Tenant(None),
                    other => {
                        let message = format!("unrecognized role option \"{other}\"");
                        let error = SqlError::new(SqlState::SYNTAX_ERROR, message);
                        return Err(error.at(token.span.position(self.text)));
                    }
                }
            }
            _ => return Ok(None),
        }))
    }
}
