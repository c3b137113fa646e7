//! Queries: `SELECT`, `VALUES`, set operations, `WITH`, order and limit, row locks.

use super::from::{all_of, split};
use super::{Binder, Bound, Grouping, Scope, column_info, refuse, settled};
use crate::error::{SqlError, SqlResult, SqlState};
use crate::ops::Context;
use crate::parse::folded;
use crate::plan::{Expr, Lock, Plan, SetOperation, SortKey, Typed};
use crate::session::ColumnInfo;
use crate::types::{Kind, SqlType};
use engine::{RowLock, Wait};
use sqlparser::ast::{self, SetExpr, SetOperator, SetQuantifier};
use std::cell::RefCell;
use std::sync::Arc;

/// `ORDER BY`, `LIMIT` and locks, which belong to the outermost query but look into the `SELECT` below.
#[derive(Default)]
struct Tail<'q> {
    order: &'q [ast::OrderByExpr],
    limit: Option<Expr>,
    offset: Option<Expr>,
    locks: &'q [ast::LockClause],
    /// Whoever takes the rows decides the types of literals: an INSERT does.
    keeps_unknown: bool,
}

impl Binder<'_> {
    /// Binds a query; `parent` is the scope of the query that it stands in.
    pub(crate) fn query(&self, query: &ast::Query, parent: Option<&Scope<'_>>) -> SqlResult<Bound> {
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
        let keeps_unknown = self.keeps_unknown.replace(false);
        let with_before = self.with.borrow().len();
        if let Some(with) = with {
            self.bind_with(with, parent, is_top)?;
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
        if let Some(ast::Fetch { with_ties, percent, quantity }) = fetch {
            refuse!(*with_ties => "FETCH WITH TIES", *percent => "FETCH PERCENT", limit.is_some() => "FETCH and LIMIT");
            limit = match quantity {
                Some(quantity) => self.count(Some(quantity), "FETCH", &nothing)?,
                None => Some(Expr::Constant(crate::datum::Datum::Int8(1))),
            };
        }
        let order = match order_by {
            None => &[][..],
            Some(ast::OrderBy { kind: ast::OrderByKind::Expressions(all), interpolate: None }) => all,
            Some(_) => return Err(SqlError::unsupported("this ORDER BY")),
        };
        let tail = Tail { order, limit: limit.take(), offset: offset.take(), locks, keeps_unknown };
        let bound = self.set_expr(body, tail, parent);
        self.with.borrow_mut().truncate(with_before);
        bound
    }

    fn count(&self, expr: Option<&ast::Expr>, of: &str, scope: &Scope<'_>) -> SqlResult<Option<Expr>> {
        let Some(expr) = expr else { return Ok(None) };
        let count = self.expr(expr, scope)?;
        let kind = count.kind;
        match self.coerce(count, Kind::Int8.into(), Context::Implicit) {
            Ok(count) => Ok(Some(count.expr)),
            Err(error) if error.state() != SqlState::CANNOT_COERCE => Err(error),
            Err(_) => {
                let message = format!("argument of {of} must be type bigint, not type {}", kind.name());
                Err(SqlError::new(SqlState::DATATYPE_MISMATCH, message))
            }
        }
    }

    /// `is_top`: of the whole statement.
    pub(super) fn bind_with(&self, with: &ast::With, parent: Option<&Scope<'_>>, is_top: bool) -> SqlResult<()> {
        let ast::With { with_token: _, recursive, cte_tables } = with;
        refuse!(*recursive => "WITH RECURSIVE", parent.is_some() => "WITH in a subquery");
        for ast::Cte { alias, query, from, materialized: _, closing_paren_token: _ } in cte_tables {
            refuse!(from.is_some() => "FROM in WITH");
            let ast::TableAlias { explicit: _, name, columns: names, at } = alias;
            refuse!(at.is_some() => "AT in WITH");
            let mut bound = self.with_query(query, parent, is_top)?;
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
                return Err(SqlError::new(SqlState::INVALID_COLUMN_REFERENCE, message));
            }
            for (column, ast::TableAliasColumnDef { name, data_type }) in bound.columns.iter_mut().zip(names) {
                refuse!(data_type.is_some() => "a type in WITH");
                column.name = folded(name);
            }
            if self.with.borrow().iter().any(|(other, ..)| *other == folded(name)) {
                let message = format!("WITH query name \"{}\" specified more than once", folded(name));
                return Err(SqlError::new(SqlState::DUPLICATE_ALIAS, message));
            }
            self.with.borrow_mut().push((folded(name), Arc::new(bound.plan), bound.columns));
        }
        Ok(())
    }

    fn set_expr(&self, body: &SetExpr, tail: Tail<'_>, parent: Option<&Scope<'_>>) -> SqlResult<Bound> {
        match body {
            SetExpr::Select(select) => self.select(select, tail, parent),
            SetExpr::Query(query) if tail.order.is_empty() && tail.locks.is_empty() => {
                let bound = self.query(query, parent)?;
                Ok(Bound { plan: limited(bound.plan, tail.limit, tail.offset), ..bound })
            }
            SetExpr::Query(query) => {
                refuse!(!tail.locks.is_empty() => "FOR UPDATE of a query in parentheses");
                self.ordered(self.query(query, parent)?, tail)
            }
            SetExpr::Values(values) => {
                refuse!(!tail.locks.is_empty() => "FOR UPDATE with VALUES");
                self.ordered(self.values(values, parent)?, tail)
            }
            SetExpr::SetOperation { left, op, set_quantifier, right } => {
                refuse!(!tail.locks.is_empty() => "FOR UPDATE with UNION, INTERSECT and EXCEPT");
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
                let left = self.set_expr(left, Tail::default(), parent)?;
                let right = self.set_expr(right, Tail::default(), parent)?;
                if left.columns.len() != right.columns.len() {
                    let message = format!("each {of} query must have the same number of columns");
                    return Err(SqlError::new(SqlState::SYNTAX_ERROR, message));
                }
                let kinds = |bound: &Bound| bound.columns.iter().map(|column| column.kind).collect::<Vec<_>>();
                let (from_left, from_right) = (kinds(&left), kinds(&right));
                let common = |(left, right): (&SqlType, &SqlType)| {
                    if left == right && left.kind != Kind::Unknown {
                        return Ok(*left);
                    }
                    crate::ops::common_kind(&[left.kind, right.kind], of).map(SqlType::from)
                };
                let to = from_left.iter().zip(&from_right).map(common).collect::<SqlResult<Vec<_>>>()?;
                let columns = left.columns.iter().zip(&to).map(|(column, kind)| column_info(&*column.name, *kind));
                let columns = columns.collect();
                let plan = Plan::Set {
                    operation,
                    all,
                    kinds: to
                        .iter()
                        .map(|kind| {
                            let is_compared = !(all && operation == SetOperation::Union);
                            if is_compared { self.comparable(kind.kind) } else { Ok(kind.kind) }
                        })
                        .collect::<SqlResult<_>>()?,
                    left: Box::new(self.converted(left.plan, &from_left, &to)?),
                    right: Box::new(self.converted(right.plan, &from_right, &to)?),
                };
                self.ordered(Bound { plan, columns }, tail)
            }
            SetExpr::Insert(_) | SetExpr::Update(_) | SetExpr::Delete(_) | SetExpr::Merge(_) => {
                Err(SqlError::unsupported("a statement that changes rows in a query"))
            }
            SetExpr::Table(_) => Err(SqlError::unsupported("TABLE in a query")),
        }
    }

    /// `VALUES`
    pub(crate) fn values(&self, values: &ast::Values, parent: Option<&Scope<'_>>) -> SqlResult<Bound> {
        let ast::Values { explicit_row, value_keyword, rows } = values;
        refuse!(*explicit_row => "VALUES ROW", *value_keyword => "VALUE");
        let scope = Scope::inside(parent);
        let mut bound: Vec<Vec<Typed>> = Vec::with_capacity(rows.len());
        for row in rows {
            bound.push(row.content.iter().map(|value| self.expr(value, &scope)).collect::<SqlResult<_>>()?);
        }
        let width = bound.first().map_or(0, Vec::len);
        if bound.iter().any(|row| row.len() != width) {
            return Err(SqlError::new(SqlState::SYNTAX_ERROR, "VALUES lists must all be the same length"));
        }
        let mut columns = Vec::new();
        let mut rows: Vec<Vec<Expr>> = bound.iter().map(|_| Vec::with_capacity(width)).collect();
        for at in 0..width {
            let all = bound.iter().map(|row| row[at].clone()).collect();
            let (all, kind) = self.common(all, "VALUES")?;
            all.into_iter().zip(&mut rows).for_each(|(value, row)| row.push(value));
            columns.push(column_info(format!("column{}", at + 1), kind));
        }
        Ok(Bound { plan: Plan::Values(rows), columns })
    }

    /// Order and limit of something whose columns are all there is.
    fn ordered(&self, bound: Bound, tail: Tail<'_>) -> SqlResult<Bound> {
        let mut keys = Vec::new();
        for key in tail.order {
            let ast::OrderByExpr { expr, options, with_fill } = key;
            refuse!(with_fill.is_some() => "WITH FILL");
            let Some(at) = self.output_column(expr, &bound.columns)? else {
                return Err(SqlError::unsupported("ORDER BY of an expression over UNION, INTERSECT, EXCEPT or VALUES"));
            };
            let value = Typed { expr: Expr::Column(at), kind: bound.columns[at].kind };
            keys.push(self.sort_key(value, options)?);
        }
        let mut plan = bound.plan;
        if !keys.is_empty() {
            plan = Plan::Sort { input: Box::new(plan), keys };
        }
        Ok(Bound { plan: limited(plan, tail.limit, tail.offset), columns: bound.columns })
    }

    /// A column of the result, by its number or its name.
    fn output_column(&self, expr: &ast::Expr, columns: &[ColumnInfo]) -> SqlResult<Option<usize>> {
        match expr {
            ast::Expr::Value(value) => {
                let ast::Value::Number(digits, false) = &value.value else { return Ok(None) };
                let number: usize = digits.parse().unwrap_or(0);
                if (1..=columns.len()).contains(&number) {
                    return Ok(Some(number - 1));
                }
                let message = format!("ORDER BY position {digits} is not in select list");
                Err(SqlError::new(SqlState::INVALID_COLUMN_REFERENCE, message))
            }
            ast::Expr::Identifier(ident) => {
                let name = folded(ident);
                Ok(columns.iter().position(|column| column.name == name))
            }
            _ => Ok(None),
        }
    }

    fn sort_key(&self, value: Typed, options: &ast::OrderByOptions) -> SqlResult<SortKey> {
        let ast::OrderByOptions { sort, nulls_first } = options;
        let descending = match sort {
            None | Some(ast::OrderBySort::Asc) => false,
            Some(ast::OrderBySort::Desc) => true,
            Some(_) => return Err(SqlError::unsupported("ORDER BY USING")),
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

    fn select(&self, select: &ast::Select, tail: Tail<'_>, parent: Option<&Scope<'_>>) -> SqlResult<Bound> {
        let ast::Select {
            select_token: _,
            optimizer_hints,
            distinct,
            select_modifiers,
            top,
            top_before_distinct: _,
            projection,
            exclude,
            into,
            from,
            lateral_views,
            prewhere,
            selection,
            connect_by,
            group_by,
            cluster_by,
            distribute_by,
            sort_by,
            having,
            named_window,
            qualify,
            window_before_qualify: _,
            value_table_mode,
            flavor,
        } = select;
        refuse!(
            !optimizer_hints.is_empty() => "an optimizer hint", select_modifiers.is_some() => "a modifier of SELECT",
            top.is_some() => "TOP", exclude.is_some() => "EXCLUDE", into.is_some() => "SELECT INTO",
            !lateral_views.is_empty() => "LATERAL VIEW", prewhere.is_some() => "PREWHERE",
            !connect_by.is_empty() => "CONNECT BY", !cluster_by.is_empty() => "CLUSTER BY",
            !distribute_by.is_empty() => "DISTRIBUTE BY", !sort_by.is_empty() => "SORT BY",
            !named_window.is_empty() => "WINDOW", qualify.is_some() => "QUALIFY",
            value_table_mode.is_some() => "SELECT AS", *flavor != ast::SelectFlavor::Standard => "FROM before SELECT",
        );
        let is_distinct = match distinct {
            None | Some(ast::Distinct::All) => false,
            Some(ast::Distinct::Distinct) => true,
            Some(ast::Distinct::On(_)) => return Err(SqlError::unsupported("DISTINCT ON")),
        };
        let mut scope = Scope::inside(parent);
        let steps = self.from(from, &mut scope)?;
        let selection = match selection {
            Some(selection) => {
                let condition = self.expr(selection, &scope)?;
                split(self.condition(condition, "WHERE")?)
            }
            None => Vec::new(),
        };
        let locks = self.locks(tail.locks, &scope)?;
        for lock in &locks {
            let step = steps.iter().find(|step| step.first == lock.first);
            if step.is_some_and(|step| step.is_outer) {
                let message = "FOR UPDATE cannot be applied to the nullable side of an outer join";
                return Err(SqlError::new(SqlState::FEATURE_NOT_SUPPORTED, message));
            }
        }
        let inner = steps.iter().filter(|step| !step.is_outer).flat_map(|step| step.condition.iter().cloned());
        let condition = all_of(selection.iter().cloned().chain(inner).collect());
        let mut plan = self.join(steps, selection);

        let ast::GroupByExpr::Expressions(groups, modifiers) = group_by else {
            return Err(SqlError::unsupported("GROUP BY ALL"));
        };
        refuse!(!modifiers.is_empty() => "a modifier of GROUP BY");
        let is_grouped = !groups.is_empty() || having.is_some() || self.has_aggregate(projection, tail.order);
        if is_grouped {
            refuse!(!locks.is_empty() => "FOR UPDATE with GROUP BY or aggregates");
            scope.grouping = Some(RefCell::new(self.grouping(groups, projection, &scope)?));
        }
        let items = self.projection(projection, &scope)?;
        let having = match having {
            Some(having) => {
                let condition = self.expr(having, &scope)?;
                Some(self.condition(condition, "HAVING")?)
            }
            None => None,
        };
        // Keys of the order are columns of the result, or behind them expressions over the same rows.
        let mut columns: Vec<ColumnInfo> = items.iter().map(|(info, _)| info.clone()).collect();
        let mut values: Vec<Expr> = items.into_iter().map(|(_, value)| value).collect();
        let mut keys = Vec::new();
        for ast::OrderByExpr { expr, options, with_fill } in tail.order {
            refuse!(with_fill.is_some() => "WITH FILL");
            let (at, kind) = match self.output_column(expr, &columns)? {
                Some(at) => (at, columns[at].kind),
                None => {
                    let value = self.expr(expr, &scope)?;
                    refuse!(is_distinct => "ORDER BY of what is not in the select list, with DISTINCT");
                    values.push(value.expr);
                    (values.len() - 1, value.kind)
                }
            };
            keys.push(self.sort_key(Typed { expr: Expr::Column(at), kind }, options)?);
        }
        if let Some(grouping) = scope.grouping.take() {
            let Grouping { groups, calls } = grouping.into_inner();
            plan = Plan::Aggregate {
                input: Box::new(plan),
                groups: groups.into_iter().map(|(_, group)| (group.expr, group.kind.kind)).collect(),
                calls: calls.into_iter().map(|(_, call, _)| call).collect(),
            };
            if let Some(condition) = having {
                plan = Plan::Filter { input: Box::new(plan), condition };
            }
        }
        if !tail.keeps_unknown || is_distinct {
            for column in &mut columns {
                column.kind = settled(column.kind);
            }
        }
        let width = columns.len();
        // As in PostgreSQL, rows are locked after they were ordered, and before the limit.
        let is_locking = !locks.is_empty();
        refuse!(is_locking && is_distinct => "FOR UPDATE with DISTINCT");
        if is_locking {
            let keys =
                keys.into_iter().map(|key| SortKey { value: at_source(key.value, &values), ..key }).collect::<Vec<_>>();
            if !keys.is_empty() {
                plan = Plan::Sort { input: Box::new(plan), keys };
            }
            plan = limited(Plan::Lock { input: Box::new(plan), locks, condition }, tail.limit, tail.offset);
            values.truncate(width);
            return Ok(Bound { plan: Plan::Project { input: Box::new(plan), columns: values }, columns });
        }
        let extra = values.len() != width;
        plan = Plan::Project { input: Box::new(plan), columns: values };
        if is_distinct {
            let kinds = columns.iter().map(|column| self.comparable(column.kind.kind)).collect::<SqlResult<_>>()?;
            plan = Plan::Distinct { input: Box::new(plan), kinds };
        }
        if !keys.is_empty() {
            plan = Plan::Sort { input: Box::new(plan), keys };
        }
        plan = limited(plan, tail.limit, tail.offset);
        if extra {
            plan = Plan::Project { input: Box::new(plan), columns: (0..width).map(Expr::Column).collect() };
        }
        Ok(Bound { plan, columns })
    }

    /// The groups, each by its expression as it is written, its number or its name in the select list.
    fn grouping(&self, groups: &[ast::Expr], projection: &[ast::SelectItem], scope: &Scope<'_>) -> SqlResult<Grouping> {
        let mut all = Vec::new();
        for group in groups {
            let item = |wanted: &dyn Fn(usize, &ast::SelectItem) -> bool| {
                projection.iter().enumerate().find(|(at, item)| wanted(*at, item)).and_then(|(_, item)| match item {
                    ast::SelectItem::UnnamedExpr(expr) | ast::SelectItem::ExprWithAlias { expr, .. } => Some(expr),
                    _ => None,
                })
            };
            let expr = match group {
                ast::Expr::Value(value) if matches!(value.value, ast::Value::Number(..)) => {
                    let number: usize = value.value.to_string().parse().unwrap_or(0);
                    item(&|at, _| at + 1 == number).ok_or_else(|| {
                        let message = format!("GROUP BY position {number} is not in select list");
                        SqlError::new(SqlState::INVALID_COLUMN_REFERENCE, message)
                    })?
                }
                ast::Expr::Identifier(ident) if self.column(std::slice::from_ref(ident), scope).is_err() => {
                    let named = |_: usize, item: &ast::SelectItem| matches!(item, ast::SelectItem::ExprWithAlias { alias, .. } if folded(alias) == folded(ident));
                    item(&named).unwrap_or(group)
                }
                group => group,
            };
            let bound = self.expr(expr, scope)?;
            let kind = settled(bound.kind);
            self.comparable(kind.kind)?;
            all.push((expr.clone(), self.coerce(bound, kind, Context::Implicit)?));
        }
        Ok(Grouping { groups: all, calls: Vec::new() })
    }

    /// Whether any expression calls an aggregate, not counting queries inside.
    fn has_aggregate(&self, projection: &[ast::SelectItem], order: &[ast::OrderByExpr]) -> bool {
        use std::ops::ControlFlow;
        let items = projection.iter().filter_map(|item| match item {
            ast::SelectItem::UnnamedExpr(expr) | ast::SelectItem::ExprWithAlias { expr, .. } => Some(expr),
            _ => None,
        });
        struct Search {
            queries: usize,
        }
        impl ast::Visitor for Search {
            type Break = ();
            fn pre_visit_query(&mut self, _: &ast::Query) -> ControlFlow<()> {
                self.queries += 1;
                ControlFlow::Continue(())
            }
            fn post_visit_query(&mut self, _: &ast::Query) -> ControlFlow<()> {
                self.queries -= 1;
                ControlFlow::Continue(())
            }
            fn pre_visit_expr(&mut self, expr: &ast::Expr) -> ControlFlow<()> {
                match expr {
                    ast::Expr::Function(function)
                        if self.queries == 0
                            && function.over.is_none()
                            && super::functions::is_aggregate(&function.name.to_string().to_lowercase()) =>
                    {
                        ControlFlow::Break(())
                    }
                    _ => ControlFlow::Continue(()),
                }
            }
        }
        let search = |expr: &ast::Expr| ast::Visit::visit(expr, &mut Search { queries: 0 }).is_break();
        items.chain(order.iter().map(|key| &key.expr)).any(search)
    }

    /// The select list.
    pub(crate) fn projection(
        &self,
        projection: &[ast::SelectItem],
        scope: &Scope<'_>,
    ) -> SqlResult<Vec<(ColumnInfo, Expr)>> {
        let mut items = Vec::new();
        for item in projection {
            match item {
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
                    self.all_columns(None, scope, &mut items)?;
                }
                ast::SelectItem::QualifiedWildcard(ast::SelectItemQualifiedWildcardKind::ObjectName(name), options) => {
                    refuse!(*options != ast::WildcardAdditionalOptions::default() => "an option of *");
                    let [alias] = &self.name_parts(name)?[..] else {
                        return Err(SqlError::unsupported(format_args!("{name}.*")));
                    };
                    self.all_columns(Some(alias), scope, &mut items)?;
                }
                other => return Err(SqlError::unsupported(format_args!("{other} in a select list"))),
            }
        }
        Ok(items)
    }

    fn item(&self, name: String, value: Typed, scope: &Scope<'_>) -> (ColumnInfo, Expr) {
        let origin = match value.expr {
            Expr::Column(at) if scope.grouping.is_none() => scope
                .relations
                .iter()
                .find_map(|relation| at.checked_sub(relation.first).and_then(|at| relation.columns.get(at))),
            _ => None,
        };
        let (table, number) = origin.map_or((0, 0), |column| (column.table, column.number));
        (ColumnInfo { name, kind: value.kind, table, number }, value.expr)
    }

    fn all_columns(&self, of: Option<&str>, scope: &Scope<'_>, items: &mut Vec<(ColumnInfo, Expr)>) -> SqlResult<()> {
        let mut found = false;
        let mut add = |relation: &super::Relation, at: usize| {
            let column = &relation.columns[at];
            let full_name = format!("{}.{}", relation.alias, column.name);
            let named = super::columns::Found { column: relation.first + at, kind: column.kind, full_name };
            let (at, _) = self.grouped(named, scope, &ast::Ident::new(&*column.name))?;
            items.push((column.clone(), Expr::Column(at)));
            Ok::<_, SqlError>(())
        };
        if of.is_none() {
            for relation in &scope.relations {
                relation.merged.iter().try_for_each(|at| add(relation, *at))?;
            }
        }
        for relation in scope.relations.iter().filter(|relation| of.is_none_or(|alias| relation.alias == alias)) {
            found = true;
            for at in 0..relation.columns.len() {
                if of.is_none() && (relation.hidden.contains(&at) || relation.merged.contains(&at)) {
                    continue;
                }
                add(relation, at)?;
            }
        }
        match of {
            Some(alias) if !found => {
                let message = format!("missing FROM-clause entry for table \"{alias}\"");
                Err(SqlError::new(SqlState::UNDEFINED_TABLE, message))
            }
            _ => Ok(()),
        }
    }

    fn locks(&self, clauses: &[ast::LockClause], scope: &Scope<'_>) -> SqlResult<Vec<Lock>> {
        let mut locks: Vec<Lock> = Vec::new();
        for ast::LockClause { lock_type, of, nonblock } in clauses {
            let mode = match lock_type {
                ast::LockType::Update => RowLock::Update,
                ast::LockType::Share => RowLock::Share,
            };
            let wait = match nonblock {
                None => Wait::Block,
                Some(ast::NonBlock::Nowait) => Wait::NoWait,
                Some(ast::NonBlock::SkipLocked) => Wait::SkipLocked,
            };
            let of = of.as_ref().map(|name| self.name_parts(name)).transpose()?;
            let mut found = false;
            for relation in &scope.relations {
                if of.as_ref().is_some_and(|of| of.last() != Some(&relation.alias)) {
                    continue;
                }
                found = true;
                let Some(table) = &relation.table else {
                    return Err(SqlError::unsupported("FOR UPDATE of a query in FROM"));
                };
                locks.push(Lock { table: Arc::clone(table), first: relation.first, mode, wait });
            }
            if !found && let Some(of) = of {
                let message = format!("relation \"{}\" in FOR UPDATE clause not found in FROM clause", of.join("."));
                return Err(SqlError::new(SqlState::UNDEFINED_TABLE, message));
            }
        }
        Ok(locks)
    }
}

