//! Items of `FROM`.

use super::Parser;
use crate::ast::{
    Alias, AliasColumn, Expr, ExprKind, FromItem, FunctionItem, JoinCondition, JoinItem, JoinKind, Name, ObjectName,
    Query, QueryBody, SessionValue, TableFunctionColumn,
};
use crate::lex::{Keyword, Lexeme, Span};
use statement::error::{SqlError, SqlResult, SqlState};

impl Parser<'_> {
    /// Parses items with commas between them.
    pub(super) fn item_list(&mut self) -> SqlResult<Vec<FromItem>> {
        let mut items = vec![self.joined_item()?];
        while self.eat(Lexeme::Comma)? {
            items.push(self.joined_item()?);
        }
        Ok(items)
    }

    /// Parses an item with the joins after it.
    fn joined_item(&mut self) -> SqlResult<FromItem> {
        self.within(|parser| {
            let from = parser.token.span;
            let item = parser.single_item()?;
            parser.joins(item, from)
        })
    }

    /// Parses the joins after an item.
    fn joins(&mut self, mut left: FromItem, from: Span) -> SqlResult<FromItem> {
        loop {
            let is_natural = self.is_word(Keyword::Natural);
            let kind = match if is_natural { self.ahead(1)? } else { self.token.lexeme } {
                Lexeme::Keyword(Keyword::Join | Keyword::Inner) => JoinKind::Inner,
                Lexeme::Keyword(Keyword::Left) => JoinKind::Left,
                Lexeme::Keyword(Keyword::Right) => JoinKind::Right,
                Lexeme::Keyword(Keyword::Full) => JoinKind::Full,
                Lexeme::Keyword(Keyword::Cross) if !is_natural => JoinKind::Cross,
                _ if is_natural => {
                    self.next()?;
                    return Err(self.unexpected());
                }
                _ => return Ok(left),
            };
            if is_natural {
                self.next()?;
            }
            let word = self.next()?.lexeme;
            if word != Lexeme::Keyword(Keyword::Join) {
                if matches!(kind, JoinKind::Left | JoinKind::Right | JoinKind::Full) {
                    self.eat_word(Keyword::Outer)?;
                }
                self.expect_word(Keyword::Join)?;
            }
            let highest = std::mem::take(&mut self.height);
            let (right, condition) = match kind == JoinKind::Cross || is_natural {
                true => {
                    let condition = if is_natural { JoinCondition::Natural } else { JoinCondition::None };
                    (self.single_item()?, condition)
                }
                false => {
                    // After a JOIN another may come before its condition: `a JOIN b JOIN c ON … ON …`.
                    let right_from = self.token.span;
                    let mut right = self.single_item()?;
                    if !self.is_word(Keyword::On) && !self.is_word(Keyword::Using) {
                        right = self.within(|parser| parser.joins(right, right_from))?;
                    }
                    (right, self.join_condition()?)
                }
            };
            self.height = self.height.max(highest);
            self.grow(1)?;
            let span = self.since(from);
            left = FromItem::Join(Box::new(JoinItem { kind, left, right, condition, alias: None, span }));
        }
    }

    fn join_condition(&mut self) -> SqlResult<JoinCondition> {
        if self.eat_word(Keyword::On)? {
            return Ok(JoinCondition::On(self.expr()?));
        }
        self.expect_word(Keyword::Using)?;
        let columns = self.column_names()?;
        let alias = if self.eat_word(Keyword::As)? { Some(self.column_name()?) } else { None };
        Ok(JoinCondition::Using(columns, alias))
    }

    /// Parses an item that is no join, except in parentheses.
    fn single_item(&mut self) -> SqlResult<FromItem> {
        let from = self.token.span;
        let is_lateral = self.eat_word(Keyword::Lateral)?;
        let follows = self.ahead(1)?;
        let is_function = is_lateral || self.begins_function_item()?;
        match self.token.lexeme {
            Lexeme::LeftParen => self.item_in_parens(is_lateral, from),
            Lexeme::Keyword(Keyword::Rows) if follows == Lexeme::Keyword(Keyword::From) => {
                self.rows_from(is_lateral, from)
            }
            Lexeme::Keyword(Keyword::Xmltable) if follows == Lexeme::LeftParen => {
                self.next()?;
                self.expect(Lexeme::LeftParen)?;
                self.skip_parenthesised()?;
                self.alias(false)?;
                Ok(FromItem::Unsupported("xmltable", from))
            }
            _ if is_function => self.function_item(is_lateral, from),
            _ => self.table_item(from),
        }
    }

    /// Returns true if a function begins at the current token, and no table.
    fn begins_function_item(&mut self) -> SqlResult<bool> {
        let opens = self.ahead(1)? == Lexeme::LeftParen;
        match self.token.lexeme {
            Lexeme::Keyword(Keyword::CurrentSchema | Keyword::Cast | Keyword::Collation) => return Ok(true),
            Lexeme::Keyword(word) if Self::is_value_function(word) => return Ok(true),
            Lexeme::Keyword(word) if self.has_special_call(word) => return Ok(opens),
            // A keyword with a syntax of its own names a function only after a schema.
            lexeme if opens && !Self::is_function_name(lexeme) => return Ok(false),
            lexeme if Self::is_column_name(lexeme) => {}
            // The word can only name a function.
            lexeme => return Ok(Self::is_function_name(lexeme)),
        }
        let mut at = 1;
        while self.ahead(at)? == Lexeme::Dot && Self::is_label(self.ahead(at + 1)?) {
            at += 2;
        }
        Ok(self.ahead(at)? == Lexeme::LeftParen)
    }

    /// Parses a query or join in parentheses.
    fn item_in_parens(&mut self, is_lateral: bool, from: Span) -> SqlResult<FromItem> {
        let paren = self.token.span;
        if is_lateral || self.begins_query(1)? {
            let query = self.query_in_parens()?;
            return self.query_item(query, is_lateral, from, paren);
        }
        match self.within(Self::enclosed)? {
            ParenthesisedFrom::Query(query) => self.query_item(*query, false, from, paren),
            ParenthesisedFrom::Item(item) => self.aliased_join(item, from),
        }
    }

    /// Parses the contents of parentheses, at the current token.
    fn enclosed(&mut self) -> SqlResult<ParenthesisedFrom> {
        if self.begins_query(1)? {
            return Ok(ParenthesisedFrom::Query(Box::new(self.query_in_parens()?)));
        }
        self.expect(Lexeme::LeftParen)?;
        let from = self.token.span;
        let item = if self.is(Lexeme::LeftParen) {
            match self.within(Self::enclosed)? {
                ParenthesisedFrom::Query(query) if self.is(Lexeme::RightParen) || self.continues_query() => {
                    let query = self.query_behind(*query)?;
                    self.expect(Lexeme::RightParen)?;
                    return Ok(ParenthesisedFrom::Query(Box::new(query)));
                }
                ParenthesisedFrom::Query(query) => self.query_item(*query, false, from, from)?,
                ParenthesisedFrom::Item(item) => self.aliased_join(item, from)?,
            }
        } else {
            self.single_item()?
        };
        let item = self.joins(item, from)?;
        // The parentheses are those of a join.
        if !matches!(item, FromItem::Join(_)) {
            return Err(self.unexpected());
        }
        self.expect(Lexeme::RightParen)?;
        Ok(ParenthesisedFrom::Item(item))
    }

    fn query_item(&mut self, query: Query, is_lateral: bool, from: Span, paren: Span) -> SqlResult<FromItem> {
        let alias = self.alias(false)?;
        if alias.is_none() {
            let what = if matches!(query.body, QueryBody::Values(_)) { "VALUES" } else { "subquery" };
            let example = if what == "VALUES" { "VALUES ..." } else { "SELECT ..." };
            let error = SqlError::new(SqlState::SYNTAX_ERROR, format!("{what} in FROM must have an alias"))
                .hint(format!("For example, FROM ({example}) [AS] foo."));
            return Err(error.at(paren.position(self.text)));
        }
        Ok(FromItem::Query { query: Box::new(query), alias, is_lateral, span: self.since(from) })
    }

    fn aliased_join(&mut self, item: FromItem, from: Span) -> SqlResult<FromItem> {
        let alias = self.alias(false)?;
        match item {
            FromItem::Join(mut join) if alias.is_some() => {
                (join.alias, join.span) = (alias, self.since(from));
                Ok(FromItem::Join(join))
            }
            item => Ok(item),
        }
    }

    fn table_item(&mut self, from: Span) -> SqlResult<FromItem> {
        let mut table = self.relation()?;
        table.alias = self.alias(false)?;
        if self.eat_word(Keyword::Tablesample)? {
            self.object_name()?;
            self.expect(Lexeme::LeftParen)?;
            self.exprs()?;
            self.expect(Lexeme::RightParen)?;
            if self.eat_word(Keyword::Repeatable)? {
                self.expect(Lexeme::LeftParen)?;
                self.expr()?;
                self.expect(Lexeme::RightParen)?;
            }
            table.is_sampled = true;
        }
        table.span = self.since(from);
        Ok(FromItem::Table(table))
    }

    /// Parses a function and its clauses.
    fn function_item(&mut self, is_lateral: bool, from: Span) -> SqlResult<FromItem> {
        let call = self.windowless_call()?;
        let with_ordinality = self.ordinality()?;
        let alias = self.alias(true)?;
        let functions = vec![FunctionItem { call, columns: Vec::new() }];
        let span = self.since(from);
        Ok(FromItem::Functions { functions, is_rows_from: false, with_ordinality, alias, is_lateral, span })
    }

    fn ordinality(&mut self) -> SqlResult<bool> {
        let is_there = self.is(Lexeme::Joined(Keyword::With)) && self.ahead(1)? == Lexeme::Keyword(Keyword::Ordinality);
        if is_there {
            self.next()?;
            self.next()?;
        }
        Ok(is_there)
    }

    /// Parses a call without a window: `func_expr_windowless`.
    fn windowless_call(&mut self) -> SqlResult<Expr> {
        let from = self.token.span;
        let opens = self.ahead(1)? == Lexeme::LeftParen;
        match self.token.lexeme {
            Lexeme::Keyword(word) if opens && self.has_special_call(word) => self.special(word),
            Lexeme::Keyword(Keyword::CurrentSchema) if !opens => {
                self.next()?;
                Ok(Expr { kind: ExprKind::Session(SessionValue::CurrentSchema), span: self.since(from) })
            }
            lexeme if Self::is_column_name(lexeme) || Self::is_function_name(lexeme) => {
                let token = self.next()?;
                let mut parts: Vec<Name> = vec![self.name_of(token)?];
                while Self::is_column_name(lexeme) && self.eat(Lexeme::Dot)? {
                    parts.push(self.label()?);
                }
                // A keyword with a syntax of its own names a function only after a schema.
                if parts.len() == 1 && !Self::is_function_name(lexeme) {
                    return Err(self.unexpected());
                }
                let call = self.arguments(ObjectName { parts })?;
                Ok(Expr { kind: ExprKind::Call(Box::new(call)), span: self.since(from) })
            }
            Lexeme::Keyword(Keyword::Cast) => self.primary(),
            Lexeme::Keyword(word) if Self::is_value_function(word) => self.primary(),
            _ => Err(self.unexpected()),
        }
    }

    /// Parses `ROWS FROM (…)`, at the current token.
    fn rows_from(&mut self, is_lateral: bool, from: Span) -> SqlResult<FromItem> {
        self.expect_words(&[Keyword::Rows, Keyword::From])?;
        self.expect(Lexeme::LeftParen)?;
        let mut functions = Vec::new();
        loop {
            let call = self.windowless_call()?;
            let mut columns = Vec::new();
            if self.eat_word(Keyword::As)? {
                self.expect(Lexeme::LeftParen)?;
                loop {
                    columns.push(self.function_column()?);
                    if !self.eat(Lexeme::Comma)? {
                        break;
                    }
                }
                self.expect(Lexeme::RightParen)?;
            }
            functions.push(FunctionItem { call, columns });
            if !self.eat(Lexeme::Comma)? {
                break;
            }
        }
        self.expect(Lexeme::RightParen)?;
        let with_ordinality = self.ordinality()?;
        let alias = self.alias(true)?;
        let span = self.since(from);
        Ok(FromItem::Functions { functions, is_rows_from: true, with_ordinality, alias, is_lateral, span })
    }

    fn function_column(&mut self) -> SqlResult<TableFunctionColumn> {
        let name = self.column_name()?;
        let kind = self.type_name()?;
        let collation = if self.eat_word(Keyword::Collate)? { Some(self.object_name()?) } else { None };
        Ok(TableFunctionColumn { name, kind, collation })
    }

    /// Parses an alias, if there is one. After a function it may define columns.
    pub(super) fn alias(&mut self, defines: bool) -> SqlResult<Option<Alias>> {
        let has_as = self.eat_word(Keyword::As)?;
        if has_as && defines && self.is(Lexeme::LeftParen) {
            let columns = self.alias_columns(true, true)?;
            return Ok(Some(Alias { name: None, columns }));
        }
        if !has_as && !Self::is_column_name(self.token.lexeme) {
            return Ok(None);
        }
        let name = Some(self.column_name()?);
        let columns = if self.is(Lexeme::LeftParen) { self.alias_columns(defines, false)? } else { Vec::new() };
        Ok(Some(Alias { name, columns }))
    }

    fn alias_columns(&mut self, defines: bool, must_define: bool) -> SqlResult<Vec<AliasColumn>> {
        self.expect(Lexeme::LeftParen)?;
        let mut columns = Vec::new();
        loop {
            let name = self.column_name()?;
            // The first column shows whether all are defined.
            let is_end = matches!(self.token.lexeme, Lexeme::Comma | Lexeme::RightParen);
            let is_defined = match columns.first() {
                None => must_define || (defines && !is_end),
                Some(AliasColumn { kind, .. }) => kind.is_some(),
            };
            let kind = if is_defined { Some(self.type_name()?) } else { None };
            if kind.is_some() && self.eat_word(Keyword::Collate)? {
                self.object_name()?;
            }
            columns.push(AliasColumn { name, kind });
            if !self.eat(Lexeme::Comma)? {
                break;
            }
        }
        self.expect(Lexeme::RightParen)?;
        Ok(columns)
    }
}

/// Contents of parentheses in `FROM`.
enum ParenthesisedFrom {
    Query(Box<Query>),
    Item(FromItem),
}
