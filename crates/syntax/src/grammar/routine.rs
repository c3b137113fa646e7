//! Definitions of functions and procedures, and `CALL`.

use super::Parser;
use crate::ast::{
    AlterRoutine, BodyStatement, BodyStatementKind, CreateRoutine, DropRoutines, Name, ObjectName, ParameterDefinition,
    ParameterModeWord, RoutineAction, RoutineComment, RoutineName, RoutineReturns, RoutineWord, SqlBody, Statement,
    TypeName,
};
use crate::lex::{Keyword, Lexeme, Span};
use statement::error::{SqlError, SqlResult, SqlState};

impl Parser<'_> {
    /// Returns the kind of routine that the current token names.
    pub(super) fn routine_word(&self) -> Option<RoutineWord> {
        match self.token.lexeme {
            Lexeme::Keyword(Keyword::Function) => Some(RoutineWord::Function),
            Lexeme::Keyword(Keyword::Procedure) => Some(RoutineWord::Procedure),
            Lexeme::Keyword(Keyword::Routine) => Some(RoutineWord::Routine),
            _ => None,
        }
    }

    /// Parses `CREATE FUNCTION` or `CREATE PROCEDURE`, from that word on.
    pub(super) fn create_routine(&mut self, or_replace: bool) -> SqlResult<Statement> {
        let is_procedure = self.next()?.lexeme == Lexeme::Keyword(Keyword::Procedure);
        let name = self.routine_own_name()?;
        let parameters = self.routine_parameters(true)?;
        // `RETURNS NULL ON NULL INPUT` is an option.
        let gives_result =
            !is_procedure && self.is_word(Keyword::Returns) && self.ahead(1)? != Lexeme::Keyword(Keyword::Null);
        let returns = if gives_result { Some(self.routine_returns()?) } else { None };
        let mut options = Vec::new();
        while let Some(option) = self.routine_option(true)? {
            options.push(option);
        }
        let body = self.sql_body()?;
        check_table_parameters(&parameters, returns.as_ref())?;
        Ok(Statement::CreateRoutine(Box::new(CreateRoutine {
            is_procedure,
            or_replace,
            name,
            parameters,
            returns,
            options,
            body,
        })))
    }

    /// Parses the name of a function: `func_name`.
    fn routine_own_name(&mut self) -> SqlResult<ObjectName> {
        let is_qualified = self.ahead(1)? == Lexeme::Dot;
        let lexeme = self.token.lexeme;
        let is_name = if is_qualified { Self::is_column_name(lexeme) } else { Self::is_function_name(lexeme) };
        if !is_name {
            // Either may be a name, but not with what follows.
            if Self::is_column_name(lexeme) || Self::is_function_name(lexeme) {
                self.next()?;
            }
            return Err(self.unexpected());
        }
        let token = self.next()?;
        let mut parts = vec![self.name_of(token)?];
        while self.eat(Lexeme::Dot)? {
            parts.push(self.label()?);
        }
        Ok(ObjectName { parts })
    }

    fn routine_returns(&mut self) -> SqlResult<RoutineReturns> {
        self.expect_word(Keyword::Returns)?;
        if !self.is_word(Keyword::Table) {
            return Ok(RoutineReturns::Type(self.function_type()?));
        }
        self.next()?;
        let from = self.expect(Lexeme::LeftParen)?.span;
        let mut columns = Vec::new();
        loop {
            columns.push((self.parameter_name()?, self.function_type()?));
            if !self.eat(Lexeme::Comma)? {
                break;
            }
        }
        self.expect(Lexeme::RightParen)?;
        Ok(RoutineReturns::Table(columns, self.since(from)))
    }

    /// Parses parameters in parentheses, with their defaults if these are allowed.
    fn routine_parameters(&mut self, takes_defaults: bool) -> SqlResult<Vec<ParameterDefinition>> {
        self.expect(Lexeme::LeftParen)?;
        let mut parameters = Vec::new();
        if self.eat(Lexeme::RightParen)? {
            return Ok(parameters);
        }
        loop {
            parameters.push(self.parameter_definition(takes_defaults)?);
            if !self.eat(Lexeme::Comma)? {
                break;
            }
        }
        self.expect(Lexeme::RightParen)?;
        Ok(parameters)
    }

    /// Parses a parameter: `func_arg_with_default`.
    fn parameter_definition(&mut self, takes_defaults: bool) -> SqlResult<ParameterDefinition> {
        let from = self.token.span;
        let mut mode = self.parameter_mode()?;
        let name = if self.begins_parameter_name()? { Some(self.parameter_name()?) } else { None };
        if mode.is_none() && name.is_some() {
            mode = self.parameter_mode()?;
        }
        let kind = self.function_type()?;
        let has_default = takes_defaults && (self.eat_word(Keyword::Default)? || self.eat(Lexeme::Equal)?);
        let default = if has_default { Some(self.kept_expr(false)?) } else { None };
        Ok(ParameterDefinition { name, mode, kind, default, span: self.since(from) })
    }

    /// Parses the type of a parameter or a result: `func_type`. Behind a qualified name, `%` can only begin `%TYPE`.
    fn function_type(&mut self) -> SqlResult<TypeName> {
        let kind = self.type_name()?;
        let may_be_of_column = kind.modifiers.is_empty() && kind.dimensions.is_empty() && !kind.is_of_column;
        if may_be_of_column && 1 < kind.name.parts.len() && !kind.is_builtin && self.eat(Lexeme::Percent)? {
            return Err(self.unexpected());
        }
        Ok(kind)
    }

    /// Parses the mode of a parameter, if there is one: `arg_class`.
    fn parameter_mode(&mut self) -> SqlResult<Option<ParameterModeWord>> {
        let mode = match self.token.lexeme {
            Lexeme::Keyword(Keyword::In) => {
                self.next()?;
                let is_both = self.eat_word(Keyword::Out)?;
                return Ok(Some(if is_both { ParameterModeWord::InOut } else { ParameterModeWord::In }));
            }
            Lexeme::Keyword(Keyword::Out) => ParameterModeWord::Out,
            Lexeme::Keyword(Keyword::Inout) => ParameterModeWord::InOut,
            Lexeme::Keyword(Keyword::Variadic) => ParameterModeWord::Variadic,
            _ => return Ok(None),
        };
        self.next()?;
        Ok(Some(mode))
    }

    /// Returns true if the current token is a parameter's name, because a mode or a type follows it.
    fn begins_parameter_name(&mut self) -> SqlResult<bool> {
        if !Self::is_function_name(self.token.lexeme) {
            return Ok(false);
        }
        let follows = self.ahead(1)?;
        // `DOUBLE PRECISION` is a type, and `PRECISION` begins none.
        Ok(match follows {
            Lexeme::Keyword(Keyword::In | Keyword::Out | Keyword::Inout | Keyword::Variadic | Keyword::Setof) => true,
            _ => Self::begins_type(follows),
        })
    }

    /// Parses the name of a parameter: `param_name`.
    fn parameter_name(&mut self) -> SqlResult<Name> {
        if !Self::is_function_name(self.token.lexeme) {
            return Err(self.unexpected());
        }
        let token = self.next()?;
        self.name_of(token)
    }

    /// Parses the body after the options, if there is one: `opt_routine_body`.
    fn sql_body(&mut self) -> SqlResult<Option<SqlBody>> {
        if self.eat_word(Keyword::Return)? {
            return Ok(Some(SqlBody::Return(self.kept_expr(false)?)));
        }
        if !self.is_word(Keyword::Begin) {
            return Ok(None);
        }
        self.next()?;
        self.expect_word(Keyword::Atomic)?;
        let from = self.token.span;
        let mut statements = Vec::new();
        while !self.is_word(Keyword::End) {
            if !self.is(Lexeme::Semicolon) {
                statements.push(self.within(Self::body_statement)?);
            }
            self.expect(Lexeme::Semicolon)?;
        }
        let extent =
            if self.last_end < from.start { Span { start: from.start, end: from.start } } else { self.since(from) };
        self.expect_word(Keyword::End)?;
        Ok(Some(SqlBody::Atomic { statements, extent }))
    }

    /// Parses a statement of a body: `routine_body_stmt`. A body has no transaction blocks of its own.
    fn body_statement(&mut self) -> SqlResult<BodyStatement> {
        let from = self.token.span;
        let kind = match self.token.lexeme {
            Lexeme::Keyword(Keyword::Return) => {
                self.next()?;
                BodyStatementKind::Return(self.expr()?)
            }
            Lexeme::Keyword(Keyword::Begin) => return Err(self.unexpected()),
            _ => BodyStatementKind::Statement(self.statement()?),
        };
        Ok(BodyStatement { kind, span: self.since(from) })
    }

    /// Parses the name of an existing routine, perhaps with its parameters: `function_with_argtypes`.
    pub(super) fn routine_name(&mut self) -> SqlResult<RoutineName> {
        let from = self.token.span;
        let lexeme = self.token.lexeme;
        let is_qualified = self.ahead(1)? == Lexeme::Dot;
        if !Self::is_column_name(lexeme) && !Self::is_function_name(lexeme) {
            return Err(self.unexpected());
        }
        // Words that name no function may stand without parameters only.
        let takes_parameters = is_qualified || Self::is_function_name(lexeme);
        let takes_parts = Self::is_column_name(lexeme);
        let token = self.next()?;
        let mut parts = vec![self.name_of(token)?];
        while takes_parts && self.eat(Lexeme::Dot)? {
            parts.push(self.label()?);
        }
        let has_parameters = takes_parameters && self.is(Lexeme::LeftParen);
        let parameters = if has_parameters { Some(self.routine_parameters(false)?) } else { None };
        Ok(RoutineName { name: ObjectName { parts }, parameters, span: self.since(from) })
    }

    /// Parses `DROP FUNCTION` and its like, from that word on.
    pub(super) fn drop_routines(&mut self, word: RoutineWord) -> SqlResult<Statement> {
        self.next()?;
        let if_exists = self.if_exists()?;
        let mut names = vec![self.routine_name()?];
        while self.eat(Lexeme::Comma)? {
            names.push(self.routine_name()?);
        }
        let is_cascading = self.cascades()?;
        Ok(Statement::DropRoutines(DropRoutines { word, names, if_exists, is_cascading }))
    }

    /// Parses `ALTER FUNCTION` and its like, from that word on.
    pub(super) fn alter_routine(&mut self, word: RoutineWord) -> SqlResult<Statement> {
        self.next()?;
        let name = self.routine_name()?;
        let action = self.routine_action()?;
        Ok(Statement::AlterRoutine(Box::new(AlterRoutine { word, name, action })))
    }

    fn routine_action(&mut self) -> SqlResult<RoutineAction> {
        let sets_schema = self.sets_schema()?;
        match self.token.lexeme {
            Lexeme::Keyword(Keyword::Rename) => {
                self.expect_words(&[Keyword::Rename, Keyword::To])?;
                Ok(RoutineAction::Rename(self.column_name()?))
            }
            Lexeme::Keyword(Keyword::Owner) => {
                self.expect_words(&[Keyword::Owner, Keyword::To])?;
                Ok(RoutineAction::Owner(self.role_name()?))
            }
            Lexeme::Keyword(Keyword::No | Keyword::Depends) => {
                let is_no = self.eat_word(Keyword::No)?;
                self.expect_words(&[Keyword::Depends, Keyword::On, Keyword::Extension])?;
                Ok(RoutineAction::Depends(is_no, self.column_name()?))
            }
            Lexeme::Keyword(Keyword::Set) if sets_schema => {
                self.expect_words(&[Keyword::Set, Keyword::Schema])?;
                Ok(RoutineAction::SetSchema(self.column_name()?))
            }
            _ => {
                let mut options = Vec::new();
                while let Some(option) = self.routine_option(false)? {
                    options.push(option);
                }
                if options.is_empty() {
                    return Err(self.unexpected());
                }
                self.eat_word(Keyword::Restrict)?;
                Ok(RoutineAction::Options(options))
            }
        }
    }

    /// Returns true before `SET SCHEMA name`. `SET SCHEMA 'name'` is an option that sets the search path.
    fn sets_schema(&mut self) -> SqlResult<bool> {
        Ok(self.is_word(Keyword::Set)
            && self.ahead(1)? == Lexeme::Keyword(Keyword::Schema)
            && !Self::is_text(self.ahead(2)?))
    }

    /// Parses the rest of `COMMENT ON FUNCTION` and its like, from that word on.
    pub(super) fn comment_on_routine(&mut self, word: RoutineWord) -> SqlResult<Statement> {
        self.next()?;
        let name = self.routine_name()?;
        self.expect_word(Keyword::Is)?;
        let text = if self.eat_word(Keyword::Null)? { None } else { Some(self.text()?) };
        Ok(Statement::CommentRoutine(RoutineComment { word, name, text }))
    }

    /// Parses `CALL`, at the current token.
    pub(super) fn call(&mut self) -> SqlResult<Statement> {
        self.expect_word(Keyword::Call)?;
        let name = self.routine_own_name()?;
        Ok(Statement::Call(Box::new(self.arguments(name)?)))
    }
}

/// Refuses output parameters beside the columns of `RETURNS TABLE`: `mergeTableFuncParameters`.
fn check_table_parameters(parameters: &[ParameterDefinition], returns: Option<&RoutineReturns>) -> SqlResult<()> {
    let is_output = |one: &ParameterDefinition| match one.mode {
        Some(ParameterModeWord::Out | ParameterModeWord::InOut) => true,
        Some(ParameterModeWord::In | ParameterModeWord::Variadic) | None => false,
    };
    if matches!(returns, Some(RoutineReturns::Table(..))) && parameters.iter().any(is_output) {
        let message = "OUT and INOUT arguments aren't allowed in TABLE functions";
        return Err(SqlError::new(SqlState::SYNTAX_ERROR, message));
    }
    Ok(())
}
