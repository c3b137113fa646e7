//! Walk over the parts of a tree, in the order of the text.

use super::{
    Arbiter, CommonStatement, CommonTable, Distinct, Expr, ExprKind, FrameBound, FromItem, GroupItem, Indirection,
    InsertSource, JoinCondition, Limit, ObjectName, OnConflictAction, Over, QuantifiedOf, Query, QueryBody, RowCount,
    Select, SelectItem, SortBy, Statement, TableItem, WindowSpec, With,
};
use super::{Assignment, Delete, Insert, InsertColumn, Update};

/// Visitor of a tree. Each method is called before the parts of its argument are visited, unless its documentation
/// differs.
pub trait Visitor {
    /// Called for an expression.
    fn expr(&mut self, _expr: &Expr) {}
    /// Called for an item of a list of columns.
    fn select_item(&mut self, _item: &SelectItem) {}
    /// Called for the name of a table or a view.
    fn relation(&mut self, _name: &ObjectName) {}
    /// Called for the `WITH` of a statement.
    fn with_begins(&mut self, _with: &With) {}
    /// Called at the end of a query of `WITH`, whose parts have been visited.
    fn common_table_ends(&mut self, _table: &CommonTable) {}
    /// Called at the end of the statement that the `WITH` belongs to.
    fn with_ends(&mut self, _with: &With) {}
}

/// Visits a query.
pub fn query(query: &Query, visitor: &mut dyn Visitor) {
    let Query { with, body, order_by, limit, locking, span: _ } = query;
    with_clause(with.as_ref(), visitor);
    match body {
        QueryBody::Select(body) => select(body, visitor),
        QueryBody::Values(rows) => rows.iter().for_each(|row| exprs(row, visitor)),
        QueryBody::SetOperation { operator: _, is_all: _, left, right } => {
            self::query(left, visitor);
            self::query(right, visitor);
        }
    }
    sort_keys(order_by, visitor);
    let Limit { count, offset, with_ties: _ } = limit;
    if let Some(RowCount::Expr(count)) = count {
        expr(count, visitor);
    }
    exprs(offset, visitor);
    // Tables that `FOR UPDATE OF` names are items of FROM, not relations.
    let _ = locking;
    with_end(with.as_ref(), visitor);
}

fn with_clause(with: Option<&With>, visitor: &mut dyn Visitor) {
    let Some(with) = with else { return };
    visitor.with_begins(with);
    for table in &with.tables {
        common_statement(&table.statement, visitor);
        visitor.common_table_ends(table);
    }
}

/// Visits the statement of a query of `WITH`.
pub fn common_statement(statement: &CommonStatement, visitor: &mut dyn Visitor) {
    match statement {
        CommonStatement::Query(inner) => query(inner, visitor),
        CommonStatement::Insert(inner) => insert(inner, visitor),
        CommonStatement::Update(inner) => update(inner, visitor),
        CommonStatement::Delete(inner) => delete(inner, visitor),
        CommonStatement::Unsupported(_) => {}
    }
}

fn with_end(with: Option<&With>, visitor: &mut dyn Visitor) {
    if let Some(with) = with {
        visitor.with_ends(with);
    }
}

fn select(select: &Select, visitor: &mut dyn Visitor) {
    let Select { distinct, list, into: _, from, condition, group_by, is_group_distinct: _, having, windows } = select;
    if let Distinct::On(keys) = distinct {
        exprs(keys, visitor);
    }
    select_list(list, visitor);
    from.iter().for_each(|item| from_item(item, visitor));
    exprs(condition, visitor);
    group_by.iter().for_each(|item| group_item(item, visitor));
    exprs(having, visitor);
    windows.iter().for_each(|named| window(&named.window, visitor));
}

fn select_list(list: &[SelectItem], visitor: &mut dyn Visitor) {
    for item in list {
        visitor.select_item(item);
        expr(&item.value, visitor);
    }
}

