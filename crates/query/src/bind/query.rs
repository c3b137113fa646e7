//! Queries: `SELECT`, `VALUES`, set operations, `WITH`, `ORDER BY`, `LIMIT`, locking clauses.

use super::columns::Qualifier;
use super::expr::operator_name;
use super::place::start;
use super::recursion::{in_order, looks_out};
use super::select::lock_word;
use super::sets::{composite, field_name};
use super::{Binder, BoundQuery, Clause, NameScope, NameTarget, column_info, settled};
use crate::plan::ColumnInfo;
use crate::plan::{Expr, Plan, SetOperation, SortKey, Typed, has_working, is_volatile_plan, move_inward, new_id};
use crate::rewrite::is_simple;
use statement::bulk::Bulk;
use statement::error::{SqlError, SqlResult, SqlState};
use statement::plants::is_planted;
use statement::pulse;
use statement::refuse;
use std::collections::{HashMap, HashSet};
use std::sync::Arc;
use syntax::ast::visit::{self, Visitor};
use syntax::ast::{
    self, Constant, ExprKind, FromItem, Indirection, LockWait, Materialized, NullsOrder, ObjectName, QueryBody,
    RowCount, SessionValue, SetOperator, SortOrder,
};
use syntax::lex::Span;
use types::datum::Datum;
use types::ops::CastContext;
use types::{Kind, SqlType};

/// Maximal number of result columns, as in PostgreSQL.
const ITEMS_MAX: usize = 1664;

/// Returns the error `54011`.
fn too_many_columns() -> SqlError {
    SqlError::new(SqlState::TOO_MANY_COLUMNS, format!("target lists can have at most {ITEMS_MAX} entries")).nowhere()
}

/// Units of work for moving a value of `VALUES`.
const VALUE: usize = 16;

/// `ORDER BY`, `LIMIT` and locking clauses, which belong to the outermost query but refer to the `SELECT` below.
#[derive(Default)]
pub(super) struct QueryTail<'q> {
    pub(super) order: &'q [ast::SortBy],
    pub(super) limit: Option<Expr>,
    pub(super) offset: Option<Expr>,
    /// `WITH TIES`
    pub(super) with_ties: bool,
    pub(super) locks: &'q [ast::Locking],
}

