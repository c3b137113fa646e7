//! Data-modifying statements: `INSERT`, `UPDATE`, `DELETE`, `RETURNING`, also in `WITH`.

use super::needs::numbers_of;
use super::place::start;
use super::subquery::first_of;
use super::{Binder, BoundQuery, Clause, FromRelation, NameScope, columns_of};
use crate::change::{Assignments, Change, ChangeTarget, Modify, NewValue};
use crate::plan::{ColumnInfo, Expr, Hold, Plan, Typed, all_of, split};
use crate::rewrite::{from_clause, pull_up};
use catalog::TableInfo;
use catalog::acl::Privileges;
use statement::error::{SqlError, SqlResult, SqlState};
use std::sync::Arc;
use syntax::ast::{self, CommonStatement, ExprKind, FromItem, Indirection, InsertColumn, InsertSource, Overriding};
use syntax::lex::Span;
use types::Kind;
use types::datum::Datum;
use types::ops::CastContext;

/// Bound data-modifying statement with the columns that it returns.
pub struct BoundChange {
    /// Change of rows.
    pub modify: Modify,
    /// Columns of RETURNING; `None` without it.
    pub columns: Option<Vec<ColumnInfo>>,
}

/// Bound `RETURNING` clause: columns and values.
type Returning = Option<(Vec<ColumnInfo>, Vec<Expr>)>;