fn group_item(item: &GroupItem, visitor: &mut dyn Visitor) {
    match item {
        GroupItem::Expr(key) => expr(key, visitor),
        GroupItem::Empty(_) => {}
        GroupItem::Rollup(keys, _) | GroupItem::Cube(keys, _) => exprs(keys, visitor),
        GroupItem::Sets(items, _) => items.iter().for_each(|item| group_item(item, visitor)),
    }
}

fn from_item(item: &FromItem, visitor: &mut dyn Visitor) {
    match item {
        FromItem::Table(item) => table(item, visitor),
        FromItem::Query { query: inner, alias: _, is_lateral: _, span: _ } => query(inner, visitor),
        FromItem::Functions { functions, .. } => functions.iter().for_each(|item| expr(&item.call, visitor)),
        FromItem::Join(join) => {
            from_item(&join.left, visitor);
            from_item(&join.right, visitor);
            if let JoinCondition::On(condition) = &join.condition {
                expr(condition, visitor);
            }
        }
        FromItem::Unsupported(..) => {}
    }
}

fn table(item: &TableItem, visitor: &mut dyn Visitor) {
    visitor.relation(&item.name);
}

fn sort_keys(keys: &[SortBy], visitor: &mut dyn Visitor) {
    keys.iter().for_each(|key| expr(&key.value, visitor));
}

fn window(window: &WindowSpec, visitor: &mut dyn Visitor) {
    exprs(&window.partition_by, visitor);
    sort_keys(&window.order_by, visitor);
    let bounds = window.frame.iter().flat_map(|frame| std::iter::once(&frame.start).chain(&frame.end));
    for bound in bounds {
        match bound {
            FrameBound::Preceding(offset) | FrameBound::Following(offset) => expr(offset, visitor),
            FrameBound::UnboundedPreceding | FrameBound::CurrentRow | FrameBound::UnboundedFollowing => {}
        }
    }
}

fn insert(insert: &Insert, visitor: &mut dyn Visitor) {
    let Insert { with, table: item, columns, overriding: _, source, on_conflict, returning, span: _ } = insert;
    with_clause(with.as_ref(), visitor);
    table(item, visitor);
    columns.iter().for_each(|column| target(column, visitor));
    if let InsertSource::Query(source) = source {
        query(source, visitor);
    }
    if let Some(clause) = on_conflict {
        if let Arbiter::Index { keys, predicate, span: _ } = &clause.arbiter {
            keys.iter().for_each(|key| expr(&key.value, visitor));
            exprs(predicate, visitor);
        }
        if let OnConflictAction::Update(changes, condition) = &clause.action {
            assignments(changes, visitor);
            exprs(condition, visitor);
        }
    }
    select_list(returning, visitor);
    with_end(with.as_ref(), visitor);
}

fn update(update: &Update, visitor: &mut dyn Visitor) {
    let Update { with, table: item, assignments: changes, from, condition, returning, span: _ } = update;
    with_clause(with.as_ref(), visitor);
    table(item, visitor);
    assignments(changes, visitor);
    from.iter().for_each(|item| from_item(item, visitor));
    exprs(condition, visitor);
    select_list(returning, visitor);
    with_end(with.as_ref(), visitor);
}

fn delete(delete: &Delete, visitor: &mut dyn Visitor) {
    let Delete { with, table: item, using, condition, returning, span: _ } = delete;
    with_clause(with.as_ref(), visitor);
    table(item, visitor);
    using.iter().for_each(|item| from_item(item, visitor));
    exprs(condition, visitor);
    select_list(returning, visitor);
    with_end(with.as_ref(), visitor);
}

fn assignments(changes: &[Assignment], visitor: &mut dyn Visitor) {
    for change in changes {
        change.columns.iter().for_each(|column| target(column, visitor));
        expr(&change.value, visitor);
    }
}

fn target(column: &InsertColumn, visitor: &mut dyn Visitor) {
    steps(&column.steps, visitor);
}

