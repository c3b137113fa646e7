//! Queries: `SELECT`, `VALUES`, set operations, `WITH`, order and limit, row locks.

use super::columns::Qualifier;
use super::expr::negated;
use super::pull::Simple;
use super::recursion::{in_order, looks_out};
use super::select::lock_word;
use super::sets::{composite, field_name};
use super::subquery::unnested;
use super::{Binder, Bound, Clause, Noted, Scope, column_info, settled};
use crate::plan::ColumnInfo;
use crate::plan::{
    Expr, Place, Plan, SetOperation, SortKey, Typed, has_working, is_volatile_plan, move_inward, new_id,
};
use sqlparser::ast::{self, SetExpr, SetOperator, SetQuantifier};
use statement::bulk::Bulk;
use statement::error::{SqlError, SqlResult, SqlState};
use statement::plants::is_planted;
use statement::pulse;
use statement::refuse;
use std::collections::{HashMap, HashSet};
use std::sync::Arc;
use syntax::parse::folded;
use types::datum::Datum;
use types::ops::Context;
use types::{Kind, SqlType};

/// Columns of a result at most, as in PostgreSQL.
const ITEMS_MAX: usize = 1664;

/// `54011`
fn too_many_columns() -> SqlError {
    SqlError::new(SqlState("54011"), format!("target lists can have at most {ITEMS_MAX} entries")).nowhere()
}

/// Units of work of a value of `VALUES` that is moved.
const VALUE: usize = 16;

/// `ORDER BY`, `LIMIT` and locks, which belong to the outermost query but look into the `SELECT` below.
#[derive(Default)]
pub(super) struct Tail<'q> {
    pub(super) order: &'q [ast::OrderByExpr],
    pub(super) limit: Option<Expr>,
    pub(super) offset: Option<Expr>,
    /// `WITH TIES`
    pub(super) with_ties: bool,
    pub(super) locks: &'q [ast::LockClause],
}

impl Tail<'_> {
    fn is_none(&self) -> bool {
        let Tail { order, limit, offset, with_ties, locks } = self;
        order.is_empty() && limit.is_none() && offset.is_none() && !with_ties && locks.is_empty()
    }
}

