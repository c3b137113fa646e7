//! `GRANT`, `REVOKE`, `ALTER DEFAULT PRIVILEGES`, `DROP OWNED`, `REASSIGN OWNED`.

use super::Parser;
use crate::ast::{
    DefaultPrivileges, DropOwned, GrantCommand, GrantKind, GrantObjects, GrantRoleCommand, Name, ObjectName,
    PrivilegeChange, PrivilegeItem, ReassignOwned, RoleName, RoutineName, RoutineWord, Statement,
};
use crate::lex::{Keyword, Lexeme};
use statement::error::SqlResult;

impl Parser<'_> {
    /// Parses `GRANT`, at the current token.
    pub(super) fn grant(&mut self) -> SqlResult<Statement> {
        self.expect_word(Keyword::Grant)?;
        let (privileges, may_be_roles) = self.privileges()?;
        if may_be_roles && self.eat_word(Keyword::To)? {
            let members = self.role_list()?;
            let has_option = self.eat_word(Keyword::With)?;
            if has_option {
                self.expect_words(&[Keyword::Admin, Keyword::Option])?;
            }
            let (is_grant, grantor, is_cascading) = (true, self.granted_by()?, false);
            let roles = privileges;
            let command = GrantRoleCommand { is_grant, has_option, roles, members, grantor, is_cascading };
            return Ok(Statement::GrantRole(Box::new(command)));
        }
        let Some(on) = self.granted_objects()? else { return self.grant_refused("GRANT") };
        self.expect_word(Keyword::To)?;
        let grantees = self.grantees()?;
        let has_option = self.with_grant_option()?;
        let grantor = self.granted_by()?;
        let (is_grant, is_cascading) = (true, false);
        let change = PrivilegeChange { is_grant, has_option, privileges, grantees, is_cascading };
        Ok(Statement::Grant(Box::new(GrantCommand { change, on, grantor })))
    }

    /// Parses `REVOKE`, at the current token.
    pub(super) fn revoke(&mut self) -> SqlResult<Statement> {
        self.expect_word(Keyword::Revoke)?;
        let is_of_role = self.is_word(Keyword::Admin) && self.ahead(1)? == Lexeme::Keyword(Keyword::Option);
        let has_option = is_of_role || self.is_word(Keyword::Grant);
        if has_option {
            self.next()?;
            self.expect_words(&[Keyword::Option, Keyword::For])?;
        }
        let (privileges, may_be_roles) = self.privileges()?;
        if is_of_role || may_be_roles && (!has_option && self.is_word(Keyword::From)) {
            self.expect_word(Keyword::From)?;
            let members = self.role_list()?;
            let (is_grant, grantor, is_cascading) = (false, self.granted_by()?, self.cascades()?);
            let roles = privileges;
            let command = GrantRoleCommand { is_grant, has_option, roles, members, grantor, is_cascading };
            return Ok(Statement::GrantRole(Box::new(command)));
        }
        let Some(on) = self.granted_objects()? else { return self.grant_refused("REVOKE") };
        self.expect_word(Keyword::From)?;
        let grantees = self.grantees()?;
        let (is_grant, grantor, is_cascading) = (false, self.granted_by()?, self.cascades()?);
        let change = PrivilegeChange { is_grant, has_option, privileges, grantees, is_cascading };
        Ok(Statement::Grant(Box::new(GrantCommand { change, on, grantor })))
    }

    /// Refuses privileges on objects that do not exist here; the current token is the first word of their kind.
    fn grant_refused(&mut self, verb: &str) -> SqlResult<Statement> {
        let from = self.token.span;
        let Lexeme::Keyword(word) = self.token.lexeme else { return Err(self.unexpected()) };
        let feature = format!("{verb} ON {}", word.word().to_uppercase());
        self.skip_statement()?;
        Ok(self.unsupported(feature, from))
    }

    /// Parses privileges. Returns true with them if they may be names of roles.
    fn privileges(&mut self) -> SqlResult<(Vec<PrivilegeItem>, bool)> {
        if self.eat_word(Keyword::All)? {
            self.eat_word(Keyword::Privileges)?;
            let columns = if self.is(Lexeme::LeftParen) { self.column_names()? } else { Vec::new() };
            let one = (!columns.is_empty()).then_some(PrivilegeItem { name: None, columns });
            return Ok((one.into_iter().collect(), false));
        }
        let mut all = vec![self.privilege()?];
        while self.eat(Lexeme::Comma)? {
            all.push(self.privilege()?);
        }
        Ok((all, true))
    }

    fn privilege(&mut self) -> SqlResult<PrivilegeItem> {
        let is_reserved =
            matches!(self.token.lexeme, Lexeme::Keyword(Keyword::Select | Keyword::References | Keyword::Create));
        let name = if is_reserved { self.label()? } else { self.column_name()? };
        let columns = if self.is(Lexeme::LeftParen) { self.column_names()? } else { Vec::new() };
        Ok(PrivilegeItem { name: Some(name), columns })
    }

    /// Parses `ON` and the objects; `None` at a kind of objects that do not exist here.
    fn granted_objects(&mut self) -> SqlResult<Option<GrantObjects>> {
        self.expect_word(Keyword::On)?;
        let Lexeme::Keyword(word) = self.token.lexeme else {
            return Ok(Some(GrantObjects::Tables(self.object_names()?)));
        };
        // Most of these words may be the name of a table, too.
        let ahead = self.ahead(1)?;
        let is_kind = Self::is_column_name(ahead) || Self::is_function_name(ahead);
        Ok(Some(match word {
            Keyword::Table => {
                self.next()?;
                GrantObjects::Tables(self.object_names()?)
            }
            Keyword::All => self.all_in_schemas()?,
            Keyword::Sequence if is_kind => {
                self.next()?;
                GrantObjects::Sequences(self.object_names()?)
            }
            Keyword::Database if is_kind => {
                self.next()?;
                GrantObjects::Databases(self.names()?)
            }
            Keyword::Schema if is_kind => {
                self.next()?;
                GrantObjects::Schemas(self.names()?)
            }
            Keyword::Function | Keyword::Procedure | Keyword::Routine if is_kind => {
                self.next()?;
                GrantObjects::Routines(routine_kind(word), self.routine_names()?)
            }
            Keyword::Foreign => return Ok(None),
            Keyword::Domain
            | Keyword::Language
            | Keyword::Large
            | Keyword::Parameter
            | Keyword::Tablespace
            | Keyword::Type
                if is_kind =>
            {
                return Ok(None);
            }
            _ => GrantObjects::Tables(self.object_names()?),
        }))
    }

    fn all_in_schemas(&mut self) -> SqlResult<GrantObjects> {
        self.expect_word(Keyword::All)?;
        let kind = match self.token.lexeme {
            Lexeme::Keyword(Keyword::Tables) => GrantKind::Tables,
            Lexeme::Keyword(Keyword::Sequences) => GrantKind::Sequences,
            Lexeme::Keyword(Keyword::Functions) => GrantKind::Routines(RoutineWord::Function),
            Lexeme::Keyword(Keyword::Procedures) => GrantKind::Routines(RoutineWord::Procedure),
            Lexeme::Keyword(Keyword::Routines) => GrantKind::Routines(RoutineWord::Routine),
            _ => return Err(self.unexpected()),
        };
        self.next()?;
        self.expect_words(&[Keyword::In, Keyword::Schema])?;
        Ok(GrantObjects::AllInSchemas(kind, self.names()?))
    }

    fn object_names(&mut self) -> SqlResult<Vec<ObjectName>> {
        let mut all = vec![self.object_name()?];
        while self.eat(Lexeme::Comma)? {
            all.push(self.object_name()?);
        }
        Ok(all)
    }

    fn names(&mut self) -> SqlResult<Vec<Name>> {
        let mut all = vec![self.column_name()?];
        while self.eat(Lexeme::Comma)? {
            all.push(self.column_name()?);
        }
        Ok(all)
    }

    fn routine_names(&mut self) -> SqlResult<Vec<RoutineName>> {
        let mut all = vec![self.routine_name()?];
        while self.eat(Lexeme::Comma)? {
            all.push(self.routine_name()?);
        }
        Ok(all)
    }

    /// Parses roles after `TO` or `FROM`, perhaps each with the word `GROUP`.
    fn grantees(&mut self) -> SqlResult<Vec<RoleName>> {
        let mut all = Vec::new();
        loop {
            self.eat_word(Keyword::Group)?;
            all.push(self.role_name()?);
            if !self.eat(Lexeme::Comma)? {
                return Ok(all);
            }
        }
    }

    /// Parses roles with commas between them.
    pub(super) fn role_list(&mut self) -> SqlResult<Vec<RoleName>> {
        let mut all = vec![self.role_name()?];
        while self.eat(Lexeme::Comma)? {
            all.push(self.role_name()?);
        }
        Ok(all)
    }

    fn with_grant_option(&mut self) -> SqlResult<bool> {
        let has_option = self.eat_word(Keyword::With)?;
        if has_option {
            self.expect_words(&[Keyword::Grant, Keyword::Option])?;
        }
        Ok(has_option)
    }

    fn granted_by(&mut self) -> SqlResult<Option<RoleName>> {
        if !self.eat_word(Keyword::Granted)? {
            return Ok(None);
        }
        self.expect_word(Keyword::By)?;
        self.role_name().map(Some)
    }

    /// Parses `ALTER DEFAULT PRIVILEGES`, from the word `DEFAULT` on.
    pub(super) fn default_privileges(&mut self) -> SqlResult<Statement> {
        self.expect_words(&[Keyword::Default, Keyword::Privileges])?;
        let (mut roles, mut schemas, mut repeated) = (Vec::new(), Vec::new(), None);
        loop {
            let from = self.token.span;
            if self.eat_word(Keyword::In)? {
                self.expect_word(Keyword::Schema)?;
                repeated = repeated.or((!schemas.is_empty()).then_some(from));
                schemas = self.names()?;
            } else if self.eat_word(Keyword::For)? {
                if !self.eat_word(Keyword::Role)? {
                    self.expect_word(Keyword::User)?;
                }
                repeated = repeated.or((!roles.is_empty()).then_some(from));
                roles = self.role_list()?;
            } else {
                break;
            }
        }
        let is_grant = self.is_word(Keyword::Grant);
        if !is_grant && !self.is_word(Keyword::Revoke) {
            return Err(self.unexpected());
        }
        self.next()?;
        let mut has_option = !is_grant && self.eat_word(Keyword::Grant)?;
        if has_option {
            self.expect_words(&[Keyword::Option, Keyword::For])?;
        }
        let (privileges, _) = self.privileges()?;
        self.expect_word(Keyword::On)?;
        let kind = self.default_kind()?;
        self.expect_word(if is_grant { Keyword::To } else { Keyword::From })?;
        let grantees = self.grantees()?;
        let mut is_cascading = false;
        if is_grant {
            has_option = self.with_grant_option()?;
        } else {
            is_cascading = self.cascades()?;
        }
        let change = PrivilegeChange { is_grant, has_option, privileges, grantees, is_cascading };
        Ok(Statement::DefaultPrivileges(Box::new(DefaultPrivileges { roles, schemas, repeated, change, kind })))
    }

    fn default_kind(&mut self) -> SqlResult<GrantKind> {
        let kind = match self.token.lexeme {
            Lexeme::Keyword(Keyword::Tables) => GrantKind::Tables,
            Lexeme::Keyword(Keyword::Sequences) => GrantKind::Sequences,
            Lexeme::Keyword(Keyword::Functions | Keyword::Routines) => GrantKind::Routines(RoutineWord::Routine),
            Lexeme::Keyword(Keyword::Types) => GrantKind::Types,
            Lexeme::Keyword(Keyword::Schemas) => GrantKind::Schemas,
            _ => return Err(self.unexpected()),
        };
        self.next()?;
        Ok(kind)
    }

    /// Parses `DROP OWNED BY`, from the word `OWNED` on.
    pub(super) fn drop_owned(&mut self) -> SqlResult<Statement> {
        self.expect_words(&[Keyword::Owned, Keyword::By])?;
        let roles = self.role_list()?;
        Ok(Statement::DropOwned(DropOwned { roles, is_cascading: self.cascades()? }))
    }

    /// Parses `REASSIGN OWNED BY`, at the current token.
    pub(super) fn reassign_owned(&mut self) -> SqlResult<Statement> {
        self.expect_words(&[Keyword::Reassign, Keyword::Owned, Keyword::By])?;
        let roles = self.role_list()?;
        self.expect_word(Keyword::To)?;
        Ok(Statement::ReassignOwned(ReassignOwned { roles, to: self.role_name()? }))
    }
}

fn routine_kind(word: Keyword) -> RoutineWord {
    match word {
        Keyword::Function => RoutineWord::Function,
        Keyword::Procedure => RoutineWord::Procedure,
        _ => RoutineWord::Routine,
    }
}