impl Binder<'_> {
    /// Binds an INSERT.
    pub fn insert(&self, insert: &ast::Insert) -> SqlResult<BoundChange> {
        let ast::Insert { with, table, columns, overriding, source, on_conflict, returning, span: _ } = insert;
        // The grammar allows neither ONLY nor TABLESAMPLE here.
        let ast::TableItem { name, is_only: _, alias, is_sampled: _, span: _ } = table;
        self.behind_with(with.as_ref(), || {
            let table = self.table_in_query(name).map_err(|error| self.at_name(error, name))?;
            let named = alias.as_ref().and_then(|alias| alias.name.as_deref()).unwrap_or(&table.name).to_owned();
            let places = self.places(&table, columns)?;
            let need = self.need(table.oid, Privileges::INSERT);
            let (input, width) = match source {
                InsertSource::Default => {
                    let all = (0..table.columns.len()).map(|at| self.default(&table, at)).collect::<SqlResult<_>>()?;
                    (Plan::Values(vec![all]), 0)
                }
                InsertSource::Query(source) => {
                    self.inserted(&table, (&places, columns), *overriding, source).map_err(|error| {
                        // The source cannot refer to the target table, and the hint of the error says so.
                        let mut scope = NameScope::default();
                        let _ = scope.add(table_relation(&table, named.clone(), 0), table.columns.len());
                        self.aside(error, &scope)
                    })?
                }
            };
            let own = alias.is_none().then_some(table.oid);
            // Columns without a value in the statement get their defaults, for which no right is needed.
            let inserts = numbers_of(&table, places.get(..width).unwrap_or(&places));
            self.extend_need(need, |need| need.inserts = inserts);
            let relation = FromRelation { own, need: Some(need), ..table_relation(&table, named, 0) };
            let conflict = on_conflict.as_ref().map(|on| self.on_conflict(on, &table, &relation));
            let conflict = conflict.transpose()?.map(Box::new);
            let mut scope = NameScope::default();
            scope.add(relation, table.columns.len())?;
            let returning = self.returning(returning, &scope)?;
            let rules = self.rules(&table, conflict.as_ref().is_some_and(|conflict| conflict.update.is_some()))?;
            self.will_hold(&table, Hold::Write);
            Ok(written(Change::Insert { table, input, conflict, rules }, returning))
        })
    }

    /// Returns the positions of the target columns of an INSERT, in the statement's order.
    pub(super) fn places(&self, table: &TableInfo, columns: &[InsertColumn]) -> SqlResult<Vec<usize>> {
        if columns.is_empty() {
            return Ok((0..table.columns.len()).collect());
        }
        let mut places: Vec<usize> = Vec::new();
        for column in columns {
            let at = self.column_of(table, column, "to insert into an element of an array")?;
            if places.contains(&at) {
                let message = format!("column \"{}\" specified more than once", table.columns[at].name);
                return Err(self.at(SqlError::new(SqlState::DUPLICATE_COLUMN, message), &column.name));
            }
            places.push(at);
        }
        Ok(places)
    }

    /// Returns the position of a target column; `of_element` names the unsupported feature if the target is an element
    /// of it.
    fn column_of(&self, table: &TableInfo, target: &InsertColumn, of_element: &str) -> SqlResult<usize> {
        let InsertColumn { name, steps } = target;
        let at = table.column(name).ok_or_else(|| {
            let message = format!("column \"{name}\" of relation \"{}\" does not exist", table.name);
            self.at(SqlError::new(SqlState::UNDEFINED_COLUMN, message), name)
        })?;
        match steps.first() {
            None => Ok(at),
            Some(Indirection::Field(field)) => {
                let kind = table.columns[at].kind.kind.name();
                let message = format!(
                    "cannot assign to field \"{field}\" of column \"{name}\" because its type {kind} is not a composite type"
                );
                Err(self.at(SqlError::new(SqlState::DATATYPE_MISMATCH, message), name))
            }
            Some(Indirection::All(star)) => {
                let message = "row expansion via \"*\" is not supported here";
                Err(self.at_place(SqlError::new(SqlState::FEATURE_NOT_SUPPORTED, message), *star))
            }
            Some(Indirection::Element(_) | Indirection::Slice(..)) => Err(SqlError::unsupported(of_element)),
        }
    }

    /// Binds the rows to insert, with all columns in the table's order. Returns them with the number of their values in
    /// the statement.
    fn inserted(
        &self,
        table: &TableInfo,
        (places, named): (&[usize], &[InsertColumn]),
        overriding: Option<Overriding>,
        source: &ast::Query,
    ) -> SqlResult<(Plan, usize)> {
        let ast::Query { with, body, order_by, limit, locking, span: _ } = source;
        let ast::Limit { count: limit, offset, with_ties } = limit;
        let is_plain = with.is_none()
            && order_by.is_empty()
            && limit.is_none()
            && offset.is_none()
            && !with_ties
            && locking.is_empty();
        let count = |width: usize, place: &dyn Fn(usize) -> Span| {
            if places.len() < width {
                let error = SqlError::new(SqlState::SYNTAX_ERROR, "INSERT has more expressions than target columns");
                return Err(self.at_place(error, place(places.len())));
            }
            if let Some(column) = named.get(width) {
                let error = SqlError::new(SqlState::SYNTAX_ERROR, "INSERT has more target columns than expressions");
                return Err(self.at(error, &column.name));
            }
            Ok(())
        };
        if let ast::QueryBody::Values(rows) = body
            && is_plain
        {
            // Each value is bound on its own: DEFAULT is allowed, and a literal gets the column's type rather than a
            // common one.
            let scope = NameScope::default();
            scope.clause.set(Clause::Values);
            self.check_widths(rows)?;
            let mut bound = Vec::with_capacity(rows.len());
            // A default is bound once for all rows, and not at all where each row has a value.
            let mut defaults: Vec<Option<Expr>> = vec![None; table.columns.len()];
            for row in rows {
                count(row.len(), &|at| start(&row[at]))?;
                let mut values: Vec<Option<Expr>> = vec![None; table.columns.len()];
                for (value, at) in row.iter().zip(places) {
                    if !is_default(value) && self.takes_value(table, *at, overriding)? {
                        values[*at] = Some(self.assigned(table, *at, self.expr(value, &scope)?)?);
                    }
                }
                let or_default = |(at, value): (usize, Option<Expr>)| match (value, &mut defaults[at]) {
                    (Some(value), _) => Ok(value),
                    (None, Some(default)) => Ok(default.clone()),
                    (None, default @ None) => Ok(default.insert(self.default(table, at)?).clone()),
                };
                bound.push(values.into_iter().enumerate().map(or_default).collect::<SqlResult<_>>()?);
            }
            return Ok((Plan::Values(bound), rows.first().map_or(0, Vec::len)));
        }
        self.is_top.set(false);
        let mut query = self.query(source, None)?;
        count(query.columns.len(), &|at| self.column_start(source, at))?;
        let mut values: Vec<Option<Expr>> = vec![None; table.columns.len()];
        for ((from, column), at) in query.columns.iter().enumerate().zip(places) {
            let typed = Typed::new(Expr::Column(from), column.kind).at(self.column_start(source, from));
            if !self.takes_value(table, *at, overriding)? {
                continue;
            }
            // A literal or parameter of unknown type gets the type of its column, so the cast goes into the select
            // list.
            if column.kind.kind == Kind::Unknown
                && let Some(listed) = listed(&mut query.plan).and_then(|list| list.get_mut(from))
            {
                let typed = Typed { expr: listed.clone(), ..typed };
                *listed = self.assigned(table, *at, typed)?;
                values[*at] = Some(Expr::Column(from));
            } else {
                values[*at] = Some(self.assigned(table, *at, typed)?);
            }
        }
        let or_default = |(at, value): (usize, Option<Expr>)| value.map_or_else(|| self.default(table, at), Ok);
        let columns = values.into_iter().enumerate().map(or_default).collect::<SqlResult<_>>()?;
        let width = query.columns.len();
        Ok((Plan::Project { input: Box::new(query.plan), columns }, width))
    }

    /// True if an INSERT stores the given value. An identity column may refuse it, or ignore it in favour of its
    /// sequence.
    fn takes_value(&self, table: &TableInfo, at: usize, overriding: Option<Overriding>) -> SqlResult<bool> {
        let column = &table.columns[at];
        match (column.identity, overriding) {
            (None, _) | (Some(_), Some(Overriding::System)) => Ok(true),
            (Some(_), Some(Overriding::User)) => Ok(false),
            (Some(identity), None) if !identity.always => Ok(true),
            (Some(_), None) => {
                let name = &column.name;
                let message = format!("cannot insert a non-DEFAULT value into column \"{name}\"");
                Err(SqlError::new(SqlState::GENERATED_ALWAYS, message)
                    .detail(format!("Column \"{name}\" is an identity column defined as GENERATED ALWAYS."))
                    .hint("Use OVERRIDING SYSTEM VALUE to override."))
            }
        }
    }

    /// Converts a value to the type of its column.
    fn assigned(&self, table: &TableInfo, at: usize, value: Typed) -> SqlResult<Expr> {
        let column = &table.columns[at];
        let (kind, place) = (value.kind, value.place);
        match self.coerce(value, column.kind, CastContext::Assignment) {
            Ok(typed) => Ok(typed.expr),
            Err(error) if error.state() == SqlState::CANNOT_COERCE => {
                let message = format!(
                    "column \"{}\" is of type {} but expression is of type {}",
                    column.name,
                    SqlTypeName(column.kind.kind),
                    kind.name()
                );
                let error = SqlError::new(SqlState::DATATYPE_MISMATCH, message);
                Err(self.at_place(error.hint("You will need to rewrite or cast the expression."), place))
            }
            Err(error) => Err(error),
        }
    }

    pub(super) fn default(&self, table: &TableInfo, at: usize) -> SqlResult<Expr> {
        if let Some(identity) = table.columns[at].identity {
            let next = Typed::new(self.next_number(identity.sequence), Kind::Int8);
            return self.assigned(table, at, next);
        }
        match &table.columns[at].default {
            None => Ok(Expr::Constant(Datum::Null)),
            // Positions in its errors would point into the default's text instead of the statement's, so they are
            // dropped.
            Some(default) => syntax::grammar::expression(&default.text)
                .and_then(|tree| self.expr(&tree, &NameScope::default()))
                .and_then(|value| self.coerce_default(value, table.columns[at].kind))
                .map(|value| value.expr)
                .map_err(SqlError::nowhere),
        }
    }

    /// Binds a data-modifying statement with the queries of its `WITH` in scope.
    fn behind_with(
        &self,
        with: Option<&ast::With>,
        bind: impl FnOnce() -> SqlResult<BoundChange>,
    ) -> SqlResult<BoundChange> {
        let is_top = self.is_top.replace(false);
        let with_before = self.with.borrow().len();
        if let Some(with) = with {
            self.bind_with(with, None, is_top, None)?;
        }
        let written = bind();
        self.with.borrow_mut().truncate(with_before);
        written
    }

    /// Binds a query of `WITH`, which may modify data if the `WITH` belongs to the whole statement.
    pub fn with_query(
        &self,
        statement: &CommonStatement,
        parent: Option<&NameScope<'_>>,
        is_top: bool,
    ) -> SqlResult<BoundQuery> {
        let changing = || {
            if is_top {
                return Ok(());
            }
            let message = "WITH clause containing a data-modifying statement must be at the top level";
            Err(SqlError::new(SqlState::FEATURE_NOT_SUPPORTED, message))
        };
        let BoundChange { modify, columns } = match statement {
            CommonStatement::Query(query) => return self.query(query, parent),
            CommonStatement::Insert(insert) => changing().and_then(|()| self.insert(insert))?,
            CommonStatement::Update(update) => changing().and_then(|()| self.update(update))?,
            CommonStatement::Delete(delete) => changing().and_then(|()| self.delete(delete))?,
            CommonStatement::Unsupported(feature) => return Err(SqlError::unsupported(feature)),
        };
        let modify = Arc::new(modify);
        self.modifies.borrow_mut().push(Arc::clone(&modify));
        Ok(BoundQuery::new(Plan::Modified(modify), columns.unwrap_or_default()))
    }

    /// Binds an UPDATE.
    pub fn update(&self, update: &ast::Update) -> SqlResult<BoundChange> {
        let ast::Update { with, table, assignments, from, condition, returning, span: _ } = update;
        self.behind_with(with.as_ref(), || {
            let (mut target, scope) = self.target(table, from, condition.as_ref())?;
            scope.clause.set(Clause::Update);
            let assignments = self.assignments(assignments, &target.table, &scope)?;
            self.need_update(&scope, &target.table, &assignments);
            let returning = self.returning(returning, &scope)?;
            let rules = self.rules(&target.table, true)?;
            if rules.is_none() && returning.is_none() {
                target.needed = needed(&target, &assignments.values);
            }
            self.will_hold(&target.table, Hold::Write);
            Ok(written(Change::Update { target, assignments, rules }, returning))
        })
    }

    /// Binds a DELETE.
    pub fn delete(&self, delete: &ast::Delete) -> SqlResult<BoundChange> {
        let ast::Delete { with, table, using, condition, returning, span: _ } = delete;
        self.behind_with(with.as_ref(), || {
            let (mut target, scope) = self.target(table, using, condition.as_ref())?;
            if let Some(need) = target_need(&scope) {
                self.extend_need(need, |need| need.privileges |= Privileges::DELETE);
            }
            let returning = self.returning(returning, &scope)?;
            let rules = self.rules(&target.table, true)?;
            if rules.is_none() && returning.is_none() {
                target.needed = needed(&target, &[]);
            }
            self.will_hold(&target.table, Hold::Write);
            Ok(written(Change::Delete { target, rules }, returning))
        })
    }

    /// Notes that the statement updates these columns of its target, the first relation of the scope.
    pub(super) fn need_update(&self, scope: &NameScope<'_>, table: &TableInfo, assignments: &Assignments) {
        let Some(need) = target_need(scope) else { return };
        self.extend_need(need, |need| {
            need.privileges |= Privileges::UPDATE;
            need.updates.extend(numbers_of(table, &assignments.columns));
        });
    }

    /// Binds the rows of one table that a condition selects, and returns the scope for expressions over them. The
    /// target table comes first in the scope, so that `*` starts with its columns.
    fn target(
        &self,
        table: &ast::TableItem,
        others: &[FromItem],
        condition: Option<&ast::Expr>,
    ) -> SqlResult<(ChangeTarget, NameScope<'static>)> {
        let own = FromItem::Table(table.clone());
        let name = Binder::span_of(&table.name);
        if others.is_empty() {
            return self.target_among(&[&own], (0, name), condition);
        }
        // The other items of FROM must not refer to the target table, so it is bound last.
        let all: Vec<&FromItem> = others.iter().chain([&own]).collect();
        self.target_among(&all, (others.len(), name), condition)
    }

    /// Binds the items of FROM. The target table is the item at `at`, and `name` is the position of its name.
    fn target_among(
        &self,
        from: &[&FromItem],
        (at, name): (usize, Span),
        selection: Option<&ast::Expr>,
    ) -> SqlResult<(ChangeTarget, NameScope<'static>)> {
        let mut scope = NameScope::default();
        self.target.set(name.is_known().then_some(name.start));
        let tree = self.bind_from_items(from.iter().copied(), &mut scope);
        self.target.set(None);
        let mut tree = tree?;
        let position = if at == 0 { 0 } else { scope.relations.len().saturating_sub(1) };
        let Some(relation) = scope.relations.get(position).cloned() else {
            return Err(SqlError::unsupported("a change of nothing"));
        };
        let Some(table) = relation.table else {
            return Err(SqlError::unsupported(format_args!(
                "to change the view or relation of the system \"{}\"",
                relation.alias
            )));
        };
        // The target table moves to the front, so that `*` starts with it; ambiguous names are still found.
        scope.relations[..=position].rotate_right(1);
        scope.clause.set(Clause::Where);
        let mut conditions = match selection {
            Some(selection) => {
                let condition = self.expr(selection, &scope)?;
                split(self.condition(condition, "WHERE")?)
            }
            None => Vec::new(),
        };
        // Pull-up of subqueries changes the layout of the row, so the scope must map names to the new slots before more
        // is bound.
        let pulled = pull_up(&mut tree, &mut conditions.iter_mut().collect::<Vec<_>>(), true)?;
        for relation in &mut scope.relations {
            relation.values.iter_mut().try_for_each(|value| pulled.apply(value))?;
            relation.first = pulled.first(relation.first);
        }
        scope.width = pulled.width(scope.width);
        let condition = all_of(conditions.clone());
        let input = from_clause(tree, conditions, None);
        let is_joined = 1 < from.len();
        Ok((
            ChangeTarget { table, input, first: pulled.first(relation.first), condition, is_joined, needed: None },
            scope,
        ))
    }

    /// Binds the assignments of `SET`.
    pub(super) fn assignments(
        &self,
        assignments: &[ast::Assignment],
        table: &TableInfo,
        scope: &NameScope<'_>,
    ) -> SqlResult<Assignments> {
        let mut columns: Vec<usize> = Vec::new();
        let mut values = Vec::new();
        for ast::Assignment { columns: targets, is_row, value } in assignments {
            let first = columns.len();
            for target in targets {
                let at = self.column_of(table, target, "to update an element of an array").or_else(|error| {
                    // Errors in the values take precedence over errors in the targets, as in PostgreSQL.
                    for ast::Assignment { columns: _, is_row, value } in assignments {
                        if !is_row && !is_default(value) {
                            self.expr(value, scope)?;
                        }
                    }
                    Err(error)
                })?;
                if columns.contains(&at) {
                    let message = format!("multiple assignments to same column \"{}\"", table.columns[at].name);
                    return Err(SqlError::new(SqlState::SYNTAX_ERROR, message).nowhere());
                }
                columns.push(at);
            }
            match (is_row, &columns[first..]) {
                (false, [at]) => values.push(NewValue::One(self.new_value(table, *at, value, scope)?)),
                (_, of) => values.extend(self.new_values(table, of, value, scope)?),
            }
        }
        Ok(Assignments { columns, values })
    }

    /// Binds the values for the columns of `(a, b) = …`.
    fn new_values(
        &self,
        table: &TableInfo,
        of: &[usize],
        value: &ast::Expr,
        scope: &NameScope<'_>,
    ) -> SqlResult<Vec<NewValue>> {
        let differ = || {
            let message = "number of columns does not match number of values";
            self.at_expr(SqlError::new(SqlState::SYNTAX_ERROR, message), value)
        };
        match &value.kind {
            ExprKind::Row { fields, is_explicit: _ } => {
                if fields.len() != of.len() {
                    return Err(differ());
                }
                let one = |(field, at): (&ast::Expr, &usize)| self.new_value(table, *at, field, scope);
                fields.iter().zip(of).map(one).map(|value| value.map(NewValue::One)).collect()
            }
            ExprKind::Subquery(query) => {
                let bound = self.subquery(query, scope)?;
                if bound.columns.len() != of.len() {
                    return Err(differ());
                }
                let made = bound.columns.iter().enumerate().zip(of).map(|((from, column), at)| {
                    let place = self.column_start(query, from);
                    self.assigned(table, *at, Typed::new(Expr::Column(from), column.kind).at(place))
                });
                let made = made.collect::<SqlResult<_>>()?;
                // A second row is fetched because it is an error.
                let plan = Plan::Project { input: Box::new(first_of(bound.plan, 2)), columns: made };
                let plan = Box::new(self.shared(plan, bound.names));
                Ok(vec![NewValue::Row { plan, width: of.len() }])
            }
            _ => {
                let message = "source for a multiple-column UPDATE item must be a sub-SELECT or ROW() expression";
                Err(self.at_expr(SqlError::new(SqlState::FEATURE_NOT_SUPPORTED, message), value))
            }
        }
    }

    fn new_value(&self, table: &TableInfo, at: usize, value: &ast::Expr, scope: &NameScope<'_>) -> SqlResult<Expr> {
        if is_default(value) {
            return self.default(table, at);
        }
        if table.columns[at].identity.is_some_and(|identity| identity.always) {
            let name = &table.columns[at].name;
            let message = format!("column \"{name}\" can only be updated to DEFAULT");
            return Err(SqlError::new(SqlState::GENERATED_ALWAYS, message)
                .detail(format!("Column \"{name}\" is an identity column defined as GENERATED ALWAYS.")));
        }
        self.assigned(table, at, self.expr(value, scope)?)
    }

    fn returning(&self, returning: &[ast::SelectItem], scope: &NameScope<'_>) -> SqlResult<Returning> {
        if returning.is_empty() {
            return Ok(None);
        }
        scope.clause.set(Clause::Returning);
        let (mut columns, values): (Vec<_>, Vec<_>) = self.projection(returning, scope)?.into_iter().unzip();
        columns.iter_mut().for_each(|column: &mut ColumnInfo| column.kind = super::settled(column.kind));
        Ok(Some((columns, values)))
    }
}