impl Binder<'_> {
    /// Binds a query; `parent` is the scope of the query that it stands in.
    pub fn query(&self, query: &ast::Query, parent: Option<&Scope<'_>>) -> SqlResult<Bound> {
        statement::stack::check()?;
        let ast::Query {
            with,
            body,
            order_by,
            limit_clause,
            fetch,
            locks,
            for_clause,
            settings,
            format_clause,
            pipe_operators,
        } = query;
        refuse!(
            for_clause.is_some() => "FOR XML, JSON or BROWSE", settings.is_some() => "SETTINGS",
            format_clause.is_some() => "FORMAT", !pipe_operators.is_empty() => "a pipe operator",
        );
        let is_top = self.is_top.replace(false);
        let may_pull = self.may_pull.take() && with.is_none();
        let with_before = self.with.borrow().len();
        if let Some(with) = with {
            self.bind_with(with, parent, is_top, Some(query))?;
        }
        let nothing = Scope::inside(parent);
        let (mut limit, mut offset) = match limit_clause {
            None => (None, None),
            Some(ast::LimitClause::LimitOffset { limit, offset, limit_by }) => {
                refuse!(!limit_by.is_empty() => "LIMIT BY");
                let offset = offset.as_ref().map(|ast::Offset { value, rows: _ }| value);
                (self.count(limit.as_ref(), "LIMIT", &nothing)?, self.count(offset, "OFFSET", &nothing)?)
            }
            Some(ast::LimitClause::OffsetCommaLimit { .. }) => {
                return Err(SqlError::new(SqlState::SYNTAX_ERROR, "LIMIT #,# syntax is not supported")
                    .hint("Use separate LIMIT and OFFSET clauses."));
            }
        };
        let mut tie = false;
        if let Some(ast::Fetch { with_ties, percent, quantity }) = fetch {
            if *with_ties && order_by.is_none() {
                let message = "WITH TIES cannot be specified without ORDER BY clause";
                return Err(SqlError::new(SqlState::SYNTAX_ERROR, message));
            }
            let skips = |lock: &ast::LockClause| matches!(lock.nonblock, Some(ast::NonBlock::SkipLocked));
            if *with_ties && locks.iter().any(skips) {
                let message = "SKIP LOCKED and WITH TIES options cannot be used together";
                return Err(SqlError::new(SqlState::SYNTAX_ERROR, message));
            }
            tie = *with_ties;
            refuse!(*percent => "FETCH PERCENT", limit.is_some() => "FETCH and LIMIT");
            limit = match quantity {
                Some(quantity) => self.count(Some(quantity), "LIMIT", &nothing)?,
                None => Some(Expr::Constant(types::datum::Datum::Int8(1))),
            };
        }
        let order = match order_by {
            None => &[][..],
            Some(ast::OrderBy { kind: ast::OrderByKind::Expressions(all), interpolate: None }) => all,
            Some(_) => return Err(SqlError::unsupported("this ORDER BY")),
        };
        let tail = Tail { order, limit: limit.take(), offset: offset.take(), with_ties: tie, locks };
        self.may_pull.set(may_pull && matches!(&**body, SetExpr::Select(_) | SetExpr::Query(_)));
        let bound = self.set_expr(body, tail, parent);
        self.with.borrow_mut().truncate(with_before);
        bound
    }

    fn count(&self, expr: Option<&ast::Expr>, of: &str, scope: &Scope<'_>) -> SqlResult<Option<Expr>> {
        let Some(expr) = expr else { return Ok(None) };
        scope.clause.set(if of == "OFFSET" { Clause::Offset } else { Clause::Limit });
        let count = match self.expr(expr, scope) {
            Ok(count) => count,
            // No table is there; PostgreSQL says so in other words.
            Err(error) if error.state() == SqlState::UNDEFINED_COLUMN && matches!(expr, ast::Expr::Identifier(_)) => {
                let message = format!("argument of {of} must not contain variables");
                return Err(self.at_expr(SqlError::new(SqlState::INVALID_COLUMN_REFERENCE, message), expr));
            }
            Err(error) => return Err(error),
        };
        let kind = count.kind;
        match self.coerce(count, Kind::Int8.into(), Context::Assignment) {
            Ok(count) => Ok(Some(count.expr)),
            Err(error) if error.state() != SqlState::CANNOT_COERCE => Err(error),
            Err(_) => {
                let message = format!("argument of {of} must be type bigint, not type {}", kind.name());
                Err(self.at_expr(SqlError::new(SqlState::DATATYPE_MISMATCH, message), expr))
            }
        }
    }

    /// `is_top`: of the whole statement.
    pub(super) fn bind_with(
        &self,
        with: &ast::With,
        parent: Option<&Scope<'_>>,
        is_top: bool,
        whole: Option<&ast::Query>,
    ) -> SqlResult<()> {
        let ast::With { with_token: _, recursive, cte_tables } = with;
        let mut known = HashSet::new();
        let ordered = if *recursive { in_order(cte_tables)? } else { cte_tables.iter().collect() };
        let references = whole.map(references).unwrap_or_default();
        for ast::Cte { alias, query, from, materialized, closing_paren_token: _ } in ordered {
            refuse!(from.is_some() => "FROM in WITH");
            let ast::TableAlias { explicit: _, name, columns: names, at } = alias;
            refuse!(at.is_some() => "AT in WITH");
            let beside = self.height.replace(0);
            let own = if *recursive { self.recursive(alias, query, parent)? } else { None };
            let mut bound = match own {
                Some(bound) => bound,
                None => {
                    let is_inline = match materialized {
                        Some(ast::CteAsMaterialized::Materialized) => false,
                        Some(ast::CteAsMaterialized::NotMaterialized) => true,
                        None => references.get(&folded(name)).is_some_and(|count| *count == 1),
                    };
                    self.may_pull.set(is_inline && !*recursive);
                    self.with_query(query, parent, is_top)?
                }
            };
            self.may_pull.set(false);
            let simple = bound.simple.take();
            if let Some(simple) = &simple {
                bound.plan = Simple::clone(simple).into_plan();
            }
            let height = self.height.replace(beside) + 1;
            statement::stack::check_queries(height)?;
            for column in &mut bound.columns {
                column.kind = settled(column.kind);
            }
            if bound.columns.len() < names.len() {
                let message = format!(
                    "WITH query \"{}\" has {} columns available but {} columns specified",
                    folded(name),
                    bound.columns.len(),
                    names.len()
                );
                return Err(self.at(SqlError::new(SqlState::INVALID_COLUMN_REFERENCE, message), name));
            }
            for (column, ast::TableAliasColumnDef { name, data_type }) in bound.columns.iter_mut().zip(names) {
                refuse!(data_type.is_some() => "a type in WITH");
                column.name = folded(name);
            }
            self.add_names([&folded(name)]);
            if !known.insert(folded(name)) {
                let message = format!("WITH query name \"{}\" specified more than once", folded(name));
                return Err(self.at(SqlError::new(SqlState::DUPLICATE_ALIAS, message), name));
            }
            let looks_out = looks_out(&bound.plan);
            refuse!(
                looks_out && is_volatile_plan(&bound.plan) =>
                    "a WITH query with volatile functions that looks at an enclosing query"
            );
            let at = self.with.borrow().len();
            self.depths.borrow_mut().retain(|(other, _)| *other < at);
            if looks_out {
                self.depths.borrow_mut().push((at, parent.map_or(0, |parent| parent.depth() + 1)));
            }
            let plan = match bound.plan {
                // Its rows are others for each row of that query.
                plan if looks_out => plan,
                // They remember their rows themselves.
                plan @ (Plan::Modified(_) | Plan::Recursive(_)) => plan,
                // Its rows are others in each round.
                plan if has_working(&plan) => plan,
                plan => {
                    let id = new_id();
                    if let Some(simple) = simple {
                        self.inline.borrow_mut().push((id, simple));
                    }
                    Plan::Shared { id, plan: Arc::new(plan) }
                }
            };
            self.with.borrow_mut().push((folded(name), plan, bound.columns, height));
        }
        Ok(())
    }

    /// The query of `WITH` that has this plan, if it takes the place of its name.
    pub(super) fn inlined(&self, plan: &Plan) -> Option<Box<Simple>> {
        let Plan::Shared { id, .. } = plan else { return None };
        let inline = self.inline.borrow();
        inline.iter().find(|(own, _)| own == id).map(|(_, simple)| simple.clone())
    }

    /// The query of `WITH` that a name means.
    pub(super) fn named_query(&self, name: &ast::ObjectName, scope: &Scope<'_>) -> SqlResult<Option<super::Named>> {
        let parts = self.name_parts(name)?;
        let [own] = &parts[..] else { return Ok(None) };
        if self.target.get() == Some(Binder::span_of(name)) {
            return Ok(None);
        }
        let at = self.with.borrow().iter().rposition(|(with, ..)| with == own);
        let mut found = at.and_then(|at| self.with.borrow().get(at).cloned());
        if let Some((_, plan, _, height)) = &found {
            self.height.set(self.height.get().max(*height));
            self.note_reference(plan, own).map_err(|error| self.at_name(error, name))?;
        }
        if let Some((_, Plan::Modified(modify), _, _)) = &found
            && modify.returning.is_none()
        {
            let message = format!("WITH query \"{own}\" does not have a RETURNING clause");
            return Err(self.at_name(SqlError::new(SqlState::FEATURE_NOT_SUPPORTED, message), name));
        }
        // One that looks at an enclosing query says so from where it stands.
        let depth = self.depths.borrow().iter().find(|(own, _)| Some(*own) == at).map(|(_, depth)| *depth);
        if let (Some((_, plan, ..)), Some(depth)) = (&mut found, depth)
            && !matches!(plan, Plan::Working(_))
        {
            move_inward(plan, scope.depth().saturating_sub(depth))?;
        }
        Ok(found)
    }

    pub(super) fn set_expr(&self, body: &SetExpr, tail: Tail<'_>, parent: Option<&Scope<'_>>) -> SqlResult<Bound> {
        statement::stack::check()?;
        match body {
            SetExpr::Select(select) => self.select(select, tail, parent),
            SetExpr::Query(query) if tail.is_none() => self.query(query, parent),
            SetExpr::Query(query) if tail.order.is_empty() && tail.locks.is_empty() => {
                self.may_pull.set(false);
                let bound = self.query(query, parent)?;
                Ok(Bound { plan: limited(bound.plan, tail, Vec::new()), ..bound })
            }
            SetExpr::Query(query) => {
                self.may_pull.set(false);
                refuse!(!tail.locks.is_empty() => "FOR UPDATE of a query in parentheses");
                self.ordered(self.query(query, parent)?, tail)
            }
            SetExpr::Values(values) => {
                if let Some(lock) = tail.locks.first() {
                    let message = format!("{} cannot be applied to VALUES", lock_word(lock));
                    return Err(SqlError::new(SqlState::FEATURE_NOT_SUPPORTED, message));
                }
                self.ordered(self.values(values, parent)?, tail)
            }
            SetExpr::SetOperation { left, op, set_quantifier, right } => {
                if let Some(lock) = tail.locks.first() {
                    let message = format!("{} is not allowed with UNION/INTERSECT/EXCEPT", lock_word(lock));
                    return Err(SqlError::new(SqlState::FEATURE_NOT_SUPPORTED, message));
                }
                let (operation, of) = match op {
                    SetOperator::Union => (SetOperation::Union, "UNION"),
                    SetOperator::Intersect => (SetOperation::Intersect, "INTERSECT"),
                    SetOperator::Except | SetOperator::Minus => (SetOperation::Except, "EXCEPT"),
                };
                let all = match set_quantifier {
                    SetQuantifier::All => true,
                    SetQuantifier::Distinct | SetQuantifier::None => false,
                    _ => return Err(SqlError::unsupported("BY NAME")),
                };
                let written = (&**left, &**right);
                let side = |side: &SetExpr| self.set_expr(side, Tail::default(), parent);
                let (left, right) = match operation {
                    SetOperation::Intersect if all => {
                        self.within("INTERSECT", || Ok::<_, SqlError>((side(left)?, side(right)?)))?
                    }
                    SetOperation::Except if all => {
                        self.within("EXCEPT", || Ok::<_, SqlError>((side(left)?, side(right)?)))?
                    }
                    SetOperation::Except => (side(left)?, self.within("EXCEPT", || side(right))?),
                    _ => (side(left)?, side(right)?),
                };
                if left.columns.len() != right.columns.len() {
                    let message = format!("each {of} query must have the same number of columns");
                    let error = SqlError::new(SqlState::SYNTAX_ERROR, message);
                    return Err(self.at_place(error, self.column_start(written.1, 0)));
                }
                let kinds = |bound: &Bound| bound.columns.iter().map(|column| column.kind).collect::<Vec<_>>();
                let (from_left, from_right) = (kinds(&left), kinds(&right));
                let common = |(at, (left, right)): (usize, (&SqlType, &SqlType))| {
                    if left == right && left.kind != Kind::Unknown {
                        return Ok(*left);
                    }
                    let kind = types::ops::common_kind_of(&[left.kind, right.kind], of);
                    kind.map(SqlType::from).map_err(|(side, error)| {
                        let side = if side == 0 { written.0 } else { written.1 };
                        self.at_place(error, self.column_start(side, at))
                    })
                };
                let to = from_left.iter().zip(&from_right).enumerate().map(common).collect::<SqlResult<Vec<_>>>()?;
                let columns = left.columns.iter().zip(&to).map(|(column, kind)| column_info(&*column.name, *kind));
                let columns = columns.collect();
                let plan = Plan::Set {
                    operation,
                    all,
                    kinds: to
                        .iter()
                        .map(|kind| {
                            let is_compared = !(all && operation == SetOperation::Union);
                            if is_compared { self.groupable(kind.kind) } else { Ok(kind.kind) }
                        })
                        .enumerate()
                        .map(|(at, kind)| kind.map_err(|error| self.at_place(error, self.column_start(written.1, at))))
                        .collect::<SqlResult<_>>()?,
                    left: Box::new(self.converted(left.plan, &from_left, &to, Some(written.0))?),
                    right: Box::new(self.converted(right.plan, &from_right, &to, Some(written.1))?),
                };
                self.ordered(Bound::new(plan, columns), tail)
            }
            SetExpr::Insert(_) | SetExpr::Update(_) | SetExpr::Delete(_) | SetExpr::Merge(_) => {
                Err(SqlError::unsupported("a statement that changes rows in a query"))
            }
            SetExpr::Table(table) => {
                let ast::Table { table_name, schema_name } = &**table;
                let names =
                    schema_name.iter().chain(table_name).map(|name| ast::Ident::new(name.as_str())).collect::<Vec<_>>();
                let select = format!("SELECT * FROM {}", ast::ObjectName::from(names));
                Err(SqlError::unsupported(format_args!("TABLE in a query; use {select}")))
            }
        }
    }

    /// `VALUES`
    pub fn values(&self, values: &ast::Values, parent: Option<&Scope<'_>>) -> SqlResult<Bound> {
        let ast::Values { explicit_row, value_keyword, rows } = values;
        refuse!(*explicit_row => "VALUES ROW", *value_keyword => "VALUE");
        let scope = Scope::inside(parent);
        scope.clause.set(Clause::Values);
        self.check_widths(rows)?;
        let mut bound: Bulk<Vec<Typed>> = Vec::with_capacity(rows.len()).into();
        for row in rows {
            bound.push(row.content.iter().map(|value| self.expr(value, &scope)).collect::<SqlResult<_>>()?);
        }
        let width = bound.first().map_or(0, Vec::len);
        let mut columns = Vec::new();
        let mut rows: Bulk<Vec<Expr>> = Vec::with_capacity(bound.len()).into();
        for _ in 0..bound.len() {
            pulse::tick(VALUE)?;
            rows.push(Vec::with_capacity(width));
        }
        for at in 0..width {
            let mut all = Vec::with_capacity(bound.len());
            for row in &mut *bound {
                pulse::tick(VALUE)?;
                all.push(std::mem::replace(&mut row[at], Typed::new(Expr::Constant(Datum::Null), Kind::Unknown)));
            }
            let (all, kind) = self.common(all, "VALUES")?;
            for (value, row) in all.into_iter().zip(&mut *rows) {
                pulse::tick(VALUE)?;
                row.push(value);
            }
            columns.push(column_info(format!("column{}", at + 1), kind));
        }
        Ok(Bound::new(Plan::Values(rows.into_inner()), columns))
    }

    /// # Errors
    /// Rows of `VALUES` that have not as many values as the first.
    pub(super) fn check_widths(&self, rows: &[ast::Parens<Vec<ast::Expr>>]) -> SqlResult<()> {
        let width = rows.first().map_or(0, |row| row.content.len());
        let Some(row) = pulse::walked(rows).find(|row| row.content.len() != width) else { return Ok(()) };
        let error = SqlError::new(SqlState::SYNTAX_ERROR, "VALUES lists must all be the same length");
        Err(row.content.first().map_or(error.clone(), |first| self.at_expr(error, first)))
    }

    /// Order and limit of something whose columns are all there is.
    fn ordered(&self, bound: Bound, tail: Tail<'_>) -> SqlResult<Bound> {
        let mut keys = Vec::new();
        for key in tail.order {
            let ast::OrderByExpr { expr, options, with_fill } = key;
            refuse!(with_fill.is_some() => "WITH FILL");
            let Some(at) = self.output_column("ORDER BY", expr, &bound.columns, |a, b| a == b)? else {
                if let (Plan::Set { .. }, ast::Expr::Identifier(ident)) = (&bound.plan, unnested(expr)) {
                    let message = format!("column \"{}\" does not exist", folded(ident));
                    return Err(self.at(SqlError::new(SqlState::UNDEFINED_COLUMN, message), ident));
                }
                if !matches!(bound.plan, Plan::Set { .. }) {
                    return Err(SqlError::unsupported("ORDER BY of an expression over VALUES"));
                }
                let message = "invalid UNION/INTERSECT/EXCEPT ORDER BY clause";
                let error = SqlError::new(SqlState::FEATURE_NOT_SUPPORTED, message)
                    .detail("Only result column names can be used, not expressions or functions.")
                    .hint("Add the expression/function to every SELECT, or move the UNION into a FROM clause.");
                return Err(self.at_expr(error, expr));
            };
            let value = Typed::new(Expr::Column(at), bound.columns[at].kind);
            keys.push(self.sort_key(value, options).map_err(|error| self.at_key(error, expr))?);
        }
        let mut plan = bound.plan;
        if !keys.is_empty() {
            plan = Plan::Sort { input: Box::new(plan), keys: keys.clone(), is_given: false };
        }
        Ok(Bound::new(limited(plan, tail, keys), bound.columns))
    }

    /// A column of the result, by its number or its name; several of one name must be the same.
    pub(super) fn output_column(
        &self,
        of: &str,
        expr: &ast::Expr,
        columns: &[ColumnInfo],
        are_same: impl Fn(usize, usize) -> bool,
    ) -> SqlResult<Option<usize>> {
        match unnested(expr) {
            ast::Expr::Value(value) if matches!(value.value, ast::Value::Placeholder(_)) => Ok(None),
            ast::Expr::Value(value) => {
                let number = match &value.value {
                    ast::Value::Number(digits, false) => digits.parse().ok(),
                    _ => None,
                };
                self.position(of, number, columns.len()).map(Some).map_err(|error| self.at_expr(error, expr))
            }
            ast::Expr::UnaryOp { op: ast::UnaryOperator::Minus, expr: inner } if let Some(number) = negated(inner) => {
                let number = number.parse().ok();
                self.position(of, number, columns.len()).map(Some).map_err(|error| self.at_expr(error, expr))
            }
            ast::Expr::Identifier(ident) => {
                let name = folded(ident);
                let mut found = columns.iter().enumerate().filter(|(_, column)| column.name == name).map(|(at, _)| at);
                let first = found.next();
                if let Some(first) = first
                    && found.any(|other| !are_same(first, other))
                {
                    let message = format!("{of} \"{name}\" is ambiguous");
                    return Err(self.at(SqlError::new(SqlState::AMBIGUOUS_COLUMN, message), ident));
                }
                Ok(first)
            }
            _ => Ok(None),
        }
    }

    /// Place of the column that a constant names: an integer, unless it is nothing.
    fn position(&self, of: &str, number: Option<i32>, columns: usize) -> SqlResult<usize> {
        let number =
            number.ok_or_else(|| SqlError::new(SqlState::SYNTAX_ERROR, format!("non-integer constant in {of}")))?;
        usize::try_from(number).ok().filter(|at| (1..=columns).contains(at)).map(|at| at - 1).ok_or_else(|| {
            let message = format!("{of} position {number} is not in select list");
            SqlError::new(SqlState::INVALID_COLUMN_REFERENCE, message)
        })
    }

    pub(super) fn sort_key(&self, value: Typed, options: &ast::OrderByOptions) -> SqlResult<SortKey> {
        let ast::OrderByOptions { sort, nulls_first } = options;
        let descending = match sort {
            None | Some(ast::OrderBySort::Asc) => false,
            Some(ast::OrderBySort::Desc) => true,
            Some(ast::OrderBySort::Using(operator)) => match &*operator.to_string() {
                "<" => false,
                ">" => true,
                other => {
                    let message = format!("operator {other} is not a valid ordering operator");
                    return Err(SqlError::new(SqlState::WRONG_OBJECT_TYPE, message)
                        .hint("Ordering operators must be \"<\" or \">\" members of btree operator families."));
                }
            },
        };
        let kind = settled(value.kind);
        let value = self.coerce(value, kind, Context::Implicit)?;
        Ok(SortKey {
            value: value.expr,
            kind: self.comparable(kind.kind)?,
            descending,
            nulls_first: nulls_first.unwrap_or(descending),
        })
    }

    /// The select list.
    pub fn projection(&self, projection: &[ast::SelectItem], scope: &Scope<'_>) -> SqlResult<Vec<(ColumnInfo, Expr)>> {
        let mut items = Vec::new();
        for item in projection {
            if ITEMS_MAX <= items.len() {
                return Err(too_many_columns());
            }
            match item {
                ast::SelectItem::ExprWithAlias { expr: _, alias } if alias.quote_style == Some('\'') => {
                    let error = SqlError::new(SqlState::SYNTAX_ERROR, format!("syntax error at or near \"{alias}\""));
                    return Err(self.at(error, alias));
                }
                // A composite value stands as a column for each of its fields.
                ast::SelectItem::UnnamedExpr(expr) | ast::SelectItem::ExprWithAlias { expr, .. }
                    if let Some((function, name)) = composite(expr) =>
                {
                    let own = match item {
                        ast::SelectItem::ExprWithAlias { alias, .. } => folded(alias),
                        _ => name.to_owned(),
                    };
                    for (field, value) in self.composite_in_list(function, name, scope)? {
                        items.push(self.item(field_name(&own, field), value, scope));
                    }
                }
                ast::SelectItem::QualifiedWildcard(ast::SelectItemQualifiedWildcardKind::Expr(expr), _)
                    if let Some((function, name)) = composite(expr) =>
                {
                    for (field, value) in self.composite_in_list(function, name, scope)? {
                        items.push(self.item(field.to_owned(), value, scope));
                    }
                }
                ast::SelectItem::UnnamedExpr(expr) => {
                    let value = self.expr(expr, scope)?;
                    items.push(self.item(name_of(expr), value, scope));
                }
                ast::SelectItem::ExprWithAlias { expr, alias } => {
                    let value = self.expr(expr, scope)?;
                    items.push(self.item(folded(alias), value, scope));
                }
                ast::SelectItem::Wildcard(options) => {
                    refuse!(*options != ast::WildcardAdditionalOptions::default() => "an option of *");
                    if scope.relations.is_empty() {
                        let message = "SELECT * with no tables specified is not valid";
                        return Err(SqlError::new(SqlState::SYNTAX_ERROR, message));
                    }
                    self.note(options.wildcard_token.0.span, || Noted::Star(columns_in(scope, None)));
                    self.all_columns(None, scope, options.wildcard_token.0.span.into(), &mut items);
                }
                ast::SelectItem::QualifiedWildcard(ast::SelectItemQualifiedWildcardKind::ObjectName(name), options) => {
                    refuse!(*options != ast::WildcardAdditionalOptions::default() => "an option of *");
                    let parts = self.name_parts(name)?;
                    let no_relation = || {
                        let alias = parts.last().map_or("", String::as_str);
                        self.at_name(self.no_relation(alias, scope), name)
                    };
                    let of = self.qualifier(&parts).ok_or_else(no_relation)?;
                    if let Some(ast::ObjectNamePart::Identifier(own)) = name.0.last() {
                        self.is_one(&of, scope, own)?;
                    }
                    self.note(Binder::span_of(name), || Noted::Star(columns_in(scope, Some(&of))));
                    let place = Binder::span_of(name).into();
                    if !self.all_columns(Some(&of), scope, place, &mut items) {
                        return Err(no_relation());
                    }
                }
                other => return Err(SqlError::unsupported(format_args!("{other} in a select list"))),
            }
        }
        // The last one may have been a `*`.
        if ITEMS_MAX < items.len() { Err(too_many_columns()) } else { Ok(items) }
    }

    fn item(&self, name: String, value: Typed, scope: &Scope<'_>) -> (ColumnInfo, Expr) {
        let origin = match value.expr {
            Expr::Column(slot) => {
                scope.relations.iter().filter(|relation| relation.table.is_some()).find_map(|relation| {
                    let at =
                        relation.values.iter().position(|value| matches!(value, Expr::Column(own) if *own == slot))?;
                    relation.columns.get(at)
                })
            }
            _ => None,
        };
        let (table, number) = origin.map_or((0, 0), |column| (column.table, column.number));
        (ColumnInfo { name, kind: value.kind, table, number }, value.expr)
    }

    /// Adds the columns of a `*` that stands there. Says whether there is a relation that it is of.
    fn all_columns(
        &self,
        of: Option<&Qualifier>,
        scope: &Scope<'_>,
        place: Place,
        items: &mut Vec<(ColumnInfo, Expr)>,
    ) -> bool {
        let mut found = false;
        for relation in scope.relations.iter().filter(|relation| is_meant(relation, of)) {
            found = true;
            for (column, value) in relation.columns.iter().zip(&relation.values) {
                if let Expr::Column(slot) = value {
                    scope.uses.borrow_mut().push((*slot, place));
                }
                items.push((column.clone(), value.clone()));
            }
        }
        found
    }
}

