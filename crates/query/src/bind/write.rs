//! `INSERT`, `UPDATE`, `DELETE`, `RETURNING`, and those of them that stand in `WITH`.

use super::from::{all_of, split};
use super::pull::pull_up;
use super::subquery::first_of;
use super::{Binder, Bound, Clause, Relation, Scope, columns_of};
use crate::change::{Assignments, Change, Modify, NewValue, Target};
use crate::plan::ColumnInfo;
use crate::plan::{Access, Expr, Hold, Place, Plan, Source, Step, Typed};
use catalog::TableInfo;
use sqlparser::ast::{self, SetExpr};
use statement::error::{SqlError, SqlResult, SqlState};
use statement::refuse;
use std::sync::Arc;
use syntax::overriding::Overriding;
use syntax::parse::folded;
use types::Kind;
use types::datum::Datum;
use types::ops::Context;

/// A change, and the columns that it returns, if it does.
pub struct Written {
    /// Change of rows.
    pub modify: Modify,
    /// Columns of RETURNING; `None` without it.
    pub columns: Option<Vec<ColumnInfo>>,
}

/// What `RETURNING` says.
type Returning = Option<(Vec<ColumnInfo>, Vec<Expr>)>;

/// Whether a query is a statement that changes rows, behind its `WITH`.
pub fn is_change(query: &ast::Query) -> bool {
    matches!(*query.body, SetExpr::Insert(_) | SetExpr::Update(_) | SetExpr::Delete(_) | SetExpr::Merge(_))
}

