//! `CREATE TABLE`: columns and constraints.

use super::Parser;
use crate::ast::Statement;
use crate::ast::{
    ColumnClause, ColumnClauseKind, ColumnDefinition, ConstraintTiming, CreateTable, CreateTableAs, KeyOptions,
    LikeOption, MatchKind, Name, ObjectName, Persistence, Reference, ReferenceAction, StorageParameter,
    TableConstraint, TableConstraintKind, TableElement, TableSource,
};
use crate::lex::{Keyword, Lexeme, Span};
use statement::error::SqlResult;

impl Parser<'_> {
    /// Parses `CREATE TABLE`, from the word `TABLE` on.
    pub(super) fn create_table(&mut self, persistence: Persistence) -> SqlResult<Statement> {
        self.expect_word(Keyword::Table)?;
        let if_not_exists = self.if_not_exists()?;
        let name = self.object_name()?;
        let mut unsupported = Vec::new();
        let mut elements = Vec::new();
        let mut columns = Vec::new();
        let mut may_be_query = true;
        let at = self.token.span;
        if self.eat_word(Keyword::Of)? {
            self.object_name()?;
            if self.is(Lexeme::LeftParen) {
                self.next()?;
                self.skip_parenthesised()?;
            }
            unsupported.push(("CREATE TABLE OF", at));
            may_be_query = false;
        } else if self.is_word(Keyword::Partition) {
            self.next()?;
            self.expect_word(Keyword::Of)?;
            self.object_name()?;
            if self.is(Lexeme::LeftParen) {
                self.next()?;
                self.skip_parenthesised()?;
            }
            self.partition_bound()?;
            unsupported.push(("PARTITION OF", at));
            may_be_query = false;
        } else if self.is(Lexeme::LeftParen) {
            self.next()?;
            // Names without types are those of a query's columns.
            let are_names =
                Self::is_column_name(self.token.lexeme) && matches!(self.ahead(1)?, Lexeme::Comma | Lexeme::RightParen);
            if are_names || self.in_explain {
                columns.push(self.column_name()?);
                while self.eat(Lexeme::Comma)? {
                    columns.push(self.column_name()?);
                }
            } else if !self.is(Lexeme::RightParen) {
                elements.push(self.table_element()?);
                while self.eat(Lexeme::Comma)? {
                    elements.push(self.table_element()?);
                }
                may_be_query = false;
            } else {
                may_be_query = false;
            }
            self.expect(Lexeme::RightParen)?;
        } else if !matches!(
            self.token.lexeme,
            Lexeme::Keyword(
                Keyword::As | Keyword::Using | Keyword::With | Keyword::Without | Keyword::On | Keyword::Tablespace
            )
        ) {
            return Err(self.unexpected());
        }
        let at = self.token.span;
        if columns.is_empty() && self.eat_word(Keyword::Inherits)? {
            self.expect(Lexeme::LeftParen)?;
            self.object_name()?;
            while self.eat(Lexeme::Comma)? {
                self.object_name()?;
            }
            self.expect(Lexeme::RightParen)?;
            unsupported.push(("INHERITS", at));
        }
        let at = self.token.span;
        if columns.is_empty() && self.eat_word(Keyword::Partition)? {
            self.expect_word(Keyword::By)?;
            self.column_name()?;
            self.expect(Lexeme::LeftParen)?;
            self.skip_parenthesised()?;
            unsupported.push(("PARTITION BY", at));
        }
        let parameters = self.table_options(&mut unsupported)?;
        if may_be_query && (!columns.is_empty() || self.is_word(Keyword::As)) {
            self.expect_word(Keyword::As)?;
            return self.table_as((name, persistence, if_not_exists), columns, parameters, unsupported);
        }
        let table = CreateTable { name, persistence, if_not_exists, elements, parameters, unsupported };
        Ok(Statement::CreateTable(Box::new(table)))
    }

    /// Parses `CREATE TABLE … AS`, from the query on.
    fn table_as(
        &mut self,
        (name, persistence, if_not_exists): (ObjectName, Persistence, bool),
        columns: Vec<Name>,
        parameters: Vec<StorageParameter>,
        unsupported: Vec<(&'static str, Span)>,
    ) -> SqlResult<Statement> {
        let source = match self.is_word(Keyword::Execute) {
            true => TableSource::Execute(self.execute()?),
            false => TableSource::Query(Box::new(self.query()?)),
        };
        let with_data = self.with_data()?;
        Ok(Statement::CreateTableAs(Box::new(CreateTableAs {
            name,
            persistence,
            if_not_exists,
            columns,
            parameters,
            source,
            with_data,
            unsupported,
        })))
    }

    /// Parses `WITH DATA` or `WITH NO DATA`, if there is one.
    pub(super) fn with_data(&mut self) -> SqlResult<bool> {
        if !self.eat_word(Keyword::With)? {
            return Ok(true);
        }
        let with_data = !self.eat_word(Keyword::No)?;
        self.expect_word(Keyword::Data)?;
        Ok(with_data)
    }

    /// Parses `IF NOT EXISTS`, if it is there.
    pub(super) fn if_not_exists(&mut self) -> SqlResult<bool> {
        // `IF` may be a name, too.
        if !self.is_word(Keyword::If) || self.ahead(1)? != Lexeme::Keyword(Keyword::Not) {
            return Ok(false);
        }
        self.expect_words(&[Keyword::If, Keyword::Not, Keyword::Exists])?;
        Ok(true)
    }

    /// Parses `IF EXISTS`, if it is there.
    pub(super) fn if_exists(&mut self) -> SqlResult<bool> {
        let is_there = self.is_word(Keyword::If) && self.ahead(1)? == Lexeme::Keyword(Keyword::Exists);
        if is_there {
            self.next()?;
            self.next()?;
        }
        Ok(is_there)
    }

    /// Parses the bound of a partition.
    fn partition_bound(&mut self) -> SqlResult<()> {
        if self.eat_word(Keyword::Default)? {
            return Ok(());
        }
        self.expect_words(&[Keyword::For, Keyword::Values])?;
        let words = match self.token.lexeme {
            Lexeme::Keyword(Keyword::In) | Lexeme::Keyword(Keyword::With) => 1,
            Lexeme::Keyword(Keyword::From) => 2,
            _ => return Err(self.unexpected()),
        };
        self.next()?;
        self.expect(Lexeme::LeftParen)?;
        self.skip_parenthesised()?;
        if words == 2 {
            self.expect_word(Keyword::To)?;
            self.expect(Lexeme::LeftParen)?;
            self.skip_parenthesised()?;
        }
        Ok(())
    }

    /// Parses `USING`, `WITH`, `ON COMMIT` and `TABLESPACE` of a table.
    fn table_options(&mut self, unsupported: &mut Vec<(&'static str, Span)>) -> SqlResult<Vec<StorageParameter>> {
        let mut parameters = Vec::new();
        let at = self.token.span;
        if self.eat_word(Keyword::Using)? {
            self.column_name()?;
            unsupported.push(("USING in CREATE TABLE", at));
        }
        if self.eat_word(Keyword::With)? {
            parameters = self.storage_parameters()?;
        } else if self.eat_word(Keyword::Without)? {
            self.expect_word(Keyword::Oids)?;
        }
        let at = self.token.span;
        if self.eat_word(Keyword::On)? {
            self.expect_word(Keyword::Commit)?;
            match self.token.lexeme {
                Lexeme::Keyword(Keyword::Drop) => drop(self.next()?),
                Lexeme::Keyword(Keyword::Delete | Keyword::Preserve) => {
                    self.next()?;
                    self.expect_word(Keyword::Rows)?;
                }
                _ => return Err(self.unexpected()),
            }
            unsupported.push(("ON COMMIT", at));
        }
        let at = self.token.span;
        if self.eat_word(Keyword::Tablespace)? {
            self.column_name()?;
            unsupported.push(("TABLESPACE", at));
        }
        Ok(parameters)
    }

    /// Parses storage parameters in parentheses: `reloptions`.
    pub(super) fn storage_parameters(&mut self) -> SqlResult<Vec<StorageParameter>> {
        self.expect(Lexeme::LeftParen)?;
        let mut all = Vec::new();
        loop {
            let mut parts = vec![self.label()?];
            if self.eat(Lexeme::Dot)? {
                parts.push(self.label()?);
            }
            let value = match self.eat(Lexeme::Equal)? {
                true => Some(self.parameter_value()?),
                false => None,
            };
            all.push(StorageParameter { name: ObjectName { parts }, value });
            if !self.eat(Lexeme::Comma)? {
                break;
            }
        }
        self.expect(Lexeme::RightParen)?;
        Ok(all)
    }

    /// Parses the value of a parameter: `def_arg`.
    fn parameter_value(&mut self) -> SqlResult<Box<str>> {
        let from = self.token.span;
        match self.token.lexeme {
            Lexeme::Integer | Lexeme::Decimal | Lexeme::Plus | Lexeme::Minus => self.signed_number(),
            Lexeme::Keyword(word @ (Keyword::None | Keyword::True | Keyword::False | Keyword::On)) => {
                self.next()?;
                Ok(word.word().into())
            }
            lexeme if Self::is_text(lexeme) => self.text(),
            lexeme if Self::is_label(lexeme) => {
                // A type, or any other word.
                if Self::is_function_name(lexeme) || Self::is_column_name(lexeme) {
                    self.type_name()?;
                } else {
                    self.next()?;
                }
                Ok(self.since(from).of(self.text).to_ascii_lowercase().into())
            }
            _ => match self.operator_signs() {
                Some(signs) => {
                    self.next()?;
                    Ok(signs)
                }
                None => Err(self.unexpected()),
            },
        }
    }

    fn table_element(&mut self) -> SqlResult<TableElement> {
        let from = self.token.span;
        let is_constraint = self.begins_constraint()?;
        match self.token.lexeme {
            Lexeme::Keyword(Keyword::Like) => {
                self.next()?;
                let table = self.object_name()?;
                let mut options = Vec::new();
                while self.is_word(Keyword::Including) || self.is_word(Keyword::Excluding) {
                    let takes_over = self.next()?.lexeme == Lexeme::Keyword(Keyword::Including);
                    options.push((takes_over, self.like_option()?));
                }
                Ok(TableElement::Like { table, options, span: self.since(from) })
            }
            _ if is_constraint => Ok(TableElement::Constraint(Box::new(self.table_constraint()?))),
            _ => Ok(TableElement::Column(Box::new(self.column_definition()?))),
        }
    }

    fn like_option(&mut self) -> SqlResult<LikeOption> {
        let option = match self.token.lexeme {
            Lexeme::Keyword(Keyword::All) => LikeOption::All,
            Lexeme::Keyword(Keyword::Comments) => LikeOption::Comments,
            Lexeme::Keyword(Keyword::Compression) => LikeOption::Compression,
            Lexeme::Keyword(Keyword::Constraints) => LikeOption::Constraints,
            Lexeme::Keyword(Keyword::Defaults) => LikeOption::Defaults,
            Lexeme::Keyword(Keyword::Generated) => LikeOption::Generated,
            Lexeme::Keyword(Keyword::Identity) => LikeOption::Identity,
            Lexeme::Keyword(Keyword::Indexes) => LikeOption::Indexes,
            Lexeme::Keyword(Keyword::Statistics) => LikeOption::Statistics,
            Lexeme::Keyword(Keyword::Storage) => LikeOption::Storage,
            _ => return Err(self.unexpected()),
        };
        self.next()?;
        Ok(option)
    }

    /// Returns true if a constraint begins at the current token, and no column: `EXCLUDE` may be a name, too.
    pub(super) fn begins_constraint(&mut self) -> SqlResult<bool> {
        Ok(match self.token.lexeme {
            Lexeme::Keyword(
                Keyword::Constraint | Keyword::Check | Keyword::Unique | Keyword::Primary | Keyword::Foreign,
            ) => true,
            Lexeme::Keyword(Keyword::Exclude) => {
                matches!(self.ahead(1)?, Lexeme::LeftParen | Lexeme::Keyword(Keyword::Using))
            }
            _ => false,
        })
    }

    /// Parses a column with its clauses.
    pub(super) fn column_definition(&mut self) -> SqlResult<ColumnDefinition> {
        let from = self.token.span;
        let name = self.column_name()?;
        let kind = self.type_name()?;
        let mut clauses = Vec::new();
        let at = self.token.span;
        if self.eat_word(Keyword::Compression)? {
            let method = if self.is_word(Keyword::Default) { self.label()? } else { self.column_name()? };
            let kind = ColumnClauseKind::Compression(method);
            clauses.push(ColumnClause { name: None, kind, span: self.since(at) });
        }
        while let Some(clause) = self.column_clause()? {
            clauses.push(clause);
        }
        Ok(ColumnDefinition { name, kind, clauses, span: self.since(from) })
    }

    /// Parses a clause of a column, if there is one.
    fn column_clause(&mut self) -> SqlResult<Option<ColumnClause>> {
        let from = self.token.span;
        let name = if self.eat_word(Keyword::Constraint)? { Some(self.column_name()?) } else { None };
        let Lexeme::Keyword(word) = self.token.lexeme else {
            return if name.is_some() { Err(self.unexpected()) } else { Ok(None) };
        };
        let kind = match word {
            // Attributes of the constraint before have no name of their own.
            Keyword::Not if name.is_none() && self.ahead(1)? == Lexeme::Keyword(Keyword::Deferrable) => {
                self.next()?;
                self.next()?;
                ColumnClauseKind::Timing(ConstraintTiming::NotDeferrable)
            }
            Keyword::Not => {
                self.expect_words(&[Keyword::Not, Keyword::Null])?;
                ColumnClauseKind::NotNull
            }
            Keyword::Null => {
                self.next()?;
                ColumnClauseKind::Null
            }
            Keyword::Default => {
                self.next()?;
                // Restricted, since words after the expression may begin the next clause.
                ColumnClauseKind::Default(self.kept_expr(true)?)
            }
            Keyword::Check => {
                self.next()?;
                self.expect(Lexeme::LeftParen)?;
                let condition = self.kept_expr(false)?;
                self.expect(Lexeme::RightParen)?;
                ColumnClauseKind::Check { condition, no_inherit: self.no_inherit()? }
            }
            Keyword::Unique | Keyword::Primary => {
                self.next()?;
                let is_primary = word == Keyword::Primary;
                if is_primary {
                    self.expect_word(Keyword::Key)?;
                }
                let nulls_not_distinct = !is_primary && self.nulls_not_distinct()?;
                let mut options = KeyOptions { is_primary, nulls_not_distinct, ..KeyOptions::default() };
                self.key_storage(&mut options)?;
                ColumnClauseKind::Key(options)
            }
            Keyword::References => ColumnClauseKind::References(self.reference()?),
            Keyword::Generated => {
                self.next()?;
                let is_always = self.generated_when()?;
                self.expect_word(Keyword::As)?;
                match self.eat_word(Keyword::Identity)? {
                    true => {
                        let options =
                            if self.is(Lexeme::LeftParen) { self.enclosed_sequence_options()? } else { Vec::new() };
                        ColumnClauseKind::Identity { is_always, options }
                    }
                    false => {
                        self.expect(Lexeme::LeftParen)?;
                        let value = self.kept_expr(false)?;
                        self.expect(Lexeme::RightParen)?;
                        self.expect_word(Keyword::Stored)?;
                        ColumnClauseKind::Generated(value)
                    }
                }
            }
            Keyword::Collate if name.is_none() => {
                self.next()?;
                ColumnClauseKind::Collate(self.object_name()?)
            }
            Keyword::Deferrable if name.is_none() => {
                self.next()?;
                ColumnClauseKind::Timing(ConstraintTiming::Deferrable)
            }
            Keyword::Initially if name.is_none() => ColumnClauseKind::Timing(self.initially()?),
            _ if name.is_some() => return Err(self.unexpected()),
            _ => return Ok(None),
        };
        Ok(Some(ColumnClause { name, kind, span: self.since(from) }))
    }

    /// Parses `ALWAYS`, or `BY DEFAULT`.
    pub(super) fn generated_when(&mut self) -> SqlResult<bool> {
        if self.eat_word(Keyword::Always)? {
            return Ok(true);
        }
        self.expect_words(&[Keyword::By, Keyword::Default])?;
        Ok(false)
    }

    fn initially(&mut self) -> SqlResult<ConstraintTiming> {
        self.expect_word(Keyword::Initially)?;
        if self.eat_word(Keyword::Deferred)? {
            return Ok(ConstraintTiming::InitiallyDeferred);
        }
        self.expect_word(Keyword::Immediate)?;
        Ok(ConstraintTiming::InitiallyImmediate)
    }

    fn no_inherit(&mut self) -> SqlResult<bool> {
        if !self.eat_word(Keyword::No)? {
            return Ok(false);
        }
        self.expect_word(Keyword::Inherit)?;
        Ok(true)
    }

    /// Parses `NULLS NOT DISTINCT` or `NULLS DISTINCT`, if there is one.
    pub(super) fn nulls_not_distinct(&mut self) -> SqlResult<bool> {
        if !self.eat_word(Keyword::Nulls)? {
            return Ok(false);
        }
        let is_not = self.eat_word(Keyword::Not)?;
        self.expect_word(Keyword::Distinct)?;
        Ok(is_not)
    }

    /// Parses `WITH` and `USING INDEX TABLESPACE` of a key.
    fn key_storage(&mut self, options: &mut KeyOptions) -> SqlResult<()> {
        if self.eat_word(Keyword::With)? {
            options.parameters = self.storage_parameters()?;
        }
        if self.eat_word(Keyword::Using)? {
            self.expect_words(&[Keyword::Index, Keyword::Tablespace])?;
            options.tablespace = Some(self.column_name()?);
        }
        Ok(())
    }

    /// Parses `REFERENCES`, at the current token.
    fn reference(&mut self) -> SqlResult<Reference> {
        self.expect_word(Keyword::References)?;
        let table = self.object_name()?;
        let columns = if self.is(Lexeme::LeftParen) { self.column_names()? } else { Vec::new() };
        let mut matching = MatchKind::Simple;
        if self.eat_word(Keyword::Match)? {
            matching = match self.token.lexeme {
                Lexeme::Keyword(Keyword::Full) => MatchKind::Full,
                Lexeme::Keyword(Keyword::Partial) => MatchKind::Partial,
                Lexeme::Keyword(Keyword::Simple) => MatchKind::Simple,
                _ => return Err(self.unexpected()),
            };
            self.next()?;
        }
        let (mut on_delete, mut on_update) = (None, None);
        while self.is_word(Keyword::On) {
            self.next()?;
            let side = match self.token.lexeme {
                Lexeme::Keyword(Keyword::Delete) if on_delete.is_none() => &mut on_delete,
                Lexeme::Keyword(Keyword::Update) if on_update.is_none() => &mut on_update,
                _ => return Err(self.unexpected()),
            };
            self.next()?;
            *side = Some(self.reference_action()?);
        }
        let or_none = |action: Option<ReferenceAction>| action.unwrap_or(ReferenceAction::NoAction);
        Ok(Reference { table, columns, matching, on_delete: or_none(on_delete), on_update: or_none(on_update) })
    }

    fn reference_action(&mut self) -> SqlResult<ReferenceAction> {
        let word = self.token.lexeme;
        Ok(match word {
            Lexeme::Keyword(Keyword::No) => {
                self.expect_words(&[Keyword::No, Keyword::Action])?;
                ReferenceAction::NoAction
            }
            Lexeme::Keyword(Keyword::Restrict) => {
                self.next()?;
                ReferenceAction::Restrict
            }
            Lexeme::Keyword(Keyword::Cascade) => {
                self.next()?;
                ReferenceAction::Cascade
            }
            Lexeme::Keyword(Keyword::Set) => {
                self.next()?;
                let is_null = self.eat_word(Keyword::Null)?;
                if !is_null {
                    self.expect_word(Keyword::Default)?;
                }
                let columns = if self.is(Lexeme::LeftParen) { self.column_names()? } else { Vec::new() };
                if is_null { ReferenceAction::SetNull(columns) } else { ReferenceAction::SetDefault(columns) }
            }
            _ => return Err(self.unexpected()),
        })
    }

    /// Parses a constraint of a table.
    pub(super) fn table_constraint(&mut self) -> SqlResult<TableConstraint> {
        let from = self.token.span;
        let name = if self.eat_word(Keyword::Constraint)? { Some(self.column_name()?) } else { None };
        let kind = match self.token.lexeme {
            Lexeme::Keyword(Keyword::Check) => {
                self.next()?;
                self.expect(Lexeme::LeftParen)?;
                let condition = self.kept_expr(false)?;
                self.expect(Lexeme::RightParen)?;
                TableConstraintKind::Check { condition, no_inherit: false }
            }
            Lexeme::Keyword(word @ (Keyword::Unique | Keyword::Primary)) => {
                self.next()?;
                let is_primary = word == Keyword::Primary;
                if is_primary {
                    self.expect_word(Keyword::Key)?;
                }
                if self.is_word(Keyword::Using) {
                    self.expect_words(&[Keyword::Using, Keyword::Index])?;
                    TableConstraintKind::KeyUsingIndex(is_primary, self.column_name()?)
                } else {
                    let nulls_not_distinct = !is_primary && self.nulls_not_distinct()?;
                    let columns = self.column_names()?;
                    let mut options = KeyOptions { is_primary, nulls_not_distinct, ..KeyOptions::default() };
                    if self.eat_word(Keyword::Include)? {
                        options.included = self.column_names()?;
                    }
                    self.key_storage(&mut options)?;
                    TableConstraintKind::Key(options, columns)
                }
            }
            Lexeme::Keyword(Keyword::Foreign) => {
                self.expect_words(&[Keyword::Foreign, Keyword::Key])?;
                let columns = self.column_names()?;
                if !self.is_word(Keyword::References) {
                    return Err(self.unexpected());
                }
                TableConstraintKind::Foreign(columns, self.reference()?)
            }
            Lexeme::Keyword(Keyword::Exclude) => {
                self.next()?;
                // The parts are parsed for their errors, but not kept.
                if self.eat_word(Keyword::Using)? {
                    self.column_name()?;
                }
                self.expect(Lexeme::LeftParen)?;
                self.skip_parenthesised()?;
                if self.eat_word(Keyword::Include)? {
                    self.column_names()?;
                }
                self.key_storage(&mut KeyOptions::default())?;
                if self.eat_word(Keyword::Where)? {
                    self.expect(Lexeme::LeftParen)?;
                    self.expr()?;
                    self.expect(Lexeme::RightParen)?;
                }
                TableConstraintKind::Exclude
            }
            _ => return Err(self.unexpected()),
        };
        let mut constraint = TableConstraint { name, kind, timing: Vec::new(), is_not_valid: false, span: from };
        self.constraint_attributes(&mut constraint)?;
        constraint.span = self.since(from);
        Ok(constraint)
    }

    /// Parses `DEFERRABLE`, `NOT VALID`, `NO INHERIT` and the like after a constraint.
    fn constraint_attributes(&mut self, constraint: &mut TableConstraint) -> SqlResult<()> {
        loop {
            match self.token.lexeme {
                Lexeme::Keyword(Keyword::Deferrable) => {
                    self.next()?;
                    constraint.timing.push(ConstraintTiming::Deferrable);
                }
                Lexeme::Keyword(Keyword::Initially) => {
                    let timing = self.initially()?;
                    constraint.timing.push(timing);
                }
                Lexeme::Keyword(Keyword::Not) => {
                    self.next()?;
                    if self.eat_word(Keyword::Valid)? {
                        constraint.is_not_valid = true;
                    } else {
                        self.expect_word(Keyword::Deferrable)?;
                        constraint.timing.push(ConstraintTiming::NotDeferrable);
                    }
                }
                Lexeme::Keyword(Keyword::No) => {
                    self.expect_words(&[Keyword::No, Keyword::Inherit])?;
                    if let TableConstraintKind::Check { no_inherit, .. } = &mut constraint.kind {
                        *no_inherit = true;
                    }
                }
                _ => return Ok(()),
            }
        }
    }
}