/// Says whether a relation's columns are meant by `*`, or by `of.*`.
fn is_meant(relation: &super::Relation, of: Option<&Qualifier>) -> bool {
    of.map_or(relation.is_open, |of| of.is(relation))
}

/// The columns that `*` stands for, or `of.*`, as they are named.
fn columns_in(scope: &Scope<'_>, of: Option<&Qualifier>) -> Vec<(Option<String>, String)> {
    let relations = scope.relations.iter().filter(|relation| is_meant(relation, of));
    relations
        .flat_map(|relation| {
            let alias = relation.is_named.then(|| relation.alias.clone());
            relation.columns.iter().map(move |column| (alias.clone(), column.name.clone()))
        })
        .collect()
}

/// The rows that `LIMIT`, `OFFSET` and `FETCH` leave, which are ordered by these keys.
pub(super) fn limited(plan: Plan, tail: Tail<'_>, keys: Vec<SortKey>) -> Plan {
    let Tail { order: _, limit, offset, with_ties, locks: _ } = tail;
    if limit.is_none() && offset.is_none() {
        return plan;
    }
    let input = Box::new(plan);
    if with_ties { Plan::Ties { input, keys, limit, offset } } else { Plan::Limit { input, limit, offset } }
}

/// Strength of a name: a cast or CASE around a weak one gives its own (PostgreSQL's `FigureColname`).
#[derive(Clone, Copy, PartialEq, Eq)]
enum Strength {
    Weak,
    Strong,
}