impl Binder<'_> {
    /// Binds a query; `parent` is the scope of the enclosing query.
    pub fn query(&self, query: &ast::Query, parent: Option<&NameScope<'_>>) -> SqlResult<BoundQuery> {
        statement::stack::check()?;
        let is_top = self.is_top.replace(false);
        let with_before = self.with.borrow().len();
        if let Some(with) = &query.with {
            self.bind_with(with, parent, is_top, Some(query))?;
        }
        let tail = self.tail(query, parent)?;
        let bound = self.body(&query.body, tail, parent);
        self.with.borrow_mut().truncate(with_before);
        bound
    }

    /// Binds the clauses behind the body of a query.
    fn tail<'q>(&self, query: &'q ast::Query, parent: Option<&NameScope<'_>>) -> SqlResult<QueryTail<'q>> {
        let ast::Query { with: _, body: _, order_by, limit, locking, span: _ } = query;
        let ast::Limit { count, offset, with_ties } = limit;
        if *with_ties && order_by.is_empty() {
            let message = "WITH TIES cannot be specified without ORDER BY clause";
            return Err(SqlError::new(SqlState::SYNTAX_ERROR, message));
        }
        if *with_ties && locking.iter().any(|lock| lock.wait == LockWait::SkipLocked) {
            let message = "SKIP LOCKED and WITH TIES options cannot be used together";
            return Err(SqlError::new(SqlState::SYNTAX_ERROR, message));
        }
        let nothing = NameScope::inside(parent);
        let limit = match count {
            None | Some(RowCount::All) => None,
            Some(RowCount::Expr(count)) => Some(self.count(count, "LIMIT", &nothing)?),
        };
        let offset = offset.as_ref().map(|offset| self.count(offset, "OFFSET", &nothing)).transpose()?;
        Ok(QueryTail { order: order_by, limit, offset, with_ties: *with_ties, locks: locking })
    }

    fn count(&self, expr: &ast::Expr, of: &str, scope: &NameScope<'_>) -> SqlResult<Expr> {
        scope.clause.set(if of == "OFFSET" { Clause::Offset } else { Clause::Limit });
        let count = match self.expr(expr, scope) {
            Ok(count) => count,
            // PostgreSQL has a message of its own for a column here, since no table is visible.
            Err(error) if error.state() == SqlState::UNDEFINED_COLUMN && is_bare_column(expr) => {
                let message = format!("argument of {of} must not contain variables");
                return Err(self.at_expr(SqlError::new(SqlState::INVALID_COLUMN_REFERENCE, message), expr));
            }
            Err(error) => return Err(error),
        };
        let kind = count.kind;
        match self.coerce(count, Kind::Int8.into(), CastContext::Assignment) {
            Ok(count) => Ok(literal_count(&count.expr).unwrap_or(count.expr)),
            Err(error) if error.state() != SqlState::CANNOT_COERCE => Err(error),
            Err(_) => {
                let message = format!("argument of {of} must be type bigint, not type {}", kind.name());
                Err(self.at_expr(SqlError::new(SqlState::DATATYPE_MISMATCH, message), expr))
            }
        }
    }

    /// Binds a `WITH` clause. `is_top` means that it belongs to the whole statement.
    pub(super) fn bind_with(
        &self,
        with: &ast::With,
        parent: Option<&NameScope<'_>>,
        is_top: bool,
        whole: Option<&ast::Query>,
    ) -> SqlResult<()> {
        let ast::With { is_recursive, tables, span: _ } = with;
        let mut known: HashSet<&str> = HashSet::new();
        let ordered = if *is_recursive { in_order(tables)? } else { tables.iter().collect() };
        let references = whole.map(references).unwrap_or_default();
        for table in ordered {
            let own = table.name.to_string();
            let beside = self.height.replace(0);
            let is_named_once = references.get(&own).is_some_and(|count| *count == 1);
            let mut bound = self.common_table(table, parent, is_top, *is_recursive)?;
            let height = self.height.replace(beside) + 1;
            statement::stack::check_queries(height)?;
            self.name_columns(&mut bound.columns, table)?;
            self.add_names([&own]);
            if !known.insert(&table.name) {
                let message = format!("WITH query name \"{own}\" specified more than once");
                return Err(self.at(SqlError::new(SqlState::DUPLICATE_ALIAS, message), &table.name));
            }
            let is_inline = !is_recursive
                && match table.materialized {
                    Materialized::Always => false,
                    Materialized::Never => true,
                    Materialized::Default => is_named_once,
                };
            let plan = self.common_plan(bound.plan, is_inline, parent)?;
            self.with.borrow_mut().push((own, plan, bound.columns, height));
        }
        Ok(())
    }

    /// Binds the statement of a `WITH` query, which may be recursive.
    fn common_table(
        &self,
        table: &ast::CommonTable,
        parent: Option<&NameScope<'_>>,
        is_top: bool,
        is_recursive: bool,
    ) -> SqlResult<BoundQuery> {
        let ast::CommonTable { name: _, columns: _, materialized: _, statement, unsupported } = table;
        if let Some((feature, span)) = unsupported {
            return Err(self.at_place(SqlError::unsupported(feature), *span));
        }
        let own = if is_recursive { self.recursive(table, parent)? } else { None };
        own.map_or_else(|| self.with_query(statement, parent, is_top), Ok)
    }

    /// Settles the types of a `WITH` query's columns, and gives them the names of its column list.
    fn name_columns(&self, columns: &mut [ColumnInfo], table: &ast::CommonTable) -> SqlResult<()> {
        let ast::CommonTable { name, columns: names, .. } = table;
        for column in &mut *columns {
            column.kind = settled(column.kind);
        }
        if columns.len() < names.len() {
            let message = format!(
                "WITH query \"{name}\" has {} columns available but {} columns specified",
                columns.len(),
                names.len()
            );
            return Err(self.at(SqlError::new(SqlState::INVALID_COLUMN_REFERENCE, message), name));
        }
        for (column, name) in columns.iter_mut().zip(names) {
            column.name = name.to_string();
        }
        Ok(())
    }

    /// Returns the plan for references to the next `WITH` query. An inlined plan may be pulled up into the referring
    /// query.
    fn common_plan(&self, plan: Plan, is_inline: bool, parent: Option<&NameScope<'_>>) -> SqlResult<Plan> {
        let looks_out = looks_out(&plan);
        refuse!(
            looks_out && is_volatile_plan(&plan) =>
                "a WITH query with volatile functions that looks at an enclosing query"
        );
        let at = self.with.borrow().len();
        self.depths.borrow_mut().retain(|(other, _)| *other < at);
        if looks_out {
            self.depths.borrow_mut().push((at, parent.map_or(0, |parent| parent.depth() + 1)));
        }
        Ok(match plan {
            // A correlated query has different rows for each outer row, so they cannot be shared.
            plan if looks_out => plan,
            // These plans store their rows themselves.
            plan @ (Plan::Modified(_) | Plan::Recursive(_)) => plan,
            // A query of the working table has different rows in each iteration.
            plan if has_working(&plan) => plan,
            plan if is_inline && is_simple(&plan) => plan,
            plan => Plan::Shared { id: new_id(), plan: Arc::new(plan) },
        })
    }

    /// Returns the `WITH` query that a name refers to.
    pub(super) fn named_query(
        &self,
        name: &ast::ObjectName,
        scope: &NameScope<'_>,
    ) -> SqlResult<Option<super::WithQuery>> {
        let [own] = &name.parts[..] else { return Ok(None) };
        if self.target.get() == Some(own.span.start) {
            return Ok(None);
        }
        let at = self.with.borrow().iter().rposition(|(with, ..)| **with == **own);
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
        // References to an enclosing query are relative, so they are adjusted to the depth of this one.
        let depth = self.depths.borrow().iter().find(|(own, _)| Some(*own) == at).map(|(_, depth)| *depth);
        if let (Some((_, plan, ..)), Some(depth)) = (&mut found, depth)
            && !matches!(plan, Plan::Working(_))
        {
            move_inward(plan, scope.depth().saturating_sub(depth))?;
        }
        Ok(found)
    }

    fn body(&self, body: &QueryBody, tail: QueryTail<'_>, parent: Option<&NameScope<'_>>) -> SqlResult<BoundQuery> {
        match body {
            QueryBody::Select(select) => self.select(select, tail, parent),
            QueryBody::Values(rows) => {
                if let Some(lock) = tail.locks.first() {
                    let message = format!("{} cannot be applied to VALUES", lock_word(lock));
                    return Err(SqlError::new(SqlState::FEATURE_NOT_SUPPORTED, message));
                }
                self.ordered(self.values(rows, parent)?, tail)
            }
            QueryBody::SetOperation { operator, is_all, left, right } => {
                if let Some(lock) = tail.locks.first() {
                    let message = format!("{} is not allowed with UNION/INTERSECT/EXCEPT", lock_word(lock));
                    return Err(SqlError::new(SqlState::FEATURE_NOT_SUPPORTED, message));
                }
                self.ordered(self.set_operation(*operator, *is_all, [left, right], parent)?, tail)
            }
        }
    }

    /// Binds `UNION`, `INTERSECT` or `EXCEPT`.
    fn set_operation(
        &self,
        operator: SetOperator,
        all: bool,
        written: [&ast::Query; 2],
        parent: Option<&NameScope<'_>>,
    ) -> SqlResult<BoundQuery> {
        let (operation, of) = match operator {
            SetOperator::Union => (SetOperation::Union, "UNION"),
            SetOperator::Intersect => (SetOperation::Intersect, "INTERSECT"),
            SetOperator::Except => (SetOperation::Except, "EXCEPT"),
        };
        let [left, right] = written;
        let side = |side: &ast::Query| self.query(side, parent);
        let both = || Ok::<_, SqlError>((side(left)?, side(right)?));
        // A recursive query must not refer to itself where fewer rows there could add rows to the result, or where
        // duplicates would have to be counted. PostgreSQL refuses the same sides.
        let (left, right) = match operator {
            SetOperator::Intersect | SetOperator::Except if all => self.within(of, both)?,
            SetOperator::Except => (side(left)?, self.within(of, || side(right))?),
            SetOperator::Union | SetOperator::Intersect => both()?,
        };
        if left.columns.len() != right.columns.len() {
            let message = format!("each {of} query must have the same number of columns");
            let error = SqlError::new(SqlState::SYNTAX_ERROR, message);
            return Err(self.at_place(error, self.column_start(written[1], 0)));
        }
        let kinds = |bound: &BoundQuery| bound.columns.iter().map(|column| column.kind).collect::<Vec<_>>();
        let (from_left, from_right) = (kinds(&left), kinds(&right));
        let common = |(at, (left, right)): (usize, (&SqlType, &SqlType))| {
            if left == right && left.kind != Kind::Unknown {
                return Ok(*left);
            }
            let kind = types::ops::common_kind_of(&[left.kind, right.kind], of);
            kind.map(SqlType::from).map_err(|(side, error)| {
                let side = if side == 0 { written[0] } else { written[1] };
                self.at_place(error, self.column_start(side, at))
            })
        };
        let to = from_left.iter().zip(&from_right).enumerate().map(common).collect::<SqlResult<Vec<_>>>()?;
        let columns = left.columns.iter().zip(&to).map(|(column, kind)| column_info(&*column.name, *kind)).collect();
        // UNION ALL only appends, so its types need no equality.
        let is_compared = !(all && operation == SetOperation::Union);
        let compared = |(at, kind): (usize, &SqlType)| match is_compared {
            true => {
                let kind = self.groupable(kind.kind);
                kind.map_err(|error| self.at_place(error, self.column_start(written[1], at)))
            }
            false => Ok(kind.kind),
        };
        let plan = Plan::Set {
            operation,
            all,
            kinds: to.iter().enumerate().map(compared).collect::<SqlResult<_>>()?,
            left: Box::new(self.converted(left.plan, &from_left, &to, Some(written[0]))?),
            right: Box::new(self.converted(right.plan, &from_right, &to, Some(written[1]))?),
        };
        Ok(BoundQuery::new(plan, columns))
    }

    /// Binds `VALUES`.
    fn values(&self, rows: &[Vec<ast::Expr>], parent: Option<&NameScope<'_>>) -> SqlResult<BoundQuery> {
        let scope = NameScope::inside(parent);
        scope.clause.set(Clause::Values);
        self.check_widths(rows)?;
        let mut bound: Bulk<Vec<Typed>> = Vec::with_capacity(rows.len()).into();
        for row in rows {
            bound.push(self.exprs(row, &scope)?);
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
        Ok(BoundQuery::new(Plan::Values(rows.into_inner()), columns))
    }

    /// # Errors
    /// Fails if a row of `VALUES` differs in length from the first.
    pub(super) fn check_widths(&self, rows: &[Vec<ast::Expr>]) -> SqlResult<()> {
        let width = rows.first().map_or(0, Vec::len);
        let Some(row) = pulse::walked(rows).find(|row| row.len() != width) else { return Ok(()) };
        let error = SqlError::new(SqlState::SYNTAX_ERROR, "VALUES lists must all be the same length");
        Err(self.at_place(error, row.first().map_or(Span::NOWHERE, start)))
    }

    /// Applies order and limit to a query that has no columns besides its result.
    fn ordered(&self, bound: BoundQuery, tail: QueryTail<'_>) -> SqlResult<BoundQuery> {
        let mut keys = Vec::new();
        for key in tail.order {
            let Some(at) = self.output_column("ORDER BY", &key.value, &bound.columns, |a, b| a == b)? else {
                return Err(self.not_of_result(&bound.plan, &key.value));
            };
            let value = Typed::new(Expr::Column(at), bound.columns[at].kind);
            keys.push(self.sort_key(value, key)?);
        }
        let mut plan = bound.plan;
        if !keys.is_empty() {
            plan = Plan::Sort { input: Box::new(plan), keys: keys.clone() };
        }
        Ok(BoundQuery::new(limited(plan, tail, keys), bound.columns))
    }

    /// Returns the error for a sort key that is not a column of the result.
    fn not_of_result(&self, plan: &Plan, key: &ast::Expr) -> SqlError {
        if !matches!(plan, Plan::Set { .. }) {
            return SqlError::unsupported("ORDER BY of an expression over VALUES");
        }
        if let ExprKind::Column(name) = &key.kind
            && is_bare_column(key)
        {
            let message = format!("column \"{name}\" does not exist");
            return self.at_name(SqlError::new(SqlState::UNDEFINED_COLUMN, message), name);
        }
        let message = "invalid UNION/INTERSECT/EXCEPT ORDER BY clause";
        let error = SqlError::new(SqlState::FEATURE_NOT_SUPPORTED, message)
            .detail("Only result column names can be used, not expressions or functions.")
            .hint("Add the expression/function to every SELECT, or move the UNION into a FROM clause.");
        self.at_expr(error, key)
    }

    /// Returns the result column that an expression names by number or name. Several columns of one name must be equal.
    pub(super) fn output_column(
        &self,
        of: &str,
        expr: &ast::Expr,
        columns: &[ColumnInfo],
        are_same: impl Fn(usize, usize) -> bool,
    ) -> SqlResult<Option<usize>> {
        match &expr.kind {
            ExprKind::Constant(constant) => {
                let number = match constant {
                    Constant::Integer(number) => Some(*number),
                    Constant::Number(_)
                    | Constant::Text(_)
                    | Constant::Bits(_)
                    | Constant::Hex(_)
                    | Constant::Boolean(_)
                    | Constant::Null => None,
                };
                self.position(of, number, columns.len()).map(Some).map_err(|error| self.at_expr(error, expr))
            }
            ExprKind::Column(name) if let [own] = &name.parts[..] => {
                let is_it = |(_, column): &(usize, &ColumnInfo)| *column.name == **own;
                let mut found = columns.iter().enumerate().filter(is_it).map(|(at, _)| at);
                let first = found.next();
                if let Some(first) = first
                    && found.any(|other| !are_same(first, other))
                {
                    let message = format!("{of} \"{own}\" is ambiguous");
                    return Err(self.at(SqlError::new(SqlState::AMBIGUOUS_COLUMN, message), own));
                }
                Ok(first)
            }
            // Any other expression is computed on its own.
            _ => Ok(None),
        }
    }

    /// Returns the index of the column that a constant refers to. `number` is `None` if the constant is not an integer.
    fn position(&self, of: &str, number: Option<i32>, columns: usize) -> SqlResult<usize> {
        let number =
            number.ok_or_else(|| SqlError::new(SqlState::SYNTAX_ERROR, format!("non-integer constant in {of}")))?;
        usize::try_from(number).ok().filter(|at| (1..=columns).contains(at)).map(|at| at - 1).ok_or_else(|| {
            let message = format!("{of} position {number} is not in select list");
            SqlError::new(SqlState::INVALID_COLUMN_REFERENCE, message)
        })
    }

    /// Returns the sort key for a value with the written direction and position of nulls.
    pub(super) fn sort_key(&self, value: Typed, written: &ast::SortBy) -> SqlResult<SortKey> {
        let ast::SortBy { value: expr, order, nulls } = written;
        let descending = match order {
            SortOrder::Default | SortOrder::Ascending => false,
            SortOrder::Descending => true,
            SortOrder::Using(operator) => match operator_name(operator)? {
                "<" => false,
                ">" => true,
                other => {
                    let message = format!("operator {other} is not a valid ordering operator");
                    let error = SqlError::new(SqlState::WRONG_OBJECT_TYPE, message)
                        .hint("Ordering operators must be \"<\" or \">\" members of btree operator families.");
                    return Err(self.at_place(error, operator.span));
                }
            },
        };
        let nulls_first = match nulls {
            NullsOrder::Default => descending,
            NullsOrder::First => true,
            NullsOrder::Last => false,
        };
        let kind = settled(value.kind);
        let at = |error| self.at_expr(error, expr);
        let value = self.coerce(value, kind, CastContext::Implicit).map_err(at)?.expr;
        Ok(SortKey { value, kind: self.comparable(kind.kind).map_err(at)?, descending, nulls_first })
    }

    /// Binds a select list.
    pub fn projection(&self, list: &[ast::SelectItem], scope: &NameScope<'_>) -> SqlResult<Vec<(ColumnInfo, Expr)>> {
        let mut items = Vec::new();
        for item in list {
            if ITEMS_MAX <= items.len() {
                return Err(too_many_columns());
            }
            self.list_item(item, scope, &mut items)?;
        }
        // The last item may be a `*` that exceeds the limit.
        if ITEMS_MAX < items.len() { Err(too_many_columns()) } else { Ok(items) }
    }

    /// Appends the columns of an item of the select list.
    fn list_item(
        &self,
        item: &ast::SelectItem,
        scope: &NameScope<'_>,
        items: &mut Vec<(ColumnInfo, Expr)>,
    ) -> SqlResult<()> {
        let ast::SelectItem { value, label, span: _ } = item;
        match &value.kind {
            // PostgreSQL accepts a label for `*` but ignores it.
            ExprKind::AllColumns(None) => self.star(value.span, scope, items),
            ExprKind::AllColumns(Some(of)) => self.star_of(of, value.span, scope, items),
            ExprKind::Indirection { of, steps } if let [Indirection::All(_)] = &steps[..] => {
                let Some((function, name)) = composite(of) else {
                    return Err(SqlError::unsupported("the columns of a composite value"));
                };
                for (field, value) in self.composite_in_list(function, name, scope)? {
                    items.push(self.item(field.to_owned(), value, scope));
                }
                Ok(())
            }
            _ => {
                let own = || label.as_ref().map(ast::Name::to_string);
                // A composite value is represented by one column for each field.
                if let Some((function, name)) = composite(value) {
                    let own = own().unwrap_or_else(|| name.to_owned());
                    for (field, value) in self.composite_in_list(function, name, scope)? {
                        items.push(self.item(field_name(&own, field), value, scope));
                    }
                    return Ok(());
                }
                let bound = self.expr(value, scope)?;
                items.push(self.item(own().unwrap_or_else(|| name_of(value)), bound, scope));
                Ok(())
            }
        }
    }

    /// Appends the columns of `*`.
    fn star(&self, place: Span, scope: &NameScope<'_>, items: &mut Vec<(ColumnInfo, Expr)>) -> SqlResult<()> {
        if scope.relations.is_empty() {
            let message = "SELECT * with no tables specified is not valid";
            return Err(self.at_place(SqlError::new(SqlState::SYNTAX_ERROR, message), place));
        }
        self.note(place, || NameTarget::Star(columns_in(scope, None)));
        self.all_columns(None, scope, place, items);
        Ok(())
    }

    /// Appends the columns of `relation.*`.
    fn star_of(
        &self,
        name: &ObjectName,
        place: Span,
        scope: &NameScope<'_>,
        items: &mut Vec<(ColumnInfo, Expr)>,
    ) -> SqlResult<()> {
        let alias = name.parts.last();
        let no_relation = || self.at_name(self.no_relation(alias.map_or("", |alias| &alias.text), scope), name);
        let of = self.qualifier(&name.parts).ok_or_else(no_relation)?;
        alias.map_or(Ok(()), |alias| self.is_one(&of, scope, alias))?;
        self.note(place, || NameTarget::Star(columns_in(scope, Some(&of))));
        match self.all_columns(Some(&of), scope, place, items) {
            true => Ok(()),
            false => Err(no_relation()),
        }
    }

    fn item(&self, name: String, value: Typed, scope: &NameScope<'_>) -> (ColumnInfo, Expr) {
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

    /// Appends the columns of `*`, or of `of.*`. Returns false if no relation matches.
    fn all_columns(
        &self,
        of: Option<&Qualifier>,
        scope: &NameScope<'_>,
        place: Span,
        items: &mut Vec<(ColumnInfo, Expr)>,
    ) -> bool {
        let mut found = false;
        for relation in scope.relations.iter().filter(|relation| is_meant(relation, of)) {
            found = true;
            for (column, value) in relation.columns.iter().zip(&relation.values) {
                if let Expr::Column(slot) = value {
                    scope.uses.borrow_mut().push((*slot, place));
                }
                self.note_reads(value, scope);
                items.push((column.clone(), value.clone()));
            }
        }
        found
    }
}

/// True if `*`, or `of.*`, includes a relation's columns.
fn is_meant(relation: &super::FromRelation, of: Option<&Qualifier>) -> bool {
    of.map_or(relation.is_open, |of| of.is(relation))
}

/// Returns the qualified names of the columns of `*`, or of `of.*`.
fn columns_in(scope: &NameScope<'_>, of: Option<&Qualifier>) -> Vec<(Option<String>, String)> {
    let relations = scope.relations.iter().filter(|relation| is_meant(relation, of));
    relations
        .flat_map(|relation| {
            let alias = relation.is_named.then(|| relation.alias.clone());
            relation.columns.iter().map(move |column| (alias.clone(), column.name.clone()))
        })
        .collect()
}

/// Returns the constant that a cast of a literal count stands for: the path of a query depends on it.
fn literal_count(count: &Expr) -> Option<Expr> {
    let Expr::Cast { argument, .. } = count else { return None };
    let Expr::Constant(Datum::Int4(rows)) = **argument else { return None };
    Some(Expr::Constant(Datum::Int8(i64::from(rows))))
}

/// Applies `LIMIT`, `OFFSET` and `FETCH` to rows that are ordered by these keys.
pub(super) fn limited(plan: Plan, tail: QueryTail<'_>, keys: Vec<SortKey>) -> Plan {
    let QueryTail { order: _, limit, offset, with_ties, locks: _ } = tail;
    if limit.is_none() && offset.is_none() {
        return plan;
    }
    let input = Box::new(plan);
    if with_ties { Plan::Ties { input, keys, limit, offset } } else { Plan::Limit { input, limit, offset } }
}

/// Strength of a column name: a cast or CASE replaces a weak name by its own (PostgreSQL's `FigureColname`).
#[derive(Clone, Copy, PartialEq, Eq)]
enum NameStrength {
    Weak,
    Strong,
}

/// Returns the name of a column without an alias.
pub(super) fn name_of(expr: &ast::Expr) -> String {
    figured(expr).map_or_else(|| "?column?".to_owned(), |(name, _)| name)
}

/// True if an expression is an unqualified column name.
fn is_bare_column(expr: &ast::Expr) -> bool {
    matches!(&expr.kind, ExprKind::Column(name) if name.parts.len() == 1)
}

/// Returns the name of a query's first column; `None` if a `*` hides it.
fn first_name(query: &ast::Query) -> Option<String> {
    match &query.body {
        QueryBody::Select(select) => {
            let ast::SelectItem { value, label, span: _ } = select.list.first()?;
            match (&value.kind, label) {
                (ExprKind::AllColumns(None), _) => match select.from.first()? {
                    FromItem::Query { query, alias, is_lateral: _, span: _ } => {
                        match alias.as_ref().and_then(|alias| alias.columns.first()) {
                            Some(column) => Some(column.name.to_string()),
                            None => first_name(query),
                        }
                    }
                    FromItem::Table(_) | FromItem::Functions { .. } | FromItem::Join(_) | FromItem::Unsupported(..) => {
                        None
                    }
                },
                (ExprKind::AllColumns(Some(_)), _) => None,
                (_, Some(label)) => Some(label.to_string()),
                (_, None) => Some(name_of(value)),
            }
        }
        QueryBody::SetOperation { left, .. } => first_name(left),
        QueryBody::Values(_) => Some("column1".to_owned()),
    }
}

/// Returns the name that an expression gives its column.
fn figured(expr: &ast::Expr) -> Option<(String, NameStrength)> {
    let strong = |name: &str| Some((name.to_owned(), NameStrength::Strong));
    // As in PostgreSQL's `FigureColname`, names from casts and CASE are weak: a strong name inside takes precedence.
    match &expr.kind {
        ExprKind::Column(name) => strong(name.parts.last()?),
        ExprKind::Call(call) => strong(call.name.parts.last()?),
        ExprKind::Collate { value, .. } => figured(value),
        ExprKind::Indirection { of, steps } => {
            let last = steps.iter().rev().find_map(|step| match step {
                Indirection::Field(field) => Some(field),
                Indirection::All(_) | Indirection::Element(_) | Indirection::Slice(..) => None,
            });
            last.map_or_else(|| figured(of), |field| strong(field))
        }
        ExprKind::Cast { value, to, style: _ } => match figured(value) {
            Some((name, NameStrength::Strong)) => strong(&name),
            Some(inner) if is_planted("nested_cast_label") => Some(inner),
            Some((_, NameStrength::Weak)) | None => Some((super::typing::short_name(to), NameStrength::Weak)),
        },
        ExprKind::Case { otherwise, .. } => match otherwise.as_deref().and_then(figured) {
            Some((name, NameStrength::Strong)) => strong(&name),
            Some((_, NameStrength::Weak)) | None => Some(("case".to_owned(), NameStrength::Weak)),
        },
        ExprKind::Exists(_) => strong("exists"),
        ExprKind::Array(_) | ExprKind::ArrayQuery(_) => strong("array"),
        ExprKind::Row { .. } => strong("row"),
        ExprKind::Coalesce(_) => strong("coalesce"),
        ExprKind::NullIf(_) => strong("nullif"),
        ExprKind::Greatest(_) => strong("greatest"),
        ExprKind::Least(_) => strong("least"),
        ExprKind::Grouping(_) => strong("grouping"),
        ExprKind::Session(value) => strong(session_name(*value)),
        ExprKind::Subquery(query) => strong(&first_name(query)?),
        ExprKind::Constant(_)
        | ExprKind::Parameter(_)
        | ExprKind::AllColumns(_)
        | ExprKind::Prefix { .. }
        | ExprKind::Infix { .. }
        | ExprKind::And(_)
        | ExprKind::Or(_)
        | ExprKind::Not(_)
        | ExprKind::Is { .. }
        | ExprKind::IsDistinct { .. }
        | ExprKind::Like { .. }
        | ExprKind::Between { .. }
        | ExprKind::InList { .. }
        | ExprKind::InQuery { .. }
        | ExprKind::Quantified { .. }
        | ExprKind::Default
        | ExprKind::CurrentOf(_)
        | ExprKind::Unsupported(_) => None,
    }
}

/// Returns the column name of a session value.
fn session_name(value: SessionValue) -> &'static str {
    match value {
        SessionValue::CurrentDate => "current_date",
        SessionValue::CurrentTime(_) => "current_time",
        SessionValue::CurrentTimestamp(_) => "current_timestamp",
        SessionValue::LocalTime(_) => "localtime",
        SessionValue::LocalTimestamp(_) => "localtimestamp",
        SessionValue::CurrentRole => "current_role",
        SessionValue::CurrentUser => "current_user",
        SessionValue::User => "user",
        SessionValue::SessionUser => "session_user",
        SessionValue::CurrentCatalog => "current_catalog",
        SessionValue::CurrentSchema => "current_schema",
    }
}

/// Counts the unqualified references to each relation in a query.
fn references(query: &ast::Query) -> HashMap<String, usize> {
    let mut counts = ReferenceCounts::default();
    visit::query(query, &mut counts);
    counts.0
}

/// Visitor that counts references by name.
#[derive(Default)]
struct ReferenceCounts(HashMap<String, usize>);

impl Visitor for ReferenceCounts {
    fn relation(&mut self, name: &ObjectName) {
        if let [name] = &name.parts[..] {
            *self.0.entry(name.to_string()).or_insert(0) += 1;
        }
    }
}
