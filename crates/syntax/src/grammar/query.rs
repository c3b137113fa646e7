//! Queries.

use super::Parser;
use crate::ast::{
    CommonStatement, CommonTable, Distinct, Expr, ExprKind, FromItem, GroupItem, Limit, LockStrength, LockWait,
    Locking, Materialized, NullsOrder, Query, QueryBody, RowCount, Select, SelectInto, SelectItem, SetOperator, SortBy,
    SortOrder, TableItem, WindowDefinition, With,
};
use crate::lex::{Keyword, Lexeme, Span};
use statement::error::{SqlError, SqlResult, SqlState};

/// Precedence level of `UNION` and `EXCEPT`; `INTERSECT` binds tighter.
const UNION: u8 = 1;
const INTERSECT: u8 = 2;

impl Parser<'_> {
    /// Returns true if the token at this distance begins a query that has no parentheses around it.
    pub(super) fn begins_query(&mut self, at: usize) -> SqlResult<bool> {
        Ok(match self.ahead(at)? {
            Lexeme::Keyword(Keyword::Select | Keyword::With | Keyword::Table) => true,
            // `VALUES` may be a name, too.
            Lexeme::Keyword(Keyword::Values) => self.ahead(at + 1)? == Lexeme::LeftParen,
            _ => false,
        })
    }

    /// Returns true if the current token continues a query in parentheses.
    pub(super) fn continues_query(&self) -> bool {
        matches!(
            self.token.lexeme,
            Lexeme::Keyword(
                Keyword::Union
                    | Keyword::Intersect
                    | Keyword::Except
                    | Keyword::Order
                    | Keyword::Limit
                    | Keyword::Offset
                    | Keyword::Fetch
                    | Keyword::For
            )
        )
    }

    /// Parses a query: `SelectStmt` without parentheses around it, though it may begin with some.
    pub(super) fn query(&mut self) -> SqlResult<Query> {
        let with = if self.is_word(Keyword::With) { Some(self.with()?) } else { None };
        self.query_with(with)
    }

    /// Parses a query after its `WITH`.
    pub(super) fn query_with(&mut self, with: Option<With>) -> SqlResult<Query> {
        self.within(|parser| {
            let from = with.as_ref().map_or(parser.token.span, |with| with.span);
            let query = parser.operand_query()?;
            let query = parser.set_operations(query, 0)?;
            let query = parser.with_clauses(query)?;
            match with {
                None => Ok(query),
                Some(with) => parser.put_with(query, with, from),
            }
        })
    }

    /// Parses the rest of a query that began with one in parentheses.
    pub(super) fn query_behind(&mut self, query: Query) -> SqlResult<Query> {
        let query = self.set_operations(query, 0)?;
        self.with_clauses(query)
    }

    fn put_with(&mut self, mut query: Query, with: With, from: Span) -> SqlResult<Query> {
        if let Some(inner) = &query.with {
            let error = SqlError::new(SqlState::SYNTAX_ERROR, "multiple WITH clauses not allowed");
            return Err(error.at(inner.span.position(self.text)));
        }
        query.with = Some(with);
        query.span = from.to(query.span);
        Ok(query)
    }

    /// Parses SELECT, VALUES or TABLE without clauses after it, or a query in parentheses.
    fn operand_query(&mut self) -> SqlResult<Query> {
        let from = self.token.span;
        let body = match self.token.lexeme {
            Lexeme::LeftParen => return self.query_in_parens(),
            Lexeme::Keyword(Keyword::Select) => QueryBody::Select(Box::new(self.select()?)),
            Lexeme::Keyword(Keyword::Values) => QueryBody::Values(self.values()?),
            Lexeme::Keyword(Keyword::Table) => {
                self.next()?;
                let table = self.relation()?;
                let all = Expr { kind: ExprKind::AllColumns(None), span: from };
                QueryBody::Select(Box::new(Select {
                    distinct: Distinct::No,
                    list: vec![SelectItem { value: all, label: None, span: from }],
                    into: None,
                    from: vec![FromItem::Table(table)],
                    condition: None,
                    group_by: Vec::new(),
                    is_group_distinct: false,
                    having: None,
                    windows: Vec::new(),
                }))
            }
            _ => return Err(self.unexpected()),
        };
        Ok(query_of(body, self.since(from)))
    }

    /// Parses the set operations after an operand, of a level or higher.
    fn set_operations(&mut self, mut left: Query, least: u8) -> SqlResult<Query> {
        loop {
            let (operator, level) = match self.token.lexeme {
                Lexeme::Keyword(Keyword::Union) => (SetOperator::Union, UNION),
                Lexeme::Keyword(Keyword::Except) => (SetOperator::Except, UNION),
                Lexeme::Keyword(Keyword::Intersect) => (SetOperator::Intersect, INTERSECT),
                _ => return Ok(left),
            };
            if level < least {
                return Ok(left);
            }
            self.next()?;
            let is_all = self.eat_word(Keyword::All)?;
            if !is_all {
                self.eat_word(Keyword::Distinct)?;
            }
            let highest = std::mem::take(&mut self.height);
            let right = self.within(|parser| {
                let right = parser.operand_query()?;
                parser.set_operations(right, level + 1)
            })?;
            self.height = self.height.max(highest);
            self.grow(1)?;
            let span = left.span.to(right.span);
            let (left_side, right) = (Box::new(left), Box::new(right));
            left = query_of(QueryBody::SetOperation { operator, is_all, left: left_side, right }, span);
        }
    }

    /// Parses `ORDER BY`, `LIMIT` and `FOR UPDATE` after a query, in the orders that PostgreSQL accepts.
    fn with_clauses(&mut self, mut query: Query) -> SqlResult<Query> {
        let from = query.span;
        if self.is_word(Keyword::Order) {
            self.refuse_second(!query.order_by.is_empty(), "ORDER BY")?;
            query.order_by = self.order_by()?;
        }
        let mut has_locking = false;
        if self.begins_locking()? {
            self.locking(&mut query)?;
            has_locking = true;
        }
        let has_limit = self.limit(&mut query)?;
        if has_limit && !has_locking && self.begins_locking()? {
            self.locking(&mut query)?;
        }
        query.span = self.since(from);
        Ok(query)
    }

    fn refuse_second(&self, is_there: bool, clause: &str) -> SqlResult<()> {
        if !is_there {
            return Ok(());
        }
        let error = SqlError::new(SqlState::SYNTAX_ERROR, format!("multiple {clause} clauses not allowed"));
        Err(error.at(self.token.span.position(self.text)))
    }

    /// Parses `LIMIT`, `OFFSET` and `FETCH`, if there are any.
    fn limit(&mut self, query: &mut Query) -> SqlResult<bool> {
        let mut limit = Limit::default();
        // Count and offset may come in either order, but only once each, also across parentheses.
        let (mut has_count, mut has_offset) = (false, false);
        loop {
            match self.token.lexeme {
                Lexeme::Keyword(Keyword::Limit) if !has_count => {
                    self.refuse_second(query.limit.count.is_some(), "LIMIT")?;
                    let word = self.next()?.span;
                    has_count = true;
                    limit.count = Some(match self.is_word(Keyword::All) {
                        true => {
                            self.next()?;
                            RowCount::All
                        }
                        false => RowCount::Expr(self.expr()?),
                    });
                    if self.eat(Lexeme::Comma)? {
                        self.expr()?;
                        let error = SqlError::new(SqlState::SYNTAX_ERROR, "LIMIT #,# syntax is not supported")
                            .hint("Use separate LIMIT and OFFSET clauses.");
                        return Err(error.at(word.position(self.text)));
                    }
                }
                Lexeme::Keyword(Keyword::Fetch) if !has_count => {
                    self.refuse_second(query.limit.count.is_some(), "LIMIT")?;
                    has_count = true;
                    self.fetch(&mut limit)?;
                }
                Lexeme::Keyword(Keyword::Offset) if !has_offset => {
                    self.refuse_second(query.limit.offset.is_some(), "OFFSET")?;
                    self.next()?;
                    has_offset = true;
                    limit.offset = Some(self.expr()?);
                    if !self.eat_word(Keyword::Row)? {
                        self.eat_word(Keyword::Rows)?;
                    }
                }
                _ => break,
            }
        }
        query.limit.count = limit.count.or(query.limit.count.take());
        query.limit.offset = limit.offset.or(query.limit.offset.take());
        query.limit.with_ties |= limit.with_ties;
        Ok(has_count || has_offset)
    }

    /// Parses `FETCH FIRST count ROWS ONLY`, at the current token.
    fn fetch(&mut self, limit: &mut Limit) -> SqlResult<()> {
        let from = self.next()?.span;
        if !self.eat_word(Keyword::First)? {
            self.expect_word(Keyword::Next)?;
        }
        let is_rows = |lexeme| matches!(lexeme, Lexeme::Keyword(Keyword::Row | Keyword::Rows));
        let count = match is_rows(self.token.lexeme) {
            true => {
                let span = self.since(from);
                Expr { kind: ExprKind::Constant(crate::ast::Constant::Integer(1)), span }
            }
            false => self.fetch_count()?,
        };
        limit.count = Some(RowCount::Expr(count));
        if !is_rows(self.token.lexeme) {
            return Err(self.unexpected());
        }
        self.next()?;
        if self.eat_word(Keyword::With)? {
            self.expect_word(Keyword::Ties)?;
            limit.with_ties = true;
            return Ok(());
        }
        self.expect_word(Keyword::Only)?;
        Ok(())
    }

    /// Parses the count of FETCH: an operand, or a number with a sign.
    fn fetch_count(&mut self) -> SqlResult<Expr> {
        match self.token.lexeme {
            Lexeme::Plus | Lexeme::Minus => {
                if !matches!(self.ahead(1)?, Lexeme::Integer | Lexeme::Decimal) {
                    self.next()?;
                    return Err(self.unexpected());
                }
                let from = self.token.span;
                let operator = self.operator()?;
                let number = self.primary()?;
                Ok(self.signed(operator, number, from))
            }
            _ => self.primary(),
        }
    }

    /// Returns true if `FOR UPDATE` or the like begins at the current token.
    fn begins_locking(&mut self) -> SqlResult<bool> {
        Ok(self.is_word(Keyword::For))
    }

    /// Parses the clauses `FOR UPDATE` and the like; `FOR READ ONLY` has no effect.
    fn locking(&mut self, query: &mut Query) -> SqlResult<()> {
        // `FOR READ ONLY` locks nothing, and no other clause follows it.
        if self.ahead(1)? == Lexeme::Keyword(Keyword::Read) {
            self.next()?;
            return self.expect_words(&[Keyword::Read, Keyword::Only]);
        }
        while self.is_word(Keyword::For) {
            let from = self.next()?.span;
            let strength = match self.token.lexeme {
                Lexeme::Keyword(Keyword::Update) => LockStrength::Update,
                Lexeme::Keyword(Keyword::Share) => LockStrength::Share,
                Lexeme::Keyword(Keyword::No) => {
                    self.expect_words(&[Keyword::No, Keyword::Key])?;
                    LockStrength::NoKeyUpdate
                }
                Lexeme::Keyword(Keyword::Key) => {
                    self.next()?;
                    LockStrength::KeyShare
                }
                _ => return Err(self.unexpected()),
            };
            match strength {
                LockStrength::Update | LockStrength::NoKeyUpdate => self.expect_word(Keyword::Update)?,
                LockStrength::Share | LockStrength::KeyShare => self.expect_word(Keyword::Share)?,
            };
            let mut of = Vec::new();
            if self.eat_word(Keyword::Of)? {
                of.push(self.object_name()?);
                while self.eat(Lexeme::Comma)? {
                    of.push(self.object_name()?);
                }
            }
            let wait = match self.token.lexeme {
                Lexeme::Keyword(Keyword::Nowait) => {
                    self.next()?;
                    LockWait::NoWait
                }
                Lexeme::Keyword(Keyword::Skip) => {
                    self.expect_words(&[Keyword::Skip, Keyword::Locked])?;
                    LockWait::SkipLocked
                }
                _ => LockWait::Block,
            };
            query.locking.push(Locking { strength, of, wait, span: self.since(from) });
        }
        Ok(())
    }

    /// Parses SELECT, at the current token, without the clauses after it.
    fn select(&mut self) -> SqlResult<Select> {
        self.expect_word(Keyword::Select)?;
        let distinct = match self.token.lexeme {
            Lexeme::Keyword(Keyword::All) => {
                self.next()?;
                Distinct::No
            }
            Lexeme::Keyword(Keyword::Distinct) => {
                self.next()?;
                match self.eat_word(Keyword::On)? {
                    true => {
                        self.expect(Lexeme::LeftParen)?;
                        let keys = self.exprs()?;
                        self.expect(Lexeme::RightParen)?;
                        Distinct::On(keys)
                    }
                    false => Distinct::Rows,
                }
            }
            _ => Distinct::No,
        };
        // A list may be empty, but not after DISTINCT.
        let list = match self.ends_list() && distinct == Distinct::No {
            true => Vec::new(),
            false => self.select_list()?,
        };
        let into = if self.eat_word(Keyword::Into)? { Some(self.select_into()?) } else { None };
        let from = if self.eat_word(Keyword::From)? { self.item_list()? } else { Vec::new() };
        let condition = if self.eat_word(Keyword::Where)? { Some(self.expr()?) } else { None };
        let (mut group_by, mut is_group_distinct) = (Vec::new(), false);
        if self.eat_word(Keyword::Group)? {
            self.expect_word(Keyword::By)?;
            is_group_distinct = self.eat_word(Keyword::Distinct)?;
            if !is_group_distinct {
                self.eat_word(Keyword::All)?;
            }
            group_by = self.group_items()?;
        }
        let having = if self.eat_word(Keyword::Having)? { Some(self.expr()?) } else { None };
        let mut windows = Vec::new();
        if self.eat_word(Keyword::Window)? {
            loop {
                let name = self.column_name()?;
                self.expect_word(Keyword::As)?;
                if !self.is(Lexeme::LeftParen) {
                    return Err(self.unexpected());
                }
                windows.push(WindowDefinition { name, window: self.window_spec()? });
                if !self.eat(Lexeme::Comma)? {
                    break;
                }
            }
        }
        Ok(Select { distinct, list, into, from, condition, group_by, is_group_distinct, having, windows })
    }

    /// Returns true if the current token can only stand after a list of columns.
    fn ends_list(&self) -> bool {
        match self.token.lexeme {
            Lexeme::RightParen | Lexeme::Semicolon | Lexeme::End => true,
            Lexeme::Keyword(
                Keyword::Into
                | Keyword::From
                | Keyword::Where
                | Keyword::Group
                | Keyword::Having
                | Keyword::Window
                | Keyword::On,
            ) => true,
            _ => self.continues_query(),
        }
    }

    /// Returns true if a token can only stand after a column of a list.
    pub(super) fn ends_column(lexeme: Lexeme) -> bool {
        match lexeme {
            Lexeme::Comma | Lexeme::RightParen | Lexeme::Semicolon | Lexeme::End => true,
            Lexeme::Keyword(word) => matches!(
                word,
                Keyword::From
                    | Keyword::Into
                    | Keyword::Where
                    | Keyword::Group
                    | Keyword::Having
                    | Keyword::Window
                    | Keyword::Union
                    | Keyword::Intersect
                    | Keyword::Except
                    | Keyword::Order
                    | Keyword::Limit
                    | Keyword::Offset
                    | Keyword::Fetch
                    | Keyword::For
                    | Keyword::On
                    | Keyword::Returning
            ),
            _ => false,
        }
    }

    /// Parses a list of columns: `target_list`.
    pub(super) fn select_list(&mut self) -> SqlResult<Vec<SelectItem>> {
        let mut list = vec![self.select_item()?];
        while self.eat(Lexeme::Comma)? {
            list.push(self.select_item()?);
        }
        Ok(list)
    }

    fn select_item(&mut self) -> SqlResult<SelectItem> {
        let from = self.token.span;
        if self.is(Lexeme::Star) {
            let span = self.next()?.span;
            return Ok(SelectItem { value: Expr { kind: ExprKind::AllColumns(None), span }, label: None, span });
        }
        let value = self.listed_expr()?;
        let label = match self.token.lexeme {
            Lexeme::Keyword(Keyword::As) => {
                self.next()?;
                Some(self.label()?)
            }
            lexeme if Self::is_bare_label(lexeme) => Some(self.label()?),
            _ => None,
        };
        Ok(SelectItem { value, label, span: self.since(from) })
    }

    fn select_into(&mut self) -> SqlResult<SelectInto> {
        if matches!(self.token.lexeme, Lexeme::Keyword(Keyword::Local | Keyword::Global)) {
            self.next()?;
            if !matches!(self.token.lexeme, Lexeme::Keyword(Keyword::Temp | Keyword::Temporary)) {
                return Err(self.unexpected());
            }
        }
        let is_temporary = self.eat_word(Keyword::Temp)? || self.eat_word(Keyword::Temporary)?;
        let is_unlogged = !is_temporary && self.eat_word(Keyword::Unlogged)?;
        self.eat_word(Keyword::Table)?;
        Ok(SelectInto { name: self.object_name()?, is_temporary, is_unlogged })
    }

    fn group_items(&mut self) -> SqlResult<Vec<GroupItem>> {
        let mut items = vec![self.group_item()?];
        while self.eat(Lexeme::Comma)? {
            items.push(self.group_item()?);
        }
        Ok(items)
    }

    fn group_item(&mut self) -> SqlResult<GroupItem> {
        let from = self.token.span;
        let follows = self.ahead(1)?;
        let keys = |parser: &mut Self| -> SqlResult<Vec<Expr>> {
            parser.next()?;
            parser.expect(Lexeme::LeftParen)?;
            let keys = parser.exprs()?;
            parser.expect(Lexeme::RightParen)?;
            Ok(keys)
        };
        match self.token.lexeme {
            Lexeme::LeftParen if follows == Lexeme::RightParen => {
                self.next()?;
                self.next()?;
                Ok(GroupItem::Empty(self.since(from)))
            }
            Lexeme::Keyword(Keyword::Rollup) if follows == Lexeme::LeftParen => {
                Ok(GroupItem::Rollup(keys(self)?, self.since(from)))
            }
            Lexeme::Keyword(Keyword::Cube) if follows == Lexeme::LeftParen => {
                Ok(GroupItem::Cube(keys(self)?, self.since(from)))
            }
            Lexeme::Keyword(Keyword::Grouping) if follows == Lexeme::Keyword(Keyword::Sets) => self.within(|parser| {
                parser.next()?;
                parser.next()?;
                parser.expect(Lexeme::LeftParen)?;
                let items = parser.group_items()?;
                parser.expect(Lexeme::RightParen)?;
                Ok(GroupItem::Sets(items, parser.since(from)))
            }),
            _ => Ok(GroupItem::Expr(self.expr()?)),
        }
    }

    /// Parses the rows of VALUES, at the current token.
    fn values(&mut self) -> SqlResult<Vec<Vec<Expr>>> {
        self.expect_word(Keyword::Values)?;
        let mut rows = Vec::new();
        loop {
            self.expect(Lexeme::LeftParen)?;
            rows.push(self.exprs()?);
            self.expect(Lexeme::RightParen)?;
            if !self.eat(Lexeme::Comma)? {
                return Ok(rows);
            }
        }
    }

    /// Parses `ORDER BY`, if it is there.
    pub(super) fn order_by(&mut self) -> SqlResult<Vec<SortBy>> {
        if !self.eat_word(Keyword::Order)? {
            return Ok(Vec::new());
        }
        self.expect_word(Keyword::By)?;
        let mut keys = vec![self.sort_by()?];
        while self.eat(Lexeme::Comma)? {
            keys.push(self.sort_by()?);
        }
        Ok(keys)
    }

    fn sort_by(&mut self) -> SqlResult<SortBy> {
        let value = self.expr()?;
        let order = match self.token.lexeme {
            Lexeme::Keyword(Keyword::Using) => {
                self.next()?;
                SortOrder::Using(match self.is_word(Keyword::Operator) {
                    true => self.qualified_operator()?,
                    false => self.operator()?,
                })
            }
            _ => self.direction()?,
        };
        Ok(SortBy { value, order, nulls: self.nulls()? })
    }

    /// Parses `ASC` or `DESC`, if there is one.
    pub(super) fn direction(&mut self) -> SqlResult<SortOrder> {
        Ok(match self.token.lexeme {
            Lexeme::Keyword(Keyword::Asc) => {
                self.next()?;
                SortOrder::Ascending
            }
            Lexeme::Keyword(Keyword::Desc) => {
                self.next()?;
                SortOrder::Descending
            }
            _ => SortOrder::Default,
        })
    }

    /// Parses `NULLS FIRST` or `NULLS LAST`, if there is one.
    pub(super) fn nulls(&mut self) -> SqlResult<NullsOrder> {
        if !self.eat(Lexeme::Joined(Keyword::Nulls))? {
            return Ok(NullsOrder::Default);
        }
        let order = if self.is_word(Keyword::First) { NullsOrder::First } else { NullsOrder::Last };
        self.next()?;
        Ok(order)
    }

    /// Parses `WITH`, at the current token.
    pub(super) fn with(&mut self) -> SqlResult<With> {
        let from = self.expect_word(Keyword::With)?.span;
        // `RECURSIVE` may be a name, too.
        let is_name = matches!(self.ahead(1)?, Lexeme::Keyword(Keyword::As) | Lexeme::LeftParen);
        let is_recursive = !is_name && self.eat_word(Keyword::Recursive)?;
        let mut tables = vec![self.common_table()?];
        while self.eat(Lexeme::Comma)? {
            tables.push(self.common_table()?);
        }
        Ok(With { is_recursive, tables, span: self.since(from) })
    }

    fn common_table(&mut self) -> SqlResult<CommonTable> {
        let name = self.column_name()?;
        let columns = if self.is(Lexeme::LeftParen) { self.column_names()? } else { Vec::new() };
        self.expect_word(Keyword::As)?;
        let materialized = match self.token.lexeme {
            Lexeme::Keyword(Keyword::Materialized) => {
                self.next()?;
                Materialized::Always
            }
            Lexeme::Keyword(Keyword::Not) => {
                self.expect_words(&[Keyword::Not, Keyword::Materialized])?;
                Materialized::Never
            }
            _ => Materialized::Default,
        };
        self.expect(Lexeme::LeftParen)?;
        let statement = self.within(Self::common_statement)?;
        self.expect(Lexeme::RightParen)?;
        // Parsed in full, so that a syntax error is reported before the unsupported feature.
        let mut unsupported = None;
        let at = self.token.span;
        if self.eat_word(Keyword::Search)? {
            if !self.eat_word(Keyword::Depth)? {
                self.expect_word(Keyword::Breadth)?;
            }
            self.expect_words(&[Keyword::First, Keyword::By])?;
            self.plain_names()?;
            self.expect_word(Keyword::Set)?;
            self.column_name()?;
            unsupported = Some(("SEARCH", at));
        }
        let at = self.token.span;
        if self.eat_word(Keyword::Cycle)? {
            self.plain_names()?;
            self.expect_word(Keyword::Set)?;
            self.column_name()?;
            if self.eat_word(Keyword::To)? {
                self.expr()?;
                self.expect_word(Keyword::Default)?;
                self.expr()?;
            }
            self.expect_word(Keyword::Using)?;
            self.column_name()?;
            unsupported = unsupported.or(Some(("CYCLE", at)));
        }
        Ok(CommonTable { name, columns, materialized, statement, unsupported })
    }

    /// Parses names with commas between them.
    fn plain_names(&mut self) -> SqlResult<()> {
        self.column_name()?;
        while self.eat(Lexeme::Comma)? {
            self.column_name()?;
        }
        Ok(())
    }

    fn common_statement(&mut self) -> SqlResult<CommonStatement> {
        let with = if self.is_word(Keyword::With) { Some(self.with()?) } else { None };
        Ok(match self.token.lexeme {
            Lexeme::Keyword(Keyword::Insert) => CommonStatement::Insert(Box::new(self.insert(with)?)),
            Lexeme::Keyword(Keyword::Update) => CommonStatement::Update(Box::new(self.update(with)?)),
            Lexeme::Keyword(Keyword::Delete) => CommonStatement::Delete(Box::new(self.delete(with)?)),
            _ => CommonStatement::Query(Box::new(self.query_with(with)?)),
        })
    }

    /// Parses a table with `ONLY` or a star, without an alias: `relation_expr`.
    pub(super) fn relation(&mut self) -> SqlResult<TableItem> {
        let from = self.token.span;
        let is_only = self.eat_word(Keyword::Only)?;
        let is_enclosed = is_only && self.eat(Lexeme::LeftParen)?;
        let name = self.object_name()?;
        if is_enclosed {
            self.expect(Lexeme::RightParen)?;
        } else if !is_only {
            self.eat(Lexeme::Star)?;
        }
        Ok(TableItem { name, is_only, alias: None, is_sampled: false, span: self.since(from) })
    }
}

fn query_of(body: QueryBody, span: Span) -> Query {
    Query { with: None, body, order_by: Vec::new(), limit: Limit::default(), locking: Vec::new(), span }
}