impl Binder<'_> {
    /// Binds an INSERT.
    pub fn insert(&self, insert: &ast::Insert) -> SqlResult<Written> {
        let ast::Insert {
            insert_token: _,
            optimizer_hints,
            or,
            ignore,
            into: _,
            table,
            table_alias,
            columns,
            overwrite,
            source,
            assignments,
            partitioned,
            after_columns,
            has_table_keyword,
            on,
            returning,
            output,
            replace_into,
            priority,
            insert_alias,
            settings,
            format_clause,
            multi_table_insert_type,
            multi_table_into_clauses,
            multi_table_when_clauses,
            multi_table_else_clause,
        } = insert;
        refuse!(
            !optimizer_hints.is_empty() => "an optimizer hint", or.is_some() => "INSERT OR", *ignore => "INSERT IGNORE",
            *overwrite => "INSERT OVERWRITE", !assignments.is_empty() => "INSERT SET",
            partitioned.is_some() => "PARTITION",
            *has_table_keyword => "INSERT TABLE", output.is_some() => "OUTPUT", *replace_into => "REPLACE",
            priority.is_some() => "a priority of INSERT", insert_alias.is_some() => "an alias of the new row",
            settings.is_some() => "SETTINGS", format_clause.is_some() => "FORMAT",
            multi_table_insert_type.is_some() || !multi_table_into_clauses.is_empty()
                || !multi_table_when_clauses.is_empty() || multi_table_else_clause.is_some() => "INSERT ALL",
        );
        let ast::TableObject::TableName(name) = table else {
            return Err(SqlError::unsupported("INSERT into a function or query"));
        };
        self.is_top.set(false);
        let table = self.table_in_query(name).map_err(|error| self.at_name(error, name))?;
        let alias = match table_alias {
            Some(ast::TableAliasWithoutColumns { explicit: _, alias }) => folded(alias),
            None => table.name.clone(),
        };
        let places = self.places(&table, columns)?;
        let overriding = syntax::overriding::of(after_columns)?;
        let input = match source {
            None => {
                let all = (0..table.columns.len()).map(|at| self.default(&table, at)).collect::<SqlResult<_>>()?;
                Plan::Values(vec![all])
            }
            Some(source) => self.inserted(&table, (&places, columns), overriding, source).map_err(|error| {
                // The table itself is not seen from its new rows.
                let mut scope = Scope::default();
                let _ = scope.add(table_relation(&table, alias.clone(), 0), table.columns.len());
                self.aside(error, &scope)
            })?,
        };
        let own = table_alias.is_none().then_some(table.oid);
        let relation = Relation { own, ..table_relation(&table, alias, 0) };
        let conflict = on.as_ref().map(|on| self.on_conflict(on, &table, &relation)).transpose()?.map(Box::new);
        let mut scope = Scope::default();
        scope.add(relation, table.columns.len())?;
        let returning = self.returning(returning.as_deref(), &scope)?;
        let rules = self.rules(&table, conflict.as_ref().is_some_and(|conflict| conflict.update.is_some()))?;
        self.will_hold(&table, Hold::Write);
        Ok(written(Change::Insert { table, input, conflict, rules }, returning))
    }

    /// Which columns the statement gives, in its order.
    pub(super) fn places(&self, table: &TableInfo, columns: &[ast::ObjectName]) -> SqlResult<Vec<usize>> {
        if columns.is_empty() {
            return Ok((0..table.columns.len()).collect());
        }
        let mut places: Vec<usize> = Vec::new();
        for column in columns {
            let at = self.column_of(table, column)?;
            if places.contains(&at) {
                let message = format!("column \"{}\" specified more than once", table.columns[at].name);
                return Err(self.at_name(SqlError::new(SqlState::DUPLICATE_COLUMN, message), column));
            }
            places.push(at);
        }
        Ok(places)
    }

    fn column_of(&self, table: &TableInfo, name: &ast::ObjectName) -> SqlResult<usize> {
        let parts = self.name_parts(name)?;
        let Some(column) = parts.first() else { return Err(SqlError::unsupported("a column without a name")) };
        // What stands behind a point would be a field of the column.
        if let ([_, field, ..], Some(at)) = (&parts[..], table.column(column)) {
            let kind = table.columns[at].kind.kind.name();
            let message = format!(
                "cannot assign to field \"{field}\" of column \"{column}\" because its type {kind} is not a composite type"
            );
            return Err(self.at_name(SqlError::new(SqlState::DATATYPE_MISMATCH, message), name));
        }
        table.column(column).ok_or_else(|| {
            let message = format!("column \"{column}\" of relation \"{}\" does not exist", table.name);
            self.at_name(SqlError::new(SqlState::UNDEFINED_COLUMN, message), name)
        })
    }

    /// The rows to be inserted, all columns in the table's order.
    fn inserted(
        &self,
        table: &TableInfo,
        (places, named): (&[usize], &[ast::ObjectName]),
        overriding: Option<Overriding>,
        source: &ast::Query,
    ) -> SqlResult<Plan> {
        let ast::Query {
            with,
            body: _,
            order_by,
            limit_clause,
            fetch,
            locks,
            for_clause,
            settings,
            format_clause,
            pipe_operators,
        } = source;
        let is_plain = with.is_none()
            && order_by.is_none()
            && limit_clause.is_none()
            && fetch.is_none()
            && locks.is_empty()
            && for_clause.is_none()
            && settings.is_none()
            && format_clause.is_none()
            && pipe_operators.is_empty();
        let count = |width: usize, start: &dyn Fn(usize) -> Place| {
            if places.len() < width {
                let error = SqlError::new(SqlState::SYNTAX_ERROR, "INSERT has more expressions than target columns");
                return Err(self.at_place(error, start(places.len())));
            }
            if let Some(name) = named.get(width) {
                let error = SqlError::new(SqlState::SYNTAX_ERROR, "INSERT has more target columns than expressions");
                return Err(self.at_name(error, name));
            }
            Ok(())
        };
        if let SetExpr::Values(ast::Values { explicit_row: false, value_keyword: false, rows }) = &*source.body
            && is_plain
        {
            // Each value by itself: DEFAULT is allowed, and a literal becomes the column's type, not a common one.
            let scope = Scope::default();
            scope.clause.set(Clause::Values);
            self.check_widths(rows)?;
            let mut bound = Vec::with_capacity(rows.len());
            for row in rows {
                count(row.content.len(), &|at| self.start(&row.content[at]))?;
                let mut values =
                    (0..table.columns.len()).map(|at| self.default(table, at)).collect::<SqlResult<Vec<_>>>()?;
                for (value, at) in row.content.iter().zip(places) {
                    if !is_default(value) && self.takes_value(table, *at, overriding)? {
                        values[*at] = self.assigned(table, *at, self.expr(value, &scope)?)?;
                    }
                }
                bound.push(values);
            }
            return Ok(Plan::Values(bound));
        }
        self.is_top.set(false);
        let mut query = self.query(source, None)?;
        count(query.columns.len(), &|at| self.column_start(&source.body, at))?;
        let mut values = (0..table.columns.len()).map(|at| self.default(table, at)).collect::<SqlResult<Vec<_>>>()?;
        for ((from, column), at) in query.columns.iter().enumerate().zip(places) {
            let typed = Typed::new(Expr::Column(from), column.kind).at(self.column_start(&source.body, from));
            if !self.takes_value(table, *at, overriding)? {
                continue;
            }
            // A literal or a parameter is one of the column's type.
            if column.kind.kind == Kind::Unknown
                && let Some(listed) = listed(&mut query.plan).and_then(|list| list.get_mut(from))
            {
                let typed = Typed { expr: listed.clone(), ..typed };
                *listed = self.assigned(table, *at, typed)?;
                values[*at] = Expr::Column(from);
            } else {
                values[*at] = self.assigned(table, *at, typed)?;
            }
        }
        Ok(Plan::Project { input: Box::new(query.plan), columns: values })
    }

    /// Whether a value that an INSERT gives is taken: a column that numbers its rows may refuse it, or have its own.
    fn takes_value(&self, table: &TableInfo, at: usize, overriding: Option<Overriding>) -> SqlResult<bool> {
        let column = &table.columns[at];
        match (column.identity, overriding) {
            (None, _) | (Some(_), Some(Overriding::System)) => Ok(true),
            (Some(_), Some(Overriding::User)) => Ok(false),
            (Some(identity), None) if !identity.always => Ok(true),
            (Some(_), None) => {
                let name = &column.name;
                let message = format!("cannot insert a non-DEFAULT value into column \"{name}\"");
                Err(SqlError::new(SqlState("428C9"), message)
                    .detail(format!("Column \"{name}\" is an identity column defined as GENERATED ALWAYS."))
                    .hint("Use OVERRIDING SYSTEM VALUE to override."))
            }
        }
    }

    /// A value as one of the column.
    fn assigned(&self, table: &TableInfo, at: usize, value: Typed) -> SqlResult<Expr> {
        let column = &table.columns[at];
        let (kind, place) = (value.kind, value.place);
        match self.coerce(value, column.kind, Context::Assignment) {
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
            // Its places are in another text.
            Some(default) => (self.expr(&default.tree, &Scope::default()))
                .and_then(|value| self.coerce_default(value, table.columns[at].kind))
                .map(|value| value.expr)
                .map_err(SqlError::nowhere),
        }
    }

    /// A statement that changes rows, with its `WITH`.
    pub fn modifying(&self, query: &ast::Query) -> SqlResult<Written> {
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
            order_by.is_some() || limit_clause.is_some() || fetch.is_some() || !locks.is_empty() || for_clause.is_some()
                || settings.is_some() || format_clause.is_some() || !pipe_operators.is_empty()
                => "a clause of queries behind a statement that changes rows",
        );
        let is_top = self.is_top.replace(false);
        let with_before = self.with.borrow().len();
        if let Some(with) = with {
            self.bind_with(with, None, is_top, None)?;
        }
        let written = match &**body {
            SetExpr::Insert(ast::Statement::Insert(insert)) => self.insert(insert),
            SetExpr::Update(ast::Statement::Update(update)) => self.update(update),
            SetExpr::Delete(ast::Statement::Delete(delete)) => self.delete(delete),
            _ => Err(SqlError::unsupported("this statement behind WITH")),
        };
        self.with.borrow_mut().truncate(with_before);
        written
    }

    /// A query of `WITH`: of a whole statement's it may be one that changes rows.
    pub fn with_query(&self, query: &ast::Query, parent: Option<&Scope<'_>>, is_top: bool) -> SqlResult<Bound> {
        if !is_change(query) {
            return self.query(query, parent);
        }
        self.may_pull.set(false);
        if !is_top {
            let message = "WITH clause containing a data-modifying statement must be at the top level";
            return Err(SqlError::new(SqlState::FEATURE_NOT_SUPPORTED, message));
        }
        let Written { modify, columns } = self.modifying(query)?;
        let modify = Arc::new(modify);
        self.modifies.borrow_mut().push(Arc::clone(&modify));
        Ok(Bound::new(Plan::Modified(modify), columns.unwrap_or_default()))
    }

    /// Binds an UPDATE.
    pub fn update(&self, update: &ast::Update) -> SqlResult<Written> {
        let ast::Update {
            update_token: _,
            optimizer_hints,
            table,
            assignments,
            from,
            selection,
            returning,
            output,
            or,
            order_by,
            limit,
        } = update;
        refuse!(
            !optimizer_hints.is_empty() => "an optimizer hint", output.is_some() => "OUTPUT", or.is_some() => "UPDATE OR",
            !order_by.is_empty() => "ORDER BY in UPDATE", limit.is_some() => "LIMIT in UPDATE",
        );
        let others = match from {
            None => &[][..],
            Some(ast::UpdateTableFromKind::AfterSet(others)) => others,
            Some(ast::UpdateTableFromKind::BeforeSet(_)) => return Err(SqlError::unsupported("FROM before SET")),
        };
        self.is_top.set(false);
        let (mut target, scope) = self.target(table, others, selection.as_ref())?;
        scope.clause.set(Clause::Update);
        let assignments = self.assignments(assignments, &target.table, &scope)?;
        let returning = self.returning(returning.as_deref(), &scope)?;
        let rules = self.rules(&target.table, true)?;
        if rules.is_none() && returning.is_none() {
            target.needed = needed(&target, &assignments.values);
        }
        self.will_hold(&target.table, Hold::Write);
        Ok(written(Change::Update { target, assignments, rules }, returning))
    }

    /// Binds a DELETE.
    pub fn delete(&self, delete: &ast::Delete) -> SqlResult<Written> {
        let ast::Delete {
            delete_token: _,
            optimizer_hints,
            tables,
            from,
            using,
            selection,
            returning,
            output,
            order_by,
            limit,
        } = delete;
        refuse!(
            !optimizer_hints.is_empty() => "an optimizer hint", !tables.is_empty() => "DELETE of several tables",
            output.is_some() => "OUTPUT",
            !order_by.is_empty() => "ORDER BY in DELETE", limit.is_some() => "LIMIT in DELETE",
        );
        let ast::FromTable::WithFromKeyword(from) = from else {
            return Err(SqlError::new(SqlState::SYNTAX_ERROR, "syntax error: DELETE needs FROM"));
        };
        let [table] = &from[..] else { return Err(SqlError::unsupported("DELETE of several tables")) };
        self.is_top.set(false);
        let (mut target, scope) = self.target(table, using.as_deref().unwrap_or_default(), selection.as_ref())?;
        let returning = self.returning(returning.as_deref(), &scope)?;
        let rules = self.rules(&target.table, true)?;
        if rules.is_none() && returning.is_none() {
            target.needed = needed(&target, &[]);
        }
        self.will_hold(&target.table, Hold::Write);
        Ok(written(Change::Delete { target, rules }, returning))
    }

    /// The rows of one table that a condition chooses, and the scope for what is made of them: the table's columns come
    /// first for `*`.
    fn target(
        &self,
        table: &ast::TableWithJoins,
        others: &[ast::TableWithJoins],
        selection: Option<&ast::Expr>,
    ) -> SqlResult<(Target, Scope<'static>)> {
        refuse!(!table.joins.is_empty() => "a change of several tables");
        let alone = [table.clone()];
        if others.is_empty() {
            return self.target_among(&alone, 0, selection);
        }
        // The other tables must not see the changed one, which stands behind them here.
        let behind = self.target_among(&[others, &alone].concat(), others.len(), selection)?;
        let before = self.target_among(&[&alone, others].concat(), 0, selection)?;
        Ok(if scans(&before.0.input) < scans(&behind.0.input) { before } else { behind })
    }

    /// The same; the table that is changed is the one at `at`.
    fn target_among(
        &self,
        from: &[ast::TableWithJoins],
        at: usize,
        selection: Option<&ast::Expr>,
    ) -> SqlResult<(Target, Scope<'static>)> {
        let mut scope = Scope::default();
        let target = match from.get(at).map(|one| &one.relation) {
            Some(ast::TableFactor::Table { name, .. }) => Some(name),
            _ => None,
        };
        self.target.set(target.map(Binder::span_of));
        let tree = self.from(from, &mut scope);
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
        // So that what is ambiguous is found, and `*` begins with it.
        scope.relations[..=position].rotate_right(1);
        scope.clause.set(Clause::Where);
        let mut conditions = match selection {
            Some(selection) => {
                let condition = self.expr(selection, &scope)?;
                split(self.condition(condition, "WHERE")?)
            }
            None => Vec::new(),
        };
        // What is bound from here on says what it means over the row as it is then.
        let pulled = pull_up(&mut tree, &mut conditions.iter_mut().collect::<Vec<_>>(), true)?;
        for relation in &mut scope.relations {
            relation.values.iter_mut().try_for_each(|value| pulled.apply(value))?;
            relation.first = pulled.first(relation.first);
        }
        scope.width = pulled.width(scope.width);
        let condition = all_of(conditions.clone());
        let input = self.join(tree, conditions);
        let is_joined = 1 < from.len();
        Ok((Target { table, input, first: pulled.first(relation.first), condition, is_joined, needed: None }, scope))
    }

    /// `SET`
    pub(super) fn assignments(
        &self,
        assignments: &[ast::Assignment],
        table: &TableInfo,
        scope: &Scope<'_>,
    ) -> SqlResult<Assignments> {
        let mut columns: Vec<usize> = Vec::new();
        let mut values = Vec::new();
        for ast::Assignment { target, value } in assignments {
            let names = match target {
                ast::AssignmentTarget::ColumnName(name) => std::slice::from_ref(name),
                ast::AssignmentTarget::Tuple(names) => names,
            };
            let first = columns.len();
            for name in names {
                let at = self.column_of(table, name).or_else(|error| {
                    // What is wrong with any value comes first.
                    for ast::Assignment { target, value } in assignments {
                        if matches!(target, ast::AssignmentTarget::ColumnName(_)) && !is_default(value) {
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
            let of = &columns[first..];
            if let ast::AssignmentTarget::ColumnName(_) = target {
                values.push(NewValue::One(self.new_value(table, of[0], value, scope)?));
                continue;
            }
            let differ = || {
                let message = "number of columns does not match number of values";
                self.at_expr(SqlError::new(SqlState::SYNTAX_ERROR, message), value)
            };
            // A value in parentheses is no row.
            let parts = match super::subquery::unnested(value) {
                ast::Expr::Tuple(parts) => parts.iter().collect(),
                ast::Expr::Subquery(query) => {
                    let bound = self.subquery(query, scope)?;
                    if bound.columns.len() != of.len() {
                        return Err(differ());
                    }
                    let made = bound.columns.iter().enumerate().zip(of).map(|((from, column), at)| {
                        let place = self.column_start(&query.body, from);
                        self.assigned(table, *at, Typed::new(Expr::Column(from), column.kind).at(place))
                    });
                    let made = made.collect::<SqlResult<_>>()?;
                    // A second row is an error.
                    let plan = Plan::Project { input: Box::new(first_of(bound.plan, 2)), columns: made };
                    let plan = Box::new(self.shared(plan, bound.names));
                    values.push(NewValue::Row { plan, width: of.len() });
                    continue;
                }
                ast::Expr::Function(row) if row.name.to_string().eq_ignore_ascii_case("row") => row_parts(row)?,
                _ => {
                    let message = "source for a multiple-column UPDATE item must be a sub-SELECT or ROW() expression";
                    return Err(self.at_expr(SqlError::new(SqlState::FEATURE_NOT_SUPPORTED, message), value));
                }
            };
            if parts.len() != of.len() {
                return Err(differ());
            }
            for (part, at) in parts.into_iter().zip(of) {
                values.push(NewValue::One(self.new_value(table, *at, part, scope)?));
            }
        }
        Ok(Assignments { columns, values })
    }

    fn new_value(&self, table: &TableInfo, at: usize, value: &ast::Expr, scope: &Scope<'_>) -> SqlResult<Expr> {
        if is_default(value) {
            return self.default(table, at);
        }
        if table.columns[at].identity.is_some_and(|identity| identity.always) {
            let name = &table.columns[at].name;
            let message = format!("column \"{name}\" can only be updated to DEFAULT");
            return Err(SqlError::new(SqlState("428C9"), message)
                .detail(format!("Column \"{name}\" is an identity column defined as GENERATED ALWAYS.")));
        }
        self.assigned(table, at, self.expr(value, scope)?)
    }

    fn returning(&self, returning: Option<&[ast::SelectItem]>, scope: &Scope<'_>) -> SqlResult<Returning> {
        let Some(returning) = returning else { return Ok(None) };
        scope.clause.set(Clause::Returning);
        let (mut columns, values): (Vec<_>, Vec<_>) = self.projection(returning, scope)?.into_iter().unzip();
        columns.iter_mut().for_each(|column: &mut ColumnInfo| column.kind = super::settled(column.kind));
        Ok(Some((columns, values)))
    }
}

fn written(change: Change, returning: Returning) -> Written {
    let (columns, returning) = returning.unzip();
    Written { modify: Modify { change, returning, with: Vec::new() }, columns }
}

/// A table by itself, as names see it.
pub(super) fn table_relation(table: &Arc<TableInfo>, alias: String, first: usize) -> Relation {
    Relation::new(alias, columns_of(table), first, Some(table))
}

/// The columns that the condition and the new values look at; nothing if queries in them may look at any.
fn needed(target: &Target, values: &[NewValue]) -> Option<Vec<usize>> {
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
    // The row's id is no column of the table.
    columns.retain(|at| *at < target.table.columns.len());
    Some(columns)
}

/// The select list that makes a plan's rows.
fn listed(plan: &mut Plan) -> Option<&mut Vec<Expr>> {
    match plan {
        Plan::Project { columns, .. } => Some(columns),
        Plan::Limit { input, .. } | Plan::Sort { input, .. } => listed(input),
        _ => None,
    }
}

/// How bad an order of nested loops is: whole tables that are gone through again and again, then whole tables.
fn scans(plan: &Plan) -> (usize, usize) {
    let Plan::Joins(joins) = plan else { return (0, 0) };
    let is_scan =
        |step: &&Step| matches!(step.source, Source::Table { access: Access::All, .. }) && step.kept.is_none();
    (joins.steps.iter().skip(1).filter(is_scan).count(), joins.steps.iter().filter(is_scan).count())
}

/// The values of `ROW(...)`.
fn row_parts(row: &ast::Function) -> SqlResult<Vec<&ast::Expr>> {
    let ast::FunctionArguments::List(list) = &row.args else { return Err(SqlError::unsupported("this ROW")) };
    list.args
        .iter()
        .map(|arg| match arg {
            ast::FunctionArg::Unnamed(ast::FunctionArgExpr::Expr(part)) => Ok(part),
            _ => Err(SqlError::unsupported("this argument of ROW")),
        })
        .collect()
}

fn is_default(value: &ast::Expr) -> bool {
    matches!(value, ast::Expr::Identifier(ident) if ident.quote_style.is_none() && ident.value.eq_ignore_ascii_case("default"))
}

/// A kind without modifier, for messages.
struct SqlTypeName(Kind);

impl std::fmt::Display for SqlTypeName {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&types::SqlType::from(self.0).name())
    }
}