/// Returns the name of a column without an alias.
fn name_of(expr: &ast::Expr) -> String {
    figured(expr).map_or_else(|| "?column?".to_owned(), |(name, _)| name)
}

/// Returns the name of a query's first column; none where a `*` hides it.
fn first_name(body: &SetExpr) -> Option<String> {
    match body {
        SetExpr::Select(select) => match select.projection.first()? {
            ast::SelectItem::UnnamedExpr(expr) => Some(name_of(expr)),
            ast::SelectItem::ExprWithAlias { alias, .. } => Some(folded(alias)),
            ast::SelectItem::Wildcard(_) => match &select.from.first()?.relation {
                ast::TableFactor::Derived { subquery, alias, .. } if select.from[0].joins.is_empty() => {
                    match alias.as_ref().and_then(|alias| alias.columns.first()) {
                        Some(column) => Some(folded(&column.name)),
                        None => first_name(&subquery.body),
                    }
                }
                _ => None,
            },
            _ => None,
        },
        SetExpr::Query(query) => first_name(&query.body),
        SetExpr::SetOperation { left, .. } => first_name(left),
        SetExpr::Values(_) => Some("column1".to_owned()),
        _ => None,
    }
}

/// Returns the name that an expression gives its column.
fn figured(expr: &ast::Expr) -> Option<(String, Strength)> {
    let strong = |name: &str| Some((name.to_owned(), Strength::Strong));
    let typed = |data_type: &ast::DataType| Some((super::typing::short_name(data_type), Strength::Weak));
    match expr {
        ast::Expr::Identifier(ident) => strong(&folded(ident)),
        ast::Expr::CompoundIdentifier(parts) => strong(&folded(parts.last()?)),
        ast::Expr::Function(function) => match function.name.0.last()? {
            ast::ObjectNamePart::Identifier(ident) => strong(&folded(ident)),
            ast::ObjectNamePart::Function(_) => None,
        },
        ast::Expr::Nested(inner) | ast::Expr::Collate { expr: inner, .. } => figured(inner),
        ast::Expr::CompoundFieldAccess { root, access_chain } => {
            let last = access_chain.iter().rev().find_map(|access| match access {
                ast::AccessExpr::Dot(field) => figured(field),
                ast::AccessExpr::Subscript(_) => None,
            });
            last.or_else(|| figured(root))
        }
        ast::Expr::Cast { expr, data_type, .. } => match figured(expr) {
            Some((name, Strength::Strong)) => strong(&name),
            Some(inner) if is_planted("nested_cast_label") => Some(inner),
            Some((_, Strength::Weak)) | None => typed(data_type),
        },
        ast::Expr::Case { else_result, .. } => match else_result.as_deref().and_then(figured) {
            Some((name, Strength::Strong)) => strong(&name),
            Some((_, Strength::Weak)) | None => Some(("case".to_owned(), Strength::Weak)),
        },
        ast::Expr::Exists { subquery: _, negated: false } => strong("exists"),
        ast::Expr::Array(_) => strong("array"),
        ast::Expr::Tuple(_) => strong("row"),
        ast::Expr::TypedString(ast::TypedString { data_type, .. }) => typed(data_type),
        ast::Expr::Interval(_) => Some(("interval".to_owned(), Strength::Weak)),
        ast::Expr::AtTimeZone { .. } => strong("timezone"),
        ast::Expr::BinaryOp { op: ast::BinaryOperator::Overlaps, .. } => strong("overlaps"),
        ast::Expr::Extract { .. } => strong("extract"),
        ast::Expr::Overlay { .. } => strong("overlay"),
        ast::Expr::Substring { shorthand: true, .. } => strong("substr"),
        ast::Expr::Substring { .. } => strong("substring"),
        ast::Expr::Trim { trim_where, .. } => match trim_where {
            Some(ast::TrimWhereField::Leading) => strong("ltrim"),
            Some(ast::TrimWhereField::Trailing) => strong("rtrim"),
            Some(ast::TrimWhereField::Both) | None => strong("btrim"),
        },
        ast::Expr::Position { .. } => strong("position"),
        ast::Expr::Ceil { .. } => strong("ceil"),
        ast::Expr::Floor { .. } => strong("floor"),
        ast::Expr::Subquery(query) => strong(&first_name(&query.body)?),
        _ => None,
    }
}

/// Number of times that each relation is named without a schema in a query.
fn references(query: &ast::Query) -> HashMap<String, usize> {
    let mut counts = HashMap::new();
    let _ = ast::visit_relations(query, |name| {
        if let [ast::ObjectNamePart::Identifier(name)] = &name.0[..] {
            *counts.entry(folded(name)).or_insert(0) += 1;
        }
        std::ops::ControlFlow::<()>::Continue(())
    });
    counts
}