fn steps(steps: &[Indirection], visitor: &mut dyn Visitor) {
    for step in steps {
        match step {
            Indirection::Field(_) | Indirection::All(_) => {}
            Indirection::Element(index) => expr(index, visitor),
            Indirection::Slice(lower, upper) => {
                [lower, upper].into_iter().flatten().for_each(|bound| expr(bound, visitor));
            }
        }
    }
}

fn exprs<'e>(all: impl IntoIterator<Item = &'e Expr>, visitor: &mut dyn Visitor) {
    all.into_iter().for_each(|one| expr(one, visitor));
}

/// Visits an expression.
pub fn expr(expr: &Expr, visitor: &mut dyn Visitor) {
    let one = self::expr;
    visitor.expr(expr);
    match &expr.kind {
        // These contain no expressions.
        ExprKind::Constant(_)
        | ExprKind::Parameter(_)
        | ExprKind::Column(_)
        | ExprKind::AllColumns(_)
        | ExprKind::Session(_)
        | ExprKind::Default
        | ExprKind::CurrentOf(_)
        | ExprKind::Unsupported(_) => {}
        ExprKind::Indirection { of, steps: path } => {
            one(of, visitor);
            steps(path, visitor);
        }
        ExprKind::Cast { value, .. }
        | ExprKind::Collate { value, .. }
        | ExprKind::Not(value)
        | ExprKind::Prefix { operator: _, operand: value }
        | ExprKind::Is { value, .. } => one(value, visitor),
        ExprKind::Infix { left, operator: _, right } | ExprKind::IsDistinct { left, right, .. } => {
            one(left, visitor);
            one(right, visitor);
        }
        ExprKind::And(parts)
        | ExprKind::Or(parts)
        | ExprKind::Array(parts)
        | ExprKind::Row { fields: parts, is_explicit: _ }
        | ExprKind::Coalesce(parts)
        | ExprKind::Greatest(parts)
        | ExprKind::Least(parts)
        | ExprKind::Grouping(parts) => exprs(parts, visitor),
        ExprKind::NullIf(parts) => exprs(&**parts, visitor),
        ExprKind::Like { kind: _, value, pattern, escape, .. } => {
            one(value, visitor);
            one(pattern, visitor);
            exprs(escape.as_deref(), visitor);
        }
        ExprKind::Between { value, low, high, .. } => exprs([&**value, low, high], visitor),
        ExprKind::InList { value, list, .. } => {
            one(value, visitor);
            exprs(list, visitor);
        }
        ExprKind::InQuery { value, query: inner, .. } => {
            one(value, visitor);
            query(inner, visitor);
        }
        ExprKind::Quantified { value, operator: _, quantifier: _, of } => {
            one(value, visitor);
            match &**of {
                QuantifiedOf::Query(inner) => query(inner, visitor),
                QuantifiedOf::Array(array) => one(array, visitor),
            }
        }
        ExprKind::Subquery(inner) | ExprKind::Exists(inner) | ExprKind::ArrayQuery(inner) => query(inner, visitor),
        ExprKind::Case { operand, branches, otherwise } => {
            exprs(operand.as_deref(), visitor);
            for branch in branches {
                exprs([&branch.condition, &branch.value], visitor);
            }
            exprs(otherwise.as_deref(), visitor);
        }
        ExprKind::Call(call) => {
            call.arguments.iter().for_each(|argument| one(&argument.value, visitor));
            sort_keys(&call.order_by, visitor);
            exprs(call.filter.as_deref(), visitor);
            if let Some(Over::Spec(spec)) = &call.over {
                window(spec, visitor);
            }
        }
    }
}

/// Visits a statement that reads or changes rows; others have no parts to visit.
pub fn statement(statement: &Statement, visitor: &mut dyn Visitor) {
    match statement {
        Statement::Query(inner) => query(inner, visitor),
        Statement::Insert(inner) => insert(inner, visitor),
        Statement::Update(inner) => update(inner, visitor),
        Statement::Delete(inner) => delete(inner, visitor),
        _ => {}
    }
}
