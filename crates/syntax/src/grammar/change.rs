//! Statements that change rows.

use super::Parser;
use crate::ast::{
    Alias, Arbiter, Assignment, Delete, Expr, ExprKind, Insert, InsertColumn, InsertSource, OnConflict,
    OnConflictAction, Overriding, SelectItem, TableItem, Update, With,
};
use crate::lex::{Keyword, Lexeme};
use statement::error::SqlResult;

impl Parser<'_> {
    /// Parses INSERT, at the current token.
    pub(super) fn insert(&mut self, with: Option<With>) -> SqlResult<Insert> {
        let begin = self.expect_word(Keyword::Insert)?.span;
        let from = with.as_ref().map_or(begin, |with| with.span);
        self.expect_word(Keyword::Into)?;
        let table_from = self.token.span;
        let name = self.object_name()?;
        let alias = match self.eat_word(Keyword::As)? {
            true => Some(Alias { name: Some(self.column_name()?), columns: Vec::new() }),
            false => None,
        };
        let table = TableItem { name, is_only: false, alias, is_sampled: false, span: self.since(table_from) };
        let mut columns = Vec::new();
        // A parenthesis may also begin the query: then there is no list of columns.
        if self.is(Lexeme::LeftParen) && !self.begins_query(1)? && self.ahead(1)? != Lexeme::LeftParen {
            self.next()?;
            loop {
                columns.push(self.target_column()?);
                if !self.eat(Lexeme::Comma)? {
                    break;
                }
            }
            self.expect(Lexeme::RightParen)?;
        }
        let overriding = match self.eat_word(Keyword::Overriding)? {
            true => {
                let kind = match self.token.lexeme {
                    Lexeme::Keyword(Keyword::User) => Overriding::User,
                    Lexeme::Keyword(Keyword::System) => Overriding::System,
                    _ => return Err(self.unexpected()),
                };
                self.next()?;
                self.expect_word(Keyword::Value)?;
                Some(kind)
            }
            false => None,
        };
        let is_default = columns.is_empty() && overriding.is_none() && self.is_word(Keyword::Default);
        let source = match is_default {
            true => {
                self.expect_words(&[Keyword::Default, Keyword::Values])?;
                InsertSource::Default
            }
            false => InsertSource::Query(Box::new(self.query()?)),
        };
        let on_conflict = if self.is_word(Keyword::On) { Some(self.on_conflict()?) } else { None };
        let returning = self.returning()?;
        let span = self.since(from);
        Ok(Insert { with, table, columns, overriding, source, on_conflict, returning, span })
    }

    /// Parses a column that gets a value, or a part of one.
    fn target_column(&mut self) -> SqlResult<InsertColumn> {
        Ok(InsertColumn { name: self.column_name()?, steps: self.indirection()? })
    }

    fn on_conflict(&mut self) -> SqlResult<OnConflict> {
        let from = self.expect_word(Keyword::On)?.span;
        self.expect_word(Keyword::Conflict)?;
        let arbiter = match self.token.lexeme {
            Lexeme::LeftParen => {
                let list = self.token.span;
                let keys = self.index_keys()?;
                let span = self.since(list);
                let predicate = if self.eat_word(Keyword::Where)? { Some(self.expr()?) } else { None };
                Arbiter::Index { keys, predicate, span }
            }
            Lexeme::Keyword(Keyword::On) => {
                self.expect_words(&[Keyword::On, Keyword::Constraint])?;
                Arbiter::Constraint(self.column_name()?)
            }
            _ => Arbiter::Any,
        };
        self.expect_word(Keyword::Do)?;
        let action = match self.token.lexeme {
            Lexeme::Keyword(Keyword::Nothing) => {
                self.next()?;
                OnConflictAction::Nothing
            }
            _ => {
                self.expect_words(&[Keyword::Update, Keyword::Set])?;
                let assignments = self.assignments()?;
                OnConflictAction::Update(assignments, self.condition()?)
            }
        };
        Ok(OnConflict { arbiter, action, span: self.since(from) })
    }

    /// Parses `WHERE`, if it is there, including `WHERE CURRENT OF` a cursor.
    fn condition(&mut self) -> SqlResult<Option<Expr>> {
        if !self.eat_word(Keyword::Where)? {
            return Ok(None);
        }
        let from = self.token.span;
        if self.is_word(Keyword::Current) && self.ahead(1)? == Lexeme::Keyword(Keyword::Of) {
            self.next()?;
            self.next()?;
            let kind = match self.is(Lexeme::Parameter) {
                true => {
                    self.next()?;
                    ExprKind::Unsupported("WHERE CURRENT OF a parameter")
                }
                false => ExprKind::CurrentOf(self.column_name()?),
            };
            return Ok(Some(Expr { kind, span: self.since(from) }));
        }
        self.expr().map(Some)
    }

    fn returning(&mut self) -> SqlResult<Vec<SelectItem>> {
        if self.eat_word(Keyword::Returning)? { self.select_list() } else { Ok(Vec::new()) }
    }

    fn assignments(&mut self) -> SqlResult<Vec<Assignment>> {
        let mut all = Vec::new();
        loop {
            let is_row = self.eat(Lexeme::LeftParen)?;
            let mut columns = vec![self.target_column()?];
            while is_row && self.eat(Lexeme::Comma)? {
                columns.push(self.target_column()?);
            }
            if is_row {
                self.expect(Lexeme::RightParen)?;
            }
            self.expect(Lexeme::Equal)?;
            all.push(Assignment { columns, is_row, value: self.expr()? });
            if !self.eat(Lexeme::Comma)? {
                return Ok(all);
            }
        }
    }

    /// Parses the table that is changed, with its alias: `relation_expr_opt_alias`.
    fn changed_table(&mut self) -> SqlResult<TableItem> {
        let from = self.token.span;
        let mut table = self.relation()?;
        // `SET` is a clause and no alias.
        let has_alias =
            self.eat_word(Keyword::As)? || (Self::is_column_name(self.token.lexeme) && !self.is_word(Keyword::Set));
        if has_alias {
            table.alias = Some(Alias { name: Some(self.column_name()?), columns: Vec::new() });
        }
        table.span = self.since(from);
        Ok(table)
    }

    /// Parses UPDATE, at the current token.
    pub(super) fn update(&mut self, with: Option<With>) -> SqlResult<Update> {
        let begin = self.expect_word(Keyword::Update)?.span;
        let from = with.as_ref().map_or(begin, |with| with.span);
        let table = self.changed_table()?;
        self.expect_word(Keyword::Set)?;
        let assignments = self.assignments()?;
        let items = if self.eat_word(Keyword::From)? { self.item_list()? } else { Vec::new() };
        let condition = self.condition()?;
        let returning = self.returning()?;
        let span = self.since(from);
        Ok(Update { with, table, assignments, from: items, condition, returning, span })
    }

    /// Parses DELETE, at the current token.
    pub(super) fn delete(&mut self, with: Option<With>) -> SqlResult<Delete> {
        let begin = self.expect_word(Keyword::Delete)?.span;
        let from = with.as_ref().map_or(begin, |with| with.span);
        self.expect_word(Keyword::From)?;
        let table = self.changed_table()?;
        let using = if self.eat_word(Keyword::Using)? { self.item_list()? } else { Vec::new() };
        let condition = self.condition()?;
        let returning = self.returning()?;
        Ok(Delete { with, table, using, condition, returning, span: self.since(from) })
    }
}