/// A key of the result's columns as one of the rows below.
fn at_source(key: Expr, values: &[Expr]) -> Expr {
    match key {
        Expr::Column(at) => values[at].clone(),
        other => other,
    }
}

fn limited(plan: Plan, limit: Option<Expr>, offset: Option<Expr>) -> Plan {
    if limit.is_none() && offset.is_none() {
        return plan;
    }
    Plan::Limit { input: Box::new(plan), limit, offset }
}

/// The name of a column without an alias (`FigureColname`).
fn name_of(expr: &ast::Expr) -> String {
    match expr {
        ast::Expr::Identifier(ident) => folded(ident),
        ast::Expr::CompoundIdentifier(parts) => parts.last().map_or_else(String::new, folded),
        ast::Expr::Function(function) => match function.name.0.last() {
            Some(ast::ObjectNamePart::Identifier(ident)) => folded(ident),
            _ => "?column?".to_owned(),
        },
        ast::Expr::Nested(inner) => name_of(inner),
        ast::Expr::Cast { expr, data_type, .. } => match name_of(expr) {
            name if name != "?column?" => name,
            _ => super::types::short_name(data_type),
        },
        ast::Expr::Case { else_result: Some(otherwise), .. } => match name_of(otherwise) {
            name if name != "?column?" => name,
            _ => "case".to_owned(),
        },
        ast::Expr::Case { .. } => "case".to_owned(),
        ast::Expr::Exists { .. } => "exists".to_owned(),
        ast::Expr::Value(value) if matches!(value.value, ast::Value::Boolean(_)) => "bool".to_owned(),
        ast::Expr::TypedString(ast::TypedString { data_type, .. }) => super::types::short_name(data_type),
        ast::Expr::Interval(_) => "interval".to_owned(),
        ast::Expr::Extract { .. } => "extract".to_owned(),
        ast::Expr::Substring { .. } => "substring".to_owned(),
        ast::Expr::Trim { trim_where, .. } => match trim_where {
            Some(ast::TrimWhereField::Leading) => "ltrim".to_owned(),
            Some(ast::TrimWhereField::Trailing) => "rtrim".to_owned(),
            _ => "btrim".to_owned(),
        },
        ast::Expr::Position { .. } => "position".to_owned(),
        ast::Expr::Ceil { .. } => "ceil".to_owned(),
        ast::Expr::Floor { .. } => "floor".to_owned(),
        ast::Expr::Subquery(query) => match &*query.body {
            SetExpr::Select(select) => match select.projection.first() {
                Some(ast::SelectItem::UnnamedExpr(expr)) => name_of(expr),
                Some(ast::SelectItem::ExprWithAlias { alias, .. }) => folded(alias),
                _ => "?column?".to_owned(),
            },
            _ => "?column?".to_owned(),
        },
        _ => "?column?".to_owned(),
    }
}