/// Returns the place of the rights that a change needs on its target, the first relation of the scope.
fn target_need(scope: &NameScope<'_>) -> Option<usize> {
    scope.relations.first().and_then(|relation| relation.need)
}

fn written(change: Change, returning: Returning) -> BoundChange {
    let (columns, returning) = returning.unzip();
    BoundChange { modify: Modify { change, returning, with: Vec::new() }, columns }
}

/// Table as a relation of FROM.
pub(super) fn table_relation(table: &Arc<TableInfo>, alias: String, first: usize) -> FromRelation {
    FromRelation::new(alias, columns_of(table), first, Some(table))
}

/// Returns the columns that the condition and the new values read; `None` if subqueries in them may read any.
fn needed(target: &ChangeTarget, values: &[NewValue]) -> Option<Vec<usize>> {
    fn add(expr: &Expr, columns: &mut Vec<usize>) {
        match expr {
            Expr::Column(at) if !columns.contains(at) => columns.push(*at),
            other => other.parts().into_iter().for_each(|part| add(part, columns)),
        }
    }
    let mut all: Vec<&Expr> = target.condition.iter().collect();
    for value in values {
        match value {
            NewValue::One(value) => all.push(value),
            NewValue::Row { .. } => return None,
        }
    }
    if target.is_joined || all.iter().any(|expr| expr.has_query()) {
        return None;
    }
    let mut columns = Vec::new();
    all.into_iter().for_each(|expr| add(expr, &mut columns));
    // The slot behind the table's columns is the row id.
    columns.retain(|at| *at < target.table.columns.len());
    Some(columns)
}

/// Returns the select list that computes a plan's rows.
fn listed(plan: &mut Plan) -> Option<&mut Vec<Expr>> {
    match plan {
        Plan::Project { columns, .. } => Some(columns),
        Plan::Limit { input, .. } | Plan::Sort { input, .. } => listed(input),
        _ => None,
    }
}

fn is_default(value: &ast::Expr) -> bool {
    matches!(value.kind, ExprKind::Default)
}

/// Type without modifier, for messages.
struct SqlTypeName(Kind);

impl std::fmt::Display for SqlTypeName {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&types::SqlType::from(self.0).name())
    }
}
